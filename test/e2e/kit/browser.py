# SPDX-License-Identifier: ISC
"""A real browser without a window: Chromium, spoken to by its DevTools protocol.

The protocol comes over two pipes (descriptors 3 and 4 of the browser), each message a JSON text that
ends with a zero byte, so no package for WebSockets is needed.
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time

from .wait import LIMIT, wait_exit, wait_until

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

# What the keyboard sends besides the character.
CODES = {"Escape": 27, "Enter": 13, "Tab": 9, "ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40}


def find_browser():
    """The path of a browser, or None."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class Browser:
    def __init__(self, account, folder):
        account.mkdir(folder)
        # Its sandbox needs rights that a container may not give; it opens our own pages only.
        command = [find_browser(), "--headless", "--no-sandbox", "--disable-gpu",
                   "--disable-dev-shm-usage", "--remote-debugging-pipe", "--no-first-run",
                   "--force-color-profile=srgb", f"--user-data-dir={folder}", "about:blank"]
        their_in, self._out = os.pipe()
        self._in, their_out = os.pipe()
        self._log = open(f"{folder}/log", "wb")
        self.process = account.popen(
            command, preexec_fn=lambda: self._give(their_in, their_out), close_fds=False,
            stdout=self._log, stderr=self._log, cwd=folder, env={"HOME": folder})
        os.close(their_in)
        os.close(their_out)
        self._rest = b""
        self._last = 0
        self.pages = {}
        self.version = self.call("Browser.getVersion")["product"]

    @staticmethod
    def _give(their_in, their_out):
        pair = [fcntl.fcntl(number, fcntl.F_DUPFD, 10) for number in (their_in, their_out)]
        os.dup2(pair[0], 3)
        os.dup2(pair[1], 4)

    def call(self, method, session=None, **params):
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        self._send(json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + LIMIT
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _send(self, data):
        while data:
            data = data[os.write(self._out, data):]

    def _receive(self, deadline):
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError(f"the browser did not answer within {LIMIT} s")
            data = os.read(self._in, 1 << 16)
            if not data:
                raise RuntimeError(f"the browser has ended with {self.process.poll()}")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(message)
        if "method" in message and message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].note(message)
        return message

    def page(self, width=1280, height=900):
        return Page(self, width, height)

    def close(self):
        try:
            self.call("Browser.close")
            wait_exit(self.process, LIMIT)
        except (RuntimeError, OSError, TimeoutError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._in)
        os.close(self._out)
        self._log.close()


class Page:
    """A tab with cookies and storage of its own."""

    def __init__(self, browser, width, height):
        self.browser = browser
        self.problems = []  # errors of scripts, failed rules of the page's policy, ...
        self.requests = []  # URLs
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank",
                              browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target,
                                    flatten=True)["sessionId"]
        browser.pages[self.session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.size(width, height)

    def call(self, method, **params):
        return self.browser.call(method, session=self.session, **params)

    def note(self, event):
        kind, params = event["method"], event["params"]
        if kind == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif kind == "Runtime.consoleAPICalled":
            self.problems.append(f"console.{params['type']}: {params['args']}")
        elif kind == "Log.entryAdded":
            entry = params["entry"]
            self.problems.append(f"{entry['source']}: {entry['text']} {entry.get('url', '')}")
        elif kind == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])

    def goto(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def js(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"]["exception"].get("description"))
        return result["result"].get("value")

    def wait(self, expression, limit=None):
        return wait_until(lambda: self.js(expression), limit, f"{expression} in the browser")

    def press(self, key, shift=False):
        """A key, by its name in KeyboardEvent.key."""
        event = {"key": key, "modifiers": 8 if shift else 0}
        if key in CODES:
            event["windowsVirtualKeyCode"] = CODES[key]
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else None)
        self.call("Input.dispatchKeyEvent", type="keyDown", **event, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        for letter in text:
            self.press(letter)

    def click(self, selector):
        """A click of the mouse at the middle of the element."""
        x, y = self.js(f"""(() => {{
            const node = document.querySelector({json.dumps(selector)});
            node.scrollIntoView({{ block: "center" }});
            const box = node.getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2];
        }})()""")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=width < 600)

    def prefer(self, theme):
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": theme}])

    def picture(self):
        """A PNG of what can be seen."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def close(self):
        self.browser.pages.pop(self.session)
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
