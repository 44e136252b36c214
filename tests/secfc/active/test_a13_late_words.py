"""A13: who speaks last.  A party withholds a word until all others said theirs, and is asked for it again.

What it then says may follow from theirs: a key or a coin that it copies, a share that makes labels what it
likes.  Or it lies, looks at what comes of that, and falls silent for good before its lie is held against it.
"""

import itertools
from dataclasses import replace

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.code.lagrange_code import transfer_matrix
from secfc.coded import sharing
from secfc.coded.messages import LabelShare, MaskedDistances, MaskSeed, PublicKey
from secfc.disclosure.checked.messages import CheckCoin, CheckDealing
from secfc.disclosure.checked.steps import CheckedReplies, CheckingClient
from secfc.disclosure.checked.words import CommitteeWords
from secfc.disclosure.compare import rounds
from secfc.disclosure.compare.computing_party import ComputingParty
from secfc.disclosure.dealerless import policy
from secfc.disclosure.dealerless.policy import DealerlessParty
from secfc.disclosure.owner_labels import dealerless
from secfc.errors import FaultyClient, ProtocolError, SuspectedParties
from secfc.roles.exchange import SERVER
from secfc.transport.simulate import simulate
from tests.nightly import by_night
from tests.secfc.active.adaptive import Stage, grouped_rows
from tests.secfc.disclosure.test_noisy_sums import people, run_sums
from tests.secfc.disclosure.test_noisy_sums import policy as policy_of_sums
from tests.small import federation

ME = "client-0"


def late(me, kind, say):
    """A network in which this party says words of a kind when asked again, after all it could hear.

    say(envelope, heard) is the word; heard: what it was told until then.
    """
    heard, asked = [], set()

    def faults(e):
        if e.recipient == me:
            heard.append(e)
        if e.sender != me or not isinstance(e.body, kind):
            return (e,)
        if (e.recipient, e.round) not in asked:
            asked.add((e.recipient, e.round))
            return ()
        body = say(e, heard)
        return () if body is None else (replace(e, body=body),)

    return faults


def deaf(role):
    """A role that says nothing of what it finds wrong."""
    try:
        return (yield from role)
    except ProtocolError:
        return None


def run_stage(stage, faults, me=None):
    """Results of all parties, where each is asked again for what did not come.  me: whose role is deaf."""
    way, plan = stage.way, stage.plan
    roles = {p.name: way.client(plan, p, coins=SeededCoins(0, p.name)) for p in stage.federation.parties}
    roles[SERVER] = way.server(plan, rng=np.random.default_rng(0), coins=SeededCoins(0, SERVER))
    roles |= {me: deaf(roles[me])} if me else {}
    return simulate(roles, faults=faults, again=True).results


# --- a key that is copied --------------------------------------------------------------------------


def copy_key(monkeypatch):
    """Client 0 tells client 1 the key of client 2, and has client 1's replies: what it reads of rows.

    Of some points and each cluster the numbers s x - S that fit; and that which it is.
    """
    plain = secfc.Quantization(scale=4.0, coarse="allow")
    way = secfc.SecFC(2, 1, secfc.RandomLabels(), disclosure=secfc.AssignmentsOnly(None), quantization=plain)
    stage, mine, told = Stage(way, grouped_rows(0, 4, 6, 1, 2), 16.0), [], []
    blinded = DealerlessParty.blinded

    def noting(self, match, checking, measured, *rest):
        if self.name == ME and not mine:
            shares = measured.rows.read_rows(0, self.plan.m), measured.rows.residues(measured.sums)
            mine.append((match.question.labels.astype(int), *(np.array(x, object) for x in shares)))
        return blinded(self, match, checking, measured, *rest)

    def say(e, heard):
        copied = [h.body for h in heard if h.sender == "client-2" and isinstance(h.body, PublicKey)]
        return copied[0] if e.recipient == "client-1" else e.body

    withheld = late(ME, PublicKey, say)

    def faults(e):
        if isinstance(e.body, MaskedDistances) and (e.sender, e.recipient) == ("client-1", ME):
            told.append(e.body.values.astype(object))
        return withheld(e)

    monkeypatch.setattr(DealerlessParty, "blinded", noting)
    with pytest.raises(SuspectedParties):
        run_stage(stage, faults)
    labels, rows, sums = mine[0]
    return read_numbers(stage, labels, rows, sums, told[0])


def read_numbers(stage, labels, rows, sums, replies):
    """The share of client 1 follows from s x - S and that of client 0; its reply is the square of it."""
    code, sizes = stage.plan.code, np.bincount(labels, minlength=2)
    at = transfer_matrix(code.basis, (code.betas[0], code.alphas[0]), (code.alphas[1],)).astype(object)
    reach, found, truth = 4 * len(labels) * int(stage.plan.quantizer.max_int), [], []
    guess = np.arange(-reach, reach + 1).astype(object)
    for i in range(0, len(labels), 5):
        for h in (0, 1):
            fits = np.ones(len(guess), bool)
            for lane, p in enumerate(code.basis.primes[: len(replies)]):
                own = (int(sizes[h]) * rows[lane, i, 0] - sums[lane, h, 0]) % p
                share = (at[lane, 0, 0] * guess + at[lane, 0, 1] * own) % p
                fits &= (share * share - replies[lane, h, i]) % p == 0
            found.append(guess[fits].tolist())
            truth.append([int(sizes[h] * stage.X[i, 0] - stage.X[labels == h, 0].sum())])
    return found, truth


def test_a_copied_key_gives_no_reply_away(monkeypatch):
    """It would cancel the masks of client 1, whose pairs have one key: rows follow from its bare reply."""
    found, truth = copy_key(monkeypatch)
    assert not any(each == known for each, known in zip(found, truth, strict=True))
    # Positive control: where keys do not say whose they are.
    derived = sharing.HKDF
    monkeypatch.setattr(sharing, "HKDF", lambda info, **rest: derived(info=b"", **rest))
    found, truth = copy_key(monkeypatch)
    assert found == truth


@pytest.mark.parametrize(
    "disclosure", [secfc.AssignmentsOnly(), *by_night(secfc.OwnLabels(), secfc.FinalLabelsOnly())]
)
def test_a_false_key_or_seed_ends_the_run_before_a_label(disclosure, monkeypatch):
    told = []

    def replaced(kind, field):
        def faults(e):
            told.extend([e.round] if e.kind in ("LabelShare", "SizeShare") else [])
            false = isinstance(e.body, kind) and e.sender == ME and e.recipient in ("client-1", SERVER)
            return (replace(e, body=replace(e.body, **{field: bytes([7] * 32)})) if false else e,)

        return faults

    lies = [replaced(PublicKey, "key"), *[replaced(MaskSeed, "seed")] * (disclosure.dealer is not None)]
    settings = secfc.SecFC(2, secfc.Threshold(1, deviating=0), secfc.RandomLabels(), disclosure=disclosure)
    for faults in lies:
        with pytest.raises(SuspectedParties, match=r"fit the shares of the rows|lies on no polynomial"):
            secfc.fit(settings, federation(4, 24, 2), faults=faults)
    assert not told
    # Positive control: without the check labels are made of masks that do not cancel, and nobody notices.
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    if disclosure == secfc.AssignmentsOnly():
        secfc.fit(settings, federation(4, 24, 2), faults=lies[1])
        assert told


# --- coins that are copied -------------------------------------------------------------------------


def copy_coins():
    """Client 1 commits as client 0 does, and opens the coin of client 0.  What all coins gave."""
    way = secfc.SecFC(2, secfc.Threshold(1, deviating=0), secfc.RandomLabels(), max_iter=3)
    stage, seeds, join = Stage(way, grouped_rows(0, 3, 6, 1, 2)), [], CheckedReplies.join_coins

    def say(e, heard):
        theirs = [h.body for h in heard if h.sender == ME and h.round == e.round]
        if isinstance(e.body, CheckDealing):
            return replace(e.body, commitment=theirs[0].commitment)
        return theirs[0]

    def noting(self, coins):
        # Its own part takes the copy for its coin as well.
        seeds.append(join(self, {**coins, "client-1": coins[ME]}))
        return seeds[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CheckedReplies, "join_coins", noting)
        run_stage(stage, late("client-1", (CheckDealing, CheckCoin), say))
    return seeds


def test_a_witness_that_copies_a_coin_is_named_and_would_know_no_coins_before(monkeypatch):
    with pytest.raises(FaultyClient, match="opened another coin than it committed to") as caught:
        copy_coins()
    assert caught.value.party == "client-1"
    # Where commitments are anybody's a copy is taken, and all coins still give what nobody foresees.
    real = CheckedReplies.commitment
    monkeypatch.setattr(CheckedReplies, "commitment", lambda self, member, coin: real(self, ME, coin))
    assert len(set(copy_coins())) > 1

    # Positive control: added up, a coin and its copy are nothing, in every question.
    def added(self, coins):
        return (
            np.bitwise_xor.reduce([np.frombuffer(coins[c], np.uint8) for c in self.witnesses])[:16]
        ).tobytes()

    monkeypatch.setattr(CheckedReplies, "join_coins", added)
    assert set(copy_coins()) == {bytes(16)}


# --- labels that are chosen last -------------------------------------------------------------------


def choose_labels(dealer, deviating, last):
    """The last member tells the share that makes all final labels 1, once it heard those of the others.

    Returns what the server has, and what the first client was told.
    """
    policy = secfc.FinalLabelsOnly(dealer=dealer)
    way = secfc.SecFC(
        2, secfc.Threshold(1, deviating=deviating), secfc.RandomLabels(), 1, 2, disclosure=policy
    )
    stage = Stage(way, grouped_rows(0, 4, 6, 1, 2))

    def say(e, heard):
        told = {h.sender: h.body for h in heard if isinstance(h.body, LabelShare)}
        if not e.body.words.size:
            return e.body
        others = [words for body in told.values() for words in body.words]
        mine = np.bitwise_xor.reduce(np.stack([*others, *e.body.words[1:]]), axis=0)
        words = np.concatenate([~mine[None], e.body.words[1:]])
        return replace(e.body, words=words)

    results = run_stage(stage, late(last, LabelShare, say), last)
    return results[SERVER].trace.labels, results["client-0"].labels


@pytest.mark.parametrize(("dealer", "member"), [(SERVER, "client-1"), (None, "client-2")])
def test_who_tells_its_share_of_final_labels_last_chooses_them_only_where_it_plays_its_part_alone(
    dealer, member
):
    with pytest.raises(SuspectedParties, match="play one part, and do not say the same of labels"):
        choose_labels(dealer, 1, member)
    # Positive control.
    assert all((labels == 1).all() for labels in choose_labels(dealer, 0, "client-1"))


# --- who lies, looks, and leaves -------------------------------------------------------------------

POLICIES = {
    "labels": secfc.AssignmentsOnly(),
    "labels, nobody deals": secfc.AssignmentsOnly(None),
    "own labels": secfc.OwnLabels(),
    "own labels, nobody deals": secfc.OwnLabels(None),
    "final labels": secfc.FinalLabelsOnly(dealer=SERVER),
    "final labels, nobody deals": secfc.FinalLabelsOnly(),
}
RESPONDER, MEMBER = "client-2", "client-0"


def leave(way, before, deviating=RESPONDER):
    """A party lies in the second question, and says nothing any more from that message on.

    It lies in its replies; client 0, a member where somebody deals, in what one of its parts opens first.
    Returns who told labels or sizes of that question until then, and whether all others have the labels that
    they would have without it.
    """
    settings = secfc.SecFC(2, 1, secfc.RandomLabels(), max_iter=4, disclosure=POLICIES[way])
    stage = Stage(settings, grouped_rows(3, 5, 6, 2, 2))
    asked, told, lied, left = [], [], [], []
    honest, blinded = run_stage(stage, lambda e: (e,)), DealerlessParty.blinded
    reply, reconstruct = ComputingParty.masked_distances, rounds.reconstruct_parts

    def false(values):
        out = values.copy()
        out[:, 0] ^= np.uint32(1 << 20)
        return out

    def lie(self, *rest):
        values, further = blinded(self, *rest)
        return (false(values) if self.name == RESPONDER == deviating and len(asked) == 2 else values), further

    def lie_to_members(self, *rest):
        found = reply(self, *rest)
        if not self.name == RESPONDER == deviating or len(asked) != 2:
            return found
        return {c: replace(body, values=false(body.values)) for c, body in found.items()}

    def open_others(basis, blocks, members, me, mine, talk, threads):
        first = next(iter(blocks.told_by(members.index(me))), None)
        if me == MEMBER == deviating and len(asked) == 2 and mine[first].dtype == np.uint64 and not lied:
            lied.append(talk.number)
            mine = {**mine, first: ~mine[first]}
        return (yield from reconstruct(basis, blocks, members, me, mine, talk, threads))

    def faults(e):
        if e.kind in ("CompareQuery", "LloydStepQuery") and e.round not in asked:
            asked.append(e.round)
        if len(asked) == 2 and e.kind in ("LabelShare", "SizeShare") and e.sender != deviating:
            told.append(e.sender)
        late = deviating == RESPONDER or (lied and e.round > lied[0])
        if late and len(asked) == 2 and (e.sender, e.kind) == (deviating, before):
            left.append(e.round)
        return () if left and e.sender == deviating else (e,)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DealerlessParty, "blinded", lie)
        patch.setattr(ComputingParty, "masked_distances", lie_to_members)
        patch.setattr(rounds, "reconstruct_parts", open_others)
        results = run_stage(stage, faults, deviating)
    assert left
    others = honest.keys() - {SERVER, deviating}
    return told, all((results[c].labels == honest[c].labels).all() for c in others)


@pytest.mark.parametrize(
    "way",
    [
        "labels, nobody deals",
        "final labels",
        *by_night("labels", "own labels", "own labels, nobody deals", "final labels, nobody deals"),
    ],
)
def test_who_lies_and_falls_silent_before_it_is_found_out_has_seen_nothing_of_its_lie(way, monkeypatch):
    assert leave(way, "MaskedProducts") == ([], True)

    # Positive control: what it made of labels is told it, and the run goes on as if it never lied.
    def unchecked(self, *_, **__):
        yield from ()

    monkeypatch.setattr(CheckingClient, "verify", unchecked)
    told, alike = leave(way, "LabelShare" if way[0] == "l" else "SizeShare")
    assert told
    assert alike


@pytest.mark.parametrize("way", ["labels", *by_night("own labels", "final labels")])
def test_a_member_that_lies_and_falls_silent_has_seen_nothing_of_it_either(way, monkeypatch):
    assert leave(way, "MaskedBits", MEMBER) == ([], True)
    # Positive control, as above.
    monkeypatch.setattr(CommitteeWords, "conclude", lambda *_: None)
    monkeypatch.setattr(CommitteeWords, "_agree", lambda *_: None)
    told, alike = leave(way, "LabelShare" if way == "labels" else "SizeShare", MEMBER)
    assert told
    assert alike


# --- new points ------------------------------------------------------------------------------------


def raising(real):
    """How client 0 deals the bits of its part, once it raised distances to the first center."""

    def deal(joint, contest, basis, part, m):
        if joint.player.me == 0 and part is not None:
            big = np.array([basis.modulus // 4 % p for p in basis.primes], part.dtype)
            part = part.copy()
            part[:, 0] = basis.add(part[:, 0], big[:, None] + np.zeros_like(part[:, 0]))
        return (yield from real(joint, contest, basis, part, m))

    return deal


def force_new_labels(disclosure, deviating, n):
    """Client 0 has a part of all distances of new points, and raises those to the first center.

    Returns labels of these points with that and without it.
    """
    data, way = federation(n, 24, 2), secfc.Threshold(1, deviating=deviating)
    model = secfc.fit(
        secfc.SecFC(2, way, secfc.RandomLabels(), 1, 3, disclosure=disclosure), data, seed=1
    ).model

    def predict():
        drive, coins = (lambda roles, *_: simulate(roles)), (lambda party: SeededCoins(1, party))
        return np.concatenate(model.predict(data, coins=coins, drive=drive))

    honest = predict()
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((policy, "nearest_digits"), (dealerless, "winner_bits")):
            patch.setattr(module, name, raising(getattr(module, name)))
        return predict(), honest


@pytest.mark.parametrize(
    "disclosure", [secfc.FinalLabelsOnly(), *by_night(secfc.AssignmentsOnly(None), secfc.OwnLabels(None))]
)
def test_a_member_chooses_labels_of_new_points_only_where_it_has_its_part_alone(disclosure):
    with pytest.raises(SuspectedParties, match="two that compute the same bits told different ones"):
        force_new_labels(disclosure, 1, 4)
    # Positive control.
    forced, honest = force_new_labels(disclosure, 0, 3)
    assert (forced == 1).all()
    assert not honest.all()


# --- sums under noise ------------------------------------------------------------------------------


def noisy_centers(deviating):
    settings = dict(threshold=secfc.Threshold(1, deviating=deviating))
    return run_sums(policy_of_sums(steps=1, dealer=None), people()[0], **settings).centers


@pytest.mark.nightly
def test_a_member_puts_rows_into_other_shells_only_where_it_has_its_part_alone(monkeypatch):
    """By its part of distances to one center, moved as above."""
    honest = noisy_centers(0)
    monkeypatch.setattr(dealerless, "winner_bits", raising(dealerless.winner_bits))
    with pytest.raises(SuspectedParties, match="two that compute the same bits told different ones"):
        noisy_centers(1)
    assert (noisy_centers(0) != honest).any()  # positive control: under the same noise


# --- what is said after a restart ------------------------------------------------------------------

RESTARTED = {
    "pairs": secfc.DBSCAN(0.7, 3, dealer=None),
    **{
        name: secfc.SecFC(2, 1, secfc.RandomLabels(), 1, 3, disclosure=each)
        for name, each in POLICIES.items()
    },
}


def restart(way, deviating, at, path):
    """All parties die at that exchange and resume; from then on client 0 opens other words.

    Returns the run, the honest one, and whether it said any.
    """
    settings = replace(RESTARTED[way], threshold=secfc.Threshold(1, deviating=deviating))
    data, count, said = federation(4, 12, 2), itertools.count(1), []

    def die(party, exchange):
        if next(count) == at:
            raise KeyboardInterrupt

    def faults(e):
        words = getattr(e.body, "words", np.empty(0))
        if e.sender != ME or words.dtype != np.uint64 or not words.size or e.kind == "LabelShare":
            return (e,)
        said.append(e.kind)
        return (replace(e, body=replace(e.body, words=~words)),)

    with pytest.raises(KeyboardInterrupt):
        secfc.fit(settings, data, seed=1, checkpoint=path, watch=die)
    result = secfc.fit(settings, data, seed=1, checkpoint=path, faults=faults)
    return result, secfc.fit(settings, data, seed=1), said


@pytest.mark.parametrize("way", ["pairs", *by_night(*POLICIES)])
def test_who_resumes_and_says_something_else_is_noticed_as_ever(way, tmp_path):
    with pytest.raises(SuspectedParties, match=r"told different ones|heard different words"):
        restart(way, 1, 60, tmp_path / "two")
    if way == "pairs":  # positive control: who is near changes, and nobody notices
        result, honest, said = restart(way, 0, 60, tmp_path / "one")
        assert said
        assert (result.flat != honest.flat).any()
