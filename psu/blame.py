"""Whom a union names, and why: a row for every kind of message, which other protocols' tables take in.

What is missing is no fault, though a union ends by it and says who was not heard; what no honest party sends,
by its form or place, or by a proof that fails, is proof; what contradicts something else is suspicion.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from psu.errors import UnionAborted

# The number of the relay, beside those of clients.
RELAY = -1


class Absence(Enum):
    """What becomes of a run in which a message does not come, from the least to the most."""

    SPARED = "goes on: whoever waited does without, or alone has no result"
    REPEATED = "goes on: one of two who did not hear each other is left out, and the question asked anew"
    EXCLUDED = "goes on, without rows of who was not heard, or did not hear; ends if IDs were united"
    ENDS = "ends, if nobody comes back"


@dataclass(frozen=True)
class BlameRow:
    """What follows where messages of these kinds are missing, or contradict others.

    kinds: names of classes of messages.  doubts: whom contradictions make suspects, as roles in the order in
    which they are named, joined by " + "; and what contradicts what.  proofs: the same of what is proof
    besides a wrong form, kind or place, of which no row need speak.
    """

    kinds: tuple[str, ...]
    absence: Absence
    doubts: Mapping[str, str] = field(default_factory=dict)
    proofs: Mapping[str, str] = field(default_factory=dict)


SILENT = "nothing came of them, or of one that carries it"
SEALED = "it was altered, or comes again"

UNION_TABLE = (
    BlameRow(("Begin", "HeldOnce"), Absence.ENDS),
    BlameRow(("Offer",), Absence.ENDS, {"silent": SILENT, "sender": "the pinned identity did not sign it"}),
    BlameRow(
        ("KeyPacket",),
        Absence.ENDS,
        {"silent": SILENT, "sender": SEALED},
        {"sender": "it has keys of other sets than its sender deals"},
    ),
    BlameRow(
        ("ShareBlock",),
        Absence.ENDS,
        {"silent": SILENT, "sender": SEALED + ", or is of another table"},
        {"sender": "it has another size than the table, or residues that are not canonical"},
    ),
    BlameRow(
        ("MaskedBlock",),
        Absence.ENDS,
        {"silent": SILENT, "sender": "it is repeated, or of another table or size"},
    ),
    BlameRow(
        ("Opening",),
        Absence.ENDS,
        {
            "silent": SILENT + "; with `verify=True`: one member heard it, and another did not",
            "sender": "it answers another question, or has another size",
            "relay + members": "with `verify=True`: what the server announces is not what members tell",
        },
    ),
    BlameRow(
        ("Turn",),
        Absence.ENDS,
        proofs={"relay": "it names IDs or a quorum that are none, or another past than before"},
    ),
    BlameRow(
        ("Confirmation", "UnionTags"),
        Absence.ENDS,
        {
            "silent": SILENT,
            "sender": SEALED,
            "dealer + senders": "clients were dealt different group keys",
            "senders + relay": "clients were told different unions",
        },
    ),
    BlameRow(
        ("Blinded",),
        Absence.ENDS,
        {"sender": SEALED},
        {"sender": "it is no element of the group, beyond the quota, or a second question"},
    ),
    BlameRow(
        ("Evaluated",),
        Absence.ENDS,
        {"silent": SILENT, "sender": SEALED},
        {"evaluator": "it is no element of the group, or of another key than the plan's"},
    ),
    BlameRow(("EvaluationKey",), Absence.ENDS, proofs={"evaluator": "it is no element of the group"}),
)


def accuse_parties(
    kind: str, why: str, *, proof: bool = False, **roles: int | Collection[int]
) -> UnionAborted:
    """The error for a message that is missing, or that its row says somebody is to be named for.

    roles: numbers of the clients of each role that the row names, and `RELAY`.  Raises LookupError if the
    row has nothing of exactly these roles.
    """
    row = next(row for row in UNION_TABLE if kind in row.kinds)
    if not any({*names.split(" + ")} == {*roles} for names in (row.proofs if proof else row.doubts)):
        raise LookupError(f"{kind} names no {', '.join(roles)}: the table must say so")
    named = {n for who in roles.values() for n in ((who,) if isinstance(who, int) else who)}
    return UnionAborted(why, named - {RELAY}, relay=RELAY in named, proof=proof)
