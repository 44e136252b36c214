"""The run file: one value that all sites hold, read back as written, each difference named, each mistake."""

import json
import math
import re
import sqlite3
import tomllib
from dataclasses import fields, replace
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import secfc
from secfc.algorithm import PartyOutcome
from secfc.cli.deploy import results
from secfc.cli.deploy.init import write_text_file
from secfc.cli.deploy.readiness import facts_to_judge
from secfc.cli.deploy.results import Results, publishable_report
from secfc.cli.deploy.run_file import (
    build_run,
    carried_rows,
    carried_sentences,
    leakage_sentences,
    serving_sentences,
    spare_sentence,
    spared_clients,
)
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import RefusedInput
from secfc.cli.shell.program import main
from secfc.coded_kmeans.run_summary import row_identity
from secfc.data.dialects import Dialect
from secfc.data.linkage import Linkage, LinkageField
from secfc.deploy.floors import BelowFloor, Floors, Stakes
from secfc.deploy.keys import create_key_file, identity_fingerprint, load_key_file
from secfc.deploy.runfile import RunFile, identity_problems, new_session
from secfc.deploy.session import GROUPS_TOLD
from secfc.deploy.site import SiteFile
from secfc.deploy.toml_tables import TomlTable
from secfc.errors import InputError
from secfc.report.json import as_json
from secfc.report.people import DEPLOYED, as_text
from secfc.roles.description import describe_differences

IDENTITIES = {name: bytes([i]) * 32 for i, name in enumerate(("b", "a", "c", "server"), 1)}


def runfile(algorithm="secfc", options=None, preparing=None, **more):
    return RunFile(
        "a run", bytes(32), "ws://hub", more.pop("identities", IDENTITIES), ("age", "weight"), algorithm,
        "auto" if algorithm == "dbscan" else 4, options or {}, preparing or {}, **more,
    )  # fmt: skip


def read(text):
    return RunFile.of(TomlTable(tomllib.loads(text), "run file"))


ASKED = [
    ("secfc", {}, {}), ("secfc", {"disclosure": "own-labels", "sizes": "hidden", "t": 1}, {}),
    ("secfc", {"membership": "private", "merge": False}, {"standardize": True, "limit": 8.0}),
    ("secfc", {"linkage": "single", "cut": 2}, {}),
    ("secfc", {"epsilon": 5.0, "radius": 3.0}, {}), ("k-fed", {"k_local": 2}, {}),
    ("dbscan", {"eps": 2.0, "dealer": "none", "t": 1}, {}), ("dbscan", {"eps": 0.5}, {"standardize": True}),
    ("federated-lloyd", {}, {}), ("federated-lloyd", {"floor": 10, "n_init": 2}, {}),
    ("lloyd", {"bound": 20.0}, {}), ("overlap-1", {}, {}), ("overlap-2", {}, {}),
    ("lloyd", {}, {"standardize": "robust"}), ("secfc", {}, {"standardize": "norm"}),
    ("profile", {"bound": 99.0, "reveal_centers": True}, {}),
    ("secfc", {}, {"ranges": "age=0:120,weight=0:300"}), ("secfc", {}, {"categorical": "weight=low<high"}),
]  # fmt: skip
FIVE = {name: bytes([i]) * 32 for i, name in enumerate(("a", "b", "c", "d", "e", "server"), 1)}


@pytest.mark.parametrize(("algorithm", "options", "preparing"), ASKED)
def test_what_is_written_reads_back_and_builds_what_the_shell_builds(algorithm, options, preparing):
    run = runfile(algorithm, options, preparing)
    back = read(run.toml())
    assert back.description == run.description
    assert back.digest == run.digest
    assert back.clients == ("b", "a", "c")  # in the order of the file
    made = build_run(back)
    assert made.algorithm == build_run(run).algorithm
    assert made.public.session == run.session


def test_text_by_the_categories_of_the_run_file_comes_from_a_query_and_what_lies_outside_is_left_out(
    tmp_path,
):
    prepare = {"categorical": "sex=f|m,stage=I<II<III", "missing": "drop", "outside": "missing"}
    run = replace(runfile("secfc", {"bound": 200.0}, prepare), features=("age", "stage", "sex"))
    (tmp_path / "site.toml").write_text(
        SITE.replace('path = "a.csv"\nid_column = "patient"', 'path = "a.sql"')
    )
    with sqlite3.connect(tmp_path / "h.db") as made:
        made.execute("create table v (sex text, age real, stage text, no integer)")
        made.executemany(
            "insert into v values (?, ?, ?, 1)", [("m", 50, "III"), ("f", 999, "I"), ("f", 9, "I")]
        )
    (tmp_path / "a.sql").write_text("-- source: sqlite:h.db\nselect * from v")
    site, asked = LoadedSite(SiteFile.read(tmp_path / "site.toml"), run, None, tmp_path), build_run(run)
    assert asked.public.features == ("age", "sex=f", "sex=m", "stage=I<II<III")
    party, kept = site.party(asked)
    assert party.read().tolist() == [[50, 0, 1, 2], [9, 1, 0, 0]]
    assert kept.tolist() == [0, 2]
    (tmp_path / "a.sql").write_text("-- source: sqlite:h.db\nselect age, 'x' as sex, stage from v")
    with pytest.raises(InputError, match="none of the 2 categories that were listed"):
        site.party(asked)


def test_where_persons_are_protected_a_site_says_whose_rows_are(tmp_path):
    run = runfile("feddp", {"epsilon": 1.0, "radius": 9.0, "protect": "person:3"})
    (tmp_path / "rows.csv").write_text("who,age,weight\nx,1,2\nx,3,4\ny,5,6\n")
    create_key_file(tmp_path / "site.key")
    for named in (True, False):
        data = '[data]\npath = "rows.csv"\n' + 'id_column = "who"\n' * named
        (tmp_path / "site.toml").write_text(
            f'[site]\nparty = "a"\nrun = "run.toml"\nkey = "site.key"\n{data}'
        )
        site = LoadedSite(SiteFile.read(tmp_path / "site.toml"), run, None, tmp_path)
        if named:
            assert site.party(build_run(run))[0].persons.tolist() == [0, 0, 1]
            continue
        with pytest.raises(InputError, match=r"add id_column to \[data\]"):
            site.party(build_run(run))


def test_a_profile_of_all_sites_is_held_to_the_floors_that_open_centers_are():
    made = build_run(runfile("profile", {"bound": 99.0, "reveal_centers": True}))
    assert made.algorithm.smallest_center == 10
    with pytest.raises(InputError, match="reveal_centers"):
        build_run(runfile("profile", {"bound": 99.0})).draft(replace(made.public, counts=(9,) * 3))
    Floors(smallest_t=0).check(made.stakes)
    for floors in (Floors(open_centers=False, smallest_t=0), Floors(smallest_center=11, smallest_t=0)):
        with pytest.raises(BelowFloor, match="center"):
            floors.check(made.stakes)


def test_the_algorithm_is_that_of_the_words():
    made = build_run(runfile(options={"t": 1, "disclosure": "own-labels", "reveal_centers": True}))
    assert made.algorithm.disclosure == secfc.OwnLabels()
    assert made.algorithm.release.reveal_centers
    assert made.derived
    assert made.stakes == Stakes(
        "own-labels", 1, None, None, True, 3, True, IDENTITIES["server"], clients=3, largest_k=4, deviating=1
    )


@pytest.mark.parametrize(("change", "fact"), [
    ({"options": {"t": 1}}, "options.t"), ({"algorithm": "k-fed"}, "algorithm"),
    ({"preparing": {"standardize": True}}, "preparing.standardize"), ({"seed": 3}, "seed"),
    ({"served_by": "a"}, "served_by"),
    ({"identities": {**IDENTITIES, "a": bytes(32)}}, "identities.a"),
    ({"identities": {"a": IDENTITIES["a"], **IDENTITIES}}, "clients"),
    ({"schema": Linkage((LinkageField("number", width=10),))}, "schema"),
])  # fmt: skip
def test_each_difference_is_named(change, fact):
    one, other = runfile(), runfile(**change)
    assert one.digest != other.digest
    assert fact in str(describe_differences(one.description, other.description)[0])


def test_a_schema_is_part_of_the_run_file_and_another_is_told_by_its_field():
    private = {"membership": "private"}
    one, other = (
        runfile(
            options=private,
            schema=Linkage((LinkageField("number", width=size, missing=("NA",)), LinkageField("name"))),
        )
        for size in (10, 9)
    )
    assert read(one.toml()).description == one.description
    assert build_run(read(one.toml())).algorithm.membership.schema == one.schema
    found = list(map(str, describe_differences(one.description, other.description)))
    assert found == ["run.schema.fields.0.width is 10 here and 9 there"]
    with pytest.raises(InputError, match="there is no 'with'"):
        read(one.toml().replace("width", "with"))
    with pytest.raises(InputError, match="only --membership private"):
        build_run(replace(one, options={}))


@pytest.mark.parametrize(("options", "served_by", "harmless", "words"), [
    ({"t": 1}, "a", False, 'workers = ["b", "c", "d", "e"]'), ({"t": 1}, "a", False, 'dealer = "none"'),
    ({"t": 1, "workers": ("b", "c", "d")}, "a", True, "owns no client of the committee"),
    ({"t": 1, "disclosure": "own-labels"}, "a", False, "a serves, and may sit in the committee too"),
    ({"t": 1}, "an office", True, "an office serves"), ({"t": 1}, None, False, "one of a, b, c, d, e"),
    ({"t": 1, "membership": "private"}, "a", False, "a serves, and may sit in the committee too"),
])  # fmt: skip
def test_a_client_whose_organization_serves_is_told_of(options, served_by, harmless, words):
    run = read(runfile(options=options, identities=FIVE, served_by=served_by).toml())
    ((found, sentence),) = serving_sentences(run, build_run(run))
    assert found is harmless
    assert words in sentence
    assert "together learn every distance" in sentence


def test_remedies_for_one_who_serves_are_those_that_this_run_can_take():
    three = runfile(options={"t": 1}, served_by="a")  # two clients are too few to compute
    ((_, sentence),) = serving_sentences(three, build_run(three))
    assert "let another organization serve" in sentence
    assert "workers" not in sentence
    for options in ({"t": 1, "dealer": "none"}, {"t": 1, "disclosure": "distances"}):  # nobody deals
        run = runfile(options=options, served_by="a")
        assert not list(serving_sentences(run, build_run(run)))


def test_where_the_hub_is_and_clocks_are_no_terms():
    text = runfile().toml()
    assert read(text.replace("ws://hub", "ws://other").replace("600", "6")).digest == runfile().digest


TEXT = runfile().toml()


@pytest.mark.parametrize(("text", "why"), [
    (TEXT.replace("hub =", "hob ="), "hub is missing"),
    (TEXT.replace("[run]", "[run]\nextra = 1"), "'extra' is no key"),
    (TEXT.replace("ws://hub", "http://hub"), "no address of a hub"),
    (TEXT.replace('session = "00', 'session = "0'), "64 hexadecimal digits"),
    (TEXT.replace("server =", "sever ="), "no party is called server"),
    (TEXT.replace("02" * 32, "01" * 32), "the same identity"),
    (TEXT.replace("patience = 600.0", 'patience = "long"'), "a number is needed"),
    (TEXT.replace("patience = 600.0", "patience = 0"), "above 0"),
    (TEXT.replace("k = 4", "k = 4.5"), "a whole number or a string"),
    (TEXT + "\n[columns]\nz = ['age']\n", "who is no client"),
    (TEXT + "\n[columns]\na = ['height']\n", "none of features"),
])  # fmt: skip
def test_mistakes_in_the_file(text, why):
    assert text != TEXT
    with pytest.raises(InputError, match=why):
        read(text)


@pytest.mark.parametrize(("algorithm", "options", "preparing", "why"), [
    ("nope", {}, {}, "one of secfc"), ("secfc", {"bad": 1}, {}, "bad is no word here"),
    ("secfc", {"t": "x"}, {}, "'x' is no whole number"), ("secfc", {"verify": True}, {}, "each site's own"),
    ("secfc", {"reveal_centers": "yes"}, {}, "true or false"), ("feddp", {"epsilon": 1.0}, {}, "server_file"),
    ("feddp", {"epsilon": 1.0, "radius": 9.0, "labels_epsilon": "3:x"}, {}, "no epsilon"),
    ("secfc", {"disclosure": "centers"}, {}, "--algorithm federated-lloyd, where nothing is computed"),
    ("secfc", {"corrected": 1}, {}, "corrected = 1 with disclosure"),
    ("secfc", {}, {"limit": 3.0}, "--limit"),
    ("secfc", {"linkage": "median"}, {}, "linkage: 'median' is not one of 'ward', 'single'"),
    ("secfc", {"cut": 2}, {}, "where to cut a tree of clusters: add --linkage single"),
    ("secfc", {"linkage": "ward", "cut": 9}, {}, "--cut 9 of k=4 clusters: lower --cut, or raise -k"),
    ("secfc", {"linkage": "ward", "cut": 0}, {}, "cut"),
    ("secfc", {"linkage": "ward", "disclosure": "final-labels"}, {}, "opens to nobody"),
    ("k-fed", {"linkage": "ward"}, {}, "linkage is no word here"),
    ("secfc", {}, {"categorical": "weight"}, "lists no categories.*weight=north"),
    ("secfc", {}, {"categorical": "sex=f|m"}, "names 'sex', which is none of features"),
    ("feddp", {"epsilon": 1.0, "radius": 9.0, "protect": "person:2"}, {}, '(protect = "person:3")'),
])  # fmt: skip
def test_words_that_the_shell_refuses_as_well(algorithm, options, preparing, why):
    with pytest.raises(InputError, match=re.escape(why) if why.startswith("(") else why):
        build_run(runfile(algorithm, options, preparing))


def test_an_old_word_works_and_is_noted():
    options = {"disclosure": "distances", "bound": 9, "t": 1}
    several = {**{f"c{i}": bytes([i]) * 32 for i in range(5, 12)}, "server": IDENTITIES["server"]}
    new, old = (
        build_run(runfile(options={**options, name: 1}, identities=several))
        for name in ("corrected", "liars")
    )
    assert new.algorithm == old.algorithm
    assert old.notes == ("liars is called corrected now: write corrected", *new.notes)
    with pytest.raises(InputError, match="write corrected, and leave liars out"):
        build_run(runfile(options={**options, "corrected": 1, "liars": 1}))


def test_a_threshold_that_nobody_wrote_is_held_to_the_floor_of_a_site():
    for algorithm, options in (
        ("secfc", {"bound": 9}), ("federated-lloyd", {"bound": 9, "floor": 10}),
        ("feddp", {"radius": 9, "epsilon": 1}), ("profile", {"bound": 9, "reveal_centers": True}),
    ):  # fmt: skip
        for given in ({}, {"t": 1}):
            asked = build_run(runfile(algorithm, options | given, {}, identities=IDENTITIES))
            plan = asked.draft(asked.guessed(20))
            assert asked.stakes.t == getattr(plan, "sums", plan).code.t == 1
            Floors(smallest_t=1).check(replace(asked.stakes, smallest=99, centers=False))
            with pytest.raises(BelowFloor, match="`smallest_t`"):
                Floors(smallest_t=2).check(replace(asked.stakes, smallest=99, centers=False))


def test_the_floor_of_totals_counts_as_the_points_of_the_smallest_center_and_spares_nobody():
    for options, smallest in (({}, 1), ({"floor": 10}, 10)):
        asked = build_run(runfile("federated-lloyd", options, {}))
        assert (asked.stakes.centers, asked.stakes.smallest) == (True, smallest)
        assert asked.stakes.policy == "federated-lloyd"
        five = build_run(runfile("federated-lloyd", options, {}, identities=FIVE))
        run = runfile("federated-lloyd", options, {}, identities=FIVE)
        assert ("can do without 1" in spare_sentence(run, five)) == (smallest == 1)
        assert ("below the floor" in spare_sentence(run, five)) == (smallest == 10)
    for blind, who in ((True, "every client, and not the server"), (False, "everybody")):
        first, _, last = leakage_sentences(
            build_run(runfile("federated-lloyd", {"bound": 9, "blind": blind}, {}))
        )
        assert first.startswith("every client: sums and numbers of the rows of each cluster in every step")
        assert last == f"{who}: the centers"


SPARED = r"(?:t=(\d)(?:, deviating=(\d))? would spare (\d)|(a|two) clients? more at t=(\d) would spare (\d))"


@pytest.mark.parametrize(
    ("n", "algorithm", "options", "sentence"),
    [
        (3, "secfc", {}, "a client more at t=1 would spare 1"),
        (4, "secfc", {}, "of n=4 clients with t=1 the run can do without 1"),
        (5, "secfc", {"t": 2}, "t=1 would spare 2, and let any 2 clients together read what others share;"),
        (5, "secfc", {"t": 2, "deviating": 2}, "t=1, deviating=1 would spare 2, and let any 2 clients"),
        (6, "secfc", {"t": 2}, "the run can do without 1"),
        (7, "secfc", {"t": 3, "deviating": 1}, "t=2 would spare 2, and let any 3 clients together"),
        (3, "secfc", {"disclosure": "own-labels", "dealer": "none"}, "two clients more at t=1 would spare 1"),
        (5, "secfc", {"t": 2, "disclosure": "own-labels", "dealer": "none"}, "t=1 would spare 1, and"),
        (3, "profile", {"reveal_centers": True}, "so while one is away all wait"),
    ],
)  # fmt: skip
def test_what_would_spare_a_client_spares_as_many_as_is_said(n, algorithm, options, sentence):
    def built(n, **options):
        identities = {f"c{i}": new_session() for i in range(n)} | {"server": new_session()}
        run = runfile(algorithm, {"bound": 9, **options}, {}, identities=identities)
        return run, build_run(run)

    said = spare_sentence(*built(n, **options))
    assert sentence in said
    assert algorithm != "profile" or said.endswith("all wait")  # nothing would spare anybody there
    for t, deviating, spared, more, same, others in re.findall(SPARED, said):
        if t:
            smaller = options | {"t": int(t)} | ({"deviating": int(deviating)} if deviating else {})
            assert spared_clients(built(n, **smaller)[1]) == int(spared)
        else:
            larger = built(n + (1 if more == "a" else 2), **options | {"t": int(same)})
            assert spared_clients(larger[1]) == int(others)


@pytest.mark.parametrize(
    ("more", "floor"), [((), 10), (("--set", "floor=3"), 3), (("--set", "start=automatic"), None)]
)
def test_init_writes_the_floor_that_sites_demand_of_shared_centers(tmp_path, more, floor):
    path, words = tmp_path / "run.toml", ["--set", "disclosure=centers", "--set", "bound=9", *more]
    words += [word for name in "bac" for word in ("--client", f"{name}={IDENTITIES[name].hex()}")]
    words += ["--server", IDENTITIES["server"].hex(), "--hub", "ws://hub", "--features", "x,y", "-k", "3"]
    done = CliRunner().invoke(main, ["deploy", "init", str(path), *words])
    assert done.exit_code == 0, done.output
    made = read(path.read_text())
    assert (made.algorithm, made.options.get("floor")) == ("federated-lloyd", floor)
    # Sites agree to centers by their own files alone, and to no lower floor than these say.
    stakes = build_run(made).stakes
    with pytest.raises(BelowFloor, match="`policies`"):
        Floors(policies=("own-labels",)).check(stakes)
    with pytest.raises(BelowFloor, match="`smallest_center`"):
        Floors(smallest_center=11).check(stakes)
    Floors(smallest_center=floor or 1).check(stakes)


def test_labels_for_others_count_beside_centers_and_are_told(tmp_path):
    for labels, slots, said in ((2.0, None, "every row"), ("2:50", 50, "each of 50 places of every client")):
        asked = build_run(runfile("feddp", {"epsilon": 1.0, "radius": 9.0, "labels_epsilon": labels}, {}))
        assert asked.stakes.epsilon == 3.0
        assert asked.algorithm.labels.slots == slots
        (told,) = (line for line in leakage_sentences(asked) if "randomized response" in line)
        assert told.startswith(f"everybody: a label of {said}")


def test_the_server_of_a_run_with_a_budget_writes_what_may_be_published(tmp_path):
    run = runfile("feddp", {"epsilon": 8.0, "radius": 3.0, "labels_epsilon": "3:80"})
    site, asked = SimpleNamespace(run=run, file=SimpleNamespace(party="server")), build_run(run)
    rng = np.random.default_rng(0)
    parts = [rng.choice([-1.5, 1.5], (60, 2)) + rng.normal(0, 0.1, (60, 2)) for _ in run.clients]
    held = secfc.Federation.from_arrays(parts, names=run.clients)
    result = secfc.fit(asked.algorithm, held)
    outcome = asked.algorithm.outcome(result.plan, "server", result.details.server)
    held_at = Results(tmp_path, force=False, published=tmp_path / "told.html")
    held_at.check_published(asked)
    for path, write in held_at.publishable_texts(site, asked, outcome).items():
        with path.open("w", newline="") as file:
            write(file)
    told = json.loads((tmp_path / "publishable.json").read_text())
    assert 3.0 < told["privacy"]["epsilon"]["everybody"] <= 11.0 * (1 + 1e-9)
    assert np.allclose(told["centers"], result.centers)
    assert told["privacy"]["centers"]["sizes"] == result.details.server.counts.tolist()
    assert told["privacy"]["labels"]["epsilon"] == 3.0
    unpaid = ("m", "clients", "cluster_sizes", "labels_digest", "cost", "seconds", "evaluation")
    assert [told[name] for name in unpaid] == [None] * len(unpaid)
    labels = (tmp_path / "released-labels.csv").read_text().splitlines()
    assert labels == (tmp_path / "told-labels.csv").read_text().splitlines()
    assert len(labels) == 1 + 80 * len(run.clients)
    page = (tmp_path / "told.html").read_text()
    assert run.digest.hex() in page
    assert "is within the noise" in page
    # It is no simulation, and its server counted nobody's messages but its own.
    assert DEPLOYED in page
    assert "simulation" not in page
    assert " 0 messages" not in page
    assert told["transcript"] is told["steps"] is None
    # A client has none of it, nor a run without a budget.
    client = SimpleNamespace(run=run, file=SimpleNamespace(party="a"))
    assert held_at.publishable_texts(client, asked, outcome) == {}
    with pytest.raises(RefusedInput, match="no budget of differential privacy"):
        held_at.check_published(build_run(runfile()))
    with pytest.raises(RefusedInput, match=r"ends in \.json or in \.html"):
        Results(tmp_path, force=False, published=tmp_path / "told.txt").check_published(asked)
    with pytest.raises(RefusedInput, match="exists already"):
        held_at.check_published(asked)


def test_the_server_of_a_run_by_noisy_sums_writes_how_sure_centers_are_and_no_size():
    """It knows no row and no column of IDs."""
    words = {"disclosure": "noisy-sums", "epsilon": 8.0, "radius": 3.0, "max_iter": 1, "counts": "hidden"}
    run = replace(runfile(options={**words, "membership": "private", "t": 1}), k=1)
    asked, parts = build_run(run), [np.full((6, 2), 0.5)] * 3
    held = secfc.Federation.from_arrays(parts, names=run.clients, ids=[range(6)] * 3)
    result = secfc.fit(asked.algorithm, held, bound=3.0)
    outcome = PartyOutcome(
        "server", result.plan, centers=result.centers, ledger=result.ledger, details=result.details
    )
    statement = publishable_report(SimpleNamespace(run=run), asked, outcome)
    told, text = as_json(statement), " ".join(as_text(statement).split())
    # What follows from the budget is said; nothing of options that no site has, nor of figures that are none.
    assert told["membership_risk"]["detected"] == pytest.approx(0.95, abs=0.05)
    assert "of 100 people are recognized at 1 false alarm in 100" in text
    assert "evaluate" not in text.lower().replace("evaluation", "")
    assert "signal" not in text.lower()
    assert len(told["privacy"]["centers"]["moved"]) == 1
    assert told["privacy"]["epsilon"]["everybody"] <= 8.0
    assert told["cluster_sizes"] is told["labels_digest"] is None
    assert "equal rows" in row_identity(None, None)
    said = tuple(leakage_sentences(asked))
    assert any("if neighbors replace one data point" in line for line in said)
    # No size is known, so of how many points a cluster is bounds no center.
    assert said[-1] == "everybody: the noisy centers"


def test_sites_of_noisy_sums_of_joined_columns_write_no_labels_which_nobody_has(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "run_facts", lambda *arguments: {})
    monkeypatch.setattr(results, "kept_of", lambda *arguments: None)
    words = {"epsilon": 8.0, "radius": 3.0, "t": 1}
    joined = {"columns": {"b": ("age",), "a": ("weight",), "c": ()}, "split": "columns"}
    for disclosure, labeled in (("noisy-sums", False), ("own-labels", True)):
        options = {"disclosure": disclosure, **(words if not labeled else {"t": 1})}
        run = runfile(options=options, **joined)
        outcome = PartyOutcome("b", None, labels=np.array([-1, -1]))
        party = secfc.Party("b", np.zeros((2, 1)), ids=("x", "y"))
        site = SimpleNamespace(run=run, file=SimpleNamespace(party="b"))
        (tmp_path / disclosure).mkdir()
        Results(tmp_path / disclosure, force=False).write(
            site, build_run(run), party, None, outcome, None, datetime.now(UTC)
        )
        report = json.loads((tmp_path / disclosure / "report.json").read_text())
        assert (tmp_path / disclosure / "labels.csv").exists() == labeled
        assert (report["labels_digest"] is not None) == labeled
        assert report["rows"] == 2


def test_what_private_centers_show_is_said_before_a_run():
    said = tuple(leakage_sentences(build_run(runfile("feddp", {"epsilon": 1.0, "radius": 9.0}, {}))))
    assert said[0].startswith("everybody: noisy sums over all sites")
    assert said[-1] == "everybody: the noisy centers"


# --- floors ------------------------------------------------------------------------------------------

MILD = Stakes(
    "own-labels", 3, 1.0, 1e-6, True, 20, False, IDENTITIES["server"], largest_k=4,
    partners=IDENTITIES, features=("age", "weight"),
)  # fmt: skip
STRANGER = {**IDENTITIES, "c": bytes([9]) * 32}


@pytest.mark.parametrize(("floor", "demand"), [
    ("policies", {"policies": ("final-labels",)}), ("smallest_t", {"smallest_t": 4}),
    ("largest_epsilon", {"largest_epsilon": 0.5}), ("largest_delta", {"largest_delta": 1e-9}),
    ("total_epsilon", {"total_epsilon": 1.5}), ("open_centers", {"open_centers": False}),
    ("open_dendrogram", {"open_dendrogram": False}),
    ("coordinators", {"coordinators": (bytes(32),)}), ("fewest_clients", {"fewest_clients": 1}),
    ("partners", {"partners": STRANGER}), ("partners", {"partners": {}}), ("largest_k", {"largest_k": 3}),
    ("features", {"features": ("age",)}), ("runs_per_month", {"runs_per_month": 2}),
    ("max_explained", {"max_explained": 0.8}),
])  # fmt: skip
def test_a_run_below_a_floor_is_refused(floor, demand):
    stakes = replace(MILD, dendrogram=True, explained=0.9)
    Floors(open_dendrogram=True, max_explained=0.9).check(stakes, spent=0.6, recent=2)
    with pytest.raises(BelowFloor, match=f"`{floor}`") as caught:
        Floors(**{"open_dendrogram": True, **demand}).check(stakes, spent=0.6, recent=2)
    assert caught.value.floor == floor


@pytest.mark.parametrize(("options", "most"), [({}, 1.0), ({"max_explained": 0.9}, 0.9)])
def test_joined_columns_are_held_to_what_labels_may_explain_of_one(options, most):
    columns, asked = (
        {"a": ("age",), "b": ("weight",), "c": ()},
        {"t": 1, "disclosure": "own-labels", **options},
    )
    run = runfile(split="columns", columns=columns, options=asked, preparing={"standardize": True})
    made = build_run(run)
    assert made.stakes.explained == most
    assert made.algorithm.membership.max_explained == options.get("max_explained")
    assert build_run(runfile(options={"disclosure": "own-labels"})).stakes.explained == 0


def test_partners_are_names_with_their_keys_and_another_servers_key_may_be_among_the_coordinators():
    Floors(partners={**IDENTITIES, "further": bytes(32)}).check(MILD)
    swapped = {**IDENTITIES, "a": IDENTITIES["b"], "b": IDENTITIES["a"]}
    with pytest.raises(BelowFloor, match=rf"b with the key {'01' * 32}.*b's key is {'02' * 32}"):
        Floors(partners=swapped).check(MILD)
    clients = {name: key for name, key in IDENTITIES.items() if name != "server"}
    with pytest.raises(BelowFloor, match="server is no partner"):
        Floors(partners=clients).check(MILD)
    Floors(partners=clients, coordinators=(IDENTITIES["server"],)).check(MILD)


def test_clusters_that_the_data_choose_are_more_than_any():
    for k, most in ((4, 4), ("2..6", 6), ("auto", math.inf)):
        stakes = build_run(replace(runfile(), k=k)).stakes
        assert stakes.largest_k == most
        Floors(largest_k=6).check(replace(stakes, largest_k=6))
    with pytest.raises(BelowFloor, match="inf clusters"):
        Floors(largest_k=6).check(stakes)


def test_rows_of_all_clients_together_are_judged_once_they_are_told():
    Floors(fewest_rows=100).check_rows(100)
    with pytest.raises(BelowFloor, match=r"99 rows of all clients.*No share of a row was sent"):
        Floors(fewest_rows=100).check_rows(99)
    hidden = build_run(runfile("secfc", {"t": 1, "membership": "private"}, {})).stakes
    with pytest.raises(BelowFloor, match="numbers of rows that nobody tells"):
        Floors(fewest_rows=1).check(hidden)
    Floors(fewest_rows=0).check(hidden)


def test_a_run_that_withstands_fewer_that_deviate_than_a_site_demands_is_refused():
    floors = Floors(deviating=1)
    # What is not given is what the plan has.
    for option in ({"deviating": 1}, {}, {"disclosure": "own-labels"}, {"centers": "rounded"}):
        floors.check(build_run(runfile("secfc", {"t": 1, **option}, {})).stakes)
    for option in ({"deviating": 0}, {"disclosure": "final-labels"}):
        with pytest.raises(BelowFloor, match=r"deviating=0.*`deviating`"):
            floors.check(build_run(runfile("secfc", {"t": 1, **option}, {})).stakes)
    Floors().check(build_run(runfile("secfc", {"t": 1, "deviating": 0}, {})).stakes)


def test_quotas_of_guesses_add_up_and_a_shared_key_is_more_than_any():
    def stakes(**options):
        return build_run(runfile("secfc", {"t": 1, "membership": "private", **options}, {})).stakes

    floors = Floors(total_quota=1000)
    floors.check(stakes(quota=600), granted=400)
    with pytest.raises(BelowFloor, match="a quota of 600, after 401 in earlier runs"):
        floors.check(stakes(quota=600), granted=401)
    with pytest.raises(BelowFloor, match=r"each can test any guess.*`total_quota`"):
        floors.check(stakes())
    Floors().check(stakes())
    floors.check(MILD)


def test_sizes_and_budgets_that_are_not_there_are_below_a_floor():
    shown = Stakes("assignments", 1, None, None, False, 1, True, IDENTITIES["server"])
    for demand in ({"show_sizes": False}, {"largest_epsilon": 1.0}, {"total_epsilon": 9.0}):
        with pytest.raises(BelowFloor):
            Floors(**demand).check(shown)
    with pytest.raises(InputError, match="at least 10"):
        Floors(changed_rows=3)


@pytest.mark.parametrize(
    "name", [f.name for f in fields(Floors) if type(f.default) is int or "epsilon" in f.name]
)
@pytest.mark.parametrize("value", [math.nan, math.inf, -1])
def test_a_floor_is_a_finite_number_of_at_least_0(name, value):
    with pytest.raises(InputError, match=f"{name} = {value} is no floor"):
        Floors(**{name: value})


@pytest.mark.parametrize("demand", [
    {"largest_epsilon": 9.0}, {"largest_delta": 1.0}, {"total_epsilon": 9.0}, {"smallest_t": 0},
])  # fmt: skip
def test_what_is_no_number_is_below_every_floor(demand):
    nothing = Stakes("noise", math.nan, math.nan, math.nan, False, 1, False, IDENTITIES["server"])
    with pytest.raises(BelowFloor):
        Floors(**demand).check(nothing)


def test_small_clusters_keep_their_exact_centers_and_noise_covers_any():
    exact = Stakes("own-labels", 3, None, None, True, 20, True, IDENTITIES["server"])
    Floors(smallest_center=20).check(exact)
    with pytest.raises(BelowFloor, match="`smallest_center`"):
        Floors(smallest_center=21).check(exact)
    Floors(smallest_center=21).check(MILD)  # a budget covers it


SITE = """
[site]
party = "a"
run = "run.toml"
key = "a.key"

[data]
path = "a.csv"
id_column = "patient"

[floors]
policies = ["own-labels"]
smallest_t = 2
total_epsilon = 4
"""


@pytest.mark.parametrize(("letters", "shown"), [(58, "'" + 58 * "x" + "'"), (59, "'" + 56 * "x" + "...")])
def test_an_error_shows_sixty_letters_of_a_value_at_most(letters, shown):
    with pytest.raises(InputError, match=f"^run.toml: k = {re.escape(shown)}: a whole number"):
        TomlTable({"k": letters * "x"}, "run.toml").get("k", int)
    with pytest.raises(InputError, match="k = True: a whole number"):
        TomlTable({"k": True}, "run.toml").get("k", int)


def test_a_site_file_reads_and_an_unknown_key_refuses_to_start(tmp_path):
    path = tmp_path / "site.toml"
    path.write_text(SITE)
    site = SiteFile.read(path)
    assert site.data.path == tmp_path / "a.csv"
    assert site.floors == Floors(("own-labels",), 2, total_epsilon=4)
    path.write_text(SITE.replace("[data]", '[data]\ndelimiter = "semicolon"\nencoding = "cp1252"'))
    assert SiteFile.read(path).data.dialect == Dialect("cp1252", ";")
    for wrong, why in (
        (SITE + "smalest_center = 5\n", "'smalest_center' is no key"),
        (SITE.replace("path", "paths"), "path is missing"),
        (SITE.replace('"a"', '"server"'), "has no rows"), (SITE + "[flors]\n", "'flors' is no key"),
        (SITE.replace("[data]", "[data"), "no TOML"),
        (SITE.replace("[data]", '[data]\ndelimiter = "ab"'), 'delimiter = .ab.: one character is needed'),
        (SITE.replace("[data]", "[data]\ndecimal = 1"), "decimal = 1: "),
    ):  # fmt: skip
        path.write_text(wrong)
        with pytest.raises(InputError, match=why):
            SiteFile.read(path)
    for written in (SITE.replace("\n", "\r\n").encode(), SITE.encode("utf-8-sig")):  # as editors save it
        path.write_bytes(written)
        assert SiteFile.read(path).party == "a"
    for encoding in ("utf-16", "latin-1"):
        path.write_bytes((SITE + "# ä\n").encode(encoding))
        with pytest.raises(InputError, match="no text in UTF-8: save it as that"):
            SiteFile.read(path)


# --- keys --------------------------------------------------------------------------------------------


def test_a_key_is_its_owners_alone(tmp_path):
    path = tmp_path / "a.key"
    made = create_key_file(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key_file(path).public == made.public
    assert len(identity_fingerprint(made.public)) == 39
    with pytest.raises(InputError, match="exists"):
        create_key_file(path)
    path.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        load_key_file(path)
    path.chmod(0o600)
    path.write_text("something else")
    with pytest.raises(InputError, match="no key"):
        load_key_file(path)


def test_a_large_site_beside_small_ones_is_refused_only_where_no_others_would_do():
    features = tuple(f"x{i}" for i in range(20))
    made = build_run(replace(runfile(options={"bound": 32.0}), features=features))
    with pytest.raises(InputError, match=r'd=20 features leave.*centers = "rounded"'):
        made.draft(made.guessed(140_000, 140_000))
    facts, when = facts_to_judge(made, 140_000)
    assert facts.counts == (140_000, 100, 100)
    assert "few rows" in when
    made.draft(facts)
    assert facts_to_judge(made, 1000)[0].counts == (1000,) * 3
    with pytest.raises(InputError, match="points of d=20 features leave"):  # whoever the others are
        made.draft(made.guessed(1_000_000))


@pytest.mark.parametrize(("line", "why"), [
    ("threads = 0", "threads = 0: from 1 on"),
    ("threads = 5000", "threads = 5000: from 1 on"),
    ('scratch = "nowhere"', "is no folder: make it"),
    ('scratch = "site.toml"', "is no folder: make it"),
])  # fmt: skip
def test_what_a_machine_does_not_have_is_refused(tmp_path, line, why):
    path = tmp_path / "site.toml"
    text = '[site]\nparty = "server"\nrun = "run.toml"\nkey = "k"\n'
    path.write_text(text + line)
    with pytest.raises(InputError, match=why):
        SiteFile.read(path)
    path.write_text(text + f'threads = 2\nscratch = "{tmp_path}"')
    assert SiteFile.read(path).threads == 2
    path.write_text(text.replace("server", "a") + '[data]\npath = "a.parquet"\ndask = "tcp://s:8786"')
    assert SiteFile.read(path).data.dask == "tcp://s:8786"


@pytest.mark.parametrize("name", ["../../etc", "..", "/etc", "a\\b", " "])
def test_a_party_has_the_name_of_a_file(name):
    with pytest.raises(InputError, match=r"is no name of a file.* leave / and"):
        runfile(identities={**IDENTITIES, name: bytes(range(32))})
    assert not list(identity_problems({"St. Ann's..": bytes(32)}))


def test_what_the_system_could_not_decode_is_refused_and_no_file_is_written_that_nobody_can_read(tmp_path):
    path = tmp_path / "site.toml"
    with pytest.raises(InputError, match=r"'\\udcf6' would stand in .* no text in this .* PYTHONUTF8=1"):
        write_text_file(path, "party = 'K\udcf6ln'", "--site", force=False)
    assert not path.exists()
    write_text_file(path, "party = 'Köln'", "--site", force=False)
    assert path.read_bytes() == "party = 'Köln'".encode()


def test_an_ipv6_address_of_a_hub_stands_in_brackets():
    for hub in ("wss://[2001:db8::1]:443", "wss://[::1]", "ws://hub:8443"):
        assert replace(runfile(), hub=hub).hub == hub
    with pytest.raises(InputError, match=r"in brackets, as wss://\[2001:db8::1\]:443"):
        replace(runfile(), hub="wss://2001:db8::1")


def test_who_writes_a_run_file_is_told_how_many_rows_it_carries_and_what_carries_more():
    run = replace(runfile(options={"bound": 32.0}), features=tuple(f"x{i}" for i in range(20)))
    made = build_run(run)
    rows = carried_rows(made)
    assert rows == 285_501  # in wholes of three sites
    made.draft(made.guessed(rows // 3, rows // 3))
    with pytest.raises(InputError):
        made.draft(made.guessed(rows // 3 + 1, rows // 3 + 1))
    (said,) = carried_sentences(made)
    assert "285,501 rows" in said
    assert "--set centers=rounded" in said
    rounded = build_run(replace(run, options={"bound": 32.0, "centers": "rounded"}))
    assert not list(carried_sentences(rounded))
    final = build_run(replace(run, options={"bound": 32.0, "disclosure": "final-labels"}))
    assert [("rounded" in said, "the most" in said) for said in carried_sentences(final)] == [(False, True)]


@pytest.mark.parametrize("more", [{}, {"cut": 2}])
def test_the_officers_page_of_a_run_file_tells_of_the_tree_and_of_groups_where_it_is_cut(tmp_path, more):
    run = runfile(options={"t": 1, "bound": 9.0, "linkage": "single", "init": "random", **more})
    (tmp_path / "run.toml").write_text(run.toml())
    words = ["plan", str(tmp_path / "run.toml"), "-m", "60", "--officer", str(tmp_path / "page.html")]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, done.output
    page = (tmp_path / "page.html").read_text()
    assert "how far their centers are apart" in page
    assert (GROUPS_TOLD in page) == bool(more)
    told = list(leakage_sentences(build_run(run)))
    assert any("how far their centers are apart" in line for line in told)
    assert any("make each of the 2 groups" in line for line in told) == bool(more)


def test_a_run_file_has_no_site_read_a_model_of_its_disk():
    assert build_run(runfile("federated-lloyd", {"bound": 9, "init": "sampled:300:2"}, {})).algorithm.start
    with pytest.raises(InputError, match="a model is a file of one machine, which no run file names"):
        build_run(runfile("federated-lloyd", {"bound": 9, "init": "/etc/model.npz"}, {}))
