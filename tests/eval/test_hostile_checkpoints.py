"""Hostile rounds, end to end: refused with a reason, before any model code runs, and nothing happens."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hostile_files import Payload, Scene, saved, with_state, zipped

from autoqec.envs.environment import Environment
from autoqec.errors import InputError, UnavailableError
from autoqec.eval import verify as verify_module
from autoqec.eval.subject import read_subject
from autoqec.eval.verify import VerifyOptions, verify
from autoqec.layout import VerifierDir
from autoqec.sandbox.kinds import Unconfined, strongest

Maker = Callable[..., Path]


ATTACKS: dict[str, tuple[Callable[[Scene], bytes], str]] = {
    "pickle payload": (lambda s: saved({"info": Payload(s.target), "state": {}}), "posix.mkdir"),
    "zip bomb": (lambda _: zipped({"archive/data.pkl": bytes(200 << 20)}), "compressed"),
    "a tensor too many": (lambda s: with_state(s.round, table=torch.ones(3)), "other tensors"),
    "a tensor of another shape": (lambda s: with_state(s.round, **{"bp.readout": torch.ones(9)}), "expected"),
    "a tensor of another type": (
        lambda s: with_state(s.round, **{"bp.readout": torch.ones(6, dtype=torch.float64)}),
        "expected",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_refused_with_its_reason_and_without_side_effects(
    name: str, make_round: Maker, env: Environment, tmp_path: Path
) -> None:
    attack, word = ATTACKS[name]
    scene = Scene(make_round(tmp_path / "round"), tmp_path / "happened")
    (scene.round / "checkpoint.pt").write_bytes(attack(scene))
    before = sorted(scene.round.iterdir())
    with pytest.raises(InputError, match=word) as refused:
        verify(scene.round, env, VerifyOptions(home=tmp_path / "home", workers=1))
    assert "checkpoint.pt" in str(refused.value.where)
    assert not scene.target.exists()
    assert sorted(scene.round.iterdir()) == before
    assert not (tmp_path / "home").exists()


def test_a_tier_2_config_is_refused_where_nothing_confines_it(
    make_round: Maker, env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def message(x_src, x_dst, e_ij, params):\n    return torch.tanh(params.W(x_src) + e_ij)\n"
    custom = {"type": "custom", "code": code, "params_declared": {"W": "Linear(hidden, hidden)"}}
    dsl = {
        "type": "gnn",
        "output_mode": "soft_priors",
        "gnn": {"layers": 1, "hidden_dim": 4, "message_fn": custom},
    }
    folder = make_round(tmp_path / "round", dsl)
    monkeypatch.setattr(verify_module, "strongest", Unconfined)
    with pytest.raises(UnavailableError, match="sandbox"):
        verify(folder, env, VerifyOptions(home=tmp_path / "home", workers=1))


def test_metrics_that_are_no_json_or_huge_are_only_absent(
    make_round: Maker, env: Environment, tmp_path: Path
) -> None:
    folder = make_round(tmp_path / "round")
    (folder / "metrics.json").write_text("[" * 200_000)
    (folder / "artifact_manifest.json").write_text(json.dumps([1, 2, 3]))
    subject = read_subject(folder, env, strongest(), VerifierDir(tmp_path / "home"), None)
    assert subject.metrics is None
    assert subject.manifest is None
    (folder / "metrics.json").unlink()
    os.mkfifo(folder / "metrics.json")
    assert read_subject(folder, env, strongest(), VerifierDir(tmp_path / "home"), None).metrics is None
