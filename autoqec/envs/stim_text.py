"""Stim's text formats from any file: what cannot be read, or unrolls to more than a machine holds, is an InputError."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import stim

from autoqec.envs.files import first_line, read_text
from autoqec.errors import InputError

MAX_DETECTORS = 1_000_000
MAX_OBSERVABLES = 100_000
MAX_QUBITS = 10_000_000
MAX_INSTRUCTIONS = 20_000_000
"""With repeat blocks unrolled."""

STIM_ERRORS = (ValueError, IndexError, OverflowError, RuntimeError, MemoryError)
"""What Stim raises on text that is not its own: each kind of C++ exception comes out as another one of these."""

_ARGUMENTS = re.compile(r"^(\s*\w+(?:\[[^\]]*\])?)\(([^)]*)\)", re.MULTILINE)


class _Size(NamedTuple):
    """instructions, errors: unrolled. shift: of the detectors after it. detectors: one above the highest index."""

    instructions: int = 0
    errors: int = 0
    shift: int = 0
    detectors: int = 0


def read_circuit(path: Path, *, where: str, hint: str) -> stim.Circuit:
    text = read_text(path, where=where, hint=hint)
    try:
        circuit = stim.Circuit(_ended(text))
    except STIM_ERRORS as error:
        raise InputError(
            f"{path} is not a Stim circuit: {first_line(error)}", where=where, hint=hint
        ) from None
    check_size(circuit, str(path), where=where)
    return circuit


def check_size(circuit: stim.Circuit, name: str, *, where: str) -> None:
    _check(name, where, "instructions", _instructions(circuit), MAX_INSTRUCTIONS)
    _check(name, where, "qubits", circuit.num_qubits, MAX_QUBITS)
    _check(name, where, "detectors", circuit.num_detectors, MAX_DETECTORS)
    _check(name, where, "observables", circuit.num_observables, MAX_OBSERVABLES)


def read_model(path: Path, *, where: str, hint: str) -> stim.DetectorErrorModel:
    """A detector error model with its repeat blocks and shifts unrolled."""
    text = read_text(path, where=where, hint=hint)
    try:
        dem = stim.DetectorErrorModel(_ended(text))
        size = _size(dem)
        _check(str(path), where, "errors", size.errors, MAX_INSTRUCTIONS)
        _check(str(path), where, "instructions", size.instructions, MAX_INSTRUCTIONS)
        _check(str(path), where, "detectors", size.detectors, MAX_DETECTORS)
        _check(str(path), where, "observables", dem.num_observables, MAX_OBSERVABLES)
        return dem.flattened()
    except STIM_ERRORS as error:
        if _is_circuit(text):
            raise InputError(
                f"{path} is a Stim circuit, not a detector error model",
                where=where,
                hint="make one with `stim analyze_errors --decompose_errors --in circuit.stim --out model.dem`",
            ) from None
        raise InputError(
            f"{path} is not a detector error model: {first_line(error)}", where=where, hint=hint
        ) from None


def text_of(model: stim.Circuit | stim.DetectorErrorModel) -> str:
    """The same text on every machine. Stim prints the numbers of an error model with as many digits as a `long double` has, which is 19 on
    x86_64 and 34 on aarch64; of the same number, 19 are printed here."""
    if isinstance(model, stim.Circuit):
        return str(model)
    return _ARGUMENTS.sub(_with_19_digits, str(model))


def _with_19_digits(instruction: re.Match[str]) -> str:
    numbers = (format(float(number), ".19g") for number in instruction[2].split(","))
    return f"{instruction[1]}({', '.join(numbers)})"


def _is_circuit(text: str) -> bool:
    try:
        return len(stim.Circuit(_ended(text))) > 0
    except STIM_ERRORS:
        return False


def _ended(text: str) -> str:
    """Stim looks for the end of a tag for ever where the text ends within it without a newline."""
    return f"{text}\n"


def _check(name: str, where: str, what: str, count: int, limit: int) -> None:
    if count > limit:
        raise InputError(
            f"{name} unrolls to {count} {what}, and at most {limit} are read",
            where=where,
            hint="use a smaller model",
        )


def _instructions(circuit: stim.Circuit) -> int:
    """Counted here: Stim's own counters say nothing about gates."""
    total = 0
    for step in circuit:
        if isinstance(step, stim.CircuitRepeatBlock):
            total += step.repeat_count * _instructions(step.body_copy())
        else:
            total += 1
    return total


def _size(dem: stim.DetectorErrorModel) -> _Size:
    """Exact where Stim's own counters wrap round at 64 bits."""
    instructions = errors = shift = detectors = 0
    for step in dem:
        if isinstance(step, stim.DemRepeatBlock):
            times, inner = step.repeat_count, _size(step.body_copy())
            instructions += times * inner.instructions
            errors += times * inner.errors
            if inner.detectors:
                detectors = max(detectors, shift + (times - 1) * inner.shift + inner.detectors)
            shift += times * inner.shift
            continue
        instructions += 1
        if step.type == "shift_detectors":
            shift += sum(step.targets_copy())
        else:
            errors += step.type == "error"
            indices = (target.val for target in step.targets_copy() if target.is_relative_detector_id())
            detectors = max(detectors, shift + 1 + max(indices, default=-1 - shift))
    return _Size(instructions, errors, shift, detectors)
