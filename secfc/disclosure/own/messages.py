"""What is said where labels stay shared, see `secfc.disclosure.own.keeper`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.coded.messages import Compare, LabelShare, check_sizes
from secfc.roles.checks import is_array, refuse
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Advance(Compare, tag=142):
    """Server to every client: take a step from labels that nobody knows, and open the sizes after it.

    labels: the first labels of the run.  step: how many were taken from them.  sizes: (k,) of the clusters
    now.  run: the number of the restart.
    """

    step: int
    sizes: Array
    run: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)

    @property
    def subject(self) -> bytes:
        return _subject(self)


@dataclass(frozen=True, eq=False, repr=False)
class Deliver(Compare, tag=143):
    """Server to every client: the runs are over; tell owners their labels after so many steps of this one,
    and keep shares of the centers.  Fields as in `Advance`."""

    step: int
    sizes: Array
    run: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)
        refuse(self.step < 1, "labels are known before the first step")

    @property
    def subject(self) -> bytes:
        return _subject(self)


@dataclass(frozen=True, eq=False, repr=False)
class Weigh(Compare, tag=150):
    """Server to every client: a restart of several is over; tell me what its clusters cost.  Fields as in
    `Advance`."""

    step: int
    sizes: Array
    run: int

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)
        refuse(self.step < 1, "labels are known before the first step")

    @property
    def subject(self) -> bytes:
        return _subject(self)


@dataclass(frozen=True, eq=False, repr=False)
class Locate(Compare, tag=144):
    """Server to every client: find the nearest of the centers that clients kept, and tell owners alone."""


@dataclass(frozen=True, eq=False, repr=False)
class SizeShare(Message, tag=145):
    """Member to all: its share of the sizes after a step, uniform but for their sum; and whether no label
    changed.

    values: (1, clusters) residues modulo the first prime, of all clusters with points before but the last.
    """

    values: Array
    same: bool

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "shares of sizes are residues, (1, clusters)")


@dataclass(frozen=True, eq=False, repr=False)
class OwnShare(LabelShare, tag=146):
    """Member to an owner: its share of the labels of the owner's own points, uniform but for their sum."""


@dataclass(frozen=True, eq=False, repr=False)
class PickedShare(Message, tag=147):
    """Responder to an owner whose rows are hidden: its part of all labels where the owner holds the row, and
    0 elsewhere, uniform but for their sum.

    values: (1, m) residues modulo the first prime.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "parts of picked labels are residues, (1, m)")


# Questions about labels that stay shared.
Stepped = Advance | Weigh | Deliver


def _check_step(question: Stepped) -> None:
    check_sizes(question.sizes)
    refuse(question.step < 0, "steps count from 0")
    refuse(question.run < 0, "restarts count from 0")
    refuse(len(question.sizes) != question.k, "there are k sizes")
    refuse(question.factor != 1, "a step compares by a factor of 1")


def _subject(question: Stepped) -> bytes:
    """32 bytes that name the kind of question, the run, its first labels, the step and the sizes."""
    state = hashlib.blake2b(digest_size=32, person=b"secfc-subject")
    numbers = question.k, question.run, question.step, len(question.labels)
    state.update(f"{type(question).__name__} {numbers} ".encode())
    state.update(np.ascontiguousarray(question.sizes, "<i8").data)
    state.update(np.ascontiguousarray(question.labels, "<i4").data)
    return state.digest()
