"""The cost census on every predecoder: nothing is refused, nothing hides in compiled kernels, work adds up."""

from typing import get_args

import numpy as np
import pytest
import torch

from autoqec.decoders import dsl_schema as schema
from autoqec.decoders import flop_census
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.cost import count_flops, measure
from autoqec.decoders.cost_basis import learned_numbers, typical_syndromes
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.flop_census import count, reference_path
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.sandbox import _serve

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
    assert len(fused) == 1 + 2 + (problem.graph is not None)  # propagation, layers, the fold into edges
    count = count_flops(module, problem)
    assert all(part.fused for part in fused)
    for part in fused:
        part.fused = False
    assert count_flops(module, problem) == count
    assert not any(part.fused for part in fused)


def asked_of(module, problem, shots=8, **options):
    rows = unpack(typical_syndromes(problem, shots), problem.n_checks)
    return count(module, [torch.from_numpy(rows).float()], context(problem), **options)


def test_a_kernel_outside_the_module_is_counted_like_one_inside(problem):
    """What a module keeps in a plain list is not part of it, and works for it all the same."""
    module, other = compiled(problem, bp={"iterations": 2}), compiled(problem, bp={"iterations": 9})
    honest = asked_of(other, problem)
    module.fault_log_odds = other.fault_log_odds
    assert asked_of(module, problem).mean == honest.mean
    assert other.bp.fused


def test_work_that_depends_on_the_shot_is_counted_as_it_happens(problem):
    """Twice the work for shots with an even number of defects, once for the others."""
    module = compiled(problem, bp={"iterations": 2})
    once, answer = asked_of(module, problem), module.fault_log_odds

    def twice_if_even(syndrome, ctx):
        even = syndrome[syndrome.sum(dim=1) % 2 == 0]
        if len(even):
            answer(even, ctx)
        return answer(syndrome, ctx)

    module.fault_log_odds = twice_if_even
    found = asked_of(module, problem, shots=64, alone=16)
    assert once.spread == 0
    assert 1.2 * once.mean < found.mean < 1.9 * once.mean
    assert found.spread > 0
    assert found.largest > 1.9 * once.mean


def test_what_a_call_costs_whatever_its_batch_is_told_apart(problem):
    module = compiled(problem, bp={"iterations": 2})
    before, answer = asked_of(module, problem), module.fault_log_odds

    def with_a_table(syndrome, ctx):
        return answer(syndrome, ctx) + 0 * (torch.ones(64, 64) @ torch.ones(64, 64))[0, 0]

    module.fault_log_odds = with_a_table
    after = asked_of(module, problem)
    assert after.per_call - before.per_call >= 2 * 64**3
    assert after.mean - before.mean <= 2 * problem.n_faults


def test_syndromes_to_count_on_are_those_of_the_problem_s_faults(problem):
    bits = unpack(typical_syndromes(problem, 4000), problem.n_checks)
    rows = problem.h.toarray().astype(bool)
    rates = [(1 - np.prod(1 - 2 * problem.priors[row])) / 2 for row in rows]
    assert np.abs(bits.mean(axis=0) - rates).max() < 0.05


def test_a_number_of_eight_bytes_counts_twice():
    assert learned_numbers({"half": (10, 20), "single": (10, 40), "double": (10, 80)}) == 40


def test_the_reference_path_gives_way_to_errors(problem):
    module = compiled(problem, bp={})

    def fail():
        with reference_path():
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


def test_latency_is_that_of_shots_as_they_come(problem, monkeypatch):
    """Work may depend on the shot, and random bits look like no shot."""
    timed = []

    def asked(module, syndromes, ctx):
        timed.append(syndromes)
        return flop_census.asked(module, syndromes, ctx)

    monkeypatch.setattr("autoqec.decoders.cost.asked", asked)
    cost = measure(compiled(problem, bp={"iterations": 2}), problem, latency=True)
    assert 0 < cost.latency_us_p50 <= cost.latency_us_p99
    assert cost.bulk_us_per_shot > 0
    bulk = max(timed, key=len)
    expected = (1 - np.prod(1 - 2 * problem.priors[:, None] * problem.h.T.toarray(), axis=0)) / 2
    error = np.sqrt(expected * (1 - expected) / len(bulk))
    assert (np.abs(bulk.numpy().mean(axis=0) - expected) < 6 * error).all()
    assert sum(len(syndromes) == 1 for syndromes in timed) >= 100


@pytest.mark.parametrize(
    "stages", [[{"iterations": 3}], [{"iterations": 2}, {"iterations": 6}]], ids=["one stage", "cascade"]
)
def test_what_the_backend_is_not_given_is_not_counted(stages):
    """Ordered statistics take priors, also where the faults make a graph and the model could give weights of its edges."""
    spec = load_env("surface_d3_depol").spec.model_copy(
        update={"classical_backend": "osd", "baseline_decoders": ["bposd"]}
    )
    problem = Environment(spec).problem(0.01)
    assert problem.graph is not None
    parts = [{"type": "neural_bp", "neural_bp": each} for each in stages]
    config = (
        parts[0] if len(parts) == 1 else {"type": "cascade", "stages": [parts[0], {**parts[1], "share": 0.1}]}
    )
    dsl = PredecoderDSL.model_validate({**config, "output_mode": "soft_priors"})
    module = compile_predecoder(dsl, problem).eval()
    declared = measure(module, problem, wants_edges=False)
    assert declared.flops_per_syndrome != measure(module, problem).flops_per_syndrome
    model = _serve._Model(problem, dsl.model_dump(mode="json"), seed=0, state=None, wants_edges=False)
    assert model.kind == "priors"
    shots = typical_syndromes(problem, 64)
    counted, answers = model.counted(shots, 64, 0)
    flops = declared.flops_per_syndrome if declared.stage_flops is None else declared.stage_flops[0]
    assert counted.mean == flops
    if len(parts) == 2:
        later, _ = model.counted(shots, 64, 0, stage=1, earlier=answers)
        assert later.mean == declared.stage_flops[1]
