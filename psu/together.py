"""A whole union in one process: what every party does, in order, with nothing in between.

This is the definition of the rounds, the test harness and a convenience.  A deployment runs the same
steps at each party and moves the messages.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from field.arrays import Array
from field.ring.errors import InvalidValue
from field.secrets.channels import Identity
from field.secrets.coins import Coins, SystemCoins
from psu import align, masked, oblivious, opening, peeling, tables
from psu.errors import UnionAborted
from psu.identify import Tags, digests, refuse_two_spellings, tags
from psu.keys import Ephemeral, Secrets, deal_keys, key_dealers, take_keys
from psu.messages import Begin, Blinded, Evaluated, EvaluationKey, Message, Opening, Turn, UnionTags
from psu.oblivious import Evaluator
from psu.plan import Committee, Mode, Sheet, UnionPlan

RELAY = "server"
LOGGER = logging.getLogger("secfc.psu")
LOGGER.addHandler(logging.NullHandler())


@dataclass(frozen=True, eq=False, repr=False)
class UnionResult:
    """Result of a union that one process computed for all parties.

    Parameters
    ----------
    rows
        For each client the row in [0, m) of each of its IDs, (N_j,) int64; None for a client that was lost.
    m
        Size of the union.
    rounds
        Rounds of openings; 1 in server mode.
    attempts
        Tables that were used.
    estimate
        Size estimated by the sizing round; None without one.
    plan
        Public parameters.
    traffic
        (messages, bytes) by (sender, receiver, kind).
    seconds
        Processor time by party.  Work of a committee member is booked apart from its work as a client.
    """

    rows: tuple[Array | None, ...]
    m: int
    rounds: int
    attempts: int
    estimate: int | None
    plan: UnionPlan
    traffic: Mapping[tuple[str, str, str], tuple[int, int]]
    seconds: Mapping[str, float]

    def __repr__(self) -> str:
        return f"UnionResult(n={len(self.rows)}, m={self.m}, rounds={self.rounds}, attempts={self.attempts})"

    def sent(self, party: str) -> int:
        """Bytes a party sent to others: 'client 0', 'member 0', ..., 'server'."""
        return sum(size for (sender, _, _), (_, size) in self.traffic.items() if sender == party)


@dataclass(frozen=True)
class _Book:
    """Who spent how long, and who sent what."""

    seconds: dict[str, float] = field(default_factory=dict)
    traffic: dict[tuple[str, str, str], tuple[int, int]] = field(default_factory=dict)

    @contextmanager
    def at(self, party: str) -> Iterator[None]:
        start = time.process_time()
        yield
        self.seconds[party] = self.seconds.get(party, 0.0) + time.process_time() - start

    def sent(self, sender: str, recipient: str, message: Message) -> None:
        if sender.split()[-1] == recipient.split()[-1]:
            return  # a client that is a member talks to itself
        key = (sender, recipient, type(message).__name__)
        count, size = self.traffic.get(key, (0, 0))
        self.traffic[key] = (count + 1, size + message.nbytes)


def union(
    sets: Sequence[Iterable[str | bytes | int] | Array],
    *,
    t: int | None = None,
    spares: int = 0,
    mode: Mode | None = None,
    bound: int | None = None,
    quota: int = 0,
    coins: Callable[[str], Coins] | None = None,
    lost: Mapping[int, Collection[int]] | None = None,
) -> UnionResult:
    """Union of the clients' IDs as row numbers, computed by all parties in this process.

    Parameters
    ----------
    sets
        One collection of IDs per client, of types that `psu.identify.digests` takes.  An ID that a client
        holds several times counts once, and its row number is repeated.
    t
        Clients that may collude with one another and the relay; None for the most that n allows.
    spares
        Committee members that may be silent in a round.
    mode
        `Committee` or `Server`, in place of t and spares.
    bound
        Public bound on the union, for which tables are made; None estimates the size first, up to 2**24.
    quota
        Most IDs of a client for which tags are evaluated obliviously (`psu.oblivious`, with libsodium), half
        a millisecond for each.  With 0 all clients share the key of tags, and can test guesses at will.
    coins
        Secret coins by party ("client 0", ...), the operating system's by default; `SeededCoins` are for
        tests.
    lost
        lost[r]: clients that are silent in the r-th round of openings, of which a sizing round is the first;
        lost[0]: clients that vanish before they share anything.

    Returns
    -------
    UnionResult
        Row numbers for each client, and what the protocol cost.

    Raises
    ------
    ValueError, TypeError, ImportError
        For parameters that do not fit, 7 beside "7", IDs of other types, and a quota without libsodium.
    UnionAborted
        For a union without a result.
    """
    if mode is None:
        mode = Committee((len(sets) - 1 - spares) // 2 if t is None else t, spares)
    elif t is not None or spares:
        raise InvalidValue("t and spares belong to threshold mode: pass them in mode=Committee(t, spares)")
    sets = [ids if isinstance(ids, Collection) else list(ids) for ids in sets]
    refuse_two_spellings(sets)
    make = coins or (lambda party: SystemCoins())
    relay = make(RELAY)
    size = 1 << 24 if bound is None else bound
    plan = UnionPlan(len(sets), mode, relay.bytes(32), size, bound is None, quota=quota)
    parties = [make(f"client {j}") for j in range(plan.n)]
    return _Together(plan, parties, dict(lost or {}), relay).run(sets)


class _Together:
    def __init__(
        self,
        plan: UnionPlan,
        coins: list[Coins],
        lost: dict[int, Collection[int]],
        relay: Coins | None = None,
    ) -> None:
        everyone = [*coins, relay or SystemCoins()]
        self.evaluators = {j: Evaluator(everyone[j]) for j in plan.evaluators}
        plan = replace(plan, evaluation_keys=tuple(e.public for e in self.evaluators.values()))
        self.plan, self.coins, self.lost = plan, coins, lost
        self.book, self.rounds, self.poll = _Book(), 0, opening.OpeningPoll(plan)
        self.gone = set(lost.get(0, ()))
        self.secrets: list[Secrets] = []
        self.own: list[tuple[Tags, Array]] = []

    def run(self, sets: Sequence[Iterable[str | bytes | int] | Array]) -> UnionResult:
        plan, book = self.plan, self.book
        LOGGER.info("begin: clients=%d mode=%s", plan.n, type(plan.mode).__name__)
        self.secrets = self.agree()
        made = []
        for j, ids in enumerate(sets):
            with book.at(f"client {j}"):
                made.append(digests(ids))
        for j, digest in enumerate(self.evaluate(made) if plan.quota else made):
            with book.at(f"client {j}"):
                self.own.append(tags(digest, self.secrets[j].tag_key))
        size = self.size() if plan.sized else None
        union, attempts = self.attempts(plan.bound if size is None else size)
        rows = self.align(union)
        rounds = self.rounds if plan.committee else 1
        LOGGER.info("end: rounds=%d attempts=%d seconds=%.3g", rounds, attempts, sum(book.seconds.values()))
        return UnionResult(
            rows, len(union.z), rounds, attempts, size, plan, dict(book.traffic), dict(book.seconds)
        )

    def agree(self) -> list[Secrets]:
        """Identities, pinned beforehand; offers to all; key packets to those who share a key."""
        plan, book = self.plan, self.book
        identities = [Identity.draw(coins) for coins in self.coins]
        pinned = {j: identity.public for j, identity in enumerate(identities)}
        ephemerals = [Ephemeral(plan, j, identities[j], self.coins[j]) for j in range(plan.n)]
        offers = {e.me: e.offer for e in ephemerals}
        rings, packets = [], []
        for j, ephemeral in enumerate(ephemerals):
            with book.at(f"client {j}"):
                rings.append(ephemeral.agree(offers, pinned))
                packets.append(deal_keys(plan, rings[j], self.coins[j]))
            for i in range(plan.n):
                book.sent(f"client {j}", f"client {i}", ephemeral.offer)
            for i, packet in packets[j].items():
                book.sent(f"client {j}", f"client {i}", packet)
        out = []
        for j, ring in enumerate(rings):
            with book.at(f"client {j}"):
                out.append(take_keys(plan, ring, {i: packets[i][j] for i in key_dealers(plan, j)}))
        self.compare(out, [None] * plan.n, range(plan.n))
        return out

    def compare(self, secrets: list[Secrets], told: Sequence[UnionTags | None], here: Sequence[int]) -> None:
        """Clients confirm to one another what each was told: a union, or the group key where it is None."""
        said = {}
        for j in here:
            with self.book.at(f"client {j}"):
                said[j] = align.confirm_union(secrets[j], told[j])
            for i in here:
                if i != j:
                    self.book.sent(f"client {j}", f"client {i}", said[j][i])
        for j in here:
            with self.book.at(f"client {j}"):
                align.check_confirmations(secrets[j], told[j], {i: said[i][j] for i in here if i != j}, here)

    def evaluate(self, digest: Sequence[Array]) -> list[Array]:
        """What becomes of every client's digests where nobody can compute it alone (`psu.oblivious`)."""
        plan, book = self.plan, self.book
        names = {j: f"client {j}" if j < plan.n else RELAY for j in plan.evaluators}
        for j, evaluator in self.evaluators.items():
            for i in range(plan.n):
                book.sent(names[j], f"client {i}", EvaluationKey(j, evaluator.public))
        questions, out = [], []
        for i in range(plan.n):
            with book.at(f"client {i}"):
                questions.append(oblivious.blind_digests(plan, digest[i], self.coins[i]))
        for i, question in enumerate(questions):
            answers: dict[int, list[bytes]] = {j: [] for j in self.evaluators}
            for batch in range(oblivious.count_batches(plan)):
                asked = question.batch(plan, batch)
                for j, evaluator in self.evaluators.items():
                    with book.at(names[j]):
                        said = evaluator.answer(plan, i, batch, asked)
                    book.sent(f"client {i}", names[j], Blinded(i, batch, asked))
                    book.sent(names[j], f"client {i}", Evaluated(j, batch, said))
                    answers[j].append(said)
            with book.at(f"client {i}"):
                out.append(oblivious.unblind_answers(plan, question, answers, i))
        for evaluator in self.evaluators.values():
            evaluator.erase()
        return out

    def size(self) -> int:
        """The sizing round."""
        sheet = self.plan.slots
        values = self.open_once(sheet) if self.plan.committee else self.upload(sheet)
        with self.book.at(RELAY):
            return tables.estimate_size(self.plan, values)

    def attempts(self, size: int) -> tuple[UnionTags, int]:
        """Tables with new salts, each larger than the last, until one is peeled completely."""
        for attempt in range(self.plan.attempts):
            self.tell(Begin(attempt, size))
            sheet = self.plan.cells(size, attempt)
            if self.plan.committee:
                found = self.peel(sheet)
            else:
                table = self.upload(sheet)
                with self.book.at(RELAY):
                    found = masked.peel_lines(self.plan, sheet, table)
            if found is not None:
                with self.book.at(RELAY):
                    return align.announce_tags(*found), attempt + 1
        raise UnionAborted(
            f"{self.plan.attempts} tables stalled: the union is larger than planned for, or a client "
            "contributed a malformed table. Raise the bound."
        )

    def align(self, union: UnionTags) -> tuple[Array | None, ...]:
        """Row numbers at every client, once all were told the same union."""
        self.tell(union)
        # Each client has a copy of its own, and hashes it.
        told = [UnionTags(union.z, union.y) for _ in range(self.plan.n)]
        here = [j for j in range(self.plan.n) if j not in self.gone]
        self.compare(self.secrets, told, here)
        rows: list[Array | None] = [None] * self.plan.n
        for j in here:
            with self.book.at(f"client {j}"):
                rows[j] = align.rows_of_points(told[j], *self.own[j])
        return tuple(rows)

    # --- threshold mode

    def share(self, sheet: Sheet) -> dict[int, opening.OpeningMember]:
        """Every client deals its table to the committee, and coefficients for its openings if it must."""
        plan, more = self.plan, self.plan.coefficients(sheet)
        settled = self.settle(sheet, lambda j: tables.fill_table(plan, sheet, self.own[j][0], self.coins[j]))
        banks: dict[int, tables.Holding] = {}
        if more is not None:
            banks = self.settle(more, lambda j: tables.random_table(more, self.coins[j]))
        return {i: opening.begin_opening(plan, self.secrets[i], h, banks.get(i)) for i, h in settled.items()}

    def settle(self, sheet: Sheet, table_of: Callable[[int], Array]) -> dict[int, tables.Holding]:
        """Every member's share of the sum of all clients' tables, which these deal chunk by chunk."""
        plan, book = self.plan, self.book
        holdings = {i: tables.empty_holding(sheet) for i in plan.committee}
        clients = [j for j in range(plan.n) if j not in self.gone]
        for j in clients:
            with book.at(f"client {j}"):
                table = table_of(j)
            for chunk in range(sheet.chunks):
                with book.at(f"client {j}"):
                    blocks = tables.deal_blocks(plan, self.secrets[j], sheet, table, chunk)
                for i, block in blocks.items():
                    book.sent(f"client {j}", f"member {i}", block)
                    with book.at(f"member {i}"):
                        holdings[i] = tables.absorb_block(plan, self.secrets[i], holdings[i], block)
        settled = {}
        who = tables.find_contributors(plan, [clients for i in plan.committee if i not in self.gone])
        for i in plan.committee:
            with book.at(f"member {i}"):
                settled[i] = tables.settle_share(plan, self.secrets[i], holdings[i], who)
        return settled

    def ask(
        self,
        sheet: Sheet,
        members: dict[int, opening.OpeningMember],
        rows: int,
        question: Callable[[opening.OpeningPoll, Collection[int]], tuple[opening.OpeningPoll, Turn]],
    ) -> Array:
        """One round: a quorum answers, or another one that does not have the silent ones."""
        book = self.book
        self.rounds += 1
        absent = self.gone | set(self.lost.get(self.rounds, ()))
        silent: set[int] = set()
        while True:
            with book.at(RELAY):
                self.poll, turn = question(self.poll, silent)
            openings: dict[int, Opening] = {}
            for i in self.plan.committee:
                book.sent(RELAY, f"member {i}", turn)
                with book.at(f"member {i}"):
                    members[i], reply = opening.open_rows(members[i], turn)
                if reply is not None and i not in absent:
                    openings[i] = reply
                    book.sent(f"member {i}", RELAY, reply)
            silent |= set(turn.quorum) - set(openings)
            if not silent & set(turn.quorum):
                with book.at(RELAY):
                    return opening.gather_values(sheet, rows, turn, openings)

    def open_once(self, sheet: Sheet) -> Array:
        """A sheet that is opened in a single round."""
        members = self.share(sheet)
        return self.ask(sheet, members, sheet.rows, partial(opening.open_all_rows, sheet))

    def peel(self, sheet: Sheet) -> tuple[Array, Array] | None:
        """A table of cells, opened and peeled until nothing is left; None if it stalls."""
        members = self.share(sheet)
        state = peeling.start_peeling(self.plan, sheet)
        while not state.done:
            values = self.ask(sheet, members, len(state.active), partial(peeling.next_turn, state))
            with self.book.at(RELAY):
                state = peeling.read_values(state, values)
        return state.recovered_entries if state.complete else None

    # --- server mode

    def upload(self, sheet: Sheet) -> Array:
        """Every client uploads its masked table; the server has the sum."""
        plan, book = self.plan, self.book
        state = masked.empty_tally(sheet)
        for j in range(plan.n):
            if j in self.gone:
                continue
            with book.at(f"client {j}"):
                table = tables.fill_table(plan, sheet, self.own[j][0], self.coins[j])
            for chunk in range(sheet.chunks):
                with book.at(f"client {j}"):
                    block = masked.mask_chunk(plan, self.secrets[j], sheet, table, chunk)
                book.sent(f"client {j}", RELAY, block)
                with book.at(RELAY):
                    state = masked.absorb_block(plan, state, block)
        return masked.unmasked_sum(plan, state)

    def tell(self, message: Message) -> None:
        for j in range(self.plan.n):
            self.book.sent(RELAY, f"client {j}", message)
