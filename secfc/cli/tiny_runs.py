"""Runs so small that all they cost is loading or compiling kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from psu import Committee, Server
    from secfc.algorithm import Algorithm, Clustering
    from secfc.data.federation import Federation


def tiny_run(algorithm: Algorithm) -> Clustering:
    """A fit to as few clients as it takes, one with more points: large arrays are taken in slices."""
    from secfc.cli.errors import cautions_noted
    from secfc.data.inputs import get_parameter, with_parameters
    from secfc.pipeline import fit

    # The points mean nothing, so it does not matter how they are rounded.
    if algorithm.capabilities.coarse is not None:
        algorithm = with_parameters(algorithm, coarse="allow")
    with cautions_noted():  # of what nobody asked for
        return fit(algorithm, few_points(3 + 2 * get_parameter(algorithm, "max_cheaters", 0)), bound=8.0)


def tiny_union(mode: Committee | Server) -> None:
    """A union of three sets of IDs in this kind of mode; long IDs are hashed by another kernel."""
    import psu

    small = psu.Committee(1) if isinstance(mode, psu.Committee) else mode
    psu.union([["a", "b"], ["b", "c"], ["c", "d" * 200]], mode=small)


def few_points(n: int = 3) -> Federation:
    """Points to compile with, between -8 and 8; some are the server's."""
    import numpy as np

    from secfc.data.federation import Federation

    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-8, 8, (rows, 3)) for rows in (2000, *[60] * (n - 1))]
    return Federation.from_arrays(arrays, server_points=rng.uniform(-8, 8, (20, 3)))
