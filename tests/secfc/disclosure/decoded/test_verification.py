"""Replies that the server decodes are checked: what is false ends the run before a label is published."""

import dataclasses

import numpy as np
import pytest

import secfc
from field.cached import SharedValues
from field.code.reply_check import DistanceCheck
from field.ring.basis import LANE_PRIMES, Basis
from secfc.coded.messages import CodedDistances, MissingMessages
from secfc.disclosure.checked.messages import CheckDealing, MaskedProducts, MaskedRow, RepliesFixed
from secfc.disclosure.checked.steps import CheckedReplies, CheckingClient
from secfc.disclosure.decoded import replies
from secfc.errors import FaultyClient, SuspectedParties
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import CenterSeparation, KMeansPlusPlus, RandomLabels, RandomPoints
from secfc.roles.exchange import SERVER, STRIDE
from tests.nightly import by_night, every, in_turns, short
from tests.secfc.active.adaptive import forget_ranges
from tests.secfc.disclosure.checked.test_checked_replies import fit_to_coins
from tests.small import federation, same_runs

LIES = [
    (CodedDistances, "values", "client-3"),
    (CodedDistances, "further", "client-3"),
    (CheckDealing, "values", "client-1"),
    (MaskedRow, "values", "client-2"),
    (MaskedProducts, "values", "client-4"),
]
BARE = secfc.Distances(blind=False)
WAYS = {
    "bisecting": dict(init=Bisecting(steps=1)),
    "two segments": dict(init=RandomPoints(), threshold=secfc.Threshold(t=1, ell=2)),
    "drawn": dict(init=KMeansPlusPlus()),
    "separated": dict(init=CenterSeparation(RandomPoints())),
    "bare": dict(init=RandomPoints(), threshold=secfc.Threshold(t=1, ell=2), disclosure=BARE),
}
CHECKED = ["bisecting", "two segments", "bare"]


def settings(way):
    exact = secfc.Quantization(scale=1024.0)
    common = {"quantization": exact, "threshold": secfc.Threshold(t=2), "disclosure": secfc.Distances()}
    return {"k": 3, "max_iter": 3, **common, **WAYS[way]}


def cluster_way(way="bisecting", m=48, **options):
    """Five of six clients respond."""
    algorithm = secfc.SecFC(**settings(way))
    return secfc.fit(algorithm, federation(n=6, m=m), seed=1, keep_bodies=True, **options)


def plain(way, m=48, **more):
    options = {name: value for name, value in settings(way).items() if name != "threshold"}
    return secfc.fit(secfc.Lloyd(**options), federation(n=6, m=m), seed=1, **more)


@pytest.mark.parametrize("way", ["two segments", "bare"])
def test_weights_of_a_question_are_drawn_once_in_a_process(way, monkeypatch):
    drawn, draw = [], DistanceCheck.draw_weights
    monkeypatch.setattr(DistanceCheck, "draw_weights", lambda *of: drawn.append(of[0]) or draw(*of))
    asked = sum(e.kind == "RepliesFixed" for e in cluster_way(way).transcript.envelopes) // 5
    assert len(drawn) == asked > 0
    monkeypatch.setattr(SharedValues, "take", lambda self, key, compute: compute())
    cluster_way(way)
    assert len(drawn) == asked + 6 * asked  # five responders and the server, each for itself


def lying(kind, field, sender, seed, turn):
    """Adds to one residue of what a client says in the turn-th round of this; notes rounds, and questions."""
    seen, asked = [], []

    def faults(e):
        if e.sender == SERVER and e.kind in ("DistanceQuery", "HalfDistanceQuery", "FinalResult"):
            asked.append(e.round)
        if not isinstance(e.body, kind) or e.sender != sender or not getattr(e.body, field).size:
            return (e,)
        if e.round not in seen:
            seen.append(e.round)
        if seen.index(e.round) != turn:
            return (e,)
        changed = getattr(e.body, field).copy()
        rng = np.random.default_rng(seed)
        place = rng.integers(changed.size)
        value = int(changed.reshape(-1)[place]) + 1 + int(rng.integers(1 << 20))
        changed.reshape(-1)[place] = value % 1073741700
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, **{field: changed})),)

    return faults, seen, asked


@pytest.mark.parametrize("way", WAYS)
def test_labels_are_those_of_plaintext(way):
    assert same_runs(cluster_way(way), plain(way))


@pytest.mark.parametrize(("kind", "field", "sender"), LIES, ids=lambda x: getattr(x, "__name__", x))
@pytest.mark.parametrize("way", CHECKED)
def test_one_false_residue_ends_the_run_before_a_label(way, kind, field, sender):
    for seed in range(short(2, nightly=100)):
        faults, seen, asked = lying(kind, field, sender, seed, turn=seed % 2)
        with pytest.raises(SuspectedParties, match=r"fit the shares|within the range|lies on no polynomial"):
            cluster_way(way, faults=faults)
        # What a step gives is told in the next question.
        assert max(asked) // STRIDE == seen[seed % 2] // STRIDE


@pytest.mark.parametrize("way", CHECKED)
def test_it_is_the_check_that_notices(way, monkeypatch):
    """Positive control: with the identity taken away the same lies run to the end."""
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    forget_ranges(monkeypatch)
    for kind, field, sender in LIES[:2]:
        faults, seen, _ = lying(kind, field, sender, 0, turn=0)
        assert cluster_way(way, faults=faults).n_iter >= 1
        assert seen


def forcing(cluster):
    """Client 3 moves the first point away from a center."""

    def faults(e):
        if not isinstance(e.body, CodedDistances) or e.sender != "client-3" or e.body.values.shape[1] != 3:
            return (e,)
        values = e.body.values.copy()
        each = np.arange(5, 5 + len(values), dtype=values.dtype)
        values[:, cluster, 0] = (values[:, cluster, 0] + each) % 1073741700
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    return faults


@pytest.mark.parametrize("way", ["two segments", "bare"])
def test_without_the_check_a_responder_chooses_labels(way, monkeypatch):
    """Positive control of what it is good for: a label depends on what one client adds."""
    own = int(cluster_way(way).history[-1][0])
    with pytest.raises(SuspectedParties, match="fit the shares of the rows"):
        cluster_way(way, faults=forcing(own))
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    forget_ranges(monkeypatch)
    assert cluster_way(way, faults=forcing(own)).history[-1][0] != own


def test_bare_replies_are_told_as_they_are_but_what_they_are_checked_by_is_masked(monkeypatch):
    """Else replies of the uniform row would tell how it multiplies sums at every client."""
    made, real = [], CheckingClient.further

    def further(self, columns):
        made.append(real(self, columns).astype(np.int64))
        return made[-1].astype(np.uint32)

    monkeypatch.setattr(CheckingClient, "further", further)
    result = cluster_way("bare")
    code = result.plan.code
    replies = [e.body for e in result.transcript.envelopes if e.kind == "CodedDistances"]
    each = code.threshold(2)
    assert len(replies) == len(made) == each * (result.n_iter + 1)
    primes = np.array(code.basis.primes[: len(made[0])])[:, None]
    for start in range(0, len(made), each):
        told, own = replies[start : start + each], made[start : start + each]
        segments = code.interpolate({j: m.values for j, m in enumerate(told)}, 2)
        # Of integers, most of them far below the prime.
        assert (segments[0] < code.basis.primes[0] // 8).mean() > 0.3
        assert all((m.further != x).mean() > 0.99 for m, x in zip(told, own, strict=True))
        masks = sum(m.further.astype(np.int64) - x for m, x in zip(told, own, strict=True))
        assert (masks % primes == 0).all()


def gone(client, kind, turn):
    """A client that falls silent for good before it says this for the turn-th time."""
    rounds = set()

    def faults(e):
        if e.sender == client and e.kind == kind:
            rounds.add(e.round)
        return () if e.sender == client and len(rounds) >= turn else (e,)

    return faults


KINDS = ("CheckDealing", "CodedDistances", "CheckDigest", "MaskedRow", "MaskedProducts")


@pytest.mark.parametrize(("client", "kind"), every(2, in_turns(["client-1", "client-4"], KINDS)))
def test_a_client_that_is_lost_at_any_message_changes_no_label(client, kind):
    if client == "client-4" and kind.startswith("Check"):
        pytest.skip("it does not deal")
    full = cluster_way()
    for turn in (1, 2):
        assert same_runs(full, cluster_way(faults=gone(client, kind, turn)))


@pytest.mark.parametrize("kind", every(4, [*KINDS, "RepliesFixed"]))
def test_one_lost_message_changes_no_label(kind):
    full = cluster_way()
    for number in range(short(3, nightly=40)):
        count = iter(range(1 << 30))

        def faults(e, number=number, count=count):
            return () if e.kind == kind and next(count) == 3 * number else (e,)

        assert same_runs(full, cluster_way(faults=faults))


def test_a_server_that_tells_clients_different_coins_hears_nothing_under_them():
    """Two sets of coins under one row 0 would open a sum of everybody's rows to clients."""
    words = []

    def faults(e):
        words.append((e.kind, e.sender))
        if isinstance(e.body, RepliesFixed) and e.recipient == "client-3":
            e = dataclasses.replace(e, body=RepliesFixed(bytes(16)))
        return (e,)

    with pytest.raises(SuspectedParties, match="heard different coins") as caught:
        cluster_way(faults=faults)
    assert SERVER in caught.value.parties
    assert ("CheckDigest", "client-0") in words
    assert ("MaskedRow", "client-3") not in words
    assert not {kind for kind, _ in words} & {"MaskedProducts"}


@pytest.mark.parametrize("early", [False, True])
def test_a_lie_that_is_made_for_coins_passes_only_where_they_are_known_before_replies(early, monkeypatch):
    """Client 1 adds to distances, and what makes that fit to further replies, for coins that it guesses."""
    honest, verify, lied = cluster_way("bare"), replies.reply_verification, []
    basis = honest.plan.code.basis

    def verification(plan, question, *rest):
        found = verify(plan, question, *rest)
        asked.append((question, found))
        return found

    def faults(e):
        if not isinstance(e.body, CodedDistances) or e.sender != "client-1" or lied or e.body.further is None:
            return (e,)
        question, check = next(pair for pair in asked[::-1] if pair[0].round == e.round)
        weights = honest.plan.code.decoding_weights(tuple(question.responders.tolist()), 2)[1]
        me = question.responders.tolist().index(1)
        told, false = e.body.values.copy(), np.zeros((check.basis.lanes, *e.body.values.shape[1:]), np.uint32)
        false[:, 0] = 1 << 29
        for lane, p in enumerate(basis.primes[: len(told)]):
            more = (1 << 29) * pow(int(weights[lane, me]), -1, p)
            told[lane, 0] = (told[lane, 0].astype(object) + more) % p
        lied.append(e.round)
        fit = fit_to_coins(check.asked, check.asked.seed(bytes(16)), false)
        further = check.basis.add(e.body.further, fit)
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=told, further=further)),)

    asked = []
    monkeypatch.setattr(replies, "reply_verification", verification)
    if early:
        seed = CheckedReplies.seed
        monkeypatch.setattr(CheckedReplies, "seed", lambda self, coins: seed(self, bytes(16)))
        forget_ranges(monkeypatch)
        result = cluster_way("bare", faults=faults)
        assert lied
        assert not same_runs(result, honest)
        return
    with pytest.raises(SuspectedParties, match="fit the shares of the rows"):
        cluster_way("bare", faults=faults)
    assert lied


def test_who_goes_no_further_and_says_not_why_does_not_spare_the_check():
    """A deviating client that deals does not tell the server its words: nothing is used."""

    def faults(e):
        if e.kind == "MaskedProducts" and e.sender == "client-1" and e.recipient == SERVER:
            e = dataclasses.replace(e, body=MissingMessages(4, np.empty(0, np.int32)))
        return forcing(0)(e)

    with pytest.raises((SuspectedParties, secfc.TooFewReplies)):
        cluster_way("two segments", faults=faults)


def test_further_numbers_that_are_missing_are_a_fault():
    def faults(e):
        if isinstance(e.body, CodedDistances) and e.sender == "client-3":
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, further=None))
        return (e,)

    with pytest.raises(FaultyClient, match="client-3"):
        cluster_way(faults=faults)


def test_lanes_that_honest_rows_need_are_told_and_all_are_checked(monkeypatch):
    few = secfc.Quantization(scale=32.0, basis=Basis(LANE_PRIMES[:3]), coarse="allow")
    monkeypatch.setitem(WAYS, "few", {**WAYS["two segments"], "quantization": few})
    result = cluster_way("few", bound=4.0)
    told = [e.body for e in result.transcript.envelopes if e.kind == "CodedDistances"]
    assert {(len(body.values), len(body.further)) for body in told} == {(1, 2)}
    assert same_runs(result, plain("few", bound=4.0))
    faults, *_ = lying(CodedDistances, "values", "client-3", 0, 0)
    with pytest.raises(SuspectedParties, match="fit the shares of the rows"):
        cluster_way("few", faults=faults, bound=4.0)


# --- numbers of clusters, under compared labels ----------------------------------------------------

# What is asked, who deals, and how centers are made.
ASKED = [
    (about, dealer, "exact") for about in ("GainQuery", "LossQuery") for dealer in (SERVER, "client-0", None)
]
ASKED.append(("GainQuery", SERVER, "rounded"))
ASKED += by_night(("LossQuery", SERVER, "rounded"), ("GainQuery", "client-0", "rounded"))


def split(dealer=SERVER, centers="exact", **options):
    """Clusters are split by what that gains, and merged by what that costs."""
    policy, how = secfc.AssignmentsOnly(dealer=dealer), secfc.Quantization(centers=centers)
    common = {"quantization": how, "threshold": secfc.Threshold(t=1), "disclosure": policy}
    way = secfc.SecFC(k=3, max_iter=2, init=Bisecting(), **common)
    return secfc.fit(way, federation(n=5, m=40), seed=1, keep_bodies=True, **options)


def false_number(operation, field, seed, heard):
    """Client 2 alters a residue of its first answer to this question; notes when, and what is asked later."""
    asked = []

    def faults(e):
        if e.kind == operation and e.round not in asked:
            asked.append(e.round)
        if heard and e.sender == SERVER and e.kind.endswith(("Query", "FinalResult")) and e.round > heard[0]:
            heard.append(e.round)
        if e.kind != "CodedGains" or e.sender != "client-2" or e.round not in asked[:1]:
            return (e,)
        heard.append(e.round)
        changed = getattr(e.body, field).copy()
        changed.reshape(-1)[np.random.default_rng(seed).integers(changed.size)] ^= 1
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, **{field: changed})),)

    return faults


@pytest.mark.parametrize(("operation", "dealer", "centers"), every(2, ASKED))
def test_a_false_gain_or_loss_ends_the_run_before_it_is_used(operation, dealer, centers, monkeypatch):
    for seed in range(short(1, nightly=50)):
        for field in ("values", "further"):
            heard = []
            with pytest.raises(SuspectedParties, match="fit the shares of the rows"):
                split(dealer, centers, faults=false_number(operation, field, seed, heard))
            assert len(heard) == 1
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    heard = []
    assert split(dealer, centers, faults=false_number(operation, "values", 0, heard)).n_iter >= 1
    assert len(heard) > 1


# --- numbers that are not checked: a deviating client takes any planned outcome, exactly, and there are no
# others ----


def adding(kind, amounts):
    """Client 2 adds amounts(n, shape) to its n-th answer of a kind: with its weight they are decoded."""
    seen = []

    def faults(e):
        if e.kind != kind or e.sender != "client-2":
            return (e,)
        seen.append(e.round)
        values = e.body.values
        primes = np.array(LANE_PRIMES[: len(values)], object).reshape(-1, *[1] * (values.ndim - 1))
        told = (values.astype(object) + amounts(len(seen) - 1, values.shape[1:])) % primes
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=told.astype(values.dtype))),)

    return faults


@pytest.mark.parametrize("policy", [secfc.AssignmentsOnly(), *by_night(secfc.OwnLabels())])
def test_false_costs_take_any_planned_start_and_nothing_else(policy):
    """So log2(n_init) bits a run: what comes out is, to the last label, the end of the start it names."""
    common = {"k": 3, "max_iter": 2, "n_init": 3, "init": RandomLabels(), "threshold": 1}
    fed = federation(n=3, m=20)
    way = secfc.SecFC(disclosure=secfc.AssignmentsOnly(), **common)
    asked = secfc.fit(way, fed, seed=1, keep_bodies=True).transcript.envelopes
    told = {e.round: tuple(e.body.labels.tolist()) for e in asked if e.kind == "CostQuery"}
    ends = list(told.values())
    assert len(set(ends)) == 3
    way = secfc.SecFC(disclosure=policy, **common)
    for start, end in enumerate(ends):

        def raise_others(turn, shape, start=start):
            return np.full(shape, 2**70 * (turn != start), object)

        assert tuple(secfc.fit(way, fed, seed=1, faults=adding("CodedCosts", raise_others)).flat) == end


def test_false_distances_draw_any_point_of_a_start_and_every_step_is_exact():
    """So log2(m) bits for each point that KMeansPlusPlus draws: this is the one that it names."""
    common, fed = {"k": 2, "max_iter": 2}, federation(n=3, m=20)
    draws = KMeansPlusPlus(trials=1)
    way = secfc.SecFC(init=draws, threshold=1, disclosure=secfc.Distances(), **common)
    honest = secfc.fit(way, fed, seed=1).history[0]
    others = np.flatnonzero(honest != 0)
    for row in others[: short(3, nightly=19)].tolist():

        def lift_row(turn, shape, row=row):
            return 2**50 * (np.arange(shape[1]) == row).astype(object) * (turn == 0)

        result = secfc.fit(way, fed, seed=1, faults=adding("CodedDistances", lift_row))
        assert np.flatnonzero(result.history[0] == 1).tolist() == [row]
        start = secfc.GivenLabels(result.history[0].astype(np.int32))
        assert same_runs(result, secfc.fit(secfc.Lloyd(init=start, **common), fed, seed=1))


LOST = [*KINDS[:1], "CodedGains", *KINDS[2:], "RepliesFixed"]
# Once centers are rounded: shares of these are told in a later step.
LATER = [("CheckDealing", 15), *by_night(*((kind, 15) for kind in LOST[2:]))]


@pytest.mark.parametrize(("kind", "after"), every(4, [*((kind, -1) for kind in LOST), *LATER]))
def test_lost_words_about_gains_and_losses_change_no_label(kind, after):
    def faults(e):
        lost = e.kind == kind and e.round % STRIDE > after and "client-1" in (e.sender, e.recipient)
        return () if lost else (e,)

    centers = "exact" if after < 0 else "rounded"
    assert same_runs(split(centers=centers), split(centers=centers, faults=faults))


@pytest.mark.parametrize(("centers", "digests"), [("exact", 5), ("rounded", 37)])
def test_who_goes_no_further_in_a_check_tells_all_that_may_wait_for_it(centers, digests):
    """Each would wait as long as for the dead: a step counts from the question, and rounding comes before."""
    asked, lost, told = [], [], set()

    def faults(e):
        asked.extend([e.round] if e.kind == "GainQuery" and not asked else [])
        step = e.round - asked[0] if asked else -1
        if e.kind == "MissingMessages" and e.sender == "client-1" and digests < step < STRIDE // 2:
            told.add((step - digests, e.recipient))
        if (e.kind, e.sender, e.recipient, step) != ("CheckDigest", "client-0", "client-1", digests):
            return (e,)
        lost.append(e.round)
        return ()

    policy, how = secfc.AssignmentsOnly(dealer=SERVER), secfc.Quantization(centers=centers)
    common = {"quantization": how, "threshold": secfc.Threshold(t=1), "disclosure": policy}
    secfc.fit(secfc.SecFC(k=2, max_iter=1, init=Bisecting(), **common), federation(n=5, m=20), faults=faults)
    assert len(lost) == 1
    assert told >= {(1, "client-0"), (1, "client-2"), (2, SERVER)}
