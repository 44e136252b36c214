"""`secfc deploy`: runs between organizations, one command a site."""

from __future__ import annotations

from importlib.util import find_spec

import click

from field.ring.errors import install_command
from secfc.cli.shell.errors import Lazily, RefusedInput

# Where each command is, and its line in the help.
COMMANDS = {
    "key": ("secfc.cli.deploy.keys:key", "Make a site's key, or show the public part of one."),
    "init": ("secfc.cli.deploy.init:init", "Write the run file, and each site's own."),
    "check": ("secfc.cli.deploy.check:check", "Would a run work here, and do we agree to it?"),
    "hub": ("secfc.cli.deploy.hub:hub", "Forward what the parties of runs seal."),
    "serve": ("secfc.cli.deploy.join:serve", "Take part as the server, which holds no rows."),
    "join": ("secfc.cli.deploy.join:join", "Take part as a data owner."),
    "status": ("secfc.cli.deploy.operate:show_status", "What is a run doing here, and since when?"),
    "go-on": ("secfc.cli.deploy.operate:go_on", "Go on without a client that is away."),
    "abort": ("secfc.cli.deploy.operate:abort_run", "End this site's part in a run for good."),
    "clean": ("secfc.cli.deploy.operate:clean_site", "Delete what runs that are over left here."),
    "rehearse": (
        "secfc.cli.deploy.rehearse:rehearse_run",
        "What if a party were away? On made-up rows, here.",
    ),
    "keys": ("secfc.cli.deploy.keys:keys_group", "Change a site's key, or revoke one."),
    "audit": ("secfc.cli.deploy.audit:audit_group", "Verify and show what sites have on record."),
    "predict": ("secfc.cli.deploy.predict:predict", "Label new rows, after a run."),
    "flare": ("secfc.cli.deploy.flare:flare", "Write what NVIDIA FLARE needs to carry a run."),
    "flare-kit": ("secfc.cli.deploy.flare:flare_kit", "Write this site's rules into FLARE's startup kit."),
}


class Deployed(Lazily):
    """What commands between organizations need is looked for before one is loaded."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Loaded now.  Raises Refused."""
        missing = [name for name in ("websockets", "tomli_w") if find_spec(name) is None]
        if missing and cmd_name in COMMANDS:
            raise RefusedInput(f"secfc deploy needs {' and '.join(missing)}: {install_command('[deploy]')}.")
        return super().get_command(ctx, cmd_name)


@click.group(cls=Deployed, entries=COMMANDS)
def deploy() -> None:
    """Run between organizations: each on its own machine, on its own file, under its own rules.

    No site opens a port: all go out to a hub, which forwards what they seal and can read nothing.

    \b
    Three hospitals, step by step:
      secfc deploy key site.key                        at every site, once: its key
      secfc deploy init run.toml --client ...          somebody writes the run file, and sends it to all
      secfc deploy init --site site.toml ...           every site writes its own
      secfc deploy check site.toml                     every site: would it work, and do we agree to it?
      secfc deploy hub run.toml --port 443 ...         whoever runs the hub
      secfc deploy serve site.toml                     whoever serves
      secfc deploy join site.toml                      every hospital; the same command again resumes
      secfc deploy predict site.toml new.csv           later, together: the clusters of new rows

    Exit codes: 0 success; 1 the run is over by a fault of the protocol, or the hub does not admit this party;
    2 bad usage or input; 4 the run asks for more than this site gives; 5 finished, with fewer sites than
    agreed; 75 the run is suspended, and 130 interrupted: the same command goes on.
    """
