"""Noisy sums of people's rows: what is opened is the plain step under the noise that is declared, no more."""

import dataclasses
import functools
import itertools
import json
import math
import re
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

import secfc
from benchmarks.dp_methods import PlainSums
from field.code import lane_check
from field.code.lagrange_code import LagrangeCode
from field.code.reply_check import open_words
from field.compare import shells
from field.compare.shells import SHELLS, UNIT, shell_modulus, shell_sensitivity
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.cli.shell.errors import ShellInterface
from secfc.coded.plan import PublicOwnerLayout
from secfc.coded_kmeans.run_summary import placed_centers
from secfc.disclosure.checked import products
from secfc.disclosure.noise import sums_client, sums_question, sums_server
from secfc.errors import (
    BudgetSpent,
    FaultyServer,
    IncompatibleOptions,
    PrivacyError,
    SuspectedParties,
    TooFewReplies,
)
from secfc.feddp.server_estimates import nearest_squares
from secfc.feddp.statistics import labels_of, sums_of, sums_sensitivity
from secfc.privacy import Bound, Budget, Composed, Neighbors
from secfc.privacy.accountant import epsilon
from secfc.privacy.audit import many_gaussian_runs
from secfc.privacy.calibration import discrete_multiplier
from secfc.remedies import PYTHON
from tests.field.compare.test_shells import plain_step
from tests.nightly import by_night, short
from tests.small import cluster, invoke

DELTA = 1e-6
HIDDEN = secfc.Private(counts="hidden", bound=64, sized=False)
CENTERS = np.array([[3.0, 0], [-3, 1], [0, -3]])


def coins(party):
    return SeededCoins(5, f"noisy sums {party}")


def people(m=24, n=4, d=2, seed=0, **more):
    """Points (m, d) about three centers, each at two of n clients; and the points."""
    rng = np.random.default_rng(seed)
    points = np.zeros((m, d))
    points[:, :2] = CENTERS[np.arange(m) % 3]
    points += 0.3 * rng.normal(size=(m, d))
    held = [[i for i in range(m) if j in (i % n, (i + 1) % n)] for j in range(n)]
    ids = [[f"person {i}" for i in own] for own in held]
    return secfc.Federation.from_arrays([points[own] for own in held], ids=ids, **more), points


def policy(budget=8.0, **parameters):
    return secfc.NoisySums(Budget(budget, DELTA), **{"radius": Bound.given(6.0), "steps": 2, **parameters})


def run_sums(disclosure, data, **settings):
    return cluster(data, disclosure, **{"membership": HIDDEN, "bound": 6.0, "coins": coins, **settings})


def opened(result, points):
    """Of each question what was opened, what it would be without noise, both (k, d + 1), and its entries'
    declared deviation."""
    plan, d, n = result.plan, result.plan.d, len(result.plan.clients)
    replies, found = {}, []
    rows = plan.quantizer(points) * plan.layout.multiple
    for e in result.transcript.envelopes:
        if e.kind == "CodedCenters":
            replies.setdefault(e.round, {})[plan.clients.index(e.sender)] = e.body.values
    asked = {e.body.round: e.body for e in result.transcript.envelopes if e.kind == "NoisySumsQuery"}
    for number, each in sorted(replies.items()):
        if len(each) < plan.code.threshold(2):  # too few came, and it was asked again
            continue
        detail, k = asked[number].detail, asked[number].k
        radius = int(detail[1])
        unit = sums_question.count_unit(radius, d)
        expected, _ = plain_step(rows, detail[2:-n].reshape(k, d), radius, unit)
        got = sums_question.opened_numbers(plan, plan.code.interpolate(each, 2))
        found.append((got, expected, shell_sensitivity(radius, unit)))
    return found


# --- what is opened ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def usual():
    data, points = people()
    return run_sums(policy(), data), data, points


ALONE = secfc.Threshold(1, deviating=0)  # one plays each part
SEGMENTS = secfc.Threshold(1, ell=2, deviating=0)
WAYS = (
    {},
    {"threshold": SEGMENTS, "n": 5, "d": 5},  # of which the last is padded
    {"threshold": ALONE, "deals": None},
    *by_night(
        {"steps": 4, "asked": (1, 6, 6, 3)},
        {"threshold": 2, "n": 5},
        {"deals": "client-3"},
        {"threshold": secfc.Threshold(2, ell=3), "n": 9, "d": 4},
        {"threshold": 2, "n": 6, "deals": None},
        {"deals": None},
    ),
)


@pytest.mark.parametrize("more", WAYS)
def test_without_noise_the_sums_of_integers_are_opened_bit_for_bit(monkeypatch, more):
    monkeypatch.setattr(
        sums_client, "wide_noise", lambda s, d, shape, basis, coins: basis.reduce(np.zeros(shape, int))
    )
    data, points = people(n=more.get("n", 4), d=(d := more.get("d", 2)))
    way = policy(dealer=more.get("deals", "server"), steps=more.get("steps", 2))
    result = run_sums(way, data, threshold=more.get("threshold", 1))
    found = opened(result, points)
    assert [got.shape for got, _, _ in found] == [(k, d + 1) for k in more.get("asked", (1, 3))]
    for got, expected, _ in found:
        assert (got == expected).all()
        assert expected[:, -1].any()
    # Each person is counted once, whoever holds the row.
    assert found[0][1][0, -1] <= UNIT * sums_question.count_unit(result.plan.radius, d) * len(points)


def test_noise_lies_on_all_that_is_opened(usual):
    result, _, points = usual
    noise = policy().noise(4, 1)
    for got, expected, sensitivity in opened(result, points):
        apart = (got - expected).astype(float) / (noise.sums * sensitivity * math.sqrt(4 / noise.honest))
        assert np.count_nonzero(apart) == apart.size
        assert np.abs(apart).max() < 5


def noise_of(code, way, k, *, who=None, party=coins):
    """Noise (k, 3) on sums about centers in two columns, as so many clients deal it and it is opened; the
    question, and how to deal for it, or for another, once more."""
    names = tuple(f"client-{j}" for j in range(code.n))
    plan = SimpleNamespace(code=code, clients=names, d=2, digest=lambda: bytes(32))
    asked = sums_question.SumsQuestion(0, 1000, np.zeros((k, 2), np.int64), tuple(range(code.n)))
    clients = [
        sums_client.NoisySumsClient(SimpleNamespace(plan=plan, name=name, me=j), way, party(name), 1, 1)
        for j, name in enumerate(names)
    ]

    def deal(asked=asked):
        question = SimpleNamespace(detail=asked.detail(code.n))
        dealt = [client.deal(question, asked) for client in clients[:who]]
        shares = [functools.reduce(code.basis.add, each) for each in zip(*dealt, strict=True)]
        values = code.interpolate(dict(enumerate(shares[: code.threshold(2)])), 2)
        return sums_question.opened_numbers(plan, values).astype(float)

    return deal(), asked, deal


@pytest.mark.parametrize(("n", "ell"), [(4, 1), (6, 2)])
def test_noise_that_is_dealt_has_the_declared_deviation_and_is_the_same_when_a_question_is_repeated(n, ell):
    code = LagrangeCode(Basis.for_bound(1 << 80), n, ell, 1)
    noise = policy(absent=1).noise(n, 1)
    total, asked, again = noise_of(code, noise, 6000)
    assert (again() == total).all()
    # All clients deal where two fewer must suffice.
    assert noise.honest == n - 2
    declared = noise.sums * asked.sensitivity
    # Of each column, so also of what stands at the second data point, and of the weights.
    assert np.std(total, axis=0) * math.sqrt(noise.honest / n) == pytest.approx([declared] * 3, rel=0.03)
    assert abs(total.mean()) < 5 * np.std(total) / math.sqrt(total.size)
    assert abs(np.corrcoef(total.T)[np.triu_indices(3, 1)]).max() < 5 / math.sqrt(len(total))
    with pytest.raises(BudgetSpent):
        again(dataclasses.replace(asked, radius=999))


def test_one_lane_tells_shells_apart_and_two_hold_sums(usual):
    result, _, _ = usual
    told = [e.body.values for e in result.transcript.envelopes if e.kind == "MaskedDistances"]
    assert {len(values) for values in told} == {1}
    plan = result.plan
    assert plan.code.basis.lanes == 2
    assert shell_modulus(2 * plan.radius, plan.longest, 2 * plan.radius) < min(LANE_PRIMES)


def test_a_plan_is_made_of_more_rows_than_centers_stand_for():
    words = "-n 4 -m 2000 -d 2 -k 3 --disclosure noisy-sums --membership private --counts hidden"
    done = invoke("plan", *words.split(), "--epsilon", 4, "--radius", 60)
    assert done.exit_code == 0, done.output
    assert "2 lanes of 30 bits" in done.output


def test_nothing_else_is_opened(usual):
    result, _, _ = usual
    seen = Counter(e.kind for e in result.transcript.envelopes)
    assert seen["NoisySumsQuery"] == 2 * 4
    assert seen["NoiseShares"] == 2 * 3 * 3  # each of four clients to the other ones of three responders
    never = {"SizeShare", "LabelShare", "OwnShare", "SelectedRowShare", "CodedDistances", "CodedCosts"}
    assert not never & set(seen)
    last = max(e.round for e in result.transcript.envelopes)
    (ended,) = {e.kind for e in result.transcript.envelopes if e.round == last}
    assert ended == "RunEnded"


def test_owners_label_their_own_rows_by_the_centers(usual):
    result, data, _ = usual
    for party, rows, labels in zip(data.parties, result.rows, result.labels, strict=True):
        squares = ((party.points[:, None] - result.centers[None]) ** 2).sum(axis=2)
        assert (labels == squares.argmin(axis=1)).all()
        assert (rows >= 0).all()
    assert (result.predict(data)[1] == result.labels[1]).all()
    assert result.history == ()
    assert result.cost is None


def test_centers_find_the_clusters_with_points_of_the_server():
    """Of so few people with much budget: what noise leaves."""
    start = CENTERS + 0.4
    public = np.repeat(start, 3, axis=0) + 0.2 * np.random.default_rng(2).normal(size=(9, 2))
    data, data_points = people(m=60, server_points=public)
    result = run_sums(policy(400.0, steps=3), data)
    asked = [e.body.k for e in result.transcript.envelopes if e.kind == "NoisySumsQuery"]
    assert asked == [4] * 8 + [3] * 4  # two questions about means of more groups find a start
    near = np.linalg.norm(result.centers[:, None] - CENTERS[None], axis=2).min(axis=0)
    before = np.linalg.norm(start - CENTERS, axis=1)
    assert (near < before / 2).all()
    check_errors_that_are_told(result, *opened(result, data_points)[-1][:2])


def test_without_points_of_the_server_cones_are_asked_about_and_the_radius_that_rows_need():
    """Under noise that is nothing beside so many rows, with a radius three times too large."""
    data, points = people(m=60)
    result = run_sums(policy(4000.0, steps=4, radius=Bound.given(12.0)), data, bound=12.0)
    asked = [e.body for e in result.transcript.envelopes if e.kind == "NoisySumsQuery"][::4]
    # The mean of all rows; cones around it, twice; clusters of these.
    assert [(each.k, int(each.detail[1])) for each in asked] == [(1, 1920), (6, 1920), (6, 1357), (3, 959)]
    for (got, _, _), each in zip(opened(result, points), asked, strict=True):
        weight = float(got[:, -1].sum()) / UNIT / sums_question.count_unit(int(each.detail[1]), 2)
        assert weight == pytest.approx(60, rel=0.1)  # all rows lie within them


class Steps(PlainSums):
    """All questions of a run on rows in one place, or on answers that were given before to others."""

    def __init__(self, rows, seed, *, k=3, radius=6.0, steps=4, budget=2.0, answers=(), session=0):
        held = secfc.Federation.from_arrays(np.array_split(rows, 5))
        way = policy(budget, radius=Bound.given(radius), steps=steps)
        made = secfc.SecFC(k, threshold=1, disclosure=way)
        facts = dataclasses.replace(PublicFacts.of(held, radius), session=bytes([session] * 32))
        plan = made.complete(facts, PublicOwnerLayout(held.counts))
        super().__init__(plan, way, plan.quantizer(rows).astype(float), np.random.default_rng(seed))
        self.answers, self.seen = list(answers), []

    def open_sums(self, number, centers, radius):
        got, asked = yield from super().open_sums(number, centers, radius)
        got = self.answers[number] if self.answers else got
        self.seen.append((got, asked))
        return got, asked

    def run(self):
        list(self(np.zeros(0), self.plan.k, self.steps, None))
        return self

    @property
    def asked(self):
        return [asked.detail(5).tolist() for _, asked in self.seen]


def blobs(seed, *, k=9, d=6, m=3000):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, d))[rng.integers(k, size=m)] + 0.1 * rng.normal(size=(m, d))


@pytest.mark.parametrize("loose", [1.2, 5.0])
def test_a_start_among_cones_is_worth_its_questions_also_where_the_radius_is_loose(monkeypatch, loose):
    rows = blobs(0)
    single = float(((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean())
    way = {"k": 9, "radius": loose * float(np.linalg.norm(rows, axis=1).max()), "budget": 8.0}

    def left():
        found = [Steps(rows, seed, session=seed, steps=6, **way).run().centers for seed in range(9)]
        return np.array([nearest_squares(rows, centers).mean() / single for centers in found])

    kept = left()
    assert np.median(kept) < 0.15
    if loose > 2:
        # A control: within the radius that was given noise stays as wide as that is.
        monkeypatch.setattr(sums_server, "next_radius", lambda found, plan, radius: radius)
    else:
        # Another: of directions that are alike no question says where rows lie apart.
        monkeypatch.setattr(
            sums_server,
            "discrete_gaussian",
            lambda sigma, shape, coins: np.arange(1, shape[0] + 1)[:, None] * np.ones(shape),
        )
    more = left() / kept
    assert more.min() > 1
    assert np.median(more) > 1.1


def test_questions_follow_from_the_answers_before_alone():
    """So what noise hides in answers is all that a run tells: of other rows it asks alike after these."""
    first, other = blobs(1, k=3), blobs(2, k=3)
    done = Steps(first, 0, radius=9.0).run()
    again = Steps(other, 1, radius=9.0, answers=[got for got, _ in done.seen]).run()
    assert again.asked == done.asked
    assert (again.centers == done.centers).all()
    # A control: under answers of their own the questions are others.
    assert Steps(other, 0, radius=9.0).run().asked[1:] != done.asked[1:]


def test_a_row_moves_no_answer_of_a_run_further_than_its_noise_is_made_for():
    """Of questions that grow narrower and wider, between rows at both ends of the ball."""
    rows, end = blobs(3, k=3, d=2, m=400), np.array([[6.0, 0.0]])
    rows, moved, radii = rows / np.linalg.norm(rows, axis=1).max(), [], []
    for scale in (0.5, 6.0):
        run, twin = (
            Steps(np.concatenate([scale * rows, side * end]), 0, steps=6, budget=24.0) for side in (1, -1)
        )
        asked = [each for _, each in run.run().seen]
        run.rng = twin.rng = SimpleNamespace(normal=lambda size: np.zeros(size))
        for each in asked:
            one, two = (
                returned(of.open_sums(each.number, each.centers, each.radius))[0] for of in (run, twin)
            )
            moved.append(float(np.linalg.norm(one - two)) / each.sensitivity)
            radii.append(each.radius / run.plan.radius)
    assert 0.9 < max(moved) <= 1
    assert min(radii) < 0.5
    assert len(moved) == 12


def returned(role):
    with pytest.raises(StopIteration) as end:
        next(role)
    return end.value.value


def check_errors_that_are_told(result, got, expected):
    """In data units, and of the last question: as far as its noise moved the centers."""
    told = placed_centers(policy(), result.plan, result.details)
    found, counts = result.details[0], expected[:, -1] / expected[:, -1].max()
    assert told.sizes == pytest.approx(found.counts)
    assert abs(np.array(told.sizes) / max(told.sizes) - counts).max() < 0.2
    noise = (got - expected)[:, :-1] / UNIT / np.array(told.sizes)[:, None] / float(result.plan.scale)
    moved = np.linalg.norm(noise.astype(float), axis=1)
    assert 0.3 < math.sqrt((moved**2).mean() / np.square(told.moved).mean()) < 2
    assert all(0 < each < 0.5 for each in told.moved)
    assert told.least == max(1.0, 2 * told.error)


# --- what it costs -----------------------------------------------------------------------------------


def test_the_law_is_that_of_a_step_of_feddp_where_every_row_lies_within_the_radius():
    """So disjoint clients are better served by it: it opens the same, under the same noise."""
    rng = np.random.default_rng(0)
    centers = np.array([[900, 0, 0], [-900, 0, 0]])
    rows = centers[np.arange(30) % 2] + rng.integers(-100, 101, (30, 3))
    unit, replaced = sums_question.count_unit(200, 3), Neighbors("replace")
    found, _ = plain_step(rows, centers, 200, unit)
    labels = labels_of(rows, None, centers.astype(float), 1.0)
    assert (found[:, :-1] == UNIT * sums_of(rows - centers[labels], labels, 2)).all()
    assert (found[:, -1] == UNIT * unit * np.bincount(labels)).all()
    same = UNIT * sums_sensitivity(200, unit, replaced)
    # A row that moves to another shell moves the count as well.
    assert same <= shell_sensitivity(200, unit) <= 1.02 * same


def test_the_ledger_has_one_event_a_question_and_meets_the_budget(usual):
    result, _, _ = usual
    assert result.ledger.epsilon(DELTA) == pytest.approx(8.0, rel=1e-3)
    assert result.ledger.epsilon(DELTA) <= 8.0 * (1 + 1e-9)
    *asked, checked = policy().released(result.plan).events
    assert len(asked) == 2
    # What checks of labels open takes next to nothing of it.
    assert checked.each > 1000 * asked[0].each
    whole = discrete_multiplier(Budget(8.0, DELTA), 3, shell_sensitivity(sums_question.LEAST_RADIUS, 1))
    assert policy().noise(4, 1).sums <= whole * math.sqrt(2) * (1 + 1e-6)


@pytest.mark.parametrize("budget", [0.01, 0.1, 1.0, 8.0])
@pytest.mark.parametrize(("n", "t", "absent"), [(3, 1, 0), (16, 1, 3), (16, 5, 2), (200, 60, 0), (9, 0, 1)])
def test_the_budget_pays_for_checks_of_labels_as_well(budget, n, t, absent):
    way = policy(budget, steps=4, absent=absent)
    whole = epsilon(way.releases(n, t, 3, 2), DELTA)
    assert budget * (1 - 1e-3) <= whole <= budget * (1 + 1e-9)
    *asked, last = way.releases(n, t, 3, 2).events
    assert (last != asked[0]) == (t > 0)


def test_a_budget_that_checks_of_labels_take_is_refused():
    with pytest.raises(PrivacyError, match="checks of labels cost as much"):
        policy(0.001, steps=9).noise(200, 60)


def test_noise_shared_out_among_all_clients_would_cost_more_than_the_budget(usual):
    """A control: of n clients t collude and some vanish, so each deals more than an n-th of the variance."""
    plan = usual[0].plan
    (event, _, _), n = policy().released(plan).events, plan.code.n
    assert event.honest == n - 1
    thin = dataclasses.replace(event, each=event.each * math.sqrt(event.honest / n))
    assert epsilon(Composed((thin, thin)), DELTA) > 8.0 * 1.05
    assert policy(absent=1).noise(n, 1).honest == n - 2


# --- who deviates, and who vanishes ------------------------------------------------------------------


def test_a_server_that_asks_clients_about_different_centers_is_suspected():
    data, _ = people()

    def faults(e):
        if e.kind == "NoisySumsQuery" and e.recipient == "client-3":
            other = e.body.detail.copy()
            other[2] += 1
            subject = dataclasses.replace(e.body.subject, detail=other)
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, subject=subject))
        return (e,)

    with pytest.raises(SuspectedParties, match="another question"):
        run_sums(policy(), data, faults=faults)


@pytest.mark.parametrize(
    ("place", "value", "why"),
    [
        (1, sums_question.LEAST_RADIUS - 1, "radius"),
        (1, 1 << 20, "radius"),
        (2, 1 << 20, "centers"),
        (2, -(1 << 63), "centers"),
        (-1, 0, "less noise"),
        (0, 1, "plan has"),
    ],
)
def test_questions_beyond_what_is_agreed_are_refused(place, value, why):
    data, _ = people()

    def faults(e):
        if e.kind == "NoisySumsQuery":
            other = e.body.detail.copy()
            other[place] = value
            subject = dataclasses.replace(e.body.subject, detail=other)
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, subject=subject))
        return (e,)

    with pytest.raises(FaultyServer, match=why):
        run_sums(policy(), data, faults=faults)


def test_a_server_that_asks_once_more_is_refused(monkeypatch):
    data, _ = people()
    init = sums_server.NoisySumsServer.__init__
    monkeypatch.setattr(
        sums_server.NoisySumsServer, "__init__", lambda self, c, noise, steps: init(self, c, noise, steps + 1)
    )
    with pytest.raises(FaultyServer, match="more than the plan has"):
        run_sums(policy(), data)


def test_a_server_cannot_have_a_release_under_noise_that_an_earlier_one_told(usual):
    """It leaves two out in turn, so the others deal anew, and lets the first pay for something else."""
    plan, way, names = usual[0].plan, policy(absent=1), usual[0].plan.clients
    clients = [
        sums_client.NoisySumsClient(SimpleNamespace(plan=plan, name=c, me=j), way.noise(4, 1), coins(c), 3, 3)
        for j, c in enumerate(names)
    ]

    def ask(whom, dealers, radius=1000):
        asked = sums_question.SumsQuestion(0, radius, np.zeros((1, 2), np.int64), dealers)
        question = SimpleNamespace(detail=asked.detail(4), digest=asked.detail(4).tobytes())
        for j in whom:
            clients[j].deal(question, asked)
        return [clients[j].subject(question) for j in whom], [clients[j].paid.left for j in whom]

    for dealers in ((0, 1, 2, 3), (1, 2, 3)):  # one release; their difference is the noise of client 0
        subjects, left = ask(dealers, dealers)
        assert len(set(subjects)) == 1
        assert set(left) == {2}
    ask((0,), (0, 1, 2, 3), radius=999)
    subjects, left = ask((0, 2, 3), (0, 2, 3))
    assert set(left) == {1}  # all have paid as often, but client 0 would deal what is known
    assert subjects[1] == subjects[2] != subjects[0]


def lie(monkeypatch, member):
    """A member that counts the first row a thousand times more in the first shell."""
    compare = sums_client.NoisySumsClient.compare

    def lying(self, *arguments):
        held = yield from compare(self, *arguments)
        if self.name == member:
            parts = next(iter(held.parts.values())).parts
            parts[:, 0, 0] = (parts[:, 0, 0] + 1000) % self.plan.code.basis.column(1, np.uint32)
        return held

    monkeypatch.setattr(sums_client.NoisySumsClient, "compare", lying)


@pytest.mark.parametrize("checked", [True, False])
def test_a_member_that_counts_a_row_more_often_than_once_ends_the_run(monkeypatch, checked):
    """Unchecked, a control, it would move the sums further than the noise covers."""
    data, points = people()
    lie(monkeypatch, "client-1")
    way = {"threshold": secfc.Threshold(1, deviating=0), "coins": coins}
    if checked:
        with pytest.raises(SuspectedParties):
            run_sums(policy(), data, **way)
        return
    monkeypatch.setattr(sums_client.NoisySumsClient, "check_labels", lambda *_: iter(()))
    got, expected, sensitivity = opened(run_sums(policy(), data, **way), points)[0]
    assert abs(int(got[0, -1] - expected[0, -1])) > 100 * sensitivity


def test_noise_that_differs_modulo_primes_ends_the_run_and_nothing_else(monkeypatch):
    """Whoever deals it fixes it before coins are opened that it would have to know."""
    noise = sums_client.NoisySumsClient.check_noise

    def differing(self, *arguments):
        found = noise(self, *arguments)
        if self.name == "client-1":
            found[0] = (found[0] + 1) % self.plan.code.basis.primes[0]
        return found

    monkeypatch.setattr(sums_client.NoisySumsClient, "check_noise", differing)
    with pytest.raises(SuspectedParties, match="nothing of this step was opened") as error:
        run_sums(policy(), people()[0])
    assert "client-1" in error.value.parties


def test_sums_of_labels_that_a_check_opens_have_the_noise_that_is_declared(usual):
    result, _, _ = usual
    plan, told, count = result.plan, {}, lane_check.REPETITIONS
    for e in result.transcript.envelopes:
        if e.kind == "ProductWords" and e.body.values.shape[1] > count:
            told.setdefault(e.round, {})[plan.clients.index(e.sender)] = e.body.values[:, -count:]
    assert len(told) == 2
    found = [open_words(plan.code, plan.code.basis, words) for words in told.values()]
    assert all(map(functools.partial(lane_check.lanes_agree, plan.code.basis), found))
    values = np.stack([plan.code.basis.lift_signed(each) for each in found]).astype(float)
    assert np.sqrt((values**2).mean()) == pytest.approx(lane_check.SPREAD, rel=6 / math.sqrt(4 * count))


def test_more_checks_of_labels_than_are_paid_for_are_refused(monkeypatch):
    monkeypatch.setattr(secfc.NoisySums, "checks", 1)
    with pytest.raises(BudgetSpent, match="more check of labels: 0 of 1 are left"):
        run_sums(policy(), people()[0])


def test_weights_are_those_of_one_shell_in_one_cluster_and_no_others_pass():
    """Every choice of shells and weights of a row, of a few: honest are one shell at most, in one cluster."""
    basis = Basis(LANE_PRIMES[:2])
    some, honest = itertools.product([0, 1], [0, 1], *[[0, 64, 90, 128]] * 2), 0
    for first, second, *weights in some:
        summed = basis.reduce(np.array([first, second, *[0] * (SHELLS - 2), *weights])[:, None])
        claims = [
            products.one_hot_claim(basis, summed[:, :SHELLS]),
            products.weight_claim(basis, *shells.shell_weights(basis, summed)),
        ]
        found = [claim(SeededCoins(1, f"claim {x}")) for x, claim in enumerate(claims)]
        passes = all((products.sum_last(basis, basis.multiply(a, b)) == c).all() for a, b, c in found)
        whole, last = 128 * first + 90 * second, 128 * first + 90 * second - sum(weights)
        fits = sorted([*weights, last]) == [0, 0, whole]
        assert passes == (first + second < 2 and fits), (first, second, weights)
        honest += passes
    assert honest == 7  # no shell, or one of two in one of three clusters


def lose(client, after=0, question=1):
    """The client falls silent so many of its messages after a question."""
    asked, seen = set(), {"sent": 0}

    def faults(e):
        asked.update([e.round] * (e.kind == "NoisySumsQuery"))
        due = len(asked) >= question
        seen["sent"] += due and e.sender == client
        return () if due and seen["sent"] > after and client in (e.sender, e.recipient) else (e,)

    return faults


@pytest.mark.parametrize(
    ("client", "dealer"),
    [("client-4", "server"), *by_night(("client-0", "server"), ("client-2", "server"), ("client-1", None))],
)
def test_a_client_may_vanish_where_the_noise_of_the_others_suffices(client, dealer):
    data, points = people(n=5)
    for after in short((0,), nightly=range(0, 30, 3)):
        # Where nobody deals, clients agree on keys while they are asked first.
        faults = lose(client, after, 1 + (dealer is None))
        result = run_sums(policy(absent=1, dealer=dealer), data, faults=faults)
        assert len(opened(result, points)) == 2
        assert np.isfinite(result.centers).all()


def test_too_few_dealers_of_noise_end_a_run():
    data, _ = people(n=5)
    with pytest.raises(TooFewReplies):
        run_sums(policy(), data, faults=lose("client-4"))


# --- where it is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"membership": "open"}, "Use FedDPKMeans, or have people"),
        ({"membership": secfc.Private(merge=False)}, "each at one client"),
        ({"membership": secfc.Private()}, "beside the budget. Use membership=Private.counts=.hidden.."),
        ({"membership": secfc.Private(counts="hidden", on_conflict="separate")}, "more than once"),
        ({"init": "random-points"}, "steps start"),
        ({"n_init": 2}, "restarts"),
        ({"k": secfc.Elbow(3)}, "Give k as a number"),
        ({"runtime": secfc.Runtime(workers=4)}, "union of IDs"),
    ],
)
def test_what_no_budget_covers_is_refused_with_what_to_use(more, why):
    data, _ = people(n=5)
    with pytest.raises(IncompatibleOptions, match=why):
        run_sums(policy(), data, **more)


def test_remedies_in_python_are_what_can_be_typed():
    data, _ = people(n=5)
    with pytest.raises(IncompatibleOptions) as found:
        run_sums(policy(), data, membership=secfc.Private(bound=64, sized=False))
    (said,) = re.findall(r"Use membership=(.*)\.$", str(found.value))
    assert eval(said, vars(secfc)).counts == "hidden"


def test_neighbors_and_bounds_that_no_noise_covers_are_refused():
    with pytest.raises(PrivacyError, match="replace"):
        policy(neighbors=Neighbors("add/remove"))
    with pytest.raises(PrivacyError, match="person's row counts once") as found:
        policy(neighbors=Neighbors("replace", "person", 3))
    assert found.value.text(PYTHON).endswith('. Use neighbors=Neighbors(relation="replace").')
    assert found.value.text(ShellInterface()).startswith("--protect person:3: ")
    assert found.value.text(ShellInterface()).endswith(". Use --protect point.")
    data, _ = people()
    with pytest.raises(PrivacyError, match="private data"):
        secfc.fit(secfc.SecFC(2, 1, membership=HIDDEN, disclosure=policy()), data)


def test_the_shell_runs_it_and_says_what_it_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, _ = people()
    for party, own in zip(data.parties, range(4), strict=True):
        rows = [f"{i},{x},{y}" for i, (x, y) in zip(party.ids, party.points, strict=True)]
        (tmp_path / f"{own}.csv").write_text("\n".join(["id,x,y", *rows]))
    files = [f"{own}.csv" for own in range(4)]
    asked = *files, "-k", 3, "--id-column", "id", "--disclosure", "noisy-sums"
    paid = "--epsilon", 8, "--radius", 6, "--max-iter", 2
    done = invoke("run", *asked, *paid, "--membership", "private", "--counts", "hidden")
    assert done.exit_code == 0, done.output
    assert "k-means on noisy sums" in done.output
    report = json.loads((tmp_path / "secfc-report.json").read_text())
    assert report["parameters"]["disclosure"] == "noisy-sums"
    assert report["privacy"]["epsilon"]["everybody"] <= 8
    # Neither exact sizes nor digests of labels: no budget has paid for them.
    assert report["cluster_sizes"] is report["labels_digest"] is None
    assert re.search(r"^Clusters +3$", done.output, re.MULTILINE)
    assert len(report["privacy"]["centers"]["moved"]) == 3
    assert report["clients_learned"][-1] == "the size of the union of all IDs"  # not how many hold each row
    assert "the noise of 3 suffices" in report["privacy"]["assumed"]["honest clients"]
    for options, needs in (
        (paid, "--membership private --counts hidden"),
        (("--membership", "private"), "--epsilon and --radius"),
    ):
        refused = invoke("run", *asked, *options)
        assert refused.exit_code == 2
        assert needs in " ".join(refused.output.split())
        assert not {"NoisySums", "FedDPKMeans"} & set(re.findall(r"\w+", refused.output))


# --- an audit ----------------------------------------------------------------------------------------


def sparing(factor):
    """The policy with its noise divided by a factor, which claims what it should have been."""

    class Sparing(secfc.NoisySums):
        def noise(self, n, t):
            wide = super().noise(n, t)
            return dataclasses.replace(wide, sums=wide.sums / factor)

        def releases(self, *sizes):
            return policy(4.0, steps=1).releases(*sizes)

    return Sparing(Budget(4.0, DELTA), Bound.given(6.0), steps=1)


def found_by(scores, runs):
    """What scores of two sides say of the shift: scores(side, number), antisymmetric in the sides."""
    seen = [np.array([scores(side, number) for number in range(runs)]) for side in (1, -1)]
    return many_gaussian_runs(*seen, alarm=1e-4)


@pytest.mark.parametrize("ell", [1, 2])
def test_an_audit_of_a_step_confirms_the_claim_and_catches_half_the_noise(ell):
    """A person's row at one end of the ball or the other, under the noise that the honest alone deal."""
    code = LagrangeCode(Basis.for_bound(1 << 80), 6, ell, 1)
    claim = policy(4.0, steps=1).releases(6, 1, 3, 2)
    for factor, caught in ((1, False), (2, True)):
        noise = sparing(factor).noise(6, 1)
        # Every number has noise of its own: those about 3000 centers are of as many runs.
        total, asked, _ = noise_of(code, noise, 3000, who=noise.honest)
        row = np.array([[1000, 0]])
        exact, _ = plain_step(row, np.zeros((1, 2), int), 1000, asked.unit)

        def scores(side, number, total=total, shift=float(exact[0, 0])):
            return side * shift + total[number, (1 - side) // 2]

        assert found_by(scores, 3000).refutes(claim) == caught


@pytest.mark.nightly
@pytest.mark.parametrize(("factor", "caught"), [(1, False), (2, True)])
def test_an_audit_of_runs_from_cones_confirms_the_claim_and_catches_half_the_noise(factor, caught):
    """All questions of a run, each made of the answers before, under the noise that the honest alone deal."""
    others, end = blobs(3, k=2, d=2, m=60) / 4, np.array([[6.0, 0.0]])
    sides, scores = [np.concatenate([others, side * end]) for side in (1, -1)], ([], [])
    for seed, side in itertools.product(range(2000), (0, 1)):
        run = Steps(sides[side], [seed, side, factor], k=2, steps=4, budget=4.0)
        run.noise, honest = dataclasses.replace(run.noise, sums=run.noise.sums / factor), run.noise.honest
        run.rng = Shrunk(run.rng, math.sqrt(honest / 5))
        score, asked = 0.0, run.run().seen
        for got, question in asked:
            exact = []
            for rows in sides:  # what either would have been asked, and its answer without noise
                run.rows, run.rng = run.plan.quantizer(rows).astype(float), Shrunk(run.rng, 0.0)
                again = question.number, question.centers, question.radius
                exact.append(returned(PlainSums.open_sums(run, *again))[0])
            one = float(run.noise.client_deviation(question.sensitivity, run.noise.sums, got.size))
            score += float(((got - sum(exact) / 2) * (exact[0] - exact[1])).sum()) / (one**2 * honest)
        scores[side].append(score)
    found = many_gaussian_runs(*map(np.array, scores), alarm=1e-4)
    assert found.refutes(policy(4.0, steps=4).releases(5, 1, 2, 2)) == caught


class Shrunk:
    """A generator of normal numbers so many times as wide."""

    def __init__(self, rng, by):
        self.rng, self.by = rng, by

    def normal(self, size):
        return self.by * self.rng.normal(size=size)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("holders", "dealer", "threshold"), [(3, "server", 1), (4, None, ALONE), (5, "server", SEGMENTS)]
)
def test_an_audit_of_whole_runs_confirms_the_claim_and_catches_half_the_noise(holders, dealer, threshold):
    """The person's row lies at all clients, of whom one may collude, so its noise is taken off."""
    ends, claims = {}, set()
    for side in (1, -1):
        rows = np.array([[6.0 * side, 0], [0, 0], [0, 1]])
        arrays, ids = [rows, rows[:2], rows[[0, 2]]], [["a", "b", "c"], ["a", "b"], ["a", "c"]]
        arrays, ids = arrays + [rows] * (holders - 3), ids + [["a", "b", "c"]] * (holders - 3)
        ends[side] = secfc.Federation.from_arrays(arrays, ids=ids), rows
    for factor, caught in ((1, False), (2, True)):

        def scores(side, number, factor=factor):
            def who(party):
                return SeededCoins(number, f"{side} {factor} {party}")

            data, rows = ends[side]
            way = dataclasses.replace(sparing(factor), dealer=dealer)
            result = run_sums(way, data, k=1, coins=who, threshold=threshold)
            claims.add(result.ledger.entries[0].event)
            ((got, _, _),) = opened(result, rows)
            return float(got[0, 0])

        found = found_by(scores, 400)
        (claim,) = claims
        # All clients deal where one fewer must suffice: what is opened has so much less of a shift.
        whole = dataclasses.replace(found, mu=found.mu * math.sqrt(holders / (holders - 1)))
        assert whole.refutes(claim) == caught
