"""Opened random projections: exact sums, nothing shown, nothing large that passes."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from field import SeededCoins
from field.code.lagrange_code import LagrangeCode
from field.code.range_check import (
    BITS,
    FAILING,
    FOUR,
    LARGEST,
    RUN_OUT,
    MaskSelection,
    MaskShortage,
    OpenedProjections,
    ProjectionPattern,
    Projections,
    RejectionOdds,
    deal_masks,
    draw_masks,
    favored_tries,
    judge_projections,
    passes_test,
    project_integers,
    projection_growth,
    rejection_odds,
    select_masks,
    soundness_slack,
    spare_masks,
    within_bound,
)
from field.kernels.projecting import project_blocks
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from tests.oracles import field as reference

LANES = Basis(LANE_PRIMES[:3])
BASES = [LANES, Basis((2**31 - 1, 7)), Basis((MERSENNE_61,))]


def signs_of(size, seed=0):
    return ProjectionPattern.draw(Projections(size, 1, 1), Basis(LANE_PRIMES[:1]), coins(seed)).signs


def coins(seed=0):
    return SeededCoins(seed, "projections")


# --- sums ---------------------------------------------------------------------------------------------


def expected(pattern, basis, values, firsts, counts):
    """What `ProjectionPattern.sums` says, in Python: sums of the first lanes, combinations of those of the
    others.
    """
    sums, checks = [], []
    for lane, p in enumerate(basis.primes):
        flat = values[lane].reshape(-1).tolist()
        blocks = [flat[at : at + count] for at, count in zip(firsts, counts, strict=True)]
        rows = [reference.project(block, pattern.signs, p)[0] for block in blocks]
        if lane < pattern.first.lanes:
            sums.append(rows)
            continue
        weights = pattern.weights[lane - pattern.first.lanes].tolist()
        checks.append(
            [
                [sum(w[j] * x for w, x in zip(weights, row, strict=True)) % p for j in range(len(weights[0]))]
                for row in rows
            ]
        )
    return sums, checks


def same(opened, lists):
    return (opened.sums.tolist(), opened.checks.tolist()) == lists


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("size", [1, 4, 16, 64])
@pytest.mark.parametrize("max_int", [3, 2**20])
def test_sums_of_blocks_that_begin_and_end_anywhere(basis, size, max_int):
    if 2 * Projections(size, 1, max_int).proven >= basis.modulus:
        max_int = 1
    pattern = ProjectionPattern.draw(Projections(size, 1, max_int), basis, coins())
    values = basis.sample((5, 29), coins(1))
    firsts = np.array([0, size, 3, 5 * 29 - size, 7])
    counts = np.array([size, -(-size // 2), size, size, 1])
    got = pattern.sums(values, firsts, counts)
    assert same(got, expected(pattern, basis, values, firsts, counts))
    # The same coins give the same; no blocks give nothing.
    again = ProjectionPattern.draw(pattern.test, basis, coins())
    assert (again.signs == pattern.signs).all()
    assert (again.weights == pattern.weights).all()
    assert pattern.sums(values, firsts[:0], counts[:0]).sums.shape == (
        pattern.first.lanes, 0, pattern.test.rows,
    )  # fmt: skip


@pytest.mark.parametrize("basis", [*BASES, Basis((2**31 - 1,)), Basis((2**31 - 1, 2**30 - 35))])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("off", [1, 2, 2**20])
def test_the_largest_sums_are_exact(basis, sign, off):
    # All signs equal and every residue the largest, in canonical or centered form: what so many can reach.
    pattern = ProjectionPattern.draw(Projections(LARGEST, 1, 1), basis, coins())
    pattern = replace(pattern, signs=np.full_like(pattern.signs, sign))
    top = [p - 1 if off == 1 else p // 2 + off % 2 for p in basis.primes]
    values = np.repeat(np.array(top, basis.dtype)[:, None], LARGEST, axis=1)
    got = pattern.sums(values, np.array([0]), np.array([LARGEST]))
    rows = pattern.test.rows
    for lane, (p, value) in enumerate(zip(basis.primes, top, strict=True)):
        total = sign * LARGEST * value % p
        if lane < pattern.first.lanes:
            assert got.sums[lane, 0].tolist() == [total] * rows
        else:
            columns = pattern.weights[lane - pattern.first.lanes].astype(object).sum(axis=0)
            assert got.checks[lane - pattern.first.lanes, 0].tolist() == [c * total % p for c in columns]


@pytest.mark.parametrize("p", [2**31 - 1, LANE_PRIMES[0], 0])
@pytest.mark.parametrize("counts", [[1024, 1025, 4096, 0, 1023], [3, 2048], [4096], [0, 5, 2049]])
def test_blocks_are_projected_chunk_by_chunk(p, counts):
    # Chunks are of 1024 words, and two blocks stand beside each other: short ones beside long ones.
    largest = p - 1 if p else 2**30 - 1
    words = np.random.default_rng(0).integers(0 if p else -largest, largest + 1, 9000)
    words[::3], words[1::3] = largest, p // 2 + 1 if p else -largest
    firsts, signs = np.arange(len(counts)) * 50, signs_of(LARGEST)[:7]
    got = np.full((len(counts), 7), -1)
    project_blocks(words.astype(np.int32), firsts, np.array(counts), signs, np.int64(p), got)
    centered = np.where(words > p // 2, words - p, words) if p else words
    for sums, first, count in zip(got, firsts, counts, strict=True):
        assert (sums == signs[:, :count].astype(np.int64) @ centered[first : first + count]).all()


def test_the_largest_integers_of_a_dealer_are_exact():
    most = (2**60 - 1) // soundness_slack(LARGEST, 1)
    values = np.full((LARGEST, 1), most, np.int64)
    for most_here in (most, 2**30 - 1, -(2**30) + 1, 2**30, -(2**30)):
        got = project_integers(np.full_like(values, most_here), 1, np.ones((4, LARGEST), np.int16))
        assert (got == LARGEST * most_here).all()
    Projections(LARGEST, 1, most)
    with pytest.raises(ValueError, match="lower the scale"):
        Projections(LARGEST, 1, most + 1)


@pytest.mark.parametrize("ell", [1, 2, 3])
def test_a_dealers_sums_are_those_of_its_segments(ell):
    values = np.random.default_rng(0).integers(-50, 50, (9, 5))
    signs = signs_of(8)
    width = -(-5 // ell)
    padded = np.zeros((9, ell * width), np.int64)
    padded[:, :5] = values
    got = project_integers(values, ell, signs)
    for segment in range(ell):
        piece = padded[:, segment * width : (segment + 1) * width].reshape(-1)
        assert got[:, :, segment].tolist() == reference.project(piece.tolist(), signs)


def test_signs_have_their_probabilities():
    signs = signs_of(4096)
    share = [float((signs == s).mean()) for s in (-1, 0, 1)]
    # Half a million signs: six standard deviations of 0.0007.
    np.testing.assert_allclose(share, [0.25, 0.5, 0.25], atol=0.0045)


def test_the_four_signs_of_an_octet_are_independent():
    counted = Counter(map(tuple, FOUR.view(np.int16).reshape(256, 4).tolist()))
    chances = {0: 2, 1: 1, -1: 1}
    drawn = itertools.product(chances, repeat=4)
    assert counted == {signs: math.prod(chances[s] for s in signs) for signs in drawn}


# --- what passes ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [23, 29])
def test_no_value_beyond_twice_the_bound_passes_a_row_with_more_than_a_half(p):
    # All values of the rest, all bounds T < p / 4, all words: the lemma of the module docstring, in full.
    def centered(x):
        return (x + p // 2) % p - p // 2

    tight = 0
    for bound in range((p - 1) // 4 + 1):
        for word in range(p):
            if abs(centered(word)) <= 2 * bound:
                continue
            for rest in range(p):
                passing = [abs(centered(rest + s * word)) <= bound for s in (0, 0, 1, -1)]
                assert sum(passing) <= 2
                tight += sum(passing) == 2
    assert tight, "the bound is reached"
    # Positive control: a word that is within the bound can always pass.
    assert all(abs(centered(s * 2)) <= 2 for s in (0, 1, -1))


@pytest.mark.parametrize("p", [3, 7, 23])
def test_no_error_off_the_code_escapes_a_row_with_more_than_a_half(p):
    for error in range(1, p):
        for rest in range(p):
            assert sum((rest + s * error) % p == 0 for s in (0, 0, 1, -1)) <= 2


@pytest.mark.parametrize(("p", "q"), [(29, 7), (23, 11)])
def test_no_value_that_differs_between_lanes_is_right_in_a_row_with_more_than_a_half(p, q):
    # A word w in the first lane and w + off in another, off not zero there; any mask in both.
    def centered(x):
        return (x + p // 2) % p - p // 2

    tight = 0
    for bound in range((p - 1) // 4 + 1):
        for word in range(-2 * bound, 2 * bound + 1):
            for off in range(1, q):
                for rest, mask in itertools.product(range(p), range(q)):
                    right = 0
                    for s in (0, 0, 1, -1):
                        opened = centered(rest + s * word)
                        right += abs(opened) <= bound and (mask + s * (word + off) - opened) % q == 0
                    assert right <= 2
                    tight += right == 2
    assert tight


def error_probability(got, blocks, favors, colluding):
    """A bound of what passes of a false block, exactly, with the fewest combinations of other lanes."""
    ways = math.comb(got.words, got.spare) ** colluding
    if colluding == 1:
        alone = Fraction(sum(math.comb(got.rows, i) for i in range(got.spare + 1)), 2**got.rows)
    else:
        alone = Fraction(ways, 2**got.rows)
    fewest = Projections(64, 1, 100, colluding, colluding, blocks, favors).checks(LANES)
    combined = Fraction(ways, min(LANE_PRIMES) ** fewest)
    return (alone + combined) * (got.masks(blocks) - blocks + 1) ** colluding * favors


@pytest.mark.parametrize("colluding", [1, 2, 3, 4, 5, 8, 16, 64])
@pytest.mark.parametrize(("n", "t", "blocks"), [(3, 1, 1), (16, 5, 13), (1024, 256, 1 << 16)])
def test_the_error_probability_is_what_the_page_says(n, t, blocks, colluding):
    favors = favored_tries(n, t, t)
    got = rejection_odds(blocks, favors, colluding)
    assert error_probability(got, blocks, favors, colluding) < Fraction(1, 2**BITS)
    assert got.miss_bits(blocks, favors, colluding) >= BITS
    assert got.failing < FAILING
    # Other lanes double at most what passes in the first ones.
    least = got.passing_bits(colluding) - math.log2(
        2 * favors * (got.masks(blocks) - blocks + 1) ** colluding
    )
    assert got.miss_bits(blocks, favors, colluding) == pytest.approx(least)
    # Positive control: four rows less would be too few.
    less = RejectionOdds(got.rows - 4, got.spare, got.reach)
    assert less.miss_bits(blocks, favors, colluding) < BITS
    # Skips of one dealer's masks alone would leave too much to several.
    assert colluding == 1 or rejection_odds(blocks, favors).miss_bits(blocks, favors, colluding) < BITS


def test_a_smaller_message_has_fewer_masks_to_begin_at():
    beyond = [spare_masks(blocks, 0.06) - blocks for blocks in range(1, 2000)]
    assert beyond == sorted(beyond)
    for blocks in (1, 13, 1000):
        number = spare_masks(blocks, 0.06)
        # P(fewer than `blocks` of `number` serve), by the bound that it is chosen by, and one mask less.
        bits = [run_out_bits(masks, blocks, 0.06) for masks in (number, number - 1)]
        assert bits[0] >= RUN_OUT > bits[1]


def run_out_bits(masks, blocks, failing):
    """Chernoff's bound of the probability that fewer than so many of the masks serve, in bits."""
    a, q = (blocks - 1) / masks, 1 - failing
    if a >= q:
        return 0.0
    nats = (a * math.log(a / q) if a else 0.0) + (1 - a) * math.log((1 - a) / (1 - q))
    return masks * nats / math.log(2)


@pytest.mark.parametrize(("rows", "spare"), [(3, 0), (3, 1), (4, 1), (3, 2)])
def test_choosing_words_helps_a_dealer_as_much_as_heads_of_coins(rows, spare):
    """Whatever it deals: every row and word, which passes for one of two values of the row's signs alone."""
    shifts = [s for s in itertools.product(range(spare + 1), repeat=rows) if list(s) == sorted(s)]
    most = 0
    for passing in itertools.product((0, 1), repeat=rows * (spare + 1)):
        caught = sum(
            not any(all(passing[r * (spare + 1) + s[r]] == signs[r] for r in range(rows)) for s in shifts)
            for signs in itertools.product((0, 1), repeat=rows)
        )
        most = max(most, 2**rows - caught)
    assert most == sum(math.comb(rows, i) for i in range(spare + 1))
    bits = RejectionOdds(rows, spare, 20).passing_bits()
    assert math.isclose(2**-bits, most / 2**rows)


def test_the_most_tries_and_words_take_120_sums():
    assert rejection_odds(1 << 16, 1 << 17) == RejectionOdds(120, 10, 20)
    assert rejection_odds(13, favored_tries(16, 5, 5)) == RejectionOdds(88, 8, 20)
    assert favored_tries(16, 5, 5) == 30
    assert favored_tries(3, 1, 1) == 1
    assert favored_tries(2, 0, 0) == 2


@given(st.integers(1, 4096), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_honest_sums_stay_below_beta(size, seed):
    signs = signs_of(1 << (size - 1).bit_length(), seed).astype(int)
    values = np.where(np.random.default_rng(seed).random(signs.shape[1]) < 0.5, -7, 7)
    assert (np.abs(signs @ values) <= 7 * projection_growth(signs.shape[1])).all()
    assert projection_growth(signs.shape[1]) ** 2 >= min(signs.shape[1] ** 2, 49 * signs.shape[1])


# --- masks ----------------------------------------------------------------------------------------------


def outcomes(most):
    """The law of what is announced and opened of one row, for every honest sum: by all masks there are."""
    reach, beta = 3, 1

    class Tiny:
        rows, words, odds = 1, 2, RejectionOdds(1, 1, reach)

    Tiny.beta, Tiny.reach, Tiny.most = beta, reach, most
    laws = []
    span = range(-reach, reach + 1)
    for value in range(-beta, beta + 1):
        law = Counter()
        for words in itertools.product(span, repeat=4):  # two masks of two words
            masks = np.array(words).reshape(2, 2, 1)
            try:
                choice = select_masks(Tiny, np.array([[[value]]]), masks)
            except MaskShortage:
                law["spent"] += 1
                continue
            place = int(np.flatnonzero(choice.used[0])[0])
            opened = value + int(masks[choice.masks[0], place, 0])
            law[int(choice.masks[0]), place, opened] += 1
        laws.append(law)
    return laws


def test_what_is_announced_and_opened_has_one_law_whatever_the_sum():
    laws = outcomes(most=2)
    assert laws[0] == laws[1] == laws[2]
    assert len({opened for _, _, opened in (key for key in laws[0] if key != "spent")}) == 5
    # Positive control: where larger values may be opened, their law tells the sum.
    wide = outcomes(most=3)
    assert wide[0] != wide[1]


@pytest.mark.parametrize("ell", [1, 2, 4])
@pytest.mark.parametrize("blocks", [1, 3, 64])
def test_an_honest_dealer_never_runs_out_of_masks(ell, blocks):
    test = Projections(64, ell, 100)
    rng = np.random.default_rng(0)
    for seed in range(5):
        sums = rng.integers(-test.beta, test.beta + 1, (blocks, test.rows, ell))
        masks = draw_masks(test, spare_masks(blocks, test.odds.failing), coins(seed))
        assert np.abs(masks).max() <= test.reach
        choice = select_masks(test, sums, masks)
        assert choice.fits(test.odds, blocks, len(masks))
        used = masks[choice.masks[:, None], np.nonzero(choice.used)[1].reshape(blocks, test.rows)]
        assert (np.abs(sums + used) <= test.most).all()
    with pytest.raises(MaskShortage):
        select_masks(test, sums, masks[: blocks - 1])
    with pytest.raises(MaskShortage):
        select_masks(test, np.full_like(sums, test.beta + 1), masks)


def test_a_mask_fails_as_often_as_it_should():
    test = Projections(64, 2, 1000)
    masks = draw_masks(test, 4000, coins())
    off = (np.abs(masks[:, :, :]) > test.most).any(axis=2).sum(axis=1) > test.odds.spare
    # What is skipped is bounded by a sum over the segments, which counts some words twice.
    assert abs(off.mean() - test.odds.failing) < 0.007 + 6 * math.sqrt(test.odds.failing / 4000)


@pytest.mark.parametrize("change", ["twice", "back", "absent", "fewer", "shape"])
def test_choices_of_another_form_do_not_fit(change):
    test = Projections(8, 1, 5)
    masks = draw_masks(test, 5, coins())
    choice = select_masks(test, np.zeros((2, test.rows, 1), np.int64), masks)
    assert choice.fits(test.odds, 2, 5)
    numbers, used = choice.masks.copy(), choice.used.copy()
    match change:
        case "twice":
            numbers[1] = numbers[0]
        case "back":
            numbers[:] = numbers[::-1].copy()
        case "absent":
            numbers[1] = 5
        case "fewer":
            used[0, np.flatnonzero(used[0])[0]] = False
        case "shape":
            used = used[:, :-1]
    assert not MaskSelection(numbers, used).fits(test.odds, 2, 5)


# --- together -------------------------------------------------------------------------------------------


def dealt(code, pattern, choice, values, masks, *seeds):
    """What every receiver opens of shares of these integers and masks, dealt with coins of these seeds."""
    basis = code.basis
    shares = code.share(basis.reduce(values), coins(seeds[0]))
    hiding = deal_masks(code, masks, coins(seeds[1]))
    words = len(values) * code.width(values.shape[1])
    size = pattern.test.size
    firsts = np.arange(0, words, size)
    told = {}
    for j in range(code.n):
        told[j] = pattern.sums(shares[j], firsts, np.minimum(size, words - firsts))
        pattern.add_masks(told[j], [(choice, hiding[j], slice(0, len(firsts)))])
    return told


def moved(told, j, where, place, by=1, p=None):
    """The same, but receiver j tells one word other than it is."""
    parts = {name: getattr(told[j], name).copy() for name in ("sums", "checks")}
    parts[where][place] = (int(parts[where][place]) + by) % p
    return {**told, j: OpenedProjections(**parts)}


def example(basis, max_int=40):
    """Honest integers of three blocks, nine receivers, and the choice of masks."""
    code, test = LagrangeCode(basis, 9, 2, 2), Projections(16, 2, max_int)
    values = np.random.default_rng(0).integers(-max_int, max_int + 1, (10, 7))
    pattern = ProjectionPattern.draw(test, basis, coins(1))
    secret = draw_masks(test, spare_masks(3, test.odds.failing), coins(2))
    choice = select_masks(test, project_integers(values, 2, pattern.signs), secret)
    return code, pattern, values, secret, choice


@pytest.mark.parametrize("basis", BASES[::2])
@pytest.mark.parametrize("max_int", [40, 2**25])
def test_honest_words_pass_and_lies_are_located(basis, max_int):
    code, pattern, values, secret, choice = example(basis, max_int)
    told = dealt(code, pattern, choice, values, secret, 3, 4)
    assert judge_projections(code, pattern, told, 2).good
    assert passes_test(code, pattern, told, coins(6))
    # Each told word of each receiver is looked at, in each lane.
    first = pattern.first.lanes
    for j, lane in itertools.product(range(9), range(basis.lanes)):
        name, at = ("sums", lane) if lane < first else ("checks", lane - first)
        for place in ((at, 0, 0), (at, -1, -1)):
            one = moved(told, j, name, place, p=basis.primes[lane])
            assert not passes_test(code, pattern, one, coins(7 + j))
            assert judge_projections(code, pattern, one, 2).receivers == (j,)
    lying = moved(told, 3, "sums", (0, 0, 5), p=basis.primes[0])
    for j in (1, 4, 8):
        lying = moved(lying, j, "sums", (0, 0, 5), 1 + j**4, basis.primes[0])
    assert not judge_projections(code, pattern, lying, 2).on_code
    if pattern.rest:
        # Few off in the first lanes and few in the others are too many together.
        lying = moved(
            moved(told, 3, "sums", (0, 0, 5), p=basis.primes[0]), 1, "checks", (0, 1, 1), p=basis.primes[-1]
        )
        lying = moved(lying, 4, "checks", (0, 1, 1), 5, basis.primes[first])
        assert not judge_projections(code, pattern, lying, 2).on_code
    huge = values.copy()
    huge[4, 1] = max_int * soundness_slack(16, 2) + 1
    told = dealt(code, pattern, choice, huge, secret, 5, 4)
    finding = judge_projections(code, pattern, told, 2)
    assert finding.on_code
    assert not finding.small
    assert not passes_test(code, pattern, told, coins(8))


@pytest.mark.parametrize("lane", [0, 1, 2])
def test_values_that_differ_between_lanes_do_not_pass(lane):
    code, pattern, values, secret, choice = example(LANES)
    assert pattern.first.lanes == 1
    told = dealt(code, pattern, choice, values, secret, 3, 4)
    # One more in one value, in one lane alone.
    more = np.zeros((3, *values.shape), LANES.dtype)
    more[lane, 4, 1] = 1
    shares = code.share(more, coins(5))
    firsts = np.array([0, 16, 32])
    for j in range(9):
        extra = pattern.sums(shares[j], firsts, np.array([16, 16, 8]))
        for name, basis in (("sums", pattern.first), ("checks", pattern.rest)):
            getattr(told[j], name)[:] = basis.add(getattr(told[j], name), getattr(extra, name))
    finding = judge_projections(code, pattern, told, 2)
    assert finding.on_code
    assert not finding.small
    assert not passes_test(code, pattern, told, coins(6))


@pytest.mark.parametrize("basis", [LANES, Basis(LANE_PRIMES[:2]), Basis((MERSENNE_61,))])
@pytest.mark.parametrize("max_int", [10, 2**25])
def test_small_is_decided_at_its_edge_in_all_lanes(basis, max_int):
    code, test = LagrangeCode(basis, 3, 1, 1), Projections(64, 1, max_int)
    pattern = ProjectionPattern.draw(test, basis, coins())
    edge = test.allowed

    def opened(value):
        integers = np.zeros((1, test.rows), object)
        integers[0, 7] = value
        sums = basis.reduce(integers)
        rest = sums[pattern.first.lanes :]
        # A constant polynomial: every receiver holds the value.
        told = OpenedProjections(sums[: pattern.first.lanes], pattern.combine(rest))
        return dict.fromkeys(range(3), told)

    for value in (0, edge, -edge):
        assert within_bound(code, pattern, opened(value))
    for value in (edge + 1, -edge - 1, basis.modulus // 2):
        assert not within_bound(code, pattern, opened(value))


def test_as_many_receivers_as_may_lie_are_named_and_one_more_is_a_dealing_that_is_false():
    code, pattern, values, secret, choice = example(LANES)
    told = dealt(code, pattern, choice, values, secret, 3, 4)
    lying = moved(told, 2, "sums", (0, 0, 0), 5, LANES.primes[0])
    finding = judge_projections(code, pattern, lying, 1)
    assert (finding.on_code, finding.receivers) == (True, (2,))
    lying = moved(lying, 5, "checks", (0, 1, 1), 5, LANES.primes[1])
    assert not judge_projections(code, pattern, lying, 1).on_code


def test_what_is_cleared_tells_neither_sums_nor_checks():
    opened = OpenedProjections(np.ones((2, 3), np.uint32), np.ones((2, 3), np.uint32))
    opened.clear(slice(1, 3))
    for told in (opened.sums, opened.checks):
        assert told.tolist() == [[1, 0, 0], [1, 0, 0]]
