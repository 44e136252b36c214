"""`secfc overlap --algorithm federated-lloyd`, `overlap-1`, `overlap-2`: k-means over different columns."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.clustering.execute import bound_from_data, check_bound
from secfc.cli.methods.secfc import SecFCOptions
from secfc.cli.shell.errors import bad_input
from secfc.cli.shell.method import AskedOptions, ChosenAlgorithm, Coalition, LloydSteps, LocalClusters, Method
from secfc.cli.shell.options import CLUSTERS, PRIVACY, Number, Whole, fields_of, option
from secfc.errors import InputError

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.data.federation import Federation


# --------------------------------------------------------------------------------------------------
# Over secure sums.


def settle_local(asked: AskedOptions) -> AskedOptions:
    """A number of local clusters and a way to find it contradict each other."""
    if asked["local"] == "silhouette":
        asked.refuse(["k_local"], "{option} has no meaning for --local silhouette, which finds it.")
    return asked


def local_clusterer(asked: AskedOptions) -> Any:
    """How clients find local clusters."""
    from secfc.overlap.local import LocalKMeans, Silhouette

    return Silhouette() if asked["local"] == "silhouette" else LocalKMeans(asked["k_local"])


def say_who_observes(asked: AskedOptions, plan: Any) -> None:
    """Say who observes what, before anything moves."""
    if not asked.settings.as_json:
        for sentence in plan.columns.sentences():
            print(sentence, file=sys.stderr)


@dataclass(frozen=True)
class FederatedOptions(LocalClusters):
    """What `--algorithm federated-lloyd` takes, and no other."""

    # fmt: off
    floor: int = option(1, Whole(1), metavar="ROWS", group=PRIVACY, help=
        "--disclosure centers: rows beside those of any t sites that sums of any two steps differ by at "
        "least, if by any: fewer are kept back, as sites could tell single ones; other runs still can. 10 is "
        "good where clusters have thousands of rows: with fewer, costs and traffic can grow many times.")
    blind: bool = option(True, None, "--blind/--no-blind", group=PRIVACY, help=
        "--disclosure centers: whether the server adds up under pads of the clients, and sees no center.")
    # fmt: on


def settle_federated(asked: AskedOptions) -> AskedOptions:
    """Raise UsageError for a policy of shares, and for what contradicts."""
    if asked["disclosure"] != "centers":
        asked.refuse(
            ["disclosure"],
            "{option} says what is seen of shares: --algorithm federated-lloyd shows clients centers. Leave "
            "one of them out.",
        )
    return settle_local(asked)


def choose_federated(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Lloyd's heuristic over secure sums; with missing features from matched local clusters."""
    from secfc.federated.algorithm import FederatedLloyd
    from secfc.overlap.starts import matching_start_named

    everywhere = all(len(own) == public.d for own in public.observed or ())
    matched = asked["start"] is not None or not everywhere
    if not matched and (idle := {"k_local", "local"} & set(asked.given)):
        raise InputError(
            f"{asked.given[min(idle)]}: clusters are split over the rows of all clients, where all have all "
            "columns. Leave it out, or add --start automatic"
        )
    if matched and asked["init"]:
        raise InputError("--init says how all rows start, and here local clusters are matched: leave it out")
    algorithm = FederatedLloyd(
        asked.k,
        matching_start_named(asked["start"] or "automatic", local_clusterer(asked))
        if matched
        else first_centers(asked, public),
        n_init=asked["n_init"], max_iter=asked["max_iter"], scale=asked["scale"], t=asked["t"],
        floor=asked["floor"], blind=asked["blind"],
        coarse="warn" if asked["coarse"] == "allow" else asked["coarse"],
    )  # fmt: skip
    remarks: tuple[str, ...] = (
        "all clients see sums and numbers of rows of every cluster in every step"
        + ", of which differences can tell others' single rows: --floor 10 keeps rows back"
        * (asked["floor"] == 1),
    )
    if matched:
        between = asked["start"] == "synchronized-distances"
        shown = "distances between clients' local centroids" if between else "every client's local centroids"
        remarks = (f"the server sees {shown} on shared columns", *remarks)
    return ChosenAlgorithm(algorithm, {"bound_from_data": bound_from_data(asked)}, remarks=remarks)


def first_centers(asked: AskedOptions, public: PublicFacts) -> Any:
    """The start of --init, None for that by splitting."""
    from secfc.kmeans.sampled import Sampled

    word = str(asked["init"] or "splitting")
    if word.startswith("sampled"):
        return Sampled(*map(int, word.split(":")[1:]))
    if not word.endswith(".npz"):
        if word != "splitting":
            raise InputError(
                f"--init {word} is not for --disclosure centers: leave it out, or name splitting"
            )
        return None
    return kept_centers(Path(word), asked, public)


def kept_centers(path: Path, asked: AskedOptions, public: PublicFacts) -> Any:
    """The centers (k, d) of an earlier run, in the order of these columns.  Raises InputError."""
    from secfc.kept_models import KeptModel

    with bad_input(OSError):
        model, word = KeptModel.read(path), str(path)
    if asked.settings.standardize is not None:
        raise InputError(f"{word} has centers of columns as they are: leave --standardize out")
    if model.kept.kind != "centers" or model.kept.facts["scaling"]:
        raise InputError(f"{word} has no centers of columns as they are: name a model that has some")
    named = model.features or ()
    if model.d != public.d or (named and public.features and set(named) != set(public.features)):
        raise InputError(
            f"{word} has {model.d} columns, not those of these rows: {', '.join(named) or 'unnamed'}"
        )
    order = [named.index(name) for name in public.features or ()] if named else []
    return model.kept.arrays["centers"][:, order or list(range(public.d))]


def inspect_federated(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """Say who observes what.  Raises InputError for values outside a given bound."""
    say_who_observes(asked, plan)
    check_bound(asked, federation, plan)


FEDERATED = Method(
    "federated-lloyd",
    "shows all clients centers, and its traffic grows with no row (--disclosure centers)",
    [
        *fields_of(FederatedOptions),
        *fields_of(Coalition),
        *fields_of(LloydSteps, "init n_init max_iter scale bound coarse"),
        *fields_of(SecFCOptions, "disclosure"),
    ],
    choose_federated,
    settle=settle_federated,
    inspect=inspect_federated,
)


# --------------------------------------------------------------------------------------------------
# The published Algorithm 1: the server sees centroids.


@dataclass(frozen=True)
class Overlap1Options(LocalClusters):
    """What overlap-1 takes."""

    # fmt: off
    rounds: int = option(3, Whole(1), group=CLUSTERS, help=
        "overlap-1: rounds in which clients improve global centroids.")
    alpha: float = option(0.8, Number(0, 1, min_open=True), group=CLUSTERS, help=
        "overlap-1: how far global centroids step towards new ones.")
    # fmt: on


def settle_first(asked: AskedOptions) -> AskedOptions:
    """Raise UsageError for what hides centroids that are shown anyhow."""
    if asked["start"] == "synchronized-distances":
        asked.refuse(
            ["start"],
            "{option} synchronized-distances has no use in overlap-1, which shows the server centroids.",
        )
    return settle_local(asked)


def choose_first(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Algorithm 1 of Maritan and Schenato."""
    from secfc.overlap.overlap1 import Overlap1
    from secfc.overlap.starts import matching_start_named

    start = matching_start_named(asked["start"] or "paper", local_clusterer(asked))
    algorithm = Overlap1(asked.k, start=start, rounds=asked["rounds"], alpha=asked["alpha"])
    remarks = ("the server sees every client's centroids on shared columns, in every round",)
    return ChosenAlgorithm(algorithm, remarks=remarks)


def inspect(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """Say who observes what, before anything moves."""
    say_who_observes(asked, plan)


OVERLAP_1 = Method(
    "overlap-1",
    "is a published algorithm for different columns, with centroids in the clear",
    fields_of(Overlap1Options),
    choose_first,
    settle=settle_first,
    inspect=inspect,
    chooses=False,
    needs="estimators",
)


# --------------------------------------------------------------------------------------------------
# The published Algorithm 2, in one shot.


@dataclass(frozen=True)
class Overlap2Options:
    """What overlap-2 takes, and no other."""

    # fmt: off
    proxies: str = option("moments", ["moments", "gaussian", "diagonal"], group=CLUSTERS, help=
        "overlap-2: what clients tell of local clusters beside means. moments: variances, from which forces "
        "follow; gaussian, diagonal: covariances or variances, by which the server draws points.")
    exponent: float = option(2.0, Number(1, min_open=True), group=CLUSTERS, help=
        "overlap-2: how fast attraction falls with distance.")
    # fmt: on


def settle_second(asked: AskedOptions) -> AskedOptions:
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


def choose_second(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
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


OVERLAP_2 = Method(
    "overlap-2",
    "is another, in one shot",
    [*fields_of(LocalClusters, "local k_local"), *fields_of(Overlap2Options)],
    choose_second,
    settle=settle_second,
    inspect=inspect,
    needs="estimators",
)

METHODS = (FEDERATED, OVERLAP_1, OVERLAP_2)
