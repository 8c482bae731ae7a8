"""Failure bits of every decoder on the shots of a bundle, so that any two can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from autoqec.envs.problem import U8
from autoqec.eval.tasks import Scored
from autoqec.stats.table import PairedTable


class Confidences(NamedTuple):
    """[shots] log-odds that a prediction is right, and whether it is wrong."""

    log_odds: npt.NDArray[np.floating[Any]]
    failed: npt.NDArray[np.bool_]


@dataclass
class Tally:
    """By (p, decoder): what was scored, in order. All shots of a decoder are the first ones of the bundle."""

    parts: dict[tuple[float, str], list[Scored]] = field(default_factory=dict)

    def add(self, p: float, name: str, scored: Scored) -> None:
        self.parts.setdefault((p, name), []).append(scored)

    def has(self, p: float, name: str) -> bool:
        return (p, name) in self.parts

    def shots(self, p: float, name: str) -> int:
        return sum(part.shots for part in self.parts.get((p, name), []))

    def failed(self, p: float, name: str, shots: int | None = None) -> U8:
        """Packed failure bits of the first `shots` shots (all, by default)."""
        ordered = sorted(self.parts[p, name], key=lambda part: part.start)
        bits = np.concatenate([part.bits for part in ordered])
        if shots is None:
            return bits
        cut = bits[: (shots + 7) // 8].copy()
        if shots % 8:
            cut[-1] &= (1 << shots % 8) - 1
        return cut

    def failures(self, p: float, name: str, shots: int | None = None) -> int:
        return int(np.bitwise_count(self.failed(p, name, shots)).sum())

    def table(
        self, p: float, baseline: str, candidate: str, shots: int | None = None, *, start: int = 0
    ) -> PairedTable:
        """The two on their common shots, or on the first `shots` of them; from `start` on, a multiple of 8."""
        common = min(self.shots(p, baseline), self.shots(p, candidate))
        common = common if shots is None else min(common, shots)
        first, second = (self.failed(p, name, common)[start // 8 :] for name in (baseline, candidate))
        both = int(np.bitwise_count(first & second).sum())
        b = int(np.bitwise_count(first).sum()) - both
        c = int(np.bitwise_count(second).sum()) - both
        return PairedTable(common - start, b, c, both)

    def confidences(self, p: float, name: str) -> Confidences | None:
        """Of the shots that were decoded with log-odds; None where none was."""
        parts = [
            part for part in self.parts.get((p, name), []) if part.shots and len(part.log_odds) == part.shots
        ]
        if not parts:
            return None
        failed = [
            np.unpackbits(part.bits, count=part.shots, bitorder="little").astype(np.bool_) for part in parts
        ]
        return Confidences(np.concatenate([part.log_odds for part in parts]), np.concatenate(failed))

    def reached(self, p: float, name: str) -> tuple[int, ...]:
        """How many shots each stage of a cascade was asked about; empty for a model that is none."""
        parts = [part.answered for part in self.parts.get((p, name), []) if part.answered]
        answered = np.array(parts, dtype=np.int64).sum(axis=0) if parts else np.zeros(0, np.int64)
        return tuple(int(count) for count in answered[::-1].cumsum()[::-1])

    def seconds(self, p: float, name: str) -> tuple[float, float]:
        """In the decoder, and waiting for the model."""
        parts = self.parts[p, name]
        return sum(part.seconds for part in parts), sum(part.model_seconds for part in parts)

    def invalid(self, name: str) -> tuple[int, list[str]]:
        """Shots without a valid answer, over all p, and the reasons."""
        parts = [part for (_, theirs), found in self.parts.items() if theirs == name for part in found]
        reasons = dict.fromkeys(text for part in parts for text in part.complaints)
        return sum(part.invalid for part in parts), list(reasons)
