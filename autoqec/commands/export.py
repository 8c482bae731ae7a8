"""`autoqec export`: a round's predecoder for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import OutFile
from autoqec.errors import InputError


@click.command()
@click.argument("round_dir", type=RunPath())
@click.option(
    "--env", "env_name", help="Builtin name or YAML file. Default: the one the checkpoint was trained on."
)
@click.option(
    "--onnx",
    type=OutFile(),
    help="Write an ONNX model: syndrome -> forward's output.",
)
@click.option(
    "--safetensors",
    type=OutFile(),
    help="Write weights, with the description as metadata.",
)
def command(round_dir: Path, env_name: str | None, onnx: Path | None, safetensors: Path | None) -> None:
    """Export the checkpoint of ROUND_DIR."""
    from autoqec.decoders import checkpoint
    from autoqec.decoders.checkpoint_env import env_of_checkpoint
    from autoqec.decoders.export import to_onnx, to_safetensors
    from autoqec.envs.load import load_env
    from autoqec.layout import RoundDir

    if onnx is None and safetensors is None:
        raise InputError("nothing to export", where="export", hint="give --onnx FILE or --safetensors FILE")
    env = env_of_checkpoint(round_dir) if env_name is None else load_env(env_name)
    info, state = checkpoint.read(RoundDir(round_dir).checkpoint)
    if info.env_hash != env.content_hash:
        raise InputError(
            f"the checkpoint belongs to {info.env_name}, or to another version of {env.spec.name}",
            where="--env",
            hint="give the environment that the round was trained on",
        )
    if safetensors is not None:
        to_safetensors(info, state, safetensors)
        click.echo(f"Wrote {safetensors}")
    if onnx is not None:
        if info.dsl.tier == "2":
            raise InputError(
                "a tier-2 predecoder holds code, which only runs inside the sandbox", where="--onnx"
            )
        problem = env.problem(env.spec.noise.p[0])
        module = checkpoint.restore(info, state, problem, where=str(round_dir))
        to_onnx(module, problem, onnx)
        click.echo(f"Wrote {onnx}")
