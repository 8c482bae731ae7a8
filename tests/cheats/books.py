"""Forged books: reports and rows of the ledger that the verifier did not write, and budgets that start anew."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from autoqec.errors import AutoQECError
from autoqec.eval.family import run_family
from autoqec.eval.ledger import Ledger
from autoqec.eval.report_store import written_report
from autoqec.eval.schema import VerifyReport
from autoqec.io.hashing import sha256_bytes, sha256_json
from autoqec.layout import RunDir, VerifierDir
from cheats.corpus import cheat
from cheats.scene import Outcome, Scene, act, refused, surface

_FAMILY = "forged books"
_BUDGETS = "budgets that start anew"
_RUN = "20260101-000000"


def _verified(scene: Scene) -> tuple[Path, VerifyReport]:
    """A round that was verified, in a scene of its own, and its report."""
    folder, report = scene.shared.spent
    shutil.copytree(folder, scene.folder, dirs_exist_ok=True)
    scene.spec = surface(4)
    return scene.folder / "round_1", report


def _better(report: VerifyReport, **changes: Any) -> str:
    """The report with a gain of 2% at one FLOP."""
    cost = report.cost.model_copy(update={"flops_per_syndrome": 1, "n_params": 1})
    fields = {"verdict": "VERIFIED", "delta_vs_baseline_holdout": 0.02, "cost": cost, **changes}
    return report.model_copy(update=fields).model_dump_json(indent=2) + "\n"


def _append(home: Path, **facts: Any) -> None:
    """A row that is chained as it should be: the chain needs no key."""
    path = VerifierDir(home).ledger
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    row = {"event": "judged", "time": 1.0, "previous": sha256_json(rows[-1]) if rows else "", **facts}
    with path.open("a") as file:
        file.write(json.dumps(row, separators=(",", ":")) + "\n")


def _read_back(scene: Scene, folder: Path) -> Outcome:
    """Whether the report that lies there is believed."""
    try:
        report = written_report(folder, home=scene.home)
    except AutoQECError as error:
        return refused(error)
    return act(True, f"believed: {report.delta_vs_baseline_holdout}")


def _forge(scene: Scene, mark: Callable[[dict[str, Any]], str | None]) -> Outcome:
    """A better report in the place of the round's own, and a row of the ledger that fits it, with some mark."""
    folder, report = _verified(scene)
    text = _better(report)
    (folder / "verification_report.json").write_text(text)
    rows = [json.loads(line) for line in VerifierDir(scene.home).ledger.read_text().splitlines()]
    facts = {
        name: value for name, value in rows[-1].items() if name not in ("event", "time", "previous", "mark")
    }
    facts |= {"report": sha256_bytes(text.encode()), "verdict": "VERIFIED"}
    given = mark(rows[-1])
    _append(scene.home, **facts, **({} if given is None else {"mark": given}))
    return _read_back(scene, folder)


_MARKS: dict[str, tuple[str, Callable[[dict[str, Any]], str | None]]] = {
    "judged row without a mark": ("without any", lambda _: None),
    "judged row with the mark of another": ("copied from the row before", lambda row: str(row["mark"])),
    "judged row with a plain hash": (
        "that is a hash without the key",
        lambda row: hashlib.sha256(sha256_json(row).encode()).hexdigest(),
    ),
    "judged row with the mark of no key": (
        "made with an empty key",
        lambda row: hashlib.sha256(b"" + sha256_json(row).encode()).hexdigest()[::-1],
    ),
}
for _name, (_how, _mark) in _MARKS.items():
    cheat(
        _name,
        family=_FAMILY,
        how=f"a better report is put beside the checkpoint, and a chained row of the ledger names its hash, with a mark {_how}",
        defence="rows are marked with the verifier's secret; a row without its mark is evidence of nothing",
        expect="refused",
        because="not as this verifier wrote it",
    )(lambda scene, mark=_mark: _forge(scene, mark))


@cheat(
    "report of a round that was never verified",
    family=_FAMILY,
    how="a report is written beside a fresh checkpoint, with openings and judgements in a ledger that had no row",
    defence="rows are marked with the verifier's secret",
    expect="refused",
    because="not as this verifier wrote it",
)
def _never(scene: Scene) -> Outcome:
    _, report = scene.shared.spent
    folder = scene.round(name=f"{_RUN}/round_1")
    digest = sha256_bytes((folder / "checkpoint.pt").read_bytes())
    text = _better(report, checkpoint_sha256=digest)
    (folder / "verification_report.json").write_text(text)
    home = VerifierDir(scene.home)
    home.path.mkdir(parents=True, exist_ok=True)
    home.ledger.write_text("")
    facts = {"checkpoint": digest, "family": f"run {_RUN}", "kind": "confirm"}
    _append(scene.home, **facts, event="opened", alpha=0.001, mark="0" * 64)
    opening = sha256_json(json.loads(home.ledger.read_text().splitlines()[-1]))
    report_hash = sha256_bytes(text.encode())
    _append(scene.home, **facts, opening=opening, report=report_hash, bundle="0" * 64, mark="0" * 64)
    return _read_back(scene, folder)


@cheat(
    "report whose shots are gone",
    family=_FAMILY,
    how="the archived shots of a verified round are replaced, so that nobody can look at what was judged",
    defence="a report counts only with its sealed bundle, which hashes to its name",
    expect="refused",
    because="not in the verifier's archive",
)
def _shots(scene: Scene) -> Outcome:
    folder, report = _verified(scene)
    data = scene.home / "bundles" / report.estimate.bundle / "p0.obs.b8"
    data.write_bytes(bytes(len(data.read_bytes())))
    return _read_back(scene, folder)


@cheat(
    "report of a twin",
    family=_FAMILY,
    how="the authentic report of a good checkpoint is laid beside another one",
    defence="the checkpoint that lies there must be the one that was judged",
    expect="refused",
    because="and its checkpoint",
)
def _twin(scene: Scene) -> Outcome:
    folder, _ = _verified(scene)
    other = scene.round(name="round_2", change=lambda weights: weights["head.linear"].mul_(0.5))
    shutil.copyfile(folder / "verification_report.json", other / "verification_report.json")
    return _read_back(scene, other)


@cheat(
    "report that another run paid for",
    family=_FAMILY,
    how="a verified round is copied, report and all, into the folder of another run",
    defence="a report counts for the run whose plan of confirmations it was opened on",
    expect="refused",
    because="for this run",
)
def _paid(scene: Scene) -> Outcome:
    folder, _ = _verified(scene)
    other = scene.folder / _RUN / "round_1"
    shutil.copytree(folder, other)
    return _read_back(scene, other)


def _spent_run(scene: Scene) -> Path:
    """A run whose plan of one confirmation is used up, by a checkpoint other than that of its second round."""
    run = scene.folder / _RUN
    rounds = [
        scene.round(
            name=f"{_RUN}/round_{number}", change=lambda w, n=number: w["head.linear"].mul_(1 + n / 1000)
        )
        for number in (1, 2)
    ]
    RunDir(run).about.write_text(json.dumps({"run_id": _RUN, "base_commit": "b" * 40}))
    digest = sha256_bytes((rounds[0] / "checkpoint.pt").read_bytes())
    ledger = Ledger(VerifierDir(scene.home))
    ledger.open(str(run_family(rounds[0])), digest, kind="confirm", confirmations=1)
    return run


def _budget(name: str, how: str) -> Callable[[Callable[[Scene, Path], Path]], Any]:
    def enter(move: Callable[[Scene, Path], Path]) -> Any:
        return cheat(
            name,
            family=_BUDGETS,
            how=f"after the run's confirmations are used up, {how}",
            defence="a plan belongs to the run's identity, and neither to a folder nor to what the run's own files say",
            expect="SUSPICIOUS",
            because="no alpha left",
        )(lambda scene: scene.verify(move(scene, _spent_run(scene)) / "round_2", confirmations=1))

    return enter


@_budget("run reached by a link", "its folder is reached by a link of another name")
def _link(scene: Scene, run: Path) -> Path:
    link = scene.folder / "20260202-000000"
    link.symlink_to(run)
    return link


@_budget("run renamed", "its folder gets another name")
def _rename(scene: Scene, run: Path) -> Path:
    return run.rename(scene.folder / "20260202-000000")


@_budget("run copied", "it is copied to a folder that looks like another run")
def _copy(scene: Scene, run: Path) -> Path:
    return shutil.copytree(run, scene.folder / "elsewhere" / "20260202-000000")


@_budget("run without its file", "run.json is taken away, and the name of the folder is left")
def _stripped(_scene: Scene, run: Path) -> Path:
    RunDir(run).about.unlink()
    return run


@_budget("run with another base", "run.json names no base commit any more")
def _base(_scene: Scene, run: Path) -> Path:
    RunDir(run).about.write_text(json.dumps({"run_id": _RUN}))
    return run


@_budget("run with a false base", "run.json names another base commit")
def _false_base(_scene: Scene, run: Path) -> Path:
    RunDir(run).about.write_text(json.dumps({"run_id": _RUN, "base_commit": "c" * 40}))
    return run


@_budget("run with words for a base", "run.json names several words as its base commit")
def _words_for_base(_scene: Scene, run: Path) -> Path:
    RunDir(run).about.write_text(json.dumps({"run_id": _RUN, "base_commit": "a b"}))
    return run


@_budget("run through a mount of dots", "its folder is given with dots and a link inside it")
def _dots(scene: Scene, run: Path) -> Path:
    (run / "here").symlink_to(".")
    return run / "here" / ".." / run.name / "here"


@cheat(
    "estimate drawn again",
    family=_BUDGETS,
    how="a verified checkpoint is verified again, for an estimate on kinder shots",
    defence="the estimate bundle of a checkpoint is drawn once: the same shots come again",
    expect="no effect",
    because="the same figure",
)
def _redrawn(scene: Scene) -> Outcome:
    folder, first = _verified(scene)
    again = scene.report(folder, confirmations=20, shots=20_000, cap=20_000)
    same = again.estimate is None or again.estimate.bundle == first.estimate.bundle
    return act(not same, "the same figure, or none at all")
