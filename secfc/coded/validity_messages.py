"""What parties say while they test whether shared rows are valid, see `secfc.coded.validity`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.roles.checks import is_array, refuse
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Hiding(Message, tag=33):
    """Client to client: under which of the mask words that it dealt its projections are to be told.

    digest: 32 bytes, of the coins as the sender was told them.  masks: (blocks,) int32, used: (blocks, words)
    bool, see `field.code.projections.Choice`.  Independent of the sender's rows.
    """

    digest: bytes
    masks: Array
    used: Array

    def __post_init__(self) -> None:
        refuse(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")
        right = is_array(self.masks, "i", 1) and self.masks.dtype == np.int32
        refuse(not right, "numbers of masks are a vector of 32-bit integers")
        right = is_array(self.used, "b", 2) and len(self.used) == len(self.masks)
        refuse(not right, "used words are truth values, (blocks, words)")


@dataclass(frozen=True, eq=False, repr=False)
class Projected(Message, tag=34):
    """Client to the server and to those who verify: masked projections of the shares it was dealt.

    complete: of whose rows it tells, one bool a client.  values, checks: what is opened of all blocks
    (`field.code.opened.Opened`), residues (lanes, blocks, words), zeros for others.  They show whether what a
    client dealt lies on the code and is small, and nothing else.
    """

    complete: Array
    values: Array
    checks: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.complete, "b", 1), "of whom is told is one truth value a client")
        for told in (self.values, self.checks):
            refuse(not is_array(told, "u", 3), "projections are residues, (lanes, blocks, words)")


@dataclass(frozen=True, eq=False, repr=False)
class TossedSeed(Message, tag=163):
    """Server to a client that does not work: the seed (32 bytes) that the workers tossed; public."""

    value: bytes

    def __post_init__(self) -> None:
        refuse(len(self.value) != 32, f"a seed has 32 bytes, this one has {len(self.value)}")


@dataclass(frozen=True, eq=False, repr=False)
class Counted(Message, tag=164):
    """Worker to worker: the digest (32 bytes) of whose rows count, as the server told it."""

    digest: bytes

    def __post_init__(self) -> None:
        refuse(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")
