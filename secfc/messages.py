"""Every message that parties exchange: frozen, checked when built, silent about its contents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psu.messages import Message as Message

Array = NDArray[Any]


def compact_labels(labels: Array) -> Array:
    """Labels in the smallest signed type that holds them, -1 included."""
    top = int(labels.max(initial=0))
    return labels.astype(np.int8 if top < 2**7 else np.int16 if top < 2**15 else np.int32)


def _refuse(wrong: bool, rule: str) -> None:
    if wrong:
        raise ValueError(rule)


def _is(value: Any, kinds: str, axes: int) -> bool:
    """Whether this is an array of these kinds of dtype (of `numpy.dtype.kind`) with so many axes."""
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == axes


def _check_labels(labels: Array, k: int, what: str, lowest: int = -1) -> None:
    rule = f"{what} is a vector of signed integer labels and k of at least 1"
    _refuse(not _is(labels, "i", 1) or k < 1, rule)
    inside = not labels.size or (int(labels.min()) >= lowest and int(labels.max()) < k)
    _refuse(not inside, f"labels must lie in [{lowest}, {k})")


def _check_residues(values: Array, what: str, axes: int = 3) -> None:
    _refuse(not _is(values, "u", axes), f"{what} are {axes} axes of residues, which are unsigned")


def _check_centers(centers: Array, what: str) -> None:
    """In data units, whose squares and sums stay in the range of floats."""
    _refuse(not _is(centers, "f", 2), f"{what} are rows of floats")
    _refuse(not bool((np.abs(centers) <= 2.0**400).all()), f"{what} are finite and below 2**400")


def _check_bounds(bounds: tuple[int, ...]) -> None:
    _refuse(len(bounds) > 2 or min(bounds, default=1) < 1, "at most two bounds, of at least one step each")


@dataclass(frozen=True, eq=False, repr=False)
class Hello(Message):
    """Everyone to everyone, first: the digest of the plan the sender agreed to (32 bytes)."""

    digest: bytes


@dataclass(frozen=True, eq=False, repr=False)
class Introduction(Message):
    """Client to client, before a union: its public signing key (32 bytes)."""

    public: bytes

    def __post_init__(self) -> None:
        _refuse(len(self.public) != 32, f"a signing key has 32 bytes, this one has {len(self.public)}")


@dataclass(frozen=True, eq=False, repr=False)
class PublicKey(Message):
    """Client to client: its ephemeral X25519 key (32 bytes), from which masks of replies follow."""

    key: bytes

    def __post_init__(self) -> None:
        _refuse(len(self.key) != 32, f"a public key has 32 bytes, this one has {len(self.key)}")


@dataclass(frozen=True, eq=False, repr=False)
class Multiplicities(Message):
    """Server to every client, after a union: how many clients hold each row (m,), and disputed rows.

    Shows how many hold a row, not which.  disputed: rows whose holders have different data, ascending.
    """

    held: Array
    disputed: Array

    def __post_init__(self) -> None:
        held, rows = self.held, self.disputed
        _refuse(not _is(held, "u", 1), "how many hold a row is an unsigned number a row")
        _refuse(bool((held < 1).any()), "at least one client holds every row")
        _refuse(not _is(rows, "i", 1), "disputed rows are a vector of integers")
        ascending = bool((np.diff(rows) > 0).all()) and (
            not rows.size or 0 <= rows[0] <= rows[-1] < len(held)
        )
        _refuse(not ascending, f"disputed rows are ascending, distinct and below {len(held)}")


@dataclass(frozen=True, eq=False, repr=False)
class Shares(Message):
    """Client to client: its share for the recipient of some rows.

    start: the first row, in the numbering of all m rows.  values: (lanes, rows, width) residues, uniform
    to the recipient.
    """

    start: int
    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "shares, (lanes, rows, width),")
        _refuse(self.start < 0, "rows are numbered from 0")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedShares(Shares):
    """The first of a client's `Shares` if lying clients are planned for: with the recipient's mask words.

    mask: (lanes, words) residues, uniform to the recipient; they hide what it publishes of all shares.
    """

    mask: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_residues(self.mask, "mask words, (lanes, words),", 2)


@dataclass(frozen=True, eq=False, repr=False)
class Challenge(Message):
    """Server to every client, once all shares of a dealing have arrived: combine them with these coins.

    seed: 32 bytes, public from now on; none if the dealing is given up.
    """

    seed: bytes

    def __post_init__(self) -> None:
        if len(self.seed) not in (0, 32):
            raise ValueError(f"a challenge has 32 bytes or none, this one has {len(self.seed)}")


@dataclass(frozen=True, eq=False, repr=False)
class Combined(Message):
    """Client to server: random words of the shares it was dealt, (lanes, dealers, words) residues.

    Masked by the dealer, so they show whether all shares lie on one polynomial and nothing else.
    """

    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "combined shares, (lanes, dealers, words),")


@dataclass(frozen=True, eq=False, repr=False)
class Blinding(Message):
    """Client to client: its share of polynomials that blind replies, then of their mask words.

    values: (lanes, k * m + words) residues, uniform to the recipient.
    """

    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "shares of a blinding, (lanes, values),", 2)


@dataclass(frozen=True, eq=False, repr=False)
class Contributors(Message):
    """After sharing, client to server: whose shares I have completely, one bool a dealer; later, whose noise.

    Then, for rows, server to every client: whose rows count.
    """

    complete: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.complete, "b", 1), "contributors are one truth value a client")


@dataclass(frozen=True, eq=False, repr=False)
class Assignment(Message):
    """Server to every client: the clustering to measure distances to.

    labels: (m,) in [-1, k), -1 for a point that is in no cluster (only while a start is drawn).
    responders: numbers of the clients whose replies are wanted, int32; empty for all.  Ascending under
    zero-sum masks; under a dealt blinding those who deal it come first.
    """

    round: int
    k: int
    labels: Array
    responders: Array

    def __post_init__(self) -> None:
        _refuse(self.round < 0, "rounds count from 0")
        _check_labels(self.labels, self.k, "an assignment")
        _refuse(not _is(self.responders, "i", 1), "responders are a vector of integers")
        distinct = len(set(self.responders.tolist())) == len(self.responders)
        _refuse(not distinct or bool((self.responders < 0).any()), "responders are distinct, numbered from 0")


@dataclass(frozen=True, eq=False, repr=False)
class CodedDistances(Message):
    """Client to server: its coded distance of every point to every center, (lanes, k, m) residues."""

    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "coded distances, (lanes, k, m),")


@dataclass(frozen=True, eq=False, repr=False)
class CheckedDistances(CodedDistances):
    """The same under a dealt blinding, with words of it as in `Combined`: (lanes, dealers, words)."""

    words: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_residues(self.words, "words of a blinding, (lanes, dealers, words),")


@dataclass(frozen=True, eq=False, repr=False)
class NoiseShares(Message):
    """Client to client: its share for the recipient of the noise it adds, uniform to the recipient.

    values: residues, (lanes, k, m) for distances, (lanes, k, width) for the sums of clusters.
    """

    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "shares of noise, (lanes, k, m) or (lanes, k, width),")


@dataclass(frozen=True, eq=False, repr=False)
class Compare(Assignment):
    """Server to every client: the same, and who compares the distances instead of returning them.

    committee: numbers of the clients that compare, int32, the first adds the public constants.  corrected:
    the place in the committee of the one that the dealer sends corrections to.  factor: 1 to find the nearest
    center, else the center that is at least that many times as near as every other, in squared distance.
    """

    committee: Array
    corrected: int
    factor: int

    def __post_init__(self) -> None:
        super().__post_init__()
        members = self.committee
        _refuse(not _is(members, "i", 1), "a committee is a vector of integers")
        different = len(set(members.tolist())) == members.size and bool((members >= 0).all())
        _refuse(not different, "a committee's numbers are distinct and count from 0")
        _refuse(not 0 <= self.corrected < members.size, "corrections go to one of the committee")
        _refuse(self.factor < 1, "the factor of a comparison is at least 1")


@dataclass(frozen=True, eq=False, repr=False)
class MaskSeed(Message):
    """Client to the dealer: the secret (32 bytes) from which both expand the client's masks and tables."""

    seed: bytes

    def __post_init__(self) -> None:
        _refuse(len(self.seed) != 32, f"a seed has 32 bytes, this one has {len(self.seed)}")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedDistances(Message):
    """Client to a member of the committee: its weighted coded distances of some points, under its mask.

    values: (lanes, clusters, points) residues, uniform to everybody but the dealer.
    """

    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "masked distances, (lanes, clusters, points),")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedSum(Message):
    """Member to member: the sum of all clients' masked distances of some points, uniform to the committee."""

    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "masked distances, (lanes, clusters, points),")


@dataclass(frozen=True, eq=False, repr=False)
class Corrections(Message):
    """Dealer to one member: words that complete its tables of one comparison, uniform to any one member."""

    words: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.words, "u", 1), "corrections are a vector of words")


@dataclass(frozen=True, eq=False, repr=False)
class MaskedBits(Message):
    """Member to member: its share of what is opened under masks that no member knows.

    words: bits, 64 in a uint64; or uint32 residues (lanes, ...).
    """

    words: Array

    def __post_init__(self) -> None:
        _refuse(self.words.dtype.kind != "u", "what is opened is words or residues")


@dataclass(frozen=True, eq=False, repr=False)
class LabelShare(Message):
    """Member to server: its share of the labels' binary digits (places, words), uniform but for their sum."""

    words: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.words, "u", 2), "shares of labels are words, (places, words)")


@dataclass(frozen=True, eq=False, repr=False)
class Unheard(Message):
    """Member to server: the step it could not finish, and numbers of clients it did not hear."""

    step: int
    missing: Array

    def __post_init__(self) -> None:
        _refuse(self.step < 0, "steps count from 0")
        _refuse(not _is(self.missing, "i", 1), "missing clients are a vector of integers")


@dataclass(frozen=True, eq=False, repr=False)
class MeasureCost(Assignment):
    """Server to every client: the result of one of several restarts, whose cost decides between them."""


@dataclass(frozen=True, eq=False, repr=False)
class CodedCosts(Message):
    """Client to server: for each cluster the sum of coded distances of its own points, blinded.

    values: (lanes, k) residues.
    """

    values: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.values, "u", 2), "coded costs are (lanes, k) residues")


@dataclass(frozen=True, eq=False, repr=False)
class RevealCenters(Message):
    """Server to consenting clients: send your share of these clusters' centers.  labels: (m,) in [-1, k)."""

    round: int
    k: int
    labels: Array

    def __post_init__(self) -> None:
        _refuse(self.round < 0, "rounds count from 0")
        _check_labels(self.labels, self.k, "a request for centers")


@dataclass(frozen=True, eq=False, repr=False)
class CodedCenters(Message):
    """Consenting client to server: its share of the cluster sums, (lanes, k, width) residues."""

    values: Array

    def __post_init__(self) -> None:
        _check_residues(self.values, "coded centers, (lanes, k, width),")


@dataclass(frozen=True, eq=False, repr=False)
class Final(Message):
    """Server to every client: the result.  labels (m,) in [0, k); centers (k, d) only if they were revealed.

    The center of an empty cluster is a row of NaN.
    """

    k: int
    labels: Array
    centers: Array | None

    def __post_init__(self) -> None:
        _check_labels(self.labels, self.k, "a result", lowest=0)
        if self.centers is not None:
            _refuse(
                not _is(self.centers, "f", 2) or len(self.centers) != self.k, "centers are k rows of floats"
            )
            empty = np.isnan(self.centers).all(axis=1)
            _check_centers(self.centers[~empty], "centers of clusters that are not empty")


@dataclass(frozen=True, eq=False, repr=False)
class RawPoints(Message):
    """Client to server in the centralized baseline: the points themselves, quantized (m_j, d)."""

    points: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.points, "i", 2), "quantized points are rows of signed integers")


@dataclass(frozen=True, eq=False, repr=False)
class LocalCenters(Message):
    """Client to server in k-FED: local centers (k', d) in data units, in the clear."""

    centers: Array

    def __post_init__(self) -> None:
        _check_centers(self.centers, "local centers")


@dataclass(frozen=True, eq=False, repr=False)
class CenterLabels(Message):
    """Server to client in k-FED: the cluster of each of its centers (k',), and all centers (k, d)."""

    labels: Array
    centers: Array

    def __post_init__(self) -> None:
        _check_centers(self.centers, "merged centers")
        _check_labels(self.labels, len(self.centers), "the clusters of local centers", lowest=0)


@dataclass(frozen=True, eq=False, repr=False)
class OwnLabels(Message):
    """Client to server in k-FED: the cluster of each of its points (m_j,), for the common result."""

    labels: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.labels, "i", 1), "labels are a vector of signed integers")
        _refuse(bool((self.labels < 0).any()), "labels of points are not negative")


@dataclass(frozen=True, eq=False, repr=False)
class SumShares(Message):
    """Client to a member of the committee: its share of a vector to be summed, (lanes, width) residues.

    Uniform to the recipient, and to any t members together.
    """

    values: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.values, "u", 2), "shares of a vector are two axes of residues")


@dataclass(frozen=True, eq=False, repr=False)
class CodedSum(Message):
    """Member of the committee to server: its share of the sum of vectors, (lanes, width) residues."""

    values: Array

    def __post_init__(self) -> None:
        _refuse(not _is(self.values, "u", 2), "shares of a sum are two axes of residues")


@dataclass(frozen=True, eq=False, repr=False)
class Project(Message):
    """Server to every client in FedDP-Init, step 2: say which projected proxies your points are nearest to.

    projection (d, p); proxies (s, p), public points projected.  bounds: where a client's counts are
    clipped, if clients are the unit of privacy.
    """

    projection: Array
    proxies: Array
    bounds: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_centers(self.projection, "directions")
        _check_centers(self.proxies, "proxies")
        wrong = self.projection.shape[1] != self.proxies.shape[1]
        _refuse(wrong, "proxies have as many features as there are directions")
        _check_bounds(self.bounds)


@dataclass(frozen=True, eq=False, repr=False)
class GroupAbout(Message):
    """Server to every client in FedDP-KMeans: sum your points by the nearest of these centers.

    centers: (k, p) projected, or (k, d).  origins: (k, d), what is subtracted before points are clipped to
    `reach` integer steps.  bounds: where a client's vectors are clipped, if clients are the unit of privacy.
    """

    centers: Array
    origins: Array
    reach: int
    bounds: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_centers(self.centers, "centers")
        _check_centers(self.origins, "origins")
        _refuse(len(self.centers) != len(self.origins), "every center has an origin")
        _refuse(self.reach < 1, "points are clipped to at least one integer step")
        _check_bounds(self.bounds)


@dataclass(frozen=True, eq=False, repr=False)
class NoisyCenters(Message):
    """Server to every client: the differentially private centers (k, d), about the plan's origin."""

    centers: Array

    def __post_init__(self) -> None:
        _check_centers(self.centers, "centers")
