"""`codex exec`: Codex as a subprocess; events as JSON lines, the answer in a file.

Codex has no list of tools per call. Its sandbox decides what a role may write, and its shell, which could do everything
else, is switched off: the Coder edits through patches inside its folder, the other roles have what their context says.

Codex counts tokens when a turn is over and stops for no sum of money. Under a cap, with an API key, its requests go through a
gateway that does; on a subscription no token is billed, and what it reports is counted at list prices.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.base import Reply, Request, WorstCase
from autoqec.agents.backends.cli import cli_environment, complaint, find_program, past_proxies, run_program
from autoqec.agents.backends.gateway import Line
from autoqec.agents.backends.vendors import OPENAI
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Prices, Usage, nano_of
from autoqec.io.scratch import scratch_folder

LOGIN_VARIABLES = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME", "OPENAI_BASE_URL")

_CLOSED = (
    "features.shell_tool=false",
    "features.unified_exec=false",
    'web_search="disabled"',
    "project_doc_max_bytes=0",
    'approval_policy="never"',
)
_LEAST = nano_of("0.05")


class CodexCli:
    name: ClassVar[str] = "codex-cli"
    edits_files: ClassVar[bool] = True

    def __init__(self, model: str | None, environ: Mapping[str, str]) -> None:
        self.model = model
        self._program = find_program(
            "codex", environ, variable=self.name, install="install Codex (npm install -g @openai/codex)"
        )
        self._environment = cli_environment(environ, LOGIN_VARIABLES)
        key = _key_variable(environ)
        self._line = None if key is None else Line(OPENAI, key, environ.get(OPENAI.variable))

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase:
        """Codex counts tokens, not dollars: without a price no cap can be kept."""
        whole = nano_of(caps.call)
        if not caps.is_set:
            return WorstCase(whole, whole)
        prices.need(self.model)
        if self._line is None:
            return WorstCase(whole, whole)
        self._line.check()
        return WorstCase(whole, min(_LEAST, whole))

    def call(self, request: Request) -> Reply:
        if self._line is None or request.prices is None:
            return self._ask(request, [], self._environment)
        key = self._line.key_variable
        return self._line.metered(
            request,
            request.prices,
            lambda url: self._ask(request, _provider(url, key), past_proxies(self._environment)),
        )

    def _ask(self, request: Request, settings: Sequence[str], environment: Mapping[str, str]) -> Reply:
        with scratch_folder("role") as folder:
            prompt, schema, answer = folder / "prompt.md", folder / "schema.json", folder / "answer.txt"
            prompt.write_text(f"{request.system}\n\n{request.prompt}")
            schema.write_text(json.dumps(request.schema))
            ended = run_program(self.command(request, schema, answer, settings), request, environment, prompt)
            reply = answer.read_text(errors="replace") if answer.is_file() else ""
        events = list(_events(ended.stdout))
        usage = _usage(events)
        if not any(event["type"] == "turn.completed" for event in events):
            raise _failure(events, ended.code, ended.stderr.decode(errors="replace"), reply, usage)
        return Reply(text=reply or _last_message(events), usage=usage, model=self.model)

    def command(
        self, request: Request, schema: Path, answer: Path, settings: Sequence[str] = ()
    ) -> list[str]:
        sandbox = "workspace-write" if request.may_write else "read-only"
        command = [self._program, "exec", "--json", "--output-schema", str(schema), "-o", str(answer)]
        command += ["--ephemeral", "--ignore-user-config", "--skip-git-repo-check"]
        command += ["-s", sandbox, "-C", str(request.folder)]
        command += [part for setting in (*_CLOSED, *settings) for part in ("-c", setting)]
        return command + (["-m", self.model] if self.model is not None else []) + ["-"]


def _key_variable(environ: Mapping[str, str]) -> str | None:
    """The variable whose key Codex is billed by. A login that it has stored comes before OPENAI_API_KEY."""
    if environ.get("CODEX_API_KEY", "").strip():
        return "CODEX_API_KEY"
    home = environ.get("CODEX_HOME") or f"{environ.get('HOME', '')}/.codex"
    if environ.get("OPENAI_API_KEY", "").strip() and not (Path(home) / "auth.json").exists():
        return "OPENAI_API_KEY"
    return None


def _provider(url: str, key_variable: str) -> list[str]:
    """Settings that send Codex to an address. Whatever it tries again is paid for again, so it does not try often."""
    facts = f'name="AutoQEC", base_url="{url}", env_key="{key_variable}", wire_api="responses"'
    retries = "request_max_retries=2, stream_max_retries=1"
    return ['model_provider="autoqec"', f"model_providers.autoqec={{{facts}, {retries}}}"]


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
    events: list[dict[str, Any]], code: int, stderr: str, reply: str, usage: Usage | None
) -> RoleFailure:
    """`error` events alone may be passing ("Reconnecting..."): they count when no turn was completed."""
    messages = [_message(event) for event in events if event["type"] in ("turn.failed", "error")]
    text = messages[-1] if messages else f"exit code {code}: {stderr}"
    failure = complaint(
        text, program="codex", login="run codex login, or set OPENAI_API_KEY", charged=usage is None
    )
    failure.usage, failure.reply = usage, reply
    return failure


def _message(event: dict[str, Any]) -> str:
    error = event.get("error")
    return str(error.get("message") if isinstance(error, dict) else event.get("message") or error)
