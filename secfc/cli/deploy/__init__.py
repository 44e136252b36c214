"""`secfc deploy`: runs between organizations, one command a site."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

import click

from secfc.cli.errors import Refused

# Commands by name, and the module in which each is; loaded when one is asked for.
COMMANDS = {
    "key": "key", "init": "init", "check": "check", "hub": "hub", "serve": "join", "join": "join",
    "predict": "predict",
    "flare": "flare", "flare-kit": "flare_kit",
}  # fmt: skip


class Lazily(click.Group):
    """A group that loads a command when it is asked for, and what they need only then."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if missing := [name for name in ("websockets", "tomli_w") if find_spec(name) is None]:
            raise Refused(
                f"secfc deploy needs {' and '.join(missing)}: pip install 'secfc-clustering[deploy]'."
            )
        command: click.Command = getattr(
            import_module(f"secfc.cli.deploy.{COMMANDS[cmd_name]}"), cmd_name.replace("-", "_")
        )
        return command


@click.group(cls=Lazily, short_help="Run between organizations: every site its own machine and file.")
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

    \b
    Exit codes: 0 success; 1 a fault of the protocol or of the network; 2 bad usage or input; 4 the run asks
    for more than this site gives; 130 interrupted, which can be resumed.
    """
