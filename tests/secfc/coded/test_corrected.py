"""Deviating clients: found and named, never an honest one; labels stay those of plaintext Lloyd."""

import dataclasses
from collections import Counter
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import secfc
from field.code import range_check
from field.code.consistency import DealingFault
from field.code.masking import seeded_clients
from field.ring.basis import LANE_PRIMES
from secfc.attacks.views import View
from secfc.coded.messages import CheckedDistances, RowShares
from secfc.coded.quorum import BLINDING, DEALING, MALFORMED, OFF, WORDS
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.coded_kmeans.model_share import from_plain_values, to_plain_values
from secfc.data.inputs import build_algorithm
from secfc.errors import SuspectedParties
from secfc.kmeans.starts import GivenLabels, KMeansPlusPlus, RandomPoints
from secfc.roles.exchange import ITERATE, SERVER
from secfc.roles.messages import Contributors, Hello
from secfc.transport import wire
from secfc.transport.simulate import simulate
from tests.nightly import every, short, trials
from tests.secfc.lying import saying
from tests.secfc.transport.test_wire import over_sockets, roles_of
from tests.small import clustered, same_runs

REPLIES = ("CodedDistances", "CheckedDistances")


federation = partial(clustered, n=9, m=90, d=5)


BLINDED, BARE = secfc.Distances(), secfc.Distances(blind=False)
both = pytest.mark.parametrize("disclosure", [BLINDED, BARE], ids=["blinded", "bare"])


def algorithm(corrected=1, disclosure=BLINDED, **options):
    # R = 5: n = 5 + 2 corrected suffice.
    return build_algorithm(
        secfc.SecFC,
        k=3,
        **{"t": 2, "init": RandomPoints(), **options},
        disclosure=disclosure,
        corrected=corrected,
    )


def check_exact(result, fed, **options):
    """The labels are plaintext Lloyd's on the rows that count."""
    kept = [p for p in fed.parties if p.name not in result.excluded]
    plain = build_algorithm(
        secfc.Lloyd, k=3, **{"init": RandomPoints(), **options}, scale=result.plan.quantizer.scale
    )
    bound = result.plan.quantizer.bound
    assert same_runs(result, secfc.fit(plain, secfc.Federation(tuple(kept)), bound=bound))


def plus(values, amount, lane=None, primes=LANE_PRIMES):
    """Residues (lanes, ...) moved by an amount, in one lane or in all."""
    out = values.copy()
    for at in range(len(values)) if lane is None else [lane]:
        out[at] = (out[at].astype(np.int64) + amount) % primes[at]
    return out


def lying(kinds, senders, change, recipients=None, first=0):
    """What a network does when these senders say something else than they should."""

    def fault(e):
        hit = e.kind in kinds and e.sender in senders and e.round >= first
        if hit and (recipients is None or e.recipient in recipients):
            return (dataclasses.replace(e, body=change(e)),)
        return (e,)

    return fault


def moved(amount=1, lane=None):
    return lambda e: dataclasses.replace(e.body, values=plus(e.body.values, amount, lane))


def spoiled(e):
    """A lie that changes what is decoded: at every third point, and the first cluster only.

    In one prime only: the decoding weights are small integers, and so would be what is decoded.
    """
    values = e.body.values.copy()
    values[:, 0, ::3] = plus(values[:, 0, ::3], 12345, lane=0)
    return dataclasses.replace(e.body, values=values)


def both_of(*faults):
    def fault(e):
        for one in faults:
            (e,) = one(e) or (None,)
            if e is None:
                return ()
        return (e,)

    return fault


def dropped(kind, sender, *recipients):
    return lambda e: (
        () if (e.kind, e.sender) == (kind, sender) and (not recipients or e.recipient in recipients) else (e,)
    )


def silent(*names, first=0):
    return lambda e: () if {e.sender, e.recipient} & set(names) and e.round >= first else (e,)


# --- lies in replies --------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("corrected", [1, 2])
def test_honest_clients_are_not_named(disclosure, corrected):
    fed = federation()
    result = secfc.fit(algorithm(corrected, disclosure), fed)
    check_exact(result, fed)
    assert (result.deviated, result.disputes, result.excluded) == ({}, (), ())


@both
@pytest.mark.parametrize("lane", [None, 0, 1], ids=["every prime", "first prime", "last prime"])
def test_a_lie_in_replies_is_found_and_its_client_asked_no_more(disclosure, lane):
    fed = federation(n=7)
    result = secfc.fit(
        algorithm(1, disclosure), fed, faults=lying(REPLIES, ["client-2"], moved(lane=lane)), keep_bodies=True
    )
    check_exact(result, fed)
    assert result.deviated == {"client-2": OFF}
    questions = Counter(e.recipient for e in result.transcript.envelopes if e.kind == "DistanceQuery")
    assert questions["client-2"] == 1 < questions["client-1"]
    assert (result.labels[2] >= 0).all(), "its rows count, and it hears the result"


def test_the_same_lie_spoils_the_labels_where_nobody_looks():
    # Positive control: with corrected=0 dealt masks leave a reply decoded as it is; all others are checked.
    fed = federation(n=7)
    for disclosure in (BLINDED, BARE):
        with pytest.raises(SuspectedParties, match="do not fit the shares of the rows"):
            secfc.fit(algorithm(0, disclosure, max_iter=3), fed, faults=lying(REPLIES, ["client-2"], spoiled))
    fault = lying(REPLIES, ["client-2"], spoiled)
    result = secfc.fit(algorithm(0, secfc.Distances(dealt=True), max_iter=3), fed, faults=fault)
    with pytest.raises(AssertionError):
        check_exact(result, fed, max_iter=3)


@both
def test_one_wrong_value_in_a_million_is_found(disclosure):
    rng = np.random.default_rng(0)
    fed = secfc.Federation.from_arrays(np.array_split(rng.normal(size=(125_000, 1)), 5))
    start = GivenLabels(rng.integers(0, 8, 125_000))

    def one_value(e):
        values = e.body.values.copy()
        assert values[-1].size == 10**6
        values[-1, 3, 77_777] ^= 1
        return dataclasses.replace(e.body, values=values)

    options = {"k": 8, "t": 1, "init": start, "max_iter": 1}
    result = secfc.fit(
        build_algorithm(secfc.SecFC, **options, disclosure=disclosure, corrected=1), fed,
        faults=lying(REPLIES, ["client-4"], one_value),
    )  # fmt: skip
    # Only replies that are read are judged: the first R + 1 = 4 agree, and the lie changes nothing.
    assert result.deviated == {}
    result = secfc.fit(
        build_algorithm(secfc.SecFC, **options, disclosure=disclosure, corrected=1), fed,
        faults=lying(REPLIES, ["client-1"], one_value),
    )  # fmt: skip
    assert result.deviated == {"client-1": OFF}
    del options["t"]
    assert same_runs(result, secfc.fit(build_algorithm(secfc.Lloyd, **options, disclosure=disclosure), fed))


def colluding(code, deviating, honest):
    """Lies on one other polynomial of the degree, that agrees with the truth at these honest clients."""

    def change(e):
        j = int(e.sender.removeprefix("client-"))
        values = e.body.values.copy()
        for lane, p in enumerate(code.basis.primes[: len(values)]):
            shift = 1
            for i in honest:
                shift = shift * (code.alphas[j] - code.alphas[i]) % p
            values[lane] = (values[lane].astype(np.int64) + shift) % p
        return dataclasses.replace(e.body, values=values)

    return lying(REPLIES, [f"client-{j}" for j in deviating], change)


@both
def test_colluding_deviating_clients_who_agree_on_another_polynomial_are_all_named(disclosure):
    fed = federation(n=9)
    way = algorithm(2, disclosure)
    code = way.plan(secfc.algorithm.PublicFacts.of(fed)).code
    result = secfc.fit(way, fed, faults=colluding(code, (1, 6), (0, 2, 3, 4)))
    check_exact(result, fed)
    assert result.deviated == {"client-1": OFF, "client-6": OFF}


@both
def test_one_deviating_client_too_many_is_a_typed_error_with_a_spare_reply(disclosure):
    # Without a spare reply they can frame honest clients, and no decoder can tell
    # (`field.code.consistency.locate_deviating`).
    fed = federation(n=10)
    way = algorithm(2, disclosure)
    code = way.plan(secfc.algorithm.PublicFacts.of(fed)).code
    with pytest.raises(secfc.TooManyDeviating, match=r"corrected=2 allows.*: correct more"):
        secfc.fit(way, fed, faults=colluding(code, (1, 6, 7), (0, 2, 3, 4)))


@both
def test_deviating_clients_that_do_not_collude_are_found_too_many_at_once_or_one_after_the_other(disclosure):
    fed = federation(n=9)
    several = [lying(REPLIES, [f"client-{j}"], moved(j + 5)) for j in range(3)]
    with pytest.raises(secfc.TooManyDeviating):
        secfc.fit(algorithm(2, disclosure), fed, faults=both_of(*several))
    late = lying(REPLIES, ["client-3"], moved(7), first=ITERATE + (1 << 10))
    with pytest.raises(secfc.TooManyDeviating) as caught:
        secfc.fit(algorithm(1, disclosure), federation(n=7), faults=both_of(several[0], late))
    assert caught.value.suspects == ("client-0",)


@both
def test_malformed_replies_name_their_sender_and_the_rest_goes_on(disclosure):
    fed = federation(n=9)
    changes = {
        "client-1": lambda e: dataclasses.replace(e.body, values=e.body.values[:, :, 1:]),
        "client-4": lambda e: Hello(b"x"),
    }
    result = secfc.fit(
        algorithm(2, disclosure), fed,
        faults=both_of(*(lying(REPLIES, [who], change) for who, change in changes.items())),
    )  # fmt: skip
    check_exact(result, fed)
    assert result.deviated == dict.fromkeys(changes, MALFORMED)
    with pytest.raises(secfc.TooManyDeviating):
        secfc.fit(algorithm(1, disclosure), fed, faults=lying(REPLIES, list(changes), lambda e: Hello(b"x")))


@both
def test_deviating_clients_and_lost_clients_together(disclosure):
    # n = 5 + 2 + 2: one deviating client, and two that fall silent.
    fed = federation(n=9)
    lie = lying(REPLIES, ["client-5"], moved(3))
    for first in (ITERATE, ITERATE + (1 << 10)):
        result = secfc.fit(
            algorithm(1, disclosure), fed, faults=both_of(lie, silent("client-0", "client-8", first=first))
        )
        check_exact(result, fed)
        assert result.deviated == {"client-5": OFF}
        assert algorithm(1, disclosure).losses(result.plan) == 2
    # With a third loss the lie is noticed and cannot be located.
    lost = silent("client-0", "client-1", "client-8", first=ITERATE)
    with pytest.raises((secfc.TooManyDeviating, secfc.TooFewReplies)):
        secfc.fit(algorithm(1, disclosure), fed, faults=both_of(lie, lost))


@both
def test_a_deviating_client_that_prefers_silence_uses_up_no_spare(disclosure):
    # n = 5 + 2 * 2: of two deviating clients one says nothing and the other lies.
    fed = federation(n=9)
    fault = both_of(
        lying(REPLIES, ["client-1"], moved()),
        *(dropped(kind, "client-0") for kind in REPLIES),
    )
    result = secfc.fit(algorithm(2, disclosure), fed, faults=fault)
    check_exact(result, fed)
    assert result.deviated == {"client-1": OFF}


def test_a_deviating_client_when_centers_are_revealed():
    fed = federation(n=9)
    result = secfc.fit(
        algorithm(1, reveal_centers=True), fed, faults=lying(["CodedCenters"], ["client-3"], moved())
    )
    plain = secfc.fit(secfc.Lloyd(k=3, init=RandomPoints(), disclosure=BLINDED), fed)
    assert (result.centers == plain.centers).all()
    assert result.deviated == {"client-3": OFF}
    # Control: where no reply is corrected, the lie is noticed and nobody named.
    with pytest.raises(SuspectedParties, match="shares of the centers lie on no polynomial"):
        secfc.fit(
            algorithm(0, reveal_centers=True), fed, faults=lying(["CodedCenters"], ["client-0"], moved(10**6))
        )


@both
def test_deviating_clients_when_new_points_are_labeled(disclosure):
    fed = federation(n=9)
    fitted = secfc.fit(
        algorithm(2, disclosure), fed, faults=lying(REPLIES, ["client-4"], moved()), bound=32.0
    )
    assert fitted.deviated == {"client-4": OFF}
    fresh = federation(n=9, m=200)
    expected = secfc.fit(secfc.Lloyd(k=3, init=RandomPoints(), disclosure=BLINDED), fed, bound=32.0).predict(
        fresh
    )
    kinds = Counter()

    def faulty(roles, description, secrets, *, sealed):
        # The deviating client of the fit is asked nothing, and another one is found.
        fault = lying(REPLIES, ["client-2"], moved())
        run = simulate(roles, faults=fault)
        kinds.update((e.kind, e.recipient) for e in run.transcript.envelopes)
        return run

    found = dataclasses.replace(fitted, drive=faulty).predict(fresh)
    assert all((a == b).all() for a, b in zip(found, expected, strict=True))
    assert kinds["DistanceQuery", "client-4"] == 0 < kinds["DistanceQuery", "client-2"]


# --- false shares of rows ---------------------------------------------------------------------------


@both
def test_a_dealer_of_false_shares_is_named_before_the_loop_and_left_out(disclosure):
    fed = federation(n=7)
    result = secfc.fit(
        algorithm(1, disclosure), fed, keep_bodies=True,
        faults=lying(["RowShares"], ["client-3"], lambda e: dataclasses.replace(
            e.body, values=plus(e.body.values, hash(e.recipient) % 1000 + 1)
        )),
    )  # fmt: skip
    check_exact(result, fed)
    assert result.deviated == {"client-3": DEALING}
    assert result.excluded == ("client-3",)
    assert not any(
        e.kind == "DistanceQuery" and e.recipient == "client-3" for e in result.transcript.envelopes
    )


def test_the_same_false_share_spoils_the_labels_where_nobody_looks(monkeypatch):
    fed = federation(n=7)
    monkeypatch.setattr(range_check, "judge_dealing", lambda code, told, errors: DealingFault(False, ()))
    monkeypatch.setattr(range_check, "within_bound", lambda code, pattern, told: True)
    fault = lying(["RowShares"], ["client-3"], moved(10**6, lane=0), recipients=["client-0"])
    result = secfc.fit(algorithm(0, secfc.Distances(dealt=True), max_iter=3), fed, faults=fault)
    with pytest.raises(AssertionError):
        check_exact(result, fed, max_iter=3)


@both
def test_a_false_share_for_one_receiver_parts_the_two_and_keeps_all_rows(disclosure):
    fed = federation(n=7)
    result = secfc.fit(
        algorithm(1, disclosure), fed, keep_bodies=True,
        faults=lying(["RowShares"], ["client-3"], moved(), recipients=["client-5"]),
    )  # fmt: skip
    check_exact(result, fed)
    assert (result.deviated, result.disputes, result.excluded) == ({}, (("client-3", "client-5"),), ())
    asked = {e.recipient for e in result.transcript.envelopes if e.kind == "DistanceQuery"}
    assert asked == set(fed.names) - {"client-3", "client-5"}
    assert all((labels >= 0).all() for labels in result.labels)
    # The share that client-5 keeps of the centers is false as well: it is not asked for predictions.
    assert all((a == b).all() for a, b in zip(result.predict(fed), result.labels, strict=True))


@both
def test_a_withheld_share_is_a_dispute_and_many_are_a_loss(disclosure):
    fed = federation(n=8)

    def withheld(*recipients):
        return dropped("RowShares", "client-3", *recipients)

    result = secfc.fit(algorithm(1, disclosure), fed, faults=withheld("client-5"))
    check_exact(result, fed)
    assert (result.disputes, result.excluded) == ((("client-3", "client-5"),), ())
    result = secfc.fit(algorithm(1, disclosure), fed, faults=withheld("client-5", "client-6"))
    check_exact(result, fed)
    assert (result.deviated, result.disputes, result.excluded) == ({}, (), ("client-3",))


def test_two_doubted_shares_cost_the_dealer_its_rows():
    fed = federation(n=9)
    fault = lying(["RowShares"], ["client-3"], moved(), recipients=["client-5", "client-6"])
    result = secfc.fit(algorithm(2), fed, faults=fault)
    check_exact(result, fed)
    assert (result.deviated, result.disputes, result.excluded) == ({}, (), ("client-3",))


def test_a_client_that_vanishes_while_sharing_is_left_out_and_a_deviating_client_still_found():
    fed = federation(n=8)
    result = secfc.fit(
        algorithm(1),
        fed,
        faults=both_of(silent("client-2", first=1 << 32), lying(REPLIES, ["client-6"], moved())),
    )
    check_exact(result, fed)
    assert result.excluded == ("client-2",)
    assert result.deviated == {"client-6": OFF}


def test_a_receiver_that_hears_nobody_is_lost_and_blames_nobody():
    fed = federation(n=8)
    result = secfc.fit(
        algorithm(1),
        fed,
        faults=lambda e: () if e.kind == "RowShares" and e.recipient == "client-2" else (e,),
    )
    check_exact(result, fed)
    assert (result.deviated, result.disputes, result.excluded) == ({}, (), ())


@pytest.mark.parametrize(
    ("kind", "change", "why"),
    [
        ("ProjectedShares", moved(), WORDS),
        ("ProjectedShares", lambda e: dataclasses.replace(e.body, values=e.body.values[:, 1:]), MALFORMED),
        ("ProjectedShares", lambda e: dataclasses.replace(e.body, complete=np.ones(3, bool)), MALFORMED),
    ],
)
def test_a_receiver_that_lies_about_everybody_is_named_and_nobody_is_left_out(kind, change, why):
    fed = federation(n=7)
    result = secfc.fit(algorithm(1), fed, faults=lying([kind], ["client-1"], change))
    check_exact(result, fed)
    assert result.deviated == {"client-1": why}
    assert (result.disputes, result.excluded) == ((), ())


def test_malformed_shares_and_keys_count_as_missing():
    fed = federation(n=7)
    for fault in (
        lying(["RowShares"], ["client-1"], lambda e: Hello(b"x")),
        lying(["RowShares"], ["client-1"], lambda e: dataclasses.replace(e.body, start=e.body.start + 1)),
        lying(["PublicKey"], ["client-1"], lambda e: Hello(b"x")),
        lying(["PublicKey"], ["client-1"], lambda e: dataclasses.replace(e.body, key=bytes(32))),
        lying(["PublicKey"], ["client-1"], lambda e: dataclasses.replace(e.body, key=bytes(range(32)))),
    ):
        result = secfc.fit(algorithm(1), fed, faults=fault)
        check_exact(result, fed)
        assert set(result.deviated) | set(result.excluded) <= {"client-1"}


# --- false blinding ---------------------------------------------------------------------------------


def test_a_blinding_off_every_polynomial_names_its_dealer_and_the_question_is_put_anew():
    fed = federation(n=9)
    fault = lying(["BlindingShares"], ["client-1"], lambda e: dataclasses.replace(
        e.body, values=plus(e.body.values, hash(e.recipient) % 1000 + 1)
    ))  # fmt: skip
    result = secfc.fit(algorithm(2), fed, faults=fault, keep_bodies=True)
    check_exact(result, fed)
    assert result.deviated == {"client-1": BLINDING}
    questions = [
        e.body for e in result.transcript.envelopes if e.kind == "DistanceQuery" and e.recipient == "client-0"
    ]
    assert (questions[0].labels == questions[1].labels).all()
    assert questions[0].responders.tolist()[:2] == [0, 1]
    assert questions[1].responders.tolist()[:2] == [0, 2]


def test_a_blinding_that_does_not_sum_to_zero_names_its_dealer():
    # Moved by a polynomial of the degree that vanishes where shares are expanded from seeds.
    fed = federation(n=9)
    way = algorithm(2)
    code = way.plan(secfc.algorithm.PublicFacts.of(fed)).code
    seeded = seeded_clients(code, 1, 2)

    def shifted(e):
        j = int(e.recipient.removeprefix("client-"))
        values = e.body.values.copy()
        for lane, p in enumerate(code.basis.primes[: len(values)]):
            shift = 1
            for i in seeded:
                shift = shift * (code.alphas[j] - code.alphas[i]) % p
            values[lane, 0] = (int(values[lane, 0]) + shift) % p
        return dataclasses.replace(e.body, values=values)

    fault = lying(["BlindingShares"], ["client-1"], shifted)
    result = secfc.fit(way, fed, faults=fault)
    check_exact(result, fed)
    assert result.deviated == {"client-1": BLINDING}
    # Where replies are not corrected it is noticed all the same, and nobody is blamed.
    with pytest.raises(secfc.TooManyDeviating, match="corrected=0 allows") as caught:
        secfc.fit(algorithm(0, secfc.Distances(dealt=True)), fed, faults=fault)
    assert caught.value.suspects == ()


@pytest.mark.parametrize("kind", every(2, ["false", "malformed", "withheld"]))
@pytest.mark.parametrize("also_replies", [False, True])
def test_a_false_blinding_for_one_receiver_blames_no_honest_client(kind, also_replies):
    # n = R + 2: that receiver's reply is missing; if the dealer lies in its reply too, others deal.
    fed = federation(n=7)
    changes = {"false": moved(), "malformed": lambda e: Hello(b"x")}
    if kind == "withheld":
        fault = dropped("BlindingShares", "client-0", "client-5")
    else:
        fault = lying(["BlindingShares"], ["client-0"], changes[kind], recipients=["client-5"])
    if also_replies:
        fault = both_of(fault, lying(REPLIES, ["client-0"], moved(4)))
    result = secfc.fit(algorithm(1), fed, faults=fault)
    check_exact(result, fed)
    assert set(result.deviated) == ({"client-0"} if also_replies else set())


def test_a_dealer_lost_in_the_middle_is_replaced():
    fed = federation(n=7)
    for disclosure, corrected in ((BLINDED, 1), (secfc.Distances(dealt=True), 0)):
        for first in (ITERATE, ITERATE + 1, ITERATE + (1 << 10) + 1):
            fault = silent("client-1", first=first)
            result = secfc.fit(algorithm(corrected, disclosure), fed, faults=fault)
            check_exact(result, fed)
            assert result.deviated == {}


def test_a_receiver_that_denies_its_blinding_costs_only_its_reply():
    fed = federation(n=9)
    denied = lying(
        ["Contributors"], ["client-6"], lambda e: Contributors(np.zeros_like(e.body.complete)), first=ITERATE
    )
    off = lying(
        ["CheckedDistances"], ["client-7"],
        lambda e: dataclasses.replace(e.body, words=plus(e.body.words, 1)),
    )  # fmt: skip
    result = secfc.fit(algorithm(2), fed, faults=both_of(denied, off), keep_bodies=True)
    check_exact(result, fed)
    assert result.deviated == {}
    questions = sum(
        e.kind == "DistanceQuery" and e.recipient == "client-0" for e in result.transcript.envelopes
    )
    assert questions == result.n_iter


def test_dealt_blinding_lets_any_threshold_answer_without_asking_again():
    fed = federation(n=9)

    def questions(disclosure):
        lost = both_of(*(dropped(kind, c) for kind in REPLIES for c in ("client-2", "client-3")))
        result = secfc.fit(algorithm(0, disclosure), fed, faults=lost, keep_bodies=True)
        check_exact(result, fed)
        return sum(
            e.kind == "DistanceQuery" and e.recipient == "client-0" for e in result.transcript.envelopes
        )

    steps = secfc.fit(algorithm(0), fed).n_iter
    assert questions(secfc.Distances(dealt=True)) == steps
    assert questions(secfc.Distances()) == steps + 1, "the control asks again"


# --- what the server sees ---------------------------------------------------------------------------


def interpolated(disclosure):
    """What the server makes of true replies at the first data point: residues of one segment."""
    fed = federation(n=9, m=900)
    result = secfc.fit(
        secfc.SecFC(
            k=3, threshold=secfc.Threshold(2, 2, corrected=1), init=RandomPoints(), disclosure=disclosure
        ),
        fed,
        keep_bodies=True,
    )
    question = next(DecodedView.of(result, result.plan, SERVER).questions())
    assert len(question.replies) == 9
    code = result.plan.code
    return code, code.interpolate(question.replies, 2), question


def test_dealt_replies_are_uniform_subject_to_their_sum():
    from scipy import stats

    def uniform(code, values):
        basis = code.basis.prefix(len(values))
        share = basis.lift(values).astype(float) / basis.modulus
        counts = np.bincount((share * 32).astype(int), minlength=32)
        return stats.chisquare(counts).pvalue > 1e-7  # the rate of false alarms

    code, blinded, question = interpolated(BLINDED)
    _, bare, asked = interpolated(BARE)
    assert uniform(code, blinded[:, 0].reshape(len(blinded), -1))
    assert not uniform(code, bare[:, 0].reshape(len(bare), -1)), "the control shows the distance of a segment"
    # The sum over segments is the distance all the same.
    assert (question.labels == asked.labels).all()
    p = code.basis.primes[0]
    assert (blinded[0].astype(np.int64).sum(axis=0) % p == bare[0].astype(np.int64).sum(axis=0) % p).all()
    for j in (0, 4, 8):
        assert uniform(code, question.replies[j].reshape(len(blinded), -1))


def test_every_question_has_fresh_polynomials():
    fed = federation(n=9)
    lost = lying(["BlindingShares"], ["client-1"], lambda e: Hello(b"x"))
    result = secfc.fit(algorithm(2), fed, faults=lost, keep_bodies=True)
    mine = [
        e.body for e in result.transcript.envelopes if e.kind == "BlindingShares" and e.sender == "client-0"
    ]
    assert len(mine) > 5
    first = mine[0].values
    assert all(
        (m.values[:, :270] == first[:, :270]).mean() < 0.01 for m in mine[1:] if len(m.values) == len(first)
    )


GOLDEN = {
    SERVER: {
        "received": {
            "Hello": 9,
            "Commitment": 9,
            "Coin": 9,
            "ProjectedShares": 9,
            "Contributors": 9 * 4,
            "CheckedDistances": 9 * 4,
        },
        "sent": {
            "Hello": 9,
            "TossedCoins": 2 * 9,
            "Contributors": 9,
            "DistanceQuery": 9 * 4,
            "DealingChallenge": 9 * 4,
            "FinalResult": 9,
        },
    },
    # Clients 0 to t = 2 verify.  R - 1 = 4 clients from a dealer on expand its polynomials: dealers 0 and 1
    # send to 4..8 and 5..8, 0.
    "client-0": {
        "received": {
            "Hello": 9,
            "RowShares": 8,
            "TossedCoins": 2,
            "MaskChoice": 8,
            "ProjectedShares": 8,
            "Contributors": 1,
            "PublicKey": 8,
            "DealingChallenge": 4,
            "DistanceQuery": 4,
            "BlindingShares": 4,
            "FinalResult": 1,
        },
        "sent": {
            "Hello": 9,
            "RowShares": 8,
            "Commitment": 1,
            "Coin": 1,
            "MaskChoice": 8,
            "ProjectedShares": 3,
            "PublicKey": 8,
            "Contributors": 4,
            "BlindingShares": 5 * 4,
            "CheckedDistances": 4,
        },
    },
    "client-8": {
        "received": {
            "Hello": 9,
            "RowShares": 8,
            "TossedCoins": 2,
            "MaskChoice": 8,
            "Contributors": 1,
            "PublicKey": 8,
            "DealingChallenge": 4,
            "DistanceQuery": 4,
            "BlindingShares": 2 * 4,
            "FinalResult": 1,
        },
        "sent": {
            "Hello": 9,
            "RowShares": 8,
            "Commitment": 1,
            "Coin": 1,
            "MaskChoice": 8,
            "ProjectedShares": 4,
            "PublicKey": 8,
            "Contributors": 4,
            "CheckedDistances": 4,
        },
    },
}


@pytest.mark.parametrize("party", GOLDEN)
def test_golden_views(party):
    rng = np.random.default_rng(0)
    fed = secfc.Federation.from_arrays(np.array_split(rng.normal(size=(90, 5)), 9))
    result = secfc.fit(algorithm(2, max_iter=3), fed, keep_bodies=True)
    assert not result.converged  # four questions
    kinds = View.of(result, result.plan, party).kinds()
    assert {side: dict(kinds[side]) for side in ("received", "sent")} == GOLDEN[party]


# --- everything at once -----------------------------------------------------------------------------


@st.composite
def campaigns(draw):
    corrected = draw(st.integers(1, 2))
    t, ell = draw(st.integers(0, 2)), draw(st.integers(1, 2))
    n = 2 * (ell + t - 1) + 1 + 2 * corrected + draw(st.integers(0, 1))
    who = draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=corrected))
    kinds = st.sets(
        st.sampled_from(
            [*REPLIES, "RowShares", "MaskChoice", "ProjectedShares", "BlindingShares", "CodedCenters"]
        ),
        min_size=1,
    )
    ways = st.sampled_from(["one value", "one prime", "everything", "silence", "nonsense"])
    lies = {f"client-{j}": (draw(kinds), draw(ways), draw(st.booleans())) for j in who}
    return corrected, t, ell, n, lies, draw(st.booleans()), draw(st.integers(0, 2**32))


@given(campaigns())
@trials(15, nightly=100)
def test_whatever_planned_deviating_clients_do_labels_are_exact_and_no_honest_client_is_named(campaign):
    corrected, t, ell, n, lies, blind, seed = campaign
    rng = np.random.default_rng(seed)

    def fault(e):
        kinds, way, everybody = lies.get(e.sender, ((), "", False))
        if e.kind not in kinds or not (everybody or rng.random() < 0.3):
            return (e,)
        if way == "silence":
            return ()
        if way == "nonsense":
            return (dataclasses.replace(e, body=Hello(b"x")),)
        if e.kind == "MaskChoice":
            return (
                dataclasses.replace(e, body=dataclasses.replace(e.body, used=np.roll(e.body.used, 1, 1))),
            )
        values = e.body.values.copy()
        lane = int(rng.integers(len(values)))
        if way == "one value":
            values[lane].reshape(-1)[int(rng.integers(values[lane].size))] ^= 1
        else:
            values = plus(values, int(rng.integers(1, 1000)), lane if way == "one prime" else None)
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=values)),)

    fed = federation(n=n, m=6 * n, d=3, seed=seed)
    way = secfc.SecFC(
        k=3, threshold=secfc.Threshold(t, ell, corrected=corrected), init=RandomPoints(), max_iter=4,
        release=secfc.Release(reveal_centers=True),
        disclosure=BLINDED if blind else BARE,
    )  # fmt: skip
    result = secfc.fit(way, fed, faults=fault)
    check_exact(result, fed, max_iter=4)
    assert set(result.deviated) <= set(lies)
    for dealer, receiver in result.disputes:
        assert {dealer, receiver} & set(lies)
    # Only who lied in sharing, or was accused by two deviating clients together, loses its rows.
    assert len(set(result.excluded) - set(lies)) <= corrected - 1


class Lying(secfc.SecFC):
    """The algorithm, whose client-2 lies before anything is sealed."""

    def client(self, plan, party, *, coins):
        role = super().client(plan, party, coins=coins)
        return saying(role, lie_in_replies) if party.name == "client-2" else role


def lie_in_replies(to, message):
    if not isinstance(message, CheckedDistances):
        return message
    return dataclasses.replace(message, values=plus(message.values, 1))


def test_deviating_clients_over_the_wire_and_sealed():
    fed = federation(n=7)
    deviating_one = Lying(3, secfc.Threshold(2, corrected=1), RandomPoints(), disclosure=BLINDED)
    result = secfc.fit(deviating_one, fed, faults=wire.over_wire(), sealed=True)
    check_exact(result, fed)
    assert result.deviated == {"client-2": OFF}


@pytest.mark.parametrize("lie", ["reply", "one share"])
def test_deviating_clients_over_sockets(lie):
    fed = federation(n=8)
    roles = roles_of(algorithm(1), fed)

    def one_share(to, message):
        if not isinstance(message, RowShares) or to != "client-4":
            return message
        return dataclasses.replace(message, values=plus(message.values, 1))

    roles["client-2"] = saying(roles["client-2"], lie_in_replies if lie == "reply" else one_share)
    got = over_sockets(roles)
    standing = got[SERVER].standing
    if lie == "reply":
        assert standing.deviated == {"client-2": OFF}
    else:
        assert standing.disputes == (("client-2", "client-4"),)
    honest = simulate(roles_of(algorithm(0), fed)).results
    assert all((got[c].labels == honest[c].labels).all() for c in fed.names)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"corrected": 3},
            r"n=9 clients cannot correct 3 .* = 11 are needed\. Lower ell or t",
        ),
        ({"corrected": -1}, "corrected=-1 is negative"),
        ({"corrected": 2, "membership": secfc.Private()}, "cannot be traced.*membership=Open"),
        (
            {"corrected": 2, "reveal_centers": ("client-0", "client-1", "client-2")},
            r"3 clients cannot reveal the centers with corrected=2: ell\+t\+2\*corrected = 7 must",
        ),
    ],
)
def test_what_cannot_work_is_refused_at_the_plan(change, message):
    with pytest.raises(secfc.InputError, match=message):
        secfc.fit(algorithm(**change), federation(n=9))


@pytest.mark.parametrize(("corrected", "dealt"), [(1, False), (0, True)])
def test_a_run_that_crashed_resumes_with_the_same_challenges(tmp_path, corrected, dealt):
    class Crash(Exception):  # noqa: N818
        pass

    fed, way = federation(n=7), algorithm(corrected, secfc.Distances(dealt=dealt))
    lie = lying(REPLIES if corrected else (), ["client-2"], moved())
    for left in short((60, 110), nightly=(20, 60, 90, 110, 130)):

        def crash(e, left=left):
            crash.left = getattr(crash, "left", left) - 1
            if not crash.left:
                raise Crash
            return lie(e)

        with suppress(Crash):
            secfc.fit(way, fed, faults=crash, checkpoint=tmp_path / str(left))
        result = secfc.fit(way, fed, faults=lie, checkpoint=tmp_path / str(left))
        check_exact(result, fed)
        assert result.deviated == ({"client-2": OFF} if corrected else {})


def test_everybody_s_rows_lost_is_a_typed_error():
    with pytest.raises(secfc.RowsLost):
        secfc.fit(algorithm(0), federation(n=7), faults=lambda e: () if e.kind == "RowShares" else (e,))


def test_policies_that_check_nothing_are_refused():
    class Trusting(secfc.AssignmentsOnly):
        """Does not say that it finds deviating clients."""

    with pytest.raises(
        secfc.InputError, match=r"corrected=1\) with .*Trusting.*: this policy does not check"
    ):
        secfc.fit(algorithm(1, Trusting()), federation(n=9))


def test_a_server_that_wants_too_few_to_answer_is_refused():
    def fewer(e):
        if e.kind == "DistanceQuery" and e.recipient == "client-0":
            body = dataclasses.replace(e.body, responders=e.body.responders[:1])
            return (dataclasses.replace(e, body=body),)
        return (e,)

    with pytest.raises(secfc.FaultyServer, match="fewer clients than decoding needs"):
        secfc.fit(algorithm(1), federation(n=7), faults=fewer)


def test_starts_with_restarts_and_distances_are_screened_too():
    fed = federation(n=7)
    options = {"init": KMeansPlusPlus(), "n_init": 2}
    result = secfc.fit(algorithm(1, **options), fed, faults=lying(REPLIES, ["client-0"], moved()))
    check_exact(result, fed, **options)
    assert result.deviated == {"client-0": OFF}


def test_a_model_that_an_earlier_version_kept_is_read():
    model = secfc.fit(algorithm(1), federation(n=7), faults=lying(REPLIES, ["client-2"], moved())).model
    facts, arrays = to_plain_values(model)
    facts["liars"] = facts.pop("corrected")
    assert from_plain_values(facts, arrays).plan.corrected == 1


def test_what_was_found_out_is_reported():
    from secfc.report import as_json, as_text, make_report

    fed = federation(n=9)
    faults = both_of(
        lying(REPLIES, ["client-2"], moved()),
        lying(["RowShares"], ["client-3"], moved(), recipients=["client-5"]),
    )
    result = secfc.fit(algorithm(2), fed, faults=faults)
    found = make_report(result, federation=fed, algorithm=algorithm(2))
    text = as_text(found, width=200)
    assert f"client-2 deviated: {OFF}" in text
    assert "client-3 or client-5 lied about the shares between them" in text
    assert as_json(found)["deviated"] == {"client-2": OFF}
    assert as_json(found)["disputes"] == [["client-3", "client-5"]]
