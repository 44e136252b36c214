"""`secfc plan`."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from secfc.cli.errors import RefusedInput, bad_input, cautions_noted
from secfc.cli.method import AskedOptions, Method
from secfc.cli.methods import methods, options
from secfc.cli.outputs import ANY_PATH, check_output, explaining_writes, json_text, write_all
from secfc.cli.screen import COMPILING, Screen
from secfc.cli.settings import Clusters, Settings, Whole, check_choice, refuse_options
from secfc.cli.written import check_filled, of_officer

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.coded.parameters import Network
    from secfc.planning.planned import Planned

Command = Callable[..., Any]

# Of the shell's own, what a plan has no use for; and of methods, what says how a process works.
IDLE = ("verify", "attack")
NETWORK = ("latency", "bandwidth")
PAGES = (".html", ".htm")


def of_methods(command: Command) -> Command:
    """All options of all methods."""
    for option in reversed(list(options().values())):
        if option.name not in IDLE:
            command = option.decorate(command)
    return command


@click.command(short_help="Say what a run will cost and show, before it is agreed on.")
@click.argument("file", required=False, type=ANY_PATH, metavar="[RUN.toml]")
@click.option(
    "-n", "clients", type=Whole(1), metavar="N", help="Clients. Default: those of RUN.toml, else 5."
)
@click.option(
    "-m",
    "rows",
    type=Whole(1),
    metavar="M",
    help="Rows in total, of all clients. Default: 1000 a client.",
)
@click.option(
    "-d", "width", type=Whole(1), metavar="D", help="Features. Default: those of RUN.toml, else 10."
)
@click.option("-k", type=Clusters(), metavar="K", help="Clusters. Default: 4.")
@click.option(
    "--losses",
    type=Whole(0),
    default=0,
    show_default=True,
    help="Clients that may be lost on the way.",
)
@click.option(
    "--steps",
    "taken",
    type=Whole(1),
    metavar="S",
    help="Steps of the last clusters. Default: as many as made-up rows take; nobody knows before.",
)
@click.option(
    "--server-points",
    type=Whole(1),
    metavar="S",
    help="feddp: how many points the server holds, where there is no --server-file. Default: 20 a cluster.",
)
@click.option(
    "--trials",
    type=Whole(1),
    metavar="T",
    help="feddp with --server-file: say what noise costs, by T simulations on held-out server points.",
)
@click.option(
    "--splits", is_flag=True, help="Also of other splits of the budget, and which to take. 7 simulations."
)
@click.option(
    "--algorithm",
    type=click.Choice(list(methods())),
    default=next(iter(methods())),
    show_default=True,
    help="As for `secfc run`, with all its options.",
)
@of_methods
@click.option("--seed", type=Whole(0), default=0, show_default=True, help="Of made-up rows' starts.")
@click.option("--out", type=ANY_PATH, metavar="PLAN.json", help="Write the plan, as --json prints it.")
@click.option(
    "--officer",
    type=ANY_PATH,
    metavar="PAGE.html",
    help="Write the page for whoever has to approve the run: what leaves a site, who sees it, and what was "
    "tried.",
)
@of_officer
@click.option("--force", is_flag=True, help="Overwrite existing output files.")
@click.option("--verbose", is_flag=True, help="Every kind of message, and where figures come from.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON on stdout, and nothing else.")
@click.pass_context
def plan(context: click.Context, /, **values: Any) -> None:
    """Say what a run will cost and who will learn what, for N clients with M rows of D features.

    The run is rehearsed on a few made-up rows: no data are needed, and nothing is sent. What cannot be is
    refused with the nearest that can. RUN.toml is the run file of a deployment, whose words are then used.

    \b
    Examples:
      secfc plan -n 10 -m 10000 -d 20 -k 4
      secfc plan -n 10 -m 10000 -d 20 -k 4 --disclosure own-labels --latency 50 --bandwidth 20
      secfc plan -n 30 -m 1e5 -d 50 -k 8 --workers 9 -t 2 --losses 2
      secfc plan -n 10 -m 10000 -d 20 --algorithm feddp --epsilon 1
      secfc plan -n 10 -m 10000 -k 5 --algorithm feddp --epsilon 1 --server-file public.csv --splits
      secfc plan run.toml -m 50000
      secfc plan run.toml -m 50000 --officer page.html     for whoever has to approve it

    Exit codes: 0 success; 2 bad usage, or a run that cannot be.
    """
    screen = Screen.stderr(values["as_json"])
    check_filled(values["fill"], values["officer"])
    read = () if values["file"] is None else (values["file"],)
    for option in ("out", "officer"):
        if values[option] is not None:
            check_output(values[option], f"--{option}", read, force=values["force"])
    if values["officer"] is not None and values["officer"].suffix.lower() not in PAGES:
        raise RefusedInput(f"--officer {values['officer']}: name a file that ends in .html.")
    from secfc.planning.feasibility import Impossible

    made = of_options if values["file"] is None else of_run_file
    simulating = bool(values["trials"] or values["splits"])
    rehearsing = screen.status("Rehearsing on made-up rows")
    shown: Any = screen.counting("Simulating runs", 1) if simulating else rehearsing
    compiling = nullcontext() if simulating else screen.remark(COMPILING)
    with bad_input(OSError), shown as counted, compiling, cautions_noted():
        try:
            found = made(context, values, simulation_arguments(values, counted))
        except Impossible as error:
            raise RefusedInput(in_words(error)) from error
    if values["out"] is not None:
        with explaining_writes("--out"):
            write_all(
                {values["out"]: lambda file: print(json_text(found.as_object()), file=file)},
                overwrite=values["force"],
            )
    if values["officer"] is not None:
        from secfc.planning.officer import plan_page

        with screen.status("Trying attacks on made-up rows"):
            text = plan_page(found, values["fill"])
        with explaining_writes("--officer"):
            write_all({values["officer"]: lambda file: file.write(text)}, overwrite=values["force"])
    print_plan(found, as_json=values["as_json"], verbose=values["verbose"])


def simulation_arguments(
    values: dict[str, Any], counted: Callable[[int, int, Any], None] | None
) -> dict[str, Any]:
    """Arguments of `secfc.plan` for them."""
    if counted is None:
        return {}
    return {
        "trials": values["trials"] or 0,
        "splits": values["splits"],
        "done": lambda number, total: counted(number, total, None),
    }


def in_words(error: Any) -> str:
    """What cannot be, and what can, an item a line."""
    from secfc.cli.errors import options_here

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
    for name, value in plan_summary(found):
        console.print(f"{name:<9} {value}", soft_wrap=True)


def of_options(context: click.Context, values: dict[str, Any], more: dict[str, Any]) -> Planned:
    """The plan of what stands on the command line.  Raises Impossible, InputError."""
    import secfc
    from secfc.planning.planned import public_facts

    method = methods()[values["algorithm"]]
    lacking = [name for name in options() if name not in (*method.names, *NETWORK, *IDLE)]
    refuse_options(
        context, lacking, f"{{option}} has no meaning for --algorithm {method.name}: leave it out."
    )
    n = values["clients"] or 5
    m, d = values["rows"] or 1000 * n, values["width"] or 10
    asked = asked_of(context, method, values)
    points: Any = None
    if more and (method.name != "feddp" or values.get("server_file") is None):
        raise RefusedInput(
            "--trials and --splits simulate clients out of points that the server holds: add --algorithm "
            "feddp --server-file POINTS.csv, or leave them out."
        )
    if method.name == "feddp":
        points = server_points_asked(values, 20 * asked.k if isinstance(asked.k, int) else 200)
        d = d if isinstance(points, int) else points.shape[1]
    bound = asked.get("bound") or asked.get("radius") or 1.0
    public = public_facts(n, m, d, None, points, float(bound))
    algorithm = choose_or_explain(method, asked, public, values)
    return secfc.plan(
        algorithm,
        losses=values["losses"],
        network=network_from_options(values),
        steps=values["taken"],
        public=public,
        **more,
    )


def choose_or_explain(
    method: Method, asked: AskedOptions, public: PublicFacts, values: dict[str, Any]
) -> Any:
    """The algorithm, or, where only its number of clients is wrong, what says so.  Raises Impossible."""
    from secfc.data.inputs import InputError
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


def server_points_asked(values: dict[str, Any], least: int) -> Any:
    """The server's points, or how many."""
    from secfc.data.dialects import Dialect
    from secfc.data.files import load_points

    if values.get("server_file") is not None:
        return load_points(values["server_file"], None, Dialect())
    return values["server_points"] or least


def asked_of(context: click.Context, method: Method, values: dict[str, Any]) -> AskedOptions:
    """What is asked, looked at as `secfc run` does."""
    blank: dict[str, Any] = {f.name: None for f in fields(Settings)} | {
        "files": (Path(),), "k": values["k"] or 4, "seed": values["seed"], "force": False, "as_json": False,
        "features": "same", "categorical": (), "missing": "refuse", "standardize": False, "to_range": False,
        "sealed": False, "evaluate": False, "report": (),
    }  # fmt: skip
    settings = Settings(**blank)
    check_choice(settings, method.name, method.chooses)
    defaults = method.defaults()
    found = {name: values.get(name, defaults[name]) for name in method.names}
    if method.name == "feddp" and found["server_file"] is None:
        found["server_file"] = Path("made-up")
    given = {
        option.name: option.opts[0]
        for option in method.options
        if option.name and option.name not in (*NETWORK, *IDLE)
        and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
    }  # fmt: skip
    return method.settle(AskedOptions(settings, found, given))


def of_run_file(context: click.Context, values: dict[str, Any], more: dict[str, Any]) -> Planned:
    """The plan of a deployment.  Raises Impossible, InputError, OSError."""
    import numpy as np

    import secfc
    from secfc.cli.deploy.run_file import build_run
    from secfc.deploy.runfile import RunFile
    from secfc.planning.feasibility import even_rows

    mine = [name for name in options() if name not in NETWORK]
    refuse_options(
        context,
        [*mine, "algorithm", "k", "clients", "width", "seed", "trials", "splits"],
        "{option} is said by the run file: change it there, or leave RUN.toml out.",
    )
    if values["file"].suffix.lower() != ".toml":
        raise RefusedInput(f"{values['file']} is no run file (RUN.toml): `secfc deploy init` writes one.")
    try:
        work = build_run(RunFile.read(values["file"]))
    except tomllib.TOMLDecodeError as error:
        raise RefusedInput(f"{values['file']} is no TOML: {error}.") from error
    n = len(work.public.clients)
    public = replace(work.public, counts=even_rows(values["rows"] or 1000 * n, n), session=bytes(32))
    if work.asked.get("epsilon") is not None and work.method.name == "feddp" and public.server_points is None:
        points = np.random.default_rng(1).uniform(-0.7, 0.7, (values["server_points"] or 200, public.d))
        public = replace(public, server_points=points * public.bound)
    return secfc.plan(
        work.algorithm, losses=values["losses"], network=network_from_options(values), steps=values["taken"],
        public=public,
    )  # fmt: skip
