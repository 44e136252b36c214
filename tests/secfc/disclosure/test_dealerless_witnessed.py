"""Comparisons without a dealer whose parts are played by two: one that lies ends the run before a label."""

import dataclasses
import functools
from collections import Counter

import numpy as np
import pytest

import secfc
from secfc.attacks.views import View
from secfc.coded.messages import LabelShare, MaskedBits, MaskedDistances, OwnShare, SizeShare
from secfc.disclosure.checked.messages import CheckedPart, PartShares, PartSums, ProductWords, ResharedPart
from secfc.disclosure.dealerless.steps import SeatDigest, SetKeys, SharedKeySeats, WitnessedBits
from secfc.disclosure.owner_labels import dealerless
from secfc.errors import FaultyClient, SuspectedParties, TooFewReplies
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import CenterSeparation, RandomPoints
from secfc.roles.exchange import SERVER
from secfc.transport.wire import over_wire
from tests.nightly import by_night, every, short
from tests.secfc.rowtest import kinds
from tests.small import federation, same_runs

WAYS = {
    "4 clients": dict(n=4, threshold=secfc.Threshold(t=1), init=RandomPoints()),
    "t=2": dict(n=7, threshold=secfc.Threshold(t=2), init=Bisecting(steps=1)),
    "t=2, points": dict(n=7, threshold=secfc.Threshold(t=2), init=RandomPoints()),
    "two segments": dict(n=6, threshold=secfc.Threshold(t=1, ell=2), init=CenterSeparation(RandomPoints())),
}


OWN, FINAL = secfc.OwnLabels(dealer=None), secfc.FinalLabelsOnly()
HIDDEN = secfc.OwnLabels(dealer=None, sizes="hidden")


def cluster_way(way="4 clients", deviating=1, k=3, m=48, max_iter=3, policy=None, **options):
    settings = dict(WAYS[way])
    n = settings.pop("n")
    settings["threshold"] = dataclasses.replace(settings["threshold"], deviating=deviating)
    policy = policy or secfc.AssignmentsOnly(dealer=None)
    return secfc.fit(
        secfc.SecFC(k=k, max_iter=max_iter, disclosure=policy, **settings),
        federation(n=n, m=m),
        seed=1,
        keep_bodies=True,
        **options,
    )


# --- honest runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize("way", every(2, WAYS))
def test_labels_are_bit_for_bit_those_without_witnesses(way):
    assert same_runs(cluster_way(way, 0), cluster_way(way, faults=over_wire()))


SHARED = [
    (OWN, "4 clients"),
    *by_night((FINAL, "t=2"), (HIDDEN, "4 clients"), (OWN, "t=2"), (FINAL, "4 clients")),
]


@pytest.mark.parametrize(("policy", "way"), SHARED)
def test_labels_that_stay_shared_are_bit_for_bit_those_without_witnesses(policy, way):
    way = way if way == "4 clients" else "t=2, points"
    without, with_ = cluster_way(way, 0, policy=policy), cluster_way(way, policy=policy, faults=over_wire())
    ends = [(r.flat.tolist(), [s.tolist() for s in r.sizes], r.n_iter, r.converged) for r in (without, with_)]
    assert ends[0] == ends[1]


def test_three_may_collude_and_one_of_them_lie():
    settings = dict(k=2, max_iter=2, init=RandomPoints(), disclosure=secfc.AssignmentsOnly(dealer=None))
    each = [
        secfc.fit(
            secfc.SecFC(threshold=secfc.Threshold(t=3, deviating=deviating), **settings),
            federation(n=8, m=24),
            seed=1,
        )
        for deviating in (0, 1)
    ]
    assert same_runs(*each)


KINDS = (
    "SetKeys",
    "SeatDigest",
    "CheckDealing",
    "MaskedDistances",
    "PartSums",
    "WitnessedBits",
    "LabelShare",
)


@functools.cache
def undisturbed():
    return cluster_way("t=2", m=24, max_iter=2)


# By day a client falls silent at every other kind, and of the kinds between a message is lost.
@pytest.mark.parametrize("kind", every(4, KINDS))
def test_a_client_that_falls_silent_changes_no_label(kind):
    for client in ("client-0", "client-4")[: short(1, nightly=2)]:
        gone = []

        def faults(e, client=client, gone=gone):
            gone.extend([1] * ((e.sender, e.kind) == (client, kind)))
            return () if e.sender == client and gone else (e,)

        assert same_runs(undisturbed(), cluster_way("t=2", m=24, max_iter=2, faults=faults))


@pytest.mark.parametrize("kind", every(4, [*KINDS[1:], KINDS[0]]))
def test_one_lost_message_changes_no_label(kind):
    for number in range(short(1, nightly=40)):
        count = iter(range(1 << 30))

        def faults(e, number=number, count=count):
            return () if e.kind == kind and next(count) == 5 * number else (e,)

        assert same_runs(undisturbed(), cluster_way("t=2", m=24, max_iter=2, faults=faults))


@pytest.mark.parametrize(
    "kind", ["CheckedPart", *by_night("PartShares", "ProductWords", "MaskedBits", "SizeShare")]
)
@pytest.mark.parametrize("silent", [True, False])
def test_labels_that_stay_shared_are_made_anew_where_a_message_or_client_is_lost(kind, silent):
    options = dict(policy=OWN, m=24, max_iter=2)
    gone, count = [], iter(range(1 << 30))

    def faults(e):
        if not silent:
            return () if e.kind == kind and next(count) == 7 else (e,)
        gone.extend([1] * ((e.sender, e.kind) == ("client-4", kind)))
        return () if e.sender == "client-4" and gone else (e,)

    full, found = cluster_way("t=2, points", **options), cluster_way("t=2, points", faults=faults, **options)
    assert [s.tolist() for s in full.sizes] == [s.tolist() for s in found.sizes]
    # Who fell silent may not have heard its own labels.
    pairs = list(zip(full.labels, found.labels, strict=True))
    assert all(np.array_equal(a, b) for i, (a, b) in enumerate(pairs) if i != 4 or not silent)
    assert silent or next(count) > 7


def test_without_a_client_to_spare_one_that_is_lost_ends_the_run():
    with pytest.raises(TooFewReplies):
        cluster_way(faults=lambda e: () if (e.sender, e.kind) == ("client-1", "WitnessedBits") else (e,))


# --- lies ----------------------------------------------------------------------------------------


def flipped(values, seed):
    """One bit of words, or a residue less 1."""
    out, rng = values.copy(), np.random.default_rng(seed)
    flat = out.reshape(-1)
    place = rng.integers(flat.size)
    if out.dtype == np.uint64:
        flat[place] ^= np.uint64(1) << np.uint64(rng.integers(64))
    else:
        flat[place] = flat[place] - 1 if flat[place] else 1
    return out


LIES = {
    "replies": (MaskedDistances, "values"),
    "further replies": (MaskedDistances, "further"),
    "sums of a part": (PartSums, "values"),
    "bits": (WitnessedBits, "words"),
    "tags": (WitnessedBits, "vouched"),
    "keys": (SetKeys, "keys"),
    "digests of keys": (SeatDigest, "digest"),
    "labels": (LabelShare, "words"),
    "digests of labels": (LabelShare, "digests"),
}


# What is said besides where labels stay shared.
SHARED_LIES = {
    "shares of parts": (PartShares, "values"),
    "seeds of shares": (PartShares, "seeds"),
    "digests of shares": (PartShares, "digests"),
    "products": (CheckedPart, "values"),
    "further products": (ResharedPart, "values"),
    "words of products": (ProductWords, "values"),
    "coins of a test": (MaskedBits, "words"),
    "sizes": (SizeShare, "values"),
    "whether labels changed": (SizeShare, "same"),
    "labels of owners": (OwnShare, "words"),
    "digests of labels of owners": (OwnShare, "digests"),
}
LEAVES = LabelShare, SizeShare, OwnShare


def false_value(value, seed):
    """Another one."""
    if isinstance(value, bool):
        return not value
    return bytes(len(value)) if isinstance(value, bytes) else flipped(value, seed)


def lying(name, seed, *, to_all):
    """Falsifies what one client says of this kind in some round, to one other or to all; notes rounds."""
    kind, field = (LIES | SHARED_LIES)[name]
    rng, lied, told, seen = np.random.default_rng(seed), [], [], []

    def faults(e):
        # Whoever does not respond may say 32 bytes of a part, which its first client no longer tells.
        if isinstance(e.body, LEAVES) and np.size(getattr(e.body, "words", 1)) and e.recipient != SERVER:
            told.append(e.round)
        value = getattr(e.body, field) if isinstance(e.body, kind) else None
        if value is None or not (len(value) if isinstance(value, bytes) else np.size(value)):
            return (e,)
        # Of the last sums who does not respond has shares that nobody checks before they are used.
        if kind is ResharedPart and e.recipient not in ("client-0", "client-1", "client-2"):
            return (e,)
        if not lied and kind is not SetKeys and rng.integers(6):
            return (e,)
        if not lied:
            lied.append((e.sender, e.round, e.recipient))
        if (e.sender, e.round) != lied[0][:2] or not (to_all or e.recipient == lied[0][2]):
            return (e,)
        seen.append(e.recipient)
        body = dataclasses.replace(e.body, **{field: false_value(value, seed)})
        return (dataclasses.replace(e, body=body),)

    return faults, lied, told


@pytest.mark.parametrize("to_all", [True, False], ids=["told all", "told one"])
@pytest.mark.parametrize("name", LIES)
def test_a_lie_in_any_message_ends_the_run_and_no_false_label_is_used(name, to_all):
    noticed = 0
    for seed in range(short(1, nightly=100)):
        way = ("4 clients", "t=2")[seed % 2]
        faults, lied, told = lying(name, seed, to_all=to_all)
        try:
            cluster_way(way, faults=faults)
        except SuspectedParties as error:
            found, noticed = error, noticed + 1
        else:
            assert not lied  # as it drew none of few messages
            continue
        assert lied[0][0] in found.parties
        if LIES[name][0] is not LabelShare:
            # Labels are told in the last round of a question, so those of this one were not.
            assert all(number < lied[0][1] for number in told)
    assert noticed


@pytest.mark.parametrize("policy", [OWN, *by_night(FINAL, HIDDEN)], ids=repr)
@pytest.mark.parametrize("name", SHARED_LIES)
def test_a_lie_about_labels_that_stay_shared_ends_the_run_before_anything_of_its_step(name, policy):
    if policy is not OWN and name in ("sizes", "labels of owners", "digests of labels of owners"):
        pytest.skip("nobody says it")
    noticed = 0
    for seed in range(short(1, nightly=200)):
        way = ("4 clients", "t=2, points")[seed % 2]
        faults, lied, told = lying(name, seed, to_all=seed % 3 == 0)
        try:
            cluster_way(way, policy=policy, faults=faults, m=24, max_iter=2)
        except (SuspectedParties, FaultyClient) as error:
            found, noticed = error, noticed + 1
        else:
            assert not lied  # as it drew none of few messages
            continue
        assert lied[0][0] in (found.parties if isinstance(found, SuspectedParties) else (found.party,))
        # Who hears words of products that are right goes on, as products are.
        if SHARED_LIES[name][0] not in (*LEAVES, ProductWords):
            assert all(number < lied[0][1] for number in told)
    assert noticed


@pytest.mark.parametrize("policy", [OWN, *by_night(FINAL)], ids=repr)
def test_it_is_the_check_of_products_that_notices_other_labels(policy, monkeypatch):
    """Positive control: what is added to products of labels runs to the end, and labels are wrong."""
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    full, wrong = cluster_way(policy=policy), 0
    for seed in range(8):
        try:
            run_ = cluster_way(policy=policy, faults=lying("products", seed, to_all=True)[0])
            wrong += [s.tolist() for s in run_.sizes] != [s.tolist() for s in full.sizes]
            wrong += not np.array_equal(run_.flat, full.flat)
        except SuspectedParties:  # sizes of no labels
            wrong += 1
    assert wrong


def test_coins_of_the_test_that_are_told_differently_open_nothing(monkeypatch):
    """Who hears other coins than another weighs changes otherwise: a difference of words would show them."""
    real, opened = dealerless.Resharing.opened, []

    def twofold(self, share):
        found = yield from real(self, share)
        return found ^ np.uint64(self.me == 2)

    def told(self, share):
        opened.append(self.me)
        yield from ()

    monkeypatch.setattr(dealerless.Resharing, "opened", twofold)
    monkeypatch.setattr(dealerless.Resharing, "told", told)
    with pytest.raises(SuspectedParties, match="heard different coins, or questions; nothing was told under"):
        cluster_way(policy=OWN)
    assert not opened


def test_replies_that_differ_by_what_no_coins_find_are_noticed():
    """A responder tells the two of a part replies that differ in proportion to squared sizes."""
    told = []

    def faults(e):
        if e.kind == "CompareQuery" and e.recipient == "client-4":
            told.append(e.body)
        first = isinstance(e.body, MaskedDistances) and (e.sender, e.recipient) == ("client-4", "client-0")
        if not first:
            return (e,)
        sizes = np.bincount(told[-1].labels[told[-1].labels >= 0], minlength=told[-1].k)
        values = e.body.values.copy()
        values[:, :, 0] = (values[:, :, 0] + (sizes[sizes > 0] ** 2).astype(np.uint32)) % 1073741700
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    with pytest.raises(SuspectedParties, match="different parts of replies") as error:
        cluster_way("two segments", faults=faults)
    assert "client-4" in error.value.parties


@pytest.mark.parametrize("policy", [None, *by_night(OWN)], ids=repr)
def test_no_coin_is_opened_before_all_members_have_their_parts(policy, monkeypatch):
    """Else who hears of coins replies to two that are no witnesses as these coins want it."""

    def opened():
        asked, lost, coins = [], [], []

        def faults(e):
            if e.kind in ("CompareQuery", "LloydStepQuery") and e.round not in asked:
                asked.append(e.round)
            if e.kind == "CheckCoin" and len(asked) == 1:
                coins.append(e.sender)
            late = e.kind == "MaskedDistances" and e.recipient == "client-5" and len(asked) == 1
            lost.extend([e.sender] * late)
            return () if late else (e,)

        result = cluster_way("t=2, points", policy=policy, m=24, max_iter=1, faults=faults)
        assert result.n_iter == 1
        assert lost == ["client-4"]
        return coins

    assert not opened()
    monkeypatch.setattr(SharedKeySeats, "agree", lambda *_: iter(()))
    assert opened()  # positive control


def test_without_witnesses_a_flipped_bit_runs_to_the_end():
    """Positive control: wrong labels, and nobody complains."""
    full, wrong = cluster_way(deviating=0), False
    for seed in range(200):  # most flips change no label
        rng, done = np.random.default_rng(seed), []

        def faults(e, rng=rng, done=done, seed=seed):
            if done or e.kind != "MaskedBits" or rng.integers(20):
                return (e,)
            done.append(e.round)
            words = flipped(e.body.words, seed)
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, words=words)),)

        try:
            wrong = not same_runs(full, cluster_way(deviating=0, faults=faults))
        except SuspectedParties:  # digits of no cluster
            continue
        if wrong:
            break
    assert wrong


# --- views and limits ----------------------------------------------------------------------------

# Two steps and what they cost.  A client of four hears three others in 9 rounds of products.
ASKED, HEARD = 3, 9 * 3
GOLDEN = {
    (SERVER,): {"Hello": 4, "LabelShare": 4 * ASKED},
    ("client-3",): {
        "Hello": 4, "RowShares": 3, "PublicKey": 3, "CompareQuery": ASKED, "FinalResult": 1,
        "SetKeys": 2, "SeatDigest": 3 * ASKED, "MaskedDistances": ASKED, "LabelShare": 3 * ASKED,
        "CheckDealing": 2 * ASKED, "CheckDigest": 2 * ASKED,
        "MaskedProducts": 3 * ASKED, "PartSums": 3 * ASKED, "WitnessedBits": HEARD * ASKED,
    },
}  # fmt: skip


@pytest.mark.parametrize("parties", GOLDEN, ids="+".join)
def test_golden_kinds_of_messages(parties):
    result = cluster_way(max_iter=2)
    found = View.of(result, result.plan, parties).kinds()["received"]
    assert found == Counter(GOLDEN[parties]) + Counter(kinds(4, 1, parties)["received"])


@pytest.mark.parametrize("client", ["client-0", "client-3"])
def test_what_a_client_with_the_server_is_told_is_uniform(client):
    result = cluster_way(m=640, max_iter=2)
    words = [
        e.body.words.reshape(-1).view(np.uint8)
        for e in View.of(result, result.plan, (SERVER, client)).received()
        if e.kind == "WitnessedBits" and e.body.words.size
    ]
    octets = np.concatenate(words)
    counts, expected = np.bincount(octets, minlength=256), octets.size / 256
    # Chi-square over 256 values; five sigma.
    assert float(((counts - expected) ** 2 / expected).sum()) < 255 + 5 * (2 * 255) ** 0.5


def test_limits_are_stated():
    policy = secfc.AssignmentsOnly(dealer=None)
    for n, t, deviating, message in (
        (
            3,
            1,
            1,
            r"n=3, t=1, dealer=None: parts played by two need 2t\+2=4 clients: add one, lower t, or dev",
        ),
        (9, 2, 2, r"deviating=2, dealer=None: .* use deviating=1, or a policy with a dealer"),
        (10, 4, 1, r"t=4: .* policy with a dealer"),
    ):
        with pytest.raises(ValueError, match=message):
            secfc.fit(
                secfc.SecFC(k=2, threshold=secfc.Threshold(t=t, deviating=deviating), disclosure=policy),
                federation(n=n, m=30),
            )
