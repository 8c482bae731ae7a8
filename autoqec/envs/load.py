"""Finding environments: builtin names and YAML files."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from autoqec.envs.environment import Environment
from autoqec.envs.schema import EnvSpec
from autoqec.errors import InputError
from autoqec.io.closest import did_you_mean
from autoqec.io.untrusted_file import is_there
from autoqec.io.validate import load_model, validate_model


def builtin_folder() -> Path:
    """The folder of the builtin environments; the package is always installed unpacked."""
    return Path(str(resources.files("autoqec.envs.builtin")))


def builtin_names() -> list[str]:
    """Of the environments that come with the package."""
    return sorted(path.stem for path in builtin_folder().glob("*.yaml"))


def env_file(name_or_path: str | Path) -> Path:
    """The YAML file of an environment: a builtin's inside the package, by its name; else the path itself."""
    text = str(name_or_path)
    return builtin_folder() / f"{text}.yaml" if text in builtin_names() else Path(text)


def load_env(given: str | Path | Mapping[str, Any]) -> Environment:
    """An environment.

    Args:
        given: the name of a builtin one, a YAML file, or what such a file holds as a mapping. Relative paths in it start at the
            file's folder; in a mapping, at the working directory.

    Examples:
        >>> import autoqec
        >>> autoqec.load_env("surface_d3_depol").problem(0.01).n_checks
        24
    """
    if isinstance(given, Mapping):
        spec = validate_model(dict(given), EnvSpec, where="environment")
        return Environment(spec, root=Path.cwd(), origin=spec.name)
    text = str(given)
    path = env_file(text)
    if not is_there(path) and path.suffix not in (".yaml", ".yml", ".json"):
        builtin = f"builtin: {', '.join(builtin_names())}; or give the path of an environment YAML"
        raise InputError(
            f"{text[:200]!r} is neither a builtin environment nor a file",
            where="env",
            hint=" ".join(filter(None, [did_you_mean(text, builtin_names()), builtin])),
        )
    file = path.resolve()
    return Environment(load_model(path, EnvSpec), root=file.parent, origin=text, file=file)
