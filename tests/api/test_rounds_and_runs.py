"""Train, verify, run and read: as a script would, end to end."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import autoqec
from autoqec.commands import main
from autoqec.errors import InputError

CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
    "training": {"epochs": 0},
}


@pytest.mark.verifier
def test_a_round_from_config_to_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))
    found = autoqec.train("surface_d3_depol", CONFIG, tmp_path / "round_1")
    assert found.metrics.status == "ok"
    assert found.predecoder().env.spec.name == "surface_d3_depol"
    report = autoqec.verify(found, shots=10_000, cap=10_000, baseline_seconds=2.0, workers=1)
    assert report.verdict in ("VERIFIED", "SUSPICIOUS")
    assert (tmp_path / "round_1" / "verification_report.json").is_file()


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (["--proposer", "oracle"], {"proposer": "oracle"}),
        (["--no-llm", "--proposer", "optuna"], {"no_llm": True, "proposer": "optuna"}),
        (["--resume", "20200101-000000"], {"resume": True, "run_id": "20200101-000000"}),
        (["--run-id", "../x"], {"run_id": "../x"}),
    ],
)
def test_a_run_is_refused_with_the_words_of_the_command(
    words: list[str], options: dict, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError) as refused:
        autoqec.run("surface_d3_depol", **options)
    shown = CliRunner().invoke(main, ["run", "surface_d3_depol", *words])
    assert shown.exit_code == 2
    assert refused.value.what in shown.stderr.replace("\n  ", " ")
    place = refused.value.where
    assert (f"--{place.replace('_', '-')}" if place in options else place) in shown.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_rounds_or_id_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for options in ({"rounds": 0}, {"budget_usd": -1.0}, {"resume": True}, {"round_minutes": 0.0}):
        with pytest.raises(InputError):
            autoqec.run("surface_d3_depol", proposer="optuna", **options)
    assert list(tmp_path.iterdir()) == []


def test_an_archived_bundle_takes_no_further_shots(tmp_path: Path) -> None:
    for options in ({"shots": 5}, {"cap": 5}, {"seeds": 3}, {"kind": "dev"}):
        with pytest.raises(InputError, match="an archived bundle has its shots") as refused:
            autoqec.verify(tmp_path, "surface_d3_depol", bundle="0" * 64, **options)
        assert refused.value.where in options


def test_a_round_is_verified_by_the_id_of_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "runs" / "20260101-000000" / "round_1").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="runs/20260101-000000/round_1/checkpoint"):
        autoqec.verify("20260101-000000/round_1", "surface_d3_depol")


@pytest.mark.runs
def test_a_run_is_read_as_data_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    events: list[str] = []
    record = autoqec.run(
        "surface_d3_depol",
        rounds=1,
        proposer="optuna",
        run_id="mine",
        verify_shots=10_000,
        event=lambda what, _: events.append(what),
    )
    assert "recorded" in events
    again = autoqec.read_run("mine")
    assert again.path == record.path == autoqec.read_run().path
    assert autoqec.load_predecoder("mine/round_1").sha256 == again.predecoder(1).sha256
    assert list(again.rounds["round"]) == [1]
    assert len(again.fork_graph) == 1
    # A verified round whose gain is gone on the shots of its estimate stays off the front.
    assert len(again.front) <= (again.rounds["verdict"] == "VERIFIED").sum()
    assert again.predecoder(1).env.spec.name == "surface_d3_depol"
    assert list(
        (tmp_path / ".autoqec" / "experiments").iterdir()
    )  # not in the checkout that the package runs from
    assert autoqec.run("surface_d3_depol", rounds=1, run_id="mine", proposer="optuna").rounds.equals(
        again.rounds
    )
    assert record.stopped is None
    assert record.results()["rounds"] == record.plan.rounds == 1
    with pytest.raises(InputError):
        autoqec.run("surface_d3_depol", run_id="mine", proposer="optuna", resume=False)
    with pytest.raises(autoqec.AutoQECError, match="was started with optuna"):
        autoqec.run("surface_d3_depol", run_id="mine", proposer="templates")
