"""What clusters are, over all clients: sizes, means and deviations by secure sums, with a floor on rows.

    1  all                  agree on the plan
    2  clients, one sum     how many rows each cluster has, and how many rows have no label
    3  clients, one sum     of each cluster with enough rows, and feature: the sum and the squares' sum
    4  clients              compare a digest of what they opened

Every client brings labels of its own rows, however it came by them: of a run, or of new rows.  Means of
clusters are their centers, so it takes the consent that opening centers does.  Clients learn sizes of all
clusters, and exact means and deviations of those of at least `smallest_center` rows; what is left over is no
row or as many, since who knows the mean of all rows, as of a common scale, would read the rest off the
difference.
The server helps to add and learns who takes part.  A median is no sum, and not told.

Sums are exact integers, of values as multiples of 2**(e - bits) with 2**e the least power of two that the
public bound does not exceed; means and deviations are the doubles nearest to what follows from them.

What a client can do by deviating: rows of its invention count towards the floor, so with as many
it reads the sum of however few rows others have in a cluster; t clients that subtract their own do the same.
False sums make any mean, unnoticed, but for those that no rows have.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins
from secfc.algorithm import Capabilities, Clustering, PartyOutcome, PublicFacts, join_outcomes
from secfc.data.clusters import ClusterProfile
from secfc.data.federation import Federation
from secfc.data.party import Party
from secfc.errors import InputError
from secfc.privacy.events import NonPrivate
from secfc.privacy.ledger import Ledger
from secfc.roles.agreement import agree
from secfc.roles.blame import suspect_parties
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import PREPARE, SERVER, PartyId, Role, SimulatedRun
from secfc.scaling import moments
from secfc.scaling.roles import MAGNITUDES, PHASE, compare_digests, sums_for
from secfc.secure_sum.protocol import SumPlan, last_round, open_sum, settle_sum

OPENED = (
    "of every cluster the number of its rows, and of those with enough the mean and deviation of features"
)


def labeled_rows(federation: Federation, labels: list[Array]) -> Federation:
    """A federation with the label of every row, -1 for none, as its last feature: for `SharedProfile`.

    labels: (m_j,) of each client, as `Clustering.labels` or what `predict` gives.
    """
    parts = {
        party.name: np.column_stack([party.read(), own])
        for party, own in zip(federation.parties, labels, strict=True)
    }
    names = federation.feature_names
    return Federation.from_arrays(parts, features=None if names is None else [(*names, "label")] * len(parts))


def told_clusters(sizes: Array, rows: int, smallest: int) -> Array:
    """Whether the sums of clusters (k,) are opened: of enough rows, and rows left over are none or enough."""
    told = np.asarray(sizes) >= smallest
    while told.any() and 0 < rows - int(sizes[told].sum()) < smallest:
        told[int(np.where(told, sizes, np.inf).argmin())] = False
    return told


@dataclass(frozen=True)
class ProfilePlan(DescribedPlan):
    """Public parameters: d features, k clusters, the floor, the exponent of values, and the secure sum."""

    clients: tuple[PartyId, ...]
    k: int
    d: int
    smallest: int
    exponent: int
    bits: int
    sums: SumPlan
    terms: RunTerms = field(compare=False, repr=False, metadata=LOCAL)

    @property
    def second(self) -> int:
        """The round of the second sum."""
        return last_round(self.sums, MAGNITUDES) + 1


@dataclass(frozen=True)
class SharedProfile:
    """What k clusters are, over all clients: an algorithm for `fit` and for sites, on `labeled_rows`.

    smallest_center: rows of a cluster whose means are opened, at least 2.  reveal_centers: means of clusters
    are their centers, so it must be given.  t: clients that may collude and learn the sums alone.
    """

    k: int
    smallest_center: int = 10
    reveal_centers: bool = False
    t: int = 1

    @property
    def capabilities(self) -> Capabilities:
        """How many clients may collude: nothing else is asked of a profile."""
        return Capabilities(threshold=lambda clients: self.t)

    def plan(self, public: PublicFacts) -> ProfilePlan:
        """Raises InputError without consent, and where a sum would tell one client of the other."""
        if not self.reveal_centers:
            raise InputError(
                "means of clusters are their centers, which are not opened unasked",
                [("reveal_centers", True, "where all sites agree to open them")],
            )
        if self.smallest_center < 2 or self.k < 1 or public.d < 2:
            raise InputError(
                f"k={self.k}, smallest_center={self.smallest_center} and {public.d} columns: at least one "
                "cluster, 2 rows of a cluster, and a feature beside the labels are needed"
            )
        bits = moments.bits_for(len(public.clients))
        exponent = max(moments.LEAST, math.ceil(math.log2(public.bound)))
        sums = sums_for(public, moments.ROWS << 2 * bits, self.t)
        terms = RunTerms(self, public)
        return ProfilePlan(
            public.clients, self.k, public.d - 1, self.smallest_center, exponent, bits, sums, terms
        )

    def client(self, plan: ProfilePlan, party: Party, *, coins: Coins) -> Role[tuple[Array, ClusterProfile]]:
        """Open sizes, then sums of clusters with enough rows."""
        plan.terms.check(self)
        me, rows = party.name, np.asarray(party.read(), np.float64)
        values, labels = rows[:, :-1], rows[:, -1].astype(np.int32)
        if (labels != rows[:, -1]).any() or (labels < -1).any() or (labels >= plan.k).any():
            raise InputError(f"client {me!r}: labels are whole numbers from -1 to {plan.k - 1}: correct them")
        yield from agree(plan, me, number=PREPARE)
        own = np.bincount(labels + 1, minlength=plan.k + 1)
        sizes = yield from _open(plan, me, own, MAGNITUDES, coins)
        if min(sizes) < 0 or sum(sizes) > plan.terms.public.m:
            raise suspect_parties(
                "CodedSum", "no rows have the sizes that were opened", clients=plan.clients, server=SERVER
            )
        told = told_clusters(sizes[1:].astype(np.int64), int(sum(sizes)), plan.smallest)
        exponents, totals = np.full(plan.d, plan.exponent), np.zeros((plan.k, plan.d, 3), object)
        for h in np.flatnonzero(told).tolist():
            totals[h] = moments.integer_moments([values[labels == h]], exponents, plan.bits)
        opened = yield from _open(plan, me, totals.reshape(-1), plan.second, coins)
        totals = opened.reshape(totals.shape)
        after = last_round(plan.sums, plan.second) + 1
        yield from compare_digests(plan, plan.sums.committee, me, sizes, totals, after)
        return labels, profile_of_sums(plan, sizes[1:].astype(np.int64), told, totals)

    def server(self, plan: ProfilePlan, *, rng: Any, coins: Coins) -> Role[None]:
        """Help to add what it does not learn."""
        plan.terms.check(self)
        yield from agree(plan, SERVER, number=PREPARE)
        yield from settle_sum(plan.sums, MAGNITUDES, phase=PHASE)
        yield from settle_sum(plan.sums, plan.second, phase=PHASE)

    def outcome(self, plan: ProfilePlan, party: PartyId, returned: Any) -> PartyOutcome:
        """A client's labels, and the profile as `details`."""
        if party == SERVER:
            return PartyOutcome(party, plan, n_iter=1, converged=True, learned=("who takes part",))
        labels, profile = returned
        return PartyOutcome(party, plan, labels=labels, details=profile, learned=(OPENED,))

    def collect(
        self, outcomes: Mapping[PartyId, PartyOutcome], run: SimulatedRun, counts: tuple[int, ...]
    ) -> Clustering:
        """The labels as they were, and the profile as `details`."""
        clients = tuple(name for name in outcomes if name != SERVER)
        found = join_outcomes(outcomes, run, counts, k=self.k, model=None)
        ledger: Ledger = found.ledger.record(NonPrivate(), what=OPENED, seen_by=clients)
        return replace(found, details=outcomes[clients[0]].details, ledger=ledger)


def _open(plan: ProfilePlan, me: PartyId, own: Array, number: int, coins: Coins) -> Role[Array]:
    """Sums of integers (N,) of all clients, Python integers."""
    residues = plan.sums.code.basis.reduce(own)
    opened = yield from open_sum(plan.sums, me, residues, number, coins, phase=PHASE)
    return np.asarray(plan.sums.code.basis.lift_signed(opened)).astype(object)


def profile_of_sums(plan: ProfilePlan, sizes: Array, told: Array, totals: Array) -> ClusterProfile:
    """What follows from the sums (k, d, 3), NaN for clusters of which none are told.

    Mean and deviation of all are of clusters that are told.  Raises SuspectedParties, everybody, for sums
    that no rows have, as where a client was lost between the two.
    """
    means, deviations = np.full((2, plan.k, plan.d), np.nan)
    for h in np.flatnonzero(told).tolist():
        for f, (count, total, squares) in enumerate(totals[h].tolist()):
            if count != sizes[h] or not 0 <= total * total <= count * squares <= count**2 << 2 * plan.bits:
                raise suspect_parties(
                    "CodedSum", "no rows have the sums that were opened", clients=plan.clients, server=SERVER
                )
            means[h, f], deviations[h, f] = _figures(plan, count, total, squares)
    whole = totals[told].sum(axis=0) if told.any() else np.zeros((plan.d, 3), object)
    every = [_figures(plan, *row) if row[0] else (math.nan, math.nan) for row in whole.tolist()]
    mean, deviation = np.array(every).T
    nothing = np.full((plan.k, plan.d), np.nan)
    names = plan.terms.public.features or tuple(f"feature {f}" for f in range(plan.d + 1))
    return ClusterProfile(
        names[:-1], sizes, means, deviations, nothing, mean, deviation, nothing[:, 0], math.nan
    )


def _figures(plan: ProfilePlan, count: int, total: int, squares: int) -> tuple[float, float]:
    return (
        moments.feature_mean(count, total, plan.exponent, plan.bits),
        moments.feature_deviation(count, total, squares, plan.exponent, plan.bits),
    )
