"""What a coalition of parties saw of a run, and nothing else: the input of every attack.

A `View` holds what the named parties held (the points of the clients among them), what they received, and
what they sent.  What they drew stands in what they sent: a client's masks follow from its points and the
shares it dealt out, the server's starts from the clusterings it announced; coins themselves are never
recorded.  Everything public about the run is in the plan.

What the messages mean is not known here: that is read beside the protocol that sends them, SecFC's in
`secfc.coded_kmeans.adversary_view`.  Attacks take a view or such a reading.

Built from a transcript that kept its contents, so an experiment in one process is the only source of
views.  A view contains private points and exact distances: keep it as secret as the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from field.arrays import Array
from secfc.algorithm import Clustering
from secfc.data.federation import Federation
from secfc.errors import InputError
from secfc.roles.exchange import SERVER, Envelope, PartyId, Transcript

# Who takes no part, and sees what a run was for.
OUTSIDER: PartyId = "outsider"


@dataclass(frozen=True, eq=False, repr=False)
class CoalitionPoints:
    """Points that a client in the coalition owns: rows (p,) among all m, points (p, d_j) in data units.

    Where no message numbers rows, those are in the order of the federation, one client's after the other's.
    """

    rows: Array
    points: Array

    def __repr__(self) -> str:
        return f"Held(points={self.points.shape}, secret)"


@dataclass(frozen=True, eq=False, repr=False)
class PublicOutput:
    """What a run was for, as whoever reads of it sees it: centers (k, d) in data units, None if not opened,
    with a row of NaN for an empty cluster; sizes (k,), None where neither labels nor sizes are known to all.
    """

    centers: Array | None
    sizes: Array | None

    def __repr__(self) -> str:
        return f"Output(centers={self.centers is not None}, sizes={self.sizes is not None})"


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """Everything that a coalition saw of a run.

    Parameters
    ----------
    plan
        Public plan of the run.
    parties
        The coalition; empty for an outsider.
    messages
        All messages that the coalition sent or received, in order, with contents.
    held
        Points of the clients in the coalition, as far as the federation was given.
    output
        What everybody may know of the result; None for a view made from a transcript.
    """

    plan: Any
    parties: tuple[PartyId, ...]
    messages: tuple[Envelope, ...]
    held: Mapping[PartyId, CoalitionPoints]
    output: PublicOutput | None = None

    @classmethod
    def of(
        cls,
        source: Clustering | Transcript,
        plan: Any,
        parties: PartyId | Iterable[PartyId],
        federation: Federation | None = None,
    ) -> View:
        """The view of these parties of a run, from its result or transcript.

        parties: names, or OUTSIDER for somebody who sees the result alone.  federation: the run's input;
        without it the points that clients in the coalition own are missing.

        Raises ValueError for a transcript without contents, for a party that took no part, and for another
        federation than the run's.
        """
        transcript = source.transcript if isinstance(source, Clustering) else source
        output = public_output(source) if isinstance(source, Clustering) else None
        if parties == OUTSIDER:
            return cls(plan, (), (), {}, output)
        coalition = (parties,) if isinstance(parties, str) else tuple(dict.fromkeys(parties))
        strangers = sorted(set(coalition) - {SERVER, *plan.clients})
        if strangers or not coalition:
            raise InputError(
                f"{', '.join(map(repr, strangers)) or 'nobody'} took no part: name {SERVER!r} or clients of "
                "the plan"
            )
        if any(e.body is None for e in transcript.envelopes):
            raise InputError(
                "the transcript kept no contents, so nobody's view can be told: run "
                "secfc.fit(..., keep_bodies=True)"
            )
        messages = tuple(e for e in transcript.envelopes if e.sender in coalition or e.recipient in coalition)
        held = {} if federation is None else _held(_rows(source, plan, federation), coalition, federation)
        return cls(plan, coalition, messages, held, output)

    def __repr__(self) -> str:
        points = ", ".join(f"{name}: {h.points.shape}" for name, h in self.held.items())
        who = ", ".join(self.parties) or OUTSIDER
        return f"View({who}: {len(self.messages)} messages, held {{{points}}}, secret)"

    def received(self) -> tuple[Envelope, ...]:
        """What came from outside the coalition."""
        return tuple(e for e in self.messages if e.sender not in self.parties)

    def sent(self) -> tuple[Envelope, ...]:
        """What went outside the coalition."""
        return tuple(e for e in self.messages if e.recipient not in self.parties)

    def kinds(self) -> dict[str, Counter[str]]:
        """How many messages of each kind were received, were sent, and stayed inside the coalition."""
        table: dict[str, Counter[str]] = {"received": Counter(), "sent": Counter(), "inside": Counter()}
        for e in self.messages:
            to_us, from_us = e.recipient in self.parties, e.sender in self.parties
            table["inside" if to_us and from_us else "received" if to_us else "sent"][e.kind] += 1
        return table

    def known(self) -> tuple[Array, Array]:
        """Rows (p,) and points (p, d), in data units, of all the coalition's clients."""
        rows = [np.empty(0, np.int64), *(h.rows for h in self.held.values())]
        points = [h.points for h in self.held.values()]
        return np.concatenate(rows), np.concatenate(points) if points else np.empty((0, 0))


def public_output(result: Clustering) -> PublicOutput:
    """What everybody may know of a result: centers as opened; sizes where labels of all points are told to
    all, or sizes themselves.
    """
    sizes = result.sizes[-1] if result.sizes else None
    if sizes is None and result.history:
        flat = result.flat
        sizes = np.bincount(flat[flat >= 0], minlength=result.k)
    return PublicOutput(result.centers, sizes)


def _held(
    rows: Mapping[PartyId, Array], coalition: tuple[PartyId, ...], federation: Federation
) -> dict[PartyId, CoalitionPoints]:
    if tuple(rows) != federation.names or tuple(map(len, rows.values())) != federation.counts:
        raise InputError(
            "the federation and the run differ in clients or row counts: give the one that was clustered"
        )
    return {
        p.name: CoalitionPoints(rows[p.name], p.read()) for p in federation.parties if p.name in coalition
    }


def _rows(source: Clustering | Transcript, plan: Any, federation: Federation) -> dict[PartyId, Array]:
    """The rows of every client among all: as the result has them, or one client's after the other's."""
    counts: tuple[int, ...] | None = None
    if isinstance(source, Clustering):
        if source.rows is not None:
            return dict(zip(source.plan.clients, source.rows, strict=True))
        counts = tuple(map(len, source.labels))
    counts = counts or getattr(plan, "counts", None) or getattr(getattr(plan, "layout", None), "counts", None)
    if counts is None:
        raise InputError(
            "the plan does not tell which rows a client of this federation owns: give the result of the run "
            "instead of its transcript, and the federation that was clustered"
        )
    ends = np.cumsum([0, *counts])
    return {name: np.arange(ends[j], ends[j + 1], dtype=np.int64) for j, name in enumerate(plan.clients)}


# --------------------------------------------------------------------------------------------------
# What attacks on distances read: questions of a server, and what could be decoded of the answers.
#
# The protocol whose messages these were is not known here (`secfc.coded_kmeans.adversary_view` reads
# SecFC's).


class CannotDecode(ValueError):  # noqa: N818 - named for what happened
    """The view holds too few replies to decode a single distance."""


@dataclass(frozen=True, eq=False, repr=False)
class SeenQuery:
    """One question of the server, and the replies that the coalition saw.

    number: of its round, later questions have larger ones.  labels: (m,) int32 in [-1, k), the clusters
    whose centers were asked for.  replies[j]: (lanes, k, m) residues of client number j.  whole: whether all
    points were measured to all centers; else the distances that were are left out of what follows from it.
    """

    number: int
    labels: Array
    k: int
    replies: Mapping[int, Array]
    whole: bool = True

    def __repr__(self) -> str:
        return f"Question({self.number}, m={len(self.labels)}, k={self.k}, replies={len(self.replies)})"


class SeenDistances(Protocol):
    """Distances as a coalition saw them, of m points of d features."""

    @property
    def parties(self) -> tuple[PartyId, ...]:
        """Who saw them."""
        ...

    @property
    def m(self) -> int: ...

    @property
    def d(self) -> int: ...

    @property
    def segment_widths(self) -> tuple[int, ...]:
        """Features in each segment of a point."""
        ...

    def questions(self) -> Iterator[SeenQuery]:
        """The server's questions in order."""
        ...

    def distances(self, question: SeenQuery) -> Array:
        """Squared distances (k, m) in squared data units; a row of NaN for an empty cluster.

        Of questions that are whole.          Raises CannotDecode.
        """
        ...

    def segment_distances(self, question: SeenQuery) -> Array:
        """Squared distances for each segment of the features: (segments, k, m).  Raises CannotDecode."""
        ...

    def known(self) -> tuple[Array, Array]:
        """Rows (p,) and points (p, d) of the coalition itself, in data units."""
        ...
