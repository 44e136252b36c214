"""Public names say what they are and every parameter that they take, in sections as numpydoc has them."""

import inspect

import pytest
from numpydoc.validate import validate

import secfc

# Those of numpydoc's checks that say that something is missing or wrong: no docstring or summary (GL08, SS01), a
# summary without a full stop or of several lines (SS03, SS06), unknown or disordered sections (GL06, GL07),
# parameters that are missing, unknown, disordered, without a text or a full stop (PR01, PR02, PR03, PR07, PR09), and
# returns that are not said, or without a text (RT01, RT03).  Left out are types, which stand in annotations (PR04),
# what not every name needs (EX01, ES01, SA01), and matters of form: quotes (GL01, GL02) and capitals of names that
# begin small (SS02, PR08).
CHECKS = set("GL06 GL07 GL08 SS01 SS03 SS06 PR01 PR02 PR03 PR07 PR09 RT01 RT03".split())


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
