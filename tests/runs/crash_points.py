"""Kills a run at every point, starts it again, and looks whether anything was lost: `make crash-test`.

Two kinds of kill. At a crash point the process kills itself, before or after a write or a git call. Inside git, a hook that
git runs while it holds its locks kills git and the process together. Each kill gets a workspace of its own; the run is
then started again as a user would, killed once more on the way where it lasts that long, and started for good: it has to
end as if nothing had happened.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

sys.path.insert(0, str(Path(__file__).parent))

from tiny_runs import changed, fake_runner, make_checkout, make_run, user_git

from autoqec.io import crash_points as faults
from autoqec.io.git import Git
from autoqec.io.hashing import sha256_file
from autoqec.layout import ExperimentDir, runs_folder
from autoqec.runs.experiment import Experiment
from autoqec.runs.history import FOLLOW_UPS
from autoqec.runs.pointer import read_pointer
from autoqec.runs.reconcile import reconcile
from autoqec.runs.repository import open_checkout
from autoqec.runs.run import Run
from autoqec.runs.worktrees import Limits
from autoqec.search.proposal import Proposal

CODE = "def message(x_src, x_dst, e_ij, params):\n    return x_src\n"
CUSTOM = {
    "type": "hybrid",
    "neural_bp": {"iterations": 6},
    "gnn": {"layers": 1, "message_fn": {"type": "custom", "code": CODE}},
}
ACTS = ("longer", "both", "conflict", "own-message", "out-of-scope", "drift")
HOOKS = ("reference-transaction", "post-checkout", "post-index-change", "pre-merge-commit")


@dataclass(frozen=True)
class Step:
    """One round of the script. parents: slugs of earlier rounds. edit: a file that its coder changes besides."""

    slug: str
    config: dict[str, Any] | None = None
    parents: tuple[str, ...] = ()
    edit: str | None = None
    status: str = "ok"


SCRIPT = (
    Step("longer", changed(neural_bp={"iterations": 6})),
    Step("larger-batch", changed(training={"batch_size": 64})),
    Step("both", parents=("longer", "larger-batch")),
    Step("longest", changed(neural_bp={"iterations": 9})),
    Step("conflict", parents=("longer", "longest"), status="compose_conflict"),
    Step("own-message", changed(**CUSTOM), parents=("longer",), edit="autoqec/decoders/modules/gnn.py"),
    Step("out-of-scope", changed(), edit="autoqec/runner/train.py", status="compile_error"),
)


def attempt_id(slug: str) -> str:
    return str(uuid5(NAMESPACE_OID, slug))


def drive(workspace: Path, script: Sequence[Step]) -> None:
    """The loop in small: whatever state the workspace is in, the run is at its end afterwards."""
    run = open_or_create(workspace)
    steps = {step.slug: step for step in script}
    with run.exclusive():
        report = reconcile(run)
        assert not report.pauses, report.pauses
        for experiment in Experiment.in_flight(run):
            finish(experiment, steps[experiment.journal.slug])
        for step in script:
            if run.history.of_attempt(attempt_id(step.slug)) is None:
                finish(Experiment.begin(run, proposal(run, step)), step)


def open_or_create(workspace: Path) -> Run:
    found = sorted(runs_folder(workspace).glob("*/run.json"))
    if found:
        return Run.open(found[0].parent, Limits(min_free_gb=0.0))
    return make_run(workspace, open_checkout(workspace / "checkout"))


def proposal(run: Run, step: Step) -> Proposal:
    branches = [(run.history.of_attempt(attempt_id(slug)) or {})["branch"] for slug in step.parents]
    fork = branches if len(branches) > 1 else branches[0] if branches else "baseline"
    return Proposal(
        hypothesis=f"try {step.slug}",
        slug=step.slug,
        fork_from=fork,
        compose_mode="pure" if len(branches) > 1 else None,
        round_attempt_id=attempt_id(step.slug),
    )


def finish(experiment: Experiment, step: Step) -> None:
    if step.edit and experiment.stage in ("begun", "prepared"):
        path = (experiment.prepare() or Path()) / step.edit
        path.write_text("CHANGED = True\n")
    experiment.complete(step.config, runner=fake_runner)


def in_child(function: Callable[[], None]) -> int:
    """Runs a function in a process group of its own; its exit status, negative for a signal."""
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            function()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status)


def with_crash(function: Callable[[], None], **variables: str) -> Callable[[], None]:
    def start() -> None:
        os.environ.update(variables)
        faults.restart()
        function()

    return start


def with_hook(function: Callable[[], None], folder: Path, number: int | None) -> Callable[[], None]:
    """Kills inside git, at the `number`-th call of a hook; with None, only counts them in `folder/count`."""

    def start() -> None:
        folder.mkdir()
        kill = f'[ "$n" = "{number}" ] && kill -9 0\n' if number is not None else ""
        text = f'#!/bin/sh\ncd "{folder}"\nread n <count || n=0\nn=$((n + 1))\necho $n >count\n{kill}exit 0\n'
        for name in HOOKS:
            (folder / name).write_text(text)
            (folder / name).chmod(0o755)
        Git.hooks = str(folder)
        function()

    return start


def problems(workspace: Path, script: Sequence[Step], extra: Sequence[str] = ()) -> list[str]:
    """What is wrong with a run that should be at the end of `script`. extra: statuses of rows that reconciliation added."""
    checkout = workspace / "checkout"
    run = open_or_create(workspace)
    rows = run.history.rows()
    found = []
    attempts = [row["round_attempt_id"] for row in rows if row["status"] not in FOLLOW_UPS]
    if sorted(attempts) != sorted(attempt_id(step.slug) for step in script):
        found.append(f"{len(attempts)} attempts are recorded, {len(set(attempts))} different ones")
    if sorted(row["status"] for row in rows) != sorted([*(step.status for step in script), *extra]):
        found.append(f"history is {[row['status'] for row in rows]}")
    if json.loads(run.files.history_array.read_text()) != rows:
        found.append("history.json differs from history.jsonl")
    if run.journals():
        found.append("a round is still in flight")
    if (
        any((checkout / ".worktrees").iterdir())
        or len(user_git(checkout, "worktree", "list").splitlines()) != 1
    ):
        found.append("a worktree is left")
    gone = {row["branch"] for row in rows if row["status"] == "branch_manually_deleted"}
    branches = set(user_git(checkout, "for-each-ref", "--format=%(refname:short)", "refs/heads/").split())
    if branches != {"main", *(row["branch"] for row in rows if row["branch"])} - gone:
        found.append(f"branches are {sorted(branches)}")
    for row in rows:
        if row["status"] in ("ok", "compile_error") and row["branch"] not in gone:
            found += bad_provenance(run, row)
    said = user_git(checkout, "fsck", "--full", "--strict", "--no-dangling")
    if said.strip():
        found.append(f"fsck says {said.strip()[:200]}")
    if user_git(checkout, "status", "--porcelain").strip():
        found.append("the user's checkout is not as it was")
    locks = [path for path in (checkout / ".git").rglob("*.lock") if path.name != "autoqec.lock"]
    leftovers = [*locks, *run.files.path.glob(".*.tmp"), *run.files.in_flight.glob(".*.tmp")]
    found += [f"{path.name} is left" for path in leftovers]
    return found


def bad_provenance(run: Run, row: dict[str, Any]) -> list[str]:
    """A recorded round's branch, pointer and artifacts have to say the same."""
    git = run.repository.git
    files = run.files.round(row["round"])
    path = ExperimentDir("").record(run.run_id, row["round"]).pointer.as_posix()
    committed = git.file_at(git.branch(row["branch"]) or "", path)
    if committed is None or committed != files.pointer.read_bytes():
        return [f"the pointer of round {row['round']} differs between branch and folder"]
    pointer = read_pointer(committed, where=row["branch"])
    metrics = json.loads(files.metrics.read_text())
    agree = (
        pointer.commit_sha == row["commit_sha"]
        and pointer.round_attempt_id == row["round_attempt_id"] == metrics["round_attempt_id"]
        and metrics["ler_predecoder"] == row["ler_predecoder"]
        and pointer.provenance.train_seed == row["train_seed"]
        and (row["status"] != "ok" or pointer.provenance.checkpoint_sha256 == sha256_file(files.checkpoint))
    )
    return [] if agree else [f"round {row['round']}: row, pointer and artifacts disagree"]


def make_drift(workspace: Path) -> None:
    """Everything that can be out of order at once, after the first rounds of the script."""
    run = open_or_create(workspace)
    checkout = workspace / "checkout"
    run_id, git_dir = run.run_id, checkout / ".git"
    rows = {row["hypothesis"]: row for row in run.history.rows()}
    base = run.info.base_commit
    # a round in flight whose journal was lost after its commit; one of which only the branch is there
    lost = Experiment.begin(
        run, Proposal(hypothesis="lost", slug="lost", round_attempt_id=attempt_id("lost"))
    )
    lost.prepare()
    lost.commit()
    run.files.journal(lost.name.round).unlink()
    user_git(checkout, "branch", f"exp/{run_id}/90-empty", base)
    user_git(checkout, "branch", "-D", rows["try larger-batch"]["branch"])
    # half-made worktrees and lock files of a killed git
    (checkout / ".worktrees" / f"exp-{run_id}-91-half").mkdir()
    admin = git_dir / "worktrees" / f"exp-{run_id}-92-half"
    admin.mkdir()
    (admin / "locked").write_text("initializing")
    (git_dir / "refs" / "heads" / "exp" / run_id / "93-x.lock").touch()
    (run.files.path / ".history.json.abc.tmp").touch()
    with run.files.history.open("a") as file:
        file.write('{"status": "ok", "rou')


@dataclass(frozen=True)
class Act:
    """A state of the workspace, and what is driven from there."""

    name: str
    snapshot: Path
    script: tuple[Step, ...]
    extra: tuple[str, ...] = ()


class CrashTest:
    """Kills and restarts. All workspaces have the same path: a run knows where its repository is."""

    def __init__(self, folder: Path, acts: Sequence[str] | None = None) -> None:
        self.folder = folder
        self.workspace = folder / "workspace"
        self.points: dict[str, int] = {}
        self.faults: list[str] = []
        make_checkout(self.workspace / "checkout")
        self.acts = [act for act in self._prepare() if acts is None or act.name in acts]

    def _prepare(self) -> Iterator[Act]:
        for number, step in enumerate(SCRIPT):
            yield Act(step.slug, self._snapshot(step.slug), SCRIPT[: number + 1])
            assert in_child(lambda number=number: drive(self.workspace, SCRIPT[: number + 1])) == 0  # type: ignore[misc]
        self._restore(self.folder / "both")  # two rounds are done
        assert in_child(lambda: make_drift(self.workspace)) == 0
        script = (*SCRIPT[:2], SCRIPT[3])
        yield Act("drift", self._snapshot("drift"), script, extra=FOLLOW_UPS)

    def _snapshot(self, name: str) -> Path:
        shutil.copytree(self.workspace, self.folder / name, symlinks=True)
        return self.folder / name

    def _restore(self, snapshot: Path) -> None:
        shutil.rmtree(self.workspace)
        shutil.copytree(snapshot, self.workspace, symlinks=True)

    def reference(self, act: Act) -> tuple[list[str], int]:
        """Names of the crash points passed, and the number of git's hook calls, when nobody kills."""
        log, hooks = self.folder / f"{act.name}.points", self.folder / f"{act.name}.hooks"
        for start in (
            with_crash(lambda: drive(self.workspace, act.script), AUTOQEC_CRASH_LOG=str(log)),
            with_hook(lambda: drive(self.workspace, act.script), hooks, None),
        ):
            self._restore(act.snapshot)
            assert in_child(start) == 0
            assert not (found := problems(self.workspace, act.script, act.extra)), found
        return log.read_text().splitlines(), int((hooks / "count").read_text())

    def play(self, act: Act, every: int = 1) -> None:
        points, calls = self.reference(act)
        for number, name in list(enumerate(points, 1))[::every]:
            self._kill(
                act, name, with_crash(lambda: drive(self.workspace, act.script), AUTOQEC_CRASH_AT=str(number))
            )
        for number in range(1, calls + 1, every):
            hooks = self.folder / f"{act.name}.hooks-{number}"
            start = with_hook(lambda: drive(self.workspace, act.script), hooks, number)
            self._kill(act, f"in git's hook {number}", start, certain=False)

    def _kill(self, act: Act, name: str, start: Callable[[], None], *, certain: bool = True) -> None:
        """certain: the point is passed in every run. How often git calls a hook depends on the age of its index."""
        self._restore(act.snapshot)
        killed = in_child(start)
        if killed == 0 and not certain:
            return
        label = f"{act.name}: {name}"
        self.points[label] = self.points.get(label, 0) + 1
        second = str(1 + 13 * sum(self.points.values()) % 40)
        in_child(with_crash(lambda: drive(self.workspace, act.script), AUTOQEC_CRASH_AT=second))
        again = in_child(lambda: drive(self.workspace, act.script))
        found = [] if killed == -signal.SIGKILL else [f"was not killed: {killed}"]
        found += ["could not go on"] if again != 0 else problems(self.workspace, act.script, act.extra)
        if found:
            self.faults.append(f"{label} ({self.points[label]}): {'; '.join(found)}")

    @property
    def summary(self) -> str:
        tried = sum(self.points.values())
        return f"points tried {tried} ({len(self.points)} distinct), points clean {tried - len(self.faults)}"


@contextmanager
def fast_folder() -> Iterator[Path]:
    """In memory where possible: every write is fsynced."""
    shared = Path("/dev/shm")
    place = shared if shared.is_dir() and os.access(shared, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="autoqec-crash-", dir=place) as folder:
        yield Path(folder)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, help="Only every n-th point.")
    parser.add_argument(
        "--act", action="append", help="Only this act; repeatable. Default: one of each kind."
    )
    options = parser.parse_args()
    with fast_folder() as folder:
        test = CrashTest(folder, options.act or ACTS)
        for act in test.acts:
            before = len(test.faults)
            test.play(act, options.every)
            print(f"{act.name}: {test.summary}", *test.faults[before:], sep="\n  ", flush=True)
    print(test.summary)
    return 1 if test.faults else 0


if __name__ == "__main__":
    sys.exit(main())
