"""The streaming pass of `field.projections`: sums of words under a matrix of 0, 1 and -1, a block at a time.

Every word is read once for four rows of the matrix.  A word is below 2**31, or an integer of which N fit in
64 bits, so a sum of N <= 4096 of them stays below 2**63 in any order.  Trusts its arrays; the twin in
`field.reference` is slow and obviously right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from field.compiling import compiled


@compiled()
def project(words: Any, signs: Any, out: Any) -> None:
    """out[b, r] = sum_i signs[r, i] words[b N + i]: flat int32 or int64 words, signs int32 (rows, N).

    out int64 (blocks, rows), rows a multiple of four.  The last block may be short.
    """
    rows, size = signs.shape
    for b in range(out.shape[0]):
        first = b * size
        count = min(size, words.size - first)
        block = words[first : first + count]
        for r in range(0, rows, 4):
            one, two, three, four = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            for i in range(count):
                word = np.int64(block[i])
                one += word * np.int64(signs[r, i])
                two += word * np.int64(signs[r + 1, i])
                three += word * np.int64(signs[r + 2, i])
                four += word * np.int64(signs[r + 3, i])
            out[b, r], out[b, r + 1], out[b, r + 2], out[b, r + 3] = one, two, three, four


@compiled()
def project_wide(words: Any, signs: Any, p: Any, out: Any) -> None:
    """The same of canonical uint64 residues modulo p < 2**62, canonical: sums of two stay below 2**63."""
    rows, size = signs.shape
    for b in range(out.shape[0]):
        first = b * size
        count = min(size, words.size - first)
        for r in range(rows):
            total = np.uint64(0)
            for i in range(count):
                if signs[r, i] == 0:
                    continue
                word = words[first + i]
                total += word if signs[r, i] > 0 else p - word
                if total >= p:
                    total -= p
            out[b, r] = total
