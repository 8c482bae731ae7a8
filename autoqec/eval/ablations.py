"""Ablated forms of a checkpoint: what is left of a gain without the learned numbers?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from autoqec.decoders.dsl_schema import NeuralBpSpec
from autoqec.eval.model_code import installed
from autoqec.eval.subject import Subject
from autoqec.eval.verifier_worker import ModelSpec

State = Mapping[str, npt.NDArray[Any]]

DOSES = (0.001, 0.1, 0.3, 1.0)
"""Noise in units of each tensor's root mean square. The first must leave a gain in place: weights that work only to the last
digit are a key, not a model."""

REAL, SHUFFLED, REINITIALISED, UNTRAINED = "real", "shuffled", "reinitialised", "untrained"


def noisy(dose: float) -> str:
    return f"noise {dose:g}"


def variants(subject: Subject, seed: int) -> dict[str, ModelSpec]:
    """The checkpoint itself and its ablated forms by name; a function of `seed`, which the model cannot know."""
    rng = np.random.default_rng(seed)
    code = subject.code.root

    def of(state: State | None, model_seed: int = 0) -> ModelSpec:
        return ModelSpec(subject.dsl, state, subject.output_mode, code, model_seed)

    forms = {
        REAL: of(subject.state),
        SHUFFLED: of(shuffled(subject.state, rng)),
        REINITIALISED: of(None, int(rng.integers(1, 2**31))),
    }
    for dose in DOSES:
        forms[noisy(dose)] = of(with_noise(subject.state, dose, rng))
    if (dsl := untrained_config(subject)) is not None:
        forms[UNTRAINED] = ModelSpec(dsl, None, subject.output_mode, installed().root)
    return forms


def untrained_config(subject: Subject) -> dict[str, Any] | None:
    """Plain belief propagation as in the subject's config: what the algorithm does without any learning.

    A hybrid starts as its belief propagation, because networks start at zero. None for a pure network: untrained, it is
    the plain backend.
    """
    if subject.dsl.get("type") not in ("neural_bp", "hybrid"):
        return None
    block = subject.dsl.get("neural_bp")
    given = block if isinstance(block, dict) else {}
    kept = {name: given[name] for name in ("iterations", "check_rule") if name in given}
    try:
        NeuralBpSpec.model_validate(kept)
    except ValidationError:  # words of another commit
        kept = {}
    dsl: dict[str, Any] = {
        "type": "neural_bp",
        "output_mode": subject.output_mode,
        "neural_bp": {**kept, "damping": "fixed"},
    }
    if subject.output_mode == "hard_flip" and isinstance(subject.dsl.get("hard_flip"), dict):
        dsl["hard_flip"] = subject.dsl["hard_flip"]
    return dsl


def shuffled(state: State, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """All real numbers of all tensors in one random order; integers within their own tensor."""
    floats = [name for name, array in state.items() if array.dtype.kind == "f"]
    pool = np.concatenate([state[name].ravel().astype(np.float64) for name in floats] or [np.zeros(0)])
    pool = rng.permutation(pool)
    out: dict[str, npt.NDArray[Any]] = {}
    position = 0
    for name, array in state.items():
        if array.dtype.kind == "f":
            out[name] = pool[position : position + array.size].reshape(array.shape).astype(array.dtype)
            position += array.size
        else:
            out[name] = rng.permutation(array.ravel()).reshape(array.shape)
    return out


def with_noise(state: State, dose: float, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    out: dict[str, npt.NDArray[Any]] = {}
    for name, array in state.items():
        if array.dtype.kind != "f" or not array.size:
            out[name] = array
            continue
        scale = dose * float(np.sqrt(np.mean(np.square(array, dtype=np.float64))))
        out[name] = (array + scale * rng.standard_normal(array.shape)).astype(array.dtype)
    return out
