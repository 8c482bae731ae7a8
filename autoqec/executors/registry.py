"""The executors by name. `NAME` or `NAME:ADDRESS`; each is imported only when it is asked for."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from autoqec.errors import InputError
from autoqec.executors.local import LocalExecutor
from autoqec.executors.protocol import Executor
from autoqec.io.optional import check_installed

LOCAL, RAY = "local", "ray"


def _local(_address: str | None) -> AbstractContextManager[Executor]:
    return nullcontext(LocalExecutor())


def _ray(address: str | None) -> AbstractContextManager[Executor]:
    check_installed("ray")
    from autoqec.executors.on_ray import connected

    return connected(address)


EXECUTORS = {LOCAL: _local, RAY: _ray}


def check_executor(text: str) -> str:
    """The text, if it names an executor that is installed. Nothing is started.

    Raises:
        InputError, UnavailableError: it does not.
    """
    name, colon, address = text.partition(":")
    if name not in EXECUTORS or (colon and (name == LOCAL or not address)):
        raise InputError(
            f"{text!r} is not an executor",
            where="--executor",
            hint="write local, ray, or ray:ADDRESS as in ray:auto",
        )
    if name == RAY:
        check_installed("ray")
    return text


def check_reachable(text: str) -> str:
    """As `check_executor`, and a cluster that is named by its address answers; for work that comes to it only much later."""
    if ":" in check_executor(text):
        with opened(text):
            pass
    return text


def opened(text: str) -> AbstractContextManager[Executor]:
    """The executor for the block: `local`, `ray` (a cluster of this machine, for the block) or `ray:ADDRESS` (one that is there)."""
    name, _, address = check_executor(text).partition(":")
    return EXECUTORS[name](address or None)
