"""What runs in FLARE's job processes: the two classes that a job names, one for sites and one for the server.

A job holds two public numbers, a run's session and the digest of its run file.  Everything else a site takes
from its own files: which site file that is (`secfc.deploy.flare.policy.site_files_by_session`), and through
it the data, the key, the floors and the command.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.collab import collab

from secfc.deploy.flare.bridge import WINDOW, Bridge
from secfc.deploy.flare.cards import BadCard, Card, Kit
from secfc.deploy.flare.child import DONE_BEFORE, REFUSED, WELL, Child, explain_exit_code, is_done_before
from secfc.deploy.flare.pieces import Pieces
from secfc.deploy.flare.policy import loosened_rules, site_files_by_session
from secfc.deploy.runfile import RunFile
from secfc.deploy.site import SiteFile
from secfc.errors import InputError
from secfc.roles.exchange import SERVER, PartyId

# Seconds for calls before the parties begin.
BEGIN = 120.0
# Seconds in which parties, told by one that ends by an error, end themselves before the job is ended.
LAST = 3.0


class Unfit(Exception):  # noqa: N818 - what a site is
    """A site cannot, or does not want to, take part; no secret is in its text, which travels."""


class FlareSite:
    """A client's end.  session, digest: of the run file, in hexadecimal digits."""

    def __init__(self, session: str, digest: str) -> None:
        self.session, self.digest = session, digest
        self._loop = asyncio.new_event_loop()
        self._bridge = Bridge(self._call)
        self._proxies: dict[PartyId, Any] = {}
        self._child: Child | None = None
        self._folder: Path | None = None
        self._started = False
        self._head: Any = None
        self._pieces: Pieces | None = None

    # --- before the run

    def _own(self) -> tuple[Kit, Path, SiteFile, RunFile, tuple[str, ...]]:
        """This site's own files for this run.  Raises Unfit."""
        kit = Kit(Path(collab.workspace.get_root_dir()))
        for problem in loosened_rules(kit):
            raise Unfit(problem)
        try:
            known, command = site_files_by_session(kit)
            path = known.get(bytes.fromhex(self.session))
            if path is None:
                raise Unfit("this site takes no part in this run: `secfc deploy flare-kit` says that it does")
            site = SiteFile.read(path)
            run = RunFile.read(site.run)
        except (InputError, OSError) as error:
            # Its text may name files of the site.
            raise Unfit(f"its site file or run file cannot be used ({type(error).__name__})") from None
        if run.digest.hex() != self.digest:
            raise Unfit("its run file is not the job's: compare digests (`secfc deploy check`)")
        return kit, path, site, run, command

    @collab.publish  # type: ignore[untyped-decorator, unused-ignore]
    def card(self) -> dict[str, bytes]:
        """Who this site is, signed with its certificate's key."""
        kit, _, site, run, _ = self._own()
        try:
            identity = site.identity(run.identities[site.party])
        except (InputError, OSError) as error:
            raise Unfit(f"its key cannot be used ({type(error).__name__})") from None
        return kit.card(run.digest, site.party, identity.public).plain()

    @collab.publish  # type: ignore[untyped-decorator, unused-ignore]
    def begin(self, cards: dict) -> bool:  # type: ignore[type-arg]
        """Check everybody's card, and start this site's party."""
        if collab.caller != SERVER or self._started:
            raise Unfit("only the server begins a run, once")
        proxies = {proxy.name: proxy for proxy in collab.clients if proxy.name != collab.site_name}
        self._begin(cards, {**proxies, SERVER: collab.server}, collab.server)
        return True

    def _begin(self, cards: Mapping[str, object], proxies: Mapping[PartyId, Any], head: Any) -> RunFile:
        kit, path, site, run, command = self._own()
        name = SERVER if kit.is_server else kit.name
        if site.party != name:
            raise Unfit(f"its site file is of {site.party!r}, and FLARE knows it as {name!r}")
        for party in run.parties:
            try:
                kit.check(Card.of(cards.get(party)), run.digest, party, run.identities[party])
            except BadCard as error:
                raise Unfit(str(error)) from None
        self._proxies = {party: proxies[party] for party in run.parties if party != name}
        self._head = head
        pool = ThreadPoolExecutor(2 * WINDOW * len(run.parties), thread_name_prefix="secfc")
        self._loop.set_default_executor(pool)
        threading.Thread(target=self._loop.run_forever, name="secfc bridge", daemon=True).start()
        cell = collab.fl_ctx.get_engine().get_cell().core_cell
        targets = {party: proxy.backend.target_fqcn for party, proxy in self._proxies.items()}
        self._pieces = Pieces(cell, targets, self._bridge.deliver, self._loop)
        self._started = True
        self._folder = Path(tempfile.mkdtemp(prefix="secfc-"))
        socket = self._folder / "socket"
        self._wait(self._bridge.listen(socket))
        command = command or (sys.executable, "-m", "secfc.cli")
        verb = "serve" if name == SERVER else "join"
        before = is_done_before(path)

        def ended(code: int) -> None:
            self._child_ended(DONE_BEFORE if before and code == REFUSED else code)

        self._child = Child(
            (*command, "deploy", verb, str(path), "--over", str(socket)), path.with_suffix(".log"), ended
        )
        self._child.start()
        return run

    # --- during the run

    def _wait(self, work: Awaitable[Any]) -> Any:
        """What this comes to in the bridge's loop, for a thread of FLARE's."""

        async def done() -> Any:
            return await work

        return asyncio.run_coroutine_threadsafe(done(), self._loop).result()

    async def _call(self, peer: PartyId, method: str, *arguments: Any) -> Any:
        """A call to the peer's process.  Raises OSError."""
        if method == "deliver":
            if self._pieces is None:
                raise ConnectionResetError(f"nothing goes to {peer} before the job has begun")
            return await self._pieces.deliver(peer, *arguments)

        def call() -> Any:
            try:
                return getattr(self._proxies[peer](timeout=BEGIN), method)(*arguments)
            except Exception as error:  # FLARE's own, of many kinds: the message did not arrive
                raise ConnectionResetError(f"FLARE does not reach {peer} ({type(error).__name__})") from None

        return await asyncio.get_running_loop().run_in_executor(None, call)

    @collab.publish  # type: ignore[untyped-decorator, unused-ignore]
    def alive(self) -> bool:
        """Answer that this process is there."""
        return True

    @collab.publish  # type: ignore[untyped-decorator, unused-ignore]
    def hello(self, theirs: bytes) -> bytes:
        """Receive a greeting of the caller's bridge: see `Bridge.hello`."""
        return bytes(self._wait(self._bridge.hello(collab.caller, theirs))) if self._started else b""

    @collab.publish  # type: ignore[untyped-decorator, unused-ignore]
    def bye(self, theirs: bytes, mine: bytes) -> None:
        """Receive the end of the caller's bridge: see `Bridge.bye`."""
        if self._started:
            self._wait(self._bridge.bye(collab.caller, theirs, mine))

    # --- after the run

    def _child_ended(self, code: int) -> None:
        self._head(timeout=BEGIN, optional=True).ended(code)

    @collab.final  # type: ignore[untyped-decorator, unused-ignore]
    def end(self) -> None:
        """The job is over: end what still runs."""
        if self._child is not None:
            self._child.stop()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class FlareServer(FlareSite):
    """The server's end: begins the run, and ends the job with it."""

    def __init__(self, session: str, digest: str) -> None:
        super().__init__(session, digest)
        self._codes: dict[PartyId, int] = {}

    @collab.publish  # type: ignore[untyped-decorator, unused-ignore]
    def ended(self, code: int) -> None:
        """The caller's party has ended so."""
        self._codes.setdefault(collab.caller, code)

    def _child_ended(self, code: int) -> None:
        self._codes.setdefault(SERVER, code)

    def _listen(self, name: PartyId, site: Any, heard: dict[PartyId, float], limit: float) -> None:
        """Ask a site again and again whether it is there, until its party has ended."""
        while name not in self._codes:
            if site(timeout=limit / 3, optional=True).alive():
                heard[name] = time.monotonic()
            time.sleep(1.0)
        heard.pop(name, None)

    @collab.main  # type: ignore[untyped-decorator, unused-ignore]
    def main(self) -> str:
        """The job: who is who, the run, and how every party ended."""
        cards: dict[str, object] = {SERVER: self.card()}
        cards |= _all(collab.clients(timeout=BEGIN).card())
        sites = {proxy.name: proxy for proxy in collab.clients}
        _all(collab.clients(timeout=BEGIN).begin(cards))
        waiting = self._begin(cards, sites, None).waiting
        # Roles that give up on a peer are at an end; those that are ended before go on when the job does.
        limit = min(waiting.pulse, waiting.rejoin / 2)
        heard = dict.fromkeys(sites, time.monotonic())
        for name, site in sites.items():
            threading.Thread(target=self._listen, args=(name, site, heard, limit), daemon=True).start()
        context = collab.context
        while len(self._codes) < len(cards):
            if context.is_aborted():
                return "aborted"
            if not set(self._codes.values()) <= set(WELL):
                time.sleep(LAST)
                break
            if silent := [name for name, at in dict(heard).items() if time.monotonic() - at > limit]:
                raise Unfit(
                    f"{', '.join(silent)}: nothing is heard of it. See to it, and submit the job again"
                )
            time.sleep(0.1)
        if failed := {party: code for party, code in dict(self._codes).items() if code not in WELL}:
            raise Unfit("; ".join(f"{party}: {explain_exit_code(code)}" for party, code in failed.items()))
        return "done"


def _all(replies: Any) -> dict[str, Any]:
    """What every site replied.  Raises Unfit with the words of those that did not."""
    if replies.failures:
        raise Unfit("; ".join(f"{name}: {error}" for name, error in replies.failures.items()))
    return dict(replies)
