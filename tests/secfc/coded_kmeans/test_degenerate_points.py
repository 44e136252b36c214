"""Points that leave clusters empty: all equal, or of fewer kinds than clusters, under every policy."""

import itertools

import numpy as np
import pytest

import secfc
from secfc.data.inputs import build_algorithm
from secfc.kmeans.starts import STARTS
from tests.nightly import covering, every, short

POLICIES = {
    "distances": secfc.Distances(),
    "labels": secfc.AssignmentsOnly(),
    "labels, a client deals": secfc.AssignmentsOnly("client-4"),
    "labels, nobody deals": secfc.AssignmentsOnly(dealer=None),
    "own labels": secfc.OwnLabels(),
    "own labels, nobody deals": secfc.OwnLabels(dealer=None),
    "own labels, hidden sizes": secfc.OwnLabels(sizes="hidden"),
    "own labels, hidden sizes, nobody deals": secfc.OwnLabels(dealer=None, sizes="hidden"),
    "final labels": secfc.FinalLabelsOnly(),
    "final labels, the server deals": secfc.FinalLabelsOnly(dealer="server"),
}
POINTS = {
    "all equal": np.ones((20, 2)),
    "of two kinds": np.repeat([[0.0, 1.0], [2.0, -1.0]], (7, 13), axis=0),
    "a point a client": np.arange(10.0).reshape(5, 2) // 4,
}

# Fewer clusters than kinds, as many, and more.
DAY = {"all equal": (2,), "of two kinds": (4,), "a point a client": (1, 2)}


@pytest.mark.parametrize(("policy", "points"), every(2, covering([*POLICIES], [*POINTS])))
def test_empty_clusters_are_those_of_plaintext(policy, points):
    data = secfc.Federation.from_arrays(np.array_split(POINTS[points], 5))
    ran = 0
    for init, k in itertools.product(STARTS, short(DAY[points], nightly=(1, 2, 4))):
        way = {"k": k, "init": init, "scale": 16.0, "coarse": "allow"}
        try:
            algorithm = build_algorithm(secfc.SecFC, t=1, disclosure=POLICIES[policy], **way)
            algorithm.plan(secfc.algorithm.PublicFacts.of(data, 8.0))
        except ValueError:
            continue  # this policy does not show what this start needs
        got = secfc.fit(algorithm, data, bound=8.0)
        plain = secfc.fit(build_algorithm(secfc.Lloyd, **{**way, "init": algorithm.init}), data, bound=8.0)
        assert all((a == b).all() for a, b in zip(got.labels, plain.labels, strict=True)), (init, k)
        check_history(got, plain, (init, k))
        if got.model is not None:
            new, old = got.predict(data), plain.predict(data)
            assert all((a == b).all() for a, b in zip(new, old, strict=True)), (init, k)
        ran += 1
    assert ran >= short(1, nightly=3)


def check_history(got, plain, case):
    """That what is told of steps is what plaintext did: labels of all, sizes of all, or the first labels."""
    assert (got.n_iter, got.converged) == (plain.n_iter, plain.converged), case
    if got.sizes:
        assert not got.history, case
        sizes = [np.bincount(step[step >= 0], minlength=got.k) for step in plain.history]
        assert all((a == b).all() for a, b in zip(got.sizes, sizes, strict=True)), case
    elif len(got.history) > 2 or len(plain.history) == 2:
        assert all((a == b).all() for a, b in zip(got.history, plain.history, strict=True)), case
    else:  # the start, and the end if all learn it
        ends = (plain.history[0], plain.history[-1])
        assert all((a == b).all() for a, b in zip(got.history, ends, strict=False)), case
    assert got.cost is None or got.cost == plain.cost, case
