"""A secure sum of integer vectors: everybody adds one, the server learns the sum and nothing else.

Every client deals Lagrange shares of its vector to a committee of c clients.  The committee agrees through
the server on whose shares all of it has, adds those, and sends the server its shares of the sum.  Sharing is
linear, so any ell + t of these decode the sum exactly, and which ones does not change it; one more is asked
for, so that nobody is believed alone.

Why a committee: if all n clients are members, n**2 shares travel, which ends near a hundred clients.  A
committee of c costs a client c / ell times its vector, once, and nobody waits for who vanished.  (Masks
between neighbors in a graph, as in Bell et al., CCS 2020, send the vector once, but the seeds must be shared
and those of the lost opened, in two more rounds.)

What a party learns, if all follow the protocol: t members of the committee, with any other clients and even
the server, learn the sum and what follows from it and their own vectors; t + 1 members together can learn
every vector.  (ell > 1 raises how many shares a decoder needs, not how many clients are needed to deviate:
t + 1 shares and ell small numbers satisfy a linear relation with small coefficients, which often has one
solution.  So a plan packs ell = 1 number into a share unless it is told to pack more, with which fewer
members may vanish.)  Who sits on the committee is public, so it must not be chosen by somebody who can
corrupt it.
Before a member adds, it tells the others whose vectors, by a digest: members that a server told different
clients notice, and stop.  A server that carries what members say could keep it back as well, and with t of
them have two sums that differ by one client; where that is to be excluded, `quorum` says how many members
must have been told the same, more than (c + t) / 2, and so many fewer may vanish.

What the server tells clients between sums they compare as they deal (`ToldDigests`): a client shows each
member digests of what both were told, beside its shares, and a member that was told something else stops
before it adds.  Two clients of whom none is a member are not compared.  What is told after the last sum
clients compare when they end (`compare_last`).

Clients deal in waves, and a member adds up one wave before it takes the next, so what it holds are sums and
the shares of a wave, however many clients there are; each client speaks once.

Where many sums follow one another, shares of t members follow from seeds that they were dealt once
(`secfc.secure_sum.seeds`): a client sends shares to the c - t others, and shows these what it was told.

What a client can do by deviating: the bound is checked where an honest client shares, and nowhere else.  One
summand beyond it moves the sum by any amount, and nobody notices or is named.  It learns nothing by it but
what follows from the sums that are published.

What members tell are words on a polynomial of degree ell + t - 1.  Whoever opens a sum waits for ell + 2t of
them, where so many members are there, and refuses what lies on no polynomial.  Then the honest ones alone fix
it, so t members that tell false words are noticed, always, as is a client that dealt shares on no polynomial.
Where fewer come, because members are lost, w words notice w - ell - t false ones.  ell + t words would notice
none, so that one member could move the sum by any amount: these open nothing.  Refusing tells a deviating
client nothing: it depends on the errors alone.

Where it is public that a client adds nothing to some numbers (`SummandLayout`), it deals no shares of these
zeros. That costs no secrecy: what hides a summand from a coalition are the polynomials of others that add to
the same number; zeros of everybody else are public.  A number to which one client alone adds is that client's
own, with shares of zeros or without.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import transfer_matrix
from field.code.reed_solomon import TooManyFalse, locate_words, off_polynomial
from field.secrets.coins import Coins
from secfc.errors import FaultyClient, FaultyServer, TooFewReplies
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, Envelope, Exchange, PartyId, Role, expect_messages, to_all
from secfc.roles.messages import (
    TOGETHER,
    Contributors,
    Message,
    check_all_residues,
    check_residues,
    is_array,
    refuse_if,
)
from secfc.secure_sum.plan import COMMITTEE as COMMITTEE
from secfc.secure_sum.plan import SummandLayout as SummandLayout
from secfc.secure_sum.plan import SumPlan as SumPlan
from secfc.secure_sum.plan import ToldDigests as ToldDigests
from secfc.secure_sum.seeds import ShareSeed, ShareSeeds

Pad = Callable[[bytes], Array]
SMALLER = (
    "plan with a smaller t, a larger committee or more clients (of a share less one member could make a "
    "false sum)"
)

# Rounds that one sum of a single wave takes: shares, whose shares are there, what members confirm, the coded
# sum.  Each further wave takes one more.
ROUNDS = 4


# --- pure steps -------------------------------------------------------------------------------------


def share_vector(plan: SumPlan, vector: Array, coins: Coins) -> list[Array]:
    """One share a member of a vector (D,) of int64 or Python integers: c arrays (lanes, width) of residues.

    Raises ValueError for a number beyond the plan's bound: it would wrap around, and the sum be wrong.
    """
    return share_residues(plan, reduce_vector(plan, vector), coins)


def reduce_vector(plan: SumPlan, vector: Array) -> Array:
    """The residues of numbers of any shape.  Raises ValueError for one beyond the plan's bound."""
    # Python's abs has no overflow at -2**63, where NumPy's has; the extremes decide for all.
    if vector.size and max(-int(vector.min()), int(vector.max())) > plan.bound:
        raise ValueError(
            f"a number to be summed exceeds the plan's bound of {plan.bound}: clip it, or raise the bound"
        )
    whole = vector if vector.dtype == object else vector.astype(np.int64)
    return plan.code.basis.reduce(whole)


def share_from_seeds(plan: SumPlan, vector: Array, seeds: ShareSeeds, number: int) -> dict[PartyId, Array]:
    """Shares (lanes, width) of a vector (D,), or (lanes, g, width) of (g, D), of members without seeds.

    Raises ValueError as `share_vector`.
    """
    shares = seeds.share(plan, reduce_vector(plan, np.atleast_2d(vector)), number)
    return {member: share[:, 0] if vector.ndim == 1 else share for member, share in shares.items()}


def share_residues(plan: SumPlan, residues: Array, coins: Coins) -> list[Array]:
    """One share a member of any element of the ring, (lanes, D) residues."""
    return [share[:, 0] for share in plan.code.share(residues[:, None, :], coins)]


def encode_disjunction(plan: SumPlan, bits: Array, coins: Coins) -> Array:
    """What a client adds for bits (D,) whose disjunction is to be opened: (lanes, D) residues.

    0 for false, and anything, uniform, for true.  So a sum is 0 if no client has the bit, and else uniform,
    whichever and however many have it: it says the disjunction and nothing else.  It is wrong, 0 although
    some client has the bit, with probability 1 / modulus.
    """
    residues = np.zeros((plan.code.basis.lanes, len(bits)), plan.code.basis.dtype)
    for lane, prime in enumerate(plan.code.basis.primes):
        coins.fill_residues(prime, residues[lane])
    residues[:, ~np.asarray(bits, bool)] = 0
    return residues


def add_wave(
    total: Array, shares: Mapping[PartyId, Array], names: Iterable[PartyId], spread: SummandLayout | None
) -> None:
    """Add the shares of these clients to a total (lanes, width) uint64."""
    # n residues below 2**31 sum to less than 2**63 for n < 2**32 clients.
    if spread is None:
        counted = [shares[name] for name in names]
        for at in range(0, len(counted), TOGETHER):
            total += np.stack(counted[at : at + TOGETHER]).sum(axis=0, dtype=np.uint64)
    else:
        for name in names:
            total[:, spread.places[name]] += shares[name]


def reduce_total(plan: SumPlan, total: Array) -> Array:
    """A total as canonical residues."""
    primes = plan.code.basis.column(total.ndim, np.uint64)
    return np.asarray(total % primes, plan.code.basis.dtype)


def sum_with_spare(plan: SumPlan, total: Array, counted: Array) -> Array:
    """A member's share of the sum, of totals of vectors and of their spare beside them (lanes, 2 width).

    The spare is in it unless all clients are counted, (n,) bool: one of the two, and the other never.
    """
    vectors, spare = np.split(total, 2, axis=1)
    if counted.all():
        return np.ascontiguousarray(vectors)
    return reduce_total(plan, vectors.astype(np.uint64) + spare)  # below 2**32


def pad_share(plan: SumPlan, me: PartyId, pad: Array) -> Array:
    """A member's share of a pad (lanes, ell width) that all members know: (lanes, width).

    Of the polynomial of degree below ell that has the pad at the numbers' places, without noise.
    """
    code = plan.code
    segments = pad.reshape(len(pad), code.ell, -1)
    matrix = transfer_matrix(code.basis, code.betas[: code.ell], (code.alphas[plan.seats[me]],))
    return np.ascontiguousarray(code.basis.matmul(matrix, segments)[:, 0])


def digest_of_counted(counted: Array) -> bytes:
    """32 bytes that are equal exactly when the same clients, (n,) bool, are counted."""
    told = len(counted).to_bytes(8, "little") + np.packbits(counted).tobytes()
    return hashlib.blake2b(told, digest_size=32, person=b"secfc sum of").digest()


def decode_sum(plan: SumPlan, replies: Mapping[PartyId, Array], length: int) -> Array:
    """The sum (length,) from the shares of at least ell + t members: int64, or Python ints past 63 bits."""
    return plan.code.basis.lift_signed(decode_residues(plan, replies, length))


def decode_residues(plan: SumPlan, replies: Mapping[PartyId, Array], length: int) -> Array:
    """The residues (lanes, length) of a sum, as `decode_sum`."""
    values = {plan.seats[name]: value for name, value in replies.items()}
    segments = plan.code.interpolate(values, 1)  # (lanes, ell, width)
    return np.ascontiguousarray(segments.reshape(segments.shape[0], -1)[:, :length])


def check_words(plan: SumPlan, words: Mapping[PartyId, Array], dealers: Iterable[PartyId]) -> None:
    """Refuse members' shares (lanes, width) of a sum of the dealers' vectors that lie on no polynomial.

    The members off the others' polynomial are named first if no t others can be instead: e of w words are
    told apart if e <= w - ell - 2t, so any t of 3t + 1 where ell = 1.  That is no proof: a client
    that dealt one of them a false share does the same.

    Raises SuspectedParties.
    """
    code = plan.code
    seats = {plan.seats[name]: name for name in words}
    numbers = tuple(sorted(seats))
    table = np.stack([words[seats[j]] for j in numbers], axis=1)
    off = off_polynomial(code, table, numbers, 1).any(axis=0)
    if not off.any():
        return
    spare, named = len(numbers) - code.threshold(1), tuple[PartyId, ...]()
    # With so many errors a second polynomial would take more than t others.
    if (tellable := min(spare // 2, spare - code.t)) > 0:
        with suppress(TooManyFalse):
            false = {j: np.ascontiguousarray(table[:, i, off]) for i, j in enumerate(numbers)}
            named = tuple(seats[j] for j in locate_words(code, false, 1, tellable))
    whose = f"the shares of a sum that {', '.join(named)} told are" if named else "shares of a sum are"
    why = f"{whose} on no polynomial with the others: added falsely, or dealt falsely by a client"
    raise suspect_parties("CodedSum", why, tellers=named or words, dealers=dealers)


def visible_sums(plan: SumPlan, messages: Iterable[Envelope]) -> dict[int, Array]:
    """The sums that whoever has these messages can decode, by the round of the answers: (D,) each.

    Of sums of the plan's packing; a number that pads the last share is 0.
    """
    replies: dict[int, dict[PartyId, Array]] = {}
    for e in messages:
        if isinstance(e.body, CodedSum):
            replies.setdefault(e.round, {}).setdefault(e.sender, e.body.values)
    return {
        number: decode_sum(plan, coded, plan.code.ell * next(iter(coded.values())).shape[1])
        for number, coded in sorted(replies.items())
        if len(coded) >= plan.code.threshold(1)
    }


# --- role fragments ---------------------------------------------------------------------------------


def contribute_vector(
    plan: SumPlan,
    me: PartyId,
    vector: Array,
    number: int,
    coins: Coins,
    *,
    phase: str = "sum",
    spread: SummandLayout | None = None,
    spare: Array | None = None,
    told: ToldDigests | None = None,
    pad: Pad | None = None,
    seeds: ShareSeeds | None = None,
) -> Role[None]:
    """A client's part of one sum, in ROUNDS rounds from number on: deal out, and help to add.

    vector is (D,) int64, secret; the same D for all, unless `spread` says to which numbers each one adds; (g,
    D) of a client that speaks for g.
    spare: (D,) int64, secret, from every client or from none: added to the sum if a client is missing in it,
    and else by nobody.  told: what the server said before this sum, which members compare with what it said
    to whoever deals them shares.  pad: of a digest of the counted clients (lanes, ell width) residues that
    members know and the server does not: it opens the sum and the pad together.  seeds: that shares of some
    members follow from, which are dealt to all others alone.  Whom the server does not hear goes on without
    adding.

    Raises ValueError for a number beyond the plan's bound; for a spare where two sums are not excluded, as
    one with it and one without it would tell it.  SuspectedParties if others were told something else.
    """
    if spread is not None:
        spread.check(plan)
    if seeds is not None:
        if spread is not None or spare is not None:
            raise ValueError("a spread or a spare with seeds: shares of these take coins of their own")
        shares = share_from_seeds(plan, vector, seeds, number)
    else:
        shares = dict(zip(plan.committee, share_vector(plan, vector, coins), strict=True))
    if spare is not None:
        if spread is not None or plan.confirming_members < plan.exclusive_quorum:
            raise ValueError(
                f"a spare with quorum={plan.confirming_members} and spread={spread}: give a quorum of at "
                f"least {plan.exclusive_quorum}, and no spread"
            )
        both = zip(shares.items(), share_vector(plan, spare, coins), strict=True)
        shares = {member: np.concatenate([share, other], axis=1) for (member, share), other in both}
    coded = yield from _add(
        plan, me, shares, number, phase, spread, spared=spare is not None, told=told, pad=pad, seeds=seeds
    )
    if coded is not None:
        yield Exchange({SERVER: CodedSum(coded)}, round=last_round(plan, number), phase=phase)


def compare_last(
    plan: SumPlan, me: PartyId, told: ToldDigests, number: int, *, phase: str = "sum", ends: bool = False
) -> Role[None]:
    """Compare what the server told last with what it told others, in the second round of a sum that is none.

    A client that is no member is compared with all members: so with all others, as members are with all.
    Where topics differ all are.  ends: whether members tell the server that there is no sum.

    Raises SuspectedParties if another was told something else; TooFewReplies if too few members say that they
    were not.
    """
    send: dict[PartyId, Message] = {}
    if ends and me in plan.seats:
        send[SERVER] = Contributors(np.zeros(0, bool))
    others = plan.peers(me) if told.topics is plan.same_to_all else plan.clients
    mine = {c: LastDigest(told.shown(me, c)) for c in others if c in plan.spoken and c != me}
    exchange = Exchange(send | mine, tuple(mine), 0, round=number + 1, phase=phase)
    inbox = expect_messages((yield exchange), LastDigest)
    if other := [c for c, message in inbox.items() if message.told != mine[c].told]:
        why = f"{other[0]} says that it was told another result than was told here"
        raise suspect_parties("LastDigest", why, server=SERVER, sender=other[0])
    agreed = [c for c in plan.committee if c == me or c in inbox]
    if len(agreed) < plan.confirming_members:
        raise TooFewReplies(plan.confirming_members, agreed, SMALLER)


def last_round(plan: SumPlan, number: int) -> int:
    """The round of the coded sum, of a sum that begins with this one."""
    return number + ROUNDS - 2 + len(plan.waves)


def open_sum(
    plan: SumPlan, me: PartyId, residues: Array, number: int, coins: Coins, *, phase: str = "sum"
) -> Role[Array]:
    """Sum where the clients learn the sum, (lanes, D) residues, and the server, which helps, does not.

    residues: (lanes, D), secret.  Members of the committee send their shares of the sum to every client.

    Raises TooFewReplies at a client that hears too few of them, SuspectedParties for false ones.
    """
    dealt = share_residues(plan, residues, coins)
    coded = yield from _add(plan, me, dict(zip(plan.committee, dealt, strict=True)), number, phase)
    others = tuple(c for c in plan.clients if c != me)
    # Who adds nothing says so to those who wait for more shares than they need.
    told = CodedSum(np.zeros((plan.code.basis.lanes, 0), plan.code.basis.dtype) if coded is None else coded)
    send = to_all(others, told) if me in plan.seats else {}
    awaited = tuple(c for c in plan.committee if c != me)
    enough = max(0, plan.telling - (coded is not None))
    inbox = yield Exchange(send, awaited, enough, round=last_round(plan, number), phase=phase)
    replies = {} if coded is None else {me: coded}
    for sender, message in expect_messages(inbox, CodedSum).items():
        if not message.values.size:
            continue
        check_residues(plan.code.basis, sender, message.values, dealt[0].shape[1:])
        replies[sender] = message.values
    if len(replies) < plan.least_words:
        raise TooFewReplies(plan.least_words, tuple(replies), SMALLER)
    check_words(plan, replies, plan.clients)
    segments = plan.code.interpolate({plan.seats[name]: share for name, share in replies.items()}, 1)
    return np.ascontiguousarray(segments.reshape(segments.shape[0], -1)[:, : residues.shape[1]])


def _add(
    plan: SumPlan,
    me: PartyId,
    shares: Mapping[PartyId, Array],
    number: int,
    phase: str,
    spread: SummandLayout | None = None,
    spared: bool = False,
    told: ToldDigests | None = None,
    pad: Pad | None = None,
    seeds: ShareSeeds | None = None,
) -> Role[Array | None]:
    """Deal shares, and add those of the clients that count: my share of the sum, None if I have none.

    spared: whether beside each vector lies its spare.
    """
    send = address_shares(shares, me, told)
    if me not in plan.seats:
        yield Exchange(send, round=number, phase=phase)
        return None
    width = next(iter(shares.values())).shape[-1] if spread is None else spread.length
    total, settled = np.zeros((plan.code.basis.lanes, width), np.uint64), list[Array]()
    for turn, wave in enumerate(plan.waves):
        inbox = yield Exchange(send, await_dealers(plan, me, wave, shares), 0, round=number, phase=phase)
        dealt_to_me, send = expect_messages(inbox, SumShares), {}
        compare_told(told, me, dealt_to_me)
        held = check_summands(plan, dealt_to_me, width, spread)
        held |= {c: shares[c] for c in {me}.intersection(wave, shares)}
        held |= seeds.draw_shares(plan, wave, number, width) if seeds else {}
        mine = np.array([c in held for c in wave])
        inbox = yield Exchange({SERVER: Contributors(mine)}, (SERVER,), round=number + 1 + turn, phase=phase)
        answer = expect_messages(inbox, Contributors)
        if not answer or not answer[SERVER].complete.size:
            # My report or its answer was lost: the server adds without me, and so nobody waits for me.
            idle = to_all((c for c in plan.committee if c != me), SumDigest(b""))
            yield Exchange(idle, round=last_round(plan, number) - 1, phase=phase)
            return None
        counted = check_answer(answer[SERVER], mine)
        add_wave(total, held, itertools.compress(wave, counted.tolist()), spread)
        settled.append(counted)
    counted = np.concatenate(settled)
    if counted.sum() < plan.least:
        raise FaultyServer(SERVER, f"wants a sum of fewer than {plan.least} clients")
    yield from confirm_counted(plan, me, counted, last_round(plan, number) - 1, phase)
    added = reduce_total(plan, total)
    if pad is not None:
        added = plan.code.basis.add(added, pad_share(plan, me, pad(digest_of_counted(counted))))
    return sum_with_spare(plan, added, counted) if spared else added


def await_dealers(
    plan: SumPlan, me: PartyId, wave: tuple[PartyId, ...], shares: Mapping[PartyId, Array]
) -> tuple[PartyId, ...]:
    """Who deals this member shares of a wave: nobody, if it has seeds, and so none among these."""
    return tuple(c for c in wave if c != me and c in plan.spoken) if me in shares else ()


def address_shares(
    shares: Mapping[PartyId, Array], me: PartyId, told: ToldDigests | None
) -> dict[PartyId, Message]:
    """Messages to the other members, with what they compare of what the server said."""
    return {
        c: SumShares(share, b"" if told is None else told.shown(me, c))
        for c, share in shares.items()
        if c != me
    }


def check_summands(
    plan: SumPlan, dealt: Mapping[PartyId, SumShares], width: int, spread: SummandLayout | None
) -> dict[PartyId, Array]:
    """The shares of other clients, by client.  Raises FaultyClient."""
    shares = {sender: message.values for sender, message in dealt.items()}
    if spread is not None:
        for sender, values in shares.items():
            check_residues(plan.code.basis, sender, values, spread.places[sender].shape)
        return shares
    frames = {sender: shares.pop(sender) for sender in dealt if len(plan.speaks_for(sender)) > 1}
    check_all_residues(plan.code.basis, shares, (width,))
    for sender, frame in frames.items():
        names = plan.speaks_for(sender)
        check_residues(plan.code.basis, sender, frame, (len(names), width))
        shares |= zip(names, np.moveaxis(frame, 1, 0), strict=True)
    return shares


def check_answer(answer: Contributors, reported: Array) -> Array:
    """Whom the server counts, (n,) bool, of those whose shares were reported.  Raises FaultyServer."""
    counted = answer.complete
    if counted.shape != reported.shape or (counted & ~reported).any():
        raise FaultyServer(SERVER, "wants a sum of clients that are not all there")
    return counted


def compare_told(told: ToldDigests | None, me: PartyId, dealt: Mapping[PartyId, SumShares]) -> None:
    """Raises SuspectedParties, the server and a client, if that says that it was told something else."""
    for sender, message in dealt.items():
        if message.told != (b"" if told is None else told.shown(me, sender)):
            why = f"{sender} says that it was told something else before a sum than was told here"
            raise suspect_parties("SumShares", why, server=SERVER, sender=sender)


def confirm_counted(plan: SumPlan, me: PartyId, counted: Array, number: int, phase: str) -> Role[None]:
    """Members tell one another whose vectors they add, (n,) bool, before the sum leaves any of them.

    Raises SuspectedParties if one was told other clients; TooFewReplies if too few say that they were not.
    """
    others, mine = tuple(c for c in plan.committee if c != me), SumDigest(digest_of_counted(counted))
    inbox = yield Exchange(to_all(others, mine), others, 0, round=number, phase=phase)
    heard = {
        member: message for member, message in expect_messages(inbox, SumDigest).items() if message.digest
    }
    for member, message in heard.items():
        if message.digest != mine.digest:
            why = f"{member} says that it was told to add other clients than were told here"
            raise suspect_parties("SumDigest", why, server=SERVER, sender=member)
    if len(heard) + 1 < plan.confirming_members:
        raise TooFewReplies(plan.confirming_members, (me, *heard), SMALLER)


def receive_sum(plan: SumPlan, length: int, number: int, *, phase: str = "sum") -> Role[SecureSum]:
    """The server's part: the exact sum (length,) of the vectors of all clients that could be counted.

    Raises TooFewReplies if too many of the committee, or of the clients, are lost; SuspectedParties for false
    shares of the sum (`check_words`).
    """
    names, members = yield from settle_sum(plan, number, phase=phase)
    values = yield from _receive_words(plan, members, number, phase)
    shape = (plan.code.width(length),)
    for sender, word in values.items():
        check_residues(plan.code.basis, sender, word, shape)
    check_words(plan, values, names)
    return SecureSum(decode_sum(plan, values, length), names)


def receive_residues(
    plan: SumPlan, number: int, *, phase: str = "sum", due: tuple[PartyId, ...] | None = None
) -> Role[SecureSum | None]:
    """The server's part of a sum whose length members know; None where these say that there is none.

    total: residues (lanes, D).  due: whose sum alone is taken, if given.  Raises as `receive_sum`.
    """
    names, members = yield from settle_sum(plan, number, phase=phase, may_end=True, due=due)
    if not names:
        return None
    values = yield from _receive_words(plan, members, number, phase)
    widths = {word.shape[1] for word in values.values()}
    if len(widths) > 1:
        raise suspect_parties("CodedSum", "members add sums of different lengths", tellers=values)
    for sender, word in values.items():
        check_residues(plan.code.basis, sender, word, tuple(widths))
    check_words(plan, values, names)
    return SecureSum(decode_residues(plan, values, plan.code.ell * widths.pop()), names)


def _receive_words(
    plan: SumPlan, members: tuple[PartyId, ...], number: int, phase: str
) -> Role[dict[PartyId, Array]]:
    """The members' shares of a sum, enough of them to decode it."""
    enough = min(len(members), plan.telling)
    wait = Exchange({}, members, enough, round=last_round(plan, number), phase=phase)
    replies = expect_messages((yield wait), CodedSum)
    if len(replies) < plan.least_words:
        raise TooFewReplies(plan.least_words, tuple(replies), SMALLER)
    return {sender: reply.values for sender, reply in replies.items()}


def settle_sum(
    plan: SumPlan,
    number: int,
    *,
    phase: str = "sum",
    may_end: bool = False,
    due: tuple[PartyId, ...] | None = None,
) -> Role[tuple[tuple[PartyId, ...], tuple[PartyId, ...]]]:
    """The server's part where clients open the sum: whose vectors it is of, and which members add them.

    Of nobody's where there may be none (`may_end`) and all members say that there is none (`compare_last`).
    due: who must be counted, and nobody else, if given.

    Raises TooFewReplies if too many of the committee, or of the clients, are lost.
    """
    needed, members, names = plan.confirming_members, plan.committee, list[PartyId]()
    asked = set(plan.clients if due is None else due)
    for turn, wave in enumerate(plan.waves):
        wait = Exchange({}, members, needed, round=number + 1 + turn, phase=phase)
        inbox = expect_messages((yield wait), Contributors)
        if len(inbox) < needed:
            raise TooFewReplies(needed, tuple(inbox), SMALLER)
        if may_end and not turn and not any(message.complete.size for message in inbox.values()):
            return (), ()
        counted = count_complete(inbox, wave) & np.array([*map(asked.__contains__, wave)])
        names += itertools.compress(wave, counted.tolist())
        last = turn + 1 == len(plan.waves)
        if last:
            check_counted(plan, tuple(names), due)
        # Who was not heard is told so, lest it waits for an answer and misses the next sum as well.
        unheard = [c for c in members if c not in inbox]
        members = tuple(c for c in members if c in inbox)
        answers = to_all(members, Contributors(counted)) | to_all(unheard, Contributors(counted[:0]))
        yield Exchange(answers, round=number + 1 + turn, phase=phase)
    return tuple(names), members


def check_counted(plan: SumPlan, names: tuple[PartyId, ...], due: tuple[PartyId, ...] | None) -> None:
    """Raises TooFewReplies for a sum of too few clients, or of others than are due, if given."""
    if len(names) < plan.least:
        raise TooFewReplies(plan.least, names)
    if due not in (None, names):
        why = "start again with them: sums without their rows, of this run or another, would tell these"
        raise TooFewReplies(len(due or ()), names, why)


def count_complete(reports: Mapping[PartyId, Contributors], wave: tuple[PartyId, ...]) -> Array:
    """Whose shares all members have, of a wave: (n,) bool.  Raises FaultyClient for one of others."""
    for sender, message in reports.items():
        if message.complete.shape != (len(wave),):
            raise FaultyClient(sender, "counted other clients than the plan has")
    return np.asarray(np.logical_and.reduce([message.complete for message in reports.values()]))


@dataclass(frozen=True, eq=False, repr=False)
class SecureSum:
    """What the server learns: total (D,), exact, and whose vectors it is the sum of."""

    total: Array
    clients: tuple[PartyId, ...]


class SumShares(Message, tag=56):
    """Client to a member of the committee: its share of a vector to be summed, (lanes, width) residues.

    Uniform to the recipient, and to any t members together; of a client that speaks for g, (lanes, g, width).
    Where noise is in layers, the shares of what is
    added only if a client is missing stand beside them, (lanes, 2 width).  told: digests of 16 bytes of what
    the server told both before this sum.

    Under "secure sums and FedDP-KMeans": client, member.  Seen: uniform at any `t` members, also of spare
    noise for losses; nothing of numbers to which the client publicly adds nothing.  By deviating: share
    any vector, also beyond the bound: **one client can make the sum anything, unnoticed**, but learns no
    more than the sum (where a scale is found by quartiles, it chooses of which numbers later sums count).
    No polynomial: noticed as `CodedSum`. A false digest of what the server sent both ends the sum and
    names it and the server, of whom one lied.
    """

    values: Array
    told: bytes = b""

    def __post_init__(self) -> None:
        both = is_array(self.values, "u", 2) or is_array(self.values, "u", 3)
        refuse_if(not both, "shares of a vector are two axes of residues, of several three")
        refuse_if(
            len(self.told) % 16 > 0, f"digests have 16 bytes each, together these have {len(self.told)}"
        )


def split_message(message: Message, count: int) -> list[Message]:
    """What each of so many clients would say, by itself, for whom one says this."""
    if isinstance(message, SumShares) and message.values.ndim == 3:
        return [SumShares(message.values[:, j], message.told) for j in range(count)]
    if isinstance(message, ShareSeed):
        return [*map(ShareSeed, message.split())]
    return [message] * count


class SumDigest(Message, tag=167):
    """Member to member of a committee: the digest (32 bytes) of whose vectors it adds; of nobody's, none.

    Under "secure sums and FedDP-KMeans": member, member.  Seen: a digest of whose vectors it adds:
    public.  By deviating: a false one ends the sum and names it and the server (`SuspectedParties`), of
    whom one lied; so members notice a server that sent them different clients. One that carries all
    messages can keep digests back: useless with `SumPlan(quorum=)` above `(c + t) / 2`.
    """

    digest: bytes

    def __post_init__(self) -> None:
        refuse_if(len(self.digest) not in (0, 32), f"a digest has 32 bytes, this one has {len(self.digest)}")


class LastDigest(Message, tag=239):
    """Client to a member of the committee, and member to client, once in the end: digests of 16 bytes of what
    the server told both last.

    Under "secure sums and FedDP-KMeans": client, member; member, client.  Seen: what its reader was told as
    well, but for a lie.  By deviating: another digest ends the run and names it and the server
    (`SuspectedParties`), of whom one lied. A server that carries all messages can keep digests back: as of
    `SumDigest`, and so give halves of the clients other results.
    """

    told: bytes

    def __post_init__(self) -> None:
        refuse_if(
            len(self.told) % 16 > 0, f"digests have 16 bytes each, together these have {len(self.told)}"
        )


class CodedSum(Message, tag=57):
    """Member of the committee to server: its share of the sum of vectors, (lanes, width) residues.

    Where clients open the sum (`open_sum`), to every client instead, and of no width from who adds nothing.

    Under "secure sums and FedDP-KMeans": member, server; where features are scaled member, client.  Seen:
    a share of the sum.  By deviating: a false share: refused as on no polynomial (`SuspectedParties`); of
    `w` shares `w - ell - t` false ones are, all `t` where `ell + 2t` came, and `ell + t` open nothing. Where
    features are scaled, sums that differ among clients are noticed.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse_if(not is_array(self.values, "u", 2), "shares of a sum are two axes of residues")
