"""How clients hear one another while they compare: all that is awaited, or an error with who is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from field.ring.basis import Basis
from secfc.coded.dealing_messages import Corrections
from secfc.coded.messages import MaskedBits, Unheard
from secfc.coded.policy import Measured
from secfc.roles.exchange import Exchange, PartyId, Role, take

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Begun:
    """What precedes a comparison is done: what my rows are measured to; whom the dealer missed; words (n,)
    that are left of the dealer's first, None if they are still to come; at a dealer, what is left to deal."""

    measured: Measured
    missing: Array
    words: Array | None = None
    left: Iterator[tuple[int, Corrections]] = field(default_factory=lambda: iter(()))


class NothingHeardError(Exception):
    """A step ended without these parties' messages, perhaps nobody's, so this client can go no further."""

    def __init__(self, step: int, missing: tuple[PartyId, ...]) -> None:
        super().__init__(f"step {step}")
        self.step, self.missing = step, missing


def heard(exchange: Exchange, kind: Any, step: int) -> Role[dict[PartyId, Any]]:
    """What every awaited party sent.  Raises NothingHeardError if one did not, or goes no further."""
    inbox = take((yield exchange), kind | Unheard)
    missing = tuple(c for c in exchange.expect if c not in inbox)
    if missing or any(isinstance(message, Unheard) for message in inbox.values()):
        raise NothingHeardError(step, missing)
    return inbox


class Talking:
    """One exchange after the other with the other members, all of whom are heard.

    number: the round of the first.  step: its step after the question, which errors name.
    """

    def __init__(self, number: int, step: int, others: tuple[PartyId, ...]) -> None:
        self.number, self.step, self.others = number, step, others

    def __call__(self, send: Mapping[PartyId, MaskedBits]) -> Role[Mapping[PartyId, MaskedBits]]:
        wait = Exchange(dict(send), self.others, 0, round=self.number, phase="compare")
        shares = yield from heard(wait, MaskedBits, self.step)
        self.number, self.step = self.number + 1, self.step + 1
        return shares


def added(basis: Basis, values: Sequence[Array]) -> Array:
    """The sum of residues (lanes, ...), C-contiguous."""
    total = values[0].copy()
    for value in values[1:]:
        for lane, p in enumerate(basis.primes):
            basis.add_to_lane(total[lane], value[lane], p)
    return total
