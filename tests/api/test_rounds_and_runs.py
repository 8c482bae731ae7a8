"""Train, verify, run and read: as a script would, end to end."""

from pathlib import Path

import pytest

import autoqec

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
    with pytest.raises(autoqec.AutoQECError, match="iterations"):
        autoqec.train("surface_d3_depol", {**CONFIG, "neural_bp": {"iterations": -1}}, tmp_path / "round_2")
    assert not (tmp_path / "round_2").exists()


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
    with pytest.raises(autoqec.AutoQECError, match="was started with optuna"):
        autoqec.run("surface_d3_depol", run_id="mine", proposer="templates")
