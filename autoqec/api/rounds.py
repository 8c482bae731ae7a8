"""`autoqec.train`, and the `run-round` command: one round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.errors import AutoQECError, InputError
from autoqec.executors.registry import LOCAL, check_reachable
from autoqec.finds.zoo import round_folder
from autoqec.io.git import checked_out
from autoqec.io.optional import check_installed
from autoqec.io.strict_yaml import read_yaml
from autoqec.io.untrusted_file import is_there
from autoqec.io.validate import load_model, validate_model
from autoqec.layout import config_file
from autoqec.runner import supervise
from autoqec.runner.profiles import PROFILES
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RoundMetrics, RunnerConfig, canonical_fork

if TYPE_CHECKING:
    from autoqec.finds.predecoder import Predecoder

Config = str | Path | Mapping[str, Any] | PredecoderDSL


@dataclass(frozen=True)
class Round:
    """A round that was trained. path: its folder. metrics: what `metrics.json` there holds, on validation shots. env: what it was
    trained on."""

    path: Path
    metrics: RoundMetrics
    env: Environment

    def predecoder(self, **options: Any) -> Predecoder:
        """Its predecoder as a decoder; options as of `load_predecoder`."""
        from autoqec.finds.predecoder import load_predecoder

        return load_predecoder(self.path, **{"env": self.env, **options})


def train(
    env: str | Path | Environment,
    config: Config,
    round_dir: str | Path,
    *,
    profile: Literal["dev", "prod", "campaign"] | None = None,
    processes: int | None = None,
    seed: int = 0,
    init_from: str | Path | Round | None = None,
    train_shots: str | Path | None = None,
    train_observables: str | Path | None = None,
    train_shots_format: str | None = None,
    wall_clock_s: float | None = None,
    memory_gb: float | None = None,
    torch_compile: bool = False,
    tensorboard: str | Path | None = None,
    executor: str | None = None,
    show_progress: bool = False,
    check: bool = True,
    **origin: Any,
) -> Round:
    """Trains and validates one predecoder, in a process of its own.

    Args:
        env: an environment, the name of a builtin one, or its YAML file.
        config: the predecoder: a config as a mapping, its YAML file, or the name of an example ("neural_bp_gap").
        round_dir: folder for the round's files; made if missing.
        profile: shots and epochs. Default: the config's. A campaign is for hours, on one or several GPUs.
        processes: of a campaign, which train one model together. Default: one for each GPU.
        seed: of weights and shots.
        init_from: the round whose checkpoint is the start: its folder, its checkpoint.pt, `zoo:ENV/NAME`, or what `train` returned. What fits is taken
            over; `metrics.init_from` says what did.
        train_shots: file of recorded shots to train on instead of sampled ones, in a format of Stim; each shot ends with its observables,
            unless train_observables is the file of those. The last fifth does not train: it chooses among training states.
        train_shots_format: of both files, as in Stim. Default: by the ending of their names.
        wall_clock_s: seconds until the round is stopped. Default: half an hour, a day for a campaign.
        memory_gb: maximum memory of a training batch. Default: what is free.
        torch_compile: train with a compiled graph network.
        tensorboard: folder for event files that TensorBoard reads, in a folder of the round's name below it.
        executor: where validation decodes: "local", "ray" for a cluster of this machine, or "ray:ADDRESS". Default: local.
        check: whether a round that fails is an error; else its metrics say so.
        origin: of a round with a branch of its own, fields of `autoqec.runner.schema.RunnerConfig` that say where it comes from:
            code_cwd, branch, fork_from, compose_mode, round_attempt_id, commit_message, invocation_argv.

    Raises:
        InputError: the config or the environment cannot be used. Of a config, `metrics.json` says why, too, unless a trained
            checkpoint is there.
        AutoQECError: the round failed; its message is the round's own.

    Examples:
        >>> import autoqec
        >>> config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 4},
        ...           "training": {"epochs": 0}}
        >>> found = autoqec.train("surface_d5_depol", config, "runs/untrained")  # doctest: +SKIP
        >>> found.metrics.delta_ler > 0                                          # doctest: +SKIP
        True
    """
    check_installed("torch", "safetensors", *(["tensorboard"] if tensorboard is not None else []))
    where = check_reachable(executor or LOCAL)
    env = env if isinstance(env, Environment) else load_env(env)
    fork = origin.get("fork_from")
    asked = {
        "env_name": env.spec.name,
        "predecoder_config": {},
        "training_profile": "prod" if profile == "campaign" else profile or "dev",
        "campaign": profile == "campaign",
        "processes": processes,
        "seed": seed,
        "torch_compile": torch_compile,
        "round_dir": str(Path(round_dir).resolve()),
        "env_yaml_path": None if env.file is None else str(env.file),
        "init_from": _start(init_from),
        "train_shots": None if train_shots is None else str(Path(train_shots).resolve()),
        "train_observables": None if train_observables is None else str(Path(train_observables).resolve()),
        "train_shots_format": train_shots_format,
        "tensorboard": None if tensorboard is None else str(Path(tensorboard).resolve()),
        "fork_from_canonical": None if fork is None else canonical_fork(fork),
        "fork_from_ordered": fork if isinstance(fork, list) else None,
    }
    runner = validate_model({**origin, **asked}, RunnerConfig, where="run-round")
    supervise.check_origin(runner)
    commit = None if runner.code_cwd is None else _commit_of(runner.code_cwd)
    try:
        given, dsl = _read(config)
    except InputError as error:
        if not isinstance(config, str | Path) or is_there(config_file(config)):
            supervise.refuse_round(runner, error, commit_sha=commit)
        raise
    runner = runner.model_copy(
        update={"predecoder_config": given}
        | ({"training_profile": dsl.training.profile} if profile is None else {})
    )
    limit = PROFILES[runner.profile].wall_clock_s if wall_clock_s is None else wall_clock_s
    safety = Safety(wall_clock_s=limit, memory_gb=memory_gb)
    metrics = supervise.run_round(
        runner, env, safety, commit_sha=commit, show_progress=show_progress, executor=where
    )
    if check and metrics.status != "ok":
        raise AutoQECError(f"{metrics.status}: {metrics.status_reason}", where=runner.round_dir)
    return Round(Path(runner.round_dir), metrics, env)


def _start(given: str | Path | Round | None) -> str | None:
    if given is None:
        return None
    return str((given.path if isinstance(given, Round) else round_folder(given, "")).resolve())


def _read(config: Config) -> tuple[dict[str, Any], PredecoderDSL]:
    """As it was given, and with all that it leaves to defaults."""
    if isinstance(config, PredecoderDSL):
        return canonical_dict(config), config
    if isinstance(config, Mapping):
        return dict(config), validate_model(dict(config), PredecoderDSL, where="config")
    path = config_file(config)
    dsl = load_model(path, PredecoderDSL)
    return cast(dict[str, Any], read_yaml(path)), dsl


def _commit_of(code_cwd: str) -> str:
    """The code commit of a worktree round: what its worktree is at before the pointer is committed."""
    if (commit := checked_out(Path(code_cwd))) is None:
        raise InputError(
            f"{code_cwd} is not the top of a git checkout with a commit, so that the round would have none",
            where="code_cwd",
            hint="give the worktree that the branch is checked out in",
        )
    return commit
