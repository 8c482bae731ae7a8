"""Libraries of the optional extras: a missing one is named with what installs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autoqec.errors import UnavailableError

_EXTRAS = {
    "mcp": "mcp",
    "onnx": "export",
    "onnxruntime": "export",
    "onnxscript": "export",
    "pandas": "frames",
    "safetensors": "learn",
    "starlette": "serve",
    "torch": "learn",
    "uvicorn": "serve",
}


@contextmanager
def named_if_missing() -> Iterator[None]:
    """Also a decorator. Turns the import error of a library of an extra into an UnavailableError."""
    try:
        yield
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        if library not in _EXTRAS:
            raise
        raise UnavailableError(
            f"needs {library}, which is not installed",
            where=library,
            hint=f"pip install 'autoqec[{_EXTRAS[library]}]'",
        ) from error
