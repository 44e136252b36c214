"""What committees that compute without a dealer say, see `secfc.disclosure.dealerless.steps`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.roles.checks import is_array, refuse_if
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class SetKeys(Message, tag=50):
    """Client to client: keys (keys, 16) uint8 of the sets of clients that both belong to, which it drew."""

    keys: Array

    def __post_init__(self) -> None:
        rule = "keys of sets are (keys, 16) bytes"
        refuse_if(not is_array(self.keys, "u", 2), rule)
        refuse_if(self.keys.shape[1] != 16 or self.keys.dtype != np.uint8, rule)


@dataclass(frozen=True, eq=False, repr=False)
class ResharedPart(Message, tag=52):
    """Client to client: its share for the recipient of a part of secrets that stay secret.

    values: (lanes, numbers) residues, uniform to any t recipients.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "shares of products are residues, (lanes, numbers)")


@dataclass(frozen=True, eq=False, repr=False)
class SeatDigest(Message, tag=221):
    """Client to client: a digest (32 bytes) of keys of sets that both belong to, as the sender was told them.

    To who plays the same part also of this part.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")


@dataclass(frozen=True, eq=False, repr=False)
class WitnessedBits(Message, tag=222):
    """Client to client: shares of bits, and a tag of those that another tells the recipient.

    words: (groups, rows, words) uint64, uniform to any t recipients.  vouched: 16 bytes; none if it vouches
    for nothing.
    """

    words: Array
    vouched: bytes

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 3), "shares of bits are words, (groups, rows, words)")
        size = len(self.vouched)
        refuse_if(size not in (0, 16), f"a tag has 16 bytes or none, this one has {size}")
