"""A real run, followed in a real browser."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browser import MISSING, Browser
from serving import Server

from tests.agent_tools.quick_workspace import make_workspace


@pytest.mark.runs
@pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed")
def test_a_live_page_follows_a_real_run(tmp_path: Path) -> None:
    make_workspace(tmp_path)
    words = ["run", "env.yaml", "--rounds", "1", "--no-llm", "--own-repository", "--run-id", "real"]
    run: Any = None
    (tmp_path / "runs").mkdir()
    server = Server(tmp_path / "runs")
    try:
        with Browser() as browser:
            browser.open(f"http://127.0.0.1:{server.port}/")
            run = subprocess.Popen(
                [sys.executable, "-m", "autoqec", *words],
                cwd=tmp_path,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            browser.until("return document.querySelector(\"a[href='/runs/real']\")", during=run)
            browser.open(f"http://127.0.0.1:{server.port}/runs/real")
            browser.until(
                "return document.querySelectorAll('#rounds tbody tr').length", lambda n: n == 1, during=run
            )
            assert run.wait() == 0
            assert "1 of 1 rounds" in browser.until(
                "return document.querySelector('#now').textContent", lambda t: "complete" in t
            )
    finally:
        if run is not None:
            run.kill()
            run.wait()
        server.stop()
