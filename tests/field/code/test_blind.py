"""Blinded replies are uniform given their weighted sum: exhaustively, by rank, and by statistics."""

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from field import Basis, LagrangeCode, SeededCoins
from field.code.lagrange_code import transfer_matrix
from field.code.masking import (
    MaskReused,
    PairKeys,
    blinding_share,
    deal_blinding,
    deal_from_seeds,
    mask_context,
    mask_for,
    masking_partners,
    seeded_clients,
)
from field.ring.basis import LANE_PRIMES
from tests.field.code.test_code import ScriptedCoins
from tests.oracles.field import galois_field
from tests.strategies import bases

# (n, ell, t) with R = 3 responders over GF(7): every coin can be enumerated.
TINY = [(3, 1, 1), (4, 1, 1), (3, 2, 0)]


def pair_keys(code, seed=0):
    """Keys of all clients: key i-j is known to both."""
    coins = SeededCoins(seed, "keys")
    keys = {frozenset(pair): coins.bytes(16) for pair in itertools.combinations(range(code.n), 2)}
    return [PairKeys({i: keys[frozenset((i, j))] for i in range(code.n) if i != j}) for j in range(code.n)]


def all_masks(code, responders, pairs, nonce, lanes, shape):
    context = mask_context(code, responders, lanes, shape)
    return {
        j: mask_for(code, responders, j, pairs[j].streams(nonce, context), lanes, shape) for j in responders
    }


def cases(fewest=0):
    """A code over any basis, with clients to spare."""
    parameters = st.tuples(bases, st.integers(1, 3), st.integers(0, 4), st.integers(fewest, 4))
    return parameters.map(lambda a: LagrangeCode(a[0], 2 * (a[1] + a[2] - 1) + 1 + a[3], a[1], a[2]))


# --- zero-sum masks ----------------------------------------------------------------------------------


@given(cases(), st.sampled_from([(1,), (3, 7), (2, 0), (1, 16_390)]), st.integers(0, 2**32), st.data())
def test_masked_replies_decode_as_if_they_were_not_masked(code, shape, seed, data):
    order = data.draw(st.permutations(range(code.n)))
    responders = tuple(sorted(order[: code.threshold(2)]))
    lanes = data.draw(st.integers(1, code.basis.lanes))
    basis = code.basis.prefix(lanes)
    replies = {j: basis.sample(shape, SeededCoins(seed, f"reply {j}")) for j in responders}
    masks = all_masks(code, responders, pair_keys(code, seed), 0, lanes, shape)
    masked = {j: basis.add(replies[j], masks[j]) for j in responders}
    assert (code.decode(masked, 2) == code.decode(replies, 2)).all()
    for mask in masks.values():
        basis.check(mask, shape)


def scripted_masks(code, responders, values):
    """Masks of one value from pair streams that hold given residues: values[(i, j)], i < j."""
    masks = []
    for j in responders:
        streams = {
            i: ScriptedCoins([values[min(i, j), max(i, j)]]) for i in masking_partners(code, responders, j, 1)
        }
        masks.append(int(mask_for(code, responders, j, streams, 1, (1,))[0, 0]))
    return tuple(masks)


def pairs_of(code, responders):
    return sorted(
        {(min(i, j), max(i, j)) for j in responders for i in masking_partners(code, responders, j, 1)}
    )


def mask_law(code, responders, masker, known=()):
    """The law of the masks over all pair streams, the `known` clients' streams fixed at 3."""
    p = code.basis.primes[0]
    pairs = pairs_of(code, responders)
    free = [pair for pair in pairs if not set(pair) & set(known)]
    law = Counter()
    for values in itertools.product(range(p), repeat=len(free)):
        law[masker(code, responders, dict.fromkeys(pairs, 3) | dict(zip(free, values, strict=True)))] += 1
    return law


def reply_law(masks, phi, p):
    law = Counter()
    for mask, count in masks.items():
        law[tuple((m + f) % p for m, f in zip(mask, phi, strict=True))] += count
    return law


def weighted(code, responders, replies):
    p = code.basis.primes[0]
    _, weights = code.decoding_weights(responders, 2)
    return sum(int(w) * y for w, y in zip(weights[0], replies, strict=True)) % p


def hides_all_but_the_sum(code, responders, masks):
    """Whether the replies of every polynomial are uniform on those of the same weighted sum."""
    p = code.basis.primes[0]
    size = len(responders)
    for phi in itertools.product(range(p), repeat=size):
        law = reply_law(masks, phi, p)
        if len(law) != p ** (size - 1) or len(set(law.values())) != 1:
            return False
        if {weighted(code, responders, y) for y in law} != {weighted(code, responders, phi)}:
            return False
    return True


@pytest.mark.parametrize(("n", "ell", "t"), TINY)
def test_masked_replies_are_uniform_given_their_weighted_sum(n, ell, t):
    code = LagrangeCode(Basis((7,)) if n == 3 else Basis((11,)), n, ell, t)
    for responders in itertools.combinations(range(n), 3):
        masks = mask_law(code, responders, scripted_masks)
        if code.basis.primes[0] == 7:
            assert hides_all_but_the_sum(code, responders, masks)
        else:
            # The masks are a group, so their own law decides.
            assert len(masks) == 121
            assert len(set(masks.values())) == 1
            assert {weighted(code, responders, mask) for mask in masks} == {0}


def test_the_exhaustive_test_catches_missing_and_wrong_masks():
    code = LagrangeCode(Basis((7,)), 3, 1, 1)
    responders = (0, 1, 2)

    def none(code, responders, values):
        return (0, 0, 0)

    def own(code, responders, values):
        # Every client masks for itself: uniform, but the sum is lost.
        return tuple(values[pair] for pair in sorted(values))

    def unweighted(code, responders, values):
        # Masks that cancel without the decode weights.
        a, b, c = (values[pair] for pair in sorted(values))
        return ((a + b) % 7, (c - a) % 7, (-b - c) % 7)

    def chain(code, responders, values):
        # One pair only: the third client is not hidden.
        return scripted_masks(code, responders, {**values, (0, 2): 0, (1, 2): 0})

    for masker in (none, own, unweighted, chain):
        assert not hides_all_but_the_sum(code, responders, mask_law(code, responders, masker)), masker


def test_a_reused_mask_reveals_a_difference():
    # What the refusal of a second use prevents: the pair of replies has another law for other data.
    code = LagrangeCode(Basis((7,)), 3, 1, 1)
    masks = mask_law(code, (0, 1, 2), scripted_masks)
    laws = []
    # Two data sets of the same weighted sums 0: all zero, and a kernel vector in the second reply.
    kernel = next(
        v for v in itertools.product(range(7), repeat=3) if any(v) and not weighted(code, (0, 1, 2), v)
    )
    for second in ((0, 0, 0), kernel):
        law = Counter()
        for mask, count in masks.items():
            law[mask, tuple((m + f) % 7 for m, f in zip(mask, second, strict=True))] += count
        laws.append(law)
    assert laws[0] != laws[1]


@pytest.mark.parametrize("colluder", [0, 1, 2])
def test_a_colluder_besides_the_server_learns_only_the_sum_of_the_others(colluder):
    code = LagrangeCode(Basis((7,)), 3, 1, 1)
    law = mask_law(code, (0, 1, 2), scripted_masks, known=(colluder,))
    # Its own mask is one value, and the two others are uniform on a line.
    assert len({mask[colluder] for mask in law}) == 1
    assert len(law) == 7
    assert len(set(law.values())) == 1
    assert {weighted(code, (0, 1, 2), mask) for mask in law} == {0}


def test_hiding_survives_a_decode_weight_of_zero():
    found = 0
    for p, (n, ell, t) in itertools.product((11, 13, 17), [(5, 2, 1), (6, 2, 1), (5, 3, 0), (6, 3, 0)]):
        code = LagrangeCode(Basis((p,)), n, ell, t)
        for responders in itertools.combinations(range(n), code.threshold(2)):
            _, weights = code.decoding_weights(responders, 2)
            if (weights != 0).all():
                continue
            found += 1
            check_ranks(code, responders, 0)
    assert found >= 3


def check_ranks(code, responders, lane):
    """Given any t clients' streams, the others' masks span everything of weighted sum zero.

    Masks are linear in the streams, so uniform on their span: the rank over the field decides.
    """
    p = code.basis.primes[lane]
    one = LagrangeCode(Basis((p,)), code.n, code.ell, code.t)
    pairs = pairs_of(one, responders)
    columns = np.array(
        [scripted_masks(one, responders, {pair: int(pair == unit) for pair in pairs}) for unit in pairs]
    ).reshape(len(pairs), len(responders))
    assert all(weighted(one, responders, [int(x) for x in column]) == 0 for column in columns)
    field = galois_field(p)
    for known in itertools.combinations(range(len(responders)), code.t):
        honest = [j for j in range(len(responders)) if j not in known]
        rows = [i for i, pair in enumerate(pairs) if not {responders.index(x) for x in pair} & set(known)]
        rank = np.linalg.matrix_rank(field(columns[np.ix_(rows, honest)])) if rows else 0
        assert rank == len(honest) - 1


@pytest.mark.parametrize(("ell", "t"), [(1, 1), (1, 2), (2, 2), (3, 1), (4, 0), (3, 2), (5, 1)])
def test_sparse_pairs_hide_from_any_t_clients_and_the_server(ell, t):
    code = LagrangeCode(Basis((10007,)), 2 * (ell + t - 1) + 2, ell, t)
    responders = tuple(range(1, code.threshold(2) + 1))
    peers = masking_partners(code, responders, responders[0], 1)
    assert t + 1 <= len(peers) <= max(t + 2, 2)
    check_ranks(code, responders, 0)


def test_pairing_is_mutual():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 20, 4, 3)
    responders = tuple(range(2, 2 + code.threshold(2)))
    of = {j: masking_partners(code, responders, j, 2) for j in responders}
    assert all(j in of[i] for j, peers in of.items() for i in peers)
    assert {len(peers) for peers in of.values()} == {4}


def bins(replies, p):
    return np.bincount((replies.reshape(-1).astype(np.int64) * 64 // p), minlength=64)


def test_masks_on_the_real_field_are_uniform_and_independent_of_one_another():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 9, 2, 3)
    responders = tuple(range(9))
    shape = (2, 10_000)
    masks = all_masks(code, responders, pair_keys(code), 0, 2, shape)
    # 18 uniformity tests and 72 pair tests at 1e-8 each: false alarm below 1e-6 altogether.
    for lane, p in enumerate(code.basis.primes):
        tops = {j: mask[lane].reshape(-1).astype(np.int64) * 8 // p for j, mask in masks.items()}
        for j in responders:
            assert stats.chisquare(bins(masks[j][lane], p)).pvalue > 1e-8
        for i, j in itertools.combinations(responders, 2):
            counts = np.bincount(tops[i] * 8 + tops[j], minlength=64)
            assert stats.chisquare(counts).pvalue > 1e-8
    # Positive control: replies of small distances without masks.
    assert stats.chisquare(bins(np.arange(20_000), code.basis.primes[0])).pvalue < 1e-8


# --- one-time use ------------------------------------------------------------------------------------


def test_a_nonce_is_used_once_and_only_grows():
    pairs = PairKeys({1: bytes(16)})
    pairs.streams(4, b"")
    for nonce in (4, 3, 0):
        with pytest.raises(MaskReused, match=rf"nonce={nonce} is used up.*Take the next number"):
            pairs.streams(nonce, b"other")
    pairs.streams(5, b"")
    resumed = PairKeys({1: bytes(16)}, last=pairs.last)
    with pytest.raises(MaskReused):
        resumed.streams(5, b"")


def test_streams_differ_by_nonce_context_and_key():
    context = mask_context(LagrangeCode(Basis((7,)), 3, 1, 1), (0, 1, 2), 1, (2,))
    drawn = [
        PairKeys({1: key}).streams(nonce, text)[1].bytes(16)
        for key in (bytes(16), bytes(15) + b"1")
        for nonce in (0, 1)
        for text in (b"", context)
    ]
    assert len(set(drawn)) == 8


def test_clients_told_different_responders_do_not_cancel():
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 6, 1, 2)
    pairs = pair_keys(code)
    masks = {}
    for j in range(5):
        told = (0, 1, 2, 3, 5) if j == 0 else (0, 1, 2, 3, 4)
        streams = pairs[j].streams(0, mask_context(code, told, 1, (50,)))
        masks[j] = mask_for(code, told, j, streams, 1, (50,))
    assert code.decode(masks, 2).any()


def test_wrong_responders_missing_streams_and_short_keys_are_refused():
    code = LagrangeCode(Basis(LANE_PRIMES[:1]), 6, 1, 2)
    streams = pair_keys(code)[0].streams(0, b"")
    for responders in ((0, 1, 2, 3), (0, 1, 2, 3, 4, 5), (1, 0, 2, 3, 4), (1, 2, 3, 4, 5), (0, 0, 1, 2, 3)):
        with pytest.raises(ValueError, match="exactly 5 sorted clients"):
            mask_for(code, responders, 0, streams, 1, (1,))
    with pytest.raises(ValueError, match="client 0 has no stream for"):
        mask_for(code, (0, 1, 2, 3, 4), 0, {}, 1, (1,))
    with pytest.raises(ValueError, match="16 to 64 bytes"):
        PairKeys({1: b"short"})


def test_pair_keys_do_not_show_or_store_themselves():
    pairs = PairKeys({1: b"0123456789abcdef"})
    assert "0123" not in repr(pairs)
    with pytest.raises(TypeError, match="secret"):
        pickle.dumps(pairs)


# --- dealt polynomials -------------------------------------------------------------------------------


@given(cases(), st.integers(0, 2**32), st.data())
@settings(max_examples=30)
def test_dealt_blinding_has_the_degree_and_sums_to_zero(code, seed, data):
    lanes = data.draw(st.integers(1, code.basis.lanes))
    shares = deal_blinding(code, lanes, (3, 5), SeededCoins(seed, "deal"))
    check_blinding(code, dict(enumerate(shares)), lanes, (3, 5))


@given(cases(1), st.integers(0, 2**32), st.data())
@settings(max_examples=30)
def test_a_dealt_total_is_what_decoding_gets(code, seed, data):
    lanes = data.draw(st.integers(1, code.basis.lanes))
    basis = code.basis.prefix(lanes)
    total = basis.sample((3, 5), SeededCoins(seed, "total"))
    shares = deal_blinding(code, lanes, (3, 5), SeededCoins(seed, "deal"), total)
    chosen = data.draw(st.permutations(range(code.n)))[: code.threshold(2)]
    assert np.array_equal(code.decode({j: shares[j] for j in chosen}, 2), total)
    # The total is all that differs: without it the same coins deal the same blinding, as far as any R - 1
    # shares can tell.
    plain = deal_blinding(code, lanes, (3, 5), SeededCoins(seed, "deal"))
    differences = {j: basis.add(shares[j], basis.negate(plain[j])) for j in range(code.n)}
    assert np.array_equal(code.decode({j: differences[j] for j in chosen}, 2), total)


@given(cases(1), st.integers(0, 2**32), st.data())
@settings(max_examples=30)
def test_blinding_from_seeds_is_the_same_polynomial_for_all(code, seed, data):
    dealer = data.draw(st.integers(0, code.n - 1))
    lanes = data.draw(st.integers(1, code.basis.lanes))
    seeded = seeded_clients(code, dealer, lanes)
    assert len(seeded) == code.threshold(2) - 1
    sent = deal_from_seeds(code, dealer, {j: SeededCoins(seed, f"{j}") for j in seeded}, lanes, (3, 5))
    assert len(sent) == code.n - code.threshold(2) + 1
    expanded = {j: blinding_share(code, lanes, (3, 5), SeededCoins(seed, f"{j}")) for j in seeded}
    check_blinding(code, sent | expanded, lanes, (3, 5))


def check_blinding(code, shares, lanes, shape):
    basis = code.basis.prefix(lanes)
    assert sorted(shares) == list(range(code.n))
    for share in shares.values():
        basis.check(share, shape)
    for first in range(code.n - code.threshold(2) + 1):
        chosen = {j: shares[j] for j in range(first, first + code.threshold(2))}
        assert not code.decode(chosen, 2).any()
    matrix = transfer_matrix(basis, code.alphas[: code.threshold(2)], code.alphas)
    known = np.stack([shares[j].reshape(lanes, -1) for j in range(code.threshold(2))], axis=1)
    expected = basis.matmul(matrix, known)
    assert all((shares[j].reshape(lanes, -1) == expected[:, j]).all() for j in shares)


def dealt_law(code, dealer=None):
    """The law of all shares of one blinding value, over all of the dealer's coins or seeds."""
    p, free = code.basis.primes[0], code.threshold(2) - 1
    law = Counter()
    for values in itertools.product(range(p), repeat=free):
        if dealer is None:
            shares = [int(s[0, 0]) for s in deal_blinding(code, 1, (1,), ScriptedCoins(values))]
        else:
            seeded = dict(zip(seeded_clients(code, dealer, 1), values, strict=True))
            streams = {j: ScriptedCoins([v]) for j, v in seeded.items()}
            sent = deal_from_seeds(code, dealer, streams, 1, (1,))
            shares = [int(sent[j][0, 0]) if j in sent else seeded[j] for j in range(code.n)]
        law[tuple(shares)] += 1
    return law


@pytest.mark.parametrize(("p", "n", "ell", "t"), [(7, 3, 1, 1), (7, 4, 1, 1), (7, 3, 2, 0), (11, 5, 2, 1)])
def test_dealt_blinding_is_uniform_and_replies_with_it_are(p, n, ell, t):
    code = LagrangeCode(Basis((p,)), n, ell, t)
    needed = code.threshold(2)
    dealers = [None, *(range(n) if needed == 3 else [1])]
    for dealer in dealers:
        law = dealt_law(code, dealer)
        # All polynomials of the degree with zero sum, once each.
        assert len(law) == p ** (needed - 1)
        assert set(law.values()) == {1}
        responders = tuple(range(needed))
        assert {weighted(code, responders, shares[:needed]) for shares in law} == {0}
        # Any t clients' shares of it are uniform, so given them the polynomial still is, on a coset.
        for known in itertools.combinations(range(n), t):
            counts = Counter(tuple(shares[j] for j in known) for shares in law)
            assert len(counts) == p**t
            assert len(set(counts.values())) == 1


@pytest.mark.parametrize("honest", [True, False])
def test_one_honest_dealer_of_t_plus_1_hides_the_replies_from_t_dealers_and_the_server(honest):
    # Client 0 dealt `own` and sees its share of the other dealing; the server sees all replies.  They
    # know phi at client 0, so two polynomials of the same sum that agree there must look alike.
    code = LagrangeCode(Basis((7,)), 3, 1, 1)
    law = dealt_law(code)
    own = next(s for s in law if s[0] == 1)
    others = law if honest else [(0, 0, 0)]
    differing = next(v for v in law if v[0] == 0 and any(v))
    views = []
    for phi in ((0, 0, 0), differing):
        views.append(
            Counter(
                (other[0], tuple((f + a + b) % 7 for f, a, b in zip(phi, own, other, strict=True)))
                for other in others
            )
        )
    assert (views[0] == views[1]) == honest


def test_dealt_blinding_on_the_real_field_is_uniform():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 11, 2, 3)
    shares = deal_blinding(code, 2, (20_000,), SeededCoins(0, "chi"))
    # 22 tests at 1e-8 each: false alarm below 1e-6.
    for share in shares:
        for lane, p in enumerate(code.basis.primes):
            assert stats.chisquare(bins(share[lane], p)).pvalue > 1e-8
