"""Bits with witnesses: exact on circuits, nothing for any t players, and no false word is computed on."""

import itertools

import numpy as np
import pytest

from field.compare import circuits
from field.compare.replicated import MAX_T, Gates
from field.compare.witnessed import FalseWords, Told, WitnessedCommittee, WitnessedPlayer
from field.secrets.coins import SeededCoins
from tests.field.compare import players as plain

TS = range(1, MAX_T + 1)


def words_of(rng, *shape):
    return rng.integers(0, 2**64, shape, np.uint64)


def players(committee, seed=0, sets=None):
    out = []
    for me in range(committee.size):
        pairs = {
            i: SeededCoins(seed, f"pair {min(i, me)} {max(i, me)}") for i in range(committee.size) if i != me
        }
        mine = {q: SeededCoins(seed, f"set {q}") if sets is None else sets(me, q) for q in committee.held(me)}
        out.append(WitnessedPlayer(committee, me, pairs, mine))
    return out


def honest(sender, receiver, told):
    return told


def heard(everybody, begun, tell=honest):
    """What all have once they heard one another.  tell: what becomes of a word on its way."""
    told = [p.tell(shared) for p, shared in zip(everybody, begun, strict=True)]
    assert all(
        set(p.speakers(shared)) == {i for i in range(len(told)) if p.me in told[i]}
        for p, shared in zip(everybody, begun, strict=True)
    )
    return [
        p.end(shared, {i: tell(i, p.me, told[i][p.me]) for i in p.speakers(shared)})
        for p, shared in zip(everybody, begun, strict=True)
    ]


def deal(everybody, numbers, tell=honest):
    committee = everybody[0].committee
    known = [numbers[p.me // 2] for p in everybody]
    assert len(numbers) == len(committee.parts)
    begun = [p.begin_deal(planes, numbers[0].shape) for p, planes in zip(everybody, known, strict=True)]
    return heard(everybody, begun, tell)


def drive(everybody, circuits, tell=honest):
    layers = [next(c) for c in circuits]
    while True:
        begun = [p.begin(layer) for p, layer in zip(everybody, layers, strict=True)]
        products = [list(shares[0]) for shares in heard(everybody, begun, tell)]
        results, layers = [], []
        for circuit, product in zip(circuits, products, strict=True):
            try:
                layers.append(circuit.send(product))
            except StopIteration as done:
                results.append(done.value)
        if results:
            return results


def opened(everybody, shares):
    """What parts open to, which all who play one agree on."""
    each = [p.opening(s) for p, s in zip(everybody, shares, strict=True)]
    assert all((a == b).all() for a, b in zip(each[::2], each[1::2], strict=True))
    return np.bitwise_xor.reduce(each[::2], axis=0)


# --- structure -----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", TS)
def test_any_t_players_miss_one_component_and_every_product_is_one_groups(t):
    committee = WitnessedCommittee(t)
    for gone in itertools.combinations(range(committee.size), t):
        known = {q for j in gone for q in committee.held(j)}
        (missed,) = set(range(len(committee.sets))) - known
        assert set(committee.sets[missed]) == set(range(committee.size)) - set(gone)
    total = np.zeros((len(committee.sets),) * 2, int)
    for g, group in enumerate(committee.groups):
        tables = []
        for j in group:
            table = np.zeros(total.shape, bool)
            table[np.ix_(committee.held(j), committee.held(j))] = committee.products(g, j)
            tables.append(table)
        assert all((table == tables[0]).all() for table in tables)
        total += tables[0]
        assert set(group) <= set(committee.sets[committee.around[g][0]])
        assert len(committee.receivers(g)) == t
    assert (total == 1).all()
    assert sorted(j for g in committee.parts for j in committee.groups[g]) == list(range(committee.size))


@pytest.mark.parametrize(("t", "told"), [(1, 6), (2, 30), (3, 84)])
def test_so_many_words_are_told_a_product(t, told):
    committee = WitnessedCommittee(t)
    assert sum(len(committee.receivers(g)) for g in range(len(committee.groups))) == told


def test_limits_are_stated():
    with pytest.raises(ValueError, match=r"t=4: .* from 1 to 3"):
        WitnessedCommittee(4)
    with pytest.raises(ValueError, match=r"deviating=2: .* use deviating=1"):
        WitnessedCommittee(2, 2)
    with pytest.raises(ValueError, match="lacks streams"):
        WitnessedPlayer(WitnessedCommittee(1), 0, {}, {})
    assert "secret" in repr(players(WitnessedCommittee(1))[0])


# --- exactness -----------------------------------------------------------------------------------


@pytest.mark.parametrize("t", TS)
def test_circuits_on_shares_equal_circuits_in_the_clear(t):
    rng = np.random.default_rng(t)
    planes = [words_of(rng, 6, 3) for _ in range(t + 1)]
    everybody = players(WitnessedCommittee(t))
    dealt = deal(everybody, planes)
    for part, bits in enumerate(planes):
        assert (opened(everybody, [d[part] for d in dealt]) == bits).all()
    results = drive(everybody, [circuits.top_bit(d) for d in dealt])
    expected = plain.clear(circuits.top_bit([p[None].copy() for p in planes]))
    assert (opened(everybody, [r[:, None] for r in results]) == expected).all()
    ones = np.full((1, 3), circuits.ONES)
    assert (opened(everybody, [p.constant(ones) for p in everybody]) == ones).all()


# --- privacy -------------------------------------------------------------------------------------


class Bits:
    """A stream that hands out given words, zeros after them: coins that a test enumerates."""

    def __init__(self, *words):
        self.words = list(words)

    def fill(self, out):
        mine, self.words = self.words[: out.size], self.words[out.size :]
        out[...] = np.array(mine + [0] * (out.size - len(mine)), np.uint64).reshape(out.shape)

    def bytes(self, size):
        return bytes(size)


def law_of_the_told(committee, gone, secrets, masks):
    """How often each view of `gone` occurs in a product of two bits, over all coins that they do not know.

    secrets: the components of x and y that `gone` miss; others are 0, and 1.  masks: how many masks
    of that component are drawn; the others are zeros.
    """
    (missed,) = (q for q, who in enumerate(committee.sets) if not set(who) & set(gone))
    law = {}
    for coins in itertools.product((0, 1), repeat=masks):
        everybody = players(
            committee, sets=lambda me, q, coins=coins: Bits(*coins) if q == missed else Bits()
        )
        at = np.array([0])
        view = []
        for p in everybody:
            x = np.array([secrets[0] * (q == missed) for q in p.held], np.uint64).reshape(-1, 1, 1)
            y = np.array([secrets[1] if q == missed else 1 for q in p.held], np.uint64).reshape(-1, 1, 1)
            for other, told in p.tell(p.begin((Gates(x, at, y, at),))).items():
                if other in gone and p.me not in gone:
                    view += [int(w) & 1 for w in told.words.reshape(-1)]
        law[tuple(view)] = law.get(tuple(view), 0) + 1
    return law


@pytest.mark.parametrize("t", [1, 2])
def test_no_t_players_are_told_anything(t):
    committee = WitnessedCommittee(t)
    for gone in list(itertools.combinations(range(committee.size), t))[:: 1 if t == 1 else 4]:
        (missed,) = (q for q, who in enumerate(committee.sets) if not set(who) & set(gone))
        masks = sum(missed in around[1:] for around in committee.around)
        laws = [
            law_of_the_told(committee, gone, secrets, masks)
            for secrets in itertools.product((0, 1), repeat=2)
        ]
        assert all(law == laws[0] for law in laws)
    # Control: without the masks of the component that they miss, a product shows.
    bare = [
        {secrets: law_of_the_told(committee, gone, secrets, 0) for secrets in ((0, 1), (1, 1))}
        for gone in itertools.combinations(range(committee.size), t)
    ]
    assert any(laws[0, 1] != laws[1, 1] for laws in bare)


# --- lies ----------------------------------------------------------------------------------------


def flipping(deviating, receiver, turn):
    """One bit of what a player tells another the turn-th time, or of its tag where it tells no words."""
    count = iter(range(1 << 30))

    def tell(sender, other, told):
        if (sender, other) != (deviating, receiver) or next(count) != turn:
            return told
        if told.words.size:
            words = told.words.copy()
            words.reshape(-1)[0] ^= np.uint64(1)
            return Told(words, told.tag)
        return Told(told.words, bytes(16))

    return tell


@pytest.mark.parametrize("t", [1, 2])
def test_a_flipped_bit_is_noticed_in_its_round_whoever_tells_it(t):
    committee = WitnessedCommittee(t)
    planes = [words_of(np.random.default_rng(9), 4, 2) for _ in range(t + 1)]
    tried = 0
    for deviating, receiver in itertools.permutations(range(committee.size), 2):
        everybody = players(committee)
        dealt = deal(everybody, planes)
        every = np.array([0])
        begun = everybody[deviating].begin((Gates(dealt[deviating][0], every, dealt[deviating][1], every),))
        if receiver not in everybody[deviating].tell(begun):
            continue
        for turn in range(2):
            everybody = players(committee)
            dealt = deal(everybody, planes)
            with pytest.raises(FalseWords) as error:
                drive(everybody, [circuits.top_bit(d) for d in dealt], flipping(deviating, receiver, turn))
            assert deviating in error.value.players
            tried += 1
    assert tried > committee.size
    with pytest.raises(FalseWords):
        deal(players(committee), planes, flipping(0, committee.receivers(committee.parts[0])[0], 0))


def test_players_in_question_are_named_once_in_order():
    assert FalseWords([8, 1, 8]).players == (1, 8)


def test_it_is_the_tags_that_notice(monkeypatch):
    """Positive control: without them a flipped inner bit is a wrong result."""
    monkeypatch.setattr("field.compare.witnessed._tag", lambda key, arrays: bytes(16))
    committee, rng = WitnessedCommittee(1), np.random.default_rng(9)
    planes = [words_of(rng, 4, 2) for _ in range(2)]
    expected = plain.clear(circuits.top_bit([p[None].copy() for p in planes]))
    wrong = 0
    for deviating, receiver in itertools.permutations(range(4), 2):
        everybody = players(committee)
        dealt = deal(everybody, planes)
        results = drive(everybody, [circuits.top_bit(d) for d in dealt], flipping(deviating, receiver, 1))
        each = [p.opening(r[:, None]) for p, r in zip(everybody, results, strict=True)]
        wrong += any((each[a] ^ each[b] != expected).any() for a, b in itertools.product((0, 1), (2, 3)))
    assert wrong


def test_computing_on_a_false_word_would_tell_a_component():
    """Why tags are read in each round: else two of a group would compute words that differ by a secret bit.

    Player 0 lies to player 2 about a word of group (0, 1); then 1 and 2 compute together.
    """
    committee = WitnessedCommittee(1)
    lied = committee.around[committee.groups.index((0, 1))][0]
    other = next(j for j in committee.sets[lied] if j > 1)
    group = committee.groups.index((1, other))
    (missed,) = (q for q, who in enumerate(committee.sets) if 0 not in who)
    table = np.zeros((4, 4), bool)
    held = committee.held(1)
    table[np.ix_(held, held)] = committee.products(group, 1)
    # One of the two meets the component that player 0 misses in a product of that group.
    assert table[lied, missed] or table[missed, lied]
