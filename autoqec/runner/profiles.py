"""Budgets of a round. `prod` honours the environment's `min_shots_*`; `dev` takes the stated share of them; `campaign` is for hours on one or
several GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from autoqec.envs.schema import EvalProtocol


@dataclass(frozen=True)
class Profile:
    """train_share, val_share: of min_shots_train (per epoch) and min_shots_val (per p).

    train_seconds: training stops there, whatever the epochs. hard_shots: size of the hard-shot buffer of `backend_gap`, and
    how many shots `failures` looks through to fill its own.
    select_shots: maximum shots at the reference p on which the best of the training states is chosen. slow_shots: at most so many of
    the validation shots go to baselines that take milliseconds a shot. least_val_shots: for each p, whatever the environment asks for.
    wall_clock_s: default of the time after which a round is killed.
    """

    name: str
    train_share: float
    val_share: float
    train_seconds: float
    hard_shots: int
    select_shots: int
    slow_shots: int
    least_val_shots: int = 1
    wall_clock_s: float = 1800.0

    def train_shots(self, protocol: EvalProtocol) -> int:
        return max(1, int(self.train_share * protocol.min_shots_train))

    def val_shots(self, protocol: EvalProtocol) -> int:
        return max(self.least_val_shots, int(self.val_share * protocol.min_shots_val))

    def selection_shots(self, protocol: EvalProtocol) -> int:
        """Never more than the state that is kept will be validated on."""
        return min(self.select_shots, self.val_shots(protocol))


PROFILES = {
    "dev": Profile(
        "dev",
        train_share=0.1,
        val_share=0.2,
        train_seconds=480.0,
        hard_shots=60_000,
        select_shots=16_384,
        slow_shots=2_000,
    ),
    "prod": Profile(
        "prod",
        train_share=1.0,
        val_share=1.0,
        train_seconds=3600.0,
        hard_shots=400_000,
        select_shots=65_536,
        slow_shots=20_000,
    ),
    "campaign": Profile(
        "campaign",
        train_share=10.0,
        val_share=1.0,
        train_seconds=6 * 3600.0,
        hard_shots=1_000_000,
        select_shots=262_144,
        slow_shots=20_000,
        least_val_shots=1_000_000,
        wall_clock_s=24 * 3600.0,
    ),
}
