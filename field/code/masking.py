"""Blinding: after it, whoever collects the replies learns their weighted sum and nothing else of them.

Decoding takes sum_j w_j y_j of the replies y_j of R = threshold(2) clients.  The replies themselves fix
the whole polynomial: its values at every segment and at the noise points.  Two repairs, modulo every
prime:

* zero-sum masks, for one fixed set Q of R responders: client j adds mask_j with sum_{j in Q} w_j mask_j =
  0, expanded from keys that pairs of clients share (the idea of Bonawitz et al., CCS 2017).  No message.
  Every one of Q must answer, and the masked replies lie on no polynomial: lies cannot be located.
* dealt polynomials: client j adds its shares of t + 1 polynomials of degree 2 (ell + t - 1), each uniform
  subject to its values at the ell data points summing to zero, dealt by t + 1 clients.  Any threshold of
  replies decodes and deviating clients are located as before.  A dealer sends n - R + 1 residues for every
  blinded value; the other R - 1 shares are expanded from seeds shared with their holders.

Either way the R replies are uniform subject to their weighted sum, also for the server together with any
t clients, who besides learn what those clients computed themselves.

Assumes that a key is known to its pair only and that AES in counter mode is pseudorandom.  Does not hide
the sum (a distance), and does not protect against a client who masks falsely: that is a lie in its reply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import LagrangeCode, transfer_matrix
from field.ring.basis import Basis
from field.secrets.coins import Coins

# Columns expanded and combined at a time: part of what two clients must do alike, so never changed alone.
COLUMNS = 1 << 16


class MaskReused(Exception):  # noqa: N818 - what happened
    """A one-time mask or table was asked for twice: two messages under one mask reveal their difference."""


class PairKeys:
    """The secret keys one client shares with others, and the counter that makes every stream one-time.

    keys[i] is 16 bytes or more that only this client and client i know.  Both count the same nonces.
    Not a frozen value: using a nonce is what changes.  A client that resumes passes the `last` it used.
    """

    def __init__(self, keys: Mapping[int, bytes], last: int = -1) -> None:
        short = [i for i, key in keys.items() if not 16 <= len(key) <= 64]
        if short:
            raise ValueError(f"the keys shared with {short} have a wrong length: 16 to 64 bytes are needed")
        self._keys = dict(keys)
        self.last = last

    def __repr__(self) -> str:
        return f"PairKeys(peers={sorted(self._keys)}, last={self.last}, secret)"

    def __reduce__(self) -> Any:
        raise TypeError("PairKeys is secret: it is never copied or stored")

    @property
    def peers(self) -> frozenset[int]:
        """With whom a key is shared."""
        return frozenset(self._keys)

    def streams(self, nonce: int, context: bytes, peers: Collection[int] | None = None) -> dict[int, Coins]:
        """A fresh stream for every peer (or these), for this nonce once: the same as at the peer.

        context is public and the same on both sides: what the mask is for, such as the responders and the
        shape (see `mask_context`).  Clients that were told different contexts get streams that do not
        cancel, so a server that tells them apart learns noise.

        Raises MaskReused unless nonce exceeds every earlier one.
        """
        if nonce <= self.last:
            raise MaskReused(
                f"nonce={nonce} is used up: nonces only grow and {self.last} was the last. "
                "Take the next number for a new reply, also when an iteration is repeated"
            )
        self.last = nonce
        out = {}
        for peer, key in self._keys.items():
            if peers is not None and peer not in peers:
                continue
            # Every field before the last has a fixed length, so no two inputs collide.
            text = nonce.to_bytes(8, "little") + context
            digest = hashlib.blake2b(text, key=key, digest_size=16, person=b"secfc-blind")
            out[peer] = Coins(digest.digest())
        return out


@lru_cache(maxsize=1024)
def mask_context(
    code: LagrangeCode, responders: tuple[int, ...], lanes: int, shape: tuple[int, ...], subject: bytes = b""
) -> bytes:
    """What both ends of a pair must agree on before their masks can cancel.

    subject: of what the values are that the masks hide; whoever was told of another expands other masks.
    """
    parts = (code.basis.primes[:lanes], code.n, code.ell, code.t, tuple(responders), tuple(shape), subject)
    return hashlib.blake2b(repr(parts).encode(), digest_size=32, person=b"secfc-context").digest()


# --- zero-sum masks for a fixed responding set -----------------------------------------------------


def masking_partners(
    code: LagrangeCode, responders: tuple[int, ...], me: int, lanes: int, colluding: int | None = None
) -> tuple[int, ...]:
    """The responders that client `me` shares mask streams with, sorted.

    colluding: how many clients may join the server and still learn nothing of the others' masks but their
    sum, t by default.  Responders sit on a circle and each pairs with the nearest on both sides, as many as
    make the graph stay connected when that many clients and those of weight zero are removed.  A circulant
    graph of offsets 1..s has connectivity 2 s: two partners each withstand one colluding client.
    """
    return _masking(code, responders, me, lanes, code.t if colluding is None else colluding)[0]


@lru_cache(maxsize=4096)
def _masking(
    code: LagrangeCode, responders: tuple[int, ...], me: int, lanes: int, colluding: int
) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The partners, and for every lane the factors of their streams in the mask."""
    _, weights = code.decoding_weights(responders, 2)
    # Some 30-bit weight is zero with probability about R 2^-30; in tiny fields it happens.
    zero = int((weights[:lanes] == 0).sum(axis=1).max())
    side = -(-(colluding + 1 + zero) // 2)
    size, at = len(responders), responders.index(me)
    if 2 * side >= size - 1:
        peers = tuple(j for j in responders if j != me)
    else:
        peers = tuple(sorted(responders[(at + s) % size] for s in range(-side, side + 1) if s))
    factors = []
    for lane, p in enumerate(code.basis.primes[:lanes]):
        weight = {j: int(w) for j, w in zip(responders, weights[lane], strict=True)}
        scale = pow(weight[me], -1, p) if weight[me] else 1
        left_out = {i for i in peers if weight[me] and not weight[i]}
        factors.append(tuple(0 if i in left_out else scale if me < i else p - scale for i in peers))
    return peers, tuple(factors)


def mask_for(
    code: LagrangeCode,
    responders: tuple[int, ...],
    me: int,
    streams: Mapping[int, Coins],
    lanes: int,
    shape: tuple[int, ...],
    colluding: int | None = None,
) -> Array:
    """The mask client `me` adds to its reply: (lanes, *shape) secret residues; see `add_mask`."""
    mask = np.zeros((lanes, *shape), code.basis.dtype)
    add_mask(code, responders, me, streams, mask, colluding)
    return mask


def add_mask(
    code: LagrangeCode,
    responders: tuple[int, ...],
    me: int,
    streams: Mapping[int, Coins],
    reply: Array,
    colluding: int | None = None,
) -> None:
    """Add client `me`'s mask to its reply (lanes, *shape), C-contiguous, in place.

    responders are the R = threshold(2) clients whose replies are decoded, sorted; streams[i] is at its
    start and shared with client i, for every one of `masking_partners`.  Over all responders the masks with
    decode weights sum to zero and are otherwise uniform.

    mask_j = w_j^-1 sum_i sign(i - j) stream_ij, so in w_j mask_j + w_i mask_i the stream cancels.  A
    reply of weight zero is not decoded and hidden by its streams alone, which its partners then leave out.

    Raises ValueError if the responders are not exactly a threshold, sorted.
    """
    needed = code.threshold(2)
    if (
        len(responders) != needed
        or tuple(sorted(set(responders))) != tuple(responders)
        or me not in responders
    ):
        raise ValueError(
            f"responders={responders} with me={me}: masks cancel for exactly {needed} sorted clients, "
            "me among them. Fix the responding set before anybody replies"
        )
    lanes = len(reply)
    peers, factors = _masking(code, responders, me, lanes, code.t if colluding is None else colluding)
    missing = [i for i in peers if i not in streams]
    if missing:
        raise ValueError(f"client {me} has no stream for {missing}: share keys with every partner")
    basis, flat = code.basis.prefix(lanes), reply.reshape(lanes, -1)
    width = min(COLUMNS, flat.shape[1])
    words = np.empty((len(peers), lanes, width), basis.dtype)
    for start in range(0, flat.shape[1], COLUMNS):
        part = flat[:, start : start + COLUMNS]
        # The order of draws, chunk by chunk and lane by lane, is the same at both ends of a pair.
        for i, own in zip(peers, words, strict=True):
            for lane, p in enumerate(basis.primes):
                streams[i].fill_residues(p, own[lane, : part.shape[1]])
        basis.add_scaled(part, words, factors)


def _expanded(basis: Basis, streams: list[Coins], matrix: Array, size: int) -> Array:
    """matrix (lanes, r, q) times q streams of residues: (lanes, r, size), chunk by chunk."""
    lanes, rows, count = matrix.shape
    out = np.zeros((lanes, rows, size), basis.dtype)
    columns = np.empty((lanes, count, min(COLUMNS, size)), basis.dtype)
    for start in range(0, size if count else 0, COLUMNS):
        part = columns[:, :, : size - start]
        for q, stream in enumerate(streams):
            for lane, p in enumerate(basis.primes):
                stream.fill_residues(p, part[lane, q])
        out[:, :, start : start + COLUMNS] = basis.matmul(matrix, part)
    return out


# --- dealt polynomials that sum to zero ------------------------------------------------------------


def deal_blinding(
    code: LagrangeCode, lanes: int, shape: tuple[int, ...], coins: Coins, total: Array | None = None
) -> list[Array]:
    """n secret shares (lanes, *shape) of uniform polynomials whose data values sum to zero.

    total: residues (lanes, *shape) that they sum to instead, such as noise: then a decoded distance has
    the totals of all dealers on it, and replies are blinded as well.

    Degree 2 (ell + t - 1), one polynomial a value.  Drawn as R - 1 uniform values at points other than
    beta_1, where the value is minus the sum of those at beta_2, ..., beta_ell.
    """
    basis = code.basis.prefix(lanes)
    points = (*code.betas, *code.alphas)[: code.threshold(2)]
    matrix = transfer_matrix(basis, points, code.alphas)
    # f(beta_1) = -sum_{u>1} f(beta_u): subtract the first column from those of the other data points.
    free = np.array(matrix[:, :, 1:])
    data = free[:, :, : code.ell - 1]
    free[:, :, : code.ell - 1] = basis.add(data, basis.negate(matrix[:, :, :1]))
    size = int(np.prod(shape, dtype=np.int64))
    shares = _expanded(basis, [coins] * free.shape[2], free, size)
    if total is not None:
        # f(beta_1) gets the total on top: the first column times it.
        shares = basis.add(shares, basis.matmul(matrix[:, :, :1], total.reshape(lanes, 1, size)))
    return [shares[:, j].reshape(lanes, *shape) for j in range(code.n)]


def deal_values(code: LagrangeCode, values: Array, coins: Coins) -> list[Array]:
    """n secret shares (lanes, *shape) of polynomials of these residues (lanes, ell, *shape) at data points.

    Of degree 2 (ell + t - 1), and otherwise uniform: as `deal_blinding` has it with a total, but of each.
    """
    basis, points = code.basis.prefix(len(values)), (*code.betas, *code.alphas)[: code.threshold(2)]
    matrix = transfer_matrix(basis, points, code.alphas)
    fixed, free = (np.ascontiguousarray(each) for each in np.split(matrix, [code.ell], axis=2))
    flat = np.ascontiguousarray(values).reshape(basis.lanes, code.ell, -1)
    shares = _expanded(basis, [coins] * free.shape[2], free, flat.shape[2])
    shares = basis.add(shares, basis.matmul(fixed, flat))
    return [shares[:, j].reshape(basis.lanes, *values.shape[2:]) for j in range(code.n)]


def seeded_clients(code: LagrangeCode, dealer: int, lanes: int) -> tuple[int, ...]:
    """The R - 1 clients whose shares of a dealer's blinding are expanded from seeds, sorted.

    They follow the dealer, who is the first, on the circle of clients, so many dealers burden all alike.
    Their shares are free, and with the zero sum fix all others unless P(x) = prod (x - alpha_j) over them
    sums to zero over the data points (never with ell = 1, else with probability about 1/p): then the
    window moves on by one.
    """
    for shift in range(code.n):
        window = [(dealer + shift + s) % code.n for s in range(code.threshold(2))]
        # The weight of any further client is sum_u P(beta_u) / P(alpha): zero for all or for none.
        chosen = tuple(sorted(window))
        _, weights = code.decoding_weights(chosen, 2)
        if (weights[:lanes, chosen.index(window[-1])] != 0).all():
            return tuple(sorted(window[:-1]))
    raise ValueError(
        f"modulo {code.basis.primes[:lanes]} no {code.threshold(2) - 1} neighboring clients' shares are "
        "free: deal the blinding without seeds, or use larger primes"
    )


def blinding_share(code: LagrangeCode, lanes: int, shape: tuple[int, ...], stream: Coins) -> Array:
    """A seeded client's share (lanes, *shape) of a dealer's blinding, from their stream at its start."""
    size = int(np.prod(shape, dtype=np.int64))
    share = np.empty((lanes, size), code.basis.dtype)
    # Chunk by chunk and lane by lane, as the dealer draws (`_expanded`).
    for start in range(0, size, COLUMNS):
        for lane, p in enumerate(code.basis.primes[:lanes]):
            stream.fill_residues(p, share[lane, start : start + COLUMNS])
    return share.reshape(lanes, *shape)


def deal_from_seeds(
    code: LagrangeCode, dealer: int, streams: Mapping[int, Coins], lanes: int, shape: tuple[int, ...]
) -> dict[int, Array]:
    """The shares a dealer sends, by client: n - R + 1 arrays (lanes, *shape), all others are expanded.

    streams[j] is at its start, for each of `seeded_clients`: shared with client j, the dealer's own coins
    for itself.  Client j then holds `blinding_share` of its stream.  The law is that of `deal_blinding`.
    For n = 16, R = 9 a dealer sends 8 residues a value and lane instead of 15, for n = R = 9 only one.
    """
    seeded = seeded_clients(code, dealer, lanes)
    missing = [j for j in seeded if j not in streams]
    if missing:
        raise ValueError(f"dealer {dealer} has no stream for {missing}: share keys with the seeded clients")
    basis = code.basis.prefix(lanes)
    others = tuple(j for j in range(code.n) if j not in seeded)
    matrix = _determined(code, seeded, others, lanes)
    size = int(np.prod(shape, dtype=np.int64))
    shares = _expanded(basis, [streams[j] for j in seeded], matrix, size)
    return {j: shares[:, q].reshape(lanes, *shape) for q, j in enumerate(others)}


def _determined(code: LagrangeCode, seeded: tuple[int, ...], others: tuple[int, ...], lanes: int) -> Array:
    """The matrix from the seeded clients' shares to the others', given a zero sum: (lanes, others, R-1)."""
    basis = code.basis.prefix(lanes)
    chosen = tuple(sorted((*seeded, others[0])))
    at = chosen.index(others[0])
    _, weights = code.decoding_weights(chosen, 2)
    # y_at = -w_at^-1 sum of the other w_j y_j; then the R values give all the rest.
    whole = np.zeros((lanes, len(chosen), len(seeded)), basis.dtype)
    for lane, p in enumerate(basis.primes):
        inverse = pow(int(weights[lane, at]), -1, p)
        for q, j in enumerate(seeded):
            whole[lane, chosen.index(j), q] = 1
            whole[lane, at, q] = -int(weights[lane, chosen.index(j)]) * inverse % p
    points = tuple(code.alphas[j] for j in chosen)
    return basis.matmul(transfer_matrix(basis, points, tuple(code.alphas[j] for j in others)), whole)


# --------------------------------------------------------------------------------------------------
# Secrets that some clients hold in additive parts, shared anew among clients that compute on them.
#
# Every holder deals its part: a polynomial of degree ell + t - 1 with the part at every one of the ell data
# points, so that products with coded points are of the parts with every segment.  Its values at t of the
# receivers are expanded from seeds that it shares with them, and nothing is sent for these; with the part
# they fix it.  So any t receivers hold uniform values, whatever the part; shares of several holders' parts
# add up to shares of the secret.
#
# (A polynomial of degree t that equals the part at all ell data points would be private against t - ell + 1
# receivers only.)
#
# A product of shares has twice the degree.  `weighted_part` makes of one client's share of a product what it
# deals of it, such that the shares of what all of them deal add up to shares of degree ell + t - 1 again
# (Ben-Or, Goldwasser and Wigderson, STOC 1988), segment by segment.
#
# Everything here is secret, residues in every lane.


def seeded_receivers(code: LagrangeCode, holder: int, receivers: tuple[int, ...]) -> tuple[int, ...]:
    """The t receivers whose shares of a holder's part follow from seeds.

    Those after it, on the circle of receivers: as there are more than 2 t of them, a seed of two clients
    serves one of them as the holder, never both.
    """
    at = receivers.index(holder) if holder in receivers else -1
    return tuple(receivers[(at + s) % len(receivers)] for s in range(1, code.t + 1))


def deal_part(
    code: LagrangeCode,
    part: Array,
    known: tuple[int, ...],
    receivers: tuple[int, ...],
    seeds: Sequence[Coins],
    further: Sequence[int] = (),
) -> dict[int, Array]:
    """The shares (lanes, N) of a part (lanes, N) for all receivers that do not expand theirs, by number.

    Of a part (lanes, ell, N) each data point has its own values.
    known: t receivers that do, see `seeded_receivers`; seeds: theirs, each good for once (`expand_share`).
    further: clients that get shares as well, and compute nothing on them.
    """
    others = (*(j for j in receivers if j not in known), *further)
    basis, ell = code.basis, code.ell
    points = (*code.betas[:ell], *(code.alphas[j] for j in known))
    matrix = transfer_matrix(basis, points, tuple(code.alphas[j] for j in others))
    if part.ndim == 2:
        # The same value at all data points: their columns as one.
        first = matrix[:, :, :ell].sum(axis=2, dtype=np.uint64) % basis.column(2, np.uint64)
        matrix = np.concatenate([first.astype(basis.dtype)[:, :, None], matrix[:, :, ell:]], axis=2)
        part = part[:, None]
    expanded = [expand_share(code, part.shape[2], seed)[:, None] for seed in seeds]
    shares = basis.matmul(matrix, np.concatenate([part, *expanded], axis=1))
    return {j: np.ascontiguousarray(shares[:, q]) for q, j in enumerate(others)}


def uniform_receivers(code: LagrangeCode, holder: int, receivers: tuple[int, ...]) -> tuple[int, ...]:
    """The receivers whose shares of what a holder draws follow from seeds, as of `seeded_receivers`.

    With its own share, if it receives one, they are ell + t.
    """
    if holder not in receivers:
        return receivers[: code.ell + code.t]
    at = receivers.index(holder)
    return tuple(receivers[(at + s) % len(receivers)] for s in range(1, code.ell + code.t))


def deal_uniform(
    code: LagrangeCode,
    basis: Basis,
    size: int,
    holder: int,
    receivers: tuple[int, ...],
    streams: Mapping[int, Coins],
) -> dict[int, Array]:
    """The shares (lanes, size) of uniform values at all segments, of the holder and who expands none.

    basis: the first lanes of the code's.  streams: each good for once, with `uniform_receivers`; of a holder
    that receives a share also its own coins.  Any t shares are uniform, and given these what is shared is.
    """
    known = uniform_receivers(code, holder, receivers)
    given = known if holder not in receivers else (holder, *known)
    others = tuple(j for j in receivers if j not in given)
    columns = np.stack([basis.sample((size,), streams[j]) for j in given], axis=1)
    found: dict[int, Array] = {}
    if others:
        points = tuple(code.alphas[j] for j in given)
        matrix = transfer_matrix(basis, points, tuple(code.alphas[j] for j in others))
        shares = basis.matmul(matrix, columns)
        found = {j: np.ascontiguousarray(shares[:, q]) for q, j in enumerate(others)}
    return found if holder not in receivers else {**found, holder: np.ascontiguousarray(columns[:, 0])}


def expand_share(code: LagrangeCode, size: int, seed: Coins) -> Array:
    """A receiver's share (lanes, size) that follows from a seed."""
    return code.basis.sample((size,), seed)


def weighted_part(code: LagrangeCode, holders: tuple[int, ...], me: int, product: Array) -> Array:
    """What client me deals of its share (lanes, rows, width) of a product: (lanes, rows, ell * width).

    To be shared with `LagrangeCode.share` by every holder, threshold(2) of them, ascending.
    """
    alphas = tuple(code.alphas[j] for j in holders)
    matrix = transfer_matrix(code.basis, alphas, code.betas[: code.ell])
    column = matrix[:, :, holders.index(me)]
    return np.concatenate(
        [code.basis.multiply(product, column[:, u, None, None]) for u in range(code.ell)], axis=2
    )
