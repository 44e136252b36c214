"""Sealed transport: the same results, nothing but ciphertext between clients, and tampering is refused."""

import asyncio
import dataclasses
import functools
from collections import Counter

import numpy as np
import pytest

import psu
import secfc
from field import SeededCoins, SystemCoins
from field.secrets.channels import Identity, SealedChannel
from psu.errors import AlreadyUsed
from secfc.algorithm import PublicFacts
from secfc.coded.membership import Private
from secfc.coded.messages import RowShares
from secfc.data.inputs import with_parameters
from secfc.errors import FaultyClient, PlanMismatch, ProtocolError, TamperedMessage, TooFewReplies
from secfc.kmeans.starts import RandomPoints
from secfc.roles.exchange import GREET, SERVER, Exchange
from secfc.roles.messages import Hello
from secfc.transport import wire
from secfc.transport.handshake import Countersign, Greeting
from secfc.transport.network import run_party
from secfc.transport.sealed import OVERHEAD, Sealed, SealedLine, seal_role
from secfc.transport.simulate import simulate
from tests.nightly import short
from tests.secfc.transport.test_wire import mesh, over_sockets
from tests.small import clustered

OPEN = secfc.SecFC(k=3, threshold=secfc.Threshold(1, 2), init=RandomPoints(), disclosure=secfc.Distances())
PRIVATE = with_parameters(OPEN, ell=1, membership=Private(bound=256))
SERVER_MODE = dataclasses.replace(PRIVATE, membership=Private(psu.Server(), bound=256))
DIGEST = bytes(range(32))


def roles_of(algorithm, fed, wrap=True, **options):
    """Roles with reproducible coins; all wrapped, each with sealing coins of its own."""
    # Two unions with the same session number their rows alike.
    plan = algorithm.plan(dataclasses.replace(PublicFacts.of(fed), session=bytes(32), seed=0))
    roles = {}
    for p in fed.parties:
        role = algorithm.client(plan, p, coins=SeededCoins(1, p.name))
        roles[p.name] = role
    roles[SERVER] = algorithm.server(plan, rng=np.random.default_rng(0), coins=SeededCoins(1, SERVER))
    if not wrap:
        return roles
    shared = {key: value for key, value in options.items() if key == "identities"}
    for name, role in roles.items():
        own = {key: value[name] for key, value in options.items() if key in ("digest", "identity")}
        digest, coins = own.pop("digest", DIGEST), SeededCoins(2, name)
        roles[name] = seal_role(role, name, tuple(roles), digest, coins, **own, **shared)
    return roles


def run_sealed(algorithm=OPEN, *, wrap=True, faults=None, **options):
    network = {} if faults is None else {"faults": faults}
    return simulate(roles_of(algorithm, clustered(), wrap, **options), keep_bodies=True, **network)


PARTIES = (*clustered().names, SERVER)


@pytest.mark.parametrize("algorithm", [OPEN, PRIVATE, SERVER_MODE], ids=["open", "private", "server"])
def test_a_sealed_run_equals_an_open_one_and_shows_only_ciphertext(algorithm):
    plain = run_sealed(algorithm, wrap=False)
    got = run_sealed(algorithm, faults=wire.over_wire())
    for name, result in plain.results.items():
        if name != SERVER:
            assert (got.results[name].labels == result.labels).all()
    for a, b in zip(plain.results[SERVER].trace.history, got.results[SERVER].trace.history, strict=True):
        assert (a == b).all()
    sent = got.transcript.envelopes
    assert {e.kind for e in sent} == {"Greeting", "Countersign", "Sealed"}
    assert Counter(e.kind for e in sent)["Greeting"] == 6 * 5
    assert Counter(e.kind for e in sent)["Countersign"] == 6 * 5
    # The envelopes are those of the open run after the greetings, each as long as its encoding, a tag of 16
    # and its number.
    lengths = Counter(
        (e.sender, e.recipient, wire.encoded_size(e.body) + 16 + 8) for e in plain.transcript.envelopes
    )
    assert lengths == Counter((e.sender, e.recipient, e.nbytes) for e in sent if e.kind == "Sealed")
    assert all(e.body.number == e.round for e in sent if e.kind == "Sealed")


def test_clients_can_seal_among_themselves_alone():
    roles = roles_of(OPEN, clustered(), wrap=False)
    for name in clustered().names:
        roles[name] = seal_role(roles[name], name, clustered().names, DIGEST, SystemCoins())
    got = simulate(roles)
    assert (got.results["client-2"].labels == run_sealed(wrap=False).results["client-2"].labels).all()
    kinds = {(e.kind, SERVER in (e.sender, e.recipient)) for e in got.transcript.envelopes}
    assert {kind for kind, to_server in kinds if not to_server} == {"Greeting", "Countersign", "Sealed"}
    assert {"Hello", "DistanceQuery", "CodedDistances", "FinalResult"} <= {
        k for k, to_server in kinds if to_server
    }


def test_sockets_carry_a_sealed_run():
    plain = run_sealed(wrap=False)
    got = over_sockets(roles_of(OPEN, clustered()))
    for name, result in plain.results.items():
        if name != SERVER:
            assert (got[name].labels == result.labels).all()


def test_what_a_peer_has_taken_is_kept_no_longer_sealed_or_not():
    async def most_kept(sealed):
        links, most = await mesh(["a", "b"]), []

        def talks(me, peer):
            for number in range(GREET + 2, GREET + 20):
                most.append(len(links[me][peer].kept))
                yield Exchange({peer: Hello(b"x")}, (peer,), round=number)

        roles = {me: talks(me, peer) for me, peer in ("ab", "ba")}
        if sealed:
            roles = {me: seal_role(roles[me], me, ("a", "b"), DIGEST, SystemCoins()) for me in roles}
        await asyncio.gather(*(run_party(role, links[me], rejoin=0.0) for me, role in roles.items()))
        return max(most)

    assert all(asyncio.run(most_kept(sealed)) <= 2 for sealed in (False, True))


def test_pinned_identities():
    names = PARTIES
    own = {name: Identity.draw(SystemCoins()) for name in names}
    pins = {name: key.public for name, key in own.items()}
    run_sealed(identity=own, identities=pins)
    # Somebody who introduces an identity of its own is not taken for client-3.
    roles = roles_of(OPEN, clustered(), identity=own, identities=pins)
    other = {**pins, "client-3": Identity.draw(SystemCoins()).public}
    role = OPEN.client(OPEN.plan(PublicFacts.of(clustered())), clustered().parties[0], coins=SystemCoins())
    keys = {"identity": own["client-0"], "identities": other}
    roles["client-0"] = seal_role(role, "client-0", names, DIGEST, SystemCoins(), **keys)
    with pytest.raises(TamperedMessage, match="another identity than the pinned one came from client-3"):
        simulate(roles)
    role = (x for x in ())
    with pytest.raises(ValueError, match="no identity is pinned for client-4, server"):
        seal_role(role, "client-0", names, DIGEST, SystemCoins(), identities={n: pins[n] for n in names[:4]})
    with pytest.raises(ValueError, match="'client-0' needs the identity"):
        seal_role(role, "client-0", names, DIGEST, SystemCoins(), identities=pins)
    with pytest.raises(ValueError, match="'nobody' must be one of the parties"):
        seal_role(role, "nobody", names, DIGEST, SystemCoins())


# --- tampering --------------------------------------------------------------------------------------


def nth_sealed(n, change):
    """Faults that change the body of the n-th sealed envelope, given also those before it."""
    seen = []

    def fault(e):
        if e.kind != "Sealed":
            return (e,)
        seen.append(e)
        if len(seen) != n + 1:
            return (e,)
        body = change(e, seen)
        return (dataclasses.replace(e, body=body),) if body is not None else (e,)

    return fault


def flip(bit):
    def change(e, seen):
        data = bytearray(e.body.ciphertext)
        data[bit // 8 % len(data)] ^= 1 << bit % 8
        return Sealed(e.body.number, bytes(data))

    return change


def cut(e, seen):
    return Sealed(e.body.number, e.body.ciphertext[:-1])


def extend(e, seen):
    return Sealed(e.body.number, e.body.ciphertext + b"\0")


def renumber(e, seen):
    return Sealed(e.body.number + 1, e.body.ciphertext)


def replay(e, seen):
    """An older message of the same sender to the same recipient."""
    same = [old.body for old in seen[:-1] if (old.sender, old.recipient) == (e.sender, e.recipient)]
    return same[0] if same else None


def misdirect(e, seen):
    """What the same sender told another recipient in the same round."""
    other = [old.body for old in seen[:-1] if old.sender == e.sender and old.round == e.round]
    return other[-1] if other else None


def reflect(e, seen):
    """What the recipient itself told the sender."""
    other = [old.body for old in seen[:-1] if (old.sender, old.recipient) == (e.recipient, e.sender)]
    return other[-1] if other else None


def unseal(e, seen):
    return Hello(bytes(32))


CHANGES = [flip(0), flip(77777), cut, extend, renumber, replay, misdirect, reflect, unseal]


def error_of(algorithm, faults):
    """The error that ends a run, if one does."""
    try:
        run_sealed(algorithm, faults=faults)
    except ProtocolError as error:
        return error
    return None


@functools.cache
def count_sealed(algorithm):
    return sum(e.kind == "Sealed" for e in run_sealed(algorithm).transcript.envelopes)


@pytest.mark.parametrize("change", CHANGES, ids=lambda c: c.__name__)
def test_tampering_with_any_sealed_envelope_is_refused(change):
    # Some messages of a run, others for every change; by night every third of an open run.
    for algorithm, step in ((OPEN, short(134, nightly=3)), (PRIVATE, short(1400, nightly=29))):
        tampered = []

        def noted(e, seen, tampered=tampered):
            body = change(e, seen)
            tampered.extend([e] if body is not None else [])
            return body

        tries = range(CHANGES.index(change), count_sealed(algorithm), step)
        for n in tries:
            before = len(tampered)
            error = error_of(algorithm, nth_sealed(n, noted))
            if len(tampered) == before:  # there was nothing yet to replay
                assert error is None
                continue
            assert isinstance(error, TamperedMessage)
            assert error.party == tampered[-1].sender
            assert not error.proof
            assert "suspicion only" in str(error)
        assert len(tampered) >= len(tries) // 3


def test_a_lost_message_is_no_tampering():
    for n in range(0, count_sealed(OPEN), short(116, nightly=1)):
        lost = nth_sealed(n, lambda e, seen: LOST)

        def lose(e, lost=lost):
            return tuple(x for x in lost(e) if x.body is not LOST)

        assert not isinstance(error_of(OPEN, lose), TamperedMessage)


LOST = Sealed(0, bytes(16))


def test_swapped_envelopes_are_refused():
    held = []

    def swap(e):
        """The bodies of the first two messages from client-1 to client-2 change places."""
        if e.kind != "Sealed" or (e.sender, e.recipient) != ("client-1", "client-2"):
            return (e,)
        held.append(e)
        if len(held) != 2:
            return () if len(held) == 1 else (e,)
        first, second = held
        return (
            dataclasses.replace(second, body=first.body),
            dataclasses.replace(first, body=second.body),
        )

    with pytest.raises(TamperedMessage, match="from client-1"):
        run_sealed(faults=swap)


def test_copies_do_no_harm():
    plain = run_sealed(wrap=False)
    twice = run_sealed(faults=lambda e: (e, e))
    assert (twice.results["client-2"].labels == plain.results["client-2"].labels).all()


def test_without_a_greeting_nothing_is_sealed():
    with pytest.raises(TooFewReplies):
        run_sealed(faults=lambda e: () if e.kind == "Greeting" and e.sender == "client-1" else (e,))


def test_what_was_sealed_for_another_plan_or_run_is_refused():
    first = run_sealed(digest=dict.fromkeys(PARTIES, bytes(32))).transcript.envelopes
    old = {(e.sender, e.recipient, e.round): e.body for e in first if e.kind == "Sealed"}
    for digest in (bytes(32), DIGEST):  # the same coins, so all keys but those of the plan repeat

        def replay(e):
            key = (e.sender, e.recipient, e.round)
            return (dataclasses.replace(e, body=old[key]) if e.kind == "Sealed" else e,)

        if digest == DIGEST:
            with pytest.raises(TamperedMessage):
                run_sealed(faults=replay)
        else:
            run_sealed(faults=replay, digest=dict.fromkeys(PARTIES, digest))


def test_other_plans_are_named_before_anything_is_sealed():
    digests = dict.fromkeys(PARTIES, DIGEST) | {"client-2": bytes(32)}
    with pytest.raises(PlanMismatch) as caught:
        run_sealed(digest=digests)
    assert caught.value.parties in (("client-2",), ("client-0", "client-1", "client-3", "client-4"))


@pytest.mark.parametrize("field", ["digest", "identity", "nonce", "ephemeral", "signature"])
def test_altered_greetings_are_refused(field):
    def alter(e):
        if e.kind != "Greeting" or (e.sender, e.recipient) != ("client-1", "client-3"):
            return (e,)
        data = bytearray(getattr(e.body, field))
        data[5] ^= 1
        return (dataclasses.replace(e, body=dataclasses.replace(e.body, **{field: bytes(data)})),)

    with pytest.raises(TamperedMessage) as caught:
        run_sealed(faults=alter)
    assert "client-1" in str(caught.value)

    def replace(e):
        return (dataclasses.replace(e, body=Hello(DIGEST)) if e.kind == "Greeting" else e,)

    with pytest.raises(TamperedMessage, match="Hello came instead of a Greeting"):
        run_sealed(faults=replace)


# --- the wrapper ------------------------------------------------------------------------------------


def at(number):
    return Exchange(round=number)


def after(number):
    return Exchange(accept=number, exact=False)


def pair(secret=bytes(96)):
    return SealedLine("b", SealedChannel(0, 1, secret, DIGEST)), SealedLine(
        "a", SealedChannel(1, 0, secret, DIGEST)
    )


def test_one_round_carries_one_message_each_way():
    a, b = pair()
    message = a.seal(3, Hello(b"x"))
    assert b.open(at(3), message).description == b"x"
    assert b.seal(3, Hello(b"x")).ciphertext != message.ciphertext
    with pytest.raises(AlreadyUsed):
        a.seal(3, Hello(b"y"))
    for number in (3, 4, 2):
        with pytest.raises(TamperedMessage):
            b.open(at(number), message)


def test_a_genuine_message_that_is_none_is_proof_against_its_sender():
    a, b = pair()
    noise = Sealed(5, a._channel.seal("sealed 0>1 5", b"\x01\xff\xff"))
    with pytest.raises(FaultyClient, match="a sent bytes that are no message"):
        b.open(at(5), noise)


def test_a_large_message_is_sealed_in_pieces_each_in_its_place(monkeypatch):
    monkeypatch.setattr("secfc.transport.sealed.PIECE", 10)
    for length in (0, 1, 8, 9, 10, 18, 19, 20, 100):  # also where the last piece is just full
        a, b = pair()
        message = Hello(bytes(i % 251 for i in range(length)))
        size = wire.encoded_size(message)
        whole = a.seal(3, message)
        assert len(whole.ciphertext) == size + OVERHEAD * -(-size // 10)
        step = 10 + OVERHEAD
        pieces = [whole.ciphertext[i : i + step] for i in range(0, len(whole.ciphertext), step)]
        others = [
            pieces[:-1], pieces[1:], pieces[::-1], [*pieces, pieces[0]], [pieces[0], *pieces],
            [*pieces[:-1], pieces[-1][:-1]], [*pieces, a.seal(4, Hello(b"")).ciphertext],
            [*pieces, bytes(16)],
        ]  # fmt: skip
        for altered in others:
            data = b"".join(altered)
            if data != whole.ciphertext and len(data) >= OVERHEAD:
                with pytest.raises(TamperedMessage):
                    b.open(at(3), Sealed(3, data))
        assert b.open(at(3), whole).description == message.description
        with pytest.raises(TamperedMessage):
            b.open(at(3), whole)


def test_a_run_whose_messages_are_sealed_in_pieces_gives_the_same(monkeypatch):
    plain = run_sealed(wrap=False).results
    monkeypatch.setattr("secfc.transport.sealed.PIECE", 64)
    got = run_sealed(faults=wire.over_wire()).results
    assert all((got[name].labels == plain[name].labels).all() for name in clustered().names)


def test_a_party_may_await_whatever_the_other_says_next():
    a, b = pair()
    sent = {n: a.seal(n, Hello(bytes([n]))) for n in (3, 4, 7, 9)}
    assert b.open(after(4), sent[7]).description == b"\7"
    for awaited, number in ((4, 7), (4, 4), (3, 3), (10, 9)):  # again, an older one, an old one, too old
        with pytest.raises(TamperedMessage):
            b.open(after(awaited), sent[number])
    with pytest.raises(TamperedMessage):
        b.open(after(8), Sealed(10, sent[9].ciphertext))
    assert b.open(after(8), sent[9]).description == b"\t"


def test_the_inner_role_is_closed_and_gives_its_result():
    closed = []

    def speaks(peer):
        try:
            yield Exchange({peer: Hello(b"x")}, (peer,), round=GREET + 2)
            return "heard"
        finally:
            closed.append(peer)

    roles = {me: seal_role(speaks(peer), me, ("a", "b"), DIGEST, SystemCoins()) for me, peer in ("ab", "ba")}
    assert simulate(roles).results == {"a": "heard", "b": "heard"}
    assert sorted(closed) == ["a", "b"]


def test_messages_check_themselves():
    with pytest.raises(ValueError, match="at least 16 bytes"):
        Sealed(0, bytes(15))
    with pytest.raises(ValueError, match="four times 32 bytes"):
        Greeting(bytes(32), bytes(32), bytes(32), bytes(32), bytes(63))
    with pytest.raises(ValueError, match="two greetings at least"):
        Countersign(bytes(143))
    assert Sealed(0, bytes(20)).nbytes == 28


def test_nothing_secret_is_shown():
    secret = b"plaintext-and-key-material------" * 3
    a, b = pair(secret)
    shown = [repr(a), repr(b), repr(a.seal(1, Hello(secret)))]
    with pytest.raises(TamperedMessage) as caught:
        b.open(at(1), Sealed(1, secret))
    shown.append(str(caught.value))
    assert not any("plaintext" in text or secret.hex()[:16] in text for text in shown)
    assert caught.value.__suppress_context__


def test_large_shares_arrive_unchanged_and_aligned():
    a, b = pair()
    values = np.random.default_rng(0).integers(0, 2**61, (1, 1000, 7), dtype=np.uint64)
    got = b.open(at(9), a.seal(9, RowShares(4, values, values[:, :2])))
    assert got.start == 4
    assert (got.values == values).all()
    assert got.values.flags.aligned


@pytest.mark.nightly
def test_shares_beyond_what_the_cipher_takes_at_once_arrive_unchanged():
    # 2.1 GiB: the cipher refuses 2 GiB, and pieces are 64 MiB.
    a, b = pair()
    values = np.arange(2200 << 17, dtype=np.uint64).reshape(1, 1 << 17, 2200)
    whole = a.seal(9, RowShares(4, values, values[:, :2, :1]))
    assert len(whole.ciphertext) > 1 << 31
    got = b.open(at(9), whole)
    assert np.array_equal(got.values, values)
