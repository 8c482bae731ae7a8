"""The leakage process as a compiled kernel. Few qubits of a shot leak: it goes from leak to leak, and follows each until it is gone."""

from __future__ import annotations

import numpy as np
from numba import njit

from autoqec.envs.noise.leakage_process import GATE, RESET


@njit
def _flip(shot, start, flips, row):  # type: ignore[no-untyped-def]
    for k in range(start[row], start[row + 1]):
        shot[flips[k] >> 3] ^= np.uint8(1 << (flips[k] & 7))


@njit
def _next_leak(at, leak, rng):  # type: ignore[no-untyped-def]
    """The first side after `at` that leaks, by a geometric number of sides that do not. Beyond 2**62 there is none."""
    if leak <= 0.0:
        return 2**62
    if leak >= 1.0:
        return at + 1
    skipped = np.log1p(-rng.random()) / np.log1p(-leak)
    return at + 1 + int(skipped) if skipped < 2.0**61 else 2**62


@njit(cache=True, nogil=True)
def run_process(shots, n_qubits, process, leak, seep, spread, rng):  # type: ignore[no-untyped-def]
    """Adds the flips of leakage to packed `shots` [shot, byte], in place. leak, seep, spread: probabilities at each gate."""
    kind, first, second, place, gates, start, flips = process
    sides = 2 * len(gates)  # two qubits of each gate can leak
    if sides == 0:
        return
    leaked = np.zeros(n_qubits, np.uint8)
    births = np.zeros(2, np.uint8)
    birth = _next_leak(-1, leak, rng)
    while birth < len(shots) * sides:
        number = birth // sides
        shot = shots[number]
        leaked[:] = 0
        count = 0
        k = 0
        while True:
            here = birth - number * sides  # of the next leak in this shot; at least `sides` if there is none
            if count == 0:
                if here >= sides:
                    break
                k = gates[here >> 1]
            elif k >= len(kind):
                break
            a = first[k]
            if kind[k] == GATE:
                b = second[k]
                births[0] = births[1] = 0
                while here < sides and gates[here >> 1] == k:
                    births[here & 1] = 1
                    birth = _next_leak(birth, leak, rng)
                    here = birth - number * sides
                before_a, before_b = leaked[a], leaked[b]
                if before_a | before_b | births[0] | births[1]:
                    count -= before_a + before_b
                    leaked[a], scrambled = _side(before_a, before_b, births[0], seep, spread, rng)
                    if scrambled:
                        _scramble(shot, start, flips, place[k], rng)
                    leaked[b], scrambled = _side(before_b, before_a, births[1], seep, spread, rng)
                    if scrambled:
                        _scramble(shot, start, flips, place[k] + 2, rng)
                    count += leaked[a] + leaked[b]
            elif leaked[a]:
                if kind[k] == RESET:
                    leaked[a] = 0
                    count -= 1
                elif rng.random() < 0.5:
                    _flip(shot, start, flips, place[k])
            k += 1


@njit
def _side(own, partner, birth, seep, spread, rng):  # type: ignore[no-untyped-def]
    """One qubit through a gate: whether it is leaked after it, and whether it is in a random state."""
    now = own | birth
    if partner and rng.random() < spread:
        now = np.uint8(1)
    if now and rng.random() < seep:
        return np.uint8(0), True
    return now, partner != 0


@njit
def _scramble(shot, start, flips, row, rng):  # type: ignore[no-untyped-def]
    """Both Paulis, each or not by a fair coin: the completely mixed state."""
    coins = rng.random()
    if coins < 0.5:
        _flip(shot, start, flips, row)
    if coins < 0.25 or coins >= 0.75:
        _flip(shot, start, flips, row + 1)
