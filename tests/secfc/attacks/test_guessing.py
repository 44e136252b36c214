"""Who guesses an ID, or somebody's data: what that tells in one setting, and that it does not in another."""

from collections import Counter

import numpy as np
import pytest

import secfc
from psu.identify import digests, pair_digests, row_digests, tags
from secfc.coded import membership as hidden
from secfc.coded.membership import Private
from secfc.disclosure.owner_labels.output import HiddenOwners
from secfc.errors import DisputedRows, SharedIds

AGES = np.arange(16.0)
ANN = np.array([11.0, 60.0])  # at client-2 and client-3; her weight is known to client-0, her age is not


def clinics(guess=None):
    """Four sites; client-0 does not treat ann, unless it says so with a guess of her data."""
    rng = np.random.default_rng(3)
    parts = [np.column_stack([rng.integers(0, 16, 6), rng.integers(50, 99, 6)]) * 1.0 for _ in range(4)]
    names = [[f"p{j}-{i}" for i in range(6)] for j in range(4)]
    for j, point in ((2, ANN), (3, ANN), (0, guess)):
        if point is not None:
            parts[j], names[j] = np.vstack([parts[j], point]), [*names[j], "ann"]
    return secfc.Federation.from_arrays(parts, ids=names)


def attacked(monkeypatch, federation, disclosure, **options):
    """A run, and what client-0 has after the union: a function from digests to rows of them, -1 for none."""
    kept = {}
    seat, found = hidden.join_union, hidden.find_union

    def sit(plan, clients, me, *rest, **more):
        kept[me] = yield from seat(plan, clients, me, *rest, **more)
        return kept[me]

    def find(sitting, *rest):
        union = yield from found(sitting, *rest)
        kept["union"] = union
        return union

    with monkeypatch.context() as patch:
        patch.setattr(hidden, "join_union", sit)
        patch.setattr(hidden, "find_union", find)
        way = secfc.SecFC(
            2,
            threshold=1,
            max_iter=2,
            membership=Private(**options),
            disclosure=disclosure,
            quantization=secfc.Quantization(coarse="allow"),
        )
        result = secfc.fit(way, federation, bound=128.0, keep_bodies=True)

    def rows(digest):
        own, inverse = tags(digest, kept[0].secrets.tag_key)
        place = {pair: row for row, pair in enumerate(zip(kept["union"].z, kept["union"].y, strict=True))}
        return [place.get((own.z[i], own.y[i]), -1) for i in inverse]

    return result, rows


@pytest.mark.parametrize("conflict", ["separate", "fail", "mean"])
def test_data_are_guessed_at_home_only_where_each_version_is_a_row(monkeypatch, conflict):
    counts = "opened" if conflict == "mean" else "hidden"
    _, rows = attacked(monkeypatch, clinics(), secfc.AssignmentsOnly(), on_conflict=conflict, counts=counts)
    guesses = np.column_stack([AGES, np.full(16, ANN[1])])
    found = rows(pair_digests(row_digests(guesses), digests(["ann"] * 16)))
    assert [g for g, row in enumerate(found) if row >= 0] == ([int(ANN[0])] if conflict == "separate" else [])
    # That she is somewhere is told to whoever adds up: an ID, where it is the ID that makes a row.
    (known,) = rows(digests(["ann"]))
    assert (known >= 0) == (conflict != "separate")


def test_data_are_guessed_by_a_dispute_and_not_by_a_mean():
    ended = {}
    for conflict in ("fail", "mean"):
        ended[conflict] = []
        for age in (ANN[0], ANN[0] + 1):
            try:
                federation = clinics(np.array([age, ANN[1]]))
                membership = Private(on_conflict=conflict)
                run = secfc.SecFC(
                    2,
                    threshold=1,
                    max_iter=2,
                    membership=membership,
                    quantization=secfc.Quantization(coarse="allow"),
                )
                told = secfc.fit(run, federation, bound=128.0).transcript.envelopes
                kinds = Counter(
                    (e.kind, e.sender) for e in told if e.recipient == "client-0" and e.round >> 32 < 7
                )
                ended[conflict].append({k: n for k, n in kinds.items() if k[0] != "Turn"})
            except DisputedRows:
                ended[conflict].append("a dispute")
    assert ended["fail"][0] != "a dispute" == ended["fail"][1]  # the attack: her age, one guess a run
    assert ended["mean"][0] == ended["mean"][1] != "a dispute"


@pytest.mark.parametrize("counts", ["opened", "hidden"])
def test_a_guessed_persons_cluster_is_read_off_all_labels_and_not_where_holders_have_theirs(
    monkeypatch, counts
):
    told = {}
    read = HiddenOwners.labels

    def spy(self, match, k, heard):
        if self.me == 0:
            told["heard"] = heard  # what responders tell it, itself among them
        return read(self, match, k, heard)

    monkeypatch.setattr(HiddenOwners, "labels", spy)
    for way in (secfc.AssignmentsOnly(), secfc.OwnLabels()):
        result, rows = attacked(monkeypatch, clinics(), way, counts=counts)
        (ann,), mine = rows(digests(["ann"])), rows(digests([f"p0-{i}" for i in range(6)]))
        at_home = {int(result.labels[j][-1]) for j in (2, 3)}
        assert len(at_home) == 1  # both who treat her have one label
        if isinstance(way, secfc.AssignmentsOnly):
            # Of the labels of all rows, which client-0 hears as everybody does.
            told["all"] = {int(result.history[-1][ann])} == at_home
            continue
        parts = [message.values[0].astype(np.int64) for message in told["heard"].values()]
        # And then those times a key of client-0.
        numbers, keyed = np.split(sum(parts) % result.plan.code.basis.primes[0], 2)
        assert (numbers[mine] - 1 == result.labels[0]).all()
        told["own"] = numbers[ann] != 0
        assert np.count_nonzero(numbers) == np.count_nonzero(keyed) == 6  # of the rows of others nothing
    assert (told["all"], told["own"]) == (True, False)


def test_whether_ids_are_disjoint_tells_nobody_who_is_shared():
    """Opened counts, by which one may find out as well, tell each site which of its people others have."""
    unions = {}
    for shared in (1, 5):
        # 24 people in all; so many of client-0's are at client-1 too.
        sets = [range(10), range(10 - shared, 15), range(15, 20), range(20, 24)]
        points = [np.array([[i, -i] for i in own], float) for own in sets]
        federation = secfc.Federation.from_arrays(points, ids=[[str(i) for i in own] for own in sets])
        heard = {}
        for name, membership in (
            ("opened", Private(sized=False, bound=64)),
            ("asked", Private(sized=False, bound=64, merge=False)),
        ):
            words = []

            def listen(e, words=words):
                if e.recipient == "client-0":
                    words.append(e)
                return (e,)

            way = secfc.SecFC(
                2,
                threshold=1,
                max_iter=1,
                membership=membership,
                quantization=secfc.Quantization(coarse="allow"),
            )
            try:
                result = secfc.fit(way, federation, bound=64.0, faults=listen)
                told = next(e.body.held for e in words if e.kind == "Multiplicities")
                heard[name] = int((told[result.rows[0]] > 1).sum())
            except SharedIds as error:
                kinds = Counter(
                    (e.sender, e.kind, e.nbytes) for e in words if e.kind not in ("Turn", "Opening")
                )
                heard[name] = (str(error), {k: n for k, n in kinds.items() if k[1] != "RunEnded"})
        unions[shared] = heard
    assert (unions[1]["opened"], unions[5]["opened"]) == (1, 5)  # the control: it knows them one by one
    assert unions[1]["asked"] == unions[5]["asked"]
    assert "Multiplicities" not in {kind for _, kind, _ in unions[5]["asked"][1]}
