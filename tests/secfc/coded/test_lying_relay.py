"""A server that announces another union than members opened: unnoticed, or with verify=True named."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

import psu
import secfc
from field import SeededCoins
from psu import align, merge, opening, peeling, tables
from psu.identify import digests, tags
from secfc.coded import duplicates, union
from secfc.coded import membership as hidden
from secfc.coded.duplicates import DividedRows
from secfc.coded.membership import Private
from secfc.coded.union import Disputes
from secfc.coded.union_recheck import CommitteeRecheck
from secfc.errors import DisputedRows, FaultyServer, SuspectedParties, UnionFailed
from tests.secfc.coded.test_membership import check_exact, overlapping
from tests.secfc.lying import saying

PHANTOM = tags(digests(["nobody"]), bytes(16))[0]  # of the right form, under a key of its own


def having(module, **changed):
    """A module's names, some of them another's."""
    return SimpleNamespace(**{**vars(module), **changed})


def one_holder_less(values, n):
    """Counts of which one is false, in the range of counts."""
    held = merge.count_holders(values, n)
    held[int(np.argmax(held > 1))] -= 1
    return held


def nobody_differs(relay, m):
    yield from relay.open(merge.merge_sheets(m)[1])
    none = np.arange(0)
    yield relay.tell(Disputes(none))
    return none


def with_a_phantom(z, y):
    return align.announce_tags(np.append(z, PHANTOM.z), np.append(y, PHANTOM.y))


def dividing_falsely(plan):
    role = duplicates.divide_by_multiplicity_at_server(plan)

    def change(_, message):
        if type(message).__name__ != "DividedRows":
            return message
        values = message.values.copy()
        values[..., 0] = plan.code.basis.add(values, values)[..., 0]  # the first feature of every row twice
        return DividedRows(values, message.inverse)

    return (yield from saying(role, change))


def hear_a_phantom(state, values):
    """What a relay may also say in the middle: an ID was recovered that nobody has."""
    heard = peeling.read_values(state, values)
    z, y, pure = heard.fresh
    fresh = (np.append(z, PHANTOM.z), np.append(y, PHANTOM.y), np.append(pure, np.uint8(1)))
    history = peeling.next_history(state.history, *fresh)
    return peeling.replace(heard, fresh=fresh, found=(*state.found, fresh[:2]), history=history)


def lie(patch, which):
    """Let every server from now on lie: only servers take these names from secfc.coded.union."""
    if which == "counts":
        patch.setattr(union, "merge", having(merge, count_holders=one_holder_less))
    elif which == "quotients":
        patch.setattr(hidden, "divide_by_multiplicity_at_server", dividing_falsely)
    elif which == "disputes":
        patch.setattr(union.UnionRelay, "find_disputes", nobody_differs)
    elif which == "phantom":
        patch.setattr(union, "align", having(align, announce_tags=with_a_phantom))
        patch.setattr(
            union, "merge", having(merge, count_holders=lambda v, n: np.maximum(v[:, 0].astype(int), 1))
        )
    else:
        patch.setattr(union, "peeling", having(peeling, read_values=hear_a_phantom))


def ways(which, verify):
    conflict = "separate" if which in ("counts", "phantom", "turn") else "fail"
    counts = "hidden" if which == "quotients" else "opened"
    membership = Private(verify=verify, on_conflict=conflict, counts=counts)
    return secfc.SecFC(
        k=2, threshold=1, max_iter=2, membership=membership, quantization=secfc.Quantization(coarse="allow")
    )


def people(which):
    federation, _ = overlapping(4, 20, 12)
    if which != "disputes":
        return federation
    parts = [p.points.copy() for p in federation.parties]
    parts[0][:4] += 1
    return secfc.Federation.from_arrays(parts, ids=[p.ids for p in federation.parties])


@pytest.mark.parametrize("which", ["counts", "disputes", "phantom", "quotients"])
def test_a_server_that_lies_is_named_and_without_checks_it_passes(monkeypatch, which):
    federation, bound = people(which), 64.0
    if which == "disputes":
        with pytest.raises(DisputedRows):
            secfc.fit(ways(which, False), federation, bound=bound)
    else:
        honest = secfc.fit(ways(which, False), federation, bound=bound)
    lie(monkeypatch, which)
    if which == "quotients":  # noticed by the check of rows, of which nobody is named
        with pytest.raises(SuspectedParties, match="rows that clients say they hold do not fit"):
            secfc.fit(ways(which, False), federation, bound=bound)
    else:
        fooled = secfc.fit(ways(which, False), federation, bound=bound)  # the control: nobody notices
        if which == "phantom":
            assert len(fooled.history[0]) == len(honest.history[0]) + 1
    with pytest.raises(SuspectedParties, match="otherwise than") as caught:
        secfc.fit(ways(which, True), federation, bound=bound)
    assert caught.value.parties[0] == "server"


def test_a_server_that_invents_an_id_between_rounds_is_named(monkeypatch):
    lie(monkeypatch, "turn")
    with pytest.raises(secfc.ProtocolError) as unnamed:  # the control: the table stalls, whoever did it
        secfc.fit(ways("turn", False), people("turn"), bound=64.0)
    assert not isinstance(unnamed.value, SuspectedParties)
    with pytest.raises(SuspectedParties, match="which IDs were recovered"):
        secfc.fit(ways("turn", True), people("turn"), bound=64.0)


def recheck_table(ids=3):
    """A member that heard the first opening of a table, the true turn after it, and what the server read."""
    plan = psu.UnionPlan(4, psu.Committee(1, spares=1), bytes(16), bound=50, sized=False)
    sheet = plan.cells(50, 0)
    own, _ = tags(digests(range(ids)), bytes(16))
    opened = np.ascontiguousarray(tables.fill_table(plan, sheet, own, SeededCoins(1, "table"))[:, :3])
    heard = peeling.read_values(peeling.start_peeling(plan, sheet), opened.copy())
    return (
        CommitteeRecheck(plan, sheet, (), opened),
        peeling.next_turn(heard, opening.OpeningPoll(plan))[1],
        heard,
    )


def test_each_column_of_what_a_round_recovered_is_compared():
    recheck, turn, _ = recheck_table()
    recheck.follow(turn)  # the truth passes
    for name in ("z", "y", "pure"):
        wrong = getattr(turn, name).copy()
        wrong[-1] ^= 1
        with pytest.raises(SuspectedParties, match="which IDs were recovered"):
            recheck_table()[0].follow(replace(turn, **{name: wrong}))


def test_a_union_is_announced_when_it_is_whole_and_once():
    recheck, _, heard = recheck_table()
    union = align.announce_tags(*heard.recovered_entries)
    assert not heard.complete
    with pytest.raises(SuspectedParties, match="the union"):  # which is right, but cells are left to open
        recheck.check_union(union)
    recheck.table, recheck.values = heard, np.zeros((len(heard.active), 3), np.uint64)
    recheck.check_union(union)  # the truth passes: no cell has another ID
    end = peeling.read_values(recheck_table()[2], recheck.values)
    assert end.complete
    recheck.table, recheck.values = end, recheck.values[:0]
    with pytest.raises(SuspectedParties, match="the union"):  # of a table with no cell left to open
        recheck.check_union(union)
    recheck, _, heard = recheck_table()
    recheck.table, recheck.values = heard, np.zeros((len(heard.active), 3), np.uint64)
    with pytest.raises(SuspectedParties, match="the union"):  # another one than the table holds
        recheck.check_union(align.announce_tags(*(part[1:] for part in heard.recovered_entries)))


def test_a_server_that_asks_for_a_table_again_is_named():
    begun = {}

    def again(e):
        if e.kind == "Begin":
            begun[e.recipient] = e.body
        return (replace(e, body=begun[e.recipient]) if e.kind == "Turn" and e.recipient in begun else e,)

    with pytest.raises(FaultyServer, match="sent Begin during the union"):
        secfc.fit(ways("turn", False), people("turn"), bound=64.0, faults=again)


@pytest.mark.parametrize("options", [{}, {"counts": "hidden"}, {"merge": False}])
def test_an_honest_server_passes_and_members_add_up_what_it_adds_up(options):
    federation, _ = overlapping(5, 30, 6 if "merge" in options else 12)
    if "merge" in options:
        parts = np.array_split(np.arange(30.0), 5)
        federation = secfc.Federation.from_arrays([p[:, None] for p in parts])
    told = Private(psu.Committee(1, spares=1), verify=True, **options)
    result = check_exact(secfc.SecFC(k=2, threshold=1, max_iter=2, membership=told), federation)
    to = [e.recipient for e in result.transcript.envelopes if e.kind == "Opening"]
    assert set(to) == {"server", *(f"client-{i}" for i in range(4))}  # the committee alone
    assert to.count("client-3") == to.count("server")  # also the spare, who sends none


def test_a_member_that_falls_silent_is_replaced_and_one_that_tells_the_server_alone_is_suspected():
    federation, _ = overlapping(6, 40, 15)
    way = secfc.SecFC(
        k=2, threshold=1, max_iter=2, membership=Private(psu.Committee(1, spares=1), verify=True)
    )

    def silence(to):
        def deliver(e):
            gone = e.kind == "Opening" and e.sender == "client-1" and to in ("", e.recipient)
            return () if gone else (e,)

        return deliver

    assert len(secfc.fit(way, federation, faults=silence("")).history)
    with pytest.raises(UnionFailed, match="told the server an opening, and this member none") as caught:
        secfc.fit(way, federation, faults=silence("client-2"))
    assert (caught.value.parties, caught.value.proof) == (("client-1",), False)


@pytest.mark.parametrize(("which", "kind"), [("counts", "Opening"), ("quotients", "MaskedRows")])
def test_who_tells_clients_something_else_than_the_server_makes_suspects_of_both(which, kind):
    federation = people(which)

    def deliver(e):
        if (e.kind, e.sender, e.recipient) != (kind, "client-1", "client-2"):
            return (e,)
        values = e.body.values.copy()
        values.flat[0] ^= 1
        return (replace(e, body=replace(e.body, values=values)),)

    with pytest.raises(SuspectedParties, match="otherwise than") as caught:
        secfc.fit(ways(which, True), federation, bound=64.0, faults=deliver)
    assert caught.value.parties[0] == "server"
    assert "client-1" in caught.value.parties
    assert "client-2" not in caught.value.parties


def test_there_is_nobody_to_check_the_server_mode():
    with pytest.raises(ValueError, match="no committee to check"):
        Private(psu.Server(), verify=True)
