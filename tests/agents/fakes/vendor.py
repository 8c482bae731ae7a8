"""A vendor on the loopback interface: real HTTP, answers from a plan, in the shapes of Anthropic and OpenAI.

Requests that stream, and those of OpenAI's Responses, are billed: an entry names the `output` tokens that the model would
write, and `input` tokens: a number, or the most that a vendor could count (a byte each, and 2,000 of its own).
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from protocols import anthropic_shape, messages_events, openai_shape, responses_events, role_of, whole_of

from autoqec.agents.prices import Prices

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
        self.bill = Fraction(0)
        """In USD, exactly."""
        self.at_risk = Fraction(0)
        """The most that was billed and could have been billed for requests in flight, at any moment."""
        self._in_flight = Fraction(0)

    def next_entry(self, body: dict[str, Any]) -> dict[str, Any]:
        entries, before = self.plan, self.asked
        if isinstance(entries, dict):
            role = role_of(body) or "other"
            entries, before = entries[role], [sent for sent in before if sent["role"] == role]
        return entries[min(len(before), len(entries) - 1)]

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The requests that have a body: those for answers."""
        return [sent for sent in self.requests if sent["body"] is not None]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    @contextmanager
    def billing(self, body: dict[str, Any], size: int, entry: dict[str, Any]) -> Iterator[dict[str, int]]:
        """The tokens of a request, which is billed in the end: before it is answered, whether the answer gets through or not."""
        price = Prices({}).need(body["model"])
        dearest = max(Fraction(str(price.input)), Fraction(str(price.cache_write or 0)))
        limit = body.get("max_output_tokens") or body.get("max_tokens") or 128_000
        most = (dearest * (size + 2_000) + Fraction(str(price.output)) * limit) / 10**6
        with self.lock:
            self._in_flight += most
            self.at_risk = max(self.at_risk, self.bill + self._in_flight)
        read = entry.get("input", 200)
        tokens = {
            "plain": 0 if read == "most" else read,
            "written": size + 2_000 if read == "most" else 0,
            "output": min(limit, entry.get("output", 300)),
        }
        try:
            yield tokens
        finally:
            cost = Fraction(str(price.input)) * tokens["plain"] + dearest * tokens["written"]
            cost += Fraction(str(price.output)) * tokens["output"]
            with self.lock:
                self._in_flight -= most
                self.bill += cost / 10**6


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

    def do_GET(self) -> None:
        with self.server.lock:
            self.server.requests.append(
                {"path": self.path, "headers": dict(self.headers), "body": None, "role": None}
            )
        self._send(200, {"data": []}, {})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["content-length"]))
        body = json.loads(data)
        path = self.path.partition("?")[0]
        with self.server.lock:
            entry = self.server.next_entry(body)
            sent = {"path": self.path, "headers": dict(self.headers), "body": body, "size": len(data)}
            self.server.requests.append({**sent, "role": role_of(body) or "other"})
        if entry["do"] == "status":
            return self._send(
                entry["status"],
                entry.get("body", {"error": {"message": entry.get("text", "no")}}),
                entry.get("headers", {}),
            )
        if path.endswith("/count_tokens"):
            return self._send(200, {"input_tokens": len(data)}, {})
        if path == "/v1/responses" or "stream" in body:
            with self.server.billing(body, len(data), entry) as tokens:
                time.sleep(entry.get("pause", 0))
            return self._answer(body, entry, tokens)
        shape = anthropic_shape if path == "/v1/messages" else openai_shape
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

    def _answer(self, body: dict[str, Any], entry: dict[str, Any], tokens: dict[str, int]) -> None:
        """As a stream in chunks, or whole. A stream that is to `break` ends after its first half."""
        truncated = tokens["output"] < entry.get("output", 300)
        make = responses_events if self.path.startswith("/v1/responses") else messages_events
        events = make(body, entry, tokens, truncated)
        if not body.get("stream"):
            return self._send(200, whole_of(events), {})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        broken = entry["do"] == "break"
        with contextlib.suppress(OSError):  # the client had enough
            for event in events[: len(events) // 2] if broken else events:
                text = f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()
                for part in (text[:20], text[20:]):  # a line may come in pieces
                    self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
                    self.wfile.flush()
            time.sleep(entry.get("hang", 0))
            if not broken:
                self.wfile.write(b"0\r\n\r\n")
        self.close_connection = True
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
