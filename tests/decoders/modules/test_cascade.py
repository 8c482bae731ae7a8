"""Cascades: gates between stages, what later stages see, and what all of it costs."""

import numpy as np
import pytest
import stim
import torch
from pydantic import ValidationError
from small_cascades import LARGE, SHIFT, SMALL, cascade, moved

from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.cost import measure
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.gates import EVERY_SHOT, THRESHOLDS, Gates, planned_shares
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.pruned_sweep import OPERATIONS, PrunedSweep
from autoqec.envs.build import problem_from_dem
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.errors import InputError

SHOTS = 2500


@pytest.fixture(scope="module")
def scene():
    env = load_env("surface_d3_depol")
    problem = env.problem(1e-2)
    return problem, make_backend(problem, "mwpm"), env.sampler(1e-2).sample(SHOTS, 11)


@pytest.mark.parametrize("later", [SHIFT, LARGE], ids=["shift", "anew"])
def test_a_gate_that_is_shut_is_the_first_stage_and_an_open_one_the_last(scene, later) -> None:
    problem, backend, shots = scene
    module = moved(cascade(SMALL, later), problem)
    first = PredecoderPipeline(module.stages[0], backend).decode(shots.detectors)
    syndrome = torch.from_numpy(unpack(shots.detectors, problem.n_checks)).float()
    with torch.no_grad():
        weights = [module.edge_log_odds(part, context(problem)) for part in syndrome.split(128)]
    last = backend.decode_edges(shots.detectors, torch.cat(weights).numpy())
    assert (first != last).any()

    module.thresholds.fill_(0.0)
    shut = PredecoderPipeline(module, backend).staged(shots.detectors)
    assert (shut.predictions == first).all()
    assert shut.reached(2) == (SHOTS, 0)
    module.thresholds.fill_(EVERY_SHOT)
    wide = PredecoderPipeline(module, backend).staged(shots.detectors)
    assert (wide.predictions == last).all()
    assert wide.reached(2) == (SHOTS, SHOTS)


def test_a_stage_begins_with_what_fits_of_the_one_before_it(scene) -> None:
    problem, _, _ = scene
    module = moved(cascade(SMALL, LARGE, SHIFT), problem)
    first, second, shift = (stage.state_dict() for stage in module.stages)
    alike = [name for name in first.keys() & second.keys() if first[name].shape == second[name].shape]
    assert any((first[name] != second[name]).any() for name in alike)
    unlike = {name: tensor.clone() for name, tensor in second.items() if name not in alike}
    before = {name: tensor.clone() for name, tensor in shift.items()}
    module.train_stage(1)
    assert all(torch.equal(first[name], second[name]) for name in alike)
    assert all(torch.equal(second[name], tensor) for name, tensor in unlike.items())
    module.train_stage(2)
    assert all(torch.equal(shift[name], tensor) for name, tensor in before.items()), (
        "its shift would be done twice"
    )


def test_only_unsure_shots_go_on_whatever_the_batch(scene) -> None:
    problem, backend, shots = scene
    module = moved(cascade(SMALL, SHIFT, LARGE), problem)
    module.thresholds.copy_(torch.tensor([3.0, 1.0]))
    pipeline = PredecoderPipeline(module, backend)
    whole = pipeline.staged(shots.detectors)
    sure = PredecoderPipeline(module.stages[0], backend).decode_with_confidence(shots.detectors).log_odds
    assert ((whole.stage > 0) == (sure < 3.0)).all()
    reached = whole.reached(3)
    assert SHOTS == reached[0] > reached[1] > reached[2] > 0
    parts = [pipeline.staged(part) for part in np.array_split(shots.detectors, 7)]
    assert (np.concatenate([part.predictions for part in parts]) == whole.predictions).all()
    assert (np.concatenate([part.stage for part in parts]) == whole.stage).all()
    assert pipeline.decode(shots.detectors[:0]).shape == (0, 1)


def test_a_network_behind_a_stage_starts_with_what_that_says(scene) -> None:
    problem, _, shots = scene
    module = compile_predecoder(cascade(SMALL, SHIFT), problem)
    syndrome = torch.from_numpy(unpack(shots.detectors[:50], problem.n_checks)).float()
    first, ctx = module.stages[0], context(problem)
    with torch.no_grad():
        assert torch.equal(module.edge_log_odds(syndrome, ctx), first.edge_log_odds(syndrome, ctx))
        faults, before = module.fault_log_odds(syndrome, ctx), first.fault_log_odds(syndrome, ctx)
    assert torch.allclose(faults, before, atol=1e-2)


def test_ordered_statistics_send_on_what_is_not_explained(steane) -> None:
    problem, shots = steane
    one = {"type": "neural_bp", "neural_bp": {"iterations": 1, "damping": "fixed"}}
    more = {"type": "neural_bp", "neural_bp": {"iterations": 8}, "share": 0.5, "order": 3}
    module = compile_predecoder(cascade(one, more), problem)
    module.thresholds.fill_(EVERY_SHOT)
    found = PredecoderPipeline(module, make_backend(problem, "osd")).staged(shots.detectors)
    syndrome = torch.from_numpy(unpack(shots.detectors, problem.n_checks)).float()
    with torch.no_grad():
        likely = module.stages[0].fault_probabilities(syndrome, context(problem)).numpy() > 0.5
    explained = (
        unpack(shots.detectors, problem.n_checks) == (problem.h @ likely.T.astype(np.int32)).T % 2
    ).all(axis=1)
    assert 0 < explained.sum() < len(explained)
    assert ((found.stage == 0) == explained).all()


@pytest.fixture(scope="module")
def steane():
    env = load_env("steane_custom_dem")
    p = env.spec.noise.p[-1]
    return env.problem(p), env.sampler(p).sample(1500, 5)


def test_an_order_needs_ordered_statistics(scene) -> None:
    problem, backend, _ = scene
    module = compile_predecoder(cascade(SMALL, {**LARGE, "order": 10}), problem)
    with pytest.raises(InputError, match="mwpm has no order"):
        PredecoderPipeline(module, backend)


def test_members_need_matching(steane) -> None:
    problem, _ = steane
    one = {"type": "neural_bp", "neural_bp": {"iterations": 1}}
    module = compile_predecoder(cascade(one, {**one, "share": 0.5, "members": 4}), problem)
    with pytest.raises(InputError, match="osd has no members"):
        PredecoderPipeline(module, make_backend(problem, "osd"))


SWEEP = {"type": "sweep", "states": 32, "share": 0.1}


def test_a_sweep_decides_what_reaches_it_whatever_the_weights(scene) -> None:
    problem, backend, shots = scene
    module = moved(cascade(SMALL, SWEEP), problem)
    module.thresholds.fill_(3.0)
    found = PredecoderPipeline(module, backend).staged(shots.detectors, sure_of_all=True)
    swept = PrunedSweep(problem, 32).decode_with_confidence(shots.detectors)
    first = PredecoderPipeline(module.stages[0], backend).decode_with_confidence(shots.detectors)
    last = found.stage == 1
    assert ((first.log_odds < 3.0) == last).all()
    assert 0 < last.sum() < SHOTS
    for answered, by in ((last, swept), (~last, first)):
        assert (found.predictions[answered] == by.predictions[answered]).all()
        assert (found.log_odds[answered] == by.log_odds[answered]).all()
    assert not list(module.stages[1].parameters())


def test_a_sweep_is_counted(scene) -> None:
    problem, _, _ = scene
    costs = [
        measure(compile_predecoder(cascade(SMALL, {**SWEEP, "states": states}), problem), problem)
        for states in (8, 64)
    ]
    first, second = (cost.stage_flops[1] for cost in costs)
    assert OPERATIONS * problem.n_faults < first < second
    assert costs[1].flops_per_syndrome == pytest.approx(costs[1].stage_flops[0] + 0.1 * second, rel=1e-3)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([{**SWEEP, "share": None}, SMALL], "is the last one"),
        ([SMALL, {"type": "sweep", "share": 0.1}], "needs states"),
        ([SMALL, {**LARGE, "states": 8}], "states belongs to a stage of type 'sweep'"),
        ([SMALL, {**SWEEP, "members": 4}], "has no members"),
        ([SMALL, {**SWEEP, "epochs": 3}], "has no epochs"),
        ([SMALL, {**SWEEP, "states": 0}], "greater than or equal to 1"),
    ],
)
def test_what_a_sweep_is_not(stages, message) -> None:
    with pytest.raises(ValidationError, match=message):
        cascade(*stages)
    with pytest.raises(ValidationError, match="type"):
        PredecoderDSL.model_validate({"type": "sweep", "output_mode": "soft_priors"})


def test_a_sweep_needs_a_problem_that_is_narrow() -> None:
    problem = load_env("bb72_capacity").problem(0.03)
    one = {"type": "neural_bp", "neural_bp": {"iterations": 1}}
    module = compile_predecoder(cascade(one, SWEEP), problem)
    with pytest.raises(InputError, match="a sweep takes at most 10"):
        PredecoderPipeline(module, make_backend(problem, "osd"))


def test_members_decide_behind_their_stage_alone(scene) -> None:
    problem, backend, shots = scene
    found = []
    for members in (None, 8):
        module = compile_predecoder(cascade(SMALL, {**LARGE, "members": members}), problem)
        module.thresholds.fill_(1.0)
        found.append(PredecoderPipeline(module, backend).staged(shots.detectors, sure_of_all=True))
    single, ensemble = found
    assert (single.stage == ensemble.stage).all()
    first = single.stage == 0
    assert (single.log_odds[first] == ensemble.log_odds[first]).all()
    assert (single.predictions[first] == ensemble.predictions[first]).all()
    assert (single.log_odds[~first] != ensemble.log_odds[~first]).mean() > 0.5


def test_the_cost_is_the_expected_one(scene) -> None:
    problem, _, _ = scene
    single = [
        measure(compile_predecoder(PredecoderDSL(output_mode="soft_priors", **stage), problem), problem)
        for stage in ({**SMALL}, {name: LARGE[name] for name in ("type", "neural_bp", "gnn")})
    ]
    both = measure(compile_predecoder(cascade(SMALL, LARGE), problem), problem)
    first, second = (each.flops_per_syndrome for each in single)
    assert both.stage_flops == (first, pytest.approx(second, rel=0.05))
    assert both.stage_shares == (1.0, 0.05)
    assert both.flops_per_syndrome == pytest.approx(first + 0.05 * both.stage_flops[1], abs=1)
    assert both.n_params == sum(each.n_params for each in single) + 1
    assert "stage_flops" not in single[0].to_dict()


def test_a_mean_cost_says_how_many_shots_go_on() -> None:
    assert planned_shares([10, 100], [None, None], 12) == (1.0, pytest.approx(0.02))
    assert planned_shares([10, 100, 1000], [None] * 3, 30) == (1.0, pytest.approx(0.1), pytest.approx(0.01))
    assert planned_shares([10, 5, 1], [None] * 3, 100) == (1.0, 1.0, 1.0)
    with pytest.raises(InputError, match="first stage alone"):
        planned_shares([10, 100], [None, None], 10)


def test_thresholds_are_numbers_of_the_checkpoint() -> None:
    dsl = cascade(SMALL, LARGE).model_dump(mode="json")
    assert Gates.of(dsl, {THRESHOLDS: np.array([1.5], np.float32)}).thresholds == (1.5,)
    assert Gates.of(dsl, None).stages == 2
    assert Gates.of({"type": "neural_bp"}, {}).stages == 1
    for wrong in ({}, {THRESHOLDS: np.zeros(2)}, {THRESHOLDS: np.array([np.nan])}):
        with pytest.raises(InputError, match="1 thresholds"):
            Gates.of(dsl, wrong)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"stages": None}, "needs stages"),
        ({"stages": [SMALL]}, "at least 2"),
        ({"output_mode": "hard_flip"}, "soft_priors"),
        ({"head": "mlp_small"}, "belongs to a stage"),
        ({"neural_bp": {}}, "put it into a stage"),
        ({"mean_flops": 10}, "keep one"),
        ({"stages": [SMALL, SMALL]}, "how many shots go on"),
        ({"stages": [SMALL, SHIFT, {**LARGE, "share": 0.1}]}, "must not rise"),
        ({"stages": [SMALL, {**SHIFT, "head": {"type": "custom", "code": "x"}}]}, "named parts"),
        ({"type": "neural_bp", "neural_bp": {}}, "belongs to type 'cascade'"),
    ],
)
def test_configs_that_make_no_cascade_are_refused(change, message) -> None:
    good = {"type": "cascade", "output_mode": "soft_priors", "stages": [SMALL, SHIFT]}
    PredecoderDSL.model_validate(good)
    with pytest.raises(ValidationError, match=message):
        PredecoderDSL.model_validate({**good, **change})


def test_no_gate_where_the_classes_cannot_be_told_apart() -> None:
    """A detector ring whose cycle flips the observable, as on a torus."""
    dem = stim.DetectorErrorModel("error(0.1) D0 D1\nerror(0.1) D1 D2\nerror(0.1) D0 D2 L0")
    problem = problem_from_dem(dem, need_graph=True)
    module = compile_predecoder(cascade(SMALL, SHIFT), problem)
    with pytest.raises(InputError, match="cycle"):
        PredecoderPipeline(module, make_backend(problem, "mwpm"))
