"""What a round may take."""

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.runner.safety import default_memory_gb, estimated_memory_gb, free_memory_gb


def test_a_batch_that_keeps_nothing_for_gradients_needs_little():
    problem = load_env("surface_d3_depol").problem(0.01)

    def needed(**training) -> float:
        data = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 30}}
        return estimated_memory_gb(PredecoderDSL.model_validate({**data, "training": training}), problem)

    trained = needed(loss="backend_gap", epochs=1)
    assert needed(loss="bce", epochs=0) == needed(loss="failures", epochs=1) < trained / 10


def test_free_memory_is_a_part_of_all():
    assert 0 < free_memory_gb() <= 2 * default_memory_gb() + 0.1
