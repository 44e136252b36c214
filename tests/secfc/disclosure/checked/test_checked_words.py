"""Committees in blocks: honest runs end as ever, also without a client; a false word ends them before."""

import dataclasses
import warnings
from contextlib import suppress
from functools import cache, reduce

import numpy as np
import pytest

import secfc
from field import SystemCoins
from field.code.consistency import LinearDigest
from field.ring.basis import Basis
from secfc.algorithm import PublicFacts
from secfc.coded.messages import Corrections, LabelShare, MaskedBits, OwnShare, SizeShare
from secfc.coded.parameters import Network
from secfc.coded.queries import Query
from secfc.coded_kmeans.run_summary import summarize_secfc
from secfc.disclosure.checked import words
from secfc.disclosure.checked.blocks import Blocks, shapes
from secfc.disclosure.checked.messages import CheckDealing, MaskSums, PartDigests, PartShares
from secfc.disclosure.checked.parts import PartKeys
from secfc.disclosure.compare import rounds, session
from secfc.errors import Caution, FaultyClient, FaultyParty, FaultyServer, SuspectedParties
from secfc.kmeans.bisecting import Bisecting
from secfc.kmeans.starts import CenterSeparation, RandomPoints
from secfc.roles.exchange import SERVER, STRIDE
from secfc.transport.simulate import simulate
from secfc.transport.wire import encoded_size
from tests.nightly import by_night, covering, every, short
from tests.small import federation, same_runs

WAYS = {
    "a triple": dict(t=1, deviating=1),
    "a block of four": dict(t=2, deviating=1),
    "by three": dict(t=2, deviating=2),
    "two triples": dict(t=3, deviating=1),
    "two segments": dict(t=1, ell=2, deviating=1),
    "a client deals": dict(t=1, deviating=1, dealer="client-0"),
}
MOST = ("a triple", "a block of four", "a client deals")


def cluster_way(way, deviating=None, init=None, n=7, m=48, k=3, max_iter=2, runtime=None, **options):
    settings = dict(WAYS[way])
    disclosure = secfc.AssignmentsOnly(dealer=settings.pop("dealer", SERVER))
    if deviating is not None:
        settings["deviating"] = deviating
    return secfc.fit(
        secfc.SecFC(
            k,
            secfc.Threshold(**settings),
            init=init or RandomPoints(),
            max_iter=max_iter,
            disclosure=disclosure,
            runtime=runtime or secfc.Runtime(),
        ),
        federation(n=n, m=m),
        seed=1,
        keep_bodies=True,
        **options,
    )


undisturbed = cache(cluster_way)


def count(result, kind):
    return sum(e.kind == kind for e in result.transcript.envelopes)


@pytest.mark.parametrize("way", every(2, WAYS))
@pytest.mark.parametrize("init", [Bisecting(steps=1), *by_night(CenterSeparation(RandomPoints()))], ids=repr)
def test_labels_are_those_of_one_client_a_part(way, init):
    alone, checked = cluster_way(way, 0, init), cluster_way(way, None, init)
    assert same_runs(alone, checked)
    assert count(alone, "PartDigests") == 0 < count(checked, "PartDigests")


@pytest.mark.parametrize("way", ["a block of four", "two triples"])
def test_labels_are_the_same_where_members_add_up_cuts(way, monkeypatch):
    """As they do from many points on: here from the first."""
    alone, few = cluster_way(way, 0), cluster_way(way)
    monkeypatch.setattr("secfc.disclosure.compare.rounds.WORTH_PARTS", 0)
    many = cluster_way(way)
    assert same_runs(alone, many)
    assert count(many, "MaskedBits") > count(few, "MaskedBits")


def test_labels_are_the_same_in_portions(monkeypatch):
    monkeypatch.setattr("field.compare.blockwise.LEAST", 64)
    fast = secfc.Runtime(network=Network(latency=0.0))
    alone, checked = (cluster_way("a triple", a, m=260, max_iter=1, runtime=fast) for a in (0, None))
    assert count(checked, "RequestCorrections") == 2 * count(alone, "RequestCorrections") > 0
    assert same_runs(alone, checked)


@pytest.mark.parametrize("kind", ["RequestCorrections", "Corrections"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_portion_that_is_lost_is_dealt_anew(kind, which, monkeypatch):
    """With five clients, of whom three compare: no more than two are done without."""
    monkeypatch.setattr("field.compare.blockwise.LEAST", 64)
    fast, numbers = secfc.Runtime(network=Network(latency=0.0)), iter(range(1 << 30))

    def faults(e):
        return () if e.kind == kind and next(numbers) == which else (e,)

    full = cluster_way("a triple", 0, n=5, m=200, runtime=fast)
    assert same_runs(full, cluster_way("a triple", n=5, m=200, runtime=fast, faults=faults))


def test_it_takes_two_rounds_more():
    def steps(result):
        """Rounds of the first question in which members speak to one another."""
        return {e.round for e in result.transcript.envelopes if e.kind in ("MaskedBits", "PartDigests")}

    alone, checked = (cluster_way("a triple", a, max_iter=1) for a in (0, None))
    questions = count(checked, "PartDigests") // 6
    assert len(steps(checked)) == len(steps(alone)) + 2 * questions


# --- what is lost ---------------------------------------------------------------------------------------

KINDS = (
    "CheckDealing",
    "MaskedDistances",
    "MaskedSum",
    "CheckCoin",
    "MaskedBits",
    "PartDigests",
    "LabelShare",
)


@pytest.mark.parametrize("kind", every(4, KINDS))
@pytest.mark.parametrize("client", ["client-1", *by_night("client-0", "client-2", "client-3")])
@pytest.mark.parametrize("way", [*MOST, *by_night("by three", "two triples")])
def test_a_client_that_is_lost_at_any_message_changes_no_label(way, client, kind):
    if client == "client-0" and way == "a client deals":
        pytest.skip("nobody replaces a dealer")
    n = 8 if way == "two triples" else 7  # one is to spare
    full = undisturbed(way, n=n)
    says = {e.sender for e in full.transcript.envelopes if e.kind == kind} - {SERVER}
    assert len(says) > 1
    for turn in short((1,), nightly=(1, 2, 4)):
        rounds = set()

        def faults(e, turn=turn, rounds=rounds):
            if e.sender == client and e.kind == kind:
                rounds.add(e.round)
            return () if e.sender == client and len(rounds) >= turn else (e,)

        assert same_runs(full, cluster_way(way, n=n, faults=faults))
        assert bool(rounds) == (client in says)


@pytest.mark.parametrize(
    ("kind", "way"),
    covering(["MaskedBits", "PartDigests", "Corrections", "LabelShare"], ["a triple", "a block of four"]),
)
def test_one_lost_message_changes_no_label(way, kind):
    full = undisturbed(way)
    for number in range(short(2, nightly=40)):
        numbers = iter(range(1 << 30))

        def faults(e, number=number, numbers=numbers):
            return () if e.kind == kind and next(numbers) == 5 * number + 1 else (e,)

        assert same_runs(full, cluster_way(way, faults=faults))


# --- what is false --------------------------------------------------------------------------------------


def flipped(array, place):
    """Words or residues, of which one is another."""
    out = array.copy()
    flat = out.reshape(-1)
    at = place % flat.size
    flat[at] = flat[at] ^ np.uint64(1 << place % 64) if out.dtype == np.uint64 else (int(flat[at]) + 1) % 1000
    return out


def lying(kind, change, sender, seed, recipients=None):
    """Changes what a party says of this kind in one round, to all or to some; notes rounds, and those in
    which others tell labels."""
    seen, told = [], []

    def faults(e):
        if isinstance(e.body, LabelShare) and e.sender != sender:
            told.append(e.round)
        if e.sender != sender or not isinstance(e.body, kind):
            return (e,)
        body = change(e.body)
        if body is None:
            return (e,)
        if e.round not in seen:
            seen.append(e.round)
        if seed not in (None, seen.index(e.round)) or (
            recipients is not None and e.recipient not in recipients
        ):
            return (e,)
        return (dataclasses.replace(e, body=body),)

    return faults, seen, told


def turn_of(seed, full, sender):
    """Of the rounds in which a member tells words the one to lie in."""
    bits = [e for e in full.transcript.envelopes if (e.sender, e.kind) == (sender, "MaskedBits")]
    turns = {e.round for e in bits if e.body.words.size}
    assert len(turns) > 3
    return seed % len(turns)


def with_words(body, seed=0):
    return dataclasses.replace(body, words=flipped(body.words, 7 * seed + 3)) if body.words.size else None


REFUSED = r"nothing of this step was opened"


@pytest.mark.parametrize("way", [*MOST, *by_night("by three", "two triples")])
@pytest.mark.parametrize("deviating", [0, None])
def test_one_flipped_bit_of_a_speaker_ends_the_run_before_a_label(way, deviating):
    """With the positive control: where nobody else plays its part, nobody complains of it."""
    sender, unnoticed = "client-1" if way == "a client deals" else "client-0", 0
    for seed in range(short(3, nightly=100)):
        turn = turn_of(seed, undisturbed(way, deviating), sender)
        faults, seen, told = lying(MaskedBits, lambda body, s=seed: with_words(body, s), sender, turn)
        if deviating == 0:
            with suppress(SuspectedParties):  # of labels that are not there
                unnoticed += cluster_way(way, deviating, faults=faults).n_iter >= 1
        else:
            with pytest.raises(SuspectedParties, match=REFUSED):
                cluster_way(way, faults=faults)
            # Labels are told in the last round of a question, so those of the false one were not.
            assert all(number < seen[-1] for number in told)
        assert len(seen) > turn
    assert bool(unnoticed) == (deviating == 0)


@pytest.mark.parametrize("way", ["a block of four", *by_night("by three", "two triples")])
def test_who_tells_different_words_to_two_is_noticed_in_the_next_openings(way):
    for seed in range(short(3, nightly=100)):
        turn = turn_of(seed, undisturbed(way), "client-0")
        faults, seen, told = lying(
            MaskedBits, lambda body, s=seed: with_words(body, s), "client-0", turn, ("client-3",)
        )
        with pytest.raises(SuspectedParties, match="heard different words; nothing of this step was opened"):
            cluster_way(way, faults=faults)
        assert all(number < seen[-1] for number in told)


def deviating(monkeypatch, name, turn):
    """The turn-th opening of a member is false, and its digests are of the false words."""
    real, count = words.CommitteeWords.hold, iter(range(1 << 30))

    def hold(self, said, opened):
        if self.name == name and next(count) == turn:
            first = self.blocks.told_by(self.at)[0]
            false = {q: flipped(x, turn) if q == first else x for q, x in said.items()}
            return real(self, false, opened)
        return real(self, said, opened)

    monkeypatch.setattr(words.CommitteeWords, "hold", hold)


@pytest.mark.parametrize("way", MOST)
def test_a_digest_of_false_words_is_not_that_of_who_plays_the_same_part(way, monkeypatch):
    sender = "client-1" if way == "a client deals" else "client-0"
    deviating(monkeypatch, sender, 2)
    with pytest.raises(SuspectedParties, match="play one part, and do not compute the same") as error:
        cluster_way(way)
    clients = (
        set(error.value.parties) - {SERVER, "client-0"}
        if way == "a client deals"
        else set(error.value.parties)
    )
    assert sender in clients
    assert len(clients - {SERVER}) == 2


@pytest.mark.parametrize("way", MOST)
def test_false_digests_alone_end_the_run(way):
    sender = "client-1" if way == "a client deals" else "client-0"
    for field in ("heard", "parts"):
        faults, _, told = lying(
            PartDigests,
            lambda b, f=field: dataclasses.replace(b, **{f: bytes(255 ^ x for x in getattr(b, f))}),
            sender, 0,
        )  # fmt: skip
        with pytest.raises(SuspectedParties, match=REFUSED):
            cluster_way(way, faults=faults)
        assert not told


@pytest.mark.parametrize("way", MOST)
@pytest.mark.parametrize("field", ["words", "digests"])
def test_false_shares_of_labels_are_used_by_nobody(way, field):
    """The last one in a committee only says digests, if it is one of three."""
    names = {"a triple": ("client-0", "client-2"), "a client deals": ("client-1", "client-3")}
    sender = names.get(way, ("client-0", "client-1"))[field == "digests"]

    def change(body):
        if field == "words":
            return with_words(body)
        return dataclasses.replace(body, digests=bytes(len(body.digests))) if body.digests else None

    for recipients in (None, (SERVER,), ("client-5",)):
        faults, seen, _ = lying(LabelShare, change, sender, None, recipients)
        with pytest.raises(SuspectedParties, match="play one part, and do not say the same of labels"):
            cluster_way(way, faults=faults)
        assert seen


def test_false_words_of_labels_are_wrong_labels_where_one_plays_a_part(monkeypatch):
    """Positive control: nobody complains."""
    full = cluster_way("a triple", 0, k=2)
    real = PartKeys.hide

    def hide(self, *given):
        hidden = real(self, *given)
        return {q: flipped(share, 3) for q, share in hidden.items()} if self.at == 0 else hidden

    monkeypatch.setattr(PartKeys, "hide", hide)
    assert not same_runs(full, cluster_way("a triple", 0, k=2))


# Whoever deals, its messages are checked alike.
DEALERS = pytest.mark.parametrize(("way", "dealer"), [("a triple", SERVER), ("a client deals", "client-0")])


@DEALERS
def test_corrections_that_differ_within_a_part_end_the_run(way, dealer):
    count = iter(range(1 << 30))

    def faults(e):
        if isinstance(e.body, Corrections) and next(count) == 1:
            e = dataclasses.replace(e, body=Corrections(~e.body.words))
        return (e,)

    with pytest.raises(SuspectedParties, match=REFUSED) as error:
        cluster_way(way, faults=faults)
    assert dealer in error.value.parties


@DEALERS
@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (Corrections, lambda b: dataclasses.replace(b, words=b.words[1:])),
        (MaskSums, lambda b: dataclasses.replace(b, values=b.values[:, 1:])),
        (MaskSums, lambda b: dataclasses.replace(b, values=~np.zeros_like(b.values))),
    ],
    ids=["words", "numbers", "residues"],
)
def test_what_no_dealer_sends_blames_it(way, dealer, kind, change):
    def faults(e):
        if isinstance(e.body, kind) and e.sender == dealer:
            e = dataclasses.replace(e, body=change(e.body))
        return (e,)

    with pytest.raises(FaultyParty) as error:
        cluster_way(way, faults=faults)
    assert error.value.party == dealer


@DEALERS
def test_false_sums_of_masks_end_the_run(way, dealer):
    def faults(e):
        if isinstance(e.body, MaskSums) and e.sender == dealer:
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, values=e.body.values ^ 1))
        return (e,)

    with pytest.raises((SuspectedParties, FaultyParty)) as error:
        cluster_way(way, faults=faults)
    assert dealer in (*getattr(error.value, "parties", ()), getattr(error.value, "party", ""))


@pytest.mark.parametrize("at", ["commitment", "key", "seed"])
def test_what_members_tell_beforehand_is_bound(at):
    """Told to one of two otherwise than to the other."""
    cut = {"commitment": slice(0, 32), "key": slice(32, 64), "seed": slice(64, 80)}[at]

    def faults(e):
        if isinstance(e.body, CheckDealing) and (e.sender, e.recipient) == ("client-0", "client-1"):
            parts = bytearray(e.body.parts)
            parts[cut] = bytes(255 ^ x for x in parts[cut])
            assert parts != e.body.parts
            e = dataclasses.replace(e, body=dataclasses.replace(e.body, parts=bytes(parts)))
        return (e,)

    said = {
        "commitment": "opened another coin than it committed to",
        "key": "heard different words",
        "seed": "heard different words|do not compute the same",
    }
    with pytest.raises((SuspectedParties, FaultyClient), match=said[at]):
        cluster_way("a triple", faults=faults)


@pytest.mark.parametrize(
    ("kind", "change", "said"),
    [
        (CheckDealing, lambda b: dataclasses.replace(b, parts=b.parts + b"x"), "bytes of parts where"),
        (MaskedBits, lambda b: dataclasses.replace(b, coin=bytes(32)), "another coin"),
        (
            MaskedBits,
            lambda b: dataclasses.replace(b, words=b.words[1:]) if b.words.size else None,
            "was due",
        ),
        (PartDigests, lambda b: dataclasses.replace(b, parts=b.parts[1:]), "told digests of"),
        (LabelShare, lambda b: dataclasses.replace(b, digests=b.digests + b"x"), "shares? of labels"),
    ],
    ids=range(5),
)
def test_what_no_member_sends_blames_its_sender(kind, change, said):
    faults, _, _ = lying(kind, change, "client-1", 0)
    with pytest.raises(FaultyClient, match=said) as error:
        cluster_way("a triple", faults=faults)
    assert error.value.party == "client-1"


def test_a_server_seats_no_other_committee():
    def smaller(question):
        committee = dataclasses.replace(
            question.committee, members=question.committee.members[:2], corrected=0
        )
        return dataclasses.replace(question, committee=committee)

    def faults(e):
        asked = e.kind.startswith("Compare") and e.sender == SERVER
        return (dataclasses.replace(e, body=smaller(e.body)) if asked else e,)

    with pytest.raises(FaultyServer, match="another committee than 3 clients or more"):
        cluster_way("a triple", faults=faults)


# --- where labels stay shared ---------------------------------------------------------------------------

SHARED = {
    "own labels": secfc.OwnLabels(),
    "hidden sizes, a client deals": secfc.OwnLabels("client-0", sizes="hidden"),
    "final labels": secfc.FinalLabelsOnly(dealer=SERVER),
}
LEAVES = LabelShare, SizeShare, OwnShare, PartShares


def shared(way, deviating=None, **options):
    settings = secfc.SecFC(
        3, secfc.Threshold(1, deviating=deviating), init="random", max_iter=3, disclosure=SHARED[way]
    )
    return secfc.fit(settings, federation(n=5, m=32), seed=1, keep_bodies=True, **options)


shared_alike = cache(shared)


def leaving(faults, sender):
    """Also notes the rounds in which others tell anything that leaves the committee, but what they deal."""
    told = []

    def both(e):
        if isinstance(e.body, LEAVES[:3]) and e.sender != sender:
            told.append(e.round)
        return faults(e)

    return both, told


@pytest.mark.parametrize("way", SHARED)
def test_shared_labels_are_those_of_one_client_a_part(way):
    alone, checked = shared(way, 0), shared(way)
    assert all(map(np.array_equal, alone.labels, checked.labels))
    assert alone.n_iter == checked.n_iter
    assert count(alone, "PartDigests") == 0 < count(checked, "PartDigests")


@pytest.mark.parametrize("way", SHARED)
@pytest.mark.parametrize("deviating", [0, None])
def test_one_flipped_bit_ends_a_run_before_anything_of_shared_labels_is_told(way, deviating):
    """With the positive control: where nobody else plays its part, nobody says who lied."""
    sender, unnoticed = "client-1" if "client deals" in way else "client-0", 0
    for seed in range(short(2, nightly=100)):
        turn = turn_of(5 * seed, shared_alike(way, deviating), sender)
        faults, seen, _ = lying(MaskedBits, lambda body, s=seed: with_words(body, s), sender, turn)
        faults, told = leaving(faults, sender)
        if deviating == 0:
            with suppress(SuspectedParties):  # of labels that are not there
                unnoticed += shared(way, deviating, faults=faults).n_iter >= 1
        else:
            with pytest.raises(SuspectedParties, match=REFUSED):
                shared(way, faults=faults)
            assert all(number < seen[-1] for number in told)
        assert len(seen) > turn
    assert bool(unnoticed) == (deviating == 0)


def changed_shares(kind, field):
    """Another share or digest of a part, where a message has any."""

    def change(body):
        value = getattr(body, field)
        if isinstance(value, bytes):
            return dataclasses.replace(body, **{field: bytes(255 ^ x for x in value)}) if value else None
        return dataclasses.replace(body, **{field: flipped(value, 3)}) if value.size else None

    return kind, change


@pytest.mark.parametrize(
    ("way", "kind", "field", "sender"),
    [
        ("own labels", SizeShare, "values", "client-0"),
        ("own labels", SizeShare, "digests", "client-2"),
        ("own labels", OwnShare, "words", "client-0"),
        ("own labels", OwnShare, "digests", "client-2"),
        ("hidden sizes, a client deals", PartShares, "values", "client-1"),
        ("hidden sizes, a client deals", PartShares, "seeds", "client-1"),
        ("own labels", PartShares, "digests", "client-2"),
        ("final labels", LabelShare, "words", "client-0"),
        ("final labels", PartShares, "digests", "client-2"),
    ],
    ids=lambda x: getattr(x, "__name__", x),
)
def test_false_shares_of_labels_that_stay_shared_are_used_by_nobody(way, kind, field, sender):
    kind, change = changed_shares(kind, field)
    faults, seen, _ = lying(kind, change, sender, None)
    with pytest.raises(SuspectedParties, match="play one part, and do not say the same of") as error:
        shared(way, faults=faults)
    assert seen
    assert sender in error.value.parties


@pytest.mark.parametrize(
    ("kind", "field"), [(SizeShare, "values"), (SizeShare, "digests"), (PartShares, "values"),
                        (PartShares, "seeds"), (PartShares, "digests"), (OwnShare, "words")],
)  # fmt: skip
def test_shares_of_parts_in_another_form_blame_their_sender(kind, field):
    def change(body):
        value = getattr(body, field)
        if isinstance(value, bytes):
            return dataclasses.replace(body, **{field: value + b"x"})
        more = np.concatenate([value, value], axis=1) if value.size else np.ones((len(value), 1), value.dtype)
        return dataclasses.replace(body, **{field: more})

    faults, _, _ = lying(kind, change, "client-1", 0)
    with pytest.raises(FaultyClient) as error:
        shared("own labels", faults=faults)
    assert error.value.party == "client-1"


def test_new_points_are_compared_by_parts_as_well():
    """Of the words that members then open one is false; with the positive control."""
    for deviating in (0, None):
        faults, seen, _ = lying(MaskedBits, with_words, "client-0", 0)
        faults, told = leaving(faults, "client-0")
        model = shared("own labels", deviating).model

        def predicted(model=model, faults=faults):
            return model.predict(
                federation(n=5, m=32),
                coins=lambda party: SystemCoins(),
                drive=lambda roles, *_: simulate(roles, faults=faults),
            )

        if deviating == 0:
            assert len(predicted()) == 5
        else:
            with pytest.raises(SuspectedParties, match=REFUSED):
                predicted()
            assert not told
        assert seen


# --- where centers are rounded --------------------------------------------------------------------------

ROUNDED = {
    "all labels": secfc.AssignmentsOnly(),
    "own labels": secfc.OwnLabels(),
    "a client deals": secfc.AssignmentsOnly("client-0"),
}


def rounded(way, deviating=None, **options):
    threshold, centers = secfc.Threshold(1, deviating=deviating), secfc.Quantization(centers="rounded")
    settings = secfc.SecFC(
        3, threshold, quantization=centers, init="random", max_iter=2, disclosure=ROUNDED[way]
    )
    return secfc.fit(settings, federation(n=5, m=32), seed=1, keep_bodies=True, **options)


rounded_alike = cache(rounded)


@pytest.mark.parametrize("way", ROUNDED)
def test_labels_by_rounded_centers_are_those_of_one_client_a_part(way):
    alone, checked = rounded(way, 0), rounded(way)
    assert (alone.plan.deviating, checked.plan.deviating) == (0, 1)
    assert all(map(np.array_equal, alone.labels, checked.labels))
    assert alone.n_iter == checked.n_iter
    assert count(alone, "PartDigests") == 0 < count(checked, "PartDigests")


@pytest.mark.parametrize("way", ["all labels", *by_night("own labels", "a client deals")])
@pytest.mark.parametrize("deviating", [0, None])
def test_one_flipped_bit_ends_a_run_before_labels_by_rounded_centers(way, deviating):
    """With the positive control: where nobody else plays its part, nobody complains of it."""
    sender, unnoticed = "client-1" if way == "a client deals" else "client-0", 0
    for seed in range(short(2, nightly=100)):
        turn = turn_of(seed, rounded_alike(way, deviating), sender)
        faults, seen, _ = lying(MaskedBits, lambda body, s=seed: with_words(body, s), sender, turn)
        faults, told = leaving(faults, sender)
        if deviating == 0:
            with suppress(SuspectedParties):  # of labels that are not there
                unnoticed += rounded(way, deviating, faults=faults).n_iter >= 1
        else:
            with pytest.raises(SuspectedParties, match=REFUSED):
                rounded(way, faults=faults)
            assert all(number < seen[-1] for number in told)
        assert len(seen) > turn
    assert bool(unnoticed) == (deviating == 0)


@pytest.mark.parametrize(("field", "sender"), [("seeds", "client-0"), ("digests", "client-2")])
def test_false_shares_of_rounded_centers_are_used_by_nobody(field, sender):
    kind, change = changed_shares(PartShares, field)
    faults, seen, told = lying(kind, change, sender, None)
    with pytest.raises(SuspectedParties, match="do not say the same of rounded centers") as error:
        rounded("all labels", faults=faults)
    assert seen
    assert not told
    assert sender in error.value.parties


@pytest.mark.parametrize("field", ["heard", "parts"])
def test_false_digests_of_what_is_said_of_rounded_centers_end_the_run(field):
    kind, change = changed_shares(PartDigests, field)
    faults, seen, told = lying(kind, change, "client-1", 0)
    vouched = []

    def watched(e):
        # Shares are dealt before, and uniform; digests of them, by who did not lie, are not.
        if e.kind == "PartShares" and e.body.digests:
            vouched.append(e.sender)
        return faults(e)

    with pytest.raises(SuspectedParties, match=REFUSED):
        rounded("all labels", faults=watched)
    assert seen
    assert not told
    assert {*vouched} <= {"client-1"}


# --- the mathematics ------------------------------------------------------------------------------------


def test_masks_of_label_shares_add_up_to_zero_and_follow_from_the_key():
    def masks(key, basis=None):
        zeros = np.zeros((2, 3), np.uint64) if basis is None else np.zeros((1, 3), basis.dtype)
        hidden = PartKeys(Blocks((2, 2, 3), 1), 0, key, {}).hide(
            bytes(32), dict.fromkeys(range(5), zeros), basis
        )
        return [hidden[q] for q in range(5)]

    first = Basis((1073741789,))
    assert not np.bitwise_xor.reduce(masks(bytes(32))).any()
    assert not reduce(first.add, masks(bytes(32), first)).any()
    for basis in (None, first):
        one, other = masks(bytes(32), basis), masks(b"\1" * 32, basis)
        assert all(mask.any() for mask in one)
        assert not any((a == b).all() for a, b in zip(one, other, strict=True))


def test_sums_of_digests_are_read_as_they_were_written():
    basis, digest = Basis((1073741789, 1073741783)), LinearDigest(bytes(32))
    total = words.DigestSum(basis)
    total.add(digest, np.arange(5, dtype=np.uint64))
    total.add(digest, np.arange(6, dtype=np.uint32).reshape(2, 3))
    data = bytes(total)
    assert len(data) == words.digest_length(basis) == 16 + 16
    assert bytes(words.read_digest(basis, data)) == data
    twice = words.read_digest(basis, data)
    twice.join(total)
    assert twice.words == 0
    assert (twice.residues == basis.add(total.residues, total.residues)).all()


# --- what may be asked for ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("way", "said"),
    [
        (dict(threshold=secfc.Threshold(1, deviating=2)), "deviating=2, t=1: at most t of these"),
        (dict(threshold=secfc.Threshold(1, deviating=-1)), "deviating=-1 is negative"),
        (dict(disclosure=secfc.OwnLabels(None)), "parts played by two need 2t\\+2=4 clients"),
        (dict(disclosure=secfc.FinalLabelsOnly()), "parts played by two need 2t\\+2=4 clients"),
        (dict(disclosure="distances"), "only committees that compare play parts by several"),
        (dict(disclosure=secfc.AssignmentsOnly(dealer=None)), "parts played by two need 2t\\+2=4 clients"),
        (
            dict(disclosure=secfc.AssignmentsOnly(dealer="client-0")),
            "parts played by two need t\\+2=3 clients",
        ),
    ],
)
def test_what_nobody_checks_is_refused_with_the_reason(way, said):
    with pytest.raises(ValueError, match=said):
        secfc.fit(secfc.SecFC(2, **{"threshold": secfc.Threshold(1, deviating=1), **way}), federation(n=3))


def test_who_has_parts_that_one_client_plays_alone_is_told_so():
    facts = PublicFacts.of(federation(n=3))
    alone, two = secfc.Threshold(1, deviating=0), secfc.Threshold(1)
    dealing, nobody = secfc.AssignmentsOnly(dealer="client-0"), secfc.AssignmentsOnly(dealer=None)
    for way, remedy in (
        (secfc.SecFC(2, alone), "deviating=1 has each part played by two"),
        (secfc.SecFC(2, two, disclosure=dealing), "played by two have 3 clients or more besides"),
        (secfc.SecFC(2, two, disclosure=nobody), "played by two have 4 clients or more"),
    ):
        with pytest.warns(Caution, match=f"deviating=0: one client .* read the others' rows.*{remedy}"):
            assert way.plan(facts).deviating == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert secfc.SecFC(2, two).plan(facts).deviating == 1
        assert secfc.SecFC(2, 1, disclosure="distances").plan(facts).deviating == 0


def test_a_report_says_what_a_client_that_deviates_can_do():
    def said(way):
        setup = dict(summarize_secfc(way, run_of(way), federation(n=3), None).setup)
        return setup.get("Deviating")

    def run_of(way):
        return secfc.fit(way, federation(n=3), seed=1)

    for number in (None, 1):
        assert said(secfc.SecFC(2, secfc.Threshold(1, deviating=number))) == (
            "1 client of a committee that deviates ends the run, and learns nothing more"
        )
    assert said(secfc.SecFC(2, 1, disclosure="own-labels")).startswith("1 client of a committee")
    for way in (
        secfc.SecFC(2, secfc.Threshold(1, deviating=0)),
        secfc.SecFC(2, 1, disclosure="final-labels"),
    ):
        assert said(way) == "one client that deviates can read the others' rows"
    assert said(secfc.SecFC(2, 1, disclosure="distances")) is None


# --- which shape -----------------------------------------------------------------------------------------


def test_shapes_send_what_the_planner_takes_them_to_send(monkeypatch):
    """By bytes of a comparison of 16 centers; the planner also counts what playing parts takes."""

    def sent(blocks):
        monkeypatch.setattr(session, "cheapest_blocks", lambda *_: blocks)
        result = cluster_way("a block of four", init=RandomPoints(), n=7, m=256, k=16, max_iter=1)
        first = min(e.round for e in result.transcript.envelopes if e.kind == "CompareQuery")
        return sum(
            encoded_size(e.body) for e in result.transcript.envelopes if first <= e.round < first + STRIDE
        )

    monkeypatch.setattr(rounds, "WORTH_PARTS", 0)  # as for many points
    measured = {blocks: sent(blocks) for blocks in shapes(7, 2, 1)}
    fewest = dataclasses.replace(session.PROPORTIONS, played=0)
    assert [blocks.sizes for blocks in sorted(measured, key=measured.get)] == [(4,), (3, 2), (2, 2, 2)]
    one = measured[Blocks((4,), 1)] / fewest.words(Blocks((4,), 1))
    assert all(0.95 < each / fewest.words(blocks) / one < 1.05 for blocks, each in measured.items())


def test_after_a_loss_it_is_the_cheapest_shape_of_those_who_are_left():
    committees = []

    def faults(e):
        if isinstance(e.body, Query) and e.body.committee is not None:
            committees.append(e.body.members.tolist())
        return () if e.sender == "client-1" and len(committees) > 8 else (e,)

    full, less = cluster_way("by three"), cluster_way("by three", faults=faults)
    assert same_runs(full, less)
    assert committees[0] == [0, 1, 2, 3, 4, 5, 6]  # blocks of 4 and 3
    assert committees[-1] == [0, 2, 3, 4, 5]  # of six that are left one block of 5
