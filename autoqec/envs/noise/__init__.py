"""Noise models: what an environment's noise block does to a circuit at one p."""

from __future__ import annotations

from collections.abc import Callable

from autoqec.envs.noise import biased, depolarizing
from autoqec.envs.noise.circuit_noise import Channel, CircuitNoise
from autoqec.envs.schema import NoiseSpec

# Leakage is uniform circuit noise with a leakage process on top; a custom_dem has no circuit to put noise in.
CIRCUIT_NOISE: dict[str, Callable[..., CircuitNoise]] = {
    "depolarizing": depolarizing.circuit_noise,
    "biased": biased.circuit_noise,
    "leakage": depolarizing.circuit_noise,
}
DATA_CHANNEL: dict[str, Callable[[NoiseSpec, float], Channel]] = {
    "depolarizing": depolarizing.data_channel,
    "biased": biased.data_channel,
}
