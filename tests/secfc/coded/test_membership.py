"""Private membership: the same labels as plaintext Lloyd on the union, and who sees what."""

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import psu
import secfc
from field import Basis
from field.code.rows import coded_rows
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from secfc.algorithm import PublicFacts
from secfc.coded.membership import Private, scale_rows, scatter_rows
from secfc.errors import DisputedRows, Indispensable, UnionFailed
from secfc.kmeans.starts import KMeansPlusPlus, RandomPoints
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, trials

SHOWN = secfc.Distances()


def overlapping(n, universe, held, d=3, seed=0, ids=True):
    """A federation in which points are held by any number of clients, and the universe of points."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-8, 9, (universe, d)) + rng.integers(0, 3, (universe, 1)) * 20.0
    points += np.arange(universe)[:, None] / 1024  # distinct rows
    own = [rng.choice(universe, held, replace=False) for _ in range(n)]
    names = [[f"patient {i}" for i in o] for o in own] if ids else None
    return secfc.Federation.from_arrays([points[o] for o in own], ids=names), points


def union_in_row_order(result, federation):
    """The points of the union, each once, in the order of rows."""
    out = np.full((len(result.history[0]), federation.d), np.nan)
    for rows, party in zip(result.rows, federation.parties, strict=True):
        out[rows] = party.points
    assert not np.isnan(out).any()
    return out


def check_exact(algorithm, federation, seed=0):
    result = secfc.fit(algorithm, federation, seed=seed)
    pooled = secfc.Federation.from_arrays([union_in_row_order(result, federation)])
    plain = secfc.Lloyd(
        k=algorithm.k, init=algorithm.init,
        quantization=dataclasses.replace(algorithm.quantization, scale=result.plan.quantizer.scale),
        max_iter=algorithm.max_iter,
        disclosure=algorithm.disclosure,
    )  # fmt: skip
    expected = secfc.fit(plain, pooled, seed=seed)
    assert len(result.history) == len(expected.history)
    assert all((a == b).all() for a, b in zip(result.history, expected.history, strict=True))
    assert result.cost == (expected.cost if algorithm.disclosure == SHOWN else None)
    for labels, rows in zip(result.labels, result.rows, strict=True):
        assert (labels == expected.flat[rows]).all()
    return result


@trials(4)
@given(
    st.integers(0, 2**32), st.sampled_from([(5, 1, 2), (5, 2, 1), (7, 2, 2)]), st.integers(1, 30),
    st.sampled_from([None, Basis((MERSENNE_61,)), Basis(LANE_PRIMES[:3])]), st.booleans(),
)  # fmt: skip
def test_labels_equal_plaintext_lloyd_on_the_union(seed, shape, held, basis, ids):
    n, ell, t = shape
    federation, _ = overlapping(n, 40, held, seed=seed, ids=ids)
    algorithm = secfc.SecFC(
        k=min(3, held), threshold=secfc.Threshold(t, ell), init=RandomPoints(),
        quantization=secfc.Quantization(basis=basis, coarse="allow"), max_iter=5,
        membership=Private(bound=4096, sized=False), disclosure=SHOWN,
    )  # fmt: skip
    check_exact(algorithm, federation, seed)


@pytest.mark.parametrize("mode", [psu.Server(), psu.Committee(1), psu.Committee(2, 1)])
def test_every_mode_of_union_gives_the_same_clustering(mode):
    federation, _ = overlapping(7, 60, 25)
    shown = secfc.SecFC(k=3, threshold=2, init=KMeansPlusPlus(), membership=Private(mode), disclosure=SHOWN)
    check_exact(shown, federation)


def test_coefficients_that_clients_deal_give_the_same_clustering(monkeypatch):
    monkeypatch.setattr("psu.plan.MAX_SUBSETS", 0)
    federation, _ = overlapping(5, 20, 9)
    for membership in (Private(psu.Committee(1, 1)), Private(psu.Committee(2), verify=True)):
        check_exact(secfc.SecFC(k=2, threshold=2, membership=membership, disclosure=SHOWN), federation)
    disjoint = secfc.Federation.from_arrays(
        [p.points for p in federation.parties], ids=np.split(np.arange(45), 5)
    )
    check_exact(secfc.SecFC(k=2, threshold=2, membership=Private(merge=False), disclosure=SHOWN), disjoint)


@pytest.mark.parametrize("mode", [None, *by_night(psu.Committee(2)), psu.Server()])
def test_oblivious_tags_give_the_same_clustering(mode):
    federation, _ = overlapping(5, 20, 9)
    result = check_exact(
        secfc.SecFC(k=2, threshold=2, membership=Private(mode, tags="oblivious", quota=9), disclosure=SHOWN),
        federation,
    )
    evaluators = {e.sender for e in result.transcript.envelopes if e.kind == "Evaluated"}
    t = 0 if isinstance(mode, psu.Server) else 2
    assert evaluators == {SERVER, *federation.names[: t + 1]}
    # Of the sizes of sets nothing shows: every client asks for as much (sealed to clients).
    sizes = {(e.recipient == SERVER, e.nbytes) for e in result.transcript.envelopes if e.kind == "Blinded"}
    assert len(sizes) <= 2


def test_a_quota_is_asked_for_and_kept():
    for wrong in ({"tags": "oblivious"}, {"quota": 5}, {"tags": "oblivious", "quota": 0}):
        with pytest.raises(ValueError, match=r"oblivious tags need a quota of at least 1.*100_000"):
            Private(**wrong)
    with pytest.raises(ValueError, match="tags='none' is none of 'shared key', 'oblivious'"):
        Private(tags="none")
    federation, _ = overlapping(3, 20, 9)
    with pytest.raises(ValueError, match="9 different IDs, and a quota of 8: agree with the others"):
        secfc.fit(secfc.SecFC(k=2, threshold=1, membership=Private(tags="oblivious", quota=8)), federation)
    with pytest.warns(UserWarning, match='tags="oblivious" and a quota prevent that'):
        secfc.SecFC(k=2, threshold=1, membership=Private()).plan(PublicFacts.of(federation))


def test_labels_cannot_be_given_for_rows_whose_order_nobody_knows():
    federation, _ = overlapping(3, 20, 9)
    start = secfc.GivenLabels(np.arange(20) % 2)
    for membership in (Private(), Private(merge=False), Private(psu.Server())):
        with pytest.raises(secfc.InputError, match=r"in an order that nobody knows.*RandomLabels"):
            secfc.fit(secfc.SecFC(k=2, threshold=1, init=start, membership=membership), federation)


def test_a_server_with_another_key_for_one_client_is_found_out(monkeypatch):
    from psu import ristretto
    from psu.oblivious import Evaluator

    federation, _ = overlapping(3, 20, 6)
    honest = Evaluator.answer

    def deviating(self, plan, client, batch, elements):
        said = honest(self, plan, client, batch, elements)
        if client != 2 or self.public != plan.evaluation_keys[-1]:
            return said
        first = ristretto.add(said[:32], elements[:32])
        return first + said[32:]

    way = secfc.SecFC(k=2, threshold=1, membership=Private(tags="oblivious", quota=6))
    assert secfc.fit(way, federation).labels

    def renamed(e):
        own = e.kind == "EvaluationKey" and e.sender == SERVER
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, sender=0)) if own else e,)

    with pytest.raises(secfc.FaultyServer, match="named a key of tags as another evaluator's"):
        secfc.fit(way, federation, faults=renamed)
    monkeypatch.setattr(Evaluator, "answer", deviating)
    with pytest.raises(UnionFailed, match=r"of another key than the plan's \(server: proof\)") as caught:
        secfc.fit(way, federation)
    assert (caught.value.parties, caught.value.proof) == ((SERVER,), True)


def test_disjoint_ids_need_no_merging():
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=(12, 2)) for _ in range(5)]
    federation = secfc.Federation.from_arrays(arrays, ids=[range(12 * j, 12 * j + 12) for j in range(5)])
    result = check_exact(secfc.SecFC(k=2, threshold=1, membership=Private(merge=False)), federation)
    kinds = {e.kind for e in result.transcript.envelopes}
    assert "HeldOnce" in kinds
    assert "Multiplicities" not in kinds


@pytest.mark.parametrize("mode", [psu.Committee(1), psu.Server()])
def test_holders_that_disagree_are_told_which_id_and_nobody_else_is(mode):
    federation, _ = overlapping(5, 30, 12, seed=3)
    first, ids = federation.parties[0], federation.parties[0].ids
    other = next(p for p in federation.parties[1:] if set(p.ids) & set(ids))
    shared = next(i for i in ids if i in other.ids)
    changed = first.points.copy()
    changed[ids.index(shared)] += 0.5
    parties = (dataclasses.replace(first, points=changed), *federation.parties[1:])
    holders = {p.name for p in parties if shared in p.ids}

    # Drive the roles one by one, so that every party's own error is seen.
    from field import SystemCoins
    from secfc.algorithm import PublicFacts

    broken = secfc.Federation(parties)
    algorithm = secfc.SecFC(k=2, threshold=1, membership=Private(mode))
    draft = algorithm.plan(PublicFacts.of(broken))
    errors = {}

    def watched(name, role):
        try:
            yield from role
        except DisputedRows as error:
            errors[name] = error

    from secfc.transport.simulate import simulate

    roles = {p.name: watched(p.name, algorithm.client(draft, p, coins=SystemCoins())) for p in parties}
    roles[SERVER] = watched(
        SERVER, algorithm.server(draft, rng=np.random.default_rng(0), coins=SystemCoins())
    )
    simulate(roles)
    assert set(errors) == {SERVER, *broken.names}
    for name, error in errors.items():
        assert error.ids == ((shared,) if name in holders else ())
        assert shared not in str(error)
        assert ("holds 1 of them" in str(error)) == (name in holders)
    with pytest.raises(DisputedRows):
        secfc.fit(algorithm, broken)


def test_golden_view_of_each_party():
    federation, _ = overlapping(5, 40, 15)
    hidden = Private(bound=64, sized=False, counts="hidden")
    way = secfc.SecFC(k=2, threshold=2, membership=hidden, disclosure=SHOWN)
    result = secfc.fit(way, federation)

    def received(party):
        return {e.kind for e in result.transcript.envelopes if e.recipient == party}

    assert received(SERVER) == {
        "Opening", "Hello", "Commitment", "Coin", "ProjectedShares", "CodedDistances", "MaskedRows",
        "MaskedProducts",
    }  # fmt: skip
    # Client 0 deals all keys it has a part in, and expands its shares of the first chunk itself.
    # It also verifies.
    assert received("client-0") - {"ProjectedShares"} < received("client-3")
    assert received("client-3") == {
        "Introduction",
        "Offer",
        "KeyPacket",
        "ShareBlock",
        "Confirmation",
        "Hello",
        "RowShares",
        "TossedCoins",
        "MaskChoice",
        "Contributors",
        "PublicKey",
        "Begin",
        "Turn",
        "UnionTags",
        "Disputes",
        "CheckedPart",
        "ResharedPart",
        "ProductWords",
        "DivisionShares",
        "DividedRows",
        "DistanceQuery",
        "HalfDistanceQuery",
        "CheckDealing",
        "RepliesFixed",
        "CheckCoin",
        "CheckDigest",
        "MaskedRow",
        "FinalResult",
    }


def test_traffic_does_not_depend_on_who_owns_what():
    # The same union, dealt out evenly and with one client owning nearly everything.
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40, 2))
    tables = []
    for cuts in ([8, 16, 24, 32], [1, 2, 3, 4]):
        parts = np.split(np.arange(40), cuts)
        federation = secfc.Federation.from_arrays(
            [points[p] for p in parts], ids=[[f"id{i}" for i in p] for p in parts]
        )
        hidden = Private(bound=64, sized=False, counts="hidden")
        algorithm = secfc.SecFC(k=2, threshold=1, max_iter=1, membership=hidden)
        result = secfc.fit(algorithm, federation, bound=8.0)
        # Rounds of peeling depend on the random placement of the union, and so do the openings' sizes.
        fixed = (
            "RowShares",
            "ShareBlock",
            "UnionTags",
            "CheckedPart",
            "DivisionShares",
            "DividedRows",
            "CodedDistances",
            "DistanceQuery",
        )
        tables.append(
            Counter(
                (e.sender, e.recipient, e.kind, e.nbytes)
                for e in result.transcript.envelopes
                if e.kind in fixed
            )
        )
    assert tables[0] == tables[1]
    open_sizes = {
        e.nbytes
        for e in secfc.fit(secfc.SecFC(k=2, threshold=1), federation).transcript.envelopes
        if e.kind == "RowShares"
    }
    assert len(open_sizes) > 1, "the control shows set sizes"


def test_a_silent_committee_member_is_replaced():
    federation, _ = overlapping(6, 40, 15)
    algorithm = secfc.SecFC(k=2, threshold=1, membership=Private(psu.Committee(1, spares=1)))

    def silence(envelope):
        gone = envelope.kind == "Opening" and envelope.sender == "client-1"
        return () if gone else (envelope,)

    result = secfc.fit(algorithm, federation, faults=silence)
    assert result.converged
    assert not any(e.sender == "client-1" for e in result.transcript.envelopes if e.kind == "Opening")


def test_too_many_silent_members_are_named():
    federation, _ = overlapping(6, 40, 15)
    algorithm = secfc.SecFC(k=2, threshold=1, membership=Private(psu.Committee(1)))

    def silence(envelope):
        gone = envelope.kind == "Opening" and envelope.sender == "client-1"
        return () if gone else (envelope,)

    with pytest.raises(Indispensable, match=r"client-1 fell silent.*plan with more spares") as caught:
        secfc.fit(algorithm, federation, faults=silence)
    assert caught.value.party == "client-1"


def test_membership_needs_an_honest_majority_or_the_server():
    federation, _ = overlapping(5, 40, 15)
    with pytest.raises(secfc.InputError, match=r"t must be at least 1"):
        secfc.fit(secfc.SecFC(k=2, threshold=0, membership=Private()), federation)
    with pytest.raises(secfc.InputError, match=r"n=5 clients cannot hold a committee"):
        secfc.fit(secfc.SecFC(k=2, threshold=1, membership=Private(psu.Committee(3))), federation)


def test_large_unions_are_shared_in_chunks():
    rng = np.random.default_rng(2)
    arrays = [rng.normal(size=(1500, 20)) for _ in range(3)]
    federation = secfc.Federation.from_arrays(arrays)
    result = check_exact(secfc.SecFC(k=2, threshold=1, max_iter=2, membership=Private()), federation)
    assert result.plan.chunks == (2, 2, 2)


def test_a_reader_puts_points_at_their_rows_and_zeros_elsewhere():
    rows, integers = np.array([5, 1, 3, 1]), np.array([[50], [10], [30], [10]])
    read = scatter_rows(rows, integers)
    assert read(0, 7).ravel().tolist() == [0, 10, 0, 30, 0, 50, 0]
    assert read(2, 4).ravel().tolist() == [0, 30]
    assert read(6, 7).ravel().tolist() == [0]


def test_what_the_server_learned_is_said():
    federation, _ = overlapping(5, 40, 15)
    merged = secfc.fit(secfc.SecFC(k=2, threshold=1, membership=Private(counts="opened")), federation)
    assert any("how many clients hold each row" in fact for fact in merged.learned)
    assert any("pseudonyms" in fact for fact in merged.learned)


@pytest.mark.parametrize("primes", [LANE_PRIMES[:2], (MERSENNE_61,)])
def test_rows_are_multiplied_slice_by_slice(primes):
    basis, m = Basis(primes), (1 << 14) + 50
    rng = np.random.default_rng(4)
    values = rng.integers(0, min(primes), (basis.lanes, m, 2)).astype(basis.dtype)
    factors = rng.integers(1, 4, m)
    factors[:100] = 1
    rows = coded_rows(basis, m, 2)
    rows.add_rows(0, values)
    scale_rows(rows, np.broadcast_to(factors.astype(basis.dtype), (basis.lanes, m)))
    for lane, before, p in zip(rows.read_rows(0, m), values, primes, strict=True):
        assert (lane.astype(object) == before.astype(object) * factors[:, None] % p).all()
