"""Rules that could once be broken without a test noticing, each with the broken rule as its control.

`python -m tests.mutation` looks for more of them.
"""

import itertools
import os
from collections import Counter
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

import secfc
from field.compare.argmin import ArgminContest
from field.compare.dealer_protocol import DealerSchedule, rerandomize
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.noise import SAMPLED, discrete_gaussian
from secfc.coded.plan import PublicOwnerLayout
from secfc.coded.union import Disputes
from secfc.disclosure.checked.parts import PartKeys
from secfc.disclosure.noise.in_shares import ReleaseCounts
from secfc.disclosure.noise.noise import Noise
from secfc.privacy import Bound, Budget, Neighbors
from secfc.roles.exchange import SERVER
from secfc.transport.checkpoint import journal_path
from secfc.transport.journal import Journal, exchange_digest
from tests.field.compare.committee import shared, tournament

# --- shares of labels are re-randomized before they leave the committee ------------------------------


class Bits:
    """A stream that both ends of a pair hold: these bits at the places that a test enumerates."""

    def __init__(self, bits, places, m):
        self.bits, self.places, self.m = bits, places, m

    def fill(self, out):
        assert out.shape[0] == self.places
        out[:] = 0
        for place in range(self.places):
            for i in range(self.m):
                out[place, 0] |= np.uint64(self.bits[place * self.m + i] << i)


def law_of_label_shares(contest, kind, scaled, members, *, masked=True):
    """How often the dealer is sent each tuple of label shares, over all coins that it does not know.

    All that the dealer knows is fixed: masks of distances and the members' streams.  What it does not know
    are the streams between members, and every value that they can have is tried.
    """
    m = scaled.shape[1]
    _, shares, _ = shared(contest, Basis(LANE_PRIMES[:2]), scaled, members, 3, kind=kind)
    pairs, size = list(itertools.combinations(range(members), 2)), contest.places * m
    seen = Counter()
    for bits in itertools.product((0, 1), repeat=size * len(pairs) if masked else 0):
        streams = [[] for _ in range(members)]
        for number, pair in enumerate(pairs):
            drawn = bits[number * size : (number + 1) * size] if masked else (0,) * size
            for j in pair:
                streams[j].append(Bits(drawn, contest.places, m))
        sent = [rerandomize(share, zeros) for share, zeros in zip(shares, streams, strict=True)]
        # Words have bits for 64 points and more; those of no point are all alike.
        seen[tuple(tuple(int(w) % 2**m for w in share[:, 0]) for share in sent)] += 1
    return seen


@pytest.mark.parametrize(("k", "members", "m", "kind"), [
    (3, 2, 2, DealerSchedule), (3, 3, 1, DealerSchedule), (4, 3, 1, DealerSchedule), (9, 2, 1, tournament),
])  # fmt: skip
def test_what_members_send_a_dealer_depends_on_the_labels_alone(k, members, m, kind):
    contest, rng = ArgminContest.nearest(np.full(k, 2)), np.random.default_rng(k)
    # Cluster 1 wins always; all that differs is how the others compare with one another.
    worlds = [np.vstack([rng.integers(5, 99, (k, m)).astype(object)]) for _ in range(12)]
    for world in worlds:
        world[1] = 4
    laws = [law_of_label_shares(contest, kind, world, members) for world in worlds]
    assert all(law == laws[0] for law in laws)
    # Uniform among the tuples that sum to the label: all of them, and equally often.
    places = contest.places
    assert len(laws[0]) == 2 ** (places * m * (members - 1))
    assert len(set(laws[0].values())) == 1
    one = tuple(sum(int(contest.labels[1]) >> p & 1 and 1 << i for i in range(m)) for p in range(places))
    sums = {tuple(np.bitwise_xor.reduce(np.array(sent, object), axis=0)) for sent in laws[0]}
    assert sums == {one}
    # The control: without the mask each tuple says how other clusters compare.
    bare = [law_of_label_shares(contest, kind, world, members, masked=False) for world in worlds]
    assert any(law != bare[0] for law in bare)


def label_shares_are_hidden(monkeypatch, hide=PartKeys.hide):
    """Whether, in a whole run, each member's share leaves under a mask that is fresh and sums to zero."""
    calls = []

    def spy(self, context, shares):
        out = hide(self, context, shares)
        ((part, share),) = shares.items()
        calls.append((share.copy(), out[part].copy()))
        return out

    monkeypatch.setattr(PartKeys, "hide", spy)
    points = np.random.default_rng(0).normal(size=(5, 40, 2))
    alone = secfc.Threshold(2, deviating=0)
    way = secfc.SecFC(k=4, threshold=alone, max_iter=3, init=secfc.RandomLabels())
    result = secfc.fit(way, secfc.Federation.from_arrays(points), keep_bodies=True, seed=1)
    sent = [e for e in result.transcript.envelopes if e.kind == "LabelShare"]
    # Every client hears the labels as the server does: each member tells the same share to all others.
    assert {e.recipient for e in sent} == {SERVER, *result.plan.clients}
    told = [e for e in sent if e.recipient == SERVER]
    assert {e.body.words.tobytes() for e in sent} == {e.body.words.tobytes() for e in told}
    sent = told
    rounds = Counter(e.round for e in sent)
    assert set(rounds.values()) == {3}, "three members, in each question"
    leaves = {e.body.words.tobytes() for e in sent}
    found = [share ^ out for share, out in calls]
    full = min(int(np.bitwise_count(mask).sum()) for mask in found) > 0.3 * 64 * found[0].size
    questions = [found[at : at + 3] for at in range(0, len(found), 3)]
    return (
        len(calls) == len(sent)
        and leaves == {out.tobytes() for _, out in calls}
        and full
        and not any(np.bitwise_xor.reduce(np.array(three), axis=0).any() for three in questions)
        and len({mask.tobytes() for mask in found}) == len(found)
    )


def test_members_hide_their_label_shares_in_every_question(monkeypatch):
    real = PartKeys.hide

    def none(self, context, shares):
        return shares

    def always_the_same(self, context, shares):
        return real(replace(self, key=bytes(32)), b"", shares)

    with monkeypatch.context() as patch:
        assert label_shares_are_hidden(patch)
    for broken in (none, always_the_same):
        with monkeypatch.context() as patch:
            assert not label_shares_are_hidden(patch, broken)


# --- what is sent is on the disk before -------------------------------------------------------------


class Disk:
    """What a loss of power would leave: of every file, what it held when it was last synced."""

    def __init__(self, monkeypatch):
        self.kept, self.folders = {}, set()
        for name in ("fsync", "fdatasync"):
            if hasattr(os, name):
                monkeypatch.setattr(os, name, self.sync)

    def sync(self, fd):
        status = os.fstat(fd)
        if os.path.isdir(f"/dev/fd/{fd}"):
            self.folders.add(status.st_ino)
        else:
            self.kept[status.st_ino] = os.pread(fd, status.st_size, 0)

    def of(self, path):
        return self.kept.get(path.stat().st_ino, b"")


def what_left_was_on_the_disk(directory, monkeypatch):
    """Whether all that left a party was on the disk before, with what came earlier; the result at the end."""
    disk, early = Disk(monkeypatch), []

    def watch(name, exchange):
        path, digest = journal_path(directory, name), exchange_digest(exchange.round, exchange.send)
        # The last record is what leaves now: its contents are that digest.
        if not disk.of(path).endswith(digest) or disk.of(path) != path.read_bytes():
            early.append((name, exchange.round))
        if directory.stat().st_ino not in disk.folders:
            early.append((name, "the directory itself"))

    points = np.random.default_rng(0).normal(size=(3, 8, 2))
    way = secfc.SecFC(k=2, threshold=1, max_iter=2, disclosure=secfc.Distances())
    federation = secfc.Federation.from_arrays(points)
    secfc.fit(way, federation, checkpoint=directory, watch=watch, seed=0)
    paths = [journal_path(directory, name) for name in (*federation.names, SERVER)]
    return not early and all(disk.of(path) == path.read_bytes() for path in paths)


def test_nothing_leaves_a_party_before_it_is_on_the_disk(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        assert what_left_was_on_the_disk(tmp_path / "kept", patch)
    # The controls: no sync at all, one that comes after the sending, and none at the end.
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "sync", lambda self, file=None: None)
        assert not what_left_was_on_the_disk(tmp_path / "never", patch)
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write_sent", lambda self, digest: self._write(2, [digest]))
        assert not what_left_was_on_the_disk(tmp_path / "late", patch)


# --- noise is at least as wide as the budget asks ---------------------------------------------------


def covers(sigma, squared, multiplier, entries, honest):
    """Whether so many contributors of sigma each cover this, exactly, with the unit of wide noise.

    squared: the square of the sensitivity.  An entry of noise in units of its own changes by at most one unit
    more, 2**(1 - SAMPLED) sigma: so their deviation must be `multiplier` times the sensitivity plus
    sqrt(entries) of those units (`field.ring.noise.wide_noise`), and is not wastefully above.
    """
    with localcontext() as context:
        context.prec = 60
        exact = (Decimal(squared.numerator) / Decimal(squared.denominator)).sqrt()
        together = Decimal(sigma.numerator) / Decimal(sigma.denominator) * Decimal(honest).sqrt()
        unit = Decimal(entries).sqrt() * together / 2 ** (SAMPLED - 1)
        least = Decimal(multiplier) * (exact + unit)
        return least <= together <= least * (1 + Decimal(10) ** -10) + 4 * Decimal(multiplier) * unit


def wide_enough(noise, labels, k, honest):
    """Whether the noise on distances and on sums of 6 features covers any one data point."""
    m, layout = len(labels), PublicOwnerLayout((len(labels),))
    alive = [s for s in np.bincount(labels, minlength=k).tolist() if s]
    spread = max(16 * len(alive) + (m - 1) * (4 * (2 - Fraction(1, s)) * Fraction(1, s)) ** 2 for s in alive)
    sigma = noise.on_distances(layout, labels, k)
    moved = (2 * noise.radius) ** 2
    return covers(sigma, spread * noise.radius**4, noise.distances, m * k, honest) and covers(
        noise.on_sums(layout, labels, k, 6), Fraction(moved), noise.sums, k * 6, honest
    )


@pytest.mark.parametrize("distances", [0.01, 1.0, 300.0, 2.0**20])
@pytest.mark.parametrize("honest", [1, 3, 7])
def test_rounding_never_makes_noise_narrower_than_the_budget(distances, honest, monkeypatch):
    noise = Noise(discrete_gaussian, Neighbors("replace"), 1000, distances, distances / 3, honest)
    rng = np.random.default_rng(0)
    for m, k in ((8, 2), (100, 3), (5000, 10)):
        labels = rng.integers(0, k, m).astype(np.int32)
        assert wide_enough(noise, labels, k, honest)
    # The control: a slack of the other sign.
    one = Noise.client_deviation

    def narrower(self, sensitivity, multiplier, entries):
        exact = Fraction(sensitivity * multiplier / self.honest**0.5)
        return exact - (one(self, sensitivity, multiplier, entries) - exact)

    monkeypatch.setattr(Noise, "client_deviation", narrower)
    assert not wide_enough(noise, labels, k, honest)


@pytest.mark.parametrize(("policy", "honest"), [
    (secfc.NoiseInShares, 7 - 2),
    (partial(secfc.NoiseInShares, absent=2), 7 - 2 - 2),
])  # fmt: skip
def test_the_noise_of_those_who_are_honest_suffices_alone(policy, honest):
    noise = policy(Budget(1.0, 1e-6), Bound.given(1.0)).noise(ReleaseCounts(7, 2, 3, 4, 0), 1000)
    labels = np.arange(30, dtype=np.int32) % 3
    assert wide_enough(noise, labels, 3, honest)
    assert not wide_enough(replace(noise, honest=honest + 1), labels, 3, honest)


def test_one_honest_client_is_somebody():
    assert secfc.NoiseInShares(Budget(1.0, 1e-6), Bound.given(1.0), absent=4).honest(7, 2) == 1
    with pytest.raises(ValueError, match="leave nobody whose noise counts"):
        secfc.NoiseInShares(Budget(1.0, 1e-6), Bound.given(1.0), absent=5).honest(7, 2)


@pytest.mark.parametrize(("m", "k"), [(2, 2), (5, 2), (6, 3)])
@pytest.mark.parametrize("distances", [0.1, 2.0**45])
def test_the_widest_noise_that_a_plan_makes_room_for_is_that_of_the_worst_labels(m, k, distances):
    noise = Noise(discrete_gaussian, Neighbors("replace"), 50, distances, 1.0, 2)
    all_labels = (np.array(labels, np.int32) for labels in itertools.product(range(k), repeat=m))
    worst = max(noise.on_distances(PublicOwnerLayout((m,)), labels, k) for labels in all_labels) / 50**2
    assert worst <= Fraction(noise.largest(m, k, 1)) <= worst * Fraction(3, 2)


# --- disputed rows may be neighbors, and are named once ----------------------------------------------


@pytest.mark.parametrize("rows", [[2], [2, 3], [0, 1, 2, 3, 4], [0, 4], []])
def test_any_set_of_rows_may_be_disputed(rows):
    assert Disputes(np.array(rows, np.int64)).rows.tolist() == rows


@pytest.mark.parametrize("rows", [[2, 2], [3, 2], [-1], [-1, 5]])
def test_no_other_rows_are_disputed(rows):
    with pytest.raises(ValueError, match="ascending, distinct and not negative"):
        Disputes(np.array(rows, np.int64))
