"""Every command that README.md and the pages of docs/ show is run, in the order of its page, in a folder with one real run."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))  # documented_commands

from documented_commands import CASCADES, READ, ROOT, RUN_ID, SEARCHED, Shown, commands, ready

from autoqec.commands import main
from autoqec.envs.load import load_env
from autoqec.sandbox.tiers import strongest

pytestmark = [
    pytest.mark.pages,
    pytest.mark.skipif(
        not strongest().confines, reason="rounds with a commit are verified in a sandbox only"
    ),
]

ELSEWHERE = {
    r"autoqec step .*": "tests/agent_tools/test_skill_commands.py, step by step",
    r"autoqec mcp": "tests/agent_tools/test_mcp_server.py",
    r"autoqec add-env .*": "tests/commands/test_env.py answers its questions",
    r"autoqec .*(--proposer llm|--budget-usd).*": "tests/runs/test_llm_runs.py, test_agent_runs.py",
    r"autoqec .*--executor ray.*": "tests/executors/test_on_ray.py, on a cluster",
    r"autoqec verify .*--bundle.*": "tests/commands/test_verify.py, with the bundle of a report of its own",
    r"autoqec (zoo verify|.*zoo:).*": "tests/finds/test_zoo.py, on the code of the entry",
    r"autoqec verify-package .*": "tests/runs/test_package_verified.py, which measures again",
}
"""Commands that wait for somebody or need more than a workspace, or minutes, and what plays them."""
EXTENDS = "extending.md"
"""tests/tools/test_extending.py plays it, with what it adds."""
SMALL = {"min_shots_train": 1_000, "min_shots_val": 20_000, "min_shots_verify": 4_000}
"""Enough to see the gain of untrained propagation, the first round of optuna, at the largest p of a sweep: the one that is kept."""
FEW = {"min_shots_train": 200, "min_shots_val": 200, "min_shots_verify": 200}
"""Where a shot takes milliseconds, and of the searches that nobody looks at again: nothing there is verified."""
_PATCH = "surface_code:rotated_memory_z?distance={0}&rounds={0}"
STANDS_FOR: dict[str, dict[str, Any]] = {
    "surface_d3_depol": {"source": _PATCH.format(3)},
    "surface_d5_depol": {"source": _PATCH.format(4)},
    "surface_d7_depol": {"source": _PATCH.format(5)},
    "bb72_depol": {"rounds": 2},
}
"""The environments of the pages, and the smaller code that stands for each here."""
P = {"mwpm": 0.01, "osd": 0.003}
HOT = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 2},
    "training": {"learning_rate": 1e30, "epochs": 1, "batch_size": 16, "loss": "bce"},
}
FAILS = {("run-round", "env.yaml", "hot.yaml", "runs/demo/round_1"): 1}
"""Exit codes other than 0 that the page itself shows."""


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run of one verified round, environments of few shots, an error model and its shots."""
    folder = tmp_path_factory.mktemp("documented")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOQEC_HOME", str(folder / "home"))
        patch.setenv("COLUMNS", "200")
        cores = os.sched_getaffinity(0)
        os.sched_setaffinity(
            0, [min(cores)]
        )  # one worker and one sandbox for each verification, not one per core
        try:
            _fill(folder)
            yield folder
        finally:
            os.sched_setaffinity(0, cores)


def _fill(folder: Path) -> None:
    for name, smaller in STANDS_FOR.items():
        env = load_env(name)
        spec, backend = env.spec.model_dump(mode="json", exclude_none=True), env.spec.classical_backend
        spec["code"] |= smaller
        spec["noise"] |= {"p": [P[backend]], "reference_p": P[backend]}
        for file, shots in ((f"{name}.yaml", SMALL), (f"{SEARCHED}{name}.yaml", FEW)):
            spec["eval_protocol"] |= shots if backend == "mwpm" else FEW
            (folder / file).write_text(yaml.safe_dump(spec))
    shutil.copy(folder / "surface_d3_depol.yaml", folder / "env.yaml")
    shutil.copy(folder / f"{SEARCHED}surface_d3_depol.yaml", folder / "my_env.yaml")
    (folder / "hot.yaml").write_text(yaml.safe_dump(HOT))
    small = {"iterations": 3, "weight_sharing": "neighbourhood"}
    config = {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": small,
        "training": {"epochs": 0},
    }
    (folder / "small.yaml").write_text(yaml.safe_dump(config))
    stages = [{"type": "neural_bp", "neural_bp": {"iterations": 2}, **more} for more in ({}, {"share": 0.2})]
    cascade = {
        "type": "cascade",
        "output_mode": "soft_priors",
        "stages": stages,
        "training": {"epochs": 1, "batch_size": 8},
    }
    (folder / "cascade.yaml").write_text(yaml.safe_dump(cascade))
    circuit = load_env(str(folder / "surface_d5_depol.yaml")).circuit(0.005)
    for name in ("m.dem", "d5.dem"):
        circuit.detector_error_model(decompose_errors=True).to_file(folder / name)
    sampler = circuit.compile_detector_sampler(seed=1)
    sampler.sample_write(500, filepath=str(folder / "shots.b8"), format="b8")
    recorded = {"append_observables": True, "filepath": str(folder / "recorded.b8"), "format": "b8"}
    sampler.sample_write(2_000, **recorded)
    apart = {"filepath": str(folder / "detectors.b8"), "obs_out_filepath": str(folder / "observables.b8")}
    sampler.sample_write(2_000, format="b8", obs_out_format="b8", **apart)
    made = autoqec(
        folder, "run", "surface_d5_depol.yaml", "--rounds", "1", "--proposer", "optuna", "--own-repository",
        "--run-id", RUN_ID,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    for words in (
        ("env.yaml", "small.yaml", "child"),
        ("my_env.yaml", "cascade.yaml", f"{CASCADES}/round_1"),
    ):
        done = autoqec(folder, "run-round", *words)
        assert done.returncode == 0, done.stderr
    for name in ("parent_a", "parent_b"):
        shutil.copytree(folder / "child", folder / name)


def autoqec(folder: Path, *words: str) -> Done:
    """In this process, where libraries are loaded and kernels compiled; the command itself starts others, as always."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(list(words))
        except SystemExit as end:
            code = end.code or 0
    return Done(code, out.getvalue(), err.getvalue())


def looked_at(folder: Path, *words: str) -> None:
    """A server: it says where it listens, shows the run there, and ends by Ctrl-C."""
    command = [sys.executable, "-m", "autoqec", *words, "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            found = None
            while found is None and (line := server.stdout.readline()):
                found = re.search(r"http://\S+", line)
            assert found is not None
            with urllib.request.urlopen(found[0]) as page:
                assert RUN_ID in page.read().decode()
        finally:
            server.send_signal(signal.SIGINT)
        server.stdout.read()
    assert server.returncode == 0


def _known_here(word: str, folder: Path) -> str:
    """What only the run knows."""
    if word == "REPOSITORY":
        return str(json.loads((folder / "runs" / RUN_ID / "run.json").read_text())["repository"])
    return word.replace("<run_id>", RUN_ID)


def play(command: Shown, words: list[str], folder: Path) -> str | None:
    """What is wrong with it."""
    if command.verb == "serve":
        looked_at(folder, *words)
        return None
    called = [*words, "--help"] if command.is_a_name else words
    done = autoqec(folder, *called)
    if done.returncode == FAILS.get(tuple(words), 0):
        return None
    return f"{command.page}: {command.line}\nas autoqec {' '.join(called)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def is_played(command: Shown) -> bool:
    return command.is_a_name or not any(re.match(line, command.line) for line in ELSEWHERE)


def test_what_is_played_elsewhere_is_there() -> None:
    for where in ELSEWHERE.values():
        for file in re.findall(r"[\w/]+\.py", where):
            assert (ROOT / (file if "/" in file else f"tests/runs/{file}")).is_file(), file


def test_every_command_of_every_page_runs(workspace: Path) -> None:
    """All of them, also after one that fails: pages are mended together."""
    played: set[tuple[str, ...]] = set()
    broken: list[str] = []
    for page in (page for page in READ if page.name != EXTENDS):
        for command in filter(is_played, commands(page)):
            words = [_known_here(word, workspace) for word in ready(command, workspace)]
            if tuple(words) not in played:
                played.add(tuple(words))
                print(f"{page.name}: autoqec {' '.join(words)}")
                found = play(command, words, workspace)
                broken += [] if found is None else [found]
    assert not broken, "\n\n".join(broken)
    assert len(played) > 60
