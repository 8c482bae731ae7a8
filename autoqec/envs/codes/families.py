"""The registry of code families: a reference such as `toric?distance=4` or `bb72` becomes a code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.classical_codes import HAMMING, REPETITION, RING
from autoqec.envs.codes.code_string import closest, parse_code_string, read_parameters
from autoqec.envs.codes.css import ClassicalCode, Code
from autoqec.envs.codes.family import Family, Request
from autoqec.envs.codes.files import is_matrix_file, read_matrix
from autoqec.envs.codes.lattice_codes import ROTATED_SURFACE, TORIC
from autoqec.envs.codes.product_codes import BIVARIATE_BICYCLE, HYPERGRAPH_PRODUCT, PUBLISHED
from autoqec.envs.codes.small_codes import CSS, REED_MULLER_15, SHOR_9, STEANE
from autoqec.errors import InputError

FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        BIVARIATE_BICYCLE,
        CSS,
        HAMMING,
        HYPERGRAPH_PRODUCT,
        REED_MULLER_15,
        REPETITION,
        RING,
        ROTATED_SURFACE,
        SHOR_9,
        STEANE,
        TORIC,
    )
}
SHORT_NAMES: dict[str, str] = {**PUBLISHED}


def build_code(reference: str, *, base: Path | None = None, where: str | None = None) -> Code:
    """The code that a reference names. Matrix files in its parameters are relative to the folder `base`.

    Raises:
        InputError: no such family, or parameters it does not take; `where` names the field or flag in the
        message.
    """
    return _build(reference, base or Path(), where or repr(reference), classical_only=False)


def _build(reference: str, base: Path, where: str, *, classical_only: bool) -> Code:
    name, given = parse_code_string(reference, where=where)
    if name in SHORT_NAMES:
        read_parameters(name, given, {}, where=where)
        family_name, given = parse_code_string(SHORT_NAMES[name], where=where)
    else:
        family_name = name
    known = [key for key, family in FAMILIES.items() if family.classical or not classical_only]
    if family_name not in known:
        names = sorted(known if classical_only else [*known, *SHORT_NAMES])
        kind = "classical code" if classical_only else "code"
        raise InputError(
            f"no {kind} family {name!r}{closest(name, names)}", where=where, hint=f"known: {', '.join(names)}"
        )
    family = FAMILIES[family_name]

    def matrix(text: str) -> npt.NDArray[np.uint8]:
        if is_matrix_file(text):
            return read_matrix(base / text)
        code = _build(text, base, f"{where}: {text!r}", classical_only=True)
        return code.h if isinstance(code, ClassicalCode) else code.hz

    values = read_parameters(family_name, given, family.parameters, where=where)
    return family.build(Request(reference.strip(), values, where, matrix))
