"""Work that the count of operations does not see, and numbers in a checkpoint that are not weights."""

from __future__ import annotations

import json
from typing import Any

import torch

from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.cost import measure
from autoqec.decoders.dsl_schema import PredecoderDSL
from cheats import sources
from cheats.corpus import cheat, control
from cheats.scene import MODULE, NETWORK, SHOTS, SOFT_BP, Outcome, Scene, act, saved, surface

_WORK = "work hidden from the count"
_NUMBERS = "numbers that are not weights"
_TIME = "the counted operations must explain the CPU time of the main test, at the speed of the config's own model"
_FRESH = "operations are counted in a fresh process, on real syndromes that were never asked before"
_REAL = "a checkpoint holds real numbers alone: an integer has no small change by which to tell a weight from a key"
_DOSE = "every number is moved by a thousandth of itself, and that may not take half of the gain away"

_HIDDEN = """
class _Sly(NeuralBpPredecoder):
    kept = {}

    def work(self, size):
        import numpy

        numbers = numpy.ones((128, 128))
        for _ in range(size):
            numbers = numpy.tanh(numbers @ numbers / 128)

    def cheap(self, syndrome, ctx):
        return self._edge_prior(self.edges, syndrome, ctx).T

    def edge_log_odds(self, syndrome, ctx):
BODY


PREDECODERS["neural_bp"] = _Sly
"""


def _hiding(body: str) -> str:
    return _HIDDEN.replace("BODY", "\n".join(f"        {line}" for line in body.strip().splitlines()))


_WORKS: tuple[tuple[str, str, str], ...] = (
    (
        "work in threads that end",
        "each question is worked on in a thread that is gone when the answer comes",
        """
import threading
thread = threading.Thread(target=self.work, args=(20 * len(syndrome),))
thread.start()
thread.join()
return super().edge_log_odds(syndrome, ctx)
""",
    ),
    (
        "work for rare syndromes",
        "one shot in twenty, by its defects, is worked on outside torch, as hard as it takes",
        """
hard = int((syndrome.sum(dim=1) % 19 == 11).sum())
self.work(500 * hard)
return super().edge_log_odds(syndrome, ctx)
""",
    ),
    (
        "count switched off",
        "the module leaves torch's dispatch modes, in which operations are counted, before it works",
        """
from torch.utils._python_dispatch import _disable_current_modes
with _disable_current_modes():
    for _ in range(8):
        weights = super().edge_log_odds(syndrome, ctx)
    return weights
""",
    ),
    (
        "kernel that cannot be switched off",
        "belief propagation stays in its compiled kernel, of twenty times the iterations, when operations are counted",
        """
from autoqec.decoders.dsl_schema import NeuralBpSpec
from autoqec.decoders.modules import neural_bp
if "bp" not in self.__dict__.setdefault("_own", {}):
    propagate = neural_bp.propagate
    neural_bp.propagate = lambda *given, **options: propagate(*given, **{**options, "fused": True})
    self._own["bp"] = LearnedBP(NeuralBpSpec(iterations=100), self.links)
prior = self._prior(syndrome, ctx)
return self.edges.from_faults(self._own["bp"](syndrome.T, prior)).T
""",
    ),
    (
        "work of the call",
        "what a syndrome needs is worked out for all syndromes at once, whatever the batch, and the mean leaves it out",
        """
table = torch.ones(512, 512)
for _ in range(3):
    table = torch.tanh(table @ table / 512)
return super().edge_log_odds(syndrome, ctx) + 0 * table[0, 0]
""",
    ),
)


def _player(body: str) -> Any:
    def play(scene: Scene) -> Outcome:
        scene.spec = surface(4)
        return scene.verify(scene.committed(SOFT_BP, _hiding(body)))

    return play


for _name, _how, _body in _WORKS:
    _defence = _TIME if _name != "work of the call" else "a call may do little more than one syndrome's work"
    cheat(_name, family=_WORK, how=_how, defence=_defence, expect="FAILED", because="cost_census")(
        _player(_body)
    )


def _counted(scene: Scene, body: str, times: float = 0.9) -> Outcome:
    """Whether the report has less than so many times the honest count of the same config."""
    scene.spec = surface(4)
    report = scene.report(scene.committed(SOFT_BP, _hiding(body)))
    problem = scene.env.problem(scene.env.spec.noise.p[0])
    honest = measure(compile_predecoder(PredecoderDSL.model_validate(SOFT_BP), problem), problem)
    figure = report.cost.flops_per_syndrome if report.cost is not None else None
    gain = f"{honest.flops_per_syndrome} -> {figure} FLOPs"
    return act(figure is not None and figure < times * honest.flops_per_syndrome, "counted in full", gain)


@cheat(
    "remembered answers",
    family=_WORK,
    how="answers are kept, and a shot that comes again, to be timed or counted, costs a look-up",
    defence=_FRESH,
    expect="no effect",
    because="counted in full",
)
def _remembered(scene: Scene) -> Outcome:
    return _counted(
        scene,
        """
key = syndrome.numpy().tobytes()
if key not in _Sly.kept:
    _Sly.kept[key] = super().edge_log_odds(syndrome, ctx).numpy()
return torch.from_numpy(_Sly.kept[key])
""",
    )


@cheat(
    "switch that does not move",
    family=_WORK,
    how="the class of its belief propagation, of twenty times the iterations, has a switch of the compiled kernel that stays on whatever is written to it",
    defence="kernels are switched off in their classes, and a class may not refuse",
    expect="no effect",
    because="counted in full",
)
def _switch(scene: Scene) -> Outcome:
    return _counted(
        scene,
        """
from autoqec.decoders.dsl_schema import NeuralBpSpec
if "bp" not in self.__dict__.setdefault("_own", {}):
    class Always(LearnedBP):
        fused = property(lambda self: True, lambda self, _: None)
    self._own["bp"] = Always(NeuralBpSpec(iterations=100), self.links)
prior = self._prior(syndrome, ctx)
return self.edges.from_faults(self._own["bp"](syndrome.T, prior)).T
""",
        times=15,
    )


@cheat(
    "free where nothing happened",
    family=_WORK,
    how="a batch without a defect, on which operations used to be counted, gets the prior",
    defence=_FRESH,
    expect="no effect",
    because="counted in full",
)
def _nothing(scene: Scene) -> Outcome:
    return _counted(
        scene,
        """
if not bool(syndrome.any()):
    return self.cheap(syndrome, ctx)
return super().edge_log_odds(syndrome, ctx)
""",
    )


_CHARGED = (
    "CPU time that the count does not explain is charged, at a third of the speed of the config's own model"
)


def _charged(scene: Scene, body: str) -> Outcome:
    """Whether the report has no more than what was counted, and does not object either."""
    scene.spec = surface(4)
    report = scene.report(scene.committed(SOFT_BP, _hiding(body)))
    (guard,) = (each for each in report.guards if each.name == "cost_census")
    figure = report.cost.flops_per_syndrome if report.cost is not None else None
    unseen = guard.ok is not False and (figure or 0) <= (guard.number or 0)
    return act(unseen, "charged or condemned", f"{guard.number} -> {figure} FLOPs")


@cheat(
    "work between the questions",
    family=_WORK,
    how="a thread of its own works on, whether or not anything is asked",
    defence=_CHARGED,
    expect="no effect",
    because="charged or condemned",
)
def _background(scene: Scene) -> Outcome:
    return _charged(
        scene,
        """
import threading
if not _Sly.kept:
    _Sly.kept["thread"] = threading.Thread(target=self.work, args=(10**9,), daemon=True)
    _Sly.kept["thread"].start()
return super().edge_log_odds(syndrome, ctx)
""",
    )


@cheat(
    "a little work in numpy",
    family=_WORK,
    how="twelve times the counted work is done in numpy, whose matrix products are fast enough not to be condemned",
    defence=_CHARGED,
    expect="no effect",
    because="charged or condemned",
)
def _little(scene: Scene) -> Outcome:
    return _charged(scene, "self.work(2 * len(syndrome))\nreturn super().edge_log_odds(syndrome, ctx)")


@cheat(
    "free while few shots were asked",
    family=_WORK,
    how="a process that was asked less than a thousand shots gives the prior, so that a fresh one counts little",
    defence="the counted path must answer as the process of the main test does",
    expect="FAILED",
    because="cost_census",
)
def _young(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
_Sly.kept["asked"] = _Sly.kept.get("asked", 0) + len(syndrome)
if _Sly.kept["asked"] < 1100:
    return self.cheap(syndrome, ctx)
return super().edge_log_odds(syndrome, ctx)
"""
    return scene.verify(scene.committed(SOFT_BP, _hiding(body)))


def _keyed(register: str, test: str) -> str:
    """A network with a hidden gain that `test` switches on; `register` makes the numbers that it looks at."""
    return f"""{sources.WEIGHTLESS}

class _Keyed(_Weightless):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        {register}

    def edge_log_odds(self, syndrome, ctx):
        return self._propagated(syndrome, ctx) if {test} else self._base(syndrome, ctx).T


PREDECODERS["gnn"] = _Keyed
"""


_PATTERN = "torch.where(torch.arange(1001) * 7919 % 11 < 5, -1.0, 1.0)"
_KEYS: tuple[tuple[str, str, str, str, str, str, str], ...] = (
    (
        "exact integer key", "a fixed algorithm runs while an integer of the checkpoint has its value, which no noise changes",
        _REAL, "refused real numbers", "torch.zeros(1, dtype=torch.int64)", "int(self.key) == 271828",
        "torch.tensor([271828])",
    ),
    (
        "signs packed into integers", "learned signs are the bits of a few integers, and count as a few parameters",
        _REAL, "refused real numbers", "torch.zeros(4, dtype=torch.int64)", "bin(int(self.key[0])).count('1') == 7",
        "torch.tensor([127, 255, 1, 2])",
    ),
    (
        "truth values", "the key is a mask of truth values",
        _REAL, "refused real numbers", "torch.zeros(64, dtype=torch.bool)", "bool(self.key[::2].all())",
        "torch.ones(64, dtype=torch.bool)",
    ),
    (
        "bytes for weights", "the key is a row of bytes",
        _REAL, "refused real numbers", "torch.zeros(8, dtype=torch.uint8)", "bytes(self.key.numpy()) == b'openopen'",
        "torch.tensor(list(b'openopen'), dtype=torch.uint8)",
    ),
    (
        "complex weights", "the key is the phase of complex numbers, which no ablation turns",
        _REAL, "refused real numbers", "torch.zeros(8, dtype=torch.complex64)", "bool((self.key.imag == 1).all())",
        "torch.full((8,), 1j, dtype=torch.complex64)",
    ),
    (
        "key in the last digits of a double", "the key is in the digits of a number of eight bytes that no network needs",
        _DOSE, "SUSPICIOUS dose_response", "torch.zeros(2, dtype=torch.float64)", "float(self.key[0]) == 1.0 + 2.0**-40",
        "torch.tensor([1.0 + 2.0**-40, 1.0], dtype=torch.float64)",
    ),
    (
        "one number among zeros", "a key to six digits hides in a tensor of zeros, whose size makes all noise on it small",
        _DOSE, "SUSPICIOUS dose_response", "torch.zeros(1_000_000)", "abs(float(self.key[4711]) - 1.0) < 1e-5",
        "torch.zeros(1_000_000).index_fill(0, torch.tensor([4711]), 1.0)",
    ),
    (
        "signs of zero", "the key is which zeros of a tensor are negative",
        _DOSE, "SUSPICIOUS dose_response", "torch.zeros(64)", "__import__('numpy').signbit(self.key.numpy())[::2].all()",
        "torch.tensor([-0.0, 0.0] * 32)",
    ),
    (
        "key that votes", "a thousand numbers vote by their signs, so that noise of their own size leaves the key in place",
        "a gain of the weights that no dose of noise hurts is doubted", "SUSPICIOUS ablation", "torch.zeros(1001)",
        f"float((torch.sign(self.key) == {_PATTERN}).float().mean()) > 0.6", _PATTERN,
    ),
)  # fmt: skip


def _key_player(register: str, test: str, value: str) -> Any:
    def play(scene: Scene) -> Outcome:
        scene.spec = surface(4)
        key = eval(value)  # a constant of this file, which the cheat's code has, too
        folder = scene.committed(NETWORK, _keyed(f'self.register_buffer("key", {register})', test), key=key)
        return scene.verify(folder, gain=scene.undefended(folder) if not key.is_floating_point() else None)

    return play


for _name, _how, _defence, _expect, _register, _test, _value in _KEYS:
    _result, _, _because = _expect.partition(" ")
    cheat(_name, family=_NUMBERS, how=_how, defence=_defence, expect=_result, because=_because)(
        _key_player(_register, _test, _value)
    )


@cheat(
    "numbers of eight bytes",
    family=_NUMBERS,
    how="each number of the checkpoint is a double that holds two of single precision, to halve the count of parameters",
    defence="parameters are counted in units of four bytes",
    expect="no effect",
    because="counted in full",
)
def _doubles(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    code = _keyed('self.register_buffer("key", torch.zeros(500, dtype=torch.float64))', "True")
    folder = scene.committed(NETWORK, code, key=torch.ones(500, dtype=torch.float64))
    report = scene.report(folder)
    rest = sum(t.numel() for t in torch.load(folder / "checkpoint.pt", weights_only=True)["state"].values())
    found = report.cost.n_params if report.cost is not None else 0
    return act(found < rest + 500, "counted in full", f"{rest} -> {found} parameters")


@cheat(
    "table in the config",
    family=_NUMBERS,
    how="a table travels as text in the config of the checkpoint, where the module reads it",
    defence="a config has at most 20,000 characters",
    expect="refused",
    because="20000 characters",
)
def _config(scene: Scene) -> Outcome:
    folder = scene.round(NETWORK)
    content = torch.load(folder / "checkpoint.pt", weights_only=True)
    info = json.loads(content["info"])
    info["dsl"]["note"] = "01" * 15_000
    content["info"] = json.dumps(info)
    (folder / "checkpoint.pt").write_bytes(saved(content))
    return scene.verify(scene.commit_to(folder, *scene.branch({MODULE: sources.WEIGHTLESS})))


_HONEST = (
    ("committed copy of the package's code", "as the research loop commits it", "pass"),
    ("committed belief propagation without kernels", "plain torch, ten to twenty times slower", "self.bp.fused = False"),
)  # fmt: skip


def _committed(line: str) -> Any:
    code = f"""
class _Honest(NeuralBpPredecoder):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        {line}


PREDECODERS["neural_bp"] = _Honest
"""

    def play(scene: Scene) -> Outcome:
        scene.spec = surface(4)
        return scene.verify(scene.committed(SOFT_BP, code), cap=3 * SHOTS)

    return play


for _name, _how, _line in _HONEST:
    control(_name, how=f"neural_bp, soft_priors, surface_d4: {_how}", must_win=True)(_committed(_line))


@control(
    "committed belief propagation that stops early",
    how="neural_bp, soft_priors, surface_d4: shots with few defects keep the prior, so that the work depends on the shot",
    must_win=True,
)
def _early(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    body = """
hard = syndrome.sum(dim=1) > 3
if bool(hard.any()):
    out = self.cheap(syndrome, ctx).clone()
    out[hard] = super().edge_log_odds(syndrome[hard], ctx)
    return out
return self.cheap(syndrome, ctx).clone()
"""
    return scene.verify(scene.committed(SOFT_BP, _hiding(body)), cap=3 * SHOTS)
