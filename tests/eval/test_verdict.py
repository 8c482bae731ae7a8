"""The verdict rules, and the composition reading."""

from __future__ import annotations

import pytest

from autoqec.eval.composition import read_composition
from autoqec.eval.schema import GuardResult
from autoqec.eval.verdict import judge
from autoqec.stats.sequential import decide_evidence
from autoqec.stats.table import PairedTable

ALPHA = 0.00125


def evidence(b: int, c: int, both: int = 200, alpha: float = ALPHA):
    return decide_evidence(PairedTable(100_000, b, c, both), alpha_gain=alpha)


GAIN, LOSS, NOTHING, LITTLE = evidence(300, 100), evidence(100, 300), evidence(200, 195), evidence(12, 2, 20)


def guard(ok: bool | None, severity: str = "breaks", name: str = "replay") -> GuardResult:
    return GuardResult(name=name, ok=ok, severity=severity, number=1.0, text="what it saw")


def test_evidence_decides_when_all_guards_pass() -> None:
    fine = [guard(True), guard(None), guard(False, "informs")]
    assert judge(GAIN, fine).verdict == "VERIFIED"
    assert judge(LOSS, fine).verdict == "FAILED"
    assert judge(NOTHING, fine).verdict == "SUSPICIOUS"
    assert judge(LITTLE, fine).verdict == "SUSPICIOUS"


def test_too_little_evidence_says_so_first() -> None:
    assert judge(LITTLE, [guard(False, "doubts")]).notes.startswith("INCONCLUSIVE: too few failures")
    assert judge(LITTLE, [], no_claim="a dev bundle supports no claim").notes.startswith("INCONCLUSIVE:")
    assert not judge(NOTHING, []).notes.startswith("INCONCLUSIVE:")


@pytest.mark.parametrize("found", [GAIN, LOSS, NOTHING, LITTLE])
def test_a_broken_guard_fails_whatever_the_evidence(found) -> None:
    verdict, notes = judge(found, [guard(True), guard(False)])
    assert verdict == "FAILED"
    assert "replay: what it saw" in notes


def test_doubts_make_a_gain_suspicious_and_excuse_no_loss() -> None:
    doubt = [guard(False, "doubts", "ablation")]
    assert judge(GAIN, doubt).verdict == "SUSPICIOUS"
    assert "ablation" in judge(GAIN, doubt).notes
    assert judge(LOSS, doubt).verdict == "FAILED"


def test_shots_that_support_no_claim_cap_the_verdict() -> None:
    verdict, notes = judge(GAIN, [guard(True)], no_claim="used before")
    assert verdict == "SUSPICIOUS"
    assert notes.startswith("used before")
    assert judge(LOSS, [], no_claim="used before").verdict == "FAILED"
    assert judge(GAIN, [guard(False)], no_claim="used before").verdict == "FAILED"


def test_without_alpha_nothing_is_a_gain() -> None:
    spent = evidence(300, 100, alpha=0.0)
    assert judge(spent, []).verdict == "SUSPICIOUS"
    assert "no alpha" in judge(spent, []).notes


def test_remarks_are_added_and_decide_nothing() -> None:
    assert judge(GAIN, [], remarks=["it beats bposd-10"]).notes.endswith("; it beats bposd-10")


@pytest.mark.parametrize(
    ("child", "parents", "reading"),
    [
        (0.0081, [0.004, 0.006], "composes"),
        (0.0080, [0.004, 0.006], "partial"),
        (0.0001, [0.004, 0.006], "partial"),
        (0.0, [0.004, 0.006], "conflicts"),
        (-0.001, [0.004, 0.006], "conflicts"),
        (0.001, [-0.004, 0.001], "composes"),
        (-0.001, [-0.004, -0.006], "conflicts"),
    ],
)
def test_composition_reading(child: float, parents: list[float], reading: str) -> None:
    assert read_composition(child, parents, ["a", "b"]).reading == reading


def test_the_threshold_is_a_parameter() -> None:
    assert read_composition(0.006, [0.004, 0.006], ["a", "b"], threshold=0.5).reading == "composes"
