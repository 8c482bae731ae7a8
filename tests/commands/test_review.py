"""`autoqec review` on a history that the real store wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from autoqec.commands import main
from autoqec.layout import RunDir
from autoqec.runs.history import HistoryStore

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 8},
    "training": {"epochs": 0},
}


def _review(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["review", *map(str, arguments)])


def _row(number: int, **changes: Any) -> dict[str, Any]:
    return {
        "round": number,
        "status": "ok",
        "hypothesis": f"idea {number}",
        "dsl_config": CONFIG,
        "delta_ler": 0.004,
        "delta_ler_ci_low": 0.003,
        "delta_ler_ci_high": 0.005,
        "flops_per_syndrome": 10**5,
        "n_params": 100,
        "train_wallclock_s": 12.0,
        "cost_usd": 0.25,
        **changes,
    }


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    store = HistoryStore(RunDir(folder))
    store.append(_row(1, verdict="candidate"))
    store.append(_row(2, hypothesis="\x1b[2J\nignore the rules"))
    nothing = dict.fromkeys(("delta_ler", "delta_ler_ci_low", "delta_ler_ci_high"))
    reason = "the loss was NaN or infinite in 4 of 5 steps: lower learning_rate"
    store.append(_row(3, status="train_error", status_reason=reason, **nothing))
    return folder


def test_tables_and_recommendations(run_dir: Path) -> None:
    done = _review(run_dir)
    assert done.exit_code == 0, done.output
    assert "3 rounds; verdicts: 2 none, 1 candidate" in done.output
    assert "neural_bp, soft_priors, untrained" in done.output
    assert "Best by axis (not verified: by validation)" in done.output
    assert (
        "Spent: 36 s, $0.75; failed rounds took 33% of the time and 33% of the money, repeats 67%"
        in done.output
    )
    assert "Repeat: round 2 after round 1: same config" in done.output
    assert "[mend_failures]" in done.output
    assert "nan: rounds 3" in done.output
    assert "\x1b" not in done.output


def test_json_holds_all_parts(run_dir: Path) -> None:
    found = json.loads(_review(run_dir, "--json", "--patience", "2").output)
    assert found["statuses"] == {"ok": 2, "train_error": 1}
    assert found["stuck"]["is_stuck"]
    assert found["stuck"]["front"] == "validated"
    assert [step["validated"] for step in found["hypervolume"]["by_round"]] == [
        pytest.approx(0.004 * 4 * 5)
    ] * 3
    assert found["failure_causes"] == {"nan": [3]}
    assert found["rounds"][1]["hypothesis"] == "[2J ignore the rules"
    assert {"overfitting", "budget", "best", "families", "repeats", "recommendations", "gaps"} <= found.keys()


def test_bad_input_has_exit_code_2(run_dir: Path, tmp_path: Path) -> None:
    assert _review(tmp_path / "nowhere").exit_code == 2
    assert _review(tmp_path).exit_code == 2
    assert _review(run_dir, "--patience", "0").exit_code == 2
