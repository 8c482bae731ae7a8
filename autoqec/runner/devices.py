"""Where training runs."""

from __future__ import annotations

import torch

from autoqec.runner.safety import free_memory_gb


def pick_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def free_gb(device: torch.device) -> float:
    """Memory that a training batch may take there."""
    return torch.cuda.mem_get_info(device)[0] / 2**30 if device.type == "cuda" else free_memory_gb()


def device_memory_gb(device: torch.device) -> float:
    """The maximum that training held there; MPS keeps no record and reports what it holds now."""
    held = {"cuda": torch.cuda.max_memory_allocated, "mps": torch.mps.driver_allocated_memory}.get(
        device.type
    )
    return held() / 2**30 if held is not None else 0.0
