"""A9: one client that responds moves a center of labels that nobody knows, and counts rows on a side of it.

It adds to its part of the sums that are dealt anew, so that the center of a cluster lies where it wants it
relative to where it is.  The next sizes then say how many rows are nearer to that place: a threshold test of
its choice in each step, and of one row, where it isolates that.
"""

from unittest import mock

import numpy as np
import pytest

import secfc
from field.code.lagrange_code import transfer_matrix
from secfc.coded.messages import SizeShare
from secfc.disclosure.checked.parts import PartDealing, PartKeys
from secfc.disclosure.compare.rounds import InterleavedRole
from secfc.disclosure.compare.session import ComparisonSession
from secfc.disclosure.owner_labels.multiplication import SecureMultiplication
from secfc.errors import SuspectedParties
from secfc.kmeans.starts import RandomPoints
from secfc.roles.exchange import STRIDE
from tests.nightly import by_night, short
from tests.small import federation

M, D, DEVIATING, OWN = 40, 2, 1, 10  # its first row
ROUNDED = secfc.Quantization(centers="rounded")
WAYS = {
    "server": {"disclosure": secfc.OwnLabels()},
    "client": {"disclosure": secfc.OwnLabels("client-0")},
    "nobody": {"disclosure": secfc.OwnLabels(None)},
    "rounded": {"disclosure": secfc.OwnLabels(), "quantization": ROUNDED},
    "hidden sizes": {"disclosure": secfc.OwnLabels(sizes="hidden")},
}
# To the sum of cluster 0; rounded centers are within the range of rows that pass their test.
FAR = {"rounded": ((1 << 17, 0), (0, 3 << 16))}


def cluster_pairs(way, steps, **options):
    # Each part is played by one, so that what a member tells falsely is left to the check of products.
    alone = secfc.Threshold(1, deviating=0)
    settings = secfc.SecFC(k=2, threshold=alone, max_iter=steps, init=RandomPoints(), **WAYS[way])
    return secfc.fit(settings, federation(n=4, m=M, d=D), seed=3, **options)


def moving(offset):
    """Who deviates adds these integers (d,) to the sum of cluster 0, in the first step of secret labels."""
    real, moved = SecureMultiplication.reduced, []

    def reduced(self, match, steps, product, to, rows, width, verifier=None):
        if self.me == DEVIATING and verifier is not None and not moved:
            moved.append(match.question.round + steps.step)
            basis, code = self.plan.code.basis, self.plan.code
            responders = match.question.responders.tolist()
            alphas = tuple(code.alphas[j] for j in responders)
            weight = transfer_matrix(basis, alphas, code.betas[:1])[:, 0, responders.index(self.me)]
            for lane, p in enumerate(basis.primes):
                add = [int(x) * pow(int(weight[lane]), -1, p) for x in offset]
                product[lane, 0, :D] = [(int(x) + y) % p for x, y in zip(product[lane, 0], add, strict=True)]
        return real(self, match, steps, product, to, rows, width, verifier)

    return mock.patch.object(SecureMultiplication, "reduced", reduced), moved


def counted(honest, offset, other=(0, 0)):
    """How many rows are nearer to the moved center of cluster 0 than to that of cluster 1.

    other: the offset of that.
    """
    points = np.concatenate([honest.plan.quantizer(p.points) for p in federation(n=4, m=M, d=D).parties])
    points, own = points.astype(object), honest.flat == 0
    sums = (
        points[own].sum(axis=0) + np.array(offset, object),
        points[~own].sum(axis=0) + np.array(other, object),
    )
    sizes = int(own.sum()), int((~own).sum())
    far = [((points * sizes[h] - sums[h]) ** 2).sum(axis=1) * sizes[1 - h] ** 2 for h in (0, 1)]
    return int((far[0] <= far[1]).sum())


def shown(way, result):
    """How many rows are in cluster 0 after two steps; where sizes are hidden owners tell one another."""
    return int((result.flat == 0).sum()) if way == "hidden sizes" else result.sizes[2][0]


@pytest.mark.parametrize("way", ["server", "rounded", "hidden sizes", *by_night("client", "nobody")])
def test_without_the_check_sizes_count_rows_on_a_side_of_its_choice(way, monkeypatch):
    """Positive control: all parties end, and nobody complains."""
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    honest = cluster_pairs(way, 1)
    for offset in FAR.get(way, ((1 << 25, 0), (0, 3 << 24))):
        lie, moved = moving(offset)
        with lie:
            found = cluster_pairs(way, 2)
        assert moved
        assert shown(way, found) == counted(honest, offset) != counted(honest, (0, 0))


@pytest.mark.parametrize("way", ["server", "client", "rounded", "hidden sizes", *by_night("nobody")])
def test_it_is_refused_before_a_size_depends_on_it(way):
    rng = np.random.default_rng(5)
    for _ in range(short(2, nightly=100)):
        told = []

        def noting(e, told=told):
            if isinstance(e.body, SizeShare):
                told.append(e.round)
            return (e,)

        lie, moved = moving(rng.integers(1, 1 << 29, D).tolist())
        with lie, pytest.raises(SuspectedParties, match="do not fit the shares of labels and rows"):
            cluster_pairs(way, 2, faults=noting)
        assert told
        assert max(told) < moved[0]


@pytest.mark.parametrize("way", ["server", "rounded"])
def test_sizes_wait_for_the_check_of_sums_that_goes_on_while_members_compare(way, monkeypatch):
    """Words that fix replies, without which no member goes on, are told when a responder accepted sums."""
    run = cluster_pairs(way, 2, keep_bodies=True)
    question = max(e.round for e in run.transcript.envelopes if e.kind == "MaskedProducts") // STRIDE
    told = [e for e in run.transcript.envelopes if e.round // STRIDE == question]
    for responder in {e.sender for e in told if e.kind == "MaskedProducts"}:
        heard = [i for i, e in enumerate(told) if (e.kind, e.recipient) == ("ProductWords", responder)]
        said = [i for i, e in enumerate(told) if (e.kind, e.sender) == ("MaskedProducts", responder)]
        assert len(heard) == 2
        # Of rounded centers the sums that are divided are checked as well, and before.
        assert max(heard) < max(said)
    # Positive control: where nobody waits for that, sizes are told, and count rows as without the check.
    proving, finish = ComparisonSession.proving.fget, InterleavedRole.finish
    late = property(lambda self: [proving(self)[0], *range(700, 706)])
    monkeypatch.setattr(ComparisonSession, "proving", late)

    def finish_others(lanes, *rest):
        return finish([x for x in lanes if x.next is None or x.next.round % STRIDE < 700], *rest)

    monkeypatch.setattr(InterleavedRole, "finish", finish_others)
    offset = FAR.get(way, ((1 << 25, 0),))[0]
    lie, moved = moving(offset)
    with lie:
        found = cluster_pairs(way, 2)
    assert moved
    assert shown(way, found) == counted(cluster_pairs(way, 1), offset)


def relabeling(factor):
    """A member counts its first row so many times more in cluster 0, and so many times less in the other."""
    real = PartDealing.deal

    def deal(self, me, keys, secrets):
        if me == DEVIATING:
            (part,) = (each.copy() for each in secrets.values())
            for lane, p in enumerate(self.code.basis.primes):
                part[lane, OWN] = (int(part[lane, OWN]) + factor) % p
            secrets = dict.fromkeys(secrets, part)
        return real(self, me, keys, secrets)

    return mock.patch.object(PartDealing, "deal", deal)


def exchanging(pairs):
    """A member says of each pair of rows, once, that the first is in cluster 1, the second in cluster 0."""
    real, said = PartDealing.deal, []

    def deal(self, me, keys, secrets):
        if me == DEVIATING and not said:
            said.append(True)
            (part,) = (each.copy() for each in secrets.values())
            for lane, p in enumerate(self.code.basis.primes):
                for rows, factor in zip(np.transpose(pairs), (-1, 1), strict=True):
                    part[lane, rows] = (part[lane, rows].astype(np.int64) + factor) % p
            secrets = dict.fromkeys(secrets, part)
        return real(self, me, keys, secrets)

    return mock.patch.object(PartDealing, "deal", deal)


def test_a_member_exchanges_labels_of_rows_only_if_it_guesses_all_of_them_right():
    """What is left: one guess a run, of which any part that is wrong ends it; sizes stay what they are."""
    honest = cluster_pairs("server", 1)
    in_0, in_1 = (np.flatnonzero(honest.flat == h) for h in (0, 1))
    with exchanging([(in_0[0], in_1[0]), (in_0[1], in_1[1])]):
        assert (cluster_pairs("server", 2).sizes[1] == honest.sizes[1]).all()
    rng = np.random.default_rng(7)
    for _ in range(short(3, nightly=100)):
        first, second = rng.choice(in_0, 2, replace=False)
        other = rng.choice(in_1)
        # A row that is in the other cluster already, alone or beside a pair that is right.
        further = rng.choice(in_1[in_1 != other])
        for pairs in ([(other, first)], [(first, second)], [(first, other), (further, second)]):
            with exchanging(pairs), pytest.raises(SuspectedParties, match="do not fit the shares of labels"):
                cluster_pairs("server", 2)


def test_a_member_that_counts_its_row_often_is_refused_too(monkeypatch):
    with relabeling(-9), pytest.raises(SuspectedParties, match="do not fit the shares of labels and rows"):
        cluster_pairs("server", 2)
    # Positive control: without the check centers lie where it wants them.
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    honest = cluster_pairs("server", 1)
    row = honest.plan.quantizer(federation(n=4, m=M, d=D).parties[DEVIATING].points)[0].astype(object)
    with relabeling(-9):
        sizes = cluster_pairs("server", 2).sizes
    assert sizes[2][0] == counted(honest, -9 * row, 9 * row) != counted(honest, (0, 0))


def test_sizes_that_a_member_told_falsely_are_refused_before_a_center_has_them(monkeypatch):
    """Positive control: without the check the sums are divided by them."""
    sizes, real = cluster_pairs("server", 1).sizes[1], PartKeys.hide

    def hide(self, context, shares, basis=None):
        hidden = real(self, context, shares, basis)
        if basis is None or self.at != DEVIATING:
            return hidden
        return {q: basis.add(share, np.ones_like(share)) for q, share in hidden.items()}

    monkeypatch.setattr(PartKeys, "hide", hide)
    with pytest.raises(SuspectedParties, match="do not fit the shares of labels and rows"):
        cluster_pairs("server", 2)
    monkeypatch.setattr("field.code.product_check.ProductCheck.fits", lambda *_: True)
    assert cluster_pairs("server", 2).sizes[1][0] == sizes[0] + 1
