"""Shares of many sums from a seed that travels once.

A share is a value of a polynomial that ell numbers and t uniform words fix.  The words may as well be the
shares of t members, drawn from a seed that each of them has: then a client sends shares to c - t members
alone, and says nothing to the t.  Shares of any t members are as before, but that those with seeds are
pseudorandom: t + 1 read a summand.  Who takes a seed reads that member's shares of all sums of the run, past
ones too, which members without seeds forget.

A client that is lost needs no seed opened: members with its seed say that they have its shares, others say
that they have not, and a sum counts whom all have.  A server that hides this from members with seeds is told
sums with words of that client's seeds in them, random to whoever lacks these.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.errors import FaultyClient
from secfc.roles.exchange import Exchange, PartyId, Role, expect_messages
from secfc.roles.messages import Message, refuse_if
from secfc.secure_sum.plan import SumPlan

SIZE = 32


class ShareSeed(Message, tag=238):
    """Client to each of t members of the committee, once: 32 bytes that its shares of all sums follow from.

    One after another of all clients that speak together.

    Under "`FederatedLloyd`, and where clients observe different features": client, member.  Seen: 32 bytes
    from which the member's shares of all sums follow, where there are more clients than members: uniform at
    any `t` members, to whoever cannot tell SHAKE128 from random; who takes them at the end of a run has that
    member's shares of all its sums.  By deviating: a seed that the client's other shares do not fit: noticed
    as `CodedSum`.
    """

    seeds: bytes

    def __post_init__(self) -> None:
        count = len(self.seeds)
        refuse_if(
            count == 0 or count % SIZE > 0, f"seeds have {SIZE} bytes each, together these have {count}"
        )

    def split(self) -> list[bytes]:
        """The seed of each client."""
        return [self.seeds[at : at + SIZE] for at in range(0, len(self.seeds), SIZE)]


def expand_seeds(basis: Basis, seeds: Iterable[bytes], number: int, width: int) -> Array:
    """Shares from seeds in the sum of this number: (lanes, seeds, width) residues, uniform.

    The words of SHAKE128 of seed, number and lane, masked to the bits of the prime, without those that are no
    residues.
    """
    seeds, size = list(seeds), basis.dtype.itemsize
    out = np.empty((basis.lanes, len(seeds), width), basis.dtype)
    for lane, prime in enumerate(basis.primes):
        tail, mask = number.to_bytes(8, "little") + bytes([lane]), (1 << (prime - 1).bit_length()) - 1

        def draw(seed: bytes, count: int, tail: bytes = tail) -> bytes:
            return hashlib.shake_128(seed + tail).digest(size * count)

        drawn = b"".join(draw(seed, width) for seed in seeds)
        words = np.frombuffer(drawn, basis.dtype.newbyteorder("<")).reshape(len(seeds), width) & mask
        for row in np.flatnonzero((words >= prime).any(axis=1)).tolist():
            found, count = words[row][:0], width
            while len(found) < width:
                count += width
                more = np.frombuffer(draw(seeds[row], count), basis.dtype.newbyteorder("<")) & mask
                found = more[more < prime]
            words[row] = found[:width]
        out[lane] = words
    return out


@dataclass(frozen=True, eq=False, repr=False)
class ShareSeeds:
    """Seeds that a party has.

    own: of each client that it speaks for, one to each of the last t members.  held: of each client the seed
    that it dealt to this party, if that is one of these members.
    """

    own: tuple[tuple[bytes, ...], ...]
    held: Mapping[PartyId, bytes]

    def share(self, plan: SumPlan, residues: Array, number: int) -> dict[PartyId, Array]:
        """The shares of members without seeds of vectors (lanes, g, D), one a client that is spoken for.

        Each (lanes, g, width).  number: of the sum; no other vectors have the same.
        """
        code, width = plan.code, plan.code.width(residues.shape[2])
        drawn = [expand_seeds(code.basis, seeds, number, width) for seeds in zip(*self.own, strict=True)]
        seats = range(code.n - code.t)
        encoded = code.extend(residues, np.stack(drawn, axis=1), range(seats.stop, code.n), seats)
        return {plan.committee[seat]: share for seat, share in zip(seats, encoded, strict=True)}

    def draw_shares(
        self, plan: SumPlan, names: Iterable[PartyId], number: int, width: int
    ) -> dict[PartyId, Array]:
        """The shares (lanes, width) of this member of vectors of those of these clients whose seed it has."""
        found = {name: self.held[name] for name in names if name in self.held}
        shares = expand_seeds(plan.code.basis, found.values(), number, width)
        return dict(zip(found, np.moveaxis(shares, 1, 0), strict=True))


def deal_seeds(
    plan: SumPlan, me: PartyId, coins: Coins, number: int, *, phase: str = "agree"
) -> Role[ShareSeeds]:
    """Deal seeds to the last t members, once for all sums of a run, and take those of others.

    A client whose seed a member misses is in no sum.

    Raises FaultyClient for seeds of others than the sender speaks for.
    """
    spoken, seeded = plan.speaks_for(me), plan.committee[plan.code.n - plan.code.t :]
    own = tuple(tuple(coins.bytes(SIZE) for _ in seeded) for _ in spoken)
    dealt = dict(zip(seeded, map(b"".join, zip(*own, strict=True)), strict=True))
    others = tuple(c for c in plan.speakers if c != me) if me in seeded else ()
    send = {member: ShareSeed(seeds) for member, seeds in dealt.items() if member != me}
    inbox = yield Exchange(send, others, 0, round=number, phase=phase)
    held = {me: dealt[me]} if me in seeded else {}
    for sender, message in expect_messages(inbox, ShareSeed).items():
        names, seeds = plan.speaks_for(sender), message.split()
        if len(seeds) != len(names):
            raise FaultyClient(sender, f"dealt {len(seeds)} seeds for {len(names)} clients")
        held |= zip(names, seeds, strict=True)
    return ShareSeeds(own, held)
