"""Who is told which labels, and by whom: where owners of rows are public, and where they are hidden.

Public owners: every member of the committee tells an owner its share of the digits of the owner's own labels.

Hidden owners (`Private()` membership): nobody may see which rows an owner asks for.  It shares a bit a row, 1
where it holds the row, with the responders; members share their parts of the labels' numbers, counted from 1,
in the same way (`field.code.parts`).  A responder multiplies both, and tells the owner its weighted part of
the product at one data point, plus masks that it shares with every other responder and that cancel.  So the
owner learns the number of its rows, 0 for all others.  No mask of the dealer has part in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange_code import LagrangeCode
from field.code.parts import deal_part, expand, seeded, weighted
from field.compare import bitslice
from field.compare.relabeling import Shared, rows_of
from field.secrets.coins import Coins
from secfc.coded.plan import Plan
from secfc.disclosure.compare.hearing import added
from secfc.disclosure.compare.match import Match, check_words
from secfc.disclosure.own.messages import OwnShare, PickedShare
from secfc.disclosure.own.shares import places_of
from secfc.roles.accept import check_residues
from secfc.roles.exchange import PartyId, SuspectedParties
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class PublicOwners:
    """Labels of rows whose owners all know.  me: the number of this client."""

    plan: Plan
    me: int

    kind: ClassVar[type[Message]] = OwnShare

    @property
    def asking(self) -> tuple[int, ...]:
        """The clients that are told labels."""
        return tuple(j for j in range(len(self.plan.clients)) if self.plan.layout.span(j)[1])

    def telling(self, match: Match) -> tuple[PartyId, ...]:
        """The clients that tell them."""
        return match.committee

    def told(self, share: Array) -> dict[int, Message]:
        """What a member tells each owner, of its hidden share of all labels' digits (places, words)."""
        spans = {j: self.plan.layout.span(j) for j in self.asking}
        return {j: OwnShare(rows_of(share, first, first + count)) for j, (first, count) in spans.items()}

    def labels(self, match: Match, k: int, heard: Mapping[PartyId, Any]) -> Array:
        """My labels (m,), -1 elsewhere, from what all told me.  Raises FaultyClient, SuspectedParties."""
        first, count = self.plan.layout.span(self.me)
        shape = places_of(k), bitslice.words(count)
        words = [check_words(c, message.words, shape) for c, message in heard.items()]
        found = bitslice.numbers(reduce(np.bitwise_xor, words), count)
        labels = np.full(self.plan.m, -1, np.int32)
        labels[first : first + count] = checked(match, k, found)
        return labels


@dataclass(frozen=True, eq=False, repr=False)
class HiddenOwners:
    """Labels of rows of which each client knows only which are its own.

    me: the number of this client.  rows: its own rows, secret.
    """

    plan: Plan
    me: int
    rows: Array

    kind: ClassVar[type[Message]] = PickedShare

    @property
    def asking(self) -> tuple[int, ...]:
        """The clients that are told labels: who owns none asks all the same."""
        return tuple(range(len(self.plan.clients)))

    def telling(self, match: Match) -> tuple[PartyId, ...]:
        """The clients that tell them."""
        return match.responders

    def labels(self, match: Match, k: int, heard: Mapping[PartyId, Any]) -> Array:
        """My labels (m,), -1 elsewhere, from what all told me.  Raises FaultyClient, SuspectedParties."""
        basis = self.code.basis
        for c, message in heard.items():
            check_residues(basis, c, message.values, (self.plan.m,))
        found = added(basis, [message.values for message in heard.values()])[0].astype(np.int64) - 1
        if np.count_nonzero(found >= 0) != np.count_nonzero(self.owned):
            raise contradiction(match)
        labels = np.full(self.plan.m, -1, np.int32)
        labels[self.rows] = checked(match, k, found[self.rows])
        return labels

    # --- how they are picked

    @cached_property
    def code(self) -> LagrangeCode:
        """Labels are small: one lane holds them."""
        return replace(self.plan.code, basis=self.plan.code.basis.prefix(1))

    @property
    def owned(self) -> Array:
        """(1, m) residues, 1 at my rows."""
        out = np.zeros((1, self.plan.m), np.uint32)
        out[0, self.rows] = 1
        return out

    def numbers(self, match: Match, shared: Shared, *, lead: bool) -> Array:
        """A member's additive part (1, m) of every label plus one.  lead: at exactly one member."""
        basis, clusters = self.code.basis, np.flatnonzero(match.sizes)
        # Of one-hot rows b_h but the last, h': h' + 1 + sum of (h - h') b_h.
        weights = basis.reduce((clusters[:-1] - clusters[-1])[None])
        part = basis.matmul(weights, np.ascontiguousarray(shared.parts[:1]))[:, 0]
        ahead = np.full((1, self.plan.m), int(clusters[-1]) + 1 if lead else 0, np.uint32)
        return np.asarray(basis.add(part, ahead), np.uint32)

    def expanded_by(self, responders: tuple[int, ...]) -> tuple[int, ...]:
        """The clients of whose dealing my share follows from seeds, if I am to respond."""
        others = (j for j in self.asking if j != self.me and self.me in responders)
        return tuple(j for j in others if self.me in seeded(self.code, j, responders))

    def dealt(
        self, responders: tuple[int, ...], part: Array | None, streams: Mapping[int, Coins]
    ) -> dict[int, Array]:
        """My rows, and behind them my part of the numbers if I have one, for responders that lack seeds.

        streams: with those that have them.
        """
        secret = self.owned if part is None else np.concatenate([self.owned, part], axis=1)
        seeds = [streams[j] for j in seeded(self.code, self.me, responders)]
        return deal_part(self.code, secret, self.me, responders, seeds)

    def size(self, match: Match, dealer: int) -> int:
        """Residues of what this client deals to a responder."""
        return self.plan.m * (2 if self.plan.clients[dealer] in match.committee else 1)

    def share(self, match: Match, dealer: int, seed: Coins) -> Array:
        """My share of what this client deals, from a seed."""
        return expand(self.code, self.size(match, dealer), seed)

    def picked(
        self,
        match: Match,
        responders: tuple[int, ...],
        shares: Mapping[int, Array],
        peers: Mapping[int, Coins],
    ) -> dict[int, Message]:
        """What a responder tells each owner.

        shares: what clients dealt me, by number.  peers: streams with the other responders.
        """
        m, basis = self.plan.m, self.code.basis
        committee = match.question.committee.tolist()
        numbers = added(basis, [np.ascontiguousarray(shares[j][:, m:]) for j in committee])
        told: dict[int, Message] = {}
        for j in self.asking:
            # Also of owners that are gone, so that all expand their streams alike.
            masks = [
                mask if self.me < i else basis.negate(mask).astype(mask.dtype)
                for i, mask in ((i, basis.sample((m,), stream)) for i, stream in peers.items())
            ]
            if j not in shares:
                continue
            product = basis.multiply(numbers, np.ascontiguousarray(shares[j][:, :m]))
            # The first data point is enough: the secrets are the same at all of them.
            mine = weighted(self.code, responders, self.me, product[:, None])[:, 0, :m]
            told[j] = PickedShare(added(basis, [np.ascontiguousarray(mine), *masks]))
        return told


def checked(match: Match, k: int, found: Array) -> Array:
    """Labels below k and none below 0.  Raises SuspectedParties for others."""
    if int(found.max(initial=0)) >= k or int(found.min(initial=0)) < 0:
        raise contradiction(match)
    return found


def contradiction(match: Match) -> SuspectedParties:
    """Those who may have told false labels."""
    why = "the shares of my labels add up to clusters that are not there"
    return SuspectedParties((*match.committee, *match.seating.dealers), why)
