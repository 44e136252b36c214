"""`--algorithm secfc`: exact k-means on shares, under every policy of what the server sees."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from field.ring.errors import InvalidValue
from secfc.cli.clustering.execute import (
    bound_from_data,
    check_bound,
    check_owners,
    joined_columns,
    lloyd_steps,
    private_rows,
)
from secfc.cli.shell.method import (
    AskedOptions,
    ChosenAlgorithm,
    Coalition,
    LloydSteps,
    Method,
    NoiseOptions,
    refuse_idle_privacy,
)
from secfc.cli.shell.options import CLUSTERS, PRIVACY, RUN, Number, Whole, Workers, fields_of, option

if TYPE_CHECKING:
    from secfc.algorithm import PublicFacts
    from secfc.coded.membership import Membership
    from secfc.coded.parameters import Runtime
    from secfc.coded_kmeans.secfc import SecFC
    from secfc.data.federation import Federation
    from secfc.disclosure import Disclosure


POLICIES = ("assignments", "own-labels", "final-labels", "distances", "noisy-sums", "centers")

# What --preset stands for.
PRESETS: dict[str, tuple[str, ...]] = {
    "default": (),
    "fast": ("--centers", "rounded"),
    "paper": (
        "--disclosure",
        "distances",
        "--field",
        "mersenne61",
        "--rounding",
        "floor",
        "--init",
        "random",
    ),
    "no-dealer": ("--dealer", "none"),
    "own-labels": ("--disclosure", "own-labels"),
    "centers": ("--disclosure", "centers"),
    "private": ("--membership", "private", "--disclosure", "own-labels"),
}


@dataclass(frozen=True)
class Presets:
    """Several options of `--algorithm secfc` in a word; commands take it, and run files its options."""

    preset: str | None = option(None, list(PRESETS), group=PRIVACY, common=True, presets=PRESETS, help=
        "Options in a word; those that are given besides win. " + ". ".join(
            f"{word}: {' '.join(flags) or 'none'}" for word, flags in PRESETS.items()) + ".")  # fmt: skip


# --- options -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SecFCOptions(Coalition, LloydSteps, NoiseOptions):
    """What `--algorithm secfc` takes."""

    # fmt: off
    ell: int | None = option(None, Whole(1), group=PRIVACY, help=
        "Segments a point is cut into: more mean less work and traffic, and no more privacy: t + 1 clients "
        "can read small values whatever it is, and n >= 2 (ell + t - 1) + 1 leaves room for a smaller t. "
        "Default: 1.")
    workers: Any = option(None, Workers(), metavar="W|NAME,...", group=PRIVACY, help=
        "Who holds shares and computes: so many clients, spread over all, or these. All others deal theirs "
        "once, and hear the labels of their own points. At least 2 (ell + t - 1) + 1, and one more for each "
        "that may be lost; t counts colluding workers. Default: all clients.")
    membership: str = option("open", ["open", "private"], group=PRIVACY, common=True, help=
        "Whether to hide which client holds which point, and how many. private: by a private set union of "
        "the IDs (--id-column, or else the rows themselves); it needs t of at least 1.")
    merge: bool = option(True, None, "--merge/--no-merge", group=PRIVACY, help=
        "private: count a point that several clients hold once. Without it no two may hold the same ID.")
    counts: str = option("opened", ["hidden", "opened"], group=PRIVACY, help=
        "private: whether all learn how many clients hold each point. hidden: a client that claims points of "
        "others ends the run; two that deviate together may read others' data from the labels.")
    on_conflict: str = option("fail", ["fail", "separate", "mean"], group=PRIVACY, help=
        "private: of an ID whose holders have different data. fail: end the run, and tell each site which of "
        "its IDs. separate: each version is a point of its own. mean: the mean of all holders "
        "(counts opened).")
    verify_union: bool = option(False, group=PRIVACY, help=
        "private: clients of the committee compute again what the server announces of the union, how many "
        "hold each point and which are in dispute, and name a server that says something else.")
    quota: int | None = option(None, Whole(1, 1 << 24), metavar="IDS", group=PRIVACY, help=
        "private: let the server and t+1 clients compute pseudonyms of IDs together, for at most so many IDs "
        "of each client, so that nobody tests guesses of IDs at will. A public number that does not follow "
        "from anybody's; every client computes for all of it, about a second for 2,000.")
    keep: str = option("intersection", ["intersection", "union"], group=PRIVACY, help=
        "--split columns: cluster people whom all owners have, or any does. union: what an owner lacks of a "
        "person counts as its mean; needs --standardize, and --disclosure assignments or final-labels.")
    max_explained: float | None = option(None, Number(0.001, 0.999), group=PRIVACY, help=
        "--split columns: tell nobody labels that explain more than this part of the variance of any column. "
        "0.9 stops columns of noise that read another, three honest runs in ten, and no columns that are "
        "aimed.")
    disclosure: str = option("assignments", POLICIES, group=PRIVACY, common=True, help=
        "What the server learns in every iteration. assignments: the labels and nothing else, which clients "
        "find together. own-labels: the sizes of the clusters; at the end each client learns the labels of "
        "its own points, nobody those of others. final-labels: nothing until the last, whose labels it "
        "learns. distances: the distance of every point to every center as well, as in the paper, which over "
        "iterations fixes the shape of the data; --corrected, --field mersenne61 need it. noisy-sums: sums "
        "of clusters under the noise of --epsilon, after each of --max-iter steps (default: 4); for people "
        "whose rows lie at several clients. centers: nothing, "
        "but all clients learn the centers of every step (the same as --algorithm federated-lloyd).")
    dealer: str | None = option(metavar="NAME", group=PRIVACY, help=
        "All but distances: the client that deals the masks under which others compare. Default: the server, "
        "which must not collude with a comparing client; for final-labels none. With t=1 a dealing client "
        "withstands that too. none: nobody deals, and the server may collude with any t clients, at several "
        "times the cost.")
    sizes: str = option("open", ["open", "hidden"], group=PRIVACY, help=
        "own-labels: whether everybody learns the sizes of the clusters after each step. hidden: nobody "
        "does; needs one start, and opens no centers.")
    consent: bool = option(False, group=PRIVACY, help=
        "All but distances: let k-means++ open distances to the points that it chooses.")
    latency: float = option(20.0, Number(0), metavar="MS", group=RUN, help=
        "All but distances: milliseconds until a message is there. With --bandwidth it decides whether many "
        "centers meet all at once, or in groups: more rounds, fewer bytes, the same labels.")
    bandwidth: float = option(100.0, Number(0, min_open=True), metavar="MBIT/S", group=RUN, help=
        "Megabits a second between the parties, see --latency.")
    threads: int = option(1, Whole(1), group=RUN, help="Processor threads; they change no result.")
    scratch: str | None = option(None, click.Path(exists=True, file_okay=False), metavar="DIR", group=RUN,
        help="Hold shares in nameless files of this folder, not in memory: for more points than that holds.")
    corrected: int = option(0, Whole(0), metavar="A", group=PRIVACY, help=
        "Clients that may deviate, whose replies are corrected: the run goes on with right labels; whose "
        "replies are read and false is named and left out. "
        "Each needs two more clients, n >= 2 (ell + t - 1) + 1 + 2 A. Needs --disclosure distances.")
    deviating: int | None = option(None, Whole(0), metavar="A", group=PRIVACY, help=
        "Clients that may deviate while a committee compares: A + 1 of them play each part, and false words "
        "end the run before a label. From 0 to t, by default 1 where clients are enough; with 0 one that "
        "deviates can read the others' rows. Without a dealer for --disclosure assignments alone, 1 at most, "
        "of 2 t + 2 clients.")
    centers: str = option("exact", ["exact", "rounded"], group=CLUSTERS, help=
        "What distances are measured to. rounded: means on a grid of 1/16 step, of narrower numbers: about "
        "half the time and traffic where points are many; labels are those of plaintext k-means that rounds "
        "alike, which may end elsewhere than with exact centers. For --disclosure assignments.")
    reveal_centers: bool = option(False, group=PRIVACY, help=
        "Open the final centers to the server and all clients.")
    smallest_center: int = option(3, Whole(1), group=PRIVACY, help=
        "With --reveal-centers: centers of clusters of fewer points stay closed.")
    linkage: str | None = option(None, ["ward", "single", "average", "complete"], group=CLUSTERS, help=
        "Join the k clusters to a tree, by what merging each two would cost, which is opened to the server: "
        "how far centers are apart. For clusters that are no balls take a large k and single. For "
        "--disclosure assignments, own-labels and distances; --plot draws the tree.")
    cut: int | None = option(None, Whole(1), metavar="GROUPS", group=CLUSTERS, help=
        "With --linkage: write labels of so many groups of clusters, not of clusters.")
    verify: bool = option(True, None, "--verify/--no-verify", group=RUN, help=
        "Compare with plaintext k-means at every iteration; of dbscan with scikit-learn, if it is installed.")
    verify_reference: bool = option(False, group=RUN, help=
        "Compare the final labels with a second implementation too, which is slow and in galois over "
        "GF(2**61 - 1): for small data, and exact centers.")
    attack: bool = option(True, None, "--attack/--no-attack", group=RUN, help=
        "Say what a curious server could rebuild of the points, by trying it.")
    # fmt: on


def settle(asked: AskedOptions) -> AskedOptions:
    """Refuse options that contradict one another, and fill in what a budget implies.  Raises UsageError."""
    if asked.settings.split == "columns" and "disclosure" not in asked.given:
        asked = asked.with_values(disclosure="own-labels")
    refuse_idle_privacy(asked)
    if asked["disclosure"] == "centers":
        raise click.UsageError(
            "--disclosure centers is --algorithm federated-lloyd, where nothing is computed on shares: use "
            "that."
        )
    if asked["disclosure"] == "noisy-sums" and not asked.noisy:
        raise click.UsageError("--disclosure noisy-sums needs --epsilon and --radius, which say how noisy.")
    if asked.noisy and asked["radius"] is None:
        raise click.UsageError(
            "--epsilon needs --radius: noise covers points up to that distance from the origin, and longer "
            "ones are shortened. Give a number that you know without looking at the data."
        )
    if asked.noisy:
        asked.refuse(
            ("verify", "verify_reference"),
            "{option} has no meaning with --epsilon: noisy labels are not exact.",
        )
    if asked["centers"] == "rounded":
        asked.refuse(
            ("verify_reference",), "{option} knows exact centers alone: leave out --centers rounded."
        )
    if not asked["reveal_centers"]:
        asked.refuse(
            ("smallest_center",),
            "{option} says whose centers may be opened: add --reveal-centers, or leave it out.",
        )
    _refuse_idle_rows(asked)
    if not asked.noisy:
        _refuse_idle(asked)
        refuse_clashes(asked)
        return asked
    return _settle_noise(asked)


def _settle_noise(asked: AskedOptions) -> AskedOptions:
    """Refuse what has no meaning under a budget, and fill in what it implies.  Raises UsageError."""
    sums = asked["disclosure"] == "noisy-sums"
    asked.refuse(
        ("consent", "sizes", "centers", *(() if sums else ("dealer", "latency", "bandwidth"))),
        "{option} has no meaning with --epsilon: leave one of them out.",
    )
    if "disclosure" in asked.given and asked["disclosure"] != "distances" and not sums:
        raise click.UsageError(
            "--epsilon adds noise to distances that the server sees: leave it out, or leave out "
            f"--disclosure {asked['disclosure']}."
        )
    if "max_iter" not in asked.given:
        # Every iteration costs budget, also one that was not needed.
        asked = asked.with_values(max_iter=4 if sums else 5)
    if asked.settings.files and asked["bound"] is None:
        asked = asked.with_values(bound=asked["radius"])  # no shortened point exceeds it
    if sums:
        refuse_clashes(asked)
    return asked


def _refuse_idle_rows(asked: AskedOptions) -> None:
    """Raise UsageError for what is about rows or clusters that are not as it was asked for."""
    if asked["linkage"] is None:
        asked.refuse(("cut",), "{option} says where to cut a tree of clusters: add --linkage single.")
    elif isinstance(asked.k, int) and (asked["cut"] or 1) > asked.k:
        raise click.UsageError(f"--cut {asked['cut']} of k={asked.k} clusters: lower --cut, or raise -k.")
    if asked.settings.split == "columns":
        asked.refuse(
            ("merge", "counts", "on_conflict"),
            "{option} is about IDs that several clients hold, and with --split columns all do: leave it out.",
        )
        if asked["t"] == 0:
            from secfc.errors import IncompatibleOptions

            raise IncompatibleOptions(
                {"split": "columns", "t": 0},
                "with t=0 every client would see IDs and columns of others",
                [("t", ..., "raise it to 1")],
            )
        return
    asked.refuse(
        ("max_explained", "keep"),
        "{option} is about columns that lie at several clients: add --split columns, or leave it out.",
    )
    if asked["membership"] == "open":
        asked.refuse(
            ("merge", "counts", "on_conflict", "verify_union", "quota"),
            "{option} has no meaning for --membership open, which has every row count by itself: add "
            "--membership private, or leave it out.",
        )
    elif asked["t"] == 0:
        raise click.UsageError(
            "--membership private needs t of at least 1: with t=0 every client sees whose the others' "
            "points are. Raise -t, or use --membership open."
        )


def _refuse_idle(asked: AskedOptions) -> None:
    """Raise UsageError for what is about another policy than was asked for."""
    if asked["disclosure"] == "distances":
        asked.refuse(
            ("dealer", "consent", "sizes", "latency", "bandwidth", "centers"),
            "{option} has no meaning for --disclosure distances: leave it out, or add --disclosure "
            "assignments.",
        )
        return
    if asked["disclosure"] != "own-labels":
        asked.refuse(
            ("sizes",),
            "{option} has no meaning for --disclosure "
            + f"{asked['disclosure']}: leave it out, or add --disclosure own-labels.",
        )


def refuse_clashes(asked: AskedOptions) -> None:
    """Raise IncompatibleOptions for what goes together on no data: the library's rules, on made-up facts.

    Whoever reads many rows hears so before they are read; what depends on the data is refused later.
    """
    from secfc.algorithm import PublicFacts
    from secfc.errors import Caution, IncompatibleOptions

    workers = asked["workers"]
    named = [*(workers if isinstance(workers, tuple) else ()), *filter(None, [asked["dealer"]])]
    least = 2 * ((asked["ell"] or 1) + (asked["t"] or 1) + asked["corrected"]) + 1
    n = max(7, least, len(named), workers if isinstance(workers, int) else 0)
    clients = tuple(dict.fromkeys([*named, *(f"client-{j}" for j in range(n))]))[:n]
    rows = max(100, asked.k if isinstance(asked.k, int) else 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)
        try:
            public = PublicFacts(clients, (rows,) * n, 2, 1.0)
            if asked.settings.split == "columns":
                public = replace(public, d=n, observed=tuple((j,) for j in range(n)))
            # How many points the largest cluster has, and which steps fit, is a matter of the data.
            choose(asked.with_values(largest=None, scale=None), public).algorithm.plan(public)
        except IncompatibleOptions:
            raise
        except (InvalidValue, OverflowError):
            pass  # which these facts may be to blame for


# --- the algorithm -------------------------------------------------------------------------------


def choose(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """SecFC with as many colluding clients as fit, if nobody said how many.

    Raises InputError if the clients are too few to hide anything.
    """
    from secfc.coded.membership import Open
    from secfc.coded.parameters import Release, Threshold
    from secfc.coded_kmeans.parameters import committee_cautions
    from secfc.coded_kmeans.secfc import SecFC
    from secfc.roles.exchange import SERVER
    from secfc.tiny_runs import plaintext_twin

    # Final labels are those that nobody deals for unless it is said who does.
    dealer = asked["dealer"] or ("none" if asked["disclosure"] == "final-labels" else SERVER)
    if asked.settings.split == "columns":
        check_owners(public.clients)
    t, ell, notes = choose_threshold(asked, public, dealer)
    membership: Membership = Open()
    if asked.settings.split == "columns":
        membership, about = joined_columns(asked, t, public)
        notes += about
    elif asked["membership"] == "private":
        membership, about = private_rows(asked, t)
        notes += about
    values = lloyd_steps(asked) | {"disclosure": choose_policy(asked, None if dealer == "none" else dealer)}
    if not asked.noisy and asked["disclosure"] == "distances":
        notes += (
            "the server sees the distance of every point to every center, and over iterations these fix the "
            "shape of the data; --disclosure assignments shows it labels only",
        )
    algorithm = SecFC(
        asked.k, Threshold(t, ell, asked["corrected"], asked["deviating"]), membership=membership,
        runtime=runtime_from_options(asked),
        release=Release(
            asked["reveal_centers"], asked["smallest_center"], dendrogram=asked["linkage"] is not None
        ),
        **values,
    )  # fmt: skip
    notes += committee_cautions(algorithm, public.clients, t)
    verified = asked["verify"] and algorithm.disclosure.capabilities.exact
    return ChosenAlgorithm(
        algorithm, {"bound_from_data": bound_from_data(asked)}, notes, derived_remark(asked, public),
        twin=plaintext_twin(algorithm) if verified else None,
        policy=algorithm.disclosure if asked["attack"] and asked.settings.split == "people" else None,
    )  # fmt: skip


def runtime_from_options(asked: AskedOptions) -> Runtime:
    """Who computes, and with what."""
    from secfc.coded.parameters import Network, Runtime

    between = Network(asked["latency"] / 1e3, asked["bandwidth"] * 1e6 / 8)
    return Runtime(asked["threads"], between, asked["workers"], asked["scratch"])


def derived_remark(asked: AskedOptions, public: PublicFacts) -> tuple[str, ...]:
    """What a bound that was read off the data makes public; nothing of one that was given."""
    derived = (
        f"the bound {public.bound:g} was read off the data and counts as public; --bound sets one without "
        "looking at the data"
    )
    return (derived,) if bound_from_data(asked) else ()


def choose_threshold(
    asked: AskedOptions, public: PublicFacts, dealer: str
) -> tuple[int, int, tuple[str, ...]]:
    """How many may collude, segments, and notes.  dealer: "none" if nobody deals.  Raises InputError."""
    from field.compare.replicated import MAX_T
    from secfc.coded.parameters import check_enough_workers, select_workers
    from secfc.coded_kmeans.parameters import choose_code

    dealerless = asked["disclosure"] != "distances" and dealer == "none"
    ell = 1 if dealerless and asked["ell"] is None else asked["ell"]
    computing = len(select_workers(asked["workers"], public.clients))
    withstood = 1 if asked["t"] is None else asked["t"]
    check_enough_workers(asked["workers"], computing, ell or 1, withstood, asked["corrected"])
    return choose_code(
        computing, asked["t"], ell, corrected=asked["corrected"], most=MAX_T if dealerless else None
    )


def choose_policy(asked: AskedOptions, dealer: str | None) -> Disclosure:
    """What the server sees."""
    from secfc.disclosure import AssignmentsOnly, Distances, FinalLabelsOnly, OwnLabels

    if asked.noisy:
        return noise_policy(asked, dealer)
    if asked["disclosure"] == "assignments":
        return AssignmentsOnly(dealer, asked["consent"])
    if asked["disclosure"] == "own-labels":
        return OwnLabels(dealer, asked["consent"], asked["sizes"])
    if asked["disclosure"] == "final-labels":
        return FinalLabelsOnly(asked["consent"], dealer=dealer)
    return Distances()


def noise_policy(asked: AskedOptions, dealer: str | None) -> Disclosure:
    """The policy that spends the budget."""
    from secfc.disclosure import NoiseInShares, NoisySums
    from secfc.privacy import Bound, Budget, Neighbors

    budget, radius = Budget(asked["epsilon"], asked["delta"]), Bound.given(asked["radius"])
    neighbors = Neighbors.of_word("replace", asked["protect"])
    if asked["noise"] == "server":
        raise click.UsageError(
            "--noise server with --algorithm secfc: the server would decode exact distances for labels that "
            "are no better. Leave it out: clients deal the noise; or use FedDP-KMeans (`secfc dp`)"
        )
    if asked["disclosure"] != "noisy-sums":
        return NoiseInShares(budget, radius, neighbors)
    return NoisySums(budget, radius, asked["max_iter"], dealer, neighbors)


def foresee(algorithm: SecFC, public: PublicFacts) -> Any:
    """The plan of a run, as far as it is known before the parties talk.

    With private membership the number of points is the outcome of a union; what is refused here would be
    refused for any outcome.

    Raises ValueError.
    """
    from secfc.coded.membership import Open
    from secfc.coded.plan import PublicOwnerLayout
    from secfc.kmeans.elbow import Elbow, largest_k

    if isinstance(algorithm.membership, Open):
        return algorithm.plan(public)
    k = algorithm.k.among(public.m) if isinstance(algorithm.k, Elbow) else algorithm.k
    if largest_k(k) > public.m:
        raise InvalidValue(f"k={k} clusters of m={public.m} points: lower k or add points")
    smallest = replace(public, counts=(1,) * len(public.clients))
    alone = replace(algorithm, k=1, membership=Open())
    if algorithm.disclosure.capabilities.sums:  # of whole rows they would be refused
        plan: Any = alone.complete(smallest, PublicOwnerLayout(smallest.counts))
    else:
        plan = alone.plan(smallest)
    algorithm.plan(public)  # the union's own parameters
    return plan


def inspect(asked: AskedOptions, federation: Federation, plan: Any) -> None:
    """Raise InputError for values outside a given bound, and IDs that must be disjoint and are not."""
    check_bound(asked, federation, plan)
    if asked["membership"] == "private" and not asked["merge"]:
        from secfc.coded.membership import check_disjoint

        check_disjoint(federation)


METHOD = Method(
    "secfc",
    "is private and exact",
    fields_of(SecFCOptions),
    choose,
    settle=settle,
    inspect=inspect,
    foresee=foresee,
)
METHODS = (METHOD,)


def choose_profile(asked: AskedOptions, public: PublicFacts) -> ChosenAlgorithm:
    """Means of given clusters over all sites, of columns of which the last holds labels."""
    from secfc.scaling.shared_profile import SharedProfile

    more = {} if asked.get("t") is None else {"t": asked["t"]}
    return ChosenAlgorithm(
        SharedProfile(asked.k, asked["smallest_center"], asked["reveal_centers"], **more),
        parameters={"bound_from_data": bound_from_data(asked)},
    )


def settle_profile(asked: AskedOptions) -> AskedOptions:
    """Ten rows of a cluster, if nobody said how many."""
    return asked if "smallest_center" in asked.given else asked.with_values(smallest_center=10)


# Between organizations alone: in one process whoever has all rows needs no protocol for it.
PROFILE = Method(
    "profile",
    "tells sites what clusters are over all of them",
    fields_of(SecFCOptions, "t bound reveal_centers smallest_center"),
    choose_profile,
    settle=settle_profile,
    chooses=False,
)
