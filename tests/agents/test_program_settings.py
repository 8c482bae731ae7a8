"""What the command line programs are told, and what they are kept from: models, keys, homes, settings of others."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from tempfile import mkdtemp

import pytest
from desk import Desk

from autoqec.agents.accounting import Caps
from autoqec.agents.failures import RoleFailure
from autoqec.errors import InputError

BOTH = pytest.mark.parametrize("program", ["claude", "codex"])


@pytest.fixture
def desk(tmp_path: Path) -> Callable[[str], Desk]:
    return lambda program: Desk(Path(mkdtemp(dir=tmp_path)), program)


@BOTH
def test_an_unknown_model_is_an_error_before_anything_is_asked(
    desk: Callable[[str], Desk], program: str
) -> None:
    here = desk(program)
    here.plan()
    here.environ["AUTOQEC_IDEATOR_MODEL"] = {"claude": "claude-opus-99", "codex": "gpt-5.4"}[program]
    with pytest.raises(InputError, match=r"model '(claude-opus-99|gpt-5.4)'"):
        here.roles()
    assert not (here.home / f"{program}.log").exists()


@BOTH
def test_a_role_without_a_model_has_one_of_today(desk: Callable[[str], Desk], program: str) -> None:
    here = desk(program)
    here.plan()
    del here.environ["AUTOQEC_IDEATOR_MODEL"]
    here.roles(caps=Caps(total=Decimal(5))).analyst("context", round=1)  # so its price is known
    argv = here.calls()[-1]["argv"]
    assert {"claude-sonnet-5-5", "gpt-6.1-terra"} & set(argv)


def test_codex_uses_the_key_of_the_environment_with_and_without_a_cap(desk: Callable[[str], Desk]) -> None:
    """By itself it would look at neither OPENAI_API_KEY nor OPENAI_BASE_URL."""
    here = desk("codex")
    here.plan()
    here.roles().analyst("context", round=1)
    del here.environ["OPENAI_API_KEY"]
    with pytest.raises(RoleFailure, match="401") as caught:
        here.roles().analyst("context", round=1)
    assert caught.value.kind == "login"
    assert "OPENAI_API_KEY" in (caught.value.hint or "")


def test_a_stored_login_of_codex_is_used_where_it_is(desk: Callable[[str], Desk]) -> None:
    here = desk("codex")
    here.plan()
    (here.home / ".codex").mkdir()
    (here.home / ".codex" / "auth.json").write_text("{}")
    here.roles().analyst("context", round=1)
    home = Path(here.calls()[-1]["env"]["CODEX_HOME"])
    assert home != here.home / ".codex"  # whose instructions and skills are not for a role
    assert not home.exists()
    assert (here.home / ".codex" / "auth.json").read_text() == "{}"


def test_no_settings_file_configures_claude(desk: Callable[[str], Desk], tmp_path: Path) -> None:
    here = desk("claude")
    here.plan()
    worktree = tmp_path / "worktree"
    for place in (here.home, worktree):
        (place / ".claude").mkdir(parents=True)
        hook = {"type": "command", "command": f"touch {here.home}/hooked"}
        settings = {"hooks": {"SessionStart": [{"hooks": [hook]}]}}
        (place / ".claude" / "settings.json").write_text(json.dumps(settings))
    here.roles().coder("context", round=1, folder=worktree)
    assert not (here.home / "hooked").exists()


@BOTH
def test_what_a_user_says_about_telemetry_is_passed_on(desk: Callable[[str], Desk], program: str) -> None:
    here = desk(program)
    here.plan()
    here.environ |= {"DO_NOT_TRACK": "1", "DISABLE_TELEMETRY": "1", "CLAUDE_CODE_ENABLE_TELEMETRY": "1"}
    here.roles().analyst("context", round=1)
    told = here.calls()[-1]["env"]
    assert told["DO_NOT_TRACK"] == told["DISABLE_TELEMETRY"] == "1"
    assert "CLAUDE_CODE_ENABLE_TELEMETRY" not in told
