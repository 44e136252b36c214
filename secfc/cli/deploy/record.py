"""What a site puts on record: the terms that it signs, what the others signed, and how its runs end."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.deploy.run_file import leakage_sentences, spared_clients
from secfc.cli.shell.errors import FewerSites, Interrupted, Suspended, full_disc_told
from secfc.deploy.audit_log import read_seconds
from secfc.deploy.consent import (
    DECISION,
    KEY,
    AcceptedTerms,
    Decision,
    DecisionExchange,
    SignedConsent,
    draw_salt,
    floors_digest,
    read_consent,
)
from secfc.deploy.floors import BelowFloor
from secfc.errors import InputError, PartyId, problem_id
from secfc.roles.description import describe_value
from secfc.transport.journal import OTHER_PARTY

if TYPE_CHECKING:
    from secfc.cli.deploy.run_file import Built
    from secfc.cli.deploy.site import LoadedSite


def sign_terms(site: LoadedSite, asked: Built, journal: bytes, key: bytes = bytes(KEY)) -> SignedConsent:
    """What this site signs in the run of this journal: once, also if its process dies and comes again.

    key: under which it tells what it decides.  Raises InputError, OSError.
    """
    import secfc

    audit, name = site.audit, journal.hex()
    for said in reversed(audit.entries()):
        if said["what"] == "accept" and said.get("journal") == name:
            consent = said["consent"]
            return SignedConsent(consent["text"].encode(), bytes.fromhex(consent["signature"]), key)
    floors, salt, stakes = describe_value(site.file.floors), draw_salt(), asked.stakes
    mine = AcceptedTerms(
        site.run.session, site.run.digest, stakes.policy, stakes.t, stakes.epsilon, stakes.delta,
        site.file.party, floors_digest(floors, salt), f"secfc {secfc.__version__}",
        read_seconds(), audit.head(),
    ).sign(site.identity, key)  # fmt: skip
    with full_disc_told(audit.path):
        audit.append(
            "accept", "signed", run=site.run.name, session=site.run.session.hex(), journal=name,
            consent=mine.record(site.identity.public), floors=json.loads(floors), salt=salt.hex(),
            shows=list(leakage_sentences(asked)),
        )  # fmt: skip
    return mine


def keep_consents(site: LoadedSite, journal: bytes, found: Mapping[PartyId, SignedConsent]) -> None:
    """Put on file what all parties of the run of this journal signed; once.  Raises InputError, OSError."""
    name = journal.hex()
    if any(said["what"] == "consents" and said.get("journal") == name for said in site.audit.entries()):
        return
    consents = {party: one.record(site.run.identities[party]) for party, one in found.items()}
    with full_disc_told(site.audit.path):
        site.audit.append(
            "consents", "verified", session=site.run.session.hex(), journal=name, consents=consents
        )


def kept_consents(site: LoadedSite) -> dict[str, Any]:
    """What all parties of this run signed, as this site has it on file."""
    session = site.run.session.hex()
    found = [e for e in site.audit.entries() if e["what"] == "consents" and e.get("session") == session]
    return dict(found[-1]["consents"]) if found else {}


def sign_decision(site: LoadedSite, without: tuple[PartyId, ...]) -> None:
    """Put on record that this site goes on without these clients, signed.  Raises InputError, OSError."""
    run, me = site.run, site.file.party
    record = Decision(run.session, run.digest, me, without, read_seconds()).sign(site.identity)
    site.audit.append(
        "go-on", "decided", session=run.session.hex(), without=list(without), decisions={me: record}
    )


def kept_decisions(site: LoadedSite) -> dict[PartyId, dict[str, str]]:
    """Decisions to go on in this run, of each party that without the most clients, as this site has them."""
    found: dict[PartyId, dict[str, str]] = {}
    for said in site.audit.entries():
        if said.get("session") == site.run.session.hex():
            for party, record in said.get("decisions", {}).items():
                if party not in found or len(decided_without(record)) >= len(decided_without(found[party])):
                    found[party] = record
    return found


def decided_without(record: Mapping[str, str]) -> list[str]:
    """Without whom a kept decision goes on."""
    return list((read_consent(record, DECISION) or {}).get("without", ()))


def decision_exchange(site: LoadedSite, asked: Built) -> DecisionExchange:
    """How this site tells what its operator decides, and puts on record what the others' did."""

    def own() -> Mapping[str, str] | None:
        return kept_decisions(site).get(site.file.party) if site.without() else None

    def keep(party: PartyId, record: Mapping[str, str]) -> None:
        with suppress(OSError, InputError):  # which ends no run; the peer says it again when it comes back
            if record not in [said.get("decisions", {}).get(party) for said in site.audit.entries()]:
                session = site.run.session.hex()
                site.audit.append("decision", "verified", session=session, decisions={party: dict(record)})

    run, spared = site.run, spared_clients(asked)
    return DecisionExchange(run.session, run.digest, run.identities, spared, own, keep, site.file.party)


@contextmanager
def failures_recorded(site: LoadedSite, what: str, digest: Callable[[], str | None]) -> Iterator[None]:
    """Within the body, every way in which a run does not end well is put on record.

    what: the command.  digest: of the report that the body left, None for none.
    """
    try:
        yield
    except FewerSites:  # which ended, and said so
        raise
    except BaseException as error:
        if OTHER_PARTY in str(error):  # whose folder this is
            raise
        outcome, facts = describe_failure(error)
        # The failure is told in any case, also where no line can be written.
        with suppress(OSError, InputError):
            if (found := digest()) is not None:
                facts["report"] = found
            site.audit.append(what, outcome, session=site.run.session.hex(), **facts)
        raise


def describe_failure(error: BaseException) -> tuple[str, dict[str, Any]]:
    """How a run did not end well, in a word, and what is public of it."""
    origin = error.__cause__ if isinstance(error, click.ClickException) and error.__cause__ else error
    facts: dict[str, Any] = {"error": type(origin).__name__}
    if number := problem_id(origin):
        facts["problem"] = number
    if isinstance(origin, BelowFloor):
        facts["floor"] = origin.floor
    parties = getattr(origin, "parties", None) or getattr(origin, "party", None)
    if parties:
        facts["about"] = [parties] if isinstance(parties, str) else list(parties)
    if isinstance(error, Suspended):
        return "suspended", facts
    if isinstance(error, KeyboardInterrupt | Interrupted):
        return "interrupted", facts
    refused = isinstance(error, InputError) or getattr(error, "exit_code", 1) == 2
    return ("refused" if refused else "failed"), facts
