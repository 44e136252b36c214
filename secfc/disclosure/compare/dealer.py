"""The dealer's part in comparing distances: seeds that it shares with clients, and what it makes of them.

The dealer draws nothing: every mask and every table follows from seeds that the clients drew and sent to it,
so both sides expand the same.  A seed gives each stream once (`field.code.masking.PairKeys`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from field.arrays import Array
from field.code.masking import PairKeys
from field.compare import dealer_protocol
from field.compare.correlated_randomness import NOTHING, DealerRandomness, PartyRandomness
from field.compare.rounding import CenterRounding
from field.secrets.coins import Coins
from secfc.coded.messages import Corrections, MaskSeed, MissingMessages, RequestCorrections
from secfc.coded.plan import CodedPlan
from secfc.coded.quorum import NOBODY_MISSED
from secfc.disclosure.checked.parts import SEED
from secfc.disclosure.compare.candidates import FirstPairs
from secfc.disclosure.compare.session import ComparisonSession
from secfc.errors import FaultyClient
from secfc.roles.exchange import PAIR, Exchange, PartyId, Role, expect_messages, to_all


@dataclass(frozen=True, eq=False, repr=False)
class Dealt:
    """What a dealer has left: portions, with their numbers, and what hides replies and further ones.

    masks: (lanes, rows, points) and (lanes, more), the dealer's secret; None where replies are not checked.
    sums: likewise, what hides sums of clusters.
    """

    portions: Iterator[tuple[int, Corrections]] = field(default_factory=lambda: iter(()))
    masks: tuple[Array, Array] | None = None
    sums: tuple[Array, Array] | None = None


def mask_seeds(
    plan: CodedPlan, name: PartyId, dealer: PartyId, coins: Coins
) -> Role[tuple[PairKeys, PairKeys | None]]:
    """My key with the dealer, as that of a single peer 0; and, at the dealer, its keys with all clients."""
    seed = coins.bytes(32)
    mine = PairKeys({0: seed})
    if name != dealer:
        yield Exchange({dealer: MaskSeed(seed)}, round=PAIR + 1, phase="pair")
        return mine, None
    others = tuple(c for c in plan.clients if c != name)
    return mine, (yield from collect_seeds(plan, others, {plan.clients.index(name): seed}))


def collect_seeds(
    plan: CodedPlan, clients: tuple[PartyId, ...], own: Mapping[int, bytes] | None = None
) -> Role[PairKeys]:
    """The dealer's keys by number of the client; who sent none cannot take part."""
    inbox = yield Exchange({}, clients, 0, round=PAIR + 1, phase="pair")
    seeds = {plan.clients.index(c): message.seed for c, message in expect_messages(inbox, MaskSeed).items()}
    return PairKeys({**seeds, **(own or {})})


def mask_streams(
    match: ComparisonSession, keys: PairKeys, peers: Collection[int], *, sums: bool = False
) -> dict[int, Coins]:
    """What masks of distances are expanded from, for each of these peers of whom there is a key.

    sums: the masks of sums, where centers are rounded; to be taken before all others.
    """
    return keys.streams(_nonce(match, sums), match.context, peers)


def table_streams(
    match: ComparisonSession, keys: PairKeys, peers: Collection[int], *, sums: bool = False
) -> dict[int, Coins]:
    """What tables are expanded from, taken after the masks: the next nonce, which no query has."""
    return keys.streams(_nonce(match, sums) + 1, match.context, peers)


def part_seeds(
    match: ComparisonSession, keys: PairKeys, peers: Mapping[int, int], *, sums: bool = False
) -> dict[int, bytes]:
    """Seeds of 16 bytes of the parts that these members are the first of, by number; to be taken before all
    streams.  None where each part is played by one member, and made of its `table_streams`.

    peers: what numbers `keys` has for these members: at the dealer their own, at a member 0 for itself.
    sums: of parts in rounding centers; to be taken before those of comparing.
    """
    if not match.blocks.deviating:
        return {}
    members = match.question.members.tolist()
    streams = keys.streams(match.question.round - 1 - sums, match.context, set(peers.values()))
    seeds = {}
    for q, clients in enumerate(match.blocks.parts):
        peer = peers.get(members[clients[0]])
        if peer in streams:
            seeds[q] = streams[peer].bytes(SEED)
    return seeds


def part_tables(
    match: ComparisonSession,
    keys: PairKeys,
    seeds: Mapping[int, bytes],
    parts: Collection[int],
    words: Array | None,
    *,
    sums: bool = False,
) -> dict[int, PartyRandomness]:
    """What the dealer made for each of these parts, at a member that plays them.

    seeds: of them, where each is played by several.  words: of the dealer, if to this member.
    """
    if match.blocks.deviating:
        streams = {q: Coins(seeds[q]) for q in parts}
    else:
        streams = dict.fromkeys(parts, table_streams(match, keys, (0,), sums=sums)[0])
    corrected = match.question.corrected
    return {
        q: dealer_protocol.PartyTables(stream, words if q == corrected else None).take()
        for q, stream in streams.items()
    }


def _nonce(match: ComparisonSession, sums: bool) -> int:
    """The first of two numbers that no other question has, nor what precedes or follows in this one."""
    return match.question.round + (0 if sums or match.rounding is None else 2)


def players_without_seed(match: ComparisonSession, keys: PairKeys) -> Array:
    """Numbers of the players whose seeds the dealer lacks."""
    players = {*match.question.responders.tolist(), *match.question.members.tolist()}
    return np.array(sorted(players - keys.peers), np.int32)


class DealtComputation(Protocol):
    """What is dealt for: a contest, or more than one."""

    def deal_words(
        self, rho: Array, streams: Sequence[Coins], corrected: int, before: Array = NOTHING
    ) -> Iterator[Array]:
        """Words for the corrected member, see `field.compare.dealer_protocol.DealtContest.deal_words`."""
        ...


def start_dealing(
    match: ComparisonSession, keys: PairKeys, game: DealtComputation | None, kept: FirstPairs | None = None
) -> Role[Dealt]:
    """Send the first portion for a match whose players all sent their seeds; what is left to deal.

    game: None where nothing is compared, and centers are rounded alone.  kept: where blocks of points
    may be asked about, what is kept of them.
    """
    responders = match.question.responders.tolist()
    first, sums, masks = NOTHING, None, None
    # Before all masks and tables.
    members = {j: j for j in match.question.members.tolist()}
    seeds_of_sums = {} if match.rounding is None else part_seeds(match, keys, members, sums=True)
    seeds = part_seeds(match, keys, members)
    if match.rounding is not None:
        first, sums = deal_rounding(match, match.rounding, keys, seeds_of_sums)
    if game is not None:
        streams = mask_streams(match, keys, responders)
        each, basis = [streams[j] for j in responders], match.schedule.basis
        more = 0 if match.checked is None else match.checked.check.more
        # In the order in which responders draw.
        rho = dealer_protocol.total_mask(basis, match.shape, each)
        masks = rho, dealer_protocol.total_mask(basis, (more,), each)
        if kept is not None:
            masks = rho, kept.beside(match.rivals, masks[1])
    portions = deal_corrections(match, keys, game, masks, first, seeds)
    yield Exchange(to_all(match.correctors, next(portions)), round=match.given_in(0), phase="deal")
    return Dealt(
        enumerate(portions, 1),
        None if match.checked is None else masks,
        None if match.checked_sums is None else sums,
    )


def continue_dealing(match: ComparisonSession, left: Dealt) -> Role[None]:
    """Send the other portions as corrected members ask for them; each is made while the last one is used.

    Ends early if one of these goes no further, or is not heard; then another is told so.
    """
    correctors = match.correctors
    for number, portion in left.portions:
        wait = match.asked_in(number)
        inbox = yield Exchange({}, correctors, 0, round=match.given_in(0), accept=wait, phase="deal")
        asked = expect_messages(
            {c: m for c, m in inbox.items() if not isinstance(m, MissingMessages)}, RequestCorrections
        )
        for c, message in asked.items():
            if message.portion != number:
                raise FaultyClient(c, f"asked for portion {message.portion} where {number} is next")
        if len(asked) < len(correctors):
            told = to_all(tuple(asked), MissingMessages(0, NOBODY_MISSED))
            yield Exchange(told, round=match.given_in(number), phase="deal")
            return
        yield Exchange(to_all(correctors, portion), round=match.given_in(number), phase="deal")


def deal_corrections(
    match: ComparisonSession,
    keys: PairKeys,
    game: DealtComputation | None,
    masks: tuple[Array, Array] | None,
    first: Array,
    seeds: Mapping[int, bytes],
) -> Iterator[Corrections]:
    """The dealer's work: what corrected members get, portion by portion, ahead of which comes `first`.

    seeds: of parts that are played by several, see `part_seeds`.
    """
    if game is None or masks is None:
        yield Corrections(first)
        return
    streams = _streams_of_parts(match, keys, seeds)
    for words in game.deal_words(masks[0], streams, match.question.corrected, first):
        yield Corrections(words)


def _streams_of_parts(
    match: ComparisonSession, keys: PairKeys, seeds: Mapping[int, bytes], *, sums: bool = False
) -> list[Coins]:
    """What the tables of all parts are expanded from, see `part_tables`."""
    if seeds:
        return [Coins(seeds[q]) for q in range(len(match.blocks.parts))]
    committee = match.question.members.tolist()
    tables = table_streams(match, keys, committee, sums=sums)
    return [tables[j] for j in committee]


def deal_rounding(
    match: ComparisonSession, rounding: CenterRounding, keys: PairKeys, seeds: Mapping[int, bytes]
) -> tuple[Array, tuple[Array, Array]]:
    """The words by which the corrected part of rounding is completed; and what hides sums and further
    numbers, (lanes, K, ell * width) and (lanes, more).  seeds: see `part_seeds`."""
    responders = match.question.responders.tolist()
    masks = mask_streams(match, keys, responders, sums=True)
    each, basis = [masks[j] for j in responders], rounding.basis
    more = 0 if match.checked_sums is None else match.checked_sums.check.more
    # In the order in which responders draw.
    rho = dealer_protocol.total_mask(basis, rounding.shape, each)
    hiding = rho, dealer_protocol.total_mask(basis, (more,), each)
    deck = DealerRandomness(_streams_of_parts(match, keys, seeds, sums=True), match.question.corrected)
    deck.begin(rounding.dealt)
    rounding.deal(rho, deck)
    return deck.corrections, hiding
