"""Sharing and decoding: from any threshold of replies, and private to any t clients, exhaustively."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from field import Basis, LagrangeCode, SeededCoins, TooFewValues
from field.code.lagrange_code import transfer_rows
from field.ring.basis import LANE_PRIMES
from tests.oracles import field as reference
from tests.strategies import bases, extreme_residues


class ScriptedCoins:
    """Coins that return given residues: enumerating them enumerates all randomness of a sharing."""

    def __init__(self, values):
        self.values = list(values)

    def fill_residues(self, prime, out):
        out[...] = np.array([self.values.pop(0) for _ in range(out.size)]).reshape(out.shape)


@given(
    bases, st.integers(1, 3), st.integers(0, 3), st.integers(0, 2), st.integers(1, 8), st.integers(0, 2**32)
)
def test_any_threshold_of_shares_gives_back_the_points(basis, ell, t, spare, d, seed):
    n = 2 * (ell + t - 1) + 1 + spare
    code = LagrangeCode(basis, n, ell, t)
    points = extreme_residues(basis, (5, d), seed)
    shares = code.share(points, SeededCoins(seed, "test"))
    assert [s.shape for s in shares] == [(basis.lanes, 5, code.width(d))] * n
    chosen = np.random.default_rng(seed).permutation(n)[: code.threshold(1)]
    segments = code.interpolate({int(j): shares[j] for j in chosen}, 1)
    joined = np.concatenate([segments[:, u] for u in range(ell)], axis=-1)
    assert (joined[..., :d] == points).all()
    assert (joined[..., d:] == 0).all()


@given(bases, st.integers(1, 3), st.integers(1, 3), st.integers(0, 2), st.integers(0, 2**32))
def test_any_threshold_of_squares_decodes_the_squared_norm(basis, ell, t, spare, seed):
    n = 2 * (ell + t - 1) + 1 + spare
    code = LagrangeCode(basis, n, ell, t)
    points = extreme_residues(basis, (3, 5), seed)
    shares = code.share(points, SeededCoins(seed, "test"))
    squares = {
        j: basis.reduce((s.astype(object) ** 2).sum(axis=-1)[0])
        if basis.lanes == 1
        else np.stack(
            [(lane.astype(object) ** 2).sum(-1) % p for lane, p in zip(s, basis.primes, strict=True)]
        ).astype(basis.dtype)
        for j, s in enumerate(shares)
    }
    expected = [(lane.astype(object) ** 2).sum(-1) % p for lane, p in zip(points, basis.primes, strict=True)]
    for chosen in itertools.islice(itertools.combinations(range(n), code.threshold(2)), 20):
        decoded = code.decode({j: squares[j] for j in chosen}, 2)
        assert (decoded == np.stack(expected)).all()
    with pytest.raises(TooFewValues):
        code.decode({j: squares[j] for j in range(code.threshold(2) - 1)}, 2)


def joint_law(code, secret, clients):
    """The exact law of some clients' shares of one point, by enumerating all noise."""
    p = code.basis.primes[0]
    law = Counter()
    points = np.array(secret, np.uint32).reshape(1, 1, -1)
    for noise in itertools.product(range(p), repeat=code.t * code.width(len(secret))):
        shares = code.share(points, ScriptedCoins(noise))
        law[tuple(int(v) for j in clients for v in shares[j].ravel())] += 1
    return law


@pytest.mark.parametrize(("n", "ell", "t"), [(5, 1, 2), (5, 2, 1), (3, 1, 1), (5, 1, 1)])
def test_any_t_shares_have_the_same_law_for_every_secret_and_t_plus_1_do_not(n, ell, t):
    code = LagrangeCode(Basis((11,)), n, ell, t)
    secrets = [(0,) * ell, (1,) * ell, tuple(range(3, 3 + ell)), (10,) * ell]
    for clients in itertools.combinations(range(n), t):
        laws = [joint_law(code, secret, clients) for secret in secrets]
        assert all(law == laws[0] for law in laws)
        assert len(set(laws[0].values())) == 1, "the shares are not uniform"
    for clients in itertools.combinations(range(n), t + 1):
        laws = [joint_law(code, secret, clients) for secret in secrets]
        assert any(law != laws[0] for law in laws[1:])


def test_the_exhaustive_test_catches_noise_that_never_takes_one_value():
    # Positive control: noise drawn from 1..p-1 instead of 0..p-1 is no longer private.
    class Skewed(ScriptedCoins):
        def fill_residues(self, prime, out):
            super().fill_residues(prime, out)
            out[...] = np.where(out == 0, 1, out)

    code = LagrangeCode(Basis((11,)), 3, 1, 1)
    laws = []
    for secret in (0, 5):
        points = np.array([[[secret]]], np.uint32)
        laws.append(Counter(int(code.share(points, Skewed([z]))[0][0, 0, 0]) for z in range(11)))
    assert laws[0] != laws[1]


def test_points_are_distinct_and_disjoint():
    code = LagrangeCode(Basis((37,)), 13, 4, 3)
    assert len({*code.alphas, *code.betas}) == 13 + 4 + 3
    assert 0 not in {*code.alphas, *code.betas}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 3, 4), r"n=10 clients cannot decode .* ell=3, t=4: .* 13 are needed.*Lower ell or t"),
        ((0, 1, 1), r"n=0 is too small"),
        ((5, 0, 1), r"ell=0 is too small"),
        ((5, 1, -1), r"t=-1 is too small"),
    ],
)
def test_wrong_parameters_say_the_rule_and_the_remedy(arguments, message):
    with pytest.raises(ValueError, match=message):
        LagrangeCode(Basis(LANE_PRIMES[:2]), *arguments)


def test_a_field_with_too_few_points_is_refused():
    with pytest.raises(ValueError, match="distinct non-zero points"):
        LagrangeCode(Basis((7,)), 5, 1, 1)


def test_exactly_at_the_threshold_is_accepted():
    assert LagrangeCode(Basis(LANE_PRIMES[:1]), 11, 2, 4).threshold(2) == 11


@pytest.mark.parametrize("p", [37, 2**30 - 35])
def test_the_transfer_matrix_equals_galois(p):
    xs, ys = (1, 2, 5, 9), (3, 2, 11)
    assert transfer_rows(xs, ys, p) == reference.galois_transfer(xs, ys, p)


def test_the_walk_of_one_point():
    # house.md section 3.7: n=5, ell=2, t=1, p=10007, noise 17, the point (5, -2).
    basis = Basis((10007,))
    code = LagrangeCode(basis, 5, 2, 1)
    shares = code.share(basis.reduce(np.array([[5, -2]])), ScriptedCoins([17]))
    assert [int(s[0, 0, 0]) for s in shares] == [62, 133, 230, 353, 502]
