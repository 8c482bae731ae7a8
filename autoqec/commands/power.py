"""`autoqec power`: shots needed to detect a gain."""

from __future__ import annotations

import click

from autoqec.commands.options import Count, Number
from autoqec.commands.output import print_json, print_table
from autoqec.errors import InputError


@click.command()
@click.option("--ler", type=Number(), required=True, help="Logical error rate of the baseline, per shot.")
@click.option(
    "--effect",
    type=Number(),
    required=True,
    help="Share of its failures that the candidate removes, e.g. 0.1.",
)
@click.option(
    "--power", "wanted", type=Number(), default=0.95, show_default=True, help="Probability to detect it."
)
@click.option(
    "--alpha",
    type=Number(),
    help="Probability of a false gain, one-sided. Default: 0.025, shared among the confirmations.",
)
@click.option("--confirmations", type=Count(min=1), default=1, show_default=True, help="Planned for the run.")
@click.option(
    "--kappa",
    type=Number(),
    default=0.5,
    show_default=True,
    help="Discordant shots per failure of the baseline.",
)
@click.option(
    "--shots",
    type=Count(min=1),
    help="Shots to judge. Default: min_shots_verify of the environments.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of a table.")
def command(
    ler: float,
    effect: float,
    wanted: float,
    alpha: float | None,
    confirmations: int,
    kappa: float,
    shots: int | None,
    as_json: bool,
) -> None:
    """Shots needed to detect a gain over a baseline, and the gain that a verification of minimum size detects.

    The fixed size is for the exact one-sided McNemar test. The verifier's test looks at growing samples and
    stops when it can decide: its mean is what a true gain costs, and POWER of the true gains are found within
    the quantile.
    """
    from autoqec.envs.schema import EvalProtocol
    from autoqec.stats import power as stats
    from autoqec.stats.sequential import MIN_BASELINE_FAILURES, confirmation_alpha

    if alpha is None:
        alpha = confirmation_alpha(confirmations)
    elif confirmations != 1:
        raise InputError(
            "--alpha and --confirmations both say what one confirmation may spend", hint="give one of them"
        )
    if shots is None:
        shots = EvalProtocol().min_shots_verify
    fixed = stats.shots_needed(ler, effect, wanted, alpha=alpha, kappa=kappa)
    sequential = stats.sequential_shots(ler, effect, wanted, alpha=alpha, kappa=kappa, min_shots=shots)
    detectable = stats.detectable_effect(shots, ler, wanted, alpha=alpha, kappa=kappa)
    failures = shots * ler
    if as_json:
        print_json(
            {
                "ler": ler,
                "effect": effect,
                "power": wanted,
                "alpha": alpha,
                "kappa": kappa,
                "shots_fixed": fixed,
                "shots_sequential_mean": sequential.mean,
                "shots_sequential_quantile": sequential.quantile,
                "judged_shots": shots,
                "judged_expected_failures": failures,
                "judged_detectable_effect": detectable,
            }
        )
        return
    print_table(
        f"LER {ler:g} -> {ler * (1 - effect):g}",
        ("", "shots"),
        [
            ("exact McNemar, fixed size", f"{fixed:,}"),
            ("sequential test, mean", f"{sequential.mean:,}"),
            (f"sequential test, {wanted:.0%} of the cases", f"{sequential.quantile:,}"),
        ],
    )
    click.echo(f"Power {wanted:g}, alpha {alpha:.3g} per confirmation, kappa {kappa:g}.")
    power_of = (
        "cannot detect even a perfect decoder" if detectable is None else f"detect a gain of {detectable:.1%}"
    )
    click.echo(f"{shots:,} shots {power_of}; the baseline fails {failures:.3g} times in them.")
    if failures < MIN_BASELINE_FAILURES:
        click.echo(
            f"The verifier decides from {MIN_BASELINE_FAILURES} failures of the baseline on: "
            f"about {MIN_BASELINE_FAILURES / ler:,.0f} shots."
        )
