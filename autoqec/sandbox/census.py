"""What a config with code costs, counted in the sandbox before anything is trained."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from autoqec.decoders.cost_basis import typical_syndromes
from autoqec.envs.problem import DecodingProblem
from autoqec.sandbox.kinds import strongest
from autoqec.sandbox.worker import ModelWorker

_COUNTING_S = 60.0
_COUNTED = 4


def confined_flops(
    dsl: Mapping[str, Any], problem: DecodingProblem, *, output_mode: str, wants_edges: bool
) -> int | None:
    """FLOPs per syndrome of an untrained model; None where no sandbox works. It starts a process, which takes seconds.

    Raises:
        Refused, WorkerDied: the code does not run.
    """
    sandbox = strongest()
    if not sandbox.confines:
        return None
    with ModelWorker(sandbox, request_s=_COUNTING_S) as worker:
        model = worker.hold_model(
            worker.hold_problem(problem), problem, dsl, None, output_mode=output_mode, wants_edges=wants_edges
        )
        return worker.flops(model, typical_syndromes(problem, _COUNTED)).mean
