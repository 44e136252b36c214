"""Tags of IDs that nobody can compute alone, as role fragments: the steps of `psu.oblivious`.

The server and the first t+1 clients draw a key each for this run, and everybody's plan of the union names
the public ones; so signatures, channels and tables are bound to them.  Then every client asks all of them for
as many tags as the quota says, batch by batch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from field.arrays import Array
from field.secrets.coins import Coins
from psu import oblivious, ristretto
from psu.blame import accuse_parties
from psu.messages import Blinded, Evaluated, EvaluationKey
from psu.oblivious import Evaluator
from psu.plan import UnionPlan
from secfc.coded.union import (
    PHASE,
    RoundCounter,
    UnionMember,
    by_client_number,
    exchange_in_round,
    require_all,
)
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER, Exchange, PartyId, Role, expect_messages, expect_one, to_all

# The server's words about tags, counted as it counts them: first its key, then its answer to each batch.
KEY_WORD = 1


def draw_keys(
    plan: UnionPlan, clients: tuple[PartyId, ...], me: int, coins: Coins, clock: RoundCounter
) -> Role[tuple[UnionPlan, Evaluator | None]]:
    """A client's part in naming the keys of this run: the plan with them, and its own if it evaluates.

    Without a quota nothing is said, and the plan is what it was.
    """
    if not plan.quota:
        return plan, None
    evaluator = Evaluator(coins) if me in plan.evaluators else None
    others = tuple(c for j, c in enumerate(clients) if j != me)
    mine = None if evaluator is None else EvaluationKey(me, evaluator.public)
    yield Exchange({SERVER: mine} if mine else {}, round=clock.upload(), phase=PHASE)
    awaited = tuple(clients[j] for j in plan.evaluators if j not in (me, plan.n))
    inbox = yield from exchange_in_round(clock, to_all(others, mine) if mine else {}, awaited)
    found = by_client_number(inbox, EvaluationKey, clients) | ({me: mine} if mine else {})
    inbox = yield _await_server(clock, KEY_WORD)
    found[plan.n] = _of_server(
        plan, expect_messages({SERVER: expect_one(inbox, SERVER)}, EvaluationKey)[SERVER]
    )
    return _named(plan, found), evaluator


def draw_keys_at_server(
    plan: UnionPlan, clients: tuple[PartyId, ...], coins: Coins, clock: RoundCounter
) -> Role[tuple[UnionPlan, Evaluator | None]]:
    """The server's part of the same."""
    if not plan.quota:
        return plan, None
    evaluator = Evaluator(coins)
    awaited = tuple(clients[j] for j in plan.evaluators if j != plan.n)
    inbox = require_all((yield Exchange({}, awaited, accept=clock.upload(), phase=PHASE)), awaited)
    mine = EvaluationKey(plan.n, evaluator.public)
    yield Exchange(to_all(clients, mine), round=clock.between(), phase=PHASE)
    return _named(plan, by_client_number(inbox, EvaluationKey, clients) | {plan.n: mine}), evaluator


def _await_server(clock: RoundCounter, number: int) -> Exchange:
    """Wait for this word of the server and no newer one, which is no answer in the place of a lost one."""
    return Exchange({}, (SERVER,), accept=clock.phase + number, phase=PHASE)


def _of_server(plan: UnionPlan, key: EvaluationKey) -> EvaluationKey:
    if key.sender != plan.n:
        raise FaultyServer(SERVER, "named a key of tags as another evaluator's")
    return key


def _named(plan: UnionPlan, keys: dict[int, EvaluationKey]) -> UnionPlan:
    for j in plan.evaluators:
        if not ristretto.is_element(keys[j].public):
            named, why = oblivious.number_evaluators(plan, {j}), "a key of tags is no element of the group"
            raise accuse_parties("EvaluationKey", why, proof=True, evaluator=named)
    return replace(plan, evaluation_keys=tuple(keys[j].public for j in plan.evaluators))


def evaluate_tags(seat: UnionMember, evaluator: Evaluator | None, digest: Array) -> Role[Array]:
    """What becomes of a client's digests (m_j, 2), and its part as an evaluator; then it forgets its key.

    Without a quota they remain what they are.  Raises UnionAborted, `psu.oblivious.unblind_answers`.
    """
    plan, ring, me = seat.plan, seat.secrets.ring, seat.me
    if not plan.quota:
        return digest
    question = oblivious.blind_digests(plan, digest, seat.coins)
    peers = tuple(j for j in plan.evaluators if j not in (me, plan.n))
    answers: dict[int, list[bytes]] = {j: [] for j in plan.evaluators}
    for batch in range(oblivious.count_batches(plan)):
        label, asked = f"tags {batch}", question.batch(plan, batch)
        yield Exchange({SERVER: Blinded(me, batch, asked)}, round=seat.clock.upload(), phase=PHASE)
        send: dict[PartyId, Any] = {
            seat.clients[j]: Blinded(me, batch, ring.channels[j].seal(f"ask {label}", asked)) for j in peers
        }
        inbox = yield from exchange_in_round(seat.clock, send, seat.others if evaluator else ())
        send = {}
        if evaluator is not None:
            answers[me].append(evaluator.answer(plan, me, batch, asked))
            for i, theirs in by_client_number(inbox, Blinded, seat.clients).items():
                opened = ring.open(i, f"ask {label}", theirs.content, "Blinded")
                said = evaluator.answer(plan, i, batch, opened)
                sealed = ring.channels[i].seal(f"answer {label}", said)
                send[seat.clients[i]] = Evaluated(me, batch, sealed)
        inbox = yield from exchange_in_round(seat.clock, send, tuple(seat.clients[j] for j in peers))
        for j, mine in by_client_number(inbox, Evaluated, seat.clients).items():
            answers[j].append(ring.open(j, f"answer {label}", mine.content, "Evaluated"))
    for batch in range(oblivious.count_batches(plan)):
        inbox = yield _await_server(seat.clock, KEY_WORD + 1 + batch)
        word = expect_messages({SERVER: expect_one(inbox, SERVER)}, Evaluated)[SERVER]
        if (word.sender, word.batch) != (plan.n, batch):
            raise FaultyServer(SERVER, "answered another question for tags than was asked")
        answers[plan.n].append(word.content)
    if evaluator is not None:
        evaluator.erase()
    return oblivious.unblind_answers(plan, question, answers, me)


def evaluate_at_server(
    plan: UnionPlan, clients: tuple[PartyId, ...], evaluator: Evaluator | None, clock: RoundCounter
) -> Role[None]:
    """The server's part of the same, as one of the evaluators."""
    if evaluator is None:
        return
    for batch in range(oblivious.count_batches(plan)):
        inbox = yield Exchange({}, clients, accept=clock.upload(), phase=PHASE)
        asked = by_client_number(require_all(inbox, clients), Blinded, clients)
        said = {
            clients[i]: Evaluated(plan.n, batch, evaluator.answer(plan, i, batch, theirs.content))
            for i, theirs in asked.items()
        }
        yield Exchange(said, round=clock.between(), phase=PHASE)
    evaluator.erase()
