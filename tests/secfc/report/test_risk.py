"""What reports say of being recognized by centers that are opened."""

import math

import numpy as np
import pytest

import secfc
from secfc.privacy.audit import GaussianShift
from secfc.report import as_json, as_text, make_report
from secfc.report.data import Risk


def hold_mixture(server=False):
    rng = np.random.default_rng(0)
    means = rng.uniform(-6, 6, (4, 5))
    parts = [means[rng.integers(4, size=30)] + rng.normal(size=(30, 5)) for _ in range(4)]
    return secfc.Federation.from_arrays(parts, server_points=rng.uniform(-6, 6, (30, 5)) if server else None)


def made(algorithm, data):
    result = secfc.fit(algorithm, data, seed=0)
    return result, make_report(result, federation=data, algorithm=algorithm)


@pytest.mark.parametrize(
    "algorithm",
    [
        secfc.SecFC(4, threshold=1, release=secfc.Release(reveal_centers=True)),
        secfc.KFed(4, 2),
        secfc.FederatedLloyd(4),
    ],
)
def test_the_smallest_cluster_whose_center_is_open_is_the_most_at_risk(algorithm):
    result, found = made(algorithm, hold_mixture())
    least = int(np.bincount(result.flat, minlength=4).min())
    law = GaussianShift.of_center(5, least)
    assert (found.risk.size, found.risk.shift, found.risk.auc) == (least, math.sqrt(5 / least), law.auc)
    assert found.risk.detected == law.detection_rate(0.01)
    said = " ".join(as_text(found).split())
    assert f"has {least} points: who knows the law of the data recognizes about" in said
    assert as_json(found)["membership_risk"]["size"] == least


def test_where_no_center_is_opened_nothing_is_said():
    _, found = made(secfc.SecFC(4, threshold=1), hold_mixture())
    assert found.risk is None
    assert as_json(found)["membership_risk"] is None
    assert "recognize" not in as_text(found)


def test_a_center_of_one_point_is_that_point_and_one_that_stays_closed_tells_nothing():
    data = hold_mixture()
    points = [*data.stacked()[:24].reshape(4, 6, 5)[:3], np.full((1, 5), 500.0)]
    alone = secfc.Federation.from_arrays(points)
    _, found = made(
        secfc.SecFC(2, threshold=1, release=secfc.Release(reveal_centers=True, smallest_center=1)), alone
    )
    assert "The center of one point is that point" in found.risk.sentence
    _, found = made(secfc.SecFC(2, threshold=1, release=secfc.Release(reveal_centers=True)), alone)
    assert found.risk.size == 18


def test_under_a_budget_the_bound_is_said_and_no_size():
    _, found = made(secfc.FedDPKMeans(4, 1.0, 1e-6), hold_mixture(server=True))
    assert round(found.risk.detected, 3) == 0.027
    assert found.risk.size is None
    assert "at most 3 of 100 people are recognized" in " ".join(as_text(found).split())


@pytest.mark.parametrize(
    ("unit", "who"),
    [
        ("data point", "people"),
        ("person", "people"),
        ("person at one client", "people"),
        ("client", "clients"),
    ],
)
def test_who_is_recognized_is_a_person_but_where_clients_are_hidden(unit, who):
    assert f"at most 50 of 100 {who} are" in Risk(0.5, 0.01, unit=unit).sentence
