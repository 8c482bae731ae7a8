"""The pipeline's two modes, the logical frame, and the cost census."""

import numpy as np
import pytest
import torch

from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.cost import count_flops, measure
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.errors import InputError


def predecoder(problem, **changes):
    base = {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 8, "damping": "fixed"},
    }
    return compile_predecoder(PredecoderDSL.model_validate({**base, **changes}), problem)


@pytest.fixture(scope="module")
def scene():
    env = load_env("surface_d5_depol")
    problem = env.problem(5e-3)
    return problem, make_backend(problem, "mwpm"), env.sampler(5e-3).sample(20_000, 11)


def failures(predictions, shots) -> int:
    return int((predictions != shots.observables).any(axis=1).sum())


@pytest.mark.slow
def test_hard_flips_halve_the_syndrome_and_keep_the_error_rate(scene) -> None:
    problem, backend, shots = scene
    module = predecoder(problem, output_mode="hard_flip", hard_flip={"confidence": 0.95})
    pipeline = PredecoderPipeline(module, backend)
    flips = pipeline.hard_flips(shots.detectors)
    density = (
        unpack(flips.residual, problem.n_checks).mean() / unpack(shots.detectors, problem.n_checks).mean()
    )
    plain, ours = (
        failures(backend.decode(shots.detectors), shots),
        failures(pipeline.decode(shots.detectors), shots),
    )
    without_frame = failures(backend.decode(flips.residual), shots)
    print(f"residual density {density:.2f}, plain {plain}, hard flips {ours}, frame ignored {without_frame}")
    assert density < 0.5
    assert ours <= 1.02 * plain
    assert without_frame > 3 * plain


def test_forward_is_what_the_pipeline_applies(scene) -> None:
    problem, backend, shots = scene
    module = predecoder(problem, output_mode="hard_flip", hard_flip={"confidence": 0.9})
    syndrome = unpack(shots.detectors[:200], problem.n_checks)
    residual = module(torch.from_numpy(syndrome).float(), context(problem)).numpy()
    flips = PredecoderPipeline(module, backend).hard_flips(shots.detectors[:200])
    assert (residual == unpack(flips.residual, problem.n_checks)).all()


@pytest.mark.slow
def test_untrained_belief_propagation_is_a_strong_start(scene) -> None:
    problem, backend, shots = scene
    plain = failures(backend.decode(shots.detectors), shots)
    ours = failures(PredecoderPipeline(predecoder(problem), backend).decode(shots.detectors), shots)
    assert plain > 1.2 * ours


def test_batches_of_any_size_agree(scene) -> None:
    problem, backend, shots = scene
    pipeline = PredecoderPipeline(predecoder(problem), backend)
    whole = pipeline.decode(shots.detectors[:300])
    parts = [pipeline.decode(shots.detectors[a:b]) for a, b in ((0, 1), (1, 130), (130, 300), (300, 300))]
    assert (np.concatenate(parts)[: len(whole)] == whole).all()


def test_census_counts_what_torchs_counter_does_not(scene) -> None:
    problem, _, _ = scene
    four, eight = (count_flops(predecoder(problem, neural_bp={"iterations": n}), problem) for n in (4, 8))
    assert four > 20 * problem.h.nnz  # belief propagation has no matrix product, and is not free
    assert 1.7 < eight / four < 2.1
    cost = measure(predecoder(problem), problem, latency=True)
    assert cost.n_bytes == 4 * cost.n_params
    assert cost.latency_us_p50 <= cost.latency_us_p99


def test_census_refuses_what_it_does_not_know(scene) -> None:
    problem, _, _ = scene
    module = predecoder(problem)
    module.fault_log_odds = lambda syndrome, _: torch.linalg.pinv(syndrome.T @ syndrome)  # type: ignore[method-assign]
    module.edges = None
    with pytest.raises(InputError, match=r"linalg|aten"):
        count_flops(module, problem)
