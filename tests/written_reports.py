"""Reports as the verifier leaves them, in the round's folder and in its ledger, with figures that a test chooses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from autoqec.envs.load import load_env
from autoqec.eval.bundles import CHUNK, open_bundle
from autoqec.eval.family import lone_family, run_family
from autoqec.eval.ledger import Ledger
from autoqec.eval.report import as_json
from autoqec.eval.schema import CostCensus, VerifyReport
from autoqec.io.hashing import sha256_bytes, sha256_file
from autoqec.layout import RoundDir, VerifierDir


def leave_report(
    round_dir: Path, *, delta: float, half: float, flops: int, params: int, **facts: Any
) -> VerifyReport:
    """The report of a round with a gain of delta, of half the interval's width; a checkpoint is made where there is none."""
    files = RoundDir(round_dir)
    if not files.checkpoint.exists():
        files.path.mkdir(parents=True, exist_ok=True)
        files.checkpoint.write_bytes(f"weights of {round_dir}".encode())
    given: dict[str, Any] = {
        "verdict": "VERIFIED",
        "ler_holdout": 0.02 - delta,
        "ler_holdout_ci": (0.0, 0.02),
        "delta_ler_holdout": delta,
        "ler_shuffled": 0.02,
        "ablation_sanity_ok": True,
        "holdout_seeds_used": [9000],
        "seed_leakage_check_ok": True,
        "notes": "",
        "delta_vs_baseline_holdout": delta,
        "delta_ler_ci_low": delta - half,
        "delta_ler_ci_high": delta + half,
        "paired_eval_bundle_id": f"bundle-{files.path.name}",
        "checkpoint_sha256": sha256_file(files.checkpoint),
        "cost": CostCensus(flops_per_syndrome=flops, n_params=params, n_bytes=4 * params),
    }
    report = VerifyReport(**{**given, **facts})
    text = as_json(report)
    files.report.write_text(text)
    enter_report(VerifierDir(), files.path, text, str(report.checkpoint_sha256))
    return report


def enter_report(home: VerifierDir, folder: Path, text: str, checkpoint: str, **changes: Any) -> None:
    """The rows of a verification in the ledger, and its archived shots. changes: of the last row."""
    home.path.mkdir(parents=True, exist_ok=True)
    ledger, family = Ledger(home), run_family(folder) or lone_family("", {}, None)
    opening = ledger.open(family, checkpoint, kind="confirm", confirmations=99).opening
    facts = {"checkpoint": checkpoint, "family": family, "opening": opening, "bundle": _sealed(home)}
    ledger.add("judged", report=sha256_bytes(text.encode()), **{**facts, **changes})


def _sealed(home: VerifierDir) -> str:
    """An archived bundle."""
    env = load_env("surface_d3_depol")
    p = env.spec.noise.p[0]
    bundle = open_bundle(env, "confirm", home.bundles, (9000, 9001), [], "a name")
    bundle.add(p, [env.sampler(p).sample(CHUNK, 1)])
    return bundle.seal(home.bundles)
