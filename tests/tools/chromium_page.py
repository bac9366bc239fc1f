"""chromium_page.py - opens pages in a headless Chromium without network, and reports what a reader
would miss: console errors, text that is cut or lies over other text, pictures without size.

inspect() opens one page that stands alone. A Browser opens one page after the other."""

import fcntl
import html
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

# What is wrong with the document that is shown, or with its parts that a selector chooses. Text may
# stand out of its box by the slack: in pixels.
FAULTS = """
function shows_all(style) {
  return style.display === 'inline' || ['auto', 'scroll'].includes(style.overflowX);
}
function find_faults(within, slack) {
  const faults = [];
  const say = (what, node) =>
    faults.push(what + ': ' + (node.textContent || '').trim().slice(0, 60));
  for (const svg of document.querySelectorAll(within + ' svg')) {
    const box = svg.getBoundingClientRect();
    if (box.width < 50 || box.height < 20) say('picture without size', svg);
    const texts = [...svg.querySelectorAll('text')].map(t => [t, t.getBoundingClientRect()]);
    for (const [text, r] of texts) {
      if (r.left < box.left - 1 || r.right > box.right + 1 || r.top < box.top - 1 ||
          r.bottom > box.bottom + 1) say('text outside its picture', text);
      for (const [other, o] of texts)
        if (text !== other && r.left < o.right - 1 && o.left < r.right - 1 &&
            r.top < o.bottom - 3 && o.top < r.bottom - 3) say('text over text', text);
    }
  }
  for (const node of document.querySelectorAll(within + ' :is(h1,h2,p,td,th,span,b,div)'))
    if (node.scrollWidth > node.clientWidth + slack && !shows_all(getComputedStyle(node)))
      say('text is cut', node);
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth)
    faults.push('the page is wider than the window');
  for (const image of document.images) if (!image.naturalWidth) say('picture missing', image);
  return faults;
}
"""
# Runs in a copy of the page, behind its content, and leaves its findings in the document.
PROBE = f"""
<script>
{FAULTS}
window.addEventListener('load', () => {{
  const faults = find_faults('', 1);
  const result = document.createElement('pre');
  result.id = 'probe';
  const pictures = document.querySelectorAll('svg').length;
  result.textContent = JSON.stringify({{faults, pictures}});
  document.body.appendChild(result);
}});
</script>
"""


STILL = """
addEventListener('DOMContentLoaded', () => {
  const style = document.createElement('style');
  style.textContent = '* { transition: none !important; animation: none !important; }';
  document.head.append(style);
});
"""


def find():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def command(directory):
    """Of a browser whose profile is in that directory."""
    return [
        find(),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--no-first-run",
        # Nothing can be fetched: every name fails to resolve.
        "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        f"--user-data-dir={directory}/profile",
    ]


def inspect(page, width=1000):
    """Opens the file and returns (faults, number of pictures). Faults are lines of text."""
    with tempfile.TemporaryDirectory(prefix="lockstep-page-") as directory:
        copy = os.path.join(directory, "page.html")
        with open(page, encoding="utf-8") as file:
            text = file.read()
        with open(copy, "w", encoding="utf-8") as file:
            file.write(text.replace("</body>", PROBE + "</body>"))
        done = subprocess.run(
            [
                *command(directory),
                f"--window-size={width},900",
                "--enable-logging=stderr",
                "--virtual-time-budget=2000",
                "--dump-dom",
                f"file://{copy}",
            ],
            capture_output=True,
            text=True,
            timeout=120,
        )
    found = re.search(r'<pre id="probe">(.*?)</pre>', done.stdout, re.DOTALL)
    if not found:
        return [f"the page did not load: {done.stderr[-2000:]}"], 0
    report = json.loads(html.unescape(found.group(1)))
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    fetched = re.findall(r'(?:src|href)="(?!data:|#)([^"]+)"', text)
    return (
        report["faults"]
        + [f"console: {line}" for line in console]
        + [f"refers to {address}" for address in fetched],
        report["pictures"],
    )


class Browser:
    """A browser with one tab, which answers over pipes: open(), faults(), value()."""

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="lockstep-browser-")
        theirs, self.ours = os.pipe(), os.pipe()
        # The browser reads commands from descriptor 3 and answers on 4.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (theirs[0], self.ours[1])]
        script = f'exec 3<&{ends[0]} 4>&{ends[1]} {ends[0]}<&- {ends[1]}>&-; exec "$@"'
        pipe = [*command(self.directory.name), "--remote-debugging-pipe", "about:blank"]
        self.process = subprocess.Popen(
            ["bash", "-c", script, "bash", *pipe],
            pass_fds=ends,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        for end in (*ends, theirs[0], self.ours[1]):
            os.close(end)
        self.commands, self.answers = os.fdopen(theirs[1], "wb", 0), os.fdopen(self.ours[0], "rb")
        self.count, self.session, self.events = 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for part in ("Page", "Runtime", "Log"):
            self.call(f"{part}.enable")
        # What a new width moves is at its place at once.
        self.call("Page.addScriptToEvaluateOnNewDocument", source=STILL)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.terminate()
        self.process.wait()
        self.commands.close()
        self.answers.close()
        self.end_helpers()
        self.directory.cleanup()

    def end_helpers(self):
        """The browser's own processes write into the directory for a moment after it has ended."""
        end = time.monotonic() + 5
        while time.monotonic() < end:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            time.sleep(0.05)

    def call(self, method, **parameters):
        self.count += 1
        message = {"id": self.count, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.commands.write(json.dumps(message).encode() + b"\0")
        while (answer := self.read()).get("id") != self.count:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def read(self):
        text = bytearray()
        while (byte := self.answers.read1(65536) if not self.rest else self.rest) != b"":
            text += byte
            self.rest = b""
            if b"\0" in byte:
                message, _, self.rest = bytes(text).partition(b"\0")
                return json.loads(message)
        raise RuntimeError("the browser has ended")

    rest = b""

    def resize(self, width):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def open(self, address):
        self.events = []
        self.call("Page.navigate", url=address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.read())

    def value(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def wait_for(self, expression, seconds=20):
        """The value as soon as it is true in the sense of JavaScript, else None."""
        end = time.monotonic() + seconds
        while not (found := self.value(expression)) and time.monotonic() < end:
            time.sleep(0.02)
        return found

    def faults(self, width, within, slack):
        """Of the page that is open, in a window of that width, with all complaints since open()."""
        self.resize(width)
        found = self.value(f"{FAULTS}; find_faults({within!r}, {slack})")
        return found + list(self.complaints())

    def complaints(self):
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                yield f"console: {what['exceptionDetails']}"
            elif method == "Log.entryAdded" and what["entry"]["level"] == "error":
                yield f"console: {what['entry']['text']} {what['entry'].get('url', '')}"
            elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
                yield f"console: {what['args']}"
