"""The geometry attack against a run that shows labels only: no tolerated coalition beats the labels alone."""

import dataclasses

import numpy as np
import pytest

import secfc
from field.code.masking import PairKeys
from field.code.rows import cluster_sizes
from field.compare.dealer_protocol import total_mask
from field.ring.uint128 import UInt128
from secfc.attacks.geometry import labels_only, reconstruct_geometry
from secfc.attacks.judging import judge_guess
from secfc.attacks.views import CannotDecode
from secfc.coded.messages import MaskedSum, MaskSeed
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.disclosure.compare.dealer import mask_streams
from secfc.disclosure.compare.session import SUM, CommitteeChoice, ComparisonSession
from secfc.roles.exchange import SERVER

N = 5


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Opened(DecodedView):
    """The best that a coalition can do: the committee's masked distances, less the masks that it knows."""

    def distances(self, question):
        compare = next(
            e.body for e in self.view.messages if e.kind == "CompareQuery" and e.round == question.number
        )
        sizes = cluster_sizes(question.labels, question.k)
        match = ComparisonSession(
            self.view.plan, compare, sizes, CommitteeChoice(len(compare.members), SERVER)
        )
        sums = {
            e.sender: e.body.values
            for e in self.view.messages
            if isinstance(e.body, MaskedSum) and e.round == question.number + SUM
        }
        basis = match.schedule.basis
        values = np.concatenate([sums[c] for c in match.parts], axis=2)
        seeds = {e.sender: e.body.seed for e in self.view.messages if isinstance(e.body, MaskSeed)}
        if seeds:
            keys = PairKeys({j: seeds[c] for j, c in enumerate(self.view.plan.clients) if c in seeds})
            masks = mask_streams(match, keys, compare.responders.tolist())
            values = basis.add(values, basis.negate(total_mask(basis, match.shape, list(masks.values()))))
        out = np.full((question.k, self.view.plan.m), np.nan)
        scale = match.sizes[match.rivals.alive].astype(float)[:, None] * self.view.plan.quantizer.scale
        out[match.rivals.alive] = UInt128.lift(basis, values).to_floats() / scale**2
        return out


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    points = rng.uniform(-50, 50, (4, 20))[rng.integers(0, 4, 400)] + 20 * rng.standard_normal((400, 20))
    federation = secfc.Federation.from_arrays(np.array_split(points, N))
    algorithm = secfc.SecFC(k=4, threshold=secfc.Threshold(1, deviating=0), init=secfc.RandomPoints())
    result = secfc.fit(algorithm, federation, keep_bodies=True)
    scale = result.plan.quantizer.scale
    return result, federation, result.plan.quantizer(points) / scale


def view_of(case, *parties):
    result, federation, _ = case
    return Opened.of(result, result.plan, parties, federation)


def test_a_member_with_what_it_saw_does_not_beat_the_labels(case):
    # The committee is clients 0 and 1; a member alone, and with a client outside.
    baseline = judge_guess(labels_only(view_of(case, "client-0")), case[2]).share[-1]
    assert 0.05 < baseline < 0.9
    for parties in (("client-0",), ("client-1",)):
        view = view_of(case, *parties)
        with pytest.raises(CannotDecode):
            reconstruct_geometry(DecodedView(view.view))
        assert judge_guess(reconstruct_geometry(view), case[2]).share[-1] < baseline / 2


def test_the_server_and_clients_outside_the_committee_see_no_sum(case):
    baseline = judge_guess(labels_only(view_of(case, SERVER)), case[2]).share[-1]
    for parties in ((SERVER,), (SERVER, "client-2", "client-4")):
        view = view_of(case, *parties)
        assert not any(isinstance(e.body, MaskedSum) for e in view.view.messages)
        assert judge_guess(labels_only(view), case[2]).share[-1] == baseline


def test_control_the_dealer_with_one_member_sees_everything(case):
    # What the policy says that it does not withstand: the masks of the one on the sums of the other.
    view = view_of(case, SERVER, "client-0")
    points = case[2]
    question = next(view.questions())
    members = [points[question.labels == h].mean(axis=0) for h in range(4)]
    true = np.array([((points - center) ** 2).sum(axis=1) for center in members])
    np.testing.assert_allclose(view.distances(question), true, rtol=1e-9)
    judgement = judge_guess(reconstruct_geometry(view), points)
    baseline = judge_guess(labels_only(view), points).share[-1]
    assert judgement.share[-1] > baseline + 0.2
