"""Append-only rows: torn lines, other writers, a full disk."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from warm_processes import WARM

from autoqec.errors import AutoQECError, InputError
from autoqec.io.jsonl import JsonLines

ROWS = [{"n": 1, "text": "plain"}, {"n": 2, "text": "naïve ∂ \u2028 \x7f"}, {"n": 3, "text": "tail " * 5}]


def written(path: Path) -> JsonLines:
    lines = JsonLines(path)
    for row in ROWS:
        assert lines.append(row)
    return lines


def test_rows_read_back_equal(tmp_path: Path) -> None:
    lines = written(tmp_path / "h.jsonl")
    assert lines.rows() == ROWS == JsonLines(tmp_path / "h.jsonl").rows()
    assert len((tmp_path / "h.jsonl").read_bytes().split(b"\n")) == 4


def test_a_file_that_is_not_there_has_no_rows(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "h.jsonl")
    assert lines.rows() == []
    assert lines.repair() == b""
    assert not (tmp_path / "h.jsonl").exists()


def test_a_last_line_torn_at_any_byte_is_cut_off_and_reported(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    written(path)
    whole = path.read_bytes()
    start = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        lines = JsonLines(path)
        assert lines.rows() == ROWS[:2]
        assert lines.repair() == whole[start:end]
        assert path.read_bytes() == whole[:start]
        assert lines.append(ROWS[2])
        assert path.read_bytes() == whole


def test_an_append_cuts_a_torn_line_by_itself(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    lines = written(path)
    with path.open("ab") as file:
        file.write(b'{"n": 4, "te')
    lines.append({"n": 5})
    assert JsonLines(path).rows() == [*ROWS, {"n": 5}]


@pytest.mark.parametrize(
    "broken", [b'{"n": 2, "te', b"", b"[1]", b'{"n": NaN}', b"\x00\x00\x00", b'{"n": 1}{"n": 2}']
)
def test_a_broken_line_in_the_middle_is_refused_with_its_number(tmp_path: Path, broken: bytes) -> None:
    path = tmp_path / "h.jsonl"
    path.write_bytes(b'{"n": 1}\n' + broken + b'\n{"n": 3}\n')
    before = path.read_bytes()
    with pytest.raises(InputError, match="line 2"):
        JsonLines(path).rows()
    with pytest.raises(InputError, match="line 2"):
        JsonLines(path).append({"n": 4})
    assert path.read_bytes() == before


def test_what_is_no_json_is_not_written(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    written(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="not JSON compliant"):
        JsonLines(path).append({"loss": float("nan")})
    assert path.read_bytes() == before


def test_unless_sees_the_rows_of_other_writers(tmp_path: Path) -> None:
    path = tmp_path / "h.jsonl"
    ours, theirs = JsonLines(path), JsonLines(path)
    ours.append({"n": 1})
    theirs.append({"n": 2})
    assert not ours.append({"n": 2}, unless=lambda rows: {"n": 2} in rows)
    assert ours.append({"n": 3}, unless=lambda rows: {"n": 3} in rows)
    assert [row["n"] for row in theirs.rows()] == [1, 2, 3]


def _append_many(path: str, writer: int, count: int) -> None:
    lines = JsonLines(Path(path))
    for i in range(count):
        lines.append({"writer": writer, "i": i, "filler": "x" * (i % 300)})


def test_eight_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    writers, count = 8, 500
    shared = Path("/dev/shm")
    folder = shared if shared.is_dir() and os.access(shared, os.W_OK) else tmp_path  # fsync is the slow part
    path = folder / f"autoqec-test-{os.getpid()}.jsonl"
    try:
        processes = [
            WARM.Process(target=_append_many, args=(str(path), writer, count)) for writer in range(writers)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
            assert process.exitcode == 0
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        assert len(rows) == writers * count
        for writer in range(writers):
            assert [row["i"] for row in rows if row["writer"] == writer] == list(range(count))
    finally:
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.lock").unlink(missing_ok=True)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", folder], capture_output=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("mounting a small disk takes privileges")
    yield folder
    subprocess.run(["umount", folder], check=True)


def _fill(lines: JsonLines) -> None:
    for n in range(1000):
        lines.append({"n": n, "filler": "x" * 500})


def test_a_full_disk_leaves_whole_rows(small_disk: Path) -> None:
    lines = JsonLines(small_disk / "h.jsonl")
    with pytest.raises(AutoQECError, match="append a row") as caught:
        _fill(lines)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.__cause__.errno == errno.ENOSPC
    rows = JsonLines(small_disk / "h.jsonl").rows()
    assert 0 < len(rows) < 40
    assert [row["n"] for row in rows] == list(range(len(rows)))
    assert (small_disk / "h.jsonl").read_bytes().endswith(b"\n")
