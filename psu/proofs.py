"""Proofs that two elements were multiplied by the same secret scalar (RFC 9497, section 2.2).

A proof is 64 bytes, and shows nothing of the scalar.  Whoever has the public key, the questions and the
answers can check it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from psu import ristretto
from psu.ristretto import CONTEXT, ORDER, SCALAR, combine, generate, hash_to_scalar, multiply

PROOF = 2 * SCALAR


def prove_answers(key: int, questions: Sequence[bytes], answers: Sequence[bytes], nonce: int) -> bytes:
    """Proof that every answer is its question times the key.  nonce: uniform, secret, of this proof only."""
    public = generate(key)
    question, _ = _composites(public, questions, answers, key)
    answer = multiply(key, question)
    challenge = _challenge(public, question, answer, generate(nonce), multiply(nonce, question))
    response = (nonce - challenge * key) % ORDER
    return challenge.to_bytes(SCALAR, "little") + response.to_bytes(SCALAR, "little")


def check_proof(public: bytes, questions: Sequence[bytes], answers: Sequence[bytes], proof: bytes) -> bool:
    """Whether a proof holds for the scalar that this public key is the generator times."""
    if len(proof) != PROOF:
        return False
    challenge, response = (int.from_bytes(proof[i : i + SCALAR], "little") for i in (0, SCALAR))
    if not (0 < challenge < ORDER and 0 < response < ORDER):
        return False
    try:
        question, answer = _composites(public, questions, answers)
        of_key = ristretto.add(generate(response), multiply(challenge, public))
        of_question = combine((response, challenge), (question, answer))
    except ValueError:
        return False
    return challenge == _challenge(public, question, answer, of_key, of_question)


def _composites(
    public: bytes, questions: Sequence[bytes], answers: Sequence[bytes], key: int | None = None
) -> tuple[bytes, bytes]:
    """One question and one answer for all: their combinations by weights that follow from all of them."""
    seed = hashlib.sha512(_sized(public) + _sized(b"Seed-" + CONTEXT)).digest()
    weights = [
        hash_to_scalar(_sized(seed) + i.to_bytes(2, "big") + _sized(c) + _sized(d) + b"Composite")
        for i, (c, d) in enumerate(zip(questions, answers, strict=True))
    ]
    return combine(weights, questions), b"" if key is not None else combine(weights, answers)


def _challenge(*elements: bytes) -> int:
    return hash_to_scalar(b"".join(map(_sized, elements)) + b"Challenge")


def _sized(part: bytes) -> bytes:
    return len(part).to_bytes(2, "big") + part
