"""What is public about a step on shared labels, and what its members open of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange import transfer_matrix
from field.code.rows import cluster_sizes
from field.compare.relabeling import Relabeling
from field.compare.secret_step import subtract
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.plan import Plan
from secfc.coded.policy import Sharing
from secfc.disclosure.compare.match import Match, Seating
from secfc.disclosure.own.messages import Cleave, MeasureSplits, SizeShare, Stepped
from secfc.roles.accept import check_residues
from secfc.roles.exchange import PartyId, SuspectedParties

Array = NDArray[Any]


def places_of(k: int) -> int:
    """Binary digits of a label."""
    return max(1, (k - 1).bit_length())


def step_of(match: Match) -> Stepped:
    """The question of a match about labels that stay shared."""
    return cast("Stepped", match.question)


def game_of(match: Match, sharing: Sharing) -> Relabeling:
    """How a step goes on after its distances: everything public."""
    question = step_of(match)
    # From labels that leave points out, a step changes some in any case, and so does a cut.
    tested = question.step > 0 or int(question.labels.min(initial=0)) >= 0
    tested = tested and sharing.tested and not isinstance(question, Cleave)
    return Relabeling(match.schedule, match.plan.code.basis, tested)


def measured_to(plan: Plan, question: Stepped) -> Array:
    """The sizes of what centers are compared or measured: clusters, halves of them, or unions."""
    if isinstance(question, MeasureSplits) and plan.fraction is not None:
        return question.counted.reshape(-1)
    return np.repeat(question.now, 2) if isinstance(question, Cleave) else question.now


def clusters_in(match: Match) -> int:
    """Clusters with points now; where sizes are hidden those that may have some."""
    return int(np.count_nonzero(match.sizes if match.hidden else step_of(match).now))


def hide(basis: Basis, share: Array, me: int, streams: Mapping[int, Coins]) -> Array:
    """The share plus a share of zero, from a stream with every other member: what may leave the committee."""
    for other, stream in streams.items():
        mask = basis.sample(share.shape[1:], stream)
        share = basis.add(share, mask if me < other else basis.negate(mask).astype(mask.dtype))
    return share


def match_of(plan: Plan, question: Stepped, seating: Seating, sharing: Sharing) -> Match:
    """What a question about shared labels compares; the sizes of its first labels all know."""
    if not (sharing.hidden and question.step):
        aside = plan.aside if isinstance(question, Cleave) else 0
        return Match(plan, question, measured_to(plan, question), seating, aside=aside)
    # A cluster without points never gets any.
    there = cluster_sizes(question.labels, question.k) > 0
    return Match(plan, question, there.astype(np.int64), seating, hidden=True)


def sizes_of(
    match: Match, shares: Mapping[PartyId, SizeShare], *, hidden: bool = False
) -> tuple[bool, Array]:
    """Whether no label changed, and the sizes (k,) after a step, of what all members opened; 0 if hidden.

    Raises FaultyClient for numbers of another shape, SuspectedParties for sizes that no labels have.
    """
    basis, alive = match.plan.code.basis.prefix(1), np.flatnonzero(match.sizes)
    for c, share in shares.items():
        check_residues(basis, c, share.values, (0 if hidden else len(alive) - 1,))
    sizes = np.zeros(len(match.sizes), np.int64)
    if not hidden:
        sizes[alive[:-1]] = reduce(basis.add, [share.values for share in shares.values()])[0]
        sizes[alive[-1]] = match.plan.m - sizes.sum()
    said = {share.same for share in shares.values()}
    if len(said) > 1 or int(sizes.max()) > match.plan.m or int(sizes.min()) < 0:
        why = "the shares of a step's sizes add up to what no labels have, or contradict one another"
        raise SuspectedParties((*match.committee, *match.seating.dealers), why)
    return said.pop(), sizes


def costs_of(basis: Basis, one_hot: Array, norms: Array, sums: Array, sizes: Array) -> Array:
    """A share (lanes, k), of twice the degree, of the sums of scaled distances within clusters.

    That is s (s Q - ||S||**2) with Q the sum of the squares of a cluster's points.  one_hot: (lanes, K, m) of
    the clusters with points; norms: (lanes, m, 1), sums: (lanes, K, width); all of the degree of shares.
    """
    alive = np.flatnonzero(sizes)
    scales = basis.reduce(sizes[alive].astype(np.int64))
    squares = basis.multiply(scales, basis.matmul(one_hot, norms)[:, :, 0])
    own = basis.multiply(scales, basis.add(squares, basis.negate(basis.squares(sums)).astype(basis.dtype)))
    out = np.zeros((basis.lanes, len(sizes)), basis.dtype)
    out[:, alive] = own
    return out


def rounded_costs(
    basis: Basis, one_hot: Array, norms: Array, sums: Array, centers: Array, sizes: Array, fraction: int
) -> Array:
    """A share (lanes, k), of twice the degree, of the sums of squared distances to rounded centers C.

    That is s ||C||**2 - 2**(q + 1) <C, S> + 4**q Q for centers that stand for 2**q points each.  centers:
    (lanes, K, width), a share of C; the rest as in `costs_of`.
    """
    alive = np.flatnonzero(sizes)
    own, both = basis.squares(centers), basis.squares(basis.add(centers, sums))
    twice = subtract(basis, subtract(basis, both, own), basis.squares(sums))
    one, s = (basis.reduce(np.array(x, object).reshape(-1)) for x in (1 << fraction, sizes[alive]))
    squares = basis.multiply(basis.multiply(one, one), basis.matmul(one_hot, norms)[:, :, 0])
    found = subtract(basis, basis.add(basis.multiply(s, own), squares), basis.multiply(one, twice))
    out = np.zeros((basis.lanes, len(sizes)), basis.dtype)
    out[:, alive] = found
    return out


def unions(basis: Basis, sums: Array, sides: Array, now: Array) -> Array:
    """A share (lanes, 2 * pairs, width) of the sums of unions, those of a pair side by side; as `gaps_of`."""
    alive = np.flatnonzero(now)
    each = [basis.matmul(basis.reduce((sides == side).astype(np.int64)[:, alive]), sums) for side in (1, 2)]
    return np.stack(each, axis=2).reshape(basis.lanes, -1, sums.shape[2])


def gaps_of(basis: Basis, sums: Array, sides: Array, now: Array) -> Array:
    """A share (lanes, pairs), of twice the degree, of ||s_b S_a - s_a S_b||**2 of unions a and b.

    sums: (lanes, K, width) of the clusters with points, of the degree of shares.  sides: (pairs, k), now:
    (k,), see `MeasureSplits`.
    """
    both = unions(basis, sums, sides, now)
    first, second = both[:, ::2], both[:, 1::2]
    a, b = (basis.reduce(((sides == side) @ now).astype(np.int64))[:, :, None] for side in (1, 2))
    return basis.squares(subtract(basis, basis.multiply(b, first), basis.multiply(a, second)))


def numbers_of(
    match: Match, one_hot: Array, norms: Array | None, sums: Array, centers: Array | None
) -> Array:
    """A responder's share, of twice the degree, of what is asked for of clusters, or of unions of them.

    norms: of points, where costs are; centers: (lanes, K, width) of clusters with points, or of unions, where
    they are rounded.
    """
    question, plan = step_of(match), match.plan
    basis, now = plan.code.basis, question.now
    if norms is not None and centers is not None and plan.fraction is not None:
        return rounded_costs(basis, one_hot, norms, sums, centers, now, plan.fraction)
    if norms is not None:
        return costs_of(basis, one_hot, norms, sums, now)
    if centers is not None:
        return basis.squares(subtract(basis, centers[:, ::2], centers[:, 1::2]))
    return gaps_of(basis, sums, cast("MeasureSplits", question).sides, now)


def cut_sums(plan: Plan, me: int, sums: Array, now: Array, directions: Array) -> Array:
    """Client me's share (lanes, 2 k, width) of S + s v and S - s v of each cluster, v its direction.

    sums: (lanes, k, width), its share of S.  A public v of `ell` segments is shared without noise.
    """
    code, basis = plan.code, plan.code.basis
    width = code.width(plan.d)
    segments = np.zeros((len(now), code.ell * width), np.int64)
    # Rows are so many times the points.
    segments[:, : plan.d] = directions.astype(np.int64) * plan.layout.multiple
    pieces = basis.reduce(
        segments.reshape(-1, code.ell, width).transpose(1, 0, 2).reshape(code.ell, -1).copy()
    )
    at = transfer_matrix(basis, code.betas[: code.ell], (code.alphas[me],))
    along = basis.matmul(at, pieces).reshape(basis.lanes, len(now), width)
    aside = basis.multiply(basis.reduce(now.astype(np.int64))[:, :, None], along)
    both = np.stack([basis.add(sums, aside), subtract(basis, sums, aside)], axis=2)
    return np.ascontiguousarray(both.reshape(basis.lanes, -1, width))
