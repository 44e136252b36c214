"""What a role accepts of an inbox: messages of the right kind, of residues of the right shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from field.ring.basis import Basis
from secfc.roles.exchange import FaultyClient, PartyId, take

Array = NDArray[Any]
M = TypeVar("M")

# So many small arrays fill a cache, and make what each costs beside its numbers vanish.
TOGETHER = 32


def check_residues(basis: Basis, sender: PartyId, values: Array, shape: tuple[int, ...]) -> None:
    """Raises FaultyClient naming the sender of anything but (lanes, *shape) canonical residues."""
    try:
        basis.check(values, shape)
    except ValueError as error:
        raise FaultyClient(sender, f"sent a malformed message ({error})") from error


def check_all_residues(basis: Basis, shares: Mapping[PartyId, Array], shape: tuple[int, ...]) -> None:
    """The same of many small arrays, which are looked at together.  Raises FaultyClient naming a sender."""
    expected, senders = (basis.lanes, *shape), list(shares)
    for at in range(0, len(senders), TOGETHER):
        some = senders[at : at + TOGETHER]
        good = all(shares[c].dtype == basis.dtype and shares[c].shape == expected for c in some)
        with suppress(ValueError):
            if good:
                basis.check(np.stack([shares[c] for c in some], axis=1), (len(some), *shape))
                continue
        # One of them is none: which, and what is wrong with it, is said as if it had come alone.
        for sender in some:
            check_residues(basis, sender, shares[sender], shape)


def well_formed(
    inbox: Mapping[PartyId, Any], kind: type[M], check: Callable[[PartyId, M], None]
) -> dict[PartyId, M]:
    """Those messages that are of this type and pass the check, which raises FaultyClient otherwise."""
    good: dict[PartyId, M] = {}
    for sender, message in inbox.items():
        with suppress(FaultyClient):
            good |= checked({sender: message}, kind, check)
    return good


def checked(
    inbox: Mapping[PartyId, Any], kind: type[M], check: Callable[[PartyId, M], None]
) -> dict[PartyId, M]:
    """The inbox, every message of which must be of this type and pass the check.  Raises FaultyClient."""
    good = take(inbox, kind)
    for sender, message in good.items():
        check(sender, message)
    return good
