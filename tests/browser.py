"""A headless Chromium, driven through the DevTools protocol over a pipe.

https://chromedevtools.github.io/devtools-protocol/ · the pipe: messages of JSON, each ended by NUL, on
the browser's file descriptors 3 and 4.
"""

import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
import zlib
from base64 import b64decode
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--remote-debugging-pipe",
)
_SECONDS = 60


def chromium() -> str:
    """The browser's path; skips the test where there is none."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("Chromium is not installed (Debian: apt-get install chromium)")
    return found


class Browser:
    """One page of a browser of its own, which ends with the `with` block.

    `requests` are the URLs that the page asked for, `complaints` what it wrote to the console, threw, or
    was refused by its policy."""

    def __init__(self, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._loaded = False
        self._number = 0
        self._received = b""
        self._profile = tempfile.mkdtemp(prefix="trajlog-chromium-")
        theirs_in, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (theirs_in, theirs_out)]
        self._process = subprocess.Popen(
            [chromium(), *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            preexec_fn=lambda: [os.dup2(end, number) for end, number in zip(ends, (3, 4), strict=True)],
            pass_fds=(3, 4),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (theirs_in, theirs_out, *ends):
            os.close(end)
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.resize(width, height)
        self.dark(dark)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._call("Browser.close")
            self._process.wait(_SECONDS)
        except (OSError, TimeoutError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def resize(self, width: int, height: int) -> None:
        """Make the page so large; under 600 pixels it is a phone."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def dark(self, on: bool) -> None:
        """What the system prefers."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def scripts(self, on: bool) -> None:
        """Let pages run scripts, or not."""
        self.call("Emulation.setScriptExecutionDisabled", value=not on)

    def open(self, page: Path, fragment: str = "") -> None:
        """Load a file, to its end."""
        self._loaded = False
        self.call("Page.navigate", url=page.absolute().as_uri() + fragment)
        deadline = time.monotonic() + _SECONDS
        while not self._loaded:
            self._receive(deadline)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives in the page (it works where the page itself may not)."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def box(self, selector: str) -> tuple[float, ...]:
        """Where an element is in the window: left, top, width, height."""
        return self.boxes(selector)[0]

    def boxes(self, *selectors: str) -> list[tuple[float, ...]]:
        """The same of several, at one moment."""
        boxes = "document.querySelector(one).getBoundingClientRect().toJSON()"
        found = self.value(f"{json.dumps(selectors)}.map((one) => {boxes})")
        return [(box["x"], box["y"], box["width"], box["height"]) for box in found]

    def scroll_to(self, selector: str) -> None:
        """Bring an element to the middle of the window, and wait until it is drawn there."""
        for _ in range(3):
            self.value(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{block: 'center'}})")
            time.sleep(0.03)  # a frame or two; with scripts off the page cannot tell

    def shown(self, selector: str) -> bool:
        """Whether an element is neither hidden nor folded away."""
        return bool(self.value(f"document.querySelector({json.dumps(selector)}).checkVisibility()"))

    def pixel(self, x: float, y: float) -> list[int]:
        """The colour at a place of the window: red, green, blue."""
        across, down = self.value("[scrollX, scrollY]")
        clip = {"x": x + across, "y": y + down, "width": 1, "height": 1, "scale": 1}
        data = b64decode(self.call("Page.captureScreenshot", format="png", clip=clip)["data"])
        at, pixels = 8, b""
        while at < len(data):
            size = int.from_bytes(data[at : at + 4])
            if data[at + 4 : at + 8] == b"IDAT":
                pixels += data[at + 8 : at + 8 + size]
            at += 12 + size
        return list(zlib.decompress(pixels)[1:4])

    def click(self, selector: str) -> None:
        """Scroll to an element and click its middle with the mouse."""
        self.scroll_to(selector)
        x, y, width, height = self.box(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x + min(width / 2, 40),
                y=y + min(height / 2, 10),
                button="left",
                clickCount=1,
            )

    def press(self, key: str) -> None:
        """Press a key that writes a character."""
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def call(self, method: str, **parameters: Any) -> Any:
        """A command to the page."""
        return self._call(method, self._session, **parameters)

    def _call(self, method: str, session: str | None = None, **parameters: Any) -> Any:
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _SECONDS
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._received:
            if not select.select([self._from], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            read = os.read(self._from, 1 << 20)
            if not read:
                raise TimeoutError("the browser ended")
            self._received += read
        line, _, self._received = self._received.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, told: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            url = told["request"]["url"]
            if not url.startswith("data:"):
                self.requests.append(url)
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(told["exceptionDetails"]["text"])
        elif method == "Runtime.consoleAPICalled":
            self.complaints.append(str(told["args"]))
