"""What attacks share that alter what one client says by what it was told: rows, a plan, a heard run."""

from dataclasses import replace

import numpy as np

import secfc
from field import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.disclosure.decoded.replies import DistanceVerification
from secfc.errors import SuspectedParties
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate


def grouped_rows(seed, n, rows, d, groups):
    """Rows of each of n clients: (rows, d), of unit deviation about one of so many centers on a line."""
    rng = np.random.default_rng(seed)
    return [rng.normal(rng.integers(0, groups, (rows, 1)) * 3, 1, (rows, d)) for _ in range(n)]


def forget_ranges(patch):
    """Have a server not look whether distances that it decodes are in the range of honest rows."""
    real = DistanceVerification.bounds

    def far(self, labels):
        most, groups = real(self, labels)
        return (most + 1) * 2**200, groups

    patch.setattr(DistanceVerification, "bounds", far)


class Stage:
    """An algorithm on these rows, planned: what an attack knows before it begins.  X: all rows, integers."""

    def __init__(self, way, arrays, bound=None):
        self.way, self.federation = way, secfc.Federation.from_arrays(arrays)
        facts = PublicFacts.of(self.federation, bound)
        self.plan = way.plan(replace(facts, session=bytes(32), seed=5))
        self.X = np.concatenate([self.plan.quantizer(x) for x in arrays])
        self.results = None  # of all parties, where a run ended

    def run(self, me, deviate, kind):
        """Rounds in which anybody said messages of this kind, and the suspicion that ended the run, or None.

        deviate: makes of the role of client `me` the one that it plays.
        """
        rounds = []

        def listening(role):
            try:
                out = role.send(None)
                while True:
                    rounds.extend(out.round for body in out.send.values() if isinstance(body, kind))
                    out = role.send((yield out))
            except StopIteration as done:
                return done.value

        roles = {
            party.name: self.way.client(self.plan, party, coins=SeededCoins(5, party.name))
            for party in self.federation.parties
        }
        roles = {name: listening(role) for name, role in (roles | {me: deviate(roles[me])}).items()}
        roles[SERVER] = self.way.server(self.plan, rng=np.random.default_rng(0), coins=SeededCoins(5, SERVER))
        try:
            self.results = simulate(roles).results
            assert len(self.results) == len(roles)
        except SuspectedParties as error:
            return rounds, error
        return rounds, None
