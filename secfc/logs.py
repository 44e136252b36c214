"""Events for `logging`, under the logger "secfc" and those below it: names and numbers that are public, only.

    logging.getLogger("secfc").setLevel(logging.INFO)   # a run begins and ends, peers come and go
    logging.getLogger("secfc").setLevel(logging.DEBUG)  # every exchange: who, which phase, kinds of messages

A record's message is for people; `record.event` and `record.facts` are the same for programs.  Points,
labels, IDs, shares and keys are no facts: `log_event` takes text, numbers and truth values, and whoever calls
it passes names of parties, phases, kinds, counts of messages, seconds.  Nothing is printed unless the program
that uses this library adds a handler.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

ROOT = "secfc"
Fact = str | int | float | bool | None
_UNHEARD = ContextVar("secfc.logs.silence_logs", default=False)

logging.getLogger(ROOT).addHandler(logging.NullHandler())


def log_event(room: str, event: str, level: int = logging.INFO, /, **facts: Fact) -> None:
    """Log one event.

    room: whose it is, as "fitting"; its logger is "secfc.fitting".  facts: public ones; `note` is a sentence.
    """
    logger = logging.getLogger(f"{ROOT}.{room}")
    if logger.isEnabledFor(level) and not _UNHEARD.get():
        logger.log(
            level, "%s", format_event(event, facts), extra={"event": event, "facts": facts}, stacklevel=2
        )


@contextmanager
def silence_logs() -> Iterator[None]:
    """Within the body nothing is logged: of runs that only load what a run needs."""
    before = _UNHEARD.set(True)
    try:
        yield
    finally:
        _UNHEARD.reset(before)


def format_event(event: str, facts: dict[str, Fact]) -> str:
    """One line for people.

    >>> format_event("lost", {"peer": "b", "round": 3})
    'lost: peer=b round=3'
    """
    words = facts.get("note") or " ".join(f"{name}={_short(value)}" for name, value in facts.items())
    return f"{event}: {words}" if words else event


@cache
def _logger_of(room: str) -> logging.Logger:
    return logging.getLogger(f"{ROOT}.{room}")


def log_exchange(room: str, party: str, exchange: Any) -> None:
    """Log, for debugging, what a party sends next and whom it awaits: `secfc.roles.exchange.Exchange`."""
    if _logger_of(room).isEnabledFor(logging.DEBUG):
        kinds = ",".join(sorted({message.kind for message in exchange.send.values()}))
        log_event(
            room, "exchange", logging.DEBUG, party=party, phase=exchange.phase, round=exchange.round,
            kinds=kinds, to=len(exchange.send), awaits=len(exchange.expect),
        )  # fmt: skip


def _short(value: Fact) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
