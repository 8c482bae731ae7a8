"""Run folders of any size, with the schemas and the verifier's books of real ones, and figures that a test chooses."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from written_reports import leave_report

from autoqec.decoders.gates import expected_flops
from autoqec.eval.bundles import CHUNK
from autoqec.eval.calibration import calibration_of
from autoqec.eval.calibration_schema import Calibration
from autoqec.eval.cascade_schema import CascadeCost, StageRow
from autoqec.eval.paired_row import paired_figures, paired_row
from autoqec.eval.pareto import admit, publish
from autoqec.eval.schema import Against, BaselineRow, CostCensus, Estimate, GuardResult
from autoqec.eval.tally import Confidences
from autoqec.layout import RunDir
from autoqec.runs.front import front_row, verification_of
from autoqec.runs.history import HistoryStore, filled
from autoqec.runs.plan import Plan, save_plan
from autoqec.runs.run_info import RunInfo
from autoqec.stats.confidence import ConfidenceMap, failure_chance
from autoqec.stats.intervals import upper_bound, wilson
from autoqec.stats.table import PairedTable

SHOTS = 40_000
P = (0.001, 0.005, 0.01)


def make_run_folder(folder: Path, *, rounds: int, planned: int | None = None, words: str = "try") -> Path:
    """rounds: every second one is verified, every fourth a cascade, every fifth failed; parents are by turns the baseline, the round before, and two rounds.
    words: with which hypotheses begin."""
    folder.mkdir(parents=True)
    files = RunDir(folder)
    info = RunInfo(
        run_id=folder.name,
        created_at="2026-01-01T00:00:00+00:00",
        env="surface_d3_depol",
        env_yaml_sha256="0" * 64,
        repository="/nowhere",
        base_commit="1" * 40,
        training_profile="dev",
    )
    files.about.write_text(info.model_dump_json())
    save_plan(files, Plan(rounds=planned or max(rounds, 1), proposer="optuna", memory_gb=1.0))
    publish(folder)
    for number in range(1, rounds + 1):
        add_round(folder, number, words=words)
    return folder


def add_round(folder: Path, number: int, *, words: str = "try") -> dict[str, Any]:
    """One more round, in history and, where it is verified, on the front."""
    files, store = RunDir(folder), HistoryStore(RunDir(folder))
    verified, failed = number % 2 == 0 and number % 5 != 0, number % 5 == 0
    config = {
        "type": "neural_bp",
        "output_mode": "soft_priors",
        "neural_bp": {"iterations": 4 + number % 40},
        "training": {"epochs": 1},
    }
    row: dict[str, Any] = {
        "round": number,
        "status": "train_error" if failed else "ok",
        "status_reason": "the loss became NaN" if failed else None,
        "hypothesis": f"{words} {number}",
        "round_attempt_id": f"{folder.name}-{number}",
        "commit_sha": f"{number + 4096:040x}",
        "branch": _branch(folder, number),
        **_parents(folder, number),
        "verdict": "VERIFIED" if verified else None if failed else "candidate",
        "dsl_config": config,
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": "2026-01-01T00:01:00+00:00",
        "train_wallclock_s": 30.0,
        "eval_wallclock_s": 5.0,
    }
    gain = 0.2 + 0.3 * math.sin(number) ** 2
    if not failed:
        row |= _measured(number, gain)
    if verified and number % 4 == 0:
        row["flops_per_syndrome"] = cascade_cost(number, 1).flops_per_syndrome
    round_files = files.round(number)
    round_files.path.mkdir()
    losses = (f"{step}\t{0.2 + math.exp(-step / 80) * (1 + 0.1 * math.sin(step))}" for step in range(1, 301))
    round_files.train_log.write_text("\n".join(losses) + "\n")
    report = None
    if verified:
        report = leave_report(
            round_files.path, delta=0.004, half=1e-3, flops=row["flops_per_syndrome"], params=row["n_params"],
            commit_sha=row["commit_sha"], branch=row["branch"], **_verified(number, gain),
            **({"cost": cascade_cost(number, row["n_params"])} if number % 4 == 0 else {}),
        )  # fmt: skip
        row["verification"] = verification_of(report, None)
    store.append(row)
    if report is not None:
        admit(folder, front_row(report, filled(row), None))
    return row


def _branch(folder: Path, number: int) -> str:
    return f"exp/{folder.name}/{number:02d}-x"


def _parents(folder: Path, number: int) -> dict[str, Any]:
    before = [n for n in (number - 1, number - 2) if n > 0 and n % 5]
    if number % 7 == 0 and len(before) == 2:
        both = [_branch(folder, n) for n in before]
        return {"fork_from": both, "fork_from_ordered": both, "compose_mode": "pure"}
    return {"fork_from": _branch(folder, before[0]) if number % 3 == 0 and before else "baseline"}


def _table(p: float, gain: float, shots: int = SHOTS) -> PairedTable:
    plain = int(shots * 20 * p * p) if p > 0.002 else 0
    b, c = int(plain * gain), int(plain * gain / 8)
    return PairedTable(shots, b, c, plain - b)


def _measured(number: int, gain: float) -> dict[str, Any]:
    found = {p: paired_figures(_table(p, gain), p=p, baseline="pymatching", level=0.95) for p in P}
    head = found[0.005]
    per_p = [
        {
            "p": p, "shots": SHOTS, "plain": "pymatching", "ler_plain": one.ler_baseline, "ler_predecoder": one.ler_candidate,
            "delta": one.delta, "delta_low": one.delta_ci[0], "delta_high": one.delta_ci[1], "ratio": one.ratio,
            "only_plain_failed": one.b, "only_predecoder_failed": one.c, "both_failed": one.both,
            "us_per_shot_plain": 0.4, "us_per_shot_predecoder": 20.0 + number,
        }
        for p, one in found.items()
    ]  # fmt: skip
    return {
        "ler_plain_classical": head.ler_baseline,
        "ler_predecoder": head.ler_candidate,
        "delta_ler": head.delta,
        "delta_ler_ci_low": head.delta_ci[0],
        "delta_ler_ci_high": head.delta_ci[1],
        "flops_per_syndrome": int(1e4 * 1.07 ** (number % 90)),
        "n_params": 20 + number,
        "reference_p": 0.005,
        "interval_level": 0.95,
        "per_p": per_p,
        "baselines": per_p[1:2],
        "train_batches_total": 300,
    }


def _verified(number: int, gain: float) -> dict[str, Any]:
    head = paired_figures(_table(0.005, gain), p=0.005, baseline="pymatching", level=0.95)
    best = Against(
        **paired_figures(
            _table(0.005, gain / 4), p=0.005, baseline="belief_matching", level=0.95
        ).model_dump(),
        us_per_shot=8.0,
    )
    start = Against(
        **paired_figures(_table(0.005, gain / 8), p=0.005, baseline="untrained", level=0.95).model_dump()
    )
    estimate = Estimate(
        **head.model_dump(), bundle=f"estimate-{number}", interval_level=0.95, strongest="belief_matching",
        delta_vs_strongest=best.delta, delta_vs_strongest_ci=best.delta_ci, shots_of_strongest=SHOTS, classical=[best],
        untrained=start, us_per_shot=20.0 + number,
    )  # fmt: skip
    rows = [
        paired_row(_table(p, gain), p=p, baseline="pymatching", level=0.95, us_model=20.0, us_backend=1.0)
        for p in P
    ]
    baselines = [
        BaselineRow(
            p=p,
            name="belief_matching",
            shots=SHOTS,
            ler=16 * p * p,
            ler_ci=wilson(int(SHOTS * 16 * p * p), SHOTS),
        )
        for p in P
    ]
    return {
        "env_name": "surface_d3_depol",
        "reference_p": 0.005,
        "baseline": "pymatching",
        "shots": CHUNK,
        "per_p": rows,
        "baselines": baselines,
        "estimate": estimate,
        "calibration": [_confidence(number)],
        "strongest_baseline": "belief_matching",
        "guards": [
            GuardResult(
                name="batch_independence",
                ok=True,
                severity="breaks",
                number=0.0,
                text="shots alone and in batches agree",
            )
        ],
        "seconds": 60.0,
        "notes": "gain",
    }


def cascade_cost(number: int, params: int) -> CostCensus:
    """Of three stages. At the smallest p no shot reaches the last one."""
    flops, rows = [20_000, 400_000, 9_000_000], []
    for p in P:
        reached = [SHOTS, int(SHOTS * 4e3 / number * p**2), int(SHOTS * 10 * p**2) if p > 0.002 else 0]
        shares = [count / SHOTS for count in reached]
        upper = [1.0, *(upper_bound(count, SHOTS) for count in reached[1:])]
        rows.append(
            StageRow(
                p=p,
                shots=SHOTS,
                shares=shares,
                shares_upper=upper,
                flops_per_syndrome=expected_flops(flops, shares),
                flops_upper=expected_flops(flops, upper),
            )
        )
    stages = CascadeCost(
        stage_flops=flops, stage_errors=[0.0, 0.0, 0.0], worst_flops=sum(flops), per_p=rows,
        decoder_us_p50=30.0, decoder_us_p99=400.0, decoder_us_p999=900.0,
    )  # fmt: skip
    return CostCensus(
        flops_per_syndrome=rows[1].flops_per_syndrome, n_params=params, n_bytes=4 * params, cascade=stages
    )


def _confidence(number: int) -> Calibration:
    """Log-odds that are a little too sure, of shots without physics."""
    rng = np.random.default_rng(number)
    log_odds = rng.exponential(6.0, 4000)
    failed = rng.random(4000) < failure_chance(0.8 * log_odds)
    fitted = ConfidenceMap(0.8, 0.0)
    return calibration_of(0.005, "estimate", Confidences(log_odds, failed), fitted, 0.95)


def as_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
