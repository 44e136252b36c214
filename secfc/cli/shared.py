"""Points that several clients hold: what only this process, which has all data, can say about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from secfc.cli.errors import Failed

if TYPE_CHECKING:
    from secfc.data.federation import Federation

Place = tuple[str, int]  # a client's name and a row of its, counted from 0


def check_disjoint(federation: Federation) -> None:
    """Raise InputError if two clients hold the same ID."""
    from secfc.data.inputs import InputError

    for (one, row), (other, peer) in shared(federation):
        what = "data, and rows are their own IDs" if federation.parties[0].ids is None else "ID"
        raise InputError(
            f"client {one!r}, row {row} and client {other!r}, row {peer} (counted from 0) have the same "
            f"{what}: --no-merge would count the point twice, as twice itself. Leave --no-merge out."
        )


@contextmanager
def explaining(federation: Federation) -> Iterator[None]:
    """Within the body, a dispute about an ID is reported with two of the places where it stands."""
    from secfc.roles.exchange import DisputedRows

    try:
        yield
    except DisputedRows as error:
        points = {party.name: party.read() for party in federation.parties}

        def apart(pair: tuple[Place, Place]) -> float:
            (one, row), (other, peer) = pair
            return float(abs(points[one][row] - points[other][peer]).max())

        # Differences below a step of rounding are none, so the largest is shown.
        (one, row), (other, peer) = max(shared(federation), key=apart)
        raise Failed(
            f"the protocol failed: {error}.\nAll data are at hand here: client {one!r}, row {row} and client "
            f"{other!r}, row {peer} (counted from 0) have the same ID and different data."
        ) from error


def shared(federation: Federation) -> Iterator[tuple[Place, Place]]:
    """Pairs of places at different clients with the same ID, or the same row if there are no IDs."""
    from psu.identify import digests, row_digests

    seen: dict[bytes, Place] = {}
    for party in federation.parties:
        digest = row_digests(party.read()) if party.ids is None else digests(party.ids)
        for row, words in enumerate(digest):
            place = seen.setdefault(words.tobytes(), (party.name, row))
            if place[0] != party.name:
                yield place, (party.name, row)
