"""chromium_page.py - opens a page in a headless Chromium without network, and reports what a reader
would miss: console errors, text that is cut or lies over other text, pictures without size."""

import os
import re
import shutil
import subprocess
import tempfile

# Runs in a copy of the page, behind its content, and leaves its findings in the document.
PROBE = """
<script>
window.addEventListener('load', () => {
  const faults = [];
  const say = (what, node) =>
    faults.push(what + ': ' + (node.textContent || '').trim().slice(0, 60));
  for (const svg of document.querySelectorAll('svg')) {
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
  for (const node of document.querySelectorAll('h1,h2,p,td,th,span,b,div'))
    if (node.scrollWidth > node.clientWidth + 1 && getComputedStyle(node).display !== 'inline')
      say('text is cut', node);
  if (document.documentElement.scrollWidth > document.documentElement.clientWidth)
    faults.push('the page is wider than the window');
  for (const image of document.images) if (!image.naturalWidth) say('picture missing', image);
  const result = document.createElement('pre');
  result.id = 'probe';
  result.textContent = JSON.stringify({faults, pictures: document.querySelectorAll('svg').length});
  document.body.appendChild(result);
});
</script>
"""


def find():
    """The browser's path, or None."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def inspect(page, width=1000, site=None):
    """Opens the file and returns (faults, number of pictures). Faults are lines of text.

    With `site` the page may use files below that directory; else it must stand alone."""
    import html
    import json

    with tempfile.TemporaryDirectory(prefix="lockstep-page-") as directory:
        copy = os.path.join(directory, "page.html")
        if site:
            shutil.copytree(site, os.path.join(directory, "site"))
            copy = os.path.join(directory, "site", os.path.relpath(page, site))
        with open(page, encoding="utf-8") as file:
            text = file.read()
        with open(copy, "w", encoding="utf-8") as file:
            # The pictures of a site are those of its text: its frame has icons.
            probe = PROBE
            if site:
                probe = probe.replace("'svg'", "'article svg'").replace(
                    "'h1,h2,p,td,th,span,b,div'", "'article :is(h1,h2,p,td,th)'"
                )
                # Inline code has a border that may stand out of its paragraph.
                probe = probe.replace("node.clientWidth + 1", "node.clientWidth + 8")
            file.write(text.replace("</body>", probe + "</body>"))
        done = subprocess.run(
            [
                find(),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                # Nothing can be fetched: every name fails to resolve.
                "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--user-data-dir={directory}/profile",
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
    fetched = [] if site else re.findall(r'(?:src|href)="(?!data:|#)([^"]+)"', text)
    return (
        report["faults"]
        + [f"console: {line}" for line in console]
        + [f"refers to {address}" for address in fetched],
        report["pictures"],
    )
