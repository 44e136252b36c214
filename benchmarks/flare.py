"""NVIDIA FLARE on this machine: provisioned, a server and a site for every client, each its own processes.

What `benchmarks.deploy` measures over FLARE runs here; the tests of whole runs stand on the same farm.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.common import Marked, peak_gib
from field.secrets.channels import Identity
from field.secrets.coins import SystemCoins
from secfc.deploy.flare.cards import Kit
from secfc.deploy.flare.policy import write_site_rules
from secfc.deploy.flare.project import write_project
from secfc.deploy.keys import HEAD
from secfc.deploy.local import local_carrier
from secfc.deploy.runfile import RunFile, Waiting
from secfc.roles.exchange import SERVER, PartyId, Role

LEAD = "lead@example.org"
DONE = "FINISHED:COMPLETED"
Making = Mapping[PartyId, tuple[Callable[..., Role[Any]], tuple[Any, ...]]]


def free_ports() -> int:
    """A port that is free, as is the next one."""
    while True:
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            with contextlib.suppress(OSError):
                two.bind(("127.0.0.1", port + 1))
                return port


class Farm:
    """FLARE's processes on this machine, below a folder.

    identities: public keys by party.  kits: of every party.  A run's files stand in a folder `run ...` of it,
    and in that one folder a party, with its `site.toml`.
    """

    def __init__(self, home: Path, identities: Mapping[PartyId, bytes]) -> None:
        self.home, self.identities = home, dict(identities)
        self.hub = f"nvflare://localhost:{free_ports()}"
        self.processes: dict[PartyId, subprocess.Popen[bytes]] = {}
        project, _ = write_project(self.run_file(("x",)), home / "flare", LEAD)
        folders = self.provision(project)
        self.lead = folders[LEAD]
        self.kits = {p: Kit(folders["localhost" if p == SERVER else p]) for p in identities}

    def provision(self, project: Path) -> Mapping[str, Path]:
        """Folders of startup kits by participant, which one command makes."""
        nvflare, folder = Path(sys.executable).parent / "nvflare", self.home / "flare/kits/secfc/prod_00"
        command = [nvflare, "provision", "-p", project, "-w", self.home / "flare/kits"]
        subprocess.run(command, check=True, capture_output=True)
        return {path.name: path for path in folder.iterdir()}

    def run_file(self, features: Iterable[str], **words: Any) -> RunFile:
        """A run file of a new session."""
        words = {"k": 3, "seed": 5, "waiting": Waiting(60, 60, 20, 10), **words}
        return RunFile("a run", SystemCoins().bytes(32), self.hub, self.identities, tuple(features), **words)

    def start(self, *parties: PartyId) -> None:
        """FLARE's own process of these, or of all."""
        for party in parties or self.kits:
            side = "server" if party == SERVER else "client"
            command = [
                sys.executable, "-u", "-m", f"nvflare.private.fed.app.{side}.{side}_train",
                "-m", str(self.kits[party].folder), "-s", f"fed_{side}.json",
                "--set", "secure_train=true", "config_folder=config", f"org={party}",
                *(() if party == SERVER else (f"uid={party}",)),
            ]  # fmt: skip
            with (self.home / f"{party}.out").open("ab") as out:
                self.processes[party] = subprocess.Popen(
                    command, cwd=self.kits[party].folder, stdout=out, stderr=out, start_new_session=True
                )

    def processes_of(self, party: PartyId) -> dict[str, list[int]]:
        """Of this party: FLARE's own, its job's, and its role's, or what stands in for a role."""
        found: dict[str, list[int]] = {"site": [], "job": [], "role": [], "whisper": []}
        kit, sites = str(self.kits[party].folder), re.compile(rf"run [^/]*/{party}/site.toml")
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                line = (entry / "cmdline").read_bytes().decode(errors="replace")
                if not entry.name.isdigit() or str(self.home) not in line:
                    continue
                if sites.search(line):
                    found["whisper" if "whisper.py" in line else "role"].append(int(entry.name))
                elif f"{kit}\0" in line or f"{kit}/" in line:
                    job = "worker_process" in line or "runner_process" in line
                    found["job" if job else "site"].append(int(entry.name))
        return found

    def kill(self, party: PartyId, *kinds: str) -> None:
        """Kill this party's processes of these kinds."""
        for kind in kinds:
            for pid in self.processes_of(party)[kind]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def stop(self) -> None:
        """Kill all."""
        for party in self.kits:
            self.kill(party, "role", "whisper", "job", "site")
        for process in self.processes.values():
            process.wait()

    def session(self) -> Any:
        """The administrator's, once FLARE's server is there."""
        from nvflare.fuel.flare_api.flare_api import new_secure_session

        end = time.monotonic() + 60
        while True:
            try:
                return new_secure_session(LEAD, str(self.lead), timeout=5.0)
            except Exception:
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    def submit(self, job: Path) -> str:
        """The job's number, once all sites are there."""
        with contextlib.closing(self.session()) as session:
            while len(session.get_system_info().client_info) < len(self.kits) - 1:
                time.sleep(0.3)
            return str(session.submit_job(str(job)))

    def ended(self, number: str, seconds: float = 150) -> str:
        """How the job ended.  Raises TimeoutError."""
        end = time.monotonic() + seconds
        with contextlib.closing(self.session()) as session:
            while time.monotonic() < end:
                status = str(session.get_job_meta(number).get("status", ""))
                if status.startswith("FINISHED"):
                    return status
                time.sleep(0.3)
        raise TimeoutError(f"job {number} has not ended: see the logs under {self.home}")


# --- what a benchmark runs over it ---------------------------------------------------------------------


def processes(
    making: Making, secrets: Mapping[PartyId, bytes]
) -> tuple[dict[PartyId, dict[str, Any]], dict[str, Any]]:
    """What every party measured over FLARE, and FLARE's server (as `benchmarks.deploy.processes`)."""
    with tempfile.TemporaryDirectory(prefix="secfc-flare-") as folder:
        home = Path(folder)
        farm = Farm(home, {p: Identity(secret).public for p, secret in secrets.items()})
        run = farm.run_file(("x",))
        where = home / "run 1"
        where.mkdir()
        (where / "run.toml").write_text(run.toml())
        command = (sys.executable, "-m", "benchmarks.flare")
        for party, (make, args) in making.items():
            own = where / party
            own.mkdir()
            write_site(own, party, secrets[party])
            (own / "role.pickle").write_bytes(pickle.dumps((make, args, party, tuple(making))))
            write_site_rules(farm.kits[party], run.session, own / "site.toml", command)
        farm.start()
        try:
            number = farm.submit(write_project(run, home / "flare", LEAD)[1])
            status = farm.ended(number, 3600.0)
            memory = max(peak(pid) for pid in farm.processes_of(SERVER)["site"])
            if status != DONE:
                logs = [log.read_text()[-500:] for log in sorted(where.glob("*/site.log"))]
                raise RuntimeError("\n".join((f"the job ended so: {status}", *logs)))
            found = {p: pickle.loads((where / p / "found.pickle").read_bytes()) for p in making}  # noqa: S301 - ours
        finally:
            farm.stop()
    return found, {"memory": memory}


def write_site(folder: Path, party: PartyId, secret: bytes) -> None:
    """A site's file and key, as `secfc deploy init` and `secfc deploy key` write them."""
    key = folder / "site.key"
    key.write_text(f"{HEAD}{secret.hex()}\n")
    key.chmod(0o600)
    text = f'[site]\nparty = "{party}"\nrun = "../run.toml"\nkey = "{key.name}"\n'
    if party != SERVER:
        text += '[data]\npath = "rows.csv"\n'
    (folder / "site.toml").write_text(text)


def peak(pid: int) -> float:
    """MB that a process had at most."""
    return int(Path(f"/proc/{pid}/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def main(words: list[str]) -> None:
    """A party: what a site's kit starts as `... deploy join SITE --over SOCKET`."""
    folder, path = Path(words[2]).parent, Path(words[words.index("--over") + 1])
    make, args, me, names = pickle.loads((folder / "role.pickle").read_bytes())  # noqa: S301 - ours
    watch = Marked()
    role = watch.role(make(*args))
    carry = local_carrier(path, None, patience=600.0)

    async def run() -> Any:
        return await carry(role, tuple(name for name in names if name != me))

    result = asyncio.run(run())
    spent = time.process_time() - watch.before
    kept = result if isinstance(result, list) else None
    found = vars(watch) | {"all": spent, "memory": peak_gib() * 1024, "result": kept}
    (folder / "found.pickle").write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
