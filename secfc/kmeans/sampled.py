"""A start on samples of rows, and which rows these are: by coins that all clients know."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from secfc.data.inputs import WHOLE, check_fields
from secfc.errors import InputError
from secfc.roles.exchange import PartyId

# Fewer rows might all be missing from a sample: none is, but for one in e^30 samples.
LEAST_ROWS = 30
BLOCK = 1 << 20  # rows that are drawn together


@dataclass(frozen=True)
class Sampled:
    """Start on a sample of rows: a start by splitting, steps of Lloyd's, then mini-batches; then all rows.

    Parameters
    ----------
    rows
        Number of rows of all clients in a sample, in the mean; at least 30, and k.  All rows, if that are
        fewer than two samples.
    batches
        Number of further samples, of other rows each and at most as many as there are: a step of k-means
        follows each, by the sums of all samples so far.

    Notes
    -----
    Each row is in one of m // rows samples, by the seed of the run, or else by the key that the first member
    of the committee deals, and by its place at its client.  So whoever gives the seed, or that member, could
    draw until a sample pleases it, as one below a floor.  Sums of a sample are of fewer rows, and tell
    clients more of each.  From centers of samples Lloyd's steps take all rows, as from given centers, until
    no label changes: with max_iter=1 once.  Labels depend on who holds which row by what is drawn.  It is no
    default for that, and as steps of samples are questions like others: where clusters overlap there are
    twice as many, though each goes through few rows.

    References
    ----------
    Sculley, Web-Scale K-Means Clustering, WWW 2010, for the rate of mini-batches: one over a cluster's rows
    so far.
    """

    rows: int = 5000
    batches: int = 0

    def __post_init__(self) -> None:
        check_fields(self, {"rows": WHOLE, "batches": WHOLE})
        if self.rows < LEAST_ROWS:
            raise InputError(f"rows={self.rows} of a sample: fewer than {LEAST_ROWS} might all be missing")
        if self.batches < 0:
            raise InputError(f"batches={self.batches} counts samples after the first: at least 0")

    def count_samples(self, m: int) -> int:
        """How many samples the rows of all clients make, m: at least one."""
        return max(1, m // self.rows)

    def count_batches(self, m: int) -> int:
        """How many mini-batches there are, of m rows."""
        return min(self.batches, self.count_samples(m) - 1)

    def draw_places(self, seed: bytes, client: PartyId, rows: int, m: int) -> list[Array]:
        """The places of a client's rows in each sample that a run takes, ascending (b,) int64.

        seed: known to all clients.  rows: of the client.  m: of all.
        """
        digest = hashlib.blake2b(client.encode(), key=seed, digest_size=32, person=b"secfc sample").digest()
        rng = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "little")))
        samples, taken = self.count_samples(m), 1 + self.count_batches(m)
        places, numbers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for first in range(0, rows, BLOCK):
            drawn = rng.integers(0, samples, min(BLOCK, rows - first))
            places.append(first + np.flatnonzero(drawn < taken))
            numbers.append(drawn[drawn < taken])
        inside = np.concatenate(numbers)
        order = np.argsort(inside, kind="stable")
        cuts = np.searchsorted(inside[order], np.arange(1, taken))
        return np.split(np.concatenate(places)[order], cuts)
