"""Private set union as role fragments: the steps of `psu`, strung into rounds.

`psu` holds the mathematics and says what its messages reveal; here is only who sends what to whom.  The
server is the relay.  A client answers the server's questions until the union is announced, a committee
member among them opens shares when its turn comes.

Trust in identities: clients introduce their signing keys over the transport at the start, which suffices
against parties that follow the protocol.  Keys pinned beforehand are the transport's business.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import numpy as np

from field.arrays import Array
from field.secrets.channels import AlreadyUsed, Identity
from field.secrets.coins import Coins
from psu import align, disjoint, masked, merge, opening, peeling, tables
from psu.errors import UnionAborted
from psu.identify import Tags
from psu.keys import Ephemeral, Secrets, deal_keys, key_dealers, take_keys
from psu.messages import (
    Begin,
    Confirmation,
    HeldOnce,
    KeyPacket,
    MaskedBlock,
    Offer,
    Opening,
    ShareBlock,
    Turn,
    UnionTags,
)
from psu.plan import Sheet, UnionPlan
from secfc.coded.union_recheck import CommitteeRecheck, suspect_announcement
from secfc.errors import FaultyClient, FaultyServer, Indispensable, SharedIds, UnionFailed
from secfc.roles.exchange import ALIGN, SERVER, Exchange, PartyId, Role, expect_messages, expect_one, to_all
from secfc.roles.messages import Message, is_array, refuse_if

# --------------------------------------------------------------------------------------------------
# Rounds of a union, which rise between every pair of parties.

# Rounds between clients, where members tell each other openings: chunks in its first half, openings behind.
SPAN = 1 << 20


class RoundCounter:
    """Rounds between clients, and of uploads to the server: all clients count the same exchanges.

    Rounds of openings are not counted here: they carry the number of their turn.
    """

    def __init__(self) -> None:
        self.phase, self._between, self.uploads = ALIGN, 0, 0

    def span(self) -> None:
        """Leave room between clients for openings that members tell each other, which carry their numbers."""
        self._between += SPAN - self._between % SPAN

    def opened(self, number: int) -> int:
        """The round of such an opening, in the last span.  Raises FaultyServer for no number."""
        if not 0 < number < SPAN // 2:
            raise FaultyServer(SERVER, f"numbers an opening {number}")
        return self.phase + self._between - self._between % SPAN + SPAN // 2 + number

    def between(self) -> int:
        self._between += 1
        return self.phase + self._between

    def upload(self) -> int:
        self.uploads += 1
        return self.phase + self.uploads


# --------------------------------------------------------------------------------------------------
# What parties say of a union of rows (`secfc.coded.union`), beside the steps that find it.


class Introduction(Message, tag=2):
    """Client to client, before a union: its public signing key (32 bytes).

    Under "with hidden membership": client, client.  Seen: a signing key.  By deviating: whoever carries
    unsealed messages can replace every key, and **read everything**: pin identities, over sealed
    transport.
    """

    public: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.public) != 32, f"a signing key has 32 bytes, this one has {len(self.public)}")


class Multiplicities(Message, tag=3):
    """Server to every client, after a union: how many clients hold each row (m,), not which.

    Under "with hidden membership": server, client (counts opened).  Seen: how many clients hold each row,
    before any point is shared.  By deviating: the server: different counts to clients: `PlanMismatch`.
    False counts to all, or a client that claims or hides rows: **wrong labels**, unnoticed (the server's
    with `verify=True`: `SuspectedParties`), and noise covers a point only as far as it is counted right;
    nothing wraps. A large common multiple ends the run (`TooManyHolders`).
    """

    held: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.held, "u", 1), "how many hold a row is an unsigned number a row")
        refuse_if(int(self.held.min(initial=1)) < 1, "at least one client holds every row")


class Disputes(Message, tag=49):
    """Server to every client, once rows are shared: those whose holders have different data, ascending.

    Under "with hidden membership": server, client (merging).  Seen: with `on_conflict="fail"`: which rows
    have different data at their holders.  By deviating: the server: a false one ends the run; a hidden
    dispute makes the row the mean of its versions. Either makes it a suspect with `verify=True`.
    """

    rows: Array

    def __post_init__(self) -> None:
        rows = self.rows
        refuse_if(not is_array(rows, "i", 1), "disputed rows are a vector of integers")
        ascending = bool((rows[1:] > rows[:-1]).all()) and (not rows.size or int(rows[0]) >= 0)
        refuse_if(not ascending, "disputed rows are ascending, distinct and not negative")


# --------------------------------------------------------------------------------------------------

M = TypeVar("M")

PHASE = "align"


def by_client_number(
    inbox: Mapping[PartyId, Any], kind: type[M], clients: tuple[PartyId, ...]
) -> dict[int, M]:
    """Messages of this type by the number of their sender, which they hold themselves if they hold any.

    Raises FaultyClient naming the sender of anything else.
    """
    found = {clients.index(sender): message for sender, message in expect_messages(inbox, kind).items()}
    for j, message in found.items():
        if getattr(message, "sender", j) != j:
            raise FaultyClient(clients[j], "spoke in the name of another client")
    return found


@contextmanager
def blame_union_failure(clients: tuple[PartyId, ...]) -> Iterator[None]:
    """Turn a failure of the union into an error of the protocol, with the clients' names."""
    try:
        yield
    except UnionAborted as error:
        names = tuple(clients[j] for j in error.parties) + ((SERVER,) if error.relay else ())
        who = f" ({', '.join(names)}: {'proof' if error.proof else 'suspicion only'})" if names else ""
        raise UnionFailed(f"the union of IDs failed: {error.reason}{who}", names, error.proof) from error


# --- client ----------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False, eq=False)
class UnionMember:
    """One client's place in a union: its number, everybody's names, its keys and coins."""

    plan: UnionPlan
    clients: tuple[PartyId, ...]
    me: int
    secrets: Secrets
    coins: Coins
    clock: RoundCounter
    verify: bool = False

    @property
    def others(self) -> tuple[PartyId, ...]:
        return tuple(c for j, c in enumerate(self.clients) if j != self.me)

    @property
    def judges(self) -> tuple[PartyId, ...]:
        """The other members of the committee."""
        return tuple(self.clients[i] for i in self.plan.committee if i != self.me)


@dataclass
class SheetMember:
    """A committee member at one sheet: its state, and what it computes again if members check the server."""

    member: opening.OpeningMember
    recheck: CommitteeRecheck | None

    def __repr__(self) -> str:
        return f"Sitting({self.member!r})"


def join_union(
    plan: UnionPlan,
    clients: tuple[PartyId, ...],
    me: int,
    coins: Coins,
    clock: RoundCounter,
    *,
    verify: bool = False,
) -> Role[UnionMember]:
    """Introduce identities, agree on keys, deal and receive the keys of common randomness, and compare.

    verify: whether members compute again what the server announces.
    """
    others = tuple(c for j, c in enumerate(clients) if j != me)
    identity = Identity.draw(coins)
    inbox = yield from exchange_in_round(clock, to_all(others, Introduction(identity.public)), others)
    pinned = {j: m.public for j, m in by_client_number(inbox, Introduction, clients).items()}
    ephemeral = Ephemeral(plan, me, identity, coins)
    inbox = yield from exchange_in_round(clock, to_all(others, ephemeral.offer), others)
    offers = by_client_number(inbox, Offer, clients)
    ring = ephemeral.agree(offers, {**pinned, me: identity.public})
    packets = deal_keys(plan, ring, coins)
    own = {me: packets.pop(me)} if me in packets else {}
    awaited = tuple(clients[j] for j in key_dealers(plan, me) if j != me)
    inbox = yield from exchange_in_round(clock, {clients[j]: p for j, p in packets.items()}, awaited)
    received = by_client_number(inbox, KeyPacket, clients)
    seat = UnionMember(plan, clients, me, take_keys(plan, ring, {**received, **own}), coins, clock, verify)
    # Before any table is dealt: tags under two keys would show client 0 which of them are whose.
    yield from confirm_union(seat, None)
    return seat


def exchange_in_round(
    clock: RoundCounter, send: Mapping[PartyId, Any], expect: tuple[PartyId, ...]
) -> Role[Mapping[PartyId, Any]]:
    """What all of these clients say in the next round of theirs.  Raises Indispensable, `require_all`."""
    return require_all((yield Exchange(send, expect, 0, round=clock.between(), phase=PHASE)), expect)


def require_all(inbox: Mapping[PartyId, M], clients: tuple[PartyId, ...]) -> Mapping[PartyId, M]:
    """The inbox.  Raises Indispensable naming the first of these clients of which nothing came."""
    for client in clients:
        if client not in inbox:
            raise Indispensable(
                client, "nobody else has its IDs, and IDs are united with all clients or not at all"
            )
    return inbox


def deal_table(seat: UnionMember, sheet: Sheet, table: Array) -> Role[SheetMember | None]:
    """Give a table to those who will open the sum: a member's state if this client is one of them.

    Coefficients for its openings are dealt after it, where the plan has them dealt.
    """
    plan, secrets = seat.plan, seat.secrets
    if seat.verify:
        seat.clock.span()
    if not plan.committee:
        for chunk in range(sheet.chunks):
            upload = masked.mask_chunk(plan, secrets, sheet, table, chunk)
            yield Exchange({SERVER: upload}, round=seat.clock.upload(), phase=PHASE)
        return None
    settled = yield from settle_table(seat, sheet, table)
    bank, more = None, plan.coefficients(sheet)
    if more is not None:
        bank = yield from settle_table(seat, more, tables.random_table(more, seat.coins))
    if settled is None:
        return None
    member = opening.begin_opening(plan, secrets, settled, bank)
    return SheetMember(member, CommitteeRecheck(plan, sheet, seat.judges) if seat.verify else None)


def settle_table(seat: UnionMember, sheet: Sheet, table: Array) -> Role[tables.Holding | None]:
    """Deal a table to the committee, chunk by chunk: a member's share of the sum of all, None for others."""
    plan, secrets = seat.plan, seat.secrets
    member = seat.me in plan.committee
    holding = tables.empty_holding(sheet) if member else None
    for chunk in range(sheet.chunks):
        blocks = tables.deal_blocks(plan, secrets, sheet, table, chunk)
        own = blocks.pop(seat.me, None)
        waits = seat.others if member and seat.me not in tables.expanding_members(plan, chunk) else ()
        inbox = yield from exchange_in_round(
            seat.clock, {seat.clients[i]: b for i, b in blocks.items()}, waits
        )
        for block in (*([own] if own else []), *by_client_number(inbox, ShareBlock, seat.clients).values()):
            if holding is not None:
                holding = tables.absorb_block(plan, secrets, holding, block)
    return None if holding is None else tables.settle_share(plan, secrets, holding, range(plan.n))


def answer_turn(seat: UnionMember, members: dict[str, SheetMember], turn: Turn) -> Role[Exchange]:
    """This client's answer to a turn, if it is due one, and the wait for the server's next word."""
    send: dict[PartyId, Any] = {}
    if turn.sheet in members:
        sitting = members[turn.sheet]
        if sitting.recheck is not None:
            sitting.recheck.follow(turn)
        try:
            sitting.member, reply = opening.open_rows(sitting.member, turn)
        except AlreadyUsed as error:
            raise FaultyServer(SERVER, "asked a second time to open something") from error
        if reply is not None:
            send[SERVER] = reply
        if sitting.recheck is not None:
            sitting.recheck.hear(turn, (yield from confirm_opening(seat, turn, reply)))
    number = seat.clock.phase + turn.number
    return Exchange(send, (SERVER,), round=number, accept=seat.clock.phase + 1, exact=False, phase=PHASE)


def confirm_opening(seat: UnionMember, turn: Turn, reply: Opening | None) -> Role[dict[int, Opening]]:
    """Tell the other members this opening, and hear theirs: of the quorum, by number."""
    send = {} if reply is None else to_all(seat.judges, reply)
    due = tuple(seat.clients[i] for i in seat.plan.committee if i in turn.quorum and i != seat.me)
    # A member that is gone is the server's to replace.
    inbox = yield Exchange(send, due, 0, round=seat.clock.opened(turn.number), phase=PHASE)
    own = {} if reply is None else {seat.me: reply}
    return {**by_client_number(inbox, Opening, seat.clients), **own}


def await_server(seat: UnionMember) -> Exchange:
    """Wait for the server's next word, which is none about the plan that comes late."""
    return Exchange({}, (SERVER,), accept=seat.clock.phase + 1, exact=False, phase=PHASE)


def find_union(seat: UnionMember, own: Tags) -> Role[UnionTags]:
    """A client's part from its tags to the union that all clients confirm to each other."""
    plan = seat.plan
    members: dict[str, SheetMember] = {}
    last: Sheet | None = None

    def contribute(sheet: Sheet) -> Role[None]:
        member = yield from deal_table(seat, sheet, tables.fill_table(plan, sheet, own, seat.coins))
        if member is not None:
            members[sheet.label] = member

    if plan.sized:
        yield from contribute(plan.slots)
    wait = await_server(seat)
    attempt, most = -1, -1
    while True:
        word = expect_one((yield wait), SERVER)
        match word:
            case Begin() if attempt < word.attempt < plan.attempts:
                attempt = word.attempt  # each table has a salt of its own, and is dealt once
                last = plan.cells(word.size, word.attempt)
                most = last.rows
                yield from contribute(last)
                wait = await_server(seat)
            case Turn():
                wait = yield from answer_turn(seat, members, word)
            case UnionTags() if len(word.z) > most:
                raise FaultyServer(SERVER, "announced more IDs than the table that it asked for can hold")
            case UnionTags():
                sitting = members.get(last.label) if last is not None else None
                if sitting is not None and sitting.recheck is not None:
                    sitting.recheck.check_union(word)
                yield from confirm_union(seat, word)
                return word
            case _:
                raise FaultyServer(SERVER, f"sent {type(word).__name__} during the union")


def confirm_union(seat: UnionMember, union: UnionTags | None) -> Role[None]:
    """Clients compare the unions they were told, or, without one, the group keys they were dealt.

    Raises UnionAborted naming who differs or says nothing.
    """
    if seat.verify:
        seat.clock.span()
    messages = {seat.clients[j]: m for j, m in align.confirm_union(seat.secrets, union).items()}
    inbox = yield from exchange_in_round(seat.clock, messages, seat.others)
    align.check_confirmations(
        seat.secrets, union, by_client_number(inbox, Confirmation, seat.clients), range(seat.plan.n)
    )


def require_disjoint(seat: UnionMember, union: UnionTags, rows: Array) -> Role[None]:
    """A client's part in finding out that no row of the union has several holders.

    rows: its own.  Raises SharedIds if some row has, or none.
    """
    table = disjoint.question_table(seat.plan, seat.secrets, rows, union)
    told, sums = yield from open_for_all(seat, disjoint.question_sheet(), table, HeldOnce)
    if sums is not None and told.word != int(sums[1, 0]):
        raise suspect_announcement("whether every row has one holder", seat.judges)
    if not disjoint.held_once(told.word, seat.secrets):
        raise SharedIds(len(union.z))


def count_holders(seat: UnionMember, union: UnionTags, rows: Array) -> Role[Array]:
    """A client's part in opening how many clients hold each row of the union: (m,) int64, not which.

    rows: its own.
    """
    m = len(union.z)
    sheet, _ = merge.merge_sheets(m)
    told, sums = yield from open_for_all(seat, sheet, merge.count_table(rows, m), Multiplicities)
    if len(told.held) != m or int(told.held.max(initial=1)) > len(seat.clients):
        raise FaultyServer(SERVER, f"counted holders of other rows than m={m}, or more than there are")
    if sums is not None and not np.array_equal(told.held, sums[:, 0]):
        raise suspect_announcement("how many clients hold each row", seat.judges)
    return np.asarray(told.held, np.int64)


def find_disputes(seat: UnionMember, rows: Array, prints: Array, m: int) -> Role[Array]:
    """A client's part in finding the rows whose holders have different data: ascending.

    rows, prints: its own rows, and fingerprints of its data there.
    """
    _, sheet = merge.merge_sheets(m)
    table = merge.spread_table(rows, prints, m, seat.coins)
    told, sums = yield from open_for_all(seat, sheet, table, Disputes)
    disputed: Array = told.rows
    if sums is not None and not np.array_equal(disputed, merge.disagreeing_rows(sums)):
        raise suspect_announcement("which rows have different data", seat.judges)
    if len(disputed) and int(disputed[-1]) >= m:
        raise FaultyServer(SERVER, f"said that rows are in dispute that are none of m={m}")
    return disputed


def open_for_all(
    seat: UnionMember, sheet: Sheet, table: Array, kind: type[M]
) -> Role[tuple[M, Array | None]]:
    """Deal a sheet, answer until the server says what it opened, as a message of this kind.

    The sums themselves come with it, (rows, opened), for a member of a committee that checks the server.
    """
    member = yield from deal_table(seat, sheet, table)
    members = {} if member is None else {sheet.label: member}
    word = expect_one((yield await_server(seat)), SERVER)
    while isinstance(word, Turn):
        word = expect_one((yield (yield from answer_turn(seat, members, word))), SERVER)
    recheck = None if member is None else member.recheck
    return expect_messages({SERVER: word}, kind)[SERVER], None if recheck is None else recheck.complete()


# --- server ----------------------------------------------------------------------------------------


class UnionRelay:
    """The server's side: asks for sheets to be opened, peels, and announces the union."""

    def __init__(self, plan: UnionPlan, clients: tuple[PartyId, ...], clock: RoundCounter) -> None:
        self.plan, self.clients, self.clock = plan, clients, clock
        # Openings go on counting where uploads before them ended.
        self.poll = opening.OpeningPoll(plan, clock.uploads)

    def find_union(self) -> Role[UnionTags]:
        """The union's tags, announced to every client."""
        plan, size = self.plan, self.plan.bound
        if plan.sized:
            size = tables.estimate_size(plan, (yield from self.open(plan.slots)))
        for attempt in range(plan.attempts):
            yield self.tell(Begin(attempt, size))
            found = yield from self.peel(plan.cells(size, attempt))
            if found is not None:
                union = align.announce_tags(*found)
                yield self.tell(union)
                return union
        raise UnionAborted(
            f"{plan.attempts} tables stalled: the union is larger than planned for, or a client "
            "contributed a malformed table. Raise the bound."
        )

    def tell(self, message: Any) -> Exchange:
        """A message to every client."""
        return Exchange(to_all(self.clients, message), round=self.clock.between(), phase=PHASE)

    def require_disjoint(self, union: UnionTags) -> Role[None]:
        """Ask whether every row has one holder, and tell all clients.  Raises SharedIds if not."""
        mine, theirs = (yield from self.open(disjoint.question_sheet())).reshape(-1).tolist()
        yield self.tell(HeldOnce(theirs))
        if mine:
            raise SharedIds(len(union.z))

    def count_holders(self, union: UnionTags) -> Role[Array]:
        """How many clients hold each row, (m,) int64, told to all clients."""
        sheet, _ = merge.merge_sheets(len(union.z))
        held = merge.count_holders((yield from self.open(sheet)), self.plan.n)
        yield self.tell(Multiplicities(held.astype(np.uint16)))
        return held

    def find_disputes(self, m: int) -> Role[Array]:
        """The rows whose holders have different data, ascending, told to all clients."""
        _, sheet = merge.merge_sheets(m)
        disputed = merge.disagreeing_rows((yield from self.open(sheet)))
        yield self.tell(Disputes(disputed))
        return disputed

    def open(self, sheet: Sheet) -> Role[Array]:
        """The opened values of a sheet that is opened in a single round."""
        if not self.plan.committee:
            return (yield from self.collect(sheet))
        return (yield from self.ask(sheet, sheet.rows, partial(opening.open_all_rows, sheet)))

    def peel(self, sheet: Sheet) -> Role[tuple[Array, Array] | None]:
        """The tags in a table of cells or lines, or None if it stalls."""
        if not self.plan.committee:
            return masked.peel_lines(self.plan, sheet, (yield from self.collect(sheet)))
        state = peeling.start_peeling(self.plan, sheet)
        while not state.done:
            values = yield from self.ask(sheet, len(state.active), partial(peeling.next_turn, state))
            state = peeling.read_values(state, values)
        return state.recovered_entries if state.complete else None

    def collect(self, sheet: Sheet) -> Role[Array]:
        """Server mode: the sum of all clients' masked tables."""
        state = masked.empty_tally(sheet)
        for _ in range(sheet.chunks):
            inbox = yield Exchange({}, self.clients, accept=self.clock.upload(), phase=PHASE)
            for block in by_client_number(
                require_all(inbox, self.clients), MaskedBlock, self.clients
            ).values():
                state = masked.absorb_block(self.plan, state, block)
        return masked.unmasked_sum(self.plan, state)

    def ask(
        self,
        sheet: Sheet,
        rows: int,
        question: Callable[[opening.OpeningPoll, Collection[int]], tuple[opening.OpeningPoll, Turn]],
    ) -> Role[Array]:
        """One round: a quorum answers, or another one without those who stayed silent."""
        committee = tuple(self.clients[i] for i in self.plan.committee)
        silent: set[int] = set()
        while True:
            try:
                self.poll, turn = question(self.poll, silent)
            except UnionAborted as error:
                if not silent:
                    raise
                raise Indispensable(self.clients[min(silent)], error.reason) from error
            quorum = tuple(self.clients[i] for i in turn.quorum)
            inbox = yield Exchange(
                to_all(committee, turn), quorum, 0,
                round=self.clock.between(), accept=self.clock.phase + turn.number, phase=PHASE,
            )  # fmt: skip
            openings = by_client_number(inbox, Opening, self.clients)
            missing = set(turn.quorum) - set(openings)
            if not missing:
                return opening.gather_values(sheet, rows, turn, openings)
            silent |= missing


def row_numbers(union: UnionTags, own: Tags, inverse: Array) -> Array:
    """The row in [0, m) of each of a client's points: (m_j,) int64; equal IDs have equal rows."""
    return np.asarray(align.rows_of_points(union, own, inverse))
