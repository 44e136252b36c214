"""A dictionary of IDs: which guesses are in a union of IDs, by all that a coalition can do.

Everybody sees the tags of the union, so whoever can compute the tag of a guess knows whether it is there.
The game is played on the union's tags alone, as tables and openings tell no more than these.

What no coalition member knows of the truth enters only where findings are judged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from field.arrays import Array
from field.secrets.coins import Coins, SystemCoins
from psu import oblivious, ristretto
from psu.errors import UnionAborted
from psu.identify import digests, tags
from psu.oblivious import Evaluator
from psu.plan import Committee, UnionPlan

Ids = Sequence[str | int]


@dataclass(frozen=True)
class DictionaryFinding:
    """What a coalition found.

    tested: guesses of which it computed something as a tag.  found: of these, how many it said are in the
    union, and are.  wrong: how many it said are, and are not.  expected: found on average, by as many guesses
    at random with true tags.  refused: questions that an evaluator would not answer.
    """

    tested: int
    found: int
    wrong: int
    expected: float
    refused: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class DictionaryGame:
    """A union that is announced, and what it takes to compute its tags.

    plan: with a quota, or none for a shared key.  evaluators: by number, secret to each.  key: of all
    clients.  union: what the server announced, the bytes of each tag.  truth: the digests (m, 2) behind it.
    """

    plan: UnionPlan
    evaluators: dict[int, Evaluator]
    key: bytes
    union: frozenset[bytes]
    truth: frozenset[bytes]
    coins: Coins

    @classmethod
    def of(cls, sets: Sequence[Ids], t: int, quota: int, coins: Coins | None = None) -> DictionaryGame:
        """The union of the sets of honest clients; the first t clients, which attack, bring none of theirs.

        quota: 0 for a key that all clients share.  Raises ValueError as `psu.union`.
        """
        coins = coins or SystemCoins()
        plan = UnionPlan(len(sets), Committee(t), coins.bytes(32), quota=quota)
        evaluators = {j: Evaluator(coins) for j in plan.evaluators}
        plan = replace(plan, evaluation_keys=tuple(e.public for e in evaluators.values()))
        key, found, truth = coins.bytes(16), set[bytes](), set[bytes]()
        for i in range(t, plan.n):
            digest = digests(sets[i])
            truth.update(_rows(digest))
            if quota:
                question = oblivious.blind_digests(plan, digest, coins)
                every = range(oblivious.count_batches(plan))
                answers = {
                    j: [e.answer(plan, i, b, question.batch(plan, b)) for b in every]
                    for j, e in evaluators.items()
                }
                digest = oblivious.unblind_answers(plan, question, answers, i)
            found.update(_tagged(digest, key))
        return cls(plan, evaluators, key, frozenset(found), frozenset(truth), coins)

    def by_key(self, guesses: Ids) -> DictionaryFinding:
        """One client with the key of tags that all clients have."""
        return self._judged(guesses, digests(guesses))

    def by_questions(self, guesses: Ids, *, tries: int = 2) -> DictionaryFinding:
        """The first t clients ask for guesses, the element of the check included, as often as they are heard.

        They evaluate with their own parts of the key as much as they like; at least one part is another's.
        """
        plan, each = self.plan, self.plan.quota + 1
        inputs = _rows(digests(guesses))
        got: list[Array] = []
        asked, refused = 0, 0
        for _ in range(tries):
            for i in range(plan.t):
                mine = inputs[asked : asked + each]
                padded = mine + [self.coins.bytes(16) for _ in range(each - len(mine))]
                blinds = ristretto.draw(self.coins, each)
                elements = [
                    ristretto.multiply(r, ristretto.hash_to_group(x))
                    for r, x in zip(blinds, padded, strict=True)
                ]
                try:
                    totals = self._answered(i, b"".join(elements))
                except UnionAborted:
                    refused += 1
                    continue
                back = ristretto.inverses(blinds)
                outs = [
                    oblivious.finalize_element(x, ristretto.multiply(r, e))[:16]
                    for x, r, e in zip(mine, back, totals, strict=False)
                ]
                got.append(np.frombuffer(b"".join(outs), "<u8").reshape(-1, 2))
                asked += len(mine)
        tested = np.concatenate(got) if got else np.empty((0, 2), np.uint64)
        return self._judged(guesses, tested, refused)

    def by_own_keys(self, parts: Sequence[int], guesses: Ids) -> DictionaryFinding:
        """These evaluators alone, by the sum of their parts of the key and without any question."""
        key = sum(self.evaluators[j]._key for j in parts) % ristretto.ORDER
        outs = []
        for row in _rows(digests(guesses)):
            element = ristretto.multiply(key, ristretto.hash_to_group(row))
            outs.append(oblivious.finalize_element(row, element)[:16])
        return self._judged(guesses, np.frombuffer(b"".join(outs), "<u8").reshape(-1, 2))

    def _answered(self, client: int, elements: bytes) -> list[bytes]:
        """Each element times the whole key.  Raises UnionAborted where an evaluator refuses."""
        plan, totals = self.plan, [ristretto.NEUTRAL] * (self.plan.quota + 1)
        for evaluator in self.evaluators.values():
            said = b""
            for batch in range(oblivious.count_batches(plan)):
                where = oblivious.batch_span(plan, batch)
                said += evaluator.answer(plan, client, batch, elements[32 * where.start : 32 * where.stop])
            totals = [ristretto.add(a, said[32 * i : 32 * i + 32]) for i, a in enumerate(totals)]
        return totals

    def _judged(self, guesses: Ids, computed: Array, refused: int = 0) -> DictionaryFinding:
        """computed (N, 2): what the tags of the first N guesses are made of, as the coalition has it."""
        there = [row in self.truth for row in _rows(digests(guesses))]
        hit = [tag in self.union for tag in _tagged(computed, self.key)]
        found = sum(h and w for h, w in zip(hit, there, strict=False))
        expected = len(hit) * sum(there) / max(len(there), 1)
        return DictionaryFinding(len(hit), found, sum(hit) - found, expected, refused)


def _rows(digest: Array) -> list[bytes]:
    return [row.tobytes() for row in digest.astype("<u8")]


def _tagged(digest: Array, key: bytes) -> list[bytes]:
    own, where = tags(np.ascontiguousarray(digest, np.uint64), key)
    return _rows(np.stack([own.z, own.y], axis=1)[where])
