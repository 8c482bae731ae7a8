"""Noiseless memory experiments with one ancilla per check, layer by layer, for a noise model to rewrite.

Qubits: data 0 .. n-1, then the X ancillas, then the Z ancillas. Layers are separated by TICK and no qubit is
used twice in one. Detectors carry the tag "X" or "Z", the basis of their check, and coordinates (check
position, round).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import stim

from autoqec.envs.codes.css import Basis, ClassicalCode, Code, CSSCode
from autoqec.envs.codes.schedule import IDLE, Schedule, colouring_schedule, span
from autoqec.errors import InputError

BASES: tuple[Basis, Basis] = ("x", "z")
_RESET = {"x": "RX", "z": "R"}
_MEASURE = {"x": "MX", "z": "M"}


@dataclass(frozen=True)
class _Plan:
    """One round, tick by tick, in qubit numbers.

    gates: targets of CX; resets, measures: ancillas by basis; wrapped: ancillas by basis that are reset in
    the last tick for the round after. record: place of each ancilla's measurement within the round.
    """

    gates: list[list[int]]
    resets: list[dict[Basis, list[int]]]
    measures: list[dict[Basis, list[int]]]
    wrapped: dict[Basis, list[int]]
    record: dict[int, int]


def memory_circuit(
    code: Code, *, rounds: int, basis: Basis = "z", bases: Sequence[Basis] = BASES
) -> stim.Circuit:
    """A memory experiment in `basis`, by the code's own schedule or, without one, by edge colouring.

    Detectors: in the memory basis, one per check for each round and once more from the final data readout; in
    the opposite basis from the second round on, left out if `bases` does not name it. Within a round X comes
    before Z, and checks keep their order. A check without qubits has an empty detector. Observables: the k
    logical operators of the memory basis. All rounds between the first and the last are one REPEAT block.
    """
    wanted = check_options(code, rounds=rounds, basis=basis, bases=bases)
    css = as_css(code)
    ancillas = {"x": css.n, "z": css.n + css.mx}
    plan = _plan(css.schedule or colouring_schedule(css.hx, css.hz), ancillas)
    coords = positions(css)
    data = list(range(css.n))

    def one_round(*, first: bool, last: bool) -> stim.Circuit:
        body = _layers(plan, last=last)
        for b in wanted:
            if first and b != basis:
                continue
            for c in range(len(css.checks(b))):
                place = plan.record.get(ancillas[b] + c)
                back = range(1, 2 if first else 3)
                records = [] if place is None else [place - r * len(plan.record) for r in back]
                detector(body, b, coords[b][c], records)
        body.append("TICK")
        body.append("SHIFT_COORDS", [], [0.0] * coords["data"].shape[1] + [1.0])
        return body

    circuit = stim.Circuit()
    for start, key in ((0, "data"), *((ancillas[b], b) for b in BASES)):
        for i, position in enumerate(coords[key]):
            circuit.append("QUBIT_COORDS", [start + i], position)
    for b in BASES:
        _append(circuit, _RESET[b], (data if b == basis else []) + plan.wrapped[b])
    circuit.append("TICK")
    circuit += one_round(first=True, last=rounds == 1)
    if rounds > 2:
        circuit.append(stim.CircuitRepeatBlock(rounds - 2, one_round(first=False, last=False)))
    if rounds > 1:
        circuit += one_round(first=False, last=True)

    circuit.append(_MEASURE[basis], data)
    for c, row in enumerate(css.checks(basis)):
        place = plan.record.get(ancillas[basis] + c)
        before = [] if place is None else [place - len(plan.record) - css.n]
        detector(circuit, basis, coords[basis][c], before + (np.flatnonzero(row) - css.n).tolist())
    append_observables(circuit, css.logicals(basis))
    return circuit


def _plan(schedule: Schedule, ancillas: dict[str, int]) -> _Plan:
    def by_tick() -> list[dict[Basis, list[int]]]:
        return [{b: [] for b in BASES} for _ in range(schedule.period)]

    gates: list[list[int]] = [[] for _ in range(schedule.period)]
    resets, measures = by_tick(), by_tick()
    wrapped: dict[Basis, list[int]] = {b: [] for b in BASES}
    for b, table in zip(BASES, (schedule.x, schedule.z), strict=True):
        for t, c in np.argwhere(table != IDLE).tolist():
            pair = [ancillas[b] + c, int(table[t, c])]
            gates[t] += pair if b == "x" else pair[::-1]
        for c in range(table.shape[1]):
            first, last = span(table, c)
            if last < 0:
                continue
            (resets[first - 1] if first else wrapped)[b].append(ancillas[b] + c)
            measures[last + 1][b].append(ancillas[b] + c)
    order = [q for layer in measures for b in BASES for q in layer[b]]
    return _Plan(gates, resets, measures, wrapped, {q: i for i, q in enumerate(order)})


def _layers(plan: _Plan, *, last: bool) -> stim.Circuit:
    """The operations of one round with TICKs between its layers; after the last round nothing is reset."""
    layers = []
    for t, gates in enumerate(plan.gates):
        layer = stim.Circuit()
        wraps = t == len(plan.gates) - 1 and not last
        for b in BASES:
            _append(layer, _RESET[b], plan.resets[t][b] + (plan.wrapped[b] if wraps else []))
        _append(layer, "CX", gates)
        for b in BASES:
            _append(layer, _MEASURE[b], plan.measures[t][b])
        layers.append(layer)
    while last and len(layers) > 1 and not layers[-1]:
        layers.pop()
    body = layers[0]
    for layer in layers[1:]:
        body.append("TICK")
        body += layer
    return body


def as_css(code: Code) -> CSSCode:
    """The code itself, or a classical code as a CSS code without X checks (its lx then are not operators:
    empty).
    """
    if isinstance(code, CSSCode):
        return code
    none = np.zeros((0, code.n), dtype=np.uint8)
    return CSSCode(
        code.name, none, code.h, none, code.l, qubit_coords=code.qubit_coords, z_coords=code.z_coords
    )


def check_options(code: Code, *, rounds: int, basis: Basis, bases: Sequence[Basis]) -> tuple[Basis, ...]:
    """The bases whose detectors are wanted and exist; raises on options that make no experiment."""
    if rounds < 1:
        raise InputError(f"rounds = {rounds}, expected at least 1", where=code.name)
    if basis not in BASES or not bases or set(bases) - set(BASES):
        raise InputError(
            f"basis {basis!r} with detectors {tuple(bases)!r}: expected 'x' or 'z'", where=code.name
        )
    if basis not in bases:
        raise InputError(
            f"a memory in basis {basis!r} needs its own detectors, not only {tuple(bases)!r}", where=code.name
        )
    if isinstance(code, ClassicalCode):
        if basis != "z":
            raise InputError(
                "a classical code has Z checks only: it cannot protect an X memory",
                where=code.name,
                hint="set memory_basis: z, or give a CSS code with Hx and Hz",
            )
        return ("z",)
    return tuple(b for b in BASES if b in bases)


def positions(code: CSSCode) -> dict[str, npt.NDArray[np.float64]]:
    """Coordinates of "data", "x" and "z"; without a full set, (index, 0), (index, 1) and (index, 2)."""
    sizes = {"data": code.n, "x": code.mx, "z": code.mz}
    given = {"data": code.qubit_coords, "x": code.x_coords, "z": code.z_coords}
    widths = {len(v[0]) for key, v in given.items() if v is not None and sizes[key]}
    if len(widths) == 1 and all(v is not None or not sizes[key] for key, v in given.items()):
        width = widths.pop()
        return {key: np.zeros((0, width)) if v is None else v for key, v in given.items()}
    return {
        key: np.stack([np.arange(size, dtype=np.float64), np.full(size, float(row))], axis=1)
        for row, (key, size) in enumerate(sizes.items())
    }


def detector(circuit: Any, basis: str, position: npt.NDArray[np.float64], records: Sequence[int]) -> None:
    targets = [stim.target_rec(r) for r in records]
    circuit.append("DETECTOR", targets, [*position.tolist(), 0.0], tag=basis.upper())


def append_observables(circuit: Any, logicals: npt.NDArray[np.uint8]) -> None:
    """Observables 0 .. k-1 from a readout of all data qubits that was just appended."""
    for i, row in enumerate(logicals):
        targets = [stim.target_rec(int(q) - row.size) for q in np.flatnonzero(row)]
        circuit.append("OBSERVABLE_INCLUDE", targets, i)


def _append(circuit: Any, gate: str, targets: Sequence[int]) -> None:
    if targets:
        circuit.append(gate, targets)
