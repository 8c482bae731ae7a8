"""A folder with one good input of every kind that a command reads: small, real, and made without training."""

from __future__ import annotations

import json
import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import stim
import yaml
from offline_world import RUN_ID, plan
from tiny_runs import changed, make_checkout, play
from written_reports import leave_report

from autoqec.agents.accounting import Ledger
from autoqec.agents.prices import Usage
from autoqec.decoders import checkpoint
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.eval.pareto import admit
from autoqec.runs.experiment import Experiment
from autoqec.runs.front import front_row
from autoqec.runs.package import package_run
from autoqec.runs.plan import CHAT
from autoqec.runs.repository import open_checkout
from autoqec.runs.research_run import ResearchRun
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal

ENV: dict[str, Any] = {
    "name": "tiny",
    "code": {"type": "stim_circuit", "source": "repetition_code:memory?distance=3&rounds=2"},
    "noise": {
        "type": "depolarizing",
        "p": [0.01],
        "reference_p": 0.01,
        "seed_policy": {"train": [1, 999], "val": [1000, 1999], "holdout": [9000, 9999]},
    },
    "constraints": {
        "latency_flops_budget": 1000000,
        "param_budget": 1000,
        "target_ler": 0.001,
        "target_p": 0.01,
    },
    "baseline_decoders": ["pymatching"],
    "classical_backend": "mwpm",
    "eval_protocol": {
        "min_shots_train": 2000,
        "min_shots_val": 4000,
        "min_shots_verify": 4000,
        "bootstrap_ci": 0.95,
    },
}
CONFIG: dict[str, Any] = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
    "training": {"epochs": 0, "learning_rate": 0.001},
}
IDEA = {
    "hypothesis": "five iterations are enough",
    "expected_delta_ler": 0.001,
    "expected_cost_s": 5,
    "rationale": "cheap",
    "fork_from": "baseline",
}
CODE = {"dsl_config": CONFIG, "tier": "1", "rationale": "shorter"}
WORDS = {"summary_1line": "fine", "verdict": "ignore", "next_hypothesis_seed": "more"}
DEM = "error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n"
MATRIX = np.array([[1, 1, 0], [0, 1, 1]], dtype=np.uint8)
TANNER = {"bits": 3, "checks": [{"id": 0, "bits": [0, 1]}, {"id": 1, "bits": [1, 2]}], "name": "rep"}


@dataclass(frozen=True)
class Scene:
    """root: all of it. run: the folder of a run with three rounds, one of them verified. flight: of one with a round in flight."""

    root: Path
    run: Path
    flight: Path

    @property
    def home(self) -> Path:
        """Of the verifier."""
        return self.root / "home"

    @property
    def cwd(self) -> Path:
        """Where commands are called: `..` does not lead out of the scene."""
        return self.root / "some" / "where"

    @property
    def round(self) -> Path:
        return self.run / "round_1"


def make(root: Path) -> Scene:
    _write_inputs(root)
    taken = _run(root / "work", RUN_ID)
    run = taken.run
    a = play(run, "a", changed(neural_bp={"iterations": 6}))
    b = play(run, "b", changed(training={"epochs": 1}))
    play(run, "both", fork_from=[a["branch"], b["branch"]], compose_mode="pure")
    _verify(run, a, root / "home")
    ledger = Ledger(run.files.llm_ledger)
    paid = ledger.reserve(10**6, role="coder", round=1, backend="none", model=None)
    ledger.settle(paid, 10**5, source="prices", usage=Usage(), outcome="ok")
    taken.publish()
    package_run(run, root / "package.tar.gz")
    other = _run(root / "flying", "20260102-030406")
    play(other.run, "a", changed(neural_bp={"iterations": 7}))
    Experiment.begin(other.run, Proposal(hypothesis="in flight", slug="x")).prepare()
    _round(root)
    scene = Scene(root, run.files.path, other.run.files.path)
    scene.home.mkdir(exist_ok=True)
    scene.cwd.mkdir(parents=True)
    return scene


def _run(workspace: Path, run_id: str) -> ResearchRun:
    make_checkout(workspace / "checkout")
    made = ResearchRun.begin(
        workspace,
        "surface_d3_depol",
        open_checkout(workspace / "checkout"),
        plan(rounds=9, proposer=CHAT),
        run_id,
    )
    return ResearchRun(Run.open(made.run.files.path, Limits(min_free_gb=0.0)), made.plan)


def _verify(run: Run, row: dict[str, Any], home: Path) -> None:
    """A report as the verifier at `home` leaves it, and its row on the front."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AUTOQEC_HOME", str(home))
        costs = {"flops": row["flops_per_syndrome"], "params": row["n_params"]}
        named = {
            "branch": row["branch"],
            "commit_sha": row["commit_sha"],
            "reference_p": 0.01,
            "seconds": 5.0,
        }
        report = leave_report(run.files.round(row["round"]).path, delta=0.005, half=0.001, **costs, **named)
    admit(run.files.path, front_row(report, row, None))


def environment(kind: str, source: str) -> bytes:
    """ENV with another code."""
    spec = {
        **ENV,
        "code": {"type": kind, "source": source},
        "classical_backend": "osd",
        "baseline_decoders": ["bposd"],
    }
    if source.endswith(".dem"):
        spec["noise"] = {"type": "custom_dem", "p": [0.01]}
    return json.dumps(spec).encode()


def _write_inputs(root: Path) -> None:
    (root / "env.yaml").write_text(yaml.safe_dump(ENV))
    (root / "env.json").write_text(json.dumps(ENV))
    (root / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    for name, answer in (("idea", IDEA), ("code", CODE), ("words", WORDS)):
        (root / f"{name}_answer.json").write_text(json.dumps(answer))
    (root / "model.dem").write_text(DEM)
    shots = np.array([[0, 0], [1, 0], [1, 1], [0, 1]] * 16, dtype=bool)
    for form in ("01", "b8", "r8", "hits", "dets", "ptb64"):
        stim.write_shot_data_file(data=shots, path=root / f"shots.{form}", format=form, num_detectors=2)
    (root / "code.stim").write_text(
        str(stim.Circuit.generated("repetition_code:memory", distance=3, rounds=2))
    )
    np.savez(root / "code.npz", H=MATRIX)
    np.save(root / "code.npy", MATRIX)
    (root / "code.mtx").write_text(
        "%%MatrixMarket matrix coordinate integer general\n2 3 4\n1 1 1\n1 2 1\n2 2 1\n2 3 1\n"
    )
    (root / "code.alist").write_text("3 2\n2 2\n1 2 1\n2 2\n1 0\n1 2\n2 0\n1 2\n2 3\n")
    (root / "code.json").write_text(json.dumps(TANNER))
    (root / "code.edges").write_text("c0 b0\nc0 b1\nc1 b1\nc1 b2\n")
    (root / "code.graphml").write_text(_graphml())
    (root / "env.dem.json").write_bytes(environment("stim_circuit", "model.dem"))
    (root / "env.stim.json").write_bytes(environment("stim_circuit", "code.stim"))
    for suffix in (".mtx", ".alist", ".npz", ".npy"):
        (root / f"env{suffix}.json").write_bytes(environment("parity_check_matrix", f"code{suffix}"))
    for suffix in (".json", ".edges", ".graphml"):
        (root / f"env{suffix}.json").write_bytes(environment("tanner_graph", f"code{suffix}"))


def _graphml() -> str:
    nodes = "".join(f'<node id="b{i}"/>' for i in range(3)) + "".join(f'<node id="c{i}"/>' for i in range(2))
    edges = "".join(
        f'<edge source="{a}" target="{b}"/>'
        for a, b in (("c0", "b0"), ("c0", "b1"), ("c1", "b1"), ("c1", "b2"))
    )
    head = '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">'
    return f"{head}{nodes}{edges}</graph></graphml>"


def _round(root: Path) -> None:
    """A round with a real checkpoint, outside any run."""
    env = load_env(root / "env.yaml")
    dsl = PredecoderDSL.model_validate(CONFIG)
    info = checkpoint.CheckpointInfo(
        dsl=dsl,
        output_mode="soft_priors",
        env_name=env.spec.name,
        env_hash=env.content_hash,
        seed=0,
        train_labels=(0, -1),
        versions={},
    )
    (root / "real").mkdir()
    checkpoint.save(root / "real", compile_predecoder(dsl, env.problem(0.01)), info)
    (root / "real" / "config.yaml").write_text(yaml.safe_dump(CONFIG))
    recorded = {"env_name": env.spec.name, "env_yaml_path": str(root / "missing.yaml")}
    (root / "real" / "artifact_manifest.json").write_text(json.dumps(recorded))


def odd_files(folder: Path) -> dict[str, str]:
    """Things that stand where a file or a folder should be, by what they are. Made anew if they are there.

    None of them lies outside the folder: a command that takes one for its output must not reach the machine's own files.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    made: dict[str, bytes] = {
        "garbage": bytes(range(256)) * 8,
        "empty": b"",
        "bom": b"\xef\xbb\xbf",
        "utf16": "name: x\n".encode("utf-16"),
        "nested": b"[" * 100_000,
        "line\nbreak": b"x",
    }
    for name, data in made.items():
        (folder / name).write_bytes(data)
    half = Path(os.fsdecode(os.fsencode(folder) + b"/half\xff"))
    half.write_bytes(b"x")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket"))
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    (folder / "endless").symlink_to("/dev/zero")
    (folder / "closed").write_bytes(b"x")
    (folder / "closed").chmod(0)
    names = {
        name: str(folder / name)
        for name in (*made, "folder", "pipe", "socket", "loop", "dangling", "endless", "closed")
    }
    return names | {
        "missing": str(folder / "missing"),
        "below a file": str(folder / "empty" / "below"),
        "below nothing": str(folder / "missing" / "below"),
        "long": str(folder / ("x" * 5_000)),
        "half a character": str(half),
        "nul": "a\0b",
        "no name": "",
    }
