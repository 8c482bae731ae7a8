"""Environment: an EnvSpec together with what it refers to; gives decoding problems and samplers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import stim

from autoqec import layout
from autoqec.envs import cache, detectors
from autoqec.envs.build import (
    check_observables,
    has_exact_model,
    problem_from_circuit,
    problem_from_dem,
)
from autoqec.envs.halves import with_context, with_rates
from autoqec.envs.noise.leakage import SAMPLER_VERSION, LeakageSampler, twirled
from autoqec.envs.packing import unpack
from autoqec.envs.problem import F64, DecodingProblem, flip_rates
from autoqec.envs.sampling import CircuitSampler, DemSampler, Sampler, Shots
from autoqec.envs.schema import EnvSpec, LeakageSpec
from autoqec.envs.sources import CircuitSource, ErrorModelSource, open_source
from autoqec.envs.sources.referenced import referenced
from autoqec.envs.stim_text import text_of
from autoqec.errors import InputError
from autoqec.io.hashing import sha256_json


@dataclass(frozen=True, eq=False)
class Environment:
    """One environment, ready to be sampled and decoded at any p of its sweep.

    root: folder that relative paths in the spec start from. origin: the file or builtin name it was read from. file: the YAML file
    that holds the spec, if one does.
    """

    spec: EnvSpec
    root: Path = field(default_factory=Path)
    origin: str = "<memory>"
    file: Path | None = None
    _rates: dict[bool, F64] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def source(self) -> CircuitSource | ErrorModelSource:
        return open_source(self.spec, self.root)

    @property
    def files(self) -> list[Path]:
        """The files that the spec refers to and that are there."""
        return [path for name in referenced(self.spec) if (path := self.root / name).is_file()]

    def circuit(self, p: float) -> stim.Circuit | None:
        """The noisy circuit that is sampled, restricted to the detectors in use; None for a custom_dem."""
        return None if isinstance(self.source, ErrorModelSource) else self._circuits(p)[0]

    def sampler(self, p: float) -> Sampler:
        """Fresh shots of the environment as it is, not as the decoder models it."""
        if isinstance(self.source, ErrorModelSource):
            return DemSampler(self.source.dem)
        physical, _ = self._circuits(p)
        if self.spec.noise.type == "leakage":
            return LeakageSampler(physical, self._leakage, p)
        return CircuitSampler(physical)

    def model_is_exact(self, p: float) -> bool:
        """Whether the decoder's error model has the distribution of the shots at p, and does not only come close to it."""
        if isinstance(self.source, ErrorModelSource):
            return True
        if self.spec.noise.type == "leakage" and self._leakage.leak > 0:
            return False
        return has_exact_model(self._circuits(p)[0])

    def sample(self, p: float, shots: int, *, seed: int = 0, bit_packed: bool = False) -> Shots:
        """Fresh shots as zeros and ones: detectors [shots, n_detectors], observables [shots, n_observables].

        bit_packed: eight to a byte, as in Stim's `b8`. The same seed gives the same shots on one machine.
        """
        if shots < 0:
            raise InputError(f"shots = {shots}", where="shots", hint="give a number of at least 0")
        self.check_sweep([p], where="p")
        found = self.sampler(p).sample(shots, seed)
        if bit_packed:
            return found
        problem = self.problem(p)
        return Shots(
            unpack(found.detectors, problem.n_checks), unpack(found.observables, problem.n_observables)
        )

    def check_sweep(self, sweep: Sequence[float], *, where: str) -> None:
        """Whether these p can be put into the environment, which may carry its own noise."""
        for p in sweep:
            if not 0 < p <= 0.5:
                raise InputError(f"{p} is not a physical error rate", where=where, hint="give 0 < p <= 0.5")
        if self.source.is_noisy and list(sweep) != self.spec.noise.p:
            raise InputError(
                f"{self.spec.name} carries its own noise, so p = {list(sweep)} cannot act on it",
                where=where,
                hint=f"leave it out; results are labelled p = {self.spec.noise.p[0]}",
            )

    def problem(self, p: float) -> DecodingProblem:
        """What a decoder may know at error rate p. Cached on disk by content."""
        return self.load_problem(p)[0]

    def load_problem(self, p: float) -> tuple[DecodingProblem, bool]:
        """The problem, and whether it came from the cache."""
        problem, cached = cache.load_or_build(self._problem_key(p), lambda: self._build(p))
        return self._named(problem, p, built=False), cached

    def cached_problem(self, p: float) -> Path:
        """Where the cache has the problem, once it was asked for."""
        return layout.problem_cache(self._problem_key(p))

    def built_problem(self, p: float) -> DecodingProblem:
        """The problem, built afresh: for those who may not believe what lies in the cache."""
        return self._named(self._build(p), p, built=True)

    def _named(self, problem: DecodingProblem, p: float, *, built: bool) -> DecodingProblem:
        """With its name, and the rates that all problems of the environment have in common."""
        at = self.spec.noise.p[0]
        if p == at:
            self._rates[built] = flip_rates(problem.sampled.priors, at)
        elif built not in self._rates:
            (self.built_problem if built else self.problem)(at)
        return with_rates(replace(problem, name=self.spec.name, p=p), self._rates[built])

    def stream(self, p: float) -> str:
        """Names what is sampled at p, for seed derivation: a hash of the circuit (or model) and its process."""
        content: dict[str, Any] = {"model": text_of(self._model(p, physical=True))}
        if self.spec.noise.type == "leakage":
            content["leakage"] = {**self._leakage.model_dump(), "sampler": SAMPLER_VERSION}
        return sha256_json(content)

    @cached_property
    def content_hash(self) -> str:
        """Identity of the environment: its spec and everything it refers to, at every p."""
        streams = [self.stream(p) for p in self.spec.noise.p]
        return sha256_json({"spec": self.spec.model_dump(mode="json"), "streams": streams})

    @property
    def _leakage(self) -> LeakageSpec:
        return self.spec.noise.leakage or LeakageSpec()

    @cached_property
    def _circuits(self) -> Any:
        # Per instance, so that circuits are freed with their environment.
        return lru_cache(maxsize=None)(self._make_circuits)

    def _make_circuits(self, p: float) -> tuple[stim.Circuit, stim.Circuit]:
        """The physical circuit and the one that the decoder's model is derived from."""
        physical = cast(CircuitSource, self.source).circuit(p)
        keep = self._kept_detectors
        if not keep.all():
            physical = detectors.keep_detectors(physical, keep)
        if self.spec.noise.type != "leakage":
            return physical, physical
        physical = physical.flattened()
        return physical, twirled(physical, self._leakage, p)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What can be used as it is, and is probably not what was meant."""
        return self.source.warnings

    @property
    def dropped_detectors(self) -> str | None:
        """How many detectors of the circuit are not decoded, of which basis, and why; None if all are."""
        if isinstance(self.source, ErrorModelSource):
            return None
        keep = self._kept_detectors
        if keep.all():
            return self.source.unmeasured
        basis, _ = detectors.bases(self.source.noiseless())
        names = "/".join(sorted(set(basis[~keep].tolist())))
        if self.spec.eval_protocol.x_z_decoding == "x_only":
            reason = "x_z_decoding: x_only decodes X errors, which Z detectors see"
        else:
            reason = (
                "osd decodes the basis of the observables; osd_bases: observable_with_context shows them to "
                "predecoders, both gives them to osd"
            )
        return f"{int((~keep).sum())} of {keep.size}, basis {names} ({reason})"

    @cached_property
    def _kept_detectors(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        circuit = cast(CircuitSource, self.source).noiseless()
        protocol = self.spec.eval_protocol
        everything = np.ones(circuit.num_detectors, dtype=np.bool_)
        if protocol.x_z_decoding == "x_only":
            detector_basis, observable_basis = detectors.bases(circuit)
            if not (observable_basis == "Z").all() or not (detector_basis == "Z").any():
                raise InputError(
                    "x_only keeps the Z detectors, which see X errors, and this circuit's observables are of basis "
                    f"{'/'.join(sorted(set(observable_basis.tolist())))}",
                    where="eval_protocol.x_z_decoding",
                    hint="use a Z memory of a CSS code, or x_z_decoding: circuit",
                )
            return np.asarray(detector_basis == "Z")
        half = self._observables_half
        return half if half is not None and protocol.osd_bases == "observable" else everything

    @cached_property
    def _observables_half(self) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """The detectors of the observables' basis, for OSD on a CSS code; None where it decodes all."""
        protocol = self.spec.eval_protocol
        if self.spec.classical_backend != "osd" or protocol.osd_bases == "both":
            return None
        detector_basis, observable_basis = detectors.bases(cast(CircuitSource, self.source).noiseless())
        found = set(observable_basis.tolist())
        if len(found) != 1 or "?" in found | set(detector_basis.tolist()):
            return None
        return np.asarray(detector_basis == observable_basis[0])

    @property
    def _context(self) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
        """The detectors that the backend sees, where a predecoder sees more than it."""
        protocol = self.spec.eval_protocol
        if protocol.osd_bases != "observable_with_context":
            return None
        half = None if isinstance(self.source, ErrorModelSource) else self._observables_half
        if half is None or half.all() or protocol.x_z_decoding == "x_only":
            raise InputError(
                "there is no other half to be seen: it takes classical_backend: osd and a circuit whose detectors are of two bases",
                where="eval_protocol.osd_bases",
                hint="use osd_bases: observable, or x_z_decoding: circuit",
            )
        return half

    def _model(self, p: float, *, physical: bool) -> stim.Circuit | stim.DetectorErrorModel:
        if isinstance(self.source, ErrorModelSource):
            return self.source.dem
        circuits: tuple[stim.Circuit, stim.Circuit] = self._circuits(p)
        return circuits[0 if physical else 1]

    def _problem_key(self, p: float) -> str:
        return sha256_json(
            {
                "format": cache.FORMAT,
                "stim": stim.__version__,
                "backend": self.spec.classical_backend,
                "context": self._context is not None,
                "model": text_of(self._model(p, physical=False)),
            }
        )

    def _build(self, p: float) -> DecodingProblem:
        model, need_graph = self._model(p, physical=False), self.spec.classical_backend == "mwpm"
        if isinstance(model, stim.DetectorErrorModel):
            problem = problem_from_dem(model, need_graph=need_graph)
        else:
            problem = problem_from_circuit(model, need_graph=need_graph)
        if (seen := self._context) is not None:
            problem = with_context(problem, seen)
        check_observables(problem, where="code.source")
        return problem
