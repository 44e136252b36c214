"""`secfc warmup`: all kernels, compiled at a time of your choice."""

from __future__ import annotations

from collections.abc import Callable

import click

from secfc.cli.methods import methods
from secfc.cli.screen import Screen, time_work
from secfc.cli.tiny_runs import tiny_union
from secfc.cli.verbosity import is_quiet


@click.command()
def warmup() -> None:
    """Compile the kernels, and keep them on disk.

    They are compiled on first use anyway; this does it at a time of your choice, for example while an
    image is built.  NUMBA_CACHE_DIR names another directory if the package may not be written to.

    \b
    Examples:
      secfc warmup
      NUMBA_CACHE_DIR=/var/cache/secfc secfc warmup
    """
    screen = Screen.stderr()
    with screen.counted("Compiling the kernels", len(methods()) + 2) as done:
        _, spent = time_work(lambda: compile_all(done))
    where = cache_directory()
    if is_quiet() and where is not None:
        return
    click.echo(f"The kernels are ready ({spent:.1f} s).")
    if where is None:
        click.echo(
            "No directory for them may be written to, so every run compiles them again: set "
            "NUMBA_CACHE_DIR to one that may."
        )
    else:
        click.echo(f"They are kept in {where}")


def compile_all(done: Callable[[], None] = lambda: None) -> None:
    """Run everything that is compiled: for every method, and for both modes of union.

    done: called after each of them.
    """
    from psu import Committee, Server

    for method in methods().values():
        method.compile()
        done()
    for mode in (Committee(1), Server()):
        tiny_union(mode)
        done()


def cache_directory() -> str | None:
    """Where compiled kernels are kept, None if nowhere."""
    from field.kernels import scalar as kernels
    from psu import kernels as psu_kernels

    places = (kernels.nearest_center.stats.cache_path, psu_kernels.multiply.stats.cache_path)
    return None if None in places else " and ".join(places)
