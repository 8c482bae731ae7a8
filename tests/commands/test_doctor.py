"""`autoqec doctor` as a user runs it, and its checks on parts that are missing or broken."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from autoqec.commands import machine_checks
from autoqec.commands.doctor import command
from autoqec.commands.machine_checks import Check, Library, check_library
from autoqec.sandbox import kinds


def _doctor(*options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "autoqec", "doctor", *options],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    done = _doctor("--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_the_json_has_its_stable_keys(report: dict[str, Any]) -> None:
    assert set(report) == {"ok", "checks"}
    assert report["ok"] is True
    for check in report["checks"]:
        assert set(check) == {"name", "status", "detail", "hint"}
        assert check["status"] in ("ok", "warn", "fail")
        assert (check["hint"] is None) == (check["status"] == "ok")
    names = [check["name"] for check in report["checks"]]
    assert len(names) == len(set(names))


def test_it_reports_what_a_bug_report_needs(report: dict[str, Any]) -> None:
    checks = {check["name"]: check for check in report["checks"]}
    wanted = (
        "autoqec python stim pymatching sinter ldpc numpy scipy numba torch pydantic cpu memory gpu git cache"
    )
    assert set(wanted.split()) <= set(checks)
    assert {"relay-bp", "tesseract-decoder", "matplotlib", "onnx", "safetensors", "optuna"} <= set(checks)
    assert {"sandbox", "sandbox bubblewrap", "sandbox namespaces", "sandbox landlock"} <= set(checks)
    assert checks["python"]["detail"].startswith(".".join(map(str, sys.version_info[:3])))
    import stim

    assert checks["stim"]["detail"] == stim.__version__


def _with(monkeypatch: pytest.MonkeyPatch, *checks: Check) -> None:
    monkeypatch.setattr(machine_checks, "all_checks", lambda: list(checks))


def test_a_failed_requirement_gives_exit_code_1_and_the_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    _with(monkeypatch, Check("stim", "ok", "1.16.0"), Check("git", "fail", "not found", "install git"))
    plain = CliRunner().invoke(command, [])
    assert plain.exit_code == 1
    assert plain.output.splitlines()[:3] == [
        "ok    stim  1.16.0",
        "fail  git   not found",
        "            hint: install git",
    ]
    as_json = CliRunner().invoke(command, ["--json"])
    assert as_json.exit_code == 1
    assert json.loads(as_json.output)["ok"] is False


def test_a_warning_leaves_exit_code_0(monkeypatch: pytest.MonkeyPatch) -> None:
    _with(monkeypatch, Check("onnx", "warn", "not installed", "pip install onnx"))
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 0
    assert "1 warnings" in result.output


def test_a_missing_library_names_its_mend() -> None:
    optional = check_library(Library("no-such-thing", "no_such_thing", "pip install it", use="tests"))
    assert (optional.status, optional.hint) == ("warn", "pip install it")
    assert "for tests" in optional.detail
    assert check_library(Library("no-such-thing", "x", "pip install it", required=True)).status == "fail"


def test_a_library_that_does_not_load_is_a_finding_with_its_error() -> None:
    # Installed under this name, so the version is found; the module to load is not there.
    found = check_library(Library("click", "click.no_such_part", "pip install click", required=True))
    assert found.status == "fail"
    assert "does not load" in found.detail
    assert "no_such_part" in found.detail


def test_a_library_that_crashes_does_not_take_the_doctor_with_it() -> None:
    crash = "click, os; os.abort()"
    found = check_library(Library("click", crash, "pip install click", required=True))
    assert found.status == "fail"
    assert "signal" in found.detail


def test_no_git_is_a_failure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    [check] = machine_checks._git()
    assert (check.name, check.status) == ("git", "fail")
    assert "install git" in str(check.hint)


def test_a_git_without_a_name_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
    monkeypatch.chdir(tmp_path)
    version, name = machine_checks._git()
    assert version.status == "ok"
    assert name.status == "warn"
    assert "git config" in str(name.hint)


def test_a_cache_that_cannot_be_written_is_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOQEC_CACHE", str(tmp_path / "file" / "cache"))
    checks = {check.name: check for check in machine_checks._folders()}
    assert checks["cache"].status == "warn"
    assert "AUTOQEC_CACHE" in str(checks["cache"].hint)
    assert checks["disk (here)"].status == "ok" or checks["disk (here)"].hint


def test_no_sandbox_at_all_is_said_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    unavailable = kinds.SandboxReport("landlock", False, "not in this kernel")
    monkeypatch.setattr(kinds, "probe", lambda _sandbox: unavailable)
    first, *others = machine_checks._sandbox()
    assert first.status == "warn"
    assert "not confined" in first.detail
    assert all(check.status == "warn" and check.hint for check in others)


def test_a_terminal_gets_a_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from autoqec.commands import doctor

    doctor._print_table([Check("onnx", "warn", "not installed", "pip install onnx")])
    out = capsys.readouterr().out
    assert "hint" in out
    assert "pip install onnx" in out
