"""Training of one predecoder: AdamW, warm-up and cosine, EMA, clipping, selection by decoding, resumable."""

from __future__ import annotations

import copy
import io
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.io import atomic
from autoqec.runner.failure_kinds import RoundFailed
from autoqec.runner.objective import Objective
from autoqec.runner.schema import Failure, TrainingStop
from autoqec.runner.team import ALONE, Team
from autoqec.runner.telemetry import Telemetry

WARMUP = 0.05
CLIP = 1.0
EMA_DECAY = 0.998

Select = Callable[[ProblemPredecoder], float]
"""The score of a training state, smaller is better: failures on the selection shots."""


@dataclass
class TrainingReport:
    """Loss telemetry, and which training state was kept (step 0: the untrained model was best).

    earlier_s: of `seconds`, those of processes that were killed. logged_before: lines of the log that are of earlier stages of a cascade.
    note: how it went, in one sentence for people.
    """

    losses: list[float] = field(default_factory=list)
    steps: int = 0
    kept_step: int = 0
    kept_score: float | None = None
    least_score: float = math.inf
    untrained_score: float | None = None
    seconds: float = 0.0
    earlier_s: float = 0.0
    stopped: TrainingStop = "all_steps"
    logged_before: int = 0
    note: str = ""

    def mean_of_last(self, count: int) -> float | None:
        last = self.losses[-count:]
        return sum(last) / len(last) if last else None


@dataclass(frozen=True)
class Schedule:
    """steps: in all; per_epoch: for the telemetry; evaluations: how often a state is scored; patience: how many scores
    in a row that are worse than the best end the training; nan_rate: share of steps whose loss may be NaN before training is
    given up; save_seconds: how often the state is saved."""

    steps: int
    per_epoch: int
    learning_rate: float
    seconds: float
    evaluations: int = 12
    patience: int = 8
    nan_rate: float = 0.02
    save_seconds: float = 20.0


def learning_rate(step: int, schedule: Schedule) -> float:
    """A function of the step, unlike torch's schedulers, so that a training resumes without their state."""
    warm = max(1, int(WARMUP * schedule.steps))
    if step < warm:
        return schedule.learning_rate * (step + 1) / warm
    done = (step - warm) / max(1, schedule.steps - warm)
    return schedule.learning_rate * 0.5 * (1 + math.cos(math.pi * min(done, 1.0)))


def train(
    module: ProblemPredecoder,
    objective: Objective,
    schedule: Schedule,
    *,
    select: Select,
    log: Path,
    state_path: Path,
    progress: Callable[[int, int, float], None] | None = None,
    earlier: Sequence[TrainingReport] = (),
    is_last: bool = True,
    telemetry: Telemetry | None = None,
    team: Team = ALONE,
) -> TrainingReport:
    """Trains `module` in place and leaves the best state in it. Killed and called again, it resumes where it was.

    earlier: of the stages of a cascade before this one. Stages share log and state file; where this is not the last, its state stays until
    the next has one. The state is a function of the module's start, the objective and the schedule: every step draws from its own seeds.

    Raises:
        RoundFailed: the loss was not finite in too many steps.
    """
    on_gpu = next(module.parameters()).device.type == "cuda"
    optimiser = torch.optim.AdamW(
        module.parameters(), lr=schedule.learning_rate, weight_decay=0.0, fused=on_gpu or None
    )
    ema = {name: value.detach().clone() for name, value in module.state_dict().items()}
    report = TrainingReport()
    best = {name: value.clone() for name, value in ema.items()}
    first, stale = 0, 0
    finished = finished_stages(state_path)
    if finished is not None and len(finished) == len(earlier):
        first, stale, best = _resume(state_path, module, optimiser, ema, report, log)
        report.earlier_s = report.seconds
    else:
        report.untrained_score = report.kept_score = report.least_score = team.lead(lambda: select(module))
        if not earlier:
            log.write_text("")
        report.logged_before = len(log.read_text().splitlines())
    objective.prepare(first)
    if telemetry is not None:
        telemetry.begin(first)
    every = max(1, schedule.steps // schedule.evaluations)
    start = saved = time.monotonic()
    bad = 0
    with log.open("a") as file:
        for step in range(first, schedule.steps):
            spent = report.seconds + time.monotonic() - start
            if team.lead(partial(float, spent > schedule.seconds)):
                report.stopped = "time_budget"
                break
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(step, schedule)
            optimiser.zero_grad(set_to_none=True)
            module.train()
            mean = team.average(module, objective.step(module, step))
            norm = torch.nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            # The only place of a step that waits for the device.
            loss, size = torch.stack([mean.to(norm), norm]).tolist()
            if not math.isfinite(loss) or not math.isfinite(size):
                bad += 1
                if bad > max(3, schedule.nan_rate * schedule.steps):
                    raise _not_finite(bad, step + 1)
                continue
            optimiser.step()
            _update(ema, module, step)
            report.losses.append(loss)
            report.steps = step + 1
            file.write(f"{report.logged_before + step + 1}\t{loss:.6g}\n")
            file.flush()
            if telemetry is not None:
                telemetry.step(step + 1, loss, learning_rate(step, schedule))
            if progress is not None:
                progress(step + 1, schedule.steps, loss)
            if (step + 1) % every == 0 or step + 1 == schedule.steps:
                score = team.lead(lambda: _score(module, ema, select))
                if telemetry is not None:
                    telemetry.score(step + 1, score)
                report.least_score = min(report.least_score, score)
                stale = stale + 1 if score > _level(report.least_score) else 0
                if is_kept(score, report):
                    report.kept_score, report.kept_step = score, step + 1
                    best = {name: value.clone() for name, value in ema.items()}
                elif stale >= schedule.patience:
                    report.stopped = "patience"
                    break
            if team.leads and time.monotonic() - saved >= schedule.save_seconds:
                saved = time.monotonic()
                _save(state_path, module, optimiser, ema, best, report, stale, saved - start, earlier)
    report.seconds += time.monotonic() - start
    module.load_state_dict(best)
    module.eval()
    if is_last and team.leads:
        state_path.unlink(missing_ok=True)
    return report


def finished_stages(path: Path) -> list[TrainingReport] | None:
    """The stages before the one that a saved state is of, all of whose time was of earlier processes; None where there is no state."""
    if not path.exists():
        return None
    saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return [TrainingReport(**{**facts, "earlier_s": facts["seconds"]}) for facts in saved.get("earlier", ())]


def saved_weights(path: Path, device: torch.device) -> dict[str, Tensor]:
    """The module's numbers in a saved state."""
    saved: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    return saved["module"]  # type: ignore[no-any-return]


def joined(reports: Sequence[TrainingReport]) -> TrainingReport:
    """Of all stages together; one report is itself. It stopped as the last stage did that trained."""
    if len(reports) == 1:
        return reports[0]
    trained = [report for report in reports if report.stopped != "no_epochs"]
    return TrainingReport(
        losses=[loss for report in reports for loss in report.losses],
        steps=sum(report.steps for report in reports),
        kept_step=sum(report.kept_step for report in reports),
        seconds=sum(report.seconds for report in reports),
        earlier_s=sum(report.earlier_s for report in reports),
        stopped=(trained or reports)[-1].stopped,
        note="; ".join(f"stage {number}: {report.note}" for number, report in enumerate(reports, start=1)),
    )


def _not_finite(bad: int, steps: int) -> RoundFailed:
    hint = "lower learning_rate"
    message = f"the loss was NaN or infinite in {bad} of {steps} steps: {hint}"
    return RoundFailed(
        Failure("nan_loss", message, "training.learning_rate", hint, {"bad_steps": bad, "steps": steps})
    )


def is_kept(score: float, report: TrainingReport) -> bool:
    """Whether a later state takes the place of the one that is kept.

    It does if it is not worse than the best within the noise of a failure count: the minimum of a dozen noisy scores is more
    often luck than merit, and a schedule that anneals makes later states better. The untrained state only gives way to less.
    """
    return score <= _level(report.least_score) and score < (report.untrained_score or math.inf)


def _level(minimum: float) -> float:
    """Half a standard deviation above a count of failures: what the same shots cannot tell apart."""
    return minimum + 0.5 * math.sqrt(minimum)


def _update(ema: dict[str, Tensor], module: ProblemPredecoder, step: int) -> None:
    """Not torch's `AveragedModel`: it would copy the first state, count updates instead of steps, and average integers."""
    decay = min(EMA_DECAY, (1 + step) / (10 + step))
    state = module.state_dict()
    averaged = [name for name, value in state.items() if value.is_floating_point()]
    with torch.no_grad():
        torch._foreach_lerp_([ema[name] for name in averaged], [state[name] for name in averaged], 1 - decay)
        for name in state.keys() - averaged:
            ema[name].copy_(state[name])


def _score(module: ProblemPredecoder, ema: dict[str, Tensor], select: Select) -> float:
    averaged = copy.deepcopy(module)
    averaged.load_state_dict(ema)
    return select(averaged.eval())


def _save(
    path: Path,
    module: ProblemPredecoder,
    optimiser: torch.optim.Optimizer,
    ema: dict[str, Tensor],
    best: dict[str, Tensor],
    report: TrainingReport,
    stale: int,
    seconds: float,
    earlier: Sequence[TrainingReport],
) -> None:
    buffer = io.BytesIO()
    facts = {
        "losses": report.losses,
        "steps": report.steps,
        "kept_step": report.kept_step,
        "kept_score": report.kept_score,
        "least_score": report.least_score,
        "untrained_score": report.untrained_score,
        "seconds": report.seconds + seconds,
        "stale": stale,
        "logged_before": report.logged_before,
    }
    parts = {"module": module.state_dict(), "optimiser": optimiser.state_dict(), "ema": ema, "best": best}
    torch.save({**parts, "report": facts, "earlier": [asdict(each) for each in earlier]}, buffer)
    atomic.write_bytes(path, buffer.getvalue())


def _resume(
    path: Path,
    module: ProblemPredecoder,
    optimiser: torch.optim.Optimizer,
    ema: dict[str, Tensor],
    report: TrainingReport,
    log: Path,
) -> tuple[int, int, dict[str, Tensor]]:
    saved: dict[str, Any] = torch.load(path, map_location=next(module.parameters()).device, weights_only=True)
    module.load_state_dict(saved["module"])
    optimiser.load_state_dict(saved["optimiser"])
    for name, value in saved["ema"].items():
        ema[name].copy_(value)
    facts = saved["report"]
    stale = facts.pop("stale")
    for name, value in facts.items():
        setattr(report, name, value)
    lines = log.read_text().splitlines()[: report.logged_before + report.steps] if log.exists() else []
    log.write_text("".join(f"{line}\n" for line in lines))
    return report.steps, stale, saved["best"]
