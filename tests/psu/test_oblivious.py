"""Oblivious tags: the RFC's vectors, what a deviating evaluator or client is told, and what guesses buy."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import psu
from field import SeededCoins
from psu import oblivious, ristretto
from psu.errors import UnionAborted
from psu.oblivious import Evaluator, check_proof, prove_answers
from psu.plan import UnionPlan

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "rfc9497.json").read_text())
QUOTA = 6


def coins(label: str) -> SeededCoins:
    return SeededCoins(9, label)


# --- the standard --------------------------------------------------------------------------------


@pytest.mark.parametrize("vector", VECTORS["vectors"])
def test_vectors_of_the_rfc(vector: dict[str, Any]) -> None:
    def several(name: str) -> list[bytes]:
        return [bytes.fromhex(part) for part in vector[name].split(",")]

    key = int.from_bytes(bytes.fromhex(VECTORS["skSm"]), "little")
    public = ristretto.generate(key)
    assert public.hex() == VECTORS["pkSm"]
    inputs, blinds = several("Input"), [int.from_bytes(b, "little") for b in several("Blind")]
    asked = [ristretto.multiply(b, ristretto.hash_to_group(x)) for x, b in zip(inputs, blinds, strict=True)]
    assert asked == several("BlindedElement")
    said = [ristretto.multiply(key, element) for element in asked]
    assert said == several("EvaluationElement")
    nonce = int.from_bytes(bytes.fromhex(vector["Proof"]["r"]), "little")
    proof = prove_answers(key, asked, said, nonce)
    assert proof.hex() == vector["Proof"]["proof"]
    assert check_proof(public, asked, said, proof)
    back = [ristretto.multiply(b, e) for b, e in zip(ristretto.inverses(blinds), said, strict=True)]
    assert [oblivious.finalize_element(x, e) for x, e in zip(inputs, back, strict=True)] == several("Output")
    # Any bit of it matters, and so does whose key it is.
    for wrong in (proof[:5] + bytes([proof[5] ^ 1]) + proof[6:], proof[:-1], bytes(64), proof[:32] * 2):
        assert not check_proof(public, asked, said, wrong)
    assert not check_proof(ristretto.generate(key + 1), asked, said, proof)
    assert not check_proof(public, asked, [ristretto.add(said[0], public), *said[1:]], proof)


def test_what_is_no_element_is_refused() -> None:
    # The neutral element; not canonical; negative; a quadratic residue that no element has.
    good = ristretto.generate(5)
    assert ristretto.is_element(good)
    for bad in (
        bytes(32),
        b"\xff" * 32,
        bytes([1]) + bytes(31),
        bytes([2]) + bytes(31),
        good[:31],
        good + b"x",
    ):
        assert not ristretto.is_element(bad)
        with pytest.raises(ValueError, match="no element of the group"):
            ristretto.multiply(3, bad)
    assert ristretto.multiply(ristretto.ORDER - 1, good) == ristretto.generate(ristretto.ORDER - 5)


# --- questions and answers -----------------------------------------------------------------------


def meeting(t: int = 1, n: int = 3) -> tuple[UnionPlan, dict[int, Evaluator]]:
    plan = UnionPlan(n, psu.Committee(t), bytes(16), quota=QUOTA)
    made = {j: Evaluator(coins(f"evaluator {j}")) for j in plan.evaluators}
    return replace(plan, evaluation_keys=tuple(e.public for e in made.values())), made


def answers(plan: UnionPlan, made: dict[int, Evaluator], client: int, asked: bytes) -> dict[int, list[bytes]]:
    return {j: [e.answer(plan, client, 0, asked)] for j, e in made.items()}


def test_two_clients_get_the_same_for_an_id_and_repeated_ids_count_once() -> None:
    plan, made = meeting()
    ids = [["a", "b", "a", "c"] * 4, ["c", "x", "b"]]
    found = []
    for i, own in enumerate(ids):
        question = oblivious.blind_digests(plan, psu.digests(own), coins(f"client {i}"))
        assert len(question.asked) == 32 * (QUOTA + 1)
        assert question.asked not in (b"", bytes(len(question.asked)))
        found.append(oblivious.unblind_answers(plan, question, answers(plan, made, i, question.asked), i))
    value = {x: row.tobytes() for x, row in zip(ids[0], found[0], strict=True)}
    assert len(set(value.values())) == 3
    assert [row.tobytes() == value.get(x) for x, row in zip(ids[1], found[1], strict=True)] == [
        True,
        False,
        True,
    ]
    # It is the RFC's function under the sum of the keys.
    key = sum(e._key for e in made.values()) % ristretto.ORDER
    digest = psu.digests(["b"]).astype("<u8").tobytes()
    element = ristretto.multiply(key, ristretto.hash_to_group(digest))
    assert oblivious.finalize_element(digest, element)[:16] == value["b"]


def test_more_ids_than_the_quota() -> None:
    plan, _ = meeting()
    with pytest.raises(ValueError, match="7 different IDs, and a quota of 6: agree with the others"):
        oblivious.blind_digests(plan, psu.digests(range(7)), coins("c"))
    assert len(oblivious.blind_digests(plan, psu.digests([]), coins("c")).inputs) == QUOTA


def test_an_evaluator_answers_a_client_once() -> None:
    plan, made = meeting()
    evaluator = made[0]
    first = oblivious.blind_digests(plan, psu.digests(["a"]), coins("c")).asked
    other = oblivious.blind_digests(plan, psu.digests(["a"]), coins("d")).asked
    said = evaluator.answer(plan, 1, 0, first)
    # After a crash a client says again what it said, and hears what it heard.
    assert evaluator.answer(plan, 1, 0, first) == said
    for batch, asked, why in (
        (0, other, "in the place of one"),
        (1, other, "not that of a quota of 6"),
        (-1, other, "not that of a quota"),
        (0, other + first[:32], "not that of a quota"),
    ):
        with pytest.raises(UnionAborted, match=why) as caught:
            evaluator.answer(plan, 1, batch, asked)
        assert caught.value.parties == (1,)
        assert caught.value.proof
    for bad in (bytes(32), b"\xff" * 32):
        with pytest.raises(UnionAborted, match="no element of the group"):
            evaluator.answer(plan, 2, 0, other[:64] + bad + other[96:])
    assert evaluator.answer(plan, 2, 0, other) != said
    evaluator.erase()
    with pytest.raises(UnionAborted, match="keys of tags are erased"):
        evaluator.answer(plan, 1, 0, first)


def shifted(j: int) -> Callable[[UnionPlan, bytes, dict[int, list[bytes]]], None]:
    """Evaluator j uses key + 1, and proves it as well as it can."""

    def deviate(plan: UnionPlan, asked: bytes, said: dict[int, list[bytes]]) -> None:
        elements = [asked[i : i + 32] for i in range(0, len(asked), 32)]
        old = [said[j][0][i : i + 32] for i in range(0, len(asked), 32)]
        new = [ristretto.add(a, b) for a, b in zip(old, elements, strict=True)]
        said[j] = [b"".join(new) + said[j][0][-64:]]

    return deviate


def honest_of_the_last(j: int) -> Callable[[UnionPlan, bytes, dict[int, list[bytes]]], None]:
    """The same, but for the element that is proven."""

    def deviate(plan: UnionPlan, asked: bytes, said: dict[int, list[bytes]]) -> None:
        true = said[j][0]
        shifted(j)(plan, asked, said)
        said[j] = [said[j][0][:-96] + true[-96:]]

    return deviate


def one_wrong(plan: UnionPlan, asked: bytes, said: dict[int, list[bytes]]) -> None:
    first = ristretto.add(said[1][0][:32], ristretto.generate(1))
    said[1] = [first + said[1][0][32:]]


def cancelling(plan: UnionPlan, asked: bytes, said: dict[int, list[bytes]]) -> None:
    """Evaluator 1 knows what the others said of the first element, and makes the sum neutral."""
    others = [answers[0][:32] for j, answers in said.items() if j != 1]
    total = ristretto.NEUTRAL
    for element in others:
        total = ristretto.add(total, element)
    said[1] = [ristretto.multiply(ristretto.ORDER - 1, total) + said[1][0][32:]]


def malformed(plan: UnionPlan, asked: bytes, said: dict[int, list[bytes]]) -> None:
    said[1] = [bytes(32) + said[1][0][32:]]


def short(plan: UnionPlan, asked: bytes, said: dict[int, list[bytes]]) -> None:
    said[1] = [said[1][0][:-1]]


def nothing(plan: UnionPlan, asked: bytes, said: dict[int, list[bytes]]) -> None:
    del said[1]


@pytest.mark.parametrize(
    ("deviate", "why", "parties"),
    [
        (shifted(1), "its proof fails", (1,)),
        (shifted(3), r"its proof fails \(the relay: proof\)", ()),
        (honest_of_the_last(1), "of another key than the plan's", (1,)),
        (honest_of_the_last(3), r"of another key .* \(the relay: proof\)", ()),
        (one_wrong, "of another key", (1,)),
        (cancelling, "of another key", (1,)),
        (malformed, "no element of the group", (1,)),
        (short, "wrong size", (1,)),
        (nothing, "was not answered", (1,)),
    ],
)
def test_an_evaluator_that_deviates_is_named(deviate: Any, why: str, parties: Sequence[int]) -> None:
    plan, made = meeting()
    question = oblivious.blind_digests(plan, psu.digests(["a", "b"]), coins("c"))
    said = answers(plan, made, 0, question.asked)
    oblivious.unblind_answers(plan, question, said, 0)
    deviate(plan, question.asked, said)
    with pytest.raises(UnionAborted, match=why) as caught:
        oblivious.unblind_answers(plan, question, said, 0)
    assert caught.value.parties == tuple(parties)
    # The relay has no number among the clients, and silence is nobody's proof.
    assert caught.value.relay == (not parties)
    assert caught.value.proof == (deviate is not nothing)


def test_keys_whose_sum_is_zero_name_nobody() -> None:
    plan, made = meeting()
    others = sum(evaluator._key for j, evaluator in made.items() if j != 1)
    made[1]._key = -others % ristretto.ORDER
    made[1].public = ristretto.generate(made[1]._key)
    plan = replace(plan, evaluation_keys=tuple(made[j].public for j in plan.evaluators))
    question = oblivious.blind_digests(plan, psu.digests(["a"]), coins("c"))
    with pytest.raises(UnionAborted, match="cancel out, and each is that of its evaluator's key") as caught:
        oblivious.unblind_answers(plan, question, answers(plan, made, 0, question.asked), 0)
    assert (caught.value.parties, caught.value.relay, caught.value.proof) == ((), False, False)


def test_coins_that_repeat_make_no_nonce_twice() -> None:
    found = {ristretto.derive_nonce(coins("n"), key, about) for key in (3, 4) for about in (b"a", b"b")}
    assert len(found) == 4
    assert ristretto.derive_nonce(coins("n"), 3, b"a") in found
    assert ristretto.derive_nonce(coins("m"), 3, b"a") not in found


def test_keys_that_are_not_those_of_the_plan() -> None:
    plan, made = meeting()
    keys = (*plan.evaluation_keys[:-1], ristretto.generate(7))
    other = replace(plan, evaluation_keys=keys)
    assert other.digest != plan.digest
    question = oblivious.blind_digests(plan, psu.digests(["a"]), coins("c"))
    with pytest.raises(UnionAborted, match="its proof fails"):
        oblivious.unblind_answers(other, question, answers(plan, made, 0, question.asked), 0)
    with pytest.raises(ValueError, match="2 evaluation keys for 3 evaluators"):
        replace(plan, evaluation_keys=keys[:2])
    with pytest.raises(ValueError, match="quota=-1"):
        replace(plan, quota=-1, evaluation_keys=())


# --- unions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [psu.Committee(1), psu.Committee(2), psu.Server()])
def test_a_union_is_the_same_as_with_a_shared_key(mode: Any) -> None:
    sets = [["a", "b", "b"], ["b", 7], [], [7, "a", "z"], ["z"]]
    result = psu.union(sets, mode=mode, quota=4)
    assert result.m == 4
    number: dict[Any, int] = {}
    for own, rows in zip(sets, result.rows, strict=True):
        for x, row in zip(own, rows.tolist(), strict=True):
            assert number.setdefault(x, row) == row
    assert len(set(number.values())) == 4
    # Who has how many IDs is in no message: each client sends and is sent as much as any other.
    for kind in ("Blinded", "Evaluated"):
        sizes = {size for (_, _, k), (_, size) in result.traffic.items() if k == kind}
        assert len(sizes) == 1
    evaluators = {a for a, _, k in result.traffic if k == "EvaluationKey"}
    t = mode.t if isinstance(mode, psu.Committee) else 0
    assert evaluators == {"server", *(f"client {j}" for j in range(t + 1))}


@pytest.mark.parametrize("quota", [QUOTA, QUOTA + 1, QUOTA + 2])
def test_batches_are_those_of_one_question(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, quota: int
) -> None:
    monkeypatch.setattr(oblivious, "BATCH", 4)
    caplog.set_level("INFO", "secfc.psu")
    plan = UnionPlan(3, psu.Committee(1), bytes(16), quota=quota)
    elements = list(range(quota + 1))  # and one that checks the others
    batches = [elements[oblivious.batch_span(plan, b)] for b in range(oblivious.count_batches(plan))]
    assert [x for batch in batches for x in batch] == elements
    assert {len(batch) for batch in batches[:-1]} == {4}
    assert batches[-1]
    assert max(oblivious.batch_span(plan, len(batches) - 1).indices(10**6)) == quota + 1
    assert psu.union([range(quota), range(4, 11), []], t=1, quota=max(quota, 7)).m == 11
    # Long work says how far it is, after each batch and in the end.
    said = {tuple(record.args or ()) for record in caplog.records if record.msg.startswith("tags: ")}
    steps = {(4, max(quota, 7)), (max(quota, 7), max(quota, 7))}
    assert said == {(what, *step) for what in ("blinded", "checked", "unblinded") for step in steps}
