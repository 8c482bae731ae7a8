"""Classical decoders that see both halves of the syndrome."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from autoqec.decoders.baselines.registry import choose, entry, names, unavailable
from autoqec.envs.load import load_env
from autoqec.envs.packing import pack, unpack
from tests.decoders.both_halves import with_both_halves

JOINT = ["turbo-0", "turbo-10", "joint_bposd-0", "joint_relay"]


def choice(name: str):
    return choose([name], [0], where="test")[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "count"),
    [("turbo-0", 20_000), ("turbo-10", 20_000), ("joint_bposd-0", 4_000), ("joint_relay", 1_500)],
)
def test_they_come_near_the_likeliest_answer(name, count):
    """On the Steane code, against sums over sets of joint faults. Turbo propagation also beats the half alone."""
    env = with_both_halves(p=[0.004])
    problem, shots = env.problem(0.004), env.sample(0.004, count, seed=5)

    def failures(decoder: str) -> int:
        predicted = choice(decoder).build(problem).decode(pack(shots.detectors))
        return int((unpack(predicted, 1) != shots.observables).any(axis=1).sum())

    best = int((most_likely(problem, shots.detectors) != shots.observables[:, 0]).sum())
    found = failures(name)
    assert 0.95 * best <= found <= 1.6 * best
    if name.startswith("turbo"):
        assert found <= 1.1 * best
        assert found < failures("bposd-0")


def most_likely(problem, detectors: np.ndarray) -> np.ndarray:
    """The likelier class of each shot: sums over sets of up to three joint faults, which hold nearly all of the weight."""
    joint = problem.joint
    rows = np.concatenate([joint.h.toarray(), joint.l.toarray()]).astype(np.int64)
    keys = (rows * (1 << np.arange(len(rows)))[:, None]).sum(axis=0)
    odds = joint.priors / (1 - joint.priors)
    weight: dict[int, float] = {}
    for size in range(4):
        for members in itertools.combinations(range(len(keys)), size):
            key, product = 0, 1.0
            for f in members:
                key ^= int(keys[f])
                product *= odds[f]
            weight[key] = weight.get(key, 0.0) + product
    n = joint.n_checks
    wanted = (detectors.astype(np.int64) * (1 << np.arange(n))).sum(axis=1)
    return np.array([weight.get(int(s) | 1 << n, 0.0) > weight.get(int(s), 0.0) for s in wanted])


def test_they_need_both_halves():
    for name in ("turbo", "joint_bposd", "joint_relay"):
        assert entry(name).needs_context
        reason = unavailable(choice(name), load_env("bb72_capacity").problem(0.03))
        assert reason is not None
        assert "observable_with_context" in reason
    assert {name for name in names() if entry(name).needs_context} == {
        "turbo",
        "joint_bposd",
        "joint_relay",
        "joint_legs",
    }


def test_no_shots_and_quiet_shots():
    problem = with_both_halves().problem(0.02)
    for name in JOINT:
        decoder = choice(name).build(problem)
        assert decoder.decode(np.zeros((0, 2), dtype=np.uint8)).shape == (0, 1)
        assert not decoder.decode(np.zeros((3, 2), dtype=np.uint8)).any()
