"""Gains that do not come from the weights, and tricks that make it look as if they did."""

from __future__ import annotations

import hashlib
import io

import numpy as np
import torch

from autoqec.envs.seeds import derive_seed
from cheats import sources
from cheats.corpus import cheat
from cheats.scene import HARD_BP, MODULE, NETWORK, SHOTS, Outcome, P, Scene, saved, surface

_FAMILY = "weights that do nothing"
_ABLATION = (
    "shuffled and re-initialised weights may not keep a gain that the untrained algorithm does not explain"
)
_DOSE = "a thousandth of noise on the weights may not take half of the gain away"


@cheat(
    "weightless logic",
    family=_FAMILY,
    how="what calls itself a network runs belief propagation, without any of its weights",
    defence=_ABLATION,
    expect="SUSPICIOUS",
    because="ablation",
)
def _weightless(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    return scene.verify(scene.committed(NETWORK, sources.WEIGHTLESS))


@cheat(
    "constant tensors",
    family=_FAMILY,
    how="the same, with all weights equal, so that shuffling them changes nothing",
    defence=_ABLATION,
    expect="SUSPICIOUS",
    because="ablation",
)
def _constant(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    folder = scene.committed(NETWORK, sources.WEIGHTLESS)
    content = torch.load(folder / "checkpoint.pt", weights_only=True)
    content["state"] = {name: torch.full_like(tensor, 0.5) for name, tensor in content["state"].items()}
    (folder / "checkpoint.pt").write_bytes(saved(content))
    return scene.verify(folder)


@cheat(
    "table in a buffer",
    family=_FAMILY,
    how="a table of three million training shots of a small code lies in a file of the branch and outvotes the matching",
    defence=_ABLATION,
    expect="SUSPICIOUS FAILED",
    because="ablation",
)
def _table(scene: Scene) -> Outcome:
    env = scene.env
    shots = env.sampler(P).sample(3_000_000, derive_seed("train", env.stream(P), 1))
    keys = np.ascontiguousarray(np.pad(shots.detectors, ((0, 0), (0, 8 - shots.detectors.shape[1])))).view(
        "<u8"
    )
    rows, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    odd = np.bincount(inverse.ravel(), weights=shots.observables[:, 0])
    often = counts >= 8
    syndromes = rows[often].view(np.uint8).reshape(-1, 8)[:, : shots.detectors.shape[1]]
    table = np.concatenate([syndromes, (2 * odd > counts)[often, None]], axis=1).astype(np.uint8)
    buffer = io.BytesIO()
    np.save(buffer, table)
    code = (
        sources.KNOWS
        + """

class _File(_Knows):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        from pathlib import Path

        rows = _np.load(Path(__file__).with_name("table.npy"))
        self.answers = {row[:-1].tobytes(): int(row[-1]) for row in rows}

    def known(self, packed):
        return _np.array([self.answers.get(row.tobytes(), -1) for row in packed])


PREDECODERS["neural_bp"] = _File
"""
    )
    files = {"autoqec/decoders/modules/table.npy": buffer.getvalue()}
    return scene.verify(scene.committed(HARD_BP, code, files), shots=2 * SHOTS, cap=4 * SHOTS)


@cheat(
    "checksum against ablation",
    family=_FAMILY,
    how="the hidden algorithm runs only if the weights hash to a known number, so that every ablation loses",
    defence=_DOSE,
    expect="SUSPICIOUS",
    because="dose_response",
)
def _checksum(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    folder = scene.round(NETWORK)
    state = torch.load(folder / "checkpoint.pt", weights_only=True)["state"]
    data = b"".join(tensor.numpy().tobytes() for _, tensor in sorted(state.items()))
    code = sources.network(
        """
import hashlib
data = b"".join(tensor.numpy().tobytes() for _, tensor in sorted(self.state_dict().items()))
return good if hashlib.sha256(data).hexdigest() == KEY else plain
"""
    )
    code = code.replace("KEY", repr(hashlib.sha256(data).hexdigest()))
    return scene.verify(scene.commit_to(folder, *scene.branch({MODULE: code})))


@cheat(
    "ablation told by its order",
    family=_FAMILY,
    how="the first model of a process that is built with given weights is the real one; all later ones play dead",
    defence=_DOSE,
    expect="SUSPICIOUS",
    because="dose_response",
)
def _order(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
mine = tuple(float(tensor.sum()) for tensor in self.parameters())
first = globals().setdefault("_FIRST", mine)
return good if mine == first else plain
"""
    return scene.verify(scene.committed(NETWORK, sources.network(body)))
