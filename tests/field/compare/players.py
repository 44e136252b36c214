"""Players of a committee in one process: circuits on shares, in lockstep."""

import numpy as np

from field.compare.replicated import ReplicatedPlayer
from field.secrets.coins import SeededCoins


def players(committee, seed=0, rooms=None):
    """All players, with streams that both ends draw alike."""
    out = []
    for me in range(committee.size):
        pairs = {
            i: SeededCoins(seed, f"pair {min(i, me)} {max(i, me)}") for i in range(committee.size) if i != me
        }
        sets = {q: SeededCoins(seed, f"set {q}") for q in committee.held(me)}
        out.append(ReplicatedPlayer(committee, me, pairs, sets, rooms and rooms[me]))
    return out


def deal(everybody, numbers):
    """Shares of the members' planes: for every player a list, one entry a member."""
    committee = everybody[0].committee
    known = [*numbers, *[None] * (committee.size - len(numbers))]
    begun = [p.begin_deal(planes, numbers[0].shape) for p, planes in zip(everybody, known, strict=True)]
    told = {i: everybody[i].told(begun[i][i]).copy() for i in committee.members}
    return [
        p.end_deal(dealt, {i: told[i] for i in committee.senders(p.me) if i in told})
        for p, dealt in zip(everybody, begun, strict=True)
    ]


def drive_circuits(everybody, circuits, tell=lambda sender, planes: planes):
    """Drive one circuit a player to its end: their results, and (layers, products) counted."""
    committee = everybody[0].committee
    layers = [next(c) for c in circuits]
    rounds = products = 0
    while True:
        begun = [p.begin(layer) for p, layer in zip(everybody, layers, strict=True)]
        told = [tell(p.me, p.told(b).copy()) for p, b in zip(everybody, begun, strict=True)]
        rounds, products = rounds + 1, products + told[0].shape[0]
        results, layers = [], []
        for p, circuit, b in zip(everybody, circuits, begun, strict=True):
            try:
                layers.append(circuit.send(p.end(b, {i: told[i] for i in committee.senders(p.me)})))
            except StopIteration as done:
                results.append(done.value)
        if results:
            return results, (rounds, products)


def opened(everybody, shares):
    """What the members' shares of a result open to."""
    members = [(p, s) for p, s in zip(everybody, shares, strict=True) if p.me in p.committee.members]
    return np.bitwise_xor.reduce([p.opening(s) for p, s in members], axis=0)


def clear(circuit):
    """Run a circuit on one component in the clear."""
    try:
        layer = next(circuit)
        while True:
            results = [g.x[:, g.left] & g.y[:, g.right] for g in layer]
            layer = circuit.send(list(np.concatenate(results, axis=1)))
    except StopIteration as done:
        return done.value
