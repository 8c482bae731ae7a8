"""The training of a round: its objective, the shots that choose among its states, and for a cascade one stage after the other."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from autoqec.decoders.backends import Backend, make_backend
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.envs.seeds import derive_seed
from autoqec.layout import RoundDir
from autoqec.runner.data import FaultSampler, sampling_device
from autoqec.runner.failures import FailureObjective, Unsettled, few_numbers
from autoqec.runner.gap import make_pairs
from autoqec.runner.hard_shots import HardShots, IsHard
from autoqec.runner.losses import MARGINAL_LOSSES
from autoqec.runner.objective import GapObjective, MarginalObjective, Objective
from autoqec.runner.profiles import Profile
from autoqec.runner.schema import TrainingStop
from autoqec.runner.stages import MOST_LOOKED_THROUGH, LeftOpen, OpenSampler, set_threshold
from autoqec.runner.train import Schedule, Select, TrainingReport, joined, saved_stage, saved_weights, train

Progress = Callable[[int, int, float], None]

REFERENCE_SHARE = 0.7
_LATER_BUFFER = 8
"""The buffer of a later stage is so many times smaller: an open shot is rare."""
_STAGE_SEEDS = 10_000_000

_STOPPED: dict[TrainingStop, str] = {
    "all_steps": "all steps done",
    "time_budget": "time budget of {seconds:g} s used up after {steps} steps",
    "patience": "{patience} evaluations in a row were worse than the best",
    "no_epochs": "epochs: 0",
}


class Training:
    """at: the reference p. device: where the network trains."""

    def __init__(
        self,
        env: Environment,
        profile: Profile,
        files: RoundDir,
        *,
        seed: int,
        at: float,
        device: torch.device,
        nan_rate: float,
        progress: Progress | None = None,
    ) -> None:
        self._env, self._profile, self._files = env, profile, files
        self._seed, self._at, self._device = seed, at, device
        self._nan_rate, self._progress = nan_rate, progress
        self._stage = 0
        self._share = 1.0

    def _per_epoch(self, dsl: PredecoderDSL) -> int:
        shots = self._profile.train_shots(self._env.spec.eval_protocol)
        return max(1, shots // dsl.training.batch_size)

    def planned_steps(self, dsl: PredecoderDSL) -> int:
        return self._per_epoch(dsl) * sum(part.training.epochs for part in dsl.parts)

    def run(
        self, dsl: PredecoderDSL, module: ProblemPredecoder, problems: list[DecodingProblem]
    ) -> tuple[TrainingReport, dict[str, Any]]:
        """Trains in place. problems: at every p of the sweep. Returns also the fields of RoundMetrics that training fills."""
        start = time.monotonic()
        sampler = self._sampler(problems)
        per_epoch = self._per_epoch(dsl)
        stages = dsl.parts
        select: Select | None = None
        reports, notes = [], []
        resumed = saved_stage(self._files.training_state) or 0
        for self._stage, part in enumerate(stages):
            if self._stage < resumed:  # its numbers come with the state of the later one
                continue
            if isinstance(module, CascadePredecoder):
                self._begin(module, self._files.training_state if self._stage == resumed > 0 else None)
            steps = per_epoch * part.training.epochs
            draws = steps * part.training.batch_size
            objective = self._objective(part, module, sampler, draws) if steps else None
            left = self._profile.train_seconds - (time.monotonic() - start)
            schedule = Schedule(
                steps=steps,
                per_epoch=per_epoch,
                learning_rate=part.training.learning_rate,
                seconds=max(1.0, left / (len(stages) - self._stage)),
                nan_rate=self._nan_rate,
            )
            if objective is None:
                if self._stage == 0:
                    self._files.train_log.write_text("")
                report = TrainingReport(stopped="no_epochs")
            else:
                select = select or self._selection()
                report = train(
                    module,
                    objective,
                    schedule,
                    select=select,
                    log=self._files.train_log,
                    state_path=self._files.training_state,
                    progress=self._progress,
                    stage=self._stage,
                    is_last=part is stages[-1],
                )
            reports.append(report)
            notes.append((f"stage {self._stage + 1}: " if len(stages) > 1 else "") + _note(report, schedule))
        self._files.training_state.unlink(missing_ok=True)
        module.to("cpu")
        report = joined(reports)
        return report, {
            "train_wallclock_s": report.earlier_s + time.monotonic() - start,
            "train_loss_initial": report.losses[0] if report.losses else None,
            "train_loss_final": report.losses[-1] if report.losses else None,
            "train_loss_mean_last_epoch": report.mean_of_last(per_epoch),
            "train_batches_total": report.steps,
            "training_log_path": str(self._files.train_log.resolve()),
            "training_stopped": report.stopped,
            "training_kept_step": report.kept_step if report.steps else None,
            "training_note": "; ".join(notes),
        }

    def _sampler(self, problems: list[DecodingProblem]) -> FaultSampler:
        """Most shots at the reference p, where the round is judged; the rest keeps the model right along the sweep."""
        sweep = self._env.spec.noise.p
        others = REFERENCE_SHARE if len(sweep) == 1 else (1 - REFERENCE_SHARE) / (len(sweep) - 1)
        shares = [REFERENCE_SHARE if p == self._at else others for p in sweep]
        return FaultSampler(problems, sampling_device(self._device), shares=shares)

    def _begin(self, module: CascadePredecoder, saved: Path | None) -> None:
        """The gate in front of the stage, and the stages that are in use. saved: the state that this stage resumes from."""
        if saved is not None:
            module.train_stage(self._stage)
            module.load_state_dict(saved_weights(saved, self._device))
        elif self._stage > 0:
            low, _ = self._env.spec.noise.seed_policy.train
            seed = derive_seed("train-gate", self._env.stream(self._at), low + self._stage)
            shots = self._profile.selection_shots(self._env.spec.eval_protocol)
            sample = self._env.sampler(self._at).sample(shots, seed)
            self._share = set_threshold(module, self._backend(), sample.detectors, self._device)
            module.train_stage(self._stage)
        else:
            module.train_stage(0)

    def _backend(self) -> Backend:
        return make_backend(self._env.problem(self._at), self._env.spec.classical_backend)

    def _seeds(self, index: int) -> int:
        """Draw `index` of training: labels cycle through the train range, and every cycle, seed and stage is a stream of its own."""
        low, high = self._env.spec.noise.seed_policy.train
        cycle, offset = divmod(index + _STAGE_SEEDS * self._stage, high - low + 1)
        stream = f"{self._env.content_hash}/seed{self._seed}/cycle{cycle}"
        return derive_seed("train", stream, low + offset)

    def _objective(
        self, dsl: PredecoderDSL, module: ProblemPredecoder, sampler: FaultSampler, draws: int
    ) -> Objective:
        """draws: shots that all steps take together."""
        through_backend = {"backend_gap": self._gap, "failures": self._failures}
        settings = dsl.training
        if settings.loss in through_backend:
            return through_backend[settings.loss](settings.batch_size, module, sampler, draws)
        if isinstance(module, CascadePredecoder) and self._stage > 0:
            sampler = OpenSampler(sampler, LeftOpen(module, self._backend(), self._device))
        return MarginalObjective(sampler, self._seeds, settings.batch_size, MARGINAL_LOSSES[settings.loss])

    def _gap(self, batch: int, module: ProblemPredecoder, sampler: FaultSampler, draws: int) -> Objective:
        problem = self._env.problem(self._at)
        pairs = make_pairs(problem, self._env.spec.classical_backend, None)
        is_hard: IsHard = pairs.is_hard
        size, draw = min(self._profile.hard_shots, draws), 4 * batch
        if isinstance(module, CascadePredecoder) and self._stage > 0:
            is_hard = LeftOpen(module, self._backend(), self._device, pairs.is_hard)
            size = min(self._profile.hard_shots // _LATER_BUFFER, draws)
            draw = max(draw, min(MOST_LOOKED_THROUGH * batch, int(batch / (4 * max(self._share, 1e-9)))))
        return GapObjective(HardShots(sampler, self._seeds, is_hard, size=size, draw=draw), batch, pairs)

    def _failures(self, batch: int, module: ProblemPredecoder, _: FaultSampler, draws: int) -> Objective:
        """On shots at the reference p alone, where failures are judged."""
        few_numbers(module)
        device = module.prior.device
        problem = self._env.problem(self._at)
        backend = self._backend()

        def decode(searched: ProblemPredecoder, detectors: U8) -> U8:
            return PredecoderPipeline(searched, backend, device=device, threads=None).decode(detectors)

        shots = HardShots(
            FaultSampler([problem], sampling_device(device), shares=[1.0]),
            self._seeds,
            Unsettled(module, decode, self._seeds(2_000_000)),
            size=min(self._profile.hard_shots, draws, 8 * batch),
            draw=4 * batch,
            fill=4 * batch,
            fills=max(1, self._profile.hard_shots // (4 * batch)),
        )
        return FailureObjective(shots, batch, decode, self._seeds)

    def _selection(self) -> Select:
        """Failures at the reference p on circuit shots of the val labels, apart from those of the final validation."""
        backend = self._backend()
        low, _ = self._env.spec.noise.seed_policy.val
        seed = derive_seed("val-select", self._env.stream(self._at), low)
        shots = self._env.sampler(self._at).sample(
            self._profile.selection_shots(self._env.spec.eval_protocol), seed
        )

        def failures(module: ProblemPredecoder) -> float:
            pipeline = PredecoderPipeline(module, backend, device=self._device, threads=None)
            return float((pipeline.decode(shots.detectors) != shots.observables).any(axis=1).sum())

        return failures


def _note(report: TrainingReport, schedule: Schedule) -> str:
    """How training ended, for people."""
    stopped = _STOPPED[report.stopped].format(
        seconds=schedule.seconds, steps=report.steps, patience=schedule.patience
    )
    if report.untrained_score is None:
        return stopped
    return (
        f"{stopped}; kept step {report.kept_step} of {report.steps} "
        f"({report.kept_score:g} failures on the selection shots, untrained {report.untrained_score:g})"
    )
