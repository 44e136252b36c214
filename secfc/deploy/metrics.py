"""What whoever operates a hub or a site asks, and the numbers that answer it; no names, nobody's data.

Of a hub:

    secfc_hub_pairs                 is anybody there?  Two for every joined pair.
    secfc_hub_joined_total          do connections break all the time?
    secfc_hub_refused_total         does somebody hold an old run file, or try to get in?
    secfc_hub_forwarded_bytes_total what will the line cost?
    secfc_hub_held_bytes            does somebody read slowly?
    secfc_hub_strangers             do strangers hold connections open?
    secfc_hub_turned_away_total     were there too many of them?
    secfc_hub_waiting               how many ends wait for a peer that is not there,
    secfc_hub_waits_since_seconds   and since when?

Of a site:

    secfc_site_peers                how many others take part?
    secfc_site_peers_there          and are connected now?
    secfc_site_breaks_total         do our connections break all the time?
    secfc_site_sent_bytes_total     what goes over our line,
    secfc_site_received_bytes_total and what comes?
    secfc_site_computing_seconds    how long do we compute between two exchanges (a histogram),
    secfc_site_waiting_seconds      and how long do we wait for the others?
    secfc_site_waits_since_seconds  is it stuck now?  0 while it computes.

They are on a page of the loopback, in the text format of Prometheus, beside `/healthz`, which is red where a
run has not moved for STUCK seconds, and says what it waits for and since when.  `alerts.yml` beside this file
is for Prometheus.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from websockets.asyncio.server import Server, serve

from secfc.deploy.hub import Hub
from secfc.roles.exchange import PartyId
from secfc.transport.link import Link

# Seconds after which a run that waits counts as one that does not move.
STUCK = 60.0
BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)


class OnDemandMetric:
    """Numbers that are asked for when somebody looks: a name, what it says, and whether it only rises."""

    def __init__(self, table: Callable[[], list[tuple[str, str, bool, float]]]) -> None:
        self.table = table

    def collect(self) -> list[Metric]:
        return [
            (CounterMetricFamily if rises else GaugeMetricFamily)(name, says, value=value)
            for name, says, rises, value in self.table()
        ]


def hub_metrics(hub: Hub) -> CollectorRegistry:
    """The numbers of a hub."""

    def table() -> list[tuple[str, str, bool, float]]:
        counted = hub.counters
        return [
            ("secfc_hub_pairs", "ends of pairs that are joined", False, counted.pairs),
            ("secfc_hub_joined", "ends of pairs that were ever joined", True, counted.joined),
            ("secfc_hub_refused", "connections that were not let in", True, counted.refused),
            ("secfc_hub_forwarded_bytes", "bytes handed on", True, counted.forwarded),
            ("secfc_hub_held_bytes", "bytes that wait for slow readers", False, hub.held()),
            ("secfc_hub_strangers", "connections that have not said who they are", False, hub.strangers.now),
            ("secfc_hub_turned_away", "strangers beyond what is allowed", True, counted.turned_away),
            ("secfc_hub_waiting", "ends whose peer is not there", False, len(waits := hub.waits())),
            ("secfc_hub_waits_since_seconds", "of the longest wait now", False, max(waits, default=0.0)),
        ]

    registry = CollectorRegistry()
    registry.register(OnDemandMetric(table))
    return registry


def hub_trouble(hub: Hub) -> str:
    """What does not move at a hub, "" if all does."""
    late = [seconds for seconds in hub.waits() if seconds > STUCK]
    return f"{len(late)} ends wait for a peer that is not there, since {_ago(max(late))}" if late else ""


def _ago(seconds: float) -> str:
    return (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat(timespec="seconds")


class SiteMetrics:
    """The numbers of a party; what `run_party` and `hold` tell them (`meter`)."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.links: Mapping[PartyId, Link] = {}
        self.breaks, self._waits_since = 0, 0.0
        self._computing = Histogram(
            "secfc_site_computing_seconds", "from an answer to the next question", buckets=BUCKETS,
            registry=self.registry,
        )  # fmt: skip
        self._waiting = Histogram(
            "secfc_site_waiting_seconds", "of an exchange", buckets=BUCKETS, registry=self.registry
        )
        stuck = Gauge("secfc_site_waits_since_seconds", "of the exchange now", registry=self.registry)
        stuck.set_function(lambda: time.monotonic() - self._waits_since if self._waits_since else 0.0)
        self.registry.register(OnDemandMetric(self._table))

    def __repr__(self) -> str:
        return f"Site({len(self.links)} peers)"

    def computed(self, seconds: float) -> None:
        """The role took so long, and waits from now on."""
        self._computing.observe(seconds)
        self._waits_since = time.monotonic()

    def waited(self, seconds: float) -> None:
        """What it waited for has come, or its time is up."""
        self._waiting.observe(seconds)
        self._waits_since = 0.0

    def trouble(self) -> str:
        """What does not move at a site, "" if all does."""
        if not self._waits_since or (seconds := time.monotonic() - self._waits_since) <= STUCK:
            return ""
        away = sum(not link.ready or link.closed for link in self.links.values())
        what = f"{away} of {len(self.links)} others, who are away" if away else "others, who are all there"
        return f"waits for {what}, since {_ago(seconds)}"

    def _table(self) -> list[tuple[str, str, bool, float]]:
        links = list(self.links.values())
        there = sum(link.ready and not link.closed for link in links)
        return [
            ("secfc_site_peers", "other parties that came", False, len(links)),
            ("secfc_site_peers_there", "other parties that are connected now", False, there),
            ("secfc_site_breaks", "connections that broke", True, self.breaks),
            ("secfc_site_sent_bytes", "bytes to all peers", True, sum(link.sent for link in links)),
            ("secfc_site_received_bytes", "bytes of all peers", True, sum(link.received for link in links)),
        ]


@asynccontextmanager
async def serve_metrics(
    registry: CollectorRegistry, port: int = 0, *, trouble: Callable[[], str] = str
) -> AsyncIterator[Server]:
    """Show these numbers at http://127.0.0.1:port/metrics, and at /healthz whether all is well.

    trouble: what is not, "" where all is.

    Raises OSError for a port that is taken.
    """

    def answer(socket: Any, request: Any) -> Any:
        if request.path == "/metrics":
            return socket.respond(HTTPStatus.OK, generate_latest(registry).decode())
        if request.path == "/healthz":
            wrong = trouble()
            status = HTTPStatus.SERVICE_UNAVAILABLE if wrong else HTTPStatus.OK
            return socket.respond(status, f"{wrong or 'ok'}\n")
        return socket.respond(HTTPStatus.NOT_FOUND, "there are /healthz and /metrics\n")

    async def nobody(socket: Any) -> None:
        await asyncio.sleep(0)

    async with serve(nobody, "127.0.0.1", port, process_request=answer, server_header=None) as server:
        yield server
