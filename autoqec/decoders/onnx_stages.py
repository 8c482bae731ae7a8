"""The stages of a cascade as ONNX files, one each: their names, what they say of their gates, and whether they belong together.

Beside what every file says (`decoders/onnx_file.py`):

    autoqec.stage, .stages      the number of this stage, counted from 1, and how many there are
    autoqec.cascade_sha256      of all stages and gates: the same in all files of one export
    autoqec.threshold, .gate    of the gate behind it: the number, and in words what is compared with it; the last stage has none
    autoqec.stage_order, .stage_members   the order of ordered statistics and the matchings of an ensemble behind this stage, where it has its own
    autoqec.stage_states        the patterns that a sweep over the detectors keeps, where it decides in place of the backend
    autoqec.stage_legs          the attempts of joint legs, where they decide in its place
    autoqec.stage_lets          which shots the gate behind it lets through in front of ordered statistics, where the config says so
    autoqec.earlier_answers     which output of which file the second input is, where it has one
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from autoqec.decoders.backends import backend_entry
from autoqec.decoders.gates import EXPLAINED, Gates
from autoqec.decoders.onnx_file import MAX_BYTES, OUTPUT, OnnxFile
from autoqec.errors import InputError
from autoqec.io.untrusted_file import is_there, read_regular

_SHARED = ("cascade_sha256", "checkpoint_sha256", "output", "backend", "order", "p")
_OWN = ("stage_order", "stage_members", "stage_states", "stage_legs")
_LETS = "stage_lets"
_OF_ALL = f"the margin of the best candidates of ordered statistics, less {EXPLAINED:g} where the hard decision leaves a part of the syndrome unexplained"
_AGAIN = "put the files of one export beside each other, or export the cascade again"


def stage_path(path: Path, stage: int) -> Path:
    """The file of a stage, counted from 1, of a cascade that is exported as `path`: m.stage1.onnx for m.onnx."""
    return path.with_name(f"{path.stem}.stage{stage}{path.suffix}")


def about_stage(at: int, gates: Gates, backend: str, *, sees_earlier: bool, path: Path) -> dict[str, str]:
    """What the file of a stage, counted from 0, says of its place in a cascade that is exported as `path`."""
    metadata = {"stage": str(at + 1), "stages": str(gates.stages)}
    if at < len(gates.thresholds):
        metadata["threshold"] = repr(gates.thresholds[at])
        members = gates.members[at]
        mean = "" if members is None else f", in the mean over its {members} matchings"
        own = backend_entry(backend).gate if not gates.lets_unsure(at) else _OF_ALL
        looked_at = own + mean
        metadata["gate"] = (
            f"A shot goes on to stage {at + 2} if a number is below the threshold: {looked_at}."
        )
    numbers = (gates.orders, gates.members, gates.states, gates.legs)
    for name, value in zip((*_OWN, _LETS), (each[at] for each in (*numbers, gates.lets)), strict=True):
        if value is not None:
            metadata[name] = str(value)
    if sees_earlier:
        metadata["earlier_answers"] = f"{OUTPUT} of stage {at}, {stage_path(path, at).name}"
    return metadata


def read_stages(path: Path, *, threads: int) -> list[OnnxFile]:
    """The file `path`, or, where it is the first stage of a cascade or what one was exported as, the files of all stages.

    Raises:
        InputError: a file is missing.
    """
    given = stage_path(path, 1) if not is_there(path) and is_there(stage_path(path, 1)) else path
    files = [_read(given, threads)]
    count, ending = files[0].count("stages", default=1), ".stage1"
    if count == 1 or files[0].count("stage", default=1) != 1:
        return files
    if not given.stem.endswith(ending):
        raise InputError(
            f"is the first of {count} stages, and the others are not found without {ending} in its name",
            where=str(given),
            hint="give the files the names that they were exported with",
        )
    base = given.with_name(given.stem.removesuffix(ending) + given.suffix)
    for stage in range(2, count + 1):
        if not is_there(later := stage_path(base, stage)):
            raise InputError(f"stage {stage} of {count} is not there", where=str(later), hint=_AGAIN)
        files.append(_read(later, threads))
    return files


def _read(path: Path, threads: int) -> OnnxFile:
    return OnnxFile(read_regular(path, limit=MAX_BYTES, links=True), where=str(path), threads=threads)


def gates_of_files(files: Sequence[OnnxFile]) -> Gates:
    """The gates between the stages of a cascade, or those of a single file, which has none.

    Raises:
        InputError: these are not all stages of one cascade in order.
    """
    for stage, file in enumerate(files, 1):
        _check_place(file, stage, files)
    thresholds = tuple(_threshold(file) for file in files[:-1])
    orders, members, states, legs = (_own(files, name) for name in _OWN)
    lets = tuple(file.metadata.get(_LETS) for file in files)
    return Gates(thresholds, orders, members, states, legs, lets)


def _own(files: Sequence[OnnxFile], name: str) -> tuple[int | None, ...]:
    return tuple(file.count(name, default=0) if name in file.metadata else None for file in files)


def _check_place(file: OnnxFile, stage: int, files: Sequence[OnnxFile]) -> None:
    first = files[0]
    if len(files) > 1 and "stage" not in file.metadata:
        raise InputError("is not a stage of a cascade", where=file.where, hint=_AGAIN)
    found = file.count("stage", default=1), file.count("stages", default=1)
    if found != (stage, len(files)):
        expected = f"{stage} of {len(files)}" if len(files) > 1 else "a predecoder by itself"
        hint = _AGAIN if len(files) > 1 else "give the file of the first stage, with the others beside it"
        raise InputError(f"is stage {found[0]} of {found[1]}, not {expected}", where=file.where, hint=hint)
    for name in _SHARED:
        if file.metadata.get(name) != first.metadata.get(name):
            raise InputError(
                f"belongs to another cascade than {first.where}: its {name} is another",
                where=file.where,
                hint=_AGAIN,
            )
    if stage == 1 and file.sees_earlier:
        raise InputError("is a first stage that asks for an earlier one", where=file.where, hint=_AGAIN)


def _threshold(file: OnnxFile) -> float:
    text = file.metadata.get("threshold", "")
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(
            f"has the threshold {text[:40]!r}", where=file.where, hint="export the cascade again"
        )
    return number
