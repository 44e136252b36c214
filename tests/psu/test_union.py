"""The union is the true union: any inputs, both modes, dropouts, retries; or it aborts and says why."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psu
from field import SeededCoins
from psu import together
from psu.plan import Sheet, UnionPlan

ids = st.one_of(st.text(max_size=3), st.binary(max_size=2), st.integers(-3, 3))
modes = st.sampled_from([psu.Committee(1), psu.Server()])


def check(sets: list[Any], result: psu.UnionResult) -> None:
    """Row numbers are one bijection of the true union, repeated IDs included."""
    number: dict[Any, int] = {}
    for own, rows in zip(sets, result.rows, strict=True):
        assert rows is not None
        for x, row in zip(own, rows.tolist(), strict=True):
            assert number.setdefault((type(x), x), row) == row
    assert sorted(number.values()) == list(range(result.m))


def seeded(seed: int) -> Any:
    return lambda party: SeededCoins(seed, party)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.lists(ids, max_size=12), min_size=3, max_size=5), modes, st.booleans())
def test_union_of_anything(sets: list[list[Any]], mode: Any, sized: bool) -> None:
    every = [x for own in sets for x in own]
    if {str(x) for x in every if isinstance(x, int)} & {x for x in every if isinstance(x, str)}:
        with pytest.raises(ValueError, match="whole numbers and also text"):
            psu.union(sets, mode=mode)
        return
    check(sets, psu.union(sets, mode=mode, bound=None if sized else 64))


def test_a_number_and_its_digits_are_refused() -> None:
    for seven in (7, np.int64(7)):
        with pytest.raises(ValueError, match="as 7 and '7', which are never equal: convert"):
            psu.union([[seven, 8], ["7"], ["9"]], t=1)
    with pytest.raises(ValueError, match="convert all to one kind"):
        psu.union([np.array([7, 8]), (name for name in ("7",)), ["9"]], t=1)
    assert psu.union([[7], ["07"], [b"7"]], t=1).m == 3


@pytest.mark.parametrize("mode", [psu.Committee(1), psu.Committee(2), psu.Server()])
def test_special_sets(mode: Any) -> None:
    for sets in (
        [[]] * 5,
        [["only"], [], [], [], []],
        [["only"]] * 5,
        [list(range(300))] * 5,
        [list(range(60 * j, 60 * j + 60)) for j in range(5)],
        [
            ["naïve", "naive", "\u0000", "", "\ud800", "名"],
            [b"", b"\0", b"\xff"],
            [0, -1, 2**200],
            ["00"],
            [],
        ],
    ):
        check(sets, psu.union(sets, mode=mode))


def test_a_hundred_thousand_duplicates_inside_one_client() -> None:
    many = ["same"] * 100_000 + ["other"]
    result = psu.union([many, ["same"], []], t=1)
    assert result.m == 2
    assert np.array_equal(np.unique(result.rows[0][:-1]), result.rows[1])


def test_the_common_numbering_is_that_of_the_ids_of_larger_sets() -> None:
    rng = np.random.default_rng(0)
    sets = [rng.choice(30_000, 15_000, replace=False) for _ in range(4)]
    for mode in (psu.Committee(1, spares=1), psu.Server()):
        result = psu.union(sets, mode=mode)
        number = np.full(30_000, -1)
        for own, rows in zip(sets, result.rows, strict=True):
            assert rows is not None
            fresh = number[own] == -1
            assert np.array_equal(number[own][~fresh], rows[~fresh])
            number[own] = rows
        used = np.sort(number[number >= 0])
        assert np.array_equal(used, np.arange(result.m))
        assert result.attempts == 1
        assert abs(result.estimate - result.m) < 0.1 * result.m


def test_seeded_coins_reproduce_and_the_order_of_ids_does_not_matter() -> None:
    sets = [list(range(40)), list(range(20, 70)), ["x", "y"]]
    first, again = (psu.union(sets, t=1, coins=seeded(3)) for _ in range(2))
    turned = psu.union([s[::-1] for s in sets], t=1, coins=seeded(3))
    for a, b, c in zip(first.rows, again.rows, turned.rows, strict=True):
        assert np.array_equal(a, b)
        assert np.array_equal(a, c[::-1])
    other = psu.union(sets, t=1, coins=seeded(4))
    assert not np.array_equal(first.rows[0], other.rows[0])


def test_accounting() -> None:
    sets = [list(range(100))] * 3
    result = psu.union(sets, t=1)
    assert repr(result) == f"UnionResult(n=3, m=100, rounds={result.rounds}, attempts=1)"
    assert result.sent("client 0") > 0
    assert result.sent("member 0") > 0
    kinds = {kind for _, _, kind in result.traffic}
    assert kinds == {
        "Offer",
        "KeyPacket",
        "ShareBlock",
        "Turn",
        "Opening",
        "Begin",
        "UnionTags",
        "Confirmation",
    }
    only = psu.union(sets, mode=psu.Server())
    kinds = {kind for _, _, kind in only.traffic}
    assert kinds == {"Offer", "KeyPacket", "MaskedBlock", "Begin", "UnionTags", "Confirmation"}


def test_every_message_and_every_second_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    posted: list[tuple[str, str, str, int]] = []
    real = together._Book.sent

    def post(self: Any, sender: str, recipient: str, message: Any) -> None:
        posted.append((sender, recipient, type(message).__name__, message.nbytes))
        real(self, sender, recipient, message)

    monkeypatch.setattr(together._Book, "sent", post)
    # Each look at the clock is a second later, so every piece of work takes one.
    ticks = itertools.count(1000.0)
    monkeypatch.setattr(together.time, "process_time", lambda: next(ticks))
    result = psu.union([[1, 2], [2], [3]], t=1)
    expected: dict[tuple[str, str, str], tuple[int, int]] = {}
    for sender, recipient, kind, size in posted:
        if sender.split()[-1] != recipient.split()[-1]:
            count, total = expected.get((sender, recipient, kind), (0, 0))
            expected[sender, recipient, kind] = (count + 1, total + size)
    assert result.traffic == expected
    assert max(count for count, _ in expected.values()) > 1
    # An offer goes to each of the others, a confirmation of the group key, and one of the union.
    for kind, each in (("Offer", 1), ("Confirmation", 2)):
        counts = [count for (_, _, k), (count, _) in expected.items() if k == kind]
        assert counts == [each] * 6
    for party in ("client 0", "member 2", "server"):
        own = [size for (sender, _, _), (_, size) in expected.items() if sender == party]
        assert result.sent(party) == sum(own) > 0
    assert result.sent("client 3") == 0
    assert set(result.seconds) == {f"{part} {j}" for part in ("client", "member") for j in range(3)} | {
        "server"
    }
    assert sum(result.seconds.values()) == (next(ticks) - 1000) / 2
    assert min(result.seconds.values()) >= 1


@pytest.mark.parametrize(("n", "spares", "t"), [(3, 0, 1), (4, 0, 1), (5, 0, 2), (5, 1, 1), (6, 1, 2)])
def test_by_default_as_many_may_collude_as_n_allows(n: int, spares: int, t: int) -> None:
    plan = psu.union([["x"]] * n, spares=spares).plan
    assert plan.mode == psu.Committee(t, spares)
    # Without a bound the union may have 2**24 rows.
    assert (plan.bound, plan.sized) == (2**24, True)
    assert not psu.union([["x"]] * 3, bound=9).plan.sized


# --- losses --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "t", "spares"), [(4, 1, 1), (5, 1, 2), (7, 2, 2)])
def test_any_spares_may_be_silent_in_every_round(n: int, t: int, spares: int) -> None:
    rng = np.random.default_rng(n)
    sets = [rng.choice(400, 200).tolist() for _ in range(n)]
    committee = 2 * t + 1 + spares
    lost = {r: rng.choice(committee, spares, replace=False).tolist() for r in range(1, 40)}
    check(sets, psu.union(sets, mode=psu.Committee(t, spares), lost=lost))


def test_one_more_silent_member_aborts_and_is_named() -> None:
    sets = [list(range(200))] * 4
    with pytest.raises(psu.UnionAborted, match="2 of 4 committee members answer, 3 are needed") as caught:
        psu.union(sets, t=1, spares=1, lost={3: [0, 2]})
    assert caught.value.parties == (0, 2)
    assert not caught.value.proof


@pytest.mark.parametrize(("n", "t", "spares"), [(3, 1, 0), (4, 1, 1), (7, 2, 2)])
def test_coefficients_that_clients_deal_open_the_same(n: int, t: int, spares: int, monkeypatch: Any) -> None:
    monkeypatch.setattr("psu.plan.MAX_SUBSETS", 0)
    rng = np.random.default_rng(n)
    committee = 2 * t + 1 + spares
    lost = {r: rng.choice(committee, spares, replace=False).tolist() for r in range(1, 40)}
    for size in (0, 1, 5, 200):
        sets = [rng.choice(2 * size + 1, size, replace=False).tolist() for _ in range(n)]
        result = psu.union(sets, mode=psu.Committee(t, spares), lost=lost)
        check(sets, result)
        assert not result.plan.key_subsets
        assert result.attempts == 1


def test_dealt_coefficients_are_used_once_and_end(monkeypatch: Any) -> None:
    monkeypatch.setattr("psu.plan.MAX_SUBSETS", 0)
    used: list[tuple[str, int, int]] = []
    answered = together.opening._open

    def watched(member: Any, turn: Any) -> Any:
        if member.secrets.me == 0:
            used.append((member.sheet.label, member.spent, len(member.active) * member.sheet.opened))
        return answered(member, turn)

    monkeypatch.setattr(together.opening, "_open", watched)
    sets = [list(range(300)), list(range(200, 500)), []]
    assert psu.union(sets, t=1).attempts == 1
    for (sheet, spent, words), (other, start, _) in itertools.pairwise(used):
        assert start == (spent + words if sheet == other else 0)
    assert len(used) > 5
    # Too few, and the table is made anew: not opened by coefficients that were used.
    monkeypatch.setattr(UnionPlan, "budget", lambda plan, sheet: sheet.rows + (2000 if sheet.attempt else 0))
    result = psu.union(sets, t=1)
    check(sets, result)
    assert result.attempts == 2


@pytest.mark.nightly
def test_seven_of_sixteen_may_collude() -> None:
    sets = [np.random.default_rng(j).choice(1 << 17, 1 << 16, replace=False) for j in range(16)]
    result = psu.union(sets)
    assert result.plan.t == 7
    assert result.m == len(np.unique(np.concatenate(sets)))


def test_a_client_lost_before_sharing_is_left_out() -> None:
    sets = [["a"], ["b"], ["c"], ["lost"]]
    result = psu.union(sets, t=1, lost={0: [3]})
    assert result.m == 3
    assert result.rows[3] is None
    # A lost member costs a spare.
    assert psu.union(sets, t=1, spares=1, lost={0: [1]}).m == 3
    with pytest.raises(psu.UnionAborted) as caught:
        psu.union(sets, t=1, lost={0: [1]})
    assert caught.value.parties == (1,) or "committee members answer" in caught.value.reason


def test_a_client_lost_in_server_mode_is_named() -> None:
    with pytest.raises(psu.UnionAborted, match="missing") as caught:
        psu.union([["a"]] * 3, mode=psu.Server(), lost={0: [2]})
    assert caught.value.parties == (2,)


# --- stalls --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [psu.Committee(1), psu.Server()])
def test_a_stalled_table_is_tried_again_with_a_new_salt(mode: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    planned = UnionPlan.cells

    def tight(plan: UnionPlan, size: int, attempt: int) -> Sheet:
        sheet = planned(plan, size, attempt)
        return sheet if attempt else Sheet(sheet.kind, 0, 400)

    monkeypatch.setattr(UnionPlan, "cells", tight)
    sets = [list(range(500)), list(range(250, 700)), []]
    result = psu.union(sets, mode=mode)
    check(sets, result)
    assert result.attempts == 2


@pytest.mark.parametrize("mode", [psu.Committee(1), psu.Server()])
def test_a_union_above_its_bound_aborts(mode: Any) -> None:
    with pytest.raises(psu.UnionAborted, match="3 tables stalled"):
        psu.union([list(range(900)), [], []], mode=mode, bound=100)


def test_tables_grow_and_salts_differ() -> None:
    plan = UnionPlan(3, psu.Committee(1), bytes(16))
    rows = [plan.cells(1000, a).rows for a in range(3)]
    assert rows[0] >= 1500
    assert rows[1] >= 1.25 * rows[0] - 4
    assert rows[2] >= 1.25 * rows[1] - 8
    assert len({plan.salt(a) for a in range(4)}) == 4


# --- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"t": 2}, "2t\\+1\\+spares = 5 are needed"),
        ({"t": 1, "spares": 1}, "4 are needed"),
        ({"t": 0}, "t must be at least 1"),
        ({"t": 1, "mode": psu.Server()}, "threshold mode"),
        ({"bound": 2**40}, "bound"),
        ({"bound": 0}, "bound"),
    ],
)
def test_parameters_that_do_not_fit(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        psu.union([["a"]] * 3, **arguments)


def test_plans_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match="session"):
        UnionPlan(3, psu.Committee(1), b"short")
    with pytest.raises(ValueError, match="8 spares: at most t=7 are possible where coefficients are dealt"):
        UnionPlan(40, psu.Committee(7, 8), bytes(16))
    with pytest.raises(ValueError, match="n=1"):
        UnionPlan(1, psu.Server(), bytes(16))
    with pytest.raises(ValueError, match=r"2t\+1\+spares = 6 are needed"):
        UnionPlan(5, psu.Committee(2, 1), bytes(16))
    with pytest.raises(ValueError, match="min_clients"):
        UnionPlan(3, psu.Server(), bytes(16), min_clients=4)
    with pytest.raises(ValueError, match="no sheet"):
        Sheet("bogus", 0, 4)
    assert UnionPlan(3, psu.Committee(1), bytes(16)).digest != UnionPlan(3, psu.Server(), bytes(16)).digest


def test_importing_is_cheap() -> None:
    import subprocess
    import sys

    code = "import sys, psu; assert 'numba' not in sys.modules and psu.__secfc__; psu.UnionPlan"
    subprocess.run([sys.executable, "-c", code + "; assert 'numba' not in sys.modules"], check=True)


def test_the_driver_names_no_round_twice() -> None:
    # Openings are numbered over the whole session, retries and sizing included.
    run: Any = together._Together(
        UnionPlan(3, psu.Committee(1), bytes(16)), [seeded(0)(str(j)) for j in range(3)], {}
    )
    run.run([list(range(50))] * 3)
    assert run.poll.number == run.rounds
