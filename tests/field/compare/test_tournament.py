"""Tournaments of every shape: exact, of the foretold cost, and what selecting a winner shows."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from field.compare.argmin import ArgminContest
from field.compare.assignment_step import SharedContest
from field.compare.bitslice import unpack_bits
from field.compare.blockwise import BlockwiseContest, all_levels
from field.compare.correlated_randomness import NEXT, DealerRandomness, PartyRandomness
from field.compare.dealer_protocol import PartyTables, combine_openings, labels_from_code
from field.compare.tournament import Tournament
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins
from tests.field.compare.committee import shared
from tests.field.compare.test_dealt import tied, uniform_residues
from tests.nightly import by_night, short
from tests.oracles import field as reference

SHAPES = [
    (k, counts, alike)
    for alike in (True, False)
    for k in range(3, 18)
    for counts in all_levels(k, alike=alike)
    if counts
]
# Groups of one and two, of two and three, pairs of threes: one of each kind by day, all by night.
BY_DAY = {
    (3, (2,)), (4, (2,)), (5, (3, 2)), (6, (3, 2)), (7, (2,)), (9, (3,)), (9, (5, 3, 2)), (11, (3, 2)),
    (13, (7, 4, 2)), (13, (4, 2)), (16, (8, 4, 2)), (16, (4, 2)), (17, (9, 5, 3, 2)), (17, (6, 2)),
    (17, (9, 5)), (17, (5, 2)), (17, (2,)),
}  # fmt: skip


def drawn(k, alike, seed):
    """Sizes, and distances (k, 70) of which many tie."""
    sizes = np.full(k, 7) if alike else np.random.default_rng(seed).integers(1, 2**9, k)
    return sizes, tied(sizes.tolist(), 70, 2**18, seed)


def wins(contest, basis, scaled, members, seed, kind):
    """(who wins (k, m), the words of each portion that were dealt, all of which were used)."""
    game = SharedContest(kind(contest, basis, scaled.shape[1]))
    rho = basis.sample(scaled.shape, SeededCoins(seed, "rho"))
    masked = basis.add(basis.reduce(scaled), rho)
    streams = [lambda j=j: SeededCoins(seed, f"member {j}") for j in range(members)]
    portions = game.deal_words(rho, [stream() for stream in streams], 0)
    dealt = [next(portions)]
    hands = [PartyTables(stream(), None if j else dealt[0]).take() for j, stream in enumerate(streams)]
    moves = [game.play(masked, hand, lead=j == 1) for j, hand in enumerate(hands)]
    opened, shares = None, []
    while not shares:
        openings = []
        for move in moves:
            try:
                openings.append(move.send(opened))
            except StopIteration as end:
                shares.append(end.value)
        if openings and openings[0] is NEXT:
            used_up(hands[0])
            dealt.append(next(portions))
            hands[0].feed(dealt[-1])
            opened = None
        elif openings:
            opened = combine_openings(basis, openings)
    used_up(hands[0])
    assert next(portions, None) is None
    assert game.portions == tuple(map(len, dealt))
    return unpack_bits(combine_openings(basis, shares), scaled.shape[1])


def used_up(hand):
    """No word is left of what the corrected member got."""
    with pytest.raises(ValueError, match="reshape"):
        hand.table(np.empty(1, np.uint64))


@pytest.mark.parametrize(("k", "counts", "alike"), [
    *(shape for shape in SHAPES if shape[:2] in BY_DAY),
    *by_night(*(shape for shape in SHAPES if shape[:2] not in BY_DAY)),
])  # fmt: skip
def test_every_shape_decides_alike_at_the_cost_that_is_foretold(k, counts, alike):
    members = 2 + (k + len(counts)) % 3
    sizes, scaled = drawn(k, alike, k)
    contest, basis = ArgminContest.nearest(sizes), Basis(LANE_PRIMES[:3])

    def kind(contest, basis, m):
        return Tournament(contest, basis, m, counts)

    want = reference.nearest(scaled, sizes.tolist())
    shape, shares, (_, *opened) = shared(contest, basis, scaled, members, k, kind=kind)
    assert labels_from_code(shape, combine_openings(basis, shares)).tolist() == want
    words = [v.size if v.dtype == np.uint64 else -(-v.size // 2) for v in opened]
    assert list(shape.openings) == words
    assert (wins(contest, basis, scaled, members, k, kind) == (np.arange(k)[:, None] == want)).all()


@settings(deadline=None, max_examples=short(25, nightly=400))
@given(
    st.sampled_from(SHAPES), st.integers(1, 140), st.integers(2, 4), st.booleans(), st.integers(0, 2**20),
)  # fmt: skip
def test_labels_and_bits_are_those_of_plaintext(shape, m, members, turns, seed):
    k, counts, alike = shape
    sizes, _ = drawn(k, alike, seed)
    scaled = tied(sizes.tolist(), m, 2 ** (1 + seed % 18), seed)

    def kind(contest, basis, m):
        whole = Tournament(contest, basis, m, counts)
        return BlockwiseContest(whole, 64) if turns else whole

    contest, basis = ArgminContest.nearest(sizes), Basis(LANE_PRIMES[:3])
    want = reference.nearest(scaled, sizes.tolist())
    game, shares, _ = shared(contest, basis, scaled, members, seed, kind=kind)
    assert labels_from_code(game, combine_openings(basis, shares)).tolist() == want
    assert (wins(contest, basis, scaled, members, seed, kind) == (np.arange(k)[:, None] == want)).all()


def test_where_all_distances_are_equal_the_first_cluster_wins():
    for k, counts, _ in SHAPES[:: short(9, nightly=1)]:
        scaled = np.full((k, 3), 10**6, object)
        for sizes in (np.full(k, 2), np.arange(k, 0, -1)):
            contest = ArgminContest.nearest(sizes)
            try:
                shape = Tournament(contest, Basis(LANE_PRIMES[:2]), 3, counts)
            except ValueError:
                continue  # groups of one, where sizes differ
            rows = scaled * np.array([s * s for s in sizes.tolist()], object)[:, None]
            _, shares, _ = shared(contest, shape.basis, rows, 2, k, kind=lambda *_, shape=shape: shape)
            assert labels_from_code(shape, combine_openings(shape.basis, shares)).tolist() == [0, 0, 0]


@pytest.mark.parametrize(("sizes", "counts"), [
    ([1] * 8, ()), ([1] * 8, (8,)), ([1] * 8, (4, 4)), ([1] * 8, (4, 1)), ([1, 2] * 4, (5,)),
    ([1, 2] * 4, (4, 3)),
])  # fmt: skip
def test_groups_that_make_no_tournament_are_refused(sizes, counts):
    with pytest.raises(ValueError, match="groups of 8 clusters: give at each level fewer than contest it"):
        Tournament(ArgminContest.nearest(np.array(sizes)), Basis(LANE_PRIMES[:1]), 1, counts)


# --- privacy ----------------------------------------------------------------------------------------


def selections(p, distances, place, viewer, *, free=("mask", "table")):
    """How often a member of two sees each view of one selection among two, over all other coins.

    Everything modulo p.  viewer 0 gets corrections, 1 has streams alone.  free: the streams behind the first
    entry of the table and the second; of one name, the control: one stream serves both.
    """
    every, seen = range(p), Counter()
    for rho in product(every, repeat=2):
        masked = [(d + r) % p for d, r in zip(distances, rho, strict=True)]
        for s in range(2):
            index = place ^ s
            # A stream of the one that gets no corrections for the bit, and both members' streams of masks.
            for one, *streams in product(every, repeat=4):
                names = {"mask": streams[0], "table": streams[1]}
                masks = [streams[2], names[free[0]]]
                first = sum(masks)
                fresh = first + rho[s]
                second = fresh - rho[1 ^ s]
                ones = [(s - one) % p, one]
                tables = [[masks[0], second - names[free[1]]], [masks[1], names[free[1]]]]
                lead = [1, 0]
                shares = [
                    (
                        lead[j] * masked[index] + ones[j] * (masked[1 ^ index] - masked[index])
                        + tables[j][index]
                    ) % p
                    for j in range(2)
                ]  # fmt: skip
                assert sum(shares) % p == (distances[place] + fresh) % p
                mine = ones[viewer], *(entry % p for entry in tables[viewer])
                seen[(*masked, index, *mine, *shares)] += 1
    return seen


@pytest.mark.parametrize("viewer", [0, 1])
def test_a_member_sees_the_same_whoever_wins_and_whatever_the_distances_are(viewer):
    p = 3
    views = [
        selections(p, distances, place, viewer)
        for distances in product(range(p), repeat=2)
        for place in range(2)
    ]
    assert all(view == views[0] for view in views)
    assert len(views[0]) > 1
    # What is opened is uniform, whatever else the member knows.
    opened = Counter()
    for (*known, one, other), times in views[0].items():
        opened[tuple(known), (one + other) % p] += times
    assert set(opened.values()) == {views[0].total() // len(opened)}
    assert len(opened) == p * len({known for known, _ in opened})


@pytest.mark.parametrize("viewer", [0, 1])
def test_one_stream_for_both_entries_of_a_table_is_seen(viewer):
    """The control: the fresh mask's stream masks what corrections tell, and these undo it."""
    views = [
        selections(3, distances, place, viewer, free=("mask", "mask"))
        for distances in product(range(3), repeat=2)
        for place in range(2)
    ]
    assert any(view != views[0] for view in views) == (viewer == 0)


@pytest.mark.parametrize("sizes", [[3] * 8, [3, 4] * 4])
def test_a_winner_under_its_fresh_mask_is_uniform_beside_what_was_opened_before(sizes, monkeypatch):
    """Of points that are all alike, 44 x 3 tests at 1e-7 each; the control has no streams of masks."""
    basis = Basis(LANE_PRIMES[:3])
    far = np.array([5, 4, 9, 9, 7, 8, 3, 6], object) * np.array([s * s for s in sizes], object) * 10**6
    scaled = np.repeat(far[:, None], 64 * 64, axis=1)

    def kind(contest, basis, m):
        return Tournament(contest, basis, m, (4, 2))

    def all_uniform():
        shape, shares, views = shared(ArgminContest.nearest(np.array(sizes)), basis, scaled, 2, 1, kind=kind)
        assert set(labels_from_code(shape, combine_openings(basis, shares)).tolist()) == {6}
        before, winners = [v[:, 0] if v.ndim == 4 else v for v in views if v.dtype != np.uint64][:2]
        # What winners differ by from contestants, and from one another.
        gaps = [
            basis.add(winners[:, a], basis.negate(others[:, b]))
            for others in (before, winners) for a in range(4) for b in range(others.shape[1])
            if others is before or a != b
        ]  # fmt: skip
        return all(
            uniform_residues(lane, p, 1e-7) for gap in gaps for lane, p in zip(gap, basis.primes, strict=True)
        )

    assert all_uniform()
    for side in (PartyRandomness, DealerRandomness):
        monkeypatch.setattr(
            side, "uniform", lambda _, basis, shape: np.zeros((basis.lanes, *shape), basis.dtype)
        )
    assert not all_uniform()
