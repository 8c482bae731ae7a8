"""`autoqec serve`: a real server on loopback, asked by good and by bad clients."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from run_folders import add_round, make_run_folder
from serving import Server

from autoqec.io.locks import locked
from autoqec.layout import RunDir
from autoqec.report.server.door import host_of
from autoqec.report.server.shelf import Shelf

pytestmark = pytest.mark.usefixtures("own_home")

SCRIPT = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, own_home: None) -> Iterator[tuple[Server, Path]]:
    runs = tmp_path_factory.mktemp("served") / "runs"
    make_run_folder(runs / "good", rounds=3, planned=9, words=SCRIPT)
    make_run_folder(runs / "other", rounds=2)
    server = Server(runs)
    yield server, runs
    server.stop()


def test_pages_of_runs(world: tuple[Server, Path]) -> None:
    server, _ = world
    status, headers, body = server.ask("/")
    assert (status, headers["x-frame-options"], headers["cache-control"]) == (200, "DENY", "no-store")
    assert b"good" in body
    status, _, body = server.ask("/runs/good")
    assert status == 200
    assert b"<script>alert" not in body
    status, _, body = server.ask("/api/runs/good")
    data = json.loads(body)
    assert [one["round"] for one in data["rounds"]] == [1, 2, 3]
    assert data["progress"]["planned"] == 9
    assert "server" not in headers


def test_several_runs_side_by_side(world: tuple[Server, Path]) -> None:
    server, _ = world
    assert server.ask("/compare?run=good&run=other")[0] == 200
    assert server.ask("/compare?run=good")[0] == 422
    assert server.ask("/compare?run=good&run=nowhere")[0] == 404


@pytest.mark.parametrize(
    "path",
    [
        "/runs/../../etc/passwd", "/runs/..%2f..%2fetc%2fpasswd", "/runs/%2e%2e", "/runs/good%00", "/api/runs/..%5cgood",
        "/runs/good/run.json", "/static/../app.py", "/runs//etc/passwd", "/runs/" + "x" * 5000, "//evil.example/",
    ],
)  # fmt: skip
def test_nothing_outside_the_folder(world: tuple[Server, Path], path: str) -> None:
    server, _ = world
    status, _, body = server.ask(path)
    assert status == 404
    assert b"root:" not in body


def test_it_only_reads(world: tuple[Server, Path]) -> None:
    server, _ = world
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert server.ask("/api/runs/good", method)[0] == 405


def test_another_name_is_refused(world: tuple[Server, Path]) -> None:
    server, _ = world
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", ""):
        assert server.ask("/", Host=name)[0] == 421
    for name in ("localhost", f"127.0.0.1:{server.port}", "[::1]:80"):
        assert server.ask("/", Host=name)[0] == 200
    assert [host_of(text) for text in ("[::1]:80", "A:1", "b")] == ["::1", "a", "b"]


def test_damaged_runs_are_named_and_do_no_harm(world: tuple[Server, Path], tmp_path: Path) -> None:
    server, runs = world
    broken = make_run_folder(runs / "broken", rounds=2)
    (broken / "history.jsonl").write_text("{]\n")
    (broken / "pareto.json").write_text('{"a":' * 100_000)
    (broken / "round_2" / "verification_report.json").write_text("[1e999]")
    huge = make_run_folder(runs / "huge", rounds=1)
    with (huge / "history.jsonl").open("r+b") as file:
        file.truncate(300 << 20)
    with (huge / "round_1" / "train.log").open("r+b") as file:
        file.truncate(1 << 40)
    linked = make_run_folder(runs / "linked", rounds=1)
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "train.log").write_text("1\t0.123456\n2\t0.123456\n")
    (linked / "round_7").symlink_to(secret)
    (runs / "away").symlink_to(make_run_folder(tmp_path / "elsewhere", rounds=1))
    half = runs / "half"
    half.mkdir()
    (half / "run.json").write_text('{"run_id": "half", "crea')
    lines = {line["run_id"]: line for line in json.loads(server.ask("/api/runs")[2])["runs"]}
    assert {name for name, line in lines.items() if line["state"] == "unreadable"} == {
        "broken",
        "huge",
        "linked",
        "half",
    }
    assert "is larger than 256 MiB" in lines["huge"]["reason"]
    assert "symbolic link" in lines["linked"]["reason"]
    assert "away" not in lines
    for name in ("broken", "huge", "half"):
        status, _, body = server.ask(f"/api/runs/{name}")
        assert status == 200
        assert json.loads(body)["gaps"]
    status, _, body = server.ask("/api/runs/linked")
    assert status == 422
    assert b"0.123" not in body
    assert server.ask("/runs/away")[0] == 404
    assert server.ask("/runs/good")[0] == 200


def test_a_change_is_told(world: tuple[Server, Path]) -> None:
    server, runs = world
    told = server.events("/api/runs/other/events")
    assert next(told) == "hello"
    add_round(runs / "other", 3)
    assert next(told) == "changed"
    rounds = json.loads(server.ask("/api/runs/other")[2])["rounds"]
    assert [one["round"] for one in rounds] == [1, 2, 3]
    told.close()


def test_another_address_asks_for_a_token(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    given = "a-token-that-is-long-enough"
    server = Server(runs, "--host", "0.0.0.0", AUTOQEC_SERVE_TOKEN=given)
    try:
        assert server.token == given
        assert server.ask("/")[0] == 401
        assert server.ask("/?token=wrong")[0] == 401
        status, headers, _ = server.ask(f"/api/runs?token={given}&x=1")
        assert (status, headers["location"]) == (303, "/api/runs?x=1")
        assert "HttpOnly" in headers["set-cookie"]
        assert server.ask("/api/runs", Cookie=headers["set-cookie"].partition(";")[0])[0] == 200
        assert server.ask("/api/runs", Cookie="autoqec_token=wrong")[0] == 401
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("options", "variables", "said"),
    [
        (["nowhere"], {}, "is not a folder"),
        ([".", "--host", "none such"], {}, "neither an address nor a name"),
        ([".", "--host", "0"], {}, "neither an address nor a name"),
        ([".", "--host", "none.invalid"], {}, "cannot listen"),
        ([".", "--host", "0.0.0.0", "--port", "0"], {"AUTOQEC_SERVE_TOKEN": "short"}, "AUTOQEC_SERVE_TOKEN"),
    ],
)
def test_what_cannot_be_served_is_said(
    options: list[str], variables: dict[str, str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from click.testing import CliRunner

    from autoqec.commands import main

    monkeypatch.chdir(tmp_path)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done: Any = CliRunner().invoke(main, ["serve", *options])
    assert done.exit_code == 2
    assert said in done.output


def test_a_page_is_made_once_for_each_change(tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path / "runs" / "one", rounds=1)
    shelf = Shelf(folder.parent)
    made = shelf.page("one")["rounds"]
    assert shelf.page("one")["rounds"] is made
    add_round(folder, 2)
    assert len(shelf.page("one")["rounds"]) == 2


def test_the_end_of_a_run_is_a_change(tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path / "runs" / "one", rounds=1, planned=2)
    shelf = Shelf(folder.parent)
    before = shelf.signature("one")
    with locked(RunDir(folder).lock):
        during = shelf.signature("one")
        assert shelf.page("one")["state"] == "running"
    assert len({before, during, shelf.signature("one")}) == 3
    assert shelf.page("one")["state"] == "unfinished"


def test_ctrl_c_ends_it_in_order(tmp_path: Path) -> None:
    server = Server(tmp_path)
    assert server.ask("/")[0] == 200
    server.process.send_signal(signal.SIGINT)
    assert server.process.wait() == 0
    server.stop()
