"""What is public of secure sums (`secfc.secure_sum.protocol`): who adds, who holds shares, and how many must
agree.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import Basis
from field.ring.errors import InvalidValue
from secfc.roles.description import LOCAL
from secfc.roles.exchange import PartyId

# A committee of 15 has t = 5 masks in a share, and does without any 8 members, or
# any 6 where shares pack three numbers.
COMMITTEE = 15
# Clients in a wave; more where there would be more than so many waves.
WAVE, WAVES = 512, 500


def count_colluders(clients: tuple[PartyId, ...], committee: int | None, t: int | None) -> int:
    """How many of these clients may collude: t, or a third of a committee of so many or of COMMITTEE."""
    size = min(len(clients), COMMITTEE) if committee is None else committee
    return max(1, size // 3) if t is None else t


def seat_members(clients: tuple[PartyId, ...], committee: int | None) -> tuple[PartyId, ...]:
    """The members of a committee of so many, or of COMMITTEE at most: spread evenly over these clients."""
    size = min(len(clients), COMMITTEE) if committee is None else committee
    return tuple(clients[i * len(clients) // size] for i in range(size))


@dataclass(frozen=True)
class SumPlan:
    """Public parameters of secure sums.

    committee: who holds shares, in the order of the code's points.  bound: no client adds a number beyond it.
    losses: so many clients may vanish before their numbers are shared; a sum of fewer than n - losses clients
    is refused, as noise that those clients share out would be too small in it.  quorum: so many members must
    have been told the same clients before one of them adds; None for as many as open a sum (`least_words`).
    together: whether one of the clients of a wave that are no members speaks for all of these, as where one
    process simulates thousands.
    """

    clients: tuple[PartyId, ...]
    committee: tuple[PartyId, ...]
    code: LagrangeCode
    bound: int
    losses: int
    quorum: int | None = None
    together: bool = field(default=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        if len(self.committee) != self.code.n or set(self.committee) - set(self.clients):
            raise InvalidValue(f"a committee of {len(self.committee)} for a code of n={self.code.n} clients")
        if not 0 <= self.losses < len(self.clients):
            raise InvalidValue(f"losses={self.losses} of n={len(self.clients)} clients: lower losses")
        if not self.least_words <= self.confirming_members <= self.code.n:
            raise InvalidValue(
                f"quorum={self.quorum} of a committee of {self.code.n}: it must lie in "
                f"[{self.least_words}, {self.code.n}], and be at least "
                f"{self.exclusive_quorum} to exclude two sums"
            )
        # Sums of either sign lie in [-n bound, n bound], which must be fewer values than the modulus.
        if self.bound < 1 or 2 * len(self.clients) * self.bound >= self.code.basis.modulus:
            raise InvalidValue(
                f"sums of {len(self.clients)} numbers up to {self.bound} do not fit the modulus of "
                f"{self.code.basis.lanes} lanes: lower the bound, or add lanes"
            )

    @classmethod
    def of(
        cls,
        clients: tuple[PartyId, ...],
        bound: int,
        *,
        committee: int | None = None,
        t: int | None = None,
        losses: int | None = None,
        ell: int = 1,
        quorum: int | None = None,
    ) -> SumPlan:
        """A plan for these clients: by default a committee of at most 15, a third of which may collude.

        The committee is spread evenly over the clients in the order of their names' list; losses: a quarter
        of the clients by default.  ell: numbers packed into a share, which divides what clients send by it;
        ell - 1 fewer members may vanish, and t + 1 of them read every summand all the same.

        Raises ValueError if the committee is too small to hide anything.
        """
        n = len(clients)
        size = min(n, COMMITTEE) if committee is None else committee
        if not 3 <= size <= n:
            raise InvalidValue(
                f"a committee of {size} among n={n} clients: at least 3 members are needed to hide a vector "
                "from each of them, and at most n. Change committee, or add clients."
            )
        largest = (size - 1) // 2
        tolerated = count_colluders(clients, committee, t)
        if not 1 <= tolerated <= largest:
            raise InvalidValue(f"t={tolerated} of a committee of {size}: it must lie in [1, {largest}]")
        if not 1 <= ell <= largest + 1 - tolerated:
            raise InvalidValue(
                f"ell={ell} with t={tolerated} of a committee of {size}: it must lie in "
                f"[1, {largest + 1 - tolerated}]"
            )
        members = seat_members(clients, committee)
        code = LagrangeCode(Basis.for_bound(2 * n * bound), size, ell, tolerated)
        return cls(clients, members, code, bound, n // 4 if losses is None else losses, quorum)

    @property
    def n(self) -> int:
        return len(self.clients)

    @property
    def least(self) -> int:
        """The fewest clients whose sum may be decoded."""
        return self.n - self.losses

    @property
    def honest(self) -> int:
        """The fewest vectors in a sum that t colluding clients did not make: these carry shared noise."""
        return self.least - self.code.t

    @property
    def honest_there(self) -> int:
        """The vectors in a sum that t colluding clients did not make, where nobody is lost."""
        return self.n - self.code.t

    @property
    def exclusive_quorum(self) -> int:
        """The least quorum that excludes two sums: two such have a member in common that does not collude."""
        return (self.code.n + self.code.t) // 2 + 1

    @property
    def is_affordable(self) -> bool:
        """Whether such a quorum is there when the planned losses have happened, to members as to any clients.

        Drawn without replacement: the expected number of lost members and two standard deviations; `losses`
        itself where all clients are members.
        """
        c, n, p = self.code.n, self.n, self.losses / self.n
        spread = math.sqrt(c * p * (1 - p) * (n - c) / max(1, n - 1))
        return c - self.exclusive_quorum >= c * self.losses / n + 2 * spread

    @property
    def confirming_members(self) -> int:
        """How many members must have been told the same clients, the one that adds among them."""
        return self.least_words if self.quorum is None else self.quorum

    @property
    def least_words(self) -> int:
        """The fewest members' shares that open a sum: one more than decode it, so that a false one is
        noticed.
        """
        return self.code.threshold(1) + 1

    @property
    def spared(self) -> int:
        """How many clients may vanish, whoever they are: all of them may be members."""
        return min(self.losses, self.code.n - self.confirming_members)

    @property
    def telling(self) -> int:
        """How many members' shares of a sum are waited for: t false ones among them are noticed, always.

        Less where the committee has fewer.
        """
        return min(self.code.n, self.code.threshold(1) + self.code.t)

    @cached_property
    def waves(self) -> tuple[tuple[PartyId, ...], ...]:
        """The clients whose shares are taken together, in their order."""
        size = max(WAVE, -(-self.n // WAVES))
        return tuple(self.clients[at : at + size] for at in range(0, self.n, size))

    @cached_property
    def spoken(self) -> Mapping[PartyId, tuple[PartyId, ...]]:
        """For whom each client speaks that says anything, in the order of clients."""
        if not self.together:
            return {c: (c,) for c in self.clients}
        silent = [tuple(c for c in wave if c not in self.seats) for wave in self.waves]
        found = {names[0]: names for names in silent if names} | {c: (c,) for c in self.committee}
        return {c: found[c] for c in self.clients if c in found}

    @property
    def speakers(self) -> tuple[PartyId, ...]:
        """The clients that say anything: all, unless some speak together."""
        return tuple(self.spoken)

    def speaks_for(self, client: PartyId) -> tuple[PartyId, ...]:
        """The clients whose shares this one deals, itself first."""
        return self.spoken[client]

    @cached_property
    def seats(self) -> Mapping[PartyId, int]:
        """The number of every member of the committee among the code's points."""
        return {name: seat for seat, name in enumerate(self.committee)}

    @cached_property
    def same_to_all(self) -> Mapping[PartyId, frozenset[int]]:
        """Topics (`ToldDigests`) where the server tells all clients the same, and nothing else."""
        return dict.fromkeys(self.clients, frozenset([0]))

    def peers(self, me: PartyId) -> tuple[PartyId, ...]:
        """Whom a client talks to in a sum, beside the server."""
        return tuple(c for c in (self.clients if me in self.seats else self.committee) if c != me)


@dataclass(frozen=True, eq=False, repr=False)
class ToldDigests:
    """What the server told a client before a sum, to be compared with what it told others.

    topics: of every client what it is told of, public.  mine: a digest of 16 bytes of each of my topics.  A
    digest goes to members who are told of its topic too, as others could guess what it is of.
    """

    topics: Mapping[PartyId, frozenset[int]]
    mine: Mapping[int, bytes]

    def __repr__(self) -> str:
        return f"ToldDigests({len(self.mine)} topics)"

    def shown(self, me: PartyId, other: PartyId) -> bytes:
        """Digests of the topics that two clients share, in their order: what each expects of the other."""
        return b"".join(self.mine[topic] for topic in sorted(self.topics[me] & self.topics[other]))

    @staticmethod
    def digest(*values: Any) -> bytes:
        """16 bytes of numbers, words and arrays of numbers, whatever type of array carries them."""
        state = hashlib.blake2b(digest_size=16, person=b"secfc told")
        for value in values:
            if isinstance(value, np.ndarray):
                wide = value.astype("<f8" if value.dtype.kind == "f" else "<i8")
                state.update(repr(wide.shape).encode() + wide.tobytes())
            else:
                state.update(repr(value).encode())
        return state.digest()


@dataclass(frozen=True, eq=False)
class SummandLayout:
    """Who adds to which numbers of a sum: public, and the same for all parties.

    length: numbers in the sum.  places: of each client those that it adds to, ascending (D_j,).
    """

    length: int
    places: Mapping[PartyId, Array]

    def check(self, plan: SumPlan) -> None:
        """Raises ValueError for a plan that packs several numbers into a share: they would not line up."""
        if plan.code.ell != 1:
            raise InvalidValue(f"ell={plan.code.ell} numbers in a share: a sum that is spread takes ell=1")
