"""The tools of the MCP server: what each is called, takes, and stands for on the command line.

Every tool is one `autoqec ... --json`. Its arguments are checked here and handed over as absolute paths, numbers and
known words, so that none of them can be taken for an option.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from autoqec.agent_tools.workspace import Workspace
from autoqec.io.child_env import HOMES

GRACE_S = 60.0
"""What a round gets after its wall clock, to end by itself and write its metrics."""

_VERIFIERS_OWN = (*HOMES, "AUTOQEC_KERNELS")
"""Where the verifier keeps its secret, its ledger and its kernels. The verifier is told, and who reads its reports; a round's process is not."""


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    def command(self, workspace: Workspace) -> list[str]:
        """What follows `autoqec`."""
        raise NotImplementedError

    def deadline_s(self) -> float:
        return 300.0


def _text(about: str) -> Any:
    return Field(min_length=1, max_length=1000, description=about)


_ENV = "Name of a builtin environment, or path of an environment YAML in the workspace."
_RUN = "Folder of a run in the workspace, e.g. runs/20261115-083000."


class NoArguments(Arguments):
    def command(self, workspace: Workspace) -> list[str]:
        return ["env", "list", "--json"]


class EnvArguments(Arguments):
    env: str = _text(_ENV)
    action: Literal["show", "validate"] = Field(
        default="show", description="validate builds the problem at every p; show also describes it."
    )

    def command(self, workspace: Workspace) -> list[str]:
        return ["env", self.action, "--json", "--", workspace.env(self.env)]


class MachineArguments(Arguments):
    run_dir: str | None = Field(
        default=None, min_length=1, max_length=1000, description=f"{_RUN} Adds its timings and its money."
    )

    def command(self, workspace: Workspace) -> list[str]:
        run = [] if self.run_dir is None else ["--run", str(workspace.run(self.run_dir))]
        return ["machine-state", "--json", *run]


class CostArguments(Arguments):
    config: str = _text("Path of a predecoder config (DSL YAML) in the workspace.")
    env: str = _text(_ENV)

    def command(self, workspace: Workspace) -> list[str]:
        config = workspace.path(self.config, where="config")
        return ["cost", "--json", f"--env={workspace.env(self.env)}", "--", str(config)]


class RoundArguments(Arguments):
    env: str = _text(_ENV)
    config: str = _text("Path of a predecoder config (DSL YAML) in the workspace.")
    round_dir: str = _text("New folder in the workspace for the round's files, e.g. runs/my-round.")
    profile: Literal["dev", "prod"] | None = Field(
        default=None, description="How long to train. Default: the config's training.profile."
    )
    seed: int = Field(default=0, ge=0, lt=1 << 53)
    wall_clock_s: float = Field(
        default=1800.0, ge=1.0, le=86_400.0, description="Seconds until the round is killed."
    )

    def command(self, workspace: Workspace) -> list[str]:
        places = [
            workspace.env(self.env),
            str(workspace.path(self.config, where="config")),
            str(workspace.round_folder(self.round_dir)),
        ]
        profile = [] if self.profile is None else [f"--profile={self.profile}"]
        numbers = [f"--seed={self.seed}", f"--wall-clock={self.wall_clock_s!r}"]
        return ["run-round", "--json", *profile, *numbers, "--", *places]

    def deadline_s(self) -> float:
        return self.wall_clock_s + GRACE_S


class VerifyArguments(Arguments):
    round_dir: str = _text("Folder of a trained round in the workspace, e.g. runs/20261115-083000/round_1.")
    env: str = _text(f"{_ENV} It must be the round's own.")
    shots: int | None = Field(
        default=None, ge=1, le=10**12, description="Minimum shots per p. Default: the environment's."
    )
    kind: Literal["confirm", "dev", "estimate"] = Field(
        default="confirm", description="Only confirm supports a claim."
    )
    timeout_s: float = Field(
        default=3600.0, ge=1.0, le=86_400.0, description="Seconds until it is ended without a verdict."
    )

    def command(self, workspace: Workspace) -> list[str]:
        shots = [] if self.shots is None else [f"--shots={self.shots}"]
        options = [f"--kind={self.kind}", f"--deadline={self.timeout_s!r}", *shots]
        folder = workspace.path(self.round_dir, where="round_dir")
        info = workspace.run_info(folder.parent, where="round_dir")
        branch = [] if info is None else [f"--repo={info.repository}", f"--base={info.base_commit}"]
        return ["verify", "--json", f"--env={workspace.env(self.env)}", *options, *branch, "--", str(folder)]

    def deadline_s(self) -> float:
        return self.timeout_s


class RunArguments(Arguments):
    run_dir: str = _text(_RUN)

    def folder(self, workspace: Workspace) -> str:
        return str(workspace.run(self.run_dir))


class ForkGraphArguments(RunArguments):
    def command(self, workspace: Workspace) -> list[str]:
        return ["fork-graph", "--json", "--", self.folder(workspace)]


class ReviewArguments(RunArguments):
    def command(self, workspace: Workspace) -> list[str]:
        return ["review", "--json", "--", self.folder(workspace)]


class ParetoArguments(Arguments):
    run_dirs: list[str] = Field(min_length=1, max_length=50, description="Folders of runs in the workspace.")
    compare: bool = Field(default=False, description="Set runs of one environment against their joint front.")

    def command(self, workspace: Workspace) -> list[str]:
        folders = [str(workspace.run(given, where="run_dirs")) for given in self.run_dirs]
        return ["pareto", "--json", *(["--compare"] if self.compare else []), "--", *folders]


class DiagnoseArguments(Arguments):
    folder: str = _text("Folder of a round or of a run in the workspace.")
    env: str | None = Field(
        default=None, min_length=1, max_length=1000, description="For a round that does not name its own."
    )

    def command(self, workspace: Workspace) -> list[str]:
        env = [] if self.env is None else [f"--env={workspace.env(self.env)}"]
        return ["diagnose", "--json", *env, "--", str(workspace.run(self.folder, where="folder"))]


@dataclass(frozen=True)
class Tool:
    """about: when to use it, for the model. heavy: one at a time. writes: it changes files.

    variables: names of environment variables that its process gets besides those of any child.
    """

    about: str
    arguments: type[Arguments]
    heavy: bool = False
    writes: bool = False
    variables: tuple[str, ...] = ()

    def environment(self) -> dict[str, str]:
        return {name: os.environ[name] for name in self.variables if name in os.environ}


TOOLS: dict[str, Tool] = {
    "list_envs": Tool("List the builtin environments: code, noise, error rates, backend.", NoArguments),
    "env": Tool(
        "Show or validate an environment: its code, and the decoding problem at each error rate.",
        EnvArguments,
    ),
    "machine_state": Tool(
        "What the next round can count on here: cores, memory, GPUs, disk, timings of earlier rounds, money.",
        MachineArguments,
    ),
    "cost": Tool(
        "FLOPs, parameters, bytes and latency of a predecoder config on an environment, without training it.",
        CostArguments,
    ),
    "run_round": Tool(
        "Train and validate one predecoder from a config. Its figures are validation, not verification: "
        "no claim rests on them. A status other than ok says why in status_reason.",
        RoundArguments,
        heavy=True,
        writes=True,
    ),
    "verify": Tool(
        "Measure a trained round again on fresh shots, in the sandbox. Only the verdict VERIFIED supports a claim.",
        VerifyArguments,
        heavy=True,
        writes=True,
        variables=_VERIFIERS_OWN,
    ),
    "fork_graph": Tool(
        "Which round of a run came from which branch, with its status and gain.",
        ForkGraphArguments,
        variables=_VERIFIERS_OWN,
    ),
    "pareto": Tool(
        "The verified rounds of runs that no other dominates in gain, FLOPs and parameters, and what is within their noise. "
        "Rows under not_backed are claims without a report of this machine's verifier.",
        ParetoArguments,
        variables=_VERIFIERS_OWN,
    ),
    "diagnose": Tool("Why a round failed, stalled or gained nothing, and what to do.", DiagnoseArguments),
    "review": Tool(
        "Retrospective of a whole run: what was tried, what was verified, what it cost.",
        ReviewArguments,
        variables=_VERIFIERS_OWN,
    ),
}
