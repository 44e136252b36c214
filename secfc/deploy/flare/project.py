"""The two things that FLARE is given: a project, from which it issues certificates, and a job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from secfc.deploy.flare.bridge import WINDOW
from secfc.deploy.flare.policy import CONTROLLER, EXECUTOR, HEAD, SITE
from secfc.deploy.runfile import RunFile
from secfc.errors import InputError

SCHEME = "nvflare"
PORT = 8002
# What FLARE takes as the name of a site, and of what it keeps files by.
LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


def server_of(hub: str) -> tuple[str, int]:
    """Where FLARE's server is, from a run file's hub = "nvflare://host:port".  Raises InputError."""
    try:
        parts = urlsplit(hub)
        host, port = parts.hostname, parts.port or PORT
    except ValueError:
        host, port = None, 0
    if parts.scheme != SCHEME or not host:
        raise InputError(
            f'hub = {hub!r} is not where a FLARE server is: write hub = "nvflare://flare.example.org:{PORT}"'
        )
    return host, port


def project_file(run: RunFile, administrator: str) -> dict[str, Any]:
    """What `nvflare provision` reads: a server, the clients as sites, and an administrator.

    Raises InputError for clients whose names FLARE does not take.
    """
    host, port = server_of(run.hub)
    for name in run.clients:
        if not name or not set(name) <= LETTERS or name == host:
            raise InputError(
                f"the client {name!r} cannot be a site of FLARE: letters, digits, - and _ are allowed in its "
                "name. Rename it in the run file, before keys are compared"
            )
    impl = "nvflare.lighter.impl"
    server = {"name": host, "type": "server", "org": "server", "fed_learn_port": port, "admin_port": port + 1}
    clients = [{"name": name, "type": "client", "org": name.replace("-", "_")} for name in run.clients]
    lead = {"name": administrator, "type": "admin", "org": "server", "role": "lead"}
    builders: tuple[tuple[str, dict[str, Any]], ...] = (
        ("workspace.WorkspaceBuilder", {"template_file": ["master_template.yml"]}),
        ("static_file.StaticFileBuilder", {"config_folder": "config", "scheme": "tcp"}),
        ("cert.CertBuilder", {}),
        ("signature.SignatureBuilder", {}),
    )
    return {
        "api_version": 3,
        "name": "secfc",
        "description": "sites that cluster without showing their rows",
        "participants": [server, *clients, lead],
        "builders": [{"path": f"{impl}.{path}", "args": args} for path, args in builders],
    }


def job_files(run: RunFile) -> dict[str, dict[str, Any]]:
    """A job's files by path, relative to its folder: names of installed classes, and two public numbers."""
    own = {"session": run.session.hex(), "digest": run.digest.hex()}
    threads = 4 * WINDOW * len(run.parties)
    server = {
        "format_version": 2,
        "workflows": [
            {
                "id": "controller",
                "path": CONTROLLER,
                "args": {"server_obj_id": "_server", "max_call_threads": threads, "sync_task_timeout": 120},
            }
        ],
        "components": [{"id": "_server", "path": HEAD, "args": own}],
    }
    client = {
        "format_version": 2,
        "executors": [
            {
                "tasks": ["*"],
                "executor": {
                    "path": EXECUTOR,
                    "args": {"client_obj_id": "_client", "max_call_threads": threads},
                },
            }
        ],
        "components": [{"id": "_client", "path": SITE, "args": own}],
    }
    meta = {
        "name": f"secfc-{run.digest.hex()[:8]}",
        "min_clients": len(run.clients),
        "mandatory_clients": list(run.clients),
        "resource_spec": {},
        "deploy_map": {"server": ["server"], "site": list(run.clients)},
    }
    return {
        "meta.json": meta,
        "server/config/config_fed_server.json": server,
        "site/config/config_fed_client.json": client,
    }


def write_project(run: RunFile, folder: Path, administrator: str) -> tuple[Path, Path]:
    """Write project file and job into this folder: their paths.  Raises InputError, OSError."""
    # YAML is a superset of JSON, which needs no library.
    text = json.dumps(project_file(run, administrator), indent=2)
    where = folder / "project.yml"
    texts = {folder / "job" / name: json.dumps(content, indent=2) for name, content in job_files(run).items()}
    for path, content in {where: text, **texts}.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n", encoding="utf-8")
    return where, folder / "job"
