"""A predecoder config as files that git can merge: one file per mechanism, one option per line.

Every option is written out, also those of blocks that the type does not use, and stands under a comment with its name:
git sees a conflict where neighbouring lines change, so options are never neighbours. Two branches that change
different options therefore merge, and two that change the same one do not. A change of type is a change of one line.

    experiment/type.yaml  gnn.yaml  neural_bp.yaml  head.yaml  hard_flip.yaml  training.yaml
    experiment/custom/gnn.message_fn.py  gnn.message_fn.yaml      code and declared parameters of a tier-2 function
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, get_args

from autoqec.decoders.dsl_schema import (
    EdgeFeature,
    GnnSpec,
    HardFlipSpec,
    NeuralBpSpec,
    PredecoderDSL,
    canonical_dict,
)
from autoqec.errors import InputError
from autoqec.io.crash_points import crash_point
from autoqec.io.removal import remove_tree
from autoqec.io.strict_yaml import dump_yaml, parse_yaml
from autoqec.io.validate import validate_model
from autoqec.layout import ExperimentDir

Files = dict[str, bytes]
"""Content by path below `experiment/`."""

_BLOCKS = {"gnn": GnnSpec, "neural_bp": NeuralBpSpec, "hard_flip": HardFlipSpec}
_TYPE = ("type", "output_mode", "stages", "mean_flops")
_SLOTS = ("gnn.message_fn", "gnn.aggregation", "head")
_FEATURES = "edge_features"


def to_files(dsl: PredecoderDSL, before: Mapping[str, bytes] | None = None) -> Files:
    """The files of a config. Blocks that it does not use stay as they are `before`, else at their defaults."""
    options = _defaults() if before is None else _read_options(before)
    files: Files = {}
    for mechanism, values in _mechanisms(canonical_dict(dsl)).items():
        options[mechanism] = values
    for slot, function in dsl.custom_functions.items():
        block, _, option = slot.rpartition(".")
        options[block or "head"][option] = "custom"
        files[_name(ExperimentDir("").code(slot))] = function.code.encode()
        if function.params_declared:
            files[_name(ExperimentDir("").params(slot))] = _lines(function.params_declared)
    for slot in set(_SLOTS) - set(dsl.custom_functions):
        block = slot.rpartition(".")[0]
        if before is not None and block and not _uses(dsl.type, dsl.output_mode, block):
            kept = [_name(ExperimentDir("").code(slot)), _name(ExperimentDir("").params(slot))]
            files |= {name: before[name] for name in kept if name in before}
    return files | {
        _name(ExperimentDir("").options(name)): _lines(values) for name, values in options.items()
    }


def from_files(files: Mapping[str, bytes], *, where: str = ExperimentDir.NAME) -> PredecoderDSL:
    """The config that the files say; an InputError names the file that is wrong."""
    options = _read_options(files, where=where)
    kind, mode = str(options["type"].get("type")), str(options["type"].get("output_mode"))
    data: dict[str, Any] = dict(options["type"])
    for block in _BLOCKS:
        if _uses(kind, mode, block):
            data[block] = _with_feature_list(options[block])
    data |= {"head": options["head"].get("head"), "training": options["training"]}
    for slot in _SLOTS:
        block, _, option = slot.rpartition(".")
        holder = data.get(block) if block else data
        if holder is not None and holder.get(option) == "custom":
            holder[option] = _custom(files, slot, where)
    return validate_model(data, PredecoderDSL, where=where)


def read_files(checkout: Path) -> Files:
    """The mechanism files of a checkout. Links and anything that is not a mechanism's file are refused."""
    folder = ExperimentDir(checkout)
    known = _known_files()
    files: Files = {}
    _refuse_link(folder.path)
    for path in sorted(folder.path.rglob("*")):
        if path.is_relative_to(folder.rounds) or (path.is_dir() and not path.is_symlink()):
            continue
        name = path.relative_to(folder.path).as_posix()
        if path.is_symlink() or not path.is_file() or name not in known:
            raise InputError(
                "is not a file of a mechanism",
                where=str(path),
                hint=f"known files: {', '.join(sorted(known))}",
            )
        files[name] = path.read_bytes()
    return files


def replace_files(checkout: Path, files: Mapping[str, bytes]) -> None:
    """Makes the mechanism files of a checkout those in `files`."""
    folder = ExperimentDir(checkout)
    for path in (folder.path, folder.custom):
        _refuse_link(path)
    for name in _known_files() - set(files):
        remove_tree(folder.path / name)
    write_inside(checkout, {f"{ExperimentDir.NAME}/{name}": content for name, content in files.items()})


def _refuse_link(folder: Path) -> None:
    if folder.is_symlink():
        raise InputError("is a symbolic link", where=str(folder), hint="make it a folder")


def write_inside(checkout: Path, files: Mapping[str, bytes]) -> None:
    """Writes files by their path in a checkout; a link that leads out of it is refused, not followed."""
    root = checkout.resolve()
    for name, content in files.items():
        path = root / name
        crash_point(f"before writing {path.name} in the worktree")
        if not path.parent.resolve().is_relative_to(root):
            raise InputError("leads out of the worktree", where=str(path.parent))
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError("has a file where a folder belongs", where=str(path.parent)) from None
        remove_tree(path)
        path.write_bytes(content)


def lost_changes(
    base: Mapping[str, bytes], parent: Mapping[str, bytes], merged: Mapping[str, bytes]
) -> list[str]:
    """Files in which the parent changed options that count in it and no longer count in the merge.

    Git merges a change of type on one side with a change inside a block of the old type on the other; the second is
    then there to read and has no effect.
    """
    old, new, now = (_read_options(files) for files in (base, parent, merged))
    lost = []
    for block in _BLOCKS:
        counted = _uses(str(new["type"]["type"]), str(new["type"]["output_mode"]), block)
        counts = _uses(str(now["type"]["type"]), str(now["type"]["output_mode"]), block)
        touched = old[block] != new[block] or any(
            base.get(name) != parent.get(name) for name in parent if name.startswith(f"custom/{block}.")
        )
        if counted and not counts and touched:
            lost.append(_name(ExperimentDir("").options(block)))
    return [_name(ExperimentDir("").options("type")), *lost] if lost else []


def _mechanisms(config: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The options of each mechanism of a canonical config."""
    out: dict[str, dict[str, Any]] = {
        "type": {name: config[name] for name in _TYPE if name in config},
        "head": {"head": config["head"]},
        "training": dict(config["training"]),
    }
    return out | {block: _with_feature_flags(config[block]) for block in _BLOCKS if block in config}


def _defaults() -> dict[str, dict[str, Any]]:
    return {block: _with_feature_flags(model().model_dump(mode="json")) for block, model in _BLOCKS.items()}


def _with_feature_flags(block: dict[str, Any]) -> dict[str, Any]:
    """A set of features is one option per feature: two branches may add one each."""
    chosen = block.get(_FEATURES)
    if chosen is None:
        return dict(block)
    flags = {f"{_FEATURES}.{name}": name in chosen for name in get_args(EdgeFeature)}
    return {name: value for name, value in block.items() if name != _FEATURES} | flags


def _with_feature_list(block: dict[str, Any]) -> dict[str, Any]:
    prefix = f"{_FEATURES}."
    plain = {name: value for name, value in block.items() if not name.startswith(prefix)}
    chosen = [
        name.removeprefix(prefix)
        for name, value in block.items()
        if name.startswith(prefix) and value is True
    ]
    return plain | ({_FEATURES: chosen} if any(name.startswith(prefix) for name in block) else {})


def _uses(kind: str, mode: str, block: str) -> bool:
    return mode == "hard_flip" if block == "hard_flip" else kind in (block, "hybrid")


def _lines(options: Mapping[str, Any]) -> bytes:
    return "".join(f"# {name}\n{dump_yaml({name: value})}" for name, value in options.items()).encode()


def _read_options(
    files: Mapping[str, bytes], *, where: str = ExperimentDir.NAME
) -> dict[str, dict[str, Any]]:
    options = {}
    for mechanism in ("type", *_BLOCKS, "head", "training"):
        name = _name(ExperimentDir("").options(mechanism))
        options[mechanism] = _mapping(files, name, where)
    return options


def _custom(files: Mapping[str, bytes], slot: str, where: str) -> dict[str, Any]:
    code = _name(ExperimentDir("").code(slot))
    if code not in files:
        raise InputError(
            f"{slot} is custom and has no code", where=f"{where}/{code}", hint="write the function there"
        )
    params = _mapping(files, _name(ExperimentDir("").params(slot)), where, missing_ok=True)
    return {"type": "custom", "code": _text(files[code], f"{where}/{code}"), "params_declared": params}


def _mapping(
    files: Mapping[str, bytes], name: str, where: str, *, missing_ok: bool = False
) -> dict[str, Any]:
    place = f"{where}/{name}"
    if name not in files:
        if missing_ok:
            return {}
        raise InputError("is missing", where=place, hint="restore it from the parent branch")
    data = parse_yaml(_text(files[name], place), where=place)
    if not isinstance(data, dict):
        raise InputError("is not a list of options", where=place, hint="expected `option: value` lines")
    return data


def _text(content: bytes, where: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise InputError("is not UTF-8 text", where=where) from None


def _name(path: Path) -> str:
    return PurePosixPath(*path.parts[1:]).as_posix()


def _known_files() -> set[str]:
    folder = ExperimentDir("")
    options = [folder.options(name) for name in ("type", *_BLOCKS, "head", "training")]
    custom = [path for slot in _SLOTS for path in (folder.code(slot), folder.params(slot))]
    return {_name(path) for path in (*options, *custom)}
