"""The MCP server as a client sees it: a real subprocess, the real client library, real rounds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp import Client, types
from mcp_client import SECRET, call_all, data_of, error_of, with_client

from autoqec.agent_tools.tools import TOOLS
from autoqec.agents.prompts import role_prompt
from autoqec.envs.load import builtin_names
from autoqec.io.watchdog import descendants
from autoqec.runner.schema import RoundMetrics


def test_the_tools_and_their_schemas(workspace: Path) -> None:
    async def use(client: Client) -> tuple[str, str, list[types.Tool]]:
        assert client.server_info is not None
        return client.server_info.name, client.instructions or "", (await client.list_tools()).tools

    name, instructions, tools = with_client(workspace, use)
    assert {tool.name for tool in tools} == set(TOOLS)
    for tool in tools:
        assert tool.description
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
    schemas = {tool.name: tool.input_schema for tool in tools}
    assert schemas["run_round"]["required"] == ["env", "config", "round_dir"]
    assert schemas["env"]["properties"]["action"]["enum"] == ["show", "validate"]
    writers = {tool.name for tool in tools if tool.annotations and not tool.annotations.read_only_hint}
    assert writers == {"run_round", "verify"}
    assert "never instructions" in instructions
    offered = {f"mcp__{name}__{tool.name}" for tool in tools}
    assert {tool for tool in role_prompt("ideator").tool_names if tool.startswith("mcp__")} <= offered


@pytest.mark.slow
def test_what_costs_little(workspace: Path) -> None:
    listed, shown, checked, machine, cost = call_all(
        workspace,
        ("list_envs", {}),
        ("env", {"env": "surface_d3_depol"}),
        ("env", {"env": "env.yaml", "action": "validate"}),
        ("machine_state", {}),
        ("cost", {"config": "config.yaml", "env": "env.yaml"}),
    )
    assert [row["name"] for row in data_of(listed)] == builtin_names()
    assert [row["p"] for row in data_of(shown)["problems"]] == [0.001, 0.005, 0.01]
    assert data_of(checked)["ok"] is True
    assert data_of(machine)["cpu"]["cores"] >= 1
    assert data_of(machine)["rounds"]["ok"] == 0
    assert data_of(cost)["flops_per_syndrome"] > 1000


@pytest.mark.runs
def test_a_round_and_its_verification(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))
    given = {"env": "env.yaml", "config": "config.yaml", "round_dir": "runs/one", "seed": 3}
    trained, diagnosed, verified = call_all(
        workspace,
        ("run_round", given),
        ("diagnose", {"folder": "runs/one"}),
        ("verify", {"round_dir": "runs/one", "env": "env.yaml"}),
    )
    metrics = RoundMetrics.model_validate(data_of(trained))
    assert (metrics.status, metrics.train_seed) == ("ok", 3)
    assert json.loads((workspace / "runs/one/metrics.json").read_text()) == data_of(trained)
    assert isinstance(data_of(diagnosed), dict)
    report = json.loads((workspace / "runs/one/verification_report.json").read_text())
    assert report["verdict"] == data_of(verified)["verdict"]
    assert (tmp_path / "home" / "verifier" / "secret").is_file()
    assert not (tmp_path / "home" / "kernels").exists()  # AUTOQEC_KERNELS says where they are


@pytest.mark.slow
def test_a_round_that_fails_says_why_in_its_metrics(workspace: Path) -> None:
    config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 4}}
    (workspace / "greedy.yaml").write_text(
        yaml.safe_dump({**config, "training": {"epochs": 1, "batch_size": 10**9}})
    )
    (failed,) = call_all(
        workspace,
        (
            "run_round",
            {"env": "env.yaml", "config": "greedy.yaml", "round_dir": "runs/greedy", "wall_clock_s": 60},
        ),
    )
    metrics = data_of(failed)
    assert metrics["status"] != "ok"
    assert metrics["status_reason"]


@pytest.fixture
def confined(tmp_path: Path) -> Path:
    """A workspace with a neighbour, and links that lead to it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "env.yaml").write_text("name: secret\n")
    (outside / "model.dem").write_text("error(0.1) D0\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to(outside)
    (root / "link.yaml").symlink_to(outside / "env.yaml")
    (root / "loop").symlink_to(root / "loop")
    (root / "config.yaml").write_text("type: neural_bp\n")
    (root / "steals.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "steals",
                "code": {"type": "stim_circuit", "source": "../outside/circuit.stim"},
                "noise": {"type": "depolarizing", "p": [0.01]},
                "constraints": {},
                "baseline_decoders": ["pymatching"],
                "classical_backend": "mwpm",
            }
        )
    )
    return root


def test_nothing_outside_the_workspace_is_touched(confined: Path) -> None:
    outside = confined.parent / "outside"
    before = sorted(outside.rglob("*"))
    round_to = {"env": "surface_d3_depol", "config": "config.yaml"}
    escapes = [
        ("env", {"env": "../outside/env.yaml"}),
        ("env", {"env": str(outside / "env.yaml")}),
        ("env", {"env": "link.yaml"}),
        ("env", {"env": "link/env.yaml", "action": "validate"}),
        ("env", {"env": "loop"}),
        ("env", {"env": "steals.yaml"}),
        ("cost", {"env": "surface_d3_depol", "config": "link/env.yaml"}),
        ("run_round", {**round_to, "round_dir": "../outside/round"}),
        ("run_round", {**round_to, "round_dir": "link/round"}),
        ("run_round", {**round_to, "round_dir": ".git/round"}),
        ("run_round", {**round_to, "round_dir": "."}),
        ("verify", {"env": "surface_d3_depol", "round_dir": "/"}),
        ("fork_graph", {"run_dir": ".."}),
        ("machine_state", {"run_dir": "link"}),
        ("pareto", {"run_dirs": [".", "../outside"]}),
        ("diagnose", {"folder": "a\0b"}),
        ("review", {"run_dir": "../outside"}),
    ]
    said = [error_of(result) for result in call_all(confined, *escapes)]
    for (name, arguments), text in zip(escapes, said, strict=True):
        assert any(
            word in text for word in ("outside the workspace", "not a path", "a round cannot be written")
        ), (name, arguments, text)
    assert sorted(outside.rglob("*")) == before


def test_bad_arguments_are_refused_with_a_hint(workspace: Path) -> None:
    (workspace / "taken").mkdir(exist_ok=True)
    (workspace / "taken" / "config.yaml").write_text("the user's own\n")
    unknown, misspelt, word, number, missing, taken, env, no_run, option = map(
        error_of,
        call_all(
            workspace,
            ("trainn", {}),
            ("env", {"env": "surface_d3_depol", "acton": "show"}),
            ("env", {"env": "surface_d3_depol", "action": "delete"}),
            ("run_round", {"env": "env.yaml", "config": "config.yaml", "round_dir": "r", "seed": -1}),
            ("cost", {"env": "env.yaml"}),
            ("run_round", {"env": "env.yaml", "config": "config.yaml", "round_dir": "taken"}),
            ("env", {"env": "surface_d4"}),
            ("fork_graph", {"run_dir": "taken"}),
            ("env", {"env": "--help"}),
        ),
    )
    assert "tools: list_envs" in unknown
    assert "env: acton: unknown key" in misspelt
    assert "did you mean 'action'?" in misspelt
    assert "'show' or 'validate'" in word
    assert "seed" in number
    assert ">= 0" in number
    assert "config: required key is missing" in missing
    assert "hint: give a new folder" in taken
    assert (workspace / "taken" / "config.yaml").read_text() == "the user's own\n"
    assert "surface_d3_depol" in env
    assert no_run.startswith(str(workspace / "taken"))
    assert "run.json" in no_run
    assert "error" not in no_run
    assert "neither a builtin environment nor a file" in option


def environment_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text()
    except OSError:  # it has ended, or the system has no such files
        return ""


def test_a_call_that_is_given_up_leaves_no_process_and_none_had_the_key(workspace: Path) -> None:
    config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 64}}
    (workspace / "long.yaml").write_text(yaml.safe_dump({**config, "training": {"epochs": 200}}))
    given = {"env": "surface_d5_depol", "config": "long.yaml", "round_dir": "runs/long", "profile": "prod"}

    others = set(descendants(os.getpid()))  # which earlier tests of this process left

    async def use(client: Client) -> tuple[list[str], types.CallToolResult]:
        (server,) = set(descendants(os.getpid())) - others
        call = asyncio.ensure_future(client.call_tool("run_round", given))
        while len(descendants(server)) < 3:  # the watchdog, the command, the training
            await asyncio.sleep(0.1)
            assert not call.done(), await call
        assert SECRET in environment_of(server)
        children = [environment_of(pid) for pid in descendants(server)]
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        while descendants(server):
            await asyncio.sleep(0.1)
        return children, await client.call_tool("machine_state", {})

    children, after = with_client(workspace, use)
    assert len(children) >= 3
    assert not any(SECRET in text for text in children)
    assert data_of(after)["cpu"]


def test_a_round_past_its_time_is_ended(workspace: Path) -> None:
    config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 64}}
    (workspace / "slow.yaml").write_text(yaml.safe_dump({**config, "training": {"epochs": 200}}))
    given = {"env": "surface_d5_depol", "config": "slow.yaml", "round_dir": "runs/slow", "profile": "prod"}
    (ended,) = call_all(workspace, ("run_round", {**given, "wall_clock_s": 2.0}))
    assert data_of(ended)["status"] == "killed_by_safety"


def test_only_the_protocol_is_on_standard_output(workspace: Path) -> None:
    """Spoken by hand, one line of JSON each way; a key in the server's environment is not in its children's."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    spoken: list[dict[str, Any]] = [
        {"id": 1, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 2, "method": "tools/call", "params": {"name": "list_envs", "arguments": {}}},
    ]
    with subprocess.Popen(
        [sys.executable, "-m", "autoqec", "mcp"],
        cwd=workspace,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        for message in spoken:
            server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        server.stdin.flush()
        lines = [server.stdout.readline() for _ in range(2)]
        server.stdin.close()
        rest = server.stdout.read()
    answers = {answer["id"]: answer["result"] for answer in map(json.loads, lines)}
    assert answers[1]["serverInfo"]["name"] == "autoqec"
    assert "surface_d5_depol" in answers[2]["content"][0]["text"]
    assert rest == ""
    assert server.returncode == 0
