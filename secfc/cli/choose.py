"""From what the user asked for to public parameters, where several methods do the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from secfc.cli.errors import bad_input
from secfc.cli.method import Asked

if TYPE_CHECKING:
    from secfc.algorithm import Public
    from secfc.data.federation import Federation


def make_public(federation: Federation, asked: Asked, bound: float | None = None) -> Public:
    """What everybody knows.  The demonstration's pixels are known to lie in 0 to 16.

    bound: what follows from how features were prepared, if anything does.
    """
    import numpy as np

    from secfc.algorithm import Public

    bound = asked.get("bound") if bound is None else bound
    if bound is None and not asked.settings.files:
        bound = 16.0
    with bad_input(OverflowError), np.errstate(over="ignore"):
        public = Public.of(federation, bound)
        if not math.isfinite(public.bound):
            raise OverflowError
    return public


def check_bound(asked: Asked, federation: Federation, plan: Any) -> None:
    """Raise InputError for the first value outside a bound that was given, before the protocol begins."""
    if asked["bound"] is None:
        return
    for party in federation.parties:
        for start, block in party.blocks():
            with bad_input(ValueError):
                plan.quantizer(block, owner=f"client {party.name!r}", first_row=start)


def bound_from_data(asked: Asked) -> bool:
    """Whether the public bound is read off the data."""
    return asked["bound"] is None and bool(asked.settings.files)


def steps(asked: Asked) -> dict[str, Any]:
    """Lloyd's heuristic on integers (`secfc.cli.options.STEPS`), as values for algorithms."""
    from field.ring.basis import MERSENNE_61, Basis
    from secfc.disclosure import Distances
    from secfc.lloyd.starts import STARTS

    values = {
        "init": None if asked["init"] is None else STARTS[asked["init"]],
        "n_init": asked["n_init"],
        "max_iter": asked["max_iter"],
        "largest": asked["largest"],
        "scale": asked["scale"],
        "basis": Basis((MERSENNE_61,)) if asked["field"] == "mersenne61" else None,
        "rounding": asked["rounding"],
        # The note of a report is a warning; only those who ask for less are spared it.
        "coarse": "warn" if asked["coarse"] == "allow" else asked["coarse"],
    }
    if asked.get("disclosure") == "distances" or asked["field"] == "mersenne61":
        # Also the baseline is then at the scale of a run that shows them.
        values["disclosure"] = Distances()
    return values


def choose_code(
    n: int,
    t: int | None,
    ell: int | None,
    *,
    most: int | None = None,
    liars: int = 0,
) -> tuple[int, int, tuple[str, ...]]:
    """t, ell and notes: the most collusion that n clients can tolerate, up to a third of them, and to `most`.

    ell is 1 unless it is asked for: more buys speed for clients that a larger t would withstand.

    Raises InputError if no t of at least 1 fits.
    """
    from secfc.data.inputs import InputError
    from secfc.exact.cautions import cautions
    from secfc.exact.collusion import fitting, limit_of

    ell = 1 if ell is None else ell
    if t == 0:
        return 0, ell, ("t=0 protects nobody: shares carry no noise, so clients see each other's points",)
    if t is not None:
        return t, ell, cautions(t, ell)
    fits = fitting(n, ell, liars)
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
    t, limit = limit_of(n, ell, liars, most=most)
    return t, ell, (
        f"t={t} was chosen: the most that {_clients(n)} with ell={ell}{found} tolerate, up to {limit}",
        *cautions(t, ell),
    )  # fmt: skip


def _clients(n: int) -> str:
    return f"{n} client{'' if n == 1 else 's'}"
