"""Answers in the words of the three APIs: Anthropic's Messages, OpenAI's Responses and chat completions.

An entry says what the model does: {"do": "answer", "answer": {...}}, "text", "call" (a tool: `name`, `given`), "refusal",
"truncated", "failed" (`code`, `text`: the vendor breaks off and says why).
"""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
PLAIN = 'so "usage" is'


def said(entry: Json) -> str:
    return (
        str(entry["text"]) if "text" in entry else json.dumps(entry["answer"]) if "answer" in entry else PLAIN
    )


def role_of(body: Json) -> str | None:
    """Whose prompt a request has, wherever it stands; None for a request that is not a role's."""
    places = [body.get(name) for name in ("system", "instructions", "messages", "input")]
    text = json.dumps([place for place in places if place])
    return next(
        (role for role in ("ideator", "coder", "analyst") if f"You are the {role.title()} of" in text), None
    )


# Messages


def messages_events(body: Json, entry: Json, tokens: dict[str, int], truncated: bool) -> list[Json]:
    read = {
        "input_tokens": tokens["plain"],
        "cache_creation_input_tokens": tokens["written"],
        "cache_read_input_tokens": 0,
    }
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"], "content": []}
    begun = {**message, "stop_reason": None, "stop_sequence": None, "usage": {**read, "output_tokens": 1}}
    block, delta, stop = _messages_block(body, entry)
    stop = "max_tokens" if truncated else stop
    events: list[Json] = [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
    ]
    if entry["do"] == "failed":
        return [*events, {"type": "error", "error": {"type": entry["code"], "message": entry["text"]}}]
    return [
        *events,
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": {"output_tokens": tokens["output"]},
        },
        {"type": "message_stop"},
    ]


def _messages_block(body: Json, entry: Json) -> tuple[Json, Json, str]:
    """A block at its start, what is added to it, and why the message ends. Claude Code is answered through a tool."""
    tools = {tool.get("name") for tool in body.get("tools") or []}
    name, given = entry.get("name"), entry.get("given")
    if entry["do"] == "answer" and "answer" in entry and "StructuredOutput" in tools:
        name, given = "StructuredOutput", entry["answer"]
    if name is not None:
        number = sum(len(message["content"]) for message in body["messages"])
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        return block, {"type": "input_json_delta", "partial_json": json.dumps(given)}, "tool_use"
    stops = {"refusal": "refusal", "truncated": "max_tokens"}
    text = {"type": "text_delta", "text": said(entry)}
    return {"type": "text", "text": ""}, text, stops.get(entry["do"], "end_turn")


def anthropic_shape(model: str, entry: Json) -> Json:
    stop = {"refusal": "refusal", "truncated": "max_tokens"}.get(entry["do"], "end_turn")
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "thinking", "thinking": "..."}, {"type": "text", "text": said(entry)}],
        "stop_reason": stop,
        "usage": entry.get("usage", {"input_tokens": 4000, "output_tokens": 300}),
    }


# Responses


def responses_events(body: Json, entry: Json, tokens: dict[str, int], truncated: bool) -> list[Json]:
    usage = {
        "input_tokens": tokens["plain"] + tokens["written"],
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": tokens["written"]},
        "output_tokens": tokens["output"],
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": sum(tokens.values()),
    }
    begun = {"id": "resp_1", "object": "response", "model": body["model"], "usage": None}
    status, more = "completed", {}
    if truncated or entry["do"] == "truncated":
        status, more = "incomplete", {"incomplete_details": {"reason": "max_output_tokens"}}
    if entry["do"] == "failed":
        status, more = "failed", {"error": {"code": entry["code"], "message": entry["text"]}}
    item = _responses_item(body, entry)
    return [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "item_id": "i", "delta": said(entry)},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": f"response.{status}", "response": {**begun, "status": status, "output": [item], "usage": usage, **more}},
    ]  # fmt: skip


def _responses_item(body: Json, entry: Json) -> Json:
    if entry["do"] == "call":
        call = {
            "id": "i",
            "call_id": f"call_{len(body['input'])}",
            "name": entry["name"],
            "status": "completed",
        }
        if isinstance(entry["given"], str):
            return {"type": "custom_tool_call", **call, "input": entry["given"]}
        return {"type": "function_call", **call, "arguments": json.dumps(entry["given"])}
    content = {"type": "output_text", "text": said(entry), "annotations": []}
    if entry["do"] == "refusal":
        content = {"type": "refusal", "refusal": said(entry)}
    return {"type": "message", "id": "i", "role": "assistant", "status": "completed", "content": [content]}


# Both, without a stream; chat completions


def whole_of(events: list[Json]) -> Json:
    """The answer of a request that does not stream."""
    if "response" in events[-1]:
        return dict(events[-1]["response"])
    started, begun, added, _, ended, _ = events
    block, delta = dict(begun["content_block"]), added["delta"]
    block |= {"text": delta["text"]} if "text" in delta else {"input": json.loads(delta["partial_json"])}
    usage = {**started["message"]["usage"], **ended["usage"]}
    return {
        **started["message"],
        "content": [block],
        "stop_reason": ended["delta"]["stop_reason"],
        "usage": usage,
    }


def openai_shape(model: str, entry: Json) -> Json:
    message: Json = {"role": "assistant", "content": said(entry), "refusal": None}
    if entry["do"] == "refusal":
        message = {"role": "assistant", "content": None, "refusal": "I cannot do that."}
    finish = {"truncated": "length"}.get(entry["do"], "stop")
    usage = {
        "prompt_tokens": 4000,
        "completion_tokens": 300,
        "prompt_tokens_details": {"cached_tokens": 1000},
    }
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": entry.get("usage", usage),
    }
