"""What is said where labels stay shared, see `secfc.disclosure.owner_labels.client`."""

from __future__ import annotations

from field.arrays import Array
from secfc.roles.messages import Message, is_array, refuse_if


class SizeShare(Message, tag=145):
    """Member to all: its share of the sizes after a step, uniform but for their sum; and whether no label
    changed.

    values: (1, clusters) residues modulo the first prime, of all clusters with points before but the last.
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
