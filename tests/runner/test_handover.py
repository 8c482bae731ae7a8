"""What a confined training leaves is taken over file by file and figure by figure."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from autoqec.errors import InputError
from autoqec.layout import RoundDir
from autoqec.runner import handover

ROW = {
    "p": 0.01,
    "shots": 100,
    "plain": "pymatching",
    "ler_plain": 0.1,
    "ler_predecoder": 0.05,
    "delta": 0.05,
    "delta_low": 0.0,
    "delta_high": 0.1,
    "ratio": 2.0,
    "ratio_low": 1.0,
    "ratio_high": None,
    "only_plain_failed": 6,
    "only_predecoder_failed": 1,
    "both_failed": 4,
    "us_per_shot_plain": 1.0,
    "us_per_shot_predecoder": 2.0,
}
GOOD: dict[str, Any] = {
    "status": "ok",
    "reference_p": 0.01,
    "ler_plain_classical": 0.1,
    "ler_predecoder": 0.05,
    "delta_ler": 0.05,
    "delta_ler_ci_low": 0.0,
    "delta_ler_ci_high": 0.1,
    "flops_per_syndrome": 10,
    "n_params": 1,
    "per_p": [ROW],
}


@pytest.fixture
def files(tmp_path: Path) -> RoundDir:
    files = RoundDir(tmp_path / "round_1")
    files.path.mkdir()
    handover.prepare(files)
    return files


def report(files: RoundDir, data: object, *, is_trained: bool = True) -> Any:
    if is_trained:
        files.checkpoint.write_bytes(b"x")
    result = files.path.parent / "result.json"
    result.write_text(data if isinstance(data, str) else json.dumps(data))
    return handover.read_metrics(result, files)


def test_plain_files_with_the_names_of_artifacts_move_up_and_all_else_is_gone(files: RoundDir) -> None:
    inside = RoundDir(files.confined)
    inside.checkpoint.write_bytes(b"weights")
    inside.checkpoint.chmod(0)
    inside.train_log.write_text("1\t0.5\n")
    inside.report.write_text("VERIFIED")
    inside.metrics.write_text("{}")
    os.mkfifo(inside.weights)
    (files.confined / "folder").mkdir()
    files.report.write_text("mine")
    handover.take_over(files)
    assert {path.name: path.read_text() for path in files.path.iterdir()} == {
        "checkpoint.pt": "weights",
        "train.log": "1\t0.5\n",
        "verification_report.json": "mine",
    }


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "twice"])
def test_a_checkpoint_that_is_not_a_plain_file_is_not_taken(
    files: RoundDir, kind: str, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("s")
    inside = RoundDir(files.confined)
    if kind == "link":
        inside.checkpoint.symlink_to(tmp_path / "secret")
    elif kind == "pipe":
        os.mkfifo(inside.checkpoint)
    elif kind == "folder":
        inside.checkpoint.mkdir()
    else:
        inside.checkpoint.write_bytes(b"x")
        os.link(inside.checkpoint, inside.train_log)
    handover.take_over(files)
    assert list(files.path.iterdir()) == []
    assert (tmp_path / "secret").read_text() == "s"


def test_an_unfinished_training_can_be_resumed_and_only_its_state_stays(files: RoundDir) -> None:
    inside = RoundDir(files.confined)
    for path in (inside.training_state, inside.train_log, files.confined / "more"):
        path.write_text("1\t0.5\n")
    handover.take_over(files)
    handover.prepare(files)
    assert sorted(path.name for path in files.confined.iterdir()) == ["train.log", "training_state.pt"]
    assert files.train_log.read_text() == "1\t0.5\n"


def test_a_folder_that_was_made_a_link_is_not_written_to(tmp_path: Path) -> None:
    files, elsewhere = RoundDir(tmp_path / "round_1"), tmp_path / "elsewhere"
    files.path.mkdir()
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("x")
    files.confined.symlink_to(elsewhere)
    handover.prepare(files)
    assert not files.confined.is_symlink()
    assert (elsewhere / "mine").exists()


def test_figures_are_taken_and_the_origin_is_not(files: RoundDir) -> None:
    claimed = {"round_attempt_id": "a", "branch": "b", "commit_sha": "c", "checkpoint_path": "/etc/passwd"}
    metrics = report(files, {**GOOD, **claimed, "training_note": "fine \x1b[2J"})
    assert metrics.ler_predecoder == 0.05
    assert (metrics.round_attempt_id, metrics.branch, metrics.commit_sha) == (None, None, None)
    assert metrics.checkpoint_path == str(files.checkpoint.resolve())
    assert metrics.training_note == "fine ?[2J"


@pytest.mark.parametrize(
    "data",
    [
        "",
        "null",
        "[]",
        "{",
        "[" * 100_000,
        {"status": "splendid"},
        {**GOOD, "status": "orphaned_branch"},
        {**GOOD, "status": "compose_conflict", "conflicting_files": []},
        {**GOOD, "ler_predecoder": None},
        {**GOOD, "ler_predecoder": -1},
        {**GOOD, "per_p": []},
        {**GOOD, "per_p": [{}]},
        {**GOOD, "per_p": [{**ROW, "ratio": "1"}]},
        {**GOOD, "per_p": [{**ROW, "more": 1}]},
        {**GOOD, "per_p": [{**ROW, "p": 0.5}]},
        json.dumps({**GOOD, "per_p": [{**ROW, "ratio": float("nan")}]}),
        {**GOOD, "baselines": [{"p": 1}]},
        {**GOOD, "hard_flip": {}},
        {**GOOD, "reconcile_id": "x"},
    ],
)
def test_what_are_not_metrics_is_an_error_and_no_traceback(files: RoundDir, data: object) -> None:
    with pytest.raises(InputError):
        report(files, data)


def test_ok_without_a_checkpoint_and_a_result_that_is_no_plain_file_are_errors(
    files: RoundDir, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"checkpoint\.pt"):
        report(files, GOOD, is_trained=False)
    for make in (lambda path: path.symlink_to("/dev/zero"), os.mkfifo, Path.mkdir):
        path = tmp_path / "other"
        make(path)
        with pytest.raises(InputError):
            handover.read_metrics(path, files)
        path.rmdir() if path.is_dir() else path.unlink()


def test_a_long_log_keeps_its_end(tmp_path: Path) -> None:
    log = tmp_path / "runner.log"
    with log.open("wb") as file:
        file.truncate(100 << 20)
        file.seek(0, os.SEEK_END)
        file.write(b"the end\n")
    log.chmod(0)
    handover.shorten(log)
    assert log.stat().st_size < 16 << 20
    assert log.read_bytes().endswith(b"the end\n")
