"""Agreeing on the plan, as a role fragment: the first words of every run, before anything secret moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from secfc.errors import PlanMismatch
from secfc.roles.description import Difference, describe_differences, description_digest
from secfc.roles.exchange import AGREE, SERVER, Exchange, PartyId, Role, expect_all, expect_messages, to_all
from secfc.roles.messages import Hello, PlanDigest


class AgreedPlan(Protocol):
    """A plan that parties compare."""

    @property
    def clients(self) -> tuple[PartyId, ...]: ...

    @property
    def description(self) -> bytes: ...


def agree(
    plan: AgreedPlan, me: PartyId, peers: tuple[PartyId, ...] | None = None, *, number: int = AGREE
) -> Role[None]:
    """Compare the plan with every peer, all other parties by default, before anything secret moves.

    number: the round of the exchange.

    Raises PlanMismatch naming who differs, and in what.
    """
    if peers is None:
        peers = tuple(p for p in (*plan.clients, SERVER) if p != me)
    hello = to_all(peers, Hello(plan.description))
    inbox = yield Exchange(hello, peers, 0, round=number, phase="agree")
    if differing := compare_descriptions(plan, inbox):
        raise PlanMismatch(differing)


def agree_with_server(plan: AgreedPlan, me: PartyId) -> Role[None]:
    """Compare the plan where clients talk to the server alone: none goes on before it found that all agree.

    Raises PlanMismatch; TooFewReplies at a client that hears nothing, as when others differ.
    """
    hello = Hello(plan.description)
    if me != SERVER:
        inbox = yield Exchange({SERVER: hello}, (SERVER,), round=AGREE, phase="agree")
        expect_all(inbox, (SERVER,))
    else:
        inbox = yield Exchange({}, plan.clients, 0, round=AGREE, phase="agree")
        differing = compare_descriptions(plan, inbox)
        yield Exchange(to_all(differing or plan.clients, hello), round=AGREE, phase="agree")
    if differing := compare_descriptions(plan, inbox):
        raise PlanMismatch(differing)


def agree_by_digest(plan: AgreedPlan, me: PartyId, computing: tuple[PartyId, ...]) -> Role[None]:
    """Compare digests where clients talk to workers and the server alone: n descriptions are long.

    A client hears from every worker what it agreed to, before any share leaves.  To whom its plan differs
    from the server's, the server says what its own is, and hears the other.

    Raises PlanMismatch.
    """
    mine = PlanDigest(description_digest(plan.description))
    working = (*computing, SERVER)
    peers = tuple(p for p in ((*plan.clients, SERVER) if me in working else working) if p != me)
    inbox = yield Exchange(to_all(peers, mine), peers, 0, round=AGREE, phase="agree")
    heard = expect_messages(inbox, PlanDigest)
    others = tuple(p for p, message in heard.items() if message.digest != mine.digest)
    if not others:
        return
    hello = to_all((p for p in others if SERVER in (me, p)), Hello(plan.description))
    # Whom the server differs from as well, it says in what: it is heard before a client blames another.
    awaited = others if me == SERVER else (SERVER,)
    inbox = yield Exchange(hello, awaited, 0, round=AGREE + 1, phase="agree")
    unexplained = {
        p: (Difference("the digest of the plan", mine.digest.hex()[:16], heard[p].digest.hex()[:16]),)
        for p in others
    }
    raise PlanMismatch(unexplained | compare_descriptions(plan, inbox))


def agree_with_workers(plan: AgreedPlan, me: PartyId, computing: tuple[PartyId, ...]) -> Role[None]:
    """Compare the plan where not all clients may compute: digests if some do not, else all of it.

    Raises PlanMismatch.
    """
    if len(computing) < len(plan.clients):
        yield from agree_by_digest(plan, me, computing)
    else:
        yield from agree(plan, me)


def compare_descriptions(
    plan: AgreedPlan, inbox: Mapping[PartyId, Any]
) -> dict[PartyId, tuple[Difference, ...]]:
    """What differs from the plan, for each peer whose description is another."""
    mine = plan.description
    heard = {peer: hello.description for peer, hello in expect_messages(inbox, Hello).items()}
    return {p: describe_differences(mine, theirs) for p, theirs in heard.items() if theirs != mine}
