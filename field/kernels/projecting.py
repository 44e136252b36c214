"""The streaming pass of `field.code.projections`: sums of words under a matrix of 0, 1 and -1, a block at a
time.

Every word is read once for four rows of the matrix.  A word is below 2**31, or an integer of which N fit in
64 bits, so a sum of N <= 4096 of them stays below 2**63 in any order.  Trusts its arrays; the twin in
`tests.oracles.field` is slow and obviously right.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from field.kernels.compiling import compiled


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
def project_blocks(words: Any, firsts: Any, counts: Any, signs: Any, p: Any, out: Any) -> None:
    """The same of int32 residues modulo p, block b being counts[b] words from firsts[b] on.

    out (blocks, rows), canonical.  Three blocks are read together, so that a sign is widened once for them.
    """
    rows, size = signs.shape
    blocks = len(firsts)
    x, y, z = np.zeros(size, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32)
    for b in range(0, blocks, 3):
        # The last block is read again where there are no three.
        b0, b1, b2 = b, min(b + 1, blocks - 1), min(b + 2, blocks - 1)
        common = max(counts[b0], counts[b1], counts[b2])
        for block, to in ((b0, x), (b1, y), (b2, z)):
            count = counts[block]
            to[:count] = words[firsts[block] : firsts[block] + count]
            to[count:common] = 0
        for r in range(0, rows, 4):
            x0, x1, x2, x3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            y0, y1, y2, y3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            z0, z1, z2, z3 = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
            for i in range(common):
                xi, yi, zi = np.int64(x[i]), np.int64(y[i]), np.int64(z[i])
                s0, s1 = np.int64(signs[r, i]), np.int64(signs[r + 1, i])
                s2, s3 = np.int64(signs[r + 2, i]), np.int64(signs[r + 3, i])
                x0 += xi * s0
                x1 += xi * s1
                x2 += xi * s2
                x3 += xi * s3
                y0 += yi * s0
                y1 += yi * s1
                y2 += yi * s2
                y3 += yi * s3
                z0 += zi * s0
                z1 += zi * s1
                z2 += zi * s2
                z3 += zi * s3
            out[b0, r], out[b0, r + 1], out[b0, r + 2], out[b0, r + 3] = x0 % p, x1 % p, x2 % p, x3 % p
            out[b1, r], out[b1, r + 1], out[b1, r + 2], out[b1, r + 3] = y0 % p, y1 % p, y2 % p, y3 % p
            out[b2, r], out[b2, r + 1], out[b2, r + 2], out[b2, r + 3] = z0 % p, z1 % p, z2 % p, z3 % p


@compiled()
def add_masks(masks: Any, numbers: Any, used: Any, p: Any, sums: Any) -> None:
    """Add to sums (blocks, rows) the used (blocks, words) words of masks (count, words), in their order.

    All canonical residues modulo p, below 2**62; used has at most `rows` words of a block.
    """
    for b in range(len(numbers)):
        r = 0
        for word in range(used.shape[1]):
            if used[b, word]:
                total = np.uint64(sums[b, r]) + np.uint64(masks[numbers[b], word])
                sums[b, r] = total - p if total >= p else total
                r += 1


@compiled()
def serving(sums: Any, mask: Any, most: Any, spare: Any, places: Any) -> bool:
    """Whether words of a mask (words, ell) hide sums (rows, ell), at most `spare` of them skipped.

    places (rows,) is filled with those that do, ascending.  A sum and a mask add up to less than 2**62.
    """
    skipped = 0
    for r in range(sums.shape[0]):
        while True:
            inside = True
            for segment in range(sums.shape[1]):
                inside &= abs(sums[r, segment] + mask[r + skipped, segment]) <= most
            if inside:
                break
            skipped += 1
            if skipped > spare:
                return False
        places[r] = r + skipped
    return True


@compiled()
def read_tiles(tiles: Any, begin: Any, p: Any, out: Any) -> None:
    """Rows from `begin` on of int32 tiles (tiles, features + 1, slots), centered, into canonical ones."""
    slots = tiles.shape[2]
    for i in range(out.shape[0]):
        tile, slot = (begin + i) // slots, (begin + i) % slots
        for j in range(out.shape[1]):
            value = np.int64(tiles[tile, j, slot])
            out[i, j] = value + p if value < 0 else value


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
