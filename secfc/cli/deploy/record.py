"""What a site puts on record: the terms that it signs, what the others signed, and how its runs end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.deploy.run_file import leakage_sentences
from secfc.cli.errors import FewerSites, Interrupted, Suspended, full_disc_told
from secfc.deploy.audit_log import read_seconds
from secfc.deploy.consent import AcceptedTerms, SignedConsent, draw_salt, floors_digest
from secfc.deploy.floors import BelowFloor
from secfc.errors import InputError, PartyId, problem_id
from secfc.roles.description import describe_value

if TYPE_CHECKING:
    from secfc.cli.deploy.run_file import Built
    from secfc.cli.deploy.site import LoadedSite


def sign_terms(site: LoadedSite, asked: Built, journal: bytes) -> SignedConsent:
    """What this site signs in the run of this journal: once, also if its process dies and comes again.

    Raises InputError, OSError.
    """
    import secfc

    audit, name = site.audit, journal.hex()
    for said in reversed(audit.entries()):
        if said["what"] == "accept" and said.get("journal") == name:
            consent = said["consent"]
            return SignedConsent(consent["text"].encode(), bytes.fromhex(consent["signature"]))
    floors, salt, stakes = describe_value(site.file.floors), draw_salt(), asked.stakes
    mine = AcceptedTerms(
        site.run.session, site.run.digest, stakes.policy, stakes.t, stakes.epsilon, stakes.delta,
        site.file.party, floors_digest(floors, salt), f"secfc {secfc.__version__}",
        read_seconds(), audit.head(),
    ).sign(site.identity)  # fmt: skip
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


@contextmanager
def failures_recorded(site: LoadedSite, what: str) -> Iterator[None]:
    """Within the body, every way in which a run does not end well is put on record.  what: the command."""
    try:
        yield
    except FewerSites:  # which ended, and said so
        raise
    except BaseException as error:
        outcome, facts = describe_failure(error)
        # The failure is told in any case, also where no line can be written.
        with suppress(OSError, InputError):
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
