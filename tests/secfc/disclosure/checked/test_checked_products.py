"""Products of shared labels and rows are checked: what is false ends a run before anything depends on it."""

import dataclasses
from unittest import mock

import numpy as np
import pytest

from field import SeededCoins
from field.code.lagrange_code import LagrangeCode
from field.code.product_check import MISSED, block_length, least_repetitions, miss_bound
from field.compare import shared_step
from field.ring.basis import LANE_PRIMES, Basis
from secfc.disclosure.checked.messages import CheckCoin, CheckDigest, CheckedPart, ProductWords, ResharedPart
from secfc.disclosure.checked.products import PROOFS, CheckedProducts, ProductVerifier, _link
from secfc.disclosure.owner_labels import multiplication
from secfc.errors import FaultyClient, SuspectedParties
from secfc.roles.exchange import STRIDE
from tests.nightly import by_night, every, short
from tests.secfc.disclosure.checked.test_checked_replies import gone
from tests.secfc.disclosure.checked.test_checked_shared_labels import cluster_way, same, told_until, whole

# It responds, and is not in the committee, so what it says of coins is of this check alone.
DEVIATING = "client-3"
WAYS = ["own labels", "hidden sizes", *by_night("splitting, a client deals", "two segments", "rounded")]
# A message of the check, a field of it, and the how many-th of a question.
LIES = [
    (CheckedPart, "values", 0),
    (CheckedPart, "seed", 0),
    (ResharedPart, "values", -2),
    (ResharedPart, "values", -1),
    (ProductWords, "values", 0),
    (CheckCoin, "value", 0),
    (CheckCoin, "value", 2),
    (CheckDigest, "digest", 0),
]


def lying(kind, field, turn, seed, rounds):
    """Changes one residue or byte of what who deviates says, to one recipient, in the first question checked.

    rounds: in which it says such a thing.
    """
    which, rng, recipient = rounds[turn], np.random.default_rng(seed), []

    def faults(e):
        if not isinstance(e.body, kind) or e.sender != DEVIATING or e.round != which:
            return (e,)
        value = getattr(e.body, field)
        if not (len(value) if isinstance(value, bytes) else value.size):
            return (e,)  # shares come, or what they are expanded from
        recipient.append(e.recipient)
        if e.recipient != recipient[0]:
            return (e,)
        if isinstance(value, bytes):
            changed = bytes([value[0] ^ 1]) + value[1:]
        else:
            changed = value.copy()
            place = rng.integers(changed.size)
            changed.reshape(-1)[place] = (int(changed.reshape(-1)[place]) + 1) % 1073741700
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, **{field: changed})),)

    return faults, which


def rounds_of(way, kind):
    """In which rounds of the first question with secret labels the deviating client says this."""
    said = whole(way).transcript.envelopes
    checked = min(e.round for e in said if e.kind == "CheckedPart") // STRIDE
    return sorted(
        {
            e.round
            for e in said
            if e.kind == kind.__name__ and e.sender == DEVIATING and e.round // STRIDE == checked
        }
    )


@pytest.mark.parametrize(("kind", "field", "turn"), every(2, LIES), ids=lambda x: getattr(x, "__name__", x))
@pytest.mark.parametrize("way", WAYS)
def test_one_false_word_ends_the_run_before_anything_is_told(way, kind, field, turn):
    for seed in range(short(1, nightly=40)):
        faults, which = lying(kind, field, turn, seed, rounds_of(way, kind))
        faults, told = told_until(faults)
        with pytest.raises((SuspectedParties, FaultyClient)) as caught:
            cluster_way(way, faults=faults)
        expected = {CheckCoin: "another coin than it committed to", CheckDigest: "heard different coins"}
        assert expected.get(kind, "nothing of this step was opened") in str(caught.value)
        if kind is CheckCoin:
            assert caught.value.party == DEVIATING
        assert told
        assert all(number < which for number in told)


def shifting(which):
    """The deviating client adds 1 to one of its products that are dealt anew, the which-th time."""
    real, count = multiplication.weighted_part, []

    def weighted_part(code, holders, me, product):
        if me == int(DEVIATING[-1]):
            count.append(me)
            if len(count) - 1 == which:
                product = product.copy()
                product[0, -1, 0] = (int(product[0, -1, 0]) + 1) % code.basis.primes[0]
        return real(code, holders, me, product)

    return mock.patch.object(multiplication, "weighted_part", weighted_part)


@pytest.mark.parametrize(
    ("way", "which"),
    [("own labels", 1), *(("hidden sizes", i) for i in range(5)), *by_night(("own labels", 2))],
)
def test_whatever_is_added_to_products_is_noticed(way, which):
    """Also products of products, where sizes are hidden; and of the check itself."""
    with shifting(which), pytest.raises(SuspectedParties, match="do not fit the shares of labels and rows"):
        cluster_way(way)


@pytest.mark.parametrize("way", ["own labels", "hidden sizes"])
def test_it_is_the_check_that_notices(way, monkeypatch):
    """Positive control."""
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    with shifting(0):
        assert cluster_way(way).n_iter >= 1


@pytest.mark.parametrize("kind", ["CheckedPart", "CheckCoin", "CheckDigest", "ProductWords"])
def test_a_client_that_is_lost_at_any_message_changes_nothing(kind):
    assert same(whole("own labels"), cluster_way("own labels", faults=gone(DEVIATING, kind)))


def test_coins_told_differently_are_noticed_before_a_word_is_said():
    """Refuted variant: words under two sets of coins would show a sum of what masks hide."""
    said, rounds = [], rounds_of("own labels", CheckCoin)
    other, recipients = bytes(32), set()

    def faults(e):
        said.extend([e.round] if isinstance(e.body, ProductWords) else [])
        if e.sender != DEVIATING or not isinstance(e.body, CheckedPart | CheckCoin):
            return (e,)
        recipients.add(e.recipient)
        # To one client it commits to another coin, and opens that; nobody there has heard of the real one.
        if e.recipient == min(recipients) and e.round <= rounds[0]:
            lie = {"commitment": _link(other)} if isinstance(e.body, CheckedPart) else {"value": other}
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, **lie)),)
        return (e,)

    with pytest.raises((SuspectedParties, FaultyClient), match=r"different coins|another coin"):
        cluster_way("own labels", faults=faults)
    assert not said


@pytest.mark.parametrize("p", [min(LANE_PRIMES), max(LANE_PRIMES)])
def test_repetitions_are_as_few_as_the_bound_allows(p):
    """At the edges: the longest that so many repetitions are enough for, and one number more."""
    for repeats in (2, 3, 4):
        q = 2
        while miss_bound(p, q * q, repeats) <= MISSED and q < 1 << 13:
            q = q + 1 if repeats < 4 else 2 * q
        if repeats == 4 and q >= 1 << 13:
            continue
        low, high = (q // 2 if repeats == 4 else q - 1) ** 2, q * q
        if q > 2:
            assert least_repetitions(p, low) <= repeats
        assert least_repetitions(p, high) == repeats + 1
    for m in (1, 4, 65_025, 65_026, 10**6, 10**7):
        found = least_repetitions(p, m)
        assert miss_bound(p, m, found) <= MISSED < miss_bound(p, m, found - 1)
    assert [least_repetitions(p, m) for m in (1000, 16_384, 10**6)] == [3, 3, 4]


@pytest.mark.parametrize("segments", [1, 3])
def test_claims_of_products_hold_and_no_other_number_does(segments):
    """Of hidden sizes, on plain residues: what is reduced, and planes, with one number changed anywhere."""
    basis, coins = Basis(LANE_PRIMES[:2]), SeededCoins(2, "x")
    pairs, d, m = shared_step.ClusterPairs(3), 2, 9
    sums, sizes = basis.sample((3, d), coins), basis.sample((3,), coins)
    reduced = shared_step.pair_products(basis, sums, sizes, pairs)
    planes = shared_step.signed_bisectors(basis, reduced, sizes, d, pairs, m, segments)

    def holds(claim):
        left, right, total = claim
        return (shared_step._weighted(basis, left, right) == total).all()

    def both(reduced, planes):
        return holds(shared_step.pair_claims(basis, sums, sizes, reduced, pairs, SeededCoins(1, "c"))), holds(
            shared_step.bisector_claims(
                basis, reduced, sizes, pairs, m, segments, planes, SeededCoins(1, "c")
            )
        )

    assert both(reduced, planes) == (True, True)
    lengths = [
        shared_step.pair_claims(basis, sums, sizes, reduced, pairs, SeededCoins(1, "c"))[0].shape[1],
        shared_step.bisector_claims(basis, reduced, sizes, pairs, m, segments, planes, SeededCoins(1, "c"))[
            0
        ].shape[1],
    ]
    assert sum(lengths) == shared_step.count_pair_claims(pairs, d)
    for array, which in ((reduced, 0), (planes, 1)):
        for place in range(array[0].size):
            changed = array.copy()
            changed[1].reshape(-1)[place] = (int(changed[1].reshape(-1)[place]) + 1) % basis.primes[1]
            assert not both(*((changed, planes) if which == 0 else (reduced, changed)))[which]


def test_what_a_responder_deals_and_opens_is_hidden_from_others():
    assert "secret" in repr(ProductVerifier(asked(), 0, SeededCoins(1, "x")))
    assert asked().repetitions == 3
    points = {asked().point(SeededCoins(i, "y")) for i in range(200)}
    assert min(points) > 2 * block_length(9)
    assert max(points) < min(asked().basis.primes)


def asked():
    code = LagrangeCode(Basis(LANE_PRIMES[:2]), 4, 1, 1)
    plan = mock.Mock(code=code, clients=("a", "b", "c", "d"))
    return CheckedProducts(plan, code.basis, bytes(32), 9, (0, 1, 2))


def test_sums_of_a_row_that_nobody_holds_are_guessed_once_in_2_to_the_57():
    """An owner shares sums of each row that it claims, under weights that nobody knew before."""
    assert min(LANE_PRIMES) ** PROOFS > 2**57
