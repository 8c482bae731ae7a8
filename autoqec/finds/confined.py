"""A decoder whose model runs in the sandbox: for checkpoints that bring code of their own."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy.typing as npt

from autoqec.decoders.answers import AnsweringDecoder, Kind
from autoqec.decoders.backends import Backend, backend_entry
from autoqec.decoders.gates import Gates
from autoqec.envs.problem import U8
from autoqec.errors import AutoQECError, UnavailableError
from autoqec.sandbox.kinds import strongest
from autoqec.sandbox.screening import INVALID, screen
from autoqec.sandbox.worker import ModelWorker

_BATCH = 4096
_NO_END_S = 1e9


class ConfinedDecoder(AnsweringDecoder):
    """The model in a confined process of its own, which ends with this object; the backend on this side.

    code: folder that holds the `autoqec` package whose model code runs.
    """

    def __init__(
        self,
        dsl: Mapping[str, Any],
        state: Mapping[str, npt.NDArray[Any]],
        output_mode: str,
        backend: Backend,
        code: Path,
    ) -> None:
        sandbox = strongest()
        if not sandbox.confines:
            raise UnavailableError(
                "the predecoder holds code, which runs in a sandbox only, and no sandbox works on this machine",
                where=backend.problem.name,
                hint="see autoqec doctor",
            )
        super().__init__(backend, batch=_BATCH, gates=Gates.of(dsl, state))
        self._worker = ModelWorker(sandbox, code, lifetime_s=_NO_END_S)
        try:
            self._held = self._worker.hold_model(
                self._worker.hold_problem(self.problem),
                self.problem,
                dsl,
                state,
                output_mode=output_mode,
                wants_edges=backend_entry(backend.name).wants_edges,
            )
        except BaseException:
            self._worker.close()
            raise
        # Also at the interpreter's end, while the modules that closing needs are still there.
        weakref.finalize(self, self._worker.close)

    def seconds_elsewhere(self) -> float:
        """CPU seconds that the confined process has used."""
        return self._worker.cpu_seconds() or 0.0

    def answers(
        self, detectors: U8, stage: int = 0, earlier: npt.NDArray[Any] | None = None
    ) -> tuple[Kind, npt.NDArray[Any]]:
        raw = self._worker.answers(self._held, detectors, stage=stage, earlier=earlier)
        valid = screen(self.problem, self._held, raw)
        if not valid.all():
            raise AutoQECError(
                f"{int((~valid).sum())} of {len(valid)} shots got {INVALID}", where=self.problem.name
            )
        return self._held.kind, raw
