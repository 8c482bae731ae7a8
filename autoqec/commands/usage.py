"""What click refuses (a command, option or argument that is not there, or a choice that is none), said as every other error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from autoqec.errors import InputError
from autoqec.io.closest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable

_HELP = getattr(click.exceptions, "NoArgsIsHelpError", ())


def is_call_for_help(error: click.UsageError) -> bool:
    """A group without a command shows its help; click raises that as an error."""
    return isinstance(error, _HELP)


def as_input_error(error: click.UsageError) -> InputError:
    """The same in the words of every other error, with the nearest name that there is."""
    command = error.ctx.command_path if error.ctx is not None else "autoqec"
    see = f"see {command} --help"
    if isinstance(error, click.NoSuchOption):
        options = _options(error.ctx)
        return _refused(f"no such option {error.option_name}", command, error.option_name, options, see)
    if isinstance(error, click.MissingParameter) and error.param is not None:
        kind, name = error.param.param_type_name, _name(error.param)
        return InputError(f"{kind} {name} is missing", where=command, hint=see)
    if isinstance(error, click.BadParameter) and error.param is not None:
        return InputError(error.message.rstrip("."), where=_name(error.param), hint=see)
    if (word := _unknown_command(error)) is not None:
        return _refused(f"no such command {word[:80]!r}", command, word, _commands(error.ctx), see)
    return InputError(error.format_message().rstrip("."), where=command, hint=see)


def _unknown_command(error: click.UsageError) -> str | None:
    found = re.match(r"No such command '(.*)'", error.message, re.DOTALL)
    return found[1] if found else None


def _refused(what: str, where: str, word: str, known: Iterable[str], see: str) -> InputError:
    return InputError(what, where=where, hint=" ".join(filter(None, [did_you_mean(word, known), see])))


def _options(ctx: click.Context | None) -> list[str]:
    found = [] if ctx is None else [name for param in ctx.command.get_params(ctx) for name in param.opts]
    return [name for name in found if name.startswith("--")]


def _commands(ctx: click.Context | None) -> list[str]:
    return ctx.command.list_commands(ctx) if ctx is not None and isinstance(ctx.command, click.Group) else []


def _name(param: click.Parameter) -> str:
    return max(param.opts, key=len) if isinstance(param, click.Option) else param.human_readable_name
