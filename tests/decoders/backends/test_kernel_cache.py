"""What numba keeps on disk is found again by the next process."""

from __future__ import annotations

import gc
import importlib
import pkgutil

from numba.core.caching import NullCache
from numba.core.registry import CPUDispatcher

from autoqec.decoders.backends import _kernels


def test_closures_of_cached_kernels_hold_plain_values() -> None:
    """numba looks a kernel up by its closure, and a compiled function in there has another name in every process."""
    for module in pkgutil.iter_modules(_kernels.__path__, f"{_kernels.__name__}."):
        if "device_" not in module.name:  # Triton's
            importlib.import_module(module.name)
    cached = [
        each
        for each in gc.get_objects()
        if type(each) is CPUDispatcher
        and each.py_func.__module__.startswith(_kernels.__name__)
        and not isinstance(each._cache, NullCache)
    ]
    assert len(cached) > 10
    for each in cached:
        held = [cell.cell_contents for cell in each.py_func.__closure__ or ()]
        assert all(isinstance(value, str | bool | None) for value in held), each.py_func.__qualname__
