"""The proposers by name. Each is a module with `make()`, imported only when it is asked for."""

from __future__ import annotations

import importlib

from autoqec.errors import InputError
from autoqec.search.proposal import Proposer

_MODULES = {
    "optuna": "optuna_tpe",
    "evolution": "evolution",
    "templates": "templates",
}

OFFLINE = tuple(_MODULES)
"""Need neither a key nor a network."""


def names() -> list[str]:
    return list(_MODULES)


def make(name: str) -> Proposer:
    if name not in _MODULES:
        raise InputError(
            f"unknown proposer {name!r}", where="--proposer", hint=f"known: {', '.join(_MODULES)}"
        )
    module = importlib.import_module(f"autoqec.search.{_MODULES[name]}")
    proposer: Proposer = module.make()
    return proposer
