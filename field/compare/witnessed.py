"""Secret bits shared so that every word which a player says is known to another, who vouches for it.

Replicated sharing as in `field.compare.replicated`, on a players more: 2t + 1 + a of them, a component for
every set of t + 1 + a, so any t players still miss exactly one.  Two sets have a + 1 players in common, so
every product of two components is known to a group of a + 1, of whom one at least does not deviate if a do.
The products that a group knows, v_G, are shared anew: with a mask r_A for every set A that contains the
group, from a key of the set's players, all but one set T_G,

    component A of v_G is r_A;  component T_G is w_G = v_G ^ (all these r_A),

which the group's first player tells to those of T_G outside the group; its others, the witnesses, tell the
same players a tag of the same words (GMAC under a fresh key of witness and receiver).  One round, as before.

Why t players learn nothing: H, the set of all others, is the one component that they miss.  Of a group that
they are told of, and have nobody in, T_G is not H, as somebody in T_G is told; and H contains the group, so
w_G is under r_H, which serves for this word alone.

Why words are checked in the round in which they come, and not at the end: a false word that is computed on
makes the two of a later group compute different words, whose difference depends on components that who
sent it misses.  If it were told one of them, and a digest of the other, it would know that
difference, from digests of any kind.  So nobody computes on a word before its tags fit, and who finds one
that does not says nothing more.  What enters (`begin_deal`) must be the same at all of its group for the same
reason, and so must keys of sets: whoever uses this compares them before.

Bits that are told are C(2t + 2, 2) t a product for a = 1: 6, 30 and 84 for t = 1, 2, 3, where 3, 10 and 21
are without witnesses.

Source: joint message passing of four parties (Dalskov, Escudero and Keller, "Fantastic Four", USENIX
Security 2021) for t = a = 1, with tags in each round.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from field.arrays import Array
from field.cached import cached_property
from field.compare.replicated import MAX_T, Gates, ScratchArrays, held_components
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins

TAG_SIZE = 16
_BLOCK = 1 << 20


@dataclass(frozen=True)
class WitnessedCommittee:
    """2t + 1 + a players, numbered from 0, a = `deviating` of whom may deviate; and which of them know what.

    A group of a + 1 players has a number, as a set of t + 1 + a has.
    """

    t: int
    deviating: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.t <= MAX_T:
            raise InvalidValue(
                f"t={self.t}: bits are shared with witnesses for t from 1 to {MAX_T}, beyond that they have "
                "more than a hundred components. Choose another t, or a policy with a dealer"
            )
        if self.deviating != 1:
            raise InvalidValue(
                f"deviating={self.deviating}: words have one witness where nobody deals: use deviating=1, or "
                "0 for none, or a policy with a dealer"
            )

    @property
    def size(self) -> int:
        return 2 * self.t + 1 + self.deviating

    @property
    def members(self) -> range:
        """The players that hold what is to be shared, and that open results: all."""
        return range(self.size)

    @property
    def first(self) -> tuple[int, ...]:
        """Who holds the first part of what is to be shared."""
        return self.groups[self.parts[0]]

    @cached_property
    def sets(self) -> tuple[tuple[int, ...], ...]:
        """Who knows each component."""
        return tuple(itertools.combinations(range(self.size), self.t + 1 + self.deviating))

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Who computes the same: the first player says it, the others are witnesses."""
        return tuple(itertools.combinations(range(self.size), self.deviating + 1))

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """The groups that each hold a part of what is to be shared, t + 1 of them, disjoint."""
        each = self.deviating + 1
        return tuple(self.groups.index(tuple(range(each * j, each * j + each))) for j in range(self.t + 1))

    def part_of(self, player: int) -> int:
        """The part that a player has, by its place among `parts`."""
        return player // (self.deviating + 1)

    def held(self, player: int) -> tuple[int, ...]:
        """The components this player knows."""
        return self._held[player]

    @cached_property
    def _held(self) -> tuple[tuple[int, ...], ...]:
        return held_components(self.sets, self.size)

    @cached_property
    def around(self) -> tuple[tuple[int, ...], ...]:
        """The sets that contain each group, the one first to which its words are told."""
        load = [0] * len(self.sets)
        out = []
        for group in self.groups:
            found = [q for q, players in enumerate(self.sets) if set(group) <= set(players)]
            chosen = min(found, key=lambda q: load[q])
            load[chosen] += 1
            out.append((chosen, *(q for q in found if q != chosen)))
        return tuple(out)

    def receivers(self, group: int) -> tuple[int, ...]:
        """Whom a group's words are told to."""
        return tuple(j for j in self.sets[self.around[group][0]] if j not in self.groups[group])

    def products(self, group: int, player: int) -> Array:
        """Which products of a player's components are this group's: (held, held) bool."""
        return self._products[group][self.groups[group].index(player)]

    @cached_property
    def _products(self) -> tuple[tuple[Array, ...], ...]:
        tables = [[np.zeros((len(self._held[j]),) * 2, np.bool_) for j in group] for group in self.groups]
        load = [0] * len(self.groups)
        for a, b in itertools.product(range(len(self.sets)), repeat=2):
            both = set(self.sets[a]) & set(self.sets[b])
            able = [g for g, group in enumerate(self.groups) if set(group) <= both]
            g = min(able, key=lambda g: load[g])
            load[g] += 1
            for table, j in zip(tables[g], self.groups[g], strict=True):
                table[self._held[j].index(a), self._held[j].index(b)] = True
        return tuple(tuple(each) for each in tables)

    @cached_property
    def openers(self) -> tuple[int, ...]:
        """For each component the part, by its place among `parts`, whose players add it to a result.

        t + 1 pairs are all players, and a set has more than t + 1 of them, so it contains a pair.
        """
        return tuple(
            next(p for p, g in enumerate(self.parts) if set(self.groups[g]) <= set(players))
            for players in self.sets
        )


@dataclass(frozen=True, eq=False, repr=False)
class Told:
    """What a player says in a round to another: words (groups, rows, words), and a tag of what it witnesses.

    tag: 16 bytes, or none if it witnesses nothing that the other is told.
    """

    words: Array
    tag: bytes


class FalseWords(ValueError):  # noqa: N818 - what they are
    """Words that a witness does not vouch for.  players: of the groups that are in question."""

    def __init__(self, players: Iterable[int]) -> None:
        self.players = tuple(sorted(set(players)))
        super().__init__(f"one of players {self.players} said other words than another computed")


class WitnessedPlayer:
    """One player's part: its number, and its streams, each used once and in step with its other holders.

    pairs[i]: shared with player i, all others, for tags.  sets[q]: shared with the players of set q, for
    every component held.  Not a frozen value: streams move on.  Shares are (held, rows, words) uint64.
    """

    def __init__(
        self,
        committee: WitnessedCommittee,
        me: int,
        pairs: Mapping[int, Coins],
        sets: Mapping[int, Coins],
        rooms: ScratchArrays | None = None,
    ) -> None:
        self.committee, self.me, self.held = committee, me, committee.held(me)
        missing = set(range(committee.size)) - {me} - set(pairs), set(self.held) - set(sets)
        if any(missing):
            raise ValueError(f"player {me} lacks streams with players {missing[0]} or of sets {missing[1]}")
        self._pairs, self._sets, self._rooms = dict(pairs), dict(sets), rooms or ScratchArrays()

    def __repr__(self) -> str:
        return f"WitnessedPlayer({self.me} of {self.committee.size}, secret)"

    # --- what is shared anew

    def begin_deal(self, planes: Array | None, shape: tuple[int, int]) -> Shared:
        """My shares of every part's bits, without what I have yet to hear.

        planes: those of my part (rows, words).  shape: (rows, words).  Its shares are a list, one a part.
        """
        shared = Shared([np.zeros((len(self.held), *shape), np.uint64) for _ in self.committee.parts])
        for at, g in enumerate(self.committee.parts):
            mine = planes.copy() if planes is not None and self.me in self.committee.groups[g] else None
            self._share(g, mine, shared, at)
        return shared

    def begin(self, layer: Sequence[Gates]) -> Shared:
        """My components (held, gates, words) of products, without what I have yet to hear."""
        from field.kernels import comparing

        count, words = sum(len(gates.left) for gates in layer), layer[0].x.shape[2]
        total = self._rooms.take("product", len(self.held), count, words)
        total[:] = 0
        shared = Shared([total])
        for g, group in enumerate(self.committee.groups):
            mine = None
            if self.me in group:
                mine, at = np.empty((count, words), np.uint64), 0
                table = self.committee.products(g, self.me)
                for gates in layer:
                    part = mine[at : at + len(gates.left)]
                    comparing.multiply(gates.x, gates.left, gates.y, gates.right, table, part)
                    at += len(gates.left)
            self._share(g, mine, shared, 0)
        return shared

    def _share(self, group: int, mine: Array | None, shared: Shared, at: int) -> None:
        """Add my components of a group's bits; mine: these, if I am in it, overwritten by what it says."""
        first, *masked = self.committee.around[group]
        shares = shared.shares[at]
        mask = self._rooms.take("mask", *shares.shape[1:])
        for q in masked:
            if q in self.held:
                self._sets[q].fill(mask)
                shares[self.held.index(q)] ^= mask
                if mine is not None:
                    mine ^= mask
        if mine is not None:
            shared.words[group] = mine
            shares[self.held.index(first)] ^= mine
        shared.places[group] = at

    # --- what is told of it

    def tell(self, shared: Shared) -> dict[int, Told]:
        """What I say to each other player that I have anything to say to."""
        out = {}
        for other in sorted(self._pairs):
            keys = self._tag_keys(other)
            said, vouched = self._told(self.me, other, shared), self._witnessed(self.me, other, shared)
            if said or vouched:
                tag = _tag(keys[self.me > other], [shared.words[g] for g in vouched]) if vouched else b""
                shape = shared.shares[0].shape[1:]
                words = (
                    np.stack([shared.words[g] for g in said]) if said else np.empty((0, *shape), np.uint64)
                )
                out[other] = Told(words, tag)
            shared.keys[other] = keys[self.me < other]
        return out

    def speakers(self, shared: Shared) -> dict[int, tuple[int, bool]]:
        """Who says anything to me: how many groups' words, and whether there is a tag."""
        found = {
            i: (len(self._told(i, self.me, shared)), bool(self._witnessed(i, self.me, shared)))
            for i in self._pairs
        }
        return {i: due for i, due in found.items() if any(due)}

    def end(self, shared: Shared, received: Mapping[int, Told]) -> list[Array]:
        """All shares, with what the others said; good until the next begins.

        received: by player, in the shapes that are due.  Raises FalseWords.
        """
        heard = {
            g: words
            for i, told in received.items()
            for g, words in zip(self._told(i, self.me, shared), told.words, strict=True)
        }
        for i, told in received.items():
            vouched = self._witnessed(i, self.me, shared)
            if vouched and _tag(shared.keys[i], [heard[g] for g in vouched]) != told.tag:
                raise FalseWords(j for g in vouched for j in self.committee.groups[g])
        for g, words in heard.items():
            shared.shares[shared.places[g]][self.held.index(self.committee.around[g][0])] ^= words
        return shared.shares

    def _told(self, player: int, other: int, shared: Shared) -> list[int]:
        """The groups whose words a player says to another."""
        return [g for g in shared.places if self._says(g, other) and self.committee.groups[g][0] == player]

    def _witnessed(self, player: int, other: int, shared: Shared) -> list[int]:
        """The groups whose words a player vouches for to another."""
        return [g for g in shared.places if self._says(g, other) and player in self.committee.groups[g][1:]]

    def _says(self, group: int, other: int) -> bool:
        return other in self.committee.receivers(group)

    def _tag_keys(self, other: int) -> tuple[bytes, bytes]:
        """Fresh keys with a player: for tags of the one of us with the smaller number, and of the other."""
        stream = self._pairs[other]
        return stream.bytes(TAG_SIZE), stream.bytes(TAG_SIZE)

    # --- what becomes of results

    def constant(self, planes: Array) -> Array:
        """My share of public bits (rows, words)."""
        shares = np.zeros((len(self.held), *planes.shape), np.uint64)
        if 0 in self.held:
            shares[self.held.index(0)] = planes
        return shares

    def opening(self, shares: Array) -> Array:
        """My part's share (rows, words) of a result: those of all parts XOR to it; a part's players agree."""
        part = self.committee.part_of(self.me)
        mine = [c for c, q in enumerate(self.held) if self.committee.openers[q] == part]
        return np.asarray(np.bitwise_xor.reduce(shares[mine], axis=0))


class Shared:
    """Bits that are being shared anew, at one player: shares, the words of its groups, and where they go."""

    def __init__(self, shares: list[Array]) -> None:
        self.shares = shares
        self.words: dict[int, Array] = {}  # by group
        self.places: dict[int, int] = {}  # of all groups, in shares
        self.keys: dict[int, bytes] = {}  # of tags that others tell me

    def __repr__(self) -> str:
        return f"Shared({len(self.shares)}, secret)"


def _tag(key: bytes, arrays: Iterable[Array]) -> bytes:
    """GMAC of uint64 words in their order; key: for this alone."""
    state = Cipher(algorithms.AES(key), modes.GCM(bytes(12))).encryptor()
    for array in arrays:
        view = np.ascontiguousarray(array, "<u8").reshape(-1).data.cast("B")
        for start in range(0, view.nbytes, _BLOCK):
            state.authenticate_additional_data(view[start : start + _BLOCK])
    state.finalize()
    return bytes(state.tag)
