"""Testing that shared rows are what an honest client could share, before anybody computes on them.

Roles around `field.code.range_check`, which says what is proven and why nothing else is shown.  Once its
shares have arrived, every client takes part in a toss of coins (`secfc.roles.agreement`), so the signs that
rows are projected under are fixed after all rows, and nobody chose them.  Each dealer then names the mask
words that hide its projections, and every client tells its shares of them to the server and to t + 1
verifying clients, one of whom is honest: they all judge, so that no server can wave through what a client
dealt.

A dealer binds its choice to the coins as it was told them, and a client tells of a dealer only under the same
coins: two projections under one mask, for a server that told different coins to different clients, are never
told.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import SharedValues
from field.code.range_check import (
    DealingFinding,
    MaskSelection,
    MaskShortage,
    OpenedProjections,
    ProjectionPattern,
    judge_projections,
    passes_test,
    project_integers,
    select_masks,
    split_lanes,
)
from field.code.rows import CodedRows
from field.secrets.coins import Coins
from secfc.coded.membership import RowContribution
from secfc.coded.plan import CodedPlan, RowBatch
from secfc.coded.quorum import WORDS, Screening
from secfc.errors import FaultyClient, FaultyServer, MasksSpent, RowsRefused, TooFewReplies
from secfc.roles.agreement import CoinToss, derive_seed, toss_coins_at_server, toss_coins_with_parties
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, SHARE, Exchange, PartyId, Role, expect_messages, expect_one, to_all
from secfc.roles.messages import (
    Contributors,
    Message,
    check_all,
    check_residues,
    is_array,
    refuse_if,
    well_formed,
)

# --------------------------------------------------------------------------------------------------
# What parties say while they test whether shared rows are valid, see `secfc.coded.input_check`.


class MaskChoice(Message, tag=33):
    """Client to client: under which of the mask words that it dealt its projections are to be told.

    digest: 32 bytes, of the coins as the sender was told them.  masks: (blocks,) int32, used: (blocks, words)
    bool, see `field.code.range_check.MaskSelection`.  Independent of the sender's rows.

    Under "every policy": client, client.  Seen: which mask words hide the sender's sums: independent of
    its rows.  By deviating: name words that it did not deal, or one twice: `FaultyClient`. Different
    words to receivers: as a dealing that is no polynomial.
    """

    digest: bytes
    masks: Array
    used: Array

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")
        right = is_array(self.masks, "i", 1) and self.masks.dtype == np.int32
        refuse_if(not right, "numbers of masks are a vector of 32-bit integers")
        right = is_array(self.used, "b", 2) and len(self.used) == len(self.masks)
        refuse_if(not right, "used words are truth values, (blocks, words)")


class ProjectedShares(Message, tag=34):
    """Client to the server and to those who verify: masked projections of the shares it was dealt.

    complete: of whose rows it tells, one bool a client.  values, checks: what is opened of all blocks
    (`field.code.range_check.OpenedProjections`), residues (lanes, blocks, words), zeros for others.  They
    show whether what a client dealt lies on the code and is small, and nothing else.

    Under "every policy": client, server and `t + 1` clients.  Seen: random sums of shares under the
    dealer's masks: that they are small, and on the code.  By deviating: contradict a dealing: dealer and
    sender are suspected. More than `(n - ell - t) // 2` that lie together can **frame a dealer**.
    """

    complete: Array
    values: Array
    checks: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.complete, "b", 1), "of whom is told is one truth value a client")
        for told in (self.values, self.checks):
            refuse_if(not is_array(told, "u", 3), "projections are residues, (lanes, blocks, words)")


class TossedSeed(Message, tag=163):
    """Server to a client that does not work: the seed (32 bytes) that the workers tossed; public.

    Under "with workers": server, client that does not work.  Seen: what the coins of all workers give:
    public.  By deviating: the server: another seed: the client's `MaskChoice` does not fit, and both are
    suspected.
    """

    value: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.value) != 32, f"a seed has 32 bytes, this one has {len(self.value)}")


class ContributorsDigest(Message, tag=164):
    """Worker to worker: the digest (32 bytes) of whose rows count, as the server told it.

    Under "with workers": worker, worker.  Seen: a digest of whose rows count.  By deviating: another
    digest: `SuspectedParties` names it and the server, one of whom lied.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) != 32, f"a digest has 32 bytes, this one has {len(self.digest)}")


# --------------------------------------------------------------------------------------------------
# Judging what clients deal to one another, before anybody relies on it: whom to believe, whom to leave out.
#
# Rows are tested by `secfc.coded.input_check`, a blinding by random words of it (`field.code.consistency`):
# mask words are dealt along, and once every receiver has said that all shares arrived, the server draws a
# challenge, and receivers tell random words of what they were dealt, masked.  They lie on a polynomial of the
# degree if the shares do, and say nothing else.  That assumes a server that does not collude with lying
# dealers: one that knew the challenge before it dealt could pass.


def challenge_coins(seed: bytes, dealer: int) -> Coins:
    """The public coins by which all receivers combine the shares of one dealer, by its number."""
    digest = hashlib.blake2b(dealer.to_bytes(4, "little"), key=seed, digest_size=16, person=b"secfc dealing")
    return Coins(digest.digest())


# --- server ----------------------------------------------------------------------------------------


def judge_dealers(
    plan: CodedPlan,
    screening: Screening,
    complete: Mapping[PartyId, Array],
    opened: Mapping[PartyId, OpenedProjections],
    pattern: ProjectionPattern,
) -> Array:
    """Whose rows count, (n,) bool, by who has them complete, (n,) bool, and what it opened under a pattern.

    A dealer is named if its shares lie on no polynomial or its rows are out of range, and left out if more
    receivers lack its rows than may lie, or it is gone.  A single receiver that doubts a dealer is believed
    as little as the dealer: the rows stay and neither is asked again.  One that contradicts more dealers than
    may lie is named.
    """
    counted = np.ones(len(plan.clients), np.bool_)
    doubts: dict[int, set[PartyId]] = {}
    # Whoever lacks the rows of most others is itself cut off: a loss, and nobody's lie.
    there = list(screening.numbers(screening.active))
    cut_off = {c for c in screening.active if 2 * complete[c][there].sum() < len(there)}
    screening.present = tuple(c for c in screening.present if c not in cut_off)
    contradicted: defaultdict[PartyId, set[PartyId]] = defaultdict(set)
    for j, dealer in enumerate(plan.clients):
        active = screening.active
        lacking = {c for c in active if not complete[c][j]}
        if lacking and (dealer not in active or len(lacking) > screening.left):
            counted[j] = False
            continue
        where = plan.block_slices[j]
        published = {plan.clients.index(c): opened[c].of(where) for c in active if c not in lacking}
        judgement = screening.judged_rows(pattern, published)
        if judgement.proof:
            screening.blame(dealer, judgement.why)
        elif j in judgement.doubted:
            screening.blame(dealer, WORDS)
        counted[j] = judgement.good
        for receiver in screening.names(judgement.doubted):
            contradicted[receiver].add(dealer)
        doubts[j] = lacking | set(screening.names(judgement.doubted))
    while deviating := _contradicting(screening, contradicted):
        screening.blame(deviating, WORDS)
    for j, doubting in doubts.items():
        remaining = doubting.intersection(screening.active)
        dealer = plan.clients[j]
        if not remaining or not counted[j]:
            continue
        if len(remaining) == 1 and dealer in screening.active:
            screening.part(dealer, *remaining)
        else:
            counted[j] = False
    return counted


def _contradicting(screening: Screening, contradicted: Mapping[PartyId, set[PartyId]]) -> PartyId | None:
    """A client whose words contradict more dealers than may still lie: were it honest, all these lied."""
    active = screening.active
    for receiver, dealers in contradicted.items():
        if receiver in active and len(dealers.intersection(active)) > screening.left:
            return receiver
    return None


def counted_by_server(plan: CodedPlan, inbox: Mapping[PartyId, Any]) -> Array:
    """Whose rows count, (n,) bool, as the server says.  Raises FaultyServer, or TooFewReplies."""
    contributors: Array = expect_one(expect_messages(inbox, Contributors), SERVER).complete
    if contributors.shape != (len(plan.clients),):
        raise FaultyServer(SERVER, "counted other clients than the plan has")
    return contributors


def check_count(count: int, sender: PartyId, message: Contributors) -> None:
    """Raises FaultyClient naming the sender of anything but one bool a dealer."""
    if message.complete.shape != (count,):
        raise FaultyClient(sender, "counted other dealers than there are")


# --------------------------------------------------------------------------------------------------

OFF_CODE = "dealt shares of its rows that lie on no polynomial"
FALSE = "what was told of the rows of one client contradicts itself"
EMPTY: Array = np.zeros(0, np.int64)
TOO_LARGE = "dealt rows of values far beyond the public bound"


@dataclass(frozen=True, eq=False)
class ReceivedShares:
    """What a client holds after sharing, before any of it is believed.  Secret.

    rows; masks: shares (lanes, count, words) of masks, one array a message, by dealer.  complete: of which
    dealers all came, (n,) bool.  own: the integers (count, words, ell) of the masks that it dealt itself.
    """

    rows: CodedRows
    masks: dict[PartyId, list[Array]]
    complete: Array
    own: list[Array]


# --- common coins ------------------------------------------------------------------------------------


def sign_toss(plan: CodedPlan) -> CoinToss:
    """Who tosses the coins that signs are drawn from, right after sharing."""
    needed = plan.code.threshold(2) + plan.corrected
    return CoinToss(plan.computing, plan.digest(), needed, SHARE + max(plan.chunks))


def projection_round(plan: CodedPlan) -> int:
    """The round in which projections are hidden; they are told in the next one."""
    # A toss takes two rounds, and once more for each client that falls silent.
    return SHARE + max(plan.chunks) + 2 * len(plan.computing)


def projection_pattern(plan: CodedPlan, seed: bytes) -> ProjectionPattern:
    """The signs that all rows are projected under, and what of the sums is told."""
    test, basis = plan.projections, plan.code.basis
    coins = derive_seed(seed, b"secfc signs")[:16]
    return PATTERNS.take((test, basis, coins), lambda: ProjectionPattern.draw(test, basis, Coins(coins)))


PATTERNS = SharedValues()


def seed_echo(seed: bytes) -> bytes:
    """What names the coins to those who were told the same."""
    return derive_seed(seed, b"secfc echo")


# --- client -------------------------------------------------------------------------------------------


def prove_rows(plan: CodedPlan, mine: RowContribution, received: ReceivedShares, coins: Coins) -> Role[Array]:
    """Toss coins, hide and tell projections, judge them if I am to, hear whose rows count: (n,) bool.

    Raises FaultyClient, SuspectedParties, RowsRefused, MasksSpent, FaultyServer, TooFewReplies.
    """
    me, number = plan.numbers[mine.name], projection_round(plan)
    seed, there = yield from toss_coins_with_parties(sign_toss(plan), mine.name, coins)
    pattern = projection_pattern(plan, seed)
    present = tuple(c for c, tossed in zip(plan.computing, there, strict=True) if tossed)
    others = tuple(c for c in present if c != mine.name)
    send: dict[PartyId, Any] = {}
    chosen: dict[int, list[MaskSelection]] = {}
    if plan.blocks[me]:
        chosen[me] = choose_masks(plan, mine, received.own, pattern)
        send = to_all(others, _announced(seed, chosen[me]))
    awaited = tuple(c for c in (*others, *plan.resting) if _awaited(plan, received, plan.numbers[c]))
    inbox = yield Exchange(send, awaited, 0, round=number, phase="share")
    chosen |= receive_mask_choices(plan, seed, inbox)
    told = project_shares(plan, received, chosen, pattern)
    received.masks.clear()  # they have hidden what they were dealt for
    verifying = choose_verifiers(plan, present)
    to = tuple(c for c in verifying if c != mine.name)
    awaited = others if mine.name in verifying else ()
    inbox = yield Exchange(
        to_all((*to, SERVER), told), awaited, 0,
        round=number + 1, phase="share",
    )  # fmt: skip
    good = (well_formed if plan.corrected else check_all)(
        inbox, ProjectedShares, partial(check_projected, plan)
    )
    inbox = yield Exchange({}, (SERVER,), round=number + 1, phase="share")
    contributors = counted_by_server(plan, inbox)
    if not plan.corrected and (contributors & ~told.complete).any():
        raise FaultyServer(SERVER, "counts on rows that did not come")
    if mine.name in verifying:
        heard_of = {plan.seats[mine.name]: told} | {plan.seats[c]: m for c, m in good.items()}
        refuse_invalid_rows(plan, pattern, heard_of, contributors, coins)
    return contributors


def hide_row_test(plan: CodedPlan, mine: RowContribution, dealt: list[Array]) -> Role[None]:
    """The part of a client that does not work: hear the coins from the server, hide projections.

    dealt: the integers of the masks that it dealt.  A server that told it other coins than the workers gets
    nothing for it: they tell of a dealing only under the coins that they tossed.

    Raises MasksSpent; TooFewReplies if the server fell silent.
    """
    number = projection_round(plan)
    inbox = yield Exchange({}, (SERVER,), round=number, phase="share")
    seed = expect_one(expect_messages(inbox, TossedSeed), SERVER).value
    hiding = _announced(seed, choose_masks(plan, mine, dealt, projection_pattern(plan, seed)))
    yield Exchange(to_all(plan.computing, hiding), round=number, phase="share")


def _awaited(plan: CodedPlan, received: ReceivedShares, dealer: int) -> bool:
    return bool(plan.blocks[dealer]) and bool(received.complete[dealer])


def choose_verifiers(plan: CodedPlan, present: tuple[PartyId, ...]) -> tuple[PartyId, ...]:
    """The clients that judge besides the server: t + 1 of those that are there, so one that is honest."""
    return present[: plan.code.t + 1]


def choose_masks(
    plan: CodedPlan, mine: RowContribution, masks: list[Array], pattern: ProjectionPattern
) -> list[MaskSelection]:
    """The mask words that hide projections of my rows, for each message of shares."""
    me = plan.numbers[mine.name]
    out = []
    for number, mask in enumerate(masks):
        sums = project_integers(mine.read(*plan.part(me, number)), plan.code.ell, pattern.signs)
        try:
            out.append(select_masks(plan.projections, sums, mask))
        except MaskShortage:
            raise MasksSpent from None
    return out


def _announced(seed: bytes, chosen: list[MaskSelection]) -> MaskChoice:
    masks = np.concatenate([choice.masks for choice in chosen])
    return MaskChoice(seed_echo(seed), masks, np.concatenate([choice.used for choice in chosen]))


def receive_mask_choices(
    plan: CodedPlan, seed: bytes, inbox: Mapping[PartyId, Any]
) -> dict[int, list[MaskSelection]]:
    """What other dealers chose, by number, for each message of shares; checked.

    Where replies are corrected, who announces nothing that fits counts as one that said nothing.
    """
    out: dict[int, list[MaskSelection]] = {}
    taken = (well_formed if plan.corrected else check_all)(inbox, MaskChoice, partial(check_hiding, plan))
    for sender, message in taken.items():
        j = plan.numbers[sender]
        if message.digest != seed_echo(seed):
            if plan.corrected:
                continue
            why = f"{sender} says that it was told other coins than were told here"
            raise suspect_parties("MaskChoice", why, sender=sender, server=SERVER)
        out[j] = _parts(plan, j, message)
    return out


def _parts(plan: CodedPlan, dealer: int, message: MaskChoice) -> list[MaskSelection]:
    parts, at = [], 0
    for number in range(plan.chunks[dealer]):
        end = at + plan.blocks_of[dealer][number]
        parts.append(MaskSelection(message.masks[at:end], message.used[at:end]))
        at = end
    return parts


def check_hiding(plan: CodedPlan, sender: PartyId, message: MaskChoice) -> None:
    """Raises FaultyClient naming who chose masks that it did not deal, or one of them twice."""
    j = plan.numbers[sender]
    if message.masks.shape != (plan.blocks[j],) or len(message.used) != plan.blocks[j]:
        raise FaultyClient(sender, "hides other rows than it dealt")
    for number, choice in enumerate(_parts(plan, j, message)):
        if not choice.fits(plan.projections.odds, plan.blocks_of[j][number], plan.masks(j, number)):
            raise FaultyClient(
                sender, "hides its rows under masks that it did not deal, or one of them twice"
            )


def project_shares(
    plan: CodedPlan,
    received: ReceivedShares,
    chosen: Mapping[int, list[MaskSelection]],
    pattern: ProjectionPattern,
) -> ProjectedShares:
    """What I tell of the shares that I was dealt."""
    empty = np.array([not blocks for blocks in plan.blocks])
    has = np.array([j in chosen for j in range(len(plan.clients))])
    complete = received.complete & (empty | has)
    parts = [
        pattern.sums(read_words(received.rows, batch), batch.firsts, batch.counts) for batch in plan.batches
    ]
    opened = (
        OpenedProjections.join(parts) if parts else pattern.sums(plan.code.basis.reduce(EMPTY), EMPTY, EMPTY)
    )
    masks: list[tuple[MaskSelection, Array, slice]] = []
    for group, where in zip(plan.groups, plan.block_slices, strict=True):
        if not complete[list(group)].all():
            # Nothing is told of these, and what there is of them was never hidden.
            opened.clear(where)
            continue
        at = where.start
        for number, blocks in enumerate(plan.blocks_of[group[0]]):
            own = slice(at, at + blocks)
            masks += [(chosen[j][number], received.masks[plan.clients[j]][number], own) for j in group]
            at += blocks
    pattern.add_masks(opened, masks)
    return ProjectedShares(complete, opened.sums, opened.checks)


def read_words(rows: CodedRows, batch: RowBatch) -> Iterator[Array]:
    """My shares of what was dealt of these rows, lane by lane: (rows, words) residues."""
    first, width = batch.words
    for lane in range(rows.basis.lanes):
        yield rows.read_lane(lane, batch.begin, batch.end)[:, first : first + width]


def check_projected(plan: CodedPlan, sender: PartyId, message: ProjectedShares) -> None:
    """Raises FaultyClient naming the sender of anything but residues of all words, and a bool a dealer."""
    if message.complete.shape != (len(plan.clients),):
        raise FaultyClient(sender, "told of other dealers than there are")
    test, blocks = plan.projections, plan.block_slices[-1].stop
    first, rest = split_lanes(test, plan.code.basis)
    check_residues(first, sender, message.values, (blocks, test.rows))
    if rest:
        check_residues(rest, sender, message.checks, (blocks, test.checks(plan.code.basis)))
    elif message.checks.size:
        raise FaultyClient(sender, "told of lanes that there are not")


# --- whoever judges -----------------------------------------------------------------------------------


def collect_dealing(
    plan: CodedPlan, pattern: ProjectionPattern, told: Mapping[int, OpenedProjections], errors: int
) -> DealingFinding:
    """What was told, by number of the receiver, says of a dealing."""
    if not next(iter(told.values())).sums.size:
        return DealingFinding(True, True)
    return judge_projections(plan.code, pattern, told, errors)


def refuse_invalid_rows(
    plan: CodedPlan,
    pattern: ProjectionPattern,
    told: Mapping[int, ProjectedShares],
    counted: Array,
    coins: Coins,
) -> None:
    """Refuse rows that count and do not pass.

    Words are told by at least threshold(2) clients, of whom t may collude: the others fix the polynomial.
    If nobody lies, nobody is blamed.  A dealer is named if no polynomial of the code is near what was told of
    it, or its values are out of range; where few receivers are off, one of them or the dealer lied.
    coins: of whoever judges, secret until all was told.

    Raises FaultyClient, SuspectedParties, RowsRefused, TooFewReplies.
    """
    slices = plan.block_slices
    opened = {j: OpenedProjections(m.values, m.checks) for j, m in told.items()}
    whole = len(told) >= plan.code.threshold(2) and all(m.complete.all() for m in told.values())
    # Most often nothing is amiss, and all dealings can be looked at together.
    if whole and (not slices[-1].stop or passes_test(plan.code, pattern, opened, coins)):
        return
    for group, where in zip(plan.groups, slices, strict=True):
        if not counted[list(group)].all():
            continue
        words = {j: opened[j].of(where) for j, m in told.items() if m.complete[list(group)].all()}
        if len(words) < plan.code.threshold(2):
            raise TooFewReplies(plan.code.threshold(2), tuple(plan.computing[j] for j in words))
        errors = (len(words) - plan.code.threshold(1)) // 2
        finding = collect_dealing(
            plan, pattern, words, min(plan.corrected, errors) if plan.corrected else errors
        )
        if finding.good or (plan.corrected and finding.on_code and finding.small):
            continue
        if len(group) > 1:
            raise RowsRefused
        dealer = plan.clients[group[0]]
        if not finding.on_code and errors:
            raise FaultyClient(dealer, OFF_CODE)
        if not finding.on_code:
            # Of so few words a single false one looks like a false dealing.
            told_by = (plan.computing[j] for j in words)
            raise suspect_parties("ProjectedShares", FALSE, dealer=dealer, tellers=told_by)
        if not finding.small:
            raise FaultyClient(dealer, TOO_LARGE)
        receivers = tuple(plan.computing[j] for j in finding.receivers)
        raise suspect_parties("ProjectedShares", FALSE, dealer=dealer, tellers=receivers)


def judge_at_server(plan: CodedPlan, screening: Screening) -> Role[Array]:
    """Whose rows count, (n,) bool; the screening learns who is there and who lied.

    Raises what `refuse_invalid_rows` raises, and TooFewReplies, TooManyDeviating.
    """
    number, needed = projection_round(plan), screening.needed(2)
    seed, hearing = yield from toss_coins_at_server(
        sign_toss(plan), plan.computing, lenient=bool(plan.corrected)
    )
    dealing = [c for c in plan.resting if plan.blocks[plan.numbers[c]]]
    if dealing:
        yield Exchange(to_all(dealing, TossedSeed(seed)), round=number, phase="share")
    # Who is not heard now is not asked again, so all who are there are waited for.
    inbox = yield Exchange({}, hearing, 0, round=number + 1, phase="share")
    told = screening.checked(inbox, ProjectedShares, partial(check_projected, plan))
    screening.present = tuple(c for c in plan.computing if c in told)
    if len(screening.active) < needed:
        raise TooFewReplies(needed, screening.active)
    pattern = projection_pattern(plan, seed)
    if plan.corrected:
        complete = {c: m.complete for c, m in told.items()}
        opened = {c: OpenedProjections(m.values, m.checks) for c, m in told.items()}
        counted = judge_dealers(plan, screening, complete, opened, pattern)
    else:
        counted = np.logical_and.reduce([message.complete for message in told.values()])
        by_number = {plan.seats[c]: m for c, m in told.items()}
        refuse_invalid_rows(plan, pattern, by_number, counted, screening.coins)
    # Whose words were lost may lack rows that count: it is not there any more, and is told nothing.
    to = hearing if plan.corrected else screening.present
    yield Exchange(to_all(to, Contributors(counted)), round=number + 1, phase="share")
    return counted
