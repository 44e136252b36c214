"""What an algorithm says of itself in the report of a run, so that reports need to know no algorithm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from field.arrays import Array


@dataclass(frozen=True)
class NoisyReleaseSummary:
    """A release under a budget, by its sizes alone, so it may be told to everybody.

    what: was released.  size: how many numbers.  noise: the standard deviation of the noise of each.
    signal: the root mean square of what it lies on, noise taken off, by what all may see; None where that
    says nothing, as of distances.  Both are in units of what was released.
    """

    what: str
    size: int
    noise: float
    signal: float | None = None


@dataclass(frozen=True)
class LabelsSummary:
    """Labels that were released, each drawn by its row's owner; of everything else the report says the rest.

    sums, epsilon: budgets of the sums and of the labels.  right: the probability that a label is the row's
    own.  sizes, errors: (k,) of clusters by these labels, unbiased, and their standard errors, in rows.
    """

    sums: float
    epsilon: float
    right: float
    sizes: list[float]
    errors: list[float]


@dataclass(frozen=True)
class CentersSummary:
    """How sure private centers and sizes are, by what was released alone.

    sizes: (k,) rows of each cluster by the last noisy counts, None where clients are protected, whose counts
    may be shortened.  error: the standard deviation of the noise on each.  moved: (k,) how far noise moves
    each center, as a root mean square in data units; None for one that its rows did not move, as their count
    was within the noise: how far it lies from them is unknown.  least: rows below which a cluster is taken
    for noise.  bias: what the releases leave out, in sentences.
    """

    sizes: list[float] | None
    error: float
    moved: list[float | None]
    least: float
    bias: tuple[str, ...]

    @classmethod
    def of(
        cls, sizes: list[float] | None, error: float, blur: Array, least: float, bias: tuple[str, ...]
    ) -> CentersSummary:
        """Summary of centers that noise moves by `blur` (k,), 0 for those that rows did not move."""
        return cls(sizes, error, [moved or None for moved in blur.tolist()], least, bias)


@dataclass(frozen=True)
class RunSummary:
    """What its method `account(result, federation, ids=...)` says of a finished run.

    ids: the column that names points, if one does.  An algorithm without that method is reported all the same
    (`secfc.report`), by the name of its class and by its values.

    name: one word.  title: what was run, in a line.  parameters: of the run, by name, in plain values.
    claim: how labels relate to those of plaintext k-means, in a sentence, for a run that was not compared.
    task: how clusters were looked for, in phrases.  setup: names and sentences on who is protected, and how.
    delta: of the budget of differential privacy that the run spent, None if there was none.
    follows: whether labels follow from what was released, so that under a budget their numbers may be told.
    hidden, opened: what private membership hides and what it opens, in sentences; empty if it is open.
    heard: what every client learned of others' points, in sentences, where no policy says it.
    dendrogram: what merging clusters would cost (`Clustering.dendrogram`), None if that was not opened.
    outside: how many of the points that were clustered are in no cluster.
    noise: what carried noise, and how much.  labels: what was released of them.  centers: how sure they are.
    assumed: by name, what was taken for public, on which the promise of differential privacy rests, in plain
    values.  notes: what whoever reads the report should know; they may be published, so they follow from what
    is public or was released.
    """

    name: str
    title: str
    parameters: Mapping[str, Any]
    claim: str = "Nothing to verify: only SecFC claims to equal plaintext k-means."
    task: tuple[str, ...] = ()
    setup: tuple[tuple[str, str], ...] = ()
    delta: float | None = None
    follows: bool = True
    hidden: tuple[str, ...] = ()
    opened: tuple[str, ...] = ()
    heard: tuple[str, ...] = ()
    noise: tuple[NoisyReleaseSummary, ...] = ()
    labels: LabelsSummary | None = None
    centers: CentersSummary | None = None
    assumed: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    dendrogram: Any = None
    outside: int = 0


# --------------------------------------------------------------------------------------------------
# A few facts as HTML, for notebooks: no style sheet, no script, no network; everything is escaped.

FACTS = """<div><strong>{{ title }}</strong><br>{{ first }}<table>
{%- for name, value in values.items() -%}
<tr><th style='text-align:left'>{{ name }}</th><td style='text-align:left'>{{ value }}</td></tr>
{%- endfor %}</table>
{%- if said %}{{ then }}<ul>
{%- for sentence in said %}<li>{{ sentence }}</li>{% endfor %}</ul>
{%- endif %}</div>"""


def facts_table(title: str, first: str, values: Mapping[str, object], said: Sequence[str], then: str) -> str:
    """A title, a first sentence, a table of names and values, and sentences under a heading of their own."""
    from jinja2 import Environment

    template = Environment(autoescape=True).from_string(FACTS)
    return template.render(title=title, first=first, values=values, said=said, then=then)
