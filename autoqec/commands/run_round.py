"""`autoqec run-round`: one round from a hand-written config."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from autoqec.commands.invocation import normalised_argv, parents_of
from autoqec.commands.named import ConfigPath, RunPath
from autoqec.commands.options import AnyPath, Count, Number, OutFolder, Seconds, executor_option
from autoqec.commands.output import print_result, print_table, print_warnings
from autoqec.envs.shot_files import FORMATS


@click.command()
@click.argument("env_yaml")
@click.argument("config_yaml", type=ConfigPath())
@click.argument("round_dir", type=OutFolder())
@click.option(
    "--profile",
    type=click.Choice(("dev", "prod", "campaign")),
    default=None,
    help="Budgets; campaign: hours on one or several GPUs. Default: the config's training.profile.",
)
@click.option(
    "--processes",
    type=Count(min=1, max=1024),
    help="Of a campaign: so many train one model together. Default: one for each GPU.",
)
@click.option("--seed", type=Count(min=0, max=2**64 - 1), default=0, show_default=True)
@click.option(
    "--wall-clock",
    type=Seconds(),
    help="Seconds until the round is killed. Default: 1800; 86400 for a campaign.",
)
@click.option(
    "--memory-gb",
    type=Number(min=0),
    help="Maximum memory that a training batch may need. Default: what is free.",
)
@click.option(
    "--compile", "torch_compile", is_flag=True, help="Train with a compiled graph network (torch.compile)."
)
@click.option(
    "--init-from",
    type=RunPath(),
    help="Start from the checkpoint of this round (folder, checkpoint.pt, or zoo:ENV/NAME): what fits is taken over, and the round says what.",
)
@executor_option("Where validation decodes; code that is not the installed package's own always does here.")
@click.option(
    "--tensorboard",
    type=OutFolder(),
    help="Folder for event files that TensorBoard reads; each round has its own below it.",
)
@click.option(
    "--train-shots",
    type=AnyPath(),
    help="Train on these recorded shots, in a format of Stim; each ends with its observables.",
)
@click.option(
    "--train-observables",
    type=AnyPath(),
    help="The observables of --train-shots, if they have a file of their own.",
)
@click.option(
    "--train-shots-format", type=click.Choice(FORMATS), help="Of both. Default: by the ending of the name."
)
@click.option(
    "--code-cwd",
    type=AnyPath(),
    help="Absolute path of the worktree whose code runs; start the command in it.",
)
@click.option("--branch", help="Branch of the worktree.")
@click.option(
    "--fork-from",
    multiple=True,
    help="Parent branch. For a compose round, repeat it or give a JSON list, in merge order.",
)
@click.option("--compose-mode", type=click.Choice(("pure", "with_edit")))
@click.option("--round-attempt-id", help="UUID of the attempt; needed with the options above.")
@click.option("--commit-message")
@click.option("--json", "as_json", is_flag=True, help="Print metrics.json, and nothing else, on stdout.")
@click.pass_context
def command(
    context: click.Context,
    /,
    env_yaml: str,
    config_yaml: Path,
    round_dir: Path,
    as_json: bool,
    **options: Any,
) -> None:
    """Train and validate one predecoder: ENV_YAML (file or builtin), CONFIG_YAML (DSL), ROUND_DIR (made if missing).

    Writes config.yaml, train.log, checkpoint.pt, metrics.json and artifact_manifest.json. Exit code 0 when the status is
    ok, 1 otherwise, 2 if CONFIG_YAML is not a config; metrics.json says why. Without --json, the last line of stdout is
    AUTOQEC_RESULT_JSON= and the same in one line, for scripts.
    """
    from autoqec.api.rounds import train
    from autoqec.envs.load import builtin_names, load_env
    from autoqec.runner.profiles import PROFILES

    env = load_env(env_yaml)
    print_warnings(env)
    fork, code_cwd = parents_of(options["fork_from"]), options["code_cwd"]
    words = {
        "env_yaml": env_yaml if env_yaml in builtin_names() else env.file,
        "fork_from": fork,
        "code_cwd": code_cwd,
        "wall_clock": options["wall_clock"] or PROFILES[options["profile"] or "dev"].wall_clock_s,
        **{
            name: None if options[name] is None else options[name].resolve()
            for name in ("init_from", "train_shots", "train_observables", "tensorboard")
        },
    }
    found = train(
        env,
        config_yaml,
        round_dir,
        profile=options["profile"],
        processes=options["processes"],
        seed=options["seed"],
        wall_clock_s=words["wall_clock"],
        memory_gb=options["memory_gb"],
        torch_compile=options["torch_compile"],
        executor=options["executor"],
        init_from=words["init_from"],
        tensorboard=words["tensorboard"],
        train_shots=words["train_shots"],
        train_observables=words["train_observables"],
        train_shots_format=options["train_shots_format"],
        show_progress=sys.stderr.isatty(),
        check=False,
        code_cwd=None if code_cwd is None else str(code_cwd),
        branch=options["branch"],
        fork_from=fork,
        compose_mode=options["compose_mode"],
        round_attempt_id=options["round_attempt_id"],
        commit_message=options["commit_message"],
        invocation_argv=normalised_argv(context, "run-round", words),
    )
    metrics = found.metrics
    if as_json:
        click.echo(metrics.model_dump_json(indent=2))
    else:
        _print(metrics)
        print_result({"round_dir": str(found.path), **metrics.model_dump(mode="json")})
    sys.exit(0 if metrics.status == "ok" else 1)


def _print(metrics: Any) -> None:
    if metrics.status != "ok":
        click.echo(f"{metrics.status}: {metrics.status_reason}")
        return
    print_table(
        f"{metrics.flops_per_syndrome / 1e6:.2f} MFLOP per syndrome, {metrics.n_params} parameters, "
        f"trained {metrics.train_wallclock_s:.0f} s, validated {metrics.eval_wallclock_s:.0f} s",
        ("p", "shots", "plain LER", "predecoder LER", "delta, interval", "ratio", "interval", "us/shot"),
        [
            (
                row["p"],
                row["shots"],
                row["ler_plain"],
                row["ler_predecoder"],
                f"{row['delta_low']:.3g} .. {row['delta_high']:.3g}",
                "-" if row["ratio"] is None else f"{row['ratio']:.3f}",
                f"{row['ratio_low']:.3f} .. "
                + ("-" if row["ratio_high"] is None else f"{row['ratio_high']:.3f}"),
                f"{row['us_per_shot_predecoder']:.1f}",
            )
            for row in metrics.per_p
        ],
        least=(7, 1),
    )
    for row in metrics.baselines or ():
        ratio = (
            "against none of the predecoder,"
            if row["ratio"] is None
            else f"{row['ratio']:.3f} times the predecoder's"
        )
        high = "-" if row["ratio_high"] is None else f"{row['ratio_high']:.3f}"
        click.echo(
            f"{row['plain']}: LER {row['ler_plain']:.4g}, {ratio} on {row['shots']} shots ({row['ratio_low']:.3f} .. {high})"
        )
    if metrics.hard_flip is not None:
        click.echo(
            f"Syndrome density after hard flips: {metrics.hard_flip['residual_density']:.3f} of the raw one; "
            f"backend {metrics.hard_flip['backend_speedup']:.2f} times faster on it"
        )
    for line in metrics.init_from.lines() if metrics.init_from is not None else ():
        click.echo(line)
    click.echo(f"Headline at p = {metrics.reference_p:g}. Training: {metrics.training_note}")
    for line in metrics.over_budget or ():
        click.echo(f"Over budget: {line}")
    click.echo(f"Checkpoint: {metrics.checkpoint_path}")
