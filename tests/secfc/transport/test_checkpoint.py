"""Resuming: a crash anywhere changes no result, and nobody ever says two things in one round."""

import asyncio
import dataclasses
import io
import itertools
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import psu
import secfc
from field import SeededCoins
from secfc import cli
from secfc.algorithm import PublicFacts
from secfc.coded.membership import Private
from secfc.data.inputs import get_parameter, with_parameters
from secfc.errors import (
    Ended,
    FaultyClient,
    Indispensable,
    JournalError,
    PartiesAway,
    ProtocolError,
    SuspectedParties,
    TooFewReplies,
)
from secfc.feddp import FedDPKMeans, SharedNoise
from secfc.kmeans.starts import RandomPoints
from secfc.roles.abort import Abort, broadcast_abort
from secfc.roles.exchange import END, SERVER, Exchange, Inbox, Settled
from secfc.roles.messages import Hello
from secfc.transport import wire
from secfc.transport.checkpoint import (
    Checkpoint,
    find_unsure_peers,
    journal_path,
    keep_journal,
    remove_journals,
    replay,
)
from secfc.transport.journal import Journal, settled_path
from secfc.transport.link import GOODBYE
from secfc.transport.network import run_party
from secfc.transport.records import Place, SettledStep, checksum
from secfc.transport.sealed import seal_role as seal
from secfc.transport.simulate import simulate
from tests.nightly import by_night, every, in_turns, short
from tests.secfc.campaign import NOISY
from tests.secfc.transport.test_wire import mesh
from tests.small import split

RUN = bytes(32)
OPEN = secfc.SecFC(k=3, threshold=1, init=RandomPoints(), max_iter=3, disclosure=secfc.Distances())
RUNS = {
    "open": OPEN,
    "labels only": dataclasses.replace(OPEN, disclosure=secfc.AssignmentsOnly()),
    "a client deals": dataclasses.replace(OPEN, disclosure=secfc.AssignmentsOnly("client-2"), n_init=2),
    "nobody deals": dataclasses.replace(OPEN, disclosure=secfc.AssignmentsOnly(dealer=None)),
    "final labels": dataclasses.replace(OPEN, disclosure=secfc.FinalLabelsOnly()),
    "own labels": with_parameters(OPEN, disclosure=secfc.OwnLabels(), reveal_centers=True),
    "own labels, private": dataclasses.replace(
        OPEN, disclosure=secfc.OwnLabels(), membership=Private(bound=64)
    ),
    "own labels, nobody deals": dataclasses.replace(OPEN, disclosure=secfc.OwnLabels(None, sizes="hidden")),
    "final labels, the server deals": dataclasses.replace(
        OPEN, disclosure=secfc.FinalLabelsOnly(dealer="server")
    ),
    "noise in shares": dataclasses.replace(OPEN, disclosure=NOISY, init=secfc.RandomLabels()),
    "one corrected": with_parameters(OPEN, corrected=1),
    "labels only, private": dataclasses.replace(
        OPEN, disclosure=secfc.AssignmentsOnly(), membership=Private(bound=64)
    ),
    "private centers": FedDPKMeans(3, 4.0, 1e-6, steps=1),
    "private centers, shared noise": FedDPKMeans(3, 4.0, 1e-6, steps=0, noise=SharedNoise()),
    "bare": with_parameters(
        OPEN,
        disclosure=secfc.Distances(blind=False),
        reveal_centers=True,
    ),
    "private": dataclasses.replace(OPEN, membership=Private(bound=64)),
    "private, oblivious": dataclasses.replace(OPEN, membership=Private(bound=64, tags="oblivious", quota=8)),
    "private, server": dataclasses.replace(OPEN, membership=Private(psu.Server(), bound=64)),
    "kfed": secfc.KFed(k=3, k_local=2),
    "shared centers": secfc.FederatedLloyd(k=3, max_iter=3, n_init=2, floor=2, coarse="allow"),
    "lloyd": secfc.Lloyd(k=3, init=RandomPoints(), max_iter=3),
}


def serve_some(n=3, m=24, d=2, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-10, 10, (3, d))
    return split(centers[rng.integers(0, 3, m)] + 3 * rng.normal(size=(m, d)), n, server_points=centers)


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    """Processes end here, not the power."""
    monkeypatch.setattr(Journal, "sync", lambda self, file=None: None)
    monkeypatch.setattr(Journal, "_sync_directory", lambda self: None)


class Crash(OSError):  # noqa: N818
    """The process ends here."""


class Network:
    """Carries everything, notices whoever says two things in one round, and may crash while it delivers."""

    def __init__(self):
        self.said, self.left = {}, None

    def __call__(self, e):
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Crash
        self.hear(e.sender, e.recipient, e.round, e.body)
        return (e,)

    def hear(self, sender, recipient, number, body):
        data = wire.encode(body)
        if self.said.setdefault((sender, recipient, number), data) != data:
            raise ProtocolError(f"{sender} said two things in round {number}")

    def watch(self, name, exchange):
        for recipient, body in exchange.send.items():
            self.hear(name, recipient, exchange.round, body)


def after(count):
    """A watch that crashes after so many exchanges that are no repetitions; says how many there were."""

    def watch(name, exchange):
        watch.seen += exchange.taken is None
        if watch.seen > count:
            raise Crash

    watch.seen = 0
    return watch


def same(a, b):
    return (
        all((x == y).all() for x, y in zip(a.labels, b.labels, strict=True))
        and len(a.history) == len(b.history)
        and all((x == y).all() for x, y in zip(a.history, b.history, strict=True))
        and len(a.transcript) == len(b.transcript)
        and a.cost == b.cost
        and (a.centers is None) == (b.centers is None)
        and (a.centers is None or np.array_equal(a.centers, b.centers, equal_nan=True))
    )


# --- all parties crash ------------------------------------------------------------------------------


# Of each run so many exchanges, far apart; by night every one.
@pytest.mark.parametrize(("name", "sealed", "crashes"), every(3, [
    ("open", False, 3), ("open", True, 1), ("bare", False, 1), ("private", False, 1), ("private", True, 1),
    ("private, oblivious", False, 1),
    ("private, server", False, 1), ("kfed", False, 1), ("lloyd", False, 1), ("labels only", False, 1),
    ("labels only", True, 1), ("a client deals", False, 1), ("nobody deals", False, 1),
    ("final labels", False, 1), ("own labels", False, 1), ("own labels, nobody deals", False, 1),
    ("final labels, the server deals", False, 1), ("own labels", True, 1),
    ("own labels, private", False, 1), ("noise in shares", False, 1), ("one corrected", False, 1),
    ("labels only, private", False, 1), ("private centers", False, 1),
    ("private centers, shared noise", False, 1), ("shared centers", False, 1),
]))  # fmt: skip
def test_all_crash_at_any_exchange(name, sealed, crashes, tmp_path):
    algorithm = RUNS[name]
    fed = serve_some(n=5 if get_parameter(algorithm, "corrected", 0) else 3)
    # Unions number rows by their session, and starts are drawn among rows; noise is drawn from coins.
    seeded = "private" in name
    coins = {"coins": lambda party: SeededCoins(1, party)} if seeded else {}
    bound = {"bound": 64.0}
    count = after(10**9)
    expected = secfc.fit(algorithm, fed, watch=count, sealed=sealed, **coins, **bound)
    if isinstance(algorithm, secfc.SecFC) and not seeded:
        twin = dataclasses.replace(RUNS["lloyd"], init=algorithm.init, n_init=algorithm.n_init)
        scale = expected.plan.quantizer.scale
        plain = secfc.fit(
            with_parameters(twin, scale=scale),
            fed,
            **bound,
        )
        assert all((a == b).all() for a, b in zip(expected.labels, plain.labels, strict=True))
    step = short(-(-count.seen // crashes), nightly=1)
    for crash in range(step // 2, count.seen, step):
        options = {
            "checkpoint": tmp_path / str(crash), "faults": Network(), "sealed": sealed, **coins, **bound
        }  # fmt: skip
        with pytest.raises(Crash):
            secfc.fit(algorithm, fed, watch=after(crash), **options)
        assert same(secfc.fit(algorithm, fed, **options), expected)
    # What is on file now is the whole run.
    assert same(secfc.fit(algorithm, fed, **options), expected)


def test_all_crash_while_messages_are_under_way(tmp_path):
    expected = secfc.fit(OPEN, serve_some())
    for crash in range(0, len(expected.transcript), short(74, nightly=1)):
        network = Network()
        network.left = crash
        options = {"checkpoint": tmp_path / str(crash), "faults": network}
        with pytest.raises(Crash):
            secfc.fit(OPEN, serve_some(), **options)
        network.left = None
        assert same(secfc.fit(OPEN, serve_some(), **options), expected)


@pytest.mark.parametrize(("late", "method"), in_turns([False, True], ["write_took", "write_sent"]))
def test_all_crash_before_and_after_each_record(method, late, tmp_path, monkeypatch):
    expected = secfc.fit(OPEN, serve_some())
    write = getattr(Journal, method)
    for crash in itertools.count(0, short(38, nightly=1)):
        calls = itertools.count()

        def dying(self, *what, calls=calls, crash=crash):
            last = next(calls) == crash
            if not last or late:
                write(self, *what)
            if last:
                raise Crash

        network = Network()
        options = {"checkpoint": tmp_path / str(crash), "faults": network}
        monkeypatch.setattr(Journal, method, dying)
        try:
            secfc.fit(OPEN, serve_some(), **options)
            break
        except Crash:
            monkeypatch.setattr(Journal, method, write)
            assert same(secfc.fit(OPEN, serve_some(), **options), expected)
    assert crash > 20


def test_crashing_again_and_again_gets_there(tmp_path):
    expected, network = secfc.fit(OPEN, serve_some()), Network()
    for crashes in itertools.count():
        try:
            # Every party repeats what it waits for, then a few more exchanges happen.
            result = secfc.fit(OPEN, serve_some(), checkpoint=tmp_path, faults=network, watch=after(6))
            break
        except Crash:
            assert crashes < 100
    assert crashes > 5
    assert same(result, expected)


def test_private_rows_resume_with_the_session_they_began_with(tmp_path):
    ids = [["ann", "bob", "eve"], ["bob", "dan"], ["eve", "fay", "gus"]]
    values = {name: [float(len(name)), float(ord(name[0]))] for row in ids for name in row}
    fed = secfc.Federation.from_arrays([[values[i] for i in row] for row in ids], ids=ids)
    algorithm = secfc.SecFC(k=2, threshold=1, membership=Private(bound=64), init=secfc.RandomPoints())
    network = Network()
    for crashes in itertools.count():
        try:
            result = secfc.fit(algorithm, fed, checkpoint=tmp_path, faults=network, watch=after(25))
            break
        except Crash:
            assert crashes < 100
    assert crashes > 2
    # The same, told its start: plaintext k-means over the rows of the union.
    people = sorted({name for row in ids for name in row})
    where = dict(zip(itertools.chain(*ids), np.concatenate(result.rows).tolist(), strict=True))
    start = np.empty(len(people), int)
    for name, row in where.items():
        start[people.index(name)] = result.history[0][row]
    pooled = secfc.Federation.from_arrays([[values[name] for name in people]])
    plain = secfc.fit(
        secfc.Lloyd(
            k=2,
            init=secfc.GivenLabels(start),
            quantization=secfc.Quantization(scale=result.plan.quantizer.scale),
        ),
        pooled,
    )
    for name, row in where.items():
        assert result.history[-1][row] == plain.flat[people.index(name)]


# --- what is settled ---------------------------------------------------------------------------------


@pytest.fixture
def settling(monkeypatch):
    """Journals drop what is over for all; by name of a party, the most bytes that its journal ever had."""
    sizes = {}

    def role(self, party, role):
        kept = self.journals.get(party)
        return role if kept is None else keep_journal(role, kept, settling=True)

    def write(self, kind, parts, write=Journal._write):
        write(self, kind, parts)
        sizes[self.party] = max(sizes.get(self.party, 0), self._end)

    monkeypatch.setattr(Checkpoint, "role", role)
    monkeypatch.setattr(Journal, "_write", write)
    monkeypatch.setattr("secfc.transport.journal.LARGE", -1)  # whatever the server may have to say again
    return sizes


def labels_of(result):
    return [part.tolist() for part in (*result.labels, *result.history)]


STEPS = dataclasses.replace(RUNS["labels only"], init=secfc.RandomLabels(), max_iter=6)


@pytest.mark.parametrize(("name", "sealed", "crashes"), [
    ("labels only", True, 1),
    *by_night(
        ("nobody deals", False, 1), ("a client deals", False, 1), ("labels only", False, 1),
        ("labels only, private", False, 1),
    ),
])  # fmt: skip
def test_all_crash_at_any_exchange_of_steps_of_which_some_are_settled(
    name, sealed, crashes, tmp_path, settling
):
    algorithm = with_parameters(RUNS[name], max_iter=6)
    coins = {"coins": lambda party: SeededCoins(1, party)} if "private" in name else {}
    options = {"sealed": sealed, "bound": 64.0, **coins}
    count = after(10**9)
    expected = labels_of(secfc.fit(algorithm, serve_some(), watch=count, **options))
    step = short(count.seen // 2 // crashes, nightly=1)
    for crash in range(count.seen // 2, count.seen, step):
        kept = {"checkpoint": tmp_path / str(crash), "faults": Network(), **options}
        with pytest.raises(Crash):
            secfc.fit(algorithm, serve_some(), watch=after(crash), **kept)
        for _ in range(2):
            assert labels_of(secfc.fit(algorithm, serve_some(), **kept)) == expected


def test_a_client_that_compares_has_a_journal_of_its_rows_and_of_a_step_however_many_it_takes(
    tmp_path, settling, monkeypatch
):
    most = {}
    for steps in (2, 5):
        settling.clear()
        one = dataclasses.replace(STEPS, max_iter=steps)
        assert secfc.fit(one, serve_some(m=200, seed=1), checkpoint=tmp_path / str(steps)).n_iter == steps
        most[steps] = settling["client-1"]
    assert most[5] < 1.2 * most[2]
    # The control: as long as peers may ask, all is kept.
    monkeypatch.setattr("secfc.transport.simulate._Driver.heard_round", lambda self, name, peer: -1)
    secfc.fit(STEPS, serve_some(m=200, seed=1), checkpoint=tmp_path / "kept")
    assert settling["client-1"] > 2 * most[5]


def asked(said):
    """A role that answers three requests, with a word for b each, and settles them."""
    wait = Exchange({}, (SERVER,), round=0, accept=10, step=10, exact=False)
    for number in (10, 20, 30):
        request = (yield wait)[SERVER]
        if isinstance(request, Settled):
            assert request.spent == (number,)
            assert (request.opened == number).all()
            assert request.request.description == bytes([number])
        else:
            said.append(number)
            yield Exchange({"b": Hello(b"to b"), SERVER: Hello(b"to s")}, (), round=number + 1)
        came = Settled(Hello(bytes([number])), np.full(7, number, np.int32), (number,))
        wait = Exchange({}, (SERVER,), 1, number, number + 10, False, 10, settled=lambda came=came: came)
    yield wait


def answer_three(path, heard=None):
    """Which requests were answered anew.  heard: what each peer has taken, all by default."""
    said = []
    hears = (lambda peer: 99) if heard is None else heard.__getitem__
    with Journal.open(path, "a", RUN) as journal:
        role = keep_journal(asked(said), journal, settling=True)
        exchange = next(role)
        while exchange.taken is not None or exchange.accept != 40:
            told = {SERVER: Hello(bytes(3000))} if exchange.step > 1 else {}
            exchange = role.send(Inbox(told, dict.fromkeys(told, exchange.accept), hears))
        role.close()
    return said


class Dying(io.FileIO):
    """A file of which a write, or a cut, is the last thing that a process does."""

    left, late = 0, False  # how many come before, of all such files, and whether the last one is done

    def write(self, data):
        done = super().write(data if self.goes_on() else bytes(data)[: len(data) // 2])
        self.end()
        return done

    def truncate(self, size=None):
        if self.goes_on():
            super().truncate(size)
        self.end()

    def goes_on(self):
        Dying.left -= 1
        return Dying.left >= 0 or self.late

    def end(self):
        if Dying.left < 0:
            raise Crash


@pytest.mark.parametrize("late", [False, True])
def test_a_crash_at_any_write_while_steps_are_settled_loses_nothing(late, tmp_path, monkeypatch):
    begun, expected = tmp_path / "begun", tmp_path / "expected"
    Journal.open(begun, "a", RUN).close()
    expected.write_bytes(begun.read_bytes())
    assert answer_three(expected) == [10, 20, 30]
    monkeypatch.setattr(Dying, "late", late)
    for crash in itertools.count():
        path = tmp_path / str(crash)
        path.write_bytes(begun.read_bytes())
        monkeypatch.setattr(Dying, "left", crash)
        with monkeypatch.context() as patched:
            patched.setattr("secfc.transport.journal.os.fdopen", lambda number, mode: Dying(number, "r+"))
            try:
                answer_three(path)
                break
            except Crash:
                pass
        answer_three(path)
        assert path.read_bytes() == expected.read_bytes()
        assert not settled_path(path).exists()
    assert crash > 40


@pytest.mark.parametrize(("b", "server", "left", "kept"), [
    (99, 99, [], 1), (11, 99, [20, 30], 2), (99, 21, [30], 1), (10, 99, [10, 20, 30], 3), (99, 10, [30], 3),
])  # fmt: skip
def test_a_step_is_settled_once_every_peer_has_taken_what_it_was_sent_in_it(b, server, left, kept, tmp_path):
    # Until then it is gone through again, unless all say that they took it, or said something later.
    heard = {"b": b, SERVER: server}
    assert answer_three(tmp_path / "a", heard) == [10, 20, 30]
    assert answer_three(tmp_path / "a", heard) == left
    # The last one is there as long as nothing follows.
    assert (tmp_path / "a").stat().st_size // 3000 == kept


@pytest.mark.parametrize("lacks", [False, True])
def test_who_resumes_asks_over_sockets_who_lacks_what_it_said_in_a_step_that_is_over(lacks, tmp_path):
    assert answer_three(tmp_path / "a", {"b": 99, SERVER: 99}) == [10, 20, 30]
    said, heard = [], 30 if lacks else 31

    def b():
        return (yield Exchange({}, ("a",) * lacks, round=0, accept=31, taken={"a": heard}))

    def server():
        yield Exchange({"a": Hello(b"end")}, (), round=40, taken={"a": 31})

    async def resume():
        links = await mesh(["a", "b", SERVER])
        with Journal.open(tmp_path / "a", "a", RUN) as journal:
            roles = {"a": keep_journal(asked(said), journal, settling=True), "b": b(), SERVER: server()}
            runs = (run_party(role, links[me], rejoin=5, patience=20) for me, role in roles.items())
            return await asyncio.wait_for(asyncio.gather(*runs), 60)

    found = asyncio.run(resume())[1]
    assert said == [30] * lacks
    assert [message.description for message in found.values()] == [b"to b"] * lacks


def test_who_resumes_asks_once_and_waits_for_no_peer_that_is_away_for_long(tmp_path):
    """It waited as long as that may be away, twelve hours in a deployment, and the others for it."""
    assert answer_three(tmp_path / "a", {"b": 10, SERVER: 99}) == [10, 20, 30]
    said, meets = [], []

    def noted(role):
        inbox = None
        while True:
            exchange = role.send(inbox)
            meets.extend(exchange.meets)
            inbox = yield exchange

    async def resume():
        links = await mesh(["a", "b", SERVER])
        links["b"]["a"].channel.abort()
        with Journal.open(tmp_path / "a", "a", RUN) as journal:
            role = noted(keep_journal(asked(said), journal, settling=True))
            party = asyncio.create_task(run_party(role, links["a"], rejoin=600, patience=600, grace=0.1))
            async with asyncio.timeout(30):
                while said != [10, 20, 30]:
                    await asyncio.sleep(0.01)
            party.cancel()
            await asyncio.gather(party, return_exceptions=True)
        for name in ("b", SERVER):
            for link in links[name].values():
                link.channel.abort()
        await asyncio.sleep(0)  # so that they are closed

    asyncio.run(resume())
    assert meets == ["b"]


@pytest.mark.parametrize(("later", "expected"), [(12, ["b"]), (21, [])])
def test_a_word_within_a_step_does_not_say_that_its_sender_took_what_it_was_sent_in_it(later, expected):
    """Its round may be newer, and was believed: a member says something before it hears the dealer."""
    here, came = Place(0, b""), Settled(Hello(b"x"), None, ())
    step = SettledStep(here, here, here, came, 10, {"b": 11}, {SERVER: 10, "b": 12}, b"")
    taken = {SERVER: 20, "b": later}
    assert list(find_unsure_peers(SimpleNamespace(taken=taken), step)) == expected


def test_of_steps_that_are_settled_together_what_stands_between_them_stays(tmp_path):
    """It was dropped where a peer was away through both: a query of costs between two of labels."""

    def asked(said):
        wait = Exchange({}, (SERVER,), round=0, accept=10, step=10, exact=False)
        for number in (10, 20, 30, 40):
            request = (yield wait)[SERVER]
            if not isinstance(request, Settled):
                said.append(number)
                yield Exchange({"b": Hello(b"to b")}, (), round=number + 1)
            came = Settled(Hello(bytes([number])), None, (number,))
            settled = None if number == 20 else lambda came=came: came
            wait = Exchange({}, (SERVER,), 1, number, number + 10, False, 10, settled=settled)
        yield wait

    def resume(hears):
        said = []
        with Journal.open(tmp_path / "a", "a", RUN) as journal:
            role = keep_journal(asked(said), journal, settling=True)
            exchange = next(role)
            while exchange.taken is not None or exchange.accept != 50:
                told = {SERVER: Hello(bytes(3000))} if exchange.step > 1 else {}
                heard = {"b": hears if exchange.accept == 40 else -1}
                rounds = dict.fromkeys(told, exchange.accept)
                exchange = role.send(Inbox(told, rounds, heard.__getitem__))
            role.close()
        return said

    assert resume(99) == [10, 20, 30, 40]
    assert (tmp_path / "a").stat().st_size // 3000 == 2
    assert resume(-1) == [20, 40]


def result_of(role, answer):
    """What a role returns whose exchanges are answered so."""
    exchange = next(role)
    while True:
        try:
            exchange = role.send(answer(exchange))
        except StopIteration as done:
            return done.value


def test_of_a_result_no_word_is_put_on_file_that_an_outcome_stands_for(tmp_path, monkeypatch):
    monkeypatch.setattr("secfc.transport.journal.LARGE", 100)

    def asked(said):
        yield Exchange({}, (SERVER,), 1, 0, 10, False, 10, settles=True)
        said.append((yield Exchange({"b": Hello(b"to b")}, (SERVER,), round=11, accept=12)))
        came = Settled(Hello(b"x"), np.full(7, 1, np.int32), (5,))
        last = Exchange({}, (SERVER,), 1, 12, 20, False, 10, settled=lambda: came)
        return (yield last)[SERVER].description

    def asked_again(said):
        assert isinstance((yield Exchange({}, (SERVER,), 1, 0, 10, False, 10, settles=True))[SERVER], Settled)
        return (yield Exchange({}, (SERVER,), 1, 12, 20, False, 10))[SERVER].description

    path, word = tmp_path / "a.journal", Hello(bytes(2000))
    told = [Inbox({SERVER: Hello(name)}, {SERVER: at}) for name, at in ((b"x", 10), (b"y", 20))]
    told.insert(1, Inbox({SERVER: word}, {SERVER: 12}))
    with Journal.open(path, "a", RUN) as journal:
        answers = iter(told)
        assert result_of(keep_journal(asked([]), journal, settling=True), lambda _: next(answers)) == b"y"
    assert path.stat().st_size < 1500  # without the word
    with Journal.open(path, "a", RUN) as journal:
        assert journal.done
        assert replay(keep_journal(asked_again([]), journal, settling=True)) == b"y"
    # With b, which may lack what it was told, the step is gone through again: the server says its word.
    for heard, expected in ((11, []), (10, [word.description])):
        said, met = [], []

        def answer(exchange, heard=heard, met=met):
            met.extend(exchange.meets)
            asks = dict.fromkeys(exchange.expect, word)
            return Inbox(asks, dict.fromkeys(asks, 12), lambda peer: heard)

        with Journal.open(path, "a", RUN) as journal:
            role = keep_journal((asked_again if heard == 11 else asked)(said), journal, settling=True)
            assert (result_of(role, answer), met) == (b"y", ["b"])
        assert [found[SERVER].description for found in said] == expected


def test_a_journal_with_a_result_holds_what_was_left_out_before(tmp_path, monkeypatch):
    monkeypatch.setattr("secfc.transport.journal.LARGE", 100)

    def asked():
        yield Exchange({}, (SERVER,), 1, 0, 10, False, 10, settles=True)
        heard = (yield Exchange({"b": Hello(b"to b")}, (SERVER,), round=11, accept=12))[SERVER]
        yield Exchange({}, (SERVER,), round=13, accept=20, exact=False, step=10)
        return heard.description

    path, word = tmp_path / "a.journal", Hello(bytes(2000))
    told = [Inbox({SERVER: Hello(b"x")}, {SERVER: 10}), Inbox({SERVER: word}, {SERVER: 12})]

    def resume(word):
        with Journal.open(path, "a", RUN) as journal:
            role, exchanges = keep_journal(asked(), journal, settling=True), []
            exchange = next(role)
            try:
                while True:
                    exchanges.append(exchange)
                    asks = exchange.expect and exchange.taken is not None
                    came = Inbox({SERVER: word}, {SERVER: 12}) if asks and word else Inbox({}, {})
                    exchange = role.send(came if exchange.taken is not None else told[len(exchanges) - 1])
            except (StopIteration, IndexError) as done:
                role.close()
                return getattr(done, "value", None), exchanges

    _, exchanges = resume(None)
    assert exchanges[-1].again == {SERVER: 11}
    assert path.stat().st_size < 1000
    for wrong, error in ((None, Indispensable), (Hello(bytes(1999) + b"x"), JournalError)):
        with pytest.raises(error, match="again"):
            resume(wrong)
    _, exchanges = resume(word)
    assert [exchange.expect for exchange in exchanges[:2]] == [(), (SERVER,)]
    assert (exchanges[1].taken[SERVER], exchanges[1].accept) == (11, 12)
    told.append(Inbox({SERVER: Hello(b"y")}, {SERVER: 20}))
    assert resume(word)[0] == word.description
    # From the file alone: the server may have gone.
    with Journal.open(path, "a", RUN) as journal:
        assert journal.done
        assert replay(keep_journal(asked(), journal, settling=True)) == word.description


def test_a_file_beside_a_journal_that_is_gone_or_torn_changes_nothing(tmp_path):
    path = interrupted(tmp_path)
    good = path.read_bytes()
    for beside in (
        b"",
        b"torn" * 20,
        (1 << 20).to_bytes(8, "little") + bytes(16) + checksum((1 << 20).to_bytes(8, "little"), bytes(16)),
    ):
        settled_path(path).write_bytes(beside)
        Journal.open(path, "a", RUN).close()
        assert path.read_bytes() == good
        assert not settled_path(path).exists()


# --- what protects masks -----------------------------------------------------------------------------


def crashed(directory, *, at=30, algorithm=OPEN, fed=None, network=None, **options):
    with pytest.raises(Crash):
        secfc.fit(
            algorithm, fed or serve_some(), checkpoint=directory, watch=after(at),
            **({} if network is None else {"faults": network}), **options,
        )  # fmt: skip


def test_other_coins_data_or_parameters_are_refused_before_anything_is_said(tmp_path):
    network = Network()
    crashed(tmp_path / "a", network=network)
    said = dict(network.said)
    # Of the same size and bound, so all that is public is the same.
    first, *others = (p.read() for p in serve_some().parties)
    moved = secfc.Federation.from_arrays([first[::-1], *others])
    with pytest.raises(JournalError, match="client-0 would not send what it sent before"):
        secfc.fit(OPEN, moved, checkpoint=tmp_path / "a", faults=network)
    with pytest.raises(JournalError, match="would not send"):
        secfc.fit(
            OPEN,
            serve_some(),
            checkpoint=tmp_path / "a",
            faults=network,
            coins=lambda p: SeededCoins(0, p),
        )
    assert {key for key in network.said if key not in said} == set()
    for other in ({"seed": 1}, {"sealed": True}, {"bound": 77.0}):
        with pytest.raises(JournalError, match="other parameters"):
            secfc.fit(OPEN, serve_some(), checkpoint=tmp_path / "a", **other)
    with pytest.raises(JournalError, match="other parameters"):
        secfc.fit(dataclasses.replace(OPEN, k=2), serve_some(), checkpoint=tmp_path / "a")
    assert same(secfc.fit(OPEN, serve_some(), checkpoint=tmp_path / "a"), secfc.fit(OPEN, serve_some()))


def test_a_run_resumes_with_other_threads(tmp_path):
    crashed(tmp_path, network=Network())
    faster = with_parameters(OPEN, threads=2)
    assert same(secfc.fit(faster, serve_some(), checkpoint=tmp_path), secfc.fit(OPEN, serve_some()))


def test_without_restored_coins_two_things_are_said_in_one_round(tmp_path, monkeypatch):
    # The control of this file: the network notices when coins are new and the check of sends is off.
    network = Network()
    monkeypatch.setattr("secfc.transport.checkpoint.exchange_digest", lambda number, send: bytes(16))
    crashed(tmp_path, network=network)
    with pytest.raises(ProtocolError, match="two things"):
        secfc.fit(OPEN, serve_some(), checkpoint=tmp_path, faults=network, coins=lambda p: SeededCoins(9, p))


def test_seeded_coins_stay_reproducible(tmp_path):
    def coins(party):
        return SeededCoins(4, party)

    expected = secfc.fit(RUNS["private"], serve_some(), coins=coins, keep_bodies=True)
    crashed(tmp_path, at=60, algorithm=RUNS["private"], coins=coins)
    got = secfc.fit(RUNS["private"], serve_some(), coins=coins, keep_bodies=True, checkpoint=tmp_path)
    assert same(got, expected)

    def bodies(result):
        return {(e.sender, e.recipient, e.round): wire.encode(e.body) for e in result.transcript.envelopes}

    assert bodies(got) == bodies(expected)


def test_a_missing_journal_is_refused(tmp_path):
    crashed(tmp_path)
    journal_path(tmp_path, "client-1").unlink()
    with pytest.raises(JournalError, match="history of other parties and none of client-1"):
        secfc.fit(OPEN, serve_some(), checkpoint=tmp_path)


def test_journals_of_a_run_that_never_began_may_be_missing(tmp_path):
    crashed(tmp_path, at=30)
    for name in (*serve_some().names, SERVER):
        path = journal_path(tmp_path, name)
        path.write_bytes(path.read_bytes()[: 33 + 65 + len(name)])
    journal_path(tmp_path, SERVER).unlink()
    secfc.fit(OPEN, serve_some(), checkpoint=tmp_path)


# --- one party crashes -------------------------------------------------------------------------------


def builders(algorithm, fed, directory, sealed=False, telling=False, settling=False):
    """For each party: makes its role anew, from its journal.  telling: peers, if it ends by an error."""
    plan = algorithm.plan(dataclasses.replace(PublicFacts.of(fed), session=bytes(32)))
    open_now = {}

    def make(name):
        if name in open_now:
            open_now[name].close()
        journal = open_now[name] = Journal.open(journal_path(directory, name), name, RUN)
        if name == SERVER:
            role = algorithm.server(plan, rng=np.random.default_rng(0), coins=journal.coins())
        else:
            (party,) = (p for p in fed.parties if p.name == name)
            coins = journal.coins()
            role = algorithm.client(plan, party, coins=coins)
            role = seal(role, name, fed.names, plan.description, coins) if sealed else role
        if telling:
            role = broadcast_abort(role, name, tuple(p for p in (*fed.names, SERVER) if p != name))
        return keep_journal(role, journal, settling=settling)

    def close():
        for journal in open_now.values():
            journal.close()

    return make, close


def checked(results, fed):
    """Compare with plaintext k-means, started alike."""
    trace, scale = results[SERVER].trace, results[SERVER].plan.quantizer.scale
    start = secfc.GivenLabels(trace.history[0])
    plain = secfc.fit(with_parameters(RUNS["lloyd"], init=start, scale=scale), fed)
    assert len(trace.history) == len(plain.history)
    assert all((a == b).all() for a, b in zip(trace.history, plain.history, strict=True))
    assert all((results[n].labels == own).all() for n, own in zip(fed.names, plain.labels, strict=True))


def rising(make, name, at):
    """A role that dies before its at-th exchange is sent, and comes back at once."""
    role, inbox, live = make(name), None, 0
    while True:
        try:
            exchange = role.send(inbox)
        except StopIteration as done:
            return done.value
        live += exchange.taken is None
        if live == at:
            at = None
            role.close()
            role, inbox = make(name), None
            continue
        inbox = yield exchange


@pytest.mark.parametrize(("name", "victim", "step"), every(2, [
    *(("open", victim, 1) for victim in ("client-0", "client-2", SERVER)),
    *(("labels only", victim, 3) for victim in ("client-0", "client-2", SERVER)),
    ("nobody deals", "client-1", 9),
]))  # fmt: skip
def test_one_party_crashes_at_any_exchange(name, victim, step, tmp_path):
    fed = serve_some()
    for at in range(1, 9 * step, short(2, nightly=1) * step):
        make, close = builders(RUNS[name], fed, tmp_path / str(at))
        roles = {name: make(name) for name in (*fed.names, SERVER) if name != victim}
        roles[victim] = rising(make, victim, at)
        network = Network()
        done = simulate(roles, watch=network.watch)
        close()
        checked(done.results, fed)


def dying(role, at, told):
    """A role that dies before its at-th exchange is sent, or when that was answered."""
    inbox, live = None, 0
    while True:
        try:
            exchange = role.send(inbox)
        except StopIteration as done:
            return done.value
        live += exchange.taken is None
        if live == at and not told:
            raise Crash
        inbox = yield exchange
        if live == at:
            raise Crash


def noting(role, name, network):
    """The role, everything it says noted."""
    inbox = None
    while True:
        try:
            exchange = role.send(inbox)
        except StopIteration as done:
            return done.value
        network.watch(name, exchange)
        inbox = yield exchange


async def reviving(make, names, victim, at, told, **options):
    """All parties over sockets; the victim dies once, and comes back over new connections."""
    links, network = await mesh(list(names)), Network()
    roles = {name: noting(make(name), name, network) for name in names}
    roles[victim] = dying(roles[victim], at, told)
    options = {"rejoin": 20.0, "patience": 30.0, **options}
    tasks = {name: asyncio.create_task(run_party(roles[name], links[name], **options)) for name in names}
    died = False
    try:
        await tasks[victim]
    except Crash:
        died, fresh = True, {}
        for peer in names:
            if peer != victim:
                pair = await mesh([victim, peer])
                fresh[peer], other = pair[victim][peer], pair[peer][victim]
                links[peer][victim].renew_connection(other.channel)
        role = noting(make(victim), victim, network)
        tasks[victim] = asyncio.create_task(run_party(role, fresh, **options))
    try:
        return died, dict(zip(tasks, await asyncio.gather(*tasks.values()), strict=True))
    finally:
        await asyncio.gather(*tasks.values(), return_exceptions=True)


async def set_back(name, directory):
    """What client 1 ends with, of which an older copy of the journal is put back after it crashed."""
    fed, victim = serve_some(), "client-1"
    make, close = builders(RUNS[name], fed, directory)
    names, path = (*fed.names, SERVER), journal_path(directory, victim)
    links, network = await mesh(list(names)), Network()

    def copying(role):
        inbox = None
        for number in itertools.count():
            exchange = role.send(inbox)
            older.append(path.read_bytes())
            if number == 6:
                raise Crash
            inbox = yield exchange

    older, roles = [], {name: noting(make(name), name, network) for name in names}
    roles[victim] = copying(roles[victim])
    tasks = {name: asyncio.create_task(run_party(roles[name], links[name], patience=30.0)) for name in names}
    with pytest.raises(Crash):
        await tasks.pop(victim)
    path.write_bytes(older[4])
    fresh = {}
    for peer in tasks:
        pair = await mesh([victim, peer])
        fresh[peer], other = pair[victim][peer], pair[peer][victim]
        links[peer][victim].renew_connection(other.channel)
    try:
        await run_party(noting(make(victim), victim, network), fresh, patience=1.0)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        close()


def test_an_older_copy_of_a_journal_ends_before_another_word_is_said_in_its_place(tmp_path, monkeypatch):
    with pytest.raises(JournalError, match="an older copy, unless that is a lie"):
        asyncio.run(set_back("labels only", tmp_path / "one"))

    async def trust(*_):
        pass

    monkeypatch.setattr("secfc.transport.network._Post.refuse_older_copy", trust)
    with pytest.raises(ProtocolError, match="client-1 said two things"):
        asyncio.run(set_back("labels only", tmp_path / "other"))


@pytest.mark.parametrize(("told", "victim"), in_turns([False, True], ["client-1", SERVER]))
def test_one_party_crashes_over_sockets_and_the_others_wait(victim, told, tmp_path):
    fed = serve_some()
    for at in itertools.count(1, short(13, nightly=1)):
        make, close = builders(OPEN, fed, tmp_path / str(at))
        died, results = asyncio.run(
            asyncio.wait_for(reviving(make, (*fed.names, SERVER), victim, at, told), 60)
        )
        close()
        checked(results, fed)
        if not died:
            break
    assert at > 7


@pytest.mark.parametrize("name", ["open", *by_night("private")])
def test_a_sealed_party_crashes_over_sockets(name, tmp_path):
    fed, algorithm = serve_some(), RUNS[name]
    for at in (1, 2, 3, 8):  # also between the steps of the handshake
        make, close = builders(algorithm, fed, tmp_path / str(at), sealed=True)
        died, results = asyncio.run(
            asyncio.wait_for(reviving(make, (*fed.names, SERVER), "client-0", at, True), 60)
        )
        close()
        assert died
        if name == "open":
            checked(results, fed)
        labels = results[SERVER].trace.labels
        for party in fed.names:
            assert (results[party].labels == labels[results[party].rows]).all()


# The server has 29 exchanges, client-1 some 100, of which it answers a question in 34 and later ones.
@pytest.mark.parametrize(("victim", "last"), [("client-1", 100), (SERVER, 28)])
def test_what_a_journal_leaves_out_the_server_says_again(victim, last, tmp_path, monkeypatch):
    monkeypatch.setattr("secfc.transport.journal.LARGE", -1)
    fed, asked, take_again = serve_some(), [], Journal.take_again

    def noted(self, inbox, came):
        asked.extend(self.left_out)
        return take_again(self, inbox, came)

    monkeypatch.setattr(Journal, "take_again", noted)

    def revive(at, **options):
        algorithm, folder = with_parameters(STEPS, max_iter=3), tmp_path / f"{at} {len(options)}"
        make, close = builders(algorithm, fed, folder, settling=True)
        try:
            return asyncio.run(
                asyncio.wait_for(reviving(make, (*fed.names, SERVER), victim, at, True, **options), 60)
            )
        finally:
            close()

    for at in short((7 * last // 10,), nightly=range(last // 3, last + 1)):
        died, results = revive(at)
        assert died
        checked(results, fed)
    assert bool(asked) == (victim != SERVER)
    # The control: a server that keeps nothing longer cannot say it.
    if asked:
        monkeypatch.setattr("secfc.transport.link.Link.keep_after", lambda self, number: None)
        with pytest.raises(TooFewReplies):
            revive(70, patience=0.2, rejoin=0.2)


@pytest.mark.parametrize(("algorithm", "settling", "crashes"), [
    (OPEN, False, (1, 2, 2, 2, 3)),
    (with_parameters(STEPS, max_iter=3), True, (18, 3, 2)),  # in answers to questions
])  # fmt: skip
def test_all_crash_over_sockets_and_resume(algorithm, settling, crashes, tmp_path, monkeypatch):
    monkeypatch.setattr("secfc.transport.journal.LARGE", -1)
    fed, names = serve_some(), (*serve_some().names, SERVER)

    async def converse(make, at):
        links = await mesh(list(names))
        roles = {name: make(name) for name in names}
        if at is not None:
            roles[SERVER] = dying(roles[SERVER], at, True)
        tasks = [
            asyncio.create_task(run_party(roles[n], links[n], rejoin=20.0, patience=30.0)) for n in names
        ]
        try:
            return dict(zip(names, await asyncio.gather(*tasks), strict=True))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    make, close = builders(algorithm, fed, tmp_path, settling=settling)
    for at in crashes:
        with pytest.raises(Crash):
            asyncio.run(asyncio.wait_for(converse(make, at), 60))
    checked(asyncio.run(asyncio.wait_for(converse(make, None), 60)), fed)
    close()


@pytest.mark.parametrize("victim", ["client-1", SERVER])
def test_an_absence_that_is_too_long_suspends_a_run_and_ends_none(victim, tmp_path):
    fed, names = serve_some(), (*serve_some().names, SERVER)

    async def converse(make, at, rejoin):
        links = await mesh(list(names))
        roles = {name: make(name) for name in names}
        if at is not None:
            roles[victim] = dying(roles[victim], at, True)
        parties = (run_party(roles[n], links[n], rejoin=rejoin, patience=20.0, suspend=True) for n in names)
        return dict(zip(names, await asyncio.gather(*parties, return_exceptions=True), strict=True))

    suspended = 0
    for at in itertools.count(1, short(7, nightly=1)):
        make, close = builders(OPEN, fed, tmp_path / str(at), telling=True)
        got = asyncio.run(asyncio.wait_for(converse(make, at, 0.1), 60))
        if not isinstance(got.pop(victim), Crash):
            close()
            break
        # Who has all that it needs may have ended; the others wait, and nobody was told anything.
        lost = [found for found in got.values() if isinstance(found, Exception)]
        assert all(isinstance(found, PartiesAway) for found in lost), lost
        suspended += bool(lost)
        checked(asyncio.run(asyncio.wait_for(converse(make, None, 20.0), 60)), fed)
        close()
    assert suspended > 2


def test_answers_among_which_some_were_missing_are_awaited_anew(tmp_path):
    def asks(needed=2):
        inbox = yield Exchange({"b": Hello(b"x")}, ("b", "c"), round=1)
        if len(inbox) < needed:
            raise TooFewReplies(needed, tuple(inbox))
        yield Exchange({"b": Hello(b"y")}, round=2)
        return set(inbox)

    path, told = tmp_path / "a.journal", Inbox({"b": Hello(b"z")}, {"b": 1})
    for _ in range(2):  # also a second time
        with Journal.open(path, "a", RUN) as journal:
            role = keep_journal(asks(), journal)
            assert next(role).expect == ("b", "c")  # none of them is on file
            with pytest.raises(TooFewReplies):
                role.send(told)
            assert journal.taken == {}
    with Journal.open(path, "a", RUN) as journal:
        role = keep_journal(asks(), journal)
        next(role)
        role.send(Inbox({"b": Hello(b"z"), "c": Hello(b"z")}, {"b": 1, "c": 1}))
        with pytest.raises(StopIteration) as done:
            role.send(Inbox({}, {}))
        assert done.value.value == {"b", "c"}
    with Journal.open(path, "a", RUN) as journal:  # what something followed from stays
        assert journal.taken == {"b": 1, "c": 1}


def test_what_has_ended_is_known_from_the_file_alone(tmp_path):
    def asks():
        inbox = yield Exchange({"b": Hello(b"x")}, ("b",), round=1)
        return set(inbox)

    path = tmp_path / "a.journal"
    with Journal.open(path, "a", RUN) as journal:
        role = keep_journal(asks(), journal)
        next(role)
        with pytest.raises(StopIteration):
            role.send(Inbox({"b": Hello(b"z")}, {"b": 1}))
    for _ in range(2):
        with Journal.open(path, "a", RUN) as journal:
            assert journal.done
            assert replay(keep_journal(asks(), journal)) == {"b"}
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])  # a torn last record is dropped, as any other
    with Journal.open(path, "a", RUN) as journal:
        assert not journal.done
        assert journal.taken == {"b": 1}
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with Journal.open(path, "a", RUN) as journal:
        assert not journal.done


def test_a_party_whose_data_changed_says_so_at_once_and_the_others_wait_until_they_are_back(tmp_path):
    path, origins = tmp_path / "a.journal", {"introduce": "the number of its rows"}

    def tells(rows):
        yield Exchange({"b": Hello(rows)}, ("b",), round=1, phase="introduce")
        return set((yield Exchange({"b": Hello(b"y")}, ("b",), round=2)))

    def hears():
        for number in (1, 2):
            yield Exchange({"a": Hello(b"z")}, ("a",), round=number)

    with Journal.open(path, "a", RUN) as journal:  # it dies before it hears anything
        next(keep_journal(tells(b"10 rows"), journal, harmless=origins))

    async def converse():
        links = await mesh(["a", "b"])
        other = asyncio.create_task(run_party(hears(), links["b"], rejoin=60.0, suspend=True))
        with Journal.open(path, "a", RUN) as journal:
            role = keep_journal(tells(b"11 rows"), journal, harmless=origins)
            with pytest.raises(
                JournalError, match=r"phase 'introduce'\): the number of its rows changed since"
            ):
                await asyncio.wait_for(run_party(role, links["a"], rejoin=60.0, suspend=True), 20)
        await asyncio.wait([other], timeout=0.2)
        assert not other.done()
        for end, link in zip("ab", (await mesh(["a", "b"])).values(), strict=True):
            if end == "b":
                links["b"]["a"].renew_connection(link["a"].channel)
            else:
                links["a"] = link
        with Journal.open(path, "a", RUN) as journal:
            role = keep_journal(tells(b"10 rows"), journal, harmless=origins)
            assert await run_party(role, links["a"], rejoin=60.0, suspend=True) == {"b"}
        await other

    asyncio.run(asyncio.wait_for(converse(), 40))


def test_a_goodbye_that_nobody_said_counts_as_an_absence_and_a_last_word_does_not(tmp_path):
    def asks():
        return dict((yield Exchange({}, ("b",), 0)))

    async def hear(last_word):
        links = await mesh(["a", "b"])
        for number in [END] * last_word:
            links["b"]["a"].put(number, Hello(b"b ended"))
        links["b"]["a"].put(GOODBYE)  # whoever carries it can have made it
        writing = asyncio.create_task(links["b"]["a"].write_frames())
        try:
            return await run_party(asks(), links["a"], rejoin=0.3, patience=30.0, suspend=True)
        finally:
            writing.cancel()
            await links["b"]["a"].channel.close()

    with pytest.raises(PartiesAway):
        asyncio.run(hear(False))
    assert asyncio.run(hear(True)) == {}


def test_a_peer_that_does_not_come_back_is_missed_after_a_while(tmp_path):
    def asks():
        return dict((yield Exchange({}, ("b",))))

    def dies():
        yield Exchange()
        raise Crash

    async def converse():
        links = await mesh(["a", "b"])
        b = asyncio.create_task(run_party(dies(), links["b"]))
        begin = time.monotonic()
        got = await run_party(asks(), links["a"], rejoin=0.3, patience=30.0)
        with pytest.raises(Crash):
            await b
        late = await mesh(["a", "b"])
        links["a"]["b"].renew_connection(late["a"]["b"].channel)
        assert await late["b"]["a"].channel.read(1) == b""  # it came too late, and is told so
        await late["b"]["a"].channel.close()
        return got, time.monotonic() - begin

    got, seconds = asyncio.run(converse())
    assert got == {}
    assert 0.3 <= seconds < 10


# --- the file ----------------------------------------------------------------------------------------


def speak(peer, count):
    heard = []
    for number in range(count):
        inbox = yield Exchange({peer: Hello(bytes([number]) * 40)}, (peer,), round=number)
        heard.append(inbox[peer].description[0])
    return heard


def talk(directory, count=4, crash=None, **watch):
    with Checkpoint.open(directory, ("a", "b"), RUN) as kept:
        roles = {"a": kept.role("a", speak("b", count)), "b": kept.role("b", speak("a", count))}
        return simulate(roles, **watch).results


def interrupted(directory, at=5):
    with pytest.raises(Crash):
        talk(directory, watch=after(at))
    return journal_path(directory, "a")


def test_a_torn_last_record_is_dropped(tmp_path):
    whole, path = {}, interrupted(tmp_path)
    before = path.stat().st_size
    talk(tmp_path)
    for name in "ab":
        whole[name] = journal_path(tmp_path, name).read_bytes()
    # The record that a would have written next: what it took, which is 33 bytes and 24, a name and a message.
    took = 33 + 24 + 1 + wire.encoded_size(Hello(bytes(40)))
    for cut in range(took + 1):
        for zeros in (0, 100):
            path.write_bytes(whole["a"][: before + cut] + bytes(zeros if cut == 0 else 0))
            assert talk(tmp_path)["a"] == [0, 1, 2, 3]
            assert path.read_bytes() == whole["a"]
    # Written to the right length, but not all of it.
    path.write_bytes(whole["a"][: before + took - 9] + bytes(9))
    assert talk(tmp_path)["a"] == [0, 1, 2, 3]
    assert path.read_bytes() == whole["a"]


def test_every_byte_of_an_earlier_record_is_checked(tmp_path):
    path = interrupted(tmp_path)
    good = path.read_bytes()
    with Journal.open(path, "a", RUN) as journal:
        assert journal.taken == {"b": 1}
    last = 33 + 16  # what a sent last
    for at in range(len(good) - last):
        path.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        with pytest.raises(JournalError, match="damaged at byte"):
            talk(tmp_path)
    # Records that are left out, or swapped.
    first = 33 + 65 + 1
    for bad in (good[first:], good[:first] + good[first + 49 :], b"a,b\n1,2\n", good[:60]):
        path.write_bytes(bad)
        with pytest.raises(JournalError, match="no journal, or damaged"):
            talk(tmp_path)
    path.write_bytes(good)
    assert talk(tmp_path)["a"] == [0, 1, 2, 3]


def test_other_parties_runs_and_versions_are_refused(tmp_path, monkeypatch):
    path = interrupted(tmp_path)
    with pytest.raises(JournalError, match="is the journal of 'a', not of 'b'"):
        Journal.open(path, "b", RUN)
    with pytest.raises(JournalError, match="other parameters"):
        Journal.open(path, "a", bytes(31) + b"x")
    with pytest.raises(ValueError, match="32"):
        Journal.open(path, "a", b"short")
    monkeypatch.setattr("secfc.transport.journal.VERSION", 6)
    with pytest.raises(JournalError, match="version 5, this software writes version 6"):
        Journal.open(path, "a", RUN)


def blaming(error):
    """A role that hears once, and then has this error."""
    yield Exchange({"b": Hello(b"secret word")}, ("b",), round=1)
    raise error


def ended(path, error):
    """A journal whose run ended so, after a message was taken."""
    with Journal.open(path, "a", RUN) as journal:
        seed = journal._seed
        role = keep_journal(blaming(error), journal)
        next(role)
        with pytest.raises(type(error)):
            role.send(Inbox({"b": Hello(b"told in secret")}, {"b": 1}))
    return seed


@pytest.mark.parametrize("error", [FaultyClient("b", "lied"), SuspectedParties(("b", "c"), "no points")])
def test_a_run_that_ended_with_blame_leaves_no_keys_and_cannot_go_on(error, tmp_path):
    path = tmp_path / "a.journal"
    seed = ended(path, error)
    assert seed not in path.read_bytes()
    assert b"secret" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [p.name for p in tmp_path.iterdir()] == ["a.journal"]
    with pytest.raises(JournalError, match=f"ended with {type(error).__name__}"):
        Journal.open(path, "a", RUN)
    with pytest.raises(JournalError, match="other parameters"):
        Journal.open(path, "a", bytes(31) + b"1")


@pytest.mark.parametrize("error", [FaultyClient("b", "lied"), ValueError("a mistake")])
def test_a_run_that_ended_before_anything_was_said_leaves_no_journal(error, tmp_path):
    path = tmp_path / "a.journal"

    def ending(phases):
        for number, phase in enumerate(phases):
            yield Exchange({"b": Hello(b"x")}, ("b",), round=number, phase=phase)
        raise error

    for phases, left in ((("greet", "agree"), False), (("greet", "share"), True)):
        with Journal.open(path, "a", RUN) as journal:
            seed = journal._seed
            role = keep_journal(ending(phases), journal, harmless={"greet": "its key", "agree": "the plan"})
            next(role)
            role.send(Inbox({}, {}))
            with pytest.raises(type(error)):
                role.send(Inbox({}, {}))
        assert path.exists() == left
        if not left:
            with Journal.open(path, "a", RUN) as journal:
                assert journal.created
                assert journal._seed != seed
            path.unlink()


def test_a_run_that_ended_with_losses_can_go_on(tmp_path):
    path = tmp_path / "a.journal"
    seed = ended(path, TooFewReplies(2, ()))
    assert seed in path.read_bytes()  # as it must not be after blame
    with Journal.open(path, "a", RUN) as journal:
        assert journal.next_sent() is not None


def test_a_crash_while_a_journal_ends_leaves_it_whole(tmp_path, monkeypatch):
    path = tmp_path / "a.journal"

    def crash(self, to):
        raise Crash

    monkeypatch.setattr(Path, "replace", crash)
    with Journal.open(path, "a", RUN) as journal:
        journal.write_sent(bytes(16))
        with pytest.raises(Crash):
            journal.end("FaultyClient")
    with Journal.open(path, "a", RUN) as journal:
        assert journal.next_sent() is not None


def test_two_processes_cannot_resume_the_same_journal(tmp_path):
    path = interrupted(tmp_path)
    code = (
        "import sys; from pathlib import Path; from secfc.transport.journal import Journal\n"
        "Journal.open(Path(sys.argv[1]), 'a', bytes(32))"
    )
    with Journal.open(path, "a", RUN):
        with pytest.raises(JournalError, match="in use"):
            Journal.open(path, "a", RUN)
        other = subprocess.run(
            [sys.executable, "-c", code, path], capture_output=True, text=True, check=False, cwd=Path.cwd()
        )
        assert "is in use" in other.stderr
    Journal.open(path, "a", RUN).close()


def test_journals_are_for_their_owner_only_and_say_nothing(tmp_path):
    directory = tmp_path / "new" / "here"
    old = os.umask(0)
    try:
        path = interrupted(directory)
    finally:
        os.umask(old)
    assert directory.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    path.chmod(0o644)
    with Journal.open(path, "a", RUN) as journal:
        assert path.stat().st_mode & 0o777 == 0o600
        seed = journal._seed
        assert seed.hex()[:8] not in repr(journal)
        assert repr(seed)[2:10] not in repr(journal)
        assert journal.coins().bytes(32) == journal.coins().bytes(32) != seed
    link = tmp_path / "link"
    link.symlink_to(path)
    with pytest.raises(OSError, match="link"):
        Journal.open(link, "a", RUN)
    remove_journals(directory, ("a", "b"))
    assert not directory.exists()


def test_a_full_disk_loses_nothing(tmp_path, monkeypatch):
    write, calls = Journal._write, itertools.count()

    def full(self, kind, parts):
        if next(calls) == 9:
            self._file.write(b"some of it")
            self._file.flush()
            raise OSError(28, "No space left on device")
        write(self, kind, parts)

    monkeypatch.setattr(Journal, "_write", full)
    with pytest.raises(OSError, match="No space"):
        talk(tmp_path)
    monkeypatch.setattr(Journal, "_write", write)
    assert talk(tmp_path)["a"] == [0, 1, 2, 3]


# --- the command ---------------------------------------------------------------------------------------


def test_a_killed_command_resumes(tmp_path):
    files = []
    for party in serve_some(n=5, m=300, d=4).parties:
        files.append(str(tmp_path / f"{party.name}.npy"))
        np.save(files[-1], party.read())

    shown = ("--disclosure", "distances")  # whose journals are large enough to be killed in between

    def command(labels, *more):
        return ["run", *files, "-k", "3", "--n-init", "3", "--labels", str(labels), "--json", *shown, *more]

    whole = CliRunner().invoke(cli.main, command(tmp_path / "whole.csv"))
    assert whole.exit_code == 0, whole.output
    directory = tmp_path / "journals"
    keep = ("--checkpoint", str(directory))
    server, args = journal_path(directory, SERVER), command(tmp_path / "labels.csv", *keep)
    # Killed early, then after more of it.
    for size in (50_000, 500_000):
        process = subprocess.Popen(
            [sys.executable, "-m", "secfc.cli", *args], stdout=subprocess.DEVNULL, cwd=Path.cwd()
        )
        while process.poll() is None and not (server.exists() and server.stat().st_size > size):
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "it finished before it could be killed"
    refused = CliRunner().invoke(cli.main, [*args, "--seed", "1"])
    assert refused.exit_code == 2
    assert "other parameters" in refused.output
    args.remove("--json")
    args += ["--report", str(tmp_path / "report.json")]
    resumed = CliRunner().invoke(cli.main, args)
    assert resumed.exit_code == 0, resumed.output
    assert "Resumed after step" in resumed.stderr
    assert "those of plaintext k-means (Lloyd), exactly" in resumed.output
    assert (tmp_path / "labels.csv").read_text() == (tmp_path / "whole.csv").read_text()
    assert not directory.exists(), "a finished run leaves no secrets behind"


def test_a_directory_that_cannot_be_used_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    result = CliRunner().invoke(cli.main, ["run", "--checkpoint", str(tmp_path / "file")])
    assert result.exit_code == 2
    assert "--checkpoint" in result.output


def test_a_replay_does_not_swallow_the_word_that_the_run_ended(tmp_path):
    """It said that those who had left for good were away, and to start again from the journal."""
    others = ("b", SERVER)

    def speak():
        for number in range(12):
            yield Exchange(dict.fromkeys(others, Hello(bytes([number]) * 40)), others, round=number)

    def end():
        yield Exchange({"a": Abort("FaultyClient", "b", 9)}, round=END, phase="end")

    def answer():
        for number in range(5):
            yield Exchange({"a": Hello(b"x")}, ("a",), round=number)

    async def resume(others_do):
        links = await mesh(["a", *others])
        with Journal.open(tmp_path / "a", "a", RUN) as journal:
            mine = keep_journal(broadcast_abort(speak(), "a", others), journal)
            roles = {"a": mine, **{peer: others_do() for peer in others}}
            runs = (
                run_party(role, links[me], rejoin=0.2, patience=1, suspend=me == "a")
                for me, role in roles.items()
            )
            return (await asyncio.gather(*runs, return_exceptions=True))[0]

    assert isinstance(asyncio.run(resume(answer)), PartiesAway)
    assert isinstance(asyncio.run(resume(end)), Ended)


@pytest.mark.parametrize("beside", [True, False])
def test_a_word_that_is_asked_again_does_not_swallow_that_a_peer_ended(beside, tmp_path, monkeypatch):
    """It was taken with the word that came beside it, and nobody says it twice: the party waited for it."""
    monkeypatch.setattr("secfc.transport.journal.LARGE", -1)

    def listen():
        yield Exchange({}, (SERVER,), 1, 0, 10, False, 10, settles=True)
        yield Exchange({"b": Hello(b"to b")}, (SERVER,), round=11, accept=12)
        yield Exchange({}, ("b",), round=13)

    word, ended = Hello(bytes(40)), Abort("FaultyClient", SERVER, 9)
    told = [Inbox({SERVER: Hello(b"x")}, {SERVER: 10}), Inbox({SERVER: word}, {SERVER: 12})]
    again = Inbox({SERVER: word}, {SERVER: 12}) if beside else Inbox({}, {})
    again["b"] = ended
    again.rounds["b"] = END

    def resume(answers):
        with Journal.open(tmp_path / "a", "a", RUN) as journal:
            role = keep_journal(broadcast_abort(listen(), "a", ("b", SERVER)), journal, settling=True)
            exchange = next(role)
            for answer in answers:
                exchange = role.send(answer)
            role.close()
            return exchange

    resume(told)
    exchange = resume([Inbox({}, {})])  # what was left out is asked for
    assert (exchange.expect, exchange.heed) == ((SERVER,), ("b", SERVER))
    with pytest.raises(Ended):
        resume([Inbox({}, {}), again])
