"""The policies that pages speak of, as values: tables and the decision tree come from these."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import secfc
from secfc.algorithm import PublicFacts
from secfc.coded_kmeans.secfc import SecFC, leakage_to_clients, leakage_to_server
from secfc.data.inputs import with_parameters
from secfc.privacy import Bound, Budget

NOISE = secfc.NoiseInShares(Budget(epsilon=8, delta=1e-6), radius=Bound.given(4.0))
SUMS = secfc.NoisySums(Budget(epsilon=8, delta=1e-6), radius=Bound.given(4.0))

# What a page writes, and the value that it is.
POLICIES = {
    "AssignmentsOnly()": secfc.AssignmentsOnly(),
    'AssignmentsOnly(dealer="client-0")': secfc.AssignmentsOnly(dealer="client-0"),
    "AssignmentsOnly(dealer=None)": secfc.AssignmentsOnly(dealer=None),
    "OwnLabels()": secfc.OwnLabels(),
    "OwnLabels(dealer=None)": secfc.OwnLabels(dealer=None),
    'OwnLabels(sizes="hidden")': secfc.OwnLabels(sizes="hidden"),
    'FinalLabelsOnly(dealer="server")': secfc.FinalLabelsOnly(dealer="server"),
    "FinalLabelsOnly()": secfc.FinalLabelsOnly(),
    "Distances()": secfc.Distances(),
    "NoiseInShares(Budget(8, 1e-6), ...)": NOISE,
    "NoisySums(Budget(8, 1e-6), ...)": SUMS,
}
CLIENTS, ROWS = 5, 30


def way_of(policy):
    """The smallest run that shows what a policy shows."""
    people = secfc.Private(counts="hidden", bound=64) if policy.capabilities.sums else secfc.Open()
    return SecFC(k=2, threshold=1, max_iter=3, disclosure=policy, membership=people)


def federation():
    points = np.random.default_rng(0).normal(size=(ROWS, 2)).clip(-2.5, 2.5)
    return secfc.Federation.from_arrays(np.array_split(points, CLIENTS))


def columns_apart():
    """Clients that hold a column each of the same people."""
    columns = np.random.default_rng(0).normal(size=(CLIENTS, ROWS, 1)).clip(-2.5, 2.5)
    ids, names = [[f"p{i}" for i in range(ROWS)]] * CLIENTS, [(f"x{j}",) for j in range(CLIENTS)]
    return secfc.Federation.from_arrays(list(columns), ids=ids, features=names)


def said(policy, want=None):
    """What the server, and what every client learns, in sentences: read off the policy, before any run.

    want: other values of parameters, as a membership.
    """
    way = with_parameters(way_of(policy), **(want or {}))
    data = columns_apart() if way.capabilities.joins else federation()
    plan = way.foreseen(way.plan(PublicFacts.of(data, 4.0)), data)
    return leakage_to_server(way, plan), leakage_to_clients(way, plan)


@dataclass(frozen=True)
class Leaf:
    """Where a reader arrives: a value of POLICIES or another algorithm, why, and the page that argues it."""

    code: str
    why: str
    page: str


@dataclass(frozen=True)
class Fork:
    question: str
    yes: Fork | Leaf
    no: Fork | Leaf


ARGUMENT = "../secfc/disclosure/README.md"
TREE = Fork(
    "Must all that is released keep a budget of differential privacy?",
    Fork(
        "Are centers enough, and has the server public rows like yours?",
        Leaf(
            "FedDPKMeans(k=3, epsilon=1.0, delta=1e-6)",
            "few sums are released, so little noise does",
            "../secfc/feddp/README.md",
        ),
        Leaf(
            "NoiseInShares(Budget(8, 1e-6), ...)",
            "noisy distances; at small epsilon labels are near random",
            "../secfc/privacy/README.md",
        ),
    ),
    Fork(
        "May every client see the centers of every step?",
        Leaf(
            "FederatedLloyd(k=4)",
            "traffic does not grow with rows; steps can tell single rows (with floor=10 no two can)",
            "../secfc/federated/README.md",
        ),
        Fork(
            "May every party see the label of every row?",
            Fork(
                "Also those on the way, of every step?",
                Fork(
                    "Might the server join with a client?",
                    Leaf(
                        "AssignmentsOnly(dealer=None)",
                        "no dealer: for t up to 3, at four (t=1) to thirteen times the work",
                        ARGUMENT,
                    ),
                    Fork(
                        "Do you expect clients that deviate?",
                        Leaf(
                            "Distances(dealt=True)",
                            "right labels with corrected=A; but the server sees the data's shape",
                            "../secfc/coded/README.md#corrected-replies",
                        ),
                        Leaf(
                            "AssignmentsOnly()", "the default: labels, and no distance of a point", ARGUMENT
                        ),
                    ),
                ),
                Leaf("FinalLabelsOnly()", "labels at the start and the end only", ARGUMENT),
            ),
            Fork(
                "May sizes of clusters be seen in every step?",
                Leaf(
                    "OwnLabels()",
                    "each client learns the labels of its own rows",
                    "../secfc/disclosure/owner_labels/README.md",
                ),
                Leaf(
                    'OwnLabels(sizes="hidden")',
                    "the same, and no sizes after the first",
                    "../secfc/disclosure/owner_labels/README.md",
                ),
            ),
        ),
    ),
)


def leaves(node=TREE):
    """All leaves, from left to right."""
    return (node,) if isinstance(node, Leaf) else (*leaves(node.yes), *leaves(node.no))
