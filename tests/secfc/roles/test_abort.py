"""A run that ends by an error: all parties learn whose, what kind and when, at once, and nothing else."""

import asyncio
import dataclasses
import time

import numpy as np
import pytest

import secfc
from field import SeededCoins
from field.code.masking import MaskReused
from secfc.disclosure.dealerless.steps import StalledStep
from secfc.errors import (
    DisputedRows,
    Ended,
    FaultyClient,
    FaultyServer,
    Indispensable,
    InputError,
    TamperedMessage,
    TooFewReplies,
)
from secfc.pipeline import seal_roles
from secfc.roles.abort import Abort, abort_message, broadcast_abort
from secfc.roles.exchange import END, ITERATE, SERVER, Exchange
from secfc.transport.network import run_party
from secfc.transport.simulate import simulate
from tests.nightly import by_night
from tests.secfc.active.test_a7_waiting import PULSE, mesh
from tests.secfc.transport.test_wire import roles_of

FED = secfc.Federation.from_arrays(np.array_split(np.random.default_rng(4).normal(size=(40, 3)), 5))
WAY = secfc.SecFC(k=3, threshold=1, max_iter=3)


def raising(role, error, start=ITERATE):
    """A role that has an error in its first exchange of this round or later."""
    inbox = None
    while True:
        try:
            exchange = role.send(inbox)
        except StopIteration as done:
            return done.value
        if exchange.round >= start:
            role.close()
            raise error
        inbox = yield exchange


def ends(who, error, *, start=ITERATE, sealed=False, heed=None, wrap=True, carried=None):
    """What every party ends with over a network, if one has an error; and for how many seconds it took."""
    roles = roles_of(WAY, FED)
    roles[who] = raising(roles[who], error, start)
    if wrap:
        roles = {
            name: broadcast_abort(role, name, tuple(p for p in roles if p != name), heed=heed)
            for name, role in roles.items()
        }
    if sealed:
        roles = seal_roles(roles, b"plan", {name: SeededCoins(9, name) for name in roles})
    roles |= {name: change(roles[name]) for name, change in (carried or {}).items()}

    async def converse():
        links = await mesh(list(roles))
        begin = time.monotonic()
        parties = (
            run_party(roles[name], links[name], pulse=20 * PULSE, patience=90.0, grace=5.0, rejoin=1.0)
            for name in roles
        )
        got = await asyncio.wait_for(asyncio.gather(*parties, return_exceptions=True), 200)
        return dict(zip(roles, got, strict=True)), time.monotonic() - begin

    return asyncio.run(converse())


@pytest.mark.parametrize("sealed", [False, True], ids=["open", "sealed"])
@pytest.mark.parametrize(
    ("who", "error", "party"),
    [
        ("client-2", FaultyServer(SERVER, "secret text 4711"), SERVER),
        (SERVER, FaultyClient("client-1", "secret text 4711"), "client-1"),
        ("client-0", InputError("secret text 4711"), None),
        ("client-1", KeyError("secret text 4711"), None),
        (SERVER, AssertionError("secret text 4711"), None),
    ],
)
def test_everybody_ends_at_once_with_the_cause(who, error, party, sealed):
    got, seconds = ends(who, error, sealed=sealed)
    assert got.pop(who) is error
    internal = isinstance(error, KeyError | AssertionError)
    for found in got.values():
        assert isinstance(found, Ended)
        told = "InternalError" if internal else type(error).__name__
        assert (found.by, found.error, found.party) == (who, told, party)
        assert found.round >= ITERATE - 2**32
        assert "4711" not in str(found)
    assert seconds < 5  # a warm run takes a part of one


def altering(role, to):
    """A sealed role whose first message to this peer, once it iterates, is altered on the way."""
    inbox, done = None, False
    while True:
        try:
            exchange = role.send(inbox)
        except StopIteration as end:
            return end.value
        if not done and exchange.round >= ITERATE and to in exchange.send:
            word, done = exchange.send[to], True
            altered = dataclasses.replace(
                word, ciphertext=word.ciphertext[:-1] + bytes([word.ciphertext[-1] ^ 1])
            )
            exchange = dataclasses.replace(exchange, send={**exchange.send, to: altered})
        inbox = yield exchange


def test_what_cannot_be_opened_is_told_to_all_as_any_other_fault():
    carried = {"client-1": lambda role: altering(role, SERVER)}
    got, seconds = ends(SERVER, None, sealed=True, start=END, carried=carried)
    assert isinstance(got.pop(SERVER), TamperedMessage)
    for found in got.values():
        assert (type(found), found.by, found.error, found.party) == (
            Ended, SERVER, "TamperedMessage", "client-1",
        )  # fmt: skip
    assert seconds < 5


def test_an_error_before_any_share_is_told_as_well():
    got, _ = ends("client-3", InputError("no such column"), start=0)
    assert {type(found) for name, found in got.items() if name != "client-3"} == {Ended}


class Odd_2(Exception):  # noqa: N801, N818 - no name that may be told
    party = "Müller 1943"


@pytest.mark.parametrize(
    "error",
    [
        ZeroDivisionError("4711"), IndexError(4711), TypeError("4711"), RuntimeError("4711"), Odd_2("4711"),
        NotImplementedError("4711"), RecursionError("4711"), MaskReused("4711"), StalledStep(4, {4711}),
    ],
)  # fmt: skip
def test_of_any_other_exception_peers_learn_that_there_is_one(error):
    """In one process, where each party is told before the one that has it ends."""

    def waits():
        yield Exchange({}, ("a",), round=5)

    def fails():
        yield Exchange({}, (), round=4)
        raise error

    def noted(role, ends):
        try:
            yield from role
        except Exception as found:
            ends.append(found)

    own, other = [], []
    roles = {"a": broadcast_abort(fails(), "a", ("b",)), "b": broadcast_abort(waits(), "b", ("a",))}
    simulate({"a": noted(roles["a"], own), "b": noted(roles["b"], other)})
    assert own == [error]
    (ended,) = other
    assert (ended.by, ended.error, ended.party, ended.round) == ("a", "InternalError", None, 4)
    assert "4711" not in str(ended)
    assert dataclasses.astuple(abort_message(error, 4)) == ("InternalError", "", 4)


@pytest.mark.parametrize("error", [OSError("disk full"), *by_night(TooFewReplies(4, ()), MemoryError())])
def test_a_client_that_others_can_do_without_ends_alone(error):
    expected = simulate(roles_of(WAY, FED)).results
    got, _ = ends("client-2", error)
    assert got.pop("client-2") is error
    for name, found in got.items():
        if name != SERVER:
            assert (found.labels == expected[name].labels).all()


def test_a_server_that_heard_too_little_ends_nobodys_run():
    error = TooFewReplies(4, ("client-1",))
    got, _ = ends(SERVER, error)
    assert got.pop(SERVER) is error
    assert {type(found) for found in got.values()} == {Indispensable}  # once it does not come back


def test_where_clients_may_lie_only_the_server_is_heeded():
    got, _ = ends("client-2", FaultyServer(SERVER, "a lie"), heed=(SERVER,))
    expected = simulate(roles_of(WAY, FED)).results
    assert all((got[name].labels == expected[name].labels).all() for name in ("client-0", "client-4"))


def test_what_is_told_names_nothing_but_class_party_and_round():
    word = abort_message(DisputedRows((3, 5), ("Müller 1943",)), 12)
    assert dataclasses.astuple(word) == ("DisputedRows", "", 12)
    for wrong in (("Faulty Client", "", 1), ("", "", 1), ("A" * 41, "", 1), ("A", "", -1), ("A", "", END)):
        with pytest.raises(ValueError, match=r"run ends|letters"):
            Abort(*wrong)


def test_a_word_about_strangers_blames_who_says_it():
    def says():
        yield Exchange({}, ("a",), enough=0, round=5)
        raise FaultyClient("mallory", "did something")

    def waits():
        yield Exchange({}, ("b",), round=5)

    with pytest.raises(FaultyClient, match="no part"):
        simulate(
            {
                "b": kept_alive(broadcast_abort(says(), "b", ("a",))),
                "a": broadcast_abort(waits(), "a", ("b",)),
            }
        )


def kept_alive(role):
    """The same, but its own error does not end the simulation."""
    try:
        yield from role
    except FaultyClient:
        return
