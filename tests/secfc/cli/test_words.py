"""What a caller may write where a value is due, and what is said of what gives less than it seems to."""

from __future__ import annotations

import html
import pydoc
import re
import warnings
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import secfc
from secfc.algorithm import PublicFacts
from secfc.coded_kmeans import parameters
from secfc.coded_kmeans.parameters import choose_code
from secfc.data.inputs import build_algorithm
from tests.small import invoke


@pytest.mark.parametrize("way", [secfc.SecFC, secfc.Lloyd])
@pytest.mark.parametrize(
    ("word", "value"),
    [("k-means++", secfc.KMeansPlusPlus()), ("random", secfc.RandomLabels()),
     ("center_separation", secfc.CenterSeparation()), ("Random-Points", secfc.RandomPoints())],
)  # fmt: skip
def test_a_start_may_be_a_word(way, word, value):
    assert way(2, init=word, **({"threshold": 1} if way is secfc.SecFC else {})).init == value


def test_policies_and_memberships_may_be_words():
    way = secfc.SecFC(2, 1, disclosure="distances", membership="private")
    assert (way.disclosure, way.membership) == (secfc.Distances(), secfc.Private())
    assert secfc.SecFC(2, 1, disclosure="final labels").disclosure == secfc.FinalLabelsOnly()
    assert secfc.SecFC(2, 1, disclosure="own labels").disclosure == secfc.OwnLabels()
    assert secfc.Lloyd(2, disclosure="distances").disclosure == secfc.Distances()


def test_a_fit_takes_words_as_it_takes_values():
    federation = secfc.Federation.from_arrays(np.random.default_rng(0).normal(size=(3, 20, 2)))
    ways = (
        secfc.SecFC(2, 1, init="k-means++", disclosure="distances"),
        secfc.SecFC(2, 1, init=secfc.KMeansPlusPlus(), disclosure=secfc.Distances()),
    )
    first, second = (secfc.fit(way, federation, seed=1) for way in ways)
    np.testing.assert_array_equal(first.flat, second.flat)


@pytest.mark.parametrize(
    ("given", "due"),
    [({"init": "best"}, "'k-means++'"), ({"init": 7}, "KMeansPlusPlus()"),
     ({"init": secfc.KMeansPlusPlus}, "is a class: build the value, KMeansPlusPlus"),
     ({"disclosure": "everything"}, "'final-labels'"), ({"disclosure": secfc.Distances}, "is a class"),
     ({"membership": None}, "Private()"), ({"membership": secfc.Distances()}, "'private'")],
)  # fmt: skip
def test_what_is_neither_is_refused_with_what_is_due(given, due):
    with pytest.raises(secfc.InputError) as error:
        build_algorithm(secfc.SecFC, k=2, t=1, **given)
    assert due in str(error.value)


def test_every_word_stands_for_a_value_that_is_taken_as_it_is():
    for table, meant in (
        (parameters.STARTS, parameters.parse_start),
        (parameters.DISCLOSURES, parameters.parse_disclosure),
        (parameters.MEMBERSHIPS, parameters.parse_membership),
    ):
        for word, value in table.items():
            assert meant(word) is meant(value) is value


def test_no_noise_is_a_caution_from_python_too():
    public = PublicFacts(("a", "b"), (3, 3), 2, 8.0)
    with pytest.warns(secfc.Caution, match="t=0 protects nobody"):
        secfc.SecFC(2, 0).plan(public)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        secfc.SecFC(2, 0, disclosure="distances").plan(
            PublicFacts(("a",), (6,), 2, 8.0)
        )  # nobody else is there


def test_help_and_completion_show_all_public_names():
    assert {name for name in dir(secfc) if not name.startswith("__")} == {*secfc.__all__} - {"__version__"}
    shown = pydoc.render_doc(secfc, renderer=pydoc.plaintext)
    for phrase in ("class SecFC", "Exact secure k-means", "class Federation", "fit(algorithm"):
        assert phrase in shown, phrase


@pytest.mark.parametrize("bound", [1e200, 1e308, 1e-200])
def test_a_bound_whose_squares_are_no_floats_is_refused(bound):
    federation = secfc.Federation.from_arrays([[[0.0]], [[0.0]], [[0.0]]])
    for way in (
        secfc.SecFC(1, 1),
        secfc.SecFC(1, 1, release=secfc.Release(reveal_centers=True)),
        secfc.Lloyd(1),
    ):
        with pytest.raises(secfc.InputError, match="rescale the data"):
            secfc.fit(way, federation, bound=bound)


@pytest.mark.parametrize("way", [{}, {"disclosure": "final-labels"}, {"membership": "private"}, {"ell": 2}])
@pytest.mark.parametrize("n", [5, 8, 13])
def test_an_open_t_is_chosen_as_the_shell_chooses_it(n, way):
    from field.compare.replicated import MAX_T

    undealt = way.get("disclosure") == "final-labels"
    t, *_ = choose_code(n, None, way.get("ell"), most=MAX_T if undealt else None)
    chosen = build_algorithm(secfc.SecFC, k=2, **way).restrict_clients(tuple(map(str, range(n))))
    assert chosen.threshold.t == t
    assert chosen == build_algorithm(secfc.SecFC, k=2, t=t, **way)


def test_too_few_clients_for_any_t_are_told():
    with pytest.raises(secfc.InputError, match=r"n=2 clients .* 3 are needed\. Add clients"):
        secfc.fit(secfc.SecFC(2), [np.eye(3), np.eye(3)])


def test_lists_and_mappings_are_taken_where_a_federation_is_due():
    arrays = list(np.random.default_rng(0).normal(size=(4, 20, 2)))
    way = secfc.SecFC(2, disclosure="distances")
    result = secfc.fit(way, secfc.Federation.from_arrays(arrays))
    named = {f"h{j}": array for j, array in enumerate(arrays)}
    for data in arrays, tuple(arrays), np.stack(arrays), (a for a in arrays), named, result_parties(named):
        same = secfc.fit(way, data)
        np.testing.assert_array_equal(same.flat, result.flat)
    assert same.plan.clients == ("h0", "h1", "h2", "h3")
    for data in arrays, named:
        np.testing.assert_array_equal(np.concatenate(same.predict(data)), result.flat)
    # Under roles that run by themselves every party makes the plan, with the t that follows.
    assert (result.plan.code.t, secfc.fit(secfc.Scaled(way), arrays).plan.code.t) == (1, 1)


def result_parties(named):
    return [secfc.Party(name, array) for name, array in named.items()]


def test_a_notebook_shows_a_result_and_no_label():
    arrays = [np.eye(3) + j for j in range(3)]
    result = secfc.fit(secfc.SecFC(2), dict(zip(("a<b>", "b", "c"), arrays, strict=True)))
    shown = result._repr_html_()
    assert "this computer saw the data of all clients" in shown
    assert "&#39;a&lt;b&gt;&#39;" in shown
    assert "a<b>" not in shown  # a name is no markup
    assert all(html.escape(sentence) in shown for sentence in result.learned)
    assert ", ".join(map(str, np.bincount(result.flat))) in shown
    opened = secfc.fit(
        secfc.SecFC(2, release=secfc.Release(reveal_centers=True, smallest_center=9)), arrays
    )._repr_html_()
    assert "closed where few points are: 0" in opened
    parser = ElementTree.fromstring(shown.replace("<br>", "<br/>"))
    assert {element.tag for element in parser.iter()} == {
        "div", "strong", "br", "table", "tr", "th", "td", "ul", "li"
    }  # fmt: skip


def test_examples_are_files_that_the_tutorials_cluster(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    told = invoke("example", "hospitals")
    assert told.exit_code == 0
    assert "next/b.csv" in told.output
    assert "overwrite with --force" in invoke("example", "hospitals").output
    assert invoke("example", "hospitals", "--force").exit_code == 0
    files = [f"hospitals/{name}.csv" for name in "abc"]
    done = invoke(
        "run", *files, "-k", 3, "--id-column", "patient", "--standardize", "--no-verify", "--no-attack"
    )
    page = Path(__file__).parents[3] / "docs/tutorials/01_own_files.md"
    (digest,) = re.findall(r"Same labels ([0-9a-f]{16})", page.read_text())
    assert digest in done.output
