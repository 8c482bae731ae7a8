"""Installing skills and agents into a user's project: all of it or nothing, and never over what the user wrote."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from autoqec.agent_tools.skills import MCP_FILE, MCP_SERVERS, pretty, project_files
from autoqec.errors import InputError
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes
from autoqec.io.strict_yaml import parse_json
from autoqec.io.untrusted_file import read_regular

RECORD = ".claude/autoqec-installed.json"
"""Hashes of what was installed. A file that still has its hash is AutoQEC's, and a newer AutoQEC may renew it."""

State = Literal["write", "same", "changed"]
_LIMIT = 1 << 20


@dataclass(frozen=True)
class Installation:
    """Paths in the project."""

    wrote: list[str]
    unchanged: list[str]


def install(dest: Path, *, force: bool = False) -> Installation:
    """Writes the project files below `dest`.

    Raises:
        InputError: files of the user stand in the way and `force` is not set; nothing was written then.
    """
    if not dest.is_dir():
        raise InputError(f"{dest} is not a folder", where="--dest", hint="make it first")
    installed = _read_object(dest / RECORD)
    files = project_files()
    record = {name: sha256_bytes(data) for name, data in files.items()}
    states = {name: _state(dest, name, data, installed.get(name)) for name, data in files.items()}
    files[MCP_FILE], states[MCP_FILE] = _with_servers(dest)
    changed = [name for name, state in states.items() if state == "changed"]
    if changed and not force:
        raise InputError(
            f"not AutoQEC's, or changed since it was installed: {', '.join(changed)}",
            where=str(dest),
            hint="move these files away, or overwrite them with --force; nothing was written",
        )
    wrote = [name for name, state in states.items() if state != "same"]
    try:
        for name in wrote:
            atomic.write_bytes(dest / name, files[name])
        if record != installed:
            atomic.write_bytes(dest / RECORD, pretty(record))
    except OSError as error:
        raise InputError(
            f"cannot write: {error.strerror}",
            where=str(error.filename or dest),
            hint="make it writable and run again",
        ) from error
    return Installation(wrote, [name for name in states if name not in wrote])


def _state(dest: Path, name: str, data: bytes, installed: object) -> State:
    found = _read(dest, name)
    if found is None:
        return "write"
    if found == data:
        return "same"
    return "write" if sha256_bytes(found) == installed else "changed"


def _with_servers(dest: Path) -> tuple[bytes, State]:
    """The project's MCP servers with AutoQEC's among them: other servers stay as they are."""
    found = {} if _read(dest, MCP_FILE) is None else _read_object(dest / MCP_FILE)
    servers = found.get("mcpServers", {})
    if not isinstance(servers, dict):
        raise InputError(
            "mcpServers is not a mapping", where=str(dest / MCP_FILE), hint="repair or remove it"
        )
    known = {name: servers[name] for name in MCP_SERVERS if name in servers}
    state: State = "same" if known == MCP_SERVERS else "changed" if known else "write"
    return pretty({**found, "mcpServers": {**servers, **MCP_SERVERS}}), state


def _read(dest: Path, name: str) -> bytes | None:
    """The file, or None where there is none; whatever else stands in its place is refused."""
    path = dest / name
    for folder in reversed(path.relative_to(dest).parents):
        if (dest / folder).exists() and not (dest / folder).is_dir():
            raise InputError("is not a folder", where=str(dest / folder), hint="move it away")
    if not path.exists() and not path.is_symlink():
        return None
    return read_regular(path, limit=_LIMIT, hint="move it away")


def _read_object(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        text = read_regular(path, limit=_LIMIT).decode()
    except UnicodeDecodeError as error:
        raise InputError("is not text", where=str(path), hint="repair or remove it") from error
    data = parse_json(text, where=str(path))
    if not isinstance(data, dict):
        raise InputError("is not a JSON object", where=str(path), hint="repair or remove it")
    return data
