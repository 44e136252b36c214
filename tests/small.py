"""Small federations, runs and calls of the shell that many tests begin with."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from click.testing import CliRunner, Result

import secfc
from secfc.cli import main
from secfc.data.inputs import build_algorithm


def federation(
    n: int = 5, m: int = 60, d: int = 3, seed: int = 0, integers: bool = False, **more: Any
) -> secfc.Federation:
    """Points (m, d) about 0 in n parts; integers of -2 to 2 have ties and duplicates."""
    rng = np.random.default_rng(seed)
    points = rng.integers(-2, 3, (m, d)).astype(float) if integers else rng.normal(size=(m, d))
    return split(points, n, **more)


def split(points: Any, n: int = 5, **more: Any) -> secfc.Federation:
    """These points in n parts."""
    return secfc.Federation.from_arrays(np.array_split(np.asarray(points), n), **more)


def clustered(n: int = 5, m: int = 60, d: int = 3, seed: int = 0, **more: Any) -> secfc.Federation:
    """Points (m, d) in n parts, about three centers within 10 of 0."""
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-10, 10, (3, d))
    return split(centers[rng.integers(0, 3, m)] + rng.normal(size=(m, d)), n, **more)


def grid(m: int, d: int, seed: int, reach: int = 3) -> np.ndarray[Any, Any]:
    """Integer points (m, d) within reach of 0: ties and duplicates."""
    return np.random.default_rng(seed).integers(-reach, reach + 1, (m, d))


def on_grid(n: int = 5, m: int = 60, d: int = 3, seed: int = 0) -> secfc.Federation:
    """The points of `grid`, in n parts."""
    return split(grid(m, d, seed).astype(float), n)


def cluster(data: Any, disclosure: Any, **settings: Any) -> Any:
    """`fit` by SecFC(3, 1), which keeps what was sent; settings: of both, by their names."""
    settings = {"k": 3, "threshold": 1, "keep_bodies": True, "disclosure": disclosure, **settings}
    ours = [name for name in inspect.signature(secfc.fit).parameters if name in settings]
    options = {name: value for name in ours if (value := settings.pop(name)) is not None}
    return secfc.fit(build_algorithm(secfc.SecFC, **settings), data, **options)


def same_runs(a: Any, b: Any) -> bool:
    """Whether two runs had the same labels after every step, and as many steps."""
    return len(a.history) == len(b.history) and all(map(np.array_equal, a.history, b.history))


def invoke(*words: Any, **options: Any) -> Result:
    """`secfc` with these words, in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], **options)


def run(*words: Any, **options: Any) -> Result:
    """`secfc run --verbose` with these words."""
    return invoke("run", "--verbose", *words, **options)
