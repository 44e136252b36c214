"""Parameters of a coded run that belong together, each group a frozen value that checks itself.

`SecFC`, its plaintext twin and whatever plans them take the same four values, so that a word means the same
everywhere.  What is `LOCAL` changes no message: it may differ from party to party.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from field.ring.basis import Basis
from secfc.data.inputs import (
    COUNT,
    REAL,
    SWITCH,
    WHOLE,
    ParameterGroup,
    ValueKind,
    check_fields,
    format_value,
    instance_of,
    optional_kind,
)
from secfc.data.resolution import Coarse, check_coarse
from secfc.errors import InputError
from secfc.remedies import accept_old_names
from secfc.roles.description import LOCAL
from secfc.roles.exchange import PartyId

# --------------------------------------------------------------------------------------------------
# Who holds shares and computes, where not every client does: the workers, public and named before a run.
#
# All other clients deal shares of their rows to the workers, hear the result, and may leave in between.  So
# clients speak to w workers, and not everybody to everybody.  The code is that of the workers: t of them may
# collude, with any other clients, who hold no shares of anybody's points.

# A number of workers, their names, or None for all clients.
Workers = int | tuple[PartyId, ...] | None

WORKERS = ValueKind(
    "a number, or names of clients, or None (all clients),",
    'Pass 13, or a tuple such as ("client-0", "client-1", "client-2")',
    lambda v: (
        v
        if isinstance(v, int) and not isinstance(v, bool)
        else tuple(v)
        if isinstance(v, tuple | list) and all(isinstance(name, str) for name in v)
        else None
    ),
    none=True,
)


def select_workers(workers: Workers, clients: tuple[PartyId, ...]) -> tuple[PartyId, ...]:
    """The workers among these clients, in the order of the clients; a number of them is spread evenly.

    Raises InputError for a number that there are not, or names that are no clients'.
    """
    if workers is None:
        return clients
    n = len(clients)
    if isinstance(workers, int):
        if not 1 <= workers <= n:
            raise InputError(f"workers={workers} of n={n} clients: take a number in [1, {n}], or add clients")
        return tuple(clients[i * n // workers] for i in range(workers))
    strangers = sorted(set(workers) - set(clients))
    if strangers or not workers:
        named = ", ".join(clients[:3]) + (", ..." if n > 3 else "")
        raise InputError(
            f"workers: {', '.join(map(repr, strangers)) or 'nobody'} is no client: name clients of the run "
            f"({named}), or give a number of them"
        )
    twice = [name for name, times in Counter(workers).items() if times > 1]
    if twice:
        raise InputError(f"workers: {', '.join(map(repr, twice))} is named twice: name every worker once")
    return tuple(c for c in clients if c in set(workers))


def check_enough_workers(workers: Workers, seats: int, ell: int, t: int, corrected: int) -> None:
    """Raises InputError for fewer workers than the code needs."""
    needed = 2 * (ell + t - 1) + 1 + 2 * corrected
    if workers is not None and seats < needed:
        raise InputError(
            f"workers={workers if isinstance(workers, int) else seats}: ell={ell}, t={t} needs "
            f"2*(ell+t-1)+1+2*corrected = {needed} of them, and one more for each that may be lost. Name "
            "more workers, or lower t or ell"
        )


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """Cost of messages between the parties, by which protocols weigh rounds against bytes.

    Parameters
    ----------
    latency
        Seconds until a message arrives, from 0 on.
    bandwidth
        Bytes per second of all parties together, above 0.

    Raises
    ------
    InputError
        For a value that is no number, or out of its range.

    Examples
    --------
    >>> Network(latency=0.05, bandwidth=1e6).seconds(rounds=10, nbytes=2_000_000)
    2.5
    """

    latency: float = 0.02
    bandwidth: float = 12.5e6

    def __post_init__(self) -> None:
        check_fields(self, {"latency": REAL, "bandwidth": REAL})
        if not 0 <= self.latency < math.inf:
            raise InputError(f"latency={self.latency}: seconds from 0 on are needed, as latency=0.02")
        if not 0 < self.bandwidth < math.inf:
            raise InputError(
                f"bandwidth={self.bandwidth}: bytes a second above 0 are needed, as bandwidth=12.5e6 for 100 "
                "Mbit/s"
            )

    def seconds(self, rounds: int, nbytes: int) -> float:
        """What so many rounds and bytes take."""
        return rounds * self.latency + nbytes / self.bandwidth


# --------------------------------------------------------------------------------------------------

# What distances are measured to.
Centers = Literal["exact", "rounded"]

FOLDER = ValueKind(
    "a folder that is there",
    'Pass its path, such as "/scratch", or None to hold shares in memory',
    lambda v: str(v) if isinstance(v, str | Path) and Path(v).is_dir() else None,
    none=True,
)
CONSENT = ValueKind(
    "True, False or names of clients",
    'Pass True, or a tuple such as ("client-0", "client-1")',
    lambda v: v if isinstance(v, bool | tuple) else tuple(v) if isinstance(v, list) else None,
)


@accept_old_names(max_cheaters="corrected")
@dataclass(frozen=True)
class Threshold(ParameterGroup):
    """How many clients may collude or deviate, and how points are cut into segments.

    Parameters
    ----------
    t
        Colluding clients tolerated (threshold t); any t + 1 clients may read all that others share.  None
        chooses the most that the clients allow, up to a third of them (`secfc.coded_kmeans.parameters`).
    ell
        Segments into which a point is cut (packing factor), from 1 on.  More segments mean less work and
        traffic, and no more privacy: t + 1 colluding clients can read small or categorical values with any
        ell.
    corrected
        Clients that may deviate, computing or dealing falsely, and whose replies are corrected: the run goes
        on and labels stay exact.  Clients whose false replies are decoded, or whose dealt shares are checked,
        are named and excluded; a false reply that is not needed may stay unnoticed.  Needs `Open()`
        membership and `Distances()`.
    deviating
        Clients that may deviate while a committee compares, from 0 to t, and learn nothing more: they are
        noticed and the run ends, before a false label, as deviating + 1 clients play each part.  With 0 one
        client that deviates can read the others' rows.  More than 0 needs a committee; without a dealer it is
        1 at most, and takes 2 t + 2 clients, all of whom compare.  None chooses 1 where t > 0 and there are
        enough clients (t + 2 besides a dealer, 2 t + 2 without one), else 0.

    Raises
    ------
    InputError
        For a value that is no whole number.

    Notes
    -----
    At least 2 (ell + t - 1) + 1 + 2 corrected computing clients are needed.

    Examples
    --------
    >>> Threshold(t=3)
    Threshold(t=3, ell=1, corrected=0, deviating=None)
    """

    t: int | None = None
    ell: int = 1
    corrected: int = 0
    deviating: int | None = None

    def __post_init__(self) -> None:
        check_fields(
            self,
            {
                "t": optional_kind(WHOLE, "chosen for the number of clients"),
                "ell": WHOLE,
                "corrected": WHOLE,
                "deviating": optional_kind(WHOLE, "chosen for the clients and the policy"),
            },
        )


def parse_threshold(value: Any) -> Threshold:
    """The threshold that a number of colluding clients stands for, or the given one.  Raises InputError."""
    if isinstance(value, Threshold):
        return value
    if value is None or WHOLE.taken(value) is not None:
        return Threshold(value)
    raise InputError(
        f"threshold={format_value(value)}: a number of colluding clients, or a Threshold, is needed. Pass 3, "
        "or Threshold(t=3, ell=2)"
    )


@dataclass(frozen=True)
class Quantization(ParameterGroup):
    """Fixed-point precision: how points become integers, and up to which cluster size distances are exact.

    Parameters
    ----------
    scale
        Integers per data unit, positive; None for the finest that two RNS channels hold (three, if distances
        are compared).
    basis
        Primes of the residues; None chooses them.  `Basis((MERSENNE_61,))` is the paper's field, for
        `Distances()`.
    rounding
        "nearest", or "floor" (eq. (3) of the paper).
    largest
        Number of points of the largest cluster for which distances are exact; None for all m.  A smaller
        number (if distances are compared unseen, below m / 2) allows a finer automatic scale.  A run in which
        a cluster outgrows it ends with RangeExceeded.
    centers
        "exact" measures distances to means as fractions.  "rounded" measures them to means on a grid of 1/16
        step of the data, ties up, each coordinate rounded by the committee: about half the work and traffic
        with many points.  Labels then equal those of `Lloyd` with rounded centers, bit for bit, not those of
        exact k-means; opened costs refer to rounded centers, opened means are exact.  "rounded" needs a
        policy with a dealer that opens labels or sizes.
    coarse
        What happens if rounding leaves a feature fewer than 8 steps of its spread (`secfc.data.resolution`):
        "refuse" raises InputError, "warn" warns as it does below 64 steps, "allow" does neither.  Each party
        chooses for itself.

    Raises
    ------
    InputError
        For a value of another kind, or an unknown word.

    Examples
    --------
    >>> Quantization(scale=1000.0).rounding
    'nearest'
    """

    scale: float | None = None
    basis: Basis | None = None
    rounding: Any = "nearest"
    largest: int | None = None
    centers: Centers = "exact"
    coarse: Coarse = field(default="refuse", repr=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        check_coarse(self.coarse)
        check_fields(
            self,
            {
                "scale": optional_kind(REAL, "the finest that fits"),
                "basis": optional_kind(instance_of(Basis, "Basis((MERSENNE_61,))"), "chosen"),
                "largest": optional_kind(WHOLE, "all points"),
            },
        )
        if self.rounding not in ("nearest", "floor"):
            raise InputError(f"rounding={format_value(self.rounding)} must be 'nearest' or 'floor'")
        if self.centers not in get_args(Centers):
            raise InputError(
                f'centers={self.centers!r} is unknown: use "exact", the means as fractions, or "rounded", '
                "the nearest points of a grid, which is faster"
            )


@dataclass(frozen=True)
class Runtime(ParameterGroup):
    """Who computes, over which network and with which resources; no value changes a label.

    Parameters
    ----------
    threads
        Processor threads for distances and decoding, from 1 on.  Each party chooses for itself.
    network
        Latency and bandwidth between the parties.  Where clients compare for a dealer, the protocol compares
        centers in the order that costs least on this network.
    workers
        Clients that hold shares and compute: their names, or a number that is spread evenly over the clients;
        None for all.  At least 2 (ell + t - 1) + 1 are needed, and one more for each that may be lost.  All
        other clients share their rows, receive the labels of these rows and the sizes in the end, and may
        leave in between; t counts colluding workers, and any number of the others may join them.
    scratch
        Folder on a fast disk for a client's shares, instead of memory (`field.code.rows`).  Each party
        chooses for itself.

    Raises
    ------
    InputError
        For a value of another kind, or a folder that does not exist.

    Examples
    --------
    >>> Runtime(workers=13).workers
    13
    """

    # What is LOCAL does not name a run either: it may change when that resumes.
    threads: int = field(default=1, repr=False, metadata=LOCAL)
    network: Network = Network()
    workers: Workers = None
    scratch: str | None = field(default=None, repr=False, metadata=LOCAL)

    def __post_init__(self) -> None:
        check_fields(
            self,
            {
                "threads": COUNT,
                "network": instance_of(Network, "Network(latency=0.02)"),
                "workers": WORKERS,
                "scratch": FOLDER,
            },
        )


@dataclass(frozen=True)
class Release(ParameterGroup):
    """What is opened of the centers at the end, and by labels of new points.

    Parameters
    ----------
    reveal_centers
        True, or the names of at least ell + t clients that consent to open the centers; False hides them.
        That many clients are needed to compute centers, but t + 1 colluding clients can read small or
        categorical values without consent.
    smallest_center
        Number of points of the smallest cluster whose center is opened; centers of smaller clusters are rows
        of NaN.  The center of one point is that point, and the owner of one of two points can compute the
        other.
    predictions
        Number of new points that may be labeled after the run; None for ten times the points of the run.
        Each label of a chosen point tells on which side of a hyperplane between two hidden centers it lies:
        enough labels determine the centers.
    dendrogram
        Whether the server learns at the end the cost of merging each two clusters, from which hierarchies
        (`Clustering.dendrogram`, `cut`) and distances between centers follow.

    Raises
    ------
    InputError
        For a value of another kind.

    Examples
    --------
    >>> Release(reveal_centers=True, smallest_center=10)
    Release(reveal_centers=True, smallest_center=10, predictions=None, dendrogram=False)
    """

    reveal_centers: bool | tuple[PartyId, ...] = False
    smallest_center: int = 3
    predictions: int | None = None
    dendrogram: bool = False

    def __post_init__(self) -> None:
        check_fields(
            self,
            {
                "reveal_centers": CONSENT,
                "smallest_center": WHOLE,
                "predictions": optional_kind(WHOLE, "ten times as many as points"),
                "dendrogram": SWITCH,
            },
        )
