"""Distance between configs and the search for repeats."""

from __future__ import annotations

import copy

import pytest

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_hash
from autoqec.search.distance import REPEAT_DISTANCE, distance, find_repeat

HYBRID = {
    "type": "hybrid",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 8},
    "gnn": {"layers": 2, "hidden_dim": 16},
    "training": {"loss": "backend_gap", "epochs": 3, "learning_rate": 1e-3},
}
CODE = "def message(x_src, x_dst, e_ij, params):\n    return x_src + e_ij\n"


def changed(path: str, value: object, base: dict = HYBRID) -> dict:
    data = copy.deepcopy(base)
    *blocks, option = path.split(".")
    place = data
    for block in blocks:
        place = place[block]
    place[option] = value
    return data


def apart(first: dict, second: dict) -> float:
    return distance(PredecoderDSL.model_validate(first), PredecoderDSL.model_validate(second))


def row(number: int, config: dict, **more: object) -> dict:
    return {"round": number, "status": "ok", "dsl_config": config, **more}


NEAR = [("neural_bp.iterations", 9), ("training.learning_rate", 1.1e-3), ("training.profile", "prod")]
NEW = [
    ("neural_bp.iterations", 16),
    ("training.learning_rate", 2e-3),
    ("training.epochs", 9),
    ("gnn.message_fn", "gated_mlp"),
    ("gnn.residual", False),
    ("gnn.edge_features", ["syndrome_bit"]),
    ("neural_bp.attention_aug", True),
    ("head", "mlp_small"),
    ("training.init_from", "f" * 64),
]


@pytest.mark.parametrize(("path", "value"), NEAR)
def test_a_small_change_of_a_number_is_a_repeat_that_names_its_round(path, value):
    rows = [row(1, changed("gnn.residual", False)), row(7, HYBRID)]
    reason = find_repeat(changed(path, value), rows)
    assert reason is not None
    assert "round 7" in reason
    assert 0 <= apart(HYBRID, changed(path, value)) < REPEAT_DISTANCE


@pytest.mark.parametrize(("path", "value"), NEW)
def test_another_option_or_a_clear_change_of_size_is_new(path, value):
    assert find_repeat(changed(path, value), [row(7, HYBRID)]) is None


def test_the_same_config_is_found_however_it_is_written():
    rows = [row(3, HYBRID)]
    rewritten = changed("head", "linear")
    assert "same config as round 3" in (find_repeat(rewritten, rows) or "")
    assert canonical_hash(PredecoderDSL.model_validate(rewritten)) == canonical_hash(
        PredecoderDSL.model_validate(HYBRID)
    )


def test_distance_is_symmetric_and_bounded_and_grows_with_the_change():
    configs = [HYBRID, *(changed(path, value) for path, value in NEAR + NEW)]
    for a in configs:
        for b in configs:
            assert apart(a, b) == pytest.approx(apart(b, a))
            assert 0 <= apart(a, b) <= 1
        assert apart(a, a) == 0
    widths = [apart(HYBRID, changed("gnn.hidden_dim", width)) for width in (16, 24, 64, 4096)]
    assert widths == sorted(widths)
    assert widths[0] == 0
    other = {"type": "gnn", "output_mode": "soft_priors", "gnn": HYBRID["gnn"]}
    assert apart(HYBRID, other) == 1


def test_training_options_do_not_tell_untrained_models_apart():
    untrained = {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {},
        "training": {"epochs": 0, "loss": "bce"},
    }
    again = changed("training.loss", "backend_gap", changed("training.learning_rate", 0.1, untrained))
    assert apart(untrained, again) == 0
    assert "round 2" in (find_repeat(again, [row(2, untrained)]) or "")
    assert find_repeat(changed("training.epochs", 1, untrained), [row(2, untrained)]) is None


def test_custom_functions_are_compared_by_what_they_do_not_by_their_layout():
    def custom(code: str) -> dict:
        return changed("gnn.message_fn", {"type": "custom", "code": code, "params_declared": {}})

    spaced = CODE.replace("x_src + e_ij", "x_src  +  e_ij  # a sum")
    assert find_repeat(custom(spaced), [row(4, custom(CODE))]) is not None
    assert find_repeat(custom(CODE.replace("+", "*")), [row(4, custom(CODE))]) is None


@pytest.mark.parametrize("status", ["compose_conflict", "orphaned_branch", "branch_manually_deleted"])
def test_rows_that_measured_nothing_are_no_precedent(status):
    assert find_repeat(HYBRID, [row(1, HYBRID, status=status)]) is None
    assert find_repeat(HYBRID, [{"round": 1, "status": "ok"}, row(2, {"type": "unknown"})]) is None


def test_a_failed_round_is_a_precedent():
    assert "round 1" in (find_repeat(HYBRID, [row(1, HYBRID, status="train_error")]) or "")
