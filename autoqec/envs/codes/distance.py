"""Search for light codewords and logical operators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes import gf2

U8 = npt.NDArray[np.uint8]


def light_word(words: U8, observables: U8, *, trials: int | None, seed: int) -> int:
    """Lightest sum of rows of `words`, [r, n], that flips an observable, by random information sets.

    Each trial brings `words` into reduced form on a random column order, where low-weight words tend to be
    rows or sums of two rows (Pryadko, Shabashov, Kozin, J. Open Source Softw. 7, 4120 (2022); Lee and
    Brickell).
    """
    rng = np.random.default_rng(seed)
    n = int(words.shape[1])
    packed = gf2.pack_rows(words)
    # Whether a word flips observables is linear: carry it along as extra columns that are never pivots.
    flips = gf2.pack_rows(gf2.product(words, observables.T))
    rows = np.concatenate([packed, flips], axis=1)
    width = packed.shape[1]
    best = n
    for _ in range(max(4, min(100, 40_000 // n)) if trials is None else trials):
        gf2.eliminate(rows, (int(c) for c in rng.permutation(n)))
        best = _lightest(rows, width, best)
        for i in range(rows.shape[0] - 1) if rows.shape[0] <= 400 else ():
            best = _lightest(rows[i + 1 :] ^ rows[i], width, best)
    return best


def bits_in_light_words(words: U8, weight: int, *, seed: int = 0) -> npt.NDArray[np.bool_]:
    """[n] which bits are in a sum of rows of `words`, [r, n], of at most this weight, as far as random information sets find them."""
    rng = np.random.default_rng(seed)
    n = int(words.shape[1])
    rows, found = gf2.pack_rows(words), np.zeros(n, dtype=np.bool_)
    for _ in range(max(4, min(200, 80_000 // n))):
        gf2.eliminate(rows, (int(c) for c in rng.permutation(n)))
        light = rows[np.bitwise_count(rows).sum(axis=1, dtype=np.int64) <= weight]
        if len(light):
            found |= gf2.unpack_rows(light, n).any(axis=0)
        if found.all():
            break
    return found


def _lightest(rows: gf2.U64, width: int, best: int) -> int:
    weights = np.bitwise_count(rows[:, :width]).sum(axis=1, dtype=np.int64)
    weights = weights[rows[:, width:].any(axis=1)]
    return int(weights.min(initial=best))
