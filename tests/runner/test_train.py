"""Which training state is kept, and when a training ends before its schedule does."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.runner.failure_kinds import RoundFailed
from autoqec.runner.objective import Objective
from autoqec.runner.train import Schedule, TrainingReport, train

CONFIG = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 2}}


class Nudge:
    """An objective that moves every weight a little, whatever it is."""

    def prepare(self, first: int) -> None:
        pass

    def step(self, module: torch.nn.Module, step: int) -> torch.Tensor:
        loss = sum(parameter.sum() for parameter in module.parameters())
        loss.backward()
        return torch.tensor(1.0)


def trained(
    folder: Path, scores: Iterable[float], objective: Objective | None = None, **schedule: int
) -> TrainingReport:
    """A training whose states score as the test says; the first score is the untrained one's."""
    left = iter(scores)
    module = compile_predecoder(
        PredecoderDSL.model_validate(CONFIG), load_env("surface_d3_depol").problem(0.01)
    )
    return train(
        module,
        objective or Nudge(),
        Schedule(
            **{"steps": 6, "per_epoch": 6, "evaluations": 6, **schedule}, learning_rate=1e-3, seconds=60.0
        ),
        select=lambda _: next(left),
        log=folder / "train.log",
        state_path=folder / "state.pt",
    )


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([164, 150, 160, 155, 158, 153, 156], 6),  # all of them are level within the noise: the last one
        ([164, 150, 160, 155, 158, 170, 190], 2 + 1),  # 155 is the last that is level with 150
        ([164, 170, 165, 168, 166, 180, 164], 0),  # none has fewer failures than the untrained state
        ([164, 163, 120, 163, 163, 163, 163], 2),  # clearly the best
    ],
)
def test_the_last_state_that_is_level_with_the_best_is_kept(
    tmp_path: Path, scores: list[float], kept: int
) -> None:
    report = trained(tmp_path, scores)
    assert report.kept_step == kept
    assert report.kept_score == scores[kept]


def test_training_ends_when_it_only_gets_worse(tmp_path: Path) -> None:
    report = trained(tmp_path, [100, 90, *[130] * 20], steps=20, evaluations=20, patience=4)
    assert report.steps == 5
    assert report.kept_step == 1
    assert report.stopped == "patience"
    report = trained(tmp_path, [100, 90, *[92] * 20], steps=20, evaluations=20, patience=4)
    assert report.steps == report.kept_step == 20
    assert report.stopped == "all_steps"


def test_a_loss_that_is_not_finite_ends_the_training_with_its_figures(tmp_path: Path) -> None:
    class Broken(Nudge):
        def step(self, module: torch.nn.Module, step: int) -> torch.Tensor:
            super().step(module, step)
            return torch.tensor(float("nan") if step else 1.0)

    with pytest.raises(RoundFailed) as caught:
        trained(tmp_path, [100.0] * 9, Broken())
    failure = caught.value.failure
    assert (failure.kind, failure.where) == ("nan_loss", "training.learning_rate")
    assert failure.facts == {"bad_steps": 4, "steps": 5}
