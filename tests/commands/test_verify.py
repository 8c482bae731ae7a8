"""`autoqec verify` as a user runs it: exit codes, files and messages."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from warm_processes import autoqec_text

from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.eval.schema import VerifyReport

SPEC = {
    "name": "surface_d4",
    "code": {"type": "stim_circuit", "source": "surface_code:rotated_memory_z?distance=4&rounds=4"},
    "noise": {"type": "depolarizing", "p": [0.01]},
    "constraints": {},
    "baseline_decoders": ["pymatching"],
    "classical_backend": "mwpm",
    "eval_protocol": {"min_shots_verify": 10_000, "min_shots_val": 10_000},
}
CONFIG = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 5}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment and two rounds: `good` wins, `bad` loses."""
    root = tmp_path_factory.mktemp("verify")
    (root / "env.yaml").write_text(yaml.safe_dump(SPEC))
    env = load_env(root / "env.yaml")
    dsl = PredecoderDSL.model_validate(CONFIG)
    for name in ("good", "bad"):
        (root / name).mkdir()
        module = compile_predecoder(dsl, env.problem(0.01))
        if name == "bad":
            with torch.no_grad():
                module.head.linear.copy_(torch.tensor([0.1, -0.3, 0.0]))  # type: ignore[union-attr,operator]
        info = checkpoint.CheckpointInfo(
            dsl=dsl,
            output_mode="soft_priors",
            env_name=env.spec.name,
            env_hash=env.content_hash,
            seed=0,
            train_labels=(0, -1),
            versions={},
        )
        checkpoint.save(root / name, module, info)
    return root


COMMAND = [sys.executable, "-m", "cli.autoqec", "verify"]


def autoqec(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "AUTOQEC_HOME": str(folder / "home"), **variables},
    )


@pytest.mark.verifier
def test_exit_codes_follow_the_verdict(folder: Path) -> None:
    env = str(folder / "env.yaml")
    good = autoqec(folder, str(folder / "good"), "--env", env, PYTHONPROFILEIMPORTTIME="1")
    assert good.returncode == 0, good.stdout + good.stderr
    assert good.stdout.startswith("VERIFIED")
    imported = {line.rpartition("|")[2].strip() for line in good.stderr.splitlines()}
    assert {"autoqec.eval.verify", "autoqec.eval.verifier_worker", "autoqec.eval.guards.replay"} <= imported
    assert not [name for name in imported if name.startswith("autoqec.runner")]
    report = VerifyReport.model_validate_json((folder / "good" / "verification_report.json").read_text())
    assert str(folder / "home") in report.bundle_path
    again = autoqec(
        folder, str(folder / "good"), "--env", env, "--bundle", report.paired_eval_bundle_id, "--json"
    )
    assert again.returncode == 3, again.stdout + again.stderr
    assert json.loads(again.stdout)["verdict"] == "SUSPICIOUS"
    bad = autoqec(folder, str(folder / "bad"), "--env", env, "--json", "--seeds", "9100:9110")
    assert bad.returncode == 4, bad.stdout + bad.stderr
    failed = VerifyReport.model_validate_json(bad.stdout)
    assert failed.verdict == "FAILED"
    assert failed.holdout_seeds_used[0] == 9100


@pytest.mark.verifier
def test_progress_shows_on_a_terminal_and_an_interrupt_leaves_nothing_but_what_was_spent(
    folder: Path,
) -> None:
    home = folder / "interrupted"
    ours, theirs = pty.openpty()
    arguments = [str(folder / "good"), "--env", str(folder / "env.yaml"), "--shots", "2000000"]
    before = sorted(path.name for path in (folder / "good").iterdir())
    with subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "AUTOQEC_HOME": str(home), "TERM": "xterm", "COLUMNS": "100"},
    ) as process:
        os.close(theirs)
        shown = b""
        while b"sampling" not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        os.close(ours)  # nobody looks any more: what it still shows must not hold it up
        assert process.wait() != 0
        assert process.stdout is not None
        assert process.stdout.read() == b""
    assert sorted(path.name for path in (folder / "good").iterdir()) == before
    verifier = home / "verifier"
    assert list((verifier / "bundles").iterdir()) == []
    events = [json.loads(line)["event"] for line in (verifier / "ledger.jsonl").read_text().splitlines()]
    assert events == ["registered", "opened"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["nowhere", "--env", "surface_d3_depol"], "not a folder"),
        (["good", "--env", "no_such_env"], "builtin"),
        (["good", "--env", "env.yaml", "--seeds", "1000:1010"], "holdout"),
        (["good", "--env", "env.yaml", "--seeds", "a-b"], "9000:9099"),
        (["good", "--env", "env.yaml", "--bundle", "../x"], "archive"),
        (["good", "--env", "env.yaml", "--bundle", "0" * 64, "--shots", "5"], "--shots"),
        (["good", "--env", "surface_d3_depol"], "another version"),
        (["empty", "--env", "env.yaml"], "checkpoint.pt"),
    ],
)
def test_bad_input_is_exit_code_2_and_one_message(folder: Path, arguments: list[str], word: str) -> None:
    (folder / "empty").mkdir(exist_ok=True)
    given = [
        str(folder / part) if part in ("good", "empty", "env.yaml", "nowhere") else part for part in arguments
    ]
    done = autoqec_text("verify", *given, env={**os.environ, "AUTOQEC_HOME": str(folder / "home")})
    assert done.returncode == 2
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
