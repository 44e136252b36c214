"""What the parties of a coded run say: frozen, checked when built, silent about its contents."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from secfc.roles.checks import (
    check_centers_or_none,
    check_labels,
    check_numbers,
    check_unsigned,
    is_array,
    refuse,
)
from secfc.roles.messages import Message

# --------------------------------------------------------------------------------------------------
# What a dealer sends for a comparison of secrets, and how the next portion of it is asked for.

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Corrections(Message, tag=20):
    """Dealer to one member: words that complete its tables of one comparison, uniform to any one member.

    Of many rows in portions (`field.compare.correlated_randomness`).  Where centers are rounded, before the
    first of them those by which it divides.
    """

    words: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.words, "u", 1), "corrections are a vector of words")


@dataclass(frozen=True, eq=False, repr=False)
class RequestCorrections(Message, tag=28):
    """Member to the dealer: send me the corrections of the next rows, of this portion, counted from 0.

    Where a comparison is dealt at once, nobody says so.
    """

    portion: int

    def __post_init__(self) -> None:
        refuse(self.portion < 1, "the first portion is sent unasked")


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class PublicKey(Message, tag=15):
    """Client to client: its ephemeral X25519 key (32 bytes), from which masks of replies follow."""

    key: bytes

    def __post_init__(self) -> None:
        refuse(len(self.key) != 32, f"a public key has 32 bytes, this one has {len(self.key)}")


@dataclass(frozen=True, eq=False, repr=False)
class RowShares(Message, tag=39):
    """Client to client: its share for the recipient of some rows.

    start: the first row, in the numbering of all m rows.  values: (lanes, rows, width) residues, and masks:
    (lanes, masks, words), which hide what the recipient tells of them later; both uniform to the recipient.
    """

    start: int
    values: Array
    masks: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares, (lanes, rows, width),")
        check_unsigned(self.masks, "shares of masks, (lanes, masks, words),")
        refuse(self.start < 0, "rows are numbered from 0")


@dataclass(frozen=True, eq=False, repr=False)
class DealingChallenge(Message, tag=41):
    """Server to every client, once all shares of a dealing have arrived: combine them with these coins.

    seed: 32 bytes, public from now on; none if the dealing is given up.
    """

    seed: bytes

    def __post_init__(self) -> None:
        if len(self.seed) not in (0, 32):
            raise ValueError(f"a challenge has 32 bytes or none, this one has {len(self.seed)}")


@dataclass(frozen=True, eq=False, repr=False)
class BlindingShares(Message, tag=43):
    """Client to client: its share of polynomials that blind replies, then of their mask words.

    values: (lanes, k * m + words) residues, uniform to the recipient.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of a blinding, (lanes, values),", 2)


@dataclass(frozen=True, eq=False, repr=False)
class DistanceQuery(Message, tag=5):
    """Server to every client: the clustering to measure distances to.

    labels: (m,) in [-1, k), -1 for a point that is in no cluster (only while a start is drawn).
    responders: numbers of the clients whose replies are wanted, int32; empty for all.  Ascending under
    zero-sum masks; under a dealt blinding those who deal it come first.  coins: 32 bytes for random sums that
    replies tell in place of lanes that honest rows do not need (`field.code.wraparound_check`); else none.

    halves: whether its clusters are halves of clusters.  Then labels are in [0, k), cluster h has the halves
    2 h and 2 h + 1, and k is even.
    """

    round: int
    k: int
    labels: Array
    responders: Array
    coins: bytes = field(default=b"", kw_only=True)

    halves: ClassVar[bool] = False

    def __post_init__(self) -> None:
        refuse(self.round < 0, "rounds count from 0")
        refuse(len(self.coins) not in (0, 32), f"coins are 32 bytes or none, these are {len(self.coins)}")
        check_labels(self.labels, self.k, "an assignment")
        check_numbers(self.responders, "responders")
        if self.halves:
            refuse(self.k % 2 != 0, f"every cluster has two halves, so k={self.k} must be even")
            refuse(int(self.labels.min(initial=0)) < 0, "every point is in a half of a cluster")

    @property
    def strides(self) -> int:
        """How many question numbers its answer takes."""
        return 1

    @property
    def subject(self) -> bytes:
        """32 bytes that name what it asks about: the kind of question and all labels.

        Every mask of an answer is bound to it.  Replies of clients that were told different labels so stay
        hidden: bare, their sum would say how the share of one client changes with the labels.
        """
        state = hashlib.blake2b(digest_size=32, person=b"secfc-subject")
        state.update(f"{type(self).__name__} {self.k} {len(self.labels)} ".encode())
        state.update(np.ascontiguousarray(self.labels, "<i4").data)
        return state.digest()


@dataclass(frozen=True, eq=False, repr=False)
class HalfDistanceQuery(DistanceQuery, tag=74):
    """Server to every client, while a start is drawn: the same of both halves of each cluster, and of a point
    its distances to the halves of its own cluster only."""

    halves: ClassVar[bool] = True


@dataclass(frozen=True, eq=False, repr=False)
class CodedDistances(Message, tag=6):
    """Client to server: its coded distance of every point to every center, (lanes, k, m) residues; after
    `HalfDistanceQuery` to both halves of its cluster, (lanes, 2, m).

    sums: (lanes, tests, columns) random sums of these in further lanes, if the question has coins for them.
    """

    values: Array
    sums: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_unsigned(self.values, "coded distances, (lanes, k, m),")
        if self.sums is not None:
            check_unsigned(self.sums, "sums of coded distances, (lanes, tests, columns),")


@dataclass(frozen=True, eq=False, repr=False)
class CheckedDistances(CodedDistances, tag=44):
    """The same under a dealt blinding, with random words of it, masked: (lanes, dealers, words)."""

    words: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        check_unsigned(self.words, "words of a blinding, (lanes, dealers, words),")


@dataclass(frozen=True, eq=False, repr=False)
class NoiseShares(Message, tag=32):
    """Client to client: its share for the recipient of the noise it adds, uniform to the recipient.

    values: residues, (lanes, k, m) for distances, (lanes, k, width) for the sums of clusters.  asked: 32
    bytes that agree where the same was asked: labels, who deals, how many questions were paid for.
    """

    values: Array
    asked: bytes

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of noise, (lanes, k, m) or (lanes, k, width),")
        refuse(len(self.asked) != 32, f"a digest has 32 bytes, this one has {len(self.asked)}")


@dataclass(frozen=True, eq=False, repr=False)
class CompareQuery(DistanceQuery, tag=16):
    """Server to every client: the same, and who compares the distances instead of returning them.

    committee: numbers of the clients that compare, int32, the first adds the public constants.  corrected:
    the place in the committee of the one that the dealer sends corrections to.  factor: 1 to find the nearest
    center, else the center that is at least that many times as near as every other, in squared distance.
    """

    committee: Array
    corrected: int
    factor: int

    counts: ClassVar[bool] = False  # whether it asks for numbers of clusters, and compares nothing

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers(self.committee, "members of a committee")
        refuse(not 0 <= self.corrected < self.committee.size, "corrections go to one of the committee")
        refuse(self.factor < 1, "the factor of a comparison is at least 1")


@dataclass(frozen=True, eq=False, repr=False)
class CompareHalvesQuery(CompareQuery, tag=75):
    """Server to every client, while a start is drawn: who compares the distances of each point to both
    halves of its cluster."""

    halves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self.factor != 1, "halves are compared by a factor of 1")


@dataclass(frozen=True, eq=False, repr=False)
class MaskSeed(Message, tag=17):
    """Client to the dealer: the secret (32 bytes) from which both expand the client's masks and tables."""

    seed: bytes

    def __post_init__(self) -> None:
        refuse(len(self.seed) != 32, f"a seed has 32 bytes, this one has {len(self.seed)}")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedDistances(Message, tag=18):
    """Client to a member of the committee: its weighted coded distances of some points, under its mask.

    values: (lanes, clusters, points) residues, uniform to everybody but the dealer.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "masked distances, (lanes, clusters, points),")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedSum(Message, tag=19):
    """Member to member: the sum of all clients' masked distances of some points, uniform to the committee."""

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "masked distances, (lanes, clusters, points),")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedBits(Message, tag=21):
    """Member to member: its share of what is opened under masks that no member knows.

    words: bits, 64 in a uint64; or uint32 residues (lanes, ...).
    """

    words: Array

    def __post_init__(self) -> None:
        refuse(self.words.dtype.kind != "u", "what is opened is words or residues")


@dataclass(frozen=True, eq=False, repr=False)
class LabelShare(Message, tag=22):
    """Member to server: its share of the labels' binary digits (places, words), uniform but for their sum."""

    words: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.words, "u", 2), "shares of labels are words, (places, words)")


@dataclass(frozen=True, eq=False, repr=False)
class MissingMessages(Message, tag=23):
    """Client to server, and to who waits for it: the step it could not finish, and whom it did not hear.

    missing: numbers of clients.  Nobody: another said so before; or, to the server, its part is done.
    """

    step: int
    missing: Array

    def __post_init__(self) -> None:
        refuse(self.step < 0, "steps count from 0")
        check_numbers(self.missing, "missing clients")


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class RoundedQuery:
    """Of a question for numbers of clusters: committee, corrected: who rounds their centers, as of
    `CompareQuery`; nobody where they are exact."""

    committee: Array = field(default_factory=lambda: np.empty(0, np.int32))
    corrected: int = 0

    factor: ClassVar[int] = 1

    def check_committee(self) -> None:
        """Raises ValueError for what is no committee."""
        check_numbers(self.committee, "members of a committee")
        among = 0 <= self.corrected < max(1, self.committee.size)
        refuse(not among, "corrections go to one of the committee")


@dataclass(frozen=True, eq=False, repr=False)
class CostQuery(RoundedQuery, DistanceQuery, tag=24):
    """Server to every client: the result of one of several restarts, whose cost decides between them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_committee()


@dataclass(frozen=True, eq=False, repr=False)
class CodedCosts(Message, tag=25):
    """Client to server: for each cluster the sum of coded distances of its own points, blinded.

    values: (lanes, k) residues.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "coded costs are (lanes, k) residues")


@dataclass(frozen=True, eq=False, repr=False)
class GainQuery(RoundedQuery, DistanceQuery, tag=76):
    """Server to every client, while a start is drawn: halves of clusters, of which it wants to know how much
    each cluster gains if it is split."""

    halves: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_committee()


@dataclass(frozen=True, eq=False, repr=False)
class LossQuery(RoundedQuery, DistanceQuery, tag=78):
    """Server to every client, while a start is drawn: clusters, more than k, of which it wants to know what
    merging some two costs.  pairs: (pairs, 2) int32, the lower cluster first, ascending."""

    pairs: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_committee()
        refuse(int(self.labels.min(initial=0)) < 0, "every point is in a cluster when clusters are merged")
        pairs = self.pairs
        refuse(not is_array(pairs, "i", 2) or pairs.shape[1] != 2, "pairs of clusters are (p, 2) integers")
        a, b = pairs.astype(np.int64).T
        fit = (a >= 0) & (a < b) & (b < self.k)
        refuse(not fit.all(), f"clusters to merge are two of k={self.k}, the lower first")
        refuse(bool((np.diff(a * self.k + b) <= 0).any()), "pairs of clusters are ascending, each once")

    @property
    def subject(self) -> bytes:
        state = hashlib.blake2b(super().subject, digest_size=32, person=b"secfc-pairs")
        state.update(np.ascontiguousarray(self.pairs, "<i4").data)
        return state.digest()


# Questions for numbers of clusters.
Measure = CostQuery | GainQuery | LossQuery


@dataclass(frozen=True, eq=False, repr=False)
class CodedGains(Message, tag=77):
    """Client to server: for each cluster the coded squared distance of the means of its halves, blinded;
    after `LossQuery` that of the means of each pair.

    values: (lanes, k / 2) or (lanes, pairs) residues, of that distance times the squared product of
    both sizes.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "coded gains are residues, (lanes, pairs)")


@dataclass(frozen=True, eq=False, repr=False)
class RevealCenters(Message, tag=7):
    """Server to consenting clients: send your share of these clusters' centers.  labels: (m,) in [-1, k)."""

    round: int
    k: int
    labels: Array

    def __post_init__(self) -> None:
        refuse(self.round < 0, "rounds count from 0")
        check_labels(self.labels, self.k, "a request for centers")


@dataclass(frozen=True, eq=False, repr=False)
class CodedCenters(Message, tag=8):
    """Consenting client to server: its share of the cluster sums, (lanes, k, width) residues."""

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "coded centers, (lanes, k, width),")


@dataclass(frozen=True, eq=False, repr=False)
class RevealSums(Message, tag=140):
    """Server to consenting clients: send your share of the centers of the last clusters."""

    round: int
    k: int

    def __post_init__(self) -> None:
        refuse(self.round < 0, "rounds count from 0")
        refuse(self.k < 1, "there is at least one cluster")


@dataclass(frozen=True, eq=False, repr=False)
class RunEnded(Message, tag=141):
    """Server to every client, which has its own labels by now: sizes (k,) of the clusters that centers are
    kept of; centers (k, d) only if they were revealed."""

    sizes: Array
    centers: Array | None

    def __post_init__(self) -> None:
        check_sizes(self.sizes)
        if self.centers is not None:
            same = is_array(self.centers, "f", 2) and len(self.centers) == len(self.sizes)
            refuse(not same, "centers are k rows of floats")
            check_centers_or_none(self.centers, "centers of clusters that are not empty")


def check_sizes(sizes: Array) -> None:
    """Raises ValueError for anything but sizes of clusters."""
    refuse(not is_array(sizes, "i", 1) or not len(sizes), "sizes of clusters are a vector of integers")
    refuse(int(sizes.min()) < 0, "no cluster has less than no points")


# --------------------------------------------------------------------------------------------------
# What a step in two questions asks, see `secfc.disclosure.compare.session`.


@dataclass(frozen=True, eq=False, repr=False)
class CompareOwnQuery(CompareQuery, tag=183):
    """Server to every client: who compares the distance of each point to its own center with those to others.

    All learn which points another center wins, and nothing of which.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self.factor != 1, "a point's own center is compared with others by a factor of 1")
        refuse(int(self.labels.min(initial=0)) < 0, "every point has a center of its own")


@dataclass(frozen=True, eq=False, repr=False)
class CompareMovedQuery(CompareQuery, tag=184):
    """Server to every client: the same labels, and who finds the nearest centers of the points that moved.

    moved: (ceil(m / 8),) uint8, a bit a point, the first one lowest: those that another center won, at least
    one.
    """

    moved: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        refuse(self.factor != 1, "points that moved go to the nearest center")
        m, bits = len(self.labels), self.moved
        right = is_array(bits, "u", 1) and bits.dtype == np.uint8 and len(bits) == -(-m // 8)
        refuse(not right, "which points moved is a bit a point")
        refuse(not bits.any(), "at least one point moved")
        refuse(m % 8 != 0 and int(bits[-1]) >> m % 8 != 0, "behind the last point there are zeros")

    @property
    def subject(self) -> bytes:
        state = hashlib.blake2b(super().subject, digest_size=32, person=b"secfc-moved")
        state.update(np.ascontiguousarray(self.moved).data)
        return state.digest()


# --------------------------------------------------------------------------------------------------
# What clients say while a committee rounds centers (`field.compare.rounding`).


@dataclass(frozen=True, eq=False, repr=False)
class MaskedCenters(Message, tag=181):
    """Client to a member, where centers are rounded: its weighted shares of the sums of all clusters with
    points, under its mask; and member to member, what these add up to.

    values: (lanes, clusters, ell * width) residues, uniform to everybody but the dealer.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "masked sums of clusters, (lanes, clusters, ell * width),")


@dataclass(frozen=True, eq=False, repr=False)
class CenterShares(Message, tag=182):
    """Member to responder: its share for the recipient of a part of the rounded centers.

    values: (lanes, clusters, width) residues, uniform to any t recipients.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of rounded centers, (lanes, clusters, width),")
