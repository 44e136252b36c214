"""Hidden membership against curious and careless parties: exploits work where just their check is removed."""

import contextlib
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import combinations, product

import numpy as np
import pytest

import psu
import secfc
from field import MERSENNE_61, SeededCoins
from field.secrets.channels import Stream, subkey
from psu import align, disjoint, kernels, masked, merge, opening, tables
from psu.identify import tags
from psu.keys import deal_keys
from psu.messages import HeldOnce, KeyPacket, UnionTags
from psu.plan import UnionPlan
from secfc.coded import union as alignment
from secfc.coded.membership import Private
from secfc.data.inputs import build_algorithm
from secfc.errors import FaultyServer, SharedIds, UnionFailed
from secfc.roles.exchange import SERVER
from tests.oracles import psu as reference
from tests.psu.test_steps import secrets_of

MODES = [psu.Committee(1), psu.Server()]


def named(arrays, names):
    return secfc.Federation.from_arrays(arrays, ids=names)


def collecting(kind):
    """A network that delivers everything, and the list of the server's messages of a kind that it fills."""
    seen = []

    def network(envelope):
        if envelope.recipient == SERVER and envelope.kind == kind:
            seen.append(envelope.body)
        return (envelope,)

    return network, seen


# --- fingerprints of data --------------------------------------------------------------------------


def with_equal_data():
    """Five clients; patients 0, 7 and 13 have the same data, patients 3 and 21 too, and 20 is held twice."""
    points = np.random.default_rng(0).integers(-8, 9, (24, 3)) + np.arange(24)[:, None] / 32
    points[[7, 13]], points[21] = points[0], points[3]
    parts = [*map(list, np.split(np.arange(24), [5, 10, 15, 20]))]
    parts[0].append(20)
    alike = {frozenset(pair) for pair in [(0, 7), (0, 13), (7, 13), (3, 21)]}
    return named([points[p] for p in parts], [[f"patient {i}" for i in p] for p in parts]), parts, alike


def pairs_with_equal_fingerprints(federation, parts):
    """What a server that follows the protocol finds in its own messages: pairs of rows of equal s1 / s0.

    Its rows are pseudonyms; they are translated into patients for the comparison only.
    """
    network, uploads = collecting("MaskedBlock")
    result = secfc.fit(
        secfc.SecFC(k=2, threshold=1, membership=Private(psu.Server())), federation, faults=network
    )
    m, q = len(result.history[0]), MERSENNE_61
    blocks = [block.values for block in uploads if block.sheet == f"spread/0/{m}"]
    s0, s1, _ = np.sum([block.astype(object) for block in blocks], axis=0).T % q
    prints = [int(b) * pow(int(a), -1, q) % q for a, b in zip(s0, s1, strict=True)]
    patients = {}
    for part, rows in zip(parts, result.rows, strict=True):
        patients |= dict(zip(rows.tolist(), part, strict=True))
    found = [(a, b) for a, b in combinations(range(m), 2) if prints[a] == prints[b]]
    return {frozenset((patients[a], patients[b])) for a, b in found}


def test_the_server_finds_no_pair_of_rows_with_equal_data():
    federation, parts, _ = with_equal_data()
    assert pairs_with_equal_fingerprints(federation, parts) == set()


def test_it_finds_every_pair_where_fingerprints_are_not_bound_to_the_id(monkeypatch):
    federation, parts, alike = with_equal_data()
    monkeypatch.setattr(merge, "bind_digests", lambda data, ids: data)
    assert pairs_with_equal_fingerprints(federation, parts) == alike


@pytest.mark.parametrize("mode", MODES)
def test_holders_of_one_id_are_still_compared(mode):
    federation, _, _ = with_equal_data()
    other = federation.parties[4].points.copy()
    other[0, 1] += 1.0
    arrays = [p.points for p in federation.parties[:4]] + [other]
    with pytest.raises(secfc.errors.DisputedRows, match="1 ID has different data"):
        secfc.fit(
            secfc.SecFC(k=2, threshold=1, membership=Private(mode)),
            named(arrays, [p.ids for p in federation.parties]),
        )


# --- disjoint IDs ----------------------------------------------------------------------------------


def sharing_points(counts, ids=True):
    """Five clients that hold point x at counts[x] of them; and the points."""
    rng = np.random.default_rng(0)
    points = rng.integers(-8, 9, (len(counts), 2)) + np.arange(len(counts))[:, None] / 64
    held = [[x for x, c in enumerate(counts) if (j - x) % 5 < c] for j in range(5)]
    names = [[f"patient {x}" for x in part] for part in held] if ids else None
    return named([points[part] for part in held], names), points


ONCE = [1] * 10
SHARED = {"one row twice": [2, *ONCE], "one row everywhere": [5, *ONCE], "all rows": [3] * 10}


def asking(mode, **more):
    return build_algorithm(
        secfc.SecFC, k=1, t=1, reveal_centers=True, membership=Private(mode, merge=False), **more
    )


def unchecked(monkeypatch):
    """Nobody asks whether IDs are disjoint."""

    def nothing(*_):
        yield from ()

    monkeypatch.setattr("secfc.coded.membership.require_disjoint", nothing)
    monkeypatch.setattr(alignment.UnionRelay, "require_disjoint", nothing)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("counts", SHARED.values(), ids=SHARED)
@pytest.mark.parametrize("ids", [True, False])
def test_shared_ids_are_refused_before_any_point_is_shared(mode, counts, ids):
    kinds = []

    def network(envelope):
        kinds.append(envelope.kind)
        return (envelope,)

    federation, _ = sharing_points(counts, ids)
    with pytest.raises(SharedIds, match=r"merge=False.*m=1[01] .*Private\(merge=True\)") as caught:
        secfc.fit(asking(mode), federation, faults=network)
    assert "patient" not in str(caught.value)
    assert not {"RowShares", "Multiplicities"} & set(kinds)


@pytest.mark.parametrize("mode", MODES)
def test_disjoint_ids_pass_and_a_row_that_one_client_holds_twice_is_one(mode):
    federation, points = sharing_points(ONCE)
    first, *others = (party.points for party in federation.parties)
    twice = secfc.Federation.from_arrays([np.concatenate([first, first[:1]]), *others])
    for case in (federation, twice):
        assert secfc.fit(asking(mode), case).centers[0] == pytest.approx(points.mean(axis=0), abs=1e-3)


@pytest.mark.parametrize("mode", MODES)
def test_without_the_question_a_shared_point_counts_as_a_multiple_of_itself(mode, monkeypatch):
    # The paper's plain sum clusters 2x where two clients hold x; nobody notices.
    unchecked(monkeypatch)
    federation, points = sharing_points([2, *ONCE])
    found = secfc.fit(asking(mode), federation, bound=32.0).centers[0]
    assert found == pytest.approx((points.sum(axis=0) + points[0]) / 11, abs=1e-3)
    assert found != pytest.approx(points.mean(axis=0), abs=1e-3)


def opened(mode, held, m):
    """What the relay gets from clients that hold these rows of m, and one client's secrets and the union."""
    plan = UnionPlan(len(held), mode, bytes(16), bound=8, sized=False)
    secrets, sheet = secrets_of(plan), disjoint.question_sheet()
    union = UnionTags(*np.arange(2 * m, dtype=np.uint64).reshape(2, m))
    made = [
        disjoint.question_table(plan, s, np.array(rows, int), union)
        for s, rows in zip(secrets, held, strict=True)
    ]
    if not plan.committee:
        state = masked.empty_tally(sheet)
        for s, table in zip(secrets, made, strict=True):
            state = masked.absorb_block(plan, state, masked.mask_chunk(plan, s, sheet, table, 0))
        return masked.unmasked_sum(plan, state)[:, 0].tolist(), secrets[0], union
    holdings = {i: tables.empty_holding(sheet) for i in plan.committee}
    for s, table in zip(secrets, made, strict=True):
        for i, block in tables.deal_blocks(plan, s, sheet, table, 0).items():
            holdings[i] = tables.absorb_block(plan, secrets[i], holdings[i], block)
    _, turn = opening.open_all_rows(sheet, opening.OpeningPoll(plan))
    answers = {}
    for i in plan.committee:
        settled = tables.settle_share(plan, secrets[i], holdings[i], range(plan.n))
        _, answers[i] = opening.open_rows(opening.begin_opening(plan, secrets[i], settled), turn)
    factors = np.zeros((2, len(plan.key_subsets)), np.uint64)
    label = f"{turn.sheet} {turn.number} {turn.quorum} {turn.history.hex()}"
    for column, subset in enumerate(plan.key_subsets):
        words = np.empty(2, np.uint64)
        Stream(subkey(secrets[subset[0]].common[subset], label)).fill(words)
        kernels.to_residues(words)
        factors[:, column] = words
    values = opening.gather_values(sheet, 2, turn, answers)[:, 0].tolist()
    return values, secrets[0], union, [sum(row) % MERSENNE_61 for row in factors.tolist()]


HELD = {
    "disjoint": [[0, 3], [1], [2, 4]],
    "one shared": [[0, 3], [1, 3], [2, 4]],
    "one shared, one held by nobody": [[0, 3], [1, 3], [2]],
    "all shared": [[0, 1, 2, 3, 4]] * 3,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("held", HELD.values(), ids=HELD)
def test_what_is_opened_is_what_the_law_below_speaks_of(mode, held):
    values, secrets, union, *factors = opened(mode, held, 5)
    rho = factors[0] if factors else [1, 1]
    counts = [sum(x in rows for rows in held) for x in range(5)]
    for row, value in enumerate(values):
        weights = np.empty(5, np.uint64)
        Stream(subkey(secrets.group, f"once {row} {union.digest.hex()}")).fill(weights)
        kernels.to_residues(weights)
        excess = reference.excess(counts, weights.tolist(), MERSENNE_61)
        assert value == (rho[row] * excess + row * disjoint.draw_pad(secrets)) % MERSENNE_61
    assert (values[0] == 0) == disjoint.held_once(values[1], secrets) == (held is HELD["disjoint"])
    assert not disjoint.held_once(0, secrets)  # as a server could say that knows no pad


P = 5


def naive_laws(counts):
    """Broken: the sum of all counts is opened."""
    return {0: Counter([sum(counts) % P])}


def server_laws(counts):
    """Server mode: what the server sees over all weights and pads, of which it knows none."""
    weights = list(product(range(P), repeat=len(counts)))
    e = [reference.excess(counts, w, P) for w in weights]
    shown = Counter(e)
    padded = Counter((x + pad) % P for x in e for pad in range(P))
    return {0: Counter({(a, b): shown[a] * padded[b] for a in shown for b in padded})}


def coalition_laws(counts):
    """Threshold mode: the same to a relay and clients who know weights and pad, but no rho, by the weights.

    Weights that happen to hide the excess (one in P) are another matter.
    """
    found = {}
    for weights in product(range(P), repeat=len(counts)):
        e = reference.excess(counts, weights, P)
        if e:
            found[0] = Counter(rho * e % P for rho in range(P))
    return found


CASES = [c for c in product(range(4), repeat=3) if c != (1, 1, 1)]


def test_the_law_of_what_is_opened_does_not_depend_on_which_rows_are_shared():
    for laws in (server_laws, coalition_laws):
        seen = [laws(c) for c in CASES]
        assert all(law == seen[0] for law in seen)
        assert len(set(seen[0][0].values())) == 1  # uniform
    assert set(server_laws((1, 1, 1))[0]) == {(0, b) for b in range(P)}
    assert coalition_laws((1, 1, 1)) == {}
    # Weights that hide an excess, of which the error is bounded, are as rare for all cases.
    hidden = {sum(reference.excess(c, w, P) == 0 for w in product(range(P), repeat=3)) for c in CASES}
    assert hidden == {P**2}


def test_that_law_catches_the_plain_sum():
    seen = [naive_laws(c) for c in CASES]
    assert any(law != seen[0] for law in seen)


@pytest.mark.parametrize("mode", MODES)
def test_the_number_of_shared_rows_alone_does_not_hide_them(mode, monkeypatch):
    # A client that leaves out as many rows as are shared, but others: the counts are 2, 0, 1.
    held = [[0], [0, 2], []]
    values, secrets, _, *_ = opened(mode, held, 3)
    assert values[0] != 0
    assert not disjoint.held_once(values[1], secrets)
    # Broken: every row has the same weight.
    monkeypatch.setattr(
        disjoint, "_weigh", lambda s, u, row, held, *, whole: int(held.sum()) - whole * len(held)
    )
    values, secrets, _, *_ = opened(mode, held, 3)
    assert disjoint.held_once(values[1], secrets)


def saying(word):
    """A server that opens nothing, tells clients this word and goes on."""

    def lie(relay, union):
        yield from relay.open(disjoint.question_sheet())
        yield relay.tell(HeldOnce(word))

    return lie


@pytest.mark.parametrize("mode", MODES)
def test_a_server_cannot_say_that_shared_ids_are_disjoint(mode, monkeypatch):
    federation, _ = sharing_points([2, *ONCE])
    for word in (0, 1, MERSENNE_61 - 1):
        monkeypatch.setattr(alignment.UnionRelay, "require_disjoint", saying(word))
        with pytest.raises(SharedIds):
            secfc.fit(asking(mode), federation)
    # Broken: a pad that the server knows.
    monkeypatch.setattr(disjoint, "draw_pad", lambda secrets: 17)
    monkeypatch.setattr(alignment.UnionRelay, "require_disjoint", saying(17))
    assert secfc.fit(asking(mode), federation, bound=32.0).converged


@pytest.mark.parametrize("mode", MODES)
def test_what_is_sent_does_not_depend_on_how_many_rows_are_shared(mode):
    def sent(counts):
        lines = []

        def network(e):
            asked = getattr(e.body, "sheet", None) == disjoint.question_sheet().label
            if asked or e.kind == "HeldOnce":
                lines.append((e.sender, e.recipient, e.kind, e.nbytes))
            return (e,)

        federation, _ = sharing_points(counts)
        with contextlib.suppress(SharedIds):
            secfc.fit(asking(mode), federation, faults=network)
        return Counter(lines)

    first = sent([2, *ONCE])
    assert first
    assert first == sent([5] * 4 + [1] * 7) == sent([1] * 11)


# --- parties that tell others different things ------------------------------------------------------


def key_of(client):
    return bytes([client]) * 32


def dealing_a_key_each(plan, ring, coins):
    """Client 0 deals a group key of its own to every client; in server mode there are no other keys."""
    if ring.me:
        return deal_keys(plan, ring, coins)
    return {j: KeyPacket(0, j, channel.seal("keys", key_of(j))) for j, channel in ring.channels.items()}


def owners_found(federation, union):
    """Whom client 0 finds to hold which of the patients that it can name, by the keys it dealt."""
    announced = set(zip(union.z.tolist(), union.y.tolist(), strict=True))
    found = {}
    for j, x in product(range(1, 5), range(30)):
        own, _ = tags(psu.digests([f"patient {x}"]), subkey(key_of(j), "tag"))
        if (int(own.z[0]), int(own.y[0])) in announced:
            found.setdefault(f"patient {x}", set()).add(j)
    return found


def test_a_client_that_deals_a_group_key_to_each_learns_nothing(monkeypatch):
    monkeypatch.setattr(alignment, "deal_keys", dealing_a_key_each)
    federation, _ = sharing_points([1, 2, 3, 1, 1, 2, 1, 4, 1, 1])
    way, seen = secfc.SecFC(k=2, threshold=1, membership=Private(psu.Server())), []

    def network(e):
        seen.append(e)
        return (e,)

    with pytest.raises(UnionFailed, match="different group keys") as caught:
        secfc.fit(way, federation, faults=network)
    assert not caught.value.proof
    assert not {"MaskedBlock", "UnionTags"} & {e.kind for e in seen}
    # Broken: nobody compares keys.  Client 0 reads off who holds what.
    monkeypatch.setattr(align, "check_confirmations", lambda *_: None)
    secfc.fit(way, federation, faults=network)
    told = next(e.body for e in seen if (e.recipient, e.kind) == ("client-0", "UnionTags"))
    truth = {}
    for j, party in enumerate(federation.parties[1:], 1):
        for name in party.ids:
            truth.setdefault(name, set()).add(j)
    assert owners_found(federation, told) == truth


def test_a_server_that_withholds_digests_cannot_tell_two_unions(monkeypatch):
    # It tells client 0 a union that puts its points on the rows of others, and lies about the holders.
    federation, _ = sharing_points(ONCE)
    way = secfc.SecFC(k=2, threshold=1, membership=Private(psu.Committee(1), counts="opened"))
    own, first = [], []  # client 0's tags, which the server would have to guess; the round of the keys

    def made(digest, key):
        own.append(tags(digest, key))
        return own[-1]

    def network(e):
        if e.kind == "Confirmation" and "client-0" in (e.sender, e.recipient):
            first.append(e.round)
            return (e if e.round == first[0] else replace(e, body=replace(e.body, sealed=b"withheld")),)
        if e.kind == "UnionTags" and e.recipient == "client-0":
            # Two low tags that are not client 0's go, and as many invented ones come at the end.
            mine, union = set(own[0][0].z.tolist()), e.body
            others = [i for i, z in enumerate(union.z.tolist()) if z not in mine][:2]
            fake, _ = tags(psu.digests(range(4000)), bytes(16))
            late = np.flatnonzero(fake.z > union.z.max())[:2]
            z = np.concatenate([np.delete(union.z, others), fake.z[late]])
            y = np.concatenate([np.delete(union.y, others), fake.y[late]])
            return (replace(e, body=UnionTags(z, y)),)
        return (e,)

    # To the simulation such a message came, so that nobody is taken for dead; to the client none did.
    numbered = alignment.by_client_number
    monkeypatch.setattr(
        alignment,
        "by_client_number",
        lambda inbox, *more: numbered(
            {c: m for c, m in inbox.items() if getattr(m, "sealed", b"") != b"withheld"}, *more
        ),
    )
    monkeypatch.setattr("secfc.coded.membership.tags", made)
    monkeypatch.setattr(merge, "count_holders", lambda values, n: np.ones(len(values), np.int64))
    monkeypatch.setattr(merge, "disagreeing_rows", lambda values: np.empty(0, np.int64))
    coins = partial(SeededCoins, 3)
    with pytest.raises(UnionFailed, match="did not confirm their union") as caught:
        secfc.fit(way, federation, faults=network, coins=coins)
    assert not caught.value.proof
    # Broken: a digest that does not come is taken for one that agrees.  Rows of two people become one.
    confirmed = align.check_confirmations
    monkeypatch.setattr(
        align, "check_confirmations", lambda s, u, others, due: confirmed(s, u, others, others)
    )
    own.clear()
    first.clear()
    rows = secfc.fit(way, federation, faults=network, bound=32.0, coins=coins).rows
    assert set(rows[0]) & {row for others in rows[1:] for row in others}


def test_a_server_cannot_announce_more_than_a_table_holds():
    federation, _ = sharing_points(ONCE)
    many, _ = tags(psu.digests(range(500)), bytes(16))

    def network(e):
        return (replace(e, body=UnionTags(many.z, many.y)) if e.kind == "UnionTags" else e,)

    way = secfc.SecFC(k=1, threshold=1, membership=Private(bound=20, sized=False))
    with pytest.raises(FaultyServer, match="more IDs than the table"):
        secfc.fit(way, federation, faults=network)
