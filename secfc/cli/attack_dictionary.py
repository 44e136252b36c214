"""`secfc attack dictionary`: which guessed IDs a coalition finds in a union, with and without a quota."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, ClassVar

import click

from secfc.cli.errors import RefusedInput, bad_input
from secfc.cli.options import Whole, command, option
from secfc.cli.outputs import json_text
from secfc.cli.settings import Printing, Seeded

if TYPE_CHECKING:
    from secfc.attacks.dictionary import DictionaryFinding


@dataclass(frozen=True)
class DictionaryOptions(Seeded, Printing):
    """What `secfc attack dictionary` takes."""

    n: int = option(3, Whole(3), "-n", metavar="N", help="Clients.")
    t: int = option(1, Whole(1), "-t", metavar="T", help="Clients that attack together; n >= 2 t + 1.")
    ids: int = option(500, Whole(1), help="IDs of each other client.")
    digits: int = option(4, Whole(1, 7), help="Digits of a record number: all of them are guessed.")
    quota: int = option(500, Whole(1, 1 << 20), metavar="IDS", help="Of oblivious tags, as for run.")
    HELP: ClassVar = {
        "seed": "Reproduces the IDs.",
        "as_json": "Print the findings as JSON on stdout.",
    }


@command(DictionaryOptions)
def dictionary(given: DictionaryOptions) -> None:
    """Guess all record numbers, and look them up in a union of made-up ones.

    With the key of tags that all clients share, one client finds everybody. With a quota, t clients find
    what as many guesses as they may ask for are worth, and parts of the key alone, the server's too, nothing.

    \b
    Examples:
      secfc attack dictionary
      secfc attack dictionary -n 5 -t 2 --digits 5 --quota 1000 --json
    """
    import numpy as np

    from psu.ristretto import require_libsodium
    from secfc.attacks.dictionary import DictionaryGame

    try:
        require_libsodium()
    except ImportError as error:
        raise RefusedInput(str(error)) from error
    t, ids, digits, quota = given.t, given.ids, given.digits, given.quota
    rng = np.random.default_rng(given.seed)
    if ids > min(quota, 10**digits):
        raise RefusedInput(
            f"--ids {ids}: at most --quota ({quota}) and {10**digits} numbers of {digits} digits."
        )
    sets = [rng.choice(10**digits, ids, replace=False).tolist() for _ in range(given.n)]
    guesses = rng.permutation(10**digits).tolist()
    with bad_input():
        shared, apart = (DictionaryGame.of(sets, t, q) for q in (0, quota))
    clients = "1 client" if t == 1 else f"{t} clients"
    parts = [j for j in apart.plan.evaluators if j < t] + [given.n]
    findings = {
        "1 client, shared key": shared.by_key(guesses),
        f"{clients}, quota of {quota:,}": apart.by_questions(guesses),
        "the server alone": apart.by_own_keys([given.n], guesses),
        f"the server and {clients}, no question": apart.by_own_keys(parts, guesses),
    }
    if given.as_json:
        click.echo(json_text({"union": len(apart.union), **{k: asdict(v) for k, v in findings.items()}}))
    else:
        _show(findings, len(apart.union), digits)


def _show(findings: dict[str, DictionaryFinding], m: int, digits: int) -> None:
    from rich.console import Console

    from secfc.report import terminal

    console = Console(markup=False, highlight=False, emoji=False)
    terminal.print_heading(console, "A dictionary of IDs")
    terminal.print_paragraph(
        console,
        f"{m:,} record numbers of {digits} digits are in the union of the others; all {10**digits:,} are "
        "guessed, in random order. Worth: what as many guesses as were tested find on average.",
    )
    table = terminal.rich_table("Who", "tested", "worth", "found", "wrong", "refused", text=1)
    for who, looked in findings.items():
        knows = "shared" in who or "quota" in who
        worth = f"{looked.expected:,.0f}" if knows else "-"
        tested = f"{looked.tested:,}" if knows else "0"
        table.add_row(who, tested, worth, f"{looked.found:,}", f"{looked.wrong:,}", f"{looked.refused:,}")
    console.print(table)
