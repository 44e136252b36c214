"""Testing that shared rows are what an honest client could share, before anybody computes on them.

Roles around `field.code.projections`, which says what is proven and why nothing else is shown.  Once its
shares have arrived, every client takes part in a toss of coins (`secfc.roles.toss`), so the signs that rows
are projected under are fixed after all rows, and nobody chose them.  Each dealer then names the mask words
that hide its projections, and every client tells its shares of them to the server and to t + 1 verifying
clients, one of whom is honest: they all judge, so that no server can wave through what a client dealt.

A dealer binds its choice to the coins as it was told them, and a client tells of a dealer only under the same
coins: two projections under one mask, for a server that told different coins to different clients, are never
told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.opened import Finding, Opened, Pattern, judge, passes, project_integers, split
from field.code.projections import Choice, MaskShortage, choose
from field.code.rows import CodedRows
from field.secrets.coins import Coins
from secfc.coded.membership import Contribution
from secfc.coded.plan import Plan
from secfc.coded.screening import Screening
from secfc.coded.validity_messages import Hiding, Projected, TossedSeed
from secfc.coded.verified import counted_by_server, judge_dealers
from secfc.roles.accept import check_residues, checked, well_formed
from secfc.roles.exchange import (
    SERVER,
    SHARE,
    Exchange,
    FaultyClient,
    FaultyServer,
    MasksSpent,
    PartyId,
    Role,
    RowsRefused,
    SuspectedParties,
    TooFewReplies,
    only,
    take,
    to_all,
)
from secfc.roles.messages import Contributors
from secfc.roles.toss import Table, seed_for, toss_at_server, toss_with

Array = NDArray[Any]

OFF_CODE = "dealt shares of its rows that lie on no polynomial"
FALSE = "what was told of the rows of one client contradicts itself"
EMPTY: Array = np.zeros(0, np.int64)
TOO_LARGE = "dealt rows of values far beyond the public bound"


@dataclass(frozen=True, eq=False)
class Received:
    """What a client holds after sharing, before any of it is believed.  Secret.

    rows; masks: shares (lanes, count, words) of masks, one array a message, by dealer.  complete: of which
    dealers all came, (n,) bool.  own: the integers (count, words, ell) of the masks that it dealt itself.
    """

    rows: CodedRows
    masks: dict[PartyId, list[Array]]
    complete: Array
    own: list[Array]


# --- common coins ------------------------------------------------------------------------------------


def table_of(plan: Plan) -> Table:
    """Who tosses the coins that signs are drawn from, right after sharing."""
    needed = plan.code.threshold(2) + plan.liars
    return Table(plan.computing, plan.digest(), needed, SHARE + max(plan.chunks))


def testing(plan: Plan) -> int:
    """The round in which projections are hidden; they are told in the next one."""
    # A toss takes two rounds, and once more for each client that falls silent.
    return SHARE + max(plan.chunks) + 2 * len(plan.computing)


def pattern_of(plan: Plan, seed: bytes) -> Pattern:
    """The signs that all rows are projected under, and what of the sums is told."""
    return Pattern.draw(plan.projections, plan.code.basis, Coins(seed_for(seed, b"secfc signs")[:16]))


def echo_of(seed: bytes) -> bytes:
    """What names the coins to those who were told the same."""
    return seed_for(seed, b"secfc echo")


# --- client -------------------------------------------------------------------------------------------


def prove_rows(plan: Plan, mine: Contribution, received: Received, coins: Coins) -> Role[Array]:
    """Toss coins, hide and tell projections, judge them if I am to, hear whose rows count: (n,) bool.

    Raises FaultyClient, SuspectedParties, RowsRefused, MasksSpent, FaultyServer, TooFewReplies.
    """
    me, number = plan.numbers[mine.name], testing(plan)
    seed, there = yield from toss_with(table_of(plan), mine.name, coins)
    pattern = pattern_of(plan, seed)
    present = tuple(c for c, tossed in zip(plan.computing, there, strict=True) if tossed)
    others = tuple(c for c in present if c != mine.name)
    send: dict[PartyId, Any] = {}
    chosen: dict[int, list[Choice]] = {}
    if plan.blocks[me]:
        chosen[me] = hidden(plan, mine, received.own, pattern)
        send = to_all(others, _announced(seed, chosen[me]))
    awaited = tuple(c for c in (*others, *plan.resting) if _awaited(plan, received, plan.numbers[c]))
    inbox = yield Exchange(send, awaited, 0, round=number, phase="share")
    chosen |= heard(plan, seed, inbox)
    told = projected(plan, received, chosen, pattern)
    received.masks.clear()  # they have hidden what they were dealt for
    verifying = verifiers(plan, present)
    to = tuple(c for c in verifying if c != mine.name)
    awaited = others if mine.name in verifying else ()
    inbox = yield Exchange(
        to_all((*to, SERVER), told), awaited, 0,
        round=number + 1, phase="share",
    )  # fmt: skip
    good = (well_formed if plan.liars else checked)(inbox, Projected, partial(check_projected, plan))
    inbox = yield Exchange({}, (SERVER,), round=number + 1, phase="share")
    contributors = counted_by_server(plan, inbox)
    if not plan.liars and (contributors & ~told.complete).any():
        raise FaultyServer(SERVER, "counts on rows that did not come")
    if mine.name in verifying:
        heard_of = {plan.seats[mine.name]: told} | {plan.seats[c]: m for c, m in good.items()}
        verify(plan, pattern, heard_of, contributors, coins)
    return contributors


def hide_rows(plan: Plan, mine: Contribution, dealt: list[Array]) -> Role[None]:
    """The part of a client that does not work: hear the coins from the server, hide projections.

    dealt: the integers of the masks that it dealt.  A server that told it other coins than the workers gets
    nothing for it: they tell of a dealing only under the coins that they tossed.

    Raises MasksSpent; TooFewReplies if the server fell silent.
    """
    number = testing(plan)
    inbox = yield Exchange({}, (SERVER,), round=number, phase="share")
    seed = only(take(inbox, TossedSeed), SERVER).value
    hiding = _announced(seed, hidden(plan, mine, dealt, pattern_of(plan, seed)))
    yield Exchange(to_all(plan.computing, hiding), round=number, phase="share")


def _awaited(plan: Plan, received: Received, dealer: int) -> bool:
    return bool(plan.blocks[dealer]) and bool(received.complete[dealer])


def verifiers(plan: Plan, present: tuple[PartyId, ...]) -> tuple[PartyId, ...]:
    """The clients that judge besides the server: t + 1 of those that are there, so one that is honest."""
    return present[: plan.code.t + 1]


def hidden(plan: Plan, mine: Contribution, masks: list[Array], pattern: Pattern) -> list[Choice]:
    """The mask words that hide projections of my rows, for each message of shares."""
    me = plan.numbers[mine.name]
    out = []
    for number, mask in enumerate(masks):
        sums = project_integers(mine.read(*plan.part(me, number)), plan.code.ell, pattern.signs)
        try:
            out.append(choose(plan.projections, sums, mask))
        except MaskShortage:
            raise MasksSpent from None
    return out


def _announced(seed: bytes, chosen: list[Choice]) -> Hiding:
    masks = np.concatenate([choice.masks for choice in chosen])
    return Hiding(echo_of(seed), masks, np.concatenate([choice.used for choice in chosen]))


def heard(plan: Plan, seed: bytes, inbox: Mapping[PartyId, Any]) -> dict[int, list[Choice]]:
    """What other dealers chose, by number, for each message of shares; checked.

    With liars planned for, who announces nothing that fits counts as one that said nothing.
    """
    out: dict[int, list[Choice]] = {}
    taken = (well_formed if plan.liars else checked)(inbox, Hiding, partial(check_hiding, plan))
    for sender, message in taken.items():
        j = plan.numbers[sender]
        if message.digest != echo_of(seed):
            if plan.liars:
                continue
            raise SuspectedParties(
                (sender, SERVER), f"{sender} says that it was told other coins than were told here"
            )
        out[j] = _parts(plan, j, message)
    return out


def _parts(plan: Plan, dealer: int, message: Hiding) -> list[Choice]:
    parts, at = [], 0
    for number in range(plan.chunks[dealer]):
        end = at + plan.blocks_of[dealer][number]
        parts.append(Choice(message.masks[at:end], message.used[at:end]))
        at = end
    return parts


def check_hiding(plan: Plan, sender: PartyId, message: Hiding) -> None:
    """Raises FaultyClient naming who chose masks that it did not deal, or one of them twice."""
    j = plan.numbers[sender]
    if message.masks.shape != (plan.blocks[j],) or len(message.used) != plan.blocks[j]:
        raise FaultyClient(sender, "hides other rows than it dealt")
    for number, choice in enumerate(_parts(plan, j, message)):
        if not choice.fits(plan.projections.odds, plan.blocks_of[j][number], plan.masks(j, number)):
            raise FaultyClient(
                sender, "hides its rows under masks that it did not deal, or one of them twice"
            )


def projected(
    plan: Plan, received: Received, chosen: Mapping[int, list[Choice]], pattern: Pattern
) -> Projected:
    """What I tell of the shares that I was dealt."""
    empty = np.array([not blocks for blocks in plan.blocks])
    has = np.array([j in chosen for j in range(len(plan.clients))])
    complete = received.complete & (empty | has)
    parts = [
        pattern.sums(received.rows.read(batch.begin, batch.end), batch.firsts, batch.counts)
        for batch in plan.batches
    ]
    opened = Opened.join(parts) if parts else pattern.sums(plan.code.basis.reduce(EMPTY), EMPTY, EMPTY)
    masks: list[tuple[Choice, Array, slice]] = []
    for group, where in zip(plan.groups, plan.block_slices, strict=True):
        if not complete[list(group)].all():
            # Nothing is told of these, and what there is of them was never hidden.
            opened.clear(where)
            continue
        at = where.start
        for number, blocks in enumerate(plan.blocks_of[group[0]]):
            own = slice(at, at + blocks)
            masks += [(chosen[j][number], received.masks[plan.clients[j]][number], own) for j in group]
            at += blocks
    pattern.hide(opened, masks)
    return Projected(complete, opened.sums, opened.checks)


def check_projected(plan: Plan, sender: PartyId, message: Projected) -> None:
    """Raises FaultyClient naming the sender of anything but residues of all words, and a bool a dealer."""
    if message.complete.shape != (len(plan.clients),):
        raise FaultyClient(sender, "told of other dealers than there are")
    test, blocks = plan.projections, plan.block_slices[-1].stop
    first, rest = split(test, plan.code.basis)
    check_residues(first, sender, message.values, (blocks, test.rows))
    if rest:
        check_residues(rest, sender, message.checks, (blocks, test.checks(plan.code.basis)))
    elif message.checks.size:
        raise FaultyClient(sender, "told of lanes that there are not")


# --- whoever judges -----------------------------------------------------------------------------------


def found(plan: Plan, pattern: Pattern, told: Mapping[int, Opened], errors: int) -> Finding:
    """What was told, by number of the receiver, says of a dealing."""
    if not next(iter(told.values())).sums.size:
        return Finding(True, True)
    return judge(plan.code, pattern, told, errors)


def verify(plan: Plan, pattern: Pattern, told: Mapping[int, Projected], counted: Array, coins: Coins) -> None:
    """Refuse rows that count and do not pass.

    Words are told by at least threshold(2) clients, of whom t may collude: the others fix the polynomial.
    If nobody lies, nobody is blamed.  A dealer is named if no polynomial of the code is near what was told of
    it, or its values are out of range; where few receivers are off, one of them or the dealer lied.
    coins: of whoever judges, secret until all was told.

    Raises FaultyClient, SuspectedParties, RowsRefused, TooFewReplies.
    """
    slices = plan.block_slices
    opened = {j: Opened(m.values, m.checks) for j, m in told.items()}
    whole = len(told) >= plan.code.threshold(2) and all(m.complete.all() for m in told.values())
    # Most often nothing is amiss, and all dealings can be looked at together.
    if whole and counted.all() and (not slices[-1].stop or passes(plan.code, pattern, opened, coins)):
        return
    for group, where in zip(plan.groups, slices, strict=True):
        if not counted[list(group)].all():
            continue
        words = {j: opened[j].of(where) for j, m in told.items() if m.complete[list(group)].all()}
        if len(words) < plan.code.threshold(2):
            raise TooFewReplies(plan.code.threshold(2), tuple(plan.computing[j] for j in words))
        errors = (len(words) - plan.code.threshold(1)) // 2
        finding = found(plan, pattern, words, min(plan.liars, errors) if plan.liars else errors)
        if finding.good or (plan.liars and finding.on_code and finding.small):
            continue
        if len(group) > 1:
            raise RowsRefused
        dealer = plan.clients[group[0]]
        if not finding.on_code and errors:
            raise FaultyClient(dealer, OFF_CODE)
        if not finding.on_code:
            # Of so few words a single false one looks like a false dealing.
            told_by = (plan.computing[j] for j in words)
            raise SuspectedParties(tuple(dict.fromkeys((dealer, *told_by))), FALSE)
        if not finding.small:
            raise FaultyClient(dealer, TOO_LARGE)
        receivers = tuple(plan.computing[j] for j in finding.receivers)
        raise SuspectedParties(tuple(dict.fromkeys((dealer, *receivers))), FALSE)


def judge_at_server(plan: Plan, screening: Screening) -> Role[Array]:
    """Whose rows count, (n,) bool; the screening learns who is there and who lied.

    Raises what `verify` raises, and TooFewReplies, LiarsExceeded.
    """
    number, needed = testing(plan), screening.needed(2)
    seed, hearing = yield from toss_at_server(table_of(plan), plan.computing, lenient=bool(plan.liars))
    dealing = [c for c in plan.resting if plan.blocks[plan.numbers[c]]]
    if dealing:
        yield Exchange(to_all(dealing, TossedSeed(seed)), round=number, phase="share")
    # Who is not heard now is not asked again, so all who are there are waited for.
    inbox = yield Exchange({}, hearing, 0, round=number + 1, phase="share")
    told = screening.checked(inbox, Projected, partial(check_projected, plan))
    screening.present = tuple(c for c in plan.computing if c in told)
    if len(screening.active) < needed:
        raise TooFewReplies(needed, screening.active)
    pattern = pattern_of(plan, seed)
    if plan.liars:
        complete = {c: m.complete for c, m in told.items()}
        opened = {c: Opened(m.values, m.checks) for c, m in told.items()}
        counted = judge_dealers(plan, screening, complete, opened, pattern)
    else:
        counted = np.logical_and.reduce([message.complete for message in told.values()])
        by_number = {plan.seats[c]: m for c, m in told.items()}
        verify(plan, pattern, by_number, counted, screening.coins)
    # Whose words were lost may lack rows that count: it is not there any more, and is told nothing.
    to = hearing if plan.liars else screening.present
    yield Exchange(to_all(to, Contributors(counted)), round=number + 1, phase="share")
    return counted
