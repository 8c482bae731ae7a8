"""`autoqec pareto`: the fronts of runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from autoqec.commands.named import RunPath
from autoqec.commands.options import PlotFile
from autoqec.commands.output import print_json, print_table
from autoqec.errors import InputError

if TYPE_CHECKING:
    from autoqec.eval.pareto import Archive, ParetoRow
    from autoqec.runs.backing import BackedFront


@click.command()
@click.argument("run_dirs", nargs=-1, required=True, type=RunPath())
@click.option("--compare", is_flag=True, help="Runs side by side, against their joint front.")
@click.option(
    "--plot",
    "plot_path",
    type=PlotFile(),
    help="Write gain over FLOPs, e.g. front.png.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead of tables.")
def command(run_dirs: tuple[Path, ...], compare: bool, plot_path: Path | None, as_json: bool) -> None:
    """The verified rounds of each run that no other dominates, and their hypervolume.

    A round dominates another if it gains no less, costs no more FLOPs and parameters, and is better in one of the
    three. Dominated rounds whose gain is not lower beyond both intervals stand under a heading of their own. Runs of
    different environments are not compared: their gains are not one scale.

    A row is shown as verified if the verifier's own report in the round's folder gives that very row, and history knows the
    round. Exit code 1 if there are others: they are named, and stand in no table, plot or hypervolume.
    """
    from autoqec.runs.backing import backed_front
    from autoqec.stats.pareto import REFERENCE

    if compare and len(run_dirs) < 2:
        raise InputError("one run cannot be compared", where="--compare", hint="give two run folders or more")
    fronts: dict[str, BackedFront] = {}
    for run_dir in run_dirs:
        _check_front(run_dir)
        fronts[str(run_dir)] = backed_front(run_dir)
    archives = {name: found.archive for name, found in fronts.items()}
    if compare:
        _check_environment(run_dirs)
    if plot_path is not None:
        from autoqec.io import figures
        from autoqec.report.figures import pareto
        from autoqec.report.run_view import view_run

        figures.save(pareto.draw(pareto.table([view_run(run_dir) for run_dir in run_dirs])), plot_path)
    comparison = _compare(archives) if compare else None
    if as_json:
        found: dict[str, Any] = {
            "reference": {
                "delta": REFERENCE.delta,
                "flops_per_syndrome": REFERENCE.flops_per_syndrome,
                "n_params": REFERENCE.n_params,
            },
            "runs": [_summary(name, front) for name, front in fronts.items()],
        }
        print_json(found if comparison is None else {**found, "compare": comparison})
        _exit(fronts)
    if comparison is not None:
        _print_comparison(comparison)
    else:
        for name, backed in fronts.items():
            _print_front(name, backed)
    click.echo(
        f"Hypervolume in LER x decades^2, from {REFERENCE.flops_per_syndrome:.0e} FLOPs "
        f"and {REFERENCE.n_params:.0e} parameters."
    )
    if plot_path is not None:
        click.echo(f"Wrote {plot_path}")
    for name, front in fronts.items():
        if front.remark is not None:
            click.echo(f"{name}: {front.remark}")
    _exit(fronts)


def _exit(fronts: dict[str, BackedFront]) -> NoReturn:
    sys.exit(0 if all(front.is_whole for front in fronts.values()) else 1)


def _check_front(run_dir: Path) -> None:
    """A full run has a front, be it empty; one that was started before empty fronts were written has its log.md."""
    from autoqec.layout import RunDir

    files = RunDir(run_dir)
    if not files.pareto.is_file() and not files.log.is_file():
        raise InputError(
            "has no pareto.json" if run_dir.is_dir() else "is not a folder",
            where=str(run_dir),
            hint=f"a --no-llm run verifies nothing: read {files.candidate_pareto.name}"
            if files.candidate_pareto.is_file()
            else "give the folder of a run",
        )


def _check_environment(run_dirs: Sequence[Path]) -> None:
    """Gains of different environments are not one scale. A front without a run.json beside it is taken as it is."""
    from autoqec.io.strict_yaml import read_json
    from autoqec.layout import RunDir

    found: dict[object, Path] = {}
    for run_dir in run_dirs:
        about = RunDir(run_dir).about
        if about.is_file():
            info = read_json(about, limit=1 << 20, links=True)
            found.setdefault(str(info.get("env_yaml_sha256") if isinstance(info, dict) else None), run_dir)
    if len(found) > 1:
        raise InputError(
            f"{' and '.join(map(str, found.values()))} are runs of different environments",
            where="--compare",
            hint="compare runs of one environment",
        )


def _summary(name: str, found: BackedFront) -> dict[str, Any]:
    from autoqec.eval.pareto import hypervolume, hypervolume_by_round
    from autoqec.runs.front import verification_of
    from autoqec.runs.headline import classical_points

    archive = found.archive
    return {
        "run": name,
        "backed": found.is_whole,
        "not_backed": [each.to_dict() for each in found.unbacked],
        "lost": list(found.lost),
        "front": [{**row.model_dump(mode="json"), "backed": True} for row in archive.front],
        "headlines": {
            str(row.round): verification_of(found.reports[row.round], None) for row in archive.front
        },
        "classical": [asdict(point) for point in classical_points(found.reports.values())],
        "within_noise": [{**row.model_dump(mode="json"), "backed": True} for row in archive.within_noise],
        "dominated": len(archive.dominated),
        "hypervolume": hypervolume(archive.front),
        "hypervolume_by_round": [
            {"round": last, "hypervolume": value} for last, value in hypervolume_by_round(archive.rows)
        ],
    }


def _compare(archives: dict[str, Archive]) -> dict[str, Any]:
    """Each run against the front of all rounds together."""
    from autoqec.eval.pareto import front, hypervolume

    everything = [row for archive in archives.values() for row in archive.front]
    joint = {row.commit_sha for row in front(everything)}
    return {
        "joint_members": len(joint),
        "joint_hypervolume": hypervolume(everything),
        "runs": [
            {
                "run": name,
                "members": len(archive.front),
                "on_joint_front": sum(row.commit_sha in joint for row in archive.front),
                "best_delta": archive.front[0].delta_vs_baseline_holdout if archive.front else None,
                "best_delta_ci": list(archive.front[0].delta_ci) if archive.front else None,
                "least_flops": min((row.flops_per_syndrome for row in archive.front), default=None),
                "least_params": min((row.n_params for row in archive.front), default=None),
                "hypervolume": hypervolume(archive.front),
            }
            for name, archive in archives.items()
        ],
    }


def _print_front(name: str, backed: BackedFront) -> None:
    from autoqec.eval.pareto import hypervolume_by_round

    archive = backed.archive
    if not archive.front:
        click.echo(f"{name}: the front is empty: no round was verified here\n")
        return
    _print_rows(f"{name}: {len(archive.front)} on the front", archive.front)
    if archive.within_noise:
        _print_rows("Dominated, within the noise of the front", archive.within_noise)
    if archive.dominated:
        click.echo(f"{len(archive.dominated)} more verified, and clearly dominated")
    _print_headlines(backed)
    trail = ", ".join(f"{last}: {value:.4g}" for last, value in hypervolume_by_round(archive.rows))
    click.echo(f"Hypervolume after round {trail}\n")


def _print_headlines(backed: BackedFront) -> None:
    """What stands beside each gain, and the classical decoders as points."""
    from autoqec.runs import headline

    rows: list[tuple[object, ...]] = [
        (f"round {row.round}", *headline.of_report(backed.reports[row.round])) for row in backed.archive.front
    ]
    print_table(
        "LER of the other decoder over that of the predecoder, on the same shots",
        ("", *headline.COLUMNS),
        rows,
        least=(4,),
    )
    for point in headline.classical_points(backed.reports.values()):
        time = "" if point.us_per_shot is None else f", {point.us_per_shot:.3g} us/shot"
        click.echo(f"{point.name}: gain {point.gain:.4g} over the plain backend on {point.shots} shots{time}")


def _print_rows(title: str, rows: Sequence[ParetoRow]) -> None:
    print_table(
        title,
        ("round", "commit", "branch", "gain in LER", "interval", "FLOPs", "parameters", "target"),
        [
            (
                row.round,
                row.commit_sha[:8],
                row.branch,
                row.delta_vs_baseline_holdout,
                _interval(row),
                row.flops_per_syndrome,
                row.n_params,
                _TARGET[row.target_reached],
            )
            for row in rows
        ],
        least=(1, 7, 6),
    )


_TARGET = {True: "reached", False: "missed", None: "-"}


def _interval(row: ParetoRow) -> str:
    return f"{row.delta_ci[0]:.3g} .. {row.delta_ci[1]:.3g}"


def _print_comparison(found: dict[str, Any]) -> None:
    total = found["joint_hypervolume"]
    print_table(
        f"Joint front: {found['joint_members']} members, hypervolume {total:.4g}",
        (
            "run",
            "members",
            "on the joint front",
            "best gain",
            "interval",
            "minimum FLOPs",
            "minimum parameters",
            "hypervolume",
            "of the joint",
        ),
        [
            (
                run["run"],
                run["members"],
                run["on_joint_front"],
                run["best_delta"],
                "{:.3g} .. {:.3g}".format(*run["best_delta_ci"]) if run["best_delta_ci"] else "-",
                run["least_flops"],
                run["least_params"],
                run["hypervolume"],
                f"{run['hypervolume'] / total:.0%}" if total else "-",
            )
            for run in found["runs"]
        ],
        least=(8, 6, 2),
    )
