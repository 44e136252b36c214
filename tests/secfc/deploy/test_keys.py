"""A site's keys: under a passphrase, followed by others, and revoked; in the words of its operator."""

import contextlib
import json
import os
import pty
import subprocess
from datetime import date

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

pytest.importorskip("websockets")

from field import SeededCoins
from field.secrets.channels import Identity
from secfc.cli.deploy.hub import _tls as tls_of_hub
from secfc.cli.deploy.hub import take_revocations
from secfc.cli.deploy.join import waiting_of
from secfc.cli.deploy.logs import Log
from secfc.cli.deploy.site import LoadedSite
from secfc.cli.shell.errors import RefusedInput
from secfc.cli.shell.program import main
from secfc.deploy import keys
from secfc.deploy.audit_log import verify_chain
from secfc.deploy.floors import BelowFloor
from secfc.deploy.hub import Hub
from secfc.deploy.keys import (
    KeyNotice,
    KnownKeys,
    announce_key,
    create_key_file,
    identity_fingerprint,
    load_key_file,
    read_public,
    revoke_key,
)
from secfc.errors import InputError
from tests.secfc.deploy.sites import HERE, SECFC, Sites, blobs, sites
from tests.secfc.deploy.test_lines import certificate, pem

A, B, C, D = (Identity(SeededCoins(7, name).bytes(32)) for name in "abcd")
NOON = "2026-03-01T12:00:00+00:00"
LAST = date(2026, 6, 30)
OPTIONS = {"bound": 32.0, "t": 1, "init": "random", "n_init": 8}
PHRASE, NEXT = "correct horse battery", "abcdefabcdef"


@pytest.fixture(autouse=True)
def cheap(monkeypatch):
    monkeypatch.setattr(keys, "COST", 1 << 4)
    for name in ("SECFC_PASSPHRASE", "SECFC_PASSPHRASE_FILE", "SECFC_NEW_PASSPHRASE"):
        monkeypatch.delenv(name, raising=False)


def say(*words, **environment):
    """Exit code, and all that is said."""
    done = CliRunner(env=environment).invoke(main, ["deploy", *map(str, words)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


# --- files ---------------------------------------------------------------------------------------------


def test_a_key_under_a_passphrase_opens_with_it_alone_and_shows_its_public_part_without(tmp_path):
    path = tmp_path / "a.key"
    made = create_key_file(path, PHRASE)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_key_file(path, lambda _: PHRASE).public == made.public == read_public(path)
    for wrong in ("correct horse", "", PHRASE + " "):
        with pytest.raises(InputError, match="does not open"):
            load_key_file(path, lambda _, wrong=wrong: wrong)
    public, secret = path.read_text().splitlines()
    assert load_key_file(path, lambda _: PHRASE).sign(b"x") == made.sign(b"x")
    for altered in (
        f"{public[:-1]}{'0' if public[-1] != '0' else '1'}\n{secret}",  # another public part
        f"{public}\n{secret[:-1]}{'0' if secret[-1] != '0' else '1'}",
        f"{public}\n{secret[:-2]}", secret, public,
    ):  # fmt: skip
        path.write_text(altered)
        with pytest.raises(InputError, match=r"does not open|is no key"):
            load_key_file(path, lambda _: PHRASE)


def test_a_key_that_an_editor_marked_is_read_and_what_is_none_is_not_made_anew(tmp_path):
    path = tmp_path / "a.key"
    found = create_key_file(path)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_key_file(path).public == found.public
    path.write_text("-----BEGIN PRIVATE KEY-----")
    with pytest.raises(InputError, match=r"is no key.* If it was one restore it"):
        load_key_file(path)


def test_a_hubs_key_may_be_under_a_passphrase_and_who_forgets_it_is_told(tmp_path, monkeypatch):
    ours = certificate("ours")
    secret = ours[0].private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(PHRASE.encode())
    )
    (tmp_path / "hub.key").write_bytes(secret)
    (tmp_path / "hub.pem").write_text(pem(ours[1]))
    with pytest.raises(InputError, match=r"hub\.key needs a passphrase, .* let SECFC_PASSPHRASE_FILE name"):
        tls_of_hub(tmp_path / "hub.pem", tmp_path / "hub.key")
    for phrase, why in ((PHRASE, None), (NEXT, "Give PEM files that fit")):
        monkeypatch.setenv("SECFC_PASSPHRASE", phrase)
        with contextlib.nullcontext() if why is None else pytest.raises(RefusedInput, match=why):
            tls_of_hub(tmp_path / "hub.pem", tmp_path / "hub.key")


def test_a_guess_at_a_passphrase_takes_128_mib(monkeypatch, tmp_path):
    asked = {}
    monkeypatch.undo()
    scrypt = keys.Scrypt
    monkeypatch.setattr(keys, "Scrypt", lambda **more: asked.update(more) or scrypt(**{**more, "n": 2}))
    create_key_file(tmp_path / "a.key", PHRASE)
    assert 128 * asked["n"] * asked["r"] == 128 << 20
    assert len(asked["salt"]) == 16


def test_an_operator_puts_a_key_under_a_passphrase_changes_it_and_takes_it_away(tmp_path):
    path = tmp_path / "a.key"
    code, first = say("key", path, "--passphrase", SECFC_PASSPHRASE=PHRASE)
    assert (code, PHRASE in path.read_text()) == (0, False)
    assert say("key", path) == (0, first)  # the second command typed shows it, and asks for nothing
    phrase = tmp_path / "phrase"
    phrase.write_text(f"{PHRASE}\n")
    phrase.chmod(0o640)
    code, said = say(
        "key", path, "--passphrase", SECFC_PASSPHRASE_FILE=str(phrase), SECFC_NEW_PASSPHRASE=NEXT
    )
    assert (code, "may be read by others: a passphrase is its owner's alone" in said) == (2, True)
    phrase.chmod(0o600)
    with_file = {"SECFC_PASSPHRASE_FILE": str(phrase)}
    for short in ("2", "elevenchars", "a" * 60, "abcdeabcdeabcde"):
        code, said = say("key", path, "--passphrase", SECFC_NEW_PASSPHRASE=short, **with_file)
        assert (code, "12 are needed, 6 of them different" in said, short in said) == (2, True, short == "2")
        code, said = say("key", tmp_path / "short.key", "--passphrase", SECFC_PASSPHRASE=short)
        assert (code, (tmp_path / "short.key").exists()) == (2, False), said
    assert load_key_file(path, lambda _: PHRASE).public.hex() in first  # it is as it was
    assert say("key", path, "--passphrase", SECFC_NEW_PASSPHRASE=NEXT, **with_file)[0] == 0
    code, said = say("key", path, "--no-passphrase", SECFC_PASSPHRASE=PHRASE)
    assert (code, "does not open" in said, PHRASE in said) == (2, True, False)
    assert say("key", path, "--passphrase", SECFC_PASSPHRASE=NEXT, SECFC_NEW_PASSPHRASE="")[0] == 2
    assert say("key", path, "--no-passphrase", SECFC_PASSPHRASE=NEXT) == (0, first)
    assert path.read_text().startswith(keys.HEAD)
    assert load_key_file(path).public.hex() in first


def test_whoever_sits_at_a_terminal_is_asked_and_nothing_is_shown(tmp_path):
    def typed(*words, answers):
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*SECFC, *map(str, words)], stdin=theirs, stdout=theirs, stderr=theirs, env=HERE, cwd=tmp_path,
            start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        shown, answers = b"", list(answers)
        while True:
            try:
                shown += os.read(ours, 1024)
            except OSError:
                break
            if answers and shown.endswith(b": "):  # the blank comes once nothing typed is shown any more
                os.write(ours, answers.pop(0).encode() + b"\n")
        os.close(ours)
        return process.wait(60), shown.decode()

    code, said = typed("key", "a.key", "--passphrase", answers=[PHRASE, PHRASE])
    assert (code, PHRASE in said, "New passphrase of a.key" in said) == (0, False, True), said
    code, said = typed("key", "a.key", "--no-passphrase", answers=["wrong"])
    assert (code, "does not open a.key" in said, "wrong" in said) == (2, True, False), said


# --- what is said of keys ------------------------------------------------------------------------------


def known(tmp_path, *notices):
    found = KnownKeys.load(tmp_path)
    for notice in notices:
        found = found.with_notice(notice)
    found.write()
    return KnownKeys.load(tmp_path)


def test_a_key_that_follows_and_the_one_before_are_accepted_until_the_day_that_was_said(tmp_path):
    found = known(tmp_path, announce_key(A, B, LAST, NOON))
    found.refuse({"a": A.public}, begun=False, today=LAST)
    found.refuse({"a": B.public}, begun=False, today=date(2030, 1, 1))
    with pytest.raises(InputError, match=f"accepted until 2026-06-30.*its key {B.public.hex()}"):
        found.refuse({"a": A.public}, begun=False, today=date(2026, 7, 1))
    found.refuse({"a": A.public}, begun=True, today=date(2026, 7, 1))  # what is under way goes on
    assert found.is_same_owner(A.public, B.public)
    assert found.is_same_owner(B.public, A.public)
    assert not found.is_same_owner(A.public, C.public)
    more = found.with_notice(announce_key(B, C, LAST, NOON))
    assert more.is_same_owner(A.public, C.public)
    # The latest word on the day counts, in whichever order they come.
    longer, shorter = (
        announce_key(A, B, day, time) for day, time in ((date(2027, 1, 1), "2026-05"), (LAST, NOON))
    )
    assert known(tmp_path, longer, shorter).until(A.public) == date(2027, 1, 1)


@pytest.mark.parametrize("begun", [False, True])
def test_a_revoked_key_is_refused_also_in_a_run_under_way_and_what_it_announced_is_not_believed(
    tmp_path, begun
):
    found = known(tmp_path, announce_key(A, B, LAST, NOON), revoke_key(A, NOON))
    with pytest.raises(InputError, match=r"revoked: make a run file with .* telephone") as caught:
        found.refuse({"a": A.public}, begun=begun, today=LAST)
    assert ("secfc deploy abort" in str(caught.value)) == begun
    assert not found.is_same_owner(A.public, B.public)
    with pytest.raises(InputError, match="anybody may have made it"):
        found.with_notice(announce_key(A, C, LAST, NOON))
    with pytest.raises(InputError, match="anybody may have made it"):
        found.with_notice(announce_key(D, A, LAST, NOON))


def test_a_second_key_that_is_to_follow_the_same_one_is_refused_until_the_first_is_revoked(tmp_path):
    found = known(tmp_path, announce_key(A, B, LAST, NOON))
    with pytest.raises(InputError, match="two keys are announced"):
        found.with_notice(announce_key(A, C, LAST, NOON))
    again = found.with_notice(revoke_key(B, NOON)).with_notice(announce_key(A, C, LAST, "2026-04"))
    assert again.following(A.public) == C.public


GENUINE = announce_key(A, B, LAST, NOON).record()


@pytest.mark.parametrize("change", [
    {"until": "2099-01-01"}, {"following": C.public.hex()}, {"key": C.public.hex()}, {"time": "2027"},
    {"signature": "00" * 64}, {"proof": "00" * 64}, {"signature": ""}, {"proof": "", "signature": ""},
    {"following": None}, {"until": None}, {"until": "soon"}, {"more": "00"}, {"key": "12"},
])  # fmt: skip
def test_a_notice_that_its_keys_have_not_signed_so_is_refused(change):
    assert KeyNotice.of(GENUINE, "x").following == B.public
    said = {name: value for name, value in (GENUINE | change).items() if value is not None}
    with pytest.raises(InputError, match=r"not signed by|is no notice"):
        KeyNotice.of(said, "x")


# --- an operator's ways --------------------------------------------------------------------------------


@pytest.fixture
def three(tmp_path):
    made = Sites(tmp_path, blobs((12, 12, 12)), options=OPTIONS, k=3)
    pinned = "".join(f'{name} = "{key.hex()}"\n' for name, key in made.run.identities.items())
    for name in made.rows:
        made.write_site(name, named=False, floors=f"[floors.partners]\n{pinned}")
    return made


def site_of(made, name):
    return made.folder / name / "site.toml"


def rotate(made, name, *more, until="2999-12-31"):
    """Announce and name the next key of a site, as an operator does: the announcement."""
    folder = made.folder / name
    out = folder / "next-key.json"
    code, said = say(
        "keys", "rotate", site_of(made, name), folder / "next.key", "--until", until, "--out", out
    )
    assert code == 0, said
    (line,) = [line.strip() for line in said.splitlines() if line.startswith("  key = ")]
    path = site_of(made, name)
    path.write_text(path.read_text().replace('key = "site.key"', line))
    return out


def agreed(made, name):
    return LoadedSite.read(site_of(made, name)).agreed()


def test_a_partner_accepts_the_next_key_once_it_has_learned_of_it_and_both_for_a_while(three):
    out = rotate(three, "site-0")
    for name in three.rows:
        agreed(three, name)  # run files with the old key still run, here and elsewhere
    old = three.run
    new = {**old.identities, "site-0": read_public(three.folder / "site-0" / "next.key")}
    three.change(identities=new)
    assert LoadedSite.read(site_of(three, "site-0")).identity.public == new["site-0"]
    with pytest.raises(BelowFloor, match="partners"):
        agreed(three, "site-1")
    code, said = say("keys", "learn", site_of(three, "site-1"), out)
    assert (code, identity_fingerprint(new["site-0"]) in said, "(site-0)" in said) == (0, True, True)
    agreed(three, "site-1")
    assert say("keys", "learn", site_of(three, "site-1"), out)[0] == 0  # the second time nothing is new
    assert (three.folder / "site-1" / "keys.jsonl").read_text().count("\n") == 1
    three.change(identities=old.identities)
    agreed(three, "site-1")
    code, said = say("check", site_of(three, "site-1"), "--offline")
    assert f"site-0's is accepted until 2999-12-31; {identity_fingerprint(new['site-0'])} follows" in said
    assert "site.key lies as it is" in said


def test_a_key_that_was_stolen_is_revoked_everywhere_and_its_owner_goes_on_with_the_next(three):
    first = rotate(three, "site-0")
    folder, old = three.folder / "site-0", three.run.identities["site-0"]
    out = folder / "revoked.json"
    code, said = say("keys", "revoke", site_of(three, "site-0"), "--key", old.hex(), "--out", out)
    assert code == 0, said
    for name in ("site-0", "site-1"):
        if name == "site-1":
            assert say("keys", "learn", site_of(three, name), first, out)[0] == 0
        code, said = say("join", site_of(three, name))
        assert (code, "which is revoked: make a run file" in said) == (2, True), said
        assert not (three.folder / name / "journal").exists()
    agreed(three, "site-2")  # which does not know
    code, said = say("keys", "revoke", site_of(three, "site-2"), "--key", old.hex())
    assert (code, "at this site. Tell the others" in said) == (0, True)
    with pytest.raises(InputError, match="is revoked"):
        agreed(three, "site-2")
    assert (
        "is accepted no more at this site" in say("audit", "show", three.folder / "site-2" / "audit.jsonl")[1]
    )
    # The owner's record goes on under its next key, and the lines say why.
    data = (folder / "audit.jsonl").read_bytes()
    assert [str(found) for found in verify_chain(data)] == []
    assert [json.loads(line)["what"] for line in data.splitlines()] == ["rotate", "revoke", "join"]
    code, said = say("audit", "show", folder / "audit.jsonl")
    assert (code, "is followed by" in said, "is revoked" in said) == (0, True, True), said


def test_a_party_that_runs_hears_of_a_revoked_key_and_a_hub_of_its_notice(three):
    rotate(three, "site-0")
    out, notices = three.folder / "revoked.json", three.folder / "notices"
    old = three.run.identities["site-0"]
    asked = waiting_of(LoadedSite.read(site_of(three, "site-1")), Log("site-1"))["without"]
    assert asked() == ()
    assert say("keys", "revoke", site_of(three, "site-0"), "--key", old.hex(), "--out", out)[0] == 0
    assert asked() == ()  # which nobody told it
    assert say("keys", "learn", site_of(three, "site-1"), out)[0] == 0
    with pytest.raises(InputError, match="which is revoked"):
        asked()
    hub = Hub({"run": three.run.identities})
    assert (take_revocations(hub, [notices]), hub.revoked) == (set(), set())  # there is no such folder
    notices.mkdir()
    (notices / "a.json").write_text("{")
    out.rename(notices / "b.json")
    (fault,) = take_revocations(hub, [notices])
    assert (hub.revoked, "a.json is no notice of a key" in fault) == ({old}, True)


def test_a_command_makes_its_own_files_private_and_no_others(three):
    before = os.umask(0o022)
    try:
        rotate(three, "site-0")
        for name in ("next.key", "keys.jsonl", "audit.jsonl"):
            assert (three.folder / "site-0" / name).stat().st_mode & 0o777 == 0o600
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)


def test_a_record_that_goes_on_under_a_key_that_nobody_announced_is_found(three):
    folder = three.folder / "site-0"
    rotate(three, "site-0")
    lines = (folder / "audit.jsonl").read_bytes().splitlines(keepends=True)
    three.change(identities={**three.run.identities, "site-0": read_public(folder / "next.key")})
    site = LoadedSite.read(site_of(three, "site-0"))
    site.audit.append("join", "refused")
    data = (folder / "audit.jsonl").read_bytes()
    assert not list(verify_chain(data))
    (folder / "audit.jsonl").unlink()
    thief = Identity(SeededCoins(9, "thief").bytes(32))
    forged = json.loads(lines[0])["notice"] | {"following": thief.public.hex()}
    log = LoadedSite.read(site_of(three, "site-0")).audit
    for notice in (forged, None):  # what is not signed by the key before introduces none
        (folder / "audit.jsonl").unlink(missing_ok=True)
        old = load_key_file(folder / "site.key")
        type(log)(log.path, log.party, old).append("rotate", "kept", **({"notice": notice} if notice else {}))
        type(log)(log.path, log.party, thief).append("join", "refused")
        assert ["line 2: another key" in str(found) for found in verify_chain(log.path.read_bytes())] == [
            True
        ]


@pytest.mark.nightly
@pytest.mark.deployment
def test_a_key_is_changed_in_the_middle_of_a_suspended_run_which_goes_on(tmp_path, nursery, monkeypatch):
    monkeypatch.undo()
    with sites(tmp_path, blobs((12, 12, 12)), k=3, options=OPTIONS, nursery=nursery) as run:
        phrase = tmp_path / "phrase"
        phrase.write_text(PHRASE)
        phrase.chmod(0o600)
        key, secret = tmp_path / "site-0" / "site.key", {"SECFC_PASSPHRASE_FILE": str(phrase)}
        assert say("key", key, "--passphrase", SECFC_PASSPHRASE=PHRASE)[0] == 0
        run.start("hub")
        assert run.start("site-0").wait(60) == 2  # nobody is there to ask
        assert "start this command at a terminal, or let SECFC_PASSPHRASE_FILE" in run.log("site-0")
        run.start("site-0", **secret)
        for name in ("site-1", "site-2", "server"):
            run.start(name)
        run.until("site-0", "clustering")
        run.kill("site-0")
        assert say("key", key, "--no-passphrase", SECFC_PASSPHRASE=PHRASE)[0] == 0
        out = rotate(run, "site-0", until=date.today().isoformat())
        assert say("keys", "learn", site_of(run, "site-1"), out)[0] == 0
        site = site_of(run, "site-0")
        only = site.read_text().replace('["next.key", "site.key"]', '"next.key"')
        whole = site.read_text()
        site.write_text(only)
        assert run.start("site-0").wait(60) == 2
        assert 'after a change of keys both, as key = ["next.key", "site.key"]' in run.log("site-0")
        site.write_text(whole)
        run.start("site-0")
        assert set(run.everybody().values()) == {0}, run.log("site-0")
        audits = [tmp_path / name / "audit.jsonl" for name in run.rows]
        reports = [tmp_path / name / "results" / "report.json" for name in run.rows]
        code, said = say("audit", "verify", *audits, *reports)
        assert (code, "fail" in said) == (0, False), said
