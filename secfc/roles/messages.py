"""What parties of more than one protocol say; and labels as small as they can be sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psu.messages import TAGS as TAGS
from psu.messages import Message as Message
from secfc.roles.checks import (
    check_centers_or_none,
    check_labels,
    is_array,
    refuse_if,
)
from secfc.roles.description import MAXIMUM

Array = NDArray[Any]


def compact_labels(labels: Array) -> Array:
    """Labels in the smallest signed type that holds them, -1 included."""
    top = int(labels.max(initial=0))
    return labels.astype(np.int8 if top < 2**7 else np.int16 if top < 2**15 else np.int32)


@dataclass(frozen=True, eq=False, repr=False)
class Hello(Message, tag=26):
    """Everyone to everyone, first: the description of the plan the sender agreed to.

    Only its size is checked here: that of another version of the protocol shall be told apart, not refused.
    """

    description: bytes

    def __post_init__(self) -> None:
        size = len(self.description)
        refuse_if(size > MAXIMUM, f"a description has at most {MAXIMUM} bytes, this one has {size}")


@dataclass(frozen=True, eq=False, repr=False)
class PlanDigest(Message, tag=165):
    """Everyone to workers, and they to everyone: the digest (32 bytes) of the plan the sender agreed to."""

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")


@dataclass(frozen=True, eq=False, repr=False)
class InputPartyResult(Message, tag=166):
    """Server to a client that does not work: the result.  labels of its own rows (m_j,) in [0, k), none if
    they do not count; sizes (k,) points of each cluster; centers (k, d) only if they were revealed.

    The center of an empty cluster is a row of NaN.
    """

    labels: Array
    sizes: Array
    centers: Array | None

    def __post_init__(self) -> None:
        right = is_array(self.sizes, "i", 1) and len(self.sizes) and int(self.sizes.min()) >= 0
        refuse_if(not right, "sizes are a vector of numbers of points")
        check_labels(self.labels, len(self.sizes), "a result", lowest=0)
        if self.centers is not None:
            refuse_if(
                not is_array(self.centers, "f", 2) or len(self.centers) != len(self.sizes),
                "centers are k rows of floats",
            )
            check_centers_or_none(self.centers, "centers of clusters that are not empty")


@dataclass(frozen=True, eq=False, repr=False)
class Contributors(Message, tag=14):
    """Server to every client, once rows are tested: whose count, one bool a client.

    Client to server, where clients deal for a question: whose shares I have completely, one bool a dealer; of
    dealers then one bool a client, whose key never came to me.
    """

    complete: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.complete, "b", 1), "contributors are truth values")


@dataclass(frozen=True, eq=False, repr=False)
class FinalResult(Message, tag=9):
    """Server to every client: the result.  labels (m,) in [0, k); centers (k, d) only if they were revealed.

    The center of an empty cluster is a row of NaN.
    """

    k: int
    labels: Array
    centers: Array | None

    def __post_init__(self) -> None:
        check_labels(self.labels, self.k, "a result", lowest=0)
        if self.centers is not None:
            refuse_if(
                not is_array(self.centers, "f", 2) or len(self.centers) != self.k,
                "centers are k rows of floats",
            )
            check_centers_or_none(self.centers, "centers of clusters that are not empty")
