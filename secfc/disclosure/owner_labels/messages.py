"""What is said where labels stay shared, see `secfc.disclosure.owner_labels.client`."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from secfc.coded.messages import CompareQuery, LabelShare, check_sizes
from secfc.roles.checks import is_array, refuse
from secfc.roles.messages import Message

Array = NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class LloydStepQuery(CompareQuery, tag=142):
    """Server to every client: take a step from labels that nobody knows, and open the sizes after it.

    labels: the first labels of the run.  step: how many were taken from them.  sizes: of the clusters that
    the last step opened, all 0 where it hid them.  groups: the number in [0, k) that each of them has now, -1
    for one without points; several may have become one.  run: the number of the restart.
    """

    step: int
    sizes: Array
    run: int
    groups: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)

    @property
    def now(self) -> Array:
        return _now(self)

    @property
    def subject(self) -> bytes:
        return _subject(self)


@dataclass(frozen=True, eq=False, repr=False)
class SplitQuery(CompareQuery, tag=151):
    """Server to every client, while a start is drawn: cut every cluster in two, and open the sizes of all
    halves.

    directions: (k, d) int8 of +1 and -1, across which each is cut through its mean, see
    `secfc.kmeans.divisive_seeding.SplitRequest`.  Else as `LloydStepQuery`.
    """

    step: int
    sizes: Array
    run: int
    groups: Array
    directions: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)
        signs = self.directions
        refuse(not is_array(signs, "i", 2) or len(signs) != self.k, "there are k directions, (k, d) integers")
        # Passes that make no array of the size of the message.
        small = signs.min(initial=1) >= -1 and signs.max(initial=-1) <= 1
        refuse(bool(not small or np.count_nonzero(signs) < signs.size), "directions are +1 and -1")

    @property
    def now(self) -> Array:
        return _now(self)

    @property
    def subject(self) -> bytes:
        return _subject(self, self.directions)


@dataclass(frozen=True, eq=False, repr=False)
class SplitGainQuery(CompareQuery, tag=152):
    """Server to every client, while a start is drawn: tell me what keeping unions of clusters apart gains.

    sides: (pairs, k) int8, 1 in one union, 2 in the other, 0 in none.  Else as `LloydStepQuery`.
    """

    step: int
    sizes: Array
    run: int
    groups: Array
    sides: Array

    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)
        refuse(self.step < 1, "labels are known before the first step")
        sides, shape = self.sides, "sides are (pairs, k) of 0, 1 and 2"
        refuse(not is_array(sides, "i", 2) or sides.shape[1] != self.k, shape)
        refuse(bool(((sides < 0) | (sides > 2)).any()), shape)
        refuse(not sides.size or int(self.counted.min()) < 1, "there are points on both sides of a split")

    @property
    def now(self) -> Array:
        return _now(self)

    @property
    def counted(self) -> Array:
        """The sizes (pairs, 2) int64 of the unions."""
        return np.stack([(self.sides == side) @ self.now for side in (1, 2)], axis=1)

    @property
    def subject(self) -> bytes:
        return _subject(self, self.sides)


@dataclass(frozen=True, eq=False, repr=False)
class ClusterCostQuery(CompareQuery, tag=150):
    """Server to every client: tell me what clusters cost, as a restart of several is over, or k is chosen.
    Fields as in `LloydStepQuery`."""

    step: int
    sizes: Array
    run: int
    groups: Array

    counts: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)
        refuse(self.step < 1, "labels are known before the first step")

    @property
    def now(self) -> Array:
        return _now(self)

    @property
    def subject(self) -> bytes:
        return _subject(self)


@dataclass(frozen=True, eq=False, repr=False)
class DeliverLabels(CompareQuery, tag=143):
    """Server to every client: the runs are over; tell owners their labels after so many steps of this one,
    and keep shares of the centers.  Fields as in `LloydStepQuery`."""

    step: int
    sizes: Array
    run: int
    groups: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)
        refuse(self.step < 1, "labels are known before the first step")

    @property
    def now(self) -> Array:
        return _now(self)

    @property
    def subject(self) -> bytes:
        return _subject(self)


@dataclass(frozen=True, eq=False, repr=False)
class RevealLabels(CompareQuery, tag=155):
    """Server to every client: the run is over; open its last labels to all.  Fields as in
    `LloydStepQuery`.
    """

    step: int
    sizes: Array
    run: int
    groups: Array

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_step(self)
        refuse(self.step < 1, "labels are known before the first step")

    @property
    def now(self) -> Array:
        return _now(self)

    @property
    def subject(self) -> bytes:
        return _subject(self)


@dataclass(frozen=True, eq=False, repr=False)
class PredictLabels(CompareQuery, tag=144):
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
class SelectedRowShare(Message, tag=147):
    """Responder to an owner whose rows are hidden: its part of all labels where the owner holds the row, and
    0 elsewhere, uniform but for their sum.

    values: (1, m) residues modulo the first prime.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "parts of picked labels are residues, (1, m)")


# Questions about labels that stay shared.
Stepped = LloydStepQuery | SplitQuery | SplitGainQuery | ClusterCostQuery | DeliverLabels | RevealLabels


def _check_step(question: Stepped) -> None:
    check_sizes(question.sizes)
    refuse(question.step < 0, "steps count from 0")
    refuse(question.run < 0, "restarts count from 0")
    refuse(question.factor != 1, "a step compares by a factor of 1")
    groups, rule = question.groups, "every cluster is in one of k groups, or has no points"
    refuse(not is_array(groups, "i", 1) or len(groups) != len(question.sizes), rule)
    refuse(bool(((groups < -1) | (groups >= question.k)).any()), rule)
    refuse(bool(question.sizes[groups < 0].any()), rule)


def _now(question: Stepped) -> Array:
    """The sizes (k,) int64 of the groups."""
    there = question.groups >= 0
    now = np.zeros(question.k, np.int64)
    np.add.at(now, question.groups[there], question.sizes[there])
    return now


def _subject(question: Stepped, *more: Array) -> bytes:
    """32 bytes that name the kind of question, the run, its first labels, the step, the sizes and groups."""
    state = hashlib.blake2b(digest_size=32, person=b"secfc-subject")
    arrays = question.sizes, question.groups, *more, question.labels
    numbers = question.k, question.run, question.step, [part.shape for part in arrays]
    state.update(f"{type(question).__name__} {numbers} ".encode())
    for part in arrays:
        state.update(np.ascontiguousarray(part, "<i8").data)
    return state.digest()
