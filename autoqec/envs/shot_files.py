"""Recorded shots in Stim's result formats, read strictly."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from autoqec.errors import InputError

FORMATS = ("01", "b8", "r8", "hits", "dets", "ptb64")


def read_shots(path: Path, form: str, n_detectors: int, n_observables: int, *, where: str, hint: str) -> Any:
    """Packed detectors [shots, bytes]; with observables at the end of each shot, the pair of detectors and observables.

    Raises:
        InputError: the file does not hold such shots. where, hint: of that error.
    """
    import stim

    from autoqec.envs.files import first_line
    from autoqec.envs.stim_text import STIM_ERRORS

    if form in ("hits", "dets"):
        _check_hits(path, form, where)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "shots"
        source.symlink_to(path.resolve())  # whose name Stim may be unable to take
        try:
            return stim.read_shot_data_file(
                path=source,
                format=form,
                num_detectors=n_detectors,
                num_observables=n_observables,
                separate_observables=n_observables > 0,
                bit_packed=True,
            )
        except STIM_ERRORS as error:
            sizes = {"detectors": n_detectors, "observables": n_observables}
            held = " and ".join(f"{size} {name}" for name, size in sizes.items() if size)
            raise InputError(
                f"not {form} shots of {held}: {first_line(error)}",
                where=where,
                hint=hint,
            ) from None


def _check_hits(path: Path, form: str, where: str) -> None:
    """A detector that a shot names twice is refused: Stim takes it for none in one format and for one in the other."""
    between = b"," if form == "hits" else None
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            hits = line.strip().split(between)
            if len(set(hits)) != len(hits):
                raise InputError(
                    f"line {number} names a detector or observable twice",
                    where=where,
                    hint="a shot lists each that fired once",
                )
