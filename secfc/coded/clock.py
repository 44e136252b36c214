"""Rounds of a union, which rise between every pair of parties."""

from __future__ import annotations

from secfc.roles.exchange import ALIGN, SERVER, FaultyServer

# Rounds between clients, where members tell each other openings: chunks in its first half, openings behind.
SPAN = 1 << 20


class Clock:
    """Rounds between clients, and of uploads to the server: all clients count the same exchanges.

    Rounds of openings are not counted here: they carry the number of their turn.
    """

    def __init__(self) -> None:
        self.phase, self._between, self.uploads = ALIGN, 0, 0

    def span(self) -> None:
        """Leave room between clients for openings that members tell each other, which carry their numbers."""
        self._between += SPAN - self._between % SPAN

    def opened(self, number: int) -> int:
        """The round of such an opening, in the last span.  Raises FaultyServer for no number."""
        if not 0 < number < SPAN // 2:
            raise FaultyServer(SERVER, f"numbers an opening {number}")
        return self.phase + self._between - self._between % SPAN + SPAN // 2 + number

    def between(self) -> int:
        self._between += 1
        return self.phase + self._between

    def upload(self) -> int:
        self.uploads += 1
        return self.phase + self.uploads
