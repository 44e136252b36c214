"""Kernels, compiled before they are needed: by runs so small that loading or compiling is all they cost."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from field.ring.basis import Basis
    from psu import Committee, Server
    from secfc.algorithm import Algorithm, Clustering
    from secfc.coded.membership import Membership
    from secfc.coded.parameters import Quantization
    from secfc.coded_kmeans.plaintext import Lloyd
    from secfc.coded_kmeans.secfc import SecFC
    from secfc.data.federation import Federation
    from secfc.disclosure import Disclosure

# What `compile_all` does, one after the other.
PIECES = 5


def prepare_kernels(algorithm: Any, plan: Any) -> None:
    """Load or compile what a run of an algorithm under a plan will need, if it needs any kernel."""
    algorithm = algorithm.capabilities.inner or algorithm
    kinds = {"SecFC": _prepare_secfc, "Lloyd": _prepare_lloyd, "FedDPKMeans": _prepare_feddp}
    if prepare := kinds.get(type(algorithm).__name__):
        prepare(algorithm, plan)


def compile_all(done: Callable[[], None] = lambda: None) -> None:
    """Run everything that is compiled: for every algorithm, and for both modes of union.

    done: called after each of the PIECES.
    """
    from psu import Committee, Server

    for piece in (
        _compile_secfc, _compile_lloyd, _compile_feddp,
        lambda: tiny_union(Committee(1)), lambda: tiny_union(Server()),
    ):  # fmt: skip
        piece()
        done()


def cache_directory() -> str | None:
    """Where compiled kernels are kept, None if nowhere."""
    from field.kernels import scalar as kernels
    from psu import kernels as psu_kernels

    places = (kernels.nearest_center.stats.cache_path, psu_kernels.multiply.stats.cache_path)
    return None if None in places else " and ".join(places)


def tiny_run(algorithm: Algorithm, **options: Any) -> Clustering:
    """A fit to as few clients as it takes, one with more points: large arrays are taken in slices.

    options: of the fit.  Kernels compile anew for arrays that cannot be written to, as those of sealed
    messages and of what a network brings.
    """
    from secfc.data.inputs import get_parameter, with_parameters
    from secfc.errors import Caution
    from secfc.pipeline import fit

    # The points mean nothing, so it does not matter how they are rounded.
    if algorithm.capabilities.coarse is not None:
        algorithm = with_parameters(algorithm, coarse="allow")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Caution)  # of what nobody asked for
        points = few_points(3 + 2 * get_parameter(algorithm, "corrected", 0))
        return fit(algorithm, points, bound=8.0, **options)


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
    persons = [range(len(rows)) for rows in arrays]
    return Federation.from_arrays(arrays, persons=persons, server_points=rng.uniform(-8, 8, (20, 3)))


# --------------------------------------------------------------------------------------------------
# One algorithm after the other.


def plaintext_twin(algorithm: SecFC) -> Lloyd:
    """Plaintext Lloyd that takes the same steps from the same starts."""
    from secfc.coded_kmeans.plaintext import Lloyd
    from secfc.disclosure import Distances

    return Lloyd(
        algorithm.k,
        init=algorithm.init,
        n_init=algorithm.n_init,
        max_iter=algorithm.max_iter,
        quantization=replace(algorithm.quantization, coarse="allow"),
        # Noise needs room that its twin does not.
        disclosure=algorithm.disclosure if algorithm.disclosure.capabilities.exact else Distances(),
    )


def _prepare_secfc(algorithm: SecFC, plan: Any) -> None:
    """Load or compile what the run will need, and what its comparison with plaintext k-means will."""
    from field.compare.blockwise import FEW, MANY
    from secfc.coded.parameters import Network
    from secfc.data.inputs import with_parameters
    from secfc.errors import InputError

    # Where owners are hidden there is no code before the clients' union, in a deployment.
    code = getattr(plan, "code", None)
    # Other kernels compare many, in groups where bytes alone cost.
    many = not isinstance(algorithm.k, int) or algorithm.k > FEW
    small = with_parameters(
        algorithm, k=MANY if many else 2, network=Network(latency=0.0), t=1, ell=1, n_init=1,
        max_iter=3, scale=None, largest=None, basis=None if code is None else code.basis,
        membership=small_membership(algorithm), reveal_centers=bool(algorithm.release.reveal_centers),
        corrected=min(algorithm.threshold.corrected, 1), workers=None,
        disclosure=small_disclosure(algorithm),
    )  # fmt: skip
    if not algorithm.disclosure.capabilities.exact:
        # A radius that fits the tiny run, and a basis that holds noise on it.
        from secfc.privacy import Bound

        noisy: Any = small.disclosure
        small = with_parameters(small, disclosure=replace(noisy, radius=Bound.given(8.0)), basis=None)
    try:
        tiny_run(small, sealed=True)
    except InputError:
        # The basis of a very coarse scale is too small for the tiny run, and has no kernel of its own.
        small = with_parameters(small, basis=None)
        tiny_run(small, sealed=True)
    tiny_run(plaintext_twin(small))


def small_membership(algorithm: SecFC) -> Membership:
    """The same kind of membership for three clients; oblivious tags have nothing to compile."""
    from psu import Committee
    from secfc.coded.joined import Joined
    from secfc.coded.membership import Open, Private

    membership = algorithm.membership
    if isinstance(membership, Joined) and algorithm.disclosure.capabilities.sums:
        return Private(Committee(1), counts="hidden")  # by which squares are shared as well
    if isinstance(membership, Joined):  # whose columns lie side by side, as those of one
        return Private(Committee(1), merge=False) if membership.align == "ids" else Open()
    if not isinstance(membership, Private):
        return membership
    return replace(membership, mode=Committee(1), tags="shared key", quota=None)


def small_disclosure(algorithm: SecFC) -> Disclosure:
    """The same policy for three clients, of whom the last deals if a client does."""
    from secfc.disclosure import AssignmentsOnly, FinalLabelsOnly, NoisySums, OwnLabels
    from secfc.roles.exchange import SERVER

    policy = algorithm.disclosure
    if not isinstance(policy, AssignmentsOnly | OwnLabels | FinalLabelsOnly | NoisySums):
        return policy
    if policy.dealer in (SERVER, None):
        return policy
    return replace(policy, dealer=few_points().names[-1])


def _compile_secfc() -> None:
    """Run everything that is compiled, over both kinds of fields, and both modes of union."""
    import numpy as np

    from field.kernels.microkernel import ACROSS, TILE
    from field.ring import pseudo_mersenne
    from field.ring.basis import FEW, LANE_PRIMES, MERSENNE_61, Basis
    from psu import Committee, Server
    from secfc.coded.membership import Private
    from secfc.coded.parameters import Quantization

    lanes = Basis(LANE_PRIMES[:2])  # more have the same kernels
    many = np.ones((2, FEW), lanes.dtype)
    lanes.multiply(many, many)  # few are multiplied without a kernel
    if pseudo_mersenne.vectorized():  # nor are few features added up by one
        tiles, weights = np.zeros((1, ACROSS, TILE), np.int32), np.ones((1, TILE), lanes.dtype)
        pseudo_mersenne.weighted_sums(tiles, 0, weights, LANE_PRIMES[0], np.zeros((1, ACROSS - 1), np.int64))
    for basis in (lanes, Basis((MERSENNE_61,))):
        _compile_distances(Quantization(basis=basis))
    _compile_comparisons(lanes)
    _compile_noise()
    for mode in (Committee(1), Server()):
        _tiny_secfc(max_iter=1, membership=Private(mode))


def _tiny_secfc(k: int = 2, corrected: int = 0, **more: Any) -> Clustering:
    from secfc.coded.parameters import Threshold
    from secfc.coded_kmeans.secfc import SecFC

    algorithm = SecFC(k, Threshold(1, corrected=corrected), **more)
    tiny_run(algorithm, sealed=True)
    return tiny_run(algorithm)


def _compile_distances(quantization: Quantization) -> None:
    from secfc.coded.parameters import Release, Runtime
    from secfc.disclosure import Distances
    from secfc.kmeans.starts import CenterSeparation, KMeansPlusPlus

    for threads, init in enumerate((KMeansPlusPlus(), CenterSeparation()), 1):
        _tiny_secfc(
            init=init, max_iter=3, quantization=quantization, runtime=Runtime(threads),
            release=Release(reveal_centers=True), disclosure=Distances(),
        ).predict(few_points())  # fmt: skip
    _tiny_secfc(corrected=1, max_iter=1, quantization=quantization, disclosure=Distances())


def _compile_comparisons(basis: Basis) -> None:
    from field.compare.blockwise import MANY
    from secfc.coded.parameters import Network, Quantization, Runtime
    from secfc.disclosure import AssignmentsOnly, OwnLabels

    together = Runtime(network=Network(latency=0.0))
    for policy in (AssignmentsOnly(), AssignmentsOnly(dealer=None), OwnLabels()):
        _tiny_secfc(max_iter=2, quantization=Quantization(basis=basis), disclosure=policy)
    for centers in ("exact", "rounded"):  # in levels of groups, and against a point's own first
        quantization = Quantization(basis=basis, centers=centers)
        _tiny_secfc(MANY, max_iter=1, quantization=quantization, runtime=together)


def _compile_noise() -> None:
    """Noise, and what needs lanes or sums that no run above has."""
    from secfc.coded.parameters import Quantization
    from secfc.disclosure import Distances, FinalLabelsOnly, NoiseInShares, OwnLabels
    from secfc.privacy import Bound, Budget

    # Sums of integers from 2**30 on have a kernel of their own.
    _tiny_secfc(max_iter=1, quantization=Quantization(scale=2.0**28), disclosure=Distances())
    if _accounts_for_budgets():
        _tiny_secfc(max_iter=1, disclosure=NoiseInShares(Budget(10, 1e-6), Bound.given(8.0)))
    # Hidden sizes take a modulus m**2/4 times as large: these run in lanes enough, not in lanes given.
    for hidden in (OwnLabels(sizes="hidden"), FinalLabelsOnly(), FinalLabelsOnly(dealer="server")):
        _tiny_secfc(max_iter=2, disclosure=hidden)


def _prepare_lloyd(algorithm: Any, plan: Any) -> None:
    """Load or compile what the run will need."""
    from secfc.data.inputs import with_parameters

    tiny_run(with_parameters(algorithm, k=2, n_init=1, max_iter=3, scale=None, largest=None, basis=None))


def _compile_lloyd() -> None:
    """Run everything that is compiled."""
    from secfc.coded_kmeans.plaintext import Lloyd
    from secfc.kmeans.starts import CenterSeparation, KMeansPlusPlus

    tiny_run(Lloyd(2, init=KMeansPlusPlus(), max_iter=3)).predict(few_points())
    tiny_run(Lloyd(2, init=CenterSeparation(), max_iter=3)).predict(few_points())
    _compile_labeling()


def _compile_labeling() -> None:
    """Label rows as those who have many of them do, of each width that is common."""
    import numpy as np

    from field.kernels.labeling import CenterFilter, LabelBounds, label_tiles, sum_tiles, tile_rows

    centers, sums, sizes = np.array([[0, 0], [9, 9]]), np.zeros((2, 2), np.int64), np.zeros(2, np.int64)
    apart = CenterFilter.of(
        centers, np.ones((2, 1), np.int64), np.arange(2), lambda rows: np.zeros(len(rows))
    )
    for largest in (9, 2**15, 2**31 - 1):  # of the last differences leave int32
        tiles, labels = tile_rows(centers, largest), np.full(2, -1, np.int32)
        bounds = LabelBounds(len(labels))
        # Bounds are made once few rows moved, and then rows are left alone that theirs hold: here all.
        for _ in range(4):
            bounds.follow_centers(apart)
            bounds.moved = label_tiles(
                tiles, apart, labels, sums, sizes, largest=largest, bounds=bounds.of_rows(slice(None))
            )
        sum_tiles(tiles, labels, sums, sizes)


def _prepare_feddp(algorithm: Any, plan: Any) -> None:
    """Load or compile what the run will need."""

    algorithm = algorithm.capabilities.inner or algorithm
    small = replace(algorithm, k=2, t=1, rows_per_client=algorithm.rows_per_client and 60, labels=None)
    tiny_run(small, sealed=True)


def _compile_feddp() -> None:
    """Run everything that is compiled, where what it needs is installed."""
    from secfc.feddp import FedDPKMeans, ServerNoise, SharedNoise

    if _accounts_for_budgets():
        tiny_run(FedDPKMeans(2, 10, 1e-6, noise=ServerNoise()))
        tiny_run(FedDPKMeans(2, 10, 1e-6, noise=SharedNoise()))


def _accounts_for_budgets() -> bool:
    """Whether what noise needs is installed: a site without it takes part in no run with noise."""
    from secfc.data.inputs import EXTRAS, is_installed

    return all(map(is_installed, EXTRAS["dp"]))
