#!/usr/bin/env python3
"""icache_page_test.py - the page of `lockstep-icache report` opens in Chromium without network: no
console error, all pictures there, no text cut, at the width of a screen and of a small window.

Usage: icache_page_test.py LOCKSTEP_ICACHE
Needs chromium and python3-matplotlib; without them, status 77.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

import chromium_page

NUMBERS = "1 5-2-b 5-5 5-6-a 5-6-b 5-7 5-8 5-9 5-10 5-13 5-14 5-15-a 5-15-b 5-16-a 5-16-b 5-17"
SECTIONS = (
    "What was run",
    "How it differs from the driver's",
    "Figures to reach, by cache",
    "Where STEPS makes it worse",
    "Hardware counters",
    "Table 5-1",
    "Table 5-3",
    "Table 5-4",
)


def check(out):
    done = subprocess.run(
        [sys.argv[1], "report", "--out", out, "--", "--brief", "--seconds", "0.3"],
        capture_output=True,
        text=True,
        timeout=1200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    page, folder = out / "index.html", str(out)
    text = page.read_text()
    # The pictures themselves: matplotlib knows where each text lies.
    faults = (out / "data" / "text_faults.txt").read_text()
    assert not faults, faults
    pictures = re.findall(r'<img src="figure-([\w-]+)\.png"', text)
    assert sorted(pictures) == sorted(NUMBERS.split()), pictures
    assert pictures[0] == "1", "the first picture does not answer the question"
    assert text.count("class=see>") == text.count("class=see></") + len(pictures)
    assert not re.search(r"class=see>\s*<", text), "a picture has no sentence"
    for section in SECTIONS:
        assert section in text, section
    for name in ("tuner off", "seed", "commit", "short-first", "icache: btree_inner"):
        assert name in text, name
    # Nothing is claimed of a noisy time.
    for row in re.findall(r"<tr>.*?</tr>", text):
        assert not ("too noisy" in row and "class=reached" in row), row
    with chromium_page.Browser() as browser:
        browser.open(page.resolve().as_uri())
        for width in (1400, 620):
            faults = browser.faults(width, "body", 1)
            assert not faults, f"at {width}: " + "\n".join(faults)


# `lockstep-icache report` draws with Debian's Python; the one that runs this test may be another.
matplotlib = subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], capture_output=True)
if not chromium_page.find() or matplotlib.returncode != 0:
    print("chromium or python3-matplotlib is not installed")
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="lockstep-icache-page-") as place:
    check(pathlib.Path(place))
print("the page is sound")
