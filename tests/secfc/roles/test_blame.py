"""One table decides loss or lie: every exchange has a row, roles doubt and runs end as it says."""

import ast
import contextlib
import dataclasses
import itertools
import json
from collections import Counter
from pathlib import Path

import pytest

from psu.blame import RELAY, UNION_TABLE, accuse_parties
from secfc.algorithm import PublicFacts
from secfc.deploy import session
from secfc.deploy.consent import consent_first
from secfc.errors import FaultyParty, TamperedMessage, TooFewReplies
from secfc.roles.agreement import Coin
from secfc.roles.blame import TABLE, Absence, find_row, suspect_parties
from secfc.roles.exchange import SERVER, Links
from secfc.roles.messages import Hello
from secfc.transport.simulate import simulate
from tests.house import nodes
from tests.loading import every_message
from tests.nightly import NIGHTLY, by_night, tonight
from tests.secfc.campaign import SCENARIOS, SEALED, Fault, M, Network, judge, leaves
from tests.secfc.deploy.test_consent import PARTIES, PINS, consents
from tests.secfc.option_space import option_scenarios
from tests.secfc.queries import OPERATIONS
from tests.test_house import SOURCES

VECTORS = Path(__file__).parents[2] / "vectors"
# How bad a row lets it become when a message is lost: all rows count, some do, the run ends.
WORST = {Absence.SPARED: 0, Absence.REPEATED: 0, Absence.EXCLUDED: 1, Absence.ENDS: 2}
# Who is indispensable and not heard ends every run.
ENDS = {"exact": 0, "Indispensable": 0, "exact on fewer rows": 1, "RowsLost": 1}
# The scenarios whose messages are of all kinds.
RUNS = {**SCENARIOS, **SEALED, **option_scenarios(sealed=False)}
SWEPT = [
    "noise in shares", "overlapping, distances", "lloyd", "Overlap1.rounds=1", "Overlap2.points=8",
    *by_night(
        "workers", "own labels, private", "one corrected", "bisecting, nobody deals", "private centers",
        "private centers, shared noise", "private centers, within a ball", "Private.tags='oblivious'",
        "own labels, nobody deals", "k-fed", "overlapping", "labels only, in blocks", "scaled", "pairs",
        "final labels, the server deals", "own labels", "own labels, rounded centers, a client deals",
        "Private.mode=Server()", "Private.merge=False", "Joined.mode=Server()", "k chosen",
        "own labels, predict", "k-fed, sealed", "shared centers",
    ),
]  # fmt: skip
# What no run of these is made of, and where it is lost.
ELSEWHERE = {
    "Arrival": "between organizations, below",
    "AllArrivals": "the same, of links: tests/secfc/deploy/test_links.py",
    "SignedConsent": "the same",
    "NewRows": "the same",
    "SealedDecision": "beside all exchanges, when an operator says so: tests/secfc/deploy/test_consent.py",
    "ClusterGroups": "between organizations: tests/secfc/deploy/test_session.py",
    "Abort": "where a run ends by an error: tests/secfc/roles/test_abort.py",
}


def row_of(kind):
    """Transcripts name a question by what it asks."""
    return find_row("Query" if kind in OPERATIONS else kind)


def golden_kinds():
    runs = json.loads((VECTORS / "run.json").read_text())["runs"].values()
    encoded = json.loads((VECTORS / "wire.json").read_text())["encodings"]
    return {m[3] for run in runs for m in run["messages"]} | {text.partition("(")[0] for text, _ in encoded}


def test_every_exchange_has_one_row():
    counted = Counter(kind for row in TABLE for kind in row.kinds)
    assert {*counted.values()} == {1}
    assert {*counted} == {kind.__name__ for kind in every_message()}
    assert all(row_of(kind) in TABLE for kind in golden_kinds())
    with pytest.raises(LookupError, match="no row of the table says what follows of Heard"):
        find_row("Heard")


def doubts_in(source):
    """The kind and the roles of every suspicion of a file: of what doubts by the table, or hands roles on."""
    for node in nodes(source):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name == "SuspectedParties":
            yield "made elsewhere", frozenset()
        if name == "suspect_parties" and isinstance(node.args[0], ast.Constant):
            yield node.args[0].value, frozenset(word.arg or "others" for word in node.keywords)
        if name in ("suspected", "suspects_of_part") and node.args:
            kind = node.args[0].value if isinstance(node.args[0], ast.Constant) else ""
            more = {word.arg for word in node.keywords}
            if name == "suspects_of_part":
                yield kind, frozenset({"players", "server"})
            elif kind in ("ProductWords", "CheckDigest"):
                yield kind, frozenset({"responders", "dealers", "server", *more})
            else:
                yield "MaskedProducts", frozenset({"responders", "committee", "server", *more})


def accusations_in(source):
    """The kind, the roles and whether it is proof, of all by which a file ends a union and names somebody."""
    for node in nodes(source):
        name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
        words = {word.arg for word in getattr(node, "keywords", ())}
        if name == "UnionAborted" and (len(node.args) > 1 or words):
            yield "named elsewhere", frozenset(), False
        if name == "accuse_parties" and isinstance(node.args[0], ast.Constant):
            yield node.args[0].value, frozenset(words - {"proof"}), "proof" in words
        if name == "open" and len(node.args) == 4:  # a seal: `psu.keys.Ring.open` names its sender
            yield ast.literal_eval(node.args[3]), frozenset({"sender"}), False


def test_nobody_is_named_but_by_the_table_and_all_of_it_is_in_use():
    said = {
        (row_of(kind).kinds, roles, proof == [True])
        for path, source in SOURCES.items()
        if path not in ("secfc/roles/blame.py", "psu/blame.py", "secfc/errors.py")
        for kind, roles, *proof in itertools.chain(doubts_in(source), accusations_in(source))
        if "others" not in roles
    }
    held = {
        (row.kinds, frozenset(names.split(" + ")), proof)
        for row in TABLE
        for proof, rules in ((False, row.doubts), (True, row.proofs))
        for names in rules
    }
    assert said == held
    assert all(row in TABLE for row in UNION_TABLE)


@pytest.mark.parametrize(
    "source",
    [
        "raise SuspectedParties(names, why)",
        "raise suspect_parties('Heard', why, server=SERVER)",
        "raise UnionAborted('a block is missing', (sender,), proof=True)",
        "raise UnionAborted('the relay lies', relay=True)",
        "raise accuse_parties('Heard', 'it lies', sender=j)",
    ],
)
def test_a_decision_that_is_made_elsewhere_is_noticed(source):
    with pytest.raises(LookupError):
        [row_of(kind) for kind, *_ in itertools.chain(doubts_in(source), accusations_in(source))]


def test_a_union_accuses_as_its_row_says_and_else_not_at_all():
    error = accuse_parties("Confirmation", "unions differ", senders={2, 1}, relay=RELAY)
    assert (error.parties, error.relay, error.proof) == ((1, 2), True, False)
    assert accuse_parties("Turn", "no quorum", proof=True, relay=RELAY).relay
    with pytest.raises(LookupError, match="Confirmation names no relay"):
        accuse_parties("Confirmation", "unions differ", relay=RELAY)
    with pytest.raises(LookupError, match="Turn names no relay"):
        accuse_parties("Turn", "no quorum", relay=RELAY)  # which is proof


def test_suspects_stand_in_the_order_of_the_row_once_each_and_the_server_first():
    found = suspect_parties("CodedSum", "shares lie", dealers=iter("bca"), tellers=("c", "d"))
    assert found.parties == ("c", "d", "b", "a")
    assert suspect_parties("SumDigest", "digests differ", sender="b", server="server").parties == (
        "server",
        "b",
    )
    many = [f"client-{j}" for j in range(20)]
    found = suspect_parties("PartShares", "parts differ", players=many, server=SERVER)
    assert found.parties == (SERVER, *many)
    assert "one of server, client-0, " in str(found)  # of so many it shows eight
    with pytest.raises(LookupError, match="no doubt about CodedSum is of committee"):
        suspect_parties("CodedSum", "shares lie", committee="ab")


@dataclasses.dataclass
class Replaced(Network):
    """A message of another kind comes in place of one."""

    def befall(self, e, fault, now):
        body = Hello(b"") if e.kind == "Coin" else Coin(bytes(32))
        self.corrupters.add(e.sender)
        return [dataclasses.replace(e, body=body, kind=body.kind)]


def first_of_each_kind(scenario):
    network = Network({}, scenario.sealed)
    scenario.run(network)
    return {e.kind: (i, e) for i, e in reversed([*enumerate(network.passed)])}


@pytest.fixture
def chunks(monkeypatch):
    monkeypatch.setattr("field.compare.blockwise.LEAST", 64)
    monkeypatch.setattr("psu.oblivious.BATCH", 4)
    return lambda scenario: monkeypatch.setattr(
        "secfc.coded.plan.CHUNK_RESIDUES", 40 if scenario.m > M else 4
    )


def named_by(scenario, network):
    """Who is named, or sealed suspected, where a run ends, or in its result where replies are corrected."""
    try:
        got = scenario.run(network)
    except (FaultyParty, TamperedMessage) as error:
        return {error.party}
    return {*got.deviated, *itertools.chain(*got.disputes)}


@pytest.mark.parametrize("name", SWEPT)
def test_what_is_lost_blames_nobody_and_what_no_honest_party_sends_its_sender(name, chunks):
    scenario = RUNS[name].with_clusters(2)
    chunks(scenario)
    for kind, (at, e) in first_of_each_kind(scenario).items():
        end = judge(scenario, {at: Fault("drop")})
        assert ENDS.get(end, 2) <= WORST[row_of(kind).absence], f"{kind} lost: {end}"
        named = named_by(scenario, Replaced({at: Fault("replace")}, False))
        # Where replies are corrected, one may count as a client that said nothing, or be half of a dispute.
        right = not named or e.sender in named if scenario.corrected else named == {e.sender}
        assert right, f"{kind}: {named}"


@pytest.mark.parametrize("name", ["labels only", *by_night(*(n for n in SCENARIOS if n != "labels only"))])
def test_a_word_that_is_altered_blames_nobody_but_its_sender(name, chunks):
    """The first message of each kind to each recipient, of the server and of a client: each word of it."""
    scenario = RUNS[name].with_clusters(2)
    chunks(scenario)
    network = Network({}, scenario.sealed)
    scenario.run(network)
    said = reversed([*enumerate(network.passed)])
    firsts = {(e.kind, e.sender == SERVER, e.recipient): at for at, e in said}.values()
    altered = ((at, word) for at in firsts for word, _ in enumerate(leaves(network.passed[at].body)))
    for at, word in tonight(altered, 3) if NIGHTLY else altered:
        judge(scenario, {at: Fault("alter", word, 0)})
        judge(scenario, {at: Fault("alter", word, 1)})


@pytest.mark.nightly
def test_every_kind_of_message_is_lost_in_the_sweep(chunks):
    kinds = {"Query", *ELSEWHERE}
    for name in itertools.chain(*(getattr(name, "values", [name]) for name in SWEPT)):
        scenario = RUNS[name].with_clusters(2)
        chunks(scenario)
        kinds |= {*first_of_each_kind(scenario)}
    assert {kind.__name__ for kind in every_message()} <= kinds


# --- what organizations say before a run, and before points are labeled ----------------------------


def arrive(me):
    """What is public once all have said how many rows they have."""
    needs, public = session.Needs(rows=True, power=True), PublicFacts(PARTIES[:-1], (1, 1), 1, 1.0)
    facts = yield from session.introduce_parties(
        public, needs, Links.of_all(PARTIES), me, None if me == SERVER else needs.told(3, 2)
    )
    return facts.counts, facts.bound


def label(me):
    """The numbers of new rows, and the name of the prediction of them."""
    mine = session.NewRows(0 if me == SERVER else 2, 4)

    def count(counts, name):
        yield from ()
        return counts, name

    return (
        yield from session.predict_together(bytes(32), PARTIES[:-1], me, mine, lambda *spent: None, count)
    )


def meet(role, network):
    """What each party has in the end, of all that sign consents first."""
    roles = {
        name: consent_first(role(name), name, one, PINS, lambda found: None)
        for name, one in consents().items()
    }
    return simulate(roles, faults=network, again=True)


@pytest.mark.parametrize(("role", "kind"), [(arrive, "Arrival"), (label, "NewRows")])
def test_what_organizations_say_beforehand_is_asked_for_again_and_its_loss_blames_nobody(role, kind):
    quiet = Network({}, False)
    want = meet(role, quiet).results
    assert {*want} == {*PARTIES}
    assert len({*want.values()}) == 1
    firsts = {(e.kind, e.sender): at for at, e in reversed([*enumerate(quiet.passed)])}
    assert {said for said, _ in firsts} == {"SignedConsent", kind} < {*ELSEWHERE}
    for (said, sender), at in firsts.items():
        assert row_of(said).absence == Absence.ENDS
        assert meet(role, Network({at: Fault("lose")}, False)).results == want
        # For good: nobody is blamed, and who lacks it has no result.
        with contextlib.suppress(TooFewReplies):
            assert meet(role, Network({at: Fault("drop")}, False)).silent
        with pytest.raises(FaultyParty) as caught:
            meet(role, Replaced({at: Fault("replace")}, False))
        assert caught.value.party == sender
