"""What each coalition sees where labels stay shared: sizes, and what it could have drawn by itself."""

import dataclasses
from functools import reduce
from itertools import product

import numpy as np
import pytest
from scipy.stats import chi2

import secfc
from field import SystemCoins
from field.compare.assignment_step import AssignmentStep
from field.compare.bitslice import from_planes, unpack_bits
from field.ring.basis import LANE_PRIMES
from secfc.attacks.history import History
from secfc.attacks.judging import judge_guess
from secfc.coded.messages import MaskedBits
from secfc.coded.queries import Operation
from secfc.coded_kmeans.adversary_view import QueryRecorder
from secfc.disclosure import OwnLabels
from secfc.disclosure.checked.parts import PartKeys
from secfc.errors import FaultyServer, SuspectedParties
from secfc.kmeans.starts import GivenLabels
from secfc.report.leakage import curious_server
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.nightly import short
from tests.secfc.disclosure.test_owner_labels import start_of, tell_owners
from tests.secfc.queries import altered

N, M = 4, 16
START = np.arange(M) % 2
P = LANE_PRIMES[0]


def data(seed=0):
    """Points around 0 and 4: one step finds who is where."""
    points = np.random.default_rng(seed).normal(size=(M, 2)) + 4 * (np.arange(M) % 3 == 0)[:, None]
    return secfc.Federation.from_arrays(np.array_split(points, N))


WAY = secfc.SecFC(k=2, threshold=secfc.Threshold(1, deviating=0), init=GivenLabels(START), max_iter=3)


def once(seed=0, deviating=0, **parameters):
    """A run in which by default two clients compare, each of whom plays a part alone."""
    parameters["deviating"] = deviating
    return tell_owners(data(seed), k=2, init=GivenLabels(START), max_iter=3, **parameters)


def received(result, who, kind, sender=None):
    return [
        e for e in result.transcript.envelopes
        if e.recipient == who and e.kind == kind and (sender is None or e.sender == sender)
    ]  # fmt: skip


# --- the dealing server ----------------------------------------------------------------------------


def test_the_server_hears_sizes_changes_and_nothing_else():
    result = once(reveal_centers=True)
    said = {e.kind for e in result.transcript.envelopes if e.recipient == SERVER and e.round >= 7 << 32}
    assert said == {"SizeShare", "MissingMessages", "CodedCenters", "CheckDigest"}
    opened = {}
    for e in received(result, SERVER, "SizeShare"):
        opened.setdefault(e.round, []).append(int(e.body.values[0, 0]))
    for shares, sizes in zip(opened.values(), result.sizes[1:], strict=False):
        assert len(shares) == 2
        assert sum(shares) % P == sizes[0]
    # What every client hears is the same.
    everybody = [len(received(result, c, "SizeShare")) for c in result.plan.clients]
    assert everybody == [n - (len(opened) if j < 2 else 0) for j, n in enumerate([2 * len(opened)] * N)]


def dealers_guess(result, spied):
    """Labels (step 1) that a dealer finds: subset sums of a member's shares of r, which the dealer knows.

    A member that does not lead has (1 - 2 c) r of each point in its share of a size, c the opened bit.
    """
    share = next(e for e in received(result, SERVER, "SizeShare") if e.sender == "client-1")
    told = int(share.body.values[0, 0])
    r = spied["r"]
    signs = np.array(list(product((1, -1), repeat=M)), np.int64)
    totals = (signs * r).sum(axis=1) % P
    return signs[totals == told]


@pytest.fixture
def spied(monkeypatch):
    """What members hold after the first step: the second one's residues, and the bits of both."""
    known = {}
    play = AssignmentStep.play

    def spy(self, masked, old, tables, coins, *, lead):
        new, same = yield from play(self, masked, old, tables, coins, lead=lead)
        known.setdefault("parts", {}).setdefault(lead, new.parts[0, 0].astype(np.int64))
        known.setdefault("bits", {}).setdefault(lead, new.bits[0])
        return new, same

    monkeypatch.setattr(AssignmentStep, "play", spy)
    return known


def test_sizes_would_tell_the_dealer_every_label_if_they_were_not_hidden(monkeypatch, spied):
    def shares_of_r(result):
        opening = next(
            e.body.words for e in received(result, "client-0", "MaskedBits", "client-1")
            if e.body.words.ndim == 1 and e.body.words.dtype == np.uint64
        )  # fmt: skip
        mine = next(
            e.body.words for e in received(result, "client-1", "MaskedBits", "client-0")
            if e.body.words.ndim == 1 and e.body.words.dtype == np.uint64
        )  # fmt: skip
        c = unpack_bits((opening ^ mine)[None, :1], M)[0].astype(np.int64)
        part = spied["parts"][False]
        spied["r"] = np.where(c == 1, (P - part) % P, part)
        labels = unpack_bits((spied["bits"][True] ^ spied["bits"][False])[None], M)[0]
        return c, labels

    def attacked():
        spied.clear()
        result = once()
        return *shares_of_r(result), dealers_guess(result, spied)

    # Sums of other labels are the same by chance with probability 2**-14.
    assert any(not len(attacked()[2]) for _ in range(3))
    monkeypatch.setattr(PartKeys, "hide", lambda self, context, shares, basis=None: dict(shares))
    c, labels, found = next(run for run in (attacked() for _ in range(3)) if len(run[2]) == 1)
    assert ((found[0] == -1) == (c == 1)).all()
    # With c it knows b = c xor r, and r it dealt.
    assert labels.tolist() == (1 - labels_after_one_step()).tolist()


def labels_after_one_step():
    """0 for who is nearer to the first of the two first centers."""
    points = data().stacked()
    centers = np.stack([points[h == START].mean(axis=0) for h in (0, 1)])
    return ((points[:, None] - centers) ** 2).sum(axis=2).argmin(axis=1)


def test_of_restarts_the_server_hears_costs_and_nothing_else():
    """One number a cluster and restart, in shares that are uniform but for it."""
    firsts = []
    for seed in range(short(8, nightly=20)):
        result = once(seed % 2, n_init=2)
        said = {e.kind for e in result.transcript.envelopes if e.recipient == SERVER and e.round >= 7 << 32}
        assert said == {"SizeShare", "MissingMessages", "CodedCosts", "CheckDigest"}
        shares = received(result, SERVER, "CodedCosts")
        assert len(shares) == 2 * 3  # threshold(2) responders
        total = reduce(result.plan.code.basis.add, [e.body.values for e in shares[:3]])
        assert total.any()
        firsts += [int(e.body.values[0, 0]) * 8 // P for e in shares]
    counts = np.bincount(firsts, minlength=8).astype(float)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < chi2.isf(1e-9, 7)
    # Nobody but the server is told a cost.
    assert all(e.recipient == SERVER for e in result.transcript.envelopes if e.kind == "CodedCosts")


# --- clients ---------------------------------------------------------------------------------------


def test_what_each_client_receives_is_uniform():
    """Shares of labels and sums, masked bits, own labels' shares: over many runs on the same points.

    Twelve kinds of numbers, false alarm below 1e-9 each.
    """
    runs, seen = short(24, nightly=60), {}
    for _ in range(runs):
        result = once()
        for e in result.transcript.envelopes:
            if e.kind in ("ResharedPart", "PartShares") and e.body.values.size:
                top = e.body.values[0].astype(np.int64) * 8 // P
                seen.setdefault((e.kind, e.recipient), []).append(top)
            elif e.kind in ("OwnShare", "SizeShare") and e.recipient == "client-3":
                owns = e.kind == "OwnShare"
                one = (
                    unpack_bits(e.body.words, 1)[0, 0] * 4 if owns else e.body.values[0, 0] * np.int64(8) // P
                )
                seen.setdefault((e.kind, e.sender), []).append(np.atleast_1d(np.int64(one)))
    assert {kind for kind, _ in seen} == {"ResharedPart", "PartShares", "OwnShare", "SizeShare"}
    for (kind, _), values in seen.items():
        counts = np.bincount(np.concatenate(values), minlength=8).astype(float)
        counts = counts[counts.nonzero()] if kind == "OwnShare" else counts
        due = counts.sum() / len(counts)
        assert ((counts - due) ** 2 / due).sum() < chi2.isf(1e-9, len(counts) - 1)


def test_an_owner_adds_up_its_own_labels_and_hears_of_no_other_row():
    result = once()
    for j, name in enumerate(result.plan.clients):
        shares = [e.body.words for e in received(result, name, "OwnShare")]
        first, count = result.plan.layout.span(j)
        assert all(share.shape == (1, 1) for share in shares)
        if j > 1:  # members do not tell themselves
            found = from_planes(reduce(np.bitwise_xor, shares), count)
            assert found.tolist() == result.labels[j].tolist()
        assert all(not unpack_bits(share, 64)[:, count:].any() for share in shares)
        assert first == 4 * j


def test_members_open_only_to_members():
    result = once()
    for e in result.transcript.envelopes:
        if isinstance(e.body, MaskedBits):
            assert {e.sender, e.recipient} == {"client-0", "client-1"}
    for name in ("client-2", "client-3", SERVER):
        assert not received(result, name, "LabelShare")


def test_labels_of_new_points_are_told_to_their_owners_alone():
    result, heard = once(), []
    new = secfc.Federation.from_arrays([np.ones((count, 2)) for count in (3, 1, 70, 2)])

    def drive(roles, description, secrets):
        return simulate(roles, faults=lambda e: heard.append(e) or (e,))

    found = result.model.predict(new, coins=lambda name: SystemCoins(), drive=drive)
    want = secfc.fit(dataclasses.replace(WAY, disclosure=secfc.AssignmentsOnly()), data()).predict(new)
    assert all((a == b).all() for a, b in zip(found, want, strict=True))
    last = [e for e in heard if e.round >= 7 << 32]
    assert {e.kind for e in last if e.recipient == SERVER} == {"MissingMessages"}
    told = [e for e in last if e.kind == "OwnShare"]
    for j, name in enumerate(new.names):
        mine = [e for e in told if e.recipient == name]
        assert {e.sender for e in mine} == {"client-0", "client-1"} - {name}
        assert all(e.body.words.shape == (1, -(-new.counts[j] // 64)) for e in mine)
    assert not any(e.kind in ("LabelShare", "FinalResult") for e in last)


# --- a server that deviates ------------------------------------------------------------------------


@pytest.mark.parametrize("change", ["sizes", "step", "start", "early", "labels", "run"])
def test_a_server_that_asks_for_more_is_refused(change):
    """Only the question to one client changes: it raises before it says anything."""
    count = {"n": 0}

    def faults(e):
        if e.recipient != "client-2" or e.kind != "LloydStepQuery":
            return (e,)
        count["n"] += 1
        if count["n"] != 2:
            return (e,)
        other = {
            "sizes": {"sizes": e.body.at.sizes[::-1] + np.array([1, -1])},
            "step": {"step": e.body.at.step + 1},
            "start": {"labels": 1 - e.body.labels},
            "run": {"run": 1},
            "early": {"operation": Operation.DELIVER_LABELS},
            "labels": {"operation": Operation.COMPARE},
        }
        return (dataclasses.replace(e, body=altered(e.body, **other[change])),)

    with pytest.raises((FaultyServer, SuspectedParties), match=r"asked|told"):
        once(faults=faults)


def test_what_does_not_fit_is_refused_with_a_remedy():
    for parameters, remedy in (
        ({"init": secfc.Bisecting()}, "init=Splitting"), ({"init": "k-means++"}, "consent"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=remedy):
            tell_owners(data(), k=2, **parameters)
    assert start_of(once()).tolist() == START.tolist()


# --- attacks ---------------------------------------------------------------------------------------


def test_no_attack_on_the_servers_view_beats_the_best_guess_without_labels():
    """At most 0.01 of the variance; where labels of steps are shown, much more."""
    points = np.random.default_rng(1).normal(size=(400, 6))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    shares = {}
    cases = (OwnLabels(), secfc.Splitting()), (OwnLabels(), secfc.RandomLabels())
    for policy, start in (*cases, (secfc.AssignmentsOnly(), secfc.RandomLabels())):
        witness = QueryRecorder()
        way = secfc.SecFC(k=4, threshold=1, disclosure=policy, init=start)
        result = secfc.fit(way, federation, seed=2, watch=witness)
        finding = curious_server(witness, result, policy, federation)
        shares[policy, start] = finding.judgements["labels alone"].share[-1]
    # Labels that have nothing to do with the points, of clusters as large as each step's.
    rng, nothing = np.random.default_rng(3), []
    for _ in range(20):
        labels = rng.permutation(np.repeat(np.arange(4), 100))
        guess = History((SERVER,), (labels,), (4,), 6)
        nothing.append(judge_guess(guess, points).share[-1])
    for case in cases:
        assert shares[case] < max(nothing) + 0.01
    assert shares[secfc.AssignmentsOnly(), secfc.RandomLabels()] > max(nothing) + 0.1
