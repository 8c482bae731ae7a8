"""Operations of torch in ONNX operations that are exact to rounding.

The exporter writes expm1(x) as exp(x) - 1 and log1p(x) as log(1 + x): both lose all digits near zero, and the log-odds of a sure
fault came out wrong by 0.3. Sigmoid is exact to 1e-7 in onnxruntime, which is 1% of a fault's probability: ordered statistics took
faults in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def translations() -> dict[Callable[..., Any], Callable[..., Any]]:
    """For `torch.onnx.export(custom_translation_table=...)`."""
    import onnxscript

    op: Any = onnxscript.opset18  # its type variables know arrays only, and these are symbols

    def constant(value: float, like: Any) -> Any:
        return op.CastLike(op.Constant(value_float=value), like)

    def expm1(x: Any) -> Any:
        """exp(x) - 1 = 2 sinh(x / 2) exp(x / 2)."""
        half = op.Mul(x, constant(0.5, x))
        return op.Mul(op.Mul(op.Sinh(half), op.Exp(half)), constant(2.0, x))

    def log1p(x: Any) -> Any:
        """log(1 + x) = 2 atanh(x / (2 + x)), which is exact for small x. Near -1 it is not, and 1 + x is."""
        one, two = constant(1.0, x), constant(2.0, x)
        small = op.Max(op.Min(x, one), constant(-0.5, x))
        near = op.Mul(two, op.Atanh(op.Div(small, op.Add(small, two))))
        return op.Where(op.Equal(x, small), near, op.Log(op.Add(x, one)))

    def sigmoid(x: Any) -> Any:
        return op.Reciprocal(op.Add(op.Exp(op.Neg(x)), constant(1.0, x)))

    aten = torch.ops.aten
    return {aten.expm1.default: expm1, aten.log1p.default: log1p, aten.sigmoid.default: sigmoid}
