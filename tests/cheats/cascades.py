"""Cascades whose stages play with the gate between them, or with what the later ones cost."""

from __future__ import annotations

from typing import Any

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.stage_cost import stage_flops
from autoqec.eval.schema import VerifyReport
from cheats.corpus import cheat, control
from cheats.scene import Outcome, P, Scene, act, surface

_FAMILY = "gates of a cascade"
_GATE = "the gate is computed on the trusted side from the shot's own answers, which also decide: whoever looks sure is taken at his word"
_TIME = "the counted operations of all stages must explain the CPU time of the main test"
_REACHED = "a stage is counted on shots that reach it, with the answers by which they did"
_SHARES = "the verifier counts who reaches a stage on its own shots, at every p of the sweep"

CASCADE: dict[str, Any] = {
    "type": "cascade",
    "output_mode": "soft_priors",
    "stages": [
        {"type": "neural_bp", "neural_bp": {"iterations": 2}},
        {"type": "neural_bp", "neural_bp": {"iterations": 6}, "share": 0.1},
    ],
}
"""The later stage is the one with six iterations."""

_CODE = """
class _Sly(NeuralBpPredecoder):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        self.is_later = dsl.neural_bp.iterations == 6

    def edge_log_odds(self, syndrome, ctx):
        honest = super().edge_log_odds(syndrome, ctx)
BODY


PREDECODERS["neural_bp"] = _Sly
"""


def _code(body: str) -> str:
    return _CODE.replace("BODY", "\n".join(f"        {line}" for line in body.strip().splitlines()))


def _report(scene: Scene, body: str, **changes: Any) -> VerifyReport:
    scene.spec = surface(4, **changes)
    return scene.report(scene.committed(CASCADE, _code(body)))


def _honest_flops(scene: Scene) -> tuple[int, ...]:
    problem = scene.env.problem(P)
    return stage_flops(compile_predecoder(PredecoderDSL.model_validate(CASCADE), problem), problem)  # type: ignore[arg-type]


@cheat(
    "stage that looks sure",
    family=_FAMILY,
    how="the first stage knows nothing and says so a hundred times louder, so that no shot goes on and the cascade costs next to nothing",
    defence=_GATE,
    expect="SUSPICIOUS",
    because="no gain",
)
def looks_sure(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
if self.is_later:
    return honest
return 100 * self._edge_prior(self.edges, syndrome, ctx).T
"""
    return scene.verify(scene.committed(CASCADE, _code(body)))


@cheat(
    "hidden work in a later stage",
    family=_FAMILY,
    how="the later stage, which few shots reach, works outside torch for seconds",
    defence=_TIME,
    expect="FAILED",
    because="cost_census",
)
def works_later(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
import numpy
numbers = numpy.ones((128, 128))
for _ in range(500 * len(syndrome) if self.is_later else 0):
    numbers = numpy.tanh(numbers @ numbers / 128)
return honest
"""
    return scene.verify(scene.committed(CASCADE, _code(body)))


@cheat(
    "work for open shots alone",
    family=_FAMILY,
    how="the later stage works ten times as hard where the answers of the stage before are those of an open shot, and so not for typical shots",
    defence=_REACHED,
    expect="no effect",
    because="counted in full",
)
def works_when_open(scene: Scene) -> Outcome:
    body = """
before = ctx.get("earlier_edges")
if self.is_later and before is not None:
    doubtful = int((before.abs() < 1.0).any(dim=1).sum())
    for _ in range(10 if 2 * doubtful > len(before) else 0):
        honest = honest + 0 * super().edge_log_odds(syndrome, ctx)
return honest
"""
    found = _report(scene, body).cost
    if found is None or found.cascade is None:
        return act(True, "no costs in the report")
    honest, counted = _honest_flops(scene)[1], found.cascade.stage_flops[1]
    return act(counted < 8 * honest, "counted in full", f"{11 * honest} -> {counted} FLOPs")


@cheat(
    "more shots at another p",
    family=_FAMILY,
    how="away from the reference p the first stage whispers, so that all shots reach the dear stage where no budget looks",
    defence=_SHARES,
    expect="no effect",
    because="the share at every p is in the report",
)
def more_elsewhere(scene: Scene) -> Outcome:
    body = """
is_elsewhere = float(ctx["prior_p"].max()) < RATE
return honest if self.is_later or not is_elsewhere else 0.001 * honest
"""
    noise = {"type": "depolarizing", "p": [P / 2, P], "reference_p": P}
    scene.spec = surface(4, noise=noise)
    largest = [float(scene.env.problem(p).priors.max()) for p in (P / 2, P)]
    found = _report(scene, body.replace("RATE", repr(sum(largest) / 2)), noise=noise).cost
    if found is None or found.cascade is None:
        return act(True, "no costs in the report")
    elsewhere, here = found.cascade.per_p
    shown = elsewhere.shares[1] > 0.9 and elsewhere.flops_per_syndrome > 2 * here.flops_per_syndrome
    return act(not shown, "the share at every p is in the report")


@control(
    "untrained cascade, d = 4",
    how="two and six iterations of belief propagation, with the gate that a cascade starts with",
    must_win=True,
)
def honest(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    return scene.verify(scene.round(CASCADE))
