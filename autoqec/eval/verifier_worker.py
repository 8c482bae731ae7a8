"""One worker of a verification: a trusted process with a confined one of its own, in which the model runs.

The two take turns, so that as many workers as cores keep every core busy. A worker reads shots and observables from the
bundle, asks the model about the shots, runs the classical backend and scores; only numbers go back.
"""

from __future__ import annotations

import pickle
import time
import traceback
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autoqec.decoders.answers import AnswerDecoder, Kind, deciders
from autoqec.decoders.backends import Backend, backend_entry, make_backend
from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.gates import I64, ONE_STAGE, THRESHOLDS, Gates
from autoqec.decoders.protocol import Decoder
from autoqec.envs.environment import Environment
from autoqec.envs.packing import pack, width
from autoqec.envs.problem import U8
from autoqec.envs.schema import EnvSpec
from autoqec.errors import AutoQECError, UnavailableError
from autoqec.eval.metering import Figures, HiddenWork, Meter, reference_of
from autoqec.eval.staged_answers import Answers, log_odds_of, of_all_stages, predicted, through_gates
from autoqec.eval.worker_results import encode, encode_error
from autoqec.eval.worker_setup import NO_SETUP, WorkerSetup
from autoqec.executors.protocol import Worker
from autoqec.sandbox.confined import Refused, WorkerDied
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kinds import SANDBOXES
from autoqec.sandbox.screening import INVALID, screen
from autoqec.sandbox.worker import HeldModel, ModelWorker

SLICE = 1024
"""Shots in one question to the worker; a question that the model fails on costs it these shots."""


QUESTION_S = 120.0
"""A model may take this long for one question, or a thirtieth of all its time where that is more."""


class Task(Protocol):
    """Work for a worker, picklable. What `run` is declared to return is what `worker_results` parses its answer as."""

    def run(self, verifier: VerifierWorker) -> Any: ...


class VerifierWorker:
    """The state of one worker: decoders and backends by problem, and one confined process per code base."""

    def __init__(self, setup: WorkerSetup) -> None:
        self.setup = setup
        self._sandbox = next(sandbox for sandbox in SANDBOXES if sandbox.name == setup.sandbox)
        self._workers: dict[Path, ModelWorker] = {}
        self._deaths: dict[Path, str] = {}
        self._held: dict[tuple[str, str], HeldModel] = {}
        self._held_problems: dict[tuple[Path, str], int] = {}
        self._decoders: dict[tuple[str, DecoderChoice], Decoder] = {}
        self._deciders: dict[tuple[str, int, Gates], tuple[AnswerDecoder, ...]] = {}
        self._environments: dict[tuple[str, str], Environment] = {}
        self._meters: dict[tuple[str, str], Meter] = {}
        self.cpu_read: dict[Path, float] = {}  # CPU time of each confined process when a meter last looked

    def close(self) -> None:
        for worker in self._workers.values():
            worker.close()

    def environment(self, spec: str, root: str) -> Environment:
        """The environment of an EnvSpec in JSON."""
        key = (spec, root)
        if key not in self._environments:
            self._environments[key] = Environment(EnvSpec.model_validate_json(spec), root=Path(root))
        return self._environments[key]

    def decoder(self, problem: str, choice: DecoderChoice) -> Decoder:
        key = (problem, choice)
        if key not in self._decoders:
            self._decoders[key] = choice.build(self.setup.problems[problem])
        return self._decoders[key]

    def backend(self, problem: str) -> Backend:
        return self.deciders(problem, ONE_STAGE)[0].backend

    def deciders(self, problem: str, gates: Gates, order: int = 0) -> tuple[AnswerDecoder, ...]:
        """The backend behind every stage; order: of ordered statistics, where the stage does not name one."""
        key = (problem, order, gates)
        if key not in self._deciders:
            backend = make_backend(self.setup.problems[problem], self.setup.backend, order)
            self._deciders[key] = deciders(backend, gates)
        return self._deciders[key]

    def gates(self, model: str) -> Gates:
        spec = self.setup.models[model]
        given = {THRESHOLDS: np.array(spec.thresholds)} if spec.thresholds else None
        return Gates.of(spec.dsl, given if spec.state is None else spec.state)

    def new_worker(self, code: Path) -> ModelWorker:
        lifetime_s = self.setup.lifetime_s
        return ModelWorker(
            self._sandbox, code, lifetime_s=lifetime_s, request_s=max(QUESTION_S, lifetime_s / 30)
        )

    def hold(
        self, worker: ModelWorker, problem: str, model: str, held_problem: int | None = None
    ) -> HeldModel:
        """Puts a model into a worker."""
        of, spec = self.setup.problems[problem], self.setup.models[model]
        index = worker.hold_problem(of) if held_problem is None else held_problem
        return worker.hold_model(
            index,
            of,
            spec.dsl,
            spec.state,
            output_mode=spec.output_mode,
            wants_edges=backend_entry(self.setup.backend).wants_edges,
            seed=spec.seed,
        )

    def held(self, problem: str, model: str) -> tuple[ModelWorker, HeldModel]:
        """The confined process with the model in it. Refused: the model cannot be built; WorkerDied: nor asked again."""
        code = self.setup.models[model].code
        if code in self._deaths:
            raise WorkerDied(self._deaths[code], where="the model's process")
        try:
            if code not in self._workers:
                self._workers[code] = self.new_worker(code)
            worker = self._workers[code]
            if (code, problem) not in self._held_problems:
                self._held_problems[code, problem] = worker.hold_problem(self.setup.problems[problem])
            if (problem, model) not in self._held:
                index = self._held_problems[code, problem]
                self._held[problem, model] = self.hold(worker, problem, model, index)
        except WorkerDied as error:
            self._deaths[code] = error.what
            raise
        return worker, self._held[problem, model]

    def fresh(
        self, problem: str, model: str, *, always: bool = False
    ) -> AbstractContextManager[tuple[ModelWorker, HeldModel]]:
        """A process with the model in it that was asked nothing yet; `always`: also for this package's own code, which keeps
        nothing. What died is not asked again."""
        code = self.setup.models[model].code
        if code in self._deaths or (code == installed_root() and not always):
            return nullcontext(self.held(problem, model))
        return self._fresh(problem, model)

    @contextmanager
    def _fresh(self, problem: str, model: str) -> Iterator[tuple[ModelWorker, HeldModel]]:
        with self.new_worker(self.setup.models[model].code) as worker:
            yield worker, self.hold(worker, problem, model)

    def cpu_seconds(self, model: str) -> float:
        """CPU time so far of the process that holds a model, or will."""
        worker = self._workers.get(self.setup.models[model].code)
        return 0.0 if worker is None else worker.cpu_seconds() or 0.0

    def meter(self, problem: str, model: str) -> Meter | None:
        """The meter of a model that has a reference; None, too, where one of the two cannot be asked."""
        key = (problem, model)
        if key not in self._meters and reference_of(model) in self.setup.models:
            try:
                self._meters[key] = Meter(self, problem, model)
            except WorkerDied as error:
                self._deaths.setdefault(self.setup.models[model].code, error.what)
            except Refused:
                return None
        return self._meters.get(key)

    def metered(self, model: str, meter: Meter, detectors: U8) -> Figures:
        """The end of a chunk of the main test; a model that took far too long is dead from here on."""
        try:
            return meter.chunk(detectors)
        except HiddenWork as hidden:
            self._deaths.setdefault(self.setup.models[model].code, hidden.what)
            return hidden.figures

    def ask(
        self, problem: str, model: str, detectors: U8, meter: Meter | None = None, order: int = 0
    ) -> Answers:
        """The model on some shots, and each of its stages on those that its gates let through. order: as in `deciders`.

        What the model fails to answer is invalid; it is never answered for it.
        """
        gates = self.gates(model)
        if gates.stages == 1:
            return self.ask_stage(problem, model, detectors, meter=meter)

        def ask(stage: int, rows: I64, earlier: npt.NDArray[Any] | None) -> Answers:
            return self.ask_stage(problem, model, detectors[rows], stage, earlier, meter)

        return through_gates(ask, self.deciders(problem, gates, order), gates.thresholds, detectors)

    def ask_stage(
        self,
        problem: str,
        model: str,
        detectors: U8,
        stage: int = 0,
        earlier: npt.NDArray[Any] | None = None,
        meter: Meter | None = None,
    ) -> Answers:
        """One stage on all of the shots, or the whole of a model that has one. earlier: what the stage before said about them."""
        code = self.setup.models[model].code
        parts = []
        for start in range(0, len(detectors), SLICE):
            rows = detectors[start : start + SLICE]
            before = None if earlier is None else earlier[start : start + SLICE]
            try:
                worker, held = self.held(problem, model)
                answered = self.screened(problem, held, *timed(worker, held, rows, stage, before))
                if meter is not None:
                    meter.question(len(rows), stage)
                parts.append(answered)
            except (WorkerDied, Refused) as error:
                if isinstance(error, WorkerDied):
                    self._deaths[code] = error.what
                parts.append(
                    self._nothing(problem, model, len(rows), f"{type(error).__name__}: {error.what}")
                )
        return Answers(
            np.concatenate([part.raw for part in parts]),
            np.concatenate([part.valid for part in parts]),
            sum(part.seconds for part in parts),
            parts[-1].kind,
            list(dict.fromkeys(text for part in parts for text in part.complaints)),
        )

    def checked(self, problem: str, held: HeldModel, raw: npt.NDArray[Any], detectors: U8) -> Answers:
        """The answers that count, out of those of all stages to all of the shots (`ModelWorker.all_answers`)."""
        parts = of_all_stages(raw, held.gates.stages)
        if len(parts) == 1:
            return self.screened(problem, held, raw)

        def ask(stage: int, rows: I64, _: npt.NDArray[Any] | None) -> Answers:
            return self.screened(problem, held, parts[stage][rows])

        return through_gates(ask, self.deciders(problem, held.gates), held.gates.thresholds, detectors)

    def screened(self, problem: str, held: HeldModel, raw: npt.NDArray[Any], seconds: float = 0.0) -> Answers:
        """Answers with every row that is not a valid answer found and replaced by the environment's own numbers."""
        valid = screen(self.setup.problems[problem], held, raw)
        return Answers(raw, valid, seconds, held.kind, [] if valid.all() else [INVALID])

    def _nothing(self, problem: str, model: str, shots: int, complaint: str) -> Answers:
        of, spec = self.setup.problems[problem], self.setup.models[model]
        kind: Kind = "faults" if spec.output_mode == "hard_flip" else "priors"
        if kind == "faults":
            raw: npt.NDArray[Any] = pack(np.zeros((shots, of.n_faults)))
        else:
            held = self._held.get((problem, model))
            kind, columns = (kind, of.n_faults) if held is None else (held.kind, held.columns)
            raw = np.full((shots, columns), 0.5, dtype=np.float32)
        return Answers(raw, np.zeros(shots, np.bool_), 0.0, kind, [complaint])

    def predict(self, problem: str, model: str, detectors: U8, answers: Answers, order: int = 0) -> U8:
        """Predicted observables. Residual and frame of applied faults come from this side's own H and L."""
        if not answers.valid.any():  # all of them fail, whatever is predicted
            n_observables = self.setup.problems[problem].n_observables
            return np.zeros((len(detectors), width(n_observables)), dtype=np.uint8)
        return predicted(answers, self.deciders(problem, self.gates(model), order), detectors)

    def log_odds(
        self, problem: str, model: str, detectors: U8, answers: Answers, order: int = 0
    ) -> npt.NDArray[np.float32]:
        """How sure the predictions are, from the answers, on this side; empty where the backend cannot say."""
        none = np.zeros(len(detectors), dtype=np.float32)
        if not answers.valid.any():
            return none
        try:
            found = log_odds_of(answers, self.deciders(problem, self.gates(model), order), detectors)
        except UnavailableError:
            return none[:0]
        return np.where(answers.valid, found, none).astype(np.float32)


def timed(
    worker: ModelWorker,
    held: HeldModel,
    detectors: U8,
    stage: int = 0,
    earlier: npt.NDArray[Any] | None = None,
) -> tuple[npt.NDArray[Any], float]:
    start = time.perf_counter()
    raw = worker.answers(held, detectors, stage=stage, earlier=earlier)
    return raw, time.perf_counter() - start


def _readable(error: Exception) -> AutoQECError:
    if isinstance(error, AutoQECError):
        return error
    return AutoQECError("".join(traceback.format_exception(error)).strip(), where="verify")


class TaskWorker(Worker):
    """A worker as a lane runs it: told a setup, asked tasks. It is trusted: it unpickles what the verifier sends it, and answers in
    plain data."""

    def __init__(self) -> None:
        self._verifier = VerifierWorker(NO_SETUP)

    def tell(self, message: bytes) -> None:
        self._verifier.close()
        self._verifier = VerifierWorker(pickle.loads(message))

    def answer(self, message: bytes) -> bytes:
        try:
            return encode(pickle.loads(message).run(self._verifier))
        except Exception as error:
            return encode_error(_readable(error))

    def close(self) -> None:
        self._verifier.close()
