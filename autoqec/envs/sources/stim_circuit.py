"""`stim_circuit` sources: a `.stim` file, or a reference to one of Stim's generated circuits."""

from __future__ import annotations

from pathlib import Path

import stim

from autoqec.envs.codes.code_string import Parameter, parse_code_string, read_parameters
from autoqec.envs.noise import CIRCUIT_NOISE
from autoqec.envs.noise.circuit_noise import add_noise, carries_noise
from autoqec.envs.schema import EnvSpec
from autoqec.envs.stim_text import STIM_ERRORS, check_size, read_circuit
from autoqec.errors import InputError

GENERATED = (
    "repetition_code:memory",
    "surface_code:rotated_memory_x",
    "surface_code:rotated_memory_z",
    "surface_code:unrotated_memory_x",
    "surface_code:unrotated_memory_z",
    "color_code:memory_xyz",
)
_HINT = "give a .stim file, or e.g. surface_code:rotated_memory_z?distance=5&rounds=5"


class StimCircuitSource:
    """A circuit that is noiseless, and then gets the environment's noise, or noisy and used as it is."""

    unmeasured = None
    warnings: tuple[str, ...] = ()

    def __init__(self, spec: EnvSpec, root: Path) -> None:
        self._spec = spec
        self._family: str | None = None
        self._sizes: dict[str, int] = {}
        if spec.code.rounds is not None or spec.code.memory_basis != "z":
            raise InputError(
                "a stim_circuit already fixes its rounds and basis",
                where="code",
                hint="remove code.rounds and code.memory_basis; a generator reference takes rounds=...",
            )
        if spec.noise.level not in (None, "circuit"):
            raise InputError(
                f"noise level {spec.noise.level!r} does not apply to a stim_circuit",
                where="noise.level",
                hint="remove it, or give the code as a parity_check_matrix",
            )
        if ":" in spec.code.source and not spec.code.source.endswith(".stim"):
            self._noiseless = self._generate()
        else:
            self._noiseless = self._read(root)
        self.is_noisy = carries_noise(self._noiseless)
        self._check_as_is()

    @property
    def facts(self) -> dict[str, object]:
        return {
            "family": self._family or "stim file",
            **self._sizes,
            "qubits": self._noiseless.num_qubits,
            "noise in the circuit": "its own" if self.is_noisy else "added from the environment",
        }

    def noiseless(self) -> stim.Circuit:
        return self._noiseless.without_noise()

    def circuit(self, p: float) -> stim.Circuit:
        if self.is_noisy:
            return self._noiseless
        noise = self._spec.noise
        every_layer = noise.idle == "every_layer"
        if self._family and noise.type != "biased" and noise.variant == "uniform" and not every_layer:
            # The standard benchmark model: Stim's own placement, all four knobs at p.
            return stim.Circuit.generated(
                self._family,
                **self._sizes,
                after_clifford_depolarization=p,
                before_round_data_depolarization=p,
                before_measure_flip_probability=p,
                after_reset_flip_probability=p,
            )
        return add_noise(self._noiseless, CIRCUIT_NOISE[noise.type](noise, p, idle_every_layer=every_layer))

    def _generate(self) -> stim.Circuit:
        name, params = parse_code_string(self._spec.code.source, where="code.source")
        if name not in GENERATED:
            raise InputError(
                f"{name!r} is not a circuit that Stim generates",
                where="code.source",
                hint=f"one of {', '.join(GENERATED)}; {_HINT}",
            )
        self._family = name
        sizes = read_parameters(
            name,
            params,
            {"distance": Parameter(low=2, high=1_000), "rounds": Parameter(low=1, high=1_000_000)},
            where="code.source",
        )
        self._sizes = {key: int(value) for key, value in sizes.items()}
        try:
            circuit = stim.Circuit.generated(name, **self._sizes)
        except STIM_ERRORS as error:
            raise InputError(
                f"{self._spec.code.source!r}: {error}", where="code.source", hint=_HINT
            ) from error
        check_size(circuit, self._spec.code.source, where="code.source")
        return circuit

    def _read(self, root: Path) -> stim.Circuit:
        path = root / self._spec.code.source
        circuit = read_circuit(path, where="code.source", hint=_HINT)
        if circuit.num_detectors == 0 or circuit.num_observables == 0:
            raise InputError(
                f"{path} has {circuit.num_detectors} detectors and {circuit.num_observables} observables",
                where="code.source",
                hint="annotate the circuit with DETECTOR and OBSERVABLE_INCLUDE",
            )
        return circuit

    def _check_as_is(self) -> None:
        noise = self._spec.noise
        if not self.is_noisy:
            return
        if len(noise.p) > 1:
            raise InputError(
                f"the circuit carries its own noise, so the sweep p = {noise.p} cannot act on it",
                where="noise.p",
                hint="give one p as the label of the results, or strip the circuit's noise and let AutoQEC add it",
            )
        if noise.type != "depolarizing" or noise.variant != "uniform" or noise.idle is not None:
            raise InputError(
                f"the circuit carries its own noise, so noise type {noise.type!r} cannot be put into it",
                where="noise",
                hint="use type: depolarizing with one p as a label, or strip the circuit's noise",
            )
