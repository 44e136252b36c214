"""Options of commands, from fields of frozen dataclasses: type, default and help of each in one place.

    @dataclass(frozen=True)
    class PredictOptions(IdFiles):
        files: tuple[Path, ...] = argument("FILE...")
        out: Path = option(Path("labels.csv"), metavar="OUT.csv", help="Where labels go.")

    @command(PredictOptions)
    def predict(given: PredictOptions) -> None:
        ...

A class that derives from another takes its options too; its HELP has other words for some of them, and its
MOVED names the commands that have the others: of an option, or of some of the words to choose from.
"""

from __future__ import annotations

import csv
import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from secfc.cli.shell.help_lines import HelpContext
from secfc.remedies import OLD_OPTIONS, old_name_sentence

T = TypeVar("T")

# Where `secfc run --help-all` lists an option; in this order.
DATA, CLUSTERS, PRIVACY, RUN, OUTPUT = GROUPS = ("Data", "Clusters", "Privacy", "Run", "Output")
WHOLE = "secfc.whole"  # in the context of a command whose help is shown whole
MANY = 40  # options from which on --help shows the common ones in groups, and --help-all the others too
KEY = "secfc.option"

# Options as other software calls them, and which of ours they may stand for.
ELSEWHERE_CALLED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("--n-clusters", "--clusters", "--k"), ("-k",)),
    **dict.fromkeys(
        ("--normalize", "--standardise", "--scale-features", "--scaler", "--scaling"), ("--standardize",)
    ),
    **dict.fromkeys(("--out", "--output", "-o"), ("--labels", "--out")),
    **dict.fromkeys(("--clients", "--n-clients"), ("-n", "--n")),
    **dict.fromkeys(("--n-iter", "--iterations"), ("--max-iter",)),
    **dict.fromkeys(("--id", "--ids"), ("--id-column",)),
    **dict.fromkeys(("--site-column", "--group-column"), ("--client-column",)),
    "--bound": ("--radius",),
    "--random-state": ("--seed",), "--n-jobs": ("--threads",), "--policy": ("--disclosure",),
    "--threshold": ("-t",), "--features": ("--columns",), "--sep": ("--delimiter",),
    "--restarts": ("--n-init",), **{f"-{name}": (f"--{name}",) for name in "kmndt"},
}  # fmt: skip
# And those that nothing stands for.
NOWHERE = {
    "--tol": "steps end once no label changes: leave it out",
    "--metric": "distances are Euclidean: leave it out",
    "--batch-size": "every step has all rows: leave it out",
    **dict.fromkeys(
        ("--clients", "--n-clients"), "clients are FILEs, one each, or names in a column, --client-column"
    ),
    # Words, likewise.
    **dict.fromkeys(
        ("precomputed", "hdbscan", "optics", "agglomerative"),
        "the server would be given all distances, to which parties consent in Python: secfc.Precomputed("
        "clusterer, consent=True). Or take dbscan, or secfc with --linkage",
    ),
    "spherical": "take secfc with --standardize norm, which clusters directions",
    **dict.fromkeys(
        ("kmeans", "k-means", "KMeans"),
        "take secfc, exact k-means over shares, or lloyd, k-means in the clear",
    ),
}
CLUSTERING = ("run", "dp", "overlap")  # commands whose options people try elsewhere

# --------------------------------------------------------------------------------------------------
# What options may hold.

ANY_PATH = click.Path(readable=False, path_type=Path)  # checked later, with a better message


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "integer"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """An int."""
        return super().convert(value if isinstance(value, int) else self.read(value, param, ctx), param, ctx)

    def read(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number, also written as 1e5."""
        with suppress(ValueError):
            return int(text)
        with suppress(ValueError):
            if (number := float(text)).is_integer():
                return int(number)
        self.fail(f"{text!r} is no whole number: write one as 10, or 1e5.", param, ctx)


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A float."""
        try:
            float(value)
        except ValueError:
            self.fail(f"{value!r} is no number: write one as 3, 0.5 or 1e6.", param, ctx)
        return super().convert(value, param, ctx)


class Positive(Number):
    """A positive finite number."""

    def _describe_range(self) -> str:
        return "x>0"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A float."""
        number = super().convert(value, param, ctx)
        if not (math.isfinite(number) and number > 0):
            self.fail(f"{number:g} is not a positive finite number.", param, ctx)
        return number


class WordChoice(click.Choice[str]):
    """One of these words; another is refused with that which it may stand for.

    moved: the commands that take further words, which are refused with the command.
    """

    def __init__(self, choices: Iterable[str], moved: Mapping[str, str] | None = None) -> None:
        self.moved = moved or {}
        super().__init__([word for word in choices if word not in self.moved])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The word."""
        if value in NOWHERE and "secfc" in self.choices:
            self.fail(f"{value!r} is not here: {NOWHERE[value]}.", param, ctx)
        if value in self.moved:
            self.fail(f"{value!r} is for another command: use `secfc {self.moved[value]}`.", param, ctx)
        near = difflib.get_close_matches(str(value).lower(), list(map(str, self.choices)), n=1, cutoff=0.75)
        if value not in self.choices and near:
            self.fail(
                f"{value!r} is not one of {', '.join(self.choices)}: did you mean {near[0]!r}?", param, ctx
            )
        return super().convert(value, param, ctx)


class Clusters(click.ParamType[Any]):
    """A number of clusters, or among which to choose it."""

    name = "clusters"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """An int or an Elbow."""
        from secfc.kmeans.elbow import parse_k

        try:
            k = parse_k(value)
        except ValueError as error:
            self.fail(f"{error}.".replace("k=", ""), param, ctx)
        if isinstance(k, int) and k < 1:
            self.fail(f"{k} is not in the range x>=1.", param, ctx)
        return k


class Workers(click.ParamType[Any]):
    """A number of workers, or their names."""

    name = "number or names"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """An int, or names."""
        if not isinstance(value, str):
            return value
        if value.strip().lstrip("+-").isdigit():
            return int(value)
        names = tuple(name.strip() for name in value.split(","))
        if not all(names):
            self.fail(f"{value!r} has an empty name: give a number, or names with commas between", param, ctx)
        return names


def parse_names(context: Any, parameter: Any, value: str | None) -> tuple[str, ...] | None:
    """Comma-separated names; a name that holds a comma is quoted as in CSV."""
    if value is None:
        return None
    found = tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True), []))
    if not found or "" in found:
        raise click.BadParameter(f"{value!r} is not a list of column names: write --columns age,weight")
    return found


# --------------------------------------------------------------------------------------------------
# Fields that are options.


@dataclass(frozen=True)
class Definition:
    """What the field of an option says, besides its name, its annotation and its default.

    kind: a type of click's, or words to choose from; None to tell it by the annotation.  flags: if not as
    the field is called.  parse: a callback of click's.  many: whether it may be repeated.  group: where help
    lists it.  common: whether it is for everybody, so that the short help lists it.  bare: of words to choose
    from, that which the option stands for where none follows it.  presets: other options that each of its
    words stands for, which come before those that are given, so that these win.
    """

    kind: Any = None
    flags: tuple[str, ...] = ()
    help: str | None = None
    metavar: str | None = None
    parse: Callable[..., Any] | None = None
    many: bool = False
    required: bool = False
    group: str = ""
    common: bool = False
    positional: bool = False
    bare: str | None = None
    presets: Mapping[str, Sequence[str]] | None = None


def option(default: Any = None, kind: Any = None, *flags: str, **more: Any) -> Any:
    """A field that is an option, with its default.  more: as `Definition` has it."""
    made: Any = {"metadata": {KEY: Definition(kind, flags, **more)}}
    return field(default_factory=dict, **made) if default == {} else field(default=default, **made)


def argument(metavar: str | None = None, kind: Any = ANY_PATH, required: bool = True) -> Any:
    """A field that is an argument: as FILE..., if there may be many, and [FILE], if there may be none."""
    many = metavar is not None and metavar.endswith("...")
    needed = required and not (metavar or "").startswith("[")
    made = Definition(kind, metavar=metavar, many=many, required=needed, positional=True)
    return field(default=() if many else None, metadata={KEY: made})


class Option(click.Option):
    """An option of a command, and the field that defines it."""

    def __init__(
        self, origin: Field[Any], help: str | None = None, moved: Mapping[str, str] | None = None
    ) -> None:
        made: Definition = origin.metadata[KEY]
        self.origin, self.group, self.common, self.bare = origin, made.group, made.common, made.bare
        self.presets = made.presets
        default, more = None if origin.default is MISSING else origin.default, dict[str, Any]()
        flags = made.flags or (f"--{origin.name.replace('_', '-')}",)
        kind = WordChoice(made.kind, moved) if isinstance(made.kind, list | tuple) else made.kind
        if kind is None and "bool" in str(origin.type):
            more = {"is_flag": True} if "/" not in flags[0] else {"default": default}
        else:
            more = {"type": ANY_PATH if kind is None and "Path" in str(origin.type) else kind}
            more |= {} if default in (None, ()) else {"default": default}
        super().__init__(
            (*flags, origin.name), help=help or made.help, metavar=made.metavar, callback=made.parse,
            multiple=made.many, required=made.required, **more,
            show_default=(default not in (None, ()) and default is not False) or None,
        )  # fmt: skip

    @property
    def words(self) -> Sequence[str]:
        """What may be chosen, if words are."""
        return self.type.choices if isinstance(self.type, click.Choice) else ()


def fields_of(owner: type, names: str | None = None, **help: str) -> list[click.Parameter]:
    """Options and arguments from the fields of a class, those of its own first, then those of its bases.

    names: of these fields only.  help: other words for some of them.
    """
    declared = {f.name: f for f in fields(owner) if KEY in f.metadata}
    kinds: list[Any] = [kind for kind in owner.__mro__ if is_dataclass(kind)]
    words, own, moved = dict[str, str](), list[str](), moved_of(owner)
    for kind in kinds:
        words = vars(kind).get("HELP", {}) | words
        bases = [base for base in kind.__bases__ if is_dataclass(base)]
        own += [name for name in names_of(kind) if not any(name in names_of(base) for base in bases)]
    chosen = own if names is None else names.split()
    return [
        _parameter(declared[name], (words | help).get(name), moved.get(name))
        for name in chosen
        if name in declared and not isinstance(moved.get(name), str)
    ]


def moved_of(owner: type) -> dict[str, Any]:
    """The commands that take what this class does not: by option, or by option and word."""
    found: dict[str, Any] = {}
    for kind in reversed(owner.__mro__):
        found |= vars(kind).get("MOVED", {})
    return found


def names_of(owner: Any) -> list[str]:
    """Names of the fields of a class."""
    return [f.name for f in fields(owner)]


def _parameter(origin: Field[Any], help: str | None, moved: Mapping[str, str] | None) -> click.Parameter:
    made: Definition = origin.metadata[KEY]
    if not made.positional:
        option = Option(origin, help, moved)
        if moved:  # what is left
            option.hidden = len(option.words) < 2
            option.default = option.words[0] if option.default in moved else option.default
        return option
    return click.Argument(
        (origin.name,), type=made.kind, metavar=made.metavar, nargs=-1 if made.many else 1,
        required=made.required,
    )  # fmt: skip


def select_fields(owner: type[T], values: Mapping[str, Any], **more: Any) -> T:
    """An instance of a class, of the values that are called like its fields."""
    return owner(**{f.name: values[f.name] for f in fields(owner) if f.name in values} | more)  # type: ignore[arg-type]


def was_given(context: click.Context, name: str) -> bool:
    """Whether an option stands on the command line."""
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_options(context: click.Context, options: Iterable[str], why: str) -> None:
    """Raise UsageError for the first of these options that was given.  why: "{option}" is its name."""
    for name in options:
        if was_given(context, name):
            option = next(p for p in context.command.params if p.name == name)
            flag = _asking_preset(context, option) or option.opts[0]
            raise click.UsageError(why.format(option=flag))


def _asking_preset(context: click.Context, option: click.Parameter) -> str | None:
    """The preset that stands for an option, "--preset private", if nobody wrote the option."""
    written = {arg.partition("=")[0] for arg in context.meta.get("secfc.arguments", ())}
    for preset in context.command.params:
        word = str(context.params.get(preset.name or ""))
        sets = preset.presets.get(word, ()) if isinstance(preset, Option) and preset.presets else ()
        if {arg.partition("=")[0] for arg in sets} & ({*option.opts} - written):
            return f"{preset.opts[0]} {word}"
    return None


# --------------------------------------------------------------------------------------------------
# Commands that take them.


class Command(click.Command):
    """A command whose options are the fields of a class, of which it is called with an instance.

    More than MANY options are shown in groups, and --help shows the common ones only, in few words: what
    stands below a form feed of the help text, and all other options, is for --help-all.
    """

    context_class = HelpContext

    def __init__(self, *args: Any, taken: type, **more: Any) -> None:
        super().__init__(*args, **more)
        self.taken = taken
        self.whole_help = self.help or ""
        if len(self.params) > MANY:
            self.params.append(
                click.Option(["--help-all"], is_flag=True, is_eager=True, expose_value=False,
                             callback=self._show_all, help="Show all options and examples.")
            )  # fmt: skip

    def _show_all(self, context: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            context.meta[WHOLE] = True
            click.echo(context.get_help())
            context.exit()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keeps the arguments as they were given, under "secfc.arguments" in the context."""
        args = list(with_current_names(args))
        ctx.meta["secfc.arguments"] = tuple(args)
        try:
            return super().parse_args(ctx, list(self._with_presets(list(self._with_bare_words(args)))))
        except click.NoSuchOption as error:
            known = {flag for p in self.params for flag in p.opts}
            called = error.option_name.replace("_", "-")
            meant = sorted({called, *ELSEWHERE_CALLED.get(called, ())} & known)
            said = f"it is called {' or '.join(meant)} here" if meant else self._say_where(error, ctx, args)
            if said is None:
                raise
            raise click.UsageError(f"No such option '{error.option_name}': {said}.", ctx) from error
        except click.MissingParameter as error:
            if not isinstance(lacks := error.param, click.Option) or not lacks.help:
                raise
            flag, about = lacks.opts[0], lacks.help.partition(". ")[0].rstrip(".")
            said = f"Missing option '{flag}': {about}. Add {flag} {lacks.make_metavar(ctx)}."
            raise click.UsageError(said, ctx) from error

    def _say_where(self, error: click.NoSuchOption, ctx: click.Context, args: list[str]) -> str | None:
        """Which command has an option that this one lacks, if it is known."""
        flag = error.option_name.replace("_", "-")
        if flag in NOWHERE:
            return NOWHERE[flag]
        if flag == "--set":
            name, _, value = next(iter(args[args.index(flag) + 1 :]), "NAME=VALUE").partition("=")
            return f"options stand for themselves here, as --{name.replace('_', '-')} {value}".rstrip()
        group: Any = ctx.find_root().command
        places = [place for place in moved_of(self.taken).values() if isinstance(place, str)]
        for place in dict.fromkeys((*places, *CLUSTERING)) if isinstance(group, click.Group) else ():
            found = group.get_command(ctx, place)
            if found is not None and any(flag in option.opts for option in found.params):
                return f"it is for another command, `secfc {place}`, so leave it out here"
        return None

    def _with_presets(self, args: list[str]) -> Iterator[str]:
        """What presets stand for, and then the arguments."""
        sets = {p.opts[0]: p.presets for p in self.params if isinstance(p, Option) and p.presets}
        for at, arg in enumerate(args):
            flag, given, word = arg.partition("=")
            yield from sets.get(flag, {}).get(word if given else "".join(args[at + 1 : at + 2]), ())
        yield from args

    def _with_bare_words(self, args: Sequence[str]) -> Iterator[str]:
        """Arguments, with the word that an option alone stands for: what follows it may be a file."""
        bare = {p.opts[0]: p for p in self.params if isinstance(p, Option) and p.bare is not None}
        for at, arg in enumerate(args):
            follows = "".join(args[at + 1 : at + 2])
            alone = arg in bare and follows not in bare[arg].words
            if alone and follows.isidentifier() and not Path(follows).exists():
                choices = ", ".join(map(repr, bare[arg].words))
                raise click.UsageError(
                    f"{arg} {follows}: {follows!r} is no file, and not one of {choices}. Put {arg} alone, "
                    f"which is {bare[arg].bare}, or with one of these."
                )
            yield f"{arg}={bare[arg].bare}" if alone else arg

    def invoke(self, ctx: click.Context) -> Any:
        """Call the function with what was given."""
        given: Any = select_fields(self.taken, ctx.params)
        return None if self.callback is None else ctx.invoke(self.callback, given)

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """All of it, or what stands above a form feed."""
        first, _, rest = self.whole_help.partition("\f")
        self.help = first + rest if WHOLE in ctx.meta else first
        super().format_help_text(ctx, formatter)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """In groups, where there are many."""
        shown = [p for p in self.get_params(ctx) if isinstance(p, click.Option)]
        if len(shown) <= MANY:
            super().format_options(ctx, formatter)
            return
        for group in ("", *GROUPS):
            some = [p for p in shown if (p.group if isinstance(p, Option) else "") == group]
            if rows := self._help_rows(ctx, some):
                with formatter.section(group or "Options"):
                    formatter.write_dl(rows)

    def _help_rows(self, ctx: click.Context, options: Sequence[click.Option]) -> list[tuple[str, str]]:
        """Names and help of these options; of the common ones in few words, unless all is shown."""
        if WHOLE not in ctx.meta:
            options = [p for p in options if not (isinstance(p, Option) and p.group) or p.common]
        records = filter(None, (p.get_help_record(ctx) for p in options))
        return [(name, text if WHOLE in ctx.meta else in_brief(text)) for name, text in records]


def with_current_names(args: Iterable[str]) -> Iterator[str]:
    """Arguments, with options by the names that they have now, and a note on stderr for each old one."""
    for arg in args:
        flag, given, value = arg.partition("=")
        new = OLD_OPTIONS.get(flag[2:]) if flag.startswith("--") else None
        if new is not None:
            click.echo(f"Note: {old_name_sentence(flag, f'--{new}')}.", err=True)
        yield arg if new is None else f"--{new}{given}{value}"


def in_brief(text: str) -> str:
    """What a help text says first, and the default.

    >>> in_brief("What it is: not long. How it works: so. Default: none.  [default: 3; x>=1]")
    'What it is. Default: none.  [default: 3]'
    """
    words, _, extra = text.partition("  [")
    first, *more = re.split(r"(?<=\.) ", words)
    said = re.split(r"[:;] ", first)[0].rstrip(".") + "."
    default = re.search(r"default: [^;\]]*", extra)
    kept = " ".join([said, *(one for one in more if one.startswith("Default"))])
    return kept + (f"  [{default[0]}]" if default else "")


def command(
    taken: type, name: str | None = None, more: Sequence[click.Parameter] = ()
) -> Callable[[Callable[..., Any]], Command]:
    """A decorator that makes a command of a function of one argument, an instance of the class `taken`.

    more: options that are not of the class, but for those that it has MOVED; the context has their values.
    """

    moved = moved_of(taken)

    def make(function: Callable[..., Any]) -> Command:
        return Command(
            name or function.__name__.replace("_", "-"),
            params=[*fields_of(taken), *(p for p in more if not isinstance(moved.get(str(p.name)), str))],
            callback=function, help=function.__doc__, taken=taken,
        )  # fmt: skip

    return make
