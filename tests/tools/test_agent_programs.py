"""`make test-agents` where it has not what it needs: it says so, installs nothing, and does not fail the build."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("programs", "reason"),
    [((), "this user can make no network namespace"), (("unshare",), "npm is not on PATH")],
)
def test_what_is_missing_is_the_reason_to_skip(
    tmp_path: Path, programs: tuple[str, ...], reason: str
) -> None:
    for name in programs:  # one that makes no namespace, on machines where nobody may
        (tmp_path / name).write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
        (tmp_path / name).chmod(0o755)
    (tmp_path / "true").write_text("#!/bin/sh\n")
    (tmp_path / "true").chmod(0o755)
    copied = tmp_path / "tools" / "agent_programs.py"
    copied.parent.mkdir()
    copied.write_text((ROOT / "tools" / "agent_programs.py").read_text())
    told = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run([sys.executable, copied], env=told, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"Skipped: the tests with the real agent programs. {reason}")
    assert not (tmp_path / "build").exists()


def test_the_guide_names_the_tested_versions() -> None:
    text = (ROOT / "tools" / "agent_programs.py").read_text()
    page = (ROOT / "docs" / "llm_setup.md").read_text()
    for program, package in (("Claude Code", "@anthropic-ai/claude-code@"), ("Codex", "@openai/codex@")):
        version = text.partition(package)[2].partition('"')[0]
        assert f"| {program} | {version} |" in page
