"""What clusters are, over all clients: exact means of those with enough rows, and nothing of others."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from secfc.algorithm import PublicFacts
from secfc.data.clusters import profile_clusters
from secfc.errors import InputError, SuspectedParties
from secfc.report.clusters import profile_section
from secfc.report.deviations import kinds_of, rows_about
from secfc.roles.exchange import SERVER
from secfc.scaling import moments
from secfc.scaling.shared_profile import OPENED, SharedProfile, labeled_rows, told_clusters
from secfc.secure_sum.protocol import visible_sums

ASKED = SharedProfile(3, reveal_centers=True)


def sites(sizes=(60, 50, 40)):
    """Five clients' rows of two features in clusters of these sizes, and labels by client."""
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    rows = (rng.normal(size=(len(labels), 2)) + labels[:, None] * 6) * [1, 100]
    parts = dict(zip("abcde", np.array_split(rows, 5), strict=True))
    return secfc.Federation.from_arrays(parts, features=[("age", "cost")] * 5), np.array_split(labels, 5)


def shared(data, labels, **more):
    return secfc.fit(ASKED, labeled_rows(data, labels), **more)


def test_it_is_what_all_rows_give_also_of_labels_that_were_predicted():
    data, _ = sites()
    run = secfc.fit(secfc.SecFC(3, 1), data, scale_features="standard")
    for labels in (run.labels, run.predict(data)):
        found, right = shared(data, labels).details, run.profile(data)
        for name in ("sizes", "means", "deviations", "mean", "deviation"):
            assert getattr(found, name) == pytest.approx(getattr(right, name), rel=1e-9), name
        assert found.names == ("age", "cost")
        assert np.isnan(found.medians).all()
        assert "cluster 2" in str(profile_section(found))


def test_means_are_opened_with_consent_alone_and_labels_are_labels():
    data, labels = sites()
    with pytest.raises(InputError, match="reveal_centers=True"):
        secfc.fit(SharedProfile(3), labeled_rows(data, labels))
    with pytest.raises(InputError, match="labels are whole numbers from -1 to 2"):
        shared(data, [own + 1 for own in labels])
    with pytest.raises(InputError, match="2 rows"):
        secfc.fit(SharedProfile(3, smallest_center=1, reveal_centers=True), labeled_rows(data, labels))
    two = secfc.Federation(data.parties[:2], feature_names=data.feature_names)
    with pytest.raises(InputError, match="each would read the other"):
        shared(two, labels[:2])


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(0, 12), st.integers(2, 15))
def test_what_is_told_and_what_is_left_over_have_enough_rows(sizes, without, smallest):
    told = told_clusters(np.array(sizes), sum(sizes) + without, smallest)
    assert all(size >= smallest for size, chosen in zip(sizes, told, strict=True) if chosen)
    rest = sum(sizes) + without - int(np.array(sizes)[told].sum())
    assert not told.any() or rest == 0 or rest >= smallest


def test_a_coalition_sees_sizes_and_sums_of_clusters_with_enough_rows_and_the_server_none():
    data, labels = sites((100, 12, 13, 4))
    way = SharedProfile(4, reveal_centers=True)
    result = secfc.fit(way, labeled_rows(data, labels), keep_bodies=True)
    scale = [e for e in result.transcript.envelopes if e.phase == "scale"]
    assert {e.kind for e in scale if SERVER in (e.sender, e.recipient)} == {"Contributors"}
    sums = list(visible_sums(result.plan.sums, [e for e in scale if e.recipient == "a"]).values())
    assert [len(total) for total in sums] == [5, 4 * 2 * 3]
    assert sums[0].tolist() == [0, 100, 12, 13, 4]
    # Of four rows nothing is opened; nor of twelve, or what is left of all rows would be of four.
    opened = sums[1].reshape(4, -1).astype(bool).any(axis=1)
    assert opened.tolist() == [True, False, True, False]
    assert np.isnan(result.details.means[~opened]).all()
    whole = profile_clusters(data.stacked(), np.concatenate(labels), 4)
    assert result.details.means[opened] == pytest.approx(whole.means[opened], rel=1e-9)
    (entry,) = (entry for entry in result.ledger.entries if entry.what == OPENED)
    assert entry.seen_by == {*data.names}


def test_a_client_that_invents_rows_reads_the_sum_of_few_rows_of_others():
    """The attack of the table of deviations; without invented rows the floor keeps it."""
    data, labels = sites((60, 50, 1))
    (where,) = (j for j, own in enumerate(labels) if 2 in own)
    secret = data.parties[where].read()[labels[where] == 2]
    assert np.isnan(shared(data, labels).details.means[2]).all()
    deviating = (where + 1) % 5
    parts = [np.vstack([p.read(), np.zeros((9 * (j == deviating), 2))]) for j, p in enumerate(data.parties)]
    false = [np.concatenate([own, np.full(9 * (j == deviating), 2)]) for j, own in enumerate(labels)]
    found = shared(secfc.Federation.from_arrays(parts), false).details
    assert found.means[2] * 10 == pytest.approx(secret[0], rel=1e-6)
    assert any("SharedProfile" in row.who for row in rows_about(kinds_of(ASKED)))


def test_sums_that_no_rows_have_end_the_run(monkeypatch):
    data, labels = sites()
    honest, calls = moments.integer_moments, []

    def false(blocks, exponent, bits):
        calls.append(bits)
        return honest(blocks, exponent, bits) * (-9 if len(calls) == 1 else 1)

    monkeypatch.setattr(moments, "integer_moments", false)
    with pytest.raises(SuspectedParties, match="no rows have the sums"):
        shared(data, labels)


def test_the_plan_says_the_floor_so_that_sites_that_differ_stop_first():
    public = PublicFacts.of(labeled_rows(*sites()))
    assert (
        ASKED.plan(public).description != SharedProfile(3, 20, reveal_centers=True).plan(public).description
    )
