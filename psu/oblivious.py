"""Tags that nobody can compute alone: an oblivious pseudorandom function under a key that is shared.

    F(id) = H(id, k hash_to_group(id)),    k = the relay's key + the keys of t+1 clients

(2HashDH: Jarecki, Kiayias and Krawczyk, ASIACRYPT 2014; the group, the hashes and the proofs are those of
RFC 9497).  A client sends every evaluator r hash_to_group(id) for a fresh uniform r, gets back that times
each key, adds these up and divides by r.  What evaluators see is uniform, whatever the IDs are.  F goes on
as a digest does: it is what the tags of `psu.identify` are made of.

Quota.  Every client asks for exactly `UnionPlan.quota` IDs, of which as many are made up as it does not have,
and for one element more.  An evaluator answers a question once, and no client beyond that.  So t clients,
with or without the relay, test at most t (quota + 1) guesses, and the relay alone none.

Check.  The element more is M = sum d_i C_i over what was asked, with weights d_i that only the client knows;
as one d_i is uniform, so is M, and it shows nothing.  Each evaluator proves that it multiplied M by the key
that the plan names (`psu.oblivious`), and the client checks sum d_i E_i = sum_j k_j M, E_i the sum of all
answers to C_i.  If these are wrong by Delta_i, not all of them zero, it fails but with probability
1 / ORDER: given M the weights are uniform on a plane, on which sum d_i Delta_i is constant only if Delta is a
multiple of C, and then it is that multiple of M.  So an evaluator cannot use another key for one client,
whose tags it would know apart from then on.  (Batches are tested so, with weights of the verifier, in
Bellare, Garay and Rabin, EUROCRYPT 1998.  The proofs in batches of RFC 9497 end at 65,535 elements; they
would cost an evaluator as much again for each client, and a client two products an element for each
evaluator, not two for all.)

Assumes the one-more gap Diffie-Hellman problem in ristretto255, and hashes that behave as random functions.
Keys are drawn for one run.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.ring.errors import InvalidValue
from field.secrets.coins import Coins
from psu import ristretto
from psu.blame import RELAY, accuse_parties
from psu.errors import UnionAborted
from psu.plan import UnionPlan
from psu.ristretto import CONTEXT, ELEMENT, ORDER, SCALAR, add, combine, generate, hash_to_scalar, multiply

LOGGER = logging.getLogger("secfc.psu")

# Elements of a message: a quarter of a second of an evaluator's work.
BATCH = 1 << 12


def count_batches(plan: UnionPlan) -> int:
    """Messages from a client to each evaluator, and back."""
    return -(-(plan.quota + 1) // BATCH)


def number_evaluators(plan: UnionPlan, evaluators: Collection[int]) -> set[int]:
    """These evaluators as errors name them."""
    return {RELAY if j == plan.n else j for j in evaluators}


def batch_span(plan: UnionPlan, batch: int) -> slice:
    """The elements of a message."""
    return slice(batch * BATCH, min(plan.quota + 1, (batch + 1) * BATCH))


# --- evaluators ------------------------------------------------------------------------------------


class Evaluator:
    """One party that holds a part of the key, for one run: its public key, and what it answered whom."""

    def __init__(self, coins: Coins) -> None:
        self._coins = coins
        (self._key,) = ristretto.draw(coins, 1)
        self.public = ristretto.generate(self._key)
        self._answered: dict[tuple[int, int], tuple[bytes, bytes]] = {}

    def __repr__(self) -> str:
        return f"Evaluator(answered={len(self._answered)})"

    def answer(self, plan: UnionPlan, client: int, batch: int, elements: bytes) -> bytes:
        """Each element of a client's question times the key; after those of the last one a proof of its last.

        The same question has the same answer, and counts once.  Raises UnionAborted naming a client that asks
        for more than its quota, another thing than before, or for what is no element.
        """
        if not self._key:
            raise UnionAborted("the keys of tags are erased: start again, with new ones")
        where = range(plan.quota + 1)[batch_span(plan, batch)]
        if len(elements) != ELEMENT * len(where) or not elements:
            why = f"a question for tags is not that of a quota of {plan.quota} IDs"
            raise accuse_parties("Blinded", why, proof=True, sender=client)
        asked = hashlib.sha256(elements).digest()
        before, said = self._answered.get((client, batch), (asked, b""))
        if before != asked:
            why = "a second question for tags comes in the place of one"
            raise accuse_parties("Blinded", why, proof=True, sender=client)
        if said:
            return said
        try:
            said = b"".join(multiply(self._key, element) for element in _elements(elements))
        except ValueError as error:
            why = f"a question for tags is malformed: {error}"
            raise accuse_parties("Blinded", why, proof=True, sender=client) from None
        if batch == count_batches(plan) - 1:
            about = elements[-ELEMENT:], said[-ELEMENT:]
            nonce = ristretto.derive_nonce(self._coins, self._key, b"".join(about))
            said += prove_answers(self._key, [about[0]], [about[1]], nonce)
        self._answered[client, batch] = (asked, said)
        return said

    def erase(self) -> None:
        """Forget the key and all answers: nothing is evaluated after."""
        self._key = 0
        self._answered.clear()


# --- clients ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class BlindedQuery:
    """What a client asks for, once: secret but for `asked`.

    digests (N, 2): its own distinct ones.  inputs: these and made-up ones, quota together.  blinds, weights:
    a scalar each.  asked: the elements that evaluators are sent, quota + 1 of 32 bytes.  where: of each point
    which of the digests is its own.
    """

    digests: Array
    inputs: Sequence[bytes]
    blinds: Sequence[int]
    weights: Sequence[int]
    asked: bytes
    where: Array

    def __repr__(self) -> str:
        return f"Question(quota={len(self.inputs)})"

    def batch(self, plan: UnionPlan, number: int) -> bytes:
        """The elements of one message."""
        return self.asked[_bytes(batch_span(plan, number))]


def check_quota(plan: UnionPlan, digest: Array) -> None:
    """Raises ValueError if a client has more distinct digests (N, 2) than the quota, if there is one."""
    if plan.quota and len(own := np.unique(digest, axis=0)) > plan.quota:
        raise InvalidValue(
            f"{len(own)} different IDs, and a quota of {plan.quota}: agree with the others on a larger "
            "quota, which must not follow from who holds how many"
        )


def blind_digests(plan: UnionPlan, digest: Array, coins: Coins) -> BlindedQuery:
    """Blind the digests (N, 2) of a client's IDs, and as many made-up ones as the quota has left.

    Raises ValueError if there are more distinct ones than the quota.
    """
    check_quota(plan, digest)
    own, where = np.unique(digest, axis=0, return_inverse=True)
    made_up = np.frombuffer(coins.bytes(16 * (plan.quota - len(own))), "<u8").reshape(-1, 2)
    data = np.concatenate([own, made_up]).astype("<u8").tobytes()
    inputs = [data[i : i + 16] for i in range(0, len(data), 16)]
    blinds, weights = ristretto.draw(coins, plan.quota), ristretto.draw(coins, plan.quota)
    asked: list[bytes] = []
    check = ristretto.NEUTRAL
    for i, (x, blind, weight) in enumerate(zip(inputs, blinds, weights, strict=True)):
        asked.append(multiply(blind, ristretto.hash_to_group(x)))
        check = add(check, multiply(weight, asked[-1]))
        _progress("blinded", i + 1, plan.quota)
    return BlindedQuery(own, inputs, blinds, weights, b"".join([*asked, check]), where.reshape(-1))


def unblind_answers(
    plan: UnionPlan, question: BlindedQuery, answers: Mapping[int, Sequence[bytes]], me: int
) -> Array:
    """The function of each of a client's digests: (N, 2) uint64, as pseudonymous as tags.

    answers[j]: what evaluator j said to each batch, for all evaluators, the client itself included if it is
    one; the relay is evaluator n.  Raises UnionAborted naming evaluators that did not answer, or one whose
    answers are malformed or are not those of its key.
    """
    said = {}
    silent = {j for j in plan.evaluators if len(answers.get(j, ())) < count_batches(plan)}
    if silent:
        why = "a question for tags was not answered"
        raise accuse_parties("Evaluated", why, silent=number_evaluators(plan, silent))
    for j in plan.evaluators:
        content, proof = _content(plan, j, answers.get(j, ()))
        said[j] = _elements(content)
        if j == me:
            continue
        if not all(map(ristretto.is_element, said[j])):
            raise _wrong(plan, j, "it is no element of the group")
        key = plan.evaluation_keys[plan.evaluators.index(j)]
        if not check_proof(key, [question.asked[-ELEMENT:]], [said[j][-1]], proof):
            raise _wrong(plan, j, "its proof fails")
    totals = []
    check = ristretto.NEUTRAL
    for i, parts in enumerate(zip(*said.values(), strict=True)):
        total = parts[0]
        for part in parts[1:]:
            total = add(total, part)
        if total == ristretto.NEUTRAL:
            raise _wrong_one(plan, question, said, me, "the answers to a question for tags cancel out")
        totals.append(total)
        if i < plan.quota:
            check = add(check, multiply(question.weights[i], total))
            _progress("checked", i + 1, plan.quota)
    if check != totals[-1]:
        raise _wrong_one(plan, question, said, me, "the answers to a question for tags do not add up")
    out = np.empty((len(question.digests), 2), "<u8")
    # All of the quota, so that the time this takes says nothing of how many are its own.
    for i, back in enumerate(ristretto.inverses(question.blinds)):
        digest = finalize_element(question.inputs[i], multiply(back, totals[i]))
        if i < len(out):
            out[i] = np.frombuffer(digest[:16], "<u8")
        _progress("unblinded", i + 1, plan.quota)
    return np.ascontiguousarray(out[question.where], np.uint64)


def finalize_element(message: bytes, element: bytes) -> bytes:
    """The hash of a message and its element, 64 bytes (RFC 9497, section 3.3.2)."""
    sized = b"".join(len(part).to_bytes(2, "big") + part for part in (message, element))
    return hashlib.sha512(sized + b"Finalize").digest()


def _content(plan: UnionPlan, evaluator: int, answers: Sequence[bytes]) -> tuple[bytes, bytes]:
    """All elements of an evaluator's answers, and its proof."""
    sizes = [len(range(plan.quota + 1)[batch_span(plan, b)]) * ELEMENT for b in range(count_batches(plan))]
    sizes[-1] += PROOF
    if [len(answer) for answer in answers] != sizes:
        raise _wrong(plan, evaluator, "it has the wrong size")
    content = b"".join(answers)
    return content[:-PROOF], content[-PROOF:]


def _wrong_one(
    plan: UnionPlan, question: BlindedQuery, said: Mapping[int, list[bytes]], me: int, seen: str
) -> UnionAborted:
    """Whose answers are not those of its key, which is looked for only now: one sum an evaluator.

    If all are, keys were chosen so that their sum is 0, by chance or by all who drew them: nobody is named.
    """
    for j in plan.evaluators:
        if j != me and combine(question.weights, said[j][:-1]) != said[j][-1]:
            return _wrong(plan, j, "it is of another key than the plan's")
    return UnionAborted(
        f"{seen}, and each is that of its evaluator's key, so nobody can be named: start again, with new keys"
    )


def _wrong(plan: UnionPlan, evaluator: int, why: str) -> UnionAborted:
    told = f"an answer to a question for tags is wrong: {why}"
    return accuse_parties("Evaluated", told, proof=True, evaluator=number_evaluators(plan, {evaluator}))


def _elements(content: bytes) -> list[bytes]:
    return [content[i : i + ELEMENT] for i in range(0, len(content), ELEMENT)]


def _bytes(elements: slice) -> slice:
    return slice(elements.start * ELEMENT, elements.stop * ELEMENT)


def _progress(what: str, done: int, quota: int) -> None:
    if done % BATCH == 0 or done == quota:
        LOGGER.info("tags: %s %d of %d", what, done, quota)


# --------------------------------------------------------------------------------------------------
# Proofs that two elements were multiplied by the same secret scalar (RFC 9497, section 2.2).
#
# A proof is 64 bytes, and shows nothing of the scalar.  Whoever has the public key, the questions and the
# answers can check it.

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
