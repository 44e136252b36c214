"""An auditor's walk: from results and audit alone, who took part, on which terms, and what was opened."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("websockets")

import secfc
from secfc.cli.shell.program import main
from secfc.deploy.audit_log import PURPOSE, canonical_json
from secfc.deploy.keys import identity_fingerprint, load_key_file, read_public
from tests.secfc.deploy.sites import blobs, sites

pytestmark = pytest.mark.deployment

ROWS = blobs((17, 20, 14))
OPTIONS = {"bound": 32.0, "t": 1, "init": "random", "max_iter": 2, "disclosure": "own-labels"}
FLOOR = 'features = ["x", "y", "z"]\nlargest_k = 3\nfewest_rows = 51\n'


@pytest.fixture(scope="module")
def ended(tmp_path_factory, nursery):
    """A run of three sites that has ended; one of them was killed in between, and refused another run."""
    with sites(tmp_path_factory.mktemp("audit"), ROWS, k=3, options=OPTIONS, nursery=nursery) as made:
        for name in ROWS:
            made.write_site(name, named=False, floors=FLOOR)
        made.start_all()
        made.until("site-1", "sharing points")
        made.kill("site-1")
        made.start("site-1")
        assert set(made.everybody().values()) == {0}, made.log("site-1")
        before = made.run
        made.change(session=bytes(range(32)), k=4)
        assert made.start("site-0", "--force").wait(90) == 4
        made.change(session=before.session, k=3)
        yield made


@pytest.mark.nightly
def test_too_few_rows_of_all_together_are_refused_before_a_share_and_cost_nothing(tmp_path, nursery):
    with sites(tmp_path, ROWS, k=3, options=OPTIONS, nursery=nursery) as made:
        made.write_site("site-0", named=False, floors="fewest_rows = 52")
        made.start_all()
        assert made.everybody() == {"site-0": 4, "site-1": 2, "site-2": 2, "server": 2}, made.log("site-0")
        assert "51 rows of all clients" in made.log("site-0")
        assert not list(tmp_path.rglob("remembered.json"))
        made.write_site("site-0", named=False, floors="fewest_rows = 51")
        for name in (*ROWS, "server"):
            made.start(name)
        assert set(made.everybody().values()) == {0}, made.log("site-0")


def files(ended, name):
    return [
        str(ended.folder / name / "audit.jsonl"),
        str(ended.folder / name / "results" / "report.json"),
    ]


def ask(*words):
    """Exit code and what is said."""
    done = CliRunner().invoke(main, ["deploy", "audit", *map(str, words)])
    return done.exit_code, done.output


def test_an_auditor_answers_all_questions_from_the_files_of_one_site_alone(ended, tmp_path):
    for path in files(ended, "site-0"):  # and from nothing else: no key, no run file, no site file
        shutil.copy(path, tmp_path)
    code, said = ask("show", tmp_path / "audit.jsonl", tmp_path / "report.json")
    assert code == 0, said
    mine = said.split("\na run that never began")[0]
    for name, key in ended.run.identities.items():  # who took part, by which keys, with which software
        signed = f"    {name}, key {identity_fingerprint(key)}, signed at 20"
        (line,) = [line for line in mine.splitlines() if line.startswith(signed)]
        assert f"with secfc {secfc.__version__}, protocol " in line
    terms = f"terms {identity_fingerprint(ended.run.digest)}"  # on which terms
    assert mine.count(f"{terms}, policy own-labels, t=1") == len(ended.run.identities)
    assert f"report: {terms}" in mine
    report = ended.report("site-0")  # what was opened
    for sentence in report["learned"]:
        assert f"learned: {sentence}" in mine
    assert "would be shown: each site: the labels of its own rows" in mine
    assert report["data_sha256"] in mine
    assert "join: finished" in mine
    refused = said.split("session 00010203")[1]  # and what was refused
    assert "join: refused SECFC-501 BelowFloor largest_k" in refused


def test_the_files_of_all_sites_hold_each_others_ends(ended):
    every = [path for name in ROWS for path in files(ended, name)]
    code, said = ask("verify", *every, ended.folder / "server" / "audit.jsonl")
    assert code == 0, said
    assert "fail" not in said
    assert said.count("it is as it was when its run ended, or stopped") == 3
    # One that was killed signed once, and resumed.
    own = [json.loads(line) for line in Path(files(ended, "site-1")[0]).read_text().splitlines()]
    assert [said["what"] for said in own].count("accept") == 1
    assert [said["what"] for said in own].count("consents") == 1


def test_nothing_of_data_stands_on_record(ended):
    for name, rows in ROWS.items():
        text = Path(files(ended, name)[0]).read_text()
        assert not any(str(value) in text for value in rows.ravel().tolist())
        assert str(ended.folder) not in text
        said = [json.loads(line) for line in text.splitlines()]
        assert not any("rows" in entry for entry in said)


def signed_anew(line, ended, name, change):
    """A line that its site falsifies, with its key."""
    said = json.loads(line)
    change(said)
    del said["signature"]
    key = load_key_file(ended.folder / name / "site.key")
    said["signature"] = key.sign(PURPOSE + canonical_json(said)).hex()
    return canonical_json(said)


def forge_consent(said):
    said["consents"]["site-1"]["text"] = said["consents"]["site-1"]["text"].replace("own-labels", "distances")


def change_floors(said):
    said["floors"]["largest_k"] = 9


@pytest.mark.parametrize(("what", "change", "why"), [
    ("consents", forge_consent, "a consent that its key has not signed"),
    ("accept", change_floors, "its floors are not those that its consent was bound to"),
])  # fmt: skip
def test_a_site_cannot_put_on_record_what_others_did_not_sign_or_other_floors_than_it_had(
    ended, tmp_path, what, change, why
):
    lines = Path(files(ended, "site-0")[0]).read_bytes().splitlines()
    last = max(i for i, line in enumerate(lines) if json.loads(line)["what"] == what)
    lines = [*lines[:last], signed_anew(lines[last], ended, "site-0", change)]
    (tmp_path / "audit.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    code, said = ask("verify", tmp_path / "audit.jsonl")
    assert code == 1
    assert f"line {last + 1}: it holds" in said or f"line {last + 1}: its floors" in said
    assert why in said


def test_an_altered_report_and_a_cut_audit_are_found(ended, tmp_path):
    audit, report = (tmp_path / Path(path).name for path in files(ended, "site-0"))
    for path in files(ended, "site-0"):
        shutil.copy(path, tmp_path)
    report.write_text(report.read_text().replace('"own-labels"', '"assignments"'))
    code, said = ask("verify", audit, report)
    assert code == 1
    assert "no line of its site's audit holds its end" in said
    shutil.copy(files(ended, "site-0")[1], report)
    assert ask("verify", audit, report)[0] == 0
    lines = audit.read_bytes().splitlines(keepends=True)
    audit.write_bytes(b"".join(lines[:2]))  # without the line of its end
    code, said = ask("verify", audit, report)
    assert code == 1
    code, said = ask("verify", audit, *files(ended, "site-1"))
    assert code == 0  # what nobody has held yet may be cut unseen, and the command says so
    assert "no other of these files holds the lines from 1 on" in said
    assert ask("verify", report)[0] == 2
    assert ask("verify", ended.folder / "run.toml", audit)[0] == 2


def test_a_second_run_lets_the_others_hold_all_of_the_first(ended, tmp_path):
    # The next run's consents say where audits ended: what the first run wrote can no longer be cut.
    from secfc.cli.deploy.record import sign_terms
    from secfc.cli.deploy.site import LoadedSite

    for name in ROWS:
        shutil.copytree(ended.folder / name, tmp_path / name)
    shutil.copy(ended.folder / "run.toml", tmp_path)
    cut = b"".join((tmp_path / "site-0" / "audit.jsonl").read_bytes().splitlines(keepends=True)[:-1])
    site = LoadedSite.read(tmp_path / "site-0" / "site.toml")
    signed = sign_terms(site, site.agreed(), bytes(16))
    other = LoadedSite.read(tmp_path / "site-1" / "site.toml").audit
    record = signed.record(ended.run.identities["site-0"])
    other.append("consents", "verified", session="00", journal="00", consents={"site-0": record})
    assert ask("verify", site.audit.path, other.path)[0] == 0
    site.audit.path.write_bytes(cut)
    code, said = ask("verify", site.audit.path, other.path)
    assert code == 1
    assert f"{other.path} holds its word" in said


@pytest.mark.nightly
def test_an_auditor_of_one_site_walks_a_failed_run_a_change_of_keys_and_a_run_that_went_on(tmp_path, nursery):
    options = {"bound": 32.0, "t": 1, "init": "random", "n_init": 8}
    five = blobs((17, 20, 14, 22, 19))
    with sites(tmp_path, five, k=3, options=options, nursery=nursery) as made:
        own = tmp_path / "site-0"
        old = made.run.identities["site-0"]
        # A run that fails, as one site holds another file.
        (tmp_path / "other.toml").write_text(made.run.toml().replace("n_init = 8", "n_init = 7"))
        other = tmp_path / "site-1" / "site.toml"
        other.write_text(other.read_text().replace("../run.toml", "../other.toml"))
        made.start_all()
        assert set(made.everybody().values()) == {2}
        other.write_text(other.read_text().replace("../other.toml", "../run.toml"))
        # A key that is followed by another, which the next run pins.
        words = ["keys", "rotate", own / "site.toml", own / "next.key", "--until", "2999-01-31"]
        done = CliRunner().invoke(main, ["deploy", *map(str, words), "--out", str(tmp_path / "notice.json")])
        assert done.exit_code == 0, done.output
        text = (own / "site.toml").read_text()
        (own / "site.toml").write_text(text.replace('"site.key"', '["next.key", "site.key"]'))
        new = read_public(own / "next.key")
        made.kill("hub")
        made.change(session=bytes(range(32)), identities={**made.run.identities, "site-0": new})
        made.start_all()
        made.until("site-3", "clustering", count=1)
        made.kill("site-3")
        left = [name for name in five if name != "site-3"]
        for name in (*left, "server"):
            words = ["go-on", str(tmp_path / name / "site.toml"), "--without", "site-3"]
            assert made.command("go-on", *words).wait(60) == 0
        assert set(made.wait(*left, "server")) == {5}, made.log("server")
        folder = tmp_path / "auditor"
        folder.mkdir()
        for path in files(made, "site-0"):
            shutil.copy(path, folder)
        code, said = ask("verify", folder / "audit.jsonl", folder / "report.json")
        assert (code, "fail" in said) == (0, False), said
        code, said = ask("show", folder / "audit.jsonl", folder / "report.json")
        assert code == 0, said
        followed = f"the key {identity_fingerprint(old)} is followed by {identity_fingerprint(new)}"
        assert f"rotate: {followed}, and accepted until 2999-01-31" in said
        failed, gone_on = said.split("session 00010203")
        assert "SECFC-201 PlanMismatch" in failed
        for name, key in made.run.identities.items():  # who accepted the terms
            assert f"    {name}, key {identity_fingerprint(key)}, signed at 20" in gone_on
        told = json.loads((folder / "report.json").read_text())["decisions"]
        for name, record in told.items():  # and who agreed to go on
            key = identity_fingerprint(bytes.fromhex(record["key"]))
            assert record["key"] == made.run.identities[name].hex()
            assert f"    {name}, key {key}, signed at 20" in gone_on
        assert gone_on.count(": to go on without site-3") >= len(told) >= 1
        assert "join: finished without site-3" in gone_on
