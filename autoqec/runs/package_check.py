"""Checking a package on another machine: every hash, every commit, every claim, and the verification again, without network or keys.

Nothing in the package is believed. What it calls VERIFIED is verified anew by a verifier that lives as long as the check: its secret, its
ledger and its shots are in a folder of its own, so that neither the user's confirmations nor the user's bundles are touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from autoqec.errors import AutoQECError
from autoqec.eval.report_check import comparisons_of, disagreements
from autoqec.eval.schema import VerifyReport
from autoqec.eval.verify import VerifyOptions, verify_together
from autoqec.io.jsonl import Row
from autoqec.runs.history import rounds_of
from autoqec.runs.package_claims import check_reports, front_problems, page_problems
from autoqec.runs.package_open import Package, opened
from autoqec.runs.package_rounds import PackagedRound, history_of, read_round, stray_reports

__all__ = ["PackageCheck", "RoundCheck", "check_package", "opened"]

_NONSENSE = (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
"""What making the pages anew stumbles over in rows that are valid where rules are, and nonsense elsewhere."""

Outcome = Literal["holds", "does not hold", "not shown again", "proves nothing", "only files checked"]


@dataclass(frozen=True)
class Figures:
    """Of a report: gain with its interval at the reference p, and what was counted."""

    delta: float | None
    delta_ci: tuple[float | None, float | None]
    shots: int | None
    flops_per_syndrome: int | None
    n_params: int | None

    @classmethod
    def of(cls, report: VerifyReport) -> Figures:
        return cls(
            delta=report.headline.delta,
            delta_ci=report.headline.delta_ci or (None, None),
            shots=report.headline.shots,
            flops_per_syndrome=report.cost.flops_per_syndrome if report.cost is not None else None,
            n_params=report.cost.n_params if report.cost is not None else None,
        )


@dataclass
class RoundCheck:
    """recorded, now: the verdict in the package and that of this machine; None where there is none. claimed, measured: the
    figures of both. note: what the verifier here says."""

    round: int
    branch: str
    problems: list[str]
    recorded: str | None = None
    now: str | None = None
    claimed: Figures | None = None
    measured: Figures | None = None
    note: str | None = None

    @property
    def is_good(self) -> bool:
        """Nothing contradicts it."""
        return not self.problems and (self.recorded != "VERIFIED" or self.now != "FAILED")

    @property
    def is_shown(self) -> bool:
        """It is VERIFIED here as well."""
        return self.is_good and self.recorded == self.now == "VERIFIED"


@dataclass
class PackageCheck:
    """problems: of the package as a whole. evaluated: whether its VERIFIED rounds were to be verified anew."""

    run_id: str
    files: int
    evaluated: bool
    problems: list[str] = field(default_factory=list)
    rounds: list[RoundCheck] = field(default_factory=list)

    @property
    def claims(self) -> list[RoundCheck]:
        return [check for check in self.rounds if check.recorded == "VERIFIED"]

    @property
    def outcome(self) -> Outcome:
        """does not hold: something contradicts the package. not shown again: nothing does, and a gain that it claims was not significant
        on this machine's shots. proves nothing: there is no VERIFIED round in it."""
        if self.problems or not all(check.is_good for check in self.rounds):
            return "does not hold"
        if not self.evaluated:
            return "only files checked"
        if not self.claims:
            return "proves nothing"
        return "holds" if all(check.is_shown for check in self.claims) else "not shown again"

    @property
    def is_good(self) -> bool:
        """Everything that was to be checked holds."""
        return self.outcome in ("holds", "only files checked")


def check_package(
    archive: Path, *, evaluate: bool = True, every_round: bool = False, options: VerifyOptions | None = None
) -> PackageCheck:
    """Checks files, provenance and claims of all rounds; verifies anew those that the package calls VERIFIED, or every one.

    options: shots and the like; home, repository and base are the check's own.

    Raises:
        InputError: the archive is damaged, or holds something that leads out of its folder.
    """
    with opened(archive) as package:
        result = PackageCheck(package.manifest.run_id, len(package.manifest.files), evaluate)
        rows, problems = history_of(package)
        rounds = [read_round(package, dict(row)) for row in rounds_of(rows) if row["branch"] is not None]
        problems += stray_reports(package, rounds)
        if not problems:  # else nothing can be made of it anew
            try:
                problems += front_problems(package, check_reports(package, rounds))
                problems += page_problems(package, rows)
            except AutoQECError as error:
                problems.append(str(error))
            except _NONSENSE as error:
                problems.append(
                    f"the history holds what no run writes: {type(error).__name__}: {error}"[:300]
                )
        result.problems = problems
        level = sum(comparisons_of(one.report) for one in rounds if one.report and one.claims_verified)
        for one in rounds:
            check = _recorded(one)
            result.rounds.append(check)
            wanted = one.row["status"] == "ok" and (every_round or one.claims_verified)
            if evaluate and wanted and not one.problems and not problems:
                _verify_again(check, one, package, rows, options or VerifyOptions(), level)
        return result


def _recorded(one: PackagedRound) -> RoundCheck:
    report = one.report
    return RoundCheck(
        one.number,
        one.row["branch"],
        one.problems,
        recorded=None if report is None else report.verdict,
        claimed=None if report is None else Figures.of(report),
    )


def _verify_again(
    check: RoundCheck,
    one: PackagedRound,
    package: Package,
    rows: Sequence[Row],
    options: VerifyOptions,
    comparisons: int,
) -> None:
    chosen = replace(
        options,
        home=package.scratch / "verifier",
        repo=package.git.root,
        base=package.manifest.base_commit,
        write=False,
    )
    parents = _parents(one, package, rows)
    composition = one.report.composition if one.report is not None else None
    if composition is not None and composition.parents != [f"round_{number}" for number in parents]:
        check.problems.append("its report compares it with rounds that are not its parents")
        return
    try:
        folders = [package.run.files.round(number).path for number in (one.number, *parents)]
        fresh, *others = verify_together(folders, package.env, chosen)
    except AutoQECError as error:
        check.problems.append(str(error))
        return
    check.now, check.note, check.measured = fresh.verdict, fresh.notes, Figures.of(fresh)
    if one.report is not None and one.claims_verified:
        check.problems += disagreements(one.report, fresh, comparisons=comparisons, parents=others)


def _parents(one: PackagedRound, package: Package, rows: Sequence[Row]) -> list[int]:
    """The parents of a compose round whose report compares it with them."""
    fork = one.row["fork_from"]
    if one.report is None or one.report.composition is None or not isinstance(fork, list):
        return []
    numbers = {row["branch"]: row["round"] for row in rounds_of(rows)}
    there = [numbers[name] for name in fork if name in numbers]
    return [number for number in there if package.run.files.round(number).checkpoint.is_file()]
