"""Recorded shots that a round trains on (`run-round --train-shots`): read once, named by their hash, split in two.

The round's process gets them packed, in the scratch folder that it shares with its supervisor: it may be unable to see the user's files.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from autoqec.decoders.dsl_schema import MarginalLoss, PredecoderDSL
from autoqec.decoders.reference_p import reference_p
from autoqec.envs.environment import Environment
from autoqec.envs.sampling import Shots
from autoqec.envs.shot_files import FORMATS, read_shots
from autoqec.errors import InputError
from autoqec.io import atomic
from autoqec.io.hashing import sha256_bytes
from autoqec.io.validate import validate_model
from autoqec.layout import RoundDir
from autoqec.runner import handover
from autoqec.runner.schema import RunnerConfig

LEAST = 100
_SELECTED = 5  # one shot in so many chooses among training states


@dataclass(frozen=True)
class Recorded:
    """sha256: of the packed detectors of all shots, then of the packed observables."""

    shots: Shots
    sha256: str

    def __len__(self) -> int:
        return len(self.shots.detectors)

    def split(self, most: int) -> tuple[Shots, Shots]:
        """Those that train, and those after them, at most `most`, that choose among training states."""
        last = len(self) - min(most, len(self) // _SELECTED)
        detectors, observables = self.shots
        return Shots(detectors[:last], observables[:last]), Shots(detectors[last:], observables[last:])


def named(config: RunnerConfig, env: Environment) -> Recorded | None:
    """The shots that a user names.

    Raises:
        InputError: they are not shots of this environment, are too few, or the loss needs to know faults.
    """
    if config.train_shots is None:
        for option, what in (("train_observables", "observables"), ("train_shots_format", "the format")):
            if getattr(config, option) is not None:
                raise InputError(f"{what} of which shots?", where=option, hint="give --train-shots, too")
        return None
    dsl = validate_model(config.predecoder_config, PredecoderDSL, where="config")
    if dsl.training.loss in get_args(MarginalLoss):
        raise InputError(
            f"loss: {dsl.training.loss} learns which faults happened, and recorded shots do not say",
            where="training.loss",
            hint="use loss: backend_gap, or failures in front of OSD, with recorded shots",
        )
    shots = _read(config, env)
    if len(shots.detectors) < LEAST:
        raise InputError(
            f"{len(shots.detectors)} shots, and it takes at least {LEAST}: some train and others choose what is kept",
            where=config.train_shots,
            hint="record more",
        )
    return Recorded(shots, sha256_bytes(shots.detectors.tobytes() + shots.observables.tobytes()))


def keep(files: RoundDir, recorded: Recorded | None) -> None:
    """Leaves their hash beside the round, or none. The state of a training on others is not resumed."""
    text = None if recorded is None else recorded.sha256 + "\n"
    before = files.train_shots.read_text(errors="replace") if files.train_shots.is_file() else None
    if before != text:
        handover.forget_state(files)
    if text is None:
        files.train_shots.unlink(missing_ok=True)
    else:
        atomic.write_text(files.train_shots, text)


def hand_over(recorded: Recorded, path: Path) -> None:
    np.savez(path, detectors=recorded.shots.detectors, observables=recorded.shots.observables)


def taken(path: Path) -> Recorded:
    with np.load(path, allow_pickle=False) as stored:
        shots = Shots(stored["detectors"], stored["observables"])
    return Recorded(shots, sha256_bytes(shots.detectors.tobytes() + shots.observables.tobytes()))


def _read(config: RunnerConfig, env: Environment) -> Shots:
    problem = env.problem(reference_p(env))
    n_detectors, n_observables = problem.sampled.n_checks, problem.n_observables
    apart = config.train_observables is not None
    first = _part(config, "train_shots", n_detectors, 0 if apart else n_observables)
    if not apart:
        return Shots(*first)
    _, second = _part(config, "train_observables", 0, n_observables)
    if len(first) != len(second):
        raise InputError(
            f"{len(first):,} shots of detectors and {len(second):,} of observables",
            where=config.train_observables,
            hint="give the two files of one recording",
        )
    return Shots(first, second)


def _part(config: RunnerConfig, option: str, n_detectors: int, n_observables: int):  # type: ignore[no-untyped-def]
    path = Path(getattr(config, option))
    where = str(path)
    if not path.is_file():
        problem = "is not a regular file" if path.exists() else "does not exist"
        raise InputError(problem, where=where, hint="give a file of recorded shots")
    form = config.train_shots_format or path.suffix[1:]
    if form not in FORMATS:
        raise InputError(
            f"the name does not say its format: {path.suffix or 'it has no ending'}",
            where=where,
            hint=f"give --train-shots-format: one of {', '.join(FORMATS)}",
        )
    hint = "check the format, that the shots come from this environment's circuit, and that they end with their observables"
    return read_shots(path, form, n_detectors, n_observables, where=where, hint=hint)
