"""Secret bits shared among 2t + 1 players, any t of whom know nothing, and products of them in one round.

Replicated sharing (also called CNF sharing; Ito, Saito and Nishizeki 1987; Cramer, Damgard and Ishai, TCC
2005): a bit is the XOR of one component for every set of t + 1 players, and the players of a set know its
component.  Any t players miss exactly one component.  XOR is local.  In a product of two bits every pair
of components is known to some player, so the players hold an XOR of parts, v_0 ^ ... ^ v_2t, and

    player i tells v_i ^ z_i ^ (some g_A)  to the players of its set T_i = {i, ..., i + t},

where the z_i are expanded from keys of pairs of players and XOR to nothing, and g_A, the component of a
set that is nobody's T_i, from a key of its players.  What was told to T_i is its component of the product.
One round, t bits a player; with t = 1 this is the protocol of Araki et al. (CCS 2016).

Why t players learn nothing: let H be the t + 1 others.  The z_i of H are uniform subject to their XOR, as
every two of H share a key.  If H is T_i, player i tells nothing outside H, so all that is told is uniform;
else the owner of g_H, in H, adds it, and again all that is told is uniform.  With t > 1 keys of
neighbors on a circle would not do: two players surround a third, and see its part bare.

Assumes players that follow the protocol, and AES as a pseudorandom permutation.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins

# C(2t + 1, t) components grow fast: 3, 10, 35, then 126.
MAX_T = 3


class Gates(NamedTuple):
    """Products of rows: x[:, left[q]] times y[:, right[q]], both shares (held, rows, words)."""

    x: Array
    left: Array
    y: Array
    right: Array


def held_components(sets: Sequence[Sequence[int]], size: int) -> tuple[tuple[int, ...], ...]:
    """The components that each of `size` players knows, by who knows each component."""
    return tuple(tuple(q for q, players in enumerate(sets) if j in players) for j in range(size))


@dataclass(frozen=True)
class ReplicatedCommittee:
    """2t + 1 players, numbered from 0, and which of them know what."""

    t: int

    def __post_init__(self) -> None:
        if not 1 <= self.t <= MAX_T:
            raise InvalidValue(
                f"t={self.t}: bits are shared among 2t+1 players for t from 1 to {MAX_T}, beyond that they "
                "have more than a hundred components. Choose another t, or a policy with a dealer"
            )

    @property
    def size(self) -> int:
        return 2 * self.t + 1

    @property
    def members(self) -> range:
        """The t + 1 players that hold what is to be shared, and that open results."""
        return range(self.t + 1)

    @property
    def first(self) -> tuple[int, ...]:
        """Who holds the first part of what is to be shared."""
        return (0,)

    @cached_property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Who knows each component: all sets of t + 1 players, first T_0, T_1, ..., T_2t."""
        first = tuple(tuple(sorted((i, *self.receivers(i)))) for i in range(self.size))
        every = itertools.combinations(range(self.size), self.t + 1)
        return (*first, *(players for players in every if players not in first))

    def receivers(self, player: int) -> tuple[int, ...]:
        """Whom a player tells its parts: the others of its set."""
        return tuple((player + s) % self.size for s in range(1, self.t + 1))

    def senders(self, player: int) -> tuple[int, ...]:
        """Who tells this player parts."""
        return tuple((player - s) % self.size for s in range(1, self.t + 1))

    def part_of(self, player: int) -> int:
        """A number that no other player has: nobody plays a part beside it."""
        return player

    def held(self, player: int) -> tuple[int, ...]:
        """The components this player knows."""
        return self._held[player]

    @cached_property
    def _held(self) -> tuple[tuple[int, ...], ...]:
        return held_components(self.sets, self.size)

    @cached_property
    def refresh_owners(self) -> Mapping[int, int]:
        """The owner of each set that is nobody's T_i, spread evenly."""
        load = [0] * self.size
        owners = {}
        for q in range(self.size, len(self.sets)):
            owners[q] = min(self.sets[q], key=lambda j: load[j])
            load[owners[q]] += 1
        return owners

    @cached_property
    def openers(self) -> tuple[int, ...]:
        """For each component the member that adds it to its share of a result.

        A set and the members are more than half of the players each, so they meet.
        """
        return tuple(next(j for j in self.members if j in players) for players in self.sets)

    def products(self, player: int) -> Array:
        """Which products of its components are this player's: (held, held) bool."""
        return self._products[player]

    @cached_property
    def _products(self) -> tuple[Array, ...]:
        tables = [np.zeros((len(held), len(held)), np.bool_) for held in self._held]
        load = [0] * self.size
        for a, b in itertools.product(range(len(self.sets)), repeat=2):
            both = set(self.sets[a]) & set(self.sets[b])
            j = min(both, key=lambda i: (load[i], i))
            load[j] += 1
            tables[j][self._held[j].index(a), self._held[j].index(b)] = True
        return tuple(tables)


class ScratchArrays:
    """Memory that is used again: fresh pages cost more than what is computed in them."""

    def __init__(self) -> None:
        self._rooms: dict[Any, Array] = {}

    def __repr__(self) -> str:
        return f"Rooms({len(self._rooms)}, secret)"

    def take(self, key: Any, *shape: int) -> Array:
        """A C-contiguous uint64 array of this shape that holds anything; one is in use under a key."""
        size = math.prod(shape)
        if key not in self._rooms or self._rooms[key].size < size:
            self._rooms[key] = np.empty(size, np.uint64)
        return self._rooms[key][:size].reshape(shape)


class ReplicatedPlayer:
    """One player's part: its number, and its streams, each used once and in step with its other holders.

    pairs[i]: shared with player i, all others.  sets[q]: shared with the players of set q, for every
    component held.  rooms: memory of earlier parts, whose shares are then overwritten.  Not a frozen value:
    streams move on.  All shares are (held, rows, words) uint64.
    """

    def __init__(
        self,
        committee: ReplicatedCommittee,
        me: int,
        pairs: Mapping[int, Coins],
        sets: Mapping[int, Coins],
        rooms: ScratchArrays | None = None,
    ) -> None:
        self.committee, self.me = committee, me
        self.held = committee.held(me)
        missing = set(range(committee.size)) - {me} - set(pairs), set(self.held) - set(sets)
        if any(missing):
            raise ValueError(f"player {me} lacks streams with players {missing[0]} or of sets {missing[1]}")
        self._pairs, self._sets = dict(pairs), dict(sets)
        self._mine = committee.products(me)
        self._rooms = rooms or ScratchArrays()

    def __repr__(self) -> str:
        return f"Player({self.me} of {self.committee.size}, secret)"

    def begin_deal(self, planes: Array | None, shape: tuple[int, int]) -> list[Array]:
        """My shares of the bits of every member, without what they have yet to tell me.

        planes: my own bits (rows, words) if I am a member; shape: (rows, words).  All draw in the order of
        the members, whoever speaks first.
        """
        dealt = []
        for owner in self.committee.members:
            shares = self._rooms.take(("deal", owner), len(self.held), *shape)
            for c, q in enumerate(self.held):
                if owner not in self.committee.sets[q]:
                    shares[c] = 0
                elif q != owner:
                    self._sets[q].fill(shares[c])
            if owner == self.me and planes is not None:
                last = self.held.index(owner)
                shares[last] = planes
                for c, q in enumerate(self.held):
                    if q != owner:
                        shares[last] ^= shares[c]
            dealt.append(shares)
        return dealt

    def end_deal(self, dealt: list[Array], received: Mapping[int, Array]) -> list[Array]:
        """Add to these shares, in place, what the members among the senders sent."""
        for owner in self.committee.members:
            if owner in self.committee.senders(self.me):
                dealt[owner][self.held.index(owner)] = received[owner]
        return dealt

    def begin(self, layer: Sequence[Gates]) -> list[Array]:
        """My components (gates, words) of products, without what others have yet to tell me."""
        from field.kernels import comparing

        count, words = sum(len(gates.left) for gates in layer), layer[0].x.shape[2]
        # What is told is somebody else's to keep, so it is never written again; the rest is.
        told = np.empty((count, words), np.uint64)
        at = 0
        for gates in layer:
            part = told[at : at + len(gates.left)]
            comparing.multiply(gates.x, gates.left, gates.y, gates.right, self._mine, part)
            at += len(gates.left)
        for i in sorted(self._pairs):
            self._pairs[i].mask(told)
        components = [told] * len(self.held)
        for c, q in enumerate(self.held):
            owner = self.committee.refresh_owners.get(q)
            if owner is not None:
                components[c] = self._rooms.take(q, count, words)
                self._sets[q].fill(components[c])
                if owner == self.me:
                    told ^= components[c]
        return components

    def end(self, components: list[Array], received: Mapping[int, Array]) -> list[Array]:
        """The product, these components with what the senders sent; good until the next one begins."""
        for i in self.committee.senders(self.me):
            components[self.held.index(i)] = received[i]
        return components

    def told(self, shares: Sequence[Array] | Array) -> Array:
        """What I tell my receivers of a product, or of my own bits: (rows, words), uniform to them."""
        return np.asarray(shares[self.held.index(self.me)])

    def constant(self, planes: Array) -> Array:
        """My share of public bits (rows, words)."""
        shares = np.zeros((len(self.held), *planes.shape), np.uint64)
        if 0 in self.held:
            shares[self.held.index(0)] = planes
        return shares

    def opening(self, shares: Array) -> Array:
        """My share (rows, words) of a result: those of all players XOR to it, and only members' are not 0."""
        mine = [c for c, q in enumerate(self.held) if self.committee.openers[q] == self.me]
        return np.asarray(np.bitwise_xor.reduce(shares[mine], axis=0))
