"""One JSON request over HTTPS with a deadline for the whole of it, which httpx has for each read alone; by the standard library."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from ipaddress import ip_address
from time import time
from typing import Any
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from autoqec.agents.backends.complaints import hint_for, kind_of
from autoqec.agents.failures import RoleFailure
from autoqec.errors import InputError

_LARGEST = 8 << 20


@dataclass(frozen=True)
class Endpoint:
    """Where requests go. A key is sent over HTTPS, or to this machine; headers are never part of an error."""

    url: SplitResult
    headers: Mapping[str, str]
    vendor: str
    key_variable: str

    @classmethod
    def at(
        cls, base: str, headers: Mapping[str, str], *, vendor: str, variable: str, key_variable: str
    ) -> Endpoint:
        url = address(base, variable=variable, key_variable=key_variable if headers else None)
        return cls(url, headers, vendor, key_variable)

    def post(self, path: str, body: Mapping[str, Any], *, deadline_s: float) -> dict[str, Any]:
        """The JSON object that the server answers.

        Raises:
            RoleFailure: an error status, a broken or late answer. An error status is not charged; an answer that breaks
                off may have been.
        """
        data = json.dumps(body).encode()
        headers = {
            "content-type": "application/json",
            "accept": "application/json",
            "user-agent": "autoqec",
            **self.headers,
        }
        try:
            with self._connection(deadline_s) as connection:
                connection.request("POST", f"{self.url.path}{path}", body=data, headers=headers)
                response = connection.getresponse()
                content = response.read(_LARGEST)
                if response.status != 200:
                    raise self._refusal(response.status, dict(response.headers.items()), content)
                if response.length:
                    raise http.client.IncompleteRead(content, response.length)
            answer = json.loads(content)
        except TimeoutError:
            raise RoleFailure(
                "deadline", f"{self.vendor}: no answer within {deadline_s:.0f} s", charged=True
            ) from None
        except (OSError, http.client.HTTPException) as error:
            reached = not isinstance(error, ConnectionRefusedError | socket.gaierror)
            name = type(error).__name__
            raise RoleFailure(
                "connection", f"{self.vendor} at {self.url.netloc}: {error or name}", charged=reached
            ) from error
        except ValueError as error:
            raise RoleFailure(
                "connection", f"{self.vendor}: the body of the answer is not JSON", charged=True
            ) from error
        if not isinstance(answer, dict):
            raise RoleFailure("connection", f"{self.vendor}: the answer is not an object", charged=True)
        return answer

    @contextmanager
    def _connection(self, deadline_s: float) -> Iterator[http.client.HTTPConnection]:
        """A connection that is cut at the deadline, whatever it is doing then: a server may send a byte a minute."""
        connection = connect_to(self.url, max(0.001, deadline_s))
        late = threading.Event()

        def cut() -> None:
            late.set()
            if connection.sock is not None:
                shut(connection.sock)

        timer = threading.Timer(deadline_s, cut)
        timer.daemon = True
        timer.start()
        try:
            yield connection
        except RoleFailure:
            raise
        except Exception:
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            timer.cancel()
            connection.close()

    def _refusal(self, status: int, headers: Mapping[str, str], content: bytes) -> RoleFailure:
        text = f"{self.vendor} answers {status}: {_error_text(content)}"
        kind = kind_of(text, status)
        hint = hint_for(kind, f"check {self.key_variable}")
        return RoleFailure(kind, text, hint=hint, retry_after_s=_retry_after(headers))


def address(base: str, *, variable: str, key_variable: str | None) -> SplitResult:
    """Of an API. variable: the one that names it. key_variable: whose key is sent there, if one is."""
    try:
        url = urlsplit(base.rstrip("/"))
        sound = url.scheme in ("http", "https") and url.hostname and url.port != 0
    except ValueError:  # a port or a bracket that is none
        sound = False
    if not sound or url.username or url.password:
        raise InputError(
            f"{base!r} is not the address of an API",
            where=variable,
            hint="expected https://host[:port][/path]",
        )
    if url.scheme == "http" and key_variable is not None and not _is_this_machine(url.hostname or ""):
        raise InputError(
            f"{base!r} would send the key of {key_variable} over an open connection",
            where=variable,
            hint=f"use https, or unset {key_variable} for a server that needs none",
        )
    return url


def connect_to(url: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    """To the server itself or, for HTTPS, through the proxy of the environment. Nothing is sent yet."""
    host, port = url.hostname or "", url.port
    if url.scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=timeout_s)
    proxy = None if proxy_bypass(host) else getproxies().get("https")
    if proxy is None:
        return http.client.HTTPSConnection(host, port, timeout=timeout_s)
    via = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    connection = http.client.HTTPSConnection(via.hostname or "", via.port or 80, timeout=timeout_s)
    login = b64encode(f"{via.username}:{via.password or ''}".encode()).decode() if via.username else None
    connection.set_tunnel(host, port or 443, {"proxy-authorization": f"Basic {login}"} if login else None)
    return connection


def shut(connection: socket.socket) -> None:
    """Ends it, from any thread. By the method of a TLS socket, another thread that is sending would go on in plain text."""
    with contextlib.suppress(OSError):
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


def _error_text(content: bytes) -> str:
    """The message of the usual error bodies, or the beginning of whatever it is."""
    try:
        error = json.loads(content)["error"]
        text = error["message"] if isinstance(error, dict) else str(error)
        if isinstance(error, dict) and isinstance(error.get("code"), str):
            text = f"{text} ({error['code']})"
    except (ValueError, LookupError, TypeError):
        text = content.decode(errors="replace")
    return " ".join(str(text).split())[:300]


def _retry_after(headers: Mapping[str, str]) -> float | None:
    headers = {name.lower(): value for name, value in headers.items()}
    if (milliseconds := headers.get("retry-after-ms")) is not None:
        with contextlib.suppress(ValueError):
            return max(0.0, float(milliseconds) / 1000)
    value = headers.get("retry-after")
    if value is None:
        return None
    with contextlib.suppress(ValueError):
        return max(0.0, float(value))
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, parsedate_to_datetime(value).timestamp() - time())
    return None


def _is_this_machine(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
