"""The evaluation itself: shots are sampled into the bundle, decoded by the pool of workers, and tallied."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from autoqec.decoders.baselines.registry import DecoderChoice, choose, unavailable
from autoqec.envs.environment import Environment
from autoqec.envs.problem import DecodingProblem
from autoqec.eval.ablations import REAL, UNTRAINED
from autoqec.eval.bundles import CHUNK, Bundle
from autoqec.eval.guards import Guard
from autoqec.eval.options import VerifyOptions
from autoqec.eval.secret import Secret
from autoqec.eval.tally import Tally
from autoqec.eval.tasks import QUESTIONS, Baseline, Candidate, Sample, Scored, Where
from autoqec.eval.verification_state import VerificationState
from autoqec.eval.verifier_pool import VerifierPool
from autoqec.eval.verifier_worker import Task
from autoqec.stats.sequential import Evidence, confirm, decide_evidence
from autoqec.stats.table import PairedTable

ABLATION_SIGMAS = 5.0
ABLATION_FAILURES = 200
"""The ablation takes as many shots as show the gain at five sigma, and the baseline failing 200 times."""

CONFIDENT_SHOTS = 100_000
"""Shots of the test, at each p, whose log-odds are computed, too; on the estimate's it is all."""

Sink = Callable[[Any], None]


@dataclass
class Evaluation:
    """Scores of all decoders on one bundle."""

    env: Environment
    options: VerifyOptions
    pool: VerifierPool
    bundle: Bundle
    secret: Secret
    reference_p: float
    problems: Mapping[float, DecodingProblem]
    plain: DecoderChoice
    tally: Tally = field(default_factory=Tally)

    def where(self, p: float) -> Where:
        return Where(repr(p), *self.bundle.files(p))

    def confirm(self, keys: Sequence[str], alphas: Sequence[float]) -> list[Evidence]:
        """The sequential test at the reference p: shots are added until the first subject is decided, or to the cap."""
        p, plain = self.reference_p, self.plain.name
        minimum, maximum = self.sizes

        def more(shots: int) -> PairedTable:
            before = self.tally.shots(p, plain)
            self._decode_to(p, min(-(-(before + shots) // CHUNK) * CHUNK, maximum), keys)
            return self.tally.table(p, plain, f"{keys[0]}/{REAL}", start=before)

        # without any alpha left, more shots than the minimum cannot decide for a gain
        until = maximum if alphas[0] else minimum
        first = confirm(more, min_shots=minimum, max_shots=until, alpha_gain=alphas[0])
        return [first] + [
            decide_evidence(self.tally.table(p, plain, f"{key}/{REAL}"), alpha_gain=alpha)
            for key, alpha in zip(keys[1:], alphas[1:], strict=True)
        ]

    def estimate(self, key: str, before: Sequence[Candidate]) -> tuple[Scored, ...]:
        """The subject, its untrained form, the plain backend and the other baselines at the reference p, on shots of a number fixed
        before. before: shots of the main test, whose scores are returned; among the others, so that no model can tell which they are."""
        p, shots = self.reference_p, self.sizes[0]
        scored: list[Scored] = []
        self._decode_to(p, shots, [key], {task: [scored.append] for task in before})
        work: dict[Task, list[Sink]] = {task: [sink] for task, sink in self._more_decoders(p, [])}
        if (untrained := f"{key}/{UNTRAINED}") in self.pool.models:
            for low in range(0, shots, CHUNK):
                task = Candidate(self.where(p), untrained, low, min(low + CHUNK, shots))
                work[task] = [self._adder(p, untrained)]
        self._run("estimate of the effect", work)
        return tuple(scored)

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """Minimum and maximum shots of the test. Only a confirmation grows: where sampling stops on success, effects are overstated."""
        if not self.bundle.fresh:
            there = self.bundle.shots(self.reference_p)
            return there, there
        if self.bundle.fixed is not None:
            return self.bundle.fixed, self.bundle.fixed
        minimum = self.options.floor(self.env)
        return minimum, self.options.ceiling(self.env) if self.bundle.kind == "confirm" else minimum

    def ablation_shots(self, key: str) -> int:
        """Enough of the main test's shots to see the same gain, in whole chunks."""
        table = self.tally.table(self.reference_p, self.plain.name, f"{key}/{REAL}")
        sigmas = abs(table.b - table.c) / math.sqrt(max(table.discordant, 1))
        share = (ABLATION_SIGMAS / max(sigmas, 1e-9)) ** 2
        failures = ABLATION_FAILURES / max(table.baseline_failures, 1)
        wanted = math.ceil(table.shots * min(max(share, failures), 1.0))
        return min(-(-wanted // CHUNK) * CHUNK, table.shots)

    def finish(
        self, verifications: Sequence[VerificationState], guards: Sequence[Guard]
    ) -> dict[str, dict[str, list[Any]]]:
        """Everything beyond the test: other error rates, other decoders, and the guards' own work.

        Returns: the answers to each guard's tasks, by the verification's key and the guard's name.
        """
        keys = [verification.key for verification in verifications]
        others = [p for p in self.env.spec.noise.p if p != self.reference_p]
        if not self.bundle.fresh:
            others = [p for p in others if self.bundle.shots(p)]
        for p in others:
            self._sample(p, self.options.floor(self.env))
        work: dict[Task, list[Sink]] = {}
        answers: dict[str, dict[str, list[Any]]] = {verification.key: {} for verification in verifications}

        def add(some: Iterable[Guard]) -> None:
            for verification, guard in itertools.product(verifications, some):
                tasks = list(guard.prepare(verification))
                slots: list[Any] = [None] * len(tasks)
                answers[verification.key][guard.name] = slots
                for index, task in enumerate(tasks):
                    work.setdefault(task, []).append(self._sink(verification, task, slots, index))

        add(guard for guard in guards if guard.at_once)
        for p in (self.reference_p, *others):
            for task, sink in self._more_decoders(p, keys):
                work.setdefault(task, []).append(sink)
        add(guard for guard in guards if not guard.at_once)
        for p in others:
            for task, sink in self._chunks(p, 0, self.bundle.shots(p), keys):
                work.setdefault(task, []).append(sink)
        self._run("other error rates, baselines and guards", work)
        return answers

    def _sink(self, verification: VerificationState, task: Task, slots: list[Any], index: int) -> Sink:
        def put(result: Any) -> None:
            slots[index] = result
            if isinstance(task, Candidate):
                self.tally.add(verification.reference_p, task.model, result)

        return put

    def _decode_to(
        self, p: float, shots: int, keys: Sequence[str], besides: Mapping[Task, list[Sink]] | None = None
    ) -> None:
        """The plain backend and every subject on the first `shots` shots at p; besides: other work, put among it at random."""
        self._sample(p, shots)
        work: dict[Task, list[Sink]] = {}
        start = self.tally.shots(p, self.plain.name)
        for task, sink in self._chunks(p, start, shots, keys, in_questions=besides is not None):
            work.setdefault(task, []).append(sink)
        if besides is not None:
            mixed = [*work.items(), *besides.items()]
            random.SystemRandom().shuffle(mixed)
            work = dict(mixed)
        self._run(f"p = {p:g}", work)

    def _sample(self, p: float, shots: int) -> None:
        if not self.bundle.fresh:
            return
        spec, root = self.env.spec.model_dump_json(), str(self.env.root)
        tasks = [
            Sample(spec, root, p, self.bundle.seed(self.secret, p, label))
            for label in self.bundle.missing(p, shots)
        ]
        self.bundle.add(p, self.pool.run(tasks, self._counter(f"sampling, p = {p:g}", len(tasks))))

    def _chunks(
        self, p: float, start: int, stop: int, keys: Sequence[str], *, in_questions: bool = False
    ) -> list[tuple[Task, Sink]]:
        """The plain backend and the subjects in chunks; in_questions: in smaller parts, whose CPU time is not taken."""
        work: list[tuple[Task, Sink]] = []
        size = QUESTIONS if in_questions else CHUNK
        for low in range(start, stop, size):
            high = min(low + size, stop)
            for key in keys:
                task = Candidate(
                    self.where(p),
                    f"{key}/{REAL}",
                    low,
                    high,
                    metered=not in_questions,
                    among_others=p != self.reference_p,
                    confident=low < CONFIDENT_SHOTS or self.bundle.kind == "estimate",
                )
                work.append((task, self._adder(p, task.model)))
            work.append((Baseline(self.where(p), self.plain, low, high), self._adder(p, self.plain.name)))
        return work

    def _more_decoders(self, p: float, keys: Sequence[str]) -> list[tuple[Task, Sink]]:
        """The environment's other baselines, and the subjects at the other orders of ordered statistics."""
        shots, seconds = self.bundle.shots(p), self.options.baseline_seconds
        work: list[tuple[Task, Sink]] = [
            (Baseline(self.where(p), choice, 0, shots, seconds), self._adder(p, choice.name))
            for choice in self.other_choices()
            if unavailable(choice, self.problems[p]) is None
        ]
        for order in self.other_orders():
            for key in keys:
                task = Candidate(self.where(p), f"{key}/{REAL}", 0, shots, order, seconds)
                work.append((task, self._adder(p, at_order(key, order))))
        return work

    def other_choices(self) -> list[DecoderChoice]:
        spec = self.env.spec
        wanted = choose(
            spec.baseline_decoders, spec.eval_protocol.osd_orders_reported, where="baseline_decoders"
        )
        return [choice for choice in wanted if choice != self.plain]

    def other_orders(self) -> list[int]:
        """Orders of ordered statistics, beyond that of the plain backend, at which the subjects are reported, too."""
        if self.env.spec.classical_backend != "osd":
            return []
        return [n for n in self.env.spec.eval_protocol.osd_orders_reported if n != (self.plain.order or 0)]

    def _adder(self, p: float, name: str) -> Sink:
        return lambda scored: self.tally.add(p, name, scored)

    def _run(self, what: str, work: Mapping[Task, Sequence[Sink]]) -> None:
        tasks = list(work)
        results = self.pool.run(tasks, self._counter(what, len(tasks)))
        for task, result in zip(tasks, results, strict=True):
            for sink in work[task]:
                sink(result)

    def _counter(self, what: str, total: int) -> Sink:
        """Tells the caller of each task that is done."""
        done = itertools.count(1)

        def count(_result: Any) -> None:
            if self.options.progress is not None:
                self.options.progress(what, next(done), total)

        return count


def at_order(key: str, order: int) -> str:
    """Name of a subject decoded at another order than the plain backend's."""
    return f"{key}/{REAL}+osd-{order}"
