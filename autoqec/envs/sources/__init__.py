"""Sources: what an environment's `code` block refers to, by its type."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from autoqec.envs.codes.css import Code
from autoqec.envs.schema import EnvSpec
from autoqec.envs.sources.check_matrix import CheckMatrixSource, load_matrix, load_tanner
from autoqec.envs.sources.error_model import ErrorModelSource
from autoqec.envs.sources.stim_circuit import StimCircuitSource

__all__ = ["CircuitSource", "ErrorModelSource", "open_source"]

CircuitSource = StimCircuitSource | CheckMatrixSource

_LOADERS: dict[str, Callable[[EnvSpec, Path], Code]] = {
    "parity_check_matrix": load_matrix,
    "tanner_graph": load_tanner,
}


def open_source(spec: EnvSpec, root: Path) -> CircuitSource | ErrorModelSource:
    """Reads what `spec.code` and, for a custom_dem, `spec.noise` refer to. Relative paths start at `root`."""
    is_model = spec.noise.type == "custom_dem"
    if spec.code.type == "stim_circuit":
        if not is_model:
            return StimCircuitSource(spec, root)
        if spec.code.source.endswith(".dem"):
            return ErrorModelSource(spec, root, sizes=None)
        plain = spec.model_copy(
            update={"noise": spec.noise.model_copy(update={"type": "depolarizing", "dem": None})}
        )
        circuit = StimCircuitSource(plain, root).noiseless()
        return ErrorModelSource(spec, root, sizes=(circuit.num_detectors, circuit.num_observables))
    code = _LOADERS[spec.code.type](spec, root)
    if is_model:
        return ErrorModelSource(spec, root, sizes=(None, code.k))
    return CheckMatrixSource(spec, code)
