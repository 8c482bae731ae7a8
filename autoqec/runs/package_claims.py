"""What a package claims: reports, front, history and pages must all follow from each other.

The front is made anew from the reports, round by round in the order of the history, and the pages from history and front. What is
not, to the last row, what comes out is a forgery or damage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from autoqec.decoders.reference_p import reference_p
from autoqec.envs.environment import Environment
from autoqec.errors import AutoQECError, InputError
from autoqec.eval import markdown
from autoqec.eval.pareto import PREVIEW_ROWS, Archive, add, read_rows
from autoqec.eval.report_check import contradictions
from autoqec.io.untrusted_file import read_regular
from autoqec.runs import fork_graph, run_log
from autoqec.runs.front import front_row, verification_of
from autoqec.runs.history import rounds_of
from autoqec.runs.package_open import MAX_JSON, Package
from autoqec.runs.package_rounds import PackagedRound
from autoqec.runs.plan import read_plan
from autoqec.runs.run_log import candidates
from autoqec.runs.snapshot import Snapshots
from autoqec.search.proposal import EnvFacts, Row


def check_reports(package: Package, rounds: Sequence[PackagedRound]) -> Archive:
    """Adds to each round what is wrong with its report and its verification in the history; the front that the reports give."""
    archive = Archive()
    for one in rounds:
        report, files = one.report, package.run.files.round(one.number)
        if report is None:
            continue
        if _text(files.report_text) != markdown.render(report):
            one.problems.append(f"{files.report_text.name} is not what its report says")
        own = (one.row["branch"], one.row["commit_sha"])
        if (report.branch, report.commit_sha) != own:
            one.problems.append("its report is about another commit")
        admission = None
        if one.claims_verified:
            try:
                one.problems += [f"its report {why}" for why in contradictions(report, package.env)]
                archive, admission = add(archive, front_row(report, one.row, one.trained))
            except AutoQECError as error:
                one.problems.append(f"its report is refused by the front: {error.what}")
        if one.row["verdict"] == report.verdict:
            made = json.loads(json.dumps(verification_of(report, admission)))
            if one.row.get("verification") != made:
                one.problems.append("the verification in the history is not what its report says")
    return archive


def front_problems(package: Package, archive: Archive) -> Iterator[str]:
    files = package.run.files
    for path, rows in (
        (files.pareto, archive.front),
        (files.pareto_preview, archive.front[:PREVIEW_ROWS]),
        (files.pareto_within_noise, archive.within_noise),
        (files.pareto_dominated, archive.dominated),
    ):
        try:
            given = read_rows(path)
        except InputError as error:
            yield f"{path.name}: {error.what}"
            continue
        made = {row.commit_sha: row for row in archive.rows}
        for row in given:
            if row.commit_sha not in made:
                yield f"{path.name} has round {row.round} ({row.commit_sha[:12]}), which no report verifies"
            elif row != made[row.commit_sha]:
                yield f"{path.name} has other figures for round {row.round} than its report"
        if [row.commit_sha for row in given] != [row.commit_sha for row in rows]:
            yield f"{path.name} does not hold the rows that the reports give"


def page_problems(package: Package, rows: Sequence[Row]) -> Iterator[str]:
    """rows: the history, which is valid."""
    run, files = package.run, package.run.files
    if files.fork_graph.exists() and _json(files.fork_graph) != json.loads(json.dumps(fork_graph.build(run))):
        yield f"{files.fork_graph.name} is not what history and branches give"
    made: dict[Path, str] = {}
    if files.plan.exists():
        plan = read_plan(files)
        context = _Foreign(package.env, package.run, plan).context()
        made = run_log.pages(run, plan, context)
    for path in (files.log, files.summary):
        if path.exists() != (path in made) or (path in made and _text(path) != made[path]):
            yield f"{path.name} is not what history and front give"
    if files.candidate_pareto.exists() and _json(files.candidate_pareto) != candidates(rounds_of(rows)):
        yield f"{files.candidate_pareto.name} is not what the history gives"


class _Foreign(Snapshots):
    """Of a packaged run: its environment is the one that was checked, and nothing is cached."""

    def __init__(self, env: Environment, *of: Any) -> None:
        super().__init__(*of)
        self._env = env

    @cached_property
    def env(self) -> Environment:
        return self._env

    @cached_property
    def facts(self) -> EnvFacts:
        p = reference_p(self._env)
        return EnvFacts(self._env.spec, p, self.plan.profile, self._env.built_problem(p))


def _text(path: Path) -> str | None:
    try:
        return read_regular(path, limit=MAX_JSON).decode(errors="replace")
    except InputError:
        return None


def _json(path: Path) -> Any:
    try:
        return json.loads(_text(path) or "null")
    except (ValueError, RecursionError):
        return None
