"""Who observes which features: all that is public before data move, in arrays and in words.

Features that the same clients observe form a pattern.  Everything here is in the order of names, of clients
and of features, so that no result depends on the order in which somebody listed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from secfc.algorithm import PublicFacts
from secfc.data.inputs import names_listed
from secfc.data.party import Party
from secfc.errors import InputError

SHOWN = 6  # sentences of one kind; the rest is counted


@dataclass(frozen=True)
class Columns:
    """clients: in the order of the plan.  features: names of all d, sorted, or numbers where there are none.

    observed: of each client the features it observes, ascending numbers into `features`.  positions: the
    column of its own points that each of these is.  places: the column of the federation that each feature
    is.

    Raises InputError for a client that observes nothing, or the same feature twice.
    """

    clients: tuple[str, ...]
    features: tuple[str, ...]
    observed: tuple[tuple[int, ...], ...]
    positions: tuple[tuple[int, ...], ...]
    places: tuple[int, ...]

    def __post_init__(self) -> None:
        for client, own in zip(self.clients, self.observed, strict=True):
            if not own or len(set(own)) < len(own):
                raise InputError(
                    f"client {client!r} observes {len(own)} features, {len(set(own))} of them distinct: it "
                    "must observe one or more, each once. Correct its columns."
                )

    @classmethod
    def of(cls, public: PublicFacts) -> Columns:
        """Those of a federation.  Raises InputError."""
        d = public.d
        names = public.features or tuple(f"{f:0{len(str(d - 1))}}" for f in range(d))
        places = sorted(range(d), key=names.__getitem__)
        rank = {place: f for f, place in enumerate(places)}
        given = public.observed or (tuple(range(d)),) * len(public.clients)
        # Once for all clients that have the same columns, as thousands mostly do.
        ranks = {own: [rank[place] for place in own] for own in set(given)}
        orders = {own: tuple(sorted(range(len(own)), key=at.__getitem__)) for own, at in ranks.items()}
        ranked = {own: tuple(sorted(at)) for own, at in ranks.items()}
        return cls(
            public.clients,
            tuple(names[place] for place in places),
            tuple(ranked[own] for own in given),
            tuple(orders[own] for own in given),
            tuple(places),
        )

    @property
    def d(self) -> int:
        """Features of all clients together."""
        return len(self.features)

    @cached_property
    def by_name(self) -> tuple[int, ...]:
        """Numbers of the clients, in the order of their names."""
        return tuple(sorted(range(len(self.clients)), key=self.clients.__getitem__))

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of every client."""
        return {client: number for number, client in enumerate(self.clients)}

    @cached_property
    def mask(self) -> Array:
        """Whether a client observes a feature: (n, d)."""
        seen = np.zeros((len(self.clients), self.d), bool)
        for row, own in zip(seen, self.observed, strict=True):
            row[list(own)] = True
        return seen

    @cached_property
    def shared(self) -> Array:
        """Features of two clients or more, (s,) ascending: all that is ever said of anything."""
        return np.flatnonzero(self.mask.sum(axis=0) > 1)

    @cached_property
    def patterns(self) -> Array:
        """Sets of clients that observe some shared feature, and no others do: (p, n) truth values."""
        return np.unique(self.mask[:, self.shared].T, axis=0)

    @cached_property
    def pattern(self) -> Array:
        """The number of the pattern of each shared feature: (s,)."""
        same = (self.mask[:, self.shared].T[:, None, :] == self.patterns[None]).all(axis=2)
        return np.asarray(same.argmax(axis=1))

    def number(self, client: str) -> int:
        """The number of a client of the plan."""
        return self.numbers[client]

    def mine(self, client: str) -> OwnColumns:
        """How a client's own columns lie among all."""
        return self._every[self.number(client)]

    def seen_by(self, party: str) -> OwnColumns:
        """How the shared features that a party hears of lie among all: all of them at the server."""
        if party in self.numbers:
            return self.mine(party)
        every = np.arange(len(self.shared))
        inside = np.ones(len(every), bool)
        return OwnColumns(self.shared, inside, every, np.arange(len(self.patterns)), self.pattern)

    @cached_property
    def _every(self) -> tuple[OwnColumns, ...]:
        first = {own: j for j, own in reversed([*enumerate(self.observed)])}
        alike = {own: self._mine(j) for own, j in first.items()}
        return tuple(alike[own] for own in self.observed)

    def _mine(self, number: int) -> OwnColumns:
        own = np.array(self.observed[number])
        inside = np.isin(own, self.shared)
        shared = np.searchsorted(self.shared, own[inside])
        return OwnColumns(own, inside, shared, np.flatnonzero(self.patterns[:, number]), self.pattern[shared])

    def places_of(self, party: Party) -> list[int]:
        """Where among a client's columns each of its features stands, in the order of names.

        Raises InputError if they are not the columns of the plan.
        """
        at = self.number(party.name)
        known = tuple(self.features[f] for f in self.observed[at])
        width = party.points.shape[1]
        if party.features is None and width == len(known):
            return list(self.positions[at])
        if party.features is None or set(party.features) != set(known):
            has = (
                f"{width} unnamed columns" if party.features is None else names_listed(sorted(party.features))
            )
            raise InputError(
                f"client {party.name!r} has {has}, and the plan says that it observes "
                f"{names_listed(known)}: give these columns, or plan anew."
            )
        return [party.features.index(name) for name in known]

    def rows(self, party: Party) -> Array:
        """A client's points (m_j, d_j), its columns as of `places_of`."""
        return party.read()[:, self.places_of(party)]

    # --- in words

    @cached_property
    def connected_groups(self) -> tuple[tuple[str, ...], ...]:
        """Groups of clients that share features within, directly or by a chain, and none across."""
        left, found = [*dict.fromkeys(frozenset(self.observed[j]) for j in self.by_name)], []
        while left:
            group, features = [left.pop(0)], set[int]()
            while group:
                features = features.union(*group)
                group = [own for own in left if own & features]
                left = [own for own in left if not own & features]
            members = (self.clients[j] for j in self.by_name if features.issuperset(self.observed[j]))
            found.append(tuple(members))
        return tuple(found)

    @property
    def all_pairs(self) -> bool:
        """Whether any two clients share a feature (Assumption 2.1, as far as features tell)."""
        different = np.unique(self.mask, axis=0).astype(np.int64)
        return bool((different @ different.T > 0).all())

    def check(self) -> None:
        """Raises InputError, naming them, for groups of clients between which no feature leads."""
        if len(self.connected_groups) > 1:
            groups = "; ".join(names_listed(group) for group in self.connected_groups)
            raise InputError(
                f"clients fall into {len(self.connected_groups)} groups that share no feature, directly or "
                f"by a chain of others: {groups}. Nothing relates their clusters: add a client or a feature "
                "that connects them, or cluster each group by itself."
            )

    def sentences(self) -> tuple[str, ...]:
        """What everybody should know of who observes what, before data move."""
        nobody = [self.features[f] for f in np.flatnonzero(~self.mask.any(axis=0))]
        holders: dict[tuple[str, ...], list[str]] = {}
        for f in range(self.d):
            who = tuple(sorted(self.clients[j] for j in np.flatnonzero(self.mask[:, f])))
            holders.setdefault(who, []).append(self.features[f])
        alone = [
            f"{_are(names)} seen by {who[0]} alone: its centers there are its own means, and nobody else's "
            f"business"
            for who, names in sorted(holders.items())
            if len(who) == 1
        ]
        two = [
            f"{_are(names)} seen by {who[0]} and {who[1]} alone: each can subtract its own from their sums"
            for who, names in sorted(holders.items())
            if len(who) == 2
        ]
        return (
            *((f"{_are(nobody)} seen by nobody, and left out",) if nobody else ()),
            *_some(alone, "clients have features of their own"),
            *_some(two, "pairs of clients have features that no third one sees"),
        )


@dataclass(frozen=True, eq=False)
class OwnColumns:
    """How the d_j columns of one client lie among all.

    features: their numbers (d_j,).  inside: which are shared (d_j,).  shared: where these stand among the
    shared features.  patterns: the patterns that the client is in.  of: the pattern of each of its shared
    features.
    """

    features: Array
    inside: Array
    shared: Array
    patterns: Array
    of: Array


def _are(names: Sequence[str]) -> str:
    shown = names_listed(names).replace("'", "")
    return f"{shown} {'is' if len(names) == 1 else 'are'}"


def _some(sentences: Sequence[str], what: str) -> Iterable[str]:
    more = len(sentences) - SHOWN
    return sentences if more <= 0 else (*sentences[:SHOWN], f"{more} more {what}")
