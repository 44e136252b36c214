"""What commands that write the page for whoever has to approve a run let people say on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click


def filled(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """What only people know, by name."""
    if not values:
        return {}
    from secfc.report.officer import FILLED

    names = [name.lower() for name in FILLED]
    found: dict[str, str] = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not (equals and text.strip()) or name.strip().lower() not in names:
            raise click.BadParameter(f"{value!r}: NAME=TEXT is needed, NAME one of {', '.join(names)}.")
        found[name.strip().lower()] = text.strip()
    return found


def check_filled(fill: Mapping[str, str], page: Path | None) -> None:
    """Raises UsageError for words without a page."""
    if fill and page is None:
        raise click.UsageError("--fill is about a page: add --officer page.html, or leave it out.")


of_officer: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--fill",
    multiple=True,
    callback=filled,
    metavar="NAME=TEXT",
    help="On that page: what only people know, as purpose='heart failure study'; also 'categories of data "
    "subjects', 'legal basis', 'controllers and processors', retention. Repeatable.",
)
