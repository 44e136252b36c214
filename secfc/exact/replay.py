"""What the server saw of a run that wrote nothing down, computed again from the points.

In one process there is a witness of every question of the server, and the points are at hand.  So what the
server decoded, distances of the quantized points to public averages of them, follows up to rounding, without
any message having been kept: a `Replay` shows an attack what the server saw, alone or with a client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.rows import cluster_sizes
from secfc.algorithm import Clustering
from secfc.attacks.geometry import averages
from secfc.attacks.seen import Question
from secfc.attacks.views import Held
from secfc.coded.messages import Assignment, Halve
from secfc.data.federation import Federation
from secfc.lloyd.centers import squared_distances
from secfc.roles.exchange import SERVER, Exchange, PartyId

Array = NDArray[Any]


@dataclass(eq=False)
class Witness:
    """Keeps the server's questions of a run: pass it to `fit` as `watch`, or call it from yours.

    measured: the numbers of those whose distances go to the server, under every policy.
    """

    questions: list[Question] = field(default_factory=list)
    measured: set[int] = field(default_factory=set)

    def __call__(self, party: PartyId, exchange: Exchange) -> None:
        asked = next((m for m in exchange.send.values() if isinstance(m, Assignment)), None)
        if party == SERVER and asked is not None:
            whole = not asked.halves or asked.k == 2
            self.questions.append(Question(asked.round, asked.labels, asked.k, {}, whole))
            if type(asked) in (Assignment, Halve):  # others ask for something that is made of distances
                self.measured.add(asked.round)


@dataclass(frozen=True, eq=False, repr=False)
class Replay:
    """What the server saw, with the distances computed from the points instead of decoded from replies.

    An `attacks.seen.Seen`.  parties: the server, and a client if one helps it, whose points are `held`.
    asked: its questions.  points: (m, d), the quantized points in data units, in the order of rows: what
    the judge compares with as well.  deviation: of the noise on the distances of a question.
    """

    parties: tuple[PartyId, ...]
    held: Held | None
    asked: tuple[Question, ...]
    points: Array
    deviation: Callable[[Question], float] | None = None

    @classmethod
    def witnessed(
        cls,
        witness: Witness,
        result: Clustering,
        federation: Federation,
        known: PartyId | None = None,
    ) -> Replay:
        """The view of the server, together with client `known` if there is one.

        Raises ValueError for a run that left rows out or had no rounding.
        """
        rows = result.rows
        if rows is None or result.excluded:
            raise ValueError(
                "the run left out a client's rows, or had no server that asks: replay another run"
            )
        m = 1 + max((int(own.max()) for own in rows if len(own)), default=-1)
        points = np.zeros((m, federation.d))
        held, quantizer = None, result.plan.quantizer
        for party, own in zip(federation.parties, rows, strict=True):
            points[own] = quantizer(party.read()) / quantizer.scale
            if party.name == known:
                held = Held(own, points[own])
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
    def widths(self) -> tuple[int, ...]:
        """Replies are taken as blinded: nothing is seen of segments."""
        return (self.d,)

    def questions(self) -> Iterator[Question]:
        yield from self.asked

    def distances(self, question: Question) -> Array:
        points = self.points
        centers = averages(question.labels, question.k) @ points
        centers[cluster_sizes(question.labels, question.k) == 0] = np.nan
        exact = squared_distances(points, centers).T
        if self.deviation is None:
            return exact
        # An experiment's noise, which protects nobody: the same every time that this question is looked at.
        rng = np.random.default_rng(question.number)
        return exact + self.deviation(question) * rng.standard_normal(exact.shape)

    def segments(self, question: Question) -> Array:
        """The distances, as of one segment."""
        return self.distances(question)[None]

    def known(self) -> tuple[Array, Array]:
        """Rows and points of the client that helps, as the protocol rounded them."""
        if self.held is None:
            return np.empty(0, np.int64), np.empty((0, self.d))
        return self.held.rows, self.held.points
