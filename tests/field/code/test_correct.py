"""Lying replies are found and named, honest ones never; false dealings are noticed without opening them."""

import itertools
import re
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from field import Basis, LagrangeCode, SeededCoins, TooFewValues
from field.code import consistency, range_check, reply_check
from field.code.consistency import (
    RandomCombination,
    TooManyFalse,
    checks_needed,
    combine_shares,
    deal_mask,
    judge_dealing,
    locate_deviating,
    mask_words,
    miss_bound,
    screen_deviating,
)
from field.code.lagrange_code import transfer_matrix
from field.code.masking import deal_blinding
from field.compare import assignment_step
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from tests.field.code.test_code import ScriptedCoins
from tests.nightly import by_night
from tests.oracles import field as reference
from tests.strategies import bases, extreme_residues


def codewords(code, degree, shape, seed):
    """Honest values of all clients: points of polynomials with edge-heavy values at the first points."""
    needed = code.threshold(degree)
    fixed = extreme_residues(code.basis, (needed, int(np.prod(shape))), seed)
    matrix = transfer_matrix(code.basis, code.alphas[:needed], code.alphas)
    values = code.basis.matmul(matrix, fixed)
    return {j: values[:, j].reshape(-1, *shape).copy() for j in range(code.n)}


def corrupt(basis, value, lane, positions, rng):
    """Add a non-zero residue at some positions of one lane."""
    p = basis.primes[lane]
    flat = value.reshape(basis.lanes, -1)
    for at in positions:
        flat[lane, at] = (int(flat[lane, at]) + int(rng.integers(1, p))) % p


@st.composite
def lying_cases(draw):
    ell, t, degree = draw(st.integers(1, 3)), draw(st.integers(0, 3)), draw(st.integers(1, 2))
    corrected = draw(st.integers(0, 3))
    n = 2 * (ell + t - 1) + 1 + 2 * corrected + draw(st.integers(0, 2))
    code = LagrangeCode(draw(bases), n, ell, t)
    actual = draw(st.lists(st.integers(0, n - 1), unique=True, max_size=corrected))
    shape = draw(st.sampled_from([(1,), (3, 5), (2, 300), (1, 2111)]))
    return code, degree, corrected, tuple(sorted(actual)), shape


@given(lying_cases(), st.sampled_from(["one value", "one lane", "all", "common"]), st.integers(0, 2**32))
def test_exactly_the_deviating_clients_are_named_and_the_rest_decodes_exactly(case, kind, seed):
    code, degree, corrected, actual, shape = case
    rng = np.random.default_rng(seed)
    values = codewords(code, degree, shape, seed)
    honest = code.decode(values, degree)
    size = int(np.prod(shape))
    other = codewords(code, degree, shape, seed + 1)
    for j in actual:
        lane = int(rng.integers(code.basis.lanes))
        if kind == "one value":
            corrupt(code.basis, values[j], lane, [int(rng.integers(size))], rng)
        elif kind == "one lane":
            corrupt(code.basis, values[j], lane, range(size), rng)
        elif kind == "all":
            for every in range(code.basis.lanes):
                corrupt(code.basis, values[j], every, range(size), rng)
        else:
            # Colluding deviating clients: points of one other polynomial, coordinated in every value.
            values[j] = other[j]
    # A colluding deviating client may tell the truth where the polynomials meet.
    truth = codewords(code, degree, shape, seed)
    lied = tuple(j for j in actual if (values[j] != truth[j]).any())
    before = {j: v.copy() for j, v in values.items()}
    assert locate_deviating(code, values, degree, corrected, SeededCoins(seed, "locate")) == lied
    usable, named = screen_deviating(code, values, degree, corrected, SeededCoins(seed, "screen"))
    assert set(named) <= set(lied)
    for kept in (usable, [j for j in values if j not in lied]):
        assert (code.decode({j: values[j] for j in kept}, degree) == honest).all()
    assert all((values[j] == before[j]).all() for j in values)


def test_one_wrong_value_in_a_million_is_found():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 9, 1, 3)
    values = codewords(code, 2, (4, 250_000), 1)
    corrupt(code.basis, values[6], 1, [777_777], np.random.default_rng(0))
    assert locate_deviating(code, values, 2, 1, SeededCoins(1, "million")) == (6,)
    assert screen_deviating(code, values, 2, 1, SeededCoins(1, "million"))[1] == (6,)


@pytest.mark.parametrize("lane", [0, 1])
def test_deviating_clients_in_different_lanes_are_all_found(lane):
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 11, 1, 3)
    values = codewords(code, 2, (3, 7), 2)
    corrupt(code.basis, values[0], lane, [3], np.random.default_rng(1))
    corrupt(code.basis, values[9], 1 - lane, [20], np.random.default_rng(2))
    assert locate_deviating(code, values, 2, 2, SeededCoins(0, "lanes")) == (0, 9)


@given(lying_cases(), st.integers(1, 2), st.integers(0, 2**32))
def test_more_deviating_clients_than_planned_are_found_too_many(case, extra, seed):
    code, degree, corrected, _, shape = case
    if min(code.basis.primes) < 2**29:
        # A chance of about C(n, corrected) / 10007 for a wrong name: measured elsewhere, not here.
        code = LagrangeCode(Basis(LANE_PRIMES[:1]), code.n, code.ell, code.t)
    spare = code.n - code.threshold(degree) - 2 * corrected
    if corrected + extra > code.n - code.threshold(degree):
        return
    rng = np.random.default_rng(seed)
    values = codewords(code, degree, shape, seed)
    lying = rng.permutation(code.n)[: corrected + extra]
    for j in lying:
        corrupt(code.basis, values[j], 0, range(int(np.prod(shape))), rng)
    with pytest.raises(TooManyFalse, match=rf"corrected={corrected} of {code.n} .*correct more") as caught:
        locate_deviating(code, values, degree, corrected, SeededCoins(seed, "many"))
    if extra <= spare:
        assert set(caught.value.suspects) <= {int(j) for j in lying}


def frame(code, values, corrected, colluders):
    """Colluders add a polynomial that vanishes at the first R - 1 honest clients."""
    p = code.basis.primes[0]
    honest = [j for j in values if j not in colluders][: code.threshold(2) - 1]
    for j in colluders:
        shift = 1
        for i in honest:
            shift = shift * (code.alphas[j] - code.alphas[i]) % p
        values[j] = np.asarray((values[j].astype(np.int64) + shift) % p, code.basis.dtype)


@pytest.mark.parametrize("corrected", [1, 2])
def test_one_deviating_client_too_many_can_frame_honest_clients_and_a_spare_reply_prevents_it(corrected):
    for spare in (0, 1):
        code = LagrangeCode(Basis(LANE_PRIMES[:1]), 2 * 2 + 1 + 2 * corrected + spare, 1, 2)
        values = codewords(code, 2, (2, 3), 0)
        colluders = range(code.n - corrected - 1, code.n)
        frame(code, values, corrected, colluders)
        coins = SeededCoins(0, "frame")
        if spare:
            with pytest.raises(TooManyFalse):
                locate_deviating(code, values, 2, corrected, coins)
        else:
            # The limit the docstring states: no decoder can tell.
            named = locate_deviating(code, values, 2, corrected, coins)
            assert len(named) == corrected
            assert not set(named) & set(colluders)


def test_too_few_values_to_name_deviating_clients_are_refused():
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 9, 1, 2)
    values = codewords(code, 2, (3,), 0)
    with pytest.raises(TooFewValues, match=r"9 evaluations .* 11 are needed"):
        locate_deviating(code, values, 2, 3, SeededCoins(0, "few"))
    with pytest.raises(ValueError, match="corrected=-1 is negative"):
        screen_deviating(code, values, 2, -1, SeededCoins(0, "few"))


def test_replies_of_no_values_are_honest():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 7, 1, 2)
    values = {j: np.zeros((2, 3, 0), np.uint32) for j in range(7)}
    assert locate_deviating(code, values, 2, 1, SeededCoins(0, "empty")) == ()


def test_a_prefix_of_the_lanes_is_enough():
    code = LagrangeCode(Basis(LANE_PRIMES[:3]), 7, 1, 2)
    values = {j: v[:2] for j, v in codewords(code, 2, (4, 9), 0).items()}
    values[5] = values[5].copy()
    values[5][1, 3, 8] ^= 1
    assert locate_deviating(code, values, 2, 1, SeededCoins(0, "prefix")) == (5,)


# --- the bound ---------------------------------------------------------------------------------------


P = min(LANE_PRIMES)


@pytest.mark.parametrize(("number", "passes", "bits"), [
    (reply_check.REPETITIONS, lambda r: Fraction(2, P) ** r, 57),
    (consistency.SUMS, lambda r: Fraction(2, P) ** r, 57),
    (assignment_step.TESTS, lambda r: 2 * Fraction(1, P) ** r, 88),
    (checks_needed(Basis(LANE_PRIMES), 0, range_check.CHECKED), lambda r: Fraction(1, P) ** r, 40),
], ids=["replies", "digests of residues", "labels that are as before", "words of receivers"])  # fmt: skip
def test_a_number_of_tests_is_the_least_that_reaches_what_its_page_says(number, passes, bits):
    """A lie passes so many of them with this probability: below the bound, and not with one less."""
    assert passes(number) < Fraction(1, 2**bits) <= passes(number - 1)


@pytest.mark.parametrize(
    ("primes", "count"),
    [(LANE_PRIMES[:1], 2), (LANE_PRIMES, 2), ((MERSENNE_61,), 1), ((2**31 - 1, 10007), 5), ((11,), 18)],
)
def test_the_bound_is_below_2_to_the_minus_59_with_the_least_count(primes, count):
    basis = Basis(primes)
    for corrected in (0, 1, 3, 30):
        assert checks_needed(basis, corrected) == count
        assert miss_bound(basis, corrected) < Fraction(1, 2**59)
    p = min(primes)
    assert Fraction(p + 1, p**count) >= Fraction(1, 2**59)


@pytest.mark.parametrize(
    ("kind", "corrected", "rate"),
    [
        # One check of p = 13: lies of one author escape together, with probability 1/13.
        ("one value", 1, 1 / 13),
        *by_night(("everywhere", 1, 1 / 13)),
        # The first escapes, or it does not and the other escapes two checks.
        *by_night(("two authors in two places", 2, 1 / 13 + 12 / 13 / 169)),
    ],
)
def test_the_miss_rate_in_a_tiny_field_is_the_stated_one(kind, corrected, rate):
    code = LagrangeCode(Basis((13,)), 3 + 2 * corrected, 1, 1)
    trials = 4000
    assert checks_needed(code.basis, corrected, 2) == 1
    bound = float(miss_bound(code.basis, corrected, 2))
    assert rate <= bound == pytest.approx(1 / 13 + corrected / 169)
    rng = np.random.default_rng(3)
    coins = SeededCoins(11, kind)
    honest = codewords(code, 2, (40, 1), 0)
    missed = 0
    for _ in range(trials):
        values = dict(honest)
        lying = sorted(int(j) for j in rng.permutation(code.n)[:corrected])
        for j, at in zip(lying, rng.permutation(40), strict=False):
            values[j] = honest[j].copy()
            corrupt(code.basis, values[j], 0, range(40) if kind == "everywhere" else [int(at)], rng)
        missed += locate_deviating(code, values, 2, corrected, coins, bits=2) != tuple(lying)
    # The standard deviation of the rate is below sqrt(0.09 / 4000) = 0.0048: false alarm below 1e-6 (5 sd).
    assert abs(missed / trials - rate) < 0.024


@given(
    bases,
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([1, 255, 256, 257, 2500]),
    st.integers(0, 2**32),
)
@example(Basis(LANE_PRIMES), 2, 3, 131_072 + 9_000, 5)
@settings(max_examples=25)
def test_the_words_equal_python_integers(basis, count, words, size, seed):
    replies = [extreme_residues(basis, (size,), seed + j) for j in range(2)]
    drawn = RandomCombination.draw(basis, size, count, words, SeededCoins(seed, "words"))
    out = drawn.of(replies)
    width = drawn.weights.shape[3]
    for lane, p in enumerate(basis.primes):
        for j, reply in enumerate(replies):
            blocks = np.zeros(drawn.scales.shape[2] * width, object)
            blocks[:size] = reply[lane]
            sums = reference.matmul(drawn.scales[lane : lane + 1], blocks.reshape(1, -1, width), [p])
            expected = (drawn.weights[lane].astype(object) * sums).sum(axis=(1, 2)) % p
            assert (out[lane, j] == expected).all()


def test_extreme_coefficients_and_residues_do_not_overflow():
    basis = Basis(LANE_PRIMES[:2])
    top = np.array(basis.primes, np.uint32)
    size = 256 * 17 + 5
    for low, high in itertools.product(("top", "half"), repeat=2):
        scale = top - 1 if low == "top" else top // 2
        weight = top - 1 if high == "top" else top // 2
        scales = np.broadcast_to(scale[:, None, None], (2, 2, 18)).copy()
        weights = np.broadcast_to(weight[:, None, None, None], (2, 3, 2, 256)).copy()
        reply = np.broadcast_to((top - 1)[:, None], (2, size)).copy()
        out = RandomCombination(basis, size, scales, weights).of([reply])
        for lane, p in enumerate(basis.primes):
            expected = 2 * size * int(scale[lane]) * int(weight[lane]) * (p - 1) % p
            assert (out[lane] == expected).all()


def test_secret_coefficients_do_not_show_themselves():
    drawn = RandomCombination.draw(Basis((13,)), 3, 1, 1, SeededCoins(0, "x"))
    assert re.fullmatch(r"Combination\(size=3, secret\)", repr(drawn))


# --- dealings ----------------------------------------------------------------------------------------


def dealing(code, seed, shape=(20, 6)):
    """(shares, masks) of one honest dealer."""
    coins = SeededCoins(seed, "dealer")
    shares = code.share(extreme_residues(code.basis, shape, seed), coins)
    return [s.copy() for s in shares], deal_mask(code, mask_words(code, 1), coins)


def publish(code, shares, masks, seed=0):
    return {j: combine_shares(code, shares[j], masks[j], SeededCoins(seed, "common")) for j in range(code.n)}


@given(bases, st.integers(1, 2), st.integers(0, 2), st.integers(0, 2**32))
@settings(max_examples=20)
def test_honest_dealings_pass_and_false_ones_are_blamed(basis, ell, t, seed):
    code = LagrangeCode(basis, 2 * (ell + t - 1) + 5, ell, t)
    shares, masks = dealing(code, seed)
    rng = np.random.default_rng(seed)
    assert judge_dealing(code, publish(code, shares, masks), 2).good

    # At most `corrected` receivers off: the dealer or they, and the verdict names them all.
    suspected = sorted(int(j) for j in rng.permutation(code.n)[:2])
    for j in suspected:
        corrupt(basis, shares[j], int(rng.integers(basis.lanes)), [int(rng.integers(20))], rng)
    verdict = judge_dealing(code, publish(code, shares, masks), 2)
    assert (verdict.dealer, verdict.receivers) == (False, tuple(suspected))

    # A dealing of a higher degree: every share is off, and only the dealer can be at fault.
    if min(basis.primes) > 2**29:
        false = [basis.sample(s.shape[1:], SeededCoins(seed, f"false {j}")) for j, s in enumerate(shares)]
        assert judge_dealing(code, publish(code, false, masks), 2).dealer
        # Masks that are false do not help, nor do they hide behind honest shares.
        honest, _ = dealing(code, seed)
        wrong = [basis.sample(m.shape[1:], SeededCoins(seed, f"mask {j}")) for j, m in enumerate(masks)]
        assert judge_dealing(code, publish(code, honest, wrong), 2).dealer


def test_a_receiver_that_publishes_falsely_is_suspected_and_not_the_dealer():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 9, 1, 3)
    shares, masks = dealing(code, 0)
    published = publish(code, shares, masks)
    published[4] = code.basis.add(published[4], np.ones_like(published[4]))
    verdict = judge_dealing(code, published, 1)
    assert (verdict.dealer, verdict.receivers) == (False, (4,))
    assert not verdict.good


def test_blinding_that_does_not_sum_to_zero_is_blamed_on_its_dealer():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 9, 2, 1)
    coins = SeededCoins(0, "blinding")
    shares, masks = deal_blinding(code, 2, (4, 9), coins), deal_blinding(code, 2, (4,), coins)
    assert judge_dealing(code, publish(code, shares, masks), 2, degree=2, zero_sum=True).good
    # One polynomial moved by a constant still has the degree, but no zero sum.
    moved = [s.copy() for s in shares]
    for s in moved:
        s[1, 2, 3] = (int(s[1, 2, 3]) + 1) % code.basis.primes[1]
    assert judge_dealing(code, publish(code, moved, masks), 2, degree=2).good
    assert judge_dealing(code, publish(code, moved, masks), 2, degree=2, zero_sum=True).dealer


def test_the_false_dealing_rate_in_a_tiny_field_is_the_stated_one():
    code = LagrangeCode(Basis((13,)), 5, 1, 1)
    shares, masks = dealing(code, 0)
    masks = [m[:, :2] for m in masks]
    rng, trials, passed = np.random.default_rng(0), 3000, 0
    for trial in range(trials):
        false = list(shares)
        false[2] = shares[2].copy()
        corrupt(code.basis, false[2], 0, [int(rng.integers(60))], rng)
        passed += judge_dealing(code, publish(code, false, masks, trial), 1).good
    # One row and two words: at most 1/13 + 1/169 = 0.0828; sd below 0.0051, so false alarm below 1e-6.
    assert 0.0824 - 0.0255 < passed / trials < 0.0828 + 0.0255


def published_law(code, secret, client, masked=True):
    """The exact law of all published words and one client's shares, over the dealer's coins."""
    p, law = code.basis.primes[0], Counter()
    points = np.array(secret, np.uint32).reshape(1, 1, -1)
    for noise, hidden, hidden_noise in itertools.product(range(p), repeat=3):
        shares = code.share(points, ScriptedCoins([noise]))
        masks = deal_mask(code, 1, ScriptedCoins([hidden, hidden_noise]))
        words = [
            combine_shares(code, s, m if masked else m * 0, SeededCoins(1, "common"))
            for s, m in zip(shares, masks, strict=True)
        ]
        seen = (shares[client], masks[client], *words)
        law[tuple(int(v) for part in seen for v in part.ravel())] += 1
    return law


def test_published_words_say_nothing_of_the_points_and_without_masks_they_do():
    code = LagrangeCode(Basis((7,)), 3, 1, 1)
    laws = [published_law(code, [secret], 1) for secret in (0, 3)]
    assert laws[0] == laws[1]
    bare = [published_law(code, [secret], 1, masked=False) for secret in (0, 3)]
    assert bare[0] != bare[1]
