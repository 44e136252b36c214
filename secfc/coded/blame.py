"""Whom the server may still believe: lying clients located, named and no longer asked.

The honest replies are points of one polynomial.  With A lying clients planned for and not yet found,
threshold + A replies that agree contain a threshold of honest ones, so what they decode to is true; A lies
among threshold + 2 A replies are located.  In between, of threshold + A + s replies s lies are located, and
more are noticed.  Hence, as long as at most A clients lie, whoever else falls silent, every result is exact
or a typed error, and whoever is named did lie, except with probability `field.code.consistency.miss_bound`.

A dispute is between a dealer and a receiver of whom one must have lied, and nobody can tell which.  Both are
no longer asked: that costs two replies and takes away one liar, so what remains can be told apart as before.
A message that is lost between two clients counts as a lie of one of them.

More liars than planned are noticed as long as replies are to spare; without any, and above all once disputes
have used them up, liars beyond the plan can pass for honest clients, and no decoder can tell.

Whose replies are not read cannot be found: where more clients are there than are needed, the server reads a
part of the replies, and a lie in another changes nothing and stays unnamed.

Assumes a server that follows the protocol: its coins are secret until the replies are there, and what it
says about liars is believed.  The proofs are the server's own; they do not convince an outsider.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from numpy.typing import NDArray

from field.code.consistency import judge_dealing, locate_liars, screen_liars
from field.code.range_check import OpenedProjections, ProjectionPattern, judge_projections
from field.code.reed_solomon import TooManyLiars
from field.secrets.coins import Coins
from secfc.coded.messages import DealingChallenge
from secfc.coded.plan import CodedPlan
from secfc.errors import LiarsExceeded, TooFewReplies
from secfc.roles.checks import check_all, well_formed
from secfc.roles.exchange import PartyId

Array = NDArray[Any]
M = TypeVar("M")

OFF = "its replies lie off the polynomial of all others"
MALFORMED = "it sent what no honest client sends"
DEALING = "the shares it dealt of its rows lie on no polynomial"
WORDS = "what it published of shares contradicts its own dealing, or more dealers than may lie"
RANGE = "the rows it dealt hold values far beyond the public bound"
BLINDING = "the blinding it dealt lies on no polynomial, or does not sum to zero"


@dataclass(frozen=True)
class BlameState:
    """What is known of the clients' honesty: liars with the proof of each, and pairs of whom one lied."""

    liars: Mapping[PartyId, str]
    disputes: tuple[tuple[PartyId, PartyId], ...] = ()


@dataclass(frozen=True)
class DealingVerdict:
    """What published words say of a dealing.

    good: what the doubted receivers (by number) leave lies on one polynomial.  proof: if not, whether that
    is proof against the dealer.
    """

    good: bool
    proof: bool
    doubted: tuple[int, ...]
    why: str = DEALING


class CheaterIdentification:
    """The clients that are asked, and how many of them may still lie.

    coins: secret, drawn from when the replies are there.  Not a frozen value: what changes is what the server
    found out.
    """

    def __init__(self, plan: CodedPlan, coins: Coins, standing: BlameState | None = None) -> None:
        self.plan, self.coins = plan, coins
        self.standing = standing or BlameState({})
        self.present: tuple[PartyId, ...] = plan.clients

    @property
    def left(self) -> int:
        """How many of the active clients may lie."""
        liars, disputes = self.standing.liars, self.standing.disputes
        return self.plan.liars - len(liars) - sum(a not in liars and b not in liars for a, b in disputes)

    @property
    def active(self) -> tuple[PartyId, ...]:
        """Who is present, was not found lying, and is in no dispute, in the order of the plan."""
        out = {*self.standing.liars, *(c for pair in self.standing.disputes for c in pair)}
        return tuple(c for c in self.present if c not in out)

    def needed(self, degree: int) -> int:
        """Replies that must agree, and with which the server can go on."""
        return self.plan.code.threshold(degree) + self.left

    def challenge(self) -> DealingChallenge:
        """A fresh one, to be sent when all that it is about has arrived."""
        return DealingChallenge(self.coins.bytes(32))

    def blame(self, client: PartyId, why: str) -> None:
        """Name a client with proof.  Raises LiarsExceeded if this is one too many."""
        self._learn(BlameState({**self.standing.liars, client: why}, self.standing.disputes))

    def part(self, dealer: PartyId, receiver: PartyId) -> None:
        """Ask neither of two clients any more, one of whom lied.  Raises LiarsExceeded."""
        self._learn(BlameState(self.standing.liars, (*self.standing.disputes, (dealer, receiver))))

    def _learn(self, standing: BlameState) -> None:
        suspects = tuple(self.standing.liars)
        self.standing = standing
        if self.left < 0:
            raise LiarsExceeded(self.plan.liars, suspects)

    def checked(
        self, inbox: Mapping[PartyId, Any], kind: type[M], check: Callable[[PartyId, M], None]
    ) -> dict[PartyId, M]:
        """The messages of active clients, each of this type and passing the check.

        check raises FaultyClient.  Its sender is named then, which ends the run only as `blame` says.
        """
        inbox = {c: m for c, m in inbox.items() if c in self.active}
        if not self.plan.liars:
            return check_all(inbox, kind, check)
        good = well_formed(inbox, kind, check)
        for sender in inbox:
            if sender not in good:
                self.blame(sender, MALFORMED)
        return good

    def screened(self, values: Mapping[int, Array], degree: int) -> dict[int, Array]:
        """Enough replies (lanes, *shape), by number, that are true; whoever was found lying is named.

        values: canonical residues of active clients, of this degree in their shares.

        Raises TooFewReplies, LiarsExceeded.
        """
        needed, left, code = self.needed(degree), self.left, self.plan.code
        if len(values) < needed:
            raise TooFewReplies(needed, self.names(values))
        if not self.plan.liars:
            return dict(values)
        found = min(left, len(values) - needed)
        try:
            if found == self.plan.liars:
                usable, liars = screen_liars(code, values, degree, found, self.coins)
            else:
                # Somebody is missing or has lied before: read everything there is.
                liars = locate_liars(code, values, degree, found, self.coins)
                usable = tuple(j for j in values if j not in liars)
        except TooManyLiars:
            raise LiarsExceeded(self.plan.liars, tuple(self.standing.liars)) from None
        for client in self.names(liars):
            self.blame(client, OFF)
        return {j: values[j] for j in usable}

    def judged(self, words: Mapping[int, Array], degree: int, *, zero_sum: bool = False) -> DealingVerdict:
        """Whether a dealing of this degree is false, by the words (lanes, words) of active receivers."""
        found = min(self.left, len(words) - self.needed(degree))
        if found < 0:
            return DealingVerdict(False, False, ())
        verdict = judge_dealing(self.plan.code, words, found, degree=degree, zero_sum=zero_sum)
        # Fewer words leave less to blame on receivers: the verdict then holds, but proves nothing.
        return DealingVerdict(not verdict.dealer, verdict.dealer and found == self.left, verdict.receivers)

    def judged_rows(
        self, pattern: ProjectionPattern, words: Mapping[int, OpenedProjections]
    ) -> DealingVerdict:
        """Whether rows that were dealt are false or out of range, by masked projections of them."""
        errors = min(self.left, len(words) - self.needed(1))
        if errors < 0:
            return DealingVerdict(False, False, ())
        if not next(iter(words.values())).sums.size:
            return DealingVerdict(True, False, ())
        finding = judge_projections(self.plan.code, pattern, words, errors)
        good, why = finding.on_code and finding.small, RANGE if finding.on_code else DEALING
        return DealingVerdict(good, not good and errors == self.left, finding.receivers, why)

    def names(self, numbers: Iterable[int]) -> tuple[PartyId, ...]:
        """The names of clients by number."""
        return tuple(self.plan.clients[j] for j in numbers)

    def numbers(self, clients: Iterable[PartyId]) -> tuple[int, ...]:
        """The numbers of clients by name."""
        return tuple(self.plan.clients.index(c) for c in clients)
