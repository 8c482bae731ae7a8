"""`run_round`: one round in a process of its own, so that a hang, an out-of-memory kill or hostile code is only a status.

Where that process runs code that is not the installed package's own, of a tier-2 config or of a worktree that was edited, it is behind
the walls of `wall`; where no sandbox works, the round is refused. This process runs the installed package and imports
nothing from a worktree.

The round's folder is locked meanwhile, for as long as that process lives: it ends when this one does.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.environment import Environment
from autoqec.errors import AutoQECError, InputError, RunnerCallPathError
from autoqec.executors.registry import LOCAL
from autoqec.io import atomic, processes
from autoqec.io.child_env import child_environment
from autoqec.io.hashing import sha256_file, sha256_json
from autoqec.io.locks import locked
from autoqec.io.scratch import scratch_folder
from autoqec.io.validate import load_model, validate_model
from autoqec.layout import RoundDir
from autoqec.runner import handover, initial, recorded
from autoqec.runner.failure_kinds import RoundFailed, failure_of
from autoqec.runner.profiles import PROFILES
from autoqec.runner.provisions import fill_cache
from autoqec.runner.safety import Safety
from autoqec.runner.schema import Failure, RoundMetrics, RunnerConfig
from autoqec.runner.wall import Start, code_of, confined, ready
from autoqec.sandbox.installed import installed_root, python_path

_GRACE_S = 60.0
_TAIL = 1 << 16


def run_round(
    config: RunnerConfig,
    env: Environment,
    safety: Safety | None = None,
    *,
    commit_sha: str | None = None,
    show_progress: bool = False,
    executor: str = LOCAL,
) -> RoundMetrics:
    """Trains and validates one predecoder; writes the round's files and returns its metrics. It never raises for a round
    that fails: its status says so. While another process trains in the folder it waits, and an attempt that was trained
    there is not trained again.

    commit_sha: the commit of the code that runs, where the round has a branch. executor: where validation decodes, unless that code is
    behind walls, which no other machine is.

    Raises:
        RunnerCallPathError: `code_cwd` is set. Edited modules need a process that starts in their worktree.
        InputError: the round's origin is given in part, the checkpoint to start from is none, recorded shots cannot be used, or
            the folder holds a verified round.
    """
    if config.code_cwd is not None and Path(config.code_cwd).resolve() != Path.cwd().resolve():
        raise RunnerCallPathError(
            f"code_cwd = {config.code_cwd} is another checkout, and Python does not reload edited modules",
            where="run_round",
            hint="start `python -m cli.autoqec run-round` in the worktree",
        )
    check_origin(config)
    _check_commit(config, commit_sha)
    safety = safety or Safety()
    files = RoundDir(config.round_dir)
    start_from = None
    if config.init_from is not None:
        start_from = initial.named(config.init_from)
        config = initial.with_hash(config, start_from)
    shots = recorded.named(config, env)
    files.path.mkdir(parents=True, exist_ok=True)
    with locked(files.lock) as lock:
        if (done := metrics_of_attempt(files, config.round_attempt_id)) is not None:
            return done
        _check_unverified(files)
        files.checkpoint.unlink(missing_ok=True)
        asked = yaml.safe_dump(config.predecoder_config, sort_keys=False)
        if not files.config.is_file() or files.config.read_text(errors="replace") != asked:
            handover.forget_state(files)  # of another config
        atomic.write_text(files.config, asked)
        recorded.keep(files, shots)
        start = time.monotonic()
        metrics = _supervised(
            config,
            env,
            safety,
            files,
            lock,
            start_from,
            shots,
            show_progress=show_progress,
            executor=executor,
        )
        if metrics.train_wallclock_s == 0.0 and metrics.status == "killed_by_safety":
            metrics = metrics.model_copy(update={"train_wallclock_s": time.monotonic() - start})
        if files.checkpoint.is_file():
            metrics = metrics.model_copy(update={"checkpoint_sha256": sha256_file(files.checkpoint)})
        if shots is not None:
            provenance = {"train_shots_sha256": shots.sha256, "train_shots_recorded": len(shots)}
            metrics = metrics.model_copy(update=provenance)
        metrics = _with_provenance(metrics, config, commit_sha)
        write_metrics(files, metrics)
        atomic.write_text(files.manifest, json.dumps(_manifest(files, config, env), indent=2) + "\n")
    return metrics


def _check_unverified(files: RoundDir) -> None:
    """A verification report is about the checkpoint beside it, so that one is not replaced."""
    if found := [path for path in (files.report, files.report_text) if os.path.lexists(path)]:
        raise InputError(
            "is about the checkpoint that is here, and another round would replace it",
            where=str(found[0]),
            hint="give another folder, or move the verification reports away",
        )


def refuse_round(config: RunnerConfig, error: AutoQECError, *, commit_sha: str | None = None) -> RoundMetrics:
    """A round whose config is invalid: nothing runs, and its metrics say why. A folder with a trained checkpoint stays as it is."""
    check_origin(config)
    _check_commit(config, commit_sha)
    files = RoundDir(config.round_dir)
    metrics = _with_provenance(_failed(failure_of(error, "config_invalid")), config, commit_sha)
    files.path.mkdir(parents=True, exist_ok=True)
    with locked(files.lock):
        if not files.checkpoint.exists():
            write_metrics(files, metrics)
    return metrics


def check_origin(config: RunnerConfig) -> None:
    """The origin of a round has to reach its metrics: a part of it alone is refused."""
    of_worktree = ("code_cwd", "branch", "fork_from", "compose_mode")
    given = [name for name in of_worktree if getattr(config, name) is not None]
    if given and config.round_attempt_id is None:
        raise InputError(
            f"an attempt has to be named together with {', '.join(given)}",
            where="run-round: round_attempt_id",
            hint="give the attempt's UUID as --round-attempt-id, or leave the others out",
        )
    if config.compose_mode is not None and not isinstance(config.fork_from, list):
        raise InputError(
            f"compose_mode = {config.compose_mode!r} needs a list of parents, and fork_from is {config.fork_from!r}",
            where="run-round: compose_mode",
            hint="name two or more branches with --fork-from, or leave --compose-mode out",
        )


def _check_commit(config: RunnerConfig, commit_sha: str | None) -> None:
    if (config.branch is None) != (commit_sha is None):
        raise InputError(
            f"branch = {config.branch!r} and commit {commit_sha!r} must come together",
            where="run-round: branch",
            hint="give the worktree that the branch is checked out in as --code-cwd",
        )


def write_metrics(files: RoundDir, metrics: RoundMetrics) -> None:
    atomic.write_text(files.metrics, metrics.model_dump_json(indent=2) + "\n")


def metrics_of_attempt(files: RoundDir, attempt: str | None) -> RoundMetrics | None:
    """What a process left that trained this attempt to its end. One that was killed is resumed."""
    if attempt is None or not files.metrics.exists():
        return None
    try:
        metrics = load_model(files.metrics, RoundMetrics)
    except InputError:
        return None
    own = metrics.round_attempt_id == attempt
    return metrics if own and metrics.status != "killed_by_safety" else None


def _supervised(
    config: RunnerConfig,
    env: Environment,
    safety: Safety,
    files: RoundDir,
    lock: int,
    start_from: initial.Initial | None,
    shots: recorded.Recorded | None,
    *,
    show_progress: bool,
    executor: str,
) -> RoundMetrics:
    try:
        dsl = validate_model(config.predecoder_config, PredecoderDSL, where=str(files.config))
        start_from = start_from or initial.found(dsl, files)
        initial.keep(files, start_from)
    except AutoQECError as error:
        return _failed(failure_of(error, "config_invalid"))
    code = code_of(config, dsl)
    if (config.processes or 1) > 1 and not code.is_own:
        hint = "leave --processes out"
        message = f"code that is not the installed package's own trains in one process: {hint}"
        return _failed(Failure("config_invalid", message, "processes", hint))
    if config.tensorboard is not None and not code.is_own:
        hint = "leave --tensorboard out; train.log has the loss"
        message = f"code that is not the installed package's own writes in its round's folder alone: {hint}"
        return _failed(Failure("config_invalid", message, "tensorboard", hint))
    ready(code, env, dsl)
    begin = time.monotonic()
    job: dict[str, Any] = {
        "config": config.model_dump(mode="json"),
        "spec": env.spec.model_dump(mode="json"),
        "root": str(env.root),
        "origin": env.origin,
        "safety": safety.__dict__,
        "progress": show_progress and code.is_own,
        "confined": not code.is_own,
        "executor": executor if code.is_own else LOCAL,
    }
    with scratch_folder("round") as scratch:
        job_file, result = scratch / "job.json", scratch / "metrics.json"
        job["result"] = str(result)
        if shots is not None:
            job["train_shots"] = str(scratch / "train_shots.npz")
            recorded.hand_over(shots, scratch / "train_shots.npz")
        command = [sys.executable, "-P", "-m", "autoqec.runner.child", str(job_file)]
        if code.is_own:
            job_file.write_text(json.dumps(job))
            start = Start(command, _own_variables(), Path.cwd())
            failure = _wait(start, safety.wall_clock_s, files, lock, show_progress=show_progress)
            return (
                RoundMetrics.model_validate_json(result.read_text()) if result.exists() else _failed(failure)
            )
        handover.prepare(files)
        initial.keep(RoundDir(files.confined), start_from)
        try:
            start = confined(command, code, env, files, scratch)
        except RoundFailed as failed:
            return _failed(failed.failure)
        job["config"]["round_dir"] = str(files.confined.resolve())
        job_file.write_text(json.dumps(job))
        profile = PROFILES[config.profile]
        fill_cache(scratch / "cache", env, profile, seconds=safety.wall_clock_s)
        spent = time.monotonic() - begin
        failure = _wait_watched(start, safety.wall_clock_s, files, lock, spent=spent)
        handover.shorten(files.output)
        handover.take_over(files)
        if not os.path.lexists(result):
            return _failed(failure)
        try:
            metrics = initial.with_origin(handover.read_metrics(result, files), start_from)
        except InputError as error:
            return _failed(handover.untrusted(error))
        if start.remark is None:
            return metrics
        note = "; ".join(part for part in (metrics.training_note, start.remark) if part)
        return metrics.model_copy(update={"training_note": note})


def _own_variables() -> dict[str, str]:
    """The user's own search path stays, behind the package."""
    variables = child_environment("PYTHONPATH")
    own = python_path(installed_root()).get("PYTHONPATH")
    path = [part for part in (own, variables.get("PYTHONPATH")) if part]
    return {**variables, **({"PYTHONPATH": os.pathsep.join(path)} if path else {})}


def _wait(start: Start, deadline: float, files: RoundDir, lock: int, *, show_progress: bool) -> Failure:
    """Runs the child in its own process group and kills the whole group at the deadline. Its standard input stays open
    for as long as this process lives, and the lock is held for as long as the child does.

    Returns:
        Why there is no result, should there be none.
    """
    with files.output.open("wb") as output:
        process = subprocess.Popen(
            start.command,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=None if show_progress else output,
            cwd=start.cwd,
            env=start.variables,
            pass_fds=(lock,),
            start_new_session=True,
        )
        try:
            process.wait(timeout=deadline)
        except subprocess.TimeoutExpired:
            return _past(deadline)
        except KeyboardInterrupt:
            return _interrupted()
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            process.stdin.close()  # type: ignore[union-attr]
    return _without_result(process.returncode, files)


def _wait_watched(start: Start, deadline: float, files: RoundDir, lock: int, *, spent: float) -> Failure:
    """The same for a confined child. A watchdog stands between: it ends whatever the child started, in whatever session, and holds
    the lock until then. The child itself has neither the lock nor the user's terminal. spent: seconds of the deadline."""
    left = max(1.0, deadline - spent)
    with files.output.open("wb") as output:
        process = subprocess.Popen(
            processes.watched(start.command, left + _GRACE_S, open_input=True),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=start.cwd,
            env=start.variables,
            pass_fds=(lock,),
            start_new_session=True,
        )
        try:
            process.wait(timeout=left)
        except subprocess.TimeoutExpired:
            return _past(deadline)
        except KeyboardInterrupt:
            return _interrupted()
        finally:
            process.stdin.close()  # type: ignore[union-attr]
            process.wait()
    return _without_result(processes.exit_status(process.returncode), files)


def _past(deadline: float) -> Failure:
    message = f"the round ran past its wall-clock limit of {deadline:g} s"
    return Failure("wall_clock", message, facts={"limit_s": deadline})


def _interrupted() -> Failure:
    hint = "run the same command again to resume"
    return Failure("interrupted", f"interrupted; {hint}", hint=hint)


def _without_result(code: int, files: RoundDir) -> Failure:
    if code == -signal.SIGKILL:
        hint = "lower training.batch_size"
        message = f"the process was killed, most likely out of memory: {hint}"
        return Failure("out_of_memory", message, "training.batch_size", hint, {"certain": False})
    with files.output.open("rb") as output:
        output.seek(max(0, output.seek(0, os.SEEK_END) - _TAIL))
        tail = output.read().decode(errors="replace").strip().splitlines()[-1:] or ["no output"]
    return ended_with(code, f"the process ended with code {code}: {tail[0][:300]}")


def ended_with(code: int, message: str) -> Failure:
    """Of a process that left no metrics. code: negative for a signal, as subprocess has it."""
    if code < 0:
        return Failure("killed", message, facts={"signal": -code})
    return Failure("unknown", message, facts={"exit_code": code})


def _failed(failure: Failure) -> RoundMetrics:
    return RoundMetrics.model_validate(failure.metrics())


def _with_provenance(metrics: RoundMetrics, config: RunnerConfig, commit_sha: str | None) -> RoundMetrics:
    if config.round_attempt_id is None:
        return metrics
    fields = (
        "round_attempt_id",
        "branch",
        "fork_from",
        "fork_from_canonical",
        "fork_from_ordered",
        "compose_mode",
    )
    own = {name: getattr(config, name) for name in fields}
    return RoundMetrics.model_validate(metrics.model_dump() | own | {"commit_sha": commit_sha})


def _env_hash(env: Environment) -> str | None:
    """None for an environment that cannot be built: the round's status says so."""
    try:
        return env.content_hash
    except InputError:
        return None


def _manifest(files: RoundDir, config: RunnerConfig, env: Environment) -> dict[str, Any]:
    """Hashes of what the round left, and of what it was made from."""
    artifacts = (files.config, files.train_log, files.checkpoint, files.metrics)
    return {
        "artifacts": {path.name: sha256_file(path) for path in artifacts if path.exists()},
        "config_sha256": sha256_json(config.predecoder_config),
        "env_name": env.spec.name,
        "env_hash": _env_hash(env),
        "env_yaml_path": config.env_yaml_path,
        "env_yaml_sha256": sha256_file(Path(config.env_yaml_path)) if config.env_yaml_path else None,
        "seed": config.seed,
        "init_from_sha256": sha256_file(files.initial) if files.initial.exists() else None,
        "training_profile": config.profile,
        "invocation_argv": config.invocation_argv,
        "commit_message": config.commit_message,
    }
