"""A real run, small: rounds as branches, verified, with front, pages and package. Forgers start from its files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.eval import pareto
from autoqec.eval.verify import VerifyOptions, verify_together
from autoqec.io.hashing import sha256_file
from autoqec.layout import RoundDir
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runs.experiment import Experiment
from autoqec.runs.package import package_run
from autoqec.runs.plan import Plan, save_plan
from autoqec.runs.repository import open_workspace
from autoqec.runs.run import Run
from autoqec.runs.tar_archive import pack, unpack
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal
from cheats.scene import NETWORK, SHOTS, SOFT_BP, P, Shared, surface

LIGHT = {**SOFT_BP, "training": {"epochs": 0}}
HEAVY = {**LIGHT, "neural_bp": {"iterations": 8}}
IDLE = {**NETWORK, "training": {"epochs": 0}}

Change = Callable[[Path], None]


@dataclass(frozen=True)
class Packaged:
    """run: with rounds 1 and 2 VERIFIED, and 3 not. data: what AUTOQEC_HOME names; the verifier's home is in it."""

    run: Run
    data: Path
    archive: Path

    @property
    def home(self) -> Path:
        return self.data / "verifier"

    def forged(self, target: Path, change: Change) -> Path:
        """The package after somebody changed its files; the hashes in the manifest are made to fit, as a forger does."""
        folder = target.with_suffix(".d")
        folder.mkdir(parents=True)
        unpack(self.archive, folder)
        change(folder)
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text())
        files = {
            str(file.relative_to(folder)): file
            for file in sorted(folder.rglob("*"))
            if file.is_file() and file != path
        }
        manifest["files"] = {name: sha256_file(file) for name, file in files.items()}
        path.write_text(json.dumps(manifest))
        pack(target, {**files, path.name: path})
        shutil.rmtree(folder)
        return target


def of(shared: Shared) -> Packaged:
    """The one that the cases of a process share."""
    folder = shared.root / "packaged"
    if folder not in _MADE:
        _MADE[folder] = make(folder)
    return _MADE[folder]


_MADE: dict[Path, Packaged] = {}


def make(folder: Path, *, shots: int = SHOTS) -> Packaged:
    folder.mkdir(parents=True)
    env = folder / "surface_d4.yaml"
    env.write_text(yaml.safe_dump(surface(4)))
    workspace = folder / "work"
    workspace.mkdir()
    base = PredecoderDSL.model_validate(LIGHT)
    run = Run.create(
        workspace,
        str(env),
        open_workspace(workspace),
        config=base,
        training_profile="dev",
        limits=Limits(min_free_gb=0.0),
    )
    save_plan(run.files, Plan(rounds=3, proposer="random", memory_gb=1.0, verify_shots=shots))
    data = folder / "data"
    for slug, config in (
        # Fewer FLOPs and more parameters than the other: both are on the front, whichever gains more.
        ("light", {**LIGHT, "neural_bp": {"iterations": 5, "weight_sharing": "per_check"}}),
        ("heavy", HEAVY),
        ("idle", IDLE),
    ):
        play(run, slug, config, data / "verifier", shots)
    pareto.publish(run.files.path)
    archive = folder / "package.tar.gz"
    package_run(run, archive)
    return Packaged(run, data, archive)


def play(run: Run, slug: str, config: dict[str, Any], home: Path, shots: int) -> dict[str, Any]:
    """One whole round, verified for real: its weights are those that the module starts with."""
    experiment = Experiment.begin(run, Proposal(hypothesis=f"try {slug}", slug=slug))
    experiment.prepare()
    experiment.configure(config)
    experiment.train(untrained)
    words = {
        "verdict": "candidate",
        "summary_1line": "gains",
        "next_hypothesis_seed": "more",
        "corrections": [],
    }
    experiment.note(analysis=words)
    options = VerifyOptions(
        shots=shots,
        cap=shots,
        home=home,
        workers=1,
        baseline_seconds=1.0,
        deadline_s=1800.0,
        repo=run.repository.root,
        base=run.info.base_commit,
    )
    env = load_env(run.info.env)
    report = experiment.verify(lambda folders: verify_together(folders, env, options)[0])
    row = experiment.record(report=report)
    experiment.close()
    return row


def untrained(config: RunnerConfig) -> RoundMetrics:
    """Leaves what a trained round leaves, without the training."""
    files = RoundDir(config.round_dir)
    env = load_env(str(config.env_yaml_path))
    dsl = PredecoderDSL.model_validate(config.predecoder_config)
    module = compile_predecoder(dsl, env.problem(P))
    info = checkpoint.CheckpointInfo(
        dsl=dsl,
        output_mode=dsl.output_mode,
        env_name=env.spec.name,
        env_hash=env.content_hash,
        seed=config.seed,
        train_labels=(0, -1),
        versions={},
    )
    checkpoint.save(files.path, module, info)
    files.config.write_text(yaml.safe_dump(config.predecoder_config))
    files.train_log.write_text("")
    metrics = RoundMetrics(
        status="ok",
        checkpoint_path=str(files.checkpoint),
        training_log_path=str(files.train_log),
        round_attempt_id=config.round_attempt_id,
        fork_from=config.fork_from,
        fork_from_canonical=config.fork_from_canonical,
        fork_from_ordered=config.fork_from_ordered,
        compose_mode=config.compose_mode,
        train_seed=config.seed,
        reference_p=P,
    )
    files.metrics.write_text(metrics.model_dump_json())
    return metrics
