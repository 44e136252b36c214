"""`secfc deploy audit`: are a site's records whole, and what do they say of its runs?

Whoever looks needs the files alone, `audit.jsonl` and `report.json` of one site or of several, and no key.
"""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from secfc.cli.deploy.readiness import CheckResult
from secfc.cli.shell.errors import Lazily, RefusedInput, bad_input
from secfc.cli.shell.help_lines import echo_folded
from secfc.cli.shell.options import argument, command
from secfc.deploy.audit_log import (
    Finding,
    Head,
    announced_key,
    canonical_json,
    check_heads,
    parse_line,
    verify_chain,
)
from secfc.deploy.consent import DECISION, floors_digest, head_in, read_consent
from secfc.deploy.keys import identity_fingerprint

# Where each command is, and its line in the help.
COMMANDS = {
    "verify": ("secfc.cli.deploy.audit:verify_records", "Was a record altered, cut or put elsewhere?"),
    "show": ("secfc.cli.deploy.audit:show_records", "Who took part, on which terms, and what was opened?"),
}
Facts = Mapping[str, Any]


@click.group("audit", cls=Lazily, entries=COMMANDS)
def audit_group() -> None:
    """Verify and show what sites have on record of their runs."""


@dataclass(frozen=True)
class RecordFiles:
    """What `secfc deploy audit verify` and `show` take."""

    files: tuple[Path, ...] = argument("FILE...")


@dataclass(frozen=True)
class Chain:
    """An audit.jsonl as it is.  entries: its readable lines."""

    path: Path
    data: bytes

    @property
    def entries(self) -> list[dict[str, Any]]:
        """Lines that are in form, unverified."""
        return [said for line in self.data.split(b"\n")[:-1] if (said := parse_line(line)) is not None]

    @property
    def keys(self) -> tuple[str, ...]:
        """The public identities that its lines name, in their order."""
        return tuple(dict.fromkeys(said["key"] for said in self.entries))


@dataclass(frozen=True)
class Records:
    """Files of one site or of several."""

    chains: tuple[Chain, ...]
    reports: Mapping[Path, tuple[str, Facts]] = field(default_factory=dict)

    @classmethod
    def read(cls, files: tuple[Path, ...]) -> Records:
        """Chains, and reports with their SHA-256.  Raises RefusedInput, OSError as InputError."""
        chains, reports = [], {}
        with bad_input(OSError):
            for path in files:
                data = path.read_bytes()
                if path.suffix == ".jsonl":
                    chains.append(Chain(path, data))
                    continue
                try:
                    said = json.loads(data)
                    said["consents"], said["party"], said["session"]
                except (ValueError, KeyError, TypeError):
                    raise RefusedInput(
                        f"{path} is neither an audit.jsonl nor a report.json: name files that a site wrote."
                    ) from None
                reports[path] = hashlib.sha256(data).hexdigest(), said
        if not chains:
            raise RefusedInput("name at least one audit.jsonl; what others hold of it may follow.")
        return cls(tuple(chains), reports)

    def heads(self) -> dict[str, list[tuple[str, Head]]]:
        """By public identity: who holds which end of that party's audit, by consents it has signed."""
        found = defaultdict(list)
        kept = [(str(path), said["consents"]) for path, (_, said) in self.reports.items()]
        kept += [(str(c.path), e.get("consents")) for c in self.chains for e in c.entries]
        for holder, consents in kept:
            for record in consents.values() if isinstance(consents, dict) else ():
                facts = read_consent(record)
                if facts is not None and (head := head_in(facts)) is not None:
                    found[record["key"]].append((holder, head))
        return found


@command(RecordFiles)
@click.pass_context
def verify_records(context: click.Context, given: RecordFiles) -> None:
    """Look whether records are as their sites wrote them.

    FILEs are audit.jsonl of one site or of several, and report.json of their results. Each line is signed and
    names the one before, so what was altered, left out or put elsewhere is found in a file alone. Lines that
    are cut off at its end, and a file that the owner of the key wrote anew, are found by what other files
    hold of it: give the others' too.

    \b
    Examples:
      secfc deploy audit verify audit.jsonl results/report.json
      secfc deploy audit verify a/audit.jsonl b/audit.jsonl c/audit.jsonl

    Exit codes: 0 nothing is wrong; 1 something is; 2 a file is none of these.
    """
    bad = False
    for line in verify_lines(Records.read(given.files)):
        echo_folded(f"{line.state:4}  {line.what}  {line.more}", 6)
        bad = bad or line.state == "fail"
    context.exit(int(bad))


def verify_lines(records: Records) -> Iterator[CheckResult]:
    """Findings, file by file."""
    heads = records.heads()
    for chain in records.chains:
        held = [one for key in chain.keys for one in heads[key]]
        wrong = [*verify_chain(chain.data), *wrong_words(chain), *check_heads(chain.data, held)]
        for found in dict.fromkeys(map(str, wrong)):
            yield CheckResult("fail", str(chain.path), found)
        if wrong:
            continue
        count = len(chain.entries)
        who = f" of {chain.entries[0]['party']}, by the key " if chain.keys else ""
        who += ", and then ".join(map(identity_fingerprint_of, chain.keys))
        yield CheckResult("ok", str(chain.path), f"{count} lines{who}")
        last = max((head.lines for holder, head in held if holder != str(chain.path)), default=0)
        if count > last:
            yield CheckResult(
                "note", str(chain.path), f"no other of these files holds the lines from {last + 1} on: if "
                "some were cut off at the end, nothing here would show it"
            )  # fmt: skip
    for path, (digest, report) in records.reports.items():
        yield from report_lines(records, path, digest, report)


def report_lines(records: Records, path: Path, digest: str, report: Facts) -> Iterator[CheckResult]:
    """Whether a report is the one whose end its site put on record."""
    own = [c for c in records.chains if any(e["party"] == report["party"] for e in c.entries)]
    if not own:
        yield CheckResult("note", str(path), f"the audit.jsonl of {report['party']} is not among these files")
        return
    ends = [e.get("report") for c in own for e in c.entries if e.get("session") == report["session"]]
    if digest in ends:
        yield CheckResult("ok", str(path), "it is as it was when its run ended, or stopped")
    else:
        yield CheckResult(
            "fail", str(path), "no line of its site's audit holds its end: one of the two was altered or cut"
        )


def wrong_words(chain: Chain) -> Iterator[Finding]:
    """What a site has on record and cannot have, whoever signed the line."""
    for said in chain.entries:
        consents = [*said["consents"].values()] if "consents" in said else []
        consents += [said["consent"]] if "consent" in said else []
        decisions = said.get("decisions", {})
        if any(not is_decision(chain, said, party, one) for party, one in decisions.items()):
            yield Finding(said["n"] + 1, "it holds a decision that its party has not signed for this run")
        elif any(read_consent(one) is None for one in consents):
            yield Finding(said["n"] + 1, "it holds a consent that its key has not signed")
        elif "consent" in said:
            signed = read_consent(said["consent"]) or {}
            opened = floors_digest(canonical_json(said["floors"]), bytes.fromhex(said["salt"]))
            if signed.get("floors") != {"bytes": opened.hex()}:
                yield Finding(said["n"] + 1, "its floors are not those that its consent was bound to")


def is_decision(chain: Chain, said: Facts, party: str, record: Any) -> bool:
    """Whether a decision is its party's, of the line's run, by the key and on the terms of its consent.

    Of a site that decides before consents have come, by a key of its own.
    """
    facts, session = read_consent(record, DECISION), said.get("session")
    if facts is None or (facts.get("party"), facts.get("session")) != (party, {"bytes": session}):
        return False
    kept = [
        e["consents"].get(party) for e in chain.entries if "consents" in e and e.get("session") == session
    ]
    if not kept:
        return party == said["party"] and record["key"] in chain.keys
    agreed = read_consent(kept[-1])
    return agreed is not None and (record["key"], facts["terms"]) == (kept[-1]["key"], agreed["terms"])


@command(RecordFiles)
def show_records(given: RecordFiles) -> None:
    """Show, run by run, who took part, on which terms, with which software, and what was opened.

    FILEs are audit.jsonl of one site or of several, and report.json of their results; they are verified
    first. Compare the fingerprints of keys with those that the sites read out.

    \b
    Example:
      secfc deploy audit show audit.jsonl results/report.json
    """
    records = Records.read(given.files)
    if wrong := [line for line in verify_lines(records) if line.state == "fail"]:
        raise RefusedInput(f"{wrong[0].what}: {wrong[0].more}. See `secfc deploy audit verify`.")
    for chain in records.chains:
        for line in walk_lines(chain, [said for _, said in records.reports.values()]):
            click.echo(line)


def walk_lines(chain: Chain, reports: list[Facts]) -> Iterator[str]:
    """What a verified chain says, run by run in the order of their first lines."""
    yield from key_lines(chain)
    sessions = dict.fromkeys(e["session"] for e in chain.entries if "session" in e)
    for session in sessions:
        lines = [e for e in chain.entries if e.get("session") == session]
        name = next((e["run"] for e in lines if "run" in e), "a run that never began here")
        yield f"{printable_text(name)}, session {session[:16]}, as {lines[0]['party']} has it on record"
        for said in lines:
            yield f"  {said['time']}  {said['by']}: {entry_sentence(said)}"
            yield from party_lines(said)
        for report in reports:
            if report["session"] == session and report["party"] == lines[0]["party"]:
                yield f"  report: terms {identity_fingerprint_of(report['terms'])}"
                if report["data_sha256"] is not None:
                    yield f"    on a data file of SHA-256 {report['data_sha256']}"
                yield from (f"    learned: {sentence}" for sentence in report["learned"])


def key_lines(chain: Chain) -> Iterator[str]:
    """What was done to keys."""
    for said in chain.entries:
        if (notice := announced_key(said, signed=False)) is not None:
            now, then = identity_fingerprint(notice.key), notice.following
            by = "is revoked" if notice.is_signed else "is accepted no more at this site"
            more = by if then is None else (
                f"is followed by {identity_fingerprint(then)}, and accepted until {notice.until}"
            )  # fmt: skip
            yield f"{said['time']}  {said['by']}: {said['what']}: the key {now} {more}"


def party_lines(said: Facts) -> Iterator[str]:
    """Who signed which terms, and what these show."""
    for party, record in said.get("consents", {}).items():
        facts = read_consent(record) or {}
        digest = facts["terms"]["bytes"]
        time, software = printable_text(facts["time"]), printable_text(facts["software"])
        yield (
            f"    {party}, key {identity_fingerprint(bytes.fromhex(record['key']))}, signed at {time} with "
            f"{software}, protocol {facts['protocol']}"
        )
        yield f"      terms {identity_fingerprint_of(digest)}, policy {facts['policy']}, t={facts['t']}" + (
            "" if facts["epsilon"] is None else f", epsilon={facts['epsilon']}, delta={facts['delta']}"
        )
    for party, record in said.get("decisions", {}).items():
        facts, key = read_consent(record, DECISION) or {}, identity_fingerprint_of(record["key"])
        names = ", ".join(map(printable_text, facts["without"]))
        yield f"    {party}, key {key}, signed at {printable_text(facts['time'])}: to go on without {names}"
    for sentence in said.get("shows", ()):
        yield f"    would be shown: {sentence}"


def entry_sentence(said: Facts) -> str:
    """A line of an audit, for people."""
    match said["what"]:
        case "accept":
            return "signed the terms"
        case "consents":
            return "had everybody's signed terms, before any row was shared"
        case "go-on":
            return f"decided to go on without {', '.join(said['without'])}"
        case "charge":
            return "wrote down what the run spends, before anything of rows was said"
        case "decision":
            return "had the signed decision of another"
        case "abort":
            return "ended this site's part for good"
    left = [*said.get("excluded", ()), *said.get("gone_on_without", ())]
    more = [f"without {', '.join(dict.fromkeys(left))}"] if left else []
    more += [str(said[name]) for name in ("problem", "error", "floor") if name in said]
    more += [f"about {', '.join(said['about'])}"] if "about" in said else []
    return " ".join((f"{said['what']}: {said['outcome']}", *more))


def identity_fingerprint_of(digest: str) -> str:
    """Digits as they are read out."""
    return identity_fingerprint(bytes.fromhex(digest))


def printable_text(text: object) -> str:
    """What another party chose, as a terminal may show it."""
    said = str(text)
    return said if said.isprintable() else ascii(said)
