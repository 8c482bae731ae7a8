"""Packages and run folders whose files were written by somebody else than the run."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from autoqec.commands import main
from autoqec.errors import AutoQECError
from autoqec.eval.schema import PairedRow, VerifyReport
from autoqec.eval.verify import VerifyOptions
from autoqec.layout import RunDir
from autoqec.runs.package_check import check_package
from autoqec.runs.plan import read_plan
from autoqec.runs.results import results
from autoqec.stats.sequential import decide_evidence
from autoqec.stats.table import PairedTable
from cheats import forger, packaged
from cheats.corpus import cheat, control
from cheats.packaged import Change, Packaged
from cheats.scene import SHOTS, Outcome, Scene, git, refused

_PACKAGE = "forged package"
_FOLDER = "forged run folder"
_FRESH = "claims are held against a verification on fresh shots here, and costs are counted anew"
_REPORTS = "the front is made anew from the reports, and each report belongs to a round of the history"
_NAMES = "every name and number in a package is checked before it is used"
_PAGES = "pages are made anew from history and front, and compared"
_COUNTS = "every figure of a report must follow from its counts of shots"
_OWN = (
    "a row is shown as verified only if the verifier's own report in the round's folder gives that very row"
)


def _options() -> VerifyOptions:
    return VerifyOptions(shots=SHOTS, cap=SHOTS, workers=1, baseline_seconds=1.0, deadline_s=1800.0)


def _judged(archive: Path, *, evaluate: bool, gain: str | None) -> Outcome:
    try:
        result = check_package(archive, evaluate=evaluate, options=_options())
    except AutoQECError as error:
        return refused(error, gain)
    said = [problem for check in result.rounds for problem in check.problems]
    said += [
        f"round {check.round} is not VERIFIED here"
        for check in result.claims
        if check.now not in (None, "VERIFIED")
    ]
    stopped = result.outcome in ("does not hold", "proves nothing", "not shown again")
    return Outcome("refused" if stopped else "SUCCEEDED", (*result.problems, *said, result.outcome), gain)


def _forged(
    scene: Scene, change: Callable[[Path, Packaged], None], *, evaluate: bool = False, gain: str | None = None
) -> Outcome:
    """What the check says of the package after the change. The forger always mends the hashes."""
    made = packaged.of(scene.shared)
    archive = made.forged(scene.folder / "forged.tar.gz", lambda folder: change(folder, made))
    return _judged(archive, evaluate=evaluate, gain=gain)


def _entered(name: str, because: str, how: str, defence: str) -> Callable[[Change], Change]:
    """Enters a cheat that changes files of a package and nothing else."""

    def enter(change: Change) -> Change:
        @cheat(name, family=_PACKAGE, how=how, defence=defence, expect="refused", because=because)
        def _play(scene: Scene) -> Outcome:
            return _forged(scene, lambda folder, _: change(folder))

        return change

    return enter


@control(
    "honest package",
    how="a packaged run with two verified rounds, checked with shots of its own",
    must_win=True,
)
def _honest(scene: Scene) -> Outcome:
    found = _judged(packaged.of(scene.shared).archive, evaluate=True, gain=None)
    by = () if found.by == ("holds",) else ("no gain",) if found.by[-1] == "not shown again" else found.by
    return Outcome("VERIFIED" if found.by == ("holds",) else "SUSPICIOUS", by)


@cheat(
    "five times the gain",
    family=_PACKAGE,
    how="a report, and with it history, front, pages and hashes, claims five times the gain, on counts that would give it",
    defence=_FRESH,
    expect="refused",
    because="claims a gain",
)
def _five_times(scene: Scene) -> Outcome:
    def change(folder: Path, made: Packaged) -> None:
        def edit(report: VerifyReport) -> VerifyReport:
            head = report.per_p[0]
            return forger.with_counts(report, head.c + 5 * (head.b - head.c), head.c)

        forger.rewrite(made, folder, 1, edit)

    return _forged(scene, change, evaluate=True, gain="5 x the gain (claimed)")


@cheat(
    "twelve FLOPs",
    family=_PACKAGE,
    how="a report, and all that follows from it, claims 12 FLOPs and 3 parameters",
    defence=_FRESH,
    expect="refused",
    because="flops_per_syndrome",
)
def _twelve(scene: Scene) -> Outcome:
    def change(folder: Path, made: Packaged) -> None:
        def edit(report: VerifyReport) -> VerifyReport:
            cheap = {"flops_per_syndrome": 12, "counted_flops_per_syndrome": 12, "n_params": 3}
            return report.model_copy(update={"cost": report.cost.model_copy(update=cheap)})  # type: ignore[union-attr]

        forger.rewrite(made, folder, 1, edit)

    return _forged(scene, change, evaluate=True, gain="675850 -> 12 FLOPs (claimed)")


@cheat(
    "round without a gain made VERIFIED",
    family=_PACKAGE,
    how="the report of a SUSPICIOUS round, and all that follows from it, says VERIFIED on counts that would give it",
    defence=_FRESH,
    expect="refused",
    because="claims a gain",
)
def _promoted(scene: Scene) -> Outcome:
    return _promote(scene, lambda head, _: head.c + round(0.015 * head.shots))


@cheat(
    "gain within the noise made VERIFIED",
    family=_PACKAGE,
    how="the same, with a gain so small that few fresh shots do not show it",
    defence="what is VERIFIED there and not here is said to be not shown again, or not to hold, and does not end as what holds",
    expect="refused",
    because="round 3 is not VERIFIED here",
)
def _promoted_little(scene: Scene) -> Outcome:
    return _promote(scene, _least_significant)


def _least_significant(head: PairedRow, alpha: float) -> int:
    """The fewest shots that the baseline alone fails with which a gain is significant."""
    tables = (PairedTable(head.shots, b, head.c, head.both) for b in range(head.c, head.shots))
    return next(table.b for table in tables if decide_evidence(table, alpha_gain=alpha).decision == "gain")


def _promote(scene: Scene, failures: Callable[[PairedRow, float], int]) -> Outcome:
    """failures: from the counts at the reference p and the level, how many shots the baseline alone is said to fail."""

    def change(folder: Path, made: Packaged) -> None:
        def edit(report: VerifyReport) -> VerifyReport:
            head = report.per_p[0]
            return forger.with_counts(report, failures(head, float(report.alpha or 0.0)), head.c)

        forger.rewrite(made, folder, 3, edit)

    return _forged(scene, change, evaluate=True, gain="SUSPICIOUS -> VERIFIED (claimed)")


@_entered(
    "ghost row", "which no report verifies", "pareto.json has a row of a commit that never existed", _REPORTS
)
def _ghost(folder: Path) -> None:
    rows = forger.front(folder)
    ghost = {**rows[0], "commit_sha": "ab" * 20, "round_attempt_id": "ghost", "flops_per_syndrome": 12}
    forger.write_front(
        folder, [ghost | {"branch": rows[0]["branch"].replace("02-heavy", "09-ghost"), "round": 9}, *rows]
    )


@cheat(
    "empty history",
    family=_PACKAGE,
    how="history, front and reports are empty: there is nothing left that could be wrong",
    defence="a package without a VERIFIED round proves nothing, and its check does not end well",
    expect="refused",
    because="proves nothing",
)
def _empty(scene: Scene) -> Outcome:
    def change(folder: Path, made: Packaged) -> None:
        forger.write_history(folder, [])
        run = RunDir(folder / "run")
        for path in (
            *run.path.rglob("verification_report.*"),
            *run.path.glob("pareto*"),
            run.plan,
            run.log,
            run.summary,
        ):
            path.unlink()
        run.fork_graph.unlink()

    return _forged(scene, change, evaluate=True)


@cheat(
    "round that is a path",
    family=_PACKAGE,
    how="a history row says round 1/../../..: the check would verify there, and write its report over a stranger's",
    defence=_NAMES,
    expect="refused",
    because="expected an integer",
)
def _path(scene: Scene) -> Outcome:
    strangers = scene.folder / "verification_report.json"
    strangers.write_text("mine")

    def change(folder: Path, made: Packaged) -> None:
        rows = forger.history(folder)
        rows[0]["round"] = "1/../../../../../../../../../.." + str(scene.folder)
        forger.write_history(folder, rows)

    outcome = _forged(scene, change, evaluate=True)
    return outcome if strangers.read_text() == "mine" else Outcome("SUCCEEDED", ("overwritten",))


@_entered(
    "environment outside",
    "neither a builtin",
    "manifest.json names ../../../../etc/passwd as the environment",
    _NAMES,
)
def _env_outside(folder: Path) -> None:
    _edit(folder / "manifest.json", env="../../../../../../etc/passwd")


@_entered(
    "environment that points outside",
    "outside of the package",
    "the packaged environment reads its circuit from a file elsewhere on the machine",
    _NAMES,
)
def _env_points_outside(folder: Path) -> None:
    path = folder / "env" / "surface_d4.yaml"
    path.write_text(
        path.read_text().replace("surface_code:rotated_memory_z?distance=4&rounds=4", "/etc/passwd")
    )


@_entered(
    "YAML bomb as environment", "anchors", "the packaged environment doubles a list fifty times", _NAMES
)
def _yaml_bomb(folder: Path) -> None:
    lines = ["a0: &a0 [x, x]", *(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]" for i in range(1, 50))]
    (folder / "env" / "surface_d4.yaml").write_text("\n".join(lines))


@_entered(
    "SUSPICIOUS round on the front",
    "which no report verifies",
    "pareto.json has a row of the round that was not verified, with the figures of another",
    _REPORTS,
)
def _suspicious(folder: Path) -> None:
    row = forger.history(folder)[2]
    rows = forger.front(folder)
    keys = ("round", "round_attempt_id", "branch", "commit_sha", "train_seed")
    forger.write_front(folder, [{**rows[0], **{key: row[key] for key in keys}}, *rows])


@_entered("swapped reports", "is about another commit", "two rounds have each other's report", _REPORTS)
def _swapped(folder: Path) -> None:
    _swap(folder / "run", "verification_report.json", "verification_report.md")


@cheat(
    "report of another environment",
    family=_PACKAGE,
    how="the report, and all that follows from it, is of an environment in which the gain is larger",
    defence=_COUNTS,
    expect="refused",
    because="another environment",
)
def _other_env(scene: Scene) -> Outcome:
    edit = {"env_name": "surface_d40", "env_hash": "ab" * 32}
    return _forged(
        scene,
        lambda folder, made: forger.rewrite(made, folder, 1, lambda report: report.model_copy(update=edit)),
    )


@cheat(
    "narrower interval",
    family=_PACKAGE,
    how="the interval of the gain is a tenth as wide, in the report and in all that follows from it",
    defence=_COUNTS,
    expect="refused",
    because="headline",
)
def _narrow(scene: Scene) -> Outcome:
    def edit(report: VerifyReport) -> VerifyReport:
        gain = float(report.delta_vs_baseline_holdout or 0)
        return report.model_copy(update={"delta_ler_ci_low": gain * 0.99, "delta_ler_ci_high": gain * 1.01})

    return _forged(scene, lambda folder, made: forger.rewrite(made, folder, 1, edit))


@cheat(
    "figures without counts",
    family=_PACKAGE,
    how="gain and interval of every table are five times as large; the counts stay",
    defence=_COUNTS,
    expect="refused",
    because="do not follow from its counts",
)
def _without_counts(scene: Scene) -> Outcome:
    def edit(report: VerifyReport) -> VerifyReport:
        head = report.per_p[0]
        large = {"delta": 5 * head.delta, "delta_ci": tuple(5 * end for end in head.delta_ci)}
        low, high = large["delta_ci"]  # type: ignore[misc]
        both = {"delta_ler_holdout": large["delta"], "delta_vs_baseline_holdout": large["delta"]}
        ends = {"delta_ler_ci_low": low, "delta_ler_ci_high": high}
        return report.model_copy(update={**both, **ends, "per_p": [head.model_copy(update=large)]})

    return _forged(scene, lambda folder, made: forger.rewrite(made, folder, 1, edit))


@cheat(
    "alpha from nowhere",
    family=_PACKAGE,
    how="the report says that its confirmation could spend half of all alpha",
    defence=_COUNTS,
    expect="refused",
    because="alpha",
)
def _alpha(scene: Scene) -> Outcome:
    edit = {"alpha": 0.5}
    return _forged(
        scene,
        lambda folder, made: forger.rewrite(made, folder, 1, lambda report: report.model_copy(update=edit)),
    )


@_entered(
    "checkpoint of another round",
    "other figures",
    "a row of the front names the checkpoint of another round",
    _REPORTS,
)
def _other_checkpoint(folder: Path) -> None:
    one, two, *rest = forger.front(folder)
    forger.write_front(folder, [{**one, "checkpoint_sha256": two["checkpoint_sha256"]}, two, *rest])


@_entered(
    "two rounds of one commit", "is in the history 2 times", "a verified round is counted twice", _NAMES
)
def _twice(folder: Path) -> None:
    rows = forger.history(folder)
    forger.write_history(folder, [*rows, {**rows[0], "round_attempt_id": "again"}])


@_entered("reordered front", "does not hold the rows", "the weakest row of the front stands first", _REPORTS)
def _reordered(folder: Path) -> None:
    forger.write_front(folder, forger.front(folder)[::-1])


@_entered(
    "dropped row", "does not hold the rows", "the round that dominates is taken off the front", _REPORTS
)
def _dropped(folder: Path) -> None:
    forger.write_front(folder, forger.front(folder)[1:])


@_entered(
    "headline in log.md",
    "log.md is not",
    "log.md alone says that the baseline fails nine times as often",
    _PAGES,
)
def _headline(folder: Path) -> None:
    path = RunDir(folder / "run").log
    text = path.read_text().replace("ratio 1.", "ratio 9.")
    path.write_text(text + "\nState of the art: 9 times fewer failures.\n")


@_entered("headline in summary.md", "summary.md is not", "summary.md alone says 12 FLOPs", _PAGES)
def _summary(folder: Path) -> None:
    path = RunDir(folder / "run").summary
    path.write_text(path.read_text().replace(" FLOPs", "2 FLOPs"))


@_entered(
    "headline in a report's page",
    "verification_report.md is not",
    "verification_report.md has another gain",
    _PAGES,
)
def _report_page(folder: Path) -> None:
    path = RunDir(folder / "run").round(1).report_text
    path.write_text(path.read_text() + "\nGain: 0.5\n")


@_entered(
    "figures in the history",
    "verification in the history",
    "the history has another ratio than the report",
    _REPORTS,
)
def _history(folder: Path) -> None:
    rows = forger.history(folder)
    rows[0]["verification"]["ratio"] = 9.0
    forger.write_history(folder, rows)


@_entered("fork graph", "fork_graph.json is not", "fork_graph.json puts a failed round on the front", _PAGES)
def _fork_graph(folder: Path) -> None:
    path = RunDir(folder / "run").fork_graph
    path.write_text(path.read_text().replace('"on_front": false', '"on_front": true'))


@_entered(
    "VERIFIED without a report",
    "is not there",
    "the report of a verified round is gone, its verdict stays",
    _REPORTS,
)
def _no_report(folder: Path) -> None:
    for path in (folder / "run" / "round_1").glob("verification_report.*"):
        path.unlink()


@_entered(
    "report in a corner",
    "belongs to no round",
    "a report that says VERIFIED lies in a folder of its own",
    _REPORTS,
)
def _corner(folder: Path) -> None:
    shutil.copytree(folder / "run" / "round_1", folder / "run" / "round_77")


@_entered(
    "look-alike folder",
    "nothing that a run leaves",
    "a folder round_1 is written with a full-width digit",
    _NAMES,
)
def _look_alike(folder: Path) -> None:
    shutil.copytree(folder / "run" / "round_1", folder / "run" / "round_\uff11")


@_entered(
    "case twin", "look alike", "Round_1 lies beside round_1: on some machines they are one folder", _NAMES
)
def _case_twin(folder: Path) -> None:
    shutil.copytree(folder / "run" / "round_1", folder / "run" / "Round_1")


@_entered("deep JSON", "nested deeper", "pareto.json is nested a hundred thousand times", _NAMES)
def _deep(folder: Path) -> None:
    RunDir(folder / "run").pareto.write_text("[" * 100_000)


@_entered(
    "deep history", "not a JSON object", "a row of the history is nested a hundred thousand times", _NAMES
)
def _deep_history(folder: Path) -> None:
    path = RunDir(folder / "run").history
    path.write_text(path.read_text() + '{"a":' * 100_000 + "\n")


@_entered(
    "hidden rounds in flight",
    "nothing that a run leaves",
    "a journal in the package makes a round appear",
    _NAMES,
)
def _in_flight(folder: Path) -> None:
    path = folder / "run" / "in_flight" / "round_9.json"
    path.parent.mkdir()
    path.write_text("{}")


@_entered(
    "other base", "is not base_commit", "the manifest says that the run started from another commit", _NAMES
)
def _base(folder: Path) -> None:
    _edit(folder / "manifest.json", base_commit="ab" * 20)


@cheat(
    "rounds that are not numbers",
    family=_PACKAGE,
    how="the round is 1.0, true, -1, 0, 10^30, a string, a list or NaN, one after the other",
    defence=_NAMES,
    expect="refused",
    because="",
)
def _no_numbers(scene: Scene) -> Outcome:
    made, outcomes = packaged.of(scene.shared), []
    for number, value in enumerate((1.0, True, -1, 0, 10**30, "1", [1], float("nan"), None)):

        def change(folder: Path, value: Any = value) -> None:
            rows = forger.history(folder)
            rows[0]["round"] = value
            forger.write_history(folder, rows)

        archive = made.forged(scene.folder / f"forged-{number}.tar.gz", change)
        outcomes.append((value, _judged(archive, evaluate=False, gain=None)))
    # None is not a forgery: the number then is that of the branch, and history.json must say the same
    bad = [value for value, outcome in outcomes[:-1] if outcome.result != "refused"]
    return Outcome("SUCCEEDED", tuple(map(str, bad))) if bad else outcomes[0][1]


@cheat(
    "numbers that are none",
    family=_PACKAGE,
    how="gain, interval and costs of a row are NaN, infinite, 10^400 or negative, one after the other",
    defence=_NAMES,
    expect="refused",
    because="pareto.json",
)
def _nonsense(scene: Scene) -> Outcome:
    made, outcomes = packaged.of(scene.shared), []
    edits = (
        {"delta_vs_baseline_holdout": float("nan")},
        {"delta_ci": [0.0, float("inf")]},
        {"n_params": 10**400},
        {"flops_per_syndrome": -1},
        {"delta_vs_baseline_holdout": 5.0},
    )
    for number, edit in enumerate(edits):

        def change(folder: Path, edit: dict[str, Any] = edit) -> None:
            one, *rest = forger.front(folder)
            forger.write_front(folder, [{**one, **edit}, *rest])

        archive = made.forged(scene.folder / f"forged-{number}.tar.gz", change)
        outcomes.append(_judged(archive, evaluate=False, gain=None))
    return next((each for each in outcomes if each.result != "refused"), outcomes[0])


@cheat(
    "bundle of another repository",
    family=_PACKAGE,
    how="the branches come from another repository, with the names of this run",
    defence="the bundle holds exactly the refs of the manifest, and commits, pointers and configs are read from it",
    expect="refused",
    because="is not on its branch",
)
def _other_repository(scene: Scene) -> Outcome:
    def change(folder: Path, made: Packaged) -> None:
        refs = json.loads((folder / "manifest.json").read_text())["refs"]
        other = _repository(scene.folder / "other", list(refs))
        (folder / "branches.bundle").unlink()
        git(other, "bundle", "create", "--quiet", str(folder / "branches.bundle"), *refs)
        found = {ref: git(other, "rev-parse", ref) for ref in refs}
        base = next(sha for ref, sha in found.items() if ref.startswith("refs/autoqec/"))
        _edit(folder / "manifest.json", refs=found, base_commit=base)
        _edit(folder / "run" / "run.json", base_commit=base)

    return _forged(scene, change)


@cheat(
    "hostile refs",
    family=_PACKAGE,
    how="the bundle brings refs/replace, which would make a commit read as another one, and the manifest lists it",
    defence=_NAMES,
    expect="refused",
    because="is not a branch of run",
)
def _hostile_refs(scene: Scene) -> Outcome:
    def change(folder: Path, made: Packaged) -> None:
        refs = json.loads((folder / "manifest.json").read_text())["refs"]
        evil = f"refs/replace/{'ab' * 20}"
        other = _repository(scene.folder / "other", [*refs, evil])
        (folder / "branches.bundle").unlink()
        git(other, "bundle", "create", "--quiet", str(folder / "branches.bundle"), *refs, evil)
        _edit(folder / "manifest.json", refs={ref: git(other, "rev-parse", ref) for ref in (*refs, evil)})

    return _forged(scene, change)


@cheat(
    "links and devices in the archive",
    family=_PACKAGE,
    how="the archive holds a link out of its folder, a hard link, a pipe, a device, a path with .., one after the other",
    defence="only plain files inside the folder are extracted",
    expect="refused",
    because="",
)
def _links(scene: Scene) -> Outcome:
    outcomes = []
    kinds = (
        ("link", tarfile.SYMTYPE), ("hard", tarfile.LNKTYPE), ("pipe", tarfile.FIFOTYPE), ("device", tarfile.CHRTYPE),
        ("../up", tarfile.REGTYPE), ("/absolute", tarfile.REGTYPE), ("a\\..\\b", tarfile.REGTYPE),
    )  # fmt: skip
    for number, (name, kind) in enumerate(kinds):
        path = scene.folder / f"{number}.tar.gz"
        with tarfile.open(path, "w:gz") as tar:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            tar.addfile(entry, io.BytesIO())
        outcomes.append(_judged(path, evaluate=False, gain=None))
    return next((each for each in outcomes if each.result != "refused"), outcomes[0])


def _repository(folder: Path, refs: Sequence[str]) -> Path:
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    (folder / "a").write_text("a")
    git(folder, "add", "a")
    git(folder, "commit", "--quiet", "-m", "start")
    for ref in refs:
        git(folder, "update-ref", ref, "HEAD")
    return folder


def _edit(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def _swap(run: Path, *names: str) -> None:
    for name in names:
        one, two = run / "round_1" / name, run / "round_2" / name
        kept = one.read_bytes()
        one.write_bytes(two.read_bytes())
        two.write_bytes(kept)


@contextmanager
def _spoiled(made: Packaged) -> Iterator[Path]:
    """The run's folder, in its own place, for a forger to write in; it is put back afterwards."""
    folder = made.run.files.path
    kept = made.data / "kept"
    shutil.copytree(folder, kept)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)
        shutil.move(kept, folder)


def _shown(made: Packaged, folder: Path, *, verb: str = "pareto") -> Outcome:
    """What the command shows: SUCCEEDED if it ends as if all were well."""
    variables = {"AUTOQEC_HOME": str(made.data)}
    if verb == "run --resume":
        return _ended(made, variables)
    done = CliRunner().invoke(main, [verb, str(folder), "--json"], env=variables)
    if done.exit_code == 0:
        return Outcome("SUCCEEDED", ("shown as verified",))
    if done.exit_code == 2:
        return Outcome("refused", (done.output,))
    if done.exit_code != 1 or not isinstance(done.exception, SystemExit):
        return Outcome("SUCCEEDED", (repr(done.exception),))
    found = json.loads(done.stdout)
    runs = found["runs"] if verb == "pareto" else [found]
    reasons = [each["reason"] for run in runs for each in run["not_backed"]]
    reasons += [str(each["not_backed"]) for each in found.get("rounds", []) if each["not_backed"]]
    rows = [row for run in runs for row in run.get("front", [])]
    lost = [f"lost {each}" for run in runs for each in run.get("lost", [])]
    honest = all(row["flops_per_syndrome"] > 12 and row["delta_vs_baseline_holdout"] < 0.05 for row in rows)
    return Outcome("refused" if honest else "SUCCEEDED", (*reasons, *lost))


def _ended(made: Packaged, variables: dict[str, str]) -> Outcome:
    """What the end of a run shows of its front."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        found = results(made.run, read_plan(made.run.files))
    if found["not_backed"] is None:
        return Outcome("SUCCEEDED", ("shown as verified",))
    honest = all(row["delta_vs_baseline_holdout"] < 0.05 for row in found["front"])
    return Outcome("refused" if honest else "SUCCEEDED", (found["not_backed"],))


def _folder(
    name: str, because: str, how: str, *, verb: str = "pareto", defence: str = _OWN
) -> Callable[[Change], Change]:
    """Enters a cheat on a run folder. The change gets a folder whose `run` is the run's own."""

    def enter(change: Change) -> Change:
        @cheat(name, family=_FOLDER, how=how, defence=defence, expect="refused", because=because)
        def _play(scene: Scene) -> Outcome:
            made = packaged.of(scene.shared)
            with _spoiled(made) as folder:
                link = scene.folder / "run"
                link.symlink_to(folder)
                change(scene.folder)
                link.unlink()
                return _shown(made, folder, verb=verb)

        return change

    return enter


@control(
    "honest run folder",
    how="the front of a run in its own place, whose reports the verifier here wrote",
    must_win=True,
)
def _honest_folder(scene: Scene) -> Outcome:
    made = packaged.of(scene.shared)
    shown = [_shown(made, made.run.files.path, verb=verb) for verb in ("pareto", "review", "run --resume")]
    is_well = all(each.by == ("shown as verified",) for each in shown)
    return Outcome("VERIFIED" if is_well else "refused", tuple(word for each in shown for word in each.by))


@_folder(
    "ghost row in a run", "is not in the history", "pareto.json has a row of a commit that never existed"
)
def _folder_ghost(folder: Path) -> None:
    _ghost(folder)


@_folder(
    "larger gain in a run", "delta_vs_baseline_holdout", "pareto.json has five times the gain of the report"
)
def _folder_gain(folder: Path) -> None:
    one, *rest = forger.front(folder)
    ends = {"delta_ci": [5 * end for end in one["delta_ci"]]}
    forger.write_front(
        folder, [{**one, "delta_vs_baseline_holdout": 5 * one["delta_vs_baseline_holdout"], **ends}, *rest]
    )


@_folder(
    "larger gain at the end of a run",
    "delta_vs_baseline_holdout",
    "a finished run is resumed, whose pareto.json has five times the gain of the report",
    verb="run --resume",
)
def _folder_end(folder: Path) -> None:
    _folder_gain(folder)


@_folder("lower cost in a run", "flops_per_syndrome", "pareto.json has 12 FLOPs")
def _folder_cost(folder: Path) -> None:
    one, *rest = forger.front(folder)
    forger.write_front(folder, [{**one, "flops_per_syndrome": 12}, *rest])


@_folder("narrower interval in a run", "delta_ci", "pareto.json has a tenth of the interval")
def _folder_interval(folder: Path) -> None:
    one, *rest = forger.front(folder)
    gain = one["delta_vs_baseline_holdout"]
    forger.write_front(folder, [{**one, "delta_ci": [0.99 * gain, 1.01 * gain]}, *rest])


@_folder("bundle of another round", "paired_eval_bundle_id", "a row names the shots of another round")
def _folder_bundle(folder: Path) -> None:
    one, two, *rest = forger.front(folder)
    forger.write_front(folder, [{**one, "paired_eval_bundle_id": two["paired_eval_bundle_id"]}, two, *rest])


@_folder(
    "report and front edited together",
    "not as this verifier wrote it",
    "report, front and history all say five times the gain",
)
def _folder_report(folder: Path) -> None:
    _folder_gain(folder)
    path = RunDir(folder / "run").round(2).report
    data = json.loads(path.read_text())
    for key in ("delta_vs_baseline_holdout", "delta_ler_holdout", "delta_ler_ci_low", "delta_ler_ci_high"):
        data[key] *= 5
    path.write_text(json.dumps(data))


@_folder("swapped reports in a run", "and its checkpoint", "two rounds have each other's report")
def _folder_swapped(folder: Path) -> None:
    _swap(folder / "run", "verification_report.json")


@_folder(
    "report and checkpoint of another round",
    "another commit",
    "a round without a gain has report and checkpoint of a verified one, and a row on the front",
)
def _folder_borrowed(folder: Path) -> None:
    for name in ("verification_report.json", "checkpoint.pt"):
        shutil.copy(folder / "run" / "round_1" / name, folder / "run" / "round_3" / name)
    rows = forger.history(folder)
    rows[2]["verdict"] = "VERIFIED"
    forger.write_history(folder, rows)
    _suspicious(folder)


@_folder(
    "unverified round on the front",
    "is SUSPICIOUS in the history",
    "a SUSPICIOUS round has a row on the front",
)
def _folder_suspicious(folder: Path) -> None:
    _suspicious(folder)


@_folder(
    "VERIFIED in the history alone",
    "another commit",
    "the history calls a round VERIFIED, with a report of another",
    verb="review",
)
def _folder_history(folder: Path) -> None:
    _folder_borrowed(folder)


@_folder(
    "dominating round dropped",
    "lost ",  # the one with the larger gain, whichever that is
    "the best round is taken off the front, so that another one leads it",
)
def _folder_dropped(folder: Path) -> None:
    _dropped(folder)


@_folder(
    "pipe for a front",
    "not a regular file",
    "pareto.json is a pipe: whoever opens it waits for ever",
    defence=_NAMES,
)
def _folder_pipe(folder: Path) -> None:
    path = RunDir(folder / "run").pareto
    path.unlink()
    os.mkfifo(path)


@_folder("link for a front", "symbolic link", "pareto.json is a link to a file elsewhere", defence=_NAMES)
def _folder_link(folder: Path) -> None:
    path = RunDir(folder / "run").pareto
    path.unlink()
    path.symlink_to("/etc/passwd")


@_folder("pipe for a history", "not a regular file", "history.jsonl is a pipe", defence=_NAMES)
def _folder_history_pipe(folder: Path) -> None:
    path = RunDir(folder / "run").history
    path.unlink()
    os.mkfifo(path)


@_folder(
    "round of a run that is a path", "expected an integer", "a history row says round ../../x", defence=_NAMES
)
def _folder_path(folder: Path) -> None:
    rows = forger.history(folder)
    rows[0]["round"] = "../../x"
    forger.write_history(folder, rows)


@_folder("numbers of a run that are none", "pareto.json", "a row has 10^400 parameters", defence=_NAMES)
def _folder_numbers(folder: Path) -> None:
    one, *rest = forger.front(folder)
    forger.write_front(folder, [{**one, "n_params": 10**400}, *rest])


@cheat(
    "copied run",
    family=_FOLDER,
    how="a verified run is copied under another name, for which other confirmations would pay",
    defence="a report is authentic for its own run alone, on the verifier that wrote it",
    expect="refused",
    because="not as this verifier wrote it",
)
def _copied(scene: Scene) -> Outcome:
    made = packaged.of(scene.shared)
    copy = RunDir(scene.folder / "20260202-000000")
    shutil.copytree(made.run.files.path, copy.path)
    about = json.loads(copy.about.read_text())
    copy.about.write_text(json.dumps({**about, "run_id": copy.path.name}))
    return _shown(made, copy.path)
