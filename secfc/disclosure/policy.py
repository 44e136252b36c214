"""What every disclosure policy offers to the roles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

from numpy.typing import NDArray

from field.coins import Coins
from field.quantize import Quantizer
from field.rows import ClusterSums, CodedRows
from secfc.exchange import PartyId, Role
from secfc.layout import Layout
from secfc.messages import Assignment, CodedCenters, Message, RevealCenters
from secfc.plan import Plan
from secfc.privacy.ledger import EXACT, Ledger
from secfc.source import CodedSource

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Measured:
    """A client's shares, and the clusters whose centers its rows are measured to; computes when asked."""

    rows: CodedRows
    sums: ClusterSums

    @property
    def sizes(self) -> Array:
        """(k,) points of each cluster: public."""
        return self.sums.sizes

    def distances(self, lanes: int) -> Array:
        """Coded scaled distances, (lanes, k, m) residues: a share, secret."""
        return self.rows.distances(self.sums, lanes)


# A client's part in answering an assignment, given its shares of what it asks about: a fragment that may
# talk to others in rounds after the question's, and returns what the server is due, None for silence.
Answer = Callable[[Assignment, Measured], Role[Message | None]]

# What the server sees in every iteration beside the public parameters, and so what it can attack:
# "distances" of all points to all centers, and labels; "labels" alone; or "nothing" but the result.
Exposure = Literal["distances", "labels", "nothing"]


class Disclosure(Protocol):
    """A policy.  Both fragments run once, after the rows are shared and before the first iteration.

    One that checks what clients send by the source's `screening` says so by `finds_liars = True`; others are
    refused if lying clients are planned for.
    """

    @property
    def exposes(self) -> Exposure:
        """What the server sees in every iteration."""
        ...

    @property
    def least_lanes(self) -> int:
        """Lanes below which an automatic scale would be too coarse."""
        ...

    @property
    def exact(self) -> bool:
        """Whether labels are those of exact k-means; then a cost is known, and new points may be labeled."""
        ...

    def headroom(self, way: Any, public: Any, layout: Layout) -> int:
        """How many times the largest distance the modulus must hold, for a `SecFC` on public facts.

        Raises ValueError if this policy does not fit them.
        """
        ...

    def clip(self, quantizer: Quantizer) -> Quantizer:
        """The quantizer that makes rows fit this policy."""
        ...

    def check(self, plan: Plan) -> None:
        """Raises ValueError for a plan that this policy cannot follow, before any data is touched."""
        ...

    def client(self, plan: Plan, name: PartyId, *, coins: Coins) -> Role[Answer]:
        """How a client answers."""
        ...

    def server(
        self, plan: Plan, present: tuple[PartyId, ...], *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        """Where the server's steps come from."""
        ...

    def open_centers(
        self, plan: Plan, name: PartyId, question: RevealCenters, compute: Callable[[], Array], coins: Coins
    ) -> Role[Message | None]:
        """A consenting client's answer, given how to compute its shares of the sums (lanes, k, width)."""
        ...

    def ledger(self, plan: Plan) -> Ledger:
        """What the run costs in differential privacy, by view."""
        ...

    def learned(self, plan: Plan) -> tuple[str, ...]:
        """What the server learned, in sentences for people."""
        ...


class Exactly:
    """What policies without noise share: rows as they come, exact centers, no differential privacy."""

    exact: ClassVar[bool] = True
    least_lanes: ClassVar[int] = 2

    def headroom(self, way: Any, public: Any, layout: Layout) -> int:
        return 1

    def clip(self, quantizer: Quantizer) -> Quantizer:
        return quantizer

    def check(self, plan: Plan) -> None:
        """Fits every plan."""

    def open_centers(
        self, plan: Plan, name: PartyId, question: RevealCenters, compute: Callable[[], Array], coins: Coins
    ) -> Role[CodedCenters | None]:
        yield from ()
        return CodedCenters(compute())

    def ledger(self, plan: Plan) -> Ledger:
        return EXACT
