"""What a compose round's child is, read from one bundle on which baseline, parents and child were all evaluated."""

from __future__ import annotations

from collections.abc import Sequence

from autoqec.eval.schema import Composition

THRESHOLD = 0.8


def read_composition(
    child: float, parents: Sequence[float], names: Sequence[str], *, threshold: float = THRESHOLD
) -> Composition:
    """child, parents: LER of the baseline minus LER of each. A parent that loses does not lower the bar below zero."""
    bar = max(threshold * sum(parents), 0.0)
    reading = "composes" if child > bar else "partial" if child > 0 else "conflicts"
    return Composition(
        reading=reading,  # type: ignore[arg-type]
        threshold=threshold,
        child_delta=child,
        parent_deltas=list(parents),
        parents=list(names),
    )
