"""`autoqec export`: a round's predecoder for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import Number, OutFile
from autoqec.errors import InputError


@click.command()
@click.argument("round_dir", type=RunPath())
@click.option(
    "--env", "env_name", help="Builtin name or YAML file. Default: the one the checkpoint was trained on."
)
@click.option(
    "--onnx",
    type=OutFile(),
    help="Write an ONNX model: syndrome -> what the backend decodes with. Checked against the pipeline.",
)
@click.option(
    "--safetensors",
    type=OutFile(),
    help="Write weights, with the description as metadata.",
)
@click.option("--p", type=Number(), help="ONNX: the physical error rate to decode. Default: the reference p.")
def command(
    round_dir: Path, env_name: str | None, onnx: Path | None, safetensors: Path | None, p: float | None
) -> None:
    """Export the checkpoint of ROUND_DIR."""
    from autoqec.decoders import checkpoint
    from autoqec.decoders.checkpoint_env import env_of_checkpoint
    from autoqec.decoders.export import export_round, to_safetensors
    from autoqec.envs.load import load_env
    from autoqec.io.hashing import sha256_bytes
    from autoqec.layout import RoundDir

    if onnx is None and safetensors is None:
        raise InputError("nothing to export", where="export", hint="give --onnx FILE or --safetensors FILE")
    env = env_of_checkpoint(round_dir) if env_name is None else load_env(env_name)
    if p is not None:
        env.check_sweep([p], where="--p")
    path = RoundDir(round_dir).checkpoint
    data = checkpoint.read_file(path)
    info, state = checkpoint.from_bytes(data, where=str(path))
    if info.env_hash != env.content_hash:
        raise InputError(
            f"the checkpoint belongs to {info.env_name}, or to another version of {env.spec.name}",
            where="--env",
            hint="give the environment that the round was trained on",
        )
    if onnx is not None and info.dsl.tier == "2":
        raise InputError("a tier-2 predecoder holds code, which only runs inside the sandbox", where="--onnx")
    if onnx is not None:
        done = export_round(env, info, state, onnx, p=p, sha256=sha256_bytes(data))
        click.echo(
            f"Wrote {onnx}: {done.output} at p = {done.p:g}. {done.differing} of {done.shots} predictions differ from the "
            "pipeline's" + (", all at ties that rounding decides." if done.differing else ".")
        )
    if safetensors is not None:
        to_safetensors(info, state, safetensors)
        click.echo(f"Wrote {safetensors}")
