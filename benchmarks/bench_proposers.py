"""Hypervolume after equal compute: the offline proposers on one cheap environment, several seeds.

    python benchmarks/bench_proposers.py [--proposers optuna evolution templates] [--seeds 5] [--rounds 8]
                                         [--seconds 30 60 120] [--jobs 1]

Every proposal is a real round (training with the runner, paired validation on circuit samples) of the distance-3 surface code
at p = 0.01, kept short: 6,000 training shots per epoch, 16,000 validation shots, one core, in this process. A run continues
until it has both the rounds and the most of the seconds. Seconds are CPU time of the whole process, proposing included, so that a busy
machine slows nobody; a round that ends after the limit does not count. The hypervolume is of the rounds whose gain is
significant (lower end of the 95% interval above 0), from the product's reference corner.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL, canonical_dict
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.seeds import derive_seed
from autoqec.io.strict_yaml import read_yaml
from autoqec.runner.execute import Round
from autoqec.runner.profiles import PROFILES
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig
from autoqec.search import proposers
from autoqec.search.proposal import Branch, EnvFacts, RoundContext
from autoqec.stats.pareto import REFERENCE, volume

P = 0.01
TRAIN_SHOTS, VAL_SHOTS = 6_000, 16_000
SHORT = replace(PROFILES["dev"], hard_shots=6_000, select_shots=1024)
BASELINE = PredecoderDSL(type="neural_bp", output_mode="soft_priors", neural_bp=NeuralBpSpec())


@dataclass(frozen=True)
class Done:
    """A finished round and the CPU seconds that the run had used by then."""

    row: dict[str, Any]
    seconds: float


Take = Callable[[list[Done]], list[Done]]


def environment() -> Environment:
    env = load_env("surface_d3_depol")
    noise = env.spec.noise.model_copy(update={"p": [P], "reference_p": P})
    protocol = env.spec.eval_protocol.model_copy(
        update={
            "min_shots_train": int(TRAIN_SHOTS / SHORT.train_share),
            "min_shots_val": int(VAL_SHOTS / SHORT.val_share),
        }
    )
    update = {"noise": noise, "eval_protocol": protocol, "baseline_decoders": []}
    return Environment(env.spec.model_copy(update=update), env.root)


def evaluate(env: Environment, config: dict[str, Any], seed: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        runner_config = RunnerConfig(
            env_name=env.spec.name, predecoder_config=config, seed=seed, round_dir=folder
        )
        one = Round(runner_config, env, Safety(memory_gb=8.0), workers=1)
        one.profile = SHORT
        return one.run().model_dump(mode="json")


def run(env: Environment, name: str, seed: int, rounds: int, seconds: float) -> list[Done]:
    """One run of a proposer, until it has both so many rounds and so many CPU seconds."""
    proposer = proposers.make(name)
    facts = EnvFacts(env.spec, P, "dev", env.problem(P))
    done: list[Done] = []
    branches = [Branch("baseline", (), canonical_dict(BASELINE))]
    stream = f"bench-{seed}"
    start = time.process_time()
    while len(done) < rounds or done[-1].seconds < seconds:
        number = len(done) + 1
        context = RoundContext(
            env=facts,
            seed=derive_seed("propose", stream, number),
            round=number,
            rounds_planned=rounds,
            history=tuple(each.row for each in done),
            branches=tuple(branches),
            memory_gb=8.0,
        )
        proposal = proposer.propose(context)
        fork = proposal.fork_from
        parents = (fork,) if isinstance(fork, str) else tuple(fork)
        row = evaluate(env, proposal.dsl_config, derive_seed("round", stream, number) >> 11)
        branch = f"branch-{number}"
        row |= {"round": number, "branch": branch, "dsl_config": proposal.dsl_config}
        row |= {
            "origin": proposal.origin,
            "hypothesis": proposal.hypothesis,
            "fork_from_canonical": "|".join(sorted(parents)),
        }
        branches.append(Branch(branch, parents, proposal.dsl_config))
        done.append(Done(row, time.process_time() - start))
    return done


def hypervolume(done: Sequence[Done]) -> float:
    return volume(
        REFERENCE.box(row["delta_ler"], row["flops_per_syndrome"], row["n_params"])
        for row in (each.row for each in done)
        if row["status"] == "ok" and row["delta_ler_ci_low"] > 0
    )


def warm_up() -> None:
    """Compiles the kernels before anything is timed."""
    env = environment()
    for example in ("neural_bp_gap", "hybrid_gap", "gnn_mlp"):
        evaluate(env, read_yaml(Path("autoqec/example_db") / f"{example}.yaml"), seed=0)


def run_alone(name: str, seed: int, rounds: int, seconds: float) -> list[Done]:
    """One run in a process of its own, on one core and with a cache of its own."""
    torch.set_num_threads(1)
    os.environ["NUMBA_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as cache:
        os.environ["AUTOQEC_CACHE"] = cache
        warm_up()
        return run(environment(), name, seed, rounds, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--proposers", nargs="+", default=["optuna", "evolution", "templates"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, nargs="+", default=[30.0, 60.0, 120.0])
    parser.add_argument("--jobs", type=int, default=1, help="Runs side by side, one core each.")
    args = parser.parse_args()
    warm_up()
    found: dict[str, list[list[Done]]] = {name: [] for name in args.proposers}
    cuts = budgets(args.rounds, args.seconds)
    print(f"| proposer | seed | {' | '.join(cuts)} | rounds in {max(args.seconds):g} s |")
    print("|---|---|" + "---|" * (len(cuts) + 1))
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        asked = [(seed, name) for seed in range(args.seeds) for name in args.proposers]
        runs = [pool.submit(run_alone, name, seed, args.rounds, max(args.seconds)) for seed, name in asked]
        for (seed, name), future in zip(asked, runs, strict=True):
            done = future.result()
            found[name].append(done)
            figures = [f"{hypervolume(take(done)):.4f}" for take in cuts.values()]
            in_time = sum(each.seconds <= max(args.seconds) for each in done)
            print(f"| {name} | {seed} | {' | '.join(figures)} | {in_time} |", flush=True)
    summarise(found, cuts)


def budgets(rounds: int, seconds: list[float]) -> dict[str, Take]:
    """What of a run counts, by what the budget is called."""

    def first(count: int) -> Take:
        return lambda done: done[:count]

    def within(limit: float) -> Take:
        return lambda done: [each for each in done if each.seconds <= limit]

    return {f"{count} rounds": first(count) for count in (rounds // 2, rounds)} | {
        f"{limit:g} s": within(limit) for limit in seconds
    }


def summarise(found: dict[str, list[list[Done]]], cuts: dict[str, Take]) -> None:
    """Means over the seeds, and their ratio to that of the templates."""
    volumes = {
        name: {cut: mean(hypervolume(take(done)) for done in runs) for cut, take in cuts.items()}
        for name, runs in found.items()
    }
    print("\n| proposer | " + " | ".join(f"{cut} | / templates" for cut in cuts) + " |")
    print("|---|" + "---|---|" * len(cuts))
    for name, by_cut in volumes.items():
        others = volumes.get("templates", by_cut)
        cells = [
            f"{value:.4f} | {value / others[cut]:.2f}" if others[cut] else f"{value:.4f} | -"
            for cut, value in by_cut.items()
        ]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
