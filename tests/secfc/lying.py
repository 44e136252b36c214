"""Clients that lie: roles that say something else than they should, before anything is sealed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from field.code.lagrange_code import LagrangeCode
from secfc.coded.input_check import MaskChoice, ProjectedShares
from secfc.coded.messages import PublicKey, RowShares
from secfc.roles.messages import Contributors, Hello

# What clients compute, deal or report.  Their words of the plan and of their names are compared anyway.
KINDS = (
    "CodedDistances",
    "CheckedDistances",
    "RowShares",
    "MaskChoice",
    "ProjectedShares",
    "BlindingShares",
    "CodedCenters",
    "Contributors",
    "PublicKey",
)
WAYS = ("one value", "one prime", "every value", "noise", "zeros", "together", "silence", "nonsense")


@dataclass(frozen=True)
class Lie:
    """What a client lies about, how, and how often: each message with this chance, to each recipient."""

    kinds: frozenset[str]
    way: str
    chance: float
    seed: int


def lies(n: int, corrected: int) -> st.SearchStrategy[dict[str, Lie]]:
    """The lies of up to so many of n clients, by name."""
    kinds = st.frozensets(st.sampled_from(KINDS), min_size=1)
    lie = st.builds(
        Lie, kinds, st.sampled_from(WAYS), st.sampled_from((1.0, 0.3, 0.05)), st.integers(0, 2**16)
    )
    return st.dictionaries(st.sampled_from([f"client-{j}" for j in range(n)]), lie, max_size=corrected)


def saying(role: Any, change: Callable[[str, Any], Any]) -> Any:
    """A role that says something else: change maps (recipient, message) to a message, None for silence."""
    exchange = next(role)
    while True:
        try:
            said = {to: change(to, message) for to, message in exchange.send.items()}
            send = {to: message for to, message in said.items() if message is not None}
            exchange = role.send((yield dataclasses.replace(exchange, send=send)))
        except StopIteration as done:
            return done.value


def telling(role: Any, lie: Lie, code: LagrangeCode, me: int, lied: Callable[[], None]) -> Any:
    """The role of client number `me`, which tells these lies; `lied` is called at each."""
    rng = np.random.default_rng(lie.seed)

    def change(to: str, message: Any) -> Any:
        if type(message).__name__ not in lie.kinds or rng.random() > lie.chance:
            return message
        lied()
        return other(message, lie.way, code, me, rng)

    return saying(role, change)


def other(message: Any, way: str, code: LagrangeCode, me: int, rng: np.random.Generator) -> Any:
    """Something else than this message, of the right form unless it is nonsense."""
    match message:
        case _ if way == "silence":
            return None
        case _ if way == "nonsense":
            return Hello(b"x")
        case MaskChoice():
            # Other masks than were dealt, in another order, or told of as hidden under other coins.
            if way == "one value" and len(message.masks) > 1:
                return dataclasses.replace(message, masks=message.masks[::-1].copy())
            if way in ("zeros", "together"):
                return dataclasses.replace(message, digest=bytes(32))
            return dataclasses.replace(message, used=np.roll(message.used, 1, axis=1))
        case ProjectedShares() if way == "one prime":
            return dataclasses.replace(message, complete=~message.complete)
        case PublicKey():
            return PublicKey(rng.bytes(32))
        case Contributors():
            said = message.complete.copy()
            said[rng.integers(len(said)) if way == "one value" else slice(None)] ^= True
            return Contributors(said)
    if isinstance(message, RowShares) and way in ("zeros", "together"):
        way = "noise"  # the same lie to all is no lie, but the truth about other points
    fields = [f.name for f in dataclasses.fields(message) if f.name in ("values", "checks", "masks", "words")]
    changed = rng.choice(fields, rng.integers(1, len(fields) + 1), replace=False)
    return dataclasses.replace(
        message, **{f: _moved(getattr(message, f), way, code, me, rng) for f in changed}
    )


def _moved(values: Any, way: str, code: LagrangeCode, me: int, rng: np.random.Generator) -> Any:
    """Other canonical residues (lanes, ...) than these."""
    out, lane = values.copy(), int(rng.integers(len(values)))
    primes = code.basis.primes[: len(values)]
    match way:
        case "one value":
            at = rng.integers(out[lane].size)
            out[lane].flat[at] = (int(out[lane].flat[at]) + rng.integers(1, primes[lane])) % primes[lane]
        case "one prime":
            out[lane] = (out[lane].astype(np.int64) + rng.integers(1, primes[lane])) % primes[lane]
        case "every value":
            amount = rng.integers(1, min(primes))
            for r, p in zip(out, primes, strict=True):
                r[...] = (r.astype(np.int64) + amount) % p
        case "noise":
            for r, p in zip(out, primes, strict=True):
                r[...] = rng.integers(0, p, r.shape)
        case "zeros":
            out[...] = 0
        case "together":
            # All who lie so agree on one other polynomial of the degree of replies, and with the first of
            # the other clients.
            for r, p in zip(out, primes, strict=True):
                shift = 1
                for alpha in code.alphas[: code.threshold(2) - 1]:
                    shift = shift * (code.alphas[me] - alpha) % p
                r[...] = (r.astype(np.int64) + (shift or 1)) % p
    return out
