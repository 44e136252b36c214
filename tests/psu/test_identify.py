"""Digests and tags: typed, canonical, the same however IDs are passed."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psu
from psu import hashing, kernels
from psu.identify import PERSON, pair_digests, start_words, tags

ids = st.one_of(st.text(), st.binary(), st.integers())


@settings(deadline=None, max_examples=60)
@given(st.lists(ids, max_size=8), st.lists(ids, max_size=8))
def test_digests_are_equal_exactly_for_equal_typed_ids(a: list[Any], b: list[Any]) -> None:
    left, right = psu.digests(a), psu.digests(b)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            same = type(x) is type(y) and x == y
            assert np.array_equal(left[i], right[j]) == same


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=400), max_size=6))
def test_the_hash_is_blake2b(messages: list[bytes]) -> None:
    got = psu.digests(messages)
    for row, message in zip(got, messages, strict=True):
        want = hashlib.blake2b(message, digest_size=16, person=PERSON["bytes"])
        assert row.tobytes() == want.digest()


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 255, 256, 257])
def test_the_hash_at_block_boundaries(size: int) -> None:
    data = np.arange(size + 1, dtype=np.uint8)
    got = hashing.blake2b_128(data, np.array([size]), start_words(b"x"))
    assert got.tobytes() == hashlib.blake2b(data[:size].tobytes(), digest_size=16, person=b"x").digest()


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 300])
def test_short_messages_are_hashed_side_by_side(count: int) -> None:
    rng = np.random.default_rng(count)
    # Every size that is one block, in an order that makes messages of a lane grow and shrink.
    sizes = rng.permutation(np.arange(count) % 129)
    data = rng.integers(0, 256, sizes.sum() + 1).astype(np.uint8)
    ends = np.cumsum(sizes, dtype=np.int64)
    got = hashing.blake2b_128_short(data, ends, start_words(b"x"))
    assert np.array_equal(got, hashing.blake2b_128(data, ends, start_words(b"x")))
    for row, end, size in zip(got, ends, sizes, strict=True):
        message = data[end - size : end].tobytes()
        assert row.tobytes() == hashlib.blake2b(message, digest_size=16, person=b"x").digest()


def test_arrays_and_lists_are_the_same_ids() -> None:
    numbers = [3, -7, 0, 2**40]
    assert np.array_equal(psu.digests(np.array(numbers)), psu.digests(numbers))
    assert np.array_equal(psu.digests(np.array([3, 200], np.uint8)), psu.digests([3, 200]))
    assert np.array_equal(psu.digests(np.array([2**63], np.uint64)), psu.digests([2**63]))
    assert np.array_equal(psu.digests(np.array(["a", "é"])), psu.digests(["a", "é"]))
    made = psu.digests(numbers)
    assert psu.digests(made) is made


@pytest.mark.parametrize("bad", [[1.5], [None], [True], [(1,)], "abc", b"abc", np.zeros((2, 3))])
def test_other_types_are_refused(bad: Any) -> None:
    with pytest.raises(TypeError):
        psu.digests(bad)


def test_rows() -> None:
    points = np.array([[1.0, -0.0], [1.0, 0.0], [0.0, 1.0]])
    made = psu.row_digests(points)
    assert np.array_equal(made[0], made[1])
    assert not np.array_equal(made[0], made[2])
    assert np.array_equal(psu.row_digests(points[:, ::1].astype(np.float32)), made)
    with pytest.raises(ValueError, match="NaN"):
        psu.row_digests(np.array([[np.nan]]))
    with pytest.raises(ValueError, match="two axes"):
        psu.row_digests(np.zeros(3))


def test_tags_are_distinct_sorted_and_keyed() -> None:
    made = psu.digests(["b", "a", "b", "c", "a"])
    own, inverse = tags(made, bytes(16))
    assert len(own) == 3
    assert (np.diff(own.z.astype(object)) > 0).all()
    assert inverse[0] == inverse[2]
    assert inverse[1] == inverse[4]
    assert kernels.all_valid(own.z, own.y)
    other, _ = tags(made, bytes(15) + b"x")
    assert not set(own.z.tolist()) & set(other.z.tolist())
    assert repr(own) == "Tags(3)"


def test_a_wrong_check_is_noticed() -> None:
    own, _ = tags(psu.digests(range(50)), bytes(16))
    for bit in (0, 39, 40, 60):
        assert not kernels.all_valid(own.z, own.y ^ np.uint64(1 << bit))


def test_types_are_told_apart_even_if_their_bytes_are_equal() -> None:
    text = "abcdefgh"
    number = int.from_bytes(text.encode(), "little")
    made = [
        *psu.digests([text, text.encode(), number]),
        psu.row_digests(np.frombuffer(text.encode(), "<f8")[None])[0],
    ]
    assert len({d.tobytes() for d in made}) == 4


def test_pairs_are_hashed_as_one_message() -> None:
    first, second = psu.digests(range(9)), psu.digests([str(i) for i in range(9)])
    made = pair_digests(first, second)
    for a, b, pair in zip(first, second, made, strict=True):
        want = hashlib.blake2b(a.tobytes() + b.tobytes(), digest_size=16, person=PERSON["pair"])
        assert pair.tobytes() == want.digest()
    assert not (pair_digests(second, first) == made).any()
    assert pair_digests(first[:0], second[:0]).shape == (0, 2)
