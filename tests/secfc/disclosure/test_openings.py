"""What a committee opens: the sum of all shares, however it is told; runs in which members add up parts."""

import numpy as np
import pytest

import secfc
from field.code.masking import masking_partners
from field.ring.basis import LANE_PRIMES, Basis
from secfc.coded.messages import MaskedBits
from secfc.disclosure.checked.steps import CheckingClient
from secfc.disclosure.compare import client, rounds
from secfc.disclosure.dealerless import policy
from secfc.disclosure.decoded import replies
from secfc.disclosure.owner_labels import client as owners
from secfc.errors import FaultyClient
from secfc.kmeans.starts import RandomLabels
from tests.nightly import covering
from tests.small import federation

BASIS = Basis(LANE_PRIMES[:3])


def talk(send):
    """Hand what a member sends to whoever drives it, which sends what it receives."""
    return (yield send)


def together(shares, change=lambda sender, words: words):
    """What members open of these shares, by name, and how many bytes all of them tell."""
    roles = {c: rounds.reconstruct(BASIS, list(shares), c, share, talk) for c, share in shares.items()}
    sent, found, told = {c: next(role) for c, role in roles.items()}, {}, 0
    while sent:
        told += sum(message.words.nbytes for each in sent.values() for message in each.values())
        inbox = {
            c: {s: MaskedBits(change(s, each[c].words)) for s, each in sent.items() if s != c} for c in roles
        }
        sent = {}
        for c, role in roles.items():
            try:
                sent[c] = role.send(inbox[c])
            except StopIteration as done:
                found[c] = done.value
    return found, told


@pytest.mark.parametrize("size", [2, 3, 4, 6])
@pytest.mark.parametrize("shape", [(5,), (7, 3), (2, 4, 9), (2,)])
@pytest.mark.parametrize("words", [True, False])
def test_all_members_open_the_sum(size, shape, words, monkeypatch):
    rng = np.random.default_rng(size)
    shares = {
        f"c{j}": rng.integers(0, 2**64, shape, np.uint64) if words
        else np.stack([rng.integers(0, p, shape, np.uint32) for p in LANE_PRIMES[:2]])
        for j in range(size)
    }  # fmt: skip
    total = np.zeros_like(shares["c0"])
    for share in shares.values():
        total = total ^ share if words else BASIS.prefix(2).add(total, share)
    told = {}
    for least in (0, 1 << 40):
        monkeypatch.setattr(rounds, "WORTH_PARTS", least)
        found, told[least] = together(shares)
        assert all(np.array_equal(each, total) for each in found.values())
    assert told[1 << 40] == size * (size - 1) * total.nbytes
    whole = total.size // (1 if words else 2) < size
    assert told[0] == (told[1 << 40] if whole else 2 * (size - 1) * total.nbytes)


@pytest.mark.parametrize("least", [0, 1 << 40])
def test_a_share_of_another_shape_is_refused(least, monkeypatch):
    monkeypatch.setattr(rounds, "WORTH_PARTS", least)
    shares = {f"c{j}": np.zeros(9, np.uint64) for j in range(3)}
    with pytest.raises(FaultyClient, match="c1"):
        together(shares, lambda sender, words: words[:-1] if sender == "c1" else words)


@pytest.mark.parametrize(("policy", "k"), covering([secfc.AssignmentsOnly(), secfc.OwnLabels()], [3, 9]))
def test_runs_in_which_members_add_up_parts_are_the_same(policy, k, monkeypatch):
    data, threshold = federation(8, 90, 2), secfc.Threshold(3, deviating=0)
    way = secfc.SecFC(k=k, threshold=threshold, max_iter=5, disclosure=policy, init="random")
    results, told = [], []
    for least in (1 << 40, 0):
        monkeypatch.setattr(rounds, "WORTH_PARTS", least)
        results.append(secfc.fit(way, data, seed=2))
        told.append(sum(e.nbytes for e in results[-1].transcript.envelopes if e.kind == "MaskedBits"))
    first, second = results
    assert first.n_iter == second.n_iter
    assert all((a == b).all() for a, b in zip(first.labels, second.labels, strict=True))
    assert told[1] == pytest.approx(told[0] / 2, rel=0.02)  # of 4 members


@pytest.mark.parametrize(
    ("policy", "lost"), covering([secfc.AssignmentsOnly(), secfc.OwnLabels()], [3, 5, 12])
)
def test_a_member_lost_while_parts_are_added_up_is_replaced(policy, lost, monkeypatch):
    monkeypatch.setattr(rounds, "WORTH_PARTS", 0)
    data, way = (
        federation(7, 60, 2),
        secfc.SecFC(k=3, threshold=2, max_iter=3, disclosure=policy, init="random"),
    )
    seen = {"bits": 0}

    def faults(e):
        seen["bits"] += e.kind == "MaskedBits" and e.sender == "client-1"
        return () if seen["bits"] > lost and "client-1" in (e.sender, e.recipient) else (e,)

    want, got = secfc.fit(way, data, seed=2), secfc.fit(way, data, seed=2, faults=faults)
    assert seen["bits"] > lost
    for name, mine, theirs in zip(data.names, want.labels, got.labels, strict=True):
        assert (mine == theirs).all() or name == "client-1"


@pytest.mark.parametrize(
    ("where", "disclosure"),
    [(policy, secfc.AssignmentsOnly(None)), (client, secfc.AssignmentsOnly()), (owners, secfc.OwnLabels())],
    ids=["nobody deals", "the server deals", "own labels"],
)
def test_what_responders_tell_is_masked_against_t_others(where, disclosure, monkeypatch):
    """Replies and costs, also what replies are checked by: no message is what a client computed."""
    against, bare, told, mask, more = [], [], [], replies.mask_values, CheckingClient.further

    def masked(plan, me, keys, colluding, question, values, further=None):
        against.append(colluding)
        bare.append(values.tobytes())
        return mask(plan, me, keys, colluding, question, values, further)

    def further(self, columns):
        bare.append(more(self, columns).tobytes())
        return more(self, columns)

    def partners(code, responders, me, lanes, colluding):
        against.append(colluding)
        return masking_partners(code, responders, me, lanes, colluding)

    def faults(e):
        if e.kind in ("CodedCosts", "MaskedDistances"):
            told.append((e.kind, e.body.values.tobytes()))
            more = getattr(e.body, "further", None)
            told.append(("further", b"" if more is None else more.tobytes()))
        return (e,)

    monkeypatch.setattr(where, "mask_values", masked)
    monkeypatch.setattr(policy, "masking_partners", partners)
    monkeypatch.setattr(replies, "masking_partners", partners)
    monkeypatch.setattr(CheckingClient, "further", further)
    way = dict(disclosure=disclosure, init=RandomLabels(), n_init=2, max_iter=2)
    way = secfc.SecFC(2, secfc.Threshold(t=1, deviating=0), **way)
    secfc.fit(way, federation(n=3, m=20), keep_bodies=True, faults=faults)
    assert set(against) == {1}
    assert {"CodedCosts", "further"} <= {kind for kind, values in told if values}
    assert not {values for _, values in told if values} & set(bare)
