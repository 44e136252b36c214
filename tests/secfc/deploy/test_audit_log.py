"""The chain of a site's audit: each way of falsifying it is found, or said to be beyond finding."""

import json
import os
import threading
from dataclasses import replace

import pytest

from field import SeededCoins
from field.secrets.channels import Identity
from secfc.deploy.audit_log import (
    PURPOSE,
    AuditLog,
    Head,
    canonical_json,
    check_heads,
    hash_line,
    verify_chain,
)
from secfc.errors import InputError

OWN, OTHER = (Identity(SeededCoins(5, name).bytes(32)) for name in ("own", "other"))


@pytest.fixture
def log(tmp_path):
    made = AuditLog(tmp_path / "audit.jsonl", "a", OWN)
    for number in range(5):
        made.append("join", "suspended", number=number)
    return made


def findings(data):
    return [str(found) for found in verify_chain(data)]


def test_a_file_that_its_site_wrote_is_whole_and_private(log, monkeypatch):
    assert findings(log.path.read_bytes()) == []
    assert findings(b"") == []
    assert log.path.stat().st_mode & 0o777 == 0o600
    assert [said["n"] for said in log.entries()] == list(range(5))
    assert log.head() == Head(5, hash_line(log.path.read_bytes().splitlines()[-1]))
    kept = []
    monkeypatch.setattr(os, "fsync", lambda file: kept.append(os.fstat(file).st_size))
    log.append("join", "finished")
    assert kept[-1] == log.path.stat().st_size  # on disk, and all of it


def rewritten(line, identity, **changes):
    said = json.loads(line) | changes | {"key": identity.public.hex()}
    del said["signature"]
    said["signature"] = identity.sign(PURPOSE + canonical_json(said)).hex()
    return canonical_json(said)


FALSIFIED = {
    "a word is altered": lambda L: [L[0], L[1].replace(b"suspended", b"finished!"), *L[2:]],
    "an altered line is signed by another key": lambda L: [*L[:4], rewritten(L[4], OTHER, outcome="x")],
    "an altered line is signed by the site's key": lambda L: [
        L[0],
        rewritten(L[1], OWN, outcome="x"),
        *L[2:],
    ],
    "a line is left out": lambda L: [*L[:2], *L[3:]],
    "the first line is left out": lambda L: L[1:],
    "two lines change places": lambda L: [L[0], L[2], L[1], *L[3:]],
    "a line comes twice": lambda L: [*L[:3], L[2], *L[3:]],
    "a line is spelled otherwise": lambda L: [L[0], L[1].replace(b'"n":1', b'"n": 1'), *L[2:]],
    "a line is none": lambda L: [L[0], b"{}", *L[2:]],
    "a line is empty": lambda L: [L[0], b"", *L[1:]],
}


@pytest.mark.parametrize("how", FALSIFIED)
def test_what_is_falsified_is_found_in_the_file_alone(log, how):
    lines = FALSIFIED[how](log.path.read_bytes().splitlines())
    assert findings(b"\n".join(lines) + b"\n")


def test_every_flipped_byte_is_found(log):
    data = log.path.read_bytes()
    for place in range(0, len(data), 7):
        flipped = bytearray(data)
        flipped[place] ^= 1
        assert findings(bytes(flipped)), place


def test_lines_that_are_cut_off_at_the_end_are_found_by_whoever_holds_an_end_of_it_and_by_nobody_else(log):
    data, head = log.path.read_bytes(), log.head()
    cut = b"".join(data.splitlines(keepends=True)[:3])
    assert findings(cut) == []  # by itself it is a shorter file
    held = [("b", head)]
    assert list(check_heads(data, held)) == []
    (found,) = check_heads(cut, held)
    assert "b holds its word that it had 5 lines; it has 3" in str(found)
    assert list(check_heads(cut, [("b", Head(3, hash_line(cut.splitlines()[-1])))])) == []


def test_a_file_that_the_owner_of_the_key_writes_anew_is_found_by_whoever_holds_an_end_of_it(log, tmp_path):
    again = AuditLog(tmp_path / "again.jsonl", "a", OWN)
    for number in range(7):
        again.append("join", "finished", number=number)
    data = again.path.read_bytes()
    assert findings(data) == []
    (found,) = check_heads(data, [("b", log.head())])
    assert "were others" in str(found)
    assert list(check_heads(data, [("b", Head())])) == []


def test_half_a_line_is_found_and_the_next_line_says_that_it_was_cut_off(log):
    with log.path.open("ab") as file:
        file.write(b'{"half')
    assert "half a line of 6 bytes" in findings(log.path.read_bytes())[0]
    log.append("join", "finished")
    assert findings(log.path.read_bytes()) == []
    assert log.entries()[-1]["torn"] == 6


def test_what_is_no_audit_is_not_appended_to(tmp_path):
    log = AuditLog(tmp_path / "audit.jsonl", "a", OWN)
    log.path.write_bytes(b"something else\n")
    with pytest.raises(InputError, match="audit verify"):
        log.append("join", "finished")
    assert log.path.read_bytes() == b"something else\n"
    with pytest.raises(InputError, match="line 1"):
        log.entries()


def test_processes_that_append_at_once_make_one_chain(tmp_path):
    def append():
        for _ in range(5):
            AuditLog(tmp_path / "audit.jsonl", "a", OWN).append("join", "finished")

    threads = [threading.Thread(target=append) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    data = (tmp_path / "audit.jsonl").read_bytes()
    assert findings(data) == []
    assert len(data.splitlines()) == 20


def test_a_user_without_a_name_is_told_by_number(tmp_path, monkeypatch):
    def nobody():
        raise KeyError("no such user")

    monkeypatch.setattr("getpass.getuser", nobody)
    said = AuditLog(tmp_path / "audit.jsonl", "a", OWN).append("join", "finished")
    assert said["by"] == f"uid {os.getuid()}"


def test_a_party_of_the_same_run_puts_nothing_on_the_record_of_another(log):
    session = "00" * 32
    log.append("join", "suspended", session=session)
    before = log.path.read_bytes()
    other = replace(log, party="server")
    with pytest.raises(InputError, match=f"record of '{log.party}' in this run, not of 'server'.* folder"):
        other.append("serve", "failed", session=session)
    assert log.path.read_bytes() == before
    other.append("serve", "failed", session="ff" * 32)  # the same site may serve in another run
