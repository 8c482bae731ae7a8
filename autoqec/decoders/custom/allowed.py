"""What custom code may name. Everything else is refused: a list of what is forbidden can never be
complete.
"""

from __future__ import annotations

import ast
from typing import Literal

Slot = Literal["message", "aggregate", "head"]

SLOTS: dict[str, Slot] = {"gnn.message_fn": "message", "gnn.aggregation": "aggregate", "head": "head"}
"""Field path of the DSL -> slot."""

SIGNATURES: dict[Slot, tuple[str, ...]] = {
    "message": ("x_src", "x_dst", "e_ij", "params"),
    "aggregate": ("messages", "edge_index", "n_nodes", "params"),
    "head": ("hidden_state", "params"),
}

BUILTINS = {"range": range, "len": len, "min": min, "max": max, "abs": abs, "float": float, "int": int}

# Name -> how many arguments may be positional. Some functionals take `inplace` by position: this
# number keeps it out.
TORCH = {
    **dict.fromkeys(
        ["relu", "tanh", "sigmoid", "exp", "log1p", "expm1", "log", "sqrt", "rsqrt", "abs", "square", "sign"]
        + ["sin", "cos", "erf", "zeros_like", "ones_like", "reciprocal", "neg", "logical_not"],
        1,
    ),
    **dict.fromkeys(
        ["softmax", "log_softmax", "logsumexp", "cat", "stack", "matmul", "full_like", "unsqueeze"], 2
    ),
    **dict.fromkeys(["maximum", "minimum", "mul", "add", "sub", "div", "dot", "outer", "logical_and"], 2),
    **dict.fromkeys(["squeeze", "chunk", "flatten", "pow", "logical_or", "logaddexp"], 3),
    **dict.fromkeys(
        ["sum", "mean", "amax", "amin", "clamp", "where", "transpose", "index_select", "gather"], 3
    ),
    **dict.fromkeys(["einsum", "bmm", "baddbmm", "index_add", "scatter_add", "scatter_reduce", "lerp"], 5),
}
FUNCTIONAL = {
    **dict.fromkeys(
        ["relu", "gelu", "silu", "mish", "sigmoid", "tanh", "logsigmoid", "softsign", "relu6", "selu"], 1
    ),
    **dict.fromkeys(["elu", "leaky_relu", "celu", "softmax", "log_softmax"], 2),
    **dict.fromkeys(["softplus", "normalize", "linear"], 3),
    "layer_norm": 5,
    "rms_norm": 4,
}
TENSOR_METHODS = {
    "sum", "mean", "amax", "amin", "exp", "log", "log1p", "sqrt", "rsqrt", "tanh", "sigmoid", "relu",
    "softmax", "log_softmax", "logsumexp", "clamp", "abs", "square", "pow", "neg", "reciprocal", "matmul",
    "mul", "add", "sub", "div", "unsqueeze", "squeeze", "transpose", "permute", "reshape", "view",
    "flatten", "unflatten", "expand", "expand_as", "size", "dim", "chunk", "split", "unbind",
    "index_select", "index_add", "scatter_add", "scatter_reduce", "gather", "new_zeros", "new_ones",
    "masked_fill", "maximum", "minimum", "float", "sign", "contiguous",
}  # fmt: skip
TENSOR_PROPERTIES = {"shape", "ndim", "mT"}
KEYWORDS = {
    "dim", "dim0", "dim1", "keepdim", "min", "max", "eps", "index", "src", "source", "reduce",
    "include_self", "approximate", "negative_slope", "alpha", "beta", "threshold", "normalized_shape",
    "weight", "bias", "p", "fill_value", "value", "start_dim", "end_dim", "chunks", "dims",
}  # fmt: skip
WORDS = {"scatter_reduce": ("sum", "mean", "amax", "amin", "prod"), "gelu": ("tanh", "none")}

STATEMENTS = (ast.Assign, ast.For, ast.Return)
EXPRESSIONS = (
    ast.Name,
    ast.Constant,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.Slice,
    ast.Tuple,
    ast.List,
)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
SIGNS = (ast.USub, ast.UAdd)
COMPARISONS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)

MAX_SOURCE_BYTES = 8192
MAX_NODES = 2000
MAX_DEPTH = 40
MAX_NUMBERS = 64
MAX_ELEMENTS = 64
MAX_INT = 65536
MAX_POWER = 8
MAX_LOOP = 64
MAX_LOOP_DEPTH = 2
MAX_PARAMETERS = 32
