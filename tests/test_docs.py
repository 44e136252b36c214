"""The site's pages: tables are those of the code, and what they say of a run is what a run shows."""

import doctest
import html
import importlib
import re
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from docs import pictures
from docs.tables import TABLES, between
from docs.ways import POLICIES, columns_apart, federation, leaves, said, way_of
from secfc.algorithm import PublicFacts
from secfc.attacks.views import CannotDecode, View
from secfc.cli import main
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.privacy import Budget
from secfc.roles.exchange import SERVER
from secfc.roles.messages import FinalResult
from tests.browser import CHROMIUM, FAULTS, Browser, complaints, served
from tests.nightly import every
from tests.test_readme import PAGES

ROOT = Path(__file__).parent.parent
SITE = (ROOT / "mkdocs.yml").read_text()


@pytest.mark.parametrize(("page", "name"), TABLES)
def test_a_table_from_code_is_what_the_code_says(page, name):
    """If this fails: python -m docs.tables."""
    written = between(name).search((ROOT / page).read_text())[0]
    assert TABLES[page, name]().strip() in written


@pytest.mark.parametrize("code", ["OwnLabels()", "AssignmentsOnly()"])
def test_what_joined_columns_say_before_a_run_is_what_the_run_shows(code):
    server, clients = said(POLICIES[code], {"membership": secfc.Joined()})
    way = replace(way_of(POLICIES[code]), membership=secfc.Joined())
    result = secfc.fit(way, columns_apart(), seed=0)
    assert result.learned == server
    assert ("of other points no label" in clients[0]) == (code == "OwnLabels()") == (len(result.history) == 0)


def test_a_server_that_decodes_distances_has_no_clients_compare_them():
    decoding = [code for code, policy in POLICIES.items() if not policy.capabilities.compares]
    assert decoding == ["Distances()", "NoiseInShares(Budget(8, 1e-6), ...)"]


@pytest.mark.parametrize("code", every(2, POLICIES))
def test_what_a_policy_says_before_a_run_is_what_the_run_shows(code):
    policy, data = POLICIES[code], federation()
    server, clients = said(policy)
    result = secfc.fit(way_of(policy), data, seed=0, bound=4.0, keep_bodies=True)
    assert result.learned == server
    # Labels and sizes of steps are open exactly where the table has them.
    of_few = {"sizes": 0, "noisy sums": 0, "steps": 1, "nothing": 2}
    open_steps = of_few.get(policy.capabilities.exposes, result.n_iter + 1)
    assert result.n_iter > 1
    assert len(result.history) == open_steps
    hides = policy.capabilities.exposes in ("sizes", "steps", "noisy sums")
    seen = View.of(result, result.plan, SERVER).messages
    assert any(isinstance(e.body, FinalResult) for e in seen) != hides
    assert ("of other points no label" in clients[0]) == hides
    # And so are distances: read off the server's own view.
    seen = DecodedView.of(result, result.plan, SERVER)
    question = next(iter(seen.questions()))
    if policy.capabilities.compares:
        with pytest.raises(CannotDecode):
            seen.distances(question)
        return
    found, near = seen.distances(question), true_distances(result, question, data)
    assert np.allclose(found, near, equal_nan=True) == (policy.capabilities.exposes == "distances")


def true_distances(result, question, data):
    """Of all points, as they were rounded, to the means of the question's clusters."""
    points = result.plan.quantizer(data.stacked()) / result.plan.quantizer.scale
    means = [points[question.labels == h].mean(axis=0) for h in range(result.plan.k)]
    return ((points[None] - np.array(means)[:, None]) ** 2).sum(axis=2)


@pytest.mark.parametrize("leaf", leaves(), ids=lambda leaf: leaf.code)
def test_every_end_of_the_decision_tree_is_a_value(leaf):
    names = {name: getattr(secfc, name) for name in secfc._HOME} | {"Budget": Budget}
    value = POLICIES[leaf.code] if "..." in leaf.code else eval(leaf.code, names)
    if isinstance(value, secfc.FederatedLloyd):
        value.plan(PublicFacts.of(federation(), 4.0))
    elif not isinstance(value, secfc.FedDPKMeans):
        way_of(value).plan(PublicFacts.of(federation(), 4.0))
    assert (ROOT / "docs" / leaf.page.partition("#")[0]).exists()


def test_pictures_are_drawn_from_what_they_show():
    """If this fails: python -m docs.pictures."""
    drawn = {
        "choose": pictures.choose(),
        "columns": pictures.who_has_columns(),
        "density": pictures.density(),
        "who_sends_what": pictures.who_sends_what(),
    }
    for name, svg in drawn.items():
        assert (pictures.PLACE / f"{name}.svg").read_text() == svg
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")


def too_wide(svg):
    """Words in boxes of the tree that are wider than their box, as DejaVu Sans has them."""
    paths = pytest.importorskip("matplotlib.textpath", reason="widths of words need the extra `plot`")
    leaf = r'class="box leaf" x="([\d.]+)".*? width="([\d.]+)".*?\n<text class="bold".*?\n'
    box = leaf + r'<text class="small" x="([\d.]+)".*?>(.*?)<'
    for x, width, start, words in re.findall(box, svg):
        end = float(start) + paths.TextPath((0, 0), html.unescape(words), size=15).get_extents().width
        if end > float(x) + float(width):
            yield words


def test_what_the_tree_says_fits_its_boxes():
    svg = pictures.choose()
    assert svg.count("box leaf") > 8
    assert list(too_wide(svg)) == []
    assert len(list(too_wide(svg.replace("labels at the start", "labels " * 20)))) == 1


def test_pictures_of_screens_are_small():
    """If this fails: python -m docs.pictures --screens."""
    assert {path.stem for path in pictures.PLACE.glob("*.png")} == set(pictures.SCREENS)
    assert all(path.stat().st_size < 60_000 for path in pictures.PLACE.glob("*.png"))


def test_every_page_is_in_the_navigation():
    """A page that is new has its line in mkdocs.yml."""
    assert sorted(PAGES) == sorted(re.findall(r"[\w/.]+\.md$", SITE, re.MULTILINE))
    # Each with a title of its own in the menu: the theme's section indexes stand behind a section's name.
    menu = SITE.partition("\nnav:")[2]
    assert "navigation.indexes" not in SITE
    assert not re.findall(r"^ *- [\w/.]+\.md$", menu, re.MULTILINE)
    titles = re.findall(r"^ *- \"?(.+?)\"?: [\w/.]+\.md$", menu, re.MULTILINE)
    assert len(titles) == len(set(titles)) == len(PAGES)


def test_every_term_of_the_glossary_is_an_anchor_of_its_own():
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    pytest.importorskip("latex2mathml", reason="the site needs the extra `docs`")
    from docs.hooks import link_terms

    assert link_terms("a **Hub**.") == 'a <strong id="hub">Hub</strong>.'
    names = re.findall(r'id="([^"]*)"', link_terms((ROOT / "docs/glossary.md").read_text()))
    assert len(names) > 40
    assert all(names)
    assert len(set(names)) == len(names)


def test_every_public_name_is_in_the_reference():
    text = "".join(path.read_text() for path in ROOT.glob("docs/api/*.md"))
    for name in secfc._HOME:
        kind = getattr(secfc, name)
        assert f"::: {kind.__module__}.{kind.__qualname__}\n" in text, name


def test_every_problem_has_a_line():
    from secfc.errors import PROBLEMS

    page = (ROOT / "secfc/deploy/problems.md").read_text()
    for name, number in PROBLEMS.items():
        assert f"| SECFC-{number} | `{name}` |" in page


EXAMPLES = sorted(
    path.relative_to(ROOT).as_posix() for path in ROOT.glob("secfc/**/*.py") if ">>>" in path.read_text()
)


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_in_docstrings_say_what_comes_out(path):
    if path == "secfc/data/parted_rows.py":
        pytest.importorskip("dask", reason="its example needs the extra `dask`")
    module = importlib.import_module(path[:-3].replace("/", ".").removesuffix(".__init__"))
    done = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert done.attempted
    assert not done.failed


@pytest.mark.nightly
def test_the_sample_for_officers_is_what_its_command_makes(tmp_path, monkeypatch):
    """If this fails: run the command of secfc/planning/README.md, and keep what it writes."""
    page = (ROOT / "secfc/planning/README.md").read_text()
    (command,) = re.findall(r"^secfc (plan .* --officer sample.html .*(?:\n    .*)*)", page, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, shlex.split(command.replace("\\\n", " ")))
    assert done.exit_code == 0, done.output
    assert Path("sample.html").read_text() == (ROOT / "docs/officer_sample.html").read_text()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The site, as CI builds it."""
    pytest.importorskip("mkdocs", reason="the site needs the extra `docs`")
    place = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(place)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    return place


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_shows_every_page_within_its_width_and_fetches_nothing(site, width, tmp_path):
    pages = sorted(path.parent.relative_to(site).as_posix() + "/" for path in site.glob("**/index.html"))
    assert len(pages) >= len(PAGES)
    assert complaints(site, pages, width, tmp_path) == []


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("dark", [False, True])
def test_the_site_is_legible_light_and_dark_and_whole_on_paper(site, dark, tmp_path):
    pages = sorted(path.parent.relative_to(site).as_posix() + "/" for path in site.glob("**/index.html"))
    with served(site) as home, Browser(tmp_path) as browser:
        for width, paper in ((1280, False), (420, False), (718, True)):
            for page in pages:
                browser.show(f"{home}/{page}", width, dark=dark, paper=paper)
                assert browser.evaluate("document.body.dataset.mdColorScheme") == (
                    "slate" if dark else "default"
                )
                # Docstrings name options in plain words, which lines may break at their hyphens.
                faults = [fault for fault in browser.evaluate(FAULTS) if not fault[2].startswith("--")]
                assert faults == [], (page, width, paper)


# That nobody has a distance is true of those of points: a start tells some between means of clusters.
CLAIM = re.compile(
    r"\b(?:no|nothing (?:of|about)|never an?|without (?:an?|any)|hidden|hides?) distances?\b"
    r"(?! (?:of (?:an? |any |the )?points?|to (?:the )?centers|from|wraps))"
    r"|(?<!of )\bdistances? that (?:nobody|no one|no party)\b"
    r"|\bnobody (?:\w+ )?(?:a |any |the )?distances?\b(?! of)",
    re.IGNORECASE,
)


def test_no_text_says_that_distances_are_hidden_but_those_of_points():
    assert all(
        map(
            CLAIM.search,
            ("opens no distance,", "nothing of distances", "distances that nobody has"),
        )
    )
    assert not CLAIM.search("no distance of a point, hidden distances of points")
    told = [
        path for folder in ("secfc", "docs", "psu", "benchmarks") for path in (ROOT / folder).rglob("*")
        if path.suffix in (".md", ".py", ".jinja", ".svg", ".ipynb", ".html", ".toml")
    ]  # fmt: skip
    found = [
        (str(path.relative_to(ROOT)), claim.group())
        for path in (*told, *ROOT.glob("*.md"), ROOT / "mkdocs.yml")
        for claim in CLAIM.finditer(re.sub(r"[\s#\"*`]+", " ", path.read_text()))
    ]
    assert len(told) > 400
    assert found == []


@pytest.mark.parametrize("page", ["docs/who_learns_what.md", "docs/compare.md", "README.md"])
def test_who_learns_no_distance_of_a_point_is_told_what_a_start_gains(page):
    rows = [line for line in (ROOT / page).read_text().splitlines() if line.startswith("|")]
    names = [(row, row.split("|")[1]) for row in rows]
    default = next(row for row, name in names if "default" in name or "`AssignmentsOnly()`" in name)
    assert re.search("split.* gain|reduction in cost of each split|gains of splits", default)
    assert "distance" in default
