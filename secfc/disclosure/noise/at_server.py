"""Noise that the server adds to what it decodes: protects what is published, not from the server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from field.ring.basis import Basis
from field.ring.noise import DISTANCE, rounded_gaussian
from field.secrets.coins import Coins
from secfc.coded.messages import CodedCenters, RevealCenters
from secfc.coded.plan import CodedPlan
from secfc.coded.policy import ClientPolicy, DecodedAnswers, PolicyCapabilities
from secfc.coded.queries import Operation
from secfc.coded.quorum import CheaterIdentification, Quorum, ServerContext
from secfc.coded.sharing import pair_keys
from secfc.coded.source import CodedSource, decoding_source
from secfc.disclosure.decoded.distances import Distances, MaskedQuorum
from secfc.disclosure.decoded.replies import masked_reply
from secfc.disclosure.noise.budgeted import BudgetedPolicy, ReleaseCounts
from secfc.disclosure.noise.noise import Noise
from secfc.privacy.calibration import split_budget
from secfc.privacy.events import (
    Composed,
    Event,
    NonPrivate,
    RoundedGaussian,
)
from secfc.privacy.ledger import Ledger
from secfc.roles.exchange import SERVER, PartyId, Role

Array = NDArray[Any]


@dataclass(frozen=True)
class NoiseAtServer(BudgetedPolicy):
    """Policy by which the server adds noise to the distances it decodes, and to the centers it publishes.

    Parameters
    ----------
    budget
        For everything that clients and the public see: labels and centers.
    radius
        Length that no point exceeds, in data units; longer ones are shortened before they are shared.
    neighbors
        Replace one data point, or one client.
    center_share
        Part of the budget, in (0, 1), for centers if they are opened.
    colluding
        As in `Distances`.

    Warnings
    --------
    The server itself sees exact distances, and exact cluster sums if they are opened: for its view the run is
    not private.

    Notes
    -----
    Noise is rounded Gaussian, accounted as the continuous one.
    """

    capabilities: ClassVar[PolicyCapabilities] = PolicyCapabilities("distances", exact=False)

    colluding: int = 1

    def contributors(self, n: int) -> int:
        return 1

    def noise(self, steps: ReleaseCounts, radius: int) -> Noise:
        each = split_budget(self.budget, self.weights(steps))
        return Noise(rounded_gaussian, self.neighbors, radius, each[0], each[-1])

    def deviation(self, plan: CodedPlan, labels: Array, k: int) -> float:
        return 0.0  # the server sees exact distances

    def released(self, plan: CodedPlan) -> Event:
        steps = self.steps(plan)
        noise = self.noise(steps, 1)
        asked = RoundedGaussian(noise.distances, plan.m * plan.k * DISTANCE)
        opened = RoundedGaussian(noise.sums, plan.k * plan.d * DISTANCE)
        return Composed((asked,) * steps.questions + (opened,) * steps.centers)

    def client(self, plan: CodedPlan, name: PartyId, *, coins: Coins) -> Role[ClientPolicy]:
        keys = yield from pair_keys(plan, name, coins)
        return DecodedAnswers(partial(masked_reply, plan, plan.clients.index(name), keys, self.colluding))

    def open_centers(
        self,
        plan: CodedPlan,
        name: PartyId,
        question: RevealCenters,
        compute: Callable[[], Array],
        coins: Coins,
    ) -> Role[CodedCenters | None]:
        return Distances().open_centers(plan, name, question, compute, coins)

    def server(
        self, plan: CodedPlan, screening: CheaterIdentification, *, coins: Coins, threads: int
    ) -> Role[CodedSource]:
        yield from ()
        noise = self.noise(self.steps(plan), plan.radius)
        return decoding_source(
            NoisyQuorum(MaskedQuorum(ServerContext(plan, screening)), noise, coins), threads
        )

    def ledger(self, plan: CodedPlan) -> Ledger:
        ledger = self._ledger(plan, "noise added by the server")
        return ledger.record(NonPrivate(), what="exact distances in every iteration", seen_by=SERVER)

    def learned(self, plan: CodedPlan) -> tuple[str, ...]:
        return (
            *Distances(colluding=self.colluding).learned(plan),
            "noise protects what it publishes, not what it sees itself",
        )


# --- server --------------------------------------------------------------------------------------


class NoisyQuorum(Quorum):
    """Replies of exact distances to which the server adds noise before it compares them."""

    def __init__(self, responders: MaskedQuorum, noise: Noise, coins: Coins) -> None:
        super().__init__(responders.desk)
        self.responders, self.noise, self.coins = responders, noise, coins

    def ask_distances(
        self, labels: Array, k: int, basis: Basis, operation: Operation = Operation.DISTANCE
    ) -> Role[dict[int, Array]]:
        """Replies of which one carries the noise, weighted such that decoding adds it once."""
        values = yield from self.responders.ask_distances(labels, k, basis)
        chosen, weights = self.plan.code.decoding_weights(tuple(sorted(values)), 2)
        noise = self.noise.draw_distances(basis, self.plan.layout, labels, k, coins=self.coins)
        # Some 30-bit weight is zero with probability 2**-30: another reply then carries the noise.
        q = int(np.argmax((weights[: basis.lanes] != 0).all(axis=0)))
        inverse = [pow(int(w), -1, p) for w, p in zip(weights[:, q], basis.primes, strict=False)]
        share = basis.multiply(noise, np.array(inverse, basis.dtype).reshape(-1, 1, 1))
        values[chosen[q]] = basis.add(values[chosen[q]], share)
        return values

    def offset(self, labels: Array, k: int) -> int:
        return self.noise.offset(self.noise.on_distances(self.plan.layout, labels, k))

    def ask_sums(self, labels: Array, k: int) -> Role[Array]:
        sums = yield from super().ask_sums(labels, k)
        basis = self.plan.code.basis
        noise = self.noise.draw_sums(basis, self.plan.layout, labels, k, self.plan.d, coins=self.coins)
        return np.asarray(sums + basis.lift_signed(noise))
