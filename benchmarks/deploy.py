"""What it costs to run between organizations: an iteration over a hub, beside direct sockets and one process.

    python -m benchmarks.deploy --out deploy.jsonl
    python -m benchmarks.deploy --carrier hub --carrier sockets -n 5 -m 2000 --latency 0
    python -m benchmarks.deploy messages          # a message and its acknowledgment, by size
    python -m benchmarks.deploy shaped            # whole runs over a slow line, beside what it takes
    python -m benchmarks.deploy -n 9 -m 1000000 -k 10 --steps 5 --carrier hub --policy distances

Every party is a process of this machine, sealed and pinned, started warm; so is the hub.  `iteration` is the
median over the steps of a run from random labels, by the server's clock; rounds are the longest chain of
messages each of which answers the one before, and bytes the transcript's, both of an iteration.  `wire` is
what the hub forwarded in the whole run, over the transcript's bytes.  With a latency every connection of a
party is delayed on its way (`benchmarks.shaping`), so that a word from one party to another takes that long.
Over FLARE (`benchmarks.flare`, if it is installed) it is FLARE's own processes that start all; there is no
latency, and `hub MB` is the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
import multiprocessing
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks import flare
from benchmarks.common import Marked, Row, peak_gib, require, run_grid, show
from benchmarks.shaping import Shape, shaped
from field import SystemCoins
from field.secrets.channels import Identity
from secfc.algorithm import PublicFacts
from secfc.coded.queries import Operation, Query, Subject
from secfc.data.mixtures import gaussian_mixture
from secfc.roles.abort import broadcast_abort
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, PartyId, Role
from secfc.roles.messages import Hello
from secfc.transport.link import Link
from secfc.transport.network import run_party
from secfc.transport.sealed import seal_role
from secfc.transport.simulate import simulate

SESSION = "benchmark"
POLICIES: dict[str, Callable[[], Any]] = {"default": secfc.AssignmentsOnly, "distances": secfc.Distances}
Secrets = Mapping[PartyId, bytes]


# --- what is run -----------------------------------------------------------------------------------


def data_of(cell: Row) -> secfc.Federation:
    """The points of a cell, dealt to its clients."""
    points, _ = gaussian_mixture(cell["m"], cell["d"], cell["k"], 5.0, np.random.default_rng(0))
    return secfc.Federation.from_arrays(np.array_split(points, cell["n"]))


def role_of(cell: Row, name: PartyId, secrets: Secrets, federation: secfc.Federation) -> Role[Any]:
    """A party's role, sealed; a client's needs its own points only, which are all made from one seed here."""
    algorithm = algorithm_of(cell)
    public = replace(PublicFacts.of(federation, bound_of(federation)), session=bytes(32))
    plan = algorithm.plan(public)
    coins, names = SystemCoins(), (*federation.names, SERVER)
    if name == SERVER:
        role: Any = algorithm.server(plan, rng=np.random.default_rng(0), coins=coins)
    else:
        party = federation.parties[federation.names.index(name)]
        # A copy: what belongs to the others is not held by this process.
        role = algorithm.client(plan, replace(party, points=np.array(party.points)), coins=coins)
    role = broadcast_abort(role, name, tuple(p for p in names if p != name))
    identities = {p: Identity(secret) for p, secret in secrets.items()}
    pins = {p: identity.public for p, identity in identities.items()}
    return seal_role(role, name, names, plan.description, coins, identity=identities[name], identities=pins)


def algorithm_of(cell: Row) -> secfc.SecFC:
    """From random labels, so that what is timed are steps; t up to a third; coarse if need be."""
    t = min(-(-cell["n"] // 3), (cell["n"] + 1) // 2 - 1)
    policy = POLICIES[cell["policy"]]()
    return secfc.SecFC(
        k=cell["k"], threshold=t, max_iter=cell["steps"], init=secfc.RandomLabels(), disclosure=policy,
        quantization=secfc.Quantization(scale=cell["scale"], coarse="allow"),
    )  # fmt: skip


def bound_of(federation: secfc.Federation) -> float:
    """What no value exceeds."""
    return float(2 ** np.ceil(np.log2(max(np.abs(p.points).max() for p in federation.parties))))


def iteration_of(marks: list[tuple[int, float]]) -> tuple[float, float, int]:
    """Median seconds of a step, of the whole, and how many steps, by the server's marks."""
    begins: dict[int, float] = {}
    for number, when in marks:
        if number >= ITERATE:
            begins.setdefault((number - ITERATE) // STRIDE, when)
    times = sorted(begins.values())
    return float(np.median(np.diff(times))), marks[-1][1] - marks[0][1], len(times)


# --- carriers: how one party's role runs among its peers ---------------------------------------------

Carrier = Callable[[Role[Any], PartyId, tuple[PartyId, ...], Row], Coroutine[Any, Any, Any]]


async def over_sockets(role: Role[Any], me: PartyId, names: tuple[PartyId, ...], places: Row) -> Any:
    """Everybody listens, and goes to those that come later in the list."""
    links: dict[PartyId, Link] = {}
    there = asyncio.Event()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        links[(await reader.readexactly(64)).decode().strip()] = Link(reader, writer)
        there.set()

    server = await asyncio.start_server(meet, sock=socket.socket(fileno=places["listening"]))
    for peer in names[names.index(me) + 1 :]:
        reader, writer = await asyncio.open_connection("127.0.0.1", places["ports"][peer])
        writer.write(me.ljust(64).encode())
        links[peer] = Link(reader, writer)
    while len(links) < len(names) - 1:
        await there.wait()
        there.clear()
    try:
        return await run_party(role, links, patience=600.0)
    finally:
        server.close()


async def over_hub(role: Role[Any], me: PartyId, names: tuple[PartyId, ...], places: Row) -> Any:
    """All go out to one hub."""
    from secfc.deploy.rendezvous import take_part_at_hub

    peers = tuple(name for name in names if name != me)
    identity = Identity(places["secrets"][me])
    pins = {name: Identity(places["secrets"][name]).public for name in peers}
    return await take_part_at_hub(role, places["url"], SESSION, me, peers, identity, pins, patience=600.0)


CARRIERS: dict[str, Carrier] = {"sockets": over_sockets, "hub": over_hub}


# --- processes ---------------------------------------------------------------------------------------


def party(carrier: str, make: Callable[..., Role[Any]], args: tuple[Any, ...], me: PartyId,
          names: tuple[PartyId, ...], places: Row, pipe: Any) -> None:  # fmt: skip
    """One party, in a process of its own: makes its role, says so, and runs it when it is told to."""
    watch = Marked()
    if make is made:
        warm(args[0])
    role = watch.role(make(*args))
    pipe.send("ready")
    pipe.recv()
    result = asyncio.run(CARRIERS[carrier](role, me, names, places))
    spent = time.process_time() - watch.before
    pipe.send(
        vars(watch)
        | {"all": spent, "memory": peak_gib() * 1024, "result": result if make is talking else None}
    )
    pipe.recv()  # its sockets stay open until all are done


HUB = """
import asyncio, json, sys, time
from secfc.deploy.hub import Hub

async def serve(pins):
    hub = Hub({"%s": {name: bytes.fromhex(key) for name, key in pins.items()}})
    async with hub.serving() as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        begin = time.process_time()
        await asyncio.to_thread(sys.stdin.readline)
    status = open("/proc/self/status").read()  # getrusage counts what the parent had at the fork
    memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
    spent = time.process_time() - begin
    print(json.dumps({"forwarded": hub.counters.forwarded, "memory": memory, "cpu": spent}))

asyncio.run(serve(json.loads(sys.argv[1])))
"""


@contextlib.contextmanager
def serving(pins: Mapping[PartyId, bytes]) -> Iterator[tuple[int, Callable[[], Row]]]:
    """The port of a hub, in a process that has loaded nothing else; and what asks it what it forwarded."""
    keys = json.dumps({name: key.hex() for name, key in pins.items()})
    command = [sys.executable, "-c", HUB % SESSION, keys]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def ask() -> Row:
            answer: Row = json.loads(process.communicate("\n", timeout=20)[0])
            return answer

        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), ask
        finally:
            process.kill()


def processes(
    carrier: str, roles: Mapping[PartyId, tuple[Callable[..., Role[Any]], tuple[Any, ...]]], secrets: Secrets,
    shape: Shape,
) -> tuple[dict[PartyId, Row], Row]:  # fmt: skip
    """What every party measured, and the hub."""
    spawn = multiprocessing.get_context("spawn")
    names = tuple(roles)
    running: list[Any] = []
    pipes: dict[PartyId, Any] = {}
    with contextlib.ExitStack() as stack:
        places: Row = {"secrets": dict(secrets)}
        forwarder = None
        if carrier == "hub":
            pins = {name: Identity(secret).public for name, secret in secrets.items()}
            port, forwarder = stack.enter_context(serving(pins))
            port = stack.enter_context(shaped(port, shape)) if shape.shapes else port
            places["url"] = f"ws://127.0.0.1:{port}"
        else:
            listening = {name: bound_socket() for name in names}
            places["ports"] = {name: sock.getsockname()[1] for name, sock in listening.items()}
            if shape.shapes:
                ports = {name: stack.enter_context(shaped(p, shape)) for name, p in places["ports"].items()}
                places["ports"] = ports
        for name, (make, args) in roles.items():
            pipes[name], there = spawn.Pipe()
            mine = places
            if carrier != "hub":
                mine = places | {"socket": listening[name]}
            running.append(
                spawn.Process(
                    target=starting, args=(carrier, make, args, name, names, mine, there), daemon=True
                )
            )
            running[-1].start()
        try:
            for pipe in pipes.values():
                pipe.recv()
            for pipe in pipes.values():
                pipe.send("go")
            found = {name: pipe.recv() for name, pipe in pipes.items()}
            for pipe in pipes.values():
                pipe.send("done")
            of_hub: Row = {}
            if forwarder is not None:
                time.sleep(0.2)  # for the last bytes of goodbyes
                of_hub = forwarder()
            for process in running:
                process.join(10)
            return found, of_hub
        finally:
            for process in running:
                if process.is_alive():
                    process.kill()


def starting(carrier: str, make: Any, args: Any, me: PartyId, names: Any, places: Row, pipe: Any) -> None:
    """A party's process; a socket that came with it is its own now."""
    if "socket" in places:
        places = places | {"listening": places["socket"].detach()}
    with contextlib.suppress(EOFError):  # whoever started it has gone
        party(carrier, make, args, me, names, places, pipe)


def bound_socket() -> socket.socket:
    """A listening socket on a free port."""
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(128)
    return sock


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


# --- rounds and bytes, from one process ------------------------------------------------------------------


def counted(roles: Mapping[PartyId, Role[Any]]) -> tuple[dict[str, Row], Any]:
    """Rounds and bytes by phase, of whole runs; rounds are the longest chain of messages."""
    depth: dict[PartyId, int] = dict.fromkeys(roles, 0)
    sent: dict[tuple[PartyId, PartyId, int], int] = {}
    phases: dict[str, Row] = {}

    def watched(name: PartyId, role: Role[Any]) -> Role[Any]:
        inbox: Any = None
        while True:
            try:
                exchange: Exchange = role.send(inbox)
            except StopIteration as done:
                return done.value
            before = depth[name]
            for to, message in exchange.send.items():
                sent[name, to, exchange.round] = before + 1
                row = phases.setdefault(exchange.phase, {"rounds": set(), "bytes": 0})
                row["bytes"] += message.nbytes
                row["rounds"].add(before + 1)
            inbox = yield exchange
            rounds = inbox.rounds.items()
            depth[name] = max([before, *(sent.get((peer, name, number), 0) for peer, number in rounds)])

    run = simulate({name: watched(name, role) for name, role in roles.items()})
    return {p: {"rounds": len(row["rounds"]), "bytes": row["bytes"]} for p, row in phases.items()}, run


def secrets_of(names: tuple[PartyId, ...]) -> dict[PartyId, bytes]:
    """A key for everybody."""
    return {name: SystemCoins().bytes(32) for name in names}


def measure(cell: Row, bandwidth: float = 0.0) -> Iterator[Row]:
    """One run of a cell: a row."""
    federation = data_of(cell)
    names = (*federation.names, SERVER)
    secrets = secrets_of(names)
    if cell["carrier"] == "simulator":
        watch = Marked()
        warm(cell)
        roles = {name: role_of(cell, name, secrets, federation) for name in names}
        roles[SERVER] = watch.role(roles[SERVER])
        phases, _ = counted(roles)
        iteration, whole, steps = iteration_of(watch.marks)
        nbytes, rounds = (sum(row[what] for row in phases.values()) for what in ("bytes", "rounds"))
        yield {
            "iteration_ms": 1e3 * iteration, "seconds": whole, "steps": steps, "bytes": nbytes,
            "rounds": rounds, "phases": phases, "memory": peak_gib() * 1024,
        }  # fmt: skip
        return
    making = {name: (made, (cell, name, dict(secrets))) for name in names}
    if cell["carrier"] == "flare":
        found, of_hub = flare.processes(making, secrets)
    else:
        found, of_hub = processes(cell["carrier"], making, secrets, Shape(cell["latency"], bandwidth))
    iteration, whole, steps = iteration_of(found[SERVER]["marks"])
    nbytes = sum(one["nbytes"] for one in found.values())
    row: Row = {
        "iteration_ms": 1e3 * iteration,
        "seconds": whole,
        "steps": steps,
        "bytes": nbytes,
        "rounds": chain(found),
        "roles_cpu_ms": 1e3 * sum(one["cpu"] for one in found.values()) / steps,
        "parties_cpu_ms": 1e3 * sum(one["all"] for one in found.values()) / steps,
        "memory": max(one["memory"] for one in found.values()),
    }
    row |= {f"hub_{key}": value for key, value in of_hub.items()}
    if "forwarded" in of_hub:
        row |= {"wire": of_hub["forwarded"] / nbytes, "hub_cpu_ms": 1e3 * of_hub["cpu"] / steps}
    yield row


def chain(found: Mapping[PartyId, Row]) -> int:
    """The longest chain of messages each of which was sent after the one before was heard."""
    depths: dict[tuple[PartyId, int], int] = {}  # of a party before its exchange of this number

    def depth(name: PartyId, number: int) -> int:
        for at in range(number + 1):
            if (name, at) not in depths:
                before = depths.get((name, at - 1), 0)
                heard = found[name]["heard"][at - 1] if at else []
                came = [1 + depth(peer, found[peer]["sent"][name, which]) for peer, which in heard]
                depths[name, at] = max([before, *came])
        return depths[name, number]

    sys.setrecursionlimit(100_000)
    return max(depth(name, len(one["heard"])) for name, one in found.items())


def made(cell: Row, name: PartyId, secrets: Secrets) -> Role[Any]:
    """A party's role, in its own process."""
    return role_of(cell, name, secrets, data_of(cell))


def warm(cell: Row) -> None:
    """Load the kernels that a run of this kind needs, from a small one."""
    small = cell | {"n": min(cell["n"], 5), "m": 1000, "steps": 2}
    federation = data_of(small)
    secrets = secrets_of((*federation.names, SERVER))
    simulate({name: role_of(small, name, secrets, federation) for name in secrets})


# --- a message and its acknowledgment ----------------------------------------------------------------


def asking(size: int, times: int, peer: PartyId) -> Role[list[float]]:
    """Send a message of this size and wait for a word back, so many times: seconds of each."""
    subject = Subject(Operation.DISTANCE, 2, np.zeros(size, np.int8))
    seconds, message = [], Query(1, subject, np.zeros(0, np.int32))
    for i in range(times):
        start = time.perf_counter()
        yield Exchange({peer: message}, (peer,), round=ITERATE + 2 * i, accept=ITERATE + 2 * i + 1)
        seconds.append(time.perf_counter() - start)
    return seconds


def answering(size: int, times: int, peer: PartyId) -> Role[None]:
    """The other end."""
    for i in range(times):
        yield Exchange({}, (peer,), round=ITERATE + 2 * i)
        yield Exchange({peer: Hello(b"")}, round=ITERATE + 2 * i + 1)


def messages(cell: Row) -> Iterator[Row]:
    """A message of one size and a word back, as parties send them: the median of some, and the best."""
    size, times = cell["size"], 200 if cell["size"] < 1 << 16 else 40 if cell["size"] < 1 << 24 else 4
    secrets = secrets_of(("a", "b"))
    roles = {
        "a": (talking, (asking, size, times, "a", dict(secrets))),
        "b": (talking, (answering, size, times, "b", dict(secrets))),
    }
    if cell["carrier"] == "flare":
        secrets[SERVER] = SystemCoins().bytes(32)  # FLARE has a server, which says nothing here
        found, of_hub = flare.processes({**roles, SERVER: (silent, ())}, secrets)
    else:
        found, of_hub = processes(cell["carrier"], roles, secrets, Shape())
    seconds = found["a"]["result"]
    row = {"median_ms": 1e3 * float(np.median(seconds)), "best_ms": 1e3 * min(seconds)}
    yield row | {f"hub_{key}": value for key, value in of_hub.items()}


def silent() -> Role[None]:
    """A party that takes no part."""
    yield from ()


def talking(kind: Any, size: int, times: int, me: PartyId, secrets: Secrets) -> Role[Any]:
    """One end, sealed."""
    identities = {p: Identity(secret) for p, secret in secrets.items()}
    pins = {p: identity.public for p, identity in identities.items()}
    role = kind(size, times, "b" if me == "a" else "a")
    return seal_role(
        role, me, ("a", "b"), b"messages", SystemCoins(), identity=identities[me], identities=pins
    )


# --- a shaped link -------------------------------------------------------------------------------------


def shaped_run(cell: Row) -> Iterator[Row]:
    """A whole run over slow lines, beside what its rounds and its bytes take at least."""
    for row in measure(cell, cell["bandwidth"]):
        least = row["rounds"] * cell["latency"] + row["bytes"] / cell["bandwidth"]
        yield row | {"least_seconds": least, "over": row["seconds"] / least}


# --- the grid ------------------------------------------------------------------------------------------

BASE: Row = {
    "policy": "default",
    "n": 5,
    "m": 2000,
    "d": 20,
    "k": 4,
    "steps": 10,
    "scale": None,
    "latency": 0.0,
}
EVERY = ("simulator", *CARRIERS, "flare")
SIZES = (1000, 1_000_000, 100_000_000)


def cells(carriers: tuple[str, ...], ns: tuple[int, ...], ms: tuple[int, ...], latencies: tuple[float, ...],
          policies: tuple[str, ...], shape: Row) -> Iterator[Row]:  # fmt: skip
    """One parameter after the other."""
    for policy in policies:
        for carrier in carriers:
            for n in ns:
                for m in ms:
                    for latency in latencies if carrier in CARRIERS else (0.0,):
                        own = {"policy": policy, "carrier": carrier, "n": n, "m": m, "latency": latency}
                        yield BASE | shape | own


def text(row: Row) -> list[str]:
    """A row of the table."""
    cell, per = row["cell"], row["steps"]
    rounds = f"{row['rounds'] / per:.1f}"
    return [
        cell["carrier"], cell["policy"], str(cell["n"]), str(cell["m"]), f"{1e3 * cell['latency']:g}",
        f"{row['iteration_ms']:.1f}", rounds, f"{row['bytes'] / per / 1e6:.3f}", f"{row.get('wire', 1):.4f}",
        f"{row['memory']:.0f}", f"{row['hub_memory']:.0f}" if "hub_memory" in row else "",
    ]  # fmt: skip


@click.command(help=__doc__.split("\n")[0])
@click.argument("what", type=click.Choice(["grid", "messages", "shaped"]), default="grid")
@click.option("--carrier", "carriers", type=click.Choice(EVERY), multiple=True,
              help="Default: all, FLARE where it is installed.")  # fmt: skip
@click.option("--policy", "policies", type=click.Choice(list(POLICIES)), multiple=True, default=["default"])
@click.option("-n", "ns", type=int, multiple=True, default=[3, 5, 10, 30], help="Clients.")
@click.option("-m", "ms", type=int, multiple=True, default=[2000, 250_000, 2_500_000], help="Points.")
@click.option("--latency", "latencies", type=float, multiple=True, default=[0.0, 0.02, 0.1],
              help="Seconds from one party to another, one way.")  # fmt: skip
@click.option("-d", type=int, default=BASE["d"], show_default=True, help="Features.")
@click.option("-k", type=int, default=BASE["k"], show_default=True, help="Clusters.")
@click.option("--steps", type=int, default=BASE["steps"], show_default=True, help="Steps at most.")
@click.option("--scale", type=float, help="Integer steps a unit. Default: the most that fit, at least 1024.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    what: str, carriers: tuple[str, ...], policies: tuple[str, ...], ns: tuple[int, ...], ms: tuple[int, ...],
    latencies: tuple[float, ...], d: int, k: int, steps: int, scale: float | None,
    out: Path | None,
) -> None:  # fmt: skip
    """Run what was asked for, and print a table."""
    require("websockets", "websockets", "deploy")
    if "flare" in carriers:
        require("nvflare", "NVIDIA FLARE", "nvflare")
    there = "flare" if importlib.util.find_spec("nvflare") else ""
    every = carriers or tuple(carrier for carrier in EVERY if carrier in ("simulator", *CARRIERS, there))
    if what == "messages":
        todo = [
            {"carrier": carrier, "size": size}
            for carrier in every
            if carrier != "simulator"
            for size in SIZES
        ]
        rows = list(run_grid(todo, messages, out))
        lines = [
            [r["cell"]["carrier"], f"{r['cell']['size']:,}", f"{r['median_ms']:.2f}", f"{r['best_ms']:.2f}"]
            for r in rows
        ]
        show("A message and its acknowledgment", ["carrier", "bytes", "median ms", "best ms"], lines)
        return
    if what == "shaped":
        # 50 ms there and back between parties, 100 Mbit/s for all together in each direction.
        slow = {"latency": 0.025, "bandwidth": 12.5e6, "m": 20_000}
        todo = [BASE | slow | {"carrier": "hub", "policy": policy} for policy in policies]
        rows = list(run_grid(todo, shaped_run, out))
        lines = [
            [r["cell"]["policy"], str(r["rounds"]), f"{r['bytes'] / 1e6:.1f}", f"{r['least_seconds']:.2f}",
             f"{r['seconds']:.2f}", f"{r['over']:.3f}"]
            for r in rows
        ]  # fmt: skip
        columns = ["policy", "rounds", "MB", "rounds and bytes take s", "took s", "over"]
        show("Whole runs, 50 ms round trip and 100 Mbit/s", columns, lines)
        return
    shape = {"d": d, "k": k, "steps": steps, "scale": scale}
    todo = list(cells(every, ns, ms, latencies, policies, shape))
    rows = list(run_grid(todo, measure, out))
    columns = [
        "carrier", "policy", "n", "m", "one way ms", "step ms", "rounds", "MB", "wire", "party MB", "hub MB",
    ]  # fmt: skip
    show(f"An iteration, d={d}, k={k}", columns, [text(row) for row in rows])
    parts = [
        [row["cell"]["policy"], str(row["cell"]["n"]), str(row["cell"]["m"]), phase, str(part["rounds"]),
         f"{part['bytes'] / 1e6:.3f}"]
        for row in rows for phase, part in row.get("phases", {}).items()
    ]  # fmt: skip
    if parts:
        show("A whole run by phase", ["policy", "n", "m", "phase", "rounds", "MB"], parts)


if __name__ == "__main__":
    # What parties are handed names functions of this module, not of the program that was started.
    from benchmarks.deploy import main as started

    started()
