"""Names that are not there: one error as every other, with the nearest name; and the help that lists what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoqec.commands import GROUPS, VERBS, main
from autoqec.envs.load import builtin_names
from autoqec.layout import example_configs


def autoqec(*arguments: str, **variables: str) -> Result:
    return CliRunner().invoke(main, arguments, env=variables, prog_name="autoqec")


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        (["basline", "x"], "autoqec: no such command 'basline'", "did you mean 'baseline'?"),
        (["env", "lst"], "autoqec env: no such command 'lst'", "did you mean 'list'?"),
        (["baseline", "x", "--shot", "3"], "autoqec baseline: no such option --shot", "did you mean '--shots'?"),
        (["baseline"], "autoqec baseline: argument ENV... is missing", "see autoqec baseline --help"),
        (["cost", "neural_bp_gap"], "autoqec cost: option --env is missing", "see autoqec cost --help"),
        (["runs", "too", "many"], "autoqec runs: Got unexpected extra arguments", "see autoqec runs --help"),
        (["verify", "x", "--kind", "no"], "--kind: 'no' is not one of", "see autoqec verify --help"),
        (["cost", "neural_bp_gp", "--env", "x"], "neural_bp_gp is neither a file", "did you mean 'neural_bp_gap'?"),
        (["env", "show", "surface_d5"], "'surface_d5' is neither a builtin", "did you mean 'surface_d5_depol'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)  # fmt: skip
def test_a_wrong_word_is_one_error_in_one_style(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], what: str, hint: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = autoqec(*words)
    assert done.exit_code == 2
    first, second = done.stderr.splitlines()
    assert first.startswith("error: ")
    assert what in first
    assert second.startswith("  hint: ")
    assert hint in second
    told = json.loads(autoqec(*words, AUTOQEC_ERROR_JSON="1").stderr)
    assert told["error"] == "InputError"
    assert told["exit_code"] == 2


def test_a_group_without_a_command_shows_its_help() -> None:
    done = autoqec("env")
    assert "Usage: autoqec env" in done.output
    assert "validate" in done.output


def test_the_help_lists_every_command_once_under_its_group_and_fits_80_columns() -> None:
    shown = autoqec("--help", COLUMNS="80").output
    assert max(map(len, shown.splitlines())) <= 80
    for group, verbs in GROUPS.items():
        section = shown.partition(f"{group}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines() if line[2] != " "] == list(verbs)
    assert sum(len(verbs) for verbs in GROUPS.values()) == len(VERBS)


def test_every_example_and_every_builtin_environment_has_a_name() -> None:
    assert "neural_bp_gap" in example_configs()
    assert all(path.is_file() for path in example_configs().values())
    assert "surface_d5_depol" in builtin_names()


def test_an_example_config_is_taken_by_its_name_and_a_file_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = autoqec("cost", "neural_bp_untrained", "--env", "surface_d3_depol", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)
    Path("neural_bp_untrained").write_text("type: [")
    refused = autoqec("cost", "neural_bp_untrained", "--env", "surface_d3_depol")
    assert refused.exit_code == 2
    assert "neural_bp_untrained" in refused.stderr
