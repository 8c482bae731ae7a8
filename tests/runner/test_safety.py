"""What a round may take."""

import pytest
import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules import device_kernels
from autoqec.envs.load import load_env
from autoqec.runner.devices import trains_by_device_kernels
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


@pytest.mark.parametrize(
    ("options", "by_kernels"),
    [
        ({"neural_bp": {"iterations": 2}}, True),
        ({"neural_bp": {"iterations": 2, "attention_aug": True}}, False),
        ({"neural_bp": {"iterations": 2}, "gnn": {"layers": 1, "hidden_dim": 4}}, True),
        (
            {"neural_bp": {"iterations": 2}, "gnn": {"layers": 1, "hidden_dim": 4, "aggregation": "max"}},
            False,
        ),
    ],
)
def test_what_no_kernel_of_a_gpu_computes_is_kept_as_torch_keeps_it(monkeypatch, options, by_kernels):
    monkeypatch.setattr(device_kernels, "_has_triton", lambda: True)
    kind = "hybrid" if "gnn" in options else "neural_bp"
    dsl = PredecoderDSL.model_validate({"type": kind, "output_mode": "soft_priors", **options})
    module = compile_predecoder(dsl, load_env("surface_d3_depol").problem(0.01))
    assert trains_by_device_kernels(module, torch.device("cuda")) == by_kernels
    assert not trains_by_device_kernels(module, torch.device("cpu"))


def test_free_memory_is_a_part_of_all():
    assert 0 < free_memory_gb() <= 2 * default_memory_gb() + 0.1
