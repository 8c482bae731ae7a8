"""A vendor on the loopback interface: real HTTP, answers from a plan, in the shapes of Anthropic and OpenAI."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Plan = list[dict[str, Any]] | dict[str, list[dict[str, Any]]]
"""Entries for all requests, or for those of each role."""


class Vendor(ThreadingHTTPServer):
    """Each request takes the next entry of the plan, and the last one from then on."""

    daemon_threads = True

    def __init__(self, plan: Plan) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.plan = plan
        self.requests: list[dict[str, Any]] = []
        self.lock = threading.Lock()

    def next_entry(self, body: dict[str, Any]) -> dict[str, Any]:
        entries, before = self.plan, len(self.requests)
        if isinstance(entries, dict):
            role = role_of(body)
            entries, before = entries[role], sum(role_of(sent["body"]) == role for sent in self.requests)
        return entries[min(before, len(entries) - 1)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


@contextmanager
def serving(plan: Plan) -> Iterator[Vendor]:
    with Vendor(plan) as vendor:
        threading.Thread(target=vendor.serve_forever, args=(0.02,), daemon=True).start()
        yield vendor
        vendor.shutdown()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Vendor

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            entry = self.server.next_entry(body)
            self.server.requests.append({"path": self.path, "headers": dict(self.headers), "body": body})
        if entry["do"] == "status":
            return self._send(
                entry["status"],
                entry.get("body", {"error": {"message": entry.get("text", "no")}}),
                entry.get("headers", {}),
            )
        shape = anthropic_shape if self.path == "/v1/messages" else openai_shape
        data = json.dumps(shape(body["model"], entry)).encode()
        if entry["do"] == "cut":
            self._head(200, len(data) + 400)
            self.wfile.write(data)
            self.wfile.flush()
            self.close_connection = True
            return None
        if entry["do"] == "drip":
            self._head(200, len(data))
            with contextlib.suppress(OSError):  # the client had enough
                for at in range(len(data)):
                    self.wfile.write(data[at : at + 1])
                    self.wfile.flush()
                    time.sleep(entry["pause"])
            return None
        if entry["do"] == "garbage":
            data = b"<html>gateway</html>"
        self._head(200, len(data))
        self.wfile.write(data)
        return None

    def _send(self, status: int, body: Any, headers: dict[str, str]) -> None:
        data = json.dumps(body).encode()
        self._head(status, len(data), headers)
        self.wfile.write(data)

    def _head(self, status: int, length: int, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {
            "content-type": "application/json",
            "content-length": str(length),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()


def role_of(body: dict[str, Any]) -> str:
    """Whose system prompt a request has."""
    system = body.get("system") or body["messages"][0]["content"]
    return next(role for role in ("ideator", "coder", "analyst") if f"You are the {role.title()}" in system)


def anthropic_shape(model: str, entry: dict[str, Any]) -> dict[str, Any]:
    text = entry["text"] if "text" in entry else json.dumps(entry.get("answer"))
    stop = {"refusal": "refusal", "truncated": "max_tokens"}.get(entry["do"], "end_turn")
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "thinking", "thinking": "..."}, {"type": "text", "text": text}],
        "stop_reason": stop,
        "usage": entry.get("usage", {"input_tokens": 4000, "output_tokens": 300}),
    }


def openai_shape(model: str, entry: dict[str, Any]) -> dict[str, Any]:
    text = entry["text"] if "text" in entry else json.dumps(entry.get("answer"))
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
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
