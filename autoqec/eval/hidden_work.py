"""What the CPU time of foreign code is worth, and what it says against the FLOPs that were counted, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence

from autoqec.decoders.gates import expected_flops
from autoqec.eval.metering import Metered, explained_s

CHARGED = 3.0
"""Times slower than the reference as it runs before CPU time is charged."""
TICK_S = 0.01
"""The coarser of the two clocks that the kernel has for CPU time."""
LEAST_S = 5 * TICK_S
"""CPU time, in all of the main test, that counts against a stage: a stage that is asked once or twice is timed with that clock's error."""
BUILD = 3.0
BUILD_S = 20.0
"""CPU time to the first shot: so many times the reference's, and so many seconds more. A model may compile a kernel."""


def charged_flops(spent: Sequence[Metered], flops: Sequence[int], is_twin: bool) -> int:
    """FLOPs per syndrome with the CPU time of each stage, where that is worth more than its count."""
    if len(spent) != len(flops):
        return 0
    figures = [max(each, worth(stage, is_twin)) for stage, each in zip(spent, flops, strict=True)]
    return expected_flops(figures, [stage.shots / spent[0].shots for stage in spent])


def worth(spent: Metered, is_twin: bool) -> int:
    """FLOPs that the reference does in a shot's CPU time, at a third of its speed."""
    if spent.cpu_s < LEAST_S:
        return 0
    seconds, shots = (spent.run_s, spent.run_shots) if is_twin else (spent.plain_s, spent.plain_shots)
    per_second = spent.reference_flops * shots / max(seconds, TICK_S)
    return int(spent.cpu_s / spent.shots * per_second / CHARGED)


def hidden(
    spent: Sequence[Metered], flops: Sequence[int], is_twin: bool, *, with_build: bool = True
) -> list[str]:
    """What the CPU time of foreign code says against its count. with_build: also that before the first shot."""
    if len(spent) != len(flops):
        return ["its CPU time in the main test is not known"]
    wrong = []
    for number, (stage, each) in enumerate(zip(spent, flops, strict=True), 1):
        if not stage.shots:
            continue
        per_shot, explained = stage.cpu_s / stage.shots, explained_s(stage, each, is_twin)
        if (per_shot - explained) * stage.shots > LEAST_S:
            of, reach = (f" of stage {number}", " that reaches it") if len(flops) > 1 else ("", "")
            wrong.append(
                f"{each} FLOPs{of} explain {1e6 * explained:.0f} us of CPU per shot{reach} at most, and it took "
                f"{1e6 * per_shot:.0f}: work is hidden from the count"
            )
    if with_build and spent[0].build_s > BUILD_S + BUILD * spent[0].reference_build_s:
        wrong.append(
            f"{spent[0].build_s:.0f} s of CPU before the first shot, where {spent[0].reference_build_s:.0f} are enough: "
            "work is hidden in the building of the model"
        )
    return wrong
