"""The count of operations itself. A confined worker loads this very file by its path, whatever commit its model code is of.

Torch's own counter sees matrix products only; belief propagation and anything made of lookups would look free. Here every
operation that the module dispatches is counted: matrix products by torch's registry, everything that computes or moves
elements by the number of elements it touches, views not at all. An operation that is in no list is refused by name, so
that nothing fused or unknown can hide work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from autoqec.errors import InputError

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
    "index_copy", "masked_select", "nonzero", "nan_to_num", "is_nonzero", "tril", "triu", "eye", "bucketize",
}  # fmt: skip


class FlopCount(NamedTuple):
    """mean: FLOPs per syndrome. per_call: those of a call whatever its batch, which the mean leaves out; a model may do there what
    all shots share, and should do little else. largest: of one syndrome asked alone, its call included.
    spread: how far the halves of the shots differ, relative to the mean; 0 for a count that does not depend on the data.
    """

    mean: int
    per_call: int
    largest: int
    spread: float


class Untraced(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees every operation, outside of `torch.compile`. To keep its tracer away, torch would import it, which takes as long as
    torch itself."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class _Census(Untraced):
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
            made = name.startswith("new_") or name.endswith("_like")
            size = self._elements(out) if made else max(self._elements(out), self._elements(args))
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


def _off(_: torch.nn.Module) -> bool:
    return False


def _later(module: torch.nn.Module, value: bool) -> None:
    vars(module)["fused"] = value


class reference_path:
    """Within it, fused kernels are off: every operation is one that torch dispatches and that can be counted.

    In all modules of this process: what a module keeps in a plain list is not part of it, and works for it all the same. So the classes
    are told, and a property of a class goes before what its objects hold.
    """

    _lock, _users = threading.Lock(), 0
    _before: ClassVar[dict[type, Any]] = {}

    def __enter__(self) -> None:
        with self._lock:
            reference_path._users += 1
            if reference_path._users == 1:
                for kind in filter(_has_kernels, _kinds(torch.nn.Module)):
                    self._before[kind] = vars(kind).get("fused", _off)
                    type.__setattr__(kind, "fused", property(_off, _later))

    def __exit__(self, *_: object) -> None:
        with self._lock:
            reference_path._users -= 1
            while self._before and not reference_path._users:
                kind, before = self._before.popitem()
                if before is _off:
                    type.__delattr__(kind, "fused")
                else:
                    type.__setattr__(kind, "fused", before)


def _has_kernels(kind: type) -> bool:
    """Whether a class says itself whether its kernels are on; for all others the property of the first one holds."""
    others = (base for base in kind.__mro__ if base is kind or not issubclass(base, torch.nn.Module))
    return kind is torch.nn.Module or any("fused" in vars(base) for base in others)


def _kinds(kind: type) -> set[type]:
    """A class and all that are made from it."""
    made: list[type] = type.__subclasses__(kind)
    return {kind}.union(*map(_kinds, made))


def count(
    module: Any,
    syndromes: Sequence[torch.Tensor],
    ctx: dict[str, Any],
    *,
    alone: int = 0,
    answers: list[torch.Tensor] | None = None,
) -> FlopCount:
    """The count over batches of syndromes, each of an even number of shots; `alone` shots of the first are asked one by one, too.
    answers: a list for what the module answered to each batch while it was counted.

    A batch S and its halves A and B: what a call costs whatever its batch is c(A) + c(B) - c(S), and the rest is the shots' own. For
    a count that is the same for every shot this is exact.
    """

    def flops(rows: torch.Tensor) -> int:
        return _counted_call(module, rows, ctx)[0]

    own, calls, halves, shots = 0, 0, [], 0
    for batch in syndromes:
        half = len(batch) // 2
        whole, answer = _counted_call(module, batch[: 2 * half], ctx)
        parts = [flops(batch[:half]), flops(batch[half : 2 * half])]
        if answers is not None:
            answers.append(answer)
        call = max(sum(parts) - whole, 0)
        own, calls, shots = own + whole - call, max(calls, call), shots + 2 * half
        halves += [(part - call) / half for part in parts]
    singles = [flops(row[None]) for row in syndromes[0][:alone]]
    mean = own / shots
    spread = (max(halves) - min(halves)) / max(mean, 1.0)
    return FlopCount(round(mean), calls, max(singles, default=0), spread)


def count_call(module: Any, syndrome: torch.Tensor, ctx: dict[str, Any]) -> int:
    """FLOPs of one call, with all that a call costs whatever its batch."""
    return _counted_call(module, syndrome, ctx)[0]


def _counted_call(module: Any, syndrome: torch.Tensor, ctx: dict[str, Any]) -> tuple[int, torch.Tensor]:
    with torch.no_grad(), reference_path(), _Census() as census:
        # The copy is the syndrome being read: one step for each detector.
        answer = asked(module, syndrome.clone(memory_format=torch.contiguous_format), ctx)
    return int(census.flops), answer


class AfterStage(torch.nn.Module):
    """A stage of a cascade for the count: what the stage before said stands beside the syndrome, in the same row.

    name: of that in the stage's context.
    """

    def __init__(self, stage: Any, n_checks: int, name: str) -> None:
        super().__init__()
        self.stage, self.output_mode = stage, stage.output_mode
        self._n_checks, self._name = n_checks, name

    def edge_log_odds(self, rows: torch.Tensor, ctx: dict[str, Any]) -> Any:
        return self.stage.edge_log_odds(rows[:, : self._n_checks], self._with(rows, ctx))

    def forward(self, rows: torch.Tensor, ctx: dict[str, Any]) -> Any:
        return self.stage(rows[:, : self._n_checks], self._with(rows, ctx))

    def _with(self, rows: torch.Tensor, ctx: dict[str, Any]) -> dict[str, Any]:
        return {**ctx, self._name: rows[:, self._n_checks :]}


class PriorsOnly:
    """A module of which the backend wants priors, also where it could give weights of edges."""

    output_mode = "soft_priors"

    def __init__(self, module: Any) -> None:
        self._module = module

    def edge_log_odds(self, _syndrome: torch.Tensor, _ctx: dict[str, Any]) -> None:
        return None

    def __call__(self, syndrome: torch.Tensor, ctx: dict[str, Any]) -> Any:
        return self._module(syndrome, ctx)


def for_backend(module: Any, *, wants_edges: bool) -> Any:
    """The module as a backend asks it."""
    return module if wants_edges or module.output_mode == "hard_flip" else PriorsOnly(module)


def asked(module: Any, syndrome: torch.Tensor, ctx: dict[str, Any]) -> torch.Tensor:
    """What the pipeline asks of the module for these syndromes."""
    answer: Callable[..., Any]
    if module.output_mode == "hard_flip":
        answer = module.applied_faults
    elif (weights := module.edge_log_odds(syndrome, ctx)) is not None:
        return weights  # type: ignore[no-any-return]
    else:
        answer = module
    return answer(syndrome, ctx)  # type: ignore[no-any-return]
