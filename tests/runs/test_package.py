"""Packages: what goes in comes out on another machine, and what was changed on the way is found."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tiny_runs import CONFIG, changed, make_run, play

from autoqec.errors import InputError
from autoqec.runs import tar_archive as archive_module
from autoqec.runs.experiment import Experiment
from autoqec.runs.package import package_run
from autoqec.runs.package_check import check_package, opened
from autoqec.runs.repository import Repository
from autoqec.runs.run import Run
from autoqec.runs.tar_archive import pack, unpack
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal


@pytest.fixture
def packed(run: Run, tmp_path: Path) -> Path:
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(training={"epochs": 1}))
    play(run, "both", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    target = tmp_path / "package.tar.gz"
    package_run(run, target)
    return target


def test_a_package_holds_everything_and_needs_nothing_else(packed: Path, run: Run, tmp_path: Path) -> None:
    shutil.move(packed, tmp_path / "elsewhere.tar.gz")
    shutil.rmtree(run.repository.root)
    shutil.rmtree(run.files.path)
    result = check_package(tmp_path / "elsewhere.tar.gz", evaluate=False)
    assert result.is_good
    assert [(check.round, check.problems) for check in result.rounds] == [(1, []), (2, []), (3, [])]
    with opened(tmp_path / "elsewhere.tar.gz") as (package, manifest, git):
        assert sorted(path.name for path in package.run.iterdir())[:3] == [
            "fork_graph.json",
            "history.json",
            "history.jsonl",
        ]
        assert len(manifest.refs) == 4
        assert git("fsck", "--full", "--strict").strip() == ""
        folder = package.path
    assert not folder.exists()


def test_the_same_run_gives_the_same_archive(packed: Path, run: Run, tmp_path: Path) -> None:
    package_run(run, tmp_path / "again.tar.gz")
    one, two = (_members(path) for path in (packed, tmp_path / "again.tar.gz"))
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
