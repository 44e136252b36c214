"""How commands end: expected errors become a message and an exit code, bugs keep their traceback."""

from __future__ import annotations

import re
import shlex
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

from secfc.cli.verbosity import OPTIONS

# --------------------------------------------------------------------------------------------------
# Groups of commands that load a command, and what it needs, when it is asked for and not before.

# What the rest is found by: "module:attribute", and the line that the help of the group shows.
Entry = tuple[str, str]


class Lazily(click.Group):
    """entries: commands by name; all of them also take --quiet and --verbose."""

    def __init__(self, *args: Any, entries: Mapping[str, Entry], **more: Any) -> None:
        super().__init__(*args, **more)
        self.entries = entries

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the table."""
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loaded now."""
        if cmd_name not in self.entries:
            return None
        if cmd_name not in self.commands:
            from secfc.cli.verbosity import with_verbosity_options

            module, _, attribute = self.entries[cmd_name][0].partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            self.commands[cmd_name] = (
                command if isinstance(command, click.Group) else with_verbosity_options(command)
            )
        return self.commands[cmd_name]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raises UsageError for a command that there is not, with those that are near."""
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            near = get_close_matches(args[0], self.entries, 2) or list(self.entries)
            raise click.UsageError(f"there is no command {args[0]!r} here: use {', '.join(near)}.", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.entries.items()])


# --------------------------------------------------------------------------------------------------

# Parameters of the library that its messages name, and are options here; quoted ones are the user's.
PARAMETERS = re.compile(
    r"(?<!['\w])(client_column|id_column|label_column|k_local|(?:columns|encoding|delimiter)(?==))(?!\w)(?:=(?!\w))?"
)
# How text files are written, with a value.
WRITTEN = re.compile(r"""\b(encoding|delimiter|decimal)=(['"])(.*?)\2""")
# What else its messages offer, and how that is asked for here.
OFFERS = {
    '(neighbors=Neighbors(unit="data point"))': "(--protect point)",
    'centers="rounded"': "--centers rounded",
    'centers="exact"': "--centers exact",
    "disclosure=Distances()": "--disclosure distances",
    "disclosure=AssignmentsOnly()": "--disclosure assignments",
    "AssignmentsOnly(consent=True)": "--consent",
    "init=Bisecting()": "--init bisecting",
    "disclosure=OwnLabels()": "--disclosure own-labels",
    "init=Splitting()": "--init splitting",
    "init=RandomLabels()": "--init random",
    "(reveal_centers=True)": "(--reveal-centers)",
    "(bound=)": "(--bound)",
    "(scale=)": "(--scale)",
    "use MaskedLloyd.": "use --algorithm masked-lloyd.",
    "Use MaskedLloyd.": "Use --algorithm masked-lloyd.",
    "(union=True)": "(--features union)",
    'coarse="allow"': "--coarse allow",
    '(scale_features="standard")': "(--standardize)",
    '(missing="mean", missing="drop")': "(--missing mean, --missing drop)",
    '(missing="mean")': "(--missing mean)",
    "(categorical=)": "(--categorical)",
    '(outside="clip")': "(--outside clip)",
    "leave largest out, or take another start, as RandomLabels()": "drop --largest, or add --init random",
    "start from random labels or points": "add --init random or --init random-points",
    "Bisecting()": "--init bisecting",
    "Range(ranges=...)": "--ranges",
    "with drop_unfit=True": "with --drop-unfit",
    "max_cheaters": "liars",
}


# Remedies that a command may not offer, by the option that it lacks, and what is said instead.
LACKING = (
    ("--missing", r", or let missing values be the mean or their rows be dropped \(--missing [^)]*\)", ""),
    ("--missing", r" \(--missing mean, --missing drop\)", ""),
    ("--categorical", r", or have every category of a text made a feature \(--categorical\)", ""),
    ("--features", r", or take the union of all \(--features union\), which some algorithms can cluster", ""),
    ("--columns", r", or leave the column out with --columns", ""),
    ("--columns", r", or name it as --client-column, --id-column or --label-column", ""),
    ("--algorithm", r", or use --algorithm lloyd, which hides nothing", ""),
    ("--algorithm", r"--algorithm feddp needs", "FedDP-KMeans needs"),
    ("--client-column", r" Each FILE is one client, unless .*?: add files or that option", " Add clients"),
)  # fmt: skip
# What click says of numbers, and what people understand.
KINDS = (
    (r"is not a valid integer range\.", "is no whole number."),
    (r"is not a valid integer\.", "is no whole number."),
    (r"is not a valid float( range)?\.", "is no number."),
)


class RefusedInput(click.ClickException):
    """Bad usage or bad input: a message, no traceback."""

    exit_code = 2


class BelowFloorRefusal(RefusedInput):
    """A run asks for more than a site gives: a message, no traceback."""

    exit_code = 4


class Failed(click.ClickException):
    """The protocol failed: a message, no traceback."""

    exit_code = 1


class Interrupted(click.ClickException):
    """The user pressed Ctrl-C."""

    exit_code = 130


class Commands(Lazily):
    """The group of commands; turns expected errors into messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted. Output files are written whole or not at all.") from None
        except click.ClickException as error:
            error.__dict__["message"] = drop_missing_remedies(error.message, ctx.meta.get(OPTIONS))
            raise
        except (click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from psu.errors import UnionAborted
            from secfc.data.inputs import InputError
            from secfc.roles.exchange import ProtocolError
            from secfc.roles.problems import problem_id

            if isinstance(error, InputError):
                kind = (
                    BelowFloorRefusal
                    if getattr(error, "exit_code", 0) == BelowFloorRefusal.exit_code
                    else RefusedInput
                )
                number = f" [{problem_id(error)}]" if problem_id(error) else ""
                message = drop_missing_remedies(to_option_names(str(error)), ctx.meta.get(OPTIONS))
                raise kind(message + number) from error
            if isinstance(error, ProtocolError):
                spent = "" if error.promise is None else f". {error.promise.fallen()}"
                raise Failed(f"the protocol failed: {error} [{problem_id(error)}]{spent}") from error
            if isinstance(error, UnionAborted):
                raise Failed(f"the union failed: {error}") from error
            raise


class Remembering(click.Command):
    """A command that keeps its arguments as they were given, under "secfc.arguments" in the context."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta["secfc.arguments"] = tuple(args)
        return super().parse_args(ctx, args)


def drop_missing_remedies(message: str, options: Collection[str] | None) -> str:
    """The message without remedies that a command lacks.  options: those it has, None where none runs."""
    for option, clause, instead in LACKING:
        if options is not None and option not in options:
            message = re.sub(clause, instead, message)
    for words, plain in KINDS:
        message = re.sub(words, plain, message)
    return message


def as_option(parameter: re.Match[str]) -> str:
    """The option that sets a parameter."""
    return "--" + parameter[1].replace("_", "-")


def to_option_names(message: str) -> str:
    """A message of the library in words of the command line."""
    message = WRITTEN.sub(lambda found: f"--{found[1]} {shlex.quote(found[3])}", message)
    for policy, option in OFFERS.items():
        message = message.replace(policy, option)
    return PARAMETERS.sub(as_option, message)


@contextmanager
def cautions_noted() -> Iterator[None]:
    """Within the body the library's cautions are not printed: reports have notes that say the same."""
    from secfc.data.inputs import Caution

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        yield


@contextmanager
def cautions_told(*, but: str) -> Iterator[None]:
    """Within the body the library's cautions become notes on stderr, but those that this expression finds."""
    from secfc.cli.verbosity import quiet
    from secfc.data.inputs import Caution

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", Caution)
        yield
    for one in found:
        if not issubclass(one.category, Caution):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif not quiet() and not re.search(but, str(one.message)):
            click.echo(f"Note: {one.message}.", err=True)


@contextmanager
def bad_input(*kinds: type[Exception]) -> Iterator[None]:
    """Within the body, exceptions of these kinds are the user's to mend."""
    from secfc.data.inputs import InputError

    try:
        yield
    except InputError:
        raise
    except OSError as error:
        if not isinstance(error, kinds):
            raise
        name = f"{error.filename}: " if error.filename else ""
        raise InputError(f"{name}{error.strerror or error}. Check the path and its permissions.") from error
    except OverflowError as error:
        if not isinstance(error, kinds):
            raise
        raise InputError("the values are too large or too small for floating point: rescale them.") from error
    except kinds as error:
        raise InputError(str(error)) from error
