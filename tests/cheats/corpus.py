"""The list of all cheats and controls, and how one is run."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cheats.scene import Outcome, Scene, Shared

_MODULES = (
    "checkpoints",
    "knowledge",
    "behaviour",
    "attribution",
    "cost",
    "cascades",
    "claims",
    "history",
    "process",
    "statistics",
    "books",
    "kernels",
    "tier2",
    "prompts",
    "files",
    "training",
)
_STOPPED = ("refused", "FAILED", "SUSPICIOUS", "no effect")

Play = Callable[[Scene], Outcome]


@dataclass(frozen=True)
class Cheat:
    """family: cheats that one defence stops alike. how: what the cheater does. defence: what stops it.

    expect: the outcomes that count as rejected. because: must be among what stopped it, so that a cheat is not
    rejected by accident.
    """

    name: str
    family: str
    how: str
    defence: str
    expect: tuple[str, ...]
    because: str
    play: Play

    def is_rejected(self, outcome: Outcome) -> bool:
        stopped = outcome.result in self.expect and outcome.result in _STOPPED
        return stopped and any(self.because in word for word in outcome.by)


@dataclass(frozen=True)
class Control:
    """must_win: its gain is large and must be VERIFIED. Otherwise it may have none, and no guard may object to it."""

    name: str
    how: str
    must_win: bool
    play: Play

    def is_rejected(self, outcome: Outcome) -> bool:
        no_gain = outcome.result == "SUSPICIOUS" and outcome.by == ("no gain",)
        return not (outcome.result == "VERIFIED" or (no_gain and not self.must_win))


CHEATS: list[Cheat] = []
CONTROLS: list[Control] = []


def cheat(
    name: str, *, family: str, how: str, defence: str, expect: str, because: str
) -> Callable[[Play], Play]:
    """Enters a cheat. expect: outcomes, separated by spaces or written as one."""

    def enter(play: Play) -> Play:
        allowed = tuple(word for word in _STOPPED if word in expect)
        CHEATS.append(Cheat(name, family, how, defence, allowed, because, play))
        return play

    return enter


def control(name: str, *, how: str, must_win: bool) -> Callable[[Play], Play]:
    def enter(play: Play) -> Play:
        CONTROLS.append(Control(name, how, must_win, play))
        return play

    return enter


def load() -> tuple[list[Cheat], list[Control]]:
    """All of the corpus."""
    for name in (*_MODULES, "controls"):
        importlib.import_module(f"cheats.{name}")
    return CHEATS, CONTROLS


class Played(NamedTuple):
    case: Cheat | Control
    outcome: Outcome
    seconds: float

    @property
    def is_right(self) -> bool:
        return self.case.is_rejected(self.outcome) == isinstance(self.case, Cheat)


def play(case: Cheat | Control, shared: Shared) -> Played:
    """Plays a case; once more if it has a gain that the shots, which are never the same, did not show: one in a thousand."""
    begin = time.monotonic()
    for turn in ("", "-again"):
        folder = Path(shared.root) / f"{case.name.replace(' ', '-')}{turn}"
        folder.mkdir(parents=True)
        played = Played(case, case.play(Scene(folder, shared)), time.monotonic() - begin)
        if played.is_right or played.outcome.by != ("no gain",):
            break
    return played
