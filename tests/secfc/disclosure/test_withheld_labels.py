"""Labels that explain too much of a column are told to nobody: the decision, who hears of it, and lies."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import secfc
from field.compare.shared_step import ExplainedExcess
from field.ring.quantize import excess_modulus, excess_weights, inverse_unit
from secfc.coded.joined import Joined
from secfc.coded.queries import Operation
from secfc.disclosure.owner_labels.server import OwnerLabelsServer
from secfc.errors import LabelsWithheld, SuspectedParties
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short

SCALE = secfc.Quantization(scale=64.0, coarse="allow")
NOISE = 0.25


def owners(*columns, clients=3):
    """Each column at an owner, and helpers up to so many clients."""
    parts = [np.asarray(column, float).reshape(len(column), -1) for column in columns]
    names = [tuple(f"x{j}.{i}" for i in range(part.shape[1])) for j, part in enumerate(parts)]
    found = secfc.Federation.from_arrays(parts, features=names)
    helpers = (secfc.Party.without_data(f"helper-{j}") for j in range(clients - len(parts)))
    return secfc.Federation((*found.parties, *helpers))


def withholding(allowed, k=2, policy=None, **more):
    """SecFC that withholds labels which explain more than this part of a column; 1 for never."""
    rows = Joined(align="given", max_explained=None if allowed == 1 else allowed)
    settings = {"threshold": 1, "quantization": SCALE, "disclosure": policy or secfc.OwnLabels()} | more
    return secfc.SecFC(k, membership=rows, **settings)


def is_told(way, federation, seed=0, **more):
    """Whether owners are told labels; and then it is all of them."""
    try:
        result = secfc.fit(way, federation, seed=seed, **more)
    except LabelsWithheld:
        return False
    owning = [own for own, party in zip(result.labels, federation.parties, strict=True) if party.features]
    assert all((own >= 0).all() for own in owning)
    return True


def excess(column, labels, allowed):
    """In Python integers, as `field.ring.quantize` defines it."""
    m, unit = len(column), 1 << (12 + (len(column) - 1).bit_length())
    groups = [[x for x, label in zip(column, labels, strict=True) if label == h] for h in set(labels)]
    between = sum(unit // len(own) * sum(own) ** 2 for own in groups) - -(-unit // m) * sum(column) ** 2
    whole = unit * sum(x * x for x in column) - unit // m * sum(column) ** 2
    return 1000 * between - allowed * whole


def explained(column, labels):
    """The part of a column's variance that labels explain, exactly."""
    m, total = len(column), Fraction(sum(column)) ** 2 / len(column)
    groups = [[x for x, label in zip(column, labels, strict=True) if label == h] for h in set(labels)]
    left = sum(x * x for x in column) - total
    return (sum(Fraction(sum(own)) ** 2 / len(own) for own in groups) - total) / left if left else 0 * m


# --- the decision -------------------------------------------------------------------------------------


def test_labels_that_explain_just_as_much_as_is_allowed_are_told():
    """Of clusters (2, 1) and (-2, -1) labels explain nine tenths of both columns, to the last digit."""
    column = np.array([2.0, 1, -2, -1])
    federation = owners(column, 10 * column)
    assert explained([2, 1, -2, -1], [0, 0, 1, 1]) == Fraction(9, 10)
    assert is_told(withholding(0.9), federation)
    assert not is_told(withholding(0.899), federation)


WAYS = {
    "the server deals": {},
    "a client deals": dict(policy=secfc.OwnLabels("helper-0"), clients=4),
    "nobody deals": dict(policy=secfc.OwnLabels(None)),
    "parts by two": dict(clients=5),
    "nobody deals, parts by two": dict(policy=secfc.OwnLabels(None), clients=4),
    "two collude": dict(threshold=2, clients=6),
    "rounded": dict(quantization=secfc.Quantization(scale=64.0, centers="rounded", coarse="allow")),
    "restarts, a tree": dict(n_init=2, release=secfc.Release(dendrogram=True)),
    "more columns than people": dict(m=5, d=9),
}


@pytest.mark.parametrize("way", [*list(WAYS)[:4], *by_night(*list(WAYS)[4:])])
def test_the_decision_is_that_of_integers_one_thousandth_about_the_border(way):
    given = dict(WAYS[way])
    clients, m, d = given.pop("clients", 3), given.pop("m", 41), given.pop("d", 3)
    for seed in range(short(1, nightly=12)):
        rng = np.random.default_rng(seed)
        table = np.rint(rng.normal(size=(m, d)) * 64 + rng.uniform(-99, 99, d)) / 64
        table[:, 0] += 3 * (rng.random(m) < 0.4)
        federation = owners(table[:, :1], table[:, 1:], clients=clients)
        k = 2 + seed % 2
        labels = secfc.fit(withholding(1, k, **given), federation, seed=seed).labels[0].tolist()
        columns = [[int(x) for x in column] for column in (table * 64).T]
        least = next(a for a in range(1, 1001) if all(excess(c, labels, a) <= 0 for c in columns))
        share = max(explained(column, labels) for column in columns)
        assert abs(least - 1000 * share) <= 1 + 1000 / 1024 * 200  # columns are far from mean 0
        assert is_told(withholding(least / 1000, k, **given), federation, seed) == (least < 1000)
        assert not is_told(withholding((least - 1) / 1000, k, **given), federation, seed)


def test_of_columns_of_mean_0_fractions_cost_a_thousandth():
    rng = np.random.default_rng(0)
    for m in (2, 3, 7, 64, 65, 500):
        for _ in range(20):
            column = rng.integers(-50, 51, m)
            column = (m * column - column.sum()).tolist()
            labels = rng.integers(0, 3, m).tolist()
            share = explained(column, labels)
            found = [excess(column, labels, a) > 0 for a in range(1, 1000)]
            assert found == sorted(found, reverse=True)
            # Nothing is withheld that explains less, and all that explains 2**-10 more.
            assert all(share > Fraction(a, 1000) for a, over in enumerate(found, 1) if over)
            assert all(
                share <= Fraction(a, 1000) + Fraction(1, 1024) for a, over in enumerate(found, 1) if not over
            )


def test_columns_of_one_value_explain_nothing_wherever_they_lie():
    for m in (2, 3, 5, 7, 100):
        labels = [i % 2 for i in range(m)]
        assert all(excess([x] * m, labels, a) <= 0 for x in (0, 1, -77, 10**6) for a in (1, 500, 999))


@pytest.mark.parametrize("m", [2, 3, 64, 65, 1000])
def test_excess_is_within_its_bound_and_comes_near_it_on_both_sides(m):
    top, half = 4095, m // 2
    ends = [top] * half + [-top] * (m - half)
    apart, mixed = [0] * half + [1] * (m - half), [0] * m
    bound = excess_modulus(m, top) // 2
    most, least = excess(ends, apart, 1), excess(ends, mixed, 999)
    assert bound * (0.99 if m % 2 == 0 else 0.6) < most <= bound
    assert bound * (0.99 if m % 2 == 0 else 0.6) < -least <= bound
    rng = np.random.default_rng(m)
    for _ in range(100):
        column = rng.choice([-top, top, top - 1, 0], m).tolist()
        assert abs(excess(column, rng.integers(0, 4, m).tolist(), int(rng.integers(1, 1000)))) <= bound
    each, inverses, whole = excess_weights(np.array([half, m - half]), m, 7)
    by_weights = each * m * top**2 + inverses[0] * (half * top) ** 2 + inverses[1] * ((m - half) * top) ** 2
    assert by_weights + whole * sum(ends) ** 2 == excess(ends, apart, 7)
    assert inverse_unit(m) >= 4096 * m


def test_a_plan_holds_excess_and_another_is_refused():
    rounded = secfc.Quantization(centers="rounded")
    federation = owners(*np.random.default_rng(0).normal(size=(2, 3000)))
    way = withholding(0.9, quantization=rounded)
    plan = secfc.fit(replace(way, max_iter=1), federation, bound=8.0).plan
    assert excess_modulus(plan.m, plan.quantizer.max_int) < plan.code.basis.modulus
    # The control: two lanes are enough without, and too few for it.
    without = secfc.fit(withholding(1, quantization=rounded, max_iter=1), federation, bound=8.0).plan
    assert without.code.basis.modulus <= excess_modulus(without.m, without.quantizer.max_int)
    with pytest.raises(secfc.InputError, match="do not fit the modulus: lower the scale"):
        replace(without, layout=replace(without.layout, explained=900))


# --- what it stops, and what not ----------------------------------------------------------------------


def reader(columns, seed, m=200):
    """An owner that brings these columns, and one with a secret one of yes and no."""
    rng = np.random.default_rng(seed)
    secret, flag = rng.random(m) < 0.5, rng.permutation(m) < m / 7
    theirs = (secret - secret.mean()) / secret.std()
    if columns == "noise":
        return owners(NOISE * rng.normal(size=(m, 4)), theirs), secret
    return owners((flag - flag.mean()) / flag.std() + 0.4 * rng.normal(size=m), theirs), secret


def hits(federation, secret, way, seed):
    """Of how many people labels tell the secret."""
    labels = secfc.fit(way, federation, seed=seed).labels[0]
    return sum(max((own := secret[labels == h]).sum(), (~own).sum()) for h in set(labels)) / len(secret)


@pytest.mark.parametrize("seed", range(short(2, nightly=100)))
def test_columns_of_noise_are_told_no_label(seed):
    federation, secret = reader("noise", seed)
    assert not is_told(withholding(0.9), federation, seed)
    if seed < 20:  # the control reads the column
        assert hits(federation, secret, withholding(1), seed) > 0.95


def test_columns_of_yes_and_no_under_some_noise_are_told_labels_that_read_most_people():
    """Bare, labels explain all of the owner's own column."""
    federation, secret = reader("flag", 0)
    assert hits(federation, secret, withholding(0.9, 3), 0) > 0.85


def test_new_people_get_no_labels_as_one_value_for_all_would_read_a_column_past_the_bound():
    federation, secret = reader("flag", 0)
    mine, theirs = (party.points for party in federation.parties[:2])
    again = owners(np.full(len(mine), np.median(mine)), theirs)
    bounded, free = (secfc.fit(withholding(a, 3), federation, seed=0) for a in (0.9, 1))
    with pytest.raises(secfc.InputError, match=r"max_explained=0\.9.*told however much they explain"):
        bounded.predict(again)
    # The control: by the same centers, which labels within the bound are of, labels tell it of all.
    labels = free.predict(again)[0]
    assert all(len(set(secret[labels == h])) == 1 for h in set(labels))


# --- what is told -------------------------------------------------------------------------------------


def kinds_after(federation, way, **more):
    """What was sent from the question on, by kind, with who and to whom; the run's end, if by error."""
    seen, asked = [], []

    def faults(e):
        asked.extend([e] if e.kind == "ExplainedQuery" else [])
        seen.extend([(e.kind, e.sender, e.recipient)] if asked else [])
        return (e,)

    try:
        secfc.fit(way, federation, faults=faults, **more)
    except LabelsWithheld as error:
        return seen, error
    return seen, None


def test_nobody_is_told_a_label_or_where_centers_are():
    federation, _ = reader("noise", 1)
    way = withholding(0.9, release=secfc.Release(dendrogram=True))
    seen, error = kinds_after(federation, way, seed=1)
    kinds = {kind for kind, *_ in seen}
    assert "more of some column than max_explained=0.9 of its variance" in str(error)
    assert "SizeShare" in kinds
    assert not kinds & {"DeliverLabels", "OwnShare", "RunEnded", "CodedGains", "SplitGainQuery"}
    # All that leaves the committee is whether labels changed, in three residues of each member.
    told = [kind for kind, sender, recipient in seen if recipient == SERVER and kind != "Abort"]
    assert set(told) <= {"SizeShare", "MissingMessages", "CheckDigest"}
    seen, error = kinds_after(federation, withholding(0.999, release=secfc.Release(dendrogram=True)), seed=1)
    kinds = {kind for kind, *_ in seen}
    assert (error is None) == ({"DeliverLabels", "OwnShare", "CodedGains"} <= kinds)


def test_what_members_open_is_0_or_uniform():
    """So it tells whether labels are withheld, and not of which column, of how many, nor by how much."""
    residues = []
    for seed in range(12):
        federation, _ = reader("noise", seed, 30)
        opened = {}

        def faults(e, opened=opened):
            if e.kind == "ExplainedQuery":
                opened.clear()
            if e.kind == "SizeShare" and e.recipient == SERVER:
                opened[e.sender] = e.body.values.reshape(-1).astype(np.int64)
            return (e,)

        # Else parts are told by some for others.
        way = withholding(0.5, threshold=secfc.Threshold(1, deviating=0))
        with pytest.raises(LabelsWithheld):
            secfc.fit(way, federation, seed=seed, faults=faults, keep_bodies=True)
        residues.append(sum(opened.values()) % (2**30 - 35))
    assert all(x.all() for x in residues)
    assert len({tuple(x) for x in residues}) == len(residues)
    assert np.ptp(np.concatenate(residues)) > 2**29


def test_all_points_in_one_cluster_are_no_question():
    federation = owners(np.ones(9), np.ones(9))
    seen, error = kinds_after(federation, withholding(0.5))
    assert (seen, error) == ([], None)


def test_who_learned_what_says_so():
    federation = owners(*np.random.default_rng(0).normal(size=(3, 40)))
    told, plain = (secfc.fit(withholding(a), federation, seed=0) for a in (0.999, 1))
    said = "that labels explain at most 0.999 of each column's variance"
    assert any(said in fact for fact in told.learned)
    assert not any("variance" in fact for fact in plain.learned)


# --- lies and losses ----------------------------------------------------------------------------------


def lying_once(kind, field, sender):
    """Adds 1 to what this client says first of this kind in the question."""
    asked, lied = [], []

    def faults(e):
        asked.extend([e] if e.kind == "ExplainedQuery" else [])
        body = e.body if e.kind == kind and e.sender == sender and asked and not lied else None
        if body is not None and getattr(body, field).size:
            lied.append(e)
            values = getattr(body, field)
            values.reshape(-1)[0] = (int(values.reshape(-1)[0]) + 1) % (2**30 - 35)
        return (e,)

    return faults, lied


LIES = [("MaskedDistances", "values", "client-2"), ("ResharedPart", "values", "client-1")]


@pytest.mark.parametrize(("kind", "field", "sender"), LIES)
def test_a_false_reply_ends_the_run_before_anything_is_told(kind, field, sender):
    federation = owners(*np.random.default_rng(0).normal(size=(3, 40)), clients=5)
    faults, lied = lying_once(kind, field, sender)
    with pytest.raises(SuspectedParties, match=r"fit the shares of|lies on no polynomial"):
        secfc.fit(withholding(0.99), federation, seed=0, keep_bodies=True, faults=faults)
    assert lied


def test_who_deals_a_false_number_of_a_column_as_a_polynomial_ends_the_run(monkeypatch):
    """Shares of it fit together, so only the check of products tells."""
    true, computed = ExplainedExcess.products.fget, []

    def false_of_one(self):
        computed.append(self)
        found = true(self)
        return (found + (len(computed) == 1)).astype(found.dtype)

    monkeypatch.setattr(ExplainedExcess, "products", property(false_of_one))
    federation = owners(*np.random.default_rng(0).normal(size=(3, 40)), clients=5)
    with pytest.raises(SuspectedParties, match="sums or squares of columns"):
        secfc.fit(withholding(0.99), federation, seed=0)
    assert computed


def test_a_server_that_does_not_ask_or_asks_again_ends_the_run(monkeypatch):
    def skip(self, run):
        yield from ()

    monkeypatch.setattr(OwnerLabelsServer, "judge_columns", skip)
    federation = owners(*np.random.default_rng(0).normal(size=(3, 40)))
    with pytest.raises(SuspectedParties, match=r"asked DeliverLabels.* where the plan has ExplainedQuery"):
        secfc.fit(withholding(0.9), federation)
    monkeypatch.undo()
    real = OwnerLabelsServer.judge_columns

    def twice(self, run):
        yield from real(self, run)
        run.judged = False
        yield from real(self, run)

    monkeypatch.setattr(OwnerLabelsServer, "judge_columns", twice)
    with pytest.raises(SuspectedParties, match=r"asked ExplainedQuery.* where the plan has DeliverLabels"):
        secfc.fit(withholding(0.999), federation)


def test_a_server_that_goes_on_where_labels_explain_more_is_told_so_by_clients(monkeypatch):
    def deaf(self, run):
        yield from self.put(run, run.ask(Operation.EXPLAINED), self.advanced)

    monkeypatch.setattr(OwnerLabelsServer, "judge_columns", deaf)
    federation, _ = reader("noise", 1, 60)
    seen, error = kinds_after(federation, withholding(0.9), seed=1)
    assert error is not None
    assert "OwnShare" not in {kind for kind, *_ in seen}


@pytest.mark.parametrize("lost", ["helper-3", "helper-4"])
def test_a_helper_that_is_gone_in_the_question_changes_no_decision(lost):
    federation, _ = reader("noise", 3, 60)
    federation = owners(federation.parties[0].points, federation.parties[1].points, clients=6)
    for allowed in (0.9, 0.9999999):
        asked = []

        def faults(e, asked=asked):
            asked.extend([e] if e.kind == "ExplainedQuery" else [])
            return () if asked and lost in (e.sender, e.recipient) else (e,)

        assert is_told(withholding(min(allowed, 0.999), 6), federation, 3, faults=faults) == is_told(
            withholding(min(allowed, 0.999), 6), federation, 3
        )
        assert asked


# --- what is refused ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        dict(policy=secfc.AssignmentsOnly()), dict(policy=secfc.OwnLabels(sizes="hidden")),
        dict(policy=secfc.FinalLabelsOnly()), dict(policy=secfc.Distances()),
        dict(threshold=secfc.Threshold(1, 2)),
    ],
)  # fmt: skip
def test_what_cannot_withhold_labels_is_refused(more):
    federation = owners(*np.random.default_rng(0).normal(size=(3, 40)), clients=5)
    with pytest.raises(secfc.InputError, match=r"max_explained=0.9.*(by open sizes|each column is judged)"):
        secfc.fit(withholding(0.9, **more), federation)


@pytest.mark.parametrize("value", [0.0, 1.0, 0.0004, 1.5, -0.9, float("nan")])
def test_a_bound_that_nothing_or_all_meets_is_refused(value):
    with pytest.raises(secfc.InputError, match="max_explained="):
        Joined(max_explained=value)
