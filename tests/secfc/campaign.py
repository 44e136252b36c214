"""A hostile network for whole runs, small runs to put it under, and the judge of what came out.

Every message of a run is at the mercy of a schedule: any may be dropped, delayed past others or past the
deadline, doubled, cut off with its party, given the number of another round, replaced by an older one, or
corrupted, as bytes or in its fields.

What must hold (`judge`), whatever the schedule:

* the run ends, with a result or with a ProtocolError; no other exception, no hang;
* proof (FaultyClient, FaultyServer, UnionFailed with proof) and every pointed finger (PlanMismatch,
  TamperedMessage) name a party a message of which really was corrupted, never another;
* what is merely lost leads to too few replies, to the exclusion of rows or to RowsLost, and to no blame;
* copies and mere reordering change nothing at all;
* the labels that any party gets are exactly those of plaintext Lloyd over the rows that count; of private
  centers, those of an undisturbed run whose sums have the same contributors.

The last rule has one exception, and that is the limit of the model: a LIE.  An unsealed message whose
contents are changed to other contents of the right form (another canonical residue, another valid label), or
that is moved to another round, is what a lying sender would send, and who cannot check what was said cannot
notice.  Those messages are listed in UNCHECKABLE.  After a lie the other rules still hold, except that a
deviating client may accuse whoever answered the lie honestly; the labels may be wrong.  Out of the model is
also a greeting forged in full between parties that pinned no identities.  Sealed, nobody on the way can lie:
every alteration of any message is in the model.

With `corrected` planned for, so many clients may lie on top of all that, be it that their roles do
(`tests.secfc.lying`) or that their messages are changed, and no lie of theirs is an exception: labels are
exact over the rows that count, or the error is a typed one.  A share of rows that is lost between two clients
counts as a lie of one of them, and so does what one says too late, as it was kept waiting itself.  Whoever is
named with proof lied, and of two in a dispute one did, or the share was lost.  If nothing is lost, planned
deviating clients end no run and cost nobody else its rows (a single one; two together may deny that they were
dealt anything).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache, cached_property, partial
from itertools import combinations
from types import MappingProxyType
from typing import Any

import numpy as np
from hypothesis import strategies as st

import secfc
from field import SeededCoins
from psu import messages as union
from secfc import kfed
from secfc.algorithm import PublicFacts, gather_result
from secfc.coded import input_check as rows
from secfc.coded import messages as dealing
from secfc.coded import messages as keeping
from secfc.coded import messages as own
from secfc.coded import messages as rounding
from secfc.coded import union as united
from secfc.coded.joined import Joined, KeptRows
from secfc.coded.membership import Private
from secfc.coded.parameters import Network as Link
from secfc.coded.queries import Query
from secfc.coded_kmeans import plaintext
from secfc.coded_kmeans.predict import predicting_client, predicting_server
from secfc.data.inputs import get_parameter, with_parameters
from secfc.disclosure.checked import messages as checking
from secfc.disclosure.compare.candidates import NearPairs
from secfc.disclosure.dealerless import steps as joint
from secfc.errors import (
    BudgetSpent,
    FaultyParty,
    PlanMismatch,
    ProtocolError,
    RowsLost,
    SuspectedParties,
    TamperedMessage,
    TooFewReplies,
    TooManyDeviating,
    UnionFailed,
)
from secfc.feddp import FedDPKMeans, GivenCenters, ServerNoise, SharedNoise, Votes
from secfc.feddp import messages as summing
from secfc.federated import plan as federated
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import RandomPoints
from secfc.overlap import messages as partial_features
from secfc.pairs import NearGraph
from secfc.pipeline import seal_roles
from secfc.privacy import Bound, Budget, Neighbors, RandomizedResponse
from secfc.roles import agreement
from secfc.roles import messages as shared
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Envelope, blame_error
from secfc.scaling import moments
from secfc.secure_sum import protocol, seeds
from secfc.transport import wire
from secfc.transport.simulate import Faults, simulate
from tests.secfc.lying import Lie, saying, telling
from tests.secfc.overlap.cases import Blocks, Turned
from tests.secfc.queries import leaves, with_leaf

# Contents that their receiver cannot check, only their form.  What clients seal among themselves in a union,
# digests, signatures and what all clients confirm to one another is not among them.
UNCHECKABLE = (
    own.RowShares,
    shared.Contributors,
    Query,
    own.CodedDistances,
    own.RevealCenters,
    own.CodedCenters,
    shared.FinalResult,
    united.Multiplicities,
    own.PublicKey,
    plaintext.RawPoints,
    kfed.LocalCenters,
    kfed.CenterLabels,
    kfed.PointLabels,
    own.DealingChallenge,
    own.BlindingShares,
    rows.MaskChoice,
    rows.ProjectedShares,
    rows.TossedSeed,
    shared.InputPartyResult,
    rounding.MaskedCenters,
    own.MaskSeed,
    own.MaskedDistances,
    own.MaskedSum,
    dealing.Corrections,
    own.MaskedBits,
    own.LabelShare,
    own.MissingMessages,
    keeping.SizeShare,
    own.RunEnded,
    own.CodedCosts,
    own.CodedGains,
    own.NoiseShares,
    joint.SetKeys,
    checking.ResharedPart,
    checking.PartShares,
    keeping.SelectedRowShare,
    agreement.Commitment,
    protocol.SumShares,
    protocol.CodedSum,
    protocol.LastDigest,
    summing.Project,
    summing.Choose,
    summing.GroupAbout,
    summing.NoisyCenters,
    summing.NoisyLabels,
    partial_features.LocalCentroids,
    partial_features.LocalGroups,
    federated.SharedTotals,
    federated.RunKey,
    seeds.ShareSeed,
    partial_features.CentroidShares,
    partial_features.CodedPairDistances,
    union.MaskedBlock,
    union.Turn,
    union.Opening,
    union.Begin,
    KeptRows,
)

# --- schedules -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fault:
    """What happens to one message, or to all of a party from then on.  a, b: which of the ways to do it."""

    action: str
    a: int = 0
    b: int = 0


LOSSES = ("drop", "lose", "delay", "cut")
CORRUPTIONS = ("flip", "truncate", "noise", "replay", "malform", "alter")
ACTIONS = (*LOSSES, "double", "renumber", *CORRUPTIONS)


def schedules(messages: int, corrected: int = 0) -> st.SearchStrategy[dict[int, Fault]]:
    """Faults by the number of the message they befall, in a run of about so many messages.

    Most corruptions end a run, so half of the schedules have losses and copies only, and more of them.
    Fewer, and sometimes none, if deviating clients do harm as well.  In half of all, one party is lost for
    good.
    """
    ways, number = st.integers(0, 2**16), st.integers(0, messages - 1)

    def of(actions: tuple[str, ...], most: int) -> st.SearchStrategy[dict[int, Fault]]:
        fault = st.builds(Fault, st.sampled_from(actions), ways, ways)
        return st.dictionaries(number, fault, min_size=not corrected, max_size=most)

    faults = of((*LOSSES, "double"), 3 if corrected else 12) | of(ACTIONS, 2 if corrected else 4)
    # In every other run somebody is lost for good, at any message.
    lost = st.none() | st.tuples(number, st.builds(Fault, st.just("cut"), ways, ways))
    return st.builds(lambda these, who: these if who is None else {**these, who[0]: who[1]}, faults, lost)


@dataclass
class Network:
    """Faults for `simulate`, from a schedule; remembers what it did."""

    schedule: dict[int, Fault]
    sealed: bool
    passed: list[Envelope] = field(default_factory=list)
    held: list[tuple[int, Envelope]] = field(default_factory=list)
    cut: set[str] = field(default_factory=set)
    corrupters: set[str] = field(default_factory=set)
    deviated: set[str] = field(default_factory=set)
    missed: set[frozenset[str]] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    lost: bool = False
    gone: set[tuple[str, str, int]] = field(default_factory=set)
    after: Counter[str] = field(default_factory=Counter)  # exchanges of each party since then
    trusting: bool = False  # nobody checks what clients deal
    heals: int | None = None  # from this message on nothing happens any more, nobody is cut off

    @property
    def healed(self) -> bool:
        return self.heals is not None and len(self.passed) >= self.heals

    def __call__(self, e: Envelope) -> list[Envelope]:
        now = len(self.passed)
        self.passed.append(e)
        if self.heals is not None and now >= self.heals:
            arriving, self.held = [e, *(late for _, late in self.held)], []
            return arriving
        fault = self.schedule.get(now)
        arriving = [e] if fault is None else self.befall(e, fault, now)
        if (e.sender, e.recipient, e.round) in self.gone:
            arriving = []
        arriving += [late for due, late in self.held if due <= now]
        self.held = [(due, late) for due, late in self.held if due > now]
        gone = [x for x in arriving if {x.sender, x.recipient} & self.cut]
        self.lost |= bool(gone)
        return [x for x in arriving if x not in gone]

    def befall(self, e: Envelope, fault: Fault, now: int) -> list[Envelope]:
        match fault.action:
            case "drop" | "lose":
                self.lose(e)
                if fault.action == "drop":  # for good; else it comes when it is asked for once more
                    self.gone.add((e.sender, e.recipient, e.round))
                return []
            case "delay":
                self.lose(e)  # perhaps: it may come after the deadline
                self.held.append((now + 1 + fault.a % 60, e))
                return []
            case "double":
                self.held.append((now + fault.a % 60, e))
                return [e]
            case "renumber":
                self.lose(e)
                self.mark(e.sender, e.body)
                others = [x.round for x in self.passed if x.sender == e.sender]
                moved = (e.round + 1, e.round + STRIDE, others[fault.b % len(others)])[fault.a % 3]
                return [dataclasses.replace(e, round=moved)]
            case "cut":
                self.cut.add((e.sender, e.recipient)[fault.a % 2])
                return [e]
        body = self.corrupted(e, fault)
        return [e] if body is None else [dataclasses.replace(e, body=body, kind=body.kind)]

    def corrupted(self, e: Envelope, fault: Fault) -> Any:
        """Another message in place of this one, or None if there is none.

        Raises FaultyClient or FaultyServer if what arrives is no message, as a driver does.
        """
        try:
            body = CORRUPT[fault.action](e, fault.a, fault.b, self.passed)
            if body is None or wire.encode(body) == wire.encode(e.body):
                return None
            body = wire.decode(wire.encode(body))
        except ValueError as error:  # WireError, or a constructor that refuses
            self.corrupters.add(e.sender)
            raise blame_error(e.sender, "sent bytes that are no message") from error
        if fault.action == "malform" or type(body) is not type(e.body):
            self.corrupters.add(e.sender)
        else:
            self.mark(e.sender, body)
        return body

    def lose(self, e: Envelope) -> None:
        """This message may never come; between two clients that share rows, one of the two is to blame.

        A client that the server keeps waiting meanwhile may be too late for some of the others.
        """
        self.lost = True
        if e.phase == "share" and SERVER not in (e.sender, e.recipient):
            self.missed.add(frozenset((e.sender, e.recipient)))
        elif e.round < ITERATE:
            self.late |= {e.sender, e.recipient} - {SERVER}

    def beyond(self, planned: int) -> set[str]:
        """Who lied although nobody can notice: everybody who did, if more did than were planned for."""
        if not planned or SERVER in self.deviated:
            return self.deviated
        guilty = self.corrupters - {SERVER}
        missed = [pair for pair in self.missed if not pair & guilty]
        suspects = {c for pair in missed for c in pair}
        for more in range(planned - len(guilty) + 1):
            if any(all(pair & {*who} for pair in missed) for who in combinations(sorted(suspects), more)):
                return set()
        return guilty

    def mark(self, sender: str, body: Any) -> None:
        """This party's message was changed to one of the right form, which is a lie if it is not sealed."""
        self.corrupters.add(sender)
        unchecked = (*UNCHECKABLE, checking.CheckDealing) if self.trusting else UNCHECKABLE
        if not self.sealed and isinstance(body, unchecked):
            self.deviated.add(sender)


# --- corruptions -----------------------------------------------------------------------------------


def flip(e: Envelope, a: int, b: int, passed: list[Envelope]) -> Any:
    data = bytearray(wire.encode(e.body))
    data[a % len(data)] ^= 1 + b % 255
    return wire.decode(bytes(data))


def truncate(e: Envelope, a: int, b: int, passed: list[Envelope]) -> Any:
    data = wire.encode(e.body)
    return wire.decode(data[: a % len(data)] if b % 2 else data + bytes(1 + a % 9))


def noise(e: Envelope, a: int, b: int, passed: list[Envelope]) -> Any:
    data = wire.encode(e.body)
    at = a % len(data)
    return wire.decode(data[:at] + np.random.default_rng(b).bytes(len(data) - at))


def replay(e: Envelope, a: int, b: int, passed: list[Envelope]) -> Any:
    """What the same party said before, to anyone or about anything; or what was said to it."""
    older = [x.body for x in passed[:-1] if e.sender == (x.sender if b % 4 else x.recipient)]
    return older[a % len(older)] if older else None


def malform(e: Envelope, a: int, b: int, passed: list[Envelope]) -> Any:
    """The same message with one field of another form, which its receiver can tell from the plan."""
    return _changed(e.body, MALFORMED, a, b)


def alter(e: Envelope, a: int, b: int, passed: list[Envelope]) -> Any:
    """The same message with one field of the same form and other contents."""
    return _changed(e.body, ALTERED, a, b)


def _changed(message: Any, ways: Any, a: int, b: int) -> Any:
    found_in = [*leaves(message)]
    if not found_in:
        return None  # it says nothing but that it is there
    path, value = found_in[a % len(found_in)]
    name = path[-1]
    if ways is MALFORMED and (type(message).__name__, name) == ("LocalCenters", "centers"):
        return None  # fewer of them are of the right form
    found = ways(value, b)
    if ways is MALFORMED and name == "words" and (found.dtype, found.shape) == (np.uint64, value.shape):
        return None  # all words are of the right form
    return None if found is None else with_leaf(message, path, found)


def MALFORMED(value: Any, b: int) -> Any:  # noqa: N802 - a table in the shape of a function
    match value:
        case bool() | Enum() | None:
            return None
        case int():
            return (-1, -(2**63), 2**63 - 1)[b % 3]
        case bytes():
            return (b"", value[:-1], value + b"\0")[b % 3]
        case str():
            return ("", "x", value + "0")[b % 3]
        case tuple():
            return ((*value, 2**32 - 1), value[::-1] + value, (7, 3))[b % 3]
    ways = [value[None], value.astype(np.float64), value.astype(bool)]
    if value.ndim:
        ways += [value[..., :-1], np.concatenate([value, value[-1:]]), value[:0], value[..., None]]
    if value.dtype.kind in "iu":
        ways += [np.full_like(value, np.iinfo(value.dtype).max)]
    if value.dtype.kind == "i":
        ways += [np.full_like(value, np.iinfo(value.dtype).min)]
    if value.dtype.kind == "f":
        ways += [np.full_like(value, x) for x in (np.nan, np.inf, -np.finfo(value.dtype).max)]
    return ways[b % len(ways)]


def ALTERED(value: Any, b: int) -> Any:  # noqa: N802
    match value:
        case bool() | None:
            return None
        case Enum():
            return list(type(value))[b % len(type(value))]
        case int():
            return max(0, value + (1, -1, 1 << 10, 1 << 32)[b % 4])
        case bytes():
            return value[: b % max(1, len(value))] + bytes(1) + value[b % max(1, len(value)) + 1 :]
        case str():
            return value.replace("0", "1")
        case tuple():
            return value[:-1]
    if value.size == 0:
        return None
    changed = value.copy().reshape(-1)
    at = b % changed.size
    match b % 4:
        case 0:
            one = np.ones(1, value.dtype)[0]
            changed[at] = (
                not changed[at] if value.dtype == bool else changed[at] - one if changed[at] else one
            )
        case 1:
            changed = np.roll(changed, 1)
        case 2:
            changed[:] = 0
        case _:
            return value[:-1] if value.ndim else value
    return changed.reshape(value.shape)


CORRUPT = {
    "flip": flip, "truncate": truncate, "noise": noise, "replay": replay, "malform": malform, "alter": alter,
}  # fmt: skip

# --- small runs ------------------------------------------------------------------------------------

N, M, D, K, BOUND, SCALE = 5, 12, 2, 2, 8.0, 16.0
# The longest undisturbed run, of five rounded centers, has 1,801 exchanges at a client.
MOST_EXCHANGES = 6_000
CLUSTERS = (2, 3, 5)  # a code of a label that no cluster has needs a k that is no power of two
vary = with_parameters


@cache
def hold_rounded(n: int = N, m: int = M) -> secfc.Federation:
    """n clients with m points altogether, and a server with six."""
    rng = np.random.default_rng(12)
    points, held = np.split(np.round(rng.uniform(-8, 8, (m + 6, D)) * 4) / 4, [m])
    return secfc.Federation.from_arrays(np.array_split(points, n), server_points=held)


@cache
def overlapping(n: int = N) -> secfc.Federation:
    """n clients with six points each, on two or three of three features, each seen by three of five."""
    rng = np.random.default_rng(13)
    seen = [("a", "b"), ("b", "c"), ("a", "c"), ("a", "b"), ("c", "a", "b")]
    points = [np.round(rng.uniform(-8, 8, (6, len(seen[j % 5]))) * 4) / 4 for j in range(n)]
    return secfc.Federation.from_arrays(points, features=[list(seen[j % 5]) for j in range(n)])


def coins(name: str) -> SeededCoins:
    return SeededCoins(5, name)


@dataclass(frozen=True)
class Scenario:
    """A run to be disturbed.  Its coins are fixed, so every undisturbed run of it is the same.

    expected: maps the scenario and what came out, without blame or error, to what must have come out, given
    who contributed.  data: what parties hold, `hold_rounded` by default.
    """

    algorithm: Any
    sealed: bool = False
    predict: bool = False
    n: int = N
    m: int = M
    expected: Callable[[Scenario, Outcome], Outcome] = lambda scenario, got: over_rows(scenario, got)
    data: Callable[[], secfc.Federation] | None = None

    def with_clusters(self, k: int) -> Scenario:
        """The same with another number of clusters, always the same object; itself where k is given."""
        fixed = isinstance(getattr(self.algorithm, "start", None), GivenCenters)
        given = fixed or self.expected is over_pairs
        return self if given or k == inner(self.algorithm).k else _with_clusters(self, k)

    @property
    def trusting(self) -> bool:
        """Whether nobody checks what clients say."""
        return isinstance(self.algorithm, secfc.SecFC) and self.algorithm.threshold.deviating == 0

    @property
    def corrected(self) -> int:
        """How many clients may lie."""
        return get_parameter(self.algorithm, "corrected", 0)

    @property
    def federation(self) -> secfc.Federation:
        if self.data is not None:
            return self.data()
        if isinstance(self.algorithm, secfc.FederatedLloyd) and self.algorithm.start is not None:
            return overlapping(self.n)
        found = hold_rounded(self.n, self.m)
        # Points of a server would give the scale at once.
        return vary(found, server_points=None) if isinstance(self.algorithm, secfc.Scaled) else found

    @cached_property
    def plan(self) -> Any:
        return self.algorithm.plan(
            dataclasses.replace(PublicFacts.of(self.federation, BOUND), session=bytes(32), seed=3)
        )

    @cached_property
    def fitted(self) -> secfc.Clustering:
        return secfc.fit(self.algorithm, self.federation, bound=BOUND, seed=3)

    @cached_property
    def clean(self) -> Any:
        """What an undisturbed run gives, itself checked against plaintext Lloyd in the tests."""
        network = Network({}, self.sealed)
        return self.run(network), len(network.passed)

    def roles(self, network: Any, lies: Mapping[str, Lie]) -> dict[str, Any]:
        fed = self.federation
        secrets = {name: coins(name) for name in (*fed.names, SERVER)}
        if self.predict:
            model = self.fitted.model
            sizes = next(iter(model.centers.values())).sizes
            plan = model.plan_for(fed, sizes, bytes(32))
            roles = {
                p.name: predicting_client(
                    model.disclosure, plan, p, model.centers[p.name], len(sizes), coins=secrets[p.name]
                )
                for p in fed.parties
            }
            roles[SERVER] = predicting_server(
                model.disclosure,
                plan,
                next(iter(model.centers.values())).sizes,
                model.standing,
                coins=secrets[SERVER],
            )
        else:
            plan = self.plan
            roles = {p.name: self.algorithm.client(plan, p, coins=secrets[p.name]) for p in fed.parties}
            roles[SERVER] = self.algorithm.server(plan, rng=np.random.default_rng(3), coins=secrets[SERVER])
        for name, lie in lies.items():
            me, lied = plan.clients.index(name), partial(network.corrupters.add, name)
            roles[name] = telling(roles[name], lie, plan.code, me, lied)
        if self.sealed:
            roles = seal_roles(roles, plan.description, secrets)
        return {name: signed(name, role) for name, role in roles.items()}

    def run(
        self,
        network: Faults,
        lies: Mapping[str, Lie] = MappingProxyType({}),
        deviating: Mapping[str, Callable[[Any], Any]] = MappingProxyType({}),
    ) -> Outcome:
        """One run under this network, in which clients tell these lies, or play what is made of their roles.

        Raises AssertionError if it does not end, and ProtocolError.
        """
        exchanges, after = Counter[str](), getattr(network, "after", Counter())

        def watch(party: str, exchange: Any) -> None:
            exchanges[party] += 1
            assert exchanges[party] < MOST_EXCHANGES, "the run does not end"
            if isinstance(network, Network) and network.healed:
                after[party] += 1

        roles = self.roles(network, lies)
        roles |= {name: deviate(roles[name]) for name, deviate in deviating.items()}
        run = simulate(roles, faults=network, watch=watch, again=True)
        names, counts = self.federation.names, self.federation.counts
        if self.predict:
            return Outcome(
                tuple(run.results.get(c, np.full(n, -1)) for c, n in zip(names, counts, strict=True))
            )
        result = gather_result(self.algorithm, self.plan, run, counts)
        return Outcome(
            tuple(result.labels), result.excluded, result.centers, result.history or result.sizes,
            tuple(result.deviated), result.disputes,
            result.details.server.counted if isinstance(self.algorithm, FedDPKMeans)
            else result.details.counted if isinstance(self.algorithm, secfc.FederatedLloyd) else (),
            {had[0].scaling for name, had in run.results.items() if name != SERVER}
            if isinstance(self.algorithm, secfc.Scaled) else set(),
        )  # fmt: skip


@cache
def _with_clusters(scenario: Scenario, k: int) -> Scenario:
    algorithm = scenario.algorithm
    if isinstance(algorithm, secfc.Scaled):
        return vary(scenario, algorithm=vary(algorithm, algorithm=vary(algorithm.algorithm, k=k)))
    return vary(scenario, algorithm=vary(algorithm, k=k))


def inner(algorithm: Any) -> Any:
    """The algorithm that clusters, on scaled points or not."""
    return getattr(algorithm, "algorithm", algorithm)


def signed(name: str, role: Any) -> Any:
    """The role, whose errors say who raised them."""
    try:
        return (yield from role)
    except ProtocolError as error:
        error.accuser = name
        raise


@dataclass(frozen=True, eq=False)
class Outcome:
    """Labels by client, all -1 where there are none; whose rows do not count; centers; labels by step.

    deviated: who was named with proof.  disputes: pairs of whom one lied.  summed: who contributed
    to every sum.  scalings: that clients found.
    """

    labels: tuple[Any, ...]
    excluded: tuple[str, ...] = ()
    centers: Any = None
    history: tuple[Any, ...] = ()
    deviated: tuple[str, ...] = ()
    disputes: tuple[tuple[str, str], ...] = ()
    summed: tuple[tuple[str, ...], ...] = ()
    scalings: Any = frozenset()


# --- what must come out ----------------------------------------------------------------------------


@cache
def plaintext(
    algorithm: secfc.SecFC, excluded: tuple[str, ...], n: int = N, scaling: Any = None, m: int = M
) -> secfc.Clustering:
    """Plaintext Lloyd over the rows of everybody else of n clients, scaled or not."""
    twin = secfc.Lloyd(
        algorithm.k, init=algorithm.init, n_init=algorithm.n_init, max_iter=algorithm.max_iter,
        quantization=dataclasses.replace(algorithm.quantization, scale=SCALE),
    )  # fmt: skip
    kept = tuple(p for p in hold_rounded(n, m).parties if p.name not in excluded)
    if scaling is not None:
        kept = tuple(scaling.party(p) for p in kept)
    plan = twin.plan(PublicFacts.of(secfc.Federation(kept), BOUND if scaling is None else scaling.limit))
    fed = secfc.Federation(kept)
    roles = {p.name: twin.client(plan, p, coins=coins(p.name)) for p in kept}
    roles[SERVER] = twin.server(plan, rng=np.random.default_rng(3), coins=coins(SERVER))
    return gather_result(twin, plan, simulate(roles), fed.counts)


def over_rows(scenario: Scenario, got: Outcome) -> Outcome:
    """Plaintext Lloyd over the rows that count."""
    want, _ = scenario.clean
    if not got.excluded or scenario.predict:
        return want
    plain = plaintext(scenario.algorithm, got.excluded, scenario.n, m=scenario.m)
    kept = iter(plain.labels)
    labels = tuple(
        np.full(n, -1) if c in got.excluded else next(kept)
        for c, n in zip(scenario.federation.names, scenario.federation.counts, strict=True)
    )
    return Outcome(labels, got.excluded, None if want.centers is None else plain.centers, plain.history)


def held_columns() -> secfc.Federation:
    """Two owners of two columns each of ten people, and three that help."""
    rng, ids = np.random.default_rng(14), [f"p{i}" for i in range(10)]
    parts = [np.round(rng.uniform(-7, 7, (10, 2)) * 4) / 4 for _ in range(2)]
    own = secfc.Federation.from_arrays(parts, ids=[ids, ids[::-1]], features=[["a", "b"], ["c", "d"]])
    return secfc.Federation((*own.parties, *(secfc.Party.without_data(f"client-{j}") for j in (2, 3, 4))))


def over_columns(scenario: Scenario, got: Outcome) -> Outcome:
    """What comes undisturbed, whoever is lost: helpers have no rows, and without an owner there is no end."""
    assert not {name for name in got.excluded if name in ("client-0", "client-1")}
    return dataclasses.replace(scenario.clean[0], excluded=got.excluded)


def over_pairs(scenario: Scenario, got: Outcome) -> Outcome:
    """What a clusterer of pairs finds among the rows that count, by their exact distances."""
    way, fed = scenario.algorithm, scenario.federation
    counts = np.repeat([name not in got.excluded for name in fed.names], fed.counts)
    rows = np.rint(np.concatenate([p.read() for p in fed.parties])[counts] * SCALE).astype(np.int64)
    squares = ((rows[:, None] - rows) ** 2).sum(2)
    labels, asked = np.full(len(counts), -1), np.sqrt(squares) / SCALE
    if isinstance(way, secfc.DBSCAN):
        one, near = range(len(rows)), squares <= way.square(scenario.plan)
        asked = NearGraph(len(rows))
        asked.put(NearPairs(0, 1, one, one), near[np.triu_indices(len(rows), 1)])
    labels[counts] = way.label_points(asked)
    sizes = np.bincount(labels[labels >= 0], minlength=labels.max() + 1)
    ends = np.cumsum(fed.counts)[:-1]
    return Outcome(tuple(np.split(labels, ends)), got.excluded, None, (sizes,))


@dataclass(frozen=True)
class Tiled(secfc.DBSCAN):
    """Density clusters by several questions, about blocks of 8 points."""

    block = 8


@dataclass(frozen=True)
class FarthestPairs:
    """A clusterer by a table of distances: what is within 4 of the first point, and all else."""

    def fit_predict(self, distances: Any) -> Any:
        return (distances[0] > 4.0).astype(np.int64)


def over_scaled_rows(scenario: Scenario, got: Outcome) -> Outcome:
    """Plaintext Lloyd over the rows that count, by a scale that some of the clients have together."""
    (scaling,) = got.scalings
    assert scaling in scalings_of(scenario)
    plain = plaintext(scenario.algorithm.algorithm, got.excluded, scenario.n, scaling)
    kept = iter(plain.labels)
    names, counts = scenario.federation.names, scenario.federation.counts
    labels = tuple(
        np.full(n, -1) if c in got.excluded else next(kept) for c, n in zip(names, counts, strict=True)
    )
    return Outcome(labels, got.excluded, None, plain.history)


@cache
def scalings_of(scenario: Scenario) -> frozenset[Any]:
    """The scalings of all clients, and where one's shares are missing in either sum."""
    way, fed = scenario.algorithm.scaling, scenario.federation
    blocks = [np.asarray(p.points, float) for p in fed.parties]
    own = [moments.feature_exponents([block], D, "x") for block in blocks]
    subsets = [[j for j in range(scenario.n) if j != lost] for lost in (None, *range(scenario.n))]
    found = set()
    for first, second in itertools.product(subsets, subsets):
        exponents = np.max([own[j] for j in first], axis=0)
        # Who was left out of the first sum, and has larger values, stays out of the second.
        there = [blocks[j] for j in second if (own[j] <= exponents).all()]
        bits = scenario.plan.bits
        found.add(way.scaling(exponents, moments.integer_moments(there, exponents, bits), bits, None))
    return frozenset(found)


def first_and_last(scenario: Scenario, got: Outcome) -> Outcome:
    """The same, where the labels between are not known to anybody."""
    want = over_rows(scenario, got)
    return dataclasses.replace(want, history=(want.history[0], want.history[-1]))


def first_alone(scenario: Scenario, got: Outcome) -> Outcome:
    """The same, where of labels that all know there are but the first."""
    want = over_rows(scenario, got)
    return dataclasses.replace(want, history=want.history[:1])


def sizes_between(scenario: Scenario, got: Outcome) -> Outcome:
    """The same, where of every step nobody knows more than sizes, unless all points end in one cluster."""
    want = over_rows(scenario, got)
    if got.excluded and len(got.history[0]) != len(want.history[0]):
        k = len(got.history[0])
        sizes = tuple(np.bincount(step[step >= 0], minlength=k) for step in want.history)
        want = dataclasses.replace(want, history=sizes)
    return want


def over_sums(scenario: Scenario, got: Outcome) -> Outcome:
    """The run in which nothing happens but that of every sum the same contributors' shares are missing."""
    whole = all(len(clients) == scenario.n for clients in got.summed)
    return scenario.clean[0] if whole else with_sums(scenario, got.summed)


def over_own_sums(scenario: Scenario, got: Outcome) -> Outcome:
    """The same, where labels stay with clients: of one that was cut off nobody has any."""
    want = over_sums(scenario, got)
    unheard = np.concatenate([np.full(len(labels), (labels == -1).all()) for labels in got.labels])
    history = tuple(np.where(unheard, -1, step) for step in want.history)
    return dataclasses.replace(want, history=history, centers=None)


@cache
def with_sums(scenario: Scenario, summed: tuple[tuple[str, ...], ...]) -> Outcome:
    rounds = [ITERATE + number * STRIDE + 1 for number in range(len(summed))]
    if not scenario.sealed:  # a round may tell something and ask for no sum
        quiet = Network({}, False)
        scenario.run(quiet)
        rounds = sorted({e.round for e in quiet.passed if e.kind == "SumShares"})
    # Without somebody's rows a run may converge sooner than the quiet one, or later.
    rounds += [rounds[-1] + STRIDE * (step + 1) for step in range(len(summed) - len(rounds))]
    counted = dict(zip(rounds, summed, strict=False))

    def withheld(e: Envelope) -> tuple[Envelope, ...]:
        # What a sealed message is nobody sees; in these rounds clients send one another shares only.
        dealt = e.round in counted if scenario.sealed else e.kind == "SumShares"
        return () if dealt and e.recipient != SERVER and e.sender not in counted[e.round] else (e,)

    return scenario.run(withheld)


# --- the scenarios ---------------------------------------------------------------------------------

BASE = secfc.SecFC(
    k=K,
    threshold=1,
    quantization=secfc.Quantization(scale=SCALE),
    n_init=2,
    max_iter=4,
    init=RandomPoints(),
    disclosure=secfc.Distances(),
    release=secfc.Release(smallest_center=1),
)
BARE = secfc.Distances(blind=False)
# Contests of so many points go in blocks where rounds cost nothing, and what is dealt comes in portions.
IN_BLOCKS, AT_ONCE = 130, Link(latency=0.0)


class Silent(secfc.NoiseInShares):
    """Noise of zero, in messages like those of any noise: plaintext Lloyd says what is right."""

    def noise(self, steps: Any, radius: int) -> Any:
        return vary(super().noise(steps, radius), sampler=lambda sigma, shape, *, coins: np.zeros(shape, int))


NOISY = Silent(Budget(1e5, 1e-6), radius=Bound.given(16.0), neighbors=Neighbors("replace"), absent=1)
PRIVATE_CENTERS = FedDPKMeans(K, 4.0, 1e-6, steps=1, noise=ServerNoise())
MASKED = secfc.FederatedLloyd(K, start=Turned(), max_iter=4, scale=SCALE, committee=4, t=1, coarse="allow")
SHARED = vary(MASKED, start=None, n_init=2)  # all observe all: starts by splitting, whose costs are compared
# No point is noise where each is a core point, as a client without labels has none but -1.
PAIRS = secfc.DBSCAN(2.5, 1, threshold=1, quantization=secfc.Quantization(scale=SCALE))
TILES = Tiled(2.5, 1, threshold=1, quantization=secfc.Quantization(scale=SCALE))
DISTANCES = secfc.Precomputed(
    FarthestPairs(), consent=True, threshold=1, quantization=secfc.Quantization(scale=SCALE)
)
# Bytes cost all, rounds nothing: steps in which few points move take two questions.
IN_TWO = vary(BASE, init=secfc.RandomLabels(), network=Link(0.0, 1.0), max_iter=6)
# Where labels are opened two play each part by default, at twice the messages; some scenarios are about
# something else, and do without.  One value of one field alone is a scenario of `tests.secfc.option_space`.
COLUMNS = vary(BASE, membership=Joined(bound=64), n_init=1, disclosure=secfc.AssignmentsOnly())
SCENARIOS = {
    "labels only": Scenario(vary(BASE, disclosure=secfc.AssignmentsOnly(), n_init=1)),
    "labels only, restarts, a client deals": Scenario(
        vary(BASE, disclosure=secfc.AssignmentsOnly("client-4"))
    ),
    "labels only, private": Scenario(
        vary(BASE, disclosure=secfc.AssignmentsOnly(), deviating=0, n_init=1, membership=Private(bound=64))
    ),
    "workers": Scenario(
        vary(BASE, disclosure=secfc.AssignmentsOnly(), deviating=0, n_init=1, workers=4, reveal_centers=True),
        n=7,
    ),
    "workers, distances": Scenario(vary(BASE, workers=("client-1", "client-2", "client-4", "client-5")), n=6),
    "workers, noise in shares": Scenario(
        vary(BASE, init=secfc.RandomLabels(), n_init=1, disclosure=NOISY, workers=5), n=7
    ),
    "workers, predict": Scenario(vary(BASE, workers=4), n=6, predict=True),
    "final labels": Scenario(
        vary(BASE, disclosure=secfc.FinalLabelsOnly(), n_init=1), expected=first_and_last
    ),
    "own labels": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels(), n_init=1, reveal_centers=True), expected=sizes_between
    ),
    "own labels, restarts, a client deals": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels("client-4")), expected=sizes_between
    ),
    "own labels, private": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels(), n_init=1, membership=Private(bound=64, counts="hidden")),
        expected=sizes_between,
    ),
    "own labels, nobody deals": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels(dealer=None)), expected=sizes_between
    ),
    "own labels, hidden sizes": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels(sizes="hidden"), n_init=1), expected=first_alone
    ),
    "own labels, hidden sizes, nobody deals": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels(dealer=None, sizes="hidden"), n_init=1), predict=True
    ),
    "final labels, the server deals": Scenario(
        vary(BASE, disclosure=secfc.FinalLabelsOnly(dealer="server"), n_init=1), expected=first_and_last
    ),
    "own labels, k chosen": Scenario(
        vary(BASE, k="1..3", n_init=1, disclosure=secfc.OwnLabels(), init=secfc.Splitting()),
        expected=sizes_between,
    ),
    "own labels, rounded centers": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels(), centers="rounded", init=secfc.Splitting()),
        expected=sizes_between,
    ),
    "own labels, rounded centers, a client deals": Scenario(
        vary(
            BASE,
            k="1..3",
            n_init=1,
            disclosure=secfc.OwnLabels("client-1"),
            centers="rounded",
            init=secfc.Splitting(),
        ),
        expected=sizes_between,
    ),
    "labels only, in blocks": Scenario(
        vary(BASE, disclosure=secfc.AssignmentsOnly(), init=secfc.RandomLabels(), network=AT_ONCE),
        m=IN_BLOCKS,
    ),
    "own labels, in blocks, a client deals": Scenario(
        vary(BASE, disclosure=secfc.OwnLabels("client-4"), init=secfc.RandomLabels(), network=AT_ONCE),
        m=IN_BLOCKS,
        expected=sizes_between,
    ),
    "labels only, moved points alone": Scenario(vary(IN_TWO, disclosure=secfc.AssignmentsOnly()), m=40),
    "rounded centers, moved points alone, a client deals": Scenario(
        vary(IN_TWO, disclosure=secfc.AssignmentsOnly("client-4"), centers="rounded", init=Bisecting()), m=40
    ),
    "labels only, moved points alone, nobody deals": Scenario(
        vary(IN_TWO, disclosure=secfc.AssignmentsOnly(dealer=None), n_init=1), m=40
    ),
    "own labels, predict": Scenario(vary(BASE, disclosure=secfc.OwnLabels(), n_init=1), predict=True),
    "noise in shares": Scenario(vary(BASE, init=secfc.RandomLabels(), n_init=1, disclosure=NOISY)),
    "blinded": Scenario(BASE),
    "bare": Scenario(vary(BASE, disclosure=BARE)),
    "at the threshold": Scenario(vary(BASE, ell=2, reveal_centers=True)),
    "bare, centers": Scenario(vary(BASE, disclosure=BARE, reveal_centers=True)),
    "bisecting": Scenario(
        vary(BASE, init=Bisecting(), disclosure=secfc.AssignmentsOnly(), deviating=0, n_init=1)
    ),
    "rounded centers": Scenario(
        vary(BASE, init=Bisecting(), disclosure=secfc.AssignmentsOnly(), centers="rounded")
    ),
    "bisecting, nobody deals": Scenario(
        vary(BASE, init=Bisecting(), disclosure=secfc.AssignmentsOnly(dealer=None), deviating=0, n_init=1)
    ),
    "k chosen": Scenario(
        vary(
            BASE,
            k=secfc.Elbow(5),
            init=Bisecting(),
            disclosure=secfc.AssignmentsOnly(),
            deviating=0,
            n_init=1,
        )
    ),
    "predict": Scenario(BASE, predict=True),
    "predict, bare": Scenario(vary(BASE, disclosure=BARE), predict=True),
    "private": Scenario(vary(BASE, membership=Private(bound=64, counts="opened"))),
    "joined columns": Scenario(COLUMNS, expected=over_columns, data=held_columns),
    "joined columns, predict": Scenario(COLUMNS, predict=True, expected=over_columns, data=held_columns),
    "k-fed": Scenario(secfc.KFed(k=K, k_local=2)),
    "private centers": Scenario(PRIVATE_CENTERS, expected=over_sums),
    "private centers, within a ball": Scenario(
        vary(PRIVATE_CENTERS, start=Votes(boxes=1), bound=BOUND, noise=SharedNoise()), expected=over_sums
    ),
    "private centers, shared noise": Scenario(
        vary(
            PRIVATE_CENTERS,
            noise=SharedNoise(),
            start=GivenCenters(np.eye(2), public=True),
            steps=3,
            neighbors=Neighbors("replace"),
            labels=RandomizedResponse(3.0),
        ),
        expected=over_sums,
    ),
    "pairs": Scenario(PAIRS, expected=over_pairs),
    "pairs in tiles": Scenario(TILES, expected=over_pairs),
    "all distances": Scenario(DISTANCES, expected=over_pairs),
    "lloyd": Scenario(secfc.Lloyd(k=K, quantization=secfc.Quantization(scale=SCALE), init=RandomPoints())),
    "overlapping": Scenario(MASKED, expected=over_own_sums),
    "overlapping, distances": Scenario(
        vary(MASKED, start=secfc.Synchronized(Blocks(), over="distances")), expected=over_own_sums
    ),
    "shared centers": Scenario(SHARED, expected=over_own_sums),
    "shared centers, a floor": Scenario(vary(SHARED, n_init=1, floor=2), m=24, expected=over_own_sums),
    "scaled": Scenario(
        secfc.Scaled(vary(BASE, coarse="allow"), secfc.Standardize(limit=1.5), told=True),
        expected=over_scaled_rows,
    ),
    # n = threshold + 2 corrected, and one that may fall silent.
    "one corrected": Scenario(vary(BASE, corrected=1), n=6),
    "one corrected, bare": Scenario(vary(BASE, corrected=1, disclosure=BARE), n=6),
    "two corrected": Scenario(vary(BASE, corrected=2, reveal_centers=True), n=8),
    "two corrected, bare": Scenario(vary(BASE, corrected=2, disclosure=BARE, reveal_centers=True), n=8),
}
SEALED = {
    f"{name}, sealed": dataclasses.replace(SCENARIOS[name], sealed=True)
    for name in (
        "labels only",
        "own labels",
        "blinded",
        "bare, centers",
        "predict",
        "private",
        "k-fed",
        "one corrected",
        "private centers, shared noise",
    )
}

# --- the judge -------------------------------------------------------------------------------------


def judge(
    scenario: Scenario, schedule: dict[int, Fault], lies: Mapping[str, Lie] = MappingProxyType({})
) -> str:
    """How the run under this schedule and these lies ended, in words.

    Raises AssertionError if a rule is broken.
    """
    network = Network(schedule, scenario.sealed, trusting=scenario.trusting)
    try:
        got = scenario.run(network, lies)
    except (ProtocolError, secfc.InputError) as error:
        caught = error
    else:
        if network.beyond(scenario.corrected):
            return "lie"
        check(scenario, network, got)
        if scenario.corrected:
            check_names(network, got)
        return ("exact on fewer rows" if got.excluded else "exact") + (", named" if got.deviated else "")
    check_blame(scenario, network, caught)
    return type(caught).__name__


# What clients say while a committee compares, of which no one alone makes a label with parts played by two.
OF_COMMITTEES = (
    "CheckDealing", "MaskedDistances", "MaskedSum", "CheckCoin", "CheckDigest", "MaskedRow", "MaskedProducts",
    "MaskedBits", "PartDigests", "LabelShare", "RequestCorrections", "MissingMessages", "PartShares",
    "SizeShare", "OwnShare", "CheckedPart", "ProductWords", "MaskedCenters",
)  # fmt: skip
# What they say where labels stay shared, of which replies, sums, owners' bits and indicators are checked.
OF_SHARED_LABELS = (
    "CheckedPart", "ResharedPart", "ProductWords", "CheckDealing", "MaskedDistances", "MaskedSum",
    "CheckCoin", "CheckDigest", "MaskedRow", "MaskedProducts", "DivisionShares", "MaskedRows",
    "CodedCenters", "MissingMessages",
)  # fmt: skip
# What they say of secure sums, and of distances between local clusters.
OF_SUMS = ("CodedSum", "SumShares", "SumDigest", "CodedPairDistances")


@dataclass(frozen=True)
class Deviation:
    """A client that says something else in these kinds of messages, to each recipient with this chance."""

    client: int
    kinds: frozenset[str]
    chance: float
    seed: int


def deviations(scenario: Scenario, said: tuple[str, ...] = OF_COMMITTEES) -> st.SearchStrategy[Deviation]:
    """Of any client that does not deal, in messages of these kinds."""
    way = inner(scenario.algorithm)
    compares = isinstance(way, secfc.SecFC | secfc.DBSCAN)
    dealer = way.disclosure.dealer if compares and said is not OF_SUMS else None
    clients = [j for j, c in enumerate(scenario.federation.names) if c != dealer]
    kinds = st.frozensets(st.sampled_from(said), min_size=1, max_size=3)
    chances = st.sampled_from((1.0, 0.3, 0.02))
    return st.builds(Deviation, st.sampled_from(clients), kinds, chances, st.integers(0, 2**16))


def judge_deviation(scenario: Scenario, deviation: Deviation) -> str:
    """How a run ended in which a client deviates; none ends with a label that is wrong, or blames others."""
    network, name = Network({}, scenario.sealed), scenario.federation.names[deviation.client]
    rng = np.random.default_rng(deviation.seed)

    def change(to: str, message: Any) -> Any:
        if message.kind not in deviation.kinds or rng.random() > deviation.chance:
            return message
        found_in, (a, b) = [*leaves(message)], rng.integers(2**16, size=2).tolist()
        try:
            body = _changed(message, ALTERED, a, b) if found_in else None
            body = message if body is None else wire.decode(wire.encode(body))
        except ValueError:  # no message
            return message
        if wire.encode(body) != wire.encode(message):
            network.corrupters.add(name)
        return body

    try:
        got = scenario.run(network, deviating={name: partial(saying, change=change)})
    except ProtocolError as error:
        if getattr(error, "accuser", None) != name:
            check_blame(scenario, network, error)
        return type(error).__name__
    check(scenario, network, got)
    return "exact, though it deviates" if network.corrupters else "exact"


def check_blame(scenario: Scenario, network: Network, error: Exception) -> None:
    """That an error has a cause, and names nobody else than whose messages were corrupted."""
    guilty, beyond = network.corrupters, network.beyond(scenario.corrected)
    assert network.lost or guilty, f"nothing was lost or corrupted: {error!r}"
    accuser = getattr(error, "accuser", None)
    if accuser in beyond or (scenario.corrected and accuser in guilty):
        return  # an honest answer to a lie may look like a fault; its accusations prove nothing
    match error:
        case SuspectedParties():
            assert set(error.parties) & guilty, f"suspected {error.parties}, corrupted {guilty}: {error}"
        case FaultyParty() if len(beyond) > 1 and "dealt" in str(error):
            pass  # several that lie about what they were dealt can frame who dealt it
        case FaultyParty():
            assert error.party in guilty, f"blamed {error.party}, corrupted {guilty}: {error}"
        case TamperedMessage():
            assert scenario.sealed
            assert error.party in guilty, f"suspected {error.party}, corrupted {guilty}: {error}"
        case PlanMismatch():  # also of who was told other rows by the server
            right = set(error.parties) <= guilty or SERVER in network.deviated
            assert right, f"{error.parties} differ, corrupted {guilty}"
        case UnionFailed() if error.proof:
            assert set(error.parties) <= guilty, f"blamed {error.parties}, corrupted {guilty}: {error}"
        case BudgetSpent():
            assert network.lost, f"a budget was spent although nothing was lost: {error!r}"
        case TooFewReplies() | RowsLost() | UnionFailed():
            assert network.lost or not scenario.corrected or beyond, (
                f"who was to be corrected ended the run: {error!r}"
            )
        case TooManyDeviating():
            assert beyond or (network.lost and scenario.corrected), f"no more lied than planned: {error!r}"
            assert beyond or set(error.suspects) <= guilty, f"suspected {error.suspects}, lied {guilty}"
        case _:  # RangeExceeded, DisputedRows, InputError say that the data are at fault, and they are not
            assert beyond, f"{error!r} without a lie"


def check_names(network: Network, got: Outcome) -> None:
    """That only who deviates is named, one of every dispute lied, and one alone costs nobody its rows."""
    guilty = network.corrupters
    assert set(got.deviated) <= guilty, f"named {got.deviated}, corrupted {guilty}"
    for pair in got.disputes:
        lost = {*pair} & network.late or frozenset(pair) in network.missed
        assert lost or {*pair} & guilty, f"{pair} dispute, corrupted {guilty}"
    if not network.lost and len(guilty) < 2:
        assert set(got.excluded) <= guilty, f"left out {got.excluded}, corrupted {guilty}"


def check(scenario: Scenario, network: Network, got: Outcome) -> None:
    """That everything is as expected of those who contributed; only who lost messages has no labels."""
    want = scenario.expected(scenario, got)
    for mine, expected in zip(got.labels, want.labels, strict=True):
        unheard = (mine == -1).all()
        assert (mine == expected).all() or (unheard and (network.lost or network.corrupters))
        assert not unheard or (expected == -1).all() or network.lost or network.corrupters
    assert len(got.history) == len(want.history)
    assert all((a == b).all() for a, b in zip(got.history, want.history, strict=True))
    if want.centers is not None:
        np.testing.assert_array_equal(got.centers, want.centers)
