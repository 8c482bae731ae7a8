"""A custom function on a dummy batch: what the lint cannot see, it must show here.

Shapes, numbers and gradients are checked, then whether each shot is answered from its own row alone, the
same way on every call, with its inputs left as they were.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from autoqec.decoders.custom.allowed import Slot
from autoqec.decoders.custom.errors import CustomCodeError

# All different, so that mixed-up axes show.
BATCH, EDGES, NODES, OUTPUTS = 4, 9, 6, 5
_ENDS = [[0, 1, 2, 3, 4, 1, 2, 0, 3], [1, 0, 1, 2, 1, 4, 3, 2, 0]]
_TOLERANCE = 1e-5


def dummy_inputs(slot: Slot, hidden: int, seed: int, scale: float = 1.0) -> tuple[Any, ...]:
    """Arguments of the slot, less `params`. Node 5 of an aggregation has no neighbours."""
    generator = torch.Generator().manual_seed(seed)

    def normal(rows: int) -> Tensor:
        return torch.randn(BATCH, rows, hidden, generator=generator) * scale

    if slot == "message":
        return normal(EDGES), normal(EDGES), normal(EDGES)
    if slot == "aggregate":
        return normal(EDGES), torch.tensor(_ENDS), NODES
    return (normal(OUTPUTS),)


def smoke_check(call: Callable[..., Tensor], slot: Slot, *, hidden: int, out: int = 1, where: str) -> None:
    """Raise a `CustomCodeError` for the first property that `call` lacks. Gradients are left as they were."""
    _Smoke(call, slot, hidden, out, where).check()


class _Smoke:
    def __init__(self, call: Callable[..., Tensor], slot: Slot, hidden: int, out: int, where: str) -> None:
        self.call, self.slot, self.hidden, self.where = call, slot, hidden, where
        rows = {"message": EDGES, "aggregate": NODES, "head": OUTPUTS}[slot]
        self.shape = (rows, out if slot == "head" else hidden)

    def refuse(self, rule: str, what: str, hint: str) -> NoReturn:
        raise CustomCodeError(rule, what, where=self.where, hint=hint)

    def check(self) -> None:
        inputs = dummy_inputs(self.slot, self.hidden, seed=1)
        before = _copy(inputs)
        with torch.no_grad():
            first = self.run(inputs)
            if not _same(inputs, before):
                self.refuse("mutation", "an input was changed in place", "build a new tensor")
            if not torch.equal(first, self.run(_copy(before))):
                self.refuse("determinism", "the same inputs gave two answers", "remove randomness and state")
            self.run(dummy_inputs(self.slot, self.hidden, seed=2, scale=30.0))
            if not torch.equal(first, self.run(_copy(before))):
                self.refuse("state", "the answer depends on batches before", "keep nothing between calls")
            self.shots_apart(before, first)
            zeros = tuple(torch.zeros_like(a) if _is_float(a) else a for a in before)
            self.run(zeros)
        self.gradients(before)

    def run(self, inputs: tuple[Any, ...]) -> Tensor:
        batch = inputs[0].shape[0]
        try:
            out: object = self.call(*inputs)
        except CustomCodeError:
            raise
        except Exception as error:
            # Whatever custom code raises is its author's error, and one line of it is enough.
            text = str(error).strip().splitlines() or [""]
            self.refuse(
                "runtime", f"{type(error).__name__}: {text[0][:200]}", "try it on the shapes of the slot"
            )
        if not isinstance(out, Tensor) or tuple(out.shape) != (batch, *self.shape):
            found = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            self.refuse(
                "shape", f"returned {found}", f"return a tensor of [batch, {self.shape[0]}, {self.shape[1]}]"
            )
        if out.dtype != torch.float32:
            self.refuse("dtype", f"returned {out.dtype}", "return float32")
        if not bool(torch.isfinite(out).all()):
            self.refuse("finite", "returned NaN or infinity", "clamp before exp, log and division")
        return out

    def shots_apart(self, inputs: tuple[Any, ...], first: Tensor) -> None:
        permutation = torch.tensor([2, 0, 3, 1])
        variants: list[tuple[tuple[Any, ...], Tensor]] = [
            (_rows(inputs, permutation), first[permutation]),
            (_rows(inputs, torch.tensor([1])), first[1:2]),
            (_rows(inputs, torch.tensor([3, 2, 1])), first[torch.tensor([3, 2, 1])]),
        ]
        for changed, expected in variants:
            if not _close(self.run(changed), expected):
                self.leak()
        for scale in (1.0, 100.0):
            other = dummy_inputs(self.slot, self.hidden, seed=3, scale=scale)
            mixed = tuple(
                torch.cat([a[:1], b[1:]]) if _is_float(a) else a for a, b in zip(inputs, other, strict=True)
            )
            if not _close(self.run(mixed)[:1], first[:1]):
                self.leak()
        if tuple(self.run(_rows(inputs, torch.tensor([], dtype=torch.long))).shape) != (0, *self.shape):
            self.refuse("shape", "an empty batch is not answered", "keep the batch axis")

    def leak(self) -> NoReturn:
        hint = "keep the first axis out of sums, softmax and indexing: dim=-1 or dim=1"
        self.refuse("batch_independence", "a shot's answer depends on the shots beside it", hint)

    def gradients(self, inputs: tuple[Any, ...]) -> None:
        leaves = [a.clone().requires_grad_() if _is_float(a) else a for a in inputs]
        wanted = [a for a in leaves if _is_float(a)]
        if isinstance(self.call, nn.Module):
            wanted += list(self.call.parameters())
        with torch.enable_grad():
            out = self.run(tuple(leaves))
            if not out.requires_grad:
                self.refuse("gradient", "the answer depends on no input", "use the arguments")
            found = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True)
        if any(g is not None and not bool(torch.isfinite(g).all()) for g in found):
            self.refuse(
                "gradient", "a gradient is NaN or infinite", "add an epsilon under roots and divisions"
            )


def _is_float(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _copy(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(a.clone() if isinstance(a, Tensor) else a for a in inputs)


def _rows(inputs: tuple[Any, ...], rows: Tensor) -> tuple[Any, ...]:
    return tuple(a[rows] if _is_float(a) else a for a in inputs)


def _same(left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    return all(
        torch.equal(a, b) if isinstance(a, Tensor) else a == b for a, b in zip(left, right, strict=True)
    )


def _close(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found, expected, rtol=_TOLERANCE, atol=_TOLERANCE)
