"""What a site starts in a test, in place of `secfc deploy join`: clients tell each other a marker.

`python whisper.py seal_role MARKER deploy join SITE --over SOCKET`, or open instead of sealed.
"""

import asyncio
import sys
import time
from pathlib import Path

from field.secrets.coins import SystemCoins
from secfc.deploy.local import local_carrier
from secfc.deploy.runfile import RunFile
from secfc.deploy.site import SiteFile
from secfc.roles.exchange import SERVER, Exchange
from secfc.roles.messages import Hello
from secfc.transport.sealed import seal_role

SECONDS = 12.0


def whispers(peers, text):
    end, number = time.monotonic() + SECONDS, 0
    while time.monotonic() < end:
        number += 1
        send = {peer: Hello(text) for peer in peers}
        yield Exchange(send, peers, enough=0, round=number)
        time.sleep(0.05)


def main(how, marker, site, socket):
    own = SiteFile.read(Path(site))
    run = RunFile.read(own.run)
    peers = tuple(c for c in run.clients if c != own.party) if own.party != SERVER else ()
    role = whispers(peers, (marker.encode() * 500)[:20000])
    if how == "sealed":
        role = seal_role(
            role, own.party, run.parties, run.description, SystemCoins(),
            identity=own.identity(run.identities[own.party]), identities=run.identities,
        )  # fmt: skip
    others = tuple(party for party in run.parties if party != own.party)
    asyncio.run(local_carrier(Path(socket), None, patience=5.0, grace=1.0, pulse=10.0)(role, others))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[5], sys.argv[7])
