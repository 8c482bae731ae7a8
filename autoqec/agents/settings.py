"""Which backend and model each role uses, and how long it may take: environment variables."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

from autoqec.agents.backends import BACKENDS
from autoqec.agents.backends.base import unavailable
from autoqec.agents.prompts import Role
from autoqec.errors import InputError


@dataclass(frozen=True)
class RoleSettings:
    """variable: the one that named the backend. deadline_s: of a question, if not the role's own."""

    backend: str
    model: str | None
    variable: str
    deadline_s: float | None = None


def is_configured(environ: Mapping[str, str] = os.environ) -> bool:
    return bool(environ.get("AUTOQEC_IDEATOR_BACKEND"))


def read_settings(environ: Mapping[str, str] = os.environ) -> dict[Role, RoleSettings]:
    """AUTOQEC_{IDEATOR,CODER,ANALYST}_{BACKEND,MODEL}. A role without a backend of its own takes the Ideator's, and with
    it the Ideator's model unless it names one. AUTOQEC_ROLE_DEADLINE_S: seconds for each question to any role."""
    first = environ.get("AUTOQEC_IDEATOR_BACKEND")
    if not first:
        raise unavailable(
            "no language model is configured",
            f"set it to {', '.join(BACKENDS)}",
            where="AUTOQEC_IDEATOR_BACKEND",
        )
    deadline_s = _deadline(environ)
    settings: dict[Role, RoleSettings] = {}
    for role in get_args(Role):
        variable = f"AUTOQEC_{role.upper()}_BACKEND"
        own = environ.get(variable)
        shared = None if own else environ.get("AUTOQEC_IDEATOR_MODEL")
        model = environ.get(f"AUTOQEC_{role.upper()}_MODEL") or shared
        settings[role] = RoleSettings(
            own or first, model or None, variable if own else "AUTOQEC_IDEATOR_BACKEND", deadline_s
        )
    return settings


def _deadline(environ: Mapping[str, str]) -> float | None:
    text = environ.get("AUTOQEC_ROLE_DEADLINE_S")
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InputError(
            f"{text[:40]!r} is not a time", where="AUTOQEC_ROLE_DEADLINE_S", hint="give seconds, as in 300"
        )
    return seconds
