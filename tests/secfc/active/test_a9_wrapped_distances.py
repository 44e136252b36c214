"""A9: one client that responds reads how far all others' rows are, by replies that wrap around.

The server decodes distances D_h, and compares D_h / s_h**2 as integers.  What is added to a row's replies is
noticed unless it is kappa s_h**2, modulo the primes that are checked.  With kappa = -theta / s_0**2 it is
-theta for cluster 0, and anything for others: so D_0 wraps around if it is below theta, and the label says
which.  So it restores the same labels again and again, and bisects the distances of all rows at once.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import secfc
from secfc.coded.messages import CodedDistances
from secfc.coded.queries import Query
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short
from tests.secfc.active.adaptive import Stage, forget_ranges, grouped_rows


class Reader:
    """The deviating client's notebook: labels that it restores, and between which numbers distances lie."""

    def __init__(self, plan, number, first, rng):
        self.plan, self.number, self.first, self.rng = plan, number, first, rng
        self.k = plan.k
        self.sizes = [int(x) for x in np.bincount(first, minlength=self.k)]
        self.most = [plan.honest_range(s) for s in self.sizes]
        self.near = int(np.argmin(self.sizes))
        self.low, self.high = np.zeros(plan.m, object), np.full(plan.m, self.most[self.near] >> 4, object)
        self.thresholds = None

    def falsify(self, question, body):
        labels, lanes = question.labels.astype(int), len(body.values)
        if self.thresholds is not None:
            far = labels == self.near
            self.low = np.where(self.tested & far, self.thresholds, self.low)
            self.high = np.where(self.tested & ~far, self.thresholds, self.high)
            self.thresholds = None
        modulus = self.plan.code.basis.prefix(lanes).modulus
        sizes = [int(x) for x in np.bincount(labels, minlength=self.k)]
        kappas = [
            self.force(modulus, sizes, *each)
            for each in zip(self.first.tolist(), labels.tolist(), strict=True)
        ]
        if sizes == self.sizes and (labels == self.first).all():
            self.test(modulus, kappas)
        chosen, weights = self.plan.code.decoding_weights(tuple(question.responders.tolist()), 2)
        values = body.values.copy()
        for lane, p in enumerate(self.plan.code.basis.primes[:lanes]):
            down = pow(int(weights[lane, chosen.index(self.number)]), -1, p)
            for h, size in enumerate(sizes):
                add = np.array([kappa * size**2 * down % p for kappa in kappas], np.uint64)
                values[lane, h] = (values[lane, h] + add) % np.uint64(p)
        return replace(body, values=values)

    def test(self, modulus, kappas):
        """Choose thresholds for the rows of others, and what tests them; its own keep both clusters alive."""
        near = self.sizes[self.near] ** 2
        others = [s**2 for h, s in enumerate(self.sizes) if h != self.near]
        first, count = self.plan.layout.span(self.number)
        self.thresholds = self.high.copy()
        # Among many clusters a few rows at once, lest one of them is left without any.
        self.tested = self.rng.integers(0, 1 if self.k == 2 else 8, self.plan.m) == 0
        self.tested[first : first + count] = False
        toggles = first + count - 1  # one of its own, so that the run goes on
        kappas[toggles] = self.force(modulus, self.sizes, (int(self.first[toggles]) + 1) % self.k)
        for i in np.flatnonzero(self.tested):
            for _ in range(100):
                width = int(self.high[i] - self.low[i])
                theta = int(self.low[i]) + width // 2 + int(self.rng.integers(0, 1 + (width >> 3)))
                kappas[i] = -theta * pow(near, -1, modulus) % modulus
                there = [(kappas[i] * far % modulus, far) for far in others]
                # Of other distances it is known that they lie above one of these two, and below the other.
                if all(
                    self.most[self.near] * far < x * near < (modulus // 2) * min(near, far)
                    for x, far in there
                ):
                    break
            self.thresholds[i] = theta

    def force(self, modulus, sizes, want, now=None):
        """What makes a label; or if none does, as one size divides another, the label that there is now,
        sometimes any: it tries that again."""
        goals = (
            [want]
            if self.k == 2 or now is None
            else [want, now if self.rng.integers(6) else self.rng.integers(self.k)]
        )
        for goal in goals if all(sizes) else ():
            for _ in range(100):
                kappa = int(self.rng.integers(0, 2**62)) % modulus
                at = [kappa * s**2 % modulus / s**2 for s in sizes]
                if at[goal] * 1.01 < min(x for h, x in enumerate(at) if h != goal):
                    return kappa
        return 0


def first_labels(rng, k, n, rows):
    """Labels in which its own rows, the second ones, are in all clusters; of three and more none divides
    another in size."""
    start = rng.integers(0, 2, n * rows).astype(np.int32)
    mine = np.arange(rows) % k
    if k > 2:
        left = np.array({3: (21, 27, 33), 4: (15, 19, 22, 25)}[k]) - np.bincount(mine)
        start[:] = np.insert(rng.permutation(np.repeat(np.arange(k), left)), rows, mine)
    start[rows : 2 * rows] = mine
    return start


def attack(seed, steps=36, n=3, rows=11, k=2, **options):
    """A run with that client: how much of the spread of foreign distances it reads; the error, if any."""
    rng = np.random.default_rng(seed)
    start = first_labels(rng, k, n, rows)
    way = secfc.SecFC(
        k=k, disclosure=secfc.Distances(**options), init=secfc.GivenLabels(start), max_iter=steps
    )
    stage = Stage(way, grouped_rows(seed, n, rows, 2, 4))
    reader = Reader(stage.plan, 1, start, rng)

    def evil(role):
        try:
            out, question = role.send(None), None
            while True:
                reply = out.send.get(SERVER)
                if isinstance(reply, CodedDistances):
                    out = replace(out, send={**out.send, SERVER: reader.falsify(question, reply)})
                inbox = yield out
                question = inbox.get(SERVER) if isinstance(inbox.get(SERVER), Query) else question
                out = role.send(inbox)
        except StopIteration as done:
            return done.value

    _, error = stage.run("client-1", evil, CodedDistances)
    X, own = stage.X.astype(object), start == reader.near
    truth = ((reader.sizes[reader.near] * X - X[own].sum(0)) ** 2).sum(1).astype(float)
    others = np.arange(len(X)) // rows != 1
    off = (((reader.low + reader.high) / 2).astype(float) - truth)[others]
    return 1 - (off**2).mean() / truth[others].var(), error


@pytest.mark.parametrize("blind", [True, False])
def test_without_ranges_it_reads_nearly_everything(blind, monkeypatch):
    """Positive control: replies are right modulo what they are told in, and nobody complains."""
    forget_ranges(monkeypatch)
    read, error = attack(0, blind=blind)
    assert error is None
    assert read > 0.98


@pytest.mark.nightly
def test_without_ranges_it_reads_nearly_everything_among_three_clusters(monkeypatch):
    """Positive control.  Among four it chooses labels too, but loses a cluster before it has read much."""
    forget_ranges(monkeypatch)
    read, error = attack(3, steps=300, rows=27, k=3)
    assert error is None
    assert read > 0.98
    assert attack(0, rows=27, k=4)[1] is None


@pytest.mark.parametrize(
    ("k", "blind"), [(2, True), (2, False), (3, True), (4, True), *by_night((3, False), (4, False))]
)
def test_it_is_refused_at_its_first_false_question(k, blind):
    for seed in range(short(2, nightly=100)):
        read, error = attack(seed, rows=11 if k == 2 else 27, k=k, blind=blind)
        assert "are not within the range of what honest rows give; nothing of this step" in str(error)
        assert read < 0


@pytest.mark.parametrize(("modulus", "reads"), [(37, True), (203, True), (217, False), (223, False)])
def test_within_ranges_it_takes_a_check_modulo_more_than_twice_the_widest_comparison(modulus, reads):
    """All pairs of distances to clusters of 2 and 3 points, at most 3 s**2, and all that the check misses."""
    near, far, most = 4, 9, 3
    found = False
    for a, b, kappa in product(range(most * near + 1), range(most * far + 1), range(modulus)):
        x, y = (a + kappa * near) % modulus, (b + kappa * far) % modulus
        found |= x <= most * near and y <= most * far and (x * far < y * near) != (a * far < b * near)
    assert found == reads
    assert (modulus > 2 * most * near * far) == (not reads)
