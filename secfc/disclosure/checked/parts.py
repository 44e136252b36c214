"""What a committee holds by part, and tells or deals of it: labels that stay shared, and rounded centers.

All clients of a part hold the same (`secfc.disclosure.checked.blocks`).  Its first client tells the part's
words, the others 32 bytes of them, to every receiver; so a client that deviates alone changes nothing of what
leaves a committee, and is found out.  Masks that add up to zero, and coins of a part, follow from a key that
members alone know: the dealer knows the seeds of parts, and not that key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from field.arrays import Array
from field.code.lagrange_code import LagrangeCode
from field.code.masking import deal_part, expand_share
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.disclosure.checked.blocks import Blocks
from secfc.disclosure.checked.messages import SIZE, PartShares
from secfc.errors import SuspectedParties
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, PartyId, blame_error
from secfc.roles.messages import check_residues

# Bytes of what the tables of a part, or a share of it, are expanded from.
SEED = 16


@dataclass(frozen=True, eq=False, repr=False)
class PartKeys:
    """A member's secrets.

    at: its number in the committee.  key: 32 bytes, known to members alone.  seeds: of the parts that it
    plays, by number; known to a part's clients, and the dealer.
    """

    blocks: Blocks
    at: int
    key: bytes
    seeds: Mapping[int, bytes]

    def coins(self, part: int, context: bytes, purpose: bytes) -> Coins:
        """A stream that the clients of a part have alike; each purpose within a context once."""
        return self._stream(self.seeds[part] + context + purpose, b"secfc-part-coins")

    def hide(
        self, context: bytes, shares: Mapping[int, Array], basis: Basis | None = None
    ) -> dict[int, Array]:
        """My parts' shares under masks that add up to zero: words, or residues (lanes, ...) of this basis."""
        stream, shape, masks = (
            self._stream(context, b"secfc-part-masks"),
            next(iter(shares.values())).shape,
            [],
        )
        for _ in self.blocks.parts[1:]:
            mask = np.empty(shape, np.uint64)
            if basis is None:
                stream.fill(mask)
            else:
                mask = basis.sample(shape[1:], stream)
            masks.append(mask)
        if basis is None:
            masks.append(reduce(np.bitwise_xor, masks, np.zeros(shape, np.uint64)))
            return {q: share ^ masks[q] for q, share in shares.items()}
        total = reduce(basis.add, masks, np.zeros(shape, basis.dtype))
        masks.append(basis.negate(total).astype(basis.dtype))
        return {q: basis.add(share, masks[q]) for q, share in shares.items()}

    def _stream(self, text: bytes, person: bytes) -> Coins:
        return Coins(hashlib.blake2b(text, key=self.key, digest_size=16, person=person).digest())


def tell_shares(blocks: Blocks, at: int, context: bytes, shares: Mapping[int, Array]) -> tuple[Array, bytes]:
    """What the at-th member tells of its parts' shares, by number: those of the parts that it is the first
    of, one after the other along the first axis; and digests of the others."""
    first = blocks.told_by(at)
    nothing = next(iter(shares.values()))[:0]
    digests = [digest_share(context, q, shares[q]) for q in sorted(shares) if q not in first]
    return np.concatenate([nothing, *(shares[q] for q in first)]), b"".join(digests)


def digest_share(context: bytes, part: int, share: Array) -> bytes:
    """32 bytes of a part's share."""
    text = context + part.to_bytes(4, "little")
    digest = hashlib.blake2b(text, digest_size=SIZE, person=b"secfc-part-share")
    digest.update(np.ascontiguousarray(share, share.dtype.newbyteorder("<")).data)
    return digest.digest()


def split_shares(
    blocks: Blocks,
    committee: Sequence[PartyId],
    context: bytes,
    words: Mapping[PartyId, Array],
    digests: Mapping[PartyId, bytes],
    what: str = "labels",
) -> list[Array]:
    """Every part's share of what leaves a committee, of what its first client said (parts, ...), by member.

    digests: what each member said of other parts that it plays.
    Raises SuspectedParties where a part's clients say different things, FaultyClient for digests of another
    length.
    """
    shares = {q: words[c][x] for i, c in enumerate(committee) for x, q in enumerate(blocks.told_by(i))}
    for i, c in enumerate(committee):
        silent = [q for q in blocks.played_by(i) if blocks.parts[q][0] != i]
        check_vouched(c, digests[c], silent, what)
        for x, q in enumerate(silent):
            if digest_share(context, q, shares[q]) != digests[c][SIZE * x : SIZE * (x + 1)]:
                raise suspects_of_part("LabelShare", [committee[j] for j in blocks.parts[q]], what)
    return [shares[q] for q in range(len(blocks.parts))]


def check_vouched(sender: PartyId, digests: bytes, parts: Sequence[int], what: str) -> None:
    """Raises FaultyClient for digests of another number of parts."""
    if len(digests) != SIZE * len(parts):
        raise blame_error(sender, f"told {len(digests)} bytes of {len(parts)} shares of {what}")


def suspects_of_part(kind: str, clients: Sequence[PartyId], what: str) -> SuspectedParties:
    """The error that ends a run in which clients of a part say different things.

    Digests are of the question too, so it looks the same where the server asks one of them something else.
    """
    why = f"{', '.join(clients)} play one part, and do not say the same of {what}"
    return suspect_parties(kind, f"{why}: those of this step are not used", players=clients, server=SERVER)


@dataclass(frozen=True, eq=False)
class PartDealing:
    """How members share among responders what they hold by part: everything public.

    code: of the shares.  context: 32 bytes, of this dealing alone.  members, responders: numbers of clients.
    size: residues a lane of a share.  what: is shared, for errors.
    """

    code: LagrangeCode
    clients: tuple[PartyId, ...]
    blocks: Blocks
    members: tuple[int, ...]
    responders: tuple[int, ...]
    context: bytes
    size: int
    what: str

    def players(self, part: int) -> tuple[int, ...]:
        """Numbers of a part's clients, the first one first."""
        return tuple(self.members[i] for i in self.blocks.parts[part])

    def seeded(self, part: int) -> tuple[int, ...]:
        """The t responders whose shares follow from seeds that they are told: others than the part's clients,
        as far as there are."""
        players = self.players(part)
        return tuple(sorted(self.responders, key=lambda j: j in players))[: self.code.t]

    def deal(
        self, me: int, keys: PartKeys, secrets: Mapping[int, Array]
    ) -> tuple[dict[int, PartShares], dict[int, Array]]:
        """What I tell every responder of my parts, (lanes, size), or with an axis of segments in between; and
        by part my own share, if I respond."""
        found, seeds = dict[int, dict[int, Array]](), dict[int, dict[int, bytes]]()
        for q, secret in secrets.items():
            stream, known = keys.coins(q, self.context, self.what.encode()), self.seeded(q)
            seeds[q] = {j: stream.bytes(SEED) for j in known}
            each = [Coins(seed) for seed in seeds[q].values()]
            found[q] = deal_part(self.code, secret, known, self.responders, each)
            found[q] |= {j: expand_share(self.code, self.size, Coins(s)) for j, s in seeds[q].items()}
        send = {j: self._told(me, j, found, seeds) for j in self.responders if j != me}
        return send, {q: shares[me] for q, shares in found.items() if me in shares}

    def _told(
        self,
        me: int,
        to: int,
        found: Mapping[int, Mapping[int, Array]],
        seeds: Mapping[int, Mapping[int, bytes]],
    ) -> PartShares:
        """What I tell one responder, of shares and seeds by part and receiver."""
        theirs = [q for q in sorted(found) if to not in self.players(q)]
        first = [q for q in theirs if self.players(q)[0] == me]
        nothing = np.empty((self.code.basis.lanes, 0), self.code.basis.dtype)
        return PartShares(
            np.concatenate([nothing, *(found[q][to] for q in first if to not in seeds[q])], axis=1),
            b"".join(seeds[q][to] for q in first if to in seeds[q]),
            b"".join(digest_share(self.context, q, found[q][to]) for q in theirs if q not in first),
        )

    def take(self, me: int, own: Mapping[int, Array], told: Mapping[int, PartShares]) -> Array:
        """My share (lanes, size) of what all parts add up to, as `take_each`."""
        return reduce(self.code.basis.add, self.take_each(me, own, told))

    def take_each(self, me: int, own: Mapping[int, Array], told: Mapping[int, PartShares]) -> list[Array]:
        """My share (lanes, size) of each part, if I respond.  told: by members, by number.

        Raises FaultyClient for anything of another form, SuspectedParties where a part's clients disagree.
        """
        shares = self.read(me, own, told)
        self.check(me, shares, {j: message.digests for j, message in told.items()})
        return [shares[q] for q in sorted(shares)]

    def read(self, me: int, own: Mapping[int, Array], told: Mapping[int, PartShares]) -> dict[int, Array]:
        """My shares by part, of which nothing is compared yet."""
        shares = dict(own)
        for j, message in told.items():
            shares |= self._read(me, j, self._told_by(me, j)[0], message)
        return shares

    def check(self, me: int, shares: Mapping[int, Array], told: Mapping[int, bytes]) -> None:
        """Compare my shares by part with digests of members, by number.  Raises as `take_each`."""
        vouched = list[tuple[int, bytes]]()
        for j, digests in told.items():
            _, silent = self._told_by(me, j)
            check_vouched(self.clients[j], digests, silent, self.what)
            vouched += [(q, digests[SIZE * x : SIZE * (x + 1)]) for x, q in enumerate(silent)]
        for q, digest in vouched:
            if digest_share(self.context, q, shares[q]) != digest:
                raise suspects_of_part("PartShares", [self.clients[i] for i in self.players(q)], self.what)

    def _told_by(self, me: int, member: int) -> tuple[list[int], list[int]]:
        """Parts that a member plays and I do not: of which it is the first, and the others."""
        mine = [q for q in self.blocks.played_by(self.members.index(member)) if me not in self.players(q)]
        first = [q for q in mine if self.players(q)[0] == member]
        return first, [q for q in mine if q not in first]

    def _read(self, me: int, sender: int, first: Sequence[int], message: PartShares) -> dict[int, Array]:
        """My shares of the parts that a member is the first of."""
        seeded = [q for q in first if me in self.seeded(q)]
        plain, who = [q for q in first if q not in seeded], self.clients[sender]
        if len(message.seeds) != SEED * len(seeded):
            raise blame_error(who, f"told {len(message.seeds)} bytes of {len(seeded)} seeds of {self.what}")
        check_residues(self.code.basis, who, message.values, (self.size * len(plain),))
        values = np.split(message.values, len(plain), axis=1) if plain else []
        shares = dict(zip(plain, (np.ascontiguousarray(x) for x in values), strict=True))
        cuts = [message.seeds[SEED * x : SEED * (x + 1)] for x in range(len(seeded))]
        return shares | {
            q: expand_share(self.code, self.size, Coins(seed)) for q, seed in zip(seeded, cuts, strict=True)
        }
