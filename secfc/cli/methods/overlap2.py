"""`--algorithm overlap-2`: the published Algorithm 2 for different columns, in one shot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.method import AskedOptions, ChosenAlgorithm, LocalClusters, Method
from secfc.cli.methods.overlap import say_who_observes
from secfc.cli.methods.overlap import settle as settle_local
from secfc.cli.options import OTHERS, Number, fields_of, option

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.federation import Federation


@dataclass(frozen=True)
class Overlap2Options:
    """What `--algorithm overlap-2` takes, and no other."""

    # fmt: off
    proxies: str = option("moments", ["moments", "gaussian", "diagonal"], group=OTHERS, help=
        "overlap-2: what clients tell of local clusters beside means. moments: variances, from which forces "
        "follow; gaussian, diagonal: covariances or variances, by which the server draws points.")
    exponent: float = option(2.0, Number(1, min_open=True), group=OTHERS, help=
        "overlap-2: how fast attraction falls with distance.")
    # fmt: on


def settle(asked: AskedOptions) -> AskedOptions:
    """Raise UsageError for what contradicts: k is chosen by silhouettes, from 2 on, and without costs."""
    settle_local(asked)
    if not isinstance(asked.k, int):
        if asked.k.least > 2:
            raise click.UsageError(f"--algorithm overlap-2 chooses k from 2 on: -k 2..{asked.k.most or ''}")
        if asked.settings.plot is not None:
            raise click.UsageError(
                "--plot draws costs, and overlap-2 chooses k by silhouettes: leave it out."
            )
    return asked


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Algorithm 2 of Maritan and Schenato."""
    from secfc.overlap.local import LocalKMeans, Silhouette
    from secfc.overlap.overlap2 import Overlap2

    chosen = not isinstance(asked.k, int)
    found = Silhouette() if asked["local"] == "silhouette" or (chosen and not asked["k_local"]) else None
    algorithm = Overlap2(
        None if chosen else asked.k,
        proxies=asked["proxies"],
        w=asked["exponent"],
        local=found or LocalKMeans(asked["k_local"]),
        **({"most": asked.k.most} if chosen and asked.k.most else {}),
    )
    told = "covariances" if asked["proxies"] == "gaussian" else "variances"
    remarks = (f"the server sees the means and {told} of every client's local clusters on shared columns",)
    return ChosenAlgorithm(algorithm, remarks=remarks)


def inspect(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """Say who observes what, before anything moves."""
    say_who_observes(asked, plan)


METHOD = Method(
    "overlap-2",
    "is another, in one shot",
    [*fields_of(LocalClusters, "local k_local"), *fields_of(Overlap2Options)],
    choose,
    settle=settle,
    inspect=inspect,
    needs="estimators",
)
