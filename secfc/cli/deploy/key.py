"""`secfc deploy key`: a site's identity."""

from __future__ import annotations

from pathlib import Path

import click

from secfc.cli.errors import bad_input
from secfc.cli.outputs import ANY_PATH
from secfc.deploy.keys import draw, fingerprint, load


@click.command(short_help="Make a site's key, or show the public part of one.")
@click.argument("file", type=ANY_PATH)
def key(file: Path) -> None:
    """Make a site's key in FILE, if it is not there; show what the others need of it.

    The file is secret and never leaves the site. The others need the public line, in the run file; read the
    fingerprint out to each other over the telephone.

    \b
    Example:
      secfc deploy key hospital-a.key
    """
    with bad_input(OSError):
        identity = load(file) if file.exists() else draw(file)
    click.echo(f"public       {identity.public.hex()}\nfingerprint  {fingerprint(identity.public)}")
