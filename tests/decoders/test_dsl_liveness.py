"""No dead option: every field of the DSL, set to every value it may have, changes what the backend is given or how
the model is trained.

The fields are found by walking `PredecoderDSL`, so a field that is added without an entry here fails.
"""

from __future__ import annotations

import copy
import itertools
import types
import zlib
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import pytest
import torch
from click.testing import CliRunner
from pydantic import BaseModel

from autoqec.commands.run_round import command
from autoqec.decoders import dsl_schema as schema
from autoqec.decoders.checkpoint import CheckpointInfo, save
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.io.hashing import sha256_bytes
from autoqec.io.strict_yaml import dump_yaml
from autoqec.layout import RoundDir
from autoqec.runner.execute import Round
from autoqec.runner.failure_kinds import RoundFailed
from autoqec.runner.schema import Failure
from tests.decoders.both_halves import with_both_halves

PROBLEMS = {"surface_d3_depol": 0.005, "bb72_capacity": 0.06, "steane_custom_dem": 0.01}
ALIKE = ("neural_bp.weight_sharing", "neural_bp.radius")
"""Options that are at work where checks differ: those of `bb72_capacity` are all alike."""
TURBO = "neural_bp.turbo."
Config = dict[str, Any]


def alternatives(annotation: Any) -> list[Any]:
    """The members of a union, else the annotation itself."""
    unions = (Union, types.UnionType)
    return list(get_args(annotation)) if get_origin(annotation) in unions else [annotation]


def leaves(model: type[BaseModel], path: str = "") -> list[str]:
    """Dotted paths of all fields that hold a choice, in all blocks."""
    found = []
    for name, field in model.model_fields.items():
        parts = alternatives(field.annotation)
        blocks = [part for part in parts if isinstance(part, type) and issubclass(part, BaseModel)]
        for block in blocks:
            found += leaves(block, f"{path}{name}.")
        others = [part for part in parts if part not in (*blocks, types.NoneType)]
        if others and len(values_of(field.annotation)) != 1:  # a tag such as `type: custom` holds no choice
            found.append(f"{path}{name}")
    return found


def values_of(annotation: Any) -> list[Any]:
    """All values of the literals and booleans in an annotation."""
    found: list[Any] = []
    for part in alternatives(annotation):
        if part is bool:
            found += [True, False]
        elif get_origin(part) is Literal:
            found += get_args(part)
    return found


def declared(path: str) -> list[Any]:
    model: type[BaseModel] = PredecoderDSL
    *blocks, last = path.split(".")
    for name in blocks:
        parts = alternatives(model.model_fields[name].annotation)
        model = next(part for part in parts if isinstance(part, type) and issubclass(part, BaseModel))
    return values_of(model.model_fields[last].annotation)


def custom(slot: str, arguments: str, body: str, **params: str) -> Config:
    return {
        "type": "custom",
        "code": f"def {slot}({arguments}, params):\n    return {body}\n",
        "params_declared": params,
    }


MESSAGE, AGGREGATE, HEAD = (
    ("message", "x_src, x_dst, e_ij"),
    ("aggregate", "messages, edge_index, n_nodes"),
    ("head", "hidden_state"),
)
SUMMED = (
    "messages.new_zeros(messages.shape[0], n_nodes, messages.shape[-1])"
    ".index_add(1, edge_index[1], torch.tanh({}))"
)
CUSTOMS = {
    "gnn.message_fn": [
        custom(*MESSAGE, "torch.tanh(x_src + x_dst + e_ij)"),
        custom(*MESSAGE, "torch.tanh(x_src - x_dst + e_ij)"),
        custom(*MESSAGE, "torch.tanh(params.W(x_src) + e_ij)", W="Linear(hidden, hidden)"),
        custom(*MESSAGE, "torch.tanh(params.W(x_src) + e_ij)", W="LayerNorm(hidden)"),
    ],
    "gnn.aggregation": [
        custom(*AGGREGATE, SUMMED.format("messages")),
        custom(*AGGREGATE, SUMMED.format("2 * messages")),
        custom(*AGGREGATE, SUMMED.format("params.W(messages)"), W="Linear(hidden, hidden)"),
        custom(*AGGREGATE, SUMMED.format("params.W(messages)"), W="LayerNorm(hidden)"),
    ],
    "head": [
        custom(*HEAD, "torch.tanh(params.W(hidden_state))", W="Linear(hidden, out)"),
        custom(*HEAD, "torch.tanh(4 * params.W(hidden_state))", W="Linear(hidden, out)"),
        custom(*HEAD, "torch.tanh(hidden_state @ params.W)", W="Parameter(hidden, out)"),
    ],
}
FEATURES = list(get_args(schema.EdgeFeature))
BY_HAND: dict[str, list[Any]] = {
    "gnn.layers": [1, 2, 3],
    "gnn.hidden_dim": [4, 8, 12],
    "gnn.edge_features": [FEATURES, *([name] for name in FEATURES), FEATURES[:-1]],
    "neural_bp.iterations": [1, 2, 5],
    "neural_bp.attention_heads": [1, 2, 3],
    "neural_bp.radius": [1, 2],
    f"{TURBO}exchanges": [1, 2, 4],
    f"{TURBO}context_iterations": [1, 2, 4],
    f"{TURBO}legs": [0, 1, 3],
    f"{TURBO}leg_exchanges": [1, 2, 4],
    f"{TURBO}solutions": [1, 2],
    "hard_flip.confidence": [0.05, 0.5, 0.9],
}
STARTS = "<a checkpoint>"
TRAINING: dict[str, list[Any]] = {
    "training.learning_rate": [1e-4, 1e-3],
    "training.batch_size": [64, 128],
    "training.epochs": [1, 2],
    "training.loss": declared("training.loss"),
    "training.profile": declared("training.profile"),
    "training.init_from": [None, STARTS],
}
CODE = [f"{slot}.{part}" for slot in CUSTOMS for part in ("code", "params_declared")]
CASCADE = ("stages", "mean_flops")
MODEL = [path for path in leaves(PredecoderDSL) if path not in (*TRAINING, *CODE, *CASCADE)]


def test_every_field_has_an_entry() -> None:
    given = {path for path in leaves(PredecoderDSL) if declared(path)}
    by_hand = {*BY_HAND, *TRAINING, *CODE, *CASCADE}
    assert set(leaves(PredecoderDSL)) == given | by_hand
    assert {path.partition(".")[0] for path in MODEL} == {
        "type",
        "output_mode",
        "gnn",
        "neural_bp",
        "head",
        "hard_flip",
    }
    assert set(declared("gnn.message_fn")) == set(get_args(schema.MessageFn))


def base(kind: str, mode: str) -> Config:
    config: Config = {"type": kind, "output_mode": mode}
    if kind != "neural_bp":
        config["gnn"] = {"layers": 2, "hidden_dim": 8}
    if kind != "gnn":
        config["neural_bp"] = {"iterations": 3}
    return config


def set_at(config: Config, path: str, value: Any) -> Config:
    config = copy.deepcopy(config)
    *blocks, last = path.split(".")
    inner = config
    for name in blocks:
        inner = inner.setdefault(name, {})
    inner[last] = value
    if path == "neural_bp.radius":
        inner["weight_sharing"] = "neighbourhood"
    if path == "neural_bp.attention_heads":
        inner["attention_aug"] = True
    if path in (f"{TURBO}leg_exchanges", f"{TURBO}solutions"):
        inner |= {"legs": 4, "exchanges": 1}
    if path == "type":
        config = base(value, config["output_mode"])
    return config


def bases_of(path: str) -> list[Config]:
    """The configs in which a field has to matter: every family that has its block, in both modes where it may."""
    block = path.partition(".")[0]
    families = {"gnn": ("gnn", "hybrid"), "neural_bp": ("neural_bp", "hybrid"), "type": ("gnn",)}
    modes = ("hard_flip",) if block == "hard_flip" else ("soft_priors", "hard_flip")
    kinds = families.get(block, ("gnn", "neural_bp", "hybrid"))
    return [base(kind, mode) for kind, mode in itertools.product(kinds, modes)]


@cache
def problem_of(env: str) -> Any:
    if env == "both_halves":
        return with_both_halves().problem(0.02)
    return load_env(env).problem(PROBLEMS[env])


def what_acts(config: Config, env: str) -> torch.Tensor:
    """What the backend is given by a model whose weights depend on nothing but their names and shapes."""
    problem, dsl = problem_of(env), PredecoderDSL.model_validate(config)
    module, other = (compile_predecoder(dsl, problem, seed=seed).eval() for seed in (0, 1))
    with torch.no_grad():
        for (name, parameter), twin in zip(module.named_parameters(), other.parameters(), strict=True):
            generator = torch.Generator().manual_seed(zlib.crc32(name.encode()))
            parameter *= parameter == twin  # random starts depend on the order of construction
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator)
        shots = 5 if problem.joint is None else 40
        syndrome = (
            torch.rand(shots, problem.n_checks, generator=torch.Generator().manual_seed(0)) < 0.2
        ).float()
        # From rare to likely faults, so that some are near every confidence.
        odds = torch.logit(context(problem)["prior_p"]) + torch.linspace(-6, 6, shots)[:, None]
        ctx = {**context(problem), "prior_p": torch.sigmoid(odds)}
        if dsl.output_mode == "soft_priors":
            return module.backend_weights(syndrome, ctx).flatten()
        flips = module.applied_faults(syndrome, ctx).float()
        return torch.cat([module.fault_log_odds(syndrome, ctx).T, 10 * flips]).flatten()


def differ(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape != b.shape or not torch.allclose(a, b, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize(
    ("path", "second"),
    [
        (path, second)
        for path in MODEL
        for second in (False, True)
        if not path.startswith(TURBO)
        and (path, second) != ("gnn.neighbours", True)  # of a matching graph alone
    ],
)
def test_every_value_of_a_model_option_changes_what_the_backend_is_given(path: str, second: bool) -> None:
    """On a matching graph and without one."""
    without = "steane_custom_dem" if path in ALIKE else "bb72_capacity"
    check_values(path, without if second else "surface_d3_depol")


@pytest.mark.parametrize("path", [path for path in MODEL if path.startswith(TURBO)])
def test_every_value_of_an_option_of_turbo_propagation_acts(path: str) -> None:
    check_values(path, "both_halves")


def check_values(path: str, env: str) -> None:
    values = [*BY_HAND.get(path, declared(path)), *CUSTOMS.get(path, [])]
    values = [value for value in values if (path, value) != ("type", "cascade")]
    assert len(values) > 1
    for config in bases_of(path):
        seen: list[tuple[Any, torch.Tensor]] = []
        for value in values:
            found = what_acts(set_at(config, path, value), env)
            for other, before in seen:
                assert differ(found, before), (config["type"], config["output_mode"], value, other)
            seen.append((value, found))


def test_every_option_of_a_cascade_acts() -> None:
    first, last = {"type": "neural_bp", "neural_bp": {"iterations": 2}}, base("hybrid", "soft_priors")
    del last["output_mode"]

    def of(*stages: Config, **more: Any) -> Config:
        return {"type": "cascade", "output_mode": "soft_priors", "stages": list(stages), **more}

    def made(config: Config) -> CascadePredecoder:
        module = compile_predecoder(PredecoderDSL.model_validate(config), problem_of("surface_d3_depol"))
        assert isinstance(module, CascadePredecoder)
        return module

    alone = what_acts({**first, "output_mode": "soft_priors"}, "surface_d3_depol")
    both = what_acts(of(first, last, mean_flops=10**8), "surface_d3_depol")
    deeper = {**last, "gnn": {"layers": 3, "hidden_dim": 8}}
    assert differ(both, alone)
    assert differ(what_acts(of(first, deeper, mean_flops=10**8), "surface_d3_depol"), both)
    costs = (1_000, 100_000)
    by_cost = [made(of(first, last, mean_flops=each)).planned_shares(costs) for each in (2_000, 3_000)]
    assert by_cost == [(1.0, 0.01), (1.0, 0.02)]
    by_share = [made(of(first, {**last, "share": each})).planned_shares(costs) for each in (0.1, 0.2)]
    assert by_share == [(1.0, 0.1), (1.0, 0.2)]
    assert made(of(first, {**last, "share": 0.1, "order": 3})).gates.orders == (None, 3)
    assert made(of(first, {**last, "share": 0.1, "members": 4})).gates.members == (None, 4)
    assert made(of(first, {"type": "sweep", "share": 0.1, "states": 9})).gates.states == (None, 9)
    legs = made(of(first, {"type": "joint_legs", "share": 0.1, "legs": 7, "takes": "unsure"})).gates
    assert (legs.legs, legs.lets) == ((None, 7), ("unsure", None))
    parts = PredecoderDSL.model_validate(of(first, {**last, "epochs": 7}, mean_flops=10**8)).parts
    assert [part.training.epochs for part in parts] == [3, 7]


def test_what_is_compared_does_not_depend_on_the_order_of_construction() -> None:
    """Otherwise an option that only draws random numbers would pass for alive."""
    config = base("hybrid", "soft_priors")
    before = what_acts(config, "surface_d3_depol")
    assert not differ(what_acts(copy.deepcopy(config), "surface_d3_depol"), before)
    assert not differ(what_acts({**config, "training": {"epochs": 9}}, "surface_d3_depol"), before)


def training_of(config: Config, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """The schedule, and loss and gradient of the first step, of a round started as a user starts it."""
    env = load_env("surface_d3_depol")
    noise = env.spec.noise.model_copy(update={"p": [0.01], "reference_p": 0.01})
    protocol = env.spec.eval_protocol.model_copy(update={"min_shots_train": 4000})
    small = Environment(
        env.spec.model_copy(update={"noise": noise, "eval_protocol": protocol}), root=env.root
    )
    caught: list[tuple[Any, ...]] = []

    def catch(module: Any, objective: Any, schedule: Any, **_: Any) -> None:
        loss = float(objective.step(module.train(), 0))
        gradient = torch.cat([p.grad.flatten() for p in module.parameters() if p.grad is not None])
        # Time left is measured, and so is not part of the answer.
        caught.append(
            (schedule.steps, schedule.per_epoch, schedule.learning_rate, loss, float(gradient.norm()))
        )
        raise RoundFailed(Failure("training_failed", "seen enough"))

    def in_process(config: Any, env: Any, safety: Any, **_: Any) -> Any:
        return Round(config, small, safety).run()

    monkeypatch.setattr("autoqec.runner.training.train", catch)
    monkeypatch.setattr("autoqec.runner.supervise.run_round", in_process)
    path = tmp_path / "config.yaml"
    (tmp_path / "round").mkdir(exist_ok=True)
    if config["training"].get("init_from") == STARTS:
        config = set_at(config, "training.init_from", another_start(config, small, tmp_path / "round"))
    path.write_text(dump_yaml(PredecoderDSL.model_validate(config)))
    result = CliRunner().invoke(command, ["surface_d3_depol", str(path), str(tmp_path / "round")])
    assert caught, (result.output, result.exception)
    return caught[0]


def another_start(config: Config, env: Environment, folder: Path) -> str:
    """A checkpoint with other weights than a model starts with, where a round finds it; its hash."""
    dsl = PredecoderDSL.model_validate(set_at(config, "training.init_from", None))
    module = compile_predecoder(dsl, env.problem(0.01))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter *= 0.9
    info = CheckpointInfo(
        dsl=dsl,
        output_mode=dsl.output_mode,
        env_name="x",
        env_hash="y",
        seed=0,
        train_labels=(0, -1),
        versions={},
    )
    (folder / "other").mkdir(exist_ok=True)
    data = save(folder / "other", module, info).read_bytes()
    RoundDir(folder).initial.write_bytes(data)
    return sha256_bytes(data)


@pytest.mark.parametrize("path", TRAINING)
def test_every_value_of_a_training_option_changes_the_training(
    path: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {**base("neural_bp", "soft_priors"), "training": {"batch_size": 64, "epochs": 1}}
    seen: list[tuple[Any, ...]] = []
    for value in TRAINING[path]:
        found = training_of(set_at(config, path, value), tmp_path, monkeypatch)
        assert found not in seen, value
        seen.append(found)
    assert training_of(set_at(config, path, TRAINING[path][-1]), tmp_path, monkeypatch) == seen[-1]
