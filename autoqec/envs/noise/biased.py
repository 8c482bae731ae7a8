"""Z-biased Pauli noise with bias eta = p_Z / (p_X + p_Y).

One qubit: p_Z = p eta / (eta + 1), p_X = p_Y = p / (2 (eta + 1)). Two qubits: IZ, ZI and ZZ share
p eta / (eta + 1) equally, the other twelve Paulis share p / (eta + 1). Readout and reset flip with p.
"""

from __future__ import annotations

from itertools import product

from autoqec.envs.noise.circuit_noise import Channel, CircuitNoise
from autoqec.envs.schema import NoiseSpec


def data_channel(spec: NoiseSpec, p: float) -> Channel:
    off_axis = p / (2 * (spec.eta + 1))
    return (("PAULI_CHANNEL_1", (off_axis, off_axis, p * spec.eta / (spec.eta + 1))),)


def _two_qubit(spec: NoiseSpec, p: float) -> Channel:
    z_type = {("I", "Z"), ("Z", "I"), ("Z", "Z")}
    along, across = p * spec.eta / (spec.eta + 1) / 3, p / (spec.eta + 1) / 12
    paulis = [pair for pair in product("IXYZ", repeat=2) if pair != ("I", "I")]
    return (("PAULI_CHANNEL_2", tuple(along if pair in z_type else across for pair in paulis)),)


def circuit_noise(spec: NoiseSpec, p: float, *, idle_every_layer: bool) -> CircuitNoise:
    one = data_channel(spec, p)
    return CircuitNoise(
        after_1q=one,
        after_2q=_two_qubit(spec, p),
        before_measure=p,
        after_reset=p,
        idle=one if idle_every_layer else (),
        idle_readout=one,
    )
