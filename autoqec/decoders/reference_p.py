"""The plain backend of an environment, and the p at which a round's headline numbers are quoted."""

from __future__ import annotations

from autoqec.decoders.backends import backend_entry
from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.paired import Evaluator
from autoqec.envs.environment import Environment

PURPOSE = "reference"
"""Of the shots that the choice is made on."""

_CEILING = 0.05
_SHOTS = (512, 4096, 32768)


def plain_backend(env: Environment) -> DecoderChoice:
    """The decoder that a predecoder is compared with: the environment's backend with fixed weights."""
    return backend_entry(env.spec.classical_backend).plain


def reference_p(env: Environment, *, store: bool = True) -> float:
    """`noise.reference_p`, else the largest p of the sweep where the plain backend's LER is below 0.05.

    If there is none, the smallest p. Shots are added until the interval at that p excludes 0.05, up to 32,768.
    store: whether to believe and keep failure bits on disk.
    """
    if env.spec.noise.reference_p is not None:
        return env.spec.noise.reference_p
    sweep = sorted(env.spec.noise.p, reverse=True)
    if len(sweep) > 1:
        with Evaluator(env, workers=1, purpose=PURPOSE, store=store) as evaluator:
            for p in sweep:
                if _is_below(evaluator, p, plain_backend(env)):
                    return p
    return sweep[-1]


def _is_below(evaluator: Evaluator, p: float, plain: DecoderChoice) -> bool:
    for shots in _SHOTS:
        result = evaluator.run(p, [plain], shots)
        low, high = result.interval(plain.name, level=0.999)
        if high < _CEILING or low > _CEILING:
            break
    return result.ler(plain.name) < _CEILING
