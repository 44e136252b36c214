"""The security argument names exactly the messages that runs under each policy send."""

import functools
import inspect
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import psu
import secfc
from docs.tables import JUDGED, judged
from secfc.coded.membership import Open, Private
from secfc.coded.queries import Operation
from secfc.privacy import Bound, Budget
from tests import small
from tests.loading import every_message
from tests.nightly import every
from tests.secfc.disclosure import test_assignments, test_dealerless, test_final_labels

PAGE = (Path(secfc.__file__).parent / "disclosure" / "README.md").read_text()


def names_of(table):
    """The messages in the first cells of a table."""
    return [
        name for cell in re.findall(r"^\| (`.+?) \|", table, re.M) for name in re.findall(r"`(\w+)`", cell)
    ]


TABLES = {
    title: set(names_of(table))
    for title, table in re.findall(r"<!-- from code: messages: (.*?) -->\n\n((?:\|.*\n)+)", PAGE)
}
ALWAYS = TABLES.pop("every policy")
SEVERAL = set(
    re.findall(
        r"^\| `(\w+)`",
        re.search(r"<!-- from code: also: with parts played by several -->\n\n((?:\|.*\n)+)", PAGE)[1],
        re.M,
    )
)
ROWS = [line for line in PAGE.splitlines() if re.match(r"\| (`[A-Z]\w+`(, )?)+ \|", line)]
# Baselines that protect nothing.
ELSEWHERE = {"RawPoints", "LocalCenters", "CenterLabels", "PointLabels"}


def kinds(tree):
    """The names of messages in a golden list, however it is nested."""
    inner = [kinds(value) for value in tree.values() if isinstance(value, dict)]
    return set().union({key for key in tree if isinstance(key, str) and key[0].isupper()}, *inner)


@functools.cache
def sent(policy, membership=None, threshold=1, **options):
    """What a run sends; nothing falls silent and there is one start."""
    points = np.random.default_rng(0).normal(size=(30, 2))
    federation = secfc.Federation.from_arrays(np.array_split(points, 5))
    way = secfc.SecFC(2, threshold, max_iter=2, disclosure=policy, membership=membership or Open())
    result = secfc.fit(way, federation, **options)
    return {e.kind for e in result.transcript.envelopes}


ALONE = secfc.Threshold(1, deviating=0)
NOISE = secfc.NoiseInShares(Budget(8.0, 1e-6), Bound.given(4.0))
SUMS = secfc.NoisySums(Budget(8.0, 1e-6), Bound.given(4.0))
HIDDEN = Private(counts="hidden")


def sent_of_people(policy=SUMS, own=(), **options):
    """What noisy sums send beside what hidden membership does; who hides owners tells no `FinalResult`."""
    membership = sent(secfc.AssignmentsOnly(), HIDDEN) - sent(secfc.AssignmentsOnly())
    membership -= {"CheckedPart", "ProductWords", *own}
    return sent(policy, HIDDEN, bound=4.0, **options) - membership - SEVERAL | {"FinalResult"}


def sent_of_pairs():
    """The words of a comparison of pairs; sizes and own labels are told instead of a `FinalResult`."""
    way = secfc.DBSCAN(1.0, 3, threshold=ALONE)
    return {e.kind for e in secfc.fit(way, small.federation(5, 30, 2)).transcript.envelopes}


def asked_of_columns(policy):
    """The question that withheld labels add, to those of columns of several owners."""
    columns = np.random.default_rng(0).normal(size=(3, 20, 1))
    federation = secfc.Federation.from_arrays(list(columns), features=[("a",), ("b",), ("c",)])
    plain, judged = (
        secfc.SecFC(2, 1, disclosure=policy, membership=secfc.Joined(align="given", max_explained=share))
        for share in (None, 0.999)
    )
    each = [{e.kind for e in secfc.fit(w, federation, seed=0).transcript.envelopes} for w in (judged, plain)]
    return each[0] - each[1]


EXPECTED = {
    "NoisySums()": sent_of_people,
    "NoisySums(dealer=None)": lambda: sent_of_people(
        replace(SUMS, dealer=None), {"ResharedPart"}, threshold=ALONE
    ),
    "NoiseInShares()": lambda: sent(NOISE, bound=4.0),
    "Distances()": lambda: sent(secfc.Distances()),
    "Distances(dealt=True)": lambda: sent(secfc.Distances(dealt=True)),
    "AssignmentsOnly()": lambda: kinds(test_assignments.GOLDEN) - SEVERAL,
    "AssignmentsOnly(dealer=None)": lambda: kinds(test_dealerless.GOLDEN),
    "FinalLabelsOnly()": lambda: kinds(test_final_labels.GOLDEN),
    'FinalLabelsOnly(dealer="server")': lambda: (
        sent(secfc.FinalLabelsOnly(dealer="server"), threshold=2) - SEVERAL
    ),
    # The table says when `FinalResult` takes the place of others.
    "OwnLabels()": lambda: (
        sent(secfc.OwnLabels()) - SEVERAL | {"FinalResult"} | asked_of_columns(secfc.OwnLabels())
    ),
    "DBSCAN()": lambda: sent_of_pairs() | {"FinalResult"},
    "OwnLabels(dealer=None)": lambda: (
        sent(secfc.OwnLabels(dealer=None), threshold=ALONE)
        | {"FinalResult"}
        | asked_of_columns(secfc.OwnLabels(dealer=None))
    ),
}


def test_every_policy_has_a_table():
    assert set(TABLES) == set(EXPECTED)


@pytest.mark.parametrize("policy", EXPECTED)
def test_the_table_of_a_policy_names_its_messages(policy):
    assert TABLES[policy] | ALWAYS == EXPECTED[policy]()
    assert not TABLES[policy] & ALWAYS


def test_the_table_of_parts_that_several_play_names_its_messages():
    for policy in (secfc.AssignmentsOnly(), secfc.OwnLabels()):
        assert sent(policy) - sent(policy, threshold=ALONE) == SEVERAL == {"PartDigests"}
    for policy, more in ((secfc.AssignmentsOnly(None), set()), (secfc.OwnLabels(None), {"PartShares"})):
        found = sent(policy) - sent(policy, threshold=ALONE)
        assert found == {"SeatDigest", "WitnessedBits"} | more


MEMBERSHIPS = {
    "merging, counts hidden, threshold": Private(counts="hidden"),
    "merging, counts opened, threshold": Private(counts="opened"),
    "merge=False, threshold": Private(merge=False),
    "merging, counts hidden, server mode": Private(psu.Server(), counts="hidden"),
    "merging, counts opened, threshold, oblivious tags": Private(tags="oblivious", quota=6),
}


@pytest.mark.parametrize("has", every(2, MEMBERSHIPS))
def test_the_table_of_hidden_membership_names_its_messages(has):
    table = re.search(r"<!-- from code: also: with hidden membership -->\n\n((?:\|.*\n)+)", PAGE)[1]
    lines = re.findall(r"^\| `(\w+)` \| [^(|]*(?:\(`?([^)`]*)`?\) )?\|", table, re.MULTILINE)
    assert {where for _, where in lines} == {
        "", "threshold", "server mode", "merging", "counts hidden", "counts opened", "merge=False",
        "OwnLabels", "oblivious tags", "joined columns",
    }  # fmt: skip
    expected = {kind for kind, where in lines if where in ("", *has.split(", "))}
    assert sent(secfc.AssignmentsOnly(), MEMBERSHIPS[has]) - sent(secfc.AssignmentsOnly()) == expected
    expected |= {kind for kind, where in lines if where == "OwnLabels"}
    alone = sent(secfc.OwnLabels())
    assert sent(secfc.OwnLabels(), MEMBERSHIPS[has]) - alone == expected - alone


def test_the_table_of_hidden_membership_names_the_message_of_joined_columns():
    points = np.random.default_rng(0).normal(size=(3, 6, 1))
    federation = secfc.Federation.from_arrays(list(points), ids=[range(6)] * 3, features=["a", "b", "c"])
    way = secfc.SecFC(2, 1, max_iter=2, membership=secfc.Joined(), disclosure=secfc.AssignmentsOnly())
    kinds = {e.kind for e in secfc.fit(way, federation).transcript.envelopes}
    private = sent(secfc.AssignmentsOnly(), MEMBERSHIPS["merge=False, threshold"])
    assert kinds - private == {"KeptRows"}
    assert private - kinds - SEVERAL == {"HeldOnce"}


def test_every_message_says_what_its_sender_can_do_by_deviating():
    for row in ROWS:
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        assert len(cells) == 4, row
        assert all(cells), row
    named = {*names_of("\n".join(ROWS))}
    known = {kind.__name__ for kind in every_message()} - {"Query"} | {asked.kind for asked in Operation}
    assert known - ELSEWHERE <= named, "a message that the security page does not judge"
    assert named <= known, "a message that is gone"


def test_what_docstrings_say_of_messages_is_in_a_table_of_the_page():
    """A paragraph that its form or its title keeps out of the tables is lost there."""
    paragraphs = [
        " ".join(text.split())
        for kind in (*every_message(), Operation)
        for text in inspect.getdoc(kind).split("\n\n")
    ]
    about = [text for text in paragraphs if re.search(r"Under |By deviating", text)]
    assert len(about) > 150
    assert [text for text in about if not JUDGED.fullmatch(text)] == []
    assert not JUDGED.fullmatch("Under OwnLabels(): member, all. Seen: nothing.")
    assert set(re.findall(r"<!-- from code: \w+: (.+) -->", PAGE)) == set(judged())


def test_the_default_is_what_the_page_and_the_readme_say():
    assert secfc.SecFC(k=2, threshold=1).disclosure == secfc.Lloyd(k=2).disclosure == secfc.AssignmentsOnly()
    assert "secfc/disclosure/README.md" in (Path(secfc.__file__).parent.parent / "README.md").read_text()
