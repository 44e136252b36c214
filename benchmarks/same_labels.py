"""Whether labels are the same everywhere: the demonstration's digest under kernels, threads and versions.

    python -m benchmarks.same_labels                                  this Python
    python -m benchmarks.same_labels --python ../other/bin/python     others that have the package installed
    python -m benchmarks.same_labels --out benchmarks/same_labels.toml

The file holds what was run and where; what was not is in it as well, by hand.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import tomllib
from datetime import UTC, datetime
from pathlib import Path

import click

from benchmarks.common import require, show

MATRIX = Path(__file__).with_name("same_labels.toml")
# Kernels for this processor, for any with AVX2, and without the instructions of any.
KERNELS = {
    "native": {},
    "x86-64-v3": {"NUMBA_CPU_NAME": "x86-64-v3"},
    "portable": {"SECFC_KERNELS": "portable"},
}
THREADS = (1, 2, 16)
ASKING = """
import json, sys, numpy, numba, platform
from click.testing import CliRunner
from secfc.cli import main
found = {t: json.loads(CliRunner().invoke(main, ["run", "--json", "--threads", t]).stdout)["labels_digest"]
         for t in sys.argv[1:]}
print(json.dumps({"python": platform.python_version(), "numpy": numpy.__version__, "numba": numba.__version__,
                  "system": platform.system(), "digests": found}))
"""


def instructions() -> str:
    """The widest vector instructions that this processor has, in a word."""
    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    widest = next((name for flag, name in (("avx512f", "AVX-512"), ("avx2", "AVX2")) if flag in flags), "")
    return f"{platform.machine()} {widest}".strip()


def ask(python: str, kernels: str) -> dict[str, object]:
    """What a Python finds, with these kernels and all numbers of threads."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, **KERNELS[kernels], "NUMBA_CACHE_DIR": cache}
        command = [python, "-c", ASKING, *map(str, THREADS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return {"kernels": kernels, **found}


@click.command(help=__doc__.split("\n")[0])
@click.option("--python", "pythons", multiple=True, help="Another Python that has the package.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Keep the rows in this file.")
def main(pythons: tuple[str, ...], out: Path | None) -> None:
    """Run, print, and end with 1 if two digests differ."""
    if out is not None:
        require("tomli_w", "tomli-w", "deploy")
    kept = tomllib.loads(MATRIX.read_text()) if MATRIX.exists() else {}
    found = [ask(python, kernels) for python in pythons or (sys.executable,) for kernels in KERNELS]
    digests = {digest for row in found for digest in row.pop("digests").values()}  # type: ignore[attr-defined]
    columns = ["python", "numpy", "numba", "system", "kernels"]
    show(f"{', '.join(sorted(digests))}", columns, [[str(row[name]) for name in columns] for row in found])
    if out is not None and len(digests) == 1:
        import tomli_w

        where = {
            "processor": instructions(),
            "threads": list(THREADS),
            "date": datetime.now(UTC).date().isoformat(),
        }
        rows = {"digest": digests.pop(), "ran": [{**row, **where} for row in found]}
        out.write_text(tomli_w.dumps({**rows, "not_run_here": kept.get("not_run_here", [])}))
    elif len(digests | {kept.get("digest", next(iter(digests)))}) > 1:
        raise click.ClickException("labels differ: this is a bug, please report it with this table")


if __name__ == "__main__":
    main()
