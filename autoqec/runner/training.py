"""The training of a round: its objective, the shots that choose among its states, and for a cascade one stage after the other."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import torch

from autoqec.decoders.backends import Backend, make_backend
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.envs.sampling import Shots
from autoqec.envs.seeds import derive_seed
from autoqec.layout import RoundDir
from autoqec.runner.data import ShotSource, sampling_device
from autoqec.runner.failures import FailureObjective, Unsettled, few_numbers
from autoqec.runner.first_look import look_for
from autoqec.runner.gap import MatchingPairs, make_pairs
from autoqec.runner.hard_shots import HardShots, IsHard, Pass, both, one_pass
from autoqec.runner.losses import MARGINAL_LOSSES
from autoqec.runner.mining import OwnStart
from autoqec.runner.objective import GapObjective, MarginalObjective, Objective
from autoqec.runner.profiles import Profile
from autoqec.runner.recorded import Recorded
from autoqec.runner.schema import TrainedOn
from autoqec.runner.shot_sources import make_source, trained_on
from autoqec.runner.stages import (
    MOST_LOOKED_THROUGH,
    LeftOpen,
    OpenSource,
    planned_share,
    set_threshold,
    take_earlier,
)
from autoqec.runner.team import ALONE, Team
from autoqec.runner.telemetry import Telemetry
from autoqec.runner.train import (
    Schedule,
    Select,
    TrainingReport,
    finished_stages,
    joined,
    saved_weights,
    train,
)
from autoqec.runner.training_note import TRAINED_ON, note

Progress = Callable[[int, int, float], None]

_LATER_BUFFER = 8
"""The buffer of a later stage is so many times smaller: an open shot is rare."""
_OWN_START_BUFFER = 3
"""So is that of a model's own start: few shots are not settled there, and looking for them takes longer than training on them gains."""
_STAGE_SEEDS = 10_000_000


class Training:
    """at: the reference p. device: where the network trains. recorded: what to train on in place of fresh shots. team: the processes that
    train together. tensorboard: folder for event files."""

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
        recorded: Recorded | None = None,
        team: Team = ALONE,
        tensorboard: str | None = None,
    ) -> None:
        self._env, self._profile, self._files = env, profile, files
        self._seed, self._at, self._device = seed, at, device
        self._nan_rate, self._progress = nan_rate, progress
        self._recorded, self._team, self._tensorboard = recorded, team, tensorboard
        self._log = files.train_log if team.leads else Path(os.devnull)
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
        kind = self._trained_on(dsl.training.loss) if self.planned_steps(dsl) else None
        needs_faults = any(part.training.loss in MARGINAL_LOSSES for part in dsl.parts)
        source = None if kind is None else self._source(kind, problems, needs_faults)
        if kind is not None:
            team = f"process {self._team.rank + 1} of {self._team.size}"
            print(f"training on {TRAINED_ON[kind]}, {team}", flush=True)
        per_epoch, stages = self._per_epoch(dsl), dsl.parts
        select: Select | None = None
        # The numbers of finished stages come with the state of the one that resumes.
        reports = finished_stages(self._files.training_state) or []
        resumed = len(reports)
        for self._stage, part in list(enumerate(stages))[resumed:]:
            begun = time.monotonic()
            if isinstance(module, CascadePredecoder):
                self._begin(module, self._files.training_state if self._stage == resumed > 0 else None)
            steps = per_epoch * part.training.epochs
            draws = steps * part.training.batch_size
            objective = self._objective(part, module, source, draws) if steps and source is not None else None
            spent = sum(report.earlier_s for report in reports) + time.monotonic() - start
            left = self._profile.train_seconds - spent
            schedule = Schedule(
                steps=steps,
                per_epoch=per_epoch,
                learning_rate=part.training.learning_rate,
                seconds=max(1.0, left / (len(stages) - self._stage)),
                nan_rate=self._nan_rate,
            )
            if objective is None:
                if self._stage == 0:
                    self._log.write_text("")
                report = TrainingReport(stopped="no_epochs")
            else:
                select = select or self._selection()
                telemetry = self._telemetry(part.training.batch_size, len(stages))
                with telemetry or contextlib.nullcontext():
                    report = train(
                        module,
                        objective,
                        schedule,
                        select=select,
                        log=self._log,
                        state_path=self._files.training_state,
                        progress=self._progress,
                        earlier=reports,
                        is_last=part is stages[-1],
                        telemetry=telemetry,
                        team=self._team,
                    )
            report.seconds = report.earlier_s + time.monotonic() - begun
            report.note = note(report, schedule, kind)
            reports.append(report)
        if self._team.leads:
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
            "training_note": report.note,
            "trained_on": kind,
        }

    def _telemetry(self, batch: int, stages: int) -> Telemetry | None:
        if self._tensorboard is None or not self._team.leads:
            return None
        folder = Path(self._tensorboard) / self._files.path.name
        folder = folder / f"stage_{self._stage + 1}" if stages > 1 else folder
        return Telemetry(folder, batch=batch, device=self._device)

    def _trained_on(self, loss: str) -> TrainedOn:
        needs_faults, is_recorded = loss in MARGINAL_LOSSES, self._recorded is not None
        return trained_on(self._env, self._at, needs_faults=needs_faults, is_recorded=is_recorded)

    def _source(self, kind: TrainedOn, problems: Sequence[DecodingProblem], faults: bool) -> ShotSource:
        device, at = sampling_device(self._device), self._at
        return make_source(kind, self._env, problems, device, recorded=self._given, at=at, with_faults=faults)

    @property
    def _given(self) -> Shots | None:
        """The recorded shots that train."""
        return None if self._recorded is None else self._recorded.split(self._selecting)[0]

    @property
    def _selecting(self) -> int:
        """How many shots choose among training states, at most."""
        return self._profile.selection_shots(self._env.spec.eval_protocol)

    def _begin(self, module: CascadePredecoder, saved: Path | None) -> None:
        """The gate in front of the stage, and the stages that are in use. saved: the state that this stage resumes from."""
        if saved is not None:
            take_earlier(module, saved_weights(saved, self._device), self._stage)
        if self._stage > 0:
            self._share = planned_share(module, self._backend(), self._stage)
        if self._stage > 0 and saved is None:
            set_threshold(module, self._backend(), self._gate_shots(), self._device, self._share)
        module.train_stage(self._stage)

    def _gate_shots(self) -> U8:
        """Detectors of the shots that a gate is set on: training shots at the reference p."""
        if (given := self._given) is not None:
            return given.detectors[: self._selecting]
        low, _ = self._env.spec.noise.seed_policy.train
        seed = derive_seed("train-gate", self._env.stream(self._at), low + self._stage)
        return self._env.sampler(self._at).sample(self._selecting, seed).detectors

    def _backend(self) -> Backend:
        return make_backend(self._env.problem(self._at), self._env.spec.classical_backend)

    def _seeds(self, index: int) -> int:
        """Draw `index` of training: labels cycle through the train range, and every cycle, seed and stage is a stream of its own."""
        low, high = self._env.spec.noise.seed_policy.train
        cycle, offset = divmod(index + _STAGE_SEEDS * self._stage, high - low + 1)
        stream = f"{self._env.content_hash}/seed{self._seed}/cycle{cycle}"
        stream += f"/process{self._team.rank}" if self._team.rank else ""
        return derive_seed("train", stream, low + offset)

    def _objective(
        self, dsl: PredecoderDSL, module: ProblemPredecoder, source: ShotSource, draws: int
    ) -> Objective:
        """draws: shots that all steps take together."""
        through_backend = {"backend_gap": self._gap, "failures": self._failures}
        settings = dsl.training
        batch = -(-settings.batch_size // self._team.size)
        if settings.loss in through_backend:
            return through_backend[settings.loss](batch, module, source, draws)
        if is_later := isinstance(module, CascadePredecoder) and self._stage > 0:
            source = OpenSource(source, LeftOpen(module, self._backend(), self._device))
        ahead = is_later and self._device.type == "cpu"
        return MarginalObjective(source, self._seeds, batch, MARGINAL_LOSSES[settings.loss], ahead=ahead)

    def _gap(self, batch: int, module: ProblemPredecoder, source: ShotSource, draws: int) -> Objective:
        pairs = make_pairs(self._env.problem(self._at), self._env.spec.classical_backend, None)
        is_hard = must_see = cast(IsHard, pairs.is_hard)
        buffered = self._profile.hard_shots
        if isinstance(module, CascadePredecoder) and self._stage > 0:
            is_hard = must_see = both(pairs.is_hard, LeftOpen(module, self._backend(), self._device))
            buffered //= _LATER_BUFFER
        elif isinstance(pairs, MatchingPairs):
            is_hard, must_see = (start := OwnStart(module, pairs)), start.unsettled
            buffered //= _OWN_START_BUFFER
        size = min(buffered, draws) // self._team.size
        once: Pass = {} if (given := self._given) is None else one_pass(len(given.detectors))
        look = look_for(module, pairs, source, self._seeds(3_000_000), must_see, either_way=self._stage > 0)
        draw = self._draw(batch)
        shots = HardShots(source, self._seeds, is_hard, size=size, draw=draw, look=look, **once)
        return GapObjective(shots, batch, pairs)

    def _draw(self, batch: int) -> int:
        """Shots that are looked through for each step: more of them, the fewer are open."""
        return max(4 * batch, min(MOST_LOOKED_THROUGH * batch, int(batch / (4 * max(self._share, 1e-9)))))

    def _failures(self, batch: int, module: ProblemPredecoder, _: ShotSource, draws: int) -> Objective:
        """On shots at the reference p alone, where failures are judged."""
        few_numbers(module)
        backend = self._backend()

        def decode(searched: ProblemPredecoder, detectors: U8) -> U8:
            device = searched.prior.device
            return PredecoderPipeline(searched, backend, device=device, threads=None).decode(detectors)

        is_hard: IsHard = Unsettled(module, decode, self._seeds(2_000_000))
        if isinstance(module, CascadePredecoder) and self._stage > 0:
            is_hard = both(LeftOpen(module, backend, self._device), is_hard)
        most, given = self._profile.hard_shots, self._given
        kind, problems = self._trained_on("failures"), [self._env.problem(self._at)]
        shots = HardShots(
            self._source(kind, problems, faults=False),
            self._seeds,
            is_hard,
            size=min(most, draws, 8 * batch),
            draw=self._draw(batch),
            **one_pass(most if given is None else min(most, len(given.detectors)), 4 * batch),
        )
        return FailureObjective(shots, batch, decode, self._seeds)

    def _selection(self) -> Select:
        """Failures at the reference p on circuit shots of the val labels, apart from those of the final validation, or on
        recorded shots that do not train."""
        backend = self._backend()
        if self._recorded is not None:
            _, shots = self._recorded.split(self._selecting)
        else:
            low, _ = self._env.spec.noise.seed_policy.val
            seed = derive_seed("val-select", self._env.stream(self._at), low)
            shots = self._env.sampler(self._at).sample(self._selecting, seed)

        def failures(module: ProblemPredecoder) -> float:
            pipeline = PredecoderPipeline(module, backend, device=self._device, threads=None)
            return float((pipeline.decode(shots.detectors) != shots.observables).any(axis=1).sum())

        return failures
