"""Roles as sites run them, from greetings to outcomes: what `fit` gives, and what is told beforehand."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import psu
import secfc
from field import SeededCoins
from field.secrets.channels import Identity
from secfc.algorithm import LIMIT, PublicFacts
from secfc.coded.membership import Private
from secfc.coded.messages import MaskSeed
from secfc.coded.queries import Query
from secfc.coded_kmeans.algorithm1 import SecFCClientResult
from secfc.data.inputs import InputError, seeded_generator
from secfc.deploy import session
from secfc.errors import FaultyClient, FaultyServer, Indispensable, PlanMismatch
from secfc.roles.exchange import SERVER, SHARE
from secfc.scaling.algorithm import Scaled
from secfc.transport.checkpoint import Checkpoint
from secfc.transport.simulate import simulate
from tests.nightly import by_night, every, in_turns

START = int(seeded_generator(5).integers(2**63))  # as `fit` makes it of seed=5
RNG = np.random.default_rng(2)
POINTS = RNG.normal(RNG.integers(0, 3, (60, 1)) * 4, 0.5, (60, 3))
FED = secfc.Federation.from_arrays(np.split(POINTS, [11, 27, 40, 50]))
HELD = replace(FED, server_points=POINTS[::5])
# Neighbors hold some IDs together.
SHARED = secfc.Federation.from_arrays(
    [POINTS[a:b] for a, b in ((0, 20), (10, 30), (25, 40), (40, 52), (45, 60))],
    ids=[range(a, b) for a, b in ((0, 20), (10, 30), (25, 40), (40, 52), (45, 60))],
)
KEYS = {name: Identity(SeededCoins(3, name).bytes(32)) for name in (*FED.names, SERVER)}


def work_of(algorithm, federation, bound=None):
    public = PublicFacts.of(federation, bound or 1.0)
    blank = replace(public, counts=(1,) * federation.n, session=bytes(32), seed=START)
    pins = {name: key.public for name, key in KEYS.items()}
    return session.AgreedWork(
        algorithm, blank, bound is None, (*federation.names, SERVER), pins, b"the run file"
    )


def roles(work, federation):
    made = {}
    for name in work.parties:
        coins = SeededCoins(1, name)
        if name == SERVER:
            role = session.server_role(work, coins, np.random.default_rng(START))
        else:
            role = session.client_role(work, federation.parties[federation.names.index(name)], coins)
        made[name] = session.protected_role(work, name, role, KEYS[name], coins)
    return made


def protected(work, name, role):
    return session.protected_role(work, name, role, KEYS[name], SeededCoins(7, name))


CASES = {
    "default": (secfc.SecFC(k=3, threshold=1), FED),
    "own labels": (secfc.SecFC(k=3, threshold=1, disclosure=secfc.OwnLabels()), FED),
    "distances": (secfc.SecFC(k=3, threshold=1, disclosure=secfc.Distances()), FED),
    "final labels": (secfc.SecFC(k=3, threshold=1, disclosure=secfc.FinalLabelsOnly(), max_iter=3), FED),
    "scaled": (Scaled(secfc.SecFC(k=3, threshold=1)), FED),
    "k-fed": (secfc.KFed(3, 2), FED),
    "dbscan": (secfc.DBSCAN(2.0, 3), FED),
    "masked": (secfc.FederatedLloyd(3), FED),
    "lloyd": (secfc.Lloyd(3), FED),
}


def ran(algorithm, federation, bound):
    return simulate(roles(work_of(algorithm, federation, bound), federation), keep_bodies=True)


def without_seal(work, federation):
    """The same roles unsealed, so that what they say can be read."""
    made = {}
    for party in federation.parties:
        made[party.name] = session.client_role(work, party, SeededCoins(1, party.name))
    made[SERVER] = session.server_role(work, SeededCoins(1, SERVER), np.random.default_rng(START))
    return made


@pytest.mark.parametrize(("name", "bound"), every(3, in_turns([*CASES], [None, 32.0])))
def test_each_site_has_what_fit_gives_it(name, bound):
    algorithm, federation = CASES[name]
    bound = algorithm.bound if name == "scaled" else bound
    run = ran(algorithm, federation, bound)
    want = secfc.fit(algorithm, federation, seed=5, bound=None if name == "scaled" else bound)
    for client, labels in zip(federation.names, want.labels, strict=True):
        assert (run.results[client].labels == labels).all()
    assert run.results[SERVER].labels is None
    assert all(outcome.party == party for party, outcome in run.results.items())
    # Who hears from other clients what steps open knows how many there were; of others the server would say.
    known = {(run.results[c].n_iter, run.results[c].converged) for c in federation.names}
    there = (run.results[SERVER].n_iter, run.results[SERVER].converged)
    if name in ("default", "own labels", "final labels"):
        assert known == {there}
    elif name == "distances":
        assert known == {(None, None)}


@pytest.mark.parametrize("out", [(), FED.names[4:]])
def test_an_error_says_whose_rows_had_been_left_out_by_then(out):
    work = work_of(secfc.SecFC(k=3, threshold=1), FED, 32.0)
    made = without_seal(work, FED)

    def lose_then_lie(envelope):
        if isinstance(envelope.body, Query):
            return [replace(envelope, body=MaskSeed(bytes(32)))]
        away = envelope.round >= SHARE and {envelope.sender, envelope.recipient} & set(out)
        return [] if away else [envelope]

    with pytest.raises(FaultyServer, match="MaskSeed") as found:
        simulate(made, faults=lose_then_lie)
    assert found.value.excluded == out


def introductions(algorithm, federation, bound):
    run = simulate(without_seal(work_of(algorithm, federation, bound), federation), keep_bodies=True)
    return {(e.sender, e.body.rows, e.body.power) for e in run.transcript.envelopes if e.kind == "Arrival"}


def test_rows_and_magnitudes_are_told_only_where_they_are_needed():
    default = secfc.SecFC(k=3, threshold=1, max_iter=1)
    counts = set(zip(FED.names, FED.counts, strict=True))
    assert {
        (name, rows) for name, rows, power in introductions(default, FED, None) if power < LIMIT
    } == counts
    assert introductions(default, FED, 32.0) == {(name, rows, LIMIT) for name, rows in counts}
    private = replace(default, membership=Private(psu.Committee(1)))
    assert introductions(private, SHARED, 32.0) == set()
    assert {rows for _, rows, _ in introductions(private, SHARED, None)} == {0}
    assert introductions(secfc.FedDPKMeans(3, 5.0, 1e-6), HELD, 1.0) == set()


def test_private_rows_of_three_overlapping_sites_give_the_labels_of_fit():
    algorithm = secfc.SecFC(k=3, threshold=1, membership=Private(psu.Committee(1)), init=secfc.RandomLabels())
    run = ran(algorithm, SHARED, 32.0)
    own = {}
    for party in SHARED.parties:  # everybody who holds an ID is told the same label
        for name, label in zip(party.ids, run.results[party.name].labels.tolist(), strict=True):
            assert own.setdefault(name, label) == label
    assert len(set(own.values())) == 3


@pytest.mark.parametrize(("lie", "error"), [
    (lambda to, one: replace(one, rows=one.rows + (to == "client-1")), PlanMismatch),
    (lambda to, one: replace(one, rows=0), FaultyClient),
    (lambda to, one: replace(one, power=LIMIT), FaultyClient),
])  # fmt: skip
def test_whoever_tells_different_or_wrong_things_ends_the_run(lie, error):
    name = FED.names[2]

    def change(envelope):
        if envelope.kind == "Arrival" and envelope.sender == name:
            return [replace(envelope, body=lie(envelope.recipient, envelope.body))]
        return [envelope]

    with pytest.raises(error):
        simulate(without_seal(work_of(secfc.SecFC(k=3, threshold=1), FED), FED), faults=change)


def test_another_run_file_is_named_before_anything_is_told():
    work = work_of(secfc.SecFC(k=3, threshold=1), FED, 32.0)
    made = roles(work, FED)
    first = FED.parties[0]
    other = replace(work, description=b'{"k":4}')
    coins = SeededCoins(9, first.name)
    role = session.client_role(other, first, coins)
    made[first.name] = session.protected_role(other, first.name, role, KEYS[first.name], coins)
    with pytest.raises(PlanMismatch):
        simulate(made, keep_bodies=True)


def test_a_client_knows_as_well_as_the_server_whose_rows_were_left_out():
    algorithm = secfc.SecFC(k=3, threshold=1)
    plan = algorithm.plan(PublicFacts.of(FED, 32.0))
    there = np.array([True, True, False, True, True])
    for kept, out in ((plan, ()), (plan.without(there), FED.names[2:3])):
        mine = SecFCClientResult(kept, np.zeros(11, np.int32), np.arange(11), None, None)
        assert algorithm.outcome(plan, FED.names[0], mine).excluded == out


# Of each policy the question of what merges cost, and who answers it.
POLICIES = {
    "labels": (secfc.AssignmentsOnly(), "LossQuery", "CodedGains"),
    "own labels": (secfc.OwnLabels(), "SplitGainQuery", "CodedGains"),
    "labels, nobody deals": (secfc.AssignmentsOnly(dealer=None), "LossQuery", "CodedGains"),
    "own labels, nobody deals": (secfc.OwnLabels(dealer=None), "SplitGainQuery", "CodedGains"),
    "distances": (secfc.Distances(), "DistanceQuery", "CodedDistances"),
}


def work_of_tree(policy, cut=(2, "single"), points=None):
    way = secfc.SecFC(
        6, 1, secfc.RandomLabels(), max_iter=3, disclosure=policy, release=secfc.Release(dendrogram=True)
    )
    federation = FED if points is None else secfc.Federation.from_arrays(np.split(points, [11, 27, 40, 50]))
    return way, federation, replace(work_of(way, federation, 32.0), cut=cut)


WHOSE = "question", "reply", "groups"
CRASHES = in_turns([*POLICIES][:2], WHOSE) + by_night(*itertools.product([*POLICIES][2:], WHOSE))


class Crash(OSError):  # noqa: N818
    pass


@pytest.mark.parametrize(("name", "whose"), every(3, CRASHES))
def test_rows_are_labeled_by_groups_and_the_server_alone_has_the_tree(name, whose, tmp_path):
    policy, asks, answers = POLICIES[name]
    way, federation, work = work_of_tree(policy)
    want = secfc.fit(way, federation, seed=5, bound=32.0)
    honest = simulate(without_seal(work, federation), keep_bodies=True)
    kind = {"question": asks, "groups": "ClusterGroups"}.get(whose, answers)
    last = max(e.round for e in honest.transcript.envelopes if e.kind == kind)
    moment = next(
        (e.sender, e.round) for e in honest.transcript.envelopes if (e.kind, e.round) == (kind, last)
    )

    def ended(watch):
        made = {party: protected(work, party, role) for party, role in without_seal(work, federation).items()}
        with Checkpoint.open(tmp_path, work.parties, bytes(32)) as kept:
            made = {party: kept.role(party, role) for party, role in made.items()}
            return simulate(made, watch=watch)

    def crash(party, exchange):
        if (party, exchange.round) == moment and exchange.send:
            raise Crash

    with pytest.raises(Crash):
        ended(crash)
    found = ended(lambda party, exchange: None).results
    assert found[SERVER].dendrogram.costs == want.dendrogram.costs
    groups = want.dendrogram.cut_tree(2, "single")
    for client, labels in zip(federation.names, want.cut(2, "single"), strict=True):
        assert (found[client].labels == labels).all()
        assert (found[client].groups == groups).all()
        assert found[client].dendrogram is None
        assert session.GROUPS_TOLD in found[client].learned
    told = [e for e in honest.transcript.envelopes if e.kind == "ClusterGroups"]
    assert {e.recipient for e in told} == set(federation.names)
    # Without a cut the tree stays with the server, and nobody is told more than before.
    bare = simulate(without_seal(replace(work, cut=None), federation), keep_bodies=True)
    assert "ClusterGroups" not in {e.kind for e in bare.transcript.envelopes}
    assert (bare.results[federation.names[0]].labels == want.labels[0]).all()


@pytest.mark.parametrize("groups", [[0, 0, 1], [0, 1, 2, 0, 0, 0], [-1, 0, 0, 0, 0, 1]])
def test_groups_that_fit_no_clusters_are_the_servers_fault(groups):
    _, federation, work = work_of_tree(secfc.AssignmentsOnly())

    def change(envelope):
        if envelope.kind == "ClusterGroups":
            return [replace(envelope, body=session.ClusterGroups(np.array(groups)))]
        return [envelope]

    with pytest.raises(FaultyServer, match="which make a group"):
        simulate(without_seal(work, federation), faults=change)


def test_groups_that_are_lost_cost_their_client_its_end_and_blame_nobody():
    _, federation, work = work_of_tree(secfc.AssignmentsOnly())
    lost = federation.names[1]

    def lose(envelope):
        return [] if (envelope.kind, envelope.recipient) == ("ClusterGroups", lost) else [envelope]

    found = simulate(without_seal(work, federation), faults=lose)
    assert {*federation.names, SERVER} - {*found.results} == {*found.silent} == {lost}
    assert isinstance(found.silent[lost], Indispensable)


def test_where_fewer_clusters_have_points_than_groups_were_asked_for_each_is_one():
    _, federation, work = work_of_tree(
        secfc.AssignmentsOnly(), (4, "ward"), np.repeat(POINTS[:3], 20, axis=0)
    )
    found = simulate(without_seal(work, federation)).results
    there = len(found[SERVER].dendrogram.leaves)
    assert there < 4
    assert set(np.concatenate([found[name].labels for name in federation.names])) == set(range(there))


def test_a_party_prepares_once_it_knows_all_rows_and_may_refuse_before_anything_is_said_of_them():
    told = []
    work = replace(work_of(secfc.SecFC(k=3, threshold=1), FED, 32.0), prepare=told.append)
    simulate(roles(work, FED))
    assert [public.counts for public in told] == [FED.counts] * len(work.parties)

    def refuse(public):
        raise InputError("too many rows for this machine")

    seen, refusing = [], without_seal(replace(work, prepare=refuse), FED)
    with pytest.raises(InputError, match="too many rows"):
        simulate(refusing, watch=lambda party, exchange: seen.append(exchange.phase))
    assert set(seen) == {"introduce"}
