"""Exported predecoders compute what the module computes."""

import numpy as np
import pytest
import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.export import FixedContext, to_onnx
from autoqec.envs.load import load_env

CONFIGS = {
    "neural_bp": {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 3, "memory": "learnable"},
    },
    "hard_flip": {"type": "neural_bp", "output_mode": "hard_flip", "neural_bp": {"iterations": 3}},
    "hybrid": {
        "type": "hybrid",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 2},
        "gnn": {"layers": 1, "hidden_dim": 4},
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.filterwarnings("ignore")
def test_onnx_round_trip(name: str, tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    env = load_env("surface_d3_depol")
    problem = env.problem(5e-3)
    module = compile_predecoder(PredecoderDSL.model_validate(CONFIGS[name]), problem, seed=3).eval()
    path = tmp_path / "model.onnx"
    to_onnx(module, problem, path)
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    syndrome = (np.random.default_rng(0).random((17, problem.n_checks)) < 0.2).astype(np.float32)
    for priors in (problem.priors, env.problem(0.01).priors):
        given = {"syndrome": syndrome, "prior_p": priors.astype(np.float32)}
        (theirs,) = session.run(None, given)
        with torch.no_grad():
            ours = FixedContext(module, problem)(*(torch.from_numpy(v) for v in given.values())).numpy()
        assert theirs.shape == ours.shape
        if name == "hard_flip":
            assert (theirs == ours).mean() > 0.999
        else:
            assert np.abs(theirs - ours).max() < 2e-3
