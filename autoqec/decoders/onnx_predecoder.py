"""A predecoder in ONNX files (`decoders/onnx_file.py`, `decoders/onnx_stages.py`), in front of its classical backend."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy.typing as npt

from autoqec.decoders.answers import AnsweringDecoder, Kind
from autoqec.decoders.backends import Backend, make_backend
from autoqec.decoders.onnx_file import OnnxFile
from autoqec.decoders.onnx_stages import gates_of_files, read_stages
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8, DecodingProblem

_BATCH = 128


class OnnxPredecoder(AnsweringDecoder):
    """Exported files in front of the backend that they name, on the problem that they were exported for.

    file: what was given to the export, the first file of a cascade, or the bytes of each file. threads: of the network and of the backend.
    files: one for each stage. metadata: of the first.

    Raises:
        InputError: a file is none of an export, a stage of the cascade is missing or belongs to another, or the problem is another.
    """

    def __init__(
        self,
        file: Path | str | Sequence[bytes],
        problem: DecodingProblem,
        *,
        backend: Backend | None = None,
        threads: int = 1,
    ) -> None:
        self.files = (
            read_stages(Path(file), threads=threads)
            if isinstance(file, Path | str)
            else [OnnxFile(data, where=f"ONNX file {at}", threads=threads) for at, data in enumerate(file, 1)]
        )
        gates = gates_of_files(self.files)
        for each in self.files:
            each.check_problem(problem)
        self.metadata = self.files[0].metadata
        named = backend or make_backend(
            problem, self.metadata.get("backend", ""), self.files[0].count("order", default=0)
        )
        super().__init__(named, batch=_BATCH, threads=threads, gates=gates)

    def answers(
        self, detectors: U8, stage: int = 0, earlier: npt.NDArray[Any] | None = None
    ) -> tuple[Kind, npt.NDArray[Any]]:
        file = self.files[stage]
        return file.kind, file.answers(unpack(detectors, self.problem.n_checks), earlier)
