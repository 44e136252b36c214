"""A15: owners of columns that lie about whom they hold, or deal at people of others.

Each plays what the table of deviations says of it: nobody stops these, and they read no more than it says.
"""

from dataclasses import replace

import numpy as np
import pytest

import secfc
from secfc.coded import joined
from tests.secfc.coded.test_joined import algorithm, divided, owners

# --- the gate: which people are kept -----------------------------------------------------------------


def lacking(owner):
    """Three owners of columns of the same people, of whom this one lacks the last."""
    whole, people = owners(3, least=1)
    ids, parties = [f"p{i:05d}" for i in sorted(people[0])], list(whole.parties)
    parties[owner] = replace(
        parties[owner],
        points=np.asarray(parties[owner].points)[np.array(parties[owner].ids) != ids[-1]],
        ids=tuple(name for name in parties[owner].ids if name != ids[-1]),
    )
    return secfc.Federation(tuple(parties)), ids[-1]


def count_twice(monkeypatch, federation, person):
    """Client 0 counts itself twice at one of its people."""
    keep, counted = joined.keep_rows, joined.merge.count_table
    at = federation.parties[0].ids.index(person)

    def keep_more(seat, union, rows, count):
        def more(rows, m):
            table = counted(rows, m)
            table[rows[at]] += np.uint64(1)
            return table

        with monkeypatch.context() as patch:
            # It deals its table before others go on.
            patch.setattr(joined.merge, "count_table", more if seat.me == 0 else counted)
            role = keep(seat, union, rows, count)
            first = next(role)
        answer = yield first
        while True:
            try:
                answer = yield role.send(answer)
            except StopIteration as done:
                return done.value

    monkeypatch.setattr(joined, "keep_rows", keep_more)


def told_of_kept(federation):
    """Rows that there are, and that are kept, as client 0 is told in a run in which nobody lies."""
    found = secfc.fit(algorithm(), federation, keep_bodies=True).transcript.envelopes
    told = [e.body.kept for e in found if (e.kind, e.recipient) == ("KeptRows", "client-0")]
    return [(len(kept), int(kept.sum())) for kept in told]


def test_who_counts_itself_twice_is_shown_who_lacks_a_person_and_the_run_ends(monkeypatch):
    """It knows that not all have this person; of whom that is true the end of the run tells it."""
    honest = []
    for owner in (1, 2):
        federation, person = lacking(owner)
        honest.append(told_of_kept(federation))
        with monkeypatch.context() as patch:
            count_twice(patch, federation, person)
            with pytest.raises(secfc.UnionFailed, match=f"client-{owner} does not hold them"):
                secfc.fit(algorithm(), federation)
    # Control: who follows the protocol is told the same of both, but for the order of rows.
    assert honest[0] == honest[1] == [(60, 59)]


def test_who_claims_people_whom_it_lacks_learns_whom_all_others_hold_and_their_labels():
    """Nothing stops it: it has made columns of them up."""
    whole, people = owners(3)
    everybody, (mine, *others) = set(range(60)), map(set, people)
    first, lacking = whole.parties[0], sorted(everybody - mine)
    claiming = replace(
        first,
        points=np.vstack([np.asarray(first.points), np.zeros((len(lacking), len(first.features)))]),
        ids=(*first.ids, *(f"p{i:05d}" for i in lacking)),
    )
    found = secfc.fit(algorithm(), secfc.Federation((claiming, *whole.parties[1:])))
    told = {claiming.ids[i] for i in np.flatnonzero(found.labels[0] >= 0)}
    held = {f"p{i:05d}" for i in set.intersection(*others)}
    assert held - set(first.ids)
    assert told == held
    # Control: who claims its own people alone is told nothing of others.
    honest = secfc.fit(algorithm(), whole)
    assert {first.ids[i] for i in np.flatnonzero(honest.labels[0] >= 0)} == held & set(first.ids)


def test_a_helper_counts_itself_in_and_the_owner_that_lacks_the_person_ends_the_run(monkeypatch):
    """A client without columns adds nothing; here it adds 1 at all rows, and who lacks one notices."""
    federation, _ = lacking(1)
    federation = secfc.Federation((*federation.parties, secfc.Party.without_data("helper")))
    counted, told = joined.merge.count_table, []

    def everywhere(rows, m):
        return counted(rows, m) if len(rows) else np.ones((m, 1), np.uint64)

    def faults(e):
        told.extend([e.kind] * (e.kind in ("RowShares", "SizeShare")))
        return (e,)

    summands = joined.HolderCount.of
    monkeypatch.setattr(joined.merge, "count_table", everywhere)
    monkeypatch.setattr(
        joined.HolderCount, "of", lambda blocks: replace(summands(blocks), summands=(1,) * len(blocks))
    )
    # Where all others hold a person it is one too many: nobody is told which.
    with pytest.raises(secfc.UnionFailed, match="more often than there are clients") as caught:
        secfc.fit(algorithm(), federation, faults=faults)
    assert not caught.value.parties
    assert not told


# --- blocks: people that are divided among clients with the same columns ------------------------------

M, OWN, FAR = 480, 200, 2.5


def divided_people(seed):
    """All people at client 0, which clusters them; a further column of theirs at two others in parts."""
    rng = np.random.default_rng(seed)
    ids = np.array([f"p{i:05d}" for i in rng.permutation(M)])
    groups = rng.choice([-1.0, 1.0], M) + rng.normal(0, 0.1, M)
    values = rng.uniform(-1, 1, M)
    parts = [(ids, groups, "a"), (ids[OWN:], values[OWN:], "b"), (ids[:OWN], values[:OWN], "b")]
    return secfc.Federation.from_arrays(
        [column[:, None] for _, column, _ in parts],
        ids=[names.tolist() for names, _, _ in parts],
        features=[(name,) for _, _, name in parts],
    ), values[OWN:]


def deal_at_others(monkeypatch, away, seed):
    """Client 2 deals at people of client 1: puts two thirds far off on two sides, others less a number each.

    Notes these numbers by row.
    """
    scatter, rng = joined.scatter_rows, np.random.default_rng(seed)

    def scatter_more(rows, integers):
        read = scatter(rows, integers)
        if len(rows) != OWN:
            return read
        theirs = np.setdiff1d(np.arange(M), rows)
        sides, numbers = rng.choice([-FAR, FAR], M), rng.uniform(-0.8, 0.8, M)
        away.update((int(row), numbers[row]) for row in theirs[1::3])
        added = np.where(np.isin(np.arange(M), theirs[1::3]), -numbers, sides) * 64
        added[rows] = sides[rows] * 64

        def read_more(begin, end):
            found = read(begin, end)
            return found + np.rint(added[begin:end]).astype(np.int64)[:, None]

        return read_more

    monkeypatch.setattr(joined, "scatter_rows", scatter_more)


def test_who_deals_at_people_of_others_reads_whether_their_values_are_above_numbers_of_its_choice(
    monkeypatch,
):
    """Nothing stops it where labels are opened; by default they are not, and people are not divided."""
    hits, plain = [], []
    for seed in range(2):
        federation, values = divided_people(seed)
        way, away = algorithm(2, secfc.AssignmentsOnly()), {}
        honest = secfc.fit(way, federation, bound=8.0, seed=seed)
        with monkeypatch.context() as patch:
            deal_at_others(patch, away, seed)
            told = secfc.fit(way, federation, bound=8.0, seed=seed)
        read = np.array([int(row) in away for row in told.rows[1]])
        above = np.array([values[i] > away.get(int(row), 0) for i, row in enumerate(told.rows[1])])
        for result, found in ((told, hits), (honest, plain)):
            same = (result.labels[1] == above)[read].mean()
            found.append(max(same, 1 - same))
        assert read.sum() > M // 6
    # The order of rows, and so who is read, is another in each run: .92 to 1 are right.
    assert np.mean(hits) > 0.85
    # Control: labels of who follows the protocol tell nothing of this column.
    assert np.mean(plain) < 0.65
    with pytest.raises(secfc.InputError, match="would be told these people's labels"):
        secfc.fit(algorithm(2), federation, bound=8.0)


def test_a_person_whom_two_with_the_same_columns_hold_is_counted_though_one_of_them_hides_it(monkeypatch):
    """Who does not count itself at a row deals there all the same: the row is the sum of both."""
    federation = divided(owners(2, m=40)[0])
    counted = joined.merge.count_table
    left, right = federation.parties[:2]
    order = [right.features.index(name) for name in left.features]
    both = replace(
        right,
        points=np.vstack([right.points, np.asarray(left.points)[:3][:, np.argsort(order)]]),
        ids=(*right.ids, *left.ids[:3]),
    )
    twice = secfc.Federation((left, both, *federation.parties[2:]))
    way = algorithm(policy=secfc.AssignmentsOnly())
    with pytest.raises(secfc.InputError, match="IDs are held twice in one block of columns"):
        secfc.fit(way, twice)

    def hide(rows, m):
        table = counted(rows, m)
        if len(rows) == len(both.ids):
            table[rows[-3:]] = 0
        return table

    monkeypatch.setattr(joined.merge, "count_table", hide)
    assert secfc.fit(way, twice).converged
