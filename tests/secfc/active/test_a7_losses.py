"""Any one party, and any n - threshold, may die at any message: the run is exact, or says who is missing.

In the short profile every policy loses a client at a few messages, one of each kind; three nights try every
client at every message, and every pair of clients at every seventh; of long runs, more nights.
"""

import contextlib
import dataclasses
import functools
import importlib
import itertools
import multiprocessing
import os
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from numba.core.compiler_lock import global_compiler_lock

import secfc
from field.cached import cached_property
from field.code.masking import uniform_receivers
from field.compare import dealer_protocol
from field.kernels.compiling import run_parallel
from secfc.coded.messages import LabelShare, MissingMessages
from secfc.coded.quorum import exclude_dropouts
from secfc.disclosure.checked.steps import CheckingClient
from secfc.disclosure.compare import server as compared
from secfc.disclosure.decoded import distances
from secfc.errors import FaultyClient, Indispensable, SuspectedParties, TooFewReplies
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.nightly import by_night, every, short, tonight
from tests.secfc.active.dying import (
    DEALERS,
    NOISY,
    POLICIES,
    SPARE,
    Deaths,
    moments,
    named_by_anybody,
    scenario,
    vary,
)
from tests.secfc.campaign import SCALE, Fault, Network, check, coins, hold_rounded

LONG = "own labels, splitting"  # of many questions
CASES = [*(name for name in POLICIES if name != LONG), *by_night(LONG)]


@pytest.fixture(autouse=True)
def chunks(monkeypatch):
    """Shares leave two rows at a time, so that a client can die while it shares."""
    monkeypatch.setattr("secfc.coded.plan.CHUNK_RESIDUES", 4)


@functools.cache
def sent(name):
    """The messages of an undisturbed run, in order."""
    network = Network({}, False)
    POLICIES[name].run(network)
    return network.passed


def kinds_of(name, client):
    """After how many messages of its own a client has begun each kind of them, or is halfway through it."""
    mine = [e.kind for e in sent(name) if e.sender == client]
    found = {0, len(mine)}
    for kind in dict.fromkeys(mine):
        first = mine.index(kind)
        found |= {first + 1, first + (mine.count(kind) + 1) // 2}
    return sorted(found)


def survives(name, deaths):
    """That a run with these deaths is exact."""
    case = POLICIES[name]
    check(case, deaths, case.run(deaths))


def dies(name, client, number):
    """That the run survives, or says that this client cannot be spared."""
    if DEALERS.get(name) != client:
        survives(name, Deaths({client: number}))
        return
    # Once its last seeds are dealt a dealer is done.
    with contextlib.suppress(Indispensable):
        survives(name, Deaths({client: number}))


# --- clients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CASES)
def test_a_client_may_die_at_every_kind_of_message(name):
    # By day one moment amid the run, of these clients in turn.
    clients, turn = ("client-0", "client-3"), [*POLICIES].index(name) % 2
    for client in short(clients[turn : turn + 1], nightly=clients):
        for number in kinds_of(name, client)[short(12, nightly=0) :: short(60, nightly=1)]:
            dies(name, client, number)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", POLICIES)
def test_any_client_may_die_at_any_message(name):
    for client, count in moments(POLICIES[name]).items():
        if client != SERVER:
            for number in tonight(range(count + 1), 3):
                dies(name, client, number)


def spare(name):
    """Every pair of clients, without one that cannot be spared."""
    clients = [c for c in POLICIES[name].federation.names if c != DEALERS.get(name)]
    return list(itertools.combinations(clients, SPARE))


@pytest.mark.parametrize("name", CASES)
def test_as_many_as_are_to_spare_may_die_at_once(name):
    messages = sent(name)
    kinds = [e.kind for e in messages]
    firsts = [kinds.index(kind) for kind in dict.fromkeys(kinds)]
    tried = firsts[:: short(28, nightly=1)]
    for number, group in zip(tried, itertools.cycle(spare(name)[::4]), strict=False):
        survives(name, Deaths({}, group, number + 3))


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", POLICIES)
def test_any_pair_may_die_at_any_message(name):
    pairs, count = spare(name), len(sent(name))
    # Every pair at every seventh message, and each message for a seventh of the pairs: in three nights, or of
    # long runs some thousand a night.
    cases = [(number, group) for number in range(count) for group in pairs[number % 7 :: 7]]
    for number, group in tonight(cases, max(3, len(cases) // 1000)):
        survives(name, Deaths({}, group, number))


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("name", POLICIES)
def test_any_pair_may_die_one_after_the_other(name):
    rng, said = np.random.default_rng(7), moments(POLICIES[name])
    for group in spare(name) * 10:
        survives(name, Deaths({c: int(rng.integers(said[c] + 1)) for c in group}))


def all_of_them(plan, gone, reports, spared=()):
    """As it was: whoever lacked a key, or waited in vain, said nothing, and was left out for good."""
    return {*gone, *(c for c, report in reports.items() if report.missing.size)}


def many_die(way):
    """n=9, t=1: three replies decode, and all but three die, also members of every committee."""
    case = scenario(n=9, t=1, **way)
    network = Network({}, False)
    case.run(network)
    count = len(network.passed)
    for at in range(0, count, count // short(6, nightly=12)):
        deaths = Deaths({}, [f"client-{j}" for j in (0, 1, 3, 4, 6, 8)], at)
        check(case, deaths, case.run(deaths))


@pytest.mark.parametrize(
    "way",
    [{"disclosure": secfc.AssignmentsOnly()}, {"disclosure": secfc.AssignmentsOnly(None), "deviating": 0}],
    ids=["dealt", "undealt"],
)
def test_many_more_may_die_where_the_code_leaves_room(way, monkeypatch):
    many_die(way)
    monkeypatch.setattr(compared, "exclude_dropouts", all_of_them)
    with pytest.raises(TooFewReplies, match="3 replies are needed"):
        many_die(way)


def lose_keys(case, client="client-0"):
    """A client dies while it tells the others its keys; all of them can answer without it."""
    network = Network({}, False)
    case.run(network)
    mine = [e.kind for e in network.passed if e.sender == client]
    for number in [number for number, kind in enumerate(mine) if kind == "PublicKey"]:
        deaths = Deaths({client: number})
        check(case, deaths, case.run(deaths))


@pytest.mark.parametrize("name", ["distances", "labels only"])
def test_who_lacks_something_of_a_dead_client_is_not_taken_for_dead(name, monkeypatch):
    def all_survive():
        lose_keys(POLICIES[name])

    all_survive()
    if name == "distances":
        monkeypatch.setattr(distances, "exclude_dropouts", all_of_them)
        with pytest.raises(TooFewReplies, match="5 replies are needed"):
            all_survive()


def test_who_cannot_deal_for_want_of_a_key_tells_those_who_wait_for_it(monkeypatch):
    # What becomes of a report is hidden: the server believes each, also of those that are named in another.
    monkeypatch.setattr(compared, "exclude_dropouts", named_by_anybody)
    case = scenario(disclosure=secfc.AssignmentsOnly("client-6"), deviating=1, centers="rounded")
    lose_keys(case, "client-2")

    # As it was: each of them was reported as silent, and left out beside the dead client.
    def deal(self):
        asked, clients = self.asked, self.asked.plan.clients
        if self.name in asked.committee:
            for j in uniform_receivers(asked.plan.code, clients.index(self.name), asked.receivers):
                self._stream(clients[j])  # raises where there is no key
        yield from real(self)

    real = CheckingClient.deal
    monkeypatch.setattr(CheckingClient, "deal", deal)
    with pytest.raises(TooFewReplies, match="5 replies are needed"):
        lose_keys(case, "client-2")


@pytest.mark.parametrize(("deviating", "dealer"), [(1, SERVER), *by_night((0, SERVER), (1, "client-4"))])
def test_one_lost_message_costs_at_most_one_client_its_place(deviating, dealer):
    """One reply is to spare, so a second client that was left out would end the run."""
    policy, n = secfc.AssignmentsOnly(dealer), 4 if dealer == SERVER else 5
    case, quiet = scenario(n=n, t=1, disclosure=policy, deviating=deviating), Network({}, False)
    case.run(quiet)
    for number, lost in [*enumerate(quiet.passed)][:: short(61, nightly=1)]:
        network = Network({number: Fault("drop")}, False)
        # Of two that are there a dealer may be the one who is left out.
        with contextlib.suppress(*[Indispensable] * (dealer in (lost.sender, lost.recipient))):
            check(case, network, case.run(network))


@pytest.mark.parametrize(
    ("policy", "t"),
    # With t=0 one client responds, and two are members: a member's seed alone may be what the dealer lacks.
    [
        (secfc.AssignmentsOnly("client-4"), 0),
        (secfc.AssignmentsOnly("client-4"), 1),
        (secfc.OwnLabels("client-4"), 1),
    ],
    ids=repr,
)
def test_a_seed_that_a_dealing_client_lacks_costs_one_client_its_place(policy, t):
    case, quiet = scenario(n=5, t=t, disclosure=policy, deviating=t), Network({}, False)
    case.run(quiet)
    seeds = [number for number, lost in enumerate(quiet.passed) if lost.kind == "MaskSeed"]
    assert len(seeds) == 4
    for number in seeds:
        network = Network({number: Fault("drop")}, False)
        check(case, network, case.run(network))


def test_whoever_hears_nobody_is_left_out_alone():
    plan = POLICIES["labels only"].plan

    def said(**missing):
        return {
            f"client-{c[1:]}": MissingMessages(step, np.array(who, np.int32))
            for c, (step, who) in missing.items()
        }

    assert exclude_dropouts(plan, {"client-3"}, said(c0=(2, [3]), c1=(2, [3]))) == {"client-3"}
    assert exclude_dropouts(plan, (), said(c0=(2, [1, 2, 3]))) == {"client-0"}
    assert exclude_dropouts(plan, (), said(c0=(2, [1]))) == {"client-1"}
    assert exclude_dropouts(plan, (), said(c0=(2, [1])), spared=("client-1",)) == {"client-0"}
    assert exclude_dropouts(plan, (), said(c0=(2, [1]), c1=(2, [0]), c2=(2, [1]))) == {"client-1"}
    # Later reports follow from earlier ones; and who misses nobody says nothing about anybody.
    assert exclude_dropouts(plan, (), said(c0=(4, [2]), c1=(1, [3]), c2=(0, []))) == {"client-3"}
    assert exclude_dropouts(plan, (), said(c0=(4, []), c1=(1, []))) == set()
    with pytest.raises(FaultyClient, match="other numbers than 0 to 6"):
        exclude_dropouts(plan, (), said(c0=(0, [7])))


# --- the server, and a client that deals -----------------------------------------------------------


def dying(role, after):
    """A role that ends when it has sent so many messages."""
    left, inbox = after, None
    while True:
        try:
            exchange = role.send(inbox)
        except StopIteration as done:
            return done.value
        if len(exchange.send) > left:
            send = dict(itertools.islice(exchange.send.items(), left))
            yield dataclasses.replace(exchange, send=send, expect=(), enough=None)
            return None
        left -= len(exchange.send)
        inbox = yield exchange


@pytest.mark.parametrize("name", every(2, POLICIES))
def test_without_the_server_every_client_ends_and_says_so(name):
    case, count = POLICIES[name], sum(e.sender == SERVER for e in sent(name))
    assert count > 3 * case.n
    step = short(count // 3, nightly=1)
    for number in range(0, count - case.n, step):
        roles = case.roles(Network({}, False), {})
        roles[SERVER] = dying(roles[SERVER], number)
        with pytest.raises(Indispensable, match="server fell silent and is indispensable") as caught:
            simulate(roles)
        assert caught.value.party == SERVER


def test_a_client_that_deals_is_indispensable():
    with pytest.raises(Indispensable, match="client-6 fell silent and is indispensable") as caught:
        survives("labels only, a client deals", Deaths({"client-6": 20}))
    assert caught.value.party == "client-6"


# --- what peers send -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "disclosure",
    [secfc.AssignmentsOnly(), secfc.AssignmentsOnly(dealer=None), secfc.FinalLabelsOnly()],
    ids=["dealt", "undealt", "final"],
)
def test_a_label_that_no_cluster_has_is_an_error_that_names_the_committee(disclosure, monkeypatch):
    # k=3 has codes 0, 1 and 2, and ones added to all digits turn a 0 into a 3.
    algorithm = secfc.SecFC(
        k=3,
        # Where two play a part, the other one says that it is false.
        threshold=secfc.Threshold(1, deviating=0),
        init=secfc.RandomLabels(),
        quantization=secfc.Quantization(scale=SCALE),
        max_iter=2,
        disclosure=disclosure,
    )

    def lie(e):
        if e.kind != "LabelShare" or e.sender != "client-1":
            return (e,)
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, words=~e.body.words)),)

    def try_lie():
        return secfc.fit(algorithm, hold_rounded(), bound=8.0, faults=lie, coins=coins, seed=3)

    with pytest.raises(SuspectedParties, match="clusters that are not there") as caught:
        try_lie()
    assert "client-1" in caught.value.parties
    assert len(caught.value.parties) < 5

    monkeypatch.setattr(
        dealer_protocol,
        "labels_from_code",
        lambda s, planes: s.labels[dealer_protocol.bitslice.from_planes(planes, s.m)],
    )
    with pytest.raises(IndexError):
        try_lie()


def test_only_the_committee_sends_shares_of_labels():
    words = next(e.body.words for e in sent("labels only") if e.kind == "LabelShare")

    def lie(e):
        if e.kind != "MissingMessages":
            return (e,)
        return (dataclasses.replace(e, body=LabelShare(words), kind="LabelShare"),)

    # All who respond are on the committee, but for parts that one plays alone.
    case = scenario(disclosure=secfc.AssignmentsOnly(), deviating=0)
    with pytest.raises(FaultyClient, match="which is not its part"):
        simulate(case.roles(Network({}, False), {}), faults=lie)


# --- after a fork ----------------------------------------------------------------------------------


def work(threads):
    return run_parallel([lambda i=i: i for i in range(4)], threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own():
    assert work(2) == [0, 1, 2, 3]  # the parent's pool is there, and has threads
    with multiprocessing.get_context("fork").Pool(1) as pool:
        assert pool.apply_async(work, (2,)).get(timeout=30) == [0, 1, 2, 3]


class Slow:
    """A value that takes a moment to compute, as those that a plan computes once may."""

    @cached_property
    def value(self):
        time.sleep(0.5)
        return 1


def compile_slowly():
    with global_compiler_lock:
        time.sleep(0.5)


def compile_one():
    with global_compiler_lock:
        return 1


def load_slowly(name="secfc_slow_module", then=""):
    """Import a module that no other test imports, and that takes a moment."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"{name}.py").write_text(f"import time\ntime.sleep(0.5)\none = 1\n{then}")
        sys.path.insert(0, folder)
        try:
            return importlib.import_module(name).one
        finally:
            sys.path.remove(folder)


def load_and_compile():
    """Import a module that compiles, so that who forks must not wait for it with the lock of that."""
    return load_slowly("secfc_slow_kernels", f"from {__name__} import compile_one\ncompile_one()\n")


def load_while_another_compiles():
    """Begin to import when who forks waits for the lock of compiling, and saw no import."""
    with global_compiler_lock:
        time.sleep(0.3)
        other = threading.Thread(target=load_slowly, args=("secfc_later_module",))
        other.start()
        time.sleep(0.2)
    other.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")
@pytest.mark.parametrize(
    ("busy", "then"),
    [
        (lambda: Slow().value, lambda: Slow().value),
        (compile_slowly, compile_one),
        (load_slowly, load_slowly),
        (load_and_compile, load_and_compile),
        (load_while_another_compiles, lambda: load_slowly("secfc_later_module")),
    ],
)
def test_a_child_that_is_forked_while_a_thread_works_does_not_wait_for_it(busy, then):
    thread = threading.Thread(target=busy)
    thread.start()
    time.sleep(0.1)
    child = os.fork()
    if not child:
        os._exit(0 if then() == 1 else 1)
    thread.join()
    for _ in range(100):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended, "the child waits for a thread that it does not have"
    assert os.waitstatus_to_exitcode(status) == 0


# --- the policies of the sweep ---------------------------------------------------------------------


def test_the_sweep_has_every_policy_and_room_for_as_many_as_die():
    assert {type(case.algorithm.disclosure) for case in POLICIES.values()} >= {
        secfc.AssignmentsOnly, secfc.Distances, secfc.FinalLabelsOnly, type(NOISY),
    }  # fmt: skip
    for case in POLICIES.values():
        assert case.n == case.plan.code.threshold(2) + case.corrected * 2 + SPARE
    assert vary(POLICIES["distances"].algorithm, k=2) != POLICIES["distances"].algorithm
