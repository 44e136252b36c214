"""How a union ends without a result: who is to blame, and whether that is proof or suspicion."""

from __future__ import annotations

from collections.abc import Collection

from field.secrets.channels import AlreadyUsed as AlreadyUsed


class UnionAborted(Exception):  # noqa: N818 - named for what happened
    """The union ended without a result, and no party outputs a wrong one.

    reason: what was seen.  parties: numbers of the clients it points at, empty if nobody can be named.
    relay: whether it points at the relay, which has no number among the clients.
    proof: True only if no honest client could have caused it, whatever the relay did, given that the
    pinned identities are right; else a relay that drops or alters messages could have framed them.
    """

    def __init__(
        self, reason: str, parties: Collection[int] = (), *, relay: bool = False, proof: bool = False
    ) -> None:
        who = ", ".join([*(f"client {p}" for p in sorted(parties)), *(["the relay"] if relay else [])])
        blame = f" ({who}: {'proof' if proof else 'suspicion only'})" if who else ""
        super().__init__(f"{reason}{blame}")
        self.reason, self.parties = reason, tuple(sorted(parties))
        self.relay, self.proof = relay, proof
