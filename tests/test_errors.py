"""Errors come out of another process as they went in: what, where, hint, and what a subclass adds."""

from __future__ import annotations

import contextlib
import importlib
import pickle
import pkgutil
from collections.abc import Iterator

import autoqec
from autoqec.agents.backends import gateway
from autoqec.agents.failures import RoleFailure
from autoqec.decoders.custom.errors import CustomCodeError
from autoqec.errors import AutoQECError
from autoqec.eval.metering import HiddenWork
from autoqec.executors.protocol import GivenUp
from autoqec.io.git import GitError
from autoqec.runner.failure_kinds import RoundFailed
from autoqec.runner.schema import Failure
from autoqec.runs.worktrees import ComposeConflict

OWN_ARGUMENTS: dict[type[Exception], Exception] = {
    RoundFailed: RoundFailed(Failure("config_invalid", "no such loss", "training.loss", "choose another")),
    HiddenWork: HiddenWork("took too long", (1.0, 2.0)),
    gateway._Error: gateway._Error(402, "not paid for"),
    RoleFailure: RoleFailure("rate_limit", "too many calls", where="ideator", hint="wait", retry_after_s=3.0),
    CustomCodeError: CustomCodeError("imports", "os", where="gnn.message_fn", hint="leave it out", line=3),
    GitError: GitError(["merge-base", "a", "b"], 128, "fatal: not a name", "/somewhere"),
    ComposeConflict: ComposeConflict("they disagree", ["one.py", "two.py"]),
    GivenUp: GivenUp("three workers were lost", 7),
}


def kinds() -> set[type[Exception]]:
    """Every error class of the package, whichever module defines it."""
    for module in pkgutil.walk_packages(autoqec.__path__, "autoqec."):
        if not module.name.endswith("__main__"):
            with contextlib.suppress(ImportError):  # an optional library that is not installed here
                importlib.import_module(module.name)
    return {kind for kind in _below(Exception) if kind.__module__.startswith("autoqec.")}


def _below(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for child in kind.__subclasses__():
        yield from _below(child)


def test_every_error_survives_a_pipe() -> None:
    for kind in kinds():
        error: Exception
        if kind in OWN_ARGUMENTS:
            error = OWN_ARGUMENTS[kind]
        elif issubclass(kind, AutoQECError):
            error = kind("what is wrong", where="here", hint="do that")
        else:
            error = kind("what is wrong")
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
