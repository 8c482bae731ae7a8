"""Libraries of the optional extras: a missing one is named with what installs it."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

from autoqec.errors import UnavailableError

_EXTRAS = {
    "mcp": "mcp",
    "onnx": "export",
    "onnxruntime": "export",
    "onnxscript": "export",
    "pandas": "frames",
    "ray": "ray",
    "safetensors": "learn",
    "starlette": "serve",
    "tensorboard": "tensorboard",
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
        raise _missing(library) from error


def check_installed(*libraries: str) -> None:
    """Of extras, before anything is written that would be of no use without them; none is imported."""
    for library in libraries:
        if importlib.util.find_spec(library) is None:
            raise _missing(library)


def _missing(library: str) -> UnavailableError:
    return UnavailableError(
        f"needs {library}, which is not installed",
        where=library,
        hint=f"pip install 'autoqec[{_EXTRAS[library]}]'",
    )
