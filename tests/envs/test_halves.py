"""Environments that show a predecoder both halves of the syndrome, while the backend decodes one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import stim

from autoqec.decoders.backends.osd import OsdBackend
from autoqec.decoders.baselines.registry import choose
from autoqec.envs.halves import context_half
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from autoqec.envs.problem_arrays import from_arrays, to_arrays
from autoqec.errors import InputError
from autoqec.finds.fit import fitted
from autoqec.runner.data import FaultSampler
from tests.decoders.both_halves import with_both_halves


def symptoms(h: np.ndarray, l: np.ndarray, priors: np.ndarray) -> dict[bytes, float]:
    both = np.concatenate([h, l]).astype(np.uint8)
    return {both[:, f].tobytes(): priors[f] for f in range(both.shape[1])}


@pytest.mark.parametrize("name", ["steane", "bb72_depol"])
def test_the_backend_sees_what_it_sees_where_the_others_are_dropped(name):
    if name == "steane":
        with_both, one, p = with_both_halves(), with_both_halves("observable"), 0.02
    else:
        with_both, p = load_env(name), 0.003
        spec = with_both.spec.model_dump(mode="json")
        spec["eval_protocol"]["osd_bases"] = "observable"
        one = load_env(spec)
    whole, half = with_both.problem(p), one.problem(p)
    seen = whole.joint.seen
    assert not whole.h.toarray()[~seen].any()
    mine = symptoms(whole.h.toarray()[seen], whole.l.toarray(), whole.priors)
    wanted = symptoms(half.h.toarray(), half.l.toarray(), half.priors)
    assert mine.keys() == wanted.keys()
    assert all(mine[symptom] == pytest.approx(wanted[symptom], rel=1e-9) for symptom in wanted)


def test_plain_decoders_decide_as_they_do_without_the_other_half():
    env = with_both_halves()
    problem, shots = env.problem(0.02), env.sample(0.02, 500, seed=4)
    seen = problem.joint.seen
    half = replace(
        problem, h=problem.h[np.flatnonzero(seen)], detector_basis=problem.detector_basis[seen], joint=None
    )
    packed, own = pack(shots.detectors), pack(shots.detectors[:, seen])
    for plain in choose(["bposd", "bplsd"], [0, 10], where="test"):
        assert np.array_equal(plain.build(problem).decode(packed), plain.build(half).decode(own))
    backend, alone = OsdBackend(problem), OsdBackend(half)
    assert np.array_equal(backend.decode(packed), alone.decode(own))
    priors = np.random.default_rng(0).random((500, problem.n_faults))
    assert np.array_equal(backend.decode_priors(packed, priors), alone.decode_priors(own, priors))


def test_it_survives_files_and_pipes():
    problem = with_both_halves().problem(0.02)
    again = from_arrays(*to_arrays(problem))
    for mine, theirs in ((problem, again), (problem.joint, again.joint)):
        assert (mine.h != theirs.h).nnz == 0
        assert (mine.l != theirs.l).nnz == 0
        assert np.array_equal(mine.priors, theirs.priors)
    assert np.array_equal(problem.joint.seen, again.joint.seen)
    assert np.array_equal(problem.joint.fault_of, again.joint.fault_of)


def test_training_samples_both_halves_and_labels_one():
    problem = with_both_halves().problem(0.02)
    batch = FaultSampler([problem], "cpu").sample(4000, 1)
    syndrome, faults = batch.syndrome.numpy().astype(int), batch.faults.numpy().astype(int)
    seen = problem.joint.seen
    assert np.array_equal((problem.h.toarray() @ faults % 2).T[:, seen], syndrome[:, seen])
    assert np.array_equal((problem.l.toarray() @ faults % 2).T, batch.observables.numpy())
    shots = with_both_halves().sample(0.02, 20_000, seed=2)
    assert np.allclose(syndrome.mean(axis=0), shots.detectors.mean(axis=0), atol=0.03)
    # The halves are tied together by Y-type faults: a fired X detector makes Z detectors likelier.
    lift = [
        (rows[:, seen].any(axis=1) & rows[:, ~seen].any(axis=1)).mean()
        - rows[:, seen].any(axis=1).mean() * rows[:, ~seen].any(axis=1).mean()
        for rows in (syndrome, shots.detectors)
    ]
    assert lift[0] == pytest.approx(lift[1], abs=0.03)
    assert lift[1] > 0.01


def test_an_error_model_fits_by_its_joint_faults():
    env = with_both_halves()
    from autoqec.envs.build import problem_from_dem

    def given(text: str):
        return problem_from_dem(stim.DetectorErrorModel(text), need_graph=False)

    dem = env.problem(0.02).dem
    lines = dem.splitlines()
    assert fitted(given("\n".join(reversed(lines))), env).p == 0.02
    other = fitted(given(str(env.circuit(0.02).detector_error_model()).replace("error(0.", "error(0.0")), env)
    assert np.isnan(other.p)
    assert np.allclose(other.priors.sum(), other.joint.priors[other.joint.fault_of >= 0].sum(), rtol=0.1)
    assert (other.priors < env.problem(0.02).priors).all()
    with pytest.raises(InputError, match="another problem"):
        fitted(given("\n".join(lines[1:])), env)


@pytest.mark.parametrize("change", [{"x_z_decoding": "x_only"}, {"backend": "mwpm"}])
def test_it_needs_another_half(change):
    data = with_both_halves().spec.model_dump(mode="json")
    if "backend" in change:
        data |= {"classical_backend": "mwpm", "baseline_decoders": []}
    else:
        data["eval_protocol"] |= change
        data["code"]["rounds"] = None
    with pytest.raises(InputError) as caught:
        load_env(data).problem(0.02)
    assert "osd_bases" in str(caught.value)


def test_the_other_half_groups_faults_by_its_own_detectors():
    problem = with_both_halves().problem(0.02)
    half = context_half(problem.joint)
    assert not half.h.toarray()[problem.joint.seen].any()
    columns = half.h.toarray()
    for fault, place in enumerate(half.class_of):
        mine = problem.joint.h.toarray()[:, fault] * ~problem.joint.seen
        assert np.array_equal(mine, columns[:, place]) if place >= 0 else not mine.any()
    assert unpack(problem.backend_shots(pack(np.ones((1, problem.n_checks)))), problem.n_checks).sum() == (
        problem.joint.seen.sum()
    )
