"""Real, tiny repositories: a checkout that looks like AutoQEC's, and runs in it with a runner that trains nothing."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.io.hashing import sha256_json
from autoqec.layout import RoundDir
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runs.experiment import Experiment
from autoqec.runs.repository import Repository
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal

CONFIG: dict[str, Any] = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
    "training": {"epochs": 0},
}
FILES = {
    "autoqec/__init__.py": "",
    "autoqec/decoders/modules/gnn.py": "LAYERS = 1\n\n\ndef forward(x):\n    return x\n",
    "autoqec/decoders/compiler.py": "REGISTRY = {}\n",
    "autoqec/example_db/plain.yaml": "type: gnn\n",
    "autoqec/runner/train.py": "STEPS = 1\n",
    "cli/__init__.py": "",
    "README.md": "A tiny checkout.\n",
    ".gitignore": "__pycache__/\n.worktrees/\nruns/\nignored/\n",
}


def user_git(folder: Path, *arguments: str) -> str:
    """git as the user runs it: with the user's own configuration and an identity."""
    names = {f"GIT_{role}_{part}": "user" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **names},
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stdout, done.stderr)
    return done.stdout


def make_checkout(folder: Path, branch: str = "main") -> Path:
    folder.mkdir(parents=True)
    user_git(folder, "init", "--quiet", "-b", branch)
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    user_git(folder, "add", "-A")
    user_git(folder, "commit", "--quiet", "-m", "start")
    return folder


def make_run(workspace: Path, repository: Repository) -> Run:
    base = PredecoderDSL.model_validate(CONFIG)
    return Run.create(workspace, "surface_d3_depol", repository, config=base, limits=Limits(min_free_gb=0.0))


def fake_runner(config: RunnerConfig) -> RoundMetrics:
    """Leaves what a trained round leaves; its figures are a function of config and seed."""
    files = RoundDir(config.round_dir)
    digest = hashlib.sha256(f"{sha256_json(config.predecoder_config)} {config.seed}".encode()).digest()
    ler = 0.01 + digest[0] / 100_000
    files.config.write_text(json.dumps(config.predecoder_config))
    files.checkpoint.write_bytes(digest)
    files.train_log.write_text("1\t0.5\n")
    metrics = RoundMetrics(
        status="ok",
        ler_plain_classical=0.02,
        ler_predecoder=ler,
        delta_ler=0.02 - ler,
        flops_per_syndrome=1000 + digest[1],
        n_params=10 + digest[2],
        checkpoint_path=str(files.checkpoint),
        training_log_path=str(files.train_log),
        round_attempt_id=config.round_attempt_id,
        fork_from=config.fork_from,
        fork_from_canonical=config.fork_from_canonical,
        fork_from_ordered=config.fork_from_ordered,
        compose_mode=config.compose_mode,
        train_seed=config.seed,
    )
    files.metrics.write_text(metrics.model_dump_json())
    return metrics


def changed(**options: Any) -> dict[str, Any]:
    """CONFIG with options changed: `neural_bp={"iterations": 6}`."""
    config: dict[str, Any] = json.loads(json.dumps(CONFIG))
    for block, values in options.items():
        config[block] = {**config.get(block, {}), **values} if isinstance(values, dict) else values
    return config


def play(run: Run, slug: str, config: dict[str, Any] | None = None, **proposal: Any) -> dict[str, Any]:
    """One whole round with the fake runner; its history row."""
    experiment = Experiment.begin(run, Proposal(hypothesis=f"try {slug}", slug=slug, **proposal))
    return experiment.complete(config, runner=fake_runner)
