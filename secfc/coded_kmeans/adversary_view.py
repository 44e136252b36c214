"""What SecFC's messages mean to whoever saw them: the server's questions, and what replies decode to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.distances import decode_scaled
from field.code.rows import cluster_sizes
from field.ring.uint128 import UInt128
from secfc.algorithm import Clustering
from secfc.attacks.geometry import averaging_matrix
from secfc.attacks.views import CannotDecode, CoalitionPoints, SeenQuery, View
from secfc.coded.messages import CheckedDistances, CodedDistances
from secfc.coded.queries import Query
from secfc.data.federation import Federation
from secfc.errors import InputError
from secfc.kmeans.centers import squared_distances
from secfc.remedies import agree_in_number
from secfc.roles.exchange import SERVER, STRIDE, Exchange, PartyId, Transcript


@dataclass(frozen=True, eq=False, repr=False)
class DecodedView:
    """The questions in a view of a run of SecFC, and what its replies decode to (an
    `attacks.seen.SeenDistances`).
    """

    view: View

    @classmethod
    def of(
        cls,
        source: Clustering | Transcript,
        plan: Any,
        parties: PartyId | Iterable[PartyId],
        federation: Federation | None = None,
    ) -> DecodedView:
        """Read the view of these parties: see `View.of`."""
        return cls(View.of(source, plan, parties, federation))

    def __repr__(self) -> str:
        return f"Questions({self.view!r})"

    @property
    def parties(self) -> tuple[PartyId, ...]:
        """Who saw them."""
        return self.view.parties

    @property
    def m(self) -> int:
        """Points in total."""
        return int(self.view.plan.m)

    @property
    def d(self) -> int:
        """Features."""
        return int(self.view.plan.d)

    @property
    def segment_widths(self) -> tuple[int, ...]:
        """Features in each of the ell segments."""
        code, d = self.view.plan.code, self.d
        width = code.width(d)
        return tuple(max(0, min(width, d - u * width)) for u in range(code.ell))

    def questions(self) -> Iterator[SeenQuery]:
        """The server's questions in order, each with the replies that members sent or received."""
        clients = self.view.plan.seats
        asked: dict[int, Query] = {}
        replies: dict[int, dict[int, Array]] = {}
        for e in self.view.messages:
            if isinstance(e.body, Query) and e.sender == SERVER:
                asked.setdefault(e.body.round, e.body)
            elif isinstance(e.body, CodedDistances | CheckedDistances) and e.recipient == SERVER:
                # The first answer counts, as at the server; a repeated one brings nothing new.
                # Answers come in the rounds up to the next question's.
                number = e.round - e.round % STRIDE
                replies.setdefault(number, {}).setdefault(clients[e.sender], e.body.values)
        for number, question in sorted(asked.items()):
            labels = question.labels.astype(np.int32)
            whole = not question.operation.halves or question.k == 2
            yield SeenQuery(number, labels, question.k, replies.get(number, {}), whole)

    def distances(self, question: SeenQuery) -> Array:
        """Squared distances (k, m) in squared data units; a row of NaN for an empty cluster.

        Where clusters are halved, those to both halves of a point's own cluster: (2, m).

        Those of the quantized points, exact up to the rounding of one division.

        Raises CannotDecode.
        """
        self._check(question)
        return self._in_data_units(decode_scaled(self.view.plan.code, question.replies), question)

    def segment_distances(self, question: SeenQuery) -> Array:
        """Squared distances for each of the ell segments of features: (ell, k, m), summing to `distances`.

        Sensible only for replies that are not blinded.

        Raises CannotDecode.
        """
        self._check(question)
        code = self.view.plan.code
        values = code.interpolate(question.replies, 2)
        basis = code.basis.prefix(len(values))
        return np.stack(
            [
                self._in_data_units(UInt128.lift(basis, np.ascontiguousarray(values[:, u])), question)
                for u in range(code.ell)
            ]
        )

    def known(self) -> tuple[Array, Array]:
        """Rows (p,) and points (p, d) of all the coalition's clients, as the protocol rounded them."""
        rows, points = self.view.known()
        quantizer = self.view.plan.quantizer
        return rows, np.asarray(quantizer(points) / quantizer.scale) if len(rows) else points

    def _check(self, question: SeenQuery) -> None:
        needed = self.view.plan.code.threshold(2)
        if len(question.replies) < needed:
            seen = f"{', '.join(self.view.parties)} saw {len(question.replies)} replies to question "
            raise CannotDecode(
                agree_in_number(seen)
                + f"{question.number}, {needed} are needed to decode a distance: add the server to the view"
            )

    def _in_data_units(self, scaled: UInt128, question: SeenQuery) -> Array:
        # scaled[h, i] = (size_h scale)**2 ||x_i - c_h||**2, with the scale of rows as they are computed on.
        sizes = cluster_sizes(question.labels, question.k).astype(np.float64)
        sizes[sizes == 0] = np.nan
        floats, sizes = scaled.to_floats(), sizes[:, None]
        if not question.whole:  # to both halves of its own cluster, for each point
            first = question.labels // 2 * 2
            sizes = sizes[np.stack([first, first + 1]), 0]
        return np.asarray(floats / (sizes * float(self.view.plan.scale)) ** 2)


# --------------------------------------------------------------------------------------------------
# What the server saw of a run that wrote nothing down, computed again from the points.
#
# In one process there is a witness of every question of the server, and the points are at hand.  So what the
# server decoded, distances of the quantized points to public averages of them, follows up to rounding,
# without any message having been kept: a `ServerView` shows an attack what the server saw, alone or with a
# client.


@dataclass(eq=False)
class QueryRecorder:
    """Keeps the server's questions of a run: pass it to `fit` as `watch`, or call it from yours.

    measured: the numbers of those whose distances go to the server, under every policy.
    """

    questions: list[SeenQuery] = field(default_factory=list)
    measured: set[int] = field(default_factory=set)

    def __call__(self, party: PartyId, exchange: Exchange) -> None:
        asked = next((m for m in exchange.send.values() if isinstance(m, Query)), None)
        if party == SERVER and asked is not None:
            whole = not asked.operation.halves or asked.k == 2
            self.questions.append(SeenQuery(asked.round, asked.labels, asked.k, {}, whole))
            if asked.operation.opens == "distances":  # others ask for something that is made of distances
                self.measured.add(asked.round)


@dataclass(frozen=True, eq=False, repr=False)
class ServerView:
    """What the server saw, with the distances computed from the points instead of decoded from replies.

    An `attacks.seen.SeenDistances`.  parties: the server, and a client if one helps it, whose points are
    `held`.
    asked: its questions.  points: (m, d), the quantized points in data units, in the order of rows: what
    the judge compares with as well.  deviation: of the noise on the distances of a question.
    """

    parties: tuple[PartyId, ...]
    held: CoalitionPoints | None
    asked: tuple[SeenQuery, ...]
    points: Array
    deviation: Callable[[SeenQuery], float] | None = None

    @classmethod
    def of_recording(
        cls, witness: QueryRecorder, result: Clustering, federation: Federation, known: PartyId | None = None
    ) -> ServerView:
        """The view of the server, together with client `known` if there is one.

        Raises ValueError for a run that left rows out or had no rounding.
        """
        rows = result.rows
        if rows is None or result.excluded:
            raise InputError(
                "the run left out a client's rows, or had no server that asks: replay another run"
            )
        m = 1 + max((int(own.max()) for own in rows if len(own)), default=-1)
        points = np.zeros((m, federation.d))
        held, quantizer = None, result.plan.quantizer
        for party, own in zip(federation.parties, rows, strict=True):
            points[own] = quantizer(party.read()) / quantizer.scale
            if party.name == known:
                held = CoalitionPoints(own, points[own])
        parties = (SERVER,) if known is None else (SERVER, known)
        return cls(parties, held, tuple(witness.questions), points)

    def __repr__(self) -> str:
        return f"Replay({', '.join(self.parties)}: {len(self.asked)} questions, secret)"

    @property
    def m(self) -> int:
        """Points in total."""
        return len(self.points)

    @property
    def d(self) -> int:
        """Features."""
        return int(self.points.shape[1])

    @property
    def segment_widths(self) -> tuple[int, ...]:
        """Replies are taken as blinded: nothing is seen of segments."""
        return (self.d,)

    def questions(self) -> Iterator[SeenQuery]:
        yield from self.asked

    def distances(self, question: SeenQuery) -> Array:
        points = self.points
        centers = averaging_matrix(question.labels, question.k) @ points
        centers[cluster_sizes(question.labels, question.k) == 0] = np.nan
        exact = squared_distances(points, centers).T
        if self.deviation is None:
            return exact
        # An experiment's noise, which protects nobody: the same every time that this question is looked at.
        rng = np.random.default_rng(question.number)
        return exact + self.deviation(question) * rng.standard_normal(exact.shape)

    def segment_distances(self, question: SeenQuery) -> Array:
        """The distances, as of one segment."""
        return self.distances(question)[None]

    def known(self) -> tuple[Array, Array]:
        """Rows and points of the client that helps, as the protocol rounded them."""
        if self.held is None:
            return np.empty(0, np.int64), np.empty((0, self.d))
        return self.held.rows, self.held.points
