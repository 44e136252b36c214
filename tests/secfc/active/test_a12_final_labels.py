"""A12: where final labels alone are opened, nobody that deviates reads by the number of steps.

Without checks that number is a threshold test.  In the first step a party forces all labels, its own row
alone in cluster 0.  In the second it has all stay but one row of another, which chooses by an offset: if that
stays as well, no label changed, and the run ends.  Else one step more puts it back.  So final labels are the
same in any case, and how often clients were asked tells on which side of the offset the row is.
"""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from field.compare.shared_step import side_margin
from secfc.coded.messages import MaskedDistances, SizeShare
from secfc.coded.queries import Operation, Query
from secfc.coded_kmeans.query_order import QueryValidator
from secfc.disclosure.owner_labels import dealerless
from secfc.errors import TooFewReplies
from secfc.kmeans.starts import GivenLabels, RandomPoints
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short
from tests.secfc.active.adaptive import Stage, grouped_rows
from tests.small import federation

OWN, VICTIM, M = 0, 9, 12
START = np.arange(M) % 2
GOAL = np.ones(M, int)
GOAL[OWN] = 0


class Steps:
    """What the deviating client adds to (lanes, rows, m) residues in the steps of one run.

    threshold: what it adds to the victim's number in the second step.  member: whether it plays a part of all
    distances, where nobody deals; else it responds.
    """

    def __init__(self, plan, place, threshold, member):
        self.plan, self.place, self.threshold, self.member = plan, place, threshold, member
        self.step, self.lied_in, self.real = None, None, dealerless.winner_bits
        self.far = 32 * plan.d * int(plan.quantizer.max_int) ** 2

    def offsets(self, modulus):
        """(rows, m) integers: of distances first, then of numbers that are positive for cluster 1."""
        if self.step == 0:
            sizes = np.bincount(START)
            return [[0 if h == g else int(sizes[h]) ** 2 * self.far for g in GOAL] for h in (0, 1)]
        big = [(1 if g else -1) * (modulus // 4) for g in GOAL]
        big[VICTIM] = self.threshold if self.step == 1 else big[VICTIM]
        return [big]

    def falsify(self, values):
        out, primes = values.copy(), self.plan.code.basis.primes[: len(values)]
        modulus = int(np.prod(np.array(primes, object)))
        for row, add in enumerate(self.offsets(modulus)):
            for lane, p in enumerate(primes):
                each = np.array([x % p for x in add], np.uint64)
                out[lane, row] = (out[lane, row] + each) % np.uint64(p)
        return out

    def deal(self, joint, contest, basis, part, m):
        """The bits of its part."""
        if self.member and joint.player.me == self.place:
            self.lied_in = self.lied_in or joint.steps.number
            part = self.falsify(part)
        return (yield from self.real(joint, contest, basis, part, m))

    def deviate(self, role):
        """The role of the deviating client."""
        try:
            out = role.send(None)
            while True:
                send = dict(out.send)
                for to, body in send.items():
                    if not self.member and isinstance(body, MaskedDistances) and body.values.size:
                        send[to] = replace(body, values=self.falsify(body.values))
                        self.lied_in = self.lied_in or out.round
                inbox = yield replace(out, send=send)
                asked = inbox.get(SERVER)
                if isinstance(asked, Query) and asked.operation is Operation.LLOYD_STEP:
                    self.step = asked.at.step
                out = role.send(inbox)
        except StopIteration as done:
            return done.value


def attack(below, *, dealer, deviating=None, n=4, seed=0):
    """A run with that party: its notebook, the stage, rounds in which a step ended, the error.

    below: by how much the victim's number exceeds the offset with which it is compared.
    """
    way = secfc.SecFC(
        2, secfc.Threshold(1, deviating=deviating), GivenLabels(START), max_iter=5,
        disclosure=secfc.FinalLabelsOnly(dealer=dealer),
        quantization=secfc.Quantization(scale=4.0, coarse="allow"),
    )  # fmt: skip
    stage = Stage(way, grouped_rows(seed, n, M // n, 1, 2), 16.0)
    # Of a committee the first has a part; who responds and adds nothing up is the third.
    member = dealer is None
    steps = Steps(stage.plan, 0 if member else 2, below - number(stage.X), member)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dealerless, "winner_bits", steps.deal)
        told, error = stage.run(f"client-{steps.place}", steps.deviate, SizeShare)
    return steps, stage, told, error


def number(X):
    """What decides the victim's label in the second step: positive if the others' mean is nearer."""
    x, own, rest = (X[i].astype(object) for i in (VICTIM, OWN, GOAL == 1))
    s, total = len(rest), rest.sum(0)
    # s_0**2 s_1**2 (|x - mean_1|**2 - |x - mean_0|**2), with s_0 = 1
    gap = ((s * x - total) ** 2).sum() - s**2 * ((x - own) ** 2).sum()
    return -side_margin(M) * int(gap)


WAYS = {"nobody deals": dict(dealer=None, n=3), "the server deals": dict(dealer=SERVER, n=4)}


@pytest.mark.parametrize("way", WAYS)
def test_without_checks_the_number_of_steps_says_on_which_side_of_a_threshold_a_row_is(way, monkeypatch):
    """Positive control, to the last bit: all parties end, and nobody complains."""
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    for below in (0, 1):
        steps, stage, _, error = attack(below, **WAYS[way], deviating=0)
        assert error is None
        assert steps.step == (1 if below else 3)
        assert (stage.results[SERVER].trace.labels == GOAL).all()


@pytest.mark.parametrize("way", WAYS)
def test_it_is_refused_before_its_first_false_step_says_whether_labels_changed(way):
    why = {"nobody deals": "two that compute the same bits told different ones"}
    for seed in range(short(1, nightly=100)):
        steps, _, told, error = attack(0, dealer=WAYS[way]["dealer"], seed=seed)
        assert why.get(way, "do not fit the shares of the rows; nothing of this step was opened") in str(
            error
        )
        assert steps.lied_in is not None
        assert not told


# --- the server ------------------------------------------------------------------------------------


def reveal_early(policy, n, monkeypatch):
    """A server that carries all messages, drops what tells clients of steps, and says that no label changed.

    Returns the labels that it reads, after one step of more that change labels.
    """
    sizes = "secfc.disclosure.owner_labels.server.sizes_from_shares"
    monkeypatch.setattr(sizes, lambda match, shares, sharing: (True, np.zeros(len(match.sizes), np.int64)))
    way = secfc.SecFC(3, secfc.Threshold(1), RandomPoints(), max_iter=9, disclosure=policy)

    def faults(e):
        return () if e.kind == "SizeShare" and e.recipient != SERVER else (e,)

    return secfc.fit(way, federation(n, 60, 2), seed=1, faults=faults)


@pytest.mark.parametrize("policy", [secfc.FinalLabelsOnly(), *by_night(secfc.FinalLabelsOnly(dealer=SERVER))])
def test_a_server_that_lets_nobody_hear_of_a_step_reads_no_labels_of_it(policy, monkeypatch):
    with pytest.raises(TooFewReplies):
        reveal_early(policy, 5, monkeypatch)
    # Positive control: clients that take its word reveal the labels of a step on the way.
    monkeypatch.setattr(QueryValidator, "has_heard", lambda self: True)
    assert reveal_early(policy, 5, monkeypatch).n_iter == 1
