"""How many colluding clients a run should withstand, where its caller leaves that open."""

from __future__ import annotations

from secfc.data.inputs import InputError
from secfc.roles.exchange import SERVER


def fitting(n: int, ell: int, liars: int = 0) -> int:
    """The largest t for which n >= 2 (ell + t - 1) + 1 + 2 liars; below 1 if none hides anything."""
    return (n - 1) // 2 - ell + 1 - liars


def limit_of(n: int, ell: int, liars: int, *, most: int | None) -> tuple[int, str]:
    """The most collusion that n clients tolerate, up to a third of them, and what limits it, in words.

    most: of comparisons without a dealer.
    The same rule for Python and the shell.  `fitting` is at least 1.
    """
    t, limit = min(fitting(n, ell, liars), -(-n // 3)), "a third of them"
    if most is not None and t > most:
        t, limit = most, "what comparisons without a dealer allow"
    return t, limit


def tolerated(n: int, ell: int, liars: int, *, policy: object) -> int:
    """t for n clients, as the shell chooses it.

    policy: what the server may see, of which some withstand fewer.

    Raises InputError where no t of at least 1 fits.
    """
    from field.compare.replicated import MAX_T

    if fitting(n, ell, liars) < 1:
        needed = 2 * (ell + liars) + 1
        raise InputError(
            f"n={n} client{'s' * (n != 1)} with ell={ell}, liars={liars} cannot hide points from t=1 of "
            f"them: {needed} are needed. Add clients, lower ell or liars, or say t=0, which hides nothing"
        )
    undealt = getattr(policy, "dealer", SERVER) is None
    return limit_of(n, ell, liars, most=MAX_T if undealt else None)[0]
