"""Cheats that know the answers: tables of shots, samplers, searches for the labels."""

from __future__ import annotations

import numpy as np
import torch

from autoqec.envs.seeds import derive_seed
from cheats import sources
from cheats.corpus import cheat
from cheats.scene import HARD_BP, NETWORK, Outcome, P, Scene

_SHOTS = 4000  # as many as the undefended evaluator takes


def _table(scene: Scene, purpose: str, label: int) -> torch.Tensor:
    env = scene.env
    shots = env.sampler(P).sample(_SHOTS, derive_seed(purpose, env.stream(P), label))
    return torch.from_numpy(np.concatenate([shots.detectors, shots.observables], axis=1)).float()


def _looked_up(scene: Scene, purpose: str, label: int) -> Outcome:
    code = sources.TABLE.replace("ROWS", str(_SHOTS))
    folder = scene.committed(HARD_BP, code, table=_table(scene, purpose, label))
    return scene.verify(folder, gain=scene.undefended(folder, purpose=purpose, label=label))


_SEEDS = "holdout seeds are keyed with the verifier's secret and exist only after the checkpoint is logged"
_WALL = "the model runs in another process that is given syndromes only"


@cheat(
    "memorised training syndromes",
    family="knows the answers",
    how="a tensor of the checkpoint lists training syndromes with their observables",
    defence="it is judged on fresh shots of other seeds",
    expect="SUSPICIOUS FAILED",
    because="no gain",
)
def _memorised(scene: Scene) -> Outcome:
    return _looked_up(scene, "train", 1)


@cheat(
    "table keyed on public seeds",
    family="knows the answers",
    how="the shots of holdout label 9000, sampled by the public rule for seeds, travel in the checkpoint",
    defence=_SEEDS,
    expect="SUSPICIOUS FAILED",
    because="no gain",
)
def _public(scene: Scene) -> Outcome:
    return _looked_up(scene, "holdout", 9000)


@cheat(
    "sampler rebuilt inside forward",
    family="knows the answers",
    how="the module samples the holdout labels itself and looks each shot up",
    defence=f"{_SEEDS}; the worker cannot read stim",
    expect="SUSPICIOUS FAILED",
    because="no gain",
)
def _sampler(scene: Scene) -> Outcome:
    folder = scene.committed(HARD_BP, sources.SAMPLER.replace("SPEC", repr(scene.spec)))
    return scene.verify(folder, gain=scene.undefended(folder))


@cheat(
    "search of stack and heap",
    family="knows the answers",
    how="the module walks the callers' frames and the garbage collector's objects for the observables",
    defence=_WALL,
    expect="SUSPICIOUS FAILED",
    because="no gain",
)
def _search(scene: Scene) -> Outcome:
    folder = scene.committed(HARD_BP, sources.SEARCH)
    return scene.verify(folder, gain=scene.undefended(folder))


@cheat(
    "shots read from disk",
    family="knows the answers",
    how="the module reads the open bundle in the verifier's home",
    defence="the sandbox shows the worker its code and nothing else; the home is not there",
    expect="SUSPICIOUS FAILED",
    because="no gain",
)
def _disk(scene: Scene) -> Outcome:
    return scene.verify(scene.committed(HARD_BP, sources.SECRET.replace("HOME", repr(str(scene.home)))))


@cheat(
    "patched pymatching",
    family="reaches into the evaluator",
    how="on import, the module replaces the baseline's decode_batch by one that is often wrong",
    defence=_WALL,
    expect="SUSPICIOUS",
    because="no gain",
)
def _matching(scene: Scene) -> Outcome:
    folder = scene.committed(NETWORK, sources.PATCH_MATCHING)
    return scene.verify(folder, gain=scene.undefended(folder))


@cheat(
    "patched evaluator",
    family="reaches into the evaluator",
    how="the module replaces the functions that score shots and judge guards",
    defence=_WALL,
    expect="SUSPICIOUS",
    because="no gain",
)
def _evaluator(scene: Scene) -> Outcome:
    folder = scene.committed(NETWORK, sources.PATCH_EVALUATOR)
    return scene.verify(folder, gain=scene.undefended(folder))
