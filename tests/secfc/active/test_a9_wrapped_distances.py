"""A9: one client that responds reads how far all others' rows are, by replies that wrap around.

The server decodes distances D_h, and compares D_h / s_h**2 as integers.  What is added to a row's replies is
noticed unless it is kappa s_h**2, modulo the primes that are checked.  With kappa = -theta / s_0**2 it is
-theta for cluster 0, and for the other anything: so D_0 wraps around if it is below theta, and the label says
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
from tests.nightly import short
from tests.secfc.active.adaptive import Stage, forget_ranges, grouped_rows


class Reader:
    """The cheater's notebook: labels that it restores, and between which numbers distances lie."""

    def __init__(self, plan, number, first, rng):
        self.plan, self.number, self.first, self.rng = plan, number, first, rng
        self.sizes = [int(x) for x in np.bincount(first, minlength=2)]
        self.most = [plan.honest_range(s) for s in self.sizes]
        self.near = int(np.argmin(self.sizes))
        self.low, self.high = np.zeros(plan.m, object), np.full(plan.m, self.most[self.near] >> 4, object)
        self.thresholds = None

    def falsify(self, question, body):
        labels, lanes = question.labels.astype(int), len(body.values)
        if self.thresholds is not None:
            far = labels == self.near
            self.low = np.where(far, self.thresholds, self.low)
            self.high = np.where(far, self.high, self.thresholds)
            self.thresholds = None
        modulus = self.plan.code.basis.prefix(lanes).modulus
        sizes = [int(x) for x in np.bincount(labels, minlength=2)]
        kappas = [self.force(modulus, sizes, want) for want in self.first.tolist()]
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
        near, far = (self.sizes[h] ** 2 for h in (self.near, 1 - self.near))
        first, count = self.plan.layout.span(self.number)
        self.thresholds = self.high.copy()
        for i in [*range(first), *range(first + count, self.plan.m)]:
            for _ in range(100):
                width = int(self.high[i] - self.low[i])
                theta = int(self.low[i]) + width // 2 + int(self.rng.integers(0, 1 + (width >> 3)))
                kappas[i] = -theta * pow(near, -1, modulus) % modulus
                there = kappas[i] * far % modulus
                # Of the other distance it is known that it lies above one of these two, and below the other.
                if self.most[self.near] * far < there * near < (modulus // 2) * min(near, far):
                    break
            self.thresholds[i] = theta

    def force(self, modulus, sizes, want):
        """What makes a label: none where one size divides the other, which it tries again."""
        if all(sizes):
            for _ in range(100):
                kappa = int(self.rng.integers(0, 2**62)) % modulus
                at = [kappa * s**2 % modulus / s**2 for s in sizes]
                if at[want] * 1.01 < at[1 - want]:
                    return kappa
        return 0


def attack(seed, steps=36, n=3, rows=11, **options):
    """A run with that client: how much of the spread of foreign distances it reads; the error, if any."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 2, n * rows).astype(np.int32)
    start[rows : 2 * rows] = np.arange(rows) % 2  # of its own rows
    way = secfc.SecFC(
        k=2, disclosure=secfc.Distances(**options), init=secfc.GivenLabels(start), max_iter=steps
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


@pytest.mark.parametrize("blind", [True, False])
def test_it_is_refused_at_its_first_false_question(blind):
    for seed in range(short(2, nightly=100)):
        read, error = attack(seed, blind=blind)
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
