"""Clients that hold different columns of the same people: the rows that all owners of columns hold.

A row's columns lie at several clients, each at one; of clients that have the same columns each has other
people.  An owner deals shares of its own columns only; side by
side they are shares of the joined row, as distances are sums of squares over columns, and everything after is
SecFC as it is.  Rows are found as by `Private`: a union of IDs, then one sheet, to which every owner adds 1
at its rows.  Rows that all owners hold are kept, the others are nobody's.

What that shows.  To the server how many owners hold each ID of the union, not which; to clients which rows of
the union are kept.  An owner that claims an ID which it lacks learns whether all others hold it, has data of
its choice there, and is told its label.  Whoever adds something else than 0 or 1 can have a row kept that
another owner lacks: that one sees it, and ends the run, by which all hear who it is.  No row gets other data
than its owners dealt, as nobody deals columns of another.  But of clients that have the same columns each can
deal at people of the others too, unnoticed: it adds numbers of its choice to theirs, and labels tell on which
side these sums are.
"""

from __future__ import annotations

import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.basis import MERSENNE_61
from field.ring.quantize import VARIANCE_PARTS
from field.secrets.coins import Coins
from psu import merge, oblivious
from psu import plan as psu_plan
from psu.errors import UnionAborted
from psu.identify import digests
from psu.messages import UnionTags
from secfc.coded.membership import (
    RowContribution,
    RowUnion,
    Settling,
    Tagging,
    check_union_settings,
    find_rows,
    find_rows_at_server,
    plan_union,
    scatter_rows,
    settle_single_owner,
)
from secfc.coded.plan import CodedPlan, ColumnLayout
from secfc.coded.union import UnionMember, UnionRelay, blame_union_failure, open_for_all
from secfc.coded.union_recheck import suspect_announcement
from secfc.data.federation import Federation
from secfc.data.inputs import names_listed
from secfc.data.linkage import Linkage
from secfc.data.party import Party
from secfc.errors import Caution, FaultyServer, IncompatibleOptions, InputError, UnionFailed
from secfc.roles.agreement import agree
from secfc.roles.description import LOCAL, DescribedPlan, RunTerms
from secfc.roles.exchange import ALIGN, SERVER, PartyId, Role
from secfc.roles.messages import Message, is_array, refuse_if

# How rows of different owners are matched: by IDs, or given in the same order by all.
Alignment = Literal["ids", "given"]
# Whose rows are kept: of people whom all owners hold, or any.
Kept = Literal["intersection", "union"]
# Of an owner's rows in a union, from which on it is told that many are filled up by zeros.
MANY_MISSING = 0.3


class KeptRows(Message, tag=237):
    """Server to every client, after a union: of each row (m,) whether it has all columns; how many twice.

    Under "with hidden membership": server, client (joined columns).  Seen: which rows of the union have
    all columns, and how many have one twice; the server: how many clients hold each, in all and of those
    with the same columns.  By deviating: the server: different rows to clients: `PlanMismatch`; fewer
    rows: suspected with `verify=True`; a false count: the run ends, as if rows were held twice. A row that
    an owner lacks: that owner ends the run (`UnionFailed`), by which it is known. A client: claim IDs that
    it lacks, and learn which of them all other owners hold, and their labels, if any are told.
    """

    kept: Array
    twice: int = 0

    def __post_init__(self) -> None:
        refuse_if(self.twice < 0, "rows that are held twice are counted from 0")
        refuse_if(not is_array(self.kept, "b", 1), "whether a row is kept is a truth value a row")


@dataclass(frozen=True)
class HolderCount:
    """How holders of each row are counted: one number, of digits with these radices, the least first.

    The first digit counts clients that alone have their columns, each other one those that have the same.
    summands: what each client adds at its rows, 0 for one without columns.
    """

    radices: tuple[int, ...]
    summands: tuple[int, ...]

    @classmethod
    def of(cls, blocks: tuple[tuple[int, ...], ...]) -> HolderCount:
        """For these columns of each client.  Raises InputError for more than one number holds."""
        holders = Counter(block for block in blocks if block)
        several = [block for block, count in holders.items() if count > 1]
        radices = (1 + len(holders) - len(several), *(1 + holders[block] for block in several))
        if math.prod(radices) >= MERSENNE_61:
            raise InputError(
                f"{len(several)} blocks of columns at several clients each are too many to count"
            )
        weights = {block: math.prod(radices[: 1 + i]) for i, block in enumerate(several)}
        return cls(radices, tuple(weights.get(block, 1) if block else 0 for block in blocks))

    def kept(self, sums: Array) -> tuple[Array, int]:
        """Whether each row (m,) has all columns, by the sums (m,) of its holders; how many have some twice.

        Raises UnionAborted for sums that no holders have.
        """
        left, digits = sums.astype(np.int64), []
        for radix in self.radices:
            left, digit = np.divmod(left, radix)
            digits.append(digit)
        if left.any() or not sums.all():
            raise UnionAborted("a row is held by nobody, or more often than there are clients")
        twice = int((np.stack(digits)[1:] > 1).any(axis=0).sum())
        kept = digits[0] == self.radices[0] - 1
        return np.logical_and.reduce([kept, *(digit > 0 for digit in digits[1:])]), twice


def keep_rows(seat: UnionMember, union: UnionTags, rows: Array, count: HolderCount) -> Role[Array]:
    """A client's part in finding the rows that have all columns: of each row of the union, (m,) bool.

    rows: its own, none of a client without columns.  Raises InputError where a person has a column twice.
    """
    m = len(union.z)
    sheet, _ = merge.merge_sheets(m)
    table = merge.count_table(rows, m) * np.uint64(count.summands[seat.me])
    told, sums = yield from open_for_all(seat, sheet, table, KeptRows)
    kept: Array = told.kept
    if len(kept) != m:
        raise FaultyServer(SERVER, f"kept rows of another union than that of m={m}")
    if sums is not None:
        expected, twice = count.kept(sums[:, 0])
        if not np.array_equal(kept, expected) or twice != told.twice:
            raise suspect_announcement("which rows all owners hold", seat.judges)
    refuse_twice(told.twice)
    return kept


def keep_rows_at_server(relay: UnionRelay, union: UnionTags, count: HolderCount) -> Role[Array]:
    """The server's part of the same."""
    sheet, _ = merge.merge_sheets(len(union.z))
    kept, twice = count.kept((yield from relay.open(sheet)).reshape(-1))
    yield relay.tell(KeptRows(kept, twice))
    refuse_twice(twice)
    return kept


def refuse_twice(count: int) -> None:
    """Raise InputError if so many people have a column at two clients."""
    if count:
        raise InputError(f"{count} IDs are held twice in one block of columns: keep one row of each person")


@dataclass(frozen=True)
class JoinedPlan(DescribedPlan):
    """What is public before the rows of joined columns are found.

    blocks: of each client the numbers of its columns, () of one without data.
    """

    union: psu_plan.UnionPlan
    clients: tuple[PartyId, ...]
    blocks: tuple[tuple[int, ...], ...]
    terms: RunTerms = field(metadata=LOCAL)  # described beside it
    keep: Kept = "intersection"
    scale: Any = None
    verify: bool = False
    explained: int | None = None

    @property
    def further_facts(self) -> dict[str, object]:
        """The bound, on which rows are rounded before there is another plan."""
        return {"bound": self.terms.public.bound}

    @property
    def counted(self) -> bool:
        """Whether all learn how many clients hold each row: the server alone does."""
        return False

    @cached_property
    def count(self) -> HolderCount:
        """How holders of rows are counted."""
        return HolderCount.of(self.blocks)

    def layout(self, held: Array) -> ColumnLayout:
        """The layout of the rows of a union that are kept, (m,) bool.  Raises InputError for none."""
        if not held.any():
            raise InputError(
                f"no ID is held by owners of all columns (union {len(held):,}): are they spelled alike? "
                "Compare how each owner writes them"
            )
        digest = hashlib.blake2b(held.tobytes(), digest_size=32, person=b"secfc kept rows").digest()
        return ColumnLayout(int(held.sum()), self.blocks, digest, self.explained)

    def foreseen(self, federation: Federation) -> Array:
        """Whether each row will be kept, (m,) bool in some order, for a process that sees all data."""
        bare = [party.name for party in federation.parties if party.ids is None]
        if bare:
            raise refuse_missing_ids(bare[0])
        found = [digests(party.ids) for party in federation.parties if party.ids]
        added = [n for party, n in zip(federation.parties, self.count.summands, strict=True) if party.ids]
        _, row = np.unique(np.concatenate(found), axis=0, return_inverse=True)
        sums = np.zeros(row.max() + 1, np.int64)
        np.add.at(sums, row.reshape(-1), np.repeat(added, list(map(len, found))))
        kept, twice = self.count.kept(sums)
        refuse_twice(twice)
        return kept | (self.keep == "union")

    def client(self, party: Party, *, coins: Coins, scale: Any = None) -> Role[RowUnion]:
        """A client finds the rows with the others.  scale: that it keeps of a fit, else by its rows."""
        points, me = party.read(), self.clients.index(party.name)
        if party.ids is None:
            raise refuse_missing_ids(party.name)
        digest = digests(party.ids) if party.ids else np.zeros((0, 2), np.uint64)
        oblivious.check_quota(self.union, digest)
        yield from agree(self, party.name, number=ALIGN)
        with blame_union_failure(self.clients):
            seat, _, union, rows = yield from find_rows(
                self.union, self.clients, me, digest, coins, verify=self.verify
            )
            kept = np.ones(len(union.z), bool)
            if self.keep == "intersection":
                kept = yield from keep_rows(seat, union, rows, self.count)
        missing = 1 - np.isin(np.flatnonzero(kept), rows).mean() if self.blocks[me] and kept.any() else 0.0
        if missing and self.keep == "intersection" and self.blocks.count(self.blocks[me]) == 1:
            why = f"rows were kept as those of all owners, and {party.name} does not hold them"
            raise UnionFailed(f"{why}: the server, or a client that counted itself twice", (), False)
        if missing > MANY_MISSING and self.keep == "union":
            warnings.warn(
                f"client {party.name!r} lacks {missing:.0%} of the people of the union: its columns are "
                "taken for their means there, which says little; keep='intersection' leaves them out",
                Caution,
                stacklevel=2,
            )
        mine = np.where(kept[rows], (np.cumsum(kept) - 1)[rows], -1)
        return RowUnion(kept, partial(contribute_columns, self.scale, party, points, mine, known=scale))

    def server(self, *, coins: Coins) -> Role[tuple[Array, Settling]]:
        """The server's part of the same: which rows are kept; nothing is to be settled."""
        yield from agree(self, SERVER, number=ALIGN)
        with blame_union_failure(self.clients):
            relay, union = yield from find_rows_at_server(self.union, self.clients, coins)
            kept = np.ones(len(union.z), bool)
            if self.keep == "intersection":
                kept = yield from keep_rows_at_server(relay, union, self.count)
        return kept, settle_single_owner


def refuse_missing_ids(client: PartyId) -> InputError:
    """The error for a client without IDs."""
    return InputError(
        f"client {client!r} has no IDs: columns of the same people are joined by them. Give IDs, or bring "
        "rows in the same order at all clients, and say Joined(align='given')"
    )


def contribute_columns(
    scale: Any, party: Party, points: Array, rows: Array, plan: CodedPlan, known: Any = None
) -> RowContribution:
    """What an owner of columns brings: its integers at those of its rows that are kept, zeros elsewhere.

    scale: how it brings these to scale, None if it does not; known: by which it did in a fit.
    rows: of each of its points the row that it is, -1 where it is not kept.
    """
    owner, kept = f"client {party.name!r}", points[rows >= 0]
    if plan.terms is not None:  # columns ascend, as of others that have the same
        kept = kept[:, np.argsort(plan.terms.public.observed[plan.numbers[party.name]])]
    if known is None and scale is not None and len(kept):
        if plan.terms is not None and plan.terms.retained is not None:
            raise InputError(f"{owner} has no scale of the fit, to which new rows are brought: fit again")
        known = scale.scaling_alone(kept, owner)
    if known is not None:
        kept = known.forward(kept, owner)
    read = scatter_rows(rows[rows >= 0], plan.quantizer(kept, owner=owner))
    return RowContribution(party.name, read, rows, settle_single_owner, known)


@dataclass(frozen=True)
class Joined:
    """Membership by which clients hold different columns of the same people.

    Parameters
    ----------
    keep
        "intersection" clusters people whom all owners hold.  "union" clusters people whom any owner holds;
        missing columns are zeros, the mean of a column that its owner scaled, and nobody learns who lacks
        what.
    align
        "ids" finds rows by a private union of IDs.  "given": all owners have the same people in the same
        order, as they were linked elsewhere; no union is computed, and all must have equally many rows.
    scale
        How each owner scales its columns, by its rows that are kept, of which nobody learns anything;
        `fit(scale_features=)` sets it.  None leaves columns unscaled.
    mode, bound, sized, schema, verify, tags, quota
        Parameters of the union, as in `Private`.
    max_explained
        Labels that explain more than this part of the variance of any column, in thousandths between 0 and 1,
        are told to nobody: `LabelsWithheld` ends the run; none of new people are.  None tells them in any
        case.

    Notes
    -----
    Each column is at one client, or people are divided among clients that have equal columns.  People are
    clustered on all columns; no value is opened to another client.  A client may have no data and only
    compute, as at least three clients must (`Party.without_data`).

    Labels reveal to an owner something of the columns of others, and most where its own columns have no
    clusters: two clusters on columns of noise and one binary column equal that column.  An owner can choose
    its columns so, and with three clusters an ordinary column of yes and no tells the other's of all who are
    no.  `max_explained=0.9` withholds labels by which columns of noise read another, and those of .29 of
    honest runs; columns that are aimed, or of yes and no under some noise, pass (`benchmarks/explained.py`).
    All hear whether labels are withheld: one bit a run, which tells of columns, too.

    Examples
    --------
    >>> import secfc
    >>> ids = [["ann", "bob", "eve"], ["bob", "dan", "ann"]]
    >>> rows = [[[0.0], [9.0], [5.0]], [[9.0, 8.0], [1.0, 1.0], [0.0, 1.0]]]
    >>> names = [("age",), ("income", "debt")]
    >>> owners = secfc.Federation.from_arrays(rows, ids=ids, features=names)
    >>> federation = secfc.Federation((*owners.parties, secfc.Party.without_data("helper")))
    >>> result = secfc.fit(secfc.SecFC(k=2, membership=Joined()), federation)
    >>> ann_bob_eve, bob_dan_ann, _ = result.labels
    >>> bool(ann_bob_eve[0] == bob_dan_ann[2]), int(ann_bob_eve[2])  # eve is not at all owners
    (True, -1)
    """

    keep: Kept = "intersection"
    align: Alignment = "ids"
    scale: Any = None
    mode: psu_plan.Mode | None = None
    bound: int = 1 << 24
    sized: bool = True
    schema: Linkage | None = None
    verify: bool = False
    tags: Tagging = "shared key"
    quota: int | None = None
    max_explained: float | None = None

    def __post_init__(self) -> None:
        check_union_settings(self, {"keep": Kept, "align": Alignment})
        # What is no number is neither more nor less.
        if self.max_explained is not None and not 0.0005 < self.max_explained < 0.9995:
            raise InputError(
                f"max_explained={self.max_explained:g} of a column's variance: from .001 to .999 can be less "
                "than labels explain. Take 0.9, or leave it out"
            )
        alone = self.scale is None or hasattr(self.scale, "scaling_alone")
        if not alone or (self.scale is not None and (self.scale.keep or self.scale.missing != "refuse")):
            raise InputError(
                f"scale={type(self.scale).__name__} of joined columns: each owner brings its own to scale, "
                "all of them, with no value missing, and no row, whose norm is of all columns. Take "
                "'standard' or 'robust', or scale at home"
            )
        of_union = (self.keep, self.mode, self.schema, self.verify, self.quota)
        if self.align == "given" and of_union != ("intersection", None, None, False, None):
            raise InputError("align='given' finds no union, and takes none of its settings: leave them out")

    @property
    def allowed(self) -> int | None:
        """Thousandths of a column's variance that labels may explain."""
        return None if self.max_explained is None else round(VARIANCE_PARTS * self.max_explained)

    @property
    def learned(self) -> tuple[str, ...]:
        if self.align == "given":
            return ()
        found = "the size of the union and pseudonyms of its IDs"
        if self.keep == "union":
            return (found,)
        return found, "how many owners of columns hold each ID (clients: which IDs all hold), not which"

    def as_clustered(self, federation: Federation, rows: Sequence[Array]) -> Federation:
        """The points of all as they were clustered, zeros where they were not; rows: of each, -1 for none."""
        parties = []
        for party, own in zip(federation.parties, rows, strict=True):
            points = np.array(party.read(), np.float64)
            if self.scale is not None and (own >= 0).any():
                found = self.scale.scaling_alone(points[own >= 0], f"client {party.name!r}")
                points[own >= 0] = found.forward(points[own >= 0])
            points[own < 0] = 0.0
            parties.append(replace(party, points=points))
        return replace(federation, parties=tuple(parties))

    def check_withholding(self, way: Any) -> None:
        """Raises IncompatibleOptions for a `SecFC` that cannot withhold labels which explain too much."""
        withheld = {"max_explained": self.max_explained}
        if self.allowed is not None and way.disclosure.capabilities.exposes != "sizes":
            raise IncompatibleOptions(
                withheld | {"disclosure": way.disclosure},
                "labels are withheld by open sizes, before anybody has any",
                [("disclosure", "own-labels"), ("max_explained", None)],
            )
        if self.allowed is not None and way.threshold.ell > 1:
            raise IncompatibleOptions(
                withheld | {"ell": way.threshold.ell},
                "each column is judged, and shares of several segments tell sums over columns",
                [("ell", 1), ("max_explained", None)],
            )

    def draft(
        self, clients: tuple[PartyId, ...], counts: tuple[int, ...], t: int, session: bytes, terms: RunTerms
    ) -> ColumnLayout | JoinedPlan:
        public = terms.public
        self.check_withholding(terms.way)
        blocks = check_blocks(clients, public.observed, public.features)
        if self.keep == "union" and self.scale is None:
            raise IncompatibleOptions(
                {"keep": "union"},
                "who lacks a column is taken for its mean, and that is 0 only of columns brought to scale",
                [("keep", "intersection"), ("scale_features", "standard")],
            )
        if self.scale is not None and len({*filter(None, blocks)}) < sum(map(bool, blocks)):
            raise IncompatibleOptions(
                {"scale_features": ...},
                "several clients have the same columns, and each would scale its people by these alone",
                [("scale_features", None, "scale them alike at home")],
            )
        if self.align == "ids":
            union = plan_union(self, len(clients), t, session)
            return JoinedPlan(union, clients, blocks, terms, self.keep, self.scale, self.verify, self.allowed)
        rows = {m for m, block in zip(counts, blocks, strict=True) if block}
        if len({*filter(None, blocks)}) < sum(map(bool, blocks)):
            raise InputError(
                "align='given' and several clients have the same columns: who of them has which rows is "
                "found by IDs alone. Give IDs, and align='ids'"
            )
        if len(rows) > 1:
            raise InputError(
                f"align='given' and owners have {', '.join(map(str, sorted(rows)))} rows: all need the same "
                "people in the same order. Give IDs, and align='ids'"
            )
        return ColumnLayout(rows.pop(), blocks, explained=self.allowed)


def check_blocks(
    clients: tuple[PartyId, ...], observed: tuple[tuple[int, ...], ...] | None, names: tuple[str, ...] | None
) -> tuple[tuple[int, ...], ...]:
    """The numbers of each client's columns, ascending.

    Raises InputError unless two clients have the same columns, or none in common.
    """
    if observed is None:
        raise IncompatibleOptions(
            {"membership": "joined"},
            "all clients have the same columns, and others are to be joined to them",
            [("membership", "private"), "name the columns of each client (features=)"],
        )
    blocks = tuple(tuple(sorted(block)) for block in observed)
    owner: dict[int, PartyId] = {}
    for block in dict.fromkeys(blocks):
        client = clients[blocks.index(block)]
        for column in block:
            if owner.setdefault(column, client) != client:
                raise InputError(
                    f"{owner[column]} and {client} both have column {names_listed([(names or ())[column]])}, "
                    "and not all others: each column is at one client, or all of a block are at several with "
                    "other people. Drop it at one, or do not join columns if clients hold different people"
                )
    if len({*filter(None, blocks)}) < 2:
        raise InputError("one client has all columns: there is nothing to join. Name columns of another, too")
    return blocks
