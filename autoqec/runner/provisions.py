"""What a confined round is given to start with, so that it costs no more than any other: decoding problems, and what plain
decoders did on its validation shots.

They are made by the installed package, once per environment and profile, and the round gets a copy. Nothing that it writes comes
back. `python -m autoqec.runner.provisions JOB` is the process that makes them, with a deadline.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
from pathlib import Path

from autoqec import layout
from autoqec.decoders.baselines.registry import DecoderChoice, choose, entry, unavailable
from autoqec.decoders.paired import Evaluator
from autoqec.decoders.paired.evaluate import CHUNK
from autoqec.decoders.paired.store import FailureStore
from autoqec.decoders.reference_p import PURPOSE, plain_backend, reference_p
from autoqec.envs.environment import Environment
from autoqec.envs.schema import EnvSpec
from autoqec.errors import AutoQECError
from autoqec.io import atomic, processes
from autoqec.io.child_env import child_environment
from autoqec.io.hashing import sha256_json
from autoqec.io.scratch import scratch_folder
from autoqec.runner.profiles import PROFILES, Profile
from autoqec.sandbox.installed import installed_root, python_path


def fill_cache(cache: Path, env: Environment, profile: Profile, *, seconds: float) -> None:
    """Copies them into a cache folder; what is not there within `seconds` the round makes itself."""
    with contextlib.suppress(
        AutoQECError, OSError
    ):  # an environment that cannot be built: the round says why
        listing = layout.round_cache(_key(env, profile))
        if not _is_whole(listing):
            _make(env, profile, seconds)
        if listing.exists():
            for name in json.loads(listing.read_text()):
                target = cache / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(layout.cache_root() / name, target)


def _key(env: Environment, profile: Profile) -> str:
    spec = env.spec
    decoders = [plain_backend(env), *_beside(env)]
    return sha256_json([env.content_hash, spec.name, profile.name, [each.identity for each in decoders]])


def _is_whole(listing: Path) -> bool:
    try:
        return all((layout.cache_root() / name).is_file() for name in json.loads(listing.read_text()))
    except (OSError, ValueError):
        return False


def _make(env: Environment, profile: Profile, seconds: float) -> None:
    with scratch_folder("provisions") as scratch:
        job = scratch / "job.json"
        job.write_text(
            json.dumps(
                {"spec": env.spec.model_dump(mode="json"), "root": str(env.root), "profile": profile.name}
            )
        )
        processes.run(
            [sys.executable, "-P", "-m", __name__, str(job)],
            cwd=scratch,
            environment=child_environment(**python_path(installed_root())),
            deadline_s=seconds,
        )


def _beside(env: Environment) -> list[DecoderChoice]:
    spec = env.spec
    named = choose(spec.baseline_decoders, spec.eval_protocol.osd_orders_reported, where="baseline_decoders")
    return [choice for choice in named if entry(choice.entry).is_available]


def _evaluate(env: Environment, profile: Profile) -> list[Path]:
    """Validation as a round does it, less the predecoder; returns the files in the cache."""
    at, plain, shots = reference_p(env), plain_backend(env), profile.val_shots(env.spec.eval_protocol)
    wanted = [(p, plain, shots) for p in sorted(env.spec.noise.p)]
    for choice in _beside(env):
        if unavailable(choice, env.problem(at)) is None:
            enough = shots if entry(choice.entry).fast else min(shots, profile.slow_shots)
            wanted.append((at, choice, enough))
    used = [env.cached_problem(p) for p in env.spec.noise.p]
    used += [FailureStore(env.stream(p), PURPOSE, CHUNK).path(plain.identity) for p in env.spec.noise.p]
    with Evaluator(env, purpose="val", labels=env.spec.noise.seed_policy.val) as evaluator:
        for p, choice, enough in wanted:
            env.problem(p)
            evaluator.run(p, [choice], enough)
            used.append(FailureStore(env.stream(p), "val", CHUNK).path(choice.identity))
    return [path for path in used if path.is_file()]


def main() -> None:
    job = json.loads(Path(sys.argv[1]).read_text())
    env = Environment(EnvSpec.model_validate(job["spec"]), root=Path(job["root"]))
    profile = PROFILES[job["profile"]]
    root = layout.cache_root()
    names = sorted({path.relative_to(root).as_posix() for path in _evaluate(env, profile)})
    atomic.write_text(layout.round_cache(_key(env, profile)), json.dumps(names) + "\n")


if __name__ == "__main__":
    main()
