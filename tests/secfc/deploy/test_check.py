"""What `secfc deploy check` says of proxies, of earlier runs over the same rows, and of the site's record."""

import asyncio
import contextlib
import errno
import itertools
import os
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

pytest.importorskip("websockets")

from secfc.cli.deploy.check import check_audit, check_lines, earlier_runs
from secfc.cli.deploy.operate import missing_state
from secfc.cli.deploy.readiness import check_bound, check_hub, ends_of, estimate_bytes, proxy_for, tls_reason
from secfc.cli.deploy.results import Results
from secfc.cli.deploy.run_file import build_run
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import RefusedInput
from secfc.cli.shell.program import main
from secfc.data.party import Party
from secfc.errors import InputError
from secfc.transport.journal import Journal
from tests.secfc.deploy.sites import Sites, blobs, free_port
from tests.secfc.deploy.test_lines import certificate, pem

ROWS = blobs((12, 15, 14))
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "socks_proxy", "ws_proxy", "wss_proxy", "no_proxy")


@pytest.fixture
def site(tmp_path, monkeypatch):
    for name in (*PROXIES, *map(str.upper, PROXIES)):
        monkeypatch.delenv(name, raising=False)
    made = Sites(tmp_path, ROWS, options={"bound": 32.0, "t": 1, "disclosure": "own-labels"}, k=3)
    return lambda **terms: (made.change(**terms), LoadedSite.read(tmp_path / "site-0" / "site.toml"))[1]


@contextlib.asynccontextmanager
async def proxy_that_says(answer):
    """A proxy that answers so, or never (None)."""

    ended = []

    async def serve(reader, writer):
        ended.append(over := asyncio.Event())
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
                await writer.drain()
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()
        over.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        for over in ended:
            await over.wait()


def found(site, monkeypatch, answer, secret="name:word@"):
    async def ask():
        async with proxy_that_says(answer) as port:
            monkeypatch.setenv("https_proxy", f"http://{secret}127.0.0.1:{port}")
            return await check_hub(site, []), port

    return asyncio.run(ask())


@pytest.mark.parametrize(("answer", "why"), [
    (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "asks for a name and a password"),
    (b"HTTP/1.1 403 Forbidden\r\n\r\n", "does not let this machine through to"),
    (b"SSH-2.0\r\n\r\n", "does not let this machine through to"),
])  # fmt: skip
def test_a_proxy_that_refuses_is_named_with_its_reason_and_no_password(site, monkeypatch, answer, why):
    result, port = found(site(hub="wss://hub.invalid"), monkeypatch, answer)
    assert result.state == "fail"
    assert f"the proxy http://127.0.0.1:{port} {why}" in result.more
    assert "word" not in result.more.replace("password", "").replace("PASSWORD", "")


def test_a_proxy_that_is_not_there_is_told_from_a_hub_that_is_not(site, monkeypatch):
    port = free_port()
    monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{port}")
    result = asyncio.run(check_hub(site(hub="wss://hub.invalid"), []))
    assert f"the proxy http://127.0.0.1:{port} cannot be reached (Connection refused)" in result.more
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    result = asyncio.run(check_hub(site(hub=f"ws://127.0.0.1:{port}"), []))
    assert f"ws://127.0.0.1:{port} cannot be reached" in result.more
    assert "proxy" not in result.more


def test_a_proxy_that_never_answers_is_said_to_be_on_the_way(site, monkeypatch):
    monkeypatch.setattr("secfc.cli.deploy.readiness.ANSWER", 0.4)
    result, port = found(site(hub="wss://hub.invalid"), monkeypatch, None)
    assert "does not answer within 0.4 s" in result.more
    assert f"through the proxy http://127.0.0.1:{port}, which was reached" in result.more


def test_the_proxy_is_the_one_that_connections_take(site, monkeypatch):
    from websockets.uri import parse_uri

    get_proxy = pytest.importorskip("websockets.proxy").get_proxy
    for name, value in (("http_proxy", "http://a:1"), ("https_proxy", "http://b:2"), ("no_proxy", "near")):
        monkeypatch.setenv(name, value)
        for url in ("ws://far:80", "wss://far", "wss://near", "ws://near:8443"):
            assert proxy_for(url) == get_proxy(parse_uri(url)), (name, url)


def test_what_earlier_runs_over_the_same_rows_have_opened_is_said(site):
    first = site()
    party = Party("site-0", ROWS["site-0"])
    assert list(earlier_runs(first, first.agreed(), party)) == []
    first.charge(first.agreed(), party, bytes(16))
    assert list(earlier_runs(first, first.agreed(), party)) == []  # its own run is no earlier one
    later = site(session=bytes(32), options={"bound": 32.0, "t": 1})
    (line,) = earlier_runs(later, later.agreed(), party)
    assert line.state == "warn"
    assert line.more.startswith("all 12 rows were in 'a test' of 20")
    assert "(own-labels) each site: the labels of its own rows" in line.more
    assert "beside what this run shows (assignments): together they tell more" in line.more
    (line,) = earlier_runs(later, later.agreed(), Party("site-0", ROWS["site-0"][:7]))
    assert line.more.startswith("all 7 rows were")
    (line,) = earlier_runs(
        later, later.agreed(), Party("site-0", np.vstack([ROWS["site-0"][:3], ROWS["site-1"]]))
    )
    assert line.more.startswith("3 of the 18 rows were")
    assert list(earlier_runs(later, later.agreed(), Party("site-0", ROWS["site-1"]))) == []


def test_check_says_that_nobody_can_be_spared_who_serves_besides_and_what_earlier_runs_showed(site):
    first = site()
    first.charge(first.agreed(), first.party(first.agreed())[0], bytes(16))
    later = site(session=bytes(32), options={"bound": 32.0, "t": 1}, served_by="site-1")
    lines = itertools.takewhile(lambda line: line.what != "versions", check_lines(later, offline=True))
    warned = {line.what: line.more for line in lines if line.state == "warn"}
    assert warned.keys() == {"losses", "serves", "earlier"}
    assert "nobody can be done without" in warned["losses"]
    assert "site-1" in warned["serves"]
    assert "all 12 rows were in 'a test'" in warned["earlier"]


def test_a_sites_own_threads_and_folder_are_those_of_its_part(site, tmp_path):
    here = site()
    own = replace(here, file=replace(here.file, threads=3, scratch=tmp_path)).agreed().algorithm.runtime
    assert (own.threads, own.scratch) == (3, str(tmp_path))


# Most megabytes of a client's journal and memory, five of 50,000 rows, by `deviating` and clusters, over
# several steps; over one, the first had 165.
@pytest.mark.parametrize(("deviating", "k", "most", "held"), [
    (0, 4, 196, 837), (1, 4, 196, 843), (0, 8, 271, 1301), (0, 16, 409, 2187),
])  # fmt: skip
def test_room_for_a_journal_is_that_of_what_is_not_settled(tmp_path, deviating, k, most, held):
    features = tuple(f"f{i}" for i in range(20))
    options = {"bound": 32.0, "t": 1, "deviating": deviating}
    Sites(tmp_path, blobs((12,) * 5, d=20), k=k, features=features, options=options)
    asked = LoadedSite.read(tmp_path / "site-0" / "site.toml").agreed()
    facts = asked.guessed(50_000, 50_000)
    bytes_of = {kept: estimate_bytes(asked, facts, settling=kept)[1] / 1e6 for kept in (True, False)}
    assert most < bytes_of[True] < 1.5 * most
    assert bytes_of[False] > 9 * most
    assert held < estimate_bytes(asked, facts, settling=True)[0] / 2**20 < 1.5 * held


def test_status_tells_a_journal_that_is_lost_from_a_run_that_is_over(site):
    here = site()
    session = here.run.session.hex()
    assert missing_state(here) == "nothing of the run was said here"
    here.charge(here.agreed(), Party("site-0", ROWS["site-0"]), bytes(16))
    assert missing_state(here).startswith("it was deleted or moved")
    here.audit.append("join", "suspended", session=session)
    here.audit.append("join", "finished", session=bytes(32).hex())  # of another run
    assert f"Put {here.journal} back" in missing_state(here)
    here.audit.append("join", "finished", session=session)
    assert missing_state(here) == "this site's part in it is over"


@pytest.mark.parametrize(("why", "helps"), [
    ("certificate has expired", "whoever runs the hub renews it"),
    ("certificate is not yet valid", "the clock of this machine"),
    ("Hostname mismatch, certificate is not valid for 'a'.", "it is for another name"),
    ("unable to get local issuer certificate", "--authority"),
    (None, "is it another service?"),
])  # fmt: skip
def test_what_helps_against_a_failure_of_tls_depends_on_its_reason(why, helps):
    error = ssl.SSLError(1, "wrong version number") if why is None else ssl.SSLCertVerificationError(1, why)
    error.verify_message = error.reason = why or "wrong version number"
    said = tls_reason("wss://hub", error)
    assert helps in said
    assert (why or "TLS 1.3") in said


def test_certificates_that_end_within_a_month_are_warned_of_the_hubs_and_those_of_the_run_file(site):
    def warned(hub, ours):
        authority = pem(certificate("ours", hours=24 * ours)[1])
        ends = datetime.now(UTC) + timedelta(days=hub, hours=1)
        tls = SimpleNamespace(getpeercert=lambda: {"notAfter": f"{ends:%b %d %H:%M:%S %Y} GMT"})
        socket = SimpleNamespace(transport=SimpleNamespace(get_extra_info=lambda name: tls))
        return [(line.state, line.more) for line in ends_of(site(authority=authority), socket)]

    assert warned(31, 31.5) == []
    ((state, said),) = warned(29, 31.5)
    assert (state, "expires in 29 days" in said) == ("warn", True)
    ((state, said),) = warned(31, 28.5)
    assert (state, "certificate of the run file" in said, "in 28 days" in said) == ("warn", True, True)


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
@pytest.mark.parametrize("command", ["join", "check", "status", "abort", "clean"])
def test_a_file_that_root_made_or_a_disc_that_is_read_only_is_a_sentence(site, monkeypatch, command, number):
    here = site()
    here.open_journal().close()

    def refuse(path, *more):
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr("secfc.cli.deploy.site.Journal.open", refuse)
    done = CliRunner().invoke(main, ["deploy", command, str(here.folder / "site.toml")])
    assert done.exit_code == 2
    assert f"{here.journal}: {os.strerror(number)}. Check the path" in done.output


def test_results_that_are_there_or_cannot_be_written_are_said_before_a_run(site, monkeypatch):
    here = site()
    folder = here.file.results

    def said():  # but for the machine, which takes long
        lines = itertools.takewhile(lambda line: line.what != "versions", check_lines(here, offline=True))
        return [line for line in lines if line.what == "results"]

    assert said() == []
    Results.at(folder, force=False)
    (folder / "labels.csv").write_text("")
    (line,) = said()
    assert (line.state, "labels.csv exists already" in line.more) == ("warn", True)
    with pytest.raises(RefusedInput, match="exists already"):
        Results.at(folder, force=False)
    Results.at(folder, force=True)
    monkeypatch.setattr("os.access", lambda path, mode: path != folder)  # whoever is root may write anywhere
    with pytest.raises(RefusedInput, match="may not be written to"):
        Results.at(folder, force=True)


def test_results_that_another_run_wrote_meanwhile_are_left_and_the_remedy_is_said(site, monkeypatch):
    here = site()
    results = Results.at(here.file.results, force=False)
    (results.folder / "report.json").write_text("another run's")
    monkeypatch.setattr("secfc.cli.deploy.results.party_report", lambda *given: {})
    with pytest.raises(RefusedInput, match=r"name another directory .* The same command then writes this"):
        results.write(here, None, None, None, None, None, None)
    assert (results.folder / "report.json").read_text() == "another run's"


def test_two_parties_of_a_run_in_one_folder_are_told_so_and_leave_the_first_ones_files_alone(site):
    found = site()
    server = replace(found.audit, party="server")
    for held in (True, False):  # while the other one runs, and after it was ended
        other = Journal.open(found.journal, "server", found.run.digest)
        if not held:
            other.close()
        done = CliRunner().invoke(main, ["deploy", "join", str(found.folder / "site.toml")])
        assert (done.exit_code, "the journal of 'server', not of 'site-0'" in done.output) == (2, True)
        assert "let the other process finish" not in done.output
        checked = CliRunner().invoke(main, ["deploy", "check", str(found.folder / "site.toml"), "--offline"])
        assert (checked.exit_code, "the journal of 'server'" in checked.output) == (2, True)
        assert not found.audit.path.exists()
        assert not (found.file.results / "failure.json").exists()
        other.close()
    found.journal.unlink()
    server.append("serve", "finished", session=found.run.session.hex())
    for command in ("join", "check"):
        done = CliRunner().invoke(main, ["deploy", command, str(found.folder / "site.toml")])
        assert (done.exit_code, "the record of 'server' in this run" in done.output) == (2, True), done.output
    assert len(found.audit.entries()) == 1


def test_a_record_that_was_altered_is_said_before_a_run(site):
    here = site()
    assert check_audit(here).state == "ok"
    here.audit.append("join", "suspended")
    assert check_audit(here).state == "ok"
    here.audit.path.write_bytes(here.audit.path.read_bytes().replace(b"suspended", b"finished!"))
    assert check_audit(here).state == "warn"
    assert "it was altered" in check_audit(here).more


def test_a_row_of_zeros_is_found_before_a_run_that_divides_rows_by_their_norms(site):
    loaded = site(preparing={"standardize": "norm"}, options={"t": 1})
    asked, kept = build_run(loaded.run), np.array([4, 7])
    assert not check_bound(loaded, asked, Party("site-0", np.ones((2, 3))), kept)
    with pytest.raises(
        InputError, match=r"line 9, row 7 \(counted from 0\) has only zeros.*Leave such rows out"
    ):
        check_bound(loaded, asked, Party("site-0", np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])), kept)


@pytest.mark.parametrize(("preparing", "said"), [
    ({}, "bound of the run, -32 to 32"),
    ({"missing": "mean"}, "bound of the run, -32 to 32"),
    ({"missing": "drop"}, "bound of the run, -32 to 32"),
    ({"ranges": "x=-50:30,y=-50:40,z=0:1"}, "public range of the run, -50 to 30"),
    ({"missing": "mean", "outside": "missing"}, None),
    ({"ranges": "x=-50:30,y=-50:40,z=0:1", "outside": "clip"}, None),
    ({"standardize": True}, None),
])  # fmt: skip
def test_values_beyond_what_all_agreed_on_are_found_however_rows_are_prepared(site, preparing, said):
    options = {
        "t": 1,
        "disclosure": "own-labels",
        **({} if {"ranges", "standardize"} & set(preparing) else {"bound": 32.0}),
    }
    loaded = site(preparing=preparing, options=options)
    asked = build_run(loaded.run)
    within, beyond = np.zeros((3, 3)), np.array([[1.0, 2.0, 0.0], [33.0, 0.0, 0.0]])
    assert check_bound(loaded, asked, Party("site-0", within), None) == (said is not None)
    if said is None:
        return
    with pytest.raises(InputError, match=f"line 9 .row 7, from 0., column 'x': .*{said}"):
        check_bound(loaded, asked, Party("site-0", beyond), np.array([4, 7]))
