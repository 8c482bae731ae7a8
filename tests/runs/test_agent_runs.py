"""Whole runs through the real Claude Code and Codex; the vendor is a script on loopback that keeps the bill."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from llm_world import MODELS, WORDS, Finished, World, code, idea
from protocols import role_of
from real import note, real, real_path, version
from vendor import Vendor, serving

from autoqec.agents.prices import NANO

NOTE = "autoqec/decoders/modules/notes.py"
EDIT = {
    "claude": {"do": "call", "name": "Write", "given": {"file_path": NOTE, "content": "NOTE = 1\n"}},
    "codex": {
        "do": "call",
        "name": "exec",
        "given": f"await tools.apply_patch('*** Begin Patch\\n*** Add File: {NOTE}\\n+NOTE = 1\\n*** End Patch')",
    },
}
DEAR = {"input": 2_000, "output": 900}
BOTH = pytest.mark.parametrize("program", ["claude", "codex"])


def answer(what: dict[str, Any]) -> dict[str, Any]:
    return {"do": "answer", "answer": what, **DEAR}


def script(program: str) -> dict[str, list[dict[str, Any]]]:
    return {
        "ideator": [answer(idea("Five iterations")), answer(idea("Six iterations"))],
        "coder": [EDIT[program], answer(code(5)), answer(code(6))],
        "analyst": [answer(WORDS)],
    }


def played(world: World, program: str, vendor: Vendor, *options: str) -> Finished:
    backend = f"{program}-cli"
    world.environ |= {
        "PATH": real_path(),
        "ANTHROPIC_BASE_URL": vendor.url,
        "OPENAI_BASE_URL": f"{vendor.url}/v1",
    }
    world.environ |= {"AUTOQEC_IDEATOR_BACKEND": backend, "AUTOQEC_IDEATOR_MODEL": MODELS[backend]}
    return world.run("--proposer", "llm", "--rounds", "2", "--json", "--run-id", "20261116-120000", *options)


@pytest.fixture(scope="session")
def verifier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verifier")


def check_rounds(done: Finished, program: str, vendor: Vendor, cap: str, how: str) -> None:
    assert done.code == 0, done.stderr
    assert [row["status"] for row in done.rows] == ["ok", "ok"]
    assert done.found["stopped"] is None
    files = done.git("ls-tree", "-r", "--name-only", done.rows[0]["branch"]).decode().split()
    assert NOTE in files  # what the Coder wrote by the program's own tool
    spent = sum(row["nano_usd"] for row in done.ledger if row["event"] == "settle")
    assert Fraction(spent, NANO) == vendor.bill > 0
    asked = [role_of(request["body"]) for request in vendor.asked]
    assert asked == ["ideator", "coder", "coder", "analyst", "ideator", "coder", "analyst"]
    note("runs", program, version(program), cap, how, f"{float(vendor.bill):.6f}", f"{spent / NANO:.6f}")


@real
@BOTH
def test_two_rounds_under_a_cap_end_well_and_the_bill_is_in_the_ledger(
    tmp_path: Path, verifier: Path, program: str
) -> None:
    world = World(tmp_path, verifier)
    with serving(script(program)) as vendor:
        done = played(world, program, vendor, "--budget-usd", "4.00")
    check_rounds(done, program, vendor, "4.00", "2 rounds ok")


@real
@BOTH
def test_a_login_that_fails_stops_the_run_and_with_a_good_one_it_resumes(
    tmp_path: Path, verifier: Path, program: str
) -> None:
    world = World(tmp_path, verifier)
    refused = {"do": "status", "status": 401, "text": "invalid x-api-key"}
    with serving({**script(program), "ideator": [refused]}) as vendor:
        done = played(world, program, vendor)
        assert done.code == 2
        assert done.stdout == ""
        assert "the ideator gave no answer (login)" in done.stderr
        assert "resume the run 20261116-120000" in done.stderr
        assert "Traceback" not in done.stderr
        assert not done.files.history.exists()  # no round was burnt
        assert len(vendor.asked) == 2
        vendor.plan = script(program)
        vendor.requests.clear()
        again = world.run("--resume", "20261116-120000", "--json")
    how = "401: stopped before round 1 with exit code 2; resumed: 2 rounds ok"
    check_rounds(again, program, vendor, "none", how)
