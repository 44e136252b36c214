"""Public names say what they are and every parameter that they take, in sections as numpydoc has them."""

import importlib
import inspect
import re
from pathlib import Path
from typing import Protocol

import pytest
from numpydoc.validate import validate

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


def public_things():
    """What users import, by full names: of the packages, of the reference, and methods of estimators."""
    found = {}
    for name in ("secfc", "secfc.privacy", "psu", "field", "secfc.estimators"):
        package = pytest.importorskip(name)
        found |= {
            f"{thing.__module__}.{thing.__qualname__}": thing
            for thing in (getattr(package, name) for name in package.__all__)
            if inspect.isroutine(thing)
            or (inspect.isclass(thing) and thing.__module__ != "builtins" and Protocol not in thing.__bases__)
        }
    for page in Path(__file__).parent.parent.glob("docs/api/*.md"):
        for name in re.findall("^::: (.+)$", page.read_text(), re.MULTILINE):
            place, _, last = name.rpartition(".")
            found[name] = getattr(importlib.import_module(place), last)
    base = importlib.import_module("secfc.estimators.base").Federated
    return found | {f"{base.__module__}.Federated.{name}": getattr(base, name) for name in ("fit", "predict")}


THINGS = public_things()
# How no summary and no entry begins: a pronoun or preposition without the noun that it needs.
VAGUE = re.compile(r"(The same|Of|That|Those|It|Its|I|As there|So many|What of|By it)\b")


@pytest.mark.parametrize("name", sorted(THINGS))
def test_a_public_name_says_all_its_parameters_in_order(name):
    assert faults(name) == []


@pytest.mark.parametrize("name", sorted(THINGS))
def test_a_public_name_says_what_it_is_and_takes_in_phrases_with_a_noun(name):
    assert len(inspect.getdoc(THINGS[name]).partition("\n")[0].split()) >= 3
    assert vague_entries(THINGS[name]) == []


def vague_entries(thing):
    """The summary, and entries of sections, that begin with a word which needs another sentence's noun."""
    text = inspect.getdoc(thing)
    entries = re.findall(r"^\S.*\n    (\S.*)$", text.partition("\nExamples\n")[0], re.MULTILINE)
    return [line for line in (text.partition("\n")[0], *entries) if VAGUE.match(line)]


def test_an_entry_without_a_noun_is_found():
    def thing():
        """Rows of it.

        Parameters
        ----------
        rows
            Of all clients.
        seed
            Offset of starts.
        """

    assert vague_entries(thing) == ["Of all clients."]


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


TYPED = """
import numpy as np, secfc
from secfc.estimators import DPKMeans, SecFCKMeans
secfc.SecFC(k=3, threshold=1, disclosure="own-labels", init="random", membership="private")
secfc.SecFC(k="2..5", quantization=secfc.Quantization(centers="rounded", coarse="allow"))
secfc.Lloyd(3, init="bisecting")
SecFCKMeans("auto", disclosure="own-labels", missing="drop", scale_features="robust").fit(np.zeros((3, 2)))
DPKMeans(3, noise="server")
secfc.FederatedLloyd(3, start="max-min")
secfc.Overlap1(3, start="constrained")
secfc.fit(secfc.SecFC(k=3), [np.zeros((3, 2))], scale_features="robust", missing="mean")
"""
WRONG = """
import secfc
from secfc.estimators import SecFCKMeans
secfc.SecFC(k=3, disclosure="own_labels")
secfc.SecFC(k=3, init="kmeans++")
SecFCKMeans(3, disclosure="secret")
SecFCKMeans(3, missing="fill")
secfc.FederatedLloyd(3, start="min-max")
secfc.fit(secfc.SecFC(k=3), [[[0.0]]], scale_features="zscore")
secfc.fit(secfc.SecFC(k=3), [[[0.0]]], missing="fill")
"""


@pytest.mark.nightly
def test_words_that_stand_for_values_pass_type_checkers_and_others_do_not(tmp_path):
    api = pytest.importorskip("mypy.api")
    for name, text, wrong in (("typed.py", TYPED, 0), ("wrong.py", WRONG, 7)):
        (tmp_path / name).write_text(text)
        said, _, code = api.run(["--strict", "--config-file", "pyproject.toml", str(tmp_path / name)])
        assert (said.count("error:"), code) == (wrong, int(wrong > 0)), said


def test_no_signature_of_an_estimator_says_any():
    import secfc.estimators as estimators
    from secfc.estimators.base import Federated

    classes = [one for one in vars(estimators).values() if isinstance(one, type)]
    assert Federated in {base for one in classes for base in one.__mro__}
    for one in classes:
        for name in ("__init__", "fit", "predict", "save", "load"):
            said = inspect.get_annotations(getattr(one, name, None) or one.predict)
            assert not [key for key, kind in said.items() if "Any" in str(kind)], (one, name)
