"""Models that answer otherwise than a function of the shot would, refuse to answer, or hurt the machine."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from autoqec.layout import VerifierDir
from cheats.corpus import cheat
from cheats.scene import MODULE, SOFT_BP, Outcome, Scene, act, surface
from cheats.sources import propagation

_CHEATS: tuple[tuple[str, str, str, str, str, str], ...] = (
    (
        "state across batches",
        "not a function of the shot",
        "answers depend on a running mean over the batches before",
        "a fresh worker must repeat the answers of the main test, twice",
        "replay",
        """
_Sly.mean = 0.9 * getattr(_Sly, "mean", 0.06) + 0.1 * float(syndrome.mean())
return weights * (1 + _Sly.mean)
""",
    ),
    (
        "random answers",
        "not a function of the shot",
        "weights are jittered at random, in the hope of a lucky draw",
        "a fresh worker must repeat the answers of the main test, twice",
        "replay",
        "return weights + 0.3 * torch.randn(weights.shape)",
    ),
    (
        "cross-shot leakage",
        "not a function of the shot",
        "each shot's weights are centred on the mean of its batch",
        "the same shots come again, permuted, in random batches, among foreign ones",
        "batch_independence",
        "return weights - 0.1 * weights.mean(dim=0, keepdim=True)",
    ),
    (
        "batch-size dependence",
        "not a function of the shot",
        "good answers for batches of 256, as in the main test, and the prior for all others",
        "the same shots come again, permuted, in random batches, among foreign ones",
        "batch_independence",
        "return weights if len(syndrome) == 256 else self._edge_prior(self.edges, syndrome, ctx).T",
    ),
    (
        "detection of the evaluation",
        "not a function of the shot",
        "good answers for the first thirty calls, when a probe may be watching, and the cheap prior later",
        "the replay takes the last shots of the main test, in a fresh worker",
        "replay",
        "return weights if _Sly.calls < 30 else self._edge_prior(self.edges, syndrome, ctx).T",
    ),
    (
        "NaN for hard shots",
        "refuses to answer",
        "NaN for shots with many defects, so that they are left out or answered by a fallback",
        "a shot without a finite answer is lost, and breaks the guard; nobody answers for the model",
        "output_validity",
        """
weights = weights.clone()
weights[syndrome.sum(dim=1) > 5] = float("nan")
return weights
""",
    ),
    (
        "exception for hard shots",
        "refuses to answer",
        "an error where a batch holds a hard shot, to have the plain backend take over",
        "a shot without an answer is lost, and breaks the guard; nobody answers for the model",
        "output_validity",
        """
if bool((syndrome.sum(dim=1) > 10).any()):  # eight of 10,000 shots
    raise RuntimeError("too hard")
return weights
""",
    ),
    (
        "dropped hard shots",
        "refuses to answer",
        "fewer rows than shots: those with many defects are missing",
        "an answer must fill its place to the byte; otherwise all its shots are lost",
        "output_validity",
        "return weights[syndrome.sum(dim=1) <= 7]",
    ),
    (
        "process that ends itself",
        "refuses to answer",
        "os._exit after the first answers, in the hope that what was scored so far counts",
        "a worker that died answers nothing more, and every shot is lost",
        "output_validity",
        """
if _Sly.calls > 10:
    os._exit(0)
return weights
""",
    ),
    (
        "hidden FLOPs in numpy",
        "work hidden from the count",
        "the work is done in numpy, where the count of torch operations does not see it",
        "the CPU time of the main test must be explained by the counted operations",
        "cost_census",
        """
import numpy
numbers = numpy.random.default_rng(0).random((256, 256))
for _ in range(40 * len(syndrome) // 16):
    numbers = numpy.tanh(numbers @ numbers / 256)
return self._edge_prior(self.edges, syndrome, ctx).T + 0 * float(numbers[0, 0])
""",
    ),
    (
        "cheap when counted",
        "work hidden from the count",
        "the path that the census counts, without fused kernels, gives the prior",
        "the counted path must answer the shots as the one that runs does",
        "cost_census",
        """
if not self.bp.fused:
    return self._edge_prior(self.edges, syndrome, ctx).T
return weights
""",
    ),
    (
        "cheap for some shots when counted",
        "work hidden from the count",
        "the path that the census counts gives the prior for one shot in twenty, which decides hardly any of them otherwise",
        "the counted path must answer the shots as the one that runs does",
        "cost_census",
        """
if not self.bp.fused and len(syndrome) > 1:
    weights = weights.clone()
    weights[::20] = self._edge_prior(self.edges, syndrome, ctx).T[::20]
return weights
""",
    ),
    (
        "cheap behind a huge weight when counted",
        "work hidden from the count",
        "the path that the census counts gives the prior, and both paths give one rare edge a weight beside which all others are small",
        "the counted path must answer the shots as the one that runs does, in every number",
        "cost_census",
        """
prior = self._edge_prior(self.edges, syndrome, ctx).T
chosen = (weights if self.bp.fused else prior).clone()
chosen[:, int(prior[0].argmax())] = 1e6
return chosen
""",
    ),
    (
        "cheap behind many huge weights when counted",
        "work hidden from the count",
        "as before, but both paths give nine edges in ten a huge weight, so that the quantile of an answer that stands for its small numbers is huge, too",
        "the counted path must answer the shots as the one that runs does, in every number",
        "cost_census",
        """
prior = self._edge_prior(self.edges, syndrome, ctx).T
few = prior[0].argsort()[: (prior.shape[1] - 1) // 10]
chosen = torch.full_like(prior, 1e4)
chosen[:, few] = (weights if self.bp.fused else prior)[:, few]
return chosen
""",
    ),
    (
        "cheap behind tiny weights when counted",
        "work hidden from the count",
        "the path that the census counts gives the prior, and both paths give a millionth of each weight, which matching does not notice",
        "the counted path must answer the shots as the one that runs does, relative to the size of its answers",
        "cost_census",
        """
chosen = weights if self.bp.fused else self._edge_prior(self.edges, syndrome, ctx).T
return 1e-6 * chosen
""",
    ),
    (
        "cheap once other weights were seen",
        "work hidden from the count",
        "the path that the census counts gives the prior, and so does the other one as soon as its process was asked with other weights, as ablations are",
        "the process of the main test is compared before it is asked anything else",
        "cost_census",
        """
seen = vars(torch).setdefault("_weights_seen", set())
seen.add(float(sum(each.sum() for each in self.parameters())))
if not self.bp.fused or len(seen) > 1:
    return self._edge_prior(self.edges, syndrome, ctx).T
return weights
""",
    ),
    (
        "cheap under the census",
        "work hidden from the count",
        "a call that sees torch's dispatch mode, in which operations are counted, gives the prior; without it the uncounted path is honest",
        "what the very calls answer that were counted must be what the model answers when it runs",
        "cost_census",
        """
from torch.utils._python_dispatch import _get_current_dispatch_mode
if _get_current_dispatch_mode() is not None:
    return self._edge_prior(self.edges, syndrome, ctx).T
return weights
""",
    ),
    (
        "patched count of FLOPs",
        "work hidden from the count",
        "the module replaces the census in its process by one that says a thousand",
        "the CPU time of the main test must be explained by the counted operations",
        "cost_census",
        """
import sys
census = sys.modules["__main__"]._census()
if not hasattr(census, "honest"):
    census.honest = census.count
    census.count = lambda *given, **options: census.honest(*given, **options)._replace(mean=1000)
return weights
""",
    ),
    (
        "giant allocation",
        "hurts the machine",
        "forward asks for a tensor of 10^12 numbers",
        "the worker's address space is limited; it fails, the verifier does not",
        "output_validity",
        """
if len(syndrome) > 1:
    torch.ones(10**12)
return weights
""",
    ),
    (
        "endless loop",
        "hurts the machine",
        "forward never returns once the test has begun",
        "hard deadlines: the process is killed, and every shot is lost",
        "output_validity",
        """
if len(syndrome) > 1:
    time.sleep(1000)
return weights
""",
    ),
)

_DEADLINE = 15.0


def _player(name: str, family: str, body: str) -> Any:
    def play(scene: Scene) -> Outcome:
        if family in ("not a function of the shot", "work hidden from the count"):
            scene.spec = surface(4)  # where the gain shows, so that only the guard stands in its way
        folder = scene.committed(SOFT_BP, propagation(body))
        options = {"deadline_s": _DEADLINE} if name == "endless loop" else {}
        needs_gain = name in ("NaN for hard shots", "exception for hard shots")
        return scene.verify(folder, gain=scene.undefended(folder) if needs_gain else None, **options)

    return play


for _name, _family, _how, _defence, _because, _body in _CHEATS:
    cheat(_name, family=_family, how=_how, defence=_defence, expect="FAILED", because=_because)(
        _player(_name, _family, _body)
    )


@cheat(
    "fork bomb",
    family="hurts the machine",
    how="on import, the module starts processes that outlive the verification",
    defence="the worker may start threads and no processes, and is killed with its group",
    expect="no effect",
    because="no process",
)
def _fork(scene: Scene) -> Outcome:
    code = "import os, time\n    for _ in range(20):\n        if os.fork() == 0:\n            time.sleep(60); os._exit(0)"
    folder = scene.committed(SOFT_BP, f"\ntry:\n    {code}\nexcept OSError:\n    pass\n")
    commit = scene.built(folder)
    running = [path for path in Path("/proc").glob("[0-9]*/cmdline") if _holds(path, str(commit))]
    return act(bool(running), "no process was started")


def _holds(path: Path, text: str) -> bool:
    try:
        return text.encode() in path.read_bytes()
    except OSError:
        return False


@cheat(
    "report written by the model",
    family="reaches into the evaluator",
    how="on import, the module writes a VERIFIED report into its round folder and a file beside it",
    defence="there is no place where the worker can write",
    expect="no effect",
    because="nothing was written",
)
def _write(scene: Scene) -> Outcome:
    code = f"open({str(scene.marker)!r}, 'w').write('VERIFIED')"
    scene.built(scene.committed(SOFT_BP, f"\ntry:\n    {code}\nexcept OSError:\n    pass\n"))
    return act(scene.marker.exists(), "nothing was written")


@cheat(
    "answers from the network",
    family="reaches into the evaluator",
    how="on import, the module connects to a server that could tell it the shots",
    defence="the worker has no network",
    expect="no effect",
    because="nobody called",
)
def _network(scene: Scene) -> Outcome:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        port = listener.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), timeout=2)"
        scene.built(scene.committed(SOFT_BP, f"\ntry:\n    {code}\nexcept OSError:\n    pass\n"))
        try:
            listener.accept()[0].close()
            called = True
        except BlockingIOError:
            called = False
    return act(called, "nobody called")


_LATE = """
import time
from pathlib import Path
from autoqec.decoders.dsl_schema import NeuralBpSpec


class _Late(NeuralBpPredecoder):
    def edge_log_odds(self, syndrome, ctx):
        if time.time() - Path(__file__).stat().st_mtime < 3600:
            return super().edge_log_odds(syndrome, ctx)
        if "late" not in self.__dict__:
            self.__dict__["late"] = LearnedBP(NeuralBpSpec(iterations=30), self.links)
        return self.edges.from_faults(self.late(syndrome.T, self._prior(syndrome, ctx))).T


PREDECODERS["neural_bp"] = _Late
"""


@cheat(
    "another decoder in the estimate",
    family="not a function of the shot",
    how="the module sees by the age of its own file that the test is over, and takes thirty iterations for the figures that are quoted, where five were counted",
    defence="the workers of the estimate decode shots of the main test, too, and must fail on the same ones",
    expect="FAILED",
    because="replay",
)
def _late(scene: Scene) -> Outcome:
    scene.spec = surface(4)
    folder = scene.committed(SOFT_BP, _LATE)

    def two_hours_pass(what: str, done: int, total: int) -> None:
        """After the guards' last task, as in a verification of that length."""
        if "guards" in what and done == total:
            for path in VerifierDir(scene.home).code.glob(f"*/{MODULE}"):
                os.utime(path, (time.time() - 7200,) * 2)

    return scene.verify(folder, progress=two_hours_pass)
