"""Which files an environment refers to, without opening one."""

from __future__ import annotations

import contextlib

from autoqec.envs.codes.code_string import parse_code_string
from autoqec.envs.codes.files import is_matrix_file
from autoqec.envs.schema import EnvSpec
from autoqec.errors import InputError


def referenced(spec: EnvSpec) -> list[str]:
    """Names as the spec has them: relative ones start at its folder. The files need not be there."""
    found = _FILES[spec.code.type](spec.code.source)
    if spec.noise.dem is not None:
        found.append(spec.noise.dem)
    return list(dict.fromkeys(found))


def _of_circuit(source: str) -> list[str]:
    return [] if ":" in source and not source.endswith(".stim") else [source]


def _of_matrix(source: str) -> list[str]:
    """A matrix file, or those among the parameters of a code family, which may be families themselves."""
    if is_matrix_file(source):
        return [source]
    with contextlib.suppress(InputError):
        _, parameters = parse_code_string(source)
        return [name for value in parameters.values() for name in _of_matrix(value)]
    return []


def _of_graph(source: str) -> list[str]:
    return [source]


_FILES = {"stim_circuit": _of_circuit, "parity_check_matrix": _of_matrix, "tanner_graph": _of_graph}
