"""Own labels without a dealer: exactness, losses, and what the server with t clients is told."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field.code import masking
from field.secrets.coins import Coins
from secfc.attacks.views import View
from secfc.disclosure.checked import products
from secfc.disclosure.owner_labels import dealerless
from secfc.errors import SuspectedParties, TooFewReplies
from secfc.kmeans.starts import GivenLabels
from secfc.roles.exchange import SERVER
from tests.nightly import trials
from tests.secfc.coded.test_membership import overlapping
from tests.secfc.disclosure.test_final_labels import is_uniform
from tests.secfc.disclosure.test_owner_labels import (
    HIDDEN,
    assert_that_of_plaintext,
    assert_that_of_the_union,
    tell_owners,
)
from tests.small import federation


@trials(5)
@given(
    st.integers(1, 3), st.integers(0, 1), st.integers(1, 70), st.integers(1, 3), st.integers(1, 6),
    st.integers(0, 2**16), st.booleans(),
)  # fmt: skip
def test_every_owner_has_the_labels_of_plaintext_lloyd(t, spare, m, d, k, seed, whole):
    n = 2 * t + 1 + spare
    data = federation(n, max(m, n, k), d, seed, whole)
    result = tell_owners(data, k=k, t=t, seed=seed, max_iter=4, dealer=None)
    assert_that_of_plaintext(result, data, 4)


def test_starts_that_leave_points_and_clusters_out():
    data = federation(3, 90, 2, 8, integers=True)
    for labels in (
        np.where(np.arange(90) % 2, 5, 2), np.where(np.arange(90) < 4, np.arange(90), -1),
        np.zeros(90, int), np.where(np.arange(90) % 2, 5, -1),
    ):  # fmt: skip
        result = tell_owners(data, k=8, init=GivenLabels(labels), max_iter=3, dealer=None)
        assert_that_of_plaintext(result, data, 3)


def test_hidden_owners_new_points_and_centers():
    data, _ = overlapping(5, 30, 20)
    assert_that_of_the_union(tell_owners(data, k=3, t=2, dealer=None, membership=HIDDEN), data)
    data, new = federation(5, 70, 2), federation(5, 33, 2)
    result, dealt = (
        tell_owners(data, k=9, t=2, dealer=d, max_iter=60, reveal_centers=True) for d in (None, SERVER)
    )
    assert np.array_equal(result.centers, dealt.centers, equal_nan=True)
    for ours, theirs in zip(result.predict(new), dealt.predict(new), strict=True):
        assert (ours == theirs).all()


def test_a_lost_client_costs_a_new_beginning():
    data, told = federation(5, 60, 2), []

    def faults(e):
        told.extend([e] if e.kind == "LloydStepQuery" and e.recipient == "client-1" else [])
        return () if len(told) > 2 and "client-1" in (e.sender, e.recipient) else (e,)

    want, result = (tell_owners(data, dealer=None, deviating=0, **more) for more in ({}, {"faults": faults}))
    assert [s.tolist() for s in result.sizes] == [s.tolist() for s in want.sizes]
    for j in (0, 2, 3, 4):
        assert (result.labels[j] == want.labels[j]).all()
    told.clear()
    with pytest.raises(TooFewReplies):
        tell_owners(federation(3, 30, 2), dealer=None, faults=faults)


@pytest.mark.parametrize(
    ("parameters", "remedy"),
    [({"ell": 2}, "Use .*ell=1"), ({"t": 4}, "t from 1 to 3"), ({"corrected": 1}, "corrected=0")],
)
def test_what_does_not_fit_is_refused(parameters, remedy):
    with pytest.raises(ValueError, match=remedy):
        tell_owners(federation(12, 40, 2), dealer=None, **parameters)


def test_members_that_say_different_things_of_changes_end_the_run():
    def faults(e):
        if e.kind == "SizeShare" and e.sender == "client-1":
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, same=not e.body.same))
        return (e,)

    with pytest.raises(SuspectedParties, match="contradict one another"):
        tell_owners(federation(3, 40, 2), k=3, dealer=None, faults=faults)


# --- views ---------------------------------------------------------------------------------------

COALITIONS = [(SERVER, "client-0"), (SERVER, "client-1"), (SERVER, "client-2")]


def once(seed=0, **parameters):
    # Steps end at the last one asked for, so that F z, which is 0 at the end, is not among what is opened.
    return tell_owners(federation(3, 320, 3, seed), k=3, max_iter=2, dealer=None, **parameters)


def octets(result, coalition):
    """What a coalition is told of others' secrets: words as they are, residues in 256 parts of the prime."""
    told, alike = [], []
    for e in View.of(result, result.plan, coalition).received():
        if e.kind in ("MaskedBits", "OwnShare") and e.body.words.dtype == np.uint64:
            told.append(e.body.words.reshape(-1).view(np.uint8))
        elif e.kind in ("ResharedPart", "MaskedDistances", "MaskedBits"):
            values = getattr(e.body, "values", getattr(e.body, "words", None))
            for lane, p in zip(values, result.plan.code.basis.primes, strict=False):
                alike.append((lane.reshape(-1).astype(np.uint64) * 256 // p).astype(np.uint8))
    return np.concatenate(told), np.concatenate(alike)


@pytest.fixture(scope="module")
def common():
    return once()


def test_the_server_hears_sizes_changes_and_nothing_else(common):
    said = Counter(
        e.kind for e in common.transcript.envelopes if e.recipient == SERVER and e.round >= 7 << 32
    )
    assert set(said) == {"SizeShare", "MissingMessages"}
    assert not {"Corrections", "MaskSeed", "LabelShare"} & {e.kind for e in common.transcript.envelopes}


@pytest.mark.parametrize("coalition", COALITIONS, ids="+".join)
def test_what_one_client_with_the_server_is_told_is_uniform(common, coalition):
    assert all(map(is_uniform, octets(common, coalition)))


@pytest.mark.parametrize("broken", ["masks", "noise"])
def test_without_masks_or_noise_the_same_test_fails(broken, monkeypatch):
    if broken == "masks":
        monkeypatch.setattr(Coins, "mask", lambda self, out: None)
    else:
        monkeypatch.setattr(
            masking, "expand_share", lambda code, size, seed: code.basis.reduce(np.zeros(size, int))
        )
        for module in (dealerless, products):
            monkeypatch.setattr(module, "expand_share", masking.expand_share)
    result = once()
    number = 0 if broken == "masks" else 1
    assert not any(is_uniform(octets(result, coalition)[number]) for coalition in COALITIONS)
