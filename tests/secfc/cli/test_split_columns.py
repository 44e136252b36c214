"""`secfc run a.csv b.csv --split columns`: files with other columns of the same people; and deployments."""

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import click
import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.cli.deploy.init import divide_features
from secfc.cli.deploy.readiness import check_bound
from secfc.cli.deploy.results import kept_of, load_model_part
from secfc.cli.deploy.run_file import build_run, leakage_sentences
from secfc.cli.deploy.site import LoadedSite
from secfc.data.model_file import ModelFile
from secfc.deploy import session
from secfc.deploy.keys import create_key_file
from secfc.deploy.runfile import RunFile
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.nightly import by_night
from tests.small import invoke

NOISY = ("--helper", "--disclosure", "noisy-sums", "--epsilon", 1, "--radius", 900)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two files of two columns each, of 40 people of 50."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    centers = rng.uniform(-5, 5, (3, 4))
    points = (centers[rng.integers(0, 3, 50)] + rng.normal(size=(50, 4))) * [1, 20, 1, 300]
    for name, columns, header in (("a", [0, 1], "age,bmi"), ("b", [2, 3], "score,income")):
        lines = [
            f"p{i:02d},{points[i, columns[0]]:.3f},{points[i, columns[1]]:.3f}"
            for i in rng.permutation(50)[:40]
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join([f"patient,{header}", *lines, ""]))
    return ["a.csv", "b.csv"]


SPLIT = ["--split", "columns", "--id-column", "patient", "-k", 3]


def test_two_owners_and_a_helper_get_labels_of_lloyd_on_the_joined_table(files):
    done = invoke("run", *files, *SPLIT, "--helper", "--standardize", "--json", "--labels", "out.csv")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["parameters"]["membership"] == "joined"
    assert found["parameters"]["disclosure"] == "own-labels"
    assert found["verified"] is True
    lines = [line.split(",") for line in Path("out.csv").read_text().split()[1:]]
    labels = {who: {name: label for client, _, name, label in lines if client == who} for who in "ab"}
    assert {client for client, *_ in lines} == {"a", "b"}
    both = labels["a"].keys() & labels["b"].keys()
    assert all(labels["a"][name] == labels["b"][name] for name in both)
    assert {name for own in labels.values() for name, label in own.items() if label != "-1"} == both


def test_people_whom_any_owner_has_have_labels_where_they_are_asked_for(files):
    more = ["--keep", "union", "--standardize", "--disclosure", "assignments"]
    done = invoke("run", *files, *SPLIT, "--helper", *more, "--json", "--labels", "out.csv")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["verified"] is True
    lines = [line.split(",") for line in Path("out.csv").read_text().split()[1:]]
    assert len(lines) == 80
    assert {label for *_, label in lines} == {"0", "1", "2"}, "nobody is left out"
    refused = invoke("run", *files, *SPLIT, "--helper", "--keep", "union", "--disclosure", "assignments")
    assert "Use --keep intersection or --standardize." in refused.stderr


NEW = {
    "a.csv": "bmi,age,patient\n21,1.5,q1\n-40,-2,q2\n3,0,q3\n",
    "b.csv": "patient,income,score\nq3,900,-3\nq1,-200,2\nq9,0,0\n",
}


def new_people(tmp_path, helper="helper"):
    """Two people whom both owners have, and one of each alone."""
    (tmp_path / "new").mkdir()
    for name, text in NEW.items():
        (tmp_path / "new" / name).write_text(text)
    owners = [((1.5, 21.0), (-2.0, -40.0), (0.0, 3.0)), ((-3.0, 900.0), (2.0, -200.0), (0.0, 0.0))]
    found = secfc.Federation.from_arrays(
        list(map(np.array, owners)), names=["a", "b"], ids=[("q1", "q2", "q3"), ("q3", "q1", "q9")],
        features=[("age", "bmi"), ("score", "income")],
    )  # fmt: skip
    return secfc.Federation((*found.parties, secfc.Party.without_data(helper)))


def fitted_people(files, helper="helper"):
    """The people of the files."""
    found = secfc.Federation.from_files(files, id_column="patient", union=True)
    return secfc.Federation((*found.parties, secfc.Party.without_data(helper)))


@pytest.mark.parametrize("scaled", [True, False])
def test_a_model_labels_new_people_of_whom_all_owners_have_columns(files, tmp_path, scaled):
    more = ["--standardize"] if scaled else ["--bound", 4096]
    done = invoke("run", *files, *SPLIT, "--helper", *more, "--model", "m.npz")
    assert done.exit_code == 0, done.output
    new, out = new_people(tmp_path), ["--id-column", "patient", "--out", "p.csv"]
    done = invoke("predict", "m.npz", "new/b.csv", "new/a.csv", *out)
    assert done.exit_code == 0, done.output
    assert (
        "2 people are not at all owners of columns, and have label -1; each owner learned which of its own"
        in (" ".join(done.output.split()))
    )
    lines = [line.split(",") for line in Path("p.csv").read_text().split()[1:]]
    told = {who: {name: int(label) for client, _, name, label in lines if client == who} for who in "ab"}
    # As in Python, which `test_joined` holds to Lloyd's centers on the joined table.
    held = fitted_people(files)
    way = secfc.SecFC(k=3, threshold=1, membership="joined")
    scale, bound = ("standard", None) if scaled else (None, 4096.0)
    result = secfc.fit(way, held, seed=0, scale_features=scale, bound=bound)
    same = dict(zip("ab", result.predict(new), strict=False))
    assert told["a"] == dict(zip(("q1", "q2", "q3"), same["a"].tolist(), strict=True))
    assert told["b"] == dict(zip(("q3", "q1", "q9"), same["b"].tolist(), strict=True))
    assert [told["a"]["q2"], told["b"]["q9"]] == [-1, -1]
    assert ModelFile.read(Path("m.npz")).facts["model"]["left"]["a"] == result.plan.predictions - 2
    done = invoke("predict", "m.npz", "new/a.csv", *out, "--force")
    assert done.exit_code == 2
    assert "no file has a column 'score'" in done.output


def test_the_report_says_who_has_which_columns_and_that_labels_tell_of_them(files):
    done = invoke("run", *files, *SPLIT, "--helper", "--verbose")
    assert done.exit_code == 0, done.output
    said = " ".join(done.stdout.split())
    assert (
        "each at one client: a 'age', 'bmi'; b 'score', 'income'; helper none. Any 2 clients together" in said
    )
    assert "labels tell an owner of the columns of others" in said
    assert "which IDs all owners of columns hold" in said


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ([], "2 parties hold columns, t=1 needs 3 that compute: add --helper"),
        (["--membership", "private"], "--split columns and --membership"),
        (["--epsilon", "1"], "--split columns and --epsilon: add --disclosure noisy-sums"),
        (
            ["--features", "common"],
            "--split columns and --features common: here all files have other columns",
        ),
        (["--to-range", "--helper"], "--split columns and --to-range: take --standardize"),
        (
            [*NOISY, "--ranges", "x=0:1"],
            "--split columns and --ranges: bring columns to public ranges at home",
        ),
        ([*NOISY, "--standardize"], "Leave --standardize out, or bring columns to public ranges at home"),
        (["--algorithm", "lloyd"], "columns of the same people are joined by secfc alone"),
        (["--on-conflict", "mean", "--helper"], "with --split columns all do: leave it out"),
        (["--reveal-centers", "--helper"], "each computes its part from the labels of its rows"),
    ],
)
def test_what_does_not_go_with_columns_is_refused(files, more, message):
    done = invoke("run", *files, *SPLIT, *more)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


def test_columns_need_people_that_are_named_and_stand_in_one_file_each(files):
    done = invoke("run", *files, "--split", "columns", "-k", 3, "--helper")
    assert "no --id-column: say which column names the people" in " ".join(done.output.split())
    done = invoke("run", *files, "-k", 3, "--helper")
    assert "--helper computes for owners of columns: add --split columns" in " ".join(done.output.split())
    Path("b.csv").write_text(Path("b.csv").read_text().replace("score", "age", 1))
    done = invoke("run", *files, *SPLIT, "--helper")
    assert done.exit_code == 2
    assert "a and b both have column 'age', and not all others: each column is at one client" in " ".join(
        done.output.split()
    )


def test_a_plan_tells_what_a_run_of_columns_will_send_and_show():
    words = ["-m", 120, "-d", 5, "-k", 2, "--steps", 2, "--split", "columns"]
    done = invoke("plan", "-n", 2, *words, "--helper", "--standardize", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["plan"]["n"], found["plan"]["m"], found["plan"]["policy"]) == (3, 120, "OwnLabels")
    assert any("of the columns of others what labels tell" in said for said in found["clients_learn"])
    kinds = {line["kind"]: line for line in found["traffic"]}
    assert kinds["RowShares"]["messages"] == 4  # two owners deal to two others each
    assert "KeptRows" in kinds
    done = invoke("plan", "-n", 2, *words)
    assert done.exit_code == 2
    assert "2 parties hold columns, t=1 needs 3 that compute: add --helper" in done.output
    assert "n=3 (not 2)" in done.output
    for more, message in (
        (["-d", 2], "d=2 columns of n=3 clients: each needs one"),
        (["--membership", "open"], "--membership"),
    ):
        done = invoke("plan", "-n", 3, *words, *more)
        assert done.exit_code == 2
        assert message in " ".join(done.output.split())


# --- deployments


@pytest.fixture
def run_file(tmp_path, files):
    """A run file of two owners and a helper, as `secfc deploy init` writes it."""
    pytest.importorskip("tomli_w")
    keys = {name: create_key_file(tmp_path / f"{name}.key").public for name in ("a", "b", "h", "server")}
    named = [word for name in "abh" for word in ("--client", f"{name}={keys[name].hex()}")]
    words = ["--server", keys["server"].hex(), "--hub", "ws://hub", "-k", 3, "--prepare", "standardize"]
    words += ["--features", "a:age,bmi", "--features", "b:score,income"]
    with warnings.catch_warnings(action="error"):  # notes say them
        done = invoke("deploy", "init", "run.toml", *named, *words)
    assert done.exit_code == 0, done.output
    return RunFile.read(tmp_path / "run.toml")


def test_a_run_file_says_who_owns_which_columns(run_file):
    assert run_file.split == "columns"
    assert run_file.columns == {"a": ("age", "bmi"), "b": ("score", "income"), "h": ()}
    assert replace(run_file, split="people").digest != run_file.digest
    built = build_run(run_file)
    assert built.algorithm.membership.scale is not None
    assert built.algorithm.disclosure == secfc.OwnLabels()
    assert (built.stakes.clients, built.stakes.policy, built.stakes.guesses) == (2, "own-labels", math.inf)
    assert built.public.observed == ((0, 1), (2, 3), ())
    assert any("of the columns of others, what labels tell" in said for said in leakage_sentences(built))
    with pytest.raises(
        secfc.InputError, match=r"h has no line in \[columns\]: write its own, or \[\] for none"
    ):
        replace(run_file, columns={"a": ("age", "bmi"), "b": ("score", "income")})
    with pytest.raises(secfc.InputError, match="split = 'rows': write people or columns"):
        replace(run_file, split="rows")
    with pytest.raises(secfc.InputError, match="columns of the same people are joined by secfc alone"):
        build_run(replace(run_file, algorithm="federated-lloyd"))


def test_features_are_all_of_a_client_or_none():
    assert divide_features(["age", "bmi"], ["a", "b"]) == (("age", "bmi"), {})
    assert divide_features(["a:age", "b:age"], ["a", "b"]) == (("age",), {"a": ("age",), "b": ("age",)})
    with pytest.raises(click.UsageError, match="--features age: of which client is it"):
        divide_features(["age", "b:bmi"], ["a", "b"])


def test_a_site_without_columns_has_no_data_and_others_need_ids(run_file, tmp_path):
    built = build_run(run_file)

    def party(name, data):
        (tmp_path / "site.toml").write_text(
            f'[site]\nparty = "{name}"\nrun = "run.toml"\nkey = "{name}.key"\n{data}'
        )
        site = LoadedSite.read(tmp_path / "site.toml")
        return site, site.party(built)[0]

    site, helper = party("h", "")
    assert helper.features == ()
    assert not check_bound(site, built, helper, None)
    assert check_bound(site, build_run(replace(run_file, preparing={}, options={"bound": 9.0})), helper, None)
    site, own = party("a", '[data]\npath = "a.csv"\nid_column = "patient"\n')
    assert not check_bound(site, built, own, None)  # values are far beyond 10 deviations, each owner scales
    assert own.points.shape == (40, 2)
    done = invoke("deploy", "init", "--site", "h.toml", "--party", "h")
    assert done.exit_code == 0, done.output
    assert "[data]" not in Path("h.toml").read_text()
    done = invoke("deploy", "init", "--site", "h.toml", "--party", "h", "--data", "a.csv", "--force")
    assert "h only computes, and has no --data" in done.output
    for name, data, message in (
        ("h", '[data]\npath = "a.csv"\n', "h has no column by the run file, and only computes"),
        ("a", "", r"a has no rows: add \[data\]"),
        ("a", '[data]\npath = "a.csv"\n', r"joined by IDs: add id_column to \[data\]"),
    ):
        with pytest.raises(secfc.InputError, match=message):
            party(name, data)


@pytest.mark.filterwarnings("ignore:rounding loses much")
@pytest.mark.parametrize("more", [{}, *by_night({"disclosure": "assignments"}, {"dealer": "none"})])
@pytest.mark.parametrize("scaled", [True, False])
def test_sites_label_new_people_together_by_what_each_kept_of_the_run(
    run_file, files, tmp_path, more, scaled
):
    bound = {} if scaled else {"bound": 4096.0}
    run = replace(run_file, seed=3, options=more | bound, preparing=run_file.preparing if scaled else {})
    built, held, new = build_run(run), fitted_people(files, "h"), new_people(tmp_path, "h")
    work = session.AgreedWork(
        built.algorithm, built.public, built.derived, run.parties, run.identities, run.description
    )
    roles = {p.name: session.client_role(work, p, SeededCoins(1, p.name)) for p in held.parties}
    start = np.random.default_rng(built.public.seed)
    roles[SERVER] = session.server_role(work, SeededCoins(1, SERVER), start)
    outcomes, sharing = simulate(roles).results, {}
    rows = dict(zip(new.names, new.parties, strict=True))
    spent = []
    for name in run.parties:
        site = SimpleNamespace(run=run, file=SimpleNamespace(party=name))
        kept = kept_of(
            site, built, outcomes[name], dict(zip(held.names, held.parties, strict=True)).get(name)
        )
        kept.write(tmp_path / f"{name}.npz")
        kept = ModelFile.read(tmp_path / f"{name}.npz")
        assert (kept.facts["owner's scale"] is not None) == (scaled and name in "ab")
        part = load_model_part(kept, built)

        def labeling(counts, one, name=name, part=part):
            plan, coins = part.plan_for(counts, one), SeededCoins(2, name)
            if name == SERVER:
                return part.server(built.algorithm, plan, coins)
            return part.client(built.algorithm, plan, rows[name], coins, None)

        mine = session.NewRows(len(rows[name].points) if name in rows else 0, 0)
        spend = lambda number, counts, part=part: spent.append((number, part.most_labeled(counts)))  # noqa: E731
        sharing[name] = session.predict_together(run.session, run.clients, name, mine, spend, labeling)
    done = simulate(sharing, keep_bodies=True)
    result = secfc.fit(
        secfc.SecFC(3, 1, membership="joined", disclosure=built.algorithm.disclosure), held, seed=3,
        scale_features="standard" if scaled else None, bound=None if scaled else 4096.0,
        coins=lambda name: SeededCoins(1, name),  # starts draw of rows in the order of pseudonyms
    )  # fmt: skip
    for name, labels in zip(new.names, result.predict(new), strict=True):
        assert done.results[name].tolist() == labels.tolist()
    assert {label for name in "ab" for label in done.results[name].tolist()} >= {-1}
    assert set(spent) == {(1, 3)}  # of three people at either owner at most three are labeled
    # Which of its people all have, a client is told; of the others nothing but pseudonyms.
    told = [e.body for e in done.transcript.envelopes if e.kind == "KeptRows" and e.recipient == "a"]
    assert [(int(one.kept.sum()), len(one.kept)) for one in told] == [(2, 4)]


@pytest.mark.nightly
def test_processes_of_all_parties_label_people_as_one_process_does(files):
    pytest.importorskip("websockets")
    words = ("--helper", "--standardize", "--processes", "--json", "--labels", "out.csv")
    done = invoke("run", *files, *SPLIT, *words)
    assert done.exit_code == 0, done.output
    lines = [line.split(",") for line in Path("out.csv").read_text().split()[1:]]
    labels = {who: {name: label for client, _, name, label in lines if client == who} for who in "ab"}
    both = labels["a"].keys() & labels["b"].keys()
    assert all(labels["a"][name] == labels["b"][name] != "-1" for name in both)
    assert {name for own in labels.values() for name, label in own.items() if label != "-1"} == both
