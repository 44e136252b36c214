"""What each coalition of the table sees of a step on shared labels: what it could have drawn by itself.

A simulator that knows the first labels, the sizes, when labels stopped changing and the labels of the
coalition's own points draws every other number that the coalition receives uniformly, but for the last share
of a sum that it knows.  The test of that: the same points over many runs, so that only masks vary; of every
residue and word at its place how often its leading half is one, and of linear combinations of what two
colluding clients hold of one polynomial.  Statistics of all places of a message are added up.
"""

from functools import cache, reduce
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import chi2

import secfc
from field.code import masking
from field.compare import correlated_randomness
from field.compare.bitslice import unpack_bits
from field.ring.basis import LANE_PRIMES
from secfc.disclosure.checked import parts
from secfc.disclosure.compare import computing_party
from secfc.disclosure.owner_labels.multiplication import SecureMultiplication
from secfc.kmeans.starts import GivenLabels
from secfc.roles.exchange import SERVER
from tests.nightly import by_night, short
from tests.secfc.disclosure.test_owner_labels import tell_owners
from tests.small import cluster

N, T, M = 6, 2, 24  # committee client-0, 1, 2; responders client-0 to 4; client-5 owns points only
RUNS, FEW = short(24, nightly=200), 8  # in few runs controls show, as thousands of places are added up
FALSE_ALARM = 1e-9  # of each kind of message of each sender to each recipient
P = LANE_PRIMES[0]
START = np.arange(M) % 2
POINTS = np.where(np.arange(M) % 3 == 0, 4.0, -4.0)[:, None] + np.arange(M)[:, None] / 16
DATA = secfc.Federation.from_arrays(np.array_split(POINTS, N))


def once(deviating=0, **parameters):
    return tell_owners(DATA, k=2, t=T, deviating=deviating, init=GivenLabels(START), max_iter=2, **parameters)


def halves(values):
    """One bit of each residue or word at its place: of residues below (p - 1) / 2 or above."""
    if values.dtype == np.uint64:
        return unpack_bits(values, 64 * values.shape[-1]).reshape(-1)
    primes = np.array(LANE_PRIMES[: len(values)], np.int64).reshape(-1, *[1] * (values.ndim - 1))
    return (2 * values.astype(np.int64) > primes).reshape(-1).astype(np.uint8)


def numbers(message):
    """What a message of residues or words says, where it is to be uniform."""
    return message.words if hasattr(message, "words") else message.values


def seen(results, coalition, kinds):
    """By kind, sender and recipient, which message of theirs it is, and shape: bits (runs, places)."""
    found = {}
    for result in results:
        count = {}
        for e in result.transcript.envelopes:
            if e.kind in kinds and e.recipient in coalition and e.sender not in coalition:
                key = e.kind, e.sender, e.recipient
                count[key] = count.get(key, 0) + 1
                bits = halves(numbers(e.body))
                if not bits.size:
                    continue
                found.setdefault((*key, count[key], bits.size), []).append(bits)
    return {key: np.stack(bits) for key, bits in found.items()}


def uniform(bits):
    """Whether each place is one in about half of the runs: (runs, places) of 0 and 1."""
    runs = len(bits)
    off = 4 * (bits.sum(axis=0) - runs / 2) ** 2 / runs
    return off.sum() < chi2.isf(FALSE_ALARM, off.size)


def used(kind, bits):
    """The places of a message that are not padding: of a row of digits of own labels four bits."""
    places = np.arange(bits.shape[1])
    return places[places % 64 < M // N] if kind == "OwnShare" else places


def labeled(count):
    """Runs, and by client the share of labels that it had in the second step of each, the first on secret
    ones, if it responded."""
    found, answer = {}, SecureMultiplication.labeled

    def spy(self, match, steps, *held):
        share = yield from answer(self, match, steps, *held)
        if share is not None and match.question.at.step == 1:
            found.setdefault(self.me, []).append(share[0, :-1].astype(np.int64))
        return share

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SecureMultiplication, "labeled", spy)
        return [once() for _ in range(count)], found


@pytest.fixture(scope="module")
def both():
    return labeled(RUNS)


@pytest.fixture
def runs(both):
    return both[0]


COALITIONS = {
    "two members": (("client-0", "client-1"), {"MaskedDistances", "MaskedSum", "MaskedBits", "ResharedPart"}),
    "two members that check": (("client-0", "client-1"), {"CheckDealing", "MaskedRow", "MaskedProducts"}),
    "a member and a responder": (
        ("client-2", "client-4"),
        {"MaskedSum", "MaskedBits", "ResharedPart", "PartShares"},
    ),
    "two owners": (("client-4", "client-5"), {"ResharedPart", "PartShares", "OwnShare"}),
    "the dealer": ((SERVER,), {"SizeShare"}),
    "the dealer with two outsiders": (
        (SERVER, "client-3", "client-4"),
        {"SizeShare", "ResharedPart", "PartShares"},
    ),
}


def verdicts(results, name):
    """Whether what a coalition sees is uniform, by kind, sender, recipient and number of the message."""
    coalition, kinds = COALITIONS[name]
    found = seen(results, coalition, kinds)
    return {key: uniform(bits[:, used(key[0], bits)]) for key, bits in found.items()}


@pytest.mark.parametrize("name", COALITIONS)
def test_what_a_coalition_receives_could_have_been_drawn(runs, name):
    found = verdicts(runs, name)
    assert {key[0] for key in found} == COALITIONS[name][1]
    assert all(found.values()), [key for key, good in found.items() if not good]


@pytest.mark.parametrize("name", ["two members", "two owners", "the dealer"])
def test_where_two_play_each_part_it_could_have_been_drawn_as_well(name):
    """Of four members any two miss one of six parts."""
    found = verdicts(played_by_two(), name)
    assert {key[0] for key in found} >= COALITIONS[name][1] - {"MaskedSum"}  # client-0 tells that alone
    assert all(found.values()), [key for key, good in found.items() if not good]


@cache
def played_by_two():
    results = [once(1) for _ in range(FEW)]
    members = {e.sender for e in results[0].transcript.envelopes if e.kind == "PartDigests"}
    assert len(members) == T + 2
    return results


def test_what_members_open_could_have_been_drawn(runs):
    assert all(uniform(bits) for bits in opened(runs))


def opened(results):
    """What members open of words in each exchange, as bits (runs, places)."""
    found = []
    for result in results:
        by = {}
        for e in result.transcript.envelopes:
            if e.kind == "MaskedBits" and e.body.words.dtype == np.uint64:
                by.setdefault(e.round, {})[e.sender] = e.body.words
        assert all(len(shares) == T + 1 for shares in by.values())
        found.append([halves(reduce(np.bitwise_xor, by[number].values())) for number in sorted(by)])
    return [np.stack(bits) for bits in zip(*found, strict=True)]


def together(both):
    """Whether combinations of what two outsiders hold of the labels are uniform: their sum, their difference,
    and what a line through both would be at the secret."""
    results, found = both
    assert len(results) == len(found[3]) == len(found[4])
    for weights in combinations_of(results[0].plan.code):
        pairs = zip(found[3], found[4], strict=True)
        bits = [2 * ((weights[0] * a % P + weights[1] * b % P) % P) > P for a, b in pairs]
        yield uniform(np.stack(bits).reshape(len(bits), -1).astype(np.uint8))


def test_two_outsiders_together_see_two_values_of_a_polynomial_with_two_of_noise(both):
    assert all(together(both))


def test_labels_dealt_with_noise_of_degree_one_show(monkeypatch):
    def thin(code):
        return SimpleNamespace(basis=code.basis, ell=code.ell, t=1, betas=code.betas, alphas=code.alphas)

    # Who responds and is in the committee has the seed of a share; one more is told the share that follows.
    real = parts.PartDealing.seeded
    monkeypatch.setattr(parts.PartDealing, "seeded", lambda self, q: real(self, q)[:1])
    monkeypatch.setattr(parts, "deal_part", lambda code, *dealing: masking.deal_part(thin(code), *dealing))
    assert list(together(labeled(FEW))) == [True, True, False]


def combinations_of(code):
    """Weights of two values: of their sum, their difference, and the line through both at the secret."""
    a, b, at = code.alphas[3], code.alphas[4], code.betas[0]
    inverse = pow(b - a, -1, P)
    return (1, 1), (1, P - 1), ((b - at) * inverse % P, (at - a) * inverse % P)


@pytest.mark.parametrize(
    ("policy", "t"),
    [(secfc.FinalLabelsOnly(), 2), *by_night((secfc.FinalLabelsOnly(), 3), (secfc.OwnLabels(), 3))],
)
def test_what_the_first_t_members_receive_could_have_been_drawn(policy, t):
    """Whatever the policy, and however many may collude; a run that is repeated could not."""
    data = secfc.Federation.from_arrays(np.array_split(POINTS, 2 * t + 1))
    settings = {"k": 2, "t": t, "deviating": 0, "init": GivenLabels(START), "max_iter": 2}
    results = [cluster(data, policy, **settings) for _ in range(FEW)]
    coalition, kinds = data.names[:t], {"MaskedDistances", "MaskedSum", "MaskedBits", "ResharedPart"}
    found = seen(results, coalition, kinds)
    assert {key[0] for key in found} >= {"MaskedBits", "ResharedPart"}
    assert all(map(uniform, found.values())), [key for key, bits in found.items() if not uniform(bits)]
    assert not all(map(uniform, seen(results[:1] * FEW, coalition, {"ResharedPart"}).values()))


# --- what the tests would notice -------------------------------------------------------------------


def fails(name, kind, results):
    """Whether the test of a coalition refuses messages of this kind."""
    found = verdicts(results, name)
    return not all(good for key, good in found.items() if key[0] == kind)


def test_distances_without_masks_show(monkeypatch):
    def bare(basis, weights, shape, values, stream, threads):
        factors = np.broadcast_to(weights.reshape(-1, 1, 1), (basis.lanes, *shape))
        return basis.multiply(values(), factors.astype(basis.dtype))

    monkeypatch.setattr(computing_party.dealer_protocol, "mask_distances", bare)
    monkeypatch.setattr(
        computing_party.dealer_protocol,
        "total_mask",
        lambda basis, shape, streams: np.zeros((basis.lanes, *shape), np.uint32),
    )
    # The check of replies would notice.
    monkeypatch.setattr("field.code.reply_check.CheckWeights.fits", lambda *_: True)
    assert fails("a member and a responder", "MaskedSum", [once() for _ in range(FEW)])


def test_bits_without_masks_show(monkeypatch):
    monkeypatch.setattr(
        correlated_randomness.PartyRandomness, "masks", lambda self, shape: np.zeros(shape, np.uint64)
    )
    monkeypatch.setattr(
        correlated_randomness.DealerRandomness, "masks", lambda self, shape: np.zeros(shape, np.uint64)
    )
    assert not all(uniform(bits) for bits in opened([once() for _ in range(FEW)]))
