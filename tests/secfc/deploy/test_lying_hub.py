"""A hub that lies, in every way somebody thought of: it can delay a run, and nothing else.

Each trick is a value, and is played twice: where connections are protected, and, as its control, where they
are not (`take_part_at_hub(..., pins=None)`).
"""

import asyncio
import dataclasses
import time
from collections.abc import Callable

import numpy as np
import pytest

pytest.importorskip("websockets")

import secfc
from field import SeededCoins
from secfc.deploy.hub import ForwardingPipe, Hub
from secfc.deploy.rendezvous import take_part_at_hub
from secfc.errors import ProtocolError
from secfc.pipeline import seal_roles
from secfc.roles.exchange import SERVER
from secfc.transport.link import GOODBYE
from secfc.transport.simulate import simulate
from tests.nightly import by_night
from tests.secfc.deploy.test_hub import FED, KEYS, NAMES, PINS, RUN, hub, url_of
from tests.secfc.transport.test_wire import roles_of

pytestmark = pytest.mark.deployment

CLOCKS = {"pulse": 3.0, "rejoin": 6.0, "patience": 6.0, "arrival": 30.0}
WAY = secfc.SecFC(k=3, threshold=1, max_iter=3)


def word(number):
    """A frame without a message: the last round that its sender took, or another word."""
    return bytes(8) + number.to_bytes(8, "little", signed=True)


@dataclasses.dataclass
class Lies:
    """What a hub that plays a trick remembers."""

    at: int
    hand_on: Callable = ForwardingPipe._hand_on
    seen: int = 0
    told: int = 0  # how often it lied
    held: list = dataclasses.field(default_factory=list)
    said: dict = dataclasses.field(default_factory=dict)  # pieces by direction, of each connection in turn
    names: dict = dataclasses.field(default_factory=dict)  # of whose connection a pipe is, and to whom

    def due(self, piece):
        """Whether now is the time for a lie that is told once."""
        return not self.told and self.seen > self.at and len(piece) > 600

    def lie(self, *handed):
        """Hand on these pieces in place of one; each comes from the end of a pipe."""
        self.told += 1
        for pipe, piece in handed:
            self.hand_on(pipe, piece)


def instead(change):
    """Once, other pieces for one."""

    def tells(lies, pipe, piece):
        if lies.due(piece):
            lies.lie(*((pipe, one) for one in change(piece)))
            return True
        return False

    return tells


def swap(lies, pipe, piece):
    if lies.due(piece) and not lies.held:
        lies.held.append((pipe, piece))
        return True
    if lies.held and not lies.told and pipe is lies.held[0][0]:
        lies.lie((pipe, piece), *lies.held)
        return True
    return False


def cross(lies, pipe, piece):
    others = [one for one in pipe.pipes.open if one.other not in (None, pipe, pipe.other) and one.other.going]
    if lies.due(piece) and others:
        lies.lie((others[0], piece))
        return True
    return False


def reflect(lies, pipe, piece):
    if lies.due(piece):
        lies.lie((pipe.other, piece))
        return True
    return False


def replay(lies, pipe, piece):
    before = lies.said[lies.names[pipe]][-1][:-1]
    if lies.due(piece) and len(before) > 3:
        lies.lie((pipe, piece), (pipe, before[2]))
        return True
    return False


def swallow_for(seconds):
    def swallow(lies, pipe, piece):
        if lies.seen > lies.at and not lies.held:
            lies.held.append(time.monotonic())
        if lies.held and time.monotonic() < lies.held[0] + seconds:
            lies.told += 1
            return True
        return False

    return swallow


def forge_progress(lies, pipe, piece):
    """Drop a message, tell its sender that it was taken, and cut the line: nobody says it again."""
    if lies.due(piece):
        lies.lie((pipe.other, word(1 << 50)))
        asyncio.get_running_loop().call_later(0.3, pipe.transport.abort)
        return True
    return False


def forge_goodbye(lies, pipe, piece):
    if lies.due(piece) and SERVER in lies.names[pipe]:
        lies.lie((pipe, piece), (pipe, word(GOODBYE)))
        return True
    return False


def tell_yesterday(lies, pipe, piece):
    """Cut a line, and say over the next one what was said over the one before, from its first byte on."""
    mine = lies.said[lies.names[pipe]]
    if lies.due(piece):
        lies.told += 1
        pipe.transport.abort()
        return True
    if lies.told and len(mine) == 2:
        if not lies.held:
            lies.held.append(pipe)
            lies.lie(*((pipe, old) for old in mine[0]))
        return lies.held == [pipe]
    return False


def stay_one_behind(lies, pipe, piece):
    """Of one direction, from some time on: hand on each piece when the next has come."""
    if lies.due(piece):
        lies.held += [pipe, piece]
        lies.told += 1
        return True
    if lies.held and pipe is lies.held[0]:
        lies.lie((pipe, lies.held[1]))
        lies.held[1] = piece
        return True
    return False


@dataclasses.dataclass(frozen=True)
class Trick:
    """tells: hands on something else than a piece, and whether it did.  harms: whether it keeps a run from
    its end, or costs somebody its place, where connections are not protected.  breaks: whether the connection
    on which it was tried is made anew; else it only delays what is said.
    """

    name: str
    tells: Callable
    harms: bool = True
    breaks: bool = True


def flip(piece):
    half = len(piece) // 2
    return [bytes(piece[:half]) + bytes([piece[half] ^ 4]) + bytes(piece[half + 1 :])]


TRICKS = [
    Trick("a message is dropped, and said to be taken", forge_progress),
    Trick("a piece is dropped", instead(lambda piece: [])),
    Trick("a bit is flipped", instead(flip)),
    Trick("a piece is cut", instead(lambda piece: [piece[: len(piece) // 2]]), harms=False),
    Trick("a piece is turned round", instead(lambda piece: [piece[::-1]]), harms=False),
    Trick("a piece is begun again", instead(lambda piece: [piece[: len(piece) // 2], piece]), harms=False),
    Trick("a piece is said twice", instead(lambda piece: [piece, piece]), harms=False),
    Trick("two pieces are swapped", swap, harms=False),
    Trick("a piece goes to another pair", cross),
    Trick("a piece comes back to its sender", reflect),
    Trick("an old piece comes again", replay, harms=False),
    Trick("nothing passes for a while", swallow_for(2.0), harms=False),
    Trick("a goodbye is made up", forge_goodbye),
    Trick("yesterday's line comes instead of today's", tell_yesterday, harms=False),
    Trick("one direction stays a piece behind", stay_one_behind, harms=False, breaks=False),
]


def played(trick, monkeypatch, protected, at=120_000, **more):
    """What each party has, or how it ended, in a run whose hub plays a trick; and what was seen of peers."""
    lies, watched = Lies(at), []
    join = Hub.join

    def tells(self, piece):
        lies.seen += len(piece)
        lies.said[lies.names[self]][-1].append(piece)
        if not trick.tells(lies, self, bytes(piece)):
            lies.hand_on(self, piece)

    async def joins(self, mine, theirs):
        await join(self, mine, theirs)
        for where, end in self._ends.items():
            if end.pipe is not None and end.pipe not in lies.names:
                lies.names[end.pipe] = where[1:]
                lies.said.setdefault(where[1:], []).append([])

    async def converse():
        roles = seal_roles(roles_of(WAY, FED), b"plan", {name: SeededCoins(9, name) for name in NAMES})
        async with hub(*NAMES).serving() as server:
            url, pins = url_of(server), PINS if protected else None
            parties = (
                take_part_at_hub(
                    role, url, RUN, me, tuple(p for p in NAMES if p != me), KEYS[me], pins,
                    watch=lambda peer, what: watched.append(what), **{**CLOCKS, **more},
                )
                for me, role in roles.items()
            )  # fmt: skip
            return await asyncio.wait_for(asyncio.gather(*parties, return_exceptions=True), 120)

    monkeypatch.setattr(ForwardingPipe, "_hand_on", tells)
    monkeypatch.setattr(Hub, "join", joins)
    got = dict(zip(NAMES, asyncio.run(converse()), strict=True))
    assert lies.told
    return got, watched


def is_exact(got):
    """Whether every client has the labels of the simulation."""
    expected = simulate(roles_of(WAY, FED)).results
    return all(
        not isinstance(got[name], Exception) and np.array_equal(got[name].labels, expected[name].labels)
        for name in FED.names
    )


def cases(tricks):
    return [tricks[0], *by_night(*tricks[1:])]


@pytest.mark.parametrize("trick", cases(TRICKS), ids=lambda trick: trick.name)
def test_a_hub_that_lies_costs_time_and_nobody_its_place(monkeypatch, trick):
    got, watched = played(trick, monkeypatch, protected=True)
    assert is_exact(got)
    assert "came back" in watched or not trick.breaks


@pytest.mark.nightly  # it takes all of the clocks; `tests.secfc.transport.test_channels` has quick ones
@pytest.mark.parametrize("trick", [t for t in TRICKS if t.harms], ids=lambda trick: trick.name)
def test_where_connections_are_not_protected_it_ends_the_run(monkeypatch, trick):
    got, _ = played(trick, monkeypatch, protected=False)
    assert not is_exact(got)
    for had in got.values():  # and nobody has wrong labels
        assert not isinstance(had, Exception) or isinstance(had, (ProtocolError, OSError))


@pytest.mark.nightly
def test_a_hub_that_swallows_everything_for_good_suspends_the_run_and_nobody_has_wrong_labels(monkeypatch):
    hole = Trick("nothing passes any more", swallow_for(1e9))
    got, _ = played(hole, monkeypatch, protected=True, suspend=True)
    assert {type(had).__name__ for had in got.values()} <= {"PartiesAway", "TooFewReplies"}
