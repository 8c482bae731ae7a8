"""The APIs that requests of a metered call go to: how a request is made to cost list prices only, and where responses state what
it took.

A worst case by the bytes of a request holds because nothing is left in it that the vendor would add to or price otherwise:
plain service tier, no tools that the vendor runs, no text by reference, no images.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from autoqec.agents.backends import anthropic, openai
from autoqec.agents.failures import Kind
from autoqec.agents.prices import Usage

Json = dict[str, Any]


class Refused(Exception):
    """A request that does not go out: it cannot be paid for with certainty, or the call has had its turns."""

    def __init__(self, what: str, kind: Kind = "budget") -> None:
        super().__init__(what)
        self.kind = kind


@dataclass(frozen=True)
class Vendor:
    """How a vendor's API takes requests and states what they cost.

    asks: the path that makes the model answer; free: what costs nothing, as "METHOD path"; both below the API's address.
    plain: fields with the values of list prices. foreign: fields that cost what the body does not show. by_reference: types of
    blocks whose tokens are not in the body. own_tool: types of tools that the program runs and describes itself. declined:
    whether an event says that the model refuses to answer.
    """

    name: str
    base: str
    variable: str
    asks: str
    free: frozenset[str]
    limit: str
    plain: Mapping[str, Any]
    foreign: tuple[str, ...]
    by_reference: re.Pattern[str]
    own_tool: re.Pattern[str]
    usage: Callable[[Json, Json], Usage | None]
    declined: Callable[[Json], bool]
    error: Callable[[str], Json]

    def at_list_prices(self, content: bytes) -> Json:
        """The body of a request, made plain. Its `model` is a name.

        Raises:
            Refused: it cannot be made plain.
        """
        try:
            body = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise Refused("the body of the request is not JSON") from error
        if not isinstance(body, dict) or not isinstance(body.get("model"), str):
            raise Refused("the body of the request names no model")
        for name in self.foreign:
            if body.get(name):
                raise Refused(f"{name!r} in a request costs what cannot be known beforehand")
        for block in _blocks(body):
            if self.by_reference.fullmatch(str(block.get("type"))):
                raise Refused(f"the tokens of a block of type {block['type']!r} cannot be counted beforehand")
            if block.get("type") == "ephemeral":
                block.pop("ttl", None)  # the cache of an hour has a price of its own
            if isinstance(tools := block.get("tools"), list):  # the body's, and those that an item adds
                block["tools"] = [tool for tool in tools if isinstance(tool, dict) and self._is_own(tool)]
        for item in body["input"] if isinstance(body.get("input"), list) else []:
            if isinstance(item, dict):
                item.pop("id", None)  # by which the vendor finds what it has stored
        if isinstance(reasoning := body.get("reasoning"), dict):
            reasoning.pop("mode", None)  # "pro" thinks several times for one answer
        return {**body, **self.plain}

    def _is_own(self, tool: Json) -> bool:
        return self.own_tool.fullmatch(str(tool.get("type") or "custom")) is not None


def _blocks(node: Any) -> Iterator[Json]:
    """Every object of a body, but for the arguments of tools: those are the model's own text."""
    if isinstance(node, dict):
        yield node
        called = (
            node["input"] if node.get("type") == "tool_use" and isinstance(node.get("input"), dict) else None
        )
        inner = [value for value in node.values() if value is not called]
    else:
        inner = node if isinstance(node, list) else []
    for each in inner:
        yield from _blocks(each)


def _openai_usage(event: Json, _: Json) -> Usage | None:
    """Cached tokens, read or written, are counted among the input."""
    if event.get("object") != "response":
        if event["type"] not in ("response.completed", "response.incomplete", "response.failed"):
            return None
        event = event["response"]
    data = event["usage"]
    details = data.get("input_tokens_details") or {}
    read, written = (int(details.get(name) or 0) for name in ("cached_tokens", "cache_write_tokens"))
    return Usage(max(0, int(data["input_tokens"]) - read - written), read, written, int(data["output_tokens"]))  # fmt: skip


def _openai_declined(event: Json) -> bool:
    """Codex shows an answer that is a refusal as none."""
    items = (event.get("response") or event).get("output") or []
    return any(part.get("type") == "refusal" for item in items for part in item.get("content") or [])


def _anthropic_usage(event: Json, seen: Json) -> Usage | None:
    """A stream states the input at its start, and at its end the output with the reason why it ended."""
    if event["type"] == "message":
        return _anthropic_counts(event["usage"])
    stated = event["message"]["usage"] if event["type"] == "message_start" else event["usage"]
    seen.update({name: count for name, count in stated.items() if count is not None})
    ended = event["type"] == "message_delta" and event["delta"].get("stop_reason") is not None
    return _anthropic_counts(seen) if ended else None


def _anthropic_counts(data: Json) -> Usage | None:
    return anthropic.usage_of(data) if {"input_tokens", "output_tokens"} <= data.keys() else None


OPENAI = Vendor(
    name="openai",
    base=openai.DEFAULT_BASE,
    variable="OPENAI_BASE_URL",
    asks="/responses",
    free=frozenset({"GET /models"}),
    limit="max_output_tokens",
    plain={"service_tier": "default"},
    foreign=(
        "previous_response_id",
        "conversation",
        "prompt",
        "background",
        "context_management",
        "multi_agent",
    ),
    by_reference=re.compile(
        "input_image|input_file|input_audio|item_reference|computer_screenshot|image_generation_call"
    ),
    own_tool=re.compile("function|custom|namespace|tool_search"),
    usage=_openai_usage,
    declined=_openai_declined,
    error=lambda what: {"error": {"message": what, "type": "invalid_request_error", "code": "budget"}},
)
ANTHROPIC = Vendor(
    name="anthropic",
    base=anthropic.DEFAULT_BASE,
    variable="ANTHROPIC_BASE_URL",
    asks="/v1/messages",
    free=frozenset({"GET /v1/models", "POST /v1/messages/count_tokens"}),
    limit="max_tokens",
    plain={"service_tier": "standard_only"},
    foreign=("mcp_servers", "container", "speed", "inference_geo", "fallbacks"),
    by_reference=re.compile("image|document|container_upload|tool_reference|compact_.*"),
    own_tool=re.compile("custom"),
    usage=_anthropic_usage,
    declined=lambda event: (event.get("delta") or event).get("stop_reason") == "refusal",
    error=lambda what: {"type": "error", "error": {"type": "invalid_request_error", "message": what}},
)
