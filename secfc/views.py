"""What a coalition of parties saw of a run, and nothing else: the input of every attack.

A `View` holds what the named parties held (the points of the clients among them), what they received, and
what they sent.  What they drew stands in what they sent: a client's masks follow from its points and the
shares it dealt out, the server's starts from the clusterings it announced; coins themselves are never
recorded.  Everything public about the run is in the plan.

Built from a transcript that kept its contents, so an experiment in one process is the only source of
views.  A view contains private points and exact distances: keep it as secret as the data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.exact import Exact
from field.nearest import decode_scaled
from field.rows import cluster_sizes
from secfc.clustering import Clustering
from secfc.exchange import SERVER, STRIDE, PartyId
from secfc.federation import Federation
from secfc.layout import OwnRows
from secfc.messages import Assignment, CodedDistances
from secfc.simulate import Envelope, Transcript

Array = NDArray[Any]


class CannotDecode(ValueError):  # noqa: N818 - named for what happened
    """The view holds too few replies to decode a single distance."""


@dataclass(frozen=True, eq=False, repr=False)
class Held:
    """Points that a client in the coalition owns: rows (p,) among all m, points (p, d) in data units."""

    rows: Array
    points: Array

    def __repr__(self) -> str:
        return f"Held(points={self.points.shape}, secret)"


@dataclass(frozen=True, eq=False, repr=False)
class Question:
    """One question of the server, and the replies that the coalition saw.

    number: of its round, later questions have larger ones.  labels: (m,) int32 in [-1, k), the clusters
    whose centers were asked for.  replies[j]: (lanes, k, m) residues of client number j.
    """

    number: int
    labels: Array
    k: int
    replies: Mapping[int, Array]

    def __repr__(self) -> str:
        return f"Question({self.number}, m={len(self.labels)}, k={self.k}, replies={len(self.replies)})"


@dataclass(frozen=True, eq=False, repr=False)
class View:
    """Everything that a coalition saw of a run.

    plan: the public plan.  parties: the coalition.  messages: all it sent or received, in order, with
    contents.  held: the points of clients in the coalition, as far as the federation was given.
    """

    plan: Any
    parties: tuple[PartyId, ...]
    messages: tuple[Envelope, ...]
    held: Mapping[PartyId, Held]

    @classmethod
    def of(
        cls,
        source: Clustering | Transcript,
        plan: Any,
        parties: PartyId | Iterable[PartyId],
        federation: Federation | None = None,
    ) -> View:
        """The view of these parties of a run, from its result or transcript.

        federation: the run's input; without it the points that clients in the coalition own are missing.

        Raises ValueError for a transcript without contents, and for a party that took no part.
        """
        transcript = source.transcript if isinstance(source, Clustering) else source
        coalition = (parties,) if isinstance(parties, str) else tuple(dict.fromkeys(parties))
        strangers = sorted(set(coalition) - {SERVER, *plan.clients})
        if strangers or not coalition:
            raise ValueError(
                f"{', '.join(map(repr, strangers)) or 'nobody'} took no part: name {SERVER!r} or clients of "
                "the plan"
            )
        if any(e.body is None for e in transcript.envelopes):
            raise ValueError(
                "the transcript kept no contents, so nobody's view can be told: run "
                "secfc.fit(..., keep_bodies=True)"
            )
        messages = tuple(e for e in transcript.envelopes if e.sender in coalition or e.recipient in coalition)
        held = {} if federation is None else _held(plan, coalition, federation)
        return cls(plan, coalition, messages, held)

    def __repr__(self) -> str:
        points = ", ".join(f"{name}: {h.points.shape}" for name, h in self.held.items())
        return f"View({', '.join(self.parties)}: {len(self.messages)} messages, held {{{points}}}, secret)"

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

    def questions(self) -> Iterator[Question]:
        """The server's questions in order, each with the replies that members sent or received."""
        clients = {name: j for j, name in enumerate(self.plan.clients)}
        asked: dict[int, Assignment] = {}
        replies: dict[int, dict[int, Array]] = {}
        for e in self.messages:
            if isinstance(e.body, Assignment) and e.sender == SERVER:
                asked.setdefault(e.body.round, e.body)
            elif isinstance(e.body, CodedDistances) and e.recipient == SERVER:
                # The first answer counts, as at the server; a repeated one brings nothing new.
                # Answers come in the rounds up to the next question's.
                number = e.round - e.round % STRIDE
                replies.setdefault(number, {}).setdefault(clients[e.sender], e.body.values)
        for number, question in sorted(asked.items()):
            labels = question.labels.astype(np.int32)
            yield Question(number, labels, question.k, replies.get(number, {}))

    def distances(self, question: Question) -> Array:
        """Squared distances (k, m) in squared data units; a row of NaN for an empty cluster.

        Those of the quantized points, exact up to the rounding of one division.

        Raises CannotDecode.
        """
        self._check(question)
        return self._in_data_units(decode_scaled(self.plan.code, question.replies), question)

    def segments(self, question: Question) -> Array:
        """The same for each of the ell segments of the features: (ell, k, m), summing to `distances`.

        Sensible only for replies that are not blinded.

        Raises CannotDecode.
        """
        self._check(question)
        code = self.plan.code
        values = code.interpolate(question.replies, 2)
        basis = code.basis.prefix(len(values))
        return np.stack(
            [
                self._in_data_units(Exact.lift(basis, np.ascontiguousarray(values[:, u])), question)
                for u in range(code.ell)
            ]
        )

    def known(self) -> tuple[Array, Array]:
        """Rows (p,) and points (p, d) of all the coalition's clients, as the protocol rounded them."""
        rows = [np.empty(0, np.int64), *(h.rows for h in self.held.values())]
        points = [np.empty((0, self.plan.d)), *(self._rounded(h.points) for h in self.held.values())]
        return np.concatenate(rows), np.concatenate(points)

    def _rounded(self, points: Array) -> Array:
        quantizer = self.plan.quantizer
        return np.asarray(quantizer(points) / quantizer.scale)

    def _check(self, question: Question) -> None:
        needed = self.plan.code.threshold(2)
        if len(question.replies) < needed:
            raise CannotDecode(
                f"{', '.join(self.parties)} saw {len(question.replies)} replies to question "
                f"{question.number}, {needed} are needed to decode a distance: add the server to the view"
            )

    def _in_data_units(self, scaled: Exact, question: Question) -> Array:
        # scaled[h, i] = (size_h scale)**2 ||x_i - c_h||**2.
        sizes = cluster_sizes(question.labels, question.k).astype(np.float64)
        sizes[sizes == 0] = np.nan
        return np.asarray(scaled.floats() / (sizes[:, None] * self.plan.quantizer.scale) ** 2)


def _held(plan: Any, coalition: tuple[PartyId, ...], federation: Federation) -> dict[PartyId, Held]:
    if set(coalition) == {SERVER}:
        return {}
    if not isinstance(getattr(plan, "layout", None), OwnRows):
        raise ValueError(
            "the plan does not tell which rows a client owns: leave out the federation, and add the points "
            "with dataclasses.replace(view, held={name: Held(rows, points)})"
        )
    if federation.names != plan.clients or federation.counts != plan.layout.counts:
        raise ValueError(
            "the federation and the plan differ in clients or row counts: give the one that was clustered"
        )
    held = {}
    for j, party in enumerate(federation.parties):
        if party.name in coalition:
            first, count = plan.layout.span(j)
            held[party.name] = Held(np.arange(first, first + count), party.read())
    return held
