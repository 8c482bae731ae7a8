"""`codex exec`: Codex as a subprocess; events as JSON lines, the answer in a file.

Codex has no list of tools per call. Its sandbox decides what a role may write, and its shell, which could do everything
else, is switched off: the Coder edits through patches inside its folder, the other roles have what their context says.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.base import Reply, Request, WorstCase
from autoqec.agents.backends.cli import cli_environment, complaint, find_program, run_program, scratch
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Prices, Usage, nano_of

LOGIN_VARIABLES = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME", "OPENAI_BASE_URL")

_CLOSED = (
    "features.shell_tool=false",
    "features.unified_exec=false",
    'web_search="disabled"',
    "project_doc_max_bytes=0",
    'approval_policy="never"',
)


class CodexCli:
    name: ClassVar[str] = "codex-cli"
    edits_files: ClassVar[bool] = True

    def __init__(self, model: str | None, environ: Mapping[str, str]) -> None:
        self.model = model
        self._program = find_program(
            "codex", environ, variable=self.name, install="install Codex (npm install -g @openai/codex)"
        )
        self._environment = cli_environment(environ, LOGIN_VARIABLES)

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase:
        """Codex counts tokens, not dollars: without a price no cap can be kept."""
        if caps.any:
            prices.need(self.model)
        return WorstCase(nano_of(caps.call), nano_of(caps.call))

    def call(self, request: Request) -> Reply:
        with scratch() as folder:
            prompt, schema, answer = folder / "prompt.md", folder / "schema.json", folder / "answer.txt"
            prompt.write_text(f"{request.system}\n\n{request.prompt}")
            schema.write_text(json.dumps(request.schema))
            ended = run_program(self.command(request, schema, answer), request, self._environment, prompt)
            said = answer.read_text(errors="replace") if answer.is_file() else ""
        events = list(_events(ended.stdout))
        usage = _usage(events)
        if not any(event["type"] == "turn.completed" for event in events):
            raise _failure(events, ended.code, ended.stderr.decode(errors="replace"), said, usage)
        return Reply(text=said or _last_message(events), usage=usage, model=self.model)

    def command(self, request: Request, schema: Path, answer: Path) -> list[str]:
        sandbox = "workspace-write" if request.may_write else "read-only"
        command = [self._program, "exec", "--json", "--output-schema", str(schema), "-o", str(answer)]
        command += ["--ephemeral", "--ignore-user-config", "--skip-git-repo-check"]
        command += ["-s", sandbox, "-C", str(request.folder)]
        command += [part for setting in _CLOSED for part in ("-c", setting)]
        return command + (["-m", self.model] if self.model is not None else []) + ["-"]


def _events(stdout: bytes) -> Iterator[dict[str, Any]]:
    """The events; lines that are none are notices of the program."""
    for line in stdout.decode(errors="replace").splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict) and isinstance(event.get("type"), str):
            yield event


def _usage(events: list[dict[str, Any]]) -> Usage | None:
    """Codex counts cached tokens among its input tokens."""
    found = [event["usage"] for event in events if isinstance(event.get("usage"), dict)]
    if not found:
        return None
    cached = sum(int(usage.get("cached_input_tokens") or 0) for usage in found)
    whole = sum(int(usage.get("input_tokens") or 0) for usage in found)
    output = sum(int(usage.get("output_tokens") or 0) for usage in found)
    return Usage(input=max(0, whole - cached), cache_read=cached, output=output)


def _last_message(events: list[dict[str, Any]]) -> str:
    items = [event.get("item") for event in events if event["type"] == "item.completed"]
    messages = [item for item in items if isinstance(item, dict) and item.get("type") == "agent_message"]
    return str(messages[-1].get("text", "")) if messages else ""


def _failure(
    events: list[dict[str, Any]], code: int, stderr: str, said: str, usage: Usage | None
) -> RoleFailure:
    """`error` events alone may be passing ("Reconnecting..."): they count when no turn was completed."""
    messages = [_message(event) for event in events if event["type"] in ("turn.failed", "error")]
    text = messages[-1] if messages else f"exit code {code}: {stderr}"
    failure = complaint(
        text, program="codex", login="run codex login, or set OPENAI_API_KEY", charged=usage is None
    )
    failure.usage, failure.said = usage, said
    return failure


def _message(event: dict[str, Any]) -> str:
    error = event.get("error")
    return str(error.get("message") if isinstance(error, dict) else event.get("message") or error)
