"""How commands end: expected errors become a message and an exit code, bugs keep their traceback."""

from __future__ import annotations

import errno
import shlex
import shutil
import sys
import textwrap
import warnings
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from secfc.cli.shell.help_lines import HelpContext
from secfc.cli.shell.verbosity import OPTIONS
from secfc.remedies import WITHOUT_OUTLIERS, changed_fields, word_of

# --------------------------------------------------------------------------------------------------
# Groups of commands that load a command, and what it needs, when it is asked for and not before.

# Commands as other programs call them.
MEANT = {
    **dict.fromkeys(("fit", "train", "cluster", "kmeans"), ("run",)),
    **dict.fromkeys(("label", "classify", "transform"), ("predict",)),
    **dict.fromkeys(("demo", "init"), ("example", "run")),
    "simulate": ("run", "grid"), "sweep": ("grid",), "estimate": ("plan",), "validate": ("check",),
}  # fmt: skip

# What the rest is found by: "module:attribute", and the line that the help of the group shows.
Entry = tuple[str, str]


class Lazily(click.Group):
    """entries: commands by name; all of them also take --quiet and --verbose."""

    context_class = HelpContext

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
            from secfc.cli.shell.verbosity import with_verbosity_options

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
            if args[0] == "help":
                asked = " ".join((ctx.command_path, *args[1:2], "--help"))
                raise click.UsageError(f"there is no command 'help' here: use {asked}.", ctx)
            meant = {name for name in MEANT.get(args[0], ()) if name in self.entries}
            near = meant or get_close_matches(args[0], self.entries, 2) or list(self.entries)
            raise click.UsageError(f"there is no command {args[0]!r} here: use {', '.join(near)}.", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """From the table, without loading any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.entries.items()])


# --------------------------------------------------------------------------------------------------

# Parameters of the library whose options are called otherwise than they are.
FLAGS = {
    "t": "-t", "k": "-k", "basis": "--field", "corrected": "--corrected", "deviating": "--deviating",
    "dendrogram": "--linkage", "neighbors": "--protect", "scale_features": "--standardize",
}  # fmt: skip
# Values that are options of their own, or of other names.
PHRASES = {
    ("union", True): ("--features", "union"),
    ("scale_features", "standard"): ("--standardize",),
    ("scale_features", "robust"): ("--standardize", "robust"),
    ("scale_features", WITHOUT_OUTLIERS): (
        "--standardize",
        "robust",
        "--outside",
        "missing",
        "--missing",
        "mean",
    ),
    ("scale_features", "range"): ("--to-range",),
    ("scale_features", "norm"): ("--standardize", "norm"),
    ("dealer", None): ("--dealer", "none"),
    ("membership", "joined"): ("--split", "columns"),
}


@dataclass(frozen=True)
class ShellInterface:
    """Options of a command, and no others.

    options: those it has, as keys also with the commands that have further words of theirs; None: all that
    there are.
    """

    options: Collection[str] | None = None

    def name(self, parameter: str) -> str | None:
        """The option that sets a parameter."""
        flag = FLAGS.get(parameter, f"--{parameter.replace('_', '-')}")
        return flag if self.options is None or flag in self.options else None

    def setting(self, parameter: str, value: Any) -> str | None:
        """As `--disclosure own-labels`.

        >>> from secfc.disclosure import OwnLabels
        >>> ShellInterface().setting("disclosure", OwnLabels(sizes="hidden"))
        '--disclosure own-labels --sizes hidden'
        """
        if isinstance(value, Hashable) and (parameter, value) in PHRASES:
            return self._phrase(parameter, value)
        flag = self.name(parameter)
        if (command := self._command_of(flag, value)) is not None:
            return command
        if flag is None or value is True or value is ... or parameter == "scale_features":
            return flag
        if value is False:
            return f"--no-{flag[2:]}"
        if parameter == "basis":
            return f"{flag} mersenne61"
        if parameter == "neighbors":
            return f"{flag} {value.word}"
        if is_dataclass(value) and (word := word_of(parameter, value)) is not None:
            return " ".join((f"{flag} {word}", *self.field_settings(value)))
        if parameter == "disclosure" and not isinstance(value, str):
            return self.name("epsilon")
        shown = ",".join(value) if isinstance(value, tuple) else str(value)
        return f"{flag} {shlex.quote(shown)}"

    def _phrase(self, parameter: str, value: Any) -> str | None:
        """What PHRASES has, if the command takes it, or the command that does."""
        words, options = PHRASES[parameter, value], self.options
        if (command := self._command_of(*words[:2])) is not None:
            return command
        return shlex.join(words) if options is None or words[0] in options else None

    def _command_of(self, flag: str | None, word: Any = None) -> str | None:
        """The command that an option of this one leaves a word to, None if it takes it."""
        moved = self.options.get(flag, {}) if isinstance(self.options, Mapping) else {}
        command = moved.get(word) if isinstance(word, str) else None
        return None if command is None else f"`secfc {command}`"

    def field_settings(self, value: Any) -> Iterator[str]:
        """Options of the fields of a dataclass that have not their default."""
        settings = (self.setting(name, field) for name, field in changed_fields(value).items())
        return filter(None, settings)


def options_here() -> ShellInterface:
    """The options of the command that runs."""
    context = click.get_current_context(silent=True)
    return ShellInterface(None if context is None else context.meta.get(OPTIONS))


class RefusedInput(click.ClickException):
    """Bad usage or bad input: a message, no traceback."""

    exit_code = 2


class BelowFloorRefusal(RefusedInput):
    """A run asks for more than a site gives: a message, no traceback."""

    exit_code = 4


class Failed(click.ClickException):
    """The protocol failed: a message, no traceback."""

    exit_code = 1


class FewerSites(click.ClickException):
    """A run has ended well, without some of its sites."""

    exit_code = 5


class Suspended(click.ClickException):
    """A run waits for something, and the same command goes on: a message, no traceback."""

    exit_code = 75  # as other programs say it: try again


class Interrupted(click.ClickException):
    """The user pressed Ctrl-C."""

    exit_code = 130


def fold_error(error: click.ClickException) -> click.ClickException:
    """The error in lines of a terminal's width, if stderr is one: programs read one line."""
    if not sys.stderr.isatty():
        return error
    width = min(80, shutil.get_terminal_size().columns)
    lines = f"Error: {error.format_message()}".split("\n")
    wrapped = [textwrap.fill(line, width, break_on_hyphens=False, break_long_words=False) for line in lines]
    said = "\n".join(wrapped).removeprefix("Error: ")
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    made = click.ClickException(said) if ctx is None else click.UsageError(said, ctx)
    vars(made).update(exit_code=error.exit_code)
    return made


# What a system refuses about a path: a file that root made, a disc that became read-only.
REFUSED = errno.EACCES, errno.EPERM, errno.EROFS
# Under the traceback of an error that is neither of the user nor of a party.
INTERNAL = (
    "Internal error of secfc: your input and options are not to blame. Please report the lines above, less "
    "what they show of your data."
)


class Commands(Lazily):
    """The group of commands; turns expected errors into messages and exit codes."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return self.invoke_explained(ctx)
        except click.ClickException as error:
            raise fold_error(error) from error.__cause__

    def invoke_explained(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted("interrupted. Output files are written whole or not at all.") from None
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            from psu.errors import UnionAborted
            from secfc.errors import InputError, ProtocolError, problem_id

            if isinstance(error, InputError):
                kind = (
                    BelowFloorRefusal
                    if getattr(error, "exit_code", 0) == BelowFloorRefusal.exit_code
                    else RefusedInput
                )
                number = f" [{problem_id(error)}]" if problem_id(error) else ""
                raise kind(error.text(ShellInterface(ctx.meta.get(OPTIONS))) + number) from error
            if isinstance(error, ProtocolError):
                spent = "" if error.promise is None else f". {error.promise.failure_sentence()}"
                raise Failed(f"the protocol failed: {error} [{problem_id(error)}]{spent}") from error
            if isinstance(error, UnionAborted):
                raise Failed(f"the union failed: {error}") from error
            if isinstance(error, OSError) and error.errno in REFUSED and error.filename:
                said = f"{error.filename}: {error.strerror}. Check the path, its owner and its permissions."
                raise RefusedInput(said) from error
            error.add_note(INTERNAL)
            raise


@contextmanager
def cautions_noted() -> Iterator[None]:
    """Within the body the library's cautions are not printed: reports have notes that say the same."""
    from secfc.errors import Caution

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        yield


@contextmanager
def cautions_told(but: type[Warning] | None = None) -> Iterator[None]:
    """Within the body the library's cautions become notes on stderr, except those of this kind."""
    from secfc.errors import Caution

    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always", Caution)
        yield
    for one in found:
        if not issubclass(one.category, Caution):
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        elif not (but and issubclass(one.category, but)):
            tell_notes([caution_text(one.message)])


def tell_notes(notes: Iterable[str]) -> None:
    """Notes on stderr, unless silence was asked for."""
    from secfc.cli.shell.verbosity import is_quiet

    for note in () if is_quiet() else notes:
        # Commands in it are there to be copied: no option is broken at its hyphen.
        wrapped = textwrap.wrap(f"Note: {note}.", 80, break_on_hyphens=False, break_long_words=False)
        click.echo("\n".join(wrapped), err=True)


def caution_text(caution: Warning | str) -> str:
    """A caution of the library in words of the command that runs, without its last point."""
    from secfc.remedies import advice_text

    return advice_text(caution, options_here()).rstrip(".")


@contextmanager
def full_disc_told(path: Path) -> Iterator[None]:
    """Within the body, a disc without room is one sentence, and the same command goes on.

    path: what is written, where the system does not say.  Raises Suspended.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Suspended(
            f"{error.filename or path}: {error.strerror}. Make room there; nothing is lost, and the same "
            "command goes on."
        ) from error


@contextmanager
def bad_input(*kinds: type[Exception]) -> Iterator[None]:
    """Within the body, what is refused as invalid and exceptions of these kinds are the user's to mend.

    A class that a fault of the program raises too, such as ValueError, only where a file is read.
    """
    from field.ring.errors import InvalidValue
    from secfc.errors import InputError

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
    except InvalidValue as error:
        raise InputError(str(error)) from error
    except kinds as error:
        raise InputError(str(error)) from error
