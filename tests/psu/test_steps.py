"""Single steps: keys are used once, altered or malformed messages are refused and blamed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import psu
from field import MERSENNE_61, SeededCoins
from field.secrets.channels import Identity
from psu import align, masked, opening, peeling, tables
from psu.errors import AlreadyUsed, UnionAborted
from psu.identify import tags
from psu.keys import Ephemeral, Once, Secrets, deal_keys, key_dealers, take_keys
from psu.messages import (
    HeldOnce,
    KeyPacket,
    MaskedBlock,
    Message,
    Offer,
    Opening,
    ShareBlock,
    Turn,
    UnionTags,
)
from psu.plan import Committee, Sheet, UnionPlan

NONE = np.empty(0, np.uint64)


def coins(label: str) -> SeededCoins:
    return SeededCoins(1, label)


def offers_of(plan: UnionPlan) -> tuple[list[Ephemeral], dict[int, Offer], dict[int, bytes]]:
    identities = [Identity.draw(coins(f"id {j}")) for j in range(plan.n)]
    made = [Ephemeral(plan, j, identities[j], coins(f"eph {j}")) for j in range(plan.n)]
    return made, {e.me: e.offer for e in made}, {j: i.public for j, i in enumerate(identities)}


def secrets_of(plan: UnionPlan) -> list[Secrets]:
    made, offers, pinned = offers_of(plan)
    rings = [e.agree(offers, pinned) for e in made]
    packets = [deal_keys(plan, ring, coins(f"deal {ring.me}")) for ring in rings]
    return [take_keys(plan, r, {i: packets[i][r.me] for i in key_dealers(plan, r.me)}) for r in rings]


@pytest.fixture
def plan() -> UnionPlan:
    return UnionPlan(4, Committee(1, spares=1), bytes(16), bound=200, sized=False)


# --- keys ----------------------------------------------------------------------------------------


def test_both_ends_derive_the_same_keys_and_every_pair_others(plan: UnionPlan) -> None:
    secrets = secrets_of(plan)
    words = {}
    for a in range(4):
        for b in range(4):
            words[a, b] = np.empty(8, np.uint64)
            secrets[a].ring.channels[b].stream("x").fill(words[a, b])
    for a in range(4):
        for b in range(4):
            assert np.array_equal(words[a, b], words[b, a])
    assert len({w.tobytes() for w in words.values()}) == 10
    for subset in plan.key_subsets:
        assert len({secrets[i].common[subset] for i in subset}) == 1
        assert all(subset not in secrets[i].common for i in range(4) if i not in subset)
    assert len({s.tag_key for s in secrets}) == 1


def test_keys_are_used_once(plan: UnionPlan) -> None:
    made, offers, pinned = offers_of(plan)
    ring = made[0].agree(offers, pinned)
    with pytest.raises(AlreadyUsed, match="ephemeral"):
        made[0].agree(offers, pinned)
    other = made[1].agree(offers, pinned)
    sealed = ring.channels[1].seal("a", b"payload")
    with pytest.raises(AlreadyUsed):
        ring.channels[1].seal("a", b"other")
    with pytest.raises(UnionAborted, match="altered"):
        other.open(0, "b", sealed, "KeyPacket")
    with pytest.raises(UnionAborted, match="altered"):
        other.open(0, "a", sealed[:-1] + bytes([sealed[-1] ^ 1]), "KeyPacket")
    assert other.open(0, "a", sealed, "KeyPacket") == b"payload"
    with pytest.raises(UnionAborted, match="again") as caught:
        other.open(0, "a", sealed, "KeyPacket")
    assert caught.value.parties == (0,)
    ring.channels[1].stream("s")
    with pytest.raises(AlreadyUsed):
        ring.channels[1].stream("s")
    openings = Once()
    openings.claim(3)
    for number in (3, 2):
        with pytest.raises(AlreadyUsed):
            openings.claim(number)


def test_directions_have_their_own_keys(plan: UnionPlan) -> None:
    made, offers, pinned = offers_of(plan)
    rings = [e.agree(offers, pinned) for e in made[:2]]
    sealed = rings[0].channels[1].seal("a", b"x")
    with pytest.raises(UnionAborted):  # reflected to its sender
        rings[0].open(1, "a", sealed, "KeyPacket")


@pytest.mark.parametrize("lost", ["offer", "identity"])
def test_who_introduces_no_key_is_named(plan: UnionPlan, lost: str) -> None:
    made, offers, pinned = offers_of(plan)
    del (offers if lost == "offer" else pinned)[1]
    with pytest.raises(UnionAborted, match="no key was offered") as caught:
        made[0].agree(offers, pinned)
    assert (caught.value.parties, caught.value.proof) == ((1,), False)


@pytest.mark.parametrize("what", ["signature", "ephemeral", "pin", "plan", "sender", "missing", "low order"])
def test_forged_offers_are_refused(plan: UnionPlan, what: str) -> None:
    made, offers, pinned = offers_of(plan)
    offer = offers[2]
    if what == "signature":
        offers[2] = replace(offer, signature=bytes(64))
    elif what == "ephemeral":
        offers[2] = replace(offer, ephemeral=offers[1].ephemeral)
    elif what == "pin":
        pinned[2] = pinned[1]
    elif what == "plan":
        offers[2] = offers_of(replace(plan, session=bytes(17)))[1][2]
    elif what == "sender":
        offers[2] = offers[1]
    elif what == "missing":
        del offers[2]
    else:
        offers[2] = Offer(2, bytes(32), offer.signature)
    with pytest.raises(UnionAborted) as caught:
        made[0].agree(offers, pinned)
    assert caught.value.parties == (2,)


def test_key_packets_are_checked(plan: UnionPlan) -> None:
    made, offers, pinned = offers_of(plan)
    rings = [e.agree(offers, pinned) for e in made]
    packets = {i: deal_keys(plan, rings[i], coins("k"))[3] for i in key_dealers(plan, 3)}
    with pytest.raises(UnionAborted, match="no keys") as caught:
        take_keys(plan, rings[3], {0: packets[0]})
    assert caught.value.parties == (1,)
    made, offers, pinned = offers_of(plan)
    rings = [e.agree(offers, pinned) for e in made]
    short = KeyPacket(0, 3, rings[0].channels[3].seal("keys", bytes(5)))
    with pytest.raises(UnionAborted, match="size") as caught:
        take_keys(plan, rings[3], packets | {0: short})
    assert caught.value.proof


def test_secrets_are_not_shown(plan: UnionPlan) -> None:
    secrets = secrets_of(plan)[1]
    shown = " ".join(
        map(repr, (secrets, secrets.ring, secrets.ring.channels[0], secrets.ring.channels[0].stream("r")))
    )
    for value in (secrets.group, *secrets.common.values()):
        assert value.hex() not in shown
        assert repr(value) not in shown


# --- sharing -------------------------------------------------------------------------------------


def shared(plan: UnionPlan, sheet: Sheet, contributing: list[int]) -> tuple[list[Secrets], Any, list[Any]]:
    secrets = secrets_of(plan)
    table: Any = np.zeros((sheet.rows, sheet.width), np.uint64)
    holdings = [tables.empty_holding(sheet) for _ in plan.committee]
    for j in contributing:
        own = coins(f"table {j}").residues(MERSENNE_61, (sheet.rows, sheet.width))
        table = (table.astype(object) + own) % MERSENNE_61
        for chunk in range(sheet.chunks):
            for i, block in tables.deal_blocks(plan, secrets[j], sheet, own, chunk).items():
                holdings[i] = tables.absorb_block(plan, secrets[i], holdings[i], block)
    return (
        secrets,
        table,
        [tables.settle_share(plan, secrets[i], holdings[i], contributing) for i in plan.committee],
    )


def test_the_committee_holds_a_shamir_sharing_of_the_sum(plan: UnionPlan) -> None:
    from psu.plan import lagrange_weights, share_point

    sheet = Sheet("slots", 0, 20_000)
    _, table, holdings = shared(plan, sheet, [0, 1, 3])
    for some in ((0, 1), (2, 3), (0, 1, 2), (1, 2, 3)):  # degree t = 1: any two determine it
        row = lagrange_weights(tuple(map(share_point, some)), 0)
        total = sum(w * holdings[i].total.astype(object) for w, i in zip(row, some, strict=True))
        assert np.array_equal(total % MERSENNE_61, table)


def test_blocks_out_of_place_are_blamed(plan: UnionPlan) -> None:
    sheet = Sheet("slots", 0, 10)
    secrets = secrets_of(plan)
    blocks = tables.deal_blocks(plan, secrets[1], sheet, np.ones((10, 1), np.uint64), 0)
    with pytest.raises(AlreadyUsed):
        tables.deal_blocks(plan, secrets[1], sheet, np.ones((10, 1), np.uint64), 0)
    assert tables.expanding_members(plan, 0) == (0,)
    assert set(blocks) == {1, 2, 3}
    held = tables.empty_holding(sheet)
    for bad in (
        replace(blocks[2], sheet="slots/1/10"),
        replace(blocks[2], chunk=1),
        replace(blocks[2], recipient=3),
        replace(blocks[2], sealed=blocks[3].sealed),
        replace(blocks[2], sender=0),
        replace(blocks[2], sender=77),
    ):
        with pytest.raises(UnionAborted) as caught:
            tables.absorb_block(plan, secrets[2], held, bad)
        assert caught.value.parties == (bad.sender,)
        assert not caught.value.proof
    held = tables.absorb_block(plan, secrets[2], held, blocks[2])
    with pytest.raises(UnionAborted, match="again"):
        tables.absorb_block(plan, secrets[2], held, blocks[2])
    with pytest.raises(UnionAborted, match="missing") as caught:
        tables.settle_share(plan, secrets[2], held, [0, 1])
    assert caught.value.parties == (0,)
    with pytest.raises(UnionAborted, match="must"):
        tables.settle_share(plan, secrets[2], held, [1])
    few = tables.empty_holding(Sheet("coins", 0, 10))
    with pytest.raises(UnionAborted, match="2 clients deal coefficients, 3 must"):
        tables.settle_share(replace(plan, n=5, mode=Committee(2)), secrets[2], few, [0, 1])


@pytest.mark.parametrize("payload", [np.zeros(9, np.uint64), np.full(10, MERSENNE_61, np.uint64)])
def test_genuine_but_malformed_blocks_are_proof(plan: UnionPlan, payload: Any) -> None:
    secrets, sheet = secrets_of(plan), Sheet("slots", 0, 10)
    sealed = secrets[1].ring.channels[2].seal("share slots/0/10 0", payload.tobytes())
    with pytest.raises(UnionAborted) as caught:
        tables.absorb_block(
            plan, secrets[2], tables.empty_holding(sheet), ShareBlock(1, 2, sheet.label, 0, sealed)
        )
    assert caught.value.parties == (1,)
    assert caught.value.proof


def test_contributors_are_complete_everywhere(plan: UnionPlan) -> None:
    assert tables.find_contributors(plan, [[0, 1, 2, 3], [0, 1, 3], [0, 1, 2, 3]]) == (0, 1, 3)
    with pytest.raises(UnionAborted, match="2 committee members answer"):
        tables.find_contributors(plan, [[0, 1], [0, 1]])
    with pytest.raises(UnionAborted, match="must") as caught:
        tables.find_contributors(plan, [[0], [0, 1], [0]])
    assert caught.value.parties == (1, 2, 3)


# --- openings ------------------------------------------------------------------------------------


def committee(plan: UnionPlan) -> tuple[list[opening.OpeningMember], Sheet, Any]:
    sheet = Sheet("counts", 0, 50)
    secrets, table, holdings = shared(plan, sheet, [0, 1, 2, 3])
    members = [opening.begin_opening(plan, secrets[i], holdings[i]) for i in plan.committee]
    return members, sheet, table


def test_any_quorum_opens_the_same_sum(plan: UnionPlan) -> None:
    members, sheet, table = committee(plan)
    poll = opening.OpeningPoll(plan)
    for silent in ([], [0], [1], [3]):
        poll, turn = opening.open_all_rows(sheet, poll, silent)
        answers = {i: opening.open_rows(members[i], turn)[1] for i in plan.committee}
        assert {i for i, a in answers.items() if a is not None} == set(turn.quorum)
        assert not set(silent) & set(turn.quorum)
        got = opening.gather_values(sheet, 50, turn, {i: a for i, a in answers.items() if a is not None})
        assert np.array_equal(got.astype(object), table)


def test_an_opening_is_answered_once(plan: UnionPlan) -> None:
    members, sheet, _ = committee(plan)
    poll, turn = opening.open_all_rows(sheet, opening.OpeningPoll(plan))
    _, later = opening.open_all_rows(sheet, poll)
    opening.open_rows(members[0], later)
    for old in (later, turn):  # also from the old state
        with pytest.raises(AlreadyUsed):
            opening.open_rows(members[0], old)


def test_members_told_different_things_open_nothing(plan: UnionPlan) -> None:
    members, sheet, table = committee(plan)
    _, turn = opening.open_all_rows(sheet, opening.OpeningPoll(plan))
    other = replace(turn, number=5)
    answers = {i: opening.open_rows(members[i], other if i == 0 else turn)[1] for i in turn.quorum}
    with pytest.raises(UnionAborted, match="another question") as caught:
        opening.gather_values(sheet, 50, turn, answers)
    assert caught.value.parties == (0,)
    answers[0] = replace(answers[0], number=turn.number)
    assert not (opening.gather_values(sheet, 50, turn, answers).astype(object) == table).any()


def test_a_relay_that_contradicts_itself_is_refused(plan: UnionPlan) -> None:
    members, sheet, _ = committee(plan)
    _, turn = opening.open_all_rows(sheet, opening.OpeningPoll(plan))
    for bad in (
        replace(turn, history=bytes(32)),
        replace(turn, round=2),
        replace(turn, round=1),  # counts are not peeled
        replace(turn, sheet="cells/0/50"),
        replace(turn, quorum=(0, 1)),
        replace(turn, quorum=(0, 1, 9)),
    ):
        with pytest.raises(UnionAborted) as caught:
            opening.open_rows(members[0], bad)
        # A member that missed a turn hears what does not follow, and so does one whose turn is of no sheet.
        lost = "does not follow" in str(caught.value)
        assert (caught.value.relay, caught.value.proof) == (not lost, not lost)


def test_malformed_openings_are_blamed(plan: UnionPlan) -> None:
    members, sheet, _ = committee(plan)
    _, turn = opening.open_all_rows(sheet, opening.OpeningPoll(plan))
    answers: Any = {i: opening.open_rows(members[i], turn)[1] for i in turn.quorum}
    for bad in (
        {0: answers[0], 1: answers[1]},
        answers | {2: replace(answers[2], values=answers[2].values[:-1])},
        answers | {2: replace(answers[2], sheet="cells/0/50")},
        answers | {2: replace(answers[2], sender=1)},
    ):
        with pytest.raises(UnionAborted) as caught:
            opening.gather_values(sheet, 50, turn, bad)
        assert caught.value.parties == (2,)


def test_invented_ids_are_refused_by_members(plan: UnionPlan) -> None:
    sheet = plan.cells(50, 0)
    secrets, _, holdings = shared(plan, sheet, [0, 1])
    member = opening.begin_opening(plan, secrets[0], holdings[0])
    _, turn = peeling.next_turn(peeling.start_peeling(plan, sheet), opening.OpeningPoll(plan))
    member, _ = opening.open_rows(member, turn)
    one = np.array([5], np.uint64)
    fake = replace(turn, round=1, number=2, z=one, y=one, pure=np.array([1], np.uint8))
    with pytest.raises(UnionAborted, match="none"):
        opening.open_rows(member, fake)
    # Who was told another z, y or pure has another history.
    told = [(one + (j == 0), one + (j == 1), fake.pure ^ (j == 2)) for j in range(4)]
    assert len({opening.next_history(turn.history, *each) for each in told}) == 4


# --- malformed tables ----------------------------------------------------------------------------


def test_a_table_that_contradicts_itself_aborts(plan: UnionPlan) -> None:
    sheet = plan.cells(50, 0)
    own, _ = tags(psu.digests(["a"]), bytes(16))
    table = tables.fill_table(plan, sheet, own, coins("r"))
    at = np.flatnonzero(table[:, 0])
    table[at[1]] = 0  # an ID that is missing from one of its cells
    values = np.ascontiguousarray(table[:, :3])
    with pytest.raises(UnionAborted, match="contradicts"):
        peeling.read_values(peeling.start_peeling(plan, sheet), values)
    # So does one of which more comes out than it has rows.
    state = peeling.start_peeling(plan, sheet)
    values = np.ascontiguousarray(tables.fill_table(plan, sheet, own, coins("r"))[:, :3])
    assert peeling.read_values(state, values).found
    full = np.zeros(sheet.rows, np.uint64)
    with pytest.raises(UnionAborted, match="contradicts"):
        peeling.read_values(replace(state, found=((full, full),)), values)


def test_malformed_uploads_in_server_mode() -> None:
    plan = UnionPlan(3, psu.Server(), bytes(16), bound=50, sized=False)
    secrets, sheet = secrets_of(plan), plan.cells(50, 0)
    block = masked.mask_chunk(plan, secrets[0], sheet, tables.zero_table(sheet.rows, 3), 0)
    with pytest.raises(AlreadyUsed):
        masked.mask_chunk(plan, secrets[0], sheet, tables.zero_table(sheet.rows, 3), 0)
    state = masked.absorb_block(plan, masked.empty_tally(sheet), block)
    for bad in (
        block,
        replace(block, sender=7),
        replace(block, chunk=9),
        replace(block, sheet="x"),
        MaskedBlock(1, sheet.label, 0, block.values[1:]),
    ):
        with pytest.raises(UnionAborted) as caught:
            masked.absorb_block(plan, state, bad)
        assert caught.value.parties == (bad.sender,)
    with pytest.raises(UnionAborted) as caught:
        masked.unmasked_sum(plan, state)
    assert caught.value.parties == (1, 2)
    # Garbage peels to nothing, or to more than fits: never to a wrong union.
    garbage = coins("garbage").residues(MERSENNE_61, (sheet.rows, 3))
    assert masked.peel_lines(plan, sheet, garbage) is None


# --- alignment -----------------------------------------------------------------------------------


def test_rows_and_what_is_refused() -> None:
    own, inverse = tags(psu.digests(["a", "b", "a"]), bytes(16))
    everything, _ = tags(psu.digests(list("abcdef")), bytes(16))
    order = np.random.default_rng(0).permutation(6)
    union = align.announce_tags(everything.z[order], everything.y[order])
    assert np.array_equal(union.z, everything.z)
    got = align.rows_of_points(union, own, inverse)
    assert np.array_equal(union.z[got], own.z[inverse])
    for bad in (
        UnionTags(union.z[::-1].copy(), union.y[::-1].copy()),
        UnionTags(np.repeat(union.z, 2), np.repeat(union.y, 2)),
        UnionTags(union.z, union.y ^ np.uint64(1)),
    ):
        with pytest.raises(UnionAborted, match="malformed"):
            align.rows_of_points(bad, own, inverse)
    lacking = np.delete(np.arange(6), got[0])
    for less in (UnionTags(union.z[lacking], union.y[lacking]), UnionTags(NONE, NONE)):
        with pytest.raises(UnionAborted, match="of this client's 2 IDs are not in the union"):
            align.rows_of_points(less, own, inverse)


def test_tags_that_share_z_are_told_apart() -> None:
    from psu import kernels

    low = [5, 5, 5, 7]
    blocks = np.array([[z, e << 43] for z, e in zip(low, (1, 2, 3, 1), strict=True)], np.uint64)
    z, y = np.empty(4, np.uint64), np.empty(4, np.uint64)
    kernels.split_tags(blocks, z, y)
    union = align.announce_tags(z[::-1].copy(), y[::-1].copy())
    from psu.identify import Tags

    assert align.rows_of_points(union, Tags(z, y), np.arange(4)).tolist() == [0, 1, 2, 3]


def test_clients_told_different_unions_notice(plan: UnionPlan) -> None:
    secrets = secrets_of(plan)
    everything, _ = tags(psu.digests(range(9)), bytes(16))
    full = align.announce_tags(everything.z, everything.y)
    less = align.announce_tags(everything.z[1:], everything.y[1:])
    said = {j: align.confirm_union(secrets[j], less if j == 2 else full) for j in range(4)}
    align.check_confirmations(secrets[1], full, {j: said[j][1] for j in (0, 3)}, [0, 1, 3])
    with pytest.raises(UnionAborted, match="different unions") as caught:
        align.check_confirmations(secrets[0], full, {j: said[j][0] for j in (1, 2, 3)}, range(4))
    assert (caught.value.parties, caught.value.relay, caught.value.proof) == ((2,), True, False)


def test_a_confirmation_that_does_not_come_is_none(plan: UnionPlan) -> None:
    secrets = secrets_of(plan)
    everything, _ = tags(psu.digests(range(9)), bytes(16))
    union = align.announce_tags(everything.z, everything.y)
    said = {j: align.confirm_union(secrets[j], union)[0] for j in (1, 3)}
    with pytest.raises(UnionAborted, match="did not confirm their union") as caught:
        align.check_confirmations(secrets[0], union, said, range(4))
    assert (caught.value.parties, caught.value.proof) == ((2,), False)


def test_clients_dealt_different_group_keys_notice(plan: UnionPlan) -> None:
    secrets = secrets_of(plan)
    secrets[3] = replace(secrets[3], group=bytes(32))
    said = {j: align.confirm_union(secrets[j], None) for j in range(4)}
    for me, suspects in ((1, (0, 3)), (3, (0, 1, 2)), (0, (3,))):
        with pytest.raises(UnionAborted, match="different group keys") as caught:
            align.check_confirmations(
                secrets[me], None, {j: m[me] for j, m in said.items() if j != me}, range(4)
            )
        assert (caught.value.parties, caught.value.proof) == (suspects, False)


# --- messages ------------------------------------------------------------------------------------


def malformed() -> list[Any]:
    good, big = np.zeros((2, 3), np.uint64), np.full((2, 3), MERSENNE_61, np.uint64)
    vector, bits = np.zeros(2, np.uint64), np.ones(2, np.uint8)
    turn = ("s", 0, 1, (0, 1, 2), bytes(32))
    return [
        lambda: Offer(0, bytes(31), bytes(64)),
        lambda: Offer(0, bytes(32), bytes(63)),
        lambda: Offer(-1, bytes(32), bytes(64)),
        lambda: KeyPacket(0, -1, b""),
        lambda: ShareBlock(0, 1, "s", -1, b""),
        lambda: Opening(0, "s", 0, good),
        lambda: Opening(0, "s", 1, big),
        lambda: Opening(0, "s", 1, good.astype(np.int64)),
        lambda: Opening(0, "s", 1, vector),
        lambda: MaskedBlock(0, "s", 0, big),
        lambda: Turn(*turn, vector, vector, bits[:1]),
        lambda: Turn(*turn, vector, vector[:1], bits),
        lambda: Turn(*turn, vector, vector, bits * 0),
        lambda: Turn(*turn, vector, vector, bits * 16),
        lambda: Turn("s", 0, 1, (1, 0), bytes(32), vector, vector, bits),
        lambda: Turn("s", 0, 1, (0, 0), bytes(32), vector, vector, bits),
        lambda: Turn("s", 0, 1, (0, 1), bytes(3), vector, vector, bits),
        lambda: UnionTags(vector, vector[:1]),
        lambda: UnionTags(big[0], vector),
        lambda: HeldOnce(-1),
        lambda: HeldOnce(MERSENNE_61),
    ]


@pytest.mark.parametrize("build", malformed())
def test_malformed_messages_are_refused(build: Any) -> None:
    with pytest.raises(ValueError, match="malformed message"):
        build()


def test_messages_show_shapes_only() -> None:
    message: Message = Opening(3, "cells/0/8", 1, np.full((2, 3), 77, np.uint64))
    assert repr(message) == "Opening(sender=int, sheet=str, number=int, values=uint64(2, 3))"
    assert "77" not in repr(message)
    assert message.nbytes == 8 + 9 + 8 + 48
