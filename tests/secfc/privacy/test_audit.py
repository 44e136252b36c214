"""The audit of every mechanism: it never refutes a true claim, and does refute a false one.

Each finding is false with probability ALARM at most, over the seeds of the test.
"""

import dataclasses
import math
from functools import partial
from statistics import NormalDist
from types import SimpleNamespace

import numpy as np
import pytest

from field.secrets.coins import SeededCoins
from secfc.feddp import SharedNoise
from secfc.feddp import noise as feddp_noise
from secfc.feddp.statistics import SYMMETRIC, outer_product, outer_sensitivity
from secfc.privacy import (
    Composed,
    DiscreteLaplaceNoise,
    EpsilonFinding,
    Gaussian,
    MechanismOutput,
    Neighbors,
    NonPrivate,
    RoundedGaussianNoise,
    many_runs,
    one_run,
)
from secfc.privacy import audit as audits
from secfc.privacy.accountant import epsilon
from secfc.privacy.audit import AuditedRun, GaussianShift, audit, label_evidence, many_gaussian_runs

ALARM = 1e-6
DELTA = 1e-5
RUNS = 20_000
SENSITIVITY = 40


def coins(label):
    return SeededCoins(11, f"audit {label}")


def weaker(mechanism, factor):
    """The same mechanism with its noise divided by `factor`."""
    if isinstance(mechanism, DiscreteLaplaceNoise):
        return dataclasses.replace(mechanism, epsilon=mechanism.epsilon * factor)
    return dataclasses.replace(mechanism, noise_multiplier=mechanism.noise_multiplier / factor)


@dataclasses.dataclass(frozen=True)
class HonestNoise:
    """What the honest clients together add under SharedNoise, on a sum whose other addends are known."""

    sensitivity: int
    noise_multiplier: float
    honest: int = 5

    @property
    def crowd(self):
        return feddp_noise.HonestCounts(self.honest, self.honest)

    def event(self, size):
        return SharedNoise().event(feddp_noise.GaussianStep(self.noise_multiplier), size, self.crowd)

    def __call__(self, values, *, coins):
        noise, place, nothing = (
            feddp_noise.GaussianStep(self.noise_multiplier),
            SharedNoise(),
            np.zeros_like(values),
        )
        dealt = [
            place.share_noise(noise, self.sensitivity, nothing, self.crowd, coins) for _ in range(self.honest)
        ]
        return place.release_sum(
            noise, self.sensitivity, values + sum(dealt), self.crowd, coins, complete=True
        )


MECHANISMS = [
    *(RoundedGaussianNoise(SENSITIVITY, z) for z in (4.0, 2.0)),
    HonestNoise(SENSITIVITY, 2.0),
    DiscreteLaplaceNoise(SENSITIVITY, 1.0),
    DiscreteLaplaceNoise(SENSITIVITY, 1.0, one_entry=True),
]


def many(mechanism):
    """RUNS runs with the canary and as many without: every entry of a vector is a run by itself."""
    base = np.zeros(RUNS, int)
    present = mechanism(base + SENSITIVITY, coins=coins("present")).values
    absent = mechanism(base, coins=coins("absent")).values
    return many_runs(present, absent, delta=DELTA, alarm=ALARM)


def one(mechanism, canaries=4000, guesses=400):
    """One run on a vector whose entries are canaries, each of them moved by the sensitivity or not.

    At an alarm rate of 1e-4 for each of a dozen seeded findings; a smaller one would need a smaller delta.
    """
    planted = np.random.default_rng(5).integers(0, 2, canaries).astype(bool)
    scores = mechanism(planted * SENSITIVITY, coins=coins("one")).values
    return one_run(scores, planted, guesses=guesses, delta=DELTA / 1000, alarm=1e-4)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=str)
@pytest.mark.parametrize("play", [many, one])
def test_true_claims_stand_and_a_fifth_of_the_noise_is_caught(play, mechanism):
    claim = mechanism.event(1)
    honest, deviating = play(mechanism), play(weaker(mechanism, 5))
    assert honest.epsilon > 0
    assert not honest.refutes(claim)
    assert deviating.refutes(claim)
    # What was found of the weaker mechanism is true of it.
    assert not deviating.refutes(weaker(mechanism, 5).event(1))


GAUSSIAN = [one for one in MECHANISMS if not isinstance(one, DiscreteLaplaceNoise)]


@pytest.mark.parametrize("mechanism", GAUSSIAN, ids=str)
def test_a_shift_by_counts_refutes_half_the_noise_of_every_gaussian_mechanism(mechanism):
    claim = mechanism.event(1)
    shift = GaussianShift.of_event(claim).mu
    for factor, caught in ((1, False), (2, True)):
        noise, base = weaker(mechanism, factor), np.zeros(RUNS, int)
        present = noise(base + SENSITIVITY, coins=coins("present")).values
        absent = noise(base, coins=coins("absent")).values
        found = many_gaussian_runs(present, absent, threshold=SENSITIVITY / 2, alarm=ALARM)
        assert found.refutes(claim) == caught
        # Both bounds on rates of 20,000 runs together take off .09, with a deviation of .013.
        assert shift * factor - 0.15 < found.mu <= shift * factor


@pytest.mark.parametrize("angle", [0.0, math.pi / 4])
def test_symmetric_noise_on_outer_products_is_audited_along_and_across_the_axes(angle):
    reach, z = 400, 1.5
    point = np.array([[reach * math.cos(angle), reach * math.sin(angle)]]).astype(int)
    canary = outer_product(point, SYMMETRIC)
    # Noise is of one size on the weighted triangle, so that this is the likelihood ratio's score.
    planted = np.arange(2 * RUNS) % 2
    noise = RoundedGaussianNoise(outer_sensitivity(reach, SYMMETRIC, Neighbors()), z)
    for candidate, caught in ((noise, False), (weaker(noise, 5), True)):
        values = candidate(planted[:, None] * canary, coins=coins(f"symmetric {angle}")).values
        scores = (values * canary).sum(axis=1) / 1e6
        finding = many_runs(scores[planted == 1], scores[planted == 0], delta=DELTA, alarm=ALARM)
        assert finding.refutes(noise.event(canary.size)) == caught


def pipeline(noise):
    """A sum and a count, both noised, of 50 points: the score of a canary far out."""

    def noise_and_count(planted, number):
        points = np.random.default_rng(1).integers(-20, 21, 50)
        if planted:
            points = np.append(points, SENSITIVITY)
        stream = coins(f"pipeline {number}")
        total = noise(points.sum(keepdims=True), coins=stream).values[0]
        count = dataclasses.replace(noise, sensitivity=1)(np.array([len(points)]), coins=stream).values[0]
        return total / SENSITIVITY + count

    return noise_and_count


def test_a_pipeline_is_audited_as_a_whole():
    noise = RoundedGaussianNoise(SENSITIVITY, 4.0)
    claim = Composed((noise.event(1), noise.event(1)))
    assert not audit(pipeline(noise), runs=1500, delta=DELTA, alarm=ALARM).refutes(claim)
    assert audit(pipeline(weaker(noise, 5)), runs=1500, delta=DELTA, alarm=ALARM).refutes(claim)


def test_an_exact_release_is_told_from_every_claim_but_its_own():
    finding = many(lambda values, coins: MechanismOutput(values, NonPrivate()))
    assert finding.refutes(Gaussian(1.0))
    assert not finding.refutes(NonPrivate())


def test_findings_are_false_as_rarely_as_they_say():
    # 150 audits of a mechanism at its exact epsilon and an alarm rate of 5 %: more than 22 false findings
    # have probability 1e-5.  The discrete Laplace mechanism attains its epsilon at every threshold.
    mechanism = DiscreteLaplaceNoise(SENSITIVITY, 1.0)
    false = 0
    for number in range(150):
        present = mechanism(np.full(400, SENSITIVITY), coins=coins(f"in {number}")).values
        absent = mechanism(np.zeros(400, int), coins=coins(f"out {number}")).values
        false += many_runs(present, absent, delta=0.0, alarm=0.05).refutes(mechanism.event(1))
    assert false <= 22


def test_a_one_run_bound_as_computed_by_hand():
    # All of 20 guesses are right: exp(e) / (1 + exp(e)) to the 20th is the alarm rate.
    planted = np.arange(20) >= 10
    finding = one_run(np.arange(20.0), planted, guesses=20, delta=0.0, alarm=0.01)
    q = 0.01 ** (1 / 20)
    assert finding.epsilon == pytest.approx(math.log(q / (1 - q)), abs=1e-5)
    # Guessing wrong is no evidence, and a large delta explains everything.
    assert one_run(-np.arange(20.0), planted, guesses=20, delta=0.0, alarm=0.01).epsilon == 0
    assert one_run(np.arange(20.0), planted, guesses=20, delta=0.1, alarm=0.01).epsilon == 0


def test_a_finding_is_a_lower_bound_on_the_accountants():
    assert not EpsilonFinding(epsilon(Gaussian(1.0), DELTA), DELTA, ALARM, 1).refutes(Gaussian(1.0))


def test_audits_that_cannot_say_anything_are_refused():
    with pytest.raises(ValueError, match="at least 4"):
        many_runs(np.zeros(3), np.zeros(9), delta=0.0)
    with pytest.raises(ValueError, match="alarm="):
        many_runs(np.zeros(9), np.zeros(9), delta=0.0, alarm=0)
    with pytest.raises(ValueError, match="guesses="):
        one_run(np.zeros(9), np.zeros(9, bool), guesses=10, delta=0.0)


def test_half_an_alarm_is_for_all_noise_together_and_half_for_all_releases(monkeypatch):
    contributions = (SimpleNamespace(measured=1.0, deviation=1.0, size=1),) * 4
    for chance, faint, weak in ((0.49 / 4, 4, True), (0.49, 0, True), (0.51, 0, False), (0.51 / 4, 0, True)):
        monkeypatch.setattr(audits, "_chance", lambda *_, chance=chance: chance * ALARM)
        found = AuditedRun(contributions, 1.0, ALARM)
        assert (len(found.faint_releases), found.quiet) == (faint, weak)


def test_each_bound_has_its_part_of_the_alarm():
    # Where all that could be seen was seen, a bound is a root of its part.
    sure = partial(pow, ALARM / 2)
    present, absent = np.ones(200), np.zeros(200)
    p = sure(1 / 100)  # the other half chose the threshold
    assert many_runs(present, absent, delta=0.0, alarm=ALARM).epsilon == pytest.approx(math.log(p / (1 - p)))
    p = sure(1 / 200)
    found = many_gaussian_runs(present, absent, threshold=0.5, alarm=ALARM)
    assert found.mu == pytest.approx(NormalDist().inv_cdf(p) - NormalDist().inv_cdf(1 - p))
    labels, p = np.arange(200) % 4, (ALARM / 4) ** (1 / 50)
    found = label_evidence(labels, labels, 4, absent=False, alarm=ALARM)
    assert found.epsilon == pytest.approx(math.log(p) + math.log(3 / (1 - p)))
