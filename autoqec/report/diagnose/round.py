"""The diagnosis of one round."""

from __future__ import annotations

from pathlib import Path

from autoqec.errors import InputError
from autoqec.layout import RoundDir, RunDir
from autoqec.report.diagnose import surroundings
from autoqec.report.diagnose.case import RoundCase, read_case
from autoqec.report.diagnose.causes import CAUSES, LAST_RESORT
from autoqec.report.diagnose.finding import CONFIDENCES, Diagnosis, Finding
from autoqec.report.reading import history_of, json_of
from autoqec.search import analyst


def diagnose_round(folder: Path, *, env: str | None = None) -> Diagnosis:
    """env: a builtin name or a file, for a round that does not say what it was trained in.

    Raises:
        InputError: the folder holds no round.
    """
    files = RoundDir(folder)
    known = (
        files.config,
        files.metrics,
        files.train_log,
        files.output,
        files.training_state,
        files.checkpoint,
    )
    if not any(path.exists() for path in known):
        raise InputError(
            "is not a folder" if not folder.is_dir() else "holds neither a round nor a run",
            where=str(folder),
            hint="give the folder of a round (with metrics.json or train.log) or of a run (with history.jsonl)",
        )
    env = surroundings.checked_env(env)
    run = RunDir(folder.resolve().parent)
    if not (run.about.is_file() or run.history.is_file()):
        around = surroundings.of_round(files, json_of(files.manifest, [], needed=False), env=env)
        return diagnosis(read_case(files, around=around))
    number = RoundDir(folder.resolve()).path.name.removeprefix("round_")
    rows = {str(row.get("round")): row for row in reversed(history_of(run, []))}
    around = surroundings.of_run(run, [], env=env)
    return diagnosis(read_case(RoundDir(folder.resolve()), row=rows.get(number), run=run, around=around))


def diagnosis(case: RoundCase) -> Diagnosis:
    found: dict[str, Finding] = {}
    for cause, find in CAUSES.items():
        if (finding := find(case)) is not None:
            found[cause] = finding
    found = dict(sorted(found.items(), key=lambda item: CONFIDENCES.index(item[1].confidence)))
    if not found and (case.metrics is None or case.status != "ok"):
        cause, find = LAST_RESORT
        if (finding := find(case)) is not None:
            found[cause] = finding
    gaps = list(case.gaps)
    if case.around.name is None:
        gaps.append("the environment of the round is not known: give it with --env")
    return Diagnosis(
        path=str(case.files.path),
        round=case.number,
        status=case.status,
        summary=analyst.summary(case.figures) if case.metrics is not None else _no_metrics(case),
        running=case.running,
        findings=found,
        gaps=tuple(gaps),
        config=case.config,
    )


def _no_metrics(case: RoundCase) -> str:
    return "a process is at work on it" if case.running else "no metrics"
