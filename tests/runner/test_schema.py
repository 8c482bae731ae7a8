"""Beyond the contract tables: the fork key, and metrics as files."""

from __future__ import annotations

import json
from itertools import permutations
from pathlib import Path

from autoqec.errors import AutoQECError, RunnerCallPathError
from autoqec.io.validate import load_model
from autoqec.runner.schema import RoundMetrics, RunnerConfig, canonical_fork
from autoqec.stats.target import check_target


def test_fork_key_does_not_depend_on_merge_order() -> None:
    parents = ["exp/r/10-b", "exp/r/02-a", "exp/r/03-c"]
    keys = {canonical_fork(order) for order in permutations(parents)}
    assert keys == {"exp/r/02-a|exp/r/03-c|exp/r/10-b"}
    assert canonical_fork("baseline") == "baseline"


def test_config_keeps_the_merge_order_and_fills_nothing() -> None:
    config = RunnerConfig(
        env_name="e", predecoder_config={}, round_dir="r", fork_from=["b", "a"], compose_mode="pure"
    )
    assert config.fork_from == ["b", "a"]
    assert config.fork_from_canonical is None


def test_a_history_row_reads_as_metrics(tmp_path: Path) -> None:
    row = RoundMetrics(status="ok", ler_predecoder=0.01, n_params=3).model_dump() | {
        "round": 1,
        "verdict": "ignore",
    }
    path = tmp_path / "row.json"
    path.write_text(json.dumps(row))
    assert load_model(path, RoundMetrics).ler_predecoder == 0.01


def test_call_path_error_is_readable() -> None:
    error = RunnerCallPathError("code_cwd is set", where="RunnerConfig", hint="run it as a subprocess")
    assert isinstance(error, AutoQECError)
    assert error.exit_code == 1


def test_metrics_with_a_target_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    target = check_target({0.01: (3, 100)}, target_ler=1e-4, target_p=0.01, level=0.95)
    metrics = RoundMetrics(status="ok", target=target)
    (tmp_path / "metrics.json").write_text(metrics.model_dump_json())
    assert load_model(tmp_path / "metrics.json", RoundMetrics) == metrics


def test_a_sentence_about_nan_gives_older_rows_their_kind() -> None:
    for status in ("killed_by_safety", "train_error"):
        assert RoundMetrics(status=status, status_reason="NaN rate 0.3 > 0.1").failure_kind == "nan_loss"
    assert RoundMetrics(status="compile_error", status_reason="NaN").failure_kind is None
    assert RoundMetrics(status="train_error", status_reason="in the tenant").failure_kind is None
