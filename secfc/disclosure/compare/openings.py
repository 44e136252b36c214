"""How a committee opens what its members have shares of: all tell all, or each adds up a part for all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.compare.dealt import together
from field.kernels.threads import cuts
from field.ring.basis import Basis
from secfc.coded.messages import MaskedBits
from secfc.disclosure.compare.match import check_opening
from secfc.roles.exchange import PartyId, Role

Array = NDArray[Any]
# One exchange with the other members, all of whom are heard.
Talk = Callable[[Mapping[PartyId, MaskedBits]], Role[Mapping[PartyId, MaskedBits]]]

# From so many bytes on it is worth a round more that every member adds up a part, and tells the others the
# sum: of c members all together tell 2 (c - 1) times what is opened, not c (c - 1) times.
WORTH_PARTS = 1 << 15


def opened(basis: Basis, members: Sequence[PartyId], me: PartyId, mine: Array, talk: Talk) -> Role[Array]:
    """What all members' shares add up to, of which this is mine: words, or residues (lanes, ...).

    members: the same order at all of them.  Raises FaultyClient for a share of another shape.
    """
    words = mine.dtype == np.uint64
    ring = basis if words else basis.prefix(len(mine))
    others = [c for c in members if c != me]
    flat = mine.reshape(-1) if words else mine.reshape(len(mine), -1)

    def exchanged(send: Mapping[PartyId, Array], due: Mapping[PartyId, Array]) -> Role[dict[PartyId, Array]]:
        heard = yield from talk({c: MaskedBits(share) for c, share in send.items()})
        return {c: check_opening(ring, c, heard[c].words, due[c]) for c in others}

    if len(members) == 2 or mine.nbytes < WORTH_PARTS or flat.shape[-1] < len(members):
        theirs = yield from exchanged(dict.fromkeys(others, mine), dict.fromkeys(others, mine))
        return together(ring, [mine, *theirs.values()])
    where = dict(zip(members, cuts(flat.shape[-1], len(members)), strict=True))
    parts = {c: np.ascontiguousarray(flat[..., part]) for c, part in where.items()}
    theirs = yield from exchanged({c: parts[c] for c in others}, dict.fromkeys(others, parts[me]))
    total = together(ring, [parts[me], *theirs.values()])
    theirs = yield from exchanged(dict.fromkeys(others, total), parts)
    out = np.empty_like(flat)
    for c, part in where.items():
        out[..., part] = total if c == me else theirs[c]
    return out.reshape(mine.shape)
