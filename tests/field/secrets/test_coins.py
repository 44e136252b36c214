"""Coins: uniform by rejection, reproducible only by name, silent about themselves."""

import multiprocessing
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from field import SeededCoins, SystemCoins
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from field.secrets.coins import StoredCoins
from tests.conftest import drawing_by
from tests.nightly import NIGHTLY


def test_seeded_coins_repeat_and_labels_separate_them():
    assert SeededCoins(1, "a").bytes(64) == SeededCoins(1, "a").bytes(64)
    assert SeededCoins(1, "a").bytes(64) != SeededCoins(1, "b").bytes(64)
    assert SeededCoins(1, "a").bytes(64) != SeededCoins(2, "a").bytes(64)
    # The label cannot be smuggled into the seed.
    assert SeededCoins(1, "2|a").bytes(64) != SeededCoins(1, "a").bytes(64)


def test_system_coins_never_repeat():
    assert SystemCoins().bytes(32) != SystemCoins().bytes(32)
    line = [sys.executable, "-c", "from field import SystemCoins; print(SystemCoins().bytes(32))"]
    one, other = (subprocess.run(line, capture_output=True, check=True).stdout for _ in range(2))
    assert one != other


@pytest.mark.skipif(NIGHTLY, reason="nights draw the coins of the system")
def test_coins_of_a_test_follow_from_its_name(request):
    drawn = SystemCoins().bytes(32)
    for name, same in ((request.node.nodeid, True), ("another", False)):
        with drawing_by(name):
            assert (SystemCoins().bytes(32) == drawn) == same


@pytest.mark.parametrize("prime", [3, 11, 257, 10007, *LANE_PRIMES[:2], 2**31 - 1, MERSENNE_61])
def test_residues_are_canonical_and_uniform(prime):
    draws = SeededCoins(3, f"uniform {prime}").residues(prime, 40_000)
    assert int(draws.max()) < prime
    # Chi-square over up to 64 equal bins; false alarm below 1e-6 for each prime.
    bins = min(prime, 64)
    counts = np.bincount((draws.astype(object) * bins // prime).astype(int), minlength=bins)
    expected = np.array(
        [len(range(-(-b * prime // bins), -(-(b + 1) * prime // bins))) for b in range(bins)], float
    )
    assert stats.chisquare(counts, expected / prime * counts.sum()).pvalue > 1e-6


def test_the_uniformity_test_catches_reduction_by_remainder():
    # Positive control: words modulo 11 * 2**20 folded to 2**24 words favor small residues.
    words = np.frombuffer(SeededCoins(3, "biased").bytes(160_000), np.uint32) % 16 % 11
    counts = np.bincount(words, minlength=11)
    assert stats.chisquare(counts).pvalue < 1e-6


@given(st.integers(1, 2**70))
def test_below_stays_below(bound):
    assert 0 <= SeededCoins(0, "below").below(bound) < bound


def test_a_bound_below_one_is_refused():
    with pytest.raises(ValueError, match="bound=0"):
        SeededCoins(0, "x").below(0)


def test_a_prime_too_large_for_the_type_is_refused():
    with pytest.raises(ValueError, match="does not fit uint32"):
        SeededCoins(0, "x").fill_residues(MERSENNE_61, np.empty(3, np.uint32))


def test_stored_coins_are_drawn_again_from_their_seed():
    seed = SystemCoins().bytes(32)
    assert StoredCoins(seed).bytes(64) == StoredCoins(seed).bytes(64)
    assert StoredCoins(seed).bytes(32) not in (seed, StoredCoins(bytes(32)).bytes(32))
    with pytest.raises(ValueError, match="a seed of 16 bytes"):
        StoredCoins(bytes(16))


def test_buffers_beyond_one_block_are_filled():
    out = np.zeros(300_000, np.uint32)
    SeededCoins(5, "large").fill(out)
    assert len(np.unique(out[-1000:])) > 990


def test_coins_do_not_show_or_store_themselves():
    for coins in (SystemCoins(), SeededCoins(7, "label"), StoredCoins(b"7" * 32)):
        assert "secret" in repr(coins)
        assert "7" not in repr(coins)
        with pytest.raises(TypeError, match="secret"):
            pickle.dumps(coins)


def _draw_in_child(coins, queue):
    try:
        coins.bytes(4)
        queue.put("drew")
    except RuntimeError as error:
        queue.put(str(error))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded")
@pytest.mark.parametrize("coins", [SystemCoins(), StoredCoins(bytes(32))], ids=["system", "stored"])
def test_a_forked_child_cannot_repeat_its_parents_secrets(coins):
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_draw_in_child, args=(coins, queue))
    child.start()
    child.join()
    assert "belong to process" in queue.get(timeout=5)
