"""The Anthropic Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from autoqec.agents.accounting import Caps
from autoqec.agents.backends.base import Reply, Request, WorstCase, priced, unavailable
from autoqec.agents.backends.https import Endpoint
from autoqec.agents.prices import Prices, Usage

DEFAULT_BASE = "https://api.anthropic.com"
_ENDED = {"refusal": "refusal", "max_tokens": "truncated", "model_context_window_exceeded": "truncated"}


class Anthropic:
    name: ClassVar[str] = "anthropic"
    edits_files: ClassVar[bool] = False

    def __init__(self, model: str | None, environ: Mapping[str, str]) -> None:
        if model is None:
            raise unavailable(
                "the anthropic backend has no default model",
                "set AUTOQEC_<ROLE>_MODEL, e.g. claude-sonnet-5-5",
            )
        key = environ.get("ANTHROPIC_API_KEY", "").strip()
        if not key:
            raise unavailable("the anthropic backend needs ANTHROPIC_API_KEY", "set it")
        self.model: str | None = model
        self._endpoint = Endpoint.at(
            environ.get("ANTHROPIC_BASE_URL") or DEFAULT_BASE,
            {"x-api-key": key, "anthropic-version": "2023-06-01"},
            vendor="anthropic",
            variable="ANTHROPIC_BASE_URL",
            key_variable="ANTHROPIC_API_KEY",
        )

    def worst_case(self, request: Request, prices: Prices, caps: Caps) -> WorstCase:
        return priced(self.model, request, prices, caps)

    def call(self, request: Request) -> Reply:
        body = {
            "model": self.model,
            "max_tokens": request.max_output_tokens,
            "system": request.system,
            "messages": [{"role": "user", "content": request.prompt}],
            "output_config": {"format": {"type": "json_schema", "schema": request.schema}},
        }
        answer = self._endpoint.post("/v1/messages", body, deadline_s=request.deadline_s)
        blocks = answer.get("content") or []
        text = "".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")
        return Reply(
            text=text,
            usage=usage_of(answer.get("usage")),
            model=answer.get("model"),
            ended=_ENDED.get(str(answer.get("stop_reason"))),
        )


def usage_of(data: Any) -> Usage | None:
    if not isinstance(data, dict):
        return None
    return Usage(
        input=int(data.get("input_tokens") or 0),
        cache_read=int(data.get("cache_read_input_tokens") or 0),
        cache_write=int(data.get("cache_creation_input_tokens") or 0),
        output=int(data.get("output_tokens") or 0),
    )
