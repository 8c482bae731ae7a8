"""`autoqec decode`: predictions for recorded shots, in any of Stim's result formats."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.options import AnyPath, Number, OutFile
from autoqec.envs.shot_files import FORMATS, read_shots
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.decoders.protocol import DecoderFactory

_OPEN = (Path("/dev/fd"), Path("/proc/self/fd"))
"""Pipes that somebody writes into, as a shell's <(...) gives them; a named one might be waited for in vain."""


@click.command()
@click.option(
    "--dem",
    "dem_path",
    type=AnyPath(),
    help="Detector error model (.dem). Default for --predecoder: that of its environment.",
)
@click.option(
    "--in",
    "in_path",
    required=True,
    type=AnyPath(allow_dash=True),
    help="Detection events: a file or <(...); - for standard input.",
)
@click.option("--in-format", type=click.Choice(FORMATS), default="01", show_default=True)
@click.option("--decoder", "decoder_name", help="A baseline decoder, e.g. belief_matching or bposd-10.")
@click.option("--predecoder", type=AnyPath(), help="Folder of a round, its checkpoint.pt, or zoo:ENV/NAME.")
@click.option("--env", "env_name", help="What the predecoder was trained on. Default: found by its round.")
@click.option("--p", type=Number(), help="Error rate of the predecoder's model. Default: its reference p.")
@click.option("--repo", type=AnyPath(), help="Repository of the commit of the predecoder's round.")
@click.option(
    "--out",
    "out_path",
    required=True,
    type=OutFile(allow_dash=True),
    help="Predicted observables; - for standard output.",
)
@click.option("--out-format", type=click.Choice(FORMATS), default="01", show_default=True)
@click.option(
    "--confidence",
    "confidence_path",
    type=OutFile(),
    help="Write each shot's log-odds that its prediction is right: float32 into .npy, else one number a line.",
)
@click.option(
    "--in-includes-observables",
    is_flag=True,
    help="Shots end with their observables; report the LER on standard error.",
)
def command(
    dem_path: Path | None,
    in_path: Path,
    in_format: str,
    decoder_name: str | None,
    predecoder: Path | None,
    env_name: str | None,
    p: float | None,
    repo: Path | None,
    out_path: Path,
    out_format: str,
    confidence_path: Path | None,
    in_includes_observables: bool,
) -> None:
    """Decode recorded detection events with a baseline decoder and its error model, or with a predecoder that was found."""
    import stim

    from autoqec.decoders.protocol import decode_with_confidence
    from autoqec.decoders.sinter_adapter import decoder_for_dem
    from autoqec.envs.sources.error_model import parse_dem

    if confidence_path is not None and confidence_path.resolve() == out_path.resolve():
        raise InputError("is the file of --out, too", where="--confidence", hint="give it a name of its own")
    if (decoder_name is None) == (predecoder is None):
        raise InputError("give one of the two", where="--decoder, --predecoder", hint="one decoder decodes")
    choice: DecoderFactory
    if predecoder is not None:
        from autoqec.finds.predecoder import load_predecoder

        if p is not None and dem_path is not None:
            raise InputError(
                "the error model has its probabilities", where="--p", hint="leave it out with --dem"
            )
        choice = find = load_predecoder(predecoder, env=env_name, p=p, repo=repo)
        own = None if dem_path is not None else find.env.problem(find.p)
    else:
        given = [
            name for name, value in (("--p", p), ("--env", env_name), ("--repo", repo)) if value is not None
        ]
        if given:
            raise InputError("belongs to --predecoder", where=given[0], hint="leave it out with --decoder")
        choice, own = _baseline(str(decoder_name)), None
    if own is not None:
        dem, decoder = stim.DetectorErrorModel(own.dem), choice.build(own)
    elif dem_path is not None:
        dem = parse_dem(dem_path, where="--dem")
        decoder = decoder_for_dem(choice, dem)
    else:
        raise InputError("a baseline decoder needs an error model", where="--dem", hint="give --dem FILE")
    # Stim names observables apart from detectors in the dets format and writes them there unasked.
    expects_observables = dem.num_observables > 0 and (in_includes_observables or in_format == "dets")
    shots = _read(in_path, in_format, dem.num_detectors, dem.num_observables if expects_observables else 0)
    detectors, actual = shots if expects_observables else (shots, None)
    log_odds = None
    if confidence_path is None:
        predictions = decoder.decode(detectors)
    else:
        predictions, log_odds = decode_with_confidence(decoder, detectors, name=choice.name)
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "predictions"
        stim.write_shot_data_file(
            data=predictions,
            path=scratch,
            format=out_format,
            num_observables=dem.num_observables,
        )
        if confidence_path is not None:
            from autoqec.io import atomic

            # First: whoever finds the predictions finds these, too.
            atomic.write_bytes(
                confidence_path, _log_odds_file(log_odds, is_npy=confidence_path.suffix == ".npy")
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


def _log_odds_file(log_odds: Any, *, is_npy: bool) -> bytes:
    import io

    import numpy as np

    single = np.asarray(log_odds, dtype=np.float32)
    buffer = io.BytesIO()
    if is_npy:
        np.save(buffer, single)
    else:
        np.savetxt(buffer, single, fmt="%.7g")
    return buffer.getvalue()


def _baseline(name: str) -> DecoderFactory:
    from autoqec.decoders.baselines.registry import choose

    (choice, *more) = choose([name], (0,), where="--decoder")
    if more:
        raise InputError(f"{name!r} names several decoders", where="--decoder", hint="give one")
    return choice


def _read(path: Path, form: str, n_detectors: int, n_observables: int) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "shots"
        if str(path) == "-":
            with source.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        elif path.is_file():
            source = path
        elif path.is_fifo() and (str(path) == "/dev/stdin" or path.parent in _OPEN):
            with path.open("rb") as pipe, source.open("wb") as file:
                shutil.copyfileobj(pipe, file)
        else:
            raise InputError(
                f"{path} is not a regular file" if path.exists() else f"file {path} does not exist",
                where="--in",
                hint="give recorded shots, or - for standard input",
            )
        hint = "check --in-format, and that the shots come from this very model"
        return read_shots(source, form, n_detectors, n_observables, where=f"--in {path}", hint=hint)
