"""`autoqec pareto` on run folders that real admissions made."""

import json
import os
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from written_reports import leave_report

from autoqec.commands import main
from autoqec.envs.environment import Environment
from autoqec.eval.options import VerifyOptions
from autoqec.eval.pareto import admit, publish
from autoqec.eval.report import as_json
from autoqec.eval.schema import VerifyReport
from autoqec.layout import RoundDir, RunDir
from autoqec.runs.front import front_row
from autoqec.runs.history import HistoryStore, filled


def _pareto(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["pareto", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _verifier_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))


STRONG, WEAK = "20260101-000000", "20260102-000000"


def _admit(run_dir: Path, number: int, delta: float, flops: int, params: int) -> None:
    """A verified round, in history and on the front, with the verifier's report."""
    files = RunDir(run_dir)
    row = {
        "round": number,
        "status": "ok",
        "round_attempt_id": f"{run_dir.name}-{number}",
        "commit_sha": f"{int(run_dir.name[:8]) * 1000 + number:040x}",
        "branch": f"exp/{run_dir.name}/{number:02d}-x",
        "fork_from": "baseline",
        "verdict": "VERIFIED",
    }
    HistoryStore(files).append(row)
    about = {"commit_sha": row["commit_sha"], "branch": row["branch"]}
    report = leave_report(
        files.round(number).path, delta=delta, half=2e-4, flops=flops, params=params, **about
    )
    admit(run_dir, front_row(report, filled(row), None))


@pytest.fixture
def runs(tmp_path: Path) -> tuple[Path, Path]:
    strong, weak = tmp_path / STRONG, tmp_path / WEAK
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
    assert f"exp/{STRONG}/02-x" in front
    assert f"exp/{STRONG}/04-x" not in front
    assert f"exp/{STRONG}/04-x" in noise
    assert "1 more verified, and clearly dominated" in noise
    assert f"exp/{STRONG}/05-x" not in done.output
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
    assert (by_run[STRONG]["on_joint_front"], by_run[WEAK]["on_joint_front"]) == (2, 0)
    assert found["joint_hypervolume"] == pytest.approx(by_run[STRONG]["hypervolume"])
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
        ([runs[0], "--plot", tmp_path / "front.xyz"], "ends in .png"),
    ):
        done = _pareto(*arguments)
        assert done.exit_code == 2
        assert message in done.output


def _edit(path: Path, **changes: object) -> None:
    """Of the first row."""
    one, *rest = json.loads(path.read_text())
    path.write_text(json.dumps([{**one, **changes}, *rest]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"flops_per_syndrome": 12}, "is not what its report says: flops_per_syndrome"),
        ({"delta_vs_baseline_holdout": 0.5, "delta_ci": [0.4, 0.6]}, "delta_vs_baseline_holdout, delta_ci"),
        ({"commit_sha": "ab" * 20}, "is not what its report says: commit_sha"),
        ({"round": 9}, "is not in the history"),
        ({"round_attempt_id": "another"}, "round_attempt_id"),
        ({"checkpoint_sha256": "ab" * 32}, "checkpoint_sha256"),
    ],
)
def test_a_row_that_its_report_does_not_give_is_not_shown_as_verified(
    runs: tuple[Path, Path], tmp_path: Path, changes: dict[str, object], said: str
) -> None:
    _edit(runs[0] / "pareto.json", **changes)
    done = _pareto(runs[0], "--plot", tmp_path / "front.svg")
    assert done.exit_code == 1
    assert "not backed" in done.output
    assert said in done.output
    assert "verify-package" in done.output
    found = json.loads(_pareto(runs[0], "--json").output)["runs"][0]
    assert found["backed"] is False
    (bad,) = found["not_backed"]
    assert bad["backed"] is False
    assert said in bad["reason"]
    shown = [row for name in ("front", "within_noise") for row in found[name]]
    assert all(row["backed"] for row in shown)
    assert all(row["delta_vs_baseline_holdout"] < 0.01 and row["flops_per_syndrome"] > 12 for row in shown)


def test_a_copied_run_and_a_lost_row_are_told(runs: tuple[Path, Path], tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / runs[0].name
    shutil.copytree(runs[0], copy)
    assert _pareto(copy).exit_code == 0  # a run is its identity, not its folder
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOQEC_HOME", str(tmp_path / "another machine"))
        done = _pareto(copy)
    assert (done.exit_code, "the front is empty" in done.output) == (1, True)
    assert "not as this verifier wrote it" in done.output
    rows = json.loads((runs[0] / "pareto.json").read_text())
    (runs[0] / "pareto.json").write_text(json.dumps(rows[1:]))
    done = _pareto(runs[0])
    assert done.exit_code == 1
    assert "VERIFIED rounds that the front's files miss: 2" in done.output


def test_no_file_of_a_run_is_waited_for(runs: tuple[Path, Path]) -> None:
    for name in ("pareto.json", "history.jsonl"):
        kept = (runs[0] / name).read_bytes()
        (runs[0] / name).unlink()
        os.mkfifo(runs[0] / name)
        done = _pareto(runs[0], runs[1])
        assert done.exit_code == 2
        (runs[0] / name).unlink()
        (runs[0] / name).write_bytes(kept)


@pytest.fixture
def second_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """The verifier finds another gain than the report that is there says."""

    def verified(folders: list[Path], _env: Environment, options: VerifyOptions) -> list[VerifyReport]:
        text = RoundDir(folders[0]).report.read_text()
        another = {"delta_vs_baseline_holdout": 1e-5, "seconds": 1.0}
        found = VerifyReport.model_validate_json(text).model_copy(update=another)
        if options.write:
            RoundDir(folders[0]).report.write_text(as_json(found))
        return [found]

    monkeypatch.setattr("autoqec.eval.verify.verify_together", verified)


def _verify_again(folder: Path) -> tuple[Result, bool]:
    """What the command says, and whether the report is another one now."""
    before = RoundDir(folder).report.read_bytes()
    done = CliRunner().invoke(main, ["verify", str(folder), "--env", "surface_d3_depol"])
    assert done.exit_code == 0, done.output
    return done, RoundDir(folder).report.read_bytes() != before


@pytest.mark.usefixtures("second_verdict")
def test_a_second_verification_of_a_round_leaves_the_front_as_it_is(runs: tuple[Path, Path]) -> None:
    """Another chance for the same predecoder is none: the run's report stays."""
    before = json.loads(_pareto(runs[0], "--json").output)
    done, is_another = _verify_again(runs[0] / "round_2")
    assert not is_another
    assert "is not kept" in done.output
    assert _pareto(runs[0]).exit_code == 0
    assert json.loads(_pareto(runs[0], "--json").output) == before


@pytest.mark.usefixtures("second_verdict")
def test_a_report_that_no_run_relies_on_is_replaced(runs: tuple[Path, Path], tmp_path: Path) -> None:
    leave_report(tmp_path / "alone", delta=1e-3, half=1e-4, flops=10, params=10)
    found = [_verify_again(tmp_path / "alone")]
    damaged = RoundDir(runs[0] / "round_2").report
    damaged.write_text(damaged.read_text() + " ")
    found.append(_verify_again(damaged.parent))
    for done, is_another in found:
        assert is_another
        assert "Report: " in done.output
