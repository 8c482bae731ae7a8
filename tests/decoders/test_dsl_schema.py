"""PredecoderDSL: the layout, its rules from both sides, and the canonical form."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoqec.decoders import dsl_schema as dsl
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict, canonical_hash
from autoqec.errors import InputError
from autoqec.io.strict_yaml import dump_yaml, parse_yaml
from autoqec.io.validate import load_model, validate_model

FULL = """
type: hybrid
output_mode: hard_flip
gnn:
  layers: 4
  hidden_dim: 24
  message_fn:
    type: custom
    code: |
      def message(x_src, x_dst, e_ij, params):
          return params["W"](x_src)
    params_declared: {W: "Linear(hidden, hidden)"}
  aggregation: gated_sum
  normalization: graph_norm
  residual: true
  edge_features: [syndrome_bit, round_idx, stabilizer_type, distance, prior_weight]
neural_bp:
  iterations: 8
  weight_sharing: per_check
  damping: learnable_per_iter
  attention_aug: true
  attention_heads: 2
  memory: learnable
  check_rule: min_sum
  prior_mix: true
head: mlp_small
hard_flip: {confidence: 0.9}
training:
  learning_rate: 1.0e-3
  batch_size: 512
  epochs: 3
  loss: backend_gap
  profile: prod
"""

GNN: dict[str, Any] = {"type": "gnn", "output_mode": "soft_priors", "gnn": {}}
BP: dict[str, Any] = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {}}
CUSTOM = {"type": "custom", "code": "def head(hidden_state, params):\n    return hidden_state\n"}


def parse(data: dict[str, Any]) -> PredecoderDSL:
    return validate_model(data, PredecoderDSL, where="config")


def test_the_whole_layout_is_read_and_written_back(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(FULL)
    config = load_model(tmp_path / "config.yaml", PredecoderDSL)
    assert config.gnn is not None
    assert config.neural_bp is not None
    assert config.tier == "2"
    assert list(config.custom_functions) == ["gnn.message_fn"]
    text = dump_yaml(config)
    assert "code: |\n      def message" in text  # code stays readable
    assert validate_model(parse_yaml(text, where="dump"), PredecoderDSL, where="dump") == config


CHOICES = [
    ("gnn", "message_fn", dsl.MessageFn),
    ("gnn", "aggregation", dsl.Aggregation),
    ("gnn", "normalization", dsl.Normalization),
    ("neural_bp", "weight_sharing", dsl.NeuralBpSpec.model_fields["weight_sharing"].annotation),
    ("neural_bp", "damping", dsl.NeuralBpSpec.model_fields["damping"].annotation),
    ("neural_bp", "memory", dsl.NeuralBpSpec.model_fields["memory"].annotation),
    ("neural_bp", "check_rule", dsl.NeuralBpSpec.model_fields["check_rule"].annotation),
    ("training", "loss", dsl.Loss),
    ("training", "profile", dsl.TrainingSpec.model_fields["profile"].annotation),
]
DESIGN = {
    "message_fn": "mlp gated_mlp attention gru_cell edge_attention geometric_attention residual_mlp "
    "normalized_mlp",
    "aggregation": "sum mean max attention_pool set_transformer gated_sum",
    "normalization": "none layer batch edge_norm graph_norm",
    "weight_sharing": "none per_layer per_check neighbourhood",
    "damping": "fixed learnable_scalar learnable_per_iter",
    "memory": "none learnable",
    "check_rule": "sum_product min_sum",
    "loss": "bce focal weighted_bce backend_gap failures",
    "profile": "dev prod",
}


@pytest.mark.parametrize(("block", "option", "literal"), CHOICES, ids=lambda part: str(part)[:20])
def test_every_choice_of_the_design_is_accepted_and_nothing_else(
    block: str, option: str, literal: Any
) -> None:
    assert sorted(get_args(literal)) == sorted(DESIGN[option].split())
    base = BP if block == "neural_bp" else GNN
    for choice in get_args(literal):
        config = parse({**base, block: {option: choice}})
        assert getattr(getattr(config, block), option) == choice
    with pytest.raises(InputError, match=f"{block}.{option}: expected one of"):
        parse({**base, block: {option: "nonsense"}})


@pytest.mark.parametrize(
    "data",
    [
        GNN,
        BP,
        {**GNN, **BP, "type": "hybrid"},
        {**GNN, "head": CUSTOM},
        {**GNN, "gnn": {"aggregation": {**CUSTOM, "params_declared": {"W": "Linear(hidden, hidden)"}}}},
        {**GNN, "neural_bp": None},
        {**GNN, "gnn": {"layers": 1, "hidden_dim": 4}},
        {**GNN, "gnn": {"layers": 10_000, "hidden_dim": 1_000_000}},
        {**GNN, "output_mode": "hard_flip"},
        {**GNN, "output_mode": "hard_flip", "hard_flip": {}},
        {**BP, "neural_bp": {"attention_aug": True, "attention_heads": 4}},
        {**BP, "neural_bp": {"weight_sharing": "neighbourhood", "radius": 3}},
        {**BP, "training": {"init_from": "0123456789abcdef" * 4}},
        {**BP, "training": {"epochs": 0}},
        {**BP, "training": {"learning_rate": 1}},
    ],
)
def test_accepted(data: dict[str, Any]) -> None:
    config = parse(data)
    assert parse(canonical_dict(config)).model_dump() == {
        **config.model_dump(),
        "hard_flip": {"confidence": config.confidence} if config.output_mode == "hard_flip" else None,
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({**GNN, "type": "transformer"}, "type: expected one of 'gnn'"),
        ({**GNN, "output_mode": "flip"}, "output_mode: expected one of"),
        ({"type": "gnn", "gnn": {}}, "output_mode: required key is missing"),
        ({**GNN, "gnn": None}, "needs the gnn block"),
        ({**GNN, "neural_bp": {}}, "has no neural_bp block"),
        ({**BP, "neural_bp": None}, "needs the neural_bp block"),
        ({**BP, "gnn": {}}, "has no gnn block"),
        ({**GNN, "type": "hybrid"}, "needs the neural_bp block"),
        ({**BP, "type": "hybrid"}, "needs the gnn block"),
        ({**GNN, "gnn": {"layers": 0}}, "gnn.layers: expected a number >= 1, got 0"),
        ({**GNN, "gnn": {"hidden_dim": 3}}, "gnn.hidden_dim: expected a number >= 4"),
        ({**GNN, "gnn": {"layers": 2.5}}, "gnn.layers: expected an integer, got 2.5"),
        ({**GNN, "gnn": {"residual": 1}}, "gnn.residual: expected true or false"),
        ({**GNN, "gnn": {"edge_features": []}}, "one or more different features"),
        ({**GNN, "gnn": {"edge_features": ["distance", "distance"]}}, "one or more different features"),
        ({**GNN, "gnn": {"edge_features": ["colour"]}}, r"gnn.edge_features\[0\]: expected one of"),
        (
            {**GNN, "gnn": {"message_fun": "mlp"}},
            "gnn.message_fun: unknown key\n  hint: did you mean 'message_fn'",
        ),
        ({**GNN, "head": {**CUSTOM, "type": "lambda"}}, "head.type: expected 'custom'"),
        ({**GNN, "head": {"type": "custom"}}, "head.code: required key is missing"),
        ({**GNN, "head": {**CUSTOM, "code": ""}}, "head.code: expected a string that is not empty"),
        ({**GNN, "head": {**CUSTOM, "cod": "x"}}, "head.cod: unknown key"),
        ({**GNN, "head": {**CUSTOM, "params_declared": {"a b": "Linear(2, 2)"}}}, "cannot name a parameter"),
        ({**GNN, "head": {**CUSTOM, "params_declared": {"__class__": "x"}}}, "cannot name a parameter"),
        ({**GNN, "head": {**CUSTOM, "params_declared": {"lambda": "x"}}}, "cannot name a parameter"),
        ({**BP, "neural_bp": {"iterations": 0}}, "neural_bp.iterations"),
        ({**BP, "neural_bp": {"attention_heads": 2}}, "needs attention_aug"),
        ({**GNN, "hard_flip": {"confidence": 0.9}}, "belongs to output_mode 'hard_flip'"),
        (
            {**GNN, "output_mode": "hard_flip", "hard_flip": {"confidence": 1.0}},
            "confidence: expected a number < 1",
        ),
        ({**BP, "training": {"learning_rate": 0}}, "training.learning_rate"),
        ({**BP, "training": {"batch_size": 0}}, "training.batch_size"),
        ({**BP, "training": {"epochs": -1}}, "training.epochs"),
        ({**BP, "neural_bp": {"radius": 2}}, "radius = 2 needs weight_sharing: neighbourhood"),
        (
            {**BP, "neural_bp": {"weight_sharing": "neighbourhood", "radius": 0}},
            "radius: expected a number >= 1",
        ),
        ({**BP, "training": {"init_from": "runs/r1"}}, "training.init_from"),
    ],
)
def test_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse(data)


def test_canonical_hash_sees_the_meaning_and_not_the_spelling() -> None:
    spelled_out = {**copy.deepcopy(GNN), "neural_bp": None, "training": {"epochs": 3, "learning_rate": 0.001}}
    spelled_out["gnn"] = {"layers": 4, "edge_features": list(reversed(get_args(dsl.EdgeFeature)))}
    assert canonical_hash(parse(GNN)) == canonical_hash(parse(spelled_out))
    flip = {**GNN, "output_mode": "hard_flip"}
    assert canonical_hash(parse(flip)) == canonical_hash(parse({**flip, "hard_flip": {"confidence": 0.9}}))
    near, named = ({"weight_sharing": "neighbourhood", **more} for more in ({}, {"radius": 1}))
    assert canonical_hash(parse({**BP, "neural_bp": near})) == canonical_hash(
        parse({**BP, "neural_bp": named})
    )
    assert "radius" not in canonical_dict(parse(BP))["neural_bp"]


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    return [(path, value)]


def test_canonical_hash_sees_every_option() -> None:
    full = parse(parse_yaml(FULL, where="FULL"))  # type: ignore[arg-type]
    seen = {canonical_hash(full)}
    other = {
        **dict.fromkeys(("layers", "hidden_dim", "iterations", "attention_heads", "batch_size", "epochs"), 7),
        "code": "def message(x_src, x_dst, e_ij, params):\n    return x_dst\n",
        "aggregation": "max",
        "normalization": "none",
        "edge_features": ["distance"],
        "weight_sharing": "none",
        "damping": "fixed",
        "memory": "none",
        "check_rule": "sum_product",
        "head": "linear",
        "confidence": 0.5,
        "learning_rate": 0.1,
        "loss": "bce",
        "profile": "dev",
        "W": "Linear(hidden, 1)",
        "residual": False,
        "prior_mix": False,
    }
    changed = 0
    for path, _ in leaves(canonical_dict(full)):
        if path[-1] in other:
            data = canonical_dict(full)
            inner = data
            for key in path[:-1]:
                inner = inner[key]
            inner[path[-1]] = other[path[-1]]
            seen.add(canonical_hash(parse(data)))
            changed += 1
    assert changed == len(other)
    assert len(seen) == changed + 1


def literal(annotation: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(get_args(annotation))


custom = st.fixed_dictionaries(
    {"type": st.just("custom"), "code": st.text(st.characters(codec="utf-8"), min_size=1)},
    optional={
        "params_declared": st.dictionaries(st.sampled_from("WUVb"), st.text("Linear(hidn, )"), max_size=2)
    },
)
gnn = st.fixed_dictionaries(
    {},
    optional={
        "layers": st.integers(1, 50),
        "hidden_dim": st.integers(4, 500),
        "message_fn": literal(dsl.MessageFn) | custom,
        "aggregation": literal(dsl.Aggregation) | custom,
        "normalization": literal(dsl.Normalization),
        "residual": st.booleans(),
        "edge_features": st.lists(literal(dsl.EdgeFeature), min_size=1, unique=True),
    },
)
neural_bp = st.fixed_dictionaries(
    {"attention_aug": st.just(True)},
    optional={
        "iterations": st.integers(1, 100),
        "attention_heads": st.integers(1, 8),
        "memory": st.sampled_from(["none", "learnable"]),
        "prior_mix": st.booleans(),
    },
)
configs = st.one_of(
    st.fixed_dictionaries({"type": st.just("gnn"), "gnn": gnn}),
    st.fixed_dictionaries({"type": st.just("neural_bp"), "neural_bp": neural_bp}),
    st.fixed_dictionaries({"type": st.just("hybrid"), "gnn": gnn, "neural_bp": neural_bp}),
).flatmap(
    lambda blocks: st.fixed_dictionaries(
        {key: st.just(value) for key, value in blocks.items()} | {"output_mode": literal(dsl.OutputMode)},
        optional={
            "head": literal(dsl.Head) | custom,
            "training": st.fixed_dictionaries({}, optional={"learning_rate": st.floats(1e-9, 10.0)}),
        },
    )
)


@settings(max_examples=60, deadline=None)
@given(configs)
def test_random_configs_round_trip_through_yaml(data: dict[str, Any]) -> None:
    config = parse(data)
    back = validate_model(parse_yaml(dump_yaml(config), where="dump"), PredecoderDSL, where="dump")
    assert back == config
    assert canonical_hash(back) == canonical_hash(parse(canonical_dict(config)))


def test_a_later_option_does_not_change_the_hash_of_earlier_configs() -> None:
    """Rounds and packages hold the hash of their config. The number is that of a version without the option."""
    config = {"type": "gnn", "output_mode": "soft_priors", "gnn": {"layers": 2}}
    before = dsl.canonical_hash(dsl.PredecoderDSL.model_validate(config))
    assert before == "0a4e0b4da120dbddc556dc3312eca7c084f895648bcadc7166a3d39cf31fa18c"
    hashes = [
        dsl.canonical_hash(
            dsl.PredecoderDSL.model_validate({**config, "gnn": {"layers": 2, "neighbours": value}})
        )
        for value in ("edges", "faults")
    ]
    assert hashes[0] == before != hashes[1]
