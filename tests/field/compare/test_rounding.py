"""Rounding centers: the quotient of integers at every mask and edge, and uniform to a committee."""

from fractions import Fraction
from math import floor

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from field.compare.correlated_randomness import DealerRandomness
from field.compare.dealer_protocol import PartyTables, combine_openings
from field.compare.rounding import CenterRounding
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.quantize import largest_rounded_center, round_centers, rounded_weights, rounding_modulus
from field.secrets.coins import SeededCoins
from tests.field.compare.test_dealt import uniform_bits, uniform_residues


def divide(rounding, sums, mask, members=2, corrected=0, streams=None):
    """(rounded centers as integers, all that was opened, the corrected member's words) of sums (K, width)."""
    basis = rounding.basis
    streams = streams or (lambda j: SeededCoins(5, f"member {j}"))
    deck = DealerRandomness([streams(j) for j in range(members)], corrected)
    deck.begin(rounding.dealt)
    rounding.deal(mask, deck)
    masked = basis.add(basis.reduce(np.array(sums, object)), mask)
    games = [
        rounding.compete(
            masked,
            PartyTables(streams(j), deck.corrections if j == corrected else None).take(),
            lead=j == members - 1,
        )
        for j in range(members)
    ]
    views, told = [masked], None
    while True:
        moves, shares = [], []
        for game in games:
            try:
                moves.append(game.send(told))
            except StopIteration as done:
                shares.append(done.value)
        if shares:
            break
        views.append(told := combine_openings(basis, moves))
    assert len(views) == 1 + rounding.openings
    return basis.lift_signed(combine_openings(basis, shares)), views, deck.corrections


@st.composite
def cases(draw):
    basis = Basis(LANE_PRIMES[: draw(st.integers(1, 4))])
    multiple, fraction = draw(st.sampled_from([1, 6])), draw(st.sampled_from([0, 4, 8]))
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=4))
    # As much as the modulus holds, or little.
    most = (basis.modulus - 1 - max(sizes) * multiple) // (max(sizes) * multiple << (fraction + 2))
    largest = multiple * draw(st.sampled_from([1, 2, 3, 50, most]).filter(lambda x: 0 < x <= most))
    edges = st.sampled_from([-1, 0, 1])
    sums = []
    for size in sizes:
        whole = size * largest // multiple
        sums.append(
            [
                multiple * draw(st.one_of(st.integers(-whole, whole), edges.map(lambda e: e * whole)))  # noqa: B023
                for _ in range(5)
            ]
        )
    mask = draw(st.sampled_from([None, 0, 1, basis.modulus - 1, basis.modulus // 2]))
    return (
        CenterRounding(basis, tuple(sizes), 5, largest, fraction, multiple),
        sums,
        mask,
        draw(st.integers(2, 3)),
    )


@settings(deadline=None, max_examples=80)
@given(cases())
@example((CenterRounding(Basis(LANE_PRIMES[:2]), (1, 2, 32), 2, 7), [[7, -7], [1, -1], [1, -1]], None, 2))
def test_a_center_is_the_nearest_integer_ties_up(case):
    rounding, sums, fixed, members = case
    basis, points = rounding.basis, 1 << rounding.fraction
    mask = basis.sample(rounding.shape, SeededCoins(1, "mask"))
    if fixed is not None:
        mask = basis.reduce(np.full(rounding.shape, fixed, object))
    got, _, _ = divide(rounding, sums, mask, members)
    expected = [
        [floor(Fraction(points * s, size * rounding.multiple) + Fraction(1, 2)) for s in row]
        for row, size in zip(sums, rounding.sizes, strict=True)
    ]
    assert got.tolist() == expected
    sizes = rounding.multiple * np.array(rounding.sizes)
    if all(abs(x) < 1 << 63 for row in expected for x in row):  # as all centers of quantized points
        assert round_centers(np.array(sums, object), sizes, rounding.fraction).tolist() == expected
    assert np.abs(got.astype(object)).max() <= largest_rounded_center(
        rounding.largest, rounding.fraction, rounding.multiple
    )


def test_ties_and_empty_clusters_by_hand():
    # 16 / 32 of a step up from both sides; nothing of an empty cluster.
    sums, sizes = np.array([[1, -1, 3, -3], [5, 5, 5, 5]]), np.array([32, 0])
    assert round_centers(sums, sizes, 4).tolist() == [[1, 0, 2, -1], [0, 0, 0, 0]]
    assert rounded_weights(sizes, 4).tolist() == [16, 0]


def test_the_modulus_holds_what_is_divided_and_no_more():
    basis = Basis(LANE_PRIMES[:1])
    size = next(s for s in range(1, 2**12) if rounding_modulus(s, 2**14, 4) >= basis.modulus)
    held = CenterRounding(basis, (size - 1,), 2, 2**14)
    extreme = (size - 1) * 2**14
    for mask in (0, basis.modulus - 1):
        got, _, _ = divide(held, [[extreme, -extreme]], basis.reduce(np.full((1, 2), mask, object)))
        assert got.tolist() == [[2**18, -(2**18)]]
    with pytest.raises(ValueError, match="lower the scale, or add a lane"):
        CenterRounding(basis, (size,), 2, 2**14)


def test_what_a_committee_opens_is_uniform():
    basis = Basis(LANE_PRIMES[:2])
    rounding = CenterRounding(basis, (4,) * 64, 64, 1000)
    sums = np.full((64, 64), 17, object)

    def all_uniform(mask, streams=None):
        got, (masked, *bits), words = divide(rounding, sums, mask, streams=streams)
        assert (got == 68).all()
        dealt = words[rounding.schedule.dealt :].view(np.uint32)[: basis.lanes * 6 * rounding.count]
        residues = (
            *zip(masked, basis.primes, strict=True),
            *zip(dealt.reshape(2, -1), basis.primes, strict=True),
        )
        return all(uniform_residues(x, p, 1e-6) for x, p in residues) and uniform_bits(bits, 1e-6)

    assert all_uniform(basis.sample(rounding.shape, SeededCoins(2, "mask")))
    # The controls: a mask that is no mask; members whose streams are all alike.
    assert not all_uniform(np.zeros((2, 64, 64), np.uint32))
    assert not all_uniform(
        basis.sample(rounding.shape, SeededCoins(2, "mask")), lambda j: SeededCoins(1, "the same for all")
    )
