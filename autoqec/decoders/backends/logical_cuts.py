"""Cuts between the two sides of a matching graph: many ways to read one observable off a correction.

In a memory experiment the observable tells whether a correction joins the boundary an odd number of times at its one end. So
does every set of detectors around that end: of the edges that leave it, those in the correction are odd in number, up to the defects inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import dijkstra

from autoqec.decoders.backends._kernels.matching_gauge import boundary_gauge
from autoqec.envs.problem import MatchingGraph

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class LogicalCuts:
    """edges: [cuts, n_edges], detectors: [cuts, n_detectors]. For each cut the observable is the parity of a correction's edges in it, plus
    that of the shot's defects in it."""

    edges: Bools
    detectors: Bools


def logical_cuts(graph: MatchingGraph, n_detectors: int, observable: int = 0) -> LogicalCuts | None:
    """Cuts by the number of hops from either end. None where the observable cannot be moved to the boundary, or does not part it in two."""
    mask = graph.observables[:, observable].astype(np.bool_)
    gauge = boundary_gauge(n_detectors, graph.ends, mask)
    if gauge is None:
        return None
    at_boundary = graph.ends[:, 1] < 0
    here = at_boundary & (mask ^ gauge[graph.ends[:, 0]])
    there = at_boundary & ~here
    if not here.any() or not there.any():
        return None
    near = _within_hops(graph, n_detectors, here)
    far = ~_within_hops(graph, n_detectors, there)
    inside = np.unique(np.concatenate([near, far]), axis=0)
    # Detectors, then the boundary at either end: an edge is in the cut if its ends are on different sides.
    sides = np.concatenate([inside, np.ones((len(inside), 1)), np.zeros((len(inside), 1))], axis=1) > 0
    other = np.where(at_boundary, np.where(here, n_detectors, n_detectors + 1), graph.ends[:, 1])
    crossed = sides[:, graph.ends[:, 0]] ^ sides[:, other]
    is_cut = crossed.any(axis=1)
    return LogicalCuts(crossed[is_cut], (inside ^ gauge)[is_cut])


def _within_hops(graph: MatchingGraph, n: int, start: Bools) -> Bools:
    """[1 + most hops, n] detectors at most so many hops from the boundary by these edges; none in the first row."""
    inside = graph.ends[:, 1] >= 0
    ends = np.concatenate(
        [graph.ends[inside], np.stack([graph.ends[start, 0], np.full(start.sum(), n)], axis=1)]
    )
    links = sp.coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(n + 1, n + 1)).tocsr()
    hops = dijkstra(links, directed=False, indices=[n], unweighted=True)[0, :n]
    most = int(hops[np.isfinite(hops)].max())
    return np.asarray(hops[None] <= np.arange(most + 1)[:, None])
