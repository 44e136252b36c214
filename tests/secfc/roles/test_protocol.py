"""Roles, driver and messages: who sees what, what a lost or broken peer causes, what stays hidden."""

import dataclasses
import json
from collections import Counter
from functools import partial

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.code.lagrange_code import transfer_matrix
from secfc.algorithm import PublicFacts
from secfc.coded.messages import CodedDistances, RevealCenters, RowShares
from secfc.coded.queries import Query
from secfc.coded.quorum import EVERYBODY
from secfc.data.inputs import build_algorithm, with_parameters
from secfc.errors import FaultyClient, FaultyServer, Indispensable, PlanMismatch, TooFewReplies
from secfc.kmeans.starts import GivenLabels, KMeansPlusPlus, RandomPoints
from secfc.roles import messages as shared
from secfc.roles.exchange import ITERATE, SERVER, SHARE, Exchange, expect_messages
from secfc.roles.messages import Hello
from secfc.transport.simulate import simulate
from tests.nightly import by_night, every
from tests.secfc.queries import query
from tests.small import clustered, same_runs

federation = partial(clustered, n=9, m=90, d=5)


ALGORITHM = secfc.SecFC(
    k=3, threshold=secfc.Threshold(2, 2), init=RandomPoints(), disclosure=secfc.Distances()
)


def test_golden_view_of_each_party():
    result = secfc.fit(ALGORITHM, federation(), keep_bodies=True)

    def received(*parties):
        return Counter((e.kind, e.sender == SERVER) for e in result.transcript.received(*parties))

    steps = result.n_iter
    assert received(SERVER) == {
        ("Hello", False): 9, ("Commitment", False): 9, ("Coin", False): 9, ("ProjectedShares", False): 9,
        ("CodedDistances", False): 7 * steps, ("MaskedProducts", False): 7 * steps,
    }  # fmt: skip
    assert received("client-0") == {
        ("Hello", False): 8, ("Hello", True): 1, ("RowShares", False): 8, ("TossedCoins", True): 2,
        ("MaskChoice", False): 8, ("ProjectedShares", False): 8, ("Contributors", True): 1,
        ("PublicKey", False): 8,
        ("DistanceQuery", True): steps, ("RepliesFixed", True): steps, ("FinalResult", True): 1,
        ("CheckDealing", False): 2 * steps,
        ("CheckDigest", False): 2 * steps, ("MaskedRow", False): 6 * steps,
    }  # fmt: skip
    assert all(e.body.centers is None for e in result.transcript.envelopes if e.kind == "FinalResult"), (
        "centers were shown without consent"
    )


def test_a_transcript_keeps_no_contents_unless_asked():
    result = secfc.fit(ALGORITHM, federation())
    assert all(e.body is None for e in result.transcript.envelopes)
    assert result.transcript.nbytes() == sum(e.nbytes for e in result.transcript.envelopes) > 0
    shares = [e for e in result.transcript.envelopes if e.kind == "RowShares"]
    # 9 clients share 10 rows each of 3 = ceil(5/2) features, and masks, in 4-byte lanes, with 8 peers.
    plan = result.plan
    words = 10 * 3 + plan.masks(0, 0) * plan.projections.words
    assert len(shares) == 72
    assert all(e.nbytes == words * plan.code.basis.lanes * 4 + 8 for e in shares)


def test_transcript_bytes_of_replies_match_the_plan():
    result = secfc.fit(ALGORITHM, federation())
    table = result.transcript.summary()
    count, size = table["client -> server"]["CodedDistances"]
    assert count == 7 * result.n_iter
    # They are checked by three distances of row 0, in two repetitions, in lanes that are not told as well.
    sizes = [e.nbytes for e in result.transcript.envelopes if e.kind == "CodedDistances"]
    due = {(told * 3 * 90 + lanes * 2 * 3) * 4 for told, lanes in ((2, 2), (2, 3), (3, 3))}
    assert set(sizes) <= due
    assert sum(sizes) == size


def test_shares_differ_every_run_and_labels_do_not():
    runs = [secfc.fit(ALGORITHM, federation(), seed=4, keep_bodies=True) for _ in range(2)]
    assert same_runs(*runs)
    first, second = (
        next(e.body.values for e in r.transcript.envelopes if e.kind == "RowShares") for r in runs
    )
    assert not (first == second).all()


def test_seeded_coins_reproduce_a_run_bit_for_bit():
    runs = [
        secfc.fit(ALGORITHM, federation(), keep_bodies=True, coins=lambda name: SeededCoins(1, name))
        for _ in range(2)
    ]
    for a, b in zip(runs[0].transcript.envelopes, runs[1].transcript.envelopes, strict=True):
        assert (a.sender, a.recipient, a.kind) == (b.sender, b.recipient, b.kind)
        if a.kind == "CodedDistances":
            assert (a.body.values == b.body.values).all()


def test_the_order_of_clients_does_not_change_the_clustering():
    fed = federation()
    labels = np.random.default_rng(0).integers(0, 3, fed.m)
    whole = secfc.fit(secfc.SecFC(k=3, threshold=2, init=GivenLabels(labels)), fed)
    order = [4, 2, 7, 0, 8, 1, 3, 6, 5]
    other = secfc.fit(
        secfc.SecFC(k=3, threshold=2, init=GivenLabels([fed.split(labels)[j] for j in order])),
        secfc.Federation(tuple(fed.parties[j] for j in order)),
    )
    assert all((whole.labels[j] == other.labels[i]).all() for i, j in enumerate(order))


def test_inputs_are_not_touched():
    arrays = [np.random.default_rng(j).normal(size=(6, 3)) for j in range(5)]
    copies = [a.copy() for a in arrays]
    secfc.fit(secfc.SecFC(k=2, threshold=1), secfc.Federation.from_arrays(arrays))
    assert all((a == b).all() for a, b in zip(arrays, copies, strict=True))


def test_an_unblinded_run_gives_the_same_labels():
    plain = dataclasses.replace(ALGORITHM, disclosure=secfc.Distances(blind=False))
    blinded, bare = (secfc.fit(a, federation(), keep_bodies=True) for a in (ALGORITHM, plain))
    assert same_runs(blinded, bare)
    assert blinded.cost == bare.cost
    kinds = Counter(e.kind for e in bare.transcript.envelopes)
    assert kinds["CodedDistances"] == kinds["MaskedProducts"] == 7 * bare.n_iter
    assert any("segments" in fact for fact in bare.learned)
    assert not any("segments" in fact for fact in blinded.learned)


def consistent(result):
    """Whether all replies to some question lie on one polynomial, as unblinded replies do."""
    code = result.plan.code
    for e in result.transcript.envelopes:
        if e.kind == "DistanceQuery" and e.recipient == "client-0":
            replies = {
                result.plan.clients.index(r.sender): r.body.values
                for r in result.transcript.envelopes
                if r.kind == "CodedDistances" and r.round == e.round
            }
            used = dict(sorted(replies.items())[:-1])
            basis = code.basis.prefix(len(replies[0]))
            xs = tuple(code.alphas[j] for j in sorted(used))
            last = max(replies)
            row = transfer_matrix(basis, xs, (code.alphas[last],))
            columns = np.stack([used[j].reshape(basis.lanes, -1) for j in sorted(used)], axis=1)
            if (basis.matmul(row, columns)[:, 0].reshape(replies[last].shape) == replies[last]).all():
                return True
    return False


def test_blinded_replies_lie_on_no_polynomial_but_decode():
    # Eight of nine replies fix all of an unblinded polynomial of degree 6; nothing of a blinded one.
    assert not consistent(secfc.fit(ALGORITHM, federation(), keep_bodies=True))
    bare = dataclasses.replace(
        ALGORITHM,
        disclosure=secfc.Distances(blind=False),
        threshold=secfc.Threshold(2, 2, corrected=1),
    )
    assert consistent(secfc.fit(bare, federation(), keep_bodies=True)), "the control is consistent"


def test_blinded_replies_are_uniform():
    from scipy import stats

    result = secfc.fit(ALGORITHM, federation(m=900), keep_bodies=True)
    p = result.plan.code.basis.primes[0]
    for client in result.plan.clients[:7]:
        values = np.concatenate(
            [
                e.body.values[0].ravel()
                for e in result.transcript.envelopes
                if e.kind == "CodedDistances" and e.sender == client
            ]
        )
        counts = np.bincount((values.astype(np.int64) * 32 // p), minlength=32)
        # False alarm below 1e-7 for each of seven clients.
        assert stats.chisquare(counts).pvalue > 1e-7


def test_a_repeated_question_gets_fresh_masks():
    # Client 1 answers no first question; the server asks a set without it, and client 0's two replies
    # to the same labels share nothing.
    def silent_once(e):
        return () if e.kind == "CodedDistances" and e.sender == "client-1" else (e,)

    result = secfc.fit(ALGORITHM, federation(), faults=silent_once, keep_bodies=True)
    assert same_runs(result, secfc.fit(ALGORITHM, federation()))
    mine = [
        e.body.values
        for e in result.transcript.envelopes
        if e.kind == "CodedDistances" and e.sender == "client-0"
    ]
    assert mine[0].shape == mine[1].shape
    assert (mine[0] == mine[1]).mean() < 0.01


def drop(kind, *senders):
    return lambda e: () if e.kind == kind and e.sender in senders else (e,)


def test_two_silent_clients_of_nine_change_nothing():
    # ell=2, t=2 needs 7 of 9 replies.
    full = secfc.fit(ALGORITHM, federation())
    lossy = secfc.fit(ALGORITHM, federation(), faults=drop("CodedDistances", "client-0", "client-7"))
    assert same_runs(full, lossy)


def test_three_silent_clients_of_nine_are_too_many():
    with pytest.raises(TooFewReplies) as caught:
        secfc.fit(ALGORITHM, federation(), faults=drop("CodedDistances", "client-0", "client-3", "client-7"))
    assert caught.value.needed == 7
    assert len(caught.value.got) == 6
    assert "client-3" not in caught.value.got


def test_a_silent_server_is_an_error_not_a_hang():
    with pytest.raises(Indispensable, match="server fell silent and is indispensable"):
        secfc.fit(ALGORITHM, federation(), faults=drop("FinalResult", SERVER))


def without(fed, lost):
    return secfc.Federation(tuple(p for p in fed.parties if p.name != lost))


def check_excluded(fed, lost, faults, **options):
    """A run that loses one client while sharing equals plaintext Lloyd on the others' rows."""
    result = secfc.fit(with_parameters(ALGORITHM, **options), fed, faults=faults, seed=6)
    plain = secfc.Lloyd(
        k=3, init=RandomPoints(), quantization=secfc.Quantization(scale=result.plan.quantizer.scale)
    )
    expected = secfc.fit(plain, without(fed, lost), seed=6, bound=result.plan.quantizer.bound)
    assert same_runs(result, expected)
    assert result.cost == expected.cost
    assert (result.labels[fed.names.index(lost)] == -1).all()
    kept = [labels for name, labels in zip(fed.names, result.labels, strict=True) if name != lost]
    assert all((a == b).all() for a, b in zip(kept, expected.labels, strict=True))
    return result


@pytest.mark.parametrize("lost", ["client-0", "client-4", "client-8"])
def test_a_client_lost_while_sharing_is_excluded_and_the_rest_is_exact(lost):
    result = check_excluded(federation(), lost, drop("RowShares", lost))
    assert result.excluded == (lost,)


def test_shares_that_reach_only_some_peers_exclude_their_sender_everywhere():
    def partly(e):
        gone = e.kind == "RowShares" and e.sender == "client-2" and e.recipient in ("client-5", "client-6")
        return () if gone else (e,)

    check_excluded(federation(), "client-2", partly)


def test_a_client_that_dies_in_the_middle_of_sharing_is_excluded():
    rng = np.random.default_rng(0)
    fed = secfc.Federation.from_arrays([rng.normal(size=(4000, 40)) for _ in range(5)])

    def dies(e):
        return () if "client-3" in (e.sender, e.recipient) and e.round >= SHARE + 1 else (e,)

    algorithm = secfc.SecFC(k=3, threshold=1, max_iter=2)
    result = secfc.fit(algorithm, fed, faults=dies, seed=1)
    plain = secfc.Lloyd(k=3, max_iter=2, quantization=secfc.Quantization(scale=result.plan.quantizer.scale))
    expected = secfc.fit(plain, without(fed, "client-3"), seed=1, bound=result.plan.quantizer.bound)
    assert same_runs(result, expected)
    assert result.excluded == ("client-3",)


def test_a_client_that_dies_after_sharing_still_counts():
    def dies(e):
        return () if "client-3" in (e.sender, e.recipient) and e.round >= ITERATE else (e,)

    full = secfc.fit(ALGORITHM, federation())
    result = secfc.fit(ALGORITHM, federation(), faults=dies)
    assert same_runs(full, result)
    assert result.excluded == ()
    assert (result.labels[3] == -1).all(), "it never heard the result"
    assert all(
        (a == b).all() for j, (a, b) in enumerate(zip(full.labels, result.labels, strict=True)) if j != 3
    )


def test_a_client_that_was_never_there_is_excluded():
    def absent(e):
        return () if "client-8" in (e.sender, e.recipient) else (e,)

    check_excluded(federation(), "client-8", absent)


def test_losing_more_clients_than_decoding_can_spare_is_an_error():
    def absent(e):
        return () if {"client-1", "client-2", "client-8"} & {e.sender, e.recipient} else (e,)

    with pytest.raises(TooFewReplies) as caught:
        secfc.fit(ALGORITHM, federation(), faults=absent)
    assert caught.value.needed == 7
    assert len(caught.value.got) == 6


def test_hidden_rows_cannot_lose_a_client_while_sharing():
    algorithm = dataclasses.replace(ALGORITHM, membership=secfc.Private())
    with pytest.raises(secfc.RowsLost, match=r"client-2 did not reach everybody.*mixed into"):
        secfc.fit(algorithm, federation(), faults=drop("RowShares", "client-2"))


def test_late_messages_are_dropped_and_early_ones_wait():
    held = []

    def shuffled(e):
        # Every third message to or from client 2 is held back until five others have passed.
        out = []
        if "client-2" in (e.sender, e.recipient) and (len(held) or e.round % 3 == 0):
            held.append([5, e])
        else:
            out.append(e)
        for entry in held:
            entry[0] -= 1
        out += [entry[1] for entry in held if entry[0] <= 0]
        held[:] = [entry for entry in held if entry[0] > 0]
        return out

    assert same_runs(secfc.fit(ALGORITHM, federation()), secfc.fit(ALGORITHM, federation(), faults=shuffled))


def test_every_message_twice_changes_nothing():
    full = secfc.fit(ALGORITHM, federation())
    assert same_runs(full, secfc.fit(ALGORITHM, federation(), faults=lambda e: (e, e)))
    # The order of rows in a union depends on a secret key, so that key is fixed here.
    private = dataclasses.replace(ALGORITHM, membership=secfc.Private())
    once, twice = (
        secfc.fit(private, federation(), faults=f, coins=lambda name: SeededCoins(0, name))
        for f in (lambda e: (e,), lambda e: (e, e))
    )
    assert same_runs(once, twice)


def test_repeated_and_stale_replies_are_harmless():
    full = secfc.fit(ALGORITHM, federation())

    def twice(e):
        return (e, e) if e.kind == "CodedDistances" and e.sender == "client-1" else (e,)

    assert same_runs(full, secfc.fit(ALGORITHM, federation(), faults=twice))


def corrupted(kind, sender, change):
    def fault(e):
        if e.kind == kind and e.sender == sender:
            return (dataclasses.replace(e, body=change(e.body)),)
        return (e,)

    return fault


@pytest.mark.parametrize(
    ("kind", "change", "error", "message"),
    [
        ("CodedDistances", lambda b: CodedDistances(b.values[:, :, :-1]), FaultyClient, "malformed"),
        ("CodedDistances", lambda b: CodedDistances(b.values | np.uint32(2**31)), FaultyClient, "canonical"),
        ("CodedDistances", lambda b: Hello(b"x"), FaultyClient, "sent Hello where CodedDistances"),
        ("RowShares", lambda b: RowShares(b.start + 1, b.values, b.masks), FaultyClient, "shared rows from"),
        ("RowShares", lambda b: RowShares(b.start, b.values[:, :, :1], b.masks), FaultyClient, "malformed"),
        ("Hello", lambda b: Hello(bytes(32)), PlanMismatch, "client-3 holds a different plan"),
    ],
)
def test_a_broken_peer_is_named(kind, change, error, message):
    with pytest.raises(error, match=message) as caught:
        secfc.fit(ALGORITHM, federation(), faults=corrupted(kind, "client-3", change))
    if error is FaultyClient:
        assert caught.value.party == "client-3"


def test_no_share_leaves_before_the_plans_agree():
    seen = []

    def watch(party, exchange):
        seen.extend(type(body).__name__ for body in exchange.send.values())

    with pytest.raises(PlanMismatch):
        secfc.fit(
            ALGORITHM, federation(), watch=watch,
            faults=corrupted("Hello", SERVER, lambda b: Hello(bytes(32))),
        )  # fmt: skip
    assert set(seen) == {"Hello"}


@pytest.mark.parametrize(
    "change",
    [
        {"k": 2}, {"t": 1}, {"ell": 1}, {"max_iter": 7}, {"n_init": 3}, {"scale": 2.0}, {"rounding": "floor"},
        {"reveal_centers": True},
    ],
)  # fmt: skip
def test_every_public_parameter_is_in_the_digest(change):
    public = PublicFacts.of(federation())
    other = with_parameters(ALGORITHM, **change)
    assert ALGORITHM.plan(public).digest() != other.plan(public).digest()
    assert ALGORITHM.plan(public).digest() == dataclasses.replace(ALGORITHM).plan(public).digest()


def test_every_field_of_a_plan_that_parties_agree_on_is_described():
    plan = ALGORITHM.plan(PublicFacts.of(federation()))
    told = {fact.split(".")[1] for fact in json.loads(plan.description) if fact.startswith("plan.")}
    assert {f.name for f in dataclasses.fields(plan) if f.metadata.get("agreed", True)} <= told


def test_revealed_centers_are_the_means():
    fed = federation()
    names = fed.names[:4]
    result = secfc.fit(
        with_parameters(ALGORITHM, reveal_centers=names),
        fed,
        keep_bodies=True,
    )
    plain = secfc.fit(secfc.Lloyd(k=3, init=RandomPoints(), disclosure=secfc.Distances()), fed)
    assert (result.centers == plain.centers).all()
    points = fed.stacked()
    for h in range(3):
        step = 1 / result.plan.quantizer.scale
        assert np.abs(result.centers[h] - points[result.flat == h].mean(axis=0)).max() <= step
    senders = {e.sender for e in result.transcript.envelopes if e.kind == "CodedCenters"}
    assert senders == set(names)


def test_centers_need_ell_plus_t_consents():
    with pytest.raises(ValueError, match=r"3 clients cannot reveal the centers: ell\+t = 4 must consent"):
        secfc.fit(
            with_parameters(ALGORITHM, reveal_centers=("client-0", "client-1", "client-2")),
            federation(),
        )
    with pytest.raises(ValueError, match="nobody cannot reveal centers: not a client"):
        secfc.fit(
            with_parameters(ALGORITHM, reveal_centers=("nobody",)),
            federation(),
        )


def test_a_client_that_did_not_consent_refuses_to_reveal():
    def ask(e):
        if e.kind == "DistanceQuery" and e.recipient == "client-5":
            return (dataclasses.replace(e, body=RevealCenters(e.body.round, e.body.k, e.body.labels)),)
        return (e,)

    with pytest.raises(FaultyServer, match="sent RevealCenters, which it may not"):
        secfc.fit(ALGORITHM, federation(), faults=ask)


def test_a_consenting_client_reveals_once():
    def twice(e):
        # The request again, as a new round of its own, where the final labels were due.
        if e.kind == "FinalResult" and e.recipient == "client-5":
            return (dataclasses.replace(e, body=RevealCenters(e.round, e.body.k, e.body.labels)),)
        return (e,)

    with pytest.raises(FaultyServer):
        secfc.fit(
            with_parameters(ALGORITHM, reveal_centers=True),
            federation(),
            faults=twice,
        )


def test_predict_gives_old_points_their_labels_and_new_ones_their_nearest():
    fed = federation()
    result = secfc.fit(ALGORITHM, fed, bound=32.0)
    assert result.converged
    assert all((a == b).all() for a, b in zip(result.predict(fed), result.labels, strict=True))
    fresh = federation(m=200, seed=0)
    plain = secfc.fit(secfc.Lloyd(k=3, init=RandomPoints(), disclosure=secfc.Distances()), fed, bound=32.0)
    expected = plain.predict(fresh)
    assert all((a == b).all() for a, b in zip(result.predict(fresh), expected, strict=True))
    # More new points than the fit had, and fewer than centers a client.
    few = secfc.Federation.from_arrays([p.points[:1] for p in fresh.parties])
    assert [len(x) for x in result.predict(few)] == [1] * 9


@pytest.mark.parametrize(
    "policy",
    every(2, [secfc.AssignmentsOnly(), secfc.Distances(), secfc.FinalLabelsOnly(), secfc.OwnLabels()]),
    ids=repr,
)
def test_fewer_new_points_than_clusters_are_labeled(policy):
    points = np.random.default_rng(0).normal(size=(60, 3))
    way = secfc.SecFC(k=7, threshold=1, disclosure=policy, quantization=secfc.Quantization(coarse="allow"))
    result = secfc.fit(way, secfc.Federation.from_arrays(np.array_split(points, 5)), seed=0)
    again = result.predict(secfc.Federation.from_arrays([part[:1] for part in np.array_split(points, 5)]))
    assert [int(labels[0]) for labels in again] == [int(labels[0]) for labels in result.labels]


def test_predict_refuses_other_clients_features_and_ranges():
    fed = federation()
    result = secfc.fit(ALGORITHM, fed, bound=32.0)
    with pytest.raises(ValueError, match="needs the 9 clients of the fit"):
        result.predict(federation(n=8))
    with pytest.raises(ValueError, match="and d=5 features"):
        result.predict(federation(d=6))
    far = secfc.Federation.from_arrays([p.points * 1000 for p in fed.parties])
    with pytest.raises(ValueError, match="outside the public bound"):
        result.predict(far)


def test_kmeans_plus_plus_tells_what_it_reveals():
    result = secfc.fit(dataclasses.replace(ALGORITHM, init=KMeansPlusPlus()), federation())
    assert any("k-means++" in fact for fact in result.learned)
    assert not any("k-means++" in fact for fact in secfc.fit(ALGORITHM, federation()).learned)


def test_nothing_secret_is_shown():
    fed = federation(d=1)
    marked = secfc.Federation.from_arrays([np.full((10, 1), 777.125)] * 9)
    result = secfc.fit(secfc.SecFC(k=2, threshold=2), marked, keep_bodies=True)
    shown = [repr(fed), repr(marked), repr(marked.parties), repr(result), repr(result.transcript)]
    shown += [repr(e.body) for e in result.transcript.envelopes]
    shown += [repr(result.model), repr(result)]
    assert not any("777" in text for text in shown)


def test_messages_check_themselves():
    with pytest.raises(ValueError, match="lanes, rows, width"):
        RowShares(0, np.zeros((2, 2), np.uint32), np.zeros((2, 1, 2), np.uint32))
    with pytest.raises(ValueError, match=r"\[-1, 2\)"):
        query("DistanceQuery", 0, 2, np.array([0, 2], np.int8), EVERYBODY)
    with pytest.raises(ValueError, match="signed integer"):
        query("DistanceQuery", 0, 2, np.array([0.5]), EVERYBODY)
    assert shared.compact_labels(np.array([-1, 127])).dtype == np.int8
    assert shared.compact_labels(np.array([-1, 128])).dtype == np.int16
    assert shared.compact_labels(np.array([40000])).dtype == np.int32


def test_take_names_the_sender_of_the_wrong_message():
    with pytest.raises(FaultyServer, match="server sent Hello where Query was due"):
        expect_messages({SERVER: Hello(b"")}, Query)


def test_the_driver_resumes_with_what_came_and_drops_late_answers():
    log = []

    def asker():
        for number in (1, 2):
            inbox = yield Exchange(dict.fromkeys("ab", Hello(bytes([number]))), ("a", "b"), 1, round=number)
            log.append({who: m.description for who, m in inbox.items()})

    def answerer(late):
        question = (yield Exchange({}, ("s",), exact=False))["s"]
        if late:
            # Answers the first question only after the second was asked.
            second = (yield Exchange({}, ("s",), exact=False))["s"]
            yield Exchange({"s": question}, (), round=1)
            yield Exchange({"s": second}, (), round=2)
            return
        second = (yield Exchange({"s": question}, ("s",), round=1, exact=False))["s"]
        yield Exchange({"s": second}, (), round=2)

    def forever(role):
        yield from role
        while True:
            yield Exchange()

    simulate({"s": asker(), "a": answerer(False), "b": answerer(True)})
    assert log == [{"a": b"\x01"}, {"a": b"\x02", "b": b"\x02"}]


def test_large_parties_share_in_chunks():
    points = np.random.default_rng(0).normal(size=(9000, 40))
    parts = [points[:7000], points[7000:7003], points[7003:]]
    result = secfc.fit(secfc.SecFC(k=2, threshold=1, max_iter=3), secfc.Federation.from_arrays(parts))
    plain = secfc.fit(secfc.Lloyd(k=2, max_iter=3), secfc.Federation.from_arrays(parts))
    assert result.plan.chunk == 2**16 // 40
    assert result.plan.chunks == (5, 1, 2)
    assert same_runs(result, plain)
    shares = [e for e in result.transcript.envelopes if e.kind == "RowShares"]
    assert len(shares) == 2 * (5 + 1 + 2)


def test_the_fit_refuses_what_cannot_work():
    fed = federation()
    for algorithm, message in (
        (secfc.SecFC(k=0, threshold=1), "k=0 is too small"),
        (secfc.SecFC(k=91, threshold=1), "k=91 clusters of m=90"),
        (secfc.SecFC(k=3, threshold=5), r"n=9 clients cannot decode .* 11 are needed"),
        (secfc.SecFC(k=3, threshold=1, max_iter=0), "max_iter=0"),
        (secfc.SecFC(k=3, threshold=1, quantization=secfc.Quantization(scale=2.0**48)), "more than 4 lanes"),
        (secfc.SecFC(k=3, threshold=1, init=GivenLabels([0])), "1 starting labels for m=90"),
        (secfc.SecFC(k=3, threshold=1, init=GivenLabels([3] * 90)), r"outside \[-1, 3\)"),
        (secfc.Lloyd(k=91), "k=91 clusters"),
        (secfc.KFed(k=3, k_local=4), r"k_local=4: it must lie in \[1, k=3\]"),
    ):
        with pytest.raises(secfc.InputError, match=message):
            secfc.fit(algorithm, fed)


def test_kfed_on_the_common_interface():
    from secfc.metrics import accuracy

    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0], [20, 0], [0, 20], [20, 20]])
    truth = np.repeat(np.arange(4), 100)
    points = centers[truth] + rng.normal(size=(400, 2))
    fed = secfc.Federation.from_labelled(points, truth, n=8, clusters_per_client=2, seed=1)
    result = secfc.fit(secfc.KFed(k=4, k_local=2), fed)
    assert accuracy(fed.truth, result.flat) == 1.0
    assert (result.predict(fed)[0] == result.labels[0]).all()
    assert {e.kind for e in result.transcript.envelopes} == {
        "Hello",
        "LocalCenters",
        "CenterLabels",
        "PointLabels",
    }


@pytest.mark.parametrize("value", [np.nextafter(16, 17), 16.0, 1e-100, 1e100, 0.0])
def test_the_derived_bound_holds_every_value_that_can_be_clustered(value):
    fed = secfc.Federation.from_arrays([[[0.0], [value]]] * 3)
    result = secfc.fit(secfc.SecFC(k=2, threshold=1), fed)
    plain = secfc.fit(secfc.Lloyd(k=2), fed)
    assert value <= result.plan.quantizer.bound <= max(2 * value, 1.0)
    assert same_runs(result, plain)


@pytest.mark.parametrize("value", [1e308, 1e200, 1e-320])
def test_values_beyond_every_range_are_refused(value):
    fed = secfc.Federation.from_arrays([[[0.0], [value]]] * 3)
    with pytest.raises(secfc.InputError, match="rescale the data"):
        secfc.fit(secfc.SecFC(k=2, threshold=1), fed)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.inf, np.nan])
def test_a_bound_that_is_none_is_refused(bound):
    with pytest.raises(secfc.InputError, match="must be positive and finite"):
        secfc.fit(secfc.SecFC(k=2, threshold=1), federation(), bound=bound)


def test_data_beyond_the_given_bound_are_bad_input():
    with pytest.raises(secfc.InputError, match="outside the public bound"):
        secfc.fit(secfc.SecFC(k=2, threshold=1), federation(), bound=1.0)


def test_lloyd_checks_its_parameters_too():
    for wrong in ({"n_init": 0}, {"max_iter": 0}):
        with pytest.raises(secfc.InputError, match="is too small"):
            secfc.fit(build_algorithm(secfc.Lloyd, k=2, **wrong), federation())


@pytest.mark.parametrize(
    "algorithm", [ALGORITHM, secfc.Lloyd(k=3), secfc.KFed(k=3, k_local=2)], ids=["secfc", "lloyd", "kfed"]
)
def test_a_sealed_fit_gives_the_same_and_shows_only_ciphertext(algorithm):
    plain = secfc.fit(algorithm, federation())
    sealed = secfc.fit(algorithm, federation(), sealed=True)
    assert same_runs(plain, sealed)
    assert all((a == b).all() for a, b in zip(plain.labels, sealed.labels, strict=True))
    assert {e.kind for e in sealed.transcript.envelopes} == {"Greeting", "Countersign", "Sealed"}


def test_a_sealed_prediction_gives_the_same_and_shows_only_ciphertext(monkeypatch):
    runs = []

    def watched(roles, **options):
        runs.append(simulate(roles, **options))
        return runs[-1]

    monkeypatch.setattr("secfc.pipeline.simulate", watched)
    for algorithm in (ALGORITHM, secfc.Lloyd(k=3)):
        result = secfc.fit(algorithm, federation(), bound=32.0)
        plain, sealed = (result.predict(federation(m=40), sealed=flag) for flag in (False, True))
        assert all((a == b).all() for a, b in zip(plain, sealed, strict=True))
    _, _, prediction, *_ = runs
    assert {e.kind for e in prediction.transcript.envelopes} == {"Greeting", "Countersign", "Sealed"}


@pytest.mark.parametrize("blind", [True, False])
def test_prediction_blinds_its_replies_as_the_fit_did(blind, monkeypatch):
    runs = []

    def watched(roles, **options):
        runs.append(simulate(roles, **{**options, "keep_bodies": True}))
        return runs[-1]

    monkeypatch.setattr("secfc.pipeline.simulate", watched)
    fed = federation()
    # Of bare replies any will do where somebody may lie: then all are asked.
    threshold = secfc.Threshold(2, 2, corrected=0 if blind else 1)
    policy = secfc.Distances(blind=blind)
    algorithm = dataclasses.replace(ALGORITHM, disclosure=policy, threshold=threshold)
    labels = secfc.fit(algorithm, fed, bound=32.0).predict(fed)
    expected = secfc.fit(
        secfc.Lloyd(k=3, init=RandomPoints(), disclosure=secfc.Distances()), fed, bound=32.0
    ).predict(fed)
    assert all((a == b).all() for a, b in zip(labels, expected, strict=True))
    _, run, *_ = runs
    kinds = Counter(e.kind for e in run.transcript.envelopes)
    assert kinds["CodedDistances"] == (7 if blind else 9)
    assert ("PublicKey" in kinds) == blind
    # Bare replies lie on one polynomial: any seven of the nine decode alike.
    if not blind:
        replies = [e.body.values for e in run.transcript.envelopes if e.kind == "CodedDistances"]
        code = algorithm.plan(PublicFacts.of(fed, 32.0)).code
        first = code.decode(dict(enumerate(replies[:7])), 2)
        assert (first == code.decode({j: replies[j] for j in range(2, 9)}, 2)).all()


def deaf_at_the_end(*clients):
    """These clients miss the result of a run."""
    return lambda e: () if e.kind == "FinalResult" and e.recipient in clients else (e,)


PREDICTED = [
    secfc.Distances(), secfc.AssignmentsOnly(), secfc.Distances(blind=False), secfc.Distances(dealt=True),
    secfc.AssignmentsOnly("client-8"), secfc.AssignmentsOnly(dealer=None), secfc.FinalLabelsOnly(),
]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "sealed"),
    every(
        4,
        [
            *((policy, False) for policy in PREDICTED),
            *((policy, True) for policy in PREDICTED[:2]),
            *by_night(*((policy, True) for policy in PREDICTED[2:])),
        ],
    ),
    ids=str,
)
def test_who_missed_the_end_of_a_fit_has_new_points_labeled_by_the_others(policy, sealed):
    way = with_parameters(ALGORITHM, ell=1, disclosure=policy)
    fed = federation()
    full = secfc.fit(way, fed, seed=1)
    lossy = secfc.fit(way, fed, seed=1, faults=deaf_at_the_end("client-0", "client-3"))
    assert (lossy.labels[0] == -1).all()
    expected = full.predict(federation(seed=5))
    for ours, theirs in zip(lossy.predict(federation(seed=5), sealed=sealed), expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    for ours, theirs in zip(lossy.predict(fed), full.labels, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_prediction_needs_enough_clients_that_heard_the_result():
    # ell=2, t=2 needs 7 of 9 replies.
    three = ("client-3", "client-4", "client-5")
    result = secfc.fit(ALGORITHM, federation(), faults=deaf_at_the_end(*three))
    with pytest.raises(TooFewReplies):
        result.predict(federation())
    result = secfc.fit(ALGORITHM, federation(), faults=deaf_at_the_end(*three[:2]))
    assert sum(map(len, result.predict(federation()))) == 90
