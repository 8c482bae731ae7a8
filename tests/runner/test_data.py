"""Training data: labels that agree with each other, and the rates of the error model."""

import numpy as np
import pytest

from autoqec.envs.load import load_env
from autoqec.errors import InputError
from autoqec.runner.data import FaultSampler


@pytest.fixture(scope="module")
def problems():
    env = load_env("surface_d3_depol")
    return [env.problem(p) for p in env.spec.noise.p]


def test_labels_explain_syndromes_and_observables(problems) -> None:
    batch = FaultSampler(problems, "cpu").sample(3000, 5)
    faults = batch.faults.numpy().astype(np.int64)
    assert (batch.syndrome.numpy() == (problems[0].h @ faults).T % 2).all()
    assert (batch.observables.numpy() == (problems[0].l @ faults).T % 2).all()


def test_every_p_has_its_share_and_its_rates(problems) -> None:
    batch = FaultSampler(problems, "cpu").sample(90_000, 6)
    for k, problem in enumerate(problems):
        rows = (batch.which == k).numpy()
        assert rows.sum() == 30_000
        rate = batch.faults.numpy()[:, rows].mean(axis=1)
        sigma = np.sqrt(problem.priors * (1 - problem.priors) / 30_000)
        assert np.mean(((rate - problem.priors) / sigma) ** 2) < 1.3
        assert (batch.prior_p[rows][0].numpy() == problem.priors.astype(np.float32)).all()


def test_seeds_decide(problems) -> None:
    sampler = FaultSampler(problems, "cpu")
    assert (sampler.sample(64, 1).syndrome == sampler.sample(64, 1).syndrome).all()
    assert (sampler.sample(640, 1).syndrome != sampler.sample(640, 2).syndrome).any()


def test_a_sweep_that_changes_the_faults_is_refused(problems) -> None:
    other = load_env("surface_d5_depol").problem(5e-3)
    with pytest.raises(InputError, match="faults at p"):
        FaultSampler([problems[0], other], "cpu")
