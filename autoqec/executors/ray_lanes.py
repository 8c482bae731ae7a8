"""Lanes on a Ray cluster: local lanes behind actors or tasks, on whatever nodes have the cores and GPUs that they take.

Actors and tasks only relay bytes. What is behind them is the same process as on this machine, so that neither its environment nor what
it may import depends on Ray, and it ends with its actor or task, its node or this process.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError

from autoqec.errors import AutoQECError
from autoqec.executors.local import LocalLanes
from autoqec.executors.protocol import MOST_LOSSES, Outbox, Program
from autoqec.io.child_env import kept

PLACES = ("AUTOQEC_CACHE", "AUTOQEC_HOME", "AUTOQEC_KERNELS", "XDG_CACHE_HOME", "XDG_DATA_HOME")
"""Folders, which have the same path on every node."""


class Relay:
    """One local lane. A process that ends behind it is an error at once: whoever asked counts the losses."""

    def __init__(self, program: Program) -> None:
        self._lanes = LocalLanes(program, 1, most_losses=1)

    def ready(self) -> None:
        """Answered when a node has taken the lane."""

    def tell(self, message: bytes) -> None:
        self._lanes.tell(message)

    def ask(self, message: bytes) -> bytes:
        number = self._lanes.send(message)
        received, answer = self._lanes.receive()
        assert received == number
        return answer

    def close(self) -> None:
        self._lanes.close()


def answer_once(program: Program, told: bytes | None, message: bytes) -> bytes:
    """The task: a lane for one message."""
    with contextlib.closing(Relay(program)) as relay:
        if told is not None:
            relay.tell(told)
        return relay.ask(message)


class _RayLanes:
    """What actors and tasks have in common: at most `count` messages are out, and `_busy` has them by the references to their answers."""

    def __init__(self, program: Program, count: int) -> None:
        self._program = replace(program, variables={**kept(PLACES), **program.variables})
        self._takes = {"num_cpus": program.cpus, "num_gpus": program.gpus}
        self._count = count
        self._told: Any = None
        self._busy: dict[Any, Any] = {}
        self._outbox = Outbox()
        self._failed_starts = 0

    @property
    def has_room(self) -> bool:
        return self._count - len(self._busy) > len(self._outbox)

    def tell(self, message: bytes) -> None:
        try:
            self._told = ray.put(message)
        except RayError as error:
            raise _refused(error) from error

    def send(self, message: bytes) -> int:
        number = self._outbox.add(message)
        self._hand_out()
        return number

    def _hand_out(self) -> None:
        raise NotImplementedError

    def _not_started(self, error: Exception) -> None:
        self._failed_starts += 1
        if self._failed_starts >= MOST_LOSSES * self._count:
            raise _refused(error) from error

    def close(self) -> None:
        self.stop()

    def stop(self) -> None:
        raise NotImplementedError


class ActorLanes(_RayLanes):
    """For lanes that keep what they take. Actors that wait for a node take part as soon as they have one."""

    def __init__(self, program: Program, count: int) -> None:
        super().__init__(program, count)
        self._kind = ray.remote(Relay).options(**self._takes, max_restarts=0)
        self._idle: list[Any] = []
        self._starting: dict[Any, Any] = {}
        self._fill()

    def tell(self, message: bytes) -> None:
        super().tell(message)
        for actor in [*self._idle, *self._starting.values()]:
            actor.tell.remote(self._told)

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
            self._idle.append(actor)
            return number, answer

    def _started(self, ready: Any) -> None:
        actor = self._starting.pop(ready)
        try:
            ray.get(ready)
        except RayError as error:
            _end(actor)
            self._not_started(error)
            return
        self._idle.append(actor)

    def _fill(self) -> None:
        while len(self._idle) + len(self._starting) + len(self._busy) < self._count:
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

    def stop(self) -> None:
        working = [actor for _, actor in self._busy.values()]
        for actor in [*self._idle, *self._starting.values(), *working]:
            _end(actor)
        self._idle, self._starting, self._busy = [], {}, {}


class TaskLanes(_RayLanes):
    """For lanes that take something only while they work. A task begins when a node has room and gives back what it took when it ends,
    also while nobody receives: other lanes may need it before."""

    def __init__(self, program: Program, count: int) -> None:
        super().__init__(program, count)
        self._task = ray.remote(answer_once).options(**self._takes, max_retries=0)

    def receive(self) -> tuple[int, bytes]:
        while True:
            self._hand_out()
            (ready,), _ = ray.wait(list(self._busy), num_returns=1)
            number = self._busy.pop(ready)
            try:
                answer: bytes = ray.get(ready)
            except (RayError, AutoQECError) as error:
                self._failed(number, error)
                continue
            self._outbox.answered(number)
            return number, answer

    def _failed(self, number: int, error: Exception) -> None:
        """A process or a node was lost, or a node cannot run AutoQEC, which is not the message's fault."""
        if isinstance(error, RayTaskError) and not isinstance(error, AutoQECError):
            self._not_started(error)
            self._outbox.put_back(number)
        else:
            self._outbox.lost(number)

    def _hand_out(self) -> None:
        while len(self._busy) < self._count and len(self._outbox):
            number, message = self._outbox.take()
            self._busy[self._task.remote(self._program, self._told, message)] = number

    def stop(self) -> None:
        for answer in self._busy:
            with contextlib.suppress(RayError):
                ray.cancel(answer, force=True)
        self._busy = {}


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
