"""Hostile checkpoint files: refused with a reason before any model code runs, and nothing happens."""

from __future__ import annotations

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import torch

from cheats.corpus import cheat
from cheats.scene import Outcome, Scene, act, saved

_DEFENCE = (
    "the file is parsed as data, in the sandbox: stored zip members, weights_only, plain finite tensors"
)


class _Payload:
    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.target),)


def _refused(scene: Scene, data: bytes | None = None, round_dir: Path | None = None) -> Outcome:
    """The outcome with `data` for a checkpoint; an act that went through is what counts."""
    folder = round_dir or scene.round()
    if data is not None:
        (folder / "checkpoint.pt").write_bytes(data)
    outcome = scene.verify(folder)
    left = scene.marker.exists() or scene.home.exists() or (folder / "verification_report.json").exists()
    return act(True, "it left something behind") if left else outcome


def _with_state(round_dir: Path, **changes: Any) -> bytes:
    content = torch.load(round_dir / "checkpoint.pt", weights_only=True)
    content["state"] |= changes
    return saved(content)


def _file(name: str, how: str, because: str) -> Any:
    return cheat(
        name,
        family="hostile checkpoint",
        how=how,
        defence=_DEFENCE,
        expect="refused",
        because=because,
    )


@_file("pickle payload", "checkpoint.pt holds a pickle that calls os.mkdir when it is loaded", "mkdir")
def _pickle(scene: Scene) -> Outcome:
    evil = scene.folder / "evil.pt"
    evil.write_bytes(saved({"info": _Payload(scene.marker), "state": {}}))
    torch.load(evil, weights_only=False)
    ran = scene.marker.exists()
    scene.marker.rmdir()
    outcome = _refused(scene, evil.read_bytes())
    return Outcome(outcome.result, outcome.by, "it runs code" if ran else None)


@_file("zip bomb", "200 MiB of zeros compressed into a small archive member", "compressed")
def _bomb(scene: Scene) -> Outcome:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", bytes(200 << 20))
    return _refused(scene, buffer.getvalue())


@_file(
    "tensor of 10^12 elements",
    "one stored number expanded to 10^12 elements by a stride of zero",
    "sparse or strided",
)
def _expanded(scene: Scene) -> Outcome:
    folder = scene.round()
    return _refused(scene, _with_state(folder, **{"bp.readout": torch.zeros(1).expand(10**12)}), folder)


@_file("sparse tensor", "a sparse tensor whose dense form would not fit into memory", "sparse")
def _sparse(scene: Scene) -> Outcome:
    folder = scene.round()
    big = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.ones(1), (10**12,))
    return _refused(scene, _with_state(folder, **{"bp.readout": big}), folder)


@_file(
    "overlapping strides",
    "a tensor that is a window over itself, so that one write changes many weights",
    "sparse or strided",
)
def _strided(scene: Scene) -> Outcome:
    folder = scene.round()
    window = torch.ones(8).as_strided((6, 2), (1, 1))
    return _refused(scene, _with_state(folder, **{"bp.readout": window}), folder)


@_file("truncated file", "the last kilobyte of the checkpoint is missing", "is not a readable checkpoint")
def _truncated(scene: Scene) -> Outcome:
    folder = scene.round()
    return _refused(scene, (folder / "checkpoint.pt").read_bytes()[:-1024], folder)


@_file("a tensor too many", "a table travels in a tensor that the config does not ask for", "other tensors")
def _extra(scene: Scene) -> Outcome:
    folder = scene.round()
    return _refused(scene, _with_state(folder, table=torch.ones(1000)), folder)


@_file("NaN weights", "one weight is NaN", "NaN or infinite")
def _nan(scene: Scene) -> Outcome:
    return _refused(
        scene, None, scene.round(change=lambda weights: weights["head.linear"].fill_(float("nan")))
    )


@_file(
    "symlinked checkpoint",
    "checkpoint.pt is a link to a file that is swapped between check and use",
    "symbolic link",
)
def _linked(scene: Scene) -> Outcome:
    folder = scene.round()
    (folder / "checkpoint.pt").rename(folder / "real.pt")
    (folder / "checkpoint.pt").symlink_to("real.pt")
    return _refused(scene, None, folder)


@_file("endless file", "checkpoint.pt is a sparse file of one terabyte", "larger than")
def _endless(scene: Scene) -> Outcome:
    folder = scene.round()
    os.truncate(folder / "checkpoint.pt", 1 << 40)
    return _refused(scene, None, folder)


@_file(
    "pipe for a checkpoint",
    "checkpoint.pt is a named pipe that would block the verifier for ever",
    "not a regular file",
)
def _pipe(scene: Scene) -> Outcome:
    folder = scene.round()
    (folder / "checkpoint.pt").unlink()
    os.mkfifo(folder / "checkpoint.pt")
    return _refused(scene, None, folder)
