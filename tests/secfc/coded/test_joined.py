"""Columns of several owners: labels are those of plaintext Lloyd on the joined table, and who sees what."""

from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

import secfc
from field.code.lagrange_code import LagrangeCode
from psu.errors import UnionAborted
from secfc.attacks.views import View
from secfc.coded import joined
from secfc.coded.joined import Joined, JoinedPlan
from secfc.errors import BudgetSpent, DisputedRows, FaultyClient
from secfc.kept_models import KeptModel, model_file_of
from secfc.roles.exchange import SERVER
from tests.nightly import short
from tests.secfc.disclosure.test_final_labels import is_uniform

POLICIES = (
    secfc.OwnLabels(), secfc.AssignmentsOnly(), secfc.Distances(), secfc.FinalLabelsOnly(),
    secfc.OwnLabels(sizes="hidden"), secfc.OwnLabels(dealer=None), secfc.AssignmentsOnly(dealer=None),
)  # fmt: skip

WHOLE = (secfc.FinalLabelsOnly(), secfc.OwnLabels(dealer=None))  # multiply whole rows


def owners(blocks, d=6, m=60, k=3, seed=0, *, least=0.7, ties=False, ids=True):
    """A federation of so many owners of columns, three clients at least, and the people that each holds."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-6, 6, (k, d))
    table = centers[rng.integers(0, k, m)] + rng.normal(size=(m, d))
    table = np.round(table) if ties else table
    cuts = np.sort(rng.choice(np.arange(1, d), blocks - 1, replace=False))
    columns = np.split(rng.permutation(d), cuts)
    people = [rng.permutation(m)[: m if not ids else int(m * rng.uniform(least, 1))] for _ in columns]
    if not ids:
        people = [people[0]] * blocks
    found = secfc.Federation.from_arrays(
        [table[np.ix_(who, cols)] for who, cols in zip(people, columns, strict=True)],
        ids=[[f"p{i:05d}" for i in who] for who in people] if ids else None,
        features=[tuple(f"x{c}" for c in cols) for cols in columns],
    )
    helpers = [secfc.Party.without_data(f"helper-{i}") for i in range(max(0, 3 - blocks))]
    return secfc.Federation((*found.parties, *helpers)), people


def divided(federation, seed=0, *, client=0):
    """The same with the people of one owner divided among two, whose columns are in another order."""
    rng, party = np.random.default_rng(seed), federation.parties[client]
    cut, order = rng.random(len(party.points)) < 0.5, rng.permutation(len(party.features))
    halves = []
    for name, kept, columns in (("left", cut, np.arange(len(order))), ("right", ~cut, order)):
        points = np.asarray(party.points)[kept][:, columns]
        ids = tuple(party.ids[i] for i in np.flatnonzero(kept))
        halves.append(
            secfc.Party(
                f"{name} of {party.name}", points, ids=ids, features=tuple(party.features[c] for c in columns)
            )
        )
    others = federation.parties[:client] + federation.parties[client + 1 :]
    return secfc.Federation((*halves, *others))


def with_helpers(federation, n):
    """The same with helpers up to n clients."""
    more = [secfc.Party.without_data(f"more-{i}") for i in range(n - federation.n)]
    return secfc.Federation((*federation.parties, *more))


def joined_table(result, federation):
    """The joined rows in Python integers, and their labels, by the rows that owners were told."""
    table, names, labels = {}, {}, {}
    for party, rows, own in zip(federation.parties, result.rows, result.labels, strict=True):
        columns = [federation.feature_names.index(name) for name in party.features]
        for i, row in enumerate(rows.tolist()):
            assert (row < 0) == (own[i] < 0)
            if row < 0:
                continue
            if party.ids is not None:
                assert names.setdefault(row, party.ids[i]) == party.ids[i]
            assert labels.setdefault(row, int(own[i])) == own[i]
            integers = np.rint(np.asarray(party.points[i]) * result.plan.quantizer.scale).astype(int)
            for column, value in zip(columns, integers.tolist(), strict=True):
                assert table.setdefault(row, {}).setdefault(column, value) == value
    assert sorted(table) == list(range(len(table)))
    assert len(set(names.values())) == len(names)
    points = [[table[row][c] for c in range(federation.d)] for row in sorted(table)]
    return points, [labels[row] for row in sorted(table)], names


def lloyd_step(points, labels, k):
    """The nearest of the means of these clusters, in fractions; ties to the first."""
    means = {}
    for h in range(k):
        own = [p for p, label in zip(points, labels, strict=True) if label == h]
        if own:
            means[h] = [Fraction(sum(column), len(own)) for column in zip(*own, strict=True)]
    return [
        min(means, key=lambda h: (sum((x - c) ** 2 for x, c in zip(p, means[h], strict=True)), h))
        for p in points
    ]


def algorithm(k=3, policy=None, **more):
    settings = {"threshold": 1, "quantization": secfc.Quantization(scale=64.0, coarse="allow")} | more
    return secfc.SecFC(k=k, membership=Joined(), disclosure=policy or secfc.OwnLabels(), **settings)


@pytest.mark.parametrize("trial", range(short(4, nightly=200)))
def test_labels_equal_lloyd_on_the_joined_table(trial):
    rng, blocks, policy = np.random.default_rng(trial), 2 + trial % 4, POLICIES[trial % len(POLICIES)]
    k, d = int(rng.integers(2, 5)), int(rng.integers(blocks, 10))
    federation, people = owners(blocks, d, int(rng.integers(25, 60)), k, trial, ties=trial % 3 == 0)
    ell = 1 + (trial % 2 if policy not in WHOLE else 0)
    if ell > 1:
        federation = with_helpers(federation, 5)
    start = [None, secfc.RandomLabels()][trial // 2 % 2]
    way = algorithm(k, policy, threshold=secfc.Threshold(1, ell), init=start)
    result = secfc.fit(way, federation, seed=trial)
    points, labels, names = joined_table(result, federation)
    both = set.intersection(*({f"p{i:05d}" for i in who} for who in people))
    assert set(names.values()) == both
    assert labels == lloyd_step(points, labels, k)
    if policy.capabilities.exposes in ("labels", "distances"):
        steps = [step.tolist() for step in result.history]
        assert all(lloyd_step(points, a, k) == b for a, b in pairwise(steps))
        plain = secfc.Lloyd(
            k=k, init=secfc.GivenLabels([result.history[0].astype(int)]),
            quantization=secfc.Quantization(scale=1.0, coarse="allow"),
        )  # fmt: skip
        expected = secfc.fit(plain, [np.array(points, float)], seed=0)
        assert expected.flat.tolist() == labels
        assert len(expected.history) == len(result.history)


@pytest.mark.parametrize("trial", range(short(4, nightly=80)))
def test_a_start_that_cuts_across_features_cuts_as_in_plaintext_whoever_has_them(trial):
    rng, k, ell = np.random.default_rng(trial), 2 + trial % 3, 1 + trial % 2
    federation, _ = owners(2 + trial // 2 % 3, int(rng.integers(5, 12)), int(rng.integers(25, 60)), k, trial)
    federation = with_helpers(federation, 5)
    if trial % 4 < 2:  # an order in which an owner's columns do not follow one another
        federation = secfc.Federation(federation.parties, tuple(sorted(federation.feature_names)))
    way = algorithm(k, threshold=secfc.Threshold(1, ell), init=secfc.Splitting(steps=0, settle=0))
    result = secfc.fit(replace(way, max_iter=1), federation, seed=trial)
    points, labels, _ = joined_table(result, federation)
    plain = secfc.Lloyd(
        k=k, init=way.init, max_iter=1, quantization=secfc.Quantization(scale=1.0, coarse="allow")
    )
    assert secfc.fit(plain, [np.array(points, float)], seed=trial).flat.tolist() == labels


OPENED = [policy for policy in POLICIES if policy.capabilities.exposes not in ("sizes", "steps")]


@pytest.mark.parametrize("trial", range(short(3, nightly=60)))
def test_labels_equal_lloyd_on_the_joined_table_where_people_are_divided_too(trial):
    policy, blocks = OPENED[trial % len(OPENED)], 2 + trial % 3
    whole, people = owners(blocks, d=2 + blocks + trial % 4, m=50, seed=trial)
    federation = divided(whole, trial, client=trial % blocks)
    if trial % 5 == 4:
        federation = divided(federation, trial, client=3)
    result = secfc.fit(algorithm(policy=policy), federation, seed=trial)
    points, labels, names = joined_table(result, federation)
    assert set(names.values()) == set.intersection(*({f"p{i:05d}" for i in who} for who in people))
    assert labels == lloyd_step(points, labels, 3)


def test_people_with_a_column_twice_are_counted_and_refused():
    federation = divided(owners(3)[0])
    left, right = federation.parties[:2]
    twice = replace(
        right,
        points=np.vstack([right.points, np.zeros((3, right.points.shape[1]))]),
        ids=(*right.ids, *left.ids[:3]),
    )
    way = algorithm(policy=secfc.AssignmentsOnly())
    with pytest.raises(secfc.InputError, match="3 IDs are held twice in one block of columns: keep one row"):
        secfc.fit(way, secfc.Federation((left, twice, *federation.parties[2:])))
    with pytest.raises(secfc.InputError, match="would be told these people's labels"):
        secfc.fit(algorithm(), federation)
    with pytest.raises(secfc.InputError, match="each would scale its people by these alone"):
        secfc.fit(way, federation, scale_features="standard")
    with pytest.raises(secfc.InputError, match="who of them has which rows is found by IDs alone"):
        secfc.fit(replace(way, membership=Joined(align="given")), federation)


def test_a_row_of_nobody_and_of_more_than_all_ends_the_union():
    counted = joined.HolderCount.of(((0,), (1,), (1,)))
    assert counted.kept(np.array([1, 3, 5]))[0].tolist() == [False, True, True]
    for sums in ([1, 0], [1, 6]):
        with pytest.raises(UnionAborted, match="held by nobody, or more often than there are clients"):
            counted.kept(np.array(sums))


@pytest.mark.parametrize("lost", ["more-0", "client-1"])
def test_who_falls_silent_is_missed_only_if_its_columns_did_not_come(lost):
    federation = with_helpers(owners(3)[0], 4)
    later = ("deal", "distances", "compare", "check", "finish")
    way = algorithm(policy=secfc.Distances())

    def fit(phases):
        def faults(envelope):
            return () if envelope.sender == lost and envelope.phase in phases else (envelope,)

        return secfc.fit(way, federation, faults=faults)

    assert fit(later).converged
    if lost == "more-0":
        points, labels, _ = joined_table(fit(("share", "pair", *later)), federation)
        assert labels == lloyd_step(points, labels, 3)
    else:
        with pytest.raises(secfc.RowsLost, match="no other has its columns"):
            fit(("share", "pair", *later))


def test_rows_given_in_the_same_order_are_joined_without_a_union():
    federation, _ = owners(3, ids=False)
    way = replace(algorithm(policy=secfc.AssignmentsOnly()), membership=Joined(align="given"))
    result = secfc.fit(way, federation, seed=0)
    points, labels, _ = joined_table(result, federation)
    assert labels == lloyd_step(points, labels, 3)
    assert result.labels[0].tolist() == result.labels[1].tolist() == labels
    assert not {e.kind for e in result.transcript.envelopes} & {"UnionTags", "KeptRows"}
    given = secfc.fit(replace(way, init=secfc.GivenLabels([np.array(labels)])), federation)
    assert given.n_iter == 1
    short_one = replace(federation.parties[0], points=federation.parties[0].points[1:])
    with pytest.raises(
        secfc.InputError, match="have 59, 60 rows: all need the same people in the same order"
    ):
        secfc.fit(way, secfc.Federation((short_one, *federation.parties[1:])))


def test_a_union_takes_missing_columns_for_their_means():
    federation, people = owners(3, least=0.8)
    way = replace(algorithm(policy=secfc.AssignmentsOnly()), membership=Joined(keep="union"))
    result = secfc.fit(way, federation, seed=0, scale_features="standard")
    assert len(result.history[-1]) == len(set().union(*map(set, people)))
    assert "KeptRows" not in {e.kind for e in result.transcript.envelopes}
    table = np.zeros((len(result.history[-1]), federation.d))
    at = 0
    for party, rows in zip(federation.parties, result.rows, strict=True):
        own = np.asarray(party.points)
        width = own.shape[1]
        scaled = np.clip((own - own.mean(axis=0)) / own.std(axis=0), -10, 10)
        table[rows, at : at + width], at = scaled, at + width
    points = np.rint(table * 64).astype(int).tolist()
    assert result.history[-1].tolist() == lloyd_step(points, result.history[-1].tolist(), 3)
    few, _ = owners(3, least=0.2, seed=3)
    with pytest.warns(secfc.Caution, match="lacks .* of the people of the union.*keep='intersection'"):
        secfc.fit(way, few, scale_features="standard")


def test_an_owner_scales_its_columns_by_the_rows_that_are_kept_and_nobody_hears_of_it():
    federation, _ = owners(3)
    result = secfc.fit(algorithm(), federation, scale_features="standard")
    plain = secfc.fit(algorithm(), federation)
    kinds = {e.kind for e in result.transcript.envelopes}
    assert kinds == {e.kind for e in plain.transcript.envelopes}
    moved = [
        replace(party, points=np.asarray(party.points) * 3.0 + 7.0) if party.features else party
        for party in federation.parties
    ]
    again = secfc.fit(algorithm(), secfc.Federation(tuple(moved)), scale_features="standard")
    assert all(map(np.array_equal, result.labels, again.labels))
    for wrong in ("range", secfc.Standardize(keep=("x0",))):
        with pytest.raises(secfc.InputError, match="each owner brings its own to scale"):
            secfc.fit(algorithm(), federation, scale_features=wrong)
    with pytest.raises(secfc.InputError, match="so that nobody learns their means"):
        secfc.Scaled(algorithm())


def test_owners_deal_their_own_columns_only():
    federation, _ = owners(4, d=8)
    kept = secfc.fit(algorithm(), federation, keep_bodies=True)
    dealt = {}
    for envelope in kept.transcript.envelopes:
        if envelope.kind == "RowShares":
            dealt.setdefault(envelope.sender, set()).add(envelope.body.values.shape[2])
    assert dealt == {party.name: {len(party.features)} for party in federation.parties}


def test_sharing_columns_takes_as_many_bytes_as_sharing_rows():
    federation, _ = owners(3, m=3000, d=6, ids=False)
    way = replace(algorithm(policy=secfc.AssignmentsOnly()), max_iter=1, init=secfc.RandomLabels())
    table = np.concatenate([party.points for party in federation.parties], axis=1)

    def shared(result):
        return sum(e.nbytes for e in result.transcript.envelopes if e.phase == "share")

    columns = shared(secfc.fit(replace(way, membership=Joined(align="given")), federation))
    rows = shared(secfc.fit(replace(way, membership=secfc.Open()), np.array_split(table, 3)))
    assert columns <= 1.1 * rows


@pytest.mark.parametrize("far", [False, True])
def test_who_deals_false_columns_is_named(far):
    """With the values of one client in its own block alone, the row test of that block fails."""
    federation, _ = owners(3, m=40)

    def faults(envelope):
        if envelope.kind == "RowShares" and envelope.sender == "client-1":
            values = envelope.body.values
            if far or envelope.recipient == "client-0":  # beyond the bound at all; off the code at one
                values[:] = (values.astype(np.uint64) + 12345678) % (2**30 - 35)
        return (envelope,)

    with pytest.raises((FaultyClient, secfc.ProtocolError), match="client-1"):
        secfc.fit(algorithm(policy=secfc.Distances()), federation, keep_bodies=True, faults=faults)


# --- what went wrong in silence, and does not any more


def zeros_elsewhere(federation):
    """The same columns, filled up by zeros: what was done before clients could have their own."""
    arrays = []
    for party in federation.parties:
        whole = np.zeros((len(party.points), federation.d))
        whole[:, [federation.feature_names.index(name) for name in party.features]] = party.points
        arrays.append(whole)
    return secfc.Federation.from_arrays(arrays, ids=[party.ids for party in federation.parties])


def test_columns_filled_up_by_zeros_are_refused_where_means_would_be_wrong():
    federation, _ = owners(3)
    filled = zeros_elsewhere(federation)
    means = secfc.SecFC(k=3, threshold=1, membership=secfc.Private(on_conflict="mean"))
    with pytest.raises(secfc.InputError, match=r"no column varies at two clients.*membership=.joined"):
        secfc.fit(means, filled)
    # A column that two clients observe is no column of one owner.
    both = [np.asarray(party.points).copy() for party in filled.parties]
    both[0][:, 5], both[1][:, 5] = np.arange(len(both[0])), np.arange(len(both[1]))
    with pytest.warns(secfc.Caution, match=r"'client-\d' has \d of 6 columns with one value.*filled up here"):
        secfc.fit(means, secfc.Federation.from_arrays(both, ids=[p.ids for p in filled.parties]))


def test_means_of_columns_filled_up_by_zeros_would_be_wrong(monkeypatch):
    """The control: without the refusal labels are no fixed point of Lloyd on the joined table."""
    monkeypatch.setattr("secfc.coded.membership.refuse_split_columns", lambda federation: None)
    wrong = 0
    for seed in range(4):
        federation, _ = owners(3, seed=seed, m=90, least=0.6)
        way = algorithm(policy=secfc.AssignmentsOnly())
        means = replace(way, membership=secfc.Private(on_conflict="mean"))
        filled = zeros_elsewhere(federation)
        with pytest.warns(secfc.Caution, match="columns with one value"):  # all that a site alone can see
            result = secfc.fit(means, filled, seed=seed)
        table = np.zeros((len(result.history[-1]), federation.d))
        for rows, party in zip(result.rows, filled.parties, strict=True):
            table[rows] += party.points
        points, labels = np.rint(table * 64).astype(int).tolist(), result.history[-1].tolist()
        wrong += lloyd_step(points, labels, 3) != labels
    assert wrong


@pytest.mark.filterwarnings("ignore:client")
def test_filled_up_columns_are_a_dispute_of_nobody_and_predict_takes_halves_for_points(monkeypatch):
    """Two more controls: what was done before refuses people on whom all agree, and labels halves."""
    with pytest.raises(DisputedRows, match="have different data"):
        secfc.fit(secfc.SecFC(k=3, threshold=1, membership=secfc.Private()), zeros_elsewhere(owners(3)[0]))
    monkeypatch.setattr("secfc.coded.membership.refuse_split_columns", lambda federation: None)
    federation, _ = owners(3, least=1)  # of equal people means are those of the table, but for a factor
    filled = zeros_elsewhere(federation)
    way = secfc.SecFC(k=3, threshold=1, membership=secfc.Private(on_conflict="mean"))
    result = secfc.fit(way, filled, seed=0)
    wrong = [(new != own).mean() for new, own in zip(result.predict(filled), result.labels, strict=True)]
    assert max(wrong) > 0.1
    result = secfc.fit(algorithm(), federation, seed=0)
    for new, own in zip(result.predict(federation), result.labels, strict=True):
        np.testing.assert_array_equal(new, own)


def test_people_with_a_column_twice_would_be_clustered_by_sums(monkeypatch):
    """The control: without the refusal a row is the sum of both."""
    monkeypatch.setattr(joined, "refuse_twice", lambda count: None)
    ones, names = np.repeat([[1.0], [2.0]], [20, 10], axis=0), [f"p{i}" for i in range(30)]
    parts = ones, ones[:10], np.tile([[0.0], [0.1]], (15, 1))  # ten people are at 1 twice, so at 2
    federation = secfc.Federation.from_arrays(
        parts, ids=[names, names[:10], names], features=[("a",), ("a",), ("b",)]
    )
    result = secfc.fit(algorithm(2, secfc.AssignmentsOnly()), federation)
    points, labels, _ = joined_table(result, federation)
    assert labels != lloyd_step(points, labels, 2)


def those_of(federation, kept, order=1):
    """The federation with some of its people, by number, and columns in this order at each owner."""
    parties = []
    for party in federation.parties:
        if party.points.shape[0]:
            names = party.ids or [f"p{i:05d}" for i in range(len(party.points))]
            own = [i for i, name in enumerate(names) if kept(int(name[1:]))]
            points = np.asarray(party.points)[own][:, ::order]
            ids = None if party.ids is None else tuple(names[i] for i in own)
            party = secfc.Party(party.name, points, ids=ids, features=party.features[::order])
        parties.append(party)
    return secfc.Federation(tuple(parties))


@pytest.mark.parametrize("trial", range(short(2, nightly=28)))
def test_new_people_whose_columns_lie_at_several_get_the_nearest_center(trial, tmp_path):
    policy, given = POLICIES[trial % len(POLICIES)], trial % 2 == 1
    ell = 1 + (trial // 2 % 2 if policy not in WHOLE else 0)
    whole, _ = owners(2 + trial % 3, 5, 100, 3, trial, ties=True, ids=not given)
    whole = with_helpers(whole, 2 * ell + 1)
    way = algorithm(3, policy, threshold=secfc.Threshold(1, ell))
    way = replace(way, membership=Joined(align="given" if given else "ids"))
    result = secfc.fit(way, those_of(whole, lambda i: i < 60), bound=32.0, seed=trial)
    fitted, labels, _ = joined_table(result, those_of(whole, lambda i: i < 60))
    new = those_of(whole, lambda i: i >= 60, -1)
    kept = model_file_of(result)
    kept.write(tmp_path / "model.npz")
    read = KeptModel.read(tmp_path / "model.npz")
    told: dict[str, list[int]] = {}
    rows: dict[str, dict[str, int]] = {}
    labeled = result.predict(new, sealed=trial == 0)
    for own, again in zip(labeled, read.predict(new), strict=True):  # by what a file keeps, no other
        assert own.tolist() == again.tolist()
    spent = {name: one.left for name, one in result.model.allowances.items()}
    assert KeptModel.read(tmp_path / "model.npz").kept.facts["model"]["left"] == spent
    for party, own in zip(new.parties, labeled, strict=True):
        points = np.rint(np.asarray(party.points) * 64).astype(int).tolist()
        for i, label in enumerate(own.tolist()):
            name = party.ids[i] if party.ids else str(i)
            told.setdefault(name, []).append(label)
            rows.setdefault(name, {}).update(zip(party.features, points[i], strict=True))
    names = result.features
    means = {h: [p for p, label in zip(fitted, labels, strict=True) if label == h] for h in set(labels)}
    means = {h: [Fraction(sum(x), len(x)) for x in zip(*own, strict=True)] for h, own in means.items()}
    found = 0
    for name, row in rows.items():
        if len(row) < len(names):  # of who is not at all owners nothing is told
            assert set(told[name]) == {-1}
            continue
        point, found = [row[feature] for feature in names], found + 1
        apart = {h: sum((x - c) ** 2 for x, c in zip(point, mean, strict=True)) for h, mean in means.items()}
        assert set(told[name]) == {min(apart, key=lambda h, apart=apart: (apart[h], h))}
    assert found > 5


def rounded_rows(federation, fitted, result):
    """By person the integers of the joined row, on the scales that owners keep of the fit; of who has all."""
    rows: dict[str, dict[int, int]] = {}
    for party in federation.parties:
        if not party.points.shape[1]:
            continue
        numbers = [fitted.feature_names.index(name) for name in party.features]
        points = np.asarray(party.points)[:, np.argsort(numbers)]
        values = result.plan.quantizer(result.model.scales[party.name].forward(points)).tolist()
        for i, row in enumerate(values):
            name = party.ids[i] if party.ids else str(i)
            rows.setdefault(name, {}).update(zip(sorted(numbers), row, strict=True))
    return {name: [row[f] for f in sorted(row)] for name, row in rows.items() if len(row) == fitted.d}


SCALES = ("standard", "robust", secfc.Standardize(limit=1.5))


@pytest.mark.parametrize("trial", range(short(2, nightly=30)))
def test_new_people_are_brought_to_the_scale_that_each_owner_keeps_of_the_fit(trial, tmp_path):
    policy, given = POLICIES[trial % len(POLICIES)], trial % 2 == 1
    policy = secfc.OwnLabels() if trial < 3 else policy
    whole, _ = owners(2 + trial % 3, 5, 100, 3, trial, ids=not given)
    way = replace(algorithm(3, policy), membership=Joined(align="given" if given else "ids"))
    fitted, new = those_of(whole, lambda i: i < 60), those_of(whole, lambda i: i >= 60, -1)
    result = secfc.fit(way, fitted, scale_features=SCALES[trial % 3], seed=trial)
    model_file_of(result).write(tmp_path / "model.npz")
    scales = result.model.scales
    assert {name for name, scale in scales.items() if scale is not None} == {
        party.name for party in fitted.parties if party.points.shape[1]
    }
    before = rounded_rows(fitted, fitted, result)
    label_of = {}
    for party, own in zip(fitted.parties, result.labels, strict=True):
        for i, label in enumerate(own.tolist()):
            if label >= 0:
                label_of[party.ids[i] if party.ids else str(i)] = label
    assert before.keys() == label_of.keys()
    means = {}
    for h in set(label_of.values()):
        own = [before[name] for name, label in label_of.items() if label == h]
        means[h] = [Fraction(sum(x), len(x)) for x in zip(*own, strict=True)]
    after, found = rounded_rows(new, fitted, result), 0
    for predict in (result.predict, KeptModel.read(tmp_path / "model.npz").predict):
        for party, own in zip(new.parties, predict(new), strict=True):
            for i, label in enumerate(own.tolist()):
                row = after.get(party.ids[i] if party.ids else str(i))
                apart = {} if row is None else {
                    h: sum((x - c) ** 2 for x, c in zip(row, mean, strict=True)) for h, mean in means.items()
                }  # fmt: skip
                assert label == (min(apart, key=lambda h, apart=apart: (apart[h], h)) if apart else -1)
                found += label >= 0
    assert found > 10


def test_on_the_scale_of_new_rows_alone_new_people_would_be_labeled_otherwise():
    whole, _ = owners(2, 5, 100)
    result = secfc.fit(algorithm(), those_of(whole, lambda i: i < 60), scale_features="standard", seed=0)
    new = those_of(whole, lambda i: i >= 60, -1)
    scales = {
        party.name: secfc.Standardize().scaling_alone(
            np.asarray(party.points)[:, np.argsort(own)], party.name
        )
        for party, own in zip(new.parties, new.observed, strict=True)
        if own
    }
    wrong = replace(result, model=replace(result.model, scales=scales)).predict(new)
    assert any((a != b).any() for a, b in zip(result.predict(new), wrong, strict=True))


def test_what_is_not_made_for_columns_of_several_owners_is_refused(monkeypatch):
    federation, _ = owners(2)
    scaled = secfc.fit(algorithm(), federation, scale_features="standard")
    with pytest.raises(secfc.InputError, match="client-0' has no scale of the fit, to which new rows are"):
        replace(scaled, model=replace(scaled.model, scales={})).predict(federation)
    result = secfc.fit(algorithm(), federation)
    with pytest.raises(secfc.InputError, match=r"client-0 had the columns .* in the fit, and has"):
        result.predict(owners(2, seed=1)[0])
    for allowance in result.model.allowances.values():
        allowance.left = 0
    monkeypatch.setattr(JoinedPlan, "client", lambda *_, **__: pytest.fail("IDs are united for no label"))
    with pytest.raises(BudgetSpent, match="1 new point to be labeled: 0 of"):
        result.predict(federation)
    monkeypatch.undo()
    for more, message in (
        (
            {"release": secfc.Release(reveal_centers=True)},
            "each computes its part from the labels of its rows",
        ),
        ({"membership": Joined(keep="union")}, "labels of people whom they do not hold"),
        (
            {"threshold": secfc.Threshold(1, corrected=1)},
            "no other client has the columns of one that would be left",
        ),
    ):
        with pytest.raises(secfc.InputError, match=message):
            secfc.fit(replace(algorithm(), **more), federation)
    with pytest.raises(secfc.InputError, match=r"taken for its mean.*scale_features=.standard"):
        secfc.fit(replace(algorithm(policy=secfc.Distances()), membership=Joined(keep="union")), federation)
    with pytest.raises(secfc.InputError, match="'helper-0' has no data, as one may where columns are joined"):
        secfc.fit(secfc.FederatedLloyd(k=2), federation)
    with pytest.raises(secfc.InputError, match="align='given' finds no union"):
        Joined(align="given", quota=3, tags="oblivious")


def test_each_column_belongs_to_one_client():
    one, _ = owners(3)
    same = secfc.Federation.from_arrays([np.zeros((4, 2))] * 3, ids=[range(4)] * 3)
    with pytest.raises(secfc.InputError, match=r"all clients have the same columns.*features="):
        secfc.fit(algorithm(), same)
    twice = replace(one.parties[1], features=(one.parties[0].features[0], *one.parties[1].features[1:]))
    with pytest.raises(
        secfc.InputError, match=r"client-0 and client-1 both have column 'x\d', and not all others"
    ):
        secfc.fit(algorithm(), secfc.Federation((one.parties[0], twice, one.parties[2])))
    alone = secfc.Federation((one.parties[0], *map(secfc.Party.without_data, ("a", "b"))))
    with pytest.raises(secfc.InputError, match="one client has all columns"):
        secfc.fit(algorithm(), alone)


def test_ids_that_meet_nowhere_are_told_with_the_size_of_the_union():
    federation, _ = owners(3, m=10)
    apart = [
        replace(party, ids=tuple(f"{j}-{name}" for name in party.ids))
        for j, party in enumerate(federation.parties)
    ]
    with pytest.raises(secfc.InputError, match=r"no ID is held by owners of all columns \(union \d+\)"):
        secfc.fit(algorithm(), secfc.Federation(tuple(apart)))
    bare = [replace(party, ids=None) for party in federation.parties]
    with pytest.raises(secfc.InputError, match="has no IDs: columns of the same people are joined by them"):
        secfc.fit(algorithm(), secfc.Federation(tuple(bare)))


# --- who sees what


def test_labels_of_joined_columns_are_told_to_owners_alone_by_default():
    federation, _ = owners(2)
    way = secfc.SecFC(k=3, membership="joined")
    assert way.disclosure == secfc.OwnLabels()
    assert secfc.SecFC(k=3, membership="private").disclosure == secfc.AssignmentsOnly()
    result = secfc.fit(way, federation)
    assert result.history == ()
    assert all((labels >= 0).any() for labels in result.labels[:2])
    asked = {e.recipient for e in result.transcript.envelopes if e.kind == "OwnShare"}
    assert asked <= set(federation.names[:2])


@pytest.mark.parametrize("columns", ["noise", "aimed", "yes and no"])
def test_what_labels_tell_one_owner_of_the_column_of_another(columns):
    """Columns of noise make two clusters that are another's binary column.  Columns that are aimed read half
    of all people, though labels then explain a third of that column; with three clusters an ordinary column
    of yes and no reads all who are no: no bound on the share that labels explain stops these."""
    rng, m = np.random.default_rng(0), 400
    secret = rng.random(m) < 0.5
    column = (secret - secret.mean()) / secret.std()
    mine, read = rng.normal(size=(m, 4)), np.ones(m, bool)
    if columns == "yes and no":
        read = rng.permutation(m) >= m / 7
        mine = (read[:, None] - read.mean()) / read.std()
    if (
        columns == "aimed"
    ):  # a tenth is known, two fifths stand aside at random, and between both stands who is read
        known, read = np.arange(m) < m // 10, np.arange(m) >= m // 2
        side = np.where(known, 2.0 * secret - 1, np.where(rng.permutation(m) % 2 == 0, 1.0, -1.0))
        mine = np.where(read, 0, 2 * side)[:, None]
    names = [tuple(f"a{i}" for i in range(mine.shape[1])), ("secret",), ("constant",)]
    parts = [mine, column[:, None], np.zeros((m, 1))]
    federation = secfc.Federation.from_arrays(parts, features=names)
    k, least, most = {"noise": (2, 0.8, 1), "aimed": (2, 0, 0.5), "yes and no": (3, 0.8, 0.9)}[columns]
    way = secfc.SecFC(k, 1, membership=Joined(align="given"))
    labels = secfc.fit(way, federation, seed=0).labels[0]
    means = np.array([column[labels == label].mean() for label in range(k)])
    hits = ((means > 0)[labels] == secret)[read].mean()
    assert hits == (pytest.approx(1.0, abs=0.1) if columns == "noise" else 1.0)
    assert least <= float((means[labels] ** 2).mean()) <= most


def test_an_owner_that_claims_people_is_told_their_labels():
    """Nothing stops it: the table of deviations says so."""
    federation, _ = owners(3)
    deviating, others = federation.parties[0], federation.parties[1:]
    lacked = set(others[0].ids) & set(others[1].ids) - set(deviating.ids)
    claimed = (*sorted(lacked), "nobody")
    more = np.zeros((len(claimed), len(deviating.features)))
    false = replace(deviating, points=np.vstack([deviating.points, more]), ids=(*deviating.ids, *claimed))
    own = secfc.fit(algorithm(), secfc.Federation((false, *others))).labels[0][-len(claimed) :]
    assert lacked
    assert (own[:-1] >= 0).all()
    assert own[-1] == -1


def test_an_owner_that_deals_other_rows_than_it_found_is_clustered_by_what_it_dealt(monkeypatch):
    """Nobody notices; columns of others stay what they are."""
    federation, _ = owners(3, d=6)
    width = len(federation.parties[1].features)
    swapped, scatter = [], joined.scatter_rows

    def scatter_swapped(rows, integers):
        if np.array_equal(np.rint(federation.parties[1].points[:, 0] * 64)[kept_of(1)], integers[:, 0]):
            swapped.append(integers.shape[1])
            integers = integers[::-1]
        return scatter(rows, integers)

    def kept_of(number):
        shared = set.intersection(*(set(party.ids) for party in federation.parties))
        return [i for i, name in enumerate(federation.parties[number].ids) if name in shared]

    monkeypatch.setattr(joined, "scatter_rows", scatter_swapped)
    result = secfc.fit(algorithm(policy=secfc.AssignmentsOnly()), federation)
    assert swapped == [width]
    points, labels, _ = joined_table(result, federation)
    assert labels != lloyd_step(points, labels, 3)
    dealt = np.array(points)
    columns = [federation.feature_names.index(name) for name in federation.parties[1].features]
    own = result.rows[1][result.rows[1] >= 0]
    dealt[np.ix_(own, columns)] = dealt[np.ix_(own[::-1], columns)]
    assert labels == lloyd_step(dealt.tolist(), labels, 3)


def test_who_deals_at_rows_of_others_with_its_columns_is_not_noticed(monkeypatch):
    """Where people are divided, rows are sums of what such clients dealt, as the table of deviations says."""
    federation, people = owners(2)
    both, scatter, lied = set.intersection(*map(set, people)), joined.scatter_rows, []

    def scatter_more(rows, integers):
        read = scatter(rows, integers)
        if len(rows) == len(both) or lied:
            return read
        lied.append(len(rows))
        away = np.setdiff1d(np.arange(len(both)), rows)

        def read_more(begin, end):
            assert (begin, end) == (0, len(both))
            found = read(begin, end)
            found[away] += np.where(away % 2, 1, -1)[:, None] * np.abs(integers).max()
            return found

        return read_more

    monkeypatch.setattr(joined, "scatter_rows", scatter_more)
    result = secfc.fit(algorithm(policy=secfc.AssignmentsOnly()), divided(federation))
    points, labels, _ = joined_table(result, divided(federation))
    assert lied
    assert labels != lloyd_step(points, labels, 3)


def test_an_owner_that_deals_columns_of_others_is_named():
    federation, _ = owners(3)

    def faults(envelope):
        if envelope.kind == "RowShares" and envelope.sender == "client-1":
            values = envelope.body.values
            return (replace(envelope, body=replace(envelope.body, values=np.concatenate([values] * 2, 2))),)
        return (envelope,)

    with pytest.raises(FaultyClient, match="client-1 sent a malformed message"):
        secfc.fit(algorithm(policy=secfc.Distances()), federation, keep_bodies=True, faults=faults)


@pytest.mark.parametrize("verify", [False, True])
def test_clients_hear_which_rows_are_kept_and_the_server_counts_alone(verify):
    federation, people = owners(3)
    way = replace(algorithm(), membership=Joined(verify=verify))
    result = secfc.fit(way, federation, keep_bodies=True)
    told = [e for e in result.transcript.envelopes if e.kind == "KeptRows"]
    assert {e.recipient for e in told} == set(federation.names)
    assert {e.sender for e in told} == {SERVER}
    assert sum(told[0].body.kept) == len(set.intersection(*map(set, people)))
    assert "Multiplicities" not in {e.kind for e in result.transcript.envelopes}


def test_a_server_that_keeps_other_rows_is_found_out():
    federation, _ = owners(3)

    def faults(envelope):
        if envelope.kind == "KeptRows":
            envelope.body.kept[:] = True
        return (envelope,)

    with pytest.raises(secfc.UnionFailed, match=r"rows were kept.* and client-\d does not hold them"):
        secfc.fit(algorithm(), federation, keep_bodies=True, faults=faults)


def with_helper_at(place, policy, m=600):
    """A run of two owners of few values, so that only masks vary, and a helper at this place of three."""
    columns = [np.repeat([[1.0, -2.0]], m, axis=0), np.repeat([[0.5], [3.0]], m // 2, axis=0)]
    parties = list(secfc.Federation.from_arrays(columns, features=[("a", "b"), ("c",)]).parties)
    parties.insert(place, secfc.Party.without_data("helper"))
    start = secfc.GivenLabels([np.arange(m) % 2])
    way = replace(algorithm(2, policy), membership=Joined(align="given"), init=start, max_iter=2)
    return secfc.fit(way, secfc.Federation(tuple(parties)), keep_bodies=True)


def octets_told(result, coalition):
    """Of each kind of message with secrets, what these were told: words, or 256ths of a prime."""
    told = {}
    for e in View.of(result, result.plan, coalition).received():
        found = getattr(e.body, "values", getattr(e.body, "words", None))
        if not isinstance(found, np.ndarray) or found.size < 300 or e.kind == "ProjectedShares":
            continue
        if found.dtype == np.uint64:
            low = found.reshape(-1).view(np.uint8).reshape(-1, 4)[:, :3]  # some are two residues of 30 bits
            told.setdefault(e.kind, []).append(low.reshape(-1))
        else:
            for lane, p in zip(found, result.plan.code.basis.primes, strict=True):
                part = lane.reshape(-1).astype(np.uint64) * 256 // p
                told.setdefault(e.kind, []).append(part.astype(np.uint8))
    return {kind: np.concatenate(parts) for kind, parts in told.items()}


# Who compares, or hears masked distances alone; and with the server on one machine, where nobody deals.
PLACES = [
    (place, policy, coalition)
    for place in (0, 2)
    for policy, coalition in (
        (secfc.OwnLabels(), ("helper",)), (secfc.OwnLabels(dealer=None), ("helper", SERVER)),
    )
]  # fmt: skip


@pytest.mark.parametrize(("place", "policy", "coalition"), PLACES)
def test_what_a_helper_is_told_is_uniform_and_the_server_is_told_sizes(place, policy, coalition):
    result = with_helper_at(place, policy)
    told = octets_told(result, coalition)
    assert {"RowShares", "MaskedBits"} < set(told)
    assert all(map(is_uniform, told.values())), {kind: is_uniform(found) for kind, found in told.items()}
    heard = {name: set(View.of(result, result.plan, name).kinds()["received"]) for name in ("helper", SERVER)}
    dealing = {"CheckDigest", "MaskSeed"} if policy.dealer else set()
    assert heard[SERVER] == {"Hello", "Commitment", "Coin", "ProjectedShares", "SizeShare"} | dealing
    assert not {"OwnShare", "LabelShare", "CodedDistances"} & heard["helper"]


@pytest.mark.parametrize("place", [0, 2])
def test_without_noise_in_shares_a_helper_would_read_columns(place, monkeypatch):
    """The control: the same test fails."""
    share, bare = LagrangeCode.share, SimpleNamespace(fill_residues=lambda prime, out: out.fill(0))
    monkeypatch.setattr(LagrangeCode, "share", lambda code, points, coins: share(code, points, bare))
    told = octets_told(with_helper_at(place, secfc.OwnLabels()), ("helper",))
    assert not is_uniform(told["RowShares"])
