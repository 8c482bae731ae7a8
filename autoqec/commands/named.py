"""Types of options and arguments that take a name as well as a path: runs by their ids, example configs by theirs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from autoqec.commands.options import AnyPath, path_problem
from autoqec.io.closest import did_you_mean
from autoqec.layout import RunDir, config_file, example_configs, runs_folder

_CONFIGS = (".yaml", ".yml", ".json")


class RunPath(AnyPath):
    """A run, a round or a file of one, that is there: by its path, or by the id of a run of this folder's `runs/`, as in
    ID, or ID/round_3. A path that exists comes first. `zoo:ENV/NAME` is the folder of a predecoder that comes with the package."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from autoqec.finds.zoo import round_folder

        named = value if path_problem(value) else round_folder(value, "")
        return super().convert(named, param, ctx)

    def problem(self, path: Path) -> str | None:
        if os.path.lexists(path):
            return None
        run_id, *rest = path.parts
        if rest and run_id in _run_ids():
            return f"run {run_id} has no {'/'.join(rest)}"
        return f"{path} is not a folder, nor the id of a run in {runs_folder('')}/"

    def hint(self, path: Path) -> str:
        from autoqec.finds.zoo import meant_the_zoo

        near = meant_the_zoo(path) or (did_you_mean(path.parts[0], _run_ids()) if path.parts else None)
        return " ".join(filter(None, [near, "autoqec runs lists the runs of this folder"]))


class DecoderOrRound(RunPath):
    """The name of a decoder, or a round as above. A decoder's name comes first: ./NAME is the folder. What is neither is left to those who
    know all decoders."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from autoqec.api.line_up import is_round
        from autoqec.decoders.baselines.registry import is_known

        if isinstance(value, str) and value.strip() and not path_problem(value) and not is_round(value):
            named = os.path.lexists(value) or value in _run_ids()
            if is_known(value) or not named:
                return value
        return super().convert(value, param, ctx)


def _run_ids() -> list[str]:
    return [path.name for path in runs_folder("").glob("*") if RunDir(path).about.is_file()]


class ConfigPath(AnyPath):
    """A predecoder config: a file, or the name of an example in `autoqec/example_db`. A file that exists comes first."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        named = value if path_problem(value) else config_file(value)
        return super().convert(named, param, ctx)

    def problem(self, path: Path) -> str | None:
        if os.path.lexists(path) or path.suffix in _CONFIGS:
            return None  # what is wrong with a file is for its reader to say
        return f"{path} is neither a file nor an example config"

    def hint(self, path: Path) -> str:
        near = did_you_mean(str(path), example_configs())
        return " ".join(
            filter(None, [near, f"examples: {', '.join(example_configs())}; or give a YAML file"])
        )
