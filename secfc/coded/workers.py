"""Who holds shares and computes, where not every client does: the workers, public and named before a run.

All other clients deal shares of their rows to the workers, hear the result, and may leave in between.  So
clients speak to w workers, and not everybody to everybody.  The code is that of the workers: t of them may
collude, with any other clients, who hold no shares of anybody's points.
"""

from __future__ import annotations

from collections import Counter

from secfc.data.arguments import Kind
from secfc.data.inputs import InputError
from secfc.roles.exchange import PartyId

# A number of workers, their names, or None for all clients.
Workers = int | tuple[PartyId, ...] | None

WORKERS = Kind(
    "a number, or names of clients, or None (all clients),",
    'Pass 13, or a tuple such as ("client-0", "client-1", "client-2")',
    lambda v: (
        v
        if isinstance(v, int) and not isinstance(v, bool)
        else tuple(v)
        if isinstance(v, tuple | list) and all(isinstance(name, str) for name in v)
        else None
    ),
    none=True,
)


def seated(workers: Workers, clients: tuple[PartyId, ...]) -> tuple[PartyId, ...]:
    """The workers among these clients, in the order of the clients; a number of them is spread evenly.

    Raises InputError for a number that there are not, or names that are no clients'.
    """
    if workers is None:
        return clients
    n = len(clients)
    if isinstance(workers, int):
        if not 1 <= workers <= n:
            raise InputError(f"workers={workers} of n={n} clients: take a number in [1, {n}], or add clients")
        return tuple(clients[i * n // workers] for i in range(workers))
    strangers = sorted(set(workers) - set(clients))
    if strangers or not workers:
        named = ", ".join(clients[:3]) + (", ..." if n > 3 else "")
        raise InputError(
            f"workers: {', '.join(map(repr, strangers)) or 'nobody'} is no client: name clients of the run "
            f"({named}), or give a number of them"
        )
    twice = [name for name, times in Counter(workers).items() if times > 1]
    if twice:
        raise InputError(f"workers: {', '.join(map(repr, twice))} is named twice: name every worker once")
    return tuple(c for c in clients if c in set(workers))


def check_enough(workers: Workers, seats: int, ell: int, t: int, liars: int) -> None:
    """Raises InputError for fewer workers than the code needs."""
    needed = 2 * (ell + t - 1) + 1 + 2 * liars
    if workers is not None and seats < needed:
        raise InputError(
            f"workers={workers if isinstance(workers, int) else seats}: ell={ell}, t={t} needs "
            f"2*(ell+t-1)+1+2*liars = {needed} of them, and one more for each that may be lost. Name more "
            "workers, or lower t or ell"
        )
