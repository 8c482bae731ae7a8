"""Codes given by their check matrices: `parity_check_matrix` files and families, and `tanner_graph` files."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from pathlib import Path

import stim

from autoqec.envs.codes.css import ClassicalCode, Code
from autoqec.envs.codes.extraction import memory_circuit
from autoqec.envs.codes.families import build_code
from autoqec.envs.codes.files import is_matrix_file, read_code
from autoqec.envs.codes.mpp import mpp_memory_circuit
from autoqec.envs.codes.product_codes import known_schedule
from autoqec.envs.codes.report import code_report
from autoqec.envs.codes.tanner import read_tanner
from autoqec.envs.noise import CIRCUIT_NOISE, DATA_CHANNEL
from autoqec.envs.noise.circuit_noise import Channel, add_noise, append_channel
from autoqec.envs.schema import EnvSpec, NoiseLevel
from autoqec.envs.sources.referenced import referenced
from autoqec.errors import InputError

_CSS_HALF = (
    "code.source: this matrix looks like one half of a CSS code: codewords as light as its checks cover every bit. Alone it is a "
    "classical code, and corrections that differ by a stabiliser count as failures. Give an .npz with both Hx and Hz (and "
    "eval_protocol.x_z_decoding: x_only to decode X errors alone). If it is a classical code, give its observables as L in an .npz with H."
)


def load_matrix(spec: EnvSpec, root: Path) -> Code:
    """A matrix file where the source ends like one, otherwise a builtin family."""
    if is_matrix_file(spec.code.source):
        return _scheduled(read_code(root / spec.code.source))
    return _scheduled(build_code(spec.code.source, base=root, where="code.source"))


def load_tanner(spec: EnvSpec, root: Path) -> Code:
    return _scheduled(read_tanner(root / spec.code.source))


def _scheduled(code: Code) -> Code:
    """With the published schedule of its family, by whatever matrices the code was given."""
    if isinstance(code, ClassicalCode) or code.schedule is not None:
        return code
    schedule = known_schedule(code.hx, code.hz)
    if schedule is None:
        return code
    schedule.check(code.hx, code.hz, where=code.name)
    return replace(code, schedule=schedule)


class CheckMatrixSource:
    """A memory experiment of a code: circuit level, phenomenological, or code capacity.

    A single matrix holds Z-type checks, which see the X and Y part of the data noise.
    """

    is_noisy = False

    def __init__(self, spec: EnvSpec, code: Code) -> None:
        self._spec = spec
        self.code = code
        self.level = self._level()
        if spec.noise.type == "leakage" and self.level != "circuit":
            raise InputError(
                f"leakage happens in two-qubit gates, and {self.level} noise has none",
                where="noise",
                hint="use level: circuit with both Hx and Hz, or another noise type",
            )
        if spec.noise.idle is not None and self.level != "circuit":
            raise InputError(
                f"{self.level} noise has no idle layers", where="noise.idle", hint="remove noise.idle"
            )
        if spec.code.rounds is not None and self.level == "code_capacity":
            raise InputError(
                f"code capacity has one perfect readout, so rounds = {spec.code.rounds} means nothing",
                where="code.rounds",
                hint="remove it, or set noise.level: phenomenological",
            )
        if spec.code.memory_basis == "x" and self._one_sided:
            raise InputError(
                "X errors cannot flip the observables of an X memory",
                where="code.memory_basis",
                hint="use memory_basis: z, or x_z_decoding: circuit with both Hx and Hz",
            )

    @property
    def _one_sided(self) -> bool:
        return isinstance(self.code, ClassicalCode) or self._spec.eval_protocol.x_z_decoding == "x_only"

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """What the user may not have meant."""
        code = self.code
        if not isinstance(code, ClassicalCode) or code.has_given_observables or not referenced(self._spec):
            return ()
        return (_CSS_HALF,) if code.looks_like_css_half else ()

    @property
    def unmeasured(self) -> str | None:
        """The checks of a CSS code that its memory leaves out, and why; None if it measures all."""
        if self.level == "circuit" or not self._one_sided or isinstance(self.code, ClassicalCode):
            return None
        return f"all of the {self.code.mx} X checks (x_z_decoding: x_only decodes X errors, which Z detectors see)"

    def _level(self) -> NoiseLevel:
        chosen = self._spec.noise.level
        if isinstance(self.code, ClassicalCode):
            if chosen == "circuit":
                raise InputError(
                    "a syndrome-extraction circuit needs both Hx and Hz",
                    where="noise.level",
                    hint="give both matrices, or use code_capacity or phenomenological",
                )
            return chosen or "code_capacity"
        return chosen or ("code_capacity" if self._one_sided else "circuit")

    @cached_property
    def rounds(self) -> int:
        """Rounds of noisy readout: as given, else the distance bound of the code."""
        if self.level == "code_capacity":
            return 1
        return self._spec.code.rounds or self._distance_bound()

    def _distance_bound(self) -> int:
        if isinstance(self.code, ClassicalCode):
            return self.code.distance_bound()
        return self.code.distance_bound(self._spec.code.memory_basis)

    @property
    def facts(self) -> dict[str, object]:
        report = code_report(self.code)
        facts: dict[str, object] = {
            "family": report.name,
            "n": report.n,
            "k": report.k,
            "distance at most": ", ".join(f"{d} ({basis})" for basis, d in report.distance_bounds.items()),
            "noise level": self.level,
            "rounds": self.rounds,
        }
        if self.level == "circuit":
            facts["schedule"] = report.schedule
        for name, matrix in report.matrices.items():
            weights = f"check weights {_span(matrix.check_weights)}, bit degrees {_span(matrix.bit_degrees)}"
            facts[name] = f"{matrix.checks} checks, {weights}"
            if matrix.isolated_checks or matrix.isolated_bits:
                facts[f"isolated in {name}"] = (
                    f"checks {list(matrix.isolated_checks)}, bits {list(matrix.isolated_bits)}"
                )
        return facts

    @cached_property
    def _extraction(self) -> stim.Circuit:
        return memory_circuit(self.code, rounds=self.rounds, basis=self._spec.code.memory_basis)

    def noiseless(self) -> stim.Circuit:
        return self._extraction if self.level == "circuit" else self._direct((), 0.0)

    def circuit(self, p: float) -> stim.Circuit:
        noise = self._spec.noise
        if self.level == "circuit":
            model = CIRCUIT_NOISE[noise.type](noise, p, idle_every_layer=noise.idle != "readout")
            return add_noise(self._extraction, model)
        return self._direct(
            DATA_CHANNEL[noise.type](noise, p), p if self.level == "phenomenological" else 0.0
        )

    def _direct(self, channel: Channel, readout_flip: float) -> stim.Circuit:
        """Stabilisers measured directly, without a circuit of their own."""
        basis = self._spec.code.memory_basis

        def data_noise(qubits: list[int]) -> stim.Circuit:
            circuit = stim.Circuit()
            append_channel(circuit, channel, qubits)
            return circuit

        return mpp_memory_circuit(
            self.code,
            rounds=self.rounds,
            noisy_readout=self.level == "phenomenological",
            bases=(basis,) if self._one_sided else ("x", "z"),
            basis=basis,
            data_noise=data_noise,
            readout_flip=readout_flip,
        )


def _span(bounds: tuple[int, int]) -> str:
    low, high = bounds
    return str(low) if low == high else f"{low}-{high}"
