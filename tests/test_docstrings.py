"""Public names say what they are and every parameter that they take, in sections as numpydoc has them."""

import inspect

import pytest
from numpydoc.validate import validate

import secfc

# Those of numpydoc's checks that say that something is missing or wrong.  Left out are types, which stand in
# annotations (PR04), what not every name needs (EX01, ES01, SA01), and matters of form: quotes (GL01, GL02)
# and capitals of names that begin small (SS02, PR08).
CHECKS = {
    "GL06", "GL07",  # sections that there are not, or in another order
    "GL08", "SS01", "SS03", "SS06",  # no docstring or summary; one without a full stop, or of several lines
    "PR01", "PR02", "PR03",  # parameters that are missing, unknown, or in another order
    "PR07", "PR09",  # one without a text, or without a full stop
    "RT01", "RT03",  # what is returned is not said, or without a text
}  # fmt: skip


def faults(name):
    """Codes of what is wrong with the docstring of a name (module and all)."""
    return [code for code, _ in validate(name)["errors"] if code in CHECKS]


@pytest.mark.parametrize("name", sorted(secfc._HOME))
def test_a_public_name_says_all_its_parameters_in_order(name):
    thing = getattr(secfc, name)
    assert faults(f"{thing.__module__}.{thing.__qualname__}") == []


@pytest.mark.parametrize("name", sorted(secfc._HOME))
def test_a_public_name_says_what_it_is_in_a_line(name):
    first, *rest = inspect.getdoc(getattr(secfc, name)).split("\n")
    assert len(first.split()) >= 3
    assert not rest or rest[0] == ""
    assert not first.startswith(("The same", "Of ", "That ", "It ", "I "))


def short_of_one(first, second):
    """Sums up.

    Parameters
    ----------
    first
        One.

    Returns
    -------
    int
        The sum.
    """
    return first + second


def disordered(first, second):
    """Sums up.

    Parameters
    ----------
    second
        Another.
    first

    Returns
    -------
    int
        The sum.
    """
    return first + second


def silent(first):
    """Goes on
    for two lines.
    """
    return first


@pytest.mark.parametrize(
    ("thing", "codes"),
    [
        (short_of_one, ["PR01"]),
        (disordered, ["PR03", "PR07"]),
        (silent, ["SS06", "PR01", "RT01"]),
    ],
)
def test_what_is_missing_is_found(thing, codes):
    assert faults(f"{__name__}.{thing.__name__}") == codes
