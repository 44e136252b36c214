"""`secfc deploy flare`: project file and job for NVIDIA FLARE, from a run file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from secfc.cli.shell.options import argument, command, option

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)

NEXT = """Wrote {project} and {job}, for {clients} and the server at {host}:{port}.

Next, who runs the server issues certificates, and sends every folder but its own to its owner:
  nvflare provision -p {project} -w {folder}/certificates
Then every party, and the server, fits its own kit and starts it:
  secfc deploy flare-kit site.toml KIT
  KIT/startup/start.sh
And whoever is {administrator} starts the run, which the same command resumes:
  nvflare job submit -j {job} --startup-kit {folder}/certificates/secfc/prod_00/{administrator}
"""


@dataclass(frozen=True)
class FlareOptions:
    """What `secfc deploy flare` takes."""

    # fmt: off
    run: Path = argument(kind=FILE)
    out: Path = option(Path("flare"), FOLDER, help="Where both are written.")
    administrator: str = option("lead@secfc.invalid", metavar="ADDRESS", help=
        "Who may submit the job; FLARE names people by mail addresses.")
    # fmt: on


@command(FlareOptions)
def flare(given: FlareOptions) -> None:
    """Write what NVIDIA FLARE needs to carry the run of the file RUN: its project, and a job without code.

    The run file's hub says where FLARE's server is: hub = "nvflare://flare.example.org:8002".  Its clients
    are sites of the same names.
    """
    from secfc.deploy.flare.project import server_of, write_project
    from secfc.deploy.runfile import RunFile

    terms, out, administrator = RunFile.read(given.run), given.out, given.administrator
    host, port = server_of(terms.hub)
    project, job = write_project(terms, out, administrator)
    clients = ", ".join(terms.clients)
    click.echo(
        NEXT.format(
            project=project, job=job, clients=clients, host=host, port=port, folder=out,
            administrator=administrator,
        ),
        nl=False,
    )  # fmt: skip


# --------------------------------------------------------------------------------------------------
# `secfc deploy flare-kit`: a site's rules, in its startup kit of NVIDIA FLARE.


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
