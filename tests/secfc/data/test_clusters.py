"""What clusters are: the figures of pandas, on screens and in reports; and what is noted of them."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score

import secfc
from secfc.algorithm import join_outcomes
from secfc.data.clusters import profile_clusters
from secfc.errors import Caution, InputError
from secfc.kmeans.loop import measure_stability
from secfc.report.clusters import Stability
from secfc.roles.exchange import SERVER
from tests.nightly import by_night
from tests.small import invoke


def frame(m: int = 90, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, m)
    made = pd.DataFrame({"age": rng.normal(40 + 15 * kind, 4), "crp": rng.lognormal(kind / 2, 0.3)})
    made["sex"] = rng.choice(["f", "m"], m)
    made.loc[::11, "crp"] = np.nan
    return made


def test_the_figures_are_those_of_pandas() -> None:
    data, labels = frame(), np.random.default_rng(1).integers(-1, 3, 90)
    points = np.column_stack([data["age"], data["crp"], data["sex"] == "f"]).astype(float)
    found = profile_clusters(points, labels, 4, ["age", "crp", "sex=f"])
    table = pd.DataFrame(points).assign(label=labels)[labels >= 0].groupby("label")
    assert found.sizes.tolist() == [*table.size(), 0]
    for mine, theirs in (
        (found.means, table.mean()), (found.deviations, table.std(ddof=0)), (found.medians, table.median())
    ):  # fmt: skip
        np.testing.assert_allclose(mine[:3], theirs)
        assert np.isnan(mine[3]).all()
    whole = pd.DataFrame(points[labels >= 0]).describe()
    np.testing.assert_allclose(found.mean, whole.loc["mean"])
    apart = (table.mean() - whole.loc["mean"]) / pd.DataFrame(points[labels >= 0]).std(ddof=0)
    np.testing.assert_allclose(found.differences[:3], apart)
    assert found.is_share(2)
    with pytest.raises(InputError, match="one label below k"):
        profile_clusters(points, labels, 2)


def test_silhouettes_are_those_of_their_definition() -> None:
    rng = np.random.default_rng(0)
    points, labels = rng.normal(size=(40, 3)) * [1, 10, 0], rng.integers(0, 3, 40)
    found = profile_clusters(points, labels, 3)
    scaled = points[:, :2] / points[:, :2].std(axis=0)
    centers = np.array([scaled[labels == h].mean(axis=0) for h in range(3)])
    for h in range(3):
        apart = np.linalg.norm(scaled[labels == h][:, None] - centers, axis=2)
        other = np.delete(apart, h, axis=1).min(axis=1)
        want = (other - apart[:, h]) / np.maximum(other, apart[:, h])
        assert found.silhouettes[h] == pytest.approx(want.mean())


def test_a_result_tells_of_all_rows_and_of_one_client() -> None:
    """Also where no party learned a center; the cost is that of the loop."""
    points = frame()[["age"]].to_numpy().round(3)
    sites = dict(zip("abc", np.array_split(points, 3), strict=True))
    result = secfc.fit(secfc.SecFC(3), sites)
    assert result.centers is None
    whole = result.profile(sites)
    plain = secfc.fit(secfc.Lloyd(3), sites)
    np.testing.assert_allclose(whole.means, plain.centers, rtol=1e-6)  # those are of rounded points
    assert whole.cost == pytest.approx(plain.cost, rel=1e-5)
    # A simulation has all rows, and says so; a copy of its result has none.
    assert result.profile().as_object() == whole.as_object()
    assert "of the simulation: .profile()" in result._repr_html_()
    with pytest.raises(InputError, match="pass the data of the fit"):
        copy.copy(result).cautions()
    own = result.profile(sites, "b")
    assert own.sizes.tolist() == np.bincount(result.labels[1], minlength=3).tolist()
    for wrong in ({**sites, "a": points[:3]}, 3):
        with pytest.raises(InputError):
            result.profile(wrong)
    with pytest.raises(InputError, match="took no part"):
        result.profile(sites, "d")


def test_clients_of_different_columns_have_gaps_in_a_profile() -> None:
    sites = [frame()[list(names)].iloc[j::3] for j, names in enumerate((("age", "sex"), ("age",), ("sex",)))]
    sites = [site.assign(**({"sex": (site["sex"] == "f") * 1.0} if "sex" in site else {})) for site in sites]
    found = secfc.fit(secfc.FederatedLloyd(2), sites)
    assert found.profile().names == ("age", "sex")
    assert found.profile().mean[0] == pytest.approx(pd.concat([sites[0]["age"], sites[1]["age"]]).mean())


@pytest.mark.parametrize(
    ("policy", "known"), [("assignments", 1), *by_night(("distances", 1)), ("own-labels", 0)]
)
def test_stability_is_of_labels_that_whoever_computes_it_sees(
    policy: str, known: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server, and clients that hear labels from one another, as in plaintext; of hidden labels nobody."""
    heard: list[dict[str, Any]] = []
    monkeypatch.setattr(
        "secfc.coded_kmeans.secfc.join_outcomes",
        lambda outcomes, *args, **more: heard.append(outcomes) or join_outcomes(outcomes, *args, **more),
    )
    points = np.random.default_rng(0).normal(size=(48, 2))
    sites = dict(zip("abc", np.array_split(points, 3), strict=True))
    way: dict[str, Any] = {"k": 4, "init": secfc.RandomLabels()}
    right = secfc.fit(secfc.Lloyd(n_init=3, **way), sites, seed=1).stability
    assert 0 < right < 1
    found = secfc.fit(secfc.SecFC(n_init=3, disclosure=policy, **way), sites, seed=1)
    assert found.stability == (right if known else None)
    clients = {own.stability for name, own in heard[0].items() if name != SERVER}
    assert clients == {found.stability if policy == "assignments" else None}
    assert secfc.fit(secfc.Lloyd(**way), sites, seed=1).stability is None


def test_stability_is_scikit_learns_mean_and_1_where_all_starts_agree() -> None:
    rng = np.random.default_rng(0)
    ends = list(rng.integers(0, 3, (4, 50)))
    want = np.mean([adjusted_rand_score(ends[2], ends[i]) for i in (0, 1, 3)])
    assert measure_stability(ends, 2) == pytest.approx(want)
    assert measure_stability([ends[0], (ends[0] + 1) % 3], 0) == 1
    assert measure_stability([*ends, None], 2) is None
    far = np.repeat([0.0, 50.0], 10)[:, None] + rng.normal(size=(20, 1))
    assert secfc.fit(secfc.Lloyd(2, init=secfc.KMeansPlusPlus(), n_init=4), {"a": far}).stability == 1


def test_reports_say_how_stable_clusters_are_or_why_nobody_does() -> None:
    single = Stability.of(None, {"n_init": 1, "disclosure": "assignments"})
    assert single is not None
    assert "--n-init 10" in single.words
    for policy, why in (("own-labels", "nobody sees"), ("noise", "noise alone")):
        hidden = Stability.of(None, {"n_init": 10, "disclosure": policy})
        assert hidden is not None
        assert why in hidden.words
        assert "--n-init" not in hidden.words
    assert Stability.of(None, {}) is None
    # Of FederatedLloyd's starts nobody keeps the others' labels: "a single start" would be false.
    assert "cheapest start alone" in Stability.of(None, {"n_init": 3}).words


def written(folder: Path) -> list[str]:
    for name, part in zip("abc", np.array_split(np.arange(90), 3), strict=True):
        frame().iloc[part].to_csv(folder / f"{name}.csv", index_label="patient")
    return [str(folder / f"{name}.csv") for name in "abc"]


def ran(folder: Path, paths: list[str], *more: str) -> dict[str, Any]:
    words = ["run", *paths, "-k", "3", "--init", "random", "--id-column", "patient", "--categorical", "sex",
             "--standardize", "--missing", "mean", "--labels", str(folder / "l.csv"), "--force"]  # fmt: skip
    reports = [part for kind in ("json", "html") for part in ("--report", str(folder / f"r.{kind}"))]
    done = invoke(*words, *reports, *more)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads((folder / "r.json").read_text())
    return found


def test_files_of_labels_are_described_after_runs_and_predictions(tmp_path: Path) -> None:
    paths = written(tmp_path)
    starts = ("--init", "random", "--n-init", "2")
    model = ("--model", str(tmp_path / "m.npz"), "--site-labels", str(tmp_path / "own"))
    report = ran(tmp_path, paths, *model, *starts)
    words = report["stability"]["words"]
    assert f"{report['stability']['mean_adjusted_rand']:.2f}" in words
    assert words not in (tmp_path / "r.html").read_text()  # it is for strangers
    ran(tmp_path, paths, *starts, "--readers", "holders")
    assert words in (tmp_path / "r.html").read_text()
    more = ("--id-column", "patient", "--categorical", "sex")
    told = json.loads(invoke("describe", tmp_path / "l.csv", *paths, *more, "--json").stdout)
    assert told == report["profile"]
    data = pd.concat([pd.read_csv(path) for path in paths], ignore_index=True)
    data["label"] = pd.read_csv(tmp_path / "l.csv")["label"]
    means = data.groupby("label")[["age", "crp"]].mean().to_numpy()
    np.testing.assert_allclose([cluster["mean"][:2] for cluster in told["clusters"]], means)

    own = json.loads(invoke("describe", tmp_path / "own/a.csv", paths[0], *more, "--json").stdout)
    assert sum(own["sizes"]) == 30
    out = ("--id-column", "patient", "--missing", "mean", "--out", str(tmp_path / "p.csv"))
    if invoke("predict", tmp_path / "m.npz", *paths, *out).exit_code == 0:
        again = json.loads(invoke("describe", tmp_path / "p.csv", *paths, *more, "--json").stdout)
        assert again["sizes"] == told["sizes"]


def test_the_screen_fits_80_columns(tmp_path: Path) -> None:
    paths = written(tmp_path)
    ran(tmp_path, paths)
    words = ("describe", tmp_path / "l.csv", *paths, "--id-column", "patient", "--categorical", "sex")
    shown = invoke(*words, env={"COLUMNS": "80"}).output
    assert max(map(len, shown.splitlines())) <= 80
    assert "sex=f" in shown
    assert "%" in shown
    assert "silhouette" in shown


def test_files_that_are_no_labels_or_of_other_rows_are_refused(tmp_path: Path) -> None:
    paths = written(tmp_path)
    labels, more = tmp_path / "l.csv", ("--id-column", "patient", "--categorical", "sex")
    for text, why in (
        ("a,b\n1,2\n", "is no file of labels"), ("row,label\n1,x\n", "is no file of labels"),
        ("client,row,label\na,30,1\n", "has a row 30 of client 'a', whose file has 30"),
        ("client,row,label\nz,3,1\n", "labels none of the rows"), ("row,label\n-1,1\n", "has a row"),
    ):  # fmt: skip
        labels.write_text(text)
        done = invoke("describe", labels, *(paths[:1] if text.startswith("row") else paths), *more)
        assert done.exit_code == 2
        assert why in done.stderr


def test_only_holders_read_what_the_clusters_are(tmp_path: Path) -> None:
    """Means of clusters are centers: no page for strangers has them, and no report under noise."""
    paths = written(tmp_path)
    ran(tmp_path, paths)
    title = "<h2>What the clusters are"
    assert title not in (tmp_path / "r.html").read_text()
    ran(tmp_path, paths, "--readers", "holders")
    page = (tmp_path / "r.html").read_text()
    assert title in page
    assert 'class="tiles"' in page
    assert page.index(title) < page.index("<h2>Result</h2>")


def cautions(points: list[np.ndarray[Any, Any]], labels: list[list[int]], **more: Any) -> str:
    from secfc.data.clusters import cluster_cautions

    names = [f"s{j}" for j in range(len(points))]
    flat = [np.array(own) for own in labels]
    asked = {"k": 2, "converged": True, "names": ["x"], **more}
    each = dict(zip(names, points, strict=True)), dict(zip(names, flat, strict=True))
    found = cluster_cautions(*each, **asked)
    assert all(isinstance(one, Caution) for one in found)
    return " ".join(map(str, found))


def test_what_is_noted_of_clusters_and_what_is_not() -> None:
    values = np.arange(24.0)[:, None]
    both = [values, values + 0.5]
    mixed = [[i % 2 for i in range(24)]] * 2
    assert cautions(both, mixed) == ""
    assert "of k=3 clusters 2 have points. Ask for as many (k=2)" in cautions(both, mixed, k=3)
    assert "stopped at its last iteration" in cautions(both, mixed, converged=False)
    apart = cautions(both, [[0] * 24, [1] * 24])
    assert "cluster 0 lies within one site, 's0'" in apart
    assert "cluster 1 lies within one site, 's1'" in apart
    coded = [np.where(np.arange(24)[:, None] % 6 == 0, 999.0, part) for part in both]
    filled = [[int(i % 6 == 0) for i in range(24)]] * 2
    assert "cluster 1 is all rows of one value of column 'x'" in cautions(coded, filled)
    assert "999" not in cautions(coded, filled)
    two = [part > 12 for part in both]
    assert (
        cautions([part.astype(float) for part in two], [own[:, 0].astype(int).tolist() for own in two]) == ""
    )


def test_a_result_has_its_cautions_and_the_shell_notes_them(tmp_path: Path) -> None:
    sites = {name: np.arange(12.0)[:, None] + 100 * j for j, name in enumerate("abc")}
    result = secfc.fit(secfc.SecFC(3, max_iter=1, init="random"), sites)
    assert any("last iteration" in str(one) for one in result.cautions(sites))
    for name, points in sites.items():
        pd.DataFrame(points, columns=["x"]).to_csv(tmp_path / f"{name}.csv", index=False)
    done = invoke("run", *(tmp_path / f"{name}.csv" for name in sites), "-k", "3", "--force",
                  "--labels", tmp_path / "l.csv", "--report", tmp_path / "r.json")  # fmt: skip
    assert "lies within one site" in " ".join(done.output.split())
    assert "within one site" in " ".join(json.loads((tmp_path / "r.json").read_text())["notes"])


def test_a_picture_for_holders_is_of_points_without_gaps(tmp_path: Path) -> None:
    """It was refused where missing values were taken for the mean."""
    assert ran(tmp_path, written(tmp_path), "--readers", "holders")["profile"] is not None
    assert "<svg" in (tmp_path / "r.html").read_text()
