"""`autoqec install-skills` in a user's project."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from autoqec.agent_tools import install as installer
from autoqec.agent_tools import skills
from autoqec.agent_tools.install import RECORD, install
from autoqec.commands import main
from autoqec.errors import InputError

SKILL = ".claude/skills/autoqec-run/SKILL.md"


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["install-skills", *map(str, arguments)])


def contents(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def refused(dest: Path, *, force: bool = False) -> str:
    before = contents(dest)
    with pytest.raises(InputError) as caught:
        install(dest, force=force)
    assert contents(dest) == before
    return str(caught.value)


def test_a_fresh_project_gets_everything_and_a_second_call_changes_nothing(tmp_path: Path) -> None:
    done = json.loads(call("--dest", tmp_path, "--json").stdout)
    there = contents(tmp_path)
    assert set(done["wrote"]) == set(there) - {RECORD}
    assert {".mcp.json", SKILL, ".agents/skills/add-env/SKILL.md", ".claude/agents/autoqec-coder.md"} <= set(
        there
    )
    assert ".claude-plugin/plugin.json" in there
    again = call("--dest", tmp_path)
    assert again.exit_code == 0
    assert again.stdout == f"0 files written, {len(there) - 1} were there already\n"
    assert contents(tmp_path) == there


def test_what_the_user_changed_stays_unless_forced(tmp_path: Path) -> None:
    install(tmp_path)
    (tmp_path / SKILL).write_text("mine\n")
    (tmp_path / ".claude/agents/autoqec-coder.md").unlink()
    text = refused(tmp_path)
    assert SKILL in text
    assert "--force" in text
    assert not (tmp_path / ".claude/agents/autoqec-coder.md").exists()
    done = install(tmp_path, force=True)
    assert sorted(done.wrote) == [".claude/agents/autoqec-coder.md", SKILL]
    assert (tmp_path / SKILL).read_bytes() == skills.skill_file("autoqec-run").read_bytes()


def test_a_file_that_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / SKILL).parent.mkdir(parents=True)
    (tmp_path / SKILL).write_text("another skill of this name\n")
    assert SKILL in refused(tmp_path)


def test_a_newer_version_renews_what_the_user_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = {**skills.project_files(), SKILL: b"a newer recipe\n"}
    install(tmp_path)
    monkeypatch.setattr(installer, "project_files", lambda: dict(newer))
    assert install(tmp_path).wrote == [SKILL]
    assert (tmp_path / SKILL).read_bytes() == b"a newer recipe\n"


def test_other_mcp_servers_stay(tmp_path: Path) -> None:
    file = tmp_path / ".mcp.json"
    file.write_text('{"mcpServers": {"other": {"command": "x"}}, "more": [1]}')
    assert ".mcp.json" in install(tmp_path).wrote
    merged = json.loads(file.read_text())
    assert merged == {"mcpServers": {"other": {"command": "x"}, **skills.MCP_SERVERS}, "more": [1]}
    assert install(tmp_path).wrote == []
    file.write_text('{"mcpServers": {"autoqec": {"command": "mine"}}}')
    assert ".mcp.json" in refused(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"mcpServers": []}', ""])
def test_a_broken_mcp_file_is_not_replaced_even_by_force(tmp_path: Path, text: str) -> None:
    (tmp_path / ".mcp.json").write_text(text)
    assert ".mcp.json" in refused(tmp_path, force=True)


def test_links_and_folders_in_the_way_are_refused(tmp_path: Path) -> None:
    (tmp_path / ".claude").write_text("a file\n")
    assert "is not a folder" in refused(tmp_path)
    (tmp_path / ".claude").unlink()
    target = tmp_path / "elsewhere.md"
    target.write_text("mine\n")
    (tmp_path / SKILL).parent.mkdir(parents=True)
    (tmp_path / SKILL).symlink_to(target)
    assert "symbolic link" in refused(tmp_path, force=True)


def test_a_destination_that_is_no_folder_is_bad_input(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["install-skills", "--dest", str(tmp_path / "none")])
    assert done.exit_code == 2
    assert list(tmp_path.iterdir()) == []
