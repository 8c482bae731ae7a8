"""The front on disk: whole files, several writers, and a writer that is killed."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from warm_processes import WARM

from autoqec.errors import InputError
from autoqec.eval import pareto
from autoqec.eval.pareto import ParetoRow, admit, archive_of, front, publish, read_archive, read_front
from autoqec.io import atomic

WRITERS = 8
PER_WRITER = 12


def _row(number: int, delta: float, half: float = 1e-4, flops: int = 1000, params: int = 10) -> ParetoRow:
    return ParetoRow(
        round_attempt_id=f"attempt-{number}",
        commit_sha=f"{number + 1:040x}",
        branch=f"exp/run/{number:02d}-x",
        delta_vs_baseline_holdout=delta,
        delta_ci=(delta - half, delta + half),
        paired_eval_bundle_id=f"bundle-{number}",
        flops_per_syndrome=flops,
        n_params=params,
        verdict="VERIFIED",
        round=number,
    )


def _rows_of(writer: int) -> list[ParetoRow]:
    """Some on the front, some dominated by rows of other writers."""
    return [
        _row(number, 1e-3 * (1 + number % 7), flops=10 ** (1 + number % 5), params=10 ** (number % 4))
        for number in range(writer * PER_WRITER, (writer + 1) * PER_WRITER)
    ]


def _write(run_dir: Path, writer: int) -> None:
    for row in _rows_of(writer):
        admit(run_dir, row)


def test_eight_processes_lose_nothing(tmp_path: Path) -> None:
    writers = [WARM.Process(target=_write, args=(tmp_path, writer)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * WRITERS
    everything = [row for writer in range(WRITERS) for row in _rows_of(writer)]
    archive = read_archive(tmp_path)
    assert archive == archive_of(everything)
    assert list(archive.front) == front(everything)
    assert sorted(row.round for row in archive.rows) == list(range(WRITERS * PER_WRITER))
    assert 0 < len(archive.front) < len(everything)


def test_the_files_are_plain_lists_and_the_preview_is_the_top_five(tmp_path: Path) -> None:
    for number in range(8):
        assert admit(tmp_path, _row(number, 1e-3 * (number + 1), flops=10 ** (number + 1))).entered
    full = json.loads((tmp_path / "pareto.json").read_text())
    assert len(full) == 8
    assert full[0]["delta_vs_baseline_holdout"] == 8e-3
    assert json.loads((tmp_path / "pareto_preview.json").read_text()) == full[:5]
    assert {
        "round_attempt_id", "commit_sha", "branch", "delta_vs_baseline_holdout", "paired_eval_bundle_id",
        "flops_per_syndrome", "n_params", "verdict", "fork_from", "fork_from_canonical", "compose_mode",
    } <= set(full[0])  # fmt: skip


def test_a_member_that_leaves_is_kept_as_dominated(tmp_path: Path) -> None:
    admit(tmp_path, _row(1, 1e-3))
    admission = admit(tmp_path, _row(2, 5e-3))
    assert [row.round for row in admission.left] == [1]
    assert [row.round for row in read_front(tmp_path)] == [2]
    assert [row.round for row in read_archive(tmp_path).dominated] == [1]
    assert [row["round"] for row in json.loads((tmp_path / "pareto_preview.json").read_text())] == [2]


def _rounds(path: Path) -> list[int]:
    return [row["round"] for row in json.loads(path.read_text())]


def test_what_is_dominated_within_the_noise_has_a_file_of_its_own(tmp_path: Path) -> None:
    admit(tmp_path, _row(1, 2e-3, half=5e-4, flops=1000))
    admit(tmp_path, _row(2, 2.1e-3, half=5e-4, flops=900))
    assert _rounds(tmp_path / "pareto.json") == [2]
    assert _rounds(tmp_path / "pareto_within_noise.json") == [1]
    assert not (tmp_path / "pareto_dominated.json").exists()
    admit(tmp_path, _row(3, 4e-3, half=5e-4, flops=900))
    assert _rounds(tmp_path / "pareto.json") == [3]
    assert _rounds(tmp_path / "pareto_within_noise.json") == []
    assert _rounds(tmp_path / "pareto_dominated.json") == [2, 1]


def test_a_folder_whose_front_still_holds_what_is_within_the_noise_is_read_and_put_right(
    tmp_path: Path,
) -> None:
    old = [_row(2, 2.1e-3, half=5e-4, flops=900), _row(1, 2e-3, half=5e-4, flops=1000)]
    text = json.dumps([row.model_dump(mode="json") for row in old])
    (tmp_path / "pareto.json").write_text(text)
    archive = read_archive(tmp_path)
    assert [row.round for row in read_front(tmp_path)] == [2]
    assert [row.round for row in archive.within_noise] == [1]
    assert (tmp_path / "pareto.json").read_text() == text  # reading writes nothing
    publish(tmp_path)
    assert _rounds(tmp_path / "pareto.json") == _rounds(tmp_path / "pareto_preview.json") == [2]
    assert read_archive(tmp_path) == archive


def test_an_empty_front_is_two_empty_lists(tmp_path: Path) -> None:
    publish(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.glob("*.json")} == {
        "pareto.json": "[]\n",
        "pareto_preview.json": "[]\n",
    }


def _admit_and_die(run_dir: Path, row: ParetoRow, writes: int) -> None:
    """Killed before the write number `writes`, by the real signal, with the lock held."""
    real = atomic.write_text
    done: list[Path] = []

    def write(path: Path, text: str) -> None:
        if len(done) == writes:
            os.kill(os.getpid(), signal.SIGKILL)
        done.append(path)
        real(path, text)

    pareto.atomic.write_text = write  # type: ignore[attr-defined]
    admit(run_dir, row)


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_a_killed_admission_can_be_repeated(tmp_path: Path, writes: int) -> None:
    admit(tmp_path, _row(1, 1e-3))
    better = _row(2, 5e-3)
    process = WARM.Process(target=_admit_and_die, args=(tmp_path, better, writes))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert len(read_archive(tmp_path).rows) == (2 if writes == 2 else 1)
    assert admit(tmp_path, better).entered
    archive = read_archive(tmp_path)
    assert ([row.round for row in archive.front], [row.round for row in archive.dominated]) == ([2], [1])
    assert [row["round"] for row in json.loads((tmp_path / "pareto_preview.json").read_text())] == [2]


def test_offering_a_row_again_changes_no_file(tmp_path: Path) -> None:
    row = _row(1, 1e-3)
    admit(tmp_path, row)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")}
    assert admit(tmp_path, row).entered
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*.json")} == before


@pytest.mark.parametrize(
    ("content", "what"),
    [("{", "not valid JSON"), ("{}", "is not a list"), ('[{"verdict": "SUSPICIOUS"}]', "verdict")],
)
def test_a_spoilt_front_is_an_error_and_not_an_empty_front(tmp_path: Path, content: Any, what: str) -> None:
    (tmp_path / "pareto.json").write_text(content)
    with pytest.raises(InputError, match=what):
        admit(tmp_path, _row(1, 1e-3))
    assert (tmp_path / "pareto.json").read_text() == content


def test_a_front_needs_its_run_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such run folder"):
        admit(tmp_path / "missing", _row(1, 1e-3))
