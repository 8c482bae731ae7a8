"""What a caller may choose about a verification."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from autoqec.envs.environment import Environment
from autoqec.errors import InputError
from autoqec.eval.bundles import CHUNK, Kind
from autoqec.eval.composition import THRESHOLD
from autoqec.executors.protocol import Executor

CONFIRMATIONS = 20
CAP = 5
"""Times the floor, unless the caller says otherwise."""


@dataclass(frozen=True)
class VerifyOptions:
    """shots: the floor per p (default: `min_shots_verify`). cap: maximum shots at the reference p (default: 5 floors).
    seeds: labels within the holdout range (default: all of it). bundle: an archived bundle to evaluate again.
    confirmations: how many are planned for the run; each may spend 0.025 / confirmations of alpha. home: folder of secret, ledger and
    bundles. repo, base: repository of a round's commit, and the ref that experiment branches leave from.
    baseline_seconds: one core's time per p for each decoder beyond the plain backend. deadline_s: life of a worker.
    executor: where workers are; by default on this machine. progress: called with (what, tasks done, tasks there are).
    """

    shots: int | None = None
    cap: int | None = None
    seeds: tuple[int, int] | None = None
    bundle: str | None = None
    kind: Kind = "confirm"
    confirmations: int = CONFIRMATIONS
    home: Path | None = None
    repo: Path | None = None
    base: str = "HEAD"
    workers: int | None = None
    baseline_seconds: float = 20.0
    deadline_s: float = 3600.0
    threshold: float = THRESHOLD
    write: bool = True
    executor: Executor | None = None
    progress: Callable[[str, int, int], None] | None = None

    def floor(self, env: Environment) -> int:
        """Shots per p, in whole chunks."""
        wanted = env.spec.eval_protocol.min_shots_verify if self.shots is None else self.shots
        if wanted < 1:
            raise InputError(f"shots = {wanted}", where="--shots", hint="give at least 1")
        return -(-wanted // CHUNK) * CHUNK

    def ceiling(self, env: Environment) -> int:
        """Shots at the reference p at which the test gives up."""
        labels = self.labels(env)
        room = (labels[1] - labels[0] + 1) * CHUNK
        wanted = CAP * self.floor(env) if self.cap is None else -(-self.cap // CHUNK) * CHUNK
        if self.floor(env) > room:
            raise InputError(
                f"{self.floor(env)} shots need more labels than {list(labels)}, {CHUNK} shots each",
                where="--seeds",
                hint="give more labels, or fewer shots",
            )
        return max(self.floor(env), min(wanted, room))

    def labels(self, env: Environment) -> tuple[int, int]:
        holdout = env.spec.noise.seed_policy.holdout
        low, high = self.seeds or holdout
        if not holdout[0] <= low <= high <= holdout[1]:
            raise InputError(
                f"labels {low}:{high} are not inside the holdout range {holdout[0]}:{holdout[1]}",
                where="--seeds",
                hint="give first:last within seed_policy.holdout",
            )
        return low, high
