"""`secfc deploy flare-kit`: a site's rules, in its startup kit of NVIDIA FLARE."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from secfc.cli.options import argument, command

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@dataclass(frozen=True)
class KitOptions:
    """What `secfc deploy flare-kit` takes."""

    site: Path = argument(kind=FILE)
    kit: Path = argument(kind=click.Path(exists=True, file_okay=False, path_type=Path))


@command(KitOptions)
def flare_kit(given: KitOptions) -> None:
    """Write this site's rules into KIT, the folder that FLARE provisioned for it.

    Jobs may then name four classes, which are installed here, and bring no code; no logs leave the site; and
    the run of SITE's run file starts `secfc deploy join` (or `serve`) with this site file.
    """
    from secfc.deploy.flare.cards import Kit
    from secfc.deploy.flare.policy import CLASSES, loosened_rules, write_site_rules
    from secfc.deploy.runfile import RunFile
    from secfc.deploy.site import SiteFile
    from secfc.errors import InputError
    from secfc.roles.exchange import SERVER

    site, kit = given.site, given.kit
    own = SiteFile.read(site)
    run = RunFile.read(own.run)
    found = Kit(kit)
    try:
        name = SERVER if found.is_server else found.name
    except (OSError, ValueError) as error:
        raise InputError(
            f"{kit} is no startup kit: name the folder with startup and local in it ({type(error).__name__})"
        ) from error
    if name != own.party:
        raise InputError(
            f"{site} is of {own.party!r}, and {kit} is the kit of {name!r}: name this site's own of each"
        )
    write_site_rules(found, run.session, site)
    for problem in loosened_rules(found):
        raise InputError(problem)
    click.echo(f"{kit} takes part in {run.name!r} as {own.party} with {site}. Jobs may name:")
    for path in CLASSES:
        click.echo(f"  {path}")
    click.echo("and bring no code (byoc is denied to all); no logs are sent.")
    click.echo(f"Start it: {kit}/startup/start.sh")
