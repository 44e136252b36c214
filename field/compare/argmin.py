"""Which comparisons of secret distances decide the label of a point, and the modulus that decides them.

A comparison of rows a and b is the bit [u D_b < v D_a] with public weights: u = (s_a / g)**2 and
v = (s_b / g)**2 compare D_a / s_a**2 with D_b / s_b**2 exactly, g = gcd(s_a, s_b).  As x = u D_b - v D_a and
|x| < P / 2, the bit is the last one of 2 x mod P: P is odd, and 2 x wraps around once exactly when x < 0.
An outcome h wins a point when all of its literals, comparisons or their negations, hold.

Everything here is public: cluster sizes and what follows from them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, permutations
from typing import Any

import numpy as np

from field.arrays import Array
from field.cached import cached_property
from field.ring.basis import lanes_for
from field.ring.errors import InvalidValue
from field.ring.quantize import distance_bound


@dataclass(frozen=True, eq=False)
class ArgminContest:
    """Comparisons, and the outcomes they decide.

    sizes: (k,) points of each cluster, all positive: row h of the distances belongs to cluster h.
    comparisons: (a, b, u, v) each, the bit [u D_b < v D_a] of rows a and b.
    literals, wanted: (outcomes, f): outcome h, mostly cluster h, wins where all comparisons literals[h] equal
    wanted[h].  At most one outcome wins a point.  labels: (codes,) what each code means; outcome h has code
    h + first.
    shift: what was added to rows at most, in absolute value.  known: further rows, behind those that are
    secret, that are the same for all points.
    """

    sizes: tuple[int, ...]
    comparisons: tuple[tuple[int, int, int, int], ...]
    literals: Array
    wanted: Array
    labels: Array
    first: int = 0
    shift: int = 0
    known: tuple[int, ...] = ()

    @classmethod
    def nearest(cls, clusters: Array) -> ArgminContest:
        """The least D_h / s_h**2 among clusters, of these sizes, that are not empty.

        Ties go to the lowest index.
        """
        alive, sizes = _alive(clusters)
        pairs = [(a, b) for a in range(len(sizes)) for b in range(a + 1, len(sizes))]
        number = {pair: q for q, pair in enumerate(pairs)}
        literals = [
            [number[min(h, x), max(h, x)] for x in range(len(sizes)) if x != h] for h in range(len(sizes))
        ]
        # The bit of a < b says that b is strictly nearer, so the lower index keeps a tie.
        wanted = [[x < h for x in range(len(sizes)) if x != h] for h in range(len(sizes))]
        return cls(
            sizes, tuple((a, b, *_weights(sizes, a, b)) for a, b in pairs),
            _table(literals, np.int64), _table(wanted, np.bool_), alive,
        )  # fmt: skip

    @classmethod
    def separated(cls, clusters: Array, factor: int) -> ArgminContest:
        """The h with factor * D_h / s_h**2 <= D_x / s_x**2 for every other x, or -1 if there is none.

        Two such h are both at distance 0; then the lower wins: a further comparison with each lower index.
        """
        alive, sizes = _alive(clusters)
        ordered, plain = list(permutations(range(len(sizes)), 2)), list(combinations(range(len(sizes)), 2))
        scaled = [(h, x, *_weights(sizes, h, x)) for h, x in ordered]
        comparisons = [(h, x, u, factor * v) for h, x, u, v in scaled]
        comparisons += [(a, b, *_weights(sizes, a, b)) for a, b in plain]
        number = {pair: q for q, pair in enumerate(ordered)}
        strict = {pair: len(ordered) + q for q, pair in enumerate(plain)}
        literals, wanted = [], []
        for h in range(len(sizes)):
            rivals = [x for x in range(len(sizes)) if x != h]
            row = [number[h, x] for x in rivals] + [strict[x, h] for x in rivals if x < h]
            # A repeated literal changes nothing and gives all outcomes the same number.
            row += [row[0]] * (2 * len(rivals) - len(row)) if row else []
            literals.append(row)
            wanted.append([q >= len(ordered) for q in row])
        return cls(
            sizes, tuple(comparisons), _table(literals, np.int64), _table(wanted, np.bool_),
            np.concatenate([np.array([-1], np.int32), alive]), first=1,
        )  # fmt: skip

    @classmethod
    def sign(cls, size: int) -> ArgminContest:
        """Sign of one row D, a difference of distances to clusters of `size` points: [D > 0]."""
        # The bit [0 < D] of a single row.
        return cls(
            (size, size), ((0, 0, 0, 1),), np.zeros((2, 1), np.int64), np.array([[False], [True]]),
            np.arange(2, dtype=np.int32),
        )  # fmt: skip

    @classmethod
    def unbeaten(cls, clusters: Array) -> ArgminContest:
        """Whether no other center is nearer to a point than that of its own cluster: 1 if so, else 0.

        A row for each other cluster of these sizes that is not empty, in their order, as
        `field.code.distances` has them: above 0 if that center wins.
        """
        _, sizes = _alive(clusters)
        others = len(sizes) - 1
        widest = max(math.lcm(a, b) for a in sizes for b in sizes)
        return cls(
            (widest,) * others, tuple((q, q, 0, 1) for q in range(others)), np.arange(others)[None],
            np.zeros((1, others), np.bool_), np.arange(2, dtype=np.int32), first=1, shift=1,
        )  # fmt: skip

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 1:
            raise ValueError(
                f"sizes={self.sizes}: only clusters with points can win, so leave out the others"
            )

    @property
    def outcomes(self) -> int:
        return len(self.literals)

    @property
    def places(self) -> int:
        """Binary digits of a code."""
        return max(1, (len(self.labels) - 1).bit_length())

    @cached_property
    def pairs(self) -> Array:
        """(comparisons, 2) rows (b, a)."""
        return np.array([(b, a) for a, b, _, _ in self.comparisons], np.int64).reshape(-1, 2)

    def weights(self, primes: tuple[int, ...]) -> Array:
        """(comparisons, 2, lanes) residues of 2 u and -2 v."""
        table = [
            [[2 * u % p for p in primes], [-2 * v % p for p in primes]] for _, _, u, v in self.comparisons
        ]
        return np.array(table, np.uint64).reshape(-1, 2, len(primes))

    def needed(self, d: int, max_int: int) -> int:
        """What the modulus must exceed: twice the largest |u D_b - v D_a|, shifted, of d features up to
        max_int."""
        bounds = [distance_bound(d, max_int, size) for size in self.sizes]
        largest = max((max(u * bounds[b], v * bounds[a]) for a, b, u, v in self.comparisons), default=0)
        return 2 * (largest + self.shift)

    def lanes(self, primes: tuple[int, ...], d: int, max_int: int) -> int:
        """The fewest of these primes, in order, that decide every comparison.

        Raises ValueError if all of them are too few.
        """
        needed = self.needed(d, max_int)
        if math.prod(primes) <= needed:
            raise InvalidValue(
                f"comparing distances to clusters of {self.sizes} points takes a modulus above "
                f"2**{needed.bit_length()}, the {len(primes)} lanes hold less than "
                f"2**{math.prod(primes).bit_length()}: lower the scale, or add a lane"
            )
        return lanes_for(needed, primes)


def _alive(sizes: Array) -> tuple[Array, tuple[int, ...]]:
    alive = np.flatnonzero(np.asarray(sizes) > 0).astype(np.int32)
    return alive, tuple(int(sizes[h]) for h in alive)


def _weights(sizes: tuple[int, ...], a: int, b: int) -> tuple[int, int]:
    common = math.gcd(sizes[a], sizes[b])
    return (sizes[a] // common) ** 2, (sizes[b] // common) ** 2


def _table(rows: list[list[Any]], dtype: Any) -> Array:
    return np.array(rows, dtype).reshape(len(rows), -1)


# --------------------------------------------------------------------------------------------------
# How the digits of a compared number meet in a tree, three bits each: which is the first that differs.

# How the digits of 30, 60, 90 or 120 bits meet in a tree: the arities of each level.  A comparison takes 110,
# 205, 327 or 449 bits of tables, and opens 25, 58, 84 or 112.  Digits of four bits that meet one level
# earlier take 158, 311, 575 and 830, and open 19, 37, 55 and 71: more to deal, and to expand for all.
TREES = {
    1: ((4, 3, 3), (3,)),
    2: ((3,) * 6 + (2,), (3, 2, 2), (3,)),
    3: ((3,) * 10, (4, 3, 3), (3,)),
    4: ((3,) * 12 + (4,), (4, 3, 3, 3), (4,)),
}


@dataclass(frozen=True, eq=False)
class TreeLevel:
    """Nodes of one level of the tree: nodes (n', 2) arity and first input; rows of its table, inputs n."""

    nodes: Array
    inputs: int
    rows: int

    @property
    def opened(self) -> int:
        """Bits a comparison that enter: equality of all inputs but the last, excess of all."""
        return 2 * self.inputs - 1


@lru_cache(maxsize=8)
def tree_levels(lanes: int) -> tuple[TreeLevel, ...]:
    """The tree over the digits of that many lanes."""
    out = []
    for arities in TREES[lanes]:
        firsts = np.cumsum([0, *arities[:-1]])
        rows = 2 * sum(2**a - 1 - a for a in arities)
        # The last node multiplies no equality by its last input.
        rows -= 2 ** (arities[-1] - 1) - 1
        out.append(TreeLevel(np.array([arities, firsts], np.int64).T.copy(), sum(arities), rows))
    return tuple(out)
