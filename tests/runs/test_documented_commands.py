"""Every command that README.md and the pages of docs/ show is run, in the order of its page, in a folder with one real run."""

from __future__ import annotations

import contextlib
import io
import itertools
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

from documented_commands import (
    CASCADES,
    READ,
    ROOT,
    RUN_ID,
    SEARCHED,
    Shown,
    commands,
    others,
    ready,
    ready_line,
)

from autoqec.commands import main
from autoqec.envs.load import load_env
from autoqec.layout import example_configs
from autoqec.sandbox.kinds import strongest

pytestmark = [
    pytest.mark.pages,
    pytest.mark.skipif(
        not strongest().confines, reason="rounds with a commit are verified in a sandbox only"
    ),
]

LEFT_OUT = {
    r"make demo": "sets up .venv first; its command, as the Makefile has it, makes the run of the workspace below",
    r"make test\b.*": "the suites, of which this is one",
    r"npm install .*": "needs a network; tests/tools/test_agent_programs.py and make test-agents install both",
    r"tensorboard .*": "serves until it is stopped, and is not ours; tests/runner/test_telemetry.py reads what it would show",
    r"autoqec mcp\b.*": "serves a client on its standard input: tests/agent_tools/test_mcp_server.py",
    r"autoqec step .*": "takes answers of a model: tests/agent_tools/test_skill_commands.py, step by step",
    r"autoqec run .*(--proposer llm|--budget-usd).*": "takes a language model: tests/runs/test_llm_runs.py",
    r"autoqec .*--executor ray.*": "takes a Ray cluster: tests/executors/test_on_ray.py",
    r"autoqec .*\b(uniform|brier|doubling|faults)\b.*": "takes the parts that the page adds: tests/tools/test_extending.py",
    r"autoqec verify .*--bundle.*": "takes the bundle of a report: tests/commands/test_verify.py",
    r"autoqec verify-package .*": "measures all gains again, for minutes: tests/runs/test_package_verified.py",
    r"autoqec (zoo verify|.*zoo:).*": "on the code of an entry, for minutes: tests/finds/test_zoo.py",
}
"""Lines of the pages that are not played here: why, and what plays them."""
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
"""The environments of the pages, and the smaller code that stands for each here, with the first two of its baselines."""
P = {"mwpm": 0.01, "osd": 0.003}
ONE_ITERATION = "neural_bp_gap"
"""A config of the pages. A file of its name comes first: here with one iteration, since an ONNX graph spells out each of them."""
HOT = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
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
        # One worker and one sandbox for each verification, not one per core; not the first core, where other suites begin.
        os.sched_setaffinity(0, [max(cores)])
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
        spec["baseline_decoders"] = spec["baseline_decoders"][:2]
        spec["noise"] |= {"p": [P[backend]], "reference_p": P[backend]}
        for file, shots in ((f"{name}.yaml", SMALL), (f"{SEARCHED}{name}.yaml", FEW)):
            spec["eval_protocol"] |= shots if backend == "mwpm" else FEW
            (folder / file).write_text(yaml.safe_dump(spec))
    example = yaml.safe_load(example_configs()[ONE_ITERATION].read_text())
    example["neural_bp"]["iterations"] = 1
    (folder / ONE_ITERATION).write_text(yaml.safe_dump(example))
    shutil.copy(folder / "surface_d5_depol.yaml", folder / "env.yaml")
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
    (folder / "c").mkdir()
    for name in ("d5.stim", "c/d5.stim"):
        circuit.to_file(folder / name)
    for name in ("m.dem", "d5.dem"):
        circuit.detector_error_model(decompose_errors=True).to_file(folder / name)
    sampler = circuit.compile_detector_sampler(seed=1)
    sampler.sample_write(500, filepath=str(folder / "shots.b8"), format="b8")
    recorded = {"append_observables": True, "filepath": str(folder / "recorded.b8"), "format": "b8"}
    sampler.sample_write(2_000, **recorded)
    apart = {"filepath": str(folder / "detectors.b8"), "obs_out_filepath": str(folder / "observables.b8")}
    sampler.sample_write(2_000, format="b8", obs_out_format="b8", **apart)
    for words in (_demo(folder), ("run-round", "my_env.yaml", "cascade.yaml", f"{CASCADES}/round_1")):
        done = autoqec(folder, *words)
        assert done.returncode == 0, done.stderr


def _demo(folder: Path) -> list[str]:
    """What `make demo` runs, on the smaller code, with an id that is known."""
    found = re.search(r"-m (autoqec run .*)", (ROOT / "Makefile").read_text(encoding="utf-8"))
    assert found is not None
    words = tuple(found[1].split()[1:])
    smaller = ready(Shown("Makefile", found[1], words, is_in_a_sentence=False), folder)
    return [*(word.replace(SEARCHED, "") for word in smaller), "--run-id", RUN_ID]


def autoqec(folder: Path, *words: str) -> Done:
    """In this process, where libraries are loaded and kernels compiled; the command itself starts others, as always."""
    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", io.StringIO("\n" * 20))  # who asks is given the defaults
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
    called, told = words, []
    if command.is_a_name:  # its help has to know the options, whose values are not there
        called = [*itertools.takewhile(lambda word: not word.startswith("-"), words), "--help"]
        told = [word for word in words if word.startswith("--")]
    done = autoqec(folder, *called)
    if done.returncode == FAILS.get(tuple(words), 0) and all(word in done.stdout for word in told):
        return None
    return f"{command.page}: {command.line}\nas autoqec {' '.join(called)}: exit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def play_others(lines: list[str], page: Path, folder: Path) -> str | None:
    """What is wrong with the lines of a block that are of other programs."""
    script = "\n".join(map(ready_line, lines))
    here = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=here, capture_output=True, text=True, check=False
    )
    if done.returncode == 0:
        return None
    return f"{page.name}:\n{script}\nexit code {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"


def is_left_out(line: str) -> bool:
    return any(re.match(pattern, line) for pattern in LEFT_OUT)


def is_played(command: Shown) -> bool:
    return command.is_a_name or not is_left_out(command.line)


@pytest.mark.parametrize("pattern", LEFT_OUT)
def test_what_is_left_out_is_shown_by_a_page(pattern: str) -> None:
    of_autoqec = [each.line for page in READ for each in commands(page) if not each.is_a_name]
    of_others = [line for page in READ for block in others(page) for line in block]
    assert any(re.match(pattern, line) for line in of_autoqec + of_others)


@pytest.mark.parametrize("reason", LEFT_OUT.values())
def test_what_plays_the_rest_is_there(reason: str) -> None:
    assert [file for file in re.findall(r"[\w/]+\.py", reason) if not (ROOT / file).is_file()] == []


def test_every_command_of_every_page_runs(workspace: Path) -> None:
    """All of them, also after one that fails: pages are mended together."""
    played: set[tuple[str, ...]] = set()
    broken: list[str | None] = []
    for page in READ:
        for lines in others(page):
            here = [line for line in lines if not is_left_out(line)]
            if here and tuple(here) not in played:
                played.add(tuple(here))
                broken.append(play_others(here, page, workspace))
        for command in filter(is_played, commands(page)):
            words = [_known_here(word, workspace) for word in ready(command, workspace)]
            if tuple(words) not in played:
                played.add(tuple(words))
                print(f"{page.name}: autoqec {' '.join(words)}")
                broken.append(play(command, words, workspace))
    assert not any(broken), "\n\n".join(filter(None, broken))
    assert played >= FAILS.keys()
    assert len(played) > 90
