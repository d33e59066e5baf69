"""A headless Chromium, driven over a pipe by the DevTools protocol: pages, mouse, screenshots."""
from __future__ import annotations

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Sequence

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


class Chromium:
    """One browser with one page. A profile of its own lies in a folder."""

    def __init__(self, profile: Path):
        assert CHROMIUM is not None
        commands, answers = os.pipe(), os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (commands[0], answers[1])]

        def begin() -> None:                             # the browser reads commands from its fd 3 and answers on fd 4
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
                 "--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self.process = subprocess.Popen([CHROMIUM, *flags, "about:blank"], pass_fds=(3, 4), preexec_fn=begin,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        env={**os.environ, "HOME": str(profile)})
        for fd in (commands[0], answers[1], *high):
            os.close(fd)
        self.to, self.back = os.fdopen(commands[1], "wb"), answers[0]
        self.number, self.read, self.session = 0, b"", ""
        (page,) = (t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]

    def call(self, method: str, **params: Any) -> Any:
        """What a command answers."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **({"sessionId": self.session} if self.session
                                                                             else {})}
        self.to.write(json.dumps(message).encode() + b"\0")
        self.to.flush()
        while True:
            while b"\0" not in self.read:
                got = os.read(self.back, 1 << 16)
                if not got:
                    raise RuntimeError(f"the browser ended in {method}")
                self.read += got
            text, _, self.read = self.read.partition(b"\0")
            answer = json.loads(text)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def evaluate(self, code: str) -> Any:
        """The value of an expression in the page; a promise is waited for."""
        found = self.call("Runtime.evaluate", expression=code, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(json.dumps(found["exceptionDetails"])[:2000])
        return found["result"].get("value")

    def visit(self, address: str, until: str, seconds: float = 30) -> None:
        """Go to a page and wait for a condition."""
        self.call("Page.navigate", url=address)
        end = time.monotonic() + seconds
        while not self.evaluate(until):
            if time.monotonic() > end:
                raise TimeoutError(f"{address}: not {until}: {self.evaluate('document.body.innerText')}")
            time.sleep(0.05)

    def stroke(self, points: Sequence[tuple[float, float]]) -> None:
        """Draw with the mouse."""
        kinds = ["mousePressed", *["mouseMoved"] * (len(points) - 1)]
        for kind, (x, y) in [*zip(kinds, points), ("mouseReleased", points[-1])]:
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=1, clickCount=1)

    def screenshot(self, path: Path) -> None:
        """An image of the page."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self) -> None:
        """End the browser."""
        try:
            self.session = ""
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)
        self.to.close()
        os.close(self.back)
