"""`autoqec pareto` on run folders that real admissions made."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoqec.commands import main
from autoqec.eval.pareto import ParetoRow, admit, publish


def _pareto(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pareto", *map(str, arguments)])


def _admit(run_dir: Path, number: int, delta: float, flops: int, params: int) -> None:
    row = ParetoRow(
        round_attempt_id=f"{run_dir.name}-{number}",
        commit_sha=f"{sum(run_dir.name.encode()) * 1000 + number:040x}",
        branch=f"exp/{run_dir.name}/{number:02d}-x",
        delta_vs_baseline_holdout=delta,
        delta_ci=(delta - 2e-4, delta + 2e-4),
        paired_eval_bundle_id="bundle",
        flops_per_syndrome=flops,
        n_params=params,
        verdict="VERIFIED",
        round=number,
    )
    admit(run_dir, row)


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    strong, weak = tmp_path / "strong", tmp_path / "weak"
    for folder in (strong, weak):
        folder.mkdir()
    _admit(strong, 1, 1e-3, 10**4, 100)
    _admit(strong, 2, 4e-3, 10**6, 5000)
    _admit(strong, 4, 3.9e-3, 10**6, 5000)
    _admit(strong, 5, 2e-3, 10**7, 5000)
    _admit(weak, 1, 5e-4, 10**5, 200)
    return strong, weak


def test_the_front_as_a_table(runs: tuple[Path, Path]) -> None:
    done = _pareto(runs[0])
    assert done.exit_code == 0
    front, noise = done.output.split("Dominated, within the noise of the front")
    assert "2 on the front" in front
    assert "exp/strong/02-x" in front
    assert "exp/strong/04-x" not in front
    assert "exp/strong/04-x" in noise
    assert "1 more verified, and clearly dominated" in noise
    assert "exp/strong/05-x" not in done.output
    assert "Hypervolume after round 1: 0.025" in done.output


def test_json_is_the_whole_front_with_its_hypervolume_by_round(runs: tuple[Path, Path]) -> None:
    found = json.loads(_pareto(runs[0], "--json").output)
    run = found["runs"][0]
    assert [row["round"] for row in run["front"]] == [2, 1]
    assert [row["round"] for row in run["within_noise"]] == [4]
    assert run["dominated"] == 1
    assert [step["round"] for step in run["hypervolume_by_round"]] == [1, 2, 4, 5]
    assert run["hypervolume_by_round"][0]["hypervolume"] == pytest.approx(1e-3 * 5 * 5)
    assert run["hypervolume_by_round"][-1]["hypervolume"] == pytest.approx(run["hypervolume"])
    assert found["reference"] == {"delta": 0.0, "flops_per_syndrome": 10**9, "n_params": 10**7}


def test_an_empty_front_is_said_to_be_empty(runs: tuple[Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    publish(empty)
    done = _pareto(empty)
    assert (done.exit_code, "the front is empty" in done.output) == (0, True)
    assert json.loads(_pareto(empty, "--json").output)["runs"][0]["front"] == []
    assert _pareto(empty, runs[0], "--compare").exit_code == 0
    assert _pareto(empty, "--plot", tmp_path / "front.png").exit_code == 0
    (empty / "pareto.json").unlink()
    (empty / "log.md").write_text("# Run\n")  # a full run of before empty fronts were written
    assert "the front is empty" in _pareto(empty).output


def test_compare_shows_what_each_run_adds(runs: tuple[Path, Path]) -> None:
    found = json.loads(_pareto(*runs, "--compare", "--json").output)["compare"]
    by_run = {Path(run["run"]).name: run for run in found["runs"]}
    assert (by_run["strong"]["on_joint_front"], by_run["weak"]["on_joint_front"]) == (2, 0)
    assert found["joint_hypervolume"] == pytest.approx(by_run["strong"]["hypervolume"])
    text = _pareto(*runs, "--compare").output
    assert "Joint front: 2 members" in text
    assert "100%" in text


def test_runs_of_different_environments_are_not_compared(runs: tuple[Path, Path]) -> None:
    for run, digest in zip(runs, ("a", "b"), strict=True):
        (run / "run.json").write_text(json.dumps({"env_yaml_sha256": digest}))
    assert _pareto(*runs).exit_code == 0
    done = _pareto(*runs, "--compare")
    assert done.exit_code == 2
    assert "different environments" in done.output
    (runs[1] / "run.json").write_text(json.dumps({"env_yaml_sha256": "a"}))
    assert _pareto(*runs, "--compare").exit_code == 0


def test_plot_writes_a_picture(runs: tuple[Path, Path], tmp_path: Path) -> None:
    picture = tmp_path / "front.png"
    done = _pareto(*runs, "--plot", picture)
    assert done.exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"Wrote {picture}" in done.output


def test_errors_say_what_is_missing(runs: tuple[Path, Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for arguments, message in (
        ([tmp_path / "empty"], "has no pareto.json"),
        ([tmp_path / "nowhere"], "is not a folder"),
        ([runs[0], "--compare"], "one run cannot be compared"),
        ([runs[0], "--plot", tmp_path / "no" / "front.png"], "does not exist"),
        ([runs[0], "--plot", tmp_path / "front.xyz"], "not supported"),
    ):
        done = _pareto(*arguments)
        assert done.exit_code == 2
        assert message in done.output
