"""`autoqec verify`: the independent verification of a round."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import AnyPath, Count, Number, Seconds, executor_option
from autoqec.commands.output import print_json, print_table
from autoqec.commands.progress import tasks_progress
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.eval.schema import VerifyReport

EXIT_CODES = {"VERIFIED": 0, "SUSPICIOUS": 3, "FAILED": 4}


def _labels(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> tuple[int, int] | int | None:
    """First and last label, or how many labels."""
    if text is None:
        return None
    if re.fullmatch(r"0*[1-9]\d{0,11}", text):
        return int(text)
    found = re.fullmatch(r"(\d{1,12}):(\d{1,12})", text)
    if found is None:
        raise InputError(
            f"{text!r} is neither a range of labels nor a number of them",
            where="--seeds",
            hint="write it as 9000:9099, or as 100",
        )
    return int(found[1]), int(found[2])


@click.command()
@click.argument("round_dir", type=RunPath())
@click.option(
    "--env", "env_name", help="Builtin name or YAML file. Default: the one the checkpoint was trained on."
)
@click.option("--shots", type=Count(min=1), help="Minimum shots per p. Default: min_shots_verify.")
@click.option("--cap", type=Count(min=1), help="Maximum shots at the reference p. Default: 5 times --shots.")
@click.option(
    "--seeds",
    callback=_labels,
    metavar="A:B|N",
    help="Labels inside the holdout range, first:last; or how many of its first ones.",
)
@click.option("--bundle", help="Evaluate again on this archived bundle.")
@click.option(
    "--kind",
    type=click.Choice(("confirm", "dev", "estimate")),
    default="confirm",
    show_default=True,
    help="Of the fresh bundle. Only confirm supports a claim.",
)
@click.option(
    "--confirmations",
    type=Count(min=1),
    default=20,
    show_default=True,
    help="Planned for the run; each spends 0.025 / CONFIRMATIONS of alpha.",
)
@click.option(
    "--with",
    "parents",
    multiple=True,
    type=RunPath(),
    help="A parent of a compose round, on the same shots (repeatable).",
)
@click.option(
    "--threshold",
    type=Number(min=0),
    default=0.8,
    show_default=True,
    help="A child composes above this times the sum of its parents' gains.",
)
@click.option(
    "--deadline",
    "deadline_s",
    type=Seconds(),
    default=3600.0,
    show_default=True,
    help="Seconds that the model may take in each of its processes, twice that in one for test and estimate; "
    "a thirtieth, but at least 120, for 1024 shots.",
)
@click.option(
    "--baseline-seconds",
    type=Seconds(),
    default=20.0,
    show_default=True,
    help="Seconds of one core, at each p, for each decoder beyond the plain backend; it decodes as many shots as that allows.",
)
@executor_option("Where the verifier's workers are.")
@click.option("--repo", type=AnyPath(), help="Repository of the round's commit.")
@click.option("--base", default="HEAD", show_default=True, help="What experiment branches leave from.")
@click.option("--json", "as_json", is_flag=True, help="Print the report instead of a summary.")
def command(
    round_dir: Path, env_name: str | None, parents: tuple[Path, ...], as_json: bool, **options: Any
) -> None:
    """Verify the checkpoint of ROUND_DIR on fresh shots, in the sandbox.

    Writes verification_report.json and .md there, but not into the zoo, nor over the report that a run's history and front rely on.
    Exit code 0 VERIFIED, 3 SUSPICIOUS, 4 FAILED, 2 bad input.
    """
    from autoqec.api.verification import keeps_report, verify
    from autoqec.decoders.checkpoint_env import env_or_own

    env = env_or_own(env_name, round_dir)
    if env_name is None:
        click.echo(f"Environment, as the round names it: {env.origin}", err=True)
    kept_in = round_dir if keeps_report(round_dir) else None
    with tasks_progress() as progress:
        head = verify(round_dir, env, parents=parents, progress=progress, **options)
    if as_json:
        print_json(head.model_dump(mode="json"))
    else:
        print_report(str(round_dir), head, kept_in)
        if (found := head.composition) is not None:
            gains = ", ".join(f"{gain:.4g}" for gain in (found.child_delta, *found.parent_deltas))
            click.echo(f"Composition: {found.reading} (gains of child and parents: {gains})")
    sys.exit(EXIT_CODES[head.verdict])


def print_report(name: str, report: VerifyReport, folder: Path | None) -> None:
    """folder: where the report was written; None where it was not."""
    click.echo(f"{report.verdict}  {name}")
    click.echo(f"  {report.notes}")
    print_table(
        "",
        ("p", "shots", f"{report.baseline} LER", "candidate LER", "difference", "ratio"),
        [
            (
                row.p,
                row.shots,
                row.ler_baseline,
                row.ler_candidate,
                f"{row.delta_ci[0]:.3g} .. {row.delta_ci[1]:.3g}",
                "-" if row.ratio is None else f"{row.ratio:.3f}",
            )
            for row in report.per_p
        ],
    )
    if (found := report.estimate) is not None:
        low, high = found.delta_ci
        click.echo(
            f"Effect on {found.shots} shots that selected nothing: {found.ler_baseline:.4g} -> {found.ler_candidate:.4g}, "
            f"difference {found.delta:.3g} ({low:.3g} .. {high:.3g})"
        )
    if report.target is not None:
        click.echo(f"Target: {report.target.text}")
    broken = [guard.name for guard in report.guards if guard.ok is False]
    applied = sum(guard.ok is not None for guard in report.guards)
    click.echo(
        f"{applied - len(broken)} of {applied} guards ok{': not ' + ', '.join(broken) if broken else ''}; "
        f"sandbox: {report.sandbox_kind if report.sandboxed else 'unsandboxed'}; {report.seconds:.0f} s"
    )
    if folder is None:
        click.echo(
            "This report is not kept: the round's folder stays as it is. To keep one, verify a copy of the folder."
        )
    else:
        click.echo(f"Report: {folder / 'verification_report.md'}")
