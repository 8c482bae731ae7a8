"""A module is built from a config that somebody else may have written: sizes that its weights do not have are refused before
memory is taken for them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

from torch import Tensor

from autoqec.decoders.flop_census import Untraced
from autoqec.errors import InputError

_BYTES, _TENSORS = 1 << 30, 10_000
"""Beyond several times the weights themselves: for tables of the problem."""
_TIMES = 4
_ELEMENT = 8


class BoundedBuild(Untraced):
    """While it is entered, tensors of a given size may be made up to a total that belongs to `state`.

    Raises:
        InputError: a config asks for more than its weights can need. where: the checkpoint.
    """

    def __init__(self, state: Mapping[str, Tensor], *, where: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._held = sum(tensor.numel() * tensor.element_size() for tensor in state.values())
        self._bytes_left = _BYTES + _TIMES * self._held
        self._tensors_left = _TENSORS + _TIMES * len(state)
        self._where = where

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        for size in args:
            if isinstance(size, list | tuple) and all(type(length) is int for length in size):
                self._spend(_ELEMENT * prod(size))
        return func(*args, **(kwargs or {}))

    def _spend(self, count: int) -> None:
        self._bytes_left -= max(count, 0)  # -1 stands for a length that follows from the others
        self._tensors_left -= 1
        if self._bytes_left < 0 or self._tensors_left < 0:
            raise InputError(
                f"its config asks for a larger model than its {self._held} bytes of weights belong to",
                where=self._where,
                hint="use the checkpoint that was trained with this config",
            )
