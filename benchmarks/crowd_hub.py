"""A thousand clients over a hub: a run of shared centers as sites run it, from connections to labels.

    python -m benchmarks.crowd_hub                       # 100 clients, in the clear and over TLS
    python -m benchmarks.crowd_hub -n 1000 --tls         # a quarter of an hour
    python -m benchmarks.crowd_hub -n 1000 --away        # one client comes late, another is lost in the run

The hub is a process of its own, and so are some that hold the parties: keys that are pinned, greetings,
consents, numbers of rows, `FederatedLloyd`, each connection protected and each message sealed.  What sites
keep on disc is not there.  Clients have 20 rows of 20 features, k=8.  Labels are compared with plaintext
Lloyd's; where a client is lost, with those of the centers that all others ended with.

`links` are pairs of parties that speak with each other, each two connections of the hub; `met_s` seconds
until all had come, `run_s` those from then on; `cpu_s` processor time of all parties, and
`peak_gib` the memory of the processes that hold them; `mb` what the hub forwarded.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import resource
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, peak_gib, require, run_grid, show
from field.secrets.channels import Identity
from field.secrets.coins import SystemCoins
from secfc.algorithm import PartyOutcome, PublicFacts
from secfc.data.inputs import seeded_generator
from secfc.deploy import session
from secfc.deploy.audit_log import Head
from secfc.deploy.consent import KEY, AcceptedTerms, consent_first
from secfc.roles.exchange import ITERATE, SERVER, STRIDE, Exchange, PartyId, Role

SESSION, K, D, ROWS, SCALE, BOUND = "crowd", 8, 20, 20, 512.0, 32.0
# Connections that are opened at a time.
OPENING = 32
# The question in which a client is lost; seconds that another comes late; processes that hold the parties.
LOST_AT, LATE, PROCESSES = 6, 20.0, 6
COLUMNS = [
    "n", "committee", "tls", "away", "links", "questions", "met_s", "run_s", "cpu_s", "hub_cpu_s", "mb",
    "hub_mib", "peak_gib",
]  # fmt: skip

HUB = """
import asyncio, json, resource, ssl, sys, time
from secfc.deploy.hub import Hub

most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))

async def serve(pins, certificate):
    hub, tls = Hub({"crowd": {name: bytes.fromhex(key) for name, key in pins.items()}}), None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate)
    async with hub.serving(tls=tls) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        status = open("/proc/self/status").read()
        print(json.dumps({
            "forwarded": hub.counters.forwarded, "cpu": time.process_time(),
            "turned": hub.counters.turned_away, "joined": hub.counters.joined,
            "memory": int(status.split("VmHWM:")[1].split()[0]) / 1024,
        }), flush=True)

pins, certificate = json.loads(sys.stdin.readline())
asyncio.run(serve(pins, certificate))
"""


@contextlib.contextmanager
def hub_of(pins: Mapping[PartyId, bytes], tls: bool) -> Iterator[tuple[str, Any, Any]]:
    """A hub's address, what its clients trust, and its process, which tells what it counted to who asks."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hub.pem"
        trusted = make_certificate(path) if tls else ""
        command = [sys.executable, "-c", HUB]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            keys = {name: key.hex() for name, key in pins.items()}
            process.stdin.write(json.dumps([keys, str(path) if tls else ""]) + "\n")
            process.stdin.flush()
            try:
                port = int(process.stdout.readline())
                where = f"wss://localhost:{port}" if tls else f"ws://127.0.0.1:{port}"
                yield where, trusted, process
            finally:
                process.kill()


def make_certificate(path: Path) -> str:
    """Write a key and its own certificate for this machine, which is trusted."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now, localhost = datetime.now(UTC), x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(1)
    )
    made = made.add_extension(localhost, True)
    made = made.add_extension(x509.BasicConstraints(True, None), True)
    text = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + text)
    return text.decode()


class Crowd:
    """Parties with data and keys.  questions: rounds of the sums that were opened."""

    def __init__(self, cell: Row, secrets: Mapping[PartyId, bytes]) -> None:
        n, committee = cell["n"], cell["committee"]
        rng = np.random.default_rng(0)
        means = 4 * rng.normal(size=(K, D))
        points = means[rng.integers(0, K, n * ROWS)] + rng.normal(size=(n * ROWS, D))
        self.federation = secfc.Federation.from_arrays(np.split(points, n))
        self.way = secfc.FederatedLloyd(K, scale=SCALE, committee=committee, coarse="allow")
        names = (*self.federation.names, SERVER)
        self.keys = {name: Identity(secret) for name, secret in secrets.items()}
        self.pins = {name: key.public for name, key in self.keys.items()}
        # As `fit` makes it of its seed.
        start, known = int(seeded_generator(0).integers(2**63)), PublicFacts.of(self.federation, BOUND)
        public = replace(known, counts=(1,) * n, session=bytes(32), seed=start)
        self.work = session.AgreedWork(self.way, public, False, names, self.pins, b"the run file")
        self.links = self.work.links
        self.questions = set[int]()

    def role(self, me: PartyId) -> Role[PartyOutcome]:
        """A party's part, as its site runs it."""
        coins = SystemCoins()
        if me == SERVER:
            role = session.server_role(self.work, coins, np.random.default_rng(0))
        else:
            party = self.federation.parties[self.federation.names.index(me)]
            role = session.client_role(self.work, party, coins)
        terms = AcceptedTerms(
            bytes(32), bytes(32), "centers", self.way.t, None, None, me, bytes(32), "benchmark", "", Head()
        )
        linked = {party: self.pins[party] for party in (me, *self.links.peers_of(me))}
        role = consent_first(
            role, me, terms.sign(self.keys[me], coins.bytes(KEY)), linked, lambda found: None
        )
        return session.protected_role(self.work, me, role, self.keys[me], coins)


class Left(Exception):  # noqa: N818
    """A client that is lost."""


def watch_role(role: Role[Any], begun: Any, until: int | None) -> Role[Any]:
    """The same role, that says when all have met, and is lost in the round of this number."""
    inbox: Any = None
    try:
        while True:
            try:
                exchange: Exchange = role.send(inbox)
            except StopIteration as done:
                return done.value
            if until is not None and exchange.round >= until:
                raise Left
            inbox = yield exchange
            begun(exchange)
    finally:
        role.close()


async def run_some(
    crowd: Crowd, mine: list[PartyId], where: str, tls: Any, away: Mapping[str, PartyId]
) -> tuple[dict[PartyId, Any], float]:
    """What these parties have in the end; seconds until the first had met all its peers."""
    from secfc.deploy.rendezvous import take_part_at_hub

    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4))
    start, met, opening = time.perf_counter(), list[float](), asyncio.Semaphore(OPENING)

    def note(exchange: Exchange) -> None:
        met.append(time.perf_counter() - start)
        if exchange.phase == "listen":
            crowd.questions.add(exchange.round)

    async def take_part(me: PartyId) -> Any:
        if me == away.get("late"):
            await asyncio.sleep(LATE)
        until = ITERATE + LOST_AT * STRIDE if me == away.get("lost") else None
        role = watch_role(crowd.role(me), note, until)
        peers = crowd.links.peers_of(me)
        pins = {peer: crowd.pins[peer] for peer in peers}
        try:
            return await take_part_at_hub(
                role, where, SESSION, me, peers, crowd.keys[me], pins, tls=tls, arrival=1800.0,
                opening=opening, patience=1800.0, pulse=300.0, rejoin=20.0, grace=60.0,
            )  # fmt: skip
        except Left:
            return None

    found = await asyncio.gather(*map(take_part, mine))
    return dict(zip(mine, found, strict=True)), met[0]


def hold_parties(
    cell: Row, secrets: Mapping[PartyId, bytes], mine: list[PartyId], where: str, certificate: str, pipe: Any
) -> None:
    """A process of these parties: tells their labels, whom they lack, and what it took."""
    raise_limit()
    crowd = Crowd(cell, secrets)
    trusted = ssl.create_default_context(cadata=certificate) if certificate else None
    plain = [c for c in crowd.federation.names if c not in crowd.links.central_set]
    away = {"late": plain[1], "lost": plain[2]} if cell["away"] else {}
    pipe.send("ready")
    pipe.recv()
    before = time.process_time()
    found, met = asyncio.run(run_some(crowd, mine, where, trusted, away))
    told = {me: None if one is None else (one.labels, one.excluded, one.share) for me, one in found.items()}
    pipe.send((told, met, time.process_time() - before, peak_gib(), len(crowd.questions)))


def raise_limit() -> int:
    """Allow as many open files as the system does: how many."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    return limit


def measure(cell: Row) -> Iterator[Row]:
    """One run, whose labels are compared."""
    limit, names = raise_limit(), [*(f"client-{j}" for j in range(cell["n"])), SERVER]
    secrets = {name: SystemCoins().bytes(32) for name in names}
    crowd = Crowd(cell, secrets)
    links = sum(len(crowd.links.peers_of(name)) for name in crowd.links.parties) // 2
    if 2 * links + 100 > limit:
        raise click.ClickException(
            f"{links} links take {2 * links} connections of the hub, and {limit} files may be open: take a "
            "smaller committee, or allow more (ulimit -Hn)"
        )
    # Members first, who await everybody.
    order = sorted(crowd.links.parties, key=lambda name: name not in crowd.links.central_set)
    spawn, held = multiprocessing.get_context("spawn"), list[tuple[Any, Any]]()
    with hub_of(crowd.pins, cell["tls"]) as (where, certificate, process):
        for j in range(min(PROCESSES, cell["n"])):
            pipe, there = spawn.Pipe()
            args = (cell, secrets, order[j::PROCESSES], where, certificate, there)
            held.append((spawn.Process(target=hold_parties, args=args, daemon=True), pipe))
            held[-1][0].start()
        for _, pipe in held:
            pipe.recv()
        start = time.perf_counter()
        for _, pipe in held:
            pipe.send("go")
        told = [pipe.recv() for _, pipe in held]
        whole = time.perf_counter() - start
        process.stdin.write("\n")
        process.stdin.flush()
        of_hub = json.loads(process.stdout.readline())
    found = {me: one for part, *_ in told for me, one in part.items()}
    met, work, most = (f(one[i] for one in told) for i, f in ((1, max), (2, sum), (3, sum)))
    lost = check_labels(crowd, found)
    yield {
        "links": links, "questions": max(one[4] for one in told), "met_s": met, "run_s": whole - met,
        "cpu_s": work, "hub_cpu_s": of_hub["cpu"],
        "mb": of_hub["forwarded"] / 1e6, "hub_mib": of_hub["memory"], "peak_gib": most,
        "lost": len(lost), "turned": of_hub["turned"],
    }  # fmt: skip


def check_labels(crowd: Crowd, found: Mapping[PartyId, Any]) -> list[PartyId]:
    """Whom the run lost.  Raises AssertionError for labels that are not those of plaintext Lloyd."""
    names = crowd.federation.names
    lost = [c for c in names if found[c] is None]
    if found[SERVER][1] != tuple(lost):
        raise AssertionError("the server does not say whom the run lost")
    if lost:
        means = {c: found[c][2].sums / found[c][2].counts for c in names if c not in lost}
        first = next(iter(means.values()))
        for party in (p for p in crowd.federation.parties if p.name not in lost):
            rows = np.rint(party.points * SCALE)
            near = ((rows[:, None] - first) ** 2).sum(axis=2).argmin(axis=1)
            if not ((means[party.name] == first).all() and (found[party.name][0] == near).all()):
                raise AssertionError("labels are not those of the nearest center that all have")
        return lost
    exact = secfc.Quantization(scale=SCALE, coarse="allow")
    way = secfc.Lloyd(K, init=secfc.Splitting(merge="any"), quantization=exact)
    plain = secfc.fit(way, crowd.federation, bound=BOUND, seed=0)
    if not (np.concatenate([found[c][0] for c in names]) == plain.flat).all():
        raise AssertionError("labels are not those of plaintext Lloyd")
    return lost


@click.command(help=__doc__.split("\n")[0])
@click.option("-n", "ns", type=int, multiple=True, default=(100,), show_default=True, help="Clients.")
@click.option("--committee", type=int, default=7, show_default=True)
@click.option("--tls/--no-tls", default=None, help="Default: both.")
@click.option("--away", is_flag=True, help="One client comes late, and one is lost.")
@click.option("--out", type=click.Path(path_type=Path), help="Append rows to this file.")
def main(ns: tuple[int, ...], committee: int, tls: bool | None, away: bool, out: Path | None) -> None:
    """Run them, and print a table."""
    require("websockets", "websockets", "deploy")
    kinds = (False, True) if tls is None else (tls,)
    todo = [{"n": n, "committee": committee, "tls": one, "away": away} for n in ns for one in kinds]
    rows = [row["cell"] | row for row in run_grid(todo, measure, out)]
    columns = [name for name in COLUMNS if any(name in row for row in rows)]
    show("Shared centers over a hub", columns, [{c: shown(row.get(c, "")) for c in columns} for row in rows])


def shown(value: Any) -> str:
    """A number as a table has it."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
