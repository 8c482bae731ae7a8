"""`codex exec`: Codex as a subprocess; events as JSON lines, the answer in a file.

Codex has no list of tools per call. Its sandbox decides what a role may write, and everything that could do more than edit by
patches is switched off: the Coder edits inside its folder, the other roles have what their context says. It works in a home of
its own, so that no settings, instructions or skills of the user or of the branch reach it.

Codex counts tokens when a turn is over and stops neither for a sum of money nor after a number of turns. With an API key its
requests go through a gateway that does; on a subscription no token is billed, and what it reports is counted at list prices.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.base import Reply, Request, WorstCase
from autoqec.agents.backends.cli import cli_environment, find_program, past_proxies, run_program
from autoqec.agents.backends.complaints import complaint
from autoqec.agents.backends.gateway import Line
from autoqec.agents.backends.vendors import OPENAI
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Prices, Usage, nano_of
from autoqec.errors import InputError
from autoqec.io.processes import run
from autoqec.io.scratch import scratch_folder

LOGIN_VARIABLES = ("OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_HOME", "OPENAI_BASE_URL")
DEFAULT_MODEL = "gpt-6.1-terra"

_OFF = (
    "shell_tool", "unified_exec", "view_image", "image_generation", "goals", "hooks", "plugins", "apps", "memories",
    "tool_suggest", "skill_search", "sleep_tool", "browser_use", "computer_use", "unbounded_connection_retries",
)  # fmt: skip
_CLOSED = (
    *(f"features.{name}=false" for name in _OFF),
    "agents.enabled=false",
    "tools.experimental_request_user_input.enabled=false",
    'web_search="disabled"',
    'approval_policy="never"',
    "sandbox_workspace_write.exclude_slash_tmp=true",
    "sandbox_workspace_write.exclude_tmpdir_env_var=true",
    "project_doc_max_bytes=0",
    "skills.include_instructions=false",
    "skills.bundled.enabled=false",
    "include_permissions_instructions=false",
    "include_collaboration_mode_instructions=false",
    "include_apps_instructions=false",
    "include_environment_context=false",
    "check_for_update_on_startup=false",
    "analytics.enabled=false",
)
"""What is left are patches inside the folder, and prompts of a quarter of the usual size."""
_LEAST = nano_of("0.05")
_LIST_S = 60.0


class CodexCli:
    name: ClassVar[str] = "codex-cli"
    edits_files: ClassVar[bool] = True

    def __init__(self, model: str | None, environ: Mapping[str, str]) -> None:
        self.model: str | None = model or DEFAULT_MODEL
        self._program = find_program(
            "codex", environ, variable=self.name, install="install Codex (npm install -g @openai/codex)"
        )
        self._environment = cli_environment(environ, LOGIN_VARIABLES)
        self._stored = _stored_login(environ)
        key = _key_variable(environ, self._stored)
        self._line = None if key is None else Line(OPENAI, key, environ.get(OPENAI.variable))
        self._check_model()

    def _check_model(self) -> None:
        """A model that Codex does not know has no tool to edit with."""
        listed = _models(self._program, tuple(sorted(self._environment.items())))
        if listed and self.model not in listed:
            raise InputError(
                f"Codex does not know the model {self.model!r}",
                where="AUTOQEC_<ROLE>_MODEL",
                hint=f"it knows {', '.join(listed)}; for models of other servers use the backend openai",
            )

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase:
        """Codex counts tokens, not dollars: without a price no cap can be kept."""
        whole = nano_of(caps.call)
        if caps.is_set:
            prices.need(self.model)
        if self._line is None:
            return WorstCase(whole, whole)
        self._line.check()
        return WorstCase(whole, min(_LEAST, whole) if caps.is_set else whole)

    def call(self, request: Request) -> Reply:
        if self._line is None or request.prices is None:
            return self._ask(request, [], self._environment)
        key = self._line.key_variable
        return self._line.metered(
            request,
            request.prices,
            lambda url: self._ask(request, _provider(url, key), past_proxies(self._environment)),
            turns=request.max_turns,
        )

    def _ask(self, request: Request, settings: Sequence[str], environment: Mapping[str, str]) -> Reply:
        with scratch_folder("role") as folder:
            home, temporary = folder / "home", folder / "tmp"
            home.mkdir()
            temporary.mkdir()
            if self._line is None and self._stored is not None:
                (home / self._stored.name).symlink_to(self._stored)  # Codex renews a login in place
            files = {
                "prompt.md": request.prompt,
                "schema.json": json.dumps(request.schema),
                "role.md": request.system,
            }
            for name, text in files.items():
                (folder / name).write_text(text)
            command = self.command(request, folder, settings)
            # Its sandbox needs helpers, which it makes in a home outside the temporary folder only.
            told = {**environment, "CODEX_HOME": str(home), "TMPDIR": str(temporary)}
            ended = run_program(command, request, told, folder / "prompt.md")
            answer = folder / "answer.txt"
            reply = answer.read_text(errors="replace") if answer.is_file() else ""
        events = list(_events(ended.stdout))
        usage = _usage(events)
        if not any(event["type"] == "turn.completed" for event in events):
            raise _failure(events, ended.code, ended.stderr.decode(errors="replace"), reply, usage)
        return Reply(text=reply or _last_message(events), usage=usage, model=self.model)

    def command(self, request: Request, folder: Path, settings: Sequence[str] = ()) -> list[str]:
        """folder: holds the schema and the role's prompt, and gets the answer."""
        sandbox = "workspace-write" if request.may_write else "read-only"
        command = [self._program, "exec", "--json", "--output-schema", str(folder / "schema.json")]
        command += ["-o", str(folder / "answer.txt"), "--ephemeral", "--ignore-user-config", "--ignore-rules"]
        command += ["--skip-git-repo-check", "-s", sandbox, "-C", str(request.folder)]
        role = f"model_instructions_file={json.dumps(str(folder / 'role.md'))}"
        command += [part for setting in (*_CLOSED, role, *settings) for part in ("-c", setting)]
        return [*command, "-m", str(self.model), "-"]


@cache
def _models(program: str, environment: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """The models that this version knows; none if it is one that cannot say so."""
    with scratch_folder("role") as home:
        told = {**dict(environment), "CODEX_HOME": str(home)}
        command = [program, "debug", "models", "--bundled"]
        ended = run(command, cwd=home, environment=told, deadline_s=_LIST_S)
    try:
        return tuple(str(each["slug"]) for each in json.loads(ended.stdout)["models"])
    except (ValueError, LookupError, TypeError):
        return ()


def _stored_login(environ: Mapping[str, str]) -> Path | None:
    home = environ.get("CODEX_HOME") or f"{environ.get('HOME', '')}/.codex"
    file = Path(home).absolute() / "auth.json"
    return file if file.exists() else None


def _key_variable(environ: Mapping[str, str], stored: Path | None) -> str | None:
    """The variable whose key Codex is billed by. A login that it has stored comes before OPENAI_API_KEY."""
    if environ.get("CODEX_API_KEY", "").strip():
        return "CODEX_API_KEY"
    return "OPENAI_API_KEY" if environ.get("OPENAI_API_KEY", "").strip() and stored is None else None


def _provider(url: str, key_variable: str) -> list[str]:
    """Settings that send Codex to an address. Whatever it tries again is paid for again, so it does not try often."""
    facts = f'name="AutoQEC", base_url="{url}", env_key="{key_variable}", wire_api="responses"'
    retries = "request_max_retries=1, stream_max_retries=1"
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
    """Codex counts tokens that are read from a cache or written to one among its input tokens."""
    found = [event["usage"] for event in events if isinstance(event.get("usage"), dict)]
    if not found:
        return None
    names = ("input_tokens", "cached_input_tokens", "cache_write_input_tokens", "output_tokens")
    whole, read, written, output = (sum(int(usage.get(name) or 0) for usage in found) for name in names)
    return Usage(max(0, whole - read - written), read, written, output)


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
