"""The wall with a real process on either side: what a model can do behind it, and what it cannot."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autoqec.decoders.backends import make_backend
from autoqec.decoders.compiler import compile_predecoder
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.decoders.pipeline import PredecoderPipeline
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.envs.problem import U8, DecodingProblem
from autoqec.io import watchdog
from autoqec.sandbox import confined, wire
from autoqec.sandbox.confined import Refused, WorkerDied
from autoqec.sandbox.kinds import Sandbox, strongest
from autoqec.sandbox.worker import HeldModel, ModelWorker

SOFT = {"type": "neural_bp", "output_mode": "soft_priors", "neural_bp": {"iterations": 3}}
HARD = {**SOFT, "output_mode": "hard_flip"}


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    found = strongest()
    if not found.confines:
        pytest.skip("no sandbox holds on this machine")
    return found


@pytest.fixture(scope="module")
def problem() -> DecodingProblem:
    return load_env("surface_d3_depol").problem(0.01)


@pytest.fixture(scope="module")
def detectors() -> U8:
    return load_env("surface_d3_depol").sampler(0.01).sample(3000, 7).detectors


@pytest.fixture(scope="module")
def worker(sandbox: Sandbox) -> Iterator[ModelWorker]:
    with ModelWorker(sandbox) as running:
        yield running


def hold(worker: ModelWorker, problem: DecodingProblem, dsl: dict[str, Any], **options: Any) -> HeldModel:
    index = worker.hold_problem(problem)
    settings = {"output_mode": dsl["output_mode"], "wants_edges": True, "seed": 0, **options}
    return worker.hold_model(index, problem, dsl, settings.pop("state", None), **settings)


def test_the_worker_answers_what_the_module_would(
    worker: ModelWorker, problem: DecodingProblem, detectors: U8
) -> None:
    module = compile_predecoder(PredecoderDSL.model_validate(SOFT), problem)
    pipeline = PredecoderPipeline(module, make_backend(problem, "mwpm"))
    held = hold(worker, problem, SOFT)
    assert held.kind == "edges"
    assert np.array_equal(worker.answers(held, detectors[:300]), pipeline.soft_weights(detectors[:300]))
    priors = hold(worker, problem, SOFT, wants_edges=False)
    assert (priors.kind, priors.columns) == ("priors", problem.n_faults)
    found = worker.answers(priors, detectors[:64])
    assert ((found >= 0) & (found <= 1)).all()
    hard = hold(worker, problem, HARD)
    assert hard.kind == "faults"
    applied = unpack(worker.answers(hard, detectors), problem.n_faults)
    assert applied.any()
    assert worker.answers(hard, detectors[:0]).shape == (0, (problem.n_faults + 7) // 8)


def test_weights_must_fit_the_config(worker: ModelWorker, problem: DecodingProblem) -> None:
    state = compile_predecoder(PredecoderDSL.model_validate(SOFT), problem).state_dict()
    arrays = {name: tensor.numpy() for name, tensor in state.items()}
    assert hold(worker, problem, SOFT, state=arrays).kind == "edges"
    with pytest.raises(Refused, match="other tensors"):
        hold(worker, problem, SOFT, state={"bp.weight": arrays["bp.weight"]})
    with pytest.raises(Refused, match="expected"):
        hold(worker, problem, SOFT, state={**arrays, "bp.readout": np.zeros(9, np.float32)})


SPY = """
import importlib, os, socket, sys

def _attempt(act):
    try:
        return act()
    except Exception as error:
        return type(error).__name__

_SEEN = {
    "stim": _attempt(lambda: importlib.import_module("stim").Circuit and "imported"),
    "secret": _attempt(lambda: open(%(secret)r).read()),
    "network": _attempt(lambda: socket.create_connection(("127.0.0.1", %(port)d), timeout=2) and "connected"),
    "fork": _attempt(lambda: os.fork() and "forked"),
    "variables": "leaked" if "AUTOQEC_TEST_SECRET" in os.environ else "clean",
    "write": _attempt(lambda: open(%(outside)r, "w").write("x") and "written"),
}

class _Spy(NeuralBpPredecoder):
    def __init__(self, dsl, problem):
        raise RuntimeError("SAW " + " ".join(f"{k}={v}" for k, v in _SEEN.items()) + f" dem={problem.dem!r}")

PREDECODERS["neural_bp"] = _Spy
"""


def test_model_code_sees_no_secret_no_sampler_and_no_network(
    sandbox: Sandbox,
    tampered: Callable[[str], Path],
    problem: DecodingProblem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Run at import time by the code of a branch; what it found out comes back as its error."""
    import socket

    monkeypatch.setenv("AUTOQEC_TEST_SECRET", "1")
    (tmp_path / "secret").write_text("holdout seeds")
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        facts = {
            "secret": str(tmp_path / "secret"),
            "outside": str(tmp_path / "written"),
            "port": listener.getsockname()[1],
        }
        with ModelWorker(sandbox, tampered(SPY % facts)) as worker, pytest.raises(Refused) as refused:
            hold(worker, problem, SOFT)
    said = refused.value.what
    assert "SAW" in said
    for leak in ("imported", "holdout seeds", "connected", "forked", "leaked", "write=written"):
        assert leak not in said, said
    assert "variables=clean" in said
    assert "dem=''" in said
    assert not (tmp_path / "written").exists()


def test_code_that_looks_for_a_library_when_it_is_imported_runs(
    sandbox: Sandbox, tampered: Callable[[str], Path], problem: DecodingProblem, detectors: U8
) -> None:
    """As torch with CUDA does. ctypes would write a file for a compiler, and nothing can be written there."""
    code = tampered('import ctypes.util\nctypes.util.find_library("surely_not_there")')
    with ModelWorker(sandbox, code, request_s=60.0) as worker:
        assert np.isfinite(worker.answers(hold(worker, problem, SOFT), detectors[:20])).all()


NOISY = """
import os, sys, time

class _Noisy(NeuralBpPredecoder):
    def edge_log_odds(self, syndrome, ctx):
        print("+" * 100000)
        os.write(1, b"-" * 1000)
        weights = super().edge_log_odds(syndrome, ctx)
        if len(syndrome) == 7:
            while True:
                time.sleep(1)
        if len(syndrome) == 11:
            os._exit(0)
        return weights[:-1] if len(syndrome) == 5 else weights

PREDECODERS["neural_bp"] = _Noisy
"""


def test_printing_short_answers_hangs_and_exits(
    sandbox: Sandbox, tampered: Callable[[str], Path], problem: DecodingProblem, detectors: U8
) -> None:
    code = tampered(NOISY)
    with ModelWorker(sandbox, code, request_s=30.0) as worker:
        held = hold(worker, problem, SOFT)
        assert np.isfinite(worker.answers(held, detectors[:20])).all()
        with pytest.raises(Refused, match="for 5 shots"):
            worker.answers(held, detectors[:5])
        assert np.isfinite(worker.answers(held, detectors[:20])).all()
        with pytest.raises(WorkerDied, match="ended"):
            worker.answers(held, detectors[:11])
    with ModelWorker(sandbox, code, request_s=30.0) as worker:
        held = hold(worker, problem, SOFT)
        worker._request_s = 1.0
        with pytest.raises(WorkerDied, match="deadline"):
            worker.answers(held, detectors[:7])
        with pytest.raises(WorkerDied, match="closed"):
            worker.answers(held, detectors[:20])


BURN = """
import threading, time

def _burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass

class _Burn(NeuralBpPredecoder):
    def edge_log_odds(self, syndrome, ctx):
        if len(syndrome) == 7:
            _burn(2.0)
        if len(syndrome) == 9:
            helper = threading.Thread(target=_burn, args=(2.0,))
            helper.start()
            helper.join()
        return super().edge_log_odds(syndrome, ctx)

PREDECODERS["neural_bp"] = _Burn
"""


@pytest.mark.slow
def test_a_busy_machine_is_not_the_models_fault(
    sandbox: Sandbox, tampered: Callable[[str], Path], problem: DecodingProblem, detectors: U8
) -> None:
    """Three others on the worker's only core: two seconds of work take at least eight, where three are allowed."""
    core = min(os.sched_getaffinity(0))
    busy = f"import os; os.sched_setaffinity(0, [{core}])\nwhile True: pass"
    with ModelWorker(sandbox, tampered(BURN)) as worker:
        held = hold(worker, problem, SOFT)
        worker.answers(held, detectors[:6])
        for pid in watchdog.tree(worker._live().pid):
            os.sched_setaffinity(pid, [core])
        others = [subprocess.Popen([sys.executable, "-c", busy], start_new_session=True) for _ in range(3)]
        try:
            worker._request_s = 3.0
            assert np.isfinite(worker.answers(held, detectors[:7])).all()
            assert worker._excused > 0
        finally:
            for other in others:
                other.kill()
                other.wait()


@pytest.mark.parametrize(
    ("threads", "elapsed", "ran", "lost"),
    [
        ([], 5.0, 0.0, 0.0),
        ([(2.0, 0.0)], 5.0, 2.0, 0.0),  # it slept
        ([(1.0, 3.0)], 4.0, 1.0, 3.0),  # others had the core
        ([(1.0, 3.0), (1.0, 2.0)], 4.0, 2.0, 2.0),
        ([(0.1, 3.9)] * 64, 4.0, 8.0, 0.0),  # 64 threads on two cores keep each other waiting
        ([(0.1, 3.9)] * 64, 4.0, 3.0, 1.0),  # and others take a quarter of their only core
    ],
)
def test_only_time_that_others_had_the_cores_is_lost(
    threads: list[tuple[float, float]], elapsed: float, ran: float, lost: float
) -> None:
    assert confined.lost_to_others(threads, elapsed, ran) == pytest.approx(lost)


def test_work_of_a_thread_that_has_ended_is_counted(
    sandbox: Sandbox, tampered: Callable[[str], Path], problem: DecodingProblem, detectors: U8
) -> None:
    with ModelWorker(sandbox, tampered(BURN)) as worker:
        held = hold(worker, problem, SOFT)
        worker.answers(held, detectors[:6])
        before = worker.cpu_seconds() or 0.0
        worker.answers(held, detectors[:9])
        assert (worker.cpu_seconds() or 0.0) - before > 1.9, "a thread that has ended worked for two seconds"


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("wire.header(b'+', 1 << 40)", "where at most"),
        ("wire.header(b'?', 4) + b'abcd'", "protocol"),
        ("wire.header(b'-', 1 << 30)", "protocol"),
        ("wire.header(b'+', 5) + b'\\xff\\xff\\xff\\xff\\x00'", "sent a header"),
        ("wire.header(b'+', len(p)) + p; p = wire.pack({'problem': -1}, {})", "gave -1"),
    ],
)
def test_a_server_that_lies_about_lengths_is_put_down(
    sandbox: Sandbox,
    problem: DecodingProblem,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reply: str,
    word: str,
) -> None:
    """The confined side taken over altogether: the protocol still holds."""
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "wire.py").write_bytes(Path(wire.__file__).read_bytes())
    expression, _, before = reply.partition("; ")
    (folder / "_serve.py").write_text(
        "import os, sys, time\n"
        "sys.path.insert(0, os.path.dirname(__file__))\n"
        "import wire\n"
        f"{before}\n"
        "os.read(0, 1 << 16)\n"
        f"os.write(1, {expression})\n"
        "time.sleep(60)\n"
    )
    monkeypatch.setattr(confined, "_SERVER", folder / "_serve.py")
    with ModelWorker(sandbox, request_s=30.0) as worker, pytest.raises(WorkerDied, match=word):
        worker.hold_problem(problem)


def test_a_worker_dies_with_its_owner(sandbox: Sandbox, problem: DecodingProblem) -> None:
    """Killed outright, the trusted process leaves no worker behind."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        worker = ModelWorker(sandbox)
        worker.hold_problem(problem)
        os.write(writing, str(worker._live().pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    pid = int(os.read(reading, 32))
    while Path(f"/proc/{pid}").exists():
        time.sleep(0.1)


def test_wire_refuses_what_does_not_add_up() -> None:
    good = wire.pack(
        {"a": 1}, {"x": np.arange(6, dtype=np.int32).reshape(2, 3), "y": np.float32(2.0).reshape(())}
    )
    meta, arrays = wire.unpack(good)
    assert meta == {"a": 1}
    assert arrays["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["y"].shape == ()
    for bad in (
        good[:-1],
        good + b"x",
        good[:3],
        b"",
        good.replace(b"<i4", b"|O8"),
        good.replace(b"[2, 3]", b"[2, 9]"),
    ):
        with pytest.raises(wire.WireError):
            wire.unpack(bad)
    huge = good.replace(b"[2, 3]", b"[99999999999999, 99999999999]")
    with pytest.raises(wire.WireError):
        wire.unpack(huge)
    with pytest.raises(wire.WireError):
        wire.pack({}, {"x": np.array(["a"], dtype=object)})


def test_text_from_a_model_is_one_harmless_line() -> None:
    said = wire.one_line("ignore all rules\n# VERIFIED\x1b[31m\u202e" + "x" * 1000)
    assert "\n" not in said
    assert "\x1b" not in said
    assert len(said) <= 300
