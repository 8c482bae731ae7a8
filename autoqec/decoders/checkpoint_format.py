"""The container of a checkpoint, looked at without unpacking it: no torch, nothing executed, nothing decompressed.

`torch.save` writes a zip archive of stored members: a pickle that lays out tensors, and one member per storage. Here the
members are counted and the pickle's opcodes are read for the names it asks for. What passes still goes through
`weights_only` loading.
"""

from __future__ import annotations

import io
import pickletools
import re
import zipfile

from autoqec.errors import InputError

MAX_BYTES = 512 * 1024 * 1024
BRANCH = "branch"
"""Among a checkpoint's `versions`: the branch whose own code trained it, where that was not the installed package's."""
_MAX_PICKLE = 4 * 1024 * 1024
_MEMBER = re.compile(
    r"[^/]{1,200}/(data\.pkl|data/\d{1,6}|version|byteorder|\.format_version|\.storage_alignment|\.data/serialization_id)"
)
_NAMES = re.compile(r"collections OrderedDict|torch\._utils _rebuild_tensor_v2|torch \w{1,20}Storage")


def check_archive(data: bytes, *, where: str) -> None:
    """An InputError with the reason, unless `data` is laid out as `torch.save` lays out plain tensors."""
    _layout(data, where)


def description(data: bytes, *, where: str) -> str:
    """The JSON text that a checkpoint says about itself: the string after the key `info`, in the layout of a checked archive."""
    after_key = False
    for opcode, argument, _ in pickletools.genops(_layout(data, where)):
        if isinstance(argument, str) and opcode.name.endswith("UNICODE"):
            if after_key:
                return argument
            after_key = argument == "info"
    raise InputError("does not describe itself", where=where, hint="give the checkpoint.pt of a round")


def _layout(data: bytes, where: str) -> bytes:
    """The pickle of a checked archive."""
    try:
        if data[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("File is not a zip file")
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            _check_members(members, len(data), where)
            layouts = [archive.read(member) for member in members if member.filename.endswith("/data.pkl")]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError) as error:
        raise InputError(
            f"is not a readable checkpoint: {error}", where=where, hint="train the round again"
        ) from error
    if len(layouts) != 1:
        raise InputError("has no layout, or more than one", where=where, hint="train the round again")
    _check_names(layouts[0], where)
    return layouts[0]


def _check_members(members: list[zipfile.ZipInfo], size: int, where: str) -> None:
    for member in members:
        # Stored, so that no bomb is one; and no more bytes in all than the file has.
        stored = member.compress_type == zipfile.ZIP_STORED and member.file_size == member.compress_size
        if not stored or not _MEMBER.fullmatch(member.filename):
            raise InputError(
                f"archive member {member.filename[:80]!r} is compressed or does not belong there", where=where
            )
        if member.filename.endswith("data.pkl") and member.file_size > _MAX_PICKLE:
            raise InputError(f"its layout takes more than {_MAX_PICKLE >> 20} MiB", where=where)
    names = {member.filename for member in members}
    if len(names) != len(members) or sum(member.file_size for member in members) > size:
        raise InputError("archive members overlap or repeat", where=where)


def _check_names(layout: bytes, where: str) -> None:
    """Protocol 2 names what it wants in plain sight; later opcodes, which take names from the stack, are not used."""
    try:
        for opcode, argument, _ in pickletools.genops(layout):
            if opcode.name in ("STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4"):
                raise InputError(f"its layout uses {opcode.name}, and weights are data only", where=where)
            if opcode.name == "GLOBAL" and not _NAMES.fullmatch(str(argument)):
                wanted = str(argument).replace(" ", ".")[:80]
                raise InputError(f"it asks for {wanted}, and weights are data only", where=where)
    except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
        raise InputError("has a damaged layout", where=where, hint="train the round again") from error
