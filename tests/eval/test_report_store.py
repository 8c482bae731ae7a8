"""A report counts if the verifier wrote it: to the byte, for this run, on the checkpoint that lies there."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from written_reports import enter_report

from autoqec.errors import AutoQECError, InputError
from autoqec.eval.report import as_json, write
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import CostCensus, VerifyReport
from autoqec.io.hashing import sha256_bytes
from autoqec.layout import VerifierDir

WEIGHTS = b"the weights"
REPORT = VerifyReport(
    verdict="VERIFIED",
    ler_holdout=0.01,
    ler_holdout_ci=(0.009, 0.011),
    delta_ler_holdout=0.002,
    ler_shuffled=0.05,
    ablation_sanity_ok=True,
    holdout_seeds_used=[9000],
    seed_leakage_check_ok=True,
    notes="",
    checkpoint_sha256=sha256_bytes(WEIGHTS),
    cost=CostCensus(flops_per_syndrome=5000, n_params=70, n_bytes=280),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def folder(tmp_path: Path, home: Path) -> Path:
    """A round with a report as the verifier leaves it."""
    path = tmp_path / "20260101-000000" / "round_4"
    path.mkdir(parents=True)
    (path / "checkpoint.pt").write_bytes(WEIGHTS)
    text = as_json(REPORT)
    (path / "verification_report.json").write_text(text)
    enter(home, path, text)
    return path


def enter(home: Path, path: Path, text: str, **changes: object) -> None:
    enter_report(VerifierDir(home), path, text, sha256_bytes(WEIGHTS), **changes)


def test_the_verifier_s_own_report_is_read_back(folder: Path, home: Path) -> None:
    assert written_report(folder, home=home) == REPORT


def test_an_edited_report_is_no_report(folder: Path, home: Path) -> None:
    path = folder / "verification_report.json"
    path.write_text(path.read_text().replace("5000", "50"))
    with pytest.raises(InputError, match="not as this verifier wrote it"):
        written_report(folder, home=home)


def test_a_report_of_another_plan_is_no_report_of_this_run(folder: Path, home: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "20260101-000001" / "round_1")
    with pytest.raises(InputError, match="for this run"):
        written_report(other, home=home)


def test_another_checkpoint_was_not_verified(folder: Path, home: Path) -> None:
    (folder / "checkpoint.pt").write_bytes(WEIGHTS + b" and more")
    with pytest.raises(InputError, match="and its checkpoint"):
        written_report(folder, home=home)


def test_a_report_without_its_shots_is_no_report(folder: Path, home: Path) -> None:
    (bundle,) = VerifierDir(home).bundles.iterdir()
    data = next(bundle.glob("*.dets.b8"))
    shots = data.read_bytes()
    data.write_bytes(bytes([shots[0] ^ 1]) + shots[1:])
    with pytest.raises(InputError, match="not in the verifier's archive"):
        written_report(folder, home=home)
    data.write_bytes(shots)
    assert written_report(folder, home=home) == REPORT
    shutil.rmtree(bundle)
    with pytest.raises(InputError, match="not in the verifier's archive"):
        written_report(folder, home=home)


def test_a_report_without_its_opening_is_no_report(folder: Path, home: Path) -> None:
    path = folder / "verification_report.json"
    path.write_text(path.read_text().replace("5000", "50"))
    enter(home, folder, path.read_text(), opening=None)
    with pytest.raises(InputError, match="not as this verifier wrote it"):
        written_report(folder, home=home)
    enter(home, folder, path.read_text(), opening="0" * 64)
    with pytest.raises(InputError, match="not as this verifier wrote it"):
        written_report(folder, home=home)
    enter(home, folder, path.read_text())
    assert written_report(folder, home=home).cost.flops_per_syndrome == 50


def test_without_a_report_the_round_is_to_be_verified_first(folder: Path, home: Path) -> None:
    (folder / "verification_report.json").unlink()
    with pytest.raises(InputError, match="verify the round first"):
        written_report(folder, home=home)


def test_no_report_is_written_beside_another_checkpoint(tmp_path: Path) -> None:
    """A round may be trained in the folder while the one before it is verified."""
    (tmp_path / "checkpoint.pt").write_bytes(b"other weights")
    with pytest.raises(AutoQECError, match="is not the checkpoint that was verified"):
        write(tmp_path, REPORT)
    assert not list(tmp_path.glob("verification_report*"))
