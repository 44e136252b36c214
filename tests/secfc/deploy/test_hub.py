"""Parties that meet at a hub: whole runs, hubs that die, strangers."""

import asyncio
import contextlib
import re
import socket as sockets

import numpy as np
import pytest

pytest.importorskip("websockets")
from websockets.asyncio.client import connect
from websockets.asyncio.server import serve

import secfc
from field import SeededCoins
from field.ring.errors import install_command
from field.secrets.channels import Identity
from secfc.algorithm import PublicFacts
from secfc.cli.deploy.hub import HubOptions, _numbers, _serve
from secfc.deploy.hub import LATER, Hub, waiting_path
from secfc.deploy.rendezvous import NotAdmitted, meet_at_hub, take_part_at_hub
from secfc.errors import InputError
from secfc.pipeline import seal_roles
from secfc.roles.exchange import SERVER, Exchange
from secfc.roles.messages import Hello
from secfc.transport.simulate import simulate
from tests.nightly import every, short
from tests.secfc.transport.test_wire import roles_of

FED = secfc.Federation.from_arrays(np.array_split(np.random.default_rng(4).normal(size=(40, 3)), 5))
NAMES = (*FED.names, SERVER)
KEYS = {name: Identity(SeededCoins(8, name).bytes(32)) for name in (*NAMES, "a", "b", "c", "stranger")}
PINS = {name: key.public for name, key in KEYS.items()}
RUN = "run 1/2"
WAITING = {"pulse": 5.0, "patience": 20.0, "grace": 5.0, "rejoin": 10.0}


def hub(*names):
    return Hub({RUN: {name: KEYS[name].public for name in names}})


def url_of(server):
    host, port = server.sockets[0].getsockname()[:2]
    return f"ws://{host}:{port}"


def party(role, url, me, peers, **more):
    return take_part_at_hub(role, url, RUN, me, peers, KEYS[me], PINS, **{**WAITING, **more})


async def everybody(roles, url, **more):
    parties = (party(role, url, me, tuple(p for p in roles if p != me), **more) for me, role in roles.items())
    return dict(
        zip(roles, await asyncio.wait_for(asyncio.gather(*parties), short(100, nightly=400)), strict=True)
    )


ALGORITHMS = {
    "default": secfc.SecFC(k=3, threshold=1, max_iter=3),
    "distances": secfc.SecFC(k=3, threshold=1, max_iter=3, disclosure=secfc.Distances()),
    "k-fed": secfc.KFed(3, 2),
}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_sealed_runs_over_a_hub_are_those_of_the_simulation(name):
    expected = simulate(roles_of(ALGORITHMS[name], FED)).results
    middle = hub(*NAMES)

    async def converse():
        roles = seal_roles(roles_of(ALGORITHMS[name], FED), b"plan", {n: SeededCoins(9, n) for n in NAMES})
        async with middle.serving() as server:
            return await everybody(roles, url_of(server))

    got = asyncio.run(converse())
    algorithm = ALGORITHMS[name]
    plan = algorithm.plan(PublicFacts.of(FED, 4.0))
    for client in FED.names:
        ours, theirs = (algorithm.outcome(plan, client, had[client]) for had in (got, expected))
        np.testing.assert_array_equal(ours.labels, theirs.labels)
    assert middle.counters.joined == len(NAMES) * (len(NAMES) - 1)
    assert middle.counters.pairs == 0
    assert middle.counters.forwarded > 1000


@pytest.mark.parametrize("deaths", every(2, [1, 3]))
def test_a_hub_that_dies_and_comes_back_changes_nothing(deaths):
    way = ALGORITHMS["default"]
    expected = simulate(roles_of(way, FED)).results
    seen = []

    async def converse():
        with sockets.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        middle = hub(*NAMES)
        exchanges = asyncio.Event()

        def slow(role):
            inbox = None
            number = 0
            while True:
                try:
                    exchange = role.send(inbox)
                except StopIteration as done:
                    return done.value
                number += 1
                if number in (4, 8, 12):
                    exchanges.set()
                inbox = yield exchange

        async def lives():
            for _ in range(deaths):
                async with middle.serving("127.0.0.1", port) as server:
                    await exchanges.wait()
                    exchanges.clear()
                    for connection in list(server.connections):
                        connection.transport.abort()
            async with middle.serving("127.0.0.1", port):
                await asyncio.Event().wait()

        roles = roles_of(way, FED)
        roles[SERVER] = slow(roles[SERVER])
        task = asyncio.create_task(lives())
        watch = lambda peer, what: seen.append(what)  # noqa: E731
        got = await everybody(roles, f"ws://127.0.0.1:{port}", watch=watch)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return got

    got = asyncio.run(converse())
    for client in FED.names:
        np.testing.assert_array_equal(got[client].labels, expected[client].labels)
    assert seen.count("came back") >= deaths * 2


def says(to, message=b"word"):
    yield Exchange({to: Hello(message)}, round=1)


def hears(of):
    return (yield Exchange({}, (of,), round=1))[of].description


def test_who_cannot_prove_who_it_is_is_not_admitted_and_disturbs_nobody():
    middle = hub("a", "b")

    async def converse():
        async with middle.serving() as server:
            url = url_of(server)
            for session, me, peer, key in (
                (RUN, "a", "b", KEYS["stranger"]),
                (RUN, "c", "b", KEYS["c"]),
                (RUN, "a", "c", KEYS["a"]),
                ("another run", "a", "b", KEYS["a"]),
                (RUN, "a", "a", KEYS["a"]),
            ):
                with pytest.raises(NotAdmitted, match="run file"):
                    await asyncio.wait_for(meet_at_hub(url, session, me, peer, key), 5)
            with pytest.raises(NotAdmitted):
                await party(says("b"), url, "a", ("c",))
            got = await asyncio.gather(
                party(says("b"), url, "a", ("b",)), party(hears("a"), url, "b", ("a",))
            )
            assert got[1] == b"word"

    asyncio.run(converse())
    assert middle.counters.refused == 6


def test_who_has_a_revoked_key_is_cut_off_and_not_let_in_again():
    def waits(peer):
        yield Exchange({}, (peer,), round=1)

    async def converse(revoked):
        middle = hub("a", "b", "c")
        async with middle.serving() as server:
            url = url_of(server)
            waiting = asyncio.gather(*(party(waits(q), url, p, (q,)) for p, q in ("ab", "ba")))
            while middle.counters.pairs < 2:
                await asyncio.sleep(0.01)
            middle.revoke_keys([KEYS[revoked].public])
            with pytest.raises(NotAdmitted if revoked == "a" else TimeoutError):
                await asyncio.wait_for(waiting, 3 if revoked == "a" else 0.5)

    asyncio.run(converse("a"))
    asyncio.run(converse("c"))  # nobody else is


def test_who_is_told_that_a_key_is_revoked_ends_at_once():
    def waits():
        yield Exchange({}, ("b",), round=1)

    def told():
        raise InputError("a key is revoked")

    async def converse():
        async with hub("a", "b").serving() as server:
            url = url_of(server)
            other = asyncio.create_task(party(hears("a"), url, "b", ("a",)))
            with pytest.raises(InputError, match="revoked"):
                await asyncio.wait_for(party(waits(), url, "a", ("b",), without=told), 5)
            other.cancel()

    asyncio.run(converse())


def test_a_peer_that_never_comes_is_named():
    async def converse():
        async with hub("a", "b", "c").serving() as server:
            other = asyncio.create_task(party(hears("a"), url_of(server), "b", ("a",)))
            with pytest.raises(TimeoutError, match=r"^c did not come .* over the same hub"):
                await party(says("b"), url_of(server), "a", ("b", "c"), arrival=0.5)
            other.cancel()

    asyncio.run(converse())


def test_who_resumes_goes_on_without_a_peer_that_is_lost_for_good():
    def both():
        return set((yield Exchange({}, ("b", "c"), enough=1, round=1)))

    async def converse(late):
        async with hub("a", "b", "c").serving() as server:
            url = url_of(server)
            clocks = {"rejoin": 0.5, "grace": 3.0 if late else 0.1}
            resumed = asyncio.create_task(party(both(), url, "a", ("b", "c"), resuming=True, **clocks))
            said = asyncio.create_task(party(says("a"), url, "b", ("a",)))
            if late:
                await asyncio.sleep(0.7)  # a has gone on, and c is not lost yet
                await party(says("a"), url, "c", ("a",))
            await said
            return await asyncio.wait_for(resumed, 10)

    assert asyncio.run(converse(False)) == {"b"}
    assert asyncio.run(converse(True)) == {"b", "c"}


def test_parties_meet_at_an_ipv6_address():
    async def converse():
        async with hub("a", "b").serving("::1") as server:
            url = f"ws://[::1]:{server.sockets[0].getsockname()[1]}"
            return await asyncio.gather(
                party(says("b"), url, "a", ("b",)), party(hears("a"), url, "b", ("a",))
            )

    if not sockets.has_ipv6:
        pytest.skip("there is no IPv6 here")
    assert asyncio.run(asyncio.wait_for(converse(), 30))[1] == b"word"


@pytest.mark.parametrize("cap", ["OF_AN_ADDRESS", "OF_ALL"])
def test_strangers_are_turned_away_beyond_a_number_and_parties_of_one_address_are_not(monkeypatch, cap):
    from secfc.deploy import hub as room

    monkeypatch.setattr(room, cap, 3)

    async def converse():
        middle = hub("a", "b")
        async with middle.serving() as server:
            url, where = url_of(server), server.sockets[0].getsockname()[:2]
            hearing = asyncio.create_task(party(hears("a"), url, "b", ("a",)))
            while not middle.waits():
                await asyncio.sleep(0.01)
            assert middle.strangers.now == 0  # it is known
            idle = [await asyncio.open_connection(*where) for _ in range(3)]
            while middle.strangers.now < 3:
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_connection(*where)
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read(1) == b""
            writer.close()
            assert middle.counters.turned_away == 1
            for _, writer in idle:
                writer.transport.abort()
            while middle.strangers.now:
                await asyncio.sleep(0.01)
            await party(says("b"), url, "a", ("b",))
            assert not middle.strangers.by_address
            return await hearing

    assert asyncio.run(asyncio.wait_for(converse(), 30)) == b"word"


def test_who_does_not_say_in_time_who_it_is_is_closed(monkeypatch):
    monkeypatch.setattr("secfc.deploy.hub.GREETING", 0.3)

    async def converse():
        middle = hub("a", "b")
        async with middle.serving() as server:
            mute, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
            async with connect(url_of(server) + waiting_path(RUN, "a", "b")) as unsigned:
                await asyncio.wait_for(unsigned.wait_closed(), 10)
                assert unsigned.close_code == LATER  # a busy machine may come again
            try:
                await asyncio.wait_for(mute.read(), 10)
            finally:
                writer.transport.abort()
            assert (middle.counters.refused, middle.strangers.now) == (1, 0)

    asyncio.run(converse())


def test_a_slow_reader_delays_no_other_pair():
    async def converse():
        async with hub("a", "b", "c").serving() as server:
            url = url_of(server)
            one, stuck = await asyncio.gather(
                meet_at_hub(url, RUN, "a", "b", KEYS["a"]), meet_at_hub(url, RUN, "b", "a", KEYS["b"])
            )
            full = asyncio.create_task(one.write(bytes(1 << 26)))  # which b never reads
            await asyncio.sleep(0.3)
            assert not full.done()
            two, free = await asyncio.gather(
                meet_at_hub(url, RUN, "a", "c", KEYS["a"]), meet_at_hub(url, RUN, "c", "a", KEYS["c"])
            )
            await two.write(b"hello")
            assert await asyncio.wait_for(free.read(5), 1) == b"hello"
            full.cancel()
            for end in (one, stuck, two, free):
                end.abort()

    asyncio.run(converse())


async def fetched(server, path):
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname()[:2])
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    data = await asyncio.wait_for(reader.read(1 << 16), 5)
    writer.close()
    head, _, body = data.decode().partition("\r\n\r\n")
    return head.split(" ")[1], body


def test_health_and_numbers_are_on_pages_of_the_loopback_and_name_nobody():
    from secfc.deploy import metrics

    async def converse():
        middle, site = hub("a", "b"), metrics.SiteMetrics()
        async with (
            middle.serving() as server,
            metrics.serve_metrics(metrics.hub_metrics(middle)) as of_hub,
            metrics.serve_metrics(site.registry, trouble=site.trouble) as of_site,
        ):
            assert await fetched(server, "/healthz") == ("200", "ok\n")
            assert (await fetched(server, "/metrics"))[0] != "200"  # for the operator only
            url = url_of(server)
            with pytest.raises(NotAdmitted):
                await meet_at_hub(url, RUN, "a", "b", KEYS["stranger"])
            await asyncio.gather(
                party(says("b", bytes(1000)), url, "a", ("b",)),
                party(hears("a"), url, "b", ("a",), meter=site),
            )
            pages = [(await fetched(where, "/metrics"))[1] for where in (of_hub, of_site)]
            assert await fetched(of_site, "/healthz") == ("200", "ok\n")
            site.computed(1.0)
            assert await fetched(of_site, "/healthz") == ("200", "ok\n")
            site._waits_since -= 1 + metrics.STUCK
            status, said = await fetched(of_site, "/healthz")
            assert (status, said[:36]) == ("503", "waits for 1 of 1 others, who are awa")
            assert "since 20" in said
            site.waited(1.0)
            assert await fetched(of_site, "/healthz") == ("200", "ok\n")
            assert (await fetched(of_site, "/other"))[0] == "404"
            assert all(where.sockets[0].getsockname()[0] == "127.0.0.1" for where in (of_hub, of_site))
            return dict(line.split(" ", 1) for line in "".join(pages).splitlines() if line[0] != "#")

    numbers = asyncio.run(converse())
    assert numbers["secfc_hub_refused_total"] == "1.0"
    assert numbers["secfc_hub_joined_total"] == "2.0"
    assert float(numbers["secfc_hub_forwarded_bytes_total"]) > 1000
    assert 1000 < float(numbers["secfc_site_received_bytes_total"]) < 1200
    assert numbers["secfc_site_waiting_seconds_count"] == "1.0"
    assert numbers["secfc_site_peers"] == "1.0"

    told = metrics.__doc__.split()
    for name in numbers:
        base = name.split("{")[0].removesuffix("_created")
        for end in ("_bucket", "_sum", "_count"):
            base = base.removesuffix(end)
        assert name.endswith("_created") or base in told
        assert "{" not in name or "{le=" in name


def test_a_hubs_page_is_red_while_an_end_waits_for_long_and_says_since_when(monkeypatch):
    async def converse():
        middle = hub("a", "b")
        async with middle.serving() as server, _numbers(middle, 0) as page:
            hearing = asyncio.create_task(party(hears("a"), url_of(server), "b", ("a",)))
            while not middle.waits():
                await asyncio.sleep(0.01)
            assert await fetched(page, "/healthz") == ("200", "ok\n")
            monkeypatch.setattr("secfc.deploy.metrics.STUCK", 0.0)
            status, said = await fetched(page, "/healthz")
            assert (status, said[:50]) == ("503", "1 ends wait for a peer that is not there, since 20")
            await party(says("b"), url_of(server), "a", ("b",))
            assert await fetched(page, "/healthz") == ("200", "ok\n")
            await hearing

    asyncio.run(asyncio.wait_for(converse(), 30))


def test_a_hub_says_an_ipv6_address_in_brackets(caplog):
    if not sockets.has_ipv6:
        pytest.skip("there is no IPv6 here")

    async def converse():
        serving = asyncio.create_task(_serve(hub(), HubOptions((), host="::1", port=0, plain=True), None))
        while "listens" not in caplog.text:
            await asyncio.sleep(0.01)
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)

    with caplog.at_level("INFO", "secfc.deploy"):
        asyncio.run(asyncio.wait_for(converse(), 30))
    assert re.search(r"ws://\[::1\]:\d+", caplog.text)


def test_without_websockets_the_extra_is_named(monkeypatch):
    import importlib.util

    import secfc.deploy

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=re.escape(install_command("[deploy]"))):
        importlib.reload(secfc.deploy)


@contextlib.contextmanager
def dead_address(port):
    """An address to which connections are begun and never made: nobody takes those that wait already."""
    with contextlib.ExitStack() as stack:
        listening = stack.enter_context(sockets.socket())
        listening.bind(("127.0.0.9", port))
        listening.listen(0)
        for _ in range(4):
            waits = stack.enter_context(sockets.socket())
            waits.setblocking(False)
            waits.connect_ex(("127.0.0.9", port))
        yield "127.0.0.9"


def test_a_hub_is_met_at_its_other_address_where_the_first_one_is_dead(monkeypatch):
    async def converse():
        loop = asyncio.get_running_loop()
        async with hub("a", "b").serving() as server:
            port = server.sockets[0].getsockname()[1]
            with dead_address(port) as dead:

                async def named(host, port, *, real=loop.getaddrinfo, **how):
                    hosts = (dead, "127.0.0.1") if host == "hub.test" else (host,)
                    return [one for address in hosts for one in await real(address, port, **how)]

                monkeypatch.setattr(loop, "getaddrinfo", named)
                with pytest.raises(TimeoutError):  # the control: this address is dead
                    await asyncio.wait_for(asyncio.open_connection(dead, port), 0.3)
                meet = (meet_at_hub(f"ws://hub.test:{port}", RUN, me, peer, KEYS[me]) for me, peer in
                        (("a", "b"), ("b", "a")))  # fmt: skip
                async with asyncio.timeout(8):
                    for channel in await asyncio.gather(*meet):
                        channel.abort()

    asyncio.run(converse())


def test_a_hub_that_takes_a_connection_and_says_nothing_is_asked_anew(monkeypatch):
    monkeypatch.setattr("secfc.deploy.rendezvous.ASK", 0.2)

    async def converse():
        async with serve(lambda socket: socket.wait_closed(), "127.0.0.1", 0) as server:
            with pytest.raises(TimeoutError, match=r"took the connection and said nothing for 0\.2 s"):
                await asyncio.wait_for(meet_at_hub(url_of(server), RUN, "a", "b", KEYS["a"]), 20)
        # Nor is anything signed that is no greeting.
        for greeting in (b"short", b"a" * 33, "a" * 32):

            async def greet(socket, greeting=greeting):
                await socket.send(greeting)
                assert [said async for said in socket] == []

            async with serve(greet, "127.0.0.1", 0) as server:
                with pytest.raises(ConnectionRefusedError, match="does not greet as a hub"):
                    await asyncio.wait_for(meet_at_hub(url_of(server), RUN, "a", "b", KEYS["a"]), 20)

    asyncio.run(converse())


def test_a_hub_that_cannot_be_reached_is_named_at_once_and_at_the_end():
    with sockets.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    seen = []

    def role():
        yield Exchange({}, ("b",))

    async def converse():
        with pytest.raises(TimeoutError, match="nobody could be met within 1 s"):
            await party(role(), f"ws://127.0.0.1:{port}", "a", ("b", "c"), arrival=1.0,
                        watch=lambda peer, what: seen.append(what))  # fmt: skip

    asyncio.run(converse())
    assert seen == ["cannot be met yet"]
