"""Everything public about a union: who takes part, who may collude, how large the tables are.

Sizes: four hash functions and C = 1.5 m + 96 cells for a union of m.  Peeling random tables of that size
fails with probability at most about 1e-3 for every m of at least 16, and far less for large m; a failure
is noticed and tried again with a new salt and a table a quarter larger.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from itertools import combinations
from numbers import Integral

from field.cached import cached_property
from field.ring.basis import MERSENNE_61
from field.ring.errors import InvalidValue

HASHES = 4
CELLS_PER_ID, CELLS_MORE, GROWTH = 1.5, 96, 1.25
# The sizing round estimates with a standard deviation of about 1.5 %; the rest of its error is covered
# by CELLS_PER_ID, at which tables are peeled completely even if 10 % too full.
SIZE_MARGIN = 1.05
MAX_ROUNDS = 64
# A table of width w is dealt, masked and sent in chunks of this many rows, so memory stays flat.
CHUNK_ROWS = 1 << 13
# Levels of the sizing bitmap hold this many slots each.
SLOTS = 1 << 12
# Committees with more subsets than this have the coefficients of openings dealt; t = 5 of 11 has 462 of them,
# of which a member expands 252 streams.
MAX_SUBSETS = 500
# Cells are opened at most 2.5 times each, on average over a table, until it is peeled.
OPENINGS, OPENINGS_MORE = 2.75, 256
# A quota of oblivious tags costs every client about half a millisecond an ID, whether it has the ID or not.
MAX_QUOTA = 1 << 24
# Words of each kind of sheet a member holds per row, and elements opened per row.
WIDTHS = {"slots": 1, "cells": 6, "lines": 3, "counts": 1, "spread": 3, "once": 1, "coins": 3}
OPENED = {"slots": 1, "cells": 3, "counts": 1, "spread": 1, "once": 1}


@dataclass(frozen=True)
class Committee:
    """Mode in which any t clients together with the relay learn the union and nothing else; t < n/2.

    Parameters
    ----------
    t
        Colluding clients tolerated, at least 1.
    spares
        Committee members that may be silent in a round; needs n >= 2t + 1 + spares.

    Raises
    ------
    TypeError
        For what is no whole number.
    InvalidValue
        For numbers out of their ranges.

    Notes
    -----
    Leakage, semi-honest: the joint view of at most t clients and the relay can be simulated from their own
    IDs, the union (as tags, and as IDs where they can guess them) and public parameters.  Rounds, which cells
    are opened when, failed attempts and the size estimate are functions of the union and the salt.  Hidden,
    also from the coalition: owners, multiplicities, sizes of sets, intersections.  Inherent: the coalition
    learns which IDs of the union are not its own; with n = 3 and t = 1 these belong to one or both of the two
    others.

    Protocol: the first 2t+1+spares clients hold Shamir shares of degree t of a table of Gram cells sum_x R_x
    u_x u_x^T, u_x = (1, z, y), R_x the sum of the holders' random coefficients.  A cell is only opened as g^T
    M for a fresh secret uniform g in F_q^3.  Whatever the R_x are, also if the coalition knows them, that is:
    zero for an empty cell, a uniform multiple of u_x for one ID, uniform in span(u_x, u_x') for two, uniform
    in F_q^3 for more unless M is singular (probability at most 4/q a cell).  So each opening is a random
    function of the union alone.

    Statistical error, q = 2**61 - 1, for m = 2**20: singular cells 2**-37, a vanishing R_x 2**-41, equal tags
    2**-43, a cell mistaken for one ID 2**-37.  Computational assumptions: AES-128, X25519, Ed25519,
    HKDF-SHA256, AES-256-GCM.

    Clients that deviate can make the union fail, or hide or add IDs of their own, also IDs that they guess;
    clients compare the group key and the union (`psu.align.confirm_union`), so that neither client 0 nor the
    relay can tell them different ones.  secfc/disclosure/README.md says what else a deviating party can do.
    """

    t: int
    spares: int = 0

    def __post_init__(self) -> None:
        for name, value in (("t", self.t), ("spares", self.spares)):
            if isinstance(value, bool) or not isinstance(value, Integral):
                raise TypeError(f"{name}={value!r} is no whole number: pass an integer, such as 1")
        if self.t < 1 or self.spares < 0:
            raise InvalidValue(
                f"t={self.t}, spares={self.spares}: t must be at least 1 and spares at least 0, as with t=0 "
                "every committee member would see every client's IDs. Raise what is below"
            )


@dataclass(frozen=True)
class Server:
    """Mode in which any n-2 clients learn the union and nothing else, if the server colludes with nobody.

    Notes
    -----
    Leakage, semi-honest: the server learns the tags of the union (pseudonyms under a key that it lacks), so
    the size of the union, and for each tag a uniform number that says nothing of its holders.  Clients learn
    the union only.

    A server that colludes with one client learns which of that client's IDs somebody else holds as well
    (never who, nor how many), and can test guesses of IDs against the union.  Use `Committee` if that
    matters.  Every client has to stay until its upload is complete: there are no spares.
    """


Mode = Committee | Server


@dataclass(frozen=True)
class Sheet:
    """A table of secret residues that clients add into: kind, attempt, rows; its width follows."""

    kind: str
    attempt: int
    rows: int

    def __post_init__(self) -> None:
        if self.kind not in WIDTHS or self.attempt < 0 or self.rows < 0:
            raise InvalidValue(f"no sheet has kind={self.kind!r}, attempt={self.attempt}, rows={self.rows}")

    @property
    def label(self) -> str:
        """What keys and messages for this sheet are bound to."""
        return f"{self.kind}/{self.attempt}/{self.rows}"

    @property
    def width(self) -> int:
        return WIDTHS[self.kind]

    @property
    def opened(self) -> int:
        """Elements opened per row in threshold mode."""
        return OPENED[self.kind]

    @property
    def chunks(self) -> int:
        return -(-self.rows // CHUNK_ROWS)

    def span(self, chunk: int) -> slice:
        """The rows of a chunk."""
        return slice(chunk * CHUNK_ROWS, min(self.rows, (chunk + 1) * CHUNK_ROWS))


@dataclass(frozen=True)
class UnionPlan:
    """Public parameters of a union; all parties hold equal ones (`digest`).

    Parameters
    ----------
    n
        Number of clients, from 2 to 1024, numbered from 0 to n - 1.
    mode
        Who may collude: `Committee` or `Server`.
    session
        16 to 64 bytes that no other run uses.
    bound
        Public upper bound on the size of the union, up to 2**32.  Do not compute it from exact sizes of sets:
        that would reveal them.
    sized
        Whether a sizing round first estimates the size of the union.  Without it tables are made for `bound`.
    attempts
        Maximum number of tables to try, from 1 to 16.
    min_clients
        Minimum number of contributing clients; fewer abort the union.
    quota
        0 for tags under a key that all clients share.  Otherwise tags are evaluated obliviously
        (`psu.oblivious`), for at most this many IDs of each client; a public number, like the bound.
    evaluation_keys
        Public keys of the evaluators (`evaluators`, in order), 32 bytes each; empty before they are drawn.

    Raises
    ------
    InvalidValue
        For numbers out of their ranges, or a mode that n clients cannot carry.
    """

    n: int
    mode: Mode
    session: bytes
    bound: int = 1 << 24
    sized: bool = True
    attempts: int = 3
    min_clients: int = 2
    quota: int = 0
    evaluation_keys: tuple[bytes, ...] = ()

    def __post_init__(self) -> None:
        if not 16 <= len(self.session) <= 64:
            raise InvalidValue(f"session has {len(self.session)} bytes: draw 16 to 64 for every run")
        if self.n < 2 or self.n > 1024:
            raise InvalidValue(f"n={self.n}: a union needs 2 to 1024 clients")
        if not 1 <= self.bound <= 1 << 32:
            raise InvalidValue(f"bound={self.bound}: the bound on the union must lie in [1, 2**32]")
        if not (1 <= self.attempts <= 16 and 1 <= self.min_clients <= self.n):
            raise InvalidValue(
                f"attempts={self.attempts} must lie in [1, 16], min_clients={self.min_clients} in [1, n]"
            )
        if not 0 <= self.quota <= MAX_QUOTA:
            raise InvalidValue(f"quota={self.quota}: of oblivious tags it lies in [1, 2**24], 0 is for none")
        if self.evaluation_keys and len(self.evaluation_keys) != len(self.evaluators):
            raise InvalidValue(
                f"{len(self.evaluation_keys)} evaluation keys for {len(self.evaluators)} evaluators: one each"
            )
        if isinstance(self.mode, Committee):
            t, needed = self.mode.t, 2 * self.mode.t + 1 + self.mode.spares
            if self.n < needed:
                raise InvalidValue(
                    f"n={self.n} clients cannot hold a committee for t={t} and {self.mode.spares} "
                    f"spares: 2t+1+spares = {needed} are needed. Lower t or spares, or use mode=Server()."
                )
            if self.dealt and self.mode.spares > t:
                raise InvalidValue(
                    f"t={t} with {self.mode.spares} spares: at most t={t} are possible where coefficients "
                    "are dealt, as two quorums must have an honest member in common. Lower spares"
                )

    @property
    def t(self) -> int:
        """Degree of the sharing; 0 in server mode, which shares nothing."""
        return self.mode.t if isinstance(self.mode, Committee) else 0

    @property
    def committee(self) -> tuple[int, ...]:
        """The clients that hold shares: the first 2t+1+spares, none in server mode."""
        if isinstance(self.mode, Committee):
            return tuple(range(2 * self.mode.t + 1 + self.mode.spares))
        return ()

    @property
    def quorum(self) -> int:
        """How many members open a value: a product of two sharings has degree 2t."""
        return 2 * self.t + 1

    @property
    def evaluators(self) -> tuple[int, ...]:
        """Who holds a part of the key of oblivious tags: the first t+1 clients, and n, which is the relay.

        Any t clients lack one part, also together with the relay.
        """
        return (*range(self.t + 1), self.n) if self.quota else ()

    @property
    def dealt(self) -> bool:
        """Whether clients deal the coefficients of openings, as there are too many subsets to share keys."""
        return math.comb(len(self.committee), self.t) > MAX_SUBSETS

    @cached_property
    def key_subsets(self) -> tuple[tuple[int, ...], ...]:
        """Committees without t of their members: each shares one key of the common randomness."""
        members = self.committee
        return tuple(combinations(members, len(members) - self.t)) if members and not self.dealt else ()

    def budget(self, sheet: Sheet) -> int:
        """How many rows of a sheet can be opened, over all rounds, where coefficients are dealt."""
        return math.ceil(sheet.rows * OPENINGS) + OPENINGS_MORE if sheet.kind == "cells" else sheet.rows

    def coefficients(self, sheet: Sheet) -> Sheet | None:
        """The sheet of dealt coefficients for the openings of another, if it needs one."""
        if not self.dealt or sheet.kind not in ("cells", "slots", "once"):
            return None
        # Each sheet that is opened so has a number of its own: attempts, then these.
        number = {"cells": sheet.attempt, "slots": self.attempts, "once": self.attempts + 1}[sheet.kind]
        return Sheet("coins", number, -(-self.budget(sheet) * sheet.opened // WIDTHS["coins"]))

    @cached_property
    def digest(self) -> bytes:
        """32 bytes that bind keys, signatures and messages to this plan."""
        text = "|".join(f"{f.name}={getattr(self, f.name)!r}" for f in fields(self))
        return hashlib.blake2b(text.encode(), digest_size=32, person=b"psu plan").digest()

    def salt(self, attempt: int) -> tuple[int, int]:
        """Two words that place tags in tables.

        Public: tags are pseudorandom under a key drawn after the session was named.
        """
        words = hashlib.blake2b(
            attempt.to_bytes(4, "little"), key=self.digest, digest_size=16, person=b"psu salt"
        ).digest()
        return int.from_bytes(words[:8], "little"), int.from_bytes(words[8:], "little")

    @property
    def levels(self) -> int:
        """Levels of the sizing bitmap: the last is filled as the first is by 2 SLOTS IDs, or less."""
        return 1 + max(0, math.ceil(math.log2(self.bound / (2 * SLOTS))))

    @property
    def slots(self) -> Sheet:
        """The bitmap of the sizing round."""
        return Sheet("slots", 0, self.levels * SLOTS)

    def cells(self, size: int, attempt: int) -> Sheet:
        """The table of an attempt for a union of about `size`: its rows are a multiple of HASHES."""
        size = min(size, self.bound)
        wanted = CELLS_PER_ID * size * (SIZE_MARGIN if self.sized else 1) + CELLS_MORE
        rows = HASHES * math.ceil(wanted * GROWTH**attempt / HASHES)
        return Sheet("cells" if isinstance(self.mode, Committee) else "lines", attempt, rows)


def lagrange_weights(xs: tuple[int, ...], y: int) -> list[int]:
    """Lagrange weights that carry values at the points xs to the value at y, modulo 2**61 - 1."""
    from field.code.lagrange_code import transfer_rows

    return transfer_rows(xs, (y,), MERSENNE_61)[0]


def share_point(member: int) -> int:
    """Where a member's share sits; secrets sit at 0."""
    return member + 1
