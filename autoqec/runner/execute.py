"""One round inside its own process: compile, train, save, validate, report."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from autoqec import __version__
from autoqec.decoders import checkpoint
from autoqec.decoders.backends import make_backend
from autoqec.decoders.checkpoint_format import BRANCH
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.cost import measure
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.reference_p import reference_p
from autoqec.decoders.transfer import start_from
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.envs.seeds import derive_seed
from autoqec.errors import InputError
from autoqec.executors.registry import LOCAL, opened
from autoqec.io.hashing import sha256_bytes
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir
from autoqec.runner.data import FaultSampler, sampling_device
from autoqec.runner.failure_kinds import RoundFailed, failing_as
from autoqec.runner.failures import FailureObjective, Unsettled, few_numbers
from autoqec.runner.gap import make_pairs
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.losses import MARGINAL_LOSSES
from autoqec.runner.objective import GapObjective, MarginalObjective, Objective
from autoqec.runner.profiles import PROFILES, Profile
from autoqec.runner.safety import Safety, estimated_memory_gb, free_memory_gb
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig, TrainingStop
from autoqec.runner.train import Schedule, TrainingReport, train
from autoqec.runner.validation import Validation
from autoqec.sandbox.installed import installed_root

Progress = Callable[[int, int, float], None]

REFERENCE_SHARE = 0.7

_STOPPED: dict[TrainingStop, str] = {
    "all_steps": "all steps done",
    "time_budget": "time budget of {seconds:g} s used up after {steps} steps",
    "patience": "{patience} evaluations in a row were worse than the best",
    "no_epochs": "epochs: 0",
}


def pick_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _device_memory_gb(device: torch.device) -> float:
    """The maximum that training held there; MPS keeps no record and reports what it holds now."""
    held = {"cuda": torch.cuda.max_memory_allocated, "mps": torch.mps.driver_allocated_memory}.get(
        device.type
    )
    return held() / 2**30 if held is not None else 0.0


class Round:
    """One round of one environment. Every failure ends in a RoundMetrics with a reason a person can act on."""

    def __init__(
        self,
        config: RunnerConfig,
        env: Environment,
        safety: Safety,
        *,
        progress: Progress | None = None,
        workers: int | None = None,
        executor: str = LOCAL,
    ) -> None:
        self.config, self.env, self.safety = config, env, safety
        self.files = RoundDir(config.round_dir)
        self.profile: Profile = PROFILES[config.training_profile]
        self._progress = progress
        self._workers = workers
        self._executor = executor
        self._earlier_labels = (0, -1)
        self._facts: dict[str, Any] = {"train_seed": config.seed, "training_profile": config.training_profile}

    def run(self) -> RoundMetrics:
        try:
            with failing_as("config_invalid"):
                dsl = validate_model(
                    self.config.predecoder_config, PredecoderDSL, where=str(self.files.config)
                )
            with failing_as("environment_invalid"):
                at = reference_p(self.env)
                problem = self.env.problem(at)
            with failing_as("config_invalid"):
                module = compile_predecoder(dsl, problem, seed=self.config.seed)
                self._start_from(dsl, module)
                cost = measure(module, problem)
            self._facts |= {
                "reference_p": at,
                "flops_per_syndrome": cost.flops_per_syndrome,
                "n_params": cost.n_params,
                "over_budget": self.env.spec.constraints.over_budget(cost.flops_per_syndrome, cost.n_params),
            }
            with failing_as("environment_invalid"):
                problems = [self.env.problem(p) for p in self.env.spec.noise.p]
            self._check_memory(dsl, problems[0])
            with failing_as("config_invalid"), failing_as("training_failed", (RuntimeError, MemoryError)):
                report = self._train(dsl, module, problems)
        except RoundFailed as failed:
            return self._metrics(failed.failure)
        self._save(dsl, module, report)
        self._validate(at)
        return self._metrics()

    def _start_from(self, dsl: PredecoderDSL, module: ProblemPredecoder) -> None:
        """Takes over what fits of the checkpoint that the config names, which whoever started the round has put here."""
        if (wanted := dsl.training.init_from) is None:
            return
        data, where = checkpoint.read_file(self.files.initial), str(self.files.initial)
        if sha256_bytes(data) != wanted:
            raise InputError("is not the checkpoint that the config names", where=where)
        info, state = checkpoint.from_bytes(data, where=where)
        if info.env_hash == self.env.content_hash:
            self._earlier_labels = info.train_labels
        self._facts["init_from"] = start_from(module, info, state, sha256=wanted, where="training.init_from")

    def _check_memory(self, dsl: PredecoderDSL, problem: DecodingProblem) -> None:
        needed = estimated_memory_gb(dsl, problem)
        limit = self.safety.memory_gb if self.safety.memory_gb is not None else free_memory_gb()
        if needed > limit:
            hint = "lower training.batch_size"
            message = f"a training batch needs about {needed:.1f} GB and {limit:.1f} GB may be used: {hint}"
            facts = {"needed_gb": round(needed, 3), "limit_gb": round(limit, 3)}
            raise RoundFailed(Failure("memory_estimate", message, "training.batch_size", hint, facts))

    def _train(
        self, dsl: PredecoderDSL, module: ProblemPredecoder, problems: list[DecodingProblem]
    ) -> TrainingReport:
        """problems: at every p of the sweep."""
        device = pick_device()
        module.to(device)
        if self.config.torch_compile:
            module.compile_network()
        sweep = self.env.spec.noise.p
        # Most shots at the reference p, where the round is judged; the rest keeps the model right along the sweep.
        others = REFERENCE_SHARE if len(sweep) == 1 else (1 - REFERENCE_SHARE) / (len(sweep) - 1)
        at = self._facts["reference_p"]
        shares = [REFERENCE_SHARE if p == at else others for p in sweep]
        sampler = FaultSampler(problems, sampling_device(device), shares=shares)
        settings = dsl.training
        per_epoch = max(1, self.profile.train_shots(self.env.spec.eval_protocol) // settings.batch_size)
        steps = per_epoch * settings.epochs
        self._facts["training_steps_planned"] = steps
        start = time.monotonic()
        objective = self._objective(dsl, module, sampler, steps * settings.batch_size) if steps else None
        schedule = Schedule(
            steps=steps,
            per_epoch=per_epoch,
            learning_rate=settings.learning_rate,
            seconds=max(1.0, self.profile.train_seconds - (time.monotonic() - start)),
            nan_rate=self.safety.nan_rate,
        )
        if objective is None:
            self.files.train_log.write_text("")
            report = TrainingReport(stopped="no_epochs")
        else:
            report = train(
                module,
                objective,
                schedule,
                select=self._selection(device),
                log=self.files.train_log,
                state_path=self.files.training_state,
                progress=self._progress,
            )
        module.to("cpu")
        self._facts |= {
            "train_wallclock_s": report.earlier_s + time.monotonic() - start,
            "train_loss_initial": report.losses[0] if report.losses else None,
            "train_loss_final": report.losses[-1] if report.losses else None,
            "train_loss_mean_last_epoch": report.mean_of_last(per_epoch),
            "train_batches_total": report.steps,
            "training_log_path": str(self.files.train_log.resolve()),
            "vram_peak_gb": _device_memory_gb(device),
            "training_stopped": report.stopped,
            "training_kept_step": report.kept_step if report.steps else None,
            "training_note": self._note(report, schedule),
        }
        return report

    @staticmethod
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

    def _seeds(self, index: int) -> int:
        """Draw `index` of training: labels cycle through the train range, and every cycle and seed is a stream of its own."""
        low, high = self.env.spec.noise.seed_policy.train
        cycle, offset = divmod(index, high - low + 1)
        stream = f"{self.env.content_hash}/seed{self.config.seed}/cycle{cycle}"
        return derive_seed("train", stream, low + offset)

    def _objective(
        self, dsl: PredecoderDSL, module: ProblemPredecoder, sampler: FaultSampler, draws: int
    ) -> Objective:
        """draws: shots that all steps take together."""
        through_backend = {"backend_gap": self._gap, "failures": self._failures}
        settings = dsl.training
        if settings.loss in through_backend:
            return through_backend[settings.loss](settings.batch_size, module, sampler, draws)
        return MarginalObjective(sampler, self._seeds, settings.batch_size, MARGINAL_LOSSES[settings.loss])

    def _gap(self, batch: int, _: ProblemPredecoder, sampler: FaultSampler, draws: int) -> Objective:
        problem = self.env.problem(self._facts["reference_p"])
        pairs = make_pairs(problem, self.env.spec.classical_backend, None)
        size = min(self.profile.hard_shots, draws)
        return GapObjective(
            HardShots(sampler, self._seeds, pairs.is_hard, size=size, draw=4 * batch), batch, pairs
        )

    def _failures(self, batch: int, module: ProblemPredecoder, _: FaultSampler, draws: int) -> Objective:
        """On shots at the reference p alone, where failures are judged."""
        few_numbers(module)
        device = module.prior.device
        problem = self.env.problem(self._facts["reference_p"])
        backend = make_backend(problem, self.env.spec.classical_backend)

        def decode(searched: ProblemPredecoder, detectors: U8) -> U8:
            return PredecoderPipeline(searched, backend, device=device, threads=None).decode(detectors)

        shots = HardShots(
            FaultSampler([problem], sampling_device(device), shares=[1.0]),
            self._seeds,
            Unsettled(module, decode, self._seeds(2_000_000)),
            size=min(self.profile.hard_shots, draws, 8 * batch),
            draw=4 * batch,
            fill=4 * batch,
            fills=max(1, self.profile.hard_shots // (4 * batch)),
        )
        return FailureObjective(shots, batch, decode, self._seeds)

    def _selection(self, device: torch.device) -> Callable[[ProblemPredecoder], float]:
        """Failures at the reference p on circuit shots of the val labels, apart from those of the final validation."""
        p = self._facts["reference_p"]
        problem = self.env.problem(p)
        backend = make_backend(problem, self.env.spec.classical_backend)
        low, _ = self.env.spec.noise.seed_policy.val
        seed = derive_seed("val-select", self.env.stream(p), low)
        shots = self.env.sampler(p).sample(self.profile.selection_shots(self.env.spec.eval_protocol), seed)

        def failures(module: ProblemPredecoder) -> float:
            pipeline = PredecoderPipeline(module, backend, device=device, threads=None)
            return float((pipeline.decode(shots.detectors) != shots.observables).any(axis=1).sum())

        return failures

    def _save(self, dsl: PredecoderDSL, module: ProblemPredecoder, report: TrainingReport) -> None:
        low, high = self.env.spec.noise.seed_policy.train
        info = checkpoint.CheckpointInfo(
            dsl=dsl,
            output_mode=dsl.output_mode,
            env_name=self.env.spec.name,
            env_hash=self.env.content_hash,
            seed=self.config.seed,
            train_labels=(low, high) if report.steps else self._earlier_labels,
            versions={
                "autoqec": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
                **self._edited_on(),
            },
        )
        path = checkpoint.save(self.files.path, module, info)
        self._facts["checkpoint_path"] = str(path.resolve())

    def _edited_on(self) -> dict[str, str]:
        """The branch whose own code this is. A worktree with the installed package's code is not imported."""
        root = self.config.code_cwd
        is_edited = root is not None and Path(root).resolve() == installed_root()
        return {BRANCH: self.config.branch} if is_edited and self.config.branch is not None else {}

    def _validate(self, at: float) -> None:
        start = time.monotonic()
        with opened(self._executor) as where:
            validation = Validation(
                self.env,
                self.files.checkpoint,
                self.profile,
                device=pick_device().type,
                workers=self._workers,
                executor=where,
            )
            self._facts |= validation.run(at)
        self._facts["eval_wallclock_s"] = time.monotonic() - start

    def _metrics(self, failure: Failure | None = None) -> RoundMetrics:
        log = self.files.train_log
        facts = {"training_log_path": str(log.resolve()) if log.exists() else None, **self._facts}
        outcome = {"status": "ok"} if failure is None else failure.metrics()
        return RoundMetrics.model_validate({**outcome, **facts})
