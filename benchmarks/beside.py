"""A whole run beside that of a checkout of another commit: processor time, by turns, one process each.

    git clone . ../then && git -C ../then checkout ff38e04
    python -m benchmarks.beside ../then

`Distances(blind=False)`, m=16384, d=100, k=16, n=16, ell=2, t=5, from random labels: replies and rows that
nobody checked then are checked now.  Labels are the same.  Only one of the two works at a time, each after a
run that loads its kernels; the ratio is the median of those of runs that follow one another.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from pathlib import Path

import click

import secfc

# Runs in either checkout, so it knows both forms of what it calls.
WORKER = """
import hashlib, sys, time, warnings
import numpy as np
import secfc
warnings.simplefilter("ignore")
try:
    from secfc.data.mixtures import gaussian_mixture
    threshold = {"threshold": secfc.Threshold(5, 2)}
except ImportError:
    from secfc.data import gaussian_mixture
    threshold = {"t": 5, "ell": 2}
points, truth = gaussian_mixture(16384, 100, 16, 1.0, np.random.default_rng(0))
federation = secfc.Federation.from_labelled(points, truth, n=16, seed=0)
way = secfc.SecFC(k=16, init=secfc.RandomLabels(), disclosure=secfc.Distances(blind=False), **threshold)
for _ in sys.stdin:
    start = time.process_time()
    result = secfc.fit(way, federation, seed=0)
    seconds = time.process_time() - start
    labels = hashlib.blake2b(b"".join(np.asarray(x, np.int32).tobytes() for x in result.labels)).hexdigest()
    print(seconds, sum(e.nbytes for e in result.transcript.envelopes), labels, flush=True)
"""


def start_worker(folder: Path) -> subprocess.Popen[str]:
    """A process that runs the code of a checkout once for every line that it is told."""
    return subprocess.Popen(
        [sys.executable, "-c", WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder.resolve())},
    )  # fmt: skip


def run_once(worker: subprocess.Popen[str]) -> tuple[float, int, str]:
    """Processor seconds, bytes and a digest of the labels of one run."""
    assert worker.stdin
    assert worker.stdout
    worker.stdin.write("\n")
    worker.stdin.flush()
    seconds, size, labels = worker.stdout.readline().split()
    return float(seconds), int(size), labels


@click.command()
@click.argument("then", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--runs", default=9, show_default=True, help="Pairs of runs.")
def main(then: Path, runs: int) -> None:
    """Print both times, their ratio and that of bytes."""
    workers = [start_worker(Path(secfc.__file__).parents[1]), start_worker(then)]
    for worker in workers:
        run_once(worker)
    pairs = [[run_once(worker) for worker in workers] for _ in range(runs)]
    (_, now_bytes, now_labels), (_, then_bytes, then_labels) = pairs[0]
    for worker in workers:
        worker.terminate()
    now, before = ([pair[i][0] for pair in pairs] for i in (0, 1))
    ratio = statistics.median(a / b for a, b in zip(now, before, strict=True))
    click.echo(
        f"now {statistics.median(now):.3f} s, then {statistics.median(before):.3f} s, ratio {ratio:.2f} "
        f"(of the least {min(now) / min(before):.2f}); bytes {now_bytes / then_bytes:.3f}; "
        f"labels {'the same' if now_labels == then_labels else 'DIFFER'}"
    )


if __name__ == "__main__":
    main()
