"""A real Chromium for tests, driven by its debugging protocol."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from websockets.sync.client import ClientConnection, connect

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PATIENCE_S = 60.0


class Browser:
    """A tab of the browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.numbers = itertools.count(1)
        self.said: list[str] = []

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; what the pages complain about meanwhile is kept in `said`."""
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            answer = json.loads(self.socket.recv(timeout=PATIENCE_S))
            if answer.get("method") == "Log.entryAdded":
                self.said.append(answer["params"]["entry"]["text"])
            if answer.get("id") == number:
                assert "error" not in answer, answer["error"]
                return dict(answer["result"])

    def open(self, address: str, *, wide: int = 1280, high: int = 900, dark: bool = False) -> None:
        """Open an address in a window of a size, and wait until it is loaded."""
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.ask(f"{domain}.enable")
        self.ask("Emulation.setDeviceMetricsOverride", width=wide, height=high, deviceScaleFactor=1, mobile=False)
        theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.ask("Emulation.setEmulatedMedia", features=theme)
        self.ask("Page.navigate", url=address)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'")

    def evaluate(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def fill(self, field: str, text: str, within: str = "document") -> None:
        """Write into the field that a CSS selector finds in a document, as a user does; the page hears of it."""
        self.wait(f"{within}?.querySelector({json.dumps(field)})")
        self.evaluate(
            f"(field => {{ Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, "
            f"{json.dumps(text)}); field.dispatchEvent(new Event('input', {{bubbles: true}})); }})"
            f"({within}.querySelector({json.dumps(field)}))"
        )

    def click(self, element: str, within: str = "document") -> None:
        """Click what a CSS selector finds in a document, as soon as it is there and can be clicked."""
        found = f"{within}?.querySelector({json.dumps(element)})"
        self.wait(f"{found} && !{found}.disabled")
        self.evaluate(f"{found}.click()")

    def wait(self, script: str) -> None:
        """Wait until an expression in the page is true."""
        until = time.monotonic() + PATIENCE_S
        while not self._holds(script):
            assert time.monotonic() < until, f"{script} has not come true: {self.evaluate('document.body.innerText')}"
            time.sleep(0.2)

    def _holds(self, script: str) -> bool:
        try:
            return bool(self.evaluate(f"Boolean({script})"))
        except AssertionError as error:
            if "navigated" in str(error):  # the page gave way to the next one meanwhile
                return False
            raise

    def picture(self, path: Path) -> None:
        """Write what the window shows to a PNG file."""
        path.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png")["data"]))


@contextmanager
def browser(folder: Path, hosts: str) -> Iterator[Browser]:
    """Start Chromium with a profile of its own; `hosts` are rules by which it finds addresses."""
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"]
    command += ["--remote-debugging-port=0", f"--user-data-dir={folder}", f"--host-resolver-rules={hosts}"]
    process = subprocess.Popen([*command, "about:blank"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        port = _until(lambda: (folder / "DevToolsActivePort").read_text().splitlines()[0])
        with urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            page = next(one for one in json.load(answer) if one["type"] == "page")
        with connect(page["webSocketDebuggerUrl"], max_size=None, open_timeout=PATIENCE_S) as socket:
            yield Browser(socket)
    finally:
        process.terminate()
        process.wait()


def _until(read: Callable[[], str]) -> str:
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        with suppress(OSError, IndexError):
            return read()
        time.sleep(0.1)
    raise AssertionError("Chromium has not started")
