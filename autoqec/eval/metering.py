"""CPU time of a model that is not this package's, beside that of a reference of known FLOPs, in the main test itself.

The shots of the main test were never asked before, so no answer to them can have been kept from an earlier question, and
the time is the model's process's own, as the kernel counts it: threads, and work between two questions, are in it.

The reference is this package's model of the same config with fresh weights or, where there is none, untrained belief propagation. After each
chunk of the main test it answers some of the chunk's shots, in a confined process of its own, on the same core: whatever else the
machine does slows both, and a ratio of CPU times does not know how long others had the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

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
    """Of some shots of the main test, or of one worker: sums of CPU seconds.

    cpu_s: of the model's process for `shots`. run_s, plain_s: of the reference, as it runs and by the operations that are
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


def summed(parts: list[tuple[float, ...]]) -> Metered | None:
    """All that was metered; None if any part of it was not."""
    if not parts or not all(parts):
        return None
    rows = np.array(parts)
    slowest = rows[rows[:, Metered._fields.index("build_s")].argmax()]
    return Metered(*rows[:, :6].sum(axis=0).tolist(), *slowest[6:].tolist())


def explained_s(spent: Metered, flops: float, is_twin: bool) -> float:
    """CPU seconds per shot that so many operations may take."""
    run_s, plain_s = spent.run_s / spent.run_shots, spent.plain_s / spent.plain_shots
    times = SLOWER[is_twin] * plain_s
    if is_twin:
        times = min(times, AS_RUN * run_s)
    return flops / spent.reference_flops * times + OVERHEAD * run_s


class HiddenWork(Portable):
    """A chunk of the main test was answered, and took too long. figures: its `Metered`."""

    def __init__(self, what: str, figures: tuple[float, ...]) -> None:
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
        self._claimed = claimed_flops(self._worker, self._held, noise[:_COUNTED])
        self._code, self._read = verifier.setup.models[model].code, verifier.cpu_read
        self._read[self._code] = _cpu(self._worker)
        before = verifier.cpu_seconds(reference)
        self._reference = verifier.held(problem, reference)
        asked_of(*self._reference, noise, as_counted=False)
        self._reference_build_s = _cpu(self._reference[0]) - before
        self._flops = self._reference[0].flops(self._reference[1], noise[:_COUNTED]).mean
        asked_of(*self._reference, noise, as_counted=True)
        plain_s = asked_of(*self._reference, noise, as_counted=True)
        self._flop_s = plain_s / (BATCH * max(self._flops, 1))
        self._shots, self._cpu_s, self._operations = 0, 0.0, 0.0

    def question(self, shots: int, stage: int = 0) -> None:
        """After each question of the main test; stage: of a cascade, which answers some of the shots once more."""
        now = _cpu(self._worker)
        spent, self._read[self._code] = now - self._read[self._code], now
        self._shots += shots if stage == 0 else 0
        self._cpu_s += spent
        operations = shots * self._claimed[stage]
        self._operations += operations
        # twice the time for one: chunks are the steadier ones
        self._stop(spent / 2 - STOP_S, shots, operations * self._flop_s)

    def chunk(self, detectors: U8) -> tuple[float, ...]:
        """At the end of a chunk: the reference's turn, and the `Metered` since the last one.

        Raises:
            HiddenWork: the model is not to be asked again.
        """
        as_run, plain = detectors[:_RUN], detectors[:BATCH]
        run_s = asked_of(*self._reference, as_run, as_counted=False)
        plain_s = asked_of(*self._reference, plain, as_counted=True)
        spent = Metered(
            self._shots,
            self._cpu_s,
            len(as_run),
            run_s,
            len(plain),
            plain_s,
            self._flops,
            self._build_s,
            self._reference_build_s,
        )
        operations = self._operations
        self._shots, self._cpu_s, self._operations = 0, 0.0, 0.0
        figures = tuple(float(each) for each in spent)
        try:
            self._stop(
                spent.cpu_s - STOP_CHUNK_S,
                spent.shots,
                operations * plain_s / (len(plain) * max(self._flops, 1)),
            )
        except WorkerDied as error:
            raise HiddenWork(error.what, figures) from None
        return figures

    def _stop(self, spent: float, shots: float, explained_s: float) -> None:
        if spent > self._slower * explained_s:
            self._worker.close()
            raise WorkerDied(
                f"used {spent:.1f} s of CPU for {shots:.0f} shots, and its operations explain {explained_s:.2f}: "
                "work is hidden from the count",
                where="the model's process",
            )


def claimed_flops(worker: ModelWorker, held: HeldModel, detectors: U8) -> tuple[int, ...]:
    """FLOPs of every stage on these shots, as the model's process counts them, whatever its gates say."""
    found: list[int] = []
    earlier = None
    for stage in range(held.gates.stages):
        found.append(worker.flops(held, detectors, stage=stage, earlier=earlier).mean)
        earlier = worker.answers(held, detectors, stage=stage, earlier=earlier)
    return tuple(found)


def reference_of(model: str) -> str:
    """The name of the reference beside a subject's model."""
    return f"{model.partition('/')[0]}/{REFERENCE}"


def asked_of(worker: ModelWorker, held: HeldModel, rows: U8, *, as_counted: bool) -> float:
    """CPU seconds for an answer."""
    before = _cpu(worker)
    worker.answers(held, rows, as_counted=as_counted)
    return _cpu(worker) - before


def _cpu(worker: ModelWorker) -> float:
    seconds = worker.cpu_seconds()
    if seconds is None:
        raise Refused("its CPU time cannot be read on this machine", where="the model's process")
    return seconds
