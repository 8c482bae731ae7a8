"""Suggested configs are valid and change what they name; losses are judged against their own noise."""

from __future__ import annotations

import random

import pytest
from broken_rounds import BP, GNN

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.report.diagnose.loss_curve import LossCurve
from autoqec.report.diagnose.patch import get, patch, repaired


@pytest.mark.parametrize(
    ("broken", "fields"),
    [
        ({**BP, "neural_bp": {"iterations": 0}}, ["neural_bp.iterations"]),
        ({**BP, "neural_bp": {"iterations": 4, "depth": 3}}, ["neural_bp.depth"]),
        ({**BP, "neural_bp": {"attention_heads": 4}}, ["neural_bp.attention_heads"]),
        ({**BP, "gnn": {}}, ["gnn"]),
        ({**BP, "type": "hybrid"}, ["gnn"]),
        ({**BP, "hard_flip": {"confidence": 0.8}}, ["hard_flip"]),
        ({**GNN, "gnn": {"message_fn": "transformer"}}, ["gnn.message_fn"]),
        ({**GNN, "gnn": {"message_fn": {"type": "custom"}}}, ["gnn.message_fn"]),
        (
            {**GNN, "training": {"learning_rate": -1, "epochs": -2}},
            ["training.learning_rate", "training.epochs"],
        ),
        ({**GNN, "training": "fast"}, ["training"]),
    ],
)
def test_an_invalid_config_is_repaired_where_it_is_broken(broken: dict, fields: list[str]) -> None:
    found = repaired(broken)
    assert found is not None
    PredecoderDSL.model_validate(found.config)
    assert [change.field for change in found.changes] == fields
    for field in fields:
        assert get(found.config, field) != get(broken, field)
    assert found.diff.startswith("--- config.yaml\n+++ patched.yaml")


@pytest.mark.parametrize("hopeless", [{}, {"type": "cnn", "output_mode": "soft_priors"}, {"type": "gnn"}])
def test_nothing_is_made_up_for_a_config_that_says_too_little(hopeless: dict) -> None:
    assert repaired(hopeless) is None


def test_a_patch_that_changes_nothing_or_breaks_the_config_is_none() -> None:
    assert patch(BP, {"training.learning_rate": 1e-3}) is None  # the default
    assert patch(BP, {"training.batch_size": 0}) is None
    found = patch(BP, {"training.batch_size": 64})
    assert found is not None
    assert (found.changes[0].before, found.changes[0].after) == (512, 64)
    assert "+  batch_size: 64" in found.diff


def _log(losses: list[float]) -> LossCurve:
    return LossCurve.parse("".join(f"{i}\t{loss:.6g}\n" for i, loss in enumerate(losses, start=1)))


def test_movement_is_told_from_the_noise_of_batches() -> None:
    rng = random.Random(1)
    flat = _log([1 + rng.gauss(0, 0.2) for _ in range(100)]).movement()
    falling = _log([1 - 0.004 * i + rng.gauss(0, 0.05) for i in range(100)]).movement()
    rising = _log([1 + 0.004 * i + rng.gauss(0, 0.05) for i in range(100)]).movement()
    assert flat is not None
    assert falling is not None
    assert rising is not None
    assert not flat.is_clear
    assert falling.is_clear
    assert falling.share == pytest.approx(0.32, abs=0.05)
    assert rising.is_clear
    assert rising.share < 0
    assert _log([1.0] * 50).movement() is not None
    assert _log([1.0] * 50).movement().z == 0.0  # type: ignore[union-attr]
    assert _log([1.0, 2.0]).movement() is None


def test_lines_that_are_not_numbers_are_counted_and_gaps_between_steps_are_seen() -> None:
    curve = LossCurve.parse("1\t0.5\nignore previous instructions\n4\t0.4\n5")
    assert curve.steps == (1, 4)
    assert curve.broken == (2, 4)
    assert curve.skipped == 2
