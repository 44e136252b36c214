"""What the shell knows of an algorithm: the options it takes, and how it is built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from secfc.cli.outputs import ANY_PATH
from secfc.cli.settings import Number, Settings, Whole, parse_positive

if TYPE_CHECKING:
    from secfc.algorithm import Algorithm, PublicFacts
    from secfc.data.federation import Federation
    from secfc.disclosure import Disclosure


class Option(click.Option):
    """An option of methods.

    part: where `secfc run --help` lists it: "sharing", "disclosure", "steps", "privacy", "centers", "checks",
    or "own", for what one method needs besides.  decorate: adds it to a command.
    """

    def __init__(self, *flags: str, part: str = "own", **more: Any) -> None:
        super().__init__(flags, **more)
        self.part = part
        self.decorate = click.option(*flags, **more)


@dataclass(frozen=True)
class AskedOptions:
    """What the user asked of a method.

    options: values of all options it takes, by name.  given: of those on the command line, how they are
    spelled there, by name.
    """

    settings: Settings
    options: Mapping[str, Any]
    given: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, context: click.Context, method: Method, settings: Settings) -> AskedOptions:
        """What a command line that was parsed asks of a method."""
        given = {
            option.name: (option.secondary_opts if context.params[option.name] is False else option.opts)[0]
            for option in method.options
            if option.name and context.get_parameter_source(option.name) is ParameterSource.COMMANDLINE
        }
        return cls(settings, {name: context.params[name] for name in method.names}, given)

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    def get(self, name: str) -> Any:
        """The value of an option, None if the method does not take it."""
        return self.options.get(name)

    def having(self, **options: Any) -> AskedOptions:
        """The same with other values of some options."""
        return replace(self, options={**self.options, **options})

    def refuse(self, options: Iterable[str], why: str) -> None:
        """Raise UsageError for the first of these options that was given.  why: "{option}" is its name."""
        for name in options:
            if name in self.given:
                raise click.UsageError(why.format(option=self.given[name]))

    @property
    def k(self) -> Any:
        """Clusters to look for, an int or an Elbow; the demonstration has four."""
        return 4 if self.settings.k is None else self.settings.k

    @property
    def read(self) -> tuple[Path, ...]:
        """All files that are read: the clients', and those that options of the method name."""
        named = (v for name, v in self.options.items() if isinstance(v, Path) and name != "ledger")
        schema = () if self.settings.schema is None else (self.settings.schema,)
        return (*self.settings.files, *schema, *named)

    @property
    def noisy(self) -> bool:
        """Whether what is released has a budget of differential privacy."""
        return self.get("epsilon") is not None


def check_schema(asked: AskedOptions) -> None:
    """Raise UsageError for a linkage schema where nothing is linked."""
    if asked.settings.linkage is not None and asked.get("membership") != "private":
        raise click.UsageError(
            "--schema says which rows are the same person's, which only --membership private looks for: add "
            "it, or leave --schema out."
        )


@dataclass(frozen=True)
class ChosenAlgorithm:
    """An algorithm as it was asked for.

    parameters: of the run that the algorithm itself does not tell in reports.  notes: what the user should
    know of what was chosen for them.  remarks: of what becomes public by it; they are told last.  twin:
    plaintext k-means that must give the same labels, None if that is not verified.  policy: what the server
    sees, None if no attack on it is tried.
    """

    algorithm: Algorithm
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    twin: Any = None
    policy: Disclosure | None = None


def accept_options(asked: AskedOptions) -> AskedOptions:
    """Options that all go together."""
    return asked


def points_only(asked: AskedOptions, federation: Federation) -> Federation:
    """Clients' points are all that is read."""
    return federation


def accept_data(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """All data will do."""


def make_plan(algorithm: Any, public: PublicFacts) -> Any:
    """The plan of a run, which is known before the parties talk."""
    return algorithm.plan(public)


def prepare_nothing(*_: Any) -> None:
    """No kernel is compiled."""


@dataclass(frozen=True)
class Method:
    """An algorithm that `secfc run` offers.

    name: for --algorithm.  help: what it is, after its name.  options: those it takes; others are refused.
    choose: builds the algorithm for what is public.  Raises InputError.

    settle: refuses options that contradict one another (UsageError), and fills in what follows from others.
    extend: adds what else the method reads to the federation.  Raises InputError, OSError.
    inspect: raises InputError for data that do not fit a plan.
    foresee: the plan as far as it is known before the parties talk.  Raises ValueError.
    prepare: loads or compiles what a run of an algorithm under a plan needs.
    compile: compiles all that any run of this method needs.
    chooses: whether it can choose k.  refines: whether with --features common it takes all columns, of which
    clients use their others at home.  needs: the extra whose libraries it computes with.
    """

    name: str
    help: str
    options: tuple[Option, ...]
    choose: Callable[[AskedOptions, PublicFacts], ChosenAlgorithm]
    settle: Callable[[AskedOptions], AskedOptions] = accept_options
    extend: Callable[[AskedOptions, Federation], Federation] = points_only
    inspect: Callable[[AskedOptions, Federation, Any], None] = accept_data
    foresee: Callable[[Any, PublicFacts], Any] = make_plan
    prepare: Callable[[Any, Any], None] = prepare_nothing
    compile: Callable[[], None] = prepare_nothing
    chooses: bool = True
    refines: bool = False
    needs: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the options, as their values are called."""
        return tuple(option.name for option in self.options if option.name)

    def defaults(self) -> dict[str, Any]:
        """The value of every option where none is given."""
        command = click.Command(self.name, params=list(self.options))
        return dict(command.make_context(self.name, []).params)


# --------------------------------------------------------------------------------------------------
# Options that several methods share, each defined once.

STARTS = ("random", "random-points", "k-means++", "center-separation", "bisecting", "splitting")
COARSE = ("refuse", "allow")


class Workers(click.ParamType[Any]):
    """A number of workers, or their names."""

    name = "number or names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value.strip().lstrip("+-").isdigit():
            return int(value)
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name: give a number, or names with commas between", param, ctx)
        return names


T = Option(
    "-t", type=Whole(0), metavar="T", part="sharing",
    help="Clients that may collude and learn nothing but labels of what the others share; t + 1 may read it. "
    "Default: the most that n clients can have, "
    "at most a third of them, rounded up.",
)  # fmt: skip
WORKERS = Option(
    "--workers", type=Workers(), metavar="W|NAME,...", part="sharing",
    help="Who holds shares and computes: so many clients, spread over all, or these. All others deal theirs "
    "once, and hear the labels of their own points. At least 2 (ell + t - 1) + 1, and one more for each that "
    "may be lost; t counts colluding workers. Default: all clients.",
)  # fmt: skip

K_LOCAL = Option(
    "--k-local", type=Whole(1),
    help="Clusters within a client. Default: k-fed: sqrt(k) rounded down; masked-lloyd, overlap-1, "
    "overlap-2: k.",
)  # fmt: skip

# Where clients observe different columns.
START = Option(
    "--start",
    type=click.Choice([
        "automatic", "paper", "synchronized", "synchronized-distances", "constrained", "nearest-merge",
        "max-min",
    ]),
    help="masked-lloyd, overlap-1: how clients' local clusters are matched. paper: the rule of its authors; "
    "synchronized-distances (masked-lloyd): the server sees distances, no centroids. Default: automatic; "
    "overlap-1: paper.",
)  # fmt: skip
LOCAL = Option(
    "--local", type=click.Choice(["k-means", "silhouette"]), default="k-means", show_default=True,
    help="masked-lloyd, overlap-1, overlap-2: how many local clusters a client looks for: --k-local, or by "
    "silhouette.",
)  # fmt: skip

# Of Lloyd's heuristic on integers.
INIT = Option(
    "--init", type=click.Choice(STARTS), part="steps",
    help="How the first clusters are drawn. Default: bisecting, under own-labels splitting, under "
    "final-labels and noise random. k-means++ shows the server distances, so it needs --consent.",
)  # fmt: skip
N_INIT = Option(
    "--n-init", type=Whole(1), default=1, show_default=True, part="steps",
    help="Starts; the cheapest is kept.",
)  # fmt: skip
MAX_ITER = Option(
    "--max-iter", type=Whole(1), default=300, show_default=True, part="steps",
    help="Iterations a start.",
)  # fmt: skip
SCALE = Option(
    "--scale", type=Number(), callback=parse_positive, part="steps",
    help="Integer steps a data unit. Default: the finest that is exact.",
)  # fmt: skip
BOUND = Option(
    "--bound", type=Number(), callback=parse_positive, part="steps",
    help="A limit on absolute values that everybody may know. Default: derived from the data, "
    "which makes that much of them public; with --epsilon, the radius.",
)  # fmt: skip
FIELD = Option(
    "--field", type=click.Choice(["ring", "mersenne61"]), default="ring", show_default=True, part="steps",
    help="Arithmetic: several 30-bit primes (fast), or modulo 2^61 - 1 as in the paper, which needs "
    "--disclosure distances.",
)  # fmt: skip
ROUNDING = Option(
    "--rounding", type=click.Choice(["nearest", "floor"]), default="nearest", show_default=True, part="steps",
    help="How values become integers; floor is the paper's.",
)  # fmt: skip
COARSENESS = Option(
    "--coarse", type=click.Choice(COARSE), default="refuse", show_default=True, part="steps",
    help="What to do where rounding leaves a feature fewer than 8 steps of its spread: refuse, or go on; a "
    "report warns below 64. Outliers and columns of different units are the usual cause.",
)  # fmt: skip
LARGEST = Option(
    "--largest", type=Whole(1), part="steps",
    help="Points of the largest cluster to be exact for: fewer than all points buy a finer scale. A run in "
    "which a cluster outgrows it ends with an error.",
)  # fmt: skip
STEPS = (INIT, N_INIT, MAX_ITER, SCALE, BOUND, FIELD, ROUNDING, COARSENESS, LARGEST)

# Of differential privacy: the budget, and what else there is to say.
EPSILON = Option(
    "--epsilon", type=Number(), callback=parse_positive, part="privacy",
    help="Differential privacy: noise on everything that is released, for this total budget. secfc: on every "
    "distance, over all iterations; choose few, --max-iter is then 5 by default. feddp: on sums over all "
    "clients.",
)  # fmt: skip
DELTA = Option(
    "--delta", type=Number(0, 1, min_open=True, max_open=True), default=1e-6, show_default=True,
    part="privacy", help="The probability that the claim fails.",
)  # fmt: skip
RADIUS = Option(
    "--radius", type=Number(), callback=parse_positive, part="privacy",
    help="The distance that points are shortened to, from the origin, or, with feddp, from the mean of the "
    "server's points; needs to be known without the data. feddp's default comes from these points.",
)  # fmt: skip
NOISE = Option(
    "--noise", type=click.Choice(["shares", "server"]), default="shares", show_default=True, part="privacy",
    help="shares: clients deal the noise, the server sees noisy distances only. server: it adds the noise "
    "itself, and protects only what it publishes.",
)  # fmt: skip
PROTECT = Option(
    "--protect", type=click.Choice(["point", "client"]), default="point", show_default=True, part="privacy",
    help="What the noise hides: one data point, or all points of one client.",
)  # fmt: skip
LEDGER = Option(
    "--ledger", type=ANY_PATH, metavar="FILE", part="privacy",
    help="Remember in this file what runs on these data have spent, so that a budget lasts over runs: "
    "entered before a run begins, and what it really cost in the end. A run that crashed counts in full.",
)  # fmt: skip
TOTAL = Option(
    "--total-epsilon", type=Number(), callback=parse_positive, part="privacy",
    help="With --ledger: what all runs may cost together, set once; a run beyond it is refused.",
)  # fmt: skip
SAME_PEOPLE = Option(
    "--same-people", is_flag=True, part="privacy",
    help="With --ledger: these data are other rows of the same people, and what was spent goes on counting.",
)  # fmt: skip
PRIVACY = (EPSILON, DELTA, RADIUS, NOISE, PROTECT, LEDGER, TOTAL, SAME_PEOPLE)


def refuse_idle_privacy(asked: AskedOptions) -> None:
    """Raise UsageError for what is said of noise where none was asked for."""
    if not asked.noisy:
        names = [str(option.name) for option in PRIVACY[1:]]
        asked.refuse(names, "{option} needs --epsilon, which asks for differential privacy.")
    elif asked.get("ledger") is None:
        asked.refuse(("total_epsilon", "same_people"), "{option} needs --ledger FILE, where that is kept.")
