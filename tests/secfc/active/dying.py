"""Runs in which parties die at a given message: what a sweep over all messages puts them through.

A party that dies has sent some of its messages, in the order in which it sends them, and from then on neither
sends nor hears anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

import secfc
from secfc.coded.quorum import missing_peers
from secfc.data.inputs import with_parameters
from secfc.errors import ProtocolError
from secfc.privacy import Bound, Budget, Neighbors
from secfc.roles.exchange import Envelope
from tests.secfc.campaign import BASE, Network, Scenario, Silent, check, first_and_last, sizes_between

vary = with_parameters


class Deaths(Network):
    """Each of some parties dies after so many messages of its own; a group, when so many were sent in all."""

    def __init__(self, said: Mapping[str, int], group: Collection[str] = (), at: int = 0) -> None:
        super().__init__({}, False)
        self.last, self.group, self.at, self.said = dict(said), set(group), at, Counter[str]()

    def __call__(self, e: Envelope) -> list[Envelope]:
        if len(self.passed) >= self.at:
            self.cut |= self.group
        if self.said[e.sender] >= self.last.get(e.sender, 1 << 30):
            self.cut.add(e.sender)
        self.said[e.sender] += 1
        return super().__call__(e)


def scenario(n=7, expected=None, **changes) -> Scenario:
    more = {} if expected is None else {"expected": expected}
    return Scenario(vary(BASE, **{"k": 3, "t": 2, "n_init": 1, "max_iter": 2, **changes}), n=n, **more)


NOISY = Silent(Budget(1e5, 1e-6), radius=Bound.given(16.0), neighbors=Neighbors("replace"), absent=2)

# n=7 and t=2 decode from 5 replies; a planned deviating client takes two more.  So any two clients may die.
POLICIES = {
    "labels only": scenario(disclosure=secfc.AssignmentsOnly()),
    "labels only, restarts": scenario(
        disclosure=secfc.AssignmentsOnly(), deviating=0, n_init=2, reveal_centers=True
    ),
    "labels only, a client deals": scenario(disclosure=secfc.AssignmentsOnly("client-6")),
    "labels only, nobody deals": scenario(disclosure=secfc.AssignmentsOnly(dealer=None), deviating=0),
    "final labels": scenario(disclosure=secfc.FinalLabelsOnly(), deviating=0, expected=first_and_last),
    "own labels": scenario(disclosure=secfc.OwnLabels(), expected=sizes_between, reveal_centers=True),
    "own labels, splitting": scenario(
        disclosure=secfc.OwnLabels(), init=secfc.Splitting(), expected=sizes_between
    ),
    "own labels, a client deals": scenario(
        disclosure=secfc.OwnLabels("client-6"), n_init=2, expected=sizes_between
    ),
    "final labels, the server deals": scenario(
        disclosure=secfc.FinalLabelsOnly(dealer="server"), expected=first_and_last
    ),
    "own labels, nobody deals": scenario(
        disclosure=secfc.OwnLabels(dealer=None), deviating=0, expected=sizes_between
    ),
    "distances": scenario(n_init=2, reveal_centers=True),
    "distances, dealt": scenario(disclosure=secfc.Distances(dealt=True)),
    "distances, bare": scenario(disclosure=secfc.Distances(blind=False)),
    "distances, one corrected": scenario(corrected=1, n=9),
    "noise in shares": scenario(disclosure=NOISY, init=secfc.RandomLabels()),
}
SPARE = 2
DEALERS = {"labels only, a client deals": "client-6", "own labels, a client deals": "client-6"}


def moments(case: Scenario) -> dict[str, int]:
    """How many messages each party sends in an undisturbed run."""
    network = Network({}, False)
    case.run(network)
    return dict(Counter(e.sender for e in network.passed))


def ends(case: Scenario, network: Deaths, indispensable: Collection[str] = ()) -> str:
    """How a run with these deaths ended: "exact", or the error's name and party.

    Raises AssertionError for a wrong label.
    """
    try:
        got = case.run(network)
    except ProtocolError as error:
        return f"{type(error).__name__}: {error}"
    check(case, network, got)
    return "exact"


def named_by_anybody(plan, gone, reports, spared=()):
    """Whom a server would do without that took each report by itself."""
    named = (missing_peers(plan, c, report) for c, report in reports.items())
    return set(gone).union(*named) - set(spared)
