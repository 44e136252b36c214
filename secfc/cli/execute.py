"""A run: plan, cluster, compare with plaintext k-means, attack.  Reads the input, writes nothing."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from secfc.cli.choose import make_public
from secfc.cli.errors import bad_input, cautions_noted, cautions_told, in_options
from secfc.cli.hidden_rows import unlinked
from secfc.cli.method import Asked, Method
from secfc.cli.preparing import agree, ready
from secfc.cli.screen import COMPILING, Screen, timed
from secfc.cli.shared import explaining
from secfc.logs import unheard

if TYPE_CHECKING:
    from secfc.algorithm import Clustering
    from secfc.data.federation import Federation
    from secfc.report import Comparison, Ordinary, Report
    from secfc.roles.exchange import Exchange, PartyId


def load(method: Method, asked: Asked) -> tuple[Federation, str]:
    """The points of all clients, what else the method reads, and where they came from in words."""
    from secfc.data.federation import Federation

    settings = asked.settings
    check_extras(method, asked)
    if settings.files:
        shown = ", ".join(str(path) for path in settings.files[:4])
        more = f" and {len(settings.files) - 4} more" if len(settings.files) > 4 else ""
        by_name = settings.features != "same"
        with bad_input(OSError), cautions_told(but="no client observes"):  # that is a note of the report
            federation = Federation.from_files(
                settings.files,
                client_column=settings.client_column,
                columns=settings.columns,
                id_column=settings.id_column,
                label_column=settings.label_column,
                union=by_name,
                gaps=settings.missing != "refuse",
                categorical=dict(settings.categorical),
                agree=agree,
                encoding=settings.encoding,
                delimiter=settings.delimiter,
                decimal=settings.decimal,
                linkage=settings.linkage,
                drop_unfit=settings.drop_unfit,
            )
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


def check_extras(method: Method, asked: Asked) -> None:
    """Raise InputError, before any work is done, for a library that was asked for and is not installed."""
    from secfc.data.extras import require

    if method.needs is not None:
        require(f"--algorithm {method.name}", method.needs)
    if asked.noisy:
        require("--epsilon", "dp")
    if asked.settings.plot is not None:
        require("--plot", "plot")


def about(federation: Federation) -> tuple[str, ...]:
    """Columns that were matched by name and came to nothing, in words."""
    from secfc.data.inputs import names_listed

    notes = []
    if lost := federation.unobserved:
        notes.append(f"{names_listed(lost)}: empty at every client that has it, so left out")
    if apart := federation.aside:
        shown = names_listed(federation.feature_names or ())
        notes.append(
            f"clustered on the columns that all clients have: {shown}; left out: {names_listed(apart)}"
        )
    return tuple(notes)


def most_steps(algorithm: Any) -> int | None:
    """Steps that a run takes at most, None where that is not said."""
    each = getattr(algorithm, "max_iter", None)
    return None if each is None else each * getattr(algorithm, "n_init", 1)


def parts_of(plan: Any) -> int | None:
    """In how many messages points are shared, None where that is not known."""
    return max(plan.chunks, default=None) if hasattr(plan, "chunks") else None


@contextmanager
def keeping(directory: Path | None) -> Iterator[None]:
    """Within the body, a failure to read or write a checkpoint is the user's to mend."""
    from secfc.data.inputs import InputError

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


def forget(directory: Path, federation: Federation) -> None:
    """Delete the checkpoint of a finished run."""
    from secfc.cli.ledger import ENTRY
    from secfc.roles.exchange import SERVER
    from secfc.transport.checkpoint import remove

    (directory / ENTRY).unlink(missing_ok=True)
    remove(directory, (*federation.names, SERVER))


def may_be_id(federation: Federation, feature: int) -> str:
    """A column that may be no feature, in words."""
    names = federation.feature_names
    which = f"column {feature} (counted from 0)" if names is None else f"column {names[feature]!r}"
    return (
        f"{which} holds a different whole number in every row of a client, and was clustered as a feature: "
        "if these are IDs, name it with --id-column, or leave it out with --columns"
    )


@cautions_noted()
def execute(
    method: Method,
    asked: Asked,
    federation: Federation,
    source: str,
    screen: Screen,
    command: Sequence[str] = (),
) -> tuple[Clustering, Report]:
    """Plan, cluster, compare with plaintext k-means, and try what the server learned.  Writes nothing.

    Raises InputError for what the user can mend, ProtocolError for faults of parties.
    """
    from secfc.algorithm import check_columns
    from secfc.cli.ledger import entering
    from secfc.data.inputs import Caution
    from secfc.data.resolution import FINE, judge
    from secfc.data.units import unlike
    from secfc.exact.replay import Witness
    from secfc.fitting import fit
    from secfc.lloyd.elbow import Elbow
    from secfc.report import against_ordinary, compare, in_row_order, pooled, report
    from secfc.report.curious import Finding, curious_server
    from secfc.report.origin import Origin, digests, look_like_ids

    settings, started = asked.settings, datetime.now(UTC).isoformat(timespec="seconds")
    with screen.status("Reading the files again, for their digests"), bad_input(OSError):
        origin = Origin(shlex.join(command), started, digests(asked.read))
    with screen.status("Preparing features"):
        prepared = ready(asked, federation)
        federation, asked = prepared.points, prepared.asked(asked)
    with screen.status("Planning"):
        public = make_public(federation, asked, prepared.bound)
        choice = method.choose(asked, public)
        algorithm, notes = choice.algorithm, choice.notes
        check_columns(algorithm, public)
        with bad_input(ValueError, OverflowError):
            plan = method.foresee(algorithm, public)
        method.inspect(asked, federation, plan)
        with bad_input(ValueError), warnings.catch_warnings(record=True) as cautions:
            warnings.simplefilter("always", Caution)
            algorithm, found = judge(algorithm, algorithm.plan(public), federation)
        if found is not None and found.coarsest < FINE:
            told = [str(c.message) for c in cautions if "rounding loses" in str(c.message)]
            notes += tuple(in_options(caution) for caution in told)
    asides: tuple[str, ...] = ()
    if settings.files and (not asked.noisy or settings.evaluate):
        asides += prepared.notes
        if prepared.whole:
            asides += tuple(may_be_id(prepared.raw, i) for i in look_like_ids(prepared.raw))
    if not asked.noisy:
        notes, asides = notes + asides, ()
    if settings.features != "same":
        notes += unlike(prepared.raw) if prepared.raw.observed is not None else ()
        notes += about(prepared.raw)
    notes += choice.remarks
    wall: dict[str, float] = {}
    with screen.status("Preparing the compiled kernels"), screen.remark(COMPILING), unheard():
        _, wall["prepare"] = timed(lambda: method.prepare(algorithm, plan))
    witness = Witness()
    with (
        entering(asked, algorithm, prepared.raw) as entered,
        screen.progress(most_steps(algorithm), parts_of(plan)) as shown,
        explaining(federation),
        keeping(settings.checkpoint),
    ):
        if settings.checkpoint is not None:
            shown = screen.resuming(shown)

        def watch(party: PartyId, exchange: Exchange) -> None:
            witness(party, exchange)
            if shown is not None:
                shown(party, exchange)

        result, wall["fit"] = timed(
            lambda: fit(
                prepared.algorithm(algorithm),
                prepared.raw,
                seed=settings.seed,
                bound=public.bound if prepared.way is None else None,
                watch=watch,
                sealed=settings.sealed,
                checkpoint=settings.checkpoint,
            )
        )
        if asked.get("ledger") is not None:
            entered.settle(result, asked["delta"])
    notes += (entered.after,) if entered.after else ()
    notes += unlinked(algorithm, result.plan, prepared.raw)
    federation, notes = prepared.found(result), notes + prepared.told(result)
    comparison: Comparison | None = None
    ordinary: Ordinary | None = None
    if choice.twin is not None:
        # Of one client with all rows an automatic scale may be another.
        twin = replace(choice.twin, scale=result.plan.quantizer.scale)
        if result.curve is not None:  # among as many, also if fewer points are left
            twin = replace(twin, k=Elbow(len(result.curve.costs), result.curve.least))
        with screen.status("Comparing with plaintext k-means"):
            plain, wall["verify"] = timed(
                lambda: fit(twin, pooled(federation, result), seed=settings.seed, bound=public.bound)
            )
            points, labels = pooled(federation, result).stacked(), in_row_order(result, result.labels)
            start = (result.history or plain.history)[0]
            ordinary, wall["unrounded"] = timed(
                lambda: against_ordinary(points, start, labels, result.k, twin.max_iter)
            )
        comparison = compare(result, plain)
    finding: Finding | None = None
    policy = choice.policy
    if policy is not None and (settings.evaluate or not asked.noisy):
        with screen.status("Trying what the server could rebuild"):
            finding, wall["attack"] = timed(lambda: curious_server(witness, result, policy, federation))
    return result, report(
        result,
        federation=federation,
        algorithm=prepared.algorithm(algorithm),
        source=source,
        parameters={"seed": settings.seed, "sealed": settings.sealed, **choice.parameters},
        ids=settings.id_column,
        notes=notes,
        asides=asides,
        comparison=comparison,
        ordinary=ordinary,
        resolution=found,
        finding=finding,
        wall=wall,
        origin=origin,
        evaluate=settings.evaluate,
    )
