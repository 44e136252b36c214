"""A14: checks go on beside what follows.  What is told too early shows a bit, or is made to fit.

A member tells two that play the part it lacks different words while they divide.  They notice, whatever the
words were.  Whether they then hold the same depends on a bit of a table; the member has the others of it.
"""

import dataclasses

import pytest

import secfc
from secfc.coded.messages import MaskedBits
from secfc.disclosure.checked.messages import PartShares
from secfc.disclosure.compare import center_rounding
from secfc.disclosure.compare.center_rounding import CenterRounder
from secfc.errors import SuspectedParties
from secfc.kmeans.starts import RandomPoints
from secfc.roles.exchange import STRIDE
from tests.nightly import short
from tests.small import federation

DEVIATING, VICTIM = "client-0", "client-2"
ROUNDED = secfc.Quantization(centers="rounded")


def divided_with_two_versions(monkeypatch, opening, bit):
    """The deviating client flips a bit that it opens, to one of two.

    Whether both then hold the same; and in which rounds it was told digests of shares of rounded centers.
    """
    parts, vouched, rounds, real = {}, [], [], CenterRounder.divided

    def divided(self, match, *rest):
        found = yield from real(self, match, *rest)
        lacks = next(
            q for q, who in enumerate(match.blocks.parts) if match.committee.index(DEVIATING) not in who
        )
        if self.name != DEVIATING:
            parts.setdefault(match.question.round, []).append(found[lacks])
        return found

    def faults(e):
        if isinstance(e.body, PartShares) and e.body.digests and e.recipient == DEVIATING:
            vouched.append(e.round)
        told = isinstance(e.body, MaskedBits) and (e.sender, e.recipient) == (DEVIATING, VICTIM)
        if told and e.body.words.size and len(rounds) <= opening:
            rounds.append(e.round)
            if len(rounds) == opening + 1:
                words = e.body.words.copy()
                words.reshape(-1)[bit // 64] ^= words.dtype.type(1 << bit % 64)
                e = dataclasses.replace(e, body=dataclasses.replace(e.body, words=words))
        return (e,)

    monkeypatch.setattr(CenterRounder, "divided", divided)
    way = secfc.SecFC(3, secfc.Threshold(1), init=RandomPoints(), max_iter=1, quantization=ROUNDED)
    with pytest.raises(SuspectedParties, match=r"heard different words|do not say the same"):
        secfc.fit(way, federation(n=6, m=48), seed=1, faults=faults)
    question = rounds[0] // STRIDE
    both = next((x for number, x in parts.items() if number // STRIDE == question and len(x) == 2), None)
    early = [number for number in vouched if number // STRIDE == question]
    return None if both is None else bool((both[0] == both[1]).all()), early


def test_members_vouch_for_what_they_dealt_once_they_agree_on_words(monkeypatch):
    """Quotients do not wait for the check of words; digests of their shares do, which tell two alike."""
    same = []
    # Three of four times they hold the same, so sixty times do not fail once in 10**7.
    while len(same) < short(1, nightly=60) or (len({*same}) < 2 and len(same) < 60):
        with monkeypatch.context() as patch:
            found, vouched = divided_with_two_versions(patch, 2, len(same))
        assert not vouched
        same.append(found)
    assert {*same} == {True, False}  # so they dealt before they noticed
    # Positive control: were digests told with shares, the deviating client would see which it is, and so the
    # bit.
    plain = dataclasses.replace
    monkeypatch.setattr(
        center_rounding, "replace", lambda x, **new: x if "digests" in new else plain(x, **new)
    )
    assert divided_with_two_versions(monkeypatch, 2, 0)[1]
