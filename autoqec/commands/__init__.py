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
from typing import Any, NoReturn

import click

from autoqec import __version__
from autoqec.errors import ERROR_JSON, AutoQECError, InputError, is_out_of_memory

VERBS: dict[str, tuple[str, str]] = {
    "add-env": ("add_env", "Compose an environment YAML, by prompts or by flags."),
    "baseline": ("baseline", "Compare an environment's classical decoders on the same shots."),
    "cost": ("cost", "Count what a predecoder config costs per syndrome."),
    "decode": ("decode", "Decode recorded shots of a detector error model."),
    "diagnose": ("diagnose", "Find why a round, or the rounds of a run, went wrong."),
    "doctor": (
        "doctor",
        "Check this machine: versions, hardware, optional parts, and how to fix what is missing.",
    ),
    "env": ("env", "List, show and validate environments."),
    "export": ("export", "Export a round's predecoder as ONNX or safetensors."),
    "fork-graph": ("fork_graph", "Show which round of a run came from which."),
    "install-skills": ("install_skills", "Install AutoQEC's skills and subagents into a project."),
    "machine-state": ("machine_state", "Show what the next round can count on here."),
    "mcp": ("mcp", "Serve AutoQEC's tools to an MCP client."),
    "package-run": ("package_run", "Pack a run into one archive."),
    "pareto": ("pareto", "Show the Pareto fronts of runs."),
    "power": ("power", "Shots needed to detect a gain."),
    "reconcile": ("reconcile", "Repair a run after a crash or manual edits."),
    "replay": ("replay", "Train a recorded round again and compare."),
    "review": ("review", "Look back on a run: what it tried, gained, repeated and spent."),
    "run": ("run", "Discover predecoders: the research loop, with a language model or without."),
    "run-round": ("run_round", "Train and validate one predecoder from a config."),
    "schema": ("schema", "Print the JSON Schema of a contract model."),
    "step": ("step", "Take one step of the research loop: for a chat that drives it."),
    "verify": ("verify", "Verify a round's predecoder on fresh shots, in the sandbox."),
    "verify-package": ("verify_package", "Check a packaged run and verify it again."),
}

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


_MAY_NOT_WRITE = "give a folder that you may write, or mend its permissions"
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
        with formatter.section("Commands"):
            formatter.write_dl([(verb, VERBS[verb][1]) for verb in self.list_commands(ctx)])

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs.setdefault("prog_name", "autoqec")  # whichever of its three names it was started by
        _end_in_order()
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # names of files need not be characters
        try:
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
