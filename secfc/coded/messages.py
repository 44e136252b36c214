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

    Under AssignmentsOnly(): dealer, one member, or all who play its part.  Seen: what its shares of the
    tables lack: uniform while another member's stream is unknown.  By deviating: **tables of the dealer's
    choice make a label depend on a distance that it chooses: it learns what `Distances()` shows**,
    unnoticed.

    Under OwnLabels(): dealer, one member.  Seen: as under `AssignmentsOnly()`, and of bits as residues
    and products of random residues.  By deviating: tables of the dealer's choice make a label depend on a
    distance that it chooses: what it sees of it are sizes.

    Under FinalLabelsOnly(dealer="server"): dealer, one member.  Seen: as under `OwnLabels()`.  By
    deviating: tables of the dealer's choice make a label depend on a distance that it chooses: it sees
    what the last labels say of it.

    Under NoisySums(): dealer, one member.  Seen: as under `OwnLabels()`.  By deviating: tables of the
    dealer's choice put rows into other shells, unnoticed: **a far row in a near one moves the sums by up
    to its length**, beyond what noise covers.

    Under DBSCAN(): dealer, one member, or all who play its part.  Seen: as under `AssignmentsOnly()`.  By
    deviating: **tables of the dealer's choice tell it more of a distance than whether it is near**,
    unnoticed.
    """

    words: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 1), "corrections are a vector of words")


class RequestCorrections(Message, tag=28):
    """Member to the dealer: send me the corrections of the next rows, of this portion, counted from 0.

    Where a comparison is dealt at once, nobody says so.

    Under "in portions": member, dealer.  Seen: that the comparison has come so far: nothing of data.  By
    deviating: ask early: portions wait in its memory. Never ask: the others wait until it is called
    silent, and the query is repeated.
    """

    portion: int

    def __post_init__(self) -> None:
        refuse_if(self.portion < 1, "the first portion is sent unasked")


# --------------------------------------------------------------------------------------------------


class PublicKey(Message, tag=15):
    """Client to client: its ephemeral X25519 key (32 bytes), from which masks of replies follow.

    Under Distances(): client, client.  Seen: a fresh X25519 key.  By deviating: a false key spoils its
    own masks: as a false reply. Whoever carries unsealed keys can replace them and unmask replies: pin
    identities.

    Under Distances(dealt=True): as under `Distances()`.

    Under AssignmentsOnly(): client, client.  Seen: a fresh X25519 key.  By deviating: a false key spoils
    its own masks: noticed as a false reply; another's, copied, as keys are of two names.

    Under AssignmentsOnly(dealer=None): as under `AssignmentsOnly()`; `t + 1` of the committee are members
    here.  Seen: as under `AssignmentsOnly()`.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(); DBSCAN(): as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): as under `AssignmentsOnly(dealer=None)`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.
    """

    key: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.key) != 32, f"a public key has 32 bytes, this one has {len(self.key)}")


class RowShares(Message, tag=39):
    """Client to client: its share for the recipient of some rows.

    start: the first row, in the numbering of all m rows.  values: (lanes, rows, width) residues, and masks:
    (lanes, masks, words), which hide what the recipient tells of them later; both uniform to the recipient.

    Under "every policy": client, client.  Seen: rows and masks, uniform at any `t` clients.  By
    deviating: share other rows than it has: it is a client with other data. Values far beyond the bound,
    or no polynomial: [refused before the first label](#rows-are-tested-before-they-are-used).
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

    Under Distances(dealt=True): server, client.  Seen: public coins, drawn after all dealt.  By
    deviating: the server: coins of its choice let a false dealing pass that it knows of, so with
    `corrected` it is trusted.
    """

    seed: bytes

    def __post_init__(self) -> None:
        if len(self.seed) not in (0, 32):
            raise ValueError(f"a challenge has 32 bytes or none, this one has {len(self.seed)}")


class BlindingShares(Message, tag=43):
    """Client to client: its share of polynomials that blind replies, then of their mask words.

    values: (lanes, k * m + words) residues, uniform to the recipient.

    Under Distances(dealt=True): client, client.  Seen: shares of polynomials whose values at the data
    points sum to zero.  By deviating: a dealing off the polynomials makes distances wrong; with
    `corrected` random words find it before replies are believed, and trace it to the dealer or a pair.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of a blinding, (lanes, values),", 2)


class CodedDistances(Message, tag=6):
    """Client to server: its coded distance of every point to every center, (lanes, k, m) residues; after
    `Operation.HALF_DISTANCE` to both halves of its cluster, (lanes, 2, m).

    further: (lanes, more) residues that these are checked by, perhaps of more lanes; None where they are not
    checked.

    Under Distances(): client, server.  Seen: uniform subject to their weighted sum, the distance, also
    with `colluding` clients.  By deviating: a false one is noticed before the server uses it. Rows out of
    range that passed their test (at most `14 (20 ell - 1) sqrt(N)` times the bound) end the run once a
    distance exceeds that of honest rows.

    Under NoiseInShares(): client, server.  Seen: the noisy distance, and nothing else: each dealer's
    noise comes with a fresh polynomial.  By deviating: a false one: wrong labels, unnoticed.
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

    Under Distances(dealt=True): client, server.  Seen: uniform subject to their weighted sum, the
    distance; random sums of the dealing under mask words of its own.  By deviating: wrong labels,
    unnoticed; with `corrected` located and named, if the reply is read.
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

    Under NoisySums(): client, responder.  Seen: any `t` shares of fresh polynomials of the degree of
    products: uniform.  By deviating: less noise: the noise of `t` clients counts for nothing. More:
    centers are off, unnoticed. For another query: `SuspectedParties`.

    Under NoisySums(dealer=None): as under `NoisySums()`.

    Under NoiseInShares(): client, client.  Seen: uniform at any `t` clients, and a digest of the query:
    public.  By deviating: another digest: sender and server are suspected (`SuspectedParties`). No noise:
    the claim counts the noise of `n - t - absent` clients. Too much makes labels useless, unnoticed.
    """

    values: Array
    asked: bytes

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of noise, (lanes, k, m) or (lanes, k, width),")
        refuse_if(len(self.asked) != 32, f"a digest has 32 bytes, this one has {len(self.asked)}")


class MaskSeed(Message, tag=17):
    """Client to the dealer: the secret (32 bytes) from which both expand the client's masks and tables.

    Under AssignmentsOnly(): client, dealer.  Seen: 32 random bytes, from which masks and correlated
    randomness follow.  By deviating: a false seed spoils its own masks: noticed as a false reply.

    Under OwnLabels(); DBSCAN(): as under `AssignmentsOnly()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.
    """

    seed: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.seed) != 32, f"a seed has 32 bytes, this one has {len(self.seed)}")


class MaskedDistances(Message, tag=18):
    """Client to a member of the committee: its weighted coded distances of some points, under its mask.

    values: (lanes, clusters, points) residues, uniform to everybody but the dealer.  further: (lanes, more),
    likewise, what replies are checked by; None but to one member, where they are checked.

    Under AssignmentsOnly(): responder, member.  Seen: residues under a mask of responder and dealer:
    uniform without the dealer.  By deviating: a false one: noticed before anything is opened.

    Under AssignmentsOnly(dealer=None): responder, member.  Seen: blinded replies: uniform, as a member
    outside the coalition keeps its own.  By deviating: a responder that is no member: noticed before
    anything is opened. **A member adds to its own part what it likes: labels become threshold tests of
    its choice, and it reads all rows**, unnoticed, unless two play each part.

    Under OwnLabels(): as under `AssignmentsOnly()`.  Seen: as under `AssignmentsOnly()`.  By deviating: a
    false one, or different ones to members: noticed before a size leaves.

    Under OwnLabels(dealer=None): responder, member.  Seen: blinded replies: uniform, as a member outside
    the coalition keeps its own.  By deviating: noticed before a size is sent, if the sender is none of
    the `t + 1` members that have parts of replies, or two play each part; **else chosen rows of others**,
    unnoticed.

    Under FinalLabelsOnly(dealer="server"): responder, member.  Seen: as under `OwnLabels()`, of a number
    for each two clusters.  By deviating: as under `OwnLabels()`: before a bit leaves.

    Under FinalLabelsOnly(): responder, member.  Seen: as under `OwnLabels(dealer=None)`.  By deviating:
    noticed before a bit leaves, if the sender is none of the `t + 1` members that have parts of replies,
    or two play each part; **else which points are nearer to what it chooses**, from the last labels
    and the number of steps, unnoticed.

    Under NoisySums(): responder, member.  Seen: as under `OwnLabels()`, of distances to public centers.
    By deviating: noticed before labels are dealt, also a number added alike to a row's distances from all
    centers, as squares of rows are shared.

    Under NoisySums(dealer=None): responder, member.  Seen: as under `OwnLabels(dealer=None)`, of distances
    to public centers.  By deviating: as under `NoisySums()`, if the sender is none of the `t + 1`
    members that have parts of replies, or two play each part; else any row in any shell.

    Under DBSCAN(): responder, member.  Seen: of each pair a residue under a mask of responder and dealer:
    uniform without the dealer.  By deviating: a false one is noticed before a bit leaves the committee,
    but for `2**-57`, and ends the run (`SuspectedParties`); not named.
    """

    values: Array
    further: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        check_masked(self.values, self.further)


class MaskedSum(Message, tag=19):
    """Member to member: the sum of all clients' masked distances of some points, uniform to the committee.

    further: of those that replies are checked by, or None, as in `MaskedDistances`.

    Under AssignmentsOnly(): member, member.  Seen: the distances plus the sum of all masks: uniform
    without the dealer.  By deviating: a false one, or different ones to members: noticed before anything
    is opened.

    Under OwnLabels(): as under `AssignmentsOnly()`.  Seen: as under `AssignmentsOnly()`.  By deviating: a
    false one, or different ones to members: noticed before a size leaves.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under DBSCAN(): as under `AssignmentsOnly()`.
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

    Under AssignmentsOnly(): member, member.  Seen: shares of bits or residues, under masks that all
    members' streams sum to; in larger committees parts of these, and sums.  By deviating: wrong labels,
    unnoticed, and **a flipped inner bit tells how near a point is to a border**; whoever speaks last, or
    adds up, can choose which way a comparison goes. With `Threshold(deviating=1)` noticed before a label.

    Under AssignmentsOnly(dealer=None): client, client of the committee.  Seen: uniform: see
    `field.compare.replicated`.  By deviating: wrong labels, unnoticed, and **a flipped inner bit tells
    how near a point is to a border**, unless two play each part.

    Under OwnLabels(): member, member.  Seen: as under `AssignmentsOnly()`; bits that say who wins under
    masks, residues under fresh ones; without a dealer last `F z`, 0 if no label changed, else uniform.
    By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): member, member.  Seen: uniform: see `field.compare.replicated`; seeds
    and shares of the test whether a label changed, each after a digest that commits to it.  By deviating:
    where one plays each part, wrong labels, unnoticed, and **a flipped inner bit tells how near a point
    is to a border**. Nobody can choose the seed or an early end by speaking last (`FaultyClient`).

    Under FinalLabelsOnly(dealer="server"): as under `OwnLabels()`.

    Under FinalLabelsOnly(): member, member.  Seen: as under `OwnLabels(dealer=None)`.  By deviating:
    where one plays each part, wrong labels, unnoticed, and **a flipped inner bit tells how near a point
    is to a border**, in the last labels.

    Under NoisySums(): member, member.  Seen: bits that say which shell wins under masks, and residues
    under fresh ones.  By deviating: put rows into other shells, unnoticed: **a far row in a near one
    moves the sums by up to its length**, as by false tables.

    Under NoisySums(dealer=None): member, member.  Seen: as under `OwnLabels(dealer=None)`, of which shell
    wins.  By deviating: where one plays each part, put rows into other shells, unnoticed: **a far row in a
    near one moves the sums by up to its length**, beyond what noise covers.

    Under DBSCAN(): member, member.  Seen: as under `AssignmentsOnly()`.  By deviating: wrong bits: with
    `Threshold(deviating=1)` noticed before a bit leaves, else **a flipped inner bit changes who is near,
    by how far**.
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

    Under AssignmentsOnly(): member, all.  Seen: re-randomized among the members: uniform subject to their
    sum, the labels.  By deviating: wrong labels, unnoticed; digits of no cluster: committee, dealer and
    server are suspected (`SuspectedParties`). With `Threshold(deviating=1)` noticed.

    Under AssignmentsOnly(dealer=None): member, all.  Seen: what the labels leave: the coalition lacks one
    component of each bit.  By deviating: wrong labels, unnoticed; with `Threshold(deviating=1)` noticed.

    Under FinalLabelsOnly(dealer="server"): member, all.  Seen: re-randomized among the members: uniform
    subject to their sum, the last labels.  By deviating: wrong labels, unnoticed; digits of no cluster:
    committee, dealer and server are suspected (`SuspectedParties`).

    Under FinalLabelsOnly(): as under `FinalLabelsOnly(dealer="server")`.

    Under DBSCAN(): member, server.  Seen: re-randomized among the members: uniform subject to their sum,
    a bit a pair. No client gets one.  By deviating: another graph, and so other labels, unnoticed where
    each part is played by one.
    """

    words: Array
    digests: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 2), "shares of labels are words, (places, words)")


class MissingMessages(Message, tag=23):
    """Client to server, and to who waits for it: the step it could not finish, and whom it did not hear.

    missing: numbers of clients.  Nobody: another said so before; or, to the server, its part is done.

    Under AssignmentsOnly(): responder, server.  Seen: that its part is done: public.  By deviating: claim
    that another was silent: that one is left out and the query repeated, under fresh masks.

    Under OwnLabels(); DBSCAN(): as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under "with lost clients, several starts, or consent": client, server or member.  Seen: whom its
    sender did not hear.  By deviating: claim that another was silent: that one is left out and the query
    repeated, under fresh masks, or the run ends.
    """

    step: int
    missing: Array

    def __post_init__(self) -> None:
        refuse_if(self.step < 0, "steps count from 0")
        check_numbers(self.missing, "missing clients")


class CodedCosts(Message, tag=25):
    """Client to server: for each cluster the sum of coded distances of its own points, blinded.

    values: (lanes, k) residues.

    Under "with lost clients, several starts, or consent": client, server.  Seen: blinded: the cost of
    each cluster.  By deviating: a false cost chooses another planned start, or another `k`, unnoticed, and
    which one tells its sender log2(`n_init`) bits a run (log2(`most - least`) of an `Elbow`). Under
    `OwnLabels()` squares of rows are checked before, the costs themselves are not.
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

    Under OwnLabels(): client, server.  Seen: a share of how far the means of both sides of a split are
    apart, and so what it gains. Segments are under masks that add up to 0, so the server has their sum
    alone.  By deviating: false products, masks and shares: noticed before a gain is used.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under "with lost clients, several starts, or consent": client, server.  Seen: blinded: how far the
    means of the halves of each cluster, or of each pair, are apart, and so what splitting gains or
    merging costs.  By deviating: under `AssignmentsOnly()` a false one: noticed before it is used; under
    `OwnLabels()` as in its table.
    """

    values: Array
    further: Array | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "coded gains are residues, (lanes, pairs)")
        if self.further is not None:
            check_unsigned(self.further, "what coded gains are checked by, (lanes, values),", 2)


class RevealCenters(Message, tag=7):
    """Server to consenting clients: send your share of these clusters' centers.  labels: (m,) in [-1, k).

    Under "with lost clients, several starts, or consent": server, client.  Seen: the labels whose centers
    are opened.  By deviating: the server: other labels than the run ended with: refused where clients
    know them; clusters below `smallest_center` points stay closed.
    """

    round: int
    k: int
    labels: Array

    def __post_init__(self) -> None:
        refuse_if(self.round < 0, "rounds count from 0")
        check_labels(self.labels, self.k, "a request for centers")


class CodedCenters(Message, tag=8):
    """Consenting client to server: its share of the cluster sums, (lanes, k, width) residues.

    Under NoisySums(): responder, server.  Seen: with all others' the sums and weights of clusters under
    the noise of all who deal it, and nothing else.  By deviating: a false one: other centers, unnoticed,
    for which the noise pays as well.

    Under NoisySums(dealer=None): as under `NoisySums()`.

    Under "with lost clients, several starts, or consent": client, server.  Seen: a share of the centers:
    `ell + t` give them.  By deviating: a false one: noticed before centers are opened; `w` shares notice
    `w - ell - t` false ones. With `corrected` located and named.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "coded centers, (lanes, k, width),")


class RevealSums(Message, tag=140):
    """Server to consenting clients: send your share of the centers of the last clusters.

    Under "with lost clients, several starts, or consent": server, consenting client.  Seen: under
    `OwnLabels()`: the number of clusters.  By deviating: the server: it cannot open another clustering's
    centers: clients send shares of those that the run ended with, once.
    """

    round: int
    k: int

    def __post_init__(self) -> None:
        refuse_if(self.round < 0, "rounds count from 0")
        refuse_if(self.k < 1, "there is at least one cluster")


class RunEnded(Message, tag=141):
    """Server to every client, which has its own labels by now: sizes (k,) of the clusters that centers are
    kept of; centers (k, d) only if they were revealed.

    Under OwnLabels(): server, client.  Seen: the sizes, and centers if enough consented.  By deviating:
    the server: other sizes are refused; false centers, unnoticed.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under NoisySums(): server, client.  Seen: the centers, which follow from what was opened.  By
    deviating: the server: false centers, unnoticed, also different ones to different clients.

    Under NoisySums(dealer=None): as under `NoisySums()`.
    """

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
    more), likewise, what these are checked by, which follows without values; else None.

    Under "with rounded centers": responder, member; member, member.  Seen: weighted shares of cluster
    sums under a mask of responder and dealer, and the masked sums: uniform without the dealer.  By
    deviating: a false one: noticed before a label, size or number leaves.
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

    Under OwnLabels(): member, all.  Seen: re-randomized among the members: uniform but for their sum, the
    sizes and `F z`, 0 if no label changed, else uniform; without a dealer whether it is 0.  By deviating:
    where two play each part, noticed by all. Else wrong sizes: noticed in the next query, before a center
    has them or an owner its labels; an early end, where somebody deals, unnoticed; sizes that no labels
    have: committee, dealer and server are suspected (`SuspectedParties`).  Of how much labels explain of
    columns (`Joined(max_explained=)`) without sizes: 0 if of none more than is allowed; an early end lets
    them be told.

    Under OwnLabels(dealer=None): member, all.  Seen: its share of the sizes, of degree `t`: `t` of them
    and the sizes give all others.  By deviating: false ones lie on no polynomial (`SuspectedParties`).

    Under FinalLabelsOnly(dealer="server"): member, all.  Seen: as under `OwnLabels()`, without sizes;
    nothing with `stop=False`.  By deviating: where two play each part, noticed by all. Else an early end,
    unnoticed.

    Under FinalLabelsOnly(): as under `FinalLabelsOnly(dealer="server")`.
    """

    values: Array
    same: bool
    digests: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "shares of sizes are residues, (1, clusters)")


class OwnShare(Message, tag=146):
    """Member to an owner: its share of the labels of the owner's own points, uniform but for their sum.

    words: binary digits, (places, words), and digests: as those of `LabelShare`.

    Under OwnLabels(): member, owner.  Seen: re-randomized among the members: uniform but for their sum,
    the owner's own labels.  By deviating: where two play each part, noticed by the owner. Else wrong
    labels, unnoticed; digits of no cluster: committee, dealer and server are suspected.

    Under OwnLabels(dealer=None): member, owner.  Seen: what the owner's labels leave: the coalition lacks
    one component of each bit.  By deviating: as under `OwnLabels()`.
    """

    words: Array
    digests: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.words, "u", 2), "shares of labels are words, (places, words)")


class SelectedRowShare(Message, tag=147):
    """Responder to an owner whose rows are hidden: its part of all labels where the owner holds the row, and
    0 elsewhere, and of the same times the owner's key: uniform but for their sums.

    values: (1, 2 m) residues modulo the first prime.

    Under "with hidden membership": responder, owner (`OwnLabels`).  Seen: one part of the products of
    labels with bits that say which rows the owner holds: uniform but for their sum, 0 at other rows. The
    bits are `ResharedPart`, as is a key that only the owner knows, with which it hears labels once more.
    By deviating: a responder: noticed (`SuspectedParties`), but for `2**-29`, as it cannot change both
    alike. An owner that asks for rows which it does not hold: noticed before a label is sent, unless it
    guesses all data of a row and which row it is. With `on_conflict="mean"` a run is refused.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "parts of picked labels are two axes of residues")
