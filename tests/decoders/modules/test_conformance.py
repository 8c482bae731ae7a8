"""One contract for every predecoder: each family and option of the DSL, on a matching graph and without one."""

import copy
from functools import cache
from typing import get_args

import numpy as np
import pytest
import torch

from autoqec.decoders import dsl_schema as schema
from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.export import to_onnx
from autoqec.decoders.flop_census import reference_path
from autoqec.decoders.modules.base import residual_syndrome
from autoqec.decoders.onnx_file import OUTPUTS
from autoqec.decoders.onnx_graph import PipelineAnswers
from autoqec.decoders.onnx_predecoder import OnnxPredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.load import load_env

PROBLEMS = {"surface_d3_depol": 0.005, "bb72_capacity": 0.06}
SHOTS = 6
MODES = get_args(schema.OutputMode)


def bp(head="linear", **spec):
    return {"type": "neural_bp", "neural_bp": {"iterations": 3, **spec}, "head": head}


def gnn(head="linear", **spec):
    return {"type": "gnn", "gnn": {"layers": 2, "hidden_dim": 8, **spec}, "head": head}


def hybrid(head="linear", gnn_spec=None, **spec):
    return {**bp(**spec), **gnn(**(gnn_spec or {})), "type": "hybrid", "head": head}


def choices(model, field):
    return get_args(model.model_fields[field].annotation)


CUSTOM = {
    "type": "custom",
    "code": "def message(x_src, x_dst, e_ij, params):\n    return torch.tanh(params.A(x_src) - x_dst + e_ij)\n",
    "params_declared": {"A": "Linear(hidden, hidden)"},
}
EVERYTHING = {
    "iterations": 4,
    "weight_sharing": "none",
    "damping": "learnable_per_iter",
    "attention_aug": True,
    "attention_heads": 3,
    "memory": "learnable",
    "prior_mix": True,
}
VARIANTS = {
    **{
        f"bp-{field}-{value}": bp(**{field: value})
        for field in ("weight_sharing", "damping", "memory", "check_rule")
        for value in choices(schema.NeuralBpSpec, field)
    },
    "bp-1-iteration": bp(iterations=1),
    "bp-attention": bp(attention_aug=True),
    "bp-prior_mix": bp(prior_mix=True),
    "bp-mlp_small": bp("mlp_small"),
    "bp-everything": bp("mlp_small", **EVERYTHING),
    "bp-everything-min_sum": bp("mlp_small", **EVERYTHING, check_rule="min_sum"),
    **{f"gnn-{name}": gnn(message_fn=name) for name in get_args(schema.MessageFn)},
    **{f"gnn-{name}": gnn(aggregation=name) for name in get_args(schema.Aggregation)},
    **{f"gnn-norm-{name}": gnn(normalization=name) for name in get_args(schema.Normalization)},
    **{f"gnn-only-{name}": gnn(edge_features=[name]) for name in get_args(schema.EdgeFeature)},
    "gnn-no-residual": gnn(residual=False),
    "gnn-mlp_small": gnn("mlp_small"),
    "gnn-custom-message": gnn(message_fn=CUSTOM),
    "gnn-mixed": gnn(normalization="edge_norm", aggregation="max", message_fn="gru_cell", residual=False),
    "hybrid": hybrid(),
    "hybrid-mlp_small": hybrid("mlp_small", {"message_fn": "gated_mlp", "aggregation": "mean"}),
    "hybrid-everything": hybrid("mlp_small", {"message_fn": "edge_attention"}, **EVERYTHING),
    "gnn-neighbours": gnn(neighbours="faults"),
    "hybrid-neighbours": hybrid("mlp_small", {"neighbours": "faults"}, prior_mix=True),
}
EXPORTED = [
    "bp-everything", "bp-check_rule-min_sum", "gnn-edge_attention", "gnn-max", "gnn-norm-batch", "gnn-gated_mlp",
    "gnn-set_transformer", "hybrid-mlp_small", "hybrid-neighbours",
]  # fmt: skip

ON_MATCHING_GRAPHS = [name for name in VARIANTS if name.endswith("-neighbours")]
on_every_case = pytest.mark.parametrize(
    ("env", "variant"),
    [
        (env, name)
        for env in PROBLEMS
        for name in VARIANTS
        if env == "surface_d3_depol" or name not in ON_MATCHING_GRAPHS
    ],
)
on_every_problem = pytest.mark.parametrize("env", PROBLEMS)


@cache
def problem_of(env):
    return load_env(env).problem(PROBLEMS[env])


@cache
def _compiled(env, variant, mode, spread):
    config = PredecoderDSL.model_validate({**VARIANTS[variant], "output_mode": mode})
    module = compile_predecoder(config, problem_of(env), seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter += spread * torch.randn(parameter.shape, generator=generator)
    return module


def trained(env, variant, mode="soft_priors", spread=0.1):
    """As if trained: every parameter moved away from its start, and flips that happen and do not."""
    module = copy.deepcopy(_compiled(env, variant, mode, spread))
    module.confidence = 0.3
    return module


def syndromes(env, shots=SHOTS, seed=0, density=0.15):
    generator = torch.Generator().manual_seed(seed)
    return (torch.rand(shots, problem_of(env).n_checks, generator=generator) < density).float()


def answers(module, syndrome, ctx):
    """What a backend is given, and the log-odds behind it: all of it is checked, not only what `forward` returns."""
    names = ("fault_log_odds", "edge_log_odds", "forward")
    with torch.no_grad():
        # Copies: in training a call may leave statistics behind for the next.
        found = {name: getattr(copy.deepcopy(module), name)(syndrome, ctx) for name in names}
    found["fault_log_odds"] = found["fault_log_odds"].T
    return {name: out for name, out in found.items() if out is not None}


def assert_same(found, expected, atol=2e-3, rtol=1e-3):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, atol=atol, rtol=rtol, msg=name)


@on_every_case
def test_outputs_have_the_shapes_and_types_of_the_contract(env, variant):
    problem, ctx = problem_of(env), context(problem_of(env))
    for shots in (SHOTS, 1, 0):
        syndrome = syndromes(env, shots)
        soft = trained(env, variant)
        out = soft(syndrome, ctx)
        assert (out.shape, out.dtype) == ((shots, problem.n_faults), torch.float32)
        assert ((out >= 0) & (out <= 1)).all()
        assert not soft.applied_faults(syndrome, ctx).any()
        weights = soft.backend_weights(syndrome, ctx)
        n_weights = problem.n_faults if problem.graph is None else problem.graph.n_edges
        assert (weights.shape, weights.dtype) == ((shots, n_weights), torch.float32)
        assert (soft.edge_log_odds(syndrome, ctx) is None) == (problem.graph is None)
        hard = trained(env, variant, "hard_flip")
        residual, faults = hard(syndrome, ctx), hard.applied_faults(syndrome, ctx)
        assert (residual.shape, residual.dtype) == (syndrome.shape, torch.long)
        assert (faults.shape, faults.dtype) == ((shots, problem.n_faults), torch.bool)
        flipped = (problem.h @ faults.numpy().T.astype(np.int64)).T
        assert (residual.numpy() == (syndrome.numpy().astype(np.int64) + flipped) % 2).all()
    assert soft(syndromes(env, 2), ctx).std() > 0


@on_every_case
@pytest.mark.parametrize("mode", MODES)
def test_syndromes_by_round_are_the_flat_ones(env, variant, mode):
    module, ctx = trained(env, variant, mode), context(problem_of(env))
    syndrome = syndromes(env)
    by_round = syndrome.reshape(SHOTS, 4, -1)
    with torch.no_grad():
        assert torch.equal(module(by_round, ctx), module(syndrome, ctx))
        assert torch.equal(module.applied_faults(by_round, ctx), module.applied_faults(syndrome, ctx))


@on_every_case
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_each_shot_is_answered_from_its_own_row(env, variant, training):
    ctx, syndrome, foreign = context(problem_of(env)), syndromes(env), syndromes(env, seed=9, density=0.6)
    foreign[0] = syndrome[0]

    def run(given):
        return answers(trained(env, variant).train(training), given, ctx)

    whole = run(syndrome)
    order = torch.tensor([4, 2, 0, 5, 1, 3])
    assert_same(run(syndrome[order]), {name: out[order] for name, out in whole.items()})
    assert_same(run(syndrome[2:3]), {name: out[2:3] for name, out in whole.items()})
    assert_same({name: out[:1] for name, out in run(foreign).items()}, {k: v[:1] for k, v in whole.items()})


@on_every_case
@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0], ids=["untrained", "trained", "wild"])
def test_no_syndrome_gives_nan(env, variant, spread):
    module, ctx = trained(env, variant, spread=spread).train(), context(problem_of(env))
    n_checks = problem_of(env).n_checks
    alternating = torch.arange(n_checks) % 2
    syndrome = torch.cat(
        [
            torch.stack([torch.zeros(n_checks), torch.ones(n_checks), alternating, 1 - alternating]),
            syndromes(env, 3, density=0.5),
            torch.eye(n_checks)[:2],
        ]
    )
    out, weights = module(syndrome, ctx), module.backend_weights(syndrome, ctx)
    assert out.isfinite().all()
    assert weights.isfinite().all()
    (out.sum() + weights.square().mean()).backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


@on_every_case
@pytest.mark.parametrize("mode", MODES)
def test_every_parameter_acts(env, variant, mode):
    """On what the pipeline uses: a parameter that no shot depends on would be paid for and never learn."""
    module, ctx, syndrome = trained(env, variant, mode), context(problem_of(env)), syndromes(env)
    out = (
        module.backend_weights(syndrome, ctx)
        if mode == "soft_priors"
        else module.fault_log_odds(syndrome, ctx)
    )
    (out * torch.randn(out.shape, generator=torch.Generator().manual_seed(5))).sum().backward()
    idle = {name for name, p in module.named_parameters() if p.grad is None or p.grad.abs().max() < 1e-6}
    # A softmax does not see what is added to all of its scores; nothing comes before the first iteration; code
    # capacity has no rounds.
    excused = ["message.geometry.2.bias"]
    excused += ["bp.damping"] * (variant == "bp-1-iteration")
    excused += ["static.weight"] * ((env, variant) == ("bb72_capacity", "gnn-only-round_idx"))
    assert not {name for name in idle if not name.endswith(tuple(excused))}


@on_every_case
def test_prior_and_edge_features_of_the_context_are_optional(env, variant):
    module, ctx, syndrome = trained(env, variant), context(problem_of(env)), syndromes(env)
    edges_only = {"tanner_edges": ctx["tanner_edges"]}
    expected = answers(module, syndrome, ctx)
    assert_same(answers(module, syndrome, edges_only), expected)
    assert_same(answers(module, syndrome, {**ctx, "prior_p": ctx["prior_p"].expand(SHOTS, -1)}), expected)
    likelier = answers(module, syndrome, {**ctx, "prior_p": 2 * ctx["prior_p"]})
    assert not torch.allclose(likelier["fault_log_odds"], expected["fault_log_odds"], atol=1e-2)
    hard = trained(env, variant, "hard_flip")
    faults = hard.applied_faults(syndrome, edges_only)
    assert torch.equal(hard(syndrome, edges_only), residual_syndrome(syndrome, faults, ctx["tanner_edges"]))


@on_every_case
def test_compiled_kernels_compute_what_torch_computes(env, variant):
    """On a CPU parts of most predecoders run compiled; export, cost and GPUs see the torch operations."""
    ctx, syndrome = context(problem_of(env)), syndromes(env, 40)
    found, expected = trained(env, variant), trained(env, variant)
    weights = found.backend_weights(syndrome, ctx)
    with reference_path():
        reference = expected.backend_weights(syndrome, ctx)
    torch.testing.assert_close(weights, reference, atol=2e-3, rtol=1e-3)
    for out in (weights, reference):
        (out / 10).square().mean().backward()
    for (name, p), q in zip(found.named_parameters(), expected.parameters(), strict=True):
        if q.grad is not None:
            assert (p.grad - q.grad).norm() <= 5e-3 * q.grad.norm() + 1e-5, name


@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
@on_every_case
def test_a_gpu_gives_what_the_cpu_gives(env, variant):
    ctx, syndrome = context(problem_of(env)), syndromes(env, 40)
    expected = answers(trained(env, variant), syndrome, ctx)
    moved = trained(env, variant).cuda()
    found = answers(moved, syndrome.cuda(), context(problem_of(env), "cuda"))
    assert_same({name: out.cpu() for name, out in found.items()}, expected, atol=1e-2, rtol=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["bp-everything", "gnn-edge_attention", "hybrid-mlp_small"])
@on_every_problem
@pytest.mark.filterwarnings("ignore")
def test_an_exported_program_computes_the_same_for_any_batch(env, variant):
    problem = problem_of(env)
    kind = "priors" if problem.graph is None else "edges"
    fixed = PipelineAnswers(trained(env, variant), problem, kind).eval()
    batch = torch.export.Dim("batch", min=1)
    program = torch.export.export(
        fixed, (syndromes(env, 4),), dynamic_shapes={"syndrome": {0: batch}}
    ).module()
    for shots in (1, 17):
        given = syndromes(env, shots, seed=3)
        torch.testing.assert_close(program(given), fixed(given), atol=2e-3, rtol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("variant", EXPORTED)
@pytest.mark.filterwarnings("ignore")
def test_onnx_runtime_computes_the_same(variant, tmp_path):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    env = "bb72_capacity" if variant.startswith("gnn") else "surface_d3_depol"
    problem, module = problem_of(env), trained(env, variant)
    backend = make_backend(problem, "osd" if variant.startswith("gnn") else "mwpm")
    detectors = load_env(env).sampler(PROBLEMS[env]).sample(9, 0).detectors
    done = to_onnx(module, backend, tmp_path / "model.onnx", detectors=detectors)
    _, theirs = OnnxPredecoder(done.path, problem).answers(detectors)
    kind, ours = PredecoderPipeline(module, backend).answers(detectors)
    assert done.output == OUTPUTS[kind]
    torch.testing.assert_close(torch.from_numpy(theirs), torch.from_numpy(ours), atol=1e-3, rtol=1e-3)
