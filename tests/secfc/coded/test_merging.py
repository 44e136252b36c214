"""Merging rows without opening how many hold them: exact, and a view that says nothing of their number."""

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import secfc
from field import Basis, SystemCoins
from field.code.lagrange_code import LagrangeCode
from field.ring.basis import LANE_PRIMES, MERSENNE_61
from secfc.coded import duplicates
from secfc.coded.duplicates import (
    DivisionMasks,
    count_mask_dealers,
    deal_division_masks,
    mask_rows,
    open_quotients,
    unmask_factor,
)
from secfc.coded.membership import Private
from secfc.deploy.floors import write_disputed
from secfc.disclosure.checked.products import HolderCheck
from secfc.errors import DisputedRows, UnionFailed
from tests.nightly import by_night


def merged(code, x, held):
    """All parties' steps on points x (n, m, d) with holders held (n, m): what comes out."""
    basis, coins, width = code.basis, SystemCoins(), code.width(x.shape[2])
    add, n = basis.add, code.n
    shares = [code.share(basis.reduce(x[j] * held[j][:, None]), coins) for j in range(n)]
    twice = [np.repeat(held[j].astype(np.int64)[:, None], code.ell, axis=1) for j in range(n)]
    marks = [code.share(basis.reduce(each), coins) for each in twice]
    blinds = [deal_division_masks(code, x.shape[1], width, coins) for _ in range(count_mask_dealers(code))]
    mine, told = [], {}
    for i in range(n):
        rows, count = shares[0][i], marks[0][i]
        for j in range(1, n):
            rows, count = add(rows, shares[j][i]), add(count, marks[j][i])
        low, high = blinds[0][i].low, blinds[0][i].high
        for dealt in blinds[1:]:
            low, high = add(low, dealt[i].low), add(high, dealt[i].high)
        mine.append(DivisionMasks(low, high))
        told[i] = mask_rows(basis, mine[i], count, rows)
    quotient, inverse = open_quotients(code, told)
    out = code.interpolate(
        {i: unmask_factor(code, i, mine[i], quotient, inverse) for i in range(n)}, 1
    )  # any threshold(1) of them
    flat = np.concatenate(list(out.transpose(1, 0, 2, 3)), axis=2)
    return basis.lift_signed(flat)[:, : x.shape[2]]


@pytest.mark.parametrize("primes", [LANE_PRIMES[:2], LANE_PRIMES[:3], (MERSENNE_61,)], ids=str)
@pytest.mark.parametrize("shape", [(3, 1, 1), (5, 1, 2), (7, 2, 2)], ids=str)
def test_the_mean_of_all_holders_is_exact(primes, shape):
    n, ell, t = shape
    rng = np.random.default_rng(n)
    held = rng.random((n, 40)) < 0.4
    held[rng.integers(0, n, 40), np.arange(40)] = True
    x = rng.integers(-(2**12), 2**12, (n, 40, 3)) * math.lcm(*range(1, n + 1))
    found = merged(LagrangeCode(Basis(primes), n, ell, t), x, held)
    for row in range(40):
        versions = x[held[:, row], row].tolist()
        means = [Fraction(sum(v), len(versions)) for v in zip(*versions, strict=True)]
        assert found[row].tolist() == means


def test_what_the_server_and_a_client_see_is_the_same_for_any_number_of_holders():
    # Every value of every coin, modulo 7: of one honest dealer; the other one is the coalition's.
    code, p = LagrangeCode(Basis((7,)), 3, 1, 1), 7
    line = [[(2 - a) % p, (a - 1) % p] for a in code.alphas]  # from values at 1 and 2
    low = np.array(list(itertools.product(range(p), repeat=2))) @ np.array(line).T % p  # all sharings
    zeros = np.array([[y0, y1, *_third(code, y0, y1)] for y0 in range(p) for y1 in range(p)])

    def view(value, fresh):
        """(what client 0 holds, what the server is told) when rho times a value is opened."""
        shares = low[low @ _at_secret(code) % p == value]
        seen = Counter()
        for rho, own in itertools.product(low, shares):
            for zero in zeros if fresh else zeros[:1]:
                seen[(rho[0], own[0], zero[0], *((rho * own + zero) % p))] += 1
        return seen

    views = [view(c, fresh=True) for c in (1, 2, 3)]
    assert views[0] == views[1] == views[2]
    assert view(1, fresh=False) != view(2, fresh=False), "the control: a product without a fresh zero"
    assert view(0, fresh=True) != views[0], "the control: that nobody holds a row is seen"


def _at_secret(code):
    from field.code.lagrange_code import transfer_rows

    return np.array([*transfer_rows(code.alphas[:2], (1,), 7)[0], 0])


def _third(code, y0, y1):
    """The third share of the polynomial of degree 2 that is 0 at the secret."""
    from field.code.lagrange_code import transfer_rows

    row = transfer_rows((1, *code.alphas[:2]), code.alphas[2:], 7)[0]
    return [(row[1] * y0 + row[2] * y1) % 7]


# --- whole runs -------------------------------------------------------------------------------------


def clinics(apart=0.0, n=3, m=18, seed=0):
    """n clinics and m patients, each at 1 to n of them, whose data are `apart` from one to the next."""
    rng = np.random.default_rng(seed)
    points = np.round(rng.normal(size=(m, 2)) * 64) / 64 + (np.arange(m) % 2 * 4)[:, None]
    held = [[x for x in range(m) if (j - x) % n <= x // n % n] for j in range(n)]
    tables = [points[own] + apart * j for j, own in enumerate(held)]
    names = [[f"patient {x}" for x in own] for own in held]
    return secfc.Federation.from_arrays(tables, ids=names)


def merge_rows(federation, faults=lambda envelope: (envelope,), **membership):
    way = secfc.SecFC(
        2, threshold=1, max_iter=4, init=secfc.RandomLabels(), quantization=secfc.Quantization(scale=64),
        disclosure=secfc.Distances(),
        membership=Private(**{"sized": False, "bound": 64, "counts": "hidden", **membership}),
    )  # fmt: skip
    return secfc.fit(way, federation, seed=3, bound=16.0, faults=faults)


def in_order(result, federation):
    """Per row the versions of its holders."""
    out = {}
    for rows, party in zip(result.rows, federation.parties, strict=True):
        for row, point in zip(rows.tolist(), party.points, strict=True):
            out.setdefault(row, []).append([Fraction(v) for v in point.tolist()])
    return [out[row] for row in range(len(out))]


def plaintext(result, rows):
    """Lloyd's steps on rows of rational numbers from the same start: all labels."""
    labels, history = result.history[0].tolist(), [result.history[0].tolist()]
    for _ in result.history[1:]:
        centers = []
        for c in (0, 1):
            mine = [row for row, label in zip(rows, labels, strict=True) if label == c]
            centers.append([sum(v) / len(mine) for v in zip(*mine, strict=True)])
        far = [[sum((a - b) ** 2 for a, b in zip(r, c, strict=True)) for c in centers] for r in rows]
        labels = [int(b < a) for a, b in far]
        history.append(labels)
    return history


@pytest.mark.parametrize("n", [3, *by_night(5, 10)])
def test_a_mean_of_holders_is_clustered_as_rational_arithmetic_does(n):
    federation = clinics(0.25, n, max(18, n * n))  # every number of holders from 1 to n occurs
    result = merge_rows(federation, on_conflict="mean", counts="opened", bound=128)
    means = [
        [sum(v) / len(versions) for v in zip(*versions, strict=True)]
        for versions in in_order(result, federation)
    ]
    assert [h.tolist() for h in result.history] == plaintext(result, means)
    assert result.plan.layout.multiple == math.lcm(*range(1, n + 1))
    assert "Disputes" not in {e.kind for e in result.transcript.envelopes}


def test_versions_of_an_id_are_rows_of_their_own():
    federation = clinics(0.25)
    result = merge_rows(federation, on_conflict="separate")
    versions = in_order(result, federation)
    assert len(versions) == sum(len(p.points) for p in federation.parties)
    assert len(in_order(merge_rows(clinics()), clinics())) == 18, "the control: equal data are one row"
    assert len(in_order(merge_rows(clinics(), on_conflict="separate"), clinics())) == 18
    with pytest.raises(DisputedRows):
        merge_rows(federation)


def test_counts_tell_every_client_which_patients_others_treat_and_now_do_not():
    federation, heard = clinics(), []

    def listen(envelope):
        if envelope.kind == "Multiplicities" and envelope.recipient == "client-0":
            heard.append(envelope.body.held)
        return (envelope,)

    opened = merge_rows(federation, counts="opened", faults=listen)
    # The attack: from one message client 0 knows of each of its patients whether others treat it too.
    truth = Counter(name for party in federation.parties for name in party.ids)
    elsewhere = heard[0][opened.rows[0]] > 1
    assert elsewhere.tolist() == [truth[name] > 1 for name in federation.parties[0].ids]
    assert 0 < elsewhere.sum() < len(elsewhere)
    # Now no message and no plan depends on the counts: the same where nobody shares a patient.
    hidden = merge_rows(federation, faults=listen)
    first = {n: j for j, p in reversed(list(enumerate(federation.parties))) for n in p.ids}
    names = [[n for n in p.ids if first[n] == j] for j, p in enumerate(federation.parties)]
    points = [
        p.points[[p.ids.index(n) for n in own]] for p, own in zip(federation.parties, names, strict=True)
    ]
    disjoint = merge_rows(secfc.Federation.from_arrays(points, ids=names))
    assert len(heard) == 1
    assert traffic(disjoint) == traffic(hidden)
    assert disjoint.plan.layout == hidden.plan.layout


def traffic(result):
    fixed = ("CheckedPart", "DivisionShares", "MaskedRows", "DividedRows", "RowShares", "Disputes")
    return Counter(
        (e.sender, e.recipient, e.kind, e.nbytes) for e in result.transcript.envelopes if e.kind in fixed
    )


def test_a_row_that_chance_left_is_dealt_anew_and_one_that_nobody_holds_ends_the_run(monkeypatch):
    federation, deal, calls = clinics(), deal_division_masks, []

    def unlucky(code, rows, width, coins):
        blinds = deal(code, rows, width, coins)
        calls.append(rows)
        for blind in blinds if rows > 1 else ():
            blind.low[:, 4, :1] = 0
        return blinds

    expected = merge_rows(federation)
    monkeypatch.setattr(duplicates, "deal_division_masks", unlucky)
    result = merge_rows(federation)
    assert calls == [18, 18, 1, 1], "two dealers, and once more the row that was left"
    # Rows are in another order in each run.
    assert result.cost == expected.cost or len(result.history) == len(expected.history)
    assert [h.tolist() for h in result.history] == plaintext(
        result, [versions[0] for versions in in_order(result, federation)]
    )

    count = HolderCheck.count

    def denying(self, number, held):
        return count(self, number, held & (np.arange(len(held)) != 4))

    monkeypatch.setattr(HolderCheck, "count", denying)
    with pytest.raises(UnionFailed, match="nobody says that it holds some row"):
        merge_rows(federation)


def test_words_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="on_conflict='newest' is none of"):
        Private(on_conflict="newest")
    with pytest.raises(ValueError, match="counts='shown' is none of"):
        Private(counts="shown")
    with pytest.raises(ValueError, match="there is no mean"):
        Private(merge=False, on_conflict="mean")
    with pytest.raises(ValueError, match=r"divides it by too much.*Use membership=Private.counts="):
        Private(counts="hidden", on_conflict="mean")


def test_ids_in_dispute_are_in_a_private_file_and_in_no_text(tmp_path):
    (tmp_path / "disputed-ids.csv.draft").write_text("left by a crash")
    path = write_disputed(tmp_path, ["Müller, Änne", 'P"12'])
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.read_text().splitlines() == ["id", '"Müller, Änne"', '"P""12"']
    error = DisputedRows([3], ["Müller, Änne"]).kept_in(str(path))
    assert str(path) in str(error)
    assert "Müller" not in f"{error} {error!r}"
