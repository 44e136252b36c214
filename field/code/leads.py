"""By how much the centers of other clusters are nearer to a point than that of its own.

Of a point in cluster a, and for each other cluster h of those with points, in their order,

    v D_a - u D_h + [h < a],   u = (s_a / g)**2,   v = (s_h / g)**2,   g = gcd(s_a, s_h),

which is above 0 exactly where h wins: it is strictly nearer, or as near and the lower index.  D_h is the
scaled distance, so neither term exceeds the distances to a cluster of lcm(s_a, s_h) points, and one is less
than the largest of these.  Linear in distances, so a share of these gives one of it; labels and sizes are
public.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from field.ring.basis import Basis

Array = NDArray[Any]


def leads(basis: Basis, distances: Array, own: Array, sizes: Array, ell: int) -> Array:
    """A share of these numbers (lanes, K - 1, m) of shares of distances (lanes, K, m), canonical residues.

    own: (m,) the number of each point's cluster among the K, of these sizes, all positive.  ell: how many
    points of the code a value is the sum over, so each has its part of a constant.
    """
    from field.kernels import comparing

    count = len(sizes)
    weights = [[_weights(a, h) for h in sizes.tolist()] for a in sizes.tolist()]
    near, far = np.array(weights, object).transpose(2, 0, 1)
    out = np.empty((basis.lanes, count - 1, distances.shape[2]), basis.dtype)
    alike = len(set(sizes.tolist())) == 1
    for lane, p in enumerate(basis.primes):
        values, one = np.ascontiguousarray(distances[lane]), np.uint64(pow(ell, -1, p))
        if alike:
            comparing.leads_alike(values, own, one, np.uint64(p), out[lane])
        else:
            u, v = ((part % p).astype(np.uint64) for part in (near, far))
            comparing.leads(values, own, u, v, one, np.uint64(p), out[lane])
    return out


def _weights(own: int, other: int) -> tuple[int, int]:
    common = math.gcd(own, other)
    return (own // common) ** 2, (other // common) ** 2
