"""A client's rows in parts that are elsewhere: what is computed of each there, and what comes back."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from field.arrays import Array
from field.ring.quantize import Quantizer
from secfc.data.inputs import row_blocks
from secfc.data.parted_rows import PartedRows
from secfc.errors import InputError
from secfc.federated.model import ClientRows, KnownCenters, Levels, rows_of


@dataclass(frozen=True, eq=False, repr=False)
class LabelRule:
    """What labels follow from, for a row of any part: the number of the nearest of centers, or 0 for all.

    groups: the number that each center has instead, None for its own.
    """

    known: KnownCenters | None = None
    groups: Array | None = None

    def __call__(self, part: ClientRows) -> Array:
        """Labels (b,) int32 of a part."""
        zeros = np.zeros(part.shape[0], np.int32)
        labels = zeros if self.known is None else part.label_rows(self.known)
        return labels if self.groups is None else np.append(self.groups, -1)[labels].astype(np.int32)


class PartLabels:
    """Labels (m,) of rows in parts, by a rule: an array for who reads it, which brings them here.

    sums: of rows by label, and numbers, once they were added up.
    """

    def __init__(self, rows: PartRows, rule: LabelRule) -> None:
        self.rows, self.rule = rows, rule
        self.shape, self.dtype = rows.shape[:1], np.dtype(np.int32)
        self.sums: tuple[Array, Array] | None = None

    def __repr__(self) -> str:
        return f"PartLabels(shape={self.shape})"

    def __len__(self) -> int:
        return self.shape[0]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.concatenate(self.rows.run(self.rule)).astype(dtype or self.dtype, copy=False)

    def __getitem__(self, rows: Any, /) -> Array:
        return np.asarray(np.asarray(self)[rows])

    def write(self, folder: str) -> list[str]:
        """Write labels where the parts are, one file of Parquet each, in a folder that workers see; paths."""
        paths = [str(Path(folder) / f"part-{i:05d}.parquet") for i in range(len(self.rows.given.firsts))]
        return self.rows.run(partial(_write_labels, self.rule), paths)


class PartRows(ClientRows):
    """A client's rounded rows (m, d) in the parts of `given`, which stay where they are."""

    def __init__(self, given: PartedRows, quantizer: Quantizer, places: Sequence[int], owner: str) -> None:
        self.shape, self.given, self.owner = (given.shape[0], len(places)), given, owner
        rounded = partial(_round_part, quantizer, list(places), owner)
        self._parts, self._digests = given.keep(rounded, given.firsts, given.sizes), list[bytes]()
        self._summed = {}

    def run(self, f: Callable[..., Any], *each: Sequence[Any]) -> list[Any]:
        """As of `Parts`, of functions of rounded rows.

        Raises InputError for a part that was computed again, and is other rows than at first.
        """
        digests, found = zip(*self._parts.run(partial(_run_rounded, f), *each), strict=True)
        self._digests = self._digests or list(digests)
        for number, pair in enumerate(zip(digests, self._digests, strict=True)):
            if pair[0] != pair[1]:
                raise InputError(
                    f"part {number} (counted from 0) of the rows of {self.owner} was computed again, and has "
                    "other rows than before. Give one that is the same whenever it is computed"
                )
        return list(found)

    @property
    def points(self) -> Array:
        """All rows, brought here: (m, d) int64."""
        return np.concatenate(self.run(_points_of))

    def first_labels(self) -> Any:
        """Labels of all rows in one cluster."""
        return PartLabels(self, LabelRule())

    def label_rows(self, known: KnownCenters, before: Any = None) -> Any:
        """As of `ClientRows`; nothing is computed yet."""
        return PartLabels(self, LabelRule(known))

    def number_labels(self, labels: Any, groups: Array) -> Any:
        """As of `ClientRows`."""
        if not isinstance(labels, PartLabels):
            return super().number_labels(labels, groups)
        return PartLabels(self, LabelRule(labels.rule.known, groups))

    def keep_labels(self, labels: Any) -> Any:
        """As of `ClientRows`; labels of parts are a rule."""
        return labels if isinstance(labels, PartLabels) else super().keep_labels(labels)

    def sum_rows(self, labels: Any, k: int) -> tuple[Array, Array]:
        """Sums (k, d) and numbers (k,) int64 of rows by label (m,) in [-1, k), of which only these travel."""
        if not isinstance(labels, PartLabels):
            own = self.given.split_labels(self.keep_labels(labels))
            return _add_sums(self.run(partial(_sum_part, k), own))
        if labels.sums is None:
            labels.sums = _add_sums(self.run(partial(_sum_part, k, labels.rule)))
        return labels.sums

    def take_rows(self, places: Sequence[Array]) -> ClientRows:
        """Those at ascending places (b,) alone, brought here."""
        firsts = np.array(self.given.firsts)
        cuts = np.split(places[0], np.searchsorted(places[0], firsts[1:]))
        own = [at - first for first, at in zip(firsts, cuts, strict=True)]
        return rows_of(np.concatenate(self.run(_take_points, own)))

    def sum_squares(self) -> int:
        """The sum of squares of all values, exact."""
        return sum(self.run(_squares_of))

    def sum_silhouettes(self, labels: Any, levels: Levels) -> Array:
        """As of `ClientRows`."""
        return np.asarray(np.sum(self.run(partial(_judge_part, labels.rule, levels)), axis=0))

    def find_changed(self, before: Any, after: Any) -> Array:
        """Whether any label (m,) changed: ().  Sums by the new labels are of the same pass over the rows."""
        if not (isinstance(before, PartLabels) and isinstance(after, PartLabels)):
            if isinstance(after, PartLabels) and (np.asarray(before) < 0).any():
                return np.asarray(
                    True
                )  # rows that were in no sample have labels now, which stay where they are
            return super().find_changed(np.asarray(before), np.asarray(after))
        k = 1 if after.rule.known is None else len(after.rule.known.sums)
        found = self.run(partial(_compare_part, k, before.rule, after.rule))
        after.sums = _add_sums([sums for sums, _ in found])
        return np.asarray(any(changed for _, changed in found))


def _add_sums(found: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Sums and numbers of all parts, of those of each."""
    # As those of the whole client, below 2**62: `FederatedPlan` bounds m times the largest value.
    sums, counts = zip(*found, strict=True)
    return np.asarray(np.sum(sums, axis=0, dtype=np.int64)), np.asarray(
        np.sum(counts, axis=0, dtype=np.int64)
    )


# --------------------------------------------------------------------------------------------------
# What a worker does with a part.


def _round_part(
    quantizer: Quantizer, places: Sequence[int], owner: str, first: int, size: int, part: Array
) -> tuple[bytes, ClientRows]:
    if len(part) != size:
        raise InputError(
            f"a part of the rows of {owner} has {len(part)} rows and had {size} before: it changed. Give one "
            "that is the same whenever it is computed"
        )
    digest = hashlib.blake2b(digest_size=16)

    def blocks() -> Iterator[tuple[int, Array]]:
        for at, block in row_blocks(part, owner, first_row=first):
            whole = quantizer(block[:, places], owner=owner, first_row=at)
            digest.update(whole.tobytes())
            yield at - first, whole

    # Of a worker, whose memory its cluster watches.
    rows = ClientRows(blocks(), (len(part), len(places)), quantizer.max_int, held=sys.maxsize)
    return digest.digest(), rows


def _run_rounded(f: Callable[..., Any], *own: Any) -> tuple[bytes, Any]:
    digest, rows = own[-1]
    return digest, f(*own[:-1], rows)


def _points_of(part: ClientRows) -> Array:
    return part.points


def _take_points(places: Array, part: ClientRows) -> Array:
    return part.take_rows([places]).points


def _squares_of(part: ClientRows) -> int:
    return part.sum_squares()


def _sum_part(k: int, labels: LabelRule | Array, part: ClientRows) -> tuple[Array, Array]:
    return part.sum_rows(labels(part) if isinstance(labels, LabelRule) else labels, k)


def _judge_part(rule: LabelRule, levels: Levels, part: ClientRows) -> Array:
    return part.sum_silhouettes(rule(part), levels)


def _compare_part(
    k: int, before: LabelRule, after: LabelRule, part: ClientRows
) -> tuple[tuple[Array, Array], bool]:
    labels = after(part)
    return part.sum_rows(labels, k), bool((before(part) != labels).any())


def _write_labels(rule: LabelRule, path: str, part: ClientRows) -> str:
    import pyarrow
    from pyarrow.parquet import write_table

    write_table(pyarrow.table({"label": rule(part)}), path)
    return path
