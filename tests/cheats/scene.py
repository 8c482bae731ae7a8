"""Where a cheat plays: environments, rounds, a repository with experiment branches, and the verifier."""

from __future__ import annotations

import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import yaml

import autoqec
from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.envs.schema import EnvSpec
from autoqec.errors import AutoQECError
from autoqec.eval.schema import VerifyReport
from autoqec.eval.subject import read_subject
from autoqec.eval.verify import VerifyOptions, verify
from autoqec.layout import VerifierDir
from autoqec.sandbox.kinds import strongest

MODULE = "autoqec/decoders/modules/predecoders.py"
SHOTS = 10_000
P = 0.01

SOFT_BP = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 5}}
HARD_BP = {"type": "neural_bp", "output_mode": "hard_flip", "neural_bp": {"iterations": 2}}
NETWORK = {"type": "gnn", "output_mode": "soft_priors", "gnn": {"layers": 1, "hidden_dim": 4}}
"""Untrained, a network leaves the prior as it is: it decodes exactly as plain matching does."""

Change = Callable[[dict[str, torch.Tensor]], None]


def surface(distance: int, **changes: Any) -> dict[str, Any]:
    """The spec of a small surface-code memory. At distance 4, 10,000 shots show that belief propagation wins."""
    source = f"surface_code:rotated_memory_z?distance={distance}&rounds={distance}"
    noise = {"type": "depolarizing", "p": [P], "reference_p": P}
    return {
        "name": f"surface_d{distance}",
        "code": {"type": "stim_circuit", "source": source},
        "noise": noise,
        "constraints": {},
        "baseline_decoders": ["pymatching"],
        "classical_backend": "mwpm",
        "eval_protocol": {"min_shots_verify": SHOTS, "min_shots_val": SHOTS},
        **changes,
    }


@dataclass(frozen=True)
class Outcome:
    """result: a verdict, "refused" (an error that says why, exit code 2 for bad input), "no effect", or "SUCCEEDED" for an act that went through.

    by: what stopped it: guards that are not ok, "no gain", "loss", "no claim", or the text of the refusal.
    gain: "LER of the baseline -> LER of the candidate" with the defence off, None where that cannot be shown.
    """

    result: str
    by: tuple[str, ...]
    gain: str | None = None


def refused(error: AutoQECError, gain: str | None = None) -> Outcome:
    return Outcome("refused", (str(error),), gain)


def judged(report: VerifyReport, gain: str | None = None) -> Outcome:
    by = [guard.name for guard in report.guards if guard.ok is False and guard.severity != "informs"]
    by += {"undecided": ["no gain"], "loss": ["no gain", "loss"], "gain": []}[report.decision]
    by += ["no alpha left"] if report.alpha == 0 else []
    by += ["no claim"] if "support" in report.notes and "claim" in report.notes else []
    if gain is None and report.decision == "gain":
        gain = f"{report.ler_baseline_holdout:.4f} -> {report.ler_holdout:.4f}"
    return Outcome(report.verdict, tuple(by), gain)


def act(happened: bool, by: str, gain: str | None = None) -> Outcome:
    return Outcome("SUCCEEDED" if happened else "no effect", (by,), gain)


@dataclass
class Shared:
    """What the cases of one process share."""

    root: Path

    @cached_property
    def repo(self) -> Path:
        """A repository whose main branch holds the installed package."""
        repo = self.root / "repository"
        package = Path(autoqec.__file__).parent
        shutil.copytree(package, repo / "autoqec", ignore=shutil.ignore_patterns("__pycache__"))
        git(repo, "init", "--quiet", "--initial-branch=main")
        git(repo, "add", "--all", "--force")
        git(repo, "commit", "--quiet", "-m", "base")
        return repo

    @cached_property
    def spent(self) -> tuple[Path, VerifyReport]:
        """A scene's folder whose only round was verified, by a plan of one confirmation, and the report."""
        scene = Scene(self.root / "spent", self, surface(4))
        return scene.folder, scene.report(scene.round(), confirmations=1)


def git(repo: Path, *arguments: str) -> str:
    settings = ["-c", "user.name=T", "-c", "user.email=t@localhost", "-c", "commit.gpgSign=false"]
    command = ["git", *settings, "-C", str(repo), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@dataclass
class Scene:
    """One case: a folder of its own, with a verifier's home in it."""

    folder: Path
    shared: Shared
    spec: dict[str, Any] = field(default_factory=lambda: surface(3))

    @cached_property
    def env(self) -> Environment:
        return Environment(EnvSpec.model_validate(self.spec))

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def marker(self) -> Path:
        """What a payload would make."""
        return self.folder / "happened"

    def round(
        self,
        dsl: Mapping[str, Any] = SOFT_BP,
        change: Change | None = None,
        *,
        name: str = "round_1",
        train_labels: tuple[int, int] = (0, -1),
        metrics: Mapping[str, Any] | None = None,
        env: Environment | None = None,
    ) -> Path:
        """A round with fresh weights, changed in place by `change`; the other arguments are what it claims."""
        of = env or self.env
        folder = self.folder / name
        folder.mkdir(parents=True)
        config = PredecoderDSL.model_validate(dsl)
        module = compile_predecoder(config, of.problem(of.spec.noise.p[0]))
        if change is not None:
            with torch.no_grad():
                change(dict(module.named_parameters()))
        info = checkpoint.CheckpointInfo(
            dsl=config,
            output_mode=config.output_mode,
            env_name=of.spec.name,
            env_hash=of.content_hash,
            seed=0,
            train_labels=train_labels,
            versions={},
        )
        checkpoint.save(folder, module, info)
        (folder / "config.yaml").write_text(yaml.safe_dump(dict(dsl)))
        if metrics is not None:
            (folder / "metrics.json").write_text(json.dumps({"status": "ok", **metrics}))
        return folder

    def branch(self, edits: Mapping[str, str | bytes], *, name: str | None = None) -> tuple[str, str]:
        """A new experiment branch with text appended to files, and bytes put in their place: its name and commit."""
        repo = self.shared.repo
        name = name or f"exp/20260101-000000/01-{self.folder.name}"
        git(repo, "checkout", "--quiet", "-b", name, "main")
        for path, content in edits.items():
            (repo / path).parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                (repo / path).write_bytes(content)
            else:
                with (repo / path).open("a") as file:
                    file.write(f"\n\n{content}\n")
        git(repo, "add", "--all", "--force")
        git(repo, "commit", "--quiet", "-m", name)
        commit = git(repo, "rev-parse", "HEAD")
        git(repo, "checkout", "--quiet", "main")
        return name, commit

    def commit_to(self, round_dir: Path, name: str, commit: str, **state: torch.Tensor) -> Path:
        """Says in the round's files that it is of a commit, and adds tensors to its checkpoint."""
        content = torch.load(round_dir / "checkpoint.pt", weights_only=True)
        content["state"] |= state
        (round_dir / "checkpoint.pt").write_bytes(saved(content))
        claims = {"status": "ok", "branch": name, "commit_sha": commit}
        (round_dir / "metrics.json").write_text(json.dumps(claims))
        return round_dir

    def committed(
        self,
        dsl: Mapping[str, Any],
        code: str,
        files: Mapping[str, bytes] | None = None,
        **state: torch.Tensor,
    ) -> Path:
        """A round of `dsl` whose branch appends `code` to the module file."""
        name, commit = self.branch({MODULE: code, **(files or {})})
        return self.commit_to(self.round(dsl), name, commit, **state)

    def report(self, round_dir: Path, **changes: Any) -> VerifyReport:
        given: dict[str, Any] = {
            "shots": SHOTS,
            "cap": SHOTS,
            "home": self.home,
            "workers": 1,
            "baseline_seconds": 3.0,
            "deadline_s": 1800.0,
            "repo": self.shared.repo,
            "base": "main",
        }
        env = changes.pop("env", self.env)
        return verify(round_dir, env, VerifyOptions(**{**given, **changes}))

    def verify(self, round_dir: Path, *, gain: str | None = None, **changes: Any) -> Outcome:
        try:
            return judged(self.report(round_dir, **changes), gain)
        except AutoQECError as error:
            return refused(error, gain)

    def built(self, round_dir: Path) -> str | None:
        """Has the verifier read the round and build its model in the sandbox, and no more; the commit whose code ran."""
        home = VerifierDir(self.home)
        return read_subject(round_dir, self.env, strongest(), home, self.shared.repo).code.commit

    def undefended(self, round_dir: Path, *, purpose: str = "holdout", label: int = 9000) -> str:
        """What an evaluator without a sandbox, in one process and with public seeds, would have measured."""
        commit = json.loads((round_dir / "metrics.json").read_text())["commit_sha"]
        spec, module = self.folder / "env.json", self.folder / "module.py"
        spec.write_text(json.dumps(self.spec))
        module.write_text(git(self.shared.repo, "show", f"{commit}:{MODULE}"))
        script = Path(__file__).with_name("naive.py")
        done = subprocess.run(
            [sys.executable, *map(str, (script, spec, round_dir, module, purpose, label))],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONPATH": str(Path(autoqec.__file__).parents[1]), "PATH": "/usr/bin:/bin"},
        )
        return done.stdout.strip().splitlines()[-1]


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()
