"""The matcher on one graph: scratch arenas handed out to whatever thread asks."""

from __future__ import annotations

from collections.abc import Sequence

from autoqec.decoders.backends._kernels.matching_batch import Batch, match_shots
from autoqec.decoders.backends._kernels.matching_state import I32, Arena, make_arena, make_graph
from autoqec.decoders.backends._kernels.pieces import in_pieces

WORTH_A_THREAD = 64
"""Fewest shots for which starting a thread pays."""


class Engine:
    """One adjacency with the arenas of the threads that have used it."""

    def __init__(self, n: int, ends: I32) -> None:
        self.n = n
        self.n_edges = len(ends)
        self.graph = make_graph(n, ends)
        # list.append and list.pop are atomic: no lock needed.
        self._arenas: list[tuple[int, Arena]] = []

    def run(self, batches: Sequence[Batch], threads: int | None) -> None:
        """Fill in the answers of batches of the same size; a thread takes the same shots of all of them."""

        def match(lo: int, hi: int) -> None:
            for batch in batches:
                self._match(batch, lo, hi)

        in_pieces(match, len(batches[0].detectors), threads, worth_a_thread=WORTH_A_THREAD)

    def _match(self, batch: Batch, lo: int, hi: int) -> None:
        try:
            growth, arena = self._arenas.pop()
        except IndexError:
            growth, arena = 1, make_arena(self.n, self.n_edges)
        while (lo := match_shots(self.graph, arena, batch, lo, hi)) < hi:
            growth *= 4
            arena = make_arena(self.n, self.n_edges, growth)
        self._arenas.append((growth, arena))
