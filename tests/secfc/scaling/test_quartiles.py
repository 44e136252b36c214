"""Scales by quartiles: what no cell moves, the same for all clients, and what the search opens."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.errors import Caution, IncompatibleOptions, InputError, SuspectedParties
from secfc.report import make_report
from secfc.report.deviations import rows_about, scale_kinds
from secfc.report.officer import of_run, practice_sections
from secfc.roles.exchange import SERVER
from secfc.scaling import quartiles
from secfc.scaling.algorithm import Scaled, apply_scaling
from secfc.scaling.quartiles import FINE, QUANTILES, STEPS, QuantileSearch, search_quantiles, sorted_keys
from secfc.scaling.roles import MAGNITUDES, help_to_scale, scale_by_quartiles_at_client
from secfc.scaling.ways import FillMeans, Range, Standardize
from secfc.secure_sum.protocol import ROUNDS, visible_sums
from secfc.transport.simulate import simulate
from tests.small import same_runs, split

ROBUST = Standardize(by="quartiles")
START = secfc.RandomPoints()


def points(m=150, seed=0):
    """Three clusters of two features."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(m, 2)) + rng.integers(0, 3, (m, 1)) * 6) * [1, 100] + [50, 0]


def plan_of(data, way=ROBUST):
    scaled = Scaled(secfc.Lloyd(3, init=START), way)
    return scaled.plan(PublicFacts.of(data, scaled.bound))


# --- the mathematics ------------------------------------------------------------------------------------

doubles = st.floats(-(2.0**64), 2.0**64, allow_subnormal=False)


@given(st.lists(doubles, min_size=2, max_size=30))
def test_keys_are_in_the_order_of_values_and_near_them(column):
    values = np.array(sorted(column))
    keys = quartiles.value_keys(values)
    assert (np.diff(keys.astype(np.int64)) >= 0).all()
    near = quartiles.key_values(keys)
    small = abs(values) < 2.0**63
    assert (abs(near - values)[small] <= np.maximum(abs(values[small]) * 2.0**-24, 2.0**-64)).all()
    assert (quartiles.value_keys(near) == keys).all()
    whole = np.rint(values % 2**24)  # whole numbers of up to 24 digits are their own keys
    assert (quartiles.key_values(quartiles.value_keys(whole)) == whole).all()


@pytest.mark.parametrize("edge", [-(2.0**64), 2.0**64, 2.0**-64, 0.0])
def test_keys_at_the_edges_fit_a_search(edge):
    (key,) = quartiles.value_keys(np.array([edge])).tolist()
    first = QuantileSearch.of_features(1)
    assert first.low[0, 0] <= key <= first.high[0, 0]
    assert first.width[0, 0] == 4**STEPS


@given(st.lists(st.floats(-1e6, 1e6) | st.integers(-3, 3).map(float), min_size=1, max_size=60))
def test_a_search_ends_at_the_quantiles_as_near_as_it_says(column):
    table = np.array(column)[:, None]
    search = search_quantiles(sorted_keys([table], 1))
    assert not search.asked.any()
    ranked = np.sort(table[:, 0])
    low, high = quartiles.key_values(search.low[0]), quartiles.key_values(search.high[0])
    step = np.maximum(abs(low), abs(high)) * 2.0**-24 + 2.0**-64
    exact = [ranked[-(-q.numerator * len(ranked) // q.denominator) - 1] for q in QUANTILES]
    assert (low - step <= exact).all()
    assert (exact <= high + step).all()
    between = search.ranges(1)[0]
    assert between <= 0 or (FINE * (high - low)[:3] <= between).all()


def test_where_quartiles_are_equal_the_middle_nine_tenths_give_the_unit_and_else_nothing_does():
    rare, rarer = np.zeros(1000), np.zeros(1000)
    rare[:100], rarer[:10] = 1, 1
    centers, units = search_quantiles(sorted_keys([np.stack([rare, rarer], axis=1)], 2)).scales(None)
    assert centers == [0, 0]
    assert units[0] == pytest.approx(1 / 3.29, rel=1e-2)
    assert units[1] == 0


def test_an_offset_that_leaves_no_steps_is_refused():
    table = 2.0**40 + np.arange(100.0)[:, None] * 2**16
    with pytest.raises(
        InputError, match=r"feature 0 has quartiles that differ by less than 64 steps.*subtract"
    ):
        search_quantiles(sorted_keys([table], 1)).scales(None)


# --- a run ----------------------------------------------------------------------------------------------


def test_one_extreme_cell_is_a_note_and_clusters_are_those_of_the_clean_data():
    clean, spoiled = points(), points()
    spoiled[7, 1] = 1e9
    way = secfc.SecFC(3, 1, init=START)
    with pytest.raises(InputError, match="do not move") as refused, pytest.warns(Caution):
        secfc.fit(way, split(spoiled), scale_features="standard")
    with pytest.warns(Caution, match="1 value lies more than 10 units"):
        found = secfc.fit(way, split(spoiled), scale_features="robust")
    right = secfc.fit(way, split(clean), scale_features="robust")
    others = np.arange(150) != 7
    assert (found.flat[others] == right.flat[others]).all()
    assert len({*right.flat.tolist()}) == 3
    advice = re.search(r"scale_features=(Standardize\([^)]*\))", str(refused.value))
    assert advice is not None
    with pytest.warns(Caution, match="taken (as missing|for the median)"):
        filled = secfc.fit(way, split(spoiled), scale_features=eval(advice[1], vars(secfc.scaling.ways)))
    assert (filled.flat[others] == right.flat[others]).all()
    assert "robust" in str(Scaled(way, "robust").parameters(found))


def test_the_protocol_finds_the_scale_of_the_oracle_whoever_holds_what():
    table = points()
    for cuts in ([30, 60, 90], [1, 2, 140]):
        data = secfc.Federation.from_arrays(np.split(table, cuts))
        result = secfc.fit(secfc.Lloyd(3, init=START), data, scale_features=ROBUST)
        assert result.scaling.scaling == apply_scaling(ROBUST, plan_of(data), data).scaling
        plain = secfc.fit(secfc.Lloyd(3, init=START), result.scaling.scaling.federation(data), bound=10.0)
        assert same_runs(result, plain)
        assert all(map(np.array_equal, result.predict(data), result.labels))
    low, middle, high = np.quantile(table, [0.25, 0.5, 0.75], axis=0, method="inverted_cdf")
    within = (high - low) / FINE
    assert (abs(result.scaling.scaling.centers - middle) <= within).all()
    assert (abs(np.array(result.scaling.scaling.units) * quartiles.NORMAL[1] - (high - low)) <= within).all()


def test_what_one_client_alone_observes_is_scaled_at_home():
    table = np.column_stack([points(), points(seed=1)[:, 0]])
    columns = [("a", "b", "c"), ("a", "b"), ("a", "b"), ("a", "b"), ("b", "a")]
    parts = [table[j::5][:, ["abc".index(name) for name in own]] for j, own in enumerate(columns)]
    data = secfc.Federation.from_arrays(parts, features=columns)
    result = secfc.fit(secfc.FederatedLloyd(3), data, scale_features=ROBUST)
    found = dict(zip(result.features, result.scaling.scaling.centers, strict=True))
    for name, rows in (("a", table[:, 0]), ("b", table[:, 1]), ("c", table[0::5, 2])):
        low, middle, high = np.quantile(rows, [0.25, 0.5, 0.75], method="inverted_cdf")
        assert abs(found[name] - middle) <= (high - low) / FINE, name


def test_missing_values_become_the_median_and_one_client_scales_at_home():
    table = points()
    table[::10, 0] = np.nan
    with pytest.warns(Caution, match="15 missing values were taken for the median"):
        result = secfc.fit(secfc.Lloyd(3), split(table, gaps=True), scale_features="robust", missing="mean")
    assert result.scaling.scaling.fill == result.scaling.scaling.centers
    with pytest.warns(Caution):
        alone = secfc.fit(secfc.Lloyd(3), split(table, 1, gaps=True), scale_features="robust", missing="mean")
    assert alone.scaling.scaling == result.scaling.scaling
    assert "OpenedSumsDigest" not in {e.kind for e in alone.transcript.envelopes}
    table[:, 1] = np.nan
    with pytest.raises(InputError, match="feature 1 is missing in every row"):
        secfc.fit(secfc.Lloyd(3), split(table, gaps=True), scale_features="robust", missing="mean")


@pytest.mark.parametrize("way", [ROBUST, Range([(0, 100), (-500, 2000)]), FillMeans(2000.0)])
def test_values_beyond_a_limit_are_missing_and_follow_the_rule_for_missing(way):
    spoiled, gaps, way = points(), points(), dataclasses.replace(way, outside="missing")
    spoiled[7, 1], gaps[7, 1] = 1e9, np.nan
    lloyd = secfc.Lloyd(3, quantization=secfc.Quantization(coarse="allow"))
    with pytest.warns(Caution) as told:
        found = secfc.fit(lloyd, split(spoiled), scale_features=way, missing="mean")
    with pytest.warns(Caution, match="1 missing value"):
        right = secfc.fit(lloyd, split(gaps, gaps=True), scale_features=way, missing="mean")
    assert any("1 value lies more than" in str(one.message) for one in told)
    assert (found.flat == right.flat).all()
    found_first = isinstance(way, Standardize)  # then the value is one of those that the scale is made of
    assert found_first or (same_runs(found, right) and found.scaling.scaling == right.scaling.scaling)
    with pytest.warns(Caution, match=r"1 of 150 rows has .* far outside what the model saw"):
        again = found.predict(split(spoiled))
    assert again[0][7] == right.labels[0][7]  # by the scale that was kept
    with pytest.raises(IncompatibleOptions, match="what is missing is refused"):
        secfc.fit(lloyd, split(spoiled), scale_features=way)
    if not found_first:
        with pytest.warns(Caution, match="taken (as missing|for the median)"):
            dropped = secfc.fit(lloyd, split(spoiled), scale_features=way, missing="drop")
        assert np.flatnonzero(dropped.flat == -1).tolist() == [7]
    else:
        with pytest.raises(IncompatibleOptions, match="dropped before the limit is found"):
            secfc.fit(lloyd, split(spoiled), scale_features=way, missing="drop")


# --- who learns what --------------------------------------------------------------------------------------


def test_clients_open_the_counts_that_the_search_asks_for_and_nothing_else():
    data = split(points())
    result = secfc.fit(secfc.Lloyd(3, init=START), data, scale_features=ROBUST, keep_bodies=True)
    plan = plan_of(data)
    early = [e for e in result.transcript.envelopes if e.phase == "scale"]
    kinds = {e.kind for e in early if SERVER in (e.sender, e.recipient)}
    assert kinds == {"Contributors"}  # the server learns who takes part
    opened = visible_sums(plan.sums, [e for e in early if e.recipient == "client-0"])
    assert list(opened) == [MAGNITUDES + ROUNDS * step + ROUNDS - 1 for step in range(STEPS)]
    keys, search = sorted_keys([data.stacked()], 2), QuantileSearch.of_features(2)
    for total in opened.values():
        found = total.reshape(2, -1)
        assert (found == search.counts(keys)).all()
        assert not found[:, 1:].reshape(2, 5, 3)[~search.asked].any()
        search = search.narrowed(found)
    # The quartiles are known to 1/64 of their range well before the search of all keys would end.
    assert not list(opened.values())[9].reshape(2, -1)[:, 1:].any()
    assert any(ROBUST.opened in entry.what for entry in result.ledger.entries)


def test_officers_read_what_clients_learn_of_it_and_what_a_false_count_does():
    data, way = split(points()), secfc.SecFC(3, 1, init=START)
    result = secfc.fit(way, data, scale_features=ROBUST)
    report = make_report(result, federation=data, algorithm=Scaled(way, ROBUST))
    page = str(practice_sections(of_run(report, result)))
    assert "lie below each of up to 240 numbers" in page
    (row,) = (row for row in rows_about(scale_kinds(ROBUST)) if row.concerns == "counts")
    assert row.who in page
    assert "counts" not in scale_kinds(Standardize())


def outcomes_of(data, way=ROBUST, faults=None):
    """What every client finds, by name."""
    plan = plan_of(data, way)

    def server():
        yield from help_to_scale(plan)

    roles = {
        p.name: scale_by_quartiles_at_client(way, plan, p, coins=SeededCoins(0, p.name)) for p in data.parties
    }
    return simulate(roles | {SERVER: server()}).results


def test_a_client_that_counts_falsely_reads_the_largest_value_of_the_others(monkeypatch):
    """The attack that the table of deviations tells of: nothing notices it, and all centers are wrong."""
    rng = np.random.default_rng(0)
    parts = [rng.uniform(2, 90, (40, 1)) for _ in range(4)] + [np.full((7, 1), 50.0)]
    data = secfc.Federation.from_arrays(parts)
    honest, others, searches = QuantileSearch.counts, 160, []
    rank = -(-3 * 167 // 4)

    def counts(self, keys):
        found = honest(self, keys)
        if len(keys[0]) == 7:  # of who deviates: it moves the third quartile to where all others' values end
            searches.append(self)
            below = found[:, 1:].reshape(1, 5, 3)
            positive = self.cuts()[0, 2] > quartiles.value_keys(np.array([32.0]))[0]
            below[0, 2] = np.where(positive & self.asked[0, 2], rank - others, below[0, 2])
        return found

    truth = outcomes_of(data)["client-0"]
    monkeypatch.setattr(QuantileSearch, "counts", counts)
    found = outcomes_of(data)["client-0"]
    low, high = quartiles.key_values(searches[-1].low[0, 2]), quartiles.key_values(searches[-1].high[0, 2])
    largest = max(part.max() for part in parts[:4])
    assert low <= largest * (1 + 2.0**-20)
    assert largest <= high * (1 + 2.0**-20)
    assert high - low < 1.0
    assert found.units[0] > 1.2 * truth.units[0]


def test_counts_are_ascending_and_within_the_values_and_these_within_the_rows():
    good = np.full((1, quartiles.WIDTH), 5)
    good[0, 1] = 0
    assert quartiles.are_counts(good, 5)
    for at, count in ((0, 6), (0, 4), (1, -1), (2, 6), (-1, 6)):
        bad = good.copy()
        bad[0, at] = count
        assert not quartiles.are_counts(bad, 5)


@pytest.mark.parametrize("lie", [10**6, -(10**6)])
def test_counts_that_no_rows_have_end_the_run(monkeypatch, lie):
    honest = QuantileSearch.counts

    def counts(self, keys):
        return honest(self, keys) + lie * (len(keys[0]) == 40)

    monkeypatch.setattr(QuantileSearch, "counts", counts)
    with pytest.raises(SuspectedParties, match="no rows have the counts"):
        outcomes_of(secfc.Federation.from_arrays(np.split(points(), [40, 70, 100])))


def test_a_client_that_vanishes_is_not_in_the_scale():
    data = split(points())

    def faults(e):
        return () if e.sender == "client-3" and e.kind in ("SumShares", "RowShares") else (e,)

    result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features=ROBUST, faults=faults)
    rest = dataclasses.replace(data, parties=tuple(p for p in data.parties if p.name != "client-3"))
    assert result.scaling.scaling == apply_scaling(ROBUST, plan_of(rest), rest).scaling
    assert result.excluded == ("client-3",)
