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


def test_kernels_of_a_gpu_keep_less_and_still_more_than_was_measured():
    problem = load_env("surface_d5_depol").problem(5e-3)

    def needed(layers: int, hidden: int, **by) -> float:
        data = {"type": "hybrid", "output_mode": "soft_priors", "neural_bp": {"iterations": 8}}
        data["gnn"] = {"layers": layers, "hidden_dim": hidden}
        data["training"] = {"loss": "backend_gap", "epochs": 1, "batch_size": 8192}
        return estimated_memory_gb(PredecoderDSL.model_validate(data), problem, **by)

    for layers, hidden, measured in ((6, 24, 5.29), (8, 48, 8.85)):
        estimate = needed(layers, hidden, device_kernels=True)
        assert measured < estimate < 3 * measured
        assert estimate < needed(layers, hidden) / 5


def test_free_memory_is_a_part_of_all():
    assert 0 < free_memory_gb() <= 2 * default_memory_gb() + 0.1
