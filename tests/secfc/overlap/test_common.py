"""Common columns: what is released is the algorithm's, and other columns stay at home."""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from field import SeededCoins
from secfc.errors import Caution, InputError
from secfc.feddp import ServerNoise
from secfc.metrics import accuracy
from secfc.overlap.common import refine_labels
from tests.secfc.overlap.cases import CHAIN, COMMON, clusters, hold_columns


def private(home, epsilon=2.0):
    way = secfc.FedDPKMeans(2, epsilon, delta=1e-6, noise=ServerNoise())
    return secfc.CommonFeatures(way, home=home)


def blurred(seed=0):
    """Common columns tell two clusters apart badly, others well; the server knows the common ones."""
    rng = np.random.default_rng(seed)
    truth = [np.arange(200) % 2 for _ in COMMON]
    parts = [
        np.column_stack([own[:, None] * 2 + rng.normal(size=(200, 2)), own * 20 + rng.normal(size=200)])
        for own in truth
    ]
    data = hold_columns(parts, COMMON, truth=truth)
    held = rng.integers(0, 2, 300)[:, None] * 2 + rng.normal(size=(300, 2))
    return replace(data, server_points=held)


def test_other_columns_refine_labels_at_home_and_release_nothing_more():
    data = blurred()
    # Under the same noise, which decides of how many starts clients are asked.
    coins = {"coins": lambda party: SeededCoins(1, party)}
    plain, home = (secfc.fit(private(steps), data, keep_bodies=True, **coins) for steps in (0, 10))
    assert accuracy(data.truth, plain.flat) < 0.95
    assert accuracy(data.truth, home.flat) > 0.99
    assert home.ledger.epsilon(1e-6) == plain.ledger.epsilon(1e-6) <= 2.0
    assert home.transcript.summary() == plain.transcript.summary()
    assert home.centers.shape == (2, 2)
    assert "all of this on 'a', 'b' only" in home.learned


def test_labels_without_refinement_are_those_of_the_algorithm_on_common_columns():
    parts, _ = clusters(COMMON, 3, 15, np.random.default_rng(1), spread=12.0)
    data = hold_columns(parts, COMMON)
    narrow = secfc.Federation.from_arrays([part[:, :2] for part in parts], features=[("a", "b")] * 4)
    for way in (secfc.SecFC(3, 1), secfc.Lloyd(3), secfc.KFed(3, 3)):
        bound = 1024.0
        ours = secfc.fit(secfc.CommonFeatures(way), data, seed=3, bound=bound)
        theirs = secfc.fit(way, narrow, seed=3, bound=bound)
        np.testing.assert_array_equal(ours.flat, theirs.flat)


def test_refinement_moves_points_to_centers_of_ones_own_columns():
    common, others = np.array([[0.0], [0.9], [1.1], [2.0]]), np.array([[0.0], [0.0], [0.2], [9.0]])
    labels = np.array([0, 0, 1, 1], np.int32)
    found, own = refine_labels(common, others, np.array([[0.0], [2.0]]), labels, 5)
    assert found.tolist() == [0, 0, 0, 1]
    np.testing.assert_allclose(own, [[0.2 / 3], [9]])
    # A cluster that the client has nothing of is not offered to it.
    only = np.zeros(4, np.int32)
    found, own = refine_labels(common, others, np.array([[0.0], [2.0]]), only, 5)
    assert found.tolist() == [0, 0, 0, 0]
    assert np.isnan(own[1])
    assert refine_labels(common, others, np.array([[0.0], [2.0]]), labels, 0)[1] is None


def test_new_points_may_have_any_columns_where_clients_know_centers():
    data = blurred()
    result = secfc.fit(private(50, 24.0), data)
    for ours, theirs in zip(result.predict(data), result.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    own = data.parties[0]
    few = secfc.Federation.from_arrays(
        [own.points[:, :1], own.points[:, 2:], own.points[:, 2:]],
        names=["stranger", own.name, "other"],
        features=[own.features[:1], own.features[2:], own.features[2:]],
    )
    with pytest.warns(Caution, match=r"200 new points are labeled -1 \(200 of other\)"):
        stranger, home, other = result.predict(few)
    assert accuracy(own.truth, home) > 0.99  # by the centers that this client alone has
    assert 0.6 < accuracy(own.truth, stranger) < 0.99  # by one common column
    assert (other == -1).all()


def test_new_points_are_labeled_over_shares_where_nobody_knows_centers():
    parts, _ = clusters(COMMON, 3, 15, np.random.default_rng(1), spread=12.0)
    data = hold_columns(parts, COMMON)
    result = secfc.fit(secfc.CommonFeatures(secfc.SecFC(3, 1)), data)
    turned = hold_columns([part[:, ::-1] for part in parts], [own[::-1] for own in COMMON])
    for ours, theirs in zip(result.predict(turned), result.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    narrow = [part[:, 1:] for part in parts]
    with pytest.raises(InputError, match=r"client 'client-0' has no column 'a': .* 'a', 'b', over shares"):
        result.predict(hold_columns(narrow, [own[1:] for own in COMMON]))


RANGES = secfc.Range(dict.fromkeys("abcdef", (-10, 40)), outside="clip")


@pytest.mark.filterwarnings("ignore::secfc.errors.Caution")
@pytest.mark.parametrize(
    ("way", "scale"),
    [
        (secfc.CommonFeatures(secfc.SecFC(2, 1)), "standard"),
        (secfc.CommonFeatures(secfc.Lloyd(2)), "standard"),
        (secfc.CommonFeatures(secfc.KFed(2, 2)), "robust"),
        (private(10, 24.0), RANGES),
    ],
    ids=["secfc", "lloyd", "k-fed", "feddp"],
)
def test_all_columns_are_scaled_and_centers_are_of_common_ones_in_data_units(way, scale):
    data = blurred()
    if scale is not RANGES:
        data = replace(data, server_points=None)
    result = secfc.fit(way, data, scale_features=scale, seed=0)
    assert accuracy(data.truth, result.flat) > 0.9
    if result.centers is not None:
        near = result.centers[np.argsort(result.centers[:, 0])]
        np.testing.assert_allclose(near, [[0, 0], [2, 2]], atol=0.6)
    for ours, theirs in zip(result.predict(data), result.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_points_of_the_server_without_all_columns_give_no_scale():
    with pytest.raises(InputError, match="no values of features that only some clients have"):
        secfc.fit(private(10), blurred(), scale_features="standard")


def test_on_a_chain_there_is_no_private_start():
    parts, _ = clusters(CHAIN, 2, 12, np.random.default_rng(0))
    with pytest.raises(
        InputError, match=r"no feature is common to all clients: on a chain .* no private start"
    ):
        secfc.fit(secfc.CommonFeatures(secfc.SecFC(2, 1)), hold_columns(parts, CHAIN))


def test_points_of_the_server_need_the_common_columns_or_all():
    data = blurred()
    with pytest.raises(InputError, match="the server's points have 4 features"):
        replace(data, server_points=np.zeros((5, 4)))
    whole = replace(data, server_points=np.pad(data.server_points, ((0, 0), (0, data.d - 2))))
    # Noise of each run is its own; that the right columns are read shows in clusters that are about the same
    # where there is little of it.
    ours, theirs = (secfc.fit(private(0, 24.0), given, seed=1).flat for given in (whole, data))
    assert accuracy(ours, theirs) > 0.9
