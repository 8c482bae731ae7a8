"""Shot counts: the published table, simulation, and the inverse."""

import numpy as np
import pytest

from autoqec.errors import InputError
from autoqec.stats.calibration import cells, draw
from autoqec.stats.intervals import mcnemar_one_sided
from autoqec.stats.power import detectable_effect, power_at, sequential_shots, shots_needed
from autoqec.stats.sequential import confirm


@pytest.mark.parametrize(
    ("ler", "effect", "shots"),
    [
        (1e-2, 0.10, 66_000),
        (1e-2, 0.25, 10_500),
        (1e-3, 0.10, 663_000),
        (1e-3, 0.25, 105_000),
        (1e-4, 0.10, 6_600_000),
        (1e-4, 0.25, 1_050_000),
    ],
)
def test_the_table_of_the_design(ler: float, effect: float, shots: int) -> None:
    """95% power at kappa = 0.5 and alpha = 2.5%."""
    assert shots_needed(ler, effect) == pytest.approx(shots, rel=6e-3)


@pytest.mark.parametrize(("effect", "kappa"), [(0.1, 0.5), (0.25, 1.2), (0.6, 0.3)])
def test_the_power_is_that_of_simulated_comparisons(effect: float, kappa: float) -> None:
    rng = np.random.default_rng(5)
    ler, shots = 1e-2, 20_000
    model = cells(ler, max(kappa, effect), effect)
    assert model[0] + model[2] == pytest.approx(ler)
    assert model[1] + model[2] == pytest.approx(ler * (1 - effect))
    tables = (draw(rng, shots, model) for _ in range(4000))
    found = sum(mcnemar_one_sided(table.b, table.c) <= 0.025 for table in tables) / 4000
    assert power_at(shots, ler, effect, kappa=kappa) == pytest.approx(found, abs=0.03)


def test_the_detectable_effect_is_the_inverse() -> None:
    for effect in (0.05, 0.3):
        shots = shots_needed(2e-3, effect, 0.8, alpha=0.001, kappa=0.7)
        assert detectable_effect(shots, 2e-3, 0.8, alpha=0.001, kappa=0.7) == pytest.approx(effect, rel=0.01)
    assert detectable_effect(100, 1e-3) is None


def test_harder_questions_take_more_shots() -> None:
    plain = shots_needed(1e-3, 0.1)
    assert shots_needed(1e-3, 0.1, alpha=0.00125) > plain
    assert shots_needed(1e-3, 0.1, 0.99) > plain
    assert shots_needed(1e-3, 0.1, kappa=1.5) > plain > shots_needed(1e-3, 0.1, kappa=0.2)


def test_the_sequential_shots_are_those_of_confirmations() -> None:
    model = cells(1e-2, 0.5, 0.25)
    rng = np.random.default_rng(8)
    taken = [
        confirm(
            lambda shots: draw(rng, shots, model),
            min_shots=2000,
            max_shots=10**7,
            alpha_gain=0.00125,
            alpha_loss=0.0,
        ).table.shots
        for _ in range(400)
    ]
    expected = sequential_shots(1e-2, 0.25, alpha=0.00125, min_shots=2000)
    assert np.mean(taken) == pytest.approx(expected.mean, rel=0.1)
    assert expected.mean < expected.quantile


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ((0.0, 0.1), "ler"),
        ((0.6, 0.1), "ler"),
        ((1e-3, 0.0), "effect"),
        ((1e-3, 1.5), "effect"),
        ((1e-3, 0.1, 1.0), "power"),
    ],
)
def test_what_cannot_be_is_refused(arguments: tuple[float, ...], where: str) -> None:
    with pytest.raises(InputError) as caught:
        shots_needed(*arguments)
    assert caught.value.where == where


def test_a_hopeless_question_is_refused() -> None:
    with pytest.raises(InputError, match="more than 1e"):
        shots_needed(1e-13, 0.01)
