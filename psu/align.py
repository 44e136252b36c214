"""From the union to row numbers: identical at every client, whatever the order of recovery was.

Clients also compare what they were told, the group key before anything is dealt and the union after it:
each seals a digest to every other client, and one that does not come counts as one that differs, or a relay
that tells clients different things would only have to withhold it.

Row i is the i-th tag in ascending order.  Tags are pseudorandom under the group key, so the order says
nothing about the IDs.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping

import numpy as np

from field.arrays import Array
from field.secrets.channels import subkey
from psu.blame import RELAY, accuse_parties
from psu.errors import UnionAborted
from psu.identify import Tags, ascending
from psu.keys import Secrets
from psu.messages import Confirmation, UnionTags


def announce_tags(z: Array, y: Array) -> UnionTags:
    """The relay's message to every client: recovered tags, in ascending order."""
    order = ascending(z, y)
    return UnionTags(z[order], y[order])


def rows_of_points(union: UnionTags, own: Tags, inverse: Array) -> Array:
    """The row in [0, m) of each of this client's points: (N,) int64.

    own, inverse: from `psu.identify.tags`; points with equal IDs get equal rows.

    Raises UnionAborted if the union is not strictly ascending tags, or an own ID is missing: then some
    table was malformed, a random coefficient vanished (probability m / 2**61), or the relay left it out.
    The error does not say which ID, since it may be shown to others.
    """
    from psu import kernels

    z, y = union.z, union.y
    later = (z[1:] > z[:-1]) | ((z[1:] == z[:-1]) & (y[1:] > y[:-1]))
    if not later.all() or not kernels.all_valid(z, y):
        raise UnionAborted("the announced union is malformed")
    at = np.searchsorted(z, own.z)
    while True:
        # Several tags may share z; they are neighbors, in the order of y.
        inside = np.minimum(at, max(len(z) - 1, 0))
        short = (at < len(z)) & (z[inside] == own.z) & (y[inside] < own.y) if len(z) else at < 0
        if not short.any():
            break
        at = at + short
    here = (at < len(z)) & (z[inside] == own.z) & (y[inside] == own.y) if len(z) else at < 0
    if not here.all():
        raise UnionAborted(f"{int((~here).sum())} of this client's {len(own)} IDs are not in the union")
    return np.asarray(at[inverse], np.int64)


def confirm_union(secrets: Secrets, union: UnionTags | None) -> dict[int, Confirmation]:
    """The digest of the union this client was told, or of its group key, sealed to every other client."""
    label, digest = _told(secrets, union)
    return {
        j: Confirmation(secrets.me, j, channel.seal(label, digest))
        for j, channel in secrets.ring.channels.items()
        if j != secrets.me
    }


def check_confirmations(
    secrets: Secrets, union: UnionTags | None, others: Mapping[int, Confirmation], due: Collection[int]
) -> None:
    """Compare with what others were told: a union, or the group key if it is None.

    due: the clients that have to confirm.  Raises UnionAborted naming those that were told another union, or
    say so, or say nothing; and the relay, who told it, or for the group key client 0, who dealt it.
    """
    label, digest = _told(secrets, union)
    silent = set(due) - set(others) - {secrets.me}
    if silent:
        raise accuse_parties("Confirmation", f"clients did not confirm their {label}", silent=silent)
    odd = {
        j
        for j, message in sorted(others.items())
        if not hmac.compare_digest(secrets.ring.open(j, label, message.sealed, "Confirmation"), digest)
    }
    if odd and union is None:
        why, dealer = "clients were dealt different group keys", {0} - {secrets.me}
        raise accuse_parties("Confirmation", why, dealer=dealer, senders=odd)
    if odd:
        raise accuse_parties("Confirmation", "clients were told different unions", senders=odd, relay=RELAY)


def _told(secrets: Secrets, union: UnionTags | None) -> tuple[str, bytes]:
    if union is None:
        return "group key", subkey(secrets.group, "confirm", 32)
    return "union", union.digest
