"""What clients and a dealer say while they check replies (`secfc.disclosure.checked.steps`)."""

from __future__ import annotations

from field.arrays import Array
from secfc.roles.messages import Message, check_numbers, check_unsigned, refuse_if

SIZE = 32
# Bytes of what shares are expanded from.
SEED = 16


class CheckDealing(Message, tag=190):
    """Member to responders and members: that it committed to a coin, and its share of a random row and masks.

    commitment: the digest (32 bytes) of a coin that it opens once all replies are fixed; none of a member
    that is no witness.  values: (lanes, n) residues, uniform to any t recipients; none for whoever expands
    them from a seed, or does not respond.
    parts: to a member what it needs to play parts as the sender does (`secfc.disclosure.checked.words`).

    Under Distances(): responder, responder.  Seen: any `t` shares of a uniform row and of masks: uniform.
    By deviating: shares on no polynomial: noticed.

    Under AssignmentsOnly(): as under `Distances()`, members in place of the `t + 1` responders and of the
    server.  Seen: as under `Distances()`, and what hides a coin.  By deviating: as under `Distances()`.

    Under AssignmentsOnly(dealer=None): as under `AssignmentsOnly()`; `t + 1` of the committee are members
    here.  Seen: as under `AssignmentsOnly()`.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(); DBSCAN(): as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.
    """

    commitment: bytes
    values: Array
    parts: bytes = b""

    def __post_init__(self) -> None:
        size = len(self.commitment)
        refuse_if(size not in (0, SIZE), f"a commitment has {SIZE} bytes, not {size}")
        check_unsigned(self.values, "shares of a random row, (lanes, values),", 2)


class CheckCoin(Message, tag=191):
    """Witness to witness: the coin that it committed to; what all give is public from now on.

    Under AssignmentsOnly(): member, member.  Seen: 32 random bytes among the `t + 1` that deal; what all
    give is public from now on.  By deviating: another than it committed to: `FaultyClient`. Different
    coins to receivers: digests differ.

    Under AssignmentsOnly(dealer=None): as under `AssignmentsOnly()`; `t + 1` of the committee are members
    here.  Seen: as under `AssignmentsOnly()`.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(); DBSCAN(): as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.

    Under "with lost clients, several starts, or consent": client, client.  Seen: under
    `CenterSeparation`, 32 random bytes, public from now on.  By deviating: another than it committed to:
    `FaultyClient`. Different coins to receivers: digests differ.
    """

    value: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.value) != SIZE, f"a coin has {SIZE} bytes, this one has {len(self.value)}")


class RepliesFixed(Message, tag=198):
    """Server to responders: that it has the replies of all, and the coins that it drew then.

    coin: 16 bytes.

    Under Distances(): server, responder.  Seen: that the server has all replies, and coins: public.  By
    deviating: the server: say so early, or tell coins before, so that a client that works with it replies
    after the coins: as if the server decoded falsely. Different coins to receivers: digests differ.
    """

    coin: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.coin) != SEED, f"coins have {SEED} bytes, these have {len(self.coin)}")


class CheckDigest(Message, tag=192):
    """Witness to responders, members and the dealer: what all coins give, and a digest of the question.

    digest: 16 bytes that follow from coins, and 16 from these and the question.

    Under Distances(): responder, responder.  Seen: what follows from the server's coins: public.  By
    deviating: another one ends the run (`SuspectedParties`).

    Under AssignmentsOnly(): member, all who check and the dealer.  Seen: what follows from coins: public.
    By deviating: as under `Distances()`.

    Under AssignmentsOnly(dealer=None): as under `AssignmentsOnly()`; `t + 1` of the committee are members
    here.  Seen: as under `AssignmentsOnly()`.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(); DBSCAN(): as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != SIZE, f"a digest has {SIZE} bytes, this one has {len(self.digest)}")


class MaskedRow(Message, tag=193):
    """Responder to responder: its share of a random sum of all rows and of the random row.

    values: (lanes, repetitions, rows, width) residues; what they are shares of is uniform.  Where those of
    others give the share, no width, and vouched: its tag (16 bytes) under a key of the two.

    Under Distances(): responder, responder.  Seen: shares of a sum of all rows with a uniform one:
    uniform, also with the server; tags by responders after the first `ell + t`.  By deviating: a false
    share: noticed, as on no polynomial, or by a tag.

    Under AssignmentsOnly(): as under `Distances()`, members in place of the `t + 1` responders and of the
    server.  Seen: as under `Distances()`.  By deviating: as under `Distances()`.

    Under AssignmentsOnly(dealer=None): as under `AssignmentsOnly()`; `t + 1` of the committee are members
    here.  Seen: as under `AssignmentsOnly()`.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(): responder, responder or member.  Seen: as under `AssignmentsOnly()`, and of sums of
    clusters.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.

    Under DBSCAN(): as under `AssignmentsOnly()`.
    """

    values: Array
    vouched: bytes = b""

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of a sum of rows, (lanes, repetitions, rows, width),", 4)
        due = 0 if self.values.shape[3] else SEED
        refuse_if(len(self.vouched) != due, f"a tag of {SEED} bytes comes in the place of a share")


class MaskedProducts(Message, tag=194):
    """Responder to member: its share of what weighted replies add up to, under masks that are shared.

    values: (lanes, repetitions, ell) residues; what they are shares of is uniform.

    Under Distances(): responder, server.  Seen: follows from the distances, and from replies of the
    uniform row under masks of their own.  By deviating: a false share: noticed, as on no polynomial, or
    by a tag.

    Under AssignmentsOnly(): responder, member.  Seen: shares of what weighted replies add up to, with
    uniform masks: uniform.  By deviating: a false share: noticed, as on no polynomial, or by a tag.

    Under AssignmentsOnly(dealer=None): as under `AssignmentsOnly()`; `t + 1` of the committee are members
    here.  Seen: as under `AssignmentsOnly()`.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(): responder, responder or member.  Seen: as under `AssignmentsOnly()`, and of sums of
    clusters.  By deviating: as under `AssignmentsOnly()`.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.

    Under DBSCAN(): as under `AssignmentsOnly()`.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of a sum of replies, (lanes, repetitions, ell),")


class PartSums(Message, tag=220):
    """Member to member, where nobody deals: what its part of all replies adds up to, weighted.

    values: (lanes, repetitions) residues; those of all members add up to what is opened of the check.

    Under AssignmentsOnly(dealer=None): member, member.  Seen: follows from its part of blinded replies,
    uniform but for what all of them add up to.  By deviating: a false one ends the run, or lets a lie
    pass that the member knows of.

    Under OwnLabels(dealer=None): as under `AssignmentsOnly(dealer=None)`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "weighted sums of a part of replies, (lanes, repetitions),", 2)


class MaskSums(Message, tag=195):
    """Dealer to member: what the masks of replies add up to, weighted: (lanes, repetitions) residues.

    Under AssignmentsOnly(): dealer, member.  Seen: follows from masked replies and the check's coins.  By
    deviating: a false one is noticed, or lets a lie pass that the dealer knows of: the dealer is trusted
    with masks. **A client that deals also responds, so it makes false replies of its own fit**, and reads
    as by false tables; the server has no replies.

    Under OwnLabels(); DBSCAN(): as under `AssignmentsOnly()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "weighted sums of masks, (lanes, repetitions),", 2)


class ResharedPart(Message, tag=52):
    """Client to client: its share for the recipient of a part of secrets that stay secret.

    values: (lanes, numbers) residues, uniform to any t recipients.

    Under OwnLabels(): responder, responder or (at the end) client.  Seen: any `t` shares of a fresh
    polynomial of degree `ell + t - 1`: uniform.  By deviating: noticed as `CheckedPart`; a false share of
    the last sums to a client that did not respond: noticed when new points are compared.

    Under OwnLabels(dealer=None): member, member or (at the end) client.  Seen: any `t` shares of a fresh
    polynomial of degree `t`: uniform.  By deviating: where two play each part, noticed before a size is
    sent. Else what is no label: noticed in the next query; wrong labels, unnoticed.

    Under FinalLabelsOnly(dealer="server"): responder, responder.  Seen: any `t` shares of a fresh
    polynomial of degree `ell + t - 1`: uniform.  By deviating: false products of sums: noticed before a
    center depends on them.

    Under FinalLabelsOnly(): as under `OwnLabels(dealer=None)`.

    Under NoisySums(dealer=None): member, member or responder.  Seen: any `t` shares of a fresh polynomial
    of degree `t`: uniform.  By deviating: where two play each part, noticed before anything is opened; so
    are parts that put a row into more than one shell, or twice. Else rows in other shells, unnoticed.

    Under "with hidden membership": client, client (counts hidden).  Seen: any `t` shares of fresh
    polynomials, of products for the same check: uniform.  By deviating: a false one: noticed before
    anything is computed on rows.

    Under "with lost clients, several starts, or consent": client, client.  Seen: under
    `CenterSeparation`, any `t` shares of squares of rows that the sender has, or of products for their
    check: uniform.  By deviating: other squares than of its rows: these rows may begin in no cluster. A
    false product: noticed before anything is asked.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of products, (lanes, numbers),", 2)


class CheckedPart(Message, tag=230):
    """Responder to responder: its share for the recipient of products that stay secret and are checked.

    values: (lanes, numbers) residues, the last of them shares of masks, uniform to any t recipients; none for
    whoever expands these, and what follows, from the seed (16 bytes) that it gets instead.
    commitment: the digest (32 bytes) of coins that it opens once all products are dealt.

    Under OwnLabels(): responder, responder.  Seen: any `t` shares of fresh polynomials, or their seeds:
    uniform, of sums and of what masks their check; what hides three coins.  By deviating: false sums:
    noticed before a center depends on them.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under FinalLabelsOnly(dealer="server"); NoisySums(): as under `OwnLabels()`.

    Under FinalLabelsOnly(); NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.

    Under "with hidden membership": client, client (counts hidden).  Seen: any `t` shares of which rows
    it holds, of sums of their features, for `NoisySums()` of parts of squares of rows, and of the
    check's masks: uniform; what hides its coins.  By deviating: another indicator than 0 or 1, false
    squares, or a row that it does not hold: noticed before anything is computed on rows, unless it
    guesses all data of the row. **Two that deviate together** can make a row of theirs of any size in
    one lane, so labels may tell them remainders of others' data; `counts="opened"` prevents it. Leave
    out a row that it holds: the run ends if nobody else does (`UnionFailed`), which tells it so.

    Under "with lost clients, several starts, or consent": client, client.  Seen: under
    `CenterSeparation`, and `NoisySums()` of joined columns, any `t` shares of parts of squares of rows, and
    of the check's masks: uniform; what hides its coins.  By deviating: false squares: noticed before
    anything is asked.
    """

    values: Array
    commitment: bytes
    seed: bytes = b""

    def __post_init__(self) -> None:
        refuse_if(len(self.commitment) != SIZE, f"a commitment has {SIZE} bytes, not {len(self.commitment)}")
        check_unsigned(self.values, "shares of products, (lanes, numbers),", 2)
        due = 0 if self.values.shape[1] else SEED
        refuse_if(len(self.seed) != due, f"a seed of {SEED} bytes comes in the place of shares")


class ProductWords(Message, tag=231):
    """Responder to responder: its shares of two masked numbers and of their product, which must fit.

    values: (lanes, 3 repetitions) residues, where sums over segments are opened 4; what they are shares of is
    uniform, or follows.  Noisy sums have more: shares of sums of labels, with noise.

    Under OwnLabels(): responder, responder.  Seen: two uniform numbers a repetition and segment, and
    their product.  By deviating: lies on no polynomial with the honest ones: `SuspectedParties`.

    Under OwnLabels(dealer=None): as under `OwnLabels()`, committee members in place of responders.  Seen:
    as under `OwnLabels()`.  By deviating: as under `OwnLabels()`.

    Under FinalLabelsOnly(dealer="server"): as under `OwnLabels()`.

    Under FinalLabelsOnly(): as under `OwnLabels(dealer=None)`.

    Under NoisySums(): as under `OwnLabels()`.  Seen: also noisy sums of labels.  By deviating: as under
    `OwnLabels()`.

    Under NoisySums(dealer=None): as under `OwnLabels(dealer=None)`.  Seen: also noisy sums of labels.  By
    deviating: as under `OwnLabels()`.

    Under "with hidden membership": client, client (counts hidden).  Seen: two uniform numbers a
    repetition and segment, and their product.  By deviating: lies on no polynomial with the honest ones:
    `SuspectedParties`.

    Under "with lost clients, several starts, or consent": client, client.  Seen: under
    `CenterSeparation`, two uniform numbers a repetition and segment, and their product.  By deviating: lies
    on no polynomial with the honest ones: `SuspectedParties`.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of masked numbers and products, (lanes, words),", 2)


class OwnersHeard(Message, tag=232):
    """Responder to responder: which owners, whose rows are hidden, said which labels they ask for.

    numbers: of clients, ascending.

    Under "with hidden membership": responder, responder (`OwnLabels`).  Seen: which clients said
    anything: public.  By deviating: call an owner silent: it gets no labels.
    """

    numbers: Array

    def __post_init__(self) -> None:
        check_numbers(self.numbers, "numbers of clients")
        refuse_if(bool((self.numbers[1:] < self.numbers[:-1]).any()), "numbers of clients ascend")


class PartShares(Message, tag=233):
    """Member to responder: its shares for the recipient of secrets that the committee holds by part.

    values: (lanes, numbers) residues, of the parts that the sender is the first of, one after the other.
    seeds: 16 bytes of each such part of which the share follows from a seed.  digests: 32 bytes of the share
    of each other part that the sender plays, of rounded centers in a message of their own.  Nothing of parts
    that the recipient plays as well.

    Under "with rounded centers": member, responder.  Seen: of parts of the rounded centers its shares, on
    fresh polynomials, or seeds of them: uniform at any `t` clients, also with the other parts.  By
    deviating: where two play a part, noticed by its receiver before a label. Else another part **moves
    centers, unnoticed**; parts on no polynomial are noticed.

    Under OwnLabels(): member, responder.  Seen: of the sender's part of labels any `t` shares of a fresh
    polynomial of degree `ell + t - 1`, or their seeds: uniform.  By deviating: where two play a part,
    noticed by its receiver. Else parts of no labels, or of labels of other sizes: noticed before a center
    depends on them. A member that guesses labels right can exchange those of points, unnoticed; a wrong
    guess ends the run.

    Under FinalLabelsOnly(dealer="server"): as under `OwnLabels()`.

    Under NoisySums(): member, responder.  Seen: of the sender's part of labels any `t` shares of a fresh
    polynomial of degree `ell + t - 1`, or their seeds: uniform.  By deviating: where two play a part,
    noticed by its receiver. Parts that put a row into more than one shell, or twice: noticed before
    anything is opened. A member can put rows into other shells, unnoticed.
    """

    values: Array
    seeds: bytes = b""
    digests: bytes = b""

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of parts, (lanes, numbers),", 2)


class PartDigests(Message, tag=196):
    """Member to member: digests of all that was opened, and of all that each of its parts says.

    heard: of what was opened last, under coins that are public.  parts: of its parts in order, all together
    (`field.code.consistency`).

    Under "with parts played by several": member, member.  Seen: a combination of the words of each part
    that its sender plays, by public coins: for others uniform subject to what was opened.  By deviating:
    another one ends the run (`SuspectedParties`).
    """

    heard: bytes
    parts: bytes
