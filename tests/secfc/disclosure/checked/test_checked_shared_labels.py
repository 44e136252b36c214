"""Replies are checked where labels stay shared: nothing of a false step is told, honest runs are as ever."""

import dataclasses
import itertools
from functools import cache, partial, reduce

import numpy as np
import pytest

import secfc
from field import SystemCoins
from field.code.reply_check import open_words
from field.ring.basis import LANE_PRIMES, Basis
from secfc.coded.messages import (
    CodedGains,
    LabelShare,
    MaskedBits,
    MaskedCenters,
    MaskedDistances,
    MaskedSum,
    OwnShare,
    SizeShare,
)
from secfc.coded.queries import Operation
from secfc.disclosure.checked import products, steps
from secfc.disclosure.checked.messages import MaskSums, PartSums
from secfc.disclosure.checked.products import ProductVerifier
from secfc.disclosure.compare import rounds, server
from secfc.disclosure.owner_labels import client, dealerless
from secfc.disclosure.owner_labels.multiplication import SecureMultiplication
from secfc.errors import FaultyClient, SuspectedParties, TooFewReplies
from secfc.kmeans.starts import RandomLabels, RandomPoints
from secfc.roles.exchange import ITERATE, SERVER, Exchange
from secfc.transport.simulate import simulate
from tests.nightly import by_night, covering, every, short
from tests.secfc.active.dying import named_by_anybody
from tests.secfc.disclosure.checked import test_checked_replies as replies
from tests.secfc.disclosure.checked.test_checked_replies import CHECKS, LIES, gone, lying, unchecked
from tests.secfc.disclosure.decoded import test_verification as decoded
from tests.small import federation

TOLD = LabelShare, SizeShare, OwnShare
ALONE = secfc.Threshold(t=2, deviating=0)
WAYS = {
    "own labels": dict(disclosure=secfc.OwnLabels(), init=RandomPoints()),
    "splitting, a client deals": dict(disclosure=secfc.OwnLabels("client-0")),
    "two segments": dict(
        disclosure=secfc.OwnLabels(), init=RandomLabels(), threshold=secfc.Threshold(t=1, ell=2)
    ),
    "rounded": dict(disclosure=secfc.OwnLabels(), quantization=secfc.Quantization(centers="rounded")),
    "hidden sizes": dict(disclosure=secfc.OwnLabels(sizes="hidden")),
    "hidden sizes, a client deals": dict(disclosure=secfc.OwnLabels("client-0", sizes="hidden")),
    "own labels, nobody deals": dict(disclosure=secfc.OwnLabels(None), init=RandomPoints(), threshold=ALONE),
    "hidden sizes, nobody deals": dict(disclosure=secfc.OwnLabels(None, sizes="hidden"), threshold=ALONE),
    "final labels, nobody deals": dict(disclosure=secfc.FinalLabelsOnly(), threshold=ALONE),
    "labels": dict(disclosure=secfc.AssignmentsOnly(), init=RandomPoints()),
    "one a part": dict(disclosure=secfc.OwnLabels(), init=RandomPoints(), threshold=ALONE),
    "final labels": dict(disclosure=secfc.FinalLabelsOnly(dealer=SERVER)),
}
WAYS["rounded, one a part"] = WAYS["rounded"] | {"threshold": ALONE}
# Sums are told where centers are rounded.
FALSE, SUMS = ([lie for lie in LIES if (lie[0] is MaskedCenters) == sums] for sums in (False, True))
SHORT = ("own labels", "splitting, a client deals", "hidden sizes", "own labels, nobody deals")
LONG = [way for way in WAYS if way not in (*SHORT, "labels") and "one a part" not in way]
MOST = [*SHORT, *by_night(*LONG)]
# Where nobody deals each member has a part of all replies, and tells what it adds up to, weighted.
APART = [lie for lie in FALSE if lie[0] not in (MaskedSum, MaskSums)]
APART.append((PartSums, "values", "client-1"))
CASES = [(way, *lie) for way in SHORT for lie in (APART if "nobody deals" in way else FALSE)]
CASES.append(("rounded", *SUMS[0]))
CASES += by_night(
    *((way, *lie) for way in LONG for lie in (APART if "nobody deals" in way else FALSE)),
    *(("rounded", *lie) for lie in SUMS[1:]),
)


def cluster_way(way, n=6, m=48, **options):
    settings = {"k": 3, "threshold": secfc.Threshold(t=2), "max_iter": 3, **WAYS[way]}
    return secfc.fit(secfc.SecFC(**settings), federation(n=n, m=m), seed=1, **options)


whole = cache(partial(cluster_way, keep_bodies=True))


def same(a, b):
    """Whether two runs opened the same, and told owners the same labels."""
    ends = [(r.n_iter, r.converged, [s.tolist() for s in r.sizes], r.flat.tolist()) for r in (a, b)]
    return ends[0] == ends[1] and all(map(np.array_equal, a.history, b.history))


def told_until(faults):
    """Also notes the rounds of what leaves the committee."""
    told = []

    def both(e):
        if isinstance(e.body, TOLD):
            told.append(e.round)
        return faults(e)

    return both, told


@pytest.mark.parametrize(
    ("way", "kind", "field", "sender"), every(2, CASES), ids=lambda x: getattr(x, "__name__", x)
)
def test_one_false_residue_ends_the_run_before_anything_is_told(way, kind, field, sender):
    if "a client deals" in way and sender == SERVER:
        sender = "client-0"
    # The first question is about labels that all know, the others about shared ones.
    (honest, said), sent = lying(kind, field, sender, 0, turn=-1), whole(way).transcript.envelopes
    told = min(e.round for e in sent if honest(e) and isinstance(e.body, TOLD))
    later = next(turn for turn, number in enumerate(said) if number > told)
    for seed in range(short(1, nightly=40)):
        turn = (1 - seed % 2) * later
        faults, seen = lying(kind, field, sender, seed, turn)
        faults, told = told_until(faults)
        what = "sums of clusters in" if kind is MaskedCenters else "fit the shares of|lies on no polynomial"
        if kind is MaskedSum:  # who adds up and tells others another sum is noticed in words, too
            what += "|heard different words"
        with pytest.raises(SuspectedParties, match=what):
            cluster_way(way, faults=faults)
        # Where centers are rounded, sums are told twice, and checked beside replies.
        assert turn < len(seen) <= turn + 1 + (way == "rounded")
        assert all(number < seen[turn] for number in told)
        assert bool(told) == (turn > 0)


@pytest.mark.parametrize("way", every(2, MOST))
def test_it_is_the_check_that_notices(way, monkeypatch):
    """Positive control: with the identity taken away the same lies run to the end."""
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    for kind, field, sender in APART[:2]:
        faults, seen = lying(kind, field, sender, 0, turn=1)
        assert cluster_way(way, faults=faults).n_iter >= 1
        assert len(seen) > 1


def predicted(way, faults):
    """Labels of the points of a run as of new ones, under faults."""
    return whole(way).model.predict(
        federation(n=6, m=48),
        coins=lambda party: SystemCoins(),
        drive=lambda roles, *_: simulate(roles, faults=faults),
    )


@pytest.mark.parametrize("way", every(2, [*MOST, "labels"]))
def test_new_points_are_compared_with_kept_centers_under_the_same_check(way, monkeypatch):
    for kind, field, sender in FALSE[:2]:
        faults, told = told_until(lying(kind, field, sender, 0, turn=0)[0])
        with pytest.raises(SuspectedParties, match="fit the shares of the rows"):
            predicted(way, faults)
        assert not told
    # Positive control: it is the check that notices.
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    faults, told = told_until(lying(MaskedDistances, "values", "client-3", 0, turn=0)[0])
    assert len(predicted(way, faults)) == 6
    assert told


LOST = ["MaskedDistances", "MaskedSum", *CHECKS[:-1], "PartSums"]


@pytest.mark.parametrize("client", ["client-1", *by_night("client-4")])
@pytest.mark.parametrize(
    ("way", "kind"), [*every(2, covering([*SHORT], LOST)), *by_night(*itertools.product(LONG, LOST))]
)
def test_a_client_that_is_lost_at_any_message_changes_no_label(way, client, kind):
    if client == "client-4" and kind in ("MaskedSum", "CheckDealing", "CheckCoin", "CheckDigest", "PartSums"):
        pytest.skip("it is not in the committee")
    if kind in (("MaskedSum",) if "nobody deals" in way else ("PartSums",)):
        pytest.skip("nobody says it")
    full = whole(way)
    for turn in short((2,), (1, 2, 3)):
        assert told_alike(full, cluster_way(way, faults=gone(client, kind, turn)), but=client)


def told_alike(a, b, but):
    """The same, but that one client may not have heard its labels."""
    pairs = zip(a.plan.clients, a.labels, b.labels, strict=True)
    alike = all(np.array_equal(x, y) or c == but for c, x, y in pairs)
    sizes = [[s.tolist() for s in r.sizes] for r in (a, b)]
    return alike and sizes[0] == sizes[1] and (a.n_iter, a.converged) == (b.n_iter, b.converged)


@pytest.mark.parametrize(
    ("way", "kind"),
    [
        *every(2, covering([*SHORT], [*LOST, CHECKS[-1]])),
        *by_night(*itertools.product(LONG, [*LOST, CHECKS[-1]])),
    ],
)
def test_one_lost_message_changes_no_label(way, kind):
    if kind in (("MaskedSum", "MaskSums") if "nobody deals" in way else ("PartSums",)):
        pytest.skip("nobody says it")
    full = whole(way)
    for number in range(short(1, nightly=40)):
        count = iter(range(1 << 30))

        def faults(e, number=number, count=count):
            return () if e.kind == kind and next(count) == 3 * number + 5 else (e,)

        assert same(full, cluster_way(way, faults=faults))


@pytest.mark.parametrize("operation", every(2, ["SplitGain", "ClusterCost"]))
def test_false_sums_end_the_run_before_a_number_of_rounded_centers_is_opened(operation, monkeypatch):
    heard = []

    def faults(e):
        heard.extend([e.round] if e.kind == operation + "Query" and e.sender == SERVER else [])
        heard.extend([None] if e.kind in ("CodedGains", "CodedCosts") and heard else [])
        if not heard or e.kind != "MaskedCenters" or e.sender != "client-3" or None in heard:
            return (e,)
        if not e.body.values.size:
            return (e,)
        values = e.body.values.copy()
        values[0, 0, 0] ^= 1
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    monkeypatch.setitem(WAYS, "restarts", {**WAYS["rounded"], "n_init": 2, "max_iter": 2})
    with pytest.raises(SuspectedParties, match="sums of clusters in reply"):
        cluster_way("restarts", faults=faults)
    assert heard
    assert None not in heard
    # Positive control: it is the check that notices.
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    assert cluster_way("restarts", faults=faults).n_iter >= 1
    assert None in heard


@pytest.mark.parametrize("way", ["one a part", *by_night("rounded, one a part")])
def test_false_sizes_of_the_last_step_end_the_run_before_an_owner_is_told_a_label(way, monkeypatch):
    """Client 1 tells a false share of sizes; one step more is taken, of which no sizes are used."""
    real, said = client.tell_shares, []

    def tell_shares(blocks, at, context, shares):
        out, digests = real(blocks, at, context, shares)
        if at == 1 and out.dtype != np.uint64:
            said.append(1)
            if len(said) == last - 1:
                out = Basis(LANE_PRIMES[:1]).add(out, np.ones_like(out))
        return out, digests

    last = 1 << 30
    monkeypatch.setattr(client, "tell_shares", tell_shares)
    cluster_way(way)
    last, said = len(said), []
    faults, told = told_until(lambda e: (e,))
    with pytest.raises(SuspectedParties, match="do not fit the shares of labels and rows"):
        cluster_way(way, faults=lambda e: faults(e) if isinstance(e.body, OwnShare) else (e,))
    assert not told
    # Positive control: it is the claim about sizes that notices.
    said = []
    monkeypatch.setattr(products, "size_claim", lambda basis, *_: lambda coins: nothing(basis))
    assert cluster_way(way).n_iter >= 1


def nothing(basis):
    """An inner product of no numbers, which is zero."""
    none = np.empty((basis.lanes, 0), basis.dtype)
    return none, none, np.zeros(basis.lanes, basis.dtype)


@pytest.mark.parametrize("way", ["own labels", *by_night("own labels, nobody deals", "hidden sizes")])
def test_false_shares_of_the_last_sums_are_noticed_when_they_are_used(way):
    """Who does not respond has its share unchecked, and responds when new points come and another is gone."""

    def faults(e):
        if (e.sender, e.recipient, e.kind) != ("client-1", "client-5", "ResharedPart"):
            return (e,)
        values = e.body.values.copy()
        values[0, 0] ^= 1
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    def predict(result):
        return result.model.predict(
            federation(n=6, m=48),
            coins=lambda party: SystemCoins(),
            drive=lambda roles, *_: simulate(roles, faults=gone("client-4", "MaskedDistances")),
        )

    assert len(predict(whole(way))) == 6
    with pytest.raises(SuspectedParties, match="lies on no polynomial; nothing of this step was opened"):
        predict(cluster_way(way, faults=faults))


@pytest.mark.parametrize("way", ["own labels, nobody deals", *by_night("hidden sizes, nobody deals")])
def test_who_speaks_last_does_not_choose_whether_labels_changed(way, monkeypatch):
    """Client 2 hears what all others open of the test, and opens what makes it zero: the run ends early."""
    real = dealerless.Resharing.opened

    def opened(self, share):
        if self.me != 2 or share.dtype == np.uint64:
            return (yield from real(self, share))
        others, basis = [j for j in self.receivers if j != self.me], self.basis.prefix(1)
        mine = MaskedBits(share, bytes(32))
        told = dealerless.commit_opening(self.steps.nonce, self.me, mine)
        told = dict.fromkeys(others, MaskedBits(np.empty(0, np.uint64), heard=told))
        yield from self.steps.exchange(told, others, MaskedBits)
        heard = yield from self.steps.exchange({}, others, MaskedBits)
        total = reduce(basis.add, [message.words for message in heard.values()])
        mine = MaskedBits(basis.negate(total).astype(np.uint32), bytes(32))
        send = {self.plan.clients[j]: mine for j in others}
        yield Exchange(send, round=self.steps.number + self.steps.step, phase="compare")
        return np.zeros_like(total)

    assert whole(way).n_iter > 1
    monkeypatch.setattr(dealerless.Resharing, "opened", opened)
    with pytest.raises(FaultyClient, match="opened another share than it committed to") as caught:
        cluster_way(way)
    assert caught.value.party == "client-2"
    # Positive control: where nobody commits to what it opens, the first labels that are tested are the last.
    monkeypatch.setattr(dealerless, "commit_opening", lambda *_: b"")
    early = cluster_way(way)
    assert early.converged
    assert early.n_iter < whole(way).n_iter


def silent_from(lost, turn):
    """A client that falls silent for good before its turn-th message in steps."""
    count = iter(range(1 << 30))

    def faults(e):
        if e.sender != lost or e.round < ITERATE:
            return (e,)
        return (e,) if next(count) < turn else ()

    return faults


ALL = {f"decoded {way}": decoded.settings(way) for way in decoded.WAYS}
ALL |= {f"public {way}": given for way, given in replies.WAYS.items()} | WAYS


@pytest.mark.nightly
@pytest.mark.parametrize("way", ALL)
def test_ten_thousand_honest_checks_are_not_refused_with_clients_lost_at_every_message(way, monkeypatch):
    """Of replies, sums and products, in whole runs of each way, which end as those in which nobody is lost.

    A client that does not deal falls silent before a message that is drawn from all that it says in steps.
    Of 10,593 checks in 1,420 runs of 23 ways none was refused, with coins of checks in their order of today
    where words are compared beside.
    """
    checks, number, seed = set(), 0, 0
    for kind in (steps.CheckedReplies, products.CheckedProducts):

        def accept(self, *words, real=kind.accept):
            checks.add((number, type(self).__name__, self.context))
            real(self, *words)

        monkeypatch.setattr(kind, "accept", accept)
    algorithm = secfc.SecFC(**{"k": 3, "threshold": secfc.Threshold(t=1), "max_iter": 4, **ALL[way]})
    rng = np.random.default_rng()
    while len(checks) < 10_000 / len(ALL):
        seed, number = seed + 1, number + 1
        data = federation(n=6, m=30, seed=seed)
        honest = secfc.fit(algorithm, data, seed=seed)
        said = [e for e in honest.transcript.envelopes if e.round >= ITERATE]
        lost = rng.choice(sorted({e.sender for e in said} - {SERVER, "client-0"}))
        said = [e.kind for e in said if e.sender == lost]
        for turn in rng.integers(len(said), size=4).tolist():
            number += 1
            found = secfc.fit(algorithm, data, seed=seed, faults=silent_from(lost, turn))
            for c, a, b in zip(found.plan.clients, honest.labels, found.labels, strict=True):
                assert c == lost or (a == b).all(), (seed, lost, turn, said[turn])
    print(f"{way}: {len(checks)} checks in {number} runs")


# --- what splits gain --------------------------------------------------------------------------------

SPLITTING = {
    "a client deals": dict(disclosure=secfc.OwnLabels("client-0")),
    "nobody deals": dict(disclosure=secfc.OwnLabels(None), threshold=secfc.Threshold(t=1, deviating=0)),
    "rounded": dict(disclosure=secfc.OwnLabels(), quantization=secfc.Quantization(centers="rounded")),
    "two segments": dict(disclosure=secfc.OwnLabels(), threshold=secfc.Threshold(t=1, ell=2)),
}


@pytest.mark.parametrize("way", [*list(SPLITTING)[:1], *by_night(*list(SPLITTING)[1:])])
def test_false_gains_are_not_used_to_choose_a_split(way, monkeypatch):
    """A client that adds to its share of what the first split gains, or to its part of the product itself."""
    monkeypatch.setitem(WAYS, way, SPLITTING[way])
    real, lied, told = SecureMultiplication.reduced, [], []

    def faults(e):
        if e.kind != "CodedGains" or e.sender != "client-2":
            return (e,)
        return (dataclasses.replace(e, body=CodedGains((e.body.values + np.uint32(1)) % 1073741700)),)

    with pytest.raises(SuspectedParties, match="said of gains lies on no polynomial; they are not used"):
        cluster_way(way, n=5, m=15, faults=faults)

    def reduced(self, match, steps, product, *rest):
        gains = match.question.operation is Operation.SPLIT_GAIN and rest[2] == 1
        if self.me == 2 and product is not None and gains:
            lied.append(match.question.round)
            product = (product + np.uint32(10**6)) % np.uint32(1073741700)
        return (yield from real(self, match, steps, product, *rest))

    def heard(e):
        told.extend([e.round] if e.kind == "CodedGains" else [])
        return (e,)

    monkeypatch.setattr(SecureMultiplication, "reduced", reduced)
    with pytest.raises(SuspectedParties, match="gains do not fit the shares of labels and rows"):
        cluster_way(way, n=5, m=15, faults=heard)
    assert lied
    assert not told
    # Positive control: it is the check that notices.
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    assert cluster_way(way, n=5, m=15).n_iter >= 1


def test_of_gains_of_several_segments_their_sum_alone_is_opened_and_is_checked(monkeypatch):
    monkeypatch.setitem(WAYS, "short", {**SPLITTING["two segments"], "k": 2, "max_iter": 1})

    def opened():
        """What the shares of the first gains are shares of: (lanes, segments, pairs)."""
        result = cluster_way("short", n=5, m=15, keep_bodies=True)
        told = [e for e in result.transcript.envelopes if e.kind == "CodedGains"]
        code, first = result.plan.code, min(e.round for e in told)
        words = {result.plan.clients.index(e.sender): e.body.values for e in told if e.round == first}
        return code.basis, open_words(code, code.basis, words)

    basis, honest = opened()
    # A client deals masks that do not add up to 0, so that one gain is another.
    real = ProductVerifier._shares

    def shares(self, part, further=()):
        if self.me == 2 and self.asked.blinded:
            part[:, 0, -1] = (part[:, 0, -1].astype(np.uint64) + 10**6) % 1073741700
        return real(self, part, further)

    monkeypatch.setattr(ProductVerifier, "_shares", shares)
    with pytest.raises(SuspectedParties, match="gains do not fit the shares of labels and rows"):
        cluster_way("short", n=5, m=15)
    # Positive control: it is the check that notices; and segments are under masks, which differ.
    monkeypatch.setattr(products.CheckedProducts, "accept", lambda *_: None)
    _, false = opened()
    assert (false != honest).all()
    same = products.add_segments(basis, false) == products.add_segments(basis, honest)
    assert same[:, :-1].all()
    assert not same[:, -1].any()


# --- what clusters cost ------------------------------------------------------------------------------


def test_false_squares_of_rows_are_noticed_before_costs_show_whose_they_are(monkeypatch):
    """A client adds 2**(50 + i) to the square of row i: costs of clusters would tell all labels at once."""
    real, m = SecureMultiplication.reduced, 20
    way = secfc.SecFC(
        k=3, max_iter=1, n_init=2, init=RandomLabels(), threshold=1, disclosure=secfc.OwnLabels()
    )

    def reduced(self, match, steps, product, to, rows, width, *rest):
        if self.me == 2 and (rows, width) == (m, 1):
            basis = self.plan.code.basis
            added = basis.reduce(np.array([2 ** (50 + i) for i in range(m)], object))
            product = basis.add(product, added[:, :, None])
        return (yield from real(self, match, steps, product, to, rows, width, *rest))

    monkeypatch.setattr(SecureMultiplication, "reduced", reduced)
    with pytest.raises(SuspectedParties, match="squares of rows do not fit the shares"):
        secfc.fit(way, federation(n=3, m=m), seed=1)
    # Positive control: without the check the server, or who works with it, reads them off.
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    result = secfc.fit(way, federation(n=3, m=m), seed=1, keep_bodies=True)
    told, code, read = result.transcript.envelopes, result.plan.code, []
    costs = [e for e in told if e.kind == "CodedCosts"]
    for number in sorted({e.round for e in costs}):
        words = {result.plan.clients.index(e.sender): e.body.values for e in costs if e.round == number}
        found = [int(x) for x in code.basis.lift(code.decode(words, 2))]
        # The client's weight is 3, and a cost is times the squared size.
        sets = [c // (3 * s * s) >> 50 for c, s in zip(found, result.sizes[-1].tolist(), strict=True)]
        read.append([[bits >> i & 1 for i in range(m)] for bits in sets])
    assert np.eye(3, dtype=int)[result.flat].T.tolist() in read


def flipped_label(point, told, deviating=1):
    """A run of two clusters in which a member flips the bit by which a point's new label becomes a residue,
    for all alike, in a step after which point 18 alone has another label.  told: by others from then on."""
    asked, false, real = [], [], rounds.reconstruct_parts

    def reconstruct(basis, blocks, members, me, mine, talk, threads):
        said = next(iter(mine.values()))
        if me == "client-0" and said.dtype == np.uint64 and said.ndim == 1:  # bits, and what coins are of
            asked.append(talk.number)
            if len(asked) == 2:
                first = blocks.told_by(0)[0]
                false.append(talk.number)
                mine = {**mine, first: mine[first] ^ np.array([1 << point, 0, 0], np.uint64)}
        return (yield from real(basis, blocks, members, me, mine, talk, threads))

    def faults(e):
        if e.sender != "client-0":
            told.extend([e.body] * (bool(false) and e.round > false[0]))
        return (e,)

    way = dict(disclosure=secfc.OwnLabels(), init=RandomPoints(), max_iter=2)
    way = secfc.SecFC(2, secfc.Threshold(t=1, deviating=deviating), **way)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "reconstruct_parts", reconstruct)
        return secfc.fit(way, federation(n=4, m=24, seed=1), seed=1, keep_bodies=True, faults=faults)


def test_a_flipped_bit_ends_the_run_before_it_shows_whose_label_changed():
    """A deviation of our own: told before words are checked, whether labels changed would tell that."""
    for point in short((18,), nightly=range(24)):
        told = []
        with pytest.raises(SuspectedParties, match="heard different words"):
            flipped_label(point, told)
        assert any(isinstance(body, MaskedBits) for body in told)
        assert not any(isinstance(body, SizeShare) for body in told)
        assert not any(body.words.shape == (1, 3) for body in told if isinstance(body, MaskedBits))
    # Positive control: where nobody else plays its part, the run ends if and only if it is that point's.
    assert [flipped_label(point, [], deviating=0).converged for point in (17, 18, 19)] == [False, True, False]


def test_a_client_lost_while_it_deals_takes_no_other_with_it(monkeypatch):
    """One client is to spare.  Who does not hear it goes no further, and says so wherever it is awaited: so
    nobody names another, whatever the server makes of reports.  Nor does it later, as the server does without
    who is in most reports."""
    segments = dict(WAYS["two segments"], quantization=secfc.Quantization(centers="rounded"))
    monkeypatch.setitem(WAYS, "rounded segments", segments)
    ways = short(("rounded segments",), ("rounded segments", "two segments"))

    def goes_on(way, turn):
        found = cluster_way(way, faults=silent_from("client-1", turn))
        for c, a, b in zip(found.plan.clients, found.labels, whole(way).labels, strict=True):
            assert c == "client-1" or np.array_equal(a, b)

    for way, turn in itertools.product(ways, short((), range(60))):
        goes_on(way, turn)
    monkeypatch.setattr(server, "exclude_dropouts", named_by_anybody)
    for way in ways:
        goes_on(way, 5)
    # Positive control: where it does not say so, those who wait for it name it.
    monkeypatch.setattr(client.OwnerLabelsClient, "give_up", unchecked)
    with pytest.raises(TooFewReplies, match="5 replies are needed"):
        cluster_way("rounded segments", faults=silent_from("client-1", 5))
