"""Where residuals are clipped: an estimate from public points and noisy weights, checked on points unseen."""

from dataclasses import replace

import numpy as np
import pytest

from field import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.data.federation import Federation
from secfc.feddp import FedDPKMeans, ServerLloyds
from secfc.feddp.aggregator import Aggregator
from secfc.feddp.server_estimates import clipping_effect, clipping_error, group_about, reweighted_groups
from secfc.privacy import Neighbors

K, D, EACH = 5, 12, 60


def points(size, rng, skew, means):
    """Rows about means: Gaussian, or with a long tail to one side."""
    labels = np.arange(size) % K
    noise = rng.gamma(0.4, 1.0, (size, D)) - 0.4 if skew else rng.normal(size=(size, D)) * 0.6
    return means[labels] + noise, labels


def seen(skew, m=20_000, seed=0):
    """What a server sees in such a mixture, weights that are right, and the clients' rows."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(K, D)) * 5
    held, _ = points(K * EACH, rng, skew, means)
    rows, labels = points(m, rng, skew, means)
    anchors = np.stack([rows[labels == h].mean(axis=0) for h in range(K)])
    return group_about(held, np.full(len(held), m / len(held)), anchors), rows, labels, anchors


def shortened(rows, labels, anchors, radius, kept):
    """Centers of clipped rows, without noise."""
    away = rows - anchors[labels]
    away *= np.minimum(1, radius / np.linalg.norm(away, axis=1))[:, None]
    return anchors + np.stack([away[labels == h].mean(axis=0) for h in range(K)]) / kept


@pytest.mark.parametrize("skew", [False, True])
def test_the_error_foreseen_is_that_of_points_unseen(skew):
    groups, rows, labels, anchors = seen(skew)
    there = np.ones(len(groups.weights), bool)
    for quantile in (0.3, 0.6, 0.9):
        radius = float(np.quantile(groups.residuals, quantile))
        kept = clipping_effect(groups, there, radius)[2]
        off = shortened(rows, labels, anchors, radius, kept) - anchors
        true = (np.bincount(labels) * (off**2).sum(axis=1)).sum()
        found = clipping_error(groups, there, radius, 0.0, 0.0, np.full(K, 1e-9))
        if skew:
            assert true / 2.5 < found < true * 2.5
        else:
            # Nothing but the samples' own errors, which are far below what a tail costs.
            other = seen(True)[0]
            far = float(np.quantile(other.residuals, quantile))
            tail = clipping_error(other, there, far, 0.0, 0.0, np.full(K, 1e-9))
            assert found < 0.3 * tail


def test_clipping_keeps_of_a_small_move_what_is_said():
    """Rows of norm 1 in all directions, moved by .01 and clipped to half: so much of the move is left."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(200_000, 4))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    groups = group_about(rows, np.ones(len(rows)), np.zeros((1, 4)))
    share, _, kept = clipping_effect(groups, np.ones(len(rows), bool), 0.5)
    moved = rows + np.array([0.01, 0, 0, 0])
    clipped = moved * np.minimum(1, 0.5 / np.linalg.norm(moved, axis=1))[:, None]
    left = (clipped.mean(axis=0) - (0.5 * rows).mean(axis=0))[0] / 0.01
    assert left == pytest.approx(kept, rel=0.02)
    # What lengths alone would say is a third more.
    assert share.mean() > 1.3 * left


def aggregator(noise=1.0, **more):
    """Of a plan for a mixture, and what its server sees."""
    rng = np.random.default_rng(1)
    groups, rows, _, _ = seen(more.pop("skew", False))
    held, _ = points(K * EACH, rng, False, groups.anchors)
    data = Federation.from_arrays(np.array_split(rows, 5), server_points=held)
    plan = FedDPKMeans(K, noise, 1e-6, **more).plan(PublicFacts.of(data))
    return Aggregator(plan, SeededCoins(0, "server"), rng), groups


def chosen(epsilon, skew, **more):
    one, groups = aggregator(epsilon, skew=skew, **more)
    reach, _ = one.reach(groups, 1)
    return float(np.mean(groups.residuals * one.plan.scale <= reach))


def test_rows_are_clipped_closer_where_noise_counts_more_and_tails_less():
    tight, wide = chosen(0.02, False), chosen(50.0, False)
    assert tight < 0.5
    assert wide > 0.8
    assert chosen(1.0, True) > chosen(1.0, False)
    # Without weights that count points nothing is known of the noise beside them.
    assert chosen(0.02, False, start=ServerLloyds()) == pytest.approx(0.85, abs=0.01)
    assert chosen(0.02, False, neighbors=Neighbors(unit="client"), rows_per_client=4000) < 0.5


def test_where_rows_are_clipped_depends_on_public_points_and_weights_alone():
    one, groups = aggregator()
    assert one.reach(groups, 1) == one.reach(replace(groups), 1)
    # Weights of all weigh in: those that were dropped to find clusters say how far rows lie.
    lone = groups.weights * (np.arange(len(groups.weights)) < 2 * K)
    points_ = groups.anchors[groups.labels] + groups.away
    assert one.reach(reweighted_groups(groups, points_, lone), 1) != one.reach(groups, 1)
