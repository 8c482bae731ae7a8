"""Bits of shots between tensors and packed bytes, on the device that they are on: eight times less crosses to the host and back."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from autoqec.envs.packing import pack, unpack, width
from autoqec.envs.problem import U8


def packed(bits: Tensor) -> U8:
    """[shots, n] zeros and ones, on any device, as packed rows on the host."""
    if bits.device.type == "cpu":
        return pack(bits.numpy())
    return pack_rows(bits).cpu().numpy()


def unpacked(rows: Tensor, n: int) -> Tensor:
    """[shots, ceil(n / 8)] -> [shots, n] zeros and ones as bytes, where the rows are."""
    if rows.device.type == "cpu":
        return torch.from_numpy(unpack(rows.numpy(), n))
    return unpack_rows(rows, n)


def pack_rows(bits: Tensor) -> Tensor:
    """As `envs.packing.pack`, in torch."""
    shots, n = bits.shape
    padded = F.pad(bits.to(torch.uint8), (0, 8 * width(n) - n)).view(shots, width(n), 8)
    return (padded * _places(bits.device)).sum(dim=2, dtype=torch.uint8)


def unpack_rows(rows: Tensor, n: int) -> Tensor:
    """As `envs.packing.unpack`, in torch."""
    return (rows[:, :, None] & _places(rows.device)).ne(0).flatten(1)[:, :n].to(torch.uint8)


@lru_cache(maxsize=8)
def _places(device: torch.device) -> Tensor:
    return torch.from_numpy(1 << np.arange(8, dtype=np.uint8)).to(device)


def sent(array: np.ndarray, device: torch.device) -> Tensor:
    """On the device, without waiting for what it is doing."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def sent_bits(rows: U8, n: int, device: torch.device) -> Tensor:
    """Packed rows of the host as zeros and ones on the device."""
    if device.type != "cuda":
        return torch.from_numpy(unpack(rows, n)).to(device)
    return unpack_rows(sent(rows, device), n)


class Fetched:
    """A tensor on its way to the host; `wait` gives it once it is there."""

    def __init__(self, tensor: Tensor) -> None:
        self._event: torch.cuda.Event | None = None
        # Apple's MPS takes work from one thread, this one.
        self._host = tensor if tensor.device.type == "cuda" else tensor.cpu()
        if tensor.device.type == "cuda":
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor.contiguous(), non_blocking=True)
            self._event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._event.record()

    def wait(self) -> np.ndarray:
        if self._event is not None:
            self._event.synchronize()
        return np.ascontiguousarray(self._host.numpy())
