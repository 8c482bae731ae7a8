"""Each family of cheats at least once, and an honest control; `make cheats` plays all of them."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
if str(HERE.parent) not in sys.path:
    sys.path.insert(0, str(HERE.parent))

from cheats import corpus, document  # noqa: E402
from cheats.scene import Outcome, Shared  # noqa: E402

CHEATS, CONTROLS = corpus.load()
CASES = {case.name: case for case in (*CHEATS, *CONTROLS)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Shared:
    return Shared(tmp_path_factory.mktemp("cheats"))


@pytest.mark.verifier
@pytest.mark.parametrize("name", document.TESTED)
def test_a_cheat_is_stopped_by_its_defence_and_a_control_is_not(name: str, shared: Shared) -> None:
    played = corpus.play(CASES[name], shared)
    assert played.is_right, played.outcome


def test_every_family_is_tested_and_the_corpus_has_the_size_it_should() -> None:
    tested = {case.family for case in CHEATS if case.name in document.TESTED}
    assert tested == {case.family for case in CHEATS}
    assert len(CASES) == len(CHEATS) + len(CONTROLS), "two cases share a name"
    assert len(CHEATS) >= 30
    assert len(CONTROLS) >= 15


def test_the_document_is_that_of_the_corpus() -> None:
    path = HERE.parents[1] / "docs" / "reward_hacking.md"
    assert path.read_text() == document.document(CHEATS, CONTROLS), (
        "run python tools/cheats.py --document > docs/reward_hacking.md"
    )


def test_a_gain_that_the_shots_did_not_show_has_a_second_chance_and_no_third(tmp_path: Path) -> None:
    def played(name: str, *outcomes: Outcome) -> tuple[bool, int]:
        left = list(outcomes)
        case = dataclasses.replace(CASES["weightless logic"], name=name, play=lambda _: left.pop(0))
        return corpus.play(case, Shared(tmp_path)).is_right, len(outcomes) - len(left)

    hidden, stopped = Outcome("SUSPICIOUS", ("no gain",)), Outcome("SUSPICIOUS", ("ablation",))
    assert played("lucky", stopped, hidden) == (True, 1)
    assert played("unlucky", hidden, stopped) == (True, 2)
    assert played("without gain", hidden, hidden, stopped) == (False, 2)
    assert played("not stopped", Outcome("VERIFIED", ()), stopped) == (False, 1)


def test_verified_or_the_wrong_reason_is_no_rejection() -> None:
    case = CASES["cross-shot leakage"]
    assert case.is_rejected(Outcome("FAILED", ("batch_independence",)))
    assert not case.is_rejected(Outcome("FAILED", ("cost_census",)))
    assert not case.is_rejected(Outcome("VERIFIED", ("batch_independence",)))
    honest = CASES["untrained belief propagation, d = 4"]
    assert honest.is_rejected(Outcome("FAILED", ("replay",)))
    assert honest.is_rejected(Outcome("SUSPICIOUS", ("no gain",)))
    assert not honest.is_rejected(Outcome("VERIFIED", ()))
    quiet = CASES["network, soft priors, builtin d = 3"]
    assert not quiet.is_rejected(Outcome("SUSPICIOUS", ("no gain",)))
    assert quiet.is_rejected(Outcome("SUSPICIOUS", ("ablation", "no gain")))
    assert quiet.is_rejected(Outcome("FAILED", ("no gain", "loss")))
