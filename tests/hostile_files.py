"""Checkpoint files that mean harm, for the tests of whoever reads checkpoints."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import NamedTuple

import torch


class Payload:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.target),)


def saved(content: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(content, buffer)
    return buffer.getvalue()


def zipped(members: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def with_state(round_dir: Path, **changes: object) -> bytes:
    content = torch.load(round_dir / "checkpoint.pt", weights_only=True)
    content["state"] |= changes
    return saved(content)


class Scene(NamedTuple):
    """A round with an honest checkpoint, and the folder that a payload would make."""

    round: Path
    target: Path
