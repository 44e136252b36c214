"""Digests that add up: of bits, of residues, and that every change shows."""

import itertools

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from field import Basis
from field.code.consistency import SIZE, LinearDigest
from field.code.lagrange_code import LagrangeCode
from field.code.masking import deal_uniform, uniform_receivers
from field.code.reply_check import open_words
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from field.secrets.coins import Coins, SeededCoins
from tests.nightly import short

BASIS = Basis(LANE_PRIMES[:3])
RNG = np.random.default_rng(0)


def combine_words(digests):
    """The exclusive or of digests."""
    return np.bitwise_xor.reduce([np.frombuffer(digest, np.uint8) for digest in digests]).tobytes()


def bits(*shapes):
    return [RNG.integers(0, 1 << 64, shape, dtype=np.uint64) for shape in shapes]


@pytest.mark.parametrize("shapes", [[(1,)], [(3,), (2, 5)], [(1 << 18,)], [(131073,), (7,)], []])
def test_digests_of_shares_add_up_to_that_of_the_whole(shapes):
    digest = LinearDigest(bytes(range(32)))
    shares = [bits(*shapes) for _ in range(4)]
    whole = [np.bitwise_xor.reduce(words) for words in zip(*shares, strict=True)]
    told = [digest.words(words) for words in shares]
    assert all(len(tag) == SIZE for tag in told)
    assert combine_words(told) == digest.words(whole)
    assert digest.words([np.zeros(9, np.uint64)]) == bytes(SIZE)


@pytest.mark.parametrize("count", [1, 5, 64, 4095, 131073])
def test_it_is_gmac_less_gmac_of_zeros(count):
    """Against the library's whole-message interface, under the same key."""
    digest = LinearDigest(bytes(32))
    words = bits((count,))
    gcm = AESGCM(digest._key(b"words"))
    text, plain = (gcm.encrypt(bytes(12), b"", data) for data in (words[0].tobytes(), bytes(8 * count)))
    assert digest.words(words) == combine_words([text, plain])


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 127, 128, 130, 4097])
def test_residues_have_a_factor_of_their_row_times_one_of_their_column(count):
    digest, coins = LinearDigest(bytes(32)), SeededCoins(count, "values")
    values = BASIS.sample((count,), coins)
    drawn = Coins(digest._key(b"residues"))
    rows = min(64, max(1, count))
    width = -(-count // rows)
    down, across = BASIS.sample((2, rows), drawn), BASIS.sample((2, width), drawn)
    factors = (
        np.repeat(down, width, axis=2)[:, :, :count].astype(object) * np.tile(across, rows)[:, :, :count]
    )
    expected = (factors * values[:, None]).sum(axis=2) % BASIS.column(2).astype(object)
    assert digest.residues(BASIS, [values]).tolist() == expected.tolist()


def test_every_flipped_bit_shows():
    words = bits((6,), (300,))
    for seed in range(short(20, nightly=300)):
        digest = LinearDigest(seed.to_bytes(32, "little"))
        right = digest.words(words)
        for array, at in ((0, seed % 6), (1, 13 * seed % 300)):
            other = [w.copy() for w in words]
            other[array][at] ^= np.uint64(1) << np.uint64(seed % 64)
            assert digest.words(other) != right
        assert digest.words([words[0], words[1][::-1]]) != right


def test_digests_of_residues_add_up_and_every_change_shows():
    for seed in range(short(20, nightly=300)):
        digest = LinearDigest(seed.to_bytes(32, "little"))
        coins = SeededCoins(seed, "shares")
        shares = [[BASIS.sample((4,), coins), BASIS.prefix(2).sample((3, 5), coins)] for _ in range(3)]
        total = np.zeros((3, 2), np.uint32)
        whole = [np.zeros_like(x) for x in shares[0]]
        for share in shares:
            total = BASIS.add(total, digest.residues(BASIS, share))
            whole = [BASIS.prefix(len(x)).add(x, y) for x, y in zip(whole, share, strict=True)]
        assert (total == digest.residues(BASIS, whole)).all()
        whole[1][1, 2, seed % 5] ^= 1
        changed = digest.residues(BASIS, whole)
        assert (changed[1] != total[1]).all()
        assert (changed[[0, 2]] == total[[0, 2]]).all()


def test_a_part_that_is_not_known_is_known_by_its_sum_alone():
    """Modulo 5: the law of two shares' digests is that of their sum, whatever the secret is."""
    basis, digest = Basis((5,)), LinearDigest(bytes(32))
    values = [np.array([list(x)], np.uint32) for x in itertools.product(range(5), repeat=2)]
    of = {x.tobytes(): digest.residues(basis, [x])[0].tolist() for x in values}
    for secret in values[:: short(6, nightly=1)]:
        views = [(of[x.tobytes()], of[((secret + 5 - x) % 5).astype(np.uint32).tobytes()]) for x in values]
        for one, other in views:
            assert [(a + b) % 5 for a, b in zip(one, other, strict=True)] == of[secret.tobytes()]
        assert len({tuple(one) for one, _ in views}) == len({tuple(x) for x in of.values()})


def test_what_is_no_word_and_no_seed_is_refused():
    with pytest.raises(ValueError, match="32 bytes, not of 16"):
        LinearDigest(bytes(16))
    with pytest.raises(TypeError, match="uint32"):
        LinearDigest(bytes(32)).words([np.zeros(1, np.uint32)])


@pytest.mark.parametrize("code", [LagrangeCode(BASIS, 7, 1, 2), LagrangeCode(BASIS, 9, 2, 2)], ids=repr)
@pytest.mark.parametrize("lanes", [1, 3])
def test_uniform_values_are_dealt_from_seeds(code, lanes):
    basis, receivers = BASIS.prefix(lanes), tuple(range(code.n))[: code.threshold(2)]
    receivers = (*receivers[:-1], code.n - 1)
    for holder in receivers:
        known = uniform_receivers(code, holder, receivers)
        assert len({holder, *known}) == code.ell + code.t
        # No pair of holders seeds one another.
        assert not any(holder in uniform_receivers(code, j, receivers) for j in known)
        streams = {j: SeededCoins(holder, f"to {j}") for j in (holder, *known)}
        shares = deal_uniform(code, basis, 6, holder, receivers, streams)
        assert sorted(shares) == sorted(set(receivers) - set(known))
        whole = shares | {j: basis.sample((6,), SeededCoins(holder, f"to {j}")) for j in known}
        assert open_words(code, basis, whole).shape == (lanes, code.ell, 6)
    # Whoever deals and receives nothing.
    known = uniform_receivers(code, code.n - 2, receivers)
    streams = {j: SeededCoins(0, f"to {j}") for j in known}
    shares = deal_uniform(code, basis, 6, code.n - 2, receivers, streams)
    whole = shares | {j: basis.sample((6,), SeededCoins(0, f"to {j}")) for j in known}
    assert sorted(whole) == sorted(receivers)
    assert open_words(code, basis, whole).shape == (lanes, code.ell, 6)


def test_large_residues_have_digests():
    basis = Basis((MERSENNE_61,))
    values = basis.sample((1000,), SeededCoins(0, "large"))
    found = LinearDigest(bytes(32)).residues(basis, [values])
    assert (found < MERSENNE_61).all()
    assert found.any()
