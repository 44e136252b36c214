"""What a choice of ell gives away, in a sentence: the same for Python, the shell and reports.

Any t clients hold uniform shares whatever ell is.  But t + 1 shares and the ell segments of a point satisfy
one linear relation, and evaluation points 1, 2, 3, ... make its coefficients small integers: values with few
steps, such as counts, codes and flags, are often its only solution.  (Random points would be worse: data of
any kind would be a short vector of a lattice of dimension two.)  So from t + 1 clients on nothing is
promised, and ell buys speed with the clients that a larger t would have withstood.
"""

from __future__ import annotations


def cautions(t: int, ell: int) -> tuple[str, ...]:
    """What somebody who cuts points into ell segments should know; nothing if they stay whole."""
    if ell == 1 or t == 0:
        return ()
    few = "one client learns" if t == 1 else f"{t} clients together learn"
    return (
        f"ell={ell} buys speed and no privacy: {few} nothing from shares, but t+1={t + 1} can read small or "
        f"categorical values, not only ell+t={ell + t}. ell=1 with t={t + ell - 1} needs as many replies and "
        f"withstands {t + ell - 1} clients",
    )
