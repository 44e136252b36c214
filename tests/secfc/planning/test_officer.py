"""The officer's page: what it says is what policies say, and what runs send."""

from __future__ import annotations

import re
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from secfc.cli.shell.program import main
from secfc.coded.queries import Operation
from secfc.planning.text import plan_page, plan_practice
from secfc.report import make_report, officer
from secfc.report.deviations import kinds_of, rows_about
from secfc.report.officer import FILL, as_html, of_run, practice_sections
from secfc.report.terminal import Grid
from tests import small
from tests.browser import CHROMIUM, complaints
from tests.loading import every_message
from tests.nightly import by_night

POLICIES = [
    secfc.Distances(), secfc.Distances(dealt=True), secfc.AssignmentsOnly(),
    secfc.AssignmentsOnly("client-0"), secfc.AssignmentsOnly(dealer=None), secfc.OwnLabels(),
    secfc.OwnLabels(dealer=None), secfc.OwnLabels(sizes="hidden"), secfc.FinalLabelsOnly(),
    secfc.FinalLabelsOnly(dealer="server"),
]  # fmt: skip
DAY = (0, 2, 5)


@pytest.fixture(autouse=True)
def kept(tmp_path, monkeypatch):
    """Nothing is kept beside what a test keeps."""
    monkeypatch.setenv("SECFC_CACHE", str(tmp_path / "kept"))


federation = partial(small.federation, d=2)


def table(found, title):
    (section,) = (one for one in practice_sections(found) if one.title.startswith(title))
    return next(part for part in section.parts if isinstance(part, Grid)).rows


def test_every_message_is_in_the_argument():
    known = {kind for rows in officer.argument_tables().values() for kind in rows} | set(officer._ELSEWHERE)
    kinds = {kind.__name__ for kind in every_message()} - {"Query"} | {asked.kind for asked in Operation}
    assert kinds - known <= {"SumOpening", "Ping"}
    for rows in officer.argument_tables().values():
        for kind, said in rows.items():
            for text in (said.seen, said.deviating):
                assert text.strip(), kind
                assert not re.search(r"[`*]|\]\(|^as above|^as under `", text), (kind, text)
    assert officer.said_of("Nothing").seen == officer.UNKNOWN


@pytest.mark.parametrize(
    "policy", [secfc.AssignmentsOnly(), *by_night(secfc.OwnLabels()), secfc.Distances()], ids=repr
)
def test_who_deviates_is_the_table_of_threats(policy):
    way = secfc.SecFC(k=2, threshold=1, disclosure=policy)
    practice = plan_practice(secfc.plan(way, n=5, m=60, d=2))
    found, rows = table(practice, "Who deviates"), rows_about(kinds_of(way, practice.plan))
    assert [row[0] for row in found] == [re.sub("[`*]", "", row.who) for row in rows]
    assert {row[-1] for row in found} <= {"noticed", "named", "unnoticed"}
    assert any("masked replies" in row[0] for row in found)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_who_may_collude_is_the_line_of_the_policies_page(policy):
    found = officer.collusion_line(policy)
    if isinstance(policy, secfc.Distances):
        assert found is None
        return
    learns, breaks = found
    assert "`" not in learns + breaks
    assert ("the server with any t clients" in learns) == (policy.dealer is None)
    assert ("dealer with one member" in breaks) == (policy.dealer == "client-0" or (
        policy.dealer == "server" and not isinstance(policy, secfc.AssignmentsOnly)
    ))  # fmt: skip


@pytest.mark.parametrize("floor", [1, 10])
def test_pages_of_shared_centers_tell_what_every_client_learns(floor):
    way = secfc.FederatedLloyd(2, floor=floor)
    planned = plan_practice(secfc.plan(way, 5, 60, 2, bound=8.0))
    result = secfc.fit(way, federation(), bound=8.0)
    run = of_run(make_report(result, federation=federation(), algorithm=way), result)
    told = (
        "differ by at least 10 rows"
        if floor > 1
        else "the sums of a client that comes late, leaves or is lost"
    )
    for practice in (planned, run):
        (said,) = (what for who, what in table(practice, "Who learns") if who == "every client alone")
        assert said.startswith("sums and numbers of all clients' points by cluster")
        assert told in said


@pytest.mark.parametrize(
    "number", [n if n in DAY else pytest.param(n, marks=pytest.mark.nightly) for n in range(len(POLICIES))]
)
def test_a_page_of_a_plan_tells_what_a_run_sends_and_shows(number):
    way = secfc.SecFC(2, 1, disclosure=POLICIES[number], max_iter=2)
    planned = plan_practice(secfc.plan(way, 5, 60, 2, bound=8.0))
    result = secfc.fit(way, federation(), bound=8.0)
    run = of_run(make_report(result, federation=federation(), algorithm=way), result)
    assert planned.learned == run.learned
    assert planned.heard == run.heard
    # Who learns what says the same, whoever it is asked of.
    assert table(planned, "Who learns") == table(run, "Who learns")
    late = {
        "MissingMessages",
        "LossQuery",
        "CompareQuery",
        "LloydStepQuery",
        "SetKeys",
        "CodedGains",
    }  # data decide if they come
    sent, foreseen = ({kind for _, kind in one.traffic} for one in (run, planned))
    assert sent ^ foreseen <= late
    # Every message of the run is on its page, and described.
    for title, side in (("What leaves", "client"), ("What a site", "server")):
        rows = table(run, title)
        assert len(rows) == len([1 for direction, _ in run.traffic if direction.startswith(side)])
        assert officer.UNKNOWN not in str(rows)
        counts = sorted(int(row[2].replace(",", "")) for row in rows)
        assert counts == sorted(many for (way_, _), (many, _) in run.traffic.items() if way_.startswith(side))


class Checked(HTMLParser):
    """No script, no network, every tag closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.words = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "img", "link", "iframe")
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data


def test_the_page_is_one_file_and_says_where_the_texts_ask():
    found = secfc.plan(secfc.SecFC(2, 1, disclosure="distances", init="random", max_iter=2), 3, 90, 2)
    read = Checked(plan_page(found, {"purpose": "a <b>study</b>"}))
    assert not read.open
    for word in ("Art. 30(1)(a)-(g)", "164.514(b)(1)", "a <b>study</b>", "secfc attack geometry", FILL):
        assert word in read.words
    assert "tried: these distances place all 90 points" in read.words
    assert read.words.count("a <b>study</b>") == 1
    # Of algorithms that protect nothing, or otherwise.
    clear = Checked(plan_page(secfc.plan(secfc.Lloyd(2), 3, 90, 2)))
    assert "every row, in the clear" in clear.words
    noisy = secfc.plan(secfc.FedDPKMeans(2, 1.0, 1e-6), 5, 400, 2, server_points=40)
    words = Checked(plan_page(noisy)).words
    assert "epsilon = 1 at delta = 1e-06" in words
    assert "400 rows" not in words  # nobody learns how many rows there are


def test_a_page_of_a_run_under_a_budget_has_nothing_that_it_did_not_pay_for():
    from secfc.privacy import Bound, Budget

    way = secfc.SecFC(2, 1, disclosure=secfc.NoiseInShares(Budget(8.0, 1e-6), Bound.given(4.0)), max_iter=2)
    result = secfc.fit(way, federation(), bound=4.0)
    found = of_run(make_report(result, federation=federation(), algorithm=way, evaluate=True), result)
    assert not found.tried
    assert "epsilon = 8" in " ".join(found.spent)
    assert "recover" not in as_html(found)


def test_the_commands_write_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = ["-n", "3", "-m", "90", "-d", "2", "-k", "2", "--disclosure", "distances", "--init", "random"]
    done = CliRunner().invoke(main, ["plan", *small, "--officer", "a.html", "--fill", "Purpose=a study"])
    assert done.exit_code == 0, done.output
    assert "a study" in (tmp_path / "a.html").read_text()
    for words, said in [
        ([*small, "--officer", "a.txt"], ".html"), ([*small, "--officer", "a.html"], "--force"),
        ([*small, "--fill", "purpose=x"], "--officer"), ([*small, "--fill", "why=x"], "NAME one of purpose"),
    ]:  # fmt: skip
        done = CliRunner().invoke(main, ["plan", *words])
        assert done.exit_code == 2
        assert said in done.output


def test_a_run_on_files_writes_it_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, rows in zip("abc", np.array_split(federation().stacked(), 3), strict=True):
        np.savetxt(f"{name}.csv", rows, delimiter=",")
    small = ["run", "a.csv", "b.csv", "c.csv", "-k", "2", "--init", "random", "--max-iter", "2", "--force"]
    done = CliRunner().invoke(main, [*small, "--officer", "run.html", "--fill", "purpose=a study"])
    assert done.exit_code == 0, done.output
    read = Checked((tmp_path / "run.html").read_text())
    assert not read.open
    assert "a study" in read.words
    assert not any(name in read.words for name in ("a.csv", str(tmp_path)))
    for words, said in [
        ([*small[:-1], "--officer", "run.html"], "--force"), ([*small, "--fill", "purpose=x"], "--officer"),
        ([*small, "--officer", "a.html", "--report", "a.html"], "another name"),
    ]:  # fmt: skip
        done = CliRunner().invoke(main, words)
        assert done.exit_code == 2
        assert said in done.output


@pytest.mark.nightly
@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium here")
@pytest.mark.parametrize("width", [1280, 420])
def test_a_browser_shows_pages_and_plans_within_its_width(width, tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    plans = {
        "distances": secfc.plan(secfc.SecFC(2, 1, disclosure="distances"), 5, 300, 4),
        "own": secfc.plan(secfc.SecFC(2, 1, disclosure="own-labels", membership="private"), 5, 300, 4),
        "noise": secfc.plan(secfc.FedDPKMeans(2, 1.0, 1e-6), 5, 400, 2, server_points=40),
    }
    for name, found in plans.items():
        (folder / f"{name}.html").write_text(plan_page(found, {"purpose": "a study " * 40}))
        (folder / f"plan-{name}.html").write_text(f"<!doctype html>{found._repr_html_()}")
    pages = sorted(path.name for path in folder.iterdir())
    assert len(pages) == 6
    assert complaints(folder, pages, width, tmp_path / "profile") == []
