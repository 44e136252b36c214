"""Hidden membership against curious and careless parties: exploits work where just their check is removed."""

from itertools import combinations

import numpy as np
import pytest

import psu
import secfc
from field import MERSENNE_61
from psu import merge
from secfc.exchange import SERVER
from secfc.membership import Private


def named(arrays, names):
    return secfc.Federation.from_arrays(arrays, ids=names)


def collecting(kind):
    """A network that delivers everything, and the list of the server's messages of a kind that it fills."""
    seen = []

    def network(envelope):
        if envelope.recipient == SERVER and envelope.kind == kind:
            seen.append(envelope.body)
        return (envelope,)

    return network, seen


# --- fingerprints of data --------------------------------------------------------------------------


def with_equal_data():
    """Five clients; patients 0, 7 and 13 have the same data, patients 3 and 21 too, and 20 is held twice."""
    points = np.random.default_rng(0).integers(-8, 9, (24, 3)) + np.arange(24)[:, None] / 32
    points[[7, 13]], points[21] = points[0], points[3]
    parts = [*map(list, np.split(np.arange(24), [5, 10, 15, 20]))]
    parts[0].append(20)
    alike = {frozenset(pair) for pair in [(0, 7), (0, 13), (7, 13), (3, 21)]}
    return named([points[p] for p in parts], [[f"patient {i}" for i in p] for p in parts]), parts, alike


def pairs_with_equal_fingerprints(federation, parts):
    """What a server that follows the protocol finds in its own messages: pairs of rows of equal s1 / s0.

    Its rows are pseudonyms; they are translated into patients for the comparison only.
    """
    network, uploads = collecting("MaskedBlock")
    result = secfc.fit(secfc.SecFC(k=2, t=1, membership=Private(psu.Server())), federation, faults=network)
    m, q = len(result.history[0]), MERSENNE_61
    blocks = [block.values for block in uploads if block.sheet == f"spread/0/{m}"]
    s0, s1, _ = np.sum([block.astype(object) for block in blocks], axis=0).T % q
    prints = [int(b) * pow(int(a), -1, q) % q for a, b in zip(s0, s1, strict=True)]
    patients = {}
    for part, rows in zip(parts, result.rows, strict=True):
        patients |= dict(zip(rows.tolist(), part, strict=True))
    found = [(a, b) for a, b in combinations(range(m), 2) if prints[a] == prints[b]]
    return {frozenset((patients[a], patients[b])) for a, b in found}


def test_the_server_finds_no_pair_of_rows_with_equal_data():
    federation, parts, _ = with_equal_data()
    assert pairs_with_equal_fingerprints(federation, parts) == set()


def test_it_finds_every_pair_where_fingerprints_are_not_bound_to_the_id(monkeypatch):
    federation, parts, alike = with_equal_data()
    monkeypatch.setattr(merge, "bound", lambda data, ids: data)
    assert pairs_with_equal_fingerprints(federation, parts) == alike


@pytest.mark.parametrize("mode", [psu.Threshold(1), psu.Server()])
def test_holders_of_one_id_are_still_compared(mode):
    federation, _, _ = with_equal_data()
    other = federation.parties[4].points.copy()
    other[0, 1] += 1.0
    arrays = [p.points for p in federation.parties[:4]] + [other]
    with pytest.raises(secfc.exchange.DisputedRows, match="1 IDs have different data"):
        secfc.fit(
            secfc.SecFC(k=2, t=1, membership=Private(mode)),
            named(arrays, [p.ids for p in federation.parties]),
        )
