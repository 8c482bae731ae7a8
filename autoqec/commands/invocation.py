"""What a command line says about where a round comes from: its parents, and the command line itself."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from autoqec.errors import InputError

_NO_BRANCH = re.compile(r'[\s~^:?*\\"{}\[\]]|\.\.')
"""What git allows in no name, or nobody means as one."""
_PRINTING = ("as_json",)


def parents_of(given: Sequence[str]) -> str | list[str] | None:
    """The value of `--fork-from`: one branch; or the parents of a compose round in merge order, as one JSON list or by
    repeating the option; None if it was not given."""
    names: Any = list(given)
    is_list = len(names) > 1
    if len(names) == 1 and names[0].lstrip().startswith("["):
        is_list = True
        try:
            names = json.loads(names[0])
        except ValueError:
            names = [names[0]]  # which is not a branch
    for name in names:
        if not isinstance(name, str) or _NO_BRANCH.search(name):
            raise InputError(
                f"{name!r} is not a branch",
                where="--fork-from",
                hint="give a name; for a compose round, repeat the option, or give a JSON list: "
                """'["exp/<run_id>/01-a", "exp/<run_id>/02-b"]'""",
            )
    if not names and not is_list:
        return None
    return list(names) if is_list else str(names[0])


def normalised_argv(context: click.Context, verb: str, changed: Mapping[str, Any]) -> list[str]:
    """The command line as provenance: two ways to write one command give the same words, and the words can be run again.

    They are `autoqec`, the verb, its arguments, and then every option that has a value, defaults included, in the order
    of --help, by its long name as `--name=value`. Paths are absolute and without links; a repeated option stands once
    for each of its values. What only changes the print-out is left out.

    changed: values by parameter name that stand for those on the command line.
    """
    arguments, options = [], []
    for parameter in context.command.params:
        name = parameter.name or ""
        value = changed.get(name, context.params.get(name))
        if value is None or value is False or name in _PRINTING:
            continue
        if isinstance(parameter, click.Argument):
            arguments.append(_word(value))
        elif value is True:
            options.append(max(parameter.opts, key=len))
        else:
            values = value if isinstance(value, list | tuple) else [value]
            options += [f"{max(parameter.opts, key=len)}={_word(one)}" for one in values]
    return ["autoqec", verb, *arguments, *options]


def _word(value: object) -> str:
    return str(value.resolve()) if isinstance(value, Path) else str(value)
