"""How a union ends without a result: who is to blame, and whether that is proof or suspicion."""

from __future__ import annotations

from collections.abc import Collection

from field.secrets.channels import AlreadyUsed as AlreadyUsed


class UnionAborted(Exception):  # noqa: N818 - named for what happened
    """The union ended without a result; no party outputs a wrong one.

    Parameters
    ----------
    reason
        What was seen, in words.
    parties
        Numbers of the clients to which it points; empty if nobody can be named.
    relay
        Whether it points at the relay, which has no number among the clients.
    proof
        Whether no honest client could have caused it, whatever the relay did, if the pinned identities are
        right.  Otherwise a relay that drops or alters messages could have framed the clients.
    """

    def __init__(
        self, reason: str, parties: Collection[int] = (), *, relay: bool = False, proof: bool = False
    ) -> None:
        who = ", ".join([*(f"client {p}" for p in sorted(parties)), *(["the relay"] if relay else [])])
        blame = f" ({who}: {'proof' if proof else 'suspicion only'})" if who else ""
        super().__init__(f"{reason}{blame}")
        self.reason, self.parties = reason, tuple(sorted(parties))
        self.relay, self.proof = relay, proof
