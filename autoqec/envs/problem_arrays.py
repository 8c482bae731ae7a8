"""A decoding problem as plain data and arrays, for files and for pipes. Numpy and scipy only.

A confined worker may run the model code of another commit, so it loads this very file by its path: only the classes come from
the code that it serves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

if TYPE_CHECKING:
    from autoqec.envs.problem import DecodingProblem

Arrays = Mapping[str, npt.NDArray[Any]]


def to_arrays(problem: DecodingProblem) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What can be written as JSON, and arrays of numbers and single bytes."""
    matrices: dict[str, Any] = {"h": problem.h, "l": problem.l}
    arrays: dict[str, npt.NDArray[Any]] = {
        "priors": problem.priors,
        "coords": problem.detector_coords,
        "basis": problem.detector_basis.astype("|S1"),
    }
    meta: dict[str, Any] = {"name": problem.name, "p": problem.p, "dem": problem.dem}
    if (graph := problem.graph) is not None:
        arrays |= {"ends": graph.ends, "edge_priors": graph.priors, "edge_observables": graph.observables}
        matrices["a"] = graph.fault_edges
        meta["conflicts"] = graph.conflicts
    if (joint := problem.joint) is not None:
        arrays |= {"seen": joint.seen, "joint_priors": joint.priors, "joint_fault_of": joint.fault_of}
        matrices |= {"joint_h": joint.h, "joint_l": joint.l}
    rates = {"rates": problem.rates, "joint_rates": None if joint is None else joint.rates}
    arrays |= {name: array for name, array in rates.items() if array is not None}
    for name, matrix in matrices.items():
        arrays |= {f"{name}_indices": matrix.indices, f"{name}_indptr": matrix.indptr}
    meta["shapes"] = {name: [int(n) for n in matrix.shape] for name, matrix in matrices.items()}
    return meta, arrays


def from_arrays(meta: Mapping[str, Any], arrays: Arrays) -> DecodingProblem:
    """The problem that `to_arrays` was given."""
    from autoqec.envs.problem import DecodingProblem, MatchingGraph

    def sparse(kind: Any, name: str) -> Any:
        indices = arrays[f"{name}_indices"]
        parts = (np.ones(len(indices), dtype=np.uint8), indices, arrays[f"{name}_indptr"])
        return kind(parts, shape=tuple(meta["shapes"][name]))

    graph = None
    if "ends" in arrays:
        graph = MatchingGraph(
            ends=arrays["ends"],
            priors=arrays["edge_priors"],
            observables=arrays["edge_observables"],
            fault_edges=sparse(sp.csr_array, "a"),
            conflicts=int(meta["conflicts"]),
        )

    def rates(kind: Any, name: str) -> dict[str, Any]:
        """Older model code knows no rates."""
        return {"rates": arrays[name]} if name in arrays and "rates" in kind.__dataclass_fields__ else {}

    more = rates(DecodingProblem, "rates")
    if "seen" in arrays:
        from autoqec.envs.problem import JointModel

        more["joint"] = JointModel(
            seen=arrays["seen"],
            h=sparse(sp.csc_array, "joint_h"),
            l=sparse(sp.csc_array, "joint_l"),
            priors=arrays["joint_priors"],
            fault_of=arrays["joint_fault_of"],
            **rates(JointModel, "joint_rates"),
        )
    return DecodingProblem(
        name=meta["name"],
        p=float(meta["p"]),
        h=sparse(sp.csc_array, "h"),
        l=sparse(sp.csc_array, "l"),
        priors=arrays["priors"],
        detector_coords=arrays["coords"],
        detector_basis=arrays["basis"].astype(np.str_),
        dem=meta["dem"],
        graph=graph,
        **more,
    )
