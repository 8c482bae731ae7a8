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

from autoqec import layout
from autoqec.envs.problem import DecodingProblem
from autoqec.envs.problem_arrays import from_arrays, to_arrays
from autoqec.io import atomic

FORMAT = 3
"""Part of every key: raise it when what is stored, or how it is computed, changes."""

_DIGEST = hashlib.sha256().digest_size


def load_or_build(key: str, build: Callable[[], DecodingProblem]) -> tuple[DecodingProblem, bool]:
    """The problem under `key`, and whether it came from the cache. A folder that cannot be written is not an error."""
    path = layout.problem_cache(key)
    try:
        return _decode(path.read_bytes()), True
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        problem = build()
    with contextlib.suppress(OSError):
        atomic.write_bytes(path, _encode(problem))
    return problem, False


def _encode(problem: DecodingProblem) -> bytes:
    meta, arrays = to_arrays(problem)
    stored: dict[str, Any] = {"meta": np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8), **arrays}
    buffer = io.BytesIO()
    np.savez(buffer, **stored)
    payload = buffer.getvalue()
    return hashlib.sha256(payload).digest() + payload


def _decode(data: bytes) -> DecodingProblem:
    payload = data[_DIGEST:]
    if hashlib.sha256(payload).digest() != data[:_DIGEST]:
        raise ValueError("checksum mismatch")
    with np.load(io.BytesIO(payload), allow_pickle=False) as stored:
        arrays = dict(stored)
    return from_arrays(json.loads(arrays.pop("meta").tobytes()), arrays)
