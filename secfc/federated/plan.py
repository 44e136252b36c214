"""What parties agree on before anything moves: numbers in a sum, and what they mean to whoever hears them."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.quantize import Quantizer
from field.secrets.coins import Coins
from secfc.algorithm import PublicFacts
from secfc.data.inputs import require_library
from secfc.data.party import Party
from secfc.errors import FaultyServer, InputError
from secfc.federated.columns import Columns
from secfc.federated.course import (
    Course,
    Restarts,
    Totals,
    find_light,
    iterate_from_centers,
    iterate_from_labels,
    sample_and_iterate,
    split_and_iterate,
)
from secfc.federated.model import ClientRows, KnownCenters, possible_sums
from secfc.federated.starts import SampledRows
from secfc.kmeans.elbow import Elbow, largest_k
from secfc.kmeans.sampled import Sampled
from secfc.kmeans.splitting import Splitting
from secfc.kmeans.starts import restart_generators
from secfc.overlap.plan import check_k
from secfc.overlap.starts import Automatic
from secfc.roles.blame import suspect_parties
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import SERVER, Exchange, PartyId
from secfc.roles.messages import Message, is_array, refuse_if
from secfc.secure_sum.plan import count_colluders
from secfc.secure_sum.protocol import SummandLayout, SumPlan, ToldDigests, split_message

# With a floor labels are compared with those opened before, and rows held back, so often; then all stay.
TRIES = 4
# Rows of others in a sample, in the mean, of which half are there but for one in e^25 samples.
LEAST_OTHERS = 200
# Steps of Lloyd's over a sample, at most.
STEPS = 300
# An automatic scale gives at least so many integer steps between 0 and the bound, in as few lanes as hold
# them, and at most MOST: sums of 2**31 points of it stay below 2**62.
LEAST, MOST = 1 << 14, (1 << 31) - 1


class SharedTotals(Message, tag=235):
    """Server to client, after each sum: the numbers of all clients together that it adds to, (lanes, D_j)
    residues, under a pad that clients know unless `blind=False`; and a digest of whom the sum counts.

    Under "`FederatedLloyd`, and where clients observe different features": server, client.  Seen: exact
    sums and numbers of points by cluster on features that the client shares; under pads the server sees
    uniform residues, with `blind=False` these sums. Of a feature that one other client observes it can
    subtract its own. Differences of sums tell rows that moved alone, and the sums of a client that comes
    late, leaves or is lost: with a `floor`, which counts nobody else than the first sum, any two differ by so
    many rows beside those of any `t` clients or by none, unless one of these lies about them; three
    together, and other runs, can tell single rows. Totals before these tell how many rows clusters of two
    steps share, capped, and how many would move. Where costs are compared, totals have the sum of squared
    norms of all rows; where k is chosen, or given as "8..8", without a floor, further totals tell the mean
    silhouette of rows, for each number of clusters that is compared, and in the end: of few rows of others in
    a cluster these can tell each.  By deviating: the server: under pads add numbers of its choice to a total,
    unnoticed where some points could have the sums and all receive the same, else refused (digests are
    compared). With `blind=False` it can choose centers and so labels, and sees the sums that follow.
    """

    values: Array
    counted: bytes

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "totals are two axes of residues")
        refuse_if(len(self.counted) != 32, f"a digest has 32 bytes, this one has {len(self.counted)}")


class RunKey(Message, tag=236):
    """First member of the committee to client, once: 32 bytes that pads, directions and samples follow from.

    Under "`FederatedLloyd`, and where clients observe different features": first member of the committee,
    client.  Seen: 32 bytes from which pads and, where no seed is public, directions and samples follow: a
    server that has them, as from a client that joins it, reads all totals.  By deviating: the member: another
    key to some clients, whose totals are then impossible (suspicion of all), or numbers of its choice for
    directions and samples.
    """

    key: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.key) != 32, f"a key has 32 bytes, this one has {len(self.key)}")


@dataclass(frozen=True)
class FederatedPlan(DescribedPlan):
    """columns: who observes what.  quantizer: how values become integers.  sums: of the secure sum.

    m: rows of all clients.  rows: no client has more.  floor: rows beside those of any t clients that sums
    of clusters of any two openings differ by at least, if by any.  blind: whether the server opens totals
    under pads.  seed: of directions, samples and local clusterings, None for what follows from the run's key,
    and each client's own coins.
    """

    columns: Columns
    quantizer: Quantizer
    sums: SumPlan
    k: int | Elbow
    m: int
    max_iter: int
    n_init: int
    floor: int
    blind: bool
    rows: int
    seed: int | None
    terms: RunTerms = field(compare=False, repr=False, metadata=LOCAL)

    @property
    def clients(self) -> tuple[PartyId, ...]:
        return self.columns.clients

    @property
    def d(self) -> int:
        """Features of all clients together."""
        return self.columns.d

    @property
    def unit(self) -> float:
        """Integer steps a data unit."""
        return self.quantizer.scale

    @property
    def start(self) -> Any:
        """The start: by splitting where all observe all features, else by matching local clusters."""
        given = self.terms.way.start
        return self.splitting if given is None else given

    @property
    def splitting(self) -> Any:
        """The start by splitting, of all rows or of a sample, where none is given."""
        # Under a floor what was opened binds all that follows, so a start opens cuts alone.
        cuts = {"steps": 0, "settle": 0} if self.floor > 1 else {}
        return Automatic() if self.partial else Splitting(merge="any", **cuts)

    @property
    def matches(self) -> bool:
        """Whether clients begin with labels of local clusters that the server matched."""
        return not isinstance(self.start, Splitting | Sampled | tuple)

    @property
    def samples(self) -> bool:
        """Whether a run starts on a sample, so that there are labels that some rows are not in."""
        return isinstance(self.start, Sampled)

    @property
    def first_sample(self) -> int | None:
        """The number of the sample that a run begins with, None for all rows."""
        return 0 if self.samples else None

    def draw_samples(
        self, rows: ClientRows, parties: Sequence[Party], key: bytes
    ) -> dict[int | None, ClientRows]:
        """Rows of clients by the number of their sample, None of all."""
        found: dict[int | None, ClientRows] = {None: rows}
        if self.samples:
            seed = key if self.seed is None else self.seed.to_bytes(32, "little")
            places = [self.start.draw_places(seed, p.name, p.points.shape[0], self.m) for p in parties]
            found |= {i: SampledRows(rows, own) for i, own in enumerate(zip(*places, strict=True))}
        return found

    # --- how one client's numbers lie in a sum

    @property
    def partial(self) -> bool:
        """Whether some client does not observe some feature."""
        return not bool(self.columns.mask.all())

    def join_speakers(self) -> FederatedPlan | None:
        """The plan in which one client of a wave speaks for all that are no members; None where clients hear
        different numbers, or keep rows back.
        """
        if not self.seeded or self.floor > 1:
            return None
        return replace(self, sums=replace(self.sums, together=True))

    def watch_each(self, watch: Callable[[PartyId, Exchange], None]) -> Callable[[PartyId, Exchange], None]:
        """What shows `watch` each client's messages, where some speak for others."""

        def watch_speaker(party: PartyId, exchange: Exchange) -> None:
            spoken = (party,) if party == SERVER else self.sums.speaks_for(party)
            parts = {to: split_message(body, len(spoken)) for to, body in exchange.send.items()}
            heard = {to: (to,) if to == SERVER else self.sums.speaks_for(to) for to in parts}
            for j, name in enumerate(spoken):
                send = {client: part[j] for to, part in parts.items() for client in heard[to]}
                watch(name, exchange.change(send=send))

        return watch_speaker

    @property
    def seeded(self) -> bool:
        """Whether shares of t members follow from seeds: where there are more clients than members, who all
        observe all features.
        """
        return len(self.clients) > self.sums.code.n and not self.partial

    @property
    def priced(self) -> bool:
        """Whether costs are compared, for which squares are summed."""
        return self.n_init > 1 or isinstance(self.k, Elbow)

    @property
    def prices_each(self) -> bool:
        """Whether squares are in every sum, as others may be counted; under a floor in the first."""
        return self.priced and self.floor == 1

    @property
    def judged(self) -> bool:
        """Whether silhouettes are summed (`split_and_iterate`): no floor holds rows of such sums back."""
        return isinstance(self.k, Elbow) and self.floor == 1

    @property
    def said_besides(self) -> str:
        """What is summed besides sums of clusters, in words."""
        squares = f"; the sum of squared norms of all rows{' in each' * self.prices_each}" * self.priced
        chosen = isinstance(self.k, Elbow) and self.k.least < largest_k(self.k)
        each = " for each number of clusters, and" * chosen
        return squares + f"; the mean silhouette of rows{each} in the end" * self.judged

    def block_length(self, c: int) -> int:
        """Numbers of one run of c clusters: sums, points by pattern, and who has points of a cluster at all.

        The last where clients do not hear the points of all patterns.
        """
        return c * (len(self.columns.shared) + len(self.columns.patterns) + self.partial)

    @cached_property
    def length(self) -> int:
        """Numbers in a sum of one run of k clusters."""
        return self.block_length(largest_k(self.k)) + 1

    def pad_length(self, length: int) -> int:
        """Numbers that shares of so many decode to: more where they fill no share."""
        return self.sums.code.ell * self.sums.code.width(length)

    def trim_numbers(self, values: Array, length: int, what: str) -> Array:
        """The numbers (length,) that are due of those that shares decode to.  Raises FaultyServer."""
        if len(values) != self.pad_length(length):
            raise FaultyServer(SERVER, f"sends {len(values)} numbers, {what}: {length} are due")
        return values[:length]

    @cached_property
    def summand_layout(self) -> SummandLayout | None:
        """Who adds to which numbers of a sum: a client to those of features that it shares, and of its
        patterns.  None where all add to all.
        """
        if not self.partial:
            return None
        k, s, p = largest_k(self.k), len(self.columns.shared), len(self.columns.patterns)
        rows, ends = np.arange(k)[:, None], np.arange(k * (s + p), self.length)
        places = {}
        for client in self.clients:
            mine = self.columns.mine(client)
            sums, counts = rows * s + mine.shared, k * s + rows * p + mine.patterns
            places[client] = np.concatenate([sums.reshape(-1), counts.reshape(-1), ends])
        return SummandLayout(self.length, places)

    def places(self, client: PartyId) -> Any:
        """The numbers of a sum that a client adds to and hears."""
        return slice(None) if self.summand_layout is None else self.summand_layout.places[client]

    @cached_property
    def topics(self) -> Mapping[PartyId, frozenset[int]]:
        """Topics of what the server tells a client: its shared features, its patterns, and what all hear."""
        if not self.partial:
            return self.sums.same_to_all
        s, p = len(self.columns.shared), len(self.columns.patterns)
        own = {c: self.columns.mine(c) for c in self.clients}
        return {c: frozenset([*m.shared, *(s + m.patterns), s + p]) for c, m in own.items()}

    def digests(self, client: PartyId, told: SharedTotals) -> ToldDigests:
        """Digests of what a client was told, one a topic."""
        if not self.partial:
            return ToldDigests(self.topics, {0: ToldDigests.digest(told.values, told.counted)})
        mine, k = self.columns.mine(client), largest_k(self.k)
        s, p = len(mine.shared), len(mine.patterns)
        sums, counts, rest = np.split(told.values, [k * s, k * (s + p)], axis=1)
        columns = [*zip(mine.shared, np.moveaxis(sums.reshape(-1, k, s), 2, 0), strict=True)]
        columns += zip(
            len(self.columns.shared) + mine.patterns, np.moveaxis(counts.reshape(-1, k, p), 2, 0), strict=True
        )
        digests = {int(topic): ToldDigests.digest(values) for topic, values in columns}
        last = len(self.columns.shared) + len(self.columns.patterns)
        return ToldDigests(self.topics, {**digests, last: ToldDigests.digest(rest, told.counted)})

    def block(self, client: PartyId, sums: Array, counts: Array) -> Array:
        """What a client adds for one run: of its sums (c, d_j) and numbers of points (c,); (g, ...) for g."""
        mine, lead = self.columns.mine(client), counts.shape[:-1]
        held = np.repeat(counts[..., None], len(mine.patterns), axis=-1)
        there = (counts > 0).astype(np.int64) if self.partial else counts[..., :0]
        parts = sums[..., mine.inside].reshape(*lead, -1), held.reshape(*lead, -1), there
        return np.concatenate(parts, axis=-1)

    # A sum of squares, in digits below the bound of a sum, as other numbers are.

    @cached_property
    def digit_bits(self) -> tuple[int, int]:
        """Binary digits in one number of a sum of squares, and of how many numbers it is."""
        bits = self.sums.bound.bit_length() - 1
        return bits, -(-(self.rows * self.d * self.quantizer.max_int**2).bit_length() // bits)

    def square_digits(self, total: Any) -> Array:
        """The sum of squared norms of a client's points, as numbers of a sum; (g, ...) of an array (g,)."""
        bits, count = self.digit_bits
        digits = [np.asarray(total, object) >> bits * i & (1 << bits) - 1 for i in range(count)]
        return np.stack(digits, axis=-1).astype(np.int64)

    def join_digits(self, digits: Array) -> int:
        """The sum of squares of which these are the digits, added up."""
        return sum(int(digit) << self.digit_bits[0] * i for i, digit in enumerate(digits.tolist()))

    # Silhouettes, of which each may be negative, in digits of which the last has the sign.

    @property
    def judged_digits(self) -> int:
        """Numbers of a sum that silhouettes of one level are in, two but for few rows or coarse steps."""
        return -(-(self.rows << 20).bit_length() // self.digit_bits[0])

    def pack_silhouettes(self, found: Array) -> Array:
        """What a client adds of `ClientRows.sum_silhouettes` (L + 1,): (D,); (g, D) of (g, L + 1)."""
        # The last digit, too, is at most 2**bits, which the bound of a sum is not below.
        bits, last = self.digit_bits[0], self.judged_digits - 1
        digits = [found >> bits * i & (1 << bits) - 1 for i in range(last)]
        return np.concatenate([*digits, found >> bits * last], axis=-1)

    def read_silhouettes(self, party: PartyId, values: Array, count: int) -> tuple[float, ...]:
        """Means by so many levels, of a sum (D,).  Raises what `blame` says for what no points have."""
        length = self.judged_digits * (count + 1)
        digits = self.trim_numbers(values, length, "of other silhouettes").reshape(-1, count + 1)
        *totals, rows = map(self.join_digits, digits.T)
        if not 0 < rows <= self.m or any(abs(total) > rows << 20 for total in totals):
            raise self.blame(party)
        return tuple(total / (rows << 20) for total in totals)

    # --- what the numbers of all clients mean

    def read_totals(
        self, party: PartyId, values: Array, sizes: Sequence[int], *, squares: bool = False
    ) -> list[Totals]:
        """Totals of runs of so many clusters on the shared features of a client, or of all at the server.

        values: (D_j,).  Raises what `blame` says for what no points sum to.
        """
        mine, found, at = self.columns.seen_by(party), list[Totals](), 0
        s, p = len(mine.shared), len(mine.patterns)
        wanted = sum(c * (s + p + self.partial) + 1 for c in sizes) + squares * self.digit_bits[1]
        values = self.trim_numbers(values, wanted, "of other features or clusters")
        if values.dtype == object and max(map(abs, values.tolist())) >= 2**62:
            raise self.blame(party)
        values = values.astype(np.int64)
        most = self.rows * self.columns.patterns[mine.patterns].sum(axis=1)
        pattern = np.searchsorted(mine.patterns, mine.of)
        ends = values[wanted - len(sizes) - squares * self.digit_bits[1] :]
        for run, c in enumerate(sizes):
            sums, counts = values[at : at + c * s].reshape(c, s), values[at + c * s :][: c * p].reshape(c, p)
            at += c * (s + p)
            there = np.asarray(values[at : at + c] > 0 if self.partial else counts.any(axis=1))
            at += c * self.partial
            fits = possible_sums(sums, counts, pattern, most, self.quantizer.max_int)
            if not fits or not 0 <= ends[run] <= len(self.clients):
                raise self.blame(party)
            square = self.join_digits(ends[len(sizes) :]) if squares else None
            found.append(Totals(sums, counts[:, pattern], there, int(ends[run]), square))
        return found

    @property
    def caps(self) -> list[int]:
        """How many of its points a client counts where they would move: the fewest that half of all but t
        clients bring to the floor, which serves where many have some, and as many as the floor.
        """
        return sorted(
            {min(self.floor, -(-2 * self.floor // (len(self.clients) - self.sums.code.t))), self.floor}
        )

    @cached_property
    def flow_digits(self) -> tuple[int, int]:
        """What a number of points in a sum is below, and how many such digits one number of a sum has."""
        base, fit = len(self.clients) * self.floor + 1, 1
        while self.floor * (base ** (fit + 1) - 1) // (base - 1) <= self.sums.bound:
            fit += 1
        return base, fit

    def pack_flows(self, flows: Sequence[Array], moving: int) -> Array:
        """What a client adds for numbers of its points in cells (b, c) with each opening: (D,) int64.

        moving: how many of its points change their cluster, which is not capped.
        """
        base, fit = self.flow_digits
        capped = np.concatenate([np.minimum(flow, cap).reshape(-1) for flow in flows for cap in self.caps])
        digits = np.concatenate([capped, np.zeros(-len(capped) % fit, np.int64)]).reshape(-1, fit)
        flat = digits @ np.array([base**i for i in range(fit)], np.int64)
        return np.append(np.asarray(flat), moving)

    def find_held(
        self, party: PartyId, values: Array, before: Sequence[int], c: int
    ) -> tuple[list[Array], int]:
        """Light cells (b, c) of c clusters with openings of so many before, see `find_light`, of a sum (D,);
        and how many points change their cluster.

        Raises what `blame` says for what no points do.
        """
        (base, fit), cells = self.flow_digits, len(self.caps) * c * sum(before)
        wanted = -(-cells // fit) + 1
        *packed, moving = self.trim_numbers(values, wanted, "others than of points that move").tolist()
        if not 0 <= moving <= self.m or any(not 0 <= value < base**fit for value in packed):
            raise self.blame(party)
        whole = np.array(packed, np.int64)
        digits = np.stack([whole // base**i % base for i in range(fit)], axis=1)
        cuts = np.cumsum([len(self.caps) * b * c for b in before])[:-1]
        return [
            find_light(part.reshape(-1, b, c), self.caps, self.floor, self.sums.code.t)
            for b, part in zip(before, np.split(digits.reshape(-1)[:cells], cuts), strict=True)
        ], moving

    def judge_moves(
        self, party: PartyId, before: Sequence[int], c: int
    ) -> Generator[list[Array], tuple[Array, bytes], tuple[int, int]]:
        """How many points move to labels of c clusters, and how many a floor keeps where they are.

        Yields light cells, at first none, and is sent sums as `find_held` has them of labels in which points
        of these cells stay, and whom they count.  If that leaves light cells again and again, no point moves.
        """
        found, wanted = list[Array](), list[int]()
        for _ in range(TRIES):
            values, _ = yield found
            found, moving = self.find_held(party, values, before, c)
            wanted.append(moving)
            if not moving or not any(light.any() for light in found):
                return moving, max(0, wanted[0] - moving)
        return 0, wanted[0]

    def blame(self, party: PartyId) -> Exception:
        """The error for totals that no points have: the server's, where it checked what it tells."""
        if party == SERVER or self.blind:
            why = "no points have the sums that were added up"
            return suspect_parties("SharedTotals", why, clients=self.clients, server=SERVER)
        return FaultyServer(SERVER, "sends sums that no points have")

    def draw_pad(self, key: bytes, number: int, length: int, counted: bytes) -> Array:
        """What members add to the sum of this round that counts these clients: (lanes, length), uniform."""
        seed = hashlib.blake2b(
            number.to_bytes(8, "little") + counted, key=key, digest_size=16, person=b"secfc total pad"
        )
        return self.sums.code.basis.sample((length,), Coins(seed.digest()))

    # --- what follows from totals

    def begin_runs(self, first: Totals, key: bytes) -> Restarts:
        """The courses of all restarts, from the totals of the labels that clients begin with."""
        if self.matches:
            return Restarts([iterate_from_labels(first, self.max_iter)], first, self.max_iter)
        if isinstance(self.start, tuple):
            course = iterate_from_centers(self.given_centers, self.max_iter)
            return Restarts([course], first, self.max_iter)
        seed = int.from_bytes(key, "little") if self.seed is None else self.seed
        rngs = restart_generators(np.random.default_rng(seed), self.n_init)
        return Restarts([self.split_rows(first, rng) for rng in rngs], first, self.max_iter)

    def split_rows(self, first: Totals, rng: np.random.Generator) -> Course:
        """The course of a restart by splitting, from totals of one cluster."""
        split = partial(split_and_iterate, first, self.columns.places)
        if not self.samples:
            return split(self.start, self.m, self.k, self.max_iter, rng, judged=self.judged)
        course = split(self.splitting, int(first.sizes[0]), self.k, STEPS, rng)
        return sample_and_iterate(first, course, self.start.count_batches(self.m), self.max_iter)

    @property
    def first_clusters(self) -> int:
        """Clusters of the labels that clients begin with."""
        return largest_k(self.k) if self.matches else 1

    @property
    def given_centers(self) -> KnownCenters:
        """Centers that a run starts from, in integer steps."""
        whole = self.quantizer(np.array(self.start), owner="the start", first_row=0)[:, self.columns.places]
        return KnownCenters(whole, np.ones(whole.shape, np.int64), np.ones(len(whole), bool))

    def follow_runs(self) -> Generator[Any, tuple[Array, bytes], Restarts]:
        """What totals that may be read mean, sent one sum after another: the runs, ended.

        Yields what the next sum is of: the clusters of each run by its number, or, for a floor, light cells
        before (`judge_moves`), none of silhouettes.  Sent besides is a digest of whom the sum counts.
        """
        (values, counted), opened = (yield {0: self.first_clusters}), [self.first_clusters + self.samples]
        runs = self.begin_runs(
            self.read_totals(SERVER, values, [self.first_clusters], squares=self.priced)[0], bytes(32)
        )
        while runs.asked:
            if runs.levels:
                values, _ = yield []
                runs.hear_silhouettes(self.read_silhouettes(SERVER, values, len(runs.levels)))
                continue
            sizes, held = {run: len(near.centers.counts) for run, near in runs.asked.items()}, {}
            for run, c in tuple(sizes.items()) if self.floor > 1 else ():
                # What a client falsified of how many points would move is not the server's.
                moving, held[run] = yield from self.judge_moves(SERVER, opened, c + self.samples)
                if moving:
                    opened.append(c + self.samples)
                else:
                    del sizes[run]
            found, before = list[Totals](), counted
            if sizes:
                values, counted = yield sizes
                found = self.read_totals(SERVER, values, tuple(sizes.values()), squares=self.prices_each)
            runs.hear(dict(zip(sizes, found, strict=True)), held, counted != before)
        return runs

    def count_clusters(self, told: Mapping[int, tuple[Array, bytes]]) -> dict[int, int]:
        """The clusters of the first run of totals (D,), with digests of whom they count, by round; without
        rounds that told how many rows would move for a floor, which the course tells apart and no number's
        form does.
        """
        if self.matches:
            return dict.fromkeys(sorted(told), self.first_clusters)
        reading, found = self.follow_runs(), dict[int, int]()
        due = next(reading)
        for number in sorted(told):
            if isinstance(due, dict):
                found[number] = next(iter(due.values()))
            try:
                due = reading.send(told[number])
            except StopIteration:
                break
        return found


def make_plan(way: Any, public: PublicFacts) -> FederatedPlan:
    """Raises ValueError for what cannot be: too many clusters, unconnected clients, a scale beyond
    exactness.
    """
    columns = Columns.of(public)
    columns.check()
    n, rows = len(public.clients), max(public.counts)
    if n < 3:
        raise InputError(f"n={n}: each client has the other's sum by subtraction. At least 3 are needed")
    k = check_runs(way, public, columns)
    quantizer = Quantizer(
        finest_sum_scale(public.bound, n, rows) if way.scale is None else way.scale, public.bound
    )
    if public.m * quantizer.max_int >= 2**62:
        raise InputError(
            f"scale={quantizer.scale:g} with bound={public.bound:g} makes sums of m={public.m} points up to "
            f"2**{(public.m * quantizer.max_int).bit_length()}, 2**62 is the most: lower the scale"
        )
    # With fewer holders than two in a sum, it would be one client's own.
    spare = int(columns.mask[:, columns.shared].sum(axis=0).min()) - 2
    most = min(n // 4, spare) if way.losses is None else way.losses
    if most > spare:
        feature = columns.features[columns.shared[columns.mask[:, columns.shared].sum(axis=0).argmin()]]
        raise InputError(
            f"losses={way.losses}: feature {feature!r} is seen by {spare + 2} clients, so with that many "
            f"lost its sum could be one client's own. Tolerate at most {spare} losses"
        )
    # Digits of squares need a bound of a bit and more.
    bound = max(2, rows * quantizer.max_int)
    sums = SumPlan.of(public.clients, bound, committee=way.committee, t=way.t, losses=most)
    if n > sums.code.n and columns.mask.all():
        # t + 1 members read a summand however many numbers share a polynomial, and of a committee of many
        # clients enough members are left.
        code = replace(sums.code, ell=(sums.code.n + 1) // 2 - sums.code.t)
        sums = replace(sums, code=code)
    plan = FederatedPlan(
        columns, quantizer, sums, k, public.m, way.max_iter, way.n_init, way.floor, way.blind, rows,
        public.seed, RunTerms(way, public),
    )  # fmt: skip
    plan.description  # noqa: B018 - what is too long to be agreed on is refused before anybody begins
    return plan


def check_runs(way: Any, public: PublicFacts, columns: Columns) -> int | Elbow:
    """The k of a plan.  Raises InputError for a start, restarts or a floor that these data or k exclude."""
    for name, value in (("max_iter", way.max_iter), ("n_init", way.n_init), ("floor", way.floor)):
        if value < 1:
            raise InputError(f"{name}={value} is too small: it must be at least 1")
    partial = not columns.mask.all()
    if isinstance(way.start, Splitting | Sampled) or (way.start is None and not partial):
        check_splitting(way, partial)
    elif isinstance(way.start, tuple):
        check_centers(way, public, partial)
    else:
        check_matching(way, public)
    k = way.k.among(public.m) if isinstance(way.k, Elbow) else way.k
    if isinstance(way.start, Sampled):
        check_sample(way, public)
    if not 1 <= largest_k(k) <= public.m:
        raise InputError(f"k={k} clusters of m={public.m} points: 1 <= k <= m is needed")
    check_floor(way, public, largest_k(k))
    return k


def check_floor(way: Any, public: PublicFacts, k: int) -> None:
    """Raises InputError for a floor below which k clusters could not but have rows, see `find_light`."""
    t = count_colluders(public.clients, way.committee, way.t)
    needed, most = k * (t + 1) * way.floor, k * way.floor
    if way.floor > 1 and (there := sum(min(count, most) for count in public.counts)) < needed:
        raise InputError(
            f"{k} clusters, beside the rows of any t={t} of the clients, need {needed} rows of which each "
            f"client counts {most} at most, and there are {there}",
            [("floor", ..., "lower the floor"), ("k", ..., "ask for fewer clusters")],
            {"floor": way.floor},
        )


def check_splitting(way: Any, partial: bool) -> None:
    """Raises InputError for what a start by splitting excludes."""
    if partial:
        raise InputError(
            f"start={type(way.start).__name__}(): clients observe different features, and centers of all of "
            "them are needed to split clusters. Leave start out, or use Automatic()"
        )
    if isinstance(way.k, Elbow) and way.n_init > 1:
        raise InputError(
            f"n_init={way.n_init}, k={way.k}: k is chosen by one start. Leave n_init at 1, or give k"
        )


def check_sample(way: Any, public: PublicFacts) -> None:
    """Raises InputError for what a start on a sample excludes."""
    if isinstance(way.k, Elbow) or way.start.rows < way.k:
        raise InputError(
            f"k={way.k} of a sample of {way.start.rows} rows: a sample has a row a cluster at least, and "
            "chooses no k, as its costs are not those of all rows. Give k, or leave start out"
        )
    t, n = count_colluders(public.clients, way.committee, way.t), len(public.clients)
    # Clients that miss the first sum are in none.
    lost, samples = n // 4 if way.losses is None else way.losses, way.start.count_samples(public.m)
    others = sum(sorted(public.counts)[: max(0, n - t - lost)]) // samples
    if way.floor > 1 and samples > 1 and others < (needed := max(2 * way.floor, LEAST_OTHERS)):
        raise InputError(
            f"floor={way.floor}: beside the rows of any t={t} of the clients and of lost ones a sample of "
            f"{way.start.rows} rows has some {others}, and {needed} are needed for the floor to hold of it. "
            "Take more rows, or as many as there are"
        )


def check_centers(way: Any, public: PublicFacts, partial: bool) -> None:
    """Raises InputError for what centers to start from exclude."""
    shape = (len(way.start), len(way.start[0]))
    if partial or way.n_init > 1 or shape != (way.k, public.d):
        raise InputError(
            f"start=centers {shape}, k={way.k}, n_init={way.n_init}, d={public.d}: one run starts from k "
            "centers, of all features, where all clients observe all. Leave start out, or give k such rows"
        )


def check_matching(way: Any, public: PublicFacts) -> None:
    """Raises InputError for what a start that matches local clusters excludes."""
    require_library("FederatedLloyd", "estimators")
    check_k(way, way.k, public.m)
    if way.n_init > 1:
        raise InputError(
            f"n_init={way.n_init}: starts that match local clusters are not compared, since nobody learns "
            "costs. Leave n_init at 1"
        )
    if way.floor > 1:
        raise InputError(
            f"floor={way.floor}: where local clusters are matched the server sees these, and nobody knows "
            "how many rows move on features that few observe. Leave floor at 1, or use columns that all "
            "have (CommonFeatures)"
        )


def finest_sum_scale(bound: float, n: int, rows: int) -> float:
    """The finest scale, a power of two, that the fewest lanes hold which leave LEAST steps within the
    bound.
    """
    for lanes in range(1, len(LANE_PRIMES) + 1):
        # 2 n rows max_int < modulus (`SumPlan`).
        most = min(MOST, (Basis(LANE_PRIMES[:lanes]).modulus - 1) // (2 * n * rows))
        if most >= LEAST:
            break
    return math.ldexp(1.0, math.floor(math.log2(most)) - math.ceil(math.log2(bound)))
