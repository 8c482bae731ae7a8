"""An observable as one more detector: exact matching within each logical class.

Flipping the mask of every edge at a detector changes the observable of a correction by that detector's
syndrome bit, the same for all corrections of a shot. If such changes of gauge clear the observable from all
edges between two detectors, only boundary edges carry it, and they may end at an extra node instead of the
boundary: a correction flips the observable if and only if it has a defect there.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from autoqec.decoders.backends._kernels.matching_state import I32


def boundary_gauge(n: int, ends: I32, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_] | None:
    """Set x of detectors with mask(uv) = x(u) + x(v) on all edges between detectors; None if there is none.

    Works on the double cover, nodes (u, 0) and (u, 1): an edge with the observable changes the sheet. A
    detector in one component with its own double lies on a cycle that flips the observable.
    """
    inside = ends[:, 1] >= 0
    u, v, crosses = ends[inside, 0], ends[inside, 1], n * mask[inside]
    rows = np.concatenate([u, u + n])
    columns = np.concatenate([v + crosses, v + n - crosses])
    cover = sp.coo_array((np.ones(len(rows), dtype=np.int8), (rows, columns)), shape=(2 * n, 2 * n))
    _, label = connected_components(cover, directed=False)
    if np.any(label[:n] == label[n:]):
        return None
    return np.asarray(label[:n] > label[n:])


def observable_as_detector(
    n: int, ends: I32, mask: npt.NDArray[np.bool_], gauge: npt.NDArray[np.bool_]
) -> I32:
    """Ends of the same edges on n + 1 detectors, the last of which is the observable in this gauge."""
    carries = (ends[:, 1] < 0) & (mask ^ gauge[ends[:, 0]])
    moved = ends.copy()
    moved[carries, 1] = n
    return moved


def unmatchable_detectors(n: int, ends: I32, defects: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    """Defects in components that hold an odd number of them and no boundary edge."""
    inside = ends[:, 1] >= 0
    links = sp.coo_array(
        (np.ones(int(inside.sum()), dtype=np.int8), (ends[inside, 0], ends[inside, 1])), shape=(n, n)
    )
    count, label = connected_components(links, directed=False)
    stuck = np.bincount(label, weights=defects, minlength=count) % 2 == 1
    stuck[label[ends[~inside, 0]]] = False
    return np.flatnonzero(defects & stuck[label])
