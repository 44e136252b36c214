"""A18: one client moves centers of sums where it likes, and reads a row that three sums tell together.

A client may have any rows, and others in each step: many of them take a center along.  Of two clusters it
first has A, B and the row that it reads in the second one, then A and the row, then B and the row.  Any two
of these differ by many rows of many clients, so a floor lets them, and all numbers of rows in cells are
true.  The second and third less the first are the row alone.
"""

from unittest import mock

import numpy as np
import pytest

import secfc
from secfc.attacks.views import View
from secfc.errors import InputError
from secfc.federated.model import bunch_rows
from secfc.federated.plan import FederatedPlan
from secfc.federated.views import added_values, told_values

M, A, B, ROW = (0.0, -6.0), (-4.0, 6.0), (4.0, 6.0), (0.25, 6.5)
# Borders of the second step and the third: a direction, and from where on along it.
BORDERS = ((-1.0, 0.5), 1.0), ((1.0, 0.5), 1.0)
MADE_UP = 1000  # rows of a cluster that it has where it likes


def parts(bunch=1):
    rng = np.random.default_rng(1)
    others = [
        np.repeat([M, A, B], [14, 12, 12], axis=0) + rng.integers(-8, 9, (38, 2)) / 64 for _ in range(3)
    ]
    others[2] = np.vstack([others[2], ROW])
    return [np.full((2 * MADE_UP, 2), M), *(bunch_rows(each, bunch) for each in others)]


def read(floor, bunch=1, *, steers=True):
    """What client 0 makes of three sums by the second cluster: features of rows, and how many."""
    borders, pack = iter(BORDERS), FederatedPlan.block

    def steer(plan, client, sums, counts):
        if client == "client-0" and len(counts) == 2 and steers and (border := next(borders, None)):
            along, begin = np.array(border[0]), border[1]
            aside = 6 * along / np.linalg.norm(along)
            at = along * begin / (along @ along) + np.stack([-aside, aside])
            sums = np.rint(at * plan.quantizer.scale).astype(np.int64) * MADE_UP
            counts = np.full(2, MADE_UP)
        return pack(plan, client, sums, counts)

    with mock.patch.object(FederatedPlan, "block", steer):
        way = secfc.FederatedLloyd(2, floor=floor, start=[[0, -3], [0, 9]], max_iter=4)
        data = secfc.Federation.from_arrays(parts(bunch))
        result = secfc.fit(way, data, bound=16.0, keep_bodies=True)
    view = View.of(result, result.plan, "client-0")
    told, own = told_values(view), added_values(view, "client-0")
    opened = [np.asarray(next(iter(told[n].values())) - own[n])[:7] for n in sorted(told)]
    # Sums by two clusters, and how many rows: others are numbers of rows in cells.
    first, *later = (np.append(x[2:4], x[5]) for x in opened if len(x) == 7 and x[4:6].sum() == 115)
    if len(later) < 2:
        return None
    found = later[0] + later[1] - first
    return tuple(found[:2] / result.plan.quantizer.scale), int(found[2])


@pytest.mark.parametrize("floor", [10, 1])
def test_a_floor_holds_for_two_sums_and_three_that_a_client_steers_tell_a_row(floor):
    assert read(floor) == (ROW, 1)


def test_without_lies_the_same_run_ends_after_a_step():
    assert read(10, steers=False) is None


def test_rows_that_a_client_bunched_itself_are_told_by_no_sums():
    assert read(1, bunch=10)[1] >= 10


@pytest.mark.parametrize("rows", [1, 3, 10, 20, 21])
def test_bunches_have_rows_enough_and_depend_on_no_order(rows):
    rng = np.random.default_rng(rows)
    points = rng.integers(-3, 4, (41, 3)) / 2
    bunched = bunch_rows(points, rows)
    _, counts = np.unique(bunched, axis=0, return_counts=True)
    assert counts.min() >= rows
    np.testing.assert_allclose(bunched.mean(axis=0), points.mean(axis=0), atol=1e-12)
    order = rng.permutation(41)
    assert (bunch_rows(points[order], rows) == bunched[order]).all()
    # Control: rows that are together are near.
    assert ((points - bunched) ** 2).sum() <= ((points - points.mean(axis=0)) ** 2).sum()


@pytest.mark.parametrize("rows", [0, 42])
def test_bunches_of_more_rows_than_there_are_are_refused(rows):
    with pytest.raises(InputError, match=f"rows={rows}: a bunch has from 1 to all m=41 rows"):
        bunch_rows(np.zeros((41, 2)), rows)
