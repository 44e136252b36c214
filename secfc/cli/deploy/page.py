"""`--page`: numbers for whoever operates a hub or a site, on the loopback (`secfc.deploy.metrics`)."""

from __future__ import annotations

from typing import Any

import click

from secfc.cli.errors import Refused
from secfc.deploy.session import Carrier

PAGE = click.option(
    "--page", type=click.IntRange(0, 65535), metavar="PORT",
    help="Show /healthz and /metrics (for Prometheus; names nobody) on this port of the loopback.",
)  # fmt: skip


def shown(carrier: Carrier, meter: Any, port: int | None) -> Carrier:
    """The carrier, with the page of a site as long as it carries; meter: `secfc.deploy.metrics.Site`."""
    if meter is None or port is None:
        return carrier

    async def carry(role: Any, peers: tuple[str, ...]) -> Any:
        from secfc.deploy.metrics import page

        try:
            async with page(meter.registry, port):
                return await carrier(role, peers)
        except OSError as error:
            if "bind" not in str(error):
                raise
            raise Refused(f"--page {port}: {error.strerror or error}. Choose another port.") from error

    return carry
