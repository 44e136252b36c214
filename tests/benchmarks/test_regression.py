"""Speed, as ratios of two times of one run on one thread, with room for a noisy machine.

Targets are stricter and stand in `benchmarks.kernels`; these bounds only catch a kernel that fell off its
fast path.
"""

import numpy as np
import pytest

from benchmarks import kernels
from field.code.distances import decode_nearest
from field.code.lagrange_code import LagrangeCode
from field.code.rows import coded_rows
from field.ring import pseudo_mersenne
from field.secrets.coins import SystemCoins

SHAPE = {"work": "client", "m": 16384, "d": 100, "k": 16, "ell": 1}


def ratio(work, rival, limit, tries=3):
    """The least work / rival over a few measurements: a bad moment passes, a regression stays."""
    best = np.inf
    for _ in range(tries):
        times = kernels.in_turns({"work": work, "rival": rival}, budget=0.2)
        best = min(best, times["work"][0] / times["rival"][0])
        if best < limit:
            break
    return best


@pytest.fixture(scope="module")
def ways():
    return kernels.client_ways(SHAPE, slow=2000)[1]


def test_a_coded_iteration_costs_about_a_plain_one(ways):
    pytest.importorskip("sklearn")
    if not pseudo_mersenne.vectorized():
        pytest.skip("this processor has no register-blocked path")
    assert ratio(ways["SecFC"].work, ways["scikit-learn f64"].work, 2.5) < 2.5


def test_the_register_blocked_path_is_worth_having(ways):
    if not pseudo_mersenne.vectorized():
        pytest.skip("this processor has no register-blocked path")
    assert ratio(ways["SecFC"].work, ways["SecFC, portable"].work, 1 / 1.3) < 1 / 1.3


def test_few_moved_labels_are_cheaper_than_a_full_sum():
    rng = np.random.default_rng(0)
    rows = coded_rows(kernels.BASIS, 16384, 100)
    rows.add_rows(0, kernels.random_residues((16384, 100), rng))
    rows.finish_rows()
    client = kernels.Client(rows, kernels.moving_labels(16384, 16, rng), 16)
    assert ratio(client.move, lambda: rows.sum_clusters(client.labels[0], 16), 0.7) < 0.7


def test_half_the_features_cost_clearly_less(ways):
    half = kernels.client_ways(SHAPE | {"ell": 2}, slow=2000)[1]
    assert ratio(half["SecFC"].work, ways["SecFC"].work, 0.85) < 0.85


def test_sharing_costs_little_more_than_its_product():
    code = LagrangeCode(kernels.BASIS, 10, 1, 4)
    rng, coins = np.random.default_rng(0), SystemCoins()
    points = kernels.random_residues((1000, 100), rng)
    blocks = kernels.random_residues((5, 100_000), rng)
    matrix = kernels.transfer_matrix(kernels.BASIS, code.betas, code.alphas)
    assert ratio(lambda: code.share(points, coins), lambda: kernels.BASIS.matmul(matrix, blocks), 4) < 4


def test_decoding_is_cheaper_than_the_naive_formula():
    rng = np.random.default_rng(0)
    code = LagrangeCode(kernels.BASIS, 16, 2, 5)
    replies = {j: kernels.random_residues((16, 4096), rng) for j in range(13)}
    labels = rng.integers(0, 16, 4096).astype(np.int32)
    sizes = np.bincount(labels, minlength=16).astype(np.int64)
    weights = code.decoding_weights(tuple(range(13)), 2)[1].astype(np.int64)[:, None, :]
    columns = np.stack([r.reshape(2, -1) for r in replies.values()], axis=1).astype(np.int64)

    def naive():
        for w, c, p in zip(weights, columns, kernels.BASIS.primes, strict=True):
            kernels.fedml_product(w, c, p)

    assert ratio(lambda: decode_nearest(code, replies, sizes, labels), naive, 1) < 1
