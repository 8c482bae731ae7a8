"""`autoqec.train` and `autoqec.verify`: one round."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autoqec.decoders.checkpoint_env import env_of_checkpoint
from autoqec.decoders.dsl_schema import PredecoderDSL, canonical_dict
from autoqec.envs.environment import Environment
from autoqec.envs.load import env_file, load_env
from autoqec.errors import AutoQECError
from autoqec.eval.schema import VerifyReport
from autoqec.eval.verify import VerifyOptions
from autoqec.eval.verify import verify as verify_round
from autoqec.finds.predecoder import Predecoder, load_predecoder
from autoqec.io.validate import load_model, validate_model
from autoqec.layout import example_configs
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runner.supervise import run_round


@dataclass(frozen=True)
class Round:
    """A round that was trained. path: its folder. metrics: what `metrics.json` there holds, on validation shots. env: what it was
    trained on."""

    path: Path
    metrics: RoundMetrics
    env: Environment

    def predecoder(self, **options: Any) -> Predecoder:
        """Its predecoder as a decoder; options as of `load_predecoder`."""
        return load_predecoder(self.path, **{"env": self.env, **options})


def train(
    env: str | Path | Environment,
    config: str | Path | Mapping[str, Any] | PredecoderDSL,
    round_dir: str | Path,
    *,
    profile: Literal["dev", "prod"] | None = None,
    seed: int = 0,
    init_from: str | Path | Round | None = None,
    wall_clock_s: float = 1800.0,
    memory_gb: float | None = None,
    show_progress: bool = False,
) -> Round:
    """Trains and validates one predecoder, in a process of its own.

    Args:
        env: an environment, the name of a builtin one, or its YAML file.
        config: the predecoder: a config as a mapping, its YAML file, or the name of an example ("neural_bp_gap").
        round_dir: folder for the round's files; made if missing.
        profile: shots and epochs. Default: the config's.
        seed: of weights and shots.
        init_from: the round whose checkpoint is the start: its folder, its checkpoint.pt, or what `train` returned. What fits is taken
            over; `metrics.init_from` says what did.
        wall_clock_s: seconds until the round is stopped.
        memory_gb: maximum memory of a training batch. Default: what is free.

    Raises:
        AutoQECError: the round failed; its message is the round's own.

    Examples:
        >>> import autoqec
        >>> config = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 4},
        ...           "training": {"epochs": 0}}
        >>> found = autoqec.train("surface_d5_depol", config, "runs/untrained")  # doctest: +SKIP
        >>> found.metrics.delta_ler > 0                                          # doctest: +SKIP
        True
    """
    origin = None if isinstance(env, Environment) else str(env_file(env).resolve())
    env = env if isinstance(env, Environment) else load_env(env)
    dsl = _config(config)
    runner = RunnerConfig(
        env_name=env.spec.name,
        predecoder_config=canonical_dict(dsl),
        training_profile=profile or dsl.training.profile,
        seed=seed,
        round_dir=str(Path(round_dir).resolve()),
        env_yaml_path=origin,
        init_from=_start(init_from),
    )
    safety = Safety(wall_clock_s=wall_clock_s, memory_gb=memory_gb)
    metrics = run_round(runner, env, safety, show_progress=show_progress)
    if metrics.status != "ok":
        raise AutoQECError(f"{metrics.status}: {metrics.status_reason}", where=runner.round_dir)
    return Round(Path(runner.round_dir), metrics, env)


def _start(given: str | Path | Round | None) -> str | None:
    if given is None:
        return None
    return str((given.path if isinstance(given, Round) else Path(given)).resolve())


def _config(given: str | Path | Mapping[str, Any] | PredecoderDSL) -> PredecoderDSL:
    if isinstance(given, PredecoderDSL):
        return given
    if isinstance(given, Mapping):
        return validate_model(dict(given), PredecoderDSL, where="config")
    return load_model(example_configs().get(str(given), Path(given)), PredecoderDSL)


def verify(
    round_dir: str | Path | Round, env: str | Path | Environment | None = None, **options: Any
) -> VerifyReport:
    """The independent verification of a round on fresh shots, its model in the sandbox. Writes the report beside the round.

    Args:
        round_dir: folder of a round, or what `train` returned.
        env: what it was trained on. Default: found by what the round says.
        options: fields of `autoqec.eval.verify.VerifyOptions`, e.g. shots=100_000.
    """
    path = round_dir.path if isinstance(round_dir, Round) else Path(round_dir)
    if env is None:
        env = round_dir.env if isinstance(round_dir, Round) else env_of_checkpoint(path)
    return verify_round(
        path, env if isinstance(env, Environment) else load_env(env), VerifyOptions(**options)
    )
