"""Where training runs."""

from __future__ import annotations

import torch
from torch import nn

from autoqec.decoders.modules import device_kernels
from autoqec.decoders.modules.gnn import Layer
from autoqec.decoders.modules.neural_bp import LinkAttention
from autoqec.runner.safety import free_memory_gb


def pick_device() -> torch.device:
    """CUDA, else Apple's MPS, else the CPU."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def free_gb(device: torch.device) -> float:
    """Memory that a training batch may take there."""
    return torch.cuda.mem_get_info(device)[0] / 2**30 if device.type == "cuda" else free_memory_gb()


def trains_by_device_kernels(module: nn.Module, device: torch.device) -> bool:
    """Whether the kernels for a GPU compute all that keeps much for the backward pass: they know no attention on links."""
    parts = [*module.modules()]
    return (
        device_kernels.runs_on(device)
        and all(part.adds_up for part in parts if isinstance(part, Layer))
        and not any(isinstance(part, LinkAttention) for part in parts)
    )


def device_memory_gb(device: torch.device) -> float:
    """The maximum that training held there; MPS keeps no record and reports what it holds now."""
    held = {"cuda": torch.cuda.max_memory_allocated, "mps": torch.mps.driver_allocated_memory}.get(
        device.type
    )
    return held() / 2**30 if held is not None else 0.0
