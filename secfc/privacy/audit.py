"""Empirical lower bounds on epsilon: does a mechanism, or a whole pipeline, keep what it claims?

A canary is a unit, planted or not.  Whoever can tell which from the output bounds epsilon from below: with
confidence 1 - alarm the true epsilon is at least `EpsilonFinding.epsilon`.  A finding above the claim refutes
it; one below proves nothing, since a stronger test may exist.

Many runs: the rates of true and false detections are bounded after Clopper and Pearson, at a threshold that
other runs have chosen.  One run: many independent canaries are planted at once and the number of correct
guesses is compared with a binomial law (Steinke, Nasr, Jagielski 2023, theorem 5.2).

Where the claim is a Gaussian mechanism, as of a whole run whose noise is Gaussian, the same counts say more:
they bound its shift (`many_gaussian_runs`; Nasr et al., Tight auditing of differentially private machine
learning, 2023).  Three hundred runs then find noise of half the size, of which the bound on epsilon sees
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from field.arrays import Array
from secfc.errors import InputError
from secfc.privacy import accountant
from secfc.privacy.accountant import CompositionCost
from secfc.privacy.events import Event

# --------------------------------------------------------------------------------------------------
# What a test can reach at most: detections at a rate of false alarms, for a shift, and for (epsilon, delta).
#
# To tell N(0, 1) from N(mu, 1) is as hard as to tell neighbors apart after a Gaussian mechanism of noise
# multiplier 1/mu (Dong, Roth and Su, Gaussian Differential Privacy, 2022), and compositions of these are one,
# whose squares add up.  Membership in a cluster whose exact center is opened is a shift as well:
# sqrt(d / size), see `secfc.attacks.membership`.


@dataclass(frozen=True)
class GaussianShift:
    """Trade-off of the best test of N(0, 1) against N(mu, 1), which bounds every such shift.

    Parameters
    ----------
    mu
        The shift, in standard deviations, at least 0.
    """

    mu: float

    def __post_init__(self) -> None:
        if not 0 <= self.mu < math.inf:
            raise InputError(f"mu={self.mu}: a shift is a finite number of deviations, not below 0")

    @classmethod
    def of_center(cls, d: float, size: float) -> GaussianShift:
        """One of `size` points of d independent features, whose exact mean is seen by who knows their law.

        With dependent features d is how many independent ones say as much.
        """
        if not (d > 0 and size > 0):
            raise InputError(f"d={d}, size={size}: both must be positive")
        return cls(math.sqrt(d / size))

    @classmethod
    def of_event(cls, event: Event) -> GaussianShift:
        """All that the event composes, where it is Gaussian noise.

        A discrete Gaussian is taken for the continuous one of its zCDP bound, a sum of such for the one that
        it is a rounding of.

        Raises ValueError for other noise, or none.
        """
        cost = CompositionCost.of(event)
        if not cost.private or cost.laplace or cost.pure:
            raise InputError(
                "the event holds other than Gaussian noise, or none: no single shift describes it; "
                "use `max_detection_rate` with its epsilon and delta"
            )
        return cls(math.sqrt(cost.gaussian + 2 * cost.rho))

    @property
    def auc(self) -> float:
        """The area under the curve: how often a member's score exceeds another's."""
        return _cdf(self.mu / math.sqrt(2))

    def detection_rate(self, alarms: float) -> float:
        """True detections at this rate of false alarms, in (0, 1)."""
        return _cdf(NormalDist().inv_cdf(alarms) + self.mu)


def max_detection_rate(epsilon: float, delta: float, alarms: float) -> float:
    """No test detects more at this rate of false alarms, under (epsilon, delta)-differential privacy."""
    # P <= e^epsilon Q + delta for the event, and for its complement.
    if epsilon > 700:
        return 1.0
    return min(1.0, math.exp(epsilon) * alarms + delta, 1 - math.exp(-epsilon) * (1 - delta - alarms))


def _cdf(x: float) -> float:
    return math.erfc(-x / math.sqrt(2)) / 2


# --------------------------------------------------------------------------------------------------


# A lower bound beyond this is reported as this.
_MOST = 100.0


ALARM = 1e-6  # that noise of the declared size is called too small; half of it shows far below


@dataclass(frozen=True)
class EpsilonFinding:
    """Lower bound: with probability at least 1 - alarm no (e, delta) claim with e < epsilon is true.

    Parameters
    ----------
    epsilon
        The bound.
    delta
        Delta of the claim under test.
    alarm
        Largest probability of a false finding, over the runs.
    trials
        Runs, or canaries, that were counted.
    """

    epsilon: float
    delta: float
    alarm: float
    trials: int

    def refutes(self, claim: Event) -> bool:
        """Whether the claim's proved epsilon lies below what was found."""
        return self.epsilon > accountant.epsilon(claim, self.delta)


@dataclass(frozen=True)
class ShiftFinding:
    """Lower bound: with probability at least 1 - alarm no claim of a Gaussian shift below mu is true.

    Parameters
    ----------
    mu
        The bound, in standard deviations.
    alarm
        Largest probability of a false finding, over the runs.
    trials
        Runs that were counted.
    """

    mu: float
    alarm: float
    trials: int

    def refutes(self, claim: Event) -> bool:
        """Whether the claim's shift lies below what was found.  Raises ValueError if it is no shift."""
        return self.mu > GaussianShift.of_event(claim).mu

    def epsilon(self, delta: float) -> float:
        """What the shift comes to: no (e, delta) claim with less is true of a Gaussian mechanism."""
        return accountant.gaussian_epsilon(self.mu**2, delta)


def audit(
    run: Callable[[bool, int], float], *, runs: int, delta: float, alarm: float = 1e-3
) -> EpsilonFinding:
    """Audit anything by many runs: run(planted, number) plays it once and scores the output.

    run: any function of the output as score, large where the canary is likely; number differs in every call,
    and must seed all coins.  runs: on each of both sides.
    """
    present = np.array([run(True, 2 * i) for i in range(runs)], float)
    absent = np.array([run(False, 2 * i + 1) for i in range(runs)], float)
    return many_runs(present, absent, delta=delta, alarm=alarm)


def many_runs(present: Array, absent: Array, *, delta: float, alarm: float = 1e-3) -> EpsilonFinding:
    """Bound on epsilon from scores of independent runs with and without the canary.

    Parameters
    ----------
    present
        (p,) scores of independent runs with the canary.
    absent
        (a,) scores of independent runs without it.
    delta
        Delta of the claim, in [0, 1).
    alarm
        Largest probability of a false finding, over the runs.

    Returns
    -------
    EpsilonFinding
        The first half of each array chooses a threshold and one of four inequalities; the second half counts.

    Notes
    -----
    (epsilon, delta)-privacy says P(S) <= exp(epsilon) Q(S) + delta for the events score >= threshold and
    score < threshold, in both directions.
    """
    if min(len(present), len(absent)) < 4:
        raise InputError(f"{len(present)} and {len(absent)} scores: an audit needs at least 4 on each side")
    if not 0 < alarm < 1:
        raise InputError(f"alarm={alarm} must be in (0, 1): the rate of false findings")
    ins, outs = np.array_split(np.asarray(present, float), 2), np.array_split(np.asarray(absent, float), 2)
    candidates = np.unique(np.quantile(np.concatenate([ins[0], outs[0]]), np.linspace(0, 1, 501)))
    above_in, above_out = _counts(ins[0], candidates), _counts(outs[0], candidates)
    sizes = len(ins[0]), len(outs[0])
    found = [
        _bound(hits, misses, a, b, delta, alarm) for hits, misses, a, b in _four(above_in, above_out, *sizes)
    ]
    which, at = np.unravel_index(int(np.argmax(np.array(found))), (4, len(candidates)))
    chosen = candidates[at : at + 1]
    counts = _four(_counts(ins[1], chosen), _counts(outs[1], chosen), len(ins[1]), len(outs[1]))
    epsilon = float(_bound(*counts[int(which)], delta, alarm)[0])
    return EpsilonFinding(min(max(epsilon, 0.0), _MOST), delta, alarm, len(present) + len(absent))


def many_gaussian_runs(
    present: Array, absent: Array, *, threshold: float = 0.0, alarm: float = 1e-3
) -> ShiftFinding:
    """Bound on a Gaussian shift from scores of independent runs with and without the canary.

    Parameters
    ----------
    present
        (p,) scores of independent runs with the canary.
    absent
        (a,) scores of independent runs without it.
    threshold
        Score from which a run counts as detected; fixed before any score is seen.  0 is best for log
        likelihood ratios.
    alarm
        Largest probability of a false finding, over the runs.

    Returns
    -------
    ShiftFinding
        Under a shift of mu, detections are at most Phi(Phi**-1(false alarms) + mu); both rates are bounded as
        in `many_runs`.
    """
    from scipy.special import ndtri
    from scipy.stats import beta

    if min(len(present), len(absent)) < 4:
        raise InputError(f"{len(present)} and {len(absent)} scores: an audit needs at least 4 on each side")
    if not 0 < alarm < 1:
        raise InputError(f"alarm={alarm} must be in (0, 1): the rate of false findings")
    # The event below the threshold is its complement, and says the same: Phi is symmetric.
    a, b = len(present), len(absent)
    hits = int((np.asarray(present) >= threshold).sum())
    misses = int((np.asarray(absent) >= threshold).sum())
    p = float(beta.ppf(alarm / 2, hits, a - hits + 1)) if hits else 0.0
    q = float(beta.ppf(1 - alarm / 2, misses + 1, b - misses)) if misses < b else 1.0
    best = float(ndtri(p) - ndtri(q)) if p > 0 and q < 1 else 0.0
    return ShiftFinding(max(0.0, best), alarm, len(present) + len(absent))


def label_evidence(
    exact: Array, told: Array, k: int, *, absent: bool, alarm: float = ALARM
) -> EpsilonFinding:
    """The bound from labels (m,) in [0, k) that were released of rows, -1 for none, beside their exact ones.

    No release that is epsilon-DP is right more often than `RandomizedResponse`, in the mean over clusters:
    where rows are replaced, 1 / (1 + (k - 1) exp(-epsilon)); absent: where one is gone, at most
    exp(epsilon) / k and 1 - (k - 1) exp(-epsilon) / k.
    """
    from scipy.stats import beta

    there = np.asarray(told) >= 0
    exact, right = exact[there], (exact == told)[there]
    m, hits = np.bincount(exact, minlength=k), np.bincount(exact[right], minlength=k)
    least = np.where(hits > 0, beta.ppf(alarm / k, np.maximum(hits, 1), m - hits + 1), 0.0)
    p = min(float(np.mean(least)), 1 - 2.0**-40)
    away = math.log((k - 1) / (1 - p)) if k > 1 else 0.0
    bound = max(math.log(p * k), away - math.log(k)) if absent else math.log(p) + away
    return EpsilonFinding(max(0.0, bound) if p * k > 1 else 0.0, 0.0, alarm, int(there.sum()))


def one_run(
    scores: Array, planted: Array, *, guesses: int, delta: float, alarm: float = 1e-3
) -> EpsilonFinding:
    """Bound on epsilon from one run with many canaries, each planted with probability 1/2 independently.

    Parameters
    ----------
    scores
        (c,) large where a canary is likely.
    planted
        (c,) bool.
    guesses
        Number of canaries to guess, fixed in advance: half of them, with the highest scores, as planted, and
        half, with the lowest, as not.
    delta
        Delta of the claim; well below alarm / c, as it costs about 2 c delta / guesses**0.5 of alarm.
    alarm
        Largest probability of a false finding, over the runs.

    Returns
    -------
    EpsilonFinding
        The bound.

    References
    ----------
    Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run, NeurIPS 2023.
    """
    c = len(scores)
    if not 2 <= guesses <= c:
        raise InputError(f"guesses={guesses} must be between 2 and the {c} canaries")
    order = np.argsort(scores, kind="stable")
    low, high = order[: guesses // 2], order[c - (guesses - guesses // 2) :]
    truth = np.asarray(planted, bool)
    correct = int(truth[high].sum() + (~truth[low]).sum())
    inside, outside = 0.0, _MOST
    if _p_value(correct, guesses, c, inside, delta) > alarm:
        return EpsilonFinding(0.0, delta, alarm, c)
    while outside - inside > 1e-6:
        middle = (inside + outside) / 2
        refuted = _p_value(correct, guesses, c, middle, delta) <= alarm
        inside, outside = (middle, outside) if refuted else (inside, middle)
    return EpsilonFinding(inside, delta, alarm, c)


def _p_value(correct: int, guesses: int, canaries: int, epsilon: float, delta: float) -> float:
    """The probability of so many correct guesses under (epsilon, delta)-privacy, at most (theorem 5.2)."""
    from scipy.stats import binom

    q = 1 / (1 + math.exp(-epsilon))
    beta = float(binom.sf(correct - 1, guesses, q))
    # alpha = max_i P(correct - i <= X < correct) / i
    below = np.cumsum(binom.pmf(np.arange(correct - 1, -1, -1), guesses, q))
    alpha = float((below / np.arange(1, correct + 1)).max()) if correct else 0.0
    return min(1.0, beta + 2 * canaries * delta * alpha)


def _counts(scores: Array, thresholds: Array) -> Array:
    """How many scores reach each threshold."""
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="left")


def _four(
    above_in: Array, above_out: Array, runs_in: int, runs_out: int
) -> list[tuple[Array, Array, int, int]]:
    """(times under P, times under Q, runs of P, runs of Q) of both events in both directions."""
    below_in, below_out = runs_in - above_in, runs_out - above_out
    return [
        (above_in, above_out, runs_in, runs_out),
        (below_in, below_out, runs_in, runs_out),
        (above_out, above_in, runs_out, runs_in),
        (below_out, below_in, runs_out, runs_in),
    ]


def _bound(hits: Array, misses: Array, a: int, b: int, delta: float, alarm: float) -> Array:
    """log((P - delta) / Q) with P bounded from below and Q from above, each at half the alarm."""
    from scipy.stats import beta

    # Clopper-Pearson: quantiles of beta laws; no hit bounds P by 0, only misses bound Q by 1.
    p = np.where(hits > 0, beta.ppf(alarm / 2, np.maximum(hits, 1), a - hits + 1), 0.0)
    q = np.where(misses < b, beta.ppf(1 - alarm / 2, misses + 1, np.maximum(b - misses, 1)), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(p > delta, np.log(np.maximum(p - delta, 0) / q), -np.inf)


# --------------------------------------------------------------------------------------------------
# The audit that needs one run: what a unit moved every release by, over the noise that is in it.
#
# Releases with Gaussian noise of deviation sigma, each of a statistic that a canary moves by a vector e given
# what was released before, tell of the canary as one shift of squared size
#
#     sum over releases of |e|**2 / sigma**2   <=   mu**2,
#
# what the budget allows.  The left side is a number and no estimate: one run gives it, and a contribution
# beyond its sensitivity shows at once.  That the noise has the declared size is told by what the experimenter
# has and no attacker: noisy minus exact, hundreds of numbers a run.
#
# So this is a check of the experimenter: it reads exact statistics.  Attacks do not.

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

    alarm: how often noise of the declared size is found too small.  labels: what released labels prove, and
    labels_epsilon what is claimed of them.
    """

    contributions: tuple[CanaryContribution, ...]
    allowed: float
    alarm: float = ALARM
    labels: EpsilonFinding | None = None
    labels_epsilon: float = 0.0

    @property
    def spent(self) -> float:
        """The squared shift by which all releases together tell of the canary."""
        return math.fsum(c.spent for c in self.contributions)

    @property
    def share(self) -> float:
        """Part of the allowed shift that was spent."""
        return self.spent / self.allowed

    @property
    def measured(self) -> float:
        """The deviation of all noise, of the declared."""
        squares = math.fsum(c.size * (c.measured / c.deviation) ** 2 for c in self.contributions)
        return math.sqrt(squares / sum(c.size for c in self.contributions))

    @property
    def faint_releases(self) -> tuple[CanaryContribution, ...]:
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
    def is_refuted(self) -> bool:
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
            for c in self.faint_releases
        ]
        if self.quiet:
            found.append(f"all noise together has {self.measured:.3g} times the declared deviation")
        if self.spent > self.allowed * (1 + _ROUNDING):
            found.append(
                f"in total the canary spends {self.spent:.5g}, the budget allows a squared shift of "
                f"{self.allowed:.5g}"
            )
        if self.labels is not None and self.labels.epsilon > self.labels_epsilon:
            found.append(
                "released labels are right so often that their epsilon is at least "
                f"{self.labels.epsilon:.3g}, declared are {self.labels_epsilon:g}"
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
    def log_ratio(self) -> float:
        """Log likelihood ratio of the canary being in, taking the noise for Gaussian."""
        e = self.with_it - self.without
        off = np.asarray(self.noisy - self.without, np.float64)
        return float(off @ e - e @ e / 2.0) / self.deviation**2


def log_likelihood_ratio(releases: list[MovedRelease]) -> float:
    """The log likelihood ratio of a canary from all releases, each given those before.

    An attacker who knows all points but the canary's can compute it: the `everyone else` attacker.
    """
    return math.fsum(release.log_ratio for release in releases)
