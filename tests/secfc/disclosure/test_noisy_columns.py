"""Noisy sums of joined columns: each person counts once, of whatever columns others make up, and nobody has a
label."""

import dataclasses
import json
import math

import numpy as np
import pytest

import secfc
from benchmarks.dp_methods import PlainSums
from field.compare.shells import UNIT, WEIGHTS, shell_modulus, shell_sensitivity, shell_squares
from field.ring.basis import lanes_for
from field.ring.quantize import Quantizer
from field.secrets.coins import SeededCoins
from secfc import tiny_runs
from secfc.algorithm import PublicFacts
from secfc.coded.plan import CodedPlan, ColumnLayout
from secfc.disclosure.noise import sums_client, sums_question
from secfc.errors import IncompatibleOptions, InputError
from secfc.kmeans.centers import nearest_center
from secfc.privacy import Bound
from tests.nightly import by_night
from tests.secfc.coded.test_joined import divided, with_helpers
from tests.secfc.disclosure.test_noisy_sums import (
    ALONE,
    CENTERS,
    found_by,
    opened,
    policy,
    returned,
    run_sums,
    sparing,
)
from tests.small import invoke

COLUMNS = secfc.Joined(bound=64)


def owners(m=60, d=4, seed=0, clients=4):
    """Points (m, d) about three centers, the first column at one owner, the others at another, and helpers;
    and the points."""
    rng = np.random.default_rng(seed)
    points = 0.3 * rng.normal(size=(m, d))
    points[:, :2] += CENTERS[np.arange(m) % 3]
    names, order = [f"x{i}" for i in range(d)], rng.permutation(m)
    data = secfc.Federation.from_arrays(
        [points[:, :1], points[order, 1:]],
        ids=[[f"p{i}" for i in range(m)], [f"p{i}" for i in order]],
        features=[names[:1], names[1:]],
    )
    return with_helpers(data, clients), points


def run_columns(way, data, **settings):
    return run_sums(way, data, **{"membership": COLUMNS, "threshold": ALONE, **settings})


def silence_noise(monkeypatch):
    monkeypatch.setattr(
        sums_client, "wide_noise", lambda s, d, shape, basis, coins: basis.reduce(np.zeros(shape, int))
    )


@pytest.mark.parametrize(
    "more",
    [
        {},
        *by_night(
            {"threshold": 1},
            {"dealer": None},
            {"split": True},
            {"split": True, "threshold": 2, "clients": 6},
        ),
    ],
)
def test_without_noise_the_sums_of_joined_integers_are_opened_bit_for_bit(monkeypatch, more):
    silence_noise(monkeypatch)
    data, points = owners(clients=more.get("clients", 4))
    if more.get("split"):
        data = divided(data, client=1)
    way = policy(400.0, steps=4, dealer=more.get("dealer", "server"))
    result = run_columns(way, data, threshold=more.get("threshold", ALONE))
    kinds = {e.kind for e in result.transcript.envelopes}
    features = [int(name[1:]) for name in result.plan.terms.public.features]
    # Each block of columns is rounded, and shortened, by its owner.
    found = opened(result, points[:, features])
    for got, expected, _ in found:
        assert (got == expected).all()
        assert expected[:, -1].any()
    assert [len(got) for got, _, _ in found] == [1, 6, 6, 3]
    centers = result.centers[:, np.argsort(features)]
    near = np.linalg.norm(centers[:, None, :2] - CENTERS, axis=2).min(axis=0)
    assert near.max() < 0.3
    with pytest.raises(InputError, match="columns: give new points whole"):
        result.predict(data)
    whole = secfc.Federation.from_arrays([points[:, features]])
    assert (result.predict(whole)[0] == nearest_center(points[:, features], result.centers)).all()
    # A server, which has no data, says of it what others do.
    made = secfc.SecFC(3, threshold=result.plan.code.t, disclosure=way, membership=COLUMNS)
    (owns,) = (said for what, said in made.account(result, None).setup if what == "Membership")
    assert more.get("split") or "client-0 'x0'; client-1 'x1', 'x2', 'x3'; more-0 none" in owns
    # Labels would tell one owner of the columns of the other: nobody has any.
    assert all((labels == -1).all() for labels in result.labels)
    assert not {"SizeShare", "LabelShare", "OwnShare", "SelectedRowShare", "CodedCosts"} & kinds


def test_centers_have_features_in_their_order_whosever_they_are():
    """Rows have one owner's columns after another's."""
    _, points = owners(m=600)
    public = dataclasses.replace(
        PublicFacts.of(owners()[0], 6.0),
        observed=((1, 3), (0, 2), (), ()),
        server_points=owners(m=24, seed=1)[1],
    )
    way = policy(400.0, steps=3)
    made = secfc.SecFC(3, threshold=ALONE, disclosure=way, membership=COLUMNS)
    plan = made.complete(public, ColumnLayout(600, public.observed))
    assert plan.feature_order.tolist() == [1, 3, 0, 2]
    rows = plan.quantizer(points[:, plan.feature_order]).astype(float)
    run = PlainSums(plan, way, rows, np.random.default_rng(0))
    returned(run(np.zeros(0), 3, 3, None))
    near = np.linalg.norm(run.centers[:, None, :2] - CENTERS, axis=2).min(axis=0)
    assert near.max() < 0.3


# --- columns that an owner makes up -------------------------------------------------------------------

FAR = 1 << 15  # whose square lies just above the first prime


@pytest.mark.parametrize("checked", [True, False])
def test_a_column_that_an_owner_makes_up_never_has_others_columns_of_a_far_row_counted(monkeypatch, checked):
    """Whose distance wraps around a single lane, as a control: then the row counts as a near one."""
    silence_noise(monkeypatch)
    data, points = owners(m=24)
    if not checked:
        monkeypatch.setattr(CodedPlan, "longest", property(lambda self: self.radius))
    quantize, far = Quantizer.__call__, points.copy()

    def lie(self, read, *, owner="", first_row=0):
        found = quantize(self, read, owner=owner, first_row=first_row)
        if "client-0" in owner:
            found[:1] = FAR
        return found

    monkeypatch.setattr(Quantizer, "__call__", lie)
    result = run_columns(policy(steps=1), data)
    monkeypatch.setattr(Quantizer, "__call__", quantize)
    lanes = {len(e.body.values) for e in result.transcript.envelopes if e.kind == "MaskedDistances"}
    far[0, 0] = 1e9  # beyond the last shell
    ((got, _, _),) = opened(result, points)
    ((_, expected, _),) = opened(result, far[1:])
    unit = sums_question.count_unit(result.plan.radius, result.plan.d)
    assert lanes == {1 + checked}
    assert int((got - expected)[0, -1]) == (0 if checked else UNIT * unit)


def moved_most(plan, longest, rng):
    """How far one owner's honest columns move sums within a small radius, as a part of what noise is for."""
    basis = plan.code.basis.prefix(
        lanes_for(shell_modulus(100, longest, 2 * plan.radius), plan.code.basis.primes)
    )
    most, ends, modulus = 0.0, shell_squares(100), basis.modulus
    for _ in range(4000):
        honest = int(rng.integers(-plan.radius, plan.radius + 1))
        # Of all that passes the test of rows, what would wrap to where it is wanted.
        wraps = int(rng.integers(1, 1 + max(1, plan.proven**2 // modulus)))
        aim = math.isqrt(max(0, min(wraps * modulus, plan.proven**2) - honest**2))
        square = honest**2 + (aim + int(rng.integers(0, 2))) ** 2
        seen = [(square - end) % modulus for end in ends]
        shell = next((j for j, apart in enumerate(seen) if apart == 0 or apart > modulus // 2), None)
        if shell is not None:
            most = max(most, WEIGHTS[shell] * abs(honest))
    return most / shell_sensitivity(100, 1)


def test_no_columns_that_pass_the_test_have_those_of_others_move_sums_further_than_noise_covers():
    data, _ = owners()
    public = PublicFacts.of(data, 6.0)
    made = secfc.SecFC(3, threshold=1, disclosure=policy(), membership=COLUMNS)
    plan = made.complete(public, ColumnLayout(60, tuple(map(tuple, public.observed))))
    rng = np.random.default_rng(3)
    assert moved_most(plan, plan.longest, rng) <= 1
    # A control: as if holders vouched for the rows.
    assert moved_most(plan, plan.radius, rng) > 5
    assert plan.longest >= math.sqrt(plan.d) * plan.proven > 30 * plan.radius
    assert plan.code.basis.lanes == 2


def test_wide_rows_take_smaller_blocks_or_further_lanes():
    for d in (40, 400, 4000):
        public = PublicFacts(("a", "b", "c"), (900, 900, 0), d, 6.0)
        halves = tuple(range(d // 2)), tuple(range(d // 2, d)), ()
        public = dataclasses.replace(public, observed=halves)
        made = secfc.SecFC(3, threshold=ALONE, disclosure=policy(), membership=COLUMNS)
        plan = made.complete(public, ColumnLayout(900, halves))
        assert shell_modulus(2 * plan.radius, plan.longest, 2 * plan.radius) < plan.code.basis.modulus
        assert plan.radius >= 512


# --- where it is refused, and the shell ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"scale_features": "standard", "bound": None}, "no noise then covers"),
        ({"membership": secfc.Joined(keep="union")}, 'Use keep="intersection"'),
        ({"threshold": secfc.Threshold(1, ell=2, deviating=0)}, "centers do of joined columns"),
        ({"release": secfc.Release(reveal_centers=True)}, "labels of its rows"),
        ({"disclosure": secfc.NoiseInShares(policy().budget, Bound.given(6.0))}, "columns of others"),
    ],
)
def test_what_no_budget_covers_of_joined_columns_is_refused(more, why):
    data, _ = owners(clients=6)
    with pytest.raises((IncompatibleOptions, InputError), match=why):
        run_columns(more.pop("disclosure", policy()), data, **more)


def test_the_shell_joins_columns_under_a_budget_and_says_what_is_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data, _ = owners()
    for party, name in zip(data.parties, "ab", strict=False):
        rows = [",".join(map(str, [who, *x])) for who, x in zip(party.ids, party.points, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"id,{','.join(party.features)}", *rows]))
    asked = "a.csv", "b.csv", "-k", 3, "--id-column", "id", "--split", "columns", "--helper"
    paid = "--disclosure", "noisy-sums", "--epsilon", 40, "--radius", 6, "--max-iter", 2
    done = invoke("run", *asked, *paid)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "no labels, which would tell one owner of the columns of others" in said
    assert not [*tmp_path.glob("*labels*")]
    assert "see their clusters" not in said
    assert "whose labels it is told" not in said  # nobody is told any
    report = json.loads((tmp_path / "secfc-report.json").read_text())
    assert report["privacy"]["epsilon"]["everybody"] <= 40
    assert report["privacy"]["assumed"]["rows"] == "m = 60, and of which people"
    assert "parts of rows at one owner are shortened" in report["privacy"]["assumed"]["radius"]
    told = " ".join(report["clients_learned"])
    assert "of no point a label; " not in told
    assert "no point a label" in told
    assert "which of them all owners of columns hold" in told
    assert "what labels tell" not in told
    refused = invoke("run", *asked, *paid, "--standardize", "standard", "--force")
    assert refused.exit_code == 2
    assert "no noise then covers" in " ".join(refused.output.split())
    for where in (("--labels", "own.csv"), ("--site-labels", "own")):
        refused = invoke("run", *asked, *paid, *where, "--force")
        assert refused.exit_code == 2
        assert f"columns of others: leave {where[0]} out" in " ".join(refused.output.split())


def test_a_site_prepares_itself_for_columns_and_for_a_dealer_that_is_another_site():
    """By a tiny run, in which neither the columns nor that site are."""
    way = secfc.SecFC(3, 1, membership=COLUMNS, disclosure=policy(dealer="site-3"))
    tiny_runs.prepare_kernels(way, None)


# --- an audit ----------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("dealer", ["server", None])
def test_an_audit_of_whole_runs_of_columns_confirms_the_claim_and_catches_half_the_noise(dealer):
    """A person's column at one end or the other, of all clients but one that may collude."""
    ends, claims, ids = {}, set(), [["a", "b", "c"], ["b", "c", "a"]]
    for side in (1, -1):
        rows = np.array([[6.0 * side, 0], [0, 0], [0, 1]])
        parts = [rows[:, :1], rows[[1, 2, 0], 1:]]
        held = secfc.Federation.from_arrays(parts, ids=ids, features=[["x"], ["y"]])
        ends[side] = with_helpers(held, 4), rows
    for factor, caught in ((1, False), (2, True)):

        def scores(side, number, factor=factor):
            def who(party):
                return SeededCoins(number, f"{side} {factor} {party}")

            data, rows = ends[side]
            way = dataclasses.replace(sparing(factor), dealer=dealer)
            result = run_columns(way, data, k=1, coins=who)
            claims.add(result.ledger.entries[0].event)
            ((got, _, _),) = opened(result, rows)
            return float(got[0, 0])

        found = found_by(scores, 400)
        (claim,) = claims
        # All four deal where one fewer must suffice: what is opened has so much less of a shift.
        whole = dataclasses.replace(found, mu=found.mu * math.sqrt(4 / 3))
        assert whole.refutes(claim) == caught
