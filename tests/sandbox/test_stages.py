"""A cascade in the confined worker: a question names the stage, and brings along what the stage before said."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from autoqec.decoders import checkpoint
from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.stage_cost import stage_flops
from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.finds.confined import ConfinedDecoder
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kinds import strongest
from autoqec.sandbox.worker import ModelWorker

DSL = {
    "type": "cascade",
    "output_mode": "soft_priors",
    "stages": [
        {"type": "neural_bp", "neural_bp": {"iterations": 2}},
        {"type": "gnn", "gnn": {"layers": 1, "hidden_dim": 4}, "share": 0.1},
    ],
}


@pytest.fixture(scope="module")
def scene():
    env = load_env("surface_d3_depol")
    problem = env.problem(0.01)
    module = compile_predecoder(PredecoderDSL.model_validate(DSL), problem)
    with torch.no_grad():
        for each in module.stages[1].parameters():
            each += 0.1 * torch.randn(each.shape, generator=torch.Generator().manual_seed(3))
    state = {name: each.numpy() for name, each in module.state_dict().items()}
    return problem, module, state, env.sampler(0.01).sample(600, 4).detectors


def test_the_stages_answer_and_cost_there_what_they_do_here(scene) -> None:
    problem, module, state, detectors = scene
    pipeline = PredecoderPipeline(module, make_backend(problem, "mwpm"))
    with ModelWorker(strongest()) as worker:
        held = worker.hold_model(
            worker.hold_problem(problem), problem, DSL, state, output_mode="soft_priors", wants_edges=True
        )
        assert held.gates.thresholds == module.gates.thresholds
        first = worker.answers(held, detectors)
        later = worker.answers(held, detectors[:50], stage=1, earlier=first[:50])
        everything = worker.all_answers(held, detectors[:50])
        counted, answers = worker.counted(held, detectors[:8], stage=1, earlier=first[:8])
        assert counted == worker.flops(held, detectors[:8], stage=1, earlier=first[:8])
    assert np.allclose(first, pipeline.answers(detectors)[1], atol=1e-4)
    assert np.allclose(later, pipeline.answers(detectors[:50], 1, first[:50])[1], atol=1e-4)
    assert not np.allclose(later, first[:50], atol=0.1)
    assert np.allclose(everything, np.concatenate([first[:50], later], axis=1), atol=1e-4)
    assert counted.mean == stage_flops(module, problem)[1]
    assert np.allclose(answers, later[:8], atol=1e-3), "of the calls that were counted"


def test_a_confined_cascade_decodes_as_one_in_this_process(scene) -> None:
    problem, module, state, detectors = scene
    backend = make_backend(problem, "mwpm")
    confined = ConfinedDecoder(DSL, state, "soft_priors", backend, installed_root())
    here, there = PredecoderPipeline(module, backend).staged(detectors), confined.staged(detectors)
    assert (here.predictions == there.predictions).all()
    assert (here.stage == there.stage).all()
    assert 0 < here.reached(2)[1] < len(detectors)


def test_weights_without_thresholds_are_no_cascade(scene, tmp_path) -> None:
    problem, _, state, _ = scene
    broken = {name: each for name, each in state.items() if name != "thresholds"}
    with ModelWorker(strongest()) as worker, pytest.raises(InputError, match="1 thresholds"):
        worker.hold_model(
            worker.hold_problem(problem), problem, DSL, broken, output_mode="soft_priors", wants_edges=True
        )
    tensors = {name: torch.from_numpy(each) for name, each in broken.items()}
    info = checkpoint.CheckpointInfo(
        dsl=PredecoderDSL.model_validate(DSL),
        output_mode="soft_priors",
        env_name="",
        env_hash="",
        seed=0,
        train_labels=(0, -1),
        versions={},
    )
    with pytest.raises(InputError, match="other tensors"):
        checkpoint.restore(info, tensors, problem, where="here")
