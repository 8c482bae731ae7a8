"""`autoqec run`: the research loop."""

from __future__ import annotations

import sys
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.options import Count, Number, executor_option
from autoqec.commands.output import print_json, print_result, print_table
from autoqec.commands.run_display import RunDisplay
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.api.research import RunRecord

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
@click.option(
    "--parallel",
    type=Count(min=1, max=1000),
    metavar="K",
    help="Rounds in flight at a time: round n is proposed from the results up to n - K. Default: 1, or that of a resumed run.",
)
@executor_option("Where rounds train and are verified.")
@click.option(
    "--round-cpus",
    type=Number(min=0, min_open=True, max=1e6),
    help="Cores of one training, with --parallel or a cluster. Default: its share.",
)
@click.option(
    "--round-gpus",
    type=Number(min=0, max=1e6),
    help="GPUs of one training on a cluster; may be a fraction. Default: its share, at most 1.",
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
    from autoqec.api.planning import Asked
    from autoqec.api.research import run

    options["run_id"] = _run_id(resume, options["run_id"])
    options["resume"] = resume is not None
    display = RunDisplay()
    if dry_run:
        for where in ("executor", "round_cpus", "round_gpus"):
            del options[where]
        _print_preview(Asked(env=env_yaml, event=display.event, **options).preview(), as_json)
        return
    try:
        with display:
            record = run(env_yaml, event=display.event, progress=display.progress, **options)
    except KeyboardInterrupt:
        if display.run_id is None:
            raise
        click.echo(f"\nStopped. Resume with: autoqec run {env_yaml} --resume {display.run_id}", err=True)
        sys.exit(INTERRUPTED)
    found = record.results()
    if as_json:
        print_json(found)
    else:
        _print(found, record)
        print_result(found)


def _run_id(resume: str | None, run_id: str | None) -> str | None:
    if resume is not None and run_id not in (None, resume):
        raise InputError(
            f"the run that resumes is {resume}, not {run_id}", where="--run-id", hint="leave one of them out"
        )
    return run_id if resume is None else resume


def _print_preview(found: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        click.echo(f"{name}: {value}")


def _print(found: dict[str, Any], record: RunRecord) -> None:
    from autoqec.layout import RunDir
    from autoqec.runs import headline
    from autoqec.stats.target import Target

    files = RunDir(record.path)
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
    if found["not_backed"] is not None:
        click.echo(found["not_backed"])
    if record.plan.is_smoke:
        click.echo(f"Not verified: {files.candidate_pareto}")
        return
    click.echo(f"Read {files.log}")
    click.echo(
        f"Next: autoqec report {files.path}; autoqec pareto {files.path} --plot front.png; autoqec review {files.path}"
    )
