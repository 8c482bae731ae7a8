"""What a round says about itself: the record on its branch, the runner's config, the pointer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import yaml

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict, canonical_hash
from autoqec.errors import InputError
from autoqec.io.git import Git
from autoqec.io.hashing import sha256_file
from autoqec.io.validate import validate_model
from autoqec.layout import ExperimentDir, RoundDir
from autoqec.runner.schema import RunnerConfig, canonical_fork
from autoqec.runs.journal import Journal
from autoqec.runs.names import RoundName
from autoqec.runs.pointer import Pointer, requirements_fingerprint
from autoqec.runs.run_info import RunInfo, locate_env


def branch_record(journal: Journal, info: RunInfo, dsl: PredecoderDSL) -> dict[str, bytes]:
    """Content by path in the checkout: the whole config in one file, and which attempt it is of."""
    record = ExperimentDir("").record(journal.run_id, journal.round)
    attempt = {
        "run_id": journal.run_id,
        "round": journal.round,
        "round_attempt_id": journal.round_attempt_id,
        "fork_from": journal.proposal.fork_from,
        "compose_mode": journal.proposal.compose_mode,
        "train_seed": journal.name.train_seed,
        "env": info.env,
        "env_yaml_sha256": info.env_yaml_sha256,
        "training_profile": _profile(info, dsl),
    }
    return {
        record.attempt.as_posix(): (json.dumps(attempt, indent=2) + "\n").encode(),
        record.config.as_posix(): yaml.safe_dump(canonical_dict(dsl), sort_keys=False).encode(),
    }


def committed_config(git: Git, name: RoundName, commit: str) -> PredecoderDSL:
    path = ExperimentDir("").record(name.run_id, name.round).config.as_posix()
    where = f"{commit[:12]}:{path}"
    try:
        data = yaml.safe_load(git.file_at(commit, path) or b"")
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise InputError(f"not valid YAML: {str(error).splitlines()[0][:200]}", where=where) from None
    return validate_model(data, PredecoderDSL, where=where)


def runner_config(
    journal: Journal, info: RunInfo, dsl: PredecoderDSL, *, files: RoundDir, worktree: Path
) -> RunnerConfig:
    """What the runner is given. An environment that changed since the run started is refused."""
    name, path = locate_env(info.env)
    if sha256_file(path) != info.env_yaml_sha256:
        raise InputError(
            "has changed since the run started, and its rounds could not be compared",
            where=str(path),
            hint="change it back, or start another run",
        )
    data = {
        "env_name": name,
        "predecoder_config": canonical_dict(dsl),
        "training_profile": _profile(info, dsl),
        "seed": journal.name.train_seed,
        "round_dir": str(files.path),
        "code_cwd": str(worktree),
        "branch": journal.name.branch,
        "fork_from": journal.proposal.fork_from,
        "fork_from_canonical": canonical_fork(journal.proposal.fork_from),
        "fork_from_ordered": journal.ordered,
        "compose_mode": journal.proposal.compose_mode,
        "round_attempt_id": journal.round_attempt_id,
        "commit_message": journal.commit_message,
        "env_yaml_path": str(path),
    }
    return validate_model(data, RunnerConfig, where=f"round {journal.round}")


def pointer_of(journal: Journal, info: RunInfo, dsl: PredecoderDSL, files: RoundDir) -> Pointer:
    """The pointer of a round that was trained, or refused: a failed round has one as well."""
    row = journal.row or {}
    checkpoint = Path(row["checkpoint_path"]) if row["checkpoint_path"] else None
    data = {
        "run_id": journal.run_id,
        "round_idx": journal.round,
        "round_attempt_id": journal.round_attempt_id,
        "branch": journal.name.branch,
        "commit_sha": journal.commit_sha,
        "fork_from": journal.proposal.fork_from,
        "fork_from_canonical": canonical_fork(journal.proposal.fork_from),
        "fork_from_ordered": journal.ordered,
        "provenance": {
            "env_yaml_sha256": info.env_yaml_sha256,
            "dsl_config_sha256": canonical_hash(dsl),
            "requirements_fingerprint": requirements_fingerprint(),
            "repo_root_resolved": info.repository,
            "env": info.env,
            "training_profile": _profile(info, dsl),
            "train_seed": journal.name.train_seed,
            "checkpoint_sha256": sha256_file(checkpoint) if checkpoint is not None else None,
        },
        "metrics_summary": {
            name: row[name] for name in ("delta_vs_parent", "flops_per_syndrome", "n_params", "status")
        },
        "artifact_paths": {
            "checkpoint": str(checkpoint) if checkpoint is not None else None,
            "metrics": str(files.metrics) if files.metrics.exists() else None,
            "train_log": row["training_log_path"],
        },
    }
    return validate_model(data, Pointer, where=str(files.pointer))


def _profile(info: RunInfo, dsl: PredecoderDSL) -> Literal["dev", "prod"]:
    return info.training_profile or dsl.training.profile
