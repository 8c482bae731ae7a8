"""The process in the sandbox: a script for `python -I` that holds models and answers shots.

    _serve.py <folder of the autoqec package>

It reads frames from standard input and answers them on standard output until the input ends. It is never given labels,
observables or seeds. Model code comes from the folder it is told, which may be the export of another commit; the
protocol comes from this file's own package: `sandbox/wire.py` and `envs/problem_arrays.py`; and so does the count of
operations, `decoders/flop_census.py`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np


def _loaded(name: str, path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


_HERE = Path(__file__)
wire = _loaded("autoqec_wire", _HERE.with_name("wire.py"))
problem_arrays = _loaded("autoqec_problem_arrays", _HERE.parents[1] / "envs" / "problem_arrays.py")

MAX_REQUEST = 2 << 30


@cache
def _census() -> Any:
    return _loaded("autoqec_flop_census", _HERE.parents[1] / "decoders" / "flop_census.py")


class Session:
    """What one connection has loaded: problems and models, by the order in which they came."""

    def __init__(self) -> None:
        self.problems: list[Any] = []
        self.models: list[_Model] = []

    def problem(self, payload: bytes) -> bytes:
        meta, arrays = wire.unpack(payload)
        self.problems.append(problem_arrays.from_arrays(meta, arrays))
        return bytes(wire.pack({"problem": len(self.problems) - 1}, {}))

    def model(self, payload: bytes) -> bytes:
        meta, arrays = wire.unpack(payload)
        made = _Model(
            self.problems[meta["problem"]],
            meta["dsl"],
            seed=meta["seed"],
            state=arrays if meta["with_state"] else None,
            wants_edges=meta["wants_edges"],
        )
        self.models.append(made)
        facts = {"model": len(self.models) - 1, "kind": made.kind, "columns": made.columns}
        return bytes(wire.pack(facts, {}))

    def run(self, payload: bytes) -> Any:
        meta, arrays = wire.unpack(payload)
        return self.models[meta["model"]].answers(
            arrays["detectors"],
            int(meta["batch"]),
            as_counted=meta["as_counted"],
            stage=int(meta["stage"]),
            earlier=arrays.get("earlier"),
        )

    def cost(self, payload: bytes) -> bytes:
        meta, arrays = wire.unpack(payload)
        counted, answers = self.models[meta["model"]].counted(
            arrays["detectors"],
            int(meta["batch"]),
            int(meta["alone"]),
            stage=int(meta["stage"]),
            earlier=arrays.get("earlier"),
        )
        return bytes(wire.pack(counted._asdict(), {"answers": answers} if meta["with_answers"] else {}))

    def checkpoint(self, payload: bytes) -> bytes:
        from autoqec.decoders import checkpoint

        described, state = checkpoint.parse(payload, where="checkpoint")
        arrays = {name: tensor.numpy() for name, tensor in state.items()}
        return bytes(wire.pack({"info": described}, arrays))


class _Model:
    """One module on one problem, and the kind of answer that the backend wants of it.

    kind: "edges", matching weights; "priors", fault probabilities; "faults", applied faults, packed.
    columns: entries per shot, before packing.
    """

    def __init__(
        self, problem: Any, dsl: Any, *, seed: int, state: dict[str, Any] | None, wants_edges: bool
    ) -> None:
        import torch

        from autoqec.decoders import checkpoint
        from autoqec.decoders.compiler import compile_predecoder, context
        from autoqec.decoders.dsl_schema import PredecoderDSL

        torch.set_num_threads(1)  # there is one worker per core
        config = PredecoderDSL.model_validate_json(json.dumps(dsl))
        self.problem = problem
        if state is None:
            self.module: Any = compile_predecoder(config, problem, seed=seed)
        else:
            tensors = {name: torch.from_numpy(np.array(array)) for name, array in state.items()}
            info: Any = SimpleNamespace(dsl=config)
            self.module = checkpoint.restore(info, tensors, problem, where="checkpoint")
        self.module.eval()
        self.stages = list(self.module.stages) if config.type == "cascade" else [self.module]
        self._ctx = context(problem)
        self.columns = problem.n_faults
        self.kind = "faults" if self.module.output_mode == "hard_flip" else "priors"
        if self.kind == "priors" and wants_edges and problem.graph is not None:
            with torch.no_grad():
                if self.module.edge_log_odds(torch.zeros(1, problem.n_checks), self._ctx) is not None:
                    self.kind, self.columns = "edges", problem.graph.n_edges

    def answers(
        self, detectors: Any, batch: int, *, as_counted: bool, stage: int = 0, earlier: Any = None
    ) -> Any:
        """The answers of a stage for packed shots, `batch` of them per call of the module, in order.

        as_counted: by the operations that the cost census counts, without fused kernels. earlier: what the stage before said.
        """
        import torch

        parts = []
        counted = _census().reference_path() if as_counted else torch.no_grad()
        with torch.no_grad(), counted:
            for rows, before in zip(
                self._batches(detectors, batch), self._before(earlier, len(detectors), batch), strict=True
            ):
                parts.append(self._one(self.stages[stage], rows, self._given(before)))
        return np.ascontiguousarray(
            np.concatenate(parts)
        )  # packed bits of a transposed answer lie in columns

    def counted(self, detectors: Any, batch: int, alone: int, *, stage: int = 0, earlier: Any = None) -> Any:
        """The FlopCount of a stage over packed shots, and what it answered while it was counted."""
        import torch

        module, batches = self.stages[stage], list(self._batches(detectors, batch))
        if earlier is not None:
            module = _census().AfterStage(module, self.problem.n_checks, f"earlier_{self.kind}")
            before = self._before(earlier, len(detectors), batch)
            batches = [torch.cat(each, dim=1) for each in zip(batches, before, strict=True)]
        module = _census().for_backend(module, wants_edges=self.kind == "edges")
        found: list[Any] = []
        counted = _census().count(module, batches, self._ctx, alone=alone, answers=found)
        parts = [
            self._sent(answer, len(batch) // 2 * 2) for answer, batch in zip(found, batches, strict=True)
        ]
        return counted, np.ascontiguousarray(np.concatenate(parts))

    def _before(self, earlier: Any, shots: int, batch: int) -> Iterator[Any]:
        """What the stage before said, batch by batch; None each time for the first stage."""
        import torch

        for start in range(0, shots, batch):
            yield None if earlier is None else torch.from_numpy(np.array(earlier[start : start + batch]))

    def _given(self, before: Any) -> Any:
        return self._ctx if before is None else {**self._ctx, f"earlier_{self.kind}": before}

    def _batches(self, detectors: Any, batch: int) -> Iterator[Any]:
        import torch

        syndromes = np.unpackbits(detectors, axis=1, count=self.problem.n_checks, bitorder="little")
        for start in range(0, len(syndromes), batch):
            yield torch.from_numpy(syndromes[start : start + batch]).float()

    def _one(self, module: Any, syndrome: Any, ctx: Any) -> Any:
        if self.kind == "faults":
            out = module.applied_faults(syndrome, ctx)
        elif self.kind == "edges":
            out = module.edge_log_odds(syndrome, ctx)
        else:
            out = module(syndrome, ctx)
        return self._sent(out, len(syndrome))

    def _sent(self, out: Any, shots: int) -> Any:
        """An answer as the other side takes it."""
        if tuple(out.shape) != (shots, self.columns):
            raise ValueError(f"the module answered {tuple(out.shape)} for {shots} shots")
        if self.kind == "faults":
            return np.packbits(out.bool().cpu().numpy(), axis=1, bitorder="little")
        return out.float().cpu().numpy()


def serve(source: int, sink: int) -> None:
    session = Session()
    handlers: dict[bytes, Callable[[Any], Any]] = {
        wire.PROBLEM: session.problem,
        wire.MODEL: session.model,
        wire.RUN: session.run,
        wire.COST: session.cost,
        wire.CHECKPOINT: session.checkpoint,
    }
    while True:
        head = _read(source, wire.HEADER.size)
        if head is None:
            return
        kind, length = wire.HEADER.unpack(head)
        if length > MAX_REQUEST:
            return
        payload = _read(source, length)
        if payload is None:
            return
        try:
            reply = memoryview(handlers[bytes([kind])](payload)).cast("B")
            _write(sink, wire.header(wire.ANSWER, len(reply)))
            _write(sink, reply)
        except Exception as error:
            # Whatever a model raises is data for the other side, which decides what it means.
            what = getattr(error, "what", None) or f"{type(error).__name__}: {error}"
            text = wire.one_line(what).encode()
            _write(sink, wire.header(wire.REFUSAL, len(text)))
            _write(sink, text)


def _read(source: int, length: int) -> bytearray | None:
    """Exactly `length` bytes, or None where the input ends."""
    data = bytearray(length)
    view, done = memoryview(data), 0
    while done < length:
        count = os.readv(source, [view[done:]])
        if count == 0:
            return None
        done += count
    return data


def _write(sink: int, data: Any) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def _use_kernels_as_they_are() -> None:
    """Compiled kernels come from a folder that cannot be written. What is not there is compiled and not kept."""
    from numba.core import caching

    caching._CacheLocator.ensure_cache_path = lambda _self: None
    caching.Cache.save_overload = lambda *_: None


def _look_for_libraries_without_a_compiler() -> None:
    """Where `ldconfig` cannot be started, `ctypes` asks a compiler for libraries, by way of a file that it writes. Torch with CUDA
    looks for some while it is imported; here it finds them, or not, by their plain names."""
    import ctypes.util

    ctypes.util._findLib_gcc = lambda _name: None  # type: ignore[attr-defined]


def main() -> None:
    sys.path.insert(0, sys.argv[1])
    _look_for_libraries_without_a_compiler()
    _use_kernels_as_they_are()
    tempfile.tempdir = os.environ["TMPDIR"]  # parts of torch want to know of one, and none can be written
    # The pipes are the protocol's alone: what a model prints goes to the error output.
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.dup2(2, 1)
    serve(source, sink)


if __name__ == "__main__":
    main()
