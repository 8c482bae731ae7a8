"""Ablated forms of a checkpoint: what is left of a gain without the learned numbers?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from autoqec.decoders.dsl_schema import CLASSICAL, NeuralBpSpec
from autoqec.decoders.gates import THRESHOLDS, UNEXPLAINED, UNSURE, Gates
from autoqec.eval.metering import REFERENCE
from autoqec.eval.model_code import installed
from autoqec.eval.subject import Subject
from autoqec.eval.worker_setup import ModelSpec

State = Mapping[str, npt.NDArray[Any]]

DOSES = (0.001, 0.1, 0.3, 1.0)
"""Noise in units of each tensor's root mean square, or of the number itself where that is larger: one number among zeros is
not spared. The first dose must leave a gain in place: weights that work only to the last digit are a key, not a model."""

_NETWORK: dict[str, Any] = {"type": "gnn", "gnn": {"layers": 1, "hidden_dim": 4}}
"""The smallest: it stands for any network that has learned nothing."""

REAL, SHUFFLED, REINITIALISED, UNTRAINED = "real", "shuffled", "reinitialised", "untrained"


def noisy(dose: float) -> str:
    return f"noise {dose:g}"


def variants(subject: Subject, seed: int) -> dict[str, ModelSpec]:
    """The checkpoint itself and its ablated forms by name; a function of `seed`, which the model cannot know."""
    rng = np.random.default_rng(seed)
    code = subject.code.root

    thresholds = Gates.of(subject.dsl, subject.state).thresholds

    def of(state: State | None, model_seed: int = 0) -> ModelSpec:
        return ModelSpec(subject.dsl, state, subject.output_mode, code, model_seed, thresholds)

    forms = {
        REAL: of(subject.state),
        SHUFFLED: of(shuffled(subject.state, rng)),
        REINITIALISED: of(None, int(rng.integers(1, 2**31))),
    }
    for dose in DOSES:
        forms[noisy(dose)] = of(with_noise(subject.state, dose, rng))
    if (dsl := untrained_config(subject)) is not None:
        kept = thresholds[: len(stages_of(dsl)) - 1]
        forms[UNTRAINED] = ModelSpec(dsl, None, subject.output_mode, installed().root, thresholds=kept)
    if not subject.code.is_trusted:
        forms[REFERENCE] = ModelSpec(reference_config(subject), None, subject.output_mode, installed().root)
    return forms


def reference_config(subject: Subject) -> dict[str, Any]:
    """What a subject of foreign code is compared with in speed: its own config, as this package builds it, or belief propagation."""
    if has_twin(subject):
        return subject.dsl
    dsl: dict[str, Any] = {
        "type": "neural_bp",
        "output_mode": subject.output_mode,
        "neural_bp": {"iterations": 5},
    }
    return {**dsl, "hard_flip": {}} if subject.output_mode == "hard_flip" else dsl


def has_twin(subject: Subject) -> bool:
    """Whether this package builds the subject's config of its own parts: code in a config could be as slow as it likes."""
    return subject.config is not None and subject.config.tier == "1"


def untrained_config(subject: Subject) -> dict[str, Any] | None:
    """Plain belief propagation as in the subject's config: what the algorithm does without any learning.

    A hybrid starts as its belief propagation, because networks start at zero. None for a pure network: untrained, it is
    the plain backend.
    """
    stages = stages_of(subject.dsl)
    if len(stages) > 1:
        return _untrained_cascade(stages, subject.output_mode)
    return _untrained_stage(stages[0], subject.output_mode)


def has_untrained(dsl: Mapping[str, Any]) -> bool:
    """Whether anything is left of a config without learned numbers: belief propagation, a classical stage, or orders of a cascade's stages."""
    stages = stages_of(dsl)
    return any(_does_something(stage) for stage in (stages if len(stages) > 1 else stages[:1]))


def _does_something(stage: Mapping[str, Any]) -> bool:
    """Untrained, that is: a network changes nothing then, but for what the backend does behind it."""
    return stage.get("type") in ("neural_bp", "hybrid") or bool(_behind(stage)) or bool(_classical(stage))


def _classical(stage: Mapping[str, Any]) -> dict[str, Any]:
    """A stage that learns nothing; nothing where it is not one."""
    kind = stage.get("type")
    if not isinstance(kind, str) or kind not in CLASSICAL:
        return {}
    number, _ = CLASSICAL[kind]
    return {"type": kind, number: stage[number]} if type(stage.get(number)) is int else {}


def _behind(stage: Mapping[str, Any]) -> dict[str, int]:
    """What the config asks of the backend behind a stage."""
    return {name: stage[name] for name in ("order", "members") if type(stage.get(name)) is int}


def _taken(stage: Mapping[str, Any]) -> dict[str, Any]:
    """Which shots reach a later stage, where the config says so: thresholds are about them."""
    return {"takes": stage["takes"]} if stage.get("takes") in (UNEXPLAINED, UNSURE) else {}


def stages_of(dsl: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The stages of a cascade; the config itself where it is none."""
    stages = dsl.get("stages") if dsl.get("type") == "cascade" else None
    known = isinstance(stages, list) and stages and all(isinstance(stage, Mapping) for stage in stages)
    return list(stages) if known and stages is not None else [dsl]


def _untrained_cascade(stages: list[Mapping[str, Any]], output_mode: str) -> dict[str, Any] | None:
    """Its stages untrained, in their places, without those at its end that do nothing then."""
    last = max((at for at, stage in enumerate(stages) if _does_something(stage)), default=None)
    if last is None:
        return None
    made = []
    for at, stage in enumerate(stages[: last + 1]):
        plain = _untrained_stage(stage, output_mode)
        network = dict(_NETWORK) if plain is None else {name: plain[name] for name in ("type", "neural_bp")}
        part = _classical(stage) or network
        part |= {"share": 1.0, **_taken(stage)} if at else {}
        made.append(part | _behind(stage))
    if len(made) == 1 and not _behind(made[0]):
        return _untrained_stage(stages[0], output_mode)
    if len(made) == 1:  # a cascade has two stages: the second one answers as the first
        made.append({**_NETWORK, "share": 1.0, **_behind(made[0])})
    return {"type": "cascade", "output_mode": output_mode, "stages": made}


def _untrained_stage(dsl: Mapping[str, Any], output_mode: str) -> dict[str, Any] | None:
    if dsl.get("type") not in ("neural_bp", "hybrid"):
        return None
    block = dsl.get("neural_bp")
    given = block if isinstance(block, dict) else {}
    kept = {name: given[name] for name in ("iterations", "check_rule", "turbo") if name in given}
    try:
        NeuralBpSpec.model_validate(kept)
    except ValidationError:  # words of another commit
        kept = {}
    untrained: dict[str, Any] = {
        "type": "neural_bp",
        "output_mode": output_mode,
        "neural_bp": {**kept, "damping": "fixed"},
    }
    if output_mode == "hard_flip" and isinstance(dsl.get("hard_flip"), dict):
        untrained["hard_flip"] = dsl["hard_flip"]
    return untrained


def shuffled(state: State, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    """All numbers of all tensors in one random order, but for the thresholds of gates."""
    mixed = {name: array for name, array in state.items() if name != THRESHOLDS}
    pool = rng.permutation(
        np.concatenate([np.zeros(0), *(array.ravel().astype(np.float64) for array in mixed.values())])
    )
    out: dict[str, npt.NDArray[Any]] = dict(state)
    position = 0
    for name, array in mixed.items():
        out[name] = _as(pool[position : position + array.size].reshape(array.shape), array.dtype)
        position += array.size
    return out


def with_noise(state: State, dose: float, rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    out: dict[str, npt.NDArray[Any]] = {}
    for name, array in state.items():
        numbers = array.astype(np.float64)
        largest = (
            float(np.abs(numbers).max(initial=0.0)) or 1.0
        )  # squares of very large and very small numbers are not finite
        rms = largest * float(np.sqrt(np.mean(np.square(numbers / largest)))) if array.size else 0.0
        scale = dose * np.maximum(np.abs(numbers), rms)
        with np.errstate(over="ignore"):
            out[name] = _as(numbers + scale * rng.standard_normal(array.shape), array.dtype)
    return out


def _as(numbers: npt.NDArray[np.float64], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """In another precision, without infinite ones."""
    largest = float(np.finfo(dtype).max)
    return np.clip(numbers, -largest, largest).astype(dtype)
