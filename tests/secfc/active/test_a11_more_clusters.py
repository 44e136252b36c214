"""A11: a client that responds reads rows among three clusters, and where a step has two questions.

Offsets of any size on its masked distances force all labels, those of some others' rows but for one
comparison.  Where a step first asks which points another center wins, and then for the nearest centers of
these, the first answer is the test.  Every second step puts all points back where they were, so each row is
bisected.
"""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from secfc.coded.messages import LabelShare, MaskedBits, MaskedDistances
from secfc.coded.parameters import Network
from secfc.coded.queries import Operation, Query
from secfc.disclosure.compare.candidates import moved_points
from secfc.kmeans.starts import RandomLabels
from secfc.roles.exchange import SERVER
from tests.nightly import every, short
from tests.secfc.active.adaptive import Stage, grouped_rows

BITS, K = short(6, nightly=20), 3
WAYS = {
    "all at once": {Operation.COMPARE},
    "two questions": {Operation.COMPARE, Operation.COMPARE_OWN, Operation.COMPARE_MOVED},
}


class Bisection:
    """What a client adds to its masked distances, and what labels then tell it of its victims.

    A test of a victim is of its next cluster against its own, by the sign of the lead of the former.
    """

    def __init__(self, stage, own, victims):
        self.plan, self.X, self.own, self.victims = stage.plan, stage.X, own, victims
        self.wanted, self.tests, self.last, self.kinds = None, False, None, set()
        self.far = 4 * stage.plan.d * int(stage.plan.quantizer.max_int) ** 2 + 1
        self.lied_in = None

    def hear(self, asked):
        """A question, whose labels are what the last step opened."""
        labels = asked.labels.astype(int)
        self.kinds.add(asked.operation)
        self.last = asked
        if asked.operation is Operation.COMPARE_MOVED:
            return
        if self.wanted is None:
            self.wanted = labels
            self.sizes = [int(s) for s in np.bincount(labels, minlength=K)]
            top = {v: self.unit(labels[v], self.aim(v)) * self.far for v in self.victims}
            self.low, self.high = {v: -x for v, x in top.items()}, top
        if self.tests:
            for v in self.victims:
                middle = self.middle(v)
                if labels[v] == self.wanted[v]:
                    self.high[v] = middle
                else:
                    self.low[v] = middle
        self.tests = bool((labels == self.wanted).all())

    def unit(self, a, b):
        return (self.sizes[a] * self.sizes[b] // int(np.gcd(self.sizes[a], self.sizes[b]))) ** 2

    def middle(self, v):
        """A multiple of what its distance is multiplied by, so that no third cluster tells a difference."""
        a, h = self.sizes[self.wanted[v]], self.sizes[self.aim(v)]
        step = (a // int(np.gcd(a, h))) ** 2
        return (self.low[v] + self.high[v]) // 2 // step * step

    def aim(self, v):
        return (int(self.wanted[v]) + 1) % K

    def goal(self, i):
        """The cluster that point i is to have after this step."""
        return self.aim(i) if self.tests and (i == self.own or i in self.victims) else int(self.wanted[i])

    def falsify(self, body):
        """Distances, or leads, of which one of each victim is shifted to the middle of what is known."""
        asked = self.last
        labels, values = asked.labels.astype(int), body.values.copy()
        if not values.size:
            return body  # what replies are checked by
        now = [int(s) for s in np.bincount(labels, minlength=K)]
        points = np.arange(len(labels))
        if asked.operation is Operation.COMPARE_MOVED:
            points = np.flatnonzero(moved_points(asked.subject))
        for at, i in enumerate(points):
            add = self.leads(i, labels, now) if asked.operation is Operation.COMPARE_OWN else None
            if add is None:
                add = self.distances(i, now, asked.operation)
            for row, x in enumerate(add):
                for lane, p in enumerate(self.plan.code.basis.primes[: len(values)]):
                    values[lane, row, at] = (int(values[lane, row, at]) + x) % p
        self.lied_in = asked.round
        return replace(body, values=values)

    def leads(self, i, labels, now):
        """Of others over the center of its label."""
        a, goal = labels[i], self.goal(i)
        others = [h for h in range(K) if h != a]
        scale = {h: (now[a] * now[h] // int(np.gcd(now[a], now[h]))) ** 2 * self.far for h in others}
        if self.tests and i in self.victims:
            return [-self.middle(i) if h == self.aim(i) else -scale[h] for h in others]
        return [scale[h] if h == goal else -scale[h] for h in others]

    def distances(self, i, now, operation):
        goal = self.goal(i)
        if self.tests and i in self.victims and operation is Operation.COMPARE:
            a, h = int(self.wanted[i]), self.aim(i)
            shift = self.middle(i) // (now[a] // int(np.gcd(now[a], now[h]))) ** 2
            return [0 if c == a else shift if c == h else now[c] ** 2 * self.far for c in range(K)]
        return [0 if c == goal else now[c] ** 2 * self.far for c in range(K)]


def stage_of(way, seed, deviating, max_iter):
    """The second client from the end has the row that keeps a run going, and `victims` are others' rows."""
    rows, network = (32, Network(0.0, 1.0)) if way == "two questions" else (8, Network())
    stage = Stage(
        secfc.SecFC(
            K,
            secfc.Threshold(2, deviating=deviating),
            init=RandomLabels(),
            max_iter=max_iter,
            runtime=secfc.Runtime(network=network),
        ),
        grouped_rows(seed, 5, rows, 2, K),
    )
    return stage, 3 * rows, (1, rows + 1, 2 * rows + 1)


def deviating_role(kind, hear, falsify):
    """A role whose messages of a kind are other ones, once it heard a question."""

    def evil(role):
        last = None
        try:
            out = role.send(None)
            while True:
                send = {
                    to: falsify(body) if isinstance(body, kind) and last is not None else body
                    for to, body in out.send.items()
                }
                inbox = yield replace(out, send=send)
                asked = inbox.get(SERVER)
                if isinstance(asked, Query) and asked.operation in WAYS["two questions"]:
                    last = asked
                    hear(asked)
                out = role.send(inbox)
        except StopIteration as done:
            return done.value

    return evil


def attack(way, seed=0, deviating=1):
    """A run with that client: its notebook, rounds in which labels were told, the error."""
    stage, own, victims = stage_of(way, seed, deviating, 2 * BITS + 6)
    notes = Bisection(stage, own, victims)
    told, error = stage.run(
        "client-3", deviating_role(MaskedDistances, notes.hear, notes.falsify), LabelShare
    )
    return notes, told, error


def lead(notes, v):
    """Of a victim's next center over its own, by plaintext."""
    X, labels, sizes = notes.X.astype(object), notes.wanted, notes.sizes
    a, h = int(labels[v]), notes.aim(v)
    D = {c: int(((sizes[c] * X[v] - X[labels == c].sum(0)) ** 2).sum()) for c in (a, h)}
    return (sizes[h] ** 2 * D[a] - sizes[a] ** 2 * D[h]) // int(np.gcd(sizes[a], sizes[h])) ** 2


@pytest.mark.parametrize("way", every(2, WAYS))
def test_without_the_check_it_reads_leads_of_others_rows(way, monkeypatch):
    """Positive control: all parties end, and nobody complains."""
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    notes, _, error = attack(way, deviating=0)
    assert error is None
    assert notes.kinds == WAYS[way]
    for v in notes.victims:
        assert notes.low[v] <= lead(notes, v) <= notes.high[v]
        assert notes.high[v] - notes.low[v] < notes.unit(notes.wanted[v], notes.aim(v)) * notes.far / 2**BITS


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_before_its_first_false_question_opens_a_label(way):
    for seed in range(short(2, nightly=100)):
        notes, told, error = attack(way, seed)
        assert "do not fit the shares of the rows; nothing of this step was opened" in str(error)
        assert notes.lied_in is not None
        assert all(number < notes.lied_in for number in told)


@pytest.mark.parametrize("operation", sorted(WAYS["two questions"], key=str))
def test_a_member_that_flips_a_bit_of_any_question_is_refused_before_a_label_of_it(operation):
    """With the positive control: where it plays its part alone nobody complains."""
    refused, tries = 0, short(2, nightly=100)
    for seed, deviating in [(0, 0), *((seed, 1) for seed in range(tries))]:
        lied_in, asked = [], []

        def flip(body, asked=asked, lied_in=lied_in, seed=seed):
            here = asked[-1].operation is operation and body.words.size and body.words.dtype == np.uint64
            if not here or (lied_in and lied_in[0] != asked[-1].round):
                return body
            lied_in.append(asked[-1].round)
            words = body.words.copy()
            words.reshape(-1)[seed % words.size] ^= np.uint64(1 << 7 * seed % 64)
            return replace(body, words=words)

        stage, _, _ = stage_of("two questions", seed, deviating, 100)
        told, error = stage.run("client-0", deviating_role(MaskedBits, asked.append, flip), LabelShare)
        assert (error is None) == (deviating == 0 or not lied_in)
        if error is not None:
            refused += 1
            assert "nothing of this step was opened" in str(error)
            assert "client-0" in error.parties
            assert all(number < lied_in[0] for number in told)
    assert refused >= tries - tries // 20  # a few runs end without such a question
