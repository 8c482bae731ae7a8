"""`claude -p`: Claude Code as a subprocess, one question and one JSON object as the answer.

No settings file configures it, neither the user's nor one of the branch: hooks, rules, instructions and servers of such files
do not exist for it. With an API key its requests go through a gateway that counts them and, under a cap, lets none of them
pass the reservation; on a subscription no token is billed, and what it reports is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, ClassVar

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.anthropic import usage_of
from autoqec.agents.backends.base import Reply, Request, WorstCase
from autoqec.agents.backends.cli import cli_environment, find_program, past_proxies, run_program
from autoqec.agents.backends.complaints import complaint
from autoqec.agents.backends.gateway import Line
from autoqec.agents.backends.vendors import ANTHROPIC
from autoqec.agents.failures import Kind, RoleFailure
from autoqec.agents.prices import Prices, nano_of, usd_of
from autoqec.io.scratch import scratch_folder

LOGIN_VARIABLES = (
    "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "AWS_PROFILE", "AWS_REGION", "CLOUD_ML_REGION",
    "ANTHROPIC_VERTEX_PROJECT_ID",
)  # fmt: skip

DEFAULT_MODEL = "claude-sonnet-5-5"
_ALIAS = re.compile(r"(fable|opus|sonnet|haiku)(\[1m\])?")
_QUIET = {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}
"""No request that does not serve the answer."""
_ONCE = {
    "CLAUDE_CODE_MAX_RETRIES": "1",
    "CLAUDE_CODE_DISABLE_NONSTREAMING_FALLBACK": "1",
    "CLAUDE_CODE_DISABLE_REFUSAL_RETRY": "1",
}
"""What it tries again is paid for again, and takes of the time in which others could be asked."""

_TOLD_SHARE = Decimal("0.8")
"""Of the reservation, the program is told this share: it stops after the turn that passes its limit, not before."""
_LEAST = nano_of("0.05")

_FAILURES: dict[str, Kind] = {
    "error_max_budget_usd": "budget",
    "error_max_turns": "turns",
    "error_max_structured_output_retries": "schema",
}


class ClaudeCli:
    name: ClassVar[str] = "claude-cli"
    edits_files: ClassVar[bool] = True

    def __init__(self, model: str | None, environ: Mapping[str, str]) -> None:
        self._cloud = _is_cloud(environ)  # clouds have names of their own for models
        self.model: str | None = model or (None if self._cloud else DEFAULT_MODEL)
        self._program = find_program(
            "claude",
            environ,
            variable=self.name,
            install="install Claude Code (npm install -g @anthropic-ai/claude-code)",
        )
        self._environment = cli_environment(environ, LOGIN_VARIABLES)
        key = None if self._cloud else _key_variable(environ)
        self._line = None if key is None else Line(ANTHROPIC, key, environ.get(ANTHROPIC.variable))

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase:
        if self._line is not None:
            self._line.check()
        if not self._cloud and not _ALIAS.fullmatch(self.model or ""):
            prices.know(self.model)
        return WorstCase(nano_of(caps.call), min(_LEAST, nano_of(caps.call)))

    def call(self, request: Request) -> Reply:
        if self._line is None or request.prices is None:
            return self._ask(request, self._environment)
        direct = past_proxies(self._environment)
        return self._line.metered(
            request, request.prices, lambda url: self._ask(request, {**direct, ANTHROPIC.variable: url})
        )

    def _ask(self, request: Request, environment: Mapping[str, str]) -> Reply:
        with scratch_folder("role") as folder:
            prompt = folder / "prompt.md"
            prompt.write_text(request.prompt)
            limits = {"CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(request.max_output_tokens)}
            told = {**environment, **_QUIET, **_ONCE, **limits}
            ended = run_program(self.command(request), request, told, prompt)
        result = _result(ended.stdout)
        if result is None:
            text = (ended.stderr or ended.stdout).decode(errors="replace")
            raise complaint(f"exit code {ended.code}: {text}", program="claude", login=_LOGIN)
        return _reply(result)

    def command(self, request: Request) -> list[str]:
        """`tools` is the whole set of tools that exist for the model; what of it touches files is allowed in the folder only."""
        tools = [tool for tool in request.tools if not tool.startswith("mcp__")]
        rules = ["Read(./**)", *(["Edit(./**)"] if request.may_write else [])]
        told = (usd_of(request.budget) * _TOLD_SHARE).quantize(Decimal("0.0001"))
        command = [
            self._program,
            "-p",
            "--output-format",
            "json",
            "--json-schema",
            json.dumps(request.schema),
        ]
        command += ["--max-turns", str(request.max_turns), "--max-budget-usd", str(told)]
        command += [
            "--tools",
            ",".join(tools),
            "--allowedTools",
            ",".join(rules),
            "--permission-mode",
            "dontAsk",
        ]
        command += ["--setting-sources", "", "--strict-mcp-config", "--disable-slash-commands"]
        command += ["--no-session-persistence", "--system-prompt", request.system]
        return command + (["--model", self.model] if self.model is not None else [])


_YES = ("1", "true", "yes", "on")
"""What Claude Code takes as a variable that is switched on."""
_LOGIN = "run claude once and log in, or set ANTHROPIC_API_KEY"


def _is_cloud(environ: Mapping[str, str]) -> bool:
    """Whether a cloud's login is used; it comes before any key."""
    clouds = (environ.get(name, "") for name in ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"))
    return any(value.strip().lower() in _YES for value in clouds)


def _key_variable(environ: Mapping[str, str]) -> str | None:
    """The variable whose key Claude Code is billed by."""
    names = ("ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY")
    return next((name for name in names if environ.get(name, "").strip()), None)


def _result(stdout: bytes) -> dict[str, Any] | None:
    """The result object: the last line that is one. Other lines are notices of the program."""
    for line in reversed(stdout.decode(errors="replace").strip().splitlines()):
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and found.get("type", "result") == "result" and "subtype" in found:
            return found
    try:
        whole = json.loads(stdout)
    except ValueError:
        return None
    return whole if isinstance(whole, dict) and "subtype" in whole else None


def _reply(result: dict[str, Any]) -> Reply:
    cost = result.get("total_cost_usd")
    nano = nano_of(cost) if isinstance(cost, int | float) else None
    usage = usage_of(result.get("usage"))
    text = result.get("result") if isinstance(result.get("result"), str) else ""
    subtype = str(result["subtype"])
    if subtype in _FAILURES:
        raise RoleFailure(
            _FAILURES[subtype],
            f"claude stopped: {subtype.removeprefix('error_').replace('_', ' ')}",
            reply=text or "",
            usage=usage,
            cost=nano,
            charged=nano is None,
        )
    if result.get("stop_reason") == "refusal":
        raise RoleFailure("refusal", f"claude: {text or 'the model declines'}"[:400], usage=usage, cost=nano)
    if result.get("is_error") or subtype != "success":
        errors, status = result.get("errors") or text or subtype, result.get("api_error_status")
        failure = complaint(
            str(errors),
            program="claude",
            login=_LOGIN,
            status=status if isinstance(status, int) else None,
            charged=nano is None,
        )
        failure.usage, failure.cost = usage, nano
        raise failure
    structured = result.get("structured_output")
    return Reply(
        text=json.dumps(structured) if isinstance(structured, dict) else text or "",
        usage=usage,
        cost=nano,
        model=next(iter(result.get("modelUsage") or {}), None),
        ended="truncated" if result.get("stop_reason") == "max_tokens" else None,
    )
