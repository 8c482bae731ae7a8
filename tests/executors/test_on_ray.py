"""A real Ray cluster of up to three nodes on this machine: the same failures, verdicts and rounds, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import untrained_rounds
import yaml
from deadlines import soon

import autoqec
from autoqec.decoders.paired.evaluate import CHUNK
from autoqec.errors import InputError
from autoqec.executors.protocol import MOST_LOSSES, GivenUp, Program, run
from autoqec.executors.registry import opened
from autoqec.layout import RunDir

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray

P = 0.01
STORE = 80 << 20
HERE = Path(__file__).parent
ENV = {
    "name": "tiny",
    "code": {"type": "stim_circuit", "source": "surface_code:rotated_memory_z?distance=3&rounds=3"},
    "noise": {"type": "depolarizing", "p": [P], "reference_p": P},
    "constraints": {},
    "baseline_decoders": ["pymatching"],
    "classical_backend": "mwpm",
    "eval_protocol": {"min_shots_train": 5_000, "min_shots_val": 10_000, "min_shots_verify": 10_000},
}
CONFIG = {
    "type": "neural_bp",
    "output_mode": "soft_priors",
    "neural_bp": {"iterations": 4},
    "training": {"epochs": 0},
}
ECHO = Program("lane_workers:Echo", {"PYTHONPATH": os.pathsep.join(sys.path)})
PASSING = replace(ECHO, is_kept=False)
"""It takes a core only while it works."""


class Nodes:
    """A cluster of one-core nodes, of which all but the first can be killed."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 1, "num_gpus": 0, "object_store_memory": STORE, "include_dashboard": False}
        self._cluster = Cluster(initialize_head=True, head_node_args=head)
        self._others: list[Any] = []

    @property
    def executor(self) -> str:
        return f"ray:{self._cluster.address}"

    def become(self, count: int) -> None:
        while len(self._others) + 1 < count:
            self._others.append(self._cluster.add_node(num_cpus=1, num_gpus=0, object_store_memory=STORE))
        while len(self._others) + 1 > count:
            self.kill()

    def with_a_gpu(self) -> None:
        """One more node, which says that it has one: Ray shares what is declared."""
        self._others.append(self._cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE))

    def kill(self) -> None:
        """One node, without a word to anybody."""
        self._cluster.remove_node(self._others.pop(), allow_graceful=False)

    def end(self) -> None:
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    made = Nodes()
    yield made
    made.end()


@pytest.fixture(scope="module")
def env_yaml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("env") / "tiny.yaml"
    path.write_text(yaml.safe_dump(ENV))
    return path


def failures(env: Path, **options: Any) -> dict[str, np.ndarray]:
    found = autoqec.compare(env, ["pymatching"], p=P, shots=20 * CHUNK + 5, reuse=False, **options)
    return found.results[0].failures


def test_a_baseline_has_the_same_failures_on_any_number_of_nodes(nodes: Nodes, env_yaml: Path) -> None:
    here = failures(env_yaml, workers=1)
    for count in (1, 2, 3):
        nodes.become(count)
        there = failures(env_yaml, executor=nodes.executor)
        assert np.array_equal(there["pymatching"], here["pymatching"]), count


def test_a_node_that_is_killed_costs_no_shot_and_doubles_none(nodes: Nodes, env_yaml: Path) -> None:
    nodes.become(3)
    left = [nodes.kill]

    def progress(_p: float, _done: int, _wanted: int) -> None:
        if left:
            left.pop()()

    there = failures(env_yaml, executor=nodes.executor, progress=progress)
    assert not left
    assert np.array_equal(there["pymatching"], failures(env_yaml, workers=1)["pymatching"])


@pytest.mark.parametrize("program", [ECHO, PASSING], ids=["kept", "passing"])
def test_lost_workers_are_replaced_and_a_deadly_message_is_given_up(
    nodes: Nodes, tmp_path: Path, program: Program
) -> None:
    deadly, attempts = tmp_path / "once", tmp_path / "attempts"
    deadly.touch()
    words = [b"a", f"die:{deadly}".encode(), b"b"]
    with opened(nodes.executor) as executor:
        lanes = executor.lanes(program, 1)
        lanes.tell(b"told ")
        assert dict(run(lanes, words)) == {place: b"told " + word for place, word in enumerate(words)}
        lanes.send(f"always:{attempts}".encode())
        with pytest.raises(GivenUp, match="a worker process ended"):
            lanes.receive()
        lanes.close()
    assert len(attempts.read_text().splitlines()) == MOST_LOSSES


def test_work_that_passes_begins_and_leaves_its_core_while_nobody_receives(
    nodes: Nodes, tmp_path: Path
) -> None:
    """Three messages for two cores, as rounds that train while another one is verified."""
    nodes.become(2)
    notes = [tmp_path / name for name in "abc"]
    with opened(nodes.executor) as executor:
        lanes = executor.lanes(PASSING, 3)
        sent = {lanes.send(f"touch:{note}".encode()) for note in notes}
        soon(lambda: all(note.exists() for note in notes))
        soon(lambda: ray.available_resources().get("CPU") == 2)
        assert {lanes.receive()[0] for _ in notes} == sent
        lanes.close()


def test_work_that_passes_ends_when_it_is_stopped(nodes: Nodes, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    with opened(nodes.executor) as executor:
        lanes = executor.lanes(PASSING, 1)
        lanes.send(f"stay:{note}".encode())
        soon(lambda: note.exists() and note.read_text().endswith("\n"))
        lanes.stop()
        soon(lambda: not Path(f"/proc/{int(note.read_text())}").exists())


@pytest.mark.parametrize(
    ("cpus", "gpus", "reason"), [(1, 1, "1 GPUs; its nodes"), (1, 1.5, "no 1.5 GPUs"), (9, 0, "9 cores")]
)
def test_what_no_node_will_ever_have_is_refused(
    nodes: Nodes, env_yaml: Path, tmp_path: Path, cpus: float, gpus: float, reason: str
) -> None:
    options: dict[str, Any] = {"round_cpus": cpus, "round_gpus": gpus, "executor": nodes.executor}
    with pytest.raises(InputError, match=reason):
        autoqec.run(env_yaml, rounds=1, no_llm=True, workspace=tmp_path, own_repository=True, **options)
    assert not list(tmp_path.iterdir())


def test_two_rounds_share_a_gpu_and_a_third_waits_for_it(nodes: Nodes, tmp_path: Path) -> None:
    nodes.become(1)
    nodes.with_a_gpu()
    half = replace(PASSING, cpus=0.25, gpus=0.5)
    notes = [tmp_path / name for name in "abc"]
    with opened(nodes.executor) as executor:
        soon(lambda: executor.share(2)[1] == 0.5)
        lanes = executor.lanes(half, 3)
        for note in notes:
            lanes.send(f"stay:{note}".encode())
        soon(lambda: sum(note.exists() for note in notes) == 2)
        soon(lambda: not ray.available_resources().get("GPU"))
        assert sum(note.exists() for note in notes) == 2
        lanes.stop()
        soon(lambda: ray.available_resources().get("GPU") == 1)
        lanes = executor.lanes(half, 2)
        asked = [lanes.send(b"variable:CUDA_VISIBLE_DEVICES") for _ in range(2)]
        assert dict(lanes.receive() for _ in asked) == dict.fromkeys(asked, b"0")
        lanes.close()
    nodes.kill()


def test_a_cluster_that_does_not_answer_is_said_before_anything_is_done(
    env_yaml: Path, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"ray:127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(InputError, match="no Ray cluster"):
        autoqec.train(env_yaml, CONFIG, tmp_path / "round_1", executor=nobody)
    with pytest.raises(InputError, match="no Ray cluster"):
        autoqec.run(env_yaml, rounds=1, no_llm=True, workspace=tmp_path, own_repository=True, executor=nobody)
    assert not list(tmp_path.iterdir())


def test_answers_that_do_not_fit_into_the_object_store_arrive(nodes: Nodes) -> None:
    """Each takes a quarter of it; Ray puts on disk what does not fit, and answers are taken one by one."""
    large = b"x" * (STORE // 4)
    with opened(nodes.executor) as executor:
        lanes = executor.lanes(ECHO, 1)
        found = [len(answer) for _, answer in run(lanes, [large] * 8)]
        lanes.close()
    assert found == [len(large)] * 8


def measured(report: Any) -> dict[str, Any]:
    """What a verification found, without its times."""
    kept = (
        "verdict",
        "ler_holdout",
        "ler_holdout_ci",
        "delta_ler_holdout",
        "ler_shuffled",
        "p_gain",
        "shots",
    )
    rows = [row.model_dump(include={"p", "b", "c", "both", "shots"}) for row in report.per_p]
    guards = {guard.name: guard.ok for guard in report.guards}
    bundle = report.paired_eval_bundle_id
    return {
        **{name: getattr(report, name) for name in kept},
        "rows": rows,
        "guards": guards,
        "bundle": bundle,
    }


def test_a_verification_says_the_same_on_any_number_of_nodes(
    nodes: Nodes, env_yaml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the shots of one bundle: a fresh one is different every time."""
    monkeypatch.setenv("AUTOQEC_HOME", str(tmp_path / "home"))
    folder = autoqec.train(env_yaml, CONFIG, tmp_path / "round_1").path
    options: dict[str, Any] = {"shots": 10_000, "cap": 10_000, "kind": "dev", "baseline_seconds": 60.0}
    here = measured(autoqec.verify(folder, env_yaml, **options))
    for count in (1, 2, 3):
        nodes.become(count)
        assert measured(autoqec.verify(folder, env_yaml, executor=nodes.executor, **options)) == here, count


def rows_of(files: RunDir) -> list[dict[str, Any]]:
    return [json.loads(line) for line in files.history.read_text().splitlines()]


def told(files: RunDir) -> list[dict[str, Any]]:
    """Seeds, configs and metrics of all rounds, without times."""
    names = (
        "round",
        "status",
        "train_seed",
        "config_hash",
        "branch",
        "fork_from",
        "ler_predecoder",
        "delta_ler",
    )
    names += (
        "ler_plain_classical",
        "flops_per_syndrome",
        "n_params",
        "checkpoint_sha256",
        "train_loss_final",
    )
    return [{name: row.get(name) for name in names} for row in rows_of(files)]


def front(files: RunDir) -> list[dict[str, Any]]:
    return [
        {name: row[name] for name in ("round", "delta_ler", "flops_per_syndrome", "n_params")}
        for row in json.loads(files.candidate_pareto.read_text())
    ]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    variables = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "AUTOQEC_HOME": str(tmp_path / "home")}
    begun = []

    def begin(folder: Path, *words: str) -> subprocess.Popen[bytes]:
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, **variables}
        command = [sys.executable, *words]
        begun.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL))
        return begun[-1]

    yield begin
    for process in begun:
        process.terminate()
        process.wait()


def processes_of(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and entry.name != str(os.getpid()):
            try:
                words = (entry / "cmdline").read_bytes().decode(errors="replace").replace("\0", " ")
            except OSError:
                continue
            if str(folder) in words:
                found.append(words)
    return found


def test_six_rounds_side_by_side_survive_a_killed_node_and_a_killed_driver(
    nodes: Nodes, start: Callable[..., subprocess.Popen[bytes]], env_yaml: Path, tmp_path: Path
) -> None:
    nodes.become(3)
    smoke = ("-m", "cli.autoqec", "run", str(env_yaml), "--no-llm", "--own-repository")
    wild, calm = tmp_path / "wild", tmp_path / "calm"
    files, serial = (RunDir(folder / "runs" / "same") for folder in (wild, calm))
    parallel = ("--parallel", "3", "--round-cpus", "1", "--executor", nodes.executor)
    driver = start(wild, *smoke, "--rounds", "6", "--run-id", "same", *parallel)
    soon(lambda: files.round(2).train_log.exists() or files.round(3).train_log.exists())
    nodes.kill()
    soon(lambda: files.history.exists() and len(rows_of(files)) >= 2)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    assert len(rows_of(files)) < 6
    assert start(wild, *smoke, "--resume", "same", *parallel).wait() == 0
    assert start(calm, *smoke, "--rounds", "6", "--run-id", "same").wait() == 0
    assert told(files) == told(serial)
    assert [row["round"] for row in rows_of(files)] == [1, 2, 3, 4, 5, 6]
    assert front(files) == front(serial)
    assert not list(files.in_flight.glob("*.json"))
    repository = next((wild / ".autoqec").iterdir())
    assert not list((repository / ".worktrees").glob("*"))
    soon(lambda: not processes_of(wild))


def test_a_round_is_verified_while_more_rounds_are_in_flight_than_there_are_cores(
    nodes: Nodes, start: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    nodes.become(2)
    env = tmp_path / "gains.yaml"
    code = {"type": "stim_circuit", "source": "surface_code:rotated_memory_z?distance=5&rounds=5"}
    env.write_text(yaml.safe_dump({**ENV, "name": "gains", "code": code}))
    driver = start(tmp_path, str(HERE / "untrained_rounds.py"), str(env), str(tmp_path), nodes.executor)
    soon(lambda: driver.poll() is not None, within_s=3600)
    assert driver.returncode == 0
    files = RunDir(tmp_path / "runs" / untrained_rounds.RUN_ID)
    assert [row["round"] for row in rows_of(files)] == [1, 2, 3]
    assert files.round(1).report.exists()
