"""What a site lets FLARE do on its machine, in the files of its own startup kit.

A job may name four classes, which are installed at the site, and brings no code: `byoc` is denied to every
role, no class outside the list is made, no log leaves the site, and no shell command of an administrator is
run.  A site that finds its kit more open than that starts no role.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from secfc.deploy.flare.cards import Kit
from secfc.deploy.toml_tables import read_table
from secfc.errors import InputError

# FLARE's collab runtime, and ours.
EXECUTOR = "nvflare.collab.runtime.executor.CollabExecutor"
CONTROLLER = "nvflare.collab.runtime.controller.CollabController"
SITE, HEAD = "secfc.deploy.flare.job.FlareSite", "secfc.deploy.flare.job.FlareServer"
CLASSES = (EXECUTOR, CONTROLLER, SITE, HEAD)

ROLES = ("org_admin", "lead", "member")
RUNS = "secfc.toml"


def authorization_rules() -> dict[str, Any]:
    """FLARE's authorization.json: leads submit jobs and end their own; nobody brings code, or a shell."""
    denied = {"byoc": "none", "shell_commands": "none", "server-predeployed-flwr": "none"}
    manage = {"manage_job": "n:submitter", "download_job": "n:submitter", "view": "any"}
    lead = {"submit_job": "any", "clone_job": "n:submitter", **manage, "operate": "none", **denied}
    permissions: dict[str, Any] = {
        "project_admin": {"submit_job": "any", **manage, "operate": "any", **denied},
        "org_admin": {"submit_job": "none", "view": "any", "operate": "o:site", **denied},
        "lead": lead,
        "member": {"view": "any", **denied},
    }
    return {"format_version": "1.0", "permissions": permissions}


def closed_resources(resources: dict[str, Any], kit: Kit) -> dict[str, Any]:
    """FLARE's resources.json, as it was provisioned, with these classes only, and no logs to anybody.

    What a server stores goes into its kit, not into a folder that machines share.
    """
    found = {**resources, "class_list_enforcement_mode": "enforce", "class_allow_list": list(CLASSES)}
    found["allow_log_streaming"] = False
    found["components"] = [c for c in found["components"] if "logging" not in c["path"]]
    store = kit.folder.resolve() / "store"
    if "snapshot_persistor" in found:
        found["snapshot_persistor"]["args"]["storage"]["args"]["root_dir"] = str(store / "snapshots")
    for component in found["components"]:
        if component["id"] == "job_manager":
            component["args"]["uri_root"] = str(store / "jobs")
    return found


# Every call that brings a piece is a line of its own otherwise, at each end.
QUIET = ("nvflare.collab", "collab", "nvflare.fuel.f3")


def quiet_log(log: dict[str, Any]) -> dict[str, Any]:
    """FLARE's log_config.json without a line for every message."""
    loggers = {**log["loggers"], **{name: {"level": "WARNING"} for name in QUIET}}
    return {**log, "loggers": loggers}


def write_site_rules(kit: Kit, session: bytes, site: Path, command: tuple[str, ...] = ()) -> None:
    """Write a site's rules into its startup kit, and that this run is the business of this site file.

    command: that starts `secfc` here, if FLARE's own Python is not the one that has it.

    Raises InputError for a folder that is no startup kit of FLARE 2.9; OSError.
    """
    local = kit.folder / "local"
    try:
        resources = json.loads((local / "resources.json.default").read_text(encoding="utf-8"))
        log = json.loads((local / "log_config.json.default").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"{kit.folder} is no startup kit of FLARE 2.9: name the folder that `nvflare provision` made for "
            f"this site, with startup and local in it ({type(error).__name__})"
        ) from error
    for name, content in (
        ("resources.json", closed_resources(resources, kit)),
        ("authorization.json", authorization_rules()),
        ("log_config.json", quiet_log(log)),
    ):
        (local / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    for key in secret_keys(kit):
        key.chmod(0o600)
    had, started = site_files_by_session(kit)
    known = {run.hex(): str(path) for run, path in {**had, session: site.resolve()}.items()}
    command = command or started
    import tomli_w

    (local / RUNS).write_text(tomli_w.dumps({"command": list(command), "runs": known}), encoding="utf-8")


def site_files_by_session(kit: Kit) -> tuple[dict[bytes, Path], tuple[str, ...]]:
    """The site files of this kit by session, and the command that starts `secfc`, () for this Python's.

    Raises InputError, OSError.
    """
    path = kit.folder / "local" / RUNS
    if not path.exists():
        return {}, ()
    table = read_table(path, str(path))
    known = table.table("runs", {})
    command = table.texts("command") if "command" in table.names else ()
    table.finish()
    return {bytes.fromhex(name): Path(known.text(name)) for name in known.names}, tuple(command)


def secret_keys(kit: Kit) -> tuple[Path, ...]:
    """Files of the kit that hold the private key of its certificate."""
    return tuple(sorted(kit.startup.glob("*.key")))


def loosened_rules(kit: Kit) -> Iterator[str]:
    """In what this kit lets FLARE do more than `write_site_rules` would."""
    local = kit.folder / "local"
    remedy = "Run `secfc deploy flare-kit` again"
    try:
        resources = json.loads((local / "resources.json").read_text(encoding="utf-8"))
        permissions = json.loads((local / "authorization.json").read_text(encoding="utf-8"))["permissions"]
    except (OSError, ValueError, KeyError) as error:
        yield f"the rules of {local} cannot be read ({type(error).__name__}). {remedy}"
        return
    if sorted(resources.get("class_allow_list", "*")) != sorted(CLASSES):
        yield f"class_allow_list of {local} holds other classes than {', '.join(CLASSES)}. {remedy}"
    if resources.get("class_list_enforcement_mode") != "enforce":
        yield f"class_list_enforcement_mode of {local} is not enforce. {remedy}"
    if resources.get("allow_log_streaming") is not False:
        yield f"allow_log_streaming of {local} is not false. {remedy}"
    for key in secret_keys(kit):
        if os.name == "posix" and stat.S_IMODE(key.stat().st_mode) & 0o077:
            yield f"{key} may be read by others: it is this site's alone. {remedy}"
    for role, rules in permissions.items():
        if not isinstance(rules, dict) or rules.get("byoc", "none") != "none":
            yield f"{local}/authorization.json lets {role} bring code (byoc). {remedy}"
