"""Rounded centers: the labels of a plaintext run that rounds alike, and nothing more for anybody to see."""

import dataclasses
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import secfc
from field.code.lagrange_code import TooFewValues
from field.code.masking import PairKeys, expand_share
from field.code.rows import cluster_sizes
from field.compare.dealer_protocol import total_mask
from field.ring.basis import LANE_PRIMES, Basis
from field.secrets.coins import Coins, SeededCoins
from secfc.algorithm import PublicFacts
from secfc.attacks.views import View
from secfc.coded.messages import MaskedCenters, MaskSeed
from secfc.coded_kmeans.model_share import from_plain_values, to_plain_values
from secfc.data.inputs import build_algorithm, with_parameters
from secfc.disclosure import AssignmentsOnly
from secfc.disclosure.checked.messages import PartShares
from secfc.disclosure.compare.dealer import mask_streams
from secfc.disclosure.compare.session import SUM, CommitteeChoice, ComparisonSession
from secfc.errors import FaultyClient, FaultyServer, InputError
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.elbow import Elbow
from secfc.kmeans.starts import CenterSeparation, GivenLabels, KMeansPlusPlus, RandomLabels, RandomPoints
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, every, short, trials
from tests.secfc.queries import altered
from tests.small import federation, same_runs

STARTS = [RandomLabels(), RandomPoints(), Bisecting(), KMeansPlusPlus(), CenterSeparation(RandomPoints())]


def ways(k, init, *, dealer=SERVER, max_iter=300, scale=None, **parameters):
    """The secure run, and the plaintext one."""
    shared = {"init": init, "max_iter": max_iter, "scale": scale, "centers": "rounded"}
    shared["disclosure"] = AssignmentsOnly(dealer, consent=True)
    shared["coarse"] = "allow"
    return build_algorithm(secfc.SecFC, k=k, **{"t": 1, **parameters}, **shared), build_algorithm(
        secfc.Lloyd, k=k, **shared
    )


def fit(way, data, seed=0, **options):
    return secfc.fit(way, data, seed=seed, **{"bound": 6.0, **options})


# --- exactness -----------------------------------------------------------------------------------


@trials(8, nightly=100)
@given(
    st.sampled_from([(1, 2, 2), (2, 5, 1), (1, 4, 1), (1, 2, 0)]), st.integers(1, 9), st.integers(1, 4),
    st.integers(0, 4), st.integers(0, 2**20), st.booleans(), st.sampled_from([None, 1.0, 7.0]),
)  # fmt: skip
def test_labels_are_those_of_plaintext(shape, k, d, start, seed, client_deals, scale):
    # Small integers as points: duplicates, ties of coordinates and of distances, and empty clusters.
    ell, _, t = shape
    n = max(2 * (ell + t - 1) + 1, max(2, t + 1) + 1)
    data = federation(n, 50, d, seed, integers=True)
    dealer = f"client-{n - 1}" if client_deals else SERVER
    secure, plain = ways(k, STARTS[start], t=t, ell=ell, dealer=dealer, max_iter=4, scale=scale)
    assert same_runs(fit(secure, data, seed), fit(plain, data, seed))


def test_predictions_workers_and_more_lanes_than_are_needed():
    data, new = federation(n=7), federation(n=7, m=30, seed=1)
    for more in ({"reveal_centers": True}, {"workers": 4}, {"basis": Basis(LANE_PRIMES[:4])}):
        secure, plain = ways(3, Bisecting(steps=1), scale=128.0, **more)
        ours, theirs = fit(secure, data), fit(plain, data)
        assert same_runs(ours, theirs)
        if "reveal_centers" in more:  # opened centers are exact means
            assert (ours.centers == theirs.centers).all()
        if "workers" not in more:
            kept = dataclasses.replace(
                ours, model=from_plain_values(*to_plain_values(ours.model))
            )  # as in a file
            for a, b, c in zip(ours.predict(new), kept.predict(new), theirs.predict(new), strict=True):
                assert (a == b).all()
                assert (b == c).all()


def test_restarts_and_a_chosen_k_go_by_costs_to_rounded_centers():
    data = federation(m=90)
    for k, n_init in short(((Elbow(4), 2),), nightly=((4, 4), (Elbow(6), 1), (Elbow(4), 2))):
        secure, plain = (dataclasses.replace(way, n_init=n_init) for way in ways(k, Bisecting(), scale=32.0))
        ours, theirs = fit(secure, data), fit(plain, data)
        assert same_runs(ours, theirs)
        assert ours.cost == theirs.cost if n_init > 1 else ours.cost is None
        if isinstance(k, Elbow):
            assert ours.curve.costs == theirs.curve.costs
    # The cost is that of the last labels, at rounded means of their clusters.
    points, labels = plain_points(theirs, data), theirs.history[-1].astype(int)
    means = np.array([points[labels == h].mean(axis=0) for h in range(theirs.k)])
    grid = np.floor(16 * means + 0.5) / 16
    assert theirs.cost == pytest.approx(((points - grid[labels]) ** 2).sum() / 32**2, rel=1e-12)


def plain_points(result, data):
    return result.plan.quantizer(data.stacked())


def test_merged_rows_are_rounded_as_their_data():
    # Rows are computed on as multiples of their data; centers are those of the data all the same.
    points = np.random.default_rng(3).integers(-40, 41, (24, 2)).astype(float)
    ids = [np.arange(14), np.arange(10, 20), np.arange(18, 24)]
    data = secfc.Federation.from_arrays([points[i] for i in ids], ids=[[f"p{j}" for j in i] for i in ids])
    secure, plain = ways(3, RandomLabels(), scale=1.0)
    private = dataclasses.replace(secure, membership=secfc.Private())
    ours = secfc.fit(private, data, bound=40.0, coins=lambda c: SeededCoins(3, c))
    assert ours.plan.layout.multiple > 1
    order = np.empty(24, int)
    for rows, own in zip(ours.rows, ids, strict=True):
        order[rows] = own
    assert same_runs(ours, fit(plain, secfc.Federation.from_arrays([points[order]]), bound=40.0))


def test_rounding_changes_labels_and_saves_a_lane():
    # The oracle is no run with exact centers: on a coarse grid the labels differ.
    data = federation(m=300, seed=4)
    secure, plain = ways(6, RandomLabels(), scale=1.0)
    assert not same_runs(
        *(
            fit(
                with_parameters(plain, centers=c),
                data,
            )
            for c in ("rounded", "exact")
        )
    )
    lanes = [
        fit(
            with_parameters(
                secure,
                centers=c,
                scale=None,
                max_iter=1,
            ),
            data,
        ).plan.code.basis.lanes
        for c in ("rounded", "exact")
    ]
    assert lanes == [2, 3]


# --- silence -------------------------------------------------------------------------------------

PLAYED = (
    "MaskedCenters",
    "PartShares",
    "MaskedDistances",
    "MaskedSum",
    "MaskedBits",
    "PartDigests",
    "LabelShare",
    "MissingMessages",
)
LOST = [
    (("client-2",), PLAYED),  # a responder outside the committee
    (("client-1",), PLAYED),
    (("client-0",), ("MaskedCenters",)),
    (("client-1",), ("PartShares",)),
    (("client-1",), ("PartDigests",)),
    (("client-0",), ("MaskedBits", "PartShares", "MaskedDistances")),
    (("client-1",), ("MaskedSum", "LabelShare", "CodedGains")),
    (("client-1",), ("MaskSeed",)),
]


@pytest.mark.parametrize(
    ("clients", "kinds", "dealer"),
    [
        *every(4, ((*lost, SERVER) for lost in LOST[:-1])),
        (*LOST[-1], "client-2"),
        *by_night(*((*lost, "client-5") for lost in LOST)),
    ],
)
def test_silent_parties_are_replaced_and_change_nothing(clients, kinds, dealer):
    data = federation(n=6)
    secure, plain = ways(3, Bisecting(steps=1), dealer=dealer, max_iter=2)
    lossy = fit(secure, data, faults=lambda e: () if e.sender in clients and e.kind in kinds else (e,))
    assert same_runs(lossy, fit(plain, data))
    asked, full = (
        sum(
            e.kind.startswith(("Compare", "CostQuery", "GainQuery", "LossQuery", "SplitGainQuery"))
            for e in run.transcript.envelopes
        )
        for run in (lossy, fit(secure, data))
    )
    assert asked > full, "something was asked again"


# --- who deviates, and what is refused -----------------------------------------------------------


def changed(kinds, change, sender=None):
    def faults(e):
        if e.kind in kinds and sender in (None, e.sender):
            e = dataclasses.replace(e, body=change(e.body))
        return (e,)

    return faults


@pytest.mark.parametrize(
    ("kind", "change", "rule"),
    [
        (
            "PartShares",
            lambda b: PartShares(np.pad(b.values, ((0, 0), (0, 1))), b.seeds, b.digests),
            "malformed",
        ),
        ("MaskedCenters", lambda b: MaskedCenters(b.values[:, :, :-1]), "malformed"),
        ("MaskedCenters", lambda b: MaskedCenters(b.values | np.uint32(2**31)), "canonical"),
        ("PartShares", lambda b: MaskedCenters(b.values[None]), "MaskedCenters where .*PartShares"),
    ],
)
def test_malformed_messages_name_their_sender(kind, change, rule):
    secure, _ = ways(3, RandomLabels())
    with pytest.raises(FaultyClient, match=f"client-1 .*{rule}"):
        fit(secure, federation(), faults=changed((kind,), change, "client-1"), keep_bodies=True)


@pytest.mark.parametrize(
    ("centers", "members", "rule"),
    [
        ("rounded", [0], "another committee"),
        ("rounded", [], "another committee"),
        ("rounded", [1, 2, 3], "did not fall silent"),
        ("exact", [0, 1], "to round centers, which are exact"),
    ],
)
def test_a_server_that_seats_others_to_round_is_refused(centers, members, rule):
    def seat(body):
        return altered(body, members=np.array(members, np.int32), corrected=0)

    secure, _ = ways(3, Bisecting(steps=1))
    faults = changed(("GainQuery", "LossQuery"), seat)
    with pytest.raises(FaultyServer, match=rule):
        fit(
            with_parameters(secure, centers=centers),
            federation(),
            faults=faults,
            keep_bodies=True,
        )


@pytest.mark.parametrize(
    ("parameters", "rule"),
    [
        ({"centers": "round"}, 'centers=\'round\' is unknown: use "exact".*or "rounded"'),
        (
            {"disclosure": "distances"},
            'with disclosure=Distances.*: the server decodes.*Use .*centers="exact"',
        ),
        ({"disclosure": "final-labels"}, r"with .*FinalLabelsOnly\(\).*disclosure=AssignmentsOnly\(\)"),
        ({"disclosure": AssignmentsOnly(dealer=None)}, r"AssignmentsOnly\(dealer=None\).*somebody deals"),
        ({"basis": Basis(LANE_PRIMES[:1]), "scale": 64.0}, "or leave lanes to the plan"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_remedy(parameters, rule):
    with pytest.raises(InputError if "basis" not in parameters else ValueError, match=rule):
        fit(
            build_algorithm(secfc.SecFC, **{"k": 3, "t": 1, "centers": "rounded", **parameters}), federation()
        )


# --- views ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def alike():
    """All points alike, so that only masks and sharing can vary."""
    data = secfc.Federation.from_arrays([np.full((40, 64), 0.25)] * 5)
    # Each part is one member's.
    secure, _ = ways(8, GivenLabels(np.arange(200) % 8), max_iter=1, deviating=0)
    return data, fit(secure, data, keep_bodies=True)


def test_what_anybody_receives_of_centers_is_uniform(alike):
    def spread(values, top):
        counts = np.bincount((values.reshape(-1).astype(float) * 32 / top).astype(int), minlength=32)
        return stats.chisquare(counts).pvalue > 1e-7

    _, result = alike
    primes, seen = result.plan.code.basis.primes, {"MaskedCenters": 0, "PartShares": 0}
    for e in result.transcript.envelopes:
        if e.kind in seen and e.body.values.size:  # and not seeds
            seen[e.kind] += 1
            assert all(spread(lane, p) for lane, p in zip(e.body.values, primes, strict=True))
    assert min(seen.values()) > 1
    # Control: the same test on what these are shares of.
    dealt = dealings(result)
    assert not spread(decoded(result, dealt), primes[0])


def dealings(result):
    """Of the first question, every member's dealings to others: {member: {client's number: residues}}."""
    first = min(e.round for e in result.transcript.envelopes if e.kind == "PartShares")
    out, code = {}, result.plan.code
    shape = code.basis.lanes, 8, code.width(64)
    for e in result.transcript.envelopes:
        if e.kind == "PartShares" and e.round == first:
            seeds = [Coins(e.body.seeds)] if e.body.seeds else []
            share, *_ = (*(expand_share(code, 8 * shape[2], seed) for seed in seeds), e.body.values)
            out.setdefault(e.sender, {})[result.plan.clients.index(e.recipient)] = share.reshape(shape)
    return out


def decoded(result, dealt):
    """What two shares of each member's part make, added up: (k, d) integers."""
    code = result.plan.code
    parts = [code.interpolate(shares, 1)[:, 0] for shares in dealt.values()]
    return code.basis.lift_signed(code.basis.add(*parts))


def unmasked(view, masks):
    """The committee's masked sums (k, d) of the first question, less these masks where they are known."""
    plan, compare = view.plan, next(e.body for e in view.messages if e.kind == "CompareQuery")
    sizes = cluster_sizes(compare.labels.astype(np.int32), compare.k)
    match = ComparisonSession(plan, compare, sizes, CommitteeChoice(2, SERVER, plan.deviating))
    total = next(
        e.body.values
        for e in view.messages
        if e.kind == "MaskedCenters" and e.round == compare.round + SUM and e.sender == match.corrected
    )
    basis, seeds = (
        plan.code.basis,
        {e.sender: e.body.seed for e in view.messages if isinstance(e.body, MaskSeed)},
    )
    if masks:
        keys = PairKeys({j: seeds[c] for j, c in enumerate(plan.clients) if c in seeds})
        streams = mask_streams(match, keys, compare.responders.tolist(), sums=True)
        total = basis.add(
            total, basis.negate(total_mask(basis, match.rounding.shape, list(streams.values())))
        )
    return basis.lift_signed(total)


def test_the_dealer_with_a_member_reads_sums_and_a_member_alone_does_not():
    data = federation(m=40)
    secure, _ = ways(3, GivenLabels(np.arange(40) % 3), max_iter=1, scale=64.0)
    result = fit(secure, data, keep_bodies=True)
    points = result.plan.quantizer(data.stacked())
    true = np.array([points[np.arange(40) % 3 == h].sum(axis=0) for h in range(3)])
    # The control, and what the policy says that it does not withstand.
    both = View.of(result, result.plan, (SERVER, "client-0"), data)
    assert (unmasked(both, masks=True) == true).all()
    alone = View.of(result, result.plan, ("client-0",), data)
    assert np.abs(unmasked(alone, masks=False)).min() > np.abs(true).max()


def test_two_clients_hold_the_centers_and_one_with_the_server_does_not(alike):
    data, result = alike
    dealt = dealings(result)
    assert {len(shares) for shares in dealt.values()} == {2}, "three respond, of whom two are the committee"
    # The control: t + 1 = 2 shares of all parts decode to the rounded centers.
    expected = int(result.plan.quantizer(np.array([[0.25]]))[0, 0]) << result.plan.fraction
    assert (decoded(result, dealt) == expected).all()
    # The dealing server with the client outside the committee holds one share of each part, and nothing else.
    view = View.of(result, result.plan, (SERVER, "client-2"), data)
    kinds = {e.kind for e in view.received()}
    assert not kinds & {"MaskedCenters", "MaskedSum", "MaskedBits"}
    assert "PartShares" in kinds
    first = min(e.round for e in result.transcript.envelopes if e.kind == "PartShares")
    held = [e for e in view.received() if e.kind == "PartShares" and e.round == first]
    assert len(held) == len(dealt)
    with pytest.raises(TooFewValues, match="1 evaluations do not fix the polynomial: 2 are needed"):
        decoded(result, {c: {2: shares[2]} for c, shares in dealt.items()})


# --- what is said of it --------------------------------------------------------------------------


def test_reports_name_rounded_centers_and_say_what_they_would_save():
    data = federation()
    secure, _ = ways(3, RandomLabels(), scale=64.0, max_iter=1)
    told = secure.account(fit(secure, data), data)
    assert "rounded centers on shares (not k-means with exact centers)" in told.title
    assert told.parameters["centers"] == "rounded"
    assert "ties up: labels are those of plaintext k-means that rounds alike" in dict(told.setup)["Centers"]
    wide = with_parameters(secure, centers="exact", basis=Basis(LANE_PRIMES[:4]))
    told = wide.account(fit(wide, data), data)
    assert "exact k-means" in told.title
    assert re.match(
        "exact, which takes 4 lanes; --centers rounded takes 2 lanes", dict(told.setup)["Centers"]
    )
    few = with_parameters(wide, basis=None)
    assert "leaves 384 steps" not in str(few.account(fit(few, data), data).setup)


def test_errors_propose_rounded_centers_where_they_would_do():
    public = PublicFacts(("a", "b", "c"), (2 * 10**8,) * 3, 40, 6.0)
    for more, rule in (
        ({}, r"which leaves 1024 steps in 3 lanes \(.*centers=\"rounded\"\)\), say how large"),
        (
            {"scale": 2.0**12},
            r"which leaves 24576 steps in 3 lanes \(.*centers=\"rounded\"\)\), lower the scale",
        ),
    ):
        with pytest.raises(ValueError, match="Round centers, " + rule):
            build_algorithm(secfc.SecFC, k=3, t=1, **more).plan(public)
        plan = build_algorithm(secfc.SecFC, k=3, t=1, centers="rounded", init=RandomLabels(), **more).plan(
            public
        )
        assert plan.quantizer.max_int >= 1024
    with pytest.raises(ValueError, match=r"^(?!.*rounded).*Say how large"):
        secfc.SecFC(3, threshold=1, disclosure="final-labels").plan(public)
    with pytest.raises(ValueError, match="Round centers, which leaves 1024 steps"):
        secfc.SecFC(3, threshold=1, disclosure="own-labels").plan(public)
