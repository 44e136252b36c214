"""Dealt comparisons: exact at ties and at the edge of the range, uniform to a committee, good for once."""

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from field.code.masking import MaskReused
from field.compare.argmin import ArgminContest
from field.compare.dealer_protocol import DealerSchedule, PartyTables, tree_levels
from field.compare.tournament import Tournament
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.quantize import distance_bound, headroom
from field.secrets.coins import SeededCoins
from tests.field.compare.committee import play, tournament
from tests.oracles import field as reference


def tied(sizes, m, reach, seed):
    """Scaled distances (k, m): a third with ties, a third within 1 of a tie, a third apart; some all zero."""
    rng = np.random.default_rng(seed)
    squares = np.array([s * s for s in sizes], object)[:, None]
    common = np.array([int(x) % reach for x in rng.integers(0, 2**62, m)], object)
    ties = squares * (common + rng.integers(0, 2, (len(sizes), m)))
    near = np.maximum(squares * common + rng.integers(-1, 2, (len(sizes), m)), 0)
    free = squares * (rng.integers(0, 2**62, (len(sizes), m)).astype(object) % reach)
    kind = np.arange(m) % 3
    out = np.where(kind == 0, ties, np.where(kind == 1, near, free))
    out[:, ::17] = 0
    return out


def planned(d, eta, m, largest=None):
    """What the modulus of a plan for comparing exceeds."""
    return distance_bound(headroom(m, largest) * d, eta, largest or m)


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(0, 2**14), min_size=2, max_size=16).filter(any),
    st.integers(1, 200), st.integers(2, 5), st.integers(0, 2**20),
)  # fmt: skip
@example([1, 1], 64, 2, 0)
@example([0, 7, 0, 7, 1], 65, 3, 1)
@example([5] * 16, 129, 2, 2)
@example([2**14, 1, 2**14 - 1], 100, 2, 3)
def test_labels_are_those_of_fractions(sizes, m, members, seed):
    alive = [h for h, s in enumerate(sizes) if s]
    scaled = tied([sizes[h] for h in alive], m, 2**28, seed)
    contest = ArgminContest.nearest(np.array(sizes))
    if contest.outcomes == 1:
        assert contest.labels.tolist() == alive
        return
    full = np.zeros((len(sizes), m), object)
    full[alive] = scaled
    # |u D_b - v D_a| stays below 2**28 (s_a s_b)**2 <= 2**84, doubled.
    got, _ = play(contest, Basis(LANE_PRIMES[:3]), scaled, members, seed)
    assert got.tolist() == reference.nearest(full, sizes)
    apart = full.copy()
    apart[alive[0], 1::2] //= 50  # so that some point is separated
    contest = ArgminContest.separated(np.array(sizes), 9)
    got, _ = play(contest, Basis(LANE_PRIMES[:4]), apart[alive], members, seed)
    assert got.tolist() == reference.separated(apart, sizes, 9)


@pytest.mark.parametrize("k", [2, 3, 5, 6, 7, 16, 27, 64])
def test_any_number_of_clusters(k):
    sizes = np.random.default_rng(k).integers(1, 100, k)
    scaled = tied(sizes.tolist(), 70, 2**20, k)
    got, _ = play(ArgminContest.nearest(sizes), Basis(LANE_PRIMES[:3]), scaled, 2, k)
    assert got.tolist() == reference.nearest(scaled, sizes.tolist())


@pytest.mark.parametrize("k", [9, 10, 16, 17, 33, 64])
@pytest.mark.parametrize("members", [2, 4])
def test_tournaments_of_many_clusters(k, members):
    sizes = np.random.default_rng(k).integers(1, 2**10, k)
    contest = ArgminContest.nearest(sizes)
    scaled = tied(sizes.tolist(), 130, 2**20, k)
    got, _ = play(contest, Basis(LANE_PRIMES[:3]), scaled, members, k, kind=tournament)
    assert got.tolist() == reference.nearest(scaled, sizes.tolist())
    # The range: cross-multiplied without common factors, and never above the plan's bound.
    d, eta = 3, 50
    bound = distance_bound(d, eta, 1) * 2
    needed = Tournament.needed(contest, (-(-k // 4),), d, eta)
    top = sorted(sizes.tolist())[-2:]
    assert contest.needed(d, eta) <= needed <= bound * (top[0] * top[1]) ** 2
    assert needed <= planned(d, eta, int(sizes.sum()))
    assert (
        DealerSchedule(contest, Basis(LANE_PRIMES[:3]), 10**4).dealt
        > 1.5 * tournament(contest, Basis(LANE_PRIMES[:3]), 10**4).dealt
    )


class Unlike(Tournament):
    """As if sizes were different: winners' sizes are opened under masks, too."""

    alike = False


def unlike(contest, basis, m):
    return Unlike(contest, basis, m, (3,))


def levels_of_unlike(contest, basis, m):
    return Unlike(contest, basis, m, (6, 3))


def pairs(contest, basis, m):
    return Tournament(contest, basis, m, (6, 3, 2))


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", [DealerSchedule, tournament, unlike, levels_of_unlike, pairs])
def test_many_clusters_at_the_edge_of_the_range(kind, lanes):
    basis = Basis(LANE_PRIMES[:lanes])
    half = (basis.modulus - 1) // 2
    rng = np.random.default_rng(lanes)
    edges = np.array([0, 1, half - 1, half], object)[rng.integers(0, 4, (12, 200))]
    edges[:, 100:] = np.where(rng.random((12, 100)) < 0.9, half, edges[:, 100:])
    got, _ = play(ArgminContest.nearest(np.full(12, 7)), basis, edges, 2, lanes, kind=kind)
    assert got.tolist() == reference.nearest(edges, [1] * 12)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
def test_the_largest_differences_that_fit(lanes):
    basis = Basis(LANE_PRIMES[:lanes])
    half = (basis.modulus - 1) // 2
    edges = [0, 1, 2, half - 1, half]
    scaled = np.array([[a, b] for a in edges for b in edges], object).T
    got, _ = play(ArgminContest.nearest(np.array([1, 1])), basis, scaled, 2, lanes)
    assert got.tolist() == [int(b < a) for a in edges for b in edges]
    # One more wraps around: the bound is tight.
    scaled = np.array([[0], [half + 1]], object)
    got, _ = play(ArgminContest.nearest(np.array([1, 1])), basis, scaled, 2, lanes)
    assert got.tolist() == [1]


def test_the_range_is_what_the_sizes_need():
    sizes, d, eta = np.array([12, 18, 0, 7]), 5, 300
    contest = ArgminContest.nearest(sizes)
    product = max((12 // 6) ** 2 * 18**2, 12**2 * 7**2, 18**2 * 7**2)
    assert contest.needed(d, eta) == 2 * distance_bound(d, eta, 1) * product
    assert contest.lanes(LANE_PRIMES[:4], d, eta) == 2
    with pytest.raises(ValueError, match="lower the scale, or add a lane"):
        contest.lanes(LANE_PRIMES[:1], d, eta)
    # Equal sizes divide away, and the plan's bound covers whatever sizes come.
    assert ArgminContest.nearest(np.array([16384, 16384])).needed(d, eta) == 2 * distance_bound(d, eta, 16384)
    for m in (2, 3, 10):
        worst = max(ArgminContest.nearest(np.array([a, m - a])).needed(d, eta) for a in range(1, m))
        assert worst <= planned(d, eta, m)
    assert planned(d, eta, 100, 7) == ArgminContest.nearest(np.array([6, 7])).needed(d, eta) // 36 * 49
    # Tight, but for rounding up to whole distances.
    worst = ArgminContest.nearest(np.array([5, 6])).needed(d, eta)
    assert worst <= planned(d, eta, 11) < 1.01 * worst


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
def test_no_digit_and_no_table_is_dealt_for_nothing(lanes):
    digits = 10 * lanes
    for level in tree_levels(lanes):
        arities, firsts = level.nodes.T.tolist()
        assert firsts == [sum(arities[:i]) for i in range(len(arities))]
        assert level.inputs == sum(arities) == digits, "one input for each output of the level before"
        # For equality and for excess the products of every two masks and more of a node; the last node needs
        # no equality of its last input.
        products = [[c for r in range(2, a + 1) for c in combinations(range(a), r)] for a in arities]
        spared = [c for c in products[-1] if arities[-1] - 1 in c]
        assert level.rows == 2 * sum(map(len, products)) - len(spared)
        digits = len(arities)
    assert digits == 1


# --- privacy ----------------------------------------------------------------------------------------


def law(modulus, levels, masks, secret):
    """How often a committee sees each view of one comparison, over all coins of a dealer."""
    z = 2 * secret % modulus
    seen = Counter()
    for r in range(modulus):
        y = (z + r) % modulus
        for bits in masks:
            opened, won = reference.dealt_comparison(y, r, levels, bits)
            assert won == (secret < 0)
            seen[y, opened] += 1
    return seen


def test_a_committee_sees_the_same_whatever_the_distances_are():
    # P = 35 has two digits: equality of the first, excess of both, then the result, all under masks.
    modulus, levels, opened = 35, ((2,),), 4
    every = [tuple(x >> i & 1 for i in range(opened)) for x in range(2**opened)]
    secrets = range(-17, 18)
    uniform = law(modulus, levels, every, 0)
    assert set(uniform.values()) == {1}
    assert len(uniform) == modulus * 2**opened
    assert all(law(modulus, levels, every, secret) == uniform for secret in secrets)
    # One mask for two of the bits, and the same enumeration shows the difference.
    reused = [bits for bits in every if bits[1] == bits[2]]
    assert law(modulus, levels, reused, 1) != law(modulus, levels, reused, 14)


def uniform_bits(views, false_alarm):
    """Whether each opened row of bits has as many ones as coins have, each row with this false-alarm rate."""
    for view in views:
        if view.dtype != np.uint64:
            continue  # residues, which have a test of their own
        for row in np.swapaxes(view, 0, 1).reshape(view.shape[1], -1):
            n = 64 * row.size
            ones = int(np.bitwise_count(row).sum())
            if 4 * (ones - n / 2) ** 2 / n > chi2.isf(false_alarm, 1):
                return False
    return True


def uniform_residues(values, p, false_alarm):
    counts = np.bincount(values.reshape(-1).astype(np.int64) * 64 // p, minlength=64)
    expected = values.size / 64
    return float(((counts - expected) ** 2 / expected).sum()) < chi2.isf(false_alarm, 63)


def test_openings_on_the_real_modulus_are_uniform():
    # All points alike, so that whatever is not masked is constant.  32 and more tests at 1e-6 each.
    basis = Basis(LANE_PRIMES[:3])
    scaled = np.repeat(np.array([[5], [40], [40], [10**9]], object), 64 * 64, axis=1)
    contest = ArgminContest.nearest(np.array([3, 4, 4, 100]))
    got, (masked, *opened) = play(contest, basis, scaled, 2, 1)
    assert set(got.tolist()) == {0}
    assert all(uniform_residues(lane, p, 1e-6) for lane, p in zip(masked, basis.primes, strict=True))
    assert uniform_bits(opened, 1e-6)
    # The control: members whose streams are all alike mask nothing.
    _, (_, *bare) = play(contest, basis, scaled, 2, 1, streams=lambda j: SeededCoins(1, "the same for all"))
    assert not uniform_bits(bare, 1e-6)


@pytest.mark.parametrize(("sizes", "counts", "opened"), [
    (np.arange(12, 0, -1), (3,), 3), (np.full(12, 16), (3,), 2), (np.arange(12, 0, -1), (6, 3), 5),
    (np.full(12, 16), (6, 3, 2), 4), (np.full(12, 16), (6, 2), 3),
])  # fmt: skip
@pytest.mark.parametrize("won", [0, 1, 11])
def test_openings_of_a_tournament_are_uniform(sizes, counts, opened, won):
    basis = Basis(LANE_PRIMES[:3])
    far = np.roll(np.arange(1, 13), won).astype(object) * 10**6
    scaled = np.repeat(far[:, None] * (sizes.astype(object) ** 2)[:, None], 64 * 64, axis=1)
    contest = ArgminContest.nearest(sizes)

    def kind(contest, basis, m):
        return Tournament(contest, basis, m, counts)

    def all_uniform(views):
        residues = [v for v in views if v.dtype != np.uint64]
        # Masked distances, selected winners of each level, and differences of these where sizes make them no
        # sums.
        assert len(residues) == opened
        whole = (
            uniform_residues(lane, p, 1e-6) for v in residues for lane, p in zip(v, basis.primes, strict=True)
        )
        return uniform_bits(views, 1e-6) and all(whole)

    got, views = play(contest, basis, scaled, 2, 1, kind=kind)
    assert set(got.tolist()) == {won}
    assert all_uniform(views)
    _, bare = play(
        contest, basis, scaled, 2, 1, streams=lambda j: SeededCoins(1, "the same for all"), kind=kind
    )
    assert not all_uniform(bare)


def test_a_reused_mask_is_seen_by_the_same_test():
    basis = Basis(LANE_PRIMES[:3])
    contest = ArgminContest.nearest(np.array([3, 4]))
    two = [np.repeat(np.array([[a], [b]], object), 64 * 200, axis=1) for a, b in ((5, 10**9), (900, 2))]

    def difference(seeds):
        first, second = (
            play(contest, basis, scaled, 2, seed)[1] for scaled, seed in zip(two, seeds, strict=True)
        )
        residues = basis.add(first[0], basis.negate(second[0]))
        lanes = zip(residues, basis.primes, strict=True)
        bits = [a ^ b for a, b in zip(first[1:], second[1:], strict=True)]
        return all(uniform_residues(lane, p, 1e-6) for lane, p in lanes) and uniform_bits(bits, 1e-6)

    assert difference((1, 2))
    assert not difference((1, 1))


def test_tables_can_be_taken_once():
    basis = Basis(LANE_PRIMES[:2])
    schedule = DealerSchedule(ArgminContest.nearest(np.array([1, 2])), basis, 10)
    rho = basis.sample((2, 10), SeededCoins(0, "rho"))
    (words,) = schedule.deal_words(rho, [SeededCoins(0, "a"), SeededCoins(0, "b")], 0)
    tables = PartyTables(SeededCoins(0, "a"), words)
    next(schedule.compete(rho, tables.take(), lead=True))
    with pytest.raises(MaskReused, match="ask the dealer for new ones"):
        tables.take()
    assert "secret" in repr(tables)
