"""Runs in which replies are checked: what is lost changes nothing, what is false ends them before a label."""

import contextlib
import dataclasses
import functools

import numpy as np
import pytest

import secfc
from secfc.coded.messages import LabelShare, MaskedCenters, MaskedDistances, MaskedSum
from secfc.coded.queries import Operation
from secfc.disclosure.checked import steps
from secfc.disclosure.checked.messages import (
    CheckCoin,
    CheckDealing,
    CheckDigest,
    MaskedProducts,
    MaskedRow,
    MaskSums,
    PartShares,
    PartSums,
)
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare.center_rounding import CenterRounder
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.errors import FaultyClient, SuspectedParties
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import CenterSeparation, RandomPoints
from secfc.planning.dry_run import MessageChains
from secfc.roles.exchange import SERVER, STRIDE
from tests.nightly import by_night, every, in_turns, short
from tests.small import federation, same_runs

# Lies of one party, in each message that has numbers in it; and whom the error names if it proves something.
LIES = [
    (MaskedDistances, "values", "client-3"),
    (MaskedDistances, "further", "client-3"),
    (MaskedSum, "values", None),  # who adds up takes turns
    (MaskedSum, "further", None),
    (MaskedCenters, "values", None),  # also of the member that adds up
    (MaskedCenters, "further", None),
    (CheckDealing, "values", "client-1"),
    (MaskedRow, "values", "client-2"),
    (MaskedRow, "vouched", "client-4"),  # it tells no word, but a tag of what follows from the others'
    (MaskedProducts, "values", "client-4"),
    (MaskSums, "values", SERVER),
]
WAYS = {
    "bisecting": dict(k=3, init=Bisecting(steps=1)),
    "two segments": dict(k=3, init=RandomPoints(), threshold=secfc.Threshold(t=1, ell=2)),
    "separated": dict(k=3, init=CenterSeparation(RandomPoints())),
    "rounded": dict(k=3, init=RandomPoints(), quantization=secfc.Quantization(centers="rounded")),
    "a client deals": dict(k=3, init=RandomPoints(), disclosure=secfc.AssignmentsOnly(dealer="client-0")),
    "nobody deals": dict(
        k=3,
        init=RandomPoints(),
        disclosure=secfc.AssignmentsOnly(dealer=None),
        threshold=secfc.Threshold(t=2, deviating=0),
    ),
}
# By default two play each part where nobody deals, too, and notice lies before a check does.  Two clients
# are to spare: of 2 t + 2 none may fall silent.
PAIRED = {"two play each part": {**WAYS["nobody deals"], "threshold": secfc.Threshold(t=1)}}
PAIRED["labels stay shared"] = dict(k=3, init=RandomPoints(), disclosure=secfc.OwnLabels())
# Where nobody deals each member has a part of all replies, and nobody adds up all of them.
APART = (MaskedSum, MaskSums)
CASES = [(way, *lie) for way in WAYS for lie in LIES if way != "nobody deals" or lie[0] not in APART]
CASES.append(("nobody deals", PartSums, "values", "client-1"))


def cluster_way(way="bisecting", *, deviating=None, **options):
    settings = {"t": 2, "max_iter": 2, **(WAYS | PAIRED)[way]}
    settings |= {name: options.pop(name) for name in ("max_iter", "init") if name in options}
    if "threshold" not in settings:
        settings["threshold"] = secfc.Threshold(t=settings["t"], deviating=deviating)
    del settings["t"]
    return secfc.fit(secfc.SecFC(**settings), federation(n=6, m=48), seed=1, keep_bodies=True, **options)


def lying(kind, field, sender, seed, turn):
    """Adds to one residue of what a party says the turn-th time, the same to all; notes the round."""
    seen, rng = [], np.random.default_rng(seed)

    def faults(e):
        values = (
            getattr(e.body, field, None) if isinstance(e.body, kind) and sender in (e.sender, None) else None
        )
        if isinstance(values, bytes):
            values = np.frombuffer(values, np.uint8)
        if values is None or not values.size:
            return (e,)
        if e.round not in seen:
            seen.append(e.round)
        if seen.index(e.round) != turn:
            return (e,)
        changed = values.copy()
        place = np.random.default_rng(seed).integers(values.size)
        changed.reshape(-1)[place] = (int(changed.reshape(-1)[place]) + 1 + int(rng.integers(1 << 20))) % (
            1073741700 if changed.itemsize > 1 else 256
        )
        told = bytes(changed) if changed.itemsize == 1 else changed
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, **{field: told})),)

    return faults, seen


def watched(faults, told):
    """Also notes who tells its share of labels in which round."""

    def both(e):
        if isinstance(e.body, LabelShare):
            told.append((e.round, e.sender))
        return faults(e)

    return both


@pytest.mark.parametrize(
    ("way", "kind", "field", "sender"), every(2, CASES), ids=lambda x: getattr(x, "__name__", x)
)
def test_one_false_residue_ends_the_run_before_a_label(way, kind, field, sender):
    if way == "a client deals" and sender == SERVER:
        sender = "client-0"
    if kind is MaskedCenters and way != "rounded":
        pytest.skip("centers are exact")
    for seed in range(short(1, nightly=40)):
        faults, seen = lying(kind, field, sender, seed, turn=seed % 2)
        told = []
        # Who adds up and tells others another sum, or center, is noticed in what members open meanwhile, too.
        apart = "|heard different words" if kind in (MaskedSum, MaskedCenters) else ""
        with pytest.raises(
            SuspectedParties, match=r"fit the shares of the rows|lies on no polynomial" + apart
        ):
            cluster_way(way, faults=watched(faults, told))
        false = seen[seed % 2]
        assert seen[-1] // STRIDE == false // STRIDE
        # Labels are told in the last round of a question: of the false one shares are missing.  A member that
        # lies to others has no lie before it.
        late = {who for number, who in told if number >= false}
        assert late <= ({next(iter(late), "")} if kind is MaskedSum else set())


def test_who_alone_vouches_for_a_word_compares_it_with_its_own():
    """client-0 tells it a word that the other, which tells one as well, was not told."""
    said = []

    def faults(e):
        said.append((e.kind, e.sender))
        if (e.kind, e.sender, e.recipient) != ("MaskedRow", "client-0", "client-2"):
            return (e,)
        values = e.body.values.copy()
        values[..., 0] ^= 1
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    way = secfc.SecFC(3, secfc.Threshold(1, deviating=0), RandomPoints())
    with pytest.raises(SuspectedParties, match="sums of the rows lies on no polynomial"):
        secfc.fit(way, federation(n=3, m=24), seed=1, keep_bodies=True, faults=faults)
    assert ("MaskedProducts", "client-2") not in said


def test_a_client_that_deals_makes_its_own_false_replies_fit(monkeypatch):
    """What the page says of it: it hears coins before it tells what its masks add up to."""
    honest, dealer = cluster_way("a client deals"), "client-0"

    def error(values):
        false = np.zeros_like(values)
        false[:, 0, ::2] = np.arange(1, 1 + len(values))[:, None] << 26  # a large number
        return false

    def faults(e):
        if isinstance(e.body, MaskedDistances) and e.sender == dealer and e.body.values.size:
            basis = honest.plan.code.basis.prefix(len(e.body.values))
            changed = basis.add(e.body.values, error(e.body.values))
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, values=changed))
        return (e,)

    real = steps.CheckingClient.verify

    def verify(self, rows=None, columns=None, sums=None, masks=None, *beside):
        if masks is not None:
            masks = self.asked.basis.add(masks[0], error(masks[0])), masks[1]
        return real(self, rows, columns, sums, masks, *beside)

    # Without masks that are made to fit it is noticed, as anybody is.
    with pytest.raises(SuspectedParties, match="fit the shares of the rows"):
        cluster_way("a client deals", faults=faults)
    monkeypatch.setattr(steps.CheckingClient, "verify", verify)
    assert not same_runs(cluster_way("a client deals", faults=faults), honest)


@pytest.mark.parametrize("way", every(2, WAYS))
def test_it_is_the_check_that_notices(way, monkeypatch):
    """Positive control: with the identity taken away the same lies run to the end."""
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    for kind, field, sender in LIES[:2] + (LIES[4:6] if way == "rounded" else []):
        faults, seen = lying(kind, field, sender, 0, turn=0)
        assert cluster_way(way, faults=faults).n_iter >= 1
        assert seen


@pytest.mark.parametrize("operation", ["GainQuery", "LossQuery", "CostQuery"])
def test_false_sums_end_the_run_before_a_number_is_opened(operation):
    """Of centers that are rounded for a question about clusters."""
    way = secfc.SecFC(
        k=3, init=Bisecting(), n_init=2, max_iter=2, threshold=secfc.Threshold(t=1),
        quantization=secfc.Quantization(centers="rounded"),
    )  # fmt: skip
    for seed in range(short(2, nightly=100)):
        said, false = [], []

        def faults(e, seed=seed, said=said, false=false):
            if e.kind == operation and not false:
                false.append(e.round)
            said.append((e.kind, e.round))
            asked = bool(false) and e.round // STRIDE == false[0] // STRIDE
            if not asked or e.kind != "MaskedCenters" or e.sender != "client-2" or not e.body.values.size:
                return (e,)
            values = e.body.values.copy()
            values.reshape(-1)[np.random.default_rng(seed).integers(values.size)] ^= 1
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

        with pytest.raises(SuspectedParties, match="sums of clusters in reply to question"):
            secfc.fit(way, federation(n=4, m=48), seed=1, keep_bodies=True, faults=faults)
        assert not {("CodedGains", false[0]), ("CodedCosts", false[0])} & set(said)


def test_a_part_of_a_center_that_is_dealt_off_the_code_is_noticed():
    def faults(e):
        to = e.kind == "PartShares" and e.sender == "client-1" and e.recipient == "client-4"
        if to and e.body.values.size:
            values = e.body.values.copy()
            values[0, 0] ^= 1
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, values=values))
        return (e,)

    with pytest.raises(SuspectedParties, match="lies on no polynomial"):
        cluster_way("rounded", deviating=0, faults=faults)
    with pytest.raises(SuspectedParties, match="do not say the same of rounded centers"):
        cluster_way("rounded", faults=faults)


def test_another_part_of_a_center_is_noticed_by_who_plays_it_as_well(monkeypatch):
    """Positive control: a member whose part nobody else plays decides alone what it deals."""
    honest, real = cluster_way("rounded"), CenterRounder.divided

    def divided(self, match, rounding, *rest):
        parts = yield from real(self, match, rounding, *rest)
        if self.name == "client-1":
            q = min(parts)
            parts[q][:, 0] = rounding.basis.add(parts[q][:, 0], rounding.basis.reduce(np.array([50_000])))
        return parts

    monkeypatch.setattr(CenterRounder, "divided", divided)
    assert not same_runs(honest, cluster_way("rounded", deviating=0))
    with pytest.raises(SuspectedParties, match="do not say the same of rounded centers") as error:
        cluster_way("rounded")
    assert "client-1" in error.value.parties


CHECKS = ("CheckDealing", "CheckCoin", "CheckDigest", "MaskedRow", "MaskedProducts", "MaskSums")


def gone(client, kind, turn=1):
    """A client that falls silent for good before it says this for the turn-th time."""
    rounds = set()

    def faults(e):
        if e.sender == client and e.kind == kind:
            rounds.add(e.round)
        return () if e.sender == client and len(rounds) >= turn else (e,)

    return faults


@functools.cache
def undisturbed(way):
    return cluster_way(way)


@pytest.mark.parametrize(("client", "kind"), every(2, in_turns(["client-1", "client-4"], CHECKS[:-1])))
@pytest.mark.parametrize("way", ["bisecting", "nobody deals", *by_night("a client deals", "rounded")])
def test_a_client_that_is_lost_at_any_message_changes_no_label(way, client, kind):
    if client == "client-4" and kind.startswith("Check"):
        pytest.skip("it is not in the committee")
    full = undisturbed(way)
    for turn in short((1 + (client == "client-4"),), nightly=(1, 2)):
        assert same_runs(full, cluster_way(way, faults=gone(client, kind, turn)))


@pytest.mark.parametrize(
    ("way", "kind"),
    every(
        4,
        [("bisecting", kind) for kind in CHECKS[::2]]
        + [("a client deals", kind) for kind in CHECKS[1::2]]
        + by_night(
            *(("bisecting", kind) for kind in CHECKS[1::2]), *(("a client deals", k) for k in CHECKS[::2])
        )
        + [("rounded", kind) for kind in ("MaskedCenters", "CheckDealing", "CheckDigest", "MaskSums")]
        + [("nobody deals", kind) for kind in (*CHECKS[:-1], "PartSums")]
        + [("two play each part", kind) for kind in ("CheckDealing", "MaskedRow", "PartSums")],
    ),
)
def test_one_lost_message_changes_no_label(way, kind):
    full = undisturbed(way)
    assert (full.plan.deviating > 0) == (way != "nobody deals")
    for number in range(short(1, nightly=40)):
        count = iter(range(1 << 30))

        def faults(e, number=number, count=count):
            return () if e.kind == kind and next(count) == 3 * number else (e,)

        assert same_runs(full, cluster_way(way, faults=faults))


def test_another_coin_than_committed_to_is_a_fault():
    def faults(e):
        if isinstance(e.body, CheckCoin) and e.sender == "client-1":
            e = dataclasses.replace(e, body=CheckCoin(bytes(32)))
        return (e,)

    with pytest.raises(FaultyClient, match="client-1 opened another coin"):
        cluster_way(faults=faults)


def test_coins_that_are_told_differently_are_noticed_before_a_word_under_them():
    """A witness commits to two coins, and opens another to one witness: nothing is told of rows."""
    words = []

    def faults(e):
        words.append((e.kind, e.sender))
        other = e.sender == "client-1" and e.recipient == "client-2"
        if other and isinstance(e.body, CheckDealing):
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, commitment=bytes(32)))
        if other and isinstance(e.body, CheckCoin):
            e = dataclasses.replace(e, body=CheckCoin(bytes(32)))
        return (e,)

    # The commitment to the other coin is what a deviating client would compute; here it is opened as if it
    # had been.
    real = steps.CheckedReplies.commitment
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            steps.CheckedReplies,
            "commitment",
            lambda self, member, coin: bytes(32) if coin == bytes(32) else real(self, member, coin),
        )
        with pytest.raises(SuspectedParties, match="heard different coins"):
            cluster_way(faults=faults, deviating=0)
    assert ("CheckDigest", "client-0") in words
    assert not {kind for kind, _ in words} & {"MaskedRow", "MaskedProducts", "LabelShare"}


def test_who_hears_of_other_coins_from_one_witness_tells_nothing_under_them():
    """A witness tells two that only respond of coins of its choice, with the digest of their own question."""
    words, asked, real = [], [], steps.CheckedReplies.digest

    def digest(self, joined):
        asked.append(self)
        return real(self, joined)

    def faults(e):
        words.append((e.kind, e.sender))
        two = e.sender == "client-1" and e.recipient in ("client-3", "client-4")
        if two and isinstance(e.body, CheckDigest):
            e = dataclasses.replace(e, body=CheckDigest(real(asked[-1], bytes(16))))
        return (e,)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps.CheckedReplies, "digest", digest)
        with pytest.raises(SuspectedParties, match="heard different coins"):
            cluster_way(faults=faults, deviating=0)  # so that these two only respond
    assert not {("MaskedRow", c) for c in ("client-3", "client-4")} & set(words)


@pytest.mark.parametrize("way", ["a client deals", *by_night("bisecting", "rounded")])
def test_sums_that_fit_coins_and_are_told_to_who_is_no_witness_open_nothing(way, monkeypatch):
    """Witnesses may open coins before it has sums: its check passes, and words are compared."""
    members, lied, told = [], [], []
    kind, leaving = (MaskedCenters, PartShares) if way == "rounded" else (MaskedSum, LabelShare)

    def faults(e):
        if e.kind == "CompareQuery":
            members[:] = [f"client-{j}" for j in e.body.members]
        if isinstance(e.body, leaving):
            told.append(e.round)
        other = isinstance(e.body, kind) and e.recipient in members[3:]
        if not other or e.round not in (lied or [e.round]):
            return (e,)
        lied.append(e.round)
        values = e.body.values.copy()
        values.reshape(-1)[0] = (int(values.reshape(-1)[0]) + 1) % 1073741700
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    with pytest.raises(SuspectedParties, match="members of the committee heard different words"):
        cluster_way(way, faults=faults)
    assert all(number < lied[0] for number in told)
    # Positive control: where words are not compared, shares leave the committee.
    del lied[:], told[:]
    for name in ("_agree", "conclude"):
        monkeypatch.setattr(CommitteeWords, name, lambda *_: None)
    with contextlib.suppress(SuspectedParties):
        cluster_way(way, faults=faults)
    assert any(number > lied[0] for number in told)


def test_a_deviating_client_that_falls_silent_when_it_has_seen_coins_meets_other_coins():
    """It is not refused, but left out: a try more, of one client less, as no coin is committed to twice."""
    way, lied, seen, commitments = "a client deals", [], [], []

    def faults(e):
        if isinstance(e.body, CheckDealing) and e.sender == "client-2":
            commitments.append((e.round, e.body.commitment))
        if e.sender != "client-1" or (not lied and e.kind != "MaskedDistances"):
            return (e,)
        if e.kind == "MaskedDistances":
            lied.append(e.round)
            values = (e.body.values + np.uint32(1)) % np.uint32(1073741700)
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)
        seen.extend([e.round] * (e.kind == "CheckCoin"))
        return () if seen else (e,)

    result = cluster_way(way, faults=faults)
    assert same_runs(undisturbed(way), result)
    assert seen
    assert len({number for number, _ in commitments}) == len({told for _, told in commitments}) > 1


def test_a_false_digest_ends_the_run():
    def faults(e):
        if isinstance(e.body, CheckDigest) and e.sender == "client-1":
            e = dataclasses.replace(e, body=CheckDigest(bytes(32)))
        return (e,)

    with pytest.raises(SuspectedParties, match="heard different coins"):
        cluster_way(faults=faults)


def depth_of(way, questions, **options):
    """Of a run, and how many comparisons it asks for."""
    depth = MessageChains()

    def faults(e):
        if e.kind.startswith("Compare") and e.recipient == "client-0":
            questions.append(e.round)
        return (e,)

    cluster_way(way, watch=depth, faults=faults, **options)
    return depth.longest


@pytest.mark.parametrize("way", ["separated", "a client deals"])
def test_a_check_goes_on_while_members_compare(way, monkeypatch):
    """At most two messages of a question more follow one another, where six steps of a check do, and one
    deals a row before and two compare words after it: replies do not wait for that row."""
    asked, again = [], []
    checked = depth_of(way, asked)
    monkeypatch.setattr(steps.CheckingClient, "verify", lambda *_, **__: iter(()))
    monkeypatch.setattr("secfc.disclosure.compare.dealer.tell_mask_sums", unchecked, raising=False)
    monkeypatch.setattr("secfc.disclosure.compare.server.tell_mask_sums", unchecked)
    assert 0 <= checked - depth_of(way, again, deviating=0) <= 2 * len(asked)
    assert asked == again


@pytest.mark.parametrize("deviating", [0, 1])
def test_a_step_takes_two_messages_more_than_without_checks(deviating, monkeypatch):
    """Question, replies, sums, openings and labels; of words a coin and digests, where these are compared.
    Without these, a check ends one message after the labels of so few clusters."""
    matches, depths, judge = [], [], ComputingParty.judge

    def judged(self, match, begun):
        matches.append(match)
        return judge(self, match, begun)

    monkeypatch.setattr(ComputingParty, "judge", judged)
    for last in (1, 2):
        depths.append(MessageChains())
        cluster_way("separated", deviating=deviating, max_iter=last, init=RandomPoints(), watch=depths[-1])
    plain = 4 + len(matches[-1].schedule.openings)
    assert depths[1].longest - depths[0].longest == plain + 1 + deviating


@pytest.mark.parametrize("deviating", [0, 1])
def test_a_step_on_shared_labels_takes_two_messages_more_than_without_checks(deviating, monkeypatch):
    """As above, and labels and sums that are dealt anew; of openings one of labels' bits, one of changes."""
    matches, depths, play = [], [], ComputingParty.play

    def played(self, match, *rest):
        matches.append(match)
        return play(self, match, *rest)

    monkeypatch.setattr(ComputingParty, "play", played)
    for last in (2, 3):
        depths.append(MessageChains())
        options = dict(deviating=deviating, max_iter=last, watch=depths[-1])
        cluster_way("labels stay shared", **options)
    plain = 6 + len(matches[-1].schedule.openings) + 2
    assert depths[1].longest - depths[0].longest == plain + 1 + deviating


@pytest.mark.parametrize("waits", [True, False])
def test_rounded_centers_are_dealt_while_their_sums_are_checked_and_labels_wait(waits, monkeypatch):
    """Quotients of false sums are dealt, uniform to any t.  Positive control: unchecked, labels leave."""
    lie, false = lying(MaskedCenters, "values", "client-3", 0, turn=1)
    dealt, told = [], []

    def faults(e):
        dealt.extend([e.round] * isinstance(e.body, PartShares))
        return watched(lie, told)(e)

    if not waits:
        monkeypatch.setattr(steps.CheckingClient, "verify", unchecked)
        for module in ("dealer", "server"):
            name = f"secfc.disclosure.compare.{module}.tell_mask_sums"
            monkeypatch.setattr(name, unchecked, raising=False)
    with contextlib.nullcontext() if not waits else pytest.raises(SuspectedParties, match="sums of clusters"):
        cluster_way("rounded", faults=faults)
    question = false[1] // STRIDE
    assert any(number // STRIDE == question for number in dealt)
    assert any(number // STRIDE == question for number, _ in told) != waits


def unchecked(*_, **__):
    yield from ()


def test_honest_replies_are_never_refused(monkeypatch):
    """Whole runs of every way, whatever the data and coins are; labels are those of plaintext."""
    seen, real = set(), steps.CheckedReplies.accept

    def accept(self, *words):
        seen.add((seed, self.context))
        real(self, *words)

    monkeypatch.setattr(steps.CheckedReplies, "accept", accept)
    ways, seed = [way for way in WAYS if way != "nobody deals"], 0
    while len(seen) < short(30, nightly=2_000):
        given = {**WAYS[ways[seed % len(ways)]], "max_iter": 6}
        given.setdefault("threshold", secfc.Threshold(t=1))
        plain = {name: x for name, x in given.items() if name not in ("threshold", "disclosure")}
        data = federation(n=5, m=30, seed=seed)
        assert same_runs(
            secfc.fit(secfc.SecFC(**given), data, seed=seed), secfc.fit(secfc.Lloyd(**plain), data, seed=seed)
        )
        seed += 1


def spacing(asked):
    return asked.slots[1] - asked.slots[0] if asked.slots else 0


def fit_to_coins(asked, seed, false):
    """What makes false replies fit coins, added to further ones (lanes, more): any number of row 0."""
    weights, basis = asked.weights(seed), asked.basis
    found = np.zeros((basis.lanes, asked.check.more), basis.dtype)
    lies = weights.combine(false, found)
    for r in range(steps.REPETITIONS):
        at = r * asked.check.zeros
        one = found * 0
        one[:, at] = 1
        counts = weights.combine(false * 0, one)[:, r]
        for lane, p in enumerate(basis.primes):
            found[lane, at] = -int(lies[lane, r]) * pow(int(counts[lane]), -1, p) % p
    return found


@pytest.mark.parametrize(
    ("early", "way"), in_turns([False, True], ["bisecting", "labels stay shared", "rounded"])
)
def test_further_replies_that_wait_for_coins_are_left_out(early, way, monkeypatch):
    """Replies do not wait for row 0, so what they are checked by is behind them, and must precede coins.

    Who adds it up lies in a sum of replies, and waits for coins with that of further ones.  early: positive
    control: were coins opened beside the first opening, before that sum is told, the lie would fit.
    """
    honest, deviating, lies = undisturbed(way), [], {}
    fixed, hear, added = steps.CheckingClient._fixed, steps.hear_coins, ComputingParty.added_up

    def added_up(self, match, parts, threads):
        total = added(self, match, parts, threads)
        # Of a step whose labels nobody chose: the answer to the first one is what changes.
        if self.name != match.corrected or match.question.operation not in (
            Operation.COMPARE,
            Operation.LLOYD_STEP,
        ):
            return total
        deviating[:] = [*deviating, self.name][:1]
        if self.name != deviating[0] or lies:
            return total
        false = np.zeros((len(total.values), *match.shape), total.values.dtype)
        false[:, 0, ::2] = np.arange(1, 1 + len(false))[:, None] << 26
        lies[match.context] = false
        basis = match.schedule.basis
        return dataclasses.replace(total, values=basis.add(total.values, false[:, :, match.parts[self.name]]))

    def summed(self, match, rounding, *said):
        """Where centers are rounded the lie is in a sum of a cluster."""
        role, basis, answer = real_summed(self, match, rounding, *said), rounding.basis, None
        false = np.zeros((basis.lanes, *rounding.shape), basis.dtype)
        if self.name == match.corrected and match.question.operation is Operation.COMPARE and not lies:
            false[:, 0] = 50_000
            lies[match.checked_sums.context] = false
        while True:
            try:
                exchange = role.send(answer)
            except StopIteration as done:
                total, further = done.value
                return (basis.add(total, false) if false.any() else total), further
            send = dict(exchange.send)
            for c, told in send.items() if false.any() else ():
                send[c] = dataclasses.replace(told, values=basis.add(told.values, false))
            answer = yield exchange.change(send=send)

    def behind(self, adder, mine):
        lies_now = self.name == adder and self.asked.context in lies
        if early or lies_now:
            seeds[self] = yield from hear(self.asked, self.name, self.coin, self.commitments)
        if lies_now:
            more = fit_to_coins(self.asked, seeds[self], lies[self.asked.context])
            mine = self.asked.basis.add(mine, more)
        return (yield from fixed(self, adder, mine))

    def heard(asked, name, coin, commitments, *drawn):
        known = [seed for client, seed in seeds.items() if (client.asked, client.name) == (asked, name)]
        return known[0] if known else (yield from hear(asked, name, coin, commitments, *drawn))

    seeds = {}
    if way == "rounded":
        real_summed = CenterRounder.summed
        monkeypatch.setattr(CenterRounder, "summed", summed)
    else:
        monkeypatch.setattr(ComputingParty, "added_up", added_up)
    monkeypatch.setattr(steps.CheckingClient, "_fixed", behind)
    monkeypatch.setattr(steps, "hear_coins", heard)
    if early:
        at, two = steps.CheckedReplies.at, (steps.COINS, steps.DIGESTS)
        monkeypatch.setattr(
            steps.CheckedReplies,
            "at",
            lambda self, x: at(self, x) - (self.adder is not None and x in two) * spacing(self),
        )
        late = property(lambda self: (self.begun + steps.COINS, self.at(steps.DIGESTS) + spacing(self)))
        monkeypatch.setattr(steps.CheckedReplies, "behind", late)
    result = cluster_way(way)
    assert lies
    assert bool(seeds) == early
    sizes = [[each.tolist() for each in run.sizes] for run in (result, honest)]
    assert (same_runs(result, honest) and sizes[0] == sizes[1]) != early
