"""The check of replies: its algebra, what it misses, what it opens, and that each part of it is needed."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

from field import Basis
from field.code.distances import between_pairs, distance_margins, half_gaps, pair_distances
from field.code.lagrange_code import LagrangeCode
from field.code.masking import weighted_part
from field.code.pair_check import AcrossCheck, HalfCheck, NearCheck, PairCheck
from field.code.reply_check import (
    REPETITIONS,
    DistanceCheck,
    OffPolynomial,
    PlaneCheck,
    SquareCheck,
    SquaredCheck,
    SumCheck,
    open_words,
    segment_weights,
    sum_last,
    weigh_further,
)
from field.code.rows import ClusterSums, coded_rows
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from field.secrets.coins import SeededCoins
from tests.nightly import by_night, covering, short

BASIS = Basis(LANE_PRIMES[:2])
KINDS = (
    "points",
    "margins",
    "centers",
    "moved",
    "halves",
    "rounded halves",
    "planes",
    "squares",
    "squared points",
    "squared centers",
    "sums",
    "pairs",
    "near",
    "across",
    "across from the first",
)

# What squares of distances are compared with.
SQUARE = 5000

# Of each number of clusters, some whose means are held apart.
PAIRS = {2: ((0, 1),), 3: ((0, 2), (1, 2)), 4: ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))}


@dataclass
class Setting:
    """Shares of rows and sums at every client, and the check of what they reply."""

    code: LagrangeCode
    basis: Basis
    kind: str
    check: object
    rows: list  # a client's `CodedRows` of the points that are asked
    columns: list  # its shares of sums, or of planes
    replies: list  # its share of the replies of points
    kept: list = ()  # its share of those that were checked before
    squares: list = ()  # its share of those of points


def setting(kind, *, code=None, basis=None, k=3, m=11, d=4, seed=0):
    """Clients with honest shares.  basis: of the replies, the first lanes of the code's."""
    code = code or LagrangeCode(BASIS, 5, 1, 2)
    basis = basis or code.basis
    coins, rng = SeededCoins(seed, f"setting {kind}"), np.random.default_rng(seed)
    points = rng.integers(-50, 50, (m, d))
    shares = code.share(code.basis.reduce(points), coins)
    width = code.width(d)
    labels = np.concatenate([np.arange(k), rng.integers(0, k, m - k)]).astype(np.int32)
    if kind in ("halves", "rounded halves"):
        k = 2 * k
        labels = (2 * labels + rng.integers(0, 2, m)).astype(np.int32)
        labels[:4] = 0, 1, 2, 3
    lone = "points" in kind and m > k + 2
    if lone:
        labels[-1] = -1  # of no cluster
    if kind == "near" or "across" in kind:
        k, labels = m, np.arange(m, dtype=np.int32)
    sizes = np.bincount(labels[labels >= 0], minlength=k)
    all_rows, rows, columns, replies = [], [], [], []
    for share in shares:
        mine = coded_rows(code.basis, m, width)
        mine.add_rows(0, share)
        mine.finish_rows()
        all_rows.append(mine)
    asked, kept, squares, flats = np.arange(m), [], [None] * code.n, ()
    sums = [mine.sum_clusters(labels, k) for mine in all_rows]
    if kind in ("centers", "rounded halves", "planes", "squares", "squared centers"):
        # Of no rows: centers that something else gave.
        extra = 1 if kind == "planes" else 0
        drawn = rng.integers(-99, 99, (k, d))
        given = code.share(code.basis.reduce(drawn), coins)
        sums = [
            mine.encode_sums(s, np.maximum(sizes, 1)) if not extra else s
            for mine, s in zip(all_rows, given, strict=True)
        ]
        if extra:
            heads = [c.basis.reduce(rng.integers(-99, 99, (k, 1))) for c in [code]] * code.n
            sums = [np.concatenate([h, s], axis=2) for h, s in zip(heads, given, strict=True)]
        elif kind == "rounded halves":
            sums = [replace(s, labels=labels, sizes=sizes) for s in sums]
        elif kind == "squares":
            sums = [replace(s, sizes=np.ones(k, np.int64)) for s in sums]
            flats = tuple((drawn**2).sum(axis=1).tolist())
    if "square" in kind:
        whole = np.pad(points, ((0, 0), (0, code.ell * width - d))).reshape(m, code.ell, width)
        each = code.share(code.basis.reduce((whole**2).sum(axis=2)), coins)
        squares = [np.ascontiguousarray(share[: basis.lanes, :, 0]) for share in each]
    if "across" in kind:
        # Of the first half to the second; those to the first of all were asked before.
        asked, others = np.arange(0 if "first" in kind else 1, m // 2), np.append(np.arange(m // 2, m), 0)
        kept = [
            near_replies(code, basis, mine, s, [0])[:, 0, 1:] for mine, s in zip(all_rows, sums, strict=True)
        ]
    elif kind == "moved":
        asked = np.array([1, 4, 7])
    if len(asked) < m:
        all_rows = [mine.select_rows(asked) for mine in all_rows]
        for mine in all_rows:
            mine.finish_rows()
    for mine, about in zip(all_rows, sums, strict=True):
        lanes = basis.lanes
        if kind == "planes":
            columns.append(about[:lanes])
            replies.append(
                mine.multiply_rows(
                    np.ascontiguousarray(about[:lanes, :, 1:]), np.ascontiguousarray(about[:lanes, :, 0])
                )
            )
        else:
            columns.append(np.ascontiguousarray(mine.residues(about)[:lanes]))
            if kind == "sums":
                replies.append(columns[-1])
            elif kind == "pairs":
                replies.append(between_pairs(mine, about, *np.array(PAIRS[k]).T)[:lanes, :, None])
            elif kind == "near":
                part = [[(SQUARE + 1) * pow(code.ell, -1, p) % p] for p in basis.primes]
                values = basis.negate(pair_distances(mine, about, lanes))
                replies.append(basis.add(values, np.array(part, basis.dtype))[:, None])
            elif "across" in kind:
                columns[-1] = np.ascontiguousarray(columns[-1][:, others])
                values = near_replies(code, basis, mine, about, others[:-1])
                replies.append(values.reshape(lanes, 1, -1))
            elif "halves" in kind:
                replies.append(half_gaps(mine, about, lanes)[:, None])
            else:
                values = mine.measure_distances(about, lanes)
                if kind == "margins":
                    values = distance_margins(basis, values, labels.astype(np.int64), sizes, code.ell)
                replies.append(values)
        rows.append(mine)
    sizes = tuple(sizes.tolist())
    if "centers" in kind:
        sizes = tuple(max(1, s) for s in sizes)
    check = {
        "points": lambda: DistanceCheck(m, sizes, labels),
        "margins": lambda: DistanceCheck(m, sizes, labels, margins=True),
        "centers": lambda: DistanceCheck(m, sizes, None),
        "moved": lambda: DistanceCheck(len(asked), sizes, None),
        "halves": lambda: HalfCheck(labels, sizes, True),
        "rounded halves": lambda: HalfCheck(labels, sizes, False),
        "planes": lambda: PlaneCheck(m, k),
        "squares": lambda: SquareCheck(m, flats),
        "squared points": lambda: SquaredCheck(m, sizes, labels),
        "squared centers": lambda: SquaredCheck(m, sizes, None),
        "sums": lambda: SumCheck(k, code.ell, width),
        "pairs": lambda: PairCheck(PAIRS[k], sizes),
        "near": lambda: NearCheck(m, SQUARE),
        "across": lambda: AcrossCheck(len(asked), SQUARE, m - m // 2, False),
        "across from the first": lambda: AcrossCheck(len(asked), SQUARE, m - m // 2, True),
    }[kind]()
    return Setting(code, basis, kind, check, rows, columns, replies, kept, squares)


def near_replies(code, basis, rows, sums, others):
    """A share of square + 1 - D of rows and these others: (lanes, others, m)."""
    about = ClusterSums(sums.values[:, others], sums.sizes[others], sums.labels)
    part = [[[(SQUARE + 1) * pow(code.ell, -1, p) % p]] for p in basis.primes]
    values = basis.negate(rows.measure_distances(about, basis.lanes))
    return basis.add(values, np.array(part, basis.dtype))


@dataclass
class Played:
    """All that a check makes of a setting: weights, masked replies, masks, words of A and V."""

    at: Setting
    weights: object
    masked: object
    further: object
    rho: object
    rho_further: object
    a: dict
    v: dict

    def passes(self):
        """Whether the words are on polynomials and the identity holds."""
        basis, code = self.at.basis, self.at.code
        if self.weights.given is None:
            open_words(code, basis, self.a)
        opened = open_words(code, basis, self.v)  # (lanes, ell, R, ell)
        value = sum_last(basis, np.ascontiguousarray(np.diagonal(opened, axis1=1, axis2=3)))
        w = self.weights
        return w.fits(
            w.combine(self.masked, self.further, threads=2), w.combine(self.rho, self.rho_further), value
        )


def play(at, seed=0, lie=None, check=None, responders=None, shared_u=False):
    """The whole check among honest clients; lie: (lanes, rows, m), and (lanes, more), added to replies."""
    code, basis, check = at.code, at.basis, check or at.check
    coins = SeededCoins(seed, "play")
    lanes, needed = basis.lanes, code.threshold(2)
    who = responders or tuple(range(needed))
    width = at.rows[0].width

    def uniform(*shape):
        # Of the degree of a share: as many free values as ell segments and t more.
        size = int(np.prod(shape))
        prefix = LagrangeCode(basis, code.n, code.ell, code.t)
        whole = prefix.share(basis.sample((1, size * code.ell), coins), coins)
        return [s.reshape(lanes, *shape) for s in whole]

    zero = uniform(REPETITIONS, check.products, width)
    masks = uniform(REPETITIONS, check.zeros, code.ell)
    if shared_u:
        masks = [np.repeat(u[..., :1], code.ell, axis=3) for u in masks]
    masked = further = rho = rho_further = None
    for j in who:
        segments = segment_weights(code, basis, who, j)
        if at.kind == "sums":
            reply = weighted_part(replace_basis(code, basis), who, j, at.replies[j])
        else:
            reply = basis.multiply(sum_last(basis, segments)[:, None, None], at.replies[j])
        more = weigh_further(basis, segments, check.further_replies(basis, zero[j], at.columns[j]), masks[j])
        if at.kept:  # passed a check before, under masks of its own
            kept = basis.multiply(sum_last(basis, segments)[:, None], at.kept[j])
            more = np.concatenate([more, kept], axis=1)
        hide, hide_more = basis.sample(reply.shape[1:], coins), basis.sample(more.shape[1:], coins)
        sent, sent_more = basis.add(reply, hide), basis.add(more, hide_more)
        if masked is None:
            masked, further, rho, rho_further = sent, sent_more, hide, hide_more
        else:
            masked, further = basis.add(masked, sent), basis.add(further, sent_more)
            rho, rho_further = basis.add(rho, hide), basis.add(rho_further, hide_more)
    if lie is not None:
        masked = basis.add(masked, lie[0])
        further[:, : check.more] = basis.add(np.ascontiguousarray(further[:, : check.more]), lie[1])
    w = check.draw_weights(basis, SeededCoins(seed, "public"))
    a = {} if w.given is not None else {j: w.masked_row(at.rows[j], at.columns[j], zero[j]) for j in who}
    opened = w.given if w.given is not None else open_words(code, basis, a)
    v = {j: w.masked_products(opened, at.columns[j], masks[j], at.squares[j]) for j in who}
    return Played(at, w, masked, further, rho, rho_further, a, v)


def replace_basis(code, basis):
    return LagrangeCode(basis, code.n, code.ell, code.t)


CODES = (
    LagrangeCode(BASIS, 3, 1, 1),
    LagrangeCode(BASIS, 7, 1, 2),
    LagrangeCode(BASIS, 8, 2, 2),
    LagrangeCode(Basis((MERSENNE_61,)), 7, 3, 1),
    LagrangeCode(Basis((2147483629,)), 5, 1, 2),
)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("code", CODES, ids=lambda code: f"n{code.n} ell{code.ell} t{code.t}")
def test_honest_replies_pass(kind, code):
    if kind == "margins" and not code.basis.can_fold:
        pytest.skip("margins are for 30-bit lanes")
    for seed in range(short(6, nightly=400)):
        at = setting(kind, code=code, k=2 + seed % 3, m=8 + seed, d=2 + seed % 4, seed=seed)
        assert play(at, seed).passes()


@pytest.mark.parametrize("kind", KINDS)
def test_over_fewer_lanes_and_of_other_responders(kind):
    code = LagrangeCode(BASIS, 7, 2, 1)
    at = setting(kind, code=code, basis=code.basis.prefix(1), d=5)
    assert play(at, responders=(0, 2, 3, 5, 6)).passes()


# --- what no coins find ---------------------------------------------------------------------------


def rank(rows, p):
    """Of a matrix of residues."""
    matrix, done = np.array(rows, object) % p, 0
    for column in range(matrix.shape[1]):
        pivot = next((i for i in range(done, len(matrix)) if matrix[i, column]), None)
        if pivot is None:
            continue
        matrix[[done, pivot]] = matrix[[pivot, done]]
        matrix[done] = matrix[done] * pow(int(matrix[done, column]), -1, p) % p
        others = [i for i in range(len(matrix)) if i != done and matrix[i, column]]
        matrix[others] = (matrix[others] - np.outer(matrix[others, column], matrix[done])) % p
        done += 1
    return done


def dense(weights, rows, m, more):
    """Weights of the first repetition, of every reply of points and every further one."""
    basis, out = weights.basis, []
    for place in range(rows * m + more):
        values, further = np.zeros((1, rows * m), basis.dtype), np.zeros((1, more), basis.dtype)
        (values if place < rows * m else further)[
            0, place % (rows * m) if place < rows * m else place - rows * m
        ] = 1
        out.append(int(weights.combine(values.reshape(1, rows, m), further)[0, 0]))
    return out


def undetected(at, about_kept=False):
    """The dimension of lies that no coins find, among numbers that the first repetition weighs."""
    (p,) = at.basis.primes
    rows, m = played_shape(at)
    second = range(rows * m + at.check.zeros, rows * m + REPETITIONS * at.check.zeros)
    count = rows * m + at.check.more
    kept = at.kept[0].shape[1] if at.kept else 0
    drawn = [
        dense(at.check.draw_weights(at.basis, SeededCoins(i, "rank")), rows, m, at.check.more + kept)
        for i in range(2 * count)
    ]
    if not about_kept:
        drawn = [row[:count] for row in drawn]
    else:
        count += kept
    return count - len(second) - rank(np.delete(np.array(drawn, object), list(second), axis=1), p)


# Rows that distances are answered of: points, row 0, centers; of every two rows row 0
# alone.  Where signs are compared, nothing is missed.
MISSED = {"points": 9 + 1, "margins": 1, "centers": 9 + 1 + 3, "moved": 3 + 1 + 3, "near": 1} | dict.fromkeys(
    KINDS[-2:], 1
)


@pytest.mark.parametrize(("p", "kind"), covering([13, 10007], KINDS))
def test_what_no_coins_find_is_one_dimension_a_row(kind, p):
    code = LagrangeCode(Basis((p,)), 5, 2, 1)
    at = setting(kind, code=code, m=9, d=4)
    assert undetected(at) == MISSED.get(kind, 0)


@pytest.mark.parametrize("kind", ["points", "margins", "centers", "moved", "halves", "rounded halves"])
def test_without_the_identity_a_constant_on_a_column_is_missed_too(kind, monkeypatch):
    """k - 1 dimensions more; of halves, one a cluster."""
    at = setting(kind, code=LagrangeCode(Basis((10007,)), 3, 1, 1), m=9, d=2)
    if "halves" in kind:
        draw = HalfCheck.draw_weights

        def without(self, basis, coins):
            w = draw(self, basis, coins)
            alone = np.zeros_like(w.others)
            for q, c in enumerate([] if self.summed else self.alive):
                alone.reshape(1, REPETITIONS, 2, -1)[..., q] = w.sums[:, :, q, 2 * c : 2 * c + 2]
            groups, factors, constants = w.told()
            return replace(w, told=lambda: (groups, factors, np.zeros_like(constants)), others=alone)

        monkeypatch.setattr(HalfCheck, "draw_weights", without)
        assert undetected(at) == len(at.check.alive) > 0
    else:
        monkeypatch.setattr(
            "field.code.reply_check._antisymmetric", lambda *_: np.zeros((1, 2, 3, 3), np.uint32)
        )
        assert undetected(at) == MISSED[kind] + 2


def nothing(at):
    lanes = at.basis.lanes
    return np.zeros((lanes, *played_shape(at)), at.basis.dtype), np.zeros(
        (lanes, at.check.more), at.basis.dtype
    )


def played_shape(at):
    rows, m = at.replies[0].shape[1:]
    return (rows, m * at.code.ell) if at.kind == "sums" else (rows, m)


@pytest.mark.parametrize("kind", ["points", "centers", "moved"])
def test_what_is_missed_changes_no_comparison_but_by_a_factor(kind):
    at = setting(kind)
    sizes, rng = np.array(at.check.sizes, object), np.random.default_rng(0)
    kappa = rng.integers(1, 1 << 29, at.check.m).astype(object)
    lie = nothing(at)
    lie[0][:] = at.basis.reduce(np.outer(sizes**2, kappa))
    assert play(at, lie=lie).passes()
    a, b = sizes[0] ** 2, sizes[1] ** 2
    for factor in (1, 9):
        moved = [int(a * (b * x) - factor * b * (a * x)) for x in kappa]
        assert at.check.complete(factor) == (not any(moved))


def test_what_is_missed_of_pairs_is_a_constant_on_row_0_alone():
    at = setting("near")
    lie = nothing(at)
    lie[1][:, : at.check.zeros] = 777
    assert play(at, lie=lie).passes()
    # As if one row had a coordinate more than all others: it passes where some rows are measured to others.
    longer = nothing(at)
    first, second = np.triu_indices(at.check.m, 1)
    longer[0][:, 0, (first == 3) | (second == 3)] = 777
    assert not play(at, lie=longer).passes()


@pytest.mark.parametrize("kind", KINDS[-2:])
def test_between_blocks_a_number_a_point_passes_but_for_what_was_checked_before(kind):
    """A coordinate more of one point, of all points of a block or of none: with the like on what is kept."""
    at = setting(kind)
    second, m = at.check.second, at.check.m
    alone = np.zeros((second, m), np.int64)
    alone[2] = 777
    for lied in (alone, np.full((second, m), 777), np.arange(m)[None] + np.arange(second)[:, None]):
        lie = nothing(at)
        lie[0][:] = lied.reshape(1, 1, -1)
        assert not play(at, lie=lie).passes()
    # As without a block's own check: then that of both of them misses so many dimensions more.
    at = setting(kind, code=LagrangeCode(Basis((10007,)), 5, 2, 1), m=9, d=4)
    assert undetected(at, about_kept=True) == undetected(at) + at.kept[0].shape[1]


@pytest.mark.parametrize("kind", ["points", "centers", "moved", "halves"])
def test_a_constant_on_a_column_is_noticed_by_the_identity_alone(kind, monkeypatch):
    at = setting(kind)
    lie = nothing(at)
    lie[0][:, 0] = 12345
    assert not play(at, lie=lie).passes()
    if kind == "points":
        lie[0][:, :, at.check.own < 0] = 0
        assert not play(at, lie=lie).passes()


@pytest.mark.parametrize("kind", KINDS)
def test_one_false_residue_is_always_noticed(kind):
    for seed in range(short(25, nightly=400)):
        rng = np.random.default_rng(seed)
        at = setting(kind, code=CODES[seed % 3], seed=seed, d=4)
        for part in (0, 1):
            lie = nothing(at)
            place = tuple(int(rng.integers(n)) for n in lie[part].shape)
            if kind.endswith("halves") and part == 0 and at.check.sizes[at.check.halves[place[2]] ^ 1] == 0:
                continue
            lie[part][place] = rng.integers(1, 1 << 29)
            assert not play(at, seed, lie=lie).passes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("which", ["a", "v"])
def test_one_false_word_is_always_noticed(kind, which):
    for seed in range(short(10, nightly=200)):
        rng = np.random.default_rng(seed)
        played = play(setting(kind, code=CODES[seed % 3], seed=seed), seed)
        words = getattr(played, which)
        if not words:
            continue
        words = words[int(rng.integers(len(words)))]
        words.reshape(-1)[int(rng.integers(words.size))] ^= 1
        with pytest.raises(OffPolynomial, match="lie on no polynomial of degree"):
            played.passes()


def test_too_few_words_say_nothing():
    code = CODES[1]
    with pytest.raises(ValueError, match="5 fix what honest clients say"):
        open_words(code, BASIS, {j: np.zeros((2, 1), np.uint32) for j in range(4)})


# --- refuted variants, as controls ----------------------------------------------------------------


def test_a_row_0_that_is_answered_after_the_coins_hides_any_lie():
    at = setting("points")
    lie = nothing(at)
    lie[0][:, 1, 2] = 777
    assert not play(at, lie=lie).passes()
    weights = at.check.draw_weights(at.basis, SeededCoins(0, "public"))
    owed = at.basis.negate(weights.combine(*lie))  # (lanes, R)
    k = at.check.zeros
    for r in range(REPETITIONS):
        for lane, p in enumerate(at.basis.primes):
            lie[1][lane, r * k] = int(owed[lane, r]) * pow(int(weights.zero[lane, r, 0]), -1, p) % p
    assert play(at, lie=lie).passes()


def test_two_coin_sets_open_a_sum_of_everybodys_rows():
    """So those who know the coins compare digests of them before they say a word."""
    code = LagrangeCode(Basis((10007,)), 3, 1, 1)
    at, p = setting("points", code=code), 10007
    coins = SeededCoins(0, "zero")
    zero = [s.reshape(1, 2, 1, 4) for s in code.share(at.basis.sample((1, 8), coins), coins)]
    one, other = (at.check.draw_weights(at.basis, SeededCoins(seed, "public")) for seed in (0, 1))

    def at_zero(weights, j):
        """Client 0 adds what it would have said itself to what client j says."""
        words = {
            i: weights.masked_row(at.rows[i], at.columns[i], zero[i]).reshape(-1).astype(object)
            for i in (0, j)
        }
        x, y = code.alphas[0], code.alphas[j]
        slope = (words[j] - words[0]) * pow(y - x, -1, p)
        return (words[0] + slope * (code.betas[0] - x)) % p

    points = code.decode({j: at.rows[j].read_rows(0, 11) for j in (0, 1)}, 1)[0].astype(object)
    difference = (one.points[0].astype(object) - other.points[0].astype(object)) @ points % p
    assert ((at_zero(one, 1) - at_zero(other, 2)) % p == difference.reshape(-1)).all()


def test_a_product_that_is_opened_by_its_own_degree_is_what_the_last_says():
    """With 2 t + 1 clients, words on a polynomial of degree 2 t contradict nobody."""
    code, coins = CODES[0], SeededCoins(0, "last")
    words = {j: BASIS.sample((1,), coins) for j in range(3)}
    opened = code.decode(words, 2)
    words[2] = BASIS.add(words[2], BASIS.sample((1,), coins))
    assert (code.decode(words, 2) != opened).all()


# --- what is opened -------------------------------------------------------------------------------


def null_space(matrix, p):
    """Rows y with y matrix = 0 modulo p."""
    rows, columns = matrix.shape
    whole = np.concatenate([matrix % p, np.eye(rows, dtype=np.int64)], axis=1).astype(object)
    done = 0
    for column in range(columns):
        pivot = next((i for i in range(done, rows) if whole[i, column] % p), None)
        if pivot is None:
            continue
        whole[[done, pivot]] = whole[[pivot, done]]
        whole[done] = whole[done] * pow(int(whole[done, column]), -1, p) % p
        for i in range(rows):
            if i != done:
                whole[i] = (whole[i] - whole[i, column] * whole[done]) % p
        done += 1
    return whole[done:, columns:].astype(np.int64)


def law(kind, code, points, centers, *, seed=0, client=0, u="own", server=False):
    """How often each view of client `client` occurs, over all coins of everybody: (view, count).

    Its shares, and all words of A and V; with `server` also what a server decodes of row 0.  Masked replies
    are uniform, and what a dealer says of its masks follows.  u: "own" of each segment, "shared" or "none".
    u is not enumerated: what it can add to a view is a space, modulo which views are counted.
    centers: (k, width * ell) of "centers", "planes" (with a constant ahead) and "sums"; else sums of points.
    """
    (p,), ell, t, n = code.basis.primes, code.ell, code.t, code.threshold(2)
    own = centers is None
    m, d = points.shape
    width = d // ell
    labels = np.arange(m) if own else None
    k = m if own else len(centers)
    check = {
        "points": lambda: DistanceCheck(m, (1,) * k, labels),
        "centers": lambda: DistanceCheck(m, tuple(range(1, k + 1)), None),
        "halves": lambda: HalfCheck(labels, (1,) * k, True),
        "two halves": lambda: HalfCheck(labels, (1,) * k, True),
        "planes": lambda: PlaneCheck(m, k),
        "squared points": lambda: SquaredCheck(m, (1,) * k, labels),
        "squares": lambda: SquareCheck(m, tuple((np.array(centers) ** 2).sum(axis=1).tolist())),
        "sums": lambda: SumCheck(k, ell, width),
        "pairs": lambda: PairCheck(((0, 1),), (1, 1)),
    }[kind]()
    w = check.draw_weights(code.basis, SeededCoins(seed, "law"))
    carry = np.array(transfer(code, (*code.betas,), code.alphas[:n]))  # (n, ell + t)
    products, zeros = check.products, check.zeros
    secret = (
        []
        if kind == "sums"
        else [points[i].reshape(ell, width)[:, f] for i in range(m) for f in range(width)]
    )
    heads = 1 if kind == "planes" else 0
    if not own:
        for row in centers:
            secret += [np.full(ell, row[0])] * heads
            secret += [row[heads:].reshape(ell, width)[:, f] for f in range(width)]
    if "square" in kind:
        secret += [(row.reshape(ell, width) ** 2).sum(axis=1) for row in points]
    count = len(secret) * t + (0 if kind == "sums" else products * width * (ell + t))
    grid = np.stack(np.meshgrid(*[np.arange(p)] * count, indexing="ij"), -1).reshape(-1, count)
    noise = iter(grid.T)
    shares = []
    for value in secret:
        at_betas = [np.full(len(grid), int(x)) for x in value] + [next(noise) for _ in range(t)]
        shares.append(carry @ np.stack(at_betas) % p)  # (n, coins)
    zero, zero_open = [], []
    if kind != "sums":
        for _ in range(products * width):
            values = np.stack([next(noise) for _ in range(ell + t)])
            zero.append(carry @ values % p)
            zero_open.append(values[:ell])
    # The first repetition.
    a, linear, among, first_zero = (x[0, 0].astype(np.int64) for x in (w.points, w.linear, w.sums, w.zero))
    x = np.array(shares[: 0 if kind == "sums" else m * width]).reshape(-1, width, n, len(grid))
    column = x
    if not own:
        held = np.array(shares[len(x) * width :][: k * (heads + width)])
        column = held.reshape(k, heads + width, n, len(grid))
    words, opened = [], []
    if kind != "sums":
        belongs = np.zeros(m, int) if w.product is None else w.product
        a = a if kind != "pairs" else np.zeros(m, int)  # of sums alone
        for c in range(products):
            mine = np.where(belongs == c, a, 0)
            word = np.einsum("i,ifjc->fjc", mine, x) + np.array(zero)[c * width : (c + 1) * width]
            if among.any():
                word = word + np.einsum("h,hfjc->fjc", among[c], column[:, heads:])
            words.append(word % p)
            back = np.array(transfer(code, code.alphas[: ell + t], code.betas[:ell]))
            opened.append(np.einsum("vj,fjc->vfc", back, words[-1][:, : ell + t]) % p)
    else:
        opened = [np.broadcast_to(w.given[0, :, 0, 0].astype(np.int64)[..., None], (ell, width, len(grid)))]
    product = np.zeros((ell, n, len(grid)), np.int64)
    for c in range(products):
        plane = np.einsum("h,hfjc->fjc", linear[c], column) % p
        if heads:
            product += int(w.ones[0, 0]) * plane[0]
        product += np.einsum("vfc,fjc->vjc", opened[c], plane[heads:]) % p
    if "square" in kind:
        product += np.einsum("i,ijc->jc", w.squares[0, 0].astype(np.int64), np.array(shares[-m:])) % p
    # What u adds: its own shares, words of V at all clients; of row 0 at a server.
    masks = 1 if u == "shared" else ell
    coins_u = np.eye(zeros * masks * (ell + t), dtype=np.int64).reshape(zeros, masks, ell + t, -1)
    if u == "none":
        coins_u = coins_u[..., :0]
    held = np.einsum("b,zvbq->zvq", carry[client], coins_u)
    weighed = np.einsum("z,zvbq->vbq", first_zero, coins_u)
    said = np.einsum("jb,vbq->vjq", carry, weighed if u != "shared" else np.repeat(weighed, ell, axis=0))
    rows = [held.reshape(zeros * masks, -1), said.reshape(ell * n, -1)]
    known = [np.zeros((zeros * masks, len(grid)), np.int64), product.reshape(ell * n, -1)]
    if server:
        assert kind in ("points", "squared points", "pairs")
        first = np.array(zero_open)  # (width, ell, coins)
        at = [points[h].reshape(ell, width).T[..., None] for h in range(k)]
        if kind == "points":
            replies = [((x - first) ** 2).sum((0, 1)) for x in at]
        elif kind == "squared points":
            replies = [(x * (x - 2 * first)).sum((0, 1)) for x in at]
        else:
            replies = [(x * first).sum((0, 1)) for x in at]
            replies += [(at[g] * at[h] + 0 * first).sum((0, 1)) for g, h in ((0, 0), (0, 1), (1, 1))]
        rows.append(
            np.stack([sum(coins_u[h, v if u == "own" else 0, v] for v in range(ell)) for h in range(zeros)])
        )
        known.append(np.array(replies))
    rest = null_space(np.concatenate(rows), p) @ (np.concatenate(known) % p) % p
    view = [
        *(s[client] for s in shares),
        *(z[client] for z in zero),
        *(v for word in words for v in word[:, : ell + t].reshape(-1, len(grid))),  # others follow
    ]
    view = np.concatenate([np.array(view).reshape(-1, len(grid)), rest]) if view else rest
    # Each view as one number, where that is one.
    key = p ** np.arange(len(view)) @ view if p ** len(view) < 2**63 else view
    return np.unique(key, axis=-1, return_counts=True)


def transfer(code, xs, ys):
    from field.code.lagrange_code import transfer_rows

    return transfer_rows(tuple(xs), tuple(ys), code.basis.primes[0])


def alike(laws):
    first = laws[0]
    return all(x.shape == first[0].shape and (x == first[0]).all() and (c == first[1]).all() for x, c in laws)


class Tiny(LagrangeCode):
    """Modulo 5 there is room for three clients if one sits at 0."""

    def __post_init__(self):
        pass

    @property
    def alphas(self):
        return (3, 4, 0)


FIVE, ELEVEN = Tiny(Basis((5,)), 3, 1, 1), LagrangeCode(Basis((11,)), 5, 2, 1)
HIDDEN = "points", "squared points", "centers", "halves", "planes", "squares", "sums", "pairs"
ONE = [np.array(x).reshape(2, 1) for x in ([0, 0], [1, 0], [2, 4], [3, 3])]
TWO = [np.array(x).reshape(2, 2) for x in ([0, 0, 0, 0], [1, 2, 0, 5], [10, 3, 3, 4])]


def secrets(kind, code):
    """Rows, and centers or planes, None if these are sums of rows."""
    if kind == "two halves":
        return [(np.concatenate([x, y]), None) for x, y in pairwise(ONE)]
    if kind in ("points", "squared points", "halves", "pairs"):
        return [(x, None) for x in (ONE if code is FIVE else TWO)]
    if kind == "squares":
        few = ONE if code is FIVE else TWO
        return [(x[:1], y[:1]) for x, y in zip(few, few[::-1], strict=True)]
    if code is FIVE:
        planes = [np.array(x).reshape(2, 2) for x in ([0, 0, 0, 0], [1, 2, 3, 4], [4, 4, 1, 0])]
        if kind == "planes":
            return [(x[:1], y[:1]) for x, y in zip(ONE, planes, strict=False)]
        return list(zip(ONE, ONE[::-1], strict=True))
    if kind == "planes":
        return [(x[:1], np.concatenate([x[:1, :1], x[1:]], axis=1)) for x in TWO]
    return list(zip(TWO, TWO[::-1], strict=True))


@pytest.mark.parametrize(
    ("kind", "code"),
    [(kind, FIVE) for kind in (*HIDDEN, "two halves")]
    + by_night(*((kind, ELEVEN) for kind in ("points", "halves", "sums", "pairs"))),
)
def test_what_is_opened_has_one_law_whatever_the_rows_are(kind, code):
    for client in range(short(2, nightly=code.threshold(2))):
        for seed in range(short(1, nightly=4)):
            few = secrets(kind, code)[: short(3, nightly=4)]
            assert alike([law(kind, code, x, y, seed=seed, client=client) for x, y in few])
    assert not alike([law(kind, code, x, y, seed=1, u="none") for x, y in secrets(kind, code)])


def test_one_u_for_two_segments_shows_the_centers():
    few = secrets("points", ELEVEN)
    assert not alike([law("points", ELEVEN, x, y, seed=1, u="shared") for x, y in few])


@pytest.mark.parametrize("kind", ["points", "squared points", "pairs"])
def test_a_server_that_has_the_distances_learns_no_more(kind):
    """Rows that are moved as one, or mirrored, have the same distances."""
    x = np.array([[0], [2]])
    same = [x, x + 1, x + 3, -x % 5]
    for seed in range(3):
        assert alike([law(kind, FIVE, y, None, seed=seed, server=True) for y in same])
    assert not alike([law(kind, FIVE, y, None, seed=0, server=True, u="none") for y in same])


# --- bounds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [3, 2**31 - 1, MERSENNE_61, LANE_PRIMES[0]])
def test_sums_of_largest_and_smallest_residues(p):
    basis = Basis((p,))
    for count in (1, 2, 3, 1 << 16):
        for low, high in ((p - 1, p - 1), (0, 0), (p - 1, p - 2), (1, p - 1)):
            values = np.full((1, 2, count), high, basis.dtype)
            values[0, 0, 0] = low
            want = [(low + (count - 1) * high) % p, count * high % p]
            assert sum_last(basis, values)[0].tolist() == want
    # Halves of 31 bits, of 2**33 residues, are below 2**64; of a few more they are not.
    assert (2**33 + 4) * (2**31 - 1) < 2**64 <= (2**33 + 5) * (2**31 - 1)


def test_single_residues_are_added_as_any():
    basis = Basis((MERSENNE_61,))
    assert basis.add(np.array([5], np.uint64), np.array([MERSENNE_61 - 2], np.uint64)).tolist() == [3]
