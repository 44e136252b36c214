"""A run: plan, cluster, compare with plaintext k-means, attack.  Reads the input, writes nothing."""

from __future__ import annotations

import math
import shlex
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.clustering.preprocessing import PreparedPoints, agree_on_categories, prepare_points
from secfc.cli.shell.errors import (
    Failed,
    RefusedInput,
    bad_input,
    caution_text,
    cautions_noted,
    cautions_told,
    tell_notes,
)
from secfc.cli.shell.method import AskedOptions, ChosenAlgorithm, Method
from secfc.cli.shell.screen import Screen, time_compiled, time_work

if TYPE_CHECKING:
    from secfc.algorithm import Clustering, PublicFacts
    from secfc.cli.shell.settings import Settings
    from secfc.coded.joined import Joined
    from secfc.coded.membership import Private
    from secfc.coded_kmeans.adversary_view import QueryRecorder
    from secfc.data.clusters import ClusterProfile
    from secfc.data.federation import Federation
    from secfc.data.resolution import Resolution
    from secfc.privacy.budget_file import EnteredRun
    from secfc.report import Comparison, FloatComparison, Report
    from secfc.report.leakage import ServerFinding
    from secfc.roles.exchange import Exchange, PartyId


# --------------------------------------------------------------------------------------------------
# From what the user asked for to public parameters, where several methods do the same.


def make_public(federation: Federation, asked: AskedOptions, bound: float | None = None) -> PublicFacts:
    """What everybody knows.  The demonstration's pixels are known to lie in 0 to 16.

    bound: what follows from how features were prepared, if anything does.
    """
    import numpy as np

    from secfc.algorithm import PublicFacts

    bound = asked.get("bound") if bound is None else bound
    if bound is None and not asked.settings.files:
        bound = 16.0
    # Under a budget without a bound of its own nobody looks for the largest value.
    bounded = not asked.noisy
    with bad_input(OverflowError), np.errstate(over="ignore"):
        public = PublicFacts.of(federation, bound, bounded=bounded)
        if bounded and not math.isfinite(public.bound):
            raise OverflowError
    return public


def chooser(method: Method, asked: AskedOptions) -> Callable[[Federation], tuple[Any, float]]:
    """The algorithm that was asked for and the public bound, by the points that it is to run on."""

    def choose(federation: Federation) -> tuple[Any, float]:
        public = make_public(federation, asked)
        return method.choose(asked, public).algorithm, public.bound

    return choose


def check_bound(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """Raise InputError for the first value outside a bound that was given, before the protocol begins."""
    if asked["bound"] is None:
        return
    for party in federation.parties:
        for start, block in party.blocks():
            with bad_input():
                plan.quantizer(block, owner=f"client {party.name!r}", first_row=start)


def bound_from_data(asked: AskedOptions) -> bool:
    """Whether the public bound is read off the data."""
    scaled = asked.settings.split == "columns" and asked.settings.standardize is not None
    return asked["bound"] is None and bool(asked.settings.files) and not scaled


def lloyd_steps(asked: AskedOptions) -> dict[str, Any]:
    """Lloyd's heuristic on integers (`secfc.cli.shell.method.STEPS`), as values for algorithms."""
    from field.ring.basis import MERSENNE_61, Basis
    from secfc.coded.parameters import Quantization
    from secfc.disclosure import Distances
    from secfc.kmeans.starts import STARTS

    if asked["init"] not in (None, *STARTS):
        said = f"--init {asked['init']} is for --disclosure centers: add that, or leave it out."
        raise click.UsageError(said)
    values = {
        "init": None if asked["init"] is None else STARTS[asked["init"]],
        "n_init": asked["n_init"],
        "max_iter": asked["max_iter"],
        "quantization": Quantization(
            asked["scale"], Basis((MERSENNE_61,)) if asked["field"] == "mersenne61" else None,
            asked["rounding"], asked["largest"], asked.get("centers") or "exact",
            # The note of a report is a warning; only those who ask for less are spared it.
            "warn" if asked["coarse"] == "allow" else asked["coarse"],
        ),
    }  # fmt: skip
    if asked.get("disclosure") == "distances" or asked["field"] == "mersenne61":
        # Also the baseline is then at the scale of a run that shows them.
        values["disclosure"] = Distances()
    return values


def private_rows(asked: AskedOptions, t: int) -> tuple[Private, tuple[str, ...]]:
    """Hidden membership as it was asked for, and notes on it; any t clients may collude with the server.

    Raises Refused where a library is missing.
    """
    from psu import Committee
    from psu.ristretto import require_libsodium
    from secfc.coded.membership import SEEN_LABELS, SHARED_KEY, Private

    quota = asked["quota"]
    try:
        if quota:
            require_libsodium()
    except ImportError as error:
        raise RefusedInput(str(error)) from error
    kept = Private(
        Committee(t),
        merge=asked["merge"],
        counts=asked["counts"],
        on_conflict=asked["on_conflict"],
        schema=asked.settings.linkage,
        verify=asked["verify_union"],
        tags="oblivious" if quota else "shared key",
        quota=quota,
    )
    order = (
        "rows are ordered by pseudonyms of the IDs, which are drawn anew in every run: the same --seed gives "
        "other starts"
    )
    labels = SEEN_LABELS * (asked["disclosure"] != "noisy-sums")  # which tell nobody labels of others' rows
    return kept, (order, *(() if quota else (f"{SHARED_KEY}{labels}; --quota prevents that",)))


COLUMNS = (
    "labels tell an owner of the columns of others, most where its own have no clusters: two clusters of "
    "noise and a column of yes and no are that column; an owner can choose its columns so (docs/threats.md)"
)


def check_owners(clients: tuple[PartyId, ...]) -> None:
    """Raise InputError for owners of columns that are too few to hide anything."""
    from secfc.errors import InputError

    if (n := len(clients)) < 3:
        raise InputError(
            f"{n} part{'y holds' if n == 1 else 'ies hold'} columns, t=1 needs 3 that compute: "
            + ("give the files of others" if n == 1 else "add --helper")
        )


def joined_columns(asked: AskedOptions, t: int, public: PublicFacts) -> tuple[Joined, tuple[str, ...]]:
    """Joined columns as they were asked for, and notes.  Raises Refused for a missing library."""
    from secfc.cli.clustering.preprocessing import way_for
    from secfc.coded.joined import Joined

    rows, notes = private_rows(asked.with_values(merge=True, counts="opened", on_conflict="fail"), t)
    joined = Joined(
        keep=asked["keep"], scale=way_for(asked, public.features or ()), mode=rows.mode, schema=rows.schema,
        verify=rows.verify, tags=rows.tags, quota=rows.quota, max_explained=asked["max_explained"],
    )  # fmt: skip
    return joined, notes if asked["disclosure"] == "noisy-sums" else (COLUMNS, *notes)


ALONE = (
    "no ID has two holders: if some should have, compare how sites write them (zeros on the left, case, "
    "umlauts), or link by a schema (--schema)"
)


def unlinked_hint(algorithm: Any, plan: Any, federation: Federation) -> tuple[str, ...]:
    """A hint where all learned that no two clients hold the same ID, which may be a matter of spelling."""
    from secfc.coded.membership import Private

    membership = algorithm.capabilities.membership
    opened = isinstance(membership, Private) and membership.merge and membership.counts == "opened"
    alone = opened and federation.n > 1 and plan.layout.multiple == 1
    return (ALONE,) if alone and all(party.ids is not None for party in federation.parties) else ()


# --------------------------------------------------------------------------------------------------
# Points that several clients hold: what only this process, which has all data, can say about them.


@contextmanager
def explaining_disputes(federation: Federation) -> Iterator[None]:
    """Within the body, a dispute about an ID is reported with two of the places where it stands."""
    from secfc.coded.membership import shared_places
    from secfc.errors import DisputedRows

    try:
        yield
    except DisputedRows as error:
        points = {party.name: party.read() for party in federation.parties}

        def rough_distance(pair: Any) -> float:
            (one, row), (other, peer) = pair
            return float(abs(points[one][row] - points[other][peer]).max())

        # Differences below a step of rounding are none, so the largest is shown.
        (one, row), (other, peer) = max(shared_places(federation), key=rough_distance)
        raise Failed(
            f"the protocol failed: {error}.\nAll data are at hand here: client {one!r}, row {row} and client "
            f"{other!r}, row {peer} (counted from 0) have the same ID and different data."
        ) from error


# --------------------------------------------------------------------------------------------------


def read_files(settings: Settings, *, repeated: bool = False) -> Federation:
    """The points of all clients from their files; repeated: IDs are persons'.

    Raises InputError, InputFaults, OSError.
    """
    from secfc.data.federation import Federation

    return Federation.from_files(
        settings.files,
        client_column=settings.client_column,
        columns=settings.columns,
        id_column=settings.id_column,
        label_column=settings.label_column,
        union=settings.features != "same" or settings.split == "columns",
        gaps=settings.missing != "refuse",
        categorical=dict(settings.categorical),
        agree=agree_on_categories,
        dialect=settings.dialect(),
        exclude=settings.exclude or (),
        linkage=settings.linkage,
        drop_unfit=settings.drop_unfit,
        repeated=repeated,
    )


def load_federation(method: Method, asked: AskedOptions) -> tuple[Federation, str]:
    """The points of all clients, what else the method reads, and where they came from in words."""
    from secfc.data.federation import Federation, UnobservedFeature
    from secfc.data.party import Party

    settings = asked.settings
    check_extras(method, asked)
    if settings.files:
        shown = ", ".join(str(path) for path in settings.files[:4])
        more = f" and {len(settings.files) - 4} more" if len(settings.files) > 4 else ""
        with bad_input(OSError), cautions_told(UnobservedFeature):  # that is a note of the report
            federation = read_files(settings, repeated=asked.persons)
            if settings.helper:
                federation = Federation((*federation.parties, Party.without_data()))
            if settings.features == "common" and not method.refines:
                federation = federation.on_common()
            return method.extend(asked, federation), shown + more
    from secfc.data.mixtures import rotated_digits

    points, truth = rotated_digits(3)
    federation = Federation.from_labelled(points, truth, n=10, clusters_per_client=2, seed=settings.seed)
    return method.extend(asked, federation), (
        "handwritten digits (UCI): the digit 3 turned by 0, 90, 180 and 270 degrees, dealt out so "
        "that a client holds two of the four directions"
    )


def check_extras(method: Method, asked: AskedOptions) -> None:
    """Raise InputError, before any work is done, for a library that was asked for and is not installed."""
    from secfc.data.inputs import require_library

    if method.needs is not None:
        require_library(f"--algorithm {method.name}", method.needs)
    if asked.noisy:
        require_library("--epsilon", "dp")
    if asked.settings.plot is not None:
        require_library("--plot", "plot")
    if asked.get("linkage") not in (None, "ward"):
        require_library(f"--linkage {asked['linkage']}", "estimators")


def most_steps(algorithm: Any, plan: Any) -> int | None:
    """Steps that a run takes at most, None where that is not said."""
    can = algorithm.capabilities
    if can.pairs is not None:
        return len(can.pairs(plan))
    return None if can.max_iter is None else can.max_iter * can.restarts


def parts_of(plan: Any) -> int | None:
    """In how many messages points are shared, None where that is not known."""
    return max(plan.chunks, default=None) if hasattr(plan, "chunks") else None


@contextmanager
def explaining_checkpoints(directory: Path | None) -> Iterator[None]:
    """Within the body, a failure to read or write a checkpoint is the user's to mend."""
    from secfc.errors import InputError

    try:
        yield
    except OSError as error:
        if directory is None:
            raise
        name = error.filename or directory
        raise InputError(
            f"--checkpoint {name}: {error.strerror or error}. Make room or name another directory; what is "
            "there already can be resumed"
        ) from error


def delete_checkpoint(directory: Path, federation: Federation) -> None:
    """Delete the checkpoint of a finished run."""
    from secfc.roles.exchange import SERVER
    from secfc.transport.checkpoint import remove_journals

    (directory / ENTRY).unlink(missing_ok=True)
    remove_journals(directory, (*federation.names, SERVER))


# --------------------------------------------------------------------------------------------------
# A run: prepare, cluster, verify, attack, report.


@dataclass(frozen=True)
class PreparedRun:
    """A run as it was asked for, checked and planned, with what is told of it before it begins.

    plan: as far as it is known before the parties talk.  resolution: of the data under rounding, or None.
    notes, asides: for the report.
    """

    asked: AskedOptions
    prepared: PreparedPoints
    public: PublicFacts
    choice: ChosenAlgorithm
    algorithm: Any
    plan: Any
    resolution: Resolution | None
    notes: tuple[str, ...]
    asides: tuple[str, ...]

    @property
    def scaled(self) -> Any:
        """The algorithm, on scaled points if they are."""
        return self.prepared.algorithm(self.algorithm)

    @property
    def bound(self) -> float | None:
        """The public bound, None where it follows from the scale."""
        return self.public.bound if self.prepared.way is None else None


@dataclass(frozen=True)
class FinishedRun:
    """What came of a run, what the server saw of it, the points (n, d) that were clustered, and notes."""

    result: Clustering
    witness: QueryRecorder
    points: Federation
    notes: tuple[str, ...]


@cautions_noted()
def execute(
    method: Method,
    asked: AskedOptions,
    federation: Federation,
    source: str,
    screen: Screen,
    command: Sequence[str] = (),
    told: Sequence[str] = (),
) -> tuple[Clustering, Report]:
    """Plan, cluster, compare with plaintext k-means, and try what the server learned.  Writes nothing.

    Raises InputError for what the user can mend, ProtocolError for faults of parties.
    """
    from secfc.report import make_report
    from secfc.report.data import Origin, file_digests

    started, wall = datetime.now(UTC).isoformat(timespec="seconds"), dict[str, float]()
    with screen.status("Reading the files again, for their digests"), bad_input(OSError):
        origin = Origin(shlex.join(command), started, file_digests(asked.read))
    run = prepare_run(method, asked, federation, screen)
    with screen.remark_compiling():
        done = cluster_points(run, screen, wall)
        comparison, ordinary = verify_labels(run, done, screen, wall)
    checked = compare_with_reference(run, done, screen, wall)
    finding = attack_as_server(run, done, screen, wall)
    profile, noted = describe_clusters(run, done.result)
    asides = (*run.asides, *told, *noted)
    parameters = {"seed": asked.settings.seed, "sealed": asked.settings.sealed, **run.choice.parameters}
    return done.result, make_report(
        done.result, federation=done.points, algorithm=run.scaled, source=source, parameters=parameters,
        ids=asked.settings.id_column, notes=done.notes + checked, asides=asides, comparison=comparison,
        ordinary=ordinary, resolution=run.resolution, finding=finding, profile=profile, wall=wall,
        origin=origin, evaluate=asked.settings.evaluate,
    )  # fmt: skip


def prepare_run(method: Method, asked: AskedOptions, federation: Federation, screen: Screen) -> PreparedRun:
    """Scale features, choose the algorithm, and plan.  Raises InputError."""
    from secfc.algorithm import check_columns

    with screen.status("Preparing features"):
        prepared = prepare_points(asked, federation)
        points, asked = prepared.points, prepared.asked(asked)
    with screen.status("Planning"):
        public = make_public(points, asked, prepared.bound)
        choice = method.choose(asked, public)
        check_columns(choice.algorithm, public)
        with bad_input(OverflowError):
            plan = method.foresee(choice.algorithm, public)
        method.inspect(asked, points, plan)
        algorithm, resolution, losses = judge_rounding(
            choice.algorithm, public, points, scaled=prepared.way is not None
        )
    notes, asides = (*choice.notes, *losses), facts_of_data(asked, prepared)
    notes += facts_of_columns(asked, prepared.raw) + choice.remarks
    return PreparedRun(asked, prepared, public, choice, algorithm, plan, resolution, notes, asides)


def describe_clusters(run: PreparedRun, result: Clustering) -> tuple[ClusterProfile | None, tuple[str, ...]]:
    """What the clusters are, in data units, and notes on them; nothing where nobody may know.

    Points that several clients hold count for each; where clients observe different columns, there is none.
    """
    raw = run.prepared.raw
    if raw.observed is not None or (run.asked.noisy and not run.asked.settings.evaluate):
        return None, ()
    return result.profile(raw), tuple(caution_text(one) for one in result.cautions(raw))


def judge_rounding(
    algorithm: Any, public: PublicFacts, federation: Federation, *, scaled: bool
) -> tuple[Any, Resolution | None, tuple[str, ...]]:
    """The algorithm with its data judged, their resolution, and notes where rounding loses some of them."""
    from secfc.data.resolution import FINE, RoundingLoss, check_resolution
    from secfc.errors import Caution

    with bad_input(), warnings.catch_warnings(record=True) as cautions:
        warnings.simplefilter("always", Caution)
        algorithm, found = check_resolution(algorithm, algorithm.plan(public), federation, scaled=scaled)
    if found is None or found.coarsest >= FINE:
        return algorithm, found, ()
    losses = (c.message for c in cautions if issubclass(c.category, RoundingLoss))
    return algorithm, found, tuple(caution_text(loss) for loss in losses)


def facts_of_data(asked: AskedOptions, prepared: PreparedPoints) -> tuple[str, ...]:
    """What exact data tell of how they were prepared, where that may be told."""
    from secfc.data.files import doubts_of_files
    from secfc.data.profiles import days_sentence
    from secfc.report.data import look_like_ids, may_be_id

    if not asked.settings.files or (asked.noisy and not asked.settings.evaluate):
        return ()
    days = _day_columns(prepared.raw)
    features = [i for i in look_like_ids(prepared.raw) if i not in days]
    files = doubts_of_files([path for path in asked.settings.files if path.is_file()])
    doubts = (*map(days_sentence, days.values()), *(may_be_id(prepared.raw, i) for i in features))
    return (*prepared.notes, *files, *doubts)


def _day_columns(federation: Federation) -> dict[int, str]:
    """Features that may be days as spreadsheets number them, and their names."""
    from secfc.data.profiles import DAY_NAME, may_be_days

    found = {}
    for i, name in enumerate(federation.feature_names or () if federation.observed is None else ()):
        if DAY_NAME.search(name):
            ends = [
                (values.min(), values.max(), bool((values % 1 == 0).all()))
                for party in federation.parties
                if len(values := party.points[:][:, i])
            ]
            if all(may_be_days(name, low, high, whole=whole) for low, high, whole in ends):
                found[i] = name
    return found


def facts_of_columns(asked: AskedOptions, federation: Federation) -> tuple[str, ...]:
    """What is told where columns were matched by name."""
    from secfc.data.resolution import unit_mismatches
    from secfc.report.data import unmatched_columns

    if asked.settings.features == "same":
        return ()
    units = () if federation.observed is None else unit_mismatches(federation)
    return (*units, *unmatched_columns(federation))


def cluster_points(run: PreparedRun, screen: Screen, wall: dict[str, float]) -> FinishedRun:
    """Run all parties in this process, within the budget of the ledger if there is one.

    wall: seconds by step, to which those of this one are added, as in the next two.
    """
    from secfc.coded_kmeans.adversary_view import QueryRecorder
    from secfc.pipeline import fit

    settings, prepared, witness = run.asked.settings, run.prepared, QueryRecorder()
    promise, points = run.scaled.capabilities.promise(), prepared.raw
    if promise is not None and (wide := promise.wide(points.n, points.m)):
        tell_notes([wide])  # of how many rows there are, which no report says
    with (
        spending_budget(run.asked, run.algorithm, prepared.raw) as entered,
        screen.show_run(most_steps(run.algorithm, run.plan), parts_of(run.plan)) as shown,
        explaining_disputes(prepared.points),
        explaining_checkpoints(settings.checkpoint),
    ):
        if settings.checkpoint is not None:
            shown = screen.note_resumption(shown)

        def watch(party: PartyId, exchange: Exchange) -> None:
            witness(party, exchange)
            if shown is not None:
                shown(party, exchange)

        result = time_compiled(
            lambda: fit(
                run.scaled, prepared.raw, seed=settings.seed, bound=run.bound, watch=watch,
                sealed=settings.sealed, checkpoint=settings.checkpoint,
            ),
            wall, "fit",
        )  # fmt: skip
        if run.asked.get("ledger") is not None:
            entered.cost = result.ledger.epsilon(run.asked["delta"])
    spent = (entered.after,) if entered.after else ()
    notes = (
        run.notes + spent + unlinked_hint(run.algorithm, result.plan, prepared.raw) + prepared.told(result)
    )
    return FinishedRun(result, witness, clustered_points(run, result), notes)


def clustered_points(run: PreparedRun, result: Clustering) -> Federation:
    """What was clustered: rows that clients hold, or, of columns, those of the joined table."""
    points, membership = run.prepared.found(result), run.algorithm.capabilities.membership
    return membership.as_clustered(points, result.rows) if run.asked.settings.split == "columns" else points


def verify_labels(
    run: PreparedRun, done: FinishedRun, screen: Screen, wall: dict[str, float]
) -> tuple[Comparison | None, FloatComparison | None]:
    """Labels beside those of plaintext k-means, on integers and on floats; None for what is not compared."""
    import numpy as np

    from secfc.data.inputs import with_parameters
    from secfc.kmeans.elbow import Elbow
    from secfc.pipeline import fit
    from secfc.report import Comparison, against_ordinary, compare_labelings, in_row_order, pool_points

    result, twin = done.result, run.choice.twin
    if (plain_labels := run.choice.plain) is not None:
        points = pool_points(done.points, result).stacked()
        with screen.status("Comparing with scikit-learn"):
            found, wall["verify"] = time_work(lambda: plain_labels(result.plan, points))
        if found is None:
            return None, None
        wrong = int(np.count_nonzero(found != in_row_order(result, result.labels)))
        return Comparison(0, 0 if wrong else None, wrong, beside="scikit-learn's DBSCAN"), None
    if twin is None:
        return None, None
    # Of one client with all rows an automatic scale may be another.
    twin = with_parameters(twin, scale=result.plan.quantizer.scale)
    if result.curve is not None:  # among as many, also if fewer points are left
        twin = replace(twin, k=Elbow(len(result.curve.costs), result.curve.least))
    with screen.status("Comparing with plaintext k-means"):
        whole = pool_points(done.points, result)
        plain, wall["verify"] = time_work(
            lambda: fit(twin, whole, seed=run.asked.settings.seed, bound=run.public.bound)
        )
        labels, start = in_row_order(result, result.labels), (result.history or plain.history)[0]
        ordinary, wall["unrounded"] = time_work(
            lambda: against_ordinary(whole.stacked(), start, labels, result.k, twin.max_iter)
        )
    return compare_labelings(result, plain), ordinary


def compare_with_reference(
    run: PreparedRun, done: FinishedRun, screen: Screen, wall: dict[str, float]
) -> tuple[str, ...]:
    """What `--verify-reference` found: final labels beside those of Algorithm 1 in galois, from one start.

    Or why nothing was compared, since a run that is done is not lost for it.
    """
    if not run.asked.get("verify_reference"):
        return ()
    from field.reference import MOST, choose_field
    from field.reference import cluster_points as cluster_slowly
    from field.ring.errors import InvalidValue
    from secfc.report import in_row_order, pool_points

    result, plan = done.result, done.result.plan
    rows = plan.quantizer(pool_points(done.points, result).stacked())
    if not result.history:
        return ("not compared with the reference: it begins with labels that this policy shows nobody",)
    if (work := rows.size * result.k) > MOST:
        return (f"not compared with the reference: m d k = {work} takes it hours, {MOST} is the most",)
    try:
        with screen.status("Comparing with the reference in galois"):
            bits = int(choose_field(rows).order).bit_length()
            labels, wall["reference"] = time_work(
                lambda: cluster_slowly(
                    rows, result.history[0], result.k, ell=plan.code.ell, t=plan.code.t,
                    steps=run.algorithm.max_iter,
                )
            )  # fmt: skip
    except (ImportError, InvalidValue) as error:
        return (f"not compared with the reference: {error}",)
    different = int((labels != in_row_order(result, result.labels)).sum())
    found = f"{different} OF {len(labels)} LABELS DIFFER from" if different else "final labels are those of"
    return (f"{found} a reference over GF(2**{bits} - 1), in galois, from the same start",)


def attack_as_server(
    run: PreparedRun, done: FinishedRun, screen: Screen, wall: dict[str, float]
) -> ServerFinding | None:
    """What a curious server could rebuild of the points, None where that is not tried or not paid for."""
    from secfc.report.leakage import curious_server

    policy = run.choice.policy
    if policy is None or (run.asked.noisy and not run.asked.settings.evaluate):
        return None
    with screen.status("Trying what the server could rebuild"):
        finding, wall["attack"] = time_work(
            lambda: curious_server(done.witness, done.result, policy, done.points)
        )
    found: ServerFinding = finding
    return found


# --------------------------------------------------------------------------------------------------
# `--ledger FILE`: a run is entered before it begins, and with what it cost when it has ended.

# In the directory of a checkpoint: the name under which the run was entered.
ENTRY = "ledger-entry"


@contextmanager
def spending_budget(asked: AskedOptions, algorithm: Any, federation: Federation) -> Iterator[EnteredRun]:
    """Within the body the run may release what its budget pays for.  Does nothing without --ledger.

    Raises PrivacyError, OverBudget or InputError before anything is released.
    """
    from secfc.privacy.budget_file import EnteredRun, LedgerTerms, RunRecord, entering_run

    path, promised = asked.get("ledger"), algorithm.capabilities.promise()
    if path is None or promised is None:
        yield EnteredRun()
        return
    run = RunRecord(
        name_of(asked.settings.checkpoint), datetime.now(UTC).isoformat(timespec="seconds"),
        type(algorithm.capabilities.inner or algorithm).__name__, promised.budget.epsilon, asked["delta"],
    )  # fmt: skip
    terms = LedgerTerms(path, asked["total_epsilon"], asked["same_people"])
    with entering_run(terms, run, promised.neighbors, federation.parties) as entered:
        yield entered


def name_of(checkpoint: Path | None) -> str:
    """A new name for a run; that which it had where it resumes."""
    from secfc.data.inputs import write_private
    from secfc.privacy.budget_file import new_name

    fresh = new_name()
    if checkpoint is None:
        return fresh
    path = checkpoint / ENTRY
    if path.exists():
        return path.read_text(encoding="utf-8").strip()
    checkpoint.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_private(path, fresh.encode())
    return fresh
