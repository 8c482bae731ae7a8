"""Random environments survive a file; damaged ones load or are refused with InputError."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autoqec.envs.schema import EnvSpec
from autoqec.errors import InputError
from autoqec.io.strict_yaml import dump_yaml
from autoqec.io.validate import load_model, validate_model

few = settings(max_examples=150, deadline=None)


def optional(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


unit = st.floats(0.0, 1.0)
inside = st.floats(1e-12, 0.999)
positive = st.integers(1, 2**40)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=100)


@st.composite
def seed_policies(draw: st.DrawFn) -> dict[str, list[int]]:
    ends = sorted(draw(st.lists(st.integers(0, 10**6), min_size=6, max_size=6, unique=True)))
    ranges = draw(st.permutations([ends[0:2], ends[2:4], ends[4:6]]))
    return dict(zip(("train", "val", "holdout"), ranges, strict=True))


@st.composite
def noises(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(["depolarizing", "biased", "leakage", "custom_dem"]))
    p = draw(st.lists(st.floats(1e-9, 0.5), min_size=1, max_size=5, unique=True))
    fields: dict[str, st.SearchStrategy[Any]] = {
        "seed_policy": seed_policies(),
        "reference_p": st.sampled_from(p),
    }
    if kind != "custom_dem":
        fields["level"] = st.sampled_from(["code_capacity", "phenomenological", "circuit"])
        fields["idle"] = st.sampled_from(["readout", "every_layer"])
    fields |= {
        "depolarizing": {"variant": st.sampled_from(["uniform", "si1000"])},
        "biased": {"eta": st.floats(1e-3, 1e6)},
        "leakage": {"leakage": optional(leak=st.floats(0, min(10.0, 0.99 / max(p))), seep=unit, spread=unit)},
        "custom_dem": {"dem": names},
    }[kind]
    return {"type": kind, "p": p, **draw(optional(**fields))}


codes = st.fixed_dictionaries(
    {"type": st.sampled_from(["stim_circuit", "parity_check_matrix", "tanner_graph"]), "source": names},
    optional={"rounds": st.integers(1, 10_000), "memory_basis": st.sampled_from(["z", "x"])},
)
envs = st.fixed_dictionaries(
    {
        "name": names,
        "code": codes,
        "noise": noises(),
        "constraints": optional(
            latency_flops_budget=positive, param_budget=positive, target_ler=inside, target_p=inside
        ),
        "baseline_decoders": st.lists(names, max_size=3),
        "classical_backend": st.sampled_from(["mwpm", "osd"]),
    },
    optional={
        "eval_protocol": optional(
            min_shots_train=positive,
            min_shots_val=positive,
            min_shots_verify=positive,
            bootstrap_ci=inside,
            osd_orders_reported=st.lists(st.integers(0, 60), min_size=1, max_size=4, unique=True),
            x_z_decoding=st.sampled_from(["circuit", "x_only"]),
            osd_bases=st.sampled_from(["observable", "both"]),
        )
    },
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("envs") / "env.yaml"


@few
@given(data=envs)
def test_every_environment_survives_a_file(path: Path, data: dict[str, Any]) -> None:
    spec = validate_model(data, EnvSpec, where="data")
    assert spec == EnvSpec.model_validate(data)
    path.write_text(dump_yaml(spec), encoding="utf-8")
    assert load_model(path, EnvSpec) == spec
    json_path = path.with_suffix(".json")
    json_path.write_text(spec.model_dump_json(), encoding="utf-8")
    assert load_model(json_path, EnvSpec) == spec


def test_the_strategy_reaches_every_field() -> None:
    """Guards the property above: a field that is added to the schema must be added to the strategy."""
    known = {
        "EnvSpec": {
            "name",
            "code",
            "noise",
            "constraints",
            "baseline_decoders",
            "classical_backend",
            "eval_protocol",
        },
        "NoiseSpec": {
            "type",
            "p",
            "seed_policy",
            "reference_p",
            "variant",
            "level",
            "idle",
            "eta",
            "leakage",
            "dem",
        },
        "CodeSpec": {"type", "source", "rounds", "memory_basis"},
    }
    fields = EnvSpec.model_fields
    assert set(fields) == known["EnvSpec"]
    assert set(fields["noise"].annotation.model_fields) == known["NoiseSpec"]  # type: ignore[union-attr]
    assert set(fields["code"].annotation.model_fields) == known["CodeSpec"]  # type: ignore[union-attr]
    assert len(fields["eval_protocol"].annotation.model_fields) == 7  # type: ignore[union-attr]
    assert len(fields["constraints"].annotation.model_fields) == 4  # type: ignore[union-attr]


def holders(value: Any) -> list[Any]:
    """Every dict and list in the tree that has something in it."""
    if not isinstance(value, dict | list) or not value:
        return []
    inner = value.values() if isinstance(value, dict) else value
    return [value, *(holder for item in inner for holder in holders(item))]


SCALARS = [None, True, "", "0.1", "x", -1, 0, 2**62, 1.5, -0.0, 1e300, 5e-324]
JUNK = st.sampled_from([*SCALARS, [], {}, [[]], {"type": "x"}, [1, 2, 3]]).map(copy.deepcopy)


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    data = copy.deepcopy(draw(envs))
    for _ in range(draw(st.integers(1, 3))):
        if not data:
            break
        holder = draw(st.sampled_from(holders(data)))
        key = (
            draw(st.sampled_from(sorted(holder)))
            if isinstance(holder, dict)
            else draw(st.integers(0, len(holder) - 1))
        )
        act = draw(st.sampled_from(["delete", "rename", "junk", "number", "add"]))
        if act == "delete":
            del holder[key]
        elif act == "junk":
            holder[key] = draw(JUNK)
        elif act == "number":
            holder[key] = draw(
                st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False)
            )
        elif isinstance(holder, list):
            holder.append(draw(JUNK))
        elif act == "rename":
            holder[draw(st.sampled_from([key[:-1], key + "s", key.upper(), "", "type"]))] = holder.pop(key)
        else:
            holder[draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=5))] = draw(JUNK)
    return data


def load_or_error(path: Path) -> EnvSpec | InputError:
    try:
        return load_model(path, EnvSpec)
    except InputError as error:
        return error


@few
@given(data=damaged())
def test_damaged_environment_loads_or_is_an_input_error(path: Path, data: dict[str, Any]) -> None:
    path.write_text(dump_yaml(data), encoding="utf-8")
    spec = load_or_error(path)
    if isinstance(spec, EnvSpec):
        assert validate_model(spec.model_dump(mode="json"), EnvSpec, where="again") == spec
    else:
        assert str(spec).startswith(str(path))
        assert spec.what


@few
@given(data=envs, edit=st.data())
def test_damaged_text_loads_or_is_an_input_error(
    path: Path, data: dict[str, Any], edit: st.DataObject
) -> None:
    lines = dump_yaml(data).splitlines(keepends=True)
    at = edit.draw(st.integers(0, len(lines) - 1))
    act = edit.draw(st.sampled_from(["duplicate", "drop", "indent", "cut", "tab", "insert"]))
    if act == "duplicate":
        lines.insert(at, lines[at])
    elif act == "drop":
        del lines[at]
    elif act == "indent":
        lines[at] = " " + lines[at]
    elif act == "cut":
        lines[at] = lines[at][: edit.draw(st.integers(0, len(lines[at])))]
    elif act == "tab":
        lines[at] = lines[at].replace(" ", "\t", 1)
    else:
        lines.insert(at, edit.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=6)) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    spec = load_or_error(path)
    assert isinstance(spec, EnvSpec) or str(spec).startswith(str(path))


@given(data=envs)
@settings(max_examples=30, deadline=None)
def test_a_repeated_top_level_key_is_always_refused(path: Path, data: dict[str, Any]) -> None:
    path.write_text(dump_yaml(data) + "classical_backend: mwpm\n", encoding="utf-8")
    with pytest.raises(InputError, match="duplicate key 'classical_backend'"):
        load_model(path, EnvSpec)
