"""The counted path against the one that runs: rounding is no other path, whatever it leads to."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import autoqec
from autoqec.decoders.answers import Kind
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.eval.metering import REFERENCE
from autoqec.eval.staged_answers import Answers
from autoqec.eval.two_paths import Compared, answered_otherwise, compare
from autoqec.eval.verifier_worker import VerifierWorker
from autoqec.eval.worker_setup import ModelSpec, WorkerSetup
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kinds import strongest


@pytest.mark.parametrize(
    ("kind", "row", "rounded", "other"),
    [
        ("edges", [6.0, -2.0, 9.0], [6.001, -2.0, 9.0], [6.0, 2.0, 9.0]),
        ("edges", [1e6, 5.0, 7.0, 9.0], [1e6, 5.01, 7.0, 9.0], [1e6, 6.0, 7.0, 9.0]),
        ("edges", [6e3, -2e3, 9e3], [6.001e3, -2e3, 9e3], [6e3, -3e3, 9e3]),
        ("edges", [0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]),
        ("edges", [0.0, 0.0, 8.0], [1e-7, 1e-7, 8.0], [0.01, 0.0, 8.0]),
        ("edges", [6e-6, -2e-6, 9e-6], [6.001e-6, -2e-6, 9e-6], [6e-6, 2e-6, 9e-6]),
        ("edges", [5.0] + [1e4] * 20, [5.1] + [1e4] * 20, [6.0] + [1e4] * 20),
        ("priors", [0.5, 0.5, 0.1], [0.50000006, 0.5, 0.1], [0.6, 0.5, 0.1]),
        ("priors", [1e-3, 0.9999999, 1e-3], [1e-3, 1.0, 1e-3], [1e-3, 0.99, 1e-3]),
        ("priors", [1e-3, 0.9, 0.0], [1.001e-3, 0.9, 0.0], [1e-3, 0.1, 0.0]),
        ("priors", [1.0, 0.0, 0.5], [1.0, 0.0, 0.5], [1.0, 1.0, 0.5]),
        ("faults", [0b10010], [0b10010], [0b10011]),
        ("faults", [0], [0], [1]),
    ],
)
def test_rounding_is_not_another_answer(
    kind: Kind, row: list[float], rounded: list[float], other: list[float]
) -> None:
    def answers(*rows: list[float], valid: bool = True) -> Answers:
        dtype = np.uint8 if kind == "faults" else np.float32
        return Answers(np.array(rows, dtype), np.array([True] * (len(rows) - 1) + [valid]), 0.0, kind)

    assert answered_otherwise(answers(row, row, row), answers(row, rounded, other)) == 1
    assert answered_otherwise(answers(row, row), answers(row, row, valid=False)) == 1, "no answer"


def test_what_rounding_moves_is_allowed_twice() -> None:
    assert not Compared(2, 16).is_another_path
    assert Compared(3, 16).is_another_path
    assert not Compared(10, 512).is_another_path
    assert Compared(11, 512).is_another_path
    assert not Compared(36, 130, by_rounding=20).is_another_path
    assert Compared(60, 130, by_rounding=20).is_another_path


@pytest.mark.verifier
def test_propagation_that_does_not_settle_is_no_other_path(tmp_path: Path) -> None:
    """Fifty iterations on shots that four leave open: the two paths part by rounding alone, in foreign code as in this package's own."""
    env = load_env("bb72_capacity")
    problem = env.built_problem(0.06)
    package = Path(autoqec.__file__).parent
    shutil.copytree(package, tmp_path / "autoqec", ignore=shutil.ignore_patterns("__pycache__"))
    dsl = propagation(50)
    models = {
        "0/real": ModelSpec(dsl, None, "soft_priors", tmp_path),
        f"0/{REFERENCE}": ModelSpec(dsl, None, "soft_priors", installed_root()),
    }
    shots = open_shots(env.sampler(0.06).sample(4096, 3).detectors, problem)[:256]
    verifier = VerifierWorker(WorkerSetup({"x": problem}, models, "osd", strongest().name, 300.0))
    try:
        with verifier.fresh("x", "0/real") as (worker, held):
            some = np.random.default_rng(0).permutation(len(shots))[:128]
            _, counted = worker.counted(held, shots[some])
            whole = verifier.ask_stage("x", "0/real", shots)
            found = compare(verifier, "x", "0/real", held, counted, whole, shots, some)
    finally:
        verifier.close()
    assert found.otherwise > 0.02 * found.shots, "or there is nothing to allow"
    assert not found.is_another_path


def propagation(iterations: int) -> dict[str, Any]:
    return {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": iterations}}


def open_shots(detectors: U8, problem: DecodingProblem) -> U8:
    """Those whose syndrome four iterations do not explain."""
    module = compile_predecoder(PredecoderDSL.model_validate(propagation(4)), problem).eval()
    syndromes = unpack(detectors, problem.n_checks)
    with torch.no_grad():
        priors = module(torch.from_numpy(syndromes).float(), context(problem)).numpy()
    left = syndromes != (problem.h @ (priors > 0.5).T).T % 2
    return detectors[left.any(axis=1)]
