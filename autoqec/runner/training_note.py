"""How a training went, in one sentence for people."""

from __future__ import annotations

from autoqec.runner.schema import TrainedOn, TrainingStop
from autoqec.runner.train import Schedule, TrainingReport

TRAINED_ON: dict[TrainedOn, str] = {
    "model": "the error model",
    "process": "the environment's own process",
    "recorded": "recorded shots",
}
_STOPPED: dict[TrainingStop, str] = {
    "all_steps": "all steps done",
    "time_budget": "time budget of {seconds:g} s used up after {steps} steps",
    "patience": "{patience} evaluations in a row were worse than the best",
    "no_epochs": "epochs: 0",
}


def note(report: TrainingReport, schedule: Schedule, trained_on: TrainedOn | None) -> str:
    stopped = _STOPPED[report.stopped].format(
        seconds=schedule.seconds, steps=report.steps, patience=schedule.patience
    )
    if report.untrained_score is None or trained_on is None:
        return stopped
    return (
        f"{stopped}; trained on {TRAINED_ON[trained_on]}; kept step {report.kept_step} of {report.steps} "
        f"({report.kept_score:g} failures on the selection shots, untrained {report.untrained_score:g})"
    )
