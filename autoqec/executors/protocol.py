"""What every executor offers: lanes. A lane is a process somewhere that answers one message after the other.

Messages and answers are bytes. A message whose lane is lost goes to another one, so that it is answered once or not at all; what it
asks for has to be the same wherever and however often it runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from autoqec.errors import AutoQECError

MOST_LOSSES = 3
"""Lanes that one message may lose: one that ends every lane would otherwise end all of them."""


class Worker:
    """What a lane runs. Its class is named by `Program.target` and made once per lane."""

    def tell(self, message: bytes) -> None:
        """What the messages that follow rely on. It is not answered."""

    def answer(self, message: bytes) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        """The lane ends."""


@dataclass(frozen=True)
class Program:
    """A worker and what its process gets.

    target: `module:Class`. variables: of its environment, beside those of the machine. folders: variables that name folders of this
    machine; on a machine without them, an empty one takes their place. is_private: its temporary files and its cache are its own and
    end with it. cpus, gpus: what a lane takes of its machine, which may be a fraction; this machine does not count them. is_kept:
    whether a lane without work keeps them.
    """

    target: str
    variables: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Path] = field(default_factory=dict)
    is_private: bool = False
    cpus: float = 1.0
    gpus: float = 0.0
    is_kept: bool = True


class Lanes(Protocol):
    @property
    def has_room(self) -> bool:
        """Whether a lane is idle, so that one more message would not wait."""
        ...

    def tell(self, message: bytes) -> None:
        """To every lane, also to those that take the place of lost ones. No message may be out."""
        ...

    def send(self, message: bytes) -> int:
        """The message's number. It waits where no lane is idle."""
        ...

    def receive(self) -> tuple[int, bytes]:
        """The next answer, with the number of its message.

        Raises:
            GivenUp: a message lost too many lanes.
        """
        ...

    def close(self) -> None:
        """Ends the lanes, which are idle."""
        ...

    def stop(self) -> None:
        """Ends the lanes at once, with all that they started."""
        ...


class Executor(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def cores(self) -> int:
        """That lanes may use together."""
        ...

    def share(self, count: int) -> tuple[float, float]:
        """Cores and GPUs that each of `count` lanes can have at the same time."""
        ...

    def check(self, cpus: float, gpus: float) -> None:
        """Of a lane that would take so many.

        Raises:
            InputError: it could never start.
        """
        ...

    def lanes(self, program: Program, count: int) -> Lanes: ...


class GivenUp(AutoQECError):
    """number: of the message that is not answered."""

    def __init__(self, what: str, number: int) -> None:
        self.number = number
        super().__init__(what, where="workers", hint="was a machine out of memory, or lost?")


class Outbox:
    """The messages of some lanes: those that wait, and how many lanes each has lost, of which `most` end it. A lost one is the first that
    waits."""

    def __init__(self, most: int = MOST_LOSSES) -> None:
        self._most = most
        self._messages: dict[int, bytes] = {}
        self._losses: dict[int, int] = {}
        self._waiting: deque[int] = deque()
        self._sent = 0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, message: bytes) -> int:
        number, self._sent = self._sent, self._sent + 1
        self._messages[number] = message
        self._waiting.append(number)
        return number

    def take(self) -> tuple[int, bytes]:
        number = self._waiting.popleft()
        return number, self._messages[number]

    def answered(self, number: int) -> None:
        del self._messages[number]
        self._losses.pop(number, None)

    def lost(self, number: int) -> None:
        losses = self._losses.get(number, 0) + 1
        if losses >= self._most:
            self.answered(number)
            raise GivenUp(f"a worker process ended while it worked, {losses} times on the same task", number)
        self._losses[number] = losses
        self.put_back(number)

    def put_back(self, number: int) -> None:
        self._waiting.appendleft(number)


def run(lanes: Lanes, messages: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    """Answers with the place of their message, in the order in which they come. A message is made when a lane is idle, so that no
    more are held than there are lanes."""
    places: dict[int, int] = {}
    following = enumerate(messages)
    while True:
        while lanes.has_room and (step := next(following, None)) is not None:
            places[lanes.send(step[1])] = step[0]
        if not places:
            return
        number, answer = lanes.receive()
        yield places.pop(number), answer
