"""What commands say on the way: --quiet, --verbose, and a log on stderr, as JSON off a terminal."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime
from functools import wraps
from typing import Any

import click

from secfc.logs import ROOT

KEY = "secfc.telling"
LEVEL = "secfc.level"
# Of the command that runs, with the commands that have the others of their words: what errors may offer.
OPTIONS = "secfc.options"
QUIET = click.Option(
    ["--quiet"],
    is_flag=True,
    expose_value=False,
    help="Say nothing but errors, and results that no file has.",
)
VERBOSE = click.Option(
    ["--verbose"], is_flag=True, expose_value=False, help="Say on stderr what happens, exchange by exchange."
)


def with_verbosity_options(command: click.Command) -> click.Command:
    """The command, with --quiet and --verbose; where it has one itself, that is heard as well."""
    own = {parameter.name: parameter for parameter in command.params}
    for option in (QUIET, VERBOSE):
        if option.name not in own:
            command.params.append(option)
        elif own[option.name].callback is None:
            own[option.name].callback = _noted
    call = command.callback
    if call is not None:
        command.callback = _told(call)
    return command


def _told(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call, with events on stderr meanwhile where --verbose is given.

    Not from when a line is parsed: that may end in an error, after which nobody closes what was opened.
    """

    @wraps(call)
    def told(*arguments: Any, **values: Any) -> Any:
        level = click.get_current_context().meta.get(LEVEL)
        with nullcontext() if level is None else log_to_stderr(level):
            return call(*arguments, **values)

    return told


def _noted(context: click.Context, parameter: click.Parameter, value: bool) -> bool:
    context.meta[OPTIONS] = {
        flag: vars(option.type).get("moved", {}) for option in context.command.params for flag in option.opts
    }
    if value:
        other = context.meta.setdefault(KEY, parameter.name)
        if other != parameter.name:
            raise click.UsageError(f"--{other} and --{parameter.name} exclude each other: leave one out.")
        if parameter.name == "verbose":
            more = parameter is VERBOSE  # where reports say more, too, they are what is read
            context.meta[LEVEL] = logging.DEBUG if more else logging.INFO
    return value


QUIET.callback = VERBOSE.callback = _noted


def is_quiet() -> bool:
    """Whether the command that runs was asked for silence."""
    context = click.get_current_context(silent=True)
    return context is not None and context.meta.get(KEY) == "quiet"


@contextmanager
def log_to_stderr(level: int = logging.INFO) -> Iterator[None]:
    """Within the body, events of this level and above stand on stderr.

    Nothing more where they do already, and nothing where silence was asked for.
    """
    logger = logging.getLogger(ROOT)
    if is_quiet() or any(isinstance(handler, Stderr) for handler in logger.handlers):
        yield
        return
    handler, before = Stderr(), logger.level
    handler.setFormatter(Lines() if sys.stderr.isatty() else Objects())
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


class Stderr(logging.Handler):
    """Writes where stderr is now, as it moves while something is drawn there."""

    def emit(self, record: logging.LogRecord) -> None:
        """A line."""
        click.echo(self.format(record), err=True)


class Lines(logging.Formatter):
    """For people: seconds since it began, and what happened."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = time.time()

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        return f"{record.created - self.begun:7.1f} s  {record.getMessage()}"


class Objects(logging.Formatter):
    """For programs: one JSON object a line, with time, level, logger, event and facts."""

    def format(self, record: logging.LogRecord) -> str:
        """A line."""
        now = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        event = getattr(record, "event", None)
        what = {"event": event, **record.facts} if event else {"event": record.getMessage()}  # type: ignore[attr-defined]
        return json.dumps({"time": now, "level": record.levelname, "logger": record.name, **what})
