"""Memory experiments that measure stabilisers directly: code capacity and phenomenological noise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import stim

from autoqec.envs.codes.css import Basis, Code, CSSCode
from autoqec.envs.codes.extraction import (
    append_observables,
    as_css,
    check_options,
    detector,
    positions,
)
from autoqec.errors import InputError

DataNoise = Callable[[list[int]], stim.Circuit]


def mpp_memory_circuit(
    code: Code,
    *,
    rounds: int,
    noisy_readout: bool,
    basis: Basis = "z",
    bases: Sequence[Basis] = ("z",),
    data_noise: DataNoise | None = None,
    readout_flip: float = 0.0,
) -> stim.Circuit:
    """A memory experiment in `basis` on the n data qubits alone, with MPP measurements of the stabilisers in
    `bases`.

    Each round is `data_noise([0, ..., n-1])`, the noise instructions for the data qubits, followed by the
    stabilisers, read wrongly with probability `readout_flip`. With `noisy_readout` a perfect round without
    data noise ends the experiment (phenomenological noise: (rounds + 1) m detectors for m checks); without
    it the rounds themselves are perfect (code capacity: rounds = 1, m detectors). Stabilisers of the
    opposite basis, if wanted, are measured once without noise at the start, so that all rounds have
    detectors in both bases.

    Observables: the k logical operators of the memory basis, from a perfect readout of the data qubits.
    """
    css = as_css(code)
    wanted = check_options(code, rounds=rounds, basis=basis, bases=bases)
    if not 0.0 <= readout_flip <= 0.5:
        raise InputError(f"readout_flip = {readout_flip}, expected a probability up to 1/2", where=code.name)
    if readout_flip and not noisy_readout:
        raise InputError(f"readout_flip = {readout_flip} with a perfect readout", where=code.name)
    data = list(range(css.n))
    coords = positions(css)
    checks = [(b, c) for b in wanted for c in range(css.checks(b).shape[0]) if css.checks(b)[c].any()]
    record = {check: i - len(checks) for i, check in enumerate(checks)}
    opening = [check for check in checks if check[0] != basis]
    opening_record = {check: i - len(opening) - len(checks) for i, check in enumerate(opening)}

    def one_round(previous: dict[tuple[Basis, int], int], *, perfect: bool) -> stim.Circuit:
        body = stim.Circuit()
        _append_mpp(body, css, checks, 0.0 if perfect else readout_flip)
        for b in wanted:
            for c in range(css.checks(b).shape[0]):
                records = [table[b, c] for table in (record, previous) if (b, c) in table]
                detector(body, b, coords[b][c], records)
        body.append("TICK")
        body.append("SHIFT_COORDS", [], [0.0] * coords["data"].shape[1] + [1.0])
        return body

    noise = stim.Circuit() if data_noise is None else data_noise(data)
    steady = {check: i - len(checks) for check, i in record.items()}
    circuit = stim.Circuit()
    for q in data:
        circuit.append("QUBIT_COORDS", [q], coords["data"][q])
    circuit.append("R" if basis == "z" else "RX", data)
    _append_mpp(circuit, css, opening, 0.0)
    circuit.append("TICK")
    circuit += noise + one_round(opening_record, perfect=False)
    if rounds > 2:
        circuit.append(stim.CircuitRepeatBlock(rounds - 1, noise + one_round(steady, perfect=False)))
    elif rounds == 2:
        circuit += noise + one_round(steady, perfect=False)
    if noisy_readout:
        circuit += one_round(steady, perfect=True)
    circuit.append("M" if basis == "z" else "MX", data)
    append_observables(circuit, css.logicals(basis))
    return circuit


def _append_mpp(circuit: Any, code: CSSCode, checks: Sequence[tuple[Basis, int]], flip: float) -> None:
    target = {"x": stim.target_x, "z": stim.target_z}
    products: list[Any] = []
    for b, c in checks:
        row = code.checks(b)[c]
        paulis = [target[b](int(q)) for q in np.flatnonzero(row)]
        products += stim.target_combined_paulis(paulis) if paulis else []
    if products:
        circuit.append("MPP", products, flip or None)
