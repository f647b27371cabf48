"""Headless Chromium, controlled through its debugging pipe."""

import base64
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--remote-debugging-pipe", "--mute-audio"),
)
# The browser reads commands from descriptor 3 and answers on 4; 60 and 61 are used in
# between, because the pipe's own descriptors may be 3 and 4.
LAUNCH = """
import os, sys
reads, writes = (os.dup2(int(fd), place) for fd, place in zip(sys.argv[1:3], (60, 61)))
os.dup2(reads, 3), os.dup2(writes, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def executable() -> str | None:
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One page at a time."""

    def __init__(self, profile: Path) -> None:
        reads, self._commands = os.pipe()
        self._answers, writes = os.pipe()
        words = [executable(), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(reads), str(writes), *words],
            pass_fds=(reads, writes),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(reads)
        os.close(writes)
        self._number, self._buffer, self._session = 0, b"", None
        self.complaints: list[str] = []
        """Errors, warnings and exceptions of the page."""
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")

    def open(self, page: Path, width: int = 1280, height: int = 900) -> None:
        """Waits until it is loaded and drawn."""
        self.resize(width, height)
        self.complaints.clear()
        self._ask("Page.navigate", url=page.absolute().as_uri())
        while self._message().get("method") != "Page.loadEventFired":
            pass
        self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")

    def resize(self, width: int, height: int, dark: bool = False) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        self._ask("Emulation.setDeviceMetricsOverride", mobile=width < 600, **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, code: str) -> Any:
        """The value of an expression in the page."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self._ask("Runtime.evaluate", expression=code, **options)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def type(self, text: str) -> None:
        self._ask("Input.insertText", text=text)

    def mouse(self, kind: str, x: float, y: float, clicks: int = 1) -> None:
        """`kind` is mousePressed, mouseMoved or mouseReleased."""
        button = {"button": "left", "buttons": 1, "clickCount": clicks}
        held = button if kind != "mouseMoved" else {}
        self._ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, **held)

    def click(self, selector: str) -> None:
        x, y = self.centre(selector)
        self.mouse("mousePressed", x, y)
        self.mouse("mouseReleased", x, y)

    def centre(self, selector: str) -> tuple[float, float]:
        """Of an element, after scrolling to it."""
        code = f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{block: "center", inline: "center"}});
            const box = node.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()"""
        x, y = self.run(code)
        return x, y

    def screenshot(self, file: Path, whole: bool = False) -> None:
        answer = self._ask("Page.captureScreenshot", captureBeyondViewport=whole)
        file.write_bytes(base64.b64decode(answer["data"]))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._commands)
        os.close(self._answers)

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": params}
        if self._session:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while (answer := self._message()).get("id") != self._number:
            pass
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _message(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            piece = os.read(self._answers, 1 << 16)
            assert piece, "the browser has ended"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        self._note(message)
        return message

    def _note(self, message: dict[str, Any]) -> None:
        """Keeps the errors, warnings and exceptions of the page."""
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded":
            self.complaints.append(str(params["entry"]))
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(params["args"]))
