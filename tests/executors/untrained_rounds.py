"""A whole run of three rounds side by side that train nothing, of which the first is a candidate: `python untrained_rounds.py ENV FOLDER EXECUTOR`."""

from __future__ import annotations

import sys
from pathlib import Path

from autoqec.api.planning import Asked
from autoqec.executors.registry import opened
from autoqec.runs.parallel_loop import ParallelLoop
from autoqec.runs.proposer_adapters import OfflineAdapter
from autoqec.runs.training_worker import training
from autoqec.search.proposal import Proposal, RoundContext

RUN_ID, ROUNDS = "untrained", 3


class Untrained:
    name = "templates"

    def propose(self, context: RoundContext) -> Proposal:
        iterations = {1: 6, 2: 1, 3: 2}[context.round]
        config = {
            "type": "neural_bp",
            "output_mode": "soft_priors",
            "neural_bp": {"iterations": iterations},
            "training": {"epochs": 0},
        }
        return Proposal(hypothesis=f"{iterations} iterations", dsl_config=config)


def main(env: str, folder: str, executor: str) -> None:
    asked = Asked(
        env=env,
        folder=Path(folder),
        run_id=RUN_ID,
        rounds=ROUNDS,
        parallel=ROUNDS,
        proposer=Untrained.name,
        own_repository=True,
        event=print,
    )
    with opened(executor) as machines:
        program = training(*machines.share(ROUNDS))
        ParallelLoop(asked.started(), OfflineAdapter(Untrained()), machines, program, event=print).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
