"""What responders compute of labels that stay shared: sums of points by them, and other products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.blind import PairKeys
from field.code.parts import deal_part, expand, seeded, weighted
from field.code.rows import ClusterSums, CodedRows
from field.compare import secret_step as maths
from field.compare.relabeling import Shared
from field.compare.secret_step import last_of_one_hot
from field.secrets.coins import Coins
from secfc.coded.plan import Plan
from secfc.disclosure.compare.hearing import added
from secfc.disclosure.compare.match import Match
from secfc.disclosure.joint.messages import Reshared
from secfc.disclosure.joint.steps import Stalled, Steps
from secfc.disclosure.own.shares import clusters_in, step_of
from secfc.roles.accept import check_residues
from secfc.roles.exchange import Role
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Products:
    """Client me's part; keys: with the other clients.  Everything that comes out is a share, secret.

    held: how who shares the labels has shares of them to compute on already; None where they are dealt anew.
    """

    plan: Plan
    me: int
    keys: PairKeys
    coins: Coins
    held: Callable[[Match, Shared], Array] | None = None

    def streams(self, match: Match, more: int, peers: set[int]) -> dict[int, Coins]:
        """Streams with other clients, fresh for this question as often as `more` rises from 0.

        Raises Stalled for a client whose key never came.
        """
        others = peers - {self.me}
        streams = self.keys.streams(match.question.round + more, match.context, others)
        if others - set(streams):
            raise Stalled(0, others - set(streams))
        return streams

    def labeled(self, match: Match, steps: Steps, state: Shared | None) -> Role[Array | None]:
        """My share of the labels (lanes, K, m), one-hot among the clusters with points, if I respond.

        state: my part of them, if I am in the committee.
        """
        plan, me, code = self.plan, self.me, self.plan.code
        if self.held is not None:
            return None if state is None else last_of_one_hot(code.basis, self.held(match, state))
        responders, committee = tuple(match.question.responders.tolist()), match.question.committee.tolist()
        mine = seeded(code, me, responders) if state is not None else ()
        theirs = [p for p in committee if p != me and me in responders and me in seeded(code, p, responders)]
        streams = self.streams(match, 0, {*mine, *theirs})
        shape = clusters_in(match) - 1, plan.m
        if not shape[0]:  # everybody is in the only cluster there is
            return np.ones((code.basis.lanes, 1, plan.m), code.basis.dtype) if me in responders else None
        send: dict[int, Message] = {}
        shares: dict[int, Array] = {}
        if state is not None:
            seeds = [streams[j] for j in mine]
            shares = deal_part(code, state.parts.reshape(code.basis.lanes, -1), me, responders, seeds)
            send = {j: Reshared(share) for j, share in shares.items() if j != me}
        responds, size = me in responders, shape[0] * shape[1]
        own = [shares[me]] if me in shares else []
        own += [expand(code, size, streams[p]) for p in theirs]
        awaited = [p for p in committee if responds and p != me and p not in theirs]
        own += yield from self.reshared(steps, send, awaited, size)
        return last_of_one_hot(code.basis, added(code.basis, own).reshape(-1, *shape)) if responds else None

    def sums(
        self, match: Match, steps: Steps, rows: CodedRows, one_hot: Array | None, to: Sequence[int]
    ) -> Role[Array]:
        """My share of the sums of clusters with points (lanes, K, width); of none, if none is dealt to me.

        one_hot: my share of the labels, if I respond.
        """
        product = None if one_hot is None else rows.weighted_sums(one_hot)
        count = clusters_in(match)
        return (yield from self.reduced(match, steps, product, to, count, self.plan.code.width(self.plan.d)))

    def sides(
        self, match: Match, steps: Steps, rows: CodedRows, one_hot: Array | None, to: Sequence[int]
    ) -> Role[Array]:
        """My share of what tells sides of clusters of secret sizes (lanes, pairs, 1 + width), as `sums`.

        See `field.compare.secret_step.sides`; the products of products need three rounds.
        """
        code, responders = self.plan.code, match.question.responders.tolist()
        basis, width = code.basis, code.width(self.plan.d)
        pairs = maths.Pairs(int(np.count_nonzero(match.sizes)))
        count = len(pairs.first)
        sums = yield from self.sums(match, steps, rows, one_hot, responders)
        product, sizes = None, None
        if one_hot is not None:
            sizes = maths.cluster_sizes(basis, one_hot)
            product = maths.squares(basis, sums, sizes, pairs)[:, :, None]
        size = count * (1 + width) + 2 * pairs.k
        squares = yield from self.reduced(match, steps, product, responders, size, 1)
        product = None
        if sizes is not None:
            product = maths.sides(basis, squares[:, :, 0], sizes, width, pairs, self.plan.m, code.ell)
        return (yield from self.reduced(match, steps, product, to, count, 1 + width))

    def reduced(
        self, match: Match, steps: Steps, product: Array | None, to: Sequence[int], rows: int, width: int
    ) -> Role[Array]:
        """My share (lanes, rows, width) of what responders hold as products, now with the degree of shares.

        product: my share of twice the degree, if I respond; no rows come out if none are dealt to me.
        """
        me, code = self.me, self.plan.code
        responders = tuple(match.question.responders.tolist())
        send: dict[int, Message] = {}
        dealt_to: dict[int, Array] = {}
        if product is not None:
            parts = code.share(weighted(code, responders, me, product), self.coins)
            dealt_to = {j: np.ascontiguousarray(parts[j]).reshape(code.basis.lanes, -1) for j in to}
            send = {j: Reshared(part) for j, part in dealt_to.items() if j != me}
        asked = [j for j in responders if j != me] if me in to else []
        values = [dealt_to[me]] if me in dealt_to else []
        values += yield from self.reshared(steps, send, asked, rows * width)
        if not values:
            return np.empty((code.basis.lanes, 0, 0), code.basis.dtype)
        return added(code.basis, values).reshape(code.basis.lanes, rows, width)

    def reshared(
        self, steps: Steps, send: Mapping[int, Message], awaited: Sequence[int], size: int
    ) -> Role[list[Array]]:
        """What these clients dealt me: residues (lanes, size) each."""
        received = yield from steps.exchange(send, awaited, Reshared)
        for j, message in received.items():
            check_residues(self.plan.code.basis, self.plan.clients[j], message.values, (size,))
        return [message.values for message in received.values()]

    def expanded(self, match: Match, rows: CodedRows, sums: Array) -> ClusterSums:
        """The sums of all clusters, of those without points zero."""
        now = step_of(match).now
        values = np.zeros((len(sums), len(now), sums.shape[2]), sums.dtype)
        values[:, now > 0] = sums
        return rows.given(values, now)

    def norms(self, match: Match, steps: Steps, rows: CodedRows, one_hot: Array | None) -> Role[Array]:
        """My share (lanes, m, 1) of the squares of points, which are products and dealt anew."""
        product = None if one_hot is None else rows.norms()[:, :, None]
        to = match.question.responders.tolist()
        return (yield from self.reduced(match, steps, product, to, self.plan.m, 1))
