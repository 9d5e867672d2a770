# SPDX-License-Identifier: MIT
"""A headless Chromium for tests, driven through chromedriver by the WebDriver protocol (W3C, plain HTTP and JSON)."""

import base64
import contextlib
import json
import pathlib
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEYS = {"Enter": "\ue007", "ArrowRight": "\ue014", "ArrowLeft": "\ue012", "Tab": "\ue004"}
MISSING = "no Chromium to test the report in; on Debian: apt-get install chromium chromium-driver"


def programs() -> tuple[str, str] | None:
    """Chromium and its driver, or None where either is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    return None if browser is None or driver is None else (browser, driver)


class Browser:
    """One window. Every call is a request to the driver; an error of the driver is an error here."""

    def __init__(self, port: int, session: str):
        self.base = f"http://127.0.0.1:{port}/session/{session}"

    def open(self, path: pathlib.Path) -> None:
        call("POST", f"{self.base}/url", {"url": path.as_uri()})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a JavaScript function returns."""
        return call("POST", f"{self.base}/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector: str) -> str:
        return call("POST", f"{self.base}/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        call("POST", f"{self.base}/element/{self.find(selector)}/click", {})

    def type(self, selector: str, *keys: str) -> None:
        text = "".join(KEYS.get(key, key) for key in keys)
        call("POST", f"{self.base}/element/{self.find(selector)}/value", {"text": text})

    def resize(self, width: int, height: int) -> None:
        self.command(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    def command(self, name: str, **parameters: Any) -> Any:
        """A command of Chromium's own protocol."""
        return call("POST", f"{self.base}/goog/cdp/execute", {"cmd": name, "params": parameters})

    def screenshot(self, path: pathlib.Path) -> None:
        """The whole page as a PNG."""
        picture = self.command("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(picture["data"]))

    def console(self) -> list[dict[str, Any]]:
        """Messages of the console since the last call."""
        return call("POST", f"{self.base}/se/log", {"type": "browser"})


@contextlib.contextmanager
def headless(folder: pathlib.Path) -> Iterator[Browser]:
    """A browser with an empty profile in `folder`, gone at the end."""
    found = programs()
    assert found is not None
    browser, driver = found
    process = subprocess.Popen([driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        port = _port(process)
        capabilities = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {
                "binary": browser,
                "args": [
                    "--headless",
                    "--no-sandbox",
                    "--disable-gpu",
                    "--no-first-run",
                    "--disable-dev-shm-usage",
                    "--disable-background-networking",
                    "--disable-component-update",
                    "--disable-sync",
                    f"--user-data-dir={folder / 'profile'}",
                    "--window-size=1200,1000",
                ],
            },
        }
        answer = call("POST", f"http://127.0.0.1:{port}/session", {"capabilities": {"alwaysMatch": capabilities}})
        window = Browser(port, answer["sessionId"])
        try:
            yield window
        finally:
            call("DELETE", window.base)
    finally:
        process.terminate()
        process.wait(timeout=20)
        assert process.stdout is not None
        process.stdout.close()


def call(method: str, address: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data=data, method=method, headers={"Content-Type": "application/json"})
    # No proxy: the driver is on this machine.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=60) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise AssertionError(f"the driver refused {address}: {json.load(error)['value']['message']}") from None


def _port(process: subprocess.Popen) -> int:
    assert process.stdout is not None
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        match = re.search(r"on port (\d+)", process.stdout.readline())
        if match and match[1] != "0":
            return int(match[1])
    raise AssertionError("chromedriver did not say on which port it listens")
