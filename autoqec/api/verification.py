"""`autoqec.verify`, and the command of that name. It imports nothing that trains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autoqec.decoders.checkpoint_env import env_or_own
from autoqec.envs.environment import Environment
from autoqec.errors import InputError
from autoqec.eval import verify as verification
from autoqec.eval.options import VerifyOptions
from autoqec.eval.schema import VerifyReport
from autoqec.executors.registry import LOCAL, opened
from autoqec.finds.zoo import is_in_zoo, round_folder
from autoqec.layout import RunDir

if TYPE_CHECKING:
    from autoqec.api.rounds import Round

_FRESH = ("shots", "cap", "seeds", "kind")
"""Options of shots that are drawn anew."""


def verify(
    round_dir: str | Path | Round,
    env: str | Path | Environment | None = None,
    *,
    parents: Sequence[str | Path | Round] = (),
    seeds: tuple[int, int] | int | None = None,
    executor: str | None = None,
    **options: Any,
) -> VerifyReport:
    """The independent verification of a round on fresh shots, its model in the sandbox. Writes the report beside the round.

    Args:
        round_dir: folder of a round, or what `train` returned. `ID/round_3` stands for `runs/ID/round_3` of the working directory;
            in the zoo, and over the report that a run's history and front rely on, none is written.
        env: what it was trained on. Default: found by what the round says.
        parents: of a compose round, on the same shots; then the report says whether it composes.
        seeds: first and last label inside the holdout range, or how many of its first ones. Default: all.
        executor: "local", "ray" for a cluster of this machine, or "ray:ADDRESS". Default: local.
        options: further fields of `autoqec.eval.options.VerifyOptions`, e.g. shots=100_000, cap=, bundle=, kind=, progress=.
    """
    own = None if isinstance(round_dir, str | Path) else round_dir.env
    path = _folder(round_dir)
    env = env_or_own(own if env is None else env, path)
    plain = VerifyOptions()
    if options.get("bundle") is not None:
        asked = {**options, "seeds": seeds}
        given = [name for name in _FRESH if asked.get(name, getattr(plain, name)) != getattr(plain, name)]
        if given:
            raise InputError(
                "an archived bundle has its shots", where=given[0], hint="leave it out with a bundle"
            )
    if isinstance(seeds, int):
        first = env.spec.noise.seed_policy.holdout[0]
        seeds = (first, first + seeds - 1)
    options["write"] = options.get("write", plain.write) and keeps_report(path, home=options.get("home"))
    with opened(executor or LOCAL) as where:
        chosen = VerifyOptions(seeds=seeds, executor=where, **options)
        return verification.verify_together([path, *map(_folder, parents)], env, chosen)[0]


def keeps_report(round_dir: Path, *, home: Path | None = None) -> bool:
    """Whether a report is written beside the round. The zoo stays as it is, and so does a report that a run relies on: verifying the
    same thing again would be a second chance. home: of the verifier."""
    if is_in_zoo(round_dir):
        return False
    if not RunDir(round_dir.resolve().parent).history.exists():
        return True
    from autoqec.runs.backing import is_relied_on  # a round outside of a run needs nothing of runs

    return not is_relied_on(round_dir, home=home)


def _folder(given: str | Path | Round) -> Path:
    return round_folder(given, Path.cwd()) if isinstance(given, str | Path) else given.path
