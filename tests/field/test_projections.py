"""Opened random projections: exact sums, nothing shown, nothing large that passes."""

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from field import SeededCoins
from field.code import projections
from field.code.lagrange_code import LagrangeCode
from field.code.projections import (
    LARGEST,
    ROWS,
    SPARE,
    WORDS,
    MaskShortage,
    Projections,
    choose,
    deal_masks,
    draw_masks,
    draw_signs,
    failing,
    judge,
    miss_bits,
    passes,
    project,
    project_blocks,
    project_integers,
    rise,
    small,
    spare_masks,
    stretch,
)
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from tests.oracles import field as reference

LANES = Basis(LANE_PRIMES[:3])
BASES = [LANES, Basis((2**31 - 1, 7)), Basis((MERSENNE_61,))]


def coins(seed=0):
    return SeededCoins(seed, "projections")


# --- sums ---------------------------------------------------------------------------------------------


@given(st.sampled_from(BASES), st.integers(1, 70), st.sampled_from([1, 4, 16, 64]), st.integers(0, 9))
@settings(deadline=None)
def test_sums_of_residues_are_those_of_python(basis, words, size, seed):
    signs = draw_signs(size, coins(seed))
    values = basis.sample((words,), coins(seed + 1))
    got = project(basis, values, signs)
    for lane, p in enumerate(basis.primes):
        assert got[lane].tolist() == reference.project(values[lane].tolist(), signs, p)


@pytest.mark.parametrize("basis", BASES)
def test_sums_of_blocks_that_begin_and_end_anywhere(basis):
    signs, values = draw_signs(16, coins()), basis.sample((5, 9), coins(1))
    firsts, counts = np.array([0, 16, 20, 36]), np.array([16, 4, 16, 9])
    got = np.empty((basis.lanes, 4, ROWS), basis.dtype)
    project_blocks(basis, values, firsts, counts, signs, got)
    for lane, p in enumerate(basis.primes):
        flat = values[lane].reshape(-1).tolist()
        blocks = [flat[at : at + count] for at, count in zip(firsts, counts, strict=True)]
        assert got[lane].tolist() == [reference.project(block, signs, p)[0] for block in blocks]
    top = np.array(basis.primes, basis.dtype)[:, None] - 1
    signs, got = np.full((ROWS, LARGEST), -1, np.int32), np.empty((basis.lanes, 1, ROWS), basis.dtype)
    words = np.repeat(top, LARGEST, axis=1)
    project_blocks(basis, words, np.array([0]), np.array([LARGEST]), signs, got)
    assert [row.tolist() for row in got[:, 0]] == [[LARGEST % p] * ROWS for p in basis.primes]


@pytest.mark.parametrize("basis", BASES)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_sums_are_exact(basis, sign):
    # All signs equal and every residue the largest: what a sum of so many words can reach.
    signs = np.full((ROWS, LARGEST), sign, np.int32)
    top = np.array(basis.primes, basis.dtype)[:, None] - 1
    got = project(basis, np.repeat(top, LARGEST, axis=1), signs)
    assert [row.tolist() for row in got[:, 0]] == [[-sign * LARGEST % p] * ROWS for p in basis.primes]


def test_the_largest_integers_of_a_dealer_are_exact():
    most = (2**60 - 1) // stretch(LARGEST, 1)
    values = np.full((LARGEST, 1), most, np.int64)
    got = project_integers(values, 1, np.ones((ROWS, LARGEST), np.int32))
    assert (got == LARGEST * most).all()
    Projections(LARGEST, 1, most)
    with pytest.raises(ValueError, match="lower the scale"):
        Projections(LARGEST, 1, most + 1)


@pytest.mark.parametrize("ell", [1, 2, 3])
def test_a_dealers_sums_are_those_of_its_segments(ell):
    values = np.random.default_rng(0).integers(-50, 50, (9, 5))
    signs = draw_signs(8, coins())
    width = -(-5 // ell)
    padded = np.zeros((9, ell * width), np.int64)
    padded[:, :5] = values
    got = project_integers(values, ell, signs)
    for segment in range(ell):
        piece = padded[:, segment * width : (segment + 1) * width].reshape(-1)
        assert got[:, :, segment].tolist() == reference.project(piece.tolist(), signs)


def test_signs_have_their_probabilities():
    signs = draw_signs(4096, coins())
    share = [float((signs == s).mean()) for s in (-1, 0, 1)]
    # Half a million signs: six standard deviations of 0.0007.
    np.testing.assert_allclose(share, [0.25, 0.5, 0.25], atol=0.0045)


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


def test_the_error_probability_is_what_the_page_says():
    # One block, hidden under any mask of its message, one of 4096 seeds.
    most = max(spare_masks(blocks, ell) for blocks in (1, 64, 1024) for ell in (1, 2, 3, 4))
    assert most <= 2**11
    assert miss_bits(most, 2**12) > 59
    # Positive control: without a limit on skips the choice of words alone would be too much.
    assert ROWS - math.log2(math.comb(2 * ROWS, ROWS)) < 0


@given(st.integers(1, 4096), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_honest_sums_stay_below_beta(size, seed):
    signs = draw_signs(1 << (size - 1).bit_length(), coins(seed))
    values = np.where(np.random.default_rng(seed).random(signs.shape[1]) < 0.5, -7, 7)
    assert (np.abs(signs @ values) <= 7 * rise(signs.shape[1])).all()
    assert rise(signs.shape[1]) ** 2 >= min(signs.shape[1] ** 2, 49 * signs.shape[1])


# --- masks ----------------------------------------------------------------------------------------------


def outcomes(monkeypatch, most):
    """The law of what is announced and opened of one row, for every honest sum: by all masks there are."""
    reach, beta = 3, 1
    for name, value in (("ROWS", 1), ("SPARE", 1), ("WORDS", 2)):
        monkeypatch.setattr(projections, name, value)

    class Tiny:
        pass

    Tiny.beta, Tiny.reach, Tiny.most = beta, reach, most
    laws = []
    span = range(-reach, reach + 1)
    for value in range(-beta, beta + 1):
        law = Counter()
        for words in itertools.product(span, repeat=4):  # two masks of two words
            masks = np.array(words).reshape(2, 2, 1)
            try:
                choice = choose(Tiny, np.array([[[value]]]), masks)
            except MaskShortage:
                law["spent"] += 1
                continue
            place = int(np.flatnonzero(choice.used[0])[0])
            opened = value + int(masks[choice.masks[0], place, 0])
            law[int(choice.masks[0]), place, opened] += 1
        laws.append(law)
    return laws


def test_what_is_announced_and_opened_has_one_law_whatever_the_sum(monkeypatch):
    laws = outcomes(monkeypatch, most=2)
    assert laws[0] == laws[1] == laws[2]
    assert len({opened for _, _, opened in (key for key in laws[0] if key != "spent")}) == 5
    # Positive control: where larger values may be opened, their law tells the sum.
    wide = outcomes(monkeypatch, most=3)
    assert wide[0] != wide[1]


@pytest.mark.parametrize("ell", [1, 2, 4])
@pytest.mark.parametrize("blocks", [1, 3, 64])
def test_an_honest_dealer_never_runs_out_of_masks(ell, blocks):
    test = Projections(64, ell, 100)
    rng = np.random.default_rng(0)
    for seed in range(5):
        sums = rng.integers(-test.beta, test.beta + 1, (blocks, ROWS, ell))
        masks = draw_masks(test, spare_masks(blocks, ell), coins(seed))
        assert np.abs(masks).max() <= test.reach
        choice = choose(test, sums, masks)
        assert choice.fits(blocks, len(masks))
        used = masks[choice.masks[:, None], np.nonzero(choice.used)[1].reshape(blocks, ROWS)]
        assert (np.abs(sums + used) <= test.most).all()
    with pytest.raises(MaskShortage):
        choose(test, sums, masks[: blocks - 1])
    with pytest.raises(MaskShortage):
        choose(test, np.full_like(sums, test.beta + 1), masks)


def test_a_mask_fails_as_often_as_it_should():
    test = Projections(64, 2, 1000)
    masks = draw_masks(test, 4000, coins())
    off = (np.abs(masks[:, :, :]) > test.most).any(axis=2).sum(axis=1) > SPARE
    assert abs(off.mean() - failing(2)) < 6 * math.sqrt(failing(2) / 4000)


@pytest.mark.parametrize("change", ["twice", "absent", "fewer", "shape"])
def test_choices_of_another_form_do_not_fit(change):
    test = Projections(8, 1, 5)
    masks = draw_masks(test, 5, coins())
    choice = choose(test, np.zeros((2, ROWS, 1), np.int64), masks)
    assert choice.fits(2, 5)
    numbers, used = choice.masks.copy(), choice.used.copy()
    match change:
        case "twice":
            numbers[1] = numbers[0]
        case "absent":
            numbers[1] = 5
        case "fewer":
            used[0, np.flatnonzero(used[0])[0]] = False
        case "shape":
            used = used[:, : WORDS - 1]
    assert not projections.Choice(numbers, used).fits(2, 5)


# --- together -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", BASES[::2])
def test_honest_words_pass_and_lies_are_located(basis):
    code = LagrangeCode(basis, 9, 2, 2)
    test = Projections(16, 2, 40)
    values = np.random.default_rng(0).integers(-40, 41, (10, 7))
    signs, secret = draw_signs(16, coins(1)), draw_masks(test, spare_masks(3, 2), coins(2))
    shares = code.share(basis.reduce(values), coins(3))
    masks = deal_masks(code, secret, coins(4))
    choice = choose(test, project_integers(values, 2, signs), secret)
    told = {
        j: choice.hide(basis, project(basis, shares[j], signs), masks[j]).reshape(basis.lanes, -1)
        for j in range(9)
    }
    assert judge(code, test, told, 2).good
    assert passes(code, test, told, coins(6))
    # Each told word of each receiver is looked at, in each lane.
    for j, lane, place in itertools.product(range(9), range(basis.lanes), (0, told[0].shape[1] - 1)):
        one = {**told, j: told[j].copy()}
        one[j][lane, place] = (int(one[j][lane, place]) + 1) % basis.primes[lane]
        assert not passes(code, test, one, coins(7 + j))
    lying = {j: words.copy() for j, words in told.items()}
    lying[3][0, 5] = (int(lying[3][0, 5]) + 1) % basis.primes[0]
    assert judge(code, test, lying, 2).receivers == (3,)
    for j in (1, 4, 8):
        lying[j][0, 5] = (int(lying[j][0, 5]) + 1 + j**4) % basis.primes[0]
    assert not judge(code, test, lying, 2).on_code
    huge = values.copy()
    huge[4, 1] = 40 * stretch(16, 2) + 1
    shares = code.share(basis.reduce(huge), coins(5))
    told = {
        j: choice.hide(basis, project(basis, shares[j], signs), masks[j]).reshape(basis.lanes, -1)
        for j in range(9)
    }
    finding = judge(code, test, told, 2)
    assert finding.on_code
    assert not finding.small
    assert not passes(code, test, told, coins(8))


@pytest.mark.parametrize("basis", [LANES, Basis(LANE_PRIMES[:2]), Basis((MERSENNE_61,))])
def test_small_is_decided_at_its_edge_in_all_lanes(basis):
    test = Projections(64, 1, 10)
    edge = test.allowed
    values = np.array([0, edge, -edge, edge + 1, -edge - 1, basis.modulus // 2], object)
    assert small(test, basis, basis.reduce(values)).tolist() == [True] * 3 + [False] * 3
    if basis.lanes > 1:
        residues = basis.reduce(np.array([5]))
        residues[-1, 0] += 1  # small in all lanes but the last
        assert not small(test, basis, residues).any()
