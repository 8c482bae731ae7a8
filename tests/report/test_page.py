"""The report page and the model card: what they say, and that texts of a run stay texts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from run_folders import add_round, make_run_folder

from autoqec.commands import main
from autoqec.report.page.data import SHOWN, page_data
from autoqec.report.page.html import REPORT, embedded, page
from autoqec.report.progress import progress
from autoqec.report.run_view import view_run

pytestmark = pytest.mark.usefixtures("own_home")

SCRIPT = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, own_home: None) -> Path:
    return make_run_folder(tmp_path_factory.mktemp("pages") / "runs" / "look", rounds=8, words=SCRIPT)


@pytest.fixture(scope="module")
def data(folder: Path) -> dict[str, Any]:
    return page_data(view_run(folder))


def _autoqec(*words: object) -> Any:
    return CliRunner().invoke(main, list(map(str, words)))


def test_the_headline_is_the_estimate_of_the_best_verified_round(folder: Path, data: dict[str, Any]) -> None:
    view = view_run(folder)
    assert view.best is not None
    head = data["headline"]
    assert (head["round"], head["source"], head["shots"]) == (view.best.round, "estimate", 40_000)
    labels = [tile["label"] for tile in head["tiles"]]
    assert labels[:3] == ["over the plain backend", "over the best classical decoder", "what the weights add"]
    assert all(tile["interval"][0] < tile["ratio"] < tile["interval"][1] for tile in head["tiles"][:3])


def test_every_round_has_its_story(data: dict[str, Any]) -> None:
    rounds = {one["round"]: one for one in data["rounds"]}
    assert sorted(rounds) == list(range(1, 9))
    assert rounds[2]["verdict"] == "VERIFIED"
    assert rounds[2]["guards"] == [
        ["batch independence", "passed", "would fail the verdict", "shots alone and in batches agree"]
    ]
    assert rounds[2]["commands"][0] == "autoqec replay look/round_2"
    assert rounds[2]["card"].startswith("# Predecoder: look, round 2")
    assert "## Confidence" in rounds[2]["card"]
    assert "The least sure shots discarded, at p = 0.005" in rounds[2]["card"]
    assert rounds[3]["changes"] == [["round 2", "neural_bp.iterations", "6", "7"]]
    assert rounds[5]["verdict"] == "train error"
    assert rounds[5]["reason"] == "the loss became NaN"
    assert len(rounds[1]["loss"]) == 100
    assert set(data["figures"]) == set(SHOWN)


def test_the_fork_graph_has_compositions_and_lost_branches(folder: Path) -> None:
    view = view_run(folder)
    lost = {"status": "orphaned_branch", "branch": "exp/look/77-lost"}
    found = page_data(type(view)(_with_follow_up(view.record, lost), view.info, view.plan, view.gaps))[
        "graph"
    ]
    nodes = {node["round"]: node for node in found["nodes"] if node["round"] is not None}
    assert nodes[3]["parents"] == ["exp/look/02-x"]
    assert (nodes[3]["depth"], nodes[2]["depth"]) == (2, 1)
    assert found["nodes"][-1]["kind"] == "orphan"
    assert nodes[5]["kind"] == "failed"
    assert [0, 1] in found["edges"]


def _with_follow_up(record: Any, row: dict[str, Any]) -> Any:
    return type(record)(**{**record.__dict__, "follow_ups": (row,)})


def test_a_history_in_circles_ends(tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path / "runs" / "circle", rounds=3)
    rows = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    rows[0]["fork_from"], rows[2]["fork_from"] = "exp/circle/03-x", "exp/circle/01-x"
    (folder / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert len(page_data(view_run(folder))["graph"]["nodes"]) == 4


def test_texts_of_a_run_cannot_end_the_data(data: dict[str, Any]) -> None:
    text = page("title " + SCRIPT, data, REPORT)
    assert "alert(1)" in text
    assert "<script>alert" not in text
    assert "<img" not in text
    assert text.count("</script>") == 2
    (inside,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert json.loads(inside)["rounds"][0]["hypothesis"].startswith("</script>")
    assert "https://" not in text.replace(inside, "")
    assert "http://" not in text.replace(inside, "").replace("http://www.w3.org/2000/svg", "")


def test_numbers_that_json_lacks_are_left_out() -> None:
    assert embedded([float("inf"), float("nan"), 1.5]) == "[null,null,1.5]"


def test_the_command_writes_one_file_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    done = _autoqec("report", folder, "--out", tmp_path / "report.html")
    assert done.exit_code == 0, done.output
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    assert "Content-Security-Policy" in (tmp_path / "report.html").read_text()


def test_a_run_in_any_state_has_a_page(tmp_path: Path) -> None:
    empty = make_run_folder(tmp_path / "runs" / "empty", rounds=0, planned=3)
    data = page_data(view_run(empty))
    assert (data["headline"], data["figures"], data["rounds"]) == (None, {}, [])
    torn = make_run_folder(tmp_path / "runs" / "torn", rounds=2)
    with (torn / "history.jsonl").open("a") as file:
        file.write('{"round": 3, "stat')
    (torn / "plan.json").write_text("{broken")
    (torn / "round_1" / "train.log").write_bytes(b"\xff\x00not a log\n1\t0.5\n2\tnan\n")
    data = page_data(view_run(torn))
    assert [one["round"] for one in data["rounds"]] == [1, 2]
    assert any("torn line" in gap for gap in data["gaps"])
    assert any(gap.startswith("plan.json") for gap in data["gaps"])
    assert page("t", data, REPORT)
    assert _autoqec("report", tmp_path / "runs").exit_code == 2


def test_a_model_card(folder: Path, tmp_path: Path) -> None:
    done = _autoqec("card", folder / "round_2", "--out", tmp_path / "card.md")
    assert done.exit_code == 0, done.output
    card = (tmp_path / "card.md").read_text()
    for heading in (
        "What it is",
        "For which code and noise",
        "Verified figures",
        "Cost",
        "Limits",
        "How to load it",
        "How to reproduce it",
    ):
        assert f"## {heading}" in card
    assert "| belief_matching |" in card
    assert "below" in card  # no failure at the lowest p
    assert "<script" not in card
    assert 'autoqec.load_predecoder("look/round_2")' in card


@pytest.mark.parametrize(
    ("number", "said"), [(1, "is candidate"), (5, "is train_error"), (77, "not a round of a run")]
)
def test_only_a_verified_round_has_a_card(folder: Path, tmp_path: Path, number: int, said: str) -> None:
    place = folder / f"round_{number}"
    if number == 77:
        place = folder.parent / "look" / "round_77"
        place.mkdir()
    done = _autoqec("card", place)
    if number == 77:
        place.rmdir()
    assert done.exit_code == 2
    assert said in done.output


def test_a_round_that_another_machine_verified_has_no_card(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "another"))
    done = _autoqec("card", folder / "round_2")
    assert done.exit_code == 2
    assert "not as this verifier wrote it" in done.output


def test_watching_fits_a_terminal(folder: Path) -> None:
    done = _autoqec("watch", folder)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].startswith("look: surface_d3_depol, p = 0.005")
    assert "complete: 8 of 8 rounds" in done.output
    assert "best: round" in done.output
    assert any("VERIFIED" in line and "alert(1)" in line for line in lines)


def test_progress_counts_rounds_as_they_come(tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path / "runs" / "going", rounds=1, planned=3)
    assert progress(view_run(folder))["rounds"] == 1
    add_round(folder, 2)
    now = progress(view_run(folder))
    assert (now["rounds"], now["planned"], now["state"], now["in_flight"]) == (2, 3, "unfinished", [])


@pytest.mark.slow
def test_commands_of_the_page_on_reports_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All but those that need a server or a trained network, which have tests of their own."""
    monkeypatch.chdir(folder.parent.parent)
    text = (Path(__file__).parents[2] / "docs" / "seeing.md").read_text(encoding="utf-8")
    block = re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[0].splitlines()
    figures = re.findall(r"^\| `(autoqec plot [^`]*)`", text, re.MULTILINE)
    shown = [
        line.partition("#")[0].replace("round_3", "round_2").replace("ID", "look")
        for line in (*block, *figures)
    ]
    asked = [line.split()[1:] for line in shown if "serve" not in line]
    assert len(asked) == 12
    for words in asked:
        done = _autoqec(
            *(f"{tmp_path}/{word}" if word.endswith((".html", ".pdf")) else word for word in words)
        )
        assert done.exit_code == 0, (words, done.output)
