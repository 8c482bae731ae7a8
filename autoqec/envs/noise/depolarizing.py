"""Circuit-level depolarising noise: uniform, and the superconducting-inspired SI1000.

SI1000: Gidney, Newman, Fowler, Broughton, "A fault-tolerant honeycomb memory" (2021), table 2.
"""

from __future__ import annotations

from autoqec.envs.noise.circuit_noise import Channel, CircuitNoise
from autoqec.envs.schema import NoiseSpec
from autoqec.errors import InputError


def uniform(p: float, *, idle_every_layer: bool) -> CircuitNoise:
    """Strength p everywhere: gates, readout, reset, and idling (in readout layers only, or in every layer)."""
    idle: Channel = (("DEPOLARIZE1", (p,)),)
    return CircuitNoise(
        after_1q=(("DEPOLARIZE1", (p,)),),
        after_2q=(("DEPOLARIZE2", (p,)),),
        before_measure=p,
        after_reset=p,
        idle=idle if idle_every_layer else (),
        idle_readout=idle,
    )


def si1000(p: float) -> CircuitNoise:
    if 5 * p > 0.5:
        raise InputError(
            f"p = {p} gives a readout flip probability of {5 * p:g} under si1000",
            where="noise.p",
            hint="si1000 measures with error 5p: keep p <= 0.1",
        )
    return CircuitNoise(
        after_1q=(("DEPOLARIZE1", (p / 10,)),),
        after_2q=(("DEPOLARIZE2", (p,)),),
        before_measure=5 * p,
        after_reset=2 * p,
        idle=(("DEPOLARIZE1", (p / 10,)),),
        idle_readout=(("DEPOLARIZE1", (p / 10,)), ("DEPOLARIZE1", (2 * p,))),
    )


def circuit_noise(spec: NoiseSpec, p: float, *, idle_every_layer: bool) -> CircuitNoise:
    return si1000(p) if spec.variant == "si1000" else uniform(p, idle_every_layer=idle_every_layer)


def data_channel(spec: NoiseSpec, p: float) -> Channel:
    if spec.variant == "si1000":
        raise InputError(
            "si1000 is a circuit-level model",
            where="noise.variant",
            hint="use variant: uniform for code_capacity and phenomenological noise",
        )
    return (("DEPOLARIZE1", (p,)),)
