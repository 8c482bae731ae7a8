"""A predecoder in an ONNX file, in front of its classical backend. Needs onnxruntime, and no torch.

The file maps `syndrome` [batch, n_checks] float to `answers`, one row for each shot, and says in its metadata what they are:

    autoqec.output              edge_log_odds, fault_probabilities or applied_faults (`decoders/answers.py`)
    autoqec.backend, .order     the classical backend, and the order of its ordered statistics
    autoqec.n_checks, .n_observables
    autoqec.faults              JSON: the detectors of each fault, in the order of its column; with autoqec.fault_observables
    autoqec.edges               JSON: the two detectors of each edge, -1 for the boundary; with autoqec.edge_observables
    autoqec.priors              JSON: the probability of each fault that the file was made for
    autoqec.env, .env_hash, .p, .checkpoint_sha256, .version
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from autoqec.decoders.answers import AnsweringDecoder, Kind
from autoqec.decoders.backends import Backend, make_backend
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.errors import InputError, UnavailableError
from autoqec.io.untrusted_file import read_regular

PREFIX = "autoqec."
INPUT, OUTPUT = "syndrome", "answers"
OUTPUTS: dict[Kind, str] = {
    "edges": "edge_log_odds",
    "priors": "fault_probabilities",
    "faults": "applied_faults",
}
"""What `autoqec.output` says of each kind of answer."""
_BATCH = 128
MAX_BYTES = (2 << 30) - 1
"""What one ONNX file can hold."""
_ELSEWHERE = "session.model_external_initializers_file_folder_path"
"""The setting of onnxruntime that says where further files of a model are."""


def described(problem: DecodingProblem) -> dict[str, str]:
    """The order of a problem's faults and edges, as it stands in a file's metadata."""
    layout: dict[str, Any] = {
        "n_checks": problem.n_checks,
        "n_observables": problem.n_observables,
        "faults": _rows_of_columns(problem.h),
        "fault_observables": _rows_of_columns(problem.l),
        "priors": problem.priors.tolist(),
    }
    if problem.graph is not None:
        layout["edges"] = problem.graph.ends.tolist()
        layout["edge_observables"] = [np.flatnonzero(row).tolist() for row in problem.graph.observables]
    return {name: json.dumps(value, separators=(",", ":")) for name, value in layout.items()}


def _rows_of_columns(matrix: Any) -> list[list[int]]:
    columns = matrix.tocsc().sorted_indices()
    return [part.tolist() for part in np.split(columns.indices, columns.indptr[1:-1])]


class OnnxPredecoder(AnsweringDecoder):
    """An ONNX file in front of the backend that it names, on the problem that it was exported for.

    file: a path, or the bytes of a file. threads: of the network and of the backend.
    """

    def __init__(
        self,
        file: Path | str | bytes,
        problem: DecodingProblem,
        *,
        backend: Backend | None = None,
        threads: int = 1,
    ) -> None:
        self._where = "ONNX file" if isinstance(file, bytes) else str(file)
        data = file if isinstance(file, bytes) else read_regular(file, limit=MAX_BYTES, links=True)
        self._session = _session(data, threads, where=self._where)
        found = self._session.get_modelmeta().custom_metadata_map
        self.metadata: dict[str, str] = {
            name.removeprefix(PREFIX): text for name, text in found.items() if name.startswith(PREFIX)
        }
        self.kind = self._checked_kind()
        self._check_problem(problem)
        order = self._order()
        named = backend or make_backend(problem, self.metadata.get("backend", ""), order)
        super().__init__(named, batch=_BATCH, threads=threads)

    def answers(
        self, detectors: U8, stage: int = 0, earlier: npt.NDArray[Any] | None = None
    ) -> tuple[Kind, npt.NDArray[Any]]:
        syndrome = unpack(detectors, self.problem.n_checks).astype(np.float32)
        (out,) = self._session.run([OUTPUT], {INPUT: syndrome})
        return self.kind, pack(out) if self.kind == "faults" else np.asarray(out)

    def _checked_kind(self) -> Kind:
        for kind, name in OUTPUTS.items():
            if self.metadata.get("output") == name:
                return kind
        raise InputError(
            "does not say what its output is", where=self._where, hint="write it with `autoqec export --onnx`"
        )

    def _order(self) -> int:
        text = self.metadata.get("order", "0")
        if not (text.isascii() and text.isdecimal() and len(text) < 4):
            raise InputError(f"has the order {text[:40]!r}", where=self._where, hint="export it again")
        return int(text)

    def _check_problem(self, problem: DecodingProblem) -> None:
        for name, text in described(problem).items():
            if self.metadata.get(name) != text:
                mine = f"{self.metadata.get('env')} at p = {self.metadata.get('p')}"
                raise InputError(
                    f"was exported for {mine}, and its {name} are not those of {problem.name} at p = {problem.p:g}",
                    where=self._where,
                    hint="decode the environment and p that it was exported for, or export again with --p",
                )


def _session(data: bytes, threads: int, *, where: str) -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise UnavailableError(
            "ONNX files are run by onnxruntime", where=where, hint="pip install 'autoqec[export]'"
        ) from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    with tempfile.TemporaryDirectory() as empty:
        options.add_session_config_entry(_ELSEWHERE, empty)  # else files of the working directory
        try:
            return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has no common base of its errors
            if "external data" in str(error).lower():
                raise InputError(
                    "keeps weights in other files, which are not read",
                    where=where,
                    hint="an exported predecoder is one file: write it with `autoqec export --onnx`",
                ) from error
            raise InputError(f"is not an ONNX model: {str(error)[:200]}", where=where) from error
