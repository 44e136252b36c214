"""What a committee opens is checked before anything leaves it, where several play each part (`blocks`).

The first client of a part tells its words, the others compute the same and are silent.  So that a client that
deviates is found out, whatever it tells to whom,

* every member commits to a coin when it deals for the check of replies, and then opens one of a chain of
  coins, each the digest of the next, with every opening: when it knows all that was opened before it;
* with the opening after that it tells a digest of that, under all coins.  Who is told another digest than its
  own says nothing more: two versions of the words of one part would show an entry of a table.  A digest is
  told only where those before agree, so it is of words of one version;
* after the last opening, two rounds more: a coin; then a digest of all that each of its parts said
  (`field.code.consistency`).  All clients of a part must have the same, and those of all parts add up to
  that of what was opened: at most a members deviate, so one of every part computes what is right, and its
  digest is right too;
* shares of labels, under masks that all members expand of one key, go to every receiver from the first client
  of a part, and 32 bytes of them from each of the others.

A check fails or not by what was added to words, and by coins, whatever the rows are.  A digest of a part is a
combination of its words, each under a mask of its own: who misses the part learns what the sum of those of
all parts shows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from field.arrays import Array
from field.code.consistency import SIZE as TAG
from field.code.consistency import LinearDigest
from field.ring.basis import Basis
from field.secrets.coins import Coins
from secfc.coded.messages import MaskedBits
from secfc.disclosure.checked.blocks import Blocks
from secfc.disclosure.checked.messages import SIZE, PartDigests
from secfc.disclosure.checked.parts import SEED, PartKeys
from secfc.roles.blame import suspect_parties
from secfc.roles.exchange import SERVER, PartyId, blame_error


class DigestSum:
    """Digests that were added up: of words, and (lanes, 2) of residues."""

    def __init__(self, basis: Basis) -> None:
        self.basis = basis
        self.words, self.residues = 0, np.zeros((basis.lanes, 2), basis.dtype)

    def add(self, digest: LinearDigest, *opened: Array) -> None:
        """Add that of an opening, of arrays of one kind."""
        if opened[0].dtype == np.uint64:
            self.words ^= int.from_bytes(digest.words(opened), "little")
        else:
            self.residues = self.basis.add(self.residues, digest.residues(self.basis, opened))

    def join(self, other: DigestSum) -> None:
        """Add another one."""
        self.words ^= other.words
        self.residues = self.basis.add(self.residues, other.residues)

    def __bytes__(self) -> bytes:
        little = self.residues.dtype.newbyteorder("<")
        return self.words.to_bytes(TAG, "little") + self.residues.astype(little).tobytes()


def digest_length(basis: Basis) -> int:
    """Bytes of a sum of digests."""
    return len(bytes(DigestSum(basis)))


def read_digest(basis: Basis, data: bytes) -> DigestSum:
    """A sum of digests from its bytes, of the length that these have."""
    out = DigestSum(basis)
    out.words = int.from_bytes(data[:TAG], "little")
    little = np.dtype(basis.dtype).newbyteorder("<")
    primes = np.array(basis.primes, np.uint64)[:, None]
    values = np.frombuffer(data[TAG:], little).reshape(basis.lanes, 2)
    out.residues = (values % primes).astype(basis.dtype)
    return out


class CommitteeWords:
    """A member's part in what a committee says of one question: which parts it plays, and whether all fits.

    context: what streams of the question are bound to.  dealers: who may tell the clients of a part different
    corrections.  rounds: how often something is opened, at most.  seeds: of the parts that it is the first
    of, by number; where each part is played by one it draws its own, which nobody else knows.  coins: secret.
    """

    def __init__(
        self,
        context: bytes,
        blocks: Blocks,
        committee: Sequence[PartyId],
        dealers: Sequence[PartyId],
        name: PartyId,
        rounds: int,
        seeds: Mapping[int, bytes],
        coins: Coins,
    ) -> None:
        self.context, self.blocks, self.committee, self.name = context, blocks, tuple(committee), name
        self.dealers = tuple(dealers)
        self.at = self.committee.index(name)
        self.seeds = dict(seeds) if blocks.deviating else {self.at: coins.bytes(SEED)}
        self.key = b"" if self.at else coins.bytes(SIZE)
        self.links = [coins.bytes(SIZE)]
        if blocks.deviating:
            # The last opening is followed by a coin of its own.
            for _ in range(rounds + 1):
                self.links.append(_link(self.links[-1]))
        self.last: dict[PartyId, bytes] = {}  # of each other member the coin that it opened last
        self.fresh = False  # whether the next exchange is the first one of an opening
        self.said: dict[int, Array] = {}
        self.opened: tuple[Array, ...] = ()
        self.heard = b""
        self.view: DigestSum | None = None  # what `heard` is next
        self.due: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"CommitteeWords({self.name!r}, secret)"

    @property
    def parts(self) -> tuple[int, ...]:
        """Numbers of the parts that I play."""
        return self.blocks.played_by(self.at)

    @property
    def keys(self) -> PartKeys:
        """What hides, and deals, what my parts tell."""
        return PartKeys(self.blocks, self.at, self.key, self.seeds)

    # --- before the comparison ------------------------------------------------------------------------

    def told(self) -> dict[PartyId, bytes]:
        """What I tell each other member beforehand: a commitment; as the first of all the key of masks; the
        seeds of parts that I am the first of, and it plays."""
        first = self.links[-1] if self.blocks.deviating else b""
        return {
            c: first + self.key + b"".join(self.seeds[q] for q in self._shared(self.at, i))
            for i, c in enumerate(self.committee)
            if i != self.at
        }

    def take(self, told: Mapping[PartyId, bytes]) -> None:
        """Take what the others tell me.  Raises FaultyClient naming the sender of anything else."""
        for i, c in enumerate(self.committee):
            if i == self.at:
                continue
            shared, data = self._shared(i, self.at), told[c]
            commitment, key = SIZE * bool(self.blocks.deviating), SIZE * (i == 0)
            due = commitment + key + SEED * len(shared)
            if len(data) != due:
                raise blame_error(c, f"told {len(data)} bytes of parts where {due} were due")
            self.last[c] = data[:commitment]
            self.key = data[commitment : commitment + key] or self.key
            rest = data[commitment + key :]
            self.seeds |= {q: rest[SEED * x : SEED * (x + 1)] for x, q in enumerate(shared)}

    def _shared(self, first: int, other: int) -> list[int]:
        """Parts that a member is the first of and another plays."""
        return [q for q in self.blocks.told_by(first) if other in self.blocks.parts[q]]

    # --- while it goes on -----------------------------------------------------------------------------

    def begin(self, basis: Basis, masked: Array, further: Array) -> None:
        """All members have these masked replies.  basis: of what they open.

        further: empty where these come behind the others.  A witness that is honest tested its own, so of
        members that have masked replies in common none needs another's.
        """
        self.basis, self.fresh = basis, True
        self.total = DigestSum(basis)
        self.each = {q: DigestSum(basis) for q in self.parts}
        rest = np.frombuffer(further.tobytes() + self.key, np.uint8)
        self.opened = _as_words(masked), _as_words(rest)

    def hold(self, said: Mapping[int, Array], opened: Array) -> None:
        """My parts said these, and that was opened."""
        self.fresh, self.said, self.opened = True, dict(said), (opened,)

    def attached(self, send: Mapping[PartyId, MaskedBits]) -> dict[PartyId, MaskedBits]:
        """With what goes with an opening: a coin, and what I heard under those before."""
        if not (self.fresh and self.blocks.deviating):
            return dict(send)
        self._digest()
        coin = self.links[-2]
        each = {id(message): MaskedBits(message.words, coin, self.heard) for message in send.values()}
        return {c: each[id(message)] for c, message in send.items()}

    def receive(self, heard: Mapping[PartyId, MaskedBits]) -> None:
        """Take what came with the others' openings; digests under the coins of all are due then.

        Raises FaultyClient for a coin that nobody committed to, SuspectedParties where views differ.
        """
        if not (self.fresh and self.blocks.deviating):
            return
        self.fresh = False
        self._agree({c: message.heard for c, message in heard.items()})
        for c, message in heard.items():
            if _link(message.coin) != self.last[c]:
                raise blame_error(c, "opened another coin than it committed to")
            self.last[c] = message.coin
        self.links.pop()
        coins = self.last | {self.name: self.links[-1]}
        text = self.context + b"".join(coins[c] for c in self.committee)
        seed = hashlib.blake2b(text, digest_size=32, person=b"secfc-words-seed").digest()
        digest, self.view = LinearDigest(seed), DigestSum(self.basis)
        parts = (partial(self.each[q].add, digest, words) for q, words in self.said.items())
        self.due, self.said = [partial(self.view.add, digest, *self.opened), *parts], {}

    def take_due(self) -> list[Callable[[], None]]:
        """Digests to be made before I say more, in any order or at once; whoever takes them makes them."""
        taken, self.due = self.due, []
        return taken

    def _digest(self) -> None:
        for make in self.take_due():
            make()
        if self.view is not None:
            if self.heard:
                self.total.join(self.view)  # masked replies, which come first, are of no part
            self.heard, self.view = bytes(self.view), None

    def _agree(self, heard: Mapping[PartyId, bytes]) -> None:
        if any(digest != self.heard for digest in heard.values()):
            why = f"members of the committee heard different words{UNOPENED}"
            raise suspect_parties(
                "MaskedBits", why, committee=self.committee, dealers=self.dealers, server=SERVER
            )

    # --- at the end -----------------------------------------------------------------------------------

    def digests(self) -> PartDigests:
        """What I tell the others at last."""
        self._digest()
        return PartDigests(self.heard, b"".join(bytes(self.each[q]) for q in self.parts))

    def conclude(self, told: Mapping[PartyId, PartDigests]) -> None:
        """Test that all parts said what all their clients compute, and that it adds up.

        Raises SuspectedParties if not, FaultyClient for digests of another length.
        """
        self._agree({c: message.heard for c, message in told.items()})
        size = digest_length(self.basis)
        found = {q: {self.name: bytes(digest_sum)} for q, digest_sum in self.each.items()}
        for c, message in told.items():
            parts = self.blocks.played_by(self.committee.index(c))
            if len(message.parts) != size * len(parts):
                raise blame_error(c, f"told digests of {len(message.parts)} bytes for {len(parts)} parts")
            for x, q in enumerate(parts):
                found.setdefault(q, {})[c] = message.parts[size * x : size * (x + 1)]
        whole = DigestSum(self.basis)
        for _, by in sorted(found.items()):
            if len(set(by.values())) > 1:
                why = f"{', '.join(sorted(by))} play one part, and do not compute the same{UNOPENED}"
                raise suspect_parties("PartDigests", why, players=by, dealers=self.dealers, server=SERVER)
            whole.join(read_digest(self.basis, next(iter(by.values()))))
        if bytes(whole) != bytes(self.total):
            why = f"what was opened is not what the parts add up to{UNOPENED}"
            raise suspect_parties("PartDigests", why, committee=self.committee, server=SERVER)


# Of errors that end a step.
UNOPENED = "; nothing of this step was opened"


def _as_words(array: Array) -> Array:
    """The bytes of an array as words; not copied if they are so many."""
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return np.pad(flat, (0, -flat.size % 8)).view(np.uint64) if flat.size % 8 else flat.view(np.uint64)


def _link(coin: bytes) -> bytes:
    """The coin that is opened before this one."""
    return hashlib.blake2b(coin, digest_size=SIZE, person=b"secfc-coin-chain").digest()
