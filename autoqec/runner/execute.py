"""One round inside its own process: compile, train, save, validate, report."""

from __future__ import annotations

import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from autoqec import __version__
from autoqec.decoders import checkpoint
from autoqec.decoders.answers import deciders
from autoqec.decoders.backends import backend_entry, make_backend
from autoqec.decoders.checkpoint_format import BRANCH
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.cost import measure
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.cascade import CascadePredecoder, gates_of
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.reference_p import reference_p
from autoqec.decoders.stage_cost import stage_flops
from autoqec.decoders.transfer import start_from
from autoqec.envs.environment import Environment
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError
from autoqec.executors.registry import LOCAL, opened
from autoqec.io.hashing import sha256_bytes
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir
from autoqec.runner.devices import (
    device_memory_gb,
    free_gb,
    pick_device,
    trains_by_device_kernels,
)
from autoqec.runner.failure_kinds import RoundFailed, failing_as
from autoqec.runner.profiles import PROFILES, Profile
from autoqec.runner.recorded import Recorded
from autoqec.runner.safety import Safety, estimated_memory_gb
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runner.stages import same_weights, shares_by_p
from autoqec.runner.team import ALONE, Team
from autoqec.runner.train import TrainingReport
from autoqec.runner.training import Progress, Training
from autoqec.runner.validation import Validation
from autoqec.sandbox.installed import installed_root


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
        recorded: Recorded | None = None,
        team: Team = ALONE,
        executor: str = LOCAL,
    ) -> None:
        self.config, self.env, self.safety = config, env, safety
        self.files = RoundDir(config.round_dir)
        self.profile: Profile = PROFILES[config.profile]
        self._progress = progress
        self._workers = workers
        self._recorded, self._team = recorded, team
        self._executor = executor
        self._wants_edges = backend_entry(env.spec.classical_backend).wants_edges
        self._earlier_labels = (0, -1)
        self._facts: dict[str, Any] = {"train_seed": config.seed, "training_profile": config.profile}

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
                deciders(make_backend(problem, self.env.spec.classical_backend), gates_of(module))
                cost = measure(module, problem, wants_edges=self._wants_edges)
                before = {name: value.clone() for name, value in module.state_dict().items()}
            self._facts |= {
                "reference_p": at,
                "flops_per_syndrome": cost.flops_per_syndrome,
                "n_params": cost.n_params,
                "over_budget": self.env.spec.constraints.over_budget(cost.flops_per_syndrome, cost.n_params),
            }
            with failing_as("environment_invalid"):
                problems = [self.env.problem(p) for p in self.env.spec.noise.p]
            self._check_memory(dsl, module, problems[0])
            with failing_as("config_invalid"), failing_as("training_failed", (RuntimeError, MemoryError)):
                report = self._train(dsl, module, problems)
        except RoundFailed as failed:
            return self._metrics(failed.failure)
        if not self._team.leads:
            return self._metrics()
        self._save(dsl, module, report)
        if isinstance(module, CascadePredecoder):
            counted = cost.stage_flops if same_weights(module, before) else None
            self._measure_shares(module, problem, at, counted)
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

    def _check_memory(self, dsl: PredecoderDSL, module: ProblemPredecoder, problem: DecodingProblem) -> None:
        device = pick_device()
        by_kernels = trains_by_device_kernels(module, device) and not self.config.torch_compile
        needed = estimated_memory_gb(dsl, problem, device_kernels=by_kernels)
        limit = self.safety.memory_gb if self.safety.memory_gb is not None else free_gb(device)
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
        training = Training(
            self.env,
            self.profile,
            self.files,
            seed=self.config.seed,
            at=self._facts["reference_p"],
            device=device,
            nan_rate=self.safety.nan_rate,
            progress=self._progress,
            recorded=self._recorded,
            team=self._team,
            tensorboard=self.config.tensorboard,
        )
        self._facts["training_steps_planned"] = training.planned_steps(dsl)
        report, facts = training.run(dsl, module, problems)
        self._facts |= {**facts, "vram_peak_gb": device_memory_gb(device)}
        return report

    def _measure_shares(
        self, module: CascadePredecoder, problem: DecodingProblem, at: float, counted: tuple[int, ...] | None
    ) -> None:
        """The expected cost with the shares of shots that do reach each stage, in place of those that the config plans.

        counted: FLOPs of the stages, where training has not changed their weights since.
        """
        shots = self.profile.selection_shots(self.env.spec.eval_protocol)
        flops_of = counted or stage_flops(module, problem, wants_edges=self._wants_edges)
        found = shares_by_p(module, self.env, pick_device(), shots, flops_of)
        module.to("cpu")
        flops = next(row["flops_per_syndrome"] for row in found["per_p"] if row["p"] == at)
        over = self.env.spec.constraints.over_budget(flops, self._facts["n_params"])
        self._facts |= {"cascade": found, "flops_per_syndrome": flops, "over_budget": over}

    def _save(self, dsl: PredecoderDSL, module: ProblemPredecoder, report: TrainingReport) -> None:
        low, high = self.env.spec.noise.seed_policy.train
        info = checkpoint.CheckpointInfo(
            dsl=dsl,
            output_mode=dsl.output_mode,
            env_name=self.env.spec.name,
            env_hash=self.env.content_hash,
            seed=self.config.seed,
            train_labels=(low, high) if report.steps and self._recorded is None else self._earlier_labels,
            train_shots=None if self._recorded is None else self._recorded.sha256,
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
