"""Every two options of a command together: labels are those of plaintext, or nothing is sent at all.

Commands compare labels themselves, and exit with 1 where they differ.  What is refused is refused before the
parties begin, and `secfc plan` refuses it too.
"""

import dataclasses
import itertools

import click
import numpy as np
import pytest

from secfc import pipeline
from secfc.cli.methods import methods, options
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
    "server_file": ["held.csv"], "rows_per_client": ["3"], "labels_epsilon": ["2", "2:9"],
    "k_local": ["2"], "rounds": ["2"], "alpha": ["0.5"], "exponent": ["2"], "floor": ["3"],
    "eps": ["0.2"], "min_samples": ["2"],
}  # fmt: skip
# What changes no result, or needs another file.
OTHERWISE = {
    "threads", "scratch", "verify", "verify_reference", "attack", "ledger", "total_epsilon", "same_people",
    "categorical",
}  # fmt: skip
NETWORK = {"--latency", "--bandwidth"}  # of the plan's own network, whatever runs

PREPARING = [field.name for field in dataclasses.fields(Preparing)]
# A command, the algorithm, which files, and what all lines begin with.
CASES = [
    ("run", "secfc", "rows", ""),
    ("run", "secfc", "people", "--membership private"),
    ("run", "secfc", "columns", "--split columns"),
    ("run", "secfc", "common", "--features common"),
    ("run", "k-fed", "rows", "--algorithm k-fed"),
    ("run", "lloyd", "rows", "--algorithm lloyd"),
    ("run", "dbscan", "rows", "--algorithm dbscan"),
    ("run", "federated-lloyd", "rows", "--disclosure centers"),
    ("dp", "feddp", "rows", "--epsilon 9 --radius 1"),
    ("dp", "feddp", "common", "--epsilon 9 --server-file held.csv --features common"),
    ("overlap", "federated-lloyd", "common", ""),
    ("overlap", "overlap-1", "common", "--algorithm overlap-1"),
    ("overlap", "overlap-2", "common", "--algorithm overlap-2"),
]


def words_of(option):
    """What is tried of an option."""
    if option.is_flag:
        return [*option.opts, *option.secondary_opts]
    values = option.type.choices if isinstance(option.type, click.Choice) else VALUES[option.name]
    return [f"{option.opts[0]} {value}" for value in values]


def pairs_of(command, algorithm):
    """Every two things that are tried of a command's options for an algorithm."""
    names = {*PREPARING, *methods()[algorithm].names} - OTHERWISE
    own = [option for option in COMMANDS[f"secfc {command}"].params if option.name in names]
    words = [*itertools.chain(*map(words_of, own)), "-k 3", "-k 2..4"]
    return [" ".join(pair) for pair in itertools.combinations(words, 2)]


def test_every_option_is_tried_or_said_to_change_nothing():
    assert {algorithm for _, algorithm, _, _ in CASES} == {*methods()}
    assert {*PREPARING, *options()} >= {*VALUES, *OTHERWISE}
    for command, algorithm, _, _ in CASES:
        assert len(pairs_of(command, algorithm)) > 100


def write_files(what):
    """Of seven clients: rows of each, rows some of which two have, columns, or rows with a column more."""
    rng, files = np.random.default_rng(0), [f"f{j}.csv" for j in range(7)]
    table = np.round(rng.normal(size=(14, 1)) / 20 + rng.integers(0, 3, (14, 1)) / 3, 4)
    table = np.hstack([table, np.round(rng.normal(size=(14, 10)) / 10, 4)])
    for j, file in enumerate(files):
        who = range(14) if what == "columns" else [(2 * j + i) % 14 for i in range(3)]
        names, places = ("x", "y"), range(2)
        if what == "columns":
            names, places = (f"x{j}", f"y{j}")[: 1 + j % 2], range(j, j + 1 + j % 2)
        elif what == "common" and j % 2:
            names, places = ("x", "y", "z"), range(3)
        with open(file, "w") as out:
            out.write(",".join(("id", *names)) + "\n")
            for i in who:
                name = f"{j}/{i}" if what in ("rows", "common") else str(i)
                out.write(",".join((name, *(str(table[i, place]) for place in places))) + "\n")
    np.savetxt("held.csv", table[:, :2], delimiter=",", header="x,y", comments="")
    return files


@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("command", "algorithm", "what", "base"), CASES)
def test_any_two_options_are_exact_or_nothing_is_sent(command, algorithm, what, base, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files, begun, run_parties = write_files(what), [], pipeline.run_parties
    monkeypatch.setattr("secfc.pipeline.run_parties", lambda *given: begun.append(1) or run_parties(*given))

    def stop(*given):
        raise click.exceptions.Exit(0)

    monkeypatch.setattr("secfc.planning.planned.cached_prices", stop)
    planned = {flag for one in COMMANDS["secfc plan"].params for flag in (*one.opts, *one.secondary_opts)}
    pairs, ran, wrong = pairs_of(command, algorithm), 0, []
    for pair in tonight(pairs, 6) if NIGHTLY else pairs[len(pairs) // 20 :: len(pairs) // 10]:
        flags, needed = {word for word in pair.split() if word[0] == "-"}, "-k 2"
        if algorithm == "dbscan":
            needed = "" if "--eps" in flags else "--eps 0.3"
        elif "-k" in flags:
            needed = ""
        if what == "people" and "--no-merge" in pair:
            continue  # which the data decide: some people are at two
        begun.clear()
        line = f"{base} {needed} {pair}"
        done = invoke(command, *files, "--id-column", "id", "--quiet", "--force", *line.split())
        ended = done.exception is None or isinstance(done.exception, SystemExit)
        if not ended or (done.exit_code and (done.exit_code != 2 or begun)):
            wrong.append((line, done.output, done.exception))
        ran += bool(begun)
        if what == "common" or not flags <= planned - NETWORK:
            continue
        words = line.replace("--dealer f1", "--dealer client-1") + " --algorithm feddp" * (command == "dp")
        plan = invoke("plan", "-n", 7, "-m", 21, "-d", 2 + 8 * (what == "columns"), *words.split())
        if plan.exit_code != done.exit_code:
            wrong.append((line, done.output, plan.output))
    assert not wrong
    assert ran >= short(1, nightly=4)
