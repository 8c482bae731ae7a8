"""One ONNX file of a predecoder: what it says about itself, and its answers. Needs onnxruntime, and no torch.

The file maps `syndrome` [batch, n_checks] float to `answers`, one row for each shot, and says in its metadata what they are:

    autoqec.output              edge_log_odds, fault_probabilities or applied_faults (`decoders/answers.py`)
    autoqec.backend, .order     the classical backend, and the order of its ordered statistics
    autoqec.n_checks, .n_observables
    autoqec.faults              JSON: the detectors of each fault, in the order of its column; with autoqec.fault_observables
    autoqec.edges               JSON: the two detectors of each edge, -1 for the boundary; with autoqec.edge_observables
    autoqec.priors              JSON: the probability of each fault that the file was made for
    autoqec.env, .env_hash, .p, .checkpoint_sha256, .version

A stage of a cascade says more (`decoders/onnx_stages.py`), and may have a second input, `earlier_answers`: the `answers` of the stage before
it, row by row.
"""

from __future__ import annotations

import json
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt

from autoqec.decoders.answers import Kind
from autoqec.envs.packing import pack
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.errors import InputError, UnavailableError

PREFIX = "autoqec."
INPUT, EARLIER, OUTPUT = "syndrome", "earlier_answers", "answers"
OUTPUTS: dict[Kind, str] = {
    "edges": "edge_log_odds",
    "priors": "fault_probabilities",
    "faults": "applied_faults",
}
"""What `autoqec.output` says of each kind of answer."""
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


class OnnxFile:
    """where: names the file in errors. kind: of its answers. sees_earlier: whether it has the second input."""

    def __init__(self, data: bytes, *, where: str, threads: int) -> None:
        self.where = where
        self._session = _session(data, threads, where=where)
        found = self._session.get_modelmeta().custom_metadata_map
        self.metadata: dict[str, str] = {
            name.removeprefix(PREFIX): text for name, text in found.items() if name.startswith(PREFIX)
        }
        self.kind = self._checked_kind()
        self.sees_earlier = self._checked_inputs()

    def answers(self, syndrome: U8, earlier: npt.NDArray[Any] | None) -> npt.NDArray[Any]:
        """[shots, n_checks] of zeros and ones -> answers; applied faults are packed. earlier: what the stage before said."""
        given = {INPUT: syndrome.astype(np.float32)}
        if self.sees_earlier:
            given[EARLIER] = np.asarray(earlier, dtype=np.float32)
        (out,) = self._session.run([OUTPUT], given)
        return pack(out) if self.kind == "faults" else np.asarray(out)

    def count(self, name: str, *, default: int) -> int:
        """A number below a thousand that the metadata has under this name, or the default."""
        text = self.metadata.get(name, str(default))
        if not (text.isascii() and text.isdecimal() and len(text) < 4):
            raise InputError(f"has the {name} {text[:40]!r}", where=self.where, hint="export it again")
        return int(text)

    def check_problem(self, problem: DecodingProblem) -> None:
        for name, text in described(problem).items():
            if self.metadata.get(name) != text:
                mine = f"{self.metadata.get('env')} at p = {self.metadata.get('p')}"
                raise InputError(
                    f"was exported for {mine}, and its {name} are not those of {problem.name} at p = {problem.p:g}",
                    where=self.where,
                    hint="decode the environment and p that it was exported for, or export again with --p",
                )

    def _checked_kind(self) -> Kind:
        for kind, name in OUTPUTS.items():
            if self.metadata.get("output") == name:
                return kind
        raise InputError(
            "does not say what its output is", where=self.where, hint="write it with `autoqec export --onnx`"
        )

    def _checked_inputs(self) -> bool:
        names = {each.name for each in self._session.get_inputs()}
        if names not in ({INPUT}, {INPUT, EARLIER}):
            raise InputError(
                f"has the inputs {', '.join(sorted(names))[:80]}",
                where=self.where,
                hint="write it with `autoqec export --onnx`",
            )
        return EARLIER in names


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
                    hint="an exported file holds all its weights: write it with `autoqec export --onnx`",
                ) from error
            raise InputError(f"is not an ONNX model: {str(error)[:200]}", where=where) from error
