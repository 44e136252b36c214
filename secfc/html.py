"""A few facts as HTML, for notebooks: no style sheet, no script, no network; everything is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape


def facts_table(title: str, first: str, values: Mapping[str, object], said: Sequence[str], then: str) -> str:
    """A title, a first sentence, a table of names and values, and sentences under a heading of their own."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th>"
        f"<td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in values.items()
    )
    return (
        f"<div><strong>{escape(title)}</strong><br>{escape(first)}<table>{rows}</table>"
        + (f"{escape(then)}{_items(said)}" if said else "")
        + "</div>"
    )


def _items(said: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(sentence)}</li>' for sentence in said)}</ul>"
