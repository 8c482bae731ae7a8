"""What the workers of a verification are given before their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy.typing as npt

from autoqec.envs.problem import DecodingProblem


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A model for a worker to hold: a config with weights (or None for fresh ones), and whose code makes it. thresholds: of a cascade
    with fresh weights, in place of those that it would start with."""

    dsl: Mapping[str, Any]
    state: Mapping[str, npt.NDArray[Any]] | None
    output_mode: str
    code: Path
    seed: int = 0
    thresholds: tuple[float, ...] = ()


@dataclass(frozen=True, eq=False)
class WorkerSetup:
    """What all workers of a verification share. problems and models by name."""

    problems: Mapping[str, DecodingProblem]
    models: Mapping[str, ModelSpec]
    backend: str
    sandbox: str
    lifetime_s: float


NO_SETUP = WorkerSetup({}, {}, "", "none", 0.0)
"""For tasks that ask for neither problem nor model."""
