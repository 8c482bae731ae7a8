"""`failures`: the slope of a failure count, its shots, and a round that ends below its start."""

import numpy as np
import pytest
import torch
from torch import nn

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.errors import InputError
from autoqec.runner.data import FaultSampler
from autoqec.runner.execute import Round
from autoqec.runner.failures import DIRECTIONS, SIGMA, FailureObjective, Unsettled, few_numbers
from autoqec.runner.hard_shots import HardShots
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2, "weight_sharing": "per_layer"},
    "training": {"loss": "failures", "epochs": 1, "batch_size": 64, "learning_rate": 0.01},
}


class Ramp(nn.Module):
    """Two numbers. A shot fails once the first exceeds a threshold that depends on the shot; the second does nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = nn.Parameter(torch.tensor([0.5, 0.5]))


@pytest.fixture(scope="module")
def problem():
    return load_env("steane_custom_dem").problem(0.01)


def ramp_decode(module: Ramp, detectors: np.ndarray) -> np.ndarray:
    """The threshold is the syndrome as a number, spread evenly over [0, 1)."""
    bits = unpack(detectors, 12).astype(np.int64) @ (1 << np.arange(12))
    return (bits / 4096 < float(module.numbers[0].detach())).astype(np.uint8)[:, None]


class EverySyndrome:
    """Each syndrome once, and no observable flipped."""

    def __init__(self) -> None:
        bits = (torch.arange(4096)[:, None] >> torch.arange(12)) & 1
        self.buffer = self
        self.detectors = np.packbits(bits.numpy().astype(np.uint8), axis=1, bitorder="little")
        self.observables = np.zeros((4096, 1), dtype=np.uint8)

    def packed(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.detectors[rows], self.observables[rows]

    def refresh(self, step: int) -> None: ...

    def pick(self, size: int, step: int) -> np.ndarray:
        return np.arange(size)


def test_the_slope_is_that_of_the_failures():
    """F = x for 0 < x < 1: each direction e gives e^2 along itself, so the estimate is the mean of (e e^T) applied to (1, 0)."""
    module = Ramp()
    objective = FailureObjective(EverySyndrome(), 4096, ramp_decode, lambda draw: draw)
    share = objective.step(module, 3)
    generator = torch.Generator().manual_seed(2_000_003)
    e = torch.randn(DIRECTIONS, 2, generator=generator)
    expected = (e * e[:, :1]).mean(dim=0)
    # A count of 4,096 steps is a ramp to within one step at either end.
    torch.testing.assert_close(
        module.numbers.grad, expected, rtol=0, atol=float(2 / 4096 / (2 * SIGMA) * e.abs().max())
    )
    assert share == pytest.approx(0.5, abs=1e-3)
    assert torch.equal(module.numbers.detach(), torch.tensor([0.5, 0.5])), "the model itself is not moved"


def test_shots_that_are_not_settled_are_those_that_fail_or_change(problem):
    every = EverySyndrome()
    hard = Unsettled(Ramp(), ramp_decode, seed=1)(every.detectors, every.observables)
    moved = 0.5 + SIGMA * torch.randn(DIRECTIONS, 2, generator=torch.Generator().manual_seed(1))[0, 0].item()
    assert hard.sum() == pytest.approx(4096 * max(0.5, moved), abs=2)


def test_many_numbers_are_refused(problem):
    config = {**CONFIG, "neural_bp": {"iterations": 40, "weight_sharing": "none"}}
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem)
    with pytest.raises(InputError, match="at most 2,000 numbers"):
        few_numbers(module)


def test_shots_without_a_hard_one_are_an_error(problem):
    sampler = FaultSampler([problem], "cpu")

    def none(detectors: np.ndarray, _: np.ndarray) -> np.ndarray:
        return np.zeros(len(detectors), dtype=bool)

    with pytest.raises(InputError, match="no hard shot among 20"):
        HardShots(sampler, lambda draw: draw, none, size=5, draw=5, fill=10, fills=2)


def test_a_round_keeps_what_fails_less(tmp_path):
    env = load_env("steane_custom_dem")
    protocol = env.spec.eval_protocol.model_copy(update={"min_shots_train": 10_000, "min_shots_val": 10_000})
    small = Environment(env.spec.model_copy(update={"eval_protocol": protocol}), root=env.root)
    config = RunnerConfig(env_name=env.spec.name, predecoder_config=CONFIG, round_dir=str(tmp_path))
    metrics = Round(config, small, Safety(), workers=1).run()
    assert metrics.status == "ok"
    assert metrics.train_batches_total == 15
    assert 0 < metrics.train_loss_initial < 1
