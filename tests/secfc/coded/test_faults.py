"""The fault campaign: whatever happens to its messages, a run is exact or ends with the right error.

`tests.secfc.campaign` says what is done to runs, what must hold, and what is out of the model.  Each scenario
is run under SCHEDULES of them, at least 180 schedules in all; more than 10^4 with

    HYPOTHESIS_PROFILE=nightly python -m pytest tests/secfc/coded/test_faults.py
"""

import contextlib
import dataclasses
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import secfc
from field import SeededCoins
from secfc.coded.messages import RowShares
from secfc.coded.quorum import DEALING, DealingVerdict, Screening
from secfc.coded.union import Disputes, Multiplicities
from secfc.data.inputs import with_parameters
from secfc.errors import (
    FaultyClient,
    FaultyServer,
    Indispensable,
    RowsLost,
    SuspectedParties,
    TamperedMessage,
    TooFewReplies,
    UnionFailed,
)
from secfc.feddp import FedDPKMeans
from secfc.kfed import PointLabels
from secfc.kmeans.bisecting import Bisecting
from secfc.report import in_row_order, pool_points
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, Links
from secfc.roles.messages import Contributors, FinalResult
from secfc.scaling.roles import plaintext_scaling as plaintext_scaling
from secfc.secure_sum import protocol as aggregate
from secfc.transport import wire
from secfc.transport.sealed import Sealed, SealedLine, exchange_greetings
from tests.nightly import NIGHTLY, by_night, every, short, tonight, trials
from tests.oracles.overlap import masked_lloyd
from tests.secfc.campaign import (
    ACTIONS,
    BASE,
    CLUSTERS,
    LOSSES,
    OF_COMMITTEES,
    OF_SHARED_LABELS,
    OF_SUMS,
    SCENARIOS,
    SEALED,
    Deviation,
    Fault,
    M,
    N,
    Network,
    Scenario,
    check,
    coins,
    deviations,
    hold_rounded,
    judge,
    judge_deviation,
    over_columns,
    over_pairs,
    plaintext,
    schedules,
    vary,
    with_sums,
)
from tests.secfc.federated.test_course import play
from tests.secfc.lying import KINDS, WAYS, Lie, lies
from tests.secfc.option_space import BASES, NOT_RUN, option_scenarios, values_due
from tests.secfc.queries import altered, query

EVERY = {**SCENARIOS, **SEALED}
OPTIONS = option_scenarios()
OPTIONS |= {f"{name}, open": scenario for name, scenario in option_scenarios(sealed=False).items()}
SCHEDULES = {"ci": 3, "nightly": 1000}  # of each scenario, by profile
# Scenarios of several options, of which other scenarios have each.
SLOW = (
    "rounded centers, moved points alone, a client deals", "own labels, rounded centers, a client deals",
    "own labels, in blocks, a client deals", "k chosen",
)  # fmt: skip
# Bytes of a message that are flipped one after the other; every one of short messages by night.
FLIPPED = short(4, nightly=300)


@pytest.fixture(autouse=True)
def chunks(monkeypatch):
    """Shares leave two rows at a time, so that some of a client's rows can be lost; blocks have 64 rows."""
    monkeypatch.setattr("secfc.coded.plan.CHUNK_RESIDUES", 4)
    monkeypatch.setattr("field.compare.blockwise.LEAST", 64)


# --- the campaign ----------------------------------------------------------------------------------


def test_the_campaign_is_large_enough():
    assert len({*EVERY} - {*SLOW}) * SCHEDULES["ci"] >= 180
    nightly = len(EVERY) * SCHEDULES["nightly"]
    assert nightly >= 10**4
    readme = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text()
    assert f"# {nightly:,}\n" in readme


# A run of many steps takes half a second, or more where other tests run: by night more than one limit.
LONG = pytest.mark.timeout(short(600, nightly=4 * 3600))


@LONG
@pytest.mark.parametrize("name", [*(name for name in EVERY if name not in SLOW), *by_night(*SLOW)])
def test_a_run_under_faults_is_exact_or_ends_with_the_right_error(name, monkeypatch):
    if EVERY[name].m > M:
        monkeypatch.setattr("secfc.coded.plan.CHUNK_RESIDUES", 40)
    turn = [*EVERY].index(name) % len(CLUSTERS)  # by day one number of clusters a scenario, in turn
    runs = [EVERY[name].with_clusters(k) for k in short(CLUSTERS[turn : turn + 1], nightly=CLUSTERS)]
    messages = max(scenario.clean[1] for scenario in runs)

    @trials(SCHEDULES["ci"], SCHEDULES["nightly"])
    @given(st.sampled_from(runs), schedules(messages, runs[0].corrected), lies(runs[0].n, runs[0].corrected))
    def law(scenario, schedule, told):
        event(judge(scenario, schedule, told))

    law()


# Those in which no client alone makes a label, by what it says while a committee compares, or of all that is
# checked where labels stay shared or rows have several holders, or of sums.
DEVIATING = [
    ("labels only", OF_COMMITTEES),
    ("labels only, moved points alone", OF_COMMITTEES),
    ("own labels", OF_COMMITTEES),
    ("final labels, the server deals", OF_COMMITTEES),
    ("own labels, private", OF_SHARED_LABELS),
    ("overlapping", OF_SUMS),
    ("shared centers, a floor", OF_SUMS),
    ("pairs", OF_COMMITTEES),
    *by_night(
        ("labels only, in blocks", OF_COMMITTEES),
        ("labels only, restarts, a client deals", OF_COMMITTEES),
        ("own labels", OF_SHARED_LABELS),
        ("own labels, hidden sizes", OF_COMMITTEES),
        ("own labels, predict", OF_COMMITTEES),
        ("rounded centers", OF_COMMITTEES),
        ("rounded centers, moved points alone, a client deals", OF_COMMITTEES),
        ("own labels, rounded centers", OF_COMMITTEES),
        ("own labels, restarts, a client deals", OF_SHARED_LABELS),
        ("own labels, hidden sizes", OF_SHARED_LABELS),
        ("own labels, k chosen", OF_SHARED_LABELS),
        ("final labels, the server deals", OF_SHARED_LABELS),
        ("overlapping, distances", OF_SUMS),
        ("shared centers", OF_SUMS),
        ("scaled", OF_SUMS),
    ),
]


@LONG
@pytest.mark.parametrize(("name", "said"), every(2, DEVIATING), ids=lambda x: x if isinstance(x, str) else "")
def test_where_a_client_deviates_a_run_is_exact_or_suspects_it(name, said, monkeypatch):
    if EVERY[name].m > M:
        monkeypatch.setattr("secfc.coded.plan.CHUNK_RESIDUES", 40)
    scenario = EVERY[name].with_clusters(3)
    assert said is not OF_COMMITTEES or scenario.plan.deviating

    @trials(5 if said is OF_COMMITTEES else 3, 500)
    @given(deviations(scenario, said))
    def law(deviation):
        event(judge_deviation(scenario, deviation))

    law()


def test_the_campaign_notices_a_committee_in_which_a_client_deviates(monkeypatch):
    """Positive control: where each part is played by one a wrong label is a matter of some tries."""
    scenario = SCENARIOS["labels only"].with_clusters(3)
    alone = dataclasses.replace(scenario, algorithm=vary(scenario.algorithm, deviating=0))
    bits = frozenset({"MaskedBits"})

    def search():
        for seed in range(60):
            judge_deviation(alone, Deviation(0, bits, 0.1, seed))

    with pytest.raises(AssertionError):
        search()


# Of values, those under which labels are plaintext Lloyd's over the rows that count.
EXACT = [name for name, s in OPTIONS.items() if s.expected is Scenario.expected and not s.sealed]


@pytest.mark.parametrize("name", [*every(2, EVERY), *by_night(*EXACT)])
def test_undisturbed_runs_are_those_of_plaintext_lloyd(name):
    scenario = (EVERY | OPTIONS)[name]
    got, _ = scenario.clean
    assert not any((labels == -1).any() for labels in got.labels)
    if isinstance(scenario.algorithm, secfc.KFed | FedDPKMeans):
        return
    if isinstance(scenario.algorithm, secfc.FederatedLloyd):
        plain = plain_masked if scenario.algorithm.start is not None else plain_split
        check(scenario, Network({}, scenario.sealed), plain(scenario, got))
        return
    if isinstance(scenario.algorithm, secfc.Scaled):
        way, plan = scenario.algorithm.scaling, scenario.plan
        assert got.scalings == {plaintext_scaling(way, plan, scenario.federation)}
        check(scenario, Network({}, scenario.sealed), got)  # against plaintext on points of that scale
        return
    if scenario.expected is over_pairs:
        assert len(got.history[0]) > 1
        check(scenario, Network({}, scenario.sealed), over_pairs(scenario, got))
        return
    if scenario.expected is over_columns:  # rows are in another order in each run
        fit = secfc.fit(scenario.algorithm, scenario.federation, bound=8.0, coins=coins, seed=3)
        twin = secfc.Lloyd(
            scenario.algorithm.k, init=secfc.GivenLabels([fit.history[0].astype(int)]), max_iter=4,
            quantization=secfc.Quantization(scale=16.0),
        )  # fmt: skip
        plain = secfc.fit(twin, pool_points(scenario.federation, fit), bound=8.0)
        assert (plain.flat == in_row_order(fit, fit.labels)).all()
        return  # `test_joined` holds labels of new people to their centers
    plain = plaintext(scenario.algorithm, (), scenario.n, m=scenario.m)
    if scenario.predict:
        twin = secfc.Lloyd(
            2, quantization=secfc.Quantization(scale=16.0), n_init=2, max_iter=4, init=scenario.algorithm.init
        )
        fed = scenario.federation
        expected = secfc.fit(twin, fed, bound=8.0, seed=3).predict(fed)
        assert all((a == b).all() for a, b in zip(got.labels, expected, strict=True))
        return
    if "rivate" not in name:
        assert all((a == b).all() for a, b in zip(got.labels, plain.labels, strict=True))
        return
    # Rows of a union are in another order, and starts are drawn by row.
    points = np.concatenate([p.points for p in hold_rounded().parties])
    result = secfc.fit(scenario.algorithm, hold_rounded(), bound=8.0, coins=coins, seed=3)
    ordered = np.empty_like(points)
    ordered[np.concatenate(result.rows)] = points
    twin = dataclasses.replace(scenario.algorithm, membership=secfc.SecFC(2, 1).membership)
    open_run = secfc.fit(twin, secfc.Federation.from_arrays(np.array_split(ordered, N)), bound=8.0, seed=3)
    assert all((a == b).all() for a, b in zip(result.history, open_run.history, strict=True))


def plain_masked(scenario, got):
    """The labels of Lloyd with missing features, by the oracle, from the labels that the run started from."""
    fed, ends = scenario.federation, np.cumsum(scenario.federation.counts)[:-1]
    whole = [np.rint(p.points * 16).astype(np.int64) for p in fed.parties]
    observed = [[fed.feature_names.index(f) for f in p.features] for p in fed.parties]
    start = [own.tolist() for own in np.split(got.history[0], ends)]
    history, _, _ = masked_lloyd(whole, observed, start, scenario.algorithm.k, 4, None)
    flat = [np.concatenate(step) for step in history]
    return dataclasses.replace(got, labels=tuple(np.split(flat[-1], ends)), history=tuple(flat), centers=None)


def plain_split(scenario, got):
    """The labels of plaintext Lloyd from a start by splitting, or those in the end by the rule of a floor."""
    way, ends = scenario.algorithm, np.cumsum(scenario.federation.counts)[:-1]
    if way.floor > 1:
        points, t = [p.points for p in scenario.federation.parties], scenario.plan.sums.code.t
        _, flat, _ = play(scenario.plan, points, way.floor, t)
        return dataclasses.replace(got, labels=tuple(np.split(flat, ends)), centers=None)
    plain = plaintext(vary(BASE, k=way.k, init=secfc.Splitting(merge="any")), ())
    return dataclasses.replace(got, labels=tuple(plain.labels), history=plain.history, centers=None)


# Of unions, where a client often waits for whatever the server says next; by night of every run.
RUNS = {**EVERY, **{name: s for name, s in OPTIONS.items() if name.startswith("Private.") and not s.sealed}}
PRIVATE_RUNS = [name for name in RUNS if "rivate" in name and "centers" not in name]
WAITING = RUNS if NIGHTLY else [name for name in PRIVATE_RUNS if name in EVERY]


@LONG
@pytest.mark.parametrize("name", every(2, WAITING))
def test_one_lost_message_is_no_proof_against_anybody(name, monkeypatch):
    monkeypatch.setattr("psu.oblivious.BATCH", 4)  # a client asks for its tags in two messages
    scenario, network = RUNS[name].with_clusters(2), Network({}, RUNS[name].sealed)
    if scenario.m > M:
        monkeypatch.setattr("secfc.coded.plan.CHUNK_RESIDUES", 40)
    scenario.run(network)
    lost = tonight(range(len(network.passed)), max(3, len(network.passed) // 200))
    if not NIGHTLY:
        said = enumerate(network.passed)
        lost = [i for i, e in said if (e.phase, e.sender) == ("align", SERVER) and e.recipient[-1] in "04"]
    assert {judge(scenario, {i: Fault("drop")}) for i in lost}


@LONG
@pytest.mark.parametrize("name", ["private", *by_night(*sorted({*PRIVATE_RUNS} - {"private"}))])
def test_of_single_losses_in_private_runs_nine_in_ten_end_exact(name, monkeypatch):
    """Every message of every kind and direction is lost once in turn (by day a few), and asked for again."""
    monkeypatch.setattr("psu.oblivious.BATCH", 4)
    scenario = RUNS[name].with_clusters(2)
    network = Network({}, scenario.sealed)
    scenario.run(network)
    tried = range(7, len(network.passed), short(len(network.passed) // 6, nightly=1))
    ends = [judge(scenario, {i: Fault("lose")}) for i in tried]
    assert ends.count("exact") >= 0.9 * len(ends), Counter(ends)


def test_where_nothing_is_asked_for_again_hardly_any_private_run_with_a_loss_ends_exact():
    """Positive control of the sweep: the same losses for good."""
    scenario = EVERY["private"].with_clusters(2)
    tried = range(7, scenario.clean[1] // 2, 40)
    ends = [judge(scenario, {i: Fault("drop")}) for i in tried]
    assert ends.count("exact") < 0.6 * len(ends), Counter(ends)


@pytest.mark.parametrize(
    "name", ["own labels, k chosen", *by_night("own labels, rounded centers, a client deals")]
)
def test_without_the_rows_of_one_client_all_others_may_end_in_one_cluster(name):
    """Then all know the labels: nobody opened sizes, and what is expected are no sizes either."""
    scenario, network = SCENARIOS[name], Network({30: Fault("drop")}, False)
    got = scenario.run(network)
    lost = network.passed[30]
    assert (lost.kind, lost.sender, lost.recipient) == ("RowShares", "client-0", "client-1")
    assert got.excluded == ("client-0",)
    assert {len(step) for step in got.history} == {scenario.m - 3}
    check(scenario, network, got)


def test_the_campaign_notices_an_answer_taken_for_a_lost_one(monkeypatch):
    def await_any(clock, number):
        return Exchange({}, (SERVER,), accept=clock.phase + 1, exact=False, phase="align")

    monkeypatch.setattr("psu.oblivious.BATCH", 4)
    scenario, network = OPTIONS["Private.tags='oblivious', open"], Network({}, False)
    scenario.run(network)
    monkeypatch.setattr("secfc.coded.tags._await_server", await_any)
    answers = [i for i, e in enumerate(network.passed) if e.kind == "Evaluated" and e.sender == SERVER]
    assert len(answers) == 2 * N
    with pytest.raises(AssertionError, match=r"blamed server, corrupted set\(\)"):
        judge(scenario, {answers[0]: Fault("drop")})


def random_schedules(scenario, seed, actions=ACTIONS, most=3):
    _, messages = scenario.clean
    rng = np.random.default_rng(seed)
    while True:
        yield {
            int(rng.integers(messages)): Fault(
                actions[rng.integers(len(actions))], int(rng.integers(2**16)), int(rng.integers(2**16))
            )
            for _ in range(rng.integers(1, most + 1))
        }


def first_failure(scenario, seed=0, tries=400, **options):
    """What the campaign finds first, None if it finds nothing."""
    for schedule in itertools.islice(random_schedules(scenario, seed, **options), tries):
        try:
            judge(scenario, schedule)
        except Exception as error:
            return error
    return None


@pytest.mark.parametrize(
    ("name", "ends"),
    [
        ("bare", {"exact", "exact on fewer rows", "lie", "TooFewReplies", "FaultyClient", "FaultyServer"}),
        ("at the threshold", {"exact", "TooFewReplies", "FaultyClient", "FaultyServer", "PlanMismatch"}),
        ("private", {"exact", "RowsLost", "UnionFailed", "FaultyClient", "FaultyServer"}),
        ("blinded, sealed", {"exact", "TamperedMessage", "TooFewReplies"}),
    ],
)
def test_the_campaign_reaches_every_kind_of_end(name, ends):
    seen = set()
    for actions in (ACTIONS, ("drop", "cut", "delay")):
        for schedule in itertools.islice(random_schedules(EVERY[name], 1, actions, 4), 120):
            seen.add(judge(EVERY[name], schedule))
            if ends <= seen:
                return
    assert ends <= seen


def played_alone(scenario):
    """A scenario in which one client plays each part of the committee."""
    return dataclasses.replace(scenario, algorithm=vary(scenario.algorithm, deviating=0))


@pytest.mark.parametrize("name", ["own labels", *by_night("own labels, restarts, a client deals")])
def test_whoever_falsified_a_step_is_suspected_when_others_take_it_again(name):
    scenario, quiet = played_alone(EVERY[name]).with_clusters(2), Network({}, False)
    scenario.run(quiet)
    # Of what members say while they compare: nothing of that is checked where one plays each part.
    first = next(i for i, e in enumerate(quiet.passed) if e.kind == "MaskedBits")
    deviating = quiet.passed[first].sender
    later = [i for i, e in enumerate(quiet.passed) if e.sender == deviating and e.kind == "MaskedBits"]
    found = []
    for b, at in itertools.product(range(8), later):
        network = Network({first: Fault("alter", 0, b), at: Fault("cut")}, False)
        with contextlib.suppress(secfc.ProtocolError):
            try:
                scenario.run(network)
            except SuspectedParties as error:
                found.append((error, network.corrupters))
        if not NIGHTLY and any("took again" in str(error) for error, _ in found):
            break
    assert all(set(error.parties) & guilty for error, guilty in found)
    assert any("took again" in str(error) for error, _ in found)


def random_lies(scenario, seed, chance=1.0, ways=WAYS):
    """Lies of up to as many clients as are planned for."""
    rng = np.random.default_rng(seed)
    while True:
        yield {
            f"client-{j}": Lie(
                frozenset(rng.choice(KINDS, rng.integers(1, 4), replace=False).tolist()),
                ways[rng.integers(len(ways))], chance, int(rng.integers(2**16)),
            )
            for j in rng.choice(scenario.n, rng.integers(1, scenario.corrected + 1), replace=False)
        }  # fmt: skip


@pytest.mark.parametrize("name", ["one corrected", "two corrected, bare"])
def test_the_campaign_reaches_every_kind_of_end_of_deviating_clients(name):
    ends = {"exact", "exact, named", "exact on fewer rows, named"}
    seen = set()
    for told in itertools.islice(random_lies(EVERY[name], 1), 40):
        seen.add(judge(EVERY[name], {}, told))
        if ends <= seen:
            break
    # Without losses no other end is possible.
    assert ends <= seen <= ends | {"exact on fewer rows"}
    losses = random_schedules(EVERY[name], 2, ("cut",), 6)
    for told, schedule in itertools.islice(zip(random_lies(EVERY[name], 2), losses, strict=False), 40):
        seen.add(judge(EVERY[name], schedule, told))
        if {"TooFewReplies", "TooManyDeviating"} & seen:
            return
    pytest.fail("so many losses ended no run")


# --- what the campaign would notice ----------------------------------------------------------------


def first_lie(scenario, **options):
    """What the campaign finds first among lies without other faults, None if it finds nothing."""
    for told in itertools.islice(random_lies(scenario, 0, **options), 200):
        try:
            judge(scenario, {}, told)
        except AssertionError as error:
            return str(error)
    return None


def test_the_campaign_notices_replies_that_nobody_screens(monkeypatch):
    monkeypatch.setattr(Screening, "screened", lambda self, values, degree: dict(values))
    assert first_lie(SCENARIOS["one corrected, bare"], ways=("noise",)) is not None


def test_the_campaign_notices_dealings_that_nobody_judges(monkeypatch):
    monkeypatch.setattr(
        Screening,
        "judged",
        lambda self, words, degree, zero_sum=False: DealingVerdict(True, False, ()),
    )
    monkeypatch.setattr(
        Screening, "judged_rows", lambda self, pattern, words: DealingVerdict(True, False, ())
    )
    assert first_lie(SCENARIOS["one corrected"], ways=("noise",)) is not None


@pytest.mark.nightly
def test_the_campaign_notices_a_server_that_takes_suspicion_for_proof(monkeypatch):
    monkeypatch.setattr(Screening, "part", lambda self, dealer, receiver: self.blame(dealer, DEALING))
    found = [first_lie(SCENARIOS[name]) for name in ("one corrected", "two corrected")]
    assert any(why is not None and why.startswith("named ") for why in found)


@pytest.mark.nightly
def test_the_campaign_notices_roles_that_check_nothing(monkeypatch):
    monkeypatch.setattr("secfc.coded.queries._refuse", lambda wrong, why: None)
    for module in ("secfc.roles.messages", "secfc.coded.messages"):
        monkeypatch.setattr(f"{module}.refuse_if", lambda wrong, rule: None)
    found = first_failure(SCENARIOS["bare, centers"], actions=("malform",))
    assert isinstance(found, (ValueError, IndexError, KeyError, TypeError, MemoryError, OverflowError))


def test_the_campaign_notices_wrong_labels():
    # Flipped bits of an unsealed run, judged as if nobody could have flipped them.
    class Blind(Network):
        def mark(self, sender, body):
            self.corrupters.add(sender)

    scenario = played_alone(SCENARIOS["labels only"])
    for schedule in itertools.islice(random_schedules(scenario, 0, ("alter",), 1), 200):
        network = Blind(schedule, False)
        try:
            got = scenario.run(network)
        except secfc.ProtocolError:
            continue
        try:
            check(scenario, network, got)
        except AssertionError:
            return
    pytest.fail("an altered share or reply changed nothing")


def test_the_campaign_notices_blame_for_what_was_lost(monkeypatch):
    def due(self, rounds):  # whatever comes next, of whatever phase
        first = self.round if self.accept is None else self.accept
        last = first if self.exact else 1 << 60
        return min((r for r in rounds if first <= r <= last), default=None)

    network = Network({}, False)
    SCENARIOS["private"].run(network)
    last = [i for i, e in enumerate(network.passed) if e.kind == "Multiplicities"]
    assert last
    monkeypatch.setattr(Exchange, "due", due)
    for number in last:
        with pytest.raises(AssertionError, match=r"blamed server, corrupted set\(\)"):
            judge(SCENARIOS["private"], {number: Fault("drop")})


def test_the_campaign_notices_sums_of_whoever_is_there(monkeypatch):
    add = aggregate.add_wave

    def everybody(total, shares, names, spread):
        add(total, shares, shares, spread)

    with_sums.cache_clear()
    monkeypatch.setattr(aggregate, "add_wave", everybody)
    monkeypatch.setattr(aggregate, "check_words", lambda *words: None)  # which would notice first
    found = first_failure(SCENARIOS["private centers, shared noise"], actions=("drop",))
    with_sums.cache_clear()
    assert isinstance(found, AssertionError)


def test_the_campaign_notices_a_seal_that_does_not_bind_the_round(monkeypatch):
    def seal(self, number, message):
        used.add(number)
        return Sealed(number, self._channel.seal(f"{len(used)}", wire.encode(message)))

    def lax(self, exchange, message):
        return wire.decode(message.ciphertext[:-16])

    used: set[int] = set()
    monkeypatch.setattr(
        SealedLine, "seal", lambda self, number, m: Sealed(number, wire.encode(m) + bytes(16))
    )
    monkeypatch.setattr(SealedLine, "open", lax)
    assert first_failure(SEALED["blinded, sealed"], actions=("alter", "renumber", "replay")) is not None


# --- every byte of every message -------------------------------------------------------------------


def flips(data, step=1, first=0):
    """The bytes with one of them changed, each in turn (or every few): one bit of it, not always the same."""
    for i in range(first, len(data), step):
        flipped = bytearray(data)
        flipped[i] ^= 1 << i % 8
        yield bytes(flipped)


@pytest.mark.parametrize("name", every(4, SEALED))
def test_every_flipped_byte_of_every_sealed_message_is_refused(name, monkeypatch):
    # Every line tries all flips before it opens the genuine message, so one run has them all.
    tried, genuine, step = [0, 0], SealedLine.open, 11 if "private" in name else 1  # a union says much
    if not NIGHTLY:
        step *= 23

    def open_after_flips(self, exchange, message):
        tried[0] += 1
        for data in flips(wire.encode(message), step, tried[0] % step):
            tried[1] += 1
            try:
                forged = wire.decode(data)
            except wire.WireError:
                continue
            with pytest.raises(TamperedMessage) as caught:
                genuine(self, exchange, forged)
            assert caught.value.party == self.peer
        return genuine(self, exchange, message)

    scenario = SEALED[name]
    assert scenario.clean  # a run of its own, once
    monkeypatch.setattr(SealedLine, "open", open_after_flips)
    network = Network({}, True)
    check(scenario, network, scenario.run(network))
    sealed = [e for e in network.passed if e.kind == "Sealed"]
    # Not all are opened: what comes after enough have answered is not needed.
    assert 0.8 * len(sealed) <= tried[0] <= len(sealed)
    assert step * tried[1] > 50 * tried[0]


def test_every_flipped_byte_of_every_greeting_is_refused():
    parties, digest = ("a", "b", SERVER), bytes(range(32))

    def greeter(me):
        secret = SeededCoins(7, me)
        return exchange_greetings(me, Links.of_all(parties), digest, secret, identity(me), None)

    def identity(me):
        from field.secrets.channels import Identity

        return Identity.draw(SeededCoins(8, me))

    def after(me, inboxes):
        role = greeter(me)
        next(role)
        for inbox in inboxes:
            role.send(inbox)
        return role

    def taken(steps, me):
        return [{peer: step[peer][me] for peer in parties if peer != me} for step in steps]

    greetings = {me: next(greeter(me)).send for me in parties}
    signed = {me: after(me, []).send(*taken([greetings], me)).send for me in parties}
    outcomes = set()
    for me in parties:
        inboxes = taken([greetings, signed], me)
        for step, inbox in enumerate(inboxes):
            for peer, message in inbox.items():
                # In the first step every byte, in the second, whose bytes are one ciphertext, some.
                for data in itertools.islice(flips(wire.encode(message)), 0, None, 1 + 12 * step):
                    try:
                        forged = wire.decode(data)
                    except wire.WireError:
                        outcomes.add("no message")
                        continue
                    role = after(me, inboxes[:step])
                    with pytest.raises(TamperedMessage) as caught:
                        role.send({**inbox, peer: forged})
                    assert caught.value.party == peer
                    outcomes.add(type(forged).__name__)
        role = after(me, inboxes[:1])
        with pytest.raises(StopIteration):
            role.send(inboxes[1])
    assert outcomes == {"no message", "Greeting", "Countersign"}


def test_flipped_bytes_of_unsealed_messages_are_refused_exact_or_lies():
    # The first message of every kind, many of its bytes in turn; after a lie the labels may be wrong.
    scenario, seen = SCENARIOS["bare, centers"], {}
    network = Network({}, False)
    scenario.run(network)
    for number, e in enumerate(network.passed):
        seen.setdefault((e.kind, e.sender == SERVER), (number, len(wire.encode(e.body))))
    ends = set()
    for number, size in seen.values():
        for at in range(0, size, 1 + size // FLIPPED):  # descriptions of plans are long
            ends.add(judge(scenario, {number: Fault("flip", at, (1 << at % 8) - 1)}))
    assert {"lie", "FaultyClient", "FaultyServer", "PlanMismatch"} <= ends


# --- bugs that the campaign found ------------------------------------------------------------------

FEDERATION = hold_rounded()
OPEN = SCENARIOS["blinded"].algorithm


def fit(change, kind, recipient=None, algorithm=OPEN, sender=None, number=0):
    """A run in which one message of a kind is changed."""
    seen = []

    def fault(e):
        if e.kind != kind or recipient not in (None, e.recipient) or sender not in (None, e.sender):
            return (e,)
        seen.append(e)
        if len(seen) != number + 1:
            return (e,)
        body = change(e.body)
        return () if body is None else (dataclasses.replace(e, body=body),)

    return secfc.fit(algorithm, FEDERATION, faults=fault, coins=coins)


def replaced(**fields):
    return lambda body: altered(body, **fields)


def shorter(name):
    return lambda body: altered(body, **{name: getattr(body, name)[:-1]})


NUMBERS = np.arange(3, dtype=np.int32)


@pytest.mark.parametrize(
    ("kind", "change", "error", "match"),
    [
        ("Contributors", shorter("complete"), FaultyServer, "counted other clients"),
        ("DistanceQuery", shorter("labels"), FaultyServer, "labeled 11 points of m=12"),
        ("DistanceQuery", replaced(k=2**40), FaultyServer, "asked for more than 2 clusters, where k=2"),
        ("DistanceQuery", replaced(round=ITERATE + 1), FaultyServer, "out of turn"),
        ("DistanceQuery", replaced(round=0), FaultyServer, "out of turn"),
        ("DistanceQuery", replaced(round=2**62), FaultyServer, "out of turn"),
        ("DistanceQuery", replaced(responders=NUMBERS + 3), FaultyServer, "asked more than 5 clients"),
        (
            "DistanceQuery",
            replaced(responders=NUMBERS[:2]),
            FaultyServer,
            "fewer clients than decoding needs",
        ),
        ("FinalResult", shorter("labels"), FaultyServer, "labeled 11 points"),
        ("FinalResult", replaced(k=3), FaultyServer, "another number of clusters"),
        ("FinalResult", replaced(centers=np.zeros((2, 2))), FaultyServer, "shows centers where it may not"),
    ],
)
def test_what_does_not_fit_the_plan_is_refused_before_it_is_used(kind, change, error, match):
    with pytest.raises(error, match=match):
        fit(change, kind, "client-2", sender=SERVER)


def test_an_older_question_is_refused_and_no_mask_used_twice():
    with pytest.raises(FaultyServer, match="out of turn"):
        fit(lambda body: dataclasses.replace(body, round=body.round - STRIDE), "DistanceQuery", "client-1",
            number=1)  # fmt: skip


def test_a_server_that_counts_on_nobody_ends_the_run():
    with pytest.raises(RowsLost):
        fit(lambda body: Contributors(np.zeros(N, bool)), "Contributors", "client-2", sender=SERVER)


def test_requests_and_shows_of_centers_are_compared_with_the_plan():
    algorithm = with_parameters(OPEN, reveal_centers=True)
    for change, kind in (
        (shorter("labels"), "RevealCenters"),
        (replaced(k=5), "RevealCenters"),
        (replaced(centers=None), "FinalResult"),
        (replaced(centers=np.zeros((2, 3))), "FinalResult"),
    ):
        with pytest.raises(FaultyServer):
            fit(change, kind, "client-4", algorithm)


# Scenarios with counts opened have every message of merging that a fault can hit.
PRIVATE = SCENARIOS["private"].algorithm


def test_the_lost_end_of_a_union_is_silence_and_no_fault():
    with pytest.raises((TooFewReplies, RowsLost, UnionFailed)) as caught:
        fit(lambda body: None, "UnionTags", "client-3", PRIVATE)
    assert not getattr(caught.value, "proof", False)
    # Without the number of holders it has no plan, and its zeros are missing in all rows.
    with pytest.raises((TooFewReplies, RowsLost)):
        fit(lambda body: None, "Multiplicities", "client-3", PRIVATE)
    result = fit(lambda body: None, "Disputes", "client-3", PRIVATE)
    assert (result.labels[3] == -1).all()


@pytest.mark.parametrize("kind", ["Introduction", "Offer", "ShareBlock", "Confirmation"])
def test_who_is_silent_while_ids_are_united_is_named_and_the_run_can_go_on(kind):
    with pytest.raises(Indispensable, match=r"client-1 fell silent.* IDs are united with all clients"):
        fit(lambda body: None, kind, algorithm=PRIVATE, sender="client-1")


@pytest.mark.parametrize("kind", ["Offer", "KeyPacket", "ShareBlock", "Opening", "Confirmation"])
def test_nobody_is_blamed_for_what_another_says_in_its_name(kind):
    for name in (4, 99):
        with pytest.raises(FaultyClient, match="client-0 spoke in the name of another"):
            fit(replaced(sender=name), kind, algorithm=PRIVATE, sender="client-0")


def test_nothing_is_opened_a_second_time():
    seen = []

    def fault(e):
        if e.kind != "Turn" or e.recipient != "client-0":
            return (e,)
        seen.append(e.body)
        return (dataclasses.replace(e, body=seen[0]),)

    with pytest.raises(FaultyServer, match="asked a second time to open"):
        secfc.fit(PRIVATE, FEDERATION, faults=fault, coins=coins)


def test_holders_are_compared_with_the_plan():
    held = np.ones(12, np.uint16)
    for wrong in (held[:-1], held * 6):
        with pytest.raises(FaultyServer, match="counted holders"):
            fit(lambda body, wrong=wrong: Multiplicities(wrong), "Multiplicities", "client-0", PRIVATE)
    with pytest.raises(FaultyServer, match="in dispute that are none"):
        fit(lambda body: Disputes(np.array([12])), "Disputes", "client-0", PRIVATE)


KFED, LLOYD = SCENARIOS["k-fed"].algorithm, SCENARIOS["lloyd"].algorithm


@pytest.mark.parametrize(
    ("algorithm", "kind", "change", "error"),
    [
        (KFED, "LocalCenters", lambda body: None, TooFewReplies),
        (KFED, "LocalCenters", replaced(centers=np.zeros((3, 2))), FaultyClient),
        (KFED, "LocalCenters", replaced(centers=np.zeros((2, 3))), FaultyClient),
        (KFED, "LocalCenters", replaced(centers=np.zeros((0, 2))), FaultyClient),
        (KFED, "CenterLabels", shorter("labels"), FaultyServer),
        (KFED, "CenterLabels", replaced(centers=np.zeros((2, 3))), FaultyServer),
        (KFED, "PointLabels", shorter("labels"), FaultyClient),
        (KFED, "PointLabels", lambda body: PointLabels(body.labels + 2), FaultyClient),
        (LLOYD, "RawPoints", lambda body: None, TooFewReplies),
        (LLOYD, "RawPoints", shorter("points"), FaultyClient),
        (LLOYD, "RawPoints", replaced(points=np.full((3, 2), -(2**63))), FaultyClient),
        (LLOYD, "FinalResult", shorter("labels"), FaultyServer),
        (LLOYD, "FinalResult", replaced(k=7), FaultyServer),
    ],
)
def test_baselines_check_what_they_are_sent(algorithm, kind, change, error):
    with pytest.raises(error) as caught:
        fit(change, kind, algorithm=algorithm)
    assert getattr(caught.value, "party", SERVER if error is FaultyServer else "client-0") in (
        SERVER if error is FaultyServer else "client-0",
    )


@pytest.mark.parametrize("number", [0, 3])
def test_a_lost_question_is_silence_and_what_belongs_to_it_is_no_question(number):
    # The challenge to a dealt blinding goes to everybody, also to whom the question never reached.
    seen = []

    def lose(e):
        if (e.kind, e.recipient) != ("DistanceQuery", "client-3"):
            return (e,)
        seen.append(e)
        return () if len(seen) == number + 1 else (e,)

    result = secfc.fit(SCENARIOS["two corrected"].algorithm, hold_rounded(8), faults=lose, coins=coins)
    assert len(seen) > number
    assert (result.deviated, result.disputes, result.excluded) == ({}, (), ())
    assert all((labels >= 0).all() for labels in result.labels)


def test_too_few_left_after_a_dispute_is_no_fault_of_the_server():
    # n = 3 + 2 + 1: two are silent, and a false word about one dealer makes the server part two more.
    def fault(e):
        if {e.sender, e.recipient} & {"client-1", "client-2"}:
            return ()
        if (e.kind, e.sender) != ("ProjectedShares", "client-0"):
            return (e,)
        values = e.body.values.copy()
        values[0, 3, 0] ^= 1
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    for name in ("one corrected", "one corrected, bare"):
        with pytest.raises(TooFewReplies, match="3 replies are needed, 2 came"):
            secfc.fit(SCENARIOS[name].algorithm, hold_rounded(6), faults=fault, coins=coins)


def test_whoever_sat_on_a_committee_of_a_repeated_question_is_suspected():
    # A member lacked what the dealer sent it, the next one sat down in its place, and its false share of the
    # labels was laid to the first committee.
    scenario = SCENARIOS["labels only"].with_clusters(2)

    def last(kind, schedule):
        network = Network(schedule, scenario.sealed)
        scenario.run(network)
        # Of labels it is the first client of a part that tells words.
        says = [e.kind == kind and (kind != "LabelShare" or e.body.words.size) for e in network.passed]
        return max(number for number, said in enumerate(says) if said)

    schedule = {last("Corrections", {}): Fault("drop", 0, 0)}
    schedule[last("LabelShare", schedule)] = Fault("alter", 0, 0)
    assert judge(scenario, schedule) == "SuspectedParties"


def test_whoever_was_asked_is_suspected_where_a_question_is_put_to_the_same_again():
    # A word of the step before, moved to the next question, was no answer to it, and none was missing.
    scenario = played_alone(SCENARIOS["own labels, k chosen"])
    network = Network({}, scenario.sealed)
    scenario.run(network)
    kinds = [(e.kind, e.sender, e.recipient) for e in network.passed]
    asked = next(i for i, (kind, *_) in enumerate(kinds) if kind == "SplitGainQuery")
    number = max(i for i in range(asked) if kinds[i] == ("MissingMessages", "client-2", "server"))
    assert judge(scenario, {number: Fault("renumber", 1, 0)}) == "SuspectedParties"


def test_who_gives_up_says_nothing_in_a_step_in_which_it_has_spoken():
    # What replies are checked by follows them, in a step behind that in which a member waits for theirs: one
    # that missed these said there that it went no further, under a key that was used.
    assert judge(SEALED["labels only, sealed"].with_clusters(2), {210: Fault("drop"), 237: Fault("drop")})


def test_of_two_questions_that_ask_the_same_one_may_be_missed():
    # Halves that a step left as they were are asked about twice; who missed the second, and hears it again
    # put to others, cannot know which it is, and had blamed the server for the next.
    schedule = {131: Fault("drop"), 0: Fault("cut")}
    assert judge(Scenario(vary(BASE, init=Bisecting())), schedule) == "exact on fewer rows"


def test_a_server_that_a_deviating_client_has_draw_a_point_twice_is_not_blamed():
    # A false reply, that a point is far from itself, had k-means++ choose it again: fewer points than k.
    # Replies of which points are drawn are not checked.
    schedule = {133: Fault("alter", 0, 0)}
    assert judge(Scenario(vary(BASE, k=5, init=secfc.KMeansPlusPlus())), schedule) == "lie"


@pytest.mark.parametrize("k", CLUSTERS)
def test_a_dealer_to_whom_a_key_was_late_is_not_blamed_for_what_its_owner_expands(k):
    # A client that tells some others nothing while rows are tested makes them late: the key of one never came
    # to a dealer, whose own came to it.  What both expanded lay on no polynomial, and the dealer was named.
    kinds = frozenset({"RowShares", "CodedDistances", "MaskChoice", "CheckedDistances", "ProjectedShares"})
    told = {"client-2": Lie(kinds, way="silence", chance=0.3, seed=65536)}
    assert judge(SCENARIOS["one corrected"].with_clusters(k), {}, told) == "exact"


@pytest.mark.parametrize(
    ("algorithm", "kind"), [(KFED, "CenterLabels"), (LLOYD, "FinalResult"), (OPEN, "FinalResult")]
)
def test_a_client_that_never_hears_the_result_has_no_labels(algorithm, kind):
    result = fit(lambda body: None, kind, "client-3", algorithm)
    assert [(labels == -1).all() for labels in result.labels] == [False, False, False, True, False]


def test_messages_refuse_what_no_honest_party_sends():
    labels, shares = np.zeros(3, np.int8), [np.zeros((1, 2, 1), np.uint32)] * 2
    assert RowShares(0, *shares).start == 0
    for build in (
        lambda: FinalResult(2, labels - 1, None),
        lambda: FinalResult(2, labels, np.zeros((3, 2))),
        lambda: FinalResult(1, labels, np.array([[np.inf, 0.0]])),
        lambda: FinalResult(1, labels, np.array([[np.nan, 0.0]])),
        lambda: FinalResult(0, labels[:0], None),
        lambda: query("DistanceQuery", -1, 2, labels, NUMBERS),
        lambda: query("DistanceQuery", 0, 2, labels, NUMBERS[[0, 1, 0]]),
        lambda: query("DistanceQuery", 0, 2, labels, NUMBERS - 1),
        lambda: query("DistanceQuery", 0, 2, labels, NUMBERS.astype(float)),
        lambda: Multiplicities(np.zeros(3, np.uint16)),
        lambda: Multiplicities(np.ones(3)),
        lambda: Disputes(NUMBERS - 1),
        lambda: Disputes(NUMBERS[[0, 0]]),
        lambda: Disputes(NUMBERS.astype(float)),
        lambda: RowShares(-1, *shares),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            build()
    assert FinalResult(2, labels, np.array([[1.0, 2.0], [np.nan, np.nan]])).k == 2


# --- every value of every option, and networks that heal --------------------------------------------

# Of what `import secfc` offers, what is no part of a run, or computed by one party alone.
NO_OPTIONS = {
    "ArrowRows", "Clustering", "Dialect", "Federation", "NoisyStandardize", "Party", "Range", "Runtime",
    "MaxMin", "NearestMerge", "CenterSeparation", "GivenLabels", "Scaling", "UnitNorm",
}  # fmt: skip
BY_DAY = ["Private.tags='oblivious', open", "Private.merge=False", "Overlap1.send='medoids'"]


def classes_in(value):
    """The names of all configuration classes of a run."""
    if dataclasses.is_dataclass(value):
        yield type(value).__name__
        for one in dataclasses.fields(value):
            yield from classes_in(getattr(value, one.name, None))


def classes_left_out():
    """Of what `import secfc` offers: classes of no run, and those of whose fields no value is changed."""
    used = {name for s in (*EVERY.values(), *OPTIONS.values()) for name in classes_in(s.algorithm)}
    offered = {
        kind for kind in (getattr(secfc, name) for name in secfc.__all__) if dataclasses.is_dataclass(kind)
    }
    found = {kind.__name__ for kind in offered if dataclasses.fields(kind) and kind not in BASES}
    return (found | {kind.__name__ for kind in offered} - used) - NO_OPTIONS


def test_every_value_of_every_option_has_a_scenario():
    assert not classes_left_out()
    assert len(OPTIONS) == 2 * sum(len([*values_due(kind)]) for kind in BASES), "two have one name"
    assert all(NOT_RUN.values())
    due = {
        "Private.tags='oblivious'", "Private.verify=True", "Private.sized=False",
        "Private.on_conflict='mean'",
        "FedDPKMeans.t=2", "Standardize.by='quartiles'",
        "Release.dendrogram=True", "Joined.keep='union'", "FederatedLloyd.floor=2", "NoisySums.absent=1",
    }  # fmt: skip
    assert due <= set(OPTIONS)


def test_a_field_without_a_scenario_is_noticed(monkeypatch):
    """Positive control: one that nobody thought of fails; what its annotation tells is a scenario."""
    known = dataclasses.make_dataclass("Known", [("quick", bool, False)])
    unknown = dataclasses.make_dataclass("Unknown", [("factor", float, 1.0)])
    monkeypatch.setitem(BASES, known, (known(), None))
    monkeypatch.setitem(BASES, unknown, (unknown(), None))
    assert [*values_due(known)] == [("quick", True)]
    with pytest.raises(AssertionError, match="has no value in the campaign"):
        [*values_due(unknown)]
    monkeypatch.delitem(BASES, secfc.Elbow)
    assert classes_left_out() == {"Elbow"}


@LONG
@pytest.mark.parametrize("name", [*BY_DAY, *by_night(*(name for name in OPTIONS if name not in BY_DAY))])
def test_under_every_value_a_run_under_faults_is_exact_or_blames_rightly(name):
    scenario = OPTIONS[name]
    messages = scenario.clean[1]

    @trials(1, 15)
    @given(schedules(messages))
    def law(schedule):
        event(judge(scenario, schedule))

    law()


def test_a_network_that_heals_lets_a_run_end_within_so_many_exchanges():
    """Then nothing happens any more: the server ends within twice its undisturbed exchanges, and each client
    within twice those of the busiest, whose place in the committee it may take."""
    for name in ("private", "one corrected", "labels only"):
        scenario = EVERY[name].with_clusters(2)
        quiet = Network({}, False, heals=0)
        scenario.run(quiet)
        most = max(quiet.after[client] for client in scenario.federation.names)
        heals = random_schedules(scenario, 3, LOSSES, 4)
        for number, schedule in enumerate(itertools.islice(heals, short(2, nightly=100))):
            network = Network(schedule, scenario.sealed, heals=scenario.clean[1] * (number % 5 + 1) // 6)
            with contextlib.suppress(secfc.ProtocolError):
                scenario.run(network)
            assert network.after[SERVER] <= 2 * quiet.after[SERVER], schedule
            assert all(network.after[client] <= 2 * most for client in scenario.federation.names), schedule
