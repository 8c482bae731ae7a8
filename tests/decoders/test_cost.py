"""The cost census on every predecoder: nothing is refused, nothing hides in compiled kernels, work adds up."""

from typing import get_args

import pytest
import torch

from autoqec.decoders import dsl_schema as schema
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.cost import count_flops, measure
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.flop_census import reference_path
from autoqec.envs.load import load_env

PROBLEMS = {"surface_d3_depol": 0.005, "bb72_capacity": 0.06}


@pytest.fixture(scope="module", params=PROBLEMS)
def problem(request):
    return load_env(request.param).problem(PROBLEMS[request.param])


def compiled(problem, gnn=None, bp=None, head="linear", mode="soft_priors"):
    kind = "hybrid" if gnn is not None and bp is not None else "gnn" if gnn is not None else "neural_bp"
    config = {"type": kind, "output_mode": mode, "gnn": gnn, "neural_bp": bp, "head": head}
    return compile_predecoder(PredecoderDSL.model_validate(config), problem).eval()


GNNS = [
    *({"message_fn": name} for name in get_args(schema.MessageFn)),
    *({"aggregation": name} for name in get_args(schema.Aggregation)),
    *({"normalization": name} for name in get_args(schema.Normalization)),
    {"residual": False},
]
BPS = [
    {"check_rule": "min_sum", "damping": "fixed"},
    {"attention_aug": True, "attention_heads": 2, "memory": "learnable"},
    {"weight_sharing": "per_check", "prior_mix": True},
]


@pytest.mark.parametrize("spec", GNNS, ids=lambda spec: "-".join(map(str, spec.values())))
def test_every_graph_network_is_counted_round_by_round(spec, problem):
    one, two, three = (
        count_flops(compiled(problem, gnn={"hidden_dim": 8, "layers": layers, **spec}), problem)
        for layers in (1, 2, 3)
    )
    assert two - one == three - two
    edges = problem.graph.n_edges if problem.graph is not None else problem.h.nnz
    assert two - one > 2 * edges * 8 * 5  # at the very least one activation per message and feature


@pytest.mark.parametrize("spec", BPS, ids=["min_sum", "attention", "prior_mix"])
@pytest.mark.parametrize("mode", get_args(schema.OutputMode))
def test_every_belief_propagation_is_counted(spec, mode, problem):
    counts = [
        count_flops(compiled(problem, bp={"iterations": n, **spec}, mode=mode), problem) for n in (2, 3, 4)
    ]
    assert counts[2] - counts[1] == counts[1] - counts[0] > 10 * problem.h.nnz


def test_compiled_kernels_hide_no_work(problem):
    """A hybrid on a CPU runs mostly in compiled kernels; its count is that of the same model without them."""
    module = compiled(problem, gnn={"hidden_dim": 8, "layers": 2}, bp={"iterations": 3}, head="mlp_small")
    fused = [part for part in module.modules() if getattr(part, "fused", False)]
    assert len(fused) == 1 + 2
    count = count_flops(module, problem)
    assert all(part.fused for part in fused)
    for part in fused:
        part.fused = False
    assert count_flops(module, problem) == count
    assert not any(part.fused for part in fused)


def test_the_reference_path_gives_way_to_errors(problem):
    module = compiled(problem, bp={})

    def fail():
        with reference_path(module):
            assert not module.bp.fused
            raise RuntimeError("inside")

    with pytest.raises(RuntimeError, match="inside"):
        fail()
    assert module.bp.fused


def test_parameters_and_bytes_are_what_a_checkpoint_carries(problem):
    module = compiled(problem, gnn={"normalization": "batch"})
    cost = measure(module, problem)
    learned = sum(p.numel() for p in module.parameters())
    statistics = 2 * 24 * 4  # mean and variance of each feature in each round
    assert cost.n_params == learned + statistics
    assert cost.n_bytes == 4 * cost.n_params
    assert cost.latency_us_p50 is None
    assert torch.is_grad_enabled()
