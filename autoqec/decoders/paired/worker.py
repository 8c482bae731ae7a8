"""One worker of a paired evaluation: samples chunks of shots and decodes them with every decoder that lacks them."""

from __future__ import annotations

import pickle
import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from autoqec.decoders.protocol import Decoder, DecoderFactory
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.envs.sampling import Sampler
from autoqec.envs.schema import EnvSpec
from autoqec.envs.seeds import derive_seed
from autoqec.errors import AutoQECError
from autoqec.executors.protocol import Program, Worker
from autoqec.io.child_env import ONE_THREAD

_WARM_UP = 16


@dataclass(frozen=True)
class Job:
    """Chunks [begin, end) of the stream at p; of the last one only the first `last_shots` shots."""

    spec: str
    root: str
    p: float
    purpose: str
    first_label: int
    chunk: int
    begin: int
    end: int
    last_shots: int
    factories: tuple[DecoderFactory, ...]


@dataclass(frozen=True)
class Done:
    """Packed failure bits and CPU seconds per decoder name, over the job's shots in order."""

    begin: int
    end: int
    shots: int
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


def run(job: Job) -> Done:
    start = time.perf_counter()
    sampler, _, stream = _scene(job.spec, job.root, job.p)
    decoders = {f.name: _decoder(job.spec, job.root, job.p, f) for f in job.factories}
    parts: dict[str, list[U8]] = {name: [] for name in decoders}
    seconds = dict.fromkeys(decoders, 0.0)
    shots = 0
    for index in range(job.begin, job.end):
        wanted = job.last_shots if index == job.end - 1 else job.chunk
        # A chunk is always sampled whole, so that its shots do not depend on how many were asked for.
        sampled = sampler.sample(job.chunk, derive_seed(job.purpose, stream, job.first_label + index))
        detectors, observables = sampled.detectors[:wanted], sampled.observables[:wanted]
        shots += wanted
        for name, decoder in decoders.items():
            before = _cpu_seconds(decoder)
            predicted = decoder.decode(detectors)
            seconds[name] += _cpu_seconds(decoder) - before
            parts[name].append((predicted != observables).any(axis=1))
    bits = {name: np.packbits(np.concatenate(p), bitorder="little") for name, p in parts.items()}
    return Done(job.begin, job.end, shots, bits, seconds, time.perf_counter() - start)
