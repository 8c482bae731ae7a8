"""Packages: what goes in comes out on another machine, and what was changed on the way is found."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner
from tiny_runs import CONFIG, changed, make_checkout, make_run, play

from autoqec.commands import main
from autoqec.errors import InputError
from autoqec.runs import tar_archive as archive_module
from autoqec.runs.experiment import Experiment
from autoqec.runs.package import package_run
from autoqec.runs.package_check import PackageCheck, RoundCheck, check_package, opened
from autoqec.runs.repository import Repository, open_checkout
from autoqec.runs.run import Run
from autoqec.runs.tar_archive import pack, unpack
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal


def three_rounds(run: Run, target: Path) -> Path:
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(training={"epochs": 1}))
    play(run, "both", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    package_run(run, target)
    return target


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    run = make_run(folder / "work", open_checkout(make_checkout(folder / "checkout")))
    return three_rounds(run, folder / "package.tar.gz")


@pytest.fixture
def packed(archive: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(archive, tmp_path))


@pytest.fixture
def packed_run(run: Run, tmp_path: Path) -> Path:
    return three_rounds(run, tmp_path / "package.tar.gz")


def test_a_package_holds_everything_and_needs_nothing_else(
    packed_run: Path, run: Run, tmp_path: Path
) -> None:
    shutil.move(packed_run, tmp_path / "elsewhere.tar.gz")
    shutil.rmtree(run.repository.root)
    shutil.rmtree(run.files.path)
    result = check_package(tmp_path / "elsewhere.tar.gz", evaluate=False)
    assert result.is_good
    assert [(check.round, check.problems) for check in result.rounds] == [(1, []), (2, []), (3, [])]
    with opened(tmp_path / "elsewhere.tar.gz") as package:
        git = package.git
        assert sorted(path.name for path in package.files.run.iterdir())[:3] == [
            "fork_graph.json",
            "history.json",
            "history.jsonl",
        ]
        assert len(package.manifest.refs) == 4
        assert git("fsck", "--full", "--strict").strip() == ""
        folder = package.files.path
    assert not folder.exists()


def test_the_same_run_gives_the_same_archive(packed_run: Path, run: Run, tmp_path: Path) -> None:
    package_run(run, tmp_path / "again.tar.gz")
    one, two = (_members(path) for path in (packed_run, tmp_path / "again.tar.gz"))
    assert one.keys() == two.keys()
    assert {name for name in one if one[name] != two[name]} <= {"branches.bundle", "manifest.json"}


def _members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {entry.name: tar.extractfile(entry).read() for entry in tar}


def test_a_run_in_flight_is_not_packed(run: Run, tmp_path: Path) -> None:
    Experiment.begin(run, Proposal(hypothesis="h", slug="x"))
    with pytest.raises(InputError, match="in flight"):
        package_run(run, tmp_path / "p.tar.gz")
    assert not (tmp_path / "p.tar.gz").exists()


def test_an_environment_travels_with_the_files_it_refers_to(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "my envs"
    (folder / "models").mkdir(parents=True)
    (folder / "models" / "m.dem").write_text("error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n")
    (folder / "env.yaml").write_text(
        "name: tiny\ncode: {type: stim_circuit, source: models/m.dem}\nnoise: {type: custom_dem, p: [0.1]}\n"
        "constraints: {target_p: 0.1}\nbaseline_decoders: [pymatching]\nclassical_backend: mwpm\n"
    )
    run = Run.create(tmp_path / "w", str(folder / "env.yaml"), repository, limits=Limits(min_free_gb=0.0))
    play(run, "a", CONFIG)
    package_run(run, tmp_path / "p.tar.gz")
    shutil.rmtree(folder)
    assert check_package(tmp_path / "p.tar.gz", evaluate=False).is_good


def repacked(source: Path, target: Path, change: Callable[[Path], None], *, honest: bool = True) -> Path:
    """The archive after someone changed its files, with the manifest's hashes made to fit if `honest`."""
    from autoqec.io.hashing import sha256_file

    folder = target.with_suffix(".d")
    folder.mkdir()
    unpack(source, folder)
    change(folder)
    manifest = json.loads((folder / "manifest.json").read_text())
    if honest:
        manifest["files"] = {
            str(path.relative_to(folder)): sha256_file(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != "manifest.json"
        }
        (folder / "manifest.json").write_text(json.dumps(manifest))
    pack(target, {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()})
    return target


def test_a_changed_file_is_found_by_its_hash(packed: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "run" / "round_1" / "metrics.json").write_text("{}")

    with pytest.raises(InputError, match=r"round_1/metrics\.json"):
        check_package(repacked(packed, tmp_path / "x.tar.gz", change, honest=False), evaluate=False)


def test_a_missing_and_an_added_file_are_found(packed: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        (folder / "run" / "history.json").rename(folder / "run" / "other.json")

    with pytest.raises(InputError, match="not those of its manifest"):
        check_package(repacked(packed, tmp_path / "x.tar.gz", change, honest=False), evaluate=False)


def _swap_checkpoints(folder: Path) -> None:
    shutil.copy(folder / "run" / "round_2" / "checkpoint.pt", folder / "run" / "round_1" / "checkpoint.pt")


def _edit_pointer(folder: Path) -> None:
    path = folder / "run" / "round_1" / "round_1_pointer.json"
    path.write_text(path.read_text().replace('"ok"', '"train_error"'))


def _edit_history(folder: Path) -> None:
    path = folder / "run" / "history.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows[0]["commit_sha"] = rows[1]["commit_sha"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_swap_checkpoints, "checkpoint is another"),
        (_edit_pointer, "pointer on the branch"),
        (_edit_history, "is not on its branch"),
    ],
    ids=["checkpoint", "pointer", "history"],
)
def test_a_forged_manifest_does_not_hide_what_the_branches_say(
    packed: Path, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    result = check_package(repacked(packed, tmp_path / "x.tar.gz", change), evaluate=False)
    assert not result.is_good
    assert said in result.rounds[0].problems[0]
    assert result.rounds[1].problems == []


def test_a_damaged_bundle_is_found(packed: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        data = bytearray((folder / "branches.bundle").read_bytes())
        data[-100] ^= 1
        (folder / "branches.bundle").write_bytes(data)

    with pytest.raises(InputError, match="bundle is damaged"):
        check_package(repacked(packed, tmp_path / "x.tar.gz", change), evaluate=False)


def hostile(path: Path, *entries: tarfile.TarInfo | str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry) if isinstance(entry, str) else entry
            info.size = 2 if info.isfile() else 0
            tar.addfile(info, io.BytesIO(b"hi") if info.isfile() else None)
    return path


def _special(name: str, kind: bytes, target: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "entries",
    [
        ["../evil"],
        ["a/../../evil"],
        ["/tmp/evil"],
        ["a\\..\\evil"],
        [_special("link", tarfile.SYMTYPE, "/etc"), "link/evil"],
        [_special("hard", tarfile.LNKTYPE, "/etc/passwd")],
        [_special("fifo", tarfile.FIFOTYPE)],
        [_special("dev", tarfile.CHRTYPE)],
        ["twice", "twice"],
        ["twice", "./twice"],
    ],
    ids=[
        "up",
        "up inside",
        "absolute",
        "backslash",
        "symlink",
        "hard link",
        "fifo",
        "device",
        "twice",
        "dot",
    ],
)
def test_extraction_refuses_what_leads_out(tmp_path: Path, entries: list) -> None:
    folder = tmp_path / "in" / "folder"
    folder.mkdir(parents=True)
    with pytest.raises(InputError):
        unpack(hostile(tmp_path / "x.tar.gz", *entries), folder)
    assert not list(tmp_path.rglob("*evil*"))
    with pytest.raises(InputError):
        check_package(tmp_path / "x.tar.gz", evaluate=False)


def test_extraction_refuses_bombs_and_nonsense(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "MAX_MEMBERS", 3)
    with pytest.raises(InputError, match="more than"):
        unpack(hostile(tmp_path / "x.tar.gz", *"abcd"), tmp_path / "out")
    monkeypatch.setattr(archive_module, "MAX_BYTES", 3)
    with pytest.raises(InputError, match="more than"):
        unpack(hostile(tmp_path / "y.tar.gz", "a", "b"), tmp_path / "out2")
    (tmp_path / "z.tar.gz").write_bytes(b"no archive at all")
    with pytest.raises(InputError, match="cannot be read"):
        unpack(tmp_path / "z.tar.gz", tmp_path / "out3")
    with pytest.raises(InputError, match="no such file"):
        unpack(tmp_path / "missing.tar.gz", tmp_path / "out3")
    whole = hostile(tmp_path / "w.tar.gz", "a", "b").read_bytes()
    (tmp_path / "cut.tar.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        unpack(tmp_path / "cut.tar.gz", tmp_path / "out4")


def test_two_runs_in_one_repository_are_packed_apart(
    run: Run, repository: Repository, tmp_path: Path
) -> None:
    play(run, "a", CONFIG)
    other = make_run(tmp_path / "w2", repository)
    play(other, "b", CONFIG)
    manifest = package_run(run, tmp_path / "p.tar.gz")
    assert all(run.run_id in ref for ref in manifest.refs)


def _history(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "run" / "history.jsonl").read_text().splitlines()]


def _write_history(folder: Path, rows: list[dict]) -> None:
    (folder / "run" / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "run" / "history.json").write_text(json.dumps(rows))


@pytest.mark.parametrize("number", ["1/../../..", 1.0, True, -1, 0, 10**30, [1], float("inf")], ids=str)
def test_a_round_is_a_number(packed: Path, tmp_path: Path, number: object) -> None:
    def change(folder: Path) -> None:
        rows = _history(folder)
        _write_history(folder, [{**rows[0], "round": number}, *rows[1:]])

    result = check_package(repacked(packed, tmp_path / "x.tar.gz", change))
    assert result.outcome == "does not hold"
    assert result.problems


def _manifest(**changes: object) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"env": "../env.yaml"}, "neither a builtin"),
        ({"env": "/etc/passwd"}, "neither a builtin"),
        ({"env": "missing.yaml"}, "not in the package"),
        ({"env": 3}, "env"),
        ({"run_id": "../../x"}, "run id"),
        ({"base_commit": "--upload-pack=x"}, "base_commit"),
        ({"refs": {"refs/heads/../../x": "ab" * 20}}, "is not a branch of run"),
        ({"refs": {"HEAD": "ab" * 20}}, "is not a branch of run"),
        ({"refs": {}}, "is not base_commit"),
        ({"autoqec_version": "\x1b[2J"}, "autoqec_version"),
        ({"format": 2}, "reads 1"),
        ({"more": 1}, "unknown key"),
    ],
    ids=str,
)
def test_names_in_a_manifest_lead_nowhere(packed: Path, tmp_path: Path, changes: dict, said: str) -> None:
    with pytest.raises(InputError, match=said):
        check_package(repacked(packed, tmp_path / "x.tar.gz", _manifest(**changes)))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("run/round_\uff11/metrics.json", "nothing that a run leaves"),
        ("run/Round_1/metrics.json", "look alike"),
        ("run/in_flight/round_9.json", "nothing that a run leaves"),
        ("run/.pareto.lock", "a name that no package has"),
        ("other/file", "not part of a package"),
    ],
)
def test_files_that_no_package_has(packed: Path, tmp_path: Path, name: str, said: str) -> None:
    def change(folder: Path) -> None:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")

    with pytest.raises(InputError, match=said):
        check_package(repacked(packed, tmp_path / "x.tar.gz", change))


def _forged_row(folder: Path) -> list[dict]:
    row = _history(folder)[0]
    kept = {name: row[name] for name in ("round", "round_attempt_id", "branch", "commit_sha")}
    claimed = {
        "delta_vs_baseline_holdout": 0.01,
        "delta_ci": [0.009, 0.011],
        "flops_per_syndrome": 12,
        "n_params": 3,
    }
    return [{**kept, **claimed, "paired_eval_bundle_id": "b", "verdict": "VERIFIED"}]


def _write(name: str, content: Callable[[Path], object]) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = content(folder)
        (folder / "run" / name).write_text(found if isinstance(found, str) else json.dumps(found))

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_write("pareto.json", _forged_row), "which no report verifies"),
        (_write("pareto_dominated.json", _forged_row), "which no report verifies"),
        (_write("pareto_preview.json", _forged_row), "which no report verifies"),
        (_write("pareto.json", lambda _: "[" * 100_000), "nested deeper"),
        (_write("pareto.json", lambda _: [{"verdict": "SUSPICIOUS"}]), "pareto.json"),
        (_write("candidate_pareto.json", _forged_row), "candidate_pareto.json is not"),
        (_write("log.md", lambda _: "# State of the art"), "log.md is not"),
        (_write("summary.md", lambda _: "# State of the art"), "summary.md is not"),
        (_write("history.json", lambda _: []), "history.json is not history.jsonl"),
        (_write("fork_graph.json", lambda _: {"nodes": []}), "fork_graph.json is not"),
        (_write("notes/verification_report.json", lambda _: "{}"), "belongs to no round"),
    ],
    ids=lambda value: None if callable(value) else value[:24],
)
def test_what_does_not_follow_from_the_rounds_is_told(
    packed: Path, tmp_path: Path, change: Callable[[Path], None], said: str
) -> None:
    def and_a_folder(folder: Path) -> None:
        (folder / "run" / "notes").mkdir()
        change(folder)

    result = check_package(repacked(packed, tmp_path / "x.tar.gz", and_a_folder))
    assert result.outcome == "does not hold"
    assert any(said in problem for problem in result.problems), result.problems


def test_a_verdict_needs_its_report_and_a_report_its_verdict(packed: Path, tmp_path: Path) -> None:
    def change(folder: Path) -> None:
        rows = _history(folder)
        _write_history(folder, [{**rows[0], "verdict": "VERIFIED"}, *rows[1:]])

    result = check_package(repacked(packed, tmp_path / "x.tar.gz", change))
    assert result.rounds[0].problems == ["the history says VERIFIED, and the report is not there"]
    assert result.outcome == "does not hold"


def test_a_package_without_a_verified_round_proves_nothing(
    packed_run: Path, run: Run, tmp_path: Path
) -> None:
    assert check_package(packed_run).outcome == "proves nothing"
    assert check_package(packed_run, evaluate=False).outcome == "only files checked"
    done = CliRunner().invoke(main, ["verify-package", str(packed_run)])
    assert (done.exit_code, "proves no gain" in done.output) == (3, True)
    found = json.loads(CliRunner().invoke(main, ["verify-package", str(packed_run), "--json"]).output)
    assert (found["ok"], found["outcome"]) == (False, "proves nothing")
    done = CliRunner().invoke(main, ["verify-package", str(packed_run), "--no-evaluate"])
    assert (done.exit_code, "No gain was measured here" in done.output) == (0, True)

    def change(folder: Path) -> None:
        _write_history(folder, [])
        (folder / "run" / "fork_graph.json").unlink()

    assert check_package(repacked(packed_run, tmp_path / "x.tar.gz", change)).outcome == "proves nothing"


@pytest.mark.parametrize(
    ("now", "problems", "outcome"),
    [
        ("VERIFIED", [], "holds"),
        ("SUSPICIOUS", [], "not shown again"),
        ("FAILED", [], "does not hold"),
        ("VERIFIED", ["claims 12 FLOPs"], "does not hold"),
        (None, [], "not shown again"),
    ],
)
def test_the_outcome_is_that_of_the_weakest_claim(now: str | None, problems: list[str], outcome: str) -> None:
    rounds = [
        RoundCheck(1, "one", [], "VERIFIED", "VERIFIED"),
        RoundCheck(2, "two", problems, "VERIFIED", now),
        RoundCheck(3, "three", [], None, None),
    ]
    assert PackageCheck("run", 9, True, [], rounds).outcome == outcome
    assert PackageCheck("run", 9, True, ["a file is missing"], rounds).outcome == "does not hold"
    only_files = outcome if outcome == "does not hold" else "only files checked"
    assert PackageCheck("run", 9, False, [], rounds).outcome == only_files


def test_an_environment_reads_no_file_outside_of_the_package(repository: Repository, tmp_path: Path) -> None:
    folder = tmp_path / "envs"
    folder.mkdir()
    (folder / "m.dem").write_text("error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n")
    (folder / "env.yaml").write_text(
        "name: tiny\ncode: {type: stim_circuit, source: m.dem}\nnoise: {type: custom_dem, p: [0.1]}\n"
        "constraints: {target_p: 0.1}\nbaseline_decoders: [pymatching]\nclassical_backend: mwpm\n"
    )
    run = Run.create(tmp_path / "w", str(folder / "env.yaml"), repository, limits=Limits(min_free_gb=0.0))
    play(run, "a", CONFIG)
    package_run(run, tmp_path / "p.tar.gz")
    for number, source in enumerate((str(folder / "m.dem"), "../../../m.dem", "..%2Fm.dem")):

        def change(unpacked: Path, source: str = source) -> None:
            path = unpacked / "env" / "env.yaml"
            path.write_text(path.read_text().replace("m.dem", f"'{source}'"))

        with pytest.raises(InputError, match="outside of the package"):
            check_package(repacked(tmp_path / "p.tar.gz", tmp_path / f"{number}.tar.gz", change))


def test_a_header_of_an_archive_is_not_read_beyond_bounds(tmp_path: Path) -> None:
    header = tarfile.TarInfo("././@PaxHeader")
    header.type, header.size = tarfile.XHDTYPE, 1 << 40
    (tmp_path / "x.tar").write_bytes(header.tobuf(tarfile.PAX_FORMAT) + bytes(10240))
    with pytest.raises(InputError):
        unpack(tmp_path / "x.tar", tmp_path / "out")
    os.mkfifo(tmp_path / "pipe.tar.gz")
    with pytest.raises(InputError, match="not a regular file"):
        unpack(tmp_path / "pipe.tar.gz", tmp_path / "out")
