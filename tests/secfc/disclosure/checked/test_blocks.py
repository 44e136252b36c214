"""Who plays which part: all clients, all coalitions, exhaustively for up to nine clients."""

import itertools

import numpy as np
import pytest

from field import Basis, SeededCoins
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from secfc.disclosure.checked.blocks import (
    Blocks,
    Traffic,
    cheapest_blocks,
    check_deviating,
    largest_deviating,
    shapes,
)
from secfc.disclosure.checked.parts import digest_share
from secfc.disclosure.compare.session import PROPORTIONS, check_words
from secfc.errors import FaultyClient
from secfc.roles.exchange import SERVER
from secfc.roles.messages import check_residues

TRAFFIC = Traffic(corrections=2147, opened=647, sums=256)


def cases(n):
    """All t, and all numbers of deviating clients."""
    return [(t, a) for t in range(n) for a in range(t + 1)]


def missed(blocks, coalition):
    """Whether a part is left that nobody of these plays."""
    return any(not set(part) & set(coalition) for part in blocks.parts)


@pytest.mark.parametrize("n", range(2, 10))
def test_any_t_miss_a_part_and_no_deviating_clients_are_all_of_one(n):
    for t, a in cases(n):
        assert bool(list(shapes(n, t, a))) == (n >= max(1, t) + 1 + a)
    for blocks, hidden in [(blocks, max(1, t)) for t, a in cases(n) for blocks in shapes(n, t, a)]:
        a = blocks.deviating
        players = range(blocks.players)
        assert blocks.players <= n
        assert all(len(set(part)) == a + 1 for part in blocks.parts)
        assert all(missed(blocks, few) for few in itertools.combinations(players, hidden))
        # Tight: some more clients miss none, so no player is idle.
        assert not all(missed(blocks, few) for few in itertools.combinations(players, hidden + 1))
        assert not any(
            set(part) <= set(few) for part in blocks.parts for few in itertools.combinations(players, a)
        )
        assert all(blocks.played_by(j) for j in players)
        told = [q for j in players for q in blocks.told_by(j)]
        assert sorted(told) == list(range(len(blocks.parts)))


def partitions(total, least, most):
    """All ways to write it as a sum of numbers from least on, descending."""
    if total == 0:
        yield ()
    for size in range(min(total, most), least - 1, -1):
        for rest in partitions(total - size, least, size):
            yield (size, *rest)


@pytest.mark.parametrize("n", range(2, 10))
def test_no_other_shape_sends_less(n):
    """Against all sizes of blocks whatever, also with more players than it takes."""
    for t, a in cases(n):
        best = cheapest_blocks(n, t, a, TRAFFIC)
        for sizes in (x for total in range(1, n + 1) for x in partitions(total, a + 1, total)):
            if sum(size - a for size in sizes) > max(1, t):
                assert best is not None
                assert TRAFFIC.words(best) <= TRAFFIC.words(Blocks(sizes, a))


def test_a_committee_as_ever_where_nobody_deviates():
    for t in range(1, 6):
        blocks = cheapest_blocks(16, t, 0, TRAFFIC)
        assert blocks.players == len(blocks.parts) == t + 1
        assert all(blocks.played_by(j) == (j,) for j in range(t + 1))


def test_shapes_that_the_page_of_costs_names():
    def sizes(n, t, a, traffic=TRAFFIC):
        return sorted(cheapest_blocks(n, t, a, traffic).sizes, reverse=True)

    assert sizes(3, 1, 1) == sizes(16, 1, 1) == [3]  # two pairs send more
    # Fewer players send less, and one block has the fewest; what playing its parts takes is against it.
    for n, t, fewest, chosen in ((5, 2, [4], [4]), (7, 3, [5], [3, 3]), (16, 5, [7], [3, 3, 3])):
        assert sizes(n, t, 1) == fewest
        assert sizes(n, t, 1, PROPORTIONS) == chosen
    assert sizes(16, 5, 1, Traffic(0, 0, 0, played=1)) == [2, 2, 2, 2, 2, 2]
    assert sizes(5, 2, 2) == [5]
    assert len(cheapest_blocks(7, 3, 3, TRAFFIC).parts) == 35


def test_refusals():
    with pytest.raises(ValueError, match="deviating=2") as error:
        check_deviating(3, 1, 2, SERVER)
    assert str(error.value) == (
        "deviating=2, t=1: at most t of these can be told from honest clients: lower deviating or raise t"
    )
    with pytest.raises(ValueError, match="played by two") as error:
        check_deviating(3, 1, 1, "client-0")
    assert str(error.value) == (
        "n=3, t=1, dealer='client-0': parts played by two need t+2=3 clients besides the dealer: add one, "
        "lower t, or deviating=0"
    )
    with pytest.raises(ValueError, match="parts played by three need t\\+3=5 clients: add one,"):
        check_deviating(4, 2, 2, SERVER)
    with pytest.raises(ValueError, match="deviating=-1 is negative: use 0"):
        check_deviating(3, 1, -1, SERVER)


@pytest.mark.parametrize("n", range(2, 10))
@pytest.mark.parametrize("dealer", [SERVER, "client-0"])
def test_whoever_is_not_refused_has_a_shape(n, dealer):
    for t, a in cases(n):
        blocks = cheapest_blocks(n - (dealer == "client-0"), t, a, TRAFFIC)
        if a and blocks is None:
            with pytest.raises(ValueError, match="parts played by"):
                check_deviating(n, t, a, dealer)
        else:
            check_deviating(n, t, a, dealer)


def test_by_default_one_may_deviate_where_clients_are_enough():
    for n, t in ((4, 1), (6, 2), (8, 3)):
        assert largest_deviating(n, t, None, most=1) == 1
        assert largest_deviating(n - 1, t, None, most=1) == 0
        assert largest_deviating(n, 0, None, most=1) == 0
        assert largest_deviating(t + 2, t, SERVER, most=1) == 1
        assert largest_deviating(t + 1, t, SERVER, most=1) == 0


def test_where_nobody_deals_one_may_deviate_of_2t_and_2_clients():
    for n, t, a in ((4, 1, 1), (6, 2, 1), (8, 3, 1), (3, 1, 0), (7, 2, 1)):
        check_deviating(n, t, a, None)
    for n, t, a, message in (
        (3, 1, 1, r"n=3, t=1, dealer=None: parts played by two need 2t\+2=4 clients: add one"),
        (7, 3, 1, r"need 2t\+2=8 clients"),
        (9, 2, 2, r"deviating=2, dealer=None: .* use deviating=1"),
    ):
        with pytest.raises(ValueError, match=message):
            check_deviating(n, t, a, None)


@pytest.mark.parametrize("t", range(1, 8))
def test_one_deviating_client_needs_no_client_more_than_replies_do(t):
    check_deviating(2 * t + 1, t, 1, SERVER)


# --- what a part's clients vouch for --------------------------------------------------------------------


@pytest.mark.parametrize("primes", [LANE_PRIMES[:2], (MERSENNE_61,)])
def test_a_digest_stands_for_one_share_as_no_receiver_takes_equal_bytes_of_another_form(primes):
    basis, context = Basis(primes), bytes(32)
    share = basis.sample((6,), SeededCoins(1, "share"))
    told = digest_share(context, 1, share)
    assert digest_share(context, 1, share.astype(share.dtype.newbyteorder(">"))) == told
    assert digest_share(context, 1, np.repeat(share, 2, axis=1)[:, ::2]) == told
    others = [
        share[:, :5],
        share[:, ::-1],
        share[::-1] if len(primes) > 1 else share ^ 1,
        share.astype(">u2"),
    ]
    for place in np.ndindex(share.shape):
        others.append(share.copy())
        others[-1][place] ^= 1
    digests = [digest_share(context, 1, other) for other in others]
    digests += [digest_share(context, 256, share), digest_share(bytes([1] * 32), 1, share)]
    assert len({told, *digests}) == len(digests) + 1
    # Bytes alone are hashed, so these are the same, and refused before they are compared.
    width = np.uint64 if share.dtype == np.uint32 else np.uint32
    for other in (share.view(width), share.reshape(-1, 3)):
        assert digest_share(context, 1, other) == told
        with pytest.raises(FaultyClient, match="malformed"):
            check_residues(basis, "client-1", other, (6,))
        with pytest.raises(FaultyClient, match="was due"):
            check_words("client-1", other, (1, 6))
