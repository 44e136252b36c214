"""SecFC with noise: what is released has the noise and the cost that are claimed, in every view."""

import dataclasses
import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import stats

import secfc
from field.code.distances import decode_scaled
from field.code.lagrange_code import LagrangeCode
from field.code.masking import deal_blinding
from field.code.rows import cluster_sizes
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.noise import Deviation, discrete_gaussian
from field.secrets.coins import SeededCoins
from secfc.coded.plan import PublicOwnerLayout
from secfc.data.inputs import build_algorithm
from secfc.disclosure.noise.in_shares import ReleaseCounts
from secfc.disclosure.noise.noise import Noise
from secfc.errors import FaultyServer, OverBudget, PrivacyError, TooFewReplies
from secfc.privacy import (
    EVERYBODY,
    Bound,
    Budget,
    Composed,
    DistributedDiscreteGaussian,
    Gaussian,
    Neighbors,
    gaussian_multiplier,
    many_runs,
)
from secfc.privacy.accountant import epsilon
from secfc.privacy.calibration import discrete_multiplier
from secfc.roles.exchange import SERVER
from tests.field.code.test_code import ScriptedCoins
from tests.nightly import by_night, short
from tests.oracles.field import scaled_distances
from tests.secfc.rowtest import kinds
from tests.small import cluster, split

N, T, K, STEPS = 7, 2, 3, 2
DELTA = 1e-6
BUDGET = Budget(2.0, DELTA)
RADIUS = Bound.given(1.2)
ASKED = STEPS + 1


def hold_clipped(m=150, n=N):
    return split(np.clip(np.random.default_rng(0).normal(size=(m, 3)) * 0.7, -1.5, 1.5), n)


def coins(party):
    return SeededCoins(5, f"noise {party}")


def in_shares(**parameters):
    return secfc.NoiseInShares(**{"budget": BUDGET, "radius": RADIUS, **parameters})


def run_noisy(disclosure, data=None, **settings):
    shared = {"k": K, "t": T, "max_iter": STEPS, "bound": 1.5, "coins": coins}
    return cluster(data or hold_clipped(), disclosure, **{**shared, **settings})


def bodies(result, kind):
    """Messages of a kind by round and sender."""
    out = {}
    for e in result.transcript.envelopes:
        if e.kind == kind:
            out.setdefault(e.round, {})[e.sender] = e.body
    return out


def questions(result):
    """For every question: its labels, and what the server decodes of the replies, (k, m) integers."""
    asked, replies = bodies(result, "DistanceQuery"), bodies(result, "CodedDistances")
    for number in sorted(asked):
        labels = next(iter(asked[number].values())).labels.astype(np.int32)
        values = {result.plan.clients.index(c): m.values for c, m in replies[number].items()}
        yield labels, decode_scaled(result.plan.code, values).integers()


def integers(result, data):
    points = result.plan.quantizer(data.stacked())
    assert ((points**2).sum(axis=1) <= result.plan.quantizer.radius**2).all()
    return points


# --- the noise is on what the server gets -----------------------------------------------------------


def noise_of(result, data):
    """All noise on decoded distances in units of its claimed deviation, by column, offsets taken off."""
    points, plan = integers(result, data), result.plan
    disclosure = in_shares()
    noise = disclosure.noise(ReleaseCounts.of(plan), plan.quantizer.radius)
    for labels, decoded in questions(result):
        sizes = cluster_sizes(labels, K).tolist()
        sigma = noise.on_distances(plan.layout, labels, K)
        claimed = disclosure.deviation(plan, labels, K) * plan.quantizer.scale**2
        assert claimed == pytest.approx(float(sigma) * math.sqrt(N))
        exact = scaled_distances(points, labels, K)
        for h in range(K):
            left = decoded[h] - exact[h] - N * noise.offset(sigma) * sizes[h] ** 2
            yield np.array(left / sizes[h] ** 2, float) / (float(sigma) * math.sqrt(N))


def test_the_server_decodes_distances_under_the_noise_of_all_clients():
    data = hold_clipped()
    columns = list(noise_of(run_noisy(in_shares(), data), data))
    assert len(columns) == ASKED * K
    # A Kolmogorov-Smirnov test at 1e-6, and one of the variance, which notices 15 % too little noise.
    together = np.concatenate(columns)
    assert stats.kstest(together, "norm").pvalue > 1e-6
    variance = stats.chi2(len(together))
    assert 1e-6 < variance.cdf((together**2).sum()) < 1 - 1e-6
    assert variance.cdf(((together * 0.85) ** 2).sum()) < 1e-6
    # Every column has the same deviation: of 150 normals five standard errors.
    for column in columns:
        assert abs(column.std() - 1) < 5 / math.sqrt(2 * len(column))
    # Columns, and questions, have noises of their own.
    for a, b in itertools.combinations(columns, 2):
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / math.sqrt(len(a))


@pytest.mark.parametrize("ell", [1, 2])
def test_without_much_noise_the_labels_are_the_exact_ones(ell):
    # An absurd budget leaves noise of a few steps in thousands: everything else must be exact.
    data = hold_clipped()
    policy = in_shares(budget=Budget(1e12, DELTA), radius=Bound.given(3.0))
    result = run_noisy(policy, data, ell=ell, reveal_centers=True, max_iter=20)
    plain = secfc.fit(
        secfc.SecFC(
            k=K,
            threshold=secfc.Threshold(T, ell),
            init=secfc.RandomLabels(),
            max_iter=20,
            release=secfc.Release(reveal_centers=True),
        ),
        data,
        bound=1.5,
    )
    assert np.array_equal(result.flat, plain.flat)
    assert result.cost is None  # what is known of it has noise
    assert np.allclose(result.centers, plain.centers, atol=1e-3)


def test_noise_is_wider_for_clients_and_for_smaller_budgets():
    labels, layout = np.arange(150) % K, PublicOwnerLayout((30,) * 5)

    def width(**parameters):
        policy = in_shares(**parameters)
        steps = ReleaseCounts(5, 2, K, ASKED, 0)
        return policy.noise(steps, 100).on_distances(layout, labels, K)

    base = width()
    assert width(budget=Budget(1.0, DELTA)) > 1.8 * base
    assert width(neighbors=Neighbors("replace", "client")) > 5 * base
    # Each of three honest clients adds a third of the variance, each of two a half.
    assert width(absent=1) == pytest.approx(base * math.sqrt(3 / 2), rel=1e-9)


# --- centers ---------------------------------------------------------------------------------------


def test_opened_centers_carry_their_noise():
    data = hold_clipped(m=60)
    errors = []
    for seed in range(12):
        labels = np.random.default_rng(seed).integers(0, K, 60)
        # The last labels differ from the first; what is opened belongs to them.
        way = in_shares()
        start = secfc.GivenLabels(labels)
        result = secfc.fit(
            secfc.SecFC(k=K, threshold=T, max_iter=1, disclosure=way, init=start,
                        release=secfc.Release(reveal_centers=True)),
            data, bound=1.5, coins=lambda c, s=seed: SeededCoins(s, f"noise {c}"),
        )  # fmt: skip
        plan = result.plan
        noise = way.noise(ReleaseCounts.of(plan), plan.quantizer.radius)
        sigma = float(noise.on_sums(plan.layout, result.flat, K, 3)) * math.sqrt(plan.code.n)
        points, sizes = plan.quantizer(data.stacked()), cluster_sizes(result.flat, K)
        for h in np.flatnonzero(sizes):
            exact = points[result.flat == h].sum(axis=0)
            errors += ((result.centers[h] * plan.quantizer.scale * sizes[h] - exact) / sigma).tolist()
        assert np.isnan(result.centers[sizes == 0]).all()
    assert stats.kstest(errors, "norm").pvalue > 1e-6
    assert stats.kstest(np.array(errors) * 0.4, "norm").pvalue < 1e-4


# --- ledgers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("centers", [False, True])
def test_ledgers_spend_the_budget_and_name_the_views(centers):
    shares = run_noisy(in_shares(), reveal_centers=centers).ledger
    for view in (EVERYBODY, SERVER, {SERVER, "client-0"}):
        assert shares.epsilon(DELTA, view) == pytest.approx(2.0, rel=1e-5)
        assert shares.epsilon(DELTA, view) <= 2.0
    assert str(shares.neighbors) == "replace one data point"


def test_ledger_totals_equal_a_composition_by_hand():
    result = run_noisy(in_shares(center_share=0.19), reveal_centers=True)
    z = gaussian_multiplier(BUDGET)
    # Three questions share 0.81 of the budget: 0.27 each.
    by_hand = Composed((*[Gaussian(z / math.sqrt(0.27))] * ASKED, Gaussian(z / math.sqrt(0.19))))
    assert result.ledger.epsilon(DELTA) == pytest.approx(epsilon(by_hand, DELTA), rel=1e-4)
    (entry,) = run_noisy(in_shares()).ledger.entries
    # Summed noise is a rounding of a continuous one, of 3.6 steps less variance.
    whole = [e.honest * e.sigma**2 for e in entry.event.events]
    by_hand = [
        Gaussian(math.sqrt((s - 3.6) / s * (N - T)) * e.each)
        for s, e in zip(whole, entry.event.events, strict=True)
    ]
    assert epsilon(Composed(tuple(by_hand)), DELTA) == pytest.approx(2.0, rel=1e-4)
    assert sum(e.multiplier**-2 for e in entry.event.events) == pytest.approx(z**-2, rel=1e-4)
    assert all(e.honest == N - T for e in entry.event.events)


def test_an_exact_run_costs_everything():
    plain = run_noisy(secfc.Distances())
    assert plain.ledger.epsilon(DELTA) == math.inf
    leaked = run_noisy(in_shares(radius=Bound.from_private(1.2, leak=True)))
    assert leaked.ledger.epsilon(DELTA) == math.inf


# --- refusals, before any data is touched -----------------------------------------------------------


class Untouchable(secfc.Federation):
    """Points that must not be read."""


def plan_of(disclosure, *, derived=False, bound=1.5, **parameters):
    """Plans from public facts alone: there is no data to touch."""
    public = secfc.algorithm.PublicFacts(tuple(f"c{i}" for i in range(N)), (20,) * N, 3, bound, derived)
    return build_algorithm(secfc.SecFC, **{"k": K, "t": T, "disclosure": disclosure, **parameters}).plan(
        public
    )


def test_over_budget_runs_are_refused_before_any_data(monkeypatch):
    assert plan_of(in_shares()).quantizer.radius
    with monkeypatch.context() as patch:
        patch.setattr(
            "secfc.disclosure.noise.in_shares.discrete_multiplier",
            lambda *given: 0.99 * discrete_multiplier(*given),
        )
        with pytest.raises(OverBudget, match="more than the budget of epsilon=2"):
            plan_of(in_shares())
    # On a grid too coarse for it the noise would be less private than it looks.
    with pytest.raises(ValueError, match="scale"):
        plan_of(in_shares(budget=Budget(1e9, DELTA)), scale=1.0)


def test_what_noise_does_not_cover_is_refused():
    with pytest.raises(PrivacyError, match="read off the private data"):
        plan_of(in_shares(), derived=True)
    with pytest.raises(secfc.InputError, match="read off the private data"):
        run_noisy(in_shares(), bound=None)
    for init in (secfc.KMeansPlusPlus(), secfc.RandomPoints(), secfc.CenterSeparation()):
        with pytest.raises(PrivacyError, match="distances of its own"):
            plan_of(in_shares(), init=init)
    with pytest.raises(PrivacyError, match="are replaced"):
        plan_of(in_shares(neighbors=Neighbors("add/remove")))
    with pytest.raises(ValueError, match="center_share"):
        in_shares(center_share=1.0)
    with pytest.raises(ValueError, match="keeps no model"):
        run_noisy(in_shares()).predict(hold_clipped())


def test_noise_needs_somebody_honest():
    with pytest.raises(ValueError, match="leave nobody"):
        plan_of(in_shares(absent=N - T))
    with pytest.raises(PrivacyError, match="let more consent"):
        plan_of(in_shares(), reveal_centers=("c0", "c1", "c2"))


# --- vanishing clients -----------------------------------------------------------------------------


def vanishing(name, recipients):
    """`name` sends its noise to these only, in the first question, and is not heard again."""

    def faults(e):
        if e.sender != name or e.kind not in ("NoiseShares", "CodedDistances"):
            return (e,)
        return (e,) if e.kind == "NoiseShares" and e.recipient in recipients else ()

    return faults


@pytest.mark.parametrize("heard_by", [(), ("client-0", "client-2"), tuple(f"client-{i}" for i in range(5))])
def test_a_client_may_vanish_while_it_deals_noise(heard_by):
    data = hold_clipped()
    faults = vanishing("client-6", heard_by)
    result = run_noisy(in_shares(absent=1), data, faults=faults)
    assert result.ledger.epsilon(DELTA, SERVER) <= 2.0
    # Those who lack a share say so instead of replying; the question is put anew to the others.
    again = sorted(bodies(result, "DistanceQuery").items())
    assert again[0][1][SERVER].responders.size == N
    assert again[-1][1][SERVER].responders.size == N - 1
    with pytest.raises(TooFewReplies):
        run_noisy(in_shares(), data, faults=faults)


def test_a_client_may_vanish_while_it_shares():
    def faults(e):
        return () if e.sender == "client-6" and e.kind != "Hello" and e.recipient != "client-0" else (e,)

    result = run_noisy(in_shares(absent=1), faults=faults)
    assert result.excluded == ("client-6",)
    assert result.ledger.epsilon(DELTA, SERVER) <= 2.0
    assert all(q[SERVER].responders.size == N - 1 for q in bodies(result, "DistanceQuery").values())


def test_a_question_with_too_little_noise_is_not_answered():
    def faults(e):
        if e.kind == "DistanceQuery":
            few = np.arange(N - 1, dtype=np.int32)
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, responders=few)),)
        return (e,)

    with pytest.raises(FaultyServer, match="less noise than was agreed"):
        run_noisy(in_shares(), faults=faults)


# --- views -----------------------------------------------------------------------------------------


REPLIES = kinds(N, T, [SERVER])["received"] | {"Hello": N, "CodedCenters": N}
HEARD = kinds(N, T, ["client-1"])["received"] | {
    "Hello": N, "RowShares": N - 1, "DistanceQuery": ASKED, "RevealCenters": 1, "FinalResult": 1,
}  # fmt: skip
# Replies with noise come from all who deal it.
GOLDEN = {
    SERVER: REPLIES | {"CodedDistances": N * ASKED},
    "client-1": HEARD | {"NoiseShares": (N - 1) * (ASKED + 1)},
}


def test_golden_kinds_of_messages():
    result = run_noisy(in_shares(), reveal_centers=True)
    received = {SERVER: Counter(), "client-1": Counter()}
    for e in result.transcript.envelopes:
        if e.recipient in received:
            received[e.recipient][e.kind] += 1
    assert received == GOLDEN


@pytest.mark.parametrize(("n", "ell", "t"), [(3, 1, 1), (4, 1, 1), (3, 2, 0)])
def test_dealt_noise_is_hidden_from_any_t_clients_and_from_less_than_a_threshold(n, ell, t):
    p = 7
    code = LagrangeCode(Basis((p,)), n, ell, t)
    free = code.threshold(2) - 1

    def law(total, seen):
        counts = Counter()
        for values in itertools.product(range(p), repeat=free):
            shares = deal_blinding(code, 1, (1,), ScriptedCoins(values), np.array([[total]], np.uint32))
            counts[tuple(int(shares[j][0, 0]) for j in seen)] += 1
        return counts

    for seen in itertools.combinations(range(n), max(t, 1)):
        if len(seen) <= t:
            assert all(law(total, seen) == law(0, seen) for total in range(1, p))
    # Control: a whole threshold does tell.
    everybody = tuple(range(code.threshold(2)))
    assert law(1, everybody) != law(0, everybody)


# --- an audit of what the server decodes -----------------------------------------------------------


def test_an_audit_confirms_the_noise_on_distances_and_catches_a_fifth_of_it():
    # A cluster of one point, at the end of the ball far from all others, and then among them.
    labels, layout, basis = (
        np.array([0, *np.arange(7) % 2 + 1]),
        PublicOwnerLayout((8,)),
        Basis(LANE_PRIMES[:2]),
    )
    points = np.full((8, 2), [-50, 0])
    other = points.copy()
    points[0] = [50, 0]
    squares = cluster_sizes(labels, K)[:, None] ** 2
    ends = [scaled_distances(p, labels, K) for p in (points, other)]
    gap = ((ends[0] - ends[1]) / squares**2).astype(float)
    z, stream = 3.0, coins("audit")

    def scores(noise, exact):
        added = noise.draw_distances(basis, layout, labels, K, coins=stream)
        return float((basis.lift(basis.add(basis.reduce(exact), added)) * gap).sum())

    for weaker, caught in ((1, False), (5, True)):
        noise = Noise(discrete_gaussian, Neighbors("replace"), 50, z / weaker, 1.0)
        present, absent = (np.array([scores(noise, exact) for _ in range(1500)]) for exact in ends)
        finding = many_runs(present, absent, delta=DELTA, alarm=1e-5)
        claim = DistributedDiscreteGaussian(z, 4 * z * 50**2, 1, 24)
        assert finding.refutes(claim) == caught


def sparing(policy, factor):
    """The policy with its noise divided by a factor, which claims what it should have been."""

    class Sparing(policy):
        def noise(self, steps, radius):
            wide = super().noise(steps, radius)
            return dataclasses.replace(wide, distances=wide.distances / factor, sums=wide.sums / factor)

        def released(self, plan):
            fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(policy)}
            return policy(**fields).released(plan)

    return Sparing


@pytest.mark.parametrize(
    ("unit", "own"),
    [*by_night(("data point", 1)), ("client", 2)],
)
def test_an_audit_of_whole_runs_confirms_the_claim_and_catches_too_little_noise(unit, own):
    # The first point, or both of the first client, are at one end or at the other: which center is nearer,
    # and where the centers are, tells.  Both scores see what everybody sees; each finding is false with
    # probability 1e-3 at most.
    others = [1.0, 1, -1, -1, -1][own - 1 :]
    ends = [
        secfc.Federation.from_arrays(np.split(np.array([end] * own + others)[:, None], 3)) for end in (-1, 1)
    ]
    labels = np.array([0, 0, 0, 1, 1, 1])
    claim, runs = Budget(0.5, DELTA), short(40, nightly=60)

    def scores(disclosure, planted, number):
        way = secfc.SecFC(
            k=2, threshold=1, max_iter=1, disclosure=disclosure,
            release=secfc.Release(reveal_centers=True, smallest_center=1), init=secfc.GivenLabels(labels),
        )  # fmt: skip
        result = secfc.fit(
            way, ends[planted], bound=1.0, coins=lambda party: SeededCoins(number, f"audit {party}")
        )
        if number < 2:
            assert result.ledger.epsilon(DELTA) == pytest.approx(0.5, rel=1e-4)
        at = int(result.flat[0])
        # The sum of the canary's cluster holds it, whatever else it holds.
        return float(at == 0), float(result.centers[at, 0] * (result.flat == at).sum())

    for factor, caught in ((1, False), (1000, True)):
        disclosure = sparing(secfc.NoiseInShares, factor)(
            claim, radius=Bound.given(1.0), neighbors=Neighbors("replace", unit), center_share=0.5
        )
        seen = np.array([[scores(disclosure, side, 2 * i + side) for i in range(runs)] for side in (0, 1)])
        for what in range(2):
            finding = many_runs(seen[1, :, what], seen[0, :, what], delta=DELTA, alarm=1e-3)
            assert (finding.epsilon > claim.epsilon) == caught


def test_the_deviation_of_noise_on_a_column_is_what_the_sampler_holds():
    noise = Noise(discrete_gaussian, Neighbors("replace"), 50, 3.0, 1.0)
    labels = np.arange(9) % K
    sigma = noise.on_distances(PublicOwnerLayout((9,)), labels, K)
    assert Deviation.at_least(sigma * 9).value >= sigma * 9
    with pytest.raises(ValueError, match="lower the scale"):
        Noise(discrete_gaussian, Neighbors("replace"), 2**52, 2.0**20, 1.0).draw_distances(
            Basis(LANE_PRIMES[:3]), PublicOwnerLayout((9,)), labels, K, coins=coins("wide")
        )
