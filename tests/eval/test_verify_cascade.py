"""Verification of a cascade: its gates are the verifier's, and so are the shares and the costs that it reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autoqec.decoders.backends import make_backend
from autoqec.decoders.checkpoint import load
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.decoders.stage_cost import stage_flops
from autoqec.envs.environment import Environment
from autoqec.eval.bundles import CHUNK
from autoqec.eval.markdown import render
from autoqec.eval.options import VerifyOptions
from autoqec.eval.schema import VerifyReport
from autoqec.eval.verify import verify
from autoqec.finds.predecoder import load_predecoder
from autoqec.layout import RoundDir
from autoqec.report.figures import stages
from autoqec.report.run_view import view_run
from autoqec.stats.intervals import upper_bound

pytestmark = pytest.mark.verifier

P = 0.01
DSL: dict[str, Any] = {
    "type": "cascade",
    "output_mode": "soft_priors",
    "stages": [
        {"type": "neural_bp", "neural_bp": {"iterations": 2}},
        {"type": "neural_bp", "neural_bp": {"iterations": 8}, "share": 0.1},
    ],
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def judged(
    make_round: Callable[..., Path], env: Environment, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, VerifyReport]:
    """Untrained stages behind the gate that they start with; it claims what its own round would measure."""
    folder = make_round(tmp_path_factory.mktemp("cascade") / "round_1", DSL)
    options = VerifyOptions(
        shots=CHUNK, cap=2 * CHUNK, home=home / "verifier", baseline_seconds=5.0, workers=1
    )
    return folder, verify(folder, env, options)


def test_a_cascade_is_verified_stage_by_stage(judged: tuple[Path, VerifyReport]) -> None:
    _, report = judged
    assert report.verdict == "VERIFIED", report.notes
    assert [guard.name for guard in report.guards if guard.ok is False] == []
    found = report.cost.cascade
    assert [row.p for row in found.per_p] == [0.008, P]
    low, head = found.per_p
    assert head.shots == report.shots
    assert low.shares[1] < head.shares[1] < 0.2
    assert head.shares_upper[1] == upper_bound(round(head.shares[1] * head.shots), head.shots)
    first, second = found.stage_flops
    assert found.worst_flops == first + second
    assert report.cost.flops_per_syndrome == pytest.approx(first + head.shares[1] * second, abs=1)
    assert head.flops_upper == pytest.approx(first + head.shares_upper[1] * second, abs=1)
    assert 0 < found.decoder_us_p50 <= found.decoder_us_p99 <= found.decoder_us_p999
    assert "reach the later stages" in render(report)
    assert report.ablation.attribution == "algorithm"
    assert report.ablation.ler_untrained == pytest.approx(report.ablation.ler_real)


def test_it_measures_what_the_decoder_in_use_does(
    judged: tuple[Path, VerifyReport], env: Environment
) -> None:
    folder, report = judged
    problem = env.problem(P)
    _, module = load(folder / "checkpoint.pt", problem)
    assert stage_flops(module, problem) == tuple(report.cost.cascade.stage_flops)
    shots = env.sampler(P).sample(4000, 5)
    found = PredecoderPipeline(module, make_backend(problem, "mwpm")).staged(shots.detectors)
    share = found.reached(2)[1] / 4000
    assert share == pytest.approx(report.cost.cascade.per_p[1].shares[1], abs=0.02)
    used = load_predecoder(folder, env=env, p=P)
    assert (
        used.decode(shots.detectors, bit_packed_shots=True, bit_packed_predictions=True) == found.predictions
    ).all()


def test_its_shares_are_those_that_the_report_page_shows(
    judged: tuple[Path, VerifyReport], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, report = judged
    monkeypatch.setenv("AUTOQEC_HOME", str(home))
    RoundDir(folder).metrics.write_text('{"status": "ok"}')
    data = stages.table([view_run(folder.parent)])
    rows: list[Any] = [row for row in data.rows if row["p"] == P]
    head = next(row for row in report.cost.cascade.per_p if row.p == P)
    assert [row["stage"] for row in rows] == [1, 2]
    assert [row["share"] for row in rows] == head.shares
    assert rows[1]["share"] < rows[1]["upper"] == head.shares_upper[1]
    assert {(row["flops"], row["worst"]) for row in rows} == {
        (head.flops_per_syndrome, report.cost.cascade.worst_flops)
    }
