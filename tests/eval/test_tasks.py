"""What a task asks in the time that it has."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autoqec.envs.sampling import Shots
from autoqec.eval.tasks import PIECE, Baseline

SHOTS = 4000


class Slow:
    """Decodes on a clock of its own, which it moves on by so much for every shot."""

    def __init__(self, per_shot: float) -> None:
        self.per_shot, self.now = per_shot, 0.0
        self.asked: list[int] = []

    def decode(self, detectors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        self.asked.append(len(detectors))
        self.now += self.per_shot * len(detectors)
        return np.zeros((len(detectors), 1), np.uint8)


@pytest.mark.parametrize(
    ("per_shot", "shots"), [(1e-3, SHOTS), (0.07, 285), (1.0, 20), (3.0, 8), (0.0, SHOTS)]
)
def test_a_slow_decoder_keeps_to_its_time(
    monkeypatch: pytest.MonkeyPatch, per_shot: float, shots: int
) -> None:
    decoder: Any = Slow(per_shot)
    monkeypatch.setattr(time, "perf_counter", lambda: 1e-6 + decoder.now)
    of = Shots(np.zeros((SHOTS, 3), np.uint8), np.zeros((SHOTS, 1), np.uint8))
    where: Any = SimpleNamespace(problem="x", read=lambda *_: of)
    verifier: Any = SimpleNamespace(decoder=lambda *_: decoder)
    scored = Baseline(where, None, 0, SHOTS, seconds=20.0).run(verifier)  # type: ignore[arg-type]
    asked = decoder.asked[1:]  # the first question compiles
    assert scored.shots == sum(asked) == pytest.approx(shots, abs=1)
    assert max(asked) <= PIECE
    assert per_shot * sum(asked) <= max(20.0 + per_shot, 8 * per_shot)


def test_without_a_time_there_is_one_question() -> None:
    decoder: Any = Slow(1.0)
    of = Shots(np.zeros((SHOTS, 3), np.uint8), np.zeros((SHOTS, 1), np.uint8))
    where: Any = SimpleNamespace(problem="x", read=lambda *_: of)
    verifier: Any = SimpleNamespace(decoder=lambda *_: decoder)
    assert Baseline(where, None, 0, SHOTS).run(verifier).shots == SHOTS  # type: ignore[arg-type]
    assert decoder.asked[1:] == [SHOTS]
