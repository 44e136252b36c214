"""Every kernel against its twin, at the edges that its bounds speak of."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from field import Basis, LagrangeCode
from field.code.distances import decode_nearest, decode_scaled
from field.code.reply_check import sum_last
from field.code.rows import cluster_sizes, coded_rows
from field.kernels import scalar as kernels
from field.ring.basis import FEW_PRODUCTS, LANE_PRIMES, MERSENNE_61, TERMS
from field.ring.uint128 import UInt128
from tests.nightly import trials
from tests.oracles import field as reference
from tests.strategies import BASES, bases, extreme_residues

pytestmark = pytest.mark.usefixtures("kernel_path")


@pytest.mark.parametrize("few", [0, FEW_PRODUCTS])
@given(bases, st.integers(1, 9), st.integers(1, 70), st.integers(1, 40), st.integers(0, 2**32))
def test_matmul_equals_python_integers(few, basis, rows, inner, columns, seed):
    a = extreme_residues(basis, (rows, inner), seed)
    b = extreme_residues(basis, (inner, columns), seed + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("field.ring.basis.FEW_PRODUCTS", few)  # none by NumPy, or those of few terms
        assert (basis.matmul(a, b) == reference.matmul(a, b, basis.primes)).all()


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{b.lanes}x{b.primes[-1]}")
@pytest.mark.parametrize("few", [0, 1 << 13])
def test_sums_at_both_sides_of_a_prime_are_the_same_by_either_path(basis, few, monkeypatch):
    monkeypatch.setattr("field.ring.basis.FEW", few)
    for off in (-1, 0, 1):  # sums of p - 1, p and p + 1, beside the least and the largest
        pairs = [[(0, 0), (p - 1, p - 1), (p // 2, p - p // 2 + off)] for p in basis.primes]
        a, b = np.moveaxis(np.array(pairs, basis.dtype), 2, 0)
        expected = [[(x + y) % p for x, y in each] for each, p in zip(pairs, basis.primes, strict=True)]
        assert basis.add(a, b).tolist() == expected
    assert (basis.add(a[:, None], b[:, :, None])[:, 1] == basis.add(a, b[:, 1:2])).all()


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{b.lanes}x{b.primes[-1]}")
@pytest.mark.parametrize("inner", [1, TERMS, TERMS + 1, 30, 31, 32, 61, 62, 63, 93, 400])
@pytest.mark.parametrize("edge", ["half", "half+1", "p-1"])
def test_matmul_at_the_longest_accumulation(basis, inner, edge):
    # All terms have the largest absolute centered value and the same sign, around every fold.
    value = {"half": lambda p: p // 2, "half+1": lambda p: p // 2 + 1, "p-1": lambda p: p - 1}[edge]
    a = np.stack([np.full((2, inner), value(p)) for p in basis.primes]).astype(basis.dtype)
    b = np.stack([np.full((inner, 3), value(p)) for p in basis.primes]).astype(basis.dtype)
    expected = np.stack([np.full((2, 3), inner * value(p) ** 2 % p, object) for p in basis.primes])
    assert (basis.matmul(a, b) == expected).all()


def test_matmul_reads_transposed_columns():
    basis = Basis(LANE_PRIMES[:2])
    a, b = extreme_residues(basis, (3, 50), 1), extreme_residues(basis, (70, 50), 2).transpose(0, 2, 1)
    assert (basis.matmul(a, b) == reference.matmul(a, b, basis.primes)).all()


@pytest.mark.parametrize("p", [11, 10007, 2**30 - 35, 2**31 - 1, MERSENNE_61])
def test_matmul_equals_galois(p):
    basis = Basis((p,))
    a = extreme_residues(basis, (4, 6), 1)
    b = extreme_residues(basis, (6, 5), 2)
    assert (basis.matmul(a, b)[0] == reference.galois_matmul(a[0], b[0], p)).all()


@given(st.integers(0, MERSENNE_61 - 1), st.integers(0, MERSENNE_61 - 1))
@example(MERSENNE_61 - 1, MERSENNE_61 - 1)
@example(2**32, 2**32 - 1)
@example(0, MERSENNE_61 - 1)
def test_products_modulo_the_mersenne_prime(a, b):
    product = kernels.multiply_61(np.array([a], np.uint64), np.array([b], np.uint64))
    assert int(product[0]) == a * b % MERSENNE_61


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{b.lanes}x{b.primes[-1]}")
@pytest.mark.parametrize("shape", [(4, 3), (1, 1), (1, 3), (0, 3), (4, 0)])
def test_products_of_rows_with_one_factor_each(basis, shape, monkeypatch):
    # Warnings are errors here.  A view that NumPy broadcast is contiguous if it is empty, and NumPy warns
    # whoever asks it for its flags, as the compiler does for the first arguments of a type.
    multiply = kernels.multiply_61

    def asking(a, b):
        assert all(x.flags.c_contiguous and x.flags.writeable for x in (a, b))
        return multiply(a, b)

    monkeypatch.setattr(kernels, "multiply_61", asking)
    values, factors = extreme_residues(basis, shape, 1), extreme_residues(basis, (shape[0], 1), 2)
    expected = values.astype(object) * factors.astype(object) % basis.column(3).astype(object)
    assert (basis.multiply(values, factors) == expected).all()
    assert basis.multiply(values, factors).dtype == basis.dtype


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{b.lanes}x{b.primes[-1]}")
@pytest.mark.parametrize("few", [0, 1 << 13])
def test_products_and_sums_are_the_same_of_few_and_of_many(basis, few, monkeypatch):
    monkeypatch.setattr("field.ring.basis.FEW", few)
    a, b = extreme_residues(basis, (7, 60), 1), extreme_residues(basis, (1, 60), 2)
    primes = basis.column(3).astype(object)
    products = a.astype(object) * b.astype(object) % primes
    assert (basis.multiply(a, b) == products).all()
    assert (basis.multiply(b, a) == products).all()
    turned = np.swapaxes(a, 1, 2)
    assert (basis.multiply(turned, turned) == turned.astype(object) ** 2 % primes).all()
    assert (sum_last(basis, turned) == turned.astype(object).sum(axis=2) % primes[:, 0]).all()
    assert sum_last(basis, a[:, :0]).shape == (basis.lanes, 0)
    assert not sum_last(basis, a[:, :, :0]).any()
    assert (sum_last(basis, a) == a.astype(object).sum(axis=2) % primes[:, 0]).all()


@pytest.mark.parametrize("basis", BASES, ids=lambda b: f"{b.lanes}x{b.primes[-1]}")
@pytest.mark.parametrize("threads", [1, 3])
def test_groups_are_weighed_as_python_integers_are(basis, threads):
    m, block = 3 * kernels.BLOCK, kernels.BLOCK
    values, weights = extreme_residues(basis, (4, m), 1), extreme_residues(basis, (2, m), 2)
    values[:, 0], weights[:, 0] = (basis.column(2, basis.dtype) - 1,) * 2  # all largest: the longest sums
    order = np.random.default_rng(3).permutation(m)
    groups = np.split(order, [0, 1, block + 1, 2 * block + 1, 2 * block + 1])
    found = basis.weigh_groups(weights, groups, values, threads=threads)
    for lane, p in enumerate(basis.primes):
        for g, points in enumerate(groups):
            each, by = (x[lane][:, points].astype(object) for x in (values, weights))
            expected = [(each * w).sum(axis=1) % p for w in [*by, np.ones(len(points), object)]]
            assert found[lane, g].tolist() == np.array(expected).tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_clusters_are_counted_and_what_is_no_label_is_not_missed(dtype):
    labels = np.array([2, -1, 0, 0, 2, 2, -1, 2, 0, 0, 2], dtype)
    assert cluster_sizes(labels, 4).tolist() == [4, 0, 5, 0]
    assert cluster_sizes(labels[::2], 3).tolist() == [2, 0, 3]
    assert cluster_sizes(labels[:0], 2).tolist() == [0, 0]
    assert cluster_sizes(labels, 2).tolist() == [4, 0, 5]  # longer than asked for, where labels are larger
    with pytest.raises(ValueError, match="negative"):
        cluster_sizes(labels - 1, 4)


@given(
    bases, st.integers(1, 120), st.integers(1, 70), st.integers(1, 17), st.integers(0, 2**32), st.booleans()
)
def test_coded_rows_equal_python_integers(basis, m, width, k, seed, unassigned):
    rng = np.random.default_rng(seed)
    values = extreme_residues(basis, (m, width), seed)
    labels = rng.integers(-1 if unassigned else 0, k, m).astype(np.int32)
    rows = coded_rows(basis, m, width)
    cut = int(rng.integers(0, m + 1))
    rows.add_rows(0, values[:, :cut])
    rows.add_rows(cut, values[:, cut:])
    begin, end = sorted(int(at) for at in rng.integers(0, m + 1, 2))
    for first, last in ((0, m), (begin, end)):
        assert (rows.read_rows(first, last) == values[:, first:last]).all()
        assert rows.read_rows(first, last).dtype == basis.dtype
    rows.finish_rows()
    sums = rows.sum_clusters(labels, k)
    got = rows.measure_distances(sums)
    for lane, p in enumerate(basis.primes):
        x = values[lane].astype(object)
        expected = reference.scaled_distances(x, labels, k) % p
        assert (got[lane] == expected).all()
        centers = np.array(
            [x[labels == h].sum(axis=0) % p if (labels == h).any() else x[0] * 0 for h in range(k)]
        )
        assert (rows.residues(sums)[lane] == centers).all()
    fewer = rows.measure_distances(sums, lanes=1)
    assert (fewer[0] == got[0]).all()
    assert len(fewer) == 1


@pytest.mark.parametrize("basis", [BASES[1], BASES[4]], ids=["folded", "mersenne"])
@pytest.mark.parametrize("width", [1, 29, 30, 31, 32, 61, 62, 63, 92, 93, 94])
@pytest.mark.parametrize("k", [1, 4, 5])
def test_distances_at_the_longest_accumulation(basis, width, k):
    # Rows at (p-1)/2 and (p+1)/2, the two ends of the centered range, and clusters of many rows.
    m = 97
    values = np.stack(
        [
            np.where(np.arange(m)[:, None] % 2, p // 2, p // 2 + 1) * np.ones((1, width), np.int64)
            for p in basis.primes
        ]
    ).astype(basis.dtype)
    labels = (np.arange(m) % k).astype(np.int32)
    rows = coded_rows(basis, m, width)
    rows.add_rows(0, values)
    rows.finish_rows()
    got = rows.measure_distances(rows.sum_clusters(labels, k))
    for lane, p in enumerate(basis.primes):
        assert (got[lane] == reference.scaled_distances(values[lane], labels, k) % p).all()


@given(st.integers(1, 100), st.integers(1, 9), st.integers(1, 6), st.integers(0, 2**32))
def test_moving_rows_equals_summing_anew(m, width, k, seed):
    basis = BASES[1]
    rng = np.random.default_rng(seed)
    rows = coded_rows(basis, m, width)
    rows.add_rows(0, extreme_residues(basis, (m, width), seed))
    rows.finish_rows()
    sums = None
    for _ in range(4):
        labels = rng.integers(-1, k, m).astype(np.int32)
        sums = rows.sum_clusters(labels, k, sums)
        assert (sums.values == rows.sum_clusters(labels, k).values).all()


def test_adding_rows_accumulates_modulo_every_prime():
    for basis in BASES:
        first = extreme_residues(basis, (50, 3), 5)
        second = extreme_residues(basis, (50, 3), 6)
        rows = coded_rows(basis, 50, 3)
        rows.add_rows(0, first)
        rows.add_rows(0, second)
        rows.finish_rows()
        sums = rows.sum_clusters(np.zeros(50, np.int32), 1)
        total = (first.astype(object) + second.astype(object)).sum(axis=1)
        for lane, p in enumerate(basis.primes):
            assert (rows.residues(sums)[lane, 0] == total[lane] % p).all()


@given(bases, st.integers(1, 50), st.integers(0, 2**32))
def test_lift_equals_the_chinese_remainder_formula(basis, size, seed):
    residues = extreme_residues(basis, (2, size), seed)
    expected = reference.lift(residues, basis.primes)
    assert (basis.lift(residues) == expected).all()
    assert (UInt128.lift(basis, residues).integers() == expected).all()
    signed = basis.lift_signed(residues)
    assert (signed % basis.modulus == expected).all()
    assert (abs(signed) <= basis.modulus // 2).all()


def test_lift_at_the_ends_of_every_basis():
    for basis in BASES:
        for value in (0, 1, basis.modulus // 2, basis.modulus - 1):
            residues = basis.reduce(np.array([value], object))
            assert int(basis.lift(residues)[0]) == value
            assert int(UInt128.lift(basis, residues).integers()[0]) == value


@given(st.data())
def test_nearest_equals_fractions(data):
    k, m = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 8))
    sizes = data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=k, max_size=k))
    seed = data.draw(st.integers(0, 2**32))
    rng = np.random.default_rng(seed)
    # Distances proportional to squared sizes, off by at most one: near ties that floats cannot decide.
    base = int(rng.integers(1, 2**62))
    scaled = np.array(
        [
            [min(max(base * s * s // 2**60 + int(rng.integers(-1, 2)), 0), 2**120) for _ in range(m)]
            for s in sizes
        ],
        object,
    )
    exact = UInt128.of(scaled)
    assert exact.nearest(np.array(sizes)).tolist() == reference.nearest(scaled, sizes)
    if max(sizes) ** 2 * 9 < 2**64:
        assert exact.separated(np.array(sizes), 9).tolist() == reference.separated(scaled, sizes, 9)


def test_what_128_bits_hold_ends_at_its_edges():
    whole = Basis(LANE_PRIMES[:4])
    for basis in (
        whole,
        Basis((*LANE_PRIMES[:2], 17)),
        Basis((*LANE_PRIMES[:2], 13)),
    ):  # 120, above 64, below
        top = np.array([basis.modulus - 1], object)
        lifted = UInt128.lift(basis, basis.reduce(top))
        assert lifted.integers().tolist() == top.tolist()
        assert lifted.low.dtype == np.uint64
    five = Basis((*whole.primes, 17))
    with pytest.raises(ValueError, match="5 lanes exceed 128 bits"):
        UInt128.lift(five, five.reduce(np.array([1], object)))
    scaled = UInt128.of(np.array([[1], [2**100]], object))
    assert scaled.separated(np.array([1, 2**32 - 1]), 1).tolist() == [0]
    with pytest.raises(ValueError, match="too large for this comparison"):
        scaled.separated(np.array([1, 2**32]), 1)


def test_nearest_decides_a_difference_of_one_in_120_bits():
    a, b = 2**40 + 1, 2**40 + 7
    sizes = np.array([2**20 + 1, 2**20 + 3])
    # a/s0**2 against b/s1**2 with numerators chosen to make the fractions equal, then one apart.
    s0, s1 = (int(s) ** 2 for s in sizes)
    tie = UInt128.of(np.array([[s0 * a], [s1 * a]], object))
    assert tie.nearest(sizes).tolist() == [0]
    assert UInt128.of(np.array([[s0 * a], [s1 * a - 1]], object)).nearest(sizes).tolist() == [1]
    assert UInt128.of(np.array([[s0 * a - 1], [s1 * a - 1]], object)).nearest(sizes).tolist() == [0]
    assert UInt128.of(np.array([[s0 * b], [s1 * a]], object)).nearest(sizes).tolist() == [1]


def test_an_empty_cluster_never_wins():
    scaled = UInt128.of(np.array([[0, 0], [5, 9]], object))
    assert scaled.nearest(np.array([0, 3])).tolist() == [1, 1]
    assert scaled.nearest(np.array([0, 0])).tolist() == [-1, -1]


def test_totals_within_clusters_are_exact_past_128_bits():
    top = 2**120 - 1
    scaled = UInt128.of(np.full((2, 300), top, object))
    labels = np.array([0] * 299 + [-1], np.int32)
    assert scaled.within(labels) == (299 * top, 0)


@given(st.integers(1, 40), st.integers(1, 7), st.integers(1, 5), st.integers(0, 2**32))
def test_plain_distances_equal_python_integers(m, d, k, seed):
    rng = np.random.default_rng(seed)
    points = rng.choice([-(2**52), 2**52, 0, 1, -1, 12345], (m, d)).astype(np.int64)
    labels = rng.integers(-1, k, m).astype(np.int32)
    sums = np.zeros((k, d), np.int64)
    kernels.sum_points(points, labels, sums)
    high, low = np.empty((2, k, m), np.uint64)
    kernels.plain_distances(points, sums, cluster_sizes(labels, k), high, low)
    assert (UInt128(high, low).integers() == reference.scaled_distances(points, labels, k)).all()


def test_lane_primes_are_the_largest_below_two_to_the_thirty():
    import sympy

    p = 2**30
    for expected in LANE_PRIMES:
        p = sympy.prevprime(p)
        assert p == expected
    assert sympy.isprime(MERSENNE_61)


@trials(15)
@given(st.integers(1, 200), st.integers(1, 6), st.integers(1, 5), st.integers(1, 5), st.integers(0, 2**32))
def test_threads_change_no_result(m, width, k, threads, seed):
    basis = BASES[2]
    rng = np.random.default_rng(seed)
    values = extreme_residues(basis, (m, width), seed)
    labels = rng.integers(-1, k, (3, m)).astype(np.int32)
    results = []
    for count in (1, threads):
        rows = coded_rows(basis, m, width, threads=count)
        rows.add_rows(0, values)
        rows.finish_rows()
        sums = None
        for each in labels:
            sums = rows.sum_clusters(each, k, sums)
        results.append((sums.values, rows.measure_distances(sums)))
    assert all((a == b).all() for a, b in zip(*results, strict=True))


@given(st.integers(1, 5000), st.integers(1, 4), st.integers(2, 7), st.integers(0, 2**32))
def test_fused_decoding_equals_the_separate_steps(m, k, threads, seed):
    code = LagrangeCode(BASES[1], 5, 2, 1)
    rng = np.random.default_rng(seed)
    # Any residues are replies of some polynomial, since as many are used as determine it.
    replies = {j: extreme_residues(BASES[1], (k, m), seed + j) for j in range(5)}
    sizes = rng.integers(0, 1000, k)
    labels = rng.integers(-1, k, m).astype(np.int32)
    scaled = UInt128.lift(code.basis, code.decode(replies, 2))
    assert (decode_scaled(code, replies).integers() == scaled.integers()).all()
    for count in (1, threads):
        nearest, within = decode_nearest(code, replies, sizes, labels, threads=count)
        assert (nearest == scaled.nearest(sizes)).all()
        expected = scaled.within(np.where((labels >= 0) & (sizes[labels] > 0), labels, -1))
        assert within == expected


@pytest.mark.parametrize("primes", [LANE_PRIMES[:2], (MERSENNE_61,), (2**31 - 1, 10007)])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4])
def test_adding_scaled_streams_is_exact_at_the_edges(primes, count):
    basis = Basis(primes)
    for low, high in itertools.product((0, 1), repeat=2):
        top = [p - 1 for p in primes]
        factors = [[(p // 2 + low) % p] * count for p in primes]
        words = np.broadcast_to(np.array(top, basis.dtype)[None, :, None], (count, basis.lanes, 70)).copy()
        # Rows of another stride than their length, as in the last chunk of a reply.
        whole = np.broadcast_to(
            np.array([t * high for t in top], basis.dtype)[:, None], (basis.lanes, 90)
        ).copy()
        basis.add_scaled(whole[:, 5:70], words, factors)
        for lane, p in enumerate(primes):
            expected = (top[lane] * high + count * (p // 2 + low) * (p - 1)) % p
            assert (whole[lane, 5:70] == expected).all()
            assert (whole[lane, :5] == top[lane] * high).all()
            assert (whole[lane, 70:] == top[lane] * high).all()


def test_exact_integers_are_divided_whole():
    values = [0, 5, 6, 2**64 - 1, 2**64, 2**128 - 1, 36 * (2**100 + 7)]
    for by in (1, 6, 36, 27720**2, 2**65 + 1):
        assert UInt128.of(values).divided(by).integers().tolist() == [v // by for v in values]
