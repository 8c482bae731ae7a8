"""A server process of `autoqec serve`, and what a client asks it."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path


class Server:
    """A server process."""

    def __init__(self, folder: Path, *options: str, **variables: str) -> None:
        words = [sys.executable, "-m", "autoqec", "serve", str(folder), "--port", "0", *options]
        self.process = subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **variables},
        )
        assert self.process.stdout is not None
        self.said = self.process.stdout.readline()
        found = re.search(r"http://([\d.]+):(\d+)/(?:\?token=(\S+))?", self.said)
        assert found, self.said
        self.host, self.port, self.token = found[1], int(found[2]), found[3]

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        connection.putrequest(method, path, skip_host="Host" in headers)
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body

    def events(self, path: str) -> Iterator[str]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=120)
        connection.request("GET", path)
        answer = connection.getresponse()
        for line in answer:
            text = line.decode().strip()
            if text.startswith("event:"):
                yield text.removeprefix("event: ")
        connection.close()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
