"""The kernels beside their rivals in one run: distances, encoding, decoding, and threads.

    python -m benchmarks.kernels --out kernels.jsonl
    python -m benchmarks.kernels --work client --m 16384 --d 100

Every row is one way of doing the work of its cell:

* client: one iteration of a coded client (`field.code.rows`: sums with 5 % of the labels moved, weights,
  distances over two lanes of 30 bits) beside scikit-learn's whole Lloyd iteration on plain floats of all d
  features, one thread each.  A coded client holds d / ell features.
* step: one exact step of Lloyd's on plain integers below 2**15 (`field.kernels.labeling`), from labels of
  which 3 % change, all are new or none changes, beside scikit-learn's iteration, which sums anew in any case.
* encode: shares of a chunk of rows for n clients, secret noise included (`LagrangeCode.share`), and parts.
* decode: exact scaled distances from R replies (`decode_scaled`), and labels (`decode_nearest`).
* threads: the same work on 1 and 2 threads, wall time.

Rivals: galois and python-flint multiply the same matrices modulo the same two primes ("product only"; "with
conversions" adds the way from and to numpy through lists); "object arrays" are numpy over Python integers,
the paper's formula modulo the product of the primes; "FedML's formula" is numpy int64 with one np.dot a
target point and a single np.mod at the end, which overflows where (terms) (p-1)**2 >= 2**63 - it leaves
distances out.  Slow rivals run on fewer rows and are scaled per element: `measured` rows, marked ~.

Times are medians of processor time (wall beside), taken in turns so that a slow moment hits all alike.
`ratio` is our time over the row's time.  `exact` compares with Python integers on a sample.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np

from benchmarks.common import Row, in_turns, require, run_grid, show
from field.code.distances import decode_nearest, decode_scaled
from field.code.lagrange_code import LagrangeCode, transfer_matrix
from field.code.rows import ClusterSums, CodedRows, coded_rows
from field.kernels.labeling import CenterFilter, label_tiles, tile_rows
from field.ring import pseudo_mersenne
from field.ring.basis import LANE_PRIMES, Basis
from field.ring.quantize import Quantizer
from field.ring.uint128 import UInt128
from field.secrets.coins import SystemCoins
from secfc.coded.plan import CHUNK_RESIDUES
from secfc.kmeans.loop import distances_to_centers, sum_members
from tests.oracles import field as reference

Array = Any

BASIS = Basis(LANE_PRIMES[:2])
MOVED = 0.05
SAMPLE = 32  # columns on which results are compared
MERSENNE_31 = 2**31 - 1
SETTINGS = ((10, 1, 4), (16, 2, 5))
STEPPED = 0.03
STEPS = ((20, 8), (100, 16))
WORKS = ("client", "step", "encode", "decode", "threads")


@dataclass(frozen=True)
class Way:
    """One way to do the work: a call, the part of the cell's elements it handles, and how to judge it."""

    work: Callable[[], Any]
    elements: int
    exact: Callable[[Any], str]
    slow: bool = False


# --- the grid ------------------------------------------------------------------------------------


def cells(works: list[str], ms: list[int], ds: list[int], ks: list[int], ells: list[int]) -> Iterator[Row]:
    """One cell a work and its parameters."""
    for m in ms:
        for d in ds:
            for k in ks:
                for ell in ells if "client" in works else ():
                    yield {"work": "client", "m": m, "d": d, "k": k, "ell": ell}
    for d, k in STEPS if "step" in works else ():
        yield {"work": "step", "m": max(ms), "d": d, "k": k}
    for n, ell, t in SETTINGS if "encode" in works else ():
        yield {"work": "encode", "n": n, "ell": ell, "t": t, "d": 100 if 100 in ds else ds[0]}
    for n, ell, t in SETTINGS if "decode" in works else ():
        for m, k in zip(ms, (ks * len(ms))[: len(ms)], strict=True):
            yield {"work": "decode", "n": n, "ell": ell, "t": t, "m": m, "k": k}
    if "threads" in works:
        yield {"work": "threads", "m": max(ms), "d": 100 if 100 in ds else ds[0], "k": max(ks)}


def measure(cell: Row, budget: float, slow: int) -> Iterator[Row]:
    """The rows of one cell, ours first; slow rivals compute about `slow` products."""
    if cell["work"] == "threads":
        yield from thread_rows(cell, budget)
        return
    ways_of = {"client": client_ways, "step": step_ways, "encode": encode_ways, "decode": decode_ways}[
        cell["work"]
    ]
    elements, ways = ways_of(cell, slow)
    yield from timed(elements, ways, budget)


def timed(elements: int, ways: dict[str, Way], budget: float) -> Iterator[Row]:
    """Rows of ways that handle the same elements, or some of them."""
    verdicts = {name: way.exact(way.work()) for name, way in ways.items()}
    times = in_turns({name: w.work for name, w in ways.items() if not w.slow}, budget)
    times |= in_turns({name: w.work for name, w in ways.items() if w.slow}, budget / 4, least=2)
    ours = None
    for name, way in ways.items():
        factor = elements / way.elements
        cpu, wall = (factor * seconds for seconds in times[name])
        ours = ours or cpu
        yield {
            "who": name,
            "cpu_ms": 1e3 * cpu,
            "wall_ms": 1e3 * wall,
            "rate": elements / cpu / 1e6,
            "ratio": ours / cpu,
            "measured": way.elements,
            "scaled": way.elements != elements,
            "exact": verdicts[name],
        }


def yes(same: bool) -> str:
    """A verdict."""
    return "yes" if same else "NO"


def unjudged(_: Any) -> str:
    """The verdict on a part that has nothing to compare."""
    return ""


@contextmanager
def portable() -> Iterator[None]:
    """The portable kernels for a while."""
    before = os.environ.get("SECFC_KERNELS")
    os.environ["SECFC_KERNELS"] = "portable"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SECFC_KERNELS"]
        else:
            os.environ["SECFC_KERNELS"] = before


# --- the rivals' arithmetic ------------------------------------------------------------------------


def galois_product(matrix: Array, columns: Array) -> Callable[[], Array]:
    """(lanes, r, q) times (lanes, q, N) by galois, operands in its own types beforehand."""
    fields = [reference.galois_field(p) for p in BASIS.primes]
    pairs = [(f(a.astype(np.int64)), f(b.astype(np.int64))) for f, a, b in zip(fields, matrix, columns)]  # noqa: B905
    return lambda: np.stack([np.asarray(a @ b) for a, b in pairs])


def flint_product(matrix: Array, columns: Array, *, convert: bool) -> Callable[[], Any]:
    """The same by python-flint's nmod_mat; convert: from numpy and back, through lists, every time."""
    from flint import nmod_mat

    def load(a: Array, p: int) -> Any:
        return nmod_mat(*a.shape, a.reshape(-1).tolist(), p)

    if not convert:
        pairs = [(load(a, p), load(b, p)) for a, b, p in zip(matrix, columns, BASIS.primes, strict=True)]
        return lambda: [a * b for a, b in pairs]

    def whole() -> list[Array]:
        return [
            flint_array(load(a, p) * load(b, p))
            for a, b, p in zip(matrix, columns, BASIS.primes, strict=True)
        ]

    return whole


def flint_array(matrix: Any) -> Array:
    """A nmod_mat as an integer array."""
    values = np.array([int(x) for x in matrix.entries()], np.int64)
    return values.reshape(matrix.nrows(), matrix.ncols())


def fedml_product(matrix: Array, columns: Array, p: int) -> Array:
    """FedML's LCC formula for one prime: a product of int64 a target point, one remainder at the end."""
    return np.stack([np.mod(np.dot(row, columns), p) for row in matrix])


def object_product(matrix: Array, columns: Array) -> Array:
    """Over Python integers modulo the product of the primes, in one go."""
    return matrix @ columns % BASIS.modulus


def rival_products(matrix: Array, columns: Array, elements: int) -> dict[str, Way]:
    """galois and python-flint on (lanes, r, q) times (lanes, q, N) residues."""
    wanted = reference.matmul(matrix, columns[..., :SAMPLE], BASIS.primes)

    def same(result: Any) -> str:
        arrays = [r if isinstance(r, np.ndarray) else flint_array(r) for r in result]
        return yes((np.stack(arrays)[..., :SAMPLE] == wanted).all())

    return {
        "galois, product only": Way(galois_product(matrix, columns), elements, same, slow=True),
        "python-flint, product only": Way(
            flint_product(matrix, columns, convert=False), elements, same, slow=True
        ),
        "python-flint, with conversions": Way(
            flint_product(matrix, columns, convert=True), elements, same, slow=True
        ),
    }


# --- client ----------------------------------------------------------------------------------------


def random_residues(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Residues of every lane: (lanes, *shape) uint32."""
    return np.stack([rng.integers(0, p, shape, np.uint32) for p in BASIS.primes])


def moving_labels(m: int, k: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Labels of two iterations between which 5 % of the points move."""
    before = rng.integers(0, k, m).astype(np.int32)
    after = before.copy()
    moved = rng.choice(m, max(1, int(MOVED * m)), replace=False)
    after[moved] = (after[moved] + rng.integers(1, k, len(moved)) if k > 1 else after[moved]) % k
    return before, after


class Client:
    """A coded client that goes back and forth between two clusterings."""

    def __init__(self, rows: CodedRows, labels: tuple[Array, Array], k: int) -> None:
        self.rows, self.labels, self.k, self.turn = rows, labels, k, 0
        self.sums: ClusterSums = rows.sum_clusters(labels[0], k)

    def move(self) -> ClusterSums:
        """The center update of one iteration."""
        self.turn ^= 1
        self.sums = self.rows.sum_clusters(self.labels[self.turn], self.k, self.sums)
        return self.sums

    def iterate(self) -> Array:
        """One iteration."""
        return self.rows.measure_distances(self.move())


def client_ways(cell: Row, slow: int) -> tuple[int, dict[str, Way]]:
    """The ways to do a client's iteration; elements are distances."""
    m, k, width = cell["m"], cell["k"], -(-cell["d"] // cell["ell"])
    rng = np.random.default_rng(0)
    values = random_residues((m, width), rng)
    rows = coded_rows(BASIS, m, width)
    rows.add_rows(0, values)
    rows.finish_rows()
    client = Client(rows, moving_labels(m, k, rng), k)
    some = min(m, max(SAMPLE, slow // (k * (width + 2))))
    checked = rng.choice(some, min(SAMPLE, some), replace=False)

    def exact(out: Array) -> str:
        wanted = distances_by_integers(values, client.sums, checked)
        return yes((out[:, :, checked] == wanted).all())

    def by_portable(work: Callable[[], Array]) -> Callable[[], Array]:
        def run() -> Array:
            with portable():
                return work()

        return run

    ways = {"SecFC": Way(client.iterate, m * k, exact)}
    ways |= sklearn_ways(m, cell["d"], k, rng)
    ways |= {
        "SecFC, portable": Way(by_portable(client.iterate), m * k, exact),
        "SecFC, sums only": Way(client.move, m * k, unjudged),
        "SecFC, distances only": Way(lambda: rows.measure_distances(client.sums), m * k, exact),
    }
    ways |= slow_distances(values[:, :some], client, k)
    return m * k, ways


def step_ways(cell: Row, slow: int) -> tuple[int, dict[str, Way]]:
    """The ways to take a step of Lloyd's on plain rows about k points; elements are distances."""
    m, d, k = cell["m"], cell["d"], cell["k"]
    rng = np.random.default_rng(0)
    about = rng.standard_normal((k, d)) * (10 / d) ** 0.5
    points = about[rng.integers(0, k, m)] + rng.standard_normal((m, d))
    rows = np.rint(points * (2**15 - 1) / np.abs(points).max()).astype(np.int64)
    sums, sizes = sum_members(rows, (np.arange(m) % k).astype(np.int32), k), np.bincount(np.arange(m) % k)
    for _ in range(5):  # centers as they are on the way
        labels = distances_to_centers(rows, sums, sizes).nearest(sizes)
        centers, stand = sums, sizes
        sums, sizes = sum_members(rows, labels, k), np.bincount(labels, minlength=k)
    tiles, numbers = tile_rows(rows), np.flatnonzero(stand)
    filtered = CenterFilter.of(
        centers,
        stand[:, None],
        numbers,
        lambda some: distances_to_centers(some, centers, stand).nearest(stand),
    )

    def from_labels(start: Array) -> Way:
        first = sum_members(rows, start, k), np.bincount(start[start >= 0], minlength=k)

        def step() -> tuple[Array, Array, Array]:
            found = start.copy(), first[0].copy(), first[1].copy()
            label_tiles(tiles, filtered, *found)
            return found

        def same(out: tuple[Array, Array, Array]) -> str:
            return yes(all((a == b).all() for a, b in zip(out, (labels, sums, sizes), strict=True)))

        return Way(step, m * k, same)

    before = labels.copy()
    moved = rng.choice(m, max(1, int(STEPPED * m)), replace=False)
    before[moved] = (before[moved] + 1) % k
    ways = {"SecFC": from_labels(before)} | sklearn_ways(m, d, k, rng)
    return m * k, ways | {
        "SecFC, all rows are new": from_labels(np.full(m, -1, np.int32)),
        "SecFC, no row moves": from_labels(labels),
    }


def distances_by_integers(values: Array, sums: ClusterSums, rows: Array) -> Array:
    """The paper's formula over Python integers for some rows: (lanes, k, rows)."""
    out = []
    for lane, p in enumerate(BASIS.primes):
        centers = np.stack(
            [
                values[lane][sums.labels == h].sum(axis=0, dtype=np.int64).astype(object)
                for h in range(len(sums.sizes))
            ]
        )
        x = values[lane][rows].astype(object)
        pairs = zip(centers, sums.sizes.tolist(), strict=True)
        out.append(np.stack([((center - s * x) ** 2).sum(axis=1) % p for center, s in pairs]))
    return np.stack(out)


def sklearn_ways(m: int, d: int, k: int, rng: np.random.Generator) -> dict[str, Way]:
    """scikit-learn's Lloyd iteration on one thread, in both of its float types."""
    points = rng.standard_normal((m, d))
    return {
        "scikit-learn f64": Way(sklearn_iteration(points, k), m * k, lambda _: "floats"),
        "scikit-learn f32": Way(sklearn_iteration(points.astype(np.float32), k), m * k, lambda _: "floats"),
    }


def sklearn_iteration(points: Array, k: int) -> Callable[[], None]:
    """A call that runs one Lloyd iteration of scikit-learn on one thread."""
    from sklearn.cluster._k_means_lloyd import lloyd_iter_chunked_dense
    from threadpoolctl import ThreadpoolController

    m, kind = len(points), points.dtype
    centers = points[:k].copy()
    new, weights = np.zeros_like(centers), np.ones(m, kind)
    in_clusters, labels, shift = np.zeros(k, kind), np.full(m, -1, np.int32), np.zeros(k, kind)
    controller = ThreadpoolController()

    def run() -> None:
        with controller.limit(limits=1, user_api="blas"):
            lloyd_iter_chunked_dense(points, weights, centers, new, in_clusters, labels, shift, 1)

    return run


def slow_distances(values: Array, client: Client, k: int) -> dict[str, Way]:
    """galois, python-flint and object arrays on the first rows."""
    some = values.shape[1]
    sums, sizes = client.sums, client.sums.sizes.astype(object)
    centers = client.rows.residues(sums)
    matrix, columns = [], []
    for lane, p in enumerate(BASIS.primes):
        # ||S||^2 - 2 s S.x + s^2 ||x||^2 as one product.
        s, x = centers[lane].astype(object), values[lane].astype(object)
        square = (s * s).sum(axis=1)[:, None]
        matrix.append(np.hstack([-2 * sizes[:, None] * s, sizes[:, None] ** 2, square]) % p)
        columns.append(np.vstack([x.T, (x * x).sum(axis=1), np.ones(some, object)]) % p)
    ways = rival_products(np.stack(matrix).astype(np.int64), np.stack(columns).astype(np.int64), some * k)
    x, s = reference.lift(values, BASIS.primes), reference.lift(centers, BASIS.primes)

    def formula() -> Array:
        return np.stack([((s[h] - sizes[h] * x) ** 2).sum(axis=1) % BASIS.modulus for h in range(k)])

    def same(out: Array) -> str:
        part = np.arange(min(SAMPLE, some))
        wanted = distances_of(values[:, part], centers, sizes)
        return yes(all((out[:, part] % p == w).all() for p, w in zip(BASIS.primes, wanted, strict=True)))

    return ways | {"object arrays": Way(formula, some * k, same, slow=True)}


def distances_of(values: Array, centers: Array, sizes: Array) -> list[Array]:
    """The paper's formula over Python integers, from known sums."""
    return [
        np.stack(
            [((c - s * x) ** 2).sum(axis=1) % p for c, s in zip(lane.astype(object), sizes, strict=True)]
        )
        for x, lane, p in zip(values.astype(object), centers, BASIS.primes, strict=True)
    ]


# --- encode ----------------------------------------------------------------------------------------


def encode_ways(cell: Row, slow: int) -> tuple[int, dict[str, Way]]:
    """The ways to share one chunk of rows; elements are numbers of the data."""
    code = LagrangeCode(BASIS, cell["n"], cell["ell"], cell["t"])
    d, width = cell["d"], code.width(cell["d"])
    rows = cell.get("rows") or CHUNK_RESIDUES // width
    rng = np.random.default_rng(0)
    coins = SystemCoins()
    floats = rng.uniform(-1, 1, (rows, d))
    quantizer = Quantizer(2.0**12, 1.0)
    points = BASIS.reduce(quantizer(floats))
    blocks = random_residues((code.ell + code.t, rows * width), rng)
    matrix = transfer_matrix(BASIS, code.betas, code.alphas)
    noise = np.empty((BASIS.lanes, code.t, rows * width), np.uint32)
    shares = code.share(points, coins)
    stores = [coded_rows(BASIS, rows, width) for _ in range(code.n)]

    def opened(out: list[Array]) -> str:
        last = range(code.n - code.threshold(1), code.n)
        both = (code.interpolate({j: out[j] for j in who}, 1) for who in (range(code.threshold(1)), last))
        whole = (np.concatenate(list(v.swapaxes(0, 1)), axis=-1)[..., :d] for v in both)
        return yes(all((v == points).all() for v in whole))

    def product_exact(out: Array) -> str:
        wanted = reference.matmul(matrix, blocks[..., :SAMPLE], BASIS.primes)
        return yes((out[..., :SAMPLE] == wanted).all())

    def fill() -> None:
        for p, lane in zip(BASIS.primes, noise, strict=True):
            coins.fill_residues(p, lane)

    def store() -> None:
        for target, share in zip(stores, shares, strict=True):
            target.add_rows(0, share)

    elements = rows * d
    ways = {
        "SecFC": Way(lambda: code.share(points, coins), elements, opened),
        "SecFC, product only": Way(lambda: BASIS.matmul(matrix, blocks), elements, product_exact),
        "SecFC, noise only": Way(fill, elements, lambda _: yes(all_below(noise))),
        "SecFC, quantize and reduce": Way(
            lambda: BASIS.reduce(quantizer(floats)), elements, lambda out: yes((out == points).all())
        ),
        "SecFC, n recipients store": Way(store, elements, unjudged),
    }
    some = min(rows * width, slow // (code.n * (code.ell + code.t)))
    part = some * code.ell
    small = blocks[..., :some]
    ways |= fedml_encoders(matrix, blocks, code, elements)
    ways |= rival_products(matrix, small, part)
    joint = reference.lift(matrix, BASIS.primes), reference.lift(small, BASIS.primes)
    wanted = reference.matmul(matrix, small[..., :SAMPLE], BASIS.primes)

    def same(out: Array) -> str:
        lanes = zip(BASIS.primes, wanted, strict=True)
        return yes(all((out[:, :SAMPLE] % p == w).all() for p, w in lanes))

    return elements, ways | {"object arrays": Way(lambda: object_product(*joint), part, same, slow=True)}


def all_below(noise: Array) -> bool:
    """Whether residues are canonical."""
    return all(int(lane.max(initial=0)) < p for lane, p in zip(noise, BASIS.primes, strict=True))


def fedml_encoders(matrix: Array, blocks: Array, code: LagrangeCode, elements: int) -> dict[str, Way]:
    """FedML's formula over our two primes, and over LightSecAgg's default prime, numpy's noise included."""
    wide, narrow = matrix.astype(np.int64), blocks.astype(np.int64)
    mersenne = Basis((MERSENNE_31,))
    single = transfer_matrix(mersenne, code.betas, code.alphas).astype(np.int64)
    rng = np.random.default_rng(0)
    one = rng.integers(0, MERSENNE_31, blocks.shape[1:])

    def noisy(p: int, columns: Array, weights: Array) -> Array:
        columns[code.ell :] = rng.integers(0, p, columns[code.ell :].shape)
        return fedml_product(weights, columns, p)

    def two() -> list[Array]:
        return [noisy(p, c, w) for p, c, w in zip(BASIS.primes, narrow, wide, strict=True)]

    return {
        "FedML's formula, two 30-bit primes": Way(
            two, elements, lambda out: wrong(out, wide, narrow, BASIS.primes)
        ),
        "FedML's formula, 2**31 - 1 alone": Way(
            lambda: [noisy(MERSENNE_31, one, single)],
            elements,
            lambda out: wrong(out, single[None], one[None], (MERSENNE_31,)),
        ),
    }


def wrong(out: list[Array], matrix: Array, columns: Array, primes: tuple[int, ...]) -> str:
    """The verdict on the first columns, and on whether int64 could have overflowed."""
    some = 50 * SAMPLE
    wanted = reference.matmul(matrix, columns[..., :some], primes)
    share = float(np.mean(np.stack(out)[..., :some] != wanted))
    if share:
        return f"NO ({100 * share:.1f} % wrong)"
    safe = matrix.shape[2] * (max(primes) - 1) ** 2 < 2**63
    return "yes" if safe else "by luck, may overflow"


# --- decode ----------------------------------------------------------------------------------------


def decode_ways(cell: Row, slow: int) -> tuple[int, dict[str, Way]]:
    """The ways to decode m k distances from R replies; elements are distances."""
    code = LagrangeCode(BASIS, cell["n"], cell["ell"], cell["t"])
    m, k, needed = cell["m"], cell["k"], code.threshold(2)
    rng = np.random.default_rng(0)
    replies = {j: random_residues((k, m), rng) for j in range(needed)}
    labels = rng.integers(0, k, m).astype(np.int32)
    sizes = np.bincount(labels, minlength=k).astype(np.int64)
    _, weights = code.decoding_weights(tuple(range(needed)), 2)
    some = min(m * k, max(SAMPLE, slow // needed))
    columns = np.stack([r.reshape(BASIS.lanes, -1) for r in replies.values()], axis=1)
    small = columns[..., :some]
    matrix = weights[:, None, :]
    wanted = reference.matmul(matrix, small[..., :SAMPLE], BASIS.primes)
    integers = reference.lift(wanted, BASIS.primes)[0]

    def lifted(out: Any) -> str:
        return yes((out.low.reshape(-1)[: len(integers)] == integers).all() and not out.high.any())

    def nearest(out: Any) -> str:
        scaled = decode_scaled(code, replies)
        first = UInt128(scaled.high[:, :SAMPLE], scaled.low[:, :SAMPLE]).integers()
        same = out[0][:SAMPLE].tolist() == reference.nearest(first, sizes.tolist())
        return yes(same and (out[0] == scaled.nearest(sizes)).all() and out[1] == scaled.within(labels))

    elements = m * k
    ways = {
        "SecFC": Way(lambda: decode_scaled(code, replies), elements, lifted),
        "SecFC, decode and nearest": Way(
            lambda: decode_nearest(code, replies, sizes, labels), elements, nearest
        ),
    }
    wide, narrow = matrix.astype(np.int64), columns.astype(np.int64)

    def fedml() -> list[Array]:
        return [fedml_product(w, c, p) for w, c, p in zip(wide, narrow, BASIS.primes, strict=True)]

    ways["FedML's formula, no CRT"] = Way(fedml, elements, lambda out: wrong(out, wide, narrow, BASIS.primes))
    ways |= rival_products(matrix, small, some)
    joint = reference.lift(matrix, BASIS.primes), reference.lift(small, BASIS.primes)
    ways["object arrays"] = Way(
        lambda: object_product(*joint),
        some,
        lambda out: yes((out[0, : len(integers)] == integers).all()),
        slow=True,
    )
    return elements, ways


# --- threads ---------------------------------------------------------------------------------------


def thread_rows(cell: Row, budget: float) -> Iterator[Row]:
    """Distances and decoding on 1 and 2 threads, in turns."""
    m, d, k = cell["m"], cell["d"], cell["k"]
    rng = np.random.default_rng(0)
    rows = coded_rows(BASIS, m, d)
    rows.add_rows(0, random_residues((m, d), rng))
    rows.finish_rows()
    client = Client(rows, moving_labels(m, k, rng), k)
    code = LagrangeCode(BASIS, 16, 2, 5)
    replies = {j: random_residues((k, m), rng) for j in range(code.threshold(2))}
    labels = client.labels[0]
    sizes = np.bincount(labels, minlength=k).astype(np.int64)
    threads = [1, 2] if (os.cpu_count() or 1) > 1 else [1]

    def on(count: int, work: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            rows.threads = count
            return work()

        return run

    works = {}
    for count in threads:
        works["client iteration", count] = on(count, client.iterate)
        works["distances", count] = on(count, lambda: rows.measure_distances(client.sums))
        works["decode and nearest", count] = on(
            count, lambda count=count: decode_nearest(code, replies, sizes, labels, threads=count)
        )
    first: dict[str, Array] = {}
    same = {}
    for key, run in works.items():
        client.turn = 0  # every iteration is compared on the same clustering
        result = np.array(run()[0])
        same[key] = yes((result == first.setdefault(key[0], result)).all())
    times = in_turns(works, budget)
    for (work, count), (cpu, wall) in times.items():
        yield {
            "who": work,
            "threads": count,
            "cpu_ms": 1e3 * cpu,
            "wall_ms": 1e3 * wall,
            "speedup": times[work, 1][1] / wall,
            "exact": same[work, count],
        }


# --- tables ----------------------------------------------------------------------------------------


def line(row: Row) -> list[str]:
    """One line of a table of ways."""
    mark = "~" if row["scaled"] else ""
    ratio = row["ratio"]
    return [
        row["who"],
        f"{mark}{row['cpu_ms']:.3g}",
        f"{mark}{row['wall_ms']:.3g}",
        f"{row['rate']:.3g}",
        f"{ratio:.2f}" if ratio >= 0.1 else f"1/{1 / ratio:.0f}",
        row["exact"],
    ]


def named(cell: Row) -> str:
    """The parameters of a cell."""
    return ", ".join(f"{key}={value}" for key, value in cell.items() if key != "work")


def targets(rows: list[Row]) -> Iterator[list[str]]:
    """Target, measured over the cells it speaks of, and whether it is met in every one."""

    def client(d: Callable[[int], bool], ell: int) -> list[Row]:
        wanted = [r["cell"] for r in rows if r["who"] == "SecFC" and r["cell"]["work"] == "client"]
        wanted = [c for c in wanted if d(c["d"]) and c["ell"] == ell]
        return [r for r in rows if r["cell"] in wanted and r["who"] == "scikit-learn f64"]

    groups = [
        ("client / scikit-learn f64, d >= 100, ell=1", "<= 1.25", 1.25, client(lambda d: d >= 100, 1)),
        ("client / scikit-learn f64, d >= 100, ell=2", "<= 0.65", 0.65, client(lambda d: d >= 100, 2)),
        ("client / scikit-learn f64, d = 20, ell=1", "<= 1.5", 1.5, client(lambda d: d == 20, 1)),
    ]
    for name, target, limit, members in groups:
        for r in members:
            met = "yes" if r["ratio"] <= limit else "NO"
            yield [name, f"m={r['cell']['m']}, d={r['cell']['d']}, k={r['cell']['k']}", target,
                   f"{r['ratio']:.2f}", met]  # fmt: skip
    for r in rows:
        cell = r["cell"]
        if r["who"] == "scikit-learn f32" and cell["work"] == "step":
            yield ["scikit-learn f32 / step, 3 % moved", named(cell), ">= 1.3", f"{1 / r['ratio']:.2f}",
                   "yes" if r["ratio"] <= 1 / 1.3 else "NO"]  # fmt: skip
        if r["who"] == "SecFC" and cell["work"] == "encode":
            least = 55 if cell["ell"] == 1 else 75
            yield ["encode with noise, M elements/s", named(cell), f">= {least}", f"{r['rate']:.0f}",
                   "yes" if r["rate"] >= least else "NO"]  # fmt: skip
        if r["who"] == "SecFC" and cell["work"] == "decode" and cell["ell"] == 2:
            yield ["decode + CRT from 13 replies, M distances/s", named(cell), ">= 100", f"{r['rate']:.0f}",
                   "yes" if r["rate"] >= 100 else "NO"]  # fmt: skip
        if cell["work"] == "threads" and r["threads"] == 2:
            yield [f"{r['who']}, 2 threads", named(cell), ">= 1.7", f"{r['speedup']:.2f}",
                   "yes" if r["speedup"] >= 1.7 else "NO"]  # fmt: skip


def print_tables(rows: list[Row]) -> None:
    """A table a cell, then the targets."""
    columns = ["who", "cpu ms", "wall ms", "M/s/core", "ours / it", "exact"]
    for cell in {str(r["cell"]): r["cell"] for r in rows}.values():
        members = [r for r in rows if r["cell"] == cell]
        title = f"{cell['work']}: {named(cell)}"
        if cell["work"] == "threads":
            parts = ["who", "threads", "wall_ms", "cpu_ms", "speedup", "exact"]
            show(title, parts, [[rounded(r[c]) for c in parts] for r in members])
        else:
            show(title, columns, map(line, members))
    show("Targets", ["target", "cell", "wanted", "measured", "met"], targets(rows))


def rounded(value: Any) -> str:
    """A number in three digits, anything else as it is."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


@click.command(help=__doc__.split("\n")[0])
@click.option("--work", "works", type=click.Choice(WORKS), multiple=True, help="Only this work.")
@click.option(
    "--m", "ms", type=click.IntRange(48), multiple=True, default=(1000, 16384, 100_000), show_default=True
)
@click.option("--d", "ds", type=click.IntRange(1), multiple=True, default=(20, 100, 784), show_default=True)
@click.option("--k", "ks", type=click.IntRange(2), multiple=True, default=(4, 16), show_default=True)
@click.option("--ell", "ells", type=click.IntRange(1), multiple=True, default=(1, 2), show_default=True)
@click.option("--budget", default=1.0, show_default=True, help="Seconds of measuring a cell, about.")
@click.option("--slow", default=100_000, show_default=True, help="Products that a slow rival computes.")
@click.option("--quick", is_flag=True, help="The smallest cell of every work.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Append rows to this file.")
def main(
    works: tuple[str, ...],
    ms: tuple[int, ...],
    ds: tuple[int, ...],
    ks: tuple[int, ...],
    ells: tuple[int, ...],
    budget: float,
    slow: int,
    quick: bool,
    out: Path | None,
) -> None:
    """Run the grid; print a table a cell and the targets."""
    if not works or {"encode", "decode"} & set(works):
        require("flint", "python-flint", "bench")
    if quick:
        ms, ds, ks, ells, budget, slow = (480,), (20,), (4,), (1,), 0.02, 5000
    todo = list(cells(list(works or WORKS), list(ms), list(ds), list(ks), list(ells)))
    rows = []
    with click.progressbar(todo, label="kernels") as bar:
        for row in run_grid(bar, lambda cell: measure(cell, budget, slow), out):
            rows.append(row)
    path = "register-blocked" if pseudo_mersenne.vectorized() else "portable"
    click.echo(f"kernels: {path}; ~ measured on fewer rows and scaled per element")
    print_tables(rows)


if __name__ == "__main__":
    main()
