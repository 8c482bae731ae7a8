"""The command line: one module per verb, imported only when the verb is used.

`autoqec --help` must stay instant, so verbs are listed here with their one-line help, and neither torch
nor stim is imported before a verb runs.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import json
import os
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import click

from autoqec import __version__
from autoqec.errors import ERROR_JSON, AutoQECError, InputError, is_out_of_memory
from autoqec.io.optional import named_if_missing

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Discover": {
        "run": ("run", "Discover predecoders, with a language model or without."),
        "run-round": ("run_round", "Train and validate one predecoder from a config."),
        "verify": ("verify", "Verify a round's predecoder on fresh shots, in the sandbox."),
        "cost": ("cost", "Count what a predecoder config costs per syndrome."),
        "power": ("power", "Shots needed to detect a gain."),
    },
    "Use": {
        "baseline": ("baseline", "Compare classical decoders on the same shots."),
        "decode": ("decode", "Decode recorded shots of a detector error model."),
        "export": ("export", "Export a round's predecoder as ONNX or safetensors."),
        "zoo": ("zoo", "Predecoders that come with AutoQEC: list, show, verify, get."),
    },
    "Environments": {
        "env": ("env", "List, show and validate environments."),
        "add-env": ("add_env", "Compose an environment YAML, by prompts or by flags."),
        "schema": ("schema", "Print the JSON Schema of a contract model."),
    },
    "Runs": {
        "runs": ("runs", "List the runs of this folder."),
        "report": ("report", "Write a run as one HTML page, with all its figures."),
        "serve": ("serve", "Show the runs of a folder in a browser, live."),
        "watch": ("watch", "Watch a run in the terminal."),
        "plot": ("plot", "Draw a figure of runs for a paper."),
        "card": ("card", "Write the model card of a verified round."),
        "pareto": ("pareto", "Show the Pareto fronts of runs."),
        "review": ("review", "Look back on a run: what it tried, gained and spent."),
        "diagnose": ("diagnose", "Find why a round, or the rounds of a run, went wrong."),
        "fork-graph": ("fork_graph", "Show which round of a run came from which."),
        "replay": ("replay", "Train a recorded round again and compare."),
        "reconcile": ("reconcile", "Repair a run after a crash or manual edits."),
        "package-run": ("package_run", "Pack a run into one archive."),
        "verify-package": ("verify_package", "Check a packaged run and verify it again."),
    },
    "Agents": {
        "step": ("step", "Take one step of the loop: for a chat that drives it."),
        "install-skills": ("install_skills", "Install AutoQEC's skills and subagents into a project."),
        "mcp": ("mcp", "Serve AutoQEC's tools to an MCP client."),
    },
    "This machine": {
        "doctor": ("doctor", "Check what is installed, and say how to fix what is missing."),
        "machine-state": ("machine_state", "Show what the next round can count on here."),
    },
}
"""Verbs as `autoqec --help` shows them: the module and one line of help of each."""

VERBS = {verb: entry for group in GROUPS.values() for verb, entry in group.items()}

ALIASES: dict[str, str] = {
    "review-log": "review",
    "code-source": "source",
    "n-seeds": "seeds",
    "n-shots": "shots",
    "noise-p": "p",
}
"""Names of an older tool, of verbs and of options of any verb: understood, and shown nowhere."""


RENAMED_OPTIONS: dict[str, dict[str, str]] = {
    "add-env": {"rounds": "readout-rounds"},
    "power": {"rounds": "confirmations"},
    "verify": {"rounds": "confirmations"},
}
"""Old names of options, by verb: understood, and shown nowhere. `--rounds` means rounds of the search."""


_MAY_NOT_WRITE = "give a folder that you may write, or change its permissions"
_HINTS = {
    errno.EACCES: _MAY_NOT_WRITE,
    errno.EPERM: _MAY_NOT_WRITE,
    errno.EROFS: _MAY_NOT_WRITE,
    errno.ENOSPC: "make room on the disk, and run the command again",
    errno.EDQUOT: "make room on the disk, and run the command again",
    errno.EISDIR: "give the path of a file",
    errno.ENOTDIR: "give the path of a folder",
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"autoqec.commands.{VERBS[cmd_name][0]}")
        command: click.Command = module.command
        command.context_settings["token_normalize_func"] = lambda name: _current_name(name, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        widest = max(map(len, VERBS))
        for group, verbs in GROUPS.items():
            with formatter.section(group):
                formatter.write_dl([(verb.ljust(widest), about) for verb, (_, about) in verbs.items()])

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        with _one_style():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            with _one_style(), self._options_named(ctx):
                return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("Interrupted", err=True)
            sys.exit(128 + signal.SIGINT)

    @contextlib.contextmanager
    def _options_named(self, ctx: click.Context) -> Iterator[None]:
        """An error about an argument of a function names the option that it came from."""
        try:
            yield
        except AutoQECError as error:
            verb = ctx.invoked_subcommand
            command = None if verb is None else self.get_command(ctx, verb)
            for option in [] if command is None else command.params:
                if isinstance(option, click.Option) and option.name == error.where:
                    error.where = max(option.opts, key=len)
            raise

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs.setdefault("prog_name", "autoqec")  # whichever of its three names it was started by
        _end_in_order()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be characters
        try:
            with named_if_missing():
                super().main(*args, **kwargs)
        except AutoQECError as error:
            _fail(error)
        except OSError as error:
            _fail(_refused_by_the_system(error))
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            _fail(AutoQECError("out of memory", hint="use a smaller model, or a machine with more memory"))
        sys.exit(0)


@contextlib.contextmanager
def _one_style() -> Iterator[None]:
    """Errors of click become InputErrors, with the nearest name that there is."""
    try:
        yield
    except click.UsageError as error:
        from autoqec.commands.usage import as_input_error, is_call_for_help

        if is_call_for_help(error):
            raise
        raise as_input_error(error) from None


def _refused_by_the_system(error: OSError) -> InputError:
    """The disk, a folder that may not be written, or what somebody did to a file meanwhile."""
    hint = _HINTS.get(error.errno or 0, "see to it, and run the command again")
    place = None if error.filename is None else str(error.filename)
    return InputError(error.strerror or str(error), where=place, hint=hint)


def _fail(error: AutoQECError) -> NoReturn:
    as_json = os.environ.get(ERROR_JSON) == "1"
    click.echo(json.dumps(error.to_dict()) if as_json else f"error: {error}", err=True)
    sys.exit(error.exit_code)


def _end_in_order() -> None:
    """A process that is told to end leaves no child and no temporary folder behind. What is ignored stays so, as under nohup."""
    with contextlib.suppress(ValueError):  # not the main thread, which alone hears signals
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) is signal.SIG_DFL:
                signal.signal(signum, lambda number, _: sys.exit(128 + number))


def _current_name(name: str, verb: str = "") -> str:
    return RENAMED_OPTIONS.get(verb, {}).get(name) or ALIASES.get(name, name)


@click.group(
    cls=_LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": _current_name},
)
@click.version_option(__version__, prog_name="autoqec")
def main() -> None:
    """AutoQEC discovers neural predecoders for quantum error-correcting codes, and verifies what it finds."""
