"""Replaying a round: its commit, environment, config and seed, trained again and compared with what was recorded."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from autoqec.decoders.checkpoint_format import MAX_BYTES
from autoqec.decoders.dsl_schema import canonical_dict, canonical_hash
from autoqec.errors import InputError
from autoqec.io import atomic
from autoqec.io.git import Git
from autoqec.io.hashing import sha256_file
from autoqec.io.scratch import scratch_folder
from autoqec.io.untrusted_file import read_regular
from autoqec.io.validate import load_model, validate_model
from autoqec.layout import RoundDir, compiled_kernels
from autoqec.runner.schema import RoundMetrics, RunnerConfig
from autoqec.runs.documents import committed_config
from autoqec.runs.names import parse_branch
from autoqec.runs.pointer import Pointer, read_pointer, requirements_fingerprint
from autoqec.runs.run import Run
from autoqec.runs.run_info import locate_env
from autoqec.runs.tar_archive import unpack
from autoqec.runs.worktree_runner import Runner, SubprocessRunner

Weights = dict[str, tuple[tuple[int, ...], bytes]]
"""Shapes and numbers."""
Outcome = Literal["identical", "within_interval", "differs"]
_EXACT = (
    "status", "reference_p", "ler_plain_classical", "ler_predecoder", "delta_ler", "delta_ler_ci_low", "delta_ler_ci_high",
    "flops_per_syndrome", "n_params", "train_loss_initial", "train_loss_final", "train_loss_mean_last_epoch",
    "train_batches_total", "train_seed",
)  # fmt: skip


@dataclass
class Replay:
    """outcome: identical to the last bit; within the recorded interval; or neither. differences: field -> (was, is).

    same_packages: the installed packages are those of the recorded round, so that it should be identical.
    """

    outcome: Outcome
    same_packages: bool
    same_weights: bool | None
    differences: dict[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def is_good(self) -> bool:
        return self.outcome == "identical" or (self.outcome == "within_interval" and not self.same_packages)


def replay(round_dir: Path, runner: Runner | None = None, *, wall_clock_s: float = 1800.0) -> Replay:
    """Trains the round again in a folder of its own; the recorded one is only read."""
    files = RoundDir(round_dir.resolve())
    if not files.pointer.is_file():
        raise InputError(
            "has no pointer file: only rounds with a branch can be replayed",
            where=str(round_dir),
            hint="give runs/<run_id>/round_<N>",
        )
    pointer = read_pointer(files.pointer.read_bytes(), where=str(files.pointer))
    run = Run.open(files.path.parent)
    recorded, weights = load_model(files.metrics, RoundMetrics), _weights(files)
    with scratch_folder("replay") as folder:
        code = folder / "code"
        again = RoundDir(folder / "run" / files.path.name)
        again.path.mkdir(parents=True)
        config = _rebuild(run, pointer, recorded, files, code, again)
        if runner is None:
            cache = {"AUTOQEC_CACHE": str(_own_cache(folder / "cache"))}
            runner = SubprocessRunner(wall_clock_s=wall_clock_s, variables=cache)
        replayed = runner(config)
        return _compare(recorded, replayed, weights, _weights(again), pointer)


def _own_cache(folder: Path) -> Path:
    """Figures of the recorded round must not come back from a cache. That kernels are compiled holds here, too."""
    compiled = compiled_kernels("").absolute()
    compiled.mkdir(parents=True, exist_ok=True)
    folder.mkdir()
    (folder / compiled.name).symlink_to(compiled)
    return folder


def _rebuild(
    run: Run, pointer: Pointer, recorded: RoundMetrics, files: RoundDir, code: Path, again: RoundDir
) -> RunnerConfig:
    """Exports the commit and checks that environment and config are the recorded ones."""
    git = run.repository.reader
    if git.resolve(pointer.commit_sha) is None:
        raise InputError(f"commit {pointer.commit_sha} is gone", where=str(run.repository.root))
    name, path = locate_env(pointer.provenance.env)
    if sha256_file(path) != pointer.provenance.env_yaml_sha256:
        raise InputError("is not the environment that the round was trained on", where=str(path))
    parsed = parse_branch(pointer.branch)
    dsl = committed_config(git, parsed, pointer.commit_sha)
    if canonical_hash(dsl) != pointer.provenance.dsl_config_sha256:
        raise InputError("the committed config is not the one the pointer names", where=pointer.branch)
    _check_out(git, pointer.commit_sha, code)
    data = {
        "env_name": name,
        "predecoder_config": canonical_dict(dsl),
        "training_profile": pointer.provenance.training_profile,
        "seed": pointer.provenance.train_seed,
        "round_dir": str(again.path),
        "code_cwd": str(code.resolve()),
        "branch": pointer.branch,
        "fork_from": pointer.fork_from,
        "fork_from_canonical": pointer.fork_from_canonical,
        "fork_from_ordered": pointer.fork_from_ordered,
        "compose_mode": recorded.compose_mode,
        "round_attempt_id": pointer.round_attempt_id,
        "env_yaml_path": str(path),
        "init_from": None if dsl.training.init_from is None else str(files.initial),
    }
    return validate_model(data, RunnerConfig, where="replay")


def _check_out(git: Git, commit: str, folder: Path) -> None:
    """The commit in a repository of its own, which borrows the objects: the run's one is only read."""
    unpack(git.output("archive", "--format=tar", commit, variables=git.no_attributes()), folder)
    own = Git(folder)
    own.initialise()
    atomic.write_text(own.common_dir / "objects" / "info" / "alternates", f"{git.common_dir / 'objects'}\n")
    own("update-ref", "--no-deref", "HEAD", commit)


def _compare(
    recorded: RoundMetrics, replayed: RoundMetrics, was: Weights | None, now: Weights | None, pointer: Pointer
) -> Replay:
    pairs = {name: (getattr(recorded, name), getattr(replayed, name)) for name in _EXACT}
    differences = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    same_weights = None if was is None or now is None else was == now
    outcome: Outcome = "differs"
    if not differences and same_weights is not False:
        outcome = "identical"
    elif _is_within(recorded, replayed):
        outcome = "within_interval"
    same = requirements_fingerprint() == pointer.provenance.requirements_fingerprint
    return Replay(outcome, same, same_weights, differences)


def _weights(files: RoundDir) -> Weights | None:
    """To the last bit. What the file says of the libraries and the code that wrote it is not compared: code that
    is no longer the installed one is replayed as that of a branch, and signs as such."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not files.weights.is_file():
        return None
    try:
        found = load(read_regular(files.weights, limit=MAX_BYTES))
    except SafetensorError as error:
        raise InputError(f"is not a safetensors file: {error}", where=str(files.weights)) from None
    return {name: (array.shape, array.tobytes()) for name, array in found.items()}


def _is_within(recorded: RoundMetrics, replayed: RoundMetrics) -> bool:
    low, high, now = recorded.delta_ler_ci_low, recorded.delta_ler_ci_high, replayed.delta_ler
    return low is not None and high is not None and now is not None and low <= now <= high
