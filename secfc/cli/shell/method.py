"""What the shell knows of an algorithm: the options it takes, and how it is built from them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.shell.options import (
    CLUSTERS,
    PRIVACY,
    Number,
    Positive,
    Whole,
    WordChoice,
    names_of,
    option,
    was_given,
)
from secfc.cli.shell.settings import Settings

if TYPE_CHECKING:
    from secfc.algorithm import Algorithm, PublicFacts
    from secfc.data.federation import Federation
    from secfc.disclosure import Disclosure


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
        """What a parsed command line asks of a method; its default for an option that the command lacks."""
        known = context.params
        given = {
            str(one.name): (one.secondary_opts if known[one.name] is False else one.opts)[0]
            for one in method.options
            if one.name and was_given(context, one.name)
        }
        values = {name: known.get(name, default) for name, default in method.defaults().items()}
        return cls(settings, values, given)

    def __getitem__(self, name: str) -> Any:
        return self.options[name]

    def get(self, name: str) -> Any:
        """The value of an option, None if the method does not take it."""
        return self.options.get(name)

    @property
    def persons(self) -> bool:
        """Whether IDs say whose row each is, of whom one may have several."""
        return str(self.get("protect")).startswith("person")

    def with_values(self, **options: Any) -> AskedOptions:
        """What was asked for, with other values of some options."""
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
    linked = asked.get("membership") == "private" or asked.settings.split == "columns"
    if asked.settings.linkage is not None and not linked:
        raise click.UsageError(
            "--schema says which rows are the same person's, which only --membership private looks for: add "
            "it, or leave --schema out."
        )


@dataclass(frozen=True)
class ChosenAlgorithm:
    """An algorithm as it was asked for.

    parameters: of the run that the algorithm itself does not tell in reports.  notes: what the user should
    know of what was chosen for them.  remarks: of what becomes public by it; they are told last.  twin:
    plaintext k-means that must give the same labels, None if that is not verified.  plain: of a plan and the
    points of all in its place, what other software labels them by, None if it is not asked.  policy: what the
    server sees, None if no attack on it is tried.
    """

    algorithm: Algorithm
    parameters: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    twin: Any = None
    plain: Callable[[Any, Any], Any] | None = None
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


@dataclass(frozen=True)
class Method:
    """An algorithm that `secfc run` offers.

    name: for --algorithm.  help: what it is, after its name.  options: those it takes; others are refused.
    choose: builds the algorithm for what is public.  Raises InputError.

    settle: refuses options that contradict one another (UsageError), and fills in what follows from others.
    extend: adds what else the method reads to the federation.  Raises InputError, OSError.
    inspect: raises InputError for data that do not fit a plan.
    foresee: the plan as far as it is known before the parties talk.  Raises ValueError.
    chooses: whether it can choose k.  finds: whether it finds how many clusters there are, so that nobody
    says k.  refines: whether with --features common it takes all columns, of which
    clients use their others at home.  needs: the extra whose libraries it computes with.
    """

    name: str
    help: str
    options: Sequence[Any]
    choose: Callable[[AskedOptions, PublicFacts], ChosenAlgorithm]
    settle: Callable[[AskedOptions], AskedOptions] = accept_options
    extend: Callable[[AskedOptions, Federation], Federation] = points_only
    inspect: Callable[[AskedOptions, Federation, Any], None] = accept_data
    foresee: Callable[[Any, PublicFacts], Any] = make_plan
    chooses: bool = True
    finds: bool = False
    refines: bool = False
    needs: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the options, as their values are called."""
        return tuple(str(one.name) for one in self.options)

    def defaults(self) -> dict[str, Any]:
        """The value of every option where none is given."""
        command = click.Command(self.name, params=list(self.options))
        return dict(command.make_context(self.name, []).params)


# --------------------------------------------------------------------------------------------------
# Options that several methods share, each defined once.

STARTS = ("random", "random-points", "k-means++", "center-separation", "bisecting", "splitting", "sampled")
MATCHINGS = (
    "automatic", "paper", "synchronized", "synchronized-distances", "constrained", "nearest-merge", "max-min",
)  # fmt: skip


class StartWord(WordChoice):
    """One of STARTS, a sample of so many rows and batches, or the model of an earlier run."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word, as it is."""
        if re.fullmatch(r"sampled:[1-9]\d{0,8}(:(0|[1-9]\d{0,8}))?|.+\.npz", str(value)):
            return value
        return super().convert(value, param, ctx)


# fmt: off
@dataclass(frozen=True)
class Coalition:
    """Who may collude, and who computes."""

    t: int | None = option(None, Whole(0), "-t", metavar="T", group=PRIVACY, common=True, help=
        "Clients that may collude and learn nothing but labels; t + 1 can read what the others share. "
        "Default: a third, or what fits.")


@dataclass(frozen=True)
class LocalClusters:
    """Clusters within clients, and how those of several are matched."""

    k_local: int | None = option(None, Whole(1), group=CLUSTERS, help=
        "Clusters within a client. Default: k.")
    start: str | None = option(None, MATCHINGS, group=CLUSTERS, common=True, help=
        "How clients' local clusters are matched (federated-lloyd, overlap-1). paper: its authors' rule; "
        "synchronized-distances (federated-lloyd): the server sees distances, no centroids. Default: "
        "automatic; overlap-1: paper.")
    local: str = option("k-means", ["k-means", "silhouette"], group=CLUSTERS, help=
        "How many local clusters a client looks for: --k-local, or by silhouette.")


@dataclass(frozen=True)
class LloydSteps:
    """Lloyd's heuristic on integers."""

    init: str | None = option(None, StartWord(STARTS), group=CLUSTERS, help=
        "How the first clusters are drawn. Default: bisecting, under own-labels splitting, under "
        "final-labels and noise random. k-means++ shows the server distances, so it needs --consent. "
        "--disclosure centers takes splitting; sampled:5000:0, a sample of so many rows and so many further "
        "ones in turn (mini-batches); or the centers of an earlier run, MODEL.npz.")
    n_init: int = option(1, Whole(1), group=CLUSTERS, common=True, help=
        "Starts, of which the cheapest is kept.")
    max_iter: int = option(300, Whole(1), group=CLUSTERS, help="Iterations a start.")
    scale: float | None = option(None, Positive(), group=CLUSTERS, help=
        "Integer steps a data unit. Default: the finest that is exact.")
    bound: float | None = option(None, Positive(), group=CLUSTERS, help=
        "A limit on absolute values that everybody may know. Default: derived from the data, which makes "
        "that much of them public; with --epsilon, the radius.")
    field: str = option("ring", ["ring", "mersenne61"], group=CLUSTERS, help=
        "Arithmetic: several 30-bit primes (fast), or modulo 2^61 - 1 as in the paper, which needs "
        "--disclosure distances.")
    rounding: str = option("nearest", ["nearest", "floor"], group=CLUSTERS, help=
        "How values become integers; floor is the paper's.")
    coarse: str = option("refuse", ["refuse", "allow"], group=CLUSTERS, help=
        "What to do where rounding leaves a feature fewer than 8 steps of its spread: refuse, or go on; a "
        "report warns below 64. Outliers and columns of different units are the usual cause.")
    largest: int | None = option(None, Whole(1), group=CLUSTERS, help=
        "Points of the largest cluster to be exact for: fewer than all points buy a finer scale. A run in "
        "which a cluster outgrows it ends with an error.")


@dataclass(frozen=True)
class LedgerOptions:
    """A budget that lasts over runs."""

    ledger: Path | None = option(metavar="FILE", group=PRIVACY, help=
        "Remember in this file what runs on these data have spent, so that a budget lasts over runs: entered "
        "before a run begins, and what it really cost in the end. A run that crashed counts in full.")
    total_epsilon: float | None = option(None, Positive(), group=PRIVACY, help=
        "With --ledger: what all runs may cost together, set once; a run beyond it is refused.")
    same_people: bool = option(False, group=PRIVACY, help=
        "With --ledger: these data are other rows of the same people, and what was spent goes on counting.")


class Unit(WordChoice):
    """What noise hides: one of these words, or a person and how many rows one has."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word, if it is one."""
        if re.fullmatch(r"person(-at-client)?:[1-9]\d{0,2}", str(value)):
            return str(value)
        if not str(value).startswith("person"):
            return super().convert(value, param, ctx)
        self.fail(
            f"{value!r} is no unit to protect: write person:6 for one of at most 6 rows of all clients, or "
            "person-at-client:2 for one of at most 2 of each.", param, ctx
        )


@dataclass(frozen=True)
class NoiseOptions(LedgerOptions):
    """Differential privacy: the budget, and what else there is to say."""

    epsilon: float | None = option(None, Positive(), group=PRIVACY, common=True, help=
        "Differential privacy with this total budget: noise on everything that is released. secfc: on "
        "every distance, over all iterations; choose few, --max-iter is then 5 by default. feddp: on sums "
        "over all clients.")
    delta: float = option(1e-6, Number(0, 1, min_open=True, max_open=True), group=PRIVACY, help=
        "The probability that the claim fails.")
    radius: float | None = option(None, Positive(), group=PRIVACY, common=True, help=
        "Longest distance of a point from the origin: longer ones are shortened; with --server-file from the "
        "mean of its points, of which the default then comes. It must be known without the data.")
    noise: str = option("shares", ["shares", "server"], group=PRIVACY, help=
        "shares: clients deal the noise, the server sees noisy values only. server: it adds the noise "
        "itself, and protects only what it publishes (feddp alone).")
    protect: str = option("point", Unit(["point", "client"]), metavar="UNIT", group=PRIVACY, help=
        "What the noise hides: point, one data point; client, all points of one client; person:6, one person "
        "of at most 6 rows of all clients, by --id-column; person-at-client:2, of at most 2 of one client.")
# fmt: on


def refuse_idle_privacy(asked: AskedOptions) -> None:
    """Raise UsageError for what is said of noise where none was asked for."""
    if not asked.noisy:
        names = [name for name in names_of(NoiseOptions) if name != "epsilon"]
        asked.refuse(names, "{option} needs --epsilon, which asks for differential privacy.")
    elif asked.get("ledger") is None:
        asked.refuse(("total_epsilon", "same_people"), "{option} needs --ledger FILE, where that is kept.")
