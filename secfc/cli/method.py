"""What the shell knows of an algorithm: the options it takes, and how it is built from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from secfc.cli.settings import Settings

if TYPE_CHECKING:
    from secfc.algorithm import Algorithm, Public
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
class Asked:
    """What the user asked of a method.

    options: values of all options it takes, by name.  given: of those on the command line, how they are
    spelled there, by name.
    """

    settings: Settings
    options: Mapping[str, Any]
    given: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, context: click.Context, method: Method, settings: Settings) -> Asked:
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

    def having(self, **options: Any) -> Asked:
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


def check_schema(asked: Asked) -> None:
    """Raise UsageError for a linkage schema where nothing is linked."""
    if asked.settings.linkage is not None and asked.get("membership") != "private":
        raise click.UsageError(
            "--schema says which rows are the same person's, which only --membership private looks for: add "
            "it, or leave --schema out."
        )


@dataclass(frozen=True)
class Choice:
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


def unchanged(asked: Asked) -> Asked:
    """Options that all go together."""
    return asked


def points_only(asked: Asked, federation: Federation) -> Federation:
    """Clients' points are all that is read."""
    return federation


def anything(asked: Asked, federation: Federation, plan: Any) -> None:
    """All data will do."""


def planned(algorithm: Any, public: Public) -> Any:
    """The plan of a run, which is known before the parties talk."""
    return algorithm.plan(public)


def nothing(*_: Any) -> None:
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
    choose: Callable[[Asked, Public], Choice]
    settle: Callable[[Asked], Asked] = unchanged
    extend: Callable[[Asked, Federation], Federation] = points_only
    inspect: Callable[[Asked, Federation, Any], None] = anything
    foresee: Callable[[Any, Public], Any] = planned
    prepare: Callable[[Any, Any], None] = nothing
    compile: Callable[[], None] = nothing
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
