"""The runner of worktree rounds: `run-round` of the installed package, in a process that starts in the worktree.

That process imports nothing from the worktree. It compares the worktree's code with its own, and has what is different
run behind walls.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.errors import AutoQECError, InputError
from autoqec.io import processes
from autoqec.io.child_env import HOMES, child_environment
from autoqec.io.git import checked_out
from autoqec.io.scratch import scratch_folder
from autoqec.io.strict_yaml import parse_json
from autoqec.io.validate import validate_model
from autoqec.layout import ExperimentDir, RoundDir, RunDir
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runner.supervise import ended_with, write_metrics
from autoqec.runner.wall import code_of, ready
from autoqec.runs.names import parse_branch
from autoqec.sandbox.installed import installed_root, python_path

Runner = Callable[[RunnerConfig], RoundMetrics]
"""Trains one round in `code_cwd`, writes its artifacts to `round_dir` and returns what `metrics.json` says."""


@dataclass(frozen=True)
class SubprocessRunner:
    """wall_clock_s: of training and validation; `grace_s` later the whole process tree is killed from outside.

    variables: environment variables that the round's process gets besides. stage: called with what begins:
    `compiling`, if that is due, then `training`.
    """

    wall_clock_s: float = 1800.0
    memory_gb: float | None = None
    grace_s: float = 60.0
    variables: Mapping[str, str] = field(default_factory=dict)
    stage: Callable[[str], None] = lambda _what: None

    def __call__(self, config: RunnerConfig) -> RoundMetrics:
        worktree = Path(config.code_cwd or "")
        name = parse_branch(config.branch or "")
        files = RoundDir(config.round_dir)
        self._ready(config)
        self.stage("training")
        with scratch_folder("run") as scratch:  # a round that is killed cannot tidy up
            ended = processes.run(
                self.command(config),
                cwd=worktree,
                environment=child_environment(
                    *HOMES, **{**python_path(installed_root()), "TMPDIR": str(scratch), **self.variables}
                ),
                deadline_s=self.wall_clock_s + self.grace_s,
                guard=RunDir(files.path.parent).guard(name.round),
            )
        if ended.past_deadline:
            limit_s = self.wall_clock_s + self.grace_s
            message = f"the round's processes ran past {limit_s:g} s and were killed"
            return self._failed(config, files, Failure("wall_clock", message, facts={"limit_s": limit_s}))
        if ended.code in (0, 1):
            try:
                data = parse_json(ended.stdout.decode(errors="replace"), where="run-round --json")
                metrics = validate_model(data, RoundMetrics, where="run-round --json")
                if metrics.round_attempt_id != config.round_attempt_id:
                    raise InputError(f"is about attempt {metrics.round_attempt_id}", where="run-round --json")
                return metrics
            except AutoQECError as error:
                return self._failed(config, files, Failure("untrusted_metrics", str(error)))
        text = ended.stderr.decode(errors="replace").strip() or "no message"
        if ended.code == InputError.exit_code:
            return self._failed(config, files, Failure("input_refused", text[-600:]))
        last = text.splitlines()[-1][:300]
        message = f"run-round ended with code {ended.code}: {last}"
        return self._failed(config, files, ended_with(ended.code, message))

    def _ready(self, config: RunnerConfig) -> None:
        """Compiles, if that is due, before the round's time begins."""
        with contextlib.suppress(AutoQECError):  # the round says what is wrong
            dsl = validate_model(config.predecoder_config, PredecoderDSL, where="config")
            env = load_env(config.env_yaml_path or config.env_name)
            ready(code_of(config, dsl), env, dsl, compiling=lambda: self.stage("compiling"))

    def command(self, config: RunnerConfig) -> list[str]:
        """The command line of a round; it starts in the worktree and, by -P, imports nothing from there."""
        name = parse_branch(config.branch or "")
        path = ExperimentDir(config.code_cwd or "").record(name.run_id, name.round).config
        parents = config.fork_from if isinstance(config.fork_from, list) else [config.fork_from or ""]
        options = {
            "--profile": config.training_profile,
            "--seed": str(config.seed),
            "--wall-clock": f"{self.wall_clock_s:g}",
            "--memory-gb": None if self.memory_gb is None else f"{self.memory_gb:g}",
            "--init-from": config.init_from,
            "--code-cwd": config.code_cwd,
            "--branch": config.branch,
            "--compose-mode": config.compose_mode,
            "--round-attempt-id": config.round_attempt_id,
            "--commit-message": config.commit_message,
        }
        return [
            sys.executable,
            *("-P", "-m", "cli.autoqec", "run-round", "--json"),
            *(f"{option}={value}" for option, value in options.items() if value is not None),
            *(f"--fork-from={parent}" for parent in parents),
            *("--", config.env_yaml_path or config.env_name, str(path), config.round_dir),
        ]

    def _failed(self, config: RunnerConfig, files: RoundDir, failure: Failure) -> RoundMetrics:
        """A round whose process left no metrics still has some."""
        metrics = failed_metrics(config, checked_out(Path(config.code_cwd or "")), failure)
        write_metrics(files, metrics)
        return metrics


def failed_metrics(config: RunnerConfig, commit: str | None, failure: Failure) -> RoundMetrics:
    """commit: of the round's code; a branch is named together with it or not at all."""
    log = RoundDir(config.round_dir).train_log
    return RoundMetrics(
        **failure.metrics(),
        round_attempt_id=config.round_attempt_id,
        branch=None if commit is None else config.branch,
        commit_sha=commit,
        fork_from=config.fork_from,
        fork_from_canonical=config.fork_from_canonical,
        fork_from_ordered=config.fork_from_ordered,
        compose_mode=config.compose_mode,
        train_seed=config.seed,
        training_profile=config.training_profile,
        training_log_path=str(log.resolve()) if log.exists() else None,
    )


def believable(metrics: RoundMetrics, config: RunnerConfig, commit: str) -> RoundMetrics:
    """The metrics as the round's process gave them, unless they name files, a commit or a status that it cannot have.

    That process ran the branch's code: its metrics are checked before they are recorded.
    """
    files = RoundDir(config.round_dir)

    def failed(message: str) -> RoundMetrics:
        return failed_metrics(config, commit, Failure("untrusted_metrics", message))

    for path, own in (
        (metrics.checkpoint_path, files.checkpoint),
        (metrics.training_log_path, files.train_log),
    ):
        if path is not None and (Path(path) != own or own.is_symlink() or not own.is_file()):
            return failed(f"the round names {path}, which is not its own {own.name}")
    if metrics.status not in ("ok", "killed_by_safety", "compile_error", "train_error"):
        return failed(f"the round reports the status {metrics.status}")
    if metrics.status == "ok" and metrics.checkpoint_path is None:
        return failed("the round reports ok and has no checkpoint")
    if (metrics.branch, metrics.commit_sha) not in ((None, None), (config.branch, commit)):
        return failed(f"the round reports that it is {metrics.branch} at {metrics.commit_sha}")
    return metrics
