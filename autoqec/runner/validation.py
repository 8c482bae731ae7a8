"""Validation of a trained predecoder: paired with the plain backend at every p, beside every baseline at the reference p."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np

from autoqec.decoders.baselines.registry import choose, entry, unavailable
from autoqec.decoders.factory import PredecoderFactory
from autoqec.decoders.paired import Evaluator, PairedResult
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.protocol import DecoderFactory
from autoqec.decoders.reference_p import plain_backend
from autoqec.envs.environment import Environment
from autoqec.envs.seeds import derive_seed
from autoqec.executors.protocol import Executor
from autoqec.runner.profiles import Profile
from autoqec.stats.intervals import paired_difference
from autoqec.stats.target import Target, check_target

_SPEED_SHOTS = 8192


class Validation:
    """device: where the network runs. The classical decoders always take every core of the executor; a network on a GPU takes one
    process and joins the same shots."""

    def __init__(
        self,
        env: Environment,
        checkpoint: Path,
        profile: Profile,
        *,
        device: str,
        workers: int | None,
        executor: Executor | None = None,
    ) -> None:
        self._env, self._checkpoint, self._profile = env, checkpoint, profile
        self._device, self._workers, self._executor = device, workers, executor
        self._level = env.spec.eval_protocol.interval_level
        self._ours = self._predecoder(0)

    def _predecoder(self, order: int) -> PredecoderFactory:
        return PredecoderFactory.of(
            self._checkpoint, self._env.spec.classical_backend, device=self._device, order=order
        )

    def run(self, at: float) -> dict[str, Any]:
        """The fields of RoundMetrics that validation fills; the headline is taken at p = `at`."""
        plain = plain_backend(self._env)
        shots = self._profile.val_shots(self._env.spec.eval_protocol)
        shared: dict[str, Any] = {"purpose": "val", "labels": self._env.spec.noise.seed_policy.val}
        with (
            Evaluator(self._env, executor=self._executor, workers=self._workers, **shared) as everyone,
            Evaluator(self._env, workers=1, **shared) as alone,
        ):
            pairing = _Pairing(everyone, everyone if self._device == "cpu" else alone)
            sweep = [pairing.run(p, plain, self._ours, shots) for p in sorted(self._env.spec.noise.p)]
            rows = [self._row(result, plain) for result in sweep]
            beside = self._beside(pairing, at, shots)
        head = next(row for row in rows if row["p"] == at)
        return {
            "ler_plain_classical": head["ler_plain"],
            "ler_predecoder": head["ler_predecoder"],
            "delta_ler": head["delta"],
            "delta_ler_ci_low": head["delta_low"],
            "delta_ler_ci_high": head["delta_high"],
            "interval_level": self._level,
            "per_p": rows,
            "baselines": beside,
            "target": self._target(rows),
            "hard_flip": self._hard_flip(at),
        }

    def _target(self, rows: list[dict[str, Any]]) -> Target:
        counts = {
            row["p"]: (row["only_predecoder_failed"] + row["both_failed"], row["shots"]) for row in rows
        }
        wanted = self._env.spec.constraints
        return check_target(counts, target_ler=wanted.target_ler, target_p=wanted.target_p, level=self._level)

    def _beside(self, pairing: _Pairing, at: float, shots: int) -> list[dict[str, Any]]:
        """Every baseline of the environment and every reported OSD order, on the same shots."""
        spec = self._env.spec
        orders = spec.eval_protocol.osd_orders_reported
        problem = self._env.problem(at)
        rows = []
        for choice in choose(spec.baseline_decoders, orders, where="baseline_decoders"):
            if unavailable(choice, problem) is None:
                enough = shots if entry(choice.entry).fast else min(shots, self._profile.slow_shots)
                rows.append(self._row(pairing.run(at, choice, self._ours, enough), choice))
        if spec.classical_backend == "osd":
            for other in (self._predecoder(order) for order in orders if order):
                rows.append(self._row(pairing.network.run(at, [other, self._ours], shots), other))
        return rows

    def _hard_flip(self, at: float) -> dict[str, float] | None:
        """What `hard_flip` leaves for the backend, and how much faster the backend is on that (CPU time)."""
        pipeline = self._ours.build(self._env.problem(at))
        if not isinstance(pipeline, PredecoderPipeline) or pipeline.module.output_mode != "hard_flip":
            return None
        low, _ = self._env.spec.noise.seed_policy.val
        seed = derive_seed("val-speed", self._env.stream(at), low)
        raw = self._env.sampler(at).sample(_SPEED_SHOTS, seed).detectors
        residual = np.concatenate([pipeline.hard_flips(part).residual for part in np.array_split(raw, 64)])
        spent = []
        for shots in (raw, residual):
            pipeline.backend.decode(shots[:64])  # builds and warms up
            start = time.thread_time()
            pipeline.backend.decode(shots)
            spent.append(1e6 * (time.thread_time() - start) / len(shots))
        return {
            "residual_density": float(np.bitwise_count(residual).sum() / max(np.bitwise_count(raw).sum(), 1)),
            "backend_us_plain": spent[0],
            "backend_us_residual": spent[1],
            "backend_speedup": spent[0] / max(spent[1], 1e-9),
        }

    def _row(self, result: PairedResult, other: DecoderFactory) -> dict[str, Any]:
        theirs, ours, level = other.name, self._ours.name, self._level
        only_plain, only_ours, both = result.pair(theirs, ours)
        low, high = paired_difference(only_plain, only_ours, result.shots, level)
        ratio_low, ratio_high = result.ratio_interval(theirs, ours, level)
        return {
            "p": result.p,
            "shots": result.shots,
            "plain": theirs,
            "ler_plain": result.ler(theirs),
            "ler_predecoder": result.ler(ours),
            "delta": result.ler(theirs) - result.ler(ours),
            "delta_low": low,
            "delta_high": high,
            "ratio": result.ratio(theirs, ours),
            "ratio_low": ratio_low,
            "ratio_high": None if ratio_high == float("inf") else ratio_high,
            "only_plain_failed": only_plain,
            "only_predecoder_failed": only_ours,
            "both_failed": both,
            "us_per_shot_plain": result.us_per_shot(theirs),
            "us_per_shot_predecoder": result.us_per_shot(ours),
        }


class _Pairing:
    """Two evaluators on the same shots: one that takes every core, one where the network runs."""

    def __init__(self, classical: Evaluator, network: Evaluator) -> None:
        self._classical, self.network = classical, network

    def run(self, p: float, other: DecoderFactory, ours: PredecoderFactory, shots: int) -> PairedResult:
        if self.network is not self._classical:
            self._classical.run(p, [other], shots)
        return self.network.run(p, [other, ours], shots)
