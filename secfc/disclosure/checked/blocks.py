"""A committee in blocks: each part of what a dealer makes is played by several clients, so none speaks alone.

Tables and masks are shared among parts as among members: a part is one stream of the dealer, and parts add
up.  The players form blocks; in a block of v clients there is a part for every a + 1 of them.  So a clients
that deviate never are all who play a part.  A coalition misses a part of a block unless it leaves at most a
of its clients: t clients always miss one if, and only if, the v - a of all blocks add up to more than t.
With g blocks that takes t + 1 + a g players; more blocks mean more players and fewer parts.

A part's first client says its words, the others compute the same and say digests.  Everything here is public.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations, permutations

from field.ring.errors import InvalidValue
from secfc.roles.exchange import SERVER, PartyId


@dataclass(frozen=True)
class Traffic:
    """What a comparison sends, in words.

    corrections: by the dealer for one part.  opened: of a part in all openings.  sums: of masked replies.
    played: as much as a member's work for one part is worth.
    """

    corrections: int
    opened: int
    sums: int
    played: int = 0

    def words(self, blocks: Blocks) -> float:
        """All that is sent in a committee of this shape, and what its work is worth."""
        count, players, again = len(blocks.parts), blocks.players, blocks.deviating + 1
        # Each player lacks the words of parts that it does not play: their first clients tell it what theirs
        # add up to, or a cut of that, and the sum of all cuts.
        told = min(blocks.direct, blocks.direct / players + players - 1)
        sent = again * self.corrections + told * self.opened + (players - 1) * self.sums
        return sent + again * count * self.played


@dataclass(frozen=True)
class Blocks:
    """sizes: of the blocks.  deviating: a.  Players have numbers from 0, block by block."""

    sizes: tuple[int, ...]
    deviating: int

    @property
    def players(self) -> int:
        return sum(self.sizes)

    @cached_property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """Who plays each part, ascending: the first says its words."""
        found: list[tuple[int, ...]] = []
        first = 0
        for size in self.sizes:
            found += combinations(range(first, first + size), self.deviating + 1)
            first += size
        return tuple(found)

    def played_by(self, player: int) -> tuple[int, ...]:
        """Numbers of a player's parts."""
        return _parts_of(self, player)

    def told_by(self, player: int) -> tuple[int, ...]:
        """Numbers of the parts whose words it says."""
        return _parts_of(self, player, first=True)

    def told_to(self, player: int, other: int) -> tuple[int, ...]:
        """Numbers of the parts whose words it says to another, who does not play them."""
        return _parts_of(self, player, other, first=True)

    @cached_property
    def direct(self) -> int:
        """Messages by which all hear the words of all parts."""
        pairs = permutations(range(self.players), 2)
        return sum(bool(self.told_to(player, other)) for player, other in pairs)


@lru_cache(maxsize=4096)
def _parts_of(blocks: Blocks, player: int, without: int = -1, *, first: bool = False) -> tuple[int, ...]:
    """Numbers of the parts that a player plays, or is the first of, and another does not: public."""
    return tuple(
        q
        for q, clients in enumerate(blocks.parts)
        if player in (clients[:1] if first else clients) and without not in clients
    )


def shapes(available: int, t: int, deviating: int) -> Iterator[Blocks]:
    """All shapes that so many clients allow, with as few players as their number of blocks takes."""
    hidden = max(1, t)
    for count in range(1, hidden + 2):
        players = hidden + 1 + deviating * count
        if players > available:
            return
        # Blocks as even as can be have the fewest parts, as a binomial coefficient is convex.
        sizes = tuple(players // count + (i < players % count) for i in range(count))
        yield Blocks(sizes, deviating)


@lru_cache(maxsize=256)
def cheapest_blocks(available: int, t: int, deviating: int, traffic: Traffic) -> Blocks | None:
    """The shape in which the fewest words are sent, then with fewest parts; None if clients are too few."""
    return min(
        shapes(available, t, deviating),
        key=lambda blocks: (traffic.words(blocks), len(blocks.parts)),
        default=None,
    )


def largest_deviating(n: int, t: int, dealer: PartyId | None, *, most: int) -> int:
    """How many clients that deviate can be told from honest ones among n clients, up to so many."""
    besides = n - (dealer not in (None, SERVER))
    return max(0, min(most, t, besides - (2 * t if dealer is None else max(1, t)) - 1))


def check_deviating(n: int, t: int, deviating: int, dealer: PartyId | None) -> None:
    """Raises ValueError for more clients that deviate than can be told from honest ones among n clients."""
    if deviating < 0:
        raise InvalidValue(f"deviating={deviating} is negative: use 0 for none, or leave deviating out")
    if deviating > t:
        raise InvalidValue(
            f"deviating={deviating}, t={t}: at most t of these can be told from honest clients: lower "
            "deviating or raise t"
        )
    apart = dealer not in (None, SERVER)
    if dealer is None and deviating > 1:
        raise InvalidValue(
            f"deviating={deviating}, dealer=None: where nobody deals each part is played by two: use "
            "deviating=1, or a policy with a dealer"
        )
    needed = (2 * t if dealer is None else max(1, t)) + 1 + deviating
    if deviating and n - apart < needed:
        named = apart or dealer is None
        who = f"n={n}, t={t}" + (f", dealer={dealer!r}" if named else "")
        least = f"{'2t' if dealer is None else 't'}+{1 + deviating}={needed}"
        besides = " besides the dealer" if apart else ""
        raise InvalidValue(
            f"{who}: parts played by {_word(deviating + 1)} need {least} clients"
            f"{besides}: add {_word(needed - n + apart)}, lower t, or deviating=0"
        )


def _word(number: int) -> str:
    return {1: "one", 2: "two", 3: "three", 4: "four"}.get(number, str(number))
