"""Cascades whose stages play with the gate between them, or with what the later ones cost."""

from __future__ import annotations

from typing import Any

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.stage_cost import stage_flops
from autoqec.eval.schema import VerifyReport
from cheats.corpus import cheat, control
from cheats.scene import SHOTS, Outcome, P, Scene, act, surface

_FAMILY = "gates of a cascade"
_GATE = "the gate is computed on the trusted side from the shot's own answers, which also decide: whoever looks sure is taken at his word"
_TIME = (
    "the counted operations of a stage must explain its CPU time in the main test, per shot that reaches it"
)
_CHARGED = "CPU time that the count of a stage does not explain is charged"
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
    kept = {}

    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        self.is_later = dsl.neural_bp.iterations == 6

    def work(self, size):
        import numpy

        numbers = numpy.ones((128, 128))
        for _ in range(int(size)):
            numbers = numpy.tanh(numbers @ numbers / 128)

    def edge_log_odds(self, syndrome, ctx):
        honest = super().edge_log_odds(syndrome, ctx)
BODY


PREDECODERS["neural_bp"] = _Sly
"""


_LATER = """
self.work(SIZE * len(syndrome) if self.is_later else 0)
return honest
"""


def _code(body: str) -> str:
    return _CODE.replace("BODY", "\n".join(f"        {line}" for line in body.strip().splitlines()))


def _report(scene: Scene, body: str, **changes: Any) -> VerifyReport:
    scene.spec = surface(4, **changes)
    return scene.report(scene.committed(CASCADE, _code(body)))


def _counted(scene: Scene, body: str) -> Outcome:
    """Of a later stage that does ten times its work besides: is that in the count?"""
    found = _report(scene, body).cost
    if found is None or found.cascade is None:
        return act(True, "no costs in the report")
    honest, counted = _honest_flops(scene)[1], found.cascade.stage_flops[1]
    return act(counted < 8 * honest, "counted in full", f"{11 * honest} -> {counted} FLOPs")


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
    return scene.verify(scene.committed(CASCADE, _code(_LATER.replace("SIZE", "500"))))


@cheat(
    "some work in a later stage",
    family=_FAMILY,
    how="the later stage does two dozen matrix products in numpy for each of the few shots that reach it, which is little in the mean over all shots",
    defence=_TIME,
    expect="FAILED",
    because="cost_census",
)
def works_a_little_later(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    return scene.verify(scene.committed(CASCADE, _code(_LATER.replace("SIZE", "24"))))


@cheat(
    "later stage that is cheap when counted",
    family=_FAMILY,
    how="the path that the census counts gives the prior in the later stage",
    defence="the counted path of each stage must answer as the one that runs, and a call may do little more than one syndrome's work",
    expect="FAILED",
    because="cost_census",
)
def cheap_later(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
if self.is_later and not self.bp.fused:
    return self._edge_prior(self.edges, syndrome, ctx).T
return super().edge_log_odds(syndrome, ctx)
"""
    code = _code(body).replace("        honest = super().edge_log_odds(syndrome, ctx)\n", "")
    return scene.verify(scene.committed(CASCADE, code))


@cheat(
    "work for the later stage in the first one",
    family=_FAMILY,
    how="the first stage sees which of its shots will go on, and does the later stage's work for those, in numpy",
    defence=_CHARGED,
    expect="no effect",
    because="charged or condemned",
)
def works_before(scene: Scene) -> Outcome:
    body = """
if not self.is_later:
    self.work(20 * int((honest.abs() < 0.3).any(dim=1).sum()))
return honest
"""
    report = _report(scene, body)
    (guard,) = (each for each in report.guards if each.name == "cost_census")
    figure = report.cost.flops_per_syndrome if report.cost is not None else None
    unseen = guard.ok is not False and (figure or 0) <= (guard.number or 0)
    return act(unseen, "charged or condemned", f"{guard.number} -> {figure} FLOPs")


@cheat(
    "later stage that remembers",
    family=_FAMILY,
    how="the later stage keeps its answers, and a shot that comes again, to be counted, costs a look-up",
    defence=_REACHED,
    expect="no effect",
    because="counted in full",
)
def remembers_later(scene: Scene) -> Outcome:
    body = """
if not self.is_later:
    return honest
key = syndrome.numpy().tobytes()
if key not in _Sly.kept:
    for _ in range(10):
        honest = honest + 0 * super().edge_log_odds(syndrome, ctx)
    _Sly.kept[key] = honest.numpy()
return torch.from_numpy(_Sly.kept[key])
"""
    return _counted(scene, body)


@cheat(
    "later stage that is cheap for so many shots",
    family=_FAMILY,
    how="the later stage gives the prior when it is counted, and for as many shots as are counted; for every other number it runs",
    defence="what the counted calls answer is held against the answers to the same shots, anywhere among as many others as in a chunk of the main test",
    expect="FAILED",
    because="cost_census",
)
def cheap_for_so_many(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
from torch.utils._python_dispatch import _get_current_dispatch_mode
is_counted = _get_current_dispatch_mode() is not None or len(syndrome) in (64, 128)
if self.is_later and is_counted:
    return self._edge_prior(self.edges, syndrome, ctx).T
return honest
"""
    return scene.verify(scene.committed(CASCADE, _code(body)))


@cheat(
    "later stage that waits for the first",
    family=_FAMILY,
    how="the later stage gives the prior to shots that the first stage of its process was not asked about, as in a process that only counts",
    defence="the process of the main test is asked all stages, about the same shots, as in that test",
    expect="FAILED",
    because="cost_census",
)
def waits_for_the_first(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
rows = [row.tobytes() for row in syndrome.numpy().astype("uint8")]
if not self.is_later:
    _Sly.kept.update(dict.fromkeys(rows))
    return honest
new = [at for at, row in enumerate(rows) if row not in _Sly.kept]
honest[new] = self._edge_prior(self.edges, syndrome, ctx).T[new]
return honest
"""
    return scene.verify(scene.committed(CASCADE, _code(body)))


@cheat(
    "later stage that remembers shots",
    family=_FAMILY,
    how="the later stage works ten times as hard for a shot that it was not asked before, whatever the batch",
    defence="a stage is counted on shots that it was not asked before",
    expect="no effect",
    because="counted in full",
)
def remembers_shots(scene: Scene) -> Outcome:
    body = """
if not self.is_later:
    return honest
rows = [row.tobytes() for row in syndrome.numpy()]
new = [at for at, row in enumerate(rows) if row not in _Sly.kept]
_Sly.kept.update(dict.fromkeys(rows))
for _ in range(10 if new else 0):
    super().edge_log_odds(syndrome[new], ctx)
return honest
"""
    return _counted(scene, body)


@cheat(
    "hidden work at another p",
    family=_FAMILY,
    how="away from the reference p, where no cost was looked at, the later stage does forty matrix products in numpy for each of its shots",
    defence="operations are counted, and CPU time is taken, at every p of the sweep",
    expect="FAILED",
    because="cost_census",
)
def works_elsewhere(scene: Scene) -> Outcome:
    noise = {"type": "depolarizing", "p": [P / 2, P], "reference_p": P}
    scene.spec = surface(4, noise=noise)
    largest = [float(scene.env.problem(p).priors.max()) for p in (P / 2, P)]
    body = f"""
if self.is_later and float(ctx["prior_p"].max()) < {sum(largest) / 2!r}:
    self.work(40 * len(syndrome))
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
    return _counted(scene, body)


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
    "committed cascade, d = 4",
    how="the same by a commit's copy of the code, whose stages are timed one by one, at two p",
    must_win=True,
)
def committed(scene: Scene) -> Outcome:
    scene.spec = surface(4, noise={"type": "depolarizing", "p": [P / 2, P], "reference_p": P})
    return scene.verify(scene.committed(CASCADE, _code("return honest")), cap=3 * SHOTS)


@control(
    "untrained cascade, d = 4",
    how="two and six iterations of belief propagation, with the gate that a cascade starts with",
    must_win=True,
)
def honest(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    return scene.verify(scene.round(CASCADE))
