"""Decoding although clients lie, in one pass: the same labels and sums, and the deviating clients by name."""

import re

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from field import Basis, LagrangeCode, SeededCoins, TooFewValues
from field.code.consistency import ParityChecks, TooManyFalse, locate_deviating, screen_deviating
from field.code.distances import decode_nearest
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from tests.field.code.test_correct import codewords, corrupt


def screen_nearest(code, values, corrected, sizes, labels, coins, *, everybody=False, threads=1):
    """What `decode_nearest` gives although up to `corrected` clients lie, and who was named."""
    if everybody:
        named = locate_deviating(code, values, 2, corrected, coins)
        good = [j for j in values if j not in named]
    else:
        good, named = screen_deviating(code, values, 2, corrected, coins)
    return *decode_nearest(code, {j: values[j] for j in good}, sizes, labels, threads=threads), named


TOP = np.array(LANE_PRIMES[:4], object)


def case(code, k, m, seed):
    """(replies, sizes, labels) of honest clients, one cluster empty if there are three."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, max(1, k - (k > 2)), m).astype(np.int32)
    return codewords(code, 2, (k, m), seed), np.bincount(labels, minlength=k), labels


@given(
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(1, 4),
    st.sampled_from([1, 7, 2112, 5000]),
    st.integers(1, 3),
    st.sampled_from(["one value", "all", "the last values"]),
    st.integers(0, 2**32),
)
@example(3, 3, 3, 5000, 2, "the last values", 1)
@example(2, 2, 3, 5000, 1, "one value", 2)
@settings(max_examples=40)
def test_labels_and_sums_are_those_of_honest_replies(lanes, corrected, k, m, threads, kind, seed):
    code = LagrangeCode(Basis(LANE_PRIMES[:lanes]), 5 + 2 * corrected + seed % 2, 1, 2)
    values, sizes, labels = case(code, k, m, seed)
    expected = decode_nearest(code, values, sizes, labels)
    decoded = decode_nearest(code, code.decode(values, 2), sizes, labels, threads=threads)
    assert (decoded[0] == expected[0]).all()
    assert decoded[1] == expected[1]
    rng = np.random.default_rng(seed)
    lying = sorted(int(j) for j in rng.permutation(code.n)[:corrected])
    for q, j in enumerate(lying):
        where = {"one value": [int(rng.integers(k * m))], "all": range(k * m)}
        at = where.get(kind, [k * m - 1 - q % m])
        corrupt(code.basis, values[j], int(rng.integers(lanes)), at, rng)
    coins = SeededCoins(seed, "lies")
    nearest, within, named = screen_nearest(code, values, corrected, sizes, labels, coins, threads=threads)
    assert (nearest == expected[0]).all()
    assert within == expected[1]
    assert set(named) <= set(lying)
    # Asked for everybody's lies, all are named who lied about a cluster with points.
    everybody = screen_nearest(code, values, corrected, sizes, labels, coins, everybody=True, threads=threads)
    assert (everybody[0] == expected[0]).all()
    assert everybody[1] == expected[1]
    assert set(named) <= set(everybody[2]) <= set(lying)
    if kind == "all" or (sizes > 0).all():
        assert everybody[2] == tuple(lying)
    # The separate steps name the same clients, but for lies about an empty cluster.
    apart = screen_deviating(code, values, 2, corrected, SeededCoins(seed, "apart"))[1]
    if kind == "all" or (sizes > 0).all():
        assert named == apart
    if kind == "all" and any(j < code.threshold(2) + corrected for j in lying):
        assert named == tuple(lying)


@pytest.mark.parametrize("basis", [Basis((MERSENNE_61,)), Basis((10007, 2**31 - 1))])
def test_other_primes_take_the_separate_steps(basis):
    code = LagrangeCode(basis, 9, 1, 2)
    values, sizes, labels = case(code, 2, 50, 0)
    expected = decode_nearest(code, values, sizes, labels)
    for j in (1, 8):
        corrupt(basis, values[j], 0, [99], np.random.default_rng(0))
    for everybody in (False, True):
        nearest, within, named = screen_nearest(
            code, values, 2, sizes, labels, SeededCoins(0, "other"), everybody=everybody
        )
        assert (nearest == expected[0]).all()
        assert (within, named) == (expected[1], (1, 8))


def test_without_the_checks_one_false_value_moves_a_label():
    # The control: what is tolerated above does harm when nobody looks.
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 9, 1, 2)
    values, sizes, labels = case(code, 2, 3000, 3)
    honest = decode_nearest(code, values, sizes, labels)
    corrupt(code.basis, values[0], 0, range(6000), np.random.default_rng(0))
    assert (decode_nearest(code, values, sizes, labels)[0] != honest[0]).any()
    assert screen_nearest(code, values, 2, sizes, labels, SeededCoins(0, "x"))[1:] == (honest[1], (0,))


def test_too_few_replies_and_too_many_deviating_clients_are_refused():
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 10, 1, 2)
    values, sizes, labels = case(code, 2, 30, 0)
    few = {j: values[j] for j in range(8)}
    with pytest.raises(TooFewValues, match=r"8 evaluations .* 9 are needed"):
        screen_nearest(code, few, 2, sizes, labels, SeededCoins(0, "few"))
    for j in (0, 3, 5):
        corrupt(code.basis, values[j], 0, range(60), np.random.default_rng(j))
    with pytest.raises(TooManyFalse, match="corrected=2 of 10"):
        screen_nearest(code, values, 2, sizes, labels, SeededCoins(0, "many"))


def test_deviating_clients_that_are_found_one_by_one_and_are_too_many_are_suspected_together():
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 10, 1, 2)
    values, sizes, labels = case(code, 1, 9000, 0)
    for j, at in ((0, [5]), (3, [8000]), (4, [8000]), (5, [8000])):
        corrupt(code.basis, values[j], 0, at, np.random.default_rng(j))
    with pytest.raises(TooManyFalse, match="corrected=2 of 10") as caught:
        screen_nearest(code, values, 2, sizes, labels, SeededCoins(0, "one by one"))
    assert set(caught.value.suspects) <= {0, 3, 4, 5}
    assert {0} <= set(caught.value.suspects)


@pytest.mark.parametrize("rows", [1, 2, 3])
@pytest.mark.parametrize("count", [2, 4, 5, 12, 13, 15, 27, 40])
def test_extreme_weights_and_residues_do_not_overflow(rows, count):
    basis = Basis(LANE_PRIMES[:2])
    p = np.array(basis.primes, np.int64)
    for weight in (p // 2, p // 2 + 1):
        # All residues are p - 1, so a check whose weights sum to zero vanishes, and only such a one.
        weights = np.broadcast_to(weight[:, None, None], (2, rows, count)).astype(np.int64)
        weights[:, :, -1] = (-weight * (count - 1) % p)[:, None]
        checks = ParityChecks(basis, tuple(range(count)), weights.astype(np.uint32))
        values = {
            j: np.broadcast_to((p - 1)[:, None, None], (2, 2, 2113)).astype(np.uint32) for j in range(count)
        }
        assert checks.failing(values, np.zeros(1, np.int64)) is None
        for at in ((0, 0), (1, 2112), (0, 1055)):
            values[count - 1][1, *at] -= 1
            done = np.zeros(1, np.int64)
            assert checks.failing(values, done) == at
            # The next search goes on from that chunk.
            assert done.tolist() == [at[1] // 2112]
            assert checks.failing(values, done) == at
            values[count - 1][1, *at] += 1


def test_secret_checks_do_not_show_themselves():
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 9, 1, 2)
    checks = ParityChecks.draw(code, code.basis, tuple(range(9)), 2, 2, SeededCoins(0, "x"))
    assert re.fullmatch(r"Checks\(clients=\(0, .*, 8\), secret\)", repr(checks))


def test_as_many_checks_as_spare_values_leave_nothing_to_chance():
    code = LagrangeCode(Basis((13,)), 7, 1, 2)
    drawn = [
        ParityChecks.draw(code, code.basis, tuple(range(7)), 2, 2, SeededCoins(s, "x")).weights
        for s in (0, 1)
    ]
    assert (drawn[0] == drawn[1]).all()
    fewer = [
        ParityChecks.draw(code, code.basis, tuple(range(7)), 2, 1, SeededCoins(s, "x")).weights
        for s in (0, 1)
    ]
    assert (fewer[0] != fewer[1]).any()
