"""Bad input to every command: one clear error, exit code 2, nothing written, no traceback, no hang.

Options and files are derived from what the commands declare and read: a new command, option or file is tried without a word here,
but for its good command line in `fuzz_options.good`. A part of the cases runs in every `make test`, always the same ones; all of
them in `make fuzz`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fuzz_files
import fuzz_options
import fuzz_scene
import pytest
from fuzz_player import HANG_S, Case, Judge, Player, some
from fuzz_scene import Scene

SOME_OPTIONS = 350
SOME_MUTANTS = 6
SOME_READERS = 3


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    return fuzz_scene.make(tmp_path_factory.mktemp("fuzz"))


@pytest.fixture(scope="module")
def odd(scene: Scene) -> dict[str, str]:
    return fuzz_scene.odd_files(scene.root / "odd")


@pytest.fixture(scope="module")
def player(scene: Scene) -> Iterator[Player]:
    with Player(scene.cwd, AUTOQEC_HOME=str(scene.home)) as player:
        yield player


@pytest.fixture
def judge(scene: Scene, odd: dict[str, str], player: Player) -> Judge:
    return Judge(player, scene.root, lambda: fuzz_scene.odd_files(scene.root / "odd") and None)


def _verdict(judge: Judge) -> None:
    shown = "\n\n".join(judge.wrong[:20])
    assert not judge.wrong, f"{len(judge.wrong)} of {judge.played} cases:\n{shown}"


def test_every_command_has_a_good_line(scene: Scene) -> None:
    assert {path for path, _ in fuzz_options.commands()} == fuzz_options.good(scene).keys()


def test_some_values_of_all_options(scene: Scene, odd: dict[str, str], judge: Judge) -> None:
    judge.judge(some(list(fuzz_options.cases(scene, odd)), SOME_OPTIONS))
    _verdict(judge)


@pytest.mark.fuzz
def test_all_values_of_all_options(scene: Scene, odd: dict[str, str], judge: Judge) -> None:
    judge.judge(fuzz_options.cases(scene, odd))
    assert judge.played > 2_000
    _verdict(judge)


@pytest.mark.parametrize("group", fuzz_files.GROUPS, ids=lambda group: group.name)
def test_some_damages_of_a_file(group: fuzz_files.Group, scene: Scene, judge: Judge) -> None:
    readers = group.readers(scene)
    for n, mutant in enumerate(some(list(group.mutants(scene)), SOME_MUTANTS, salt=group.name)):
        with mutant.in_place():
            judge.about = mutant.what
            judge.judge(some(readers, SOME_READERS, salt=f"{group.name} {n}"))
    _verdict(judge)


@pytest.mark.fuzz
@pytest.mark.parametrize("group", fuzz_files.GROUPS, ids=lambda group: group.name)
def test_all_damages_of_a_file(group: fuzz_files.Group, scene: Scene, judge: Judge) -> None:
    for mutant in group.mutants(scene):
        with mutant.in_place():
            judge.about = mutant.what
            judge.judge(group.readers(scene))
    _verdict(judge)


@pytest.mark.parametrize(
    ("form", "shots"),
    [
        ("dets", b"shot D10000000000\n"),
        ("dets", b"shot D-1\n"),
        ("dets", b"shot D0 D1 D0\n"),
        ("dets", b"shot L7\n"),
        ("hits", b"10000000000\n"),
        ("hits", b"18446744073709551616\n"),
        ("hits", b"1,1\n"),
        ("01", b"0\n"),
        ("01", b"02\n"),
        ("r8", b"\x07"),
        ("ptb64", b"\x00"),
    ],
)
def test_shots_of_another_model_are_refused(scene: Scene, judge: Judge, form: str, shots: bytes) -> None:
    words = ["decode", "--dem", str(scene.root / "model.dem"), "--in", "-", "--in-format", form]
    judge.judge([Case((*words, "--decoder", "pymatching", "--out", "-"), says=("--in",), stdin=shots)])
    _verdict(judge)


def _autoqec(scene: Scene, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """The real program; one that waits for ever is killed, and subprocess.TimeoutExpired names it."""
    return subprocess.run(
        [sys.executable, "-m", "autoqec", *map(str, words)],
        cwd=scene.cwd,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.slow
def test_the_real_program_waits_for_no_pipe(scene: Scene, odd: dict[str, str]) -> None:
    model, pipe = scene.root / "model.dem", odd["pipe"]
    for words in (
        ("decode", "--dem", model, "--in", pipe, "--decoder", "pymatching", "--out", "-"),
        ("decode", "--dem", pipe, "--in", model, "--decoder", "pymatching", "--out", "-"),
        ("verify-package", "--no-evaluate", pipe),
        ("step", "propose", "--run", scene.run, "--in", pipe),
    ):
        done = _autoqec(scene, *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        assert done.stderr.startswith("error: ")
        assert "not a regular file" in done.stderr


def test_people_and_programs_are_told_the_same(scene: Scene) -> None:
    words = ("power", "--ler", "nan", "--effect", "0.5")
    plain, coded = _autoqec(scene, *words), _autoqec(scene, *words, AUTOQEC_ERROR_JSON="1")
    told = json.loads(coded.stderr)
    assert plain.returncode == coded.returncode == told["exit_code"] == 2
    assert plain.stderr == f"error: {told['where']}: {told['what']}\n  hint: {told['hint']}\n"


@pytest.mark.slow
def test_an_output_replaces_files_only(scene: Scene, odd: dict[str, str]) -> None:
    """A rename would put a file in the place of a pipe, or of /dev/null."""
    words = (
        "decode",
        "--dem",
        scene.root / "model.dem",
        "--in",
        scene.root / "shots.01",
        "--decoder",
        "pymatching",
    )
    done = _autoqec(scene, *words, "--out", odd["pipe"])
    assert done.returncode == 2
    assert Path(odd["pipe"]).is_fifo()
