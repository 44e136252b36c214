"""Replicated bits: exact on random circuits, and nothing for any t players."""

import itertools

import numpy as np
import pytest

from field.compare import circuits, signs
from field.compare.argmin import ArgminContest
from field.compare.bitslice import from_planes, unpack_bits, word_count
from field.compare.dealer_protocol import winner_code
from field.compare.replicated import MAX_T, Gates, ReplicatedCommittee, ReplicatedPlayer, ScratchArrays
from field.kernels import comparing
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import SeededCoins
from tests.field.compare import players
from tests.oracles import field as reference

TS = range(1, MAX_T + 1)


def words_of(rng, *shape):
    return rng.integers(0, 2**64, shape, np.uint64)


# --- structure -----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", TS)
def test_any_t_players_miss_exactly_one_component(t):
    committee = ReplicatedCommittee(t)
    for gone in itertools.combinations(range(committee.size), t):
        known = {q for j in gone for q in committee.held(j)}
        assert len(set(range(len(committee.sets))) - known) == 1


@pytest.mark.parametrize("t", TS)
def test_every_product_is_somebodys_once(t):
    committee = ReplicatedCommittee(t)
    count = len(committee.sets)
    total = np.zeros((count, count), int)
    for j in range(committee.size):
        held = list(committee.held(j))
        total[np.ix_(held, held)] += committee.products(j)
    assert (total == 1).all()
    assert [committee.sets[i][0] for i in range(t + 1)] == [0, *range(1, t + 1)]
    assert all(q in committee.held(o) for q, o in committee.refresh_owners.items())
    assert set(committee.openers) <= set(committee.members)


@pytest.mark.parametrize("t", [0, MAX_T + 1])
def test_limits_are_stated(t):
    with pytest.raises(ValueError, match=rf"t={t}: .* from 1 to {MAX_T}"):
        ReplicatedCommittee(t)


# --- kernels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 255, 256, 257, 700])
@pytest.mark.parametrize("t", [1, 2])
def test_products_equal_their_twin(count, t):
    rng = np.random.default_rng(count)
    committee = ReplicatedCommittee(t)
    x, y = words_of(rng, 2, len(committee.held(0)), 5, count)
    left, right = np.array([0, 4, 2]), np.array([1, 1, 3])
    out = np.empty((3, count), np.uint64)
    comparing.multiply(x, left, y, right, committee.products(1), out)
    assert (out == reference.shared_products(x[:, left], y[:, right], committee.products(1))).all()


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", TS)
def test_circuits_on_shares_equal_circuits_in_the_clear(t):
    rng = np.random.default_rng(t)
    for seed, rooms in ((0, None), (1, [ScratchArrays() for _ in range(2 * t + 1)])):
        planes = [words_of(rng, 6, 3) for _ in range(t + 1)]
        everybody = players.players(ReplicatedCommittee(t), seed, rooms)
        dealt = players.deal(everybody, planes)
        for member, bits in enumerate(planes):
            assert (players.opened(everybody, [d[member] for d in dealt]) == bits).all()
        results, _ = players.drive_circuits(everybody, [circuits.top_bit(d) for d in dealt])
        expected = players.clear(circuits.top_bit([p[None].copy() for p in planes]))
        assert (players.opened(everybody, [r[:, None] for r in results]) == expected).all()


def nearest(distances, sizes):
    """The oracle: fractions compared as integers, the first of equals."""
    best = []
    for column in zip(*distances, strict=True):
        candidates = [h for h, s in enumerate(sizes) if s]
        at = candidates[0]
        for h in candidates[1:]:
            if column[h] * sizes[at] ** 2 < column[at] * sizes[h] ** 2:
                at = h
        best.append(at)
    return best


def rows_with_ties(rng, k, m, sizes, bound):
    """A third anything, a third ties of distances that are equal after division, a third off by one."""
    rows = []
    for i in range(m):
        common = int(rng.integers(0, 2**20))
        if i % 3 == 0:
            rows.append([int(rng.integers(0, 2**62)) % bound for _ in range(k)])
        else:
            off = rng.integers(-1, 2, k) if i % 3 == 1 else np.zeros(k, int)
            rows.append([max(0, common * s**2 + int(o)) for s, o in zip(sizes, off, strict=True)])
    return [list(column) for column in zip(*rows, strict=True)]


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("t", [1, 2])
def test_arg_min_of_nobodys_distances(k, t):
    basis, m = Basis(LANE_PRIMES[:3]), 130
    rng = np.random.default_rng(100 * k + t)
    sizes = [int(s) for s in rng.integers(1, 1 << 13, k)]
    distances = rows_with_ties(rng, k, m, sizes, 1 << 58)
    residues = basis.reduce(np.array(distances, object))
    shares = [basis.sample((k, m), SeededCoins(k, f"holder {i}")) for i in range(t)]
    for share in shares:
        residues = basis.add(residues, basis.negate(share).astype(np.uint32)).astype(np.uint32)
    contest = ArgminContest.nearest(np.array(sizes))
    chosen = [(b, a) for a, b, _, _ in contest.comparisons]
    factors = [(u, -v) for _, _, u, v in contest.comparisons]
    planes = [
        signs.share_fractions(basis, t, s, chosen, factors, first=i == 0)
        for i, s in enumerate([*shares, residues])
    ]
    everybody = players.players(ReplicatedCommittee(t))
    dealt = players.deal(everybody, [p.reshape(len(p), -1) for p in planes])
    bits, counted = players.drive_circuits(everybody, [circuits.top_bit(d) for d in dealt])
    assert counted == {1: (8, 267), 2: (9, 359)}[t]
    bits = [b.reshape(len(b), -1, word_count(m)) for b in bits]
    won = [
        circuits.winner_products(b, contest.literals, contest.wanted, p.constant)
        for b, p in zip(bits, everybody, strict=True)
    ]
    won = players.drive_circuits(everybody, won)[0] if k > 2 else [players.clear(w) for w in won]
    found = from_planes(winner_code(contest, players.opened(everybody, won)), m)
    assert found.tolist() == nearest(distances, sizes)


# --- privacy -------------------------------------------------------------------------------------


class Bits:
    """A stream that hands out given words: coins that a test enumerates."""

    def __init__(self, *words):
        self.words = list(words)

    def fill(self, out):
        out[...] = np.array(self.words[: out.size], np.uint64).reshape(out.shape)
        del self.words[: out.size]

    def mask(self, out):
        mask = np.empty_like(out)
        self.fill(mask)
        out ^= mask


def told_to(gone, everybody, layers):
    """What players `gone` are told in products of two shared bits, one product after the other."""
    committee, told = everybody[0].committee, []
    for x, y in layers:
        at = np.array([0])
        begun = {p.me: p.begin((Gates(x[p.me], at, y[p.me], at),)) for p in everybody}
        for p in everybody:
            if p.me not in gone and set(committee.receivers(p.me)) & set(gone):
                told.append(int(p.told(begun[p.me])[0, 0]) & 1)
    return tuple(told)


def shares_of(committee, components):
    """Shares (held, 1, 1) of one bit with these components, for every player."""
    return [
        np.array([components[q] for q in committee.held(j)], np.uint64).reshape(-1, 1, 1)
        for j in range(committee.size)
    ]


def law_of_the_told(committee, gone, secrets, *, keys, reused=False):
    """How often each view occurs when all coins that `gone` do not know take all values, others zero.

    keys: which pairs of players share a stream.  The players compute x y of secret bits x, y; reused: and
    then x' y, under the masks of the first product.
    """
    unknown = [pair for pair in keys if not set(pair) & set(gone)]
    missing = [q for q, who in enumerate(committee.sets) if not set(who) & set(gone)]
    # All of a secret is in the component that nobody of `gone` knows.
    x, again, y = (
        shares_of(committee, [s * (q in missing) for q in range(len(committee.sets))]) for s in secrets
    )
    layers = [(x, y), (again, y)] if reused else [(x, y)]
    law = {}
    for coins in itertools.product((0, 1), repeat=len(unknown) + len(missing)):
        stream = dict(zip([*unknown, *missing], coins, strict=True))
        everybody = []
        for me in range(committee.size):
            others = [i for i in range(committee.size) if i != me]
            pairs = {i: Bits(*[stream.get((min(i, me), max(i, me)), 0)] * 2) for i in others}
            sets = {q: Bits(*[stream.get(q, 0)] * 2) for q in committee.held(me)}
            everybody.append(ReplicatedPlayer(committee, me, pairs, sets))
        view = told_to(gone, everybody, layers)
        law[view] = law.get(view, 0) + 1
    return law


ALL_SECRETS = list(itertools.product((0, 1), repeat=3))


def is_private(committee, gone, **options):
    """Whether what `gone` are told has one law for all secrets."""
    laws = [law_of_the_told(committee, gone, secrets, **options) for secrets in ALL_SECRETS]
    return all(law == laws[0] for law in laws)


def complete(committee):
    return list(itertools.combinations(range(committee.size), 2))


def circle(committee):
    return [tuple(sorted((i, (i + 1) % committee.size))) for i in range(committee.size)]


def coalitions(committee):
    return list(itertools.combinations(range(committee.size), committee.t))


@pytest.mark.parametrize("t", [1, 2])
def test_no_t_players_are_told_anything(t):
    committee = ReplicatedCommittee(t)
    for gone in coalitions(committee):
        law = law_of_the_told(committee, gone, (1, 0, 1), keys=complete(committee))
        # Uniform: what honest players tell is as many fair coins.
        assert len(set(law.values())) == 1
        assert len(law) == 2 ** len(next(iter(law)))
        assert is_private(committee, gone, keys=complete(committee))


@pytest.mark.parametrize("t", [1, 2])
def test_a_reused_mask_is_caught(t):
    committee = ReplicatedCommittee(t)
    assert not is_private(committee, tuple(range(t)), keys=complete(committee), reused=True)


def test_keys_of_neighbors_would_not_do_for_two():
    # Control: players 0 and 2 surround player 1, whose part would then be bare.
    committee = ReplicatedCommittee(2)
    assert not all(is_private(committee, gone, keys=circle(committee)) for gone in coalitions(committee))
    assert all(
        is_private(ReplicatedCommittee(1), gone, keys=circle(ReplicatedCommittee(1)))
        for gone in coalitions(ReplicatedCommittee(1))
    )


def law_of_the_dealt(committee, gone, bits, *, reused=False):
    """How often each view of `gone` occurs when member 0 deals these bits, over all coins they do not know.

    reused: all bits under the same coins, else each under its own.
    """
    missing = [q for q in committee.held(0) if not set(committee.sets[q]) & set(gone)]
    law = {}
    for coins in itertools.product((0, 1), repeat=len(missing) * (1 if reused else len(bits))):
        everybody = []
        for me in range(committee.size):
            words = {q: [0] * len(bits) for q in committee.held(me)}
            for i, q in enumerate(q for q in missing if q in words):
                words[q] = [coins[i]] * len(bits) if reused else list(coins[i :: len(missing)])
            pairs = {i: Bits() for i in range(committee.size) if i != me}
            # The bits of member 0 come first in every stream, those of the other members after.
            sets = {q: Bits(*w, *[0] * (committee.t * len(bits))) for q, w in words.items()}
            everybody.append(ReplicatedPlayer(committee, me, pairs, sets))
        planes = np.array(bits, np.uint64)[:, None]
        dealt = everybody[0].begin_deal(planes, planes.shape)[0]
        told = everybody[0].told(dealt)[:, 0] & np.uint64(1)
        view = tuple(told.tolist()) if set(committee.receivers(0)) & set(gone) else ()
        law[view] = law.get(view, 0) + 1
    return law


@pytest.mark.parametrize("t", [1, 2])
def test_no_t_others_are_dealt_anything(t):
    committee = ReplicatedCommittee(t)
    told = 0
    for gone in itertools.combinations(range(1, committee.size), t):
        laws = [law_of_the_dealt(committee, gone, bits) for bits in itertools.product((0, 1), repeat=2)]
        assert all(law == laws[0] for law in laws)
        if set(committee.receivers(0)) & set(gone):
            told += 1
            # Control: under a reused key stream the difference of two bits is told.
            reused = [law_of_the_dealt(committee, gone, bits, reused=True) for bits in ((0, 0), (0, 1))]
            assert reused[0] != reused[1]
    assert told > 0


def test_t_plus_one_players_hold_everything():
    committee = ReplicatedCommittee(1)
    assert set(committee.held(0)) | set(committee.held(1)) == set(range(len(committee.sets)))


def test_what_is_told_on_the_way_to_a_label_is_uniform():
    # All bits of all layers to player 2, chi-square per bit position pooled: 40000 fair coins, five sigma.
    told = []
    everybody = players.players(ReplicatedCommittee(1), 3)
    zero = [np.zeros((20, 4), np.uint64) for _ in range(2)]
    dealt = players.deal(everybody, zero)

    def tell(sender, planes):
        if sender == 1:
            told.append(planes)
        return planes

    players.drive_circuits(everybody, [circuits.top_bit(d) for d in dealt], tell)
    bits = unpack_bits(
        np.concatenate([t.reshape(1, -1) for t in told], axis=1), 64 * sum(t.size for t in told)
    )
    n = bits.size
    assert abs(int(bits.sum()) - n / 2) < 5 * (n / 4) ** 0.5


# --- errors and secrecy --------------------------------------------------------------------------


def test_a_player_without_a_stream_is_refused():
    with pytest.raises(ValueError, match="lacks streams"):
        ReplicatedPlayer(ReplicatedCommittee(1), 0, {1: SeededCoins(0, "a")}, {})


def test_repr_shows_no_share():
    everybody = players.players(ReplicatedCommittee(1))
    assert "secret" in repr(everybody[0])
    assert "secret" in repr(ScratchArrays())
