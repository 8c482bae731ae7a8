"""Decoding problems on disk, by content hash. An entry that fails its checksum is rebuilt, not trusted."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from autoqec import layout
from autoqec.envs.problem import DecodingProblem, MatchingGraph
from autoqec.io import atomic

FORMAT = 1
"""Part of every key: raise it when what is stored, or how it is computed, changes."""

_DIGEST = hashlib.sha256().digest_size


def load_or_build(key: str, build: Callable[[], DecodingProblem]) -> tuple[DecodingProblem, bool]:
    """The problem under `key`, and whether it came from the cache. A folder that cannot be written is no error."""
    path = layout.problem_cache(key)
    try:
        return _decode(path.read_bytes()), True
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        problem = build()
    with contextlib.suppress(OSError):
        atomic.write_bytes(path, _encode(problem))
    return problem, False


def _csc(prefix: str, matrix: sp.csc_array[Any] | sp.csr_array[Any]) -> dict[str, Any]:
    return {
        f"{prefix}_indices": matrix.indices,
        f"{prefix}_indptr": matrix.indptr,
        f"{prefix}_shape": np.array(matrix.shape),
    }


def _encode(problem: DecodingProblem) -> bytes:
    arrays: dict[str, Any] = {
        "priors": problem.priors,
        "coords": problem.detector_coords,
        "basis": problem.detector_basis,
        "text": np.frombuffer(
            json.dumps({"name": problem.name, "p": problem.p, "dem": problem.dem}).encode(), dtype=np.uint8
        ),
        **_csc("h", problem.h),
        **_csc("l", problem.l),
    }
    if problem.graph is not None:
        arrays |= {
            "ends": problem.graph.ends,
            "edge_priors": problem.graph.priors,
            "edge_observables": problem.graph.observables,
            "conflicts": np.array(problem.graph.conflicts),
            **_csc("a", problem.graph.fault_edges),
        }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    payload = buffer.getvalue()
    return hashlib.sha256(payload).digest() + payload


def _decode(data: bytes) -> DecodingProblem:
    payload = data[_DIGEST:]
    if hashlib.sha256(payload).digest() != data[:_DIGEST]:
        raise ValueError("checksum mismatch")
    with np.load(io.BytesIO(payload), allow_pickle=False) as a:
        text = json.loads(a["text"].tobytes())

        def parts(prefix: str) -> tuple[Any, tuple[int, int]]:
            indices = a[f"{prefix}_indices"]
            data = np.ones(len(indices), dtype=np.uint8)
            return (data, indices, a[f"{prefix}_indptr"]), (
                int(a[f"{prefix}_shape"][0]),
                int(a[f"{prefix}_shape"][1]),
            )

        graph = None
        if "ends" in a:
            incidence, shape = parts("a")
            graph = MatchingGraph(
                ends=a["ends"],
                priors=a["edge_priors"],
                observables=a["edge_observables"],
                fault_edges=sp.csr_array(incidence, shape=shape),
                conflicts=int(a["conflicts"]),
            )
        (h, h_shape), (l, l_shape) = parts("h"), parts("l")
        return DecodingProblem(
            name=text["name"],
            p=text["p"],
            h=sp.csc_array(h, shape=h_shape),
            l=sp.csc_array(l, shape=l_shape),
            priors=a["priors"],
            detector_coords=a["coords"],
            detector_basis=a["basis"],
            dem=text["dem"],
            graph=graph,
        )
