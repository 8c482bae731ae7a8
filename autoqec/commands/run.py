"""`autoqec run`: the research loop."""

from __future__ import annotations

import sys
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.options import Count, Number
from autoqec.commands.output import print_json, print_result, print_table
from autoqec.commands.run_display import RunDisplay
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.runs.plan import Plan
    from autoqec.runs.research_run import ResearchRun

INTERRUPTED = 130


def _usd(_context: click.Context, _option: click.Parameter, text: str | None) -> Decimal | None:
    if text is None:
        return None
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal(-1)
    if not value.is_finite() or value < 0:
        raise InputError(f"{text!r} is not an amount", where="--budget-usd", hint="write dollars, as in 2.50")
    return value


@click.command()
@click.argument("env_yaml", metavar="ENV")
@click.option("--rounds", type=Count(min=1), help="Rounds in all. Default: 10, or those of a resumed run.")
@click.option("--profile", type=click.Choice(("dev", "prod")), help="Budgets of a round. Default: dev.")
@click.option(
    "--proposer", help="llm, optuna, evolution or templates. Default: llm if one is configured, else optuna."
)
@click.option(
    "--no-llm", is_flag=True, help="Smoke loop: random templates, no verification, no log.md and pareto.json."
)
@click.option("--budget-usd", callback=_usd, metavar="X", help="Maximum cost of language models in dollars.")
@click.option(
    "--budget-minutes", type=Number(min=0, min_open=True), help="Maximum time that rounds may take."
)
@click.option(
    "--round-minutes",
    type=Number(min=0, min_open=True, max=15_000),
    help="Maximum time of one round's training and validation. Default: its profile's.",
)
@click.option(
    "--refuse-over-budget",
    is_flag=True,
    help="Refuse configs beyond the environment's FLOPs and parameter budgets, which else run and are marked.",
)
@click.option("--verify-shots", type=Count(min=1), help="Minimum shots per p of a verification.")
@click.option("--resume", metavar="RUN_ID", help="Resume a run of this folder's runs/.")
@click.option("--run-id", metavar="RUN_ID", help="Name the run: all its seeds are derived from its id.")
@click.option(
    "--own-repository", is_flag=True, help="Keep the branches in .autoqec/, not in AutoQEC's checkout."
)
@click.option("--dry-run", is_flag=True, help="Say what would be done and what it may cost; write nothing.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print the results as JSON; nothing else goes to stdout."
)
def command(env_yaml: str, as_json: bool, dry_run: bool, resume: str | None, **options: Any) -> None:
    """Discover predecoders for ENV (a YAML file or a builtin name): propose, train, analyse, verify, round by round.

    Results are in runs/RUN_ID/: log.md to read, pareto.json, history.jsonl, and a folder per round. Exit code 3 if a person
    has to decide something first.
    """
    from autoqec.runs.loop import Loop
    from autoqec.runs.proposer_adapters import make_adapter

    if dry_run:
        _dry_run(env_yaml, resume, options, as_json)
        return
    research, changes = _resumed(env_yaml, resume, options) if resume else (_started(env_yaml, options), {})
    adapter = make_adapter(research.plan.model_copy(update=changes), research.run.files)
    if changes:
        with research.run.exclusive():
            research.replan(**changes)
    run_id = research.run.run_id
    click.echo(f"Run {run_id}: {research.run.files.path}", err=True)
    try:
        with RunDisplay() as display:
            outcome = Loop(research, adapter, event=display.event, progress=display.progress).run()
    except KeyboardInterrupt:
        click.echo(f"\nStopped. Resume with: autoqec run {env_yaml} --resume {run_id}", err=True)
        sys.exit(INTERRUPTED)
    found = {**research.results(), "stopped": outcome.stopped}
    if as_json:
        print_json(found)
    else:
        _print(found, research)
        print_result(found)


def _plan(options: dict[str, Any]) -> Plan:
    from autoqec.runner.safety import default_memory_gb
    from autoqec.runs.plan import Plan
    from autoqec.runs.proposer_adapters import NAMES, choose
    from autoqec.search.proposers import OFFLINE

    asked = options["proposer"]
    if options["no_llm"] and asked not in (None, "templates"):
        raise InputError(
            f"--no-llm is the smoke loop of random templates, and --proposer is {asked}",
            where="--no-llm",
            hint=f"leave --no-llm out: {asked} needs no language model"
            if asked in OFFLINE
            else "leave one out",
        )
    name, why = choose("templates" if options["no_llm"] else asked)
    if name not in NAMES:
        raise InputError(f"unknown proposer {name!r}", where="--proposer", hint=f"known: {', '.join(NAMES)}")
    if why:
        click.echo(why, err=True)
    return Plan(
        rounds=options["rounds"] or 10,
        proposer=name,
        profile=options["profile"] or "dev",
        is_smoke=options["no_llm"],
        verify_shots=options["verify_shots"],
        budget_minutes=options["budget_minutes"],
        budget_usd=options["budget_usd"],
        wall_clock_s=None if options["round_minutes"] is None else 60.0 * options["round_minutes"],
        refuse_over_budget=options["refuse_over_budget"],
        memory_gb=default_memory_gb(),
    )


def _started(env_yaml: str, options: dict[str, Any]) -> ResearchRun:
    from autoqec.runs.proposer_adapters import LLM
    from autoqec.runs.repository import open_default, open_workspace
    from autoqec.runs.research_run import ResearchRun
    from autoqec.runs.run_info import locate_env

    locate_env(env_yaml)
    plan = _plan(options)
    if plan.proposer == LLM:
        _check_backends(plan)
    open_repository = open_workspace if options["own_repository"] else open_default
    return ResearchRun.begin(Path.cwd(), env_yaml, open_repository(Path.cwd()), plan, options["run_id"])


def _check_backends(plan: Plan) -> None:
    """A missing program, key or price is reported before a run is made."""
    from tempfile import TemporaryDirectory

    from autoqec.agents.accounting import Caps
    from autoqec.agents.roles import Roles
    from autoqec.layout import RunDir

    with TemporaryDirectory() as folder:
        Roles(RunDir(folder), caps=Caps.for_budget(plan.budget_usd))


def _resumed(env_yaml: str, run_id: str, options: dict[str, Any]) -> tuple[ResearchRun, dict[str, Any]]:
    """The run as it was planned, and what is to be changed of that: rounds and budgets may be. Writes nothing."""
    from autoqec.layout import experiments_folder, runs_folder
    from autoqec.runs.names import check_run_id
    from autoqec.runs.research_run import ResearchRun
    from autoqec.runs.run_info import locate_env

    research = ResearchRun.open(runs_folder(Path.cwd()) / check_run_id(run_id))
    wrong = {
        "ENV": (locate_env(env_yaml)[0], research.run.info.env),
        "--profile": (options["profile"], research.plan.profile),
        "--proposer": (options["proposer"], research.plan.proposer),
        "--no-llm": (options["no_llm"] or None, research.plan.is_smoke),
        "--run-id": (options["run_id"], run_id),
        "--verify-shots": (options["verify_shots"], research.plan.verify_shots),
        "--refuse-over-budget": (options["refuse_over_budget"] or None, research.plan.refuse_over_budget),
        "--own-repository": (
            str(experiments_folder(Path.cwd()).resolve()) if options["own_repository"] else None,
            str(Path(research.run.info.repository).parent),
        ),
    }
    for option, (asked, planned) in wrong.items():
        if asked is not None and asked != planned:
            raise InputError(
                f"run {run_id} was started with {planned}, not {asked}",
                where=option,
                hint="leave it as it was",
            )
    changes = {
        name: options[name]
        for name in ("rounds", "budget_usd", "budget_minutes")
        if options[name] is not None
    }
    if options["round_minutes"] is not None:
        changes["wall_clock_s"] = 60.0 * options["round_minutes"]
    if changes.get("rounds", 0) > research.plan.rounds:
        click.echo(
            f"Verifications share one error budget that was planned for {research.plan.rounds} rounds: what they left of it "
            "is all that the further ones have.",
            err=True,
        )
    return research, changes


def _dry_run(env_yaml: str, resume: str | None, options: dict[str, Any], as_json: bool) -> None:
    from autoqec.runs.preview import preview, preview_resumed

    if resume:
        research, changes = _resumed(env_yaml, resume, options)
        found = preview_resumed(research.run, research.plan.model_copy(update=changes))
    else:
        found = preview(env_yaml, _plan(options), options["run_id"])
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        click.echo(f"{name}: {value}")


def _print(found: dict[str, Any], research: ResearchRun) -> None:
    from autoqec.runs import headline
    from autoqec.stats.target import Target

    files = research.run.files
    counts = ", ".join(f"{count} {name}" for name, count in sorted(found["verdicts"].items()))
    click.echo(
        f"Run {found['run_id']}: {found['rounds']} of {found['rounds_planned']} rounds: {counts or 'none'}"
    )
    if found["stopped"]:
        click.echo(f"Stopped: {found['stopped']}")
    if found["front"]:
        print_table(
            "Verified Pareto front: LER of the other over that of the predecoder, on shots that selected nothing",
            ("round", *headline.COLUMNS, "MFLOP", "parameters", "target"),
            [
                (
                    member["round"],
                    *headline.of_verification(member["verification"]),
                    f"{member['flops_per_syndrome'] / 1e6:.3g}",
                    member["n_params"],
                    member["target"]["reached"] if member["target"] else None,
                )
                for member in found["front"]
            ],
            least=(7, 4, 6),
        )
        if (target := found["front"][0]["target"]) is not None:
            click.echo(f"Target: {Target.model_validate(target).text} (round {found['front'][0]['round']})")
    if research.plan.is_smoke:
        click.echo(f"Not verified: {files.candidate_pareto}")
        return
    click.echo(f"Read {files.log}")
    click.echo(
        f"Next: autoqec report {files.path}; autoqec pareto {files.path} --plot front.png; autoqec review {files.path}"
    )
