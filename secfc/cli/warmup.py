"""Compiled kernels: `secfc warmup`, and preparing what a run needs so that its times are its own."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from secfc.cli.choose import plaintext_twin
from secfc.cli.screen import Screen, timed

if TYPE_CHECKING:
    from psu import Server, Threshold
    from secfc.algorithm import Algorithm, Clustering
    from secfc.coded.membership import Membership
    from secfc.data.federation import Federation
    from secfc.disclosure import Disclosure
    from secfc.exact.secfc import SecFC


def prepare(algorithm: Algorithm, plan: Any) -> None:
    """Load or compile what the run will need, so that its times are those of the protocol."""
    from field.compare.tournament import DIRECT
    from secfc.data.inputs import InputError
    from secfc.exact.plaintext import Lloyd
    from secfc.exact.secfc import SecFC
    from secfc.feddp import FedDPKMeans

    if isinstance(algorithm, SecFC):
        k = DIRECT + 1 if algorithm.k > DIRECT else 2  # other kernels compare many
        small = replace(
            algorithm, k=k, t=1, ell=1, n_init=1, max_iter=3, scale=None, largest=None, basis=plan.code.basis,
            membership=small_membership(algorithm), reveal_centers=bool(algorithm.reveal_centers),
            liars=min(algorithm.liars, 1), disclosure=small_disclosure(algorithm),
        )  # fmt: skip
        if not algorithm.disclosure.exact:
            # A radius that fits the tiny run, and a basis that holds noise on it.
            from secfc.privacy import Bound

            noisy: Any = algorithm.disclosure
            small = replace(small, disclosure=replace(noisy, radius=Bound.given(8.0)), basis=None)
        try:
            tiny_run(small)
        except InputError:
            # The basis of a very coarse scale is too small for the tiny run, and has no kernel of its own.
            small = replace(small, basis=None)
            tiny_run(small)
        tiny_run(plaintext_twin(small))
    elif isinstance(algorithm, Lloyd):
        tiny_run(replace(algorithm, k=2, n_init=1, max_iter=3, scale=None, largest=None, basis=None))
    elif isinstance(algorithm, FedDPKMeans):
        tiny_run(replace(algorithm, k=2, t=1, rows_per_client=algorithm.rows_per_client and 60))


def tiny_run(algorithm: Algorithm) -> Clustering:
    """A fit to as few clients as it takes, one with more points: large arrays are taken in slices."""
    from secfc.fitting import fit

    # The points mean nothing, so it does not matter how they are rounded.
    if hasattr(algorithm, "coarse"):
        algorithm = replace(algorithm, coarse="allow")  # type: ignore[type-var]
    return fit(algorithm, few_points(3 + 2 * getattr(algorithm, "liars", 0)), bound=8.0)


def small_membership(algorithm: SecFC) -> Membership:
    """The same kind of membership for three clients."""
    from psu import Threshold
    from secfc.coded.membership import Private

    membership = algorithm.membership
    return replace(membership, mode=Threshold(1)) if isinstance(membership, Private) else membership


def small_disclosure(algorithm: SecFC) -> Disclosure:
    """The same policy for three clients, of whom the last deals if a client does."""
    from secfc.disclosure import AssignmentsOnly
    from secfc.roles.exchange import SERVER

    policy = algorithm.disclosure
    if not isinstance(policy, AssignmentsOnly) or policy.dealer in (SERVER, None):
        return policy
    return replace(policy, dealer=few_points().names[-1])


def tiny_union(mode: Threshold | Server) -> None:
    """A union of three sets of IDs in this kind of mode; long IDs are hashed by another kernel."""
    import psu

    small = psu.Threshold(1) if isinstance(mode, psu.Threshold) else mode
    psu.union([["a", "b"], ["b", "c"], ["c", "d" * 200]], mode=small)


def few_points(n: int = 3) -> Federation:
    """Points to compile with, between -8 and 8; some are the server's."""
    import numpy as np

    from secfc.data.federation import Federation

    rng = np.random.default_rng(0)
    arrays = [rng.uniform(-8, 8, (rows, 3)) for rows in (2000, *[60] * (n - 1))]
    return Federation.from_arrays(arrays, server_points=rng.uniform(-8, 8, (20, 3)))


@click.command(short_help="Compile all kernels once, so that later runs start at once.")
def warmup() -> None:
    """Compile the kernels, and keep them on disk.

    They are compiled on first use anyway; this does it at a time of your choice, for example while an
    image is built.  NUMBA_CACHE_DIR names another directory if the package may not be written to.

    \b
    Examples:
      secfc warmup
      NUMBA_CACHE_DIR=/var/cache/secfc secfc warmup
    """
    screen = Screen.stderr()
    with screen.status("Compiling the kernels"):
        _, spent = timed(compile_all)
    click.echo(f"The kernels are ready ({spent:.1f} s).")
    where = cache_directory()
    if where is None:
        click.echo(
            "No directory for them may be written to, so every run compiles them again: set "
            "NUMBA_CACHE_DIR to one that may."
        )
    else:
        click.echo(f"They are kept in {where}")


def compile_all() -> None:
    """Run everything that is compiled, over both kinds of fields, and both modes of union."""
    from field.compare.tournament import DIRECT
    from field.ring.basis import LANE_PRIMES, MERSENNE_61, Basis
    from psu import Server, Threshold
    from secfc.coded.membership import Private
    from secfc.disclosure import (
        AssignmentsOnly,
        Distances,
        FinalLabelsOnly,
        NoiseAtServer,
        NoiseInShares,
    )
    from secfc.exact.plaintext import Lloyd
    from secfc.exact.secfc import SecFC
    from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise
    from secfc.lloyd.starts import CenterSeparation, KMeansPlusPlus, Start
    from secfc.privacy import Bound, Budget

    starts: tuple[Start, ...] = (KMeansPlusPlus(), CenterSeparation())
    bases = (Basis(LANE_PRIMES[:2]), Basis(LANE_PRIMES[:3]), Basis((MERSENNE_61,)))
    for basis, init, threads in itertools.product(bases, starts, (1, 2)):
        algorithm = SecFC(
            2, 1, init=init, max_iter=3, basis=basis, reveal_centers=True, threads=threads,
            disclosure=Distances(),
        )  # fmt: skip
        tiny_run(algorithm).predict(few_points())
    budget, radius = Budget(10, 1e-6), Bound.given(8.0)
    for noise in (NoiseAtServer(budget, radius), NoiseInShares(budget, radius)):
        tiny_run(SecFC(2, 1, max_iter=1, disclosure=noise))
    for place in (ServerNoise(), SharedNoise()):
        tiny_run(FedDPKMeans(2, budget.epsilon, budget.delta, noise=place))
    for basis in bases:
        tiny_run(SecFC(2, 1, max_iter=1, basis=basis, liars=1, disclosure=Distances()))
    for basis in bases[:2]:
        for policy in (AssignmentsOnly(), AssignmentsOnly(dealer=None), FinalLabelsOnly()):
            tiny_run(SecFC(2, 1, max_iter=2, basis=basis, disclosure=policy))
        tiny_run(SecFC(DIRECT + 1, 1, max_iter=1, basis=basis))
    for mode in (Threshold(1), Server()):
        tiny_union(mode)
        tiny_run(SecFC(2, 1, max_iter=1, membership=Private(mode)))
    for init in starts:
        tiny_run(Lloyd(2, init=init, max_iter=3)).predict(few_points())


def cache_directory() -> str | None:
    """Where compiled kernels are kept, None if nowhere."""
    from field.kernels import scalar as kernels
    from psu import kernels as psu_kernels

    places = (kernels.nearest_center.stats.cache_path, psu_kernels.multiply.stats.cache_path)
    return None if None in places else " and ".join(places)
