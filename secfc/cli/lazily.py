"""Groups of commands that load a command, and what it needs, when it is asked for and not before."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

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
            from secfc.cli.telling import heard

            module, _, attribute = self.entries[cmd_name][0].partition(":")
            command: click.Command = getattr(import_module(module), attribute)
            self.commands[cmd_name] = command if isinstance(command, click.Group) else heard(command)
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
