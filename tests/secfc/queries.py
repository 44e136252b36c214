"""Queries as tests name them: by kind, with fields side by side; and messages with one thing changed."""

from dataclasses import fields, is_dataclass, replace

from secfc.coded.queries import ComparisonCommittee, Operation, Query, SharedStep, Subject

OPERATIONS = {operation.kind: operation for operation in Operation}


def query(kind, number, k, labels, responders, members=None, corrected=0, factor=1, **more):
    """more: detail; at: (run, step, sizes, groups)."""
    at = more.pop("at", None)
    shared = None if at is None else SharedStep(*at)
    subject = Subject(OPERATIONS[kind], k, labels, factor, more.pop("detail", None), shared)
    assert not more
    committee = None if members is None else ComparisonCommittee(members, corrected)
    return Query(number, subject, responders, committee)


def leaves(value, path=()):
    """All fields of a message that hold no others: where each stands in it, and what it is."""
    for field in fields(value):
        inner, here = getattr(value, field.name), (*path, field.name)
        if is_dataclass(inner):
            yield from leaves(inner, here)
        else:
            yield here, inner


def unchecked(message, /, **changes):
    """Another such message, which no constructor sees."""
    false = object.__new__(type(message))
    for field in fields(message):
        object.__setattr__(false, field.name, changes.get(field.name, getattr(message, field.name)))
    return false


def with_leaf(value, path, new, put=replace):
    """The message with something else there."""
    name, *rest = path
    return put(value, **{name: with_leaf(getattr(value, name), rest, new, put) if rest else new})


def altered(message, **changes):
    """The message with other values of these fields, wherever they stand in it.

    members: of a query's committee, which there is none of if there are none.  operation: of a query, without
    what the new one is not about.
    """
    own = {name: changes.pop(name) for name in [f.name for f in fields(message)] if name in changes}
    if "members" in changes:
        members, place = changes.pop("members"), changes.pop("corrected", message.corrected)
        own["committee"] = ComparisonCommittee(members, place) if len(members) else None
    if changes:
        subject = message.subject
        if "operation" in changes and not changes["operation"].shared:
            subject = replace(subject, shared=None)
        paths = {path[-1]: path for path, _ in leaves(subject)}
        for name, value in changes.items():
            subject = with_leaf(subject, paths.get(name, (name,)), value)
        own["subject"] = subject
    return replace(message, **own)
