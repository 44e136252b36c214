"""What a site says while it runs, through `logging` (`secfc.logs`): names and numbers only."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from secfc.cli.shell.errors import RefusedInput
from secfc.cli.shell.options import Whole, option
from secfc.cli.shell.verbosity import log_to_stderr
from secfc.data.inputs import write_private
from secfc.deploy.session import Carrier
from secfc.logs import Fact, log_event, log_exchange
from secfc.roles.exchange import Exchange, Role
from secfc.transport import wire

R = TypeVar("R")

PHASES = {
    "greet": "greeting the others", "introduce": "telling row counts", "agree": "comparing the plan",
    "align": "finding the union of IDs", "scale": "finding a common scale", "share": "sharing points",
    "toss": "tossing coins for the start", "settle": "settling who takes part", "pair": "agreeing on keys",
    "distances": "clustering", "compare": "clustering", "deal": "clustering", "assign": "clustering",
    "open": "clustering", "check": "clustering", "finish": "finishing", "end": "ending",
}  # fmt: skip


# A connection to one peer that broke so often within so many seconds.
OFTEN, WITHIN = 10, 60.0
BREAKS_OFTEN = (
    "connections break as soon as they are made: perhaps a second process takes part with this site's key, "
    "as from a copy of its directory; stop one of them. Else it is the line, or what stands before the hub"
)


class Log:
    """Counters of one party.  rounds, sent: exchanges and bytes of messages by phase, before sealing."""

    def __init__(self, party: str, board: Path | None = None) -> None:
        self.party, self.board = party, board
        self.away: dict[str, str] = {}  # since when, by peer
        self._back: list[tuple[str, str, str]] = []
        self.rounds: dict[str, int] = {}
        self.sent: dict[str, int] = {}
        self.begun = time.monotonic()
        self._last, self._since = "", _now()
        self._broke: dict[str, deque[float]] = {}  # when, of each peer
        self.breaks_often = False

    @classmethod
    @contextmanager
    def open(cls, party: str, board: Path | None = None) -> Iterator[Log]:
        """On stderr, and what it does now on a board, once there is a journal beside it."""
        with log_to_stderr():
            yield cls(party, board)

    def say(self, what: str, level: int = logging.INFO, /, **more: Fact) -> None:
        """One event."""
        log_event("deploy", what, level, party=self.party, **more)

    def peer(self, peer: str, what: str) -> None:
        """A connection came, broke or came back."""
        self.say(what.replace(" ", "-"), peer=peer)
        if what in ("came", "came back"):
            if since := self.away.pop(peer, None):
                self._back.append((peer, since, _now()))
        else:
            self.away.setdefault(peer, _now())
            self._note_break(peer)
        self.post()

    def _note_break(self, peer: str) -> None:
        """Say once that connections break all the time."""
        last = self._broke.setdefault(peer, deque(maxlen=OFTEN))
        last.append(time.monotonic())
        if not self.breaks_often and len(last) == OFTEN and last[-1] - last[0] < WITHIN:
            self.breaks_often = True
            self.say("breaks-often", logging.WARNING, note=BREAKS_OFTEN)

    @property
    def absences(self) -> list[tuple[str, str, str | None]]:
        """Who was away from this process, since when, and until when; None for who still is."""
        return [*self._back, *((peer, since, None) for peer, since in self.away.items())]

    def post(self) -> None:
        """Say on the board what is done, and who is away; a board that cannot be written is no fault."""
        if self.board is not None and self.board.parent.exists():
            lines = [f"doing     {self._last or 'meeting the others'}, since {self._since}"]
            lines += [f"away      {peer}, since {since}" for peer, since in self.away.items()]
            lines += [f"note      {BREAKS_OFTEN}"] * self.breaks_often
            with contextlib.suppress(OSError):
                write_private(self.board, "".join(f"{line}\n" for line in lines).encode())

    def watched(self, role: Role[R]) -> Role[R]:
        """The role, with its messages counted and logged."""
        from secfc.pipeline import watch_role

        return watch_role(self.party, role, self.count)

    def count(self, party: str, exchange: Exchange) -> None:
        """What a party sends next, and in which phase."""
        phase = exchange.phase
        self.rounds[phase] = self.rounds.get(phase, 0) + 1
        size = sum(map(wire.encoded_size, exchange.send.values()))
        self.sent[phase] = self.sent.get(phase, 0) + size
        log_exchange("deploy", party, exchange)
        words = PHASES.get(phase, phase)
        if words and words != self._last:
            self._last, self._since = words, _now()
            self.post()
            self.say("phase", note=words)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


# --------------------------------------------------------------------------------------------------
# `--page`: numbers for whoever operates a hub or a site, on the loopback (`secfc.deploy.metrics`).


@dataclass(frozen=True)
class Page:
    """Address of the metrics page."""

    # fmt: off
    page: int | None = option(None, Whole(0, 65535), metavar="PORT", help=
        "Show /healthz and /metrics (for Prometheus; names nobody) on this port of the loopback.")
    # fmt: on


def with_metrics_page(carrier: Carrier, meter: Any, port: int | None) -> Carrier:
    """The carrier, with the page of a site as long as it carries; meter:
    `secfc.deploy.metrics.SiteMetrics`.
    """
    if meter is None or port is None:
        return carrier

    async def carry(role: Any, peers: tuple[str, ...]) -> Any:
        from secfc.deploy.metrics import serve_metrics

        try:
            async with serve_metrics(meter.registry, port, trouble=meter.trouble):
                return await carrier(role, peers)
        except OSError as error:
            if "bind" not in str(error):
                raise
            raise RefusedInput(f"--page {port}: {error.strerror or error}. Choose another port.") from error

    return carry
