"""Who contributes which rows: a value, so that sharing and iteration know nothing of it.

`Open` is SecFC's main protocol: every client shares its own rows, and everybody knows whose they are.
`Private` is its section 6 and Appendix B: rows are the union of all IDs, found by private set union, and
every client shares all of them, zeros where it owns none.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol, get_args

import numpy as np

from field.arrays import Array
from field.code.rows import CodedRows
from field.secrets.coins import Coins
from psu import merge, oblivious, ristretto
from psu import plan as psu_plan
from psu.identify import digests, pair_digests, row_digests, tags
from psu.messages import UnionTags
from secfc.coded.duplicates import (
    COUNTED,
    CountHolders,
    divide_by_multiplicity,
    divide_by_multiplicity_at_server,
)
from secfc.coded.plan import CodedPlan, HiddenOwnerLayout, PublicOwnerLayout
from secfc.coded.tags import draw_keys, draw_keys_at_server, evaluate_at_server, evaluate_tags
from secfc.coded.union import (
    RoundCounter,
    UnionMember,
    UnionRelay,
    blame_union_failure,
    count_holders,
    find_disputes,
    find_union,
    join_union,
    require_disjoint,
    row_numbers,
)
from secfc.data.federation import Federation
from secfc.data.inputs import SWITCH, WHOLE, ValueKind, check_fields, optional_kind
from secfc.data.linkage import Linkage
from secfc.data.party import Party
from secfc.errors import Caution, DisputedRows, IncompatibleOptions, InputError
from secfc.roles.agreement import agree
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import ALIGN, SERVER, SETTLE, PartyId, Role

# --------------------------------------------------------------------------------------------------
# What one client brings to a run: how to read its part of the rows, and which of them are its own.


@dataclass(frozen=True, repr=False, eq=False)
class RowContribution:
    """What one client brings: how to read its part of a span of rows, and which rows are its own.

    read(begin, end): (end - begin, d) integers of rows begin, ... of its span; secret.
    rows: for each of its own points, in its own order, the row among all m; secret if owners are hidden.
    settle: a role fragment that brings the shares of all rows to the plan's multiple of their data, with what
    counts the holders of rows unseen.
    scale: by which it scaled its columns alone (`secfc.scaling.scaling.Scaling`), None if it did not; secret.
    """

    name: str
    read: Callable[[int, int], Array]
    rows: Array
    settle: Callable[[CodedRows, CountHolders], Role[None]]
    scale: Any = None

    def own(self, labels: Array) -> Array:
        """The labels of my own points, in my order: (m_j,) int32, -1 where my rows do not count."""
        return np.where(self.rows < 0, -1, labels[self.rows]).astype(np.int32)

    def restrict_clients(self, shared: CodedPlan, kept: CodedPlan) -> RowContribution:
        """The contribution where only some clients' rows count; rows are -1 if this client's do not."""
        if kept is shared:
            return self
        j = shared.clients.index(self.name)
        first, count = kept.layout.span(j)
        gone = np.full(len(self.rows), -1)
        return replace(self, rows=np.arange(first, first + count) if count else gone)


def settle_single_owner(*_: Any) -> Role[None]:
    """Nothing to settle: every row has one contributor."""
    yield from ()


def contribute_own_rows(plan: CodedPlan, party: Party) -> RowContribution:
    """What a client brings whose rows are its own."""
    first, count = plan.layout.span(plan.clients.index(party.name))

    def read(begin: int, end: int) -> Array:
        points = np.asarray(party.points[begin:end])
        return plan.quantizer(points, owner=f"client {party.name!r}", first_row=begin)

    return RowContribution(party.name, read, np.arange(first, first + count), settle_single_owner)


def scatter_rows(rows: Array, integers: Array) -> Callable[[int, int], Array]:
    """A reader of all m rows: a client's integers (m_j, d) at their rows, zeros elsewhere."""
    # Equal IDs of one client share a row, which gets the first of them.
    at, first = np.unique(rows, return_index=True)

    def read(begin: int, end: int) -> Array:
        low, high = np.searchsorted(at, (begin, end))
        out = np.zeros((end - begin, integers.shape[1]), np.int64)
        out[at[low:high] - begin] = integers[first[low:high]]
        return out

    return read


# --------------------------------------------------------------------------------------------------
# Hidden membership: what is public before a union, and roles that find rows and let an ID count once.

# The server's part of bringing shares to the plan's multiple of their data.
Settling = Callable[[CodedPlan], Role[None]]
# Whether it is opened how many clients hold a row; what becomes of an ID whose holders have different data.
Counts = Literal["hidden", "opened"]
Conflict = Literal["fail", "separate", "mean"]


@dataclass(frozen=True, repr=False, eq=False)
class RowUnion:
    """The rows that a client found with the others.

    held: (m,) int64, how many clients hold each row: all ones without merging.  contribution: what the client
    brings to the run whose plan this completes.
    """

    held: Array
    contribution: Callable[[CodedPlan], RowContribution]


@dataclass(frozen=True)
class PrivateMembershipPlan(DescribedPlan):
    """What is public before a union: its plan, the clients, and what the clustering after it is to be."""

    union: psu_plan.UnionPlan
    clients: tuple[PartyId, ...]
    terms: RunTerms = field(metadata=LOCAL)  # described beside it
    merge: bool = True
    counts: Counts = "opened"
    on_conflict: Conflict = "fail"
    verify: bool = False

    @property
    def further_facts(self) -> dict[str, object]:
        """The bound, on which rows are rounded before there is another plan."""
        return {"bound": self.terms.public.bound}

    @property
    def counted(self) -> bool:
        """Whether it is opened how many clients hold each row."""
        return self.merge and self.counts == "opened"

    @property
    def divides(self) -> bool:
        """Whether rows are divided by how many hold them, unseen."""
        return self.merge and self.counts == "hidden"

    def layout(self, held: Array) -> HiddenOwnerLayout:
        """The layout of rows that so many clients hold, (m,) int64: all ones if that is hidden."""
        return merged_layout(held, len(self.clients))

    def identities(self, party: Party, points: Array) -> Array:
        """Digests (m_j, 2) of what makes points of this party the same row as others', secret."""
        if party.ids is None:
            return row_digests(points)
        ids = digests(party.ids)
        return pair_digests(row_digests(points), ids) if self.on_conflict == "separate" else ids

    def foreseen(self, federation: Federation) -> Array:
        """How many clients will be found to hold each row, (m,) int64, for a process that sees all data.

        Raises InputError for means of what are columns of several clients.
        """
        if self.merge and self.on_conflict == "mean":
            refuse_split_columns(federation)
        found = [np.unique(self.identities(party, party.read()), axis=0) for party in federation.parties]
        _, held = np.unique(np.concatenate(found), axis=0, return_counts=True)
        return held if self.counted else np.ones(len(held), np.int64)

    def client(self, party: Party, *, coins: Coins) -> Role[RowUnion]:
        """A client finds the rows with the others."""
        points = party.read()
        if self.merge and self.on_conflict == "mean":
            warn_constant_columns(party.name, points)
        me = self.clients.index(party.name)
        digest = self.identities(party, points)
        oblivious.check_quota(self.union, digest)
        yield from agree(self, party.name, number=ALIGN)
        with blame_union_failure(self.clients):
            seat, digest, union, rows = yield from find_rows(
                self.union, self.clients, me, digest, coins, verify=self.verify
            )
            held = np.ones(len(union.z), np.int64)
            if self.counted:
                held = yield from count_holders(seat, union, rows)
            elif not self.merge:
                yield from require_disjoint(seat, union, rows)

        def contribution(plan: CodedPlan) -> RowContribution:
            integers = plan.quantizer(points, owner=f"client {party.name!r}")
            merge.same_of_one(rows, integers)
            settle = partial(self._settle, plan, seat, party, digest, rows, integers, held)
            return RowContribution(party.name, scatter_rows(rows, integers), rows, settle)

        return RowUnion(held, contribution)

    def _settle(
        self,
        plan: CodedPlan,
        seat: UnionMember,
        party: Party,
        ids: Array,
        rows: Array,
        integers: Array,
        held: Array,
        shares: CodedRows,
        count: CountHolders,
    ) -> Role[None]:
        """Find out whether the holders of each row agree, if they must, and let each ID count once.

        ids: digests of the IDs of its points, or what became of them.  held: how many clients hold each row,
        if that is open; count: what counts them unseen.
        """
        if self.compares:
            seat.clock.phase = SETTLE
            prints = merge.fingerprints(row_digests(integers.astype(np.float64)), ids, seat.secrets)
            with blame_union_failure(seat.clients):
                disputed = yield from find_disputes(seat, rows, prints, shares.m)
            if len(disputed):
                mine = np.flatnonzero(np.isin(rows, disputed))
                names = [party.ids[i] if party.ids is not None else f"row {i}" for i in mine]
                raise DisputedRows(disputed.tolist(), names)
        if self.divides:
            holding = np.zeros(shares.m, bool)
            holding[rows] = True
            counted = yield from count(COUNTED, holding, scatter_rows(rows, integers))
            yield from divide_by_multiplicity(plan, seat.me, shares, counted, seat.coins, verify=self.verify)
        else:
            scale_rows(shares, merge.row_factors(held, shares.basis))

    @property
    def compares(self) -> bool:
        """Whether holders of the same ID must have the same data."""
        return self.merge and self.on_conflict == "fail"

    def server(self, *, coins: Coins) -> Role[tuple[Array, Settling]]:
        """The server's part of the same: how many clients hold each row; and its part of settling."""
        yield from agree(self, SERVER, number=ALIGN)
        with blame_union_failure(self.clients):
            relay, union = yield from find_rows_at_server(self.union, self.clients, coins)
            held = np.ones(len(union.z), np.int64)
            if self.counted:
                held = yield from relay.count_holders(union)
            elif not self.merge:
                yield from relay.require_disjoint(union)
        return held, partial(self._settle_at_server, relay)

    def _settle_at_server(self, relay: UnionRelay, plan: CodedPlan) -> Role[None]:
        if self.compares:
            relay.clock.phase = SETTLE
            with blame_union_failure(relay.clients):
                disputed = yield from relay.find_disputes(plan.m)
            if len(disputed):
                raise DisputedRows(disputed.tolist(), ())
        if self.divides:
            yield from divide_by_multiplicity_at_server(plan)


def find_rows(
    plan: psu_plan.UnionPlan,
    clients: tuple[PartyId, ...],
    me: int,
    digest: Array,
    coins: Coins,
    *,
    verify: bool,
) -> Role[tuple[UnionMember, Array, UnionTags, Array]]:
    """A client finds the union: its place in it, what became of its digests (m_j, 2), the union, its rows."""
    clock = RoundCounter()
    plan, evaluator = yield from draw_keys(plan, clients, me, coins, clock)
    seat = yield from join_union(plan, clients, me, coins, clock, verify=verify)
    digest = yield from evaluate_tags(seat, evaluator, digest)
    own, inverse = tags(digest, seat.secrets.tag_key)
    union = yield from find_union(seat, own)
    return seat, digest, union, row_numbers(union, own, inverse)


def find_rows_at_server(
    plan: psu_plan.UnionPlan, clients: tuple[PartyId, ...], coins: Coins
) -> Role[tuple[UnionRelay, UnionTags]]:
    """The server's part of the same."""
    clock = RoundCounter()
    keyed, evaluator = yield from draw_keys_at_server(plan, clients, coins, clock)
    yield from evaluate_at_server(keyed, clients, evaluator, clock)
    relay = UnionRelay(keyed, clients, clock)
    return relay, (yield from relay.find_union())


def merged_layout(held: Array, n: int) -> HiddenOwnerLayout:
    """The layout of rows that so many of n clients hold, (m,) int64: all ones without merging."""
    multiple = merge.common_multiple(held)
    if multiple == 1:
        return HiddenOwnerLayout(len(held), n)
    return HiddenOwnerLayout(len(held), n, multiple, multiplicity_digest(held))


def multiplicity_digest(held: Array) -> bytes:
    """32 bytes that agree exactly when two parties were told the same numbers of holders (m,)."""
    return hashlib.blake2b(held.astype("<i8").tobytes(), digest_size=32, person=b"secfc holders").digest()


def scale_rows(rows: CodedRows, factors: Array) -> None:
    """Multiply rows by one factor each, (lanes, m) canonical residues; before they are finished."""
    others = np.flatnonzero((factors != 1).any(axis=0))
    # A slice at a time, so that memory does not grow with m.
    for start in range(0, len(others), 1 << 14):
        chosen = others[start : start + (1 << 14)]
        rows.scale_rows(chosen, factors[:, chosen])


# --------------------------------------------------------------------------------------------------

# Who can compute tags of IDs: any client, or only the server and t+1 clients together.
Tagging = Literal["shared key", "oblivious"]
SHARED_KEY = (
    "all clients share the key of tags, so any one of them can test guesses of IDs against the union at will"
)
SEEN_LABELS = " and see the clusters of those whose labels it is told"


class Membership(Protocol):
    """How rows come about."""

    def draft(
        self, clients: tuple[PartyId, ...], counts: tuple[int, ...], t: int, session: bytes, terms: RunTerms
    ) -> Any:
        """The layout of rows, where it is public; else what is public before the parties find it, a draft.

        session: 32 public bytes that no other run uses.  terms: what the run was asked for.
        """
        ...

    @property
    def learned(self) -> tuple[str, ...]:
        """What the server learned from it, in sentences."""
        ...


# --- rows that are public ------------------------------------------------------------------------


@dataclass(frozen=True)
class Open:
    """Membership by which every client shares its own rows; row counts and owners are public."""

    learned = ()

    def draft(
        self, clients: tuple[PartyId, ...], counts: tuple[int, ...], t: int, session: bytes, terms: RunTerms
    ) -> PublicOwnerLayout:
        return PublicOwnerLayout(counts)


# --- rows that the parties find --------------------------------------------------------------------


def check_union_settings(way: Any, words: dict[str, Any]) -> None:
    """Raises InputError for settings of a union that are none.  words: those of each other field."""
    mode = ValueKind(
        "a mode of psu",
        "Pass Committee(t) or Server() of psu",
        lambda v: v if isinstance(v, psu_plan.Mode) else None,
    )
    check_fields(
        way,
        {
            "mode": optional_kind(mode, "a threshold of SecFC's t"),
            "bound": WHOLE,
            "sized": SWITCH,
            "verify": SWITCH,
            "quota": optional_kind(WHOLE, "none, for tags under a shared key"),
        },
    )
    for name, kind in {**words, "tags": Tagging}.items():
        if getattr(way, name) not in get_args(kind):
            known = ", ".join(map(repr, get_args(kind)))
            raise InputError(f"{name}={getattr(way, name)!r} is none of {known}")
    if way.schema is not None and not isinstance(way.schema, Linkage):
        raise InputError(
            f"schema is a {type(way.schema).__name__}: a Linkage is needed, as "
            "secfc.data.linkage.read_linkage has it of a file"
        )
    if way.verify and isinstance(way.mode, psu_plan.Server):
        raise InputError(
            "verify=True with mode=Server(): there is no committee to check the server. Use Committee(t)"
        )
    if (way.tags == "oblivious") != (way.quota is not None) or way.quota == 0:
        raise InputError(
            f"tags={way.tags!r} with quota={way.quota}: oblivious tags need a quota of at least 1, a "
            f'public number of IDs that no client exceeds, as {type(way).__name__}(tags="oblivious", '
            "quota=100_000); others have none"
        )


def plan_union(way: Any, n: int, t: int, session: bytes) -> psu_plan.UnionPlan:
    """The plan of a union of n clients by these settings.  Warns (`Caution`) of a shared key of tags."""
    if way.quota:
        ristretto.require_libsodium()
    else:
        more = 'tags="oblivious" and a quota prevent that (psu/README.md)'
        warnings.warn(f"{SHARED_KEY}{SEEN_LABELS}; {more}", Caution, stacklevel=4)
    mode = way.mode or psu_plan.Committee(t)
    return psu_plan.UnionPlan(n, mode, session, way.bound, way.sized, quota=way.quota or 0)


@dataclass(frozen=True)
class Private:
    """Membership by which nobody learns which point belongs to whom, nor how many points any client has.

    Parameters
    ----------
    mode
        Who may collude in the union: `psu.Committee(t)`, with SecFC's t by default, or `psu.Server()`; their
        docstrings state the leakage.
    bound
        Public upper bound on the size of the union.
    sized
        Whether the size of the union is estimated first, instead of making tables for the bound.
    merge
        Whether an ID that several clients hold counts once.  With False IDs must be disjoint, as a point held
        by c clients would count c times.  Before any point is shared, the parties find out whether IDs are
        disjoint, and only that (psu.disjoint); if not, all raise SharedIds.  That stops mistakes: a client
        that misstates which rows it holds can hide that it shares one.
    counts
        "hidden": nobody learns how many clients hold a row (`secfc.coded.duplicates`).  A client that claims
        a row which it does not hold ends the run, but two that deviate together may make rows of their own of
        any size.  "opened": the server and all clients learn the numbers of holders (not who holds a row).
        Opened counts withstand any t clients that share false data: rows are then scaled by the least common
        multiple of the counts, so nothing is divided modulo P; if the multiple does not fit, all raise
        TooManyHolders.
    on_conflict
        What becomes of an ID whose holders have different data.  "fail": all learn which rows are in dispute,
        and raise DisputedRows.  "separate": each version is a row of its own, and equal data are still one
        row; data are compared as given, before rounding.  "mean": the mean of all holders, with equal
        weights; nobody learns that they differ, and all rows grow by the least common multiple of the counts.
        As nobody can then tell who claims a row that it does not hold, "mean" needs opened counts and a
        policy that opens labels to all.
    schema
        How IDs were made of columns, which the parties compare before anything moves: PlanMismatch names the
        field where two differ.  The IDs are keys already (`Federation.from_files(linkage=)`); None if IDs are
        used as they are.
    verify
        Whether members of the committee exchange what they open, and recompute what the server announces:
        IDs, numbers of holders, rows in dispute.  With `counts="hidden"` all clients also divide as the
        server does. A server that announces something else is suspected, with those who told it otherwise.
        Not available in the server mode, which has no committee.
    tags
        How the union finds equal IDs.  "shared key": all clients have the key, so any one can test guesses of
        IDs at will, of which there are few where IDs are numbers.  "oblivious": only the server and t + 1
        clients together can compute a tag, and each answers a client for at most `quota` IDs (psu/README.md).
    quota
        Public number, at least every client's number of IDs and not derived from it.  Every client computes
        for the whole quota, about a second for 2,000.  Each run grants its own quota.

    Notes
    -----
    IDs are those of the parties, or the data themselves if a party has none; equal IDs within a client must
    have equal data and are one row.

    Examples
    --------
    >>> import secfc
    >>> ids = [["ann", "bob"], ["bob", "dan"], ["eve"]]
    >>> rows = [[[0, 0], [9, 9]], [[9, 9], [0, 1]], [[8, 9]]]
    >>> federation = secfc.Federation.from_arrays(rows, ids=ids)
    >>> result = secfc.fit(secfc.SecFC(k=2, threshold=1, membership=Private()), federation)
    >>> len(result.history[-1]), bool(result.labels[0][1] == result.labels[1][0])
    (4, True)
    """

    mode: psu_plan.Mode | None = None
    bound: int = 1 << 24
    sized: bool = True
    merge: bool = True
    counts: Counts = "opened"
    on_conflict: Conflict = "fail"
    schema: Linkage | None = None
    verify: bool = False
    tags: Tagging = "shared key"
    quota: int | None = None

    def __post_init__(self) -> None:
        check_fields(self, {"merge": SWITCH})
        check_union_settings(self, {"counts": Counts, "on_conflict": Conflict})
        if self.counts == "hidden" and self.on_conflict == "mean":
            raise IncompatibleOptions(
                {"on_conflict": "mean", "counts": "hidden"},
                "where holders of a row may have other data than it has, nobody can tell who claims a row "
                "that it does not hold, and divides it by too much",
                [("counts", "opened"), ("on_conflict", None)],
            )
        if not self.merge and self.on_conflict == "mean":
            raise IncompatibleOptions(
                {"on_conflict": "mean", "merge": False},
                "there no two clients hold the same ID, so there is no mean",
                [("merge", True), ("on_conflict", None)],
            )

    @property
    def learned(self) -> tuple[str, ...]:
        facts = ["the size of the union and pseudonyms of its IDs, not whose they are"]
        if not self.merge:
            facts.append("that every row has one holder (so did every client)")
        elif self.counts == "opened":
            facts.append("how many clients hold each row (so did every client), not which")
        if self.merge and self.on_conflict == "fail":
            facts.append("that holders of the same ID have the same data (so did every client)")
        return tuple(facts)

    def draft(
        self, clients: tuple[PartyId, ...], counts: tuple[int, ...], t: int, session: bytes, terms: RunTerms
    ) -> PrivateMembershipPlan:
        union = plan_union(self, len(clients), t, session)
        return PrivateMembershipPlan(
            union, clients, terms, self.merge, self.counts, self.on_conflict, self.verify
        )


# --------------------------------------------------------------------------------------------------
# Rows that several clients hold: what only a process that has all data can say.

Place = tuple[str, int]  # a client's name and a row of its, counted from 0


def refuse_split_columns(federation: Federation) -> None:
    """Raise InputError if every column varies at one client at most, and more than one has such columns.

    These are columns of several owners, filled up by constants: the mean weighs each person's row by how many
    hold it, so labels are not those of the joined table wherever clients hold other people.
    """
    vary = np.stack([np.ptp(party.read(), axis=0) > 0 for party in federation.parties])
    if min(federation.counts) < 2 or (vary.sum(axis=0) > 1).any() or np.count_nonzero(vary.any(axis=1)) < 2:
        return
    raise IncompatibleOptions(
        {"on_conflict": "mean"},
        "no column varies at two clients, so these are columns of several owners filled up by constants: "
        "means weigh each row by how many clients hold it, so labels are wrong where these hold other people",
        [("membership", "joined", "give each client its own columns (features=)")],
    )


def warn_constant_columns(client: PartyId, points: Array) -> None:
    """Warn (`Caution`) a site, which sees its own points (m_j, d) alone, of columns with one value."""
    constant = int((np.ptp(points, axis=0) == 0).sum()) if len(points) > 1 else 0
    if 0 < constant < points.shape[1]:
        warnings.warn(
            f"client {client!r} has {constant} of {points.shape[1]} columns with one value, and "
            "on_conflict='mean': if another client has them and they were filled up here, labels are wrong. "
            "Give each client its own columns then (membership='joined')",
            Caution,
            stacklevel=2,
        )


def check_disjoint(federation: Federation) -> None:
    """Raise InputError if two clients hold the same ID."""
    for (one, row), (other, peer) in shared_places(federation):
        what = "data, and rows are their own IDs" if federation.parties[0].ids is None else "ID"
        raise IncompatibleOptions(
            {"merge": False},
            f"client {one!r}, row {row} and client {other!r}, row {peer} (counted from 0) have the same "
            f"{what}, and the point would count twice, as twice itself",
            [("merge", True)],
        )


def shared_places(federation: Federation) -> Iterator[tuple[Place, Place]]:
    """Pairs of places at different clients with the same ID, or the same row if there are no IDs."""
    seen: dict[bytes, Place] = {}
    for party in federation.parties:
        digest = row_digests(party.read()) if party.ids is None else digests(party.ids)
        for row, words in enumerate(digest):
            place = seen.setdefault(words.tobytes(), (party.name, row))
            if place[0] != party.name:
                yield place, (party.name, row)
