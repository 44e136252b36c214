"""A start on samples of rows, and mini-batches: exact to plaintext on the same rows."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from secfc import Sampled
from secfc.algorithm import PublicFacts
from secfc.data import row_tiles
from secfc.errors import InputError
from secfc.federated import model
from secfc.federated.algorithm import FederatedLloyd
from secfc.federated.model import KnownCenters, nearest_offered, sums_of
from secfc.federated.starts import SampledRows
from tests.nightly import trials
from tests.secfc.federated.test_course import blobs, least_of_pairs, opened_labels, play, twin


def places_of(result):
    """The rows of all clients in each sample of a run, by their places among all."""
    plan, first, found = result.plan, 0, []
    for name, own in zip(plan.clients, result.labels, strict=True):
        drawn = plan.start.draw_places(plan.seed.to_bytes(32, "little"), name, len(own), plan.m)
        found.append([first + places for places in drawn])
        first += len(own)
    return [np.concatenate(places) for places in zip(*found, strict=True)]


def plain_history(points, result, way, seed):
    """Labels of plaintext Lloyd after samples and mini-batches in plaintext: of every step over all rows."""
    scale, k = result.plan.quantizer.scale, way.k
    whole, samples = np.rint(points * scale).astype(np.int64), places_of(result)
    sample = twin(result, secfc.Federation.from_arrays([points[samples[0]]]), seed=seed, k=k, max_iter=300)
    sums, counts = sums_of(whole[samples[0]], sample.history[-1], k)
    known = KnownCenters(sums, np.repeat(counts[:, None], points.shape[1], 1), counts > 0)
    for places in samples[1:]:
        more = sums_of(whole[places], nearest_offered(whole[places], known), k)
        sums, counts = sums + more[0], counts + more[1]
        known = known.update_centers(sums, np.repeat(counts[:, None], points.shape[1], 1), counts > 0)
    first = nearest_offered(whole, known)
    quantization = secfc.Quantization(scale=scale, coarse="allow")
    lloyd = secfc.Lloyd(k, init=secfc.GivenLabels(first), max_iter=way.max_iter, quantization=quantization)
    return secfc.fit(lloyd, secfc.Federation.from_arrays([points]))


@trials(4)
@given(
    st.integers(3, 5), st.integers(60, 400), st.integers(1, 3), st.integers(1, 6), st.integers(0, 3),
    st.integers(0, 2**16), st.booleans(), st.booleans(),
)  # fmt: skip
def test_labels_are_those_of_plaintext_on_the_same_samples(n, m, d, k, batches, seed, whole, blind):
    rng = np.random.default_rng(seed)
    points = rng.integers(-3, 4, (m, d)).astype(float) if whole else blobs(m, d, k, seed, apart=1.0)[0]
    data = secfc.Federation.from_arrays(np.array_split(points, n))
    way = FederatedLloyd(k, Sampled(30, batches), max_iter=20, blind=blind, coarse="allow")
    result = secfc.fit(way, data, seed=seed)
    samples = places_of(result)
    assert len(samples) == 1 + min(batches, m // 30 - 1)
    plain = plain_history(points, result, way, seed)
    for ours, theirs in zip(result.history, plain.history, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (result.n_iter, result.converged) == (plain.n_iter, plain.converged)
    np.testing.assert_allclose(result.centers, plain.centers)


def test_samples_are_drawn_by_coins_that_clients_share_and_no_row_is_in_two():
    start, seed = Sampled(1000, 7), bytes(range(32))
    drawn = [start.draw_places(seed, name, 40_000, 120_000) for name in "abc"]
    assert {len(own) for own in drawn} == {8}
    for own in drawn:
        both = np.concatenate(own)
        assert len(np.unique(both)) == len(both)
        assert all((np.diff(places) > 0).all() for places in own)
        # Of 120 samples each has 333 rows of a client in the mean, and a deviation of 18.
        assert all(150 < len(places) < 550 for places in own)
    again = start.draw_places(seed, "a", 40_000, 120_000)
    assert all((x == y).all() for x, y in zip(drawn[0], again, strict=True))
    # Others at another client, and of another seed.
    for other in (drawn[1], start.draw_places(bytes(32), "a", 40_000, 120_000)):
        assert not any(np.array_equal(x, y) for x, y in zip(drawn[0], other, strict=True))
    # As many mini-batches as there are rows for.
    assert len(start.draw_places(seed, "a", 900, 2900)) == 2
    assert len(start.draw_places(seed, "a", 900, 900)[0]) == 900


def test_a_step_of_a_sample_goes_through_no_other_row(monkeypatch):
    monkeypatch.setattr(model, "FEW_VALUES", 1)
    points = blobs(6000, 2, 4, 0)[0]
    data, passes = secfc.Federation.from_arrays(np.array_split(points, 3)), []
    swept, summed = row_tiles.RowTiles.label_rows, row_tiles.RowTiles.sum_rows

    def count(of):
        def counting(tiles, *more):
            passes.append(tiles.shape[0])
            return of(tiles, *more)

        return counting

    monkeypatch.setattr(row_tiles.RowTiles, "label_rows", count(swept))
    monkeypatch.setattr(row_tiles.RowTiles, "sum_rows", count(summed))
    found = {}
    for start in (None, Sampled(200, 2)):
        passes.clear()
        result = secfc.fit(FederatedLloyd(4, start), data, seed=0)
        found[start] = sum(passes) / 6000
        # Labels of each step over all rows, and sums of the first; then sums of rows that moved.
        steps = len(result.details.counted) - 1 if start is None else len(result.history)
        assert passes.count(2000) == 3 * (steps + 1)
    assert found[None] > 3 * found[Sampled(200, 2)]


@pytest.mark.parametrize(("floor", "n_init"), [(1, 2), (3, 1)])
def test_rows_in_tiles_start_on_the_samples_of_rows_in_memory(monkeypatch, floor, n_init):
    data = secfc.Federation.from_arrays(np.array_split(blobs(3000, 2, 4, 0)[0], 4))
    way = FederatedLloyd(4, Sampled(400, 2), floor=floor, n_init=n_init)
    expected = secfc.fit(way, data, seed=0)
    monkeypatch.setattr(model, "FEW_VALUES", 1)
    monkeypatch.setattr(row_tiles, "BATCH_BYTES", 1)
    monkeypatch.setattr(row_tiles.RowTiles.__init__, "__kwdefaults__", {"held": 0})
    result = secfc.fit(way, data, seed=0)
    assert (result.flat == expected.flat).all()
    assert result.cost == expected.cost
    assert (result.cost is None) == (n_init == 1)


@pytest.mark.parametrize("batches", [0, 2])
def test_a_floor_holds_between_openings_of_samples_and_of_all_rows(monkeypatch, batches):
    points = np.random.default_rng(1).normal(size=(2400, 2))
    parts = np.split(points, (700, 1500))
    owners = np.repeat(range(3), list(map(len, parts)))
    way = FederatedLloyd(3, Sampled(600, batches), floor=3, max_iter=6, t=1)
    opened, result = opened_labels(monkeypatch, parts, way)
    ours, labels, held = play(result.plan, parts, 3, 1)
    np.testing.assert_array_equal(result.flat, labels)
    assert result.held == held
    assert len(opened) == len(ours) > 4
    for one, other in zip(opened, ours, strict=True):
        np.testing.assert_array_equal(np.where(one < 0, one.max() + 1, one), other)
    assert least_of_pairs(ours, owners, 1) >= 3
    # Control: without a floor single rows differ.
    assert least_of_pairs(play(result.plan, parts, 1, 0)[0], owners, 0) < 3


@pytest.mark.parametrize(
    ("way", "message"),
    [
        (lambda: FederatedLloyd("auto", Sampled()), "chooses no k"),
        (lambda: FederatedLloyd(40, Sampled(30)), "k=40 of a sample of 30 rows"),
        (lambda: FederatedLloyd(3, Sampled(100), floor=5), "beside the rows of any t=1 of the clients"),
        (lambda: Sampled(29), "rows=29 of a sample"),
        (lambda: Sampled(100, -1), "batches=-1"),
    ],
)
def test_samples_that_cannot_be_are_refused(way, message):
    data = secfc.Federation.from_arrays(np.array_split(blobs(400, 2, 3, 0)[0], 4))
    with pytest.raises(InputError, match=message):
        secfc.fit(way(), data)


def test_a_floor_takes_samples_that_hold_it_without_those_that_are_lost_and_one_of_all_rows():
    public = PublicFacts(tuple("abcd"), (1000,) * 4, 2, 8.0)
    way = FederatedLloyd(2, Sampled(300), floor=5, coarse="allow")
    with pytest.raises(InputError, match="some 153, and 200 are needed"):
        way.plan(public)
    for more in ({"losses": 0}, {"start": Sampled(400)}):
        assert dataclasses.replace(way, **more).plan(public).floor > 1
    few = dataclasses.replace(public, counts=(60,) * 4)
    assert dataclasses.replace(way, start=Sampled(240)).plan(few).floor > 1


@pytest.mark.parametrize("floor", [1, 10])
def test_plans_foretell_starts_on_samples(floor):
    way = FederatedLloyd(3, Sampled(2000, 3), floor=floor)
    assert secfc.plan(way, n=3, m=100_000_000, d=2, bound=64.0).plan.start == Sampled(2000, 3)


def test_rows_that_a_floor_keeps_in_sums_are_summed_whether_or_not_a_sample_has_them():
    points = np.random.default_rng(0).integers(-9, 9, (12, 2))
    drawn = SampledRows(model.ClientRows([(0, points)], points.shape, 9), [np.arange(5)])
    for last in (5, 12):
        labels = np.where(np.arange(12) < last, 0, -1).astype(np.int32)
        sums, counts = drawn.sum_rows(labels, 1)
        assert (sums[0].tolist(), counts.tolist()) == (points[:last].sum(axis=0).tolist(), [last])
