"""What SecFC's messages mean to whoever saw them: the server's questions, and what replies decode to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.nearest import decode_scaled
from field.code.rows import cluster_sizes
from field.ring.exact import Exact
from secfc.algorithm import Clustering
from secfc.attacks.seen import CannotDecode, Question
from secfc.attacks.views import View
from secfc.coded.messages import Assignment, CodedDistances
from secfc.data.federation import Federation
from secfc.roles.exchange import SERVER, STRIDE, PartyId
from secfc.roles.messages import Final
from secfc.roles.transcript import Transcript

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Questions:
    """The questions in a view of a run of SecFC, and what its replies decode to (an `attacks.seen.Seen`)."""

    view: View

    @classmethod
    def of(
        cls,
        source: Clustering | Transcript,
        plan: Any,
        parties: PartyId | Iterable[PartyId],
        federation: Federation | None = None,
    ) -> Questions:
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
    def widths(self) -> tuple[int, ...]:
        """Features in each of the ell segments."""
        code, d = self.view.plan.code, self.d
        width = code.width(d)
        return tuple(max(0, min(width, d - u * width)) for u in range(code.ell))

    def questions(self) -> Iterator[Question]:
        """The server's questions in order, each with the replies that members sent or received."""
        clients = self.view.plan.seats
        asked: dict[int, Assignment] = {}
        replies: dict[int, dict[int, Array]] = {}
        for e in self.view.messages:
            if isinstance(e.body, Assignment) and e.sender == SERVER:
                asked.setdefault(e.body.round, e.body)
            elif isinstance(e.body, CodedDistances) and e.recipient == SERVER:
                # The first answer counts, as at the server; a repeated one brings nothing new.
                # Answers come in the rounds up to the next question's.
                number = e.round - e.round % STRIDE
                replies.setdefault(number, {}).setdefault(clients[e.sender], e.body.values)
        for number, question in sorted(asked.items()):
            labels = question.labels.astype(np.int32)
            whole = not question.halves or question.k == 2
            yield Question(number, labels, question.k, replies.get(number, {}), whole)

    def distances(self, question: Question) -> Array:
        """Squared distances (k, m) in squared data units; a row of NaN for an empty cluster.

        Where clusters are halved, those to both halves of a point's own cluster: (2, m).

        Those of the quantized points, exact up to the rounding of one division.

        Raises CannotDecode.
        """
        self._check(question)
        return self._in_data_units(decode_scaled(self.view.plan.code, question.replies), question)

    def segments(self, question: Question) -> Array:
        """The same for each of the ell segments of the features: (ell, k, m), summing to `distances`.

        Sensible only for replies that are not blinded.

        Raises CannotDecode.
        """
        self._check(question)
        code = self.view.plan.code
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
        rows, points = self.view.known()
        quantizer = self.view.plan.quantizer
        return rows, np.asarray(quantizer(points) / quantizer.scale) if len(rows) else points

    def _check(self, question: Question) -> None:
        needed = self.view.plan.code.threshold(2)
        if len(question.replies) < needed:
            raise CannotDecode(
                f"{', '.join(self.view.parties)} saw {len(question.replies)} replies to question "
                f"{question.number}, {needed} are needed to decode a distance: add the server to the view"
            )

    def _in_data_units(self, scaled: Exact, question: Question) -> Array:
        # scaled[h, i] = (size_h scale)**2 ||x_i - c_h||**2, with the scale of rows as they are computed on.
        sizes = cluster_sizes(question.labels, question.k).astype(np.float64)
        sizes[sizes == 0] = np.nan
        floats, sizes = scaled.floats(), sizes[:, None]
        if not question.whole:  # to both halves of its own cluster, for each point
            first = question.labels // 2 * 2
            sizes = sizes[np.stack([first, first + 1]), 0]
        return np.asarray(floats / (sizes * float(self.view.plan.scale)) ** 2)


def final_labels(view: View) -> Array | None:
    """The labels (m,) of the result, where the server told them to all; None where nobody in the view was."""
    told = [e.body.labels for e in view.messages if isinstance(e.body, Final)]
    return told[-1] if told else None


def final_centers(view: View) -> Array | None:
    """Opened centers (k, d) in data units; None where they stayed closed, or nobody in the view was told."""
    told = [e.body.centers for e in view.messages if isinstance(e.body, Final)]
    return told[-1] if told else None
