"""Every command in every skill: its options exist, and it does on a real run what the skill says."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from mcp_client import call_all, data_of, error_of
from quick_workspace import QUICK_CONFIG, make_workspace
from skill_commands import PLACEHOLDERS, commands_of, filled, placeholders_of

from autoqec.agent_tools.skills import SKILLS, skill
from autoqec.commands import main
from autoqec.layout import RunDir

ALL = [(name, command) for name in SKILLS for command in commands_of(name)]
VERDICTS = {0, 3, 4}
"""Exit codes of a verification that gave a verdict."""


def test_fences_and_values_are_found() -> None:
    assert len(commands_of("autoqec-run")) == 14
    assert "COMMAND" in commands_of("autoqec-run")
    assert placeholders_of("autoqec step run --run RUN_DIR --in RUN_DIR/a_N.json --round N") == {
        "RUN_DIR",
        "N",
    }
    values = {"RUN_DIR": "/a b", "N": "2", "ENV": "e"}
    assert (
        filled("x ENV RUN_DIR/c_N.json --round N NOT_ENV", values) == "x e '/a b'/c_2.json --round 2 NOT_ENV"
    )
    assert filled("COMMAND", {"COMMAND": "cd a && b"}) == "cd a && b"


@pytest.mark.parametrize("name", SKILLS)
def test_every_fence_is_bash(name: str) -> None:
    fences = re.findall(r"^ *```(\w*)$", skill(name).text, flags=re.MULTILINE)
    assert fences[::2] == ["bash"] * (len(fences) // 2)
    assert set(fences[1::2]) == {""}


@pytest.mark.parametrize(("name", "command"), [pair for pair in ALL if pair[1] != "COMMAND"])
def test_every_command_and_option_exists(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("RUN_DIR", "ROUND_DIR", "TRIAL_DIR"):
        Path(folder).mkdir()
    Path("CONFIG").touch()
    words = shlex.split(command)
    assert words[0] == "autoqec"
    shouted = set(re.findall(r"(?<![\w/-])[A-Z][A-Z_]+", command))
    assert shouted <= set(PLACEHOLDERS)
    found: click.Command = main
    context = click.Context(main)
    rest = words[1:]
    while isinstance(found, click.Group):
        child = found.get_command(context, rest.pop(0))
        assert child is not None, command
        found = child
    options = {option for parameter in found.params for option in parameter.opts}
    assert {word.partition("=")[0] for word in rest if word.startswith("--")} <= options
    # Arguments are read as the command itself reads them, without running it.
    found.make_context(found.name, [word if word != "N" else "1" for word in rest], resilient_parsing=False)


class Shell:
    """Runs commands as an agent's shell would: in the workspace, with `autoqec` on the path, some in the background."""

    def __init__(self, workspace: Path, home: Path) -> None:
        self.workspace = workspace
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        self.environment = {**os.environ, "PATH": path, "AUTOQEC_HOME": str(home)}

    def __call__(self, command: str, values: Mapping[str, str], *, codes: Collection[int] = (0,)) -> Any:
        return self.end(self.start(command, values), codes=codes)

    def start(self, command: str, values: Mapping[str, str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", filled(command, values)],
            cwd=self.workspace,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, process: subprocess.Popen[str], *, codes: Collection[int] = (0,)) -> Any:
        out, err = process.communicate()
        assert process.returncode in codes, (process.args, process.returncode, out[-2000:], err[-2000:])
        return json.loads(out) if out.startswith(("{", "[")) else out


ANSWERS: dict[str, dict[str, Any]] = {
    "ideator": {
        "hypothesis": "Four iterations of untrained belief propagation already beat plain weights",
        "expected_delta_ler": 0.001,
        "expected_cost_s": 10,
        "rationale": "The smallest round there is. Refuted if the interval of delta includes zero.",
        "dsl_hint": None,
        "fork_from": "baseline",
        "compose_mode": None,
    },
    "coder": {
        "dsl_config": QUICK_CONFIG,
        "tier": "1",
        "rationale": "untrained",
        "commit_message": "Four iterations; $(touch owned) `touch owned`",
    },
    "analyst": {
        "summary_1line": "Untrained belief propagation was measured against the plain backend",
        "verdict": "ignore",
        "next_hypothesis_seed": "Train it",
    },
}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(make_workspace(tmp_path_factory.mktemp("skills")), tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def run(shell: Shell) -> dict[str, Any]:
    """One round of autoqec-run, command by command, with the answers that the subagents would write. The training is in the
    background, as in a shell with a time limit."""
    values = {"ENV": "env.yaml", "N": "1"}
    said: dict[str, Any] = {}
    training: subprocess.Popen[str] | None = None
    for command in commands_of("autoqec-run"):
        if "--in" in command:
            file = shell.workspace / shlex.split(filled(command, values))[-1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(ANSWERS[file.name.partition("_")[0]]))
        if command == "COMMAND":
            training = shell.start(command, values)
            continue
        answer = shell(command, values)
        step = " ".join(shlex.split(command)[2:4]) if "context" in command else command.split()[2]
        said.setdefault(step, answer)
        if step == "begin":
            values |= {"RUN_DIR": answer["run_dir"], "RUN_ID": answer["run_id"]}
        elif step == "code":
            values["COMMAND"] = answer["command"]
        elif step == "context ideator":
            values["ATTEMPT"] = answer["attempt"]
    assert training is not None
    said["COMMAND"] = shell.end(training)
    return {"values": values, "said": said}


@pytest.mark.runs
def test_the_loop_of_the_skill_is_a_whole_round(shell: Shell, run: dict[str, Any]) -> None:
    said, folder = run["said"], Path(run["values"]["RUN_DIR"])
    assert said["begin"]["rounds_planned"] == 3
    for role in ("ideator", "coder", "analyst"):
        assert set(said[f"context {role}"]) >= {"instructions", "message", "schema"}
    assert (said["propose"]["round"], said["propose"]["status"]) == (1, "prepared")
    assert said["propose"]["round_attempt_id"] == said["context ideator"]["attempt"]
    assert said["code"]["status"] == "committed"
    assert "python" in said["code"]["command"]
    assert "-m cli.autoqec run-round" in said["code"]["command"]
    assert not list(shell.workspace.rglob("owned"))  # what a model wrote is no shell
    assert said["COMMAND"]["status"] == "ok"
    once = ("delta_ler", "train_wallclock_s")  # the clock would tell a second training
    assert [said["run"][name] for name in once] == [said["COMMAND"][name] for name in once]
    assert said["analyse"]["verdict"] in ("candidate", "ignore")
    assert said["record"]["round"] == 1
    assert (folder / "log.md").is_file()
    there = {path for path in folder.iterdir() if not path.name.startswith(".")}
    assert there <= {*vars(RunDir(folder)).values(), folder / "round_1"}  # as after the plain loop
    assert not Path(said["propose"]["worktree"]).exists()
    assert said["end"]["rounds"] == 1
    for command in said["end"]["next"]:
        assert command.startswith("autoqec ")


@pytest.mark.runs
def test_verify_decoder(shell: Shell, run: dict[str, Any]) -> None:
    folder = Path(run["values"]["RUN_DIR"])
    about = json.loads((folder / "run.json").read_text())
    values = {
        "ENV": "env.yaml",
        "RUN_DIR": str(folder),
        "ROUND_DIR": str(folder / "round_1"),
        "REPOSITORY": about["repository"],
        "BASE": about["base_commit"],
        "TRIAL_DIR": "by_hand",
    }
    shell("autoqec run-round ENV config.yaml TRIAL_DIR --json", values)
    codes = {"verify": VERDICTS, "pareto": {0}, "power": {0}}
    for command in commands_of("verify-decoder"):
        verb = command.split()[1]
        answer = shell(command, values, codes=codes[verb])
        if verb == "verify":
            assert answer["verdict"] in ("VERIFIED", "SUSPICIOUS", "FAILED")
            assert {"guards", "notes", "delta_vs_baseline_holdout"} <= set(answer)


@pytest.mark.runs
def test_review_log(shell: Shell, run: dict[str, Any]) -> None:
    review, graph, front = commands_of("review-log")
    assert shell(review, run["values"])
    assert [node["round"] for node in shell(graph, run["values"])["nodes"]] == [1]
    assert shell(front, run["values"])["runs"]


@pytest.mark.runs
def test_add_env(shell: Shell) -> None:
    (shell.workspace / "envs").mkdir()
    listed, wrote, checked, baseline = (
        shell(command, {"ENV": "envs/mine.yaml"}) for command in commands_of("add-env")
    )
    assert "surface_d3_depol" in {row["name"] for row in listed}
    assert wrote.startswith("Wrote envs/mine.yaml")
    assert checked["ok"] is True
    assert baseline


@pytest.mark.runs
def test_diagnose_failure(shell: Shell, run: dict[str, Any]) -> None:
    """Of a round whose batch fits no memory; the suggested config then trains."""
    greedy = {**QUICK_CONFIG, "training": {"epochs": 1, "batch_size": 10**9}}
    (shell.workspace / "greedy.yaml").write_text(yaml.safe_dump(greedy))
    values = {
        **run["values"],
        "ROUND_DIR": "broken",
        "CONFIG": "fixed.yaml",
        "TRIAL_DIR": "trial",
    }
    failed = shell("autoqec run-round ENV greedy.yaml ROUND_DIR --json", values, codes={1})
    assert failed["status"] != "ok"
    said = [shell(command, values) for command in commands_of("diagnose-failure")]
    one, whole = said[0], said[1]
    assert (one["kind"], one["healthy"], one["cause"]) == ("round", False, "out_of_memory")
    assert one["findings"][0]["evidence"]
    assert whole["kind"] == "run"
    assert said[-2]["written"] == "fixed.yaml"
    assert said[-1]["status"] == "ok"


@pytest.mark.runs
def test_the_tools_of_the_server_on_the_same_run(shell: Shell, run: dict[str, Any]) -> None:
    folder = Path(run["values"]["RUN_DIR"])
    here = folder.relative_to(shell.workspace).as_posix()
    graph, machine, diagnosed, reviewed, front = call_all(
        shell.workspace,
        ("fork_graph", {"run_dir": here}),
        ("machine_state", {"run_dir": here}),
        ("diagnose", {"folder": f"{here}/round_1"}),
        ("review", {"run_dir": here}),
        ("pareto", {"run_dirs": [here]}),
    )
    assert [node["round"] for node in data_of(graph)["nodes"]] == [1]
    assert (data_of(machine)["rounds"]["ok"], data_of(machine)["budget"]["rounds_left"]) == (1, 2)
    assert data_of(diagnosed)["round"] == 1
    assert data_of(reviewed)
    assert not front.is_error
    about = json.loads((folder / "run.json").read_text())
    (shell.workspace / "strange").mkdir()
    (shell.workspace / "strange" / "run.json").write_text(json.dumps({**about, "repository": "/"}))
    (refused,) = call_all(shell.workspace, ("fork_graph", {"run_dir": "strange"}))
    assert "repository" in error_of(refused)
