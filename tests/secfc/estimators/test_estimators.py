"""scikit-learn's own checks, its ways of calling, and that labels are those of `secfc.fit`, bit for bit."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import secfc
from field.ring.errors import install_command
from secfc.algorithm import PublicFacts
from secfc.estimators import DPKMeans, FederatedKMeans, KFedKMeans, SecFCDBSCAN, SecFCKMeans
from secfc.privacy import Bound, Budget
from tests.nightly import NIGHTLY
from tests.small import invoke

NOISE = "noise comes from the operating system: fitting again gives other centers and names clusters anew"
ORDER = "rows in another order, dealt to clients anew, give clusters other names, or another local optimum"
# Hidden centers, under the default policy, are tried by night, as they take longest; so are two estimators
# that have their methods from a class that others try by day.
BY_NIGHT = [SecFCKMeans(3), SecFCKMeans(3, reveal_centers=True), KFedKMeans(3), FederatedKMeans(3)]
CHECKED = [
    SecFCKMeans(3, disclosure="distances", reveal_centers=True),
    DPKMeans(3, epsilon=1e4, server_share=0.5),
    SecFCDBSCAN(),
    *(BY_NIGHT if NIGHTLY else []),
]


def expected(estimator):
    if isinstance(estimator, DPKMeans):
        return {"check_fit_idempotent": NOISE, "check_clustering": NOISE}
    return {"check_sample_weight_equivalence_on_dense_data": ORDER}


@pytest.mark.filterwarnings("ignore::secfc.Caution", "ignore::sklearn.exceptions.SkipTestWarning")
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected)
def test_scikit_learn_takes_it_for_one_of_its_own(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def sites():
    rng = np.random.default_rng(3)
    return [rng.normal(rng.integers(0, 3, (count, 1)) * 6, 1, (count, 3)) for count in (20, 31, 9, 25)]


def test_labels_are_those_of_fit_and_of_plaintext_lloyd(sites):
    model = SecFCKMeans(3).fit(sites)
    result = secfc.fit(secfc.SecFC(3), sites)
    np.testing.assert_array_equal(model.labels_, result.flat)
    np.testing.assert_array_equal(model.labels_, secfc.fit(secfc.Lloyd(3), sites).flat)
    assert (model.n_iter_, model.clients_) == (
        result.n_iter,
        ("client-0", "client-1", "client-2", "client-3"),
    )
    assert model.inertia_ == pytest.approx(secfc.metrics.cost(np.concatenate(sites), result.flat, 3))


def test_density_clusters_are_those_of_fit_and_label_nothing_new(sites):
    model = SecFCDBSCAN(eps=1.2, min_samples=4).fit(sites)
    np.testing.assert_array_equal(model.labels_, secfc.fit(secfc.DBSCAN(1.2, 4), sites).flat)
    assert {-1, 0} < {*model.labels_.tolist()}
    for name in ("predict", "transform", "cluster_centers_"):
        with pytest.raises(AttributeError, match="has no centers"):
            getattr(model, name)


@pytest.mark.parametrize("kind", [SecFCKMeans, FederatedKMeans])
def test_a_weight_is_as_many_equal_rows(sites, kind):
    rng = np.random.default_rng(0)
    weights = [rng.integers(0, 4, len(site)) for site in sites]
    weighed = kind(3, random_state=0).fit(sites, sample_weight=np.concatenate(weights).astype(float))
    repeated = kind(3, random_state=0).fit(
        [np.repeat(s, w, axis=0) for s, w in zip(sites, weights, strict=True)]
    )
    flat = np.concatenate(weights)
    np.testing.assert_array_equal(
        kind(3, random_state=0).fit(sites, sample_weight=weights).labels_, weighed.labels_
    )
    np.testing.assert_array_equal(np.repeat(weighed.labels_, flat), repeated.labels_)
    assert (weighed.labels_[flat == 0] == -1).all()
    assert not np.array_equal(weighed.labels_, kind(3, random_state=0).fit(sites).labels_)


def test_centers_to_begin_with_and_words_of_scikit_learn(sites):
    centers = np.array([sites[0][0], sites[1][0], sites[2][0]])
    model = SecFCKMeans(3, init=centers, n_init="auto", max_iter=1).fit(sites)
    nearest = [((site[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1) for site in sites]
    plain = secfc.fit(secfc.Lloyd(3, init=secfc.GivenLabels(nearest), max_iter=1), sites)
    np.testing.assert_array_equal(model.labels_, plain.flat)
    turned = SecFCKMeans(3, init=centers[::-1], max_iter=1).fit(sites)
    np.testing.assert_array_equal(turned.labels_, 2 - model.labels_)


@pytest.mark.filterwarnings("ignore::secfc.Caution")
@pytest.mark.parametrize("missing", ["drop", "mean"])
def test_missing_values_are_treated_as_fit_treats_them(missing, sites):
    holed = [site.copy() for site in sites]
    holed[1][3, 1] = np.nan
    model = SecFCKMeans(3, missing=missing).fit(holed)
    result = secfc.fit(secfc.SecFC(3), secfc.Federation.from_arrays(holed, gaps=True), missing=missing)
    np.testing.assert_array_equal(model.labels_, result.flat)
    assert (model.labels_[23] == -1) == (missing == "drop")


@pytest.mark.parametrize("model", [SecFCKMeans(3), KFedKMeans(3)], ids=repr)
def test_what_is_saved_labels_new_rows_when_it_is_loaded(model, sites, tmp_path):
    model = clone(model).fit(sites)
    model.save(tmp_path / "model.npz")
    loaded = type(model).load(tmp_path / "model.npz")
    new = [site + 0.01 for site in sites]
    np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
    with pytest.raises(FileExistsError, match="choose another name"):
        model.save(tmp_path / "model.npz")
    (tmp_path / "model.npz").write_bytes(b"PK")
    with pytest.raises(secfc.InputError, match="is no model"):
        SecFCKMeans.load(tmp_path / "model.npz")


def test_one_default_for_estimators_the_shell_and_fit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["a.csv", "b.csv", "c.csv"]
    for name in (*names, "server.csv"):
        Path(name).write_text("x,y\n" + "".join(f"{i % 7},{i % 5}.5\n" for i in range(20)))
    taken = []

    def taken_by_the_shell(*words):
        def stop(method, asked, federation, *more):
            taken.append(method.choose(asked, PublicFacts.of(federation)).algorithm)
            raise secfc.InputError("enough was seen")

        monkeypatch.setattr("secfc.cli.clustering.run.execute", stop)
        assert invoke(*words[:1], *names, "-k", 2, *words[1:]).exit_code == 2
        return taken.pop()

    assert (
        taken_by_the_shell("run", "--algorithm", "k-fed") == KFedKMeans(2)._algorithm(0, []) == secfc.KFed(2)
    )
    private = ("dp", "--server-file", "server.csv", "--epsilon", 1)
    ours = secfc.FedDPKMeans(2, 1.0, 1e-6)
    assert taken_by_the_shell(*private) == DPKMeans(2)._algorithm(0, []) == ours
    assert taken_by_the_shell("overlap") == FederatedKMeans(2)._algorithm(0, [])
    shell, model, way = taken_by_the_shell("run"), SecFCKMeans(2)._algorithm(0, []), secfc.SecFC(2)
    assert model == way
    public = PublicFacts.of(secfc.Federation.from_arrays([np.eye(2)] * 3))
    # The shell says how many may collude, which else follows.
    assert shell.plan(public).code == way.plan(public).code
    assert replace(shell, threshold=way.threshold) == way


def test_groups_say_whose_rows_are_whose_and_labels_keep_the_order_of_rows(sites):
    order = np.random.default_rng(0).permutation(sum(map(len, sites)))
    whole = np.concatenate(sites)[order]
    groups = np.repeat(["rome", "oslo", "bonn", "kyiv"], [len(site) for site in sites])[order]
    model = SecFCKMeans(3, disclosure="distances").fit(whole, groups=groups)
    assert model.clients_ == tuple(dict.fromkeys(groups.tolist()))
    dealt = {name: whole[groups == name] for name in model.clients_}
    result = secfc.fit(secfc.SecFC(3, disclosure="distances"), dealt)
    for name, own in zip(model.clients_, result.labels, strict=True):
        np.testing.assert_array_equal(model.labels_[groups == name], own)
    np.testing.assert_array_equal(model.predict(whole, groups=groups), model.labels_)
    # One client alone may have new rows, and in whatever order.
    some = np.flatnonzero(groups == "bonn")[::-1][:4]
    np.testing.assert_array_equal(model.predict(whole[some], groups=groups[some]), model.labels_[some])
    np.testing.assert_array_equal(model.predict({"bonn": whole[some]}), model.labels_[some])


def test_the_number_of_clients_to_whom_a_table_is_dealt_changes_no_label(sites):
    whole = np.concatenate(sites)
    plain = secfc.fit(secfc.Lloyd(3, quantization=secfc.Quantization(scale=64.0)), [whole]).flat
    for n in (3, 5):
        model = SecFCKMeans(3, n_clients=n, scale=64.0, disclosure="distances").fit(whole)
        assert len(model.clients_) == n
        np.testing.assert_array_equal(model.labels_, plain)


def test_hidden_centers_say_why_and_what_to_do(sites):
    model = SecFCKMeans(3).fit(sites)
    for name in ("cluster_centers_", "transform", "fit_transform", "score"):
        assert not hasattr(model, name)
        with pytest.raises(AttributeError, match="Set reveal_centers=True"):
            getattr(model, name)
    opened = SecFCKMeans(3, reveal_centers=True).fit(sites)
    np.testing.assert_array_equal(opened.labels_, model.labels_)
    assert opened.cluster_centers_.shape == (3, 3)
    assert opened.score(np.concatenate(sites)) == pytest.approx(-opened.inertia_, rel=1e-3)
    with pytest.raises(AttributeError, match="fit it first"):
        _ = KFedKMeans(3).cluster_centers_


def test_a_pipeline_a_search_a_clone_and_a_pickle(sites):
    whole = np.concatenate(sites)
    model = SecFCKMeans(disclosure="distances", reveal_centers=True, bound=8.0)
    search = GridSearchCV(make_pipeline(StandardScaler(), model), {"secfckmeans__n_clusters": [2, 3]}, cv=2)
    search.fit(whole)
    assert search.best_params_ == {"secfckmeans__n_clusters": 3}
    assert search.predict(whole[:2]).shape == (2,)
    with sklearn.config_context(enable_metadata_routing=True):
        # Every part of the rows has rows of all clients.
        model = KFedKMeans(k_local=2).set_fit_request(groups=True)
        routed = GridSearchCV(model, {"n_clusters": [3]}, cv=2, error_score="raise")
        routed.fit(whole, groups=np.resize(["a", "b"], len(whole)))
    assert routed.best_estimator_.clients_ == ("a", "b")
    assert clone(model).get_params() == model.get_params()
    fitted = SecFCKMeans(3).fit(sites)
    kept = pickle.loads(pickle.dumps(fitted))  # noqa: S301 - our own
    np.testing.assert_array_equal(kept.predict(sites), fitted.labels_)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_columns_of_frames_are_matched_by_name(library, sites):
    frames = pytest.importorskip(library)
    make = frames.table if library == "pyarrow" else frames.DataFrame
    orders = (["age", "pulse", "weight"], ["weight", "age", "pulse"])

    def framed(site, j):
        names = orders[j % 2]
        return make({name: np.ascontiguousarray(site[:, orders[0].index(name)]) for name in names})

    tables = {f"h{j}": framed(site, j) for j, site in enumerate(sites)}
    model = KFedKMeans(3).fit(tables)
    np.testing.assert_array_equal(model.labels_, KFedKMeans(3).fit(sites).labels_)
    assert model.feature_names_in_.tolist() == orders[0]
    turned = [framed(site, j + 1) for j, site in enumerate(sites)]
    np.testing.assert_array_equal(model.predict(turned), model.labels_)
    few = make({"age": sites[0][:, 0], "pulse": sites[0][:, 1]})
    with pytest.raises(secfc.InputError, match="missing are 'weight'"):
        KFedKMeans(3).fit([tables["h0"], few])
    if library != "pyarrow":
        out = model.set_output(transform=library).transform(tables["h0"])
        assert isinstance(out, frames.DataFrame)
        assert list(out.columns) == ["kfedkmeans0", "kfedkmeans1", "kfedkmeans2"]


class Frame:
    """A data frame of no library: all that is asked of one."""

    def __init__(self, **columns):
        self.data, self.columns = columns, list(columns)
        self.shape = (len(next(iter(columns.values()))), len(columns))

    def __getitem__(self, name):
        return self.data[name]

    def __array__(self, dtype=None, copy=None):
        return np.column_stack(list(self.data.values()))


def test_clients_may_observe_different_features():
    rng = np.random.default_rng(0)
    base = [rng.normal(rng.integers(0, 2, (30, 1)) * 9, 1, (30, 3)) for _ in range(4)]
    frames = [Frame(a=x[:, 0], b=x[:, 1], c=x[:, 2]) if j % 2 else Frame(b=x[:, 1], a=x[:, 0])
              for j, x in enumerate(base)]  # fmt: skip
    model = FederatedKMeans(2).fit(frames)
    result = secfc.fit(secfc.FederatedLloyd(2), frames)
    np.testing.assert_array_equal(model.labels_, result.flat)
    assert model.feature_names_in_.tolist() == ["b", "a", "c"]
    np.testing.assert_array_equal(model.predict(frames), model.labels_)
    np.testing.assert_array_equal(model.transform(frames).argmin(axis=1), model.labels_)
    assert np.isfinite(model.cluster_centers_).all()
    own = FederatedKMeans(2).fit([frames[0], frames[2], frames[1]])
    assert np.isnan(own.cluster_centers_[:, 2]).all()  # one client's own


def test_noised_centers_need_points_of_the_server(sites):
    with pytest.raises(secfc.InputError, match="server_points"):
        DPKMeans(3).fit(sites)
    model = DPKMeans(3, epsilon=50.0, delta=1e-5).fit(sites, server_points=np.concatenate(sites)[::3])
    assert model.cluster_centers_.shape == (3, 3)
    assert model.result_.ledger.epsilon(1e-5) <= 50
    np.testing.assert_array_equal(model.predict(sites), model.labels_)
    np.testing.assert_array_equal(model.labels_, model.transform(sites).argmin(axis=1))
    assert model.released_labels_ is None
    held = np.concatenate(sites)[::3]
    for slots in (None, 60):
        told = DPKMeans(3, epsilon=50.0, labels_epsilon=25.0, labels_slots=slots).fit(
            sites, server_points=held
        )
        np.testing.assert_array_equal(told.released_labels_, told.labels_)
        assert 50 < told.result_.ledger.epsilon(1e-6) <= 75
        relation = "replace" if slots is None else "add/remove"
        assert told.result_.ledger.neighbors.relation == relation
    with pytest.raises(secfc.InputError, match="labels_slots=9 without labels_epsilon"):
        DPKMeans(3, labels_slots=9).fit(sites, server_points=held)
    with pytest.raises(secfc.InputError, match=r"'row' is no unit.*point, client, person:6"):
        DPKMeans(3, protect="row", server_share=0.5).fit(sites)


def test_persons_of_several_rows_are_protected_together(sites):
    """So the same sums carry noise for as many rows, whoever has them."""
    rows = sum(map(len, sites))
    whose = np.arange(rows) % 30
    way = DPKMeans(3, epsilon=50.0, protect="person:8", server_share=0.3, bound=20.0)
    found = way.fit(sites, persons=whose).result_
    assert str(found.ledger.neighbors) == "add/remove one person, of at most 8 rows"
    alone = DPKMeans(3, epsilon=50.0, server_share=0.3, bound=20.0).fit(sites).result_
    first, of_rows = (each.details.server.released[0].noise for each in (found, alone))
    assert first == pytest.approx(8 * of_rows, rel=1e-6)
    with pytest.raises(secfc.InputError, match=r"fit\(persons=\.\.\.\)"):
        way.fit(sites)
    with pytest.raises(secfc.InputError, match=r"shape \(3,\) for 85 rows"):
        way.fit(sites, persons=[1, 2, 3])


def test_a_federation_keeps_its_ids_and_the_points_of_its_server():
    """So people at several clients count once, and their noisy centers are public."""
    points = np.repeat([[0.0, 4], [4, 0], [-4, -4]], 6, axis=0) + np.linspace(-0.2, 0.2, 18)[:, None]
    held = [np.r_[:12], np.r_[6:18], np.r_[:18:2], np.r_[1:18:2]]
    federation = secfc.Federation.from_arrays(
        [points[own] for own in held], ids=[own.tolist() for own in held], server_points=points[::2] + 0.3
    )
    policy = secfc.NoisySums(Budget(400.0, 1e-6), Bound.given(6.0), steps=3)
    model = SecFCKMeans(3, t=1, membership=secfc.Private(counts="hidden"), disclosure=policy, bound=6.0)
    model.fit(federation)
    assert model.result_.plan.m == 18
    assert model.score(points) > -18
    np.testing.assert_array_equal(model.transform(points[held[0]]).argmin(axis=1), model.labels_[:12])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: SecFCKMeans(3).fit(x[0][:2]), "n_samples=2 cannot be dealt out to n_clients=3"),
        (lambda x: SecFCKMeans(3, n_clients=2).fit(x[0]), "n=2 clients .* 3 are needed"),
        (lambda x: SecFCKMeans(3, n_clients="3").fit(x[0]), "n_clients='3'"),
        (lambda x: SecFCKMeans(99).fit(x), "should be >= n_clusters=99"),
        (lambda x: SecFCKMeans(3).fit(x[0], groups=["a"]), r"groups have shape \(1,\) for 20 rows"),
        (lambda x: SecFCKMeans(3).fit(x, groups=["a"]), "Leave groups out"),
        (lambda x: SecFCKMeans(3).fit({}), "at least one table"),
        (lambda x: SecFCKMeans(3, disclosure="all").fit(x), "disclosure='all' is unknown"),
        (lambda x: SecFCKMeans(3, t="2").fit(x), "t='2' is a str"),
        (lambda x: SecFCKMeans(3, tol=1e-4).fit(x), "tol=0.0001: steps end when no label changes"),
        (lambda x: SecFCKMeans(3, init=np.eye(3)[:2]).fit(x), r"init has shape \(2, 3\)"),
        (lambda x: SecFCKMeans(3, init=lambda: 0).fit(x), "init is a function"),
        (lambda x: SecFCKMeans(3).fit(x, sample_weight=np.full(85, 0.5)), r"sample_weight\[0\]=0.5: whole"),
        (lambda x: SecFCKMeans(3).fit(x, sample_weight=[0] * 20 + [1] * 65), "client-0.*each client needs"),
        (lambda x: SecFCKMeans(3).fit(np.ma.masked_less(x[0], 0)), "a masked array"),
        (lambda x: SecFCKMeans(3).fit(np.zeros((9, 2), "M8[s]")), "which are times"),
        (lambda x: SecFCKMeans(3).fit([[[Decimal("0.1")]] * 9] * 3), "Decimal, which floats would round"),
        (lambda x: SecFCKMeans(3).fit(x).predict(x[:2]), "2 tables for the 4 clients"),
        (lambda x: SecFCKMeans(3).fit(x).predict({"nobody": x[0]}), "'nobody' took no part"),
    ],
)
def test_errors_say_value_rule_and_remedy(call, text, sites):
    with pytest.raises(ValueError, match=text):
        call(sites)


def test_without_scikit_learn_the_import_says_what_to_install():
    code = "import sys; sys.modules['sklearn'] = None; import secfc; import secfc.estimators"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert install_command("[estimators]") in done.stderr
    code = "import sys, secfc; secfc.fit; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_private_centers_need_no_points_of_the_server_within_a_public_radius():
    rng = np.random.default_rng(0)
    rows = np.concatenate([rng.normal(at, 0.2, (300, 2)) for at in (-2, 2)])
    with pytest.raises(secfc.InputError, match="do without: radius="):
        DPKMeans(2, epsilon=20.0).fit(rows)
    made = DPKMeans(2, epsilon=20.0, radius=4.0).fit(rows)
    assert made.result_.details.server.released[0].what.startswith("votes")
    assert np.abs(np.sort(made.cluster_centers_, axis=0) - [[-2, -2], [2, 2]]).max() < 0.3
    # A share of rows is asked for beside a radius, and stands for the server's points.
    shared = DPKMeans(2, epsilon=20.0, radius=4.0, server_share=0.5).fit(rows)
    assert "weights of the server's points" in [one.what for one in shared.result_.details.server.released]
