"""The reference in galois beside Python integers and plaintext k-means; and what it takes to differ."""

import numpy as np
import pytest

import secfc
from field import reference
from field.ring.errors import InvalidValue
from field.secrets.coins import SeededCoins
from secfc.kmeans.starts import GivenLabels
from tests.oracles.field import scaled_distances

COINS = SeededCoins(0, "reference")


@pytest.mark.parametrize(("ell", "t"), [(1, 1), (2, 1), (2, 2)])
def test_each_step_is_that_of_integers(ell, t):
    rng = np.random.default_rng(ell)
    rows, labels = rng.integers(-500, 500, (20, 4)), rng.integers(0, 2, 20)  # of three clusters one is empty
    field = reference.choose_field(rows)
    assert field.order == 2**61 - 1
    shares = reference.share_points(
        reference.quantize_points(rows, 1, field), ell, t, 2 * (ell + t) - 1, COINS
    )
    answers = field(np.stack([reference.square_distances(share, labels, 3) for share in shares]))
    found = reference.decode_distances(answers, ell, t)
    assert (found[:2] == scaled_distances(rows, labels, 3)[:2]).all()
    assert set(reference.assign_points(found, labels, 3)) == {0, 1}
    answers[0, 0, 0] += field(1)  # one wrong answer, one wrong distance
    assert (reference.decode_distances(answers, ell, t) != found).sum() == 1


def test_final_labels_are_those_of_lloyd_and_of_secfc():
    rng = np.random.default_rng(3)
    rows, labels = rng.integers(-99, 99, (60, 3)), rng.integers(0, 4, 60)
    federation = secfc.Federation.from_arrays(np.array_split(rows.astype(float), 3))
    way = secfc.SecFC(4, threshold=1, init=GivenLabels(labels), quantization=secfc.Quantization(scale=1))
    result = secfc.fit(way, federation, seed=0)
    assert result.n_iter > 2
    assert (reference.cluster_points(rows, labels, 4, coins=COINS) == result.flat).all()
    assert (reference.cluster_points(rows, labels, 4, coins=COINS, steps=1) == result.history[1]).all()


def test_the_field_is_the_first_that_holds_every_distance():
    for bits, exponent in ((29, 61), (30, 89), (43, 89), (44, 107), (52, 107), (53, 127), (62, 127)):
        # Of two rows the bound is 4 * span**2.
        assert reference.choose_field(np.array([[0], [2**bits]])).order == 2**exponent - 1
    with pytest.raises(InvalidValue, match="the largest here: lower the scale"):
        reference.choose_field(np.array([[0, 0], [2**62, 2**62]]))


def test_shares_of_one_client_are_uniform_whatever_the_point():
    field = reference.make_field()
    rows = [reference.share_points(field([[x]] * 400), 1, 1, 3, COINS)[0] for x in (0, 5)]
    for share in rows:
        assert 0.4 < np.mean([int(v) < 2**60 for v in share.ravel()]) < 0.6
    assert len({int(v) for v in rows[0].ravel()}) == 400
