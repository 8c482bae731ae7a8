"""Where Triton kernels can run: on a CUDA device, with torch's own Triton."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import torch


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def runs_on(device: torch.device) -> bool:
    return device.type == "cuda" and _has_triton()
