"""What the walls around a training cost: the same round with the installed code and, behind walls, with code that differs by a comment.

The two take turns, each turn with a seed of its own. CPU seconds are of all processes of the round; on a machine that does nothing
else the wall-clock ratio is the one that a user notices. A first round of each kind, which compiles and fills caches, is not counted.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import yaml

from autoqec.envs.environment import Environment
from autoqec.envs.load import load_env
from autoqec.runner.safety import Safety
from autoqec.runner.schema import RunnerConfig
from autoqec.runner.supervise import run_round
from autoqec.sandbox.installed import installed_root
from autoqec.sandbox.kinds import strongest

MODULE = "autoqec/decoders/modules/predecoders.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--env", default="surface_d5_depol")
    parser.add_argument("--config", default="neural_bp_gap")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.2, help="of the shots of a dev round")
    arguments = parser.parse_args()
    env = _smaller(load_env(arguments.env), arguments.share)
    data = yaml.safe_load(
        (installed_root() / "autoqec" / "example_db" / f"{arguments.config}.yaml").read_text()
    )
    with tempfile.TemporaryDirectory() as folder:
        worktree = Path(folder).resolve() / "worktree"
        for name in ("autoqec", "cli"):
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(installed_root() / name, worktree / name, ignore=ignored)
        with (worktree / MODULE).open("a") as file:
            file.write("# edited\n")
        os.chdir(worktree)
        spent: dict[str, list[tuple[float, float]]] = {"installed": [], "confined": []}
        for turn in range(arguments.turns + 1):
            for kind in sorted(spent, reverse=turn % 2 == 1):  # who comes second finds warm caches
                found = spent[kind]
                code = {"code_cwd": str(worktree), "branch": "exp/20260101-000000/01-edited"}
                config = RunnerConfig(
                    env_name=env.spec.name,
                    predecoder_config=data,
                    seed=turn,
                    round_dir=str(Path(folder) / f"{kind}_{turn}"),
                    **({**code, "round_attempt_id": f"{turn}"} if kind == "confined" else {}),
                )
                found.append(_seconds(config, env))
                print(f"{kind}, turn {turn}: {found[-1][0]:.1f} s, {found[-1][1]:.1f} s of CPU", flush=True)
    for index, what in enumerate(("wall-clock", "CPU")):
        ratio = statistics.median(
            b[index] / a[index] for a, b in zip(spent["installed"][1:], spent["confined"][1:], strict=True)
        )
        print(f"{strongest().name}: {what} time of a confined round over that of any other: {ratio:.3f}")


def _smaller(env: Environment, share: float) -> Environment:
    protocol = env.spec.eval_protocol
    shots = {name: int(share * getattr(protocol, name)) for name in ("min_shots_train", "min_shots_val")}
    spec = env.spec.model_copy(update={"eval_protocol": protocol.model_copy(update=shots)})
    return Environment(spec, root=env.root)


def _seconds(config: RunnerConfig, env: Environment) -> tuple[float, float]:
    begin, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    commit = None if config.code_cwd is None else "0" * 40
    metrics = run_round(config, env, Safety(wall_clock_s=3600.0), commit_sha=commit)
    if metrics.status != "ok":
        raise SystemExit(f"{metrics.status}: {metrics.status_reason}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - begin, cpu


if __name__ == "__main__":
    main()
