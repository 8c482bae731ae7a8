"""A walk of the interface contract: every class, field, type, default, and validator from both sides.

The tables repeat docs/contract.md; a model may add fields, but only with defaults.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import warnings
from typing import Any, Literal, get_type_hints

import pytest
from pydantic import BaseModel, ValidationError

REQUIRED = object()
COMPOSE = Literal["pure", "with_edit"] | None
FORK = str | list[str] | None

ENV, RUNNER, EVAL, AGENTS = (
    "autoqec.envs.schema",
    "autoqec.runner.schema",
    "autoqec.eval.schema",
    "autoqec.agents.schemas",
)

CONTRACT: dict[tuple[str, str], dict[str, tuple[Any, Any]]] = {
    (ENV, "SeedPolicy"): {
        "train": (tuple[int, int], (1, 999)),
        "val": (tuple[int, int], (1000, 1999)),
        "holdout": (tuple[int, int], (9000, 9999)),
    },
    (ENV, "NoiseSpec"): {
        "type": (Literal["depolarizing", "biased", "leakage", "custom_dem"], REQUIRED),
        "p": (list[float], REQUIRED),
        "seed_policy": (
            f"{ENV}.SeedPolicy",
            {"train": (1, 999), "val": (1000, 1999), "holdout": (9000, 9999)},
        ),
    },
    (ENV, "CodeSpec"): {
        "type": (Literal["stim_circuit", "parity_check_matrix", "tanner_graph"], REQUIRED),
        "source": (str, REQUIRED),
    },
    (ENV, "ConstraintsSpec"): {
        "latency_flops_budget": (int, 10_000_000),
        "param_budget": (int, 200_000),
        "target_ler": (float, 1e-4),
        "target_p": (float, 1e-3),
    },
    (ENV, "EvalProtocol"): {
        "min_shots_train": (int, 1_000_000),
        "min_shots_val": (int, 100_000),
        "min_shots_verify": (int, 200_000),
        "bootstrap_ci": (float, 0.95),
        "osd_orders_reported": (list[int], [0, 10]),
        "x_z_decoding": (Literal["circuit", "x_only"], "circuit"),
    },
    (ENV, "EnvSpec"): {
        "name": (str, REQUIRED),
        "code": (f"{ENV}.CodeSpec", REQUIRED),
        "noise": (f"{ENV}.NoiseSpec", REQUIRED),
        "constraints": (f"{ENV}.ConstraintsSpec", REQUIRED),
        "baseline_decoders": (list[str], REQUIRED),
        "classical_backend": (Literal["mwpm", "osd"], REQUIRED),
        "eval_protocol": (
            f"{ENV}.EvalProtocol",
            {
                "min_shots_train": 1_000_000,
                "min_shots_val": 100_000,
                "min_shots_verify": 200_000,
                "bootstrap_ci": 0.95,
                "osd_orders_reported": [0, 10],
                "x_z_decoding": "circuit",
            },
        ),
    },
    (RUNNER, "RunnerConfig"): {
        "env_name": (str, REQUIRED),
        "predecoder_config": (dict[str, Any], REQUIRED),
        "training_profile": (Literal["dev", "prod"], "dev"),
        "seed": (int, 0),
        "round_dir": (str, REQUIRED),
        "code_cwd": (str | None, None),
        "branch": (str | None, None),
        "fork_from": (FORK, None),
        "fork_from_canonical": (str | None, None),
        "fork_from_ordered": (list[str] | None, None),
        "compose_mode": (COMPOSE, None),
        "round_attempt_id": (str | None, None),
        "commit_message": (str | None, None),
        "env_yaml_path": (str | None, None),
        "invocation_argv": (list[str] | None, None),
    },
    (RUNNER, "RoundMetrics"): {
        "status": (
            Literal[
                "ok",
                "killed_by_safety",
                "compile_error",
                "train_error",
                "compose_conflict",
                "orphaned_branch",
                "branch_manually_deleted",
            ],
            REQUIRED,
        ),
        "status_reason": (str | None, None),
        "ler_plain_classical": (float | None, None),
        "ler_predecoder": (float | None, None),
        "delta_ler": (float | None, None),
        "delta_ler_ci_low": (float | None, None),
        "delta_ler_ci_high": (float | None, None),
        "flops_per_syndrome": (int | None, None),
        "n_params": (int | None, None),
        "train_wallclock_s": (float, 0.0),
        "eval_wallclock_s": (float, 0.0),
        "vram_peak_gb": (float, 0.0),
        "checkpoint_path": (str | None, None),
        "training_log_path": (str | None, None),
        "train_loss_initial": (float | None, None),
        "train_loss_final": (float | None, None),
        "train_loss_mean_last_epoch": (float | None, None),
        "train_batches_total": (int | None, None),
        "round_attempt_id": (str | None, None),
        "reconcile_id": (str | None, None),
        "branch": (str | None, None),
        "commit_sha": (str | None, None),
        "fork_from": (FORK, None),
        "fork_from_canonical": (str | None, None),
        "fork_from_ordered": (list[str] | None, None),
        "compose_mode": (COMPOSE, None),
        "delta_vs_parent": (float | None, None),
        "parent_ler": (float | None, None),
        "train_seed": (int | None, None),
        "conflicting_files": (list[str] | None, None),
    },
    (EVAL, "VerifyReport"): {
        "verdict": (Literal["VERIFIED", "SUSPICIOUS", "FAILED"], REQUIRED),
        "ler_holdout": (float, REQUIRED),
        "ler_holdout_ci": (tuple[float, float], REQUIRED),
        "delta_ler_holdout": (float, REQUIRED),
        "ler_shuffled": (float, REQUIRED),
        "ablation_sanity_ok": (bool, REQUIRED),
        "holdout_seeds_used": (list[int], REQUIRED),
        "seed_leakage_check_ok": (bool, REQUIRED),
        "notes": (str, REQUIRED),
        "branch": (str | None, None),
        "commit_sha": (str | None, None),
        "delta_vs_baseline_holdout": (float | None, None),
        "paired_eval_bundle_id": (str | None, None),
    },
    (AGENTS, "IdeatorResponse"): {
        "hypothesis": (str, REQUIRED),
        "expected_delta_ler": (float, REQUIRED),
        "expected_cost_s": (int, REQUIRED),
        "rationale": (str, REQUIRED),
        "dsl_hint": (dict[str, Any] | None, None),
        "fork_from": (Literal["baseline"] | str | list[str], "baseline"),
        "compose_mode": (COMPOSE, None),
    },
    (AGENTS, "CoderResponse"): {
        "dsl_config": (dict[str, Any], REQUIRED),
        "tier": (Literal["1", "2"], REQUIRED),
        "rationale": (str, REQUIRED),
        "commit_message": (str | None, None),
    },
    (AGENTS, "AnalystResponse"): {
        "summary_1line": (str, REQUIRED),
        "verdict": (Literal["candidate", "ignore"], REQUIRED),
        "next_hypothesis_seed": (str, REQUIRED),
    },
}

HAND_WRITTEN = {name for module, name in CONTRACT if module in (ENV, AGENTS)} | {"RunnerConfig"}


def get(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


MODELS: dict[str, type[BaseModel]] = {name: get(module, name) for module, name in CONTRACT}
FIELDS = [(name, field) for (_, name), fields in CONTRACT.items() for field in fields]


@pytest.mark.parametrize(("name", "field"), FIELDS, ids=lambda part: part)
def test_field_has_the_type_and_default_of_the_contract(name: str, field: str) -> None:
    ((annotation, default),) = [fields[field] for (_, owner), fields in CONTRACT.items() if owner == name]
    info = MODELS[name].model_fields[field]
    if isinstance(annotation, str):
        annotation = get(*annotation.rsplit(".", 1))
    assert info.annotation == annotation
    assert info.is_required() is (default is REQUIRED)
    if default is not REQUIRED:
        found = info.get_default(call_default_factory=True)
        if isinstance(found, BaseModel):
            found = {key: value for key, value in found.model_dump().items() if key in default}
        assert found == default
        assert type(found) is type(default)


@pytest.mark.parametrize(("module", "name"), CONTRACT)
def test_added_fields_have_defaults(module: str, name: str) -> None:
    added = {
        key: info for key, info in MODELS[name].model_fields.items() if key not in CONTRACT[module, name]
    }
    assert [key for key, info in added.items() if info.is_required()] == []


def test_defaults_are_not_shared_between_instances() -> None:
    EvalProtocol = MODELS["EvalProtocol"]
    EvalProtocol().osd_orders_reported.append(3)  # type: ignore[attr-defined]
    assert EvalProtocol().model_dump()["osd_orders_reported"] == [0, 10]


def test_models_warn_about_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in {module for module, _ in CONTRACT} | {"autoqec.decoders.dsl_schema"}:
            # a fresh execution under another name, so that class creation itself is watched
            spec = importlib.util.find_spec(module)
            assert spec is not None
            assert spec.loader is not None
            spec.loader.exec_module(importlib.util.module_from_spec(spec))


BASES: dict[str, dict[str, Any]] = {
    "SeedPolicy": {},
    "NoiseSpec": {"type": "depolarizing", "p": [0.001, 0.005]},
    "CodeSpec": {"type": "stim_circuit", "source": "circuit.stim"},
    "ConstraintsSpec": {},
    "EvalProtocol": {},
    "EnvSpec": {
        "name": "surface_d5",
        "code": {"type": "stim_circuit", "source": "circuit.stim"},
        "noise": {"type": "depolarizing", "p": [0.005]},
        "constraints": {},
        "baseline_decoders": ["pymatching"],
        "classical_backend": "mwpm",
    },
    "RunnerConfig": {
        "env_name": "surface_d5",
        "predecoder_config": {"type": "gnn"},
        "round_dir": "/runs/x/round_1",
    },
    "RoundMetrics": {"status": "ok"},
    "VerifyReport": {
        "verdict": "VERIFIED",
        "ler_holdout": 0.01,
        "ler_holdout_ci": [0.009, 0.011],
        "delta_ler_holdout": 0.004,
        "ler_shuffled": 0.02,
        "ablation_sanity_ok": True,
        "holdout_seeds_used": [9000, 9001],
        "seed_leakage_check_ok": True,
        "notes": "",
    },
    "IdeatorResponse": {
        "hypothesis": "BP posteriors as priors",
        "expected_delta_ler": 0.004,
        "expected_cost_s": 300,
        "rationale": "correlations",
    },
    "CoderResponse": {"dsl_config": {"type": "gnn"}, "tier": "1", "rationale": "small"},
    "AnalystResponse": {
        "summary_1line": "beats MWPM",
        "verdict": "candidate",
        "next_hypothesis_seed": "more",
    },
}

A, B = "exp/20260420-101010/01-a", "exp/20260420-101010/02-b"
AB = f"{A}|{B}"
WORKTREE = {"code_cwd": "/w/exp-1", "branch": A}
CONFLICT = {"status": "compose_conflict", "conflicting_files": ["m.py"], "round_attempt_id": "u"}
DELETED = {"status": "branch_manually_deleted", "branch": A}

ACCEPTED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in BASES),
    ("SeedPolicy", {"train": [0, 0], "val": [1, 1], "holdout": [2, 2]}),
    ("SeedPolicy", {"train": [5000, 5999], "val": [100, 200], "holdout": [0, 99]}),
    ("NoiseSpec", {"p": [0.5]}),
    ("NoiseSpec", {"type": "biased", "eta": 100}),
    ("NoiseSpec", {"type": "leakage", "leakage": {"leak": 0.2}}),
    ("NoiseSpec", {"type": "custom_dem", "dem": "m.dem"}),
    ("NoiseSpec", {"reference_p": 0.005, "variant": "si1000", "level": "circuit", "idle": "readout"}),
    ("CodeSpec", {"type": "parity_check_matrix", "source": "h.npz", "rounds": 3, "memory_basis": "x"}),
    ("CodeSpec", {"type": "tanner_graph"}),
    ("ConstraintsSpec", {"latency_flops_budget": 1, "param_budget": 1, "target_ler": 1e-12, "target_p": 0.3}),
    ("EvalProtocol", {"osd_orders_reported": [0], "x_z_decoding": "x_only", "bootstrap_ci": 0.99}),
    ("EnvSpec", {"baseline_decoders": [], "classical_backend": "osd", "eval_protocol": {"min_shots_val": 1}}),
    ("RunnerConfig", {"training_profile": "prod", "seed": 7}),
    ("RunnerConfig", WORKTREE),
    ("RunnerConfig", {"branch": A}),
    ("RunnerConfig", {"fork_from": "baseline", "fork_from_canonical": "baseline"}),
    ("RunnerConfig", {"fork_from": [B, A], "compose_mode": "pure"}),
    (
        "RunnerConfig",
        {
            **WORKTREE,
            "fork_from": [B, A],
            "fork_from_canonical": AB,
            "fork_from_ordered": [B, A],
            "compose_mode": "with_edit",
            "round_attempt_id": "u",
            "commit_message": "merge",
            "env_yaml_path": "/e.yaml",
            "invocation_argv": ["autoqec", "run-round"],
        },
    ),
    ("RoundMetrics", {"status": "killed_by_safety", "status_reason": "memory"}),
    ("RoundMetrics", {"status": "compile_error"}),
    ("RoundMetrics", {"status": "train_error"}),
    ("RoundMetrics", {"delta_ler": -0.01, "delta_ler_ci_low": -0.02, "delta_ler_ci_high": 0.0}),
    ("RoundMetrics", {"ler_predecoder": 0.0, "ler_plain_classical": 1.0, "train_loss_final": -3.5}),
    ("RoundMetrics", {"round_attempt_id": "u"}),
    ("RoundMetrics", {"branch": A, "commit_sha": "c", "round_attempt_id": "u"}),
    ("RoundMetrics", {"branch": A, "commit_sha": "c", "reconcile_id": "r", "status": "orphaned_branch"}),
    ("RoundMetrics", {"branch": A, "commit_sha": "c", "round_attempt_id": "u", "status": "orphaned_branch"}),
    ("RoundMetrics", {**DELETED, "round_attempt_id": "u"}),
    ("RoundMetrics", {**DELETED, "reconcile_id": "r"}),
    ("RoundMetrics", {**DELETED, "round_attempt_id": "u", "commit_sha": "c"}),
    ("RoundMetrics", CONFLICT),
    ("RoundMetrics", {**CONFLICT, "conflicting_files": []}),
    (
        "RoundMetrics",
        {**CONFLICT, "fork_from": [B, A], "fork_from_canonical": AB, "fork_from_ordered": [B, A]},
    ),
    (
        "RoundMetrics",
        {"fork_from": "baseline", "round_attempt_id": "u", "delta_vs_parent": -1, "parent_ler": 1},
    ),
    ("RoundMetrics", {"round": 3, "hypothesis": "a history row is a superset"}),
    ("VerifyReport", {"verdict": "FAILED", "delta_ler_holdout": -0.5}),
    ("VerifyReport", {"verdict": "SUSPICIOUS", "notes": "INCONCLUSIVE: 3 failures"}),
    ("VerifyReport", {"branch": A, "commit_sha": "c", "paired_eval_bundle_id": "b"}),
    ("VerifyReport", {"delta_vs_baseline_holdout": 0.004, "not_a_field": "unknown keys are ignored"}),
    ("IdeatorResponse", {"dsl_hint": {"type": "hybrid"}, "fork_from": A}),
    ("IdeatorResponse", {"fork_from": [A, B], "compose_mode": "pure"}),
    ("IdeatorResponse", {"expected_delta_ler": -1, "expected_cost_s": 0, "dsl_hint": None}),
    ("CoderResponse", {"tier": "2", "commit_message": "new message function"}),
    ("AnalystResponse", {"verdict": "ignore", "next_hypothesis_seed": ""}),
]

REFUSED: list[tuple[str, dict[str, Any], str]] = [
    *((name, {"surprise": 1}, "surprise") for name in sorted(HAND_WRITTEN)),
    ("SeedPolicy", {"train": [1, 1000]}, "overlap"),
    ("SeedPolicy", {"holdout": [500, 600]}, "overlap"),
    ("SeedPolicy", {"val": [1999, 1000]}, "low <= high"),
    ("SeedPolicy", {"train": [-1, 5]}, "low <= high"),
    ("SeedPolicy", {"train": [1]}, "train"),
    ("NoiseSpec", {"type": "thermal"}, "type"),
    ("NoiseSpec", {"p": []}, "empty"),
    ("NoiseSpec", {"p": [0.0]}, "physical error rate"),
    ("NoiseSpec", {"p": [0.6]}, "physical error rate"),
    ("NoiseSpec", {"p": [float("nan")]}, "finite"),
    ("NoiseSpec", {"p": [0.1, 0.1]}, "repeats"),
    ("NoiseSpec", {"eta": 2.0}, "biased"),
    ("NoiseSpec", {"leakage": {}}, "leakage"),
    ("NoiseSpec", {"type": "leakage", "p": [0.2], "leakage": {"leak": 6.0}}, "not a probability"),
    ("NoiseSpec", {"dem": "m.dem"}, "custom_dem"),
    ("NoiseSpec", {"type": "custom_dem", "dem": "m.dem", "level": "circuit"}, "level"),
    ("NoiseSpec", {"reference_p": 0.2}, "reference_p"),
    ("CodeSpec", {"source": ""}, "source"),
    ("CodeSpec", {"type": "surface"}, "type"),
    ("CodeSpec", {"rounds": 0}, "rounds"),
    ("ConstraintsSpec", {"param_budget": 0}, "param_budget"),
    ("ConstraintsSpec", {"target_ler": float("inf")}, "target_ler"),
    ("EvalProtocol", {"osd_orders_reported": []}, "OSD orders"),
    ("EvalProtocol", {"osd_orders_reported": [0, 0]}, "OSD orders"),
    ("EvalProtocol", {"osd_orders_reported": [-1]}, "OSD orders"),
    ("EvalProtocol", {"bootstrap_ci": 1.0}, "bootstrap_ci"),
    ("EvalProtocol", {"x_z_decoding": "z_only"}, "x_z_decoding"),
    ("EnvSpec", {"name": ""}, "name"),
    ("EnvSpec", {"classical_backend": "bp"}, "classical_backend"),
    ("EnvSpec", {"constraints": None}, "constraints"),
    ("RunnerConfig", {"training_profile": "fast"}, "training_profile"),
    ("RunnerConfig", {"seed": -1}, "seed"),
    ("RunnerConfig", {"code_cwd": "/w"}, "branch is required"),
    ("RunnerConfig", {"code_cwd": "w", "branch": A}, "absolute"),
    ("RunnerConfig", {"fork_from": [A, B]}, "compose_mode is required"),
    ("RunnerConfig", {"fork_from": [A], "compose_mode": "pure"}, "two or more"),
    ("RunnerConfig", {"fork_from": [A, A], "compose_mode": "pure"}, "two or more"),
    ("RunnerConfig", {"fork_from": [], "compose_mode": "pure"}, "two or more"),
    ("RunnerConfig", {"fork_from": ""}, "empty"),
    ("RunnerConfig", {"compose_mode": "merge"}, "compose_mode"),
    (
        "RunnerConfig",
        {"fork_from": [A, B], "compose_mode": "pure", "fork_from_canonical": f"{B}|{A}"},
        "sorted",
    ),
    ("RunnerConfig", {"fork_from": A, "fork_from_canonical": B}, "sorted"),
    (
        "RunnerConfig",
        {"fork_from": [A, B], "compose_mode": "pure", "fork_from_ordered": [A]},
        "does not list",
    ),
    ("RunnerConfig", {"commit_sha": "c"}, "commit_sha"),
    ("RunnerConfig", {"paired_eval_bundle_id": "b"}, "paired_eval_bundle_id"),
    ("RoundMetrics", {"status": "failed"}, "status"),
    ("RoundMetrics", {"ler_predecoder": 1.5}, "ler_predecoder"),
    ("RoundMetrics", {"train_loss_final": float("nan")}, "train_loss_final"),
    ("RoundMetrics", {"vram_peak_gb": float("inf")}, "vram_peak_gb"),
    ("RoundMetrics", {"train_wallclock_s": -1.0}, "train_wallclock_s"),
    ("RoundMetrics", {"n_params": -1}, "n_params"),
    ("RoundMetrics", {"delta_ler_ci_low": 0.1, "delta_ler_ci_high": 0.0}, "above"),
    ("RoundMetrics", {"round_attempt_id": "u", "reconcile_id": "r"}, "exclude each other"),
    ("RoundMetrics", {**DELETED, "round_attempt_id": "u", "reconcile_id": "r"}, "exclude each other"),
    ("RoundMetrics", {"reconcile_id": "r"}, "reconcile_id belongs to"),
    ("RoundMetrics", {"branch": A, "commit_sha": "c", "reconcile_id": "r"}, "reconcile_id belongs to"),
    ("RoundMetrics", {"status": "train_error", "reconcile_id": "r"}, "reconcile_id belongs to"),
    ("RoundMetrics", {**CONFLICT, "round_attempt_id": None, "reconcile_id": "r"}, "reconcile_id belongs to"),
    ("RoundMetrics", {"branch": A, "commit_sha": "c"}, "round_attempt_id"),
    ("RoundMetrics", {"fork_from": "baseline"}, "round_attempt_id"),
    ("RoundMetrics", {"fork_from": [A, B], "compose_mode": "pure"}, "round_attempt_id"),
    ("RoundMetrics", {**CONFLICT, "round_attempt_id": None}, "round_attempt_id"),
    ("RoundMetrics", {"branch": A, "round_attempt_id": "u"}, "commit_sha"),
    ("RoundMetrics", {"branch": A, "reconcile_id": "r", "status": "orphaned_branch"}, "commit_sha"),
    ("RoundMetrics", {"commit_sha": "c", "round_attempt_id": "u"}, "branch"),
    ("RoundMetrics", {**CONFLICT, "branch": A, "commit_sha": "c"}, "must be null"),
    ("RoundMetrics", {**CONFLICT, "branch": A}, "must be null"),
    ("RoundMetrics", {**CONFLICT, "commit_sha": "c"}, "must be null"),
    ("RoundMetrics", {**CONFLICT, "conflicting_files": None}, "conflicting_files"),
    ("RoundMetrics", {"conflicting_files": ["m.py"]}, "compose_conflict"),
    ("RoundMetrics", {"conflicting_files": []}, "compose_conflict"),
    ("RoundMetrics", {**CONFLICT, "fork_from": [A, B], "fork_from_canonical": f"{B}|{A}"}, "sorted"),
    ("VerifyReport", {"verdict": "OK"}, "verdict"),
    ("VerifyReport", {"ler_holdout_ci": [0.02, 0.01]}, "low <= high"),
    ("VerifyReport", {"ler_holdout_ci": [0.02]}, "ler_holdout_ci"),
    ("VerifyReport", {"ler_holdout": float("nan")}, "ler_holdout"),
    ("VerifyReport", {"branch": A}, "come together"),
    ("VerifyReport", {"commit_sha": "c"}, "come together"),
    ("IdeatorResponse", {"fork_from": [A, B]}, "compose_mode is required"),
    ("IdeatorResponse", {"fork_from": [A], "compose_mode": "pure"}, "two or more"),
    ("IdeatorResponse", {"fork_from": ""}, "empty"),
    ("IdeatorResponse", {"fork_from": None}, "fork_from"),
    ("IdeatorResponse", {"compose_mode": "both"}, "compose_mode"),
    ("IdeatorResponse", {"expected_delta_ler": float("inf")}, "expected_delta_ler"),
    ("IdeatorResponse", {"expected_cost_s": 1.5}, "expected_cost_s"),
    ("IdeatorResponse", {"hypothesis": ""}, "hypothesis"),
    ("CoderResponse", {"tier": "3"}, "tier"),
    ("CoderResponse", {"tier": 1}, "tier"),
    ("CoderResponse", {"dsl_config": "gnn"}, "dsl_config"),
    ("AnalystResponse", {"verdict": "verified"}, "verdict"),
    ("AnalystResponse", {"summary_1line": "two\nlines"}, "lines"),
    ("AnalystResponse", {"summary_1line": ""}, "summary_1line"),
]


@pytest.mark.parametrize(("name", "change"), ACCEPTED)
def test_accepted_payload_survives_json(name: str, change: dict[str, Any]) -> None:
    model = MODELS[name].model_validate({**BASES[name], **change})
    assert MODELS[name].model_validate_json(model.model_dump_json(), strict=True) == model


@pytest.mark.parametrize(("name", "change", "expected"), REFUSED)
def test_refused_payload_is_refused_for_its_reason(name: str, change: dict[str, Any], expected: str) -> None:
    with pytest.raises(ValidationError, match=expected) as caught:
        MODELS[name].model_validate({**BASES[name], **change})
    assert len(caught.value.errors()) <= 3  # fork_from has three kinds


@pytest.mark.parametrize(("name", "field"), [pair for pair in FIELDS if pair[1] in BASES[pair[0]]])
def test_required_field_is_required(name: str, field: str) -> None:
    payload = {key: value for key, value in BASES[name].items() if key != field}
    with pytest.raises(ValidationError) as caught:
        MODELS[name].model_validate(payload)
    assert [(error["type"], error["loc"]) for error in caught.value.errors()] == [("missing", (field,))]


def test_bases_hold_exactly_the_required_fields() -> None:
    for name, model in MODELS.items():
        assert set(BASES[name]) == {key for key, info in model.model_fields.items() if info.is_required()}


@pytest.mark.parametrize("name", ["RoundMetrics", "VerifyReport"])
def test_unknown_keys_of_outputs_are_dropped(name: str) -> None:
    model = MODELS[name].model_validate({**BASES[name], "surprise": 1})
    assert "surprise" not in model.model_dump()


def test_predecoder_module_has_the_surface_of_the_contract() -> None:
    torch = pytest.importorskip("torch")
    from autoqec.decoders.modules.base import PredecoderModule

    assert issubclass(PredecoderModule, torch.nn.Module)
    assert list(inspect.signature(PredecoderModule.forward).parameters) == ["self", "syndrome", "ctx"]
    hints = get_type_hints(PredecoderModule)
    assert hints["output_mode"] == Literal["hard_flip", "soft_priors"]


def test_predecoder_dsl_and_click_group_are_where_the_contract_puts_them() -> None:
    assert set(get("autoqec.decoders.dsl_schema", "PredecoderDSL").model_fields) >= {
        "type",
        "output_mode",
        "gnn",
    }
    assert get("cli.autoqec", "main").name
