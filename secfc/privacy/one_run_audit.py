"""The audit that needs one run: what a unit moved every release by, over the noise that is in it.

Releases with Gaussian noise of deviation sigma, each of a statistic that a canary moves by a vector e given
what was released before, tell of the canary as one shift of squared size

    sum over releases of |e|**2 / sigma**2   <=   mu**2,

what the budget allows.  The left side is a number and no estimate: one run gives it, and a contribution
beyond its sensitivity shows at once.  That the noise has the declared size is told by what the experimenter
has and no attacker: noisy minus exact, hundreds of numbers a run.

So this is a check of the experimenter: it reads exact statistics.  Attacks do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

ALARM = 1e-6  # that noise of the declared size is called too small; half of it shows far below
_ROUNDING = 1e-9  # of a sensitivity, which is the root of an integer: what floats may round off


@dataclass(frozen=True)
class CanaryContribution:
    """What a canary did to one release, and the noise that was there.

    moved: L2 norm of what it adds, and sensitivity: what that may be, in steps of the integers.  deviation:
    declared, of the noise.  measured: root mean square of the noise that was added, over `size` numbers.
    """

    what: str
    size: int
    moved: float
    sensitivity: float
    deviation: float
    measured: float

    @property
    def spent(self) -> float:
        """The squared shift by which this release tells of the canary."""
        return (self.moved / self.deviation) ** 2

    @property
    def beyond(self) -> bool:
        """Whether the canary moved it by more than its sensitivity."""
        return self.moved > self.sensitivity * (1 + _ROUNDING)


@dataclass(frozen=True)
class AuditedRun:
    """Contributions to all releases of a run, and what the budget allows: mu squared.

    alarm: how often noise of the declared size is found too small.
    """

    contributions: tuple[CanaryContribution, ...]
    allowed: float
    alarm: float = ALARM

    @property
    def spent(self) -> float:
        """The squared shift by which all releases together tell of the canary."""
        return math.fsum(c.spent for c in self.contributions)

    @property
    def share(self) -> float:
        """Of what is allowed."""
        return self.spent / self.allowed

    @property
    def measured(self) -> float:
        """The deviation of all noise, of the declared."""
        squares = math.fsum(c.size * (c.measured / c.deviation) ** 2 for c in self.contributions)
        return math.sqrt(squares / sum(c.size for c in self.contributions))

    @property
    def faint(self) -> tuple[CanaryContribution, ...]:
        """Releases whose noise is smaller than declared, at half the alarm for all of them together.

        More noise than declared, as of clients beyond those that had to be there, is no fault.
        """
        alarm = self.alarm / 2 / max(1, len(self.contributions))
        return tuple(c for c in self.contributions if _chance(c.measured / c.deviation, c.size) < alarm)

    @property
    def quiet(self) -> bool:
        """Whether all noise together is smaller than declared, at half the alarm."""
        return _chance(self.measured, sum(c.size for c in self.contributions)) < self.alarm / 2

    @property
    def refuted(self) -> bool:
        """Whether the claim is false."""
        return bool(self.faults)

    @property
    def faults(self) -> tuple[str, ...]:
        """Why the claim is false, a sentence each."""
        found = [
            f"{c.what}: the canary moves it by {c.moved:.6g} steps, declared are at most {c.sensitivity:.6g}"
            for c in self.contributions
            if c.beyond
        ]
        found += [
            f"{c.what}: its noise has a deviation of {c.measured:.4g} steps over {c.size} numbers, "
            f"declared are {c.deviation:.4g}"
            for c in self.faint
        ]
        if self.quiet:
            found.append(f"all noise together has {self.measured:.3g} times the declared deviation")
        if self.spent > self.allowed * (1 + _ROUNDING):
            found.append(
                f"in total the canary spends {self.spent:.5g}, the budget allows a squared shift of "
                f"{self.allowed:.5g}"
            )
        return tuple(found)


def _chance(ratio: float, size: int) -> float:
    """How likely Gaussian noise is to have at most this deviation over so many numbers, of the declared.

    The sum of its squares has the law of chi squared.
    """
    from scipy.stats import chi2

    return float(chi2.cdf(size * ratio**2, size))


@dataclass(frozen=True, eq=False, repr=False)
class MovedRelease:
    """One release, and the two statistics that it may be of: all that the best test of a canary needs.

    noisy, without, with_it (D,): in steps.  deviation: of the noise.
    """

    noisy: Array
    without: Array
    with_it: Array
    deviation: float

    @property
    def evidence(self) -> float:
        """Log likelihood ratio of the canary being in, taking the noise for Gaussian."""
        e = self.with_it - self.without
        off = np.asarray(self.noisy - self.without, np.float64)
        return float(off @ e - e @ e / 2.0) / self.deviation**2


def log_likelihood_ratio(releases: list[MovedRelease]) -> float:
    """The log likelihood ratio of a canary from all releases, each given those before.

    An attacker who knows all points but the canary's can compute it: the `everyone else` attacker.
    """
    return math.fsum(release.evidence for release in releases)
