"""`custom_dem` noise: a detector error model file that is both sampled and decoded."""

from __future__ import annotations

from pathlib import Path

import stim

from autoqec.envs.schema import EnvSpec
from autoqec.envs.stim_text import read_model
from autoqec.errors import InputError

_HINT = "set noise.dem to a .dem file, or code: {type: stim_circuit, source: model.dem}"


def dem_path(spec: EnvSpec, root: Path) -> Path:
    if spec.noise.dem is not None:
        return root / spec.noise.dem
    if spec.code.source.endswith(".dem"):
        return root / spec.code.source
    raise InputError("noise type custom_dem needs a detector error model", where="noise.dem", hint=_HINT)


def parse_dem(path: Path, *, where: str, hint: str = "give a Stim .dem file") -> stim.DetectorErrorModel:
    """A detector error model file with its repeat blocks and shifts unrolled."""
    return read_model(path, where=where, hint=hint)


def read_dem(path: Path) -> stim.DetectorErrorModel:
    """A flattened error model with at least one detector, one observable and one error."""
    dem = parse_dem(path, where="noise.dem", hint=_HINT)
    for what, count in (
        ("errors", dem.num_errors),
        ("detectors", dem.num_detectors),
        ("logical observables", dem.num_observables),
    ):
        if count == 0:
            raise InputError(
                f"{path} has no {what}", where="noise.dem", hint="there is nothing to decode in it"
            )
    return dem


class ErrorModelSource:
    """An error model, checked against the code it is meant for."""

    is_noisy = True
    warnings: tuple[str, ...] = ()

    def __init__(self, spec: EnvSpec, root: Path, sizes: tuple[int | None, int] | None) -> None:
        """`sizes`: (detectors or None where any number is right, observables) that the code implies, if known."""
        self.dem = read_dem(dem_path(spec, root))
        if len(spec.noise.p) > 1:
            raise InputError(
                f"a detector error model has fixed probabilities, so the sweep p = {spec.noise.p} cannot act on it",
                where="noise.p",
                hint="give one p as the label of the results",
            )
        if sizes is not None:
            for what, expected, found in zip(
                ("detectors", "logical observables"),
                sizes,
                (self.dem.num_detectors, self.dem.num_observables),
                strict=True,
            ):
                if expected is not None and expected != found:
                    raise InputError(
                        f"the code has {expected} {what} and the error model {found}",
                        where="noise.dem",
                        hint="give the error model of this code, or the code of this error model",
                    )

    @property
    def facts(self) -> dict[str, object]:
        return {"family": "detector error model", "stim errors": self.dem.num_errors}
