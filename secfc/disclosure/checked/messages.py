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
    """

    commitment: bytes
    values: Array
    parts: bytes = b""

    def __post_init__(self) -> None:
        size = len(self.commitment)
        refuse_if(size not in (0, SIZE), f"a commitment has {SIZE} bytes, not {size}")
        check_unsigned(self.values, "shares of a random row, (lanes, values),", 2)


class CheckCoin(Message, tag=191):
    """Witness to witness: the coin that it committed to; what all give is public from now on."""

    value: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.value) != SIZE, f"a coin has {SIZE} bytes, this one has {len(self.value)}")


class RepliesFixed(Message, tag=198):
    """Server to responders: that it has the replies of all, so that coins may be opened."""


class CheckDigest(Message, tag=192):
    """Witness to responders, members and the dealer: what all coins give, and a digest of the question.

    digest: 16 bytes that follow from coins, and 16 from these and the question.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != SIZE, f"a digest has {SIZE} bytes, this one has {len(self.digest)}")


class MaskedRow(Message, tag=193):
    """Responder to responder: its share of a random sum of all rows and of the random row.

    values: (lanes, repetitions, rows, width) residues; what they are shares of is uniform.  Where those of
    others give the share, no width, and vouched: its tag (16 bytes) under a key of the two.
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
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of a sum of replies, (lanes, repetitions, ell),")


class PartSums(Message, tag=220):
    """Member to member, where nobody deals: what its part of all replies adds up to, weighted.

    values: (lanes, repetitions) residues; those of all members add up to what is opened of the check.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "weighted sums of a part of replies, (lanes, repetitions),", 2)


class MaskSums(Message, tag=195):
    """Dealer to member: what the masks of replies add up to, weighted: (lanes, repetitions) residues."""

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "weighted sums of masks, (lanes, repetitions),", 2)


class ResharedPart(Message, tag=52):
    """Client to client: its share for the recipient of a part of secrets that stay secret.

    values: (lanes, numbers) residues, uniform to any t recipients.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of products, (lanes, numbers),", 2)


class CheckedPart(Message, tag=230):
    """Responder to responder: its share for the recipient of products that stay secret and are checked.

    values: (lanes, numbers) residues, the last of them shares of masks, uniform to any t recipients; none for
    whoever expands these, and what follows, from the seed (16 bytes) that it gets instead.
    commitment: the digest (32 bytes) of coins that it opens once all products are dealt.
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
    uniform, or follows.
    """

    values: Array

    def __post_init__(self) -> None:
        check_unsigned(self.values, "shares of masked numbers and products, (lanes, words),", 2)


class OwnersHeard(Message, tag=232):
    """Responder to responder: which owners, whose rows are hidden, said which labels they ask for.

    numbers: of clients, ascending.
    """

    numbers: Array

    def __post_init__(self) -> None:
        check_numbers(self.numbers, "numbers of clients")
        refuse_if(bool((self.numbers[1:] < self.numbers[:-1]).any()), "numbers of clients ascend")


class PartShares(Message, tag=233):
    """Member to responder: its shares for the recipient of secrets that the committee holds by part.

    values: (lanes, numbers) residues, of the parts that the sender is the first of, one after the other.
    seeds: 16 bytes of each such part of which the share follows from a seed.  digests: 32 bytes of the share
    of each other part that the sender plays.  Nothing of parts that the recipient plays as well.
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
    """

    heard: bytes
    parts: bytes
