"""Where a run of `FederatedLloyd` starts: given centers, a word, or a sample of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from field.arrays import Array
from secfc.errors import InputError
from secfc.federated.model import ClientRows, KnownCenters
from secfc.kmeans.splitting import Splitting
from secfc.overlap.starts import MatchingStart, parse_matching_start

GivenRows = tuple[tuple[float, ...], ...]


class SampledRows(ClientRows):
    """Those of a client's rows, or of several clients', that are in a sample; labels are of all (m,), -1 of
    others.

    rows: all.  places: of each client (b_j,).
    """

    def __init__(self, rows: ClientRows, places: Sequence[Array]) -> None:
        self.shape, self._summed = rows.shape, {}
        self.rows, self.drawn = rows, rows.take_rows(places)
        self.places = np.concatenate(
            [first + own for first, own in zip(rows.first_rows, places, strict=True)]
        )

    def __repr__(self) -> str:
        return f"SampledRows({len(self.places)} of {self.shape[0]})"

    def spread_labels(self, labels: Array) -> Array:
        """Labels of all rows, of those in the sample (b,)."""
        found = np.full(self.shape[0], -1, np.int32)
        found[self.places] = labels
        return found

    def first_labels(self) -> Array:
        """Labels (m,) of the sample in one cluster."""
        return self.spread_labels(np.zeros(len(self.places), np.int32))

    def label_rows(self, known: KnownCenters, before: Array | None = None) -> Array:
        """The nearest offered center of each row in the sample: (m,) int32."""
        return self.spread_labels(self.drawn.label_rows(known))

    def sum_rows(self, labels: Array, k: int) -> tuple[Array, Array]:
        """As of all rows, by labels (m,), of which few go through all."""
        own = labels[self.places]
        # A floor may keep rows in sums that are in no sample any more.
        alone = np.count_nonzero(labels >= 0) == np.count_nonzero(own >= 0)
        return self.drawn.sum_rows(own, k) if alone else self.rows.sum_rows(labels, k)

    def find_changed(self, before: Array, after: Array) -> Array:
        """As of all rows."""
        return self.rows.find_changed(before, after)


def parse_start(word: str) -> Splitting | MatchingStart | None:
    """The start that a word stands for, as the shell spells it.  Raises InputError."""
    return Splitting(merge="any") if word.strip().lower() == "splitting" else parse_matching_start(word)


def parse_centers(given: Any) -> GivenRows:
    """Centers (k, d) as rows that can be compared.  Raises InputError."""
    try:
        centers = np.array(given, float)
    except (TypeError, ValueError):
        centers = np.zeros(0)
    if centers.ndim != 2 or not centers.size or not np.isfinite(centers).all():
        raise InputError(
            f"start is no table of centers, or one of shape {centers.shape} with a gap: centers are finite "
            "numbers, a row a cluster. Give result.centers of a run where all clients observed all features"
        )
    return tuple(map(tuple, centers.tolist()))
