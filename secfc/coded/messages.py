"""What the parties of a coded run say: frozen, checked when built, silent about its contents."""

from __future__ import annotations

from dataclasses import field

from field.arrays import Array
from secfc.roles.messages import (
    Message,
    check_centers_or_none,
    check_labels,
    check_numbers,
    check_sizes,
    check_unsigned,
    is_array,
    refuse_if,
)

# --------------------------------------------------------------------------------------------------
# What a dealer sends for a comparison of secrets, and how the next portion of it is asked for.


class Corrections(Message, tag=20):
    """Dealer to one member: words that complete its tables of one comparison, uniform to any one member.

    Of many rows in portions (`field.compare.correlated_randomness`).  Where centers are rounded, before the
    first of them those by which it divides.
    """

    words: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 1), "corrections are a vector of words")


class RequestCorrections(Message, tag=28):
    """Member to the dealer: send me the corrections of the next rows, of this portion, counted from 0.

    Where a comparison is dealt at once, nobody says so.
    """

    portion: int

    def __post_init__(self) -> None:
        refuse_if(self.portion < 1, "the first portion is sent unasked")


# --------------------------------------------------------------------------------------------------


class PublicKey(Message, tag=15):
    """Client to client: its ephemeral X25519 key (32 bytes), from which masks of replies follow."""

    key: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.key) != 32, f"a public key has 32 bytes, this one has {len(self.key)}")


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
        refuse_if(self.start < 0, "rows are numbered from 0")


class DealingChallenge(Message, tag=41):
    """Server to every client, once all shares of a dealing have arrived: combine them with these coins.

    seed: 32 bytes, public from now on; none if the dealing is given up.
    """

    seed: bytes

    def __post_init__(self) -> None:
        if len(self.seed) not in (0, 32):
            raise ValueError(f"a challenge has 32 bytes or none, this one has {len(self.seed)}")


class BlindingShares(Message, tag=43):
    """Client to client: its share of polynomials that blind replies, then of their mask words.

    values: (lanes, k * m + words) residues, uniform to the recipient.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of a blinding, (lanes, values),", 2)


class CodedDistances(Message, tag=6):
    """Client to server: its coded distance of every point to every center, (lanes, k, m) residues; after
    `Operation.HALF_DISTANCE` to both halves of its cluster, (lanes, 2, m).

    further: (lanes, more) residues that these are checked by, perhaps of more lanes; None where they are not
    checked.
    """

    values: Array
    further: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_unsigned(self.values, "coded distances, (lanes, k, m),")
        if self.further is not None:
            check_unsigned(self.further, "what coded distances are checked by, (lanes, values),", 2)


class CheckedDistances(Message, tag=44):
    """Client to server: its coded distances under a dealt blinding, with random words of it.

    values: as in `CodedDistances`.  words: (lanes, dealers, words), masked.
    """

    values: Array
    words: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "coded distances, (lanes, k, m),")
        check_unsigned(self.words, "words of a blinding, (lanes, dealers, words),")


class NoiseShares(Message, tag=32):
    """Client to client: its share for the recipient of the noise it adds, uniform to the recipient.

    values: residues, (lanes, k, m) for distances, (lanes, k, width) for the sums of clusters.  asked: 32
    bytes that agree where the same was asked: labels, who deals, how many questions were paid for.
    """

    values: Array
    asked: bytes

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of noise, (lanes, k, m) or (lanes, k, width),")
        refuse_if(len(self.asked) != 32, f"a digest has 32 bytes, this one has {len(self.asked)}")


class MaskSeed(Message, tag=17):
    """Client to the dealer: the secret (32 bytes) from which both expand the client's masks and tables."""

    seed: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.seed) != 32, f"a seed has 32 bytes, this one has {len(self.seed)}")


class MaskedDistances(Message, tag=18):
    """Client to a member of the committee: its weighted coded distances of some points, under its mask.

    values: (lanes, clusters, points) residues, uniform to everybody but the dealer.  further: (lanes, more),
    likewise, what replies are checked by; None but to one member, where they are checked.
    """

    values: Array
    further: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_masked(self.values, self.further)


class MaskedSum(Message, tag=19):
    """Member to member: the sum of all clients' masked distances of some points, uniform to the committee.

    further: of those that replies are checked by, or None, as in `MaskedDistances`.
    """

    values: Array
    further: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_masked(self.values, self.further)


def check_masked(values: Array, further: Array | None) -> None:
    """Raises ValueError for what are no masked distances."""
    check_unsigned(values, "masked distances, (lanes, clusters, points),")
    if further is not None:
        check_unsigned(further, "what masked distances are checked by, (lanes, values),", 2)


class MaskedBits(Message, tag=21):
    """Member to member: its share of what is opened under masks that no member knows.

    words: bits, 64 in a uint64; or uint32 residues (lanes, ...).  coin, heard: where parts are played by
    several, a coin for what was opened last, and a digest of what was opened before that.
    """

    words: Array
    coin: bytes = b""
    heard: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(self.words.dtype.kind != "u", "what is opened is words or residues")


class LabelShare(Message, tag=22):
    """Member to server: its share of the labels' binary digits (places, words), uniform but for their sum.

    Where parts are played by several, the shares (places, words) of all parts that it is the first of, one
    after the other.  digests: 32 bytes of the share of each other part that it plays.
    """

    words: Array
    digests: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 2), "shares of labels are words, (places, words)")


class MissingMessages(Message, tag=23):
    """Client to server, and to who waits for it: the step it could not finish, and whom it did not hear.

    missing: numbers of clients.  Nobody: another said so before; or, to the server, its part is done.
    """

    step: int
    missing: Array

    def __post_init__(self) -> None:
        refuse_if(self.step < 0, "steps count from 0")
        check_numbers(self.missing, "missing clients")


class CodedCosts(Message, tag=25):
    """Client to server: for each cluster the sum of coded distances of its own points, blinded.

    values: (lanes, k) residues.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "coded costs are (lanes, k) residues")


class CodedGains(Message, tag=77):
    """Client to server: for each cluster the coded squared distance of the means of its halves, blinded;
    after `Operation.LOSS` that of the means of each pair.  Of labels that stay shared its share of that, not
    blinded, of several segments under masks that add up to 0.

    values: (lanes, k / 2) or (lanes, pairs) residues, of that distance times the squared product of
    both sizes.  further: (lanes, more) residues that these are checked by; None where they are not checked.
    """

    values: Array
    further: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "coded gains are residues, (lanes, pairs)")
        if self.further is not None:
            check_unsigned(self.further, "what coded gains are checked by, (lanes, values),", 2)


class RevealCenters(Message, tag=7):
    """Server to consenting clients: send your share of these clusters' centers.  labels: (m,) in [-1, k)."""

    round: int
    k: int
    labels: Array

    def __post_init__(self) -> None:
        refuse_if(self.round < 0, "rounds count from 0")
        check_labels(self.labels, self.k, "a request for centers")


class CodedCenters(Message, tag=8):
    """Consenting client to server: its share of the cluster sums, (lanes, k, width) residues."""

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "coded centers, (lanes, k, width),")


class RevealSums(Message, tag=140):
    """Server to consenting clients: send your share of the centers of the last clusters."""

    round: int
    k: int

    def __post_init__(self) -> None:
        refuse_if(self.round < 0, "rounds count from 0")
        refuse_if(self.k < 1, "there is at least one cluster")


class RunEnded(Message, tag=141):
    """Server to every client, which has its own labels by now: sizes (k,) of the clusters that centers are
    kept of; centers (k, d) only if they were revealed."""

    sizes: Array
    centers: Array | None

    def __post_init__(self) -> None:
        check_sizes(self.sizes)
        if self.centers is not None:
            same = is_array(self.centers, "f", 2) and len(self.centers) == len(self.sizes)
            refuse_if(not same, "centers are k rows of floats")
            check_centers_or_none(self.centers, "centers of clusters that are not empty")


# --------------------------------------------------------------------------------------------------
# What a step in two questions asks, see `secfc.disclosure.compare.session`.


# --------------------------------------------------------------------------------------------------
# What clients say while a committee rounds centers (`field.compare.rounding`).


class MaskedCenters(Message, tag=181):
    """Client to a member, where centers are rounded: its weighted shares of the sums of all clusters with
    points, under its mask; and member to member, what these add up to.

    values: (lanes, clusters, ell * width) residues, uniform to everybody but the dealer.  further: (lanes,
    more), likewise, what these are checked by; None where they are not checked.
    """

    values: Array
    further: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_unsigned(self.values, "masked sums of clusters, (lanes, clusters, ell * width),")
        if self.further is not None:
            check_unsigned(self.further, "what masked sums are checked by, (lanes, values),", 2)


# What is said where labels stay shared, see `secfc.disclosure.owner_labels.client`.


class SizeShare(Message, tag=145):
    """Member to all: its share of the sizes after a step, uniform but for their sum; and whether no label
    changed.

    values: (1, clusters) residues modulo the first prime, of all clusters with points before but the last.
    Where somebody deals, three more that all are 0 if no label changed, else uniform, and same is False.
    Where parts are played by several, of each part that it is the first of, one after the other.  digests: 32
    bytes of the share of each other part that it plays.
    """

    values: Array
    same: bool
    digests: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "shares of sizes are residues, (1, clusters)")


class OwnShare(Message, tag=146):
    """Member to an owner: its share of the labels of the owner's own points, uniform but for their sum.

    words: binary digits, (places, words), and digests: as those of `LabelShare`.
    """

    words: Array
    digests: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 2), "shares of labels are words, (places, words)")


class SelectedRowShare(Message, tag=147):
    """Responder to an owner whose rows are hidden: its part of all labels where the owner holds the row, and
    0 elsewhere, uniform but for their sum.

    values: (1, m) residues modulo the first prime.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "parts of picked labels are residues, (1, m)")
