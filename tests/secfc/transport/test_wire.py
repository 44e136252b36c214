"""Messages as bytes: one encoding each, bounded, refusing everything else; whole runs over them."""

import asyncio
import contextlib
import dataclasses
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import psu
import secfc
from field import SeededCoins
from psu import messages as union
from secfc import kfed
from secfc.algorithm import PublicFacts
from secfc.coded import duplicates as merging
from secfc.coded import input_check as rows
from secfc.coded import joined
from secfc.coded import messages as dealing
from secfc.coded import messages as keeping
from secfc.coded import messages as own
from secfc.coded import messages as rounding
from secfc.coded import union as united
from secfc.coded.membership import Private
from secfc.coded.queries import Operation, Query
from secfc.coded_kmeans import plaintext
from secfc.data.inputs import with_parameters
from secfc.deploy import consent, session
from secfc.disclosure.checked import messages as checked
from secfc.disclosure.dealerless import steps as joint
from secfc.errors import FaultyClient, TooFewReplies
from secfc.feddp import messages as summing
from secfc.federated import plan as federated
from secfc.kmeans.loop import all_pairs
from secfc.kmeans.starts import RandomPoints
from secfc.overlap import messages as overlap
from secfc.roles import abort, agreement
from secfc.roles import messages as shared
from secfc.roles.exchange import SERVER, Envelope, Exchange
from secfc.scaling.roles import OpenedSumsDigest
from secfc.secure_sum import protocol, seeds
from secfc.transport import wire
from secfc.transport.handshake import Countersign, Greeting
from secfc.transport.network import Link, run_party
from secfc.transport.sealed import Sealed
from secfc.transport.simulate import simulate
from tests.loading import every_message
from tests.nightly import trials
from tests.secfc.queries import query
from tests.small import clustered

VECTORS = Path(__file__).parent.parent.parent / "vectors" / "wire.json"
CLASSES = every_message()

# --- every message, drawn --------------------------------------------------------------------------

i64 = st.integers(-(2**63), 2**63 - 1)
count = st.integers(0, 2**40)
DTYPES = st.sampled_from([np.dtype(code) for code in wire.DTYPES.values()])


def arrays(*, dtype=DTYPES, axes=(0, 3), elements=None):
    shape = npst.array_shapes(min_dims=axes[0], max_dims=axes[1], min_side=0, max_side=3)
    return npst.arrays(dtype, shape, elements=elements)


def exactly(size):
    return st.binary(min_size=size, max_size=size)


residue = st.integers(0, 2**61 - 2)


def residues(axes):
    return arrays(dtype=np.uint64, axes=(axes, axes), elements=residue)


def coded(ndim=3):
    return arrays(dtype=st.sampled_from([np.uint32, np.uint64]), axes=(ndim, ndim))


@st.composite
def requests(draw):
    k = draw(st.integers(1, 100))
    return own.RevealCenters(draw(st.integers(0, 2**63 - 1)), k, draw(vectors_of_labels(-1, k)))


def numbers(least=0):
    clients = st.lists(st.integers(0, 2**31 - 1), min_size=least, max_size=4, unique=True)
    return clients.map(lambda who: np.array(who, np.int32))


@st.composite
def details(draw, operation, k, m):
    """What only this operation is about."""
    match operation:
        case Operation.COMPARE_MOVED:
            moved = np.zeros(m, np.bool_)
            moved[draw(st.integers(0, m - 1))] = True
            return np.packbits(moved, bitorder="little")
        case Operation.LOSS:
            pairs = draw(st.sets(st.sampled_from(all_pairs(k).tolist()).map(tuple))) if k > 1 else ()
            return np.array(sorted(pairs), np.int32).reshape(-1, 2)
        case Operation.SPLIT:
            return np.full((k, draw(st.integers(1, 3))), draw(st.sampled_from([-1, 1])), np.int8)
        case Operation.SPLIT_GAIN:
            return np.resize(np.array([1, 2], np.int8), (draw(st.integers(1, 2)), k))
        case Operation.WITHIN:
            begin, end = sorted(draw(st.sets(st.integers(0, m), min_size=2, max_size=2)))
            other = sorted(draw(st.sets(st.integers(end, m), min_size=2, max_size=2))) if end < m else None
            square = draw(st.integers(0, 2**62))
            return np.array([square, begin, end, *(other or (begin, end))], np.int64)
        case Operation.NOISY_SUMS:
            return np.array(
                draw(st.lists(st.integers(0, 2**62), min_size=2 + k, max_size=2 + 3 * k)), np.int64
            )
    return None


@st.composite
def queries(draw, operation):
    """Any query of an operation."""
    traits, compares = operation.traits, operation.opens != "distances"
    k = draw(st.integers(1, 6)) * (2 if traits.halves or operation is Operation.SPLIT_GAIN else 1)
    labels = draw(vectors_of_labels(0 if traits.everywhere else -1, k))
    if operation is Operation.WITHIN:
        labels = np.arange(k, dtype=labels.dtype)
    if operation is Operation.NOISY_SUMS:
        labels = np.full_like(labels, -1)
    if operation is Operation.COMPARE_MOVED:
        labels = np.resize(labels, max(1, len(labels)))
    more = {"detail": draw(details(operation, k, len(labels)))}
    if operation.shared:
        step = draw(st.integers(0 if operation.opens == "sizes" else 1, 2**40))
        sizes = draw(npst.arrays(np.int64, k, elements=st.integers(1, 2**40)))
        groups = draw(st.permutations(range(k)).map(np.array))
        more["at"] = draw(st.integers(0, 2**40)), step, sizes, groups
    if compares and (operation.compares or operation.shared or draw(st.booleans())):
        more["members"] = draw(numbers(1))
        more["corrected"] = draw(st.integers(0, len(more["members"]) - 1))
    if traits.factors:
        more["factor"] = draw(st.integers(1, 2**40))
    number = draw(st.integers(0, 2**63 - 1))
    return query(operation.kind, number, k, labels, draw(numbers()), **more)


def vectors_of_labels(lowest, k):
    dtypes = st.sampled_from([np.int8, np.int32, np.int64])
    return arrays(dtype=dtypes, axes=(1, 1), elements=st.integers(lowest, k - 1))


def centers(k):
    floats = st.floats(-(2.0**400), 2.0**400)
    return st.tuples(k, st.integers(0, 3)).flatmap(lambda s: npst.arrays(np.float64, s, elements=floats))


@st.composite
def finals(draw):
    k = draw(st.integers(1, 3))
    shown = draw(st.none() | centers(st.just(k)))
    if shown is not None and draw(st.booleans()):
        shown[0] = np.nan
    return shared.FinalResult(k, draw(vectors_of_labels(0, k)), shown)


@st.composite
def merged(draw):
    shown = draw(centers(st.integers(1, 3)))
    return kfed.CenterLabels(draw(vectors_of_labels(0, len(shown))), shown)


@st.composite
def multiplicities(draw):
    return united.Multiplicities(
        draw(npst.arrays(np.uint16, draw(st.integers(0, 5)), elements=st.integers(1, 9)))
    )


@st.composite
def disputes(draw):
    return united.Disputes(np.array(sorted(draw(st.sets(st.integers(0, 9)))), np.int64))


@st.composite
def ends(draw):
    sizes = draw(npst.arrays(np.int64, st.integers(1, 4), elements=st.integers(0, 2**40)))
    return own.RunEnded(sizes, draw(st.none() | npst.arrays(np.float64, (len(sizes), 2), elements=finite)))


@st.composite
def tossed(draw):
    there = draw(npst.arrays(np.bool_, st.integers(0, 4)))
    values = npst.arrays(np.uint8, (int(there.sum()), 32), elements=st.integers(0, 255))
    return agreement.TossedCoins(there, draw(values))


@st.composite
def turns(draw):
    n = draw(st.integers(0, 3))
    vector = npst.arrays(np.uint64, n, elements=residue)
    quorum = tuple(sorted(draw(st.sets(st.integers(0, 2**32 - 1), max_size=3))))
    pure = npst.arrays(np.uint8, n, elements=st.integers(1, 15))
    return union.Turn(
        draw(st.text(max_size=4)), draw(count), draw(st.integers(1, 2**63 - 1)), quorum,
        draw(exactly(32)), draw(vector), draw(vector), draw(pure),
    )  # fmt: skip


@st.composite
def tags(draw):
    n = draw(st.integers(0, 3))
    vector = npst.arrays(np.uint64, n, elements=residue)
    return union.UnionTags(draw(vector), draw(vector))


def summed():
    return arrays(dtype=st.sampled_from([np.uint32, np.uint64]), axes=(2, 2))


finite = st.floats(-1e100, 1e100)


@st.composite
def projects(draw):
    p, d, s = (draw(st.integers(0, 3)) for _ in range(3))
    projection, proxies = (
        draw(npst.arrays(np.float64, shape, elements=finite)) for shape in ((d, p), (s, p))
    )
    return summing.Project(projection, proxies, draw(st.tuples() | st.tuples(st.integers(1, 2**32 - 1))))


@st.composite
def groups_about(draw):
    k, p, d = (draw(st.integers(0, 3)) for _ in range(3))
    centers, origins = (draw(npst.arrays(np.float64, shape, elements=finite)) for shape in ((k, p), (k, d)))
    reach, bounds = draw(st.integers(1, 2**60)), draw(st.tuples(st.just(7)))
    return summing.GroupAbout(centers, origins, reach, bounds, draw(st.booleans()))


@st.composite
def choices(draw):
    shape = [draw(st.integers(low, 3)) for low in (2, 1, 1)]
    starts = draw(npst.arrays(np.float64, tuple(shape), elements=finite))
    return summing.Choose(starts, draw(st.integers(1, 2**60)), draw(st.tuples(st.just(7))))


@st.composite
def hidings(draw):
    blocks = draw(st.integers(0, 3))
    masks = draw(npst.arrays(np.int32, blocks))
    return rows.MaskChoice(draw(exactly(32)), masks, draw(npst.arrays(np.bool_, (blocks, 5))))


@st.composite
def results(draw):
    k = draw(st.integers(1, 3))
    sizes = draw(npst.arrays(np.int64, k, elements=st.integers(0, 2**40)))
    return shared.InputPartyResult(
        draw(vectors_of_labels(0, k)), sizes, draw(st.none() | centers(st.just(k)))
    )


@st.composite
def local_centroids(draw):
    shown = draw(centers(st.integers(1, 3)))
    rows = npst.arrays(np.int64, len(shown), elements=st.integers(1, 2**40))
    return overlap.LocalCentroids(shown, draw(rows))


@st.composite
def local_groups(draw):
    k = draw(st.integers(1, 3))
    return overlap.LocalGroups(k, draw(vectors_of_labels(-1, k)))


@st.composite
def centroid_shares(draw):
    dtype = draw(st.sampled_from([np.uint32, np.uint64]))
    values, zeros = (draw(arrays(dtype=dtype, axes=(n, n))) for n in (3, 4))
    return overlap.CentroidShares(values, zeros)


@st.composite
def coded_apart(draw):
    counts = npst.arrays(np.int64, draw(st.integers(1, 3)), elements=st.integers(1, 9))
    return overlap.CodedPairDistances(draw(summed()), draw(counts))


def some_known():
    floats = st.floats(-(2.0**400), 2.0**400) | st.just(np.nan)
    return arrays(dtype=np.float64, axes=(2, 2), elements=floats)


@st.composite
def aligned_centroids(draw):
    shown = draw(centers(st.integers(0, 3)))
    rows = draw(npst.arrays(np.int64, len(shown), elements=st.integers(0, 2**40)))
    shown[rows == 0] = np.nan
    return overlap.AlignedCentroids(shown, rows)


@st.composite
def local_gaussians(draw):
    a, r, s = (draw(st.integers(low, 3)) for low in (1, 0, 0))
    box = draw(st.sampled_from([0, 2]))
    shapes = ((a, s), (a, s), (a, r, s), (a, box, s))
    means, variances, factors, boxes = (
        draw(npst.arrays(np.float64, shape, elements=finite)) for shape in shapes
    )
    rows = draw(npst.arrays(np.int64, a, elements=st.integers(1, 2**40)))
    return overlap.LocalGaussians(means, np.abs(variances), rows, factors, boxes)


binary, text = st.binary(max_size=20), st.text(max_size=6)
MESSAGES = {
    shared.Hello: st.builds(shared.Hello, binary),
    united.Introduction: st.builds(united.Introduction, exactly(32)),
    own.PublicKey: st.builds(own.PublicKey, exactly(32)),
    united.Multiplicities: multiplicities(),
    united.Disputes: disputes(),
    joined.KeptRows: st.builds(joined.KeptRows, npst.arrays(bool, st.integers(0, 20)), st.integers(0, 9)),
    own.RowShares: st.builds(own.RowShares, count, coded(), coded()),
    merging.DivisionShares: st.builds(merging.DivisionShares, coded(), coded()),
    merging.MaskedRows: st.builds(merging.MaskedRows, coded()),
    merging.DividedRows: st.builds(merging.DividedRows, coded(), coded(2)),
    rows.MaskChoice: hidings(),
    rows.TossedSeed: st.builds(rows.TossedSeed, exactly(32)),
    rows.ContributorsDigest: st.builds(rows.ContributorsDigest, exactly(32)),
    shared.PlanDigest: st.builds(shared.PlanDigest, exactly(32)),
    shared.InputPartyResult: results(),
    rows.ProjectedShares: st.builds(
        rows.ProjectedShares, arrays(dtype=np.bool_, axes=(1, 1)), coded(), coded()
    ),
    own.DealingChallenge: st.builds(own.DealingChallenge, exactly(32) | exactly(0)),
    own.BlindingShares: st.builds(own.BlindingShares, coded(2)),
    own.CheckedDistances: st.builds(own.CheckedDistances, coded(), coded()),
    shared.Contributors: st.builds(shared.Contributors, arrays(dtype=np.bool_, axes=(1, 1))),
    own.CodedDistances: st.builds(own.CodedDistances, coded(), further=st.none() | coded(2)),
    own.MaskSeed: st.builds(own.MaskSeed, exactly(32)),
    own.MaskedDistances: st.builds(own.MaskedDistances, coded(), further=st.none() | coded(2)),
    own.MaskedSum: st.builds(own.MaskedSum, coded(), further=st.none() | coded(2)),
    checked.CheckDealing: st.builds(
        checked.CheckDealing, st.binary(min_size=32, max_size=32), coded(2), st.binary(max_size=80)
    ),
    checked.CheckedPart: st.builds(
        lambda values, coin, seed: checked.CheckedPart(values, coin, seed[: 16 * (not values.shape[1])]),
        coded(2),
        exactly(32),
        exactly(16),
    ),
    checked.ProductWords: st.builds(checked.ProductWords, coded(2)),
    checked.OwnersHeard: st.builds(
        checked.OwnersHeard,
        st.sets(st.integers(0, 2**31 - 1), max_size=4).map(lambda who: np.array(sorted(who), np.int32)),
    ),
    checked.PartShares: st.builds(
        checked.PartShares, coded(2), st.binary(max_size=48), st.binary(max_size=80)
    ),
    checked.PartDigests: st.builds(checked.PartDigests, st.binary(max_size=40), st.binary(max_size=80)),
    checked.CheckCoin: st.builds(checked.CheckCoin, st.binary(min_size=32, max_size=32)),
    checked.RepliesFixed: st.builds(checked.RepliesFixed, st.binary(min_size=16, max_size=16)),
    checked.CheckDigest: st.builds(checked.CheckDigest, st.binary(min_size=32, max_size=32)),
    checked.MaskedRow: st.builds(
        lambda values, tag: checked.MaskedRow(values, tag[: 16 * (not values.shape[3])]),
        coded(4),
        exactly(16),
    ),
    checked.MaskedProducts: st.builds(checked.MaskedProducts, coded()),
    checked.MaskSums: st.builds(checked.MaskSums, coded(2)),
    checked.PartSums: st.builds(checked.PartSums, coded(2)),
    rounding.MaskedCenters: st.builds(rounding.MaskedCenters, coded(), further=st.none() | coded(2)),
    dealing.Corrections: st.builds(dealing.Corrections, arrays(dtype=np.uint64, axes=(1, 1))),
    dealing.RequestCorrections: st.builds(dealing.RequestCorrections, st.integers(1, 2**31 - 1)),
    own.MaskedBits: st.builds(
        own.MaskedBits,
        arrays(dtype=st.sampled_from([np.uint32, np.uint64])),
        st.binary(max_size=40),
        st.binary(),
    ),
    own.LabelShare: st.builds(own.LabelShare, arrays(dtype=np.uint64, axes=(2, 2)), st.binary(max_size=80)),
    own.MissingMessages: st.builds(
        own.MissingMessages,
        count,
        st.lists(st.integers(0, 2**31 - 1), max_size=4, unique=True).map(lambda who: np.array(who, np.int32)),
    ),
    joint.SeatDigest: st.builds(joint.SeatDigest, exactly(32)),
    joint.WitnessedBits: st.builds(
        joint.WitnessedBits, arrays(dtype=np.uint64, axes=(3, 3)), st.sampled_from((b"", bytes(range(16))))
    ),
    joint.SetKeys: st.builds(joint.SetKeys, npst.arrays(np.uint8, st.tuples(st.integers(0, 3), st.just(16)))),
    checked.ResharedPart: st.builds(checked.ResharedPart, arrays(dtype=np.uint32, axes=(2, 2))),
    keeping.SizeShare: st.builds(
        keeping.SizeShare, arrays(dtype=np.uint32, axes=(2, 2)), st.booleans(), st.binary(max_size=80)
    ),
    keeping.OwnShare: st.builds(
        keeping.OwnShare, arrays(dtype=np.uint64, axes=(2, 2)), st.binary(max_size=80)
    ),
    keeping.SelectedRowShare: st.builds(keeping.SelectedRowShare, arrays(dtype=np.uint32, axes=(2, 2))),
    own.RevealSums: st.builds(own.RevealSums, count, st.integers(1, 2**40)),
    own.RunEnded: ends(),
    own.CodedGains: st.builds(
        own.CodedGains, arrays(dtype=np.uint32, axes=(2, 2)), further=st.none() | coded(2)
    ),
    own.CodedCosts: st.builds(own.CodedCosts, arrays(dtype=np.uint32, axes=(2, 2))),
    own.RevealCenters: requests(),
    **{operation: queries(operation) for operation in Operation},
    own.CodedCenters: st.builds(own.CodedCenters, coded()),
    own.NoiseShares: st.builds(own.NoiseShares, coded(), st.binary(min_size=32, max_size=32)),
    shared.FinalResult: finals(),
    session.Arrival: st.builds(session.Arrival, st.integers(0, session.MOST_ROWS), st.integers(-399, 400)),
    session.AllArrivals: st.integers(0, 4).map(lambda n: session.AllArrivals(np.arange(n), np.arange(n))),
    consent.SignedConsent: st.builds(
        consent.SignedConsent,
        st.binary(min_size=2, max_size=40),
        st.binary(min_size=64, max_size=64),
        st.binary(min_size=32, max_size=32),
    ),
    consent.SealedDecision: st.builds(
        consent.SealedDecision, st.binary(min_size=12, max_size=12), st.binary(min_size=16, max_size=40)
    ),
    session.ClusterGroups: st.builds(session.ClusterGroups, vectors_of_labels(-1, 1)),
    session.NewRows: st.builds(session.NewRows, st.integers(0, session.MOST_ROWS), st.integers(0, 2**62 - 1)),
    abort.Abort: st.builds(
        abort.Abort,
        st.text("ABCxyz", min_size=1, max_size=40),
        st.text(max_size=8),
        st.integers(0, 2**30),
    ),
    plaintext.RawPoints: st.builds(
        plaintext.RawPoints, arrays(dtype=st.sampled_from([np.int16, np.int64]), axes=(2, 2))
    ),
    kfed.LocalCenters: st.builds(kfed.LocalCenters, centers(st.integers(0, 3))),
    kfed.CenterLabels: merged(),
    kfed.PointLabels: st.builds(kfed.PointLabels, vectors_of_labels(0, 100)),
    protocol.SumShares: st.builds(protocol.SumShares, summed(), exactly(0) | exactly(16) | exactly(32)),
    seeds.ShareSeed: st.builds(seeds.ShareSeed, exactly(32) | exactly(64)),
    protocol.CodedSum: st.builds(protocol.CodedSum, summed()),
    protocol.SumDigest: st.builds(protocol.SumDigest, exactly(32) | exactly(0)),
    protocol.LastDigest: st.builds(protocol.LastDigest, exactly(0) | exactly(16) | exactly(48)),
    OpenedSumsDigest: st.builds(OpenedSumsDigest, exactly(32)),
    summing.Project: projects(),
    summing.GroupAbout: groups_about(),
    summing.Choose: choices(),
    summing.Narrow: st.builds(
        summing.Narrow, npst.arrays(np.float64, 3, elements=st.floats(1e-9, 1e9)), st.integers(0, 2)
    ),
    overlap.LocalCentroids: local_centroids(),
    overlap.LocalGroups: local_groups(),
    federated.SharedTotals: st.builds(federated.SharedTotals, summed(), exactly(32)),
    federated.RunKey: st.builds(federated.RunKey, exactly(32)),
    overlap.GlobalCentroids: st.builds(overlap.GlobalCentroids, some_known(), st.booleans()),
    overlap.AlignedCentroids: aligned_centroids(),
    overlap.LocalGaussians: local_gaussians(),
    overlap.CentroidShares: centroid_shares(),
    overlap.CodedPairDistances: coded_apart(),
    agreement.Commitment: st.builds(agreement.Commitment, exactly(32)),
    agreement.Coin: st.builds(agreement.Coin, exactly(32)),
    agreement.TossedCoins: tossed(),
    summing.NoisyCenters: st.builds(
        summing.NoisyCenters, arrays(dtype=np.float64, axes=(2, 2), elements=finite)
    ),
    summing.NoisyLabels: st.builds(
        summing.NoisyLabels, st.lists(st.integers(0, 90)).map(lambda given: np.array(given, np.int8))
    ),
    union.Offer: st.builds(union.Offer, count, exactly(32), exactly(64)),
    union.KeyPacket: st.builds(union.KeyPacket, count, count, binary),
    union.ShareBlock: st.builds(union.ShareBlock, count, count, text, count, binary),
    union.MaskedBlock: st.builds(union.MaskedBlock, count, text, count, residues(2)),
    union.Turn: turns(),
    union.Opening: st.builds(union.Opening, count, text, st.integers(1, 2**40), residues(2)),
    union.Begin: st.builds(union.Begin, count, count),
    union.UnionTags: tags(),
    union.Confirmation: st.builds(union.Confirmation, count, count, binary),
    union.HeldOnce: st.builds(union.HeldOnce, st.integers(0, 2**61 - 2)),
    union.EvaluationKey: st.builds(union.EvaluationKey, count, exactly(32)),
    union.Blinded: st.builds(union.Blinded, count, count, binary),
    union.Evaluated: st.builds(union.Evaluated, count, count, binary),
    Greeting: st.builds(Greeting, exactly(32), exactly(32), exactly(32), exactly(32), exactly(64)),
    Countersign: st.builds(Countersign, st.binary(min_size=144, max_size=500)),
    Sealed: st.builds(Sealed, count, st.binary(min_size=16, max_size=40)),
}
# Of queries every operation by itself.
KINDS = [*(cls for cls in CLASSES if cls is not Query), *Operation]
every_message = pytest.mark.parametrize("cls", KINDS, ids=lambda c: getattr(c, "kind", None) or c.__name__)


def equal(a, b):
    """The same class, and the same fields down to dtypes and bits."""
    if type(a) is not type(b):
        return False
    for field in dataclasses.fields(a):
        x, y = getattr(a, field.name), getattr(b, field.name)
        if dataclasses.is_dataclass(x):
            if not equal(x, y):
                return False
        elif isinstance(x, np.ndarray):
            if x.dtype != y.dtype or x.shape != y.shape or x.tobytes() != y.tobytes():
                return False
        elif type(x) is not type(y) or x != y:
            return False
    return True


def test_every_message_class_has_a_tag():
    assert len(CLASSES) > 50
    modules = (
        (own, shared.Message),
        (summing, shared.Message),
        (agreement, shared.Message),
        (union, union.Message),
    )
    for module, base in modules:
        for cls in vars(module).values():
            if isinstance(cls, type) and issubclass(cls, base) and cls is not base:
                assert wire.registry().get(cls.tag) is cls, f"{cls.__name__} has no tag"


def test_every_message_says_what_it_is():
    for cls in CLASSES:
        assert re.match(r"[A-Z].{20,}", cls.meaning()), cls.__name__


def test_a_tag_is_taken_once_and_never_again():
    with pytest.raises(TypeError, match="tag=26, which Hello has: take another"):
        type("Intruder", (shared.Message,), {}, tag=26)
    for tag in (129, 0, 1 << 16):
        with pytest.raises(TypeError, match="never used"):
            type("Intruder", (shared.Message,), {}, tag=tag)
    assert wire.registry()[26] is shared.Hello


def test_a_message_does_not_inherit_its_tag():
    heir = type("Heir", (shared.Hello,), {})
    with pytest.raises(wire.WireError, match="Heir has no tag"):
        wire.encode(heir(b"x"))


@every_message
def test_round_trip_and_exact_size(cls):
    strategy = MESSAGES.get(cls)
    if strategy is None:
        pytest.fail(f"say in MESSAGES how {cls} is drawn")

    @trials(15)
    @given(strategy)
    def law(message):
        data = wire.encode(message)
        assert wire.encoded_size(message) == len(data) == sum(map(len, wire.buffers(message)))
        again = wire.decode(data)
        assert equal(again, message)
        assert wire.encode(again) == data
        assert again.nbytes == message.nbytes

    law()


@every_message
def test_truncations_extensions_and_bit_flips_are_refused_or_are_other_messages(cls):
    @trials(10)
    @given(MESSAGES[cls], st.integers(0, 2**32))
    def law(message, seed):
        whole = wire.encode(message)
        for end in range(len(whole)):
            with pytest.raises(wire.WireError):
                wire.decode(whole[:end])
        with pytest.raises(wire.WireError, match="left over"):
            wire.decode(whole + b"\0")
        # All flips of the fixed encodings are tried below; of these a sample.
        for bit in np.random.default_rng(seed).integers(0, 8 * len(whole), 50).tolist():
            refused_or_another(whole, bit)

    law()


def refused_or_another(whole, bit):
    flipped = bytearray(whole)
    flipped[bit // 8] ^= 1 << bit % 8
    try:
        other = wire.decode(bytes(flipped))
    except wire.WireError:
        return
    assert wire.encode(other) == flipped


@given(st.binary(max_size=80), st.sampled_from(sorted(c.tag for c in CLASSES)))
def test_garbage_is_refused_or_canonical(noise, tag):
    data = bytes([wire.VERSION]) + tag.to_bytes(2, "little") + noise
    try:
        message = wire.decode(data)
    except wire.WireError:
        return
    assert wire.encode(message) == data


# --- fixed encodings --------------------------------------------------------------------------------


def asked():
    """Queries, one of every operation at least."""
    k2, k4 = np.array([0, 1], np.int8), np.array([0, 3], np.int8)
    who, members = np.array([0, 3], np.int32), np.array([4, 1], np.int32)

    def two(kind, run, step, sizes, groups, detail=None):
        at = run, step, np.array(sizes), np.array(groups)
        return query(kind, 12, 2, k2, who, who, 1, at=at, detail=detail)

    return [
        query("DistanceQuery", 7, 2, np.array([0, 1, -1], np.int8), who),
        query("HalfDistanceQuery", 8, 4, k4, who),
        query("CompareQuery", 9, 2, np.array([0, -1], np.int8), who, members, 1, 9),
        query("CompareHalvesQuery", 9, 4, k4, who, members),
        query("CompareOwnQuery", 9, 4, k4, who, members),
        query("CompareMovedQuery", 9, 4, k4, who, members, detail=np.array([2], np.uint8)),
        query("CostQuery", 10, 2, k2, who),
        query("CostQuery", 10, 2, k2, who, members, 1),
        query("GainQuery", 10, 4, k4, who),
        query("LossQuery", 10, 3, np.array([0, 2, 1], np.int8), who, detail=np.array([[0, 2]], np.int32)),
        two("LloydStepQuery", 0, 0, [1, 1], [0, 1]),
        two("SplitQuery", 0, 0, [1, 1], [0, 1], np.array([[1], [-1]], np.int8)),
        two("SplitGainQuery", 0, 1, [1, 1], [0, 1], np.array([[1, 2]], np.int8)),
        two("ClusterCostQuery", 1, 2, [2, 0], [1, -1]),
        two("ExplainedQuery", 1, 2, [2, 0], [0, -1]),
        two("DeliverLabels", 1, 2, [2, 0], [0, -1]),
        two("RevealLabels", 0, 2, [0, 0], [0, 1]),
        query("PredictLabels", 12, 2, k2, who, who, 1),
        query(
            "WithinQuery", 9, 2, np.array([0, 1], np.int8), who, members, detail=np.array([25, 0, 1, 1, 2])
        ),
        query(
            "NoisySumsQuery", 9, 1, np.array([-1], np.int8), who, members, detail=np.array([0, 40, -7, 1, 1])
        ),
    ]


def examples():
    """One message of every class, two of what has options."""
    z = np.array([3, 2**61 - 2], np.uint64)
    return [
        shared.Hello(bytes(range(32))),
        united.Introduction(bytes(32)),
        united.Multiplicities(np.array([1, 2], np.uint16)),
        joined.KeptRows(np.array([True, False]), 3),
        own.RowShares(5, np.arange(6, dtype=np.uint32).reshape(2, 1, 3), np.ones((2, 1, 2), np.uint32)),
        own.CodedDistances(np.arange(4, dtype=np.uint64).reshape(1, 2, 2)),
        own.CodedDistances(
            np.arange(4, dtype=np.uint32).reshape(1, 2, 2), further=np.array([[8, 9]], np.uint32)
        ),
        own.RevealCenters(8, 2, np.array([0, 1], np.int8)),
        own.CodedCenters(np.zeros((1, 0, 3), np.uint32)),
        shared.FinalResult(2, np.array([1, 0], np.int8), None),
        shared.FinalResult(1, np.array([0], np.int16), np.array([[0.5, -2.0]])),
        plaintext.RawPoints(np.array([[1, -2]], np.int32)),
        kfed.LocalCenters(np.array([[1.5]])),
        kfed.CenterLabels(np.array([0], np.int32), np.array([[2.5]])),
        kfed.PointLabels(np.array([1, 1], np.int32)),
        union.Offer(1, bytes(32), bytes(64)),
        union.KeyPacket(0, 1, b"sealed"),
        union.ShareBlock(0, 1, "cells/0/9", 2, b"sealed"),
        union.MaskedBlock(1, "lines/0/9", 0, z.reshape(1, 2)),
        union.Turn("cells/0/9", 1, 2, (0, 2, 3), bytes(32), z, z, np.array([1, 15], np.uint8)),
        union.Opening(2, "cells/0/9", 3, z.reshape(2, 1)),
        union.Begin(0, 100),
        union.UnionTags(z, z),
        union.Confirmation(0, 1, b"sealed"),
        union.HeldOnce(2**61 - 2),
        union.EvaluationKey(3, bytes(32)),
        union.Blinded(1, 0, b"elements"),
        union.Evaluated(0, 2, b"elements and a proof"),
        Greeting(bytes(32), bytes(32), bytes(32), bytes(32), bytes(64)),
        Countersign(bytes(144)),
        Sealed(7, bytes(range(20))),
        shared.Contributors(np.array([True, False])),
        own.PublicKey(bytes(32)),
        own.NoiseShares(np.array([[[5]], [[6]]], np.uint32), bytes(range(32))),
        own.DealingChallenge(bytes(range(32))),
        own.DealingChallenge(b""),
        rows.MaskChoice(bytes(32), np.array([0, 2], np.int32), np.array([[True, False], [True, True]])),
        rows.TossedSeed(bytes(range(32))),
        rows.ContributorsDigest(bytes(range(32))),
        shared.PlanDigest(bytes(range(32))),
        shared.InputPartyResult(np.array([1, 0], np.int8), np.array([4, 2]), None),
        shared.InputPartyResult(np.zeros(0, np.int8), np.array([4, 2]), np.array([[1.5], [np.nan]])),
        rows.ProjectedShares(
            np.array([True, False]),
            np.arange(4, dtype=np.uint32).reshape(1, 2, 2),
            np.arange(4, dtype=np.uint32).reshape(2, 2, 1),
        ),
        own.BlindingShares(np.arange(6, dtype=np.uint32).reshape(2, 3)),
        own.CheckedDistances(np.zeros((1, 1, 2), np.uint64), np.ones((1, 2, 1), np.uint64)),
        own.MaskSeed(bytes(range(32))),
        own.MaskedDistances(np.arange(4, dtype=np.uint32).reshape(1, 2, 2)),
        own.MaskedDistances(
            np.arange(4, dtype=np.uint32).reshape(1, 2, 2), further=np.array([[8, 9]], np.uint32)
        ),
        own.MaskedSum(np.arange(4, dtype=np.uint32).reshape(1, 2, 2)),
        own.MaskedSum(np.arange(4, dtype=np.uint32).reshape(1, 2, 2), further=np.array([[8, 9]], np.uint32)),
        checked.CheckDealing(bytes(range(32)), np.array([[5, 6]], np.uint32), b"seed"),
        checked.CheckedPart(np.array([[5, 6]], np.uint32), bytes(range(32))),
        checked.ProductWords(np.array([[5, 6, 7]], np.uint32)),
        checked.OwnersHeard(np.array([0, 2], np.int32)),
        checked.PartDigests(b"heard", b"parts"),
        checked.PartShares(np.array([[5, 6]], np.uint32), b"seeds", b"digests"),
        checked.CheckCoin(bytes(range(32))),
        checked.CheckDigest(bytes(range(32))),
        checked.RepliesFixed(bytes(range(16))),
        checked.MaskedRow(np.arange(4, dtype=np.uint32).reshape(1, 2, 1, 2)),
        checked.MaskedProducts(np.array([[[5], [6]]], np.uint32)),
        checked.MaskSums(np.array([[5, 6]], np.uint32)),
        checked.PartSums(np.array([[5, 6]], np.uint32)),
        rounding.MaskedCenters(np.arange(4, dtype=np.uint32).reshape(1, 2, 2)),
        rounding.MaskedCenters(
            np.arange(4, dtype=np.uint32).reshape(1, 2, 2), further=np.array([[8, 9]], np.uint32)
        ),
        dealing.Corrections(np.array([1, 2**63], np.uint64)),
        dealing.RequestCorrections(1),
        own.MaskedBits(np.array([[[2**64 - 1]]], np.uint64), b"coin", b"heard"),
        own.LabelShare(np.array([[5], [6]], np.uint64), b"digests"),
        own.MissingMessages(2, np.array([3], np.int32)),
        own.CodedGains(np.array([[1, 2]], np.uint32), further=np.array([[3]], np.uint32)),
        own.CodedCosts(np.array([[1, 2]], np.uint32)),
        joint.SeatDigest(bytes(range(32))),
        joint.WitnessedBits(np.array([[[1, 2**63]]], np.uint64), bytes(range(16))),
        joint.WitnessedBits(np.empty((0, 1, 2), np.uint64), bytes(range(16))),
        joint.SetKeys(np.arange(32, dtype=np.uint8).reshape(2, 16)),
        checked.ResharedPart(np.array([[1, 2, 3]], np.uint32)),
        keeping.SizeShare(np.array([[5]], np.uint32), False),
        keeping.OwnShare(np.array([[5], [6]], np.uint64)),
        keeping.SelectedRowShare(np.array([[5, 6]], np.uint32)),
        own.RevealSums(13, 2),
        abort.Abort("TooFewReplies", "server", 7),
        session.Arrival(37, -3),
        session.AllArrivals(np.array([37, 2]), np.array([-3, 5])),
        consent.SignedConsent(b"{}", bytes(range(64)), bytes(range(32))),
        consent.SealedDecision(bytes(12), bytes(range(20))),
        session.NewRows(4, 2),
        session.ClusterGroups(np.array([0, -1, 1])),
        own.RunEnded(np.array([2, 0]), None),
        own.RunEnded(np.array([2, 0]), np.array([[0.5], [np.nan]])),
        protocol.SumShares(np.arange(4, dtype=np.uint32).reshape(2, 2)),
        protocol.SumShares(np.arange(4, dtype=np.uint32).reshape(2, 1, 2), bytes(16)),
        seeds.ShareSeed(bytes(range(64))),
        protocol.SumDigest(bytes(range(32))),
        protocol.SumDigest(b""),
        protocol.CodedSum(np.ones((1, 3), np.uint32)),
        protocol.LastDigest(bytes(range(32))),
        OpenedSumsDigest(bytes(range(32))),
        summing.Project(np.ones((2, 1)), np.zeros((1, 1)), (3,)),
        summing.GroupAbout(np.ones((1, 1)), np.zeros((1, 2)), 5, (), True),
        summing.Choose(np.ones((2, 1, 2)), 9, ()),
        summing.Narrow(np.array([0.5, -2.0, 3.5]), 1),
        overlap.LocalCentroids(np.array([[0.5, -2.0]]), np.array([7])),
        overlap.LocalGroups(3, np.array([2, -1], np.int32)),
        federated.SharedTotals(np.arange(3, dtype=np.uint32).reshape(1, 3), bytes(range(32))),
        federated.RunKey(bytes(range(32))),
        overlap.GlobalCentroids(np.array([[0.5, np.nan]]), True),
        overlap.AlignedCentroids(np.array([[0.5], [np.nan]]), np.array([3, 0])),
        overlap.LocalGaussians(
            np.ones((1, 2)), np.ones((1, 2)), np.array([4]), np.ones((1, 1, 2)), np.zeros((1, 2, 2))
        ),
        overlap.CentroidShares(np.ones((1, 1, 2), np.uint32), np.zeros((1, 1, 2, 2), np.uint32)),
        overlap.CodedPairDistances(np.arange(4, dtype=np.uint32).reshape(1, 4), np.array([2, 2])),
        summing.NoisyCenters(np.ones((1, 2))),
        summing.NoisyLabels(np.array([1, 0], np.int8)),
        agreement.Commitment(bytes(range(32))),
        agreement.Coin(bytes(range(32))),
        agreement.TossedCoins(np.array([True, False]), np.arange(32, dtype=np.uint8).reshape(1, 32)),
        united.Disputes(np.array([1, 4], np.int64)),
        merging.DivisionShares(*(np.full((1, 2, 3), value, np.uint32) for value in (7, 8))),
        merging.MaskedRows(np.full((1, 2, 3), 7, np.uint32)),
        merging.DividedRows(np.full((1, 2, 2), 7, np.uint32), np.ones((1, 2), np.uint32)),
        *asked(),
    ]


def vectors():
    """The contents of tests/vectors/wire.json; to write it anew: python -m
    tests.secfc.transport.test_wire.
    """
    return {
        "description": "Encodings of secfc.transport.wire, in hexadecimal, of the messages in "
        "tests/secfc/transport/test_wire.py::examples. An encoding never changes; a new layout is a new "
        "version.",
        "version": wire.VERSION,
        "encodings": [[repr(m), wire.encode(m).hex()] for m in examples()],
    }


def test_encodings_never_change():
    assert json.loads(VECTORS.read_text()) == vectors()
    assert {type(m) for m in examples()} == set(CLASSES)


def test_fixed_encodings_decode_and_every_flip_of_them_is_refused_or_another():
    for message, (_, code) in zip(examples(), json.loads(VECTORS.read_text())["encodings"], strict=True):
        whole = bytes.fromhex(code)
        assert equal(wire.decode(whole), message)
        for bit in range(8 * len(whole)):
            refused_or_another(whole, bit)


# --- what is refused --------------------------------------------------------------------------------


def patched(message, at, *values):
    data = bytearray(wire.encode(message))
    data[at : at + len(values)] = values
    return bytes(data)


NOBODY = np.zeros(0, np.int32)
TURN = next(message for message in examples() if isinstance(message, union.Turn))
BARE = query("DistanceQuery", 0, 2, np.zeros(1, np.int8), NOBODY)
POINTS = plaintext.RawPoints(np.zeros((1, 2), np.int64))  # 3 bytes, dtype, axes, two lengths, 3 of padding


@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (b"", "bytes are missing"),
        (patched(POINTS, 0, 2), "version 2 is not spoken"),
        (patched(POINTS, 1, 255, 255), "no message has tag 65535"),
        (patched(POINTS, 3, 99), "no dtype has this code"),
        (patched(POINTS, 4, 9), "at most 8 axes"),
        (patched(POINTS, 5, *[255] * 8), "too many elements"),
        (patched(POINTS, 5, *[0] * 8, *[255] * 8), "too many elements"),
        (patched(POINTS, 5, 2), "bytes are missing"),
        (patched(POINTS, 21, 1), "padding is zero"),
        (patched(shared.FinalResult(1, np.zeros(1, np.int8), None), 25, 2), "presence is 0 or 1"),
        (patched(shared.Hello(b"x"), 10, 255), "bytes are missing"),
        (patched(union.Opening(0, "ab", 1, np.zeros((1, 1), np.uint64)), 19, 255), "UTF-8"),
        (patched(shared.Contributors(np.zeros(1, bool)), 16, 2), "a bool is 0 or 1"),
        (patched(BARE, 32, 5), "the fields of Query break its rules"),
        (patched(BARE, 11, 99), r"Subject.operation, Operation: no Operation has this number"),
        (patched(BARE, 11, 9), "the fields of Query break its rules"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_the_rule(data, rule):
    with pytest.raises(wire.WireError, match=rule):
        wire.decode(data)


def test_size_is_bounded_before_anything_is_read():
    data = wire.encode(POINTS)
    wire.decode(data, len(data))
    with pytest.raises(wire.WireError, match="more than the 39 allowed"):
        wire.decode(data, len(data) - 1)


class Field(shared.Message):
    """A message of any array."""

    values: np.ndarray


@pytest.mark.parametrize(
    ("message", "rule"),
    [
        (object(), "object has no tag"),
        (shared.Hello("text"), r"Hello.description, bytes: it is no bytes"),
        (Field([1]), "it is no array"),
        (Field(np.zeros(1, complex)), "dtype has no code"),
        (Field(np.array([object()])), "dtype has no code"),
        (Field(np.zeros((1,) * 9)), "at most 8 axes"),
        (union.Begin(True, 0), "it is no integer"),
        (union.Begin(2**63, 0), "64 bits"),
        (union.Begin(1.0, 0), "it is no integer"),
        (union.Confirmation(0, 1, memoryview(b"x")), "it is no bytes"),
        (union.ShareBlock(0, 1, b"label", 0, b""), "it is no string"),
        (union.ShareBlock(0, 1, "\ud800", 0, b""), "UTF-8"),
        (dataclasses.replace(TURN, quorum=(-1, 2)), "no sign"),
        (dataclasses.replace(TURN, quorum=(1.5,)), "items are integers"),
        (dataclasses.replace(TURN, quorum=[1]), "it is no tuple"),
    ],
)
def test_what_is_no_message_is_not_encoded(message, rule, monkeypatch):
    monkeypatch.setattr(Field, "tag", 1000)
    with pytest.raises(wire.WireError, match=rule):
        wire.encode(message)


def test_fields_of_other_types():
    @dataclasses.dataclass
    class Flag:
        on: bool
        name: str | None

    kinds = dict(wire._schema(Flag))
    for value in (True, False):
        out = wire._Writer()
        kinds["on"].put(out, value)
        assert kinds["on"].read(wire._Reader(memoryview(b"".join(out.parts)))) is value
    with pytest.raises(wire.WireError, match="0 or 1"):
        kinds["on"].read(wire._Reader(memoryview(b"\2")))
    with pytest.raises(wire.WireError, match="no bool"):
        kinds["on"].put(wire._Writer(), 1)
    assert kinds["name"].name == "str or none"
    with pytest.raises(TypeError, match="teach"):
        wire._kind(list[int])


def test_errors_show_rules_and_no_contents():
    labels = np.full(3, 77, np.int8)
    data = wire.encode(query("DistanceQuery", 0, 78, labels, NOBODY)).replace(
        (78).to_bytes(8, "little"), bytes([75] + [0] * 7)
    )
    with pytest.raises(wire.WireError) as caught:
        wire.decode(data)
    assert "75" not in str(caught.value)
    assert caught.value.__suppress_context__


# --- arrays ------------------------------------------------------------------------------------------


def test_large_arrays_are_views_of_what_came_and_read_only():
    data = wire.encode(own.CodedDistances(np.arange(1 << 16, dtype=np.uint64).reshape(1, 1, -1)))
    values = wire.decode(data).values
    assert np.shares_memory(values, np.frombuffer(data, np.uint8))
    assert not values.flags.writeable
    assert not wire.decode(bytearray(data)).values.flags.writeable
    # From an odd address the elements would not be aligned, so they are copied.
    shifted = wire.decode(memoryview(b"x" + data)[1:]).values
    assert shifted.flags.aligned
    assert not shifted.flags.writeable
    assert (shifted == values).all()


def test_encoding_in_pieces_copies_no_contiguous_array():
    values = np.arange(1 << 12, dtype=np.uint32).reshape(1, 1, -1)
    pieces = wire.buffers(own.CodedDistances(values))
    assert np.shares_memory(np.frombuffer(max(pieces, key=len), np.uint8), values)


@pytest.mark.parametrize(
    "turn", [np.transpose, lambda a: a[::-1, :, ::2], lambda a: a.astype(">u4"), np.array]
)
def test_layout_in_memory_and_byte_order_do_not_show(turn):
    values = turn(np.arange(24, dtype=np.uint32).reshape(2, 3, 4))
    again = wire.decode(wire.encode(own.CodedDistances(values))).values
    assert again.dtype == np.dtype("<u4")
    assert (again == values).all()


# --- whole runs ------------------------------------------------------------------------------------


def coins(name):
    return SeededCoins(1, name)


RUNS = {
    "open": secfc.SecFC(
        k=3,
        threshold=secfc.Threshold(1, 2),
        init=RandomPoints(),
        release=secfc.Release(reveal_centers=True),
        disclosure=secfc.Distances(),
    ),
    "private": secfc.SecFC(k=3, threshold=1, init=RandomPoints(), membership=Private(bound=256)),
    "private, server": secfc.SecFC(k=3, threshold=1, membership=Private(psu.Server(), bound=256)),
    "kfed": secfc.KFed(k=3, k_local=2),
    "lloyd": secfc.Lloyd(k=3, init=RandomPoints()),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_over_bytes_equals_a_run_over_objects(name):
    plain = secfc.fit(RUNS[name], clustered(), coins=coins, keep_bodies=True)
    wired = secfc.fit(RUNS[name], clustered(), coins=coins, keep_bodies=True, faults=wire.over_wire())
    assert all((a == b).all() for a, b in zip(plain.labels, wired.labels, strict=True))
    assert len(plain.history) == len(wired.history)
    assert all((a == b).all() for a, b in zip(plain.history, wired.history, strict=True))
    assert plain.cost == wired.cost
    for a, b in zip(plain.transcript.envelopes, wired.transcript.envelopes, strict=True):
        assert a.header() == b.header()
        assert equal(a.body, b.body)
        assert a.body is not b.body


def test_bytes_that_are_no_message_are_blamed_on_their_sender(monkeypatch):
    def break_one(e):
        return (dataclasses.replace(e, body=shared.Hello("text")),) if e.sender == "client-3" else (e,)

    with pytest.raises(FaultyClient, match="client-3 sent bytes that are no message"):
        secfc.fit(RUNS["open"], clustered(), faults=wire.over_wire(break_one))
    with pytest.raises(FaultyClient, match="more than the 20 allowed"):
        secfc.fit(RUNS["open"], clustered(), faults=wire.over_wire(maximum=20))
    monkeypatch.setattr(shared.Message, "nbytes", 8)
    with pytest.raises(RuntimeError, match="Hello claims 8 bytes of contents and has 9"):
        list(wire.over_wire()(Envelope(0, "a", "b", "Hello", 8, "", shared.Hello(b"x" * 9))))


# --- over sockets -----------------------------------------------------------------------------------


async def mesh(parties):
    """TCP connections on the loopback between every two parties: links[a][b] is a's end."""
    links = {a: {} for a in parties}
    for i, a in enumerate(parties):
        accepted = asyncio.Queue()
        server = await asyncio.start_server(lambda r, w, q=accepted: q.put_nowait(Link(r, w)), "127.0.0.1", 0)
        for b in parties[i + 1 :]:
            links[b][a] = Link(*await asyncio.open_connection(*server.sockets[0].getsockname()))
            links[a][b] = await accepted.get()
        server.close()
    return links


def over_sockets(roles, **options):
    """What every role returns, or the error it raised; connections that break stay so."""
    options = {"rejoin": 0.0, **options}

    async def converse():
        links = await mesh(list(roles))
        parties = [run_party(role, links[name], **options) for name, role in roles.items()]
        return await asyncio.wait_for(asyncio.gather(*parties, return_exceptions=True), 60)

    return dict(zip(roles, asyncio.run(converse()), strict=True))


def roles_of(algorithm, fed, seed=0):
    # Two unions with the same session number their rows alike.
    plan = algorithm.plan(dataclasses.replace(PublicFacts.of(fed), session=bytes(32), seed=0))
    roles = {p.name: algorithm.client(plan, p, coins=coins(p.name)) for p in fed.parties}
    roles[SERVER] = algorithm.server(plan, rng=np.random.default_rng(seed), coins=SeededCoins(seed, SERVER))
    return roles


@pytest.mark.parametrize("name", ["open", "private"])
def test_sockets_give_what_the_simulation_gives(name):
    expected = simulate(roles_of(RUNS[name], clustered())).results
    got = over_sockets(roles_of(RUNS[name], clustered()))
    assert all(not isinstance(result, Exception) for result in got.values()), got
    for party, result in expected.items():
        if party != SERVER:
            assert (got[party].labels == result.labels).all()
    assert len(got[SERVER].trace.history) == len(expected[SERVER].trace.history)
    for a, b in zip(got[SERVER].trace.history, expected[SERVER].trace.history, strict=True):
        assert (a == b).all()


def chatter(peer, steps):
    for number in range(steps):
        yield Exchange({peer: shared.Hello(bytes([number % 256]))}, round=number)
        if number % 3 == 0:  # again, with other contents: the first counts
            yield Exchange({peer: shared.Hello(b"x")}, round=number)
    return "said"


def listener(peer, steps):
    heard = []
    for number in range(0, steps, 2):  # every other message is late and dropped
        inbox = yield Exchange({}, (peer,), round=number)
        heard.append(inbox[peer].description[0])
    return heard


def test_a_fast_peer_waits_and_late_messages_are_dropped():
    got = over_sockets({"a": chatter("b", 500), "b": listener("a", 500)})
    assert got == {"a": "said", "b": [n % 256 for n in range(0, 500, 2)]}


def test_silent_and_absent_peers_do_not_hang_a_party():
    def asks(enough):
        return (yield Exchange({}, ("b", "c"), enough))

    def speaks():
        yield Exchange({"a": shared.Hello(b"x")})

    def sleeps():
        yield Exchange({}, ("a",))

    # c never speaks: time is up; then: b suffices; then: c leaves at once.
    got = over_sockets({"a": asks(None), "b": speaks(), "c": sleeps()}, patience=0.3)
    assert set(got["a"]) == {"b"}
    got = over_sockets({"a": asks(1), "b": speaks(), "c": sleeps()}, patience=2.0, grace=0.1)
    assert set(got["a"]) == {"b"}
    got = over_sockets({"a": asks(None), "b": speaks(), "c": (x for x in ())}, patience=20.0)
    assert set(got["a"]) == {"b"}


NOISE = {
    "too large": (101).to_bytes(8, "little") + bytes(8),
    "no message": (3).to_bytes(8, "little") + bytes(8) + b"abc",
    "no round": (3).to_bytes(8, "little") + (-7).to_bytes(8, "little", signed=True),
    "no word": bytes(8) + (-6).to_bytes(8, "little", signed=True),
}


@pytest.mark.parametrize("noise", NOISE.values(), ids=NOISE)
def test_bytes_that_are_no_message_break_a_connection_and_blame_nobody(noise):
    def asks():
        return dict((yield Exchange({}, ("client-1",), round=1)))

    def says():
        yield Exchange({"client-0": shared.Hello(b"genuine")}, round=1)

    async def converse(renewed):
        links = await mesh(["client-0", "client-1"])
        mine, bad = links["client-0"]["client-1"], links["client-1"]["client-0"]
        bad.channel.writer.write(noise)
        options = {"patience": 20, "maximum": 100, "rejoin": 5.0 if renewed else 0.3}
        hearing = asyncio.create_task(run_party(asks(), {"client-1": mine}, **options))
        with contextlib.suppress(OSError):  # perhaps a word on how far it is, and then it breaks
            while await bad.channel.read(100):
                pass
        if renewed:
            fresh = await mesh(["client-0", "client-1"])
            mine.renew_connection(fresh["client-0"]["client-1"].channel)
            await run_party(says(), {"client-0": fresh["client-1"]["client-0"]}, **options)
        bad.channel.abort()
        return await asyncio.wait_for(hearing, 10)

    assert asyncio.run(converse(False)) == {}
    assert asyncio.run(converse(True))["client-1"].description == b"genuine"


def test_noise_over_one_connection_after_the_other_gains_no_time():
    def asks():
        return dict((yield Exchange({}, ("client-1",), round=1)))

    async def converse():
        links = await mesh(["client-0", "client-1"])
        mine, number = links["client-0"]["client-1"], 0
        options = {"patience": 20, "maximum": 100, "rejoin": 0.5}
        hearing = asyncio.create_task(run_party(asks(), {"client-1": mine}, **options))
        while not hearing.done():
            fresh = await mesh(["client-0", "client-1"])
            bad = fresh["client-1"]["client-0"].channel
            await bad.write(b"\xff" * 50)
            mine.renew_connection(fresh["client-0"]["client-1"].channel)
            await asyncio.sleep(0.1)
            bad.abort()
            number += 1
        links["client-1"]["client-0"].channel.abort()
        await asyncio.sleep(0)
        return hearing.result(), number

    got, number = asyncio.run(converse())
    assert got == {}
    assert 3 <= number < 20


def test_every_flipped_byte_of_a_header_is_silence():
    data = wire.encode(shared.Hello(bytes(32)))
    header = len(data).to_bytes(8, "little") + (5).to_bytes(8, "little", signed=True)

    def asks():
        return (yield Exchange({}, ("client-1",), round=5))

    async def converse(at):
        links = await mesh(["client-0", "client-1"])
        link = links["client-1"]["client-0"]
        flipped = bytearray(header)
        flipped[at] ^= 1 << at % 8
        link.channel.writer.write(bytes(flipped) + data)
        try:
            return await asyncio.wait_for(
                run_party(asks(), links["client-0"], patience=0.1, rejoin=0, maximum=100), 20
            )
        finally:
            await link.channel.close()

    assert [asyncio.run(converse(at)) for at in range(16)] == [{}] * 16


def test_three_lost_replies_of_five_are_too_few_over_sockets():
    def mute(role):
        exchange = next(role)
        while True:
            send = {to: m for to, m in exchange.send.items() if not isinstance(m, own.CodedDistances)}
            try:
                exchange = role.send((yield dataclasses.replace(exchange, send=send)))
            except StopIteration as done:
                return done.value

    roles = roles_of(with_parameters(RUNS["open"], ell=1), clustered())
    for name in ("client-0", "client-1", "client-2"):
        roles[name] = mute(roles[name])
    got = over_sockets(roles, patience=0.7)
    assert isinstance(got[SERVER], TooFewReplies)


if __name__ == "__main__":
    VECTORS.write_text(json.dumps(vectors(), indent=1) + "\n")
