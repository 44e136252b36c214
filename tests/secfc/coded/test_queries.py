"""One message asks everything: told apart by its operation, checked by it, masks bound to all its fields."""

import dataclasses

import numpy as np
import pytest

from psu.messages import Message
from secfc.coded.queries import ComparisonCommittee, Operation, Query, SharedStep
from secfc.transport import wire
from tests.loading import every_message
from tests.secfc.queries import altered, leaves, unchecked, with_leaf
from tests.secfc.transport.test_wire import asked

QUERIES = asked()
every_query = pytest.mark.parametrize("question", QUERIES, ids=lambda question: question.kind)


def test_no_message_is_another_with_more():
    """Else one that asks for the first would be given the second."""
    for cls in every_message():
        assert [base for base in cls.__mro__[1:] if issubclass(base, Message)] == [Message], cls.__name__


def test_every_operation_has_its_byte_and_its_name():
    assert {question.operation for question in QUERIES} == {*Operation}
    assert len({operation.kind for operation in Operation}) == len(Operation)
    assert all(0 < operation.value < 256 for operation in Operation)
    for question in QUERIES:  # version, tag, round, then the operation
        assert wire.encode(question)[11] == question.operation.value


def another(path, value, question):
    """Something else than this value, which need be no query."""
    match value:
        case Operation():
            return next(other for other in Operation if other is not value)
        case None if path[-1] == "committee":
            return ComparisonCommittee(np.array([0, 1], np.int32))
        case None if path[-1] == "shared":
            return SharedStep(0, 0, np.zeros(question.k, np.int64), np.zeros(question.k, np.int64))
        case None:
            return np.zeros(1, np.int8)
        case bytes():
            return bytes(31) + b"\1"
        case np.ndarray():
            return value + np.ones(1, value.dtype)
    return value + 1


@every_query
def test_masks_are_bound_to_all_that_is_asked_and_of_whom(question):
    """Whatever a server tells one client otherwise, masks do not cancel; the round is a nonce anyway."""
    found = [*leaves(question)]
    assert len(found) >= 9
    digests = {question.digest}
    for path, value in found:
        other = with_leaf(question, path, another(path, value, question), unchecked)
        assert (other.digest == question.digest) == (path == ("round",)), path
        digests.add(other.digest)
    assert len(digests) == len(found)


def test_masks_are_bound_to_shapes():
    """The same numbers in other rows are another question."""
    two = next(question for question in QUERIES if question.operation is Operation.LOSS)
    one = dataclasses.replace(two.subject, detail=two.detail.reshape(-1))
    assert unchecked(two, subject=one).digest != two.digest


@every_query
def test_what_belongs_to_another_operation_is_refused(question):
    operation, who = question.operation, np.array([0, 1], np.int32)
    step = SharedStep(0, 1, np.ones(question.k, np.int64), np.arange(question.k))
    with pytest.raises(ValueError, match="a step is named where labels stay shared"):
        altered(question, shared=None if operation.shared else step)
    given = np.array([[0, 1]], np.int32) if question.subject.detail is None else None
    with pytest.raises(ValueError, match="detail"):
        altered(question, detail=given)
    if operation.opens == "distances":
        with pytest.raises(ValueError, match="nobody compares"):
            altered(question, members=who)
    if operation.compares or operation.shared:
        with pytest.raises(ValueError, match="somebody compares"):
            altered(question, members=())
    if question.members.size:
        with pytest.raises(ValueError, match="one of the committee"):
            altered(question, members=who, corrected=2)
        with pytest.raises(ValueError, match="distinct"):
            altered(question, members=np.array([1, 1], np.int32), corrected=0)
    if not operation.traits.factors:
        with pytest.raises(ValueError, match="by a factor"):
            altered(question, factor=2)
    with pytest.raises(ValueError, match="at least 1"):
        altered(question, factor=0)
    if operation.traits.everywhere:
        with pytest.raises(ValueError, match="every point is in a cluster"):
            altered(question, labels=np.where(question.labels == 0, -1, question.labels))
    if operation.halves:
        with pytest.raises(ValueError, match="two halves"):
            altered(question, k=question.k + 1)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"step": -1}, "steps count from 0"),
        ({"run": -1}, "restarts count from 0"),
        ({"sizes": np.array([-1, 1])}, "no cluster has less"),
        ({"sizes": np.zeros(2)}, "vector of integers"),
        ({"groups": np.array([0])}, "one of k groups"),
        ({"groups": np.array([0, 2])}, "one of k groups"),
        ({"groups": np.array([0, -1])}, "one of k groups"),
    ],
)
def test_steps_on_shared_labels_are_checked(change, rule):
    for question in QUERIES:
        if question.operation in (Operation.LLOYD_STEP, Operation.SPLIT):
            with pytest.raises(ValueError, match=rule):
                altered(question, **change)


def test_labels_are_known_before_the_first_step():
    for question in QUERIES:
        if question.operation.shared and question.operation.opens != "sizes":
            with pytest.raises(ValueError, match="known before the first step"):
                altered(question, step=0)


def test_what_a_query_is_not_about_is_not_there():
    with pytest.raises(TypeError, match="DistanceQuery is about public labels"):
        _ = QUERIES[0].at
    with pytest.raises(TypeError, match="DistanceQuery is about labels and clusters alone"):
        _ = QUERIES[0].detail
    assert not QUERIES[0].members.size
    assert isinstance(QUERIES[0], Query)
