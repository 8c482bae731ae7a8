"""Where training runs."""

from __future__ import annotations

import torch


def pick_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def device_memory_gb(device: torch.device) -> float:
    """The maximum that training held there; MPS keeps no record and reports what it holds now."""
    held = {"cuda": torch.cuda.max_memory_allocated, "mps": torch.mps.driver_allocated_memory}.get(
        device.type
    )
    return held() / 2**30 if held is not None else 0.0
