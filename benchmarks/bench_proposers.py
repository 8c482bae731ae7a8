"""Hypervolume after equal compute: the offline proposers on one cheap environment, several seeds.

    python benchmarks/bench_proposers.py [--proposers optuna evolution templates] [--seeds 5] [--rounds 8] [--seconds 120]

Every proposal is a real round (training with the runner, paired validation on circuit samples) of the distance-3 surface code
at p = 0.01, kept short: 6,000 training shots per epoch, 16,000 validation shots, one core, in this process. A run goes on
until it has both the rounds and the seconds. Seconds are CPU time of the whole process, proposing included, so that a busy
machine slows nobody; a round that ends after the limit does not count. The hypervolume is of the rounds whose gain is
significant (lower end of the 95% interval above 0), from the product's reference corner. Writes a JSON file with all
rounds where --out says so.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean
from typing import Any

import torch

from autoqec.agents import proposers
from autoqec.agents.proposal import Branch, EnvFacts, RoundContext
from autoqec.decoders.dsl_schema import NeuralBpSpec, PredecoderDSL, canonical_dict
from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.envs.seeds import derive_seed
from autoqec.eval.hypervolume import REFERENCE, volume
from autoqec.io.strict_yaml import read_yaml
from autoqec.runner.execute import Round
from autoqec.runner.profiles import PROFILES
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig

P = 0.01
TRAIN_SHOTS, VAL_SHOTS = 6_000, 16_000
SHORT = replace(PROFILES["dev"], hard_shots=6_000, select_shots=1024)
BASELINE = PredecoderDSL(type="neural_bp", output_mode="soft_priors", neural_bp=NeuralBpSpec())


@dataclass(frozen=True)
class Done:
    """A finished round and the CPU seconds that the run had used by then."""

    row: dict[str, Any]
    seconds: float


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


def hypervolume(rows: list[dict[str, Any]]) -> float:
    return volume(
        REFERENCE.box(row["delta_ler"], row["flops_per_syndrome"], row["n_params"])
        for row in rows
        if row["status"] == "ok" and row["delta_ler_ci_low"] > 0
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--proposers", nargs="+", default=["optuna", "evolution", "templates"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.environ["NUMBA_NUM_THREADS"] = "1"
    env = environment()
    for example in (
        "neural_bp_gap",
        "hybrid_gap",
        "gnn_mlp",
    ):  # compiles the kernels before anything is timed
        evaluate(env, read_yaml(Path("autoqec/example_db") / f"{example}.yaml"), seed=0)
    found: dict[str, list[list[Done]]] = {name: [] for name in args.proposers}
    half = args.rounds // 2
    print(
        f"| proposer | seed | after {half} rounds | after {args.rounds} rounds | after {args.seconds:g} s "
        f"| rounds in {args.seconds:g} s | s per round |\n|---|---|---|---|---|---|---|"
    )
    for seed in range(args.seeds):
        for name in args.proposers:
            with tempfile.TemporaryDirectory() as cache:
                os.environ["AUTOQEC_CACHE"] = cache
                done = run(env, name, seed, args.rounds, args.seconds)
            found[name].append(done)
            in_time = [each.row for each in done if each.seconds <= args.seconds]
            rows = [each.row for each in done]
            figures = [hypervolume(rows[:half]), hypervolume(rows[: args.rounds]), hypervolume(in_time)]
            print(
                f"| {name} | {seed} | "
                + " | ".join(f"{figure:.4f}" for figure in figures)
                + f" | {len(in_time)} | {done[-1].seconds / len(done):.1f} |",
                flush=True,
            )
            if args.out:
                text = {
                    key: [[[d.row, d.seconds] for d in each] for each in runs] for key, runs in found.items()
                }
                args.out.write_text(json.dumps(text))
    summarise(found, args.rounds, args.seconds)


def summarise(found: dict[str, list[list[Done]]], rounds: int, seconds: float) -> None:
    """Means over the seeds, and their ratio to that of the templates."""
    cuts = {
        f"after {rounds // 2} rounds": lambda done: done[: rounds // 2],
        f"after {rounds} rounds": lambda done: done[:rounds],
        f"after {seconds:g} s": lambda done: [each for each in done if each.seconds <= seconds],
    }
    volumes = {
        name: {
            cut: [hypervolume([each.row for each in take(done)]) for done in runs]
            for cut, take in cuts.items()
        }
        for name, runs in found.items()
    }
    print("\n| proposer | " + " | ".join(f"{cut} | / templates" for cut in cuts) + " |")
    print("|---|" + "---|---|" * len(cuts))
    for name, by_cut in volumes.items():
        cells = []
        for cut, values in by_cut.items():
            others = mean(volumes.get("templates", by_cut)[cut])
            ratio = f"{mean(values) / others:.2f}" if others else "-"
            cells.append(f"{mean(values):.4f} | {ratio}")
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
