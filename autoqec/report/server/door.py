"""Who may come in: requests by a name of this server, and with its token where it has one.

A page of somebody else that had its name point to this machine would send that name: it is refused. Where a server listens on all
addresses, and goes by names that it does not know, the token alone decides: a browser keeps it for the name that it was given to.
"""

from __future__ import annotations

import hmac
from typing import Any
from urllib.parse import parse_qs, urlencode

COOKIE = "autoqec_token"
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Door:
    """ASGI middleware. A right token in the address becomes a cookie, so that it does not stay in the address."""

    def __init__(self, app: Any, hosts: frozenset[str] | None, token: str | None) -> None:
        self._app, self._hosts, self._token = app, hosts, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        name = host_of(headers.get(b"host", b"").decode("latin-1"))
        if self._hosts is not None and name not in self._hosts:
            await _answer(send, 421, b"This server does not go by that name.\n")
        elif self._token is None or _is_right(_cookie(headers), self._token):
            await self._app(scope, receive, _with_headers(send))
        elif _is_right(_asked(scope), self._token):
            await _answer(send, 303, b"", (b"location", _without_token(scope)), (b"set-cookie", self._made()))
        else:
            await _answer(send, 401, b"Open the address that autoqec serve printed: it has a token.\n")

    def _made(self) -> bytes:
        return f"{COOKIE}={self._token}; Path=/; HttpOnly; SameSite=Strict".encode()


def host_of(header: str) -> str:
    """The name in a Host header, without its port."""
    if header.startswith("["):
        return header.partition("]")[0].removeprefix("[").lower()
    return header.partition(":")[0].lower()


def _is_right(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())


def _cookie(headers: dict[bytes, bytes]) -> str:
    for part in headers.get(b"cookie", b"").decode("latin-1").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def _asked(scope: Any) -> str:
    return str(parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0])


def _without_token(scope: Any) -> bytes:
    rest = {k: v for k, v in parse_qs(scope["query_string"].decode("latin-1")).items() if k != "token"}
    path: str = "/" + scope["path"].lstrip("/\\")
    return (path + (f"?{urlencode(rest, doseq=True)}" if rest else "")).encode("ascii", "ignore")


def _with_headers(send: Any) -> Any:
    async def sending(message: Any) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *_HEADERS]}
        await send(message)

    return sending


async def _answer(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    told = [(b"content-type", b"text/plain; charset=utf-8"), *_HEADERS, *headers]
    await send({"type": "http.response.start", "status": status, "headers": told})
    await send({"type": "http.response.body", "body": body})
