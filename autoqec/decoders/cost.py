"""What a predecoder costs per syndrome: FLOPs by an honest count, parameters, bytes, latency.

Torch's own counter sees matrix products only; belief propagation and anything made of lookups would look free. Here every
operation that the module dispatches is counted: matrix products by torch's registry, everything that computes or moves
elements by the number of elements it touches, views not at all. An operation that is in no list is refused by name, so
that nothing fused or unknown can hide work.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from autoqec.decoders.compiler import context
from autoqec.decoders.modules.predecoders import ProblemPredecoder
from autoqec.envs.problem import DecodingProblem
from autoqec.errors import InputError

_COUNT_BATCH = 2

# No arithmetic and no data movement: other names for the same memory, or metadata.
_FREE = {
    "view", "_unsafe_view", "reshape", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select",
    "detach", "alias", "as_strided", "unbind", "split", "split_with_sizes", "chunk", "is_same_size", "lift_fresh",
    "empty", "empty_like", "new_empty", "diagonal", "narrow", "_local_scalar_dense", "sym_size", "flatten", "unfold",
}  # fmt: skip

# Several elementary steps per element of output.
_STEPS = {
    "tanh": 4, "sigmoid": 4, "exp": 4, "log": 4, "log1p": 4, "expm1": 4, "atanh": 4, "sqrt": 4, "rsqrt": 4, "pow": 4,
    "erf": 4, "gelu": 6, "silu": 5, "softplus": 6, "_softmax": 8, "_log_softmax": 8, "log_sigmoid_forward": 6,
    "native_layer_norm": 8, "native_batch_norm": 8, "native_group_norm": 8, "addcmul": 2, "addcdiv": 2, "lerp": 3,
    "var_mean": 4, "var": 4, "std": 5, "logsumexp": 6, "linalg_vector_norm": 3, "lerp_": 3, "elu": 5, "hardtanh": 2,
    "leaky_relu": 2, "sin": 4, "cos": 4,
}  # fmt: skip

# One step per element of the larger of input and output: arithmetic, comparisons, copies, lookups, scatters, reductions.
_ONE = {
    "add", "sub", "rsub", "mul", "div", "neg", "abs", "sign", "sgn", "minimum", "maximum", "clamp", "clamp_min", "clamp_max",
    "relu", "where", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "logical_xor",
    "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "remainder", "fmod", "floor", "ceil", "round", "reciprocal",
    "square", "threshold", "masked_fill", "index", "index_select", "gather", "embedding", "index_add", "index_put",
    "scatter", "scatter_add", "scatter_reduce", "cat", "stack", "clone", "copy", "_to_copy", "contiguous", "repeat",
    "constant_pad_nd", "sum", "mean", "prod", "amax", "amin", "max", "min", "any", "all", "cumsum", "cumprod", "argmax",
    "argmin", "topk", "sort", "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "new_zeros", "new_ones",
    "new_full", "scalar_tensor", "arange", "fill", "zero", "isnan", "isinf", "isfinite", "count_nonzero", "flip", "roll",
    "index_copy", "masked_select", "nan_to_num", "is_nonzero", "tril", "triu", "eye", "bucketize",
}  # fmt: skip


@dataclass(frozen=True)
class Cost:
    """flops_per_syndrome: see the module. n_params: learned numbers, buffers included that a checkpoint carries.

    Latencies are microseconds on this machine's CPU: batch of one (median and 99th percentile), and per shot in bulk.
    """

    flops_per_syndrome: int
    n_params: int
    n_bytes: int
    latency_us_p50: float | None = None
    latency_us_p99: float | None = None
    bulk_us_per_shot: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class _Census(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        packet = func.overloadpacket
        name = str(packet).rpartition(".")[2].rstrip("_")  # in-place operations count like their copies
        if packet in flop_registry:
            self.flops += int(flop_registry[packet](*args, **(kwargs or {}), out_val=out))
            self.flops += self._elements(out) if name in ("addmm", "baddbmm") else 0
        elif name in _FREE:
            pass
        elif name in _STEPS or name in _ONE:
            size = max(self._elements(out), self._elements(args))
            self.flops += _STEPS.get(name, 1) * size
        else:
            raise InputError(
                f"operation {func} is not in the cost census, so its work cannot be counted",
                where="predecoder",
                hint="use element-wise, lookup, reduction and matrix operations of plain torch",
            )
        return out

    def _elements(self, value: Any) -> int:
        """Elements of the largest tensor in a value."""
        if isinstance(value, torch.Tensor):
            return int(value.numel())
        if isinstance(value, list | tuple):
            return int(max((self._elements(part) for part in value), default=0))
        return 0


def count_flops(module: ProblemPredecoder, problem: DecodingProblem) -> int:
    """FLOPs for one syndrome: the difference between batches of four and two, so that per-call constants drop out."""
    counts = []
    for batch in (_COUNT_BATCH, 2 * _COUNT_BATCH):
        with torch.no_grad(), reference_path(module), _Census() as census:
            _run(module, torch.zeros(batch, problem.n_checks), context(problem))
        counts.append(census.flops)
    return int(max(counts[1] - counts[0], 0) // _COUNT_BATCH)


class reference_path:
    """Within it, fused kernels are off: every operation is one that torch dispatches and that can be counted."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._parts = [part for part in module.modules() if getattr(part, "fused", False)]

    def __enter__(self) -> None:
        for part in self._parts:
            part.fused = False  # type: ignore[assignment]

    def __exit__(self, *_: object) -> None:
        for part in self._parts:
            part.fused = True  # type: ignore[assignment]


def _run(module: ProblemPredecoder, syndrome: torch.Tensor, ctx: dict[str, Any]) -> torch.Tensor:
    """What the pipeline asks of the module for these syndromes."""
    if module.output_mode == "hard_flip":
        return module.applied_faults(syndrome, ctx)
    weights = module.edge_log_odds(syndrome, ctx)
    return module(syndrome, ctx) if weights is None else weights


def measure(module: ProblemPredecoder, problem: DecodingProblem, *, latency: bool = False) -> Cost:
    """The cost of a predecoder; with `latency`, also timed on this machine's CPU."""
    module = module.eval()
    state = module.state_dict()
    learned = sum(tensor.numel() for tensor in state.values())
    cost = Cost(
        flops_per_syndrome=count_flops(module, problem),
        n_params=learned,
        n_bytes=sum(tensor.numel() * tensor.element_size() for tensor in state.values()),
    )
    if not latency:
        return cost
    rng = np.random.default_rng(0)
    ctx = context(problem)

    def seconds(batch: int) -> float:
        bits = rng.random((batch, problem.n_checks)) < 0.05
        syndrome = torch.from_numpy(bits.astype(np.float32))
        start = time.perf_counter()
        with torch.no_grad():
            _run(module, syndrome, ctx)
        return time.perf_counter() - start

    seconds(1)
    single = np.array([seconds(1) for _ in range(100)]) * 1e6
    bulk = min(seconds(1024) for _ in range(3)) / 1024 * 1e6
    return Cost(
        cost.flops_per_syndrome,
        cost.n_params,
        cost.n_bytes,
        latency_us_p50=float(np.percentile(single, 50)),
        latency_us_p99=float(np.percentile(single, 99)),
        bulk_us_per_shot=float(bulk),
    )
