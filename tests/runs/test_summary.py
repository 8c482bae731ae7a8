"""`summary.md`: what a person learns from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from offline_world import RUN_ID, plan, play

from autoqec.runs.research_run import ResearchRun
from autoqec.runs.summary import summary_page


@pytest.fixture(scope="module")
def research(tmp_path_factory: pytest.TempPathFactory) -> ResearchRun:
    workspace: Path = tmp_path_factory.mktemp("summary")
    return play(workspace, plan(rounds=2, is_smoke=True))[0]


def page(research: ResearchRun, *, pareto: list[dict[str, Any]] | None = None, **row: Any) -> str:
    """Of the same run as if it had verified: with this front, and its first round changed."""
    context = research.now.context()
    first = {**context.history[0], **row}
    told = replace(context, history=(first, *context.history[1:]), pareto=tuple(pareto or ()))
    return summary_page(research.run, plan(rounds=2), told)


MEMBER = {
    "round": 1,
    "branch": f"exp/{RUN_ID}/01-x",
    "delta_vs_baseline_holdout": 0.004,
    "delta_ci": [0.003, 0.005],
    "flops_per_syndrome": 1234,
    "n_params": 56,
}
VERIFIED = {
    "ratio": 1.4,
    "ler_baseline": 0.014,
    "ler_holdout": 0.01,
    "shots": 200_000,
    "baseline": "pymatching",
    "strongest_baseline": "belief_matching",
    "delta_vs_strongest_ci": [-0.001, 0.001],
}


def test_the_file_of_a_run_says_what_was_searched_and_how_to_go_on(research: ResearchRun) -> None:
    text = research.run.files.summary.read_text()
    assert text.startswith(f"# Run {RUN_ID}: predecoders for surface_d3_depol\n")
    assert "surface_code:rotated_memory_z?distance=3&rounds=3" in text
    assert "2 of 2 rounds are done, proposed by templates" in text
    assert "nothing is verified" in text
    assert f"autoqec review {RUN_ID}" in text
    assert f"--run-id {RUN_ID} --rounds 2 --profile dev --no-llm" in text


def test_the_headline_has_the_figures_of_the_fresh_shots(research: ResearchRun) -> None:
    text = page(research, pareto=[MEMBER], verdict="VERIFIED", verification=VERIFIED)
    assert (
        "**Round 1 fails 1.400 times less often than pymatching: LER 0.014 -> 0.01 on 200000 fresh shots "
        "(difference 0.003 .. 0.005).** It cannot be told from belief_matching"
    ) in text
    assert "1234 FLOPs, 56 parameters" in text
    assert "1 VERIFIED" in text


def test_without_a_verified_round_it_says_so(research: ResearchRun) -> None:
    text = page(research)
    assert "No round is verified yet." in text
    assert "on validation shots, which selected it" in text


def test_words_of_others_stay_in_their_line(research: ResearchRun) -> None:
    text = page(research, hypothesis="# Found\n\n```\nrm -rf /\n\x1b[2J")
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        line for line in page(research).splitlines() if line.startswith("#")
    ]
    assert "\x1b" not in text
    assert sum(line.startswith("```") for line in text.splitlines()) == 4
