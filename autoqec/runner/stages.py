"""Training the stages of a cascade: the gate in front of each, and the shots that it lets through."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from autoqec.decoders.backends import Backend, backend_entry, make_backend
from autoqec.decoders.gates import EVERY_SHOT, THRESHOLDS, Staged, expected_flops
from autoqec.decoders.modules.cascade import CascadePredecoder
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.stage_cost import stage_flops
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8
from autoqec.envs.seeds import derive_seed
from autoqec.errors import InputError
from autoqec.runner.bits import packed
from autoqec.runner.data import Batch, ShotSource, sampling_device
from autoqec.runner.hard_shots import IsHard

_DRAWS = 64
MOST_LOOKED_THROUGH = 64
"""Times the batch: shots that are looked through for each step."""


def threshold(found: Staged, stage: int, share: float) -> float:
    """The threshold behind a stage that lets `share` of all shots go on, and not more.

    found: all shots through the stages up to this one, with how sure the backend is of each.
    """
    numbers = np.sort(found.sure[found.stage == stage])
    wanted = int(share * len(found.stage))
    if wanted >= len(numbers):
        return EVERY_SHOT
    number = min(numbers[wanted], EVERY_SHOT)
    # As a checkpoint keeps it: not above, or all shots that are as sure would go on.
    kept = np.float32(number)
    return float(kept if kept <= number else np.nextafter(kept, np.float32(-np.inf)))


def planned_share(module: CascadePredecoder, backend: Backend, stage: int) -> float:
    """The share of shots that the config lets reach a stage, whose training has not begun; only a mean cost asks for a count."""
    if (said := module.shares_said[stage]) is not None:
        return said
    wants_edges = backend_entry(backend.name).wants_edges
    flops_of = stage_flops(copy.deepcopy(module).cpu(), backend.problem, wants_edges=wants_edges)
    return module.planned_shares(flops_of)[stage]


def set_threshold(
    module: CascadePredecoder, backend: Backend, detectors: U8, device: torch.device, share: float
) -> None:
    """Opens the gate behind the last stage in use so far that `share` of these shots goes on."""
    last = module.active - 1
    found = PredecoderPipeline(module, backend, device=device, threads=None).staged(
        detectors, sure_of_all=True
    )
    with torch.no_grad():
        module.thresholds[last] = threshold(found, last, share)


def take_earlier(module: CascadePredecoder, weights: Mapping[str, Tensor], stage: int) -> None:
    """Takes over the stages before this one, and the gates."""
    waiting = tuple(f"stages.{at}." for at in range(stage, len(module.stages)))
    known = {name: value for name, value in weights.items() if not name.startswith(waiting)}
    module.load_state_dict(known, strict=False)


def same_weights(module: CascadePredecoder, before: Mapping[str, Tensor]) -> bool:
    """Whether the weights of all stages are those of `before`, wherever the gates stand."""
    now = module.state_dict().items()
    return all(name == THRESHOLDS or torch.equal(value.cpu(), before[name]) for name, value in now)


class LeftOpen:
    """Whether the stages before the one that trains leave a shot open, as they are now. device: where that one trains."""

    def __init__(self, module: CascadePredecoder, backend: Backend, device: torch.device) -> None:
        frozen = copy.deepcopy(module).eval()
        frozen.active = module.active - 1
        self._last = frozen.active - 1
        self._threshold = float(frozen.thresholds[self._last])
        self._decoder = PredecoderPipeline(frozen, backend, device=sampling_device(device), threads=None)

    def __call__(self, detectors: U8, _observables: U8) -> npt.NDArray[np.bool_]:
        found = self._decoder.staged(detectors, sure_of_all=True)
        return np.asarray((found.stage == self._last) & (found.sure < self._threshold))


class OpenSource:
    """Shots that are left open, with their fault labels. A function of (size, seed), like those of the source that it looks through."""

    def __init__(self, source: ShotSource, is_open: IsHard) -> None:
        self._source, self._is_open = source, is_open

    def sample(self, size: int, seed: int) -> Batch:
        found: list[Batch] = []
        for draw in range(_DRAWS):
            fresh = self._source.sample(4 * size, derive_seed("open", str(seed), draw))
            rows = np.flatnonzero(self._is_open(packed(fresh.syndrome), packed(fresh.observables)))
            found.append(fresh.take(torch.from_numpy(rows).to(fresh.syndrome.device)))
            if sum(map(len, found)) >= size:
                break
        first = found[0]
        everything = Batch(
            torch.cat([part.syndrome for part in found]),
            torch.cat([part.observables for part in found]),
            None if first.faults is None else torch.cat([part.faults for part in found], dim=1),  # type: ignore[misc]
            torch.cat([part.which for part in found]),
            first.priors,
            first.joint_priors,
        )
        if not len(everything):
            raise InputError(
                f"no open shot among {4 * size * _DRAWS:,}",
                where="stages",
                hint="let more shots go on: raise share or mean_flops",
            )
        return everything.take(torch.arange(min(size, len(everything)), device=first.syndrome.device))


def shares_by_p(
    module: CascadePredecoder,
    env: Environment,
    device: torch.device,
    shots: int,
    flops: tuple[int, ...],
) -> dict[str, Any]:
    """What the cascade costs at every p of the sweep: `RoundMetrics.cascade`. flops: of its stages, for a shot that reaches them."""
    rows = []
    low, _ = env.spec.noise.seed_policy.val
    for p in sorted(env.spec.noise.p):
        backend = make_backend(env.problem(p), env.spec.classical_backend)
        detectors = env.sampler(p).sample(shots, derive_seed("val-shares", env.stream(p), low)).detectors
        found = PredecoderPipeline(module, backend, device=device, threads=None).reached(detectors)
        shares = [count / shots for count in found]
        rows.append(
            {"p": p, "shots": shots, "shares": shares, "flops_per_syndrome": expected_flops(flops, shares)}
        )
    return {
        "stage_flops": list(flops),
        "worst_flops": sum(flops),
        "thresholds": module.thresholds.tolist(),
        "per_p": rows,
    }
