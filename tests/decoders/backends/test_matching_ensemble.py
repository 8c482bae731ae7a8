"""Matchings that decide together."""

import itertools

import numpy as np
import pytest
import stim

from autoqec.decoders.backends import make_backend
from autoqec.decoders.backends.matching import MatchingBackend
from autoqec.decoders.backends.matching_ensemble import SPREAD, MatchingEnsemble
from autoqec.envs.build import problem_from_dem
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem import BOUNDARY
from autoqec.errors import InputError

REPETITION = stim.Circuit.generated(
    "repetition_code:memory", distance=3, rounds=2, before_round_data_depolarization=0.1
)


@pytest.fixture(scope="module")
def repetition():
    problem = problem_from_dem(REPETITION.detector_error_model(decompose_errors=True), need_graph=True)
    shots = REPETITION.compile_detector_sampler(seed=3).sample(60, bit_packed=True)
    weights = np.random.default_rng(4).normal(1.5, 1.5, (60, problem.graph.n_edges)).astype(np.float32)
    return problem, shots, weights


def enumerated(problem, detectors, weights) -> np.ndarray:
    """[shots] weight of the lightest correction that flips the observable, less that of the lightest that does not, among all sets of edges."""
    graph = problem.graph
    sets = np.array(list(itertools.product((0, 1), repeat=graph.n_edges)), dtype=np.int64)
    ends = np.zeros((graph.n_edges, problem.n_checks), dtype=np.int64)
    for edge, pair in enumerate(graph.ends):
        ends[edge, pair[pair != BOUNDARY]] ^= 1
    syndromes, flips = sets @ ends & 1, sets @ graph.observables[:, 0].astype(np.int64) & 1
    found = []
    for bits, own in zip(unpack(detectors, problem.n_checks), weights, strict=True):
        fits = (syndromes == bits).all(axis=1)
        totals = sets @ own.astype(np.float64)
        found.append(totals[fits & (flips == 1)].min() - totals[fits & (flips == 0)].min())
    return np.array(found)


@pytest.mark.parametrize("members", [2, 5])
def test_the_class_that_weighs_less_in_the_mean(repetition, members) -> None:
    problem, shots, weights = repetition
    ensemble = make_backend(problem, "mwpm", members=members)
    assert isinstance(ensemble, MatchingEnsemble)
    changes = ensemble._changes
    assert len(changes) == members
    assert changes.sum(axis=0) == pytest.approx(0, abs=1e-5)
    mean = np.mean([enumerated(problem, shots, weights + change) for change in changes], axis=0)
    found = ensemble.edges_with_confidence(shots, weights)
    assert (unpack(found.predictions, 1)[:, 0] == (mean < 0)).all()
    assert found.log_odds == pytest.approx(np.abs(mean), abs=1e-3)
    assert (ensemble.decode_edges(shots, weights) == found.predictions).all()


def test_an_answer_does_not_depend_on_the_shots_beside_it(repetition) -> None:
    problem, shots, weights = repetition
    ensemble = MatchingEnsemble(problem, 4)
    together = ensemble.decode_edges(shots, weights)
    alone = [ensemble.decode_edges(shots[k : k + 1], weights[k : k + 1]) for k in range(len(shots))]
    assert (np.concatenate(alone) == together).all()


def test_many_corrections_that_come_close_win_against_one() -> None:
    """One way without the observable, six others with it that weigh a little more each."""
    ways = "\n".join(f"error(0.1) D0 D{k}\nerror(0.1) D{k} L0" for k in range(1, 7))
    problem = problem_from_dem(stim.DetectorErrorModel(f"error(0.1) D0\n{ways}"), need_graph=True)
    syndrome = pack(np.eye(1, problem.n_checks, dtype=np.uint8))
    graph = problem.graph
    direct = (graph.ends[:, 1] == BOUNDARY) & (graph.observables[:, 0] == 0)
    assert direct.sum() == 1
    weights = np.where(direct, 2.0, 1.0 + 0.1 * SPREAD).astype(np.float32)[None]
    assert unpack(MatchingBackend(problem).decode_edges(syndrome, weights), 1)[0, 0] == 0
    assert unpack(MatchingEnsemble(problem, 64).decode_edges(syndrome, weights), 1)[0, 0] == 1


def test_several_observables_are_refused() -> None:
    problem = problem_from_dem(stim.DetectorErrorModel("error(0.1) D0 L0\nerror(0.1) D0 L1"), need_graph=True)
    with pytest.raises(InputError, match="one observable"):
        MatchingEnsemble(problem, 4)
