"""How a committee shares labels and compares: what `secfc.disclosure.owner_labels.client` asks of it.

Dealt (`secfc.disclosure.owner_labels.dealer`), or without a dealer
(`secfc.disclosure.owner_labels.dealerless`).  Both hold labels in the same form, so all that is computed of
them, and told of them, is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from field.arrays import Array
from field.code.masking import PairKeys
from field.compare.assignment_step import AssignmentStep, SharedContest, SharedLabels
from field.ring.basis import Basis
from secfc.coded.policy import DistanceOracle
from secfc.disclosure.checked.parts import PartKeys
from secfc.disclosure.checked.steps import CheckingClient
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare.center_rounding import SumsChecking
from secfc.disclosure.compare.dealer import Dealt
from secfc.disclosure.compare.session import CommitteeChoice, ComparisonSession
from secfc.disclosure.dealerless.steps import AnswerRounds, SharedKeySeats
from secfc.roles.exchange import Role

# Shares by part, under masks that add up to zero: of words, or of residues (lanes, ...) of this basis.
Hiding = Callable[[Mapping[int, Array], Basis | None], dict[int, Array]]


@dataclass(frozen=True, eq=False, repr=False)
class StartedQuery:
    """A question that a client began to answer.

    game: what is dealt for.  missing: whose seeds a dealer lacks.  corrections: of the dealer, if heard yet.
    seats: of a committee without a dealer, at a member.  left: at a dealer, what is left to deal.
    checking: my part in the check of replies, if these are checked; sums: in that of sums whose centers are
    rounded.  spoken: at a member of a committee with a dealer, its part in what the committee says.
    proof: at a responder the check of sums by shared labels, where that goes on beside a comparison.
    """

    game: AssignmentStep | SharedContest | None
    missing: Array
    corrections: Array | None = None
    seats: SharedKeySeats | None = None
    left: Dealt = field(default_factory=Dealt)
    checking: CheckingClient | None = None
    sums: SumsChecking | None = None
    spoken: CommitteeWords | None = None
    proof: Role[None] | None = None

    @property
    def keys(self) -> PartKeys | None:
        """At a member of a committee with a dealer, what hides and deals what its parts tell."""
        return None if self.spoken is None else self.spoken.keys

    @property
    def due(self) -> int:
        """Words of the first portion that is dealt for the game."""
        return 0 if self.game is None else self.game.portions[0]


class LabelSharingBackend(Protocol):
    """A client's part.  peers: its keys with the other clients."""

    @property
    def seating(self) -> CommitteeChoice:
        """Who compares."""
        ...

    @property
    def peers(self) -> PairKeys: ...

    @property
    def held(self) -> Callable[[ComparisonSession, SharedLabels], Array] | None:
        """How a member's part of labels becomes its share of them (lanes, K - 1, m), if members respond."""
        ...

    def parts(self, match: ComparisonSession) -> tuple[int, ...]:
        """Numbers of the parts that this member plays (`secfc.disclosure.checked.blocks`)."""
        ...

    def public(self, match: ComparisonSession, part: int, labels: Array, clusters: Array) -> SharedLabels:
        """A part's share of labels (m,) that everybody knows, among these clusters (K,)."""
        ...

    def hiding(self, match: ComparisonSession, keys: PartKeys | None) -> Hiding:
        """How a member's parts are hidden before they leave the committee; once a question.  keys: see
        `StartedQuery`."""
        ...

    def begin(
        self, match: ComparisonSession, steps: AnswerRounds, game: AssignmentStep | SharedContest | None
    ) -> Role[StartedQuery]:
        """What comes first of an answer.  game: None where nothing is compared."""
        ...

    def rounded(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[tuple[DistanceOracle, StartedQuery]]:
        """What distances are measured to instead where centers are rounded, and what is left of the dealer's
        words then."""
        ...

    def moved(
        self,
        match: ComparisonSession,
        steps: AnswerRounds,
        begun: StartedQuery,
        measured: DistanceOracle,
        old: Mapping[int, SharedLabels] | None,
    ) -> Role[tuple[dict[int, SharedLabels], bool | Mapping[int, Array] | None] | None]:
        """At a member its parts' shares of the labels after a step, and whether none changed, or by part
        shares of residues that are all 0 then; None if not tested."""
        ...

    def won(
        self, match: ComparisonSession, steps: AnswerRounds, begun: StartedQuery, measured: DistanceOracle
    ) -> Role[dict[int, Array] | None]:
        """At a member its parts' shares of who wins each point, (K, words)."""
        ...
