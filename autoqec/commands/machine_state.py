"""`autoqec machine-state`: what the next round can count on here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autoqec.commands.named import RunPath
from autoqec.commands.output import print_json, print_table


@click.command()
@click.option(
    "--run",
    "run_dir",
    type=RunPath(file_okay=False),
    help="A run: adds the timings of its rounds, its worktrees and what is left of its budgets.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(run_dir: Path | None, as_json: bool) -> None:
    """Show cores, memory, GPUs and disk as they are now, for planning a round. Writes nothing."""
    from autoqec.agents.machine_state import machine_state

    state = machine_state([]) if run_dir is None else _of_run(run_dir)
    if as_json:
        print_json(state)
        return
    print_table("Machine state", ("", ""), [(name, _shown(value)) for name, value in state.items()])


def _of_run(run_dir: Path) -> dict[str, Any]:
    from autoqec.agents.accounting import Caps, Ledger
    from autoqec.agents.machine_state import machine_state
    from autoqec.runs.history import rounds_of
    from autoqec.runs.plan import read_plan
    from autoqec.runs.run import Run
    from autoqec.runs.snapshot import Snapshots

    run = Run.open(run_dir)
    rows, files = rounds_of(run.history.rows()), run.files
    if not files.plan.is_file():  # a run made from Python, not by the loop
        return machine_state(rows, run=files, checked_out=run.checked_out())
    plan = read_plan(files)
    now = Snapshots(run, plan)
    caps = None if plan.budget_usd is None else Caps.for_budget(plan.budget_usd)
    return machine_state(
        rows,
        run=files,
        ledger=Ledger(files.llm_ledger, caps),
        rounds_left=max(plan.rounds - now.rounds_done(), 0),
        seconds_left=now.seconds_left(),
        checked_out=run.checked_out(),
    )


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_shown(item)}" for key, item in value.items())
    if isinstance(value, list):
        return "; ".join(_shown(item) for item in value) or "none"
    return "-" if value is None else str(value)
