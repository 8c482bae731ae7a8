"""`autoqec export`: a round's predecoder for other programs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import AnyPath, Number, OutFile
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.decoders.export import OnnxExport


@click.command()
@click.argument("round_dir", type=RunPath())
@click.option(
    "--env", "env_name", help="Builtin name or YAML file. Default: the one the checkpoint was trained on."
)
@click.option(
    "--onnx",
    type=OutFile(),
    help="Write an ONNX model: syndrome -> what the backend decodes with. Checked against the pipeline. "
    "A cascade is written as one file for each stage: m.stage1.onnx and so on for m.onnx.",
)
@click.option(
    "--safetensors",
    type=OutFile(),
    help="Write weights, with the description as metadata.",
)
@click.option("--p", type=Number(), help="ONNX: the physical error rate to decode. Default: the reference p.")
@click.option("--repo", type=AnyPath(), help="Repository of the round's commit.")
def command(
    round_dir: Path,
    env_name: str | None,
    onnx: Path | None,
    safetensors: Path | None,
    p: float | None,
    repo: Path | None,
) -> None:
    """Export the predecoder of ROUND_DIR: a folder, or zoo:ENV/NAME.

    A predecoder with code of its own, in its config or on its branch, has no ONNX file: that code runs in the sandbox only.
    """
    from autoqec.finds.predecoder import load_predecoder

    if onnx is None and safetensors is None:
        raise InputError("nothing to export", where="export", hint="give --onnx FILE or --safetensors FILE")
    find = load_predecoder(round_dir, env=env_name, p=p, repo=repo)
    if onnx is not None:
        for line in _written(find.to_onnx(onnx)):
            click.echo(line)
    if safetensors is not None:
        find.to_safetensors(safetensors)
        click.echo(f"Wrote {safetensors}")


def _written(done: OnnxExport) -> Iterator[str]:
    """What was written, and how it compares; of a cascade also stage by stage."""
    found, names = done.compared, ", ".join(map(str, done.files))
    yield (
        f"Wrote {names}: {done.output} at p = {done.p:g}. {done.differing} of {done.shots} predictions differ from the "
        f"pipeline's{_ties(done.differing)}."
    )
    if len(done.files) == 1:
        return
    for stage, (reached, alone) in enumerate(zip(found.reached, found.alone, strict=True)):
        thresholds = done.gates.thresholds[stage : stage + 1]
        gate = "".join(f" Below {threshold:g} they go on." for threshold in thresholds)
        yield f"Stage {stage + 1}: {reached} shots reach it; asked about all {done.shots} it differs in {alone}{_ties(alone)}.{gate}"


def _ties(differing: int) -> str:
    return ", all at ties that rounding decides" if differing else ""
