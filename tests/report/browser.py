"""A headless Chromium, driven over the WebDriver protocol by chromedriver, which comes with it."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

MISSING = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"


_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Browser:
    """A browser of its own, with an empty profile. Its window is `width` x `height` pixels."""

    def __init__(self, width: int = 1200, height: int = 900) -> None:
        self._size = width, height

    def __enter__(self) -> Self:
        self._profile = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._driver.stdout is not None
        port = next(
            found[1]
            for line in self._driver.stdout
            if (found := re.search(r"successfully on port (\d+)", line))
        )
        self._root = f"http://127.0.0.1:{port}"
        options = {
            "args": [*_FLAGS, f"--user-data-dir={self._profile.name}"],
            "binary": shutil.which("chromium"),
        }
        wanted = {
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        made = self._call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"
        self.resize(*self._size)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._call("DELETE", self._session)
        finally:
            self._driver.terminate()
            self._driver.wait()
            self._profile.cleanup()

    def resize(self, width: int, height: int) -> None:
        facts = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.cdp("Emulation.setDeviceMetricsOverride", **facts)

    def open(self, url: str) -> None:
        self._post("/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """The value of a script's `return`."""
        return self._post("/execute/sync", {"script": script, "args": list(arguments)})

    def later(self, script: str, *arguments: Any) -> Any:
        """What a script hands to its last argument, a function."""
        return self._post("/execute/async", {"script": script, "args": list(arguments)})

    def until(
        self,
        script: str,
        is_right: Callable[[Any], bool] = bool,
        *,
        during: subprocess.Popen[bytes] | None = None,
    ) -> Any:
        """The script's value as soon as it is right. during: a process; it may be wrong as long as that one goes on."""
        left = 400
        while left:
            value = self.run(script)
            if is_right(value):
                return value
            self.later("const done = arguments[0]; setTimeout(done, 50)")
            left -= during is None or during.poll() is not None
        raise AssertionError(f"{script} stays {value!r}")

    def hover(self, selector: str) -> None:
        """Moves the mouse there."""
        element = self._post("/element", {"using": "css selector", "value": selector})
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        move = {"type": "pointerMove", "duration": 0, "origin": {_ELEMENT: element[_ELEMENT]}, "x": 0, "y": 0}
        source = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [move]}
        self._post("/actions", {"actions": [source]})

    def press(self, keys: str) -> None:
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def type(self, selector: str, text: str) -> None:
        element = self._post("/element", {"using": "css selector", "value": selector})
        self._post(f"/element/{element[_ELEMENT]}/value", {"text": text})

    def click(self, selector: str) -> None:
        element = self._post("/element", {"using": "css selector", "value": selector})
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", element)
        self._post(f"/element/{element[_ELEMENT]}/click", {})

    def complaints(self) -> list[str]:
        """What stands in the console since the last call."""
        return [str(entry["message"]) for entry in self._post("/se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Addresses that the page asked for since the last call."""
        entries = self._post("/se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        return [
            str(event["params"]["request"]["url"])
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]

    def cdp(self, method: str, **parameters: Any) -> Any:
        return self._post("/goog/cdp/execute", {"cmd": method, "params": parameters})

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._call("GET", f"{self._session}/screenshot")))

    def _post(self, path: str, value: Any) -> Any:
        return self._call("POST", self._session + path, value)

    def _call(self, method: str, path: str, value: Any = None) -> Any:
        data = None if value is None else json.dumps(value).encode()
        request = urllib.request.Request(self._root + path, data=data, method=method)
        try:
            with _DIRECT.open(request, timeout=300) as answer:
                return json.loads(answer.read())["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.loads(error.read())["value"]["message"]) from None
