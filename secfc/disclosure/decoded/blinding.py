"""Replies under zero-sum masks, of which a server that decodes gets the weighted sum and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.masking import PairKeys, add_mask, mask_context, mask_for, masking_partners
from field.code.wraparound_check import compress_distances
from secfc.coded.messages import CodedDistances, MissingMessages
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import DistanceOracle
from secfc.coded.queries import Query
from secfc.coded.quorum import NOBODY_MISSED
from secfc.errors import FaultyServer
from secfc.roles.exchange import SERVER, Role

Array = NDArray[Any]


def masked_reply(
    plan: CodedPlan,
    me: int,
    keys: PairKeys,
    colluding: int,
    question: Query,
    measured: DistanceOracle,
) -> Role[CodedDistances | MissingMessages | None]:
    """The reply under a mask that only the weighted sum over all responders sheds; or whose key I lack."""
    yield from ()
    check_responders(plan, question)
    if me not in question.responders:
        return None
    return blind_reply(plan, me, keys, colluding, question, measured)


def blind_reply(
    plan: CodedPlan,
    me: int,
    keys: PairKeys,
    colluding: int,
    question: Query,
    measured: DistanceOracle,
    further: Array | None = None,
    *,
    bare: bool = False,
) -> CodedDistances | MissingMessages:
    """A responder's masked reply, with what it is checked by (lanes, more); or whose key it lacks.

    bare: whether only the latter is masked.
    """
    values = measured.distances(plan.lanes(measured.sizes))
    hidden = values[:, :0] if bare else values
    lacking = NOBODY_MISSED
    if not bare or further is not None:
        lacking = mask_values(plan, me, keys, colluding, question, hidden, further)
    if lacking.size:
        return MissingMessages(0, lacking)
    lanes = plan.honest_lanes(measured.sizes)
    if not question.coins or lanes == len(values):
        return CodedDistances(values, further=further)
    first, sums = compress_distances(plan.code, values, lanes, question.coins)
    return CodedDistances(first, sums=sums, further=further)


def check_responders(plan: CodedPlan, question: Query) -> None:
    """Raises FaultyServer for responders whose masks do not cancel."""
    asked = question.responders.tolist()
    if len(asked) != plan.code.threshold(2) or sorted(asked) != asked:
        raise FaultyServer(SERVER, "asked for masks of other clients than a threshold of them, in order")


def mask_values(
    plan: CodedPlan,
    me: int,
    keys: PairKeys,
    colluding: int,
    question: Query,
    values: Array,
    further: Array | None = None,
) -> Array:
    """Mask a responder's values (lanes, *shape) in place; or the numbers of clients whose keys it lacks.

    Without their masks the reply would be bare, so then it must not leave.
    further: (lanes, more), perhaps of fewer lanes, masked so that they add up as they are, without weights.
    """
    responders = tuple(question.responders.tolist())
    peers = masking_partners(plan.code, responders, me, len(values), colluding)
    context = mask_context(plan.code, responders, len(values), values.shape[1:], question.digest)
    streams = keys.streams(question.round, context, peers)
    lacking = np.array(sorted(set(peers) - set(streams)), np.int32)
    if not lacking.size:
        add_mask(plan.code, responders, me, streams, values, colluding)
        if further is not None:
            basis, weights = (
                plan.code.basis.prefix(len(further)),
                plan.code.decoding_weights(responders, 2)[1],
            )
            mask = mask_for(plan.code, responders, me, streams, len(further), further.shape[1:], colluding)
            mine = weights[: len(further), responders.index(me), None]
            further[...] = basis.add(further, basis.multiply(mask, mine))
    return lacking
