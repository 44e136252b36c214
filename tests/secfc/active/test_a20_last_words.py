"""A20: what a server says last, told differently to two clients, whom no further sum would compare; and
centers that it opens by as few shares as decode them, one of which may then be false.
"""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import secfc
from secfc.data.federation import Federation
from secfc.errors import SuspectedParties, TooFewReplies
from secfc.feddp import FedDPKMeans, SharedNoise
from secfc.feddp import clients as noisy
from secfc.federated import algorithm as lloyd
from secfc.privacy import Neighbors, RandomizedResponse
from secfc.roles.exchange import SERVER, Exchange
from secfc.roles.messages import Contributors
from secfc.transport.simulate import deliver_all
from tests.small import federation


def nothing(*_, **__):
    yield from ()


class LastOf:
    """Faults that change a client's messages of a kind, after so many."""

    def __init__(self, kind, client, after, change):
        self.kind, self.client, self.after, self.change, self.seen = kind, client, after, change, 0

    def __call__(self, e):
        if (e.kind, e.recipient) != (self.kind, self.client):
            return (e,)
        self.seen += 1
        return (replace(e, body=self.change(e.body)),) if self.seen > self.after else (e,)


def less(plan, place, by):
    """Totals whose number at a place is so much less: a server can do so under pads."""

    def change(told):
        values, primes = told.values.copy(), np.array(plan.sums.code.basis.primes, told.values.dtype)
        values[:, place] = (values[:, place] + primes - by) % primes
        return replace(told, values=values)

    return change


def end_alone(plan, me, told, number, **_):
    """What members did before: they told the server that there is no further sum, and compared nothing."""
    if me in plan.seats:
        yield Exchange({SERVER: Contributors(np.zeros(0, bool))}, round=number + 1, phase="sum")


SUMS = secfc.FederatedLloyd(2, start=[[-1, 0], [1, 0]], max_iter=2)
NOISY = FedDPKMeans(2, 20.0, 1e-6, steps=0)


def sums_of(data, max_iter, faults=deliver_all):
    return secfc.fit(replace(SUMS, max_iter=max_iter, committee=4), data, seed=1, faults=faults)


def people(n):
    rng = np.random.default_rng(0)
    return Federation.from_arrays(list(rng.normal(size=(n, 40, 2))), server_points=rng.normal(size=(30, 2)))


@pytest.mark.parametrize("client", ["client-5", "client-0"])
def test_who_is_told_other_last_sums_ends_the_run(client, monkeypatch):
    """client-5 is no member of the committee."""
    data = federation(6, 60, 2)
    honest = sums_of(data, 2)
    assert (client in honest.plan.sums.committee) == (client == "client-0")
    # After sums of two clusters, numbers of rows: one row less is possible.
    row_less = less(honest.plan, 2 * honest.plan.d, 1)
    before = len({e.round for e in honest.transcript.envelopes if e.kind == "SharedTotals"}) - 1
    with pytest.raises(SuspectedParties, match="told another result than was told here") as caught:
        sums_of(data, 2, LastOf("SharedTotals", client, before, row_less))
    assert SERVER in caught.value.parties
    # Control: where nobody compares, nobody notices.
    monkeypatch.setattr(lloyd, "compare_last", end_alone)
    sums_of(data, 2, LastOf("SharedTotals", client, before, row_less))


def test_who_is_told_that_a_run_has_ended_has_no_result(monkeypatch):
    """The others go on, so that nobody vouches for what it was told: it ends without labels."""
    data = federation(6, 60, 2)
    honest = sums_of(data, 9)
    changed = np.split(honest.history[0] != honest.history[1], 6)
    # The last number says how many clients' labels changed.
    ended = less(honest.plan, slice(-1, None), sum(map(np.any, changed)))
    lies = partial(LastOf, "SharedTotals", "client-5", 2, ended)
    run = sums_of(data, 9, lies())
    assert run.excluded == ("client-5",)
    assert (run.labels[5] == -1).all()
    # Control: where nobody compares, it has labels of a step in the middle.
    monkeypatch.setattr(lloyd, "compare_last", end_alone)
    monkeypatch.setattr(lloyd, "join_labels", lambda *_: ())  # which differ in length
    assert (sums_of(data, 9, lies()).labels[5] >= 0).all()


@pytest.mark.parametrize("client", ["client-5", "client-0"])
def test_who_is_told_other_noisy_centers_ends_the_run(client, monkeypatch):
    data = people(6)
    way = replace(NOISY, committee=4, labels=RandomizedResponse(3.0), neighbors=Neighbors("replace"))
    honest = secfc.fit(way, data)

    def lie(left):
        """Tell the client other centers; whose labels leave."""
        lies = LastOf("NoisyCenters", client, 0, lambda told: replace(told, centers=told.centers + 0.5))

        def faults(e):
            left.extend([e.sender] * (e.kind == "NoisyLabels"))
            return lies(e)

        secfc.fit(way, data, faults=faults)

    assert (client in honest.plan.sums.committee) == (client == "client-0")
    left = []
    with pytest.raises(SuspectedParties, match="told another result than was told here"):
        lie(left)
    assert client not in left
    # Control: where nobody compares, its labels leave by centers that it alone was told.
    monkeypatch.setattr(noisy, "compare_last", nothing)
    left = []
    lie(left)
    assert sorted(left) == sorted(data.names)


def halves(kind, change):
    """Faults of a server that carries all messages and tells half of six clients something else."""
    half = {"client-0", "client-1", "client-2"}

    def faults(e):
        if e.kind == "LastDigest" and (e.sender in half) != (e.recipient in half):
            return ()
        return (replace(e, body=change(e.body)),) if e.kind == kind and e.recipient in half else (e,)

    return faults


def test_who_carries_all_messages_can_tell_halves_other_centers_without_a_quorum():
    data, way = people(6), replace(NOISY, t=1)
    lies = halves("NoisyCenters", lambda told: replace(told, centers=told.centers + 0.5))
    with pytest.raises(TooFewReplies, match="4 replies are needed, 3 came"):
        secfc.fit(way, data, faults=lies)
    alone = replace(way, noise=SharedNoise(layered=False))
    assert not secfc.fit(alone, data, faults=lies).excluded
    assert secfc.fit(alone, data).plan.sums.confirming_members == 3


@pytest.mark.parametrize("way", [SUMS, NOISY], ids=lambda way: type(way).__name__)
def test_of_four_members_one_may_be_lost_as_a_run_ends(way):
    """Where three say that they were told the same there is a result, for the fourth as well."""
    data = people(4)
    for lost in (1, 2):
        gone = [f"client-{j}" for j in range(lost)]
        silent = lambda e, gone=gone: () if e.sender in gone and e.kind == "LastDigest" else (e,)  # noqa: E731
        run = secfc.fit(way, data, seed=1, faults=silent)
        assert [own.min() >= 0 for own in run.labels] == [True, True, lost == 1, lost == 1]


@pytest.mark.parametrize("consenting", [True, ("client-0", "client-1")])
def test_centers_are_opened_by_no_fewer_shares_than_notice_a_lie_where_so_many_consent(consenting):
    release = secfc.Release(reveal_centers=consenting)
    way = secfc.SecFC(2, 1, secfc.RandomLabels(), max_iter=2, release=release)
    data = federation(5, 24, 2)
    honest = secfc.fit(way, data, seed=1)

    def faults(e):
        if e.kind != "CodedCenters":
            return (e,)
        false = replace(e.body, values=e.body.values ^ np.uint32(e.sender == "client-0"))
        return (replace(e, body=false),) if e.sender in ("client-0", "client-1") else ()

    if consenting is True:
        with pytest.raises(TooFewReplies, match="3 replies are needed, 2 came"):
            secfc.fit(way, data, seed=1, faults=faults)
    else:  # control: of two that consent, as all know before, either makes centers anything
        assert (secfc.fit(way, data, seed=1, faults=faults).centers != honest.centers).any()
