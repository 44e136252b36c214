"""With ell > 1, t + 1 clients read small values, not ell + t; t clients read nothing.

A client's segments and t + 1 of its shares lie on a polynomial of degree ell + t - 1, so they satisfy one
linear relation, and its coefficients on the segments are small integers: evaluation points are 1, 2, 3, ...
Whoever holds the shares knows the right-hand side, and few small values solve it, often only one.
"""

import itertools
import warnings
from math import prod

import numpy as np
import pytest
from sklearn.datasets import load_digits

import secfc
from field import SeededCoins
from field.code.lagrange_code import LagrangeCode, barycentric_weights, transfer_matrix
from field.ring.basis import Basis
from secfc.coded_kmeans.parameters import segment_cautions
from secfc.secure_sum.protocol import SumPlan
from tests.secfc.secure_sum.test_aggregate import names, sum_vectors


def relation(code, seats, lane=0):
    """Weights (ell,) of the segments and (t + 1,) of these clients' shares whose weighted sum is zero.

    Divided differences of order ell + t, which vanish on polynomials of lower degree.
    """
    weights = barycentric_weights(
        (*code.betas[: code.ell], *(code.alphas[j] for j in seats)), code.basis.primes[lane]
    )
    return weights[: code.ell], weights[code.ell :]


def solutions(code, shares, values):
    """For each place, all tuples of segments among these values that agree with the shares.

    shares: by seat, (places,) residues of the first lane.  values: candidates, modulo its prime.
    """
    p, seats = code.basis.primes[0], tuple(sorted(shares))
    if len(seats) <= code.t:
        # One polynomial through the shares and any segments: t shares and ell segments fix it.
        return [list(itertools.product(values, repeat=code.ell))] * len(shares[seats[0]])
    seats = seats[: code.t + 1]
    own, theirs = relation(code, seats)
    right = -sum(w * shares[j].astype(object) for w, j in zip(theirs, seats, strict=True)) % p
    table = {}
    for tried in itertools.product(values, repeat=code.ell):
        table.setdefault(sum(w * v for w, v in zip(own, tried, strict=True)) % p, []).append(tried)
    return [table.get(int(r), []) for r in right]


def apart(code, seats, values):
    """Whether one value of the relation belongs to one tuple of such segments only."""
    own, _ = relation(code, seats)
    p = code.basis.primes[0]
    tuples = itertools.product(values, repeat=code.ell)
    sums = [sum(w * v for w, v in zip(own, tried, strict=True)) % p for tried in tuples]
    return len(set(sums)) == len(sums)


def coalition(code, values, size):
    """The first clients, so many of them, that read such values."""
    return next(c for c in itertools.combinations(range(code.n), size) if apart(code, c, values))


def heard(result, victim, seats, kind):
    """What these clients were sent by one client: by seat, all residues of the first lane."""
    clients = result.plan.clients
    out = {}
    for e in result.transcript.envelopes:
        if e.kind == kind and e.sender == victim and e.recipient in {clients[j] for j in seats}:
            rows = out.setdefault(clients.index(e.recipient), {})
            rows[e.body.start] = e.body.values[0]
    return {j: np.concatenate([rows[at] for at in sorted(rows)]) for j, rows in out.items()}


@pytest.fixture(scope="module")
def digits():
    """A run on scanned digits, 64 whole numbers from 0 to 16 a point: n = 10, t = 3, and the points."""
    points = load_digits().data[:120]
    federation = secfc.Federation.from_arrays(np.array_split(points, 10))
    way = secfc.SecFC(k=4, threshold=secfc.Threshold(3, 2), max_iter=2)
    result = secfc.fit(
        way, federation, bound=16.0, keep_bodies=True, coins=lambda c: SeededCoins(0, c), seed=0
    )
    return result, federation


def read(result, victim, seats):
    """All places of a client's points as these clients can tell them: lists of candidates, (rows, width)."""
    code, scale = result.plan.code, int(result.plan.quantizer.scale)
    assert scale == result.plan.quantizer.scale
    shares = heard(result, victim, seats, "RowShares")
    shape = shares[seats[0]].shape
    values = [v * scale % code.basis.primes[0] for v in range(17)]
    flat = {j: share.reshape(-1) for j, share in shares.items()}
    number = {v: x for x, v in enumerate(values)}
    found = solutions(code, flat, values)
    return [[tuple(number[v] for v in tried) for tried in one] for one in found], shape


def test_one_client_more_than_t_reads_every_digit(digits):
    result, federation = digits
    code = result.plan.code
    assert (code.n, code.ell, code.t) == (10, 2, 3)
    seats = coalition(code, range(17), code.t + 1)
    for victim in (party for j, party in enumerate(federation.parties) if j not in seats):
        found, (rows, width) = read(result, victim.name, seats)
        assert all(len(one) == 1 for one in found)
        segments = np.array([one[0] for one in found]).reshape(rows, width, code.ell)
        assert (np.moveaxis(segments, 2, 1).reshape(rows, -1) == victim.read()).all()
    # Five clients in six are in the same position, whoever joins them.
    sets = list(itertools.combinations(range(10), 4))
    assert sum(apart(code, c, range(17)) for c in sets) > 0.8 * len(sets)


def test_t_clients_read_nothing(digits):
    result, federation = digits
    code = result.plan.code
    seats = coalition(code, range(17), code.t + 1)[: code.t]
    victim = federation.parties[-1].name
    found, _ = read(result, victim, seats)
    assert all(len(one) == 17**2 for one in found), "nothing is ruled out"
    # And nothing is likelier: from the noise segments to any t shares is one to one, in every lane.
    matrix = transfer_matrix(code.basis, code.betas, code.alphas)[:, :, code.ell :].astype(object)
    for seats in itertools.combinations(range(code.n), code.t):
        for lane, p in enumerate(code.basis.primes):
            (a, b, c), (d, e, f), (g, h, i) = matrix[lane, list(seats)].tolist()
            assert (a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)) % p


def test_ell_1_needs_as_many_replies_for_a_larger_t():
    basis = Basis.for_bound(2**59)
    ramp, whole = LagrangeCode(basis, 10, 2, 3), LagrangeCode(basis, 10, 1, 4)
    assert ramp.threshold(2) == whole.threshold(2) == 9
    assert ramp.t + 1 == whole.t


def test_the_same_of_a_secure_sum():
    # Fifteen members that pack three counts into a share: six read every client's counts up to 100.
    plan = SumPlan.of(names(15), 100, ell=3)
    assert (plan.code.ell, plan.code.t) == (3, 5)
    vectors = np.random.default_rng(0).integers(0, 101, (1, 15, 30))
    (total,), done = sum_vectors(plan, vectors, keep_bodies=True)
    assert (total.total == vectors[0].sum(axis=0)).all()
    code, p = plan.code, plan.code.basis.primes[0]
    seats = (0, 1, 2, 3, 5, 11)  # as good as every other set of six
    own, theirs = relation(code, seats)
    shares = {
        plan.seats[e.recipient]: e.body.values[0]
        for e in done.transcript.envelopes
        if e.kind == "SumShares" and e.sender == "client-14"
    }
    right = -sum(w * shares[j].astype(object) for w, j in zip(theirs, seats, strict=True)) % p
    a, b = np.meshgrid(np.arange(101), np.arange(101), indexing="ij")
    last = pow(own[2], -1, p)
    got = []
    for r in right.tolist():
        c = (r - own[0] * a.astype(object) - own[1] * b.astype(object)) * last % p
        ((x, y),) = np.argwhere(c <= 100)
        got.append((x, y, c[x, y]))
    assert np.array(got).T.reshape(-1).tolist() == vectors[0, 14].tolist()


def test_a_secure_sum_is_not_packed_unless_asked_for():
    plan = SumPlan.of(names(15), 100)
    assert (plan.code.ell, plan.code.t) == (1, 5)
    assert plan.code.threshold(1) == plan.code.t + 1


def test_who_packs_is_told_what_it_costs():
    federation = secfc.Federation.from_arrays(np.random.default_rng(0).normal(size=(7, 4, 2)))
    with pytest.warns(secfc.Caution, match=r"t\+1=3 can read small .* not only ell\+t=4. ell=1 with t=3"):
        secfc.fit(secfc.SecFC(k=2, threshold=secfc.Threshold(2, 2), max_iter=1), federation)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        secfc.fit(secfc.SecFC(k=2, threshold=3, max_iter=1), federation)
    assert segment_cautions(1, 3)[0].startswith("ell=3 buys speed and no privacy: one client learns nothing")


def test_how_far_small_goes():
    """The figures of the security page: so many values may lie side by side, and t + 1 clients tell them."""

    def reach(n, ell, t):
        code = LagrangeCode(Basis.for_bound(2**89), n, ell, t)
        best = 0
        for seats in itertools.combinations(range(n), t + 1):
            points = [code.alphas[j] for j in seats]
            # ell = 2: the weights are as prod (2 - alpha) to -prod (1 - alpha), in lowest terms.
            one, two = prod(1 - a for a in points), prod(2 - a for a in points)
            best = max(best, max(abs(one), abs(two)) // np.gcd(one, two))
        return int(best)

    assert reach(10, 2, 3) == 2275
    assert reach(16, 2, 5) == 2263261
