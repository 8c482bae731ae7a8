"""`autoqec schema`: the JSON Schema of a model of docs/contract.md, for editors and for the roles' structured output."""

from __future__ import annotations

import importlib
import json
from typing import Any

import click
from pydantic import BaseModel

from autoqec.errors import InputError
from autoqec.io.closest import did_you_mean

MODELS: dict[str, str] = {
    "EnvSpec": "autoqec.envs.schema",
    "CodeSpec": "autoqec.envs.schema",
    "NoiseSpec": "autoqec.envs.schema",
    "SeedPolicy": "autoqec.envs.schema",
    "ConstraintsSpec": "autoqec.envs.schema",
    "EvalProtocol": "autoqec.envs.schema",
    "PredecoderDSL": "autoqec.decoders.dsl_schema",
    "RunnerConfig": "autoqec.runner.schema",
    "RoundMetrics": "autoqec.runner.schema",
    "VerifyReport": "autoqec.eval.schema",
    "IdeatorResponse": "autoqec.agents.schemas",
    "CoderResponse": "autoqec.agents.schemas",
    "AnalystResponse": "autoqec.agents.schemas",
}


def json_schema(name: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of what `name` accepts."""
    if name not in MODELS:
        hint = " ".join(filter(None, [did_you_mean(name, MODELS), f"known: {', '.join(MODELS)}"]))
        raise InputError(f"{name[:100]!r} is not a contract model", where="schema", hint=hint)
    model: type[BaseModel] = getattr(importlib.import_module(MODELS[name]), name)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **model.model_json_schema()}


@click.command()
@click.argument("model", required=False)
@click.option("--list", "list_names", is_flag=True, help="List the models; so does leaving MODEL out.")
@click.option("--json", "as_json", is_flag=True, help="The list as JSON; a schema always is.")
def command(model: str | None, list_names: bool, as_json: bool) -> None:
    """Print the JSON Schema of a contract MODEL, e.g. EnvSpec."""
    if model is not None and not list_names:
        click.echo(json.dumps(json_schema(model), indent=2, ensure_ascii=False))
    elif as_json:
        click.echo(json.dumps(list(MODELS), indent=2))
    else:
        click.echo("\n".join(MODELS))
