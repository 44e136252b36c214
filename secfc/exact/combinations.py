"""What does not go together in a run of SecFC: refused before any data is touched, with the remedy."""

from __future__ import annotations

from typing import Any, Protocol

from secfc.coded.membership import Membership, Open
from secfc.coded.workers import Workers, check_enough, seated
from secfc.data.inputs import InputError
from secfc.lloyd.elbow import Elbow
from secfc.lloyd.starts import Start, check_choice
from secfc.roles.exchange import PartyId


class Combining(Protocol):
    """What an algorithm says about what it combines."""

    @property
    def k(self) -> int | Elbow: ...
    @property
    def t(self) -> int | None: ...
    @property
    def ell(self) -> int: ...
    @property
    def liars(self) -> int: ...
    @property
    def init(self) -> Start: ...
    @property
    def workers(self) -> Workers: ...
    @property
    def membership(self) -> Membership: ...
    @property
    def disclosure(self) -> Any: ...
    @property
    def centers(self) -> str: ...


def check_liars(way: Combining) -> None:
    """Raises ValueError where lying clients could not be found."""
    if way.liars and not isinstance(way.membership, Open):
        raise ValueError(
            f"liars={way.liars} with {type(way.membership).__name__} membership: the shares of all "
            "clients are mixed in every row, so a false dealing cannot be traced. Use membership=Open(), "
            "or liars=0"
        )
    if way.liars and not getattr(way.disclosure, "finds_liars", False):
        raise ValueError(
            f"liars={way.liars} with {type(way.disclosure).__name__}: this policy does not check what "
            "clients send. Use disclosure=Distances(), or liars=0"
        )


def check_workers(way: Combining, clients: tuple[PartyId, ...]) -> None:
    """Raises InputError for workers that are too few, or that this run cannot leave alone."""
    if way.workers is None:
        return
    check_enough(way.workers, len(seated(way.workers, clients)), way.ell, way.t or 0, way.liars)
    if not isinstance(way.membership, Open):
        raise InputError(
            f"workers with {type(way.membership).__name__} membership: a union of IDs is found by all "
            "clients together. Use membership=Open(), or leave workers out"
        )
    if way.liars:
        raise InputError(
            f"workers with liars={way.liars}: false dealings are traced among all clients. Leave one of "
            "them out"
        )
    if way.disclosure.exposes in ("sizes", "steps"):
        raise InputError(
            f"workers with {type(way.disclosure).__name__}: owners hear labels from all who compute, and "
            "compute themselves. Use disclosure=AssignmentsOnly() or FinalLabelsOnly(), or leave workers "
            "out"
        )


def check_start(way: Combining) -> None:
    """Raises ValueError where k cannot be chosen, whatever the points."""
    policy = way.disclosure
    if way.init.grows and policy.exposes != "sizes":
        other = "RandomLabels()" if policy.exposes in ("steps", "nothing") else "Bisecting()"
        raise ValueError(
            f"init={type(way.init).__name__}() with {type(policy).__name__}: this start is for labels "
            f"that stay secret, by sizes that are opened. Use init={other}, or disclosure=OwnLabels()"
        )
    costly = policy.exposes in ("steps", "nothing") or not policy.exact
    if isinstance(way.k, Elbow) and costly:
        raise ValueError(
            f"k={way.k} with {type(policy).__name__}: k is chosen by exact costs of clusters, which "
            "this policy opens to nobody. Give k as a number, or use disclosure=AssignmentsOnly()"
        )
    check_choice(way.init, way.k)


def can_round(way: Any) -> bool:
    """Whether this run could have rounded centers."""
    policy = way.disclosure
    return bool(policy.exposes in ("labels", "sizes") and getattr(policy, "dealer", None) is not None)


def check_centers(way: Combining) -> None:
    """Raises InputError where centers cannot be rounded, or need not be."""
    if way.centers == "exact" or can_round(way):
        return
    policy = way.disclosure
    name = type(policy).__name__
    if policy.exposes == "distances":
        raise InputError(
            f'centers="rounded" with {name}: the server decodes distances to exact centers, and nothing is '
            'compared that rounding makes narrower. Use centers="exact"'
        )
    given = {"sizes": "dealer=None", "labels": "dealer=None", "steps": 'sizes="hidden"'}
    shown = given.get(policy.exposes, "") if name != "FinalLabelsOnly" else ""
    raise InputError(
        f'centers="rounded" with {name}({shown}): centers are rounded by sizes that all hear, and by tables '
        'that somebody deals. Use disclosure=AssignmentsOnly(), or centers="exact"'
    )
