"""Trying until it works: again, on known shots, or on shots that were chosen."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np

from autoqec.errors import AutoQECError
from autoqec.eval.schema import VerifyReport
from autoqec.stats.intervals import mcnemar_one_sided
from cheats.corpus import cheat
from cheats.scene import Outcome, Scene, judged, refused, surface

_FAMILY = "tries until it works"


def _lucky(tries: int = 60) -> str:
    """How many of 200 candidates without any gain pass a plain test at 5% if each may try again."""
    rng = np.random.default_rng(1)
    counts = rng.binomial(200, 0.5, (200, tries))
    passed = sum(any(mcnemar_one_sided(int(b), 200 - int(b)) <= 0.05 for b in row) for row in counts)
    return f"{passed} of 200 without any gain pass within {tries} tries"


def _after(scene: Scene) -> tuple[Path, VerifyReport]:
    """The round of this scene after its plan of one confirmation was used up, and the report of that."""
    folder, report = scene.shared.spent
    shutil.copytree(folder, scene.folder, dirs_exist_ok=True)
    scene.spec = surface(4)
    return scene.folder / "round_1", report


@cheat(
    "retry until lucky",
    family=_FAMILY,
    how="the same checkpoint is verified again and again, until the shots are kind",
    defence="every confirmation that begins spends alpha of a fixed plan; used up, nothing can be a gain",
    expect="SUSPICIOUS",
    because="no alpha left",
)
def _retry(scene: Scene) -> Outcome:
    folder, _ = _after(scene)
    return scene.verify(folder, confirmations=1, gain=_lucky())


@cheat(
    "retry under another name",
    family=_FAMILY,
    how="the checkpoint is copied to another folder, so that it looks like a new round",
    defence="alpha is spent by checkpoint hash as well as by run",
    expect="SUSPICIOUS",
    because="no alpha left",
)
def _renamed(scene: Scene) -> Outcome:
    folder, _ = _after(scene)
    shutil.copytree(folder, scene.folder / "elsewhere" / "round_7")
    return scene.verify(scene.folder / "elsewhere" / "round_7", confirmations=1)


@cheat(
    "plan changed midway",
    family=_FAMILY,
    how="after the planned confirmations are used up, a larger plan is declared",
    defence="a changed plan gets no more alpha than is left of the whole",
    expect="SUSPICIOUS",
    because="no alpha left",
)
def _plan(scene: Scene) -> Outcome:
    folder, _ = _after(scene)
    return scene.verify(folder, confirmations=1000)


@cheat(
    "ledger edited",
    family=_FAMILY,
    how="the row of a spent confirmation is taken out of the ledger",
    defence="each row is chained to the one before it",
    expect="refused",
    because="ledger was changed",
)
def _ledger(scene: Scene) -> Outcome:
    folder, _ = _after(scene)
    path = scene.home / "ledger.jsonl"
    lines = path.read_text().splitlines()
    kept = [line for line in lines if json.loads(line)["event"] != "opened"]
    path.write_text("\n".join(kept) + "\n")
    return scene.verify(folder, confirmations=1)


@cheat(
    "composing on a shared bundle",
    family=_FAMILY,
    how="winners of one bundle are composed, and the composition is verified on the same shots",
    defence="a confirm bundle is used once",
    expect="SUSPICIOUS",
    because="no claim",
)
def _shared(scene: Scene) -> Outcome:
    _, first = _after(scene)
    again = scene.round(name="round_2", change=lambda weights: weights["head.linear"].mul_(1.01))
    return judged(scene.report(again, bundle=first.paired_eval_bundle_id))


@cheat(
    "claim from a dev bundle",
    family=_FAMILY,
    how="the reusable dev shots, on which the model was chosen, are to confirm it",
    defence="only a fresh confirm bundle supports a claim",
    expect="SUSPICIOUS",
    because="no claim",
)
def _dev(scene: Scene) -> Outcome:
    return scene.verify(scene.round(), kind="dev")


@cheat(
    "bundle edited",
    family=_FAMILY,
    how="observables in an archived bundle are flipped where the candidate fails",
    defence="a bundle is named by the hash of its data",
    expect="refused",
    because="hash",
)
def _bundle(scene: Scene) -> Outcome:
    folder, first = _after(scene)
    path = scene.home / "bundles" / first.paired_eval_bundle_id / "p0.obs.b8"
    data = bytearray(path.read_bytes())
    data[:100] = bytes(100)
    path.write_bytes(data)
    return scene.verify(folder, bundle=first.paired_eval_bundle_id)


@cheat(
    "chosen seeds",
    family=_FAMILY,
    how="the evaluation is asked for on labels of the training range",
    defence="labels must lie in the holdout range",
    expect="refused",
    because="holdout range",
)
def _seeds(scene: Scene) -> Outcome:
    try:
        return judged(scene.report(scene.round(), seeds=(1, 50)))
    except AutoQECError as error:
        return refused(error)
