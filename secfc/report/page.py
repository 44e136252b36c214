"""A report as one page: no script, nothing from a network, good on paper; everything is escaped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

from secfc.report.data import Report
from secfc.report.parts import Dots
from secfc.report.people import sections
from secfc.report.summary import SIMULATED, summary

# Ten hues that also differ in lightness (Okabe and Ito's, and two grays); an eleventh cluster has the first.
COLORS = (
    "#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9",
    "#d55e00", "#8c7a00", "#5b3a8c", "#555555", "#a0a0a0",
)  # fmt: skip
WIDTH, HEIGHT, ROOM = 640.0, 400.0, 12.0


@cache
def template(name: str = "page.html.jinja") -> Any:
    """A template of this folder; they share parts, and everything is escaped."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FunctionLoader(lambda file: files("secfc.report").joinpath(file).read_text(encoding="utf-8")),
    )  # fmt: skip
    made.filters["kind"] = lambda part: type(part).__name__
    made.filters["placed"] = placed
    made.filters["widths"] = widths
    made.globals["colors"] = COLORS
    return made.get_template(name)


def as_html(found: Report, *, holders: bool = False, sketch: Dots | None = None) -> str:
    """The report as a page of HTML.

    holders: whether its readers may see the data; else what only these should see is left out, and named.
    sketch: a picture of points (`secfc.report.sketch`), which only holders get.
    """
    whole = sections(found, sketch)
    public = found.publishable if found.noisy and not holders else found
    shown = [section for section in whole if holders or not section.holders]
    return str(
        template().render(
            title=found.account.title,
            simulated=SIMULATED,
            holders=holders,
            started=None if found.origin is None else found.origin.started,
            verified=found.verified,
            summary=summary(public),
            sections=[replace(shown[0], title="The run"), *shown[1:]],
            hidden=[section.title for section in whole if section not in shown],
            parties=sorted(public.counts.clients) if public.counts is not None else (),
            parameters=[(name, _short(value)) for name, value in found.parameters.items()],
        )
    )


def _short(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(_short, value)) or "none"
    return "not set" if value is None else str(value)


def widths(values: Sequence[tuple[str, int]]) -> list[tuple[str, int, float]]:
    """Names, numbers, and the length of their bars in percent."""
    most = max((value for _, value in values), default=0) or 1
    return [(name, value, round(100 * value / most, 2)) for name, value in values]


def placed(dots: Dots) -> list[tuple[float, float, str]]:
    """Points of a picture of WIDTH x HEIGHT, and their colors; both axes have one scale."""
    xs, ys = [x for x, _, _ in dots.points], [y for _, y, _ in dots.points]
    spans = (max(xs) - min(xs) or 1.0, max(ys) - min(ys) or 1.0)
    unit = min((WIDTH - 2 * ROOM) / spans[0], (HEIGHT - 2 * ROOM) / spans[1])
    middle = ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
    return [
        (
            round(WIDTH / 2 + unit * (x - middle[0]), 1),
            round(HEIGHT / 2 - unit * (y - middle[1]), 1),
            COLORS[h % len(COLORS)],
        )
        for x, y, h in dots.points
    ]
