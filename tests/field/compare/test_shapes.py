"""The shape of a contest: what it costs is foretold, the cheapest is taken, and none changes a label."""

import numpy as np
import pytest

from field.compare.argmin import ArgminContest
from field.compare.blockwise import (
    FEW,
    LEAST,
    MANY,
    MOST,
    ROUNDS,
    BlockwiseContest,
    block_points,
    choose_levels,
)
from field.compare.dealer_protocol import DealerSchedule, combine_openings, labels_from_code
from field.compare.tournament import Tournament
from field.ring.basis import LANE_PRIMES, Basis
from secfc.coded.parameters import Network
from tests.field.compare.committee import shared, tournament
from tests.field.compare.test_dealt import tied
from tests.nightly import covering
from tests.oracles import field as reference


def words(opened):
    return opened.size if opened.dtype == np.uint64 else -(-opened.size // 2)


def of(counts):
    """A contest of this shape."""

    def kind(contest, basis, m):
        return Tournament(contest, basis, m, counts) if counts else DealerSchedule(contest, basis, m)

    return kind


@pytest.mark.parametrize("lanes", [2, 3, 4])
@pytest.mark.parametrize(
    ("k", "counts"),
    [
        (2, ()), (7, ()), (20, ()), (4, (2,)), (5, (2,)), (9, (3,)), (33, (7,)), (12, (2,)), (16, (8, 4, 2)),
        (33, (8, 2)), (17, (8, 3)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("alike", [False, True])
def test_what_is_opened_is_foretold_round_by_round(k, counts, lanes, alike):
    sizes = np.full(k, 16) if alike else np.arange(1, k + 1)
    contest, basis, scaled = (
        ArgminContest.nearest(sizes),
        Basis(LANE_PRIMES[:lanes]),
        tied(range(1, k + 1), 130, 2**9, k),
    )
    schedule, _, (_, *opened) = shared(contest, basis, scaled, 2, k, kind=of(counts))
    assert schedule.openings == tuple(map(words, opened))


def seconds(counts, k, basis, m, members, network, alike):
    contest = ArgminContest.nearest(np.full(k, 16) if alike else np.arange(1, k + 1))
    shape = of(counts)(contest, basis, m)
    nbytes = 8 * (shape.dealt + members * (members - 1) * sum(shape.openings))
    # Where sizes differ, every level after the first is to save a twentieth.
    more = 0 if alike else 0.05 * max(0, len(counts) - 1)
    return (1 + more) * network.seconds(len(shape.openings), nbytes)


@pytest.mark.parametrize(
    ("members", "k", "m", "network", "alike"),
    covering(
        [2, 4],
        [3, 5, 8, 9, 16, 40],
        [100, 10**4, 10**6],
        [Network(), Network(0.0), Network(0.2, 1e9), Network(0.001, 1e6)],
        [False, True],
    ),
)
def test_no_shape_is_cheaper_than_the_one_taken(k, m, members, network, alike):
    basis, least = Basis(LANE_PRIMES[:3]), 1 if alike else 2
    taken = choose_levels(k, basis, m, members, network, alike=alike)
    cost = seconds(taken, k, basis, m, members, network, alike)
    tried = [(), *((-(-k // size),) for size in range(2, min(k, 7)))]
    tried += [(a, b) for a in range(2, k) for b in range(2, a) if k // a >= least and a // b >= least][::7]
    pairs = [k]
    while alike and pairs[-1] > 2:
        pairs.append(-(-pairs[-1] // 2))
        tried.append(tuple(pairs[1:]))
    for counts in tried:
        if not counts or k // counts[0] >= least:
            # Sizes between those that are tried change little.
            assert cost <= 1.02 * seconds(counts, k, basis, m, members, network, alike)


def test_the_network_decides():
    basis = Basis(LANE_PRIMES[:4])
    assert choose_levels(8, basis, 10**3, 2, Network()) == () != choose_levels(8, basis, 10**6, 2, Network())
    assert choose_levels(8, basis, 10**3, 2, Network(latency=0.0))
    assert choose_levels(8, basis, 10**6, 2, Network(latency=1e4)) == ()
    for alike in (False, True):
        for k in range(2, FEW + 1):
            assert choose_levels(k, basis, 10**6, 2, Network(latency=0.0), alike=alike) == ()
        for lanes in range(1, 5):
            assert choose_levels(MANY, Basis(LANE_PRIMES[:lanes]), 90, 2, Network(latency=0.0), alike=alike)
        # Few points of some clusters meet at once, many in levels of few each.
        assert choose_levels(8, basis, 10**2, 2, Network(), alike=alike) == ()
        shapes = [choose_levels(32, basis, 10**e, 2, Network(), alike=alike) for e in range(7)]
        assert [len(counts) for counts in shapes] == sorted(len(counts) for counts in shapes)
        assert len(shapes[0]) < 2
        assert len(shapes[-1]) > 1 + alike


def test_pairs_of_equal_sizes_take_one_comparison_less_than_there_are_clusters():
    for k in range(2, 40):
        counts = [k]
        while counts[-1] > 2:
            counts.append(-(-counts[-1] // 2))
        shape = of(tuple(counts[1:]))(ArgminContest.nearest(np.full(k, 3)), Basis(LANE_PRIMES[:2]), 64)
        stages = (*shape.schedules, shape.final) if k > 2 else (shape,)
        assert sum(len(stage.contest.comparisons) for stage in stages) == k - 1


@pytest.mark.parametrize("alike", [False, True])
def test_rounds_of_all_blocks_fit_a_question(alike, monkeypatch):
    basis = Basis(LANE_PRIMES[:4])
    for k, m in ((2, 10**8), (40, 10**8), (300, 10**8)):
        counts = choose_levels(k, basis, m, 2, Network(0.0), alike=alike)
        shape = of(counts)(ArgminContest.nearest(np.full(k, 2) if alike else np.arange(1, k + 1)), basis, m)
        blocks = -(-m // block_points(shape, 2, Network(0.0)))
        assert len(shape.openings) * blocks <= ROUNDS
        assert len(shape.openings) * MOST <= ROUNDS or blocks < MOST
    # Where there is room for fewer, the shape takes fewer as well.
    monkeypatch.setattr("field.compare.blockwise.ROUNDS", 12)
    counts = choose_levels(39, basis, 10**6, 2, Network(0.0), alike=alike)
    shape = of(counts)(ArgminContest.nearest(np.full(39, 2) if alike else np.arange(1, 40)), basis, 10**6)
    assert len(shape.openings) <= 12
    assert -(-(10**6) // block_points(shape, 2, Network(0.0))) == 1


@pytest.mark.parametrize("counts", [(), (2,), (3,), (4,), (4, 2)])
def test_labels_are_the_same_in_all_shapes(counts):
    sizes = np.random.default_rng(len(counts)).integers(1, 2**10, 9)
    scaled = tied(sizes.tolist(), 200, 2**20, 9)
    basis = Basis(LANE_PRIMES[:3])
    schedule, shares, _ = shared(ArgminContest.nearest(sizes), basis, scaled, 3, 1, kind=of(counts))
    assert labels_from_code(schedule, combine_openings(basis, shares)).tolist() == reference.nearest(
        scaled, sizes.tolist()
    )


@pytest.mark.parametrize("m", [1, 63, 64, 65, 128, 200])
@pytest.mark.parametrize("kind", [DealerSchedule, tournament, of((5, 3, 2))])
@pytest.mark.parametrize("lanes", [1, 4])
def test_blocks_of_rows_decide_alike_and_open_what_is_foretold(kind, lanes, m):
    basis = Basis(LANE_PRIMES[:lanes])
    half = (basis.modulus - 1) // 2
    edges = np.array([0, 1, half - 1, half], object)[np.random.default_rng(m).integers(0, 4, (9, m))]

    def turns(contest, basis, m):
        return BlockwiseContest(kind(contest, basis, m), 64)

    shape, shares, (_, *opened) = shared(ArgminContest.nearest(np.full(9, 7)), basis, edges, 3, m, kind=turns)
    assert labels_from_code(shape, combine_openings(basis, shares)).tolist() == reference.nearest(
        edges, [1] * 9
    )
    assert shape.openings == tuple(map(words, opened))
    assert len(shape.parts) == -(-m // 64)
    assert max(shape.openings) == max(kind(shape.contest, basis, min(m, 64)).openings)


def test_there_are_as_many_blocks_as_the_network_hardly_notices():
    def blocks(m, network):
        shape = tournament(ArgminContest.nearest(np.arange(1, 9)), Basis(LANE_PRIMES[:4]), m)
        size = block_points(shape, 2, network)
        assert size % 64 == 0
        return -(-m // size)

    assert [blocks(m, Network(0.0)) for m in (1, LEAST, 2 * LEAST - 1, 2 * LEAST)] == [1, 1, 1, 2]
    assert blocks(10**6, Network(0.0)) == 10**6 // LEAST
    assert blocks(10**8, Network(0.0)) == MOST
    assert 1 < blocks(10**6, Network()) <= MOST
    assert blocks(10**6, Network(latency=100.0)) == 1
    with pytest.raises(ValueError, match="block=65 points: take a multiple of 64"):
        BlockwiseContest(
            DealerSchedule(ArgminContest.nearest(np.ones(2, int)), Basis(LANE_PRIMES[:1]), 100), 65
        )


@pytest.mark.parametrize(("values", "why"), [
    ({"latency": -1}, "seconds from 0 on"), ({"latency": float("nan")}, "seconds from 0 on"),
    ({"bandwidth": 0}, "bytes a second above 0"), ({"bandwidth": float("inf")}, "bytes a second above 0"),
])  # fmt: skip
def test_a_network_that_is_none_is_refused(values, why):
    with pytest.raises(ValueError, match=why):
        Network(**values)
