"""Parties that agreed to different things notice before anything secret leaves, and are told in what."""

import dataclasses
import importlib
import pkgutil
from functools import cached_property

import numpy as np
import pytest

import psu
import secfc
from field.secrets.coins import SeededCoins
from secfc.algorithm import PublicFacts
from secfc.coded.joined import Joined, JoinedPlan
from secfc.coded.membership import Open, Private, PrivateMembershipPlan
from secfc.coded.plan import CodedPlan, HiddenOwnerLayout
from secfc.data.inputs import with_parameters
from secfc.disclosure import (
    AssignmentsOnly,
    Distances,
    FinalLabelsOnly,
    NoiseInShares,
    OwnLabels,
)
from secfc.errors import FaultyServer, PlanMismatch, ProtocolError
from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise
from secfc.feddp.starts import GivenCenters, SpherePacking
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import CenterSeparation, GivenLabels, KMeansPlusPlus, RandomLabels, RandomPoints
from secfc.privacy.calibration import Bound, Budget
from secfc.privacy.events import Neighbors
from secfc.roles import description
from secfc.roles.description import (
    LOCAL,
    LONG,
    MAXIMUM,
    PROTOCOL,
    RunTerms,
    describe_differences,
    describe_plan,
    description_digest,
)
from secfc.roles.exchange import SERVER
from secfc.roles.messages import Hello
from secfc.transport import wire
from secfc.transport.simulate import simulate
from tests.secfc.active.adaptive import forget_ranges
from tests.small import clustered

SESSION = bytes(range(32))
NOISY = {"budget": Budget(8.0, 1e-6), "radius": Bound.given(20.0)}


FED = clustered(n=6, m=120, server_points=np.random.default_rng(1).uniform(-10, 10, (20, 3)))
PUBLIC = dataclasses.replace(PublicFacts.of(FED, 64.0), session=SESSION)
EXACT = secfc.SecFC(k=3, threshold=2, init=secfc.RandomLabels(), disclosure=Distances(), max_iter=4)


def mixed(algorithm, odd, who="client-2", public=PUBLIC, **change):
    """Everybody runs the algorithm, one of them another or with other public facts.

    Results or the error, and pairs (sender, kind of message) of what was said.
    """
    said = []
    roles = {}
    for name in (*FED.names, SERVER):
        way, facts = (odd, dataclasses.replace(public, **change)) if name == who else (algorithm, public)
        plan, coins = way.plan(facts), SeededCoins(1, name)
        if name == SERVER:
            roles[name] = way.server(plan, rng=np.random.default_rng(0), coins=coins)
        else:
            party = FED.parties[FED.names.index(name)]
            roles[name] = way.client(plan, party, coins=coins)

    def watch(party, exchange):
        said.extend((party, type(body).__name__) for body in exchange.send.values())

    try:
        return simulate(roles, watch=watch, faults=wire.over_wire()).results, said
    except ProtocolError as error:
        return error, said


def refused(facts, algorithm, odd, who="client-2", **change):
    """That this ends with PlanMismatch in exactly these facts before anything but descriptions was said."""
    error, said = mixed(algorithm, odd, who, **change)
    assert isinstance(error, PlanMismatch), error
    assert {kind for _, kind in said} == {"Hello"}
    for party, found in error.differing.items():
        assert who in error.parties or party != who
        assert {d.fact for d in found} == facts
        assert all(d.here != d.there for d in found)
    for fact in facts:
        assert f"{fact} is " in str(error)
    assert who in error.parties or len(error.parties) > 1
    return error


# --- what differs is named before anything leaves ---------------------------------------------------


POLICIES = {
    "colluding": ({"disclosure.colluding"}, Distances(colluding=3)),
    "dealt": ({"disclosure.dealt"}, Distances(dealt=True)),
    "blind": ({"disclosure.blind"}, Distances(blind=False)),
    "insists": ({"disclosure"}, FinalLabelsOnly()),
}


@pytest.mark.parametrize("who", ["client-2", "client-0", SERVER])
@pytest.mark.parametrize("name", POLICIES)
def test_other_policies(name, who):
    facts, policy = POLICIES[name]
    refused(facts, EXACT, dataclasses.replace(EXACT, disclosure=policy), who)


DEFAULT = dataclasses.replace(EXACT, disclosure=AssignmentsOnly())


def test_a_client_with_another_dealer_blames_nobody():
    odd = dataclasses.replace(EXACT, disclosure=AssignmentsOnly("client-4"))
    error = refused({"disclosure.dealer"}, DEFAULT, odd)
    text = str(error)
    assert '"server"' in text
    assert '"client-4"' in text


def test_other_starts():
    refused({"init"}, EXACT, dataclasses.replace(EXACT, init=RandomPoints()))
    labels = np.arange(120) % 3
    given = dataclasses.replace(EXACT, init=GivenLabels(labels))
    refused({"init.labels"}, given, dataclasses.replace(EXACT, init=GivenLabels(labels[::-1])))
    # Labels themselves are on nobody's screen.
    same = dataclasses.replace(EXACT, init=GivenLabels([part.tolist() for part in FED.split(labels)]))
    results, _ = mixed(given, same)
    assert isinstance(results, dict)
    assert (results["client-2"].labels == mixed(given, given)[0]["client-2"].labels).all()


def test_other_inputs_and_sessions():
    refused(
        {"quantization.rounding"},
        EXACT,
        with_parameters(EXACT, rounding="floor"),
    )
    refused(
        {"quantization.scale"},
        EXACT,
        with_parameters(EXACT, scale=1.0),
    )
    refused({"session"}, EXACT, EXACT, session=bytes(32))
    refused({"features"}, EXACT, EXACT, features=("age", "weight", "pulse"))
    refused({"plan.quantizer.bound", "plan.quantizer.scale"}, EXACT, EXACT, bound=128.0)
    counts = (21, 19, 20, 20, 20, 20)
    refused({"plan.layout.counts"}, EXACT, EXACT, counts=counts)


def test_another_version_of_the_protocol(monkeypatch):
    here = EXACT.plan(PUBLIC).description
    with monkeypatch.context() as patched:
        patched.setattr(description, "PROTOCOL", PROTOCOL + 1)
        found = describe_differences(EXACT.plan(PUBLIC).description, here)
    assert [str(d) for d in found] == [f"protocol is {PROTOCOL + 1} here and {PROTOCOL} there"]


HIDDEN = dataclasses.replace(DEFAULT, membership=Private(bound=256))


@pytest.mark.parametrize(
    ("facts", "change"),
    [
        ({"membership.merge"}, {"membership": Private(bound=256, merge=False)}),
        ({"membership.bound"}, {"membership": Private(bound=512)}),
        ({"membership.sized"}, {"membership": Private(bound=256, sized=False)}),
        ({"membership.mode"}, {"membership": Private(psu.Server(), bound=256)}),
        ({"disclosure.dealer"}, {"disclosure": AssignmentsOnly("client-4")}),
        ({"init"}, {"init": RandomPoints()}),
        ({"max_iter"}, {"max_iter": 5}),
    ],
)
def test_hidden_membership_is_agreed_on_before_the_union(facts, change):
    odd = with_parameters(HIDDEN, **change)
    for who in ("client-2", SERVER):
        refused(facts, HIDDEN, odd, who)
    refused({"plan.bound"}, HIDDEN, HIDDEN, bound=128.0)
    # Nor does anybody tell how many rows it has.
    own = mixed(HIDDEN, HIDDEN, counts=(1, 2, 3, 4, 5, 6))
    assert isinstance(own[0], dict)
    assert b'counts":[' not in HIDDEN.plan(PUBLIC).description


def test_and_the_plan_after_it(monkeypatch):
    # A client that heard of another union: its plan has other rows.
    complete = secfc.SecFC.complete

    def other(way, public, layout):
        if isinstance(layout, HiddenOwnerLayout) and way.runtime.threads == 2:
            layout = dataclasses.replace(layout, m=layout.m + 1)
        return complete(way, public, layout)

    monkeypatch.setattr(secfc.SecFC, "complete", other)
    error, said = mixed(HIDDEN, with_parameters(HIDDEN, threads=2))
    assert isinstance(error, PlanMismatch)
    facts = {d.fact for found in error.differing.values() for d in found}
    assert "plan.layout.m" in facts
    assert not {"RowShares", "PublicKey"} & {kind for _, kind in said}


def test_threads_are_everybodys_own_business():
    results, _ = mixed(EXACT, with_parameters(EXACT, threads=2))
    assert isinstance(results, dict)


LLOYD = secfc.Lloyd(k=3, max_iter=4)
KFED = secfc.KFed(k=3, k_local=2)
FEDDP = FedDPKMeans(3, 4.0, 1e-6)


@pytest.mark.parametrize(
    ("facts", "algorithm", "change"),
    [
        ({"init"}, LLOYD, {"init": KMeansPlusPlus()}),
        ({"quantization.rounding"}, LLOYD, {"rounding": "floor"}),
        ({"max_iter"}, LLOYD, {"max_iter": 5}),
        ({"k_local"}, KFED, {"k_local": 3}),
        ({"seed"}, KFED, {"seed": 3}),
        ({"epsilon"}, FEDDP, {"epsilon": 2.0}),
        ({"noise"}, FEDDP, {"noise": ServerNoise()}),
        ({"start", "steps"}, FEDDP, {"start": SpherePacking(), "steps": 1}),
        ({"neighbors.relation"}, FEDDP, {"neighbors": Neighbors("replace")}),
    ],
)
def test_every_algorithm_agrees_first(facts, algorithm, change):
    for who in ("client-2", SERVER):
        error, said = mixed(algorithm, with_parameters(algorithm, **change), who)
        assert isinstance(error, PlanMismatch), error
        assert {kind for _, kind in said} == {"Hello"}
        for found in error.differing.values():
            assert {d.fact for d in found} == facts
    assert isinstance(mixed(algorithm, algorithm)[0], dict)
    packing = dataclasses.replace(FEDDP, start=SpherePacking(), steps=1)
    odd = dataclasses.replace(packing, start=SpherePacking(attempts=7))
    refused({"start.attempts"}, packing, odd)


def test_predictions_of_another_run_are_told_apart():
    model = secfc.fit(EXACT, FED, bound=64.0).model
    sizes = np.array([40, 40, 40])
    plan = model.plan_for(FED, sizes, SESSION)
    assert plan.description != model.plan.description
    (found,) = describe_differences(
        plan.description, model.plan_for(FED, sizes[[0, 1, 1]] + 1, SESSION).description
    )
    assert (found.fact, found.here) == ("retained", "[40, 40, 40]")
    (found,) = describe_differences(plan.description, model.plan_for(FED, sizes, bytes(32)).description)
    assert found.fact == "session"


# --- what happened before: the damage comes back where the description is the old one ---------------


@pytest.fixture
def as_it_was(monkeypatch):
    """Of all that is public, what was compared before."""

    def weak(plan):
        code, q = plan.code, plan.quantizer
        return repr(
            (
                code.basis.primes, code.n, code.ell, code.t, q.scale, q.bound, q.rounding, plan.clients,
                plan.layout, plan.d, plan.k, plan.max_iter, plan.n_init, plan.chunk, plan.revealing,
                plan.largest, plan.headroom, plan.corrected, q.radius,
            )
        ).encode()  # fmt: skip

    for cls, old in ((CodedPlan, weak), (PrivateMembershipPlan, lambda draft: draft.union.digest)):
        patched = cached_property(old)
        patched.__set_name__(cls, "description")
        monkeypatch.setattr(cls, "description", patched)


def test_the_exploits_worked_with_the_old_digest(as_it_was, monkeypatch):
    # One client with another number of colluders: replies that are not checked give everybody wrong labels,
    # and nobody an error.
    right, _ = mixed(EXACT, EXACT)
    with monkeypatch.context() as unchecked:
        unchecked.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
        forget_ranges(unchecked)
        wrong, _ = mixed(EXACT, dataclasses.replace(EXACT, disclosure=Distances(colluding=3)))
    assert isinstance(wrong, dict)
    labels = [np.concatenate([r[c].labels for c in FED.names]) for r in (right, wrong)]
    assert (labels[0] != labels[1]).sum() > 40  # of 120
    # One client with another dealer: it blames an honest server, with what it calls a proof.
    odd = dataclasses.replace(DEFAULT, disclosure=AssignmentsOnly("client-0"))
    error, _ = mixed(DEFAULT, odd)
    assert isinstance(error, FaultyServer)
    # A site that insists on another policy has dealt its shares when it refuses.
    insists = dataclasses.replace(DEFAULT, disclosure=AssignmentsOnly(dealer=None))
    _, said = mixed(DEFAULT, insists)
    assert ("client-2", "RowShares") in said
    # Another session, and features in another order, pass unnoticed.
    for change in ({"session": bytes(32)}, {"features": ("age", "weight", "pulse")}):
        results, _ = mixed(EXACT, EXACT, **change)
        assert isinstance(results, dict)
    # With hidden membership, the tables of IDs have left when other policies show, if they do at all.
    odd = dataclasses.replace(HIDDEN, disclosure=AssignmentsOnly("client-4"))
    _, said = mixed(HIDDEN, odd)
    assert ("client-2", "ShareBlock") in said


# --- no parameter can be forgotten ------------------------------------------------------------------


WAYS = [
    *(
        dataclasses.replace(EXACT, disclosure=policy)
        for policy in (
            Distances(),
            AssignmentsOnly(),
            FinalLabelsOnly(),
            OwnLabels(),
            NoiseInShares(**NOISY),
        )
    ),
    *(
        dataclasses.replace(EXACT, init=start)
        for start in (
            RandomLabels(),
            RandomPoints(),
            KMeansPlusPlus(),
            Bisecting(),
            CenterSeparation(RandomPoints()),
            GivenLabels(np.arange(120) % 3),
        )
    ),
    *(
        dataclasses.replace(DEFAULT, membership=way)
        for way in (Open(), Private(bound=256), Private(psu.Server()), Joined(bound=256))
    ),
    dataclasses.replace(
        DEFAULT, disclosure=secfc.NoisySums(**NOISY), membership=Private(counts="hidden", bound=256)
    ),
    LLOYD,
    KFED,
    *(
        dataclasses.replace(FEDDP, start=start, steps=1)
        for start in (FEDDP.start, SpherePacking(), GivenCenters(FED.server_points[:3]))
    ),
    *(dataclasses.replace(FEDDP, noise=noise, committee=3) for noise in (ServerNoise(), SharedNoise())),
]


def variations(value, path=""):
    """(path, the value with one field somewhere in it changed), for each field that parties compare."""
    if dataclasses.is_dataclass(value):
        for f in dataclasses.fields(value):
            if f.metadata.get("agreed", True):
                name = f"{path}.{f.name}"
                for where, inner in variations(getattr(value, f.name), name):
                    changed = object.__new__(type(value))
                    for other in dataclasses.fields(value):
                        object.__setattr__(changed, other.name, getattr(value, other.name))
                    object.__setattr__(changed, f.name, inner)  # without the checks of the constructor
                    yield where, changed
        return
    match value:
        case bool():
            yield path, not value
        case int():
            yield path, value + 1
        case float():
            yield path, float(np.nextafter(value, np.inf))
        case str():
            yield path, value + "x"
        case bytes():
            yield path, bytes([value[0] ^ 1, *value[1:]])
        case None:
            yield path, 7
        case np.ndarray():
            changed = value.copy()
            changed.flat[-1] = 0 if changed.flat[-1] else 1
            yield path, changed
            yield path, value.reshape(1, *value.shape) if value.ndim > 1 else value[:-1]
        case tuple():
            yield path, (*value, 7)
            for i, item in enumerate(value):
                for where, inner in variations(item, f"{path}.{i}"):
                    yield where, (*value[:i], inner, *value[i + 1 :])
        case _:
            raise AssertionError(f"{path} is a {type(value).__name__}: teach the test")


@pytest.mark.parametrize("way", WAYS, ids=lambda w: type(w).__name__)
def test_a_change_of_any_field_changes_the_description(way):
    apart = dataclasses.replace(PUBLIC, observed=((0,), (1,), (2,), *((),) * (len(PUBLIC.clients) - 3)))
    plan = way.plan(apart if way.capabilities.joins else PUBLIC)
    terms = plan.terms

    def text(plan, terms):
        return describe_plan(plan, terms, **further)

    further = plan.further_facts
    whole, seen = text(plan, terms), []
    assert whole == plan.description
    wider = dataclasses.replace(terms, public=dataclasses.replace(terms.public, bound=2.0 * PUBLIC.bound))
    early = isinstance(plan, PrivateMembershipPlan | JoinedPlan)  # rows are rounded before there is a plan
    assert (dataclasses.replace(plan, terms=wider).digest() != plan.digest()) == early
    for part, build in (
        (terms, lambda changed: text(plan, changed)),
        (plan, lambda changed: text(changed, terms)),
    ):
        for where, changed in variations(part):
            assert build(changed) != whole, where
            seen.append(where)
    assert len(seen) > 15
    assert {".public.session", ".public.features"} <= set(seen)
    assert not {".public.counts.0", ".way.runtime.threads", ".public.bound"} & set(seen)


def test_every_kind_of_policy_start_and_membership_is_among_them():
    def kinds(module):
        found = importlib.import_module(module)
        return {
            kind
            for kind in vars(found).values()
            if isinstance(kind, type) and kind.__module__ == module and dataclasses.is_dataclass(kind)
        }

    policies = {vars(secfc.disclosure).get(name, getattr(secfc, name, None)) for name in secfc.__all__}
    policies = {p for p in policies if isinstance(p, type) and hasattr(p, "open_centers")}
    used = {type(getattr(w, "disclosure", None)) for w in WAYS}
    assert {p for p in policies if dataclasses.is_dataclass(p)} <= used
    assert kinds("secfc.kmeans.starts") | {Bisecting} <= {type(getattr(w, "init", None)) for w in WAYS}
    memberships = {k for k in kinds("secfc.coded.membership") if hasattr(k, "draft")}
    assert memberships == {Open, Private}


def test_fields_that_are_left_out_are_these():
    left = set()
    for package in (secfc, psu, importlib.import_module("field")):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if "__main__" in info.name or ".cli" in info.name or info.name.endswith("flare.job"):
                continue
            for kind in vars(importlib.import_module(info.name)).values():
                if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                    left |= {
                        f"{kind.__name__}.{f.name}"
                        for f in dataclasses.fields(kind)
                        if not f.metadata.get("agreed", True)
                    }
    assert left == {
        "Runtime.threads",
        "Runtime.scratch",
        "Quantization.coarse",
        # Described beside the plan.
        "ProfilePlan.terms",
        "CodedPlan.terms",
        "PlainPlan.terms",
        "OneShotPlan.terms",
        "FedDPPlan.terms",
        "PrivateMembershipPlan.terms",
        "JoinedPlan.terms",
        # In the plan, if it uses them: hidden membership hides counts, private centers need no bound.
        "PublicFacts.counts",
        "PublicFacts.bound",
        "PublicFacts.derived",
        "PublicFacts.server_points",
        "PublicFacts.observed",
        # The plan of the clustering after scaling is compared by its own roles; who was told is no matter.
        "ScaledPlan.terms",
        "ScaledPlan.inner",
        "Scaled.told",
        # Where the hub is, who vouches for it and how long to wait change nothing that another party sees.
        "RunFile.hub",
        "RunFile.authority",
        "RunFile.waiting",
        "RunFile.folder",
        # Clients speak together in one process, of whose parties each has the same plan.
        "SumPlan.together",
        # How a client clusters at home is its own matter.
        "FederatedPlan.terms",
        "OpenPlan.terms",
        "FederatedLloyd.coarse",
        "Overlap1.refiner",
        "Overlap2.local",
        "MaxMin.local",
        "NearestMerge.local",
        "Constrained.local",
        "Synchronized.local",
        "Automatic.local",
        # What the server makes of distances that it is given is its own, too.
        "Precomputed.clusterer",
    }


def test_a_new_field_is_compared_from_the_day_it_exists():
    @dataclasses.dataclass(frozen=True)
    class Newer(AssignmentsOnly):
        speed: int = 1

    @dataclasses.dataclass(frozen=True)
    class Local(AssignmentsOnly):
        speed: int = dataclasses.field(default=1, metadata=LOCAL)

    def digest(policy):
        return description_digest(
            describe_plan((), RunTerms(dataclasses.replace(DEFAULT, disclosure=policy), PUBLIC))
        )

    assert digest(Newer()) != digest(AssignmentsOnly())  # another kind
    assert digest(Newer(speed=2)) != digest(Newer())
    assert digest(Local(speed=2)) == digest(Local())


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(ValueError, match=r"init\.labels is a object, which cannot be compared"):
        _ = dataclasses.replace(EXACT, init=Odd(object())).plan(PUBLIC).description


@dataclasses.dataclass(frozen=True)
class Odd(RandomLabels):
    labels: object = None


def test_a_plan_is_used_by_who_made_it():
    plan = EXACT.plan(PUBLIC)
    other = dataclasses.replace(EXACT, disclosure=Distances(colluding=3))
    with pytest.raises(ValueError, match=r"other values \(disclosure.colluding is 3 here and 1 there"):
        other.client(plan, FED.parties[0], coins=SeededCoins(0, "x"))
    with pytest.raises(ValueError, match="made with other values"):
        other.server(plan, rng=np.random.default_rng(0), coins=SeededCoins(0, "x"))


# --- descriptions -------------------------------------------------------------------------------------


def facts(value):
    return describe_plan(value, None)


@dataclasses.dataclass(frozen=True)
class One:
    x: object = None


def test_equal_descriptions_are_equal_values():
    # Pairs of which each two differ.
    values = [
        None, True, False, 0, 1, -1, 2, 0.5, float("inf"), "", "x", "1", "None", b"", b"x", "78", (), (1,),
        (1, 2), ((1,), 2), ((1, 2),), (One(),), (One(1),), One(), One(1), (One(), 1), "One", ("One",),
        (None,), np.array([1, 2]), np.array([1.0, 2.0]), np.array([[1, 2]]), np.array([True, False]),
    ]  # fmt: skip
    texts = [facts(One(value)) for value in values]
    assert len(set(texts)) == len(texts)
    # The same numbers in another form are the same.
    for one, other in (
        (1, 1.0), (0, -0.0), (np.int32(3), 3), ([1, 2], (1, 2)), (np.arange(3, dtype=np.int8), np.arange(3)),
        (np.float32(0.5), 0.5), (np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3).T.copy()),
    ):  # fmt: skip
        assert facts(One(one)) == facts(One(other))


def test_whatever_a_peer_sends_has_a_difference():
    mine = EXACT.plan(PUBLIC).description
    deep = b"[" * 100_000
    for theirs in (
        b"",
        b"x",
        bytes(32),
        b"{}",
        b"[]",
        b"{",
        deep,
        b"1" * 5000,
        mine + b" ",
        mine[:-1],
        b"\xff" * 9,
    ):
        found = describe_differences(mine, theirs)
        assert found
        assert all(str(d).isprintable() and len(str(d)) < 400 for d in found)
    evil = mine.replace(b'"protocol":', b'"\\u001b[2Jevil":"\\u001b[31m","protocol":')
    assert all(str(d).isascii() and str(d).isprintable() for d in describe_differences(mine, evil))
    long = mine.replace(b'"nearest"', b'"' + b"y" * 5000 + b'"')
    assert all(len(str(d)) < 300 for d in describe_differences(mine, long))
    with pytest.raises(ValueError, match="at most"):
        Hello(bytes(MAXIMUM + 1))
    with pytest.raises(ValueError, match=f"{MAXIMUM} are allowed"):
        facts(One("x" * MAXIMUM))
    error = PlanMismatch({"b": describe_differences(mine, b"{}"), "a": describe_differences(mine, b"{}")})
    assert str(error).startswith("a, b hold a different plan: ")
    assert "more" in str(error)
    assert len(str(error)) < 1500


def test_names_of_thousands_are_compared_by_digests_of_few_and_a_difference_says_where():
    names = [f"client-{j}" for j in range(100_000)]
    mine = facts(One(tuple(names)))
    assert len(mine) < MAXIMUM // 50
    names[700] = "somebody"
    (found,) = describe_differences(mine, facts(One(tuple(names))))
    assert found.fact.endswith(".512-1023")
    assert found.here != found.there
    # Control: fewer are written out, as a reader of a difference would have them.
    few = tuple(names[:LONG])
    assert b"somebody" in facts(One(few))
    (found,) = describe_differences(facts(One(few)), facts(One(few[:-1])))
    assert "client-0" in found.here
