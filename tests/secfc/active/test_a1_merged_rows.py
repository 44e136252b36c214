"""Rows that several clients hold: exact when merged, and harmless when a holder shares other data."""

import dataclasses
import math
from collections import Counter
from math import gcd
from unittest import mock

import numpy as np
import pytest

import psu
import secfc
from field.code import range_check
from psu import merge
from secfc.coded import input_check
from secfc.coded import membership as hidden
from secfc.coded.membership import Private
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.coded_kmeans.algorithm1 import complete_plan
from secfc.data.inputs import build_algorithm
from secfc.disclosure.checked.products import HolderCheck
from secfc.disclosure.compare.candidates import NearestCenter
from secfc.errors import (
    DisputedRows,
    FaultyServer,
    PlanMismatch,
    RowsRefused,
    SuspectedParties,
    TooManyHolders,
    UnionFailed,
)
from secfc.kmeans import starts
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.kmeans.starts import KMeansPlusPlus, RandomLabels
from secfc.privacy import Bound, Budget
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short
from tests.secfc.active.deviating import BOUND, deviate, forced, shameless
from tests.small import same_runs

DEVIATING, FEATURE, N = "client-4", 1, 5
MODES = [psu.Committee(1), psu.Server()]


def holding(counts, n=N, d=3, seed=1):
    """n clients, point x with counts[x] of them; and the points."""
    rng = np.random.default_rng(seed)
    points = np.round(rng.uniform(-BOUND, BOUND, (len(counts), d)) * 64) / 64
    held = [[x for x, c in enumerate(counts) if (j - x) % n < c] for j in range(n)]
    names = [[f"patient {x}" for x in part] for part in held]
    return secfc.Federation.from_arrays([points[part] for part in held], ids=names), points


def way(policy=secfc.AssignmentsOnly(), merge=True, mode=None, **options):  # noqa: B008 - a frozen value
    membership = Private(mode, sized=False, bound=512, merge=merge, counts="opened")
    chosen = {"k": 2, "t": 1, "max_iter": 3, **options}
    return build_algorithm(
        secfc.SecFC, **{"init": secfc.RandomLabels(), **chosen}, disclosure=policy, membership=membership
    )


@pytest.fixture(autouse=True)
def _deviates_as_well_as_it_can(monkeypatch):
    """Where no mask hides what a client shares, it announces those that hide the most of it."""
    monkeypatch.setattr(input_check, "select_masks", shameless)
    monkeypatch.setattr(input_check, "project_integers", forced)


def dividing(held, basis):
    """What rows were multiplied by: the inverse modulo P of how many clients hold them."""
    inverse = [[0, *(pow(c, -1, p) for c in range(1, N + 1))] for p in basis.primes]
    return np.array(inverse, basis.dtype)[:, held]


def divide(monkeypatch):
    monkeypatch.setattr(merge, "row_factors", dividing)


def in_row_order(outcome, federation, values):
    """values (m_j, ...) of each client's points in the order of rows; the last holder's where several are."""
    rows = {c: outcome.results[c].rows for c in federation.names}
    out = np.zeros((1 + max(int(r.max()) for r in rows.values()), *values[0].shape[1:]), np.int64)
    for party, value in zip(federation.parties, values, strict=True):
        out[rows[party.name]] = value
    return out


def plaintext(labels, k, max_iter, integers):
    """Lloyd's heuristic on integers (m, d)."""
    role = lloyd(labels.astype(np.int32), k, max_iter, PlainSource(np.ascontiguousarray(integers, np.int64)))
    try:
        next(role)
    except StopIteration as done:
        return done.value
    raise AssertionError


def modulus_of(result):
    """The modulus in which the first step compared distances."""
    plan, sizes = result.plan, np.bincount(result.trace.history[0], minlength=2)
    primes = plan.code.basis.primes
    return math.prod(primes[: NearestCenter(sizes).contest.lanes(primes, plan.d, plan.proven)])


def borders(outcome, deviating, value, integers):
    """How often labels change around the circle that theta + phi x makes of a feature of honest rows.

    value: of the first of the deviating client's rows, in that feature.  Where labels are a bit of theta +
    phi x there are 0 or 2.
    """
    result, rows = outcome.results[SERVER], outcome.results[deviating].rows
    first, second = result.trace.history[:2]
    sizes, own = np.bincount(first, minlength=2).tolist(), int(first[rows[0]])
    weight = sizes[1 - own] ** 2 * sizes[own] // gcd(*sizes) ** 2
    honest = np.setdiff1d(np.arange(len(first)), rows)
    angles = 2 * weight * value * integers[honest, FEATURE].astype(object) % modulus_of(result)
    around = np.asarray(second)[honest][np.argsort(angles)]
    return int((around != np.roll(around, 1)).sum())


# --- one holder shares other data than the others ------------------------------------------------------

THREE = [3, *[1] * 40]  # point 0 is held by clients 0, 1 and 2


def one_more(plan, mine):
    """What an honest client shares, but for one step more in one feature of its first row."""
    out = mine.read(0, plan.m).astype(object)
    out[mine.rows[0], FEATURE] += 1
    return out


def dealt(federation, seed):
    """A run in which client 0 shares x + 1 where clients 1 and 2 share x, which it says it has as well."""
    return deviate(way(), federation, one_more, deviating="client-0", seed=seed)


def integers_of(outcome, federation):
    quantizer = outcome.results[SERVER].plan.quantizer
    return in_row_order(outcome, federation, [quantizer(p.read()) for p in federation.parties])


def test_a_third_of_a_step_shows_remainders_of_everybodys_feature_where_rows_are_divided(monkeypatch):
    divide(monkeypatch)
    federation, _ = holding(THREE)
    found = []
    for seed in range(24):
        outcome = dealt(federation, seed)
        first = outcome.results[SERVER].trace.history[0]
        # A weight that three divides takes the third away.
        if (np.bincount(first) % 3).all():
            third = pow(3, -1, modulus_of(outcome.results[SERVER]))
            found.append(borders(outcome, "client-0", third, integers_of(outcome, federation)))
    assert set(found) == {2}
    assert len(found) >= 3


def test_a_holder_that_shares_other_data_makes_another_mean_and_nothing_wraps():
    federation, _ = holding(THREE)
    for seed in range(8):
        outcome = dealt(federation, seed)
        result, row = outcome.results[SERVER], int(outcome.results["client-0"].rows[0])
        rows = 3 * integers_of(outcome, federation)
        rows[row, FEATURE] += 1  # the mean of x + 1, x and x, times 3
        expected = plaintext(result.trace.history[0], 2, 3, rows)
        assert result.plan.layout.multiple == 3
        assert same_runs(result.trace, expected)


@pytest.mark.parametrize("merge", [True, False])
def test_far_rows_are_refused_though_nobody_is_named(monkeypatch, merge):
    federation, _ = holding([2 if merge else 1] + [1] * 39)
    for seed in range(2):
        with pytest.raises(RowsRefused):
            deviate(way(merge=merge), federation, far, deviating=DEVIATING, seed=seed)
    monkeypatch.setattr(range_check, "within_bound", lambda code, pattern, told: True)
    found = []
    for seed in range(24):  # starts of which some show the exploit
        outcome = deviate(way(merge=merge), federation, far, deviating=DEVIATING, seed=seed)
        plan, row = outcome.results[SERVER].plan, int(outcome.results[DEVIATING].rows[0])
        value = plan.layout.multiple**2 * int(far(plan, outcome.results[DEVIATING])[row, FEATURE])
        found.append(borders(outcome, DEVIATING, value, integers_of(outcome, federation)))
        if found.count(2) == 3:
            break
    assert set(found) <= {0, 2}
    assert found.count(2) == 3


@pytest.mark.nightly
@pytest.mark.parametrize("merge", [True, False])
def test_far_rows_are_refused_in_every_run(merge):
    federation, _ = holding([2 if merge else 1] + [1] * 39)
    for seed in range(100):
        with pytest.raises(RowsRefused):
            deviate(way(merge=merge), federation, far, deviating=DEVIATING, seed=seed)


def far(plan, mine):
    """Zeros, but for one value so far off that differences of distances wrap around."""
    s = plan.m // 2
    out = np.zeros((plan.m, 3), object)
    out[mine.rows[0], FEATURE] = plan.code.basis.modulus // (s**3 * plan.quantizer.max_int)
    return out


# --- exactness ------------------------------------------------------------------------------------------

COUNTS = [1, 2, 3, 2, 1, 3] * 6


def expected_of(result, federation, **options):
    """Plaintext Lloyd on the union, each point once, at the same scale and from the same start."""
    points = np.full((len(result.history[0]), federation.d), np.nan)
    for rows, party in zip(result.rows, federation.parties, strict=True):
        points[rows] = party.points
    plain = build_algorithm(
        secfc.Lloyd,
        k=result.k,
        scale=result.plan.quantizer.scale,
        **{"init": secfc.RandomLabels(), "max_iter": 3, **options},
    )
    return secfc.fit(plain, secfc.Federation.from_arrays([points]), bound=BOUND)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "policy",
    [secfc.Distances(), secfc.AssignmentsOnly(), secfc.AssignmentsOnly(dealer=None), secfc.FinalLabelsOnly()],
    ids=lambda policy: type(policy).__name__ + ("-undealt" if getattr(policy, "dealer", 1) is None else ""),
)
def test_labels_costs_and_centers_are_those_of_the_points(policy, mode):
    federation, _ = holding(COUNTS)
    algorithm = way(policy, mode=mode, k=3, reveal_centers=True, smallest_center=1)
    result = secfc.fit(algorithm, federation, bound=BOUND)
    expected = expected_of(result, federation, disclosure=secfc.Distances())
    assert result.plan.layout.multiple == 6
    assert (result.history[-1] == expected.history[-1]).all()
    if not isinstance(policy, secfc.FinalLabelsOnly):
        assert all((a == b).all() for a, b in zip(result.history, expected.history, strict=True))
    assert np.array_equal(result.centers, expected.centers, equal_nan=True)
    if isinstance(policy, secfc.Distances):
        assert result.cost == expected.cost


def test_starts_and_restarts_choose_as_on_the_points(monkeypatch):
    # A draw rounds distances to floats, which must not depend on the multiple.
    federation, _ = holding(COUNTS)
    draw, weights = starts._draw_proportional, []
    noted = lambda gaps, *rest: weights.append(gaps.tolist()) or draw(gaps, *rest)  # noqa: E731
    monkeypatch.setattr(starts, "_draw_proportional", noted)
    options = {"init": KMeansPlusPlus(), "n_init": 3}
    algorithm = way(secfc.AssignmentsOnly(consent=True), k=4, **options)
    for seed in range(3):
        result = secfc.fit(algorithm, federation, seed=seed, bound=BOUND)
        points = np.zeros((len(COUNTS), 3))
        for rows, party in zip(result.rows, federation.parties, strict=True):
            points[rows] = party.points
        plain = build_algorithm(secfc.Lloyd, k=4, max_iter=3, scale=result.plan.quantizer.scale, **options)
        drawn, weights[:] = weights[:], []
        expected = secfc.fit(plain, secfc.Federation.from_arrays([points]), seed=seed, bound=BOUND)
        assert all((a == b).all() for a, b in zip(result.history, expected.history, strict=True))
        assert len(drawn) > 1
        assert drawn == weights
        weights.clear()


@pytest.mark.parametrize("policy", [secfc.Distances(), secfc.AssignmentsOnly()], ids=["shown", "hidden"])
def test_new_points_are_compared_with_the_same_centers(policy, monkeypatch):
    federation, _ = holding(COUNTS)
    result = secfc.fit(way(policy, k=3), federation, bound=BOUND)
    expected = expected_of(result, federation)
    new = secfc.Federation.from_arrays(np.random.default_rng(5).uniform(-BOUND, BOUND, (N, 12, 3)))
    pooled = secfc.Federation.from_arrays([np.concatenate([p.points for p in new.parties])])
    wanted = expected.predict(pooled)[0]
    assert (np.concatenate(result.predict(new)) == wanted).all()
    # Broken: new rows are left as they are, and retained centers six times as far out.
    monkeypatch.setattr("secfc.coded_kmeans.predict.scale_rows", lambda rows, factors: None)
    assert (np.concatenate(result.predict(new)) != wanted).any()


def test_what_a_server_decodes_is_read_in_data_units():
    federation, _ = holding(COUNTS)
    result = secfc.fit(way(secfc.Distances()), federation, bound=BOUND, keep_bodies=True)
    seen = DecodedView.of(result, result.plan, SERVER)
    question = next(iter(seen.questions()))
    points = np.zeros((len(COUNTS), 3))
    quantizer = result.plan.quantizer
    for rows, party in zip(result.rows, federation.parties, strict=True):
        points[rows] = quantizer(party.points) / quantizer.scale
    centers = np.stack([points[question.labels == h].mean(axis=0) for h in range(2)])
    wanted = ((points - centers[:, None]) ** 2).sum(axis=2)
    assert seen.distances(question) == pytest.approx(wanted)


def test_noise_grows_with_the_rows_it_covers():
    budget, radius = Budget(2.0, 1e-5), Bound.given(2 * BOUND)
    federation, _ = holding(COUNTS)
    alone, _ = holding([1] * len(COUNTS))
    algorithm = way(secfc.NoiseInShares(budget, radius), init=RandomLabels(), scale=16.0, reveal_centers=True)
    merged, single = (secfc.fit(algorithm, fed, bound=BOUND) for fed in (federation, alone))
    labels = np.arange(len(COUNTS), dtype=np.int32) % 2
    noises = [
        r.plan.terms.way.disclosure.noise(algorithm.disclosure.steps(r.plan), r.plan.radius)
        for r in (merged, single)
    ]
    assert [r.plan.layout.multiple for r in (merged, single)] == [6, 1]
    for degree, wide in ((2, "on_distances"), (1, "on_sums")):
        more = (3,) if degree == 1 else ()
        six, one = (
            float(getattr(noise, wide)(r.plan.layout, labels, 2, *more))
            for noise, r in zip(noises, (merged, single), strict=True)
        )
        # Of noise in steps six times as fine a little less is a rounding: 3.6 steps of its variance.
        assert six == pytest.approx(6**degree * one, rel=1e-4)
        assert six <= 6**degree * one * (1 + 1e-9)
    merged, single = (algorithm.disclosure.deviation(r.plan, labels, 2) for r in (merged, single))
    assert merged == pytest.approx(single, rel=1e-4)


def test_centers_under_noise_are_in_data_units(monkeypatch):
    # Without the noise itself, which would hide a factor.
    monkeypatch.setattr(
        "secfc.disclosure.noise.noise.wide_noise",
        lambda sampler, sigma, shape, basis, *, coins: basis.reduce(np.zeros(shape, np.int64)),
    )
    federation, points = holding(COUNTS)
    policy = secfc.NoiseInShares(Budget(2.0, 1e-5), Bound.given(2 * BOUND))
    result = secfc.fit(
        way(policy, k=1, init=RandomLabels(), scale=64.0, reveal_centers=True), federation, bound=BOUND
    )
    assert result.centers[0] == pytest.approx(points.mean(axis=0))


# --- counts ---------------------------------------------------------------------------------------------


def telling_another_order(envelope):
    """A server that tells client 1 the counts of the rows in the opposite order."""
    if (envelope.kind, envelope.recipient) != ("Multiplicities", "client-1"):
        return (envelope,)
    body = dataclasses.replace(envelope.body, held=envelope.body.held[::-1].copy())
    return (dataclasses.replace(envelope, body=body),)


@pytest.mark.parametrize("mode", MODES)
def test_clients_that_are_told_different_counts_share_nothing(mode, monkeypatch):
    federation, _ = holding([1, 2, 3, 3, 2, 3, 1, 2, 1, 1, 1, 1])
    algorithm, kinds = way(secfc.Distances(dealt=True), mode=mode), []

    def network(envelope):
        kinds.append(envelope.kind)
        return telling_another_order(envelope)

    with pytest.raises(PlanMismatch, match=r"plan\.layout\.held") as caught:
        secfc.fit(algorithm, federation, faults=network, bound=BOUND)
    assert "client-1" in caught.value.differing or len(caught.value.differing) == N
    assert "RowShares" not in kinds
    # Broken: the plan says nothing of the counts.  Nobody notices, and labels are wrong.
    monkeypatch.setattr(hidden, "multiplicity_digest", lambda held: b"")
    wrong = secfc.fit(algorithm, federation, faults=network, bound=BOUND)
    expected = expected_of(wrong, federation)
    assert (wrong.history[1] != expected.history[1]).any()


def test_no_row_has_more_holders_than_there_are_clients():
    def more(e):
        if e.kind == "Multiplicities":
            held = e.body.held + np.uint16(N)
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, held=held))
        return (e,)

    with pytest.raises(FaultyServer, match=r"or more than there are"):
        secfc.fit(way(secfc.Distances(dealt=True)), holding(COUNTS)[0], faults=more, bound=BOUND)


@pytest.mark.parametrize("mode", MODES)
def test_counts_that_are_misstated_to_all_alike_make_other_integers(mode, monkeypatch):
    federation, _ = holding([3, 2, *[1] * 40])
    counts = merge.count_holders

    def misstated(values, n):
        held = counts(values, n)
        said.append(np.where(held == 3, 2, np.where(held == 2, 3, held)))
        true.append(held)
        return said[-1]

    said, true = [], []
    monkeypatch.setattr(merge, "count_holders", misstated)
    outcome = deviate(
        way(mode=mode), federation, lambda plan, mine: mine.read(0, plan.m), deviating=DEVIATING
    )
    result = outcome.results[SERVER]
    rows = integers_of(outcome, federation) * (true[0] * (6 // said[0]))[:, None]
    assert result.plan.layout.multiple == 6
    assert same_runs(result.trace, plaintext(result.trace.history[0], 2, 3, rows))
    # Where rows are divided, remainders of these counts wrap.
    divide(monkeypatch)
    outcome = deviate(
        way(mode=mode), federation, lambda plan, mine: mine.read(0, plan.m), deviating=DEVIATING
    )
    rows = integers_of(outcome, federation) * (true[-1] * (6 // said[-1]))[:, None]
    result = outcome.results[SERVER]
    assert not same_runs(result.trace, plaintext(result.trace.history[0], 2, 3, rows))


def test_holders_that_disagree_are_still_found_before_anything_is_computed():
    federation, _ = holding(THREE)
    first = federation.parties[0]
    changed = first.points.copy()
    changed[0, 0] = -changed[0, 0] - 1
    broken = secfc.Federation((dataclasses.replace(first, points=changed), *federation.parties[1:]))
    with pytest.raises(DisputedRows):
        secfc.fit(way(), broken, bound=BOUND)


def test_counts_whose_multiple_does_not_fit_are_refused_with_the_numbers():
    n = 11
    federation, _ = holding([*range(1, n + 1), *[1] * 60], n=n)
    with pytest.raises(TooManyHolders, match=r"27720-fold.*lower the scale.*Give what several") as caught:
        secfc.fit(way(scale=2.0**21), federation, bound=BOUND)
    assert (caught.value.counts, caught.value.multiple) == (tuple(range(1, n + 1)), 27720)
    fewer, _ = holding([n, n - 1, *[1] * 60], n=n)
    assert secfc.fit(way(scale=2.0**20), fewer, bound=BOUND).plan.layout.multiple == 110
    # With a scale of its own choice a run takes what room there is.
    draft = way().plan(secfc.algorithm.PublicFacts.of(federation, BOUND))
    assert complete_plan(way(), draft, np.arange(1, n + 1)).layout.multiple == 27720
    with pytest.raises(TooManyHolders, match=r"\d+ integer steps between 0 and the bound"):
        complete_plan(way(), draft, np.arange(1, 24))
    # What does not fit in any case is no matter of holders.
    with pytest.raises(ValueError, match=r"k=99 clusters of m=71"):
        secfc.fit(way(k=99), federation, bound=BOUND)


# --- holders that are counted unseen ---------------------------------------------------------------------


def unseen(lie, faults=lambda e: (e,)):
    """A run whose counts are hidden, client 4 of which lies; and what all were told of rows, and of labels.

    lie: of its indicators (m,), what it deals instead.
    """
    federation, _ = holding([1, 2, 3, 1, 2, 1, 3, 2] * 3)
    kept, told, count, verify = {}, Counter(), HolderCheck.count, HolderCheck.verify

    def counted(self, number, held):
        return count(self, number, lie(held.astype(np.int64)) if self.me == 4 else held)

    def verified(self, read, number, summed, merged):
        kept[self.me] = merged.copy()
        yield from verify(self, read, number, summed, merged)

    def listen(e):
        told[e.kind] += 1
        if e.kind == "DividedRows":
            kept.setdefault("zero", (e.body.inverse == 0).any(axis=0))
        return faults(e)

    membership = Private(sized=False, bound=512, counts="hidden")
    algorithm = secfc.SecFC(2, threshold=2, membership=membership, init=secfc.RandomLabels(), max_iter=2)
    with mock.patch.multiple(HolderCheck, count=counted, verify=verified):
        try:
            return secfc.fit(algorithm, federation, seed=1, bound=BOUND, faults=listen), kept, told
        except (SuspectedParties, UnionFailed) as error:
            return error, kept, told


def foreign(held):
    """It says that it holds all rows."""
    return np.ones_like(held)


def one_foreign(held):
    out = held.copy()
    out[np.flatnonzero(held == 0)[0]] = 1
    return out


def false_masks(kind, field):
    """What it says while rows are divided has one false residue a row, to all alike."""

    def change(e):
        if e.kind != kind or (e.sender != "client-4" and kind != "DivisionShares"):
            return (e,)
        if kind == "DivisionShares" and e.sender != "client-0":
            return (e,)
        values = getattr(e.body, field).copy()
        values[..., -1] = (values[..., -1].astype(np.int64) + 1) % 1073741700
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, **{field: values})),)

    return change


def test_indicators_that_are_none_end_the_run_before_anything_is_divided(monkeypatch):
    for lie in (lambda held: 2 * held, lambda held: -np.ones_like(held))[: short(2, nightly=2)]:
        error, _, told = unseen(lie)
        assert isinstance(error, SuspectedParties)
        assert "rows that clients say they hold do not fit" in str(error)
        assert not told["MaskedRows"]
    # Without the check minus one at all rows shows to everybody which rows one other client holds.
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    error, kept, told = unseen(lambda held: -np.ones_like(held))
    assert isinstance(error, UnionFailed)
    assert 0 < kept["zero"].sum() < len(kept["zero"])


@pytest.mark.parametrize("lie", [foreign, one_foreign])
def test_who_says_that_it_holds_a_foreign_row_ends_the_run_before_a_label(lie):
    error, _, told = unseen(lie)
    assert isinstance(error, SuspectedParties)
    assert "rows that clients say they hold do not fit" in str(error)
    assert not told["CompareQuery"] + told["LabelShare"]


@pytest.mark.parametrize(
    ("kind", "field"),
    [("MaskedRows", "values"), *by_night(("DivisionShares", "low"), ("DivisionShares", "high"))],
)
def test_a_lie_while_rows_are_divided_ends_the_run_before_a_label(kind, field):
    error, _, told = unseen(lambda held: held, false_masks(kind, field))
    assert isinstance(error, SuspectedParties)
    assert not told["CompareQuery"] + told["LabelShare"]


def test_without_the_check_a_foreign_row_is_divided_by_one_too_many(monkeypatch):
    """Positive control: honest rows become residues of any size, which say whether x is odd."""
    honest, kept, _ = unseen(lambda held: held)
    plan = honest.plan
    integers = plan.quantizer(holding([1, 2, 3, 1, 2, 1, 3, 2] * 3)[1])
    largest = np.abs(integers).max()
    assert np.abs(opened(plan, kept)).max() <= largest
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    wrong, kept, _ = unseen(foreign)
    found = opened(wrong.plan, kept)
    far, modulus = found[(np.abs(found) > largest).any(axis=1)], wrong.plan.code.basis.modulus
    assert len(far) > 3
    for row in far:  # c + 1 times it is c times the data, for the c clients that do hold it
        times = [(c * row + modulus // 2) % modulus - modulus // 2 for c in (2, 3, 4)]
        assert any(np.abs(each).max() <= 3 * largest for each in times)


def opened(plan, kept):
    """The merged rows (m, d), of what all clients hold."""
    values = plan.code.interpolate({j: kept[j] for j in range(plan.code.n)}, 1)
    flat = np.concatenate(list(values.transpose(1, 0, 2, 3)), axis=2)
    return plan.code.basis.lift_signed(flat)[:, : plan.d]


def test_who_adds_to_a_foreign_row_is_noticed_by_its_holders_where_counts_are_hidden():
    """With the positive control: where they are opened nobody holds what became of a row against its data."""
    federation, _ = holding([1] * 12)

    def add(plan, mine):
        out = mine.read(0, plan.m).astype(object)
        out[np.setdiff1d(np.arange(plan.m), mine.rows)[0], FEATURE] += 5
        return out

    for counts in ("opened", "hidden"):
        membership = Private(sized=False, bound=64, counts=counts)
        algorithm = secfc.SecFC(2, threshold=1, membership=membership, init=secfc.RandomLabels(), max_iter=1)
        if counts == "opened":
            assert len(deviate(algorithm, federation, add, deviating="client-0").results) == N + 1
        else:
            with pytest.raises(SuspectedParties, match="rows that clients say they hold do not fit"):
                deviate(algorithm, federation, add, deviating="client-0")


@pytest.mark.parametrize("together", [True, False])
def test_two_that_deviate_hold_a_row_of_theirs_as_half_of_an_odd_number(together):
    """What is not stopped: N passes the test of rows, and both say sums of N / 2, a residue of any size.

    Where one of them alone does so, the run ends.
    """
    federation, _ = holding([2, *[1] * 40])  # point 0 is held by clients 0 and 1
    verify, kept, rows = HolderCheck.verify, {}, {}
    corrected = (0, 1) if together else (0,)

    def shared(plan, mine):
        rows[0] = int(mine.rows[0])
        return one_more(plan, mine)

    def verified(self, read, number, summed, merged):
        basis = self.plan.code.basis

        def halves(first, last):
            out = read(first, last).astype(object)
            # What client 0 shared is one more than what both have.
            twice = 2 * int(out[rows[0], FEATURE]) + 1
            out[rows[0], FEATURE] = twice * pow(2, -1, basis.modulus) % basis.modulus
            return out

        kept[self.me] = merged.copy()
        yield from verify(self, halves if self.me in corrected else read, number, summed, merged)

    membership = Private(sized=False, bound=512, counts="hidden")
    algorithm = secfc.SecFC(2, threshold=2, membership=membership, init=secfc.RandomLabels(), max_iter=2)
    with mock.patch.object(HolderCheck, "verify", verified):
        if not together:
            with pytest.raises(SuspectedParties, match="rows that clients say they hold do not fit"):
                deviate(algorithm, federation, shared, deviating="client-0")
            return
        outcome = deviate(algorithm, federation, shared, deviating="client-0")
    result = outcome.results[SERVER]
    largest = max(np.abs(result.plan.quantizer(p.read())).max() for p in federation.parties)
    found = np.abs(opened(result.plan, kept)).max(axis=1) > largest
    assert np.flatnonzero(found).tolist() == [rows[0]]
