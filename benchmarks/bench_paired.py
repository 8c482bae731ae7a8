"""Paired evaluation against its parts, against sinter, and its peak memory.

Ratios are measured side by side, in turns, in one run. "parts" is Stim sampling in batches of 4096 plus PyMatching's
`decode_batch` on the same batches, with nothing around them; both per CPU second. Against sinter it is wall-clock time of
the whole call, process start included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pymatching
import sinter

from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.paired import Evaluator
from autoqec.envs.load import load_env

PLAIN = DecoderChoice("pymatching")
BATCH = 4096


def parts_rate(env, p: float, shots: int) -> float:
    circuit = env.circuit(p)
    matching = pymatching.Matching.from_detector_error_model(
        circuit.detector_error_model(decompose_errors=True)
    )
    sampler = circuit.compile_detector_sampler(seed=1)
    start = time.process_time()
    failures = 0
    for _ in range(shots // BATCH):
        detectors, observables = sampler.sample(BATCH, separate_observables=True, bit_packed=True)
        predicted = matching.decode_batch(detectors, bit_packed_shots=True, bit_packed_predictions=True)
        failures += int((predicted != observables).any(axis=1).sum())
    return shots // BATCH * BATCH / (time.process_time() - start)


def paired_rate(env, p: float, shots: int, workers: int) -> float:
    with Evaluator(env, workers=workers, store=False) as evaluator:
        evaluator.run(p, [PLAIN], workers * BATCH * 2)  # workers up, problem built
        start = time.process_time()
        evaluator.run(p, [PLAIN], shots)
        return shots / (time.process_time() - start)


def sinter_rate(env, p: float, shots: int, workers: int) -> float:
    start = time.perf_counter()
    task = sinter.Task(circuit=env.circuit(p), json_metadata={"p": p})
    sinter.collect(num_workers=workers, tasks=[task], decoders=["pymatching"], max_shots=shots)
    return shots / (time.perf_counter() - start)


def paired_rate_with_start(env, p: float, shots: int, workers: int) -> float:
    start = time.perf_counter()
    with Evaluator(env, workers=workers, store=False) as evaluator:
        evaluator.run(p, [PLAIN], shots)
    return shots / (time.perf_counter() - start)


def median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def peak_memory(shots: int) -> float:
    """Peak resident memory in MiB of an evaluation: the sum over all of its processes, each at its own peak."""
    code = f"""
import os
from pathlib import Path
from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.paired import Evaluator
from autoqec.envs.load import load_env

def peak(pid):
    for line in Path("/proc", pid, "status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0

if __name__ == "__main__":
    os.setsid()
    with Evaluator(load_env("surface_d3_depol"), workers=2) as evaluator:
        evaluator.run(0.005, [DecoderChoice("pymatching"), DecoderChoice("pymatching_correlated")], {shots})
        ours = [p for p in os.listdir("/proc") if p.isdigit() and os.getsid(int(p)) == os.getsid(0)]
        print(len(ours), sum(peak(p) for p in ours) / 1024)
"""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "evaluate.py"
        script.write_text(code)
        run = subprocess.run(
            [sys.executable, str(script)],
            check=True,
            capture_output=True,
            text=True,
            env={**os.environ, "AUTOQEC_CACHE": folder},
            start_new_session=False,
        )
    processes, total = run.stdout.split()
    if int(processes) < 4:
        raise RuntimeError("the workers were not seen, so their memory was not counted")
    return float(total)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-shots", type=int, default=10_000_000)
    options = parser.parse_args()
    print(
        "| env | p | parts, shots/s | paired, 1 process | ratio | sinter, 2 workers | paired, 2 workers | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, shots in (
        ("surface_d3_depol", 2_000_000),
        ("surface_d5_depol", 400_000),
        ("surface_d7_depol", 120_000),
    ):
        env, p = load_env(name), 5e-3
        parts, paired, theirs, ours = [], [], [], []
        for _ in range(options.repeats):
            parts.append(parts_rate(env, p, shots // 4))
            paired.append(paired_rate(env, p, shots // 4 // BATCH * BATCH, 1))
            theirs.append(sinter_rate(env, p, shots, 2))
            ours.append(paired_rate_with_start(env, p, shots, 2))
        row = (median(parts), median(paired), median(theirs), median(ours))
        print(
            f"| {name} | {p:g} | {row[0]:,.0f} | {row[1]:,.0f} | {row[1] / row[0]:.2f} "
            f"| {row[2]:,.0f} | {row[3]:,.0f} | {row[3] / row[2]:.2f} |"
        )
    shots = options.memory_shots
    print(
        f"\nPeak memory of {shots:,} paired shots, two decoders, all processes of two workers: {peak_memory(shots):.0f} MiB"
    )


if __name__ == "__main__":
    main()
