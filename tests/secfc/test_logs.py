"""What the library and the shell tell while they run: events with public facts, and nothing else."""

import io
import json
import logging
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import psu
import secfc
from secfc import logs
from secfc.attacks.geometry import reconstruct_geometry
from secfc.attacks.judging import judge_guess
from secfc.cli import main
from secfc.cli.shell import verbosity
from secfc.coded_kmeans.adversary_view import DecodedView
from secfc.roles.exchange import SERVER
from tests.nightly import short

# Values and names that stand nowhere else.
VALUE, NAME = 7351.625, "zq81-patient"


@pytest.fixture
def heard():
    """Everything that loggers of ours say, at DEBUG: all that a formatter could show of a record."""
    said = []

    class Everything(logging.Handler):
        def emit(self, record):
            said.append(f"{record.getMessage()} {record.__dict__}")

    logger, handler = logging.getLogger("secfc"), Everything()
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield said
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


def found(markers, said):
    """Markers that stand in a record, however numbers are written."""
    text = "\n".join(said)
    return [marker for marker in markers if str(marker) in text]


def marked():
    """Three clients' points and IDs, each with a value and a name that are looked for."""
    rng = np.random.default_rng(0)
    rows = [rng.normal(loc=1000 * rng.integers(0, 3, (12, 1)), size=(12, 2)) for _ in range(3)]
    for j, own in enumerate(rows):
        own[j, 0] = VALUE + j
    ids = [[f"{NAME}-{j}-{i}" for i in range(12)] for j in range(3)]
    return rows, ids


def test_nothing_secret_is_logged_and_a_planted_secret_is_found(heard):
    rows, ids = marked()
    parties = tuple(secfc.Party(f"site-{j}", rows[j], ids=tuple(ids[j])) for j in range(3))
    federation = secfc.Federation(parties)
    algorithms = (
        secfc.SecFC(k=3, disclosure=secfc.Distances(), membership=secfc.Private()),
        secfc.SecFC(k=3),
        *short((), (secfc.SecFC(k=3, disclosure=secfc.OwnLabels()), secfc.KFed(k=3, k_local=2))),
    )
    steps = set()
    for algorithm in algorithms:
        result = secfc.fit(algorithm, federation, keep_bodies=True, sealed=True)
        if hasattr(result.plan, "quantizer"):
            scale = result.plan.quantizer.scale
            steps |= {round((VALUE + j) * scale) for j in range(3)}
    plain = secfc.fit(secfc.SecFC(k=3, disclosure=secfc.Distances()), federation, keep_bodies=True)
    seen = DecodedView.of(plain, plain.plan, (SERVER,), federation)
    judge_guess(reconstruct_geometry(seen), np.concatenate(rows))
    psu.union(ids, t=1)
    markers = {NAME, VALUE, VALUE + 1, VALUE + 2, *steps}
    assert not found(markers, heard)
    events = " ".join(heard)
    assert all(word in events for word in ("begin", "exchange", "judged", "rounds=", "phase=distances"))
    logging.getLogger("secfc.fitting").debug("%s", rows[0][:1].tolist())
    logs.log_event("transport", "planted", logging.DEBUG, name=ids[2][3], step=min(steps))
    assert set(found(markers, heard)) == {NAME, VALUE, min(steps)}


def test_a_program_that_adds_no_handler_hears_nothing(capfd):
    logs.log_event("fitting", "lost", logging.ERROR, peer="b")
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows, ids = marked()
    for j, name in enumerate("abc"):
        lines = [f"{i},{x!r},{y!r}" for i, (x, y) in zip(ids[j], rows[j].tolist(), strict=True)]
        Path(f"{name}.csv").write_text("\n".join(["id,x,y", *lines]) + "\n")
    return ["a.csv", "b.csv", "c.csv"]


def shell(*words):
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return result


def test_quiet_and_verbose_commands(files):
    model = ["--id-column", "id", "--force"]
    quiet = shell("run", *files, "-k", "3", *model, "--model", "model.npz", "--quiet")
    assert quiet.output == ""
    assert Path("secfc-labels.csv").exists()
    assert shell("predict", "model.npz", *files, *model, "--quiet").output == ""
    for words, kinds in (
        (("run", *files, "-k", "3", *model), {("INFO", "secfc.fitting")}),
        (("predict", "model.npz", *files, *model), {("DEBUG", "secfc.transport")}),
        (("psu", *files, "--id-column", "id", "--force"), {("INFO", "secfc.psu")}),
    ):
        loud = shell(*words, "--verbose")
        lines = [json.loads(line) for line in loud.stderr.splitlines()]
        assert {(line["level"], line["logger"]) for line in lines} == kinds
        assert all(line["event"] for line in lines)
        assert NAME not in loud.output
        assert "7351" not in loud.output
    both = CliRunner().invoke(main, ["run", *files, "-k", "3", "--quiet", "--verbose"])
    assert both.exit_code == 2
    assert "--quiet and --verbose exclude each other: leave one out." in both.stderr
    assert shell("psu", *files, "--id-column", "id", "--quiet", "--force").output == ""
    refused = CliRunner().invoke(main, ["psu", *files, "--verbose", "--quiet"])  # no line is left behind
    assert refused.exit_code == 2
    assert not [h for h in logging.getLogger("secfc").handlers if isinstance(h, verbosity.Stderr)]


def test_a_terminal_gets_lines(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    with verbosity.log_to_stderr():
        logs.log_event("deploy", "phase", note="sharing points", resumed=False)
        logs.log_event("deploy", "lost", logging.WARNING, peer="b", seconds=1.23456)
        logs.log_event("deploy", "exchange", logging.DEBUG, peer="b")
    one, two = shown.getvalue().splitlines()
    assert one.endswith(" s  phase: sharing points")
    assert two.endswith(" s  lost: peer=b seconds=1.23")
