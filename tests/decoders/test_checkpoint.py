"""Checkpoint files: what is written is what is read, and what wants to do something is refused."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hostile_files import Payload, Scene, saved, with_state, zipped

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.errors import InputError

CONFIG = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 6}}


def honest(folder: Path) -> Path:
    problem = load_env("surface_d3_depol").problem(0.01)
    dsl = PredecoderDSL.model_validate(CONFIG)
    info = checkpoint.CheckpointInfo(
        dsl=dsl,
        output_mode="soft_priors",
        env_name="x",
        env_hash="y",
        seed=3,
        train_labels=(1, 9),
        versions={},
    )
    folder.mkdir()
    checkpoint.save(folder, compile_predecoder(dsl, problem), info)
    return folder


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    path = honest(tmp_path / "round") / "checkpoint.pt"
    info, module = checkpoint.load(path, load_env("surface_d3_depol").problem(0.01))
    assert (info.seed, info.train_labels) == (3, (1, 9))
    assert module.state_dict().keys() == torch.load(path, weights_only=True)["state"].keys()


Attack = Callable[[Scene], bytes]
ATTACKS: dict[str, tuple[Attack, str]] = {
    "pickle payload in the description": (
        lambda s: saved({"info": Payload(s.target), "state": {}}),
        "posix.mkdir",
    ),
    "pickle payload among the weights": (
        lambda s: with_state(s.round, **{"bp.weight": Payload(s.target)}),
        "posix.mkdir",
    ),
    "10^12 elements by a stride of zero": (
        lambda s: with_state(s.round, **{"bp.weight": torch.ones(1).expand(10**12)}),
        "strided",
    ),
    "sparse tensor of 10^12 elements": (
        lambda s: with_state(
            s.round,
            **{
                "bp.weight": torch.sparse_coo_tensor(
                    torch.zeros(1, 1), [1.0], (10**12,), check_invariants=False
                )
            },
        ),
        "it asks for",
    ),
    "transposed tensor": (lambda s: with_state(s.round, **{"bp.weight": torch.ones(6, 7).T}), "strided"),
    "NaN weights": (lambda s: with_state(s.round, **{"bp.readout": torch.full((6,), float("nan"))}), "NaN"),
    "complex numbers": (lambda s: with_state(s.round, **{"bp.readout": torch.ones(6) * 1j}), "complex"),
    **{
        f"{dtype}": (
            lambda s, dtype=dtype: with_state(s.round, **{"bp.readout": torch.ones(6).to(dtype)}),
            "weights are real numbers",
        )
        for dtype in (torch.int64, torch.int8, torch.uint8, torch.bool, torch.bfloat16)
    },
    "no tensor": (lambda s: with_state(s.round, **{"bp.readout": [1.0] * 6}), "not a plain tensor"),
    "truncated file": (lambda s: (s.round / "checkpoint.pt").read_bytes()[:-300], "zip"),
    "no zip archive": (lambda _: b"\x80\x02}q\x00." * 10, "zip"),
    "zip bomb": (lambda _: zipped({"archive/data.pkl": bytes(200 << 20)}), "compressed"),
    "foreign members": (
        lambda _: zipped({"archive/data.pkl": b"", "../../etc/x": b""}, zipfile.ZIP_STORED),
        "does not belong",
    ),
    "script archive": (
        lambda _: zipped({"a/constants.pkl": b"", "a/data.pkl": b""}, zipfile.ZIP_STORED),
        "does not belong",
    ),
    "another layout": (lambda _: saved({"weights": {}}), "layout"),
    "damaged description": (lambda _: saved({"info": "{" * 100_000, "state": {}}), "description"),
    "a description without its parts": (lambda _: saved({"info": "{}", "state": {}}), "dsl"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_hostile_files_are_refused_with_their_reason(name: str, tmp_path: Path) -> None:
    attack, word = ATTACKS[name]
    scene = Scene(honest(tmp_path / "round"), tmp_path / "happened")
    path = scene.round / "checkpoint.pt"
    path.write_bytes(attack(scene))
    with pytest.raises(InputError, match=word) as refused:
        checkpoint.read(path)
    assert "checkpoint.pt" in str(refused.value.where)
    assert not scene.target.exists()


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "nothing"])
def test_only_a_regular_file_is_opened(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    elsewhere = (honest(tmp_path / "round") / "checkpoint.pt").rename(tmp_path / "elsewhere.pt")
    acts: dict[str, Callable[[], object]] = {
        "link": lambda: path.symlink_to(elsewhere),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "nothing": lambda: None,
    }
    acts[kind]()
    with pytest.raises(InputError, match=r"link|regular|opened"):
        checkpoint.read(path)
