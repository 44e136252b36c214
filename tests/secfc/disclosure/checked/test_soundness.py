"""Constants of soundness: the number, the formula, the bound; and one less does not keep the bound."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from scipy.stats import norm, poisson

from field.code import consistency, lane_check, product_check, range_check, reply_check
from field.compare import assignment_step, witnessed
from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
from psu.kernels import CHECK_BITS, CROWD, MAX_CROWD
from secfc.disclosure.checked import parts, products
from secfc.kmeans import bisecting
from secfc.scaling import noisy
from tests.test_house import SOURCES

ROOT = Path(__file__).parents[4]
P = min(LANE_PRIMES)
LANES, WHOLE = Basis(LANE_PRIMES[:3]), Basis((MERSENNE_61,))
BLOCKS, TRIES = 64, range_check.favored_tries(16, 5, 5)
ODDS = range_check.rejection_odds(BLOCKS, TRIES)


@dataclass(frozen=True)
class Soundness:
    """A lie passes with probability 2**missed(number), which is below 2**bound; `page` says so in `words`.

    least: step by which the number could be less.
    """

    number: int
    missed: Callable[[int], float]
    bound: float
    page: str
    words: str
    step: int = 1


def parity(basis, corrected):
    p = min(basis.primes)
    return lambda count: math.log2(p**-count + corrected * p ** -(count + 1))


def words_skipped(spare):
    """That a mask does not serve, with as many rows as that many skips take."""
    rows = 4
    while range_check.RejectionOdds(rows, spare, ODDS.reach).miss_bits(BLOCKS, TRIES) < range_check.BITS:
        rows += 4
    return math.log2(range_check.RejectionOdds(rows, spare, ODDS.reach).failing)


def masks_short(number):
    """That fewer than BLOCKS of so many masks serve, by Chernoff's bound in relative entropy."""
    a, q = (BLOCKS - 1) / number, 1 - ODDS.failing
    if a >= q:
        return 0.0
    return -number * (a * math.log2(a / q) + (1 - a) * math.log2((1 - a) / (1 - q)))


def repeated(m):
    return lambda count: float(math.log2(product_check.miss_bound(P, m, count)))


TABLE = {
    "replies, checked under coins of their own": Soundness(
        reply_check.REPETITIONS, lambda r: r * math.log2(2 / P), -57, "field/code/reply_check.py", "2**-57"
    ),
    "products of labels and rows": Soundness(
        product_check.least_repetitions(P, 16384), repeated(16384), -60,
        "field/code/product_check.py", "Fraction(1, 2**60)",
    ),
    "products beside squares of 784 features": Soundness(
        product_check.least_repetitions(P, 16384, 784),
        lambda r: float(math.log2(product_check.miss_bound(P, 16384, r, 784))), -60,
        "field/code/product_check.py", "Fraction(1, 2**60)",
    ),
    "products of a million": Soundness(
        product_check.least_repetitions(P, 1 << 20), repeated(1 << 20), -60,
        "field/code/product_check.py", "Fraction(1, 2**60)",
    ),
    "numbers of a change of labels": Soundness(
        assignment_step.TESTS, lambda r: 1 - r * math.log2(P), -88,
        "field/compare/assignment_step.py", "2 p**-3 < 2**-88",
    ),
    "sums that a holder of a row knows": Soundness(
        products.PROOFS, lambda r: -r * math.log2(P), -59, "secfc/disclosure/checked/products.py", "30 bits"
    ),
    "sums that are alike modulo all primes": Soundness(
        lane_check.REPETITIONS, lambda r: -r * math.log2(len(lane_check.COEFFICIENTS)), -39.9,
        "field/code/lane_check.py", "4**-REPETITIONS = 2**-40",
    ),
    "deviations within which such sums lie": Soundness(
        lane_check.REACH, lambda reach: 1 - reach**2 / 2 / math.log(2), -120,
        "field/code/lane_check.py", "2 exp(-REACH**2 / 2) < 2**-120",
    ),
    "digests of residues": Soundness(
        consistency.SUMS, lambda r: r * math.log2(2 / P), -57, "field/code/consistency.py", "(2 / p)**2"
    ),
    "replies of deviating clients, 30-bit primes": Soundness(
        consistency.checks_needed(LANES, 3), parity(LANES, 3), -consistency.BITS,
        "field/code/consistency.py", "2 for 30-bit lanes",
    ),
    "replies of deviating clients, one prime of 61 bits": Soundness(
        consistency.checks_needed(WHOLE, 3), parity(WHOLE, 3), -consistency.BITS,
        "field/code/consistency.py", "1 for 2**61 - 1",
    ),
    "words of a test of rows": Soundness(
        consistency.checks_needed(LANES, 3, range_check.CHECKED), parity(LANES, 3), -40,
        "field/code/range_check.py", "2**-CHECKED",
    ),
    "sums of a block of rows": Soundness(
        ODDS.rows,
        lambda rows: -range_check.RejectionOdds(rows, ODDS.spare, ODDS.reach).miss_bits(BLOCKS, TRIES), -40,
        "field/code/range_check.py", "A false block passes with probability below 2**-BITS", 4,
    ),
    "words of a mask that may be skipped": Soundness(
        ODDS.spare, words_skipped, math.log2(range_check.FAILING), "field/code/range_check.py", "FAILING"
    ),
    "masks of a message": Soundness(
        range_check.spare_masks(BLOCKS, ODDS.failing), masks_short, -50,
        "field/code/range_check.py", "2**-RUN_OUT",
    ),
    "pseudonyms of IDs": Soundness(
        61 + 61 - int(CHECK_BITS), lambda bits: -bits, -81.9, "psu/identify.py", "probability 2**-82"
    ),
    "disjoint IDs": Soundness(
        MERSENNE_61.bit_length(), lambda bits: 1 - math.log2(2**bits - 1), -59,
        "psu/disjoint.py", "2/q < 2**-59",
    ),
    "whether holders of a row agree": Soundness(
        MERSENNE_61.bit_length(), lambda bits: 1 - math.log2(2**bits - 1), -59, "psu/merge.py", "about 2/q of"
    ),
    "levels in a row that split nothing": Soundness(
        bisecting.PATIENCE, lambda levels: 1 - levels, -8.9, "secfc/kmeans/bisecting.py", "at most 2**-9"
    ),
    "deviations that noise reaches": Soundness(
        noisy.REACH, lambda reach: float(norm.logsf(reach) + math.log(2)) / math.log(2), -1000,
        "secfc/scaling/noisy.py", "probability above 2**-1000", 3,
    ),
    "tags in a bucket of a sort": Soundness(
        MAX_CROWD, lambda most: float(poisson.logsf(most, CROWD)) / math.log(2), math.log2(1e-30),
        "psu/kernels.py", "1e-30", 32,
    ),
    "bytes of a tag of bits": Soundness(
        witnessed.TAG_SIZE, lambda size: -8 * size, -127, "field/compare/witnessed.py", "TAG_SIZE = 16"
    ),
    "bytes of what coins give": Soundness(
        parts.SEED, lambda size: -8 * size, -127, "secfc/disclosure/checked/parts.py", "SEED = 16"
    ),
}  # fmt: skip
FIXED = {
    reply_check.REPETITIONS: 2, assignment_step.TESTS: 3, consistency.BITS: 59,
    range_check.BITS: 40, range_check.RUN_OUT: 50, ODDS.rows: 88,
}  # fmt: skip


@pytest.mark.parametrize("name", TABLE)
def test_a_number_keeps_its_bound_and_one_less_does_not(name):
    row = TABLE[name]
    assert row.missed(row.number) < row.bound
    assert row.missed(row.number + row.step) < row.missed(row.number)
    less = row.number - row.step
    assert not less or row.missed(less) >= row.bound
    assert row.words in (ROOT / row.page).read_text()


def test_the_bounds_are_those_of_the_claims():
    assert all(number == claimed for number, claimed in FIXED.items())
    assert product_check.MISSED == 2**-60
    assert range_check.CHECKED == 40
    assert float(consistency.miss_bound(LANES, 3)) <= 2**-60 * (1 + 2**-21)


# Constants whose comment tells of a probability, all of which stand above; those of no lie with the reason.
HELD = {
    "field/code/consistency.py": {"BITS"},
    "field/code/product_check.py": {"MISSED"},
    "field/code/range_check.py": {"BITS", "FAILING", "RUN_OUT", "CHECKED"},
    "field/code/reply_check.py": {"REPETITIONS"},
    "psu/kernels.py": {"CROWD"},
    "secfc/kmeans/bisecting.py": {"PATIENCE"},
    "secfc/scaling/noisy.py": {"REACH"},
    "field/ring/noise.py": {"DISTANCE"},  # which tests/secfc/privacy/test_accounting.py pays for
    "secfc/scaling/roles.py": {"WIDE"},  # a bound on a sum, which makes its modulus a prime of 61 bits
    "secfc/privacy/calibration.py": {"MOST_DELTA"},  # what a user may ask for
}  # fmt: skip


def constants_of_chance(source):
    """Names at the top of a file whose comment, above or behind, tells of a probability."""
    said = []
    for line in source.splitlines():
        found = re.match(r"([A-Z][A-Z0-9_]*)([:,] [^=]+)? = ", line)
        if found and "probability" in " ".join([*said, line.partition("#")[2]]):
            yield found[1]
        said = [*said, line] if line.startswith("#") else []


def test_every_constant_of_a_probability_is_in_the_table():
    found = {path: {*constants_of_chance(source)} for path, source in SOURCES.items()}
    assert {path: names for path, names in found.items() if names} == HELD
    added = "# A lie passes with probability below\n# 2**-LEVEL.\nLEVEL = 9\nMORE = 2\n"
    assert [*constants_of_chance(added)] == ["LEVEL"]
