"""Custom source -> a module: declare, lint, compile in a closed namespace, try it on a dummy batch."""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn

from autoqec.decoders.custom import allowed
from autoqec.decoders.custom.allowed import Slot
from autoqec.decoders.custom.errors import CustomCodeError
from autoqec.decoders.custom.lint import lint
from autoqec.decoders.custom.params import Declared, parse_params, widths
from autoqec.decoders.custom.smoke import smoke_check
from autoqec.decoders.dsl_schema import CustomFunction


class CustomCall(nn.Module):
    """A custom function with its own parameters: call it with the arguments of its slot, less `params`."""

    def __init__(
        self, function: CustomFunction, slot: Slot, *, hidden: int, where: str, out: int = 1
    ) -> None:
        super().__init__()
        self.where = where
        self.slot: Slot = slot
        self.function = compile_function(lint(function, slot, where=where), slot)
        sizes = widths(self.slot, hidden, out)
        self.width = sizes["out"]
        # Prefixed: a declared name may be that of an attribute of every module, such as `training`.
        self.names = {name: f"p_{name}" for name in function.params_declared}
        for name, declared in parse_params(function.params_declared, sizes, where=where).items():
            part = _parameter(declared)
            if isinstance(part, nn.Parameter):
                self.register_parameter(self.names[name], part)
            else:
                self.add_module(self.names[name], part)

    def forward(self, *arguments: Any) -> Tensor:
        out = self.function(*arguments, Params({n: getattr(self, a) for n, a in self.names.items()}))
        first: Tensor = arguments[0]
        rows = arguments[2] if self.slot == "aggregate" else first.shape[1]
        if not isinstance(out, Tensor) or out.shape != (first.shape[0], rows, self.width):
            found = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
            raise CustomCodeError(
                "shape",
                f"the function returned {found}",
                where=self.where,
                hint=f"return a tensor of [batch, {rows}, {self.width}]",
            )
        return out


class Params:
    """The declared parameters, as `params.W` and `params["W"]`, and nothing else."""

    __slots__ = ("_parts",)

    def __init__(self, parts: dict[str, Any]) -> None:
        self._parts = parts

    def __getattr__(self, name: str) -> Any:
        return self[name]

    def __getitem__(self, name: str) -> Any:
        return self._parts[name]


def namespace() -> dict[str, Any]:
    """The globals of custom code. `torch` and `F` hold the allowed functions, not the modules of that
    name.
    """
    functional = SimpleNamespace(**{name: getattr(nn.functional, name) for name in allowed.FUNCTIONAL})
    proxy = SimpleNamespace(**{name: getattr(torch, name) for name in allowed.TORCH})
    proxy.nn = SimpleNamespace(functional=functional)
    builtins = {**allowed.BUILTINS, "__import__": _torch_import}
    return {"__builtins__": builtins, "torch": proxy, "F": functional}


def _torch_import(name: str, *arguments: Any) -> Any:
    """Torch imports parts of itself while it dispatches an operation, with the builtins of the calling frame.

    The lint refuses the name, so custom code cannot call this.
    """
    if name.partition(".")[0] != "torch":
        raise ImportError(f"custom code cannot import {name}")
    return __import__(name, *arguments)


def compile_function(tree: ast.Module, slot: Slot) -> Callable[..., Any]:
    """The function of a tree that passed the lint."""
    space = namespace()
    exec(compile(tree, f"<custom {slot}>", "exec", dont_inherit=True), space)
    function: Callable[..., Any] = space[slot]
    return function


def _parameter(declared: Declared) -> nn.Module | nn.Parameter:
    if declared.kind == "Linear":
        return nn.Linear(declared.sizes[0], declared.sizes[1])
    if declared.kind == "LayerNorm":
        return nn.LayerNorm(declared.sizes[0])
    # Not zeros: a Parameter may be a factor, and a factor of zero would never learn.
    return nn.Parameter(torch.randn(declared.sizes) * declared.sizes[-1] ** -0.5)


def compile_custom(
    function: CustomFunction, slot: Slot, *, hidden: int, where: str, out: int = 1
) -> CustomCall:
    """The module for `slot`, linted and tried. `hidden`: the width of its input rows; `out`: of a head's
    answer.

    Tensors are [batch, rows, width], and all rows of one batch entry belong to one shot. Call this in the
    sandboxed worker only.
    """
    call = CustomCall(function, slot, hidden=hidden, where=where, out=out)
    smoke_check(call, slot, hidden=hidden, out=out, where=where)
    return call
