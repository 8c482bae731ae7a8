"""The work that workers do on the shots of a bundle."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.reference_p import reference_p
from autoqec.envs.problem import U8
from autoqec.envs.sampling import Shots
from autoqec.eval.bundles import read_rows, sample_chunk
from autoqec.eval.metering import Figures
from autoqec.eval.verifier_worker import SLICE, VerifierWorker

F32 = npt.NDArray[np.float32]

PIECE, FIRST = 500, 8
"""Shots at most between two looks at the clock, and at first."""
QUESTIONS = 2 * SLICE
"""Shots of an estimate, or of the main test once more, that are asked at a time: so few that no order of them can be learned."""


@dataclass(frozen=True)
class Where:
    """Shots of a bundle: the problem they belong to and their two files."""

    problem: str
    detectors: Path
    observables: Path

    def read(self, verifier: VerifierWorker, start: int, stop: int) -> Shots:
        of = verifier.setup.problems[self.problem]
        return Shots(
            read_rows(self.detectors, of.n_checks, start, stop),
            read_rows(self.observables, of.n_observables, start, stop),
        )


class Scored(NamedTuple):
    """Failures of one decoder on shots [start, start + shots).

    bits: packed, spare bits clear. seconds: of decoding, and, for a model, of waiting for it. invalid: shots without a valid
    answer, which count as failures. complaints: why. metered: by stage, where it was asked for and could be had.
    log_odds: [shots] that a prediction is right, or empty. answered: of a cascade, how many shots each stage answered.
    """

    start: int
    shots: int
    bits: U8
    seconds: float
    model_seconds: float = 0.0
    invalid: int = 0
    complaints: tuple[str, ...] = ()
    metered: Figures = ()
    log_odds: F32 = np.empty(0, dtype=np.float32)
    answered: tuple[int, ...] = ()


def _parts(shots: Shots, seconds: float | None) -> Iterator[Shots]:
    """All of the shots at once; or, where there is a time, as many as are done in it, no more at once than its rest allows."""
    begin, done = time.perf_counter(), 0
    step = len(shots.detectors) if seconds is None else FIRST
    while done < len(shots.detectors):
        yield Shots(*(rows[done : done + step] for rows in shots))
        done += step
        if seconds is not None:
            spent = time.perf_counter() - begin
            if spent >= seconds:
                return
            step = max(1, min(2 * step, PIECE, int((seconds - spent) * done / max(spent, 1e-9))))


@dataclass(frozen=True)
class Sample:
    """The chunk of one label at one p. A worker is told its seed, and not the secret that the seed follows from."""

    spec: str
    root: str
    p: float
    seed: int

    def run(self, verifier: VerifierWorker) -> Shots:
        return sample_chunk(verifier.environment(self.spec, self.root), self.p, self.seed)


@dataclass(frozen=True)
class ReferenceP:
    """The p at which the headline is quoted, found without the user's caches."""

    spec: str
    root: str

    def run(self, verifier: VerifierWorker) -> float:
        return reference_p(verifier.environment(self.spec, self.root), store=False)


@dataclass(frozen=True)
class Baseline:
    """A classical decoder on shots [start, stop); `seconds` bounds its time, and fewer shots come back then."""

    where: Where
    choice: DecoderChoice
    start: int
    stop: int
    seconds: float | None = None

    def run(self, verifier: VerifierWorker) -> Scored:
        decoder = verifier.decoder(self.where.problem, self.choice)
        shots = self.where.read(verifier, self.start, self.stop)
        decoder.decode(shots.detectors[:16])  # compiles, where there is something to compile
        begin = time.perf_counter()
        parts: list[U8] = []
        done = 0
        for part in _parts(shots, self.seconds):
            parts.append((decoder.decode(part.detectors) != part.observables).any(axis=1))
            done += len(part.detectors)
        bits = np.packbits(np.concatenate(parts), bitorder="little")
        return Scored(self.start, done, bits, time.perf_counter() - begin)


@dataclass(frozen=True)
class Candidate:
    """A model with its backend on shots [start, stop); `order`: of ordered statistics; `seconds` as in `Baseline`; `metered`:
    the CPU time of foreign code is taken; `among_others`: tasks that are not metered ask the model, too; `confident`: with
    log-odds, whose time counts for nobody."""

    where: Where
    model: str
    start: int
    stop: int
    order: int = 0
    seconds: float | None = None
    metered: bool = False
    among_others: bool = False
    confident: bool = False

    def run(self, verifier: VerifierWorker) -> Scored:
        shots = self.where.read(verifier, self.start, self.stop)
        meter = verifier.meter(self.where.problem, self.model) if self.metered else None
        if meter is not None and self.among_others:
            meter.resume()
        begin = time.perf_counter()
        failed, waited, invalid, log_odds, beside, reached = [], 0.0, 0, [], 0.0, []
        complaints: dict[str, None] = {}
        done = 0
        for part in _parts(shots, self.seconds):
            answers = verifier.ask(self.where.problem, self.model, part.detectors, meter, self.order)
            predicted = verifier.predict(self.where.problem, self.model, part.detectors, answers, self.order)
            failed.append((predicted != part.observables).any(axis=1) | ~answers.valid)
            if self.confident:
                asked = time.perf_counter()
                log_odds.append(
                    verifier.log_odds(self.where.problem, self.model, part.detectors, answers, self.order)
                )
                beside += time.perf_counter() - asked
            if answers.stage is not None:
                reached.append(np.bincount(answers.stage, minlength=verifier.gates(self.model).stages))
            waited += answers.seconds
            invalid += int((~answers.valid).sum())
            complaints |= dict.fromkeys(answers.complaints)
            done += len(part.detectors)
        bits = np.packbits(np.concatenate(failed), bitorder="little")
        seconds = time.perf_counter() - begin - waited - beside
        spent = (
            () if meter is None or invalid == done else verifier.metered(self.model, meter, shots.detectors)
        )
        sure = np.concatenate(log_odds) if log_odds else np.empty(0, dtype=np.float32)
        answered = tuple(np.sum(reached, axis=0).tolist()) if reached else ()
        return Scored(
            self.start, done, bits, seconds, waited, invalid, tuple(complaints)[:5], spent, sure, answered
        )
