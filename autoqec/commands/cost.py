"""`autoqec cost`: what a config would cost per syndrome, without training it."""

from __future__ import annotations

from pathlib import Path

import click

from autoqec.commands.named import ConfigPath
from autoqec.commands.output import print_json, print_table
from autoqec.errors import InputError, is_out_of_memory


@click.command()
@click.argument("config_yaml", type=ConfigPath())
@click.option("--env", "env_name", required=True, help="Builtin name or YAML file.")
@click.option("--json", "as_json", is_flag=True)
def command(config_yaml: Path, env_name: str, as_json: bool) -> None:
    """Count FLOPs, parameters, bytes and latency of CONFIG_YAML on an environment, at its reference p."""
    from autoqec.decoders.backends import backend_entry
    from autoqec.decoders.compiler import compile_predecoder
    from autoqec.decoders.cost import measure
    from autoqec.decoders.dsl_schema import PredecoderDSL
    from autoqec.decoders.reference_p import reference_p
    from autoqec.envs.load import load_env
    from autoqec.io.validate import load_model

    dsl = load_model(config_yaml, PredecoderDSL)
    if dsl.tier == "2":
        raise InputError(
            "a tier-2 config holds code, which only runs inside a round's sandbox",
            where=str(config_yaml),
            hint="run it with run-round: the cost is in its metrics.json",
        )
    env = load_env(env_name)
    problem = env.problem(reference_p(env))
    wants_edges = backend_entry(env.spec.classical_backend).wants_edges
    try:
        cost = measure(compile_predecoder(dsl, problem), problem, latency=True, wants_edges=wants_edges)
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        raise InputError(
            "takes more memory than this machine has", where=str(config_yaml), hint="use smaller sizes"
        ) from None
    limits = env.spec.constraints
    over = limits.over_budget(cost.flops_per_syndrome, cost.n_params)
    if as_json:
        print_json({**cost.to_dict(), "over_budget": over})
        return
    print_table(
        f"{config_yaml.name} on {env.spec.name}",
        ("", "", "budget"),
        [
            ("FLOPs per syndrome", f"{cost.flops_per_syndrome:,}", f"{limits.latency_flops_budget:,}"),
            *(
                (f"stage {number}, {100 * share:.3g}% of the shots", f"{flops:,}", "-")
                for number, (flops, share) in enumerate(
                    zip(cost.stage_flops or (), cost.stage_shares or (), strict=True), start=1
                )
            ),
            ("parameters", f"{cost.n_params:,}", f"{limits.param_budget:,}"),
            ("bytes", f"{cost.n_bytes:,}", "-"),
            (
                "latency, one shot",
                f"{cost.latency_us_p50:.0f} us median, {cost.latency_us_p99:.0f} us p99",
                "-",
            ),
            ("in bulk", f"{cost.bulk_us_per_shot:.1f} us per shot", "-"),
        ],
    )
    for line in over:
        click.echo(f"Over budget: {line}")
