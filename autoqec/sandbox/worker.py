"""The trusted side of the sandbox: a model in a confined process, asked for weights, priors or faults, shot by shot.

What comes back is only ever numbers of a known type, shape and length; what they mean for a shot is worked out on this side.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.decoders.answers import Kind
from autoqec.decoders.gates import ONE_STAGE, Gates
from autoqec.envs.packing import width
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.envs.problem_arrays import to_arrays
from autoqec.sandbox import wire
from autoqec.sandbox.confined import ConfinedProcess, WorkerDied
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kernel_cache import kernels_for
from autoqec.sandbox.kinds import Sandbox

State = Mapping[str, npt.NDArray[Any]]

BATCH = 256
"""Shots per call of the module."""

_ROWS = 2048  # shots per request: some megabytes of answer
_FACTS = 1 << 20
_CHECKPOINT = 1 << 30


@dataclass(frozen=True)
class HeldModel:
    """A model that the worker holds.

    kind: what it answers with.
    columns: numbers per shot.
    gates: between its stages; by this side's reading of config and weights.
    """

    index: int
    kind: Kind
    columns: int
    n_checks: int
    gates: Gates = ONE_STAGE


class FlopClaim(NamedTuple):
    """What the model's process says it counted: `decoders.flop_census.FlopCount`, as a claim of code that is not trusted."""

    mean: int
    per_call: int
    largest: int
    spread: float


class ModelWorker(ConfinedProcess):
    """Holds problems and models in the sandbox. cache: folder of compiled kernels, by default numba's own."""

    def __init__(
        self, sandbox: Sandbox, code: Path | None = None, *, cache: Path | None = None, **limits: float
    ) -> None:
        root = code or installed_root()
        super().__init__(sandbox, root, kernels=kernels_for(root, cache), **limits)

    def hold_problem(self, problem: DecodingProblem) -> int:
        """Hands over the arrays of a problem, not its error model's text."""
        facts = self._facts(wire.PROBLEM, wire.pack(*to_arrays(replace(problem, dem=""))))
        return _integer(facts, "problem")

    def hold_model(
        self,
        held_problem: int,
        problem: DecodingProblem,
        dsl: Mapping[str, Any],
        state: State | None,
        *,
        output_mode: str,
        wants_edges: bool,
        seed: int = 0,
    ) -> HeldModel:
        """A model of `dsl` with the given weights, or, for None, freshly initialised ones."""
        gates = Gates.of(dsl, state)
        meta = {
            "problem": held_problem,
            "dsl": dict(dsl),
            "seed": seed,
            "with_state": state is not None,
            "wants_edges": wants_edges,
        }
        facts = self._facts(wire.MODEL, wire.pack(meta, state or {}))
        kind = facts.get("kind")
        columns = {"faults": problem.n_faults, "priors": problem.n_faults}
        if problem.graph is not None and wants_edges:
            columns["edges"] = problem.graph.n_edges
        if kind not in columns or (kind == "faults") != (output_mode == "hard_flip"):
            raise self._dead(f"answers with {wire.one_line(kind)} under output_mode {output_mode}")
        return HeldModel(_integer(facts, "model"), kind, columns[kind], problem.n_checks, gates)

    def answers(
        self,
        model: HeldModel,
        detectors: U8,
        *,
        batch: int = BATCH,
        as_counted: bool = False,
        stage: int = 0,
        earlier: npt.NDArray[Any] | None = None,
    ) -> npt.NDArray[Any]:
        """Float32 [shots, columns] for edges and priors; packed uint8 [shots, ceil(columns / 8)] for faults.

        stage: of a cascade; earlier: what the stage before it said about these shots, as this side had it.
        """
        shape, dtype = _form(model, len(detectors))
        out = np.empty(shape, dtype=dtype)
        for start in range(0, len(detectors), _ROWS):
            rows = detectors[start : start + _ROWS]
            meta = {"model": model.index, "batch": batch, "as_counted": as_counted, "stage": stage}
            asked = _asked(rows, None if earlier is None else earlier[start : start + _ROWS])
            self.request_into(wire.RUN, wire.pack(meta, asked), out[start : start + len(rows)])
        return out

    def all_answers(self, model: HeldModel, detectors: U8, *, batch: int = BATCH) -> npt.NDArray[Any]:
        """The answers of every stage to all shots, whatever its gates say: one after the other in a row, [shots, stages * columns]."""
        found: list[npt.NDArray[Any]] = []
        for stage in range(model.gates.stages):
            earlier = found[-1] if found else None
            found.append(self.answers(model, detectors, batch=batch, stage=stage, earlier=earlier))
        return np.concatenate(found, axis=1)

    def flops(
        self,
        model: HeldModel,
        detectors: U8,
        *,
        batch: int = BATCH,
        stage: int = 0,
        earlier: npt.NDArray[Any] | None = None,
    ) -> FlopClaim:
        """FLOPs on these shots. The census is this package's, in the model's process."""
        return self._count(model, detectors, earlier, batch=batch, stage=stage)[0]

    def counted(
        self,
        model: HeldModel,
        detectors: U8,
        *,
        batch: int = BATCH,
        alone: int = 0,
        stage: int = 0,
        earlier: npt.NDArray[Any] | None = None,
    ) -> tuple[FlopClaim, npt.NDArray[Any]]:
        """FLOPs on an even number of shots, `alone` of them asked one by one, too; and the answers of the very calls that were counted."""
        claim, arrays = self._count(
            model, detectors, earlier, batch=batch, alone=alone, stage=stage, with_answers=True
        )
        found, (shape, dtype) = arrays.get("answers"), _form(model, len(detectors))
        if found is None or found.shape != shape or found.dtype != dtype:
            raise self._dead("did not give the answers that it counted")
        return claim, found

    def _count(
        self,
        model: HeldModel,
        detectors: U8,
        earlier: npt.NDArray[Any] | None,
        *,
        batch: int,
        stage: int,
        alone: int = 0,
        with_answers: bool = False,
    ) -> tuple[FlopClaim, dict[str, npt.NDArray[Any]]]:
        meta = {
            "model": model.index,
            "batch": batch,
            "alone": alone,
            "stage": stage,
            "with_answers": with_answers,
        }
        shape, dtype = _form(model, len(detectors))
        at_most = _FACTS + (math.prod(shape) * np.dtype(dtype).itemsize if with_answers else 0)
        answer = self.request(wire.COST, wire.pack(meta, _asked(detectors, earlier)), at_most=at_most)
        facts, arrays = self._unpack(answer)
        spread = facts.get("spread")
        if type(spread) not in (int, float) or not 0 <= spread < 1e9:  # type: ignore[operator]
            raise self._dead(f"gave {wire.one_line(spread)} as spread")
        mean, per_call, largest = (_integer(facts, name) for name in ("mean", "per_call", "largest"))
        return FlopClaim(mean, per_call, largest, float(spread)), arrays  # type: ignore[arg-type]

    def read_checkpoint(self, data: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """The description in a checkpoint file's bytes, and its weights. The file is parsed in the sandbox."""
        answer = self.request(wire.CHECKPOINT, data, at_most=_CHECKPOINT)
        meta, arrays = self._unpack(answer)
        info = meta.get("info")
        if not isinstance(info, dict):
            raise self._dead("gave no description of the checkpoint")
        return info, arrays

    def _facts(self, kind: bytes, payload: bytes) -> dict[str, Any]:
        return self._unpack(self.request(kind, payload, at_most=_FACTS))[0]

    def _unpack(self, answer: bytearray) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        try:
            return wire.unpack(answer)
        except wire.WireError as error:
            raise self._dead(f"sent {error}") from error


def _form(model: HeldModel, shots: int) -> tuple[tuple[int, int], type[np.generic]]:
    """Shape and type of a model's answers."""
    if model.kind == "faults":
        return (shots, width(model.columns)), np.uint8
    return (shots, model.columns), np.float32


def _asked(detectors: U8, earlier: npt.NDArray[Any] | None) -> dict[str, npt.NDArray[Any]]:
    return {"detectors": detectors} if earlier is None else {"detectors": detectors, "earlier": earlier}


def _integer(facts: Mapping[str, Any], name: str) -> int:
    value = facts.get(name)
    if type(value) is not int or not 0 <= value < 1 << 62:
        raise WorkerDied(f"gave {wire.one_line(value)} as {name}", where="the model's process")
    return value
