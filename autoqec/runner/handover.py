"""What a confined training left: taken over file by file and figure by figure, after it has ended.

It wrote in a folder of its own below the round's. Plain files with the names of a round's artifacts move up; all else is removed.
"""

from __future__ import annotations

import math
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from autoqec.errors import InputError
from autoqec.io.removal import remove_tree
from autoqec.io.untrusted_file import read_regular
from autoqec.layout import RoundDir
from autoqec.runner.schema import Failure, RoundMetrics

_RESULT_BYTES = 4 << 20
_LOG_BYTES = 64 << 20
_TEXT = 2000
_OWN = (
    "round_attempt_id",
    "reconcile_id",
    "branch",
    "commit_sha",
    "fork_from",
    "fork_from_canonical",
    "fork_from_ordered",
    "compose_mode",
    "conflicting_files",
    "delta_vs_parent",
    "parent_ler",
    "checkpoint_sha256",
    "train_shots_sha256",
    "train_shots_recorded",
)
"""Fields that are not the training's to fill."""
_MEASURED = (
    "reference_p",
    "ler_plain_classical",
    "ler_predecoder",
    "delta_ler",
    "delta_ler_ci_low",
    "delta_ler_ci_high",
    "flops_per_syndrome",
    "n_params",
    "per_p",
)
"""Fields that a round with the status ok has."""
_ROW = {
    **dict.fromkeys(
        ("p", "ler_plain", "ler_predecoder", "delta", "delta_low", "delta_high", "ratio_low")
        + ("us_per_shot_plain", "us_per_shot_predecoder"),
        (float, int),
    ),
    **dict.fromkeys(("ratio", "ratio_high"), (float, int, type(None))),
    **dict.fromkeys(("shots", "only_plain_failed", "only_predecoder_failed", "both_failed"), (int,)),
    "plain": (str,),
}
_HARD_FLIP = {"residual_density", "backend_us_plain", "backend_us_residual", "backend_speedup"}
_STATUSES = ("ok", "killed_by_safety", "compile_error", "train_error")


def prepare(files: RoundDir) -> None:
    """The folder for a confined training, with nothing but the state of one that was stopped there."""
    inside = RoundDir(files.confined)
    if files.confined.is_symlink() or not files.confined.is_dir():
        remove_tree(files.confined)
        files.confined.mkdir()
    _sweep(inside, keep=(inside.training_state, inside.train_log))
    files.weights.unlink(missing_ok=True)


def forget_state(files: RoundDir) -> None:
    """Removes the state of a training that is not to be resumed, wherever it trained."""
    files.training_state.unlink(missing_ok=True)
    remove_tree(files.confined)


def take_over(files: RoundDir) -> None:
    """Moves the checkpoint up and copies the log; the state of an unfinished training stays for the next one."""
    inside = RoundDir(files.confined)
    _sweep(inside, keep=(inside.training_state, inside.train_log, inside.checkpoint, inside.weights))
    for source, target in ((inside.checkpoint, files.checkpoint), (inside.weights, files.weights)):
        if source.exists():
            source.replace(target)
    remove_tree(files.train_log)
    if inside.train_log.exists():
        files.train_log.write_bytes(read_regular(inside.train_log, limit=_LOG_BYTES))
    if not inside.training_state.exists():
        remove_tree(files.confined)


def _sweep(inside: RoundDir, keep: tuple[Path, ...]) -> None:
    """Leaves plain files of these names that nothing else links to, readable, and not longer than a log may be if they are one."""
    with os.scandir(inside.path) as entries:
        found = {Path(entry.path): entry.stat(follow_symlinks=False) for entry in entries}
    for path, facts in found.items():
        is_plain = stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1
        if path in keep and is_plain and (path != inside.train_log or facts.st_size <= _LOG_BYTES):
            path.chmod(0o644)
        else:
            remove_tree(path)


def read_metrics(result: Path, files: RoundDir) -> RoundMetrics:
    """The metrics that a confined training reports, as far as they can be believed: figures, never where it comes from.

    Raises:
        InputError: they are not metrics.
    """
    where = "the round's process"
    data = read_regular(result, limit=_RESULT_BYTES)
    try:
        claimed = RoundMetrics.model_validate_json(data).model_dump(exclude=set(_OWN))
        claimed["checkpoint_path"] = _path(files.checkpoint)
        claimed["training_log_path"] = _path(files.train_log)
        metrics = RoundMetrics.model_validate(_short(claimed))
    except (ValidationError, ValueError, RecursionError) as error:
        first = str(error).splitlines()[0][:200]
        raise InputError(f"reports what are not metrics: {first}", where=where) from None
    if metrics.status not in _STATUSES:
        raise InputError(f"reports the status {metrics.status}", where=where)
    for row in (*(metrics.per_p or ()), *(metrics.baselines or ())):
        _check_row(row, where)
    if metrics.hard_flip is not None and metrics.hard_flip.keys() != _HARD_FLIP:
        raise InputError("reports other figures of hard flips than there are", where=where)
    if metrics.status == "ok":
        missing = [name for name in _MEASURED if not _is_given(getattr(metrics, name))]
        missing += [] if metrics.checkpoint_path is not None else [files.checkpoint.name]
        if missing:
            raise InputError(f"reports ok without {', '.join(missing)}", where=where)
        if not any(row["p"] == metrics.reference_p for row in metrics.per_p or ()):
            raise InputError("reports a headline at a p that it did not validate", where=where)
    return metrics


def untrusted(error: InputError) -> Failure:
    return Failure("untrusted_metrics", str(error))


def shorten(log: Path) -> None:
    """Keeps the end of what a process printed, and lets it be read."""
    log.chmod(0o644)
    if log.stat().st_size > _LOG_BYTES:
        with log.open("rb") as file:
            file.seek(-_LOG_BYTES // 8, os.SEEK_END)
            end = file.read()
        log.write_bytes(end)


def _path(path: Path) -> str | None:
    return str(path.resolve()) if path.is_file() else None


def _is_given(value: object) -> bool:
    return value is not None and value != []


def _check_row(row: Mapping[str, Any], where: str) -> None:
    bad = [name for name, types in _ROW.items() if type(row.get(name, ...)) not in types]
    bad += [name for name in row if name not in _ROW]
    bad += [name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
    if bad:
        raise InputError(f"reports a row of validation with a wrong {bad[0][:40]!r}", where=where)


def _short(value: Any) -> Any:
    """Texts as they can be printed anywhere."""
    if isinstance(value, str):
        return "".join(char if char.isprintable() or char == "\n" else "?" for char in value[:_TEXT])
    if isinstance(value, dict):
        return {_short(key): _short(inner) for key, inner in value.items()}
    return [_short(inner) for inner in value] if isinstance(value, list) else value
