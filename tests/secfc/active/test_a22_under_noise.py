"""A22: lies where noise protects what is opened, or a comparison sees more than replies are checked for.

Where squares of rows are not shared, the check of replies misses a number added alike to all distances of a
row.  That changes no nearest center; it does change how far the row is from it, which shells of `NoisySums`
and `CenterSeparation` ask for.  So there squares are shared.
"""

from contextlib import suppress
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.code.reply_check import DistanceCheck
from field.compare import shells
from field.compare.shells import UNIT
from field.ring.basis import LANE_PRIMES
from field.ring.quantize import Quantizer
from secfc.coded.messages import MaskedBits, MaskedDistances, MaskedSum
from secfc.coded_kmeans import algorithm1
from secfc.disclosure.checked import products
from secfc.disclosure.checked.products import PROOFS, HolderCheck, ProductVerifier, SharedSquares
from secfc.disclosure.compare import candidates, session
from secfc.disclosure.compare.candidates import NearestShell
from secfc.disclosure.decoded import replies
from secfc.disclosure.noise import sums_client, sums_question
from secfc.errors import SuspectedParties
from secfc.roles.exchange import SERVER, STRIDE
from tests.nightly import short
from tests.secfc.active.deviating import crafting, flip_dealt_bits
from tests.secfc.disclosure.checked.test_checked_replies import lying
from tests.secfc.disclosure.test_noise import in_shares, questions, run_noisy
from tests.secfc.disclosure.test_noisy_sums import opened, people, policy, run_sums
from tests.small import federation

DEVIATING = "client-2"


def adding(kind, number, place, first=False):
    """Client 2 adds so much at a place of what it says of a kind; what it said to the server without.

    first: only while the first question is answered that it says this of.
    """
    true, asked = [], []

    def faults(e):
        if (e.kind, e.sender) != (kind, DEVIATING) or not e.body.values.size:
            return (e,)
        asked.append(e.round // STRIDE)
        if first and asked[-1] != asked[0]:
            return (e,)
        true.extend([e.body.values] if e.recipient == SERVER else [])
        values = e.body.values.astype(np.uint64)
        primes = np.array(LANE_PRIMES[: len(values)], np.uint64).reshape(-1, *[1] * (values.ndim - 1))
        for lane, prime in zip(values, LANE_PRIMES, strict=False):
            lane[place] += np.uint64(number % prime)
        return (replace(e, body=replace(e.body, values=(values % primes).astype(e.body.values.dtype))),)

    return faults, true


def silence_noise(monkeypatch):
    """What is opened is then exact."""
    monkeypatch.setattr(
        sums_client, "wide_noise", lambda s, d, shape, basis, coins: basis.reduce(np.zeros(shape, int))
    )


def are_moved(result, points):
    """Whether any of the sums that were opened are others than those of the points."""
    return any((got != expected).any() for got, expected, _ in opened(result, points))


# --- noisy sums ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "field", "turn"),
    [(MaskedDistances, "values", 1), (MaskedSum, "values", 1), (MaskedBits, "words", 0)],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_a_false_word_ends_the_run_before_a_noisy_sum_is_told(kind, field, turn):
    """Of a question about several centers, or of the first one."""
    told = []
    lies, seen = lying(kind, field, "client-2" if kind is MaskedDistances else None, 0, turn)

    def faults(e):
        told.extend([e.round] * (e.kind == "CodedCenters"))
        return lies(e)

    with pytest.raises(SuspectedParties):
        run_sums(policy(), people()[0], faults=faults)
    assert all(number < seen[turn] for number in told)


ALIKE = 1 << 28  # as if a row were farther away; less makes a far row count as a near one


def test_a_number_added_alike_to_a_row_s_distances_ends_the_run():
    data, _ = people()
    alone = {"threshold": secfc.Threshold(1, deviating=0)}
    for seed in range(short(3, nightly=100)):
        rng = np.random.default_rng(seed)
        lies, _ = adding("MaskedDistances", int(rng.integers(1, 1 << 30)), (..., int(rng.integers(24))))
        way, more = (policy(dealer=None), alone) if seed % 3 == 1 else (policy(), {})
        with pytest.raises(SuspectedParties, match="do not fit the shares of the rows"):
            run_sums(way, data, faults=lies, **more)


def test_without_squares_of_rows_it_passes_and_moves_noisy_sums(monkeypatch):
    silence_noise(monkeypatch)
    monkeypatch.setattr(
        NearestShell,
        "reply_check",
        lambda self, labels, _: DistanceCheck(len(labels), (1,) * self.rows, None),
    )
    data, points = people()
    alike, _ = adding("MaskedDistances", ALIKE, (..., 3))
    assert are_moved(run_sums(policy(), data, faults=alike), points)


@pytest.mark.parametrize("checked", [True, False])
def test_false_squares_that_fit_such_distances_are_noticed_as_products(monkeypatch, checked):
    silence_noise(monkeypatch)
    dealt = HolderCheck._dealt

    def false(self, number, part, length, width=0):
        place = PROOFS * self.plan.m + 3
        if self.plan.clients[self.me] == DEVIATING and part.shape[2] > place:
            part[:, 0, place] = self.plan.code.basis.add(
                part[:, 0, place], np.full_like(part[:, 0, place], ALIKE)
            )
        return dealt(self, number, part, length, width)

    monkeypatch.setattr(HolderCheck, "_dealt", false)
    data, points = people()
    alike, _ = adding("MaskedDistances", ALIKE, (..., 3))
    if checked:
        with pytest.raises(SuspectedParties, match="rows that clients say they hold do not fit"):
            run_sums(policy(), data, faults=alike)
        return
    check_no_squares(monkeypatch)
    assert are_moved(run_sums(policy(), data, faults=alike), points)


def check_no_squares(monkeypatch):
    """Inner products as long as those of squares hold."""
    fold = ProductVerifier._fold_squares

    def nothing(self, *about):
        coins, found = yield from fold(self, *about)
        return coins, [[tuple(map(np.zeros_like, each))] for (each,) in found]

    monkeypatch.setattr(ProductVerifier, "_fold_squares", nothing)


def test_where_one_plays_each_part_a_flipped_bit_moves_noisy_sums(monkeypatch):
    silence_noise(monkeypatch)
    data, points = people()

    def flip(plane):
        """Client 0's bit of the fourth row in the first opening, of some plane."""
        rounds = []

        def faults(e):
            mine = e.kind == "MaskedBits" and e.sender == "client-0"
            rounds.extend([e.round] * mine)
            if not mine or e.round != rounds[0]:
                return (e,)
            words = e.body.words.copy()
            words[0, plane, 0] ^= np.uint64(8)
            return (replace(e, body=replace(e.body, words=words)),)

        return faults

    def moves(plane):
        with suppress(SuspectedParties):  # where no one shell wins
            return are_moved(run_sums(policy(), data, threshold=alone, faults=flip(plane)), points)

    alone = secfc.Threshold(1, deviating=0)
    assert any(map(moves, range(20)))
    # Controls: nobody else moves them, and where two play each part the run ends.
    assert not are_moved(run_sums(policy(), data, threshold=alone), points)
    with pytest.raises(SuspectedParties, match="nothing of this step was opened"):
        run_sums(policy(), data, faults=flip(0))


def leave_out_alone(monkeypatch):
    """Client 1 takes the first row out of the first shell, in the first lane of the first question."""
    compare = sums_client.NoisySumsClient.compare

    def lying(self, match, *more):
        held = yield from compare(self, match, *more)
        if self.name == "client-1" and match.question.k == 1:
            parts, p = next(iter(held.parts.values())).parts, self.plan.code.basis.primes[0]
            parts[0, 0, 0] = (int(parts[0, 0, 0]) + p - 1) % p
        return held

    monkeypatch.setattr(sums_client.NoisySumsClient, "compare", lying)


def leave_out_as_dealer(monkeypatch):
    """Who deals has the first row out of the first shell, in the first lane of the first question."""
    flip_dealt_bits(monkeypatch, (0,), lambda step: step.rows == shells.SHELLS)


def read(result, points):
    """What the sums say modulo the second prime, less modulo the first."""
    got, _, _ = opened(result, points)[0]
    centered = [(got.astype(object) + p // 2) % p - p // 2 for p in LANE_PRIMES[:2]]
    return (centered[1] - centered[0])[0, :-1].tolist()


ALONE = {"threshold": secfc.Threshold(1, deviating=0)}
LEFT_OUT = {"one alone": (leave_out_alone, ALONE), "the dealer": (leave_out_as_dealer, {})}


@pytest.mark.parametrize("who", LEFT_OUT)
def test_a_row_left_out_modulo_one_prime_ends_the_run_before_a_noisy_sum_is_told(monkeypatch, who):
    """Unchecked, a control, it is read whatever the noise."""
    data, points = people()
    leave_out, alone = LEFT_OUT[who]
    way, told = dict(alone), []
    honest = run_sums(policy(), data, **way)
    assert read(honest, points) == [0, 0]
    leave_out(monkeypatch)

    def listening(e):
        told.extend([e] * (e.kind == "CodedCenters"))
        return (e,)

    for seed in range(short(3, nightly=100)):
        way["coins"] = partial(SeededCoins, seed)
        with pytest.raises(SuspectedParties, match="nothing of this step was opened") as error:
            run_sums(policy(), data, faults=listening, **way)
        assert ("client-1" if alone else SERVER) in error.value.parties
    assert not told
    monkeypatch.setattr(products, "lanes_agree", lambda *_: True)
    assert read(run_sums(policy(), data, **way), points) in (UNIT * honest.plan.quantizer(points)).tolist()
    if alone:  # by default another client plays the part, too
        with pytest.raises(SuspectedParties, match=r"nothing of this step was opened|play one part") as error:
            run_sums(policy(), data)
        assert "client-1" in error.value.parties


def test_a_false_part_of_noisy_sums_moves_centers_and_reads_nothing_more():
    """What is opened is what would be, under all noise, and a number that the client knows before."""
    data, _ = people()
    lies, true = adding("CodedCenters", 1 << 20, (0, 0))
    honest, false = run_sums(policy(), data), run_sums(policy(), data, faults=lies)
    assert (false.centers != honest.centers).any()
    code, told = false.plan.code, [e for e in false.transcript.envelopes if e.kind == "CodedCenters"]
    words = {false.plan.clients.index(e.sender): e.body.values for e in told if e.round == told[0].round}
    honestly = {**words, false.plan.clients.index(DEVIATING): true[0]}
    got, expected = (
        sums_question.opened_numbers(false.plan, code.interpolate(each, 2)) for each in (words, honestly)
    )
    assert np.argwhere(got - expected).tolist() == [[0, 0]]


def with_one_alone():
    """People of two clients each, and one of client 2 alone; the points of the others."""
    data, points = people()
    parts, ids = [party.read() for party in data.parties], [party.ids for party in data.parties]
    parts[2], ids[2] = np.vstack([parts[2], [[0.5, 0.5]]]), [*ids[2], "alone"]
    return secfc.Federation.from_arrays(parts, ids=ids), points


@pytest.mark.parametrize("lanes", [1, 2])
def test_a_row_of_ones_own_whose_distance_wraps_counts_as_a_near_one_and_moves_nothing_else(
    monkeypatch, lanes
):
    """Which its owner could have added as noise.  With lanes that hold its distance it counts nothing."""
    silence_noise(monkeypatch)
    data, points = with_one_alone()
    far = np.array([1 << 15, 100])  # 17 times the radius: within what the test of rows lets pass
    if lanes > 1:
        monkeypatch.setattr(session, "shell_modulus", lambda *_: 1 << 50)

    quantize = Quantizer.__call__

    def lie(self, read, *, owner="", first_row=0):
        found = quantize(self, read, owner=owner, first_row=first_row)
        if DEVIATING in owner:
            found[-1] = far
        return found

    monkeypatch.setattr(Quantizer, "__call__", lie)
    result = run_sums(policy(), data)
    monkeypatch.setattr(Quantizer, "__call__", quantize)
    assert np.linalg.norm(far) > 16 * result.plan.radius
    asked = [e.body for e in result.transcript.envelopes if e.kind == "NoisySumsQuery"][::4]
    for (got, expected, _), each in zip(opened(result, points), asked, strict=True):
        moved, k = got - expected, each.k
        centers = each.detail[2 : 2 + 2 * k].reshape(k, 2)
        whose = np.flatnonzero(moved.any(axis=1))
        assert len(whose) == (lanes == 1)
        for h in whose:
            unit = sums_question.count_unit(int(each.detail[1]), 2)
            assert moved[h].tolist() == [*(UNIT * (far - centers[h])).tolist(), UNIT * unit]


@pytest.mark.parametrize("checked", [True, False])
def test_nobody_makes_a_row_that_an_honest_client_holds_a_far_one(monkeypatch, checked):
    """Else the row, which is not the deviating client's alone, would move sums further than noise covers."""
    silence_noise(monkeypatch)
    data, points = people()

    def rows(plan, mine):
        made = mine.read(0, plan.m).astype(object)
        made[mine.rows[0], 0] += 1 << 16  # half of it, as two hold the row
        return made

    monkeypatch.setattr(algorithm1, "agree_on_rows", crafting(DEVIATING, rows))
    if checked:
        with pytest.raises(SuspectedParties, match="rows that clients say they hold do not fit"):
            run_sums(policy(), data)
        return
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    got, expected, sensitivity = opened(run_sums(policy(), data), points)[0]
    assert np.linalg.norm((got - expected).astype(float)) > 5 * sensitivity


# --- noisy distances ----------------------------------------------------------------------------------


def test_false_noisy_distances_choose_labels_and_stay_under_the_others_noise():
    def noisy(faults=lambda e: (e,)):
        return run_noisy(in_shares(), faults=faults, coins=lambda party: SeededCoins(5, f"noise {party}"))

    lies, true = adding("CodedDistances", 1 << 75, 0)
    honest, false = noisy(), noisy(lies)
    assert true
    (_, decoded), (_, exact) = next(questions(false)), next(questions(honest))
    assert (decoded != exact).all(axis=1).tolist() == [True, False, False]
    assert (decoded == exact)[1:].all()
    assert any((a != b).any() for a, b in zip(false.history, honest.history, strict=False))


# --- a start that compares by a factor ------------------------------------------------------------------


def separate(faults=lambda e: (e,), *, threshold=1, **more):
    """A run that starts from separated clusters of equal sizes."""
    start = secfc.CenterSeparation(secfc.GivenLabels(np.arange(24, dtype=np.int32) % 2))
    algorithm = secfc.SecFC(2, threshold, start, max_iter=1, **more)
    return secfc.fit(algorithm, federation(5, 24, 2, seed=2), seed=1, faults=faults)


ALONE = secfc.Threshold(1, deviating=0)
POLICIES = {
    "MaskedDistances": [{}, {"disclosure": secfc.AssignmentsOnly(dealer=None), "threshold": ALONE}],
    "CodedDistances": [{"disclosure": secfc.Distances()}, {"disclosure": secfc.Distances(blind=False)}],
}


@pytest.mark.parametrize("kind", POLICIES)
def test_a_number_added_alike_to_a_point_s_distances_is_refused_where_clusters_are_separated(kind):
    for seed in range(short(2, nightly=50)):
        rng = np.random.default_rng(seed)
        lies, _ = adding(kind, int(rng.integers(1, 1 << 60)), (..., int(rng.integers(24))), first=True)
        for way in POLICIES[kind]:
            with pytest.raises(SuspectedParties, match="do not fit the shares of the rows"):
                separate(lies, **way)


@pytest.mark.parametrize("kind", POLICIES)
def test_without_squares_of_rows_it_passes_and_separates_the_point(kind, monkeypatch):
    """Under clusters of equal sizes it is the same number; of other sizes in proportion to their squares."""
    monkeypatch.setattr(candidates, "SquaredCheck", DistanceCheck)
    monkeypatch.setattr(replies, "SquaredCheck", DistanceCheck)
    for way in POLICIES[kind]:
        honest, number = separate(**way).history[0], 1 << (50 if kind == "MaskedDistances" else 33)
        lies = [adding(kind, number, (..., point), first=True)[0] for point in range(4)]
        assert any((separate(each, **way).history[0] != honest).any() for each in lies)


@pytest.mark.parametrize("point", [0, 11])
def test_who_deals_false_squares_and_replies_that_fit_moves_rows_of_its_own_alone(monkeypatch, point):
    """Client 2 has rows 10 to 14; a square that it alone adds to is of one of these."""
    honest, deal, step = separate().history[0], algorithm1.deal_squares, -(1 << 41)

    def add(plan, values, place):
        basis = plan.code.basis
        more = np.array([step % p for p in basis.primes], values.dtype)
        values[:, place] = basis.add(values[:, place, None].copy(), more[:, None])[:, 0]

    def false(plan, name, coins, read):
        """Adds a constant to all shares of a square: its second."""
        dealing = deal(plan, name, coins, read)
        dealt = next(dealing)
        if name == DEVIATING:
            for message in dealt.send.values():
                add(plan, message.values, 1)
        try:
            dealing.send((yield dealt))
        except StopIteration as end:
            if name == DEVIATING:
                add(plan, end.value, 11)
            return end.value

    monkeypatch.setattr(algorithm1, "deal_squares", false)
    lies, _ = adding("MaskedDistances", step * 12**2, (..., point), first=True)
    if point != 11:
        with pytest.raises(SuspectedParties, match="do not fit the shares of the rows"):
            separate(lies)
    else:
        assert np.flatnonzero(separate(lies).history[0] != honest).tolist() == [11]


@pytest.mark.parametrize("checked", [True, False])
def test_false_squares_that_fit_such_distances_of_a_separated_point_are_noticed(monkeypatch, checked):
    share, honest, moved = SharedSquares._squares_part, separate().history[0], []

    def false(self, rows):
        part = share(self, rows)
        if self.plan.clients[self.me] == DEVIATING:
            basis = self.plan.code.basis
            step = basis.reduce(np.array([1 << 43]))[:, 0]
            part[:, 0, point] = basis.add(np.ascontiguousarray(part[:, 0, point]), step)
        return part

    monkeypatch.setattr(SharedSquares, "_squares_part", false)
    monkeypatch.setattr(algorithm1, "are_owned", lambda plan: False)
    if not checked:
        check_no_squares(monkeypatch)
    for point in range(4):
        lies, _ = adding("MaskedDistances", (1 << 43) * 12**2, (..., point), first=True)
        if checked:
            with pytest.raises(SuspectedParties, match="squares of rows do not fit"):
                separate(lies)
        else:
            moved.append((separate(lies).history[0] != honest).any())
    assert checked or any(moved)


MEMBERSHIPS = {"private": secfc.Private(counts="opened", bound=8), "joined": secfc.Joined()}


@pytest.mark.parametrize("membership", MEMBERSHIPS)
def test_where_rows_are_not_one_client_s_each_one_false_word_of_their_squares_ends_the_run(membership):
    points = np.random.default_rng(0).normal(size=(4, 12, 1))
    data = secfc.Federation.from_arrays(list(points), ids=[range(12)] * 4, features=list("abcd"))
    if membership == "private":
        ids = [range(first, first + 6) for first in (0, 3, 6)]
        data = secfc.Federation.from_arrays([points[0, list(own)] for own in ids], ids=ids)
    start = secfc.CenterSeparation(secfc.RandomPoints())
    more = {"membership": MEMBERSHIPS[membership], "disclosure": secfc.AssignmentsOnly()}
    way = secfc.SecFC(2, 1, start, max_iter=1, **more)

    def fit(**lies):
        return secfc.fit(way, data, seed=1, coins=lambda party: SeededCoins(0, f"x {party}"), **lies)

    assert (fit().history[0] < 0).any()
    for kind in short(["ProductWords"], nightly=["CheckedPart", "ResharedPart", "ProductWords"]):
        lies, _ = adding(kind, 1, (0,), first=True)
        with pytest.raises(SuspectedParties, match="lies on no polynomial"):
            fit(faults=lies)
