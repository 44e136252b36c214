"""Roles around `secfc.coded.merging`: every client and the server divide rows by how many hold them, unseen.

Rows leave in the chunks in which they were shared.  Each takes three messages: shares of indicators and
blinds among clients, masked rows to the server, and what it makes of them to all clients.  Rows that chance
left undivided are taken once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import CodedRows
from field.secrets.coins import Coins
from secfc.coded.merging import (
    Blinds,
    deal_blinds,
    deal_indicator,
    dealers,
    divided,
    finished,
    masked,
)
from secfc.coded.merging_messages import DividedRows, Indicator, MaskedRows
from secfc.coded.plan import Plan
from secfc.roles.accept import check_residues, checked
from secfc.roles.exchange import (
    PHASE,
    SERVER,
    SETTLE,
    Exchange,
    FaultyServer,
    PartyId,
    Role,
    TooFewReplies,
    UnionFailed,
    everyone,
    only,
    take,
    to_all,
)

Array = NDArray[Any]

# After the search for disputes, which counts from SETTLE.
FIRST = SETTLE + PHASE // 2
BOOKED = "align"


def divide(
    plan: Plan, me: int, held: Array, shares: CodedRows, coins: Coins, *, verify: bool = False
) -> Role[None]:
    """A client's part: shares (m rows) of what all holders shared become those of the plan's multiple of it.

    held: (m,) bool, the rows that this client holds; secret.  verify: clients tell each other what they
    tell the server, and divide as it does; it sees as much, and may collude with any t of them.

    Raises UnionFailed if nobody holds some row; FaultyServer for false quotients, if verified.
    """
    turns = _Turns(plan)
    for number, rows in turns:
        answer = yield from _divide_some(plan, me, held[rows], rows, shares, number, coins, verify)
        turns.again(rows[(answer.inverse == 0).any(axis=0)])


def _divide_some(
    plan: Plan, me: int, held: Array, rows: Array, shares: CodedRows, number: int, coins: Coins, verify: bool
) -> Role[DividedRows]:
    code, width, name = plan.code, plan.code.width(plan.d), plan.clients[me]
    basis, deals, count = code.basis, me < dealers(code), len(rows)
    others = tuple(c for c in plan.clients if c != name)
    none = np.zeros((basis.lanes, 0, 1 + width), basis.dtype)
    blinds = deal_blinds(code, count, width, coins) if deals else [Blinds(none, none)] * code.n
    marks = deal_indicator(code, held, coins)
    dealt = {
        c: Indicator(mark, blind.low, blind.high)
        for c, mark, blind in zip(plan.clients, marks, blinds, strict=True)
    }
    own = dealt.pop(name)
    inbox = yield Exchange(dealt, others, 0, round=number, phase=BOOKED)
    good = everyone(checked(inbox, Indicator, partial(_check_indicator, plan, count)), others)
    total, low, high = own.count, *(np.zeros((basis.lanes, count, 1 + width), basis.dtype) for _ in range(2))
    for message in good.values():
        total = basis.add(total, message.count)
    for message in (own, *good.values()):
        if message.low.shape[1]:
            low, high = basis.add(low, message.low), basis.add(high, message.high)
    mine = Blinds(low, high)
    values = masked(basis, mine, total, _read(shares, rows))
    told: dict[int, Array] = {}
    if verify:
        inbox = yield Exchange(to_all(others, MaskedRows(values)), others, 0, round=number + 1, phase=BOOKED)
        check = partial(_check_masked, plan, (count, 1 + width))
        heard = everyone(checked(inbox, MaskedRows, check), others)
        told = {me: values} | {plan.clients.index(c): message.values for c, message in heard.items()}
    inbox = yield Exchange({SERVER: MaskedRows(values)}, (SERVER,), round=number, phase=BOOKED)
    answer: DividedRows = only(take(inbox, DividedRows), SERVER)
    fits = answer.values.shape == (basis.lanes, code.ell * count, width)
    if not fits or answer.inverse.shape != (basis.lanes, count):
        raise FaultyServer(SERVER, f"divided other rows than {count} of {width} residues")
    quotient = answer.values.reshape(basis.lanes, code.ell, count, width)
    if verify and not all(map(np.array_equal, (quotient, answer.inverse), divided(code, told))):
        raise FaultyServer(SERVER, "divided rows otherwise than what clients told it and each other")
    _write(shares, rows, finished(code, me, mine, quotient, answer.inverse, plan.layout.multiple))
    return answer


def divide_at_server(plan: Plan) -> Role[None]:
    """The server's part.  Raises TooFewReplies if fewer clients answer than decoding needs."""
    turns, code, width = _Turns(plan), plan.code, plan.code.width(plan.d)
    for number, rows in turns:
        inbox = yield Exchange({}, plan.clients, 0, accept=number, phase=BOOKED)
        good = checked(inbox, MaskedRows, partial(_check_masked, plan, (len(rows), 1 + width)))
        if len(good) < code.threshold(2):
            raise TooFewReplies(code.threshold(2), tuple(good))
        told = {plan.clients.index(c): message.values for c, message in good.items()}
        quotient, inverse = divided(code, told)
        flat = quotient.reshape(code.basis.lanes, -1, width)
        yield Exchange(to_all(plan.clients, DividedRows(flat, inverse)), round=number, phase=BOOKED)
        turns.again(rows[(inverse == 0).any(axis=0)])


class _Turns:
    """The rows of each turn by the number of its round: all in chunks, then those that were left, once.

    The round behind is for what clients tell each other besides.
    """

    def __init__(self, plan: Plan) -> None:
        self.m, self.chunk = plan.m, plan.chunk
        self._left: list[Array] = []

    def __iter__(self) -> Iterator[tuple[int, Array]]:
        number = FIRST
        for start in range(0, self.m, self.chunk):
            yield number, np.arange(start, min(start + self.chunk, self.m))
            number += 2
        left = np.concatenate([np.arange(0), *self._left])
        if len(left):
            self._left = []
            yield number, left
            if sum(map(len, self._left)):
                raise UnionFailed("nobody says that it holds some row of the union", (), False)

    def again(self, rows: Array) -> None:
        """Rows that chance left undivided, or that nobody holds."""
        self._left.append(rows)


def _read(shares: CodedRows, rows: Array) -> Array:
    """Rows that follow one another, or any few: (lanes, rows, width)."""
    begin, end = int(rows[0]), int(rows[-1]) + 1
    if end - begin == len(rows):
        return shares.read(begin, end)
    return np.concatenate([shares.read(r, r + 1) for r in rows.tolist()], axis=1)


def _write(shares: CodedRows, rows: Array, values: Array) -> None:
    """Put these shares in the place of those before, except where they are 0: rows that come again."""
    changed = values.any(axis=(0, 2))
    shares.scale(rows[changed], np.zeros((len(values), int(changed.sum())), values.dtype))
    if changed.all() and int(rows[-1]) + 1 - int(rows[0]) == len(rows):
        shares.add(int(rows[0]), values)
        return
    for at in np.flatnonzero(changed).tolist():
        shares.add(int(rows[at]), np.ascontiguousarray(values[:, at : at + 1]))


def _check_indicator(plan: Plan, rows: int, sender: PartyId, message: Indicator) -> None:
    """Raises FaultyClient naming who dealt anything else than was due."""
    basis, width = plan.code.basis, plan.code.width(plan.d)
    deals = plan.clients.index(sender) < dealers(plan.code)
    check_residues(basis, sender, message.count, (rows, 1))
    for values in (message.low, message.high):
        check_residues(basis, sender, values, (rows if deals else 0, 1 + width))


def _check_masked(plan: Plan, shape: tuple[int, int], sender: PartyId, message: MaskedRows) -> None:
    check_residues(plan.code.basis, sender, message.values, shape)
