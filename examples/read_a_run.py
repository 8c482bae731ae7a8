"""A short run of the research loop, read back as data frames, with its front as a figure."""

import sys
from pathlib import Path

import autoqec

rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 3
run = autoqec.run("surface_d3_depol", rounds=rounds, proposer="optuna", verify_shots=20_000)
print(run.rounds[["round", "status", "verdict", "delta_ler", "flops_per_syndrome", "n_params"]])
print(run.fork_graph[["round", "parents", "verdict"]])
if len(run.front):
    print(run.front[["round", "delta_vs_baseline_holdout", "flops_per_syndrome", "n_params"]])
    axes = run.front.plot.scatter("flops_per_syndrome", "delta_vs_baseline_holdout", logx=True)
    axes.figure.savefig("read_a_run.png")
    print(autoqec.compare(run.env, [run.predecoder()], shots=10_000))
print("also:", Path(run.path) / "log.md")
