"""Thousands of clients: a secure sum in which each speaks once, clusters of few workers, and centers for all.

    python -m benchmarks.crowd                                  # 2,000 summands; 500 clients, 13 workers
    python -m benchmarks.crowd --sums 100000 --clients 0        # the sum alone, minutes of clients' work
    python -m benchmarks.crowd --sums 0 --clients 500 --clients 1000 --clients 2000 --disclosure distances
    python -m benchmarks.crowd --sums 0 --clients 0 --centers 1000 --centers 10000 --centers 100000

A sum: n clients, a vector of `length` numbers each, a committee of 15 of which 5 may collude.  Clients are
made one after the other, as a process that holds all their shares measures nothing but its memory; members
and the server are the roles of `secfc.secure_sum.protocol`, each with a mailbox, and take bytes.  `server_s`
and `committee_s` are processor seconds for all of them: reading bytes, checking, adding.  Sealing is not
among them, nor what carries bytes.  `state_mib` is the peak of what the server's role allocates, measured in
a second pass in which it alone hears what members reported.

Clusters: every client has `rows` points; bytes are those of all messages, of which `shares_mb` is dealt by
clients.  `another_kb` is what another client cost since the line before: level where traffic grows with n.

Centers: whole runs of `FederatedLloyd`, k=8, of clients with 20 rows of 20 features.  Labels of every step
are compared with plaintext Lloyd's on all rows together.  `sends_kb` and `hears_kb` are of a client that is
no member of the committee, and `cpu_s` of all parties in this process, where more than 1,024 clients speak
512 together.
"""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

import secfc
from benchmarks.common import Row, peak_gib, run_grid, show
from field.secrets.coins import SystemCoins
from secfc.data.inputs import build_algorithm
from secfc.roles.exchange import SERVER, Exchange, Mailbox, PartyId
from secfc.secure_sum.protocol import SumPlan, contribute_vector, receive_sum
from secfc.transport import wire

BOUND = 1 << 20
COLUMNS = {
    "sum": (
        "n", "length", "committee", "server_s", "committee_s", "client_ms", "client_kb", "state_mib",
        "state_bytes_per_client", "peak_gib",
    ),
    "clusters": (
        "n", "rows", "d", "k", "workers", "disclosure", "steps", "lanes", "wall_s", "cpu_s", "mb",
        "shares_mb", "kb_per_client", "another_kb", "peak_gib",
    ),
    "centers": (
        "n", "questions", "lanes", "sends_kb", "hears_kb", "cpu_s", "ms_a_question", "peak_gib",
        "description_kb",
    ),
}  # fmt: skip
DISCLOSURES = {"distances": secfc.Distances(), "assignments": secfc.AssignmentsOnly()}


class Seat:
    """A party with a mailbox, which takes bytes and counts its processor time."""

    def __init__(self, role: Any) -> None:
        self.role, self.mailbox, self.seconds = role, Mailbox(), 0.0
        self.done, self.heard, self.result = False, list[tuple[PartyId, int, bytes]](), None

    def begin(self) -> Exchange | None:
        """What it says first."""
        return self.go_on(None)

    def take(self, came: Iterable[tuple[PartyId, int, bytes]]) -> None:
        """Bytes that came: many at once, as a look at the clock takes as long as to read some of them."""
        start = time.process_time()
        for sender, number, data in came:
            self.mailbox.keep_message(sender, number, wire.decode(data))
        self.seconds += time.process_time() - start

    def answer(self) -> Exchange | None:
        """What it says, if it has heard all that it waits for."""
        if self.done or not self.mailbox.complete():
            return None
        start = time.process_time()
        inbox = self.mailbox.collect()
        self.seconds += time.process_time() - start
        return self.go_on(inbox)

    def go_on(self, inbox: Any) -> Exchange | None:
        start = time.process_time()
        try:
            exchange: Exchange = self.role.send(inbox)
        except StopIteration as end:
            self.done, self.result = True, end.value
            return None
        finally:
            self.seconds += time.process_time() - start
        self.mailbox.wait(exchange)
        return exchange


def talk(seats: Mapping[PartyId, Seat], said: list[tuple[PartyId, Exchange]]) -> None:
    """Carry what was said among the seats until nobody can go on."""
    while said:
        for sender, exchange in said:
            for to, message in exchange.send.items():
                data = wire.encode(message)
                if to == SERVER:
                    seats[to].heard.append((sender, exchange.round, data))
                seats[to].take([(sender, exchange.round, data)])
        answers = ((name, seat.answer()) for name, seat in seats.items())
        said = [(name, exchange) for name, exchange in answers if exchange is not None]


def measure_sum(cell: Row) -> Iterator[Row]:
    """One sum; the total is compared with what was summed."""
    n, length = cell["n"], cell["length"]
    clients = tuple(f"client-{j}" for j in range(n))
    plan = SumPlan.of(clients, BOUND, committee=cell["committee"])
    rng, coins = np.random.default_rng(0), SystemCoins()
    expected, sent, dealing = np.zeros(length, np.int64), 0, 0.0

    def vector() -> Any:
        nonlocal expected
        own = rng.integers(-BOUND, BOUND + 1, length)
        expected += own
        return own

    seats = {c: Seat(contribute_vector(plan, c, vector(), 0, coins)) for c in plan.committee}
    seats[SERVER] = Seat(receive_sum(plan, length, 0))
    members = set(plan.committee)
    talk(seats, [(name, first) for name, seat in seats.items() if (first := seat.begin())])
    for wave in plan.waves:
        dealt: dict[PartyId, list[tuple[PartyId, int, bytes]]] = {member: [] for member in plan.committee}
        for client in wave:
            if client in members:
                continue
            own, start = vector(), time.process_time()
            (only,) = contribute_vector(plan, client, own, 0, coins)
            said = [(member, wire.encode(message)) for member, message in only.send.items()]
            dealing += time.process_time() - start
            for member, data in said:
                sent += len(data)
                dealt[member].append((client, only.round, data))
        for member, came in dealt.items():
            seats[member].take(came)
        answers = ((name, seat.answer()) for name, seat in seats.items())
        talk(seats, [(name, exchange) for name, exchange in answers if exchange is not None])
    result: Any = seats[SERVER].result
    if result is None or not (result.total == expected).all() or len(result.clients) != n:
        raise AssertionError("the sum is wrong")
    state = server_state(plan, length, seats[SERVER].heard)
    yield {
        "what": "sum",
        "server_s": seats[SERVER].seconds,
        "committee_s": sum(seats[c].seconds for c in plan.committee),
        "client_ms": dealing / (n - len(members)) * 1e3,
        "client_kb": sent / (n - len(members)) / 1e3,
        "state_mib": state / 2**20,
        "state_bytes_per_client": state / n,
        "peak_gib": peak_gib(),
    }


def server_state(plan: SumPlan, length: int, heard: list[tuple[PartyId, int, bytes]]) -> int:
    """The most bytes that the server's role has allocated while it hears this."""
    seat = Seat(receive_sum(plan, length, 0))
    tracemalloc.start()
    seat.begin()
    for _, said in itertools.groupby(heard, key=lambda one: one[1]):
        seat.take(said)
        while seat.answer() is not None:
            pass
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def measure_clusters(cell: Row) -> Iterator[Row]:
    """One run of a few steps, compared with plaintext Lloyd."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(cell["k"], cell["d"])) * 3
    data = [
        means[rng.integers(0, cell["k"], cell["rows"])] + rng.normal(size=(cell["rows"], cell["d"]))
        for _ in range(cell["n"])
    ]
    shared: Any = {
        "k": cell["k"], "max_iter": cell["steps"], "init": secfc.RandomLabels(), "coarse": "allow",
        "disclosure": DISCLOSURES[cell["disclosure"]],
    }  # fmt: skip
    way = build_algorithm(secfc.SecFC, t=cell["t"], workers=cell["workers"], threads=2, **shared)
    start, work = time.perf_counter(), time.process_time()
    result = secfc.fit(way, data, seed=0)
    wall, work = time.perf_counter() - start, time.process_time() - work
    most = peak_gib()
    plain = secfc.fit(build_algorithm(secfc.Lloyd, **shared, scale=result.plan.quantizer.scale), data, seed=0)
    if not (result.flat == plain.flat).all():
        raise AssertionError("labels are not those of plaintext Lloyd")
    kinds: dict[str, int] = {}
    for e in result.transcript.envelopes:
        kinds[e.kind] = kinds.get(e.kind, 0) + e.nbytes
    total = sum(kinds.values())
    yield {
        "what": "clusters", "wall_s": wall, "cpu_s": work, "lanes": result.plan.code.basis.lanes,
        "mb": total / 1e6, "shares_mb": kinds["RowShares"] / 1e6, "kb_per_client": total / cell["n"] / 1e3,
        "peak_gib": most,
    }  # fmt: skip


def measure_centers(cell: Row) -> Iterator[Row]:
    """One run over secure sums, compared with plaintext Lloyd from the same start."""
    n, k, rng = cell["n"], 8, np.random.default_rng(0)
    means = 4 * rng.normal(size=(k, 20))
    points = means[rng.integers(0, k, n * 20)] + rng.normal(size=(n * 20, 20))
    data = secfc.Federation.from_arrays(np.split(points, n))
    work = time.process_time()
    # As many lanes as an automatic scale has, and steps so coarse that plaintext Lloyd has lanes for them.
    scale = 512.0 if n <= 10_000 else 64.0
    result = secfc.fit(secfc.FederatedLloyd(k, scale=scale, coarse="allow"), data, bound=32.0, seed=0)
    work, most = time.process_time() - work, peak_gib()
    exact = secfc.Quantization(scale=scale, coarse="allow")
    way = secfc.Lloyd(k, init=secfc.Splitting(merge="any"), quantization=exact)
    plain = secfc.fit(way, data, bound=32.0, seed=0)
    pairs = zip(result.history, plain.history, strict=True)
    if not all((ours == theirs).all() for ours, theirs in pairs):
        raise AssertionError("labels are not those of plaintext Lloyd")
    members, count = set(result.plan.sums.committee), len(result.details.counted)
    sent = heard = 0
    for e in result.transcript.envelopes:
        sent += e.nbytes * (e.sender not in members and e.sender != SERVER)
        heard += e.nbytes * (e.recipient not in members and e.recipient != SERVER)
    # One that speaks for others hears once what each of them would.
    speakers = len({e.recipient for e in result.transcript.envelopes} - members - {SERVER})
    yield {
        "what": "centers", "questions": count, "lanes": result.plan.sums.code.basis.lanes,
        "sends_kb": sent / (n - len(members)) / 1e3, "hears_kb": heard / speakers / 1e3,
        "cpu_s": work, "ms_a_question": work / n / count * 1e3, "peak_gib": most,
        "description_kb": len(result.plan.description) / 1e3,
    }  # fmt: skip


def measure(cell: Row) -> Iterator[Row]:
    """One of the three."""
    if "length" in cell:
        return measure_sum(cell)
    return measure_clusters(cell) if "workers" in cell else measure_centers(cell)


@click.command()
@click.option(
    "--sums", "summing", type=int, multiple=True, default=(2000,), show_default=True, help="0: none."
)
@click.option("--length", type=int, default=1010, show_default=True, help="Numbers in a summand.")
@click.option("--committee", type=int, default=15, show_default=True)
@click.option("--clients", type=int, multiple=True, default=(500,), help="Default: 500; 0: none.")
@click.option("--centers", type=int, multiple=True, help="Clients of FederatedLloyd; default: none.")
@click.option("--rows", type=int, default=50, show_default=True, help="Points of a client.")
@click.option("--d", type=int, default=100, show_default=True)
@click.option("--k", type=int, default=10, show_default=True)
@click.option("--workers", type=int, default=13, show_default=True)
@click.option("--t", type=int, default=4, show_default=True)
@click.option("--steps", type=int, default=3, show_default=True)
@click.option("--disclosure", type=click.Choice(list(DISCLOSURES)), default="assignments")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Append rows as JSON lines, and skip those there."
)
def main(**options: Any) -> None:
    """Sums and clusters of many clients."""
    of_sums = [
        {"n": n, "length": options["length"], "committee": options["committee"]}
        for n in options["summing"]
        if n
    ]
    names = ("rows", "d", "k", "workers", "t", "steps", "disclosure")
    of_clusters = [{"n": n} | {name: options[name] for name in names} for n in options["clients"] if n]
    rows, before = list[Row](), dict[str, Row]()
    of_centers = [{"script": "centers", "n": n} for n in options["centers"]]
    for row in run_grid(of_sums + of_clusters + of_centers, measure, options["out"]):
        last, before[row["what"]] = before.get(row["what"]), row
        if last and "mb" in row and row["cell"]["n"] != last["cell"]["n"]:
            row["another_kb"] = (row["mb"] - last["mb"]) * 1e3 / (row["cell"]["n"] - last["cell"]["n"])
        rows.append(row)
    for what, title in (("sum", "A secure sum"), ("clusters", "Clusters by workers"), ("centers", "Centers")):
        chosen = [row["cell"] | row for row in rows if row["what"] == what]
        if chosen:
            columns = [name for name in COLUMNS[what] if any(name in row for row in chosen)]
            show(title, columns, [{c: rounded(row.get(c, "")) for c in columns} for row in chosen])


def rounded(value: Any) -> Any:
    """Numbers as a table has them."""
    if not isinstance(value, float):
        return value
    return f"{value:.3g}" if abs(value) < 1e3 else f"{value:.0f}"


if __name__ == "__main__":
    main()
