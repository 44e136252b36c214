"""Features on a common scale: exact sums, one scale for all, exact labels after it, and who learns what."""

import dataclasses
import itertools
import warnings
from collections import Counter
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import secfc
from field import SeededCoins
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import Basis
from secfc import metrics
from secfc.algorithm import PublicFacts
from secfc.coded.membership import Private
from secfc.data.party import RowsWithGaps
from secfc.errors import Caution, InputError, SuspectedParties, TooFewReplies
from secfc.roles.description import RunTerms
from secfc.roles.exchange import SERVER
from secfc.scaling import moments
from secfc.scaling.algorithm import Scaled, apply_scaling
from secfc.scaling.roles import MAGNITUDES, MOMENTS, ScaledPlan, check_possible, scale_at_client
from secfc.scaling.scaling import Scaling
from secfc.scaling.ways import FillMeans, Range, Standardize
from secfc.secure_sum.protocol import SumPlan, add_wave, encode_disjunction, last_round, reduce_total
from secfc.transport import wire
from secfc.transport.simulate import simulate
from tests.small import same_runs, split

START = secfc.RandomPoints()
RANGES = np.array([1, 100, 1e4, 0.01])


def points(m=150, seed=0):
    """Three clusters of which features differ a million-fold."""
    rng = np.random.default_rng(seed)
    return (rng.normal(size=(m, 4)) + rng.integers(0, 3, (m, 1)) * 6) * RANGES + [0, 50, 1e6, 0]


def hold_points(m=150, n=5, **more):
    return split(points(m), n, **more)


doubles = st.floats(-(2.0**40), 2.0**40, allow_subnormal=False)
tables = npst.arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 3)), elements=doubles)


@given(tables, st.integers(0, 12), st.integers(3, 2000))
def test_moments_are_exact_whoever_adds_them(table, cut, n):
    bits = moments.bits_for(n)
    parts = [part for part in (table[:cut], table[cut:]) if len(part)]
    exponents = moments.feature_exponents([table], table.shape[1], "x")
    found = [moments.feature_exponents([part], table.shape[1], "x") for part in parts]
    opened = moments.decode_thermometers(np.logical_or.reduce([moments.exponent_bits(e) for e in found]))
    assert (opened == exponents).all()
    whole = moments.integer_moments([table], exponents, bits)
    assert (sum(moments.integer_moments([part], exponents, bits) for part in parts) == whole).all()
    for column, e, (count, total, squares) in zip(table.T, exponents.tolist(), whole.tolist(), strict=True):
        # The least power of two that none exceeds, and integers rounded by nobody's float.
        assert max(abs(x) for x in column.tolist()) <= 2.0**e
        assert e == moments.LEAST or max(abs(x) for x in column.tolist()) > 2.0 ** (e - 1)
        exact = [round(Fraction(x) / Fraction(2) ** (e - bits)) for x in column.tolist()]
        assert (count, total, squares) == (len(exact), sum(exact), sum(x * x for x in exact))


@given(npst.arrays(np.float64, st.integers(2, 30), elements=st.floats(-1e6, 1e6)))
def test_mean_and_deviation_are_those_of_floats(column):
    e = moments.feature_exponents([column[:, None]], 1, "x")
    bits = moments.bits_for(10)
    count, total, squares = moments.integer_moments([column[:, None]], e, bits)[0].tolist()
    step = 2.0 ** (int(e[0]) - bits)
    # Each value is rounded by half a step at most, and so is their mean; floats lose a few units more.
    assert moments.feature_mean(count, total, int(e[0]), bits) == pytest.approx(
        column.mean(), rel=1e-12, abs=step
    )
    deviation = moments.feature_deviation(count, total, squares, int(e[0]), bits)
    assert deviation == pytest.approx(column.std(), rel=1e-9, abs=2 * step)
    if len(set(column.tolist())) == 1:
        assert deviation == 0


def test_the_largest_integers_add_up_without_wrapping():
    # A slice of the largest rows, and sums of all rows of all clients within the modulus.
    ones = np.full((moments.SLICE, 1), -1.0)
    assert moments.to_integers(ones, np.array([0]), 50).tolist() == [[-(2**50)]] * moments.SLICE
    count, total, squares = moments.integer_moments([ones], np.array([0]), 50)[0]
    assert (count, total, squares) == (2**10, -(2**60), 2**110)
    for n in (3, 10, 1000, 10**6):
        SumPlan.of(tuple(map(str, range(min(n, 40)))), moments.ROWS << 2 * moments.bits_for(n))


@pytest.mark.parametrize(("x", "e"), [(1.0, 0), (-1.0, 0), (1.0000001, 1), (0.0, -64), (2.0**-70, -64)])
def test_exponents_at_their_edges(x, e):
    assert moments.feature_exponents([np.array([[x], [np.nan]])], 1, "x").tolist() == [e]


@pytest.mark.parametrize("x", [2.0**64 * 1.001, np.inf])
def test_what_no_exponent_holds_is_refused(x):
    with pytest.raises(InputError, match=r"client 'a', feature 1 .* beyond 2"):
        moments.feature_exponents([np.array([[1.0, x]])], 2, "client 'a'")


# --- exactness ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "way", [Standardize(), Range(), Range([(-10, 20), (-1e3, 3e3), (9e5, 2e6), (-1, 1)])]
)
def test_labels_are_those_of_plaintext_on_the_same_scaled_points_at_every_step(way):
    data = hold_points()
    secure = secfc.fit(secfc.SecFC(3, 2, init=START), data, scale_features=way)
    scaling = secure.scaling.scaling
    plain = secfc.fit(secfc.Lloyd(3, init=START), scaling.federation(data), bound=way.limit)
    assert same_runs(secure, plain)
    assert secure.n_iter > 1
    # Centers are in data units, and of scaled points those of plaintext.
    lloyd = secfc.fit(secfc.Lloyd(3, init=START), data, scale_features=way)
    assert lloyd.centers == pytest.approx(scaling.back(plain.centers))
    whole = data.stacked()
    means = np.stack([whole[plain.flat == h].mean(axis=0) for h in range(3)])
    assert lloyd.centers == pytest.approx(means, rel=1e-3)
    # Without a scale the third feature decides alone: the control.
    assert not same_runs(
        secure, secfc.fit(secfc.Lloyd(3, init=START, quantization=secfc.Quantization(coarse="allow")), data)
    )


def test_the_protocol_finds_the_scale_of_the_oracle_whoever_holds_what():
    data = hold_points()
    scales = []
    for held in (data, secfc.Federation.from_arrays(np.split(data.stacked(), [7, 100, 101, 120]))):
        result = secfc.fit(secfc.Lloyd(3, init=START), held, scale_features="standard")
        way = Scaled(secfc.Lloyd(3, init=START), Standardize())
        plan = way.plan(PublicFacts.of(held, way.bound))
        assert apply_scaling(way.scaling, plan, held).scaling == result.scaling.scaling
        scales.append(result.scaling.scaling)
    assert scales[0] == scales[1]
    whole = data.stacked()
    assert np.array(scales[0].centers) == pytest.approx(whole.mean(axis=0), rel=1e-12)
    assert np.array(scales[0].units) == pytest.approx(whole.std(axis=0), rel=1e-12)


def test_new_points_are_scaled_as_those_of_the_fit():
    data = hold_points()
    result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard")
    assert all(map(np.array_equal, result.predict(data), result.labels))
    # Fewer and other points, whose own mean would be another.
    new = secfc.Federation.from_arrays([party.read()[:3] + RANGES / 9 for party in data.parties])
    plain = secfc.fit(secfc.Lloyd(3, init=START), data, scale_features="standard")
    assert all(map(np.array_equal, result.predict(new), plain.predict(new)))


@pytest.mark.parametrize("algorithm", [secfc.KFed(3, 2), secfc.SecFC(3, 1, init=START, membership=Private())])
def test_other_algorithms_are_scaled_alike(algorithm):
    data = hold_points()
    one = secfc.fit(algorithm, data, scale_features="standard", coins=coins)
    scaled = one.scaling.scaling.federation(data)
    two = secfc.fit(algorithm, scaled, bound=10.0, coins=coins)
    if one.centers is not None:  # k-FED; rows of a union have other pseudonyms in every run
        assert all(map(np.array_equal, one.labels, two.labels))
        assert one.centers == pytest.approx(one.scaling.scaling.back(two.centers))
    assert one.converged


def coins(party):
    return SeededCoins(0, party)


def test_points_that_servers_hold_give_the_scale_without_a_sum():
    rng = np.random.default_rng(0)
    public = points(200, seed=1)
    data = hold_points(2000, server_points=public)
    algorithm = secfc.FedDPKMeans(3, 20.0, 1e-6)
    result = secfc.fit(algorithm, data, scale_features="standard")
    assert "OpenedSumsDigest" not in {e.kind for e in result.transcript.envelopes}
    assert np.array(result.scaling.scaling.units) == pytest.approx(public.std(axis=0))
    assert np.isfinite(result.ledger.epsilon(1e-6))
    assert result.centers.shape == (3, 4)
    assert abs(result.centers[:, 2]).max() > 1e5  # data units
    assert rng is not None


def test_a_run_that_resumes_and_a_sealed_one_and_one_over_bytes_are_the_same(tmp_path):
    data = hold_points()
    way = secfc.SecFC(3, 1, init=START)
    plain = secfc.fit(way, data, scale_features="standard")
    for how in ({"checkpoint": tmp_path / "kept"}, {"checkpoint": tmp_path / "kept"}, {"sealed": True},
                {"faults": wire.over_wire()}):  # fmt: skip
        other = secfc.fit(way, data, scale_features="standard", **how)
        assert same_runs(plain, other)
        assert other.scaling == plain.scaling


# --- who learns what ------------------------------------------------------------------------------------


def test_golden_messages_of_finding_a_scale():
    result = secfc.fit(secfc.Lloyd(3, init=START), hold_points(), scale_features="standard", keep_bodies=True)
    early = [e for e in result.transcript.envelopes if e.phase in ("scale", "agree") and e.round < 2**32]
    to_server = Counter(e.kind for e in early if e.recipient == SERVER)
    from_server = Counter(e.kind for e in early if e.sender == SERVER)
    between = Counter(e.kind for e in early if SERVER not in (e.sender, e.recipient))
    assert to_server == {"Hello": 5, "Contributors": 10}
    assert from_server == {"Hello": 5, "Contributors": 10}
    assert between == {"Hello": 20, "SumShares": 40, "SumDigest": 40, "CodedSum": 40, "OpenedSumsDigest": 20}
    assert result.learned[-1].startswith("nothing about feature scales")


def test_clients_learn_sums_and_the_ledger_says_so():
    data = hold_points()
    result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard")
    (entry,) = [e for e in result.ledger.entries if "mean" in e.what]
    assert entry.seen_by == set(data.names)
    assert result.ledger.epsilon(1e-6, "client-0") == np.inf
    way = Scaled(secfc.KFed(3, 2), Standardize())
    plan = way.plan(PublicFacts.of(data, way.bound))
    roles = {p.name: way.client(plan, p, coins=coins(p.name)) for p in data.parties}
    roles[SERVER] = way.server(plan, rng=np.random.default_rng(0), coins=coins(SERVER))
    done = simulate(roles)
    own = way.outcome(plan, "client-0", done.results["client-0"])
    server = way.outcome(plan, SERVER, done.results[SERVER])
    assert any("deviation" in sentence for sentence in own.learned)
    assert server.scaling is None
    assert not any("deviation" in sentence for sentence in server.learned)


TINY = SimpleNamespace(code=LagrangeCode(Basis((7,)), 3, 1, 1), clients=("a", "b", "c"))


class Script:
    """Coins that read given residues."""

    def __init__(self, value):
        self.value = value

    def fill_residues(self, prime, out):
        out[...] = self.value


def law(bits, hide):
    """How often each sum arises over all coins of three clients with these bits."""
    sums = Counter()
    for drawn in itertools.product(range(7), repeat=3):
        added = [hide(bit, coin) for bit, coin in zip(bits, drawn, strict=True)]
        shares = {name: np.array([[x]], np.uint32) for name, x in zip(TINY.clients, added, strict=True)}
        total = np.zeros((1, 1), np.uint64)
        add_wave(total, shares, TINY.clients, None)
        sums[int(reduce_total(TINY, total)[0, 0])] += 1
    return sums


def test_a_disjunction_says_nothing_else():
    def hide(bit, coin):
        return int(encode_disjunction(TINY, np.array([bit]), Script(coin))[0, 0])

    some = [bits for bits in itertools.product((False, True), repeat=3) if any(bits)]
    assert len({frozenset(law(bits, hide).items()) for bits in some}) == 1
    assert law((False,) * 3, hide) == {0: 343}
    # Control: plain counts tell how many there are.
    assert law((True, False, False), lambda bit, _: int(bit)) != law(
        (True, True, False), lambda bit, _: int(bit)
    )


def test_a_feature_with_one_holder_is_scaled_at_home_and_is_in_no_sum():
    whole = points()
    names = ("a", "b", "c", "d")
    columns = [(0, 1, 2), (1, 2), (2, 1, 3), (2, 1)]
    parties = [
        secfc.Party(f"client-{j}", whole[j::4][:, own], features=tuple(names[i] for i in own))
        for j, own in enumerate(columns)
    ]
    data = secfc.Federation(tuple(parties), feature_names=names)
    way = Standardize()
    public = PublicFacts.of(data, way.limit)
    plan = ScaledPlan.of(way, public, None, RunTerms(way, public), None, 1)
    assert plan.shared == (1, 2)

    def server():
        from secfc.scaling.roles import help_to_scale

        yield from help_to_scale(plan)

    roles = {p.name: scale_at_client(way, plan, p, coins=coins(p.name)) for p in parties} | {SERVER: server()}
    done = simulate(roles, keep_bodies=True)
    wide = {e.body.values.shape[1] for e in done.transcript.envelopes if e.kind == "CodedSum"}
    assert wide == {2 * 128, 2 * 3}
    for j, own in enumerate(columns):
        found = done.results[f"client-{j}"]
        assert [i for i in range(4) if not np.isnan(found.units[i])] == sorted({*own, 1, 2})
        assert found.centers[1] == pytest.approx(whole[:, 1].mean())
    assert done.results["client-0"].units[0] == pytest.approx(whole[0::4, 0].std())


def test_partly_shared_features_are_scaled_and_clustered():
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 3, 300)
    whole = np.column_stack([kind * 6, (kind % 2) * 6e4, kind // 2 / 2, kind * 3]) + 0.0
    whole += rng.normal(size=whole.shape) * [1, 1e4, 0.05, 1]
    columns = [("a", "b", "c"), ("b", "c"), ("a", "b", "c"), ("b", "c"), ("b", "c", "d")]
    parts = [whole[j::5][:, ["abcd".index(c) for c in own]] for j, own in enumerate(columns)]
    data = secfc.Federation.from_arrays(parts, features=columns)
    result = secfc.fit(secfc.FederatedLloyd(3), data, scale_features="standard")
    truth = np.concatenate([kind[j::5] for j in range(5)])
    assert metrics.accuracy(truth, result.flat) == 1
    assert all(map(np.array_equal, result.predict(data), result.labels))
    # Centers in data units, also of what one client alone observes.
    for h in range(3):
        rows, alone = truth == truth[result.flat == h][0], parts[4][:, 2]
        assert result.centers[h, 3] == pytest.approx(alone[result.labels[4] == h].mean(), rel=1e-3)
        stacked = data.stacked()[rows]
        assert result.centers[h, 1] == pytest.approx(stacked[:, 1].mean(), rel=1e-2, abs=100)


# --- losses and lies -----------------------------------------------------------------------------------


def test_who_vanishes_before_its_sums_are_shared_is_not_in_the_scale():
    data = hold_points()

    def faults(e):
        return () if e.sender == "client-3" and e.kind in ("SumShares", "RowShares") else (e,)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard", faults=faults)
    rest = np.concatenate([p.read() for p in data.parties if p.name != "client-3"])
    assert np.array(result.scaling.scaling.centers) == pytest.approx(rest.mean(axis=0), rel=1e-12)
    assert result.excluded == ("client-3",)


def test_too_many_losses_end_the_run():
    def faults(e):
        return () if e.sender in ("client-3", "client-2") and e.kind == "SumShares" else (e,)

    with pytest.raises(TooFewReplies):
        secfc.fit(secfc.SecFC(3, 1, init=START), hold_points(), scale_features="standard", faults=faults)


def test_a_member_that_tells_clients_different_sums_is_noticed(monkeypatch):
    def faults(e):
        if e.kind == "CodedSum" and e.sender == "client-0" and e.recipient == "client-1":
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=e.body.values * 0 + 1)),)
        return (e,)

    with pytest.raises(SuspectedParties, match=r"on no polynomial"):
        secfc.fit(secfc.SecFC(3, 1, init=START), hold_points(), scale_features="standard", faults=faults)

    def alone(e):
        """Two clients hear shares of t + 1 members alone, which open nothing there."""
        away = e.sender in ("client-2", "client-3", "client-4")
        return () if e.kind == "CodedSum" and away and e.round == MOMENTS + 3 else faults(e)

    def at_moments(e):
        return alone(e) if e.round == MOMENTS + 3 else (e,)

    way = secfc.SecFC(3, 1, init=START)
    run = secfc.fit(way, hold_points(), scale_features="standard", faults=at_moments)
    assert run.excluded == ("client-0", "client-1")
    # Control: where they opened a sum, digests of the sums would tell.
    monkeypatch.setattr(SumPlan, "least_words", property(lambda plan: plan.code.threshold(1)))
    with pytest.raises(SuspectedParties, match=r"different sums.*server"):
        secfc.fit(way, hold_points(), scale_features="standard", faults=at_moments)


def test_sums_that_no_rows_have_end_the_run():
    def faults(e):
        if e.kind == "SumShares" and e.sender == "client-2" and e.round == MOMENTS:
            # A sharing of another vector: a line through 0 at the place of its own share is added to all.
            there = plan.sums.seats[e.recipient]
            changed = shifted(e.body.values, there)
            return (dataclasses.replace(e, body=dataclasses.replace(e.body, values=changed)),)
        return (e,)

    def shifted(values, there):
        code, changed = plan.sums.code, values.copy()
        own = code.alphas[plan.sums.seats["client-2"]]
        for lane, p in enumerate(code.basis.primes):
            factor = (code.alphas[there] - own) * pow(code.betas[0] - own, -1, p) % p
            changed[lane, :3] = (
                changed[lane, :3].astype(np.uint64) + factor * shift[lane].astype(object)
            ) % p
        return changed

    inner = secfc.SecFC(3, 1, init=START)
    plan = Scaled(inner, Standardize()).plan(PublicFacts.of(hold_points(), 10.0))
    for row in ((0, 0, 1 << 200), (-(10**6), 0, 0), (0, 1 << 70, 0)):
        shift = plan.sums.code.basis.reduce(np.array(row, object) % plan.sums.code.basis.modulus)
        with pytest.raises(SuspectedParties, match="no rows have the sums") as caught:
            secfc.fit(inner, hold_points(), scale_features="standard", faults=faults)
        assert "client-2" in caught.value.parties
    # No two values have the sum 3 and squares that sum to 4.
    check_possible(plan, 2, np.array([[2, 2, 2]], object))
    with pytest.raises(SuspectedParties, match="no rows have the sums"):
        check_possible(plan, 2, np.array([[2, 3, 4]], object))


@pytest.mark.filterwarnings("ignore:.*is it in the same unit")
def test_who_was_left_out_of_the_powers_of_two_stays_out_of_the_means():
    parts = np.array_split(points(), 5)
    parts[3] = parts[3] * 8
    data = secfc.Federation.from_arrays(parts)

    def faults(e):
        lost = e.sender == "client-3" and e.kind == "SumShares" and e.round == MAGNITUDES
        return () if lost else (e,)

    with pytest.warns(Caution, match="client 'client-3': what it shared to find the scale .* was lost"):
        result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard", faults=faults)
    rest = np.concatenate([part for j, part in enumerate(parts) if j != 3])
    assert np.array(result.scaling.scaling.units) == pytest.approx(rest.std(axis=0), rel=1e-9)
    assert (result.excluded, result.scaling.beyond > 0) == ((), True)


# --- what users bring ----------------------------------------------------------------------------------


def test_a_single_client_is_scaled_at_home_and_two_are_refused():
    alone = hold_points(n=1)
    result = secfc.fit(secfc.Lloyd(3, init=START), alone, scale_features="standard")
    assert {e.kind for e in result.transcript.envelopes} == {"Hello", "RawPoints", "FinalResult"}
    assert np.array(result.scaling.scaling.units) == pytest.approx(points().std(axis=0))
    two = hold_points(n=2)
    with pytest.raises(InputError, match=r"n=2 clients cannot scale .* public ranges"):
        secfc.fit(secfc.Lloyd(3, init=START), two, scale_features="standard")
    # What is public needs no sum.
    given = secfc.fit(secfc.Lloyd(3, init=START), two, scale_features=result.scaling.scaling)
    assert same_runs(
        given, secfc.fit(secfc.Lloyd(3, init=START), alone, scale_features=result.scaling.scaling)
    )


def test_constant_features_are_named_and_left_out():
    whole = np.insert(points(), 2, 7.5, axis=1)
    data = secfc.Federation.from_arrays(np.array_split(whole, 5))
    data = dataclasses.replace(data, feature_names=("a", "b", "flat", "c", "d"))
    with pytest.warns(Caution, match="'flat' is the same in all rows, and is left out"):
        result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard")
    assert same_runs(
        result,
        secfc.fit(
            secfc.Lloyd(3, init=START, quantization=secfc.Quantization(scale=float(result.plan.scale))),
            hold_points(),
            scale_features="standard",
        ),
    )
    assert result.scaling.scaling.constant == (2,)
    assert result.scaling.scaling.back(np.zeros((1, 5)))[0, 2] == 7.5
    with pytest.raises(InputError, match="every feature is the same in all rows"):
        secfc.fit(
            secfc.SecFC(2, 1, init=START),
            secfc.Federation.from_arrays([np.ones((4, 2))] * 3),
            scale_features="standard",
        )


@pytest.mark.parametrize("algorithm", [secfc.SecFC(3, 1, init=START), secfc.KFed(3, 2)])
def test_one_outlier_that_leaves_a_feature_no_steps_is_refused(algorithm):
    whole = points()
    whole[17, 1] = 1e12
    data = secfc.Federation.from_arrays(np.array_split(whole, 5))
    with (
        pytest.warns(Caution, match="1 value lies more than 10"),
        pytest.raises(InputError, match=r"feature 1.*refused"),
    ):
        secfc.fit(algorithm, data, scale_features="standard")
    # A range that is public holds the others' steps, and the outlier is moved.
    public = Range([(-10, 25), (-1e3, 3e3), (9e5, 2e6), (-1, 1)], outside="clip")
    with pytest.warns(Caution, match="1 value lies more than 1 unit"):
        assert secfc.fit(algorithm, data, scale_features=public).scaling.beyond == 1


@pytest.mark.filterwarnings("ignore:.*is it in the same unit")
def test_values_beyond_the_limit_are_moved_or_refused():
    data = hold_points()
    with pytest.warns(Caution, match=r"\d+ values lie more than 1.2 units"):
        clipped = secfc.fit(secfc.Lloyd(3, init=START), data, scale_features=Standardize(1.2))
    assert clipped.scaling.beyond == sum(
        int(
            (
                abs(p.read() - clipped.scaling.scaling.centers)
                > 1.2 * np.array(clipped.scaling.scaling.units)
            ).sum()
        )
        for p in data.parties
    )
    with pytest.raises(InputError, match=r"row \d+, feature \d .* more than 1.2 units from its center"):
        secfc.fit(secfc.Lloyd(3, init=START), data, scale_features=Standardize(1.2, outside="refuse"))


@pytest.mark.parametrize(
    ("offset", "message"), [(2.0**38, "a deviation of .* steps"), (2.0**50, "differ by less than")]
)
def test_an_offset_that_eats_the_digits_is_refused(offset, message):
    rng = np.random.default_rng(0)
    tables = [rng.normal(size=(20, 2)) + np.array([offset, 0]) for _ in range(4)]
    data = secfc.Federation.from_arrays([np.round(table * 4) / 4 for table in tables])
    with pytest.raises(InputError, match=f"feature 0 .*{message}.* [sS]ubtract"):
        secfc.fit(secfc.Lloyd(2, init=START), data, scale_features="standard")


@pytest.mark.parametrize(
    ("way", "message"),
    [
        ("z-score", "scale_features='z-score'"),
        (lambda: Standardize(0), "limit=0"),
        (lambda: Standardize(outside="drop"), "outside='drop'"),
        (lambda: Standardize(missing="zero"), "missing='zero'"),
        (lambda: Standardize(keep=("age",)), "keep='age' is no feature"),
        (lambda: Range([(1, 1)]), "the range"),
        (lambda: Range([(0, 1)]), "1 range for d=4"),
        (lambda: Range({"a": (0, 1)}), "ranges of a for the features"),
        (lambda: Scaling((0.0,), (1.0,), 1.0), "a scaling of 1 feature for d=4"),
        (lambda: Scaling((0.0,), (-1.0,), 1.0), "not negative"),
        (lambda: Scaling((0.0,), (np.inf,), 1.0), "units are finite"),
    ],
)
def test_what_cannot_be_meant_is_refused(way, message):
    with pytest.raises(InputError, match=message):
        secfc.fit(
            secfc.Lloyd(3, init=START), hold_points(), scale_features=way if isinstance(way, str) else way()
        )


def test_a_bound_and_two_scales_are_refused():
    with pytest.raises(InputError, match="their limit is the bound"):
        secfc.fit(secfc.Lloyd(3, init=START), hold_points(), scale_features="standard", bound=1e7)
    with pytest.raises(InputError, match="scaled once"):
        Scaled(Scaled(secfc.Lloyd(3, init=START)))


def test_sites_that_disagree_on_the_scale_stop_before_anything_is_shared():
    data = hold_points()
    one, two = (Scaled(secfc.SecFC(3, 1, init=START), way) for way in (Standardize(), Standardize(8.0)))
    public = PublicFacts.of(data, one.bound)
    plans = {p.name: (two if p.name == "client-2" else one) for p in data.parties}
    roles = {
        p.name: plans[p.name].client(plans[p.name].plan(public), p, coins=coins(p.name)) for p in data.parties
    }
    roles[SERVER] = one.server(one.plan(public), rng=np.random.default_rng(0), coins=coins(SERVER))
    with pytest.raises(secfc.PlanMismatch, match=r"scaling\.limit is"):
        simulate(roles)


def test_features_that_are_kept_stay_as_they_are():
    whole = np.column_stack([points(), np.arange(150) % 2])
    data = secfc.Federation.from_arrays(np.array_split(whole, 5))
    result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features=Standardize(keep=(4,)))
    assert (result.scaling.scaling.federation(data).stacked()[:, 4] == whole[:, 4]).all()


def test_missing_values_become_the_mean_of_what_is_there():
    whole = points()
    holes = np.random.default_rng(1).random(whole.shape) < 0.1
    gaps = np.where(holes, np.nan, whole)
    data = secfc.Federation.from_arrays([RowsWithGaps(part) for part in np.array_split(gaps, 5)])
    with pytest.raises(InputError, match="NaN"):
        secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard")
    with pytest.warns(Caution, match=f"{holes.sum()} missing values were taken for the mean"):
        result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features=Standardize(missing="mean"))
    scaling = result.scaling.scaling
    assert np.array(scaling.centers) == pytest.approx(np.nanmean(gaps, axis=0), rel=1e-12)
    assert np.array(scaling.units) == pytest.approx(np.nanstd(gaps, axis=0), rel=1e-12)
    filled = secfc.Federation.from_arrays(np.array_split(np.where(holes, scaling.centers, whole), 5))
    assert same_runs(
        result,
        secfc.fit(secfc.Lloyd(3, init=START), filled, scale_features=dataclasses.replace(scaling, fill=None)),
    )
    again = secfc.Federation.from_arrays(np.array_split(gaps, 5), gaps=True)
    with pytest.warns(Caution, match="missing values"):
        assert same_runs(
            result, secfc.fit(secfc.Lloyd(3, init=START), again, scale_features="standard", missing="mean")
        )
    with pytest.warns(Caution, match="missing values"):
        assert (
            secfc.fit(
                secfc.Lloyd(3, init=START, quantization=secfc.Quantization(coarse="allow")),
                again,
                missing="mean",
            ).scaling.missing
            == holes.sum()
        )
    with pytest.raises(InputError, match="missing='zero'"):
        secfc.fit(secfc.Lloyd(3, init=START), again, missing="zero")
    with pytest.warns(Caution, match="missing values"):
        unscaled = secfc.fit(
            secfc.Lloyd(3, init=START, quantization=secfc.Quantization(coarse="allow")),
            data,
            scale_features=FillMeans(2.0**21),
        )
    assert same_runs(
        unscaled,
        secfc.fit(
            secfc.Lloyd(3, init=START, quantization=secfc.Quantization(coarse="allow")), filled, bound=2.0**21
        ),
    )


def test_rows_with_gaps_are_dropped_and_have_no_label():
    gaps = points()
    gaps[[3, 40, 41], [0, 1, 2]] = np.nan
    gaps[120:, 0] = np.nan  # the last client has nothing left
    data = secfc.Federation.from_arrays(np.array_split(gaps, 5), gaps=True)
    result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard", missing="drop")
    absent = np.isnan(gaps).any(axis=1)
    assert ((result.flat == -1) == absent).all()
    left = secfc.Federation.from_arrays([p[~np.isnan(p).any(axis=1)] for p in np.array_split(gaps, 5)[:4]])
    plain = secfc.fit(secfc.Lloyd(3, init=START), left, scale_features="standard")
    assert (result.flat[~absent] == plain.flat).all()
    gaps[:, 3] = np.nan
    empty = secfc.Federation.from_arrays(np.array_split(gaps, 5), gaps=True)
    with pytest.raises(InputError, match="every row of all 5 clients misses some value"):
        secfc.fit(secfc.Lloyd(3, init=START), empty, missing="drop")


def test_a_feature_that_is_missing_everywhere_is_refused():
    gaps = points()
    gaps[:, 1] = np.nan
    data = secfc.Federation.from_arrays([RowsWithGaps(part) for part in np.array_split(gaps, 5)])
    with pytest.raises(InputError, match="feature 1 is missing in every row of all clients: leave"):
        secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features=Standardize(missing="mean"))


def test_a_client_in_another_unit_is_told_by_the_common_deviation():
    """Two sites in kilograms spread a few ten-thousandths of what they and one in grams spread together."""
    rng = np.random.default_rng(0)
    sites = {name: rng.normal([50, 70], [10, 12], (40, 2)) for name in "abc"}
    alike = secfc.fit(secfc.SecFC(2), sites, scale_features="standard")
    assert alike.scaling.doubts == ()
    sites["c"] = sites["c"] * [1, 1000]
    with pytest.warns(Caution, match="in the same unit") as told:
        result = secfc.fit(secfc.SecFC(2), sites, scale_features="standard")
    assert "client 'a': feature 1 spreads 0.000" in str(told[0].message)
    assert [doubt[:11] for doubt in result.scaling.doubts] == ["client 'a':", "client 'b':"]
    constant = {**sites, "a": np.hstack([sites["a"][:, :1], np.full((40, 1), 70.0)])}
    with pytest.warns(Caution) as told:
        secfc.fit(secfc.SecFC(2), constant, scale_features="standard")
    assert not any("client 'a'" in str(one.message) for one in told)


def test_a_client_whose_mean_lies_far_for_its_spread_or_that_is_clipped_often_is_told():
    rng = np.random.default_rng(0)
    sites = {name: rng.normal([50, 37], [10, 0.6], (40, 2)) for name in "abc"}
    sites["c"] = sites["c"] * [1, 1.8] + [0, 32]  # one thermometer in Fahrenheit
    with pytest.warns(Caution) as told:
        result = secfc.fit(secfc.SecFC(2), sites, scale_features="standard")
    said = [str(one.message) for one in told]
    assert sum("the mean of feature 1 lies 1.4 common deviations" in one for one in said) == 1
    assert {doubt[:11] for doubt in result.scaling.doubts} == {f"client {name!r}:" for name in "abc"}
    assert [str(one) for one in result.cautions(sites) if "same unit" in str(one)] == [*result.scaling.doubts]
    sites["c"] = rng.normal([50, 37], [10, 0.6], (40, 2))
    with pytest.warns(Caution) as told:
        secfc.fit(secfc.SecFC(2), sites, scale_features=Standardize(1))
    assert any("% of feature 0 lies beyond the limit of 1" in str(one.message) for one in told)
    assert secfc.fit(secfc.SecFC(2), sites, scale_features="standard").scaling.doubts == ()


def test_new_points_far_outside_what_the_model_saw_are_told():
    data = hold_points()
    result = secfc.fit(secfc.SecFC(3, 1, init=START), data, scale_features="standard")
    new = [party.read() for party in data.parties]
    new[2] = new[2] + [[0, 0, 1e9, 0]] * (np.arange(len(new[2])) < 2)[:, None]
    with pytest.warns(Caution, match="2 of 150 rows have a value more than 10 units"):
        result.predict(secfc.Federation.from_arrays(new))


def test_sums_of_several_waves_find_the_same_scale(monkeypatch):
    """A sum of several waves takes more rounds: the next began before it ended, and the run with it."""
    way = secfc.SecFC(3, 1, init=START)
    one = secfc.fit(way, hold_points(), scale_features="standard")
    monkeypatch.setattr("secfc.secure_sum.plan.WAVE", 2)
    several = secfc.fit(way, hold_points(), scale_features="standard")
    assert several.scaling.scaling == one.scaling.scaling
    assert (several.flat == one.flat).all()


@pytest.mark.parametrize(("n", "more"), [(512, 0), (513, 1)])
def test_a_second_sum_begins_after_all_waves_of_the_first(n, more):
    clients = tuple(f"c{i}" for i in range(n))
    sums = SumPlan.of(clients, 1, committee=3, t=1)
    plan = ScaledPlan(clients, 1, None, None, sums, sums, 0, None, None)
    assert plan.moments_round == last_round(sums, MAGNITUDES) + 1 == MAGNITUDES + 4 + more
    assert plan.digests_round == last_round(sums, plan.moments_round) + 1 == MAGNITUDES + 8 + 2 * more
