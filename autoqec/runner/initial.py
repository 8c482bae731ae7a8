"""The checkpoint that a round starts from: found once, named by its hash, and kept beside the round.

A path means something on one machine and for a while; a hash means the same file everywhere. So `training.init_from` of a config is
a hash, a folder on the command line is turned into one, and the round keeps the file as `initial.pt`: a replay or a package finds it
there, and whoever reads the round sees what it started from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from autoqec.decoders.checkpoint_format import MAX_BYTES, check_archive
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.transfer_report import TransferReport
from autoqec.errors import InputError
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes
from autoqec.io.untrusted_file import read_regular
from autoqec.layout import RoundDir, RunDir
from autoqec.runner.schema import RoundMetrics, RunnerConfig

_OPTION = "training.init_from"


@dataclass(frozen=True)
class Initial:
    """data: the checkpoint file, whole; nothing in it was executed."""

    data: bytes
    sha256: str


def named(path: str | Path) -> Initial:
    """The checkpoint that a user names: the folder of a round, or the file itself."""
    given = Path(path)
    file = RoundDir(given).checkpoint if given.is_dir() else given
    data = read_regular(file, limit=MAX_BYTES, hint="give the folder of a round, or its checkpoint.pt")
    check_archive(data, where=str(file))
    return Initial(data, sha256_bytes(data))


def with_hash(config: RunnerConfig, initial: Initial) -> RunnerConfig:
    """The config that says what it starts from, by hash.

    Raises:
        InputError: it says something else.
    """
    training = dict(config.predecoder_config.get("training") or {})
    stated = training.setdefault("init_from", initial.sha256)
    if stated is None:
        training["init_from"] = initial.sha256
    elif stated != initial.sha256:
        raise InputError(
            f"the config says {str(stated)[:12]}, and {config.init_from} has the hash {initial.sha256[:12]}",
            where=_OPTION,
            hint="leave one of the two out",
        )
    return config.model_copy(update={"predecoder_config": {**config.predecoder_config, "training": training}})


def found(dsl: PredecoderDSL, files: RoundDir) -> Initial | None:
    """The checkpoint that a config asks for: in the round's own folder, or of a round of the same run.

    Raises:
        InputError: it is in neither.
    """
    wanted = dsl.training.init_from
    if wanted is None:
        return None
    run = RunDir(files.path.parent)
    for path in (files.initial, *(run.round(number).checkpoint for number in run.rounds())):
        if path.is_file() and not path.is_symlink():
            try:
                data = read_regular(path, limit=MAX_BYTES)
            except InputError:  # of another round, which is not asked for
                continue
            if sha256_bytes(data) == wanted:
                check_archive(data, where=str(path))
                return Initial(data, wanted)
    raise InputError(
        f"no round of this run has the checkpoint {wanted[:12]}",
        where=_OPTION,
        hint="name its round with --init-from",
    )


def keep(files: RoundDir, initial: Initial | None) -> None:
    """Leaves the checkpoint beside the round, or none."""
    if initial is None:
        files.initial.unlink(missing_ok=True)
    else:
        atomic.write_bytes(files.initial, initial.data)


def with_origin(metrics: RoundMetrics, initial: Initial | None) -> RoundMetrics:
    """The metrics with the true hash of what the round started from, whatever its process says."""
    if initial is None:
        return metrics.model_copy(update={"init_from": None})
    reported = metrics.init_from or TransferReport(sha256=initial.sha256, env_name="")
    return metrics.model_copy(update={"init_from": reported.model_copy(update={"sha256": initial.sha256})})
