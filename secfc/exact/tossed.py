"""The seed of random starts: public from the beginning, or tossed by clients once their rows are fixed."""

from __future__ import annotations

from field.secrets.coins import Coins
from secfc.coded.plan import Plan
from secfc.coded.screening import Screening
from secfc.roles.exchange import PartyId, Role
from secfc.roles.toss import Table, seed_for, toss, toss_at_server


def start_seed(plan: Plan, name: PartyId, coins: Coins) -> Role[int]:
    """The seed of random starts: the plan's, or one that the clients toss now that rows are fixed."""
    if plan.seed is not None:
        return plan.seed
    return _start((yield from toss(table_of(plan), name, coins)))


def start_seed_at_server(plan: Plan, screening: Screening) -> Role[int]:
    """The same at the server; who falls silent is not there any more."""
    if plan.seed is not None:
        return plan.seed
    # Who is in a dispute, or was found lying, hears the result all the same.
    who = plan.clients if plan.liars else screening.present
    seed, who = yield from toss_at_server(table_of(plan), who, lenient=plan.liars > 0)
    screening.present = tuple(c for c in screening.present if c in who)
    return _start(seed)


def table_of(plan: Plan) -> Table:
    """Who tosses coins for a run under this plan."""
    return Table(plan.clients, plan.digest(), plan.code.threshold(2))


def _start(seed: bytes) -> int:
    return int.from_bytes(seed_for(seed, b"secfc start"), "little")
