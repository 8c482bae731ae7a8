"""`autoqec env`: list, show and validate environments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from autoqec.commands.options import Number, OutFile
from autoqec.commands.output import print_json, print_table, print_warnings
from autoqec.errors import InputError


@click.group()
def command() -> None:
    """List, show and validate environments."""


_as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")


@command.command("list")
@_as_json
def list_envs(as_json: bool) -> None:
    """List the builtin environments."""
    from autoqec.envs.load import builtin_names, load_env

    rows = []
    for name in builtin_names():
        spec = load_env(name).spec
        rows.append(
            {
                "name": name,
                "code": spec.code.source,
                "noise": spec.noise.type,
                "p": spec.noise.p,
                "backend": spec.classical_backend,
            }
        )
    if as_json:
        print_json(rows)
        return
    print_table(
        "Builtin environments",
        ("name", "code", "noise", "p", "backend"),
        [(r["name"], r["code"], r["noise"], _sweep(r["p"]), r["backend"]) for r in rows],
        least=(4, 2),
    )


@command.command()
@click.argument("env")
@click.option(
    "--p", "ps", type=Number(), multiple=True, help="Only this p (repeatable); default: the whole sweep."
)
@click.option(
    "--diagram",
    type=OutFile(),
    help="Also write Stim's diagram: .svg (timeline) or .html (3d).",
)
@_as_json
def show(env: str, ps: tuple[float, ...], diagram: Path | None, as_json: bool) -> None:
    """Show an environment: its code, and the decoding problem at each p. ENV is a builtin name or a YAML file."""
    from autoqec.envs.load import load_env
    from autoqec.envs.summary import environment_summary

    environment = load_env(env)
    if ps:
        environment.check_sweep(ps, where="--p")
    summary = environment_summary(environment, list(ps) or None)
    print_warnings(environment)
    if diagram is not None:
        _write_diagram(environment, summary["problems"][0]["p"], diagram)
    if as_json:
        print_json(summary)
        return
    _print_summary(summary)
    if diagram is not None:
        click.echo(f"\nDiagram: {diagram}")


@command.command()
@click.argument("env")
@_as_json
def validate(env: str, as_json: bool) -> None:
    """Read an environment strictly and build its decoding problem at every p; exit 2 with one error if it fails."""
    from autoqec.envs.load import load_env
    from autoqec.envs.summary import environment_summary

    environment = load_env(env)
    summary = environment_summary(environment)
    print_warnings(environment)
    if as_json:
        print_json({"ok": True, **summary})
        return
    sizes = ", ".join(
        f"p={row['p']:g}: {row['detectors']} detectors x {row['faults']} faults"
        for row in summary["problems"]
    )
    click.echo(f"ok: {summary['name']} ({sizes})")


def _sweep(p: Any) -> str:
    return " ".join(f"{value:g}" for value in p)


def _context(problem: dict[str, Any]) -> dict[str, str]:
    """Which detectors the backend decodes, where predecoders see more."""
    seen, everything = problem["detectors_of_backend"], problem["detectors"]
    return (
        {}
        if seen == everything
        else {"decoded by the backend": f"{seen} of {everything} detectors; predecoders see all"}
    )


def _print_summary(summary: dict[str, Any]) -> None:
    facts = {
        "code": f"{summary['code']['type']} {summary['code']['source']}",
        **summary["facts"],
        "noise": " ".join(
            f"{key}={_sweep(value) if isinstance(value, list) else value}"
            for key, value in summary["noise"].items()
        ),
        "dropped detectors": summary["dropped_detectors"] or "none",
        **_context(summary["problems"][0]),
        "backend": summary["backend"],
        "baselines": " ".join(summary["baseline_decoders"]),
        "content hash": summary["content_hash"][:16],
    }
    print_table(summary["name"], ("", ""), list(facts.items()))
    columns = {
        "p": "p",
        "detectors": "detectors",
        "faults": "faults",
        "stim_errors": "stim errors",
        "observables": "observables",
        "edges": "edges",
        "weight2_share": "weight-2 share",
        "hyperedge_share": "hyperedge share",
        "undetectable_faults": "undetectable",
        "prior_min": "prior min",
        "prior_max": "prior max",
        "build_seconds": "build s",
        "from_cache": "cached",
    }
    click.echo()
    print_table(
        "Decoding problems",
        tuple(columns.values()),
        [[row[key] for key in columns] for row in summary["problems"]],
        least=(12, 11, 3, 8, 9, 10, 6, 7),
    )
    first = summary["problems"][0]
    highest = max(bin_["faults"] for bin_ in first["prior_histogram"])
    click.echo()
    print_table(
        f"Fault priors at p = {first['p']:g}",
        ("from", "to", "faults", ""),
        [
            (b["from"], b["to"], b["faults"], "#" * round(40 * b["faults"] / highest))
            for b in first["prior_histogram"]
        ],
    )


def _write_diagram(environment: Any, p: float, path: Path) -> None:
    from autoqec.io import atomic

    kinds = {".svg": "timeline-svg", ".html": "timeline-3d-html"}
    if path.suffix not in kinds:
        raise InputError(
            f"cannot draw into {path.name!r}",
            where="--diagram",
            hint="give a file that ends in .svg or .html",
        )
    circuit = environment.circuit(p)
    if circuit is None:
        raise InputError(
            f"{environment.spec.name} is a detector error model and has no circuit to draw",
            where="--diagram",
            hint="draw its matching graph with stim diagram --type match-graph-svg",
        )
    atomic.write_text(path, str(circuit.diagram(kinds[path.suffix])))
