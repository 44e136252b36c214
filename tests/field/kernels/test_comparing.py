"""The kernels of dealt comparisons against their twins."""

import numpy as np
import pytest

from field.compare.bitslice import pack_bits, unpack_bits
from field.compare.correlated_randomness import PartyRandomness, _Words, multiply_bits, subset_products
from field.compare.dealer_protocol import ONES, TREES, tree_levels
from field.kernels import comparing
from field.ring.basis import LANE_PRIMES
from field.secrets.coins import SeededCoins
from tests.oracles import field as reference
from tests.oracles.bits import from_blocks, to_blocks

ZERO = np.uint64(0)


def shared(planes, rng):
    """Two shares of blocks of planes."""
    one = rng.integers(0, 2**64, planes.shape, np.uint64)
    return one, one ^ planes


def bits_of(sliced, words, count):
    return unpack_bits(from_blocks(sliced, words), count)


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
def test_differences_equal_python_integers(lanes):
    rng = np.random.default_rng(lanes)
    primes = LANE_PRIMES[:lanes]
    per, pairs = 3, np.array([[1, 0], [2, 0], [2, 1]])
    masked = np.stack([rng.integers(0, p, (3, 64 * per)).astype(np.uint32) for p in primes])
    masked[:, :, :2] = np.array([p - 1 for p in primes], np.uint32)[:, None, None]
    weights = np.stack([rng.integers(0, p, (3, 2)) for p in primes], axis=-1).astype(np.uint64)
    weights[0] = np.array(primes, np.uint64) - np.uint64(1)
    out = np.full((2, 30 * lanes + 2, 5), 7, np.uint64)
    comparing.slice_differences(masked, pairs, weights, per, 0, *comparing.garner(primes), out)
    planes = from_blocks(out, 10)
    got = sum(row.astype(object) << b for b, row in enumerate(unpack_bits(planes[:, :9], 9 * 64)))
    terms = weights.astype(object).transpose(2, 0, 1)
    want = np.stack([
        [(w[q, 0] * row[b] + w[q, 1] * row[a]) % p for q, (b, a) in enumerate(pairs)]
        for w, row, p in zip(terms, masked.astype(object), primes, strict=True)
    ])  # fmt: skip
    assert (got == reference.lift(want, primes).reshape(-1)).all()
    assert not planes[:, 9].any(), "words beyond the last comparison are zero"


@pytest.mark.parametrize("lanes", [1, 2, 3, 4])
def test_leaves_and_tree_equal_their_twins(lanes):
    rng = np.random.default_rng(10 + lanes)
    words = 40  # more than one block, the second one padded
    count = 64 * words
    tree = tree_levels(lanes)
    digits = tree[0].inputs
    y, r = ([int(x) ** 3 % 8**digits for x in rng.integers(0, 2**40, count)] for _ in range(2))
    for i in range(0, count, 3):  # near each other, so that equal digits are frequent
        r[i] = min(max(y[i] + int(rng.integers(-1, 2)) * 8 ** int(rng.integers(0, digits)), 0), 8**digits - 1)
    r[:4], y[:4] = (0, 8**digits - 1, 0, 5), (0, 8**digits - 1, 8**digits - 1, 5)
    planes = {
        name: to_blocks(
            pack_bits(np.array([[v >> b & 1 for v in values] for b in range(3 * digits)], np.uint8))
        )
        for name, values in (("y", y), ("r", r))
    }
    number, _, width = planes["r"].shape

    table = np.zeros((number, 7 * digits, width), np.uint64)
    comparing.thermometers(planes["r"], table)
    for d in range(digits):
        place = 3 * (digits - 1 - d)
        want = [[int((v >> place & 7) > step) for v in r] for step in range(7)]
        np.testing.assert_array_equal(bits_of(table[:, 7 * d : 7 * d + 7], words, count), want)

    def masks_for(rows):
        return shared(rng.integers(0, 2**64, (number, rows, width), np.uint64), rng)

    masks = masks_for(tree[0].opened)
    outs, parities = [], []
    for share, mask, lead in zip(shared(table, rng), masks, (ONES, ZERO), strict=True):
        out, parity = np.empty_like(mask), np.empty((number, width), np.uint64)
        comparing.leaves(planes["y"], share, mask, lead, out, parity)
        outs.append(out)
        parities.append(parity[:, None])
    opened, mask = outs[0] ^ outs[1], masks[0] ^ masks[1]
    twins = [reference.digit_bits(a, b, digits) for a, b in zip(y, r, strict=True)]
    want = np.array([[*eq[:-1], *gt] for eq, gt in twins]).T
    np.testing.assert_array_equal(bits_of(opened ^ mask, words, count), want)
    parity = bits_of(parities[0] ^ parities[1], words, count)[0]
    np.testing.assert_array_equal(parity, [(a ^ b) & 1 for a, b in zip(y, r, strict=True)])

    for level, arities in zip(tree, TREES[lanes], strict=True):
        rows = np.zeros((number, level.rows, width), np.uint64)
        comparing.mask_products(mask, level.nodes, rows)
        after = masks_for(2 * len(arities) - 1)
        outs = []
        for share, own, fresh, lead in zip(shared(rows, rng), masks, after, (ONES, ZERO), strict=True):
            out = np.empty_like(fresh)
            comparing.evaluate(share, own, opened, level.nodes, lead, fresh, out)
            outs.append(out)
        masks, opened, mask = after, outs[0] ^ outs[1], after[0] ^ after[1]
        twins = [reference.join_nodes(eq, gt, arities) for eq, gt in twins]
        want = np.array([[*eq[:-1], *gt] for eq, gt in twins]).T
        np.testing.assert_array_equal(bits_of(opened ^ mask, words, count), want)
    np.testing.assert_array_equal(want[0], [b > a for a, b in zip(y, r, strict=True)])


@pytest.mark.parametrize("per", [1, comparing.BLOCK, comparing.BLOCK + 3])
def test_factors_that_two_members_share_are_multiplied(per):
    rng, groups = np.random.default_rng(per), (3, 1, 2)
    factors, masks = (rng.integers(0, 2**64, (5, sum(groups), per), np.uint64) for _ in range(2))
    own, tables, begin = shared(masks, rng), [], 0
    for size in groups:
        table = np.zeros((2**size - 1 - size, 5, per), np.uint64)
        subset_products(masks[:, begin : begin + size], table)
        tables.append(shared(table, rng))
        begin += size

    def product(member, lead):
        dealt = np.concatenate([pair[member].reshape(-1) for pair in tables])
        return multiply_bits(
            factors ^ masks, own[member], groups, PartyRandomness(_Words(dealt), SeededCoins(0, "")), lead
        )

    found = product(0, ONES) ^ product(1, ZERO)
    cut = np.split(factors, np.cumsum(groups)[:-1], axis=1)
    expected = [np.bitwise_and.reduce(part, axis=1) for part in cut]
    assert (found == np.stack(expected, axis=1)).all()


def test_slicing_refuses_a_basis_without_kernels():
    with pytest.raises(ValueError, match="30-bit lanes"):
        comparing.garner((2**31 - 1,))


@pytest.mark.parametrize("lead", [False, True])
def test_selection_and_crossing_equal_their_definitions(lead):
    rng = np.random.default_rng(5)
    primes, m = LANE_PRIMES[:3], 600  # more than one piece of points, the last one short
    members = np.array([[0, 1, 2, 3], [4, 5, 6, -1]])
    groups, size = members.shape
    pairs = np.array([[1, 0], [0, 1]])

    def residues(*shape):
        out = np.stack([rng.integers(0, p, (*shape, m)) for p in primes]).astype(np.uint32)
        out[..., :9] = np.array(primes, np.uint32).reshape(-1, *[1] * len(shape), 1) - np.uint32(1)
        return out

    def member_rows(values):  # those of no member are zero
        return np.concatenate([values, np.zeros_like(values[:, :1])], axis=1)[:, members].astype(object)

    p = np.array(primes, object).reshape(-1, 1, 1)
    small, points, each = np.array(primes, np.uint64), np.arange(m), np.arange(groups)[:, None]
    rho, ones, tables = residues(7), residues(groups, size - 1), residues(groups, size)
    secret = rng.integers(0, size, (groups, m)).astype(np.uint8)
    new_ones = ones.copy()
    comparing.indicate(secret, small, new_ones)
    wanted = secret[:, None] == np.arange(1, size)[:, None]
    np.testing.assert_array_equal(new_ones, (wanted - ones.astype(object)) % p[..., None])

    masked, fresh, index = residues(7), residues(2, groups), secret
    squares = np.stack([rng.integers(0, q, 7) for q in primes]).astype(np.uint32)[:, :, None]
    at = np.arange(size)[:, None] ^ secret[:, None]
    turned = member_rows(rho)[:, each[:, :, None], at, points]
    for free in (0, 1, size):
        # All entries are dealt, or all but the first, which the fresh mask is told from; or values are bare.
        for q, values in enumerate((masked, squares)):
            before, part = fresh.astype(object), np.ascontiguousarray(tables[:, :, free:])
            if free < size:
                new, after = part.copy(), fresh.copy()
                comparing.conceal(rho, members, secret, small, new, after, q)
                before[:, q] += (free == 1) * turned[:, :, 0]
                np.testing.assert_array_equal(after, before % p[..., None])
                want = before[:, q][:, :, None] - turned[:, :, free:] - part.astype(object)
                np.testing.assert_array_equal(new, want % p[..., None])
            out = fresh.copy()
            comparing.select(values, members, index, ones, part, fresh, q, lead, small, out)
            np.testing.assert_array_equal(out[:, 1 - q], fresh[:, 1 - q])
            wide = member_rows(np.broadcast_to(values, masked.shape))
            near = wide[:, each, index, points]
            want = lead * near
            for u in range(1, size):
                want += ones[:, :, u - 1].astype(object) * (wide[:, each, index ^ u, points] - near)
            entries = np.concatenate([np.repeat(fresh[:, q, :, None], free, axis=2), part], axis=2)
            want += entries[:, each, index, points].astype(object)
            np.testing.assert_array_equal(out[:, q], want % p)

    selected, noise = residues(2, groups), residues(len(pairs))
    M, S = selected.astype(object).transpose(1, 0, 2, 3)
    r, sigma = fresh.astype(object).transpose(1, 0, 2, 3)
    for kernel, arguments in (
        (comparing.cross, (selected, fresh, pairs, lead, small)),
        (comparing.crossed, (fresh, pairs, small)),
    ):
        got = noise.copy()
        kernel(*arguments, got)
        for q, (b, a) in enumerate(pairs):
            if kernel is comparing.crossed:
                want = sigma[:, b] * r[:, a] - sigma[:, a] * r[:, b]
            else:
                want = S[:, a] * (lead * M[:, b] - r[:, b]) - S[:, b] * (lead * M[:, a] - r[:, a])
                want += M[:, a] * sigma[:, b] - M[:, b] * sigma[:, a]
            np.testing.assert_array_equal(got[:, q], (2 * want + noise[:, q]) % p[..., 0])
