"""From a DSL config to a predecoder for one problem."""

from __future__ import annotations

from typing import Any

import torch

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.modules.predecoders import PREDECODERS, ProblemPredecoder
from autoqec.envs.problem import DecodingProblem


def compile_predecoder(dsl: PredecoderDSL, problem: DecodingProblem, *, seed: int = 0) -> ProblemPredecoder:
    """The predecoder with freshly initialised weights, a function of (config, problem, seed).

    Tier-2 configs hold code: compile them inside the sandboxed worker only.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return CascadePredecoder(dsl, problem) if dsl.stages else PREDECODERS[dsl.type](dsl, problem)


def context(problem: DecodingProblem, device: torch.device | str = "cpu") -> dict[str, Any]:
    """What `forward` is given (docs/contract.md): the ones of H, a feature per one (its prior's log-odds), the priors."""
    coo = problem.h.tocsr().tocoo()
    prior = torch.from_numpy(problem.priors).float().to(device)
    fault = torch.from_numpy(coo.col.astype("int64")).to(device)
    check = torch.from_numpy(coo.row.astype("int64")).to(device)
    more = {}
    if problem.joint is not None:
        more["joint_p"] = torch.from_numpy(problem.joint.priors).float().to(device)
    return {
        "tanner_edges": torch.stack([check, fault]),
        "edge_features": (torch.log1p(-prior) - torch.log(prior))[fault][:, None],
        "prior_p": prior,
        **more,
    }
