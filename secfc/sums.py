"""A secure sum of integer vectors: everybody adds one, the server learns the sum and nothing else.

Every client deals Lagrange shares of its vector to a committee of c clients.  The committee agrees through
the server on whose shares all of it has, adds those, and sends the server its shares of the sum.  Sharing is
linear, so any ell + t of these decode the sum exactly, and which ones does not change it.

Why a committee: if all n clients are members, n**2 shares travel, which ends near a hundred clients.  A
committee of c costs a client c / ell times its vector, once, and nobody waits for who vanished.  (Masks
between neighbors in a graph, as in Bell et al., CCS 2020, send the vector once, but the seeds must be shared
and those of the lost opened, in two more rounds.)

What a party learns, if all follow the protocol: t members of the committee, with any other clients and even
the server, learn the sum and what follows from it and their own vectors; t + 1 members together can learn
every vector.  (ell > 1 raises how many shares a decoder needs, not how many clients are needed to cheat:
t + 1 shares and ell small numbers satisfy a linear relation with small coefficients, which often has one
solution.  So a plan packs ell = 1 number into a share unless it is told to pack more.)  Who sits on the
committee is public, so it must not be chosen by somebody who can corrupt it.
A server that asks different members for the sums of different clients is not noticed: it is trusted to
follow the protocol, as everywhere here.

What a client can do by deviating: the bound is checked where an honest client shares, and nowhere else.  One
summand beyond it, or shares on no polynomial, moves the sum by any amount, and nobody notices or is named.
It learns nothing by it but what follows from the sums that are published.

Where it is public that a client adds nothing to some numbers (`Spread`), it deals no shares of these zeros.
That costs no secrecy: what hides a summand from a coalition are the polynomials of others that add to the
same number; zeros of everybody else are public.  A number to which one client alone adds is that client's
own, with shares of zeros or without.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.code.lagrange_code import LagrangeCode
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.roles.accept import check_residues
from secfc.roles.checks import is_array, refuse
from secfc.roles.exchange import (
    SERVER,
    Exchange,
    FaultyClient,
    FaultyServer,
    PartyId,
    Role,
    TooFewReplies,
    take,
    to_all,
)
from secfc.roles.messages import Contributors, Message
from secfc.roles.transcript import Envelope

Array = NDArray[Any]

# A committee of 15 has t = 5 masks in a share, and does without any 9 members.
COMMITTEE = 15
# Rounds that one sum takes: shares, whose shares are there, the coded sum.
ROUNDS = 3


@dataclass(frozen=True)
class SumPlan:
    """Public parameters of secure sums.

    committee: who holds shares, in the order of the code's points.  bound: no client adds a number beyond it.
    losses: so many clients may vanish before their numbers are shared; a sum of fewer than n - losses clients
    is refused, as noise that those clients share out would be too small in it.
    """

    clients: tuple[PartyId, ...]
    committee: tuple[PartyId, ...]
    code: LagrangeCode
    bound: int
    losses: int

    def __post_init__(self) -> None:
        if len(self.committee) != self.code.n or set(self.committee) - set(self.clients):
            raise ValueError(f"a committee of {len(self.committee)} for a code of n={self.code.n} clients")
        if not 0 <= self.losses < len(self.clients):
            raise ValueError(f"losses={self.losses} of n={len(self.clients)} clients: lower losses")
        # Sums of either sign lie in [-n bound, n bound], which must be fewer values than the modulus.
        if self.bound < 1 or 2 * len(self.clients) * self.bound >= self.code.basis.modulus:
            raise ValueError(
                f"sums of {len(self.clients)} numbers up to {self.bound} do not fit the modulus of "
                f"{self.code.basis.lanes} lanes: lower the bound, or add lanes"
            )

    @classmethod
    def of(
        cls,
        clients: tuple[PartyId, ...],
        bound: int,
        *,
        committee: int | None = None,
        t: int | None = None,
        losses: int | None = None,
        ell: int = 1,
    ) -> SumPlan:
        """A plan for these clients: by default a committee of at most 15, a third of which may collude.

        The committee is spread evenly over the clients in the order of their names' list; losses: a quarter
        of the clients by default.  ell: numbers packed into a share, which divides what clients send by it;
        ell - 1 fewer members may vanish, and t + 1 of them read every summand all the same.

        Raises ValueError if the committee is too small to hide anything.
        """
        n = len(clients)
        size = min(n, COMMITTEE) if committee is None else committee
        if not 3 <= size <= n:
            raise ValueError(
                f"a committee of {size} among n={n} clients: at least 3 members are needed to hide a vector "
                "from each of them, and at most n. Change committee, or add clients."
            )
        largest = (size - 1) // 2
        tolerated = max(1, size // 3) if t is None else t
        if not 1 <= tolerated <= largest:
            raise ValueError(f"t={tolerated} of a committee of {size}: it must lie in [1, {largest}]")
        if not 1 <= ell <= largest + 1 - tolerated:
            raise ValueError(
                f"ell={ell} with t={tolerated} of a committee of {size}: it must lie in "
                f"[1, {largest + 1 - tolerated}]"
            )
        members = tuple(clients[i * n // size] for i in range(size))
        code = LagrangeCode(Basis.holding(2 * n * bound), size, ell, tolerated)
        return cls(clients, members, code, bound, n // 4 if losses is None else losses)

    @property
    def n(self) -> int:
        return len(self.clients)

    @property
    def least(self) -> int:
        """The fewest clients whose sum may be decoded."""
        return self.n - self.losses

    @property
    def honest(self) -> int:
        """The fewest vectors in a sum that t colluding clients did not make: these carry shared noise."""
        return self.least - self.code.t

    @cached_property
    def seats(self) -> Mapping[PartyId, int]:
        """The number of every member of the committee among the code's points."""
        return {name: seat for seat, name in enumerate(self.committee)}

    def peers(self, me: PartyId) -> tuple[PartyId, ...]:
        """Whom a client talks to in a sum, beside the server."""
        return tuple(c for c in (self.clients if me in self.seats else self.committee) if c != me)


@dataclass(frozen=True, eq=False)
class Spread:
    """Who adds to which numbers of a sum: public, and the same for all parties.

    length: numbers in the sum.  places: of each client those that it adds to, ascending (D_j,).
    """

    length: int
    places: Mapping[PartyId, Array]

    def check(self, plan: SumPlan) -> None:
        """Raises ValueError for a plan that packs several numbers into a share: they would not line up."""
        if plan.code.ell != 1:
            raise ValueError(f"ell={plan.code.ell} numbers in a share: a sum that is spread takes ell=1")


# --- pure steps -------------------------------------------------------------------------------------


def share_vector(plan: SumPlan, vector: Array, coins: Coins) -> list[Array]:
    """One share a member of a vector (D,) of int64 or Python integers: c arrays (lanes, width) of residues.

    Raises ValueError for a number beyond the plan's bound: it would wrap around, and the sum be wrong.
    """
    # Python's abs has no overflow at -2**63, where NumPy's has; the extremes decide for all.
    if vector.size and max(-int(vector.min()), int(vector.max())) > plan.bound:
        raise ValueError(
            f"a number to be summed exceeds the plan's bound of {plan.bound}: clip it, or raise the bound"
        )
    whole = vector if vector.dtype == object else vector.astype(np.int64)
    return share_residues(plan, plan.code.basis.reduce(whole), coins)


def share_residues(plan: SumPlan, residues: Array, coins: Coins) -> list[Array]:
    """The same of any element of the ring, (lanes, D) residues."""
    return [share[:, 0] for share in plan.code.share(residues[:, None, :], coins)]


def disjoin(plan: SumPlan, bits: Array, coins: Coins) -> Array:
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


def add_shares(
    plan: SumPlan, shares: Mapping[PartyId, Array], counted: Array, spread: Spread | None = None
) -> Array:
    """A member's share of the sum over the counted clients, (n,) bool: (lanes, width) residues."""
    present = [name for name, there in zip(plan.clients, counted, strict=True) if there]
    shape = next(iter(shares.values())).shape
    # n residues below 2**31 sum to less than 2**63 for n < 2**32 clients.
    total = np.zeros(shape if spread is None else (shape[0], spread.length), np.uint64)
    for name in present:
        if spread is None:
            total += shares[name]
        else:
            total[:, spread.places[name]] += shares[name]
    primes = plan.code.basis.column(total.ndim, np.uint64)
    return np.asarray(total % primes, plan.code.basis.dtype)


def decode_sum(plan: SumPlan, replies: Mapping[PartyId, Array], length: int) -> Array:
    """The sum (length,) from the shares of at least ell + t members: int64, or Python ints past 63 bits."""
    values = {plan.seats[name]: value for name, value in replies.items()}
    segments = plan.code.interpolate(values, 1)  # (lanes, ell, width)
    flat = segments.reshape(segments.shape[0], -1)[:, :length]
    return plan.code.basis.lift_signed(np.ascontiguousarray(flat))


def seen_sums(plan: SumPlan, messages: Iterable[Envelope]) -> dict[int, Array]:
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


def contribute(
    plan: SumPlan,
    me: PartyId,
    vector: Array,
    number: int,
    coins: Coins,
    *,
    phase: str = "sum",
    spread: Spread | None = None,
) -> Role[None]:
    """A client's part of one sum, in rounds number, number + 1, number + 2: deal out, and help to add.

    vector is (D,) int64, secret; the same D for all, unless `spread` says to which numbers each one adds.
    Whom the server does not hear goes on without adding.

    Raises ValueError for a number beyond the plan's bound.
    """
    if spread is not None:
        spread.check(plan)
    coded = yield from _add(plan, me, share_vector(plan, vector, coins), number, phase, spread)
    if coded is not None:
        yield Exchange({SERVER: CodedSum(coded)}, round=number + 2, phase=phase)


def open_sum(
    plan: SumPlan, me: PartyId, residues: Array, number: int, coins: Coins, *, phase: str = "sum"
) -> Role[Array]:
    """The same where the clients learn the sum, (lanes, D) residues, and the server, which helps, does not.

    residues: (lanes, D), secret.  Members of the committee send their shares of the sum to every client.

    Raises TooFewReplies at a client that hears too few of them.
    """
    dealt = share_residues(plan, residues, coins)
    coded = yield from _add(plan, me, dealt, number, phase)
    others = tuple(c for c in plan.clients if c != me)
    send = {} if coded is None else to_all(others, CodedSum(coded))
    awaited = tuple(c for c in plan.committee if c != me)
    needed = plan.code.threshold(1)
    enough = max(0, needed - (coded is not None))
    inbox = yield Exchange(send, awaited, enough, round=number + 2, phase=phase)
    replies = {} if coded is None else {me: coded}
    for sender, message in take(inbox, CodedSum).items():
        check_residues(plan.code.basis, sender, message.values, dealt[0].shape[1:])
        replies[sender] = message.values
    if len(replies) < needed:
        raise TooFewReplies(needed, tuple(replies))
    segments = plan.code.interpolate({plan.seats[name]: share for name, share in replies.items()}, 1)
    return np.ascontiguousarray(segments.reshape(segments.shape[0], -1)[:, : residues.shape[1]])


def _add(
    plan: SumPlan, me: PartyId, dealt: list[Array], number: int, phase: str, spread: Spread | None = None
) -> Role[Array | None]:
    """Deal shares, and add those of the clients that count: my share of the sum, None if I have none."""
    shares = dict(zip(plan.committee, dealt, strict=True))
    send = {c: SumShares(share) for c, share in shares.items() if c != me}
    if me not in plan.seats:
        yield Exchange(send, round=number, phase=phase)
        return None
    others = plan.peers(me)
    inbox = yield Exchange(send, others, 0, round=number, phase=phase)
    held = {me: shares[me]}
    for sender, message in take(inbox, SumShares).items():
        shape = shares[me].shape[1:] if spread is None else spread.places[sender].shape
        check_residues(plan.code.basis, sender, message.values, shape)
        held[sender] = message.values
    mine = np.array([c in held for c in plan.clients])
    inbox = yield Exchange({SERVER: Contributors(mine)}, (SERVER,), round=number + 1, phase=phase)
    told = take(inbox, Contributors)
    if not told or not told[SERVER].complete.any():
        return None  # my report or its answer was lost: the server adds without me
    counted = told[SERVER].complete
    if counted.shape != (plan.n,) or (counted & ~mine).any() or counted.sum() < plan.least:
        raise FaultyServer(
            SERVER, f"wants a sum of clients that are not all there, or of fewer than {plan.least}"
        )
    return add_shares(plan, held, counted, spread)


def receive_sum(plan: SumPlan, length: int, number: int, *, phase: str = "sum") -> Role[Sum]:
    """The server's part: the exact sum (length,) of the vectors of all clients that could be counted.

    Raises TooFewReplies if too many of the committee, or of the clients, are lost.
    """
    names, members = yield from settle_sum(plan, number, phase=phase)
    needed = plan.code.threshold(1)
    replies = take((yield Exchange({}, members, needed, round=number + 2, phase=phase)), CodedSum)
    if len(replies) < needed:
        raise TooFewReplies(needed, tuple(replies))
    shape = (plan.code.width(length),)
    for sender, reply in replies.items():
        check_residues(plan.code.basis, sender, reply.values, shape)
    values = {sender: reply.values for sender, reply in replies.items()}
    return Sum(decode_sum(plan, values, length), names)


def settle_sum(
    plan: SumPlan, number: int, *, phase: str = "sum"
) -> Role[tuple[tuple[PartyId, ...], tuple[PartyId, ...]]]:
    """The server's part where clients open the sum: whose vectors it is of, and which members add them.

    Raises TooFewReplies if too many of the committee, or of the clients, are lost.
    """
    needed = plan.code.threshold(1)
    inbox = take((yield Exchange({}, plan.committee, needed, round=number + 1, phase=phase)), Contributors)
    if len(inbox) < needed:
        raise TooFewReplies(needed, tuple(inbox))
    for sender, message in inbox.items():
        if message.complete.shape != (plan.n,):
            raise FaultyClient(sender, "counted other clients than the plan has")
    counted = np.logical_and.reduce([message.complete for message in inbox.values()])
    names = tuple(c for c, there in zip(plan.clients, counted, strict=True) if there)
    if len(names) < plan.least:
        raise TooFewReplies(plan.least, names)
    members = tuple(c for c in plan.committee if c in inbox)
    # Who was not heard is told so, lest it waits for an answer and misses the next sum as well.
    unheard = [c for c in plan.committee if c not in inbox]
    answers = to_all(members, Contributors(counted)) | to_all(unheard, Contributors(np.zeros_like(counted)))
    yield Exchange(answers, round=number + 1, phase=phase)
    return names, members


@dataclass(frozen=True, eq=False, repr=False)
class Sum:
    """What the server learns: total (D,), exact, and whose vectors it is the sum of."""

    total: Array
    clients: tuple[PartyId, ...]


@dataclass(frozen=True, eq=False, repr=False)
class SumShares(Message, tag=56):
    """Client to a member of the committee: its share of a vector to be summed, (lanes, width) residues.

    Uniform to the recipient, and to any t members together.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "shares of a vector are two axes of residues")


@dataclass(frozen=True, eq=False, repr=False)
class CodedSum(Message, tag=57):
    """Member of the committee to server: its share of the sum of vectors, (lanes, width) residues.

    Where clients open the sum (`open_sum`), to every client instead.
    """

    values: Array

    def __post_init__(self) -> None:
        refuse(not is_array(self.values, "u", 2), "shares of a sum are two axes of residues")
