"""What kind of failure an exception is: decided here and nowhere else."""

from __future__ import annotations

import errno
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from autoqec.decoders.custom.errors import CustomCodeError
from autoqec.errors import AutoQECError, Portable, UnavailableError
from autoqec.runner.schema import Failure, FailureKind

_BY_ERRNO: dict[int, FailureKind] = {
    errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full",
    errno.EACCES: "not_writable",
    errno.EPERM: "not_writable",
    errno.EROFS: "not_writable",
    errno.ENOMEM: "out_of_memory",
}
_BY_FIELD: dict[str, FailureKind] = {
    "classical_backend": "backend_unfit",
    "training.loss": "loss_unsupported",
}
# torch raises plain RuntimeErrors for these: MPS and the CPU allocator have no type of their own, nor has a driver that is
# missing or too old when CUDA starts.
_BY_TEXT: tuple[tuple[re.Pattern[str], FailureKind], ...] = (
    (re.compile("out of memory|can't allocate memory|not enough memory", re.IGNORECASE), "out_of_memory"),
    (re.compile("CUDA (driver|error)|no kernel image|NVIDIA driver"), "gpu_error"),
)


class RoundFailed(Portable):
    """Ends a round; its metrics record the failure."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(failure.message)


def kind_of(error: BaseException, otherwise: FailureKind = "unknown") -> FailureKind:
    """otherwise: for an error that does not tell by itself; whoever catches it knows what was being done."""
    if isinstance(error, CustomCodeError):
        return "code_failed" if error.rule == "runtime" else "code_refused"
    if isinstance(error, ImportError | UnavailableError):
        return "missing_library"
    if isinstance(error, AutoQECError):
        return _BY_FIELD.get(error.where or "", otherwise)
    if isinstance(error, MemoryError):
        return "out_of_memory"
    if isinstance(error, OSError):
        return _BY_ERRNO.get(error.errno or 0, otherwise)
    return _kind_of_torch(error) or otherwise


def failure_of(error: BaseException, otherwise: FailureKind = "unknown") -> Failure:
    kind = kind_of(error, otherwise)
    if isinstance(error, CustomCodeError):
        return Failure(kind, str(error), error.field, error.hint)
    if isinstance(error, AutoQECError):
        return Failure(kind, str(error), error.where, error.hint)
    first = (str(error).splitlines() or [""])[0][:300]
    facts = {"certain": True} if kind == "out_of_memory" else {}
    return Failure(kind, f"{type(error).__name__}: {first}".removesuffix(": "), facts=facts)


@contextmanager
def failing_as(
    kind: FailureKind, errors: type[Exception] | tuple[type[Exception], ...] = AutoQECError
) -> Iterator[None]:
    """Ends the round at such an error. kind: for one that does not tell by itself."""
    try:
        yield
    except errors as error:
        raise RoundFailed(failure_of(error, kind)) from error


def _kind_of_torch(error: BaseException) -> FailureKind | None:
    torch = sys.modules.get("torch")  # it may be what cannot be imported
    if torch is None or not isinstance(error, RuntimeError):
        return None
    if isinstance(error, torch.OutOfMemoryError):
        return "out_of_memory"
    found = next((kind for pattern, kind in _BY_TEXT if pattern.search(str(error))), None)
    return "gpu_error" if found is None and isinstance(error, torch.AcceleratorError) else found
