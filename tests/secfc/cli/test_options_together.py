"""Every two options of `secfc run` together: labels are those of plaintext Lloyd, or nothing is sent at all.

`secfc run` compares labels itself, and exits with 1 where they differ.  What is refused is refused before the
parties begin, and `secfc plan` refuses it too.
"""

import dataclasses
import itertools

import click
import numpy as np
import pytest

from secfc import pipeline
from secfc.cli.methods import options
from secfc.cli.shell.settings import Preparing
from tests.nightly import NIGHTLY, short, tonight
from tests.secfc.cli.test_options import COMMANDS
from tests.small import invoke

# Of options that are no choice and no flag, what is tried.
VALUES = {
    "ell": ["2"], "workers": ["5"], "quota": ["100"], "max_explained": ["0.9"],
    "dealer": ["none", "server", "f1"],
    "corrected": ["1"], "deviating": ["0", "2"], "smallest_center": ["2"], "cut": ["2"], "t": ["0", "1", "2"],
    "n_init": ["2"], "max_iter": ["3"], "scale": ["500"], "bound": ["1"], "largest": ["60"],
    "epsilon": ["50 --radius 1"], "delta": ["0.001"], "radius": ["1"], "limit": ["4"],
    "ranges": ["x=-1:1,y=-1:1"], "scale_share": ["0.2"], "latency": ["50"], "bandwidth": ["10"],
}  # fmt: skip
# What changes no result, or needs another file.
OTHERWISE = {
    "threads", "scratch", "verify", "verify_reference", "attack", "ledger", "total_epsilon", "same_people",
    "categorical",
}  # fmt: skip
NETWORK = ("--latency", "--bandwidth")  # of the plan's own network, whatever runs

PREPARING = [field.name for field in dataclasses.fields(Preparing)]
NAMES = [name for name in (*PREPARING, *options("secfc")) if name not in OTHERWISE]


def words_of(name):
    """What is tried of an option."""
    option = {one.name: one for one in COMMANDS["secfc run"].params}[name]
    if option.is_flag:
        return [*option.opts, *option.secondary_opts]
    values = option.type.choices if isinstance(option.type, click.Choice) else VALUES[name]
    return [f"{option.opts[0]} {value}" for value in values]


WORDS = [*(words for name in NAMES for words in words_of(name)), "-k 3", "-k 2..4"]
PAIRS = [" ".join(pair) for pair in itertools.combinations(WORDS, 2)]


def test_every_option_is_tried_or_said_to_change_nothing():
    own = {option.name for option in COMMANDS["secfc run"].params}
    assert {*VALUES, *OTHERWISE} <= own
    assert set(NAMES) | OTHERWISE == {*PREPARING, *options("secfc")}
    assert not {*VALUES} - {*NAMES}


def write_files(what):
    """Of seven clients: rows of each, rows of which some lie at two, or columns of the same rows."""
    rng, files = np.random.default_rng(0), [f"f{j}.csv" for j in range(7)]
    table = np.round(rng.normal(size=(14, 1)) / 20 + rng.integers(0, 3, (14, 1)) / 3, 4)
    table = np.hstack([table, np.round(rng.normal(size=(14, 10)) / 10, 4)])
    for j, file in enumerate(files):
        who = range(14) if what == "columns" else [(2 * j + i) % 14 for i in range(3)]
        names = (f"x{j}", f"y{j}")[: 1 + j % 2] if what == "columns" else ("x", "y")
        places = range(j, j + len(names)) if what == "columns" else (0, 1)
        with open(file, "w") as out:
            out.write(",".join(("id", *names)) + "\n")
            for i in who:
                name = f"{j}/{i}" if what == "rows" else str(i)
                out.write(",".join((name, *(str(table[i, place]) for place in places))) + "\n")
    return files


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(
    ("what", "base"),
    [("rows", ""), ("people", "--membership private"), ("columns", "--split columns")],
    ids=["rows", "people", "columns"],
)
def test_any_two_options_are_exact_or_nothing_is_sent(what, base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, begun, run_parties = write_files(what), [], pipeline.run_parties
    monkeypatch.setattr("secfc.pipeline.run_parties", lambda *given: begun.append(1) or run_parties(*given))

    def stop(*given):
        raise click.exceptions.Exit(0)

    monkeypatch.setattr("secfc.planning.planned.cached_prices", stop)
    known = {
        flag for option in COMMANDS["secfc plan"].params for flag in (*option.opts, *option.secondary_opts)
    }
    ran, wrong = 0, []
    for pair in tonight(PAIRS, 6) if NIGHTLY else PAIRS[::211]:
        k = "" if "-k" in pair.split() else "-k 2"
        begun.clear()
        line = f"{base} {k} {pair}"
        if what == "people" and "--no-merge" in pair:
            continue  # which the data decide: some people are at two
        done = invoke("run", *files, "--id-column", "id", "--quiet", "--force", *line.split())
        ended = done.exception is None or isinstance(done.exception, SystemExit)
        if not ended or (done.exit_code and (done.exit_code != 2 or begun)):
            wrong.append((line, done.output, done.exception))
        ran += bool(begun)
        if not {word for word in pair.split() if word[0] == "-"} - known and not pair.startswith(NETWORK):
            words = line.replace("--dealer f1", "--dealer client-1").split()
            planned = invoke("plan", "-n", 7, "-m", 21, "-d", 2 + 8 * (what == "columns"), *words)
            if planned.exit_code != done.exit_code:
                wrong.append((line, done.output, planned.output))
    assert not wrong
    assert ran >= short(2, nightly=60)
