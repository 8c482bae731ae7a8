"""One worker of a paired evaluation: samples chunks of shots and decodes them with every decoder that lacks them."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from autoqec.decoders.protocol import Decoder, DecoderFactory, shots_at_once
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.envs.sampling import Sampler, Shots
from autoqec.envs.schema import EnvSpec
from autoqec.envs.seeds import derive_seed
from autoqec.errors import AutoQECError
from autoqec.executors.protocol import Program, Worker
from autoqec.io.child_env import ONE_THREAD

_WARM_UP = 16


@dataclass(frozen=True)
class Job:
    """Shots [begin, end) of the stream at p, which comes in chunks of one seed each. They begin where each decoder is given new ones."""

    spec: str
    root: str
    p: float
    purpose: str
    first_label: int
    chunk: int
    begin: int
    end: int
    factories: tuple[DecoderFactory, ...]


@dataclass(frozen=True)
class Done:
    """Packed failure bits and CPU seconds per decoder name, over the job's shots in order."""

    begin: int
    end: int
    bits: dict[str, U8]
    seconds: dict[str, float]
    wall: float


class JobWorker(Worker):
    """Jobs, pickled; so are the answers: what is done, or the exception that says why it is not."""

    def answer(self, message: bytes) -> bytes:
        try:
            return pickle.dumps(run(pickle.loads(message)))
        except Exception as error:
            return _portable(error)


PROGRAM = Program(f"{__name__}:JobWorker", ONE_THREAD)


def _portable(error: Exception) -> bytes:
    """Not every exception comes back from its pickle."""
    try:
        payload = pickle.dumps(error)
        pickle.loads(payload)
    except Exception:
        return pickle.dumps(AutoQECError(repr(error)[:1000]))
    return payload


@lru_cache(maxsize=4)
def _scene(spec: str, root: str, p: float) -> tuple[Sampler, DecodingProblem, str]:
    env = Environment(EnvSpec.model_validate_json(spec), root=Path(root))
    return env.sampler(p), env.problem(p), env.stream(p)


@lru_cache(maxsize=64)
def _decoder(spec: str, root: str, p: float, factory: DecoderFactory) -> Decoder:
    sampler, problem, _ = _scene(spec, root, p)
    decoder = factory.build(problem)
    decoder.decode(
        sampler.sample(_WARM_UP, 0).detectors
    )  # so that compilation does not count as decoding time
    return decoder


def _cpu_seconds(decoder: Decoder) -> float:
    """Of this process, and of one that a decoder keeps for itself."""
    elsewhere = getattr(decoder, "seconds_elsewhere", None)
    return time.process_time() + (0.0 if elsewhere is None else elsewhere())


@lru_cache(maxsize=1)
def _chunk(spec: str, root: str, p: float, purpose: str, label: int, shots: int) -> Shots:
    """Always sampled whole, so that its shots do not depend on how many are asked for; kept for a job that goes on with it."""
    sampler, _, stream = _scene(spec, root, p)
    return sampler.sample(shots, derive_seed(purpose, stream, label))


def run(job: Job) -> Done:
    start = time.perf_counter()
    decoders = {f.name: (_decoder(job.spec, job.root, job.p, f), shots_at_once(f)) for f in job.factories}
    parts: dict[str, list[U8]] = {name: [] for name in decoders}
    seconds = dict.fromkeys(decoders, 0.0)
    for index in range(job.begin // job.chunk, -(-job.end // job.chunk)):
        sampled = _chunk(job.spec, job.root, job.p, job.purpose, job.first_label + index, job.chunk)
        before = index * job.chunk
        asked = slice(max(job.begin - before, 0), min(job.end - before, job.chunk))
        detectors, observables = sampled.detectors[asked], sampled.observables[asked]
        for name, (decoder, at_once) in decoders.items():
            since = _cpu_seconds(decoder)
            starts = range(0, len(detectors), at_once)
            predicted = np.concatenate([decoder.decode(detectors[i : i + at_once]) for i in starts])
            seconds[name] += _cpu_seconds(decoder) - since
            parts[name].append((predicted != observables).any(axis=1))
    bits = {name: np.packbits(np.concatenate(p), bitorder="little") for name, p in parts.items()}
    return Done(job.begin, job.end, bits, seconds, time.perf_counter() - start)
