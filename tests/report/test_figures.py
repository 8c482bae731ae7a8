"""Figures of runs: the tables behind them, and what is drawn."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from run_folders import make_run_folder

from autoqec.commands import main
from autoqec.commands.plot import command
from autoqec.eval.schema import VerifyReport
from autoqec.report.diagnose.loss_curve import LossCurve
from autoqec.report.figures import calibration, forest, latency, ler, loss, pareto, stages
from autoqec.report.figures.kinds import KINDS
from autoqec.report.figures.style import log_axis, new_figure
from autoqec.report.run_view import RunView, changes, view_run
from autoqec.stats.confidence import SHARES

pytestmark = pytest.mark.usefixtures("own_home")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, own_home: None) -> Path:
    return make_run_folder(tmp_path_factory.mktemp("figures") / "runs" / "look", rounds=8)


@pytest.fixture(scope="module")
def view(folder: Path) -> RunView:
    return view_run(folder)


def _plot(*arguments: object) -> Any:
    return CliRunner().invoke(main, ["plot", *map(str, arguments)])


def test_the_front_has_verified_rounds_candidates_and_classical_decoders(view: RunView) -> None:
    rows: list[Any] = list(pareto.table([view]).rows)
    kinds = {row["name"]: row["kind"] for row in rows}
    assert kinds["round 2"] in (pareto.FRONT, pareto.BEHIND)
    assert kinds["round 1"] == pareto.CANDIDATE
    assert kinds["belief_matching"] == pareto.CLASSICAL
    members = {row.round for row in view.record.archive.front}
    assert {row["round"] for row in rows if row["kind"] == pareto.FRONT} == members
    assert all(row["low"] <= row["gain"] <= row["high"] for row in rows if row["kind"] == pareto.FRONT)


def test_a_round_whose_report_is_not_the_verifiers_is_not_drawn_as_verified(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "another machine"))
    kinds = {row["kind"] for row in pareto.table([view_run(copy)]).rows}
    assert pareto.FRONT not in kinds
    assert pareto.CLASSICAL not in kinds


def test_paired_differences_name_what_they_are_against(view: RunView) -> None:
    rows: list[Any] = [row for row in forest.table([view]).rows if row["round"] == 2]
    assert {row["role"] for row in rows} == {forest.PLAIN, forest.BEST, forest.UNTRAINED}
    assert {row["source"] for row in rows} == {"estimate"}
    assert {row["verdict"] for row in rows} == {"VERIFIED"}


def test_a_point_without_a_failure_is_an_upper_limit(view: RunView) -> None:
    rows: list[Any] = [row for row in ler.table([view]).rows if row["decoder"].startswith("round ")]
    limits = [row for row in rows if row["is_limit"]]
    assert limits
    assert all(row["ler"] == 0 and row["high"] > 0 for row in limits)
    assert any(not row["is_limit"] for row in rows)


def test_lambda_is_the_ratio_of_two_distances(view: RunView) -> None:
    data = ler.table([view])
    far = [
        {**row, "distance": 5, "ler": row["ler"] / 4, "low": row["low"] / 4, "high": row["high"] / 4}
        for row in data.rows
    ]
    both = ler.FigureTable(data.kind, data.title, data.about, data.columns, [*data.rows, *far])
    rows: list[Any] = [row for row in ler.lambdas(both).rows if row["lambda"] is not None]
    assert {row["decoder"] for row in rows} == {"pymatching", "belief_matching"}
    assert all(row["lambda"] == pytest.approx(4.0) for row in rows)
    assert len(ler.draw(both).axes) == 2
    assert len(ler.draw(data).axes) == 1


def test_long_trainings_are_thinned_to_means() -> None:
    curve = LossCurve(tuple(range(1, 1001)), (1.0,) * 500 + (3.0,) * 500)
    points = loss.thinned(curve, most=10)
    assert [step for step, _ in points] == list(range(100, 1001, 100))
    assert [value for _, value in points] == [1.0] * 5 + [3.0] * 5
    assert loss.thinned(LossCurve((1, 2), (1.0, float("inf")))) == [(1, 1.0)]


def test_times_are_of_rounds_and_classical_decoders(view: RunView) -> None:
    rows = {row["name"]: row for row in latency.table([view]).rows}
    assert rows["round 2"]["source"] == "verification"
    assert rows["round 1"]["source"] == "validation"
    assert rows["belief_matching"]["kind"] == latency.CLASSICAL


def test_stages_of_a_cascade_have_shares_bounds_and_costs(view: RunView) -> None:
    rows: list[Any] = list(stages.table([view]).rows)
    assert {row["name"] for row in rows} == {"round 4", "round 8"}
    last = [row for row in rows if row["round"] == 4 and row["stage"] == 3]
    assert [(row["p"], row["share"]) for row in last] == [(0.001, 0.0), (0.005, 0.00025), (0.01, 0.001)]
    assert all(row["share"] < row["upper"] < 0.002 and row["source"] == "test" for row in last)
    assert all(20_000 < row["flops"] < row["flops_upper"] < row["worst"] == 9_420_000 for row in rows)
    shares, costs = stages.draw(stages.table([view])).axes
    assert "round 4, stage 2" in [text.get_text() for text in shares.get_legend().get_texts()]
    assert costs.get_ylim()[1] > 9_420_000


def test_stages_of_a_cascade_that_nobody_verified_are_its_rounds_own(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / folder.name
    shutil.copytree(folder, copy)
    row = {"p": 0.005, "shots": 1000, "shares": [1.0, 0.25], "flops_per_syndrome": 350}
    told = {"stage_flops": [100, 1000], "worst_flops": 1100, "thresholds": [2.0], "per_p": [row]}
    stage = {"type": "neural_bp", "neural_bp": {"iterations": 2}}
    config = {"type": "cascade", "output_mode": "soft_priors", "stages": [stage, {**stage, "share": 0.25}]}
    history = [json.loads(line) for line in (copy / "history.jsonl").read_text().splitlines()]
    history[0]["dsl_config"] = config
    (copy / "history.jsonl").write_text("".join(json.dumps(each) + "\n" for each in history))
    for cascade, shown in ((told, {1: 1.0, 2: 0.25}), ({**told, "per_p": [{**row, "p": 0.0}]}, {}), ({}, {})):
        (copy / "round_1" / "metrics.json").write_text(json.dumps({"cascade": cascade}))
        rows: list[Any] = [row for row in stages.table([view_run(copy)]).rows if row["round"] == 1]
        assert {row["stage"]: row["share"] for row in rows} == shown
        assert all(row["upper"] is None and row["source"] == "validation" for row in rows)


def test_a_change_is_told_against_its_parent(view: RunView) -> None:
    one = view.round(3)
    assert one is not None
    told = {(option, before, after) for _, option, before, after in changes(view, one)}
    assert ("neural_bp.iterations", "6", "7") in told
    first = view.round(1)
    assert first is not None
    assert changes(view, first) == []


def test_every_axis_spans_a_decade() -> None:
    for values in ([5.0], [4.0, 5.0], [1e-6, 1.0], []):
        axes = new_figure().subplots()
        log_axis(axes, "x", values)
        low, high = axes.get_xlim()
        assert high >= 10 * low * 0.999
        assert all(low < value < high for value in values)


def test_names_do_not_cover_each_other(view: RunView) -> None:
    figure = pareto.draw(pareto.table([view]))
    figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in figure.axes[0].texts]
    assert len(boxes) >= 3
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_with_its_table(folder: Path, tmp_path: Path, kind: str) -> None:
    ending = {"pareto": "pdf", "ler": "svg"}.get(kind, "png")
    out, table = tmp_path / f"f.{ending}", tmp_path / "f.csv"
    done = _plot(kind, folder, "--out", out, "--csv", table)
    assert done.exit_code == 0, done.output
    data = out.read_bytes()
    assert data.startswith({"pdf": b"%PDF", "svg": b"<?xml", "png": b"\x89PNG"}[ending])
    if ending == "pdf":
        assert b"/FontFile2" in data  # embedded
    if ending == "svg":
        assert b"<text" not in data  # outlines
    rows = list(csv.reader(io.StringIO(table.read_text())))
    assert len(rows) > 1
    assert all(len(row) == len(rows[0]) for row in rows)
    assert "surface_d3_depol" in KINDS[kind].table([view_run(folder)]).title


def test_the_command_has_every_figure() -> None:
    assert set(command.commands) == set(KINDS)


def test_the_least_sure_shots_fail_most_and_their_table_says_so(view: RunView) -> None:
    rows: list[Any] = [row for row in calibration.table([view]).rows if row["name"] == "round 2"]
    bins = [row for row in rows if row["part"] == calibration.CLAIMS]
    report = next(report for one, report in view.verified if one.number == 2)
    assert sum(row["failures"] for row in bins) == report.calibration[0].failures
    assert sum(row["expected"] for row in bins) == pytest.approx(report.calibration[0].expected)
    assert bins[0]["ler"] > 3 * bins[-1]["high"]
    kept = [row for row in rows if row["part"] == calibration.KEPT]
    assert [row["discarded"] for row in kept] == [0.0, *SHARES]
    assert kept[-1]["ler"] < kept[0]["ler"]
    assert kept[-1]["factor"] == pytest.approx(kept[0]["ler"] / kept[-1]["ler"])


def test_calibration_of_a_round_is_that_of_its_report(folder: Path, tmp_path: Path) -> None:
    """Nothing is decoded: the checkpoints of this run are not networks."""
    table = tmp_path / "f.csv"
    done = _plot("calibration", folder / "round_2", "--out", tmp_path / "f.svg", "--csv", table)
    assert done.exit_code == 0, done.output
    rows = list(csv.DictReader(io.StringIO(table.read_text())))
    assert {(row["round"], row["shots of"]) for row in rows} == {("2", "estimate")}
    done = _plot("calibration", folder, folder / "round_2", "--out", tmp_path / "g.svg")
    assert done.exit_code == 2
    assert "runs and rounds" in done.output
    done = _plot("calibration", folder / "round_2", "--shots", 100, "--out", tmp_path / "g.svg")
    assert done.exit_code == 2
    assert not (tmp_path / "g.svg").exists()


def test_what_cannot_be_plotted_is_said(tmp_path: Path) -> None:
    empty = make_run_folder(tmp_path / "runs" / "empty", rounds=0)
    for arguments, message in (
        (["pareto", empty, "--out", tmp_path / "f.png"], "nothing to plot: no round has a gain"),
        (["pareto", empty, "--out", tmp_path / "f.xyz"], "ends in .png"),
        (["loss", tmp_path / "nowhere", "--out", tmp_path / "f.png"], "not a folder"),
        (["calibration", empty, "--out", tmp_path / "f.png"], "nothing to plot: no verified round"),
    ):
        done = _plot(*arguments)
        assert done.exit_code == 2
        assert message in done.output
    assert not (tmp_path / "f.png").exists()


def test_text_in_a_table_is_no_formula() -> None:
    table = ler.FigureTable("x", "t", "a", {"a": "a"}, [{"a": "=1+1"}, {"a": -1.5}])
    assert table.to_csv().splitlines() == ["a", "'=1+1", "-1.5"]


def test_reports_of_the_fixture_are_real_ones(view: RunView) -> None:
    assert view.verified
    assert all(isinstance(report, VerifyReport) for _, report in view.verified)
