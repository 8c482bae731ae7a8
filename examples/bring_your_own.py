"""Your own circuit, check matrices or detector error model as an environment."""

import sys

import numpy as np
import stim

import autoqec

shots = int(sys.argv[1]) if len(sys.argv) > 1 else 5_000
circuit = stim.Circuit.generated(
    "surface_code:rotated_memory_x", distance=3, rounds=3, after_clifford_depolarization=0.008
)
circuit.to_file("mine.stim")
circuit.detector_error_model(decompose_errors=True).to_file("mine.dem")
ring = np.eye(9, dtype=np.uint8) ^ np.roll(np.eye(9, dtype=np.uint8), 1, axis=1)
toric = {"Hx": np.hstack([np.kron(ring, np.eye(9)), np.kron(np.eye(9), ring.T)]).astype(np.uint8),
         "Hz": np.hstack([np.kron(np.eye(9), ring), np.kron(ring.T, np.eye(9))]).astype(np.uint8)}  # fmt: skip
np.savez("mine.npz", **toric)

own = {"constraints": {}, "classical_backend": "mwpm", "baseline_decoders": ["pymatching", "belief_matching"]}
circuit_env = autoqec.load_env(
    {
        "name": "my_circuit",
        "code": {"type": "stim_circuit", "source": "mine.stim"},
        "noise": {"type": "depolarizing", "p": [0.008]},  # the circuit carries its noise: p is its label
        **own,
    }
)
model_env = autoqec.load_env(
    {
        "name": "my_model",
        "code": {"type": "stim_circuit", "source": "mine.stim"},
        "noise": {"type": "custom_dem", "p": [0.008], "dem": "mine.dem"},
        **own,
    }
)
matrix_env = autoqec.load_env(
    {
        "name": "my_matrices",
        "code": {"type": "parity_check_matrix", "source": "mine.npz"},
        "noise": {"type": "depolarizing", "p": [0.06, 0.08], "level": "code_capacity"},
        **own,
    }
)
for env in (circuit_env, model_env, matrix_env):
    print(env.spec.name)
    print(autoqec.compare(env, shots=shots))
