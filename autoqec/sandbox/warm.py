"""Compiles the kernels that predecoders run on, so that numba's cache has them: `python -m autoqec.sandbox.warm`.

Only this package's own code runs here, on a problem of its own.
"""

from __future__ import annotations

import torch

from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env

_CONFIGS = (
    {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {}},
    {"type": "gnn", "output_mode": "soft_priors", "gnn": {}},
)


def main() -> None:
    env = load_env("surface_d3_depol")
    problem = env.problem(env.spec.noise.p[0])
    for config in _CONFIGS:
        module = compile_predecoder(PredecoderDSL.model_validate(config), problem).eval()
        with torch.no_grad():
            module.edge_log_odds(torch.zeros(4, problem.n_checks), context(problem))


if __name__ == "__main__":
    main()
