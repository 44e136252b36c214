"""Steps by tiles of rows are those of distances to every center, whatever came before them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field.ring.quantize import FRACTION
from secfc.kmeans import loop
from secfc.kmeans.loop import PlainSource, RoundedSource, lloyd
from secfc.kmeans.splitting import Splitting
from secfc.roles.exchange import run_alone
from tests.nightly import trials


def both_ways(work):
    """What comes out by tiles, and by distances of all points to all centers."""
    found = []
    for few in (1, 2**60):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(loop, "FEW_VALUES", few)
            found.append(work())
    return found


@trials(15)
@given(
    st.integers(1, 300),
    st.integers(1, 5),
    st.integers(1, 6),
    st.sampled_from([2, 2**15 - 1, 2**20, 2**52]),
    st.booleans(),
    st.integers(0, 2**32),
)
def test_steps_by_tiles_are_steps_by_distances(m, d, k, largest, rounded, seed):
    rng = np.random.default_rng(seed)
    points = rng.integers(-largest, largest, (m, d), endpoint=True)
    starts = [rng.integers(-1, k, m).astype(np.int32) for _ in range(2)]

    def work():
        source = PlainSource(points)
        assert (source.tiles is not None) == (loop.FEW_VALUES == 1 and largest < 2**52)
        source = RoundedSource(source, FRACTION) if rounded else source
        # One source, from two starts in turn: sums of the last step are of no use for the other one's.
        traces = [run_alone(lloyd(start, k, 4, source)) for start in (*starts, starts[0])]
        split = run_alone(Splitting().draw_labels(m, min(k, m), np.random.default_rng(1), source))
        return [(*t.history, t.within, t.converged) for t in traces], split

    (tiled, split), (plain, other) = both_ways(work)
    assert (split == other).all()
    for one, two in zip(tiled, plain, strict=True):
        assert one[-2:] == two[-2:]
        assert all((a == b).all() for a, b in zip(one[:-2], two[:-2], strict=True))


def test_sums_follow_the_rows_that_move():
    # The second step begins with sums that the first one left: false ones there move rows elsewhere.
    rng = np.random.default_rng(3)
    points, start = rng.integers(-99, 99, (300, 2)), rng.integers(0, 3, 300).astype(np.int32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "FEW_VALUES", 1)
        source, true = PlainSource(points), PlainSource(points)
        first = run_alone(source.take_step(start, 3)).labels
        labels, sums, sizes = source._last
        assert labels is first
        assert (sums == true.sum_clusters(first, 3)).all()
        assert (sizes == np.bincount(first)).all()
        source._last = labels, sums[::-1].copy(), sizes
        assert (
            run_alone(source.take_step(first, 3)).labels != run_alone(true.take_step(first, 3)).labels
        ).any()
