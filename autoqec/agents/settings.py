"""Which backend and model each role uses: environment variables, one pair per role."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from autoqec.agents.backends import BACKENDS
from autoqec.agents.backends.base import unavailable
from autoqec.agents.prompts import Role


@dataclass(frozen=True)
class RoleSettings:
    """variable: the one that named the backend."""

    backend: str
    model: str | None
    variable: str


def is_configured(environ: Mapping[str, str] = os.environ) -> bool:
    return bool(environ.get("AUTOQEC_IDEATOR_BACKEND"))


def read_settings(environ: Mapping[str, str] = os.environ) -> dict[Role, RoleSettings]:
    """AUTOQEC_{IDEATOR,CODER,ANALYST}_{BACKEND,MODEL}. A role without a backend of its own takes the Ideator's, and with
    it the Ideator's model unless it names one."""
    first = environ.get("AUTOQEC_IDEATOR_BACKEND")
    if not first:
        raise unavailable(
            "no language model is configured",
            f"set it to {', '.join(BACKENDS)}",
            where="AUTOQEC_IDEATOR_BACKEND",
        )
    settings: dict[Role, RoleSettings] = {}
    for role in get_args(Role):
        variable = f"AUTOQEC_{role.upper()}_BACKEND"
        own = environ.get(variable)
        shared = None if own else environ.get("AUTOQEC_IDEATOR_MODEL")
        model = environ.get(f"AUTOQEC_{role.upper()}_MODEL") or shared
        settings[role] = RoleSettings(
            own or first, model or None, variable if own else "AUTOQEC_IDEATOR_BACKEND"
        )
    return settings
