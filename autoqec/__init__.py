"""AutoQEC discovers neural predecoders for quantum error-correcting codes, and verifies what it finds.

    import autoqec

    env = autoqec.load_env("surface_d5_depol")
    find = autoqec.load_predecoder("runs/20261115-113000/round_3")
    print(autoqec.compare(env, ["pymatching_correlated", "belief_matching", find], p=0.005))

Names are imported when they are first used: this module alone loads neither torch nor stim.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from autoqec.api.comparison import Comparison, compare
    from autoqec.api.research import RunRecord, read_run, run
    from autoqec.api.rounds import Round, train
    from autoqec.api.verification import verify
    from autoqec.decoders.per_shot import PerShotMatching
    from autoqec.envs.environment import Environment
    from autoqec.envs.load import builtin_names as env_names
    from autoqec.envs.load import load_env
    from autoqec.errors import AutoQECError
    from autoqec.finds.predecoder import Predecoder, load_predecoder
    from autoqec.finds.sinter_adapter import sinter_decoders
    from autoqec.finds.zoo import zoo_entries

__version__ = "0.2.0"

_HOMES = {
    "AutoQECError": "errors",
    "Comparison": "api.comparison",
    "Environment": "envs.environment",
    "PerShotMatching": "decoders.per_shot",
    "Predecoder": "finds.predecoder",
    "Round": "api.rounds",
    "RunRecord": "api.research",
    "compare": "api.comparison",
    "env_names": "envs.load:builtin_names",
    "load_env": "envs.load",
    "load_predecoder": "finds.predecoder",
    "read_run": "api.research",
    "run": "api.research",
    "sinter_decoders": "finds.sinter_adapter",
    "train": "api.rounds",
    "verify": "api.verification",
    "zoo_entries": "finds.zoo",
}

__all__ = [
    "AutoQECError",
    "Comparison",
    "Environment",
    "PerShotMatching",
    "Predecoder",
    "Round",
    "RunRecord",
    "compare",
    "env_names",
    "load_env",
    "load_predecoder",
    "read_run",
    "run",
    "sinter_decoders",
    "train",
    "verify",
    "zoo_entries",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'autoqec' has no attribute {name!r}")
    module, _, inner = _HOMES[name].partition(":")
    found = getattr(importlib.import_module(f"autoqec.{module}"), inner or name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
