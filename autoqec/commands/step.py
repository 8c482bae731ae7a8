"""`autoqec step`: the research loop in single steps, for a chat that drives it through its own subagents."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import AnyPath, Count, Number
from autoqec.commands.output import print_json
from autoqec.commands.progress import tasks_progress

if TYPE_CHECKING:
    from pydantic import BaseModel

    from autoqec.runs.research_run import ResearchRun

F = TypeVar("F", bound=Callable[..., Any])
_LONGEST_ANSWER = 1 << 20


@click.group()
def command() -> None:
    """Take one step of the research loop: begin, context, propose, code, run, analyse, verify, record,
    end; and abandon, for a round that gets no config.

    Every step prints one JSON object, may be repeated, and changes nothing if its input is wrong (exit code 2).
    """


def _run(function: F) -> F:
    return click.option("--run", "run_dir", required=True, type=RunPath(), help="Folder or id of the run.")(
        function
    )


def _round(function: F) -> F:
    return click.option("--round", "number", required=True, type=Count(min=1))(function)


def _answer(*, required: bool) -> Callable[[F], F]:
    return click.option(
        "--in",
        "answer",
        required=required,
        type=AnyPath(allow_dash=True),
        help="File with the role's answer, or - for standard input.",
    )


def _open(run_dir: Path) -> ResearchRun:
    from autoqec.runs.research_run import ResearchRun

    return ResearchRun.open(run_dir)


def _take(run_dir: Path, step: Callable[[ResearchRun], dict[str, Any]]) -> None:
    """A step that changes the run: no other process may work on it."""
    research = _open(run_dir)
    with research.run.exclusive():
        print_json(step(research))


def _read(path: Path | None, model: type[BaseModel]) -> Any:
    from autoqec.agents.answers import read_answer
    from autoqec.agents.failures import RoleFailure
    from autoqec.errors import InputError
    from autoqec.io.untrusted_file import decoded, read_text

    if path is None:
        return None
    if str(path) == "-":
        text = decoded(sys.stdin.buffer.read(), where="standard input")
    else:
        text = read_text(path, limit=_LONGEST_ANSWER, links=True)
    try:
        return read_answer(text, model)
    except RoleFailure as failure:
        raise InputError(
            failure.what, where=str(path), hint=f"answer as `autoqec schema` says of {model.__name__}"
        ) from None


@command.command()
@click.argument("env_yaml", metavar="ENV", required=False)
@click.option("--rounds", type=Count(min=1), help="Rounds in all. Default: 10.")
@click.option("--profile", type=click.Choice(("dev", "prod")), help="Budgets of a round. Default: dev.")
@click.option(
    "--budget-minutes", type=Number(min=0, min_open=True), help="Maximum time that rounds may take."
)
@click.option(
    "--round-minutes",
    "wall_clock_s",
    type=Number(min=0, min_open=True, max=15_000),
    callback=lambda _context, _option, minutes: None if minutes is None else 60.0 * minutes,
    help="Maximum time of one round's training and validation. Default: its profile's.",
)
@click.option(
    "--refuse-over-budget",
    is_flag=True,
    help="Refuse configs beyond the environment's FLOPs and parameter budgets, which else run and are marked.",
)
@click.option("--verify-shots", type=Count(min=1), help="Minimum shots per p of a verification.")
@click.option("--run-id", metavar="RUN_ID", help="Name the run: all its seeds are derived from its id.")
@click.option(
    "--own-repository", is_flag=True, help="Keep the branches in .autoqec/, not in AutoQEC's checkout."
)
@click.option(
    "--run",
    "run_dir",
    type=RunPath(),
    help="Resume this run instead of making one; --rounds, --budget-minutes and --round-minutes change its plan.",
)
def begin(env_yaml: str | None, run_dir: Path | None, **options: Any) -> None:
    """Make a run for ENV, or resume one; what a crash left is repaired."""
    from autoqec.errors import InputError
    from autoqec.runner.safety import default_memory_gb
    from autoqec.runs import chat
    from autoqec.runs.plan import CHAT, Plan
    from autoqec.runs.repository import open_default, open_workspace
    from autoqec.runs.research_run import ResearchRun
    from autoqec.runs.run_info import locate_env

    if (env_yaml is None) == (run_dir is None):
        raise InputError(
            "begin takes an environment or a run", where="ENV, --run", hint="give one of the two"
        )
    if run_dir is not None or env_yaml is None:
        _resume(run_dir or Path(), {name: value for name, value in options.items() if value})
        return
    locate_env(env_yaml)  # before a repository is made
    open_repository = open_workspace if options.pop("own_repository") else open_default
    run_id = options.pop("run_id")
    wanted = {"rounds": 10, **{name: value for name, value in options.items() if value is not None}}
    plan = Plan(proposer=CHAT, memory_gb=default_memory_gb(), **wanted)
    research = ResearchRun.begin(Path.cwd(), env_yaml, open_repository(Path.cwd()), plan, run_id)
    with research.run.exclusive():
        print_json(chat.begin(research))


def _resume(run_dir: Path, options: dict[str, Any]) -> None:
    from autoqec.errors import InputError
    from autoqec.runs import chat

    changeable = ("rounds", "budget_minutes", "wall_clock_s")
    fixed = [f"--{name.replace('_', '-')}" for name in options if name not in changeable]
    if fixed:
        raise InputError(
            "a run keeps what it was started with",
            where=", ".join(fixed),
            hint="with --run, only --rounds, --budget-minutes and --round-minutes may be given",
        )

    def take(research: ResearchRun) -> dict[str, Any]:
        if options:
            research.replan(**options)
        return chat.begin(research)

    _take(run_dir, take)


@command.command()
@click.argument("role", type=click.Choice(("ideator", "coder", "analyst")))
@_run
@click.option("--round", "number", type=Count(min=1), help="The round in flight, for coder and analyst.")
def context(role: Any, run_dir: Path, number: int | None) -> None:
    """What a role is told now: its instructions, the message, and the schema of its answer."""
    from autoqec.runs import chat

    print_json(chat.context(_open(run_dir), role, number))


@command.command()
@_run
@_answer(required=True)
@click.option(
    "--attempt", help="`attempt` of the Ideator's context: the same one again finds the round it started."
)
def propose(run_dir: Path, answer: Path, attempt: str | None) -> None:
    """Begin a round with the Ideator's answer, and make its worktree."""
    from autoqec.agents.schemas import IdeatorResponse
    from autoqec.runs import chat

    reply = _read(answer, IdeatorResponse)
    _take(run_dir, lambda research: chat.propose(research, reply, attempt))


@command.command()
@_run
@_round
@_answer(required=False)
def code(run_dir: Path, number: int, answer: Path | None) -> None:
    """Commit the Coder's answer; prints the command that trains the round. A pure compose round has no answer."""
    from autoqec.agents.schemas import CoderResponse
    from autoqec.runs import chat

    reply = _read(answer, CoderResponse)
    _take(run_dir, lambda research: chat.code(research, number, reply))


@command.command()
@_run
@_round
def run(run_dir: Path, number: int) -> None:
    """Take what the round's training left; train it if nothing did."""
    from autoqec.runs import chat

    _take(run_dir, lambda research: chat.train(research, number))


@command.command()
@_run
@_round
@_answer(required=False)
def analyse(run_dir: Path, number: int, answer: Path | None) -> None:
    """Put the Analyst's words on record, corrected by the metrics; without an answer, the rule's own."""
    from autoqec.agents.schemas import AnalystResponse
    from autoqec.runs import chat

    reply = _read(answer, AnalystResponse)
    _take(run_dir, lambda research: chat.analysed(research, number, reply))


@command.command()
@_run
@_round
def verify(run_dir: Path, number: int) -> None:
    """Verify a candidate on fresh shots."""
    from autoqec.runs import chat

    with tasks_progress() as progress:
        _take(run_dir, lambda research: chat.verified(research, number, progress))


@command.command()
@_run
@_round
def record(run_dir: Path, number: int) -> None:
    """Write the round into front, history and log, and remove its worktree."""
    from autoqec.runs import chat

    _take(run_dir, lambda research: chat.record(research, number))


@command.command()
@_run
@_round
@click.option("--reason", required=True, help="Why, in a few words; it is what history says.")
def abandon(run_dir: Path, number: int, reason: str) -> None:
    """Give up a round that has no config that can be committed, and record it."""
    from autoqec.runs import chat

    _take(run_dir, lambda research: chat.abandon(research, number, reason))


@command.command()
@_run
def end(run_dir: Path) -> None:
    """What the run has come to."""
    from autoqec.runs import chat

    print_json(chat.end(_open(run_dir)))
