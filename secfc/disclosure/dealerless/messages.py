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
class ChangeShare(Message, tag=53):
    """Member to the committee: its share of the bit that says whether no label changed."""

    bit: bool
