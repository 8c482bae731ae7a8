"""An HTTP server on loopback between a command line program and its vendor, for the time of one call that a key pays for.

The program is pointed at it and sends its own key through it. What makes the model answer passes the meter; what is known to
be free passes; nothing else does. A secret in the path keeps other processes of this machine out.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any
from urllib.parse import SplitResult

from autoqec.agents.backends.base import Reply, Request
from autoqec.agents.backends.https import address, connect_to, shut
from autoqec.agents.backends.metering import Admitted, Meter, Reader
from autoqec.agents.backends.vendors import Refused, Vendor
from autoqec.agents.failures import RoleFailure
from autoqec.agents.prices import Prices
from autoqec.errors import Portable

_LARGEST = 64 << 20
_CONNECT_S = 30.0
_CLIENT_S = 120.0
_END_S = 5.0
_OF_A_HOP = frozenset({
    "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
    "transfer-encoding", "upgrade", "content-length",
})  # fmt: skip
_NOT_FORWARDED = _OF_A_HOP | {"host", "expect", "accept-encoding"}
_UNKNOWING = frozenset({502, 504, 520, 524})
"""Statuses of a proxy that has lost the vendor: the request may have been worked on."""


@dataclass(frozen=True)
class Line:
    """From a program to a vendor that bills it by the token. key_variable: the one of its environment that it logs in with."""

    vendor: Vendor
    key_variable: str
    base: str | None

    def check(self) -> SplitResult:
        """Where the vendor is. Raises InputError for an address that a key is not sent to."""
        vendor = self.vendor
        return address(self.base or vendor.base, variable=vendor.variable, key_variable=self.key_variable)

    def metered(
        self, request: Request, prices: Prices, ask: Callable[[str], Reply], *, turns: int | None = None
    ) -> Reply:
        """What `ask` replies, given the address of a gateway; it costs what the meter counted.

        If no request came by, the program went its own way, and what it says itself is all there is to go by.
        """
        budget = request.budget if request.capped else None
        meter = Meter(
            self.vendor, prices, budget=budget, output_tokens=request.max_output_tokens, turns=turns
        )
        try:
            with open_gateway(meter, self.check(), deadline_s=request.deadline_s) as url:
                reply = self._named(ask, url)
        except RoleFailure as failure:
            if not meter.seen:
                raise
            failure = _explained(failure, meter)
            failure.usage, failure.cost = meter.usage, meter.cost
            raise failure from None
        if not meter.seen:
            return reply
        declined = meter.declined and not reply.text.strip()
        ended = "refusal" if declined else reply.ended
        return replace(reply, usage=meter.usage, cost=meter.cost, ended=ended)

    def _named(self, ask: Callable[[str], Reply], url: str) -> Reply:
        """What `ask` replies. A failure names the vendor's address, and not that of a gateway that is gone."""
        try:
            return ask(url)
        except RoleFailure as failure:
            failure.what = failure.what.replace(url, self.base or self.vendor.base)
            raise


def _explained(failure: RoleFailure, meter: Meter) -> RoleFailure:
    """What the gateway knows better than the program that it answered."""
    if failure.kind == "deadline":
        return failure
    if meter.refused is not None:
        return RoleFailure(meter.refused.kind, str(meter.refused), reply=failure.reply)
    if meter.lost is not None:
        return RoleFailure("connection", meter.lost, reply=failure.reply)
    return failure


@contextmanager
def open_gateway(meter: Meter, upstream: SplitResult, *, deadline_s: float) -> Iterator[str]:
    """Its address, to which a program adds the paths of the vendor's API. Afterwards every connection is cut.

    Raises:
        RoleFailure: this machine has no port or no file handle for it.
    """
    try:
        server = _Gateway(meter, upstream, deadline_s)
    except OSError as error:
        raise RoleFailure("connection", f"no gateway can be opened on this machine: {error}") from error
    with server as gateway:
        thread = threading.Thread(target=gateway.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{gateway.server_address[1]}/{gateway.secret}"
        finally:
            gateway.shutdown()
            thread.join()
            gateway.cut()


class _Gateway(ThreadingTCPServer):
    """Not an HTTPServer, which asks for the name of the host when it starts."""

    daemon_threads = True

    def __init__(self, meter: Meter, upstream: SplitResult, deadline_s: float) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.meter = meter
        self.upstream = upstream
        self.deadline_s = max(0.001, deadline_s)
        self.secret = secrets.token_urlsafe(24)
        self._open: set[socket.socket] = set()
        self._over = False
        self._idle = threading.Condition()

    @contextmanager
    def holding(self, connection: socket.socket) -> Iterator[None]:
        """The connection is among those that are cut in the end."""
        with self._idle:
            if self._over:
                raise ConnectionAbortedError("the call is over")
            self._open.add(connection)
        try:
            yield
        finally:
            with self._idle:
                self._open.discard(connection)
                self._idle.notify_all()

    def cut(self) -> None:
        """Ends what is in flight. A thread that is still connecting then is not waited for long; it sends nothing any more."""
        with self._idle:
            self._over = True
            for connection in self._open:
                shut(connection)
            self._idle.wait_for(lambda: not self._open, timeout=_END_S)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A program that hangs up prints nothing on the user's terminal."""


class _Error(Portable):
    """What the program is answered instead of the vendor's response."""

    def __init__(self, status: int, what: str) -> None:
        super().__init__(what)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = _CLIENT_S
    server: _Gateway

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged: paths hold the secret."""

    def handle(self) -> None:
        with self.server.holding(self.connection):
            super().handle()

    def do_GET(self) -> None:
        self.close_connection = True
        try:
            self._serve()
        except _Error as error:
            data = json.dumps(self.server.meter.vendor.error(str(error))).encode()
            self._head(error.status, {"content-type": "application/json", "content-length": str(len(data))})
            self.wfile.write(data)

    do_POST = do_GET

    def _serve(self) -> None:
        meter, vendor = self.server.meter, self.server.meter.vendor
        data = self._body()
        target, _, query = self.path.partition("?")
        secret, _, rest = target.removeprefix("/").partition("/")
        if not secrets.compare_digest(secret.encode(), self.server.secret.encode()):
            raise _Error(404, "not here")
        path, query = f"/{rest}", f"?{query}" if query else ""
        if (self.command, path) != ("POST", vendor.asks):
            if f"{self.command} {path}" not in vendor.free:
                raise _Error(404, f"{self.command} {path} does not go through a call with a budget")
            return self._forward(path + query, data, None)
        try:
            request = meter.admit(data)
        except Refused as refusal:
            raise _Error(400, f"AutoQEC's limits for this call: {refusal}") from refusal
        try:
            return self._forward(path + query, request.data, request)
        finally:
            meter.charge(request, None)  # unless it came to its end, or never went out

    def _body(self) -> bytes:
        length = self.headers.get("content-length", "0")
        if "transfer-encoding" in self.headers or not (length.isascii() and length.isdecimal()):
            raise _Error(411, "the length of the body is needed")
        if int(length) > _LARGEST:
            raise _Error(413, f"{_LARGEST:,} bytes are the maximum")
        return self.rfile.read(int(length))

    def _forward(self, path: str, data: bytes, request: Admitted | None) -> None:
        url, meter = self.server.upstream, self.server.meter
        connection = connect_to(url, min(_CONNECT_S, self.server.deadline_s))
        with contextlib.closing(connection), contextlib.ExitStack() as held:
            try:
                connection.connect()
                held.enter_context(self.server.holding(connection.sock))
            except (OSError, http.client.HTTPException) as error:
                if request is not None:
                    meter.release(request)
                raise self._lost(error) from error
            connection.sock.settimeout(self.server.deadline_s)
            try:
                headers = _kept(self.headers, _NOT_FORWARDED)
                connection.request(self.command, f"{url.path}{path}", body=data or None, headers=headers)
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise self._lost(error) from error
            meter.lost = None
            if request is not None and response.status >= 300 and response.status not in _UNKNOWING:
                meter.release(request)  # an error status of the vendor is not charged
            if 300 <= response.status < 400:
                raise _Error(502, f"{url.netloc} sends elsewhere, and a key does not follow")
            with contextlib.suppress(http.client.HTTPException):  # the program sees the break as it is
                self._relay(response, request)

    def _lost(self, error: Exception) -> _Error:
        what = f"{self.server.upstream.netloc}: {error or type(error).__name__}"
        self.server.meter.lost = f"{self.server.meter.vendor.name} at {what}"
        return _Error(502, what)

    def _relay(self, response: http.client.HTTPResponse, request: Admitted | None) -> None:
        """Byte for byte as it comes. What it cost is known before the program has all of it."""
        headers = _kept(response.headers, _OF_A_HOP)
        whole = response.length
        headers |= {"transfer-encoding": "chunked"} if whole is None else {"content-length": str(whole)}
        self._head(response.status, headers)
        streamed = response.headers.get_content_type() == "text/event-stream"
        reader, meter = Reader(self.server.meter.vendor, streamed=streamed), self.server.meter
        while data := response.read1(1 << 16):
            if request is not None:
                usage = reader.feed(data) or (reader.end() if response.length == 0 else None)
                if usage is not None:
                    meter.charge(request, usage)
            self.wfile.write(data if whole is not None else b"%x\r\n%b\r\n" % (len(data), data))
        if response.length:
            raise http.client.IncompleteRead(b"", response.length)
        if request is not None:
            if (usage := reader.end()) is not None:
                meter.charge(request, usage)
            meter.declined = reader.declined
        if whole is None:
            self.wfile.write(b"0\r\n\r\n")

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response_only(status)
        for name, value in {**headers, "connection": "close"}.items():
            self.send_header(name, value)
        self.end_headers()


def _kept(headers: Any, dropped: frozenset[str]) -> dict[str, str]:
    named = {word.strip().lower() for word in headers.get("connection", "").split(",")}
    return {name: ", ".join(headers.get_all(name)) for name in headers if name.lower() not in dropped | named}
