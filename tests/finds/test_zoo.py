"""The zoo: every entry is whole and decodes, works wherever a round does, and is never written into."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from safetensors.torch import load_file
from written_reports import leave_report

import autoqec
from autoqec.decoders import checkpoint
from autoqec.errors import InputError
from autoqec.eval.schema import VerifyReport
from autoqec.finds.zoo import split_list, zoo_entry, zoo_names
from autoqec.io.hashing import sha256_file
from autoqec.layout import EntryDir, zoo_folder
from autoqec.report.card import entry_card
from autoqec.runner import supervise
from autoqec.stats.intervals import paired_difference
from cli.autoqec import main

VERIFIED_IN_A_MINUTE = [
    name for name in zoo_names() if zoo_entry(name).metrics.flops_per_syndrome < 1_000_000
]

NAME = "surface_d5_depol/cascade_3mflop"
MOST_BYTES = 20_000_000


def command(*words: str, **variables: str) -> Result:
    return CliRunner().invoke(main, list(words), env=variables)


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*.*")
        if path.is_file()
    }


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EntryDir:
    """A zoo with a copy of one entry, to be damaged."""
    shutil.copytree(zoo_folder() / NAME, tmp_path / "zoo" / NAME)
    monkeypatch.setattr("autoqec.finds.zoo.zoo_folder", lambda: tmp_path / "zoo")
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))
    return EntryDir(tmp_path / "zoo" / NAME)


def name_files(entry: EntryDir) -> None:
    """The provenance names the files as they are now."""
    provenance = json.loads(entry.provenance.read_text())
    provenance["files"] = {
        path.name: sha256_file(path) for path in entry.path.iterdir() if path != entry.provenance
    }
    entry.provenance.write_text(json.dumps(provenance))


def put_report(entry: EntryDir, **facts: Any) -> None:
    about = {
        "bundle_kind": "confirm",
        "env_name": "surface_d5_depol",
        "baseline": "pymatching",
        "ler_baseline_holdout": 0.02,
    }
    leave_report(entry.path, delta=0.005, half=0.001, flops=7, params=7, **{**about, **facts})
    name_files(entry)


@pytest.mark.parametrize("name", zoo_names())
def test_an_entry_is_whole_loads_and_decodes(name: str) -> None:
    entry = zoo_entry(name)
    find = autoqec.load_predecoder(f"zoo:{name}")
    assert find.env.spec.name == entry.env
    assert find.p == entry.metrics.reference_p
    assert find.sha256 == entry.metrics.checkpoint_sha256
    assert not find.is_confined, "the zoo holds no code"
    shots = find.env.sample(find.p, 200, seed=3)
    failures = (find.decode(shots.detectors) != shots.observables).any(axis=1)
    assert failures.mean() < shots.observables.any(axis=1).mean()


@pytest.mark.parametrize("name", zoo_names())
def test_what_lies_beside_a_checkpoint_belongs_to_it(name: str) -> None:
    entry = zoo_entry(name)
    files = EntryDir(entry.path)
    _, state = checkpoint.read(files.checkpoint)
    twin = load_file(files.weights)
    assert state.keys() == twin.keys()
    assert all(torch.equal(state[key], twin[key]) for key in state)
    assert files.card.read_text(encoding="utf-8") == entry_card(entry), "tools/add_to_zoo.py writes it again"
    assert ("Not verified" in files.card.read_text(encoding="utf-8")) != entry.is_verified
    for path in (files.metrics, files.provenance, files.card, files.report):
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        assert re.findall(r"(?<![\w/.])/(?:tmp|home|root|work|mnt|Users)\b\S*", text) == [], path.name


def test_the_zoo_stays_small() -> None:
    assert NAME in zoo_names()
    assert sum(map(len, contents(zoo_folder()).values())) < MOST_BYTES


def cut(entry: EntryDir) -> str:
    data = entry.checkpoint.read_bytes()
    entry.checkpoint.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    return "checkpoint.pt"


def lose(entry: EntryDir) -> str:
    entry.metrics.unlink()
    return "metrics.json"


def stray(entry: EntryDir) -> str:
    (entry.path / "more.py").write_text("")
    return "more.py"


def tear(entry: EntryDir) -> str:
    entry.provenance.write_text("{")
    return "provenance.json"


def other_metrics(entry: EntryDir) -> str:
    entry.metrics.write_text(
        json.dumps(json.loads(entry.metrics.read_text()) | {"checkpoint_sha256": "0" * 64})
    )
    name_files(entry)
    return "metrics.json"


def other_report(entry: EntryDir) -> str:
    put_report(entry, checkpoint_sha256="0" * 64)
    return "verification_report.json"


def report_of_another_env(entry: EntryDir) -> str:
    put_report(entry, env_name="surface_d3_depol")
    return "verification_report.json"


@pytest.mark.parametrize(
    "damage", [cut, lose, stray, tear, other_metrics, other_report, report_of_another_env]
)
def test_a_damaged_entry_is_one_clear_error(copied: EntryDir, damage: Callable[[EntryDir], str]) -> None:
    culprit = damage(copied)
    for words in (("zoo", "show", NAME), ("zoo", "list"), ("verify", f"zoo:{NAME}")):
        done = command(*words)
        assert done.exit_code == 2
        assert "damaged" in done.output
        assert culprit in done.output
    with pytest.raises(InputError, match="damaged"):
        autoqec.load_predecoder(f"zoo:{NAME}")


@pytest.mark.parametrize(
    ("facts", "shown"),
    [
        ({}, "0.005 (0.004 .. 0.006)"),
        ({"verdict": "SUSPICIOUS"}, "not verified (SUSPICIOUS)"),
        ({"bundle_kind": "dev"}, "not verified"),
        (None, "not verified"),
    ],
)
def test_only_a_confirmation_makes_an_entry_verified(
    copied: EntryDir, facts: dict[str, Any] | None, shown: str
) -> None:
    if facts is None:
        for path in copied.path.glob(f"{copied.report.stem}*"):
            path.unlink()
        name_files(copied)
    else:
        put_report(copied, **facts)
    listed = command("zoo", "list", COLUMNS="80")
    assert shown in listed.output
    assert max(map(len, listed.output.splitlines())) <= 80
    entry = zoo_entry(NAME)
    card = entry_card(entry)
    assert entry.is_verified == ("not verified" not in shown)
    assert ("Verified figures" in card) == entry.is_verified
    assert ("Not verified" in card) != entry.is_verified
    (row,) = json.loads(command("zoo", "list", "--json").output)
    assert (row["gain"], row["gain_ci"]) == ((0.005, [0.004, 0.006]) if entry.is_verified else (None, None))
    assert (row["ratio"] is not None) == entry.is_verified
    assert row["flops_per_syndrome"] == entry.flops_per_syndrome


def test_the_cost_that_is_listed_is_the_verified_one() -> None:
    entry = zoo_entry(NAME)
    assert entry.flops_per_syndrome == entry.report.cost.flops_per_syndrome
    assert f"{entry.flops_per_syndrome / 1e6:.3g}" in command("zoo", "list").output


def test_workers_of_a_verification_are_where_it_says() -> None:
    done = command("zoo", "verify", NAME, "--executor", "ray:127.0.0.1:1")
    assert done.exit_code == 2, done.output
    assert "autoqec[ray]" in done.output or "no Ray cluster" in done.output


def test_show_prints_card_and_provenance() -> None:
    shown = command("zoo", "show", NAME)
    assert shown.exit_code == 0
    assert f"# Predecoder: {NAME}" in shown.output
    assert "--init-from HYBRID" in shown.output
    assert json.loads(command("zoo", "show", f"zoo:{NAME}", "--json").output)["provenance"]["seeds"] == [0, 0]


@pytest.mark.parametrize(
    "words",
    [
        ("zoo", "show", "surface_d5_depol/cascade_3"),
        ("zoo", "verify", "surface_d5_depol/cascade_3"),
        ("zoo", "get", "surface_d5_depol/cascade_3", "new"),
        ("verify", "zoo:surface_d5_depol/cascade_3"),
        ("export", "zoo:surface_d5_depol/cascade_3", "--onnx", "m.onnx"),
        ("baseline", "surface_d5_depol", "--with", "zoo:surface_d5_depol/cascade_3"),
        ("decode", "--predecoder", "zoo:surface_d5_depol/cascade_3", "--in", "-", "--out", "-"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = command(*words)
    assert done.exit_code == 2
    assert f"did you mean '{NAME}'?" in done.output
    assert list(tmp_path.iterdir()) == []


def test_get_makes_the_folder_of_a_round(tmp_path: Path) -> None:
    done = command("zoo", "get", NAME, str(tmp_path / "mine"))
    assert done.exit_code == 0
    assert zoo_entry(NAME).verdict in done.output
    assert contents(tmp_path / "mine") == contents(zoo_folder() / NAME)
    assert autoqec.load_predecoder(tmp_path / "mine").sha256 == zoo_entry(NAME).metrics.checkpoint_sha256
    again = command("zoo", "get", NAME, str(tmp_path / "mine"))
    assert again.exit_code == 2
    assert "not empty" in again.output


def test_its_name_stands_for_a_round_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = zoo_entry(NAME).metrics.checkpoint_sha256
    found = autoqec.compare("surface_d5_depol", [f"zoo:{NAME}"], p=0.01, shots=200, workers=1, reuse=False)
    assert [row["decoder"] for row in found.rows] == ["pymatching", "cascade_3mflop"]

    other = shutil.copytree(zoo_folder() / NAME, tmp_path / "other")
    monkeypatch.setenv(
        "AUTOQEC_PREDECODERS", os.pathsep.join([f"zoo:{NAME}", f"mine=zoo:{NAME}", str(other)])
    )
    decoders = autoqec.sinter_decoders()
    for name in ("cascade_3mflop", "mine", "other"):
        assert decoders[f"autoqec_{name}"].factory.sha256 == wanted

    shots = found.env.sample(0.01, 100, seed=5)
    (tmp_path / "shots.01").write_text(
        "".join("".join(map(str, row)) + "\n" for row in shots.detectors.astype(int))
    )
    words = ("--in", str(tmp_path / "shots.01"), "--out", str(tmp_path / "out.01"), "--p", "0.01")
    assert command("decode", "--predecoder", f"zoo:{NAME}", *words).exit_code == 0
    find = autoqec.load_predecoder(f"zoo:{NAME}", p=0.01)
    predicted = [[int(bit) for bit in line] for line in (tmp_path / "out.01").read_text().split()]
    assert np.array_equal(predicted, find.decode(shots.detectors))

    assert command("export", f"zoo:{NAME}", "--safetensors", str(tmp_path / "w.safetensors")).exit_code == 0
    assert load_file(tmp_path / "w.safetensors").keys() == load_file(EntryDir(find_folder()).weights).keys()


def find_folder() -> Path:
    return zoo_entry(NAME).path


@pytest.mark.parametrize("way", ["command", "python"])
def test_a_round_starts_from_an_entry(way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []

    def catch(config: Any, *_: Any, **__: Any) -> None:
        asked.append(config.init_from)
        raise InputError("no training here")

    monkeypatch.setattr(supervise, "run_round", catch)
    if way == "command":
        command(
            "run-round",
            "surface_d5_depol",
            "cascade_surface_d5",
            str(tmp_path / "r"),
            f"--init-from=zoo:{NAME}",
        )
    else:
        with pytest.raises(InputError, match="no training here"):
            autoqec.train("surface_d5_depol", "cascade_surface_d5", tmp_path / "r", init_from=f"zoo:{NAME}")
    assert asked == [str(find_folder().resolve())]


@pytest.mark.parametrize(
    "words", [("zoo", "verify", NAME), ("verify", f"zoo:{NAME}"), ("verify", str(zoo_folder() / NAME))]
)
def test_a_verification_writes_nothing_into_the_zoo(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Path, int | None, bool]] = []

    def catch(folders: list[Path], env: Any, options: Any) -> None:
        seen.append((folders[0], options.shots, options.write))
        raise InputError("seen")

    monkeypatch.setattr("autoqec.eval.verify.verify_together", catch)
    done = command(*words, "--shots", "5000")
    assert done.exit_code == 2
    assert seen == [(zoo_folder() / NAME, 5000, False)]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", []),
        ("a:b", ["a", "b"]),
        ("zoo:e/n", ["zoo:e/n"]),
        ("a:zoo:e/n:x=zoo:e/m:b", ["a", "zoo:e/n", "x=zoo:e/m", "b"]),
        ("a/zoo:b", ["a/zoo", "b"]),
    ],
)
def test_the_colon_of_a_name_separates_nothing(text: str, parts: list[str]) -> None:
    assert split_list(text, ":") == parts


@pytest.mark.verifier
@pytest.mark.parametrize("name", VERIFIED_IN_A_MINUTE)
def test_an_entry_holds_on_fresh_shots(name: str, tmp_path: Path) -> None:
    before = contents(zoo_folder())
    few = ("--shots", "2000", "--cap", "2000", "--baseline-seconds", "2")
    done = command("verify", f"zoo:{name}", *few, "--json", AUTOQEC_HOME=str(tmp_path / "home"))
    assert done.exit_code in (0, 3), done.output
    report = VerifyReport.model_validate_json(done.stdout)
    assert done.exit_code == {"VERIFIED": 0, "SUSPICIOUS": 3}[report.verdict], report.notes
    assert report.checkpoint_sha256 == zoo_entry(name).metrics.checkpoint_sha256
    assert report.headline.delta_ci is not None
    assert report.headline.delta_ci[1] > 0  # few shots: what is sure is that it is not worse
    assert contents(zoo_folder()) == before


@pytest.mark.verifier
@pytest.mark.parametrize("name", [name for name in zoo_names() if name not in VERIFIED_IN_A_MINUTE])
def test_a_larger_entry_decodes_as_its_report_says(name: str) -> None:
    """To verify one takes up to a quarter of an hour; `make zoo-verify` does."""
    report = zoo_entry(name).report
    assert report is not None
    shots = 20_000 if report.baseline == "pymatching" else 2_000
    at = ("--p", str(report.reference_p), "--decoders", report.baseline, "--shots", str(shots), "--fresh")
    done = command("baseline", report.env_name, *at, "--with", f"zoo:{name}", "--json")
    assert done.exit_code == 0, done.output
    _, ours = json.loads(done.stdout)["rows"]
    low, high = paired_difference(ours["only_plain_failed"], ours["only_this_failed"], shots, 0.9999)
    assert 0 < low < report.headline.delta < high
