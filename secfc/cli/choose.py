"""From what the user asked for to an algorithm and its public parameters."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from secfc.cli.errors import bad_input
from secfc.cli.settings import NOISE, Settings

if TYPE_CHECKING:
    from field.ring.quantize import Quantizer
    from secfc.algorithm import Algorithm, Public
    from secfc.data.federation import Federation
    from secfc.disclosure import Disclosure
    from secfc.exact.plaintext import Lloyd
    from secfc.exact.secfc import SecFC
    from secfc.feddp import FedDPKMeans


def make_public(federation: Federation, settings: Settings) -> Public:
    """What everybody knows.  The demonstration's pixels are known to lie in 0 to 16."""
    import numpy as np

    from secfc.algorithm import Public

    bound = settings.bound if settings.files else settings.bound or 16.0
    with bad_input(OverflowError), np.errstate(over="ignore"):
        public = Public.of(federation, bound)
        if not math.isfinite(public.bound):
            raise OverflowError
    return public


def foresee(algorithm: Algorithm, public: Public) -> Any:
    """The plan of a run, as far as it is known before the parties talk.

    With private membership the number of points is the outcome of a union; what is refused here would be
    refused for any outcome.

    Raises ValueError.
    """
    from secfc.coded.membership import Open
    from secfc.exact.secfc import SecFC

    if not isinstance(algorithm, SecFC) or isinstance(algorithm.membership, Open):
        return algorithm.plan(public)
    if algorithm.k > public.m:
        raise ValueError(f"k={algorithm.k} clusters of m={public.m} points: lower k or add points")
    smallest = replace(public, counts=(1,) * len(public.clients))
    plan = replace(algorithm, k=1, membership=Open()).plan(smallest)
    algorithm.plan(public)  # the union's own parameters
    return plan


def check_bound(federation: Federation, quantizer: Quantizer) -> None:
    """Raise InputError for the first value outside the public bound, before the protocol begins."""
    for party in federation.parties:
        for start, block in party.blocks():
            with bad_input(ValueError):
                quantizer(block, owner=f"client {party.name!r}", first_row=start)


def choose(settings: Settings, n: int) -> tuple[Algorithm, dict[str, Any], tuple[str, ...]]:
    """The algorithm, its parameters that no plan holds, and what the user should know of the choices.

    Raises InputError if n clients are too few to hide anything.
    """
    from field.compare.replicated import MAX_T
    from field.ring.basis import MERSENNE_61, Basis
    from psu import Threshold
    from secfc.coded.membership import Membership, Open, Private
    from secfc.disclosure import AssignmentsOnly, Distances, FinalLabelsOnly
    from secfc.exact.plaintext import Lloyd
    from secfc.exact.secfc import SecFC
    from secfc.kfed import KFed
    from secfc.lloyd.starts import STARTS
    from secfc.roles.exchange import SERVER

    k = 4 if settings.k is None else settings.k
    chosen: dict[str, Any] = {"seed": settings.seed, "sealed": settings.sealed}
    notes: tuple[str, ...] = ()
    if settings.algorithm == "k-fed":
        k_local = settings.k_local or math.isqrt(k)
        if settings.k_local is None:
            notes = (f"k_local={k_local} was chosen: sqrt(k) rounded down",)
        return KFed(k, k_local, seed=settings.seed), chosen | {"k_local": k_local}, notes
    if settings.algorithm == "feddp":
        chosen |= {name: getattr(settings, name) for name in ("epsilon", *NOISE)}
        return feddp(settings, k), chosen, notes
    chosen |= {name: getattr(settings, name) for name in ("init", "n_init", "max_iter", "field")}
    common: dict[str, Any] = {
        "init": STARTS[settings.init],
        "n_init": settings.n_init,
        "max_iter": settings.max_iter,
        "largest": settings.largest,
        "scale": settings.scale,
        "basis": Basis((MERSENNE_61,)) if settings.field == "mersenne61" else None,
        "rounding": settings.rounding,
        # The note of a report is a warning; only those who ask for less are spared it.
        "coarse": "warn" if settings.coarse == "allow" else settings.coarse,
    }
    if settings.disclosure == "distances" or settings.field == "mersenne61":
        # Also the baseline is then at the scale of a run that shows them.
        common["disclosure"] = Distances()
    if settings.algorithm == "lloyd":
        return Lloyd(k, **common), chosen, notes
    final = settings.disclosure == "final-labels"
    dealer = None if settings.dealer == "none" else settings.dealer or SERVER
    undealt = final or (settings.disclosure == "assignments" and dealer is None)
    t, ell, notes = choose_code(
        n,
        settings.t,
        1 if final and settings.ell is None else settings.ell,
        liars=settings.liars,
        private=settings.membership == "private",
        most=MAX_T if undealt else None,
    )
    chosen["membership"] = settings.membership
    membership: Membership = Open()
    if settings.membership == "private":
        membership = Private(Threshold(t), merge=settings.merge)
        notes += (
            "rows are ordered by pseudonyms of the IDs, which are drawn anew in every run: the same --seed "
            "gives other starts",
        )
        chosen |= {"merge": settings.merge, "id_column": settings.id_column}
    chosen["disclosure"] = settings.disclosure if settings.epsilon is None else "noise"
    if settings.epsilon is not None:
        common["disclosure"] = noise(settings)
        chosen |= {name: getattr(settings, name) for name in ("epsilon", *NOISE)}
    elif settings.disclosure == "assignments":
        common["disclosure"] = AssignmentsOnly(dealer, settings.consent)
        chosen["dealer"] = dealer or "none"
    elif final:
        common["disclosure"] = FinalLabelsOnly(settings.consent)
    else:
        notes += (
            "the server sees the distance of every point to every center, and over iterations these fix the "
            "shape of the data; --disclosure assignments shows it labels only",
        )
    algorithm = SecFC(
        k, t, ell, reveal_centers=settings.reveal_centers, smallest_center=settings.smallest_center,
        membership=membership, threads=settings.threads, liars=settings.liars, **common,
    )  # fmt: skip
    return algorithm, chosen, notes


def feddp(settings: Settings, k: int) -> FedDPKMeans:
    """FedDP-KMeans as asked for."""
    from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise
    from secfc.privacy import Neighbors

    if settings.epsilon is None:
        raise ValueError("FedDP-KMeans needs a budget")
    return FedDPKMeans(
        k,
        settings.epsilon,
        settings.delta,
        neighbors=Neighbors(unit="client" if settings.protect == "client" else "data point"),
        noise=ServerNoise() if settings.noise == "server" else SharedNoise(),
        bound=settings.radius,
        rows_per_client=settings.rows_per_client,
        t=settings.t,
    )


def noise(settings: Settings) -> Disclosure:
    """The policy that spends the budget."""
    from secfc.disclosure import NoiseAtServer, NoiseInShares
    from secfc.privacy import Bound, Budget, Neighbors

    if settings.epsilon is None or settings.radius is None:
        raise ValueError("noise needs a budget and a radius")
    budget, radius = Budget(settings.epsilon, settings.delta), Bound.given(settings.radius)
    neighbors = Neighbors("replace", "client" if settings.protect == "client" else "data point")
    if settings.noise == "server":
        return NoiseAtServer(budget, radius, neighbors)
    return NoiseInShares(budget, radius, neighbors)


def choose_code(
    n: int,
    t: int | None,
    ell: int | None,
    *,
    private: bool = False,
    most: int | None = None,
    liars: int = 0,
) -> tuple[int, int, tuple[str, ...]]:
    """t, ell and notes: the most collusion that n clients can tolerate, up to a third of them, and to `most`.

    ell is 1 unless it is asked for: more buys speed for clients that a larger t would withstand.

    Raises InputError if no t of at least 1 fits.
    """
    from psu.plan import MAX_SUBSETS
    from secfc.data.inputs import InputError
    from secfc.exact.cautions import cautions

    ell = 1 if ell is None else ell
    if t == 0:
        return 0, ell, ("t=0 protects nobody: shares carry no noise, so clients see each other's points",)
    if t is not None:
        return t, ell, cautions(t, ell)
    fits = (n - 1) // 2 - ell + 1 - liars
    if n < 3:
        raise InputError(
            f"n={_clients(n)}: at least 3 are needed to hide points from t=1 of them. Each FILE is one "
            "client, unless --client-column names the column that tells whose row it is: add files or "
            "that option, or use --algorithm lloyd, which hides nothing."
        )
    found = f" and liars={liars}" if liars else ""
    if fits < 1:
        largest = (n - 1) // 2 - liars
        lower = f"Lower ell to at most {largest}" if largest > 0 else "Lower --liars"
        remedy = f"{lower}, or add clients."
        raise InputError(
            f"n={_clients(n)} with ell={ell}{found} can hide points from nobody: n >= 2 (ell + t - 1) + 1"
            f"{' + 2 liars' if liars else ''} = {2 * (ell + liars) + 1} is needed for t=1. {remedy}"
        )
    t = min(fits, -(-n // 3))
    limit = "a third of them"
    if most is not None and t > most:
        t, limit = most, "what comparisons without a dealer allow"
    while private and math.comb(2 * t + 1, t) > MAX_SUBSETS:
        t, limit = t - 1, "what a union of IDs can be found for"
    return t, ell, (
        f"t={t} was chosen: the most that {_clients(n)} with ell={ell}{found} tolerate, up to {limit}",
        *cautions(t, ell),
    )  # fmt: skip


def _clients(n: int) -> str:
    return f"{n} client{'' if n == 1 else 's'}"


def plaintext_twin(algorithm: SecFC) -> Lloyd:
    """Plaintext Lloyd that takes the same steps from the same starts."""
    from secfc.disclosure import Distances
    from secfc.exact.plaintext import Lloyd

    return Lloyd(
        algorithm.k,
        init=algorithm.init,
        n_init=algorithm.n_init,
        max_iter=algorithm.max_iter,
        scale=algorithm.scale,
        basis=algorithm.basis,
        rounding=algorithm.rounding,
        largest=algorithm.largest,
        coarse="allow",
        # Noise needs room that its twin does not.
        disclosure=algorithm.disclosure if algorithm.disclosure.exact else Distances(),
    )
