"""OpenAI's chat completions, and every server that speaks them: vLLM, Ollama, llama.cpp, gateways (OPENAI_BASE_URL)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.base import Reply, Request, WorstCase, priced, unavailable
from autoqec.agents.backends.https import Endpoint
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Prices, Usage

DEFAULT_BASE = "https://api.openai.com/v1"
_ENDED = {"length": "truncated", "content_filter": "refusal"}
_OLDER = {"max_completion_tokens": "max_tokens", "response_format": None}
"""What servers may not know, and what to say instead. Without the schema the prompt alone asks for JSON; it is validated
in any case."""


class OpenAI:
    name: ClassVar[str] = "openai"
    edits_files: ClassVar[bool] = False

    def __init__(self, model: str | None, environ: Mapping[str, str]) -> None:
        if model is None:
            raise unavailable(
                "the openai backend has no default model", "set AUTOQEC_<ROLE>_MODEL, e.g. gpt-6.1-terra"
            )
        base = environ.get("OPENAI_BASE_URL") or DEFAULT_BASE
        key = environ.get("OPENAI_API_KEY", "").strip()
        if not key and base == DEFAULT_BASE:
            raise unavailable(
                "the openai backend needs OPENAI_API_KEY",
                "set it, or OPENAI_BASE_URL to a server that needs none",
            )
        self.model: str | None = model
        self._endpoint = Endpoint.at(
            base,
            {"authorization": f"Bearer {key}"} if key else {},
            vendor="openai",
            variable="OPENAI_BASE_URL",
            key_variable="OPENAI_API_KEY",
        )

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase:
        return priced(self.model, request, prices, caps)

    def call(self, request: Request) -> Reply:
        schema = {"name": request.role, "strict": True, "schema": request.schema}
        body: dict[str, Any] = {
            "model": self.model,
            "max_completion_tokens": request.max_output_tokens,
            "messages": [
                {"role": "system", "content": request.system},
                {"role": "user", "content": request.prompt},
            ],
            "response_format": {"type": "json_schema", "json_schema": schema},
        }
        return _reply(self._post(body, request.deadline_s))

    def _post(self, body: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        try:
            return self._endpoint.post("/chat/completions", body, deadline_s=deadline_s)
        except RoleFailure as failure:
            unknown = [name for name in _OLDER if name in body and name in failure.what]
            if failure.kind != "request" or not unknown:
                raise
        for name in unknown:
            value, older = body.pop(name), _OLDER[name]
            if older is not None:
                body[older] = value
        return self._post(body, deadline_s)


def _reply(answer: dict[str, Any]) -> Reply:
    usage = _usage(answer.get("usage"))
    choices = answer.get("choices")
    choice = _mapping(choices[0] if isinstance(choices, list) and choices else None)
    message = _mapping(choice.get("message"))
    refusal = message.get("refusal")
    return Reply(
        text=str(refusal or message.get("content") or ""),
        usage=usage,
        model=answer.get("model"),
        ended="refusal" if refusal else _ENDED.get(str(choice.get("finish_reason"))),
    )


def _usage(data: Any) -> Usage | None:
    """Tokens read from a cache or written to one are counted among the prompt's."""
    if not isinstance(data, dict):
        return None
    details = _mapping(data.get("prompt_tokens_details"))
    read, written = (int(details.get(name) or 0) for name in ("cached_tokens", "cache_write_tokens"))
    plain = max(0, int(data.get("prompt_tokens") or 0) - read - written)
    return Usage(plain, read, written, int(data.get("completion_tokens") or 0))


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
