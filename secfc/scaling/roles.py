"""Finding a common scale: role fragments that run before a clustering, over secure sums that clients open.

    1  all                  agree on the plan
    2  clients, one sum     of every feature: is any |x| above 2**e?  (a disjunction for every e)
    3  clients, one sum     of every feature: how many values, their sum and their squares', as integers
    4  clients              compare a digest of what they opened

By quartiles (`secfc.scaling.quartiles`) STEPS sums of counts below thresholds stand for 2 and 3.

The server helps to add and learns who takes part, nothing of the sums.  A feature that one client alone
observes is scaled at home: it is in no sum.  Under a budget of differential privacy (`secfc.scaling.noisy`)
ranges are public, so step 2 is left out, and the sums of step 3 are noisy.
"""

from __future__ import annotations

import hashlib
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.secrets.coins import Coins
from secfc.algorithm import PublicFacts
from secfc.data.federation import Federation
from secfc.data.party import Party, raw_blocks
from secfc.errors import Caution, InputError
from secfc.roles.agreement import agree
from secfc.roles.blame import suspect_parties
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms, description_digest
from secfc.roles.exchange import PREPARE, SERVER, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import Message, refuse_if
from secfc.scaling import moments, noisy
from secfc.scaling.noisy import NoisyScaling, NoisyStandardize, ScaleNoise
from secfc.scaling.quartiles import (
    STEPS,
    QuantileSearch,
    are_counts,
    check_present,
    search_quantiles,
    sorted_keys,
)
from secfc.scaling.scaling import Scaling
from secfc.scaling.ways import Standardize, is_robust
from secfc.secure_sum.protocol import (
    COMMITTEE,
    ROUNDS,
    SumPlan,
    encode_disjunction,
    last_round,
    open_sum,
    settle_sum,
)

MAGNITUDES, MOMENTS = PREPARE + 1, PREPARE + 1 + ROUNDS
PHASE = "scale"
# Of a disjunction, which is wrong with probability 1 / modulus: about 2**-60.
WIDE = 1 << 40


class OpenedSumsDigest(Message, tag=90):
    """Client to client, before a clustering: a digest of the sums that it opened to scale features.

    Under "secure sums and FedDP-KMeans": client, client.  Seen: where [features are
    scaled](../scaling/README.md): a digest of the sums, which every client has.  By deviating: another
    digest: the run ends before a point is shared, suspicion of the committee.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")


@dataclass(frozen=True)
class ScaledPlan(DescribedPlan):
    """Public parameters of finding a scale, and the plan of the clustering after it.

    observed: of each client the numbers of its features, None if all have all d.  fixed: the scaling where it
    needs no data.  magnitudes, sums: the secure sums, None where nothing is summed.  bits: of an integer.
    noise: on the sums, where a part of a budget pays for them, else None.
    """

    clients: tuple[PartyId, ...]
    d: int
    observed: tuple[tuple[int, ...], ...] | None
    fixed: Scaling | None
    magnitudes: SumPlan | None
    sums: SumPlan | None
    bits: int
    inner: Any = field(compare=False, repr=False, metadata=LOCAL)
    terms: RunTerms = field(compare=False, repr=False, metadata=LOCAL)
    noise: ScaleNoise | None = None

    @classmethod
    def of(
        cls, way: Any, public: PublicFacts, inner: Any, terms: RunTerms, fixed: Scaling | None, t: int
    ) -> ScaledPlan:
        """t: clients that may collude.  Raises InputError where a sum would tell one client of the other."""
        n = len(public.clients)
        plan = cls(
            public.clients, public.d, public.observed, fixed, None, None, moments.bits_for(n), inner, terms
        )
        if fixed is not None or not plan.shared:
            return plan
        if is_robust(way):
            return replace(plan, sums=sums_for(public, moments.ROWS, t), bits=0)
        bound = moments.ROWS << 2 * plan.bits
        sums = sums_for(public, bound, t) if way.degree else None
        return replace(plan, magnitudes=sums_for(public, WIDE, t), sums=sums)

    @classmethod
    def under(cls, noise: ScaleNoise, public: PublicFacts, inner: Any, terms: RunTerms, t: int) -> ScaledPlan:
        """The plan where a part of a budget pays for the scale: one sum, with noise."""
        bound = 2 * moments.ROWS * noisy.STEPS + noise.largest
        sums = sums_for(public, bound, t)
        return cls(public.clients, public.d, None, None, None, sums, 0, inner, terms, noise)

    @cached_property
    def shared(self) -> tuple[int, ...]:
        """Features that are summed: those that several clients observe."""
        if self.observed is None:
            return tuple(range(self.d)) if len(self.clients) > 1 else ()
        holders = Counter(feature for columns in self.observed for feature in columns)
        return tuple(i for i in range(self.d) if holders[i] > 1)

    @property
    def most_rows(self) -> int:
        """What clients have together at most, where row counts are public the number itself."""
        counted = self.terms.way.capabilities.counted
        return sum(self.terms.public.counts) if counted else len(self.clients) * moments.ROWS

    @property
    def moments_round(self) -> int:
        """The round with which the sum of moments begins: after all waves of the one before."""
        return MOMENTS if self.magnitudes is None else last_round(self.magnitudes, MAGNITUDES) + 1

    @property
    def digests_round(self) -> int:
        """The round of digests, after all sums."""
        return (
            self.moments_round + ROUNDS
            if self.sums is None
            else last_round(self.sums, self.moments_round) + 1
        )

    def columns(self, name: PartyId) -> tuple[int, ...]:
        """The numbers of a client's features, in the order of its columns."""
        if self.observed is None:
            return tuple(range(self.d))
        return self.observed[self.clients.index(name)]


def sums_for(public: PublicFacts, bound: int, t: int) -> SumPlan:
    """A secure sum that clients open.  Raises InputError where it would tell one client of the other."""
    n = len(public.clients)
    if n < 3:
        raise InputError(
            f"n={n} clients cannot scale features by a secure sum: of two, each would read the other's "
            "mean off it",
            [("ranges", ..., "give public ranges"), "add a client"],
        )
    committee = min(n, max(COMMITTEE, 2 * t + 1))
    return SumPlan.of(public.clients, bound, committee=committee, t=min(t, (n - 1) // 2))


def scale_at_client(way: Any, plan: ScaledPlan, party: Party, *, coins: Coins) -> Role[Scaling]:
    """The scaling that all clients find together; NaN for features that others observe alone."""
    me, features = party.name, plan.terms.public.features
    yield from agree(plan, me, number=PREPARE)
    if plan.fixed is not None:
        return plan.fixed
    if party.points.shape[0] > moments.ROWS:
        raise InputError(f"client {me!r} has more than {moments.ROWS} rows: split it")
    mine, shared = list(plan.columns(me)), list(plan.shared)
    summed = mine  # but for those of which others were told too little

    def blocks() -> Iterator[Array]:
        return (block for _, block in raw_blocks(party.points))

    exponents = np.full(plan.d, moments.LEAST, np.int64)
    exponents[mine] = moments.feature_exponents(blocks(), len(mine), f"client {me!r}")
    if plan.magnitudes is not None:
        bits = moments.exponent_bits(exponents[shared])
        hidden = encode_disjunction(plan.magnitudes, bits.reshape(-1), coins)
        sums = yield from open_sum(plan.magnitudes, me, hidden, MAGNITUDES, coins, phase=PHASE)
        exceeded = np.asarray(sums.any(axis=0))
        opened = moments.decode_thermometers(exceeded.reshape(bits.shape))
        if (opened < exponents[shared]).any():
            summed = [i for i in mine if i not in shared]
            warnings.warn(
                f"client {me!r}: what it shared to find the scale of features was lost, so the scale is of "
                "the others' values; what of its own lies beyond the limit is treated as ever",
                Caution,
                stacklevel=2,
            )
        exponents[shared] = opened
    totals = np.zeros((plan.d, 3), object)
    if way.degree:
        places = [mine.index(i) for i in summed]
        parts = (block[:, places] for block in blocks())
        totals[summed] = moments.integer_moments(parts, exponents[summed], plan.bits)
        totals[:, way.degree + 1 :] = 0
    if plan.sums is not None:
        residues = plan.sums.code.basis.reduce(totals[shared].reshape(-1))
        sums = yield from open_sum(plan.sums, me, residues, plan.moments_round, coins, phase=PHASE)
        totals[shared] = plan.sums.code.basis.lift_signed(sums).reshape(-1, 3)
    if plan.magnitudes is not None:
        yield from compare_digests(
            plan, plan.magnitudes.committee, me, exponents[shared], totals[shared], plan.digests_round
        )
        check_possible(plan, way.degree, totals[shared])
    elsewhere = np.ones(plan.d, bool)
    elsewhere[mine + shared] = False
    totals[elsewhere] = (1, 0, 0)
    found = way.scaling(exponents, totals, plan.bits, features)
    check_constant(found.among(plan.columns(me)), party)
    return blank_features(found, np.flatnonzero(elsewhere).tolist())


def scale_by_quartiles_at_client(
    way: Standardize, plan: ScaledPlan, party: Party, *, coins: Coins
) -> Role[Scaling]:
    """The scaling that all clients find together by counts; NaN for features that others observe alone."""
    me, features = party.name, plan.terms.public.features
    yield from agree(plan, me, number=PREPARE)
    if plan.fixed is not None:
        return plan.fixed
    if party.points.shape[0] > moments.ROWS:
        raise InputError(f"client {me!r} has more than {moments.ROWS} rows: split it")
    mine, shared = list(plan.columns(me)), list(plan.shared)
    known = sorted({*mine, *shared})
    keys = client_keys(plan, party)
    search, number, opened = QuantileSearch.of_features(plan.d), MAGNITUDES, list[Array]()
    for _ in range(STEPS):
        totals = search.counts(keys)
        if plan.sums is not None:
            totals[shared] = yield from open_counts(plan, plan.sums, me, totals[shared], number, coins)
            number = last_round(plan.sums, number) + 1
            opened.append(totals[shared])
        check_present(totals, known, features)
        search = search.narrowed(totals)
    if plan.sums is not None:
        none = np.zeros(0, np.int64)
        yield from compare_digests(plan, plan.sums.committee, me, none, np.stack(opened), number)
    found = way.scaling_by_quartiles(search, features)
    return blank_features(found, sorted({*range(plan.d)} - {*known}))


def open_counts(
    plan: ScaledPlan, sums: SumPlan, me: PartyId, own: Array, number: int, coins: Coins
) -> Role[Array]:
    """Counts (features, WIDTH) int64 of all clients, of own ones.  Raises SuspectedParties, everybody."""
    residues = sums.code.basis.reduce(own.reshape(-1))
    opened = yield from open_sum(sums, me, residues, number, coins, phase=PHASE)
    found = np.asarray(sums.code.basis.lift_signed(opened)).reshape(own.shape)
    if not are_counts(found, plan.most_rows):
        raise suspect_parties(
            "CodedSum", "no rows have the counts that were opened", clients=plan.clients, server=SERVER
        )
    return found.astype(np.int64)


def client_keys(plan: ScaledPlan, party: Party) -> list[Array]:
    """Sorted keys of a client's values of every feature, none of those that it does not observe."""
    mine = plan.columns(party.name)

    def blocks() -> Iterator[Array]:
        return (block for _, block in raw_blocks(party.points))

    moments.feature_exponents(blocks(), len(mine), f"client {party.name!r}")  # which refuses what has no key
    keys = [np.zeros(0, np.int32)] * plan.d
    for i, own in zip(mine, sorted_keys(blocks(), len(mine)), strict=True):
        keys[i] = own
    return keys


def noisy_scale_at_client(
    way: NoisyStandardize, plan: ScaledPlan, party: Party, *, coins: Coins
) -> Role[NoisyScaling]:
    """The scaling that all clients find together from noisy sums within public ranges."""
    me, features = party.name, plan.terms.public.features
    if (noise := plan.noise) is None or (sums := plan.sums) is None:
        raise ValueError("this plan has no noise: make it with `plan` of the same algorithm")
    yield from agree(plan, me, number=PREPARE)
    if party.points.shape[0] > moments.ROWS:
        raise InputError(f"client {me!r} has more than {moments.ROWS} rows: split it")
    within, summed = way.within(features, plan.d), list(way.summed(features, plan.d))

    def parts() -> Iterator[tuple[Array, Array]]:
        for first, block in raw_blocks(party.points):
            values = within.forward(block, f"client {me!r}", first)
            yield values[:, summed], ~np.isnan(block[:, summed].astype(np.float64))

    own = noisy.add_noise_part(noisy.client_statistics(parts(), noise.kinds, noise.features), noise, coins)
    residues = sums.code.basis.reduce(own)
    opened = yield from open_sum(sums, me, residues, plan.moments_round, coins, phase=PHASE)
    totals = sums.code.basis.lift_signed(opened).astype(object)
    yield from compare_digests(plan, sums.committee, me, np.zeros(0, np.int64), totals, plan.digests_round)
    check_possible(plan, 0, np.array([[int(totals[0]), 0, 0]], object))
    return noisy.scaling_from_sums(way, noise, totals, features, plan.d)


def check_possible(plan: ScaledPlan, degree: int, totals: Array) -> None:
    """Raises SuspectedParties, everybody, for moments (features, 3) that no rows have, as far as summed."""
    for count, total, squares in totals.tolist():
        possible = 0 <= count <= moments.ROWS * len(plan.clients) and abs(total) <= count << plan.bits
        if degree == 2:
            possible = possible and total * total <= count * squares <= count * count << 2 * plan.bits
        if not possible:
            raise suspect_parties(
                "CodedSum", "no rows have the sums that were opened", clients=plan.clients, server=SERVER
            )


def compare_digests(
    plan: Any, committee: tuple[PartyId, ...], me: PartyId, exponents: Array, totals: Array, number: int
) -> Role[None]:
    """Raises SuspectedParties if another client opened other sums: who added them, or said whose to add."""
    state = hashlib.blake2b(description_digest(plan.description), digest_size=32, person=b"secfc scales")
    state.update(repr((exponents.tolist(), totals.tolist())).encode())
    others = tuple(c for c in plan.clients if c != me)
    sent = to_all(others, OpenedSumsDigest(state.digest()))
    inbox = expect_messages((yield Exchange(sent, others, 0, round=number, phase=PHASE)), OpenedSumsDigest)
    if any(message.digest != state.digest() for message in inbox.values()):
        why = "clients opened different sums of the same features"
        raise suspect_parties("OpenedSumsDigest", why, committee=committee, server=SERVER)


def help_to_scale(plan: ScaledPlan) -> Role[None]:
    """The server's part: it learns who takes part."""
    yield from agree(plan, SERVER, number=PREPARE)
    if plan.magnitudes is not None:
        yield from settle_sum(plan.magnitudes, MAGNITUDES, phase=PHASE)
    if plan.sums is not None:
        number = plan.moments_round if plan.magnitudes is not None or plan.noise is not None else MAGNITUDES
        for _ in range(STEPS if number == MAGNITUDES else 1):
            yield from settle_sum(plan.sums, number, phase=PHASE)
            number = last_round(plan.sums, number) + 1


def plaintext_scaling(way: Any, plan: ScaledPlan, federation: Federation) -> Scaling:
    """The scaling that the clients of a federation find, for a process that sees all data: the oracle."""
    if is_robust(way):
        return plaintext_quartiles(way, plan, federation)
    exponents = np.full(plan.d, moments.LEAST, np.int64)
    totals = np.zeros((plan.d, 3), object)
    for party in federation.parties:
        mine, blocks = list(plan.columns(party.name)), raw_blocks(party.points)
        own = moments.feature_exponents((block for _, block in blocks), len(mine), f"client {party.name!r}")
        exponents[mine] = np.maximum(exponents[mine], own)
    for party in federation.parties if way.degree else ():
        mine, blocks = list(plan.columns(party.name)), raw_blocks(party.points)
        totals[mine] += moments.integer_moments((block for _, block in blocks), exponents[mine], plan.bits)
    totals[:, way.degree + 1 :] = 0
    scaling: Scaling = way.scaling(exponents, totals, plan.bits, federation.feature_names)
    for party in federation.parties:
        check_constant(scaling.among(plan.columns(party.name)), party)
    return scaling


def plaintext_quartiles(way: Standardize, plan: ScaledPlan, federation: Federation) -> Scaling:
    """The scaling by quartiles that the clients find, for a process that sees all data."""
    each, names = [client_keys(plan, party) for party in federation.parties], federation.feature_names
    keys = [np.sort(np.concatenate(own)) for own in zip(*each, strict=True)]
    check_present(np.array([[len(own)] for own in keys]), list(range(plan.d)), names)
    return way.scaling_by_quartiles(search_quantiles(keys), names)


def check_constant(own: Scaling, party: Party) -> None:
    """Raises InputError for a feature whose values differ by less than the integers that were summed show."""
    columns = list(own.constant)
    if not columns:
        return
    low, high = np.full(len(columns), np.inf), np.full(len(columns), -np.inf)
    for _, block in raw_blocks(party.points):
        low = np.fmin(low, np.fmin.reduce(block[:, columns], axis=0))
        high = np.fmax(high, np.fmax.reduce(block[:, columns], axis=0))
    if (low < high).any():
        feature = columns[int(np.flatnonzero(low < high)[0])]
        raise InputError(
            f"client {party.name!r}, feature {feature} (counted from 0): its values differ by less than the "
            "integers show that its largest value leaves room for. Subtract what all its values have in "
            "common, or correct an outlier"
        )


def blank_features(found: Scaling, features: list[int]) -> Scaling:
    """The scaling with NaN for these features."""

    def blanked(values: tuple[float, ...]) -> tuple[float, ...]:
        return tuple(np.nan if i in features else value for i, value in enumerate(values))

    if not features:
        return found
    fill = None if found.fill is None else blanked(found.fill)
    return replace(found, centers=blanked(found.centers), units=blanked(found.units), fill=fill)
