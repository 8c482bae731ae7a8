"""The only place that knows where files live and what they are called."""

from __future__ import annotations

import os
from pathlib import Path


def cache_root() -> Path:
    """Folder for things that can be rebuilt: `$AUTOQEC_CACHE`, else `autoqec` in the user's cache folder."""
    if chosen := os.environ.get("AUTOQEC_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "autoqec"


def problem_cache(key: str) -> Path:
    """The cached arrays of one decoding problem, named by content hash."""
    return cache_root() / "problems" / f"{key}.bin"


def failure_cache(stream: str, key: str) -> Path:
    """Failure bits of one decoder on one stream of shots."""
    return cache_root() / "failures" / stream / f"{key}.bin"


class RoundDir:
    """The files of one round."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.config = self.path / "config.yaml"
        self.train_log = self.path / "train.log"
        self.checkpoint = self.path / "checkpoint.pt"
        self.metrics = self.path / "metrics.json"
        self.manifest = self.path / "artifact_manifest.json"
        self.training_state = self.path / "training_state.pt"
        self.output = self.path / "runner.log"
