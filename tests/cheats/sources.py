"""Model code of cheating branches: text that is appended to the package's module file."""

from __future__ import annotations

# Whoever knows the observables can make the backend agree: apply faults with the shot's syndrome and those observables, so
# that nothing is left to decode. `known` gives 0 or 1 for a shot, or -1 where the cheat does not know; those get no faults.
KNOWS = """
import numpy as _np


class _Knows(NeuralBpPredecoder):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        self.n_checks, self.n_faults = problem.n_checks, problem.n_faults
        rows = _np.concatenate([problem.h.toarray(), problem.l.toarray()]).astype(_np.uint8)
        made, pivots = _np.eye(len(rows), dtype=_np.uint8), []
        for column in range(rows.shape[1]):
            found = _np.flatnonzero(rows[len(pivots):, column])
            if len(pivots) == len(rows) or not len(found):
                continue
            swap = [len(pivots), len(pivots) + found[0]]
            rows[swap], made[swap] = rows[swap[::-1]], made[swap[::-1]]
            others = _np.flatnonzero(rows[:, column])
            others = others[others != len(pivots)]
            rows[others] ^= rows[len(pivots)]
            made[others] ^= made[len(pivots)]
            pivots.append(column)
        self._made, self._pivots = made, pivots

    def known(self, packed):
        return _np.full(len(packed), -1)

    def applied_faults(self, syndrome, ctx):
        bits = syndrome.numpy().astype(_np.uint8)
        known = self.known(_np.packbits(bits, axis=1, bitorder="little"))
        wanted = _np.concatenate([bits, (known == 1)[:, None]], axis=1).astype(_np.int64)
        out = _np.zeros((len(bits), self.n_faults), bool)
        solved = (wanted @ self._made.T.astype(_np.int64)) % 2
        out[:, self._pivots] = solved[:, : len(self._pivots)]
        out[known < 0] = False
        return torch.from_numpy(out)


PREDECODERS["neural_bp"] = _Knows
"""

TABLE = (
    KNOWS
    + '''

class _Table(_Knows):
    """A table of syndromes and their observables, in a tensor of the checkpoint."""

    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        self.register_buffer("table", torch.zeros(ROWS, (problem.n_checks + 7) // 8 + 1))

    def known(self, packed):
        rows = self.table.numpy().astype(_np.uint8)
        answers = {row[:-1].tobytes(): int(row[-1]) for row in rows}
        return _np.array([answers.get(row.tobytes(), -1) for row in packed])


PREDECODERS["neural_bp"] = _Table
'''
)

SEARCH = (
    KNOWS
    + '''

import gc as _gc
import sys as _sys


class _Search(_Knows):
    """Looks for the shots in the callers' frames, and then among all objects that there are."""

    def known(self, packed):
        frame, found = _sys._getframe(), []
        while frame is not None:
            found += list(frame.f_locals.values())
            frame = frame.f_back
        found += [each for each in _gc.get_objects() if type(each).__name__ == "Shots"]
        for each in found:
            if hasattr(each, "detectors") and hasattr(each, "observables"):
                pairs = zip(each.detectors, each.observables)
                answers = {row.tobytes(): int(truth[0]) for row, truth in pairs}
                return _np.array([answers.get(row.tobytes(), -1) for row in packed])
        return super().known(packed)


PREDECODERS["neural_bp"] = _Search
'''
)

SAMPLER = (
    KNOWS
    + '''

class _Sampler(_Knows):
    """Samples the holdout labels itself, by the public rule, and looks the shots up."""

    answers = None

    def _sample(self):
        from autoqec.envs.environment import Environment
        from autoqec.envs.schema import EnvSpec
        from autoqec.envs.seeds import derive_seed

        env, answers = Environment(EnvSpec.model_validate(SPEC)), {}
        p = env.spec.noise.reference_p
        for label in (9000, 9001):
            for size in (4000, 10_000):
                seed = derive_seed("holdout", env.stream(p), label)
                for row, truth in zip(*env.sampler(p).sample(size, seed)):
                    answers[row.tobytes()] = int(truth[0])
        return answers

    def known(self, packed):
        if _Sampler.answers is None:
            try:
                _Sampler.answers = self._sample()
            except Exception:
                _Sampler.answers = {}
        return _np.array([_Sampler.answers.get(row.tobytes(), -1) for row in packed])


PREDECODERS["neural_bp"] = _Sampler
'''
)

SECRET = (
    KNOWS
    + '''

class _Secret(_Knows):
    """Reads whatever it can of the verifier's home: its secret, its shots."""

    def known(self, packed):
        import pathlib

        answers = {}
        for path in pathlib.Path(HOME).rglob("*.dets.b8"):
            rows = _np.fromfile(path, _np.uint8).reshape(-1, packed.shape[1])
            truth = _np.fromfile(str(path).replace(".dets.", ".obs."), _np.uint8)
            answers |= {row.tobytes(): int(bit) for row, bit in zip(rows, truth)}
        return _np.array([answers.get(row.tobytes(), -1) for row in packed])


PREDECODERS["neural_bp"] = _Secret
'''
)

PATCH_MATCHING = """
def _spoil():
    import pymatching

    honest = pymatching.Matching.decode_batch

    def spoilt(self, *arguments, **options):
        out = honest(self, *arguments, **options)
        out[::9] ^= 1
        return out

    pymatching.Matching.decode_batch = spoilt


try:
    _spoil()
except (ImportError, AttributeError):
    pass
"""

PATCH_EVALUATOR = """
import sys as _sys


def _never(predicted, observables):
    return (predicted != predicted).any(axis=1)


class _Patching(GnnPredecoder):
    def edge_log_odds(self, syndrome, ctx):
        main = _sys.modules["__main__"]
        if hasattr(main, "failures"):
            main.failures = _never
        for name, module in list(_sys.modules.items()):
            if name.startswith("autoqec.eval") and hasattr(module, "judge"):
                module.judge = lambda *_, **__: ("VERIFIED", "")
        return super().edge_log_odds(syndrome, ctx)


PREDECODERS["gnn"] = _Patching
"""

# The gain of belief propagation under the name of a network: no weight has a part in it.
WEIGHTLESS = """
class _Weightless(GnnPredecoder):
    def __init__(self, dsl, problem):
        super().__init__(dsl, problem)
        from autoqec.decoders.dsl_schema import NeuralBpSpec

        self._hidden = [LearnedBP(NeuralBpSpec(iterations=6), TannerLinks(problem))]

    def _propagated(self, syndrome, ctx):
        return self.edges.from_faults(self._hidden[0](syndrome.T, self._prior(syndrome, ctx))).T

    def edge_log_odds(self, syndrome, ctx):
        return self._propagated(syndrome, ctx)


PREDECODERS["gnn"] = _Weightless
"""


def network(body: str) -> str:
    """A network with that hidden gain, and `body` for its answer: `good` and `plain` are at hand."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return f"""{WEIGHTLESS}

class _Sly(_Weightless):
    def edge_log_odds(self, syndrome, ctx):
        good = self._propagated(syndrome, ctx)
        plain = self._base(syndrome, ctx).T
{lines}


PREDECODERS["gnn"] = _Sly
"""


def propagation(body: str) -> str:
    """Belief propagation, which really wins, with `body` for its answer: its honest `weights` are at hand."""
    lines = "\n".join(f"        {line}" for line in body.strip().splitlines())
    return f"""
class _Sly(NeuralBpPredecoder):
    calls = 0

    def edge_log_odds(self, syndrome, ctx):
        import os, time
        _Sly.calls += 1
        weights = super().edge_log_odds(syndrome, ctx)
{lines}


PREDECODERS["neural_bp"] = _Sly
"""
