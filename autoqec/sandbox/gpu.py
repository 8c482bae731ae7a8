"""The graphics cards of this machine, as a confined program needs them: device nodes, and what their drivers tell about them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_NODES = (
    "dev/nvidia[0-9]*",
    "dev/nvidiactl",
    "dev/nvidia-modeset",
    "dev/nvidia-uvm*",
    "dev/nvidia-caps/*",
    "dev/dxg",
    "dev/kfd",
    "dev/dri",
)
_FACTS = (
    "proc/devices",
    "proc/driver/nvidia",
    "proc/modules",
    "proc/sys/vm",
    "sys/bus/pci",
    "sys/class/drm",
    "sys/class/kfd",
    "sys/dev/char",
    "sys/devices/pci*",
    "sys/devices/system/memory",
    "sys/devices/system/node",
    "sys/devices/virtual/kfd",
    "sys/module/amdgpu",
    "sys/module/nvidia*",
)


def nodes(root: Path = Path("/")) -> list[Path]:
    """Those that exist; empty on a machine without a card."""
    return _existing(root, _NODES)


def facts(root: Path = Path("/")) -> list[Path]:
    """What drivers read at their start: topology of the machine, their own settings. Nothing of a user, and nothing where there
    is no card."""
    return _existing(root, _FACTS) if nodes(root) else []


def _existing(root: Path, patterns: Iterable[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(root.glob(pattern))]
