"""A hidden feature of a person of whom all else is known, from opened centers.

The center's own value is the best guess: with x one of s points of variance v, x and c covary by v / s, as
much as c varies. It explains 1 / s of the variance that the public law leaves, and -1 / s of a person who
was not there: so the difference of the two is what a center tells of people and not of the law, and for s
>= 20 it is next to nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from secfc.attacks.halves import Opened
from secfc.attacks.membership import Law, check_targets, matched

Array = NDArray[Any]


def guesses(opened: Opened, law: Law, targets: Array, feature: int) -> tuple[Array, Array]:
    """Guesses (p,) of one feature of targets (p, d), and those by the law alone; it is not read in targets.

    Raises ValueError for a feature that there is not.
    """
    d = law.means.shape[1]
    if not 0 <= feature < d:
        raise ValueError(f"feature {feature} of d={d}: features are counted from 0 to {d - 1}")
    known = np.delete(np.arange(d), feature)
    check_targets(targets[:, known], d - 1)
    squares = ((targets[:, None, known] - law.means[:, known]) ** 2).sum(axis=2)
    cluster = squares.argmin(axis=1)
    there = matched(opened.centers, law.means)[cluster]
    public = law.means[cluster, feature]
    seen = np.where(there >= 0, opened.centers[there, feature], public)
    return np.where(np.isfinite(seen), seen, public), public
