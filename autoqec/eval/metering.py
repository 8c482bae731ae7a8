"""CPU time of a model that is not this package's, beside that of a reference of known FLOPs, in the main test itself.

The shots of the main test were never asked before, so no answer to them can have been kept from an earlier question, and
the time is the model's process's own, as the kernel counts it: threads, and work between two questions, are in it.

The reference is this package's model of the same config with fresh weights or, where there is none, untrained belief propagation. After each
chunk of the main test it answers some of the chunk's shots, in a confined process of its own, on the same core: whatever else the
machine does slows both, and a ratio of CPU times does not know how long others had the core. Each stage of a cascade is metered by itself, per
shot that reaches it, beside that stage of the reference: work for the few shots that go on is small in the mean over all of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.decoders.cost_basis import typical_syndromes
from autoqec.envs.problem import U8
from autoqec.errors import Portable
from autoqec.sandbox.confined import Refused, WorkerDied
from autoqec.sandbox.worker import BATCH, HeldModel, ModelWorker

if TYPE_CHECKING:
    from autoqec.eval.verifier_worker import VerifierWorker

REFERENCE = "reference"
"""The form of a subject that its CPU time is compared with."""
SLOWER = {True: 2.5, False: 6.0}
"""Times slower than the reference as it is counted, per operation, that a model may be: with its twin for a reference, and without.
Without compiled kernels this package's own models are slower than with them by up to 20."""
AS_RUN = 40.0
"""Times slower than a twin as it runs. Other work in the caches slows what is counted more than what runs, and may excuse nothing."""
OVERHEAD = 0.25
"""Share of the reference's time as it runs that goes without operations: reading shots, writing answers."""
STOP_S, STOP_CHUNK_S = 2.0, 10.0
"""CPU seconds that a question, and a chunk, may take in any case. A model that takes more, and more than its operations explain, has
failed and is not asked again: a verification takes a time in proportion to the count. All others are, so that each guard has its say."""
_COUNTED = 8
_RUN = 4 * BATCH
"""A whole question, as the model is asked: the first batch of one finds cold caches."""


class Metered(NamedTuple):
    """Of one stage, on those shots of a chunk or of the main test that reach it: sums of CPU seconds.

    cpu_s: of the model's process for `shots`. run_s, plain_s: of the same stage of the reference, as it runs and by the operations that are
    counted, at `reference_flops` a shot. build_s, reference_build_s: from the start of a process to the first shot; the
    longest of all workers'.
    """

    shots: float
    cpu_s: float
    run_shots: float
    run_s: float
    plain_shots: float
    plain_s: float
    reference_flops: float
    build_s: float
    reference_build_s: float


Figures = tuple[tuple[float, ...], ...]
"""A `Metered` for each stage, as plain numbers; empty where nothing was metered."""


def summed(parts: Sequence[Figures]) -> tuple[Metered, ...]:
    """All that was metered, by stage; empty if any part of it was not."""
    if not parts or len({len(part) for part in parts}) != 1:
        return ()
    return tuple(_sum_of(stage) for stage in zip(*parts, strict=True))


def _sum_of(parts: Sequence[tuple[float, ...]]) -> Metered:
    rows = np.array(parts)
    slowest = rows[rows[:, Metered._fields.index("build_s")].argmax()]
    total = Metered(*rows[:, :6].sum(axis=0).tolist(), *slowest[6:].tolist())
    flops = sum(part.reference_flops * part.plain_shots for part in map(Metered._make, parts))
    return total._replace(reference_flops=flops / max(total.plain_shots, 1))


def explained_s(spent: Metered, flops: float, is_twin: bool) -> float:
    """CPU seconds per shot that so many operations may take."""
    run_s, plain_s = spent.run_s / spent.run_shots, spent.plain_s / spent.plain_shots
    times = SLOWER[is_twin] * plain_s
    if is_twin:
        times = min(times, AS_RUN * run_s)
    return flops / spent.reference_flops * times + OVERHEAD * run_s


class HiddenWork(Portable):
    """A chunk of the main test was answered, and took too long. figures: what was metered."""

    def __init__(self, what: str, figures: Figures) -> None:
        super().__init__(what)
        self.what, self.figures = what, figures


class Meter:
    """In one worker of the verifier, for one model on one problem.

    Raises:
        Refused, WorkerDied: a model cannot be built or asked.
    """

    def __init__(self, verifier: VerifierWorker, problem: str, model: str) -> None:
        reference = reference_of(model)
        self._slower = SLOWER[verifier.setup.models[reference].dsl == verifier.setup.models[model].dsl]
        noise = typical_syndromes(
            verifier.setup.problems[problem], BATCH, int.from_bytes(np.random.bytes(4), "little")
        )
        before = verifier.cpu_seconds(model)
        self._worker, self._held = verifier.held(problem, model)
        self._worker.all_answers(self._held, noise)  # compiles, where there is something to compile
        self._build_s = _cpu(self._worker) - before
        self._claimed = claimed_flops(self._worker, self._held, noise)
        self._code, self._read = verifier.setup.models[model].code, verifier.cpu_read
        self._read[self._code] = _cpu(self._worker)
        before = verifier.cpu_seconds(reference)
        self._reference = verifier.held(problem, reference)
        all_of_them = [BATCH] * self._reference[1].gates.stages
        asked_of(*self._reference, noise, all_of_them, as_counted=False)
        self._reference_build_s = _cpu(self._reference[0]) - before
        self._flops = claimed_flops(*self._reference, noise)
        asked_of(*self._reference, noise, all_of_them, as_counted=True)
        plain_s = asked_of(*self._reference, noise, all_of_them, as_counted=True)
        self._flop_s = [
            spent / (BATCH * max(flops, 1)) for spent, flops in zip(plain_s, self._flops, strict=True)
        ]
        self._start()

    def _start(self) -> None:
        """Of a chunk."""
        self._asked, self._cpu_s = [0] * len(self._claimed), [0.0] * len(self._claimed)

    def resume(self) -> None:
        """Where others asked the model's process in between: their time is not the model's. One that is gone says so when it is asked."""
        with contextlib.suppress(WorkerDied, Refused):
            self._read[self._code] = _cpu(self._worker)

    def question(self, shots: int, stage: int = 0) -> None:
        """After each question of the main test; stage: of a cascade, which answers some of the shots once more."""
        now = _cpu(self._worker)
        spent, self._read[self._code] = now - self._read[self._code], now
        self._asked[stage] += shots
        self._cpu_s[stage] += spent
        flop_s = self._flop_s[self._like(stage)]
        # twice the time for one: chunks are the steadier ones
        self._stop(spent / 2 - STOP_S, shots, shots * self._claimed[stage] * flop_s)

    def chunk(self, detectors: U8) -> Figures:
        """At the end of a chunk: the reference's turn, and the `Metered` of each stage since the last one.

        Raises:
            HiddenWork: the model is not to be asked again.
        """
        as_run, plain = (
            self._turn(detectors[:size], is_plain) for size, is_plain in ((_RUN, False), (BATCH, True))
        )
        spent = [
            Metered(
                asked,
                self._cpu_s[stage],
                *as_run[stage],
                *plain[stage],
                self._flops[self._like(stage)],
                self._build_s,
                self._reference_build_s,
            )
            for stage, asked in enumerate(self._asked)
        ]
        self._start()
        figures = tuple(tuple(float(each) for each in row) for row in spent)
        explained = sum(
            row.shots * claimed * row.plain_s / (row.plain_shots * max(row.reference_flops, 1))
            for row, claimed in zip(spent, self._claimed, strict=True)
            if row.shots
        )
        try:
            self._stop(sum(row.cpu_s for row in spent) - STOP_CHUNK_S, spent[0].shots, explained)
        except WorkerDied as error:
            raise HiddenWork(error.what, figures) from None
        return figures

    def _like(self, stage: int) -> int:
        """The stage of the reference that a stage of the model is compared with: belief propagation has one."""
        return min(stage, len(self._flops) - 1)

    def _turn(self, rows: U8, as_counted: bool) -> list[tuple[int, float]]:
        """For each stage of the model, the shots that the reference was asked in its place, as many as it was if there are so many, and the CPU
        seconds that they took."""
        counts = [min(len(rows), asked) for asked in self._asked]
        worker, held = self._reference
        if len(self._flops) == len(counts):
            spent = asked_of(worker, held, rows, counts, as_counted=as_counted)
        else:
            spent = [asked_of(worker, held, rows, [count], as_counted=as_counted)[0] for count in counts]
        return list(zip(counts, spent, strict=True))

    def _stop(self, spent: float, shots: float, explained_s: float) -> None:
        if spent > self._slower * explained_s:
            self._worker.close()
            raise WorkerDied(
                f"used {spent:.1f} s of CPU for {shots:.0f} shots, and its operations explain {explained_s:.2f}: "
                "work is hidden from the count",
                where="the model's process",
            )


def claimed_flops(worker: ModelWorker, held: HeldModel, detectors: U8) -> tuple[int, ...]:
    """FLOPs of every stage on these shots, as the model's process counts them, whatever its gates say; on the first ones alone where the count is
    the same for every shot."""
    found: list[int] = []
    earlier = None
    for stage in range(held.gates.stages):
        first = None if earlier is None else earlier[:_COUNTED]
        claim = worker.flops(held, detectors[:_COUNTED], stage=stage, earlier=first)
        if claim.spread:
            claim = worker.flops(held, detectors, stage=stage, earlier=earlier)
        found.append(claim.mean)
        earlier = worker.answers(held, detectors, stage=stage, earlier=earlier)
    return tuple(found)


def reference_of(model: str) -> str:
    """The name of the reference beside a subject's model."""
    return f"{model.partition('/')[0]}/{REFERENCE}"


def asked_of(
    worker: ModelWorker, held: HeldModel, rows: U8, counts: Sequence[int], *, as_counted: bool
) -> list[float]:
    """CPU seconds of each stage for an answer to the first rows; counts: how many, never more than of the stage before."""
    spent: list[float] = []
    earlier: npt.NDArray[Any] | None = None
    for stage, count in enumerate(counts):
        given = None if earlier is None else earlier[:count]
        before = _cpu(worker)
        if count:
            earlier = worker.answers(held, rows[:count], as_counted=as_counted, stage=stage, earlier=given)
        spent.append(_cpu(worker) - before)
    return spent


def _cpu(worker: ModelWorker) -> float:
    seconds = worker.cpu_seconds()
    if seconds is None:
        raise Refused("its CPU time cannot be read on this machine", where="the model's process")
    return seconds
