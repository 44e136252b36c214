"""How clients hear one another while they compare: all that is awaited, or an error with who is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare.correlated_randomness import PartyRandomness
from field.compare.dealer_protocol import combine_openings
from field.kernels.threads import split_range
from field.ring.basis import Basis
from secfc.coded.messages import Corrections, MaskedBits, MissingMessages, RequestCorrections
from secfc.coded.policy import DistanceOracle
from secfc.coded.quorum import NOBODY_MISSED, receive_all
from secfc.disclosure.checked.steps import CheckingClient
from secfc.disclosure.compare.dealer import Dealt
from secfc.disclosure.compare.session import ComparisonSession, check_opening, check_words
from secfc.roles.exchange import Exchange, PartyId, Role

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class StartedComparison:
    """What precedes a comparison is done: what my rows are measured to; whom the dealer missed; words (n,)
    that are left of the dealer's first, None if they are still to come; at a dealer, what is left to deal;
    checking: my part in the check of replies, if these are checked."""

    measured: DistanceOracle
    missing: Array
    words: Array | None = None
    left: Dealt = field(default_factory=Dealt)
    checking: CheckingClient | None = None


class CommitteeRounds:
    """One exchange after the other with the other members, all of whom are heard.

    number: the round of the first.  step: its step after the question, which errors name.
    """

    def __init__(self, number: int, step: int, others: tuple[PartyId, ...]) -> None:
        self.number, self.step, self.others = number, step, others

    def __call__(self, send: Mapping[PartyId, MaskedBits]) -> Role[Mapping[PartyId, MaskedBits]]:
        wait = Exchange(dict(send), self.others, 0, round=self.number, phase="compare")
        shares = yield from receive_all(wait, MaskedBits, self.step)
        self.number, self.step = self.number + 1, self.step + 1
        return shares


def add_residues(basis: Basis, values: Sequence[Array]) -> Array:
    """The sum of residues (lanes, ...), C-contiguous."""
    total = values[0].copy()
    for value in values[1:]:
        for lane, p in enumerate(basis.primes):
            basis.add_to_lane(total[lane], value[lane], p)
    return total


# --------------------------------------------------------------------------------------------------
# How the member that gets corrections has the next portion of them, where a comparison has several.


@dataclass(eq=False, repr=False)
class CorrectionStream:
    """One member's; portions: words of each.  next: the number of the one that is next."""

    match: ComparisonSession
    name: PartyId
    dealer: PartyId
    portions: tuple[int, ...]
    hand: PartyRandomness
    next: int = 1

    def __call__(self, step: int) -> Role[None]:
        """Ask the dealer for the next portion, and take it, if this member gets any.

        step: the last one of the answer.  Raises NothingHeardError of it.
        """
        match, number = self.match, self.next
        if self.name != match.corrected:
            return
        self.next += 1
        yield Exchange(
            {self.dealer: RequestCorrections(number)}, round=match.asked_in(number), phase="compare"
        )
        wait = Exchange({}, (self.dealer,), 0, round=match.given_in(number), phase="compare")
        told = (yield from receive_all(wait, Corrections, step))[self.dealer]
        self.hand.feed(check_words(self.dealer, told.words, (self.portions[number],)))


def stop_requesting(match: ComparisonSession, name: PartyId) -> Role[None]:
    """Tell the dealer that no portion will be asked for, if I am the member that gets them."""
    dealer = match.seating.dealer
    if name == match.corrected and dealer is not None:
        for number in range(1, match.feeds + 1):
            told = MissingMessages(0, NOBODY_MISSED)
            yield Exchange({dealer: told}, round=match.asked_in(number), phase="compare")


# --------------------------------------------------------------------------------------------------
# How a committee opens what its members have shares of: all tell all, or each adds up a part for all.

# One exchange with the other members, all of whom are heard.
Talk = Callable[[Mapping[PartyId, MaskedBits]], Role[Mapping[PartyId, MaskedBits]]]

# From so many bytes on it is worth a round more that every member adds up a part, and tells the others the
# sum: of c members all together tell 2 (c - 1) times what is opened, not c (c - 1) times.
WORTH_PARTS = 1 << 15


def reconstruct(
    basis: Basis, members: Sequence[PartyId], me: PartyId, mine: Array, talk: Talk
) -> Role[Array]:
    """What all members' shares add up to, of which this is mine: words, or residues (lanes, ...).

    members: the same order at all of them.  Raises FaultyClient for a share of another shape.
    """
    words = mine.dtype == np.uint64
    ring = basis if words else basis.prefix(len(mine))
    others = [c for c in members if c != me]
    flat = mine.reshape(-1) if words else mine.reshape(len(mine), -1)

    def exchanged(send: Mapping[PartyId, Array], due: Mapping[PartyId, Array]) -> Role[dict[PartyId, Array]]:
        heard = yield from talk({c: MaskedBits(share) for c, share in send.items()})
        return {c: check_opening(ring, c, heard[c].words, due[c]) for c in others}

    if len(members) == 2 or mine.nbytes < WORTH_PARTS or flat.shape[-1] < len(members):
        theirs = yield from exchanged(dict.fromkeys(others, mine), dict.fromkeys(others, mine))
        return combine_openings(ring, [mine, *theirs.values()])
    where = dict(zip(members, split_range(flat.shape[-1], len(members)), strict=True))
    parts = {c: np.ascontiguousarray(flat[..., part]) for c, part in where.items()}
    theirs = yield from exchanged({c: parts[c] for c in others}, dict.fromkeys(others, parts[me]))
    total = combine_openings(ring, [parts[me], *theirs.values()])
    theirs = yield from exchanged(dict.fromkeys(others, total), parts)
    out = np.empty_like(flat)
    for c, part in where.items():
        out[..., part] = total if c == me else theirs[c]
    return out.reshape(mine.shape)
