"""Rounded centers on labels that stay shared: what a plaintext run that rounds alike finds, at every step."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.quantize import FRACTION, rounding_modulus
from field.secrets.coins import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.data.inputs import build_algorithm, with_parameters
from secfc.disclosure import OwnLabels
from secfc.disclosure.compare.session import DEAL, CommitteeChoice, ComparisonSession
from secfc.disclosure.dealerless.steps import StalledStep
from secfc.disclosure.owner_labels.client import OwnerLabelsClient
from secfc.disclosure.owner_labels.multiplication import session_for
from secfc.errors import InputError
from secfc.kmeans.elbow import Elbow
from secfc.kmeans.splitting import Splitting
from secfc.kmeans.starts import GivenLabels, RandomLabels, RandomPoints
from secfc.roles.exchange import SERVER, STRIDE
from tests.nightly import by_night, covering, every, short, trials
from tests.secfc.queries import query
from tests.small import federation

STARTS = [RandomLabels(), RandomPoints(), Splitting(), Splitting(keep=0.1, steps=1, settle=0, spare=1.0)]


def ways(k, init, *, dealer=SERVER, **parameters):
    """The secure run, and the plaintext one."""
    shared = {"init": init, "centers": "rounded", "coarse": "allow", "max_iter": 300}
    shared |= {"disclosure": OwnLabels(dealer), "n_init": 1}
    secure = {key: parameters.pop(key) for key in ("t", "ell", "basis", "membership") if key in parameters}
    shared |= parameters
    return build_algorithm(secfc.SecFC, k=k, **{"t": 1, **secure}, **shared), build_algorithm(
        secfc.Lloyd, k=k, **shared
    )


def fit(way, data, seed=0, **options):
    return secfc.fit(way, data, seed=seed, **{"bound": 6.0, **options})


def check_same(secure, plain, data, seed=0):
    """Labels at the end, sizes of every step, and costs, of which clusters are ordered by."""
    ours, theirs = fit(secure, data, seed), fit(plain, data, seed)
    assert all((a == b).all() for a, b in zip(ours.labels, theirs.labels, strict=True))
    assert (ours.n_iter, ours.converged, ours.k) == (theirs.n_iter, theirs.converged, theirs.k)
    # Of a run whose points are all in one cluster everybody knows the labels, so it has no sizes to tell.
    sizes = [np.bincount(step[step >= 0], minlength=ours.k) for step in theirs.history]
    for a, b in zip(ours.sizes, sizes[-len(ours.sizes) :] if ours.sizes else (), strict=True):
        assert (a == b).all()
    if plain.n_init > 1:
        assert ours.cost == theirs.cost
    return ours, theirs


# --- exactness -----------------------------------------------------------------------------------


@trials(3)
@given(
    st.sampled_from([(1, 1), (1, 2), (2, 1)]), st.integers(1, 6), st.integers(1, 4), st.sampled_from(STARTS),
    st.integers(1, 3), st.integers(0, 2**20), st.integers(-1, 9), st.sampled_from([None, 1.0, 7.0]),
)  # fmt: skip
def test_labels_sizes_and_costs_are_those_of_plaintext(shape, k, d, start, n_init, seed, deals, scale):
    # Small integers as points: duplicates, ties of coordinates and of distances, and empty clusters.
    ell, t = shape
    n = 2 * (ell + t - 1) + 2
    data = federation(n, 40, d, seed, integers=True)
    dealer = SERVER if deals < 0 else f"client-{deals % n}"  # who may respond as well
    secure, plain = ways(k, start, t=t, ell=ell, dealer=dealer, n_init=n_init, max_iter=4, scale=scale)
    check_same(secure, plain, data, seed)


@pytest.mark.parametrize("seed", [1, 3, *by_night(0, 2)])
def test_a_chosen_k_goes_by_costs_to_rounded_centers(seed):
    rng = np.random.default_rng(seed)
    apart = 0.0 if seed == 3 else 4.0  # of one cloud the elbow makes few clusters, or one
    data = secfc.Federation.from_arrays([rng.normal(apart * (c % 3), 0.5, (12, 2)) for c in range(5)])
    secure, plain = ways(Elbow(5), Splitting(), n_init=1 + seed % 2)
    ours, theirs = fit(secure, data, bound=12.0), fit(plain, data, bound=12.0)
    assert ours.k == theirs.k
    assert all((a == b).all() for a, b in zip(ours.labels, theirs.labels, strict=True))
    if ours.curve is not None:
        assert ours.curve.costs == theirs.curve.costs


def test_predictions_revealed_centers_and_merged_rows():
    data, new = federation(), federation(m=30, seed=1)
    day = [{"reveal_centers": True}, {"dealer": "client-0", "basis": Basis(LANE_PRIMES[:4])}]
    for more in short(day, nightly=[{}, *day, {"dealer": "client-0"}, {"basis": Basis(LANE_PRIMES[:4])}]):
        opened = {"reveal_centers": True} if more.pop("reveal_centers", False) else {}
        secure, plain = ways(3, Splitting(steps=1), scale=128.0, **more)
        ours, theirs = check_same(with_parameters(secure, **opened), plain, data)
        for a, b in zip(ours.predict(new), theirs.predict(new), strict=True):
            assert (a == b).all()
        if opened:  # exact means
            assert (ours.centers == theirs.centers).all()
    rng = np.random.default_rng(2)
    ids = [[f"p{j}" for j in rng.permutation(30)[:20]] for _ in range(4)]
    values = {f"p{j}": rng.normal(size=3) for j in range(30)}
    merged = secfc.Federation.from_arrays([np.array([values[i] for i in mine]) for mine in ids], ids=ids)
    secure, _ = ways(3, RandomLabels(), membership=secfc.Private(bound=40))
    exact = dataclasses.replace(secure, disclosure=secfc.AssignmentsOnly())
    ours, theirs = (fit(way, merged, coins=lambda c: SeededCoins(3, c)) for way in (secure, exact))
    assert ours.plan.layout.multiple > 1
    assert all((a == b).all() for a, b in zip(ours.labels, theirs.labels, strict=True))


def test_rounding_is_what_makes_the_numbers_narrow():
    data = federation(m=90)
    secure, plain = ways(4, RandomLabels())
    rounded, exact = (
        fit(secure, data),
        fit(
            with_parameters(secure, centers="exact"),
            data,
        ),
    )
    assert rounded.plan.code.basis.lanes < exact.plan.code.basis.lanes
    assert rounded.transcript.nbytes() < 0.8 * exact.transcript.nbytes()
    # The control: with so few steps rounded centers lead elsewhere than exact ones.
    coarse = [with_parameters(plain, scale=2.0, centers=c) for c in ("rounded", "exact")]
    ours, theirs = (fit(way, federation(m=300, seed=4), bound=6.0) for way in coarse)
    assert not np.array_equal(np.concatenate(ours.labels), np.concatenate(theirs.labels))


# --- the bound of what is divided ----------------------------------------------------------------


@pytest.mark.parametrize("start", [Splitting(), RandomLabels()])
def test_there_is_room_for_halves_beyond_the_rows(start):
    """A half's center lies a step beyond its rows; all that a plan accepts leaves room for that."""
    secure, _ = ways(2, start)
    for rows in (40, 2**16, 2**28):
        plan = secure.plan(PublicFacts(("a", "b", "c"), (rows,) * 3, 2, 1.0))
        assert plan.aside == int(start.grows)
        assert rounding_modulus(plan.m, plan.proven + plan.aside, FRACTION) < plan.code.basis.modulus
        m, who = plan.m, np.array([0, 1], np.int32)
        step = 0, 0, np.array([m - 1, 1]), np.arange(2)
        labels = np.zeros(4, np.int32)
        cut = query("SplitQuery", 7, 2, labels, who, who, at=step, detail=np.ones((2, 2), np.int8))
        settle = query("LloydStepQuery", 7, 2, labels, who, who, at=step)
        seating, sharing = CommitteeChoice(2, SERVER), OwnLabels().sharing
        halves, whole = (session_for(plan, question, seating, sharing).rounding for question in (cut, settle))
        assert halves.sizes == (m - 1, m - 1, 1, 1)
        assert whole.sizes == (m - 1, 1)
        assert halves.largest - plan.aside == whole.largest == plan.proven


def test_rows_at_the_bound_are_cut_beyond_it():
    data = secfc.Federation.from_arrays([np.full((20, 2), c) for c in (-6.0, 6.0, 6.0, -6.0)])
    secure, plain = ways(2, Splitting(), basis=Basis(LANE_PRIMES[:2]))
    check_same(secure, plain, data)


# --- who is lost, and what is refused ------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "lost"),
    covering(["MaskedCenters", "PartShares", "MaskedBits"], ["client-0", "client-1", "client-2"]),
)
def test_a_player_that_falls_silent_while_centers_are_rounded_is_replaced(kind, lost):
    data = federation(n=6)
    secure, plain = ways(3, Splitting())
    gone: list[str] = []

    def faults(e):
        if e.sender == lost and e.kind == kind:
            gone.append(lost)
        return [] if gone and lost in (e.sender, e.recipient) else [e]

    ours, theirs = fit(secure, data, faults=faults), fit(plain, data)
    assert gone or lost == "client-2"  # which is no member, and only responds
    for name, a, b in zip(data.names, ours.labels, theirs.labels, strict=True):
        assert (a == (-1 if gone and name == lost else b)).all()


WAITING = {
    "a client deals, a member does not respond": dict(n=6, t=1, dealer="client-0"),
    "some respond alone": dict(n=7, t=2, init=Splitting(), n_init=2),
}


def unheard(monkeypatch, n, t, init=RandomLabels(), **parameters):
    """Who would wait in vain for whom, if that one went no further after any step in which it waits."""
    waits, players, steps = [], {}, OwnerLabelsClient.steps

    def noted(client, match):
        players[client.name, match.question.round] = client, match
        return steps(client, match)

    monkeypatch.setattr(OwnerLabelsClient, "steps", noted)
    way = ways(3, init, t=t, max_iter=2, scale=64.0, **parameters)[0]
    fit(way, federation(n, 40, 2), watch=lambda *who: waits.append(who))
    found = []
    for (name, asked), (client, match) in players.items():
        client.said.clear()
        # What members tell all at the end is said in any case; a server's rounds precede a question.
        here = [(c, e) for c, e in waits if asked <= e.first < asked + STRIDE // 2 and e.phase != "open"]
        for step in sorted({e.first - asked for c, e in here if c == name and e.expect}):
            said = {(c, e.round) for e in client.give_up(match, StalledStep(step - DEAL, ())) for c in e.send}
            # Who heard it goes no further itself.
            first = {}
            for c, e in here:
                if c != name and name in e.expect and e.first > asked + step:
                    first[c] = min(e.first, first.get(c, e.first))
            found += [(step, *late) for late in first.items() if late not in said]
    assert players
    return found


@pytest.mark.parametrize("way", every(2, WAITING))
def test_who_goes_no_further_says_so_wherever_somebody_first_waits_for_it(way, monkeypatch):
    assert not unheard(monkeypatch, **WAITING[way])
    # Positive control: for so many steps alone that somebody listens.
    monkeypatch.setattr(ComparisonSession, "woven_until", 0)
    assert unheard(monkeypatch, **WAITING[way])


@pytest.mark.parametrize(
    ("policy", "shown"),
    [
        (OwnLabels(dealer=None), r'OwnLabels\(dealer=None\)(.*) or dealer="server"'),
        (OwnLabels(sizes="hidden"), r'OwnLabels\(sizes="hidden"\)(.*)AssignmentsOnly\(\)'),
        (secfc.FinalLabelsOnly(), r"FinalLabelsOnly\(\)(.*)AssignmentsOnly\(\)"),
    ],
)
def test_secret_sizes_and_nobody_who_deals_are_refused(policy, shown):
    way = secfc.SecFC(3, 1, disclosure=policy, quantization=secfc.Quantization(centers="rounded"))
    with pytest.raises(InputError, match=shown) as refused:
        fit(way, federation())
    assert "by sizes that all hear" in re.search(shown, str(refused.value))[1]


def test_labels_that_are_known_at_once_need_no_rounding():
    data = secfc.Federation.from_arrays([np.zeros((4, 2))] * 4)
    secure, plain = ways(2, GivenLabels(np.zeros(16, int)))
    check_same(secure, plain, data)
