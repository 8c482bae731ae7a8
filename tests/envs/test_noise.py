"""Where noise lands in a circuit."""

import pytest
import stim

from autoqec.envs.noise.biased import circuit_noise as biased
from autoqec.envs.noise.circuit_noise import add_noise, carries_noise
from autoqec.envs.noise.depolarizing import si1000, uniform
from autoqec.envs.schema import NoiseSpec

CIRCUIT = stim.Circuit("""
    R 0 1 2
    TICK
    H 0
    TICK
    CX 0 1
    TICK
    M 1
    DETECTOR rec[-1]
    TICK
    CX 2 0 0 1
    TICK
    M 0 2
    OBSERVABLE_INCLUDE(0) rec[-1]
""")


def test_uniform_noise_sits_where_it_says() -> None:
    assert add_noise(CIRCUIT, uniform(0.125, idle_every_layer=True)) == stim.Circuit("""
        R 0 1 2
        X_ERROR(0.125) 0 1 2
        TICK
        H 0
        DEPOLARIZE1(0.125) 0
        DEPOLARIZE1(0.125) 1 2
        TICK
        CX 0 1
        DEPOLARIZE2(0.125) 0 1
        DEPOLARIZE1(0.125) 2
        TICK
        X_ERROR(0.125) 1
        M 1
        DETECTOR rec[-1]
        DEPOLARIZE1(0.125) 0 2
        TICK
        CX 2 0
        DEPOLARIZE2(0.125) 2 0
        CX 0 1
        DEPOLARIZE2(0.125) 0 1
        TICK
        X_ERROR(0.125) 0 2
        M 0 2
        OBSERVABLE_INCLUDE(0) rec[-1]
    """)


def test_idle_in_readout_layers_only() -> None:
    noisy = str(add_noise(CIRCUIT, uniform(0.125, idle_every_layer=False)))
    assert noisy.count("DEPOLARIZE1(0.125) 0 2\n") == 1  # while qubit 1 is read out
    assert noisy.count("DEPOLARIZE1") == 2  # that, and after H


def test_si1000_strengths() -> None:
    noisy = str(add_noise(CIRCUIT, si1000(0.01)))
    for part in (
        "X_ERROR(0.02) 0 1 2",
        "DEPOLARIZE1(0.001) 0 1 2\n",
        "DEPOLARIZE2(0.01) 0 1",
        "X_ERROR(0.05) 1",
    ):
        assert part in noisy
    assert "DEPOLARIZE1(0.001) 0 2\nDEPOLARIZE1(0.02) 0 2" in noisy


def test_biased_channels_sum_to_p() -> None:
    spec = NoiseSpec(type="biased", p=[0.01], eta=10.0)
    noise = biased(spec, 0.01, idle_every_layer=False)
    (_, one), (_, two) = noise.after_1q[0], noise.after_2q[0]
    assert sum(one) == pytest.approx(0.01)
    assert sum(two) == pytest.approx(0.01)
    assert one[2] / (one[0] + one[1]) == pytest.approx(10.0)
    iz, zi, zz = two[2], two[11], two[14]
    assert (iz + zi + zz) / (sum(two) - iz - zi - zz) == pytest.approx(10.0)


def test_noise_is_seen_in_loops_and_measurements() -> None:
    assert not carries_noise(CIRCUIT)
    assert carries_noise(stim.Circuit("REPEAT 3 {\n X_ERROR(0.1) 0\n}"))
    assert carries_noise(stim.Circuit("M(0.01) 0"))


def test_other_bases_and_joint_measurements() -> None:
    noisy = add_noise(
        stim.Circuit("RX 0\nTICK\nMX 0\nMXX 0 1\nMPP X0*Z1"), uniform(0.25, idle_every_layer=False)
    )
    assert str(noisy).splitlines() == [
        "RX 0",
        "Z_ERROR(0.25) 0",
        "TICK",
        "Z_ERROR(0.25) 0",
        "MX 0",
        "MXX(0.25) 0 1",
        "MPP(0.25) X0*Z1",
    ]


def test_classically_controlled_gates_stay_clean() -> None:
    noisy = add_noise(stim.Circuit("M 0\nTICK\nCX rec[-1] 1"), uniform(0.25, idle_every_layer=False))
    assert str(noisy).endswith("CX rec[-1] 1")
