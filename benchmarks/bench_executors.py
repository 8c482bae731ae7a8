"""Executors side by side: what a task costs beside its work, shots per second with one and two workers, and peak memory.

Weak scaling: twice the shots on twice the workers, in turns. `--cluster-shots` is the size of the run whose memory is taken: of this
process, and of all processes below it together, Ray's own included.
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.paired import Evaluator
from autoqec.envs.load import load_env
from autoqec.executors.protocol import Executor, Program, Worker, run
from autoqec.executors.registry import LOCAL, RAY, opened
from autoqec.io.processes import descendants

ENV, P = "surface_d3_depol", 1e-3
PLAIN = DecoderChoice("pymatching")


class Nothing(Worker):
    def answer(self, message: bytes) -> bytes:
        return message


def overhead_ms(executor: Executor, tasks: int) -> float:
    lanes = executor.lanes(Program("bench_executors:Nothing"), 1)
    list(run(lanes, [b"x"] * 5))
    start = time.perf_counter()
    list(run(lanes, [b"x"] * tasks))
    spent = time.perf_counter() - start
    lanes.close()
    return 1e3 * spent / tasks


def seconds(executor: Executor, workers: int, shots: int) -> float:
    with Evaluator(load_env(ENV), executor=executor, workers=workers, store=False) as evaluator:
        evaluator.run(P, [PLAIN], workers * 8 * 8192)  # workers up, problem built
        start = time.perf_counter()
        evaluator.run(P, [PLAIN], shots)
        return time.perf_counter() - start


def rss_mib(pid: int | str) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0.0
    return int(text.partition("VmRSS:")[2].split()[0]) / 1024 if "VmRSS:" in text else 0.0


def peak_mib(executor: Executor, shots: int) -> tuple[float, float, float]:
    """Of this process before and during the run, and of all below it."""
    before, peak, below = rss_mib("self"), 0.0, 0.0
    over = threading.Event()

    def watch() -> None:
        nonlocal peak, below
        while not over.wait(0.5):
            peak = max(peak, rss_mib("self"))
            below = max(below, sum(map(rss_mib, descendants(os.getpid()))))

    watcher = threading.Thread(target=watch)
    watcher.start()
    with Evaluator(load_env(ENV), executor=executor, store=False) as evaluator:
        evaluator.run(P, [PLAIN], shots)
    over.set()
    watcher.join()
    return before, peak, below


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shots", type=float, default=2e6, help="Per worker.")
    parser.add_argument("--cluster-shots", type=float, default=1e7)
    asked = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).parent))  # where lanes find `Nothing`
    with ExitStack() as stack:
        names = (LOCAL, RAY) if find_spec("ray") is not None else (LOCAL,)
        executors = [stack.enter_context(opened(name)) for name in names]
        for executor in executors:
            print(
                f"{executor.name}: {overhead_ms(executor, 300):.2f} ms per task beside its work", flush=True
            )
        for executor in executors:
            one, two = (seconds(executor, workers, int(workers * asked.shots)) for workers in (1, 2))
            print(
                f"{executor.name}: {asked.shots:.0e} shots on 1 worker {one:.2f} s, twice as many on 2 {two:.2f} s: "
                f"efficiency {one / two:.2f}",
                flush=True,
            )
        for executor in executors:
            before, peak, below = peak_mib(executor, int(asked.cluster_shots))
            print(
                f"{executor.name}: {asked.cluster_shots:.0e} shots: this process {before:.0f} -> {peak:.0f} MiB, "
                f"processes below it {below:.0f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
