"""Lines on a screen of 80 columns: help texts, also examples and lists of words, and what checks find."""

from __future__ import annotations

import re
import sys
import textwrap
from functools import partial

import click

WIDTH = 80
# A command of an example, and behind two blanks or more what it is for.
EXAMPLE = re.compile(r"( {4,})(\S.*?)(?: {2,}(\S.*))?")

_wrap = partial(textwrap.wrap, break_long_words=False, break_on_hyphens=False)


class NarrowFormatter(click.HelpFormatter):
    """Writes no line of more than WIDTH characters, but for a word that is longer."""

    def write(self, string: str) -> None:
        """Lines, folded."""
        super().write("\n".join(fold_line(line) for line in string.split("\n")))


class HelpContext(click.Context):
    """The context of a command whose help fits the screen."""

    formatter_class = NarrowFormatter


def fold_line(line: str) -> str:
    r"""A line of help within WIDTH: words to choose from below one another, what an example is for below it.

    >>> print(fold_line("    secfc plan -n 10 -m 10000 -d 20 -k 4       what a run costs, and what it shows"))
        secfc plan -n 10 -m 10000 -d 20 -k 4
            what a run costs, and what it shows
    """
    if len(line) <= WIDTH:
        return line
    if "|" in line:
        deeper = " " * (line.find("[") + 1)
        return "\n".join(_wrap(line.replace("|", "| "), WIDTH, subsequent_indent=deeper)).replace("| ", "|")
    found = EXAMPLE.fullmatch(line)
    if found is None:
        return "\n".join(_wrap(line, WIDTH, subsequent_indent=" " * (len(line) - len(line.lstrip()))))
    indent, command, purpose = found.groups("")
    copied = " \\\n".join(
        _wrap(command, WIDTH - 2, initial_indent=indent, subsequent_indent=indent + " " * 4)
    )
    return "\n".join(
        [
            copied,
            *_wrap(purpose, WIDTH, initial_indent=indent + " " * 4, subsequent_indent=indent + " " * 4),
        ]
    )


def echo_folded(line: str, indent: int = 0) -> None:
    """A line on stdout, whole for programs; on a terminal folded at WIDTH, what follows indented."""
    if sys.stdout.isatty() and len(line) > WIDTH:
        line = "\n".join(_wrap(line, WIDTH, subsequent_indent=" " * indent))
    click.echo(line)
