"""Clients that come late, leave or are lost: each step is exact over the rows of whom its sum counts."""

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import secfc
from secfc import report
from secfc.attacks.views import View
from secfc.errors import TooFewReplies
from secfc.federated import algorithm
from secfc.federated.algorithm import FederatedLloyd, leakage_to_client
from secfc.federated.course import Restarts, Totals
from secfc.federated.model import nearest_offered, sum_of_squares, sums_of
from secfc.federated.views import pair_counted, told_values
from secfc.roles.exchange import ITERATE, STRIDE
from tests.nightly import trials


def absent(schedule):
    """Faults under which shares of these clients are missing in these questions, from 0 on."""

    def faults(e):
        if e.kind != "SumShares":
            return (e,)
        return () if (e.sender, (e.round - ITERATE) // STRIDE) in schedule else (e,)

    return faults


def play(plan, parts, counted):
    """The run in plaintext, each sum over rows of whom it counts: labels by run and step, runs, rows, and
    which of these the last sum counts."""
    whole = np.rint(np.concatenate(parts) * plan.quantizer.scale).astype(np.int64)
    owner = np.repeat(plan.clients, list(map(len, parts)))
    asked = iter(counted)

    def totals(labels, c, changed):
        sums, counts = sums_of(whole[kept], labels[kept], c)
        many = np.repeat(counts[:, None], whole.shape[1], axis=1)
        square = sum_of_squares(whole[kept]) if plan.priced else None
        return Totals(sums, many, counts > 0, int(changed[kept].any()), square)

    names = next(asked)
    kept, now = np.isin(owner, names), np.zeros(len(whole), np.int32)
    runs = plan.begin_runs(totals(now, 1, kept), bytes(32))
    current = dict.fromkeys(runs.asked, now)
    histories = {run: [] for run in runs.asked}
    while runs.asked:
        if runs.levels:  # told beside k, which costs alone choose
            next(asked)
            runs.hear_silhouettes((0.0,) * len(runs.levels))
            continue
        last, names, told = names, next(asked), {}
        kept = np.isin(owner, names)
        for run, near in runs.asked.items():
            before, after = near.groups[current[run]], nearest_offered(whole, near.centers)
            histories[run] += [before, after][bool(histories[run]) :] if near.step else []
            told[run] = totals(after, len(near.centers.counts), before != after)
            current[run] = after
        runs.hear(told, {}, names != last)
    return histories, runs, whole, kept


def split(m, n, d, seed):
    points = np.random.default_rng(seed).normal(size=(m, d))
    return points, np.array_split(points, n)


@trials(3)
@given(
    st.integers(4, 7), st.integers(0, 2**16), st.sampled_from([{}, {"n_init": 3}, {"k": "2..5"}]),
    st.booleans(),
    st.sets(st.tuples(st.integers(0, 3), st.integers(0, 24)), max_size=30),
)  # fmt: skip
@example(5, 1, {"k": "2..5"}, False, {(1, q) for q in range(14, 24)})
def test_every_step_is_exact_over_the_rows_of_whom_it_counts(n, seed, way, blind, away):
    _, parts = split(60, n, 2, seed)
    # One client at a time, as n=4 can do without one; it hears all, and is in the sums when it speaks again.
    schedule = {(f"client-{c % n}", q) for q, c in {q: c for c, q in away}.items()}
    way = FederatedLloyd(**({"k": 3} | way), blind=blind, coarse="allow", max_iter=25)
    data = secfc.Federation.from_arrays(parts)
    result = secfc.fit(way, data, seed=seed, faults=absent(schedule))
    counted = result.details.counted
    for q, names in enumerate(counted):
        assert set(data.names) - set(names) == {c for c, at in schedule if at == q}
    histories, runs, whole, kept = play(result.plan, parts, counted)
    history, end = histories[runs.best], runs.ends[runs.best]
    for ours, theirs in zip(result.history, history, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (result.n_iter, result.converged) == (end.n_iter, end.converged)
    # Whatever the course: centers are means of rows counted last, by labels of the nearest before.
    unit = Fraction(result.plan.quantizer.scale)
    exact = Fraction(0)
    for h in range(result.k):
        rows = whole[kept & (result.history[-1] == h)]
        if len(rows):
            np.testing.assert_allclose(result.centers[h], rows.mean(axis=0) / float(unit), atol=1e-12)
        total = rows.sum(axis=0)
        exact += sum_of_squares(rows) - Fraction(int((total**2).sum()), max(1, len(rows)))
    assert result.cost == (float(exact / unit**2) if result.plan.priced else None)
    if result.converged:
        apart = ((whole / float(unit))[:, None] - result.centers[None]) ** 2
        nearest = apart.sum(axis=2)
        assert (nearest[np.arange(len(whole)), result.flat] <= nearest.min(axis=1) + 1e-9).all()


def test_a_run_ends_when_no_label_changes_and_nobody_came_or_left(monkeypatch):
    points, parts = split(400, 5, 2, 0)
    data = secfc.Federation.from_arrays(parts)
    whole = secfc.fit(FederatedLloyd(4), data, seed=0)
    last = len(whole.details.counted) - 1

    def lost(**more):
        """client-1 is lost in the last question of all."""
        away = absent({("client-1", q) for q in range(last, 60)})
        result = secfc.fit(FederatedLloyd(4), data, seed=0, faults=away, **more)
        far = ((points[:, None] - result.centers[None]) ** 2).sum(axis=2)
        return result, (far.argmin(axis=1) == result.flat).all()

    result, nearest = lost()
    assert len(result.details.counted) > last + 1
    assert result.converged
    assert nearest
    hear = Restarts.hear
    monkeypatch.setattr(Restarts, "hear", lambda runs, told, held, others: hear(runs, told, held))
    result, nearest = lost()  # Control: it says so, and labels are of the nearest of other centers.
    assert result.converged
    assert not nearest


def test_costs_of_all_starts_are_of_the_rows_counted_last(monkeypatch):
    """Of those that ended before somebody was lost, too."""
    _, parts = split(150, 5, 2, 3)
    data = secfc.Federation.from_arrays(parts)
    plan = secfc.fit(FederatedLloyd(6, n_init=3), data, seed=0).plan
    everybody, fewer, seen = plan.clients, plan.clients[1:], []
    hear = Restarts.hear

    def listening(runs, told, held, others):
        hear(runs, told, held, others)
        seen.append({run: end.cost for run, end in runs.ends.items()})

    monkeypatch.setattr(Restarts, "hear", listening)
    play(plan, parts, [everybody] * 200)
    first = next(q for q, ends in enumerate(seen, 1) if ends)
    lost = [everybody] * (first + 1) + [fewer] * 200

    def costs():
        seen.clear()
        histories, _, whole, kept = play(plan, parts, lost)
        found = {}
        for run, labels in ((run, history[-1]) for run, history in histories.items()):
            rows = [whole[kept & (labels == h)] for h in range(6)]
            means = [
                sum_of_squares(own) - Fraction(sum_of_squares(own.sum(axis=0)), len(own)) for own in rows
            ]
            found[run] = sum(means)
        return found, seen[-1]

    exact, said = costs()
    assert exact == said
    # Control: where ended runs stay ended.
    monkeypatch.setattr(
        Restarts,
        "hear",
        lambda *of: (hear(*of[:-1]), seen.append({r: e.cost for r, e in of[0].ends.items()})),
    )
    exact, said = costs()
    assert exact != said


@pytest.mark.parametrize("quiet", [17, 19])
def test_runs_end_though_every_other_question_counts_others(quiet):
    """Two runs took a step more in turn for ever, each after the other had ended."""
    _, parts = split(150, 5, 2, 3)
    data = secfc.Federation.from_arrays(parts)
    plan = secfc.fit(FederatedLloyd(6, n_init=3, max_iter=4, coarse="allow"), data, seed=0).plan
    turns = [plan.clients[int(q > quiet and (q - quiet) % 2) :] for q in range(80)]
    histories, *_ = play(plan, parts, turns)
    # Labels before the first step and after each; two may follow the fourth.
    assert max(map(len, histories.values())) in (6, 7)


def test_the_result_and_the_report_say_which_sums_count_whom():
    _, parts = split(200, 5, 2, 1)
    data = secfc.Federation.from_arrays(parts)
    way = FederatedLloyd(3)
    schedule = {("client-1", 0), ("client-1", 1), ("client-3", 4), ("client-4", 4)}
    result = secfc.fit(dataclasses.replace(way, losses=2), data, seed=0, faults=absent(schedule))
    n = len(result.details.counted)
    assert result.excluded == ("client-1", "client-3", "client-4")
    assert result.learned[1:] == (
        f"that rows of 'client-1' are in the sums of questions 3-{n} alone",
        f"that rows of 'client-3', 'client-4' are in the sums of questions 1-4, 6-{n} alone",
    )
    assert all((labels >= 0).all() for labels in result.labels)
    found = report.make_report(result, federation=data, algorithm=way)
    assert f"questions 3-{n} alone" in " ".join(report.as_text(found).split())
    assert "each step over the rows in its sums" in " ".join(report.as_text(found).split())


@pytest.mark.parametrize("blind", [True, False])
def test_a_server_that_calls_a_client_lost_shows_clients_its_sums(blind):
    """Where no row moves any more totals with a client and without it differ by its rows of each cluster."""
    _, parts = split(200, 5, 3, 2)
    data = secfc.Federation.from_arrays(parts)
    way = FederatedLloyd(3, blind=blind)
    quiet = secfc.fit(way, data, seed=0)
    last = len(quiet.details.counted) - 1
    away = absent({("client-1", last)})
    result = secfc.fit(way, data, seed=0, faults=away, keep_bodies=True)
    told = told_values(View.of(result, result.plan, "client-3"))
    before, after = (told[ITERATE + q * STRIDE]["client-3"][:9].reshape(3, 3) for q in (last, last + 1))
    whole = np.rint(parts[1] * result.plan.quantizer.scale).astype(np.int64)
    np.testing.assert_array_equal(before - after, sums_of(whole, quiet.labels[1], 3)[0])


# --- under a floor


def whole_sums(result, client):
    """The sum of all rows in each opening of a run of two features, as a client is told it."""
    view = View.of(result, result.plan, client)
    told = told_values(view)
    found = result.plan.count_clusters(pair_counted(view, told))
    return [told[at][client][: 2 * c].reshape(c, 2).sum(axis=0) for at, c in found.items()]


def lone(m=400):
    """Rows of five clients, of which client-1 has one, far from all others but within a cluster of them."""
    points, _ = split(m, 5, 2, 7)
    parts = np.array_split(points, 4)
    return [parts[0], np.array([[0.25, -0.5]]), *parts[1:]]


def count_all(monkeypatch):
    """A server and members that count under a floor whom they hear, as without one."""
    receive = algorithm.receive_residues
    monkeypatch.setattr(algorithm, "receive_residues", lambda plan, number, *, due: receive(plan, number))
    monkeypatch.setattr(
        algorithm.ClientSums,
        "pad_sum",
        lambda sums, number, length, counted: sums.plan.draw_pad(sums.key, number, length, counted),
    )


def test_under_a_floor_who_comes_late_is_in_no_sum_and_has_its_labels(monkeypatch):
    parts = lone()
    data, way = secfc.Federation.from_arrays(parts), FederatedLloyd(3, floor=10)

    def joined(since):
        away = absent({("client-1", q) for q in range(since)})
        return secfc.fit(way, data, seed=0, faults=away, keep_bodies=True)

    late, never = joined(2), joined(500)
    assert late.excluded == never.excluded == ("client-1",)
    assert late.learned[1:] == ("that rows of 'client-1' are in no sum",)
    np.testing.assert_array_equal(late.centers, never.centers)
    apart = ((data.stacked()[:, None] - late.centers[None]) ** 2).sum(axis=2)
    assert (apart.argmin(axis=1) == late.flat).all()
    seen = whole_sums(late, "client-3")
    assert len(seen) > 2
    assert all((total == seen[0]).all() for total in seen)
    # Control: where it is counted from when it is heard, its one row is the difference of two totals.
    count_all(monkeypatch)
    seen = whole_sums(joined(2), "client-3")
    row = np.rint(parts[1][0] * late.plan.quantizer.scale)
    assert (seen[-1] - seen[0] == row).all()


def test_under_a_floor_a_sum_without_a_lost_client_would_tell_its_rows(monkeypatch):
    """So it ends the run: whatever the floor and whoever is lost, the totals of all rows fall by its own."""
    parts = lone()
    data, way = secfc.Federation.from_arrays(parts), FederatedLloyd(3, floor=10)
    away = absent({("client-1", q) for q in range(3, 500)})
    with pytest.raises(
        TooFewReplies, match="start again with them: sums without their rows, of this run or another"
    ):
        secfc.fit(way, data, seed=0, faults=away)
    count_all(monkeypatch)
    result = secfc.fit(way, data, seed=0, faults=away, keep_bodies=True)
    seen = whole_sums(result, "client-3")
    assert (seen[0] - seen[-1] == np.rint(parts[1][0] * result.plan.quantizer.scale)).all()


def test_under_a_floor_a_second_run_without_a_client_tells_its_rows():
    """So nobody is told to start again without it."""
    parts, way = lone(), FederatedLloyd(3, floor=10, scale=2.0**10)
    seen = []
    for those in (parts, [parts[0], *parts[2:]]):
        data = secfc.Federation.from_arrays(those)
        result = secfc.fit(way, data, bound=8.0, seed=0, keep_bodies=True)
        seen.append(whole_sums(result, "client-3")[0])
    assert (seen[0] - seen[1] == np.rint(parts[1][0] * 2.0**10)).all()


def test_squares_and_a_sum_tell_two_rows_of_others():
    """As the page says of squares: one total does, where sums of clusters leave every split open."""
    mine, others = np.arange(20.0)[:, None], np.array([[3.25], [11.5]])
    data = secfc.Federation.from_arrays([mine, others[:1], others[1:]])
    result = secfc.fit(FederatedLloyd(2, n_init=2), data, seed=0, keep_bodies=True)
    plan, told = result.plan, told_values(View.of(result, result.plan, "client-0"))
    (first,) = plan.read_totals("client-0", told[min(told)]["client-0"], [1], squares=True)
    own = np.rint(mine * plan.quantizer.scale).astype(np.int64)
    total, square = int(first.sums[0, 0] - own.sum()), first.square - sum_of_squares(own)
    apart = math.isqrt(2 * square - total**2)
    assert [(total - apart) // 2, (total + apart) // 2] == (others[:, 0] * plan.quantizer.scale).tolist()
    reading = secfc.fit(FederatedLloyd(2, n_init=2, blind=False), data, seed=0)
    for sentence in (leakage_to_client(plan, "client-0", 9), reading.learned[0]):
        assert "; the sum of squared norms of all rows in each" in sentence
