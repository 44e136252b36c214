"""What commands that attack runs have in common: which data, and how findings begin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.errors import Refused
from secfc.cli.execute import load
from secfc.cli.method import Asked
from secfc.cli.methods.secfc import METHOD as SECFC
from secfc.cli.outputs import check_output
from secfc.cli.screen import Screen
from secfc.cli.settings import Settings, check_k

if TYPE_CHECKING:
    from secfc.data.federation import Federation


def begun(plot: Path | None, values: dict[str, Any], **fixed: Any) -> tuple[Asked, Federation, str, Screen]:
    """What was asked, checked, and the data with their source in words.

    plot: where a picture goes.  values: of the command's options.  fixed: of SecFC's, whatever was asked.

    Raises UsageError, Refused, InputError.
    """
    from secfc.data.extras import require

    settings = Settings(**{name: value for name, value in values.items() if name not in SECFC.names})
    options = {name: value for name, value in values.items() if name in SECFC.names}
    asked = Asked(settings, SECFC.defaults() | options | fixed)
    check_k(settings)
    require("secfc attack", "attacks")
    if plot is not None:
        require("--plot", "plot")
        check_output(plot, "--plot", settings.files, force=settings.force)
    screen = Screen.stderr(settings.as_json)
    with screen.status("Reading the data"):
        federation, source = load(SECFC, asked)
    return asked, federation, source, screen


def check_known(known: str | None, federation: Federation) -> None:
    """Raise Refused if the attacker is to be a client that there is not."""
    if known is not None and known not in federation.names:
        raise Refused(f"--known {known!r} is no client: the clients are {', '.join(federation.names)}.")


def heading(source: str, federation: Federation) -> None:
    """The first lines of findings as text."""
    click.echo(
        f"{source}\nm = {federation.m} points, d = {federation.d} features, n = {federation.n} clients"
    )
