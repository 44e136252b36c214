"""No neighbor moves what clients add to any secure sum farther than the plan's noise is made for.

Statistics as clients make them, with all their clipping, for every release of both variants, both units and
both relations: points along axes and diagonals and far out, clients full of one of them or of all.  Sums are
integers, so these are inequalities without tolerance; those of the sensitivities' own floats apart.
"""

from dataclasses import replace

import numpy as np
import pytest

from secfc.algorithm import PublicFacts
from secfc.data.federation import Federation
from secfc.feddp import OURS, PAPER, FedDPKMeans
from secfc.feddp.clients import ClientStatistics
from secfc.feddp.noise import Laplace
from secfc.feddp.statistics import UNIT
from secfc.privacy import Neighbors
from tests.nightly import covering

D, K, ROWS = 4, 3, 30
RNG = np.random.default_rng(0)
HELD = RNG.uniform(-1, 1, (40, D))
CENTERS = np.array([[0.6, 0, 0, 0], [0, 0.6, 0, 0], [-0.5, -0.5, 0, 0.2]])
STEPS = ("outer product", "weights", "choice", "groups", "a step of FedDP-Lloyds")

# Rows about the origin, in data units.
POINTS = [
    *(sign * size * np.eye(D)[axis] for axis in (0, 1) for sign in (1, -1) for size in (50, 0.7)),
    np.array([50, 50, 0, 0]), np.full(D, 50), np.full(D, -50), RNG.standard_normal(D) * 50, np.zeros(D),
]  # fmt: skip
CLIENTS = [
    *(np.tile(point, (ROWS, 1)) for point in POINTS),
    *(np.repeat([one, other], ROWS // 2, axis=0) for one in POINTS[:3] for other in POINTS[8:10]),
    np.array(POINTS), POINTS[0][None, :],
]  # fmt: skip


def planned(variant, neighbors):
    rows = ROWS if neighbors.unit == "client" else None
    one = FedDPKMeans(
        K, 1.0, 1e-6, variant=variant, neighbors=neighbors, rows_per_client=rows, steps=1, bound=1.0
    )
    arrays = [np.zeros((5, D))] * 4
    return one.plan(PublicFacts.of(Federation.from_arrays(arrays, server_points=HELD)))


def release(plan, step):
    """Its parts, and what a client of these rows about the origin adds to it: a vector a part."""
    projection, origins = np.eye(D)[:, :K], CENTERS * plan.variant.residuals
    reach = plan.reach // 2 if plan.variant.residuals else plan.reach
    # Farther from one start than the cap, and from the other by less.
    starts, cap = np.stack([CENTERS, -CENTERS]), plan.reach**2 // 2
    few, many = (3 * UNIT,), (reach // 2, UNIT)[: 1 if plan.variant.joint else 2]
    parts, bounds, statistic = {
        "outer product": (plan.outer_parts(), (plan.outer_bound,), lambda s: s.outer()),
        "weights": (plan.weight_parts(few), few, lambda s: s.weights(projection, plan.points @ projection)),
        "choice": (
            plan.choice_parts(2, cap, (cap,)) if plan.variant.chosen else [], (cap,),
            lambda s: s.sum_advantages(starts, cap),
        ),
        "groups": (
            plan.group_parts(0, K, reach, many), many,
            lambda s: s.groups(projection, CENTERS @ projection, origins, reach),
        ),
        "a step of FedDP-Lloyds": (
            plan.group_parts(1, K, reach, many), many, lambda s: s.groups(None, CENTERS, origins, reach),
        ),
    }[step]  # fmt: skip

    def added(rows):
        one = ClientStatistics(plan, rows + plan.origin)
        return one.shorten_to_bounds(parts, statistic(one), bounds)

    return parts, added


def farthest(plan, step, relation):
    """For every part of a release: by how much neighbors move it at most, in the norm of its noise."""
    parts, added = release(plan, step)
    # What a data point adds does not depend on the rows beside it, so each is a client of its own here.
    units = CLIENTS if plan.by_client else [point[None, :] for point in POINTS]
    found = [added(rows) for rows in units]
    most = []
    for i, part in enumerate(parts):
        vectors = [vectors[i].astype(object) for vectors in found]
        others = [0 * vectors[0]] if relation == "add/remove" else vectors
        moves = [one - other for one in vectors for other in others]
        if isinstance(part.noise, Laplace):
            most.append(float(max(np.abs(move).sum() for move in moves)))
        else:
            most.append(max(int((move * move).sum()) for move in moves) ** 0.5)
    return parts, most


@pytest.mark.parametrize(
    ("step", "unit", "variant"), covering(STEPS, ["data point", "client"], [OURS, PAPER])
)
def test_no_release_moves_farther_than_its_noise_is_made_for(variant, unit, step):
    if step == "choice" and not variant.chosen:
        pytest.skip("the paper has no such step")
    for relation in ("add/remove", "replace"):
        parts, most = farthest(planned(variant, Neighbors(relation, unit)), step, relation)
        for part, moved in zip(parts, most, strict=True):
            assert moved <= part.sensitivity * (1 + 1e-12)
            # And is not made for much more.  A client's bound on what cannot point both ways is doubled.
            assert moved > 0.6 * part.sensitivity
    # Control: noise for a unit more or less does not cover one with other values.
    parts, most = farthest(planned(variant, Neighbors("add/remove", unit)), step, "replace")
    assert all(moved > 1.2 * part.sensitivity for part, moved in zip(parts, most, strict=True))


@pytest.mark.parametrize("relation", ["add/remove", "replace"])
def test_the_outer_product_moves_by_a_radius_of_its_own(relation):
    plan = planned(replace(OURS, quantile=0.1), Neighbors(relation))
    assert plan.outer_reach < 0.9 * plan.reach
    (part,), (moved,) = farthest(plan, "outer product", relation)
    assert 0.6 * part.sensitivity < moved <= part.sensitivity * (1 + 1e-12)
    # Control: rows that are as long as others may be would move it farther.
    wide = replace(plan, outer_reach=plan.reach)
    _, (farther,) = farthest(wide, "outer product", relation)
    assert farther > part.sensitivity


def test_what_a_data_point_adds_does_not_depend_on_the_rows_beside_it():
    plan = planned(OURS, Neighbors())
    for step in STEPS:
        _, added = release(plan, step)
        alone = [added(point[None, :]) for point in POINTS]
        for i, together in enumerate(added(np.array(POINTS))):
            assert (together == sum(vectors[i] for vectors in alone)).all()
