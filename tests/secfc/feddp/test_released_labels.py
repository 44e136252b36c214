"""Labels for others end to end: what is released, what it costs beside the centers, who may falsify it."""

import re
from dataclasses import replace

import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.errors import FaultyClient, InputError
from secfc.feddp.auditing import audit_run, without_row
from secfc.feddp.messages import NoisyLabels
from secfc.privacy import Neighbors, RandomizedResponse
from secfc.report import as_json, as_text, make_report, officer
from secfc.transport import wire
from tests.secfc.feddp.test_feddp import DELTA, hold_mixture

REPLACE = Neighbors("replace")
WAY = secfc.FedDPKMeans(3, 0.4, DELTA, neighbors=REPLACE, labels=RandomizedResponse(3.6))


@pytest.fixture(scope="module")
def data():
    return hold_mixture(n=6, rows=400)


@pytest.fixture(scope="module")
def result(data):
    return secfc.fit(WAY, data, keep_bodies=True, coins=lambda party: SeededCoins(1, party))


def test_labels_are_released_beside_centers_for_the_sum_of_both_budgets(data, result):
    # Composed exactly: the labels' epsilon is what the total leaves of the sums', but for splits that nobody
    # asked for, 2 % of a Gaussian budget.
    assert 3.995 < result.ledger.epsilon(DELTA) <= 4.0 * (1 + 1e-9)
    alone = replace(result.ledger, entries=result.ledger.entries[:-1])
    assert 0.395 < alone.epsilon(DELTA) <= 0.4 * (1 + 1e-9)
    own, told = np.concatenate(result.labels), np.concatenate(result.released_labels)
    right = RandomizedResponse(3.6).probability(3)
    assert abs((own == told).mean() - right) < 5 * np.sqrt(right * (1 - right) / len(own))
    sizes, errors = result.released_sizes
    assert (np.abs(sizes - np.bincount(own, minlength=3)) < 5 * errors).all()
    # Without it nobody says a label, and the same is told of centers.
    silent = secfc.fit(replace(WAY, labels=None), data)
    assert silent.released_labels is None
    assert "NoisyLabels" not in {e.kind for e in silent.transcript.envelopes}
    assert WAY.capabilities.promise().budget.epsilon == 4.0


def test_a_label_is_one_byte_and_goes_to_the_server_once(result):
    sent = [e for e in result.transcript.envelopes if e.kind == "NoisyLabels"]
    assert [(e.sender, e.recipient) for e in sent] == [(c, "server") for c in result.plan.clients]
    for e, labels in zip(sent, result.released_labels, strict=True):
        assert np.array_equal(e.body.labels, labels)
    one, two = (len(wire.encode(NoisyLabels(np.zeros(m, np.int8)))) for m in (1000, 2000))
    assert two - one == 1000


def test_a_resumed_run_releases_the_same_labels(data, tmp_path):
    said, crashing = {}, True

    def network(e):
        if e.kind == "NoisyLabels":
            assert said.setdefault(e.sender, e.body.labels.tobytes()) == e.body.labels.tobytes()
            if crashing and len(said) == 3:
                raise OSError("the process ends here")
        return (e,)

    with pytest.raises(OSError, match="ends here"):
        secfc.fit(WAY, data, checkpoint=tmp_path, faults=network)
    crashing, before = False, dict(said)
    found = secfc.fit(WAY, data, checkpoint=tmp_path, faults=network)
    assert len(before) == 3
    told = dict(zip(found.plan.clients, found.released_labels, strict=True))
    assert all(told[c].astype(np.int8).tobytes() == labels for c, labels in before.items())
    # The control: another run draws others.
    with pytest.raises(AssertionError):
        secfc.fit(WAY, data, faults=network)


def test_who_is_gone_has_no_labels_and_who_says_none_is_named(data):
    def gone(e):
        return () if e.kind == "NoisyLabels" and e.sender == "client-2" else (e,)

    found = secfc.fit(WAY, data, faults=gone)
    assert (found.released_labels[2] == -1).all()
    assert (np.concatenate(found.released_labels) >= 0).sum() == 5 * 400

    def false(e):
        bad = e.kind == "NoisyLabels" and e.sender == "client-2"
        return (replace(e, body=NoisyLabels(np.full(400, 3, np.int8))) if bad else e,)

    with pytest.raises(FaultyClient, match=r"client-2.*none of k=3"):
        secfc.fit(WAY, data, faults=false)


def test_slots_hide_how_many_rows_there_are(data):
    response = RandomizedResponse(3.6, slots=500)
    way = replace(WAY, neighbors=Neighbors(), labels=response)
    fewer = replace(
        data,
        parties=tuple(
            replace(p, points=p.read()[: 400 - 50 * j], truth=None) for j, p in enumerate(data.parties)
        ),
    )

    def gone(e):
        return () if e.kind == "NoisyLabels" and e.sender == "client-2" else (e,)

    found = secfc.fit(way, fewer, faults=gone, keep_bodies=True)
    sent = [len(e.body.labels) for e in found.transcript.envelopes if e.kind == "NoisyLabels"]
    assert sent == [500] * len(sent)
    assert [len(told) for told in found.released_labels] == [500] * 6
    assert (found.released_labels[2] == -1).all()
    sizes, errors = found.released_sizes
    others = np.concatenate([own for j, own in enumerate(found.labels) if j != 2])
    # Noisy counts are of all six.
    near = np.bincount(others, minlength=3) + len(found.labels[2]) / 3
    assert (np.abs(sizes - near) < 5 * errors).all()
    assert found.ledger.epsilon(DELTA) <= 4.0 * (1 + 1e-9)
    assert found.details.server.counts.shape == (3,)
    with pytest.raises(InputError, match="client 'client-0' has 400 rows, and slots=399 labels"):
        secfc.fit(replace(way, labels=RandomizedResponse(3.6, slots=399)), data)

    def short(e):
        bad = e.kind == "NoisyLabels" and e.sender == "client-2"
        return (replace(e, body=NoisyLabels(np.zeros(300, np.int8))) if bad else e,)

    with pytest.raises(FaultyClient, match=r"client-2.*releases 300 labels, not slots=500"):
        secfc.fit(way, fewer, faults=short)


class Franker(RandomizedResponse):
    """One that claims half of what it costs."""

    def label_weights(self, k):
        return RandomizedResponse(2 * self.epsilon, self.slots).label_weights(k)


@pytest.mark.parametrize("slots", [None, 450])
def test_an_audit_of_labels_refutes_half_the_noise(slots):
    data, near = hold_mixture(n=6, rows=400), REPLACE if slots is None else Neighbors()
    others = without_row(data, data.names[0], 0)
    for kind in (RandomizedResponse, Franker):
        way = replace(WAY, epsilon=1.0, neighbors=near, labels=kind(3.0, slots))
        found = audit_run(secfc.fit(way, data, keep_bodies=True), data, others)
        assert found.labels.epsilon > 2
        assert found.is_refuted == (kind is Franker), found.faults
    assert "declared are 3" in found.faults[0]


def test_what_labels_would_tell_beside_is_refused(data):
    with pytest.raises(InputError, match="slots=9 hide whether a row is there"):
        replace(WAY, labels=RandomizedResponse(3.0, slots=9))
    with pytest.raises(InputError, match=r'under add/remove tell .* give neighbors=Neighbors\("replace"\)'):
        replace(WAY, neighbors=Neighbors())
    with pytest.raises(InputError, match="protect a row, and a client has many"):
        replace(WAY, neighbors=Neighbors("replace", "client"), rows_per_client=400)
    with pytest.raises(InputError, match=r"labels=3\.0 .*RandomizedResponse\(3\.0\)"):
        replace(WAY, labels=3.0)
    few = replace(WAY, labels=RandomizedResponse(0.1))
    with pytest.warns(
        UserWarning, match=re.escape("labels-epsilon=0.1 with k=3: 36 of 100 labels are right")
    ):
        secfc.fit(few, data)


def test_a_report_says_what_labels_are_worth(data, result):
    found = make_report(result, federation=data, algorithm=WAY).publishable
    told = as_json(found)["privacy"]["labels"]
    assert (told["sums"], told["epsilon"], round(told["right"], 3)) == (0.4, 3.6, 0.948)
    assert np.allclose(told["sizes"], result.released_sizes[0])
    assert np.allclose(told["errors"], result.released_sizes[1])
    people = " ".join(as_text(found).split())
    assert "Centers 0.4, labels 3.6, one row: 4; a label is right with probability 0.95." in people
    assert f"{told['sizes'][0]:,.0f} {told['errors'][0]:,.0f}" in people
    assert "replace one data point: epsilon = 4" in people
    page = " ".join(re.sub("<[^>]*>", " ", officer.as_html(officer.of_run(found, result))).split())
    sentence = RandomizedResponse(3.6).sentence(3).replace("'", "&#39;")
    assert page.count(sentence) >= 2  # of the server, and of everybody
    assert "released labels wherever they are published for good" in page
