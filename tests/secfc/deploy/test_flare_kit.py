"""What FLARE is given, what a site lets it do, and who a site is: without FLARE."""

import asyncio
import contextlib
import datetime
import json
import runpy
import sys
from dataclasses import replace
from importlib.util import find_spec
from queue import SimpleQueue
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

pytest.importorskip("websockets")

from field import SeededCoins
from secfc.cli import main
from secfc.cli.deploy.readiness import check_flare
from secfc.deploy.flare import policy
from secfc.deploy.flare.cards import BadCard, Card, Kit
from secfc.deploy.flare.child import CRASHES, DONE_BEFORE, Child, explain_exit_code, is_done_before
from secfc.deploy.flare.project import job_files, project_file
from secfc.deploy.history import PastRun, SiteHistory
from secfc.deploy.keys import create_key_file
from secfc.deploy.runfile import RunFile
from secfc.deploy.site import SiteFile
from secfc.errors import InputError
from secfc.roles.exchange import SERVER

NAMES = ("north", "south", SERVER)
HOST = "flare.example.org"
RUN = bytes(range(32))


def key_of():
    return rsa.generate_private_key(65537, 2048)


def certificate(name, key, issuer, signer):
    def named(text):
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    day = datetime.timedelta(1)
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder(
        named(issuer), named(name), key.public_key(), x509.random_serial_number(), now - day, now + day
    )
    return builder.sign(signer, hashes.SHA256())


@pytest.fixture(scope="module")
def keys():
    return {name: key_of() for name in ("root", "other root", *NAMES)}


@pytest.fixture
def kits(keys, tmp_path):
    """Startup kits with what `nvflare provision` puts into them, as far as anything here reads it."""
    made = {}
    pem = serialization.Encoding.PEM
    root = certificate("root", keys["root"], "root", keys["root"])
    for name in NAMES:
        kit = Kit(tmp_path / "kits" / name)
        kit.startup.mkdir(parents=True)
        stem, owner = ("server", HOST) if name == SERVER else ("client", name)
        own = certificate(owner, keys[name], "root", keys["root"])
        (kit.startup / f"{stem}.crt").write_bytes(own.public_bytes(pem))
        secret = keys[name].private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (kit.startup / f"{stem}.key").write_bytes(secret)
        (kit.startup / "rootCA.pem").write_bytes(root.public_bytes(pem))
        (kit.startup / "fed_client.json").write_text(json.dumps({"servers": [{"identity": HOST}]}))
        local = kit.folder / "local"
        local.mkdir()
        components = [{"id": "process_launcher", "path": "nvflare.app_common.job_launcher.X", "args": {}}]
        components += [{"id": "logs", "path": "nvflare.app_common.logging.site_log_streamer.X", "args": {}}]
        components += [{"id": "job_manager", "path": "x.SimpleJobDefManager", "args": {"uri_root": "/tmp/x"}}]
        (local / "resources.json.default").write_text(json.dumps({"components": components}))
        (local / "log_config.json.default").write_text(json.dumps({"loggers": {"root": {"level": "INFO"}}}))
        made[name] = kit
    return made


@pytest.fixture
def run_file(tmp_path):
    """A run file, and a site file and key for each party, in their own folders."""
    identities = {}
    for name in NAMES:
        (tmp_path / name).mkdir()
        identities[name] = create_key_file(tmp_path / name / "key").public
        data = "" if name == SERVER else '[data]\npath = "rows.csv"\n'
        text = f'[site]\nparty = "{name}"\nrun = "../run.toml"\nkey = "key"\n{data}'
        (tmp_path / name / "site.toml").write_text(text)
    found = RunFile(
        "a run", SeededCoins(1, "session").bytes(32), f"nvflare://{HOST}:8002", identities, ("x", "y")
    )
    (tmp_path / "run.toml").write_text(found.toml())
    return found


def test_a_card_shows_that_the_certificates_owner_has_the_pinned_identity(kits):
    for name in NAMES:
        card = Card.of(kits[name].card(RUN, name, bytes(32)).plain())
        for kit in kits.values():
            kit.check(card, RUN, name, bytes(32))


def test_every_other_card_is_refused_and_says_what_is_wrong(kits, keys):
    north = kits["north"]
    card = north.card(RUN, "north", bytes(32))
    pem = serialization.Encoding.PEM
    stranger = certificate("north", keys["south"], "root", keys["other root"]).public_bytes(pem)
    renamed = certificate("north", keys["south"], "root", keys["root"]).public_bytes(pem)
    cases = [
        (card, RUN, "north", bytes([1] * 32), "another identity"),
        (card, RUN, "south", bytes(32), "certificate of another site, 'north'"),
        (card, RUN, SERVER, bytes(32), "certificate of another site, 'north'"),
        (card, bytes(32), "north", bytes(32), "did not sign"),
        (replace(card, certificate=stranger), RUN, "north", bytes(32), "not issued by"),
        (replace(card, certificate=b"none"), RUN, "north", bytes(32), "not issued by"),
        (replace(card, certificate=renamed), RUN, "north", bytes(32), "did not sign"),
        (replace(card, identity=bytes([1] * 32)), RUN, "north", bytes([1] * 32), "did not sign"),
        (replace(kits["south"].card(RUN, "north", bytes(32))), RUN, "north", bytes(32), "another site"),
    ]
    for one, run, party, identity, why in cases:
        with pytest.raises(BadCard, match=why):
            kits["south"].check(one, run, party, identity)
    for other in ({}, None, {"identity": "text"}):
        with pytest.raises(BadCard, match="something else"):
            Card.of(other)


def test_a_kit_that_was_fitted_lets_in_four_classes_and_no_code(kits, tmp_path):
    for name, kit in kits.items():
        policy.write_site_rules(kit, RUN, tmp_path / "site.toml")
        policy.write_site_rules(kit, bytes(32), tmp_path / "other.toml")
        assert not list(policy.loosened_rules(kit))
        known, command = policy.site_files_by_session(kit)
        assert known == {RUN: tmp_path / "site.toml", bytes(32): tmp_path / "other.toml"}
        assert command == ()
        resources = json.loads((kit.folder / "local/resources.json").read_text())
        assert [c["id"] for c in resources["components"]] == ["process_launcher", "job_manager"]
        assert str(kit.folder) in resources["components"][1]["args"]["uri_root"], name


def edited(name, *path, to):
    def edit(local):
        content = json.loads((local / name).read_text())
        part = content
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to
        (local / name).write_text(json.dumps(content))

    return edit


@pytest.mark.parametrize(("edit", "named"), [
    (edited("resources.json", "class_allow_list", to=["*"]), "class_allow_list"),
    (edited("resources.json", "class_allow_list", to=[*policy.CLASSES, "os.system"]), "class_allow_list"),
    (edited("resources.json", "class_list_enforcement_mode", to="warn"), "class_list_enforcement_mode"),
    (edited("resources.json", "allow_log_streaming", to=True), "allow_log_streaming"),
    (edited("authorization.json", "permissions", "lead", "byoc", to="any"), "lead bring code"),
    (edited("authorization.json", "permissions", "lead", "byoc", to="o:site"), "lead bring code"),
    (edited("authorization.json", "permissions", "lead", to="any"), "lead bring code"),
    (lambda local: (local.parent / "startup" / "client.key").chmod(0o640), "may be read by others"),
    (lambda local: (local / "resources.json").unlink(), "cannot be read"),
    (lambda local: (local / "authorization.json").write_text("{}"), "cannot be read"),
])  # fmt: skip
def test_a_kit_that_is_more_open_says_so(kits, tmp_path, edit, named):
    kit = kits["north"]
    policy.write_site_rules(kit, RUN, tmp_path / "site.toml")
    edit(kit.folder / "local")
    (problem,) = policy.loosened_rules(kit)
    assert named in problem
    assert "flare-kit" in problem


def test_a_fitted_kit_keeps_its_private_key_to_its_owner(kits, tmp_path):
    (key,) = policy.secret_keys(kits["north"])
    key.chmod(0o644)  # as it comes out of an archive
    policy.write_site_rules(kits["north"], RUN, tmp_path / "site.toml")
    assert key.stat().st_mode & 0o777 == 0o600


def test_a_job_for_a_run_that_has_ended_is_told_from_one_that_goes_on(run_file, tmp_path):
    path = tmp_path / "north" / "site.toml"
    assert not is_done_before(path)  # it never began
    known = SiteHistory.load(path.parent / "remembered.json")
    known.with_run(bytes(16), PastRun(run_file.session.hex()), None).write()
    assert is_done_before(path)
    journal = SiteFile.read(path).journal_of(run_file.session)
    journal.parent.mkdir()
    journal.touch()
    assert not is_done_before(path)  # it goes on
    journal.unlink()
    path.unlink()
    assert not is_done_before(path)
    assert "done before" in explain_exit_code(DONE_BEFORE)
    assert "the log beside" not in explain_exit_code(DONE_BEFORE)
    assert "the log beside" in explain_exit_code(2)


def test_a_party_that_is_killed_again_and_again_is_given_up(tmp_path):
    ended = SimpleQueue()
    Child(["sh", "-c", "echo begun; kill -9 $$"], tmp_path / "log", ended.put).start()
    assert ended.get(timeout=60) == -9
    assert (tmp_path / "log").read_text().split() == ["begun"] * CRASHES


def test_a_site_takes_part_in_no_other_run_than_the_jobs(run_file, kits, tmp_path, monkeypatch):
    policy.write_site_rules(kits["north"], run_file.session, tmp_path / "north" / "site.toml")
    # In the place of FLARE, which is not installed by day.
    workspace = SimpleNamespace(get_root_dir=lambda: kits["north"].folder)
    marks = dict.fromkeys(("publish", "final", "main"), lambda method: method)
    collab = SimpleNamespace(workspace=workspace, **marks)
    monkeypatch.setitem(sys.modules, "nvflare", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "nvflare.collab", SimpleNamespace(collab=collab))
    job = runpy.run_path(find_spec("secfc.deploy.flare.job").origin)
    session, digest = run_file.session.hex(), run_file.digest.hex()
    for asked, why in (
        ((session, digest), None),
        ((session, bytes(32).hex()), "is not the job's"),
        ((bytes(32).hex(), digest), "takes no part in this run"),
    ):
        site = job["FlareSite"](*asked)
        with contextlib.nullcontext() if why is None else pytest.raises(job["Unfit"], match=why):
            assert site._own()[3].digest == run_file.digest
        site._loop.close()


def strings(value):
    if isinstance(value, dict):
        for key, part in value.items():
            yield from ([part] if key == "path" else strings(part))
    elif isinstance(value, list):
        for part in value:
            yield from strings(part)


def test_a_job_names_the_four_classes_and_holds_two_public_numbers(run_file):
    files = job_files(run_file)
    named = {path for content in files.values() for path in strings(content)}
    assert named == set(policy.CLASSES)
    assert all(name.endswith(".json") and "custom" not in name for name in files)
    numbers = {"session": run_file.session.hex(), "digest": run_file.digest.hex()}
    for content in (
        files["server/config/config_fed_server.json"],
        files["site/config/config_fed_client.json"],
    ):
        assert content["components"][0]["args"] == numbers


def test_a_project_has_the_parties_as_sites_and_refuses_names_that_flare_does(run_file):
    found = project_file(run_file, "lead@example.org")["participants"]
    assert [(p["name"], p["type"]) for p in found] == [
        (HOST, "server"), ("north", "client"), ("south", "client"), ("lead@example.org", "admin"),
    ]  # fmt: skip
    spaced = replace(run_file, identities={**run_file.identities, "St. Mary": bytes(32)})
    with pytest.raises(InputError, match=r"'St\. Mary' cannot be a site"):
        project_file(spaced, "lead@example.org")
    with pytest.raises(InputError, match="nvflare://"):
        project_file(replace(run_file, hub="wss://hub.example.org"), "lead@example.org")


def secfc(*arguments, code=0):
    result = CliRunner().invoke(main, ["deploy", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_the_commands_write_both_and_say_what_is_next(run_file, kits, tmp_path):
    said = secfc("flare", tmp_path / "run.toml", "--out", tmp_path / "out")
    assert f"nvflare provision -p {tmp_path}/out/project.yml" in said
    assert "secfc deploy flare-kit site.toml KIT" in said
    assert json.loads((tmp_path / "out/job/meta.json").read_text())["min_clients"] == 2
    for name, kit in kits.items():
        assert "byoc is denied to all" in secfc("flare-kit", tmp_path / name / "site.toml", kit.folder)
        assert not list(policy.loosened_rules(kit))
        assert policy.site_files_by_session(kit)[0] == {run_file.session: tmp_path / name / "site.toml"}
    wrong = secfc("flare-kit", tmp_path / "north/site.toml", kits["south"].folder, code=2)
    assert "is the kit of 'south'" in wrong
    assert "no startup kit" in secfc("flare-kit", tmp_path / "north/site.toml", tmp_path, code=2)
    (tmp_path / "run.toml").write_text(run_file.toml().replace("nvflare://", "wss://"))
    assert "nvflare://" in secfc("flare", tmp_path / "run.toml", "--out", tmp_path / "out", code=2)


def test_a_check_asks_whether_the_server_can_be_reached():
    async def asked():
        server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        there = await check_flare(SimpleNamespace(url=f"nvflare://127.0.0.1:{port}"))
        server.close()
        return there, await check_flare(SimpleNamespace(url=f"nvflare://127.0.0.1:{port}"))

    there, gone = asyncio.run(asked())
    assert (there.state, gone.state) == ("ok", "fail")
    assert "does not answer" in gone.more
