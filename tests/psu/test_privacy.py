"""What a coalition sees depends on the union alone.  Every test here is also run on a broken variant.

A test that cannot fail shows nothing: each law and each statistic is computed for the protocol, where it
must not distinguish, and for a naive protocol (tests/psu/naive.py, or an opening with too little
randomness), where it must.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest

import psu
from field import MERSENNE_61, SeededCoins
from psu import kernels, together
from psu.identify import tags
from psu.plan import UnionPlan
from tests.oracles import psu as reference

from .naive import naive_openings

P = 11
Law = Counter[tuple[int, ...]]


# --- the exact law of an opened cell, over a tiny field ------------------------------------------


def gram_law(ids: list[tuple[int, int]], coefficients: tuple[int, ...]) -> Law | None:
    """The law of what is opened over all g, or None for a singular cell (probability about 1/q)."""
    cell = reference.gram(ids, coefficients, P)
    if len(ids) >= 3 and reference.determinant(cell, P) == 0:
        return None
    return Counter(reference.opened(cell, g, P) for g in product(range(P), repeat=3))


def naive_law(ids: list[tuple[int, int]], coefficients: tuple[int, ...]) -> Law | None:
    """Broken: the cell sum_x R_x (1, z, y) itself is shown."""
    return Counter([reference.gram(ids, coefficients, P)[:3]])


def scaled_law(ids: list[tuple[int, int]], coefficients: tuple[int, ...]) -> Law | None:
    """Broken for two IDs and more: the cell is multiplied by one secret number."""
    cell = reference.gram(ids, coefficients, P)[:3]
    return Counter(tuple(rho * x % P for x in cell) for rho in range(P))


def laws(law: Callable[..., Law | None], count: int) -> int:
    """How many different laws the coefficients of a cell with `count` IDs can lead to."""
    rng = np.random.default_rng(count)
    while True:
        ids = [(int(z), int(y)) for z, y in rng.integers(0, P, (count, 2))]
        # In general position, as random tags are: no three on a line, hence all distinct.
        lines = combinations(ids, 3) if count >= 3 else [((0, 0), ids[0], ids[-1])] * (count > 1)
        if len(set(ids)) == count and (
            count < 3
            or all(
                (b[0] - a[0]) * (c[1] - a[1]) % P != (c[0] - a[0]) * (b[1] - a[1]) % P for a, b, c in lines
            )
        ):
            break
    choices = list(product(range(1, P), repeat=count))
    if len(choices) > 100:
        choices = [choices[i] for i in rng.choice(len(choices), 60, replace=False)]
    seen: list[Law] = []
    for coefficients in choices:
        found = law(ids, coefficients)
        if found is not None and found not in seen:
            seen.append(found)
    return len(seen)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_law_of_an_opened_cell_does_not_depend_on_who_holds_its_ids(count: int) -> None:
    assert laws(gram_law, count) == 1


@pytest.mark.parametrize("count", [1, 2, 3])
def test_that_law_catches_a_cell_shown_as_it_is(count: int) -> None:
    assert laws(naive_law, count) > 1


def test_that_law_catches_one_secret_factor_a_cell() -> None:
    assert laws(scaled_law, 1) == 1  # enough for one ID, so the test needs two
    assert laws(scaled_law, 2) > 1


def test_the_law_is_the_stated_one() -> None:
    one = gram_law([(3, 5)], (4,))
    assert one == Counter({tuple(a * x % P for x in (1, 3, 5)): P**2 for a in range(P)})
    assert gram_law([], ()) == Counter({(0, 0, 0): P**3})
    three = gram_law([(1, 2), (3, 5), (4, 4)], (1, 2, 3))
    assert three is not None
    assert set(three.values()) == {1}


@pytest.mark.parametrize(("t", "members"), [(1, 3), (2, 5)])
def test_any_t_shares_are_independent_of_the_secret_and_t_plus_one_are_not(t: int, members: int) -> None:
    p, holders = 7, list(range(t))

    def law(secret: int, coalition: tuple[int, ...]) -> Law:
        return Counter(
            tuple(reference.share(secret, pads, holders, i, p) for i in coalition)
            for pads in product(range(p), repeat=t)
        )

    for coalition in combinations(range(members), t):
        assert all(law(s, coalition) == law(0, coalition) for s in range(p))
    for coalition in combinations(range(members), t + 1):
        assert law(1, coalition) != law(0, coalition)


# --- the insider's attack ------------------------------------------------------------------------


class Watched(together._Together):
    """The driver, with everything the relay sees written down."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.seen: list[tuple[str, Any, Any]] = []

    def ask(self, sheet: Any, members: Any, rows: int, question: Any) -> Any:
        values = super().ask(sheet, members, rows, question)
        self.seen.append((sheet.label, members[0].active.copy(), values.copy()))
        return values


def watch(sets: list[Any], seed: int, mode: Any, size: int) -> Watched:
    plan = UnionPlan(len(sets), mode, bytes(16), bound=size, sized=False)
    run = Watched(plan, [SeededCoins(seed, str(j)) for j in range(len(sets))], {})
    run.run(sets)
    return run


def ks(a: Any, b: Any) -> float:
    """The p-value of a two-sample Kolmogorov-Smirnov test (asymptotic, Stephens' correction)."""
    a, b = np.sort(a), np.sort(b)
    both = np.concatenate([a, b])
    gap = np.abs(
        np.searchsorted(a, both, "right") / len(a) - np.searchsorted(b, both, "right") / len(b)
    ).max()
    scale = math.sqrt(len(a) * len(b) / (len(a) + len(b)))
    x = (scale + 0.12 + 0.11 / scale) * float(gap)
    if x < 0.2:
        return 1.0
    return min(1.0, 2 * sum((-1) ** (k - 1) * math.exp(-2 * k * k * x * x) for k in range(1, 100)))


def ratios(shown: list[tuple[int, int]], own: dict[int, int], shared: set[int]) -> tuple[Any, Any]:
    """What is shown over the insider's own coefficient, in [0, 1): for its shared and its other IDs."""
    parts: tuple[list[float], list[float]] = ([], [])
    for z, value in shown:
        if z in own:
            ratio = value * pow(own[z], -1, MERSENNE_61) % MERSENNE_61
            parts[z not in shared].append(ratio / MERSENNE_61)
    return np.array(parts[0]), np.array(parts[1])


def sets_of(seed: int, size: int) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.choice(2 * size, size, replace=False) for _ in range(3)]


def insider(seed: int, patch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """The ratios a client sees that is given all openings: for its shared IDs, and for its others."""
    add = kernels.add_gram
    taken: list[dict[int, int]] = []

    def spy(z: Any, y: Any, r: Any, *rest: Any) -> Any:
        taken.append(dict(zip(z.tolist(), r.tolist(), strict=True)))
        return add(z, y, r, *rest)

    patch.setattr(kernels, "add_gram", spy)
    run = watch(sets_of(seed, 3000), seed, psu.Committee(1), 6000)
    patch.setattr(kernels, "add_gram", add)
    own = taken[0]
    shared = set(own) & (set(run.own[1][0].z.tolist()) | set(run.own[2][0].z.tolist()))
    shown = [
        (s1 * pow(s0, -1, MERSENNE_61) % MERSENNE_61, s0)
        for _, _, values in run.seen
        for s0, s1, _ in values[values[:, 0] != 0].tolist()
    ]
    a, b = ratios(shown, own, shared)
    assert min(len(a), len(b)) > 700
    return a, b


@pytest.mark.parametrize("seed", range(3))
def test_an_insider_learns_nothing_about_its_own_ids(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # False-alarm rate 1e-3 for each seed; a leak of the naive kind gives 1e-100 and less.
    a, b = insider(seed, monkeypatch)
    assert ks(a, b) > 1e-3
    assert not (a == 1 / MERSENNE_61).any()
    assert not (b == 1 / MERSENNE_61).any()


def test_that_attack_breaks_the_protocol_without_its_secret_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    # Broken: g = (1, 0, 0) in the otherwise unchanged protocol, so sums of coefficients are opened.
    whole = kernels.open_gram

    def bare(shares: Any, active: Any, g: Any, weight: Any, out: Any) -> None:
        g[:] = 0
        g[:, 0] = 1
        whole(shares, active, g, weight, out)

    monkeypatch.setattr(kernels, "open_gram", bare)
    a, b = insider(0, monkeypatch)
    assert ks(a, b) < 1e-100
    assert (b == 1 / MERSENNE_61).all()


def test_the_insider_breaks_the_naive_union() -> None:
    sets = sets_of(0, 3000)
    plan = UnionPlan(3, psu.Committee(1), bytes(16), bound=6000, sized=False)
    owned = [tags(psu.digests(ids), bytes(16))[0] for ids in sets]
    shown, own = naive_openings(plan, owned, 6000, seed=0)
    shared = set(own) & (set(owned[1].z.tolist()) | set(owned[2].z.tolist()))
    a, b = ratios(list(shown.items()), own, shared)
    assert ks(a, b) < 1e-100
    # The attack itself: an ID is shared exactly if its coefficient is not mine alone.
    guesses = {z: value != own[z] for z, value in shown.items() if z in own}
    assert len(guesses) > 900
    assert all(guess == (z in shared) for z, guess in guesses.items())


# --- the view of t members and the relay ---------------------------------------------------------


def structure(run: Watched) -> list[tuple[str, list[int], list[bool]]]:
    """What the relay can read off: which cells were opened when, and which turned out empty."""
    return [
        (label, active.tolist(), (values == 0).all(axis=1).tolist()) for label, active, values in run.seen
    ]


ASSIGNMENTS = {
    "one owner": [list(range(300)), [], []],
    "split": [list(range(100)), list(range(100, 200)), list(range(200, 300))],
    "everybody": [list(range(300))] * 3,
    "pairs": [list(range(200)), list(range(100, 300)), [*range(100), *range(200, 300)]],
}


@pytest.mark.parametrize("name", list(ASSIGNMENTS)[1:])
def test_the_structure_of_a_run_is_a_function_of_the_union(name: str) -> None:
    # Seeded coins give the same group key, so the same tags; the coefficients differ with the owners.
    first = watch(ASSIGNMENTS["one owner"], 8, psu.Committee(1), 300)
    other = watch(ASSIGNMENTS[name], 8, psu.Committee(1), 300)
    assert structure(first) == structure(other)
    assert len(structure(first)) > 3


def test_that_structure_sees_a_different_union() -> None:
    first = watch(ASSIGNMENTS["one owner"], 8, psu.Committee(1), 300)
    other = watch([list(range(299)), [], []], 8, psu.Committee(1), 300)
    assert structure(first) != structure(other)


def openings_at(seed: int, assignment: str) -> Any:
    """First coordinates of all opened values in the first round, as numbers in [0, 1)."""
    run = watch(ASSIGNMENTS[assignment], seed, psu.Committee(1), 300)
    _, _, values = run.seen[0]
    live = values[(values != 0).any(axis=1)]
    return live[:, 0] / MERSENNE_61


def test_opened_values_are_uniform_whoever_owns_the_ids() -> None:
    # False-alarm rate 1e-3 for each of 3 comparisons, seeds fixed.
    first = np.concatenate([openings_at(seed, "one owner") for seed in range(6)])
    for name in list(ASSIGNMENTS)[1:]:
        other = np.concatenate([openings_at(seed + 50, name) for seed in range(6)])
        assert ks(first, other) > 1e-3
    assert ks(first, (np.arange(4000) + 0.5) / 4000) > 1e-3


def test_that_comparison_catches_constant_coefficients() -> None:
    # Broken: coefficients 1 and no fresh g, so sums are multiplicities.
    def bare(sets: list[list[int]]) -> Any:
        plan = UnionPlan(3, psu.Committee(1), bytes(16), bound=300, sized=False)
        table = np.zeros((plan.cells(300, 0).rows, 6), np.uint64)
        from psu.tables import table_geometry

        for ids in sets:
            own, _ = tags(psu.digests(ids), bytes(16))
            one = np.ones(len(own), np.uint64)
            kernels.add_gram(own.z, own.y, one, table, *table_geometry(plan, plan.cells(300, 0)))
        return table[table[:, 0] != 0, 0] / MERSENNE_61

    assert ks(bare(ASSIGNMENTS["one owner"]), bare(ASSIGNMENTS["everybody"])) < 1e-20


def test_single_answers_are_masked_and_never_repeat() -> None:
    # The relay sees each member's summand, not only the sum: uniform, and fresh when it asks again.
    from psu import opening, tables
    from psu.plan import Sheet

    from .test_steps import secrets_of

    plan = UnionPlan(3, psu.Committee(1), bytes(16), bound=10, sized=False)
    secrets, sheet = secrets_of(plan), Sheet("counts", 0, 2000)
    holdings = [tables.empty_holding(sheet) for _ in range(3)]
    for j in range(3):
        for i, block in tables.deal_blocks(plan, secrets[j], sheet, np.ones((2000, 1), np.uint64), 0).items():
            holdings[i] = tables.absorb_block(plan, secrets[i], holdings[i], block)
    members = [
        opening.begin_opening(plan, secrets[i], tables.settle_share(plan, secrets[i], holdings[i], range(3)))
        for i in range(3)
    ]
    poll, answers = opening.OpeningPoll(plan), []
    for _ in range(2):
        poll, turn = opening.open_all_rows(sheet, poll)
        sent = [opening.open_rows(member, turn)[1] for member in members]
        answers.append(np.array([reply.values[:, 0] for reply in sent if reply is not None]))
    even = (np.arange(4000) + 0.5) / 4000
    for i in range(3):
        assert ks(answers[0][i] / MERSENNE_61, even) > 1e-3
    assert not (answers[0] == answers[1]).any()
    # Without the last summand nothing of the sum 3 shows; with it everything does.
    partial = (answers[0][0].astype(object) + answers[0][1]) % MERSENNE_61
    assert ks((partial / MERSENNE_61).astype(float), even) > 1e-3
    whole = (partial + answers[0][2]) % MERSENNE_61
    assert (whole == 3).all()


def test_server_mode_shows_the_server_uniform_sums_and_clients_only_tags() -> None:
    shown: dict[str, Any] = {}
    from psu import masked

    peel = masked.peel_lines
    for name in ("one owner", "everybody"):
        sums: list[Any] = []

        def spy(plan: Any, sheet: Any, table: Any, sums: list[Any] = sums) -> Any:
            sums.append(table.copy())
            return peel(plan, sheet, table)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(masked, "peel_lines", spy)
            result = psu.union(
                ASSIGNMENTS[name], mode=psu.Server(), bound=300, coins=lambda party: SeededCoins(6, party)
            )
        live = sums[0][sums[0][:, 0] != 0]
        shown[name] = live[:, 0] / MERSENNE_61
        downward = {k for (sender, _, k) in result.traffic if sender == "server"}
        assert downward == {"Begin", "UnionTags"}
    assert ks(shown["one owner"], shown["everybody"]) > 1e-3  # seeded


def vectors(seed: int, patch: pytest.MonkeyPatch) -> list[Any]:
    """The secret vectors g of all openings, rebuilt from two members' shares of degree t = 1."""
    whole = kernels.open_gram
    shares: list[Any] = []

    def spy(rows: Any, active: Any, g: Any, weight: Any, out: Any) -> None:
        shares.append(g.astype(object))
        whole(rows, active, g, weight, out)

    patch.setattr(kernels, "open_gram", spy)
    watch(ASSIGNMENTS["split"], seed, psu.Committee(1), 300)
    out = []
    # The three members answer in turn; their points are 1, 2, 3, and f(0) = 2 f(1) - f(2).
    for first, second, third in zip(shares[::3], shares[1::3], shares[2::3], strict=True):
        assert ((2 * second - first - third) % MERSENNE_61 == 0).all()
        out.append((2 * first - second) % MERSENNE_61)
    return [value for g in out for value in g.reshape(-1)]


def test_secret_vectors_are_uniform_and_never_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = vectors(1, monkeypatch)
    assert len(set(drawn)) == len(drawn)
    even = (np.arange(4000) + 0.5) / 4000
    assert ks((np.array(drawn, object) / MERSENNE_61).astype(float), even) > 1e-3


def test_that_comparison_catches_common_randomness_that_repeats(monkeypatch: pytest.MonkeyPatch) -> None:
    # Broken: keys of common randomness are expanded the same way in every opening.
    from field.secrets.channels import subkey
    from psu import opening

    monkeypatch.setattr(opening, "subkey", lambda root, label: subkey(root, "always"))
    drawn = vectors(1, monkeypatch)
    assert len(set(drawn)) < len(drawn)
