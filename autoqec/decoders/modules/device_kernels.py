"""Where Triton kernels can run: on a CUDA device, with torch's own Triton."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, wraps
from importlib.util import find_spec
from typing import Any, TypeVar, cast

import torch

_Launches = TypeVar("_Launches", bound=Callable[..., Any])
_LAUNCHES = threading.RLock()


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def runs_on(device: torch.device) -> bool:
    return device.type == "cuda" and _has_triton()


def one_at_a_time(launches: _Launches) -> _Launches:
    """For functions that launch kernels, or make what all of them use: Triton compiles and loads a kernel at its first launch, and two threads
    must not do that at once."""

    @wraps(launches)
    def locked(*args: Any) -> Any:
        with _LAUNCHES:
            return launches(*args)

    return cast(_Launches, locked)
