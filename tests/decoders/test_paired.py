"""Paired evaluation: the same shots for everyone, whatever the workers, the interruptions and the order."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pymatching
import pytest

import autoqec
from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.paired import Evaluator
from autoqec.decoders.paired.evaluate import CHUNK
from autoqec.decoders.paired.store import FailureStore, Record
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.envs.seeds import derive_seed
from autoqec.errors import AutoQECError, InputError
from autoqec.sandbox.kinds import SANDBOXES, Sandbox, probe

PLAIN, CORRELATED = DecoderChoice("pymatching"), DecoderChoice("pymatching_correlated")
P = 0.01


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("AUTOQEC_CACHE", str(tmp_path / "cache"))


def run(shots: int, *choices: DecoderChoice, workers: int = 1, **options):
    with Evaluator(load_env("surface_d3_depol"), workers=workers, **options) as evaluator:
        return evaluator.run(P, choices, shots)


def test_failures_are_those_of_pymatching_itself() -> None:
    env = load_env("surface_d3_depol")
    shots = 2 * CHUNK + 100
    result = run(shots, PLAIN)
    circuit = env.circuit(P)
    matching = pymatching.Matching.from_detector_error_model(
        circuit.detector_error_model(decompose_errors=True)
    )
    wrong = []
    for label in range(3):
        sampled = env.sampler(P).sample(CHUNK, derive_seed("baseline", env.stream(P), label))
        predicted = matching.decode_batch(unpack(sampled.detectors, circuit.num_detectors))
        wrong.append((predicted != unpack(sampled.observables, 1)).any(axis=1))
    expected = np.concatenate(wrong)[:shots]
    assert (np.unpackbits(result.failures["pymatching"], count=shots, bitorder="little") == expected).all()
    assert result.count("pymatching") == expected.sum()


def test_workers_change_nothing() -> None:
    alone = run(5 * CHUNK + 8, PLAIN, CORRELATED, store=False)
    many = run(5 * CHUNK + 8, PLAIN, CORRELATED, workers=2, store=False)
    assert alone.shots == many.shots == 5 * CHUNK + 8
    for name in alone.failures:
        assert (alone.failures[name] == many.failures[name]).all()


def test_later_decoders_join_the_same_shots() -> None:
    run(2 * CHUNK, PLAIN)
    later = run(3 * CHUNK, PLAIN, CORRELATED)
    together = run(3 * CHUNK, PLAIN, CORRELATED, store=False)
    for name in together.failures:
        assert (later.failures[name] == together.failures[name]).all()
    assert later.pair("pymatching", "pymatching_correlated") == together.pair(
        "pymatching", "pymatching_correlated"
    )


def test_second_run_decodes_nothing_again() -> None:
    first = run(CHUNK + 5, PLAIN)
    again = run(CHUNK + 5, PLAIN)
    fewer = run(100, PLAIN)
    assert (first.reused, again.reused, fewer.reused) == (0, CHUNK + 5, 100)
    assert again.count("pymatching") == first.count("pymatching")
    assert fewer.count("pymatching") == int(
        np.unpackbits(first.failures["pymatching"], count=100, bitorder="little").sum()
    )


def test_partial_chunks_extend_to_the_same_shots() -> None:
    run(1000, PLAIN)
    extended = run(2 * CHUNK, PLAIN)
    assert (
        extended.failures["pymatching"] == run(2 * CHUNK, PLAIN, store=False).failures["pymatching"]
    ).all()


@dataclass(frozen=True)
class Watched:
    """Writes down how many shots it is given at a time, and takes long for them."""

    log: str
    name: str = "watched"
    identity: str = "watched"

    def build(self, problem):
        return self

    def decode(self, detectors):
        time.sleep(2e-4 * len(detectors))
        with Path(self.log).open("a") as file:
            file.write(f"{os.getpid()} {len(detectors)}\n")
        return np.zeros((len(detectors), 1), np.uint8)


def test_the_shots_of_one_chunk_of_a_slow_decoder_go_to_all_workers_in_the_same_pieces(
    tmp_path: Path,
) -> None:
    def pieces(workers: int) -> list[list[str]]:
        log = tmp_path / f"{workers}.log"
        with Evaluator(load_env("surface_d3_depol"), workers=workers, store=False) as evaluator:
            evaluator.run(P, [Watched(str(log))], CHUNK + 8)
        return [line.split() for line in log.read_text().splitlines() if not line.endswith(" 16")]

    alone, many = pieces(1), pieces(4)
    assert sorted(size for _, size in alone) == sorted(size for _, size in many)
    assert len({process for process, _ in many}) > 1


def test_counts_add_up() -> None:
    result = run(3 * CHUNK, PLAIN, CORRELATED)
    only_plain, only_correlated, both = result.pair("pymatching", "pymatching_correlated")
    assert only_plain + both == result.count("pymatching")
    assert only_correlated + both == result.count("pymatching_correlated")
    low, high = result.interval("pymatching")
    assert low < result.ler("pymatching") < high


@pytest.mark.slow
@pytest.mark.parametrize("before", [0, 1, 3, 20])
@pytest.mark.parametrize("workers", [1, 2])
def test_enough_failures_end_at_the_same_chunk_whatever_is_cached(before: int, workers: int) -> None:
    everything = run(12 * CHUNK, PLAIN, CORRELATED, store=False)
    bits = [everything.failures[choice.name].reshape(12, -1) for choice in (PLAIN, CORRELATED)]
    counts = np.min([np.bitwise_count(each).sum(axis=1).cumsum() for each in bits], axis=0)
    wanted = int(counts[4]) + 1  # reached in the sixth chunk by the decoder that fails less
    run(before * CHUNK, PLAIN)
    with Evaluator(load_env("surface_d3_depol"), workers=workers) as evaluator:
        result = evaluator.run(P, [PLAIN, CORRELATED], 12 * CHUNK, max_errors=wanted)
    assert result.shots == 6 * CHUNK
    assert min(result.count(choice.name) for choice in (PLAIN, CORRELATED)) >= wanted


def test_too_few_failures_take_all_shots() -> None:
    with Evaluator(load_env("surface_d3_depol"), workers=1) as evaluator:
        result = evaluator.run(P, [PLAIN], 2 * CHUNK + 8, max_errors=10**9)
    assert result.shots == 2 * CHUNK + 8
    assert not result.interrupted


def test_zero_shots_are_an_empty_answer() -> None:
    result = run(0, PLAIN)
    assert (result.shots, result.count("pymatching")) == (0, 0)
    assert result.interval("pymatching") == (0.0, 1.0)


def test_bad_requests() -> None:
    with pytest.raises(InputError, match="-1"):
        run(-1, PLAIN)
    with pytest.raises(InputError, match="twice"):
        run(10, PLAIN, PLAIN)


def test_damaged_store_is_not_trusted(tmp_path) -> None:
    first = run(CHUNK, PLAIN)
    (path,) = (tmp_path / "cache" / "failures").rglob("*.bin")
    data = bytearray(path.read_bytes())
    data[-1] ^= 0xFF
    path.write_bytes(bytes(data))
    again = run(CHUNK, PLAIN)
    assert again.reused == 0
    assert again.count("pymatching") == first.count("pymatching")


def test_a_record_of_no_shots_is_not_stored() -> None:
    store = FailureStore("a stream", "val", CHUNK)
    store.save("a decoder", Record.empty())
    assert not store.path("a decoder").exists()


def test_ctrl_c_keeps_what_was_done(tmp_path: Path) -> None:
    """The real command, interrupted by a real signal, then run again."""
    arguments = [sys.executable, "-m", "autoqec", "baseline", "surface_d5_depol", "--p", "0.005"]
    arguments += ["--decoders", "pymatching", "--shots", "400000000", "--workers", "2", "--json"]
    process = subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ
    )
    failures = tmp_path / "cache" / "failures"
    while not (failures.exists() and any(failures.rglob("*.bin"))):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert '"interrupted": true' in out
    assert "run the same command again" in err
    with Evaluator(load_env("surface_d5_depol"), workers=1) as evaluator:
        resumed = evaluator.run(0.005, [PLAIN], CHUNK)
    assert resumed.reused == CHUNK


CONFINED = """
from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.paired import Evaluator
from autoqec.decoders.paired.evaluate import CHUNK
from autoqec.envs.load import load_env
with Evaluator(load_env("surface_d3_depol"), workers=2, store=False) as evaluator:
    print(evaluator.run(0.01, [DecoderChoice("pymatching")], 3 * CHUNK).count("pymatching"))
"""


@pytest.mark.parametrize(
    "sandbox", [sandbox for sandbox in SANDBOXES if sandbox.confines], ids=lambda sandbox: sandbox.name
)
def test_worker_processes_work_behind_walls(sandbox: Sandbox, tmp_path: Path) -> None:
    if not probe(sandbox).available:
        pytest.skip(f"{sandbox.name} does not work here")
    root, out = Path(autoqec.__file__).parents[1], tmp_path / "out"
    out.mkdir()
    argv = sandbox.wrap([sys.executable, "-P", "-c", CONFINED], readable=[root / "autoqec"], writable=[out])
    done = subprocess.run(
        argv,
        cwd=out,
        env={"PYTHONPATH": str(root), "AUTOQEC_CACHE": str(out), "HOME": str(out), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == run(3 * CHUNK, PLAIN, store=False).count("pymatching")


@dataclass(frozen=True)
class Dying:
    """A decoder whose process ends, or that raises what cannot be pickled."""

    how: str
    name: str = "dying"
    identity: str = "dying"

    def build(self, problem):
        if self.how == "raise":

            class Local(Exception):
                pass

            raise Local("sorry")
        os._exit(1)


@pytest.mark.parametrize(("how", "said"), [("exit", "a worker process ended"), ("raise", "sorry")])
def test_a_worker_that_dies_or_raises_is_an_error_and_leaves_no_process(how: str, said: str) -> None:
    with (
        pytest.raises(AutoQECError, match=said),
        Evaluator(load_env("surface_d3_depol"), workers=2, store=False) as evaluator,
    ):
        evaluator.run(P, [Dying(how)], 8 * CHUNK)
