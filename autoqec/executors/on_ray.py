"""Lanes on a Ray cluster: each is an actor with one local lane behind it, on whatever node has the cores and GPUs that it takes.

The actor only relays bytes. What is behind it is the same process as on this machine, so that neither its environment nor what it may
import depends on Ray, and it ends with its actor, its node or this process.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import RayError

from autoqec.errors import AutoQECError, InputError
from autoqec.executors.local import LocalLanes
from autoqec.executors.protocol import MOST_LOSSES, Outbox, Program
from autoqec.io.child_env import kept

OBJECT_STORE = 256 << 20
"""Bytes of the object store of a cluster that is started here: messages are small, and answers are taken one by one."""

_ANSWER_S = 10.0

PLACES = ("AUTOQEC_CACHE", "AUTOQEC_HOME", "AUTOQEC_KERNELS", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Folders, which have the same path on every node."""


@contextmanager
def connected(address: str | None) -> Iterator[RayExecutor]:
    """A cluster of this machine that ends with the block, or the one at `address`, which stays."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    own: dict[str, Any] = {"object_store_memory": OBJECT_STORE, "include_dashboard": False}
    here = "local" if address is None else address
    try:
        _check_answers(here)
        # Ray puts the working directory on the path of its workers, and it may be the checkout that is being judged.
        with contextlib.chdir("/"):
            ray.init(
                address=here, log_to_driver=False, logging_level="error", **(own if address is None else {})
            )
    except (RayError, OSError, RuntimeError, ValueError, OverflowError) as error:
        raise InputError(
            f"no Ray cluster can be used at {here}: {str(error).strip() or type(error).__name__}",
            where="--executor",
            hint="start one with `ray start --head`, or write ray alone for one of this machine",
        ) from error
    try:
        yield RayExecutor()
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal():
        with socket.create_connection((host, int(port)), timeout=_ANSWER_S):
            pass


class RayExecutor:
    name = "ray"

    @property
    def cores(self) -> int:
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def share(self, count: int) -> tuple[float, float]:
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        largest = max((node.get("CPU", 0.0) for node in nodes), default=1.0)
        gpus = sum(node.get("GPU", 0.0) for node in nodes)
        return max(1.0, min(self.cores // count, largest)), min(1.0, gpus / count)

    def lanes(self, program: Program, count: int) -> RayLanes:
        return RayLanes(program, count)


class Relay:
    """The actor. A process that ends behind it is an error, so that the actor is replaced, too."""

    def __init__(self, program: Program) -> None:
        self._lanes = LocalLanes(program, 1)

    def ready(self) -> None:
        """Answered when a node has taken the lane."""

    def tell(self, message: bytes) -> None:
        self._lanes.tell(message)

    def ask(self, message: bytes) -> bytes:
        number = self._lanes.send(message)
        received, answer = self._lanes.receive()
        assert received == number
        return answer


class RayLanes:
    """At most `count` actors. Those that wait for a node take part as soon as they have one."""

    def __init__(self, program: Program, count: int) -> None:
        variables = {**kept(PLACES), **program.variables}
        self._program = Program(**{**program.__dict__, "variables": variables})
        self._count = count
        kind = ray.remote(Relay)
        self._kind = kind.options(num_cpus=program.cpus, num_gpus=program.gpus, max_restarts=0)
        self._told: Any = None
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}
        self._busy: dict[Any, tuple[int, Any]] = {}
        self._outbox = Outbox()
        self._failed_starts = 0
        if program.is_kept:
            self._fill()

    @property
    def _alive(self) -> int:
        return len(self._idle) + len(self._starting) + len(self._busy)

    @property
    def has_room(self) -> bool:
        return self._count - len(self._busy) > len(self._outbox)

    def tell(self, message: bytes) -> None:
        try:
            self._told = ray.put(message)
        except RayError as error:
            raise _refused(error) from error
        for actor in [*self._idle, *self._starting.values()]:
            actor.tell.remote(self._told)

    def send(self, message: bytes) -> int:
        number = self._outbox.add(message)
        self._hand_out()
        return number

    def receive(self) -> tuple[int, bytes]:
        while True:
            self._hand_out()
            (ready,), _ = ray.wait([*self._busy, *self._starting], num_returns=1)
            if ready in self._starting:
                self._started(ready)
                continue
            number, actor = self._busy.pop(ready)
            try:
                answer: bytes = ray.get(ready)
            except (RayError, AutoQECError):
                _end(actor)
                self._outbox.lost(number)
                continue
            self._outbox.answered(number)
            if self._program.is_kept:
                self._idle.append(actor)
            else:
                _end(actor)
            return number, answer

    def _started(self, ready: Any) -> None:
        actor = self._starting.pop(ready)
        try:
            ray.get(ready)
        except RayError as error:
            _end(actor)
            self._failed_starts += 1
            if self._failed_starts >= MOST_LOSSES * self._count:
                raise _refused(error) from error
            return
        self._idle.append(actor)

    def _fill(self) -> None:
        """Asks for as many actors as may work, or as there is work for."""
        wanted = self._count if self._program.is_kept else len(self._busy) + len(self._outbox)
        while self._alive < min(self._count, wanted):
            actor = self._kind.remote(self._program)
            if self._told is not None:
                actor.tell.remote(self._told)
            self._starting[actor.ready.remote()] = actor

    def _hand_out(self) -> None:
        self._fill()
        while self._idle and len(self._outbox):
            actor = self._idle.pop()
            number, message = self._outbox.take()
            self._busy[actor.ask.remote(message)] = (number, actor)

    def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        working = [actor for _, actor in self._busy.values()]
        for actor in [*self._idle, *self._starting.values(), *working]:
            _end(actor)
        self._idle, self._starting, self._busy = [], {}, {}


def _end(actor: Any) -> None:
    with contextlib.suppress(RayError):
        ray.kill(actor)


def _refused(error: Exception) -> AutoQECError:
    text = str(error).strip().splitlines() or [type(error).__name__]
    return AutoQECError(
        f"the Ray cluster does not take the work: {text[0]}",
        where="--executor",
        hint="look at its nodes with `ray status`; each needs AutoQEC, and memory for its object store",
    )
