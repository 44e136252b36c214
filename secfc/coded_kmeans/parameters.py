"""What does not go together in a run of SecFC: refused before any data is touched, with the remedy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from secfc.coded.membership import Membership, Open, Private
from secfc.coded.parameters import (
    Quantization,
    Release,
    Runtime,
    Threshold,
    check_enough_workers,
    select_workers,
)
from secfc.data.inputs import WHOLE, InputError, instance_of
from secfc.disclosure import AssignmentsOnly, Disclosure, Distances, FinalLabelsOnly, OwnLabels
from secfc.kmeans.elbow import Elbow
from secfc.kmeans.starts import STARTS, GivenLabels, Start, check_choice
from secfc.roles.exchange import PartyId


class ParameterSet(Protocol):
    """What an algorithm says about what it combines."""

    @property
    def k(self) -> int | Elbow: ...
    @property
    def threshold(self) -> Threshold: ...
    @property
    def init(self) -> Start: ...
    @property
    def quantization(self) -> Quantization: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def disclosure(self) -> Any: ...
    @property
    def runtime(self) -> Runtime: ...


def check_max_cheaters(way: ParameterSet) -> None:
    """Raises ValueError where cheating clients could not be found."""
    cheaters = way.threshold.max_cheaters
    if cheaters and not isinstance(way.membership, Open):
        raise ValueError(
            f"max_cheaters={cheaters} with {type(way.membership).__name__} membership: the shares of all "
            "clients are mixed in every row, so a false dealing cannot be traced. Use membership=Open(), "
            "or max_cheaters=0"
        )
    if cheaters and not way.disclosure.capabilities.finds_liars:
        raise ValueError(
            f"max_cheaters={cheaters} with {type(way.disclosure).__name__}: this policy does not check what "
            "clients send. Use disclosure=Distances(), or max_cheaters=0"
        )


def check_workers(way: ParameterSet, clients: tuple[PartyId, ...]) -> None:
    """Raises InputError for workers that are too few, or that this run cannot leave alone."""
    workers, threshold = way.runtime.workers, way.threshold
    if workers is None:
        return
    computing = len(select_workers(workers, clients))
    check_enough_workers(workers, computing, threshold.ell, threshold.t or 0, threshold.max_cheaters)
    if not isinstance(way.membership, Open):
        raise InputError(
            f"workers with {type(way.membership).__name__} membership: a union of IDs is found by all "
            "clients together. Use membership=Open(), or leave workers out"
        )
    if threshold.max_cheaters:
        raise InputError(
            f"workers with max_cheaters={threshold.max_cheaters}: false dealings are traced among all "
            "clients. Leave one of them out"
        )
    if way.disclosure.capabilities.exposes in ("sizes", "steps"):
        raise InputError(
            f"workers with {type(way.disclosure).__name__}: owners hear labels from all who compute, and "
            "compute themselves. Use disclosure=AssignmentsOnly() or FinalLabelsOnly(), or leave workers "
            "out"
        )


def check_start_for_k(way: ParameterSet) -> None:
    """Raises ValueError where k cannot be chosen, or labels not be given, whatever the points."""
    policy = way.disclosure
    if isinstance(way.init, GivenLabels) and not isinstance(way.membership, Open):
        raise ValueError(
            "init=GivenLabels(...) with private membership: the rows of a union come in an order that nobody "
            "knows before the run, so labels would go to other points than they were given for. Use "
            "init=RandomLabels(), or membership=Open()"
        )
    if way.init.grows and policy.capabilities.exposes != "sizes":
        other = "RandomLabels()" if policy.capabilities.exposes in ("steps", "nothing") else "Bisecting()"
        raise ValueError(
            f"init={type(way.init).__name__}() with {type(policy).__name__}: this start is for labels "
            f"that stay secret, by sizes that are opened. Use init={other}, or disclosure=OwnLabels()"
        )
    costly = policy.capabilities.exposes in ("steps", "nothing") or not policy.capabilities.exact
    if isinstance(way.k, Elbow) and costly:
        raise ValueError(
            f"k={way.k} with {type(policy).__name__}: k is chosen by exact costs of clusters, which "
            "this policy opens to nobody. Give k as a number, or use disclosure=AssignmentsOnly()"
        )
    check_choice(way.init, way.k)


def check_rounded_centers(way: ParameterSet) -> None:
    """Raises InputError where centers cannot be rounded, or need not be."""
    if way.quantization.centers == "exact" or way.disclosure.capabilities.rounds:
        return
    policy = way.disclosure
    name = type(policy).__name__
    if policy.capabilities.exposes == "distances":
        raise InputError(
            f'centers="rounded" with {name}: the server decodes distances to exact centers, and nothing is '
            'compared that rounding makes narrower. Use centers="exact"'
        )
    given = {"sizes": "dealer=None", "labels": "dealer=None", "steps": 'sizes="hidden"'}
    shown = given.get(policy.capabilities.exposes, "") if name != "FinalLabelsOnly" else ""
    raise InputError(
        f'centers="rounded" with {name}({shown}): centers are rounded by sizes that all hear, and by tables '
        'that somebody deals. Use disclosure=AssignmentsOnly(), or centers="exact"'
    )


# --------------------------------------------------------------------------------------------------
# What a choice of ell gives away, in a sentence: the same for Python, the shell and reports.
#
# Any t clients hold uniform shares whatever ell is.  But t + 1 shares and the ell segments of a point satisfy
# one linear relation, and evaluation points 1, 2, 3, ... make its coefficients small integers: values with
# few steps, such as counts, codes and flags, are often its only solution.  (Random points would be worse:
# data of any kind would be a short vector of a lattice of dimension two.)  So from t + 1 clients on nothing
# is promised, and ell buys speed with the clients that a larger t would have withstood.


def segment_cautions(t: int, ell: int) -> tuple[str, ...]:
    """What somebody who cuts points into ell segments should know; nothing if they stay whole."""
    if ell == 1 or t == 0:
        return ()
    few = "one client learns" if t == 1 else f"{t} clients together learn"
    return (
        f"ell={ell} buys speed and no privacy: {few} nothing from shares, but t+1={t + 1} can read small or "
        f"categorical values, not only ell+t={ell + t}. ell=1 with t={t + ell - 1} needs as many replies and "
        f"withstands {t + ell - 1} clients",
    )


# --------------------------------------------------------------------------------------------------
# How many colluding clients a run should withstand, where its caller leaves that open.


def largest_threshold(n: int, ell: int, max_cheaters: int = 0) -> int:
    """The largest t for which n >= 2 (ell + t - 1) + 1 + 2 max_cheaters; below 1 if none hides anything."""
    return (n - 1) // 2 - ell + 1 - max_cheaters


def threshold_limit(n: int, ell: int, max_cheaters: int, *, most: int | None) -> tuple[int, str]:
    """The most collusion that n clients tolerate, up to a third of them, and what limits it, in words.

    most: of comparisons without a dealer.
    The same rule for Python and the shell.  `largest_threshold` is at least 1.
    """
    t, limit = min(largest_threshold(n, ell, max_cheaters), -(-n // 3)), "a third of them"
    if most is not None and t > most:
        t, limit = most, "what comparisons without a dealer allow"
    return t, limit


def default_threshold(n: int, ell: int, max_cheaters: int, *, policy: Disclosure) -> int:
    """t for n clients, as the shell chooses it.

    policy: what the server may see, of which some withstand fewer.

    Raises InputError where no t of at least 1 fits.
    """
    from field.compare.replicated import MAX_T

    if largest_threshold(n, ell, max_cheaters) < 1:
        needed = 2 * (ell + max_cheaters) + 1
        raise InputError(
            f"n={n} client{'s' * (n != 1)} with ell={ell}, max_cheaters={max_cheaters} cannot hide points "
            f"from t=1 of them: {needed} are needed. Add clients, lower ell or max_cheaters, or say t=0, "
            "which hides nothing"
        )
    undealt = policy.capabilities.compares and policy.capabilities.dealer is None
    return threshold_limit(n, ell, max_cheaters, most=MAX_T if undealt else None)[0]


# --------------------------------------------------------------------------------------------------
# Of what kinds the parameters of SecFC and of its plaintext twin are.

OF_LLOYD = {
    "n_init": WHOLE,
    "max_iter": WHOLE,
    "quantization": instance_of(Quantization, "Quantization(scale=1000.0)"),
}
OF_SECFC = {
    "runtime": instance_of(Runtime, "Runtime(threads=2)"),
    "release": instance_of(Release, "Release(reveal_centers=True)"),
}

# --------------------------------------------------------------------------------------------------
# Words for values: what a caller may write, in Python and in the shell, where a policy, a start or a
# membership is due.
#
# One table for both, so that a word means the same everywhere.  A word stands for the value with its
# defaults; whoever wants other ones builds the value.

DISCLOSURES: Mapping[str, Disclosure] = {
    "assignments": AssignmentsOnly(),
    "own-labels": OwnLabels(),
    "final-labels": FinalLabelsOnly(),
    "distances": Distances(),
}
MEMBERSHIPS: Mapping[str, Membership] = {"open": Open(), "private": Private()}


def parse_start(value: Any) -> Start:
    """The start that a word stands for, or the given one.  Raises InputError."""
    return _meant("init", value, STARTS, "draw")  # type: ignore[no-any-return]


def default_start(value: Any, policy: Disclosure) -> Start:
    """The same, and for None the best start that a policy allows."""
    return policy.start if value is None else parse_start(value)


def parse_disclosure(value: Any) -> Disclosure:
    """The policy that a word stands for, or the given one.  Raises InputError."""
    return _meant("disclosure", value, DISCLOSURES, "open_centers")  # type: ignore[no-any-return]


def parse_membership(value: Any) -> Membership:
    """The membership that a word stands for, or the given one.  Raises InputError."""
    return _meant("membership", value, MEMBERSHIPS, "draft")  # type: ignore[no-any-return]


def word_for(value: Any, table: Mapping[str, Any]) -> str:
    """The word for a value in a table, else for its kind, whatever parameters it has; else its class."""
    equal = (word for word, item in table.items() if item == value)
    alike = (word for word, item in table.items() if type(item) is type(value))
    return next(equal, None) or next(alike, type(value).__name__)


def _meant(name: str, value: Any, table: Mapping[str, Any], method: str) -> Any:
    """The value of a word in the table; anything else must offer the method that such values have."""
    if isinstance(value, str):
        word = value.strip().lower().replace("_", "-").replace(" ", "-")
        if word in table:
            return table[word]
    elif isinstance(value, type) and hasattr(value, method):
        raise InputError(f"{name}={value.__name__} is a class: build the value, {value.__name__}(...)")
    elif hasattr(value, method):
        return value
    words = ", ".join(repr(word) for word in table)
    values = ", ".join(f"{type(item).__name__}()" for item in table.values())
    raise InputError(f"{name}={value!r} is none: use one of the words {words}, or a value such as {values}")
