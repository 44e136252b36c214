"""What attacks on distances read: questions of a server, and what could be decoded of the answers.

The protocol whose messages these were is not known here (`secfc.exact.readings` reads SecFC's).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from secfc.roles.exchange import PartyId

Array = NDArray[Any]


class CannotDecode(ValueError):  # noqa: N818 - named for what happened
    """The view holds too few replies to decode a single distance."""


@dataclass(frozen=True, eq=False, repr=False)
class Question:
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


class Seen(Protocol):
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
    def widths(self) -> tuple[int, ...]:
        """Features in each segment of a point."""
        ...

    def questions(self) -> Iterator[Question]:
        """The server's questions in order."""
        ...

    def distances(self, question: Question) -> Array:
        """Squared distances (k, m) in squared data units; a row of NaN for an empty cluster.

        Of questions that are whole.          Raises CannotDecode.
        """
        ...

    def segments(self, question: Question) -> Array:
        """The same for each segment of the features: (segments, k, m).  Raises CannotDecode."""
        ...

    def known(self) -> tuple[Array, Array]:
        """Rows (p,) and points (p, d) of the coalition itself, in data units."""
        ...
