"""The geometry attack on a run without a dealer: a member's part of the distances does not beat labels."""

import dataclasses

import numpy as np
import pytest

import secfc
from field.code.rows import cluster_sizes
from field.ring.uint128 import UInt128
from secfc.attacks.geometry import labels_only, reconstruct_geometry
from secfc.attacks.judging import judge_guess
from secfc.attacks.views import CannotDecode, View
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.disclosure.compare.session import ComparisonSession
from secfc.disclosure.dealerless import policy
from secfc.roles.exchange import SERVER


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Parts(DecodedView):
    """The best that a coalition can do: the parts of the distances that its members hold, added up."""

    parts: dict

    def distances(self, question):
        compare = next(
            e.body for e in self.view.messages if e.kind == "CompareQuery" and e.round == question.number
        )
        sizes = cluster_sizes(question.labels, question.k)
        match = ComparisonSession(self.view.plan, compare, sizes, policy.dealerless_committee(self.view.plan))
        basis, total = match.schedule.basis, None
        for name in self.parties:
            mine = self.parts.get((question.number, name))
            if mine is not None:
                total = mine if total is None else basis.add(total, mine)
        out = np.full((question.k, self.view.plan.m), np.nan)
        scale = match.sizes[match.rivals.alive].astype(float)[:, None] * self.view.plan.quantizer.scale
        out[match.rivals.alive] = UInt128.lift(basis, total).to_floats() / scale**2
        return out


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    points = rng.uniform(-50, 50, (4, 20))[rng.integers(0, 4, 400)] + 20 * rng.standard_normal((400, 20))
    federation = secfc.Federation.from_arrays(np.array_split(points, 3))
    parts, take_over = {}, policy.take_over_part

    def recorded(plan, me, steps, responders, committee, values, further):
        part = yield from take_over(plan, me, steps, responders, committee, values, further)
        parts[steps.number, plan.clients[me]] = None if part is None else part[0]
        return part

    way = secfc.SecFC(
        k=4, threshold=1, init=secfc.RandomPoints(), max_iter=8, disclosure=secfc.AssignmentsOnly(None)
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(policy, "take_over_part", recorded)
        result = secfc.fit(way, federation, keep_bodies=True)

    def view_of(*parties):
        view = View.of(result, result.plan, parties, federation)
        return Parts(view, parts)

    return view_of, result.plan.quantizer(points) / result.plan.quantizer.scale


@pytest.mark.parametrize("member", ["client-0", "client-1"])
def test_a_member_with_the_server_does_not_beat_the_labels(case, member):
    view_of, points = case
    view = view_of(SERVER, member)
    baseline = judge_guess(labels_only(view), points).share[-1]
    assert 0.05 < baseline < 0.9
    with pytest.raises(CannotDecode):
        reconstruct_geometry(DecodedView(view.view))
    assert judge_guess(reconstruct_geometry(view), points).share[-1] < baseline / 2


def test_control_two_members_see_everything(case):
    # t + 1 clients are one more than the policy withstands: their parts add up to the distances.
    view_of, points = case
    view = view_of("client-0", "client-1")
    question = next(view.questions())
    centers = [points[question.labels == h].mean(axis=0) for h in range(4)]
    true = np.array([((points - center) ** 2).sum(axis=1) for center in centers])
    np.testing.assert_allclose(view.distances(question), true, rtol=1e-9)
    baseline = judge_guess(labels_only(view), points).share[-1]
    assert judge_guess(reconstruct_geometry(view), points).share[-1] > baseline + 0.2
