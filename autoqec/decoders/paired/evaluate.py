"""Paired evaluation over worker processes: bounded memory, resumable, interruptible."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import numpy as np

from autoqec.decoders.paired import worker
from autoqec.decoders.paired.result import PairedResult
from autoqec.decoders.paired.store import FailureStore, Record
from autoqec.decoders.protocol import DecoderFactory, shots_at_once
from autoqec.envs.environment import Environment
from autoqec.errors import InputError
from autoqec.executors.local import LocalExecutor
from autoqec.executors.protocol import Executor, Lanes
from autoqec.executors.protocol import run as run_lanes

CHUNK = 8192
"""Shots with one seed. A multiple of 8, so that packed chunks join at byte boundaries."""

_JOB_SECONDS = 0.5
_MOST_CHUNKS = 64
"""In one job. A job of a slow decoder is a part of a chunk."""
_SAVE_SECONDS = 5.0
_WORTH_WORKERS_S = 4.0
"""Less work than this, and at most one chunk, is done in this process: starting others takes seconds."""

Progress = Callable[[float, int, int], None]
"""Called with (p, shots done, shots wanted)."""


@dataclass
class _Group:
    """Decoders that have seen the same shots, are given as many at once, and continue together."""

    factories: tuple[DecoderFactory, ...]
    records: dict[str, Record]
    next_shot: int
    at_once: int
    job_shots: int = 0
    waiting: dict[int, worker.Done] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.job_shots = self.at_once

    def pace(self, done: worker.Done) -> None:
        """Later jobs take about as long as one should, at the speed of one that is done."""
        fitting = _JOB_SECONDS / max(done.wall, 1e-9) * (done.end - done.begin)
        self.job_shots = self.at_once
        while 2 * self.job_shots <= min(fitting, _MOST_CHUNKS * CHUNK):
            self.job_shots *= 2

    def commit(self, done: worker.Done) -> None:
        """Adds finished shots in order; what arrives early waits."""
        self.waiting[done.begin] = done
        while (ready := self.waiting.pop(self.next_shot, None)) is not None:
            self.next_shot = ready.end
            for name, record in self.records.items():
                record.bits = np.concatenate([record.bits, ready.bits[name]])
                record.shots += ready.end - ready.begin
                record.seconds += ready.seconds[name]


class Evaluator:
    """Runs paired evaluations; use it as a context manager, so that its workers end with it.

    executor: where the workers are; by default on this machine. workers: processes, by default one per core; 1 means in this process.
    labels: inclusive range of seed labels, one chunk each. store: whether to reuse and keep failure bits on disk.
    """

    def __init__(
        self,
        env: Environment,
        *,
        executor: Executor | None = None,
        workers: int | None = None,
        purpose: str = "baseline",
        labels: tuple[int, int] = (0, 2**31),
        store: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self._env = env
        self._executor = executor or LocalExecutor()
        self._workers = max(1, workers if workers is not None else self._executor.cores)
        self._purpose = purpose
        self._labels = labels
        self._use_store = store
        self._progress = progress or (lambda *_: None)
        self._lanes: Lanes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lanes is not None:
            self._lanes.close() if kind is None else self._lanes.stop()

    def run(
        self, p: float, factories: Sequence[DecoderFactory], shots: int, *, max_errors: int | None = None
    ) -> PairedResult:
        """Every decoder on the same first `shots` shots at p. Ctrl-C ends it early with what is there.

        max_errors: ends at the first whole chunk in which every decoder has so many failures. The result is the same whatever
        the cache holds already.
        """
        if shots < 0:
            raise InputError(f"shots = {shots}", where="shots", hint="give a number of at least 0")
        if len({f.name for f in factories}) != len(factories):
            raise InputError("a decoder is listed twice", where="decoders", hint="list each once")
        if -(-shots // CHUNK) > self._labels[1] - self._labels[0] + 1:
            raise InputError(
                f"{shots} shots need more than the {self._purpose} labels {list(self._labels)}, {CHUNK} shots each",
                where="seed_policy",
                hint="widen the range, or ask for fewer shots",
            )
        store = FailureStore(self._env.stream(p), self._purpose, CHUNK)
        groups = self._groups(store, factories, shots)
        reused = min((r.shots for g in groups for r in g.records.values()), default=0)
        interrupted = False
        target = shots if max_errors is None else min(CHUNK * self._workers, shots)
        while True:
            for group in groups:
                try:
                    self._extend(group, p, target, shots, store)
                except KeyboardInterrupt:
                    interrupted = True
                    self._stop_workers()
                    break
                finally:
                    self._save(store, group)
            records = [record for group in groups for record in group.records.values()]
            done = min(shots, min((record.shots for record in records), default=0))
            if max_errors is None or interrupted or target >= shots:
                break
            fewest = min((_errors(record.first(target)) for record in records), default=max_errors)
            if fewest >= max_errors:
                break
            target = min(_next_target(target, fewest, max_errors), shots)
        if max_errors is not None:
            done = min(done, max((_shots_with(record, max_errors) for record in records), default=done))
        cut = {name: r.first(done) for g in groups for name, r in g.records.items()}
        return PairedResult(
            p=p,
            shots=done,
            failures={f.name: cut[f.name].bits for f in factories},
            seconds={f.name: cut[f.name].seconds for f in factories},
            reused=min(reused, done),
            interrupted=interrupted,
        )

    def _groups(self, store: FailureStore, factories: Sequence[DecoderFactory], shots: int) -> list[_Group]:
        alike: dict[tuple[int, int], list[tuple[DecoderFactory, Record]]] = {}
        for factory in factories:
            record = store.load(factory.identity) if self._use_store else Record.empty()
            at_once = shots_at_once(factory)
            if record.shots < shots:  # what a decoder is given at once is decoded again, whole
                record = record.first(record.shots // at_once * at_once)
            start = record.shots if record.shots < shots else -1
            alike.setdefault((start, at_once), []).append((factory, record))
        return [
            _Group(
                factories=tuple(f for f, _ in members),
                records={f.name: r for f, r in members},
                next_shot=max(start, 0),
                at_once=at_once,
            )
            for (start, at_once), members in sorted(alike.items())
        ]

    def _extend(self, group: _Group, p: float, shots: int, wanted: int, store: FailureStore) -> None:
        """wanted: what the progress is shown of."""
        if all(r.shots >= shots for r in group.records.values()):
            return
        saved = time.monotonic()
        for done in self._finished(group, p, shots):
            group.pace(done)
            group.commit(done)
            self._progress(p, min(group.next_shot, shots), wanted)
            if time.monotonic() - saved > _SAVE_SECONDS:
                self._save(store, group)
                saved = time.monotonic()

    def _finished(self, group: _Group, p: float, shots: int) -> Iterator[worker.Done]:
        jobs = self._jobs(group, p, shots)
        alone = self._workers == 1 and isinstance(self._executor, LocalExecutor)
        if not alone and self._lanes is None and shots - group.next_shot <= CHUNK:
            first = worker.run(next(jobs))
            yield first
            rate = sum(first.seconds.values()) / (first.end - first.begin)
            alone = rate * (shots - first.end) < _WORTH_WORKERS_S
        if alone:
            for job in jobs:
                yield worker.run(job)
            return
        if self._lanes is None:
            self._lanes = self._executor.lanes(worker.PROGRAM, self._workers)
        for _, answer in run_lanes(self._lanes, map(pickle.dumps, jobs)):
            done: worker.Done | Exception = pickle.loads(answer)
            if isinstance(done, Exception):
                raise done
            yield done

    def _jobs(self, group: _Group, p: float, shots: int) -> Iterator[worker.Job]:
        spec = self._env.spec.model_dump_json()
        begin = group.next_shot
        while begin < shots:
            end = min(begin - begin % group.job_shots + group.job_shots, shots)
            yield worker.Job(
                spec,
                str(self._env.root),
                p,
                self._purpose,
                self._labels[0],
                CHUNK,
                begin,
                end,
                group.factories,
            )
            begin = end

    def _save(self, store: FailureStore, group: _Group) -> None:
        if self._use_store:
            for factory in group.factories:
                store.save(factory.identity, group.records[factory.name])

    def _stop_workers(self) -> None:
        if self._lanes is not None:
            self._lanes.stop()
            self._lanes = None


def _errors(record: Record) -> int:
    return int(np.bitwise_count(record.bits).sum())


def _shots_with(record: Record, errors: int) -> int:
    """Of the first whole chunks that hold so many failures; all where they do not."""
    so_far, per_chunk = 0, CHUNK // 8
    for chunk in range(0, len(record.bits), per_chunk):
        so_far += int(np.bitwise_count(record.bits[chunk : chunk + per_chunk]).sum())
        if so_far >= errors:
            return min((chunk + per_chunk) * 8, record.shots)
    return record.shots


def _next_target(target: int, fewest: int, wanted: int) -> int:
    """Whole chunks that should hold `wanted` failures, by what the first `target` shots held; not many more than are known to be needed."""
    factor = min(1.1 * wanted / fewest, 8.0) if fewest else 8.0
    return -(-max(int(factor * target), target + CHUNK) // CHUNK) * CHUNK
