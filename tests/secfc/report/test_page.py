"""The report for people: a first line, a dozen lines at the end, and a page for whoever may read what."""

import contextlib
import csv
import json
import re
import socketserver
import subprocess
import threading
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.image import imread

import secfc
from secfc.cli import main
from secfc.report import SIMULATED, make_report
from secfc.report.data import RowCounts
from secfc.report.page import as_html, keep_options_whole
from tests.browser import CHROMIUM, FAULTS, QUIET, Browser
from tests.nightly import by_night, every

NAMES = ("north", "south", "west")


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Three files whose rows, IDs and names of classes are marked."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    for name in NAMES:
        kind = rng.integers(0, 3, 40)
        points = rng.normal(kind[:, None] * [[7.0, 9.0]], 0.5, (40, 2))
        with open(f"{name}.csv", "w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(("patient", "age", "<b>weight</b>", "class"))
            rows.writerows(
                (f"id-{name}-{i}", *p, c) for i, (p, c) in enumerate(zip(points, kind, strict=True))
            )
    return [f"{name}.csv" for name in NAMES]


WAYS = {
    "default": [],
    "own labels": ["--disclosure", "own-labels"],
    "final labels": ["--disclosure", "final-labels", "--max-iter", "3"],
    "distances": ["--disclosure", "distances"],
    "centers": ["--reveal-centers"],
    "noise": ["--epsilon", "6", "--radius", "30"],
    "private": ["--membership", "private"],
    "lloyd": ["--algorithm", "lloyd"],
    "k chosen": ["-k", "2..4"],
    "not converged": ["--max-iter", "1", "--init", "random", "--n-init", "2"],
}


BY_DAY = ("default", "noise", "k chosen", "not converged")


def run_with_pages(files, *words):
    words = [
        "run",
        *files,
        *([] if "-k" in words else ["-k", "3"]),
        "--id-column",
        "patient",
        "--force",
        *words,
    ]
    return CliRunner().invoke(main, [*words, "--label-column", "class"], catch_exceptions=False)


EVERY = [way if way in BY_DAY else pytest.param(way, marks=pytest.mark.nightly) for way in WAYS]


@pytest.mark.parametrize("way", every(2, EVERY))
def test_the_screen_begins_with_who_saw_the_data_and_ends_with_a_dozen_lines(files, way, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    done = run_with_pages(files, *WAYS[way])
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0] == SIMULATED
    last = lines[len(lines) - 1 - lines[::-1].index("") :]  # from the last blank line on
    assert len(last) - 1 <= 12, "\n".join(last)
    assert max(map(len, lines)) <= 80
    assert "More        --verbose, or --report page.html" in last[-1]
    whole = run_with_pages(files, *WAYS[way], "--verbose").output
    assert "Traffic" in whole
    assert "Traffic" not in done.output
    said = "\n".join(line for line in last[1:] if not line.startswith(("Took", "More")))
    if way not in ("noise", "private"):  # whose coins are tossed anew
        for line in said.splitlines():
            assert line in whole, line


def test_what_labels_tell_stands_beside_what_is_known_without_a_run(files):
    said = " ".join(run_with_pages(files).output.split())
    with_labels, without = map(
        float,
        re.search(
            r"outsiders explain ([\d.]+) % of the variance from labels, ([\d.]+) % without", said
        ).groups(),
    )
    # Three clusters far apart: the labels tell nearly all.  Labels of other points tell nearly nothing.
    assert with_labels > 70
    assert without < 5
    found = json.loads(Path("secfc-report.json").read_text())["attack"]["judgements"]
    assert {"labels alone", "labels of other points"} <= set(found)


class Page(HTMLParser):
    """What a page fetches, holds and shows."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.titles, self.words, self.style = [], [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        if tag not in ("meta", "circle", "br"):
            self.open.append(tag)
        self.links += [
            value for name, value in attributes if name in ("src", "href", "data", "action", "poster")
        ]
        self.links += [tag] if tag in ("script", "link", "iframe", "img", "object", "embed", "form") else []

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        elif self.open and self.open[-1] == "h2":
            self.titles.append(data.strip())
        self.words.append(data)


def page(files, *words):
    done = run_with_pages(files, "--report", "page.html", *words)
    assert done.exit_code == 0, done.output
    return Page(Path("page.html").read_text())


@pytest.mark.parametrize("way", EVERY)
def test_a_page_is_one_file_that_fetches_nothing_and_escapes_everything(files, way):
    found = page(files, *WAYS[way])
    assert found.open == []  # every element that was opened was closed
    assert found.links == []
    assert "url(" not in found.style
    assert "@import" not in found.style
    text = Path("page.html").read_text()
    assert "<b>weight" not in text
    assert "&lt;b&gt;weight" in text
    assert not re.search(r"id-(north|south|west)-\d", text)
    assert "May be published" in text
    assert "--verbose" not in text  # what a page leaves out of its first lines stands below


def test_what_only_holders_may_see_is_on_their_page_alone(files):
    everybody = page(files, "--reveal-centers")
    text = Path("page.html").read_text()
    digests = [hashed(name) for name in files]
    center = json.loads(json_report(files))["centers"][0][0]
    assert {"Centers", "Cost", "Picture", "Files"}.isdisjoint(everybody.titles)
    assert "Left out" in text
    for secret in (*digests, f"{center:.5g}", "<circle"):
        assert secret not in text
    holders = page(files, "--reveal-centers", "--readers", "holders")
    text = Path("page.html").read_text()
    assert {"Centers", "Cost", "Picture", "Files"} <= set(holders.titles)
    # What it means, who learned what, and folded how it ran; the picture says what its axes and colors are.
    order = [holders.titles.index(title) for title in ("Picture", "What the server learned", "Traffic")]
    assert order == sorted(order)
    assert text.index("<details") < text.index(">Traffic<") < text.index("</details>")
    assert text.index("What the server learned") < text.index("<details")
    assert re.search(r"mostly .*age.* \(\d+ % of the spread\)", text)
    assert len(re.findall(r"swatch.*?</span>cluster \d, \d+ points", text)) == 3
    for secret in (*digests, f"{center:.5g}", "<circle"):
        assert secret in text
    assert text.count("<circle") == 120


def hashed(name):
    import hashlib

    return hashlib.sha256(Path(name).read_bytes()).hexdigest()


def json_report(files):
    assert run_with_pages(files, "--reveal-centers", "--report", "r.json").exit_code == 0
    return Path("r.json").read_text()


def test_small_clusters_are_told_to_holders_only(files):
    with open("west.csv", "a") as file:
        file.write("id-far,900,900,2\n")
    assert "Clusters" not in page(files).titles
    assert "Clusters" in page(files, "--readers", "holders").titles


def bulk_and_far(many):
    """Three clients of 40 rows; so many of all 120 are far from the others."""
    bulk = np.tile([[0.0, 0.0], [1.0, 1.0]], (20, 1))
    return secfc.Federation.from_arrays([np.vstack((bulk[many:], np.full((many, 2), 90.0))), bulk, bulk])


@pytest.mark.parametrize(
    "policy", [secfc.AssignmentsOnly(), *by_night(secfc.Distances()), secfc.OwnLabels()], ids=repr
)
def test_pages_for_strangers_are_the_same_whatever_a_few_people_are(policy):
    def pages(many, readers):
        data = bulk_and_far(many)
        way = secfc.SecFC(k=2, disclosure=policy)
        found = make_report(secfc.fit(way, data, seed=0), federation=data, algorithm=way)
        return as_html(replace(found, seconds=None), holders=readers)

    assert pages(3, False) == pages(4, False)
    assert pages(3, True) != pages(4, True)


SOME = st.integers(0, 30)


@given(SOME, SOME, st.lists(SOME, min_size=1), st.lists(SOME, min_size=1), st.lists(SOME))
def test_no_number_for_strangers_is_of_a_few_people(m, twice, clients, clusters, changes):
    counts = RowCounts(m, m + twice, dict(enumerate(clients)), tuple(clusters)).public
    if counts is not None:
        told = (counts.m, *(counts.clients or {}).values(), *(counts.clusters or ()))
        repeated = 0 if counts.clients is counts.held is None else twice
        told = (*told, repeated)
        assert not any(0 < many < 10 for many in told)
    data = bulk_and_far(4)
    way = secfc.Lloyd(k=2)
    found = make_report(secfc.fit(way, data, seed=0), federation=data, algorithm=way)
    told = replace(found, changes=tuple(changes)).public
    assert not any(0 < many < 10 for many in told.changes)
    assert told.changes == tuple(changes)[: len(told.changes)]
    assert told.digests is told.cost is told.centers is told.counts.clusters is None


def test_no_point_is_shown_that_no_budget_paid_for(files):
    found = page(files, *WAYS["noise"], "--readers", "holders")
    assert "Picture" not in found.titles
    assert "Picture" in page(files, *WAYS["noise"], "--readers", "holders", "--evaluate").titles


@pytest.mark.parametrize(
    ("words", "piece"),
    [
        ("--report out.txt", "ends in .json or in .html"),
        ("--report a.html --report a.html", "there twice"),
        ("--readers holders", "add --report page.html"),
        ("--readers anybody --report a.html", "'anybody' is not one of"),
    ],
)
def test_pages_that_cannot_be_are_refused_before_anything_is_done(files, words, piece):
    done = run_with_pages(files, *words.split())
    assert done.exit_code == 2
    assert piece in done.output
    assert not list(Path().glob("*.html"))


@contextlib.contextmanager
def listening():
    """A port on which somebody listens to whatever a browser asks of any host, and what was asked."""
    asked = []

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            asked.append(self.request.recv(1000))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1], asked
        server.shutdown()


def browse(path, width, shot, profile):
    """What a browser said, and asked of any host, while it showed a file."""
    with listening() as (port, asked):
        done = subprocess.run(
            [
                CHROMIUM, *QUIET, f"--user-data-dir={profile}", "--enable-logging=stderr",
                f"--host-resolver-rules=MAP * 127.0.0.1:{port}", f"--window-size={width},4200",
                f"--screenshot={shot}", path.resolve().as_uri(),
            ],
            capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stderr, b"".join(asked)


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_shows_it_without_a_request_or_an_error(files, width, tmp_path_factory, pytestconfig):
    page(files, "--readers", "holders", "--reveal-centers")
    pictures = Path(pytestconfig.rootpath) / ".artifacts"
    pictures.mkdir(exist_ok=True)
    shot, profile = pictures / f"report-{width}.png", tmp_path_factory.mktemp("profile")
    said, asked = browse(Path("page.html"), width, shot, profile)
    assert "CONSOLE" not in said
    assert b"example" not in asked
    assert b"page" not in asked
    seen = imread(shot)[..., :3]
    assert seen.shape[1] == width
    ink = (seen < 0.9).any(axis=2)
    assert ink[:600].mean() > 0.01  # there is something to read
    assert not ink[:, -4:].any()  # and nothing is cut off at the side
    # A page that fetches is noticed, unless its own rule forbids that: then its error is.
    fetching = "<!doctype html><img src='http://tracker.example/page'><script>console.error('no')</script>"
    Path("other.html").write_text(fetching)
    said, asked = browse(Path("other.html"), width, Path("other.png"), profile)
    assert "CONSOLE" in said
    assert b"tracker.example" in asked
    ruled = Path("page.html").read_text().replace("<main>", "<main><img src='http://tracker.example/page'>")
    Path("ruled.html").write_text(ruled)
    said, asked = browse(Path("ruled.html"), width, Path("ruled.png"), profile)
    assert "Content Security Policy" in said
    assert b"tracker.example" not in asked


FOLDED = "document.querySelector('details.appendix section').checkVisibility()"
WRONG = """<!doctype html><style>@media print { details { display: none } }</style>
<p style="color:#999">pale</p><p style="width:2em;overflow-wrap:anywhere">unnoticed</p>
<div style="width:9em;overflow:hidden"><p style="width:3000px">cut</p></div>"""


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
def test_pages_are_whole_and_legible_on_screens_light_and_dark_and_on_paper(
    files, pytestconfig, tmp_path_factory
):
    page(files, "--readers", "holders", "--reveal-centers")
    Path("wrong.html").write_text(WRONG)
    Path("open.html").write_text(Path("page.html").read_text().replace("<details", "<details open"))
    officer = Path(pytestconfig.rootpath) / "docs/officer_sample.html"
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        for width, paper in ((1280, False), (420, False), (718, True)):  # of A4 within margins
            for dark in (False, True):
                for shown in (Path("open.html"), Path("page.html"), officer):
                    browser.show(shown.resolve().as_uri(), width, dark=dark, paper=paper)
                    assert browser.evaluate(FAULTS) == [], (shown, width, dark, paper)
                    if shown.name == "page.html":
                        assert browser.evaluate(FOLDED) == paper
            browser.show(Path("wrong.html").resolve().as_uri(), width, paper=paper)
            assert {kind for kind, *_ in browser.evaluate(FAULTS)} >= {"cut", "pale", "broken"}


def test_no_line_breaks_an_option_and_what_is_around_it_is_escaped():
    said = "use --n-init 10, not <b> or a--b"
    whole = 'use <span class="whole">--n-init</span> 10, not &lt;b&gt; or a--b'
    assert str(keep_options_whole(said)) == whole
