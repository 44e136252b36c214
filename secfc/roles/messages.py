"""What parties of more than one protocol say, and how messages are checked: when built, and received."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import numpy as np

from field.arrays import Array
from field.ring.basis import Basis
from psu.messages import TAGS as TAGS
from psu.messages import Message as Message
from secfc.errors import FaultyClient
from secfc.roles.description import MAXIMUM
from secfc.roles.exchange import PartyId, blame_error, expect_messages

# --------------------------------------------------------------------------------------------------
# What messages check when they are built: cheap first, and in less memory than the message takes.
#
# Whoever sends a message chooses its contents, so a check of many bytes must not make many more of them.


# More clients than any plan has: a list of numbers of clients is no longer.
MOST_CLIENTS = 1 << 16
# Of an entry of a center, or of what is added to one.
FARTHEST = 2.0**400


def refuse_if(wrong: bool, rule: str) -> None:
    """Raises ValueError with this rule if it is broken."""
    if wrong:
        raise ValueError(rule)


def is_array(value: Any, kinds: str, axes: int) -> bool:
    """Whether this is an array of these kinds of dtype (of `numpy.dtype.kind`) with so many axes."""
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == axes


def check_labels(labels: Array, k: int, what: str, lowest: int = -1) -> None:
    """Signed integers in [lowest, k)."""
    rule = f"{what} is a vector of signed integer labels and k of at least 1"
    refuse_if(not is_array(labels, "i", 1) or k < 1, rule)
    inside = not labels.size or (int(labels.min()) >= lowest and int(labels.max()) < k)
    refuse_if(not inside, f"labels must lie in [{lowest}, {k})")


def check_unsigned(values: Array, what: str, axes: int = 3) -> None:
    """Unsigned integers; which of them are residues, the plan says."""
    refuse_if(not is_array(values, "u", axes), f"{what} are {axes} axes of residues, which are unsigned")


def check_numbers(numbers: Array, what: str) -> None:
    """Distinct numbers of clients, counted from 0, in any order."""
    refuse_if(not is_array(numbers, "i", 1), f"{what} are a vector of integers")
    refuse_if(len(numbers) > MOST_CLIENTS, f"{what} are at most {MOST_CLIENTS}")
    distinct = len(np.unique(numbers)) == len(numbers) and int(numbers.min(initial=0)) >= 0
    refuse_if(not distinct, f"{what} are distinct, numbered from 0")


def check_sizes(sizes: Array) -> None:
    """Raises ValueError for anything but sizes of clusters."""
    refuse_if(not is_array(sizes, "i", 1) or not len(sizes), "sizes of clusters are a vector of integers")
    refuse_if(int(sizes.min()) < 0, "no cluster has less than no points")


def check_centers(centers: Array, what: str) -> None:
    """In data units, whose squares and sums stay in the range of floats."""
    refuse_if(not is_array(centers, "f", 2), f"{what} are rows of floats")
    # Comparisons with NaN, which both extremes are if any entry is, do not hold.
    inside = not centers.size or (float(centers.min()) >= -FARTHEST and float(centers.max()) <= FARTHEST)
    refuse_if(not inside, f"{what} are finite and below 2**400")


def check_centers_or_none(centers: Array, what: str) -> None:
    """Check centers, of which rows of NaN are clusters without points."""
    refuse_if(not is_array(centers, "f", 2), f"{what} are rows of floats")
    if not centers.size:
        return
    absent = np.isnan(centers)
    refuse_if(
        not bool((absent.any(axis=1) == absent.all(axis=1)).all()), f"{what} are finite, or rows of NaN"
    )
    if not absent.all():
        low, high = np.fmin.reduce(centers, axis=None), np.fmax.reduce(centers, axis=None)
        refuse_if(not -FARTHEST <= low <= high <= FARTHEST, f"{what} are below 2**400")


# --------------------------------------------------------------------------------------------------
# What a role accepts of an inbox: messages of the right kind, of residues of the right shape.

M = TypeVar("M")

# So many small arrays fill a cache, and make what each costs beside its numbers vanish.
TOGETHER = 32


def check_residues(basis: Basis, sender: PartyId, values: Array, shape: tuple[int, ...]) -> None:
    """Raises FaultyClient or FaultyServer naming who sent other than canonical residues (lanes, *shape)."""
    try:
        basis.check(values, shape)
    except ValueError as error:
        raise blame_error(sender, f"sent a malformed message ({error})") from error


def check_all_residues(basis: Basis, shares: Mapping[PartyId, Array], shape: tuple[int, ...]) -> None:
    """Check residues of many small arrays together.  Raises FaultyClient naming a sender."""
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
            good |= check_all({sender: message}, kind, check)
    return good


def check_all(
    inbox: Mapping[PartyId, Any], kind: type[M], check: Callable[[PartyId, M], None]
) -> dict[PartyId, M]:
    """The inbox, every message of which must be of this type and pass the check.  Raises FaultyClient."""
    good = expect_messages(inbox, kind)
    for sender, message in good.items():
        check(sender, message)
    return good


def compact_labels(labels: Array) -> Array:
    """Labels in the smallest signed type that holds them, -1 included."""
    top = int(labels.max(initial=0))
    return labels.astype(np.int8 if top < 2**7 else np.int16 if top < 2**15 else np.int32)


class Hello(Message, tag=26):
    """Everyone to everyone, first: the description of the plan the sender agreed to.

    Only its size is checked here: that of another version of the protocol shall be told apart, not refused.

    Under "every policy": all, all.  Seen: the public plan: every parameter and its value.  By deviating:
    describe another plan: `PlanMismatch` names it and the difference, before a share leaves. Whoever
    carries unauthenticated links can lie on them: pin identities.
    """

    description: bytes

    def __post_init__(self) -> None:
        size = len(self.description)
        refuse_if(size > MAXIMUM, f"a description has at most {MAXIMUM} bytes, this one has {size}")


class PlanDigest(Message, tag=165):
    """Everyone to workers, and they to everyone: the digest (32 bytes) of the plan the sender agreed to.

    Under "with workers": all, workers and the server; these, all.  Seen: the digest of the public plan,
    in place of `Hello`, which follows where digests differ.  By deviating: another digest: `PlanMismatch`
    names it before a share leaves.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")


class InputPartyResult(Message, tag=166):
    """Server to a client that does not work: the result.  labels of its own rows (m_j,) in [0, k), none if
    they do not count; sizes (k,) points of each cluster; centers (k, d) only if they were revealed.

    The center of an empty cluster is a row of NaN.

    Under DBSCAN(): server, client.  Seen: the labels of the client's own rows, the number of points of
    each cluster and of noise.  By deviating: the server: false labels; only their form is checked.

    Under "with workers": server, client that does not work.  Seen: labels of the client's own rows,
    sizes, and centers if they are opened.  By deviating: the server: false labels, sizes or centers: only
    their form is checked.
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


class Contributors(Message, tag=14):
    """Server to every client, once rows are tested: whose count, one bool a client.

    Client to server, where clients deal for a question: whose shares I have completely, one bool a dealer; of
    dealers then one bool a client, whose key never came to me.

    Under "every policy": server, client; under dealt blinding client, server.  Seen: whose rows count;
    whose dealings and keys arrived.  By deviating: the server: count rows that a client lacks
    (`FaultyServer`), or that a verifying client refuses (it names the dealer, and stops). A client: claim
    that shares or keys are missing; each dealer is replaced, once.
    """

    complete: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.complete, "b", 1), "contributors are truth values")


class FinalResult(Message, tag=9):
    """Server to every client: the result.  labels (m,) in [0, k); centers (k, d) only if they were revealed.

    The center of an empty cluster is a row of NaN.

    Under "every policy": server, client.  Seen: the result: labels, and centers if enough consented.  By
    deviating: the server: publish false labels or centers; only their form is checked.
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
