"""The `secfc` command: its help, and the commands under it."""

from __future__ import annotations

import sys

import click

import secfc
from secfc.cli.attack import attack
from secfc.cli.audit import audit
from secfc.cli.deploy import deploy
from secfc.cli.errors import Commands
from secfc.cli.predict import predict
from secfc.cli.rebuilding import differences, reconstruct
from secfc.cli.run import run
from secfc.cli.union import union
from secfc.cli.warmup import warmup


@click.group(
    cls=Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(secfc.__version__, "--version", prog_name="secfc", message="%(prog)s %(version)s")
@click.pass_context
def main(context: click.Context) -> None:
    """Exact, secure k-means over data that several parties hold (SecFC).

    \b
    Examples:
      secfc run                                  a demonstration on handwritten digits
      secfc run a.csv b.csv c.csv -k 4           one file a client
      secfc run all.csv --client-column site -k 4
      secfc predict model.npz new.csv            labels of new points, by what `run --model` kept
      secfc psu a.txt b.txt c.txt                only the union of their IDs
      secfc attack geometry                      what the server could learn from a run
      secfc audit *.csv -k 4 --server-file public.csv --epsilon 1    what a private run keeps
      secfc deploy --help                        between organizations: every site its own machine and file
      secfc run --help                           all options; the same for psu, attack and warmup
    """
    for stream in (sys.stdout, sys.stderr):  # names of clients may not fit the terminal's encoding
        if callable(reconfigure := getattr(stream, "reconfigure", None)):
            reconfigure(errors="backslashreplace")
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for command in (differences, reconstruct):
    attack.add_command(command)
for command in (run, predict, union, attack, audit, deploy, warmup):
    main.add_command(command)
