"""A9: one client that responds reads the rows of all others, by offsets on its masked distances.

The opened label of a point is [w + e < 0] for any e it likes: with a large one it chooses the label, with a
small one the label is a threshold test of w, a difference of two distances.  So it forces labels (one of its
own points alone in a cluster), then bisects w of every point at once.  w is affine in a row, and its own rows
calibrate.
"""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from secfc.coded.messages import LabelShare, MaskedDistances
from secfc.coded.queries import Operation, Query
from secfc.disclosure.dealerless import policy
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short
from tests.secfc.active.adaptive import Stage, grouped_rows

BITS = 12


class Reader:
    """The deviating client's notebook: what it adds to its replies, and what labels then tell it."""

    def __init__(self, plan, name, points, dealer):
        self.plan, self.m = plan, plan.m
        number = plan.clients.index(name)
        self.first, self.count = plan.layout.span(number)
        self.number, self.dealer = number, dealer
        self.own = plan.quantizer(points).astype(object)
        self.job, self.bit, self.low, self.measuring, self.found = 0, 0, None, None, []
        self.asked, self.lied_in, self.offsets = 0, None, None
        # Of its points those that are farthest apart, one more than features.
        left = self.own.astype(float) - self.own.astype(float).mean(0)
        self.chosen = []
        for _ in range(plan.d + 1):
            p = int((left**2).sum(1).argmax())
            self.chosen.append(p)
            v = left[p] / np.linalg.norm(left[p])
            left = left - np.outer(left @ v, v)
            if (left**2).max() < 1e-6:
                left = self.own.astype(float) - self.own[p].astype(float)

    def wanted(self):
        labels = np.ones(self.m, np.int32)
        labels[self.first + self.chosen[self.job]] = 0
        return labels

    def hear(self, question):
        """The labels of this question are what the last one opened."""
        self.asked += 1
        labels = question.labels.astype(int)
        if self.measuring is not None:
            below = labels == 1
            self.high = np.where(below, self.measuring, self.high)
            self.low = np.where(below, self.low, self.measuring)
            self.measuring, self.bit = None, self.bit + 1
            if self.bit == BITS:
                self.found.append((self.chosen[self.job], (self.low + self.high) / 2))
                self.job, self.bit, self.low = self.job + 1, 0, None
        self.offsets = None
        if self.job >= len(self.chosen):
            return
        sizes = np.bincount(labels, minlength=2)
        eta, d = int(self.plan.quantizer.max_int), self.plan.d
        if (labels == self.wanted()).all():
            if self.low is None:
                bound = 4 * d * eta**2 * int(sizes[1]) ** 2
                self.low, self.high = (np.full(self.m, x, object) for x in (-bound, bound))
            self.measuring = (self.low + self.high) // 2
            add = -self.measuring
        else:
            big = min(4 * d * eta**2 * self.m**4 + 1, self.plan.code.basis.modulus // 5)
            add = np.array([-big if x else big for x in self.wanted()], object)
        common = int(np.gcd(*sizes))
        self.offsets = add, (int(sizes[1]) // common) ** 2

    def falsify(self, body, question):
        values = body.values.copy()  # (lanes, 2, points): w = u D_1 - v D_0
        (add, v), weights = self.offsets, np.ones((len(values), 1), np.int64)
        if self.dealer is None:
            # Replies are weighted by whoever adds them up.
            chosen, weights = self.plan.code.decoding_weights(tuple(question.responders.tolist()), 2)
            weights = weights[:, [chosen.index(self.number)]]
        for lane, p in enumerate(self.plan.code.basis.primes[: len(values)]):
            scale = pow(v * int(weights[lane, 0]), -1, p)
            each = np.array([-int(x) * scale % p for x in add], np.uint64)
            values[lane, 0] = (values[lane, 0] + each) % np.uint64(p)
        return replace(body, values=values)

    def read(self, truth):
        """The share of the variance of others' rows that it reads."""
        X = self.own.astype(float)
        W = np.stack([w.astype(float) for _, w in self.found], 1)
        mine, rest = slice(self.first, self.first + self.count), np.ones(self.m, bool)
        rest[mine] = False
        rows, right = [], []
        for q, (p, _) in enumerate(self.found):
            dw, dx = W[mine, q] - W[mine, q].mean(), X - X.mean(0)
            rows.append(-2 * (self.m - 1) * dx)
            right.append(dw - 2 * (self.m - 1) * self.m * dx @ X[p])
        total = np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=None)[0]
        A = np.stack([2 * (self.m - 1) * (self.m * X[p] - total) for p, _ in self.found])
        c = np.array([(W[mine, q] - X @ A[q]).mean() for q in range(len(A))])
        guess = np.linalg.lstsq(A, (W - c).T, rcond=None)[0].T
        off = ((guess - truth)[rest] ** 2).sum()
        return 1 - off / ((truth - truth.mean(0))[rest] ** 2).sum()


class Member:
    """A client that has a part of all distances, and deals other bits than those that it answers for."""

    def __init__(self, reader):
        self.reader, self.real = reader, policy.nearest_digits

    def __call__(self, joint, contest, basis, part, m):
        reader = self.reader
        if joint.player.me == reader.number and reader.offsets is not None:
            reader.lied_in = joint.steps.number
            part = reader.falsify(MaskedDistances(part), None).values
        return (yield from self.real(joint, contest, basis, part, m))


def attack(seed, n=5, rows=12, d=2, dealer=SERVER, threshold=None, member=False):
    """A run with that client: its notebook; rounds in which labels were told; the rows; the error, if any.

    member: whether it is one that has a part of all distances, where nobody deals.
    """
    arrays = grouped_rows(seed, n, rows, d, 4)
    way = secfc.SecFC(k=2, disclosure=secfc.AssignmentsOnly(dealer=dealer), threshold=threshold)
    stage, place = Stage(way, arrays), 0 if member else n - 2
    me = stage.federation.names[place]
    reader = Reader(stage.plan, me, arrays[place], SERVER if member else dealer)

    def evil(role):
        try:
            out, last = role.send(None), None
            while True:
                send = dict(out.send)
                for to, body in send.items():
                    false = isinstance(body, MaskedDistances) and body.values.size and not member
                    if false and reader.offsets is not None:
                        send[to] = reader.falsify(body, last)
                        reader.lied_in = last.round
                inbox = yield replace(out, send=send)
                question = inbox.get(SERVER)
                compares = isinstance(question, Query) and question.operation is Operation.COMPARE
                compares = compares and question.k == 2
                if isinstance(question, Query):
                    reader.offsets = None
                if compares and (last is None or question.round != last.round):
                    reader.hear(question)
                if isinstance(question, Query):
                    last = question
                out = role.send(inbox)
        except StopIteration as done:
            return done.value

    with pytest.MonkeyPatch.context() as patch:
        if member:
            patch.setattr(policy, "nearest_digits", Member(reader))
        told, error = stage.run(me, evil, LabelShare)
    return reader, told, stage.X.astype(float), error


@pytest.mark.parametrize("dealer", [SERVER, *by_night("client-0", None)])
def test_without_the_check_it_reads_nearly_everything(dealer, monkeypatch):
    """Positive control: all parties end, and nobody complains."""
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    reader, _, truth, error = attack(0, dealer=dealer, threshold=secfc.Threshold(deviating=0))
    assert error is None
    assert reader.read(truth) > 0.98


@pytest.mark.parametrize("dealer", [SERVER, "client-0", None])
def test_it_is_refused_before_its_first_false_question_opens_a_label(dealer):
    for seed in range(short(3, nightly=100)):
        reader, told, _, error = attack(seed, dealer=dealer)
        assert "do not fit the shares of the rows; nothing of this step was opened" in str(error)
        assert reader.found == []
        assert reader.lied_in is not None
        # Labels are told in the last round of a question.
        assert all(number < reader.lied_in for number in told)


def test_a_member_reads_where_nobody_deals_and_none_vouches_for_its_bits():
    """Positive control: replies are checked, but a member alone has its part of them."""
    reader, _, truth, error = attack(
        0, n=6, dealer=None, threshold=secfc.Threshold(t=2, deviating=0), member=True
    )
    assert error is None
    assert reader.read(truth) > 0.98


@pytest.mark.parametrize(("n", "t"), [(4, 1), (6, 2)])
def test_where_each_part_is_played_by_two_a_member_is_refused_before_a_label(n, t):
    for seed in range(short(2, nightly=100)):
        reader, told, _, error = attack(seed, n=n, dealer=None, threshold=secfc.Threshold(t), member=True)
        assert "told different ones; nothing of this step was opened" in str(error)
        assert "client-0" in error.parties
        assert reader.found == []
        assert all(number < reader.lied_in for number in told)


def test_where_each_part_is_played_by_two_who_responds_is_refused_too():
    for seed in range(short(1, nightly=100)):
        reader, told, _, error = attack(seed, n=6, dealer=None, threshold=secfc.Threshold(t=2))
        # It tells the other that plays its part false replies, and does not use them itself.
        assert "two were told different keys, or different parts of replies" in str(error)
        assert reader.found == []
        assert all(number < reader.lied_in for number in told)
