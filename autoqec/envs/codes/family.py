"""What one entry of the code registry is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autoqec.envs.codes.code_string import Parameter
from autoqec.envs.codes.css import Code


@dataclass(frozen=True)
class Request:
    """A reference whose parameters have been checked.

    reference: as the user wrote it, which becomes the name of the code.
    matrix: the check matrix of another reference, to a classical code, or of a matrix file.
    """

    reference: str
    values: Mapping[str, int | str]
    where: str
    matrix: Callable[[str], npt.NDArray[np.uint8]]

    def integer(self, key: str) -> int:
        return int(self.values[key])

    def text(self, key: str) -> str:
        return str(self.values[key])


@dataclass(frozen=True)
class Family:
    """A named way to build codes. `classical` says whether it builds classical codes, else CSS codes."""

    name: str
    summary: str
    parameters: Mapping[str, Parameter]
    build: Callable[[Request], Code]
    classical: bool = False
