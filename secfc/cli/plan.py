"""`secfc plan`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import click

from secfc.cli.clustering.preprocessing import check_preprocessing, way_for
from secfc.cli.clustering.run import Algorithms
from secfc.cli.methods import method_asked, options, refuse_idle_options
from secfc.cli.methods.secfc import Presets
from secfc.cli.shell.errors import RefusedInput, bad_input, cautions_noted
from secfc.cli.shell.method import AskedOptions, Method
from secfc.cli.shell.options import (
    Clusters,
    Whole,
    argument,
    command,
    fields_of,
    option,
    refuse_options,
    select_fields,
    was_given,
)
from secfc.cli.shell.outputs import check_output, explaining_writes, json_text, write_all
from secfc.cli.shell.screen import Screen
from secfc.cli.shell.settings import (
    ForOfficers,
    Overwriting,
    Printing,
    Seeded,
    Settings,
    check_choice,
    check_split,
)
from secfc.cli.shell.written import check_officer

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.coded.parameters import Network
    from secfc.planning.planned import Planned

# Of the shell's own, what a plan has no use for; and of methods, what says how a process works.
IDLE = ("verify", "verify_reference", "attack", "cut")
NETWORK = ("latency", "bandwidth")
# What files divide, and how features are prepared, but for what names columns, and for what a budget pays.
PREPARING = "split helper standardize to_range limit outside missing"
MADE_UP = Path("made-up")  # stands for points that the server holds, where no file has them


@dataclass(frozen=True)
class PlanOptions(Algorithms, Presets, Seeded, ForOfficers, Overwriting, Printing):
    """What `secfc plan` takes, besides the options of methods."""

    # fmt: off
    file: Path | None = argument("[RUN.toml]")
    clients: int | None = option(None, Whole(1), "-n", metavar="N", help=
        "Clients. Default: those of RUN.toml, else 5.")
    rows: int | None = option(None, Whole(1), "-m", metavar="M", help=
        "Rows in total, of all clients. Default: 1000 a client.")
    width: int | None = option(None, Whole(1), "-d", metavar="D", help=
        "Features. Default: those of RUN.toml, else 10.")
    k: Any = option(None, Clusters(), "-k", metavar="K", help="Clusters. Default: 4.")
    losses: int = option(0, Whole(0), help="Clients that may be lost on the way.")
    taken: int | None = option(None, Whole(1), "--steps", metavar="S", help=
        "Steps with the final number of clusters. Default: those that made-up rows take; nobody knows yet.")
    server_points: int | None = option(None, Whole(1), metavar="S", help=
        "feddp: how many points the server holds, where there is no --server-file. Default: 20 a cluster, "
        "none within a --radius.")
    trials: int | None = option(None, Whole(1), metavar="T", help=
        "feddp: say what noise costs, by T simulations on held-out points of --server-file, or without on "
        "made-up clusters within --radius.")
    splits: bool = option(False, help="Also of other splits of the budget, and which to take. 7 simulations.")
    out: Path | None = option(metavar="PLAN.json", help="Write the plan, as --json prints it.")
    verbose: bool = option(False, help="Every kind of message, and where figures come from.")
    # fmt: on
    HELP: ClassVar = {
        "algorithm": "As for `secfc run`, with its options but for those about files; feddp as for `secfc "
        "dp`, the others as for `secfc overlap`.",
        "seed": "Of made-up rows' starts.",
        "as_json": "Print the plan as JSON on stdout, and nothing else.",
        "officer": "Write the page for whoever has to approve the run: what leaves a site, who sees it, and "
        "what was tried.",
    }


@command(
    PlanOptions,
    more=[*fields_of(Settings, PREPARING), *(one for one in options().values() if one.name not in IDLE)],
)
@click.pass_context
def plan(context: click.Context, given: PlanOptions) -> None:
    """Say what a run will cost and who will learn what, for N clients with M rows of D features.

    The run is rehearsed on a few made-up rows: no data are needed, and nothing is sent. Impossible settings
    are refused with the nearest valid one. RUN.toml is a deployment's run file, whose words are then used.

    \b
    Examples:
      secfc plan -n 10 -m 10000 -d 20 -k 4
      secfc plan -n 10 -m 10000 -d 20 -k 4 --preset own-labels --latency 50 --bandwidth 20 --standardize
      secfc plan -n 30 -m 1e5 -d 50 -k 8 --workers 9 -t 2 --losses 2
      secfc plan -n 10 -m 10000 -d 20 --algorithm feddp --epsilon 1
      secfc plan -n 10 -m 10000 -k 5 --algorithm feddp --epsilon 1 --server-file public.csv --splits
      secfc plan run.toml -m 50000
      secfc plan run.toml -m 50000 --officer page.html     for whoever has to approve it

    Exit codes: 0 success; 2 bad usage, or a run that cannot be.
    """
    screen = Screen.stderr(given.as_json)
    check_officer(given)
    read = () if given.file is None else (given.file,)
    for flag, path in (("--out", given.out), ("--officer", given.officer)):
        if path is not None:
            check_output(path, flag, read, force=given.force)
    from secfc.planning.feasibility import Impossible

    made = of_options if given.file is None else of_run_file
    simulating = bool(given.trials or given.splits)
    rehearsing = screen.status("Rehearsing on made-up rows")
    shown: Any = screen.show_count("Simulating runs", 1) if simulating else rehearsing
    compiling = nullcontext() if simulating else screen.remark_compiling()
    with bad_input(OSError), shown as counted, compiling, cautions_noted():
        try:
            found = made(context, given, simulation_arguments(given, counted))
        except Impossible as error:
            raise RefusedInput(in_words(error)) from error
    if given.out is not None:
        with explaining_writes("--out"):
            write_all(
                {given.out: lambda file: print(json_text(found.as_object()), file=file)},
                overwrite=given.force,
            )
    if given.officer is not None:
        from secfc.planning.text import plan_page

        with screen.status("Trying attacks on made-up rows"):
            text = plan_page(found, given.fill)
        with explaining_writes("--officer"):
            write_all({given.officer: lambda file: file.write(text)}, overwrite=given.force)
    print_plan(found, as_json=given.as_json, verbose=given.verbose)


def simulation_arguments(
    given: PlanOptions, counted: Callable[[int, int, Any], None] | None
) -> dict[str, Any]:
    """Arguments of `secfc.plan` for them."""
    if counted is None:
        return {}
    return {
        "trials": given.trials or 0,
        "splits": given.splits,
        "done": lambda number, total: counted(number, total, None),
    }


def in_words(error: Any) -> str:
    """What cannot be, and what can, an item a line."""
    from secfc.cli.shell.errors import options_here

    if not error.nearest:
        return str(error.text(options_here()))
    return "\n".join(
        [
            f"{error.reason(options_here()).rstrip('.')}.",
            "Nearest possible:",
            *(f"  {one}" for one in error.nearest),
        ]
    )


def print_plan(found: Planned, *, as_json: bool, verbose: bool) -> None:
    """On stdout."""
    from rich.console import Console

    from secfc.planning.text import plan_details, plan_summary
    from secfc.report import terminal

    if as_json:
        click.echo(json_text(found.as_object()))
        return
    console = Console(markup=False, highlight=False, emoji=False)
    if verbose:
        for section in plan_details(found):
            if not section.empty:
                terminal.print_section(console, section)
        console.print()
    terminal.print_pairs(console, plan_summary(found))


def of_options(context: click.Context, given: PlanOptions, more: dict[str, Any]) -> Planned:
    """The plan of what stands on the command line.  Raises Impossible, InputError."""
    import secfc
    from secfc.planning.feasibility import divide_columns
    from secfc.planning.planned import public_facts

    method = method_asked(context)
    lacking = [name for name in options() if name not in (*method.names, *NETWORK, *IDLE)]
    refuse_idle_options(context, method, lacking)
    n = given.clients or 5
    m, d = given.rows or 1000 * n, given.width or 10
    asked = asked_of(context, method, given)
    points: Any = None
    check_simulated(method, asked, given)
    if method.name == "feddp" and not within_radius(asked):
        points = server_points_asked(given, asked, 20 * asked.k if isinstance(asked.k, int) else 200)
        d = d if isinstance(points, int) else points.shape[1]
    bound = float(asked.get("bound") or asked.get("radius") or 1.0)
    public = public_facts(n, m, d, None, points, bound)
    if asked.settings.split == "columns":
        way = way_for(asked, ())
        public = divide_columns(public, asked.settings.helper)
        public = public if way is None else replace(public, bound=way.limit)
    algorithm = choose_scaled(method, asked, public)
    return secfc.plan(
        algorithm,
        losses=given.losses,
        network=network_from_options(context.params),
        steps=given.taken,
        public=public,
        **more,
    )


def within_radius(asked: AskedOptions) -> bool:
    """Whether private centers start within a public radius, without points of the server."""
    return asked["server_file"] is None and asked["radius"] is not None


def check_simulated(method: Method, asked: AskedOptions, given: PlanOptions) -> None:
    """Raises Refused where there is nothing to simulate clients out of, and they were asked for."""
    held = method.name == "feddp" and asked["server_file"] not in (MADE_UP, None)
    made_up = method.name == "feddp" and within_radius(asked)
    if (given.splits and not held) or (given.trials and not (held or made_up)):
        raise RefusedInput(
            "--trials and --splits simulate clients out of points that the server holds: add --algorithm "
            "feddp --server-file POINTS.csv, or for --trials on made-up rows --radius, or leave them out."
        )


def choose_scaled(method: Method, asked: AskedOptions, public: PublicFacts) -> Any:
    """The algorithm, on features as they are to be scaled, of which the bound then follows."""
    from secfc.scaling.algorithm import Scaled

    way = way_for(asked, ())
    if way is None or asked.settings.split == "columns":  # which each owner brings to scale by itself
        return choose_or_explain(method, asked, public)
    known = asked.with_values(bound=float(way.limit)) if "bound" in method.names else asked
    return Scaled(choose_or_explain(method, known, replace(public, bound=float(way.limit))), way)


def choose_or_explain(method: Method, asked: AskedOptions, public: PublicFacts) -> Any:
    """The algorithm, or, where only its number of clients is wrong, what says so.  Raises Impossible."""
    from secfc.errors import InputError
    from secfc.planning.feasibility import Impossible, with_clients

    try:
        return method.choose(asked, public).algorithm
    except InputError as error:
        # Which clients would do?
        for n in range(len(public.clients) + 1, 4 * len(public.clients) + 64):
            try:
                method.choose(asked, with_clients(public, n))
            except InputError:
                continue
            raise Impossible(error, (f"n={n} (not {len(public.clients)})",)) from error
        raise


def network_from_options(values: dict[str, Any]) -> Network:
    """Between the parties."""
    from secfc.coded.parameters import Network

    return Network(values["latency"] / 1e3, values["bandwidth"] * 1e6 / 8)


def server_points_asked(given: PlanOptions, asked: AskedOptions, least: int) -> Any:
    """The server's points, or how many."""
    from secfc.data.dialects import Dialect
    from secfc.data.files import load_points

    if asked["server_file"] != MADE_UP:
        return load_points(asked["server_file"], None, Dialect())
    return given.server_points or least


def asked_of(context: click.Context, method: Method, given: PlanOptions) -> AskedOptions:
    """What is asked, looked at as `secfc run` does."""
    settings = select_fields(
        Settings, {name: context.params[name] for name in PREPARING.split()},
        files=(Path(),), k=given.k or (None if method.finds else 4), seed=given.seed,
        id_column="the same people's",
    )  # fmt: skip
    check_split(settings, method.name, [name for name in method.names if was_given(context, name)])
    check_choice(settings, method)
    asked = AskedOptions.of(context, method, settings)
    if (
        method.name == "feddp"
        and asked["server_file"] is None
        and (given.server_points or asked["radius"] is None)
    ):
        asked = asked.with_values(server_file=MADE_UP)
    said = {name: flag for name, flag in asked.given.items() if name not in (*NETWORK, *IDLE)}
    asked = method.settle(replace(asked, given=said))
    check_preprocessing(asked)
    return asked


def of_run_file(context: click.Context, given: PlanOptions, more: dict[str, Any]) -> Planned:
    """The plan of a deployment.  Raises Impossible, InputError, OSError."""
    import secfc
    from secfc.cli.deploy.run_file import build_run
    from secfc.deploy.runfile import RunFile
    from secfc.deploy.session import GROUPS_TOLD
    from secfc.planning.feasibility import with_rows

    path = Path(str(given.file))
    if path.suffix.lower() != ".toml":
        raise RefusedInput(
            f"{path} is no run file (RUN.toml): `secfc deploy init` writes one. No data are read: of "
            "a run over files say clients, rows, features and clusters (-n, -m, -d, -k)."
        )
    mine = [name for name in (*options(), *PREPARING.split(), "preset") if name not in NETWORK]
    refuse_options(
        context,
        [*mine, "algorithm", "k", "clients", "width", "seed", "server_points", "trials", "splits"],
        "{option} is said by the run file: change it there, or leave RUN.toml out.",
    )
    try:
        work = build_run(RunFile.read(path))
    except tomllib.TOMLDecodeError as error:
        raise RefusedInput(f"{path} is no TOML: {error}.") from error
    n = len(work.public.clients)
    inner: Any = work.algorithm.capabilities.inner or work.algorithm
    public = replace(with_rows(inner, work.public, given.rows or 1000 * n), session=bytes(32))
    found: Planned = secfc.plan(
        work.algorithm, losses=given.losses, network=network_from_options(context.params), steps=given.taken,
        public=public,
    )  # fmt: skip
    cut = work.asked.get("cut") is not None
    return replace(found, heard=(*found.heard, GROUPS_TOLD)) if cut else found
