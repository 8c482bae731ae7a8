"""What the verifier's sandbox costs: the same shots through a sandboxed worker and in one process, in turns.

Each turn takes one chunk: the verifier's worker asks the confined process for weights and runs backend and baseline itself; then one
process does all of it with the same module, batch size and backend. Times are CPU times, those of both processes added up
on the one side; the two take turns, so that on idle cores this is the wall-clock time as well. The start of a worker is
measured apart and spread over the shots of a verification.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import torch
import yaml

from autoqec.decoders.backends import make_backend
from autoqec.decoders.baselines.registry import DecoderChoice
from autoqec.decoders.compiler import compile_predecoder, context
from autoqec.decoders.dsl_schema import PredecoderDSL
from autoqec.envs.load import load_env
from autoqec.envs.packing import unpack
from autoqec.eval.tasks import Baseline, Candidate, Where
from autoqec.eval.verifier_worker import VerifierWorker
from autoqec.eval.worker_setup import ModelSpec, WorkerSetup
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kinds import strongest
from autoqec.sandbox.worker import BATCH

P = 0.005
PLAIN = DecoderChoice("pymatching")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", default="surface_d5_depol")
    parser.add_argument("--config", default="neural_bp_gap")
    parser.add_argument("--turns", type=int, default=24)
    parser.add_argument("--chunk", type=int, default=5000)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    env = load_env(arguments.env)
    problem = env.problem(P)
    config = yaml.safe_load(
        (installed_root() / "autoqec" / "example_db" / f"{arguments.config}.yaml").read_text()
    )
    module = compile_predecoder(PredecoderDSL.model_validate(config), problem).eval()
    backend, ctx, plain = make_backend(problem, "mwpm"), context(problem), PLAIN.build(problem)
    sandbox = strongest()
    models = {"m": ModelSpec(config, None, config["output_mode"], installed_root())}
    verifier = VerifierWorker(WorkerSetup({"x": problem}, models, "mwpm", sandbox.name, 3600.0))

    def in_one_process(detectors, observables) -> int:
        failures = int((plain.decode(detectors) != observables).any(axis=1).sum())
        for start in range(0, len(detectors), BATCH):
            part = detectors[start : start + BATCH]
            with torch.no_grad():
                rows = torch.from_numpy(unpack(part, problem.n_checks)).float()
                weights = module.edge_log_odds(rows, ctx).contiguous().numpy()
            predicted = backend.decode_edges(part, weights, threads=1)
            failures += int((predicted != observables[start : start + BATCH]).any(axis=1).sum())
        return failures

    with tempfile.TemporaryDirectory() as folder:
        shots = env.sampler(P).sample(arguments.turns * arguments.chunk, 1)
        where = Where("x", Path(folder, "d"), Path(folder, "o"))
        shots.detectors.tofile(where.detectors)
        shots.observables.tofile(where.observables)
        begin = time.process_time()
        worker, _ = verifier.held("x", "m")

        def both() -> float:
            """CPU seconds of the verifier's worker and its confined process."""
            used = worker.cpu_seconds()
            if used is None:
                raise SystemExit("the kernel does not say what CPU time the worker used")
            return time.process_time() + used

        start_s = both() - begin

        in_one_process(shots.detectors[:64], shots.observables[:64])
        Candidate(where, "m", 0, 64).run(verifier)
        confined, direct = [], []
        for turn in range(arguments.turns):
            low, high = turn * arguments.chunk, (turn + 1) * arguments.chunk
            begin = both()
            Candidate(where, "m", low, high).run(verifier)
            Baseline(where, PLAIN, low, high).run(verifier)
            confined.append(both() - begin)
            begin = time.process_time()
            in_one_process(shots.detectors[low:high], shots.observables[low:high])
            direct.append(time.process_time() - begin)
        verifier.close()
    ratio = statistics.median(a / b for a, b in zip(confined, direct, strict=True))
    us = 1e6 * statistics.median(direct) / arguments.chunk
    print(
        f"{arguments.env}, {arguments.config}, sandbox {sandbox.name}, {arguments.turns} turns of {arguments.chunk} shots"
    )
    print(f"one process {us:.0f} us per shot; in the sandbox {ratio:.3f} times that")
    spread = start_s / (200_000 * 1e-6 * us)
    print(f"start of a worker {start_s:.1f} s, or {100 * spread:.0f}% of 200,000 shots")
    print(f"overhead of a verification's main test: {100 * (ratio - 1 + spread):.0f}%")


if __name__ == "__main__":
    main()
