"""`autoqec run` with language models that a test wrote: real processes, real sockets, real git, real training.

A script is one dict per round with what each role answers in it: {"idea": ..., "code": ..., "words": ...}. A value is an
answer, an entry of the fakes (it has `do`), or a list of those, for a role that is asked several times.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from desk import fake_path
from vendor import Vendor, serving

from autoqec.layout import RunDir, experiments_folder, runs_folder

ROLES = {"ideator": "idea", "coder": "code", "analyst": "words"}
MODELS = {"claude-cli": "claude-sonnet-5-5", "codex-cli": "gpt-6.1-terra", "anthropic": "claude-sonnet-5-5", "openai": "gpt-6.1-terra"}  # fmt: skip
SECRETS = {
    "ANTHROPIC_API_KEY": "sk-ant-0123456789abcdef-anthropic",
    "OPENAI_API_KEY": "sk-0123456789abcdef-openai",
    "GITHUB_TOKEN": "ghp_0123456789abcdef0123",
    "DATABASE_PASSWORD": "hunter2-and-some-more-0987",
}
IDEA = {
    "expected_delta_ler": 0.004,
    "expected_cost_s": 20,
    "rationale": "cheap to find out",
    "dsl_hint": None,
}
WORDS = {
    "summary_1line": "The interval decides; nothing else was changed",
    "verdict": "ignore",
    "next_hypothesis_seed": "Another mechanism from the same branch",
}
MESSAGE = "def message(x_src, x_dst, e_ij, params):\n    return torch.tanh(params.W(x_src) + e_ij)\n"
CUSTOM = {"type": "custom", "code": MESSAGE, "params_declared": {"W": "Linear(hidden, hidden)"}}

Entry = dict[str, Any]


def idea(hypothesis: str, fork_from: str | list[str] = "baseline", **changes: Any) -> Entry:
    mode = "pure" if isinstance(fork_from, list) else None
    return {"hypothesis": hypothesis, **IDEA, "fork_from": fork_from, "compose_mode": mode, **changes}


def code(iterations: int = 8, **changes: Any) -> Entry:
    """An untrained BP: a round in a few seconds. changes: of the config; a block that is None is left out."""
    config: dict[str, Any] = {"type": "neural_bp", "output_mode": "soft_priors"}
    config |= {"neural_bp": {"iterations": iterations}, "training": {"epochs": 0}, **changes}
    config = {name: block for name, block in config.items() if block is not None}
    tier = "2" if "custom" in json.dumps(config) else "1"
    return {"dsl_config": json.dumps(config), "tier": tier, "rationale": "so", "commit_message": f"Run {iterations}"}  # fmt: skip


def plan_of(script: list[Entry]) -> dict[str, list[Entry]]:
    """What each role says, call by call. A round that names no words has `WORDS`."""
    plan: dict[str, list[Entry]] = {role: [] for role in ROLES}
    for line in script:
        for role, key in ROLES.items():
            said = line.get(key, WORDS if key == "words" and line.get("trains", True) else [])
            for each in said if isinstance(said, list) else [said]:
                plan[role].append(each if "do" in each else {"do": "answer", "answer": each})
    return {role: entries or [{"do": "answer", "answer": WORDS}] for role, entries in plan.items()}


@dataclass(frozen=True)
class Finished:
    """A run that ended, and all that it left."""

    code: int
    stdout: str
    stderr: str
    workspace: Path
    calls: list[Entry]
    """role, prompt and, of a program, env."""

    @property
    def found(self) -> dict[str, Any]:
        return json.loads(self.stdout)

    @property
    def files(self) -> RunDir:
        (folder,) = runs_folder(self.workspace).iterdir()
        return RunDir(folder)

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files.history.read_text().splitlines()]

    @property
    def ledger(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.files.llm_ledger.read_text().splitlines()]

    @property
    def log(self) -> str:
        return self.files.log.read_text()

    @property
    def repository(self) -> Path:
        (folder,) = experiments_folder(self.workspace).iterdir()
        return folder

    def git(self, *arguments: str) -> bytes:
        return subprocess.run(
            ["git", "-C", str(self.repository), *arguments], capture_output=True, check=True
        ).stdout

    def branches(self) -> list[str]:
        return self.git("for-each-ref", "--format=%(refname:short)", "refs/heads/exp").decode().split()

    def prompts(self, role: str) -> list[str]:
        return [call["prompt"] for call in self.calls if call["role"] == role]

    def everything(self) -> Iterator[tuple[str, bytes]]:
        """Each file of the workspace, and every object of the repository unpacked."""
        for path in sorted(self.workspace.rglob("*")):
            if path.is_file() and not path.is_symlink():
                yield str(path.relative_to(self.workspace)), path.read_bytes()
        yield "objects of the repository", self.git("cat-file", "--batch-all-objects", "--batch")


class World:
    """A workspace with a small environment, a home for the fakes, and what a user's shell has set."""

    def __init__(
        self, folder: Path, home: Path, *, distance: int = 3, name: str = "d3", val_shots: int = 500
    ) -> None:
        """home: the verifier's own, which several worlds may share. val_shots: with few, no gain is significant and nothing is
        verified."""
        self.workspace, self.user = folder / "workspace", folder / "user"
        for made in (self.workspace, self.user):
            made.mkdir(parents=True)
        env = {
            "name": name,
            "code": {
                "type": "stim_circuit",
                "source": f"surface_code:rotated_memory_z?distance={distance}&rounds={distance}",
            },
            "noise": {"type": "depolarizing", "p": [0.01]},
            "constraints": {"target_p": 0.01},
            "baseline_decoders": ["pymatching"],
            "classical_backend": "mwpm",
            "eval_protocol": {
                "min_shots_train": 20_000,
                "min_shots_val": val_shots,
                "min_shots_verify": 20_000,
            },
        }
        self.env = self.workspace / "env.yaml"
        self.env.write_text(yaml.safe_dump(env))
        kept = ("LANG", "AUTOQEC_CACHE", "AUTOQEC_KERNELS", "TMPDIR")
        self.environ = {name: os.environ[name] for name in kept if name in os.environ}
        self.environ |= {"PATH": fake_path(), "HOME": str(self.user)}
        self.environ |= {
            "AUTOQEC_HOME": str(home),
            "OMP_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            "PYTHON_CPU_COUNT": "1",
            **SECRETS,
        }

    def run(self, *options: str) -> Finished:
        command = [sys.executable, "-m", "autoqec", "run", str(self.env), "--own-repository", *options]
        done = subprocess.run(
            command, cwd=self.workspace, env=self.environ, capture_output=True, text=True, check=False
        )  # fmt: skip
        return Finished(done.returncode, done.stdout, done.stderr, self.workspace, self._calls())

    def play(self, backend: str, script: list[Entry], *options: str, rounds: int | None = None) -> Finished:
        """A run of the script through a backend, in JSON."""
        self.environ["AUTOQEC_IDEATOR_BACKEND"] = backend
        self.environ["AUTOQEC_IDEATOR_MODEL"] = MODELS[backend]
        asked = ["--proposer", "llm", "--rounds", str(rounds or len(script)), "--json", *options]
        if "--resume" not in asked and "--run-id" not in asked:
            asked += ["--run-id", "20261115-120000"]
        plan = plan_of(script)
        (self.user / "fake_llm.json").write_text(json.dumps(plan))
        if backend.endswith("-cli"):
            return self.run(*asked)
        with self._served(plan) as server:
            done = self.run(*asked)
        calls = [_sent(request) for request in server.requests]
        return Finished(done.code, done.stdout, done.stderr, done.workspace, calls)

    @contextmanager
    def _served(self, plan: dict[str, list[Entry]]) -> Iterator[Vendor]:
        with serving(plan) as server:
            self.environ |= {"ANTHROPIC_BASE_URL": server.url, "OPENAI_BASE_URL": f"{server.url}/v1"}
            yield server

    def _calls(self) -> list[Entry]:
        logs = [path for path in (self.user / "claude.log", self.user / "codex.log") if path.exists()]
        return [json.loads(line) for path in logs for line in path.read_text().splitlines()]


def _sent(request: dict[str, Any]) -> Entry:
    from protocols import role_of

    body = request["body"]
    return {"role": role_of(body), "prompt": body["messages"][-1]["content"], "headers": request["headers"]}


_FENCE = re.compile(r'<data-([0-9a-f]{16}) of="[^"\n]*">\n(.*?)\n</data-\1>', re.DOTALL)


def outside_fences(prompt: str) -> str:
    """The program's own words of a prompt. Fails if a fence could be taken for open or closed anywhere else."""
    rest = _FENCE.sub("", prompt)
    inside = "\n".join(found[2] for found in _FENCE.finditer(prompt))
    assert not re.search(r"<\s*/?\s*data-", inside), "a fence holds a tag"
    tags = re.findall(r"<\s*/?\s*data-[^\s>]*", rest)
    assert all(tag == "<data-0123456789abcdef" for tag in tags), (
        f"tags outside of fences: {tags}"
    )  # the role's own text
    return rest
