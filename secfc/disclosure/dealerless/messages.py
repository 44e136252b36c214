"""What committees that compute without a dealer say, see `secfc.disclosure.dealerless.steps`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.coded.messages import DistanceQuery, LabelShare
from secfc.roles.checks import check_numbers, is_array, refuse
from secfc.roles.exchange import STRIDE
from secfc.roles.messages import Message

Array = NDArray[Any]

# Rounds of one step at most: three layers of arithmetic, some 10 of carries, 5 of winners, 40 of changes.
STEP_ROUNDS = 128


@dataclass(frozen=True, eq=False, repr=False)
class SetKeys(Message, tag=50):
    """Client to client: keys (keys, 16) uint8 of the sets of clients that both belong to, which it drew."""

    keys: Array

    def __post_init__(self) -> None:
        rule = "keys of sets are (keys, 16) bytes"
        refuse(not is_array(self.keys, "u", 2), rule)
        refuse(self.keys.shape[1] != 16 or self.keys.dtype != np.uint8, rule)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterQuery(DistanceQuery, tag=51):
    """Server to every client: run Lloyd's heuristic from this start, and open the last labels only.

    committee: numbers of the clients that compute, int32.  max_iter: steps at most; stop: whether the
    committee opens after each step if any label changed, and ends when none did.
    """

    committee: Array
    max_iter: int
    stop: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self.committee, "members of a committee")
        refuse(self.max_iter < 1, "a run has at least one step")

    @property
    def strides(self) -> int:
        """How many question numbers its answer takes: the committee's rounds are those of many questions."""
        return 1 - (-self.max_iter * STEP_ROUNDS // STRIDE)


@dataclass(frozen=True, eq=False, repr=False)
class ResharedPart(Message, tag=52):
    """Client to client: its share for the recipient of a part of secrets that stay secret.

    values: (lanes, numbers) residues, uniform to any t recipients.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "shares of products are residues, (lanes, numbers)")


@dataclass(frozen=True, eq=False, repr=False)
class ChangeShare(Message, tag=53):
    """Member to the committee: its share of the bit that says whether no label changed."""

    bit: bool


@dataclass(frozen=True, eq=False, repr=False)
class FinalShare(LabelShare, tag=54):
    """Member to server: its share of the last labels, after so many steps, and whether the run converged."""

    steps: int
    converged: bool

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self.steps < 1, "a run has at least one step")
