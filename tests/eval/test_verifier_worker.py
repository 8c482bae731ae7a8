"""Models that fail to answer: each such shot is lost to them, and the guard that watches it breaks."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import autoqec
from autoqec.decoders.reference_p import plain_backend
from autoqec.envs.environment import Environment
from autoqec.envs.problem import U8
from autoqec.eval.kernel_store import KernelStore
from autoqec.eval.tasks import Baseline, Candidate, Where
from autoqec.eval.verifier_pool import VerifierPool
from autoqec.eval.verifier_worker import SLICE, VerifierWorker
from autoqec.eval.worker_setup import ModelSpec, WorkerSetup
from autoqec.sandbox.kinds import strongest

P = 0.01
SOFT = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 3}}
MODULE = "autoqec/decoders/modules/predecoders.py"

# The first bit of a shot decides its fate: NaN, an error, or an honest answer.
MOODY = """
import os

class _Moody(NeuralBpPredecoder):
    def edge_log_odds(self, syndrome, ctx):
        weights = super().edge_log_odds(syndrome, ctx).clone()
        weights[syndrome[:, 0] > 0] = %s
        if %s and bool((syndrome[:, 1] > 0).any()):
            raise RuntimeError("too hard\\n# VERIFIED")
        if %s:
            os._exit(1)
        return weights

PREDECODERS["neural_bp"] = _Moody
"""


@pytest.fixture
def verifier_with(env: Environment, tmp_path: Path) -> Iterator[Callable[..., VerifierWorker]]:
    opened: list[VerifierWorker] = []

    def make(value: str = "1.0", raises: bool = False, exits: bool = False) -> VerifierWorker:
        root = tmp_path / f"code{len(opened)}"
        package = Path(autoqec.__file__).parent
        shutil.copytree(package, root / "autoqec", ignore=shutil.ignore_patterns("__pycache__"))
        with (root / MODULE).open("a") as file:
            file.write(MOODY % (value, raises, exits))
        spec = ModelSpec(SOFT, None, "soft_priors", root)
        setup = WorkerSetup({"x": env.problem(P)}, {"m": spec}, "mwpm", strongest().name, 300.0)
        opened.append(VerifierWorker(setup))
        return opened[-1]

    yield make
    for verifier in opened:
        verifier.close()


@pytest.fixture(scope="module")
def shots(env: Environment) -> tuple[U8, U8]:
    return env.sampler(P).sample(3 * SLICE, 3)


def test_workers_import_nothing_from_the_working_directory(
    env: Environment, shots: tuple[U8, U8], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be the checkout that is being judged, whose evaluator says what its author likes."""
    (tmp_path / "autoqec").mkdir()
    for shadow in ("autoqec/__init__.py", "pymatching.py", "numpy.py"):
        (tmp_path / shadow).write_text("raise SystemExit('shadow')\n")
    where = Where("x", tmp_path / "d", tmp_path / "o")
    for path, rows in zip((where.detectors, where.observables), shots, strict=True):
        rows.tofile(path)
    monkeypatch.chdir(tmp_path)
    setup = WorkerSetup({"x": env.problem(P)}, {}, "mwpm", strongest().name, 300.0)
    with KernelStore().opened() as kernels, VerifierPool(kernels, 1) as pool:
        pool.equip(setup)
        (scored,) = pool.run([Baseline(where, plain_backend(env), 0, SLICE)])
    assert 0 < np.bitwise_count(scored.bits).sum() < SLICE / 4


def bit(detectors: U8, index: int) -> np.ndarray:
    return (detectors[:, index // 8] >> (index % 8)) & 1


@pytest.mark.parametrize("value", ["float('nan')", "float('inf')", "-1e30"])
def test_a_shot_without_a_valid_answer_fails(
    verifier_with: Callable[..., VerifierWorker], shots: tuple[U8, U8], tmp_path: Path, value: str
) -> None:
    detectors, observables = shots
    detectors.tofile(tmp_path / "d")
    observables.tofile(tmp_path / "o")
    task = Candidate(Where("x", tmp_path / "d", tmp_path / "o"), "m", 0, len(detectors))
    scored = task.run(verifier_with(value))
    failed = np.unpackbits(scored.bits, bitorder="little", count=len(detectors)).astype(bool)
    hit = bit(detectors, 0).astype(bool)
    assert 0 < hit.sum() == scored.invalid
    assert failed[hit].all()
    assert failed[~hit].mean() < 0.2
    assert scored.complaints


def test_an_error_costs_the_shots_of_its_question_and_no_others(
    verifier_with: Callable[..., VerifierWorker], shots: tuple[U8, U8]
) -> None:
    detectors, _ = shots
    calm = detectors[bit(detectors, 1) == 0]
    wild = np.concatenate([calm[:SLICE], detectors[bit(detectors, 1) == 1][:10], calm[:SLICE]])
    verifier = verifier_with(raises=True)
    answers = verifier.ask("x", "m", wild)
    assert answers.valid[:SLICE].all()
    assert not answers.valid[SLICE : 2 * SLICE].any()
    assert answers.valid[2 * SLICE :].all()
    assert len(answers.complaints) == 1
    assert "too hard" in answers.complaints[0]
    assert "\n" not in answers.complaints[0]


def test_a_dead_worker_answers_nothing_more(
    verifier_with: Callable[..., VerifierWorker], shots: tuple[U8, U8]
) -> None:
    detectors, observables = shots
    verifier = verifier_with(exits=True)
    answers = verifier.ask("x", "m", detectors)
    assert not answers.valid.any()
    predicted = verifier.predict("x", "m", detectors, answers)
    assert predicted.shape == observables.shape
    assert "WorkerDied" in answers.complaints[0]
    assert not verifier.ask("x", "m", detectors[:100]).valid.any()
