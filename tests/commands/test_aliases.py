"""Names of an older tool: scripts that use them still work, and nobody else meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from autoqec.commands import ALIASES, RENAMED_OPTIONS, VERBS
from autoqec.eval.verify import VerifyOptions
from cli.autoqec import main


def autoqec(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_no_help_shows_an_alias() -> None:
    for verb in ([], *([name] for name in VERBS)):
        shown = autoqec(*verb, "--help").output
        assert not [word for word in shown.replace(",", " ").split() if word.lstrip("-") in ALIASES], verb


def test_review_log_is_review(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_text("")
    old, new = (autoqec(verb, str(tmp_path), "--json") for verb in ("review-log", "review"))
    assert (old.exit_code, old.output) == (new.exit_code, new.output)
    assert old.exit_code == 0
    assert isinstance(json.loads(old.stdout), dict)


def test_add_env_knows_source_and_p_by_their_older_names(tmp_path: Path) -> None:
    source = "surface_code:rotated_memory_z?distance=3&rounds=2"
    out = tmp_path / "env.yaml"
    done = autoqec(
        *("add-env", "--out", str(out), "--no-input"), f"--code-source={source}", "--noise-p", "0.004,0.008"
    )
    assert done.exit_code == 0, done.output
    written = yaml.safe_load(out.read_text())
    assert (written["code"]["source"], written["noise"]["p"]) == (source, [0.004, 0.008])


@pytest.mark.parametrize(
    ("arguments", "shots", "seeds"),
    [
        (["--n-shots", "20000", "--n-seeds", "5"], 20_000, (9000, 9004)),
        (["--shots", "30000", "--seeds", "9"], 30_000, (9000, 9008)),
        (["--n-shots=40000", "--n-seeds=9010:9019"], 40_000, (9010, 9019)),
    ],
)
def test_verify_knows_shots_and_seeds_by_their_older_names(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    shots: int,
    seeds: tuple[int, int],
) -> None:
    asked: list[VerifyOptions] = []

    def catch(folders: object, env: object, options: VerifyOptions) -> None:
        asked.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("autoqec.eval.verify.verify_together", catch)
    autoqec("verify", str(tmp_path), "--env", "surface_d3_depol", *arguments)
    assert [(options.shots, options.seeds) for options in asked] == [(shots, seeds)]


@pytest.mark.parametrize("text", ["0", "-3", "many", "9000:", "9000:x"])
def test_labels_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    done = autoqec("verify", str(tmp_path), "--env", "surface_d3_depol", f"--n-seeds={text}")
    assert done.exit_code == 2
    assert "--seeds" in done.output
    assert "9000:9099" in done.output


@pytest.mark.parametrize(("verb", "old", "new"), [
    (verb, old, new) for verb, renamed in RENAMED_OPTIONS.items() for old, new in renamed.items()
])  # fmt: skip
def test_a_renamed_option_has_its_new_name_in_the_help_and_works_by_its_old_one(
    verb: str, old: str, new: str
) -> None:
    shown = autoqec(verb, "--help").output
    assert f"--{new}" in shown
    assert f"--{old} " not in shown
    for name in (old, new):
        refused = autoqec(verb, f"--{name}", "none")
        assert refused.exit_code == 2
        assert "is not a valid integer" in refused.output, name


def test_rounds_of_verify_are_confirmations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[VerifyOptions] = []

    def catch(folders: object, env: object, options: VerifyOptions) -> None:
        asked.append(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("autoqec.eval.verify.verify_together", catch)
    for name in ("--rounds", "--confirmations"):
        autoqec("verify", str(tmp_path), "--env", "surface_d3_depol", name, "7")
    assert [options.confirmations for options in asked] == [7, 7]
