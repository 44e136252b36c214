"""Roles around `secfc.coded.duplicates`: every client and the server divide rows by how many hold them,
unseen.

Indicators of rows come first (`CountHolders`).  Then rows leave in the chunks in which they were shared.
Each takes three messages: shares of masks among clients, masked rows to the server, and what it makes of them
to all clients.  Rows that chance left undivided are taken once more.  At last what came out is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import LagrangeCode, transfer_matrix
from field.code.rows import CodedRows
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.plan import CodedPlan
from secfc.errors import FaultyServer, TooFewReplies, UnionFailed
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import (
    PHASE,
    SERVER,
    SETTLE,
    Exchange,
    PartyId,
    Role,
    expect_all,
    expect_messages,
    expect_one,
    to_all,
)
from secfc.roles.messages import Message, check_all, check_residues, check_unsigned

# --------------------------------------------------------------------------------------------------
# Rows that several clients hold, divided by how many hold them, without opening how many.
#
# Every client has shared its points at its rows, zeros elsewhere, so a row is held as N = c x (or the sum of
# its holders' versions), c of n clients holding it.  Once more it shares an indicator, 1 at its rows: their
# sum is [c].  Dealers, t + 1 clients of whom one is honest, deal secret rho (one a row and lane) and s (one a
# value), and -s and 0 once more on polynomials of twice the degree.  With tau = ell + t - 1 the degree of all
# shares,
#
#     w = rho c + 0,    v = rho N - s        are opened to the server, as polynomials of degree 2 tau,
#     [y] = (v + [s]) / w = N / c            is degree tau again, and each client computes its share of it.
#
# What that shows (to the server with any t clients that follow the protocol): w is uniform, as rho is and c
# in [1, n] is invertible; v is uniform, as s is; both polynomials are uniform among those with these values,
# as the dealt 0 and -s are.  So nothing of c or of x, exactly, whatever c is.  w = 0, of probability 1/p a
# lane and row, is a matter of rho alone: that row is dealt anew.  Twice in a row is a row that nobody holds.
#
# A client that deals another indicator than 0 or 1, or answers falsely, would let the run go on with rows
# that are residues of any size (`field.code.range_check` tests N, not y), by which the client of A1
# reads others' data from labels.  So indicators are checked to be bits before anything is divided by their
# sum, and rows y before anything is computed on them: that c y = N, and that every holder of a row knows y.
# Where an honest client holds a row, y is its data; where one client alone says that it does, c is 1.  Not
# withstood: two clients that deviate, who may hold a row of theirs as N / 2, or by other indicators in
# another lane, so that it is of any size.  With opened counts (`psu.merge`) no row grows beyond its test.
# Two random coefficients a holder instead of the indicator do not help: then not even N is tested.


@dataclass(frozen=True, eq=False, repr=False)
class DivisionMasks:
    """Shares of one dealer, or sums of them: secret.

    low (lanes, rows, 1 + width): of rho, then of s.  high, the same shape: of 0 and -s on polynomials of
    twice the degree.
    """

    low: Array
    high: Array


def count_mask_dealers(code: LagrangeCode) -> int:
    """How many of the first clients deal blinds: one of them does not collude."""
    return code.t + 1


def deal_division_masks(code: LagrangeCode, rows: int, width: int, coins: Coins) -> list[DivisionMasks]:
    """One dealer's blinds for rows of `width` residues a share: an item a client."""
    basis, ell = code.basis, code.ell
    s = basis.sample((ell, rows, width), coins)
    rho = np.broadcast_to(basis.sample((1, rows, 1), coins), (basis.lanes, ell, rows, 1))
    low = np.concatenate([rho, s], axis=3)
    # `share` cuts the last axis into segments.
    lows = code.share(np.concatenate(list(low.transpose(1, 0, 2, 3)), axis=2), coins)
    high = np.concatenate([np.zeros_like(rho), basis.negate(s)], axis=3)
    return [DivisionMasks(*both) for both in zip(lows, _deal_high(code, high, coins), strict=True)]


def _deal_high(code: LagrangeCode, values: Array, coins: Coins) -> list[Array]:
    """Shares of segments (lanes, ell, rows, words) on uniform polynomials of degree 2 (ell + t - 1)."""
    basis, (lanes, ell, *shape) = code.basis, values.shape
    # These clients' shares are the free values, so they fix the polynomial together with the segments.
    free = code.threshold(2) - ell
    known = np.concatenate([values, basis.sample((free, *shape), coins)], axis=1).reshape(
        lanes, ell + free, -1
    )
    points = (*code.betas[:ell], *code.alphas[:free])
    rest = basis.matmul(transfer_matrix(basis, points, code.alphas[free:]), known)
    return [a.reshape(lanes, *shape) for a in [*known[:, ell:].swapaxes(0, 1), *rest.swapaxes(0, 1)]]


def mask_rows(basis: Basis, blinds: DivisionMasks, count: Array, rows: Array) -> Array:
    """My summand of w and v, (lanes, rows, 1 + width): from my shares of count (.., 1), rows (.., width)."""
    rho = np.ascontiguousarray(blinds.low[:, :, :1])
    product = basis.multiply(np.concatenate([count, rows], axis=2), rho)
    return basis.add(product, np.ascontiguousarray(blinds.high))


def open_quotients(code: LagrangeCode, told: dict[int, Array]) -> tuple[Array, Array]:
    """What the server makes of `mask_rows` from threshold(2) clients or more: v / w and 1 / w, both uniform.

    v / w is (lanes, ell, rows, width), 1 / w (lanes, rows).  Where w is 0 in any lane both are 0 in all.

    Raises TooFewValues.
    """
    basis, opened = code.basis, code.interpolate(told, 2)
    w = opened[:, 0, :, 0]
    inverse = np.where((w == 0).any(axis=0), basis.dtype.type(0), residue_inverses(basis, w))
    return basis.multiply(np.ascontiguousarray(opened[..., 1:]), inverse[:, None, :, None]), inverse


def unmask_factor(
    code: LagrangeCode, me: int, blinds: DivisionMasks, quotient: Array, inverse: Array
) -> Array:
    """My share of N / c, (lanes, rows, width), from what the server says; 0 where 1 / w is."""
    basis, (lanes, ell, *shape) = code.basis, quotient.shape
    matrix = transfer_matrix(basis, code.betas[:ell], (code.alphas[me],))
    mine = basis.matmul(matrix, quotient.reshape(lanes, ell, -1)).reshape(lanes, *shape)
    s = basis.multiply(np.ascontiguousarray(blinds.low[:, :, 1:]), inverse[:, :, None])
    return basis.add(mine, s)


def residue_inverses(basis: Basis, values: Array) -> Array:
    """Inverses of residues (lanes, N), 0 of 0, by Fermat's little theorem."""
    out = np.empty_like(values)
    for lane, p in enumerate(basis.primes):
        one = Basis((p,))
        base = np.ascontiguousarray(values[lane : lane + 1])
        power = np.ones_like(base)
        for bit in bin(p - 2)[2:]:
            power = one.multiply(power, power)
            power = one.multiply(power, base) if bit == "1" else power
        out[lane] = power[0]
    return out


# --------------------------------------------------------------------------------------------------
# What parties say while they divide rows by how many clients hold them (`secfc.coded.duplicates`).


class DivisionShares(Message, tag=170):
    """Client to client, hidden merging: shares of the masks that it deals.

    low and high (lanes, rows, 1 + width), residues that are uniform to the recipient.

    Under "with hidden membership": client, client (counts hidden).  Seen: shares of masks of the first `t
    + 1` clients: uniform at any `t` clients.  By deviating: false masks make other rows: noticed before
    anything is computed on them.
    """

    low: Array
    high: Array

    def __post_init__(self) -> None:
        for values in (self.low, self.high):
            check_unsigned(values, "shares for merging, (lanes, rows, words),")


class MaskedRows(Message, tag=171):
    """Client to server (and, to check it, to clients), hidden merging: its summand of rows, masked.

    values: (lanes, rows, 1 + width) residues, whose sums over clients are uniform.

    Under "with hidden membership": client, server (counts hidden).  Seen: a summand of uniform numbers on
    a uniform polynomial.  By deviating: a false summand makes other rows: noticed before anything is
    computed on them.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "masked rows, (lanes, rows, 1 + width),")


class DividedRows(Message, tag=172):
    """Server to every client, hidden merging: uniform residues, by which each computes its share of the rows.

    values: (lanes, ell * rows, width); inverse: (lanes, rows), 0 for rows that are dealt anew.

    Under "with hidden membership": server, client (counts hidden).  Seen: the uniform sums of
    `MaskedRows`, divided; whether chance (1 of 2^30 a lane and row) has a row dealt anew.  By deviating:
    the server: false or different ones: noticed before anything is computed on rows. With `verify=True`
    clients divide as it does, and suspect it, and one another.
    """

    values: Array
    inverse: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "divided rows, (lanes, ell * rows, width),")
        check_unsigned(self.inverse, "inverses, (lanes, rows),", axes=2)


# --------------------------------------------------------------------------------------------------

# After the search for disputes, which counts from SETTLE: indicators, and after so many rounds rows.
COUNTED = SETTLE + PHASE // 2
FIRST = COUNTED + 16
BOOKED = "align"

# Checks what became, in rounds from this one on, of my shares (lanes, m, width) of sums: merged rows.  Gives
# shares (lanes, m) of their squares, where comparisons need them.
DivisionCheck = Callable[[int, Array, Array], Role[Array | None]]
# In rounds from this one on: of the rows (m,) that I hold, and a reader of my integers at all rows, my share
# (lanes, m) of how many clients hold each, of indicators that are bits.
CountHolders = Callable[[int, Array, Callable[[int, int], Array]], Role[tuple[Array, DivisionCheck]]]


def divide_by_multiplicity(
    plan: CodedPlan,
    me: int,
    shares: CodedRows,
    counted: tuple[Array, DivisionCheck],
    coins: Coins,
    *,
    verify: bool = False,
) -> Role[None]:
    """A client's part: shares (m rows) of what all holders shared become those of the data of one of them.

    counted: what `CountHolders` gives.  verify: clients tell each other what they tell the server, and divide
    as it does; it sees as much, and may collude with any t of them.

    Raises UnionFailed if nobody holds some row; SuspectedParties for false quotients, if verified, and for
    rows that do not fit.
    """
    turns, (count, check) = _Turns(plan), counted
    summed = shares.read_rows(0, plan.m).copy()
    for number, rows in turns:
        answer = yield from _divide_some(plan, me, count[:, rows], rows, shares, number, coins, verify)
        turns.again(rows[(answer.inverse == 0).any(axis=0)])
    shares.squares = yield from check(turns.last + 2, summed, shares.read_rows(0, plan.m))


def _divide_some(
    plan: CodedPlan,
    me: int,
    counts: Array,
    rows: Array,
    shares: CodedRows,
    number: int,
    coins: Coins,
    verify: bool,
) -> Role[DividedRows]:
    code, width, name = plan.code, plan.code.width(plan.d), plan.clients[me]
    basis, count = code.basis, len(rows)
    others = tuple(c for c in plan.clients if c != name)
    mine = yield from _dealt_masks(plan, me, count, number, coins)
    values = mask_rows(basis, mine, counts[:, :, None], _read(shares, rows))
    told: dict[int, Array] = {}
    if verify:
        inbox = yield Exchange(to_all(others, MaskedRows(values)), others, 0, round=number + 1, phase=BOOKED)
        check = partial(_check_masked, plan, (count, 1 + width))
        heard = expect_all(check_all(inbox, MaskedRows, check), others)
        told = {me: values} | {plan.clients.index(c): message.values for c, message in heard.items()}
    inbox = yield Exchange({SERVER: MaskedRows(values)}, (SERVER,), round=number, phase=BOOKED)
    answer: DividedRows = expect_one(expect_messages(inbox, DividedRows), SERVER)
    fits = answer.values.shape == (basis.lanes, code.ell * count, width)
    if not fits or answer.inverse.shape != (basis.lanes, count):
        raise FaultyServer(SERVER, f"divided other rows than {count} of {width} residues")
    quotient = answer.values.reshape(basis.lanes, code.ell, count, width)
    if verify and not all(map(np.array_equal, (quotient, answer.inverse), open_quotients(code, told))):
        why = "the server divided rows otherwise than as clients told each other"
        raise suspect_parties("MaskedRows", why, server=SERVER, clients=others)
    _write(shares, rows, unmask_factor(code, me, mine, quotient, answer.inverse))
    return answer


def _dealt_masks(plan: CodedPlan, me: int, count: int, number: int, coins: Coins) -> Role[DivisionMasks]:
    """My shares of masks for so many rows, of all who deal them; those that I deal, if I do."""
    code, width, name = plan.code, plan.code.width(plan.d), plan.clients[me]
    dealers, dealt = plan.clients[: count_mask_dealers(code)], dict[PartyId, DivisionShares]()
    if name in dealers:
        blinds = deal_division_masks(code, count, width, coins)
        dealt = {c: DivisionShares(b.low, b.high) for c, b in zip(plan.clients, blinds, strict=True)}
    own = [dealt.pop(c) for c in (name,) if c in dealt]
    others = tuple(c for c in dealers if c != name)
    inbox = yield Exchange(dealt, others, 0, round=number, phase=BOOKED)
    check = partial(_check_masks, plan, (count, 1 + width))
    good = [*own, *expect_all(check_all(inbox, DivisionShares, check), others).values()]
    low, high = zip(*((message.low, message.high) for message in good), strict=True)
    return DivisionMasks(reduce(code.basis.add, low), reduce(code.basis.add, high))


def divide_by_multiplicity_at_server(plan: CodedPlan) -> Role[None]:
    """The server's part.  Raises TooFewReplies if fewer clients answer than decoding needs."""
    turns, code, width = _Turns(plan), plan.code, plan.code.width(plan.d)
    for number, rows in turns:
        inbox = yield Exchange({}, plan.clients, 0, accept=number, phase=BOOKED)
        good = check_all(inbox, MaskedRows, partial(_check_masked, plan, (len(rows), 1 + width)))
        if len(good) < code.threshold(2):
            raise TooFewReplies(code.threshold(2), tuple(good))
        told = {plan.clients.index(c): message.values for c, message in good.items()}
        quotient, inverse = open_quotients(code, told)
        flat = quotient.reshape(code.basis.lanes, -1, width)
        yield Exchange(to_all(plan.clients, DividedRows(flat, inverse)), round=number, phase=BOOKED)
        turns.again(rows[(inverse == 0).any(axis=0)])


class _Turns:
    """The rows of each turn by the number of its round: all in chunks, then those that were left, once.

    The round behind is for what clients tell each other besides.
    """

    def __init__(self, plan: CodedPlan) -> None:
        self.m, self.chunk, self.last = plan.m, plan.chunk, FIRST
        self._left: list[Array] = []

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        for start in range(0, self.m, self.chunk):
            yield self.last, np.arange(start, min(start + self.chunk, self.m))
            self.last += 2
        left = np.concatenate([np.arange(0), *self._left])
        if len(left):
            self._left = []
            yield self.last, left
            if sum(map(len, self._left)):
                raise UnionFailed("nobody says that it holds some row of the union", (), False)

    def again(self, rows: Array) -> None:
        """Rows that chance left undivided, or that nobody holds."""
        self._left.append(rows)


def _read(shares: CodedRows, rows: Array) -> Array:
    """Rows that follow one another, or any few: (lanes, rows, width)."""
    begin, end = int(rows[0]), int(rows[-1]) + 1
    if end - begin == len(rows):
        return shares.read_rows(begin, end)
    return np.concatenate([shares.read_rows(r, r + 1) for r in rows.tolist()], axis=1)


def _write(shares: CodedRows, rows: Array, values: Array) -> None:
    """Put these shares in the place of those before, except where they are 0: rows that come again."""
    changed = values.any(axis=(0, 2))
    shares.scale_rows(rows[changed], np.zeros((len(values), int(changed.sum())), values.dtype))
    if changed.all() and int(rows[-1]) + 1 - int(rows[0]) == len(rows):
        shares.add_rows(int(rows[0]), values)
        return
    for at in np.flatnonzero(changed).tolist():
        shares.add_rows(int(rows[at]), np.ascontiguousarray(values[:, at : at + 1]))


def _check_masks(plan: CodedPlan, shape: tuple[int, int], sender: PartyId, message: DivisionShares) -> None:
    """Raises FaultyClient naming who dealt anything else than was due."""
    for values in (message.low, message.high):
        check_residues(plan.code.basis, sender, values, shape)


def _check_masked(plan: CodedPlan, shape: tuple[int, int], sender: PartyId, message: MaskedRows) -> None:
    check_residues(plan.code.basis, sender, message.values, shape)
