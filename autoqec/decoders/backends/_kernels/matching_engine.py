"""Batches of shots over threads, each with a scratch arena of its own."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

from autoqec.decoders.backends._kernels.matching_batch import Batch, match_shots
from autoqec.decoders.backends._kernels.matching_state import I32, Arena, make_arena, make_graph

WORTH_A_THREAD = 64
"""Fewest shots for which starting a thread pays."""


class Engine:
    """One adjacency with the arenas of the threads that have used it.

    The kernels release the interpreter lock and share nothing but the graph, so any number of Python threads
    may run batches at the same time; numba's own threading layers would not allow that everywhere.
    """

    def __init__(self, n: int, ends: I32) -> None:
        self.n = n
        self.n_edges = len(ends)
        self.graph = make_graph(n, ends)
        # list.append and list.pop are atomic: no lock needed.
        self._arenas: list[tuple[int, Arena]] = []

    def run(self, batch: Batch, threads: int | None) -> None:
        """Fill in the answers of `batch`; `threads=None` takes one per available core."""
        shots = len(batch.detectors)
        if threads is None:
            threads = available_cores()
        threads = max(1, min(threads, shots // WORTH_A_THREAD))
        if threads == 1:
            self._match(batch, 0, shots)
            return
        # Several pieces per thread, because shots differ in their number of defects.
        pieces = min(4 * threads, shots // WORTH_A_THREAD)
        bounds = [shots * i // pieces for i in range(pieces + 1)]
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(lambda lo, hi: self._match(batch, lo, hi), bounds[:-1], bounds[1:]))

    def _match(self, batch: Batch, lo: int, hi: int) -> None:
        try:
            growth, arena = self._arenas.pop()
        except IndexError:
            growth, arena = 1, make_arena(self.n, self.n_edges)
        while (lo := match_shots(self.graph, arena, batch, lo, hi)) < hi:
            growth *= 4
            arena = make_arena(self.n, self.n_edges, growth)
        self._arenas.append((growth, arena))


def available_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
