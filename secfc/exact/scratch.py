"""Where a client's shares lie while it takes part: in memory, or in files of a folder that it names."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from field.code.storage import MEMORY, NoRoom, Scratch
from field.secrets.coins import Coins
from secfc.coded.membership import Contribution
from secfc.coded.plan import Plan
from secfc.coded.sharing import share_rows
from secfc.coded.validity import Received
from secfc.data.inputs import InputError
from secfc.roles.exchange import Role


class Placing(Protocol):
    """What of a run's parameters is each client's own business."""

    @property
    def threads(self) -> int: ...
    @property
    def scratch(self) -> str | None: ...


def share(way: Placing, plan: Plan, mine: Contribution, coins: Coins) -> Role[Received]:
    """Phase 1 of Algorithm 1, `share_rows`.  Raises InputError for a folder without room."""
    storage = MEMORY if way.scratch is None else Scratch(Path(way.scratch))
    try:
        return (yield from share_rows(plan, mine, coins, threads=way.threads, storage=storage))
    except NoRoom as error:
        raise InputError(f"{error.strerror}. Name another folder (scratch=), or None for memory") from error
