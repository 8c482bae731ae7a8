"""`autoqec decode`: predictions for recorded shots, in any of Stim's result formats."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from autoqec.commands.options import AnyPath, OutFile
from autoqec.errors import InputError

_OPEN = (Path("/dev/fd"), Path("/proc/self/fd"))
"""Pipes that somebody writes into, as a shell's <(...) gives them; a named one might be waited for in vain."""

FORMATS = ("01", "b8", "r8", "hits", "dets", "ptb64")


@click.command()
@click.option("--dem", "dem_path", required=True, type=AnyPath(), help="Detector error model (.dem).")
@click.option(
    "--in",
    "in_path",
    required=True,
    type=AnyPath(allow_dash=True),
    help="Detection events: a file or <(...); - for standard input.",
)
@click.option("--in-format", type=click.Choice(FORMATS), default="01", show_default=True)
@click.option(
    "--decoder", "decoder_name", required=True, help="A baseline decoder, e.g. belief_matching or bposd-10."
)
@click.option(
    "--out",
    "out_path",
    required=True,
    type=OutFile(allow_dash=True),
    help="Predicted observables; - for standard output.",
)
@click.option("--out-format", type=click.Choice(FORMATS), default="01", show_default=True)
@click.option(
    "--in-includes-observables",
    is_flag=True,
    help="Shots end with their observables; report the LER on standard error.",
)
def command(
    dem_path: Path,
    in_path: Path,
    in_format: str,
    decoder_name: str,
    out_path: Path,
    out_format: str,
    in_includes_observables: bool,
) -> None:
    """Decode recorded detection events with a detector error model."""
    import stim

    from autoqec.decoders.baselines.registry import choose
    from autoqec.decoders.sinter_adapter import decoder_for_dem
    from autoqec.envs.sources.error_model import parse_dem

    (choice, *more) = choose([decoder_name], (0,), where="--decoder")
    if more:
        raise InputError(f"{decoder_name!r} names several decoders", where="--decoder", hint="give one")
    dem = parse_dem(dem_path, where="--dem")
    decoder = decoder_for_dem(choice, dem)
    # Stim names observables apart from detectors in the dets format and writes them there unasked.
    expects_observables = dem.num_observables > 0 and (in_includes_observables or in_format == "dets")
    shots = _read(in_path, in_format, dem.num_detectors, dem.num_observables if expects_observables else 0)
    detectors, actual = shots if expects_observables else (shots, None)
    predictions = decoder.decode(detectors)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "predictions"
        stim.write_shot_data_file(
            data=predictions,
            path=scratch,
            format=out_format,
            num_observables=dem.num_observables,
        )
        if str(out_path) == "-":
            sys.stdout.buffer.write(scratch.read_bytes())
            sys.stdout.buffer.flush()
        else:
            from autoqec.io import atomic

            atomic.write_bytes(out_path, scratch.read_bytes())
    if in_includes_observables and expects_observables:
        wrong = int((predictions != actual).any(axis=1).sum())
        click.echo(f"{wrong} failures in {len(predictions)} shots", err=True)


def _read(path: Path, form: str, n_detectors: int, n_observables: int) -> Any:
    import stim

    from autoqec.envs.files import first_line
    from autoqec.envs.stim_text import STIM_ERRORS

    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "shots"
        if str(path) == "-":
            with source.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        elif path.is_file():
            source.symlink_to(path.resolve())  # whose name Stim may be unable to take
        elif path.is_fifo() and (str(path) == "/dev/stdin" or path.parent in _OPEN):
            with path.open("rb") as pipe, source.open("wb") as file:
                shutil.copyfileobj(pipe, file)
        else:
            raise InputError(
                f"{path} is not a regular file" if path.exists() else f"file {path} does not exist",
                where="--in",
                hint="give recorded shots, or - for standard input",
            )
        if form in ("hits", "dets"):
            _check_hits(source, form, path)
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
            raise InputError(
                f"not {form} shots of {n_detectors} detectors"
                + (f" and {n_observables} observables" if n_observables else "")
                + f": {first_line(error)}",
                where=f"--in {path}",
                hint="check --in-format, and that the shots come from this very model",
            ) from None


def _check_hits(source: Path, form: str, path: Path) -> None:
    """A detector that a shot names twice is refused: Stim takes it for none in one format and for one in the other."""
    between = b"," if form == "hits" else None
    with source.open("rb") as file:
        for number, line in enumerate(file, start=1):
            hits = line.strip().split(between)
            if len(set(hits)) != len(hits):
                raise InputError(
                    f"line {number} names a detector or observable twice",
                    where=f"--in {path}",
                    hint="a shot lists each that fired once",
                )
