"""The 2x2 table of two decoders on the same shots."""

from __future__ import annotations

from dataclasses import dataclass

from autoqec.errors import InputError


@dataclass(frozen=True)
class PairedTable:
    """Counts over `shots` shots that the baseline and the candidate both decoded.

    b: the baseline failed and the candidate did not (a win of the candidate); c: the reverse; both: both
    failed. Tables of disjoint shots add up.
    """

    shots: int
    b: int
    c: int
    both: int = 0

    def __post_init__(self) -> None:
        if min(self.b, self.c, self.both) < 0 or self.b + self.c + self.both > self.shots:
            raise InputError(
                f"b = {self.b}, c = {self.c}, both = {self.both} are not counts of {self.shots} shots",
                hint="each shot is in one cell at most",
            )

    def __add__(self, other: PairedTable) -> PairedTable:
        return PairedTable(
            self.shots + other.shots, self.b + other.b, self.c + other.c, self.both + other.both
        )

    @property
    def discordant(self) -> int:
        return self.b + self.c

    @property
    def baseline_failures(self) -> int:
        return self.both + self.b

    @property
    def candidate_failures(self) -> int:
        return self.both + self.c

    @property
    def delta(self) -> float:
        """Baseline LER minus candidate LER: a gain is positive."""
        return (self.b - self.c) / self.shots if self.shots else 0.0
