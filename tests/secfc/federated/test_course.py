"""What everybody does next from totals alone: exact, whoever holds which row, and nothing to the server."""

import copy
import dataclasses
import itertools
import tracemalloc
from collections import Counter
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field.kernels import labeling
from secfc import pipeline, report
from secfc.algorithm import PublicFacts
from secfc.attacks.views import View
from secfc.data import inputs, row_tiles
from secfc.errors import FaultyServer, InputError, SuspectedParties, TooFewReplies
from secfc.federated import algorithm, model
from secfc.federated import plan as plan_module
from secfc.federated.algorithm import FederatedLloyd
from secfc.federated.columns import Columns
from secfc.federated.course import Totals, find_light
from secfc.federated.model import nearest_offered, sum_of_squares, sums_of
from secfc.federated.plan import FederatedPlan
from secfc.federated.views import added_values, others_sums, told_values
from secfc.kmeans.splitting import Splitting
from secfc.roles.description import MAXIMUM
from secfc.roles.exchange import ITERATE, SERVER, STRIDE
from secfc.secure_sum import plan as sums_plan
from tests.nightly import by_night, trials

START = Splitting(merge="any")


def twin(result, data, *, seed, **values):
    """Plaintext Lloyd on the same integers, from the same start."""
    quantization = secfc.Quantization(scale=result.plan.quantizer.scale, coarse="allow")
    way = secfc.Lloyd(init=START, quantization=quantization, **values)
    return secfc.fit(way, data, seed=seed)


def assert_same(result, plain):
    assert len(result.history) == len(plain.history)
    for ours, theirs in zip(result.history, plain.history, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (result.k, result.n_iter, result.converged) == (plain.k, plain.n_iter, plain.converged)
    np.testing.assert_allclose(result.centers, plain.centers)


def blobs(m, d, k, seed, apart=6.0):
    rng = np.random.default_rng(seed)
    middle = apart * rng.normal(size=(k, d))
    truth = rng.integers(0, k, m)
    return middle[truth] + rng.normal(size=(m, d)), truth


@trials(5)
@given(
    st.integers(3, 6), st.integers(1, 40), st.integers(1, 4), st.integers(1, 9), st.integers(0, 2**16),
    st.booleans(), st.integers(1, 3), st.booleans(),
)  # fmt: skip
def test_labels_are_those_of_plaintext_at_every_step(n, m, d, k, seed, whole, n_init, blind):
    # Whole numbers on a small grid make ties, duplicates, empty clusters and splits that gain nothing.
    rng = np.random.default_rng(seed)
    m = max(m, n, k)
    points = rng.integers(-2, 3, (m, d)).astype(float) if whole else rng.normal(size=(m, d))
    data = secfc.Federation.from_arrays(np.array_split(points, n))
    way = FederatedLloyd(k, n_init=n_init, blind=blind, max_iter=40, coarse="allow")
    result = secfc.fit(way, data, seed=seed)
    plain = twin(result, data, seed=seed, k=k, n_init=n_init, max_iter=40)
    assert_same(result, plain)
    # Squares are summed where costs are compared, and only there.
    assert result.cost == (plain.cost if n_init > 1 else None)


# By default the scale is finer where no client has many rows.
@pytest.mark.parametrize(
    "way", [FederatedLloyd(3, scale=2.0**11), FederatedLloyd("2..5", scale=2.0**11)], ids=["k", "chosen"]
)
def test_who_holds_which_row_changes_nothing(way):
    points, truth = blobs(24, 3, 3, 1)
    orders = {
        "dealt": np.arange(24),
        "sorted": np.argsort(truth, kind="stable"),
        "one": np.arange(24),
    }
    found = {}
    for name, order in orders.items():
        parts = np.array_split(points[order], 24 if name == "one" else 4)
        result = secfc.fit(way, secfc.Federation.from_arrays(parts), seed=2)
        assert result.k == 3
        found[name] = np.empty(24, np.int32)
        found[name][order] = result.flat
    assert (found["dealt"] == found["sorted"]).all()
    assert (found["dealt"] == found["one"]).all()


def test_k_is_chosen_by_the_costs_of_plaintext_and_costs_are_exact():
    points, _ = blobs(80, 3, 4, 3)
    data = secfc.Federation.from_arrays(np.array_split(points, 5))
    result = secfc.fit(FederatedLloyd("auto"), data, seed=4)
    plain = twin(result, data, seed=4, k="auto")
    assert_same(result, plain)
    assert result.curve.costs == plain.curve.costs
    whole = np.rint(data.stacked() * result.plan.quantizer.scale).astype(np.int64)
    exact = Fraction(0)
    for h in range(result.k):
        rows = [[Fraction(int(x)) for x in row] for row in whole[result.flat == h]]
        means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
        exact += sum((x - mu) ** 2 for row in rows for x, mu in zip(row, means, strict=True))
    assert result.cost == float(exact / Fraction(result.plan.quantizer.scale) ** 2)


def silhouettes_of(whole, labels):
    """Simplified silhouettes (m,) by labels, from differences to means."""
    rows, means = np.arange(len(whole)), np.stack([whole[labels == h].mean(axis=0) for h in set(labels)])
    apart = np.linalg.norm(whole[:, None] - means, axis=2)
    near = apart[rows, labels]
    apart[rows, labels] = np.inf
    far = apart.min(axis=1)
    return (far - near) / np.maximum(near, far)


@pytest.mark.parametrize("blind", [True, False])
@pytest.mark.parametrize(("k", "spread"), [("5..5", 3.0), ("4..4", 0.5), ("2..7", 3.0)])
def test_the_silhouette_of_the_clusters_in_the_end_is_that_of_plaintext(k, spread, blind):
    points = blobs(120, 3, 4, 3)[0] + spread * np.random.default_rng(1).normal(size=(120, 3))
    data = secfc.Federation.from_arrays(np.array_split(points, 5))
    result = secfc.fit(FederatedLloyd(k, blind=blind, max_iter=2), data, seed=4)
    whole = np.rint(data.stacked() * result.plan.quantizer.scale)
    total = np.rint(2.0**20 * silhouettes_of(whole, result.flat)).astype(np.int64).sum()
    assert result.curve.silhouette == int(total) / (120 << 20)
    assert f"in the end is {result.curve.silhouette:.2f}" in result.curve.words
    only, heard = k[0] == k[-1], result.plan.terms.way.account(result, data).heard[0]
    said = "the mean silhouette of rows" + " for each number of clusters, and" * (not only) + " in the end"
    assert said in heard
    assert (said in result.learned[0]) == (not blind)
    assert (result.curve.silhouettes == ()) == only
    if only:  # as where k is a number, but for one question, and squares
        plain = secfc.fit(FederatedLloyd(result.k, blind=blind, max_iter=2), data, seed=4)
        assert (result.flat == plain.flat).all()
        assert len(result.details.counted) == len(plain.details.counted) + 1
        assert "silhouette" not in plain.plan.terms.way.account(plain, data).heard[0]


def test_no_silhouette_where_one_cluster_has_all_rows():
    data = secfc.Federation.from_arrays([np.ones((6, 2))] * 3)
    result = secfc.fit(FederatedLloyd("2..2"), data, seed=0, bound=2.0)
    assert result.curve.silhouette is None
    assert set(result.flat) == {0}


@pytest.mark.parametrize("blind", [True, False])
def test_silhouettes_of_each_k_are_those_of_plaintext(monkeypatch, blind):
    points = blobs(120, 3, 4, 3)[0]
    data, judged = secfc.Federation.from_arrays(np.array_split(points, 5)), []
    summed = model.ClientRows.sum_silhouettes

    def sum_silhouettes(rows, labels, levels):
        judged.append((rows.points, labels))
        return summed(rows, labels, levels)

    monkeypatch.setattr(model.ClientRows, "sum_silhouettes", sum_silhouettes)
    result = secfc.fit(FederatedLloyd("2..8", blind=blind), data, seed=4)
    assert len(judged) == 10
    whole, finest = (np.concatenate(part) for part in zip(*judged[:5], strict=True))
    assert len(result.curve.silhouettes) == 7
    for k, (found, groups) in enumerate(zip(result.curve.silhouettes, result.curve.levels, strict=True), 2):
        labels = groups[finest]
        assert sorted(set(labels)) == list(range(k))
        assert abs(silhouettes_of(whole, labels).mean() - found) <= 2.0**-21 + 1e-12
    chosen = result.curve.levels[result.k - 2]
    assert (chosen[finest] == result.history[0]).all()
    assert "silhouette is largest at k = 4" in result.curve.words
    assert ("silhouette" in result.learned[0]) == (not blind)


@pytest.mark.parametrize(("rows", "scale"), [(3, 1.0), (40, 1.0), (40, 1 / 64)])
def test_silhouettes_of_few_rows_or_coarse_steps_fit_the_bound_of_a_sum(rows, scale):
    points = np.random.default_rng(0).integers(-1, 2, (3 * rows, 2)) / scale
    data = secfc.Federation.from_arrays(np.array_split(points, 3))
    way = FederatedLloyd("2..4", scale=scale, coarse="allow")
    assert all(0 < found <= 1 for found in secfc.fit(way, data, seed=0, bound=1 / scale).curve.silhouettes)


def test_sums_of_one_row_each_have_digits_of_squares():
    data = secfc.Federation.from_arrays([np.array([[x]]) for x in (-1.0, 0.0, 1.0)])
    assert secfc.fit(FederatedLloyd(3, n_init=2, scale=1.0, coarse="allow"), data, bound=1.0).cost == 0


def test_a_floor_asks_for_no_silhouettes_which_it_would_not_cover():
    points = blobs(120, 3, 4, 3)[0]
    data = secfc.Federation.from_arrays(np.array_split(points, 5))
    assert secfc.fit(FederatedLloyd("2..8", floor=2, t=1), data, seed=4).curve.silhouettes == ()


@pytest.mark.parametrize("shift", [0, 1 << 30])
def test_rows_in_tiles_and_of_several_clients_are_judged_as_alone(monkeypatch, shift):
    rng = np.random.default_rng(0)
    points, labels = rng.integers(0, 1000, (700, 3)) + shift, rng.integers(0, 4, 700).astype(np.int32)
    means = np.stack([points[labels == h].mean(axis=0) for h in range(4)])
    levels = [(np.array([0, 1, 0, 1]), means[:2]), (np.arange(4), means)]
    alone = model.judge_rows(points, labels, levels)
    assert alone[-1] == 700
    each = model.CrowdRows(
        [model.ClientRows([(0, part)], part.shape, 1 << 31) for part in (points[:5], points[5:])], 1 << 31
    )
    assert (each.sum_silhouettes(labels, levels).sum(axis=0) == alone).all()
    monkeypatch.setattr(model, "FEW_VALUES", 1)
    monkeypatch.setattr(row_tiles, "BATCH_BYTES", 1)
    tiles = model.ClientRows([(0, points)], points.shape, 1 << 31)
    assert (tiles.sum_silhouettes(labels, levels) == alone).all()
    # Rows of a cluster that nobody counted had a row of are of no group.
    gone = [(np.array([0, -1, 0, 1]), means[:2]), (np.array([0, -1, 1, 2]), means[:3])]
    kept = labels != 1
    assert (
        model.judge_rows(points, labels, gone) == model.judge_rows(points[kept], labels[kept], gone)
    ).all()
    # A row at its center and at no other has 1; one at equal distances 0.
    two = [(np.arange(2), np.array([[0.0], [2.0]]))]
    assert model.judge_rows(np.array([[0], [1], [2]]), np.array([0, 0, 0]), two).tolist() == [0, 3]
    assert model.judge_rows(np.array([[0]]), np.array([0]), two).tolist() == [1 << 20, 1]


def test_a_run_starts_from_centers_of_an_earlier_one():
    points, _ = blobs(120, 3, 4, 3, apart=1.0)
    parts = np.array_split(points, 4)
    early = secfc.fit(FederatedLloyd(4), secfc.Federation.from_arrays(parts), seed=0)
    again = secfc.fit(FederatedLloyd(4, start=early.centers), secfc.Federation.from_arrays(parts))
    assert (again.flat == early.flat).all()
    assert len(again.details.counted) == 3 < len(early.details.counted)
    (said,) = again.learned
    assert said.endswith("label; the centers that the run starts from, which are in the plan")
    # Of other rows, labels are those of plaintext from the nearest of these centers.
    data = secfc.Federation.from_arrays([part[::-1] + 0.5 for part in parts])
    result = secfc.fit(FederatedLloyd(4, start=early.centers.tolist()), data)
    first = ((data.stacked()[:, None] - early.centers[None]) ** 2).sum(axis=2).argmin(axis=1)
    scale = secfc.Quantization(scale=result.plan.quantizer.scale, coarse="allow")
    assert_same(result, secfc.fit(secfc.Lloyd(4, init=secfc.GivenLabels(first), quantization=scale), data))


@given(st.lists(st.integers(-(2**52), 2**52), min_size=1, max_size=9), st.integers(0, 51))
def test_squares_are_summed_without_a_digit_lost(values, shift):
    points = np.array(values, np.int64)[:, None] >> shift
    assert sum_of_squares(points) == sum(int(x) ** 2 for x in points[:, 0])
    assert sum_of_squares(np.full((3, 2), 2**31 - 1)) == 6 * (2**31 - 1) ** 2


# --- what the server sees


def seen(points, *, blind=True, seed=0):
    data = secfc.Federation.from_arrays(np.array_split(points, 4))
    result = secfc.fit(FederatedLloyd(3, blind=blind), data, seed=seed, keep_bodies=True)
    view = View.of(result, result.plan, SERVER)
    told = [e.body.values[0] for e in view.messages if e.kind == "SharedTotals" and e.recipient == "client-1"]
    return result, view, np.concatenate(told).astype(float) / result.plan.sums.code.basis.primes[0]


def test_under_pads_the_server_sees_uniform_residues_and_else_sums():
    from scipy.stats import chi2

    points, _ = blobs(30, 6, 3, 5)

    def statistic(**more):
        values = np.concatenate([seen(points, seed=seed, **more)[2] for seed in range(2)])
        found = np.bincount((values * 16).astype(int), minlength=16)
        return float(((found - len(values) / 16) ** 2).sum() / (len(values) / 16))

    assert statistic() < chi2.isf(1e-9, 15)
    # Control: sums themselves are nothing like uniform.
    assert statistic(blind=False) > chi2.isf(1e-9, 15)
    result, view, _ = seen(points)
    assert "RunKey" not in {e.kind for e in view.messages}
    assert not len(others_sums(view).sums)
    of = lambda *who: others_sums(View.of(result, result.plan, (SERVER, *who))).sums  # noqa: E731
    assert of("client-2").any()
    assert (of("client-1") != of("client-2")).any()
    # Two that collude take off what both added: whoever they are, all of it together is one sum.
    one, other = (of("client-1") + of(c) - of("client-1", c) for c in ("client-0", "client-2"))
    assert (one == other).all()
    outcome = FederatedLloyd(3).outcome(result.plan, SERVER, result.details)
    assert (outcome.centers, outcome.n_iter, outcome.share, outcome.cost) == (None, None, None, None)


def test_with_more_clients_than_members_three_numbers_travel_in_one_under_pads_all_the_same():
    from scipy.stats import chi2

    data = secfc.Federation.from_arrays(np.array_split(blobs(36, 6, 2, 5)[0], 18))

    def told_by_server(blind):
        result = secfc.fit(FederatedLloyd(2, blind=blind, coarse="allow"), data, seed=0, keep_bodies=True)
        view = View.of(result, result.plan, SERVER)
        told = [e.body.values for e in view.messages if e.kind == "SharedTotals"]
        whole = View.of(result, result.plan, ("client-0",))
        widths = {e.body.values.shape[1] for e in whole.messages if e.kind == "SumShares"}
        assert result.plan.sums.code.ell == 3
        assert {3 * width for width in widths} == {values.shape[1] for values in told}
        values = np.concatenate([v[0] for v in told[::18]]) / result.plan.sums.code.basis.primes[0]
        found = np.bincount((values * 16).astype(int), minlength=16)
        return float(((found - len(values) / 16) ** 2).sum() / (len(values) / 16)), result

    uniform, under_pads = told_by_server(True)
    plain, opened = told_by_server(False)
    assert uniform < chi2.isf(1e-9, 15) < plain
    assert (under_pads.flat == opened.flat).all()


def test_the_course_tells_totals_and_numbers_of_moving_rows_apart(monkeypatch):
    points = np.random.default_rng(0).normal(size=(120, 2))
    way = FederatedLloyd(3, START, floor=5)
    opened, result = opened_labels(monkeypatch, np.array_split(points, 4), way, keep_bodies=True)
    told = {
        n: next(iter(heard.values()))
        for n, heard in told_values(View.of(result, result.plan, "client-0")).items()
    }
    found = result.plan.count_clusters({n: (values, b"") for n, values in told.items()})
    assert len(found) == len(opened) < len(told)
    whole = np.rint(points * result.plan.quantizer.scale).astype(np.int64)
    for (number, c), labels in zip(found.items(), opened, strict=True):
        np.testing.assert_array_equal(told[number][: 2 * c].reshape(c, 2), sums_of(whole, labels, c)[0])


def test_no_two_pads_are_alike_and_none_is_of_other_clients():
    plan = seen(blobs(40, 2, 3, 0)[0])[0].plan
    key = bytes(range(32))
    pads = [
        plan.draw_pad(k, number, 8, counted).tobytes()
        for k in (key, key[::-1])
        for number in (7, 8)
        for counted in (bytes(32), bytes([1] * 32))
    ]
    assert len(set(pads)) == 8


def test_totals_that_no_rows_have_end_the_run():
    data = secfc.Federation.from_arrays(np.array_split(blobs(40, 2, 3, 0)[0], 4))

    def lying(place, e):
        if e.kind != "SharedTotals":
            return (e,)
        told = e.body.values.copy()
        told[:, place] ^= 1 << 20
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=told)),)

    # Points of a cluster, and clients of which a label changed.
    for (blind, error), place in itertools.product(
        ((True, SuspectedParties), (False, FaultyServer)), (-2, -1)
    ):
        with pytest.raises(error, match="no points have"):
            secfc.fit(FederatedLloyd(3, blind=blind), data, seed=0, faults=partial(lying, place))


@pytest.mark.parametrize(("blind", "floor"), list(itertools.product((True, False), (1, 5))))
def test_for_what_a_client_adds_that_no_rows_have_nobody_blames_the_server_alone(monkeypatch, blind, floor):
    data = secfc.Federation.from_arrays(np.array_split(blobs(40, 2, 3, 0)[0], 4))
    add, told = algorithm.contribute_vector, ITERATE + (floor > 1) * STRIDE + 1

    def lying(plan, me, vector, number, *more, **others):
        # With a floor how many of its rows would move, else how many rows a cluster has.
        vector = vector.copy()
        vector[-1 - (floor == 1)] -= plan.bound // 2 * (me == "client-1" and number == told)
        return add(plan, me, vector, number, *more, **others)

    monkeypatch.setattr(algorithm, "contribute_vector", lying)
    with pytest.raises(SuspectedParties, match="no points have") as found:
        secfc.fit(FederatedLloyd(3, blind=blind, floor=floor), data, seed=0)
    assert "client-1" in found.value.parties


def test_a_false_summand_moves_a_center_as_rows_would_within_bounds_and_more_beyond(monkeypatch):
    data = secfc.Federation.from_arrays([np.full((10, 1), -4.0)] * 4)
    add = algorithm.contribute_vector

    def centers_with(rows, values):
        """The center where client-0 says that it has so many rows, and that they sum to so many bounds."""

        def lying(plan, me, vector, *more, **others):
            if me == "client-0":
                vector = vector.copy()
                vector[:2] = values * plan.bound // 10, rows
            return add(plan, me, vector, *more, **others)

        with monkeypatch.context() as patch:
            patch.setattr(algorithm, "contribute_vector", lying)
            return secfc.fit(FederatedLloyd(1), data, bound=4.0, seed=0).centers.item()

    assert secfc.fit(FederatedLloyd(1), data, bound=4.0, seed=0).centers.item() == -4
    for rows in (1, 10):  # 2 B r / (N + r), and r rows at the bound attain it
        assert centers_with(rows, rows) == pytest.approx(-4 + 8 * rows / (30 + rows), rel=1e-3)
    # The sum of ten rows, said to be one: beyond, and unnoticed as some rows could have the total.
    assert centers_with(1, 10) > -4 + 5 * 8 / 31


# --- bad input


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"k": 41}, "k=41 clusters of m=40 points"),
        ({"k": 0}, "k=0 clusters"),
        ({"k": "2..8", "n_init": 2}, "n_init=2, k=2..8: k is chosen by one start"),
        ({"k": 3, "n_init": 0}, "n_init=0 is too small"),
        ({"k": 3, "start": "max-min", "n_init": 2}, "n_init=2: starts that match local clusters are not"),
        ({"k": "auto", "start": "max-min"}, "cannot choose k"),
        ({"k": 3, "start": np.zeros((3, 3))}, r"centers \(3, 3\), k=3, n_init=1, d=2: one run starts from k"),
        ({"k": 2, "start": [[0, 1], [0, np.nan]]}, "centers are finite numbers, a row a cluster"),
        ({"k": 2, "start": [[0, 1], [0]]}, "start is no table of centers"),
        (
            {"k": 8, "floor": 10},
            r"floor=10: 8 clusters, beside the rows of any t=1 of the clients, need 160 rows of which",
        ),
    ],
)
def test_what_cannot_be_is_refused(values, message):
    data = secfc.Federation.from_arrays(np.array_split(blobs(40, 2, 3, 0)[0], 4))
    with pytest.raises(InputError, match=message):
        secfc.fit(FederatedLloyd(**values), data)


# --- the floor


def light_cells(one, other, owners, caps, t):
    """Cells of two labelings, row by row, whose rows part clusters that fewer than the floor connect."""
    own, floor = Counter(zip(one, other, owners, strict=True)), caps[-1]
    cells = {(a, h) for a, h, _ in own}

    def surely(cell):
        """Rows of a cell that are not of t clients, whichever, as far as capped counts tell."""
        held = [n for (a, h, _), n in own.items() if (a, h) == cell]
        return max(0, *(sum(min(n, cap) for n in held) - t * cap for cap in caps))

    sure = {cell: surely(cell) for cell in cells}
    groups = {(0, a): {(0, a)} for a, _ in cells} | {(1, h): {(1, h)} for _, h in cells}
    joined = True
    while joined:
        joined = False
        for x, y in itertools.combinations({frozenset(g) for g in groups.values()}, 2):
            ends = [((0, a) in x and (1, h) in y) or ((0, a) in y and (1, h) in x) for a, h in sure]
            if sum(itertools.compress(sure.values(), ends)) >= floor:
                both, joined = set(x | y), True
                groups |= dict.fromkeys(both, both)
                break
    return {(a, h) for a, h in cells if (1, h) not in groups[0, a]}


def hold_by_rule(before, after, opened, owners, caps, t):
    """The rule of `floor`, row by row: labels after the moves that it lets through."""
    held = [False] * len(before)
    for _ in range(4):
        now = [b if stays else a for b, a, stays in zip(before, after, held, strict=True)]
        light = [light_cells(one, now, owners, caps, t) for one in opened]
        if now == list(before) or not any(light):
            return now
        for i, (b, a) in enumerate(zip(before, now, strict=True)):
            seen = zip(opened, light, strict=True)
            held[i] |= any((one[i], a) in cells or (one[i], b) in cells for one, cells in seen)
    return list(before)


def play(plan, parts, floor, t):
    """The run in plaintext: the labels of every opening, labels in the end, and how many rows are held."""
    plan = dataclasses.replace(plan, floor=floor)
    whole = np.rint(np.concatenate(parts) * plan.quantizer.scale).astype(np.int64)
    owners = np.repeat(range(len(parts)), list(map(len, parts))).tolist()

    def totals(labels, c, changed):
        sums, counts = sums_of(whole, np.array(labels, np.int32), c)
        many = np.repeat(counts[:, None], whole.shape[1], axis=1)
        return Totals(sums, many, counts > 0, int(changed))

    everything, first = np.ones(len(whole), bool), np.cumsum([0, *map(len, parts)])
    drawn = [
        plan.start.draw_places(plan.seed.to_bytes(32, "little"), name, len(part), plan.m)
        if plan.samples
        else []
        for name, part in zip(plan.clients, parts, strict=True)
    ]
    inside = {None: everything} | {
        i: np.isin(
            np.arange(len(whole)),
            np.concatenate([at + own for at, own in zip(first[:-1], places, strict=True)]),
        )
        for i, places in enumerate(zip(*drawn, strict=True))
    }
    # Rows that are in no sum are of the last cluster.
    now = np.where(inside[0 if plan.samples else None], np.int32(0), np.int32(-1))
    opened, held = [np.where(now < 0, 1, now)], 0
    runs = plan.begin_runs(totals(now, 1, True), bytes(32))
    while runs.asked:
        (near,) = runs.asked.values()
        before, c = np.append(near.groups, -1)[now].astype(np.int32), len(near.centers.counts)
        nearest = np.where(inside[near.sample], nearest_offered(whole, near.centers), -1)
        wanted, past = np.where(nearest < 0, c, nearest), [labels.tolist() for labels in opened]
        kept = hold_by_rule(
            np.where(before < 0, c, before).tolist(), wanted.tolist(), past, owners, plan.caps, t
        )
        held, now = int((kept != wanted).sum()), np.where(np.equal(kept, c), -1, kept).astype(np.int32)
        told = totals(now, c, (now != before).any())
        opened += [np.array(kept, np.int32)] * told.changed  # what moves no row is not opened
        runs.hear({0: told}, {0: held})
    return opened, nearest_offered(whole, runs.ends[0].centers), held


def least_difference(one, other):
    """The fewest rows but none that separate a union of clusters of one labeling from one of another's."""
    table = np.zeros((one.max() + 1, other.max() + 1), np.int64)
    np.add.at(table, (one, other), 1)
    b, c = table.shape
    rows = np.arange(2**b)[:, None] >> np.arange(b) & 1
    columns = np.arange(2**c)[:, None] >> np.arange(c) & 1
    cut = rows @ table @ (1 - columns).T + (1 - rows) @ table @ columns.T
    return int(cut[cut > 0].min(initial=10**9))


def least_of_pairs(opened, owners, t):
    """`least_difference` of any two openings, of the rows of all but any t clients."""
    gone = itertools.combinations(range(max(owners) + 1), t)
    others = [~np.isin(owners, some) for some in gone]
    pairs = itertools.combinations(opened, 2)
    return min(least_difference(a[kept], b[kept]) for a, b in pairs for kept in others)


@pytest.mark.parametrize(
    ("seed", "cuts", "t", "start"),
    [(0, (30, 60), 1, START), (1, (60, 75), 1, START), (2, range(15, 90, 15), 2, None)],
)
def test_with_a_floor_labels_follow_the_rule_and_no_two_openings_differ_by_fewer(seed, cuts, t, start):
    points = np.random.default_rng(seed).normal(size=(90, 2))
    parts = np.split(points, cuts)
    owners = np.repeat(range(len(parts)), list(map(len, parts)))
    way = FederatedLloyd(3, start, floor=3, max_iter=20, t=t)
    result = secfc.fit(way, secfc.Federation.from_arrays(parts), seed=seed)
    opened, labels, held = play(result.plan, parts, 3, t)
    np.testing.assert_array_equal(result.flat, labels)
    assert result.held == held > 0
    assert len(np.unique(labels)) == 3
    assert len(opened) >= 3
    assert least_of_pairs(opened, owners, t) >= 3
    # Controls: a floor of all rows leaves fewer beside a client's own, and without one single rows differ.
    assert least_of_pairs(play(result.plan, parts, 3, 0)[0], owners, t) < 3
    assert least_of_pairs(play(result.plan, parts, 1, 0)[0], owners, 0) == 1


def opened_labels(monkeypatch, parts, way, **more):
    """The labels of all rows in each opening of a run, and the result."""
    heard, open_totals = [], algorithm.ClientSums.open_totals

    def noting(sums, labels, *rest, **others):
        heard.extend((sums.number, run, sums.me, of) for run, of in labels.items())
        return (yield from open_totals(sums, labels, *rest, **others))

    with monkeypatch.context() as patch:
        patch.setattr(algorithm.ClientSums, "open_totals", noting)
        result = secfc.fit(way, secfc.Federation.from_arrays(parts), **{"seed": 0, **more})
    places = {(number, run): {} for number, run, _, _ in sorted(heard, key=lambda one: one[:2])}
    for number, run, me, labels in heard:
        places[number, run][me] = labels
    return [np.concatenate([own[c] for c in result.plan.clients]) for own in places.values()], result


def rebuilt(opened, points, targets=None):
    """Rows, of these, that are rebuilt exactly from sums of clusters of any two openings, and false guesses.

    Of any two clusters, and of groups of clusters that fewer than a row or two connect: what separates
    these is one row.
    """
    aims = {row.tobytes() for row in np.rint((points if targets is None else targets) * 2.0**10)}
    whole, guesses = np.rint(points * 2.0**10), set()
    for one, other in itertools.combinations(opened, 2):
        table = np.zeros((one.max() + 1, other.max() + 1), np.int64)
        np.add.at(table, (one, other), 1)
        # A single row in a cell that alone connects two parts of the graph of cells, by depth.
        for a, h in np.argwhere(find_light(table[None], [1], 2, 0)):
            seen, ends = {(0, a)}, [(0, a)]
            while ends:
                side, at = ends.pop()
                row = table[at] if side == 0 else table[:, at]
                for to in np.flatnonzero(row).tolist():
                    cell = (at, to) if side == 0 else (to, at)
                    if cell != (a, h) and (1 - side, to) not in seen:
                        seen.add((1 - side, to))
                        ends.append((1 - side, to))
            if (1, h) not in seen:
                # Sums of the clusters on one side, of both openings, differ by that row.
                mine = np.isin(one, [x for s, x in seen if s == 0])
                theirs = np.isin(other, [x for s, x in seen if s == 1])
                guesses.add((whole[mine].sum(axis=0) - whole[theirs].sum(axis=0)).tobytes())
    return len(guesses & aims), len(guesses - aims)


# One client has most rows, and subtracts them: of ten that move few are of others.
@pytest.mark.parametrize("cuts", [(147, 294), (360, 400)], ids=["equal", "most"])
def test_a_client_rebuilds_rows_without_a_floor_and_none_with_one(monkeypatch, cuts):
    points = np.random.default_rng(0).normal(size=(440, 6))
    parts, rest = np.split(points, cuts), points[cuts[0] :]

    def of_others(floor):
        opened, result = opened_labels(monkeypatch, parts, FederatedLloyd(4, floor=floor), keep_bodies=True)
        return [labels[cuts[0] :] for labels in opened], result

    opened, result = of_others(1)
    assert rebuilt(opened, rest)[0] >= 3
    # A client that looks has these sums: what it is told, less its own.
    view = View.of(result, result.plan, "client-0")
    told, own = told_values(view), added_values(view, "client-0")
    others = np.rint(rest * result.plan.quantizer.scale).astype(np.int64)
    for number, labels in zip(sorted(told), opened, strict=True):
        values = next(iter(told[number].values())) - own[number]
        c = (len(values) - 1) // 7
        np.testing.assert_array_equal(values[: 6 * c].reshape(c, 6), sums_of(others, labels, c)[0])
    # Control: of other rows, whose columns are permuted each for itself, none is found.
    rng = np.random.default_rng(1)
    false = np.stack([rng.permutation(column) for column in rest.T], axis=1)
    assert rebuilt(opened, rest, false)[0] == 0
    assert rebuilt(of_others(10)[0], rest) == (0, 0)
    if cuts[0] == 360:  # Control: where the floor counts its own rows too, it rebuilds some.
        with monkeypatch.context() as patch:
            patch.setattr(plan_module, "find_light", lambda *of: find_light(*of[:-1], 0))
            assert rebuilt(of_others(10)[0], rest)[0] >= 1
        # And a client that says that more of its rows are in cells than are does so unnoticed.
        pack = FederatedPlan.pack_flows

        def lying(plan, flows, moving):
            mine = sum(int(flow.sum()) for flow in flows) == cuts[0] * len(flows)
            more = [10 * ((flow > 0) & (flow < 10)) for flow in flows]
            return pack(plan, flows, moving) + mine * pack(plan, more, 0)

        monkeypatch.setattr(FederatedPlan, "pack_flows", lying)
        pairs = itertools.combinations(of_others(10)[0], 2)
        assert min(least_difference(*pair) for pair in pairs) < 10


def test_under_a_floor_who_is_lost_between_sums_ends_the_run():
    """Its rows would leave all totals, below any floor; who is lost before the first sum is in none."""
    parts = np.array_split(np.random.default_rng(0).normal(size=(440, 6)), 5)
    data = secfc.Federation.from_arrays(parts)

    def lose(since):
        return lambda e: () if e.round >= since and "client-1" in (e.sender, e.recipient) else (e,)

    late = ITERATE + 8 * STRIDE
    result = secfc.fit(FederatedLloyd(4), data, seed=0, faults=lose(late))
    assert result.excluded == ("client-1",)
    for blind in (True, False):
        with pytest.raises(
            TooFewReplies, match="start again with them: sums without their rows, of this run or another"
        ):
            secfc.fit(FederatedLloyd(4, floor=10, blind=blind), data, seed=0, faults=lose(late))
    assert secfc.fit(FederatedLloyd(4, floor=10), data, seed=0, faults=lose(ITERATE)).excluded == (
        "client-1",
    )


@pytest.mark.parametrize("blind", [True, False])
def test_members_add_no_sum_of_other_clients_under_a_floor_whatever_the_server_wants(monkeypatch, blind):
    data = secfc.Federation.from_arrays(np.array_split(np.random.default_rng(0).normal(size=(440, 6)), 5))
    receive, asked = algorithm.receive_residues, []

    def forgetting(plan, number, *, due):
        asked.append(due)
        return receive(plan, number)

    monkeypatch.setattr(algorithm, "receive_residues", forgetting)

    def lose(e):
        return () if e.round >= ITERATE + 8 * STRIDE and "client-1" in (e.sender, e.recipient) else (e,)

    with pytest.raises(FaultyServer, match="a sum of other clients than before"):
        secfc.fit(FederatedLloyd(4, floor=10, blind=blind), data, seed=0, faults=lose)
    assert asked[1] == ("client-0", "client-1", "client-2", "client-3", "client-4")


@pytest.mark.parametrize("seed", [0, *by_night(*range(1, 12))])
def test_with_a_floor_no_two_openings_of_any_steps_and_starts_tell_a_row(monkeypatch, seed):
    points = np.random.default_rng(seed).normal(size=(800, 2))
    parts = np.array_split(points, 4)

    def found(parts, way):
        opened, _ = opened_labels(monkeypatch, parts, way, seed=seed)
        of_others = np.concatenate(parts[1:])
        return rebuilt([labels[len(parts[0]) :] for labels in opened], of_others)

    few = [part[:60] for part in parts]
    assert found(parts, FederatedLloyd(12, floor=10)) == (0, 0)
    way = FederatedLloyd(3, START, floor=5, n_init=2)
    assert found(few, way) == (0, 0)
    # Controls: without a floor, and where labels are compared with those opened last alone.
    assert found(few, dataclasses.replace(way, floor=1))[0] >= 3
    find = FederatedPlan.find_held

    def compare_last(*of):
        found, moving = find(*of)
        return [np.zeros_like(cells) for cells in found[:-1]] + found[-1:], moving

    monkeypatch.setattr(FederatedPlan, "find_held", compare_last)
    # 14 rows of seed 0, 3 to 12 of ten others, one of seed 4.
    assert found(few, way)[0] >= (1 if seed == 4 else 3)


def test_a_floor_asks_few_questions_and_says_how_many_rows_it_held():
    points, _ = blobs(600, 4, 4, 0)
    data = secfc.Federation.from_arrays(np.array_split(points, 5))
    plain, held = (secfc.fit(FederatedLloyd(8, floor=floor, t=1), data, seed=0) for floor in (1, 10))
    assert len(held.details.counted) <= 1.5 * len(plain.details.counted)
    assert plain.held is None
    assert held.held > 0
    assert f"converged=True, held={held.held})" in repr(held)
    assert f"converged, but the floor held {held.held:,} rows" in held._repr_html_()
    # Labels, which stay at home, are of the nearest center: held rows cost more where sums have them.
    assert (np.concatenate(held.predict(data)) == held.flat).all()
    assert (held.history[-1] != held.flat).any()
    assert secfc.metrics.cost(points, held.flat, 8) < 0.9 * secfc.metrics.cost(points, held.history[-1], 8)
    found = report.make_report(held, federation=data, algorithm=FederatedLloyd(8, floor=10, t=1))
    said = " ".join(report.as_text(found).split())
    assert f"(converged, but the floor held {held.held:,} rows)" in said
    assert f"floor=10 kept {held.held:,} of 600 rows in the sums of another cluster" in said
    assert report.as_json(found)["held_by_floor"] == held.held


def test_with_a_floor_other_runs_tell_single_rows():
    """What a floor does not keep back: one row of others lies between the borders of two runs."""
    points = np.random.default_rng(2).normal(size=(800, 2))
    parts, heard = np.array_split(points, 4), []
    at = np.sort(points[200:, 0])[299:302]
    for border in (at[:2].mean(), at[1:].mean()):
        way = FederatedLloyd(2, floor=10, max_iter=1, start=[[border - 1, 0], [border + 1, 0]])
        result = secfc.fit(way, secfc.Federation.from_arrays(parts), keep_bodies=True)
        view = View.of(result, result.plan, "client-0")
        told, own = told_values(view), added_values(view, "client-0")
        first = sorted(told)[2]  # after the one cluster, and how many rows would move
        heard.append(next(iter(told[first].values()))[:2] - own[first][:2])
    (row,) = points[200:][points[200:, 0] == at[1]]
    np.testing.assert_array_equal(heard[1] - heard[0], np.rint(row * result.plan.quantizer.scale))


def moved_alone(monkeypatch, floor, caps):
    """What client 0 makes of sums before and after the one row between two borders moved: of the first
    cluster, less its own rows.  caps: it says that so many caps of its rows are where it has none.
    """
    sides = [np.full((12, 2), (-6.0, 0)), np.full((12, 2), (6.0, 1))]
    row = np.array([0.25, 1.25])
    parts = [np.concatenate([sides[0], sides[1] + (2, 0)]), sides[0], np.vstack([sides[1], row])]
    pack = FederatedPlan.pack_flows

    def lying(plan, flows, moving):
        mine = sum(int(flow.sum()) for flow in flows) == 24 * len(flows)
        more = [1000 * (flow == 0) for flow in flows]
        return pack(plan, flows, moving) + mine * caps * pack(plan, more, 0)

    with monkeypatch.context() as patch:
        patch.setattr(FederatedPlan, "pack_flows", lying)
        way = FederatedLloyd(2, floor=floor, start=[[-6, 0], [6, 0]], max_iter=3)
        result = secfc.fit(way, secfc.Federation.from_arrays(parts), bound=16.0, keep_bodies=True)
    view = View.of(result, result.plan, "client-0")
    told, own = told_values(view), added_values(view, "client-0")
    sums = [next(iter(told[number].values())) - own[number] for number in sorted(told)]
    # Of sums by two clusters, and not of numbers of rows in cells, those of the first one.
    found = {tuple(x[:2].tolist()) for x in sums if len(x) == 7}
    apart = {(a[0] - b[0], a[1] - b[1]) for a in found for b in found}
    return apart, tuple(np.rint(row * result.plan.quantizer.scale).astype(int).tolist())


def test_a_client_that_says_it_has_rows_where_it_has_none_reads_a_row_that_moves_alone(monkeypatch):
    """A floor counts on numbers that nobody checks: the table of deviations says so."""
    apart, row = moved_alone(monkeypatch, 10, 2)
    assert row in apart
    # Controls: who tells the truth sees no difference of one row under a floor, and does without.
    apart, row = moved_alone(monkeypatch, 10, 0)
    assert row not in apart
    apart, row = moved_alone(monkeypatch, 1, 0)
    assert row in apart


@pytest.mark.parametrize("floor", [1, 3])
def test_rows_that_are_not_in_memory_have_the_labels_of_those_that_are(monkeypatch, floor):
    pa = pytest.importorskip("pyarrow")
    points = blobs(600, 3, 4, 1)[0]
    parts = np.array_split(points, 3)
    tables = [pa.table({name: part[:, f] for f, name in enumerate("abc")}) for part in parts]
    way = FederatedLloyd(4, floor=floor, coarse="allow")
    expected = secfc.fit(way, secfc.Federation.from_arrays(parts), seed=3)
    plain = secfc.fit(secfc.Lloyd(4), secfc.Federation.from_arrays(parts), seed=3)
    # Rounded rows in a scratch file, read in batches of a few tiles; a stream is never read as a whole.
    monkeypatch.setattr(model, "FEW_VALUES", 1)
    monkeypatch.setattr(row_tiles, "BATCH_BYTES", 1)
    monkeypatch.setattr(row_tiles.RowTiles.__init__, "__kwdefaults__", {"held": 0})
    monkeypatch.setattr(inputs, "BLOCK_BYTES", 8 * 3 * 100)
    monkeypatch.setattr(secfc.Party, "read", None)
    streams, summed = [secfc.ArrowRows(lambda table=table: table) for table in tables], []
    data, sum_rows = secfc.Federation.from_arrays(streams), row_tiles.RowTiles.sum_rows

    def count(tiles, labels, k):
        summed.append(k)
        return sum_rows(tiles, labels, k)

    monkeypatch.setattr(row_tiles.RowTiles, "sum_rows", count)
    result = secfc.fit(way, data, seed=3)
    # All rows are summed once, then those that moved alone; where a floor kept some back, all again.
    assert summed == [1] * 3 or floor > 1
    assert_same(result, expected)
    assert result.cost == expected.cost
    assert (np.concatenate(plain.predict(data)) == plain.flat).all()
    assert (np.concatenate(result.predict(data)) == result.flat).all()


def test_sums_of_rows_that_moved_are_those_of_all(monkeypatch):
    """Whatever clusters become before, also where none is offered and where one is in another's place."""
    rng = np.random.default_rng(0)
    points = rng.integers(-99, 99, (700, 3))
    monkeypatch.setattr(model, "FEW_VALUES", 1)
    rows, now = model.ClientRows([(0, points)], points.shape, 1 << 15), np.zeros(700, np.int32)
    rows.sum_rows(now, 1)
    for c, groups in ((2, [0]), (4, [2, 0]), (5, [4, -1, 0, 1]), (5, [0, 1, 2, 3, 4]), (3, [1, 0, 2, 2, 1])):
        centers = rng.integers(-99, 99, (c, 3))
        known = model.KnownCenters(centers, np.ones_like(centers), np.arange(c) != 3)
        before = rows.number_labels(now, np.array(groups))
        np.testing.assert_array_equal(before, np.append(groups, -1)[now])
        now = rows.label_rows(known, before)
        np.testing.assert_array_equal(now, nearest_offered(points, known))
        for ours, theirs in zip(rows.sum_rows(now, c), sums_of(points, now, c), strict=True):
            np.testing.assert_array_equal(ours, theirs)
    assert len(rows._summed) == 2  # of labels that there are: these, and those before them
    nobody = model.KnownCenters.no_centers(3, 3)
    assert (rows.label_rows(nobody, now) == -1).all()


def test_rows_keep_their_labels_while_centers_go_little(monkeypatch):
    rng, looked = np.random.default_rng(1), []
    points, centers = rng.integers(-999, 999, (900, 3)), rng.integers(-999, 999, (4, 3))
    monkeypatch.setattr(model, "FEW_VALUES", 1)
    monkeypatch.setattr(row_tiles, "BATCH_BYTES", 1)
    rows, now = model.ClientRows([(0, points)], points.shape, 1 << 15), np.zeros(900, np.int32)
    rows.sum_rows(now, 4)
    find = labeling.find_free

    def find_free(*given):
        looked.append(find(*given))
        return looked[-1]

    monkeypatch.setattr(labeling, "find_free", find_free)
    for step in range(9):
        known = model.KnownCenters(centers, np.ones_like(centers), np.ones(4, bool))
        # Again from labels whose bounds went on with the first answer.
        now, twice = rows.label_rows(known, now), rows.label_rows(known, now)
        for labels in (now, twice):
            np.testing.assert_array_equal(labels, nearest_offered(points, known))
            for ours, theirs in zip(rows.sum_rows(labels, 4), sums_of(points, labels, 4), strict=True):
                np.testing.assert_array_equal(ours, theirs)
        centers = centers + rng.integers(-4, 5, (4, 3)) * (step != 1)
    assert 0 < sum(looked[-8:]) < 900 // 4  # of 900 in the eight tiles of the last step


def test_sums_do_not_travel_with_rows(monkeypatch):
    """A cluster moves parts while tasks run: labels there may be at the place that these have here."""
    monkeypatch.setattr(model, "FEW_VALUES", 1)
    rows, labels = model.ClientRows([(0, np.ones((300, 2), int))], (300, 2), 1), np.zeros(300, np.int32)
    expected = rows.sum_rows(labels, 2)[1].tolist()
    there = copy.deepcopy(rows)  # by the state that pickles have
    labels[:] = 1  # others at the same place
    assert (expected, there.sum_rows(labels, 2)[1].tolist()) == ([300, 0], [0, 300])


@pytest.mark.parametrize("bound", [4.0, 5.0])
def test_an_automatic_scale_takes_four_bytes_a_value(bound):
    """Of a bound that is a power of two it took eight."""
    plan = FederatedLloyd(3).plan(PublicFacts(("a", "b", "c"), (10**6,) * 3, 2, bound))
    assert 2**28 < plan.quantizer.max_int < 2**31


def test_a_plan_takes_memory_that_grows_with_clients_and_not_with_pairs_of_them():
    n, d = 5000, 2
    public = PublicFacts(tuple(f"client-{j}" for j in range(n)), (1,) * n, d, 1.0)
    tracemalloc.start()
    plan = FederatedLloyd(3).plan(public)
    assert plan.columns.all_pairs
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < n * n  # a truth value a pair
    assert len(plan.description) < MAXIMUM // 50


def test_what_cannot_be_described_is_refused_before_anybody_begins():
    names = tuple("x" * 2000 + f"{j}" for j in range(600))
    with pytest.raises(ValueError, match=f"{MAXIMUM} are allowed: use shorter names"):
        FederatedLloyd(2).plan(PublicFacts(names, (2,) * 600, 2, 1.0))


def test_groups_of_clients_that_share_no_feature_come_in_the_order_of_names():
    observed = ((0, 1), (4,), (1, 2), (3,), (2,), (4, 3))
    names = ("f", "e", "d", "c", "b", "a")
    columns = Columns.of(PublicFacts(names, (1,) * 6, 5, 1.0, observed=observed))
    assert columns.connected_groups == (("a", "c", "e"), ("b", "d", "f"))


@pytest.mark.parametrize(
    "values",
    [
        {"k": 3, "n_init": 2},
        *by_night({"k": "auto"}, {"k": 2, "blind": False}),
        {"k": 2, "start": secfc.Sampled(30, 1)},
    ],
)
def test_thousands_of_clients_speak_together_and_have_what_each_alone_would_have(monkeypatch, values):
    # Three waves of clients that have few rows, of different numbers.
    monkeypatch.setattr(sums_plan, "WAVE", 14)
    rng, points = np.random.default_rng(0), blobs(90, 3, 3, 4)[0]
    data = secfc.Federation.from_arrays(np.split(points, np.sort(rng.choice(89, 39, replace=False)) + 1))
    assert len({*data.counts}) > 2
    way = FederatedLloyd(**values, coarse="allow")
    said = Counter(), Counter()

    def count(found, party, exchange):
        for to, body in exchange.send.items():
            found[party, to, body.kind] += body.nbytes

    alone = secfc.fit(way, data, seed=0, watch=partial(count, said[0]))
    monkeypatch.setattr(pipeline, "MANY", 30)
    together = secfc.fit(way, data, seed=0, watch=partial(count, said[1]))
    assert said[0] == said[1]
    assert (together.k, together.n_iter, together.cost) == (alone.k, alone.n_iter, alone.cost)
    assert together.learned == alone.learned
    for ours, theirs in zip(together.history, alone.history, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(together.labels, alone.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(together.predict(data), alone.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)

    def senders(result):
        return {e.sender for e in result.transcript.envelopes}

    waves = [(c for c in wave if c not in alone.plan.sums.seats) for wave in alone.plan.sums.waves]
    assert senders(together) == {*alone.plan.sums.committee, *map(next, waves), SERVER}
    assert senders(alone) == {*data.names, SERVER}
    # Each has a summand of its own: shares of one are not those of all.
    frames = [e.nbytes for e in together.transcript.envelopes if e.kind == "SumShares"]
    assert max(frames) > 5 * min(frames)
    # Whoever asks what each says hears each, and so does a floor, which compares what a client opened.
    for asked in ({"keep_bodies": True}, {"faults": lambda e: (e,)}, {"sealed": True}):
        assert senders(secfc.fit(way, data, seed=0, **asked)) == {*data.names, SERVER}
    held = FederatedLloyd(2, floor=2, t=1, coarse="allow")
    assert senders(secfc.fit(held, data, seed=0)) == {*data.names, SERVER}
