"""A9: one client that responds reads a row of another, of which sizes alone are opened.

By large offsets on its masked distances it chooses labels, of all points but the one that it reads: one row
of its own lies alone in cluster 0, another in cluster 1, all else in 2.  Then it lets that point choose
between 0 and 1, with an offset of its choice: which it joins, the next sizes tell.  Bisection finds by how
much the point is nearer to its one row than to the other, to the last bit, and as many such numbers as
features the row.
"""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from secfc.coded.messages import MaskedDistances, SizeShare
from secfc.coded.queries import Operation, Query
from secfc.disclosure.owner_labels import dealerless
from secfc.kmeans.starts import RandomLabels
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short
from tests.secfc.active.adaptive import Stage, grouped_rows

K = 3


class Reader:
    """The deviating client's notebook: what it adds to its replies, and what sizes then tell it."""

    def __init__(self, plan, name, points, victim, dealer):
        self.plan, self.m, self.victim, self.dealer = plan, plan.m, victim, dealer
        self.first, self.count = plan.layout.span(plan.clients.index(name))
        self.own = plan.quantizer(points).astype(object)
        self.far = 4 * plan.d * int(plan.quantizer.max_int) ** 2
        self.low, self.high, self.measures, self.forced = -self.far, self.far, False, False
        self.found, self.offsets, self.lied_in = [], None, None

    def forcing(self, labels):
        """What moves all points to these clusters: (K, m)."""
        return [[0 if h == label else 8 * self.far for label in labels] for h in range(K)]

    def hear(self, question):
        """The sizes of this question are what the last step opened."""
        now = question.subject.now.tolist()
        if self.measures:
            # Two of its own in cluster 0, and the point if it is nearer to the first of them.
            self.low, self.high = (self.middle, self.high) if now[0] == 3 else (self.low, self.middle)
            self.measures = False
            if self.high - self.low <= 1:
                self.found.append(self.high)
                self.low, self.high = -self.far, self.far
        self.offsets = None
        if len(self.found) == self.plan.d:
            return
        # One row in cluster 0 throughout; one in 1, another for each feature; the last toggles.
        labels = np.full(self.m, 2)
        labels[self.first], labels[self.first + 1 + len(self.found)] = 0, 1
        if self.forced and now == [1, 1, self.m - 2]:
            self.middle = (self.low + self.high) // 2
            labels[self.first + self.count - 1] = 0
            add = self.forcing(labels)
            add[0][self.victim], add[1][self.victim], add[2][self.victim] = self.middle, 0, 8 * self.far
            self.measures, self.forced = True, False
        else:
            add, self.forced = self.forcing(labels), True
        self.offsets = add, now

    def falsify(self, body, question):
        (add, now), values = self.offsets, body.values.copy()
        weights = np.ones((len(values), 1), np.int64)
        if self.dealer is None:
            # Replies are weighted by whoever adds them up.
            chosen, weights = self.plan.code.decoding_weights(tuple(question.responders.tolist()), 2)
            weights = weights[:, [chosen.index(2)]]
        alive = [h for h in range(K) if now[h]]
        for lane, p in enumerate(self.plan.code.basis.primes[: len(values)]):
            for row, h in enumerate(alive):
                scale = now[h] ** 2 * pow(int(weights[lane, 0]), -1, p)
                each = np.array([x * scale % p for x in add[h]], np.uint64)
                values[lane, row] = (values[lane, row] + each) % np.uint64(p)
        return replace(body, values=values)

    def read(self):
        """The integers of the row that it reads."""
        a = self.own[0]
        rows = [self.own[1 + f] for f in range(self.plan.d)]
        left = np.array([2 * (a - b) for b in rows], float)
        right = [w - (b**2).sum() + (a**2).sum() for w, b in zip(self.found, rows, strict=True)]
        return np.rint(np.linalg.solve(left, np.array(right, float))).astype(int)


class Member:
    """A client that has a part of all distances, and deals other bits than those that it answers for."""

    def __init__(self, reader, number):
        self.reader, self.number, self.real = reader, number, dealerless.winner_bits

    def __call__(self, joint, contest, basis, part, m):
        if joint.player.me == self.number and self.reader.offsets is not None:
            self.reader.lied_in = self.reader.lied_in or joint.steps.number
            part = self.reader.falsify(MaskedDistances(part), None).values
        return (yield from self.real(joint, contest, basis, part, m))


def attack(seed, dealer=SERVER, n=4, rows=6, d=2, victim=3, member=False, deviating=None):
    """A run with that client: its notebook; rounds in which sizes were told; the row; the error, if any.

    member: whether it is one that has a part of all distances, where nobody deals.
    """
    arrays = grouped_rows(seed, n, rows, d, 4)
    way = secfc.SecFC(
        k=K,
        threshold=secfc.Threshold(1, deviating=deviating),
        disclosure=secfc.OwnLabels(dealer),
        init=RandomLabels(),
        max_iter=80,
        quantization=secfc.Quantization(scale=4.0, coarse="allow"),
    )
    stage = Stage(way, arrays, 16.0)
    # It responds, as the first three do, and adds up no part of replies, as the first two do.
    place = 0 if member else 2
    me = stage.federation.names[place]
    reader = Reader(stage.plan, me, arrays[place], victim, SERVER if member else dealer)

    def evil(role):
        try:
            out, last = role.send(None), None
            while True:
                send = dict(out.send)
                for to, body in send.items():
                    false = isinstance(body, MaskedDistances) and body.values.size and not member
                    if false and reader.offsets is not None:
                        send[to] = reader.falsify(body, last)
                        reader.lied_in = reader.lied_in or last.round
                inbox = yield replace(out, send=send)
                question = inbox.get(SERVER)
                if isinstance(question, Query) and (last is None or question.round != last.round):
                    last, reader.offsets = question, None
                    if question.operation is Operation.LLOYD_STEP:
                        reader.hear(question)
                out = role.send(inbox)
        except StopIteration as done:
            return done.value

    with pytest.MonkeyPatch.context() as patch:
        if member:
            patch.setattr(dealerless, "winner_bits", Member(reader, place))
        told, error = stage.run(me, evil, SizeShare)
    return reader, told, stage.X[victim], error


@pytest.mark.parametrize("dealer", [SERVER, *by_night(None, "client-3")])
def test_without_the_check_it_reads_a_row_to_the_last_bit(dealer, monkeypatch):
    """Positive control: all parties end, and nobody complains."""
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    reader, _, truth, error = attack(0, dealer, deviating=None if dealer else 0)
    assert error is None
    assert (reader.read() == truth).all()


@pytest.mark.parametrize("dealer", [SERVER, "client-3", None])
def test_it_is_refused_before_its_first_false_question_opens_a_size(dealer):
    for seed in range(short(3, nightly=100)):
        reader, told, _, error = attack(seed, dealer, deviating=None if dealer else 0)
        assert "do not fit the shares of the rows; nothing of this step was opened" in str(error)
        assert reader.found == []
        assert reader.lied_in is not None
        # Sizes are told in the last round of a question.
        assert all(number < reader.lied_in for number in told)


def test_a_member_reads_where_nobody_deals_and_none_vouches_for_its_bits():
    """Positive control: replies are checked, but a member alone has its part of them."""
    reader, _, truth, error = attack(0, dealer=None, rows=4, d=1, victim=7, member=True, deviating=0)
    assert error is None
    assert (reader.read() == truth).all()


def test_where_each_part_is_played_by_two_a_member_is_refused_before_a_size():
    for seed in range(short(2, nightly=100)):
        reader, told, _, error = attack(seed, dealer=None, rows=4, d=1, victim=7, member=True)
        assert "two that compute the same bits told different ones" in str(error)
        assert reader.found == []
        assert all(number < reader.lied_in for number in told)
