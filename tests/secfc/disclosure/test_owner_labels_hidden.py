"""Labels for holders only, where nobody learns who holds which row: views, and the forms that fall."""

from collections import Counter
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

import secfc
from field.code.lagrange_code import LagrangeCode
from field.code.masking import deal_part
from field.ring.basis import LANE_PRIMES, Basis
from secfc.data.inputs import build_algorithm
from secfc.disclosure.owner_labels.output import HiddenOwners
from secfc.kmeans.loop import PlainSource, lloyd
from secfc.roles.exchange import SERVER, run_alone
from tests.nightly import covering, every, short
from tests.secfc.coded.test_membership import overlapping
from tests.secfc.disclosure.test_owner_labels import HIDDEN, tell_owners
from tests.secfc.disclosure.test_owner_labels_views import received

P = LANE_PRIMES[0]
N = 4


def hold_named(held, m=24, seed=0):
    """Clients that hold these of m points."""
    points = np.random.default_rng(seed).normal(size=(m, 2)) + 9 * (np.arange(m) % 3 == 0)[:, None]
    arrays = [points[list(own)] for own in held]
    return secfc.Federation.from_arrays(arrays, ids=[[f"id {i}" for i in own] for own in held])


EVEN = [range(0, 10), range(6, 16), range(12, 24), range(20, 24)]
ONE = [range(0, 24), [3], [5], [7]]


def fit(held, **parameters):
    return tell_owners(hold_named(held), k=2, max_iter=2, membership=HIDDEN, **parameters)


# --- traffic ---------------------------------------------------------------------------------------


def test_who_is_told_what_does_not_depend_on_who_holds_which_row():
    tables = []
    for held in (EVEN, ONE):
        # Without merging counts, which are public, the rows are the same.
        envelopes = fit(held, seed=1).transcript.envelopes
        asked = {e.round for e in envelopes if e.kind == "DeliverLabels"}
        last = [e for e in envelopes if e.round >= min(asked) and e.kind not in ("FinalResult", "RunEnded")]
        tables.append(Counter((e.sender, e.recipient, e.kind, e.nbytes) for e in last))
    assert tables[0] == tables[1]
    assert any(kind == "SelectedRowShare" for _, _, kind, _ in tables[0])
    assert not any(kind == "OwnShare" for _, _, kind, _ in tables[0])


# --- every start and dealer, and every loss ---------------------------------------------------------


def assert_held_alike(result, data, told=None):
    """All holders of a row have the same label, as many of each as the last sizes say, and no point is nearer
    to another mean: where the run converged."""
    labels, points = np.full(result.plan.m, -1), np.zeros((result.plan.m, data.d))
    for party, rows, own in zip(data.parties, result.rows, result.labels, strict=True):
        if told is None or party.name in told:
            assert ((labels[rows] == -1) | (labels[rows] == own)).all()
            labels[rows], points[rows] = own, party.points
    assert (labels >= 0).all()
    assert np.bincount(labels, minlength=result.k).tolist() == result.sizes[-1].tolist()
    assert result.converged
    integers = PlainSource(result.plan.quantizer(points))
    assert (run_alone(lloyd(labels.astype(np.int32), result.k, 1, integers)).labels == labels).all()


@pytest.mark.parametrize(
    ("dealer", "more"), every(2, covering([SERVER, None, "client-4"], [{}, {"n_init": 2}, {"k": "2..4"}]))
)
def test_holders_have_their_labels_whatever_the_start_and_whoever_deals(more, dealer):
    data, _ = overlapping(5, 30, 18, seed=3)
    way = {"k": 3, "t": 1, "membership": HIDDEN, "coarse": "allow", **more}
    result = secfc.fit(build_algorithm(secfc.SecFC, **way, disclosure=secfc.OwnLabels(dealer)), data)
    assert_held_alike(result, data)


def test_a_client_may_be_lost_at_any_message_after_rows_are_shared():
    """At a few of them by day, at all by night: then nobody else lacks its labels, or too few are left."""
    data, _ = overlapping(5, 24, 20, seed=1)
    way = secfc.SecFC(3, 1, init="random", max_iter=20, membership=HIDDEN, disclosure="own-labels")

    def lost(client, number):
        seen = {"step": False, "sent": 0}

        def faults(e):
            seen["step"] = seen["step"] or e.kind == "LloydStepQuery"
            seen["sent"] += seen["step"] and e.sender == client
            return () if seen["sent"] > number and client in (e.sender, e.recipient) else (e,)

        return secfc.fit(way, data, seed=2, faults=faults), seen["sent"]

    for client in ("client-0", "client-2", "client-4"):
        _, most = lost(client, 1 << 30)
        for number in np.linspace(0, most - 1, short(4, nightly=most)).astype(int).tolist():
            result, _ = lost(client, number)
            assert_held_alike(result, data, set(data.names) - {client})


# --- all masks, in a small field ---------------------------------------------------------------------


class Fixed:
    """A stream that yields these residues."""

    def __init__(self, *values):
        self.values = values

    def fill_residues(self, p, out):
        out.reshape(-1)[:] = self.values


def heard_of(label, own, masks, noise):
    """What three responders tell the owner of one row, modulo 7; and the shares of the label's number.

    t = 1; client 0 owns the row and, alone in this test, holds the number.  own: its bit.  noise: of the
    polynomial that the number is shared by.
    """
    code = LagrangeCode(Basis((7,)), 3, 1, 1)
    plan = SimpleNamespace(code=code, m=1, clients=("a", "b", "c"))
    match = SimpleNamespace(committee=("a",), question=SimpleNamespace(members=np.array([0])))
    secret = np.array([[own, label]], np.uint32)
    shares = {1: np.array([[2, noise]], np.uint32)}
    shares |= deal_part(code, secret, (1,), (0, 1, 2), [Fixed(2, noise)])
    told = []
    for r in range(3):
        peers = {s: Fixed(masks[frozenset((r, s))]) for s in range(3) if s != r}
        mine, number = shares[r][:, :1], shares[r][:, 1:]
        picked = HiddenOwners(plan, r, np.arange(0)).picked(match, (0, 1, 2), {0: mine}, number, peers)
        told.append(int(picked[0].values[0, 0]))
    assert sum(told) % 7 == label * own % 7
    return tuple(told), tuple(int(shares[r][0, 1]) for r in range(3))


PAIRS = [frozenset(pair) for pair in ((0, 1), (0, 2), (1, 2))]


@pytest.mark.parametrize("known", [None, 2])
def test_an_owner_with_a_responder_learns_the_product_alone(known):
    """What is said to the owner of another row, and what a responder with it knows, is as often the same
    whatever the row's label; without masks the same views tell it.

    Modulo 7, all masks that are not known, and of who knows a share all polynomials.
    """
    for masked in (True, False):
        free, whole = range(7) if masked else (0,), range(7) if known else (3,)
        seen = {label: Counter() for label in (1, 4)}
        for label, noise, *values in product(seen, whole, free, (5,) if known else free, free):
            masks = dict(zip(PAIRS, values if masked else (0, 0, 0), strict=True))
            told, shares = heard_of(label, 0, masks, noise)
            mine = tuple(masks[pair] for pair in PAIRS if known in pair)
            seen[label][told, mine, None if known is None else shares[known]] += 1
        assert (seen[1] == seen[4]) == masked


# --- uniform --------------------------------------------------------------------------------------------


def test_what_owners_share_and_what_responders_tell_them_is_uniform():
    """Of rows that an owner holds and of others; false alarm below 1e-9 each, of 2 (3 + 2) kinds."""
    held = [range(0, 60), range(40, 90), range(90, 100), range(50, 100)]
    seen = {}
    for _ in range(6):
        result = tell_owners(hold_named(held, 100), k=2, max_iter=1, membership=HIDDEN)
        mine = np.isin(np.arange(100), result.rows[3])
        for e in result.transcript.envelopes:
            told = e.kind == "SelectedRowShare" and e.recipient == "client-3"
            asked = e.kind == "ResharedPart" and e.sender == "client-3" and len(e.body.values) == 1
            if told or asked:
                # Of bits, and of both sums of features behind them.
                parts = e.body.values[0].reshape(-1, 100).astype(np.int64) * 8 // P
                for holds in (True, False):
                    seen.setdefault((e.sender, e.recipient, holds), []).append(
                        parts[:, mine == holds].ravel()
                    )
    assert len(seen) == 2 * (3 + 2)
    for values in seen.values():
        counts = np.bincount(np.concatenate(values), minlength=8).astype(float)
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < chi2.isf(1e-9, 7)


# --- attacks --------------------------------------------------------------------------------------------


def divided(result, dealt):
    """The labels of all rows, if responders told client 3 bare products: it dealt one of the factors."""
    plan, told = result.plan, {}
    code = LagrangeCode(plan.code.basis.prefix(1), N, plan.code.ell, plan.code.t)
    weights = code.decoding_weights((0, 1, 2), 2)[1][0]
    for j, share in dealt.items():
        (heard,) = received(result, "client-3", "SelectedRowShare", f"client-{j}")
        inverse = [pow(int(weights[j]) * int(o) % P, -1, P) if o else 0 for o in share[0]]
        told[j] = np.array([[int(y) * i % P for y, i in zip(heard.body.values[0], inverse, strict=False)]])
    shares = {j: values.astype(np.uint32) for j, values in told.items()}
    return code.interpolate(shares, 1)[0, 0].astype(np.int64) - 1


def test_bare_products_would_tell_an_owner_the_labels_of_all_rows(monkeypatch):
    dealt, deal, pick = {}, HiddenOwners.dealt, HiddenOwners.picked

    def spy(self, match, responders, streams):
        found = deal(self, match, responders, streams)
        if self.me == 3:
            dealt.update({j: share[:, : self.plan.m] for j, share in found.items()})
        return found

    monkeypatch.setattr(HiddenOwners, "dealt", spy)

    def right():
        result = fit(EVEN)
        labels, want = divided(result, dealt), np.full(24, -1)
        for rows, own in zip(result.rows, result.labels, strict=True):
            want[rows] = own
        return np.count_nonzero(labels == want)

    assert right() < 3  # by chance with probability 2**-60
    monkeypatch.setattr(
        HiddenOwners,
        "picked",
        lambda self, match, who, shares, numbers, peers: pick(self, match, who, shares, numbers, {}),
    )
    assert right() == 24


def test_the_server_hears_no_more_than_where_owners_are_public():
    result = fit(EVEN)
    said = {e.kind for e in result.transcript.envelopes if e.recipient == SERVER and e.round >= 7 << 32}
    assert said == {"SizeShare", "MissingMessages", "CheckDigest"}
