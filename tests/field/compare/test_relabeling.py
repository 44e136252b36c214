"""Labels that stay shared after a step: the bits, their residues, and whether they changed."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

from field.code.masking import MaskReused
from field.compare.argmin import ArgminContest
from field.compare.assignment_step import AssignmentStep, SharedLabels, cluster_code, select_planes
from field.compare.bitslice import from_planes, unpack_bits
from field.compare.correlated_randomness import NEXT
from field.compare.dealer_protocol import DealerSchedule, PartyTables, combine_openings
from field.compare.shared_step import last_of_one_hot
from field.compare.tournament import Tournament
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import Coins, SeededCoins
from tests.field.compare.committee import tournament
from tests.field.compare.test_dealt import tied
from tests.oracles import field as reference

BASIS = Basis(LANE_PRIMES[:4])


def step(sizes, scaled, before, members, seed, *, kind=DealerSchedule, tested=True, own=None, basis=BASIS):
    """(shares after the step, whether nothing changed, all that members opened and that of it)."""
    contest = ArgminContest.nearest(np.array(sizes))
    game = AssignmentStep(kind(contest, basis.prefix(3), scaled.shape[1]), basis, tested)
    lanes = game.schedule.basis
    rho = lanes.sample(scaled.shape, SeededCoins(seed, "rho"))
    masked = lanes.add(lanes.reduce(scaled), rho)
    streams = [lambda j=j: SeededCoins(seed, f"member {j}") for j in range(members)]
    corrected = seed % members
    portions = game.deal_words(rho, [stream() for stream in streams], corrected)
    sizes_due = list(game.portions)
    first = next(portions)
    assert first.shape == (sizes_due.pop(0),)
    hands = [
        PartyTables(stream(), first if j == corrected else None).take() for j, stream in enumerate(streams)
    ]
    own = own or (lambda j: SeededCoins(seed, f"own {j}"))
    clusters = np.flatnonzero(np.array(sizes))
    moves = [
        game.play(
            masked, SharedLabels.public(basis, before, clusters, lead=j == 0), hand, own(j), lead=j == 0,
        )
        for j, hand in enumerate(hands)
    ]  # fmt: skip
    opened, views, done = None, [], []
    while not done:
        openings = []
        for move in moves:
            try:
                openings.append(move.send(opened))
            except StopIteration as end:
                done.append(end.value)
        if not done and openings[0] is NEXT:
            words = next(portions)
            assert words.shape == (sizes_due.pop(0),)
            hands[corrected].feed(words)
            opened = None
        elif not done:
            opened = combine_openings(basis.prefix(len(openings[0])), openings)
            views.append(opened)
    assert not sizes_due
    shares, changes = zip(*done, strict=True)
    if changes[0] is None:
        return shares, None, views
    views.append(combine_openings(basis.prefix(1), changes))  # as is told with sizes
    return shares, not views[-1].any(), views


def added(basis, shares):
    """One-hot labels (K, m) by bits, and by residues."""
    bits = combine_openings(basis, [s.bits for s in shares])
    parts = combine_openings(basis, [s.parts for s in shares])
    return bits, last_of_one_hot(basis, parts)


def halved(contest, basis, m):
    """Levels of two and three in a group."""
    counts = [contest.outcomes // 2]
    while counts[-1] > 3:
        counts.append(counts[-1] // 2)
    return Tournament(contest, basis, m, tuple(counts))


@pytest.mark.parametrize("kind", [DealerSchedule, tournament, halved])
@pytest.mark.parametrize("k", [2, 3, 5, 9, 16, 17])
@pytest.mark.parametrize("members", [2, 4])
def test_bits_and_residues_are_the_labels_and_the_change_is_told(kind, k, members):
    if kind is not DealerSchedule and k < 5:
        return
    m = 130
    sizes = np.random.default_rng(k).integers(1, 2**10, k)
    scaled = tied(sizes.tolist(), m, 2**20, k)
    after = np.array(reference.nearest(scaled, sizes.tolist()))
    one_more = after.copy()
    one_more[k % m] = (one_more[k % m] + 1) % k
    for before, same in ((after, True), (one_more, False)):
        shares, said, _ = step(sizes, scaled, before, members, k, kind=kind)
        bits, parts = added(BASIS, shares)
        want = np.arange(k)[:, None] == after
        assert (unpack_bits(bits, m) == want).all()
        assert all((lane == want).all() for lane in parts)
        assert said is same
        assert from_planes(cluster_code(np.arange(k), bits, 5), m).tolist() == after.tolist()
    assert step(sizes, scaled, after, members, k, kind=kind, tested=False)[1] is None


def test_every_single_change_is_seen():
    sizes, m = [3, 3, 3], 65
    scaled = tied(sizes, m, 2**20, 5)
    after = np.array(reference.nearest(scaled, sizes))
    for i, other in product(range(0, m, 8), range(3)):
        before = after.copy()
        before[i] = other
        assert step(sizes, scaled, before, 2, 7 + i)[1] is bool(other == after[i])


def test_empty_clusters_are_left_out():
    basis, labels = Basis(LANE_PRIMES[:2]), np.array([4, 1, 1, 2, 4])
    for clusters, kept in (([1, 2, 4], [0, 1, 2]), ([0, 1, 2, 4], [1, 2, 3]), ([1, 2, 4, 5], [0, 1, 2])):
        shares = [SharedLabels.public(basis, labels, np.array(clusters), lead=lead) for lead in (True, False)]
        bits, parts = added(basis, [s.among(np.array(kept)) for s in shares])
        want = np.array([1, 2, 4])[:, None] == labels
        assert (unpack_bits(bits, 5) == want).all()
        assert (parts == want).all()


def test_a_slice_of_planes_holds_those_points():
    planes = np.random.default_rng(0).integers(0, 2**63, (3, 4)).astype(np.uint64)
    bits = unpack_bits(planes, 250)
    for begin, end in ((0, 250), (63, 64), (1, 1), (60, 140)):
        assert (unpack_bits(select_planes(planes, begin, end), end - begin) == bits[:, begin:end]).all()


def test_what_members_open_is_uniform_and_says_nothing_of_what_changed():
    """Every word that is opened, over many runs: false alarm below 1e-9 a test, 128 + 15 tests."""
    sizes, m, runs = [2, 2], 64, 400
    scaled = np.array([np.zeros(m), np.ones(m)], object)
    seen = {"same": [], "changed": []}
    for name, before in (("same", np.zeros(m, int)), ("changed", np.ones(m, int))):
        for seed in range(runs):
            _, said, views = step(sizes, scaled, before, 2, 2 * seed, basis=Basis(LANE_PRIMES[:3]))
            assert said is (name == "same")
            seen[name].append(views[-3:])
    for name, views in seen.items():
        bits = np.stack([unpack_bits(v[0][:1], 64) for v in views])
        # 64 sums of fair coins: six and a half deviations.
        assert (np.abs(bits.sum(axis=0) - runs / 2) < 6.5 * np.sqrt(runs) / 2).all()
        residues = np.stack([v[1][0] for v in views])
        for column in residues.T:
            counts = np.bincount(column * np.int64(8) // LANE_PRIMES[0], minlength=8)
            assert ((counts - runs / 8) ** 2 / (runs / 8)).sum() < chi2.isf(1e-9, 7)
        last = np.stack([v[2][0] for v in views])
        if name == "same":
            assert not last.any()
        else:
            for column in last.T:
                counts = np.bincount(column * np.int64(8) // LANE_PRIMES[0], minlength=8)
                assert ((counts - runs / 8) ** 2 / (runs / 8)).sum() < chi2.isf(1e-9, 7)


def suspects(views):
    """The points whose move alone would explain the ratios of what members opened last: by public weights."""
    p, m = LANE_PRIMES[0], 64
    rho = Basis((p,)).sample((3, m), Coins(views[-3][-2:].tobytes()))[0].astype(object)
    a, b, _ = views[-1][0].astype(object)
    return [i for i in range(m) if a * rho[1, i] % p == b * rho[0, i] % p]


def test_who_moved_does_not_show_in_what_is_opened():
    sizes, m = [2, 2, 2], 64
    scaled = np.array([np.zeros(m), np.ones(m), np.ones(m)], object)

    def scalar(j):
        """Coins of a member whose matrix is one factor for all three: the form that fell."""
        own = SeededCoins(1, f"{j}")
        fill = own.fill_residues

        def diagonal(prime, out):
            fill(prime, out)
            if out.shape == (9,):
                out[[1, 2, 3, 5, 6, 7]] = 0
                out[[4, 8]] = out[0]

        own.fill_residues = diagonal
        return own

    for who in (0, 5, 63):
        before = np.zeros(m, int)
        before[who] = 2
        runs = [
            step(sizes, scaled, before, 2, 4, own=own, basis=Basis(LANE_PRIMES[:3]))[2]
            for own in (None, scalar)
        ]
        # By chance with probability 64 / 2**30.
        assert [suspects(views) for views in runs] == [[], [who]]


def test_tables_serve_once():
    contest = ArgminContest.nearest(np.array([1, 1]))
    game = AssignmentStep(DealerSchedule(contest, BASIS, 3), BASIS, True)
    tables, old = (
        PartyTables(SeededCoins(0, "a")),
        SharedLabels.public(BASIS, np.zeros(3, int), np.arange(2), lead=True),
    )
    masked = BASIS.sample((2, 3), SeededCoins(0, "m"))
    next(game.play(masked, old, tables.take(), SeededCoins(0, "own"), lead=True))
    with pytest.raises(MaskReused):
        tables.take()
